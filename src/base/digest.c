#include "base/digest.h"

#include <xxhash.h>

void cr_digest_add(cr_digest *digest, const void *bytes, size_t n)
{
    XXH128_hash_t piece = XXH3_128bits(bytes, n);
    uint64_t both[4] = { digest->low, digest->high, piece.low64, piece.high64 };
    XXH128_hash_t sum = XXH3_128bits(both, sizeof both);
    *digest = (cr_digest){ sum.low64, sum.high64 };
}

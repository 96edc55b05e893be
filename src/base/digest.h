/* Digests of 128 bits (XXH3), for telling whether bytes are the same: of a file, of weights. They
 * find accidents, not forgers. */
#ifndef CR_DIGEST_H
#define CR_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cr_digest {
    uint64_t low, high;
} cr_digest;

/* What a digest over nothing is. */
#define CR_DIGEST_EMPTY ((cr_digest){ 0, 0 })

/* Goes on with n more bytes, as one piece: digest = XXH3(digest, XXH3(bytes)). The same bytes cut
 * into other pieces give another digest. */
void cr_digest_add(cr_digest *digest, const void *bytes, size_t n);

static inline bool cr_digest_equal(cr_digest a, cr_digest b)
{
    return a.low == b.low && a.high == b.high;
}

#endif

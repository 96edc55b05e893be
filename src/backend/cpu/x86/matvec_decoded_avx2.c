/* Matrix times vector for types that become floats first, eight lanes. */
#include "backend/cpu/x86/decode8.h"

CR_INLINE float merge_vecs(const vec chain[2])
{
    return merge_chains(chain[0], chain[1]);
}

#include "backend/cpu/matvec_decoded.h"

#define MATVEC(...) MATVEC_DECODED(avx2, __VA_ARGS__)
DECODERS(MATVEC)

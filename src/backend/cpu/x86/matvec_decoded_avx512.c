/* Matrix times vector for types that become floats first, sixteen lanes. */
#include "backend/cpu/x86/decode16.h"

CR_INLINE float merge_vecs(const vec chain[1])
{
    return merge_chains(chain[0]);
}

#include "backend/cpu/matvec_decoded.h"

#define MATVEC(...) MATVEC_DECODED(avx512, __VA_ARGS__)
DECODERS(MATVEC)

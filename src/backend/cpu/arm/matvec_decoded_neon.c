/* Matrix times vector for types that become floats first, four lanes. */
#include "backend/cpu/arm/decode4.h"

CR_INLINE float merge_vecs(const vec chain[VECTORS])
{
    return merge_chains(chain);
}

#include "backend/cpu/matvec_decoded.h"

#define MATVEC(...) MATVEC_DECODED(neon, __VA_ARGS__)
DECODERS(MATVEC)

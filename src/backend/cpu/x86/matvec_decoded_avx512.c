/* Matrix times vector for types that become floats first, sixteen lanes. */
#include "backend/cpu/x86/decode16.h"

CR_INLINE float merge_vecs(const vec chain[1])
{
    return merge_chains(chain[0]);
}

#include "backend/cpu/x86/matvec_decoded.h"

#define MATVEC(type, weights, bytes, unroll, unpack)                                               \
    void cr_matvec_##type##__avx512(float *y, const void *w, size_t row_bytes, size_t n_rows,      \
                                    const cr_act *x)                                               \
    {                                                                                              \
        matvec_decoded(y, w, row_bytes, n_rows, x,                                                 \
                       (decoder){ weights, bytes, unroll, unpack, part_##type });                  \
    }
DECODERS(MATVEC)

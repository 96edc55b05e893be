/* Matrix times vector, dotprod: SDOT adds four products to a lane. See matvec.h. */
#include "backend/cpu/arm/matvec.h"

#define MATVEC(name, unit_bytes, unit_quads, kind)                                                 \
    void cr_matvec_##name##__dotprod(float *y, const void *w, size_t row_bytes, size_t n_rows,     \
                                     const cr_act *x)                                              \
    {                                                                                              \
        matvec(y, w, row_bytes, n_rows, x, unit_bytes, unit_quads, kind, unpack_##name);           \
    }
INT8_TYPES(MATVEC)

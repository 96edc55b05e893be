/* Matrices of floats times many columns, through OpenBLAS: builds with CERA_BLAS only.
 *
 * Its order of sums is its own, and other for other shapes: a row's bits depend on how many rows
 * are computed with it (docs/numerics.md). Few columns still go to our own kernels.
 *
 * Every worker multiplies its own tile, on its own thread: OpenBLAS is told to start none. */
#include "backend/cpu/kernels.h"

#include <cblas.h>
#include <stddef.h>

/* y[c * y_stride + r] = dot(row r of w, x[c]), w [n_rows][x->n] */
static void multiply(float *y, size_t y_stride, const float *w, size_t n_rows, const cr_act *x,
                     size_t n_x)
{
    ptrdiff_t k = (ptrdiff_t)x->n;
    for (size_t c = 0, n; c < n_x; c += n) {
        /* Columns at equal distances are a matrix. */
        ptrdiff_t stride = c + 1 < n_x ? x[c + 1].f - x[c].f : k;
        for (n = 1; stride >= k && c + n < n_x && x[c + n].f - x[c + n - 1].f == stride;)
            n++;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, (blasint)n_rows,
                    (blasint)k, 1, x[c].f, (blasint)CR_MAX(stride, k), w, (blasint)k, 0,
                    y + c * y_stride, (blasint)y_stride);
    }
}

static void multiply_type(cr_type type, float *y, size_t y_stride, const void *w, size_t row_bytes,
                          size_t n_rows, const cr_act *x, size_t n_x, float *rows)
{
    const cr_type_info *info = cr_type_get(type);
    for (size_t r = 0; r < n_rows; r += CR_BLAS_ROWS) {
        size_t n = CR_MIN(n_rows - r, (size_t)CR_BLAS_ROWS);
        for (size_t i = 0; i < n; i++)
            info->dequantize((const uint8_t *)w + (r + i) * row_bytes, rows + i * x->n, x->n);
        multiply(y + r, y_stride, rows, n, x, n_x);
    }
}

#define MATMUL(TYPE)                                                                               \
    static void matmul_##TYPE(float *y, size_t y_stride, const void *w, size_t row_bytes,          \
                              size_t n_rows, const cr_act *x, size_t n_x, void *scratch)           \
    {                                                                                              \
        multiply_type(CR_TYPE_##TYPE, y, y_stride, w, row_bytes, n_rows, x, n_x, scratch);         \
    }
MATMUL(F32)
MATMUL(F16)
MATMUL(BF16)

void cr_blas_kernels(cr_kernels *out)
{
    openblas_set_num_threads(1);
    out->matmul_wide[CR_TYPE_F32] = matmul_F32;
    out->matmul_wide[CR_TYPE_F16] = matmul_F16;
    out->matmul_wide[CR_TYPE_BF16] = matmul_BF16;
}

const char *cr_blas_name(void)
{
    return openblas_get_config();
}

/* What matmul_float.h needs, four lanes: a vector is a quarter of the chains of a result. */
#include "backend/cpu/arm/decode4.h"

/* A tile has 24 chains, six of columns and one of a row in 31 of 32 registers. The quarters read the
 * same lines: a block of a tile's rows and columns, 20 KiB, fits L1. */
enum { ROWS = 4, COLUMNS = 6, SPAN = 16, PANEL = 16, GROUP = 6, BLOCK = 512 };
#define COUNTS(X, ...)                                                                             \
    X(1, __VA_ARGS__)                                                                              \
    X(2, __VA_ARGS__) X(3, __VA_ARGS__) X(4, __VA_ARGS__) X(5, __VA_ARGS__) X(6, __VA_ARGS__)

/* Chains of a tile's column. */
typedef vec tile_sums[ROWS][VECTORS];

/* y[c * y_stride + r]: merges the chains. */
CR_INLINE void store_sums(float *y, size_t y_stride, tile_sums *sums, size_t n_x, size_t n_rows)
{
    for (size_t c = 0; c < n_x; c++) {
        float64x2_t four[ROWS]; /* of a row, in pairs */
        CR_UNROLL
        for (size_t r = 0; r < ROWS; r++)
            four[r] = vreinterpretq_f64_f32(merge_to_4(sums[c][r]));
        vec two[ROWS / 2]; /* of two rows */
        CR_UNROLL
        for (size_t k = 0; k < ROWS / 2; k++)
            two[k] = vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(four[2 * k], four[2 * k + 1])),
                               vreinterpretq_f32_f64(vzip2q_f64(four[2 * k], four[2 * k + 1])));
        store_part(y + c * y_stride, vpaddq_f32(two[0], two[1]), n_rows);
    }
}

#include "backend/cpu/matmul_float.h"

MATMUL_FLOATS(f32, neon, 4)
MATMUL_FLOATS(f16, neon, 2)
MATMUL_FLOATS(bf16, neon, 2)

#define DECODED(...) MATMUL_DECODED(neon, __VA_ARGS__)
DECODERS(DECODED)

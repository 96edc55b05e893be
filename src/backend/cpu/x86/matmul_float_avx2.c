/* What matmul_float.h needs, eight lanes: a vector is half of the chains of a result. */
#include "backend/cpu/x86/decode8.h"

/* Both halves read the same lines: a block of rows and columns fits L1. */
enum { ROWS = 4, COLUMNS = 3, SPAN = 16, PANEL = 16, GROUP = 12, BLOCK = 256 };
#define COUNTS(X, ...) X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(3, __VA_ARGS__)

/* Chains of a tile's column. */
typedef vec tile_sums[ROWS][2];

/* y[c * y_stride + r]: merges the chains. */
CR_INLINE void store_sums(float *y, size_t y_stride, tile_sums *sums, size_t n_x, size_t n_rows)
{
    for (size_t c = 0; c < n_x; c++) {
        __m128 four[ROWS];
        CR_UNROLL
        for (size_t r = 0; r < ROWS; r++)
            four[r] = merge_to_4(sums[c][r][0], sums[c][r][1]);
        store_rows(y + c * y_stride, merge_rows(four[0], four[1], four[2], four[3]), n_rows);
    }
}

#include "backend/cpu/matmul_float.h"

CR_INLINE vec load_f16(const uint8_t *row, size_t i)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(row + 2 * i)));
}

CR_INLINE vec load_bf16(const uint8_t *row, size_t i)
{
    const __m128i words = _mm_loadu_si128((const __m128i *)(row + 2 * i));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
}

MATMUL_FLOATS(f32, avx2, 4)
MATMUL_FLOATS(f16, avx2, 2)
MATMUL_FLOATS(bf16, avx2, 2)

#define DECODED(...) MATMUL_DECODED(avx2, __VA_ARGS__)
DECODERS(DECODED)

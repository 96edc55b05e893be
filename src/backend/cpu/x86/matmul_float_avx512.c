/* What matmul_float.h needs, sixteen lanes: a vector is all chains of a result. */
#include "backend/cpu/x86/decode16.h"

/* Long blocks: rows and columns from L2 in time cost less than chains that wait. As many rows as a tile
 * of the plan has: a prompt's columns are not in L2, and each pass over them should serve many. */
enum { ROWS = 4, COLUMNS = 6, SPAN = 64, PANEL = 32, GROUP = 6, BLOCK = 2048 };
#define COUNTS(X, ...)                                                                             \
    X(1, __VA_ARGS__)                                                                              \
    X(2, __VA_ARGS__) X(3, __VA_ARGS__) X(4, __VA_ARGS__) X(5, __VA_ARGS__) X(6, __VA_ARGS__)

/* Chains of a tile's column. */
typedef vec tile_sums[ROWS][1];

/* y[c * y_stride + r]: merges the chains, four columns at a time. */
CR_INLINE void store_sums(float *y, size_t y_stride, tile_sums *sums, size_t n_x, size_t n_rows)
{
    const __mmask8 rows = (__mmask8)((1u << n_rows) - 1);
    for (size_t c = 0; c < n_x; c += 4) {
        const size_t last = n_x - c - 1; /* again in place of those that do not exist */
        const size_t c1 = CR_MIN(last, 1u), c2 = CR_MIN(last, 2u), c3 = CR_MIN(last, 3u);
        const tile_sums *s = sums + c;
        vec four[ROWS]; /* [column][chain] of a row */
        CR_UNROLL
        for (size_t r = 0; r < ROWS; r++)
            four[r] = merge_to_4(s[0][r][0], s[c1][r][0], s[c2][r][0], s[c3][r][0]);
        const vec all = merge_lanes(four[0], four[1], four[2], four[3]);
        float *to = y + c * y_stride;
        _mm_mask_storeu_ps(to, rows, _mm512_castps512_ps128(all));
        _mm_mask_storeu_ps(to + c1 * y_stride, rows, _mm512_extractf32x4_ps(all, 1));
        _mm_mask_storeu_ps(to + c2 * y_stride, rows, _mm512_extractf32x4_ps(all, 2));
        _mm_mask_storeu_ps(to + c3 * y_stride, rows, _mm512_extractf32x4_ps(all, 3));
    }
}

#include "backend/cpu/matmul_float.h"

CR_INLINE vec load_f16(const uint8_t *row, size_t i)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(row + 2 * i)));
}

CR_INLINE vec load_bf16(const uint8_t *row, size_t i)
{
    const __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(row + 2 * i)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}

MATMUL_FLOATS(f32, avx512, 4)
MATMUL_FLOATS(f16, avx512, 2)
MATMUL_FLOATS(bf16, avx512, 2)

#define DECODED(...) MATMUL_DECODED(avx512, __VA_ARGS__)
DECODERS(DECODED)

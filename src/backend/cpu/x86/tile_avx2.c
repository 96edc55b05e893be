/* The vectors of tile.h, eight lanes. */
#include "backend/cpu/x86/avx2.h"

typedef __m256 vec;
enum {
    LANES = 8,
    FEW = 1,   /* queries whose scores with four keys are in registers */
    MIXED = 2, /* queries whose sums of values are, 32 elements of each */
};

CR_INLINE vec vec_zero(void)
{
    return _mm256_setzero_ps();
}

CR_INLINE vec vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

CR_INLINE void vec_store(float *p, vec v)
{
    _mm256_storeu_ps(p, v);
}

CR_INLINE vec vec_all(const float *p)
{
    return _mm256_broadcast_ss(p);
}

CR_INLINE vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

CR_INLINE vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

CR_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* Rows become columns: pairs of rows, pairs of pairs, and 128-bit lanes. */
CR_INLINE void vec_transpose(vec r[LANES])
{
    vec t[LANES];
    CR_UNROLL
    for (int i = 0; i < LANES; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    CR_UNROLL
    for (int i = 0; i < LANES; i += 4)
        CR_UNROLL
    for (int k = 0; k < 2; k++) {
        const __m256d a = _mm256_castps_pd(t[i + k]), b = _mm256_castps_pd(t[i + k + 2]);
        r[i + 2 * k] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
        r[i + 2 * k + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
    }
    CR_UNROLL
    for (int c = 0; c < 4; c++) {
        const vec a = _mm256_permute2f128_ps(r[c], r[c + 4], 0x20);
        r[c + 4] = _mm256_permute2f128_ps(r[c], r[c + 4], 0x31);
        r[c] = a;
    }
}

CR_INLINE __m128 merge_four(vec chain[4][2])
{
    return merge_rows(merge_to_4(chain[0][0], chain[0][1]), merge_to_4(chain[1][0], chain[1][1]),
                      merge_to_4(chain[2][0], chain[2][1]), merge_to_4(chain[3][0], chain[3][1]));
}

CR_INLINE vec load_f16(const uint8_t *row, size_t i)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(row + 2 * i)));
}

/* [d][32 bytes] */
CR_INLINE vec load_q8_0(const uint8_t *row, size_t i)
{
    const uint8_t *block = row + i / 32 * 34;
    const __m128i q = _mm_loadl_epi64((const __m128i *)(block + 2 + i % 32));
    const __m256 d = _mm256_cvtph_ps(_mm_set1_epi16(word_at(block)));
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)));
}

#include "backend/cpu/x86/tile.h"

TILE(f32, avx2, 4 * n)
TILE(f16, avx2, 2 * n)
TILE(q8_0, avx2, n / 32 * 34)

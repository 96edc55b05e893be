/* Matrix times vector for types that multiply as floats and are not floats. Chains run over single
 * weights, in order over two vectors.
 *
 * MXFP4 has code of its own. For the others the type's definition decodes a block and only the sum
 * is this level's: decoding is most of the time, and the same with 512-bit sums was no faster. */
#include "backend/cpu/x86/avx2.h"

CR_INLINE float dot_row(const uint8_t *row, const cr_act *x, const cr_type_info *info)
{
    const size_t n = (size_t)info->weights;
    _Alignas(64) float w[256];
    __m256 low = _mm256_setzero_ps(), high = low;
    for (size_t i = 0; i < x->n; i += n, row += info->block_bytes) {
        info->dequantize(row, w, n);
        for (size_t j = 0; j < n; j += 16) {
            low = _mm256_fmadd_ps(_mm256_load_ps(w + j), _mm256_loadu_ps(x->f + i + j), low);
            high =
                _mm256_fmadd_ps(_mm256_load_ps(w + j + 8), _mm256_loadu_ps(x->f + i + j + 8), high);
        }
    }
    return merge_chains(low, high);
}

#define MATVEC(name, type)                                                                         \
    void cr_matvec_##name##__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows,        \
                                  const cr_act *x)                                                 \
    {                                                                                              \
        const cr_type_info *info = cr_type_get(CR_TYPE_##type);                                    \
        for (size_t r = 0; r < n_rows; r++)                                                        \
            y[r] = dot_row((const uint8_t *)w + r * row_bytes, x, info);                           \
    }
MATVEC(iq2_xxs, IQ2_XXS)
MATVEC(iq2_xs, IQ2_XS)
MATVEC(iq2_s, IQ2_S)
MATVEC(iq3_xxs, IQ3_XXS)
MATVEC(iq3_s, IQ3_S)
MATVEC(iq1_s, IQ1_S)
MATVEC(iq1_m, IQ1_M)
MATVEC(tq1_0, TQ1_0)
MATVEC(tq2_0, TQ2_0)

/* ---- MXFP4: [exponent][16 bytes], 17 bytes ---- */

/* Twice e2m1, as src/tensor/mxfp4.c has it. */
static const int8_t mxfp4_levels[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

/* 2^(e - 128); the two smallest are subnormal. */
CR_INLINE __m256 mxfp4_scale(uint32_t e)
{
    const uint32_t bits = e < 2 ? 0x200000u << e : (e - 1) << 23;
    return _mm256_castsi256_ps(_mm256_set1_epi32((int)bits));
}

/* Adds eight weights times activations. */
CR_INLINE __m256 mxfp4_add(__m256 chain, __m128i levels, __m256 d, const float *f)
{
    const __m256 w = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(levels)));
    return _mm256_fmadd_ps(w, _mm256_loadu_ps(f), chain);
}

void cr_matvec_mxfp4__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows,
                           const cr_act *x)
{
    const __m128i levels = _mm_loadu_si128((const __m128i *)mxfp4_levels);
    const __m128i mask = _mm_set1_epi8(15);
    for (size_t r = 0; r < n_rows; r++) {
        const uint8_t *p = (const uint8_t *)w + r * row_bytes;
        __m256 low = _mm256_setzero_ps(), high = low;
        for (const float *f = x->f, *end = f + x->n; f < end; f += 32, p += 17) {
            _mm_prefetch((const char *)p + 4096, _MM_HINT_T1);
            const __m256 d = mxfp4_scale(p[0]);
            const __m128i q = _mm_loadu_si128((const __m128i *)(p + 1));
            const __m128i a = _mm_shuffle_epi8(levels, _mm_and_si128(q, mask));
            const __m128i b = _mm_shuffle_epi8(levels, _mm_and_si128(_mm_srli_epi16(q, 4), mask));
            low = mxfp4_add(low, a, d, f);
            high = mxfp4_add(high, _mm_unpackhi_epi64(a, a), d, f + 8);
            low = mxfp4_add(low, b, d, f + 16);
            high = mxfp4_add(high, _mm_unpackhi_epi64(b, b), d, f + 24);
        }
        y[r] = merge_chains(low, high);
    }
}

/* Attention kernels over keys and values of Q8_0, as scalar/attention_scalar.c defines them: an
 * element d * q is exact, so these differ from the kernels of floats only in how sixteen of them
 * are loaded. */
#include "backend/cpu/x86/avx512.h"

enum { WEIGHTS = 32, BYTES = 34 };

CR_INLINE __m512 block_d(const uint8_t *block)
{
    return _mm512_cvtph_ps(_mm256_set1_epi16((short)(block[0] | block[1] << 8)));
}

/* The first or the second half of a block. */
CR_INLINE __m512 sixteen(const uint8_t *block, __m512 d, size_t half)
{
    const __m128i q = _mm_loadu_si128((const __m128i *)(block + 2 + 16 * half));
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q)));
}

/* Chains in lanes, 16 -> 8 -> 4 -> 2 -> 1. */
CR_INLINE float merge_one(__m512 chain)
{
    const __m256 c8 =
        _mm256_add_ps(_mm512_castps512_ps256(chain), _mm512_extractf32x8_ps(chain, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(c8), _mm256_extractf128_ps(c8, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

void cr_dot_keys_q8_0__avx512(float *s, const float *q, const void *keys, float scale, size_t n,
                              size_t n_keys)
{
    const uint8_t *block = keys;
    for (size_t j = 0; j < n_keys; j++) {
        __m512 chain = _mm512_setzero_ps();
        for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
            const __m512 d = block_d(block);
            chain = _mm512_fmadd_ps(sixteen(block, d, 0), _mm512_loadu_ps(q + i), chain);
            chain = _mm512_fmadd_ps(sixteen(block, d, 1), _mm512_loadu_ps(q + i + 16), chain);
        }
        s[j] = scale * merge_one(chain);
    }
}

void cr_mix_values_q8_0__avx512(float *o, const float *p, const void *values, size_t n,
                                size_t n_keys)
{
    const size_t row_bytes = n / WEIGHTS * BYTES;
    for (size_t i = 0; i < n; i += WEIGHTS) {
        const uint8_t *block = (const uint8_t *)values + i / WEIGHTS * BYTES;
        __m512 o0 = _mm512_loadu_ps(o + i), o1 = _mm512_loadu_ps(o + i + 16);
        for (size_t j = 0; j < n_keys; j++, block += row_bytes) {
            const __m512 weight = _mm512_set1_ps(p[j]), d = block_d(block);
            o0 = _mm512_fmadd_ps(weight, sixteen(block, d, 0), o0);
            o1 = _mm512_fmadd_ps(weight, sixteen(block, d, 1), o1);
        }
        _mm512_storeu_ps(o + i, o0);
        _mm512_storeu_ps(o + i + 16, o1);
    }
}

/* Attention kernels over keys and values of Q8_0, as scalar/attention_scalar.c defines them: an
 * element d * q is exact, so these differ from the kernels of floats only in how eight of them are
 * loaded. */
#include "backend/cpu/x86/avx2.h"

enum { WEIGHTS = 32, BYTES = 34 };

CR_INLINE __m256 block_d(const uint8_t *block)
{
    return _mm256_cvtph_ps(_mm_set1_epi16(word_at(block)));
}

/* Elements 8 i to 8 i + 7 of a block. */
CR_INLINE __m256 eight(const uint8_t *block, __m256 d, size_t i)
{
    const __m128i q = _mm_loadl_epi64((const __m128i *)(block + 2 + 8 * i));
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)));
}

void cr_dot_keys_q8_0__avx2(float *s, const float *q, const void *keys, float scale, size_t n,
                            size_t n_keys)
{
    const uint8_t *block = keys;
    for (size_t j = 0; j < n_keys; j++) {
        __m256 low = _mm256_setzero_ps(), high = low;
        for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
            const __m256 d = block_d(block);
            low = _mm256_fmadd_ps(eight(block, d, 0), _mm256_loadu_ps(q + i), low);
            high = _mm256_fmadd_ps(eight(block, d, 1), _mm256_loadu_ps(q + i + 8), high);
            low = _mm256_fmadd_ps(eight(block, d, 2), _mm256_loadu_ps(q + i + 16), low);
            high = _mm256_fmadd_ps(eight(block, d, 3), _mm256_loadu_ps(q + i + 24), high);
        }
        s[j] = scale * merge_chains(low, high);
    }
}

void cr_mix_values_q8_0__avx2(float *o, const float *p, const void *values, size_t n, size_t n_keys)
{
    const size_t row_bytes = n / WEIGHTS * BYTES;
    for (size_t i = 0; i < n; i += WEIGHTS) {
        const uint8_t *block = (const uint8_t *)values + i / WEIGHTS * BYTES;
        __m256 o0 = _mm256_loadu_ps(o + i), o1 = _mm256_loadu_ps(o + i + 8);
        __m256 o2 = _mm256_loadu_ps(o + i + 16), o3 = _mm256_loadu_ps(o + i + 24);
        for (size_t j = 0; j < n_keys; j++, block += row_bytes) {
            const __m256 weight = _mm256_broadcast_ss(p + j), d = block_d(block);
            o0 = _mm256_fmadd_ps(weight, eight(block, d, 0), o0);
            o1 = _mm256_fmadd_ps(weight, eight(block, d, 1), o1);
            o2 = _mm256_fmadd_ps(weight, eight(block, d, 2), o2);
            o3 = _mm256_fmadd_ps(weight, eight(block, d, 3), o3);
        }
        _mm256_storeu_ps(o + i, o0);
        _mm256_storeu_ps(o + i + 8, o1);
        _mm256_storeu_ps(o + i + 16, o2);
        _mm256_storeu_ps(o + i + 24, o3);
    }
}

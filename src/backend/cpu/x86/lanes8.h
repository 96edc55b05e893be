/* Vectors of eight floats, under the names that code for both AVX levels uses. */
#ifndef CR_LANES8_H
#define CR_LANES8_H

#include "backend/cpu/x86/avx2.h"

typedef __m256 vec;
enum { LANES = 8 };

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

#endif

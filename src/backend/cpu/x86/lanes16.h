/* Vectors of sixteen floats, under the names that code for both AVX levels uses. */
#ifndef CR_LANES16_H
#define CR_LANES16_H

#include "backend/cpu/x86/avx512.h"

typedef __m512 vec;
enum { LANES = 16 };

CR_INLINE vec vec_zero(void)
{
    return _mm512_setzero_ps();
}

CR_INLINE vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

CR_INLINE void vec_store(float *p, vec v)
{
    _mm512_storeu_ps(p, v);
}

CR_INLINE vec vec_all(const float *p)
{
    return _mm512_set1_ps(*p);
}

CR_INLINE vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

CR_INLINE vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

CR_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* Rows become columns: pairs of rows, pairs of pairs, and twice 128-bit lanes. */
CR_INLINE void vec_transpose(vec r[LANES])
{
    vec t[LANES];
    CR_UNROLL
    for (int i = 0; i < LANES; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    CR_UNROLL
    for (int i = 0; i < LANES; i += 4)
        CR_UNROLL
    for (int k = 0; k < 2; k++) {
        const __m512d a = _mm512_castps_pd(t[i + k]), b = _mm512_castps_pd(t[i + k + 2]);
        r[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
        r[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
    /* Lane l of r[i + c] has column 4 l + c of rows i to i + 3. */
    CR_UNROLL
    for (int c = 0; c < 4; c++) {
        const vec a = _mm512_shuffle_f32x4(r[c], r[c + 4], 0x88);
        const vec b = _mm512_shuffle_f32x4(r[c + 8], r[c + 12], 0x88);
        const vec d = _mm512_shuffle_f32x4(r[c], r[c + 4], 0xdd);
        const vec e = _mm512_shuffle_f32x4(r[c + 8], r[c + 12], 0xdd);
        r[c] = _mm512_shuffle_f32x4(a, b, 0x88);
        r[c + 8] = _mm512_shuffle_f32x4(a, b, 0xdd);
        r[c + 4] = _mm512_shuffle_f32x4(d, e, 0x88);
        r[c + 12] = _mm512_shuffle_f32x4(d, e, 0xdd);
    }
}

#endif

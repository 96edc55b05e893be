/* Vector kernels: quantisation of activations, norm, gate, weighted sums, exponentials. */
#include <math.h>

#include "backend/cpu/x86/avx512.h"

/* q of sixteen values, and their sum. */
CR_INLINE int16_t quantize_half(int8_t *q, __m512 f, __m512 id)
{
    __m512 v = _mm512_mul_ps(f, id);
    v = _mm512_max_ps(v, _mm512_set1_ps(-127.0f)); /* -127 for a NaN, as the definition says */
    v = _mm512_min_ps(v, _mm512_set1_ps(127.0f));
    const __m512i i = _mm512_cvtps_epi32(v);
    _mm_store_si128((__m128i *)q, _mm512_cvtepi32_epi8(i));
    return (int16_t)_mm512_reduce_add_epi32(i);
}

void cr_quantize__avx512(cr_act *x)
{
    const size_t n_blocks = x->n / 32;
    for (size_t b = 0; b < n_blocks; b++) {
        const __m512 f0 = _mm512_loadu_ps(x->f + 32 * b), f1 = _mm512_loadu_ps(x->f + 32 * b + 16);
        /* Without the sign, floats are ordered like integers, and a NaN is the largest. */
        const __m512i largest = _mm512_max_epi32(_mm512_castps_si512(_mm512_abs_ps(f0)),
                                                 _mm512_castps_si512(_mm512_abs_ps(f1)));
        const __m128 amax = _mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(largest)));
        const float d = _mm_cvtss_f32(amax) / 127.0f;
        float id = 1.0f / d;
        if (!isfinite(id))
            id = 0.0f;
        int8_t *q = x->q + cr_act_index(32 * b);
        x->d[b] = d;
        x->sum[2 * b] = quantize_half(q, f0, _mm512_set1_ps(id));
        x->sum[2 * b + 1] = quantize_half(q + 64, f1, _mm512_set1_ps(id));
    }
    for (size_t b = n_blocks; b % 16 != 0; b++) {
        int8_t *q = x->q + cr_act_index(32 * b);
        _mm_store_si128((__m128i *)q, _mm_setzero_si128());
        _mm_store_si128((__m128i *)(q + 64), _mm_setzero_si128());
        x->d[b] = 0.0f;
        x->sum[2 * b] = x->sum[2 * b + 1] = 0;
    }
}

void cr_rms_norm__avx512(float *y, const float *x, const float *w, size_t n, float eps)
{
    __m512 c = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 lanes = first_lanes(n - i);
        const __m512 v = _mm512_maskz_loadu_ps(lanes, x + i);
        c = _mm512_mask3_fmadd_ps(v, v, c, lanes);
    }
    const __m512 scale = _mm512_set1_ps(1.0f / sqrtf(merge_chains(c) / (float)n + eps));
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 lanes = first_lanes(n - i);
        const __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, x + i), scale);
        _mm512_mask_storeu_ps(y + i, lanes, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(lanes, w + i)));
    }
}

void cr_silu_mul__avx512(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 lanes = first_lanes(n - i);
        const __m512 v =
            _mm512_max_ps(_mm512_set1_ps(CR_EXP_MIN), _mm512_maskz_loadu_ps(lanes, gate + i));
        const __m512 e = exp_lanes(_mm512_xor_ps(v, _mm512_set1_ps(-0.0f)));
        const __m512 s = _mm512_div_ps(v, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
        _mm512_mask_storeu_ps(y + i, lanes, _mm512_mul_ps(s, _mm512_maskz_loadu_ps(lanes, up + i)));
    }
}

void cr_gelu_mul__avx512(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 lanes = first_lanes(n - i);
        const __m512 v =
            _mm512_max_ps(_mm512_set1_ps(CR_EXP_MIN), _mm512_maskz_loadu_ps(lanes, gate + i));
        const __m512 slope = _mm512_fmadd_ps(_mm512_set1_ps(CR_GELU_C3), _mm512_mul_ps(v, v),
                                             _mm512_set1_ps(CR_GELU_C1));
        const __m512 t = _mm512_mul_ps(v, slope);
        const __m512 e = exp_lanes(_mm512_xor_ps(t, _mm512_set1_ps(-0.0f)));
        const __m512 g = _mm512_div_ps(v, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
        _mm512_mask_storeu_ps(y + i, lanes, _mm512_mul_ps(g, _mm512_maskz_loadu_ps(lanes, up + i)));
    }
}

void cr_soft_cap__avx512(float *x, float cap, size_t n)
{
    const __m512 one = _mm512_set1_ps(1.0f), c = _mm512_set1_ps(cap);
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 lanes = first_lanes(n - i);
        const __m512 t = _mm512_div_ps(_mm512_maskz_loadu_ps(lanes, x + i), c);
        const __m512 e = exp_lanes(_mm512_add_ps(t, t));
        const __m512 part = _mm512_div_ps(_mm512_set1_ps(2.0f), _mm512_add_ps(one, e));
        _mm512_mask_storeu_ps(x + i, lanes, _mm512_mul_ps(c, _mm512_sub_ps(one, part)));
    }
}

void cr_add_scaled__avx512(float *y, const float *x, float scale, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 lanes = first_lanes(n - i);
        const __m512 v = _mm512_maskz_loadu_ps(lanes, x + i);
        _mm512_mask_storeu_ps(
            y + i, lanes,
            _mm512_fmadd_ps(_mm512_set1_ps(scale), v, _mm512_maskz_loadu_ps(lanes, y + i)));
    }
}

float cr_largest__avx512(const float *s, size_t n)
{
    __m512 most = _mm512_set1_ps(s[0]);
    for (size_t i = 0; i < n; i += 16)
        most = _mm512_mask_max_ps(most, first_lanes(n - i), most,
                                  _mm512_maskz_loadu_ps(first_lanes(n - i), s + i));
    return _mm512_reduce_max_ps(most);
}

float cr_exp_sum__avx512(float *s, float max, size_t n)
{
    __m512 c = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 lanes = first_lanes(n - i);
        const __m512 v = _mm512_maskz_loadu_ps(lanes, s + i);
        const __m512 e = exp_lanes(_mm512_sub_ps(v, _mm512_set1_ps(max)));
        _mm512_mask_storeu_ps(s + i, lanes, e);
        c = _mm512_mask_add_ps(c, lanes, c, e);
    }
    return merge_chains(c);
}

/* ---- sum of values ---- */

typedef __m512 load_floats(const void *p, size_t i, __mmask16 lanes);

CR_INLINE __m512 load_f32(const void *p, size_t i, __mmask16 lanes)
{
    return _mm512_maskz_loadu_ps(lanes, (const float *)p + i);
}

CR_INLINE __m512 load_f16(const void *p, size_t i, __mmask16 lanes)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, (const uint16_t *)p + i));
}

/* Up to 64 columns stay in registers while all keys pass. */
CR_INLINE void mix_values(float *o, const float *p, const void *values, size_t n, size_t n_keys,
                          load_floats *load)
{
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512 o0 = _mm512_loadu_ps(o + i), o1 = _mm512_loadu_ps(o + i + 16);
        __m512 o2 = _mm512_loadu_ps(o + i + 32), o3 = _mm512_loadu_ps(o + i + 48);
        for (size_t j = 0; j < n_keys; j++) {
            const __m512 weight = _mm512_set1_ps(p[j]);
            o0 = _mm512_fmadd_ps(weight, load(values, j * n + i, 0xffff), o0);
            o1 = _mm512_fmadd_ps(weight, load(values, j * n + i + 16, 0xffff), o1);
            o2 = _mm512_fmadd_ps(weight, load(values, j * n + i + 32, 0xffff), o2);
            o3 = _mm512_fmadd_ps(weight, load(values, j * n + i + 48, 0xffff), o3);
        }
        _mm512_storeu_ps(o + i, o0);
        _mm512_storeu_ps(o + i + 16, o1);
        _mm512_storeu_ps(o + i + 32, o2);
        _mm512_storeu_ps(o + i + 48, o3);
    }
    for (; i < n; i += 16) {
        const __mmask16 lanes = first_lanes(n - i);
        __m512 sum = _mm512_maskz_loadu_ps(lanes, o + i);
        for (size_t j = 0; j < n_keys; j++)
            sum = _mm512_fmadd_ps(_mm512_set1_ps(p[j]), load(values, j * n + i, lanes), sum);
        _mm512_mask_storeu_ps(o + i, lanes, sum);
    }
}

void cr_mix_values_f32__avx512(float *o, const float *p, const void *values, size_t n,
                               size_t n_keys)
{
    mix_values(o, p, values, n, n_keys, load_f32);
}

void cr_mix_values_f16__avx512(float *o, const float *p, const void *values, size_t n,
                               size_t n_keys)
{
    mix_values(o, p, values, n, n_keys, load_f16);
}

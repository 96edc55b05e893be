/* Vector kernels: quantisation of activations, norm, gate, weighted sums, exponentials. */
#include <math.h>

#include "backend/cpu/x86/avx512.h"

CR_INLINE __m128i quantize_half(__m512 f, __m512 id)
{
    __m512 v = _mm512_mul_ps(f, id);
    v = _mm512_max_ps(v, _mm512_set1_ps(-127.0f)); /* -127 for a NaN, as the definition says */
    v = _mm512_min_ps(v, _mm512_set1_ps(127.0f));
    return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v));
}

/* The largest of the sixteen floats without sign, a NaN before all, in lane k for v[k]. */
CR_INLINE __m128 largest_of_each(const __m512i v[4])
{
    const __m512i m01 =
        _mm512_max_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const __m512i m23 =
        _mm512_max_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    const __m512i m =
        _mm512_max_epi32(_mm512_unpacklo_epi64(m01, m23), _mm512_unpackhi_epi64(m01, m23));
    const __m256i half =
        _mm256_max_epi32(_mm512_castsi512_si256(m), _mm512_extracti64x4_epi64(m, 1));
    return _mm_castsi128_ps(
        _mm_max_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
}

/* Four blocks from b on; those from n_blocks on are zeros. */
CR_INLINE void quantize_quad(cr_act *x, size_t b, size_t n_blocks)
{
    __m512 f[4][2];
    __m512i size[4];
    CR_UNROLL
    for (size_t k = 0; k < 4; k++) {
        const __mmask16 lanes = b + k < n_blocks ? 0xffff : 0;
        f[k][0] = _mm512_maskz_loadu_ps(lanes, x->f + 32 * (b + k));
        f[k][1] = _mm512_maskz_loadu_ps(lanes, x->f + 32 * (b + k) + 16);
        /* Without the sign, floats are ordered like integers, and a NaN is the largest. */
        size[k] = _mm512_max_epi32(_mm512_castps_si512(_mm512_abs_ps(f[k][0])),
                                   _mm512_castps_si512(_mm512_abs_ps(f[k][1])));
    }
    const __m128 d = _mm_div_ps(largest_of_each(size), _mm_set1_ps(127.0f));
    __m128 id = _mm_div_ps(_mm_set1_ps(1.0f), d);
    id = _mm_maskz_mov_ps((__mmask8)~_mm_fpclass_ps_mask(id, 0x99), id); /* NaN and infinities: 0 */
    _mm_store_ps(x->d + b, d);

    __m128i sums[4];
    float ids[4];
    _mm_storeu_ps(ids, id);
    CR_UNROLL
    for (size_t k = 0; k < 4; k++) {
        int8_t *q = x->q + cr_act_index(32 * (b + k));
        const __m512 all = _mm512_set1_ps(ids[k]);
        const __m128i q0 = quantize_half(f[k][0], all), q1 = quantize_half(f[k][1], all);
        _mm_store_si128((__m128i *)q, q0);
        _mm_store_si128((__m128i *)(q + 64), q1);
        const __m128i one = _mm_set1_epi8(1);
        sums[k] = _mm_hadd_epi32(_mm_dpbusd_epi32(_mm_setzero_si128(), one, q0),
                                 _mm_dpbusd_epi32(_mm_setzero_si128(), one, q1));
    }
    /* Each has two parts of the first half's sum, then two of the second's. */
    const __m128i s01 = _mm_hadd_epi32(sums[0], sums[1]), s23 = _mm_hadd_epi32(sums[2], sums[3]);
    _mm_store_si128((__m128i *)(x->sum + 2 * b), _mm_packs_epi32(s01, s23));
}

void cr_quantize__avx512(cr_act *x)
{
    const size_t n_blocks = x->n / 32;
    size_t b = 0;
    for (; b < n_blocks; b += 4)
        quantize_quad(x, b, n_blocks);
    for (; b % 16 != 0; b += 4) {
        _mm512_store_si512(x->q + 32 * b, _mm512_setzero_si512());
        _mm512_store_si512(x->q + 32 * b + 64, _mm512_setzero_si512());
        _mm_store_ps(x->d + b, _mm_setzero_ps());
        _mm_store_si128((__m128i *)(x->sum + 2 * b), _mm_setzero_si128());
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
    const __m512 least = _mm512_set1_ps(CR_SOFTMAX_MIN);
    __m512 c = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 lanes = first_lanes(n - i);
        const __m512 v = _mm512_sub_ps(_mm512_maskz_loadu_ps(lanes, s + i), _mm512_set1_ps(max));
        const __mmask16 counts = _mm512_cmp_ps_mask(v, least, _CMP_NLT_UQ);
        const __m512 e = _mm512_maskz_mov_ps(counts, exp_lanes(_mm512_max_ps(least, v)));
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

/* Vector kernels: quantisation of activations, norm, gate, weighted sums, exponentials. */
#include <math.h>

#include "backend/cpu/x86/avx2.h"

/* ---- quantize ---- */

CR_INLINE __m256i magnitude(const float *f)
{
    return _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(f)), _mm256_set1_epi32(0x7fffffff));
}

/* The largest of 32 floats by size. Without the sign they are ordered like integers, and a NaN is
 * the largest. */
CR_INLINE float largest(const float *f)
{
    const __m256i a = _mm256_max_epi32(magnitude(f), magnitude(f + 8));
    const __m256i b = _mm256_max_epi32(magnitude(f + 16), magnitude(f + 24));
    const __m256i c = _mm256_max_epi32(a, b);
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(c), _mm256_extracti128_si256(c, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(m));
}

CR_INLINE __m256i quantize_8(const float *f, __m256 id)
{
    __m256 v = _mm256_mul_ps(_mm256_loadu_ps(f), id);
    v = _mm256_max_ps(v, _mm256_set1_ps(-127.0f)); /* -127 for a NaN, as the definition says */
    v = _mm256_min_ps(v, _mm256_set1_ps(127.0f));
    return _mm256_cvtps_epi32(v);
}

/* q of sixteen values, and their sum. */
CR_INLINE int16_t quantize_half(int8_t *q, const float *f, __m256 id)
{
    const __m256i a = quantize_8(f, id), b = quantize_8(f + 8, id);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_store_si128((__m128i *)q, bytes);
    const __m256i c = _mm256_add_epi32(a, b);
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(c), _mm256_extracti128_si256(c, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return (int16_t)_mm_cvtsi128_si32(s);
}

void cr_quantize__avx2(cr_act *x)
{
    const size_t n_blocks = x->n / 32;
    for (size_t b = 0; b < n_blocks; b++) {
        const float *f = x->f + 32 * b;
        const float d = largest(f) / 127.0f;
        float id = 1.0f / d;
        if (!isfinite(id))
            id = 0.0f;
        int8_t *q = x->q + cr_act_index(32 * b);
        x->d[b] = d;
        x->sum[2 * b] = quantize_half(q, f, _mm256_set1_ps(id));
        x->sum[2 * b + 1] = quantize_half(q + 64, f + 16, _mm256_set1_ps(id));
    }
    for (size_t b = n_blocks; b % 16 != 0; b++) {
        int8_t *q = x->q + cr_act_index(32 * b);
        _mm_store_si128((__m128i *)q, _mm_setzero_si128());
        _mm_store_si128((__m128i *)(q + 64), _mm_setzero_si128());
        x->d[b] = 0.0f;
        x->sum[2 * b] = x->sum[2 * b + 1] = 0;
    }
}

/* ---- norm, gate, weighted sum, exponentials ---- */

/* Where less than a vector is left: lanes that are off read as zero and are not touched. */
CR_INLINE __m256 load_part(const float *p, __m256i lanes)
{
    return _mm256_maskload_ps(p, lanes);
}

void cr_rms_norm__avx2(float *y, const float *x, const float *w, size_t n, float eps)
{
    __m256 c[2] = { _mm256_setzero_ps(), _mm256_setzero_ps() };
    for (size_t i = 0; i < n; i += 8) {
        /* Squares of nothing add +0 to chains that are never -0: no change. */
        const __m256 v = load_part(x + i, first_lanes(n - i));
        c[i / 8 % 2] = _mm256_fmadd_ps(v, v, c[i / 8 % 2]);
    }
    const __m256 scale = _mm256_set1_ps(1.0f / sqrtf(merge_chains(c[0], c[1]) / (float)n + eps));
    for (size_t i = 0; i < n; i += 8) {
        const __m256i lanes = first_lanes(n - i);
        const __m256 v = _mm256_mul_ps(load_part(x + i, lanes), scale);
        _mm256_maskstore_ps(y + i, lanes, _mm256_mul_ps(v, load_part(w + i, lanes)));
    }
}

void cr_silu_mul__avx2(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        const __m256i lanes = first_lanes(n - i);
        const __m256 v = _mm256_max_ps(_mm256_set1_ps(CR_EXP_MIN), load_part(gate + i, lanes));
        const __m256 e = exp_lanes(_mm256_xor_ps(v, _mm256_set1_ps(-0.0f)));
        const __m256 s = _mm256_div_ps(v, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
        _mm256_maskstore_ps(y + i, lanes, _mm256_mul_ps(s, load_part(up + i, lanes)));
    }
}

void cr_gelu_mul__avx2(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        const __m256i lanes = first_lanes(n - i);
        const __m256 v = _mm256_max_ps(_mm256_set1_ps(CR_EXP_MIN), load_part(gate + i, lanes));
        const __m256 slope = _mm256_fmadd_ps(_mm256_set1_ps(CR_GELU_C3), _mm256_mul_ps(v, v),
                                             _mm256_set1_ps(CR_GELU_C1));
        const __m256 t = _mm256_mul_ps(v, slope);
        const __m256 e = exp_lanes(_mm256_xor_ps(t, _mm256_set1_ps(-0.0f)));
        const __m256 g = _mm256_div_ps(v, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
        _mm256_maskstore_ps(y + i, lanes, _mm256_mul_ps(g, load_part(up + i, lanes)));
    }
}

void cr_soft_cap__avx2(float *x, float cap, size_t n)
{
    const __m256 one = _mm256_set1_ps(1.0f), c = _mm256_set1_ps(cap);
    for (size_t i = 0; i < n; i += 8) {
        const __m256i lanes = first_lanes(n - i);
        const __m256 t = _mm256_div_ps(load_part(x + i, lanes), c);
        const __m256 e = exp_lanes(_mm256_add_ps(t, t));
        const __m256 part = _mm256_div_ps(_mm256_set1_ps(2.0f), _mm256_add_ps(one, e));
        _mm256_maskstore_ps(x + i, lanes, _mm256_mul_ps(c, _mm256_sub_ps(one, part)));
    }
}

void cr_add_scaled__avx2(float *y, const float *x, float scale, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        const __m256i lanes = first_lanes(n - i);
        _mm256_maskstore_ps(y + i, lanes,
                            _mm256_fmadd_ps(_mm256_set1_ps(scale), load_part(x + i, lanes),
                                            load_part(y + i, lanes)));
    }
}

void cr_store_cache_f16__avx2(void *dst, const float *src, size_t n)
{
    uint16_t *to = dst;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
    cr_store_cache_f16__scalar(to + i, src + i, n - i);
}

float cr_largest__avx2(const float *s, size_t n)
{
    __m256 most = _mm256_set1_ps(s[0]);
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        most = _mm256_max_ps(most, _mm256_loadu_ps(s + i));
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
    for (; i < n; i++)
        m = _mm_max_ss(m, _mm_load_ss(s + i));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

float cr_exp_sum__avx2(float *s, float max, size_t n)
{
    const __m256 least = _mm256_set1_ps(CR_SOFTMAX_MIN);
    __m256 c[2] = { _mm256_setzero_ps(), _mm256_setzero_ps() };
    for (size_t i = 0; i < n; i += 8) {
        const __m256i lanes = first_lanes(n - i);
        const __m256 v = _mm256_sub_ps(load_part(s + i, lanes), _mm256_set1_ps(max));
        const __m256 counts =
            _mm256_and_ps(_mm256_cmp_ps(v, least, _CMP_NLT_UQ), _mm256_castsi256_ps(lanes));
        const __m256 e = _mm256_and_ps(exp_lanes(_mm256_max_ps(least, v)), counts);
        _mm256_maskstore_ps(s + i, lanes, e);
        c[i / 8 % 2] = _mm256_add_ps(c[i / 8 % 2], e); /* +0 to what is not -0: no change */
    }
    return merge_chains(c[0], c[1]);
}

/* ---- sum of values ---- */

CR_INLINE __m256 load_f32(const void *p, size_t i)
{
    return _mm256_loadu_ps((const float *)p + i);
}

CR_INLINE __m256 load_f16(const void *p, size_t i)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)((const uint16_t *)p + i)));
}

CR_INLINE float one_f32(const void *p, size_t i)
{
    return ((const float *)p)[i];
}

CR_INLINE float one_f16(const void *p, size_t i)
{
    return _cvtsh_ss(((const uint16_t *)p)[i]);
}

/* Up to 32 columns stay in registers while all keys pass. */
CR_INLINE void mix_values(float *o, const float *p, const void *values, size_t n, size_t n_keys,
                          __m256 (*load)(const void *, size_t), float (*one)(const void *, size_t))
{
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256 o0 = _mm256_loadu_ps(o + i), o1 = _mm256_loadu_ps(o + i + 8);
        __m256 o2 = _mm256_loadu_ps(o + i + 16), o3 = _mm256_loadu_ps(o + i + 24);
        for (size_t j = 0; j < n_keys; j++) {
            const __m256 weight = _mm256_broadcast_ss(p + j);
            o0 = _mm256_fmadd_ps(weight, load(values, j * n + i), o0);
            o1 = _mm256_fmadd_ps(weight, load(values, j * n + i + 8), o1);
            o2 = _mm256_fmadd_ps(weight, load(values, j * n + i + 16), o2);
            o3 = _mm256_fmadd_ps(weight, load(values, j * n + i + 24), o3);
        }
        _mm256_storeu_ps(o + i, o0);
        _mm256_storeu_ps(o + i + 8, o1);
        _mm256_storeu_ps(o + i + 16, o2);
        _mm256_storeu_ps(o + i + 24, o3);
    }
    for (; i + 8 <= n; i += 8) {
        __m256 sum = _mm256_loadu_ps(o + i);
        for (size_t j = 0; j < n_keys; j++)
            sum = _mm256_fmadd_ps(_mm256_broadcast_ss(p + j), load(values, j * n + i), sum);
        _mm256_storeu_ps(o + i, sum);
    }
    for (; i < n; i++)
        for (size_t j = 0; j < n_keys; j++)
            o[i] = fmaf(p[j], one(values, j * n + i), o[i]);
}

void cr_mix_values_f32__avx2(float *o, const float *p, const void *values, size_t n, size_t n_keys)
{
    mix_values(o, p, values, n, n_keys, load_f32, one_f32);
}

void cr_mix_values_f16__avx2(float *o, const float *p, const void *values, size_t n, size_t n_keys)
{
    mix_values(o, p, values, n, n_keys, load_f16, one_f16);
}

/* Vector kernels: quantisation of activations, norm, gates, weighted sums, exponentials. */
#include <math.h>

#include "backend/cpu/arm/neon.h"

/* ---- quantize ---- */

CR_INLINE uint32x4_t magnitude(const float *f)
{
    return vandq_u32(vreinterpretq_u32_f32(vld1q_f32(f)), vdupq_n_u32(0x7fffffff));
}

/* The largest of 32 floats by size. Without the sign they are ordered like integers, and a NaN is
 * the largest. */
CR_INLINE float largest(const float *f)
{
    uint32x4_t m = magnitude(f);
    for (int i = 4; i < 32; i += 4)
        m = vmaxq_u32(m, magnitude(f + i));
    const uint32_t bits = vmaxvq_u32(m);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

CR_INLINE int32x4_t quantize_4(const float *f, float32x4_t id)
{
    float32x4_t v = vmulq_f32(vld1q_f32(f), id);
    v = vmaxnmq_f32(v, vdupq_n_f32(-127.0f)); /* -127 for a NaN, as the definition says */
    v = vminnmq_f32(v, vdupq_n_f32(127.0f));
    return vcvtnq_s32_f32(v);
}

/* q of sixteen values, and their sum. */
CR_INLINE int16_t quantize_half(int8_t *q, const float *f, float32x4_t id)
{
    const int16x8_t low =
        vcombine_s16(vmovn_s32(quantize_4(f, id)), vmovn_s32(quantize_4(f + 4, id)));
    const int16x8_t high =
        vcombine_s16(vmovn_s32(quantize_4(f + 8, id)), vmovn_s32(quantize_4(f + 12, id)));
    vst1q_s8(q, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
    return vaddvq_s16(vaddq_s16(low, high));
}

void cr_quantize__neon(cr_act *x)
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
        x->sum[2 * b] = quantize_half(q, f, vdupq_n_f32(id));
        x->sum[2 * b + 1] = quantize_half(q + 64, f + 16, vdupq_n_f32(id));
    }
    for (size_t b = n_blocks; b % 16 != 0; b++) {
        int8_t *q = x->q + cr_act_index(32 * b);
        vst1q_s8(q, vdupq_n_s8(0));
        vst1q_s8(q + 64, vdupq_n_s8(0));
        x->d[b] = 0.0f;
        x->sum[2 * b] = x->sum[2 * b + 1] = 0;
    }
}

/* ---- norm, gates, weighted sum, exponentials ---- */

void cr_rms_norm__neon(float *y, const float *x, const float *w, size_t n, float eps)
{
    float32x4_t chain[VECTORS];
    chains_clear(chain);
    for (size_t i = 0; i < n; i += LANES) {
        /* Squares of nothing add +0 to chains that are never -0: no change. */
        const float32x4_t v = load_part(x + i, n - i);
        float32x4_t *c = &chain[i / LANES % VECTORS];
        *c = vfmaq_f32(*c, v, v);
    }
    const float32x4_t scale = vdupq_n_f32(1.0f / sqrtf(merge_chains(chain) / (float)n + eps));
    for (size_t i = 0; i < n; i += LANES) {
        const float32x4_t v = vmulq_f32(load_part(x + i, n - i), scale);
        store_part(y + i, vmulq_f32(v, load_part(w + i, n - i)), n - i);
    }
}

void cr_silu_mul__neon(float *y, const float *gate, const float *up, size_t n)
{
    const float32x4_t one = vdupq_n_f32(1.0f);
    for (size_t i = 0; i < n; i += LANES) {
        const float32x4_t v = vmaxq_f32(load_part(gate + i, n - i), vdupq_n_f32(CR_EXP_MIN));
        const float32x4_t s = vdivq_f32(v, vaddq_f32(one, exp_lanes(vnegq_f32(v))));
        store_part(y + i, vmulq_f32(s, load_part(up + i, n - i)), n - i);
    }
}

void cr_gelu_mul__neon(float *y, const float *gate, const float *up, size_t n)
{
    const float32x4_t one = vdupq_n_f32(1.0f);
    const float32x4_t c1 = vdupq_n_f32(CR_GELU_C1), c3 = vdupq_n_f32(CR_GELU_C3);
    for (size_t i = 0; i < n; i += LANES) {
        const float32x4_t v = vmaxq_f32(load_part(gate + i, n - i), vdupq_n_f32(CR_EXP_MIN));
        const float32x4_t t = vmulq_f32(v, vfmaq_f32(c1, c3, vmulq_f32(v, v)));
        const float32x4_t g = vdivq_f32(v, vaddq_f32(one, exp_lanes(vnegq_f32(t))));
        store_part(y + i, vmulq_f32(g, load_part(up + i, n - i)), n - i);
    }
}

void cr_soft_cap__neon(float *x, float cap, size_t n)
{
    const float32x4_t one = vdupq_n_f32(1.0f), c = vdupq_n_f32(cap);
    for (size_t i = 0; i < n; i += LANES) {
        const float32x4_t t = vdivq_f32(load_part(x + i, n - i), c);
        const float32x4_t e = exp_lanes(vaddq_f32(t, t));
        const float32x4_t part = vdivq_f32(vdupq_n_f32(2.0f), vaddq_f32(one, e));
        store_part(x + i, vmulq_f32(c, vsubq_f32(one, part)), n - i);
    }
}

void cr_add_scaled__neon(float *y, const float *x, float scale, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        const float32x4_t sum = load_part(y + i, n - i);
        store_part(y + i, vfmaq_f32(sum, vdupq_n_f32(scale), load_part(x + i, n - i)), n - i);
    }
}

float cr_exp_sum__neon(float *s, float max, size_t n)
{
    const float32x4_t least = vdupq_n_f32(CR_SOFTMAX_MIN);
    float32x4_t chain[VECTORS];
    chains_clear(chain);
    for (size_t i = 0; i < n; i += LANES) {
        const float32x4_t v = vsubq_f32(load_part(s + i, n - i), vdupq_n_f32(max));
        const uint32x4_t counts = vbicq_u32(first_lanes(n - i), vcltq_f32(v, least));
        const uint32x4_t bits = vreinterpretq_u32_f32(exp_lanes(vmaxq_f32(v, least)));
        const float32x4_t e = vreinterpretq_f32_u32(vandq_u32(bits, counts));
        float32x4_t *c = &chain[i / LANES % VECTORS];
        store_part(s + i, e, n - i);
        *c = vaddq_f32(*c, e); /* +0 to what is not -0: no change */
    }
    return merge_chains(chain);
}

/* ---- sum of values ---- */

typedef float32x4_t load_values(const uint8_t *p, size_t i);
typedef float one_value(const void *p, size_t i);

CR_INLINE float32x4_t load_f32(const uint8_t *p, size_t i)
{
    return vreinterpretq_f32_u8(vld1q_u8(p + 4 * i));
}

CR_INLINE float one_f32(const void *p, size_t i)
{
    return ((const float *)p)[i];
}

CR_INLINE float one_f16(const void *p, size_t i)
{
    return cr_f16_to_f32(((const uint16_t *)p)[i]);
}

/* Sixteen columns stay in registers while all keys pass. */
CR_INLINE void mix_values(float *o, const float *p, const void *values, size_t n, size_t n_keys,
                          load_values *load, one_value *one)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        float32x4_t o0 = vld1q_f32(o + i), o1 = vld1q_f32(o + i + 4);
        float32x4_t o2 = vld1q_f32(o + i + 8), o3 = vld1q_f32(o + i + 12);
        for (size_t j = 0; j < n_keys; j++) {
            const float32x4_t weight = vdupq_n_f32(p[j]);
            const size_t at = j * n + i;
            o0 = vfmaq_f32(o0, weight, load(values, at));
            o1 = vfmaq_f32(o1, weight, load(values, at + 4));
            o2 = vfmaq_f32(o2, weight, load(values, at + 8));
            o3 = vfmaq_f32(o3, weight, load(values, at + 12));
        }
        vst1q_f32(o + i, o0);
        vst1q_f32(o + i + 4, o1);
        vst1q_f32(o + i + 8, o2);
        vst1q_f32(o + i + 12, o3);
    }
    for (; i + 4 <= n; i += 4) {
        float32x4_t sum = vld1q_f32(o + i);
        for (size_t j = 0; j < n_keys; j++)
            sum = vfmaq_f32(sum, vdupq_n_f32(p[j]), load(values, j * n + i));
        vst1q_f32(o + i, sum);
    }
    for (; i < n; i++)
        for (size_t j = 0; j < n_keys; j++)
            o[i] = fmaf(p[j], one(values, j * n + i), o[i]);
}

void cr_mix_values_f32__neon(float *o, const float *p, const void *values, size_t n, size_t n_keys)
{
    mix_values(o, p, values, n, n_keys, load_f32, one_f32);
}

void cr_mix_values_f16__neon(float *o, const float *p, const void *values, size_t n, size_t n_keys)
{
    mix_values(o, p, values, n, n_keys, load_f16, one_f16);
}

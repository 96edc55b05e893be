/* What the ARM kernels share: sums of four lanes, halves, exp.
 *
 * A vector has four floats, so a row's sixteen chains are four vectors, in order. Their merge is
 * the same for every kernel: chains eight and four apart are different vectors, the rest are
 * lanes. */
#ifndef CR_NEON_H
#define CR_NEON_H

#include <arm_neon.h>
#include <string.h>

#include "backend/cpu/exp.h"
#include "backend/cpu/kernels.h"
#include "base/compiler.h"

enum { LANES = 4, VECTORS = CR_CHAINS / LANES };

/* ---- chains ---- */

CR_INLINE void chains_clear(float32x4_t chain[VECTORS])
{
    CR_UNROLL
    for (int i = 0; i < VECTORS; i++)
        chain[i] = vdupq_n_f32(0.0f);
}

/* 16 -> 8 -> 4 */
CR_INLINE float32x4_t merge_to_4(const float32x4_t chain[VECTORS])
{
    return vaddq_f32(vaddq_f32(chain[0], chain[2]), vaddq_f32(chain[1], chain[3]));
}

/* 16 -> 8 -> 4 -> 2 -> 1 */
CR_INLINE float merge_chains(const float32x4_t chain[VECTORS])
{
    const float32x4_t s = merge_to_4(chain);
    const float32x2_t pair = vadd_f32(vget_low_f32(s), vget_high_f32(s));
    return vget_lane_f32(pair, 0) + vget_lane_f32(pair, 1);
}

/* All bits set in the first n lanes. */
CR_INLINE uint32x4_t first_lanes(size_t n)
{
    static const uint32_t number[LANES] = { 0, 1, 2, 3 };
    return vcltq_u32(vld1q_u32(number), vdupq_n_u32((uint32_t)CR_MIN(n, (size_t)LANES)));
}

/* Up to four floats, then zeros; what does not exist is not read or written. */
CR_INLINE float32x4_t load_part(const float *p, size_t n)
{
    if (n >= LANES)
        return vld1q_f32(p);
    float some[LANES] = { 0 };
    memcpy(some, p, n * sizeof *p);
    return vld1q_f32(some);
}

CR_INLINE void store_part(float *p, float32x4_t v, size_t n)
{
    if (n >= LANES) {
        vst1q_f32(p, v);
    } else {
        float some[LANES];
        vst1q_f32(some, v);
        memcpy(p, some, n * sizeof *p);
    }
}

/* ---- small numbers from anywhere ---- */

CR_INLINE uint16_t word_at(const uint8_t *p)
{
    uint16_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

CR_INLINE uint32_t dword_at(const uint8_t *p)
{
    uint32_t dword;
    memcpy(&dword, p, sizeof dword);
    return dword;
}

CR_INLINE float32x4_t halves_to_floats(uint16x4_t halves)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(halves));
}

/* Elements i to i + 3 of a row. */
CR_INLINE float32x4_t load_f16(const uint8_t *row, size_t i)
{
    return halves_to_floats(vreinterpret_u16_u8(vld1_u8(row + 2 * i)));
}

CR_INLINE float32x4_t load_bf16(const uint8_t *row, size_t i)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(row + 2 * i)), 16));
}

/* The half at p, in all lanes. */
CR_INLINE float32x4_t half_everywhere(const uint8_t *p)
{
    return halves_to_floats(vdup_n_u16(word_at(p)));
}

/* Four halves, `step` bytes apart. */
CR_INLINE float32x4_t halves_apart(const uint8_t *p, size_t step)
{
    uint16x4_t h = vdup_n_u16(word_at(p));
    h = vset_lane_u16(word_at(p + step), h, 1);
    h = vset_lane_u16(word_at(p + 2 * step), h, 2);
    h = vset_lane_u16(word_at(p + 3 * step), h, 3);
    return halves_to_floats(h);
}

/* The four bytes of a dword as floats. */
CR_INLINE float32x4_t bytes_to_floats(uint32_t bytes)
{
    const uint16x8_t words = vmovl_u8(vcreate_u8(bytes));
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(words)));
}

/* ---- exp, as exp.h has it ---- */

CR_INLINE float32x4_t exp_lanes(float32x4_t x)
{
    x = vmaxq_f32(x, vdupq_n_f32(CR_EXP_MIN)); /* a NaN in either operand stays */
    x = vminq_f32(x, vdupq_n_f32(CR_EXP_MAX));
    const float32x4_t round = vdupq_n_f32(CR_EXP_ROUND), one = vdupq_n_f32(1.0f);
    const float32x4_t t = vfmaq_f32(round, x, vdupq_n_f32(CR_EXP_LOG2E));
    const float32x4_t k = vsubq_f32(t, round);
    float32x4_t r = vfmsq_f32(x, k, vdupq_n_f32(CR_EXP_LN2_HI));
    r = vfmsq_f32(r, k, vdupq_n_f32(CR_EXP_LN2_LO));
    float32x4_t p = vdupq_n_f32(CR_EXP_C6);
    p = vfmaq_f32(vdupq_n_f32(CR_EXP_C5), p, r);
    p = vfmaq_f32(vdupq_n_f32(CR_EXP_C4), p, r);
    p = vfmaq_f32(vdupq_n_f32(CR_EXP_C3), p, r);
    p = vfmaq_f32(vdupq_n_f32(CR_EXP_C2), p, r);
    p = vfmaq_f32(one, p, r);
    p = vfmaq_f32(one, p, r);

    const int32x4_t bits = vsubq_s32(vreinterpretq_s32_f32(t), vreinterpretq_s32_f32(round));
    const int32x4_t first = vshrq_n_s32(bits, 1), second = vsubq_s32(bits, first);
    const int32x4_t bias = vdupq_n_s32(127);
    p = vmulq_f32(p, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(first, bias), 23)));
    return vmulq_f32(p, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(second, bias), 23)));
}

#endif

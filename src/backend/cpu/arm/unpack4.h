/* Blocks of decoder.h's types, taken apart.
 *
 * d (1/2 + scale) unit is exact in floats, whatever the order: 11 bits and 5, and a power of two. */
#ifndef CR_UNPACK4_H
#define CR_UNPACK4_H

#include "backend/cpu/arm/lanes4.h"
#include "backend/cpu/decoder.h"

/* ---- fields of bits, a byte each ---- */

/* Bytes cut into fields of 1, 2 or 4 bits, which are moved to bit `to`; what is around them there is
 * anything. */
CR_INLINE uint8x16_t fields(uint8x16_t bytes, int bits, int to)
{
    uint8_t take[16];
    int8_t left[16];
    CR_UNROLL
    for (int i = 0; i < 16; i++) {
        take[i] = (uint8_t)(i / (8 / bits));
        left[i] = (int8_t)(to - i % (8 / bits) * bits);
    }
    return vshlq_u8(vqtbl1q_u8(bytes, vld1q_u8(take)), vld1q_s8(left));
}

/* Four fields of three bits of each of two words, and of two more. */
CR_INLINE uint8x16_t word_fields(uint8x16_t a, uint8x16_t b)
{
    static const uint8_t take[16] = { 0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3 };
    static const int16_t left[8] = { 0, -3, -6, -9, 0, -3, -6, -9 };
    const uint16x8_t x = vreinterpretq_u16_u8(vqtbl1q_u8(a, vld1q_u8(take)));
    const uint16x8_t y = vreinterpretq_u16_u8(vqtbl1q_u8(b, vld1q_u8(take)));
    return vuzp1q_u8(vreinterpretq_u8_u16(vshlq_u16(x, vld1q_s16(left))),
                     vreinterpretq_u8_u16(vshlq_u16(y, vld1q_s16(left))));
}

CR_INLINE uint8x16_t low_bits(uint8x16_t v, uint8_t mask)
{
    return vandq_u8(v, vdupq_n_u8(mask));
}

CR_INLINE uint8x16_t dup_2(uint16_t bytes)
{
    return vreinterpretq_u8_u16(vdupq_n_u16(bytes));
}

CR_INLINE uint8x16_t dup_4(uint32_t bytes)
{
    return vreinterpretq_u8_u32(vdupq_n_u32(bytes));
}

CR_INLINE uint16x8_t load_words(const uint8_t *p)
{
    return vreinterpretq_u16_u8(vld1q_u8(p));
}

/* ---- what unpacked has ---- */

/* Sixteen indices: their low bytes and their high ones. */
CR_INLINE void put_indices(uint16_t *to, uint8x16_t low, uint8x16_t high)
{
    vst1q_u16(to, vreinterpretq_u16_u8(vzip1q_u8(low, high)));
    vst1q_u16(to + 8, vreinterpretq_u16_u8(vzip2q_u8(low, high)));
}

/* Sixteen times seven signs; the eighth makes the number of minuses even. */
CR_INLINE void put_even_signs(uint32_t to[4], uint8x16_t seven)
{
    vst1q_u32(to, vreinterpretq_u32_u8(vsliq_n_u8(seven, vcntq_u8(seven), 7)));
}

/* d (1/2 + scale) unit */
CR_INLINE void put_8_steps(float to[8], uint16x8_t scales, float d, float unit)
{
    const float32x4_t half = vdupq_n_f32(0.5f);
    const float32x4_t a = vcvtq_f32_u32(vmovl_u16(vget_low_u16(scales)));
    const float32x4_t b = vcvtq_f32_u32(vmovl_high_u16(scales));
    vst1q_f32(to, vmulq_n_f32(vaddq_f32(half, a), d * unit));
    vst1q_f32(to + 4, vmulq_n_f32(vaddq_f32(half, b), d * unit));
}

CR_INLINE void put_16_steps(float to[16], uint8x16_t scales, float d, float unit)
{
    put_8_steps(to, vmovl_u8(vget_low_u8(scales)), d, unit);
    put_8_steps(to + 8, vmovl_high_u8(scales), d, unit);
}

/* Those of eight bytes, or of four, twice. */
CR_INLINE uint8x16_t nibbles(uint8x8_t bytes)
{
    return low_bits(fields(vcombine_u8(bytes, bytes), 4, 0), 15);
}

CR_INLINE float half_bits(uint16_t bits)
{
    return vgetq_lane_f32(halves_to_floats(vdup_n_u16(bits)), 0);
}

/* ---- IQ2 ---- */

/* Eight words of IQ2_XXS and IQ3_XXS: four times seven signs each, and a scale on top. */
CR_INLINE void put_signs_and_steps(unpacked *u, const uint32x4_t words[2], float d, float unit)
{
    CR_UNROLL
    for (size_t i = 0; i < 2; i++) {
        uint32x4_t four = words[i];
        four = vsliq_n_u32(four, vshrq_n_u32(words[i], 7), 8);
        four = vsliq_n_u32(four, vshrq_n_u32(words[i], 14), 16);
        four = vsliq_n_u32(four, vshrq_n_u32(words[i], 21), 24);
        put_even_signs(u->signs + 4 * i, low_bits(vreinterpretq_u8_u32(four), 127));
    }
    const uint16x8_t tops =
        vuzp2q_u16(vreinterpretq_u16_u32(words[0]), vreinterpretq_u16_u32(words[1]));
    put_8_steps(u->step, vshrq_n_u16(tops, 12), d, unit);
}

CR_INLINE void unpack_iq2_xxs(unpacked *u, const uint8_t *block)
{
    uint32x4_t words[2];
    CR_UNROLL
    for (size_t i = 0; i < 2; i++) {
        const uint32x4_t a = vreinterpretq_u32_u8(vld1q_u8(block + 2 + 32 * i));
        const uint32x4_t b = vreinterpretq_u32_u8(vld1q_u8(block + 18 + 32 * i));
        words[i] = vuzp2q_u32(a, b);
        put_indices(u->index + 16 * i, vreinterpretq_u8_u32(vuzp1q_u32(a, b)), vdupq_n_u8(0));
    }
    put_signs_and_steps(u, words, half_bits(word_at(block)), 0.25f);
}

CR_INLINE void unpack_iq2_xs(unpacked *u, const uint8_t *block)
{
    CR_UNROLL
    for (size_t i = 0; i < 2; i++) {
        const uint16x8_t a = load_words(block + 2 + 32 * i), b = load_words(block + 18 + 32 * i);
        vst1q_u16(u->index + 16 * i, vandq_u16(a, vdupq_n_u16(511)));
        vst1q_u16(u->index + 16 * i + 8, vandq_u16(b, vdupq_n_u16(511)));
        put_even_signs(u->signs + 4 * i, vuzp1q_u8(vreinterpretq_u8_u16(vshrq_n_u16(a, 9)),
                                                   vreinterpretq_u8_u16(vshrq_n_u16(b, 9))));
    }
    put_16_steps(u->step, nibbles(vld1_u8(block + 66)), half_bits(word_at(block)), 0.25f);
}

CR_INLINE void unpack_iq2_s(unpacked *u, const uint8_t *block)
{
    CR_UNROLL
    for (size_t i = 0; i < 2; i++)
        put_indices(u->index + 16 * i, vld1q_u8(block + 2 + 16 * i),
                    low_bits(fields(dup_4(dword_at(block + 66 + 4 * i)), 2, 0), 3));
    memcpy(u->signs, block + 34, sizeof u->signs);
    put_16_steps(u->step, nibbles(vld1_u8(block + 74)), half_bits(word_at(block)), 0.25f);
}

/* ---- IQ3 ---- */

CR_INLINE void unpack_iq3_xxs(unpacked *u, const uint8_t *block)
{
    CR_UNROLL
    for (size_t i = 0; i < 64; i += 16)
        put_indices(u->index + i, vld1q_u8(block + 2 + i), vdupq_n_u8(0));
    const uint32x4_t words[2] = { vreinterpretq_u32_u8(vld1q_u8(block + 66)),
                                  vreinterpretq_u32_u8(vld1q_u8(block + 82)) };
    put_signs_and_steps(u, words, half_bits(word_at(block)), 0.5f);
}

CR_INLINE void unpack_iq3_s(unpacked *u, const uint8_t *block)
{
    CR_UNROLL
    for (size_t i = 0; i < 4; i++)
        put_indices(u->index + 16 * i, vld1q_u8(block + 2 + 16 * i),
                    low_bits(fields(dup_2(word_at(block + 66 + 2 * i)), 1, 0), 1));
    memcpy(u->signs, block + 74, sizeof u->signs);
    const uint8x16_t scales = nibbles(vget_low_u8(dup_4(dword_at(block + 106))));
    put_8_steps(u->step, vmovl_u8(vget_low_u8(scales)), half_bits(word_at(block)), 2);
}

/* ---- IQ1 ---- */

/* Three bits four times of each of four words. */
CR_INLINE uint8x16_t threes(const uint8_t *p)
{
    return low_bits(word_fields(dup_4(dword_at(p)), dup_4(dword_at(p + 4))), 7);
}

CR_INLINE void unpack_iq1_s(unpacked *u, const uint8_t *block)
{
    CR_UNROLL
    for (size_t i = 0; i < 2; i++)
        put_indices(u->index + 16 * i, vld1q_u8(block + 2 + 16 * i), threes(block + 34 + 8 * i));
    const uint16x8_t words = load_words(block + 34);
    const int16x8_t minus = vshrq_n_s16(vreinterpretq_s16_u16(words), 15);
    vst1q_u32(u->signs, vreinterpretq_u32_s32(vmovl_s16(vget_low_s16(minus))));
    vst1q_u32(u->signs + 4, vreinterpretq_u32_s32(vmovl_high_s16(minus)));
    const uint16x8_t scales = vandq_u16(vshrq_n_u16(words, 12), vdupq_n_u16(7));
    put_8_steps(u->step, scales, half_bits(word_at(block)), 2);
}

CR_INLINE void unpack_iq1_m(unpacked *u, const uint8_t *block)
{
    CR_UNROLL
    for (size_t i = 0; i < 2; i++) {
        const uint8x16_t high = nibbles(vld1_u8(block + 32 + 8 * i));
        put_indices(u->index + 16 * i, vld1q_u8(block + 16 * i), low_bits(high, 7));
        vst1q_u32(u->signs + 4 * i, vreinterpretq_u32_u8(vtstq_u8(high, vdupq_n_u8(8))));
    }
    const uint8_t *words = block + 48;
    const int d = words[1] >> 4 | words[3] >> 4 << 4 | words[5] >> 4 << 8 | words[7] >> 4 << 12;
    put_16_steps(u->step, threes(words), half_bits((uint16_t)d), 2);
}

/* ---- TQ1_0 ---- */

/* The digits that bytes begin with: byte * 3 / 256. */
CR_INLINE uint8x16_t first_digits(uint8x16_t bytes)
{
    return vshrq_n_u8(vhaddq_u8(bytes, vshrq_n_u8(bytes, 1)), 6);
}

CR_INLINE void unpack_tq1_0(unpacked *u, const uint8_t *block)
{
    const uint8x16_t three = vdupq_n_u8(3);
    uint8x16_t a = vld1q_u8(block), b = vld1q_u8(block + 16), c = vld1q_u8(block + 32);
    CR_UNROLL
    for (size_t r = 0; r < 5; r++) {
        vst1q_u8(u->digit + 32 * r, first_digits(a));
        vst1q_u8(u->digit + 32 * r + 16, first_digits(b));
        vst1q_u8(u->digit + 160 + 16 * r, first_digits(c));
        a = vmulq_u8(a, three);
        b = vmulq_u8(b, three);
        c = vmulq_u8(c, three);
    }
    static const uint8_t powers[16] = { 1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27 };
    vst1q_u8(u->digit + 240, first_digits(vmulq_u8(dup_4(dword_at(block + 48)), vld1q_u8(powers))));
}

#endif

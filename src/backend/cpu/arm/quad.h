/* Four blocks of a row, unpacked: what all ARM kernels of int8 types start from.
 *
 * A quad's weights are signed bytes without their offset, as the instructions multiply them, in
 * the order of a quad of activations (cr_act): first halves of the four blocks, then second halves.
 * Where a vector has four lanes, lane k is block k.
 *
 * One function per type unpacks a quad. Formats of 256 weights are two quads. */
#ifndef CR_QUAD_H
#define CR_QUAD_H

#include "backend/cpu/arm/neon.h"

/* How the sums of a block become a float; docs/numerics.md has the formulas. */
typedef enum quad_kind {
    QUAD_PLAIN,  /* fma(sum, d dx, chain) */
    QUAD_MINIMA, /* then fma(m, dx s, chain) */
    QUAD_GROUPS, /* fma(scale[0] sum[0] + scale[1] sum[1], d dx, chain) */
    QUAD_BOTH    /* then fma(-(minimum[0] s[0] + minimum[1] s[1]), m dx, chain) */
} quad_kind;

typedef struct quad {
    int8x16_t w[2][4]; /* [half][block] */
    float32x4_t d, m;
    int32x4_t scale[2], minimum[2]; /* of the halves */
} quad;

/* Quad number `half` of the blocks at p; the number is 0 where these are four blocks of 32. */
typedef quad quad_unpack(const uint8_t *p, size_t half);

/* X(type, bytes of the blocks at p, their quads, kind) for each type of which rows make panels too,
 * and for all. */
#define PANEL_TYPES(X)                                                                             \
    X(q4_0, 4 * 18, 1, QUAD_PLAIN)                                                                 \
    X(q4_1, 4 * 20, 1, QUAD_MINIMA)                                                                \
    X(q5_0, 4 * 22, 1, QUAD_PLAIN)                                                                 \
    X(q5_1, 4 * 24, 1, QUAD_MINIMA)                                                                \
    X(q8_0, 4 * 34, 1, QUAD_PLAIN)                                                                 \
    X(iq4_nl, 4 * 18, 1, QUAD_PLAIN)                                                               \
    X(q3_k, 110, 2, QUAD_GROUPS)                                                                   \
    X(q4_k, 144, 2, QUAD_MINIMA)                                                                   \
    X(q5_k, 176, 2, QUAD_MINIMA)                                                                   \
    X(q6_k, 210, 2, QUAD_GROUPS)                                                                   \
    X(iq4_xs, 136, 2, QUAD_PLAIN)
#define INT8_TYPES(X)                                                                              \
    PANEL_TYPES(X)                                                                                 \
    X(q2_k, 84, 2, QUAD_BOTH)

enum { QUAD_MAX_BYTES = 4 * 34 }; /* of four blocks of 32 */

/* ---- parts of bytes ---- */

CR_INLINE uint8x16_t low_nibbles(uint8x16_t v)
{
    return vandq_u8(v, vdupq_n_u8(15));
}

CR_INLINE uint8x16_t high_nibbles(uint8x16_t v)
{
    return vshrq_n_u8(v, 4);
}

/* Bits of the bytes moved to those of a mask; to the right where left is negative. */
CR_INLINE uint8x16_t move_bits(uint8x16_t v, int left, uint8_t mask)
{
    return vandq_u8(vshlq_u8(v, vdupq_n_s8((int8_t)left)), vdupq_n_u8(mask));
}

CR_INLINE int8x16_t less(uint8x16_t v, int8_t offset)
{
    return vsubq_s8(vreinterpretq_s8_u8(v), vdupq_n_s8(offset));
}

/* ---- blocks of 32 ---- */

/* Four times 16 bytes of nibbles, `step` bytes apart: low ones are first halves. */
CR_INLINE void unpack_nibbles(quad *to, const uint8_t *p, size_t step, int8_t offset)
{
    CR_UNROLL
    for (size_t k = 0; k < 4; k++) {
        const uint8x16_t v = vld1q_u8(p + k * step);
        to->w[0][k] = less(low_nibbles(v), offset);
        to->w[1][k] = less(high_nibbles(v), offset);
    }
}

/* [d][16 bytes] */
CR_INLINE quad unpack_q4_0(const uint8_t *p, size_t half)
{
    (void)half;
    quad to = { .d = halves_apart(p, 18) };
    unpack_nibbles(&to, p + 2, 18, 8);
    return to;
}

/* [d][m][16 bytes] */
CR_INLINE quad unpack_q4_1(const uint8_t *p, size_t half)
{
    (void)half;
    quad to = { .d = halves_apart(p, 20), .m = halves_apart(p + 2, 20) };
    unpack_nibbles(&to, p + 4, 20, 0);
    return to;
}

/* All bits of byte i set where bit i of `bits` is. */
CR_INLINE uint8x16_t spread_bits(uint16_t bits)
{
    const uint8x16_t which = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    const uint8x8_t low = vdup_n_u8((uint8_t)bits), high = vdup_n_u8((uint8_t)(bits >> 8));
    return vtstq_u8(vcombine_u8(low, high), which);
}

/* Four times [4 bytes: fifth bits][16 bytes: nibbles]. */
CR_INLINE void unpack_fives(quad *to, const uint8_t *p, size_t step, int8_t offset)
{
    const uint8x16_t sixteen = vdupq_n_u8(16);
    CR_UNROLL
    for (size_t k = 0; k < 4; k++, p += step) {
        const uint8x16_t v = vld1q_u8(p + 4);
        const uint8x16_t top0 = vandq_u8(spread_bits(word_at(p)), sixteen);
        const uint8x16_t top1 = vandq_u8(spread_bits(word_at(p + 2)), sixteen);
        to->w[0][k] = less(vorrq_u8(low_nibbles(v), top0), offset);
        to->w[1][k] = less(vorrq_u8(high_nibbles(v), top1), offset);
    }
}

/* [d][4 bytes][16 bytes] */
CR_INLINE quad unpack_q5_0(const uint8_t *p, size_t half)
{
    (void)half;
    quad to = { .d = halves_apart(p, 22) };
    unpack_fives(&to, p + 2, 22, 16);
    return to;
}

/* [d][m][4 bytes][16 bytes] */
CR_INLINE quad unpack_q5_1(const uint8_t *p, size_t half)
{
    (void)half;
    quad to = { .d = halves_apart(p, 24), .m = halves_apart(p + 2, 24) };
    unpack_fives(&to, p + 4, 24, 0);
    return to;
}

/* [d][32 bytes] */
CR_INLINE quad unpack_q8_0(const uint8_t *p, size_t half)
{
    (void)half;
    quad to = { .d = halves_apart(p, 34) };
    CR_UNROLL
    for (size_t k = 0; k < 4; k++) {
        to.w[0][k] = vreinterpretq_s8_u8(vld1q_u8(p + 34 * k + 2));
        to.w[1][k] = vreinterpretq_s8_u8(vld1q_u8(p + 34 * k + 18));
    }
    return to;
}

/* Nibbles that are numbers of levels. */
CR_INLINE void unpack_levels(quad *to, const uint8_t *p, size_t step)
{
    const int8x16_t levels = vld1q_s8(cr_iq4_levels);
    CR_UNROLL
    for (size_t k = 0; k < 4; k++) {
        const uint8x16_t v = vld1q_u8(p + k * step);
        to->w[0][k] = vqtbl1q_s8(levels, low_nibbles(v));
        to->w[1][k] = vqtbl1q_s8(levels, high_nibbles(v));
    }
}

/* [d][16 bytes] */
CR_INLINE quad unpack_iq4_nl(const uint8_t *p, size_t half)
{
    (void)half;
    quad to = { .d = halves_apart(p, 18) };
    unpack_levels(&to, p + 2, 18);
    return to;
}

/* ---- super-blocks of 256 ---- */

/* [d][dmin][12 bytes]: six bits for each of eight scales and minima. Of the first four of both,
 * they are the lower bits of a byte each; of the others, nibbles and the upper bits of the first
 * ones. */
CR_INLINE void unpack_k_scales(quad *to, const uint8_t *p, size_t half)
{
    const uint32_t s = dword_at(p + 4), m = dword_at(p + 8), nibbles = dword_at(p + 12);
    const uint32_t scales =
        half == 0 ? s & 0x3f3f3f3f : (nibbles & 0x0f0f0f0f) | (s >> 2 & 0x30303030);
    const uint32_t minima =
        half == 0 ? m & 0x3f3f3f3f : (nibbles >> 4 & 0x0f0f0f0f) | (m >> 2 & 0x30303030);
    to->d = vmulq_f32(half_everywhere(p), bytes_to_floats(scales));
    to->m = vnegq_f32(vmulq_f32(half_everywhere(p + 2), bytes_to_floats(minima)));
}

/* [scales, 16 bytes][4][32 bytes]: low nibbles are one block, high ones the next. */
CR_INLINE quad unpack_q4_k(const uint8_t *p, size_t half)
{
    quad to;
    unpack_k_scales(&to, p, half);
    CR_UNROLL
    for (size_t i = 0; i < 4; i++) {
        const size_t pair = i / 2;
        const uint8x16_t v = vld1q_u8(p + 16 + 64 * half + 16 * i);
        to.w[i % 2][2 * pair] = vreinterpretq_s8_u8(low_nibbles(v));
        to.w[i % 2][2 * pair + 1] = vreinterpretq_s8_u8(high_nibbles(v));
    }
    return to;
}

/* [scales, 16 bytes][32 bytes: bit b is block b's fifth][4][32 bytes] */
CR_INLINE quad unpack_q5_k(const uint8_t *p, size_t half)
{
    quad to;
    unpack_k_scales(&to, p, half);
    CR_UNROLL
    for (size_t i = 0; i < 2; i++) {
        const uint8x16_t top = vld1q_u8(p + 16 + 16 * i);
        CR_UNROLL
        for (size_t pair = 0; pair < 2; pair++) {
            const uint8x16_t v = vld1q_u8(p + 48 + 64 * half + 32 * pair + 16 * i);
            const int left = 4 - (int)(4 * half + 2 * pair);
            const uint8x16_t a = vorrq_u8(low_nibbles(v), move_bits(top, left, 16));
            const uint8x16_t b = vorrq_u8(high_nibbles(v), move_bits(top, left - 1, 16));
            to.w[i][2 * pair] = vreinterpretq_s8_u8(a);
            to.w[i][2 * pair + 1] = vreinterpretq_s8_u8(b);
        }
    }
    return to;
}

/* The even and the odd ones of eight words. */
CR_INLINE void split_words(int32x4_t to[2], int16x8_t words)
{
    to[0] = vmovl_s16(vget_low_s16(vuzp1q_s16(words, words)));
    to[1] = vmovl_s16(vget_low_s16(vuzp2q_s16(words, words)));
}

/* [2][64 bytes low][2][32 bytes high][2][8 scales][d] */
CR_INLINE quad unpack_q6_k(const uint8_t *p, size_t half)
{
    quad to = { .d = half_everywhere(p + 208) };
    split_words(to.scale, vmovl_s8(vreinterpret_s8_u8(vld1_u8(p + 192 + 8 * half))));
    CR_UNROLL
    for (size_t i = 0; i < 2; i++) {
        const uint8x16_t a = vld1q_u8(p + 64 * half + 16 * i);
        const uint8x16_t b = vld1q_u8(p + 64 * half + 32 + 16 * i);
        const uint8x16_t top = vld1q_u8(p + 128 + 32 * half + 16 * i);
        to.w[i][0] = less(vorrq_u8(low_nibbles(a), move_bits(top, 4, 48)), 32);
        to.w[i][1] = less(vorrq_u8(low_nibbles(b), move_bits(top, 2, 48)), 32);
        to.w[i][2] = less(vorrq_u8(high_nibbles(a), move_bits(top, 0, 48)), 32);
        to.w[i][3] = less(vorrq_u8(high_nibbles(b), move_bits(top, -2, 48)), 32);
    }
    return to;
}

/* [16 bytes of scales][2][32 bytes][d][dmin]; block k has bits 2 k and 2 k + 1 of each byte. */
CR_INLINE quad unpack_q2_k(const uint8_t *p, size_t half)
{
    quad to = { .d = half_everywhere(p + 80), .m = half_everywhere(p + 82) };
    const uint8x8_t both = vld1_u8(p + 8 * half);
    const uint8x8_t scales = vand_u8(both, vdup_n_u8(15)), minima = vshr_n_u8(both, 4);
    split_words(to.scale, vreinterpretq_s16_u16(vmovl_u8(scales)));
    split_words(to.minimum, vreinterpretq_s16_u16(vmovl_u8(minima)));
    CR_UNROLL
    for (size_t i = 0; i < 2; i++) {
        const uint8x16_t v = vld1q_u8(p + 16 + 32 * half + 16 * i);
        CR_UNROLL
        for (int k = 0; k < 4; k++)
            to.w[i][k] = vreinterpretq_s8_u8(move_bits(v, -2 * k, 3));
    }
    return to;
}

/* Scales 8 `half` to 8 `half` + 7, less 32. [8 bytes: a nibble for each half][4 bytes: two bits for
 * every fourth scale] */
CR_INLINE int16x8_t q3_k_scales(const uint8_t *p, size_t half)
{
    const int8x8_t right = vdup_n_s8((int8_t)(4 * half));
    const int8x8_t further = vcreate_s8(0x0202020200000000); /* for the second four */
    const uint8x8_t low = vshl_u8(vld1_u8(p), vneg_s8(right));
    const uint8x8_t top = vreinterpret_u8_u32(vdup_n_u32(dword_at(p + 8)));
    const uint8x8_t high = vshl_u8(top, vneg_s8(vadd_s8(right, further)));
    const uint8x8_t scales =
        vorr_u8(vand_u8(low, vdup_n_u8(15)), vshl_n_u8(vand_u8(high, vdup_n_u8(3)), 4));
    return vsubq_s16(vreinterpretq_s16_u16(vmovl_u8(scales)), vdupq_n_s16(32));
}

/* [32 bytes: bit b is block b's third][2][32 bytes][12 bytes of scales][d] */
CR_INLINE quad unpack_q3_k(const uint8_t *p, size_t half)
{
    quad to = { .d = half_everywhere(p + 108) };
    split_words(to.scale, q3_k_scales(p + 96, half));
    CR_UNROLL
    for (size_t i = 0; i < 2; i++) {
        const uint8x16_t v = vld1q_u8(p + 32 + 32 * half + 16 * i);
        const uint8x16_t top = vld1q_u8(p + 16 * i);
        CR_UNROLL
        for (int k = 0; k < 4; k++) {
            const uint8x16_t bit = move_bits(top, 2 - 4 * (int)half - k, 4);
            to.w[i][k] = less(vorrq_u8(move_bits(v, -2 * k, 3), bit), 4);
        }
    }
    return to;
}

/* [d][2 bytes: upper bits of eight scales][4 bytes: their nibbles][8][16 bytes] */
CR_INLINE quad unpack_iq4_xs(const uint8_t *p, size_t half)
{
    const uint32_t low = word_at(p + 4 + 2 * half), high = (uint32_t)word_at(p + 2) >> 8 * half;
    int32_t scale[4];
    CR_UNROLL
    for (int k = 0; k < 4; k++)
        scale[k] = (int32_t)((low >> 4 * k & 15) | (high >> 2 * k & 3) << 4) - 32;
    quad to = { .d = vmulq_f32(half_everywhere(p), vcvtq_f32_s32(vld1q_s32(scale))) };
    unpack_levels(&to, p + 8 + 64 * half, 16);
    return to;
}

#endif

/* Parts of decoder.h's types.
 *
 * Four bits at most, one of them a sign, say which of a type's levels a weight is; sixteen weights
 * at a time are looked up by them. Levels fit the upper half of a float: its bytes come from a
 * table each, and zips put them where they belong: eight instructions, where one table of integers,
 * four lookups that spread them and four conversions are nine. */
#ifndef CR_DECODE4_H
#define CR_DECODE4_H

#include "backend/cpu/arm/unpack4.h"

enum { MINUS = 8, HALF_VECS = PART_VECS / 2 };

/* Both upper bytes of sixteen floats. */
typedef struct levels {
    uint8x16_t low, high;
} levels;

CR_INLINE uint8x16_t upper_halves(const float f[8])
{
    const uint16x8_t a = vreinterpretq_u16_f32(vld1q_f32(f));
    const uint16x8_t b = vreinterpretq_u16_f32(vld1q_f32(f + 4));
    return vreinterpretq_u8_u16(vuzp2q_u16(a, b));
}

CR_INLINE levels split_levels(const float f[16])
{
    const uint8x16_t a = upper_halves(f), b = upper_halves(f + 8);
    return (levels){ vuzp1q_u8(a, b), vuzp2q_u8(a, b) };
}

/* Sixteen weights: the numbers' levels, times step. */
CR_INLINE void put_weights(vec w[HALF_VECS], const float f[16], uint8x16_t number, float step)
{
    const levels of = split_levels(f);
    const uint8x16_t low = vqtbl1q_u8(of.low, number), high = vqtbl1q_u8(of.high, number);
    const uint16x8_t a = vreinterpretq_u16_u8(vzip1q_u8(low, high));
    const uint16x8_t b = vreinterpretq_u16_u8(vzip2q_u8(low, high));
    const uint16x8_t zero = vdupq_n_u16(0);
    w[0] = vmulq_n_f32(vreinterpretq_f32_u16(vzip1q_u16(zero, a)), step);
    w[1] = vmulq_n_f32(vreinterpretq_f32_u16(vzip2q_u16(zero, a)), step);
    w[2] = vmulq_n_f32(vreinterpretq_f32_u16(vzip1q_u16(zero, b)), step);
    w[3] = vmulq_n_f32(vreinterpretq_f32_u16(vzip2q_u16(zero, b)), step);
}

/* ---- grids ---- */

CR_INLINE uint8x16_t two_entries(const uint16_t *grid, const uint16_t *index)
{
    return dup_4(grid[index[0]] | (uint32_t)grid[index[1]] << 16);
}

/* Sixteen numbers of up to three bits, and MINUS where their signs are. */
CR_INLINE uint8x16_t with_signs(uint8x16_t number, uint8_t mask, const unpacked *u, size_t sixteen)
{
    const uint8x16_t signs = dup_2(word_at((const uint8_t *)u->signs + 2 * sixteen));
    return vbslq_u8(vdupq_n_u8(MINUS), fields(signs, 1, 3), low_bits(number, mask));
}

/* Of IQ2 and IQ1: eight weights an entry. */
CR_INLINE void part_eights(vec w[PART_VECS], const unpacked *u, size_t part, size_t n_steps,
                           const uint16_t *grid, const float f[16])
{
    CR_UNROLL
    for (size_t i = 0; i < 2; i++) {
        const uint8x16_t entries = two_entries(grid, u->index + 4 * part + 2 * i);
        put_weights(w + HALF_VECS * i, f, with_signs(fields(entries, 2, 0), 3, u, 2 * part + i),
                    u->step[n_steps == 16 ? 2 * part + i : part]);
    }
}

/* Of IQ3: four weights an entry. */
CR_INLINE void part_fours(vec w[PART_VECS], const unpacked *u, size_t part, const uint16_t *grid,
                          const float f[16])
{
    CR_UNROLL
    for (size_t i = 0; i < 2; i++) {
        const uint16_t *index = u->index + 8 * part + 4 * i;
        const uint8x16_t number =
            word_fields(two_entries(grid, index), two_entries(grid, index + 2));
        put_weights(w + HALF_VECS * i, f, with_signs(number, 7, u, 2 * part + i), u->step[part]);
    }
}

/* ---- TQ: two bits of each of 32 bytes ---- */

CR_INLINE void part_ternary(vec w[PART_VECS], const uint8_t *bytes, size_t bit, const uint8_t *d)
{
    static const float ternary_levels[16] = { -1, 0, 1, 2 };
    const int8x16_t left = vdupq_n_s8(-(int8_t)bit);
    CR_UNROLL
    for (size_t i = 0; i < 2; i++)
        put_weights(w + HALF_VECS * i, ternary_levels,
                    low_bits(vshlq_u8(vld1q_u8(bytes + 16 * i), left), 3), half_bits(word_at(d)));
}

/* ---- MXFP4: [exponent][16 bytes] ---- */

CR_INLINE void part_mxfp4(vec w[PART_VECS], const unpacked *u, const uint8_t *block, size_t part)
{
    (void)u, (void)part;
    static const float mxfp4_levels[16] = {
        0, 1, 2, 3, 4, 6, 8, 12, [MINUS] = 0, -1, -2, -3, -4, -6, -8, -12
    };
    const uint8x16_t q = vld1q_u8(block + 1);
    const float scale = mxfp4_scale(block[0]);
    put_weights(w, mxfp4_levels, low_bits(q, 15), scale);
    put_weights(w + HALF_VECS, mxfp4_levels, vshrq_n_u8(q, 4), scale);
}

/* ---- the types ---- */

static const float iq2_levels[16] = { 8, 25, 43, [MINUS] = -8, -25, -43 };
static const float iq3_xxs_levels[16] = { 4,   12,  20,  28,  36,  44,  52, 62, [MINUS] = -4,
                                          -12, -20, -28, -36, -44, -52, -62 };
static const float iq3_s_levels[16] = { 1,  3,  5,  7,  9,   11,  13, 15, [MINUS] = -1,
                                        -3, -5, -7, -9, -11, -13, -15 };
/* An eighth above -1, 0 and 1, or below them. */
static const float iq1_levels[16] = { -0.875f, 0.125f, 1.125f, [MINUS] = -1.125f, -0.125f, 0.875f };

#define PART_OF(type, code)                                                                        \
    CR_INLINE void part_##type(vec w[PART_VECS], const unpacked *u, const uint8_t *block,          \
                               size_t part)                                                        \
    {                                                                                              \
        (void)u, (void)block;                                                                      \
        code;                                                                                      \
    }
PART_OF(iq2_xxs, part_eights(w, u, part, 8, cr_grid_iq2_xxs, iq2_levels))
PART_OF(iq2_xs, part_eights(w, u, part, 16, cr_grid_iq2_xs, iq2_levels))
PART_OF(iq2_s, part_eights(w, u, part, 16, cr_grid_iq2_s, iq2_levels))
PART_OF(iq3_xxs, part_fours(w, u, part, cr_grid_iq3_xxs, iq3_xxs_levels))
PART_OF(iq3_s, part_fours(w, u, part, cr_grid_iq3_s, iq3_s_levels))
PART_OF(iq1_s, part_eights(w, u, part, 8, cr_grid_iq1, iq1_levels))
PART_OF(iq1_m, part_eights(w, u, part, 16, cr_grid_iq1, iq1_levels))
PART_OF(tq1_0, part_ternary(w, u->digit + PART * part, 0, block + 52))
PART_OF(tq2_0, part_ternary(w, block + part / 4 * 32, part % 4 * 2, block + 64))

#endif

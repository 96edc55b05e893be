/* Fill functions that are the same for panels of eight rows and of sixteen, and the table of the
 * types that have panels. Before it stands what the functions are made of: `ints`, a vector with a lane for each row, `panel_rows`, and
 *
 *     transpose, load_dwords                      bytes of all rows
 *     low_halves, high_halves                     words of lanes to floats
 *     low_nibbles, high_nibbles, flip_signs       of all bytes
 *     look_up_levels                              bytes to levels of IQ4
 *     add_fifths, add_top                         bits that join a block's bytes
 *     fill_k_scales, set_scales                   scales of Q4_K and Q5_K; integers of halves of blocks */
#ifndef CR_PANEL_FILL_H
#define CR_PANEL_FILL_H

/* [d][32 bytes] */
CR_INLINE void fill_q8_0(panel_block *to, const panel_rows *r, size_t b, size_t end)
{
    for (; b < end; b++, to++) {
        ints t[8];
        transpose(t, r, 34 * b + 2);
        transpose(t + 4, r, 34 * b + 18);
        CR_UNROLL
        for (int k = 0; k < 8; k++)
            to->w[k] = flip_signs(t[k]);
        to->d = load_halves(r, 34 * b);
    }
}

CR_INLINE void fill_nibbles(panel_block *to, const panel_rows *r, size_t at)
{
    ints t[4];
    transpose(t, r, at);
    CR_UNROLL
    for (int k = 0; k < 4; k++) {
        to->w[k] = low_nibbles(t[k]);
        to->w[k + 4] = high_nibbles(t[k]);
    }
}

/* [d][16 bytes] */
CR_INLINE void fill_q4_0(panel_block *to, const panel_rows *r, size_t b, size_t end)
{
    for (; b < end; b++, to++) {
        fill_nibbles(to, r, 18 * b + 2);
        to->d = load_halves(r, 18 * b);
    }
}

/* The same for nibbles that are numbers of IQ4 levels. */
CR_INLINE void fill_levels(panel_block *to, const panel_rows *r, size_t at)
{
    fill_nibbles(to, r, at);
    look_up_levels(to);
}

/* [d][16 bytes] */
CR_INLINE void fill_iq4_nl(panel_block *to, const panel_rows *r, size_t b, size_t end)
{
    for (; b < end; b++, to++) {
        fill_levels(to, r, 18 * b + 2);
        to->d = load_halves(r, 18 * b);
    }
}

/* [d][m][16 bytes] */
CR_INLINE void fill_q4_1(panel_block *to, const panel_rows *r, size_t b, size_t end)
{
    for (; b < end; b++, to++) {
        const ints dm = load_dwords(r, 20 * b);
        fill_nibbles(to, r, 20 * b + 4);
        to->d = low_halves(dm);
        to->m = high_halves(dm);
    }
}

/* [d][4 bytes of fifth bits][16 bytes] */
CR_INLINE void fill_q5_0(panel_block *to, const panel_rows *r, size_t b, size_t end)
{
    for (; b < end; b++, to++) {
        const ints top = load_dwords(r, 22 * b + 2);
        fill_nibbles(to, r, 22 * b + 6);
        add_fifths(to, top);
        to->d = load_halves(r, 22 * b);
    }
}

/* [d][m][4 bytes of fifth bits][16 bytes] */
CR_INLINE void fill_q5_1(panel_block *to, const panel_rows *r, size_t b, size_t end)
{
    for (; b < end; b++, to++) {
        const ints dm = load_dwords(r, 24 * b);
        const ints top = load_dwords(r, 24 * b + 4);
        fill_nibbles(to, r, 24 * b + 8);
        add_fifths(to, top);
        to->d = low_halves(dm);
        to->m = high_halves(dm);
    }
}

/* 32 bytes of each row: low nibbles to one block, high ones to another. */
CR_INLINE void fill_two(panel_block *low, panel_block *high, const panel_rows *r, size_t at)
{
    ints t[8];
    transpose(t, r, at);
    transpose(t + 4, r, at + 16);
    CR_UNROLL
    for (int k = 0; k < 8; k++) {
        low->w[k] = low_nibbles(t[k]);
        high->w[k] = high_nibbles(t[k]);
    }
}

/* [scales, 16 bytes][4][32 bytes] */
static void fill_q4_k(panel_block *to, const panel_rows *r, size_t first, size_t end)
{
    for (size_t super = first / 8; super < end / 8; super++, to += 8) {
        fill_k_scales(to, r, 144 * super);
        CR_UNROLL
        for (size_t pair = 0; pair < 4; pair++)
            fill_two(&to[2 * pair], &to[2 * pair + 1], r, 144 * super + 16 + 32 * pair);
    }
}

/* [scales, 16 bytes][32 bytes: bit b is block b's fifth][4][32 bytes] */
static void fill_q5_k(panel_block *to, const panel_rows *r, size_t first, size_t end)
{
    for (size_t super = first / 8; super < end / 8; super++, to += 8) {
        ints top[8];
        transpose(top, r, 176 * super + 16);
        transpose(top + 4, r, 176 * super + 32);
        fill_k_scales(to, r, 176 * super);
        CR_UNROLL
        for (int b = 0; b < 8; b += 2) {
            fill_two(&to[b], &to[b + 1], r, 176 * super + 48 + 16 * (size_t)b);
            add_top(&to[b], top, b - 4, 16);
            add_top(&to[b + 1], top, b - 3, 16);
        }
    }
}

/* [2][64 bytes low][2][32 bytes high][2][8 scales][d], 210 bytes */
static void fill_q6_k(panel_block *to, const panel_rows *r, size_t first, size_t end)
{
    for (size_t super = first / 8; super < end / 8; super++) {
        const size_t at = 210 * super;
        ints scales[4];
        transpose(scales, r, at + 192);
        for (size_t half = 0; half < 2; half++, to += 4) {
            ints top[8];
            transpose(top, r, at + 128 + 32 * half);
            transpose(top + 4, r, at + 144 + 32 * half);
            CR_UNROLL
            for (int b = 0; b < 2; b++) {
                fill_two(&to[b], &to[b + 2], r, at + 64 * half + 32 * (size_t)b);
                add_top(&to[b], top, 2 * b - 4, 48);
                add_top(&to[b + 2], top, 2 * b, 48);
            }
            CR_UNROLL
            for (size_t b = 0; b < 4; b++)
                set_scales(&to[b], scales[2 * half + b / 2], b % 2);
            to[0].d = load_halves(r, at + 208);
            to[1].d = to[2].d = to[3].d = to[0].d;
        }
    }
}

/* ---- the types ---- */

/* TYPE(name, tier, members of weights). AMX has no kernel of Q2_K, which alone has minima and two
 * scales a block. */
#define PANEL_TYPES_BUT_Q2_K(TYPE, tier)                                                           \
    TYPE(q4_0, tier, .fill = fill_q4_0, .single = true, .most = 15, .offset = 8)                   \
    TYPE(q4_1, tier, .fill = fill_q4_1, .single = true, .most = 15, .minima = true)                \
    TYPE(q5_0, tier, .fill = fill_q5_0, .single = true, .most = 31, .offset = 16)                  \
    TYPE(q5_1, tier, .fill = fill_q5_1, .single = true, .most = 31, .minima = true)                \
    TYPE(q8_0, tier, .fill = fill_q8_0, .single = true, .most = 255, .offset = 128)                \
    TYPE(q3_k, tier, .fill = fill_q3_k, .most = 7, .offset = 4, .groups = true)                    \
    TYPE(q4_k, tier, .fill = fill_q4_k, .most = 15, .minima = true)                                \
    TYPE(q5_k, tier, .fill = fill_q5_k, .most = 31, .minima = true)                                \
    TYPE(q6_k, tier, .fill = fill_q6_k, .most = 63, .offset = 32, .groups = true)                  \
    TYPE(iq4_nl, tier, .fill = fill_iq4_nl, .single = true, .most = 255, .offset = 128)            \
    TYPE(iq4_xs, tier, .fill = fill_iq4_xs, .most = 255, .offset = 128)
#define PANEL_TYPES(TYPE, tier)                                                                    \
    PANEL_TYPES_BUT_Q2_K(TYPE, tier)                                                               \
    TYPE(q2_k, tier, .fill = fill_q2_k, .most = 3, .minima = true, .groups = true)

#endif

/* Fill functions that are the same for panels of eight rows and of sixteen, and the table of the
 * types that have panels. Before it stand `ints`, a vector with a lane for each row, `panel_rows`,
 * and what the functions are made of:
 *
 *     transpose, load_dwords                      bytes of all rows
 *     low_halves, high_halves                     words of lanes to floats
 *     low_nibbles, high_nibbles, flip_signs       of all bytes
 *     look_up_levels                              bytes to levels of IQ4
 *     add_fifths, add_top                         bits that join a block's bytes
 *     fill_k_scales                               scales of Q4_K and Q5_K
 *     set_scales                                  integers of halves of blocks */
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

/* Copied before anything is stored, so that it stays in registers. */
typedef struct eight {
    ints v[8];
} eight;

CR_INLINE eight eight_of(const ints *v)
{
    eight e;
    CR_UNROLL
    for (int k = 0; k < 8; k++)
        e.v[k] = v[k];
    return e;
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

/* ---- super-blocks, by pairs of blocks whose nibbles are the halves of the same bytes ---- */

/* [scales, 16 bytes][4][32 bytes] */
CR_INLINE void share_q4_k(panel_block to[8], const panel_rows *r, size_t super)
{
    fill_k_scales(to, r, 144 * super);
}

CR_INLINE void pair_q4_k(panel_block *low, panel_block *high, const panel_block shared[8],
                         const panel_rows *r, size_t super, size_t i)
{
    (void)shared;
    fill_two(low, high, r, 144 * super + 16 + 32 * i);
}

/* [scales, 16 bytes][32 bytes: bit b is block b's fifth][4][32 bytes] */
CR_INLINE void share_q5_k(panel_block to[8], const panel_rows *r, size_t super)
{
    fill_k_scales(to, r, 176 * super);
    transpose(to[7].w, r, 176 * super + 16);
    transpose(to[7].w + 4, r, 176 * super + 32);
}

CR_INLINE void pair_q5_k(panel_block *low, panel_block *high, const panel_block shared[8],
                         const panel_rows *r, size_t super, size_t i)
{
    const eight top = eight_of(shared[7].w);
    fill_two(low, high, r, 176 * super + 48 + 32 * i);
    add_top(low, top.v, 2 * (int)i - 4, 16);
    add_top(high, top.v, 2 * (int)i - 3, 16);
}

/* [2][64 bytes low][2][32 bytes high][2][8 scales][d], 210 bytes */
CR_INLINE void share_q6_k(panel_block to[8], const panel_rows *r, size_t super)
{
    const size_t at = 210 * super;
    ints scales[4];
    transpose(scales, r, at + 192);
    CR_UNROLL
    for (size_t b = 0; b < 8; b++)
        set_scales(&to[b], scales[b / 2], b % 2);
    to[0].d = load_halves(r, at + 208);
    CR_UNROLL
    for (size_t b = 1; b < 8; b++)
        to[b].d = to[0].d;
    CR_UNROLL
    for (size_t half = 0; half < 2; half++) {
        transpose(to[4 * half + 3].w, r, at + 128 + 32 * half);
        transpose(to[4 * half + 3].w + 4, r, at + 144 + 32 * half);
    }
}

CR_INLINE void pair_q6_k(panel_block *low, panel_block *high, const panel_block shared[8],
                         const panel_rows *r, size_t super, size_t i)
{
    const eight top = eight_of(shared[i / 2 * 4 + 3].w);
    const int b = (int)(i % 2);
    fill_two(low, high, r, 210 * super + 64 * (i / 2) + 32 * (i % 2));
    add_top(low, top.v, 2 * b - 4, 48);
    add_top(high, top.v, 2 * b, 48);
}

/* The block that a pair begins with. */
CR_INLINE size_t pair_at(size_t i, const weights *type)
{
    return i / type->apart * 2 * type->apart + i % type->apart;
}

/* All blocks of the rows. */
CR_INLINE void fill_all(panel_block *to, const panel_rows *r, size_t n_blocks, const weights *type)
{
    if (type->fill) {
        type->fill(to, r, 0, n_blocks);
        return;
    }
    for (size_t super = 0; super < n_blocks / 8; super++, to += 8) {
        type->share(to, r, super);
        CR_UNROLL
        for (size_t i = 0; i < 4; i++) {
            panel_block *low = to + pair_at(i, type);
            type->pair(low, low + type->apart, to, r, super, i);
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
    TYPE(q4_k, tier, .share = share_q4_k, .pair = pair_q4_k, .apart = 1, .most = 15,               \
         .minima = true)                                                                           \
    TYPE(q5_k, tier, .share = share_q5_k, .pair = pair_q5_k, .apart = 1, .most = 31,               \
         .minima = true)                                                                           \
    TYPE(q6_k, tier, .share = share_q6_k, .pair = pair_q6_k, .apart = 2, .most = 63, .offset = 32, \
         .groups = true)                                                                           \
    TYPE(iq4_nl, tier, .fill = fill_iq4_nl, .single = true, .most = 255, .offset = 128)            \
    TYPE(iq4_xs, tier, .fill = fill_iq4_xs, .most = 255, .offset = 128)
#define PANEL_TYPES(TYPE, tier)                                                                    \
    PANEL_TYPES_BUT_Q2_K(TYPE, tier)                                                               \
    TYPE(q2_k, tier, .fill = fill_q2_k, .most = 3, .minima = true, .groups = true)

#endif

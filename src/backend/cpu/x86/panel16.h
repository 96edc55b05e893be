/* Panels of sixteen rows, for kernels in which a lane is a row.
 *
 * A panel is filled once and meets many columns of the batch: bytes without sign, four neighbours
 * of a row in a lane, which is how VNNI and AMX want them, and the scales as floats. */
#ifndef CR_PANEL16_H
#define CR_PANEL16_H

#include "backend/cpu/x86/avx512.h"

enum { PANEL = 16 };

typedef __m512i ints;

typedef struct panel_block {
    __m512i w[8];         /* [32 / 4][row][4]: weight plus the type's offset */
    __m512 d, m;          /* [row] */
    __m512i scale, pairs; /* [row]: integer scales and minima of a block's halves, as words */
} panel_block;

#include "backend/cpu/x86/panel_rows.h"

/* ---- filling a panel ---- */

/* 16 bytes of row k, k + 4, k + 8 and k + 12. Masked broadcasts leave the port for shuffles alone. */
CR_INLINE __m512i load_every_fourth(const panel_rows *r, int k, size_t at)
{
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(r->p[k] + at)));
    CR_UNROLL
    for (int i = 1; i < 4; i++) {
        const __m128i row = _mm_loadu_si128((const __m128i *)(r->p[k + 4 * i] + at));
        v = _mm512_mask_broadcast_i32x4(v, (__mmask16)(15 << 4 * i), row);
    }
    return v;
}

/* Rows in their places from every fourth one: to[k] gets lanes 4 j + k, in order of their rows. */
CR_INLINE void transpose_lanes(__m512i to[4], __m512i s0, __m512i s1, __m512i s2, __m512i s3)
{
    const __m512i low01 = _mm512_unpacklo_epi32(s0, s1), high01 = _mm512_unpackhi_epi32(s0, s1);
    const __m512i low23 = _mm512_unpacklo_epi32(s2, s3), high23 = _mm512_unpackhi_epi32(s2, s3);
    to[0] = _mm512_unpacklo_epi64(low01, low23);
    to[1] = _mm512_unpackhi_epi64(low01, low23);
    to[2] = _mm512_unpacklo_epi64(high01, high23);
    to[3] = _mm512_unpackhi_epi64(high01, high23);
}

/* 16 bytes of each row: to[k] gets bytes 4 k to 4 k + 3 of all. */
CR_INLINE void transpose(__m512i to[4], const panel_rows *r, size_t at)
{
    transpose_lanes(to, load_every_fourth(r, 0, at), load_every_fourth(r, 1, at),
                    load_every_fourth(r, 2, at), load_every_fourth(r, 3, at));
}

/* Four bytes of each row. Gathers are slow on some processors. */
CR_INLINE __m512i load_dwords(const panel_rows *r, size_t at)
{
    __m256i half[2];
    CR_UNROLL
    for (int h = 0; h < 2; h++) {
        const uint8_t *const *p = r->p + 8 * h;
        half[h] = _mm256_setr_epi32(dword_at(p[0] + at), dword_at(p[1] + at), dword_at(p[2] + at),
                                    dword_at(p[3] + at), dword_at(p[4] + at), dword_at(p[5] + at),
                                    dword_at(p[6] + at), dword_at(p[7] + at));
    }
    return _mm512_inserti64x4(_mm512_castsi256_si512(half[0]), half[1], 1);
}

/* A half of each row, as floats. */
CR_INLINE __m512 load_halves(const panel_rows *r, size_t at)
{
    return _mm512_cvtph_ps(_mm256_setr_epi64x(four_words(r->p, at), four_words(r->p + 4, at),
                                              four_words(r->p + 8, at), four_words(r->p + 12, at)));
}

/* The lower words of the lanes, as halves, become floats. */
CR_INLINE __m512 low_halves(__m512i dwords)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(dwords));
}

CR_INLINE __m512 high_halves(__m512i dwords)
{
    return low_halves(_mm512_srli_epi32(dwords, 16));
}

CR_INLINE __m512i low_nibbles(__m512i pairs)
{
    return _mm512_and_si512(pairs, _mm512_set1_epi8(15));
}

CR_INLINE __m512i high_nibbles(__m512i pairs)
{
    return low_nibbles(_mm512_srli_epi16(pairs, 4));
}

CR_INLINE __m512i flip_signs(__m512i bytes)
{
    return _mm512_xor_si512(bytes, _mm512_set1_epi8(-128));
}

/* A block's nibbles, as numbers of IQ4 levels, become levels. */
CR_INLINE void look_up_levels(panel_block *to)
{
    const __m128i signed_levels = _mm_loadu_si128((const __m128i *)cr_iq4_levels);
    const __m512i levels = flip_signs(_mm512_broadcast_i32x4(signed_levels));
    CR_UNROLL
    for (int k = 0; k < 8; k++)
        to->w[k] = _mm512_shuffle_epi8(levels, to->w[k]);
}

/* Adds bits 4 k to 4 k + 3 of each lane of top to its four nibbles, as their fifth bits. */
CR_INLINE __m512i add_fifth(__m512i nibbles, __m512i top, int k)
{
    /* Of two lanes at a time, byte j takes the eight bits from 4 k + j - 4. */
    const __m512i from =
        _mm512_add_epi8(_mm512_set1_epi64(0x1f1e1d1c3f3e3d3c), _mm512_set1_epi8((char)(4 * k)));
    return and_or(_mm512_multishift_epi64_epi8(from, top), _mm512_set1_epi8(16), nibbles);
}

CR_INLINE void add_fifths(panel_block *to, __m512i top)
{
    CR_UNROLL
    for (int k = 0; k < 8; k++)
        to->w[k] = add_fifth(to->w[k], top, k);
}

/* Byte k of each lane as a float, times scale. */
CR_INLINE __m512 scaled_byte(__m512i bytes, int k, __m512 scale)
{
    const __m512i shifted = _mm512_srl_epi32(bytes, _mm_cvtsi32_si128(8 * k));
    const __m512i byte = _mm512_and_si512(shifted, _mm512_set1_epi32(255));
    return _mm512_mul_ps(scale, _mm512_cvtepi32_ps(byte));
}

/* [d][dmin][12 bytes of scales] of a super-block. The first four scales and minima are six bits of
 * a byte each; the others have their low four bits in the last four bytes and the upper two on top
 * of the first ones. */
CR_INLINE void fill_k_scales(panel_block to[8], const panel_rows *r, size_t at)
{
    const __m512i six = _mm512_set1_epi8(63), two = _mm512_set1_epi8(48);
    __m512i head[4];
    transpose(head, r, at);
    const __m512i dm = head[0], s = head[1], m = head[2], low = head[3];
    const __m512i minus = _mm512_xor_si512(dm, _mm512_set1_epi32(INT32_MIN)); /* -dmin */
    const __m512 d = low_halves(dm), minus_dmin = high_halves(minus);
    const __m512i scales[2] = {
        _mm512_and_si512(s, six),
        and_or(_mm512_srli_epi16(s, 2), two, low_nibbles(low)),
    };
    const __m512i minima[2] = {
        _mm512_and_si512(m, six),
        and_or(_mm512_srli_epi16(m, 2), two, high_nibbles(low)),
    };
    CR_UNROLL
    for (int b = 0; b < 8; b++) {
        to[b].d = scaled_byte(scales[b / 4], b % 4, d);
        to[b].m = scaled_byte(minima[b / 4], b % 4, minus_dmin);
    }
}

/* Joins the bits of top to a block's bytes, moved down by `shift` to where keep has ones. */
CR_INLINE void add_top(panel_block *to, const __m512i top[8], int shift, char keep)
{
    CR_UNROLL
    for (int k = 0; k < 8; k++) {
        const __m512i turned = _mm512_rorv_epi32(top[k], _mm512_set1_epi32(shift));
        to->w[k] = and_or(turned, _mm512_set1_epi8(keep), to->w[k]);
    }
}

/* Bytes 2 k and 2 k + 1 of each lane, as words. */
CR_INLINE __m512i byte_pair(__m512i bytes, int k)
{
    const __m512i pair = _mm512_srl_epi32(bytes, _mm_cvtsi32_si128(16 * k));
    const __m512i first = _mm512_srai_epi32(_mm512_slli_epi32(pair, 24), 24);
    const __m512i second = _mm512_srai_epi32(_mm512_slli_epi32(pair, 16), 24);
    return _mm512_mask_blend_epi16(0xaaaaaaaa, first, _mm512_slli_epi32(second, 16));
}

/* Bytes 2 k and 2 k + 1 of each lane are the scales of the block's halves. */
CR_INLINE void set_scales(panel_block *to, __m512i bytes, int k)
{
    to->scale = byte_pair(bytes, k);
}

#include "backend/cpu/x86/panel_fill.h"

/* [d][8 pairs of upper bits of scales][8 nibbles of scales][8][16 bytes] of a super-block; a scale
 * is 32 less than its six bits. */
static void fill_iq4_xs(panel_block *to, const panel_rows *r, size_t first, size_t end)
{
    for (size_t super = first / 8; super < end / 8; super++) {
        const size_t at = 136 * super;
        __m512i head[4]; /* and half of the first block */
        transpose(head, r, at);
        const __m512i d_top = head[0], low = head[1];
        const __m512 d = low_halves(d_top);
        CR_UNROLL
        for (int b = 0; b < 8; b++, to++) {
            const __m512i low4 = _mm512_and_si512(_mm512_srl_epi32(low, _mm_cvtsi32_si128(4 * b)),
                                                  _mm512_set1_epi32(15));
            const __m512i turned = _mm512_rorv_epi32(d_top, _mm512_set1_epi32(16 + 2 * b - 4));
            const __m512i six = and_or(turned, _mm512_set1_epi32(48), low4);
            const __m512i scale = _mm512_sub_epi32(six, _mm512_set1_epi32(32));
            fill_levels(to, r, at + 8 + 16 * (size_t)b);
            to->d = _mm512_mul_ps(d, _mm512_cvtepi32_ps(scale));
        }
    }
}

/* [32 bytes: bit b is block b's third][2][32 bytes: two bits of four blocks][12 bytes of
 * scales][d], 110 bytes. Scales are 32 less than six bits: low four bits of all in eight bytes,
 * upper two in four. */
static void fill_q3_k(panel_block *to, const panel_rows *r, size_t first, size_t end)
{
    for (size_t super = first / 8; super < end / 8; super++) {
        const size_t at = 110 * super;
        __m512i top[8];
        transpose(top, r, at);
        transpose(top + 4, r, at + 16);
        const __m512i low[2] = { load_dwords(r, at + 96), load_dwords(r, at + 100) };
        const __m512i high = load_dwords(r, at + 104);
        const __m512 d = load_halves(r, at + 108);
        for (int half = 0; half < 2; half++) {
            __m512i two[8];
            transpose(two, r, at + 32 + 32 * (size_t)half);
            transpose(two + 4, r, at + 48 + 32 * (size_t)half);
            for (int b = 4 * half; b < 4 * half + 4; b++, to++) {
                CR_UNROLL
                for (int k = 0; k < 8; k++) {
                    const __m512i bits =
                        _mm512_and_si512(_mm512_srl_epi32(two[k], _mm_cvtsi32_si128(b % 4 * 2)),
                                         _mm512_set1_epi8(3));
                    const __m512i third = _mm512_rorv_epi32(top[k], _mm512_set1_epi32(b - 2));
                    to->w[k] = and_or(third, _mm512_set1_epi8(4), bits);
                }
                const __m512i pairs =
                    b < 4 ? low_nibbles(low[b / 2]) : high_nibbles(low[b / 2 - 2]);
                const __m512i upper = _mm512_rorv_epi32(high, _mm512_set1_epi32(b / 2 * 2 - 4));
                const __m512i four_scales = _mm512_sub_epi8(
                    and_or(upper, _mm512_set1_epi8(48), pairs), _mm512_set1_epi8(32));
                set_scales(to, four_scales, b % 2);
                to->d = d;
            }
        }
    }
}

#endif

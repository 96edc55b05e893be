/* Eight rows of a matrix unpacked for kernels of many columns, for the levels with vectors of 32
 * bytes: AVX2 and AVX-VNNI.
 *
 * A lane is a row. Blocks of 32 weights become bytes without sign, four neighbours of a row in a
 * lane, and their scales floats. A type is described once, by its fill function and what it says of
 * the bytes; how they are multiplied is the level's business. */
#ifndef CR_PANEL8_H
#define CR_PANEL8_H

#include "backend/cpu/x86/avx2.h"

enum {
    PANEL = 8,
    PANELS = 2, /* that pass together */
};

typedef __m256i ints;

typedef struct panel_block {
    __m256i
        w[16];   /* [32 / 4][row][4]: weight plus the type's offset; finish may make words of it */
    __m256 d, m; /* [row] */
    /* Types with two scales a block: fill leaves both in scale[0], as words, and the minima in
     * pairs where there are some. The level's finish makes of them what its products want. */
    __m256i scale[2];
    __m256i pairs;
} panel_block;

#include "backend/cpu/x86/panel_rows.h"

/* 16 bytes of each row: to[k] gets bytes 4 k to 4 k + 3 of all. */
CR_INLINE void transpose(__m256i to[4], const panel_rows *r, size_t at)
{
    const __m256i s0 = load_2x16(r->p[0] + at, r->p[4] + at);
    const __m256i s1 = load_2x16(r->p[1] + at, r->p[5] + at);
    const __m256i s2 = load_2x16(r->p[2] + at, r->p[6] + at);
    const __m256i s3 = load_2x16(r->p[3] + at, r->p[7] + at);
    const __m256i low01 = _mm256_unpacklo_epi32(s0, s1), high01 = _mm256_unpackhi_epi32(s0, s1);
    const __m256i low23 = _mm256_unpacklo_epi32(s2, s3), high23 = _mm256_unpackhi_epi32(s2, s3);
    to[0] = _mm256_unpacklo_epi64(low01, low23);
    to[1] = _mm256_unpackhi_epi64(low01, low23);
    to[2] = _mm256_unpacklo_epi64(high01, high23);
    to[3] = _mm256_unpackhi_epi64(high01, high23);
}

/* Four bytes, to all lanes. */
CR_INLINE __m256i four(const void *bytes)
{
    return _mm256_set1_epi32(dword_at(bytes));
}

/* Four bytes of each row. Gathers are slow where processors were corrected. */
CR_INLINE __m256i load_dwords(const panel_rows *r, size_t at)
{
    return _mm256_setr_epi32(dword_at(r->p[0] + at), dword_at(r->p[1] + at), dword_at(r->p[2] + at),
                             dword_at(r->p[3] + at), dword_at(r->p[4] + at), dword_at(r->p[5] + at),
                             dword_at(r->p[6] + at), dword_at(r->p[7] + at));
}

/* A half of each row, as floats. */
CR_INLINE __m256 load_halves(const panel_rows *r, size_t at)
{
    return _mm256_cvtph_ps(_mm_set_epi64x(four_words(r->p + 4, at), four_words(r->p, at)));
}

/* The upper words of the lanes, as halves, become floats. */
CR_INLINE __m256 high_halves(__m256i dwords)
{
    const __m256i words = _mm256_srli_epi32(dwords, 16);
    const __m256i packed = _mm256_packus_epi32(words, words);
    return _mm256_cvtph_ps(
        _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, _MM_SHUFFLE(3, 1, 2, 0))));
}

CR_INLINE __m256 low_halves(__m256i dwords)
{
    return high_halves(_mm256_slli_epi32(dwords, 16));
}

CR_INLINE __m256i low_nibbles(__m256i pairs)
{
    return _mm256_and_si256(pairs, _mm256_set1_epi8(15));
}

CR_INLINE __m256i high_nibbles(__m256i pairs)
{
    return low_nibbles(_mm256_srli_epi16(pairs, 4));
}

/* Lanes moved down by n bits, or up by -n, and of their bytes the bits that are set in keep. */
CR_INLINE __m256i shifted_bits(__m256i v, int n, char keep)
{
    const __m256i s = n < 0 ? _mm256_sll_epi32(v, _mm_cvtsi32_si128(-n))
                            : _mm256_srl_epi32(v, _mm_cvtsi32_si128(n));
    return _mm256_and_si256(s, _mm256_set1_epi8(keep));
}

CR_INLINE __m256i flip_signs(__m256i bytes)
{
    return _mm256_xor_si256(bytes, _mm256_set1_epi8(-128));
}

/* A block's nibbles, as numbers of IQ4 levels, become levels. */
CR_INLINE void look_up_levels(panel_block *to)
{
    const __m128i signed_levels = _mm_loadu_si128((const __m128i *)cr_iq4_levels);
    const __m256i levels = flip_signs(_mm256_broadcastsi128_si256(signed_levels));
    CR_UNROLL
    for (int k = 0; k < 8; k++)
        to->w[k] = _mm256_shuffle_epi8(levels, to->w[k]);
}

/* Bits 4 k to 4 k + 3 of each lane of top become the fifth bits of its four bytes. */
CR_INLINE void add_fifths(panel_block *to, __m256i top)
{
    CR_UNROLL
    for (int k = 0; k < 8; k++) {
        const __m256i bit = _mm256_set1_epi32(k % 2 ? (int)0x80402010 : 0x08040201);
        const __m128i byte = _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
        const __m256i from =
            _mm256_broadcastsi128_si256(_mm_add_epi8(byte, _mm_set1_epi8((char)(k / 2))));
        const __m256i bits = _mm256_and_si256(_mm256_shuffle_epi8(top, from), bit);
        const __m256i fifth = _mm256_and_si256(_mm256_cmpeq_epi8(bits, bit), _mm256_set1_epi8(16));
        to->w[k] = _mm256_or_si256(to->w[k], fifth);
    }
}

/* Byte k of each lane as a float, times scale. */
CR_INLINE __m256 scaled_byte(__m256i bytes, int k, __m256 scale)
{
    const __m256i byte =
        _mm256_and_si256(_mm256_srl_epi32(bytes, _mm_cvtsi32_si128(8 * k)), _mm256_set1_epi32(255));
    return _mm256_mul_ps(scale, _mm256_cvtepi32_ps(byte));
}

/* [d][dmin][12 bytes of scales] of a super-block. The first four scales and minima are six bits of
 * a byte each; the others have their low four bits in the last four bytes and the upper two on top
 * of the first ones. */
CR_INLINE void fill_k_scales(panel_block to[8], const panel_rows *r, size_t at)
{
    __m256i head[4];
    transpose(head, r, at);
    const __m256i dm = head[0], s = head[1], m = head[2], low = head[3];
    const __m256i minus = _mm256_xor_si256(dm, _mm256_set1_epi32(INT32_MIN)); /* -dmin */
    const __m256 d = low_halves(dm), minus_dmin = high_halves(minus);
    const __m256i scales[2] = {
        shifted_bits(s, 0, 63),
        _mm256_or_si256(low_nibbles(low), shifted_bits(s, 2, 48)),
    };
    const __m256i minima[2] = {
        shifted_bits(m, 0, 63),
        _mm256_or_si256(high_nibbles(low), shifted_bits(m, 2, 48)),
    };
    CR_UNROLL
    for (int b = 0; b < 8; b++) {
        to[b].d = scaled_byte(scales[b / 4], b % 4, d);
        to[b].m = scaled_byte(minima[b / 4], b % 4, minus_dmin);
    }
}

/* Joins the bits of top to a block's bytes, moved down by `shift` to where keep has ones. */
CR_INLINE void add_top(panel_block *to, const __m256i top[8], int shift, char keep)
{
    CR_UNROLL
    for (int k = 0; k < 8; k++)
        to->w[k] = _mm256_or_si256(to->w[k], shifted_bits(top[k], shift, keep));
}

/* Bytes 2 k and 2 k + 1 of each lane, as words. */
CR_INLINE __m256i byte_pair(__m256i bytes, int k)
{
    const __m128i first =
        _mm_setr_epi8(-128, 0, -128, 1, -128, 4, -128, 5, -128, 8, -128, 9, -128, 12, -128, 13);
    const __m128i from = _mm_add_epi8(first, _mm_set1_epi8((char)(2 * k)));
    return _mm256_srai_epi16(_mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(from)), 8);
}

/* Bytes 2 k and 2 k + 1 of each lane are the scales of the block's halves. */
CR_INLINE void set_scales(panel_block *to, __m256i bytes, int k)
{
    to->scale[0] = byte_pair(bytes, k);
}

#include "backend/cpu/x86/panel_fill.h"

/* [d][8 pairs of upper bits of scales][8 nibbles of scales][8][16 bytes] of a super-block; a scale
 * is 32 less than its six bits. */
static void fill_iq4_xs(panel_block *to, const panel_rows *r, size_t first, size_t end)
{
    for (size_t super = first / 8; super < end / 8; super++) {
        const size_t at = 136 * super;
        __m256i head[4]; /* and half of the first block */
        transpose(head, r, at);
        const __m256i d_top = head[0], low = head[1];
        const __m256 d = low_halves(d_top);
        CR_UNROLL
        for (int b = 0; b < 8; b++, to++) {
            const __m256i six =
                _mm256_or_si256(shifted_bits(low, 4 * b, 15), shifted_bits(d_top, 12 + 2 * b, 48));
            const __m256i byte = _mm256_and_si256(six, _mm256_set1_epi32(255));
            const __m256i scale = _mm256_sub_epi32(byte, _mm256_set1_epi32(32));
            fill_levels(to, r, at + 8 + 16 * (size_t)b);
            to->d = _mm256_mul_ps(d, _mm256_cvtepi32_ps(scale));
        }
    }
}

/* 32 bytes with two bits of each of four blocks. */
CR_INLINE void fill_four(panel_block to[4], const panel_rows *r, size_t at)
{
    __m256i t[8];
    transpose(t, r, at);
    transpose(t + 4, r, at + 16);
    CR_UNROLL
    for (int b = 0; b < 4; b++)
        CR_UNROLL
    for (int k = 0; k < 8; k++)
        to[b].w[k] = shifted_bits(t[k], 2 * b, 3);
}

/* [32 bytes: bit b is block b's third][2][32 bytes: two bits of four blocks][12 bytes of
 * scales][d], 110 bytes. Scales are 32 less than six bits: low four bits of all in eight bytes,
 * upper two in four. */
static void fill_q3_k(panel_block *to, const panel_rows *r, size_t first, size_t end)
{
    for (size_t super = first / 8; super < end / 8; super++) {
        const size_t at = 110 * super;
        __m256i top[8];
        transpose(top, r, at);
        transpose(top + 4, r, at + 16);
        const __m256i low[2] = { load_dwords(r, at + 96), load_dwords(r, at + 100) };
        const __m256i high = load_dwords(r, at + 104);
        const __m256 d = load_halves(r, at + 108);
        CR_UNROLL
        for (int b = 0; b < 8; b++, to++) {
            if (b % 4 == 0)
                fill_four(to, r, at + 32 + 8 * (size_t)b);
            const __m256i four = b < 4 ? low_nibbles(low[b / 2]) : high_nibbles(low[b / 2 - 2]);
            const __m256i six = _mm256_or_si256(four, shifted_bits(high, b / 2 * 2 - 4, 48));
            add_top(to, top, b - 2, 4);
            set_scales(to, _mm256_sub_epi8(six, _mm256_set1_epi8(32)), b % 2);
            to->d = d;
        }
    }
}

/* [16 bytes: a scale, and above it a minimum][2][32 bytes: two bits of four blocks][d][dmin], 84
 * bytes */
static void fill_q2_k(panel_block *to, const panel_rows *r, size_t first, size_t end)
{
    for (size_t super = first / 8; super < end / 8; super++, to += 8) {
        const size_t at = 84 * super;
        __m256i pairs[4];
        transpose(pairs, r, at);
        fill_four(to, r, at + 16);
        fill_four(to + 4, r, at + 48);
        const __m256i dm = load_dwords(r, at + 80);
        const __m256i minus = _mm256_xor_si256(dm, _mm256_set1_epi32(INT32_MIN)); /* -dmin */
        const __m256 d = low_halves(dm), minus_dmin = high_halves(minus);
        CR_UNROLL
        for (int b = 0; b < 8; b++) {
            set_scales(&to[b], low_nibbles(pairs[b / 2]), b % 2);
            to[b].pairs = byte_pair(high_nibbles(pairs[b / 2]), b % 2);
            to[b].d = d;
            to[b].m = minus_dmin;
        }
    }
}

#endif

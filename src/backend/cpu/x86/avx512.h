/* What the AVX-512 kernels share.
 *
 * A matrix kernel takes four rows at a time and a quad of blocks from each. The sixteen block sums
 * become one vector, a lane each, which one FMA adds to the chains of its quad:
 *
 *     lane       0    1    2    3    4    5  ...  15
 *     row        0    0    0    0    1    1  ...   3
 *     block      0    1    2    3    0    1  ...   3      of the quad
 *
 *     quad 0 -> c0,  quad 1 -> c1,  quad 2 -> c2,  quad 3 -> c3,  quad 4 -> c0, ...
 *
 * So c0 to c3 are the sixteen chains of four rows, and the merge needs no transposition: blocks
 * eight apart are c0 and c2, four apart are c0 + c2 and c1 + c3, the rest are neighbours. */
#ifndef CR_AVX512_H
#define CR_AVX512_H

#include <immintrin.h>

#include "backend/cpu/exp.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/x86/rows4.h"
#include "base/compiler.h"

/* ---- four rows ---- */

/* Moving the pointers instead of an index leaves constants in all addresses. */
CR_INLINE void rows4_move(rows4 *r, size_t n_bytes)
{
    r->p[0] += n_bytes;
    r->p[1] += n_bytes;
    r->p[2] += n_bytes;
    r->p[3] += n_bytes;
    r->ahead += 4 * n_bytes;
}

/* Lane 4 k of s is the sum of row k; stores the n_rows <= 4 that exist. */
CR_INLINE void store_rows(float *y, __m512 s, size_t n_rows)
{
    const __m128 sums = _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, s));
    if (n_rows >= 4)
        _mm_storeu_ps(y, sums);
    else
        _mm_mask_storeu_ps(y, (__mmask8)((1u << n_rows) - 1), sums);
}

/* ---- sums ---- */

/* Adds the four dwords of each 128-bit lane of sum_k, giving dword k of that lane. */
CR_INLINE __m512i reduce4(__m512i s0, __m512i s1, __m512i s2, __m512i s3)
{
    const __m512i s01 =
        _mm512_add_epi32(_mm512_unpacklo_epi32(s0, s1), _mm512_unpackhi_epi32(s0, s1));
    const __m512i s23 =
        _mm512_add_epi32(_mm512_unpacklo_epi32(s2, s3), _mm512_unpackhi_epi32(s2, s3));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(s01, s23), _mm512_unpackhi_epi64(s01, s23));
}

/* The same, as [row][block] when the lanes are blocks and the sums are rows. */
CR_INLINE __m512i reduce4_rows(__m512i s0, __m512i s1, __m512i s2, __m512i s3)
{
    const __m512i transpose =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(transpose, reduce4(s0, s1, s2, s3));
}

/* The last two steps of the merge: 4 -> 2 -> 1 within each 128-bit lane. */
CR_INLINE __m512 merge_lane(__m512 s)
{
    s = _mm512_add_ps(s, _mm512_shuffle_ps(s, s, 0x4e));
    return _mm512_add_ps(s, _mm512_shuffle_ps(s, s, 0xb1));
}

/* The same of four vectors: lane k of each 128-bit lane is the sum of that of s_k. */
CR_INLINE __m512 merge_lanes(__m512 s0, __m512 s1, __m512 s2, __m512 s3)
{
    const __m512 s01 =
        _mm512_add_ps(_mm512_shuffle_ps(s0, s1, 0x44), _mm512_shuffle_ps(s0, s1, 0xee));
    const __m512 s23 =
        _mm512_add_ps(_mm512_shuffle_ps(s2, s3, 0x44), _mm512_shuffle_ps(s2, s3, 0xee));
    return _mm512_add_ps(_mm512_shuffle_ps(s01, s23, 0x88), _mm512_shuffle_ps(s01, s23, 0xdd));
}

/* The first two steps, 16 -> 8 -> 4, for chains in order within each c: a 128-bit lane each. */
CR_INLINE __m512 merge_to_4(__m512 c0, __m512 c1, __m512 c2, __m512 c3)
{
    const __m512 s01 =
        _mm512_add_ps(_mm512_shuffle_f32x4(c0, c1, 0x44), _mm512_shuffle_f32x4(c0, c1, 0xee));
    const __m512 s23 =
        _mm512_add_ps(_mm512_shuffle_f32x4(c2, c3, 0x44), _mm512_shuffle_f32x4(c2, c3, 0xee));
    return _mm512_add_ps(_mm512_shuffle_f32x4(s01, s23, 0x88),
                         _mm512_shuffle_f32x4(s01, s23, 0xdd));
}

/* Four rows' chains, in order within each c: the sums, at lanes 0, 4, 8 and 12. */
CR_INLINE __m512 merge_rows(__m512 c0, __m512 c1, __m512 c2, __m512 c3)
{
    return merge_lane(merge_to_4(c0, c1, c2, c3));
}

/* One row's chains, a lane each. */
CR_INLINE float merge_chains(__m512 c)
{
    const __m256 c8 = _mm256_add_ps(_mm512_castps512_ps256(c), _mm512_extractf32x8_ps(c, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(c8), _mm256_extractf128_ps(c8, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* ---- a quad's activations, [row][block] where a vector has the four blocks ---- */

CR_INLINE __m512i quad_q(const cr_act *x, size_t quad, int half)
{
    return _mm512_load_si512(x->q + 128 * quad + 64 * (size_t)half);
}

CR_INLINE __m512 quad_d(const cr_act *x, size_t quad)
{
    return _mm512_broadcast_f32x4(_mm_load_ps(x->d + 4 * quad));
}

/* A pair of int16 for each block. */
CR_INLINE __m512i quad_sums(const cr_act *x, size_t quad)
{
    return _mm512_broadcast_i32x4(_mm_load_si128((const __m128i *)(x->sum + 8 * quad)));
}

/* Lanes of the first n blocks. */
CR_INLINE __mmask16 quad_lanes(int n)
{
    return (__mmask16)(n == 4 ? 0xffffu : ((1u << n) - 1) * 0x1111u);
}

/* ---- products of bytes, four blocks of 16 ---- */

/* A vector of nibble pairs with the activations of its low and its high nibbles. */
typedef __m512i pairs_dot(__m512i pairs, __m512i low, __m512i high);

CR_INLINE __m512i dot_nibbles(__m512i pairs, __m512i low, __m512i high)
{
    const __m512i mask = _mm512_set1_epi8(15);
    const __m512i sum =
        _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_and_si512(pairs, mask), low);
    return _mm512_dpbusd_epi32(sum, _mm512_and_si512(_mm512_srli_epi16(pairs, 4), mask), high);
}

/* The same for nibbles that are numbers of IQ4 levels, each 128 more than it is. */
CR_INLINE __m512i dot_levels(__m512i pairs, __m512i low, __m512i high)
{
    const __m512i mask = _mm512_set1_epi8(15);
    const __m128i signed_levels = _mm_loadu_si128((const __m128i *)cr_iq4_levels);
    const __m512i levels =
        _mm512_broadcast_i32x4(_mm_xor_si128(signed_levels, _mm_set1_epi8(-128)));
    const __m512i w0 = _mm512_shuffle_epi8(levels, _mm512_and_si512(pairs, mask));
    const __m512i w1 =
        _mm512_shuffle_epi8(levels, _mm512_and_si512(_mm512_srli_epi16(pairs, 4), mask));
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), w0, low), w1, high);
}

/* a & b | c */
CR_INLINE __m512i and_or(__m512i a, __m512i b, __m512i c)
{
    return _mm512_ternarylogic_epi64(a, b, c, 0xea);
}

/* ---- small things ---- */

CR_INLINE __mmask16 first_lanes(size_t n)
{
    return (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1);
}

/* The first n bytes at p, then zeros. Bytes that are not asked for are not touched. */
CR_INLINE __m512i load_bytes(const uint8_t *p, int n)
{
    return _mm512_maskz_loadu_epi8(n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1, p);
}

/* Sixteen words, as halves, become floats. */
CR_INLINE __m512 halves(__m512i words)
{
    return _mm512_cvtph_ps(_mm512_castsi512_si256(words));
}

CR_INLINE __m512 exp_lanes(__m512 x)
{
    x = _mm512_max_ps(_mm512_set1_ps(CR_EXP_MIN), x); /* a NaN in the second operand stays */
    x = _mm512_min_ps(_mm512_set1_ps(CR_EXP_MAX), x);
    const __m512 round = _mm512_set1_ps(CR_EXP_ROUND);
    const __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(CR_EXP_LOG2E), round);
    const __m512 k = _mm512_sub_ps(t, round);
    __m512 r = _mm512_fmadd_ps(k, _mm512_set1_ps(-CR_EXP_LN2_HI), x);
    r = _mm512_fmadd_ps(k, _mm512_set1_ps(-CR_EXP_LN2_LO), r);
    __m512 p = _mm512_set1_ps(CR_EXP_C6);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(CR_EXP_C5));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(CR_EXP_C4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(CR_EXP_C3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(CR_EXP_C2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, k); /* rounds once, like the two steps of the definition */
}

#endif

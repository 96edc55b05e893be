/* What the AVX2 kernels share.
 *
 * A matrix kernel takes four rows at a time and a pair of blocks from each. The eight block sums
 * become one vector, a lane each, which one FMA adds to chain[pair % 8]:
 *
 *     lane       0    1    2    3    4    5    6    7
 *     block      0    0    0    0    1    1    1    1      of the pair
 *     row        0    1    2    3    0    1    2    3
 *
 * The merge of four rows needs no shuffle: blocks eight, four and two apart are different vectors,
 * neighbours are a vector's halves. */
#ifndef CR_AVX2_H
#define CR_AVX2_H

#include <immintrin.h>

#include "backend/cpu/exp.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/x86/rows4.h"
#include "base/compiler.h"

/* ---- four rows ---- */

CR_INLINE void store_rows(float *y, __m128 sums, size_t n_rows)
{
    if (n_rows >= 4) {
        _mm_storeu_ps(y, sums);
    } else {
        float some[4];
        _mm_storeu_ps(some, sums);
        for (size_t i = 0; i < n_rows; i++)
            y[i] = some[i];
    }
}

/* chain[pair % 8] of four rows, 16 -> 8 -> 4 -> 2 -> 1. */
CR_INLINE __m128 merge_pairs(const __m256 chain[8])
{
    const __m256 c0 = _mm256_add_ps(chain[0], chain[4]), c1 = _mm256_add_ps(chain[1], chain[5]);
    const __m256 c2 = _mm256_add_ps(chain[2], chain[6]), c3 = _mm256_add_ps(chain[3], chain[7]);
    const __m256 s = _mm256_add_ps(_mm256_add_ps(c0, c2), _mm256_add_ps(c1, c3));
    return _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
}

/* One row's chains in order, 0 to 7 and 8 to 15. */
CR_INLINE float merge_chains(__m256 low, __m256 high)
{
    const __m256 c8 = _mm256_add_ps(low, high);
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(c8), _mm256_extractf128_ps(c8, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* 16 -> 4 */
CR_INLINE __m128 merge_to_4(__m256 low, __m256 high)
{
    const __m256 s = _mm256_add_ps(low, high);
    return _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
}

/* 4 -> 1, of four rows. */
CR_INLINE __m128 merge_rows(__m128 s0, __m128 s1, __m128 s2, __m128 s3)
{
    _MM_TRANSPOSE4_PS(s0, s1, s2, s3);
    return _mm_add_ps(_mm_add_ps(s0, s2), _mm_add_ps(s1, s3));
}

/* Adds the four dwords of each 128-bit lane of sum_k, giving dword k of that lane. */
CR_INLINE __m256i reduce4(__m256i s0, __m256i s1, __m256i s2, __m256i s3)
{
    const __m256i s01 =
        _mm256_add_epi32(_mm256_unpacklo_epi32(s0, s1), _mm256_unpackhi_epi32(s0, s1));
    const __m256i s23 =
        _mm256_add_epi32(_mm256_unpacklo_epi32(s2, s3), _mm256_unpackhi_epi32(s2, s3));
    return _mm256_add_epi32(_mm256_unpacklo_epi64(s01, s23), _mm256_unpackhi_epi64(s01, s23));
}

/* Pairs of words to dwords. */
CR_INLINE __m256i widen(__m256i words)
{
    return _mm256_madd_epi16(words, _mm256_set1_epi16(1));
}

/* ---- products of bytes ---- */

/* |w| times q with the sign of w: both fit what the instruction wants, and 2 * 128 * 127 fits 16
 * bits. A second such sum would not, hence two steps. */
CR_INLINE __m256i dot_signed(__m256i w, __m256i q)
{
    return widen(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w)));
}

/* Nibbles that are numbers of IQ4 levels, with the activations of the low and the high ones. */
CR_INLINE __m256i dot_levels(__m256i pairs, __m256i low, __m256i high)
{
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256i levels =
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)cr_iq4_levels));
    const __m256i w0 = _mm256_shuffle_epi8(levels, _mm256_and_si256(pairs, mask));
    const __m256i w1 =
        _mm256_shuffle_epi8(levels, _mm256_and_si256(_mm256_srli_epi16(pairs, 4), mask));
    return _mm256_add_epi32(dot_signed(w0, low), dot_signed(w1, high));
}

/* ---- a pair's activations ---- */

CR_INLINE __m256i pair_q(const cr_act *x, size_t pair, size_t half)
{
    return _mm256_load_si256((const __m256i *)(x->q + cr_act_index(64 * pair + 16 * half)));
}

CR_INLINE __m256 pair_d(const cr_act *x, size_t pair)
{
    return _mm256_set_m128(_mm_broadcast_ss(x->d + 2 * pair + 1),
                           _mm_broadcast_ss(x->d + 2 * pair));
}

/* Sums of the two halves, as pairs of words. */
CR_INLINE __m256i pair_sums(const cr_act *x, size_t pair)
{
    const __m128i four = _mm_loadl_epi64((const __m128i *)(x->sum + 4 * pair));
    return _mm256_set_m128i(_mm_shuffle_epi32(four, 0x55), _mm_shuffle_epi32(four, 0));
}

/* d times the sum of the block. */
CR_INLINE __m256 pair_d_sum(const cr_act *x, size_t pair)
{
    return _mm256_mul_ps(pair_d(x, pair), _mm256_cvtepi32_ps(widen(pair_sums(x, pair))));
}

/* ---- small things ---- */

CR_INLINE __m256i load_2x16(const uint8_t *low, const uint8_t *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low)),
                                   _mm_loadu_si128((const __m128i *)high), 1);
}

CR_INLINE short word_at(const uint8_t *p)
{
    return (short)(p[0] | p[1] << 8);
}

/* A half from each row, at byte `at`. */
CR_INLINE __m128 row_halves(const rows4 *r, size_t at)
{
    return _mm_cvtph_ps(_mm_setr_epi16(word_at(r->p[0] + at), word_at(r->p[1] + at),
                                       word_at(r->p[2] + at), word_at(r->p[3] + at), 0, 0, 0, 0));
}

/* All bits set in the first n lanes. */
CR_INLINE __m256i first_lanes(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)CR_MIN(n, 8)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

CR_INLINE __m256 exp_lanes(__m256 x)
{
    x = _mm256_max_ps(_mm256_set1_ps(CR_EXP_MIN), x); /* a NaN in the second operand stays */
    x = _mm256_min_ps(_mm256_set1_ps(CR_EXP_MAX), x);
    const __m256 round = _mm256_set1_ps(CR_EXP_ROUND);
    const __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(CR_EXP_LOG2E), round);
    const __m256 k = _mm256_sub_ps(t, round);
    __m256 r = _mm256_fmadd_ps(k, _mm256_set1_ps(-CR_EXP_LN2_HI), x);
    r = _mm256_fmadd_ps(k, _mm256_set1_ps(-CR_EXP_LN2_LO), r);
    __m256 p = _mm256_set1_ps(CR_EXP_C6);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(CR_EXP_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(CR_EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(CR_EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(CR_EXP_C2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));

    const __m256i bits = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_castps_si256(round));
    const __m256i first = _mm256_srai_epi32(bits, 1), second = _mm256_sub_epi32(bits, first);
    const __m256i bias = _mm256_set1_epi32(127);
    p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(first, bias), 23)));
    return _mm256_mul_ps(
        p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(second, bias), 23)));
}

#endif

/* Matrix times vector for super-blocks of 256 weights: Q2_K to Q6_K, IQ4_XS. See avx2.h for the
 * shape.
 *
 * A super-block is four pairs. Scales of its four rows are unpacked once. */
#include "backend/cpu/x86/avx2.h"

/* Adds four pairs' sums to chain[0] to [3]. */
typedef void super_sum(__m256 chain[4], const rows4 *r, size_t at, const cr_act *x, size_t pair);

CR_INLINE void matvec(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x,
                      size_t super_bytes, super_sum *add)
{
    const size_t n_super = x->n / 256;
    for (size_t i = 0; i < n_rows; i += 4) {
        const rows4 r = rows4_at(w, row_bytes, i, n_rows, x->prefetch);
        __m256 chain[8];
        for (int k = 0; k < 8; k++)
            chain[k] = _mm256_setzero_ps();
        for (size_t s = 0; s < n_super; s++)
            add(chain + s % 2 * 4, &r, s * super_bytes, x, 4 * s);
        store_rows(y + i, merge_pairs(chain), n_rows - i);
    }
}

CR_INLINE __m256 both(__m128 v)
{
    return _mm256_set_m128(v, v);
}

/* 16 bytes of each row, transposed: word 4 i + row is the row's bytes 2 i and 2 i + 1. In types
 * with two scales a block these are block i's. */
CR_INLINE void transpose_words(uint8_t out[64], __m128i s0, __m128i s1, __m128i s2, __m128i s3)
{
    const __m128i a = _mm_unpacklo_epi16(s0, s2), b = _mm_unpacklo_epi16(s1, s3);
    const __m128i c = _mm_unpackhi_epi16(s0, s2), d = _mm_unpackhi_epi16(s1, s3);
    _mm_storeu_si128((__m128i *)out, _mm_unpacklo_epi16(a, b));
    _mm_storeu_si128((__m128i *)(out + 16), _mm_unpackhi_epi16(a, b));
    _mm_storeu_si128((__m128i *)(out + 32), _mm_unpacklo_epi16(c, d));
    _mm_storeu_si128((__m128i *)(out + 48), _mm_unpackhi_epi16(c, d));
}

CR_INLINE void transpose_rows(uint8_t out[64], const rows4 *r, size_t at)
{
    transpose_words(out, _mm_loadu_si128((const __m128i *)(r->p[0] + at)),
                    _mm_loadu_si128((const __m128i *)(r->p[1] + at)),
                    _mm_loadu_si128((const __m128i *)(r->p[2] + at)),
                    _mm_loadu_si128((const __m128i *)(r->p[3] + at)));
}

/* ---- Q4_K: [d][dmin][12 bytes of scales][128 bytes], 144 bytes ---- */

/* From [d dmin][s0-3][s4-7][s8-11] to [scales 0-3][scales 4-7][minima 0-3][4-7]. */
CR_INLINE __m128i q4_k_scales(const uint8_t *p)
{
    const __m128i head = _mm_loadu_si128((const __m128i *)p);
    const __m128i keep = _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f);
    const __m128i keep_top = _mm_setr_epi32(0, 0x30303030, 0, 0x30303030);
    const __m128i low = _mm_srlv_epi32(_mm_shuffle_epi32(head, _MM_SHUFFLE(3, 2, 3, 1)),
                                       _mm_setr_epi32(0, 0, 0, 4));
    const __m128i top = _mm_srli_epi32(_mm_shuffle_epi32(head, _MM_SHUFFLE(2, 2, 1, 1)), 2);
    return _mm_or_si128(_mm_and_si128(low, keep), _mm_and_si128(top, keep_top));
}

/* The scales of four rows, transposed: byte 4 j + row. */
CR_INLINE void q4_k_transpose(uint8_t out[64], const rows4 *r, size_t at)
{
    const __m128i s0 = q4_k_scales(r->p[0] + at), s1 = q4_k_scales(r->p[1] + at);
    const __m128i s2 = q4_k_scales(r->p[2] + at), s3 = q4_k_scales(r->p[3] + at);
    const __m128i a = _mm_unpacklo_epi8(s0, s2), b = _mm_unpacklo_epi8(s1, s3);
    const __m128i c = _mm_unpackhi_epi8(s0, s2), d = _mm_unpackhi_epi8(s1, s3);
    _mm_storeu_si128((__m128i *)out, _mm_unpacklo_epi8(a, b));
    _mm_storeu_si128((__m128i *)(out + 16), _mm_unpackhi_epi8(a, b));
    _mm_storeu_si128((__m128i *)(out + 32), _mm_unpacklo_epi8(c, d));
    _mm_storeu_si128((__m128i *)(out + 48), _mm_unpackhi_epi8(c, d));
}

CR_INLINE __m256 eight_bytes(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

/* 32 bytes: low nibbles are the first block, high ones the second. */
CR_INLINE __m256i q4_k_dot(const uint8_t *p, __m256i first, __m256i second)
{
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256i v = _mm256_loadu_si256((const __m256i *)p);
    const __m256i b0 = _mm256_and_si256(v, mask);
    const __m256i b1 = _mm256_and_si256(_mm256_srli_epi16(v, 4), mask);
    const __m256i w0 = _mm256_permute2x128_si256(b0, b1, 0x20);
    const __m256i w1 = _mm256_permute2x128_si256(b0, b1, 0x31);
    return widen(
        _mm256_add_epi16(_mm256_maddubs_epi16(w0, first), _mm256_maddubs_epi16(w1, second)));
}

CR_INLINE void q4_k_super(__m256 chain[4], const rows4 *r, size_t at, const cr_act *x, size_t pair)
{
    const __m256 d = both(row_halves(r, at)), dmin = both(row_halves(r, at + 2));
    uint8_t scales[64];
    q4_k_transpose(scales, r, at);
    prefetch_rows(r, at, 64);
    prefetch_rows(r, at + 64, 64);
    prefetch_rows(r, at + 128, 16);
    for (size_t k = 0; k < 4; k++) {
        const __m256i first = pair_q(x, pair + k, 0), second = pair_q(x, pair + k, 1);
        const size_t chunk = at + 16 + 32 * k;
        const __m256i dot = reduce4(
            q4_k_dot(r->p[0] + chunk, first, second), q4_k_dot(r->p[1] + chunk, first, second),
            q4_k_dot(r->p[2] + chunk, first, second), q4_k_dot(r->p[3] + chunk, first, second));
        const __m256 scale = _mm256_mul_ps(d, eight_bytes(scales + 8 * k));
        const __m256 minimum = _mm256_mul_ps(dmin, eight_bytes(scales + 32 + 8 * k));
        const __m256 c = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot),
                                         _mm256_mul_ps(scale, pair_d(x, pair + k)), chain[k]);
        chain[k] = _mm256_fnmadd_ps(minimum, pair_d_sum(x, pair + k), c);
    }
}

/* ---- Q5_K: [d][dmin][12 bytes of scales][32 bytes top][128 bytes], 176 bytes ---- */

/* 16 where bit k of a byte is set. */
CR_INLINE __m256i q5_k_fifth(__m256i top, int k)
{
    return _mm256_slli_epi16(_mm256_and_si256(_mm256_srli_epi16(top, k), _mm256_set1_epi8(1)), 4);
}

/* Pair k of the super-block at p. */
CR_INLINE __m256i q5_k_dot(const uint8_t *p, int k, __m256i first, __m256i second)
{
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256i top = _mm256_loadu_si256((const __m256i *)(p + 16));
    const __m256i v = _mm256_loadu_si256((const __m256i *)(p + 48 + 32 * k));
    const __m256i b0 = _mm256_or_si256(_mm256_and_si256(v, mask), q5_k_fifth(top, 2 * k));
    const __m256i b1 = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(v, 4), mask),
                                       q5_k_fifth(top, 2 * k + 1));
    const __m256i w0 = _mm256_permute2x128_si256(b0, b1, 0x20);
    const __m256i w1 = _mm256_permute2x128_si256(b0, b1, 0x31);
    return widen(
        _mm256_add_epi16(_mm256_maddubs_epi16(w0, first), _mm256_maddubs_epi16(w1, second)));
}

CR_INLINE __m256 q5_k_pair(__m256 chain, const rows4 *r, size_t at, int k, const cr_act *x,
                           size_t pair, const uint8_t scales[64])
{
    const __m256 d = both(row_halves(r, at)), dmin = both(row_halves(r, at + 2));
    const __m256i first = pair_q(x, pair, 0), second = pair_q(x, pair, 1);
    const __m256i dot =
        reduce4(q5_k_dot(r->p[0] + at, k, first, second), q5_k_dot(r->p[1] + at, k, first, second),
                q5_k_dot(r->p[2] + at, k, first, second), q5_k_dot(r->p[3] + at, k, first, second));
    const __m256 scale = _mm256_mul_ps(d, eight_bytes(scales + 8 * k));
    const __m256 minimum = _mm256_mul_ps(dmin, eight_bytes(scales + 32 + 8 * k));
    chain = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(scale, pair_d(x, pair)), chain);
    return _mm256_fnmadd_ps(minimum, pair_d_sum(x, pair), chain);
}

CR_INLINE void q5_k_super(__m256 chain[4], const rows4 *r, size_t at, const cr_act *x, size_t pair)
{
    uint8_t scales[64];
    q4_k_transpose(scales, r, at);
    prefetch_rows(r, at, 64);
    chain[0] = q5_k_pair(chain[0], r, at, 0, x, pair, scales);
    prefetch_rows(r, at + 64, 64);
    chain[1] = q5_k_pair(chain[1], r, at, 1, x, pair + 1, scales);
    prefetch_rows(r, at + 128, 48);
    chain[2] = q5_k_pair(chain[2], r, at, 2, x, pair + 2, scales);
    chain[3] = q5_k_pair(chain[3], r, at, 3, x, pair + 3, scales);
}

/* ---- Q2_K: [16 bytes of scales][64 bytes][d][dmin], 84 bytes ---- */

/* Of 16 bytes, rows `row` and `row` + 1 of two bits, in a 128-bit lane each. */
CR_INLINE __m256i two_bits(const uint8_t *p, int row)
{
    const __m256i v = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
    const __m256i shift = _mm256_set_epi64x(2 * row + 2, 2 * row + 2, 2 * row, 2 * row);
    return _mm256_and_si256(_mm256_srlv_epi64(v, shift), _mm256_set1_epi8(3));
}

/* Both sums of a block side by side; they fit 16 bits. */
CR_INLINE __m256i sum_pairs(__m256i sum0, __m256i sum1)
{
    return _mm256_blend_epi16(sum0, _mm256_slli_epi32(sum1, 16), 0xaa);
}

CR_INLINE __m256i dot4(__m256i w, __m256i q)
{
    return widen(_mm256_maddubs_epi16(w, q));
}

CR_INLINE __m256 q2_k_pair(__m256 chain, const rows4 *r, size_t at, int k, const cr_act *x,
                           size_t pair, const uint8_t scales[64])
{
    const __m256 d = both(row_halves(r, at + 80)), dmin = both(row_halves(r, at + 82));
    const __m256i first = pair_q(x, pair, 0), second = pair_q(x, pair, 1);
    const size_t q = at + 16 + 32 * (size_t)(k / 2);
    const int row = k % 2 * 2;
    const __m256i dot0 =
        reduce4(dot4(two_bits(r->p[0] + q, row), first), dot4(two_bits(r->p[1] + q, row), first),
                dot4(two_bits(r->p[2] + q, row), first), dot4(two_bits(r->p[3] + q, row), first));
    const __m256i dot1 = reduce4(dot4(two_bits(r->p[0] + q + 16, row), second),
                                 dot4(two_bits(r->p[1] + q + 16, row), second),
                                 dot4(two_bits(r->p[2] + q + 16, row), second),
                                 dot4(two_bits(r->p[3] + q + 16, row), second));

    const __m256i s = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(scales + 16 * k)));
    const __m256i scaled =
        _mm256_madd_epi16(sum_pairs(dot0, dot1), _mm256_and_si256(s, _mm256_set1_epi16(15)));
    const __m256i minima = _mm256_madd_epi16(pair_sums(x, pair), _mm256_srli_epi16(s, 4));
    const __m256 dx = pair_d(x, pair);
    chain = _mm256_fmadd_ps(_mm256_cvtepi32_ps(scaled), _mm256_mul_ps(d, dx), chain);
    return _mm256_fnmadd_ps(_mm256_cvtepi32_ps(minima), _mm256_mul_ps(dmin, dx), chain);
}

CR_INLINE void q2_k_super(__m256 chain[4], const rows4 *r, size_t at, const cr_act *x, size_t pair)
{
    uint8_t scales[64];
    transpose_rows(scales, r, at);
    prefetch_rows(r, at, 64);
    chain[0] = q2_k_pair(chain[0], r, at, 0, x, pair, scales);
    chain[1] = q2_k_pair(chain[1], r, at, 1, x, pair + 1, scales);
    prefetch_rows(r, at + 64, 20);
    chain[2] = q2_k_pair(chain[2], r, at, 2, x, pair + 2, scales);
    chain[3] = q2_k_pair(chain[3], r, at, 3, x, pair + 3, scales);
}

/* ---- Q3_K: [32 bytes top][64 bytes][12 bytes of scales][d], 110 bytes ---- */

/* From [2 bytes][low nibbles 0-7 and 8-15][high pairs][d] to sixteen scales, less 32. */
CR_INLINE __m128i q3_k_scales(const uint8_t *p)
{
    const __m128i tail = _mm_loadu_si128((const __m128i *)p);
    const __m128i low_at = _mm_setr_epi8(2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9);
    const __m128i high_at =
        _mm_setr_epi8(10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13);
    const __m128i low = _mm_srlv_epi64(_mm_shuffle_epi8(tail, low_at), _mm_set_epi64x(4, 0));
    const __m128i high =
        _mm_srlv_epi32(_mm_shuffle_epi8(tail, high_at), _mm_setr_epi32(0, 2, 4, 6));
    const __m128i scales = _mm_or_si128(_mm_and_si128(low, _mm_set1_epi8(15)),
                                        _mm_slli_epi16(_mm_and_si128(high, _mm_set1_epi8(3)), 4));
    return _mm_sub_epi8(scales, _mm_set1_epi8(32));
}

/* Rows 2 k and 2 k + 1 of the super-block, with the third bits. */
CR_INLINE __m256i three_bits(const uint8_t *p, size_t half, int k)
{
    const uint8_t *q = p + 32 + 32 * (size_t)(k / 2) + half;
    const __m256i top = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(p + half)));
    const __m256i shift = _mm256_set_epi64x(2 * k + 1, 2 * k + 1, 2 * k, 2 * k);
    const __m256i bit = _mm256_and_si256(_mm256_srlv_epi64(top, shift), _mm256_set1_epi8(1));
    return _mm256_or_si256(two_bits(q, k % 2 * 2), _mm256_slli_epi16(bit, 2));
}

CR_INLINE __m256 q3_k_pair(__m256 chain, const rows4 *r, size_t at, int k, const cr_act *x,
                           size_t pair, const uint8_t scales[64])
{
    const __m256 d = both(row_halves(r, at + 108));
    const __m256i first = pair_q(x, pair, 0), second = pair_q(x, pair, 1);
    const __m256i dot0 = reduce4(
        dot4(three_bits(r->p[0] + at, 0, k), first), dot4(three_bits(r->p[1] + at, 0, k), first),
        dot4(three_bits(r->p[2] + at, 0, k), first), dot4(three_bits(r->p[3] + at, 0, k), first));
    const __m256i dot1 = reduce4(dot4(three_bits(r->p[0] + at, 16, k), second),
                                 dot4(three_bits(r->p[1] + at, 16, k), second),
                                 dot4(three_bits(r->p[2] + at, 16, k), second),
                                 dot4(three_bits(r->p[3] + at, 16, k), second));
    const __m256i s = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(scales + 16 * k)));
    const __m256i offset = _mm256_madd_epi16(s, pair_sums(x, pair));
    const __m256i sum =
        _mm256_sub_epi32(_mm256_madd_epi16(sum_pairs(dot0, dot1), s), _mm256_slli_epi32(offset, 2));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(d, pair_d(x, pair)), chain);
}

CR_INLINE void q3_k_super(__m256 chain[4], const rows4 *r, size_t at, const cr_act *x, size_t pair)
{
    uint8_t scales[64];
    transpose_words(scales, q3_k_scales(r->p[0] + at + 94), q3_k_scales(r->p[1] + at + 94),
                    q3_k_scales(r->p[2] + at + 94), q3_k_scales(r->p[3] + at + 94));
    prefetch_rows(r, at, 64);
    chain[0] = q3_k_pair(chain[0], r, at, 0, x, pair, scales);
    chain[1] = q3_k_pair(chain[1], r, at, 1, x, pair + 1, scales);
    prefetch_rows(r, at + 64, 46);
    chain[2] = q3_k_pair(chain[2], r, at, 2, x, pair + 2, scales);
    chain[3] = q3_k_pair(chain[3], r, at, 3, x, pair + 3, scales);
}

/* ---- IQ4_XS: [d][2 bytes high][4 bytes low][128 bytes], 136 bytes ---- */

/* The eight scales of a row, less 32. */
CR_INLINE __m128i iq4_xs_scales(const uint8_t *p)
{
    const __m128i low = _mm_loadu_si32(p + 4);
    const __m128i nibbles =
        _mm_and_si128(_mm_unpacklo_epi8(low, _mm_srli_epi16(low, 4)), _mm_set1_epi8(15));
    /* The product moves pair k to the top of word k. */
    const __m128i up = _mm_setr_epi16(1 << 14, 1 << 12, 1 << 10, 1 << 8, 1 << 6, 1 << 4, 1 << 2, 1);
    const __m128i words = _mm_mullo_epi16(_mm_set1_epi16(word_at(p + 2)), up);
    const __m128i pairs = _mm_slli_epi16(_mm_srli_epi16(words, 14), 4);
    return _mm_sub_epi8(_mm_or_si128(nibbles, _mm_packus_epi16(pairs, pairs)), _mm_set1_epi8(32));
}

CR_INLINE __m256 iq4_xs_pair(__m256 chain, const rows4 *r, size_t at, int k, const cr_act *x,
                             size_t pair, const uint8_t scales[32])
{
    const __m256i low = pair_q(x, pair, 0), high = pair_q(x, pair, 1);
    const size_t q = at + 8 + 32 * (size_t)k;
    const __m256i sum =
        reduce4(dot_levels(_mm256_loadu_si256((const __m256i *)(r->p[0] + q)), low, high),
                dot_levels(_mm256_loadu_si256((const __m256i *)(r->p[1] + q)), low, high),
                dot_levels(_mm256_loadu_si256((const __m256i *)(r->p[2] + q)), low, high),
                dot_levels(_mm256_loadu_si256((const __m256i *)(r->p[3] + q)), low, high));
    const __m256i s = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(scales + 8 * k)));
    const __m256 d = _mm256_mul_ps(both(row_halves(r, at)), _mm256_cvtepi32_ps(s));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(d, pair_d(x, pair)), chain);
}

CR_INLINE void iq4_xs_super(__m256 chain[4], const rows4 *r, size_t at, const cr_act *x,
                            size_t pair)
{
    /* Byte 4 block + row. */
    const __m128i s02 = _mm_unpacklo_epi8(iq4_xs_scales(r->p[0] + at), iq4_xs_scales(r->p[2] + at));
    const __m128i s13 = _mm_unpacklo_epi8(iq4_xs_scales(r->p[1] + at), iq4_xs_scales(r->p[3] + at));
    uint8_t scales[32];
    _mm_storeu_si128((__m128i *)scales, _mm_unpacklo_epi8(s02, s13));
    _mm_storeu_si128((__m128i *)(scales + 16), _mm_unpackhi_epi8(s02, s13));
    prefetch_rows(r, at, 64);
    chain[0] = iq4_xs_pair(chain[0], r, at, 0, x, pair, scales);
    prefetch_rows(r, at + 64, 64);
    chain[1] = iq4_xs_pair(chain[1], r, at, 1, x, pair + 1, scales);
    prefetch_rows(r, at + 128, 8);
    chain[2] = iq4_xs_pair(chain[2], r, at, 2, x, pair + 2, scales);
    chain[3] = iq4_xs_pair(chain[3], r, at, 3, x, pair + 3, scales);
}

/* ---- Q6_K: [128 bytes low][64 bytes high][16 scales][d], 210 bytes ---- */

/* The pair k of a super-block: values of its blocks' first halves in w0, second halves in w1. */
CR_INLINE void q6_k_unpack(const uint8_t *p, size_t k, __m256i *w0, __m256i *w1)
{
    const __m256i mask = _mm256_set1_epi8(15), two = _mm256_set1_epi8(48);
    const uint8_t *low = p + 64 * (k / 2);
    __m256i a = _mm256_loadu_si256((const __m256i *)low);
    __m256i b = _mm256_loadu_si256((const __m256i *)(low + 32));
    const __m256i high = _mm256_loadu_si256((const __m256i *)(p + 128 + 32 * (k / 2)));
    __m256i a_top = high, b_top = _mm256_srli_epi16(high, 2);
    if (k % 2 == 0) {
        a_top = _mm256_slli_epi16(high, 4);
        b_top = _mm256_slli_epi16(high, 2);
    } else {
        a = _mm256_srli_epi16(a, 4);
        b = _mm256_srli_epi16(b, 4);
    }
    a = _mm256_or_si256(_mm256_and_si256(a, mask), _mm256_and_si256(a_top, two));
    b = _mm256_or_si256(_mm256_and_si256(b, mask), _mm256_and_si256(b_top, two));
    *w0 = _mm256_permute2x128_si256(a, b, 0x20);
    *w1 = _mm256_permute2x128_si256(a, b, 0x31);
}

CR_INLINE __m256 q6_k_pair(__m256 chain, const rows4 *r, size_t at, size_t k, const cr_act *x,
                           size_t pair, __m256 d, const uint8_t scales[64])
{
    const __m256i first = pair_q(x, pair, 0), second = pair_q(x, pair, 1);
    __m256i a0, a1, a2, a3, b0, b1, b2, b3;
    q6_k_unpack(r->p[0] + at, k, &a0, &b0);
    q6_k_unpack(r->p[1] + at, k, &a1, &b1);
    q6_k_unpack(r->p[2] + at, k, &a2, &b2);
    q6_k_unpack(r->p[3] + at, k, &a3, &b3);
    const __m256i dot0 =
        reduce4(widen(_mm256_maddubs_epi16(a0, first)), widen(_mm256_maddubs_epi16(a1, first)),
                widen(_mm256_maddubs_epi16(a2, first)), widen(_mm256_maddubs_epi16(a3, first)));
    const __m256i dot1 =
        reduce4(widen(_mm256_maddubs_epi16(b0, second)), widen(_mm256_maddubs_epi16(b1, second)),
                widen(_mm256_maddubs_epi16(b2, second)), widen(_mm256_maddubs_epi16(b3, second)));

    const __m256i s = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(scales + 16 * k)));
    const __m256i scale0 = _mm256_srai_epi32(_mm256_slli_epi32(s, 16), 16);
    const __m256i scale1 = _mm256_srai_epi32(s, 16);
    const __m256i offset = _mm256_madd_epi16(s, pair_sums(x, pair));
    const __m256i sum = _mm256_sub_epi32(
        _mm256_add_epi32(_mm256_mullo_epi32(dot0, scale0), _mm256_mullo_epi32(dot1, scale1)),
        _mm256_slli_epi32(offset, 5));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(d, pair_d(x, pair)), chain);
}

CR_INLINE void q6_k_super(__m256 chain[4], const rows4 *r, size_t at, const cr_act *x, size_t pair)
{
    const __m256 d = both(row_halves(r, at + 208));
    uint8_t scales[64];
    transpose_rows(scales, r, at + 192);
    prefetch_rows(r, at, 64);
    chain[0] = q6_k_pair(chain[0], r, at, 0, x, pair, d, scales);
    prefetch_rows(r, at + 64, 64);
    chain[1] = q6_k_pair(chain[1], r, at, 1, x, pair + 1, d, scales);
    prefetch_rows(r, at + 128, 64);
    chain[2] = q6_k_pair(chain[2], r, at, 2, x, pair + 2, d, scales);
    prefetch_rows(r, at + 192, 18);
    chain[3] = q6_k_pair(chain[3], r, at, 3, x, pair + 3, d, scales);
}

void cr_matvec_q4_k__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 144, q4_k_super);
}

void cr_matvec_q6_k__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 210, q6_k_super);
}

void cr_matvec_q2_k__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 84, q2_k_super);
}

void cr_matvec_q3_k__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 110, q3_k_super);
}

void cr_matvec_q5_k__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 176, q5_k_super);
}

void cr_matvec_iq4_xs__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows,
                            const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 136, iq4_xs_super);
}

/* Matrix times vector for super-blocks of 256 weights: Q4_K and Q6_K. See avx2.h for the shape.
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
        const rows4 r = rows4_at(w, row_bytes, i, n_rows);
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
    prefetch_rows(r, at);
    prefetch_rows(r, at + 64);
    prefetch_rows(r, at + 128);
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

/* ---- Q6_K: [128 bytes low][64 bytes high][16 scales][d], 210 bytes ---- */

/* The scales of four rows, transposed: word 4 block + row is the block's two. */
CR_INLINE void q6_k_transpose(uint8_t out[64], const rows4 *r, size_t at)
{
    const __m128i s0 = _mm_loadu_si128((const __m128i *)(r->p[0] + at));
    const __m128i s1 = _mm_loadu_si128((const __m128i *)(r->p[1] + at));
    const __m128i s2 = _mm_loadu_si128((const __m128i *)(r->p[2] + at));
    const __m128i s3 = _mm_loadu_si128((const __m128i *)(r->p[3] + at));
    const __m128i a = _mm_unpacklo_epi16(s0, s2), b = _mm_unpacklo_epi16(s1, s3);
    const __m128i c = _mm_unpackhi_epi16(s0, s2), d = _mm_unpackhi_epi16(s1, s3);
    _mm_storeu_si128((__m128i *)out, _mm_unpacklo_epi16(a, b));
    _mm_storeu_si128((__m128i *)(out + 16), _mm_unpackhi_epi16(a, b));
    _mm_storeu_si128((__m128i *)(out + 32), _mm_unpacklo_epi16(c, d));
    _mm_storeu_si128((__m128i *)(out + 48), _mm_unpackhi_epi16(c, d));
}

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
    q6_k_transpose(scales, r, at + 192);
    prefetch_rows(r, at);
    chain[0] = q6_k_pair(chain[0], r, at, 0, x, pair, d, scales);
    prefetch_rows(r, at + 64);
    chain[1] = q6_k_pair(chain[1], r, at, 1, x, pair + 1, d, scales);
    prefetch_rows(r, at + 128);
    chain[2] = q6_k_pair(chain[2], r, at, 2, x, pair + 2, d, scales);
    prefetch_rows(r, at + 192);
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

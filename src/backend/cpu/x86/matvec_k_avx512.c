/* Matrix times vector for super-blocks of 256 weights: Q4_K and Q6_K. See avx512.h for the shape.
 *
 * A super-block is two quads. Scales are unpacked for both quads and four rows together. */
#include "backend/cpu/x86/avx512.h"

/* Adds the first quad's sums to a, the second one's to b. */
typedef void super_sum(__m512 *a, __m512 *b, const rows4 *r, size_t at, const cr_act *x,
                       size_t quad);

CR_INLINE void matvec(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x,
                      size_t super_bytes, super_sum *add)
{
    const size_t n_super = x->n / 256;
    for (size_t i = 0; i < n_rows; i += 4) {
        rows4 r = rows4_at(w, row_bytes, i, n_rows);
        __m512 c0 = _mm512_setzero_ps(), c1 = c0, c2 = c0, c3 = c0;
        size_t s = 0;
        for (; s + 2 <= n_super; s += 2) {
            add(&c0, &c1, &r, 0, x, 2 * s);
            add(&c2, &c3, &r, super_bytes, x, 2 * s + 2);
            rows4_move(&r, 2 * super_bytes);
        }
        if (s < n_super)
            add(&c0, &c1, &r, 0, x, 2 * s);
        const __m512 sum = _mm512_add_ps(_mm512_add_ps(c0, c2), _mm512_add_ps(c1, c3));
        store_rows(y + i, merge_lane(sum), n_rows - i);
    }
}

/* 16 bytes from each row, a 128-bit lane each. */
CR_INLINE __m512i load_lanes(const rows4 *r, size_t at)
{
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(r->p[0] + at)));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(r->p[1] + at)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(r->p[2] + at)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(r->p[3] + at)), 3);
}

/* ---- Q4_K: [d][dmin][12 bytes of scales][128 bytes], 144 bytes ---- */

/* Words 0 and 1 of each 128-bit lane, four times each: d into the lower half, dmin above. */
static const _Alignas(64) uint16_t q4_k_d[32] = {
    0, 0, 0, 0, 8, 8, 8, 8, 16, 16, 16, 16, 24, 24, 24, 24,
    1, 1, 1, 1, 9, 9, 9, 9, 17, 17, 17, 17, 25, 25, 25, 25,
};
static const _Alignas(64) uint64_t q4_k_halves[2][8] = {
    { 0, 1, 8, 9, 4, 5, 12, 13 },
    { 2, 3, 10, 11, 6, 7, 14, 15 },
};

/* Per lane, from [d dmin][s0-3][s4-7][s8-11] to [scales 0-3][scales 4-7][minima 0-3][4-7]. */
CR_INLINE __m512i q4_k_scales(__m512i head)
{
    const __m512i shift = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 0, 4));
    const __m512i keep =
        _mm512_broadcast_i32x4(_mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
    const __m512i keep_top = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x30303030, 0, 0x30303030));
    const __m512i low = _mm512_srlv_epi32(
        _mm512_shuffle_epi32(head, (_MM_PERM_ENUM)_MM_SHUFFLE(3, 2, 3, 1)), shift);
    const __m512i top =
        _mm512_srli_epi32(_mm512_shuffle_epi32(head, (_MM_PERM_ENUM)_MM_SHUFFLE(2, 2, 1, 1)), 2);
    return _mm512_or_si512(_mm512_and_si512(low, keep), _mm512_and_si512(top, keep_top));
}

/* Bytes 4 i to 4 i + 3 of each lane as floats. */
CR_INLINE __m512 lane_bytes(__m512i v, int i)
{
    const __m512i spread = _mm512_broadcast_i32x4(_mm_setr_epi8(
        0, -128, -128, -128, 1, -128, -128, -128, 2, -128, -128, -128, 3, -128, -128, -128));
    const __m512i index = _mm512_add_epi8(spread, _mm512_set1_epi32(4 * i));
    return _mm512_cvtepi32_ps(_mm512_shuffle_epi8(v, index));
}

/* 64 bytes: low nibbles are blocks 0 and 2, high ones 1 and 3. */
CR_INLINE __m512i q4_k_dot(const uint8_t *p, __m512i first, __m512i second)
{
    const __m512i mask = _mm512_set1_epi8(15);
    const __m512i v = _mm512_loadu_si512(p);
    const __m512i b02 = _mm512_and_si512(v, mask);
    const __m512i b13 = _mm512_and_si512(_mm512_srli_epi16(v, 4), mask);
    const __m512i w0 = _mm512_permutex2var_epi64(b02, _mm512_load_si512(q4_k_halves[0]), b13);
    const __m512i w1 = _mm512_permutex2var_epi64(b02, _mm512_load_si512(q4_k_halves[1]), b13);
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), w0, first), w1, second);
}

CR_INLINE __m512 q4_k_quad(__m512 chain, const rows4 *r, size_t at, const cr_act *x, size_t quad,
                           __m512 d, __m512 m)
{
    const __m512i first = quad_q(x, quad, 0), second = quad_q(x, quad, 1);
    const __m512i dot =
        reduce4_rows(q4_k_dot(r->p[0] + at, first, second), q4_k_dot(r->p[1] + at, first, second),
                     q4_k_dot(r->p[2] + at, first, second), q4_k_dot(r->p[3] + at, first, second));
    const __m512 dx = quad_d(x, quad);
    const __m512i sum = _mm512_madd_epi16(quad_sums(x, quad), _mm512_set1_epi16(1));
    chain = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(d, dx), chain);
    return _mm512_fnmadd_ps(m, _mm512_mul_ps(dx, _mm512_cvtepi32_ps(sum)), chain);
}

CR_INLINE void q4_k_super(__m512 *a, __m512 *b, const rows4 *r, size_t at, const cr_act *x,
                          size_t quad)
{
    const __m512i head = load_lanes(r, at);
    const __m512i scales = q4_k_scales(head);
    const __m512i dm = _mm512_permutexvar_epi16(_mm512_load_si512(q4_k_d), head);
    const __m512 d = halves(dm), m = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(dm, 1));
    prefetch_rows(r, at, 80);
    *a = q4_k_quad(*a, r, at + 16, x, quad, _mm512_mul_ps(d, lane_bytes(scales, 0)),
                   _mm512_mul_ps(m, lane_bytes(scales, 2)));
    prefetch_rows(r, at + 80, 64);
    *b = q4_k_quad(*b, r, at + 80, x, quad + 1, _mm512_mul_ps(d, lane_bytes(scales, 1)),
                   _mm512_mul_ps(m, lane_bytes(scales, 3)));
}

/* ---- Q6_K: [128 bytes low][64 bytes high][16 scales][d], 210 bytes ---- */

/* A quad: 64 bytes of low nibbles, 32 bytes of high pairs. w0 and w1 get the values, first and
 * second halves of its blocks. */
CR_INLINE void q6_k_unpack(const uint8_t *low, const uint8_t *high, __m512i *w0, __m512i *w1)
{
    const __m512i mask = _mm512_set1_epi8(15), pair = _mm512_set1_epi8(48);
    const __m512i v = _mm512_loadu_si512(low);
    const __m512i h = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)high));
    const __m512i left = _mm512_setr_epi64(4, 4, 4, 4, 2, 2, 2, 2);
    const __m512i right = _mm512_setr_epi64(0, 0, 0, 0, 2, 2, 2, 2);
    const __m512i b01 = _mm512_or_si512(_mm512_and_si512(v, mask),
                                        _mm512_and_si512(_mm512_sllv_epi64(h, left), pair));
    const __m512i b23 = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(v, 4), mask),
                                        _mm512_and_si512(_mm512_srlv_epi64(h, right), pair));
    *w0 = _mm512_shuffle_i64x2(b01, b23, 0x88);
    *w1 = _mm512_shuffle_i64x2(b01, b23, 0xdd);
}

/* half: of the super-block, 0 or 1. d: of each row, in its lane. */
CR_INLINE __m512 q6_k_quad(__m512 chain, const rows4 *r, size_t at, int half, const cr_act *x,
                           size_t quad, __m512 d)
{
    const size_t low = at + 64 * (size_t)half, high = at + 128 + 32 * (size_t)half;
    const size_t scale = at + 192 + 8 * (size_t)half;
    const __m512i first = quad_q(x, quad, 0), second = quad_q(x, quad, 1);
    const __m512i zero = _mm512_setzero_si512();
    __m512i a0, a1, a2, a3, b0, b1, b2, b3;
    q6_k_unpack(r->p[0] + low, r->p[0] + high, &a0, &b0);
    q6_k_unpack(r->p[1] + low, r->p[1] + high, &a1, &b1);
    q6_k_unpack(r->p[2] + low, r->p[2] + high, &a2, &b2);
    q6_k_unpack(r->p[3] + low, r->p[3] + high, &a3, &b3);
    const __m512i dot0 =
        reduce4_rows(_mm512_dpbusd_epi32(zero, a0, first), _mm512_dpbusd_epi32(zero, a1, first),
                     _mm512_dpbusd_epi32(zero, a2, first), _mm512_dpbusd_epi32(zero, a3, first));
    const __m512i dot1 =
        reduce4_rows(_mm512_dpbusd_epi32(zero, b0, second), _mm512_dpbusd_epi32(zero, b1, second),
                     _mm512_dpbusd_epi32(zero, b2, second), _mm512_dpbusd_epi32(zero, b3, second));

    /* Two scales a block, as the pairs of words that the activation sums are too. */
    const __m128i s01 = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(r->p[0] + scale)),
                                           _mm_loadl_epi64((const __m128i *)(r->p[1] + scale)));
    const __m128i s23 = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(r->p[2] + scale)),
                                           _mm_loadl_epi64((const __m128i *)(r->p[3] + scale)));
    const __m512i s =
        _mm512_cvtepi8_epi16(_mm256_inserti128_si256(_mm256_castsi128_si256(s01), s23, 1));
    const __m512i scale0 = _mm512_srai_epi32(_mm512_slli_epi32(s, 16), 16);
    const __m512i scale1 = _mm512_srai_epi32(s, 16);
    const __m512i offset = _mm512_madd_epi16(s, quad_sums(x, quad));
    const __m512i sum = _mm512_sub_epi32(
        _mm512_add_epi32(_mm512_mullo_epi32(dot0, scale0), _mm512_mullo_epi32(dot1, scale1)),
        _mm512_slli_epi32(offset, 5));
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(d, quad_d(x, quad)), chain);
}

CR_INLINE __m128i load_word(const uint8_t *p)
{
    return _mm_cvtsi32_si128(p[0] | p[1] << 8);
}

CR_INLINE void q6_k_super(__m512 *a, __m512 *b, const rows4 *r, size_t at, const cr_act *x,
                          size_t quad)
{
    const __m128i d01 =
        _mm_unpacklo_epi16(load_word(r->p[0] + at + 208), load_word(r->p[1] + at + 208));
    const __m128i d23 =
        _mm_unpacklo_epi16(load_word(r->p[2] + at + 208), load_word(r->p[3] + at + 208));
    const __m128 four = _mm_cvtph_ps(_mm_unpacklo_epi32(d01, d23));
    const __m512i lane = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m512 d = _mm512_permutexvar_ps(lane, _mm512_castps128_ps512(four));
    prefetch_rows(r, at, 105);
    *a = q6_k_quad(*a, r, at, 0, x, quad, d);
    prefetch_rows(r, at + 105, 105);
    *b = q6_k_quad(*b, r, at, 1, x, quad + 1, d);
}

/* ---- the kernels ---- */

void cr_matvec_q4_k__avx512(float *y, const void *w, size_t row_bytes, size_t n_rows,
                            const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 144, q4_k_super);
}

void cr_matvec_q6_k__avx512(float *y, const void *w, size_t row_bytes, size_t n_rows,
                            const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 210, q6_k_super);
}

/* Matrix times vector for super-blocks of 256 weights: Q2_K to Q6_K, IQ4_XS. See avx512.h for the
 * shape.
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
        rows4 r = rows4_at(w, row_bytes, i, n_rows, x->prefetch);
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

/* Eight bytes from each row, one after another. */
CR_INLINE __m256i load_eights(const rows4 *r, size_t at)
{
    const __m128i r01 = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(r->p[0] + at)),
                                           _mm_loadl_epi64((const __m128i *)(r->p[1] + at)));
    const __m128i r23 = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(r->p[2] + at)),
                                           _mm_loadl_epi64((const __m128i *)(r->p[3] + at)));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(r01), r23, 1);
}

CR_INLINE __m512i dot4(__m512i w, __m512i q)
{
    return _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, q);
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

/* 64 bytes: low nibbles are blocks 0 and 2, high ones 1 and 3, whose sums are 16 times too large. */
CR_INLINE __m512i q4_k_dot(const uint8_t *p, __m512i first, __m512i second)
{
    const __m512i mask = _mm512_set1_epi8(15);
    const __m512i v = _mm512_loadu_si512(p);
    const __m512i b02 = _mm512_and_si512(v, mask);
    const __m512i b13 = _mm512_andnot_si512(mask, v);
    const __m512i w0 = _mm512_permutex2var_epi64(b02, _mm512_load_si512(q4_k_halves[0]), b13);
    const __m512i w1 = _mm512_permutex2var_epi64(b02, _mm512_load_si512(q4_k_halves[1]), b13);
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), w0, first), w1, second);
}

CR_INLINE __m512 q4_k_quad(__m512 chain, const rows4 *r, size_t at, const cr_act *x, size_t quad,
                           __m512 d, __m512 m)
{
    const __m512i first = quad_q(x, quad, 0), second = quad_q(x, quad, 1);
    const __m512i dot = _mm512_srav_epi32(
        reduce4_rows(q4_k_dot(r->p[0] + at, first, second), q4_k_dot(r->p[1] + at, first, second),
                     q4_k_dot(r->p[2] + at, first, second), q4_k_dot(r->p[3] + at, first, second)),
        _mm512_broadcast_i32x4(_mm_setr_epi32(0, 4, 0, 4)));
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

/* ---- Q5_K: [d][dmin][12 bytes of scales][32 bytes top][128 bytes], 176 bytes ---- */

/* 64 bytes as in Q4_K, with the fifth bits of their blocks: bits 4 quad to 4 quad + 3 of `top`. */
CR_INLINE __m512i q5_k_dot(const uint8_t *p, const uint8_t *top, int quad, __m512i first,
                           __m512i second)
{
    const __m512i mask = _mm512_set1_epi8(15), fifth = _mm512_set1_epi8(16);
    const __m512i v = _mm512_loadu_si512(p);
    const __m512i h = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)top));
    /* Turned left by as much as brings the bit to where 16 is. */
    const __m512i even = quad == 0 ? _mm512_setr_epi64(4, 4, 4, 4, 2, 2, 2, 2)
                                   : _mm512_setr_epi64(0, 0, 0, 0, 62, 62, 62, 62);
    const __m512i odd = quad == 0 ? _mm512_setr_epi64(3, 3, 3, 3, 1, 1, 1, 1)
                                  : _mm512_setr_epi64(63, 63, 63, 63, 61, 61, 61, 61);
    const __m512i b02 = and_or(_mm512_rolv_epi64(h, even), fifth, _mm512_and_si512(v, mask));
    const __m512i b13 =
        and_or(_mm512_rolv_epi64(h, odd), fifth, _mm512_and_si512(_mm512_srli_epi16(v, 4), mask));
    const __m512i w0 = _mm512_permutex2var_epi64(b02, _mm512_load_si512(q4_k_halves[0]), b13);
    const __m512i w1 = _mm512_permutex2var_epi64(b02, _mm512_load_si512(q4_k_halves[1]), b13);
    return _mm512_dpbusd_epi32(dot4(w0, first), w1, second);
}

CR_INLINE __m512 q5_k_quad(__m512 chain, const rows4 *r, size_t at, int k, const cr_act *x,
                           size_t quad, __m512 d, __m512 m)
{
    const __m512i first = quad_q(x, quad, 0), second = quad_q(x, quad, 1);
    const size_t top = at + 16, q = at + 48 + 64 * (size_t)k;
    const __m512i dot = reduce4_rows(q5_k_dot(r->p[0] + q, r->p[0] + top, k, first, second),
                                     q5_k_dot(r->p[1] + q, r->p[1] + top, k, first, second),
                                     q5_k_dot(r->p[2] + q, r->p[2] + top, k, first, second),
                                     q5_k_dot(r->p[3] + q, r->p[3] + top, k, first, second));
    const __m512 dx = quad_d(x, quad);
    const __m512i sum = _mm512_madd_epi16(quad_sums(x, quad), _mm512_set1_epi16(1));
    chain = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(d, dx), chain);
    return _mm512_fnmadd_ps(m, _mm512_mul_ps(dx, _mm512_cvtepi32_ps(sum)), chain);
}

CR_INLINE void q5_k_super(__m512 *a, __m512 *b, const rows4 *r, size_t at, const cr_act *x,
                          size_t quad)
{
    const __m512i head = load_lanes(r, at);
    const __m512i scales = q4_k_scales(head);
    const __m512i dm = _mm512_permutexvar_epi16(_mm512_load_si512(q4_k_d), head);
    const __m512 d = halves(dm), m = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(dm, 1));
    prefetch_rows(r, at, 112);
    *a = q5_k_quad(*a, r, at, 0, x, quad, _mm512_mul_ps(d, lane_bytes(scales, 0)),
                   _mm512_mul_ps(m, lane_bytes(scales, 2)));
    prefetch_rows(r, at + 112, 64);
    *b = q5_k_quad(*b, r, at, 1, x, quad + 1, _mm512_mul_ps(d, lane_bytes(scales, 1)),
                   _mm512_mul_ps(m, lane_bytes(scales, 3)));
}

/* ---- Q2_K: [16 bytes of scales][64 bytes][d][dmin], 84 bytes ---- */

/* Rows of two bits of 16 bytes, a row in each 128-bit lane. */
CR_INLINE __m512i two_bits(const uint8_t *p)
{
    const __m512i v = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p));
    const __m512i rows = _mm512_srlv_epi64(v, _mm512_setr_epi64(0, 0, 2, 2, 4, 4, 6, 6));
    return _mm512_and_si512(rows, _mm512_set1_epi8(3));
}

/* Both sums of a block side by side; they fit 16 bits. */
CR_INLINE __m512i sum_pairs(__m512i sum0, __m512i sum1)
{
    return _mm512_mask_blend_epi16(0xaaaaaaaa, sum0, _mm512_slli_epi32(sum1, 16));
}

CR_INLINE __m512 q2_k_quad(__m512 chain, const rows4 *r, size_t at, int half, const cr_act *x,
                           size_t quad, __m512 d, __m512 m)
{
    const __m512i first = quad_q(x, quad, 0), second = quad_q(x, quad, 1);
    const size_t q = at + 16 + 32 * (size_t)half;
    const __m512i dot0 =
        reduce4_rows(dot4(two_bits(r->p[0] + q), first), dot4(two_bits(r->p[1] + q), first),
                     dot4(two_bits(r->p[2] + q), first), dot4(two_bits(r->p[3] + q), first));
    const __m512i dot1 = reduce4_rows(
        dot4(two_bits(r->p[0] + q + 16), second), dot4(two_bits(r->p[1] + q + 16), second),
        dot4(two_bits(r->p[2] + q + 16), second), dot4(two_bits(r->p[3] + q + 16), second));

    /* A word for each group: [row][block][2]. */
    const __m512i s = _mm512_cvtepu8_epi16(load_eights(r, at + 8 * (size_t)half));
    const __m512i scaled =
        _mm512_madd_epi16(sum_pairs(dot0, dot1), _mm512_and_si512(s, _mm512_set1_epi16(15)));
    const __m512i minima = _mm512_madd_epi16(quad_sums(x, quad), _mm512_srli_epi16(s, 4));
    const __m512 dx = quad_d(x, quad);
    chain = _mm512_fmadd_ps(_mm512_cvtepi32_ps(scaled), _mm512_mul_ps(d, dx), chain);
    return _mm512_fnmadd_ps(_mm512_cvtepi32_ps(minima), _mm512_mul_ps(m, dx), chain);
}

CR_INLINE void q2_k_super(__m512 *a, __m512 *b, const rows4 *r, size_t at, const cr_act *x,
                          size_t quad)
{
    /* The last eight bytes end in d and dmin: words 2 and 3 of each row's four. */
    const __m256i ends = load_eights(r, at + 76);
    const __m256i row = _mm256_setr_epi16(2, 2, 2, 2, 6, 6, 6, 6, 10, 10, 10, 10, 14, 14, 14, 14);
    const __m512 d = _mm512_cvtph_ps(_mm256_permutexvar_epi16(row, ends));
    const __m512 m = _mm512_cvtph_ps(
        _mm256_permutexvar_epi16(_mm256_add_epi16(row, _mm256_set1_epi16(1)), ends));
    prefetch_rows(r, at, 42);
    *a = q2_k_quad(*a, r, at, 0, x, quad, d, m);
    prefetch_rows(r, at + 42, 42);
    *b = q2_k_quad(*b, r, at, 1, x, quad + 1, d, m);
}

/* ---- Q3_K: [32 bytes top][64 bytes][12 bytes of scales][d], 110 bytes ---- */

/* 16 bytes of rows of two bits, with the third bits: bits 4 half to 4 half + 3 of top. */
CR_INLINE __m512i three_bits(const uint8_t *p, const uint8_t *top, int half)
{
    const __m512i h = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)top));
    /* Turned left by as much as brings the bit to where 4 is. */
    const __m512i turn = half == 0 ? _mm512_setr_epi64(2, 2, 1, 1, 0, 0, 63, 63)
                                   : _mm512_setr_epi64(62, 62, 61, 61, 60, 60, 59, 59);
    return and_or(_mm512_rolv_epi64(h, turn), _mm512_set1_epi8(4), two_bits(p));
}

/* s: a word for each group, [row][block][2], scale less 32. */
CR_INLINE __m512 q3_k_quad(__m512 chain, const rows4 *r, size_t at, int half, const cr_act *x,
                           size_t quad, __m512 d, __m512i s)
{
    const __m512i first = quad_q(x, quad, 0), second = quad_q(x, quad, 1);
    const uint8_t *p0 = r->p[0] + at, *p1 = r->p[1] + at, *p2 = r->p[2] + at, *p3 = r->p[3] + at;
    const size_t q = 32 + 32 * (size_t)half;
    const __m512i dot0 = reduce4_rows(
        dot4(three_bits(p0 + q, p0, half), first), dot4(three_bits(p1 + q, p1, half), first),
        dot4(three_bits(p2 + q, p2, half), first), dot4(three_bits(p3 + q, p3, half), first));
    const __m512i dot1 = reduce4_rows(dot4(three_bits(p0 + q + 16, p0 + 16, half), second),
                                      dot4(three_bits(p1 + q + 16, p1 + 16, half), second),
                                      dot4(three_bits(p2 + q + 16, p2 + 16, half), second),
                                      dot4(three_bits(p3 + q + 16, p3 + 16, half), second));
    const __m512i offset = _mm512_madd_epi16(s, quad_sums(x, quad));
    const __m512i sum =
        _mm512_sub_epi32(_mm512_madd_epi16(sum_pairs(dot0, dot1), s), _mm512_slli_epi32(offset, 2));
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(d, quad_d(x, quad)), chain);
}

/* Per lane, from [2 bytes][low nibbles 0-7 and 8-15][high pairs][d] to sixteen scales. */
CR_INLINE __m512i q3_k_scales(__m512i tail)
{
    const __m512i low_at =
        _mm512_broadcast_i32x4(_mm_setr_epi8(2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9));
    const __m512i high_at = _mm512_broadcast_i32x4(
        _mm_setr_epi8(10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13));
    const __m512i low = _mm512_srlv_epi64(_mm512_shuffle_epi8(tail, low_at),
                                          _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 4, 0)));
    const __m512i high = _mm512_rolv_epi32(_mm512_shuffle_epi8(tail, high_at),
                                           _mm512_broadcast_i32x4(_mm_setr_epi32(4, 2, 0, 30)));
    return and_or(high, _mm512_set1_epi8(48), _mm512_and_si512(low, _mm512_set1_epi8(15)));
}

CR_INLINE void q3_k_super(__m512 *a, __m512 *b, const rows4 *r, size_t at, const cr_act *x,
                          size_t quad)
{
    const __m512i tail = load_lanes(r, at + 94);
    const __m512i row = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    const __m512i scales = _mm512_permutexvar_epi64(row, q3_k_scales(tail));
    const __m512i offset = _mm512_set1_epi16(32);
    const __m512i s0 =
        _mm512_sub_epi16(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(scales)), offset);
    const __m512i s1 =
        _mm512_sub_epi16(_mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(scales, 1)), offset);
    /* Word 7 of each lane, four times. */
    const __m512i d_at = _mm512_add_epi16(_mm512_load_si512(q4_k_d), _mm512_set1_epi16(7));
    const __m512 d = halves(_mm512_permutexvar_epi16(d_at, tail));
    prefetch_rows(r, at, 55);
    *a = q3_k_quad(*a, r, at, 0, x, quad, d, s0);
    prefetch_rows(r, at + 55, 55);
    *b = q3_k_quad(*b, r, at, 1, x, quad + 1, d, s1);
}

/* ---- IQ4_XS: [d][2 bytes high][4 bytes low][128 bytes], 136 bytes ---- */

CR_INLINE __m512 iq4_xs_quad(__m512 chain, const rows4 *r, size_t at, const cr_act *x, size_t quad,
                             __m512 d)
{
    const __m512i low = quad_q(x, quad, 0), high = quad_q(x, quad, 1);
    const __m512i dot = reduce4_rows(dot_levels(_mm512_loadu_si512(r->p[0] + at), low, high),
                                     dot_levels(_mm512_loadu_si512(r->p[1] + at), low, high),
                                     dot_levels(_mm512_loadu_si512(r->p[2] + at), low, high),
                                     dot_levels(_mm512_loadu_si512(r->p[3] + at), low, high));
    const __m512i sum = _mm512_dpwssd_epi32(dot, quad_sums(x, quad), _mm512_set1_epi16(-128));
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(d, quad_d(x, quad)), chain);
}

/* Sixteen scales, less 32, as floats. */
CR_INLINE __m512 iq4_xs_scales(__m128i bytes)
{
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_cvtepu8_epi32(bytes), _mm512_set1_epi32(32)));
}

CR_INLINE void iq4_xs_super(__m512 *a, __m512 *b, const rows4 *r, size_t at, const cr_act *x,
                            size_t quad)
{
    /* A row in each 64 bits: byte k gets the nibble from bit 32 + 4 k, and the pair from bit
     * 16 + 2 k four places up. */
    const __m256i head = load_eights(r, at);
    const __m256i low = _mm256_multishift_epi64_epi8(_mm256_set1_epi64x(0x3c3834302c282420), head);
    const __m256i high = _mm256_multishift_epi64_epi8(_mm256_set1_epi64x(0x1a18161412100e0c), head);
    const __m256i scales = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)),
                                           _mm256_and_si256(high, _mm256_set1_epi8(48)));
    const __m256i by_quad =
        _mm256_permutevar8x32_epi32(scales, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
    const __m256i row = _mm256_setr_epi16(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    const __m512 d = _mm512_cvtph_ps(_mm256_permutexvar_epi16(row, head));
    prefetch_rows(r, at, 72);
    *a = iq4_xs_quad(*a, r, at + 8, x, quad,
                     _mm512_mul_ps(d, iq4_xs_scales(_mm256_castsi256_si128(by_quad))));
    prefetch_rows(r, at + 72, 64);
    *b = iq4_xs_quad(*b, r, at + 72, x, quad + 1,
                     _mm512_mul_ps(d, iq4_xs_scales(_mm256_extracti128_si256(by_quad, 1))));
}

/* ---- Q6_K: [128 bytes low][64 bytes high][16 scales][d], 210 bytes ---- */

/* Halves of blocks as their weights come: f for the first half, s for the second one. */
static const _Alignas(64) uint64_t q6_k_halves[2][8] = {
    { 0, 1, 8, 9, 2, 3, 10, 11 },   /* f0 s0 f1 s1 */
    { 4, 5, 12, 13, 6, 7, 14, 15 }, /* f2 s2 f3 s3 */
};
/* From [half][row] of blocks 0, 1 and of 2, 3 to [row][block], one half of each. */
static const _Alignas(64) uint32_t q6_k_rows[2][16] = {
    { 0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27 },
    { 4, 12, 20, 28, 5, 13, 21, 29, 6, 14, 22, 30, 7, 15, 23, 31 },
};
/* Bytes of four rows, eight each: those of all rows side by side. */
static const _Alignas(32) uint8_t q6_k_scales[32] = {
    0, 8,  16, 24, 1, 9,  17, 25, 2, 10, 18, 26, 3, 11, 19, 27,
    4, 12, 20, 28, 5, 13, 21, 29, 6, 14, 22, 30, 7, 15, 23, 31,
};

/* A quad: 64 bytes of low nibbles, 32 bytes of high pairs, times halves of blocks 0 and 1, and of 2
 * and 3. */
CR_INLINE void q6_k_dot(const uint8_t *low, const uint8_t *high, __m512i x01, __m512i x23,
                        __m512i *dot01, __m512i *dot23)
{
    const __m512i mask = _mm512_set1_epi8(15), pair = _mm512_set1_epi8(48);
    const __m512i v = _mm512_loadu_si512(low);
    const __m512i h = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)high));
    const __m512i left = _mm512_setr_epi64(4, 4, 4, 4, 2, 2, 2, 2);
    const __m512i right = _mm512_setr_epi64(0, 0, 0, 0, 2, 2, 2, 2);
    const __m512i b01 = and_or(_mm512_sllv_epi64(h, left), pair, _mm512_and_si512(v, mask));
    const __m512i b23 =
        and_or(_mm512_srlv_epi64(h, right), pair, _mm512_and_si512(_mm512_srli_epi16(v, 4), mask));
    *dot01 = dot4(b01, x01);
    *dot23 = dot4(b23, x23);
}

/* half: of the super-block, 0 or 1. d: of each row, in its lane. */
CR_INLINE __m512 q6_k_quad(__m512 chain, const rows4 *r, size_t at, int half, const cr_act *x,
                           size_t quad, __m512 d)
{
    const size_t low = at + 64 * (size_t)half, high = at + 128 + 32 * (size_t)half;
    const size_t scale = at + 192 + 8 * (size_t)half;
    const __m512i first = quad_q(x, quad, 0), second = quad_q(x, quad, 1);
    const __m512i x01 = _mm512_permutex2var_epi64(first, _mm512_load_si512(q6_k_halves[0]), second);
    const __m512i x23 = _mm512_permutex2var_epi64(first, _mm512_load_si512(q6_k_halves[1]), second);
    __m512i a0, a1, a2, a3, b0, b1, b2, b3;
    q6_k_dot(r->p[0] + low, r->p[0] + high, x01, x23, &a0, &b0);
    q6_k_dot(r->p[1] + low, r->p[1] + high, x01, x23, &a1, &b1);
    q6_k_dot(r->p[2] + low, r->p[2] + high, x01, x23, &a2, &b2);
    q6_k_dot(r->p[3] + low, r->p[3] + high, x01, x23, &a3, &b3);

    /* A scale for each half of a block, as bytes [half][row], and as the pairs of words that the
     * activation sums are too. */
    const __m256i bytes = load_eights(r, scale);
    const __m256i s =
        _mm256_permutexvar_epi8(_mm256_load_si256((const __m256i *)q6_k_scales), bytes);
    const __m512i scaled01 = _mm512_mullo_epi32(reduce4(a0, a1, a2, a3),
                                                _mm512_cvtepi8_epi32(_mm256_castsi256_si128(s)));
    const __m512i scaled23 = _mm512_mullo_epi32(
        reduce4(b0, b1, b2, b3), _mm512_cvtepi8_epi32(_mm256_extracti128_si256(s, 1)));
    const __m512i dot = _mm512_add_epi32(
        _mm512_permutex2var_epi32(scaled01, _mm512_load_si512(q6_k_rows[0]), scaled23),
        _mm512_permutex2var_epi32(scaled01, _mm512_load_si512(q6_k_rows[1]), scaled23));
    const __m512i offset = _mm512_madd_epi16(_mm512_cvtepi8_epi16(bytes), quad_sums(x, quad));
    const __m512i sum = _mm512_sub_epi32(dot, _mm512_slli_epi32(offset, 5));
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

void cr_matvec_q2_k__avx512(float *y, const void *w, size_t row_bytes, size_t n_rows,
                            const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 84, q2_k_super);
}

void cr_matvec_q3_k__avx512(float *y, const void *w, size_t row_bytes, size_t n_rows,
                            const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 110, q3_k_super);
}

void cr_matvec_q5_k__avx512(float *y, const void *w, size_t row_bytes, size_t n_rows,
                            const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 176, q5_k_super);
}

void cr_matvec_iq4_xs__avx512(float *y, const void *w, size_t row_bytes, size_t n_rows,
                              const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 136, iq4_xs_super);
}

/* Matrix times vector for blocks of 32 weights: Q4_0, IQ4_NL, Q4_1, Q5_0, Q5_1, Q8_0. See avx512.h
 * for the shape.
 *
 * A quad's function takes the bytes of four blocks from each of four rows and returns the chains
 * with their sums added. It is compiled twice: for four blocks, and for the 1 to 4 at a row's end,
 * where n is a variable and loads leave out what lies behind the row. */
#include "backend/cpu/x86/avx512.h"

typedef __m512 quad_sum(__m512 chain, const rows4 *r, size_t at, const cr_act *x, size_t quad,
                        int n);

CR_INLINE void matvec(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x,
                      size_t quad_bytes, quad_sum *add)
{
    const size_t n_blocks = x->n / 32, n_full = n_blocks / 16 * 4;
    for (size_t i = 0; i < n_rows; i += 4) {
        rows4 r = rows4_at(w, row_bytes, i, n_rows, x->prefetch);
        __m512 c0 = _mm512_setzero_ps(), c1 = c0, c2 = c0, c3 = c0;
        size_t quad = 0;
        for (; quad < n_full; quad += 4) {
            prefetch_rows(&r, 0, quad_bytes);
            c0 = add(c0, &r, 0, x, quad, 4);
            prefetch_rows(&r, quad_bytes, quad_bytes);
            c1 = add(c1, &r, quad_bytes, x, quad + 1, 4);
            prefetch_rows(&r, 2 * quad_bytes, quad_bytes);
            c2 = add(c2, &r, 2 * quad_bytes, x, quad + 2, 4);
            prefetch_rows(&r, 3 * quad_bytes, quad_bytes);
            c3 = add(c3, &r, 3 * quad_bytes, x, quad + 3, 4);
            rows4_move(&r, 4 * quad_bytes);
        }
        /* The last 0 to 15 blocks: the chains take turns at c0, then go on to their places. */
        if (4 * quad < n_blocks) {
            for (int turn = 0; turn < 4; turn++, quad++) {
                __m512 c = c0;
                if (4 * quad < n_blocks) {
                    prefetch_rows(&r, 0, quad_bytes);
                    c = add(c, &r, 0, x, quad, (int)CR_MIN(n_blocks - 4 * quad, 4));
                    rows4_move(&r, quad_bytes);
                }
                c0 = c1, c1 = c2, c2 = c3, c3 = c;
            }
        }
        const __m512 sum = _mm512_add_ps(_mm512_add_ps(c0, c2), _mm512_add_ps(c1, c3));
        store_rows(y + i, merge_lane(sum), n_rows - i);
    }
}

/* 16 bytes at p if this block exists. */
CR_INLINE __m128i load_16(const uint8_t *p, bool exists)
{
    return _mm_maskz_loadu_epi8(exists ? 0xffff : 0, p);
}

/* ---- Q4_0 and IQ4_NL: [d][16 bytes], 18 bytes; a quad has 72 ---- */

/* 64 bytes have the nibbles of three blocks and all four scales, which go twice to the last lane,
 * where those of the fourth block belong. */
static const _Alignas(64) uint8_t q4_0_places[64] = {
    2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 20, 21, 22, 23, 24, 25,
    26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49,
    50, 51, 52, 53, 0,  1,  18, 19, 36, 37, 54, 55, 0,  1,  18, 19, 36, 37, 54, 55,
};

/* 16 bytes at p in place of the last lane, if that block exists. */
CR_INLINE __m512i with_last(__m512i v, const uint8_t *p, bool exists)
{
    return _mm512_mask_loadu_epi32(v, exists ? 0xf000 : 0, p - 48);
}

/* Products of what dot makes of the nibbles, which is `offset` more than the weight. */
CR_INLINE __m512 nibbles_quad(__m512 chain, const rows4 *r, size_t at, const cr_act *x, size_t quad,
                              int n, pairs_dot *dot_pairs, short offset)
{
    const uint8_t *p0 = r->p[0] + at, *p1 = r->p[1] + at, *p2 = r->p[2] + at, *p3 = r->p[3] + at;
    const __m512i places = _mm512_load_si512(q4_0_places);
    const __m512i v0 = _mm512_permutexvar_epi8(places, load_bytes(p0, 18 * n));
    const __m512i v1 = _mm512_permutexvar_epi8(places, load_bytes(p1, 18 * n));
    const __m512i v2 = _mm512_permutexvar_epi8(places, load_bytes(p2, 18 * n));
    const __m512i v3 = _mm512_permutexvar_epi8(places, load_bytes(p3, 18 * n));

    const __m512i low = quad_q(x, quad, 0), high = quad_q(x, quad, 1);
    const __m512i dot = reduce4_rows(dot_pairs(with_last(v0, p0 + 56, n == 4), low, high),
                                     dot_pairs(with_last(v1, p1 + 56, n == 4), low, high),
                                     dot_pairs(with_last(v2, p2 + 56, n == 4), low, high),
                                     dot_pairs(with_last(v3, p3 + 56, n == 4), low, high));
    const __m512i sum =
        _mm512_dpwssd_epi32(dot, quad_sums(x, quad), _mm512_set1_epi16((short)-offset));

    const __m512i d01 = _mm512_mask_blend_epi64(0x80, v0, v1);
    const __m512i d23 = _mm512_mask_blend_epi64(0x80, v2, v3);
    const __m512i d =
        _mm512_permutex2var_epi64(d01, _mm512_setr_epi64(6, 7, 14, 15, 6, 7, 14, 15), d23);
    return _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(halves(d), quad_d(x, quad)),
                                 chain, quad_lanes(n));
}

CR_INLINE __m512 q4_0_quad(__m512 chain, const rows4 *r, size_t at, const cr_act *x, size_t quad,
                           int n)
{
    return nibbles_quad(chain, r, at, x, quad, n, dot_nibbles, 8);
}

CR_INLINE __m512 iq4_nl_quad(__m512 chain, const rows4 *r, size_t at, const cr_act *x, size_t quad,
                             int n)
{
    return nibbles_quad(chain, r, at, x, quad, n, dot_levels, 128);
}

/* ---- Q4_1: [d][m][16 bytes], 20 bytes; a quad has 80 ---- */

static const _Alignas(64) uint8_t q4_1_nibbles[64] = {
    4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 24, 25, 26, 27, 28, 29, 30, 31,
    32, 33, 34, 35, 36, 37, 38, 39, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59,
};
/* Scales into the lower half, minima into the upper one. */
static const _Alignas(64) uint16_t q4_1_scales[32] = {
    0, 10, 20, 30, 0, 10, 20, 30, 0, 10, 20, 30, 0, 10, 20, 30,
    1, 11, 21, 31, 1, 11, 21, 31, 1, 11, 21, 31, 1, 11, 21, 31,
};

CR_INLINE __m512i q4_1_dot(const uint8_t *p, __m512i v, __m512i low, __m512i high, int n)
{
    const __m512i three = _mm512_permutexvar_epi8(_mm512_load_si512(q4_1_nibbles), v);
    return dot_nibbles(_mm512_inserti32x4(three, load_16(p + 64, n == 4), 3), low, high);
}

CR_INLINE __m512 q4_1_quad(__m512 chain, const rows4 *r, size_t at, const cr_act *x, size_t quad,
                           int n)
{
    const __m512i v0 = load_bytes(r->p[0] + at, 20 * n);
    const __m512i v1 = load_bytes(r->p[1] + at, 20 * n);
    const __m512i v2 = load_bytes(r->p[2] + at, 20 * n);
    const __m512i v3 = load_bytes(r->p[3] + at, 20 * n);

    const __m512i low = quad_q(x, quad, 0), high = quad_q(x, quad, 1);
    const __m512i dot = reduce4_rows(
        q4_1_dot(r->p[0] + at, v0, low, high, n), q4_1_dot(r->p[1] + at, v1, low, high, n),
        q4_1_dot(r->p[2] + at, v2, low, high, n), q4_1_dot(r->p[3] + at, v3, low, high, n));

    const __m512i take = _mm512_load_si512(q4_1_scales);
    __m512i dm = _mm512_permutexvar_epi16(take, v0);
    dm = _mm512_mask_permutexvar_epi16(dm, 0x00f000f0, take, v1);
    dm = _mm512_mask_permutexvar_epi16(dm, 0x0f000f00, take, v2);
    dm = _mm512_mask_permutexvar_epi16(dm, 0xf000f000, take, v3);
    const __m512 m = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(dm, 1));

    const __m512 dx = quad_d(x, quad);
    const __m512i sum = _mm512_madd_epi16(quad_sums(x, quad), _mm512_set1_epi16(1));
    chain = _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(halves(dm), dx), chain,
                                  quad_lanes(n));
    return _mm512_mask3_fmadd_ps(m, _mm512_mul_ps(dx, _mm512_cvtepi32_ps(sum)), chain,
                                 quad_lanes(n));
}

/* ---- Q5_0: [d][4 bytes][16 bytes], 22 bytes; a quad has 88
 *      Q5_1: [d][m][4 bytes][16 bytes], 24 bytes; a quad has 96 ---- */

/* Two loads have two blocks each. From each, two 128-bit lanes of nibbles; and twice in every lane
 * the words [fifth bits, 0-15][fifth bits, 16-31][d][m]. */
typedef struct fives {
    uint8_t nibbles[64];
    uint16_t head[32];
    int size; /* of a block */
} fives;

static const _Alignas(64) fives q5_0_places = {
    { 6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 28, 29, 30, 31, 32, 33,
      34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17,
      18, 19, 20, 21, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43 },
    { 1, 2, 0, 0, 1, 2, 0, 0, 12, 13, 11, 11, 12, 13, 11, 11,
      1, 2, 0, 0, 1, 2, 0, 0, 12, 13, 11, 11, 12, 13, 11, 11 },
    22,
};
static const _Alignas(64) fives q5_1_places = {
    { 8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 32, 33, 34, 35, 36, 37,
      38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
      20, 21, 22, 23, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47 },
    { 2, 3, 0, 1, 2, 3, 0, 1, 14, 15, 12, 13, 14, 15, 12, 13,
      2, 3, 0, 1, 2, 3, 0, 1, 14, 15, 12, 13, 14, 15, 12, 13 },
    24,
};
/* Words 2 (d) and 3 (m) of each lane of such a head: d into the lower half, m into the upper
 * one. */
static const _Alignas(64) uint16_t five_scales[32] = {
    2, 10, 18, 26, 2, 10, 18, 26, 2, 10, 18, 26, 2, 10, 18, 26,
    3, 11, 19, 27, 3, 11, 19, 27, 3, 11, 19, 27, 3, 11, 19, 27,
};

/* n blocks at p: the dot product of each, and their heads. */
CR_INLINE __m512i five_dot(const uint8_t *p, const fives *places, int n, __m512i low, __m512i high,
                           __m512i *head)
{
    const int size = places->size;
    const __m512i v01 = load_bytes(p, CR_MIN(n, 2) * size);
    const __m512i v23 = load_bytes(p + 2 * size, n > 2 ? (n - 2) * size : 0);
    const __m512i nibbles = _mm512_load_si512(places->nibbles);
    const __m512i words = _mm512_load_si512(places->head);
    const __m512i pairs = _mm512_mask_permutexvar_epi8(_mm512_permutexvar_epi8(nibbles, v01),
                                                       (__mmask64)0xffffffff << 32, nibbles, v23);
    *head =
        _mm512_mask_permutexvar_epi16(_mm512_permutexvar_epi16(words, v01), 0xffff0000, words, v23);

    /* Byte j of a lane takes the eight bits from j - 4: bit j is where 16 is. */
    const __m512i first =
        _mm512_broadcast_i32x4(_mm_setr_epi8(60, 61, 62, 63, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
    const __m512i second = _mm512_broadcast_i32x4(
        _mm_setr_epi8(12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27));
    const __m512i mask = _mm512_set1_epi8(15), fifth = _mm512_set1_epi8(16);
    const __m512i w0 =
        and_or(_mm512_multishift_epi64_epi8(first, *head), fifth, _mm512_and_si512(pairs, mask));
    const __m512i w1 = and_or(_mm512_multishift_epi64_epi8(second, *head), fifth,
                              _mm512_and_si512(_mm512_srli_epi16(pairs, 4), mask));
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), w0, low), w1, high);
}

/* The products, [row][block]; scales and minima as halves. */
CR_INLINE __m512i five_quad(const rows4 *r, size_t at, const cr_act *x, size_t quad,
                            const fives *places, int n, __m512i *dm)
{
    const __m512i low = quad_q(x, quad, 0), high = quad_q(x, quad, 1);
    __m512i h0, h1, h2, h3;
    const __m512i dot = reduce4_rows(five_dot(r->p[0] + at, places, n, low, high, &h0),
                                     five_dot(r->p[1] + at, places, n, low, high, &h1),
                                     five_dot(r->p[2] + at, places, n, low, high, &h2),
                                     five_dot(r->p[3] + at, places, n, low, high, &h3));
    const __m512i take = _mm512_load_si512(five_scales);
    *dm = _mm512_permutexvar_epi16(take, h0);
    *dm = _mm512_mask_permutexvar_epi16(*dm, 0x00f000f0, take, h1);
    *dm = _mm512_mask_permutexvar_epi16(*dm, 0x0f000f00, take, h2);
    *dm = _mm512_mask_permutexvar_epi16(*dm, 0xf000f000, take, h3);
    return dot;
}

CR_INLINE __m512 q5_0_quad(__m512 chain, const rows4 *r, size_t at, const cr_act *x, size_t quad,
                           int n)
{
    __m512i d;
    const __m512i dot = five_quad(r, at, x, quad, &q5_0_places, n, &d);
    const __m512i sum = _mm512_dpwssd_epi32(dot, quad_sums(x, quad), _mm512_set1_epi16(-16));
    return _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(halves(d), quad_d(x, quad)),
                                 chain, quad_lanes(n));
}

CR_INLINE __m512 q5_1_quad(__m512 chain, const rows4 *r, size_t at, const cr_act *x, size_t quad,
                           int n)
{
    __m512i dm;
    const __m512i dot = five_quad(r, at, x, quad, &q5_1_places, n, &dm);
    const __m512 m = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(dm, 1));
    const __m512 dx = quad_d(x, quad);
    const __m512i sum = _mm512_madd_epi16(quad_sums(x, quad), _mm512_set1_epi16(1));
    chain = _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(halves(dm), dx), chain,
                                  quad_lanes(n));
    return _mm512_mask3_fmadd_ps(m, _mm512_mul_ps(dx, _mm512_cvtepi32_ps(sum)), chain,
                                 quad_lanes(n));
}

/* ---- Q8_0: [d][32 bytes], 34 bytes; a quad has 136 ---- */

/* The scales of two blocks from 64 bytes; the same again for the other two. */
static const _Alignas(64) uint16_t q8_0_scales[32] = {
    0, 17, 0, 17, 0, 17, 0, 17, 0, 17, 0, 17, 0, 17, 0, 17,
};
static const _Alignas(64) uint64_t q8_0_halves[2][8] = {
    { 0, 1, 4, 5, 8, 9, 12, 13 },
    { 2, 3, 6, 7, 10, 11, 14, 15 },
};

/* 32 bytes at p if this block exists. */
CR_INLINE __m256i load_32(const uint8_t *p, bool exists)
{
    return _mm256_maskz_loadu_epi8(exists ? ~(__mmask32)0 : 0, p);
}

CR_INLINE __m512i q8_0_dot(const uint8_t *p, __m512i first, __m512i second, int n)
{
    const __m512i b01 =
        _mm512_inserti64x4(_mm512_castsi256_si512(load_32(p + 2, true)), load_32(p + 36, n > 1), 1);
    const __m512i b23 = _mm512_inserti64x4(_mm512_castsi256_si512(load_32(p + 70, n > 2)),
                                           load_32(p + 104, n > 3), 1);
    const __m512i w0 = _mm512_permutex2var_epi64(b01, _mm512_load_si512(q8_0_halves[0]), b23);
    const __m512i w1 = _mm512_permutex2var_epi64(b01, _mm512_load_si512(q8_0_halves[1]), b23);
    const __m512i sign = _mm512_set1_epi8(-128); /* q + 128 as a byte without sign */
    const __m512i sum =
        _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_xor_si512(w0, sign), first);
    return _mm512_dpbusd_epi32(sum, _mm512_xor_si512(w1, sign), second);
}

CR_INLINE __m512 q8_0_quad(__m512 chain, const rows4 *r, size_t at, const cr_act *x, size_t quad,
                           int n)
{
    const uint8_t *p0 = r->p[0] + at, *p1 = r->p[1] + at, *p2 = r->p[2] + at, *p3 = r->p[3] + at;
    const __m512i first = quad_q(x, quad, 0), second = quad_q(x, quad, 1);
    const __m512i dot =
        reduce4_rows(q8_0_dot(p0, first, second, n), q8_0_dot(p1, first, second, n),
                     q8_0_dot(p2, first, second, n), q8_0_dot(p3, first, second, n));
    const __m512i sum = _mm512_dpwssd_epi32(dot, quad_sums(x, quad), _mm512_set1_epi16(-128));

    const __m512i take = _mm512_load_si512(q8_0_scales);
    const int n01 = CR_MIN(34 * n, 64), n23 = n > 2 ? CR_MIN(34 * n - 68, 64) : 0;
    __m512i d = _mm512_permutexvar_epi16(take, load_bytes(p0, n01));
    d = _mm512_mask_permutexvar_epi16(d, 0x000c, take, load_bytes(p0 + 68, n23));
    d = _mm512_mask_permutexvar_epi16(d, 0x0030, take, load_bytes(p1, n01));
    d = _mm512_mask_permutexvar_epi16(d, 0x00c0, take, load_bytes(p1 + 68, n23));
    d = _mm512_mask_permutexvar_epi16(d, 0x0300, take, load_bytes(p2, n01));
    d = _mm512_mask_permutexvar_epi16(d, 0x0c00, take, load_bytes(p2 + 68, n23));
    d = _mm512_mask_permutexvar_epi16(d, 0x3000, take, load_bytes(p3, n01));
    d = _mm512_mask_permutexvar_epi16(d, 0xc000, take, load_bytes(p3 + 68, n23));
    return _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(halves(d), quad_d(x, quad)),
                                 chain, quad_lanes(n));
}

/* ---- the kernels ---- */

void cr_matvec_q4_0__avx512(float *y, const void *w, size_t row_bytes, size_t n_rows,
                            const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 4 * 18, q4_0_quad);
}

void cr_matvec_q4_1__avx512(float *y, const void *w, size_t row_bytes, size_t n_rows,
                            const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 4 * 20, q4_1_quad);
}

void cr_matvec_q8_0__avx512(float *y, const void *w, size_t row_bytes, size_t n_rows,
                            const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 4 * 34, q8_0_quad);
}

void cr_matvec_iq4_nl__avx512(float *y, const void *w, size_t row_bytes, size_t n_rows,
                              const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 4 * 18, iq4_nl_quad);
}

void cr_matvec_q5_0__avx512(float *y, const void *w, size_t row_bytes, size_t n_rows,
                            const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 4 * 22, q5_0_quad);
}

void cr_matvec_q5_1__avx512(float *y, const void *w, size_t row_bytes, size_t n_rows,
                            const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 4 * 24, q5_1_quad);
}

/* Matrix times vector for blocks of 32 weights: Q4_0, IQ4_NL, Q4_1, Q5_0, Q5_1, Q8_0. See avx2.h
 * for the shape. */
#include "backend/cpu/x86/avx2.h"

/* Adds the sums of the pair at byte `at` of four rows. */
typedef __m256 pair_sum(__m256 chain, const rows4 *r, size_t at, const cr_act *x, size_t pair);

CR_INLINE void matvec(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x,
                      size_t pair_bytes, pair_sum *add)
{
    const size_t n_blocks = x->n / 32;
    for (size_t i = 0; i < n_rows; i += 4) {
        const rows4 r = rows4_at(w, row_bytes, i, n_rows, x->prefetch);
        __m256 chain[8];
        for (int k = 0; k < 8; k++)
            chain[k] = _mm256_setzero_ps();
        size_t pair = 0, at = 0;
        for (; 2 * pair + 2 <= n_blocks; pair++, at += pair_bytes) {
            prefetch_rows(&r, at, pair_bytes);
            chain[pair % 8] = add(chain[pair % 8], &r, at, x, pair);
        }
        if (2 * pair < n_blocks) {
            /* A last single block: with zeros for its partner, whose chain stays as it is. */
            uint8_t copy[4][68] = { { 0 } };
            for (int k = 0; k < 4; k++)
                for (size_t j = 0; j < pair_bytes / 2; j++)
                    copy[k][j] = r.p[k][at + j];
            const rows4 c = { .p = { copy[0], copy[1], copy[2], copy[3] } };
            const __m256 sum = add(chain[pair % 8], &c, 0, x, pair);
            chain[pair % 8] = _mm256_blend_ps(chain[pair % 8], sum, 0x0f);
        }
        store_rows(y + i, merge_pairs(chain), n_rows - i);
    }
}

/* The scales, or what else is a half, at byte a of the first block and b of the second. */
CR_INLINE __m256 pair_halves(const rows4 *r, size_t a, size_t b)
{
    return _mm256_set_m128(row_halves(r, b), row_halves(r, a));
}

/* Products of 16 nibble pairs of each block. No saturation: 4 * 15 * 127 fits 16 bits. */
CR_INLINE __m256i dot_nibbles(__m256i pairs, __m256i low, __m256i high)
{
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256i l = _mm256_maddubs_epi16(_mm256_and_si256(pairs, mask), low);
    const __m256i h =
        _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(pairs, 4), mask), high);
    return widen(_mm256_add_epi16(l, h));
}

CR_INLINE __m256 q4_0_pair(__m256 chain, const rows4 *r, size_t at, const cr_act *x, size_t pair)
{
    const __m256i low = pair_q(x, pair, 0), high = pair_q(x, pair, 1);
    const size_t a = at + 2, b = at + 20;
    const __m256i dot = reduce4(dot_nibbles(load_2x16(r->p[0] + a, r->p[0] + b), low, high),
                                dot_nibbles(load_2x16(r->p[1] + a, r->p[1] + b), low, high),
                                dot_nibbles(load_2x16(r->p[2] + a, r->p[2] + b), low, high),
                                dot_nibbles(load_2x16(r->p[3] + a, r->p[3] + b), low, high));
    const __m256i sum =
        _mm256_add_epi32(dot, _mm256_madd_epi16(pair_sums(x, pair), _mm256_set1_epi16(-8)));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum),
                           _mm256_mul_ps(pair_halves(r, at, at + 18), pair_d(x, pair)), chain);
}

CR_INLINE __m256 iq4_nl_pair(__m256 chain, const rows4 *r, size_t at, const cr_act *x, size_t pair)
{
    const __m256i low = pair_q(x, pair, 0), high = pair_q(x, pair, 1);
    const size_t a = at + 2, b = at + 20;
    const __m256i sum = reduce4(dot_levels(load_2x16(r->p[0] + a, r->p[0] + b), low, high),
                                dot_levels(load_2x16(r->p[1] + a, r->p[1] + b), low, high),
                                dot_levels(load_2x16(r->p[2] + a, r->p[2] + b), low, high),
                                dot_levels(load_2x16(r->p[3] + a, r->p[3] + b), low, high));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum),
                           _mm256_mul_ps(pair_halves(r, at, at + 18), pair_d(x, pair)), chain);
}

CR_INLINE __m256 q4_1_pair(__m256 chain, const rows4 *r, size_t at, const cr_act *x, size_t pair)
{
    const __m256i low = pair_q(x, pair, 0), high = pair_q(x, pair, 1);
    const size_t a = at + 4, b = at + 24;
    const __m256i dot = reduce4(dot_nibbles(load_2x16(r->p[0] + a, r->p[0] + b), low, high),
                                dot_nibbles(load_2x16(r->p[1] + a, r->p[1] + b), low, high),
                                dot_nibbles(load_2x16(r->p[2] + a, r->p[2] + b), low, high),
                                dot_nibbles(load_2x16(r->p[3] + a, r->p[3] + b), low, high));
    chain = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot),
                            _mm256_mul_ps(pair_halves(r, at, at + 20), pair_d(x, pair)), chain);
    return _mm256_fmadd_ps(pair_halves(r, at + 2, at + 22), pair_d_sum(x, pair), chain);
}

/* 16 where the bit is set: bit i % 8 of the byte that `bytes` takes for weight i. */
CR_INLINE __m256i fifth_bits(__m256i top, __m128i bytes)
{
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    const __m256i v = _mm256_shuffle_epi8(top, _mm256_broadcastsi128_si256(bytes));
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit), _mm256_set1_epi8(16));
}

/* Two blocks that end in [4 bytes: fifth bits][16 bytes: nibbles]. No saturation: 4 * 31 * 127. */
CR_INLINE __m256i five_dot(const uint8_t *p, size_t size, __m256i low, __m256i high)
{
    const uint8_t *a = p + size - 20, *b = a + size;
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256i pairs = load_2x16(a + 4, b + 4);
    const __m256i top = _mm256_set_m128i(_mm_shuffle_epi32(_mm_loadu_si32(b), 0),
                                         _mm_shuffle_epi32(_mm_loadu_si32(a), 0));
    const __m128i first = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m128i second = _mm_setr_epi8(2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i w0 = _mm256_or_si256(_mm256_and_si256(pairs, mask), fifth_bits(top, first));
    const __m256i w1 = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(pairs, 4), mask),
                                       fifth_bits(top, second));
    return widen(_mm256_add_epi16(_mm256_maddubs_epi16(w0, low), _mm256_maddubs_epi16(w1, high)));
}

CR_INLINE __m256 q5_0_pair(__m256 chain, const rows4 *r, size_t at, const cr_act *x, size_t pair)
{
    const __m256i low = pair_q(x, pair, 0), high = pair_q(x, pair, 1);
    const __m256i dot =
        reduce4(five_dot(r->p[0] + at, 22, low, high), five_dot(r->p[1] + at, 22, low, high),
                five_dot(r->p[2] + at, 22, low, high), five_dot(r->p[3] + at, 22, low, high));
    const __m256i sum =
        _mm256_add_epi32(dot, _mm256_madd_epi16(pair_sums(x, pair), _mm256_set1_epi16(-16)));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum),
                           _mm256_mul_ps(pair_halves(r, at, at + 22), pair_d(x, pair)), chain);
}

CR_INLINE __m256 q5_1_pair(__m256 chain, const rows4 *r, size_t at, const cr_act *x, size_t pair)
{
    const __m256i low = pair_q(x, pair, 0), high = pair_q(x, pair, 1);
    const __m256i dot =
        reduce4(five_dot(r->p[0] + at, 24, low, high), five_dot(r->p[1] + at, 24, low, high),
                five_dot(r->p[2] + at, 24, low, high), five_dot(r->p[3] + at, 24, low, high));
    chain = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot),
                            _mm256_mul_ps(pair_halves(r, at, at + 24), pair_d(x, pair)), chain);
    return _mm256_fmadd_ps(pair_halves(r, at + 2, at + 26), pair_d_sum(x, pair), chain);
}

CR_INLINE __m256i q8_0_dot(const uint8_t *p, __m256i first, __m256i second)
{
    return _mm256_add_epi32(dot_signed(load_2x16(p + 2, p + 36), first),
                            dot_signed(load_2x16(p + 18, p + 52), second));
}

CR_INLINE __m256 q8_0_pair(__m256 chain, const rows4 *r, size_t at, const cr_act *x, size_t pair)
{
    const __m256i first = pair_q(x, pair, 0), second = pair_q(x, pair, 1);
    const __m256i sum =
        reduce4(q8_0_dot(r->p[0] + at, first, second), q8_0_dot(r->p[1] + at, first, second),
                q8_0_dot(r->p[2] + at, first, second), q8_0_dot(r->p[3] + at, first, second));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum),
                           _mm256_mul_ps(pair_halves(r, at, at + 34), pair_d(x, pair)), chain);
}

void cr_matvec_q4_0__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 2 * 18, q4_0_pair);
}

void cr_matvec_q4_1__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 2 * 20, q4_1_pair);
}

void cr_matvec_q8_0__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 2 * 34, q8_0_pair);
}

void cr_matvec_iq4_nl__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows,
                            const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 2 * 18, iq4_nl_pair);
}

void cr_matvec_q5_0__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 2 * 22, q5_0_pair);
}

void cr_matvec_q5_1__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x)
{
    matvec(y, w, row_bytes, n_rows, x, 2 * 24, q5_1_pair);
}

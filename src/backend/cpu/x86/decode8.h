/* decode.h, and what it needs, eight lanes: an entry of a grid of eight, or two of a grid of four. */
#ifndef CR_DECODE8_H
#define CR_DECODE8_H

#include "backend/cpu/x86/lanes8.h"
#include "tensor/codebook.h"

/* Numbers of two bits, and of three, by which tables of four and of eight are looked up. Bits above
 * them do not count. */
CR_INLINE vec table_4(const float levels[4], float step)
{
    return vec_mul(vec_all(&step), _mm256_broadcast_ps((const __m128 *)(const void *)levels));
}

CR_INLINE vec table_8(const float levels[8], float step)
{
    return vec_mul(vec_all(&step), vec_load(levels));
}

/* The weights of an entry. */
CR_INLINE vec look_up_4(vec table, const uint16_t *grid, const uint16_t *index)
{
    const __m256i entry = _mm256_set1_epi16((short)grid[index[0]]);
    const __m256i shift = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    return _mm256_permutevar_ps(table, _mm256_srlv_epi32(entry, shift));
}

/* The weights of two entries. */
CR_INLINE vec look_up_8(vec table, const uint16_t *grid, const uint16_t *index)
{
    const __m256i entries = _mm256_blend_epi32(_mm256_set1_epi16((short)grid[index[0]]),
                                               _mm256_set1_epi16((short)grid[index[1]]), 0xf0);
    const __m256i shift = _mm256_setr_epi32(0, 3, 6, 9, 0, 3, 6, 9);
    return _mm256_permutevar8x32_ps(table, _mm256_srlv_epi32(entries, shift));
}

/* Weights of IQ1_M: levels above, and below where `minus` is set. */
CR_INLINE vec look_up_iq1(const float levels[2][4], float step, const uint16_t *index,
                          const uint32_t *minus, size_t first)
{
    return look_up_4(table_4(levels[*minus >> first & 1], step), cr_grid_iq1, index);
}

/* Minus the weights whose bits, from bit `first` on, are set. */
CR_INLINE vec negate(vec w, const uint32_t *signs, size_t first)
{
    const __m256i shift = _mm256_sub_epi32(_mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24),
                                           _mm256_set1_epi32((int)first));
    const __m256i top = _mm256_sllv_epi32(_mm256_set1_epi32((int)*signs), shift);
    return _mm256_xor_ps(w, _mm256_and_ps(_mm256_castsi256_ps(top), _mm256_set1_ps(-0.0f)));
}

/* Two bits of each byte, from an even bit on, less one, times d. */
CR_INLINE vec ternary_weights(float d, const uint8_t *bytes, int bit)
{
    static const float levels[4] = { -1, 0, 1, 2 };
    const __m256i numbers = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)bytes));
    return _mm256_permutevar_ps(table_4(levels, d), _mm256_srli_epi32(numbers, bit));
}

/* ---- MXFP4: [exponent][16 bytes] ---- */

/* Twice e2m1, as src/tensor/mxfp4.c has it. */
static const int8_t mxfp4_levels[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

CR_INLINE void mxfp4_weights(vec w[4], const uint8_t *bytes, float d)
{
    const __m128i levels = _mm_loadu_si128((const __m128i *)mxfp4_levels);
    const __m128i q = _mm_loadu_si128((const __m128i *)bytes), mask = _mm_set1_epi8(15);
    const __m128i a = _mm_shuffle_epi8(levels, _mm_and_si128(q, mask));
    const __m128i b = _mm_shuffle_epi8(levels, _mm_and_si128(_mm_srli_epi16(q, 4), mask));
    const __m128i eight[4] = { a, _mm_unpackhi_epi64(a, a), b, _mm_unpackhi_epi64(b, b) };
    CR_UNROLL
    for (size_t v = 0; v < 4; v++)
        w[v] = vec_mul(vec_all(&d), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight[v])));
}

#include "backend/cpu/x86/decode.h"

#endif

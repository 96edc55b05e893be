/* decode.h, and what it needs, sixteen lanes: two entries of a grid of eight, or four of a grid of four. */
#ifndef CR_DECODE16_H
#define CR_DECODE16_H

#include "backend/cpu/x86/lanes16.h"
#include "tensor/codebook.h"

/* Numbers of two bits, and of three, by which tables of four and of eight are looked up. Bits above
 * them do not count; a table of eight is there twice, as what is looked up has four bits. */
CR_INLINE vec table_4(const float levels[4], float step)
{
    return vec_mul(vec_all(&step), _mm512_broadcast_f32x4(_mm_loadu_ps(levels)));
}

CR_INLINE vec table_8(const float levels[8], float step)
{
    return vec_mul(vec_all(&step), _mm512_broadcast_f32x8(_mm256_loadu_ps(levels)));
}

/* The weights of two entries. */
CR_INLINE vec look_up_4(vec table, const uint16_t *grid, const uint16_t *index)
{
    const __m512i entries = _mm512_mask_set1_epi16(_mm512_set1_epi16((short)grid[index[0]]),
                                                   0xffff0000, (short)grid[index[1]]);
    const __m512i shift = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12, 14);
    return _mm512_permutevar_ps(table, _mm512_srlv_epi32(entries, shift));
}

/* The weights of four entries. Half a vector at a time is less to load, which bounds it. */
CR_INLINE vec look_up_8(vec table, const uint16_t *grid, const uint16_t *index)
{
    const __m256i a = _mm256_mask_set1_epi16(_mm256_set1_epi16((short)grid[index[0]]), 0xff00,
                                             (short)grid[index[1]]);
    const __m256i b = _mm256_mask_set1_epi16(_mm256_set1_epi16((short)grid[index[2]]), 0xff00,
                                             (short)grid[index[3]]);
    const __m512i e = _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
    const __m512i shift = _mm512_setr_epi32(0, 3, 6, 9, 0, 3, 6, 9, 0, 3, 6, 9, 0, 3, 6, 9);
    return _mm512_permutexvar_ps(_mm512_srlv_epi32(e, shift), table);
}

/* A load for each mask: shifts of masks are slow. */
CR_INLINE __mmask16 sixteen_bits(const uint32_t *bits, size_t first)
{
    return cr_load_u16((const uint8_t *)bits + first / 8);
}

/* Weights of IQ1_M: levels above, and below where `minus` is set. */
CR_INLINE vec look_up_iq1(const float levels[2][4], float step, const uint16_t *index,
                          const uint32_t *minus, size_t first)
{
    const vec above =
        look_up_4(_mm512_broadcast_f32x4(_mm_loadu_ps(levels[0])), cr_grid_iq1, index);
    const vec level =
        _mm512_mask_sub_ps(above, sixteen_bits(minus, first), above, _mm512_set1_ps(0.25f));
    return vec_mul(vec_all(&step), level);
}

/* Minus the weights whose bits, from bit `first` on, are set. */
CR_INLINE vec negate(vec w, const uint32_t *signs, size_t first)
{
    return _mm512_mask_xor_ps(w, sixteen_bits(signs, first), w, _mm512_set1_ps(-0.0f));
}

/* Two bits of each byte, from an even bit on, less one, times d. What is looked up has four bits:
 * these two are the lower or the upper ones. */
CR_INLINE vec ternary_weights(float d, const uint8_t *bytes, int bit)
{
    const vec lower = _mm512_setr_ps(-1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2);
    const vec upper = _mm512_setr_ps(-1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2);
    const vec table = vec_mul(vec_all(&d), bit % 4 == 0 ? lower : upper);
    const __m512i numbers = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)bytes));
    return _mm512_permutexvar_ps(_mm512_srli_epi32(numbers, (unsigned)(bit / 4 * 4)), table);
}

/* ---- MXFP4: [exponent][16 bytes] ---- */

CR_INLINE void mxfp4_weights(vec w[2], const uint8_t *bytes, float d)
{
    const vec levels = _mm512_setr_ps(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    const vec table = vec_mul(vec_all(&d), levels);
    const __m512i q = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)bytes));
    w[0] = _mm512_permutexvar_ps(q, table);
    w[1] = _mm512_permutexvar_ps(_mm512_srli_epi32(q, 4), table);
}

#include "backend/cpu/x86/decode.h"

#endif

/* Blocks of decoder.h's types, taken apart by the code of both AVX levels.
 *
 * d (1/2 + scale) unit is exact in floats, whatever the order: 11 bits and 5. */
#ifndef CR_GRID_UNPACK_H
#define CR_GRID_UNPACK_H

#include <immintrin.h>

#include "backend/cpu/decoder.h"

CR_INLINE __m128i load_16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

CR_INLINE __m256i load_32(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* Eight bytes in both halves. */
CR_INLINE __m256i load_8_twice(const uint8_t *p)
{
    return _mm256_broadcastsi128_si256(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

CR_INLINE void store_32(void *p, __m256i v)
{
    _mm256_storeu_si256(p, v);
}

/* Sixteen bytes, and what stands above them. */
CR_INLINE void put_indices(uint16_t *to, const uint8_t *low, __m256i high)
{
    store_32(to, _mm256_or_si256(_mm256_cvtepu8_epi16(load_16(low)), high));
}

/* Bytes that `take` numbers, a word each, times `factor`: the bits of `mask`. */
CR_INLINE __m256i high_bits(__m256i bytes, __m256i take, __m256i factor, short mask)
{
    const __m256i words = _mm256_mullo_epi16(_mm256_shuffle_epi8(bytes, take), factor);
    return _mm256_and_si256(words, _mm256_set1_epi16(mask));
}

/* Bytes a to d of sixteen, in four words each. */
CR_INLINE __m256i take_fours(char a, char b, char c, char d)
{
    return _mm256_setr_epi8(a, -1, a, -1, a, -1, a, -1, b, -1, b, -1, b, -1, b, -1, /**/
                            c, -1, c, -1, c, -1, c, -1, d, -1, d, -1, d, -1, d, -1);
}

/* Eight times four groups of seven bits; the eighth makes the number of minuses even. */
CR_INLINE void put_even_signs(unpacked *u, __m256i seven)
{
    const __m256i odd = _mm256_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, /**/
                                         -128, 0, 0, -128, 0, -128, -128, 0, /**/
                                         0, -128, -128, 0, -128, 0, 0, -128, /**/
                                         -128, 0, 0, -128, 0, -128, -128, 0);
    const __m256i nibble = _mm256_and_si256(_mm256_xor_si256(seven, _mm256_srli_epi16(seven, 4)),
                                            _mm256_set1_epi8(15));
    store_32(u->signs, _mm256_or_si256(seven, _mm256_shuffle_epi8(odd, nibble)));
}

/* The words of IQ2_XXS and IQ3_XXS: four times seven bits of signs. */
CR_INLINE __m256i sevens(__m256i words)
{
    const __m256i mask = _mm256_set1_epi32(127);
    const __m256i s0 = _mm256_and_si256(words, mask);
    const __m256i s1 = _mm256_and_si256(_mm256_slli_epi32(words, 1), _mm256_slli_epi32(mask, 8));
    const __m256i s2 = _mm256_and_si256(_mm256_slli_epi32(words, 2), _mm256_slli_epi32(mask, 16));
    const __m256i s3 = _mm256_and_si256(_mm256_slli_epi32(words, 3), _mm256_slli_epi32(mask, 24));
    return _mm256_or_si256(_mm256_or_si256(s0, s1), _mm256_or_si256(s2, s3));
}

CR_INLINE float half_bits(int bits)
{
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

/* d (1/2 + scale) unit */
CR_INLINE void put_8_steps(float to[8], __m256i scales, float d, float unit)
{
    const __m256 sum = _mm256_add_ps(_mm256_set1_ps(0.5f), _mm256_cvtepi32_ps(scales));
    _mm256_storeu_ps(to,
                     _mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(d), sum), _mm256_set1_ps(unit)));
}

CR_INLINE __m256i eight_nibbles(uint32_t bits)
{
    const __m256i shift = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    return _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32((int)bits), shift),
                            _mm256_set1_epi32(15));
}

CR_INLINE void put_16_steps(float to[16], const uint8_t *scales, float d, float unit)
{
    put_8_steps(to, eight_nibbles(cr_load_u32(scales)), d, unit);
    put_8_steps(to + 8, eight_nibbles(cr_load_u32(scales + 4)), d, unit);
}

CR_INLINE void unpack_iq2_xxs(unpacked *u, const uint8_t *block)
{
    const __m256 a = _mm256_castsi256_ps(load_32(block + 2));
    const __m256 b = _mm256_castsi256_ps(load_32(block + 34));
    const __m256i bytes =
        _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88)), 0xd8);
    const __m256i words =
        _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd)), 0xd8);
    store_32(u->index, _mm256_cvtepu8_epi16(_mm256_castsi256_si128(bytes)));
    store_32(u->index + 16, _mm256_cvtepu8_epi16(_mm256_extracti128_si256(bytes, 1)));
    put_even_signs(u, sevens(words));
    put_8_steps(u->step, _mm256_srli_epi32(words, 28), half_bits(cr_load_u16(block)), 0.25f);
}

CR_INLINE void unpack_iq2_xs(unpacked *u, const uint8_t *block)
{
    const __m256i a = load_32(block + 2), b = load_32(block + 34);
    const __m256i mask = _mm256_set1_epi16(511);
    store_32(u->index, _mm256_and_si256(a, mask));
    store_32(u->index + 16, _mm256_and_si256(b, mask));
    const __m256i seven = _mm256_packus_epi16(_mm256_srli_epi16(a, 9), _mm256_srli_epi16(b, 9));
    put_even_signs(u, _mm256_permute4x64_epi64(seven, 0xd8));
    put_16_steps(u->step, block + 66, half_bits(cr_load_u16(block)), 0.25f);
}

CR_INLINE void unpack_iq2_s(unpacked *u, const uint8_t *block)
{
    const __m256i high = load_8_twice(block + 66);
    const __m256i factor = _mm256_set1_epi64x(0x0004001000400100);
    put_indices(u->index, block + 2, high_bits(high, take_fours(0, 1, 2, 3), factor, 0x300));
    put_indices(u->index + 16, block + 18, high_bits(high, take_fours(4, 5, 6, 7), factor, 0x300));
    store_32(u->signs, load_32(block + 34));
    put_16_steps(u->step, block + 74, half_bits(cr_load_u16(block)), 0.25f);
}

CR_INLINE void unpack_iq3_xxs(unpacked *u, const uint8_t *block)
{
    for (size_t i = 0; i < 64; i += 16)
        put_indices(u->index + i, block + 2 + i, _mm256_setzero_si256());
    const __m256i words = load_32(block + 66);
    put_even_signs(u, sevens(words));
    put_8_steps(u->step, _mm256_srli_epi32(words, 28), half_bits(cr_load_u16(block)), 0.5f);
}

CR_INLINE void unpack_iq3_s(unpacked *u, const uint8_t *block)
{
    const __m256i high = load_8_twice(block + 66);
    const __m256i factor = _mm256_broadcastsi128_si256(
        _mm_setr_epi16(0x100, 0x80, 0x40, 0x20, 0x10, 0x08, 0x04, 0x02));
    put_indices(u->index, block + 2, high_bits(high, take_fours(0, 0, 1, 1), factor, 0x100));
    put_indices(u->index + 16, block + 18, high_bits(high, take_fours(2, 2, 3, 3), factor, 0x100));
    put_indices(u->index + 32, block + 34, high_bits(high, take_fours(4, 4, 5, 5), factor, 0x100));
    put_indices(u->index + 48, block + 50, high_bits(high, take_fours(6, 6, 7, 7), factor, 0x100));
    store_32(u->signs, load_32(block + 74));
    put_8_steps(u->step, eight_nibbles(cr_load_u32(block + 106)), half_bits(cr_load_u16(block)), 2);
}

/* Sixteen of the IQ1_S indices: four words hold their high bits. */
CR_INLINE void put_iq1_s_indices(uint16_t *to, const uint8_t *low, const uint8_t *words)
{
    const __m256i take = _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, /**/
                                          4, 5, 4, 5, 4, 5, 4, 5, 6, 7, 6, 7, 6, 7, 6, 7);
    const __m256i w = _mm256_shuffle_epi8(load_8_twice(words), take);
    const __m256i left = _mm256_mullo_epi16(w, _mm256_set1_epi64x(0x0000000400200100));
    const __m256i high = _mm256_blend_epi16(left, _mm256_srli_epi16(w, 1), 0x88);
    put_indices(to, low, _mm256_and_si256(high, _mm256_set1_epi16(0x700)));
}

CR_INLINE void unpack_iq1_s(unpacked *u, const uint8_t *block)
{
    put_iq1_s_indices(u->index, block + 2, block + 34);
    put_iq1_s_indices(u->index + 16, block + 18, block + 42);
    const __m256i words = _mm256_cvtepu16_epi32(load_16(block + 34));
    const __m256i scales = _mm256_and_si256(_mm256_srli_epi32(words, 12), _mm256_set1_epi32(7));
    store_32(u->signs, _mm256_srai_epi32(_mm256_slli_epi32(words, 16), 31));
    put_8_steps(u->step, scales, half_bits(cr_load_u16(block)), 2);
}

CR_INLINE void unpack_iq1_m(unpacked *u, const uint8_t *block)
{
    const __m256i take = _mm256_setr_epi8(0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1, 4,
                                          -1, 4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7, -1);
    const __m256i factor = _mm256_set1_epi32(0x00100100);
    const __m256i shift = _mm256_setr_epi32(0, 3, 6, 9, 16, 19, 22, 25);
    const uint8_t *words = block + 48;
    const float d =
        half_bits(words[1] >> 4 | words[3] >> 4 << 4 | words[5] >> 4 << 8 | words[7] >> 4 << 12);
    for (size_t i = 0; i < 2; i++) {
        put_indices(u->index + 16 * i, block + 16 * i,
                    high_bits(load_8_twice(block + 32 + 8 * i), take, factor, 0x700));
        const __m256i two = _mm256_set1_epi32((int)cr_load_u32(words + 4 * i));
        const __m256i scales =
            _mm256_and_si256(_mm256_srlv_epi32(two, shift), _mm256_set1_epi32(7));
        put_8_steps(u->step + 8 * i, scales, d, 2);
    }
    /* The minuses are bits 3 and 7 of the high bytes: now the top bits of bytes. */
    const __m128i odd = load_16(block + 32), even = _mm_slli_epi16(odd, 4);
    const __m256i top =
        _mm256_set_m128i(_mm_unpackhi_epi8(even, odd), _mm_unpacklo_epi8(even, odd));
    store_32(u->signs, _mm256_cmpgt_epi8(_mm256_setzero_si256(), top));
}

/* The digits, 0 to 2, that 32 bytes begin with: 1 from 86 on, which three times is more than 256,
 * and 2 from 171 on. */
CR_INLINE void put_digits(uint8_t *to, __m256i bytes)
{
    const __m256i one = _mm256_set1_epi8(86), two = _mm256_set1_epi8((char)171);
    const __m256i minus = _mm256_add_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(bytes, one), bytes),
                                          _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, two), bytes));
    store_32(to, _mm256_abs_epi8(minus));
}

CR_INLINE __m256i three_times(__m256i bytes)
{
    return _mm256_add_epi8(_mm256_add_epi8(bytes, bytes), bytes);
}

CR_INLINE void unpack_tq1_0(unpacked *u, const uint8_t *block)
{
    __m256i a = load_32(block);
    for (size_t i = 0; i < 160; i += 32, a = three_times(a))
        put_digits(u->digit + i, a);

    /* Sixteen bytes five times, and four bytes four times: two of them a vector. */
    __m256i b0 = _mm256_broadcastsi128_si256(load_16(block + 32)), b1 = three_times(b0);
    const __m256i b2 = three_times(b1), b3 = three_times(b2), b4 = three_times(b3);
    put_digits(u->digit + 160, _mm256_blend_epi32(b0, b1, 0xf0));
    put_digits(u->digit + 192, _mm256_blend_epi32(b2, b3, 0xf0));
    const __m256i c0 = _mm256_set1_epi32((int)cr_load_u32(block + 48)), c1 = three_times(c0);
    const __m256i c2 = three_times(c1), c3 = three_times(c2);
    const __m256i c = _mm256_blend_epi32(_mm256_blend_epi32(c0, c1, 0x22),
                                         _mm256_blend_epi32(c2, c3, 0x88), 0xcc);
    put_digits(u->digit + 224, _mm256_blend_epi32(b4, c, 0xf0));
}

#endif

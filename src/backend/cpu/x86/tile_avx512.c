/* What tile.h needs, sixteen lanes. */
#include "backend/cpu/x86/lanes16.h"

enum {
    FEW = 4,  /* queries whose scores with four keys are in registers */
    WIDE = 4, /* vectors of sums of values for each query */
};

CR_INLINE __m128 merge_four(vec chain[4][1])
{
    const vec sums = merge_rows(chain[0][0], chain[1][0], chain[2][0], chain[3][0]);
    return _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, sums));
}

CR_INLINE vec load_f16(const uint8_t *row, size_t i)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(row + 2 * i)));
}

/* [d][32 bytes] */
CR_INLINE vec load_q8_0(const uint8_t *row, size_t i)
{
    const uint8_t *block = row + i / 32 * 34;
    const __m128i q = _mm_loadu_si128((const __m128i *)(block + 2 + i % 32));
    const __m512 d = _mm512_cvtph_ps(_mm256_set1_epi16((short)(block[0] | block[1] << 8)));
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q)));
}

#include "backend/cpu/x86/tile.h"

TILE(f32, avx512, 128)
TILE(f16, avx512, 64)
TILE(q8_0, avx512, 34)

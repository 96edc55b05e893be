/* What tile.h needs, eight lanes. */
#include "backend/cpu/x86/lanes8.h"

enum {
    FEW = 1,  /* queries whose scores with four keys are in registers */
    WIDE = 2, /* vectors of sums of values for each query */
};

CR_INLINE __m128 merge_four(vec chain[4][2])
{
    return merge_rows(merge_to_4(chain[0][0], chain[0][1]), merge_to_4(chain[1][0], chain[1][1]),
                      merge_to_4(chain[2][0], chain[2][1]), merge_to_4(chain[3][0], chain[3][1]));
}

CR_INLINE vec load_f16(const uint8_t *row, size_t i)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(row + 2 * i)));
}

/* [d][32 bytes] */
CR_INLINE vec load_q8_0(const uint8_t *row, size_t i)
{
    const uint8_t *block = row + i / 32 * 34;
    const __m128i q = _mm_loadl_epi64((const __m128i *)(block + 2 + i % 32));
    const __m256 d = _mm256_cvtph_ps(_mm_set1_epi16(word_at(block)));
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)));
}

#include "backend/cpu/x86/tile.h"

TILE(f32, avx2, 128)
TILE(f16, avx2, 64)
TILE(q8_0, avx2, 34)

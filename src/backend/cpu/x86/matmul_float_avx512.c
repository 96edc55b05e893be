/* What matmul_float.h needs, sixteen lanes. */
#include "backend/cpu/x86/lanes16.h"

#include <string.h>

enum { GROUP = 8 }; /* columns */

CR_INLINE vec load_f32(const uint8_t *row, size_t i, size_t n)
{
    return _mm512_maskz_loadu_ps(first_lanes(n - i), row + 4 * i);
}

CR_INLINE vec load_f16(const uint8_t *row, size_t i, size_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n - i), row + 2 * i));
}

CR_INLINE vec load_bf16(const uint8_t *row, size_t i, size_t n)
{
    const __m512i words =
        _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first_lanes(n - i), row + 2 * i));
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}

#include "backend/cpu/x86/matmul_float.h"

MATMUL_FLOATS(f32, avx512)
MATMUL_FLOATS(f16, avx512)
MATMUL_FLOATS(bf16, avx512)

/* What matmul_float.h needs, eight lanes. */
#include "backend/cpu/x86/lanes8.h"

#include <string.h>

enum { GROUP = 4 }; /* columns */

/* Eight elements of `size` bytes, those from n on zeros: where they lie, or in `room`. */
CR_INLINE const uint8_t *eight(uint8_t room[32], const uint8_t *row, size_t i, size_t n,
                               size_t size)
{
    if (i + LANES <= n)
        return row + i * size;
    memset(room, 0, 32);
    memcpy(room, row + i * size, (n - i) * size);
    return room;
}

CR_INLINE vec load_f32(const uint8_t *row, size_t i, size_t n)
{
    uint8_t room[32];
    return _mm256_loadu_ps((const float *)(const void *)eight(room, row, i, n, 4));
}

CR_INLINE vec load_f16(const uint8_t *row, size_t i, size_t n)
{
    uint8_t room[32];
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)eight(room, row, i, n, 2)));
}

CR_INLINE vec load_bf16(const uint8_t *row, size_t i, size_t n)
{
    uint8_t room[32];
    const __m128i words = _mm_loadu_si128((const __m128i *)eight(room, row, i, n, 2));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
}

#include "backend/cpu/x86/matmul_float.h"

MATMUL_FLOATS(f32, avx2)
MATMUL_FLOATS(f16, avx2)
MATMUL_FLOATS(bf16, avx2)

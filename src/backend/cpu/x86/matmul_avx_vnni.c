/* Products of panel8.h with AVX-VNNI: four bytes of all lanes at a time, in dwords, beginning with
 * what the offset comes to. */
#include "backend/cpu/x86/panel8.h"

enum { COLUMNS = 4 }; /* whose products alternate */

/* Scales become floats. Sums of a half, their products and the sum of these are all integers below
 * 2^24: floats have them exactly. */
CR_INLINE void finish_panel(panel_block *panel, size_t n_blocks, const weights *type)
{
    if (!type->groups)
        return;
    for (size_t b = 0; b < n_blocks; b++) {
        const __m256i both = panel[b].scale[0];
        const __m256i first = _mm256_srai_epi32(_mm256_slli_epi32(both, 16), 16);
        const __m256i second = _mm256_srai_epi32(both, 16);
        panel[b].scale[0] = _mm256_castps_si256(_mm256_cvtepi32_ps(first));
        panel[b].scale[1] = _mm256_castps_si256(_mm256_cvtepi32_ps(second));
    }
}

typedef __m256i tile_dots[COLUMNS][PANELS];

/* dot += weights times activations of a half block. */
CR_INLINE void dot_half(tile_dots dot, const panel_block *const block[PANELS], size_t n_panels,
                        const int8_t *const q[COLUMNS], size_t n_columns, size_t half)
{
    CR_UNROLL
    for (size_t k = 0; k < 4; k++)
        CR_UNROLL
    for (size_t c = 0; c < n_columns; c++) {
        const __m256i a = four(q[c] + half * 64 + k * 4);
        CR_UNROLL
        for (size_t p = 0; p < n_panels; p++)
            dot[c][p] = _mm256_dpbusd_avx_epi32(dot[c][p], block[p]->w[half * 4 + k], a);
    }
}

/* sums: of the activations of both halves, as words. */
CR_INLINE void multiply_block(__m256 sum[COLUMNS][PANELS], const panel_block *const block[PANELS],
                              size_t n_panels, const int8_t *const q[COLUMNS],
                              const __m256i sums[COLUMNS], size_t n_columns, const weights *type)
{
    const __m256i minus_offset = _mm256_set1_epi16((short)-type->offset);
    const __m256i first_word = _mm256_set1_epi32(UINT16_MAX);
    tile_dots dot;
    CR_UNROLL
    for (size_t half = 0; half < 2; half++) {
        CR_UNROLL
        for (size_t c = 0; c < n_columns; c++) {
            __m256i factor = minus_offset;
            if (type->groups)
                factor = half == 0 ? _mm256_and_si256(first_word, minus_offset)
                                   : _mm256_andnot_si256(first_word, minus_offset);
            const __m256i begin = _mm256_madd_epi16(factor, sums[c]);
            CR_UNROLL
            for (size_t p = 0; p < n_panels; p++)
                if (half == 0 || type->groups)
                    dot[c][p] = begin;
        }
        dot_half(dot, block, n_panels, q, n_columns, half);
        if (half == 0 && !type->groups)
            continue;
        CR_UNROLL
        for (size_t c = 0; c < n_columns; c++)
            CR_UNROLL
        for (size_t p = 0; p < n_panels; p++) {
            const __m256 exact = _mm256_cvtepi32_ps(dot[c][p]);
            const __m256 scale = _mm256_castsi256_ps(block[p]->scale[half]);
            if (!type->groups)
                sum[c][p] = exact;
            else if (half == 0)
                sum[c][p] = _mm256_mul_ps(exact, scale);
            else
                sum[c][p] = _mm256_fmadd_ps(exact, scale, sum[c][p]);
        }
    }
}

#include "backend/cpu/x86/matmul_panel8.h"

PANEL_TYPES(MATMUL, avx_vnni)

/* IQ2_XXS: 256 weights in 8 groups of 32: per eight weights an index of 8 bits into a grid and
 * seven bits of signs; per group a scale of 4 bits. 2.0625 bits a weight.
 *
 *     byte   0       2       6          10                               66
 *            | d f16 | i0-i3 | word u32 | seven more such groups         |
 *
 *     word:  | scale | signs 3 | signs 2 | signs 1 | signs 0 |
 *              31..28  27..21    20..14    13..7     6..0
 *
 *     x = (d * (1/2 + scale) / 4) * grid[i][element], or minus that
 *
 * Every product is exact: 11 bits, 5 bits and 6 bits. */
#include "tensor/codebook.h"

enum { WEIGHTS = 256, BYTES = 66 };

void cr_dequantize_IQ2_XXS(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32(cr_load_u16(block));
        for (size_t group = 0; group < WEIGHTS / 32; group++) {
            const uint8_t *index = block + 2 + 8 * group;
            uint32_t word = cr_load_u32(index + 4);
            float step = d * (0.5f + (float)(word >> 28)) * 0.25f;
            for (size_t k = 0; k < 4; k++)
                cr_put_iq2(dst + i + 32 * group + 8 * k, cr_grid_iq2_xxs[index[k]],
                           cr_even_signs(word >> 7 * k & 127), step);
        }
    }
}

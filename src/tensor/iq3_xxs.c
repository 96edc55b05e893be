/* IQ3_XXS: 256 weights in 8 groups of 32: per four weights an index of 8 bits into a grid, per
 * eight weights seven bits of signs; per group a scale of 4 bits. 3.0625 bits a weight.
 *
 *     byte   0       2              66                       98
 *            | d f16 | index[0..63] | word u32, 8 of them    |
 *
 *     word:  | scale | signs 3 | signs 2 | signs 1 | signs 0 |
 *              31..28  27..21    20..14    13..7     6..0
 *
 *     x = (d * (1/2 + scale) / 2) * grid[index][element], or minus that */
#include "tensor/codebook.h"

enum { WEIGHTS = 256, BYTES = 98 };

static const float levels[8] = { 4, 12, 20, 28, 36, 44, 52, 62 };

void cr_dequantize_IQ3_XXS(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32(cr_load_u16(block));
        for (size_t k = 0; k < WEIGHTS / 8; k++) {
            uint32_t word = cr_load_u32(block + 66 + k / 4 * 4);
            float step = d * (0.5f + (float)(word >> 28)) * 0.5f;
            const float steps[2] = { step, -step };
            unsigned signs = cr_even_signs(word >> 7 * (k % 4) & 127);
            for (size_t j = 0; j < 8; j++) {
                int entry = cr_grid_iq3_xxs[block[2 + 2 * k + j / 4]];
                dst[i + 8 * k + j] = steps[signs >> j & 1] * levels[entry >> 3 * (j % 4) & 7];
            }
        }
    }
}

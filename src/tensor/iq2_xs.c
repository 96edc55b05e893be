/* IQ2_XS: 256 weights in 16 groups of 16: per eight weights an index of 9 bits into a grid and
 * seven bits of signs; per group a scale of 4 bits. 2.3125 bits a weight.
 *
 *     byte   0       2                          66             74
 *            | d f16 | word u16, 32 of them     | scales[0..7] |
 *
 *     word:  | signs | index |      scales[k]:  | group 2k + 1 | group 2k |
 *              15..9   8..0                       bits 7..4      bits 3..0
 *
 *     x = (d * (1/2 + scale) / 4) * grid[index][element], or minus that */
#include "tensor/codebook.h"

enum { WEIGHTS = 256, BYTES = 74 };

void cr_dequantize_IQ2_XS(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32(cr_load_u16(block));
        for (size_t k = 0; k < WEIGHTS / 8; k++) {
            unsigned word = cr_load_u16(block + 2 + 2 * k);
            int scale = block[66 + k / 4] >> k / 2 % 2 * 4 & 15;
            float step = d * (0.5f + (float)scale) * 0.25f;
            cr_put_iq2(dst + i + 8 * k, cr_grid_iq2_xs[word & 511], cr_even_signs(word >> 9), step);
        }
    }
}

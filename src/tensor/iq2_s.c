/* IQ2_S: 256 weights in 16 groups of 16: per eight weights an index of 10 bits into a grid and
 * eight bits of signs; per group a scale of 4 bits. 2.5625 bits a weight.
 *
 *     byte   0       2             34             66          74             82
 *            | d f16 | index[0..31]| signs[0..31] | high[0..7]| scales[0..7] |
 *
 *     high[k]:    | 4k + 3 | 4k + 2 | 4k + 1 | 4k |      bits 8 and 9 of the indices
 *                   7..6     5..4     3..2     1..0
 *     scales[k]:  | group 2k + 1 | group 2k |
 *                   bits 7..4      bits 3..0
 *
 *     x = (d * (1/2 + scale) / 4) * grid[index][element], or minus that */
#include "tensor/codebook.h"

enum { WEIGHTS = 256, BYTES = 82 };

void cr_dequantize_IQ2_S(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32(cr_load_u16(block));
        for (size_t k = 0; k < WEIGHTS / 8; k++) {
            int index = block[2 + k] | (block[66 + k / 4] >> 2 * (k % 4) & 3) << 8;
            int scale = block[74 + k / 4] >> k / 2 % 2 * 4 & 15;
            float step = d * (0.5f + (float)scale) * 0.25f;
            cr_put_iq2(dst + i + 8 * k, cr_grid_iq2_s[index], block[34 + k], step);
        }
    }
}

/* IQ3_S: 256 weights in 8 groups of 32: per four weights an index of 9 bits into a grid, a sign each;
 * per group a scale of 4 bits. 3.4375 bits a weight.
 *
 *     byte   0       2              66          74            106            110
 *            | d f16 | index[0..63] | high[0..7]| signs[0..31]| scales[0..3] |
 *
 *     high[k], bit j: bit 8 of index 8k + j
 *     scales[k]:  | group 2k + 1 | group 2k |
 *                   bits 7..4      bits 3..0
 *
 *     x = (d * (1 + 2 scale)) * grid[index][element], or minus that */
#include "tensor/codebook.h"

enum { WEIGHTS = 256, BYTES = 110 };

void cr_dequantize_IQ3_S(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32(cr_load_u16(block));
        for (size_t k = 0; k < WEIGHTS / 4; k++) {
            int index = block[2 + k] | (block[66 + k / 8] >> k % 8 & 1) << 8;
            int signs = block[74 + k / 2] >> k % 2 * 4;
            int scale = block[106 + k / 16] >> k / 8 % 2 * 4 & 15;
            float step = d * (float)(1 + 2 * scale);
            const float steps[2] = { step, -step };
            for (size_t j = 0; j < 4; j++) {
                int level = cr_grid_iq3_s[index] >> 3 * j & 7;
                dst[i + 4 * k + j] = steps[signs >> j & 1] * (float)(1 + 2 * level);
            }
        }
    }
}

/* IQ1_S: 256 weights in 8 groups of 32: per eight weights an index of 11 bits into a grid of -1, 0
 * and 1; per group a scale of 3 bits and the direction in which the levels are moved by an eighth.
 * 1.5625 bits a weight.
 *
 *     byte   0       2             34                    50
 *            | d f16 | index[0..31]| word u16, 8 of them |
 *
 *     word:  | minus | scale | high 3 | high 2 | high 1 | high 0 |     high: bits 8 to 10 of the
 *               15     14..12  11..9    8..6     5..3     2..0         group's four indices
 *
 *     x = (d * (1 + 2 scale)) * (grid[index][element] + 1/8)      - 1/8 when `minus` is set */
#include "tensor/codebook.h"

enum { WEIGHTS = 256, BYTES = 50 };

void cr_dequantize_IQ1_S(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32(cr_load_u16(block));
        for (size_t k = 0; k < WEIGHTS / 8; k++) {
            int word = cr_load_u16(block + 34 + k / 4 * 2);
            int index = block[2 + k] | (word >> 3 * (k % 4) & 7) << 8;
            float step = d * (float)(1 + 2 * (word >> 12 & 7));
            float delta = (word & 0x8000) != 0 ? -0.125f : 0.125f;
            cr_put_iq1(dst + i + 8 * k, cr_grid_iq1[index], delta, step);
        }
    }
}

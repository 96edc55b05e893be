/* IQ1_M: 256 weights in 16 groups of 16: per eight weights an index of 11 bits into a grid of -1, 0
 * and 1, and the direction in which the levels are moved by an eighth; per group a scale of 3 bits.
 * 1.75 bits a weight.
 *
 *     byte   0             32          48                    56
 *            | index[0..31]| high[0..15]| word u16, 4 of them |
 *
 *     high[k]:  | minus, high 2k + 1 | minus, high 2k |    high: bits 8 to 10 of the index
 *                  7       6..4          3      2..0
 *     word w:   | d nibble w | scale 4w + 3 | scale 4w + 2 | scale 4w + 1 | scale 4w |
 *                  15..12       11..9          8..6           5..3          2..0
 *
 *     x = (d * (1 + 2 scale)) * (grid[index][element] + 1/8)      - 1/8 when `minus` is set
 *
 * The half-precision d has no place of its own: its nibbles, lowest first, top the four words. */
#include "tensor/codebook.h"

enum { WEIGHTS = 256, BYTES = 56 };

void cr_dequantize_IQ1_M(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        const uint8_t *words = block + 48;
        int half = words[1] >> 4 | words[3] >> 4 << 4 | words[5] >> 4 << 8 | words[7] >> 4 << 12;
        float d = cr_f16_to_f32((uint16_t)half);
        for (size_t k = 0; k < WEIGHTS / 8; k++) {
            int high = block[32 + k / 2] >> k % 2 * 4;
            int index = block[k] | (high & 7) << 8;
            int scale = cr_load_u16(words + k / 8 * 2) >> 3 * (k / 2 % 4) & 7;
            float step = d * (float)(1 + 2 * scale);
            float delta = (high & 8) != 0 ? -0.125f : 0.125f;
            cr_put_iq1(dst + i + 8 * k, cr_grid_iq1[index], delta, step);
        }
    }
}

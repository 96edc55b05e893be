/* IQ4_XS: 256 weights of 4 bits in 8 groups of 32, on the levels of IQ4_NL; each group has a scale
 * of 6 bits around zero, which counts in units of the block's half-precision number. 4.25 bits a
 * weight.
 *
 *     byte   0       2          4           8                            136
 *            | d f16 | high u16 | low[0..3] | q[0..127]                  |
 *
 *     x = (d * (scale - 32)) * level[nibble]
 *
 * Group g has bits 2g and 2g + 1 of `high`, nibble g of `low` (low nibble first) and the 16 bytes
 * of q from 16 g, in which low nibbles are the first 16 weights and high ones the others. */
#include "tensor/fit.h"

enum { WEIGHTS = 256, BYTES = 136, GROUP = 32 };

void cr_dequantize_IQ4_XS(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32((uint16_t)(block[0] | block[1] << 8));
        int high = block[2] | block[3] << 8;
        for (size_t group = 0; group < WEIGHTS / GROUP; group++) {
            int low = block[4 + group / 2] >> 4 * (group % 2) & 15;
            int scale = (low | (high >> 2 * group & 3) << 4) - 32;
            float step = d * (float)scale;
            const uint8_t *q = block + 8 + GROUP / 2 * group;
            float *out = dst + i + group * GROUP;
            for (size_t j = 0; j < GROUP / 2; j++) {
                out[j] = step * (float)cr_iq4_levels[q[j] & 15];
                out[j + GROUP / 2] = step * (float)cr_iq4_levels[q[j] >> 4];
            }
        }
    }
}

void cr_quantize_IQ4_XS(const float *src, void *dst, size_t n)
{
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        cr_fit_scaled f;
        cr_fit_iq4(src + i, &f);
        memset(block, 0, 8);
        cr_fit_store_f16(block, f.d);
        for (size_t group = 0; group < WEIGHTS / GROUP; group++) {
            int scale = f.scale[group] + 32;
            block[2 + group / 4] |= (uint8_t)(scale >> 4 << 2 * (group % 4));
            block[4 + group / 2] |= (uint8_t)((scale & 15) << 4 * (group % 2));
            const int8_t *q = f.level + GROUP * group;
            for (size_t j = 0; j < GROUP / 2; j++)
                block[8 + GROUP / 2 * group + j] = (uint8_t)(q[j] | q[j + GROUP / 2] << 4);
        }
    }
}

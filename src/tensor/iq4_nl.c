/* IQ4_NL: 32 weights of 4 bits with one scale, not evenly spaced. 4.5 bits a weight.
 *
 *     byte   0       2                             18
 *            | d f16 | q[0..15]                    |
 *
 *     q[j]:  | weight j + 16 | weight j |           x = d * level[nibble]
 *              bits 7..4       bits 3..0
 *
 * The levels lie closer together near zero, where most weights are. */
#include "tensor/fit.h"

enum { WEIGHTS = 32, BYTES = 18 };

const int8_t cr_iq4_levels[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
};

void cr_dequantize_IQ4_NL(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32((uint16_t)(block[0] | block[1] << 8));
        const uint8_t *q = block + 2;
        for (size_t j = 0; j < WEIGHTS / 2; j++) {
            dst[i + j] = d * (float)cr_iq4_levels[q[j] & 15];
            dst[i + j + WEIGHTS / 2] = d * (float)cr_iq4_levels[q[j] >> 4];
        }
    }
}

void cr_quantize_IQ4_NL(const float *src, void *dst, size_t n)
{
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        uint8_t index[WEIGHTS];
        cr_fit_store_f16(block, cr_fit_iq4_group(src + i, index));
        for (size_t j = 0; j < WEIGHTS / 2; j++)
            block[2 + j] = (uint8_t)(index[j] | index[j + WEIGHTS / 2] << 4);
    }
}

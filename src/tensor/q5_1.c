/* Q5_1: 32 weights of 5 bits above a minimum, with one scale. 6 bits a weight.
 *
 *     byte   0       2       4            8                             24
 *            | d f16 | m f16 | top, 32 b  | q[0..15]                    |
 *
 *     q[j]:  | weight j + 16 | weight j |      top, bit j: the fifth bit of weight j
 *              bits 7..4       bits 3..0
 *
 *     x = d * (nibble | top << 4) + m, the product rounded before m is added */
#include "tensor/fit.h"

enum { WEIGHTS = 32, BYTES = 24 };

void cr_dequantize_Q5_1(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32((uint16_t)(block[0] | block[1] << 8));
        float m = cr_f16_to_f32((uint16_t)(block[2] | block[3] << 8));
        const uint8_t *top = block + 4, *q = block + 8;
        for (size_t j = 0; j < WEIGHTS; j++) {
            int nibble = j < WEIGHTS / 2 ? q[j] & 15 : q[j - WEIGHTS / 2] >> 4;
            int fifth = top[j / 8] >> j % 8 & 1;
            dst[i + j] = d * (float)(nibble | fifth << 4) + m;
        }
    }
}

void cr_quantize_Q5_1(const float *src, void *dst, size_t n)
{
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        const float *x = src + i;
        float min = cr_fit_min(x, WEIGHTS), d = (cr_fit_max(x, WEIGHTS) - min) / 31;
        float id = cr_fit_inverse(d);
        cr_fit_store_f16(block, d);
        cr_fit_store_f16(block + 2, min);
        memset(block + 4, 0, BYTES - 4);
        for (size_t j = 0; j < WEIGHTS; j++) {
            int q = CR_MIN(31, (int)((x[j] - min) * id + 0.5f));
            block[4 + j / 8] |= (uint8_t)(q >> 4 << j % 8);
            block[8 + j % (WEIGHTS / 2)] |= (uint8_t)((q & 15) << j / (WEIGHTS / 2) * 4);
        }
    }
}

/* Q5_0: 32 weights of 5 bits around zero, with one scale. 5.5 bits a weight.
 *
 *     byte   0       2            6                             22
 *            | d f16 | top, 32 b  | q[0..15]                    |
 *
 *     q[j]:  | weight j + 16 | weight j |      top, bit j: the fifth bit of weight j
 *              bits 7..4       bits 3..0
 *
 *     x = d * ((nibble | top << 4) - 16) */
#include "tensor/fit.h"

enum { WEIGHTS = 32, BYTES = 22 };

void cr_dequantize_Q5_0(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32((uint16_t)(block[0] | block[1] << 8));
        const uint8_t *top = block + 2, *q = block + 6;
        for (size_t j = 0; j < WEIGHTS; j++) {
            int nibble = j < WEIGHTS / 2 ? q[j] & 15 : q[j - WEIGHTS / 2] >> 4;
            int fifth = top[j / 8] >> j % 8 & 1;
            dst[i + j] = d * (float)((nibble | fifth << 4) - 16);
        }
    }
}

/* The weight of the largest size gets the outermost level, -16, whatever its sign. */
void cr_quantize_Q5_0(const float *src, void *dst, size_t n)
{
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        const float *x = src + i;
        float d = cr_fit_extreme(x, WEIGHTS) / -16;
        float id = cr_fit_inverse(d);
        cr_fit_store_f16(block, d);
        memset(block + 2, 0, BYTES - 2);
        for (size_t j = 0; j < WEIGHTS; j++) {
            int q = CR_MIN(31, (int)(x[j] * id + 16.5f));
            block[2 + j / 8] |= (uint8_t)(q >> 4 << j % 8);
            block[6 + j % (WEIGHTS / 2)] |= (uint8_t)((q & 15) << j / (WEIGHTS / 2) * 4);
        }
    }
}

/* Q5_0: 32 weights of 5 bits around zero, with one scale. 5.5 bits a weight.
 *
 *     byte   0       2            6                             22
 *            | d f16 | top, 32 b  | q[0..15]                    |
 *
 *     q[j]:  | weight j + 16 | weight j |      top, bit j: the fifth bit of weight j
 *              bits 7..4       bits 3..0
 *
 *     x = d * ((nibble | top << 4) - 16) */
#include "tensor/type.h"

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

/* Q4_1: 32 weights of 4 bits above a minimum, with one scale. 5 bits a weight.
 *
 *     byte   0       2       4                             20
 *            | d f16 | m f16 | q[0..15]                    |
 *
 *     q[j]:  | weight j + 16 | weight j |                   x = d * nibble + m
 *              bits 7..4       bits 3..0
 *
 * The product is rounded before m is added (no fused operation): this is the definition. */
#include "tensor/type.h"

enum { WEIGHTS = 32, BYTES = 20 };

void cr_dequantize_Q4_1(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32((uint16_t)(block[0] | block[1] << 8));
        float m = cr_f16_to_f32((uint16_t)(block[2] | block[3] << 8));
        const uint8_t *q = block + 4;
        for (size_t j = 0; j < WEIGHTS / 2; j++) {
            dst[i + j] = d * (float)(q[j] & 15) + m;
            dst[i + j + WEIGHTS / 2] = d * (float)(q[j] >> 4) + m;
        }
    }
}

/* Q4_1: 32 weights of 4 bits above a minimum, with one scale. 5 bits a weight.
 *
 *     byte   0       2       4                             20
 *            | d f16 | m f16 | q[0..15]                    |
 *
 *     q[j]:  | weight j + 16 | weight j |                   x = d * nibble + m
 *              bits 7..4       bits 3..0
 *
 * The product is rounded before m is added (no fused operation): this is the definition. */
#include "tensor/fit.h"

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

void cr_quantize_Q4_1(const float *src, void *dst, size_t n)
{
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        const float *x = src + i;
        float min = cr_fit_min(x, WEIGHTS), d = (cr_fit_max(x, WEIGHTS) - min) / 15;
        float id = cr_fit_inverse(d);
        cr_fit_store_f16(block, d);
        cr_fit_store_f16(block + 2, min);
        for (size_t j = 0; j < WEIGHTS / 2; j++) {
            int low = CR_MIN(15, (int)((x[j] - min) * id + 0.5f));
            int high = CR_MIN(15, (int)((x[j + WEIGHTS / 2] - min) * id + 0.5f));
            block[4 + j] = (uint8_t)(low | high << 4);
        }
    }
}

/* Q8_0: 32 weights of 8 bits with one scale. 8.5 bits a weight.
 *
 *     byte   0       2                                                   34
 *            | d f16 | q[0..31], signed                                  |      x = d * q
 */
#include "tensor/fit.h"

enum { WEIGHTS = 32, BYTES = 34 };

void cr_dequantize_Q8_0(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32((uint16_t)(block[0] | block[1] << 8));
        const int8_t *q = (const int8_t *)(block + 2);
        for (size_t j = 0; j < WEIGHTS; j++)
            dst[i + j] = d * (float)q[j];
    }
}

/* Halves round away from zero. */
void cr_quantize_Q8_0(const float *src, void *dst, size_t n)
{
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        const float *x = src + i;
        float d = fabsf(cr_fit_extreme(x, WEIGHTS)) / 127;
        float id = cr_fit_inverse(d);
        cr_fit_store_f16(block, d);
        for (size_t j = 0; j < WEIGHTS; j++)
            block[2 + j] = (uint8_t)(int)roundf(x[j] * id);
    }
}

/* Q4_0: 32 weights of 4 bits around zero, with one scale. 4.5 bits a weight.
 *
 *     byte   0       2                             18
 *            | d f16 | q[0..15]                    |
 *
 *     q[j]:  | weight j + 16 | weight j |           x = d * (nibble - 8)
 *              bits 7..4       bits 3..0
 *
 * The two nibbles of a byte are 16 weights apart, not neighbours: so a vector unit that splits 16
 * bytes into low and high nibbles has the weights in order. */
#include "tensor/fit.h"

enum { WEIGHTS = 32, BYTES = 18 };

void cr_dequantize_Q4_0(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32((uint16_t)(block[0] | block[1] << 8));
        const uint8_t *q = block + 2;
        for (size_t j = 0; j < WEIGHTS / 2; j++) {
            dst[i + j] = d * (float)((q[j] & 15) - 8);
            dst[i + j + WEIGHTS / 2] = d * (float)((q[j] >> 4) - 8);
        }
    }
}

/* The weight of the largest size gets the outermost level, -8, whatever its sign. */
void cr_quantize_Q4_0(const float *src, void *dst, size_t n)
{
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        const float *x = src + i;
        float d = cr_fit_extreme(x, WEIGHTS) / -8;
        float id = cr_fit_inverse(d);
        cr_fit_store_f16(block, d);
        for (size_t j = 0; j < WEIGHTS / 2; j++) {
            int low = CR_MIN(15, (int)(x[j] * id + 8.5f));
            int high = CR_MIN(15, (int)(x[j + WEIGHTS / 2] * id + 8.5f));
            block[2 + j] = (uint8_t)(low | high << 4);
        }
    }
}

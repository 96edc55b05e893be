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
#include "tensor/type.h"

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

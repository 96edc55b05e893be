/* MXFP4: 32 weights of 4 bits (sign, two bits of exponent, one of mantissa) with a power of two for
 * a scale. 4.25 bits a weight. The format of the OCP microscaling specification.
 *
 *     byte   0   1                             17
 *            | e | q[0..15]                    |
 *
 *     q[j]:  | weight j + 16 | weight j |           x = 2^(e - 128) * level[nibble]
 *              bits 7..4       bits 3..0
 *
 * Levels are twice the specification's, so that they are integers; the scale's 128 in place of 127
 * takes that back. e = 255, NaN there, is 2^127 here as in the other programs that read these files;
 * and nibble 8, minus zero, is zero. */
#include "tensor/type.h"

#include <math.h>

enum { WEIGHTS = 32, BYTES = 17 };

static const int8_t levels[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

void cr_dequantize_MXFP4(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = ldexpf(1.0f, block[0] - 128);
        const uint8_t *q = block + 1;
        for (size_t j = 0; j < WEIGHTS / 2; j++) {
            dst[i + j] = d * (float)levels[q[j] & 15];
            dst[i + j + WEIGHTS / 2] = d * (float)levels[q[j] >> 4];
        }
    }
}

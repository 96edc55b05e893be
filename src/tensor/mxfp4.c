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
 * takes that back. e = 255, NaN there, is 2^127 here as in the other programs that read these
 * files; and nibble 8, minus zero, is zero. */
#include "tensor/fit.h"

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

static unsigned nearest_level(float x)
{
    /* Halfway between neighbours of 0, 1, 2, 3, 4, 6, 8, 12; a tie goes to the smaller level. */
    static const float middles[7] = { 0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10 };
    unsigned level = 0;
    while (level < 7 && fabsf(x) > middles[level])
        level++;
    return level > 0 && x < 0 ? level | 8 : level;
}

static float error_with(const float *x, float d)
{
    float sum = 0;
    for (size_t j = 0; j < WEIGHTS; j++) {
        float e = x[j] - d * (float)levels[nearest_level(x[j] / d)];
        sum += e * e;
    }
    return sum;
}

/* Between the scale that leaves nothing beyond the largest level, 12, and the one below it: cutting
 * a few large weights may pay for a finer grid. */
void cr_quantize_MXFP4(const float *src, void *dst, size_t n)
{
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        const float *x = src + i;
        float size = fabsf(cr_fit_extreme(x, WEIGHTS));
        int exponent = -127; /* of d; the byte is 128 more */
        if (size > 0) {
            frexpf(size / 12, &exponent);
            exponent = CR_MAX(-127, CR_MIN(126, exponent));
            if (exponent > -127 &&
                error_with(x, ldexpf(1, exponent - 1)) < error_with(x, ldexpf(1, exponent)))
                exponent--;
        }
        float d = ldexpf(1, exponent);
        block[0] = size > 0 ? (uint8_t)(exponent + 128) : 0;
        for (size_t j = 0; j < WEIGHTS / 2; j++)
            block[1 + j] =
                (uint8_t)(nearest_level(x[j] / d) | nearest_level(x[j + WEIGHTS / 2] / d) << 4);
    }
}

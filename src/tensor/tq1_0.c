/* TQ1_0: 256 weights of -1, 0 or 1 with one scale, five to a byte. 1.6875 bits a weight.
 *
 *     byte   0          32          48         52      54
 *            | a[0..31] | b[0..15]  | c[0..3]  | d f16 |          x = d * (digit - 1)
 *
 * A byte is a fraction in base 3, times 256 and rounded up: its first digit is the whole part of
 * byte * 3 / 256. Multiplying by 3 and dropping what leaves the byte moves to the next digit.
 *
 *     weights 0-159      digit r of a[l] is weight 32 r + l            r = 0..4
 *     weights 160-239    digit r of b[l] is weight 160 + 16 r + l      r = 0..4
 *     weights 240-255    digit r of c[l] is weight 240 + 4 r + l       r = 0..3 */
#include "tensor/fit.h"

enum { WEIGHTS = 256, BYTES = 54 };

static void put_digits(float *out, const uint8_t *q, size_t n_bytes, int n_digits, float d)
{
    for (size_t l = 0; l < n_bytes; l++) {
        uint8_t rest = q[l];
        for (int r = 0; r < n_digits; r++) {
            out[(size_t)r * n_bytes + l] = d * (float)((rest * 3 >> 8) - 1);
            rest = (uint8_t)(rest * 3);
        }
    }
}

void cr_dequantize_TQ1_0(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32((uint16_t)(block[52] | block[53] << 8));
        put_digits(dst + i, block, 32, 5, d);
        put_digits(dst + i + 160, block + 32, 16, 5, d);
        put_digits(dst + i + 240, block + 48, 4, 4, d);
    }
}

/* The byte whose digits are q[0], q[stride], ... */
static uint8_t pack_digits(const int8_t *q, size_t stride, int n_digits)
{
    int number = 0;
    for (int r = 0; r < 5; r++)
        number = number * 3 + (r < n_digits ? q[(size_t)r * stride] + 1 : 0);
    return (uint8_t)((number * 256 + 242) / 243);
}

void cr_quantize_TQ1_0(const float *src, void *dst, size_t n)
{
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        int8_t q[WEIGHTS];
        cr_fit_store_f16(block + 52, cr_fit_ternary(src + i, q));
        for (size_t l = 0; l < 32; l++)
            block[l] = pack_digits(q + l, 32, 5);
        for (size_t l = 0; l < 16; l++)
            block[32 + l] = pack_digits(q + 160 + l, 16, 5);
        for (size_t l = 0; l < 4; l++)
            block[48 + l] = pack_digits(q + 240 + l, 4, 4);
    }
}

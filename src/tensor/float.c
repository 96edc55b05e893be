/* F32, F16 and BF16: the element types without blocks, and the conversions between them.
 *
 *            sign exponent mantissa   largest     smallest normal   smallest subnormal
 *     F32     1      8        23      3.4e38      2^-126            2^-149
 *     BF16    1      8         7      3.4e38      2^-126            2^-133    the top half of F32
 *     F16     1      5        10      65504       2^-14             2^-24
 *
 * Integer code throughout: it gives the same bits on every machine, whatever its rounding mode and
 * its treatment of subnormals. */
#include "tensor/type.h"

#include <string.h>

static float float_from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_from_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static uint16_t load_u16(const uint8_t *src)
{
    return (uint16_t)(src[0] | src[1] << 8);
}

float cr_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = h >> 10 & 31;
    uint32_t mantissa = h & 1023;

    if (exponent == 31) {
        /* Infinity, or NaN: the payload moves up and the quiet bit is set, as the conversion
         * instructions of processors do. */
        uint32_t quiet = mantissa != 0 ? 0x400000u : 0;
        return float_from_bits(sign | 0x7f800000u | mantissa << 13 | quiet);
    }
    if (exponent == 0) {
        if (mantissa == 0)
            return float_from_bits(sign);
        /* A subnormal half, mantissa * 2^-24, is a normal float. Shift until the leading one
         * stands where the hidden bit is. */
        exponent = 1;
        while ((mantissa & 1024) == 0) {
            mantissa <<= 1;
            exponent--; /* wraps below 0; the sum below brings it back */
        }
        mantissa &= 1023;
    }
    return float_from_bits(sign | (exponent + (127 - 15)) << 23 | mantissa << 13);
}

uint16_t cr_f32_to_f16(float f)
{
    uint32_t bits = bits_from_float(f);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t size = bits & 0x7fffffffu; /* the magnitude; ordered as the floats are */

    if (size > 0x7f800000u) /* NaN: keep what fits of the payload, set the quiet bit */
        return (uint16_t)(sign | 0x7e00 | (size >> 13 & 1023));
    if (size >= 0x477ff000u) /* 65520, halfway to the number after 65504: infinity */
        return (uint16_t)(sign | 0x7c00);
    if (size >= 0x38800000u) { /* 2^-14: a normal half */
        uint32_t rebased = size - ((127u - 15u) << 23);
        uint32_t odd = rebased >> 13 & 1;
        /* Adding just under a half, and the last kept bit, rounds to nearest even; a carry out of
         * the mantissa goes into the exponent, which is the right answer. */
        return (uint16_t)(sign | (rebased + 0xfff + odd) >> 13);
    }
    if (size <= 0x33000000u) /* 2^-25, halfway to the smallest subnormal: the even one is 0 */
        return (uint16_t)sign;

    /* A subnormal half counts units of 2^-24; the float is mantissa * 2^(exponent - 150). */
    uint32_t shift = 126 - (size >> 23); /* 14 to 24 */
    uint32_t mantissa = (size & 0x7fffffu) | 0x800000u;
    uint32_t kept = mantissa >> shift;
    uint32_t rest = mantissa & ((1u << shift) - 1);
    uint32_t half = 1u << (shift - 1);
    if (rest > half || (rest == half && (kept & 1) != 0))
        kept++;
    return (uint16_t)(sign | kept);
}

float cr_bf16_to_f32(uint16_t b)
{
    return float_from_bits((uint32_t)b << 16);
}

void cr_dequantize_F32(const void *src, float *dst, size_t n)
{
    memcpy(dst, src, n * sizeof *dst);
}

void cr_dequantize_F16(const void *src, float *dst, size_t n)
{
    const uint8_t *in = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = cr_f16_to_f32(load_u16(in + 2 * i));
}

void cr_dequantize_BF16(const void *src, float *dst, size_t n)
{
    const uint8_t *in = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = cr_bf16_to_f32(load_u16(in + 2 * i));
}

uint16_t cr_f32_to_bf16(float f)
{
    uint32_t bits = bits_from_float(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) /* NaN: set the quiet bit */
        return (uint16_t)(bits >> 16 | 64);
    /* To nearest even, as in cr_f32_to_f16. */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void store_u16(uint8_t *dst, uint16_t value)
{
    dst[0] = (uint8_t)value;
    dst[1] = (uint8_t)(value >> 8);
}

void cr_quantize_F32(const float *src, void *dst, size_t n)
{
    memcpy(dst, src, n * sizeof *src);
}

void cr_quantize_F16(const float *src, void *dst, size_t n)
{
    uint8_t *out = dst;
    for (size_t i = 0; i < n; i++)
        store_u16(out + 2 * i, cr_f32_to_f16(src[i]));
}

void cr_quantize_BF16(const float *src, void *dst, size_t n)
{
    uint8_t *out = dst;
    for (size_t i = 0; i < n; i++)
        store_u16(out + 2 * i, cr_f32_to_bf16(src[i]));
}

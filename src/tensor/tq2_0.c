/* TQ2_0: 256 weights of -1, 0 or 1 with one scale, in 2 bits each.
 * 2.0625 bits a weight.
 *
 *     byte   0                          64      66
 *            | q[0..63]                 | d f16 |         x = d * (2 bits - 1)
 *
 * q comes in two runs of 32 bytes, 128 weights each. Weight 32 r + l of a run (row r = 0..3,
 * l = 0..31) is in byte l, bits 2r and 2r + 1. */
#include "tensor/fit.h"

enum { WEIGHTS = 256, BYTES = 66 };

void cr_dequantize_TQ2_0(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32((uint16_t)(block[64] | block[65] << 8));
        for (size_t row = 0; row < WEIGHTS / 32; row++) {
            const uint8_t *q = block + 32 * (row / 4);
            float *out = dst + i + 32 * row;
            for (size_t l = 0; l < 32; l++)
                out[l] = d * (float)((q[l] >> 2 * (row % 4) & 3) - 1);
        }
    }
}

void cr_quantize_TQ2_0(const float *src, void *dst, size_t n)
{
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        int8_t q[WEIGHTS];
        cr_fit_store_f16(block + 64, cr_fit_ternary(src + i, q));
        memset(block, 0, 64);
        for (size_t k = 0; k < WEIGHTS; k++)
            block[k / 128 * 32 + k % 32] |= (uint8_t)((q[k] + 1) << k % 128 / 32 * 2);
    }
}

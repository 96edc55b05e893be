/* Q6_K: 256 weights of 6 bits around zero in 16 groups of 16; each group has a scale of 8 bits,
 * which counts in units of the block's half-precision number. 6.5625 bits a weight.
 *
 *     byte   0                          128              192            208     210
 *            | low[0..127]              | high[0..63]    | scales, i8   | d f16 |
 *
 *     x = (d * scale) * (q - 32)            q = 4 low bits | 2 high bits << 4
 *
 * Each half of 128 weights has 64 bytes of `low`, 32 of `high` and 8 scales. Within a half, weight
 * 32 r + l (row r = 0..3, l = 0..31) has
 *
 *     its low bits in    low[32 (r % 2) + l], the low nibble for r < 2, else the high one
 *     its high bits in   high[l], bits 2r and 2r + 1
 *     its scale in       scales[2 r + l / 16] */
#include "tensor/fit.h"

enum { WEIGHTS = 256, BYTES = 210, HALF = 128, ROW = 32 };

void cr_dequantize_Q6_K(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32((uint16_t)(block[208] | block[209] << 8));
        for (size_t half = 0; half < WEIGHTS / HALF; half++) {
            const uint8_t *low = block + 64 * half;
            const uint8_t *high = block + 128 + 32 * half;
            const int8_t *scales = (const int8_t *)(block + 192 + 8 * half);
            float *out = dst + i + half * HALF;
            for (size_t r = 0; r < HALF / ROW; r++) {
                for (size_t l = 0; l < ROW; l++) {
                    const int8_t *scale = scales + 2 * r + l / 16;
                    int lo = low[ROW * (r % 2) + l] >> r / 2 * 4 & 15;
                    int hi = high[l] >> 2 * r & 3;
                    float step = d * (float)*scale;
                    out[ROW * r + l] = step * (float)((lo | hi << 4) - 32);
                }
            }
        }
    }
}

void cr_quantize_Q6_K(const float *src, void *dst, size_t n)
{
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        cr_fit_scaled f;
        cr_fit_whole(src + i, 16, -32, 128, &f);
        memset(block, 0, BYTES);
        for (size_t k = 0; k < WEIGHTS; k++) {
            int q = f.level[k] + 32;
            size_t half = k / HALF, r = k % HALF / ROW, l = k % ROW;
            block[64 * half + ROW * (r % 2) + l] |= (uint8_t)((q & 15) << r / 2 * 4);
            block[128 + 32 * half + l] |= (uint8_t)(q >> 4 << 2 * r);
        }
        for (size_t group = 0; group < WEIGHTS / 16; group++)
            block[192 + group] = (uint8_t)f.scale[group];
        cr_fit_store_f16(block + 208, f.d);
    }
}

/* Q2_K: 256 weights of 2 bits in 16 groups of 16; each group has a scale and a minimum of 4 bits,
 * which count in units of the block's two half-precision numbers. 2.625 bits a weight.
 *
 *     byte   0              16            80      82         84
 *            | scales[0..15]| q[0..63]    | d f16 | dmin f16 |
 *
 *     scales[g]:  | minimum of group g | scale of group g |
 *                   bits 7..4            bits 3..0
 *
 *     x = (d * scale) * q - (dmin * minimum)
 *
 * q comes in two runs of 32 bytes, 128 weights each. Weight 32 r + l of a run (row r = 0..3,
 * l = 0..31) is in byte l, bits 2r and 2r + 1. */
#include "tensor/fit.h"

enum { WEIGHTS = 256, BYTES = 84, GROUP = 16 };

void cr_dequantize_Q2_K(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32((uint16_t)(block[80] | block[81] << 8));
        float dmin = cr_f16_to_f32((uint16_t)(block[82] | block[83] << 8));
        for (size_t group = 0; group < WEIGHTS / GROUP; group++) {
            const uint8_t *q = block + 16 + 32 * (group / 8) + GROUP * (group % 2);
            size_t shift = 2 * (group % 8 / 2);
            float step = d * (float)(block[group] & 15);
            float base = dmin * (float)(block[group] >> 4);
            float *out = dst + i + group * GROUP;
            for (size_t l = 0; l < GROUP; l++)
                out[l] = step * (float)(q[l] >> shift & 3) - base;
        }
    }
}

void cr_quantize_Q2_K(const float *src, void *dst, size_t n)
{
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        cr_fit_affine f;
        cr_fit_shifted(src + i, GROUP, 4, 15, &f);
        for (size_t group = 0; group < WEIGHTS / GROUP; group++)
            block[group] = (uint8_t)(f.scale[group] | f.minimum[group] << 4);
        memset(block + 16, 0, 64);
        for (size_t k = 0; k < WEIGHTS; k++)
            block[16 + k / 128 * 32 + k % 32] |= (uint8_t)(f.level[k] << k % 128 / 32 * 2);
        cr_fit_store_f16(block + 80, f.d);
        cr_fit_store_f16(block + 82, f.dmin);
    }
}

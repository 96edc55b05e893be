/* Q5_K: 256 weights of 5 bits in 8 groups of 32; each group has a scale and a minimum of 6 bits,
 * which count in units of the block's two half-precision numbers. 5.5 bits a weight.
 *
 *     byte   0       2          4               16          48                             176
 *            | d f16 | dmin f16 | scales[0..11] | top[0..31]| q[0..127]                    |
 *
 *     x = (d * scale) * (nibble | top << 4) - (dmin * minimum)
 *
 * q and scales are those of Q4_K (see there). The fifth bit of weight l of group g is top[l], bit
 * g. */
#include "tensor/fit.h"

enum { WEIGHTS = 256, BYTES = 176, GROUP = 32 };

static void scale_of(const uint8_t p[12], size_t group, int *scale, int *minimum)
{
    if (group < 4) {
        *scale = p[group] & 63;
        *minimum = p[group + 4] & 63;
    } else {
        *scale = (p[group + 4] & 15) | p[group - 4] >> 6 << 4;
        *minimum = p[group + 4] >> 4 | p[group] >> 6 << 4;
    }
}

void cr_dequantize_Q5_K(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32((uint16_t)(block[0] | block[1] << 8));
        float dmin = cr_f16_to_f32((uint16_t)(block[2] | block[3] << 8));
        const uint8_t *top = block + 16;
        for (size_t group = 0; group < WEIGHTS / GROUP; group++) {
            const uint8_t *q = block + 48 + GROUP * (group / 2);
            size_t shift = 4 * (group % 2);
            int scale, minimum;
            scale_of(block + 4, group, &scale, &minimum);
            float step = d * (float)scale;
            float base = dmin * (float)minimum;
            float *out = dst + i + group * GROUP;
            for (size_t l = 0; l < GROUP; l++) {
                int fifth = top[l] >> group & 1;
                out[l] = step * (float)((q[l] >> shift & 15) | fifth << 4) - base;
            }
        }
    }
}

void cr_quantize_Q5_K(const float *src, void *dst, size_t n)
{
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        cr_fit_affine f;
        cr_fit_shifted(src + i, GROUP, 32, 63, &f);
        cr_fit_store_f16(block, f.d);
        cr_fit_store_f16(block + 2, f.dmin);
        cr_fit_pack_pairs(block + 4, &f);
        memset(block + 16, 0, GROUP);
        for (size_t k = 0; k < WEIGHTS; k++)
            block[16 + k % GROUP] |= (uint8_t)(f.level[k] >> 4 << k / GROUP);
        for (size_t k = 0; k < WEIGHTS / 2; k++) {
            const uint8_t *q = f.level + k / GROUP * 2 * GROUP + k % GROUP;
            block[48 + k] = (uint8_t)((q[0] & 15) | (q[GROUP] & 15) << 4);
        }
    }
}

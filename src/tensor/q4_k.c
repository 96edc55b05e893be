/* Q4_K: 256 weights of 4 bits in 8 groups of 32; each group has a scale and a minimum of 6 bits,
 * which count in units of the block's two half-precision numbers. 4.5 bits a weight.
 *
 *     byte   0       2          4               16                                     144
 *            | d f16 | dmin f16 | scales[0..11] | q[0..127]                            |
 *
 *     x = (d * scale) * nibble - (dmin * minimum)
 *
 * q comes in four runs of 32 bytes; run c has group 2c in its low nibbles, group 2c + 1 in its high
 * ones. The sixteen 6-bit numbers are packed into the 12 bytes like this (s: scale, m: minimum):
 *
 *               bits 7..6       bits 5..0
 *     byte 0-3  | s4-s7 hi 2 |  s0-s3       |
 *     byte 4-7  | m4-m7 hi 2 |  m0-m3       |
 *               bits 7..4       bits 3..0
 *     byte 8-11 | m4-m7 lo 4 |  s4-s7 lo 4  |  */
#include "tensor/fit.h"

enum { WEIGHTS = 256, BYTES = 144, GROUP = 32 };

static void unpack_scales(const uint8_t p[12], int scale[8], int minimum[8])
{
    for (int j = 0; j < 4; j++) {
        scale[j] = p[j] & 63;
        minimum[j] = p[j + 4] & 63;
        scale[j + 4] = (p[j + 8] & 15) | p[j] >> 6 << 4;
        minimum[j + 4] = p[j + 8] >> 4 | p[j + 4] >> 6 << 4;
    }
}

void cr_dequantize_Q4_K(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32((uint16_t)(block[0] | block[1] << 8));
        float dmin = cr_f16_to_f32((uint16_t)(block[2] | block[3] << 8));
        int scale[8], minimum[8];
        unpack_scales(block + 4, scale, minimum);

        for (size_t group = 0; group < WEIGHTS / GROUP; group++) {
            const uint8_t *q = block + 16 + GROUP * (group / 2);
            int shift = group % 2 == 0 ? 0 : 4;
            float step = d * (float)scale[group];
            float base = dmin * (float)minimum[group];
            float *out = dst + i + group * GROUP;
            for (size_t l = 0; l < GROUP; l++)
                out[l] = step * (float)(q[l] >> shift & 15) - base;
        }
    }
}

void cr_quantize_Q4_K(const float *src, void *dst, size_t n)
{
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        cr_fit_affine f;
        cr_fit_shifted(src + i, GROUP, 16, 63, &f);
        cr_fit_store_f16(block, f.d);
        cr_fit_store_f16(block + 2, f.dmin);
        cr_fit_pack_pairs(block + 4, &f);
        for (size_t k = 0; k < WEIGHTS / 2; k++) {
            const uint8_t *q = f.level + k / GROUP * 2 * GROUP + k % GROUP;
            block[16 + k] = (uint8_t)(q[0] | q[GROUP] << 4);
        }
    }
}

/* Q3_K: 256 weights of 3 bits around zero in 16 groups of 16; each group has a scale of 6 bits
 * around zero, which counts in units of the block's half-precision number. 3.4375 bits a weight.
 *
 *     byte   0           32           96              108     110
 *            | top[0..31]| q[0..63]   | scales[0..11] | d f16 |
 *
 *     x = (d * (scale - 32)) * ((2 bits of q | top << 2) - 4)
 *
 * q comes in two runs of 32 bytes, 128 weights each. Weight 32 r + l of a run (row r = 0..3,
 * l = 0..31) is in byte l, bits 2r and 2r + 1; its third bit is in top[l], bit r in the first run,
 * bit 4 + r in the second. The sixteen scales s0 to s15 are packed like this:
 *
 *                bits 7..4        bits 3..0
 *     byte 0-7   | s8-s15 lo 4  | s0-s7 lo 4  |
 *                bits 7..6        bits 5..4     bits 3..2     bits 1..0
 *     byte 8-11  | s12-s15 hi 2 | s8-s11 hi 2 | s4-s7 hi 2  | s0-s3 hi 2 |  */
#include "tensor/fit.h"

enum { WEIGHTS = 256, BYTES = 110, GROUP = 16 };

static int scale_of(const uint8_t p[12], size_t group)
{
    int low = p[group % 8] >> 4 * (group / 8) & 15;
    int high = p[8 + group % 4] >> 2 * (group / 4) & 3;
    return (low | high << 4) - 32;
}

void cr_dequantize_Q3_K(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32((uint16_t)(block[108] | block[109] << 8));
        for (size_t group = 0; group < WEIGHTS / GROUP; group++) {
            const uint8_t *top = block + GROUP * (group % 2);
            const uint8_t *q = block + 32 + 32 * (group / 8) + GROUP * (group % 2);
            size_t row = group / 2; /* of both runs: 0 to 7 */
            float step = d * (float)scale_of(block + 96, group);
            float *out = dst + i + group * GROUP;
            for (size_t l = 0; l < GROUP; l++) {
                int low = q[l] >> 2 * (row % 4) & 3;
                int third = top[l] >> row & 1;
                out[l] = step * (float)((low | third << 2) - 4);
            }
        }
    }
}

void cr_quantize_Q3_K(const float *src, void *dst, size_t n)
{
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        cr_fit_scaled f;
        cr_fit_whole(src + i, GROUP, -4, 32, &f);
        memset(block, 0, BYTES);
        for (size_t k = 0; k < WEIGHTS; k++) {
            int q = f.level[k] + 4;
            block[32 + k / 128 * 32 + k % 32] |= (uint8_t)((q & 3) << k % 128 / 32 * 2);
            block[k % 32] |= (uint8_t)(q >> 2 << k / 32);
        }
        for (size_t group = 0; group < WEIGHTS / GROUP; group++) {
            int scale = f.scale[group] + 32;
            block[96 + group % 8] |= (uint8_t)((scale & 15) << 4 * (group / 8));
            block[104 + group % 4] |= (uint8_t)(scale >> 4 << 2 * (group / 4));
        }
        cr_fit_store_f16(block + 108, f.d);
    }
}

/* Matrices of BF16 as the amx level defines them: by products of bfloat16.
 *
 * Activations are split, high + low, each a bfloat16: 17 bits. Blocks of 32 elements join the row's sum
 * one after the other, by two products:
 *
 *     sum = sum + (even + odd)      of w * high x, then of w * low x
 *
 * where even and odd are chains of fma over the block's elements in even and in odd places, from +0.
 * That is what TDPBF16PS does, to which numbers below 2^-126 in size are zeros, too. */
#include <math.h>

#include "backend/cpu/kernels.h"

static float flushed(float f)
{
    return fabsf(f) < 0x1p-126f ? copysignf(0.0f, f) : f;
}

/* fma(a, b, c), rounded to 24 bits and then to zero if it is too small. */
static float fma_flushed(float a, float b, float c)
{
    const float sum = fmaf(a, b, c);
    if (!(fabsf(sum) < 0x1p-120f && fabsf(c) < 0x1p-60f))
        return sum;
    /* Exact powers of two away from where floats have fewer bits. */
    const bool first = fabsf(a) < fabsf(b);
    const float scaled = fmaf(first ? a * 0x1p60f : a, first ? b : b * 0x1p60f, c * 0x1p60f);
    return fabsf(scaled) < 0x1p-66f ? copysignf(0.0f, scaled) : scaled * 0x1p-60f;
}

static float bfloat16(float f)
{
    return cr_bf16_to_f32(cr_f32_to_bf16(flushed(f)));
}

static float add_product(float sum, const float *w, const float *x)
{
    float even = 0, odd = 0;
    for (int i = 0; i < CR_ACT_BLOCK; i += 2) {
        even = fma_flushed(w[i], x[i], even);
        odd = fma_flushed(w[i + 1], x[i + 1], odd);
    }
    return fma_flushed(fma_flushed(even, 1, odd), 1, sum);
}

void cr_matvec_bf16_split__scalar(float *y, const void *w, size_t row_bytes, size_t n_rows,
                                  const cr_act *x)
{
    for (size_t r = 0; r < n_rows; r++) {
        const uint8_t *row = (const uint8_t *)w + r * row_bytes;
        float sum = 0;
        for (size_t b = 0; b < x->n; b += CR_ACT_BLOCK) {
            float of_w[CR_ACT_BLOCK] = { 0 }, high[CR_ACT_BLOCK] = { 0 }, low[CR_ACT_BLOCK] = { 0 };
            for (size_t i = 0; i < CR_ACT_BLOCK && b + i < x->n; i++) {
                const uint8_t *p = row + 2 * (b + i);
                of_w[i] = flushed(cr_bf16_to_f32((uint16_t)(p[0] | p[1] << 8)));
                high[i] = bfloat16(x->f[b + i]);
                low[i] = bfloat16(x->f[b + i] - high[i]);
            }
            sum = add_product(sum, of_w, high);
            sum = add_product(sum, of_w, low);
        }
        y[r] = sum;
    }
}

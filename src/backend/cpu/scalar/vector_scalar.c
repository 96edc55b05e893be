/* Vector kernels, as defined: activation quantisation, norm, gate, weighted sum. */
#include "backend/cpu/scalar/scalar.h"

/* |f| as a number that orders floats by size, NaN last. */
static uint32_t magnitude(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits & 0x7fffffffu;
}

static void quantize_block(cr_act *x, size_t b)
{
    const float *f = x->f + 32 * b;
    uint32_t largest = 0;
    for (int i = 0; i < 32; i++)
        if (magnitude(f[i]) > largest)
            largest = magnitude(f[i]);
    float amax;
    memcpy(&amax, &largest, sizeof amax);

    const float d = amax / 127.0f;
    float id = 1.0f / d;
    if (!isfinite(id))
        id = 0.0f;
    int sum[2] = { 0, 0 };
    for (size_t i = 0; i < 32; i++) {
        float v = f[i] * id;
        v = v > -127.0f ? v : -127.0f; /* and a NaN: its block is lost already, through d */
        v = v < 127.0f ? v : 127.0f;
        const int q = (int)rintf(v);
        x->q[cr_act_index(32 * b + i)] = (int8_t)q;
        sum[i / 16] += q;
    }
    x->d[b] = d;
    x->sum[2 * b] = (int16_t)sum[0];
    x->sum[2 * b + 1] = (int16_t)sum[1];
}

void cr_quantize__scalar(cr_act *x)
{
    const size_t n_blocks = x->n / 32;
    for (size_t b = 0; b < n_blocks; b++)
        quantize_block(x, b);
    for (size_t b = n_blocks; b % 16 != 0; b++) {
        for (size_t i = 0; i < 32; i++)
            x->q[cr_act_index(32 * b + i)] = 0;
        x->d[b] = 0.0f;
        x->sum[2 * b] = x->sum[2 * b + 1] = 0;
    }
}

void cr_rms_norm__scalar(float *y, const float *x, const float *w, size_t n, float eps)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t i = 0; i < n; i++)
        chain[i % CR_CHAINS] = fmaf(x[i], x[i], chain[i % CR_CHAINS]);
    const float scale = 1.0f / sqrtf(merge_chains(chain) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * scale * w[i];
}

void cr_silu_mul__scalar(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        /* The bound keeps -infinity from becoming -infinity / infinity. */
        const float v = CR_EXP_MIN > gate[i] ? CR_EXP_MIN : gate[i];
        y[i] = v / (1.0f + exp_scalar(-v)) * up[i];
    }
}

void cr_gelu_mul__scalar(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float v = CR_EXP_MIN > gate[i] ? CR_EXP_MIN : gate[i]; /* as above */
        const float t = v * fmaf(CR_GELU_C3, v * v, CR_GELU_C1);
        y[i] = v / (1.0f + exp_scalar(-t)) * up[i];
    }
}

void cr_soft_cap__scalar(float *x, float cap, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float t = x[i] / cap;
        x[i] = cap * (1.0f - 2.0f / (1.0f + exp_scalar(t + t)));
    }
}

void cr_add_scaled__scalar(float *y, const float *x, float scale, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(scale, x[i], y[i]);
}

/* Kernels of mixers with a state, as defined: a short convolution, a step of a state space. */
#include "backend/cpu/scalar/scalar.h"

void cr_convolve__scalar(float *y, const float *x, size_t x_stride, const float *taps,
                         size_t n_taps, const float *bias, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float sum = bias ? bias[i] : 0.0f;
        for (size_t k = 0; k < n_taps; k++)
            sum = fmaf(taps[i * n_taps + k], x[k * x_stride + i], sum);
        y[i] = sum;
    }
}

void cr_ssm_step__scalar(float *y, float *after, const float *before, const cr_ssm_token *token)
{
    for (size_t j = 0; j < token->n_channels; j++) {
        const float *from = before + j * token->n_state;
        float *s = after + j * token->n_state;
        const float scaled = token->step * token->x[j];
        float chain[CR_CHAINS] = { 0 };
        for (size_t i = 0; i < token->n_state; i++) {
            s[i] = fmaf(token->decay, from[i], scaled * token->b[i]);
            chain[i % CR_CHAINS] = fmaf(s[i], token->c[i], chain[i % CR_CHAINS]);
        }
        y[j] = fmaf(token->skip, token->x[j], merge_chains(chain));
    }
}

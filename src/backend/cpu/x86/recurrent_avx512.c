/* Kernels of mixers with a state: a short convolution, a step of a state space. */
#include <math.h>

#include "backend/cpu/x86/avx512.h"

void cr_convolve__avx512(float *y, const float *x, size_t x_stride, const float *taps,
                         size_t n_taps, const float *bias, size_t n)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i channel = _mm512_mullo_epi32(lane, _mm512_set1_epi32((int)n_taps));
    const __m512 zero = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 lanes = first_lanes(n - i);
        __m512 sum = bias ? _mm512_maskz_loadu_ps(lanes, bias + i) : zero;
        for (size_t k = 0; k < n_taps; k++) {
            const __m512 tap =
                _mm512_mask_i32gather_ps(zero, lanes, channel, taps + i * n_taps + k, 4);
            sum = _mm512_fmadd_ps(tap, _mm512_maskz_loadu_ps(lanes, x + k * x_stride + i), sum);
        }
        _mm512_mask_storeu_ps(y + i, lanes, sum);
    }
}

/* Up to sixteen numbers of a channel's state; chains of lanes that are off stay. */
CR_INLINE __m512 step_part(float *after, const float *before, const cr_ssm_token *token, size_t i,
                           __m512 decay, __m512 scaled, __mmask16 lanes, __m512 chain)
{
    const __m512 b = _mm512_mul_ps(scaled, _mm512_maskz_loadu_ps(lanes, token->b + i));
    const __m512 s = _mm512_fmadd_ps(decay, _mm512_maskz_loadu_ps(lanes, before + i), b);
    _mm512_mask_storeu_ps(after + i, lanes, s);
    return _mm512_mask3_fmadd_ps(s, _mm512_maskz_loadu_ps(lanes, token->c + i), chain, lanes);
}

void cr_ssm_step__avx512(float *y, float *after, const float *before, const cr_ssm_token *token)
{
    const __m512 decay = _mm512_set1_ps(token->decay);
    const size_t n = token->n_state;
    for (size_t j = 0; j < token->n_channels; j++, after += n, before += n) {
        const __m512 scaled = _mm512_set1_ps(token->step * token->x[j]);
        __m512 chain = _mm512_setzero_ps();
        size_t i = 0;
        for (; i + 16 <= n; i += 16)
            chain = step_part(after, before, token, i, decay, scaled, 0xffff, chain);
        if (i < n)
            chain = step_part(after, before, token, i, decay, scaled, first_lanes(n - i), chain);
        y[j] = fmaf(token->skip, token->x[j], merge_chains(chain));
    }
}

/* Kernels of mixers with a state: a short convolution, a step of a state space. */
#include <math.h>

#include "backend/cpu/x86/avx2.h"

void cr_convolve__avx2(float *y, const float *x, size_t x_stride, const float *taps, size_t n_taps,
                       const float *bias, size_t n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i channel = _mm256_mullo_epi32(lane, _mm256_set1_epi32((int)n_taps));
    const __m256 zero = _mm256_setzero_ps();
    for (size_t i = 0; i < n; i += 8) {
        const __m256i lanes = first_lanes(n - i);
        __m256 sum = bias ? _mm256_maskload_ps(bias + i, lanes) : zero;
        for (size_t k = 0; k < n_taps; k++) {
            const __m256 tap = _mm256_mask_i32gather_ps(zero, taps + i * n_taps + k, channel,
                                                        _mm256_castsi256_ps(lanes), 4);
            sum = _mm256_fmadd_ps(tap, _mm256_maskload_ps(x + k * x_stride + i, lanes), sum);
        }
        _mm256_maskstore_ps(y + i, lanes, sum);
    }
}

/* Eight numbers of a channel's state, and their chains. */
CR_INLINE __m256 step_8(float *after, const float *before, const cr_ssm_token *token, size_t i,
                        __m256 decay, __m256 scaled, __m256 chain)
{
    const __m256 b = _mm256_mul_ps(scaled, _mm256_loadu_ps(token->b + i));
    const __m256 s = _mm256_fmadd_ps(decay, _mm256_loadu_ps(before + i), b);
    _mm256_storeu_ps(after + i, s);
    return _mm256_fmadd_ps(s, _mm256_loadu_ps(token->c + i), chain);
}

/* At most eight; chains of lanes that are off stay. */
CR_INLINE __m256 step_part(float *after, const float *before, const cr_ssm_token *token, size_t i,
                           __m256 decay, __m256 scaled, __m256 chain)
{
    const __m256i lanes = first_lanes(token->n_state - i);
    const __m256 b = _mm256_mul_ps(scaled, _mm256_maskload_ps(token->b + i, lanes));
    const __m256 s = _mm256_fmadd_ps(decay, _mm256_maskload_ps(before + i, lanes), b);
    _mm256_maskstore_ps(after + i, lanes, s);
    const __m256 sum = _mm256_fmadd_ps(s, _mm256_maskload_ps(token->c + i, lanes), chain);
    return _mm256_blendv_ps(chain, sum, _mm256_castsi256_ps(lanes));
}

void cr_ssm_step__avx2(float *y, float *after, const float *before, const cr_ssm_token *token)
{
    const __m256 decay = _mm256_set1_ps(token->decay);
    const size_t n = token->n_state;
    for (size_t j = 0; j < token->n_channels; j++, after += n, before += n) {
        const __m256 scaled = _mm256_set1_ps(token->step * token->x[j]);
        __m256 chain[2] = { _mm256_setzero_ps(), _mm256_setzero_ps() };
        size_t i = 0;
        for (; i + 16 <= n; i += 16) {
            chain[0] = step_8(after, before, token, i, decay, scaled, chain[0]);
            chain[1] = step_8(after, before, token, i + 8, decay, scaled, chain[1]);
        }
        for (int k = 0; i < n; i += 8, k++)
            chain[k] = step_part(after, before, token, i, decay, scaled, chain[k]);
        y[j] = fmaf(token->skip, token->x[j], merge_chains(chain[0], chain[1]));
    }
}

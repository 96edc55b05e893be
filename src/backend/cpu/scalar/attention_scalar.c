/* Attention kernels, as defined. A chunk of keys goes through all three: scores, their
 * exponentials, the weighted sum of values. */
#include "backend/cpu/scalar/scalar.h"

/* Element i of keys or values. */
typedef float element(const void *p, size_t i);

static float element_f32(const void *p, size_t i)
{
    return ((const float *)p)[i];
}

static float element_f16(const void *p, size_t i)
{
    return cr_f16_to_f32(((const uint16_t *)p)[i]);
}

static void dot_keys(float *s, const float *q, const void *keys, float scale, size_t n,
                     size_t n_keys, element *at)
{
    for (size_t j = 0; j < n_keys; j++) {
        float chain[CR_CHAINS] = { 0 };
        for (size_t i = 0; i < n; i++)
            chain[i % CR_CHAINS] = fmaf(at(keys, j * n + i), q[i], chain[i % CR_CHAINS]);
        s[j] = scale * merge_chains(chain);
    }
}

static void mix_values(float *o, const float *p, const void *values, size_t n, size_t n_keys,
                       element *at)
{
    for (size_t j = 0; j < n_keys; j++)
        for (size_t i = 0; i < n; i++)
            o[i] = fmaf(p[j], at(values, j * n + i), o[i]);
}

void cr_dot_keys_f32__scalar(float *s, const float *q, const void *keys, float scale, size_t n,
                             size_t n_keys)
{
    dot_keys(s, q, keys, scale, n, n_keys, element_f32);
}

void cr_dot_keys_f16__scalar(float *s, const float *q, const void *keys, float scale, size_t n,
                             size_t n_keys)
{
    dot_keys(s, q, keys, scale, n, n_keys, element_f16);
}

void cr_mix_values_f32__scalar(float *o, const float *p, const void *values, size_t n,
                               size_t n_keys)
{
    mix_values(o, p, values, n, n_keys, element_f32);
}

void cr_mix_values_f16__scalar(float *o, const float *p, const void *values, size_t n,
                               size_t n_keys)
{
    mix_values(o, p, values, n, n_keys, element_f16);
}

float cr_exp_sum__scalar(float *s, float max, size_t n)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t j = 0; j < n; j++) {
        s[j] = exp_scalar(s[j] - max);
        chain[j % CR_CHAINS] += s[j];
    }
    return merge_chains(chain);
}

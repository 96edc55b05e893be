/* Attention kernels, as defined. A chunk of keys goes through all three: scores, their
 * exponentials, the weighted sum of values. */
#include "backend/cpu/scalar/scalar.h"

enum { Q8_WEIGHTS = 32, Q8_BYTES = 34 };

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

static float element_q8_0(const void *p, size_t i)
{
    const uint8_t *block = (const uint8_t *)p + i / Q8_WEIGHTS * Q8_BYTES;
    float d = cr_f16_to_f32((uint16_t)(block[0] | block[1] << 8));
    return d * (float)(int8_t)block[2 + i % Q8_WEIGHTS];
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

void cr_dot_keys_q8_0__scalar(float *s, const float *q, const void *keys, float scale, size_t n,
                              size_t n_keys)
{
    dot_keys(s, q, keys, scale, n, n_keys, element_q8_0);
}

void cr_mix_values_q8_0__scalar(float *o, const float *p, const void *values, size_t n,
                                size_t n_keys)
{
    mix_values(o, p, values, n, n_keys, element_q8_0);
}

void cr_store_cache_f32__scalar(void *dst, const float *src, size_t n)
{
    memcpy(dst, src, n * sizeof *src);
}

void cr_store_cache_f16__scalar(void *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t half = cr_f32_to_f16(src[i]);
        memcpy((uint8_t *)dst + 2 * i, &half, sizeof half);
    }
}

/* max |x|; a NaN when there is one. */
static float largest_size(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) {
        float a = fabsf(x[i]);
        if (a > most || isnan(a))
            most = a;
        if (isnan(most))
            break;
    }
    return most;
}

void cr_store_cache_q8_0__scalar(void *dst, const float *src, size_t n)
{
    uint8_t *block = dst;
    for (; n > 0; n -= Q8_WEIGHTS, src += Q8_WEIGHTS, block += Q8_BYTES) {
        float most = largest_size(src, Q8_WEIGHTS);
        uint16_t d = cr_f32_to_f16(most / 127);
        block[0] = (uint8_t)d;
        block[1] = (uint8_t)(d >> 8);
        float id = most > 0 && isfinite(most) ? 127 / most : 0;
        id = isfinite(id) ? id : 0;
        for (size_t i = 0; i < Q8_WEIGHTS; i++) {
            float v = isfinite(src[i]) ? roundf(src[i] * id) : 0;
            block[2 + i] = (uint8_t)(int8_t)CR_MIN(CR_MAX(v, -127.0f), 127.0f);
        }
    }
}

float cr_largest__scalar(const float *s, size_t n)
{
    float most = s[0];
    for (size_t j = 1; j < n; j++)
        most = s[j] > most ? s[j] : most;
    return most;
}

float cr_exp_sum__scalar(float *s, float max, size_t n)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t j = 0; j < n; j++) {
        const float x = s[j] - max;
        s[j] = x < CR_SOFTMAX_MIN ? 0.0f : exp_scalar(x);
        chain[j % CR_CHAINS] += s[j];
    }
    return merge_chains(chain);
}

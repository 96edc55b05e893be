/* What the scalar kernels share: the merge of the chains, and exp. */
#ifndef CR_SCALAR_H
#define CR_SCALAR_H

#include <math.h>
#include <string.h>

#include "backend/cpu/exp.h"
#include "backend/cpu/kernels.h"

/* 16 -> 8 -> 4 -> 2 -> 1. Destroys the chains. */
static inline float merge_chains(float chain[CR_CHAINS])
{
    for (int half = CR_CHAINS / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            chain[i] += chain[i + half];
    return chain[0];
}

/* 2^k for k in [-126, 127]; any k is allowed, the result is then some float. */
static inline float power_of_2(uint32_t k)
{
    const uint32_t bits = (k + 127) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* See exp.h. A NaN passes both comparisons and every operation after them. */
static inline float exp_scalar(float x)
{
    x = CR_EXP_MIN > x ? CR_EXP_MIN : x;
    x = CR_EXP_MAX < x ? CR_EXP_MAX : x;
    const float t = fmaf(x, CR_EXP_LOG2E, CR_EXP_ROUND);
    const float k = t - CR_EXP_ROUND;
    float r = fmaf(k, -CR_EXP_LN2_HI, x);
    r = fmaf(k, -CR_EXP_LN2_LO, r);
    float p = CR_EXP_C6;
    p = fmaf(p, r, CR_EXP_C5);
    p = fmaf(p, r, CR_EXP_C4);
    p = fmaf(p, r, CR_EXP_C3);
    p = fmaf(p, r, CR_EXP_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);

    /* k reaches from -150 to 128, a float's exponent does not: two steps, of which only the second
     * can round. The low bits of t are k. */
    uint32_t bits;
    memcpy(&bits, &t, sizeof bits);
    const uint32_t k_bits = bits - 0x4b400000u;                    /* CR_EXP_ROUND */
    const uint32_t first = (k_bits >> 1) | (k_bits & 0x80000000u); /* floor(k / 2) */
    return p * power_of_2(first) * power_of_2(k_bits - first);
}

#endif

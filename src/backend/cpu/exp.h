/* The exponential that every tier computes, operation by operation the same.
 *
 *     t = fma(x, log2 e, 1.5 * 2^23)     the unit of t is 1, so this rounds x log2 e to an integer
 *     k = t - 1.5 * 2^23
 *     r = x - k ln 2                     ln 2 as a sum of two floats, the first with trailing zeros
 *     exp(x) = 2^k * (1 + r + r^2 (c2 + r (c3 + r (c4 + r (c5 + r c6)))))       |r| <= ln 2 / 2
 *
 * x is clamped to [CR_EXP_MIN, CR_EXP_MAX] first: below, the result rounds to 0; above, it is
 * infinite. The coefficients are the minimax fit of exp's relative error, 3e-9 before they were
 * rounded to float. docs/numerics.md has the error of the whole.
 *
 * A softmax takes 0 for what is 2^-92 of its largest weight. Subnormal weights, and the subnormal
 * products with values that somewhat larger ones make, would change no sum but cost a hundred cycles
 * each on many processors. */
#ifndef CR_EXP_H
#define CR_EXP_H

#define CR_EXP_MIN (-104.0f)
#define CR_EXP_MAX 89.0f
#define CR_SOFTMAX_MIN (-64.0f) /* in a softmax, exp of less is 0 */
#define CR_EXP_LOG2E 0x1.715476p+0f
#define CR_EXP_ROUND 0x1.8p+23f
#define CR_EXP_LN2_HI 0x1.62e4p-1f
#define CR_EXP_LN2_LO 0x1.7f7d1cp-20f
#define CR_EXP_C2 0x1.fffffcp-2f
#define CR_EXP_C3 0x1.555492p-3f
#define CR_EXP_C4 0x1.5558f2p-5f
#define CR_EXP_C5 0x1.1239e2p-7f
#define CR_EXP_C6 0x1.6a2434p-10f

/* tanh and GELU by the same exponential:
 *
 *     tanh(t) = 1 - 2 / (1 + exp(2 t))
 *     gelu(v) = v / (1 + exp(-v (C1 + C3 v^2)))      C1 = 2 sqrt(2 / pi), C3 = 0.044715 C1 */
#define CR_GELU_C1 0x1.988454p+0f
#define CR_GELU_C3 0x1.2444f2p-4f

#endif

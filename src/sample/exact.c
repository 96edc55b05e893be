/* exp and log in plain arithmetic. */
#include "sample/exact.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*     exp(x) = 2^n * exp(r),  n = round(x / ln 2),  |r| <= ln(2) / 2
 *
 * exp(r) by its Taylor series to r^13: the rest is below 2^-56. */
double cr_exp_neg(double x)
{
    static const double inv_factorial[] = {
        1.0 / 6227020800.0,
        1.0 / 479001600.0,
        1.0 / 39916800.0,
        1.0 / 3628800.0,
        1.0 / 362880.0,
        1.0 / 40320.0,
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        1.0 / 2.0,
        1.0,
        1.0,
    };
    if (!(x > -708.0))
        return 0.0; /* smaller than any normal double, or NaN */
    int n = (int)(x * 1.4426950408889634 - 0.5);
    /* ln 2 in two parts, the first with enough trailing zeros that n times it is exact. */
    double r = (x - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
    double sum = 0.0;
    for (size_t i = 0; i < sizeof(inv_factorial) / sizeof(inv_factorial[0]); i++)
        sum = sum * r + inv_factorial[i];
    uint64_t bits = (uint64_t)(1023 + n) << 52;
    double power;
    memcpy(&power, &bits, sizeof(power));
    return sum * power;
}

/*     log(x) = n ln 2 + 2 atanh(s),  x = 2^n m,  1/sqrt(2) <= m < sqrt(2),  s = (m - 1) / (m + 1)
 *
 * atanh(s) = s + s^3 / 3 + s^5 / 5 + ..., to s^21: |s| < 0.172, so the rest is below 2^-60. */
double cr_ln(double x)
{
    int n;
    double m = frexp(x, &n); /* exact: 1/2 <= m < 1 */
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2.0;
        n--;
    }
    double s = (m - 1.0) / (m + 1.0), square = s * s, sum = 0.0;
    for (int k = 21; k >= 1; k -= 2)
        sum = sum * square + 1.0 / k;
    return n * 0x1.62e42fee00000p-1 + (2.0 * s * sum + n * 0x1.a39ef35793c76p-33);
}

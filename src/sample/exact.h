/* exp and log for the sampler.
 *
 * Not libm's: its results depend on the C library and on the processor (glibc has variants with
 * fused operations), and one last bit can move a draw to the neighbour token. These are plain
 * arithmetic, the same everywhere; a seed then means the same text everywhere. */
#ifndef CR_EXACT_H
#define CR_EXACT_H

/* exp(x) for x <= 0. */
double cr_exp_neg(double x);
/* The natural logarithm of a finite x > 0. */
double cr_ln(double x);

#endif

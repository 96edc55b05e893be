/* What quantisers share: finding the scales with which few levels stand for many weights.
 *
 * Everywhere the squared error is what is made small, each weight counting the same. With the
 * levels q of the weights fixed, the best scale is a linear least-squares solution:
 *
 *     x ~ s q        s = sum(x q) / sum(q^2)                 what it explains: sum(x q)^2 / sum(q^2)
 *     x ~ s q - m    two equations in s and m
 *
 * and with the scale fixed, the best level is the nearest. Alternating the two only gets to a
 * nearby minimum, so several scales around the one that just covers the range are tried as
 * starts. */
#ifndef CR_FIT_H
#define CR_FIT_H

#include "base/compiler.h"
#include "tensor/type.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* The weight of the largest size, with its sign; the first of equals. */
float cr_fit_extreme(const float *x, size_t n);
float cr_fit_min(const float *x, size_t n);
float cr_fit_max(const float *x, size_t n);

/* 1 / d, or 0 where that is not finite: a d so small is 0 as a half too. */
static inline float cr_fit_inverse(float d)
{
    float inverse = 1 / d;
    return isfinite(inverse) ? inverse : 0;
}

static inline void cr_fit_store_f16(uint8_t *dst, float f)
{
    uint16_t half = cr_f32_to_f16(f);
    dst[0] = (uint8_t)half;
    dst[1] = (uint8_t)(half >> 8);
}

/* What a float is after it was stored as a half. */
static inline float cr_fit_as_f16(float f)
{
    return cr_f16_to_f32(cr_f32_to_f16(f));
}

enum { CR_FIT_BLOCK = 256, CR_FIT_MAX_GROUPS = 16 };

/* 256 weights as -1, 0, 1 times what is returned: the exact optimum. */
float cr_fit_ternary(const float x[CR_FIT_BLOCK], int8_t q[CR_FIT_BLOCK]);

/* 256 weights in equal groups: x ~ (d scale) level. */
typedef struct cr_fit_scaled {
    float d; /* exact as a half */
    int scale[CR_FIT_MAX_GROUPS];
    int8_t level[CR_FIT_BLOCK];
} cr_fit_scaled;

/* Whole levels from lo to hi < -lo; scales from -n_scales to n_scales - 1. */
void cr_fit_whole(const float x[CR_FIT_BLOCK], int group, int lo, int n_scales, cr_fit_scaled *out);
/* Levels of the table of IQ4; level[] holds their indices. Scales from -32 to 31, groups of 32. */
void cr_fit_iq4(const float x[CR_FIT_BLOCK], cr_fit_scaled *out);
/* The same for one group of 32 with a scale of its own; returns d, exact as a half. */
float cr_fit_iq4_group(const float x[32], uint8_t index[32]);

/* 256 weights in equal groups: x ~ (d scale) level - dmin minimum. */
typedef struct cr_fit_affine {
    float d, dmin; /* exact as halves, not negative */
    int scale[CR_FIT_MAX_GROUPS], minimum[CR_FIT_MAX_GROUPS];
    uint8_t level[CR_FIT_BLOCK];
} cr_fit_affine;

/* Levels from 0 to n_levels - 1; scales and minima from 0 to max_scale. */
void cr_fit_shifted(const float x[CR_FIT_BLOCK], int group, int n_levels, int max_scale,
                    cr_fit_affine *out);
/* Eight scales and minima of 6 bits in the 12 bytes of Q4_K and Q5_K. */
void cr_fit_pack_pairs(uint8_t packed[12], const cr_fit_affine *f);

#endif

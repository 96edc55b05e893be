#include "tensor/fit.h"

#include <assert.h>
#include <stdlib.h>

/* ---- ranges ---------------------------------------------------------------------------------- */

float cr_fit_extreme(const float *x, size_t n)
{
    float extreme = 0;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(extreme))
            extreme = x[i];
    return extreme;
}

float cr_fit_min(const float *x, size_t n)
{
    float min = x[0];
    for (size_t i = 1; i < n; i++)
        min = x[i] < min ? x[i] : min;
    return min;
}

float cr_fit_max(const float *x, size_t n)
{
    float max = x[0];
    for (size_t i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

static int clamp(int value, int lo, int hi)
{
    return value < lo ? lo : value > hi ? hi : value;
}

/* x / step, rounded; for scales, of which there are few. */
static int rounded_ratio(float x, float step)
{
    float ratio = x * cr_fit_inverse(step);
    return (int)lrintf(fminf(fmaxf(ratio, -1000), 1000));
}

/* ---- three levels ---------------------------------------------------------------------------- */

static int by_size_descending(const void *a, const void *b)
{
    float p = *(const float *)a, q = *(const float *)b;
    return (p < q) - (p > q);
}

/* With the k largest sizes as +-1 the best d is their mean S / k, and S^2 / k is what that explains
 * of the sum of squares. So one pass over the sorted sizes finds the best k. */
float cr_fit_ternary(const float x[CR_FIT_BLOCK], int8_t q[CR_FIT_BLOCK])
{
    float size[CR_FIT_BLOCK];
    for (size_t i = 0; i < CR_FIT_BLOCK; i++)
        size[i] = fabsf(x[i]);
    qsort(size, CR_FIT_BLOCK, sizeof size[0], by_size_descending);
    double sum = 0, best = 0;
    float d = 0, least = INFINITY; /* the smallest size that becomes +-1 */
    for (size_t k = 0; k < CR_FIT_BLOCK && size[k] > 0; k++) {
        sum += (double)size[k];
        double explained = sum * sum / (double)(k + 1);
        if (explained >= best) {
            best = explained;
            d = (float)(sum / (double)(k + 1));
            least = size[k];
        }
    }
    for (size_t i = 0; i < CR_FIT_BLOCK; i++)
        q[i] = (int8_t)(fabsf(x[i]) < least ? 0 : x[i] > 0 ? 1 : -1);
    return d;
}

/* ---- levels times a scale -------------------------------------------------------------------- */

/* Both kinds of levels go through the same search, compiled once for each. */
typedef struct levels {
    float lo, hi;
    int n_starts;     /* scales tried on either side of the one that covers the range */
    float start_step; /* between them, in levels */
} levels;

typedef float nearest_fn(float x, const levels *l);

/* Adding and taking away 1.5 * 2^23 leaves a float rounded to a whole number. */
CR_INLINE float round_small(float x)
{
    return (x + 12582912.0f) - 12582912.0f;
}

CR_INLINE float nearest_whole(float x, const levels *l)
{
    float bounded = x < l->lo ? l->lo : x > l->hi ? l->hi : x;
    return round_small(bounded);
}

/* The index of the nearest level of IQ4, by halving: middles[i] lies between levels i and i + 1. */
CR_INLINE int nearest_iq4_index(float x)
{
    static const float middles[15] = { -115.5f, -93.5f, -74,   -57,   -42, -28.5f, -16, -4.5f,
                                       7,       19,     31.5f, 45.5f, 61,  79,     101 };
    int i = x > middles[7] ? 8 : 0;
    i += x > middles[i + 3] ? 4 : 0;
    i += x > middles[i + 1] ? 2 : 0;
    return i + (x > middles[i] ? 1 : 0);
}

CR_INLINE float nearest_iq4(float x, const levels *l)
{
    (void)l;
    return (float)cr_iq4_levels[nearest_iq4_index(x)];
}

/* What levels at 1 / inverse explain, and the best scale for them. */
CR_INLINE float explained(const float *x, size_t n, float inverse, const levels *l,
                          nearest_fn nearest, float *scale)
{
    float xq = 0, qq = 0;
    for (size_t i = 0; i < n; i++) {
        float q = nearest(x[i] * inverse, l);
        xq += x[i] * q;
        qq += q * q;
    }
    *scale = qq > 0 ? xq / qq : 0;
    return *scale * xq;
}

/* The best scale for x[0, n), which may be negative: levels reach further down than up. */
CR_INLINE float fit_step(const float *x, size_t n, const levels *l, nearest_fn nearest)
{
    float extreme = cr_fit_extreme(x, n), unit = cr_fit_inverse(extreme), best = 0, step = 0;
    for (int side = 0; side < 2; side++) {
        float outermost = side == 0 ? l->lo : l->hi;
        for (int k = -l->n_starts; k <= l->n_starts; k++) {
            float scale, gain = explained(x, n, (outermost + l->start_step * (float)k) * unit, l,
                                          nearest, &scale);
            if (gain > best) {
                best = gain;
                step = scale;
            }
        }
    }
    return step;
}

CR_INLINE float error_at(const float *x, size_t n, float step, const levels *l, nearest_fn nearest)
{
    float inverse = cr_fit_inverse(step), sum = 0;
    for (size_t i = 0; i < n; i++) {
        float e = x[i] - step * nearest(x[i] * inverse, l);
        sum += e * e;
    }
    return sum;
}

/* The best whole scale for each group at this d; returns the error of the block. */
CR_INLINE float choose_scales(const float *x, size_t group, int n_scales, float d,
                              const float *steps, const levels *l, nearest_fn nearest, int *scale)
{
    float sum = 0;
    for (size_t g = 0; g * group < CR_FIT_BLOCK; g++) {
        float best = INFINITY;
        int middle = rounded_ratio(steps[g], d);
        for (int s = middle - 1; s <= middle + 1; s++) {
            int bounded = clamp(s, -n_scales, n_scales - 1);
            float error = error_at(x + g * group, group, d * (float)bounded, l, nearest);
            if (error < best) {
                best = error;
                scale[g] = bounded;
            }
        }
        sum += best;
    }
    return sum;
}

/* The best d when levels and scales stay as they are. */
CR_INLINE float refit_d(const float *x, size_t group, float d, const int *scale, const levels *l,
                        nearest_fn nearest)
{
    float xq = 0, qq = 0;
    for (size_t i = 0; i < CR_FIT_BLOCK; i++) {
        float s = (float)scale[i / group];
        float q = s * nearest(x[i] * cr_fit_inverse(d * s), l);
        xq += x[i] * q;
        qq += q * q;
    }
    return qq > 0 ? xq / qq : 0;
}

/* Group by group first, as if scales were free; then d and whole scales in turn. */
CR_INLINE void fit_scaled(const float *x, size_t group, int n_scales, const levels *l,
                          nearest_fn nearest, cr_fit_scaled *out)
{
    enum { ROUNDS = 3 };
    float steps[CR_FIT_MAX_GROUPS];
    size_t n_groups = CR_FIT_BLOCK / group;
    assert(n_groups <= CR_FIT_MAX_GROUPS);
    for (size_t g = 0; g < n_groups; g++)
        steps[g] = fit_step(x + g * group, group, l, nearest);
    float d = cr_fit_as_f16(cr_fit_extreme(steps, n_groups) / (float)-n_scales);
    float best = INFINITY;
    *out = (cr_fit_scaled){ 0 };
    for (int round = 0; round < ROUNDS && d != 0; round++) {
        int scale[CR_FIT_MAX_GROUPS] = { 0 };
        float error = choose_scales(x, group, n_scales, d, steps, l, nearest, scale);
        if (error >= best)
            break;
        best = error;
        out->d = d;
        memcpy(out->scale, scale, sizeof scale);
        d = cr_fit_as_f16(refit_d(x, group, d, scale, l, nearest));
    }
}

void cr_fit_whole(const float x[CR_FIT_BLOCK], int group, int lo, int n_scales, cr_fit_scaled *out)
{
    levels l = { .lo = (float)lo, .hi = (float)(-lo - 1), .n_starts = 9, .start_step = 0.1f };
    fit_scaled(x, (size_t)group, n_scales, &l, nearest_whole, out);
    for (int i = 0; i < CR_FIT_BLOCK; i++) {
        float inverse = cr_fit_inverse(out->d * (float)out->scale[i / group]);
        out->level[i] = (int8_t)nearest_whole(x[i] * inverse, &l);
    }
}

static const levels iq4 = { .lo = -127, .hi = 113, .n_starts = 7, .start_step = 3 };

void cr_fit_iq4(const float x[CR_FIT_BLOCK], cr_fit_scaled *out)
{
    fit_scaled(x, 32, 32, &iq4, nearest_iq4, out);
    for (int i = 0; i < CR_FIT_BLOCK; i++) {
        float inverse = cr_fit_inverse(out->d * (float)out->scale[i / 32]);
        out->level[i] = (int8_t)nearest_iq4_index(x[i] * inverse);
    }
}

float cr_fit_iq4_group(const float x[32], uint8_t index[32])
{
    float d = cr_fit_as_f16(fit_step(x, 32, &iq4, nearest_iq4));
    float inverse = cr_fit_inverse(d);
    for (size_t i = 0; i < 32; i++)
        index[i] = (uint8_t)nearest_iq4_index(x[i] * inverse);
    return d;
}

/* ---- levels times a scale, less a minimum ---------------------------------------------------- */

typedef struct affine {
    float step, base; /* x ~ step q - base, both at least 0 */
} affine;

CR_INLINE float nearest_from_0(float x, float hi)
{
    return round_small(x < 0 ? 0 : x > hi ? hi : x);
}

CR_INLINE float affine_error(const float *x, size_t n, affine a, float hi)
{
    float inverse = cr_fit_inverse(a.step), sum = 0;
    for (size_t i = 0; i < n; i++) {
        float e = a.step * nearest_from_0((x[i] + a.base) * inverse, hi) - a.base - x[i];
        sum += e * e;
    }
    return sum;
}

/* Step and base that are best for the levels which a gives. */
static affine affine_refit(const float *x, size_t n, affine a, float hi)
{
    float inverse = cr_fit_inverse(a.step), sx = 0, sq = 0, xq = 0, qq = 0;
    for (size_t i = 0; i < n; i++) {
        float q = nearest_from_0((x[i] + a.base) * inverse, hi);
        sx += x[i];
        sq += q;
        xq += x[i] * q;
        qq += q * q;
    }
    float count = (float)n, determinant = count * qq - sq * sq;
    if (determinant <= 0)
        return a;
    affine b = { .step = (count * xq - sx * sq) / determinant };
    b.base = (b.step * sq - sx) / count;
    if (b.base < 0) /* not storable: the best without a base */
        b = (affine){ .step = qq > 0 ? xq / qq : 0 };
    return b.step > 0 ? b : a;
}

static affine fit_affine(const float *x, size_t n, float hi)
{
    enum { N_STARTS = 6, REFITS = 3 };
    float min = fminf(cr_fit_min(x, n), 0), range = cr_fit_max(x, n) - min;
    affine best = { .step = 0, .base = -min };
    if (range <= 0)
        return best;
    float least = INFINITY;
    for (int k = -N_STARTS; k <= N_STARTS; k++) {
        affine start = { .step = range / (hi + 0.13f * (float)k), .base = -min };
        affine a = affine_refit(x, n, start, hi);
        float error = affine_error(x, n, a, hi);
        if (error < least) {
            least = error;
            best = a;
        }
    }
    for (int refit = 0; refit < REFITS; refit++) {
        affine a = affine_refit(x, n, best, hi);
        float error = affine_error(x, n, a, hi);
        if (error >= least)
            break;
        least = error;
        best = a;
    }
    return best;
}

/* The best whole scale and minimum near those of `free`, for one group. */
static float choose_pair(const float *x, size_t n, affine free, affine unit, float hi, int max,
                         int *scale, int *minimum)
{
    float best = INFINITY;
    int s0 = rounded_ratio(free.step, unit.step), m0 = rounded_ratio(free.base, unit.base);
    for (int s = s0 - 1; s <= s0 + 1; s++) {
        for (int m = m0 - 1; m <= m0 + 1; m++) {
            int bs = clamp(s, 0, max), bm = clamp(m, 0, max);
            affine a = { unit.step * (float)bs, unit.base * (float)bm };
            float error = affine_error(x, n, a, hi);
            if (error < best) {
                best = error;
                *scale = bs;
                *minimum = bm;
            }
        }
    }
    return best;
}

/* d and dmin that are best when everything else stays: x ~ d u - dmin v, u = scale q, v =
 * minimum. */
static affine refit_units(const float *x, size_t group, const cr_fit_affine *f, float hi)
{
    double uu = 0, uv = 0, vv = 0, xu = 0, xv = 0;
    for (size_t i = 0; i < CR_FIT_BLOCK; i++) {
        size_t g = i / group;
        float base = f->dmin * (float)f->minimum[g];
        float inverse = cr_fit_inverse(f->d * (float)f->scale[g]);
        double u = (double)((float)f->scale[g] * nearest_from_0((x[i] + base) * inverse, hi));
        double v = -(double)f->minimum[g];
        uu += u * u;
        uv += u * v;
        vv += v * v;
        xu += (double)x[i] * u;
        xv += (double)x[i] * v;
    }
    double determinant = uu * vv - uv * uv;
    affine units = { f->d, f->dmin };
    if (determinant > 1e-9 * uu * vv) {
        units.step = (float)((xu * vv - xv * uv) / determinant);
        units.base = (float)((xv * uu - xu * uv) / determinant);
    } else if (uu > 0 && vv <= 0) {
        units.step = (float)(xu / uu);
    }
    bool is_storable = units.step >= 0 && units.base >= 0;
    return is_storable ? units : (affine){ f->d, f->dmin };
}

void cr_fit_shifted(const float x[CR_FIT_BLOCK], int group_size, int n_levels, int max_scale,
                    cr_fit_affine *out)
{
    enum { ROUNDS = 3 };
    size_t group = (size_t)group_size, n_groups = CR_FIT_BLOCK / group;
    assert(n_groups <= CR_FIT_MAX_GROUPS);
    float hi = (float)(n_levels - 1);
    affine free[CR_FIT_MAX_GROUPS], unit = { 0, 0 };
    for (size_t g = 0; g < n_groups; g++) {
        free[g] = fit_affine(x + g * group, group, hi);
        unit.step = fmaxf(unit.step, free[g].step);
        unit.base = fmaxf(unit.base, free[g].base);
    }
    unit.step /= (float)max_scale;
    unit.base /= (float)max_scale;
    float best = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        cr_fit_affine f = { .d = cr_fit_as_f16(unit.step), .dmin = cr_fit_as_f16(unit.base) };
        float error = 0;
        for (size_t g = 0; g < n_groups; g++)
            error += choose_pair(x + g * group, group, free[g], (affine){ f.d, f.dmin }, hi,
                                 max_scale, &f.scale[g], &f.minimum[g]);
        if (error >= best)
            break;
        best = error;
        *out = f;
        unit = refit_units(x, group, &f, hi);
    }
    for (size_t i = 0; i < CR_FIT_BLOCK; i++) {
        size_t g = i / group;
        float inverse = cr_fit_inverse(out->d * (float)out->scale[g]);
        float base = out->dmin * (float)out->minimum[g];
        out->level[i] = (uint8_t)nearest_from_0((x[i] + base) * inverse, hi);
    }
}

void cr_fit_pack_pairs(uint8_t p[12], const cr_fit_affine *f)
{
    for (int j = 0; j < 4; j++) {
        const int *s = f->scale + j, *m = f->minimum + j;
        p[j] = (uint8_t)(s[0] | s[4] >> 4 << 6);
        p[j + 4] = (uint8_t)(m[0] | m[4] >> 4 << 6);
        p[j + 8] = (uint8_t)((s[4] & 15) | (m[4] & 15) << 4);
    }
}

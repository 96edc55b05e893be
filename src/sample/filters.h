/* The filters of the sampler, on a list of candidates that only ever gets shorter.
 *
 * Candidates are in ascending id order throughout. No filter sorts: a threshold is found by
 * counting (see find_threshold), which is linear in the number of candidates whatever their
 * values. */
#ifndef CR_FILTERS_H
#define CR_FILTERS_H

#include <stddef.h>
#include <stdint.h>

enum { CR_FILTER_BINS = 2048 };

typedef struct cr_candidates {
    size_t n;
    int32_t *id;    /* [n] ascending */
    float *value;   /* [n] finite logits */
    double *weight; /* [n] exp((value - max) / temperature), so that the best one has 1;
                     * set by cr_filter_weigh */
    double *bins;   /* [CR_FILTER_BINS] scratch */
} cr_candidates;

/* Makes the list of value[0, n_values), whose place is the id: the finite ones, without those that
 * a following cr_filter_top_k(k) would drop anyway, as far as that is cheap to see. */
void cr_filter_collect(cr_candidates *list, size_t n_values, size_t k);
/* Keeps the k largest, and all that equal the k-th. 0 keeps everything. */
void cr_filter_top_k(cr_candidates *list, size_t k);
/* Sets the weights for a temperature above 0. */
void cr_filter_weigh(cr_candidates *list, float temperature);
/* Keeps the smallest set of the heaviest candidates whose share of the weight reaches p; among
 * equals the lower ids. At least one stays. p >= 1 keeps everything. */
void cr_filter_top_p(cr_candidates *list, float p);
/* Drops what weighs less than p times the heaviest. */
void cr_filter_min_p(cr_candidates *list, float p);
/* The candidate that a number in [0, 1) falls on. One with no weight is never drawn. */
int32_t cr_filter_draw(const cr_candidates *list, double unit);

/* exp(x) for x <= 0. */
double cr_exp_neg(double x);

#endif

/* The filters of the sampler, on a list of candidates that only ever gets shorter.
 *
 * Candidates are in ascending id order throughout. No filter sorts: a threshold is found by
 * counting (see find_threshold), which is linear in the number of candidates whatever their
 * values. */
#ifndef CR_FILTERS_H
#define CR_FILTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CR_FILTER_BINS = 2048 };

typedef struct cr_candidates {
    size_t n;
    int32_t *id;    /* [n] ascending */
    float *value;   /* [n] finite logits */
    double *weight; /* [n] exp((value - max) / temperature), so that the best one has 1;
                     * set by cr_filter_weigh */
    float *rank;    /* [n] scratch */
    double *bins;   /* [CR_FILTER_BINS] scratch */
    bool is_whole; /* not collected yet: value[0, n) of all tokens, the place is the id, id unset */
} cr_candidates;

/* Where a token stands in the list; list->n when it is not there. */
size_t cr_candidates_find(const cr_candidates *list, int32_t id);

/* Makes the list of value[0, n_values), whose place is the id: the finite ones, without those that
 * a following cr_filter_top_k(k) would drop anyway, as far as that is cheap to see. */
void cr_filter_collect(cr_candidates *list, size_t n_values, size_t k);
/* Keeps the k largest, and all that equal the k-th. 0 keeps everything. */
void cr_filter_top_k(cr_candidates *list, size_t k);
/* Sets the weights for a temperature above 0. */
void cr_filter_weigh(cr_candidates *list, double temperature);

/* All below need the weights. */

/* Of the distribution, in nats. */
double cr_filter_entropy(const cr_candidates *list);
/* Keeps the smallest set of the heaviest candidates whose share of the weight reaches p; among
 * equals the lower ids. At least one stays. p >= 1 keeps everything. */
void cr_filter_top_p(cr_candidates *list, float p);
/* Drops what weighs less than p times the heaviest. */
void cr_filter_min_p(cr_candidates *list, float p);
/* Like top-p, but those come first whose surprise is nearest to the entropy (Meister et al.
 * 2022). */
void cr_filter_typical(cr_candidates *list, float p);
/* Keeps the values within n standard deviations of the largest (Tang et al. 2024). Dividing all
 * values by a temperature would change nothing. */
void cr_filter_top_n_sigma(cr_candidates *list, float n_sigma);
/* Drops those with at least this share of the weight, but the lightest of them. */
void cr_filter_xtc(cr_candidates *list, float threshold);
/* Drops those with a surprise, -log2 of the share of the weight, above `most`; the heaviest
 * stay. */
void cr_filter_max_surprise(cr_candidates *list, double most);
/* The surprise of a candidate, in bits. */
double cr_filter_surprise(const cr_candidates *list, int32_t id);

/* The candidate that a number in [0, 1) falls on. One with no weight is never drawn. */
int32_t cr_filter_draw(const cr_candidates *list, double unit);

#endif

/* What makes a token less likely because it, or the sequence that it would end, was there
 * before. */
#ifndef CR_PENALTIES_H
#define CR_PENALTIES_H

#include "base/host.h"
#include "sample/filters.h"

/* How often each token occurs in a window of the history: it follows the history's end. */
typedef struct cr_counts {
    size_t n_vocab;
    int32_t *count;   /* [n_vocab] */
    uint64_t *seen;   /* [n_vocab] bits: count > 0 */
    size_t from, end; /* of the history: what is counted */
} cr_counts;

/* Moves the window to history[from, end), both at or after what they were. */
void cr_counts_move(cr_counts *counts, const int32_t *history, size_t from, size_t end);

typedef struct cr_penalty {
    float repetition, frequency, presence; /* 1, 0, 0: none */
} cr_penalty;
/* l > 0: l / repetition, else l * repetition; then less frequency * count + presence. `scale` is
 * the temperature that the values will still be divided by, or 1. */
void cr_penalize(cr_candidates *list, const cr_counts *counts, const cr_penalty *penalty,
                 float scale);

/* DRY ("don't repeat yourself", p-e-w 2024). */
typedef struct cr_dry {
    float multiplier, base;
    int32_t allowed_length;
    uint64_t *breaks;  /* [n_vocab] bits: tokens that no repeated sequence contains */
    int32_t *longest;  /* [n_vocab] zeros between calls */
    int32_t *matching; /* [tokens of a window] scratch */
} cr_dry;
/* Lessens every token that would repeat a sequence at the end of window[0, n); scale as above. */
void cr_dry_apply(const cr_dry *dry, cr_candidates *list, const int32_t *window, size_t n,
                  float scale);

/* A finite number stays finite when something extreme would carry it over the edge. */
float cr_clamp_finite(float value);

#endif

/* Penalties: counts of tokens, and the sequences that a token would repeat. */
#include "sample/penalties.h"

#include <float.h>
#include <math.h>
#include <string.h>

float cr_clamp_finite(float value)
{
    return value > FLT_MAX ? FLT_MAX : value < -FLT_MAX ? -FLT_MAX : value;
}

/* ---- counts ------------------------------------------------------------------------------ */

static void count(cr_counts *counts, int32_t id, int32_t change)
{
    counts->count[id] += change;
    uint64_t bit = UINT64_C(1) << (id % 64);
    if (counts->count[id] > 0)
        counts->seen[id / 64] |= bit;
    else
        counts->seen[id / 64] &= ~bit;
}

void cr_counts_move(cr_counts *counts, const int32_t *history, size_t from, size_t end)
{
    for (; counts->end < end; counts->end++)
        count(counts, history[counts->end], 1);
    for (; counts->from < from; counts->from++)
        count(counts, history[counts->from], -1);
}

/* A logit gets less; what is no logit stays what it is. */
static void lessen(cr_candidates *list, size_t i, float by)
{
    if (i < list->n && isfinite(list->value[i]))
        list->value[i] = cr_clamp_finite(list->value[i] - by);
}

void cr_penalize(cr_candidates *list, const cr_counts *counts, const cr_penalty *penalty,
                 float scale)
{
    for (size_t w = 0; w < (counts->n_vocab + 63) / 64; w++) {
        int32_t id = (int32_t)(w * 64);
        for (uint64_t word = counts->seen[w]; word != 0; word >>= 1, id++) {
            size_t i = (word & 1) != 0 ? cr_candidates_find(list, id) : list->n;
            if (i == list->n || !isfinite(list->value[i]))
                continue;
            float value = list->value[i];
            list->value[i] = cr_clamp_finite(value > 0.0f ? value / penalty->repetition
                                                          : value * penalty->repetition);
            lessen(list, i,
                   scale * ((float)counts->count[id] * penalty->frequency + penalty->presence));
        }
    }
}

/* ---- DRY --------------------------------------------------------------------------------- */

static bool breaks(const cr_dry *dry, int32_t id)
{
    return dry->breaks[id / 64] >> (id % 64) & 1;
}

/* matching[j] for 0 < j < n: how many tokens before the last j are the same as the last ones, one
 * by one backwards, at most `most`.
 *
 * This is the Z function of the window read backwards: with [left, right) the match that reaches
 * furthest, a place inside it has been compared already, at the same distance from the start. So
 * each token is compared once, where a plain search would take n^2 steps on a text that repeats
 * itself. */
static void find_matches(const int32_t *window, size_t n, size_t most, int32_t *matching)
{
    size_t left = 0, right = 0;
    for (size_t j = 1; j < n; j++) {
        size_t length = j < right ? CR_MIN((size_t)matching[j - left], right - j) : 0;
        while (length < most && j + length < n &&
               window[n - 1 - j - length] == window[n - 1 - length])
            length++;
        matching[j] = (int32_t)length;
        if (j + length > right) {
            left = j;
            right = j + length;
        }
    }
}

/* multiplier * base^n, at most FLT_MAX. */
static float penalty_of(const cr_dry *dry, int32_t n)
{
    float penalty = dry->multiplier;
    for (int32_t i = 0; i < n && penalty < FLT_MAX && dry->base > 1.0f; i++)
        penalty = cr_clamp_finite(penalty * dry->base);
    return penalty;
}

void cr_dry_apply(const cr_dry *dry, cr_candidates *list, const int32_t *window, size_t n,
                  float scale)
{
    size_t most = 0; /* a sequence begins behind the last breaker */
    while (most < n && !breaks(dry, window[n - 1 - most]))
        most++;
    if (most < (size_t)dry->allowed_length)
        return;
    find_matches(window, n, most, dry->matching);
    for (size_t j = 1; j < n; j++) {
        int32_t next = window[n - j];
        dry->longest[next] = CR_MAX(dry->longest[next], dry->matching[j]);
    }
    for (size_t j = 1; j < n; j++) {
        int32_t next = window[n - j], length = dry->longest[next];
        dry->longest[next] = 0; /* so that it is lessened once */
        if (length >= dry->allowed_length && !breaks(dry, next))
            lessen(list, cr_candidates_find(list, next),
                   scale * penalty_of(dry, length - dry->allowed_length));
    }
}

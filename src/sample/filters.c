/* The filters and the draw. */
#include "sample/filters.h"

#include "sample/exact.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define LN_2 0x1.62e42fefa39efp-1

/* Maps a float to an integer in the same order: negative numbers have all bits flipped, others the
 * sign bit. -0 and +0 are made one first. */
static uint32_t order_key(float value)
{
    uint32_t bits;
    value += 0.0f;
    memcpy(&bits, &value, sizeof(bits));
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

typedef struct threshold {
    uint32_t key; /* candidates above it are kept, those below it dropped */
    double above; /* the mass of those above it */
} threshold;

/* Candidate i ranks by rank[i]. The largest key at which the mass of all candidates at or above it
 * reaches `target`. Mass is the weight, or 1 each with `count`.
 *
 * A radix selection: a histogram over the upper 11 bits of the key tells in which bin the threshold
 * lies; two more passes look into that bin with the next 11 and the last 10 bits. Three passes over
 * the list whatever its values, where sorting 150,000 candidates would take some seventeen. */
static threshold find_threshold(const cr_candidates *list, const float *rank, bool count,
                                double target)
{
    static const struct {
        int shift, bits;
    } pass[3] = { { 21, 11 }, { 10, 11 }, { 0, 10 } };
    threshold found = { 0, 0.0 };
    uint32_t prefix_mask = 0;
    for (int p = 0; p < 3; p++) {
        int n_bins = 1 << pass[p].bits;
        uint32_t bin_mask = (uint32_t)n_bins - 1;
        memset(list->bins, 0, (size_t)n_bins * sizeof(double));
        for (size_t i = 0; i < list->n; i++) {
            uint32_t key = order_key(rank[i]);
            if ((key & prefix_mask) == found.key)
                list->bins[(key >> pass[p].shift) & bin_mask] += count ? 1.0 : list->weight[i];
        }
        /* From the top to the first bin that reaches the target. Sums of the same numbers in
         * another order may fall short of it by a rounding: then the last bin with any mass is
         * meant. */
        int chosen = 0;
        double above = found.above;
        double chosen_above = above;
        for (int bin = n_bins - 1; bin >= 0; bin--) {
            if (list->bins[bin] <= 0.0)
                continue;
            chosen = bin;
            chosen_above = above;
            above += list->bins[bin];
            if (above >= target)
                break;
        }
        found.above = chosen_above;
        found.key |= (uint32_t)chosen << pass[p].shift;
        prefix_mask |= bin_mask << pass[p].shift;
    }
    return found;
}

/* The largest finite value of values[0, n); -infinity when there is none. Eight running maxima,
 * because one would wait for itself at each step. */
static float block_max(const float *values, size_t n)
{
    enum { LANES = 8 };
    float max[LANES];
    for (int j = 0; j < LANES; j++)
        max[j] = -INFINITY;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            float v = values[i + (size_t)j];
            v = v <= FLT_MAX ? v : -INFINITY; /* NaN too */
            max[j] = v > max[j] ? v : max[j];
        }
    }
    for (; i < n; i++)
        max[0] = values[i] <= FLT_MAX && values[i] > max[0] ? values[i] : max[0];
    for (int j = 1; j < LANES; j++)
        max[0] = max[j] > max[0] ? max[j] : max[0];
    return max[0];
}

size_t cr_candidates_find(const cr_candidates *list, int32_t id)
{
    if (list->is_whole)
        return (size_t)id;
    size_t low = 0, high = list->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->id[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < list->n && list->id[low] == id ? low : list->n;
}

/* Of 150,000 values a top-k of 40 wants a handful, so most should be looked at once only. Cut the
 * values into blocks: if k blocks have a maximum of at least t, then k values are at least t, and
 * what is below t cannot be among the k largest. The k-th largest maximum is such a t, and blocks
 * whose maximum is below it are skipped whole. */
void cr_filter_collect(cr_candidates *list, size_t n_values, size_t k)
{
    enum { BLOCK = 64 };
    size_t n_blocks = (n_values + BLOCK - 1) / BLOCK;
    float *max = (float *)(void *)list->weight; /* [n_blocks]; the weights come later */
    for (size_t b = 0; b < n_blocks; b++) {
        size_t n = n_values - b * BLOCK;
        max[b] = block_max(list->value + b * BLOCK, n < BLOCK ? n : BLOCK);
    }
    float least = -FLT_MAX;
    if (k > 0 && k < n_blocks) {
        cr_candidates blocks = { .n = n_blocks, .value = max, .bins = list->bins };
        uint32_t key = find_threshold(&blocks, max, true, (double)k).key;
        for (size_t b = 0; b < n_blocks; b++) {
            if (order_key(max[b]) == key)
                least = max[b] > least ? max[b] : least; /* all with this key are equal */
        }
    }
    size_t n = 0;
    for (size_t b = 0; b < n_blocks; b++) {
        if (max[b] < least)
            continue;
        size_t end = (b + 1) * BLOCK < n_values ? (b + 1) * BLOCK : n_values;
        for (size_t i = b * BLOCK; i < end; i++) {
            float value = list->value[i];
            if (value >= least && value <= FLT_MAX) {
                list->id[n] = (int32_t)i;
                list->value[n++] = value;
            }
        }
    }
    list->n = n;
    list->is_whole = false;
}

/* Moves candidate i to place n. Filters keep the order, so n <= i. */
static void keep(cr_candidates *list, size_t n, size_t i)
{
    list->id[n] = list->id[i];
    list->value[n] = list->value[i];
    list->weight[n] = list->weight[i];
}

void cr_filter_top_k(cr_candidates *list, size_t k)
{
    if (k == 0 || k >= list->n)
        return;
    threshold limit = find_threshold(list, list->value, true, (double)k);
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (order_key(list->value[i]) >= limit.key) {
            list->id[n] = list->id[i];
            list->value[n++] = list->value[i];
        }
    }
    list->n = n;
}

void cr_filter_weigh(cr_candidates *list, double temperature)
{
    assert(list->n > 0 && temperature > 0.0);
    float max = list->value[0];
    for (size_t i = 1; i < list->n; i++)
        max = list->value[i] > max ? list->value[i] : max;
    /* Dividing the difference, not the logit: a temperature of 1e-30 then gives weights 1 and 0
     * where it would otherwise give infinities and their NaN differences. */
    for (size_t i = 0; i < list->n; i++)
        list->weight[i] = cr_exp_neg(((double)list->value[i] - max) / temperature);
}

static double total_weight(const cr_candidates *list)
{
    double total = 0.0;
    for (size_t i = 0; i < list->n; i++)
        total += list->weight[i];
    return total;
}

/*     H = -sum p log p,  p = w / W:  H = log W - (sum w log w) / W     */
double cr_filter_entropy(const cr_candidates *list)
{
    double total = total_weight(list), sum = 0.0;
    for (size_t i = 0; i < list->n; i++) {
        if (list->weight[i] > 0.0)
            sum += list->weight[i] * cr_ln(list->weight[i]);
    }
    return cr_ln(total) - sum / total;
}

/* Keeps the smallest set of those that rank highest whose share of the weight reaches p; among
 * equals the lower ids. */
static void keep_mass(cr_candidates *list, const float *rank, float p)
{
    double target = (double)p * total_weight(list);
    threshold limit = find_threshold(list, rank, false, target);
    double sum = limit.above;
    bool one_equal = false; /* the candidate that crosses the target is itself kept */
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        uint32_t key = order_key(rank[i]);
        if (key < limit.key)
            continue;
        if (key == limit.key) {
            if (one_equal && sum >= target)
                continue;
            one_equal = true;
            sum += list->weight[i];
        }
        keep(list, n++, i);
    }
    list->n = n;
}

void cr_filter_top_p(cr_candidates *list, float p)
{
    if (p < 1.0f)
        keep_mass(list, list->value, p);
}

void cr_filter_typical(cr_candidates *list, float p)
{
    if (p >= 1.0f)
        return;
    double log_total = cr_ln(total_weight(list)), entropy = cr_filter_entropy(list);
    for (size_t i = 0; i < list->n; i++) {
        double surprise = list->weight[i] > 0.0 ? log_total - cr_ln(list->weight[i]) : INFINITY;
        list->rank[i] = (float)-fabs(surprise - entropy);
    }
    keep_mass(list, list->rank, p);
}

void cr_filter_min_p(cr_candidates *list, float p)
{
    if (p <= 0.0f)
        return;
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (list->weight[i] >= (double)p) /* the heaviest weighs 1 */
            keep(list, n++, i);
    }
    list->n = n;
}

void cr_filter_top_n_sigma(cr_candidates *list, float n_sigma)
{
    double n_list = (double)list->n, mean = 0.0, variance = 0.0;
    double max = (double)list->value[0];
    for (size_t i = 0; i < list->n; i++) {
        mean += (double)list->value[i] / n_list;
        max = (double)list->value[i] > max ? (double)list->value[i] : max;
    }
    for (size_t i = 0; i < list->n; i++) {
        double off = (double)list->value[i] - mean;
        variance += off * off / n_list;
    }
    double least = max - (double)n_sigma * sqrt(variance);
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        if ((double)list->value[i] >= least)
            keep(list, n++, i);
    }
    list->n = n;
}

void cr_filter_xtc(cr_candidates *list, float threshold_share)
{
    double least = (double)threshold_share * total_weight(list), lightest = INFINITY;
    size_t n_top = 0, last = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (list->weight[i] < least)
            continue;
        n_top++;
        if (list->weight[i] <= lightest) {
            lightest = list->weight[i];
            last = i; /* of equals the highest id: it would stand last in a sorted list */
        }
    }
    if (n_top < 2)
        return;
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (list->weight[i] < least || i == last)
            keep(list, n++, i);
    }
    list->n = n;
}

/* -log2(w / W) > most  <=>  w < W 2^-most; exp is for negative numbers, which most need not be. */
void cr_filter_max_surprise(cr_candidates *list, double most)
{
    double least = total_weight(list) * cr_exp_neg(-fmax(most, 0.0) * LN_2);
    least = fmin(least, 1.0); /* the heaviest, which weighs 1, stays */
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (list->weight[i] >= least)
            keep(list, n++, i);
    }
    list->n = n;
}

double cr_filter_surprise(const cr_candidates *list, int32_t id)
{
    size_t i = cr_candidates_find(list, id);
    assert(i < list->n && list->weight[i] > 0.0);
    return (cr_ln(total_weight(list)) - cr_ln(list->weight[i])) / LN_2;
}

int32_t cr_filter_draw(const cr_candidates *list, double unit)
{
    double point = unit * total_weight(list);
    double sum = 0.0;
    int32_t last = -1;
    for (size_t i = 0; i < list->n; i++) {
        if (list->weight[i] <= 0.0)
            continue;
        sum += list->weight[i];
        last = list->id[i];
        if (sum > point)
            break;
    }
    return last;
}

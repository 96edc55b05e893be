/* Top-k, top-p, min-p and the draw. */
#include "sample/filters.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Not libm's: its result depends on the C library and on the processor (glibc has an FMA variant),
 * and one last bit can move a draw to the neighbour token. This one is plain arithmetic, the same
 * everywhere; a seed then means the same text everywhere.
 *
 *     exp(x) = 2^n * exp(r),  n = round(x / ln 2),  |r| <= ln(2) / 2
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

/* The largest key at which the mass of all candidates at or above it reaches `target`. Mass is the
 * weight, or 1 each with `count`.
 *
 * A radix selection: a histogram over the upper 11 bits of the key tells in which bin the threshold
 * lies; two more passes look into that bin with the next 11 and the last 10 bits. Three passes over
 * the list whatever its values, where sorting 150,000 candidates would take some seventeen. */
static threshold find_threshold(const cr_candidates *list, bool count, double target)
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
            uint32_t key = order_key(list->value[i]);
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
        uint32_t key = find_threshold(&blocks, true, (double)k).key;
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
    threshold limit = find_threshold(list, true, (double)k);
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (order_key(list->value[i]) >= limit.key) {
            list->id[n] = list->id[i];
            list->value[n++] = list->value[i];
        }
    }
    list->n = n;
}

void cr_filter_weigh(cr_candidates *list, float temperature)
{
    assert(list->n > 0 && temperature > 0.0f);
    float max = list->value[0];
    for (size_t i = 1; i < list->n; i++)
        max = list->value[i] > max ? list->value[i] : max;
    /* Dividing the difference, not the logit: a temperature of 1e-30 then gives weights 1 and 0
     * where it would otherwise give infinities and their NaN differences. */
    for (size_t i = 0; i < list->n; i++)
        list->weight[i] = cr_exp_neg(((double)list->value[i] - max) / (double)temperature);
}

void cr_filter_top_p(cr_candidates *list, float p)
{
    if (p >= 1.0f)
        return;
    double total = 0.0;
    for (size_t i = 0; i < list->n; i++)
        total += list->weight[i];
    double target = (double)p * total;
    threshold limit = find_threshold(list, false, target);
    double sum = limit.above;
    bool one_equal = false; /* the candidate that crosses the target is itself kept */
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        uint32_t key = order_key(list->value[i]);
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

int32_t cr_filter_draw(const cr_candidates *list, double unit)
{
    double total = 0.0;
    for (size_t i = 0; i < list->n; i++)
        total += list->weight[i];
    double point = unit * total;
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

/* The stages of sampling that are off by default, each against its published formula worked out the
 * plain way: by sorting, or by comparing every pair. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sample/exact.h"
#include "sample/filters.h"
#include "sample/penalties.h"
#include "sample/rng.h"
#include "sample/sampler.h"

enum { MAX_N = 300 };

static cr_host host;

static int set_up(void **state)
{
    (void)state;
    return cr_host_set(&host, NULL, NULL) == CERA_OK ? 0 : -1;
}

static cera_generate_options plain_options(void)
{
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.temperature = 1.0f;
    options.top_k = 0;
    options.top_p = 1.0f;
    options.min_p = 0.0f;
    options.repetition_penalty = 1.0f;
    options.seed = 11;
    return options;
}

static cr_sampler *new_sampler(size_t n, const cera_generate_options *options)
{
    cr_sampler *sampler = NULL;
    cera_error err;
    if (cr_sampler_new(&host, n, 4096, options, &sampler, &err) != CERA_OK)
        fail_msg("%s", err.message);
    return sampler;
}

static int32_t next(cr_sampler *sampler, const float *logits, const int32_t *history, size_t n)
{
    int32_t id = -1;
    cera_error err;
    assert_int_equal(cr_sampler_next(sampler, logits, NULL, history, n, &id, &err), CERA_OK);
    return id;
}

/* ---- log --------------------------------------------------------------------------------- */

static void test_log(void **state)
{
    (void)state;
    assert_true(cr_ln(1.0) == 0.0);
    for (double x = 1e-300; x < 1e300; x *= 1.37) {
        double expected = log(x);
        assert_true(fabs(cr_ln(x) - expected) <= 4e-16 * fmax(fabs(expected), 0.01));
    }
    for (double x = 0.5; x < 2.0; x += 0.00137)
        assert_true(fabs(cr_ln(x) - log(x)) <= 4e-16);
}

/* ---- filters ----------------------------------------------------------------------------- */

/* A list, and the same sorted by probability. */
typedef struct entry {
    int32_t id;
    double value, p, rank;
} entry;

typedef struct lists {
    int32_t id[MAX_N];
    float value[MAX_N], rank[MAX_N];
    double weight[MAX_N], bins[CR_FILTER_BINS];
    cr_candidates list;
    entry sorted[MAX_N];
    size_t n;
} lists;

static int by_rank(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank > y->rank ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static void make_lists(lists *l, cr_rng *rng, int round)
{
    l->n = 1 + (size_t)(cr_rng_next(rng) % (MAX_N - 1));
    double total = 0.0, max = -INFINITY;
    for (size_t i = 0; i < l->n; i++) {
        double x = (cr_rng_unit(rng) + cr_rng_unit(rng) - 1.0) * (round % 3 == 0 ? 30 : 3);
        l->value[i] = (float)(round % 2 == 0 ? floor(x * 2) : x);
        l->id[i] = (int32_t)(3 * i);
        max = fmax(max, (double)l->value[i]);
    }
    for (size_t i = 0; i < l->n; i++)
        total += exp((double)l->value[i] - max);
    for (size_t i = 0; i < l->n; i++) {
        double value = (double)l->value[i];
        l->sorted[i] = (entry){ l->id[i], value, exp(value - max) / total, value };
    }
    qsort(l->sorted, l->n, sizeof(entry), by_rank);
    l->list = (cr_candidates){ l->n, l->id, l->value, l->weight, l->rank, l->bins, false };
    cr_filter_weigh(&l->list, 1.0);
}

static double entropy(const lists *l)
{
    double sum = 0.0;
    for (size_t i = 0; i < l->n; i++)
        sum -= l->sorted[i].p > 0.0 ? l->sorted[i].p * log(l->sorted[i].p) : 0.0;
    return sum;
}

/* The list holds exactly sorted[first, end), and in order of ids. */
static void expect_range(const lists *l, size_t first, size_t end)
{
    assert_int_equal(l->list.n, end - first);
    for (size_t i = first; i < end; i++)
        assert_true(cr_candidates_find(&l->list, l->sorted[i].id) < l->list.n);
    for (size_t i = 1; i < l->list.n; i++)
        assert_true(l->list.id[i - 1] < l->list.id[i]);
}

static lists l;

static void test_top_n_sigma(void **state)
{
    (void)state;
    cr_rng rng;
    cr_rng_seed(&rng, 1);
    for (int round = 0; round < 1000; round++) {
        make_lists(&l, &rng, round);
        double n_sigma = cr_rng_unit(&rng) * 3, mean = 0.0, variance = 0.0;
        for (size_t i = 0; i < l.n; i++)
            mean += l.sorted[i].value / (double)l.n;
        for (size_t i = 0; i < l.n; i++)
            variance += pow(l.sorted[i].value - mean, 2) / (double)l.n;
        double least = l.sorted[0].value - (double)(float)n_sigma * sqrt(variance);
        size_t kept = 0;
        bool close = false;
        for (size_t i = 0; i < l.n; i++) {
            close |= fabs(l.sorted[i].value - least) < 1e-9;
            kept += l.sorted[i].value >= least;
        }
        cr_filter_top_n_sigma(&l.list, (float)n_sigma);
        if (!close)
            expect_range(&l, 0, kept);
    }
}

static void test_typical(void **state)
{
    (void)state;
    cr_rng rng;
    cr_rng_seed(&rng, 2);
    int compared = 0;
    for (int round = 0; round < 1000; round++) {
        make_lists(&l, &rng, round);
        double h = entropy(&l), p = (double)(float)cr_rng_unit(&rng), sum = 0.0;
        assert_true(fabs(cr_filter_entropy(&l.list) - h) < 1e-12 * (1 + h));
        for (size_t i = 0; i < l.n; i++)
            l.sorted[i].rank = (double)(float)-fabs(-log(l.sorted[i].p) - h);
        qsort(l.sorted, l.n, sizeof(entry), by_rank);
        size_t kept = 0;
        bool close = false;
        do {
            sum += l.sorted[kept++].p;
            close |= fabs(sum - p) < 1e-9;
        } while (kept < l.n && sum < p);
        /* Two ranks that are equal but for rounding may come in either order. */
        close |= kept < l.n && l.sorted[kept].rank > l.sorted[kept - 1].rank - 1e-5;
        cr_filter_typical(&l.list, (float)p);
        if (close)
            continue;
        compared++;
        expect_range(&l, 0, kept);
    }
    assert_true(compared > 450);
}

static void test_xtc_filter(void **state)
{
    (void)state;
    cr_rng rng;
    cr_rng_seed(&rng, 3);
    for (int round = 0; round < 1000; round++) {
        make_lists(&l, &rng, round);
        double threshold = (double)(float)(cr_rng_unit(&rng) * 0.2);
        size_t n_top = 0;
        bool close = false;
        for (size_t i = 0; i < l.n; i++) {
            n_top += l.sorted[i].p >= threshold;
            close |= fabs(l.sorted[i].p - threshold) < 1e-12;
        }
        cr_filter_xtc(&l.list, (float)threshold);
        if (!close)
            expect_range(&l, n_top < 2 ? 0 : n_top - 1, l.n);
    }
}

static void test_max_surprise(void **state)
{
    (void)state;
    cr_rng rng;
    cr_rng_seed(&rng, 4);
    for (int round = 0; round < 1000; round++) {
        make_lists(&l, &rng, round);
        double most = cr_rng_unit(&rng) * 12 - 1;
        size_t kept = 0, n_best = 0;
        bool close = false;
        for (size_t i = 0; i < l.n; i++) {
            n_best += l.sorted[i].value == l.sorted[0].value;
            kept += -log2(l.sorted[i].p) <= most;
            close |= fabs(-log2(l.sorted[i].p) - most) < 1e-9;
        }
        size_t i = (size_t)(cr_rng_next(&rng) % l.n);
        double expected = -log2(l.sorted[i].p);
        assert_true(fabs(cr_filter_surprise(&l.list, l.sorted[i].id) - expected) < 1e-9);
        cr_filter_max_surprise(&l.list, most);
        if (!close)
            expect_range(&l, 0, kept > 0 ? kept : n_best);
    }
}

/* ---- penalties --------------------------------------------------------------------------- */

/* The logits that a sampler with no other stage sees, read back through greedy choices: which token
 * wins against a probe of known height. Two tokens: 0 is penalised, 1 is the probe. */
static bool beats(const cera_generate_options *options, float logit, float probe,
                  const int32_t *history, size_t n)
{
    cr_sampler *sampler = new_sampler(8, options);
    float logits[8] = { logit, probe, -50, -50, -50, -50, -50, -50 };
    bool wins = next(sampler, logits, history, n) == 0;
    cr_sampler_free(sampler);
    return wins;
}

static void expect_logit(const cera_generate_options *options, float logit, const int32_t *history,
                         size_t n, float expected)
{
    assert_true(beats(options, logit, expected - 0.01f, history, n));
    assert_false(beats(options, logit, expected + 0.01f, history, n));
}

/* Three times token 0 in six: 5 - 3 * 0.5 - 0.25. */
static void test_frequency_and_presence(void **state)
{
    (void)state;
    static const int32_t history[] = { 0, 3, 0, 4, 0, 5 };
    cera_generate_options options = plain_options();
    options.temperature = 0.0f; /* they count in a greedy choice too */
    options.penalty_window = -1;
    options.frequency_penalty = 0.5f;
    options.presence_penalty = 0.25f;
    expect_logit(&options, 5.0f, history, 6, 5.0f - 1.5f - 0.25f);
    expect_logit(&options, -5.0f, history, 6, -5.0f - 1.5f - 0.25f);
    options.frequency_penalty = -0.5f; /* a negative one attracts */
    expect_logit(&options, 5.0f, history, 6, 5.0f + 1.5f - 0.25f);
    options.frequency_penalty = 0.5f;
    options.penalty_window = 3; /* 4, 0, 5 */
    expect_logit(&options, 5.0f, history, 6, 5.0f - 0.5f - 0.25f);
    options.penalty_window = 1;
    expect_logit(&options, 5.0f, history, 6, 5.0f);
    options.penalty_window = 0; /* this call has generated nothing yet */
    expect_logit(&options, 5.0f, history, 6, 5.0f);
    options.penalty_window = 1000;
    expect_logit(&options, 5.0f, history, 6, 5.0f - 1.5f - 0.25f);
}

/* A window that moves over a long history counts what a fresh count of it gives. */
static void test_counts_move(void **state)
{
    (void)state;
    enum { V = 7, N = 500 };
    int32_t history[N], count[V] = { 0 };
    uint64_t seen[1] = { 0 };
    cr_rng rng;
    cr_rng_seed(&rng, 9);
    for (size_t i = 0; i < N; i++)
        history[i] = (int32_t)(cr_rng_next(&rng) % V);
    cr_counts counts = { V, count, seen, 0, 0 };
    size_t from = 0, end = 0;
    while (end < N) {
        size_t step = (size_t)(cr_rng_next(&rng) % 9), width = (size_t)(cr_rng_next(&rng) % 20);
        end = CR_MIN(end + step, N);
        from = CR_MAX(from, end - CR_MIN(end, width));
        cr_counts_move(&counts, history, from, end);
        for (int32_t id = 0; id < V; id++) {
            int expected = 0;
            for (size_t i = from; i < end; i++)
                expected += history[i] == id;
            assert_int_equal(count[id], expected);
            assert_int_equal(seen[0] >> id & 1, expected > 0);
        }
    }
}

/* DRY by its definition: for each earlier place, the length of the sequence before it that equals
 * the end of the window, up to a breaker. */
static int32_t longest_repeat(const int32_t *window, size_t n, int32_t id, int32_t breaker)
{
    int32_t longest = 0;
    for (size_t place = 1; place < n; place++) {
        if (window[place] != id)
            continue;
        int32_t length = 0;
        while ((size_t)length < place && window[place - 1 - (size_t)length] != breaker &&
               window[place - 1 - (size_t)length] == window[n - 1 - (size_t)length])
            length++;
        longest = CR_MAX(longest, length);
    }
    return longest;
}

static void test_dry_against_definition(void **state)
{
    (void)state;
    enum { V = 6, N = 200, BREAKER = 5 };
    cr_rng rng;
    cr_rng_seed(&rng, 5);
    int penalised = 0;
    for (int round = 0; round < 500; round++) {
        int32_t window[N], longest[V] = { 0 }, matching[N];
        size_t n = (size_t)(cr_rng_next(&rng) % N);
        for (size_t i = 0; i < n; i++) {
            bool copies = i > 20 && cr_rng_unit(&rng) < 0.8; /* long repetitions */
            window[i] = copies ? window[i - 17] : (int32_t)(cr_rng_next(&rng) % V);
        }
        uint64_t breaks[1] = { UINT64_C(1) << BREAKER };
        cr_dry dry = { 0.5f, 1.5f, 1 + round % 4, breaks, longest, matching };
        float value[V] = { 0 };
        cr_candidates list = { .n = V, .value = value, .is_whole = true };
        cr_dry_apply(&dry, &list, window, n, 1.0f);
        for (int32_t id = 0; id < V; id++) {
            int32_t length = id == BREAKER ? 0 : longest_repeat(window, n, id, BREAKER);
            double expected =
                length < dry.allowed_length ? 0.0 : -0.5 * pow(1.5, length - dry.allowed_length);
            assert_true(fabs((double)value[id] - expected) <= 1e-4 * fabs(expected));
            assert_int_equal(longest[id], 0);
            penalised += expected < 0.0;
        }
    }
    assert_true(penalised > 500);
}

/* A B C D ... A B C: D loses 0.8 * 1.75^(3 - 2). */
static void test_dry_in_a_sampler(void **state)
{
    (void)state;
    static const int32_t history[] = { 4, 5, 6, 0, 7, 4, 5, 6 };
    cera_generate_options options = plain_options();
    options.temperature = 0.0f;
    options.dry_multiplier = 0.8f;
    expect_logit(&options, 2.0f, history, 8, 2.0f - 0.8f * 1.75f);
    options.dry_allowed_length = 4;
    expect_logit(&options, 2.0f, history, 8, 2.0f);
    options.dry_allowed_length = 2;
    options.dry_window = 7; /* 5 6 0 7 4 5 6: two in common */
    expect_logit(&options, 2.0f, history, 8, 2.0f - 0.8f);
    options.dry_window = 0;
    expect_logit(&options, 2.0f, history, 8, 2.0f);
}

/* ---- distributions ----------------------------------------------------------------------- */

enum { N_TOKENS = 12, DRAWS = 1000000 };
static const float some_logits[N_TOKENS] = { 0.3f,  2.1f, -1.0f, 1.4f, 0.9f,  -0.2f,
                                             -2.5f, 1.9f, 0.0f,  0.5f, -0.7f, 1.1f };

static void softmax(double temperature, double *p)
{
    double total = 0.0;
    for (int i = 0; i < N_TOKENS; i++)
        total += p[i] = exp((double)some_logits[i] / temperature);
    for (int i = 0; i < N_TOKENS; i++)
        p[i] /= total;
}

static void renormalise(double *p)
{
    double total = 0.0;
    for (int i = 0; i < N_TOKENS; i++)
        total += p[i];
    for (int i = 0; i < N_TOKENS; i++)
        p[i] /= total;
}

/* Pearson's statistic of a million draws. With 11 degrees of freedom at most it exceeds 31.3 once
 * in 1,000 times; the seed is fixed. What has no probability is never drawn. */
static void expect_distribution(const cera_generate_options *options, const double *p)
{
    int counts[N_TOKENS] = { 0 };
    cr_sampler *sampler = new_sampler(N_TOKENS, options);
    for (int i = 0; i < DRAWS; i++)
        counts[next(sampler, some_logits, NULL, 0)]++;
    cr_sampler_free(sampler);
    double chi = 0.0;
    for (int i = 0; i < N_TOKENS; i++) {
        if (p[i] == 0.0)
            assert_int_equal(counts[i], 0);
        else
            chi += pow(counts[i] - DRAWS * p[i], 2) / (DRAWS * p[i]);
    }
    assert_true(chi < 31.3);
}

static void test_plain_distribution(void **state)
{
    (void)state;
    double p[N_TOKENS];
    cera_generate_options options = plain_options();
    options.temperature = 1.3f;
    softmax(1.3, p);
    expect_distribution(&options, p);
}

/* T = t - r + 2 r (H / log n)^e, with H the entropy at temperature 1. */
static void test_dynamic_temperature(void **state)
{
    (void)state;
    double p[N_TOKENS], h = 0.0;
    softmax(1.0, p);
    for (int i = 0; i < N_TOKENS; i++)
        h -= p[i] * log(p[i]);
    static const float exponents[] = { 0.5f, 1.0f, 2.0f };
    for (size_t i = 0; i < CR_COUNT(exponents); i++) {
        cera_generate_options options = plain_options();
        options.temperature = 0.9f;
        options.temperature_range = 0.6f;
        options.temperature_exponent = exponents[i];
        double share = pow(h / log(N_TOKENS), (double)exponents[i]);
        softmax((double)0.9f - (double)0.6f + 2 * (double)0.6f * share, p);
        expect_distribution(&options, p);
    }
}

/* In 30 of 100 cases the tokens of probability 0.1 and more go, but for the last of them. */
static void test_xtc_distribution(void **state)
{
    (void)state;
    double p[N_TOKENS], without[N_TOKENS];
    softmax(1.0, p);
    memcpy(without, p, sizeof p);
    int least = -1;
    for (int i = 0; i < N_TOKENS; i++) {
        if (p[i] >= (double)0.1f && (least < 0 || p[i] < p[least]))
            least = i;
    }
    for (int i = 0; i < N_TOKENS; i++) {
        if (p[i] >= (double)0.1f && i != least)
            without[i] = 0.0;
    }
    renormalise(without);
    for (int i = 0; i < N_TOKENS; i++)
        p[i] = 0.7 * p[i] + 0.3 * without[i];
    cera_generate_options options = plain_options();
    options.xtc_probability = 0.3f;
    expect_distribution(&options, p);
}

/* Filters see what the stage before them left: min-p 0.3 before or after a temperature of 3. */
static void test_order(void **state)
{
    (void)state;
    static const cera_sampler orders[][2] = {
        { CERA_SAMPLER_MIN_P, CERA_SAMPLER_TEMPERATURE },
        { CERA_SAMPLER_TEMPERATURE, CERA_SAMPLER_MIN_P },
    };
    for (int i = 0; i < 2; i++) {
        double p[N_TOKENS];
        softmax(3.0, p);
        for (int j = 0; j < N_TOKENS; j++) {
            double ratio = exp(((double)some_logits[j] - (double)2.1f) / (i == 0 ? 1.0 : 3.0));
            p[j] = ratio < 0.3 ? 0.0 : p[j];
        }
        renormalise(p);
        cera_generate_options options = plain_options();
        options.temperature = 3.0f;
        options.min_p = 0.3f;
        options.top_p = 0.5f; /* not in the list: off */
        options.samplers = orders[i];
        options.n_samplers = 2;
        expect_distribution(&options, p);
    }
}

/* A penalty behind the temperature is taken off the divided logit. */
static void test_penalty_after_temperature(void **state)
{
    (void)state;
    static const cera_sampler order[] = { CERA_SAMPLER_TEMPERATURE, CERA_SAMPLER_PENALTIES };
    static const int32_t history[] = { 1, 1 };
    cera_generate_options options = plain_options();
    options.temperature = 2.0f;
    options.presence_penalty = 0.7f;
    options.penalty_window = -1;
    options.samplers = order;
    options.n_samplers = 2;
    enum { RUNS = 100000 };
    cr_sampler *sampler = new_sampler(2, &options);
    int ones = 0;
    for (int i = 0; i < RUNS; i++)
        ones += next(sampler, (const float[]){ 0.0f, 3.0f }, history, 2) == 1;
    cr_sampler_free(sampler);
    double p = 1.0 / (1.0 + exp(-(1.5 - 0.7)));
    assert_true(fabs(ones - RUNS * p) < 4.5 * sqrt(RUNS * p * (1 - p)));
}

/* ---- mirostat ---------------------------------------------------------------------------- */

/* Each step is what the paper's algorithm does with the same mu: tokens with a surprise above it
 * are never drawn, and mu follows the surprise of the drawn one. In the long run the mean surprise
 * is tau.
 */
static void test_mirostat(void **state)
{
    (void)state;
    enum { V = 200, STEPS = 20000 };
    float logits[V];
    double surprise[V], total = 0.0;
    for (int i = 0; i < V; i++) {
        logits[i] = -1.1f * logf((float)(i + 1)); /* Zipf */
        total += exp((double)logits[i]);
    }
    for (int i = 0; i < V; i++)
        surprise[i] = -log2(exp((double)logits[i]) / total);
    cera_generate_options options = plain_options();
    options.mirostat_tau = 3.0f;
    options.mirostat_eta = 0.1f;
    options.top_k = 1; /* none of these has a say */
    options.top_p = 0.0f;
    options.min_p = 1.0f;
    cr_sampler *sampler = new_sampler(V, &options);
    double mu = 6.0, sum = 0.0;
    for (int i = 0; i < STEPS; i++) {
        int32_t id = next(sampler, logits, NULL, 0);
        assert_true(surprise[id] <= mu + 1e-6 || id == 0);
        double kept = 0.0; /* the share of those that mu lets in */
        for (int j = 0; j < V; j++)
            kept += surprise[j] <= mu || j == 0 ? exp2(-surprise[j]) : 0.0;
        double observed = surprise[id] + log2(kept);
        mu -= (double)0.1f * (observed - 3.0);
        sum += observed;
    }
    cr_sampler_free(sampler);
    assert_true(fabs(sum / STEPS - 3.0) < 0.02);
}

/* ---- whatever the setting ---------------------------------------------------------------- */

/* Some token comes out of every stage at its narrowest, whatever the logits. */
static void test_something_survives(void **state)
{
    (void)state;
    static const float rows[][4] = {
        { 1, 1, 1, 1 },
        { 3e38f, -3e38f, NAN, 0 },
        { -INFINITY, NAN, INFINITY, -1 },
        { 80, 0, -80, -300 },
    };
    static const int32_t history[] = { 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2 };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        for (unsigned set = 0; set < 256; set++) {
            cera_generate_options options = plain_options();
            options.temperature = set & 1 ? 1e-6f : 100.0f;
            options.temperature_range = set & 2 ? options.temperature : 0.0f;
            options.typical_p = set & 4 ? 0.0f : 1.0f;
            options.top_n_sigma = set & 8 ? 1e-6f : 0.0f;
            options.xtc_probability = set & 16 ? 1.0f : 0.0f;
            options.xtc_threshold = 0.0f;
            options.mirostat_tau = set & 32 ? 1e-6f : 0.0f;
            options.dry_multiplier = set & 64 ? 3e38f : 0.0f;
            options.min_p = set & 128 ? 1.0f : 0.0f;
            options.frequency_penalty = 1e38f;
            options.penalty_window = -1;
            cr_sampler *sampler = new_sampler(4, &options);
            for (int draw = 0; draw < 4; draw++) {
                int32_t id = next(sampler, rows[i], history, CR_COUNT(history));
                assert_true(isfinite(rows[i][id]));
            }
            cr_sampler_free(sampler);
        }
    }
}

static void expect_refused(const cera_generate_options *options, const char *field)
{
    cr_sampler *sampler = NULL;
    cera_error err;
    assert_int_equal(cr_sampler_new(&host, 10, 10, options, &sampler, &err), CERA_E_ARG);
    assert_null(sampler);
    assert_non_null(strstr(err.message, field));
}

static void test_options(void **state)
{
    (void)state;
#define REFUSED(field, value)                                                                      \
    do {                                                                                           \
        cera_generate_options options = plain_options();                                           \
        options.field = (value);                                                                   \
        expect_refused(&options, #field);                                                          \
    } while (0)
    REFUSED(typical_p, -0.1f);
    REFUSED(typical_p, 1.1f);
    REFUSED(typical_p, NAN);
    REFUSED(top_n_sigma, -1.0f);
    REFUSED(top_n_sigma, INFINITY);
    REFUSED(xtc_probability, 2.0f);
    REFUSED(xtc_threshold, -1.0f);
    REFUSED(mirostat_tau, -1.0f);
    REFUSED(mirostat_tau, NAN);
    REFUSED(mirostat_eta, -1.0f);
    REFUSED(temperature_range, 1.5f);
    REFUSED(temperature_range, -0.5f);
    REFUSED(temperature_range, NAN);
    REFUSED(temperature_exponent, -1.0f);
    REFUSED(frequency_penalty, NAN);
    REFUSED(frequency_penalty, -INFINITY);
    REFUSED(presence_penalty, INFINITY);
    REFUSED(penalty_window, -2);
    REFUSED(dry_multiplier, -1.0f);
    REFUSED(dry_base, 0.5f);
    REFUSED(dry_allowed_length, 0);
    REFUSED(dry_window, -2);
    static const cera_sampler twice[] = { CERA_SAMPLER_TOP_K, CERA_SAMPLER_TOP_K };
    static const cera_sampler unknown[] = { (cera_sampler)77 };
    cera_generate_options options = plain_options();
    options.samplers = twice;
    options.n_samplers = 2;
    expect_refused(&options, "samplers");
    options.samplers = unknown;
    options.n_samplers = 1;
    expect_refused(&options, "samplers");
    options.samplers = NULL;
    expect_refused(&options, "samplers");
    assert_int_equal(cr_host_live(&host), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_top_n_sigma),
        cmocka_unit_test(test_typical),
        cmocka_unit_test(test_xtc_filter),
        cmocka_unit_test(test_max_surprise),
        cmocka_unit_test(test_frequency_and_presence),
        cmocka_unit_test(test_counts_move),
        cmocka_unit_test(test_dry_against_definition),
        cmocka_unit_test(test_dry_in_a_sampler),
        cmocka_unit_test(test_plain_distribution),
        cmocka_unit_test(test_dynamic_temperature),
        cmocka_unit_test(test_xtc_distribution),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_penalty_after_temperature),
        cmocka_unit_test(test_mirostat),
        cmocka_unit_test(test_something_survives),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}

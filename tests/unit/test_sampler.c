/* The sampler against the formulas of its contract: values worked out by hand, a plain reference
 * that sorts, and counts of many draws. */
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
#include "sample/rng.h"
#include "sample/sampler.h"

enum { MAX_N = 512 };

static cr_host host;

static int set_up(void **state)
{
    (void)state;
    return cr_host_set(&host, NULL, NULL) == CERA_OK ? 0 : -1;
}

/* Everything off: the draw sees the whole distribution. */
static cera_generate_options plain_options(void)
{
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.temperature = 1.0f;
    options.top_k = 0;
    options.top_p = 1.0f;
    options.min_p = 0.0f;
    options.repetition_penalty = 1.0f;
    options.seed = 7;
    return options;
}

/* What the sampler of a test has chosen so far. */
static int32_t history[1 << 20];
static size_t n_history;

static cr_sampler *new_sampler(size_t n, const cera_generate_options *options)
{
    cr_sampler *sampler = NULL;
    cera_error err;
    assert_int_equal(cr_sampler_new(&host, n, CR_COUNT(history), options, &sampler, &err), CERA_OK);
    n_history = 0;
    return sampler;
}

static int32_t next(cr_sampler *sampler, const float *logits)
{
    int32_t id = -1;
    cera_error err;
    assert_int_equal(cr_sampler_next(sampler, logits, NULL, history, n_history, &id, &err),
                     CERA_OK);
    history[n_history++] = id;
    return id;
}

/* How often each of n tokens comes in `draws` draws with the penalty out of the way. */
static void count_draws(const cera_generate_options *options, const float *logits, size_t n,
                        int draws, int *counts)
{
    cr_sampler *sampler = new_sampler(n, options);
    memset(counts, 0, n * sizeof(int));
    for (int i = 0; i < draws; i++)
        counts[next(sampler, logits)]++;
    cr_sampler_free(sampler);
}

static int n_drawn(const int *counts, size_t n)
{
    int distinct = 0;
    for (size_t i = 0; i < n; i++)
        distinct += counts[i] > 0;
    return distinct;
}

/* ---- the generator ----------------------------------------------------------------------- */

/* The published vectors: xoshiro256** from the state {1, 2, 3, 4}, SplitMix64 from 1234567. */
static void test_rng_vectors(void **state)
{
    (void)state;
    cr_rng rng = { { 1, 2, 3, 4 } };
    static const uint64_t expected[] = { 11520, 0, 1509978240, UINT64_C(1215971899390074240),
                                         UINT64_C(1216172134540287360) };
    for (size_t i = 0; i < CR_COUNT(expected); i++)
        assert_true(cr_rng_next(&rng) == expected[i]);

    cr_rng_seed(&rng, 1234567);
    static const uint64_t seeded[] = { UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                       UINT64_C(9817491932198370423),
                                       UINT64_C(4593380528125082431) };
    for (size_t i = 0; i < 4; i++)
        assert_true(rng.state[i] == seeded[i]);

    cr_rng_seed(&rng, 0);
    for (int i = 0; i < 1000; i++) {
        double unit = cr_rng_unit(&rng);
        assert_true(unit >= 0.0 && unit < 1.0);
    }
}

static void test_exp(void **state)
{
    (void)state;
    assert_true(cr_exp_neg(0.0) == 1.0);
    assert_true(cr_exp_neg(-INFINITY) == 0.0);
    assert_true(cr_exp_neg(-1e300) == 0.0);
    for (double x = 0.0; x > -707.0; x -= 0.0371) {
        double expected = exp(x);
        assert_true(fabs(cr_exp_neg(x) - expected) <= 4e-16 * expected);
    }
}

/* ---- greedy ------------------------------------------------------------------------------ */

static void test_greedy(void **state)
{
    (void)state;
    static const float logits[] = { 1.0f, 3.0f, 2.0f };
    static const float temperatures[] = { 0.0f, -1.0f, NAN, INFINITY, 1e-30f, 1e-45f };
    for (size_t i = 0; i < CR_COUNT(temperatures); i++) {
        for (uint64_t seed = 0; seed < 20; seed++) {
            cera_generate_options options = plain_options();
            options.temperature = temperatures[i];
            options.seed = seed;
            cr_sampler *sampler = new_sampler(3, &options);
            assert_int_equal(next(sampler, logits), 1);
            cr_sampler_free(sampler);
        }
    }
    cera_generate_options options = plain_options();
    options.top_k = 1;
    cr_sampler *sampler = new_sampler(3, &options);
    for (int i = 0; i < 20; i++)
        assert_int_equal(next(sampler, logits), 1);
    cr_sampler_free(sampler);
}

static void test_argmax(void **state)
{
    (void)state;
    assert_int_equal(cr_argmax((const float[]){ 1.0f, 2.0f, 2.0f }, 3), 1);
    assert_int_equal(cr_argmax((const float[]){ NAN, -5.0f, NAN }, 3), 1);
    assert_int_equal(cr_argmax((const float[]){ -3.0f, NAN, -1.0f }, 3), 2);
    assert_int_equal(cr_argmax((const float[]){ NAN, NAN }, 2), -1);
    assert_int_equal(cr_argmax((const float[]){ -INFINITY, -INFINITY }, 2), -1);
    assert_int_equal(cr_argmax((const float[]){ 1.0f, INFINITY }, 2), 0);
    assert_int_equal(cr_argmax(NULL, 0), -1);

    /* The first of two that are equal, wherever they are, behind lesser ones and what is none. */
    enum { N = 203 };
    float logits[N];
    for (int at = 0; at < N; at++) {
        for (int i = 0; i < N; i++)
            logits[i] = (float)(i % 3) - 4.0f;
        logits[N - 1 - at] = INFINITY;
        logits[(at + 70) % N] = NAN;
        logits[at] = logits[CR_MIN(at + 66, N - 1)] = 5.0f;
        assert_int_equal(cr_argmax(logits, N), at);
    }
}

/* The bias counts in the greedy choice, the penalty does not. */
static void test_greedy_bias_and_penalty(void **state)
{
    (void)state;
    static const float logits[] = { 1.0f, 3.0f, 2.9f };
    cera_generate_options options = plain_options();
    options.temperature = 0.0f;
    options.repetition_penalty = 100.0f;
    cr_sampler *sampler = new_sampler(3, &options);
    for (int i = 0; i < 5; i++)
        assert_int_equal(next(sampler, logits), 1);
    cr_sampler_free(sampler);

    static const cera_logit_bias bias[] = { { 1, -100.0f } };
    options.bias = bias;
    options.n_bias = 1;
    sampler = new_sampler(3, &options);
    assert_int_equal(next(sampler, logits), 2);
    cr_sampler_ban(sampler, 2);
    assert_int_equal(next(sampler, logits), 0);
    cr_sampler_free(sampler);
}

/* Each ban takes one token, in whatever word of bits it is. */
static void test_many_bans(void **state)
{
    (void)state;
    enum { N = 150 };
    float logits[N];
    for (int i = 0; i < N; i++)
        logits[i] = (float)(i * 37 % N);
    cera_generate_options options = plain_options();
    options.temperature = 0.0f;
    cr_sampler *sampler = new_sampler(N, &options);
    for (int i = N - 1; i > 0; i--) {
        int32_t best = next(sampler, logits);
        assert_int_equal(best * 37 % N, i);
        cr_sampler_ban(sampler, best);
    }
    cr_sampler_free(sampler);
}

/* ---- what is not a logit ----------------------------------------------------------------- */

static void test_no_candidate(void **state)
{
    (void)state;
    static const float none[][3] = {
        { -INFINITY, -INFINITY, -INFINITY },
        { NAN, NAN, NAN },
        { INFINITY, -INFINITY, -INFINITY },
    };
    for (int greedy = 0; greedy < 2; greedy++) {
        cera_generate_options options = plain_options();
        options.temperature = greedy ? 0.0f : 1.0f;
        cr_sampler *sampler = new_sampler(3, &options);
        for (size_t i = 0; i < CR_COUNT(none); i++) {
            int32_t id = 77;
            cera_error err;
            assert_int_equal(cr_sampler_next(sampler, none[i], NULL, history, 0, &id, &err),
                             CERA_E_FORMAT);
            assert_int_equal(id, 77);
            assert_non_null(strstr(err.message, "logits"));
        }
        /* A bad row leaves the sampler usable. */
        assert_int_equal(next(sampler, (const float[]){ NAN, 1.0f, -INFINITY }), 1);
        cr_sampler_ban(sampler, 1);
        int32_t id;
        assert_int_equal(cr_sampler_next(sampler, (const float[]){ NAN, 1.0f, -INFINITY }, NULL,
                                         history, 1, &id, NULL),
                         CERA_E_ARG);
        cr_sampler_free(sampler);
    }
}

static void test_masked_is_never_drawn(void **state)
{
    (void)state;
    static const float logits[] = { -INFINITY, 0.0f, NAN, 0.0f, INFINITY, -3.4e38f, 3.0f };
    static const cera_logit_bias bias[] = { { 6, -INFINITY }, { 0, 50.0f } };
    cera_generate_options options = plain_options();
    options.bias = bias;
    options.n_bias = 2;
    int counts[7];
    count_draws(&options, logits, 7, 5000, counts);
    assert_int_equal(counts[1] + counts[3], 5000);
    assert_int_equal(n_drawn(counts, 7), 2);
}

/* ---- filters ----------------------------------------------------------------------------- */

static void to_logits(const double *probabilities, size_t n, float *logits)
{
    for (size_t i = 0; i < n; i++)
        logits[i] = (float)log(probabilities[i]);
}

static void test_top_k_keeps_ties(void **state)
{
    (void)state;
    static const float logits[] = { 1.0f, 2.0f, 2.0f, -0.0f, 2.0f, 0.0f, 3.0f };
    cera_generate_options options = plain_options();
    int counts[7];
    options.top_k = 2; /* 3, and all three 2s */
    count_draws(&options, logits, 7, 2000, counts);
    assert_int_equal(n_drawn(counts, 7), 4);
    assert_true(counts[1] > 0 && counts[2] > 0 && counts[4] > 0 && counts[6] > 0);
    options.top_k = 6; /* +0 and -0 are equal */
    count_draws(&options, logits, 7, 5000, counts);
    assert_int_equal(n_drawn(counts, 7), 7);
    options.top_k = 5;
    count_draws(&options, logits, 7, 5000, counts);
    assert_int_equal(n_drawn(counts, 7), 5);
}

/* Top-k 3 of {.4 .3 .2 .1} renormalises to {.444 .333 .222}: 0.75 is then reached by two. */
static void test_top_p_after_top_k(void **state)
{
    (void)state;
    float logits[4];
    to_logits((const double[]){ 0.4, 0.3, 0.2, 0.1 }, 4, logits);
    cera_generate_options options = plain_options();
    options.top_p = 0.75f;
    int counts[4];
    count_draws(&options, logits, 4, 2000, counts);
    assert_int_equal(n_drawn(counts, 4), 3);
    options.top_k = 3;
    count_draws(&options, logits, 4, 2000, counts);
    assert_int_equal(n_drawn(counts, 4), 2);
}

/* With temperature 2 the ratios to the best are 1, .77, .55, .32: a min-p of 0.2 keeps all four,
 * where it would keep three of the unscaled ones. */
static void test_temperature_before_min_p(void **state)
{
    (void)state;
    float logits[4];
    to_logits((const double[]){ 0.5, 0.3, 0.15, 0.05 }, 4, logits);
    cera_generate_options options = plain_options();
    options.min_p = 0.2f;
    int counts[4];
    count_draws(&options, logits, 4, 3000, counts);
    assert_int_equal(n_drawn(counts, 4), 3);
    options.temperature = 2.0f;
    count_draws(&options, logits, 4, 3000, counts);
    assert_int_equal(n_drawn(counts, 4), 4);
}

static void test_something_survives(void **state)
{
    (void)state;
    static const float logits[] = { 0.5f, 2.0f, 2.0f, 1.0f };
    int counts[4];
    cera_generate_options options = plain_options();
    options.min_p = 1.0f; /* the largest and its equals */
    count_draws(&options, logits, 4, 500, counts);
    assert_int_equal(counts[1] + counts[2], 500);
    assert_int_equal(n_drawn(counts, 4), 2);
    options.min_p = 0.0f;
    options.top_p = 0.0f; /* one */
    count_draws(&options, logits, 4, 500, counts);
    assert_int_equal(counts[1], 500);
    options.top_k = 2;
    options.min_p = 1.0f;
    count_draws(&options, logits, 4, 500, counts);
    assert_int_equal(counts[1], 500);
}

/* {2, 2, -2} with penalty 4, after tokens 0 and 2: {0.5, 2, -8}. Twice the same token counts once,
 * so the distribution does not move any further. */
static void test_penalty(void **state)
{
    (void)state;
    static const float first[] = { 9.0f, -90.0f, -90.0f };
    static const float third[] = { -90.0f, -90.0f, 9.0f };
    static const float logits[] = { 2.0f, 2.0f, -2.0f };
    cera_generate_options options = plain_options();
    options.repetition_penalty = 4.0f;
    enum { RUNS = 20000 };
    int zero = 0, two = 0;
    for (int run = 0; run < RUNS; run++) {
        options.seed = (uint64_t)run;
        cr_sampler *sampler = new_sampler(3, &options);
        assert_int_equal(next(sampler, first), 0);
        assert_int_equal(next(sampler, first), 0); /* 9/4 against -90 */
        assert_int_equal(next(sampler, third), 2);
        int32_t id = next(sampler, logits);
        zero += id == 0;
        two += id == 2;
        cr_sampler_free(sampler);
    }
    double sum = exp(0.5) + exp(2.0) + exp(-8.0);
    double p = exp(0.5) / sum; /* 0.182 */
    double sigma = sqrt(RUNS * p * (1 - p));
    assert_true(fabs(zero - RUNS * p) < 4.5 * sigma);
    assert_true(two <= 3); /* RUNS * 3.7e-5 = 0.7 */
}

/* Pearson's statistic over 20 tokens: 19 degrees of freedom exceed 43.8 once in 1,000 times; the
 * seed is fixed, so this either holds or does not. */
static void test_draw_distribution(void **state)
{
    (void)state;
    enum { N = 20, DRAWS = 100000 };
    float logits[N];
    double sum = 0.0;
    for (int i = 0; i < N; i++) {
        logits[i] = (float)((i * 7) % N) * 0.13f - 1.0f;
        sum += exp((double)logits[i] / 0.8);
    }
    cera_generate_options options = plain_options();
    options.temperature = 0.8f;
    int counts[N];
    count_draws(&options, logits, N, DRAWS, counts);
    double chi = 0.0;
    for (int i = 0; i < N; i++) {
        double expected = DRAWS * exp((double)logits[i] / 0.8) / sum;
        chi += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    assert_true(chi < 43.8);
}

/* ---- filters against a reference that sorts ---------------------------------------------- */

typedef struct entry {
    int32_t id;
    double value;
} entry;

static int by_value(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static void test_filters_against_sorting(void **state)
{
    (void)state;
    static int32_t id[MAX_N];
    static float value[MAX_N];
    static double weight[MAX_N], bins[CR_FILTER_BINS];
    cr_rng rng;
    cr_rng_seed(&rng, 42);
    int compared = 0;
    for (int round = 0; round < 3000; round++) {
        size_t n = 1 + (size_t)(cr_rng_next(&rng) % (MAX_N - 1));
        entry sorted[MAX_N];
        bool coarse = round % 2 == 0; /* many ties */
        for (size_t i = 0; i < n; i++) {
            double x = (cr_rng_unit(&rng) + cr_rng_unit(&rng) - 1.0) * (round % 3 == 0 ? 40 : 4);
            value[i] = (float)(coarse ? floor(x * 2) : x);
            id[i] = (int32_t)i;
            sorted[i] = (entry){ (int32_t)i, (double)value[i] };
        }
        qsort(sorted, n, sizeof(entry), by_value);
        size_t k = (size_t)(cr_rng_next(&rng) % (n + 2));
        float top_p = round % 5 == 0 ? 1.0f : (float)cr_rng_unit(&rng);
        float min_p = round % 7 == 0 ? 0.0f : (float)(cr_rng_unit(&rng) * 0.3);
        float temperature = (float)(0.2 + cr_rng_unit(&rng) * 2);

        /* The reference: a prefix of the sorted list. */
        size_t m = n;
        if (k > 0 && k < n) {
            m = k;
            while (m < n && sorted[m].value == sorted[k - 1].value)
                m++;
        }
        double total = 0.0, sum = 0.0;
        for (size_t i = 0; i < m; i++)
            total += exp((sorted[i].value - sorted[0].value) / (double)temperature);
        bool close = false;
        if (top_p < 1.0f) {
            size_t kept = 0;
            do {
                sum += exp((sorted[kept].value - sorted[0].value) / (double)temperature);
                close |= fabs(sum - (double)top_p * total) < 1e-9 * total;
                kept++;
            } while (kept < m && sum < (double)top_p * total);
            m = kept;
        }
        while (m > 1 &&
               exp((sorted[m - 1].value - sorted[0].value) / (double)temperature) < (double)min_p)
            m--;

        cr_candidates list = { n, id, value, weight, NULL, bins, false };
        cr_filter_top_k(&list, k);
        cr_filter_weigh(&list, (double)temperature);
        cr_filter_top_p(&list, top_p);
        cr_filter_min_p(&list, min_p);
        if (close)
            continue;
        compared++;
        assert_int_equal(list.n, m);
        for (size_t i = 0; i < m; i++) {
            bool found = false;
            for (size_t j = 0; j < m; j++)
                found |= list.id[j] == sorted[i].id;
            assert_true(found);
        }
        for (size_t i = 1; i < m; i++)
            assert_true(list.id[i - 1] < list.id[i]);
    }
    assert_true(compared > 2900);
}

/* Collecting may leave out only what top-k would drop. */
static void test_collect(void **state)
{
    (void)state;
    enum { N = 5000 };
    static int32_t id[2][N];
    static float value[2][N];
    static double weight[2][N], bins[CR_FILTER_BINS];
    cr_rng rng;
    cr_rng_seed(&rng, 3);
    for (int round = 0; round < 400; round++) {
        size_t n = 1 + (size_t)(cr_rng_next(&rng) % (N - 1));
        size_t k = (size_t)(cr_rng_next(&rng) % 100);
        size_t m = 0;
        for (size_t i = 0; i < n; i++) {
            double x = cr_rng_unit(&rng) * 1000 - 900;
            float v = (float)(round % 2 == 0 ? floor(x) : x);
            uint64_t odd = round % 5 == 0 ? cr_rng_next(&rng) % 4 : 3;
            v = odd == 0 ? NAN : odd == 1 ? -INFINITY : odd == 2 && i % 7 == 0 ? INFINITY : v;
            value[0][i] = v;
            if (isfinite(v)) {
                id[1][m] = (int32_t)i;
                value[1][m++] = v;
            }
        }
        cr_candidates fast = { 0, id[0], value[0], weight[0], NULL, bins, true };
        cr_candidates slow = { m, id[1], value[1], weight[1], NULL, bins, false };
        cr_filter_collect(&fast, n, k);
        cr_filter_top_k(&fast, k);
        cr_filter_top_k(&slow, k);
        assert_int_equal(fast.n, slow.n);
        assert_memory_equal(fast.id, slow.id, slow.n * sizeof(int32_t));
        assert_memory_equal(fast.value, slow.value, slow.n * sizeof(float));
    }
}

static void test_draw_edges(void **state)
{
    (void)state;
    int32_t id[] = { 4, 5, 6, 7 };
    double weight[] = { 0.0, 0.25, 0.75, 0.0 };
    cr_candidates list = { .n = 4, .id = id, .weight = weight };
    assert_int_equal(cr_filter_draw(&list, 0.0), 5);
    assert_int_equal(cr_filter_draw(&list, 0.2499999), 5);
    assert_int_equal(cr_filter_draw(&list, 0.25), 6);
    assert_int_equal(cr_filter_draw(&list, 0x1.fffffffffffffp-1), 6);
    assert_int_equal(cr_filter_draw(&list, 1.0), 6); /* as if rounding had left the sum short */
}

/* ---- seeds ------------------------------------------------------------------------------- */

static void test_seed(void **state)
{
    (void)state;
    enum { N = 64, LENGTH = 40 };
    float logits[N];
    for (int i = 0; i < N; i++)
        logits[i] = (float)(i % 5);
    int32_t text[3][LENGTH];
    static const uint64_t seeds[3] = { 42, 42, 43 };
    for (int run = 0; run < 3; run++) {
        cera_generate_options options = plain_options();
        options.seed = seeds[run];
        cr_sampler *sampler = new_sampler(N, &options);
        for (int i = 0; i < LENGTH; i++)
            text[run][i] = next(sampler, logits);
        cr_sampler_free(sampler);
    }
    assert_memory_equal(text[0], text[1], sizeof(text[0]));
    assert_memory_not_equal(text[0], text[2], sizeof(text[0]));
}

/* ---- options ----------------------------------------------------------------------------- */

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
    REFUSED(top_k, -1);
    REFUSED(top_p, -0.1f);
    REFUSED(top_p, 1.1f);
    REFUSED(top_p, NAN);
    REFUSED(min_p, -0.1f);
    REFUSED(min_p, 1.5f);
    REFUSED(min_p, NAN);
    REFUSED(repetition_penalty, 0.0f);
    REFUSED(repetition_penalty, -1.0f);
    REFUSED(repetition_penalty, NAN);
    REFUSED(repetition_penalty, INFINITY);
    REFUSED(n_logprobs, -1);
    REFUSED(n_logprobs, 21);
    static const cera_logit_bias bad[] = {
        { 10, 1.0f }, { -1, 1.0f }, { 1, NAN }, { 1, INFINITY }
    };
    for (size_t i = 0; i < CR_COUNT(bad); i++) {
        cera_generate_options options = plain_options();
        options.bias = &bad[i];
        options.n_bias = 1;
        expect_refused(&options, "bias");
    }
    cera_generate_options options = plain_options();
    options.n_bias = 1;
    expect_refused(&options, "bias");
    assert_int_equal(cr_host_live(&host), 0);
}

/* ---- log-probabilities ------------------------------------------------------------------- */

static void test_logprobs(void **state)
{
    (void)state;
    float logits[6];
    to_logits((const double[]){ 0.1, 0.4, 0.2, 0.2, 0.05, 0.05 }, 6, logits);
    cera_logprob top[4];
    assert_float_equal(cr_logprobs(logits, 6, 4, top, 4), (float)log(0.05), 1e-6f);
    static const int32_t ids[] = { 1, 2, 3, 0 };
    static const double probabilities[] = { 0.4, 0.2, 0.2, 0.1 };
    for (int i = 0; i < 4; i++) {
        assert_int_equal(top[i].id, ids[i]);
        assert_float_equal(top[i].logprob, (float)log(probabilities[i]), 1e-6f);
    }
    /* A shift of all logits changes nothing. */
    for (int i = 0; i < 6; i++)
        logits[i] += 80.0f;
    assert_float_equal(cr_logprobs(logits, 6, 1, NULL, 0), (float)log(0.4), 1e-5f);

    static const float odd[] = { NAN, 0.0f, -INFINITY, 0.0f };
    assert_float_equal(cr_logprobs(odd, 4, 3, top, 4), (float)log(0.5), 1e-6f);
    assert_int_equal(top[0].id, 1);
    assert_int_equal(top[1].id, 3);
    assert_int_equal(top[2].id, -1);
    assert_true(cr_logprobs(odd, 4, 0, NULL, 0) == -INFINITY);
    assert_true(cr_logprobs(odd, 4, 2, NULL, 0) == -INFINITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rng_vectors),
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_argmax),
        cmocka_unit_test(test_greedy_bias_and_penalty),
        cmocka_unit_test(test_many_bans),
        cmocka_unit_test(test_no_candidate),
        cmocka_unit_test(test_masked_is_never_drawn),
        cmocka_unit_test(test_top_k_keeps_ties),
        cmocka_unit_test(test_top_p_after_top_k),
        cmocka_unit_test(test_temperature_before_min_p),
        cmocka_unit_test(test_something_survives),
        cmocka_unit_test(test_penalty),
        cmocka_unit_test(test_draw_distribution),
        cmocka_unit_test(test_filters_against_sorting),
        cmocka_unit_test(test_collect),
        cmocka_unit_test(test_draw_edges),
        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_logprobs),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}

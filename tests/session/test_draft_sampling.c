/* Guesses keep the distribution of sampled texts: Pearson's chi-square test of many short texts
 * against the exact distribution.
 *
 * The three most likely tokens of a toy may be chosen each time, so all texts of four tokens are a
 * tree, whose probabilities follow from the logits at its nodes. The prompt is such a text, too, so
 * lookup finds what to guess in it. Guesses begin behind the second token: the third and the fourth
 * are the first ones that a wrong rule of acceptance could bend, and are counted. Seeds are fixed
 * and the clock, which decides how much is guessed, is made up: the figures are the same on every
 * run. CERA_NIGHTLY draws 200,000 texts of each kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/state_model.h"

#include "base/compiler.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    N_DRAWS = 10000, /* texts of each kind */
    N_NIGHTLY = 200000,
    N_CHOICES = 3, /* at each node */
    N_LENGTH = 4,
    N_NODES = 1 + 3 + 9 + 27,
    N_CELLS = N_CHOICES * N_CHOICES, /* the third and the fourth token */
    N_PROMPT = 60,
};
static const float temperature = 2.0f;

static gguf_build files[2];

static int build_models(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        state_model_build("llama", 128, (uint64_t)i, &files[i]);
    return 0;
}

static int drop_models(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        build_done(&files[i]);
    return 0;
}

static uint64_t tick(void *ctx)
{
    (void)ctx;
    static _Atomic uint64_t now;
    return atomic_fetch_add(&now, 1000);
}

static cera_engine *open_model(int i)
{
    cera_host host;
    cera_host_init(&host);
    host.os.clock_ns = tick;
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.host = &host;
    options.n_threads = 1;
    return state_model_open(&files[i], &options);
}

/* ---- the exact distribution -------------------------------------------------------------- */

/* What may follow a text: node i has its continuations at 3 i + 1 to 3 i + 3. */
typedef struct node {
    int32_t ids[N_CHOICES];
    double p[N_CHOICES];
} node;

/* The largest logits first. */
static node choices_of(const cera_session *s)
{
    const float *logits = cera_session_logits(s);
    node out;
    double sum = 0;
    for (int k = 0; k < N_CHOICES; k++) {
        int32_t best = -1;
        for (int32_t id = 0; id < TOY_N_VOCAB; id++) {
            bool is_taken = false;
            for (int i = 0; i < k; i++)
                is_taken = is_taken || out.ids[i] == id;
            if (!is_taken && (best < 0 || logits[id] > logits[best]))
                best = id;
        }
        out.ids[k] = best;
        sum += out.p[k] = exp((double)(logits[best] / temperature));
    }
    for (int k = 0; k < N_CHOICES; k++)
        out.p[k] /= sum;
    return out;
}

/* Fills in the nodes below, and adds the probabilities of the texts that end there: p is that of
 * the one so far, `path` its choices. */
static void grow(cera_session *s, int at, double p, int path, node *nodes, double *cells)
{
    nodes[at] = choices_of(s);
    for (int k = 0; k < N_CHOICES; k++) {
        int child = N_CHOICES * at + 1 + k, way = path * N_CHOICES + k;
        double reached = p * nodes[at].p[k];
        if (child >= N_NODES) {
            cells[way % N_CELLS] += reached;
            continue;
        }
        cera_session *fork;
        assert_int_equal(cera_session_fork(s, &fork, NULL), CERA_OK);
        assert_int_equal(cera_session_append_ids(fork, &nodes[at].ids[k], 1, NULL), CERA_OK);
        grow(fork, child, reached, way, nodes, cells);
        cera_session_free(fork);
    }
}

static int cell_of(const node *nodes, const int32_t *text)
{
    int at = 0, path = 0;
    for (int i = 0; i < N_LENGTH; i++) {
        int k = 0;
        while (k < N_CHOICES && nodes[at].ids[k] != text[i])
            k++;
        assert_in_range(k, 0, N_CHOICES - 1);
        path = path * N_CHOICES + k;
        at = N_CHOICES * at + 1 + k;
    }
    return path % N_CELLS;
}

/* ---- the test ---------------------------------------------------------------------------- */

static cera_generate_options sampled(int n)
{
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.temperature = temperature;
    options.top_k = N_CHOICES;
    options.top_p = 1;
    options.min_p = 0;
    options.repetition_penalty = 1;
    options.ignore_eos = true;
    options.max_tokens = n;
    return options;
}

/* Whether the statistic is one that a right sampler exceeds once in 10,000 times, by Wilson and
 * Hilferty. */
static bool fits(const uint64_t *counts, const double *cells, uint64_t n_draws, const char *what)
{
    double sum = 0, n = N_CELLS - 1;
    for (int i = 0; i < N_CELLS; i++) {
        double expected = cells[i] * (double)n_draws, off = (double)counts[i] - expected;
        assert_true(expected > 5);
        sum += off * off / expected;
    }
    double most = n * pow(1 - 2 / (9 * n) + 3.719 * sqrt(2 / (9 * n)), 3);
    print_message("%s: chi-square %.1f, at most %.1f\n", what, sum, most);
    return sum < most;
}

static void guesses_keep_the_distribution(void **state)
{
    (void)state;
    cera_engine *engine = open_model(0), *other = open_model(1);
    const struct {
        const char *what;
        int n_draft;
        cera_engine *draft;
    } kinds[] = {
        { "no guesses", 0, NULL },
        { "lookup", 4, NULL },
        { "the model itself", 4, engine },
        { "another model", 4, other },
    };
    cera_session *s;
    assert_int_equal(cera_session_new(engine, NULL, &s, NULL), CERA_OK);
    assert_int_equal(cera_session_append_ids(s, (const int32_t[]){ 1, 2 }, 2, NULL), CERA_OK);
    cera_generate_options options = sampled(N_PROMPT);
    assert_int_equal(cera_session_generate(s, &options, NULL, NULL, NULL), CERA_OK);
    node nodes[N_NODES];
    double cells[N_CELLS] = { 0 };
    grow(s, 0, 1, 0, nodes, cells);

    uint64_t n_draws = getenv("CERA_NIGHTLY") ? N_NIGHTLY : N_DRAWS;
    options = sampled(N_LENGTH + 2); /* guesses at what is behind are right or not, too */
    for (size_t k = 0; k < CR_COUNT(kinds); k++) {
        uint64_t counts[N_CELLS] = { 0 }, n_drafted = 0, n_accepted = 0;
        options.n_draft = kinds[k].n_draft;
        options.draft = kinds[k].draft;
        for (uint64_t draw = 0; draw < n_draws; draw++) {
            cera_session *fork;
            cera_summary summary;
            size_t n;
            options.seed = draw * CR_COUNT(kinds) + k;
            assert_int_equal(cera_session_fork(s, &fork, NULL), CERA_OK);
            assert_int_equal(cera_session_generate(fork, &options, NULL, &summary, NULL), CERA_OK);
            counts[cell_of(nodes, cera_session_history(fork, &n) + 2 + N_PROMPT)]++;
            n_drafted += summary.n_drafted;
            n_accepted += summary.n_accepted;
            cera_session_free(fork);
        }
        print_message("%llu guessed, %llu right; ", (unsigned long long)n_drafted,
                      (unsigned long long)n_accepted);
        assert_true(fits(counts, cells, n_draws, kinds[k].what));
        assert_true(n_drafted >= (kinds[k].n_draft > 0 ? n_draws / 2 : 0));
        assert_true(n_accepted >= (k == 1 || k == 2 ? n_draws / 10 : 0));
    }
    cera_session_free(s);
    cera_engine_close(engine);
    cera_engine_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guesses_keep_the_distribution),
    };
    return cmocka_run_group_tests(tests, build_models, drop_models);
}

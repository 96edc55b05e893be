/* builtin:tiny against transformers: ids, logits, greedy text, log-probabilities, hidden states. */
#include "golden/golden.h"

#include <stdio.h>

/* Nats, of a mean over the text: errors of single tokens, about 0.1, nearly cancel. */
#define LOGPROB_BOUND 0.03

typedef struct fixture {
    cera_engine *engine;
    json_t *cases, *gaps;
    size_t n_vocab, n_embd;
} fixture;

static fixture tiny;

static int open_tiny(void **state)
{
    (void)state;
    cera_error err = { 0 };
#ifdef CERA_BUILTIN_MODEL
    const char *path = "builtin:tiny";
#else
    const char *path = CERA_TEST_MODELS "/tiny.gguf";
#endif
    if (cera_engine_open(path, NULL, &tiny.engine, &err) != CERA_OK)
        fail_msg("%s: %s", path, err.message);
    cera_engine_info info;
    cera_engine_get_info(tiny.engine, &info);
    tiny.n_vocab = (size_t)info.n_vocab;
    tiny.n_embd = (size_t)info.n_embd;
    tiny.cases = golden_load("tiny.golden.json");
    tiny.gaps = golden_load("golden-tiny-gaps.json");
    assert_int_equal(json_array_size(tiny.cases), 4);
    assert_int_equal(json_array_size(tiny.gaps), 4);
    return 0;
}

static int close_tiny(void **state)
{
    (void)state;
    cera_engine_close(tiny.engine);
    json_decref(tiny.cases);
    json_decref(tiny.gaps);
    return 0;
}

static void test_ids(void **state)
{
    (void)state;
    size_t i, n, n_want;
    json_t *c;
    json_array_foreach (tiny.cases, i, c) {
        const cera_vocab *vocab = cera_engine_vocab(tiny.engine);
        const char *text = golden_text(c, "text");
        int32_t *ids = NULL, *want = golden_ids(c, "ids", &n_want);
        cera_encode_options options;
        cera_encode_options_init(&options);
        options.parse_special = true;
        options.add_bos = false; /* the text spells it */
        assert_int_equal(cera_vocab_encode(vocab, text, strlen(text), &options, &ids, &n, NULL),
                         CERA_OK);
        assert_int_equal(n, n_want);
        assert_memory_equal(ids, want, n * sizeof *ids);
        cera_vocab_free_ids(vocab, ids, n);
        free(want);
    }
}

static void test_logits(void **state)
{
    (void)state;
    size_t i, n;
    double squares = 0;
    json_t *c;
    json_array_foreach (tiny.cases, i, c) {
        int32_t *ids = golden_ids(c, "ids", &n);
        cera_session *session = golden_session(tiny.engine);
        const float *logits = golden_append(session, ids, n);
        const json_t *more = json_array_get(tiny.gaps, i);
        double std = golden_number(more, "std"), expected = golden_number(more, "int8_rms");
        size_t n_logits;
        float *want = golden_floats(more, "logits", &n_logits);
        assert_int_equal(n_logits, tiny.n_vocab);
        golden_noise noise = golden_noise_of(logits, want, n_logits);
        double top = golden_pairs_difference(golden_get(c, "top10"), logits, noise.shift) / std;
        printf("    text %zu: differences %.2f%% of the deviation %.2f (rounding alone: %.2f%%), "
               "shift %.2f%%, largest %.2f%%, of the top 10 %.2f%%\n",
               i, 100 * noise.rms / std, std, 100 * expected, 100 * noise.shift / std,
               100 * noise.max / std, 100 * top);
        free(want);
        assert_true(noise.rms / std < GOLDEN_INT8_EXPECTED * expected);
        squares += noise.rms / std * noise.rms / std;
        assert_true(top < GOLDEN_INT8_ONE);
        cera_session_free(session);
        free(ids);
    }
    double all = sqrt(squares / (double)json_array_size(tiny.cases));
    printf("    all texts: %.2f%%\n", 100 * all);
    assert_true(all < GOLDEN_INT8_RMS);
}

/* The reference's greedy tokens are fed one by one: at each step the same token wins unless the
 * reference itself hesitated. */
static void test_greedy(void **state)
{
    (void)state;
    size_t i, n, n_greedy, n_gaps;
    json_t *c;
    json_array_foreach (tiny.cases, i, c) {
        const json_t *g = json_array_get(tiny.gaps, i);
        int32_t *ids = golden_ids(c, "ids", &n), *greedy = golden_ids(c, "greedy", &n_greedy);
        float *gaps = golden_floats(g, "gaps", &n_gaps);
        assert_int_equal(n_gaps, n_greedy);
        cera_session *session = golden_session(tiny.engine);
        const float *logits = golden_append(session, ids, n);
        size_t n_same = 0;
        for (size_t step = 0; step < n_greedy; step++) {
            size_t top = golden_top(logits, tiny.n_vocab);
            n_same += top == (size_t)greedy[step];
            if (top != (size_t)greedy[step] &&
                (double)gaps[step] > GOLDEN_INT8_GAP * golden_number(g, "std"))
                fail_msg("text %zu, step %zu: token %zu instead of %d, which is ahead by %g", i,
                         step, top, (int)greedy[step], (double)gaps[step]);
            logits = golden_append(session, greedy + step, 1);
        }
        printf("    text %zu: %zu of %zu greedy tokens\n", i, n_same, n_greedy);
        assert_true(8 * n_same >= 7 * n_greedy);
        cera_session_free(session);
        free(gaps);
        free(greedy);
        free(ids);
    }
}

static void test_mean_logprob(void **state)
{
    (void)state;
    size_t i, n;
    json_t *c;
    json_array_foreach (tiny.cases, i, c) {
        int32_t *ids = golden_ids(c, "ids", &n);
        cera_session *session = golden_session(tiny.engine);
        double sum = 0;
        for (size_t k = 0; k + 1 < n; k++)
            sum += golden_logprob(golden_append(session, ids + k, 1), tiny.n_vocab, ids[k + 1]);
        double mean = sum / (double)(n - 1), want = golden_number(c, "mean_logprob");
        printf("    text %zu: mean log-probability %.5f, reference %.5f\n", i, mean, want);
        cera_session_free(session);
        free(ids);
        assert_true(fabs(mean - want) < LOGPROB_BOUND);
    }
}

/* All values of a hidden state, and its first eight from the other file. */
static void check_hidden(const json_t *c, const char *first8, const json_t *more, const char *all,
                         const float *got, double std)
{
    size_t n;
    float *want = golden_floats(more, all, &n);
    assert_int_equal(n, tiny.n_embd);
    golden_noise noise = golden_noise_of(got, want, n);
    free(want);
    want = golden_floats(c, first8, &n);
    assert_int_equal(n, 8);
    double few = golden_max_difference(got, want, n) / std;
    free(want);
    double rms = hypot(noise.rms, noise.shift) / std;
    printf("  %s %.2f%%, first 8 within %.2f%%", all, 100 * rms, 100 * few);
    assert_true(rms < GOLDEN_INT8_RMS);
    assert_true(few < GOLDEN_INT8_ONE);
}

static void test_hidden(void **state)
{
    (void)state;
    size_t i, n;
    json_t *c;
    json_array_foreach (tiny.cases, i, c) {
        int32_t *ids = golden_ids(c, "ids", &n);
        float *rows = calloc(n + 1, tiny.n_embd * sizeof *rows), *mean = rows + n * tiny.n_embd;
        assert_non_null(rows);
        assert_int_equal(cera_engine_embed(tiny.engine, ids, n, CERA_POOLING_NONE, rows, NULL),
                         CERA_OK);
        assert_int_equal(cera_engine_embed(tiny.engine, ids, n, CERA_POOLING_MEAN, mean, NULL),
                         CERA_OK);
        const json_t *more = json_array_get(tiny.gaps, i);
        double std = golden_number(more, "hidden_std");
        const float *last = rows + (n - 1) * tiny.n_embd;
        printf("    text %zu, deviation %.2f:", i, std);
        check_hidden(c, "hidden_last_first8", more, "hidden_last", last, std);
        check_hidden(c, "hidden_mean_first8", more, "hidden_mean", mean, std);
        printf("\n");
        free(rows);
        free(ids);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),    cmocka_unit_test(test_logits),
        cmocka_unit_test(test_greedy), cmocka_unit_test(test_mean_logprob),
        cmocka_unit_test(test_hidden),
    };
    return cmocka_run_group_tests_name("golden/tiny", tests, open_tiny, close_tiny);
}

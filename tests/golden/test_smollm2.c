/* SmolLM2-135M-Instruct Q4_1, a real model of the llama architecture, against transformers. The
 * file is not in the tree: scripts/fetch-smollm2 fetches it. Without it every test is skipped. */
#include "golden/golden.h"

#include <stdio.h>
#include <sys/stat.h>

static cera_engine *engine; /* NULL: no file */
static json_t *golden;
static size_t n_vocab, n_embd;

/* CERA_SMOLLM2, or where fetch-smollm2 puts it. */
static bool find_file(char *path, size_t size)
{
    static const char name[] = "SmolLM2-135M-Instruct.Q4_1.gguf";
    const char *given = getenv("CERA_SMOLLM2"), *cache = getenv("CERA_CACHE"),
               *home = getenv("HOME");
    if (given && *given)
        snprintf(path, size, "%s", given);
    else if (cache && *cache)
        snprintf(path, size, "%s/%s", cache, name);
    else
        snprintf(path, size, "%s/.cache/cera-test/%s", home ? home : "", name);
    struct stat info;
    return stat(path, &info) == 0;
}

static int open_model(void **state)
{
    (void)state;
    char path[4096];
    if (!find_file(path, sizeof path))
        return 0;
    cera_error err = { 0 };
    if (cera_engine_open(path, NULL, &engine, &err) != CERA_OK)
        fail_msg("%s: %s", path, err.message);
    cera_engine_info info;
    cera_engine_get_info(engine, &info);
    n_vocab = (size_t)info.n_vocab;
    n_embd = (size_t)info.n_embd;
    golden = golden_load("golden-smollm2.json");
    assert_int_equal(json_array_size(golden), 5);
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    cera_engine_close(engine);
    json_decref(golden);
    return 0;
}

static void skip_without_model(void)
{
    if (engine)
        return;
    print_message("skipped: the model is missing; scripts/fetch-smollm2 fetches it (98 MB)\n");
    skip();
}

static void test_ids(void **state)
{
    (void)state;
    skip_without_model();
    size_t i, n, n_want;
    json_t *c;
    json_array_foreach (golden, i, c) {
        const cera_vocab *vocab = cera_engine_vocab(engine);
        const char *text = golden_text(c, "text");
        int32_t *ids = NULL, *want = golden_ids(c, "ids", &n_want);
        cera_encode_options options;
        cera_encode_options_init(&options);
        options.parse_special = true;
        assert_int_equal(cera_vocab_encode(vocab, text, strlen(text), &options, &ids, &n, NULL),
                         CERA_OK);
        assert_int_equal(n, n_want);
        assert_memory_equal(ids, want, n * sizeof *ids);
        cera_vocab_free_ids(vocab, ids, n);
        free(want);
    }
}

/* Logits of the last token: the 20 highest and every 97th of all. Then 16 greedy tokens, those of
 * the reference fed one by one. Gives the deviation of the differences. */
static double check_case(const json_t *c, size_t i)
{
    size_t n, n_greedy, n_gaps, n_same = 0;
    int32_t *ids = golden_ids(c, "ids", &n), *greedy = golden_ids(c, "greedy", &n_greedy);
    float *gaps = golden_floats(c, "gaps", &n_gaps);
    assert_int_equal(n_gaps, n_greedy);
    double std = golden_number(c, "std");
    cera_session *session = golden_session(engine);
    const float *logits = golden_append(session, ids, n);
    float *got, *want;
    size_t n_sample = golden_pairs(golden_get(c, "sample"), logits, &got, &want);
    golden_noise noise = golden_noise_of(got, want, n_sample);
    free(got);
    double top = golden_pairs_difference(golden_get(c, "top20"), logits, noise.shift) / std;
    double rms = noise.rms / std, expected = golden_number(c, "int8_rms");
    for (size_t step = 0; step < n_greedy; step++) {
        size_t best = golden_top(logits, n_vocab);
        n_same += best == (size_t)greedy[step];
        if (best != (size_t)greedy[step] && (double)gaps[step] > GOLDEN_INT8_GAP * std)
            fail_msg("text %zu, step %zu: token %zu instead of %d, which is ahead by %g", i, step,
                     best, (int)greedy[step], (double)gaps[step]);
        logits = golden_append(session, greedy + step, 1);
    }
    printf("    text %zu: differences %.2f%% of the deviation %.2f (rounding alone: %.2f%%), shift "
           "%.2f%%, largest %.2f%%, of the top 20 %.2f%%; %zu of %zu greedy tokens\n",
           i, 100 * rms, std, 100 * expected, 100 * noise.shift / std, 100 * noise.max / std,
           100 * top, n_same, n_greedy);
    assert_true(rms < GOLDEN_INT8_EXPECTED * expected);
    assert_true(top < GOLDEN_INT8_ONE);
    assert_true(8 * n_same >= 7 * n_greedy);
    cera_session_free(session);
    free(gaps);
    free(greedy);
    free(ids);
    return rms;
}

static void test_logits(void **state)
{
    (void)state;
    skip_without_model();
    size_t i;
    json_t *c;
    double squares = 0;
    json_array_foreach (golden, i, c) {
        double rms = check_case(c, i);
        squares += rms * rms;
    }
    double all = sqrt(squares / (double)json_array_size(golden));
    printf("    all texts: %.2f%%\n", 100 * all);
    assert_true(all < GOLDEN_INT8_RMS);
}

static void test_hidden(void **state)
{
    (void)state;
    skip_without_model();
    size_t i, n, n_values;
    json_t *c;
    json_array_foreach (golden, i, c) {
        int32_t *ids = golden_ids(c, "ids", &n);
        float *mean = calloc(n_embd, sizeof *mean);
        float *want = golden_floats(c, "hidden_mean", &n_values);
        assert_non_null(mean);
        assert_int_equal(n_values, n_embd);
        assert_int_equal(cera_engine_embed(engine, ids, n, CERA_POOLING_MEAN, mean, NULL), CERA_OK);
        golden_noise noise = golden_noise_of(mean, want, n_embd);
        double std = golden_number(c, "hidden_std"), rms = hypot(noise.rms, noise.shift) / std;
        printf("    text %zu: mean of hidden states %.2f%% of the deviation %.2f\n", i, 100 * rms,
               std);
        free(want);
        free(mean);
        free(ids);
        assert_true(rms < GOLDEN_INT8_RMS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_hidden),
    };
    return cmocka_run_group_tests_name("golden/smollm2", tests, open_model, close_model);
}

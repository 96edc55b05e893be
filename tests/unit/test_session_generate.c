/* Generating with the real model: why it ends, what the options do, and that the same seed is the
 * same text whatever computed it. Stop texts and UTF-8 are in test_session_text.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/tiny.h"

#include "base/compiler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The model answers this with a sentence and its end of turn. */
static const char who[] = "<|startoftext|><|im_start|>user\nWho are you?<|im_end|>\n"
                          "<|im_start|>assistant\n";

static cera_engine *engine;

static int open_engine(void **state)
{
    (void)state;
    engine = tiny_open(NULL);
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    cera_engine_close(engine);
    return 0;
}

static cera_session *start(int context_size, const char *text)
{
    cera_session *s = tiny_new(engine, context_size);
    tiny_append(s, text);
    return s;
}

/* ---- why it ends ------------------------------------------------------------------------- */

static void ends_at_max_tokens(void **state)
{
    (void)state;
    tiny_record record = { .n_tokens = 0 };
    for (int n = 0; n < 4; n++) {
        cera_session *s = start(0, tiny_prompt);
        cera_generate_options options = tiny_greedy(n);
        cera_summary summary = tiny_generate(s, &options, &record);
        assert_int_equal(summary.finish, CERA_FINISH_LENGTH);
        assert_int_equal(summary.n_generated, n);
        assert_int_equal(summary.n_prompt, TINY_PROMPT);
        assert_int_equal(cera_session_position(s), TINY_PROMPT + n);
        assert_true(summary.prompt_ms > 0 && summary.generate_ms >= summary.first_token_ms);
        assert_int_equal(summary.first_token_ms > 0, n > 0);

        summary = tiny_generate(s, &options, &record);
        assert_int_equal(summary.n_prompt, 0); /* since the previous generation */
        assert_true(summary.prompt_ms == 0);
        assert_int_equal(cera_session_append_text(s, " and", NULL), CERA_OK);
        assert_int_equal(cera_session_append_text(s, " so", NULL), CERA_OK);
        summary = tiny_generate(s, &options, &record);
        assert_int_equal(summary.n_prompt, 2);
        cera_session_free(s);
    }
}

/* With no limit it fills the context to the last position, and no further; also when the prompt
 * leaves one position or none. */
static void ends_when_the_context_is_full(void **state)
{
    (void)state;
    tiny_record record = { .n_tokens = 0 };
    for (int room = 0; room < 45; room += room < 2 ? 1 : 7) {
        cera_session *s = start(TINY_PROMPT + room, tiny_prompt);
        cera_generate_options options = tiny_greedy(-1);
        cera_summary summary = tiny_generate(s, &options, &record);
        assert_int_equal(summary.finish, CERA_FINISH_CONTEXT);
        assert_int_equal(summary.n_generated, room);
        assert_int_equal(cera_session_position(s), TINY_PROMPT + room);
        assert_non_null(cera_session_logits(s));

        summary = tiny_generate(s, &options, &record); /* and again, at once */
        assert_int_equal(summary.finish, CERA_FINISH_CONTEXT);
        assert_int_equal(summary.n_generated, 0);
        cera_error err;
        assert_int_equal(cera_session_append_text(s, "a", &err), CERA_E_CONTEXT);
        cera_session_free(s);
    }
}

static void ends_with_the_turn(void **state)
{
    (void)state;
    cera_session *s = start(0, who);
    size_t n_prompt = cera_session_position(s);
    cera_generate_options options = tiny_greedy(100);
    options.ignore_eos = false;
    tiny_record record = { .n_tokens = 0 };
    cera_summary summary = tiny_generate(s, &options, &record);
    assert_int_equal(summary.finish, CERA_FINISH_STOP);
    assert_true(summary.n_generated > 10 && summary.n_generated < 100);
    assert_string_equal(record.text, "I am tiny, a very small language model that ships inside "
                                     "cera. I know a few short stories.");
    /* The end token is neither shown nor part of the history; it is what would come next. */
    assert_int_equal(cera_session_position(s), n_prompt + summary.n_generated);
    for (int i = 0; i < record.n_tokens; i++)
        assert_int_not_equal(record.ids[i], TINY_IM_END);
    options.max_tokens = 1;
    summary = tiny_generate(s, &options, &record);
    assert_int_equal(summary.finish, CERA_FINISH_STOP);
    assert_int_equal(summary.n_generated, 0);

    /* ignore_eos goes on. */
    options.max_tokens = 20;
    options.ignore_eos = true;
    summary = tiny_generate(s, &options, &record);
    assert_int_equal(summary.finish, CERA_FINISH_LENGTH);
    assert_int_equal(summary.n_generated, 20);
    const cera_vocab *vocab = cera_engine_vocab(engine);
    for (int i = 0; i < 20; i++)
        assert_false(cera_vocab_is_end(vocab, record.ids[i]));
    cera_session_free(s);
}

static void ends_at_stop_ids(void **state)
{
    (void)state;
    cera_session *s = start(0, tiny_prompt);
    cera_generate_options options = tiny_greedy(12);
    tiny_record whole = { .n_tokens = 0 }, record = { .n_tokens = 0 };
    tiny_generate(s, &options, &whole);
    for (int at = 0; at < 12; at++) {
        int first = 0;
        while (whole.ids[first] != whole.ids[at])
            first++;
        const int32_t ids[] = { 1000000, -7, whole.ids[at] }; /* unknown ones never come */
        cera_session_reset(s);
        tiny_append(s, tiny_prompt);
        options.stop_ids = ids;
        options.n_stop_ids = CR_COUNT(ids);
        cera_summary summary = tiny_generate(s, &options, &record);
        assert_int_equal(summary.finish, CERA_FINISH_STOP);
        assert_int_equal(summary.n_generated, first);
        assert_memory_equal(record.text, whole.text, record.size);
    }
    cera_session_free(s);
}

/* Stop texts over the real tokens; test_session_text.c has the thorough test. */
static void ends_before_stop_texts(void **state)
{
    (void)state;
    cera_session *s = start(0, tiny_prompt);
    cera_generate_options options = tiny_greedy(12);
    tiny_record whole = { .n_tokens = 0 }, record = { .n_tokens = 0 };
    tiny_generate(s, &options, &whole);
    for (size_t begin = 0; begin + 9 < whole.size; begin += 3) {
        char text[10] = { 0 };
        memcpy(text, whole.text + begin, 1 + begin % 9);
        const char *const stop[] = { text };
        cera_session_reset(s);
        tiny_append(s, tiny_prompt);
        options.stop = stop;
        options.n_stop = 1;
        cera_summary summary = tiny_generate(s, &options, &record);
        size_t expected = (size_t)(strstr(whole.text, text) - whole.text);
        assert_int_equal(summary.finish, CERA_FINISH_STOP);
        assert_int_equal(record.size, expected);
        assert_memory_equal(record.text, whole.text, expected);
        assert_memory_equal(record.ids, whole.ids, (size_t)record.n_tokens * sizeof(int32_t));
    }
    cera_session_free(s);
}

/* The token that was being shown is the last one, and it is in the history. */
static void ends_when_the_sink_says_so(void **state)
{
    (void)state;
    cera_generate_options options = tiny_greedy(12);
    for (int at = 1; at <= 5; at++) {
        for (int by_token = 0; by_token < 2; by_token++) {
            cera_session *s = start(0, tiny_prompt);
            tiny_record record = { .n_tokens = 0 };
            *(by_token ? &record.stop_at_token : &record.stop_at_text) = at;
            cera_summary summary = tiny_generate(s, &options, &record);
            assert_int_equal(summary.finish, CERA_FINISH_SINK);
            assert_int_equal(by_token ? record.n_tokens : record.n_texts, at);
            assert_int_equal(cera_session_position(s), TINY_PROMPT + record.n_tokens);

            /* It goes on as if nothing had been. */
            cera_session *whole = start(0, tiny_prompt);
            options.max_tokens = record.n_tokens;
            tiny_generate(whole, &options, NULL);
            options.max_tokens = 12;
            tiny_assert_twins(s, whole);
            cera_session_free(s);
            cera_session_free(whole);
        }
    }
}

/* From the sink, as Ctrl-C in a program does: within one token. */
static void ends_when_cancelled(void **state)
{
    (void)state;
    cera_generate_options options = tiny_greedy(12);
    for (int at = 1; at <= 12; at++) {
        cera_session *s = start(0, tiny_prompt);
        tiny_record record = { .cancel = s, .cancel_at = at };
        cera_summary summary = tiny_generate(s, &options, &record);
        assert_int_equal(summary.finish, CERA_FINISH_CANCELLED); /* not LENGTH, even at the end */
        assert_int_equal(summary.n_generated, at);
        record.cancel_at = 0;
        summary = tiny_generate(s, &options, &record); /* used up */
        assert_int_equal(summary.n_generated, 12);
        cera_session_free(s);
    }
}

static void finishes_have_names(void **state)
{
    (void)state;
    assert_string_equal(cera_finish_name(CERA_FINISH_STOP), "stop");
    assert_string_equal(cera_finish_name(CERA_FINISH_LENGTH), "length");
    assert_string_equal(cera_finish_name(CERA_FINISH_CONTEXT), "context");
    assert_string_equal(cera_finish_name(CERA_FINISH_CANCELLED), "cancelled");
    assert_string_equal(cera_finish_name(CERA_FINISH_SINK), "sink");
    assert_non_null(cera_finish_name((cera_finish)17));
}

/* ---- what the options do ----------------------------------------------------------------- */

static void greedy_takes_the_largest(void **state)
{
    (void)state;
    cera_session *s = start(0, tiny_prompt);
    cera_generate_options options = tiny_greedy(1);
    options.ignore_eos = false;
    tiny_record record = { .n_tokens = 0 };
    for (int i = 0; i < 6; i++) {
        const float *logits = cera_session_logits(s);
        int32_t best = 0;
        for (int32_t id = 1; id < TINY_VOCAB; id++)
            best = logits[id] > logits[best] ? id : best;
        /* Both ways to ask for it; nothing else matters. */
        options.temperature = i % 2 == 0 ? 0.0f : 5.0f;
        options.top_k = i % 2 == 0 ? 40 : 1;
        options.seed = (uint64_t)i;
        options.repetition_penalty = 3.0f;
        tiny_generate(s, &options, &record);
        assert_int_equal(record.ids[0], best);
    }
    cera_session_free(s);
}

static void bias_moves_logits(void **state)
{
    (void)state;
    cera_session *s = start(0, tiny_prompt);
    cera_generate_options options = tiny_greedy(10);
    tiny_record plain = { .n_tokens = 0 }, record = { .n_tokens = 0 };
    tiny_generate(s, &options, &plain);

    /* Bans come before greedy: each first choice in turn. */
    cera_logit_bias bias[4];
    for (size_t n = 1; n <= CR_COUNT(bias); n++) {
        cera_session_reset(s);
        tiny_append(s, tiny_prompt);
        options.bias = bias;
        options.n_bias = n - 1;
        options.max_tokens = 1;
        tiny_generate(s, &options, &record);
        for (size_t i = 0; i + 1 < n; i++)
            assert_int_not_equal(record.ids[0], bias[i].id);
        bias[n - 1] = (cera_logit_bias){ record.ids[0], n % 2 ? -INFINITY : -100.0f };
    }
    assert_int_equal(bias[0].id, plain.ids[0]);

    cera_session_reset(s);
    tiny_append(s, tiny_prompt);
    options.bias = &(cera_logit_bias){ 77, 1000.0f };
    options.n_bias = 1;
    options.max_tokens = 5;
    tiny_generate(s, &options, &record);
    for (int i = 0; i < 5; i++)
        assert_int_equal(record.ids[i], 77);
    cera_session_free(s);
}

/* log softmax in double, from the logits that the session shows. */
static double reference_logprob(const float *logits, int32_t id)
{
    double sum = 0, max = -INFINITY;
    for (int i = 0; i < TINY_VOCAB; i++)
        max = (double)logits[i] > max ? (double)logits[i] : max; /* gcc 12 fails on fmax for ARM */
    for (int i = 0; i < TINY_VOCAB; i++)
        sum += exp((double)logits[i] - max);
    return (double)logits[id] - max - log(sum);
}

typedef struct logprob_check {
    cera_session *session;
    int n_top;
    int n_seen;
} logprob_check;

static int check_logprobs(void *user, const cera_token_info *token)
{
    logprob_check *check = user;
    const float *logits = cera_session_logits(check->session);
    assert_int_equal(token->n_top, check->n_top);
    check->n_seen++;
    if (check->n_top == 0) {
        assert_true(isnan(token->logprob));
        return 0;
    }
    assert_true(fabs((double)token->logprob - reference_logprob(logits, token->id)) < 1e-5);
    for (int i = 0; i < token->n_top; i++) {
        int32_t id = token->top[i].id;
        assert_true(fabs((double)token->top[i].logprob - reference_logprob(logits, id)) < 1e-5);
        int n_above = 0; /* with ids that are lower among equals */
        for (int32_t k = 0; k < TINY_VOCAB; k++)
            n_above += logits[k] > logits[id] || (logits[k] == logits[id] && k < id);
        assert_int_equal(n_above, i);
    }
    return 0;
}

static void logprobs_are_the_models(void **state)
{
    (void)state;
    static const int n_tops[] = { 0, 1, 5, 20 };
    for (size_t i = 0; i < CR_COUNT(n_tops); i++) {
        logprob_check check = { .session = start(0, tiny_prompt), .n_top = n_tops[i] };
        cera_generate_options options;
        cera_generate_options_init(&options);
        /* Of the model's own distribution, whatever the sampling. */
        options.temperature = 1.5f;
        options.bias = &(cera_logit_bias){ 404, 50.0f };
        options.n_bias = 1;
        options.max_tokens = 6;
        options.n_logprobs = n_tops[i];
        cera_sink sink = { .on_token = check_logprobs, .user = &check };
        assert_int_equal(cera_session_generate(check.session, &options, &sink, NULL, NULL),
                         CERA_OK);
        assert_int_equal(check.n_seen, 6);
        cera_session_free(check.session);
    }
}

/* A session does not remember how it was cut into calls. */
static void two_calls_are_one(void **state)
{
    (void)state;
    enum { N = 24 };
    cera_session *whole = start(0, tiny_prompt), *parts = tiny_new(engine, 0);
    cera_generate_options options = tiny_greedy(N);
    tiny_record all = { .n_tokens = 0 }, part = { .n_tokens = 0 };
    tiny_generate(whole, &options, &all);
    for (int first = 1; first < N; first += 4) {
        cera_session_reset(parts);
        tiny_append(parts, tiny_prompt);
        char text[4096];
        options.max_tokens = first;
        tiny_generate(parts, &options, &part);
        snprintf(text, sizeof text, "%.*s", (int)part.size, part.text);
        size_t size = part.size;
        options.max_tokens = N - first;
        tiny_generate(parts, &options, &part);
        snprintf(text + size, sizeof text - size, "%.*s", (int)part.size, part.text);
        assert_string_equal(text, all.text);
        tiny_assert_equal(whole, parts);
    }
    cera_session_free(whole);
    cera_session_free(parts);
}

/* ---- the same seed, the same text -------------------------------------------------------- */

static cera_generate_options sampled(uint64_t seed, int n)
{
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.seed = seed;
    options.temperature = 1.0f;
    options.max_tokens = n;
    return options;
}

static void seeds_decide(void **state)
{
    (void)state;
    enum { N = 20 };
    cera_session *s = tiny_new(engine, 0);
    tiny_record first = { .n_tokens = 0 }, again = { .n_tokens = 0 };
    int n_different = 0;
    char previous[4096] = "";
    for (uint64_t seed = 0; seed < 4; seed++) {
        cera_generate_options options = sampled(seed, N);
        cera_session_reset(s);
        tiny_append(s, tiny_prompt);
        tiny_generate(s, &options, &first);
        cera_session_reset(s);
        tiny_append(s, tiny_prompt);
        tiny_generate(s, &options, &again);
        assert_string_equal(first.text, again.text);
        assert_memory_equal(first.ids, again.ids, (size_t)first.n_tokens * sizeof(int32_t));
        n_different += strcmp(first.text, previous) != 0;
        snprintf(previous, sizeof previous, "%.4000s", first.text);
    }
    assert_true(n_different >= 3);
    cera_session_free(s);
}

/* Threads, chunk size and the type of the cache are the machine's business. Each cache type has its
 * own text; within it every combination has the same bits. */
static void seeds_do_not_depend_on_the_machine(void **state)
{
    (void)state;
    static const int threads[] = { 1, 2, 3, 7 }, chunks[] = { 1, 7, 512 };
    enum { N = 12 };
    cera_generate_options generate = sampled(42, N);
    static tiny_snapshot expected;
    tiny_record first = { .n_tokens = 0 }, record = { .n_tokens = 0 };
    for (int kv = CERA_KV_F16; kv <= CERA_KV_F32; kv++) {
        for (size_t t = 0; t < CR_COUNT(threads); t++) {
            for (size_t c = 0; c < CR_COUNT(chunks); c++) {
                cera_engine_options options;
                cera_engine_options_init(&options);
                options.n_threads = threads[t];
                options.chunk_size = chunks[c];
                options.kv_type = (cera_kv_type)kv;
                cera_engine *e = tiny_open(&options);
                cera_engine_info info;
                cera_engine_get_info(e, &info);
                assert_int_equal(info.n_threads, threads[t]);
                cera_session *s = tiny_new(e, 0);
                tiny_append(s, tiny_prompt);
                if (t + c == 0) {
                    tiny_generate(s, &generate, &first);
                    tiny_take(s, &expected);
                } else {
                    tiny_generate(s, &generate, &record);
                    assert_string_equal(record.text, first.text);
                    tiny_assert_at(s, &expected);
                }
                cera_session_free(s);
                cera_engine_close(e);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_at_max_tokens),
        cmocka_unit_test(ends_when_the_context_is_full),
        cmocka_unit_test(ends_with_the_turn),
        cmocka_unit_test(ends_at_stop_ids),
        cmocka_unit_test(ends_before_stop_texts),
        cmocka_unit_test(ends_when_the_sink_says_so),
        cmocka_unit_test(ends_when_cancelled),
        cmocka_unit_test(finishes_have_names),
        cmocka_unit_test(greedy_takes_the_largest),
        cmocka_unit_test(bias_moves_logits),
        cmocka_unit_test(logprobs_are_the_models),
        cmocka_unit_test(two_calls_are_one),
        cmocka_unit_test(seeds_decide),
        cmocka_unit_test(seeds_do_not_depend_on_the_machine),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}

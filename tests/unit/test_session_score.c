/* Scoring a text: the figures are the log-softmax of the logits that the session would have shown
 * between two tokens, and the session moves as if the tokens had been appended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fault_host.h"
#include "support/tiny.h"

#include <math.h>
#include <string.h>

enum { N = 150 }; /* more than the rows whose logits are kept at a time, twice */

/* By the definition, in double and with libm. */
static double log_softmax(const float *logits, int32_t id)
{
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < TINY_VOCAB; i++)
        max = (double)logits[i] > max ? (double)logits[i] : max; /* fmax crashes gcc 12 for ARM */
    for (int i = 0; i < TINY_VOCAB; i++)
        sum += exp((double)logits[i] - max);
    return (double)logits[id] - max - log(sum);
}

static cera_engine *open_chunked(int chunk_size)
{
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.chunk_size = chunk_size;
    return tiny_open(&options);
}

static void scores_are_the_log_softmax(void **state)
{
    (void)state;
    static const int chunks[] = { 0, 1, 9, 64, 65 };
    int32_t ids[N];
    double expected[N];
    tiny_ids(5, ids, N);
    cera_engine *engine = tiny_open(NULL);
    cera_session *plain = tiny_new(engine, 0);
    for (int i = 0; i < N; i++) {
        expected[i] = i > 0 ? log_softmax(cera_session_logits(plain), ids[i]) : (double)NAN;
        assert_int_equal(cera_session_append_ids(plain, ids + i, 1, NULL), CERA_OK);
    }
    for (size_t c = 0; c < CR_COUNT(chunks); c++) {
        cera_engine *chunked = open_chunked(chunks[c]);
        cera_session *s = tiny_new(chunked, 0);
        float scores[N];
        assert_int_equal(cera_session_score(s, ids, N, scores, NULL), CERA_OK);
        assert_true(isnan(scores[0]));
        for (int i = 1; i < N; i++)
            assert_true(fabs((double)scores[i] - expected[i]) < 1e-5);
        tiny_assert_equal(s, plain);
        cera_session_free(s);
        cera_engine_close(chunked);
    }
    cera_session_free(plain);
    cera_engine_close(engine);
}

/* In one call or in several: the same bits. */
static void cuts_do_not_matter(void **state)
{
    (void)state;
    int32_t ids[N];
    float whole[N], parts[N];
    tiny_ids(6, ids, N);
    cera_engine *engine = tiny_open(NULL);
    cera_session *a = tiny_new(engine, 0), *b = tiny_new(engine, 0);
    assert_int_equal(cera_session_score(a, ids, N, whole, NULL), CERA_OK);
    for (size_t at = 0, n = 1; at < N; at += n, n = CR_MIN(2 * n, N - at))
        assert_int_equal(cera_session_score(b, ids + at, n, parts + at, NULL), CERA_OK);
    assert_memory_equal(whole, parts, sizeof whole);
    tiny_assert_twins(a, b);
    cera_session_free(a);
    cera_session_free(b);
    cera_engine_close(engine);
}

/* The result is written only on success. */
static void a_refused_call_changes_nothing(void **state)
{
    (void)state;
    enum { CONTEXT = 40 };
    cera_engine *engine = tiny_open(NULL);
    cera_session *s = tiny_new(engine, CONTEXT);
    tiny_append(s, tiny_prompt);
    tiny_snapshot before;
    tiny_take(s, &before);
    int32_t ids[CONTEXT] = { 5, TINY_VOCAB, 5 };
    float scores[CONTEXT];
    for (int i = 0; i < CONTEXT; i++)
        scores[i] = 77;
    static const struct {
        size_t n;
        cera_status status;
    } rows[] = {
        { 0, CERA_E_ARG },
        { 2, CERA_E_ARG },
        { CONTEXT - TINY_PROMPT + 1, CERA_E_CONTEXT },
        { CONTEXT, CERA_E_CONTEXT },
        { 1, CERA_E_CANCELLED },
    };
    cera_error err;
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        if (rows[i].status == CERA_E_CANCELLED)
            cera_session_cancel(s);
        assert_int_equal(cera_session_score(s, ids, rows[i].n, scores, &err), rows[i].status);
        assert_int_equal(err.status, rows[i].status);
        tiny_assert_at(s, &before);
        for (int k = 0; k < CONTEXT; k++)
            assert_true(scores[k] == 77);
    }
    assert_int_equal(cera_session_score(NULL, ids, 1, scores, NULL), CERA_E_ARG);
    assert_int_equal(cera_session_score(s, NULL, 1, scores, NULL), CERA_E_ARG);
    assert_int_equal(cera_session_score(s, ids, 1, NULL, NULL), CERA_E_ARG);
    assert_int_equal(cera_session_score(s, &(int32_t){ -1 }, 1, scores, NULL), CERA_E_ARG);
    tiny_assert_at(s, &before);
    cera_session_free(s);
    cera_engine_close(engine);
}

/* Each allocation of a call that takes a page besides its own room fails once. */
static void without_memory_nothing_changes(void **state)
{
    (void)state;
    fault_host f;
    fault_init(&f);
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.host = &f.host;
    options.n_threads = 1;
    cera_engine *engine = tiny_open(&options);
    cera_session *s = tiny_new(engine, 0);
    tiny_append(s, tiny_prompt);
    tiny_snapshot before;
    tiny_take(s, &before);
    int32_t ids[N];
    float scores[N];
    tiny_ids(7, ids, N);
    int n_failed = 0;
    cera_error err;
    for (size_t i = 1; i < 20; i++) {
        fault_allocs(&f, i, FAULT_ONCE);
        cera_status status = cera_session_score(s, ids, N, scores, &err);
        if (status == CERA_OK)
            break;
        assert_int_equal(status, CERA_E_NOMEM);
        tiny_assert_at(s, &before);
        n_failed++;
    }
    assert_in_range(n_failed, 2, 10);
    cera_session_free(s);
    cera_engine_close(engine);
    assert_null(fault_check(&f));
    fault_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_the_log_softmax),
        cmocka_unit_test(cuts_do_not_matter),
        cmocka_unit_test(a_refused_call_changes_nothing),
        cmocka_unit_test(without_memory_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

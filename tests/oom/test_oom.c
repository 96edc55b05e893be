/* Open a model, append 8 tokens, generate 4, close: with every allocation failing in turn, once and
 * from there on, and with system calls failing. Whatever fails, the call that needed it says so,
 * everything is given back, and a session that met one failure goes on as if nothing had been.
 *
 * The session's own calls are in unit/test_session_memory.c, with more of them per call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fault_host.h"
#include "support/tiny.h"

#include "base/compiler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_APPEND = 8, N_GENERATE = 4, MAX_RUNS = 100000 };

/* Where the work was when a call failed. */
typedef enum stage { OPEN, NEW, APPEND, GENERATE, N_STAGES } stage;
static const char *const stage_names[N_STAGES] = { "open", "new", "append", "generate" };

typedef struct work {
    cera_source source;
    int n_threads;
    bool retry; /* a failed append or generate is done again */
    /* What came of it: the first call that failed, and how. */
    stage failed_at;
    cera_status status;
    cera_error err;
    int n_failed;
    bool wrong_status; /* a call returned success or another error than its cera_error says */
    int32_t ids[N_GENERATE];
    int n_ids;
    float logits[TINY_VOCAB];
} work;

static int keep_token(void *user, const cera_token_info *token)
{
    work *w = user;
    if (w->n_ids < N_GENERATE)
        w->ids[w->n_ids++] = token->id;
    return 0;
}

/* Notes a call's result; whether it succeeded. */
static bool note(work *w, stage at, cera_status status, const cera_error *err)
{
    if (status == CERA_OK)
        return true;
    if (w->n_failed++ == 0) {
        w->failed_at = at;
        w->status = status;
        w->err = *err;
    }
    w->wrong_status = w->wrong_status || err->status != status || err->message[0] == '\0';
    return false;
}

static void run_session(work *w, cera_session *s)
{
    cera_error err = { 0 };
    int n_tries = w->retry ? 2 : 1;
    bool done = false;
    for (int i = 0; i < n_tries && !done; i++)
        done = note(w, APPEND, cera_session_append_ids(s, tiny_prompt_ids, N_APPEND, &err), &err);
    if (!done)
        return;
    /* A token that was shown and then not computed is chosen again. */
    done = false;
    for (int i = 0; i < n_tries && !done; i++) {
        w->n_ids = (int)cera_session_position(s) - N_APPEND;
        cera_generate_options options = tiny_greedy(N_GENERATE - w->n_ids);
        cera_sink sink = { .on_token = keep_token, .user = w };
        done = note(w, GENERATE, cera_session_generate(s, &options, &sink, NULL, &err), &err);
    }
    if (done)
        memcpy(w->logits, cera_session_logits(s), sizeof w->logits);
}

static void run(work *w, const cera_host *host)
{
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.host = host;
    options.n_threads = w->n_threads;
    options.context_size = 128;
    options.chunk_size = 16;
    w->n_failed = w->n_ids = 0;
    w->status = CERA_OK;
    w->wrong_status = false;

    cera_error err = { 0 };
    cera_engine *engine = NULL;
    if (!note(w, OPEN, cera_engine_open_source(&w->source, &options, &engine, &err), &err)) {
        w->wrong_status = w->wrong_status || engine != NULL;
        return;
    }
    cera_session *s = NULL;
    if (note(w, NEW, cera_session_new(engine, NULL, &s, &err), &err))
        run_session(w, s);
    else
        w->wrong_status = w->wrong_status || s != NULL;
    cera_session_free(s);
    cera_engine_close(engine);
}

/* The undisturbed result. */
static work expected;

static int run_undisturbed(void **state)
{
    (void)state;
    expected = (work){ .source = tiny_source(), .n_threads = 1 };
    run(&expected, NULL);
    return expected.n_failed == 0 && expected.n_ids == N_GENERATE ? 0 : -1;
}

static void assert_undisturbed(const work *w)
{
    assert_int_equal(w->n_ids, N_GENERATE);
    assert_memory_equal(w->ids, expected.ids, sizeof expected.ids);
    assert_memory_equal(w->logits, expected.logits, sizeof expected.logits);
}

static cera_source file_source(void)
{
    return (cera_source){ .path = CERA_TEST_MODELS "/tiny.gguf" };
}

/* ---- memory ------------------------------------------------------------------------------ */

/* Every allocation of the work, in one mode. The sources differ: a mapped file takes other steps
 * than memory, and one that is read into memory a large piece more. */
static void fail_every_allocation(const char *name, cera_source source, fault_mode mode)
{
    int n_at[N_STAGES] = { 0 };
    size_t i = 1, most = 0;
    for (; i < MAX_RUNS; i++) {
        work w = { .source = source, .n_threads = 1, .retry = mode == FAULT_ONCE };
        fault_host f;
        fault_init(&f);
        fault_allocs(&f, i, mode);
        run(&w, &f.host);
        const char *left = fault_check(&f);
        if (left)
            fail_msg("%s, allocation %zu: %s", name, i, left);
        bool reached = fault_hits(&f) > 0;
        most = CR_MAX(most, fault_peak_bytes(&f));
        fault_done(&f);
        if (!reached) {
            assert_int_equal(w.n_failed, 0);
            assert_undisturbed(&w);
            break;
        }
        if (w.n_failed == 0 || w.status != CERA_E_NOMEM || w.wrong_status)
            fail_msg("%s, allocation %zu: %s (%s)", name, i, cera_status_name(w.status),
                     w.err.message);
        n_at[w.failed_at]++;
        if (mode == FAULT_ONCE && w.failed_at >= APPEND) {
            assert_int_equal(w.n_failed, 1);
            assert_undisturbed(&w);
        }
    }
    assert_in_range(i, 50, MAX_RUNS - 1);
    print_message("%s, %s: %zu allocations failed (", name,
                  mode == FAULT_ONCE ? "once" : "from there on", i - 1);
    for (int at = 0; at < N_STAGES; at++) {
        assert_true(n_at[at] > 0);
        print_message("%s%s %d", at > 0 ? ", " : "", stage_names[at], n_at[at]);
    }
    print_message("); at most %.1f MB, 0 bytes left\n", (double)most / 1e6);
}

static void every_allocation_once(void **state)
{
    (void)state;
    fail_every_allocation("memory", tiny_source(), FAULT_ONCE);
}

static void every_allocation_from_there_on(void **state)
{
    (void)state;
    fail_every_allocation("memory", tiny_source(), FAULT_STICKY);
}

static void every_allocation_with_a_file(void **state)
{
    (void)state;
    fail_every_allocation("mapped file", file_source(), FAULT_ONCE);
    cera_source source = file_source();
    source.no_mmap = true;
    fail_every_allocation("file read", source, FAULT_ONCE);
}

/* ---- system calls ------------------------------------------------------------------------ */

static const int errors[] = { EIO, EMFILE, ENOMEM };

/* What fails when call i of this kind does, for each i that the work reaches. */
static size_t fail_every_call(fault_call call, const work *start, bool must_fail, bool names_file)
{
    size_t n_failed = 0, i = 1;
    for (; i < MAX_RUNS; i++) {
        bool reached = false;
        for (size_t e = 0; e < CR_COUNT(errors); e++) {
            work w = *start;
            w.retry = true;
            fault_host f;
            fault_init(&f);
            fault_os(&f, call, i, FAULT_ONCE, errors[e]);
            run(&w, &f.host);
            const char *left = fault_check(&f);
            if (left)
                fail_msg("call %zu with errno %d: %s", i, errors[e], left);
            reached = fault_hits(&f) > 0;
            fault_done(&f);
            if (!reached || w.n_failed == 0) {
                assert_undisturbed(&w);
                if (reached && must_fail)
                    fail_msg("call %zu with errno %d: no error", i, errors[e]);
                continue;
            }
            n_failed++;
            cera_status other = errors[e] == ENOMEM ? CERA_E_NOMEM : CERA_E_IO;
            if ((w.status != CERA_E_IO && w.status != other) || w.wrong_status)
                fail_msg("call %zu with errno %d: %s (%s)", i, errors[e],
                         cera_status_name(w.status), w.err.message);
            if (names_file && strstr(w.err.message, "tiny.gguf") == NULL)
                fail_msg("call %zu with errno %d: %s", i, errors[e], w.err.message);
            if (w.failed_at >= APPEND) { /* and then it went on */
                assert_int_equal(w.n_failed, 1);
                assert_undisturbed(&w);
            }
        }
        if (!reached)
            break;
    }
    assert_in_range(i, 2, MAX_RUNS - 1);
    return n_failed;
}

/* The model's own file: each failure is an error that names it. With one thread asked for, nothing
 * else is opened. */
static void system_calls_on_the_file(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        fault_call call;
        bool no_mmap;
    } rows[] = {
        { "open", FAULT_OPEN, false }, { "stat", FAULT_STAT, false }, { "map", FAULT_MAP, false },
        { "open", FAULT_OPEN, true },  { "stat", FAULT_STAT, true },  { "read", FAULT_READ, true },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        work w = { .source = file_source(), .n_threads = 1 };
        w.source.no_mmap = rows[i].no_mmap;
        size_t n = fail_every_call(rows[i].call, &w, true, true);
        print_message("%s%s: %zu failures\n", rows[i].name, rows[i].no_mmap ? " without mmap" : "",
                      n);
    }
}

/* What is asked about the machine may fail: then it does not limit. */
static void system_calls_about_the_machine(void **state)
{
    (void)state;
    static const fault_call calls[] = { FAULT_OPEN, FAULT_READ, FAULT_AFFINITY };
    size_t n = 0;
    for (size_t i = 0; i < CR_COUNT(calls); i++) {
        work w = { .source = tiny_source(), .n_threads = 0 };
        n += fail_every_call(calls[i], &w, false, false);
    }
#ifdef CERA_BUILTIN_MODEL
    assert_int_equal(n, 0);
#endif
}

static void threads_that_do_not_start(void **state)
{
    (void)state;
    work w = { .source = tiny_source(), .n_threads = 4 };
    size_t n = fail_every_call(FAULT_THREAD, &w, true, false);
    assert_int_equal(n, 3 * CR_COUNT(errors));
}

/* Reads that give less than was asked for are no failures. */
static void short_reads(void **state)
{
    (void)state;
    static const size_t limits[] = { 100003, 4096 };
    for (size_t i = 0; i < CR_COUNT(limits); i++) {
        work w = { .source = file_source(), .n_threads = 1 };
        w.source.no_mmap = true;
        fault_host f;
        fault_init(&f);
        fault_short_reads(&f, limits[i]);
        run(&w, &f.host);
        assert_null(fault_check(&f));
        fault_done(&f);
        assert_int_equal(w.n_failed, 0);
        assert_undisturbed(&w);
    }
}

/* Clocks that stand, go back and leap tell wrong times and nothing else. */
static void wrong_clocks(void **state)
{
    (void)state;
    for (int clock = 0; clock < FAULT_CLOCK_COUNT; clock++) {
        work w = { .source = tiny_source(), .n_threads = 3 };
        fault_host f;
        fault_init(&f);
        fault_set_clock(&f, (fault_clock)clock);
        run(&w, &f.host);
        assert_true(f.n_looks > 0);
        assert_null(fault_check(&f));
        fault_done(&f);
        assert_int_equal(w.n_failed, 0);
        assert_undisturbed(&w);
    }
}

/* Whoever waits has to look whether it has come. */
static void waits_that_end_early(void **state)
{
    (void)state;
    work w = { .source = tiny_source(), .n_threads = 3 };
    fault_host f;
    fault_init(&f);
    fault_never_wait(&f);
    run(&w, &f.host);
    assert_null(fault_check(&f));
    fault_done(&f);
    assert_int_equal(w.n_failed, 0);
    assert_undisturbed(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_once),
        cmocka_unit_test(every_allocation_from_there_on),
        cmocka_unit_test(every_allocation_with_a_file),
        cmocka_unit_test(system_calls_on_the_file),
        cmocka_unit_test(system_calls_about_the_machine),
        cmocka_unit_test(threads_that_do_not_start),
        cmocka_unit_test(short_reads),
        cmocka_unit_test(wrong_clocks),
        cmocka_unit_test(waits_that_end_early),
    };
    return cmocka_run_group_tests(tests, run_undisturbed, NULL);
}

/* Sessions and threads: a cancel that comes from elsewhere at any moment, and many sessions of one
 * engine. Run it under TSan. The cancel latencies are printed. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/tiny.h"

#include "base/compiler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* For machines that are slow, emulated or busy; the real figures are printed. */
enum { PATIENCE_MS = 5000 };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void sleep_us(unsigned us)
{
    struct timespec t = { .tv_nsec = (long)us * 1000 };
    nanosleep(&t, NULL);
}

/* cmocka's assertions belong to the main thread; the others report what they saw. */

/* ---- cancel ------------------------------------------------------------------------------ */

typedef struct generating {
    cera_session *session;
    atomic_int n_shown;
    cera_status status;
    cera_summary summary;
} generating;

static int count_token(void *user, const cera_token_info *token)
{
    (void)token;
    atomic_fetch_add(&((generating *)user)->n_shown, 1);
    return 0;
}

static void *generate_on(void *arg)
{
    generating *g = arg;
    cera_generate_options options = tiny_greedy(-1);
    cera_sink sink = { .on_token = count_token, .user = g };
    g->status = cera_session_generate(g->session, &options, &sink, &g->summary, NULL);
    return NULL;
}

static void a_cancel_ends_a_generation_within_a_token(void **state)
{
    (void)state;
    cera_engine *engine = tiny_open(NULL);
    enum { N_CANCELLED = 6, N_TRIES = 30 };
    double slowest = 0;
    int n_cancelled = 0;
    for (int i = 0; i < N_TRIES && n_cancelled < N_CANCELLED; i++) {
        cera_session *s = tiny_new(engine, 0), *twin = tiny_new(engine, 0);
        tiny_append(s, tiny_prompt);
        tiny_append(twin, tiny_prompt);
        generating g = { .session = s };
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, generate_on, &g), 0);
        while (atomic_load(&g.n_shown) < 1 + n_cancelled)
            sleep_us(50);
        cera_session_cancel(s);
        int n_at_cancel = atomic_load(&g.n_shown);
        double start = now_ms();
        pthread_join(thread, NULL);
        double ms = now_ms() - start;
        if (g.summary.finish == CERA_FINISH_CONTEXT) { /* this thread got no time */
            cera_session_free(s);
            cera_session_free(twin);
            continue;
        }
        slowest = CR_MAX(slowest, ms);
        n_cancelled++;

        assert_int_equal(g.status, CERA_OK);
        assert_int_equal(g.summary.finish, CERA_FINISH_CANCELLED);
        /* One may have been on its way when the cancel came, and is counted only after it. */
        assert_in_range(g.summary.n_generated, n_at_cancel, n_at_cancel + 1);

        cera_generate_options options = tiny_greedy((int)g.summary.n_generated);
        tiny_generate(twin, &options, NULL);
        tiny_assert_twins(s, twin);
        cera_session_free(s);
        cera_session_free(twin);
    }
    assert_true(n_cancelled > 0);
    cera_engine_close(engine);
    print_message("generate: at most %.1f ms from cancel to return\n", slowest);
    assert_true(slowest < PATIENCE_MS);
}

enum { LONG_PROMPT = 900 };

typedef struct appending {
    cera_session *session;
    const int32_t *ids;
    size_t n;
    cera_status status;
    atomic_int begun;
} appending;

static void *append_on(void *arg)
{
    appending *a = arg;
    atomic_store(&a->begun, 1);
    a->status = cera_session_append_ids(a->session, a->ids, a->n, NULL);
    return NULL;
}

static void a_cancel_ends_an_append_soon(void **state)
{
    (void)state;
    enum { N_CANCELLED = 3, N_TRIES = 30 };
    static const unsigned delays_us[N_CANCELLED] = { 200, 3000, 20000 };
    int32_t ids[LONG_PROMPT];
    tiny_ids(17, ids, LONG_PROMPT);
    cera_engine *engine = tiny_open(NULL);
    cera_session *s = tiny_new(engine, 0);
    tiny_append(s, tiny_prompt);
    tiny_snapshot before;
    tiny_take(s, &before);
    double slowest = 0;
    int n_cancelled = 0;
    for (int i = 0; i < N_TRIES && n_cancelled < N_CANCELLED; i++) {
        appending a = { .session = s, .ids = ids, .n = LONG_PROMPT };
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, append_on, &a), 0);
        while (atomic_load(&a.begun) == 0)
            sleep_us(20);
        sleep_us(i < N_CANCELLED ? delays_us[i] : 100);
        double start = now_ms();
        cera_session_cancel(s);
        pthread_join(thread, NULL);
        double ms = now_ms() - start;
        if (a.status == CERA_OK) { /* a fast machine, or this thread got no time */
            cera_session_reset(s);
            tiny_append(s, tiny_prompt);
            continue;
        }
        assert_int_equal(a.status, CERA_E_CANCELLED);
        tiny_assert_at(s, &before);
        slowest = CR_MAX(slowest, ms);
        n_cancelled++;
    }
    assert_true(n_cancelled > 0);
    cera_session_free(s);
    cera_engine_close(engine);
    print_message("append of %d tokens: at most %.1f ms from cancel to return\n", LONG_PROMPT,
                  slowest);
    assert_true(slowest < PATIENCE_MS);
}

/* Cancels fall wherever they like, also between calls; in the end the result is the undisturbed
 * one. */
typedef struct storm {
    cera_session *session;
    unsigned calm_us; /* that the undisturbed work takes */
    atomic_int has_begun, over;
} storm;

static void *cancel_on(void *arg)
{
    storm *s = arg;
    uint32_t random = 1;
    while (atomic_load(&s->over) == 0) {
        random = random * 1664525u + 1013904223u;
        sleep_us((random >> 8) % s->calm_us);
        cera_session_cancel(s->session);
        atomic_store(&s->has_begun, 1);
    }
    return NULL;
}

/* Appends and generates through the storm, then finishes what is left in calm weather. Returns how
 * many appends were cancelled. */
static int work_in_storm(cera_session *s, storm *weather, const int32_t *ids, size_t n,
                         int n_tokens)
{
    int n_cancelled = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_on, weather), 0);
    while (atomic_load(&weather->has_begun) == 0) /* then one cancel at least hits */
        sleep_us(10);
    for (int i = 0; i < 5; i++) {
        cera_status status = cera_session_append_ids(s, ids, n, NULL);
        if (status == CERA_OK)
            break;
        assert_int_equal(status, CERA_E_CANCELLED);
        assert_int_equal(cera_session_position(s), 0);
        assert_null(cera_session_logits(s));
        n_cancelled++;
    }
    int n_left = n_tokens;
    if (cera_session_position(s) == n) {
        cera_generate_options generate = tiny_greedy(n_tokens);
        n_left -= (int)tiny_generate(s, &generate, NULL).n_generated;
    }
    atomic_store(&weather->over, 1);
    pthread_join(thread, NULL);

    while (cera_session_position(s) == 0) { /* one more may be pending */
        cera_status status = cera_session_append_ids(s, ids, n, NULL);
        assert_true(status == CERA_OK || status == CERA_E_CANCELLED);
    }
    while (n_left > 0) {
        cera_generate_options rest = tiny_greedy(n_left);
        n_left -= (int)tiny_generate(s, &rest, NULL).n_generated;
    }
    return n_cancelled;
}

static void cancels_at_any_moment_leave_nothing_behind(void **state)
{
    (void)state;
    enum { N = 40, N_TOKENS = 12, N_ROUNDS = 50, N_CANCELLED = 10 };
    int32_t ids[N];
    tiny_ids(23, ids, N);
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.chunk_size = 16;
    options.n_threads = 2;
    cera_engine *engine = tiny_open(&options);
    cera_session *calm = tiny_new(engine, 0), *s = tiny_new(engine, 0);
    double start = now_ms();
    assert_int_equal(cera_session_append_ids(calm, ids, N, NULL), CERA_OK);
    unsigned calm_us = 1 + (unsigned)CR_MIN((now_ms() - start) * 1e3, 5e5);
    cera_generate_options generate = tiny_greedy(N_TOKENS);
    tiny_generate(calm, &generate, NULL);

    int n_cancelled = 0;
    for (int round = 0; round < N_ROUNDS && n_cancelled < N_CANCELLED; round++) {
        cera_session_reset(s);
        storm weather = { .session = s, .calm_us = calm_us };
        n_cancelled += work_in_storm(s, &weather, ids, N, N_TOKENS);
        tiny_assert_equal(s, calm);
    }
    assert_true(n_cancelled > 0);
    cera_session_free(s);
    cera_session_free(calm);
    cera_engine_close(engine);
}

/* ---- several sessions -------------------------------------------------------------------- */

enum { N_PROMPTS = 3, N_GENERATED = 8 };
static const char *const prompts[N_PROMPTS] = {
    "<|startoftext|>Once upon a time",
    "<|startoftext|><|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\n",
    "<|startoftext|>The quick brown fox",
};

typedef struct alone {
    tiny_record record;
    tiny_snapshot snapshot;
} alone;

static void run_alone(cera_engine *engine, alone out[N_PROMPTS])
{
    cera_generate_options options = tiny_greedy(N_GENERATED);
    for (int i = 0; i < N_PROMPTS; i++) {
        cera_session *s = tiny_new(engine, 0);
        tiny_append(s, prompts[i]);
        tiny_generate(s, &options, &out[i].record);
        tiny_take(s, &out[i].snapshot);
        cera_session_free(s);
    }
}

static void sessions_in_turn_are_alone(void **state)
{
    (void)state;
    cera_engine *engine = tiny_open(NULL);
    static alone expected[N_PROMPTS];
    run_alone(engine, expected);
    cera_session *s[N_PROMPTS];
    for (int i = 0; i < N_PROMPTS; i++) {
        s[i] = tiny_new(engine, 0);
        tiny_append(s[i], prompts[i]);
    }
    cera_generate_options one = tiny_greedy(1);
    for (int n = 0; n < N_GENERATED; n++)
        for (int i = 0; i < N_PROMPTS; i++)
            tiny_generate(s[(i + n) % N_PROMPTS], &one, NULL);
    for (int i = 0; i < N_PROMPTS; i++) {
        tiny_assert_at(s[i], &expected[i].snapshot);
        cera_session_free(s[i]);
    }
    cera_engine_close(engine);
}

typedef struct worker {
    cera_engine *engine;
    const alone *expected;
    int first;
    const char *wrong; /* what differed, or NULL */
} worker;

static const char *play_once(cera_session *s, const char *prompt, const alone *expected)
{
    cera_generate_options options = tiny_greedy(N_GENERATED);
    cera_input input = { .text = prompt, .parse_special = true };
    cera_session_reset(s);
    if (cera_session_append(s, &input, NULL) != CERA_OK)
        return "append";
    tiny_record record = { .n_tokens = 0 };
    cera_sink sink = tiny_sink(&record);
    if (cera_session_generate(s, &options, &sink, NULL, NULL) != CERA_OK)
        return "generate";
    if (strcmp(record.text, expected->record.text) != 0)
        return "the text";
    if (memcmp(cera_session_logits(s), expected->snapshot.logits,
               sizeof expected->snapshot.logits) != 0)
        return "the logits";
    return NULL;
}

static void *play_rounds(void *arg)
{
    worker *w = arg;
    enum { N_ROUNDS = 20 };
    cera_session *s = NULL;
    for (int round = 0; round < N_ROUNDS && !w->wrong; round++) {
        if (round % 5 == 0) { /* an old session and a new one */
            cera_session_free(s);
            s = NULL;
            if (cera_session_new(w->engine, NULL, &s, NULL) != CERA_OK)
                return NULL;
        }
        int i = (w->first + round) % N_PROMPTS;
        w->wrong = play_once(s, prompts[i], &w->expected[i]);
        cera_engine_info info;
        cera_engine_get_info(w->engine, &info); /* while others compute */
    }
    cera_session_free(s);
    return NULL;
}

static void sessions_of_two_threads_are_alone(void **state)
{
    (void)state;
    static alone expected[N_PROMPTS];
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.n_threads = 2;
    cera_engine *engine = tiny_open(&options);
    run_alone(engine, expected);
    worker workers[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        workers[i] = (worker){ .engine = engine, .expected = expected, .first = i };
        assert_int_equal(pthread_create(&threads[i], NULL, play_rounds, &workers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        if (workers[i].wrong)
            fail_msg("thread %d: %s", i, workers[i].wrong);
    }
    cera_engine_close(engine);
}

/* More workers than processors: they sleep instead of spinning against each other. */
static void many_threads_make_progress(void **state)
{
    (void)state;
    cera_engine *narrow = tiny_open(NULL);
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.n_threads = 16;
    cera_engine *wide = tiny_open(&options);
    cera_session *a = tiny_new(narrow, 0), *b = tiny_new(wide, 0);
    tiny_append(a, prompts[0]);
    tiny_append(b, prompts[0]);
    tiny_assert_twins(a, b);
    cera_session_free(a);
    cera_session_free(b);
    cera_engine_close(narrow);
    cera_engine_close(wide);
}

/* ---- the order of closing ---------------------------------------------------------------- */

static void sessions_outlive_their_engine(void **state)
{
    (void)state;
    cera_engine *engine = tiny_open(NULL);
    cera_engine *second = cera_engine_retain(engine);
    assert_ptr_equal(second, engine);
    cera_session *a = tiny_new(engine, 0), *b = tiny_new(engine, 0);
    tiny_append(a, prompts[0]);
    cera_engine_close(engine);
    tiny_append(b, prompts[0]); /* the sessions hold it, and so does `second` */
    cera_engine_close(second);
    tiny_assert_twins(a, b);
    cera_session_free(a);
    cera_generate_options options = tiny_greedy(3);
    tiny_generate(b, &options, NULL);
    cera_session_free(b);
}

/* What a child of fork() sees of an engine that was opened before: 0 when it is refused with
 * CERA_E_STATE, can be closed, and an engine of the child's own works. */
static int use_in_child(cera_engine *engine, cera_session *session)
{
    cera_error err;
    alarm(30); /* a hang is a failure */
    if (cera_session_append_text(session, "a", &err) != CERA_E_STATE)
        return 1;
    cera_session_free(session);
    cera_engine_close(engine);
    cera_engine *own;
    if (cera_engine_open("builtin:tiny", NULL, &own, &err) != CERA_OK)
        return 2;
    if (cera_session_new(own, NULL, &session, &err) != CERA_OK ||
        cera_session_append_text(session, "a", &err) != CERA_OK)
        return 3;
    cera_session_free(session);
    cera_engine_close(own);
    return 0;
}

static void a_child_of_fork_is_told(void **state)
{
    (void)state;
    if (getenv("CERA_EMULATED")) {
        print_message("skip: QEMU's user mode cannot fork from several threads\n");
        skip();
    }
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.n_threads = 2;
    cera_engine *engine = tiny_open(&options);
    cera_session *session = tiny_new(engine, 0);
    tiny_append(session, tiny_prompt);
    pid_t child = fork();
    if (child == 0)
        _exit(use_in_child(engine, session));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    tiny_append(session, "a"); /* the parent goes on */
    cera_session_free(session);
    cera_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cancel_ends_a_generation_within_a_token),
        cmocka_unit_test(a_cancel_ends_an_append_soon),
        cmocka_unit_test(cancels_at_any_moment_leave_nothing_behind),
        cmocka_unit_test(sessions_in_turn_are_alone),
        cmocka_unit_test(sessions_of_two_threads_are_alone),
        cmocka_unit_test(many_threads_make_progress),
        cmocka_unit_test(sessions_outlive_their_engine),
        cmocka_unit_test(a_child_of_fork_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

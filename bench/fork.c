/* What one more session costs: time to fork a long one, and bytes that another one with the same
 * beginning takes.
 *
 *     cc -O2 -std=c11 -Iinclude bench/fork.c build/release/libcera.a -lpcre2-8 -lxxhash -lutf8proc \
 *         -lm -lpthread -o /tmp/fork
 *     /tmp/fork MODEL [TOKENS [ROUNDS]]
 *
 * Tokens are random. Forks are timed alone, 1,000 a round, and freed outside of the time; printed
 * are median and least of the rounds, in processor time, which other load does not touch. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include "cera.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N_FORKS = 1000, MAX_ROUNDS = 101 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(cera_status status, const char *what, const cera_error *err)
{
    if (status == CERA_OK)
        return;
    fprintf(stderr, "fork: %s: %s\n", what, err->message);
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint64_t bytes_held(const cera_engine *engine)
{
    cera_engine_stats stats;
    cera_engine_get_stats(engine, &stats);
    return stats.page_bytes_used + stats.state_bytes_used;
}

/* Another session with the n tokens, and one of its own. */
static void print_memory(cera_engine *engine, const int32_t *ids, int n)
{
    cera_error err;
    cera_session *s;
    uint64_t before = bytes_held(engine);
    must(cera_session_new(engine, NULL, &s, &err), "a session", &err);
    must(cera_session_append_ids(s, ids, (size_t)n, &err), "append", &err);
    must(cera_session_append_ids(s, ids + 1, 1, &err), "append", &err);
    printf("one more session: %.3f MB, the first %.1f MB\n",
           (double)(bytes_held(engine) - before) / 1e6, (double)before / 1e6);
    cera_session_free(s);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: fork MODEL [TOKENS [ROUNDS]]\n");
        return 2;
    }
    int n = argc > 2 ? atoi(argv[2]) : 8000, n_rounds = argc > 3 ? atoi(argv[3]) : 11;
    if (n < 2 || n_rounds < 1 || n_rounds > MAX_ROUNDS)
        return 2;
    cera_error err;
    cera_engine *engine;
    cera_session *session;
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.context_size = n + 1;
    must(cera_engine_open(argv[1], &options, &engine, &err), argv[1], &err);
    must(cera_session_new(engine, NULL, &session, &err), "a session", &err);
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    uint32_t random = 1;
    for (int i = 0; ids && i < n; i++) {
        random = random * 1664525u + 1013904223u;
        ids[i] = 100 + (int32_t)(random >> 8) % 10000;
    }
    must(cera_session_append_ids(session, ids, (size_t)n, &err), "append", &err);

    static cera_session *forks[N_FORKS];
    double times[MAX_ROUNDS];
    for (int round = 0; round < n_rounds; round++) {
        double begin = now();
        for (int i = 0; i < N_FORKS; i++)
            must(cera_session_fork(session, &forks[i], &err), "fork", &err);
        times[round] = (now() - begin) / N_FORKS * 1e6;
        for (int i = 0; i < N_FORKS; i++)
            cera_session_free(forks[i]);
    }
    qsort(times, (size_t)n_rounds, sizeof *times, by_value);
    printf("fork at %d tokens: %.1f us, at least %.1f us\n", n, times[n_rounds / 2], times[0]);
    print_memory(engine, ids, n);
    free(ids);
    cera_session_free(session);
    cera_engine_close(engine);
    return 0;
}

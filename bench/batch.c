/* How much faster many sessions are together than one after the other.
 *
 *     cc -O2 -std=c11 -Iinclude bench/batch.c build/release/libcera.a -lpcre2-8 -lxxhash -lutf8proc \
 *         -lm -lpthread -o /tmp/batch
 *     /tmp/batch MODEL [TOKENS [ROUNDS [THREADS]]]
 *
 * Sessions of one engine generate greedily on a thread each: 1, 2, 4, 8 and 16 at a time, in turns,
 * so that other load falls on all of them alike. Printed are medians: tokens a second of all
 * sessions together, that over the figure for one, and the same of tokens a second of processor
 * time, which on a busy machine (with one thread, so that none waits for another) says more.
 * Prompts are 64 random tokens and not timed. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_barrier_t */

#include "cera.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_MOST = 16, N_SIZES = 5, N_PROMPT = 64, MAX_ROUNDS = 101 };
static const int sizes[N_SIZES] = { 1, 2, 4, 8, 16 };

typedef struct job {
    cera_session *session;
    pthread_barrier_t *start;
    int n_tokens;
    size_t n_done;
} job;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what, const cera_error *err)
{
    fprintf(stderr, "batch: %s: %s\n", what, err->message);
    exit(1);
}

static int on_text(void *user, const char *text, size_t n)
{
    (void)user;
    (void)text;
    (void)n;
    return 0;
}

static void *generate(void *arg)
{
    job *j = arg;
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.max_tokens = j->n_tokens;
    options.temperature = 0;
    options.ignore_eos = true;
    cera_sink sink = { .on_text = on_text };
    cera_summary summary;
    cera_error err;
    pthread_barrier_wait(j->start);
    if (cera_session_generate(j->session, &options, &sink, &summary, &err) != CERA_OK)
        die("generate", &err);
    j->n_done = summary.n_generated;
    return NULL;
}

typedef struct rate {
    double wall, cpu;
} rate;

/* Tokens a second of n sessions together. */
static rate measure(cera_session **sessions, int n, int n_tokens)
{
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)n + 1);
    job jobs[N_MOST];
    pthread_t threads[N_MOST];
    for (int i = 0; i < n; i++) {
        cera_error err;
        if (cera_session_rewind(sessions[i], N_PROMPT, &err) != CERA_OK)
            die("rewind", &err);
        jobs[i] = (job){ .session = sessions[i], .start = &start, .n_tokens = n_tokens };
        if (pthread_create(&threads[i], NULL, generate, &jobs[i]) != 0)
            exit(1);
    }
    pthread_barrier_wait(&start);
    double begin = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID), n_all = 0;
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        n_all += (double)jobs[i].n_done;
    }
    rate r = {
        n_all / (now(CLOCK_MONOTONIC) - begin),
        n_all / (now(CLOCK_PROCESS_CPUTIME_ID) - cpu),
    };
    pthread_barrier_destroy(&start);
    return r;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: batch MODEL [TOKENS [ROUNDS [THREADS]]]\n");
        return 2;
    }
    int n_tokens = argc > 2 ? atoi(argv[2]) : 64, n_rounds = argc > 3 ? atoi(argv[3]) : 9;
    n_rounds = n_rounds < 1 ? 1 : n_rounds > MAX_ROUNDS ? MAX_ROUNDS : n_rounds;
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.n_threads = argc > 4 ? atoi(argv[4]) : 0;
    options.context_size = N_PROMPT + n_tokens + 1;
    options.no_reuse = true;
    cera_engine *engine;
    cera_error err;
    if (cera_engine_open(argv[1], &options, &engine, &err) != CERA_OK)
        die(argv[1], &err);
    cera_engine_info info;
    cera_engine_get_info(engine, &info);

    cera_session *sessions[N_MOST];
    unsigned random = 1;
    for (int i = 0; i < N_MOST; i++) {
        int32_t ids[N_PROMPT];
        for (int k = 0; k < N_PROMPT; k++) {
            random = random * 1664525u + 1013904223u;
            ids[k] = (int32_t)((random >> 8) % (unsigned)info.n_vocab);
        }
        if (cera_session_new(engine, NULL, &sessions[i], &err) != CERA_OK ||
            cera_session_append_ids(sessions[i], ids, N_PROMPT, &err) != CERA_OK)
            die("session", &err);
    }
    static double rates[N_SIZES][MAX_ROUNDS], ratios[N_SIZES][MAX_ROUNDS], cpu[N_SIZES][MAX_ROUNDS];
    for (int round = -1; round < n_rounds; round++) { /* the first one warms up */
        rate one = { 0 };
        for (int s = 0; s < N_SIZES; s++) {
            int at = round < 0 ? 0 : round;
            rate r = measure(sessions, sizes[s], n_tokens);
            one = s == 0 ? r : one;
            rates[s][at] = r.wall;
            ratios[s][at] = r.wall / one.wall;
            cpu[s][at] = r.cpu / one.cpu;
        }
    }
    printf("%s %s, %d threads, %s, %d tokens, median of %d\n", info.name, info.quant,
           info.n_threads, info.cpu_tier, n_tokens, n_rounds);
    printf("%8s %8s %8s %8s\n", "sessions", "t/s", "times", "by cpu");
    for (int s = 0; s < N_SIZES; s++) {
        qsort(rates[s], (size_t)n_rounds, sizeof(double), compare);
        qsort(ratios[s], (size_t)n_rounds, sizeof(double), compare);
        qsort(cpu[s], (size_t)n_rounds, sizeof(double), compare);
        printf("%8d %8.1f %8.2f %8.2f\n", sizes[s], rates[s][n_rounds / 2], ratios[s][n_rounds / 2],
               cpu[s][n_rounds / 2]);
    }
    for (int i = 0; i < N_MOST; i++)
        cera_session_free(sessions[i]);
    cera_engine_close(engine);
    return 0;
}

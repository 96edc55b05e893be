/* What guesses at tokens to come cost where text does not repeat, and what they bring where it
 * does.
 *
 *     cc -O2 -std=c11 -Iinclude bench/draft.c build/release/libcera.a -lpcre2-8 -lxxhash -lutf8proc \
 *         -lm -o /tmp/draft
 *     /tmp/draft MODEL [TOKENS [ROUNDS [THREADS [DRAFT_MODEL]]]]
 *
 * Each text is generated without guesses and with up to eight at a time, in turns, from the same
 * seed: the same tokens. Printed are speeds with guesses over speeds without: median, least and
 * greatest, by time and by processor time, which on a busy machine (with one thread, so that none
 * waits for another) says more. Guesses come from the text itself, or from DRAFT_MODEL. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include "cera.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_TEXTS = 3, MAX_ROUNDS = 101, N_DRAFT = 8 };

static const struct {
    const char *name, *prompt;
    float temperature;
} texts[N_TEXTS] = {
    { "a story", "The lighthouse keeper had not spoken to anyone for eleven days when", 0.9f },
    { "an essay", "There are three reasons why rivers change their course. The first", 0.9f },
    { "a list that repeats",
      "Repeat the days:\nMonday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday\n"
      "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday\nMonday, Tuesday,",
      0 },
};

static void die(const char *what, const cera_error *err)
{
    fprintf(stderr, "draft: %s: %s\n", what, err->message);
    exit(1);
}

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

typedef struct cost {
    double wall, cpu; /* seconds */
    cera_summary summary;
} cost;

/* Generates behind the prompt; `fork` leaves the session there. */
static cost generate(cera_session *s, const cera_generate_options *options)
{
    cera_error err;
    cera_session *fork;
    cost c;
    if (cera_session_fork(s, &fork, &err) != CERA_OK)
        die("fork", &err);
    double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    if (cera_session_generate(fork, options, NULL, &c.summary, &err) != CERA_OK)
        die("generate", &err);
    c.wall = now(CLOCK_MONOTONIC) - wall;
    c.cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    cera_session_free(fork);
    return c;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_ratios(double *ratios, int n)
{
    qsort(ratios, (size_t)n, sizeof *ratios, compare);
    printf("  %5.2f (%.2f to %.2f)", ratios[n / 2], ratios[0], ratios[n - 1]);
}

static void measure(cera_engine *engine, cera_engine *draft, int text, int n_tokens, int n_rounds)
{
    cera_session *s;
    cera_error err;
    if (cera_session_new(engine, NULL, &s, &err) != CERA_OK ||
        cera_session_append_text(s, texts[text].prompt, &err) != CERA_OK)
        die("session", &err);
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.max_tokens = n_tokens;
    options.temperature = texts[text].temperature;
    options.ignore_eos = true;
    double wall[MAX_ROUNDS], cpu[MAX_ROUNDS];
    size_t n_drafted = 0, n_accepted = 0;
    for (int round = -1; round < n_rounds; round++) { /* the first one warms up */
        cost costs[2];
        options.seed = (uint64_t)round;
        for (int i = 0; i < 2; i++) {
            int with = i ^ (round & 1);
            options.n_draft = with ? N_DRAFT : 0;
            options.draft = with ? draft : NULL;
            costs[with] = generate(s, &options);
        }
        int at = round < 0 ? 0 : round;
        wall[at] = costs[0].wall / costs[1].wall;
        cpu[at] = costs[0].cpu / costs[1].cpu;
        n_drafted += costs[1].summary.n_drafted;
        n_accepted += costs[1].summary.n_accepted;
    }
    printf("%-20s", texts[text].name);
    print_ratios(wall, n_rounds);
    print_ratios(cpu, n_rounds);
    printf("  %zu guessed, %zu right\n", n_drafted, n_accepted);
    cera_session_free(s);
}

static cera_engine *open_model(const char *path, int n_threads, int n_tokens)
{
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.n_threads = n_threads;
    options.context_size = n_tokens + 128;
    cera_engine *engine;
    cera_error err;
    if (cera_engine_open(path, &options, &engine, &err) != CERA_OK)
        die(path, &err);
    return engine;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: draft MODEL [TOKENS [ROUNDS [THREADS [DRAFT_MODEL]]]]\n");
        return 2;
    }
    int n_tokens = argc > 2 ? atoi(argv[2]) : 128, n_rounds = argc > 3 ? atoi(argv[3]) : 9;
    int n_threads = argc > 4 ? atoi(argv[4]) : 0;
    n_rounds = n_rounds < 1 ? 1 : n_rounds > MAX_ROUNDS ? MAX_ROUNDS : n_rounds;
    cera_engine *engine = open_model(argv[1], n_threads, n_tokens);
    cera_engine *draft = argc > 5 ? open_model(argv[5], n_threads, n_tokens) : NULL;
    cera_engine_info info;
    cera_engine_get_info(engine, &info);
    printf("%s %s, %d threads, %s, %d tokens, %d rounds: speed with guesses over without\n",
           info.name, info.quant, info.n_threads, info.cpu_tier, n_tokens, n_rounds);
    printf("%-20s  %-21s  %s\n", "", "by time", "by processor time");
    for (int i = 0; i < N_TEXTS; i++)
        measure(engine, draft, i, n_tokens, n_rounds);
    cera_engine_close(draft);
    cera_engine_close(engine);
    return 0;
}

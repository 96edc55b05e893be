/* What a grammar costs a generation: processor time of a token, free and constrained.
 *
 *     cc -O2 -std=c11 -Iinclude bench/constrained.c build/release/libcera.a -lpcre2-8 -lxxhash \
 *         -lutf8proc -ljansson -lm -lpthread -o /tmp/constrained
 *     /tmp/constrained MODEL GRAMMAR.gbnf...
 *     -n TOKENS   128     -r ROUNDS   5     -p PROMPT
 *
 * A round generates free and constrained, one behind the other, each in a session of its own. A
 * grammar keeps the masks that it has found for whoever uses it next, so each measurement compiles
 * its own. Every token is a step of the model: nothing is forced ahead. Then the constrained text
 * is read again by a grammar's state alone, mask and token by token: that is the share of the
 * grammar without the noise of two generations. One thread, medians of the rounds. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, getopt */

#include "cera.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MAX_TOKENS = 4096, MAX_ROUNDS = 101 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void must(cera_status status, const char *what, const cera_error *err)
{
    if (status == CERA_OK)
        return;
    fprintf(stderr, "constrained: %s: %s\n", what, err->message);
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, by_value);
    return times[n / 2];
}

typedef struct bench {
    cera_engine *engine;
    const char *prompt;
    int n_tokens, n_rounds;
} bench;

typedef struct text {
    int32_t ids[MAX_TOKENS];
    size_t n;
} text;

static int keep(void *user, const cera_token_info *token)
{
    text *t = user;
    t->ids[t->n++] = token->id;
    return 0;
}

/* Microseconds a token. */
static double generate(const bench *b, cera_grammar *grammar, uint64_t seed, text *out)
{
    cera_error err;
    cera_session *s;
    must(cera_session_new(b->engine, NULL, &s, &err), "a session", &err);
    must(cera_session_append_text(s, b->prompt, &err), "the prompt", &err);
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.max_tokens = b->n_tokens;
    options.ignore_eos = true;
    options.grammar = grammar;
    options.seed = seed;
    out->n = 0;
    double start = now();
    must(cera_session_generate(s, &options, &(cera_sink){ .on_token = keep, .user = out }, NULL,
                               &err),
         "generate", &err);
    double taken = now() - start;
    cera_session_free(s);
    return taken / (double)(out->n > 0 ? out->n : 1);
}

/* Mask and reading alone, a token. */
static double read_again(cera_grammar *grammar, const text *t)
{
    cera_error err;
    cera_grammar_state *state;
    must(cera_grammar_state_new(grammar, &state, &err), "a state", &err);
    double start = now();
    for (size_t i = 0; i < t->n; i++) {
        const uint64_t *bits;
        must(cera_grammar_state_mask(state, &bits, &err), "mask", &err);
        must(cera_grammar_state_read(state, t->ids[i], &err), "read", &err);
    }
    double taken = now() - start;
    cera_grammar_state_free(state);
    return taken / (double)(t->n > 0 ? t->n : 1);
}

/* One that knows no mask yet. */
static cera_grammar *compile(const bench *b, const char *path)
{
    enum { MOST = 1 << 20 };
    static char source[MOST];
    cera_error err;
    cera_grammar *grammar;
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    size_t n = fread(source, 1, MOST, f);
    fclose(f);
    must(cera_grammar_from_gbnf(source, n, cera_engine_vocab(b->engine), NULL, &grammar, &err),
         path, &err);
    return grammar;
}

static void run(const bench *b, const char *path)
{
    static text t;
    double free_us[MAX_ROUNDS], held_us[MAX_ROUNDS], read_us[MAX_ROUNDS];
    size_t n_tokens = 0;
    for (int i = 0; i < b->n_rounds; i++) {
        uint64_t seed = (uint64_t)i + 1;
        /* In turns first, so that neither is always behind the other. */
        if (i % 2 == 0)
            free_us[i] = generate(b, NULL, seed, &t);
        cera_grammar *one = compile(b, path), *other = compile(b, path);
        held_us[i] = generate(b, one, seed, &t);
        read_us[i] = read_again(other, &t);
        cera_grammar_free(one);
        cera_grammar_free(other);
        n_tokens += t.n;
        if (i % 2 != 0)
            free_us[i] = generate(b, NULL, seed, &t);
    }
    double before = median(free_us, b->n_rounds), after = median(held_us, b->n_rounds);
    double alone = median(read_us, b->n_rounds);
    printf("%-34s free %8.0f, constrained %8.0f us (%+.2f %%); mask and reading %6.1f us: %.2f %% "
           "of a step; %zu tokens\n",
           path, before, after, 100 * (after - before) / before, alone, 100 * alone / before,
           n_tokens);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    bench b = { .prompt = "Here is a record of a person, with a name, an age and an address:\n",
                .n_tokens = 128,
                .n_rounds = 5 };
    int option;
    while ((option = getopt(argc, argv, "n:r:p:")) != -1) {
        if (option == 'n')
            b.n_tokens = atoi(optarg);
        else if (option == 'r')
            b.n_rounds = atoi(optarg);
        else if (option == 'p')
            b.prompt = optarg;
        else
            return 2;
    }
    if (argc - optind < 2 || b.n_tokens < 1 || b.n_tokens > MAX_TOKENS || b.n_rounds < 1 ||
        b.n_rounds > MAX_ROUNDS) {
        fprintf(stderr,
                "usage: constrained [-n TOKENS] [-r ROUNDS] [-p PROMPT] MODEL GRAMMAR...\n");
        return 2;
    }
    cera_error err;
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.n_threads = 1;
    must(cera_engine_open(argv[optind], &options, &b.engine, &err), argv[optind], &err);
    for (int i = optind + 1; i < argc; i++)
        run(&b, argv[i]);
    cera_engine_close(b.engine);
    return 0;
}

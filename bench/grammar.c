/* What grammars cost a token: the mask before it and reading it.
 *
 *     cc -O2 -std=c11 -Isrc -Iinclude bench/grammar.c build/release/libcera.a -lpcre2-8 -lxxhash \
 *         -lutf8proc -ljansson -lm -lpthread -o /tmp/grammar
 *     /tmp/grammar VOCAB.gguf GRAMMAR.gbnf...           tokens at random, those that the grammar allows
 *     /tmp/grammar -t TEXT-FILE VOCAB.gguf GRAMMAR.gbnf...          a text that the grammars accept
 *     -v     a line per token
 *
 * The first pass begins with nothing known; the second has what the first left behind. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "file/gguf.h"
#include "grammar/gbnf.h"
#include "grammar/matcher.h"
#include "sample/rng.h"

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void check(cera_status status, const cera_error *err)
{
    if (status == CERA_OK)
        return;
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

/* The memory stays until the end. */
static cr_str read_file(const char *path)
{
    enum { MOST = 1 << 22 };
    FILE *f = fopen(path, "rb");
    char *data = malloc(MOST);
    if (f == NULL || data == NULL) {
        perror(path);
        exit(1);
    }
    size_t n = fread(data, 1, MOST, f);
    fclose(f);
    return (cr_str){ data, n };
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

enum { N_RANDOM = 2000 };

typedef struct bench {
    cr_host host;
    cr_vocab *vocab;
    cr_token_table *table;
    const int32_t *ids; /* [n] of a text; NULL: at random */
    size_t n;
    bool is_verbose;
    double *times; /* [n] */
} bench;

/* A token that the mask allows: each as probable as the others, or, every other time, each of a
 * single byte where there is one. -1: none but an end. */
static int32_t choose(const bench *b, const uint64_t *bits, cr_rng *rng)
{
    int32_t any = -1, single = -1;
    uint64_t n_any = 0, n_single = 0;
    for (size_t id = 0; id < b->table->n_tokens; id++) {
        if (!cr_bit_get(bits, (uint32_t)id) || cr_vocab_is_end(b->vocab, (int32_t)id))
            continue;
        if (cr_rng_next(rng) % ++n_any == 0)
            any = (int32_t)id;
        if (cr_vocab_piece(b->vocab, (int32_t)id).size == 1 && cr_rng_next(rng) % ++n_single == 0)
            single = (int32_t)id;
    }
    return single >= 0 && cr_rng_next(rng) % 2 == 0 ? single : any;
}

static void run_pass(const bench *b, cr_matcher *m, const char *name)
{
    cera_error err;
    cr_rng rng;
    cr_rng_seed(&rng, 1);
    check(cr_matcher_reset(m, &err), &err);
    double sum = 0;
    int32_t previous = -1;
    for (size_t i = 0; i < b->n; i++) {
        const uint64_t *bits;
        double start = now();
        check(cr_matcher_mask(m, previous, &bits, &err), &err);
        double masked = now();
        int32_t id = b->ids ? b->ids[i] : choose(b, bits, &rng);
        bool allowed = id < 0 || cr_bit_get(bits, (uint32_t)id);
        double chosen = now();
        if (id < 0)
            check(cr_matcher_reset(m, &err), &err);
        cera_status status = id < 0 ? CERA_OK : cr_matcher_read_token(m, previous, id, &err);
        b->times[i] = now() - chosen + masked - start;
        cr_str piece = id < 0 ? (cr_str){ "", 0 } : cr_vocab_piece(b->vocab, id);
        if (status != CERA_OK || !allowed) {
            fprintf(stderr, "token %zu \"%.*s\" is refused\n", i, (int)piece.size, piece.data);
            exit(1);
        }
        if (b->is_verbose)
            printf("%8.1f %.*s\n", b->times[i], (int)piece.size, piece.data);
        sum += b->times[i];
        previous = id;
    }
    cr_matcher_stats stats;
    cr_matcher_get_stats(m, &stats);
    qsort(b->times, b->n, sizeof *b->times, ascending);
    printf(
        "  %-6s median %6.2f, mean %6.2f, 99 %% %6.1f, worst %6.1f us; states %zu, masks %zu, walks "
        "%zu, flushes %zu\n",
        name, b->times[b->n / 2], sum / (double)b->n, b->times[b->n * 99 / 100], b->times[b->n - 1],
        stats.n_states, stats.n_masks, stats.n_walks, stats.n_flushes);
}

static void run_grammar(bench *b, const char *path)
{
    cera_error err;
    cr_automaton *a;
    cr_gbnf_source gbnf = { read_file(path), b->vocab, 1 << 22, .is_made = true };
    double t0 = now();
    check(cr_gbnf_compile(&gbnf, &b->host, &a, &err), &err);
    double t1 = now();
    cr_matcher *m;
    check(cr_matcher_new(a, b->table, &b->host, &m, &err), &err);
    double t2 = now();
    cr_matcher_stats stats;
    cr_matcher_get_stats(m, &stats);
    printf("%s: %u nodes, compile %.2f ms, matcher %.2f ms, %.1f MiB\n", path, a->n_nodes,
           (t1 - t0) / 1e3, (t2 - t1) / 1e3, (double)stats.bytes / 1048576);
    run_pass(b, m, "first");
    run_pass(b, m, "second");
    cr_matcher_free(m);
    cr_automaton_free(a);
}

int main(int argc, char **argv)
{
    bench b = { .n = N_RANDOM };
    const char *text = NULL;
    int option;
    while ((option = getopt(argc, argv, "t:v")) != -1) {
        if (option == 't')
            text = optarg;
        else if (option == 'v')
            b.is_verbose = true;
        else
            return 2;
    }
    if (argc - optind < 2)
        return 2;
    cera_error err;
    check(cr_host_set(&b.host, NULL, &err), &err);
    cr_gguf *file;
    cera_source source = { .path = argv[optind] };
    check(cr_gguf_open(&source, &b.host, &file, &err), &err);
    check(cr_vocab_new(file, NULL, &b.host, &b.vocab, &err), &err);
    double start = now();
    check(cr_token_table_new(b.vocab, &b.host, &b.table, &err), &err);
    printf("%zu tokens, %u tree nodes: table %.1f ms\n", b.table->n_tokens, b.table->n_nodes,
           (now() - start) / 1e3);

    cr_buf ids;
    cr_buf_init(&ids, &b.host, CR_MEM_SCRATCH);
    if (text) {
        cera_encode_options options = { .size = sizeof options };
        check(cr_vocab_encode(b.vocab, read_file(text), &options, &ids, &err), &err);
        b.ids = (const int32_t *)(const void *)ids.data;
        b.n = ids.size / sizeof *b.ids;
        while (b.n > 0 && (cr_vocab_is_end(b.vocab, b.ids[b.n - 1]) ||
                           cr_vocab_piece(b.vocab, b.ids[b.n - 1]).size == 0))
            b.n--;
    }
    b.times = malloc((b.n + 1) * sizeof *b.times);
    if (!b.times || b.n == 0)
        return 1;
    for (int i = optind + 1; i < argc; i++)
        run_grammar(&b, argv[i]);
    free(b.times);
    cr_buf_done(&ids);
    cr_token_table_free(b.table);
    cr_vocab_free(b.vocab);
    cr_gguf_close(file);
    return 0;
}

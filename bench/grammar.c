/* What a grammar costs a token: the mask before it and reading it, over a text that the grammar
 * accepts, tokenised by a vocabulary.
 *
 *     cc -O2 -std=c11 -Isrc -Iinclude bench/grammar.c build/release/libcera.a -lpcre2-8 -lxxhash \
 *         -lutf8proc -lm -lpthread -o /tmp/grammar
 *     /tmp/grammar VOCAB.gguf GRAMMAR.gbnf TEXT-FILE
 *
 * The first pass begins with nothing known; the second has what the first left behind. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "file/gguf.h"
#include "grammar/gbnf.h"
#include "grammar/matcher.h"

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

static cr_str read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        exit(1);
    static char room[2][1 << 22];
    static int n_read;
    char *data = room[n_read++ % 2];
    size_t n = fread(data, 1, sizeof room[0], f);
    fclose(f);
    return (cr_str){ data, n };
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    cr_host host;
    cera_error err;
    check(cr_host_set(&host, NULL, &err), &err);
    cr_gguf *file;
    cr_vocab *vocab;
    cera_source source = { .path = argv[1] };
    check(cr_gguf_open(&source, &host, &file, &err), &err);
    check(cr_vocab_new(file, NULL, &host, &vocab, &err), &err);
    double t0 = now();
    cr_token_table *table;
    check(cr_token_table_new(vocab, &host, &table, &err), &err);
    double t1 = now();
    cr_automaton *a;
    cr_gbnf_source gbnf = { read_file(argv[2]), vocab, 1 << 22 };
    check(cr_gbnf_compile(&gbnf, &host, &a, &err), &err);
    double t2 = now();
    cr_matcher *m;
    check(cr_matcher_new(a, table, &host, &m, &err), &err);
    double t3 = now();
    cr_matcher_stats stats;
    cr_matcher_get_stats(m, &stats);
    printf("%zu tokens, %u tree nodes: table %.1f ms, compile %.2f ms, matcher %.2f ms, %.1f MiB\n",
           table->n_tokens, table->n_nodes, (t1 - t0) / 1e3, (t2 - t1) / 1e3, (t3 - t2) / 1e3,
           (double)stats.bytes / 1048576);

    cr_buf ids;
    cr_buf_init(&ids, &host, CR_MEM_SCRATCH);
    cera_encode_options options = { .size = sizeof options };
    check(cr_vocab_encode(vocab, read_file(argv[3]), &options, &ids, &err), &err);
    const int32_t *id = (const int32_t *)(const void *)ids.data;
    size_t n = ids.size / sizeof *id;
    while (n > 0 &&
           (cr_vocab_is_end(vocab, id[n - 1]) || cr_vocab_piece(vocab, id[n - 1]).size == 0))
        n--;
    double *times = malloc(n * sizeof *times);
    for (int pass = 0; pass < 2; pass++) {
        double sum = 0;
        check(cr_matcher_reset(m, &err), &err);
        for (size_t i = 0; i < n; i++) {
            int32_t previous = i > 0 ? id[i - 1] : -1;
            const uint64_t *bits;
            double start = now();
            check(cr_matcher_mask(m, previous, &bits, &err), &err);
            bool allowed = cr_bit_get(bits, (uint32_t)id[i]);
            cera_status status = cr_matcher_read_token(m, previous, id[i], &err);
            times[i] = now() - start;
            if (status != CERA_OK || !allowed) {
                cr_str piece = cr_vocab_piece(vocab, id[i]);
                fprintf(stderr, "token %zu \"%.*s\" is refused\n", i, (int)piece.size, piece.data);
                return 1;
            }
            if (argc > 4) {
                cr_str piece = cr_vocab_piece(vocab, id[i]);
                printf("%8.1f %.*s\n", times[i], (int)piece.size, piece.data);
            }
            sum += times[i];
        }
        cr_matcher_get_stats(m, &stats);
        qsort(times, n, sizeof *times, ascending);
        printf("%s pass, %zu tokens: median %.2f, mean %.2f, 99 %% %.1f, worst %.1f us; "
               "complete %d; states %zu, masks %zu, walks %zu, flushes %zu\n",
               pass == 0 ? "first" : "second", n, times[n / 2], sum / (double)n,
               times[n * 99 / 100], times[n - 1], cr_matcher_is_complete(m), stats.n_states,
               stats.n_masks, stats.n_walks, stats.n_flushes);
    }
    free(times);
    cr_buf_done(&ids);
    cr_matcher_free(m);
    cr_automaton_free(a);
    cr_token_table_free(table);
    cr_vocab_free(vocab);
    cr_gguf_close(file);
    return 0;
}

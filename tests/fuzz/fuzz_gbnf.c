/* Any bytes as a grammar, and those behind a NUL as text. A grammar that compiles masks exactly the
 * tokens whose bytes it goes on with, wherever the text has come to. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/gguf.h"
#include "grammar/gbnf.h"
#include "grammar/matcher.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Opened once; a fuzz target has no place to give them back. */
static cr_host host;
static cr_vocab *vocab;
static cr_token_table *table;

static void fail(const char *what)
{
    fprintf(stderr, "fuzz_gbnf: %s\n", what);
    abort();
}

static void open_vocab(void)
{
    const char *path = getenv("CERA_FUZZ_MODEL");
    cera_source source = { .path = path != NULL ? path : CERA_TEST_MODELS "/tiny.gguf" };
    cera_error err;
    cr_gguf *file = NULL;
    if (cr_host_set(&host, NULL, &err) != CERA_OK ||
        cr_gguf_open(&source, &host, &file, &err) != CERA_OK ||
        cr_vocab_new(file, NULL, &host, &vocab, &err) != CERA_OK ||
        cr_token_table_new(vocab, &host, &table, &err) != CERA_OK)
        fail(err.message);
    cr_gguf_close(file);
}

static void compare(cr_matcher *m, cr_matcher *probe)
{
    const uint64_t *bits;
    if (cr_matcher_mask(m, -1, &bits, NULL) != CERA_OK)
        return; /* too ambiguous */
    for (size_t i = 0; i < table->n_tokens; i += 7) {
        int32_t id = (int32_t)i;
        if (!cr_bit_get(table->text, (uint32_t)i))
            continue;
        if (cr_matcher_move(probe, m, NULL) != CERA_OK)
            fail("a position cannot be copied");
        bool reads = cr_matcher_read_text(probe, cr_vocab_piece(vocab, id), NULL) == CERA_OK;
        if (reads != cr_bit_get(bits, (uint32_t)i))
            fail("a mask and the automaton disagree");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (vocab == NULL)
        open_vocab();
    const uint8_t *nul = size > 0 ? memchr(data, 0, size) : NULL;
    size_t n = nul != NULL ? (size_t)(nul - data) : size;
    cr_gbnf_source source = {
        .text = { (const char *)data, n },
        .vocab = vocab,
        .max_size = CR_GBNF_MAX_TEXT,
    };
    cr_automaton *a;
    cr_matcher *m, *probe;
    if (cr_gbnf_compile(&source, &host, &a, NULL) != CERA_OK)
        return 0;
    if (cr_matcher_new(a, table, &host, &m, NULL) == CERA_OK) {
        if (cr_matcher_new(a, NULL, &host, &probe, NULL) == CERA_OK) {
            if (!a->has_tokens)
                compare(m, probe);
            for (size_t i = n + 1; i < size; i++) {
                cr_str byte = { (const char *)data + i, 1 };
                if (cr_matcher_read_text(m, byte, NULL) != CERA_OK)
                    break;
                if (!a->has_tokens && i % 4 == 0)
                    compare(m, probe);
            }
            cr_matcher_free(probe);
        }
        cr_matcher_free(m);
    }
    cr_automaton_free(a);
    return 0;
}

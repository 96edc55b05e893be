/* Ids of a scored vocabulary against the files of scripts/make-golden-tokens: tokens (text, score
 * and type a line), and texts with their ids. Include after cmocka.h. */
#ifndef SCORED_GOLDEN_H
#define SCORED_GOLDEN_H

#include "support/scored_build.h"
#include "support/token_lines.h"

#include "cera.h"

static inline cera_vocab *open_scored(const scored_build *v)
{
    gguf_build b;
    build_scored(&b, v);
    cera_vocab *vocab = NULL;
    cera_error err = { .message = "" };
    cera_source source = { .data = b.data, .n_data = b.size };
    if (cera_vocab_open(&source, NULL, &vocab, &err) != CERA_OK)
        fail_msg("%s", err.message);
    build_done(&b);
    return vocab;
}

/* All pieces, one behind the other. */
static inline size_t decode_ids(const cera_vocab *vocab, const int32_t *ids, size_t n_ids,
                                char *out)
{
    size_t size = 0;
    for (size_t i = 0; i < n_ids; i++) {
        size_t n;
        const char *piece = cera_vocab_piece_after(vocab, i > 0 ? ids[i - 1] : -1, ids[i], &n);
        assert_non_null(piece);
        memcpy(out + size, piece, n);
        size += n;
    }
    return size;
}

enum { GOLDEN_TOKENS = 2048, GOLDEN_IDS = 8192 };

static inline FILE *open_golden(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", CERA_TEST_DATA, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("%s: cannot be opened", path);
    return file;
}

static inline size_t read_golden_tokens(const char *name, scored_token *out)
{
    FILE *file = open_golden(name);
    static char texts[GOLDEN_TOKENS][64];
    static token_line line;
    size_t n = 0;
    for (; read_line(file, &line); n++) {
        assert_true(n < GOLDEN_TOKENS && line.n_text < sizeof texts[n]);
        memcpy(texts[n], line.text, line.n_text);
        texts[n][line.n_text] = '\0';
        char *end;
        out[n].text = texts[n];
        out[n].score = strtof(line.rest, &end);
        out[n].type = (int)strtol(end, NULL, 10);
    }
    fclose(file);
    return n;
}

static inline void add_golden_unknown(gguf_build *b)
{
    build_key_u32(b, "tokenizer.ggml.unknown_token_id", 0);
}

static inline scored_build golden_like(const char *model)
{
    return (scored_build){ .model = model, .add = add_golden_unknown, .n_added = 1 };
}

/* Ids as in the file, with a vocabulary of the kind and the keys of `like`. Where the kind keeps
 * all of a text and nothing is unknown (id 0), decoding gives the text back. */
static inline void check_golden(const scored_build *like, const char *tokens_name,
                                const char *ids_name, size_t n_lines, bool keeps_text)
{
    static scored_token list[GOLDEN_TOKENS];
    static token_line line;
    static int32_t expected[GOLDEN_IDS];
    static char back[sizeof line.text * 2];
    scored_build v = *like;
    v.tokens = list;
    v.n_tokens = read_golden_tokens(tokens_name, list);
    cera_vocab *vocab = open_scored(&v);
    FILE *file = open_golden(ids_name);
    cera_encode_options options;
    cera_encode_options_init(&options);
    options.add_bos = false;
    size_t n = 0, n_wrong = 0;
    for (; read_line(file, &line); n++) {
        int32_t *ids;
        size_t n_ids;
        const char *at = line.rest;
        size_t n_expected = read_numbers(&at, expected, GOLDEN_IDS);
        assert_int_equal(
            cera_vocab_encode(vocab, line.text, line.n_text, &options, &ids, &n_ids, NULL),
            CERA_OK);
        if (n_ids != n_expected || (n_ids > 0 && memcmp(ids, expected, n_ids * sizeof *ids) != 0)) {
            print_error("%s:%zu\n", ids_name, n + 1);
            n_wrong++;
        }
        bool keeps = keeps_text;
        for (size_t i = 0; i < n_ids; i++)
            keeps = keeps && ids[i] != 0;
        if (keeps) {
            assert_int_equal(decode_ids(vocab, ids, n_ids, back), line.n_text);
            assert_memory_equal(back, line.text, line.n_text);
        }
        cera_vocab_free_ids(vocab, ids, n_ids);
    }
    fclose(file);
    cera_vocab_free(vocab);
    assert_int_equal(n, n_lines);
    assert_int_equal(n_wrong, 0);
}

#endif

/* Small byte-level vocabularies as GGUF files in memory.
 *
 *     vocab_build v = { .pre = "gpt-2", .tokens = extra, .n_tokens = 2, .merges = merges, ... };
 *     gguf_build b;
 *     build_vocab(&b, &v);
 *
 * Ids 0 to 255 are the single bytes, in the order of their values; tokens[i] has id 256 + i. */
#ifndef VOCAB_BUILD_H
#define VOCAB_BUILD_H

#include "support/gguf_build.h"

#include <stdbool.h>

typedef struct vocab_token {
    const char *text; /* in the alphabet of byte-level vocabularies, unless special */
    int type;
} vocab_token;

typedef struct vocab_build {
    const char *model, *pre; /* NULL: no such key */
    const vocab_token *tokens;
    size_t n_tokens;
    const char *const *merges;
    size_t n_merges;
    bool no_byte_255;
    /* more keys, after these */
    void (*add)(gguf_build *b);
    size_t n_added;
} vocab_build;

/* The character that stands for a byte, written independently of the library: the printable bytes
 * of Latin-1 stand for themselves, the others are counted off from U+0100. */
static inline void byte_text(int byte, char out[3])
{
    unsigned code = 0, next = 0x100;
    for (int b = 0; b <= byte; b++) {
        bool prints = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xff && b != 0xad);
        code = prints ? (unsigned)b : next++;
    }
    memset(out, 0, 3);
    if (code < 0x80) {
        out[0] = (char)code;
    } else {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
    }
}

static inline void build_vocab(gguf_build *b, const vocab_build *v)
{
    size_t n_keys = 3 + (v->model != NULL ? 1u : 0u) + (v->pre != NULL ? 1u : 0u) + v->n_added;
    build_init(b);
    build_header(b, 3, 0, n_keys);
    if (v->model != NULL)
        build_key_text(b, "tokenizer.ggml.model", v->model);
    if (v->pre != NULL)
        build_key_text(b, "tokenizer.ggml.pre", v->pre);
    build_key_array(b, "tokenizer.ggml.tokens", 8, 256 + v->n_tokens);
    for (int byte = 0; byte < 256; byte++) {
        char text[3];
        byte_text(byte, text);
        build_element_text(b, v->no_byte_255 && byte == 255 ? "(none)" : text);
    }
    for (size_t i = 0; i < v->n_tokens; i++)
        build_element_text(b, v->tokens[i].text);
    build_key_array(b, "tokenizer.ggml.token_type", 5, 256 + v->n_tokens);
    for (size_t i = 0; i < 256 + v->n_tokens; i++)
        build_number(b, i < 256 ? 1 : (uint64_t)v->tokens[i - 256].type, 4);
    build_key_array(b, "tokenizer.ggml.merges", 8, v->n_merges);
    for (size_t i = 0; i < v->n_merges; i++)
        build_element_text(b, v->merges[i]);
    if (v->add != NULL)
        v->add(b);
}

#endif

/* The folder of a Hugging Face model: its JSON files, and what is read from them into a new
 * file. */
#ifndef CR_FOLDER_H
#define CR_FOLDER_H

#include "base/arena.h"
#include "base/json.h"
#include "file/gguf_write.h"

typedef struct cr_folder {
    cr_host *host;
    const char *path;
    cr_arena arena;            /* texts and trees that live as long as the folder */
    const cr_json *config;     /* config.json */
    const cr_json *tokenizer;  /* tokenizer.json, NULL without one */
    const cr_json *tok_config; /* tokenizer_config.json, likewise */
    const char *pre;           /* the caller's choice of a pre-tokenizer, or NULL */
} cr_folder;

cera_status cr_folder_open(cr_folder *folder, cr_host *host, const char *path, cera_error *err);
void cr_folder_close(cr_folder *folder);

/* The path of a file in it, in the arena; NULL when there is no memory. */
const char *cr_folder_path(cr_folder *folder, cr_str name);
/* Whether there is no such file; one that cannot be opened is there, for the reader to report. */
bool cr_folder_lacks(cr_folder *folder, const char *path);
/* A JSON object of it, in the arena; *out is NULL when an optional one is not there. */
cera_status cr_folder_json(cr_folder *folder, const char *name, bool required, const cr_json **out,
                           cera_error *err);

/* folder_vocab.c: everything under "tokenizer." n_vocab: rows of the embedding. no_space_prefix:
 * the model was made for text without a blank before it. */
cera_status cr_folder_put_vocab(cr_folder *folder, uint32_t n_vocab, bool no_space_prefix,
                                cr_gguf_writer *w, cera_error *err);

/* folder_spm.c: the pieces of tokenizer.model, the protocol buffer of a sentencepiece model. */
typedef struct cr_piece {
    cr_str text;
    float score;
    int type; /* as in tokenizer.ggml.token_type */
} cr_piece;
typedef struct cr_spm {
    cr_piece *pieces; /* [n], in the arena; texts point into the bytes */
    size_t n;
    bool add_dummy_prefix;
} cr_spm;
cera_status cr_spm_parse(const uint8_t *bytes, size_t n, const char *path, cr_arena *arena,
                         cr_spm *out, cera_error *err);

#endif

/* Vocabulary: the tokens of a file, and text to ids and back.
 *
 *     text --split at special tokens--> plain text --by the vocabulary's kind--> ids
 *
 * Immutable after it is opened, and shared by threads. */
#ifndef CR_VOCAB_H
#define CR_VOCAB_H

#include "file/gguf.h"

typedef struct cr_vocab cr_vocab;

/* Reads the tokenizer.ggml.* keys. host is kept; the file may be closed afterwards. `pre` names the
 * pre-tokenizer instead of the file, unless it is NULL. A file without a vocabulary, with a
 * tokenizer model or pre-tokenizer that this build does not know, or whose keys contradict each
 * other, is refused by key. */
cera_status cr_vocab_new(const cr_gguf *file, const char *pre, cr_host *host, cr_vocab **out,
                         cera_error *err);
void cr_vocab_free(cr_vocab *vocab);

void cr_vocab_get_info(const cr_vocab *vocab, cera_vocab_info *out);

/* Appends the ids of text to *ids (a cr_buf of int32_t). */
cera_status cr_vocab_encode(const cr_vocab *vocab, cr_str text, const cera_encode_options *options,
                            cr_buf *ids, cera_error *err);

/* The same, where only the spans that are literal may spell control tokens: spans[n_spans] are in
 * order and cover the text. BOS is added where the file asks for it. */
cera_status cr_vocab_encode_spans(const cr_vocab *vocab, cr_str text, const cera_span *spans,
                                  size_t n_spans, cr_buf *ids, cera_error *err);

/* The chat template of a name, "" for the one without; data is NULL when there is none. */
cr_str cr_vocab_template(const cr_vocab *vocab, const char *name);

/* The bytes of a token; data is NULL for an id out of range. */
cr_str cr_vocab_piece(const cr_vocab *vocab, int32_t id);
/* What the token adds to a text behind `previous` (-1: nothing): its bytes, without the blank that
 * encoding has put before the text. */
cr_str cr_vocab_piece_after(const cr_vocab *vocab, int32_t previous, int32_t id);
bool cr_vocab_is_end(const cr_vocab *vocab, int32_t id);
bool cr_vocab_is_control(const cr_vocab *vocab, int32_t id);
/* The control token of this text; -1: none. */
int32_t cr_vocab_find_control(const cr_vocab *vocab, cr_str text);
/* Whether the token stands for text: no control, unknown or unused one, and not empty. */
bool cr_vocab_is_text(const cr_vocab *vocab, int32_t id);

#endif

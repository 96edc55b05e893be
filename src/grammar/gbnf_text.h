/* GBNF while it is written. Memory that runs out is remembered, and asked for at the end. */
#ifndef CR_GBNF_TEXT_H
#define CR_GBNF_TEXT_H

#include "base/compiler.h"
#include "base/text.h"
#include "token/vocab.h"

typedef struct cr_gbnf_text {
    const cr_vocab *vocab; /* NULL: none */
    cr_buf buf;
    bool no_memory;
} cr_gbnf_text;

void cr_gbnf_append(cr_gbnf_text *t, cr_str text);
/* Up to 511 bytes. */
void cr_gbnf_put(cr_gbnf_text *t, const char *format, ...) CR_PRINTF(2, 3);
/* A text as parts of a rule: control tokens as such, the rest between quotes. */
void cr_gbnf_put_mark(cr_gbnf_text *t, cr_str text);

/* The control token that a text begins with, and its length in bytes; -1: none. */
int32_t cr_gbnf_leading_token(const cr_vocab *vocab, cr_str text, size_t *n);

#endif

/* Text in which certain marks do not occur, as rules of a grammar. */
#ifndef FREE_TEXT_H
#define FREE_TEXT_H

#include "cera.h"
#include "common/bytes.h"

enum { FREE_TEXT_MARKS = 6 };

typedef struct free_text {
    const cera_vocab *vocab;  /* NULL: none */
    const char *const *marks; /* [FREE_TEXT_MARKS], NULL behind the last */
    /* A text that begins with this and then one of those is none; 0: any begins one. Both for a
     * class of a grammar. */
    const char *bare, *behind_bare;
} free_text;

/* Appends "free0 ::= ..." and what it needs, and "begin ::= ..." for the beginning of all. Control
 * tokens are text, but for those that end a generation. A mark counts as its text, and as control
 * tokens where the vocabulary has some for parts of it. */
void free_text_rules(bytes *out, const free_text *text);

/* Appends the text as parts of a GBNF rule: control tokens as such, the rest between quotes. */
void free_text_mark(bytes *out, const cera_vocab *vocab, const char *text);

#endif

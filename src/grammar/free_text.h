/* Text in which certain marks do not occur, as rules of a grammar. */
#ifndef CR_FREE_TEXT_H
#define CR_FREE_TEXT_H

#include "grammar/gbnf_text.h"

enum { CR_FREE_TEXT_MARKS = 6 };

typedef struct cr_free_text {
    const char *marks[CR_FREE_TEXT_MARKS]; /* NULL behind the last */
    /* A text that begins with this and then one of those is none; 0: any begins one. The latter for
     * a class of a grammar. */
    char bare;
    const char *behind_bare;
    const char
        *behind; /* the rule for what follows the first mark, which may come; NULL: it may not */
} cr_free_text;

/* Appends "free0 ::= ..." and what it needs, "begin ::= ..." for the beginning of all, and "after ::=
 * ..." for what follows a call: the first character that is no white space is none of , ; and {, as
 * it would be of another call. Control tokens are text, but for those that end a generation. A mark
 * counts as its text, and as control tokens where the vocabulary has some for parts of it. */
void cr_free_text_rules(cr_gbnf_text *out, const cr_free_text *text);

#endif

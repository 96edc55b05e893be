/* A grammar as callers hold it: an automaton, the vocabulary's tokens beside it, and matchers that
 * generations hand back, so that the next one begins with what they have found out. */
#ifndef CR_GRAMMAR_H
#define CR_GRAMMAR_H

#include "grammar/matcher.h"

enum { CR_GRAMMAR_IDLE = 4 };

struct cera_grammar {
    cr_host host;
    atomic_int n_references;
    cr_automaton *automaton;
    const cr_token_table *table; /* borrowed, NULL: text only */
    char *text;                  /* GBNF, [n_text] */
    size_t n_text;
    _Atomic(cr_matcher *) idle[CR_GRAMMAR_IDLE];
};

typedef struct cr_grammar_source {
    cr_str text; /* GBNF */
    size_t max_size;
    bool is_made;                /* by a program */
    const cr_vocab *vocab;       /* NULL: text only */
    const cr_token_table *table; /* of the vocabulary */
} cr_grammar_source;

/* The tables of `host` are copied. */
cera_status cr_grammar_new(const cr_grammar_source *source, const cera_host *host,
                           cera_grammar **out, cera_error *err);
cera_grammar *cr_grammar_retain(cera_grammar *grammar);
void cr_grammar_release(cera_grammar *grammar);

/* A matcher at the beginning; give it back to the same grammar, which the taker holds meanwhile. */
cera_status cr_grammar_take(cera_grammar *grammar, cr_matcher **out, cera_error *err);
void cr_grammar_give(cera_grammar *grammar, cr_matcher *matcher);

#endif

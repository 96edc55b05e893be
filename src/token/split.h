/* Pre-tokenizers: cutting text into the pieces that merges never cross.
 *
 * Which rule a vocabulary was trained with is told by `tokenizer.ggml.pre`; another rule gives
 * fluent-looking text and wrong ids, so an unknown name is refused. */
#ifndef CR_SPLIT_H
#define CR_SPLIT_H

#include "token/alphabet.h"

enum { CR_SPLIT_STEPS = 6 };

/* What a name in tokenizer.ggml.pre stands for. */
typedef struct cr_split_rule {
    const char *name;
    const char *const *steps; /* [up to CR_SPLIT_STEPS] patterns, then NULL if fewer */
    bool ignore_merges; /* a piece that is itself a token is that token, whatever the merges say */
    bool add_bos;       /* what an absent tokenizer.ggml.add_bos_token means */
    bool always_bos;    /* and what a present one means, whatever it says */
    cr_alphabet alphabet;
} cr_split_rule;

/* False for a name that this build does not know. */
bool cr_split_find(cr_str name, cr_split_rule *out);

/* A compiled rule. Immutable, shared by threads. */
typedef struct cr_split cr_split;

cera_status cr_split_new(const cr_split_rule *rule, cr_host *host, cr_split **out, cera_error *err);
void cr_split_free(cr_split *split);

/* The piece that a step of the rule is cutting, and the match found in it. */
typedef struct cr_split_level {
    cr_str text;
    size_t at, match_begin, match_end;
} cr_split_level;

/* One walk over texts, by one thread. */
typedef struct cr_split_walk {
    const cr_split *split;
    void *match;
    cr_split_level levels[CR_SPLIT_STEPS];
} cr_split_walk;

cera_status cr_split_begin(cr_split_walk *walk, const cr_split *split, cera_error *err);
void cr_split_end(cr_split_walk *walk);
/* Starts over with a text, which must be valid UTF-8. Any number of times in a walk. */
void cr_split_set_text(cr_split_walk *walk, cr_str text);
/* The next piece; empty at the end of the text. */
cera_status cr_split_next(cr_split_walk *walk, cr_str *piece, cera_error *err);

#endif

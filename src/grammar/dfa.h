/* Sets of strings as deterministic automata over characters, in an arena. Every state of one lies on
 * a way from the start to an end: what leads nowhere is cut off when it is made.
 *
 * n_states 0 is the empty set. Operations give NULL when memory is at its end (dfa_limit says
 * whether it was a set that is too large instead). */
#ifndef CR_DFA_H
#define CR_DFA_H

#include "base/arena.h"
#include "base/text.h"

/* Of one set; and of all that a shop makes together, in states, moves and what regular expressions
 * look at: some tenths of a second. */
enum { CR_DFA_MAX_STATES = 4096, CR_DFA_MAX_WORK = 32 << 20 };

typedef struct cr_dfa_move {
    uint32_t lo, hi; /* characters, both included; no surrogates among them */
    uint32_t target;
} cr_dfa_move;

typedef struct cr_dfa_state {
    uint32_t first, n; /* moves, ascending */
    bool accepts;
} cr_dfa_state;

typedef struct cr_dfa {
    cr_dfa_state *states; /* [n_states]; 0 is the start */
    cr_dfa_move *moves;
    uint32_t n_states;
} cr_dfa;

/* Where a set is put together: an arena, and why it could not be. */
typedef struct cr_dfa_shop {
    cr_arena *arena;
    size_t work;    /* done so far */
    bool too_large; /* the last set */
    bool is_spent;  /* there was too much work: no set is made any more */
} cr_dfa_shop;

/* Counts work; false when there was too much. */
bool cr_dfa_spend(cr_dfa_shop *shop, size_t work);

/* Strings that are in both, and strings that are not in it. */
const cr_dfa *cr_dfa_and(cr_dfa_shop *shop, const cr_dfa *a, const cr_dfa *b);
const cr_dfa *cr_dfa_not(cr_dfa_shop *shop, const cr_dfa *a);
/* Strings of so many characters; most UINT32_MAX: no limit. */
const cr_dfa *cr_dfa_length(cr_dfa_shop *shop, uint32_t least, uint32_t most);
/* Just these strings, which are sorted here. */
const cr_dfa *cr_dfa_texts(cr_dfa_shop *shop, cr_str *texts, size_t n);
/* By their bytes. */
void cr_texts_sort(cr_str *texts, size_t n);
/* Decimal numbers (no sign) that divisor / 10^n_fraction divides, with at least one digit and at most
 * n_fraction behind the point. */
const cr_dfa *cr_dfa_multiples(cr_dfa_shop *shop, uint32_t divisor, uint32_t n_fraction);
bool cr_dfa_accepts(const cr_dfa *a, cr_str text);

/* Building one move by move: states in order, moves of a state in ascending order. */
typedef struct cr_dfa_builder {
    cr_dfa_shop *shop;
    cr_buf states, moves;
    bool failed;
} cr_dfa_builder;
void cr_dfa_builder_init(cr_dfa_builder *b, cr_dfa_shop *shop);
void cr_dfa_builder_state(cr_dfa_builder *b, bool accepts);
/* Of the last state; one that continues the move before is joined to it. */
void cr_dfa_builder_move(cr_dfa_builder *b, uint32_t lo, uint32_t hi, uint32_t target);
/* Cuts off what leads nowhere, and frees the builder. */
const cr_dfa *cr_dfa_builder_finish(cr_dfa_builder *b);

/* The set of strings in which a regular expression (ECMA 262) is found, at any place unless it has
 * anchors. Where ECMA and other dialects differ about a class (\w, \d, \s, .), `widest` says whether
 * a character that any of them has is in it, or only one that all of them have.
 * CERA_E_UNSUPPORTED for what is no regular set or not known, CERA_E_LIMIT for too many states. */
cera_status cr_regex_compile(cr_dfa_shop *shop, cr_str pattern, bool widest, const cr_dfa **out,
                             cera_error *err);

#endif

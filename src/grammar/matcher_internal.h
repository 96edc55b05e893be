/* A matcher's insides, for the two files that make it up: matcher.c (states) and mask.c (masks). */
#ifndef CR_MATCHER_INTERNAL_H
#define CR_MATCHER_INTERNAL_H

#include "grammar/matcher.h"

/* A reader. */
typedef struct cr_reader {
    uint32_t node, stack;
} cr_reader;

/* Stacks with a meaning of their own: there is no caller, and the callers are not known. */
enum { CR_STACK_END = 0, CR_STACK_OPEN = 1 };

typedef struct cr_stack {
    uint32_t node;  /* where the caller goes on */
    uint32_t below; /* a stack */
    uint32_t depth;
} cr_stack;

/* States: no reader is left; not worked out yet; no room for it. */
enum { CR_STATE_DEAD = 0 };
#define CR_STATE_UNKNOWN UINT32_MAX
#define CR_STATE_FULL (UINT32_MAX - 1)

enum { CR_RUN_UNKNOWN = 0xff };
enum { CR_MASK_FULL, CR_MASK_LOCAL };

typedef struct cr_state {
    uint32_t first, n; /* readers[first, first + n), sorted */
    bool may_end;      /* a reader has come to the end */
    bool escapes;      /* a reader has come to the end of what is known */
    uint8_t run;       /* how many characters of `groups` may follow here; CR_RUN_UNKNOWN */
    bool is_cut;       /* and more than that may not */
    /* Its masks: with all of the stack, and without what lies beyond an open one. */
    struct {
        uint32_t place; /* in masks[] */
        uint32_t made;  /* when: the place may have another by now; 0: none */
    } mask[2];
    uint32_t after;  /* where most characters lead; CR_STATE_UNKNOWN */
    uint64_t groups; /* of bytes, whose characters all lead there */
    uint64_t dead;   /* of bytes that do not go on, here and as long as the run lasts */
} cr_state;

/* A step of a walk. */
typedef struct cr_walk_step {
    uint32_t from, to;
    uint8_t byte;
} cr_walk_step;

/* How many different steps of a walk are kept. */
enum { CR_MAX_STEPS = 1024 };

/* A kept mask. */
typedef struct cr_mask {
    uint32_t state;      /* that it was made for */
    int kind;            /* CR_MASK_... */
    uint32_t made;       /* a number that no other mask has; 0: none is kept here */
    uint64_t used;       /* when */
    uint64_t *bits;      /* [n_words] */
    cr_walk_step *steps; /* [n_steps] of the walk that made it, in the order of their first use */
    uint32_t n_steps;    /* above CR_MAX_STEPS: more than are kept */
    uint32_t *escapes;   /* [n_escapes] nodes of the tree where the known part of the stack ended */
    uint32_t n_escapes;
} cr_mask;

/* Tokens that have characters of some groups only. */
typedef struct cr_group_tokens {
    const cr_token_runs *runs; /* of the table; NULL: not in use */
    uint64_t groups;
    uint64_t used;  /* when */
    uint64_t *bits; /* [n_words] */
} cr_group_tokens;

enum { CR_N_GROUP_TOKENS = 16 };

enum { CR_MAX_READERS = 4096, CR_MAX_ESCAPES = 4096 };

struct cr_matcher {
    cr_host *host;
    const cr_automaton *a;
    const cr_token_table *table;
    size_t size; /* bytes of the one allocation */

    uint32_t state; /* the position */
    bool too_wide;  /* the last CR_STATE_FULL was for more than CR_MAX_READERS readers */

    cr_state *states; /* [max_states] */
    uint32_t *next;   /* [max_states][n_classes] */
    uint32_t n_states, max_states;
    cr_reader *readers; /* [max_readers] of all states */
    uint32_t n_readers, max_readers;
    uint32_t *state_slots; /* [n_state_slots] open addressing: state + 1 */
    uint32_t n_state_slots;

    cr_stack *stacks; /* [max_stacks] */
    uint32_t n_stacks, max_stacks;
    uint32_t *stack_slots; /* [n_stack_slots] stack + 1 */
    uint32_t n_stack_slots;
    uint32_t *moved; /* [max_stacks] scratch of a flush */

    /* Scratch of closing a set of readers. */
    cr_reader *work; /* [MAX_WORK] */
    uint32_t n_work;
    cr_reader *closed; /* [CR_MAX_READERS] */
    cr_reader *seen;   /* [n_seen] open addressing */
    uint32_t *seen_at; /* [n_seen] the turn that put it there */
    uint32_t turn;

    cr_mask *masks; /* [n_masks] */
    uint32_t n_masks, n_made;
    uint64_t clock;
    uint64_t *stepped;  /* [max_states * n_classes / 64 + 1] steps that are in the walk's list */
    uint32_t *image;    /* [max_states] the state that stands for another, */
    uint32_t *image_at; /* [max_states] in this comparison */
    uint32_t n_compared;
    cr_group_tokens group_tokens[CR_N_GROUP_TOKENS];
    uint32_t *path;  /* [max_depth + 1] states along a branch of the tree */
    uint8_t *chars;  /* [max_depth + 1] characters of the run along it */
    uint64_t *start; /* [n_words] the mask of a text's start, for vocabularies with blanks */
    size_t n_flushes, n_walks, n_computed;
};

/* Where a state goes with a byte. */
uint32_t cr_matcher_step(cr_matcher *m, uint32_t state, uint8_t byte);

static inline uint32_t cr_matcher_next(cr_matcher *m, uint32_t state, uint8_t byte)
{
    uint32_t next = m->next[(size_t)state * m->a->n_classes + m->a->class_of[byte]];
    return next != CR_STATE_UNKNOWN ? next : cr_matcher_step(m, state, byte);
}

/* Forgets all but the position. CERA_E_LIMIT when it cannot be kept. */
cera_status cr_matcher_flush(cr_matcher *m, cera_error *err);
cera_status cr_matcher_fail_full(const cr_matcher *m, cera_error *err);

/* Sets of readers: start one, add to it, close it. */
void cr_matcher_begin(cr_matcher *m);
void cr_matcher_add(cr_matcher *m, uint32_t node, uint32_t stack);
uint32_t cr_matcher_close(cr_matcher *m);
/* A stack, CR_STATE_FULL when there is no room. */
uint32_t cr_matcher_push(cr_matcher *m, uint32_t node, uint32_t below);

/* mask.c */
size_t cr_mask_bytes(const cr_token_table *table);
void cr_mask_forget(cr_matcher *m);

#endif

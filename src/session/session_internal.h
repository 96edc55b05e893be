/* What a session is made of. Only session.c and the files with a part of its work include this:
 *
 *     session.c  life, appending, going back, single tokens
 *     save.c     a session to a file and back */
#ifndef CR_SESSION_INTERNAL_H
#define CR_SESSION_INTERNAL_H

#include "session/session.h"

/* Logits of one token, [n_vocab]; forks share them. */
typedef struct cr_logits {
    atomic_int n_holders;
    float values[];
} cr_logits;

/* Rows behind the line that have been computed for guesses, and what came of them:
 *
 *     line's position
 *     | lagging | the token | guess | guess | guess |
 *     '------- taken ---------------'               n
 *
 * first: the rows that lagged behind and gave no logits again. */
typedef struct cr_ahead {
    int max;       /* guesses in one run */
    float *logits; /* [max + 1][n_vocab], those of row first and behind; NULL: no guesses */
    int n, taken, first;
} cr_ahead;

struct cr_session {
    cr_session_env env;
    uint64_t writer; /* of pages */
    int n_context;
    int32_t *history;  /* [n_context]; ids of a call in progress stand behind the position */
    cr_line now, next; /* where the session is, and where a call is going */
    cr_page *spare;    /* for the state behind the next token, or NULL */
    cr_logits *has,
        *comes; /* of the last token, and those that are being computed, held alone; or NULL */
    bool has_logits;
    cr_detok detok;
    cr_session_open open;
    cr_ahead ahead; /* nothing but while generating */
    cr_seat seat;
    atomic_int cancel;
    size_t n_prompt,
        n_reused; /* tokens appended since the last generation, and how many were known */
    uint64_t prompt_ns;
};

/* The memory that computing a token wants beside pages: room for its logits and its state. */
cera_status cr_session_want_room(cr_session *session, cera_error *err);
/* The logits that were computed become those of the last token. */
void cr_session_swap_logits(cr_session *session);

#endif

/* What a session is made of. Only session.c and the files with a part of its work include this:
 *
 *     session.c  life, appending, going back, single tokens
 *     save.c     a session to a file and back
 *     shift.c    dropping tokens from the middle */
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

/* Where the key of a position that was moved is as it was computed, and for which position. */
typedef struct cr_origin {
    cr_page *page; /* held; NULL: in the line, and never moved */
    int position;
} cr_origin;

struct cr_session {
    cr_session_env env;
    uint64_t writer; /* of pages */
    int n_context;
    int32_t *history;  /* [n_context]; ids of a call in progress stand behind the position */
    cr_line now, next; /* where the session is, and where a call is going */
    cr_page *spare;    /* for the state behind the next token; NULL between calls */
    cr_logits *has,
        *comes; /* of the last token, and those that are being computed, held alone; or NULL */
    bool has_logits;
    /* Of a session that was shifted. What stands behind the first n_pure tokens has seen tokens that are
     * gone, so nobody else may have it: env.prefix is NULL, and `prefix` has what it was. */
    cr_origin *origins; /* [n_context]; NULL: it was not */
    int n_pure;
    cr_prefix *prefix;
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
/* A call ends: a session that waits holds one state and no more. With the lock held. */
void cr_session_drop_room(cr_session *session);
/* The logits that were computed become those of the last token. */
void cr_session_swap_logits(cr_session *session);
/* A session that was shifted goes on from `start` of its own line: with n_pure or less it is like any
 * other again. */
void cr_session_unshift(cr_session *session, int start);
/* Makes `child`, whose line is shared, as shifted as the session is. */
cera_status cr_session_fork_shift(const cr_session *session, cr_session *child, cera_error *err);

#endif

/* What a session is made of. Only session.c and the files with a part of its work include this:
 *
 *     session.c  life, appending, going back
 *     compute.c  tokens behind a line, a chunk at a time
 *     steps.c    single tokens, and guesses at those to come
 *     save.c     a session to a file and back
 *     shift.c    dropping tokens from the middle
 *     adapted.c  which adapters it has */
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

/* The adapters of a session. */
typedef struct cr_adapted {
    cr_arena arena;       /* of all but the room */
    cr_adapter_use *uses; /* [n], each adapter held */
    size_t n;
    const cr_adaptation *adaptation; /* what they add up to; NULL: nothing */
    cr_digest digest;                /* of that */
    float *reduced;                  /* room for it: see cr_batch_seq */
    cr_prefix_root *root;            /* held; NULL without a tree */
} cr_adapted;

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
    /* Of a session that was shifted. What stands behind the first n_pure tokens has seen tokens
     * that are gone, so nobody else may have it. */
    cr_origin *origins; /* [n_context]; NULL: it was not */
    int n_pure;
    cr_adapted adapted;
    bool is_mixed; /* some of the line was computed with other adapters than those */
    /* The engine's tree; env.prefix is the same, or NULL while the session has what nobody else may
     * have. */
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

/* ---- compute.c --------------------------------------------------------------------------- */

size_t cr_logits_bytes(const cr_session *session);
/* Held once; NULL when there is no memory. */
cr_logits *cr_logits_new(cr_session *session);
/* One holder less; the last one frees it. NULL is fine. */
void cr_logits_drop(cr_session *session, cr_logits *l);

/* Rows whose logits are kept at a time while scoring: 32 MB of them for a vocabulary of 128,000. */
enum { CR_SCORE_ROWS = 64 };

/* Log-probabilities of the tokens behind position `first`. */
typedef struct cr_scorer {
    int first;
    float *logprobs; /* [n] */
    float *logits;   /* [CR_SCORE_ROWS][n_vocab] */
    size_t n_vocab;
} cr_scorer;

/* What a span of tokens should give besides moving forward. */
typedef struct cr_wanted {
    const atomic_int *cancel;
    bool logits;               /* of the last token */
    float *hidden;             /* [n][n_embd], or NULL */
    int branch, place;         /* positions behind which the state may be wanted again */
    float *const *page_states; /* of the rows' pages: see cr_batch_seq */
    const cr_scorer *score;    /* or NULL */
    float *ahead;              /* [n_ahead][n_vocab] of the last rows, or NULL */
    int n_ahead;
} cr_wanted;

/* See cr_seat_state: where a call begins, runs foreign code and ends. */
void cr_session_take_seat(cr_session *session, cr_seat_state state);
bool cr_session_has_state(const cr_session *session);
/* Computes ids[line's position, end) for a line that has room; it stays where it is. */
cera_status cr_session_run_rows(cr_session *session, cr_line *line, const int32_t *ids, int end,
                                const cr_wanted *want, cera_error *err);
/* Computes the next chunk of ids[0, n) and moves the line there. */
cera_status cr_session_run_chunk(cr_session *session, cr_line *line, const int32_t *ids, int n,
                                 const cr_wanted *want, cera_error *err);
/* The line has come to `end`: `spare` has the state there. */
void cr_session_move_line(cr_session *session, cr_line *line, int end);
/* Tells the store that the tree may have something new. */
void cr_session_tell_store(cr_session *session);
/* The memory that computing a token wants beside pages: room for its logits and its state. */
cera_status cr_session_want_room(cr_session *session, cera_error *err);
/* A call ends: a session that waits holds one state and no more. With the lock held. */
void cr_session_drop_room(cr_session *session);
/* The logits that were computed become those of the last token. */
void cr_session_swap_logits(cr_session *session);

/* ---- adapted.c, save.c, shift.c ---------------------------------------------------------- */

/* The adapters uses [n] for a session, which has them only when it takes them; a cleared one is
 * done, too. */
cera_status cr_adapted_init(cr_session *session, cr_adapted *out, const cr_adapter_use *uses,
                            size_t n, cera_error *err);
void cr_adapted_done(cr_session *session, cr_adapted *adapted);
/* Sets env.prefix: the tree, unless the session was shifted or is mixed. */
void cr_session_see_tree(cr_session *session);
/* What files of the session's state belong to. */
cera_status cr_session_identify(const cr_session *session, struct cr_state_id *out,
                                cera_error *err);
/* A session that was shifted goes on from `start` of its own line: with n_pure or less it is like
 * any other again. */
void cr_session_unshift(cr_session *session, int start);
/* Makes `child`, whose line is shared, as shifted as the session is. */
cera_status cr_session_fork_shift(const cr_session *session, cr_session *child, cera_error *err);

#endif

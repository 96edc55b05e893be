/* A session: one timeline of tokens with the state that was computed for it.
 *
 *     history  [position] tokens   what has been appended and generated
 *     line     pages of keys and values, and the recurrent state at `position` (line.h)
 *     logits   for the token after the last one
 *
 * A call either completes and moves all of them, or leaves all of them alone. */
#ifndef CR_SESSION_H
#define CR_SESSION_H

#include "grammar/grammar.h"
#include "model/adapter.h"
#include "session/prefix.h"
#include "session/scheduler.h"
#include "token/detok.h"
#include "token/vocab.h"

struct cr_state_id;
struct cr_store;

/* What a session needs of its engine. The engine outlives its sessions. */
typedef struct cr_session_env {
    cr_host *host;
    const cr_model *model;
    const cr_vocab *vocab; /* NULL: ids only */
    cr_pages *pages;
    cr_prefix *prefix;      /* NULL: nothing is reused */
    struct cr_store *store; /* of the tree, on disk; NULL: none */
    int context_size;
    int max_rows; /* of a run */
    cr_scheduler *scheduler;
    /* Computes, by the scheduler. */
    cera_status (*run)(void *ctx, cr_seat *seat, const cr_batch_seq *seq, cera_error *err);
    /* What files of state belong to. The first call may read all weights. */
    cera_status (*identify)(void *ctx, struct cr_state_id *out, cera_error *err);
    void *ctx;
} cr_session_env;

enum { CR_MAX_CHUNK = 4096 };

typedef struct cr_session cr_session;

/* context_size is at most the engine's; 0: the engine's. The env is copied. */
cera_status cr_session_new(const cr_session_env *env, int context_size, cr_session **out,
                           cera_error *err);
void cr_session_free(cr_session *session);

cera_status cr_session_append_ids(cr_session *session, const int32_t *ids, size_t n,
                                  cera_error *err);
cera_status cr_session_append_text(cr_session *session, cr_str text, bool parse_special,
                                   bool add_bos, cera_error *err);
/* Appends, and gives the log-probability of each token: see cera_session_score. */
cera_status cr_session_score(cr_session *session, const int32_t *ids, size_t n, float *logprobs,
                             cera_error *err);
cera_status cr_session_sync(cr_session *session, const int32_t *ids, size_t n, cera_error *err);
cera_status cr_session_rewind(cr_session *session, size_t position, cera_error *err);
cera_status cr_session_fork(cr_session *session, cr_session **out, cera_error *err);
/* options is not NULL; draft (the env of options->draft), sink and summary may be. */
cera_status cr_session_generate(cr_session *session, const cera_generate_options *options,
                                const cr_session_env *draft, const cera_sink *sink,
                                cera_summary *summary, cera_error *err);
/* From now on computes with these adapters [n], of the session's model, which are held: see
 * cera_session_set_adapters. */
cera_status cr_session_set_adapters(cr_session *session, const cr_adapter_use *uses, size_t n,
                                    cera_error *err);
size_t cr_session_n_adapters(const cr_session *session);
void cr_session_cancel(cr_session *session);
void cr_session_reset(cr_session *session);

const float *cr_session_logits(const cr_session *session);
const int32_t *cr_session_history(const cr_session *session, size_t *n);

/* Hidden states of ids[0, n) in a timeline of their own, with the adapters of `like` unless that is
 * NULL: see cera_engine_embed. */
cera_status cr_session_embed(const cr_session_env *env, const cr_session *like, const int32_t *ids,
                             size_t n, cera_pooling pooling, float *out, cera_error *err);

/* ---- what generate.c is made of ---------------------------------------------------------- */

/* Takes all that n single tokens need, with up to n_draft guesses at a time, or nothing; then come
 * the tokens; then cr_session_settle gives back what was not needed and lets other sessions find
 * what was computed. Settling fails only where guesses were refuted by a model with recurrent
 * state, whose last tokens must be computed again and cannot be: they are gone then, and so are the
 * logits. */
cera_status cr_session_reserve(cr_session *session, size_t n, int n_draft, cera_error *err);
cera_status cr_session_settle(cr_session *session, cera_error *err);
/* Moves forward by one token, and computes it unless it was foreseen; with it, as far as there is
 * room, draft[n_draft], guesses at what will follow. `meanwhile` runs once it is sure to be computed
 * (at once if it was foreseen), before the logits change. Not cancelled: one token is the grain of
 * a cancel. */
cera_status cr_session_advance(cr_session *session, int32_t id, const int32_t *draft, int n_draft,
                               cr_meanwhile meanwhile, cera_error *err);
/* Whether `id` was guessed, so that advancing by it computes nothing. */
bool cr_session_foresees(const cr_session *session, int32_t id);
/* How many guesses can be computed with the next token. */
int cr_session_draft_room(const cr_session *session);
/* Before a run on another engine: others go on without this session meanwhile. */
void cr_session_step_aside(cr_session *session);
/* Whether a cancel is pending; clears it. */
bool cr_session_take_cancel(cr_session *session);
size_t cr_session_room(const cr_session *session);
const cr_session_env *cr_session_get_env(const cr_session *session);
/* The unfinished character at the end of what was generated: the next generation goes on with it,
 * unless something is appended before. */
cr_detok *cr_session_detok(cr_session *session);
/* The text under a grammar that the last generation left open: it began at history[start] and
 * has come to history[end). The place in it follows from the history, so it is not kept. */
typedef struct cr_session_open {
    cera_grammar *grammar; /* NULL: none */
    size_t start, end;
} cr_session_open;
cr_session_open cr_session_get_open(const cr_session *session);
/* Takes a reference of its own. */
void cr_session_set_open(cr_session *session, cr_session_open open);
/* What was appended since the last call of this: n_prompt, n_reused and prompt_ms. */
void cr_session_take_prompt(cr_session *session, cera_summary *out);

#endif

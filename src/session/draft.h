/* Drafts: guesses at the tokens to come, which the model checks several at a time.
 *
 *     token chosen ──> guess the next n ──> one run of n + 1 rows ──> rows whose guess came true are known
 *
 * A guess changes no answer. Every token is sampled from the model's own logits, in order, with the
 * same random numbers; a row that was computed for a guess is used when the sampler has chosen just
 * that token, and thrown away when not. What a guess can change is the time, both ways: the rows
 * cost something, and those that come true save a run each. So there is an account, kept in time:
 * rows are spent from what earlier ones have saved and a fiftieth of the time that went by. */
#ifndef CR_DRAFT_H
#define CR_DRAFT_H

#include "session/session.h"

enum { CR_MAX_DRAFT = 16 };

typedef struct cr_drafter cr_drafter;

/* Guesses for one generation of `session`, up to n_max tokens at a time: by another model, or,
 * `with` being NULL, from what followed the same tokens earlier in the history. CERA_E_ARG when the
 * other model's vocabulary is another one. */
cera_status cr_drafter_new(cr_session *session, const cr_session_env *with, int n_max,
                           cr_drafter **out, cera_error *err);
void cr_drafter_free(cr_drafter *drafter);

/* Guesses what comes behind the session's history and then `id`: at most n_most tokens, to out.
 * Returns how many: 0 where nothing suggests itself or the account does not allow it. */
int cr_drafter_guess(cr_drafter *drafter, int32_t id, int n_most, int32_t *out);

/* A guess has come true; and a run of `id` with n guesses has taken so long. */
void cr_drafter_hit(cr_drafter *drafter);
void cr_drafter_paid(cr_drafter *drafter, int n, uint64_t ns);

#endif

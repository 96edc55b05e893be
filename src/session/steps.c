/* The tokens of a generation, one after the other, and the rows that are computed ahead for
 * guesses.
 *
 * The session's own line moves: its memory is taken before (cr_session_reserve), so that a token
 * allocates nothing, and cr_session_settle ends it. */
#include "session/session_internal.h"

#include <string.h>

/* ---- single tokens ----------------------------------------------------------------------- */

static size_t ahead_bytes(const cr_session *session)
{
    if (session->ahead.max == 0)
        return 0;
    return ((size_t)session->ahead.max + 1) * session->env.model->graph.n_vocab * sizeof(float);
}

/* Forks that share the logits would make the first token drop them, and the second one allocate. */
static cera_status own_logits(cr_session *session, cera_error *err)
{
    if (!session->has || atomic_load(&session->has->n_holders) == 1)
        return CERA_OK;
    cr_logits *copy = cr_logits_new(session);
    if (!copy)
        return cr_fail_nomem(err, cr_logits_bytes(session), "the logits");
    memcpy(copy->values, session->has->values,
           session->env.model->graph.n_vocab * sizeof *copy->values);
    cr_logits_drop(session, session->has);
    session->has = copy;
    return CERA_OK;
}

/* What the prefix tree will want at the ends of pages, and when the tokens end. */
static cera_status stock_prefix(cr_session *session, int n, cera_error *err)
{
    cr_pages *pages = session->env.pages;
    cr_prefix *prefix = session->env.prefix;
    if (!prefix)
        return CERA_OK;
    cr_pages_lock(pages);
    bool stocked = cr_prefix_stock(prefix, (size_t)((session->now.position + n) / CR_PAGE) + 1);
    int spacing = cr_prefix_spacing(prefix);
    if (stocked && cr_session_has_state(session))
        stocked = cr_pages_stock(pages, cr_pages_state_kind(pages),
                                 1 + (size_t)(spacing > 0 ? n / spacing : 0));
    cr_pages_unlock(pages);
    return stocked ? CERA_OK : cr_fail_nomem(err, 0, "the prefix tree");
}

cera_status cr_session_reserve(cr_session *session, size_t n, int n_draft, cera_error *err)
{
    cr_session_take_seat(session, CR_SEAT_PRESENT);
    cera_status status = own_logits(session, err);
    if (status == CERA_OK)
        status = cr_session_want_room(session, err);
    if (status == CERA_OK)
        status = stock_prefix(session, (int)n, err);
    if (status == CERA_OK)
        status =
            cr_line_reserve_ring(&session->now, session->env.pages, session->writer, (int)n, err);
    if (status == CERA_OK && n_draft > 0) {
        session->ahead.max = n_draft;
        session->ahead.logits = cr_alloc(session->env.host, CR_MEM_SCRATCH, ahead_bytes(session));
        if (!session->ahead.logits)
            status = cr_fail_nomem(err, ahead_bytes(session), "the logits of drafts");
    }
    if (status != CERA_OK)
        cr_session_settle(session, NULL);
    return status;
}

/* At the end of a page the state may be kept: if another page is at hand to go on with. */
static void remember_token(cr_session *session)
{
    cr_pages *pages = session->env.pages;
    int spacing = cr_session_has_state(session) && session->env.prefix
                      ? cr_prefix_spacing(session->env.prefix)
                      : -1;
    if (spacing > 0 && session->now.position % spacing == 0 &&
        pages->counts[cr_pages_state_kind(pages)].n_free > 0)
        cr_prefix_add(session->adapted.root, session->history, session->now.position, &session->now,
                      session->now.state);
}

/* The line moves on by n computed tokens; the state in `spare` is the one there. */
static void pass_tokens(cr_session *session, int n)
{
    cr_pages *pages = session->env.pages;
    cr_line *now = &session->now;
    if (cr_session_has_state(session)) {
        cr_pages_lock(pages);
        cr_session_move_line(session, now, now->position + n);
        remember_token(session);
        cr_pages_unlock(pages);
    } else {
        now->position += n;
    }
    if (cr_line_has_passed(now, pages)) {
        cr_pages_lock(pages);
        cr_line_pass(now, pages, session->writer);
        cr_pages_unlock(pages);
    }
}

/* ---- guesses at tokens to come ----------------------------------------------------------- */

/* Computes rows of the history behind the line: those that lag behind, and then some whose logits
 * are wanted. The line stays: which of them are right is not known yet. */
static cera_status look_ahead(cr_session *session, int n_rows, int n_lag, cera_error *err)
{
    CR_TRY(cr_session_want_room(session, err));
    cr_wanted want = { .ahead = session->ahead.logits, .n_ahead = n_rows - n_lag };
    return cr_session_run_rows(session, &session->now, session->history,
                               session->now.position + n_rows, &want, err);
}

/* The rest of the guesses is refuted. Keys and values behind the tokens that were taken will be
 * written over, but a recurrent state is the one behind all rows: the line stays where its state
 * is, and the tokens since then lag behind, to be computed again with the next one. */
static void drop_guesses(cr_session *session)
{
    cr_ahead *a = &session->ahead;
    a->n = a->taken;
    if (cr_session_has_state(session))
        return;
    pass_tokens(session, a->taken);
    a->n = a->taken = 0;
}

/* Lets the line catch up with its tokens. */
static cera_status catch_up(cr_session *session, cera_error *err)
{
    cr_ahead *a = &session->ahead;
    drop_guesses(session);
    if (a->taken == 0)
        return CERA_OK;
    CR_TRY(look_ahead(session, a->taken, a->taken, err));
    pass_tokens(session, a->taken);
    a->n = a->taken = 0;
    return CERA_OK;
}

/* One more of the rows that were computed ahead turns out to be right. */
static void take_row(cr_session *session)
{
    cr_ahead *a = &session->ahead;
    size_t n_vocab = session->env.model->graph.n_vocab;
    a->taken++;
    memcpy(session->has->values, a->logits + (size_t)(a->taken - 1 - a->first) * n_vocab,
           n_vocab * sizeof *a->logits);
    if (a->taken < a->n)
        return;
    pass_tokens(session, a->n);
    a->n = a->taken = 0;
}

bool cr_session_foresees(const cr_session *session, int32_t id)
{
    const cr_ahead *a = &session->ahead;
    return a->taken < a->n && session->history[session->now.position + a->taken] == id;
}

int cr_session_draft_room(const cr_session *session)
{
    const cr_ahead *a = &session->ahead;
    int n_lag = cr_session_has_state(session) ? a->taken : 0;
    int room = cr_line_room(&session->now, session->env.pages) - a->taken - 1;
    room = CR_MIN(room, (int)cr_session_room(session) - 1);
    return CR_MAX(CR_MIN(room, a->max - n_lag), 0);
}

static cera_status compute_token(cr_session *session, int32_t id, const int32_t *draft, int n_draft,
                                 cera_error *err)
{
    cr_pages *pages = session->env.pages;
    cr_line *now = &session->now;
    cr_ahead *a = &session->ahead;
    drop_guesses(session);
    if (a->taken > 0 && (a->taken > a->max || cr_line_room(now, pages) <= a->taken))
        CR_TRY(catch_up(session, err));
    CR_TRY(cr_session_want_room(session, err));
    int n_lag = a->taken, end = now->position + n_lag + 1;
    if (cr_line_room(now, pages) <= n_lag)
        CR_TRY(cr_line_reserve(now, pages, session->writer, (cr_line_goal){ end, end }, err));
    session->history[end - 1] = id;
    n_draft = CR_MIN(n_draft, cr_session_draft_room(session));
    if (n_lag + n_draft == 0) {
        cr_wanted want = { .logits = true };
        CR_TRY(cr_session_run_rows(session, now, session->history, end, &want, err));
        pass_tokens(session, 1);
        cr_session_swap_logits(session);
        return CERA_OK;
    }
    if (n_draft > 0)
        memcpy(session->history + end, draft, (size_t)n_draft * sizeof *draft);
    CR_TRY(look_ahead(session, n_lag + 1 + n_draft, n_lag, err));
    a->n = n_lag + 1 + n_draft;
    a->first = n_lag;
    take_row(session);
    return CERA_OK;
}

cera_status cr_session_advance(cr_session *session, int32_t id, const int32_t *draft, int n_draft,
                               cr_meanwhile meanwhile, cera_error *err)
{
    cera_status status = CERA_OK;
    session->seat.meanwhile = meanwhile;
    if (cr_session_foresees(session, id)) {
        cr_seat_meanwhile(&session->seat);
        take_row(session);
    } else {
        status = compute_token(session, id, draft, n_draft, err);
    }
    session->seat.meanwhile = (cr_meanwhile){ .run = NULL };
    return status;
}

cera_status cr_session_settle(cr_session *session, cera_error *err)
{
    cr_pages *pages = session->env.pages;
    cr_prefix *prefix = session->env.prefix;
    cr_line *now = &session->now;
    cera_status status = catch_up(session, err);
    if (status != CERA_OK)
        session->has_logits = false;
    cr_free(session->env.host, CR_MEM_SCRATCH, session->ahead.logits, ahead_bytes(session));
    session->ahead = (cr_ahead){ .n = 0 };
    cr_session_take_seat(session, CR_SEAT_AWAY);
    cr_pages_lock(pages);
    cr_line_trim(now, pages);
    if (prefix && now->position > 0)
        cr_prefix_add(session->adapted.root, session->history, now->position, now,
                      cr_prefix_spacing(prefix) >= 0 ? now->state : NULL);
    cr_session_drop_room(session);
    cr_pages_unlock(pages);
    cr_session_tell_store(session);
    return status;
}

/* Computing tokens behind a line, a chunk at a time, and leaving in the prefix tree what others may
 * go on from. */
#include "session/session_internal.h"

#include "sample/sampler.h"
#include "session/store.h"

#include <string.h>

/* ---- logits ------------------------------------------------------------------------------ */

size_t cr_logits_bytes(const cr_session *session)
{
    return sizeof(cr_logits) + session->env.model->graph.n_vocab * sizeof(float);
}

cr_logits *cr_logits_new(cr_session *session)
{
    cr_logits *l = cr_alloc(session->env.host, CR_MEM_SCRATCH, cr_logits_bytes(session));
    if (l)
        atomic_init(&l->n_holders, 1);
    return l;
}

void cr_logits_drop(cr_session *session, cr_logits *l)
{
    if (l && atomic_fetch_sub(&l->n_holders, 1) == 1)
        cr_free(session->env.host, CR_MEM_SCRATCH, l, cr_logits_bytes(session));
}

void cr_session_swap_logits(cr_session *session)
{
    cr_logits *old = session->has;
    session->has = session->comes;
    session->comes = old;
    if (old && atomic_load(&old->n_holders) > 1) {
        cr_logits_drop(session, old);
        session->comes = NULL;
    }
    session->has_logits = true;
}
void cr_session_tell_store(cr_session *session)
{
    if (session->env.prefix && session->env.store)
        cr_store_wake(session->env.store);
}

/* ---- what a call takes -------------------------------------------------------------------- */

void cr_session_take_seat(cr_session *session, cr_seat_state state)
{
    cr_scheduler_seat(session->env.scheduler, &session->seat, state);
}

void cr_session_step_aside(cr_session *session)
{
    if (session->seat.state == CR_SEAT_DUE)
        cr_session_take_seat(session, CR_SEAT_PRESENT);
}

bool cr_session_has_state(const cr_session *session)
{
    return session->env.pages->zero_state != NULL;
}

cera_status cr_session_want_room(cr_session *session, cera_error *err)
{
    cr_pages *pages = session->env.pages;
    if (!session->comes)
        session->comes = cr_logits_new(session);
    if (!session->comes)
        return cr_fail_nomem(err, cr_logits_bytes(session), "the logits");
    if (session->spare || !cr_session_has_state(session))
        return CERA_OK;
    cr_pages_lock(pages);
    session->spare = cr_pages_take(pages, cr_pages_state_kind(pages), session->writer);
    cr_pages_unlock(pages);
    if (!session->spare)
        return cr_fail_nomem(err, pages->bytes[cr_pages_state_kind(pages)], "the recurrent state");
    return CERA_OK;
}

void cr_session_drop_room(cr_session *session)
{
    cr_pages_drop(session->env.pages, session->spare);
    session->spare = NULL;
}

/* ---- chunks ------------------------------------------------------------------------------ */

/* A row's logits tell how likely the token behind it was; the rows at `position` and behind it, up
 * to `end`, have just been computed, and n is where the span ends. Those of the last row are for
 * the token behind it. */
static void score_rows(const cr_scorer *to, const int32_t *ids, int position, int end, int n,
                       float *last)
{
    for (int i = position; i < end && i + 1 < n; i++)
        to->logprobs[i + 1 - to->first] = cr_logprobs(
            to->logits + (size_t)(i - position) * to->n_vocab, to->n_vocab, ids[i + 1], NULL, 0);
    memcpy(last, to->logits + (size_t)(end - 1 - position) * to->n_vocab,
           to->n_vocab * sizeof *last);
}

/* States at the ends of the pages that a chunk completes, where they are to be kept. */
typedef struct page_states {
    cr_page *pages[CR_MAX_CHUNK / CR_PAGE + 1];
    float *data[CR_MAX_CHUNK / CR_PAGE + 1];
    int first, n; /* pages */
} page_states;

static void drop_page_states(cr_session *session, page_states *states)
{
    for (int i = 0; i < states->n; i++)
        cr_pages_drop(session->env.pages, states->pages[i]);
    states->n = 0;
}

/* Takes those of the chunk up to `end`: none where the model cannot give them. */
static cera_status take_page_states(cr_session *session, const cr_line *line, int end,
                                    page_states *out, cera_error *err)
{
    cr_pages *pages = session->env.pages;
    out->first = line->position / CR_PAGE;
    out->n = 0;
    if (!session->env.prefix || !cr_session_has_state(session) || !pages->graph->states_at_pages)
        return CERA_OK;
    int spacing = cr_prefix_spacing(session->env.prefix);
    bool taken = true;
    cr_pages_lock(pages);
    for (int i = out->first; i < end / CR_PAGE && taken; i++) {
        bool keep = spacing > 0 && (i + 1) * CR_PAGE % spacing == 0;
        cr_page *page = NULL;
        if (keep)
            page = cr_pages_take(pages, cr_pages_state_kind(pages), session->writer);
        taken = page || !keep;
        out->pages[out->n] = page;
        out->data[out->n++] = page ? page->data : NULL;
    }
    if (!taken)
        drop_page_states(session, out);
    cr_pages_unlock(pages);
    if (taken)
        return CERA_OK;
    return cr_fail_nomem(err, pages->bytes[cr_pages_state_kind(pages)], "recurrent states");
}

/* Lets other sessions find what the line has now. A block that is not full is worth it at a place
 * where texts go on. */
static void remember(cr_session *session, const cr_line *line, const int32_t *ids,
                     const page_states *states, const cr_wanted *want)
{
    cr_prefix *prefix = session->env.prefix;
    int spacing = cr_prefix_spacing(prefix), position = line->position;
    for (int i = 0; i < states->n; i++) {
        if (states->pages[i])
            cr_prefix_add(session->adapted.root, ids, (states->first + i + 1) * CR_PAGE, line,
                          states->pages[i]);
    }
    bool is_place = position == want->place || position == want->branch ||
                    (spacing > 0 && position % spacing == 0);
    if (!is_place)
        position -= position % CR_PAGE;
    cr_prefix_add(session->adapted.root, ids, position, line,
                  is_place && spacing >= 0 ? line->state : NULL);
}

/* Where the chunk at the line's position ends, of n tokens. Where states are known at the ends of
 * runs only, a run ends where one is to be kept. */
static int chunk_end(const cr_session *session, const cr_line *line, int n, const cr_wanted *want)
{
    int most = cr_scheduler_chunk(session->env.scheduler);
    if (want->score)
        most = CR_MIN(most, CR_SCORE_ROWS);
    int position = line->position, branch = want->branch, end = CR_MIN(n, position + most);
    if (!session->env.prefix || !cr_session_has_state(session))
        return end;
    if (want->place > position)
        end = CR_MIN(end, want->place);
    if (session->env.pages->graph->states_at_pages)
        return end;
    int spacing = cr_prefix_spacing(session->env.prefix);
    if (spacing > 0)
        end = CR_MIN(end, (position / spacing + 1) * spacing);
    return branch > position ? CR_MIN(end, branch) : end;
}

void cr_session_move_line(cr_session *session, cr_line *line, int end)
{
    cr_pages *pages = session->env.pages;
    line->position = end;
    if (!cr_session_has_state(session))
        return;
    cr_page *old = line->state;
    line->state = session->spare;
    session->spare = old;
    if (old && !cr_page_is_sole(old)) {
        cr_pages_drop(pages, old);
        session->spare = NULL;
    }
}

cera_status cr_session_run_rows(cr_session *session, cr_line *line, const int32_t *ids, int end,
                                const cr_wanted *want, cera_error *err)
{
    void *const *pages[CR_MAX_GROUPS];
    for (int g = 0; g < CR_MAX_GROUPS; g++)
        pages[g] = line->data[g];
    size_t n_embd = session->env.model->graph.n_embd;
    int n_rows = end - line->position;
    cr_batch_seq seq = {
        .n_past = line->position,
        .n_rows = n_rows,
        .tokens = ids + line->position,
        .pages = pages,
        .state_in = line->state ? line->state->data : session->env.pages->zero_state,
        .state_out = session->spare ? session->spare->data : NULL,
        .page_states = want->page_states,
        .adapt = session->adapted.adaptation,
        .reduced = session->adapted.reduced,
        .n_logits = want->logits ? 1 : 0,
        .logits = session->comes->values,
        .hidden = want->hidden ? want->hidden + (size_t)line->position * n_embd : NULL,
        .cancel = want->cancel,
    };
    if (want->score) {
        seq.n_logits = n_rows;
        seq.logits = want->score->logits;
    }
    if (want->ahead) {
        seq.n_logits = want->n_ahead;
        seq.logits = want->ahead;
    }
    return session->env.run(session->env.ctx, &session->seat, &seq, err);
}

cera_status cr_session_run_chunk(cr_session *session, cr_line *line, const int32_t *ids, int n,
                                 const cr_wanted *want, cera_error *err)
{
    cr_pages *pages = session->env.pages;
    int end = chunk_end(session, line, n, want);
    CR_TRY(cr_session_want_room(session, err));
    CR_TRY(cr_line_reserve(line, pages, session->writer, (cr_line_goal){ n, end }, err));
    page_states states;
    CR_TRY(take_page_states(session, line, end, &states, err));
    cr_wanted of_chunk = *want;
    of_chunk.logits = want->logits && end == n;
    of_chunk.page_states = states.n > 0 ? states.data : NULL;
    cera_status status = cr_session_run_rows(session, line, ids, end, &of_chunk, err);
    if (status == CERA_OK && want->score)
        score_rows(want->score, ids, line->position, end, n, session->comes->values);
    cr_pages_lock(pages);
    if (status == CERA_OK) {
        cr_session_move_line(session, line, end);
        if (session->env.prefix)
            remember(session, line, ids, &states, want);
        cr_line_pass(line, pages, session->writer);
    }
    drop_page_states(session, &states);
    cr_pages_unlock(pages);
    return status;
}

/* Sessions: appending, and the state that moves with it.
 *
 * Every call that computes makes a second line, from the longest known beginning of what the history
 * is to become, and computes the rest there. When that has succeeded the lines change places; when
 * not, the second one is dropped, and nothing has happened. */
#include "session/session_internal.h"

#include "base/arith.h"
#include "sample/sampler.h"
#include "session/store.h"

#include <math.h>
#include <string.h>

/* ---- life -------------------------------------------------------------------------------- */

static size_t logits_bytes(const cr_session *session)
{
    return sizeof(cr_logits) + session->env.model->graph.n_vocab * sizeof(float);
}

static cr_logits *new_logits(cr_session *session)
{
    cr_logits *l = cr_alloc(session->env.host, CR_MEM_SCRATCH, logits_bytes(session));
    if (l)
        atomic_init(&l->n_holders, 1);
    return l;
}

static void drop_logits(cr_session *session, cr_logits *l)
{
    if (l && atomic_fetch_sub(&l->n_holders, 1) == 1)
        cr_free(session->env.host, CR_MEM_SCRATCH, l, logits_bytes(session));
}

void cr_session_free(cr_session *session)
{
    if (!session)
        return;
    cr_host *host = session->env.host;
    cr_grammar_release(session->open.grammar);
    cr_pages *pages = session->env.pages;
    cr_session_unshift(session, 0);
    cr_adapted_done(session, &session->adapted);
    cr_line_done(&session->now, pages);
    cr_line_done(&session->next, pages);
    cr_pages_lock(pages);
    cr_session_drop_room(session);
    cr_pages_unlock(pages);
    drop_logits(session, session->has);
    drop_logits(session, session->comes);
    cr_free(host, CR_MEM_OBJECT, session->history, (size_t)session->n_context * sizeof(int32_t));
    cr_free(host, CR_MEM_OBJECT, session, sizeof *session);
}

static bool allocate(cr_session *session)
{
    int n_pages = (session->n_context + CR_PAGE - 1) / CR_PAGE;
    session->history =
        cr_alloc(session->env.host, CR_MEM_OBJECT, (size_t)session->n_context * sizeof(int32_t));
    return session->history && cr_line_init(&session->now, session->env.pages, n_pages) &&
           cr_line_init(&session->next, session->env.pages, n_pages) &&
           cr_adapted_init(session, &session->adapted, NULL, 0, NULL) == CERA_OK;
}

cera_status cr_session_new(const cr_session_env *env, int context_size, cr_session **out,
                           cera_error *err)
{
    if (context_size < 0 || context_size > env->context_size)
        return cr_fail(err, CERA_E_ARG, "context_size: expected 0 to %d, found %d",
                       env->context_size, context_size);
    cr_session *session = cr_alloc_zero(env->host, CR_MEM_OBJECT, sizeof *session);
    if (!session)
        return cr_fail_nomem(err, sizeof *session, "the session");
    session->env = *env;
    session->prefix = env->prefix;
    session->n_context = context_size > 0 ? context_size : env->context_size;
    if (!allocate(session)) {
        size_t bytes = (size_t)session->n_context * sizeof(int32_t);
        cr_session_free(session);
        return cr_fail_nomem(err, bytes, "the session");
    }
    cr_pages_lock(env->pages);
    session->writer = cr_pages_writer(env->pages);
    cr_pages_unlock(env->pages);
    *out = session;
    return CERA_OK;
}

cera_status cr_session_fork(cr_session *session, cr_session **out, cera_error *err)
{
    cr_session *child;
    cr_session_env env = session->env;
    env.prefix = session->prefix;
    CR_TRY(cr_session_new(&env, session->n_context, &child, err));
    cera_status status =
        cr_session_set_adapters(child, session->adapted.uses, session->adapted.n, err);
    if (status == CERA_OK)
        status = cr_session_fork_shift(session, child, err);
    if (status != CERA_OK) {
        cr_session_free(child);
        return status;
    }
    int position = session->now.position;
    cr_pages_lock(session->env.pages);
    cr_line_share(&child->now, session->env.pages, &session->now, position);
    cr_pages_unlock(session->env.pages);
    memcpy(child->history, session->history, (size_t)position * sizeof(int32_t));
    child->is_mixed = session->is_mixed;
    cr_session_see_tree(child);
    child->has = session->has;
    child->has_logits = session->has_logits;
    if (child->has)
        atomic_fetch_add(&child->has->n_holders, 1);
    child->detok = session->detok;
    cr_session_set_open(child, session->open);
    *out = child;
    return CERA_OK;
}

void cr_session_reset(cr_session *session)
{
    cr_pages_lock(session->env.pages);
    cr_line_clear(&session->now, session->env.pages);
    cr_pages_unlock(session->env.pages);
    session->is_mixed = false;
    cr_session_unshift(session, 0);
    cr_session_see_tree(session);
    session->has_logits = false;
    cr_detok_init(&session->detok);
    cr_session_set_open(session, (cr_session_open){ .grammar = NULL });
    session->n_prompt = session->n_reused = 0;
    session->prompt_ns = 0;
    atomic_store(&session->cancel, 0);
}

/* ---- small questions --------------------------------------------------------------------- */

void cr_session_cancel(cr_session *session)
{
    atomic_store_explicit(&session->cancel, 1, memory_order_relaxed);
}

cr_session_open cr_session_get_open(const cr_session *session)
{
    return session->open;
}

void cr_session_set_open(cr_session *session, cr_session_open open)
{
    cr_grammar_retain(open.grammar);
    cr_grammar_release(session->open.grammar);
    session->open = open;
}

bool cr_session_take_cancel(cr_session *session)
{
    return atomic_exchange(&session->cancel, 0) != 0;
}

const float *cr_session_logits(const cr_session *session)
{
    return session->has_logits ? session->has->values : NULL;
}

const int32_t *cr_session_history(const cr_session *session, size_t *n)
{
    *n = (size_t)(session->now.position + session->ahead.taken);
    return session->history;
}

size_t cr_session_room(const cr_session *session)
{
    return (size_t)(session->n_context - session->now.position - session->ahead.taken);
}

const cr_session_env *cr_session_get_env(const cr_session *session)
{
    return &session->env;
}

cr_detok *cr_session_detok(cr_session *session)
{
    return &session->detok;
}

void cr_session_take_prompt(cr_session *session, cera_summary *out)
{
    out->n_prompt = session->n_prompt;
    out->n_reused = session->n_reused;
    out->prompt_ms = (double)session->prompt_ns / 1e6;
    session->n_prompt = session->n_reused = 0;
    session->prompt_ns = 0;
}

/* ---- computing --------------------------------------------------------------------------- */

/* See cr_seat_state: where a call begins, runs foreign code and ends. */
static void take_seat(cr_session *session, cr_seat_state state)
{
    cr_scheduler_seat(session->env.scheduler, &session->seat, state);
}

void cr_session_step_aside(cr_session *session)
{
    if (session->seat.state == CR_SEAT_DUE)
        take_seat(session, CR_SEAT_PRESENT);
}

static bool has_state(const cr_session *session)
{
    return session->env.pages->zero_state != NULL;
}

cera_status cr_session_want_room(cr_session *session, cera_error *err)
{
    cr_pages *pages = session->env.pages;
    if (!session->comes)
        session->comes = new_logits(session);
    if (!session->comes)
        return cr_fail_nomem(err, logits_bytes(session), "the logits");
    if (session->spare || !has_state(session))
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

/* Rows whose logits are kept at a time while scoring: 32 MB of them for a vocabulary of 128,000. */
enum { SCORE_ROWS = 64 };

/* Log-probabilities of the tokens behind position `first`. */
typedef struct scorer {
    int first;
    float *logprobs; /* [n] */
    float *logits;   /* [SCORE_ROWS][n_vocab] */
    size_t n_vocab;
} scorer;

/* What a span of tokens should give besides moving forward. */
typedef struct wanted {
    const atomic_int *cancel;
    bool logits;         /* of the last token */
    float *hidden;       /* [n][n_embd], or NULL */
    int branch, place;   /* positions behind which the state may be wanted again */
    const scorer *score; /* or NULL */
    float *ahead;        /* [n_ahead][n_vocab] of the last rows, or NULL */
    int n_ahead;
} wanted;

/* A row's logits tell how likely the token behind it was; the rows at `position` and behind it, up to
 * `end`, have just been computed, and n is where the span ends. Those of the last row are for the token
 * behind it. */
static void score_rows(const scorer *to, const int32_t *ids, int position, int end, int n,
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
    if (!session->env.prefix || !has_state(session) || !pages->graph->states_at_pages)
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

/* Lets other sessions find what the line has now. A block that is not full is worth it at a place where
 * texts go on. */
static void remember(cr_session *session, const cr_line *line, const int32_t *ids,
                     const page_states *states, const wanted *want)
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

/* Where the chunk at the line's position ends, of n tokens. Where states are known at the ends of runs
 * only, a run ends where one is to be kept. */
static int chunk_end(const cr_session *session, const cr_line *line, int n, const wanted *want)
{
    int most = cr_scheduler_chunk(session->env.scheduler);
    if (want->score)
        most = CR_MIN(most, SCORE_ROWS);
    int position = line->position, branch = want->branch, end = CR_MIN(n, position + most);
    if (!session->env.prefix || !has_state(session))
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

/* Where an input that begins at `start` and ends with token n leaves a state. Whoever wants the same
 * text again computes the last token of it, and cannot begin behind that one; but stopping before it
 * costs a run, which is much only for a short text. */
static int place_of_end(const cr_session *session, int start, int n)
{
    enum { LONG = 4 * CR_PAGE };
    return has_state(session) && n - start > LONG ? n - 1 : n;
}

/* The line has come to `end`: `spare` has the state there. */
static void move_line(cr_session *session, cr_line *line, int end)
{
    cr_pages *pages = session->env.pages;
    line->position = end;
    if (!has_state(session))
        return;
    cr_page *old = line->state;
    line->state = session->spare;
    session->spare = old;
    if (old && !cr_page_is_sole(old)) {
        cr_pages_drop(pages, old);
        session->spare = NULL;
    }
}

static cera_status run_rows(cr_session *session, cr_line *line, const int32_t *ids, int end,
                            const wanted *want, const page_states *states, bool is_last,
                            cera_error *err)
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
        .page_states = states && states->n > 0 ? states->data : NULL,
        .adapt = session->adapted.adaptation,
        .reduced = session->adapted.reduced,
        .n_logits = want->logits && is_last ? 1 : 0,
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

/* Computes the next chunk of ids[0, n) and moves the line there. */
static cera_status run_chunk(cr_session *session, cr_line *line, const int32_t *ids, int n,
                             const wanted *want, cera_error *err)
{
    cr_pages *pages = session->env.pages;
    int end = chunk_end(session, line, n, want);
    CR_TRY(cr_session_want_room(session, err));
    CR_TRY(cr_line_reserve(line, pages, session->writer, (cr_line_goal){ n, end }, err));
    page_states states;
    CR_TRY(take_page_states(session, line, end, &states, err));
    cera_status status = run_rows(session, line, ids, end, want, &states, end == n, err);
    if (status == CERA_OK && want->score)
        score_rows(want->score, ids, line->position, end, n, session->comes->values);
    cr_pages_lock(pages);
    if (status == CERA_OK) {
        move_line(session, line, end);
        if (session->env.prefix)
            remember(session, line, ids, &states, want);
        cr_line_pass(line, pages, session->writer);
    }
    drop_page_states(session, &states);
    cr_pages_unlock(pages);
    return status;
}

void cr_session_swap_logits(cr_session *session)
{
    cr_logits *old = session->has;
    session->has = session->comes;
    session->comes = old;
    if (old && atomic_load(&old->n_holders) > 1) {
        drop_logits(session, old);
        session->comes = NULL;
    }
    session->has_logits = true;
}

/* ---- moving ------------------------------------------------------------------------------ */

static cera_status check_ids(const cr_session_env *env, const int32_t *ids, size_t n,
                             cera_error *err)
{
    size_t n_vocab = env->model->graph.n_vocab;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (size_t)ids[i] >= n_vocab)
            return cr_fail(err, CERA_E_ARG, "token id %d at %zu: expected 0 to %zu", (int)ids[i], i,
                           n_vocab - 1);
    }
    return CERA_OK;
}

/* What a history is to become. */
typedef struct target {
    const int32_t *ids; /* [n] */
    int n;
    int n_same;          /* of the first ones, the history has so many */
    int n_before;        /* of the first ones, so many are no part of the input */
    const scorer *score; /* with one, all behind the first ones is computed; or NULL */
} target;

/* Where the session itself can go on from. What other adapters have computed serves for going on, not
 * for a history that is to be what the present ones make of it. */
static int own_start(const cr_session *session, const target *to)
{
    if (session->is_mixed && to->n_before == 0)
        return 0;
    if (to->n_same == session->now.position && to->n_same < to->n)
        return to->n_same;
    int start = CR_MIN(to->n_same, to->n - 1); /* logits come of the last token */
    if (has_state(session) || !cr_line_reaches(&session->now, session->env.pages, start))
        return 0;
    return start;
}

/* Puts the second line at the longest known beginning. Returns the known tokens of whole blocks. */
static int begin_line(cr_session *session, const target *to)
{
    cr_pages *pages = session->env.pages;
    int start = own_start(session, to), n_known = 0;
    bool looks = session->env.prefix && !to->score;
    if (looks && session->env.store)
        cr_store_read(session->env.store, session->adapted.root, to->ids, to->n, &session->cancel);
    cr_pages_lock(pages);
    if (looks)
        cr_prefix_find(session->adapted.root, to->ids, (size_t)to->n, start, &session->next,
                       &n_known);
    if (session->next.position == 0)
        cr_line_share(&session->next, pages, &session->now, start);
    cr_pages_unlock(pages);
    return n_known;
}

/* A text under a grammar that is still open stays so in what is left of it. */
static void cut_open(cr_session *session, const target *to)
{
    cr_session_open open = session->open;
    open.end = (size_t)to->n;
    bool stays = to->n == to->n_same && open.grammar && open.start <= (size_t)to->n;
    cr_session_set_open(session, stays ? open : (cr_session_open){ .grammar = NULL });
}

/* The tree may have something new. */
static void tell_store(cr_session *session)
{
    if (session->env.prefix && session->env.store)
        cr_store_wake(session->env.store);
}

/* Moves the session. *n_reused: tokens of the input that were known. */
static cera_status bring(cr_session *session, const target *to, size_t *n_reused, cera_error *err)
{
    cr_pages *pages = session->env.pages;
    cr_line *next = &session->next;
    wanted want = { .cancel = &session->cancel, .logits = true, .score = to->score };
    take_seat(session, CR_SEAT_PRESENT);
    /* Where nothing is left of a shift or of other adapters, everything is known to all and from all
     * again. */
    bool is_alone = session->origins || session->is_mixed;
    bool rejoins = is_alone && (!session->is_mixed || to->n_before == 0) &&
                   (!session->origins || own_start(session, to) <= session->n_pure);
    if (rejoins)
        session->env.prefix = session->prefix;
    want.branch = begin_line(session, to);
    int start = next->position;
    want.place = place_of_end(session, start, to->n);
    size_t n_known = (size_t)CR_MAX(start - to->n_before, 0);
    cera_status status = CERA_OK;
    if (session->env.prefix) {
        cr_pages_lock(pages);
        if (!cr_prefix_stock(session->env.prefix, (size_t)(to->n / CR_PAGE) + 1))
            status = cr_fail_nomem(err, 0, "the prefix tree");
        cr_pages_unlock(pages);
    }
    while (status == CERA_OK && next->position < to->n)
        status = run_chunk(session, next, to->ids, to->n, &want, err);
    take_seat(session, CR_SEAT_AWAY);

    cr_pages_lock(pages);
    if (status == CERA_OK) {
        if (session->env.prefix) {
            cr_prefix_share(session->adapted.root, to->ids, next);
            cr_prefix_count(session->env.prefix, n_known, (size_t)(to->n - start));
        }
        cr_line old = session->now;
        session->now = session->next;
        session->next = old;
    }
    cr_line_clear(next, pages);
    cr_session_drop_room(session);
    cr_pages_unlock(pages);
    tell_store(session);
    if (status == CERA_E_CANCELLED)
        cr_session_take_cancel(session);
    if (status != CERA_OK && rejoins)
        session->env.prefix = NULL;
    if (status != CERA_OK)
        return status;
    session->is_mixed = session->is_mixed && !rejoins;
    cr_session_unshift(session, rejoins ? 0 : start);
    memmove(session->history, to->ids, (size_t)to->n * sizeof *to->ids);
    cr_session_swap_logits(session);
    cr_detok_init(&session->detok);
    cut_open(session, to);
    *n_reused = n_known;
    return CERA_OK;
}

static cera_status append(cr_session *session, const int32_t *ids, size_t n, const scorer *score,
                          cera_error *err)
{
    if (n == 0)
        return cr_fail(err, CERA_E_ARG, "input: expected at least one token, found none");
    if (n > cr_session_room(session))
        return cr_fail(err, CERA_E_CONTEXT,
                       "context: %zu tokens do not fit, %d of %d positions are free", n,
                       (int)cr_session_room(session), session->n_context);
    CR_TRY(check_ids(&session->env, ids, n, err));
    if (cr_session_take_cancel(session))
        return cr_fail(err, CERA_E_CANCELLED, "the input was cancelled");

    const cera_os *os = &session->env.host->os;
    uint64_t start = os->clock_ns(os->ctx);
    int position = session->now.position;
    size_t n_reused;
    memmove(session->history + position, ids, n * sizeof *ids);
    target to = { session->history, position + (int)n, position, position, score };
    CR_TRY(bring(session, &to, &n_reused, err));
    session->n_prompt += n;
    session->n_reused += n_reused;
    session->prompt_ns += os->clock_ns(os->ctx) - start;
    return CERA_OK;
}

cera_status cr_session_append_ids(cr_session *session, const int32_t *ids, size_t n,
                                  cera_error *err)
{
    return append(session, ids, n, NULL, err);
}

cera_status cr_session_score(cr_session *session, const int32_t *ids, size_t n, float *logprobs,
                             cera_error *err)
{
    /* The room is the result, handed over when all is well, and the logits of some rows. */
    size_t n_vocab = session->env.model->graph.n_vocab, n_rows = CR_MIN(n, (size_t)SCORE_ROWS);
    size_t bytes = (CR_MIN(n, cr_session_room(session)) + n_rows * n_vocab) * sizeof(float);
    float *room = cr_alloc(session->env.host, CR_MEM_SCRATCH, bytes);
    if (!room)
        return cr_fail_nomem(err, bytes, "logits");
    scorer to = {
        .first = session->now.position,
        .logprobs = room + n_rows * n_vocab,
        .logits = room,
        .n_vocab = n_vocab,
    };
    float first = NAN;
    if (session->has_logits && n > 0 && ids[0] >= 0 && (size_t)ids[0] < n_vocab)
        first = cr_logprobs(session->has->values, n_vocab, ids[0], NULL, 0);
    cera_status status = append(session, ids, n, &to, err);
    if (status == CERA_OK) {
        to.logprobs[0] = first;
        memcpy(logprobs, to.logprobs, n * sizeof *logprobs);
    }
    cr_free(session->env.host, CR_MEM_SCRATCH, room, bytes);
    return status;
}

cera_status cr_session_sync(cr_session *session, const int32_t *ids, size_t n, cera_error *err)
{
    if (n > (size_t)session->n_context)
        return cr_fail(err, CERA_E_CONTEXT, "context: %zu tokens do not fit in %d positions", n,
                       session->n_context);
    CR_TRY(check_ids(&session->env, ids, n, err));
    if (cr_session_take_cancel(session))
        return cr_fail(err, CERA_E_CANCELLED, "the input was cancelled");
    if (n == 0) {
        cr_session_reset(session);
        return CERA_OK;
    }
    const cera_os *os = &session->env.host->os;
    uint64_t start = os->clock_ns(os->ctx);
    size_t n_reused = n;
    target to = { .ids = ids, .n = (int)n };
    while (to.n_same < CR_MIN(session->now.position, to.n) &&
           session->history[to.n_same] == ids[to.n_same])
        to.n_same++;
    if (to.n_same < to.n || session->now.position > to.n || !session->has_logits ||
        session->is_mixed)
        CR_TRY(bring(session, &to, &n_reused, err));
    session->n_prompt = n;
    session->n_reused = n_reused;
    session->prompt_ns = os->clock_ns(os->ctx) - start;
    return CERA_OK;
}

cera_status cr_session_rewind(cr_session *session, size_t position, cera_error *err)
{
    if (position > (size_t)session->now.position)
        return cr_fail(err, CERA_E_ARG, "position: expected 0 to %d, found %zu",
                       session->now.position, position);
    CR_TRY(cr_session_sync(session, session->history, position, err));
    session->n_prompt = session->n_reused = 0;
    session->prompt_ns = 0;
    return CERA_OK;
}

cera_status cr_session_append_text(cr_session *session, cr_str text, bool parse_special,
                                   bool add_bos, cera_error *err)
{
    if (!session->env.vocab)
        return cr_fail(err, CERA_E_UNSUPPORTED, "the file has no vocabulary: append ids instead");
    cera_encode_options options = {
        .size = sizeof options,
        .parse_special = parse_special,
        .add_bos = add_bos && session->now.position == 0,
    };
    cr_buf ids;
    cr_buf_init(&ids, session->env.host, CR_MEM_SCRATCH);
    cera_status status = cr_vocab_encode(session->env.vocab, text, &options, &ids, err);
    if (status == CERA_OK)
        status = cr_session_append_ids(session, (const int32_t *)(const void *)ids.data,
                                       ids.size / sizeof(int32_t), err);
    cr_buf_done(&ids);
    return status;
}

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
    cr_logits *copy = new_logits(session);
    if (!copy)
        return cr_fail_nomem(err, logits_bytes(session), "the logits");
    memcpy(copy->values, session->has->values,
           session->env.model->graph.n_vocab * sizeof *copy->values);
    drop_logits(session, session->has);
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
    if (stocked && has_state(session))
        stocked = cr_pages_stock(pages, cr_pages_state_kind(pages),
                                 1 + (size_t)(spacing > 0 ? n / spacing : 0));
    cr_pages_unlock(pages);
    return stocked ? CERA_OK : cr_fail_nomem(err, 0, "the prefix tree");
}

cera_status cr_session_reserve(cr_session *session, size_t n, int n_draft, cera_error *err)
{
    take_seat(session, CR_SEAT_PRESENT);
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
    int spacing =
        has_state(session) && session->env.prefix ? cr_prefix_spacing(session->env.prefix) : -1;
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
    if (has_state(session)) {
        cr_pages_lock(pages);
        move_line(session, now, now->position + n);
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

/* Computes rows of the history behind the line: those that lag behind, and then some whose logits are
 * wanted. The line stays: which of them are right is not known yet. */
static cera_status look_ahead(cr_session *session, int n_rows, int n_lag, cera_error *err)
{
    CR_TRY(cr_session_want_room(session, err));
    wanted want = { .ahead = session->ahead.logits, .n_ahead = n_rows - n_lag };
    return run_rows(session, &session->now, session->history, session->now.position + n_rows, &want,
                    NULL, true, err);
}

/* The rest of the guesses is refuted. Keys and values behind the tokens that were taken will be written
 * over, but a recurrent state is the one behind all rows: the line stays where its state is, and the
 * tokens since then lag behind, to be computed again with the next one. */
static void drop_guesses(cr_session *session)
{
    cr_ahead *a = &session->ahead;
    a->n = a->taken;
    if (has_state(session))
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
    int n_lag = has_state(session) ? a->taken : 0;
    int room = cr_line_room(&session->now, session->env.pages) - a->taken - 1;
    room = CR_MIN(room, (int)cr_session_room(session) - 1);
    return CR_MAX(CR_MIN(room, a->max - n_lag), 0);
}

cera_status cr_session_advance(cr_session *session, int32_t id, const int32_t *draft, int n_draft,
                               cera_error *err)
{
    cr_pages *pages = session->env.pages;
    cr_line *now = &session->now;
    cr_ahead *a = &session->ahead;
    if (cr_session_foresees(session, id)) {
        take_row(session);
        return CERA_OK;
    }
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
        wanted want = { .logits = true };
        CR_TRY(run_rows(session, now, session->history, end, &want, NULL, true, err));
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
    take_seat(session, CR_SEAT_AWAY);
    cr_pages_lock(pages);
    cr_line_trim(now, pages);
    if (prefix && now->position > 0)
        cr_prefix_add(session->adapted.root, session->history, now->position, now,
                      cr_prefix_spacing(prefix) >= 0 ? now->state : NULL);
    cr_session_drop_room(session);
    cr_pages_unlock(pages);
    tell_store(session);
    return status;
}

/* ---- embedding --------------------------------------------------------------------------- */

static void mean_rows(const float *rows, size_t n, size_t width, float *out)
{
    for (size_t i = 0; i < width; i++) {
        double sum = 0;
        for (size_t row = 0; row < n; row++)
            sum += (double)rows[row * width + i];
        out[i] = (float)(sum / (double)n);
    }
}

static cera_status embed_rows(cr_session *session, const int32_t *ids, size_t n, float *rows,
                              cera_error *err)
{
    wanted want = { .hidden = rows };
    cera_status status = CERA_OK;
    take_seat(session, CR_SEAT_PRESENT);
    while (status == CERA_OK && session->now.position < (int)n)
        status = run_chunk(session, &session->now, ids, (int)n, &want, err);
    take_seat(session, CR_SEAT_AWAY);
    return status;
}

cera_status cr_session_embed(const cr_session_env *env, const cr_session *like, const int32_t *ids,
                             size_t n, cera_pooling pooling, float *out, cera_error *err)
{
    if (n == 0)
        return cr_fail(err, CERA_E_ARG, "input: expected at least one token, found none");
    if (pooling != CERA_POOLING_NONE && pooling != CERA_POOLING_MEAN)
        return cr_fail(err, CERA_E_ARG, "pooling: expected 0 or 1, found %d", (int)pooling);
    if (n > (size_t)env->context_size)
        return cr_fail(err, CERA_E_CONTEXT, "context: %zu tokens do not fit in %d positions", n,
                       env->context_size);
    CR_TRY(check_ids(env, ids, n, err));
    size_t width = env->model->graph.n_embd, bytes;
    if (!cr_mul_size(n, width * sizeof(float), &bytes))
        return cr_fail(err, CERA_E_LIMIT, "input: %zu rows of hidden states are too many", n);

    cr_session_env alone = *env;
    alone.prefix = NULL; /* every token's hidden state is wanted, so every one is computed */
    cr_session *session;
    CR_TRY(cr_session_new(&alone, 0, &session, err));
    cera_status status = CERA_OK;
    if (like)
        status = cr_session_set_adapters(session, like->adapted.uses, like->adapted.n, err);
    float *rows = status == CERA_OK ? cr_alloc(env->host, CR_MEM_SCRATCH, bytes) : NULL;
    if (status == CERA_OK)
        status = rows ? embed_rows(session, ids, n, rows, err)
                      : cr_fail_nomem(err, bytes, "hidden states");
    if (status == CERA_OK && pooling == CERA_POOLING_MEAN)
        mean_rows(rows, n, width, out);
    else if (status == CERA_OK)
        memcpy(out, rows, bytes);
    cr_free(env->host, CR_MEM_SCRATCH, rows, bytes);
    cr_session_free(session);
    return status;
}

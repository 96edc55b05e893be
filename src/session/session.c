/* Sessions: their life, and where they move.
 *
 * Every call that computes makes a second line, from the longest known beginning of what the
 * history is to become, and computes the rest there. When that has succeeded the lines change
 * places; when not, the second one is dropped, and nothing has happened. */
#include "session/session_internal.h"

#include "base/arith.h"
#include "sample/sampler.h"
#include "session/store.h"

#include <math.h>
#include <string.h>

/* ---- life -------------------------------------------------------------------------------- */

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
    cr_logits_drop(session, session->has);
    cr_logits_drop(session, session->comes);
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
    int n_same;             /* of the first ones, the history has so many */
    int n_before;           /* of the first ones, so many are no part of the input */
    const cr_scorer *score; /* with one, all behind the first ones is computed; or NULL */
} target;

/* Where the session itself can go on from. What other adapters have computed serves for going on,
 * not for a history that is to be what the present ones make of it. */
static int own_start(const cr_session *session, const target *to)
{
    if (session->is_mixed && to->n_before == 0)
        return 0;
    if (to->n_same == session->now.position && to->n_same < to->n)
        return to->n_same;
    int start = CR_MIN(to->n_same, to->n - 1); /* logits come of the last token */
    if (cr_session_has_state(session) || !cr_line_reaches(&session->now, session->env.pages, start))
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

/* Where an input that begins at `start` and ends with token n leaves a state. Whoever wants the
 * same text again computes the last token of it, and cannot begin behind that one; but stopping
 * before it costs a run, which is much only for a short text. */
static int place_of_end(const cr_session *session, int start, int n)
{
    enum { LONG = 4 * CR_PAGE };
    return cr_session_has_state(session) && n - start > LONG ? n - 1 : n;
}

/* Moves the session. *n_reused: tokens of the input that were known. */
static cera_status bring(cr_session *session, const target *to, size_t *n_reused, cera_error *err)
{
    cr_pages *pages = session->env.pages;
    cr_line *next = &session->next;
    cr_wanted want = { .cancel = &session->cancel, .logits = true, .score = to->score };
    cr_session_take_seat(session, CR_SEAT_PRESENT);
    /* Where nothing is left of a shift or of other adapters, everything is known to all and from
     * all again. */
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
        status = cr_session_run_chunk(session, next, to->ids, to->n, &want, err);
    cr_session_take_seat(session, CR_SEAT_AWAY);

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
    cr_session_tell_store(session);
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

static cera_status append(cr_session *session, const int32_t *ids, size_t n, const cr_scorer *score,
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
    size_t n_vocab = session->env.model->graph.n_vocab, n_rows = CR_MIN(n, (size_t)CR_SCORE_ROWS);
    size_t bytes = (CR_MIN(n, cr_session_room(session)) + n_rows * n_vocab) * sizeof(float);
    float *room = cr_alloc(session->env.host, CR_MEM_SCRATCH, bytes);
    if (!room)
        return cr_fail_nomem(err, bytes, "logits");
    cr_scorer to = {
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
    cr_wanted want = { .hidden = rows };
    cera_status status = CERA_OK;
    cr_session_take_seat(session, CR_SEAT_PRESENT);
    while (status == CERA_OK && session->now.position < (int)n)
        status = cr_session_run_chunk(session, &session->now, ids, (int)n, &want, err);
    cr_session_take_seat(session, CR_SEAT_AWAY);
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

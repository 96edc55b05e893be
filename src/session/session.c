/* Sessions: appending, and the state that moves with it. */
#include "session/session.h"

#include "base/arith.h"
#include "sample/sampler.h"

#include <math.h>
#include <string.h>

/* Recurrent state has three buffers: the one at the session's position, which stays untouched until
 * a call succeeds, and two that a long prompt's chunks alternate between. */
enum { N_STATES = 3 };

struct cr_session {
    cr_session_env env;
    int n_context;
    int position;
    int32_t *history; /* [n_context] */
    void **pages;     /* [n_pages_max], the first n_pages taken */
    int n_pages, n_pages_max;
    float *states[N_STATES];
    int state;                   /* the one at `position` */
    float *logits, *next_logits; /* [n_vocab]: valid ones, and those being computed */
    bool has_logits;
    cr_detok detok;
    cr_session_open open;
    atomic_int cancel;
    size_t n_prompt; /* appended since the last generation */
    uint64_t prompt_ns;
};

/* ---- life -------------------------------------------------------------------------------- */

static size_t state_bytes(const cr_session *session)
{
    return session->env.model->graph.state_floats * sizeof(float);
}

static size_t logits_bytes(const cr_session *session)
{
    return session->env.model->graph.n_vocab * sizeof(float);
}

static void free_pages(cr_session *session)
{
    for (int i = 0; i < session->n_pages; i++)
        session->env.api->buf_free(session->env.backend, session->pages[i],
                                   session->env.page_bytes);
    session->n_pages = 0;
}

void cr_session_free(cr_session *session)
{
    if (!session)
        return;
    cr_host *host = session->env.host;
    cr_grammar_release(session->open.grammar);
    if (session->pages)
        free_pages(session);
    for (int i = 0; i < N_STATES; i++)
        cr_free(host, CR_MEM_KV, session->states[i], state_bytes(session));
    cr_free(host, CR_MEM_OBJECT, session->history, (size_t)session->n_context * sizeof(int32_t));
    cr_free(host, CR_MEM_OBJECT, session->pages, (size_t)session->n_pages_max * sizeof(void *));
    cr_free(host, CR_MEM_SCRATCH, session->logits, logits_bytes(session));
    cr_free(host, CR_MEM_SCRATCH, session->next_logits, logits_bytes(session));
    cr_free(host, CR_MEM_OBJECT, session, sizeof *session);
}

static bool allocate(cr_session *session)
{
    cr_host *host = session->env.host;
    session->history = cr_alloc(host, CR_MEM_OBJECT, (size_t)session->n_context * sizeof(int32_t));
    session->pages =
        cr_alloc_zero(host, CR_MEM_OBJECT, (size_t)session->n_pages_max * sizeof(void *));
    session->logits = cr_alloc(host, CR_MEM_SCRATCH, logits_bytes(session));
    session->next_logits = cr_alloc(host, CR_MEM_SCRATCH, logits_bytes(session));
    bool made = session->history && session->pages && session->logits && session->next_logits;
    for (int i = 0; i < N_STATES && made; i++) {
        session->states[i] = cr_alloc_zero(host, CR_MEM_KV, state_bytes(session));
        made = session->states[i] != NULL;
    }
    return made;
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
    session->n_context = context_size > 0 ? context_size : env->context_size;
    session->n_pages_max = (session->n_context + CR_PAGE - 1) / CR_PAGE;
    if (!allocate(session)) {
        size_t bytes = logits_bytes(session);
        cr_session_free(session);
        return cr_fail_nomem(err, bytes, "the session");
    }
    *out = session;
    return CERA_OK;
}

void cr_session_reset(cr_session *session)
{
    session->position = 0;
    session->has_logits = false;
    cr_detok_init(&session->detok);
    cr_session_set_open(session, (cr_session_open){ .grammar = NULL });
    session->n_prompt = 0;
    session->prompt_ns = 0;
    memset(session->states[session->state], 0, state_bytes(session));
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
    return session->has_logits ? session->logits : NULL;
}

const int32_t *cr_session_history(const cr_session *session, size_t *n)
{
    *n = (size_t)session->position;
    return session->history;
}

size_t cr_session_room(const cr_session *session)
{
    return (size_t)(session->n_context - session->position);
}

const cr_session_env *cr_session_get_env(const cr_session *session)
{
    return &session->env;
}

cr_detok *cr_session_detok(cr_session *session)
{
    return &session->detok;
}

void cr_session_take_prompt(cr_session *session, size_t *n, uint64_t *ns)
{
    *n = session->n_prompt;
    *ns = session->prompt_ns;
    session->n_prompt = 0;
    session->prompt_ns = 0;
}

/* ---- computing --------------------------------------------------------------------------- */

cera_status cr_session_reserve(cr_session *session, size_t n, cera_error *err)
{
    int n_wanted = (session->position + (int)n + CR_PAGE - 1) / CR_PAGE;
    int n_before = session->n_pages;
    while (session->n_pages < n_wanted) {
        void *page = session->env.api->buf_new(session->env.backend, session->env.page_bytes);
        if (!page) {
            while (session->n_pages > n_before)
                session->env.api->buf_free(session->env.backend, session->pages[--session->n_pages],
                                           session->env.page_bytes);
            return cr_fail_nomem(err, (size_t)(n_wanted - n_before) * session->env.page_bytes,
                                 "keys and values");
        }
        session->pages[session->n_pages++] = page;
    }
    return CERA_OK;
}

/* Rows whose logits are kept at a time while scoring: 32 MB of them for a vocabulary of 128,000. */
enum { SCORE_ROWS = 64 };

/* Log-probabilities of the tokens of a span. */
typedef struct scorer {
    float *logprobs; /* [n] */
    float *logits;   /* [SCORE_ROWS][n_vocab] */
    size_t n_vocab;
    int32_t rows[SCORE_ROWS]; /* 0, 1, 2, ... */
} scorer;

/* What a span of tokens should give besides moving forward. */
typedef struct wanted {
    const atomic_int *cancel;
    bool logits;         /* of the last token */
    float *hidden;       /* [n][n_embd], or NULL */
    const scorer *score; /* or NULL */
} wanted;

/* A row's logits tell how likely the token behind it was; ids[done, done + n_rows) have just been
 * computed, and n is the end of the span. Those of the last row are for the token behind it. */
static void score_rows(const scorer *to, const int32_t *ids, size_t done, size_t n_rows, size_t n,
                       float *last)
{
    for (size_t row = 0; row < n_rows && done + row + 1 < n; row++)
        to->logprobs[done + row + 1] =
            cr_logprobs(to->logits + row * to->n_vocab, to->n_vocab, ids[done + row + 1], NULL, 0);
    memcpy(last, to->logits + (n_rows - 1) * to->n_vocab, to->n_vocab * sizeof *last);
}

/* Computes ids[0, n) at the session's position without moving it. The state after them is left in
 * states[*state]. */
static cera_status compute(cr_session *session, const int32_t *ids, size_t n, const wanted *want,
                           int *state, cera_error *err)
{
    size_t n_embd = session->env.model->graph.n_embd;
    size_t chunk = (size_t)session->env.chunk_size;
    if (want->score)
        chunk = CR_MIN(chunk, (size_t)SCORE_ROWS);
    int from = session->state;
    for (size_t done = 0; done < n;) {
        size_t n_rows = CR_MIN(n - done, chunk);
        bool is_last = done + n_rows == n;
        int to = (from + 1) % N_STATES;
        if (to == session->state)
            to = (to + 1) % N_STATES;
        cr_batch_seq seq = {
            .n_past = session->position + (int)done,
            .n_rows = (int)n_rows,
            .pages = session->pages,
            .state_in = session->states[from],
            .state_out = session->states[to],
        };
        int32_t last_row = (int32_t)n_rows - 1;
        cr_batch batch = {
            .seqs = &seq,
            .n_seqs = 1,
            .tokens = ids + done,
            .n_rows = (int)n_rows,
            .logit_rows = &last_row,
            .n_logits = want->logits && is_last ? 1 : 0,
            .logits = session->next_logits,
            .hidden = want->hidden ? want->hidden + done * n_embd : NULL,
            .cancel = want->cancel,
        };
        if (want->score) {
            batch.logit_rows = want->score->rows;
            batch.n_logits = (int)n_rows;
            batch.logits = want->score->logits;
        }
        CR_TRY(session->env.run(session->env.ctx, &batch, err));
        if (want->score)
            score_rows(want->score, ids, done, n_rows, n, session->next_logits);
        from = to;
        done += n_rows;
    }
    *state = from;
    return CERA_OK;
}

/* Moves forward over ids[0, n), which have been computed. */
static void commit(cr_session *session, const int32_t *ids, size_t n, int state)
{
    memcpy(session->history + session->position, ids, n * sizeof *ids);
    session->position += (int)n;
    session->state = state;
    float *logits = session->logits;
    session->logits = session->next_logits;
    session->next_logits = logits;
    session->has_logits = true;
}

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

static cera_status append(cr_session *session, const int32_t *ids, size_t n, const scorer *to,
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
    CR_TRY(cr_session_reserve(session, n, err));

    const cera_os *os = &session->env.host->os;
    uint64_t start = os->clock_ns(os->ctx);
    wanted want = { .cancel = &session->cancel, .logits = true, .score = to };
    int state;
    cera_status status = compute(session, ids, n, &want, &state, err);
    if (status == CERA_E_CANCELLED)
        cr_session_take_cancel(session);
    if (status != CERA_OK)
        return status;
    commit(session, ids, n, state);
    cr_detok_init(&session->detok);
    session->n_prompt += n;
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
    scorer to = { .logprobs = room + n_rows * n_vocab, .logits = room, .n_vocab = n_vocab };
    for (int i = 0; i < SCORE_ROWS; i++)
        to.rows[i] = i;
    float first = NAN;
    if (session->has_logits && n > 0 && ids[0] >= 0 && (size_t)ids[0] < n_vocab)
        first = cr_logprobs(session->logits, n_vocab, ids[0], NULL, 0);
    cera_status status = append(session, ids, n, &to, err);
    if (status == CERA_OK) {
        to.logprobs[0] = first;
        memcpy(logprobs, to.logprobs, n * sizeof *logprobs);
    }
    cr_free(session->env.host, CR_MEM_SCRATCH, room, bytes);
    return status;
}

cera_status cr_session_append_text(cr_session *session, cr_str text, bool parse_special,
                                   bool add_bos, cera_error *err)
{
    if (!session->env.vocab)
        return cr_fail(err, CERA_E_UNSUPPORTED, "the file has no vocabulary: append ids instead");
    cera_encode_options options = {
        .size = sizeof options,
        .parse_special = parse_special,
        .add_bos = add_bos && session->position == 0,
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

cera_status cr_session_advance(cr_session *session, int32_t id, cera_error *err)
{
    CR_TRY(cr_session_reserve(session, 1, err));
    wanted want = { .logits = true };
    int state;
    CR_TRY(compute(session, &id, 1, &want, &state, err));
    commit(session, &id, 1, state);
    return CERA_OK;
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
    CR_TRY(cr_session_reserve(session, n, err));
    wanted want = { .hidden = rows };
    int state;
    return compute(session, ids, n, &want, &state, err);
}

cera_status cr_session_embed(const cr_session_env *env, const int32_t *ids, size_t n,
                             cera_pooling pooling, float *out, cera_error *err)
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

    cr_session *session;
    CR_TRY(cr_session_new(env, 0, &session, err));
    float *rows = cr_alloc(env->host, CR_MEM_SCRATCH, bytes);
    cera_status status =
        rows ? embed_rows(session, ids, n, rows, err) : cr_fail_nomem(err, bytes, "hidden states");
    if (status == CERA_OK && pooling == CERA_POOLING_MEAN)
        mean_rows(rows, n, width, out);
    else if (status == CERA_OK)
        memcpy(out, rows, bytes);
    cr_free(env->host, CR_MEM_SCRATCH, rows, bytes);
    cr_session_free(session);
    return status;
}

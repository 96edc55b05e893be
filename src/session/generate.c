/* Generating: sample, show, compute, until something ends it.
 *
 *     logits -> sampler -> token -> session: its keys and values, the next logits, and those behind
 *                            |     guesses (draft.h), which are used if they come true
 *                            '--> meanwhile: pieces -> whole characters -> no stop text in them
 *                                 -> sink */
#include "session/draft.h"
#include "session/session.h"

#include "sample/sampler.h"
#include "sample/stop.h"
#include "session/shift.h"
#include "token/detok.h"

#include <math.h>
#include <string.h>

enum { MAX_LOGPROBS = 20, MAX_STOP_IDS = 1024, MAX_BREAKERS = 16, TEXT_ROOM = 4096 };

typedef struct generation {
    cr_session *session;
    const cr_session_env *env;
    const cera_generate_options *options;
    const cr_session_env *draft; /* of the other engine, or NULL */
    const cera_sink *sink;
    cera_error *err;
    cr_sampler *sampler;
    cr_drafter *drafter;   /* NULL: no guesses */
    cera_grammar *grammar; /* NULL: none */
    cr_matcher *matcher;
    size_t grammar_start; /* where its text begins in the history */
    bool lost_start;      /* that was dropped */
    cr_detok detok;
    cr_buf text; /* whole characters of the last token */
    cr_stop stop;
    bool hit_stop_text;
    size_t n_vocab;
    cera_summary *summary;
    uint64_t start_ns;
    struct {
        int32_t id;
        cera_status status;
        bool wanted; /* the sink's answer */
        uint64_t took_ns;
    } shown; /* the token at hand */
} generation;

static cera_status check_options(const generation *g)
{
    const cera_generate_options *o = g->options;
    if (o->size != sizeof *o)
        return cr_fail(g->err, CERA_E_ARG, "generate options size: expected %zu, found %zu",
                       sizeof *o, o->size);
    if (o->max_tokens < -1)
        return cr_fail(g->err, CERA_E_ARG, "max_tokens: expected -1 or more, found %d",
                       o->max_tokens);
    if (o->n_keep < 0)
        return cr_fail(g->err, CERA_E_ARG, "n_keep: expected 0 or more, found %d", o->n_keep);
    if (o->n_logprobs < 0 || o->n_logprobs > MAX_LOGPROBS)
        return cr_fail(g->err, CERA_E_ARG, "n_logprobs: expected 0 to %d, found %d", MAX_LOGPROBS,
                       o->n_logprobs);
    if (o->n_draft < 0 || o->n_draft > CR_MAX_DRAFT)
        return cr_fail(g->err, CERA_E_ARG, "n_draft: expected 0 to %d, found %d", CR_MAX_DRAFT,
                       o->n_draft);
    if (o->n_draft > 0 && o->shift)
        return cr_fail(g->err, CERA_E_ARG, "n_draft: expected 0 with shift, found %d", o->n_draft);
    if (o->n_stop_ids > MAX_STOP_IDS)
        return cr_fail(g->err, CERA_E_ARG, "stop_ids: expected at most %d, found %zu", MAX_STOP_IDS,
                       o->n_stop_ids);
    if (o->n_stop_ids > 0 && !o->stop_ids)
        return cr_fail(g->err, CERA_E_ARG, "stop_ids: expected %zu ids, found NULL", o->n_stop_ids);
    if (!cr_session_logits(g->session))
        return cr_fail(g->err, CERA_E_STATE, "generate: nothing has been appended yet");
    return CERA_OK;
}

static bool has_any(cr_str piece, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t size = strlen(texts[i]);
        for (size_t at = 0; at + size <= piece.size; at++) {
            if (memcmp(piece.data + at, texts[i], size) == 0)
                return true;
        }
    }
    return false;
}

/* Tells the sampler which tokens have a text in them that ends a repeated sequence. */
static cera_status mark_breakers(const generation *g)
{
    static const char *const usual[] = { "\n", ":", "\"", "*" };
    const char *const *texts = g->options->dry_breakers;
    size_t n = texts ? g->options->n_dry_breakers : CR_COUNT(usual);
    if (!texts && g->options->n_dry_breakers > 0)
        return cr_fail(g->err, CERA_E_ARG, "dry_breakers: expected %zu texts, found NULL",
                       g->options->n_dry_breakers);
    if (n > MAX_BREAKERS)
        return cr_fail(g->err, CERA_E_ARG, "dry_breakers: expected at most %d, found %zu",
                       MAX_BREAKERS, n);
    for (size_t i = 0; texts && i < n; i++) {
        if (!texts[i] || !*texts[i])
            return cr_fail(g->err, CERA_E_ARG, "dry_breakers: expected texts, found an empty one");
    }
    if (!cr_sampler_wants_breakers(g->sampler) || !g->env->vocab)
        return CERA_OK;
    for (size_t id = 0; id < g->n_vocab; id++) {
        if (has_any(cr_vocab_piece(g->env->vocab, (int32_t)id), texts ? texts : usual, n))
            cr_sampler_break(g->sampler, (int32_t)id);
    }
    return CERA_OK;
}

/* Begins the grammar's text, or goes on with the one that the last generation left open. */
static cera_status prepare_grammar(generation *g)
{
    cera_grammar *grammar = g->options->grammar;
    if (!grammar)
        return CERA_OK;
    if (!grammar->table || grammar->table->vocab != g->env->vocab)
        return cr_fail(g->err, CERA_E_ARG,
                       "grammar: expected one that was made for this model's vocabulary, found %s",
                       grammar->table ? "another" : "one without a vocabulary");
    CR_TRY(cr_grammar_take(grammar, &g->matcher, g->err));
    g->grammar = grammar;
    size_t n;
    const int32_t *history = cr_session_history(g->session, &n);
    cr_session_open open = cr_session_get_open(g->session);
    g->grammar_start = open.grammar == grammar && open.end == n ? open.start : n;
    for (size_t i = g->grammar_start; i < n; i++)
        CR_TRY(cr_matcher_read_token(g->matcher, i > 0 ? history[i - 1] : -1, history[i], g->err));
    return CERA_OK;
}

/* Makes everything that generating needs, so that a token allocates nothing. */
static cera_status prepare(generation *g)
{
    cr_host *host = g->env->host;
    CR_TRY(check_options(g));
    size_t n_context = cr_session_room(g->session);
    size_t n_history;
    cr_session_history(g->session, &n_history);
    CR_TRY(
        cr_sampler_new(host, g->n_vocab, n_history + n_context, g->options, &g->sampler, g->err));
    CR_TRY(mark_breakers(g));
    if (g->options->ignore_eos && g->env->vocab) {
        for (size_t i = 0; i < g->n_vocab; i++) {
            if (cr_vocab_is_end(g->env->vocab, (int32_t)i))
                cr_sampler_ban(g->sampler, (int32_t)i);
        }
    }
    CR_TRY(prepare_grammar(g));
    CR_TRY(cr_stop_init(&g->stop, host, g->options->stop, g->options->n_stop, g->err));
    g->detok = *cr_session_detok(g->session);
    if (!cr_buf_reserve(&g->text, TEXT_ROOM))
        return cr_fail_nomem(g->err, TEXT_ROOM, "generated text");

    size_t most = cr_session_room(g->session);
    if (g->options->max_tokens >= 0)
        most = CR_MIN(most, (size_t)g->options->max_tokens);
    if (g->options->n_draft > 0)
        CR_TRY(cr_drafter_new(g->session, g->draft, g->options->n_draft, &g->drafter, g->err));
    return cr_session_reserve(g->session, most, g->options->n_draft, g->err);
}

static bool is_end(const generation *g, int32_t id)
{
    for (size_t i = 0; i < g->options->n_stop_ids; i++) {
        if (g->options->stop_ids[i] == id)
            return true;
    }
    return g->env->vocab && cr_vocab_is_end(g->env->vocab, id);
}

static bool show_text(const generation *g, size_t n)
{
    if (n == 0 || !g->sink->on_text)
        return true;
    return g->sink->on_text(g->sink->user, g->stop.held.data, n) == 0;
}

static bool show_token(const generation *g, int32_t id)
{
    if (!g->sink->on_token)
        return true;
    cera_logprob top[MAX_LOGPROBS];
    cera_token_info info = { .id = id, .logprob = NAN, .top = top };
    if (g->options->n_logprobs > 0) {
        info.n_top = CR_MIN(g->options->n_logprobs, (int)g->n_vocab);
        info.logprob = cr_logprobs(cr_session_logits(g->session), g->n_vocab, id, top, info.n_top);
    }
    return g->sink->on_token(g->sink->user, &info) == 0;
}

/* The token's text, as far as it is whole and begins no stop text. */
static cera_status show_piece(generation *g, int32_t id, bool *wanted)
{
    size_t n_ready = 0, n_history = 0;
    const int32_t *history = cr_session_history(g->session, &n_history);
    int32_t previous = n_history > 0 ? history[n_history - 1] : -1;
    cr_str piece = cr_vocab_piece_after(g->env->vocab, previous, id);
    g->text.size = 0;
    if (!cr_detok_push(&g->detok, piece, &g->text) ||
        !cr_stop_push(&g->stop, g->text.data, g->text.size, &n_ready, &g->hit_stop_text))
        return cr_fail_nomem(g->err, g->text.size, "generated text");
    *wanted = show_text(g, n_ready) && *wanted;
    cr_stop_take(&g->stop, n_ready);
    return CERA_OK;
}

/* Hands a token on, while it is computed or waits for that. */
static void show(void *ctx)
{
    generation *g = ctx;
    const cera_os *os = &g->env->host->os;
    uint64_t start = os->clock_ns(os->ctx);
    g->shown.wanted = show_token(g, g->shown.id);
    if (g->env->vocab)
        g->shown.status = show_piece(g, g->shown.id, &g->shown.wanted);
    uint64_t end = os->clock_ns(os->ctx);
    g->shown.took_ns = end - start;
    if (g->summary->n_generated++ == 0)
        g->summary->first_token_ms = (double)(end - g->start_ns) / 1e6;
}

/* Without adapters logits of which none is finite are the model's fault. */
static cera_status next_token(generation *g, const uint64_t *allowed, int32_t *id)
{
    const float *logits = cr_session_logits(g->session);
    size_t n;
    const int32_t *history = cr_session_history(g->session, &n);
    cera_status status = cr_sampler_next(g->sampler, logits, allowed, history, n, id, g->err);
    if (status == CERA_E_FORMAT && cr_session_n_adapters(g->session) > 0)
        return cr_fail(
            g->err, CERA_E_ARG,
            "logits: expected a finite value, found none: the scale of an adapter may be "
            "too large");
    return status;
}

/* The next token, under the grammar if there is one. */
static cera_status choose(generation *g, int32_t *id)
{
    if (!g->matcher)
        return next_token(g, NULL, id);
    size_t n;
    const int32_t *history = cr_session_history(g->session, &n);
    int32_t previous = n > 0 ? history[n - 1] : -1;
    const uint64_t *allowed;
    CR_TRY(cr_matcher_mask(g->matcher, previous, &allowed, g->err));
    CR_TRY(next_token(g, allowed, id));
    /* An end token is read only where the grammar itself names it; elsewhere it ends the text. */
    cera_status status = cr_matcher_read_token(g->matcher, previous, *id, g->err);
    return is_end(g, *id) ? CERA_OK : status;
}

/* Computes the token, and with it guesses at those to come; shows it meanwhile. */
static cera_status advance(generation *g, int32_t id)
{
    cera_summary *summary = g->summary;
    const cr_meanwhile shows = { show, g };
    g->shown.id = id;
    if (!g->drafter)
        return cr_session_advance(g->session, id, NULL, 0, shows, g->err);
    if (cr_session_foresees(g->session, id)) {
        summary->n_accepted++;
        cr_drafter_hit(g->drafter);
        return cr_session_advance(g->session, id, NULL, 0, shows, g->err);
    }
    int most = cr_session_draft_room(g->session);
    if (g->options->max_tokens >= 0) /* no guess behind the last token */
        most = (int)CR_MIN((size_t)most, (size_t)g->options->max_tokens - summary->n_generated - 1);
    int32_t guesses[CR_MAX_DRAFT];
    int n = cr_drafter_guess(g->drafter, id, most, guesses);
    const cera_os *os = &g->env->host->os;
    uint64_t start = os->clock_ns(os->ctx);
    CR_TRY(cr_session_advance(g->session, id, guesses, n, shows, g->err));
    cr_drafter_paid(g->drafter, n, os->clock_ns(os->ctx) - start - g->shown.took_ns);
    summary->n_drafted += (size_t)n;
    return CERA_OK;
}

/* The context is full: drops tokens, and reserves for those that are still to come. */
static cera_status make_room(generation *g, size_t n_keep, size_t n_left)
{
    size_t n_drop = cr_session_surplus(g->session, n_keep), n;
    cr_sampler_drop(g->sampler, cr_session_history(g->session, &n), n_keep, n_drop);
    CR_TRY(cr_session_make_room(g->session, n_keep, g->err));
    if (g->grammar_start >= n_keep + n_drop)
        g->grammar_start -= n_drop;
    else
        g->lost_start = true;
    return cr_session_reserve(g->session, CR_MIN(n_left, cr_session_room(g->session)), 0, g->err);
}

static cera_status loop(generation *g)
{
    const cera_os *os = &g->env->host->os;
    cera_summary *summary = g->summary;
    g->start_ns = os->clock_ns(os->ctx);
    int max_tokens = g->options->max_tokens;
    size_t n_keep = (size_t)CR_MAX(g->options->n_keep, 0);
    for (;;) {
        if (cr_session_take_cancel(g->session)) {
            summary->finish = CERA_FINISH_CANCELLED;
            return CERA_OK;
        }
        if (g->matcher && cr_matcher_is_at_end(g->matcher)) {
            summary->finish = CERA_FINISH_STOP;
            return CERA_OK;
        }
        if (max_tokens >= 0 && summary->n_generated >= (size_t)max_tokens) {
            summary->finish = CERA_FINISH_LENGTH;
            return CERA_OK;
        }
        bool is_full = cr_session_room(g->session) == 0;
        if (is_full && g->options->shift && cr_session_surplus(g->session, n_keep) > 0) {
            size_t n_left = max_tokens < 0 ? SIZE_MAX : (size_t)max_tokens - summary->n_generated;
            cera_status status = make_room(g, n_keep, n_left);
            if (status == CERA_E_CANCELLED) {
                summary->finish = CERA_FINISH_CANCELLED;
                return CERA_OK;
            }
            CR_TRY(status);
        } else if (is_full) {
            summary->finish = CERA_FINISH_CONTEXT;
            return CERA_OK;
        }
        int32_t id;
        CR_TRY(choose(g, &id));
        if (is_end(g, id)) {
            summary->finish = CERA_FINISH_STOP;
            return CERA_OK;
        }
        CR_TRY(advance(g, id));
        CR_TRY(g->shown.status);
        *cr_session_detok(g->session) = g->detok;
        if (g->hit_stop_text || !g->shown.wanted) {
            summary->finish = g->hit_stop_text ? CERA_FINISH_STOP : CERA_FINISH_SINK;
            return CERA_OK;
        }
    }
}

/* Notes what became of the grammar's text, and gives the matcher back. After an error the text is
 * not gone on with: the last token may not be in the history. */
static void finish_grammar(generation *g, cera_status status, cera_summary *sum)
{
    cr_session_open open = { .grammar = NULL };
    if (g->grammar && status == CERA_OK) {
        sum->is_unfinished = !cr_matcher_is_complete(g->matcher);
        open = (cr_session_open){ .grammar = g->grammar, .start = g->grammar_start };
        cr_session_history(g->session, &open.end);
        if (sum->finish == CERA_FINISH_STOP || g->lost_start)
            open.grammar = NULL;
    }
    cr_session_set_open(g->session, open);
    if (g->grammar)
        cr_grammar_give(g->grammar, g->matcher);
}

cera_status cr_session_generate(cr_session *session, const cera_generate_options *options,
                                const cr_session_env *draft, const cera_sink *sink,
                                cera_summary *summary, cera_error *err)
{
    const cr_session_env *env = cr_session_get_env(session);
    generation g = {
        .session = session,
        .env = env,
        .options = options,
        .draft = draft,
        .sink = sink ? sink : &(cera_sink){ 0 },
        .err = err,
        .n_vocab = env->model->graph.n_vocab,
    };
    cr_buf_init(&g.text, env->host, CR_MEM_SCRATCH);
    cr_buf_init(&g.stop.held, env->host, CR_MEM_SCRATCH); /* for an end before prepare gets there */

    const cera_os *os = &env->host->os;
    uint64_t start = os->clock_ns(os->ctx);
    cera_summary sum = { 0 };
    g.summary = &sum;
    cera_status status = prepare(&g);
    if (status == CERA_OK) {
        status = loop(&g);
        cera_status settled = cr_session_settle(session, status == CERA_OK ? err : NULL);
        status = status == CERA_OK ? settled : status;
    }
    /* Text that was held back and turned out to be no stop text; a stop text stays unseen. */
    if (status == CERA_OK && !g.hit_stop_text && sum.finish != CERA_FINISH_SINK)
        show_text(&g, cr_stop_flush(&g.stop));

    finish_grammar(&g, status, &sum);
    if (status == CERA_OK) {
        cr_session_take_prompt(session, &sum);
        sum.generate_ms = (double)(os->clock_ns(os->ctx) - start) / 1e6;
        if (summary)
            *summary = sum;
    }
    cr_stop_done(&g.stop);
    cr_buf_done(&g.text);
    cr_drafter_free(g.drafter);
    cr_sampler_free(g.sampler);
    return status;
}

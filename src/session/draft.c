/* Guessing, and what it may cost. */
#include "session/draft.h"

#include "sample/sampler.h"

#include <string.h>

enum {
    FIRST_LENGTH = 4, /* of guesses, before anything is known */
    LEAST_MATCH = 2,  /* tokens that must have been there before */
    MOST_MATCH = 8,   /* more of them make no guess better */
    MOST_SAVED = 8,   /* the account holds at most so many runs */
};

/* Of the time of a run that may be lost to guesses, and what a generation begins with, in runs. */
static const double share = 0.015, first_credit = 0.5;

struct cr_drafter {
    cr_host *host;
    cr_session *session;
    cr_session *other; /* the other model's; NULL: lookup */
    int32_t *ids;      /* [n_context] the history and the token behind it */
    size_t n, n_context;
    int n_max, n_want; /* tokens to guess */
    int n_last, n_hit; /* of the last guess: tokens, and how many came true */
    double run_ns;     /* of a run without guesses; 0: none yet */
    double row_ns;     /* that a guess adds to it */
    double account_ns;
    uint64_t guess_ns; /* that the last guess took */
};

/* ---- life -------------------------------------------------------------------------------- */

static cera_status check_vocab(const cr_session_env *env, const cr_session_env *with,
                               cera_error *err)
{
    size_t n = env->model->graph.n_vocab, n_with = with->model->graph.n_vocab;
    if (n != n_with)
        return cr_fail(err, CERA_E_ARG,
                       "draft: expected a model with the same %zu tokens, found one with %zu", n,
                       n_with);
    if (env->vocab == with->vocab || !env->vocab || !with->vocab)
        return CERA_OK;
    for (size_t i = 0; i < n; i++) {
        cr_str a = cr_vocab_piece(env->vocab, (int32_t)i);
        cr_str b = cr_vocab_piece(with->vocab, (int32_t)i);
        if (a.size != b.size || memcmp(a.data, b.data, a.size) != 0)
            return cr_fail(err, CERA_E_ARG,
                           "draft: expected a model with the same vocabulary, found another token "
                           "%zu: \"%.*s\" instead of \"%.*s\"",
                           i, (int)CR_MIN(b.size, 32), b.data, (int)CR_MIN(a.size, 32), a.data);
    }
    return CERA_OK;
}

void cr_drafter_free(cr_drafter *d)
{
    if (!d)
        return;
    cr_session_free(d->other);
    cr_free(d->host, CR_MEM_SCRATCH, d->ids, d->n_context * sizeof *d->ids);
    cr_free(d->host, CR_MEM_OBJECT, d, sizeof *d);
}

cera_status cr_drafter_new(cr_session *session, const cr_session_env *with, int n_max,
                           cr_drafter **out, cera_error *err)
{
    const cr_session_env *env = cr_session_get_env(session);
    if (with)
        CR_TRY(check_vocab(env, with, err));
    cr_drafter *d = cr_alloc_zero(env->host, CR_MEM_OBJECT, sizeof *d);
    if (!d)
        return cr_fail_nomem(err, sizeof *d, "drafts");
    size_t n;
    cr_session_history(session, &n);
    d->host = env->host;
    d->session = session;
    d->n_context = n + cr_session_room(session);
    d->n_max = n_max;
    d->n_want = CR_MIN(n_max, FIRST_LENGTH);
    d->ids = cr_alloc(env->host, CR_MEM_SCRATCH, d->n_context * sizeof *d->ids);
    cera_status status =
        d->ids ? CERA_OK : cr_fail_nomem(err, d->n_context * sizeof *d->ids, "drafts");
    if (status == CERA_OK && with)
        status = cr_session_new(with, 0, &d->other, err);
    if (status != CERA_OK) {
        cr_drafter_free(d);
        return status;
    }
    *out = d;
    return CERA_OK;
}

/* ---- guessing ---------------------------------------------------------------------------- */

/* What followed the longest recent match of the last tokens. A guess that comes to the end of the
 * history goes on in itself: a text that goes round. */
static int look_up(const cr_drafter *d, int n_most, int32_t *out)
{
    const int32_t *ids = d->ids;
    size_t n = d->n, best = 0, at = 0; /* length of the match, and where its continuation begins */
    for (size_t i = n - 1; i > 0 && best < MOST_MATCH; i--) {
        if (ids[i - 1] != ids[n - 1])
            continue;
        size_t length = 1, most = CR_MIN(i, (size_t)MOST_MATCH);
        while (length < most && ids[i - 1 - length] == ids[n - 1 - length])
            length++;
        if (length > best) {
            best = length;
            at = i;
        }
    }
    if (best < LEAST_MATCH)
        return 0;
    for (int i = 0; i < n_most; i++) {
        size_t from = at + (size_t)i;
        out[i] = from < n ? ids[from] : out[from - n];
    }
    return n_most;
}

/* The other model's best tokens. Whatever goes wrong there only ends the guess. */
static int ask(const cr_drafter *d, int n_most, int32_t *out)
{
    cr_session *other = d->other;
    cr_session_step_aside(d->session);
    if (cr_session_sync(other, d->ids, d->n, NULL) != CERA_OK)
        return 0;
    size_t room = cr_session_room(other);
    int n = 0, most = (int)CR_MIN((size_t)n_most, room + 1);
    if (cr_session_reserve(other, (size_t)most - 1, 0, NULL) != CERA_OK)
        return 0;
    while (n < most) {
        int32_t id =
            cr_argmax(cr_session_logits(other), cr_session_get_env(other)->model->graph.n_vocab);
        if (id < 0)
            break;
        out[n++] = id;
        if (n < most &&
            cr_session_advance(other, id, NULL, 0, (cr_meanwhile){ .run = NULL }, NULL) != CERA_OK)
            break;
    }
    return cr_session_settle(other, NULL) == CERA_OK ? n : 0;
}

/* So many are all right if the last guess was any guide, and the account bears them. */
static int affordable(const cr_drafter *d, int n_most)
{
    int n = CR_MIN(n_most, d->n_want);
    if (d->run_ns == 0 || d->account_ns <= 0)
        return 0;
    double row_ns = d->row_ns > 0 ? d->row_ns : d->run_ns / FIRST_LENGTH;
    return row_ns * n <= d->account_ns ? n : (int)(d->account_ns / row_ns);
}

static void learn_length(cr_drafter *d)
{
    if (d->n_last == 0)
        return;
    d->n_want = d->n_hit == d->n_last ? CR_MIN(d->n_max, CR_MAX(d->n_want, 2 * d->n_last))
                                      : CR_MIN(d->n_max, d->n_hit + 1);
    d->n_last = d->n_hit = 0;
}

int cr_drafter_guess(cr_drafter *d, int32_t id, int n_most, int32_t *out)
{
    learn_length(d);
    size_t n;
    const int32_t *history = cr_session_history(d->session, &n);
    if (n >= d->n_context)
        return 0;
    size_t known = d->n > 0 ? d->n - 1 : 0;
    memcpy(d->ids + known, history + known, (n - known) * sizeof *history);
    d->ids[n] = id;
    d->n = n + 1;
    n_most = affordable(d, n_most);
    if (n_most <= 0)
        return 0;
    const cera_os *os = &d->host->os;
    uint64_t start = os->clock_ns(os->ctx);
    d->n_last = d->other ? ask(d, n_most, out) : look_up(d, n_most, out);
    d->guess_ns = os->clock_ns(os->ctx) - start;
    return d->n_last;
}

/* ---- the account ------------------------------------------------------------------------- */

static void put(cr_drafter *d, double ns)
{
    d->account_ns = CR_MIN(d->account_ns + ns, MOST_SAVED * d->run_ns);
}

void cr_drafter_hit(cr_drafter *d)
{
    d->n_hit++;
    put(d, d->run_ns);
}

void cr_drafter_paid(cr_drafter *d, int n, uint64_t ns)
{
    double took = (double)ns;
    if (n == 0) {
        if (d->run_ns == 0) {
            d->run_ns = took;
            d->account_ns = first_credit * took;
        }
        /* A run that was interrupted says nothing. */
        d->run_ns += (CR_MIN(took, 2 * d->run_ns) - d->run_ns) / 8;
        put(d, share * d->run_ns);
        return;
    }
    /* A row beside others never costs more than a run of its own. */
    double cost = CR_MAX(CR_MIN(took - d->run_ns, n * d->run_ns), 0) + (double)d->guess_ns;
    d->row_ns += (cost / n - d->row_ns) / (d->row_ns > 0 ? 4 : 1);
    put(d, share * d->run_ns - cost);
}

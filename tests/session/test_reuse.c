/* Reuse never changes an answer.
 *
 * Random sequences of calls over several sessions of one engine, whose budget may be tiny, some
 * with a folder: append, sync, rewind, fork, shift, generate (with guesses, past the end of the
 * context), save, load, reset, free, a cancel or a failure in the middle, calls of several sessions
 * at the same time, a crash of the engine and its disk. After each call the session is compared, to
 * the bit, with one of an engine that reuses nothing and computes the whole history from its first
 * token. The sequences take their tokens from a few texts, so that beginnings meet.
 *
 * A session that was shifted has keys and values that have seen tokens which are gone. It is
 * compared, within MOST_OFF, with one whose cells were dropped and turned by hand (cells.h);
 * whatever others get of its text must not come from there, which the comparison to the bit would
 * tell.
 *
 * The number of a failing sequence is printed; CERA_SEED=number runs it alone. CERA_NIGHTLY runs
 * 10,000. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/cells.h"
#include "support/fault_host.h"
#include "support/state_model.h"

#include "api/objects.h"
#include "session/save.h"
#include "session/shift.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    N_SEQUENCES = 300,
    N_NIGHTLY = 10000,
    N_STEPS = 14,
    N_SESSIONS = 4,
    N_CONTEXT = 300,
    N_TEXTS = 3,
    N_MODELS = 6,
};
static const double MOST_OFF = 1e-3; /* of logits, after a shift */

/* ---- models ------------------------------------------------------------------------------ */

static const char *const model_names[N_MODELS] = { "llama", "lfm2",   "gemma3",
                                                   "phi3",  "mamba2", "granitehybrid" };
static gguf_build models[N_MODELS];

/* gemma3: every other layer sees 70 positions; phi3: all layers see 100. mamba2 has states and no
 * keys, granitehybrid a layer of each. */
static void build_model(int i)
{
    toy_spec spec;
    toy_spec_init(&spec, model_names[i], CR_TYPE_F32);
    spec.n_context = N_CONTEXT;
    spec.n_embd = 64;
    spec.n_ff = 64;
    spec.n_head = 2;
    spec.head_dim = spec.rope_dims = 32;
    spec.n_layer = i == 1 ? 4 : 2;
    bool is_windowed = i == 2 || i == 3, has_states = spec.ssm_inner > 0;
    spec.window = i == 2 ? 70 : i == 3 ? 100 : 0;
    spec.period = i == 2 ? 2 : 0;
    spec.tied = i == 2;
    for (int layer = 0; layer < spec.n_layer; layer++)
        spec.n_head_kv[layer] = (i == 1 || has_states) && layer % 2 == 0 ? 0 : is_windowed ? 2 : 1;
    if (has_states) {
        spec.ssm_inner = 64;
        spec.ssm_heads = 4;
        spec.ssm_state = 8;
    }
    if (i == 4)
        spec.n_ff = spec.n_head = spec.head_dim = spec.rope_dims = spec.n_head_kv[1] = 0;
    toy_build(&spec, &models[i]);
}

static char path[64]; /* of sessions that are saved */

static int build_models(void **state)
{
    (void)state;
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* syncs cost time */
    snprintf(path, sizeof path, "%s/cera-reuse-%d", parent, (int)getpid());
    for (int i = 0; i < N_MODELS; i++)
        build_model(i);
    return 0;
}

static int drop_models(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++)
        build_done(&models[i]);
    remove(path);
    strcat(path, "-disk");
    state_remove_folder(path);
    return 0;
}

/* ---- a sequence -------------------------------------------------------------------------- */

/* A session under test, and the history that it ought to have. Of one that was shifted, the first
 * cells.n positions are where they are for that reason; cells.n is 0 in all others. */
typedef struct subject {
    cr_session *session;
    int32_t history[N_CONTEXT];
    int n;
    cells cells;
    int n_pure; /* positions that nothing was dropped in front of */
    uint64_t n_shifts;
} subject;

/* What sequences came to. */
typedef struct totals {
    uint64_t n_reused, n_computed, n_evictions, n_read;
    uint64_t n_shifts, n_guessed, n_right, n_together, n_crashes;
    double most_off;
} totals;

typedef struct sequence {
    uint64_t random;
    char log[4096]; /* what was done, for whoever looks for a fault */
    size_t n_log;
    int model;
    cera_engine_options options;
    char disk[80];
    bool run_ends;
    fault_host host; /* of sequences with a folder */
    totals sum;
    cera_engine *engine, *plain;
    cr_session_env env; /* of the engine, with runs that can be made to fail */
    int fail_at;        /* the run that fails, counted down; 0: none */
    cera_status failure;
    int32_t texts[N_TEXTS][N_CONTEXT];
    subject subjects[N_SESSIONS];
} sequence;

/* The sequence to tell about when a check fails. */
static const sequence *running;
static uint64_t running_seed;

static int tell_if_running(void **state)
{
    (void)state;
    if (running)
        print_error("CERA_SEED=%llu: %s\n", (unsigned long long)running_seed, running->log);
    return 0;
}

static uint32_t next_random(sequence *q)
{
    q->random = q->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(q->random >> 33);
}

static int below(sequence *q, int n)
{
    return (int)(next_random(q) % (uint32_t)n);
}

#define LOG(q, ...)                                                                                \
    do {                                                                                           \
        int n_ = snprintf((q)->log + (q)->n_log, sizeof(q)->log - (q)->n_log, __VA_ARGS__);        \
        (q)->n_log = CR_MIN((q)->n_log + (size_t)n_, sizeof(q)->log - 1);                          \
    } while (0)

static cera_status run(void *ctx, cr_seat *seat, const cr_batch_seq *seq, cera_error *err)
{
    sequence *q = ctx;
    cr_session_env real = cr_engine_env(q->engine->core);
    if (q->fail_at > 0 && --q->fail_at == 0)
        return cr_fail(err, q->failure, "made to fail");
    return real.run(real.ctx, seat, seq, err);
}

static cera_status identify(void *ctx, cr_state_id *out, cera_error *err)
{
    const sequence *q = ctx;
    cr_session_env real = cr_engine_env(q->engine->core);
    return real.identify(real.ctx, out, err);
}

static bool has_disk(uint64_t seed)
{
#ifdef CERA_WITH_DISK_CACHE
    return seed / N_MODELS % 3 == 0;
#else
    (void)seed;
    return false;
#endif
}

/* Opens the engine under test, with what its folder has. */
static void open_engine(sequence *q)
{
    q->engine = state_model_open(&models[q->model], &q->options);
    if (q->run_ends && q->engine->core->model->graph.n_states > 0)
        q->engine->core->model->graph.states_at_pages = false;
    q->env = cr_engine_env(q->engine->core);
    q->env.run = run;
    q->env.identify = identify;
    q->env.ctx = q;
}

static void choose_options(sequence *q, bool disk)
{
    static const int budgets_kb[] = { 0, 1, 200, 600, 2000 };
    static const int chunks[] = { 0, 16, 64, 100 }, batches[] = { 0, 0, 1, 2 };
    cera_engine_options *options = &q->options;
    cera_engine_options_init(options);
    options->n_threads = 1;
    options->kv_type = (cera_kv_type)below(q, 3);
    options->chunk_size = chunks[below(q, 4)];
    options->max_batch = batches[below(q, 4)];
    options->cache_bytes = (uint64_t)budgets_kb[below(q, 5)] << 10;
    options->no_reuse = below(q, 5) == 0; /* forks and rewinds share pages all the same */
    options->cache_disk_bytes = 3 << 20;
    snprintf(q->disk, sizeof q->disk, "%s-disk", path);
    options->cache_dir = disk ? q->disk : NULL;
    options->host = disk ? &q->host.host : NULL;
    /* Some lfm2 models are taken for ones that give states at the ends of runs only. */
    q->run_ends = below(q, 2) == 0;
    LOG(q, "%s kv %d chunk %d batch %d budget %u KiB%s%s%s:", model_names[q->model],
        (int)options->kv_type, options->chunk_size, options->max_batch,
        (unsigned)(options->cache_bytes >> 10), q->run_ends ? ", run ends" : "",
        options->no_reuse ? ", no reuse" : "", disk ? ", disk" : "");
}

static void begin(sequence *q, uint64_t seed)
{
    memset(q, 0, sizeof *q);
    q->random = seed * 0x9e3779b97f4a7c15u + 1;
    next_random(q);
    q->model = (int)(seed % N_MODELS);
    fault_init(&q->host);
    choose_options(q, has_disk(seed));
    open_engine(q);
    cera_engine_options plain;
    cera_engine_options_init(&plain);
    plain.n_threads = 1;
    plain.kv_type = q->options.kv_type;
    plain.no_reuse = true;
    q->plain = state_model_open(&models[q->model], &plain);
    for (int i = 0; i < N_SESSIONS; i++)
        cells_init(&q->subjects[i].cells, &q->plain->core->model->graph, N_CONTEXT);
    for (int t = 0; t < N_TEXTS; t++) {
        int shared = t == 0 ? 0 : below(q, N_CONTEXT);
        memcpy(q->texts[t], q->texts[0], (size_t)shared * sizeof(int32_t));
        for (int i = shared; i < N_CONTEXT; i++)
            q->texts[t][i] = below(q, TOY_N_VOCAB);
    }
}

static void check_stats(sequence *q)
{
    cera_engine_stats stats;
    cera_engine_get_stats(q->engine, &stats);
    const cr_pages *pages = q->engine->core->pages;
    uint64_t kept = stats.page_bytes_cached + stats.state_bytes_cached + stats.free_bytes;
    uint64_t used = stats.page_bytes_used + stats.state_bytes_used;
    /* A block that is being written to the disk is held although the tree may have given it up. */
    uint64_t writing = 0, state = 0;
    for (int kind = 0; q->env.store && kind < pages->n_kinds; kind++)
        writing += pages->bytes[kind];
    if (q->env.store && pages->zero_state)
        state = pages->bytes[cr_pages_state_kind(pages)];
    if (!q->env.store)
        assert_int_equal(kept + used, pages->n_bytes);
    if (kept > writing)
        assert_true(kept + used <= stats.budget_bytes + writing);
    if (pages->zero_state)
        assert_true(stats.state_bytes_cached <= stats.budget_bytes / 4 + state);
}

/* A session of the engine that reuses nothing, with this history. The first cells.n positions have
 * these cells instead of what computing them gives. */
static cr_session *compute(sequence *q, const int32_t *ids, int n, const cells *moved)
{
    cr_session_env env = cr_engine_env(q->plain->core);
    cr_session *plain;
    assert_int_equal(cr_session_new(&env, 0, &plain, NULL), CERA_OK);
    if (moved->n > 0) {
        assert_int_equal(cr_session_append_ids(plain, ids, (size_t)moved->n, NULL), CERA_OK);
        cells_write(moved, plain);
    }
    if (n > moved->n)
        assert_int_equal(cr_session_append_ids(plain, ids + moved->n, (size_t)(n - moved->n), NULL),
                         CERA_OK);
    return plain;
}

static void assert_logits(const float *logits, const float *expected, int n)
{
    if (memcmp(logits, expected, TOY_N_VOCAB * sizeof(float)) != 0)
        fail_msg("logits differ at position %d", n);
}

/* Whoever else comes to the text of a shifted session has nothing of what is in its pages. */
static void check_private(sequence *q, const subject *s)
{
    cr_session *other, *plain = compute(q, s->history, s->n, &(cells){ .n = 0 });
    assert_int_equal(cr_session_new(&q->env, 0, &other, NULL), CERA_OK);
    assert_int_equal(cr_session_append_ids(other, s->history, (size_t)s->n, NULL), CERA_OK);
    assert_logits(cr_session_logits(other), cr_session_logits(plain), s->n);
    cr_session_free(other);
    cr_session_free(plain);
}

/* A shift leaves the logits, so those of the token behind it are compared. */
static void check_shifted(sequence *q, const subject *s)
{
    cr_session *child = NULL;
    int32_t ids[N_CONTEXT];
    int n = s->n;
    memcpy(ids, s->history, sizeof ids);
    const float *logits = cr_session_logits(s->session);
    if (n == s->cells.n) {
        ids[n] = q->texts[0][n];
        n++;
        assert_int_equal(cr_session_fork(s->session, &child, NULL), CERA_OK);
        assert_int_equal(cr_session_append_ids(child, ids + n - 1, 1, NULL), CERA_OK);
        logits = cr_session_logits(child);
    }
    cr_session *plain = compute(q, ids, n, &s->cells);
    double off = cells_distance(logits, cr_session_logits(plain), TOY_N_VOCAB);
    if (off > MOST_OFF)
        fail_msg("logits differ by %.1e after a shift, at position %d", off, n);
    q->sum.most_off = off > q->sum.most_off ? off : q->sum.most_off;
    cr_session_free(plain);
    cr_session_free(child);
}

/* The session has its history, and the logits that a plain computation of it gives. */
static void check(sequence *q, const subject *s)
{
    size_t n;
    const int32_t *history = cr_session_history(s->session, &n);
    assert_int_equal(n, s->n);
    assert_memory_equal(history, s->history, n * sizeof *history);
    const float *logits = cr_session_logits(s->session);
    if (n == 0) {
        assert_null(logits);
        return;
    }
    assert_non_null(logits);
    if (s->cells.n > 0) {
        check_shifted(q, s);
        if (below(q, 2))
            check_private(q, s);
        return;
    }
    cr_session *plain = compute(q, s->history, s->n, &s->cells);
    assert_logits(logits, cr_session_logits(plain), s->n);
    cr_session_free(plain);
}

/* ---- steps ------------------------------------------------------------------------------- */

static subject *any(sequence *q, bool is_taken)
{
    int first = below(q, N_SESSIONS);
    for (int i = 0; i < N_SESSIONS; i++) {
        subject *s = &q->subjects[(first + i) % N_SESSIONS];
        if ((s->session != NULL) == is_taken)
            return s;
    }
    return NULL;
}

static int number_of(const sequence *q, const subject *s)
{
    return (int)(s - q->subjects);
}

/* Appends what one of the texts has at the session's place, or something new. */
static cera_status do_append(sequence *q, subject *s, int32_t *ids, int *n)
{
    int room = N_CONTEXT - s->n;
    if (room == 0)
        return CERA_E_CONTEXT;
    int most = below(q, 2) ? 20 : 200;
    *n = 1 + below(q, CR_MIN(room, most));
    int text = below(q, N_TEXTS + 1);
    memcpy(ids, s->history, (size_t)s->n * sizeof *ids);
    for (int i = s->n; i < s->n + *n; i++)
        ids[i] = text < N_TEXTS ? q->texts[text][i] : below(q, TOY_N_VOCAB);
    LOG(q, " append %d of %d", *n, text);
    cera_status status = cr_session_append_ids(s->session, ids + s->n, (size_t)*n, NULL);
    *n += s->n;
    return status;
}

/* To a text, or another session's history, sometimes with a token changed. */
static cera_status do_sync(sequence *q, subject *s, int32_t *ids, int *n)
{
    subject *other = any(q, true);
    int text = below(q, N_TEXTS + 1);
    const int32_t *from = text < N_TEXTS ? q->texts[text] : other->history;
    *n = below(q, (text < N_TEXTS ? N_CONTEXT : other->n) + 1);
    memcpy(ids, from, (size_t)*n * sizeof *ids);
    if (*n > 0 && below(q, 4) == 0)
        ids[below(q, *n)] = below(q, TOY_N_VOCAB);
    LOG(q, " sync %d of %d", *n, text);
    return cr_session_sync(s->session, ids, (size_t)*n, NULL);
}

static cera_status do_rewind(sequence *q, subject *s, int32_t *ids, int *n)
{
    *n = below(q, s->n + 1);
    memcpy(ids, s->history, (size_t)*n * sizeof *ids);
    LOG(q, " rewind to %d", *n);
    return cr_session_rewind(s->session, (size_t)*n, NULL);
}

/* To where another session is, by way of a file. */
static cera_status do_load(sequence *q, subject *s, int32_t *ids, int *n)
{
    const subject *other = any(q, true);
    LOG(q, " load %d", number_of(q, other));
    cera_status status = cr_session_save(other->session, path, NULL);
    if (status == CERA_OK)
        status = cr_session_load(s->session, path, NULL);
    if (other->cells.n > 0)
        assert_int_not_equal(status, CERA_OK);
    if (status == CERA_OK)
        s->cells.n = 0;
    memcpy(ids, other->history, (size_t)other->n * sizeof *ids);
    *n = other->n;
    return status;
}

/* The history of a shifted session becomes other ids, not by a shift: what stays of its cells. */
static void follow(subject *s, const int32_t *ids, int n)
{
    int n_same = 0;
    while (n_same < CR_MIN(s->n, n) && s->history[n_same] == ids[n_same])
        n_same++;
    if (n_same == n && n == s->n)
        return;
    int start = n_same == s->n ? n_same : CR_MIN(n_same, n - 1);
    s->cells.n = start > s->n_pure ? CR_MIN(s->cells.n, start) : 0;
}

/* llama sees everything and has no state; the others compute a shorter text again. */
static bool can_shift(const sequence *q)
{
    return q->model == 0;
}

/* The same for a shift, which is about to happen or has just happened to the session. */
static void follow_shift(sequence *q, subject *s, int n_keep, int n_drop)
{
    if (can_shift(q)) {
        cr_session *plain = compute(q, s->history, s->n, &s->cells);
        s->n_pure = s->cells.n > 0 ? CR_MIN(s->n_pure, n_keep) : n_keep;
        cells_read(&s->cells, plain, s->cells.n, s->n);
        cells_drop(&s->cells, n_keep, n_drop);
        cr_session_free(plain);
        s->n_shifts++;
    }
    memmove(s->history + n_keep, s->history + n_keep + n_drop,
            (size_t)(s->n - n_keep - n_drop) * sizeof *s->history);
    s->n -= n_drop;
}

static cera_status do_shift(sequence *q, subject *s, int32_t *ids, int *n)
{
    int n_keep = below(q, s->n + 1), n_drop = below(q, CR_MAX(s->n - n_keep, 1));
    LOG(q, " shift %d %d", n_keep, n_drop);
    float before[TOY_N_VOCAB];
    const float *logits = cr_session_logits(s->session);
    if (logits)
        memcpy(before, logits, sizeof before);
    cera_status status = cr_session_shift(s->session, (size_t)n_keep, (size_t)n_drop, NULL);
    assert_int_equal(status, can_shift(q) || n_drop == 0 ? CERA_OK : CERA_E_UNSUPPORTED);
    if (status == CERA_OK && n_drop > 0)
        follow_shift(q, s, n_keep, n_drop);
    if (logits)
        assert_memory_equal(cr_session_logits(s->session), before, sizeof before);
    memcpy(ids, s->history, (size_t)s->n * sizeof *ids);
    *n = s->n;
    return status;
}

/* A generation, and whose it is. */
typedef struct generation {
    sequence *q;
    subject *s;
    cera_generate_options options;
    const cr_session_env *draft;
    cr_session_env others; /* of the engine that reuses nothing: what it guesses is right */
    cera_summary summary;
    cera_status status;
} generation;

static void choose_generation(sequence *q, subject *s, generation *g)
{
    *g = (generation){ .q = q, .s = s };
    cera_generate_options_init(&g->options);
    g->options.max_tokens = below(q, 4) == 0 ? -1 : below(q, 80);
    g->options.temperature = below(q, 3) == 0 ? 1.0f : 0;
    g->options.seed = next_random(q);
    g->options.ignore_eos = true;
    g->others = cr_engine_env(q->plain->core);
    if (below(q, 4) == 0) {
        g->options.shift = true;
        g->options.n_keep = below(q, N_CONTEXT);
        g->options.max_tokens = below(q, 2 * N_CONTEXT);
    } else if (below(q, 2)) {
        const cr_session_env *drafts[] = { NULL, NULL, &g->others, &q->env };
        g->options.n_draft = 1 + below(q, 8);
        g->draft = drafts[below(q, 4)];
    }
    LOG(q, " generate %d%s", g->options.max_tokens,
        g->options.shift         ? " shifting"
        : g->draft               ? " with a draft model"
        : g->options.n_draft > 0 ? " with guesses"
                                 : "");
}

/* The history grows by a token, from which the session may have dropped the middle before. */
static int on_token(void *user, const cera_token_info *token)
{
    const generation *g = user;
    subject *s = g->s;
    size_t n;
    const int32_t *history = cr_session_history(s->session, &n);
    if ((int)n < s->n)
        follow_shift(g->q, s, g->options.n_keep, s->n - (int)n);
    assert_memory_equal(history, s->history, n * sizeof *history);
    s->history[s->n++] = token->id;
    return 0;
}

/* Whatever ends it, every token that was shown stays, but for those that could not be computed. */
static void generate(generation *g)
{
    subject *s = g->s;
    cera_sink sink = { .on_token = on_token, .user = g };
    g->status = cr_session_generate(s->session, &g->options, g->draft, &sink, &g->summary, NULL);
    size_t n;
    const int32_t *history = cr_session_history(s->session, &n);
    if (g->status != CERA_OK && (int)n < s->n) {
        /* Room was made for a token that then was neither computed nor shown, or the last are lost. */
        if (memcmp(history, s->history, n * sizeof *history) != 0)
            follow_shift(g->q, s, g->options.n_keep, s->n - (int)n);
        else
            s->n = (int)n;
    }
    assert_int_equal(n, s->n);
}

static void count_guesses(sequence *q, const generation *g)
{
    q->sum.n_guessed += g->summary.n_drafted;
    q->sum.n_right += g->summary.n_accepted;
}

static cera_status do_generate(sequence *q, subject *s, int32_t *ids, int *n)
{
    static generation g;
    choose_generation(q, s, &g);
    generate(&g);
    count_guesses(q, &g);
    /* Tokens that guesses have made lag behind may be lost, and the logits with them. */
    q->fail_at = 0;
    if (g.status != CERA_OK && s->n > 0 && !cr_session_logits(s->session))
        assert_int_equal(cr_session_rewind(s->session, (size_t)s->n, NULL), CERA_OK);
    memcpy(ids, s->history, (size_t)s->n * sizeof *ids);
    *n = s->n;
    return g.status;
}

/* One call that moves a session. If it fails, it has to leave the session where it was. */
static void move(sequence *q, subject *s)
{
    static cera_status (*const calls[])(sequence *, subject *, int32_t *, int *) = {
        do_append,   do_append,   do_sync, do_sync,  do_rewind,
        do_generate, do_generate, do_load, do_shift, do_shift,
    };
    int32_t ids[N_CONTEXT];
    int n = s->n;
    q->fail_at = below(q, 4) == 0 ? 1 + below(q, 6) : 0;
    q->failure = below(q, 2) ? CERA_E_CANCELLED : CERA_E_IO;
    cera_status status = calls[below(q, (int)CR_COUNT(calls))](q, s, ids, &n);
    q->fail_at = 0;
    LOG(q, " %s;", cera_status_name(status));
    if (status == CERA_OK) {
        follow(s, ids, n);
        memcpy(s->history, ids, (size_t)n * sizeof *ids);
        s->n = n;
    }
}

/* ---- several sessions at once ------------------------------------------------------------ */

/* What a session does while others do something, too. */
typedef struct part {
    pthread_t thread;
    bool generates;
    generation generation;
    int32_t ids[N_CONTEXT];
    int n; /* of the history that an append makes */
    cera_status status;
} part;

static void *play(void *arg)
{
    part *p = arg;
    subject *s = p->generation.s;
    if (p->generates)
        generate(&p->generation);
    else
        p->status = cr_session_append_ids(s->session, p->ids + s->n, (size_t)(p->n - s->n), NULL);
    return NULL;
}

static void choose_part(sequence *q, subject *s, part *p)
{
    LOG(q, " %d:", number_of(q, s));
    p->generates = s->n == N_CONTEXT || (s->n > 0 && below(q, 3) > 0);
    choose_generation(q, s, &p->generation);
    p->n = s->n + (p->generates ? 0 : 1 + below(q, N_CONTEXT - s->n));
    memcpy(p->ids, s->history, (size_t)s->n * sizeof *p->ids);
    const int32_t *text = q->texts[below(q, N_TEXTS)];
    memcpy(p->ids + s->n, text + s->n, (size_t)(p->n - s->n) * sizeof *p->ids);
}

/* All sessions append or generate, each on a thread of its own; one of them may be cancelled. */
static void do_together(sequence *q)
{
    static part parts[N_SESSIONS];
    int n = 0;
    LOG(q, " together");
    for (int i = 0; i < N_SESSIONS; i++) {
        if (q->subjects[i].session)
            choose_part(q, &q->subjects[i], &parts[n++]);
    }
    LOG(q, ";");
    const part *cancelled = below(q, 3) == 0 ? &parts[below(q, n)] : NULL;
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&parts[i].thread, NULL, play, &parts[i]), 0);
    if (cancelled)
        cr_session_cancel(cancelled->generation.s->session);
    for (int i = 0; i < n; i++)
        pthread_join(parts[i].thread, NULL);
    for (int i = 0; i < n; i++) {
        part *p = &parts[i];
        subject *s = p->generation.s;
        cr_session_take_cancel(s->session);
        cera_status status = p->generates ? p->generation.status : p->status;
        assert_true(status == CERA_OK || (status == CERA_E_CANCELLED && p == cancelled));
        if (!p->generates && status == CERA_OK) {
            memcpy(s->history, p->ids, (size_t)p->n * sizeof *p->ids);
            s->n = p->n;
        }
        if (p->generates)
            count_guesses(q, &p->generation);
        check(q, s);
    }
    q->sum.n_together += (uint64_t)n;
}

/* ---- the end of an engine ---------------------------------------------------------------- */

static void close_engine(sequence *q)
{
    for (int i = 0; i < N_SESSIONS; i++) {
        subject *s = &q->subjects[i];
        cr_session_free(s->session);
        s->session = NULL;
        s->cells.n = 0;
        q->sum.n_shifts += s->n_shifts;
        s->n_shifts = 0;
    }
    cera_engine_stats stats;
    cera_engine_get_stats(q->engine, &stats);
    assert_int_equal(stats.page_bytes_used + stats.state_bytes_used, 0);
    check_stats(q);
    q->sum.n_reused += stats.n_tokens_reused;
    q->sum.n_computed += stats.n_tokens_computed;
    q->sum.n_evictions += stats.n_evictions;
    q->sum.n_read += stats.n_blocks_read;
    cera_engine_close(q->engine);
}

/* From some call on nothing reaches the disk, not even a removal, whatever else the sessions do;
 * then the engine is gone, and another one finds what is there. */
static void do_crash(sequence *q)
{
    static const fault_call calls[] = { FAULT_CREATE, FAULT_WRITE, FAULT_SYNC, FAULT_RENAME,
                                        FAULT_SYNC_FOLDER };
    LOG(q, " crash(");
    fault_os(&q->host, FAULT_REMOVE, 1, FAULT_STICKY, EIO);
    fault_os(&q->host, calls[below(q, CR_COUNT(calls))], 1 + (size_t)below(q, 4), FAULT_STICKY,
             EIO);
    for (int i = 0; i < 2; i++) {
        subject *s = any(q, true);
        if (s)
            move(q, s);
    }
    close_engine(q);
    for (int call = FAULT_ALLOC; call < FAULT_CALL_COUNT; call++)
        fault_os(&q->host, (fault_call)call, 0, FAULT_NEVER, 0);
    open_engine(q);
    q->sum.n_crashes++;
    LOG(q, ");");
}

/* ---- all steps --------------------------------------------------------------------------- */

static void step(sequence *q)
{
    int what = below(q, 14);
    subject *s = any(q, true), *free_one = any(q, false);
    if (!s || (what == 0 && free_one)) {
        s = free_one;
        assert_int_equal(cr_session_new(&q->env, 0, &s->session, NULL), CERA_OK);
        s->n = 0;
        LOG(q, " %d: new;", number_of(q, s));
    } else if (what <= 2 && free_one) {
        assert_int_equal(cr_session_fork(s->session, &free_one->session, NULL), CERA_OK);
        LOG(q, " %d: fork of %d;", number_of(q, free_one), number_of(q, s));
        memcpy(free_one->history, s->history, sizeof s->history);
        free_one->n = s->n;
        cells_set(&free_one->cells, &s->cells);
        free_one->n_pure = s->n_pure;
        s = free_one;
    } else if (what == 3) {
        LOG(q, " %d: free;", number_of(q, s));
        cr_session_free(s->session);
        s->session = NULL;
        s->cells.n = 0;
        return;
    } else if (what == 4 && below(q, 2)) {
        LOG(q, " %d: reset;", number_of(q, s));
        cr_session_reset(s->session);
        s->n = s->cells.n = 0;
    } else if (what == 5) {
        do_together(q);
        return;
    } else if (what == 6 && q->options.cache_dir && below(q, 2)) {
        do_crash(q);
        return;
    } else {
        LOG(q, " %d:", number_of(q, s));
        move(q, s);
    }
    check(q, s);
    check(q, any(q, true));
    check_stats(q);
}

static void end(sequence *q)
{
    for (int i = 0; i < N_SESSIONS; i++) {
        if (q->subjects[i].session)
            check(q, &q->subjects[i]);
    }
    close_engine(q);
    cera_engine_close(q->plain);
    for (int i = 0; i < N_SESSIONS; i++)
        cells_done(&q->subjects[i].cells);
    assert_null(fault_check(&q->host));
    fault_done(&q->host);
}

/* ---- all of them ------------------------------------------------------------------------- */

static void add(totals *to, const totals *from)
{
    to->n_reused += from->n_reused;
    to->n_computed += from->n_computed;
    to->n_evictions += from->n_evictions;
    to->n_read += from->n_read;
    to->n_shifts += from->n_shifts;
    to->n_guessed += from->n_guessed;
    to->n_right += from->n_right;
    to->n_together += from->n_together;
    to->n_crashes += from->n_crashes;
    to->most_off = from->most_off > to->most_off ? from->most_off : to->most_off;
}

static void tell(const totals *sum)
{
    const struct {
        const char *what;
        uint64_t n;
    } rows[] = {
        { "tokens reused", sum->n_reused },
        { "tokens computed", sum->n_computed },
        { "blocks evicted", sum->n_evictions },
        { "blocks read from disk", sum->n_read },
        { "shifts", sum->n_shifts },
        { "tokens guessed", sum->n_guessed },
        { "guesses right", sum->n_right },
        { "calls at the same time", sum->n_together },
        { "crashes", sum->n_crashes },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++)
        print_message("%12llu %s\n", (unsigned long long)rows[i].n, rows[i].what);
    print_message("%12.1e the most that logits were off after a shift\n", sum->most_off);
}

static void reuse_never_changes_an_answer(void **state)
{
    (void)state;
    const char *one = getenv("CERA_SEED");
    uint64_t first = one ? strtoull(one, NULL, 10) : 0;
    uint64_t n = one ? 1 : getenv("CERA_NIGHTLY") ? N_NIGHTLY : N_SEQUENCES;
    static sequence q;
    totals sum = { 0 };
    /* A sequence with a folder runs twice: the second engine finds what the first one wrote. */
    bool again = false;
    for (uint64_t seed = first; seed < first + n; seed += !again) {
        again = !again && has_disk(seed);
        begin(&q, seed);
        running = &q;
        running_seed = seed;
        for (int i = 0; i < N_STEPS; i++)
            step(&q);
        end(&q);
        running = NULL;
        add(&sum, &q.sum);
    }
    print_message("%llu sequences from seed %llu:\n", (unsigned long long)n,
                  (unsigned long long)first);
    tell(&sum);
    assert_true(one || (sum.n_reused > 0 && sum.n_evictions > 0 && sum.n_shifts > 0));
    assert_true(one || (sum.n_right > 0 && sum.n_together > 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(reuse_never_changes_an_answer, tell_if_running),
    };
    return cmocka_run_group_tests(tests, build_models, drop_models);
}

/* Reuse never changes an answer.
 *
 * Random sequences of calls over several sessions of one engine, whose budget may be tiny, some
 * with a folder: append, sync, rewind, fork, generate, save, load, reset, free, a cancel or a
 * failure in the middle. After each call the session is compared, to the bit, with one of an engine
 * that reuses nothing and computes the whole history from its first token. The sequences take their
 * tokens from a few texts, so that beginnings meet.
 *
 * The number of a failing sequence is printed; CERA_SEED=number runs it alone. CERA_NIGHTLY runs
 * 10,000. */
#define _GNU_SOURCE /* unlinkat */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/toy_model.h"

#include "api/objects.h"
#include "session/save.h"

#include <dirent.h>
#include <fcntl.h>
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

/* ---- models ------------------------------------------------------------------------------ */

static const char *const model_names[N_MODELS] = { "llama", "lfm2",   "gemma3",
                                                   "phi3",  "mamba2", "granitehybrid" };
static gguf_build models[N_MODELS];

/* gemma3: every other layer sees 70 positions; phi3: all layers see 100. mamba2 has states and no keys,
 * granitehybrid a layer of each. */
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
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(path);
    return 0;
}

/* ---- a sequence -------------------------------------------------------------------------- */

/* A session under test, and the history that it ought to have. */
typedef struct subject {
    cr_session *session;
    int32_t history[N_CONTEXT];
    int n;
} subject;

typedef struct sequence {
    uint64_t random;
    char log[4096]; /* what was done, for whoever looks for a fault */
    size_t n_log;
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

static cera_engine *open_model(const gguf_build *file, const cera_engine_options *options)
{
    cera_engine *engine = NULL;
    cera_error err = { 0 };
    cera_source source = { .data = file->data, .n_data = file->size };
    if (cera_engine_open_source(&source, options, &engine, &err) != CERA_OK)
        fail_msg("%s", err.message);
    return engine;
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

static void begin(sequence *q, uint64_t seed)
{
    memset(q, 0, sizeof *q);
    q->random = seed * 0x9e3779b97f4a7c15u + 1;
    next_random(q);
    int model = (int)(seed % N_MODELS);
    static const int budgets_kb[] = { 0, 1, 200, 600, 2000 };
    static const int chunks[] = { 0, 16, 64, 100 };
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.n_threads = 1;
    options.kv_type = (cera_kv_type)below(q, 3);
    options.chunk_size = chunks[below(q, 4)];
    options.cache_bytes = (uint64_t)budgets_kb[below(q, 5)] << 10;
    options.no_reuse = below(q, 5) == 0; /* forks and rewinds share pages all the same */
    char disk[80];
    snprintf(disk, sizeof disk, "%s-disk", path);
    options.cache_dir = has_disk(seed) ? disk : NULL;
    options.cache_disk_bytes = 3 << 20;
    q->engine = open_model(&models[model], &options);
    /* Some lfm2 models are taken for ones that give states at the ends of runs only. */
    bool run_ends = below(q, 2) == 0;
    if (run_ends && q->engine->core->model->graph.n_states > 0)
        q->engine->core->model->graph.states_at_pages = false;
    LOG(q, "%s kv %d chunk %d budget %u KiB%s%s%s:", model_names[model], (int)options.kv_type,
        options.chunk_size, (unsigned)(options.cache_bytes >> 10), run_ends ? ", run ends" : "",
        options.no_reuse ? ", no reuse" : "", options.cache_dir ? ", disk" : "");
    options.cache_dir = NULL;
    options.no_reuse = true;
    options.chunk_size = 0;
    options.cache_bytes = 0;
    q->plain = open_model(&models[model], &options);
    q->env = cr_engine_env(q->engine->core);
    q->env.run = run;
    q->env.identify = identify;
    q->env.ctx = q;
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
    cr_session_env env = cr_engine_env(q->plain->core);
    cr_session *plain;
    assert_int_equal(cr_session_new(&env, 0, &plain, NULL), CERA_OK);
    assert_int_equal(cr_session_append_ids(plain, s->history, n, NULL), CERA_OK);
    if (memcmp(logits, cr_session_logits(plain), TOY_N_VOCAB * sizeof(float)) != 0)
        fail_msg("logits differ at position %zu", n);
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
    memcpy(ids, other->history, (size_t)other->n * sizeof *ids);
    *n = other->n;
    return status;
}

static cera_status do_generate(sequence *q, subject *s, int32_t *ids, int *n)
{
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.max_tokens = below(q, 4) == 0 ? -1 : below(q, 80);
    options.top_k = 1;
    options.ignore_eos = true;
    options.n_draft = below(q, 2) ? 1 + below(q, 8) : 0;
    LOG(q, " generate %d", options.max_tokens);
    cera_status status = cr_session_generate(s->session, &options, NULL, NULL, NULL, NULL);
    size_t n_now;
    const int32_t *history = cr_session_history(s->session, &n_now);
    memcpy(ids, history, n_now * sizeof *ids);
    *n = (int)n_now;
    /* Every token that was computed stays, whatever happened to the next one. */
    if (status != CERA_OK) {
        memcpy(s->history, ids, n_now * sizeof *ids);
        s->n = (int)n_now;
        /* Tokens that guesses have made lag behind may be lost, and the logits with them. */
        q->fail_at = 0;
        if (n_now > 0 && !cr_session_logits(s->session))
            assert_int_equal(cr_session_rewind(s->session, n_now, NULL), CERA_OK);
    }
    return status;
}

/* One call that moves a session. If it fails, it has to leave the session where it was. */
static void move(sequence *q, subject *s)
{
    static cera_status (*const calls[])(sequence *, subject *, int32_t *, int *) = {
        do_append, do_append, do_sync, do_sync, do_rewind, do_generate, do_generate, do_load,
    };
    int32_t ids[N_CONTEXT];
    int n = s->n;
    q->fail_at = below(q, 4) == 0 ? 1 + below(q, 6) : 0;
    q->failure = below(q, 2) ? CERA_E_CANCELLED : CERA_E_IO;
    cera_status status = calls[below(q, (int)CR_COUNT(calls))](q, s, ids, &n);
    q->fail_at = 0;
    LOG(q, " %s;", cera_status_name(status));
    if (status == CERA_OK) {
        memcpy(s->history, ids, (size_t)n * sizeof *ids);
        s->n = n;
    }
}

static void step(sequence *q)
{
    int what = below(q, 12);
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
        s = free_one;
    } else if (what == 3) {
        LOG(q, " %d: free;", number_of(q, s));
        cr_session_free(s->session);
        s->session = NULL;
        return;
    } else if (what == 4 && below(q, 2)) {
        LOG(q, " %d: reset;", number_of(q, s));
        cr_session_reset(s->session);
        s->n = 0;
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
        cr_session_free(q->subjects[i].session);
    }
    cera_engine_stats stats;
    cera_engine_get_stats(q->engine, &stats);
    assert_int_equal(stats.page_bytes_used + stats.state_bytes_used, 0);
    check_stats(q);
    cera_engine_close(q->engine);
    cera_engine_close(q->plain);
}

/* ---- all of them ------------------------------------------------------------------------- */

static void reuse_never_changes_an_answer(void **state)
{
    (void)state;
    const char *one = getenv("CERA_SEED");
    uint64_t first = one ? strtoull(one, NULL, 10) : 0;
    uint64_t n = one ? 1 : getenv("CERA_NIGHTLY") ? N_NIGHTLY : N_SEQUENCES;
    static sequence q;
    uint64_t n_reused = 0, n_computed = 0, n_evictions = 0, n_read = 0;
    /* A sequence with a folder runs twice: the second engine finds what the first one wrote. */
    bool again = false;
    for (uint64_t seed = first; seed < first + n; seed += !again) {
        again = !again && has_disk(seed);
        begin(&q, seed);
        running = &q;
        running_seed = seed;
        for (int i = 0; i < N_STEPS; i++)
            step(&q);
        cera_engine_stats stats;
        cera_engine_get_stats(q.engine, &stats);
        n_reused += stats.n_tokens_reused;
        n_computed += stats.n_tokens_computed;
        n_evictions += stats.n_evictions;
        n_read += stats.n_blocks_read;
        end(&q);
        running = NULL;
    }
    print_message("%llu sequences from seed %llu: %llu tokens reused, %llu computed, %llu blocks "
                  "evicted, %llu read from disk\n",
                  (unsigned long long)n, (unsigned long long)first, (unsigned long long)n_reused,
                  (unsigned long long)n_computed, (unsigned long long)n_evictions,
                  (unsigned long long)n_read);
    assert_true(one || (n_reused > 0 && n_evictions > 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(reuse_never_changes_an_answer, tell_if_running),
    };
    return cmocka_run_group_tests(tests, build_models, drop_models);
}

/* Many sessions in one step: nobody's results depend on who else is in it.
 *
 * First the plan alone: sequences of different lengths in one batch, against each of them in a
 * batch of its own, to the bit. Then who is put into a step, with a plan that only takes notes.
 * Then sessions on threads that append, generate, fork and are cancelled at any moment; what each
 * of them got is played again, alone, on an engine that reuses nothing. Run it under TSan.
 *
 * The number of a failing round is printed; CERA_SEED=number runs it alone. CERA_NIGHTLY runs
 * 400. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/state_model.h"

#include "api/objects.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_MODELS = 5, N_CONTEXT = 400 };

static const char *const model_names[N_MODELS] = { "llama", "lfm2", "gemma3", "phi3", "llama" };
static gguf_build models[N_MODELS];

/* 1: convolutions; 2, 3: windows; 4: experts. */
static void build_model(int i)
{
    toy_spec spec;
    toy_spec_init(&spec, model_names[i], i % 2 == 0 ? CR_TYPE_Q8_0 : CR_TYPE_Q4_0);
    spec.n_context = N_CONTEXT;
    spec.n_embd = spec.n_ff = 64;
    spec.n_head = 2;
    spec.head_dim = spec.rope_dims = 32;
    spec.n_layer = i == 1 ? 4 : 2;
    spec.window = i == 2 ? 70 : i == 3 ? 100 : 0;
    spec.period = i == 2 ? 2 : 0;
    spec.tied = i == 2;
    spec.n_expert = i == 4 ? 6 : 0;
    spec.n_expert_used = i == 4 ? 2 : 0;
    for (int layer = 0; layer < spec.n_layer; layer++)
        spec.n_head_kv[layer] = i == 1 && layer % 2 == 0 ? 0 : i == 2 || i == 3 ? 2 : 1;
    toy_build(&spec, &models[i]);
}

static int build_models(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++)
        build_model(i);
    return 0;
}

static int drop_models(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++)
        build_done(&models[i]);
    return 0;
}

static uint32_t next_random(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33);
}

static int below(uint64_t *random, int n)
{
    return (int)(next_random(random) % (uint32_t)n);
}

static void sleep_us(int us)
{
    nanosleep(&(struct timespec){ .tv_nsec = (long)us * 1000 }, NULL);
}

/* ---- the plan ---------------------------------------------------------------------------- */

enum { N_SEQS = 7, MAX_PAGES = (N_CONTEXT + CR_PAGE - 1) / CR_PAGE, N_STEPS = 5 };

/* One sequence with memory of its own. */
typedef struct timeline {
    int32_t tokens[N_CONTEXT];
    void *pages[CR_MAX_GROUPS][MAX_PAGES];
    void *const *page_lists[CR_MAX_GROUPS];
    float *states[2]; /* the present one, then the next */
    float *logits, *hidden;
    cr_batch_seq seq;
} timeline;

static void *zeros(size_t size)
{
    void *p = calloc(1, size + 1);
    assert_non_null(p);
    return p;
}

static void timeline_init(timeline *t, const cr_engine *core)
{
    const cr_graph *graph = &core->model->graph;
    memset(t, 0, sizeof *t);
    for (int g = 0; g < graph->n_groups; g++) {
        for (int i = 0; i < MAX_PAGES; i++)
            t->pages[g][i] = zeros(core->pages->bytes[g]);
        t->page_lists[g] = t->pages[g];
    }
    for (int i = 0; i < 2; i++)
        t->states[i] = zeros(graph->state_floats * sizeof(float));
    t->logits = zeros(N_CONTEXT * graph->n_vocab * sizeof(float));
    t->hidden = zeros(N_CONTEXT * graph->n_embd * sizeof(float));
}

static void timeline_done(timeline *t, const cr_engine *core)
{
    for (int g = 0; g < core->model->graph.n_groups; g++) {
        for (int i = 0; i < MAX_PAGES; i++)
            free(t->pages[g][i]);
    }
    free(t->states[0]);
    free(t->states[1]);
    free(t->logits);
    free(t->hidden);
}

/* The next n rows, of which the last n_logits want logits. */
static void timeline_next(timeline *t, int n, int n_logits, bool wants_hidden)
{
    t->seq = (cr_batch_seq){
        .n_past = t->seq.n_past + t->seq.n_rows,
        .n_rows = n,
        .pages = t->page_lists,
        .state_in = t->states[0],
        .state_out = t->states[1],
        .n_logits = n_logits,
        .logits = t->logits,
        .hidden = wants_hidden ? t->hidden : NULL,
    };
    t->seq.tokens = t->tokens + t->seq.n_past;
}

static void timeline_turn(timeline *t)
{
    float *old = t->states[0];
    t->states[0] = t->states[1];
    t->states[1] = old;
}

static void assert_same(const timeline *a, const timeline *b, const cr_engine *core)
{
    const cr_graph *graph = &core->model->graph;
    size_t n_rows = (size_t)a->seq.n_rows, n_logits = (size_t)a->seq.n_logits;
    assert_memory_equal(a->logits, b->logits, n_logits * graph->n_vocab * sizeof(float));
    if (a->seq.hidden)
        assert_memory_equal(a->hidden, b->hidden, n_rows * graph->n_embd * sizeof(float));
    assert_memory_equal(a->states[1], b->states[1], graph->state_floats * sizeof(float));
    for (int g = 0; g < graph->n_groups; g++) {
        for (int i = 0; i < MAX_PAGES; i++)
            assert_memory_equal(a->pages[g][i], b->pages[g][i], core->pages->bytes[g]);
    }
}

/* Sequences of different lengths, single rows among them, over several steps. */
static void a_batch_is_its_sequences(void **state)
{
    (void)state;
    static timeline together[N_SEQS], alone[N_SEQS];
    for (int model = 0; model < N_MODELS; model++) {
        cera_engine_options options;
        cera_engine_options_init(&options);
        options.n_threads = 1 + model % 2;
        cera_engine *engine = state_model_open(&models[model], &options);
        const cr_engine *core = engine->core;
        uint64_t random = (uint64_t)model + 1;
        for (int i = 0; i < N_SEQS; i++) {
            timeline_init(&together[i], core);
            timeline_init(&alone[i], core);
            for (int k = 0; k < N_CONTEXT; k++)
                together[i].tokens[k] = alone[i].tokens[k] = below(&random, TOY_N_VOCAB);
        }
        for (int step = 0; step < N_STEPS; step++) {
            cr_batch_seq seqs[N_SEQS];
            cr_batch batch = { .seqs = seqs, .n_seqs = N_SEQS };
            for (int i = 0; i < N_SEQS; i++) {
                int n = below(&random, 2) ? 1 + below(&random, 75) : 1 + below(&random, 3);
                int n_logits = below(&random, n + 1);
                bool wants_hidden = below(&random, 2) == 0;
                timeline_next(&alone[i], n, n_logits, wants_hidden);
                timeline_next(&together[i], n, n_logits, wants_hidden);
                seqs[i] = together[i].seq;
                batch.n_rows += n;
                cr_batch one = { .seqs = &alone[i].seq, .n_seqs = 1, .n_rows = n };
                assert_int_equal(core->api->plan_run(core->plan, &one, NULL), CERA_OK);
            }
            assert_int_equal(core->api->plan_run(core->plan, &batch, NULL), CERA_OK);
            for (int i = 0; i < N_SEQS; i++) {
                assert_same(&together[i], &alone[i], core);
                timeline_turn(&together[i]);
                timeline_turn(&alone[i]);
            }
        }
        for (int i = 0; i < N_SEQS; i++) {
            timeline_done(&together[i], core);
            timeline_done(&alone[i], core);
        }
        cera_engine_close(engine);
    }
}

/* ---- who is in a step -------------------------------------------------------------------- */

enum { MAX_NOTES = 512, N_CALLERS = 12 };

/* A plan that computes nothing: what it was asked for. The first step waits until `open`. */
struct cr_plan {
    atomic_int open;
    int n;
    struct {
        int n_seqs, n_rows, n_small, n_large, n_large_rows;
    } notes[MAX_NOTES];
};

static cera_status take_notes(cr_plan *plan, const cr_batch *batch, cera_error *err)
{
    (void)err;
    while (atomic_load(&plan->open) == 0)
        sleep_us(50);
    int n = plan->n++, n_rows = 0;
    assert_true(n < MAX_NOTES);
    plan->notes[n].n_seqs = batch->n_seqs;
    plan->notes[n].n_rows = batch->n_rows;
    for (int i = 0; i < batch->n_seqs; i++) {
        bool is_large = batch->seqs[i].n_rows > CR_SMALL_RUN;
        plan->notes[n].n_small += !is_large;
        plan->notes[n].n_large += is_large;
        plan->notes[n].n_large_rows += is_large ? batch->seqs[i].n_rows : 0;
        n_rows += batch->seqs[i].n_rows;
    }
    assert_int_equal(n_rows, batch->n_rows);
    sleep_us(100);
    return CERA_OK;
}

typedef struct caller {
    cr_scheduler *scheduler;
    pthread_t thread;
    int n_rows, n_runs;
    cr_meanwhile meanwhile;
    atomic_int cancel;
    cera_status status;
} caller;

static void *call(void *arg)
{
    caller *c = arg;
    cr_seat seat = { .meanwhile = c->meanwhile };
    cr_batch_seq seq = { .n_rows = c->n_rows, .cancel = &c->cancel };
    cr_scheduler_seat(c->scheduler, &seat, CR_SEAT_PRESENT);
    for (int i = 0; i < c->n_runs && c->status == CERA_OK; i++)
        c->status = cr_scheduler_run(c->scheduler, &seat, &seq, NULL);
    cr_scheduler_seat(c->scheduler, &seat, CR_SEAT_AWAY);
    return NULL;
}

static int n_waiting(cr_scheduler *scheduler)
{
    cr_scheduler_counts counts;
    cr_scheduler_get_counts(scheduler, &counts);
    return counts.n_waiting;
}

static cr_scheduler *new_scheduler(cr_host *host, cr_plan *plan, int max_seqs)
{
    static cr_backend_api api;
    api = cr_backend_cpu;
    api.plan_run = take_notes;
    *plan = (cr_plan){ .n = 0 };
    cr_scheduler_options options = { &api, plan, max_seqs, 512 + max_seqs - 1, 512 };
    cr_scheduler *scheduler;
    assert_int_equal(cr_host_set(host, NULL, NULL), CERA_OK);
    assert_int_equal(cr_scheduler_new(host, &options, &scheduler, NULL), CERA_OK);
    return scheduler;
}

/* Starts callers one after the other, so that they wait in this order behind the first one's
 * step. */
static void start(caller *callers, cr_scheduler *scheduler, int n, const int *n_rows, int n_runs)
{
    for (int i = 0; i < n; i++) {
        callers[i] = (caller){ .scheduler = scheduler, .n_rows = n_rows[i], .n_runs = n_runs };
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
        while (n_waiting(scheduler) <= i)
            sleep_us(50);
    }
}

static void join(caller *callers, int n)
{
    for (int i = 0; i < n; i++)
        pthread_join(callers[i].thread, NULL);
}

static void steps_have_tokens_and_a_chunk(void **state)
{
    (void)state;
    static cr_plan plan;
    static caller callers[N_CALLERS];
    cr_host host;
    /* One that is being computed; then inputs wait before and behind six tokens. */
    static const int rows[] = { 1, 300, 128, 1, 1, 1, 1, 17, 1, 128, 512 };
    enum { N = CR_COUNT(rows) };
    cr_scheduler *scheduler = new_scheduler(&host, &plan, 4);
    start(callers, scheduler, N, rows, 1);
    atomic_store(&plan.open, 1);
    join(callers, N);
    /* 1 | 300 1 1 1 | 128 1 17 1 | 128 | 512: the two of 128 do not meet, for the step is full. */
    static const int n_small[] = { 1, 3, 3, 0, 0 };
    static const int n_large_rows[] = { 0, 300, 128, 128, 512 };
    assert_int_equal(plan.n, 5);
    for (int i = 0; i < plan.n; i++) {
        assert_int_equal(plan.notes[i].n_small, n_small[i]);
        assert_int_equal(plan.notes[i].n_large_rows, n_large_rows[i]);
    }
    cr_scheduler_free(scheduler);
    assert_int_equal(cr_host_live(&host), 0);
}

/* More tokens than places, all the time: inputs come forward all the same, and one at a time. */
static void nobody_starves(void **state)
{
    (void)state;
    static cr_plan plan;
    static caller callers[N_CALLERS];
    static const int rows[N_CALLERS] = { 1, 1, 1, 1, 128, 1, 1, 1, 1, 128, 1, 1 };
    enum { N_RUNS = 12 };
    for (int max_seqs = 1; max_seqs <= 5; max_seqs += 2) {
        cr_host host;
        cr_scheduler *scheduler = new_scheduler(&host, &plan, max_seqs);
        start(callers, scheduler, N_CALLERS, rows, N_RUNS);
        assert_int_equal(cr_scheduler_chunk(scheduler), 128);
        atomic_store(&plan.open, 1);
        join(callers, N_CALLERS);
        int n_small = 0, n_large = 0, n_small_then = 0, largest = 0;
        for (int i = 0; i < plan.n; i++) {
            n_small += plan.notes[i].n_small;
            n_large += plan.notes[i].n_large;
            largest = CR_MAX(largest, plan.notes[i].n_seqs);
            assert_in_range(plan.notes[i].n_seqs, 1, max_seqs);
            if (plan.notes[i].n_small > 0)
                assert_true(plan.notes[i].n_large <= 1);
            if (n_large <= N_RUNS)
                n_small_then = n_small;
        }
        assert_int_equal(n_small, (N_CALLERS - 2) * N_RUNS);
        assert_int_equal(n_large, 2 * N_RUNS);
        assert_int_equal(largest, max_seqs);
        assert_int_equal(cr_scheduler_chunk(scheduler), 512);
        /* One chunk is in every step that finds one waiting, so half of the 24 are through long
         * before the tokens are; how long depends on when threads get to run. */
        if (max_seqs > 1)
            assert_true(n_small_then < (N_CALLERS - 2) * N_RUNS * 3 / 4);
        cr_scheduler_free(scheduler);
    }
}

static void who_waits_can_be_cancelled(void **state)
{
    (void)state;
    static cr_plan plan;
    static caller callers[N_CALLERS];
    static const int rows[] = { 1, 100, 1, 100, 1 };
    enum { N = CR_COUNT(rows) };
    cr_host host;
    cr_scheduler *scheduler = new_scheduler(&host, &plan, 8);
    start(callers, scheduler, N, rows, 1);
    atomic_store(&callers[1].cancel, 1);
    atomic_store(&callers[4].cancel, 1);
    atomic_store(&plan.open, 1);
    join(callers, N);
    for (int i = 0; i < N; i++)
        assert_int_equal(callers[i].status, i == 1 || i == 4 ? CERA_E_CANCELLED : CERA_OK);
    assert_int_equal(plan.n, 2);
    assert_int_equal(plan.notes[1].n_rows, 101);
    cr_scheduler_free(scheduler);
}

typedef struct errand {
    atomic_int n_begun, is_over;
} errand;

static void run_errand(void *ctx)
{
    errand *e = ctx;
    atomic_fetch_add(&e->n_begun, 1);
    while (atomic_load(&e->is_over) == 0)
        sleep_us(50);
}

/* Its run is in the next step, it is not asked to lead, and nobody waits for it. */
static void who_is_busy_misses_no_step(void **state)
{
    (void)state;
    static cr_plan plan;
    static caller callers[4];
    errand e = { 0 };
    cr_host host;
    cr_scheduler *scheduler = new_scheduler(&host, &plan, 8);
    for (int i = 0; i < 3; i++) {
        callers[i] = (caller){ .scheduler = scheduler, .n_rows = 1, .n_runs = i == 0 ? 2 : 1 };
        if (i == 1)
            callers[i].meanwhile = (cr_meanwhile){ run_errand, &e };
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
        while (n_waiting(scheduler) <= i)
            sleep_us(50);
    }
    atomic_store(&plan.open, 1);
    pthread_join(callers[0].thread, NULL);
    pthread_join(callers[2].thread, NULL);
    assert_int_equal(plan.n, 2);
    assert_int_equal(plan.notes[1].n_seqs, 3);
    callers[3] = (caller){ .scheduler = scheduler, .n_rows = 1, .n_runs = 2 };
    call(&callers[3]);
    assert_int_equal(plan.n, 4);
    assert_int_equal(atomic_load(&e.n_begun), 1);
    atomic_store(&e.is_over, 1);
    pthread_join(callers[1].thread, NULL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(callers[i].status, CERA_OK);
    assert_int_equal(plan.n, 4);
    cr_scheduler_free(scheduler);
    assert_int_equal(cr_host_live(&host), 0);
}

/* ---- sessions on threads ----------------------------------------------------------------- */

enum { N_ROUNDS = 20, N_NIGHTLY = 400, N_THREADS = 8, N_ACTS = 8 };

/* One thing that a session did, and what came of it. */
typedef struct act {
    enum { APPEND, GENERATE, REWIND } kind;
    int32_t ids[N_CONTEXT]; /* appended, or generated */
    int n;                  /* of them; or the position to rewind to */
    cera_generate_options options;
    cera_status status;
    float logits[TOY_N_VOCAB]; /* behind it */
} act;

typedef struct player {
    pthread_t thread;
    cera_engine *engine;
    uint64_t random;
    cera_session *session;
    act acts[N_ACTS];
} player;

typedef struct canceller {
    player *players;
    uint64_t random;
    atomic_int over;
} canceller;

static void choose_options(player *p, act *a)
{
    cera_generate_options_init(&a->options);
    a->options.max_tokens = 1 + below(&p->random, 30);
    a->options.temperature = below(&p->random, 2) ? 0.0f : 1.3f;
    a->options.seed = next_random(&p->random);
    a->options.ignore_eos = true;
    a->options.n_draft = below(&p->random, 2) ? 6 : 0;
}

static int ignore_text(void *user, const char *text, size_t n)
{
    (void)text;
    (void)n;
    player *p = user;
    if (below(&p->random, 16) == 0)
        sleep_us(300); /* a slow reader */
    return 0;
}

static void play_act(player *p, act *a)
{
    size_t n, room = N_CONTEXT - cera_session_position(p->session);
    int what = below(&p->random, 8);
    a->kind = what == 0 ? REWIND : cera_session_logits(p->session) && what < 5 ? GENERATE : APPEND;
    if (a->kind == APPEND) {
        a->n = 1 + below(&p->random, CR_MIN((int)room, 150));
        for (int i = 0; i < a->n; i++)
            a->ids[i] = below(&p->random, TOY_N_VOCAB);
        a->status = cera_session_append_ids(p->session, a->ids, (size_t)a->n, NULL);
    } else if (a->kind == REWIND) {
        a->n = below(&p->random, (int)cera_session_position(p->session) + 1);
        a->status = cera_session_rewind(p->session, (size_t)a->n, NULL);
    } else {
        size_t before = cera_session_position(p->session);
        choose_options(p, a);
        cera_sink sink = { .on_text = ignore_text, .user = p };
        a->status = cera_session_generate(p->session, &a->options, &sink, NULL, NULL);
        const int32_t *history = cera_session_history(p->session, &n);
        a->n = (int)(n - before);
        memcpy(a->ids, history + before, (size_t)a->n * sizeof *a->ids);
    }
    const float *logits = cera_session_logits(p->session);
    if (logits)
        memcpy(a->logits, logits, sizeof a->logits);
}

/* A fork shares pages, and writes behind them at once; the session must not notice. */
static void play_with_fork(player *p)
{
    cera_session *child;
    if (!cera_session_logits(p->session) || cera_session_fork(p->session, &child, NULL) != CERA_OK)
        return;
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.max_tokens = 5;
    cera_session_generate(child, &options, NULL, NULL, NULL);
    cera_session_free(child);
}

static void *play(void *arg)
{
    player *p = arg;
    for (int i = 0; i < N_ACTS; i++) {
        play_act(p, &p->acts[i]);
        if (i % 3 == 1)
            play_with_fork(p);
        if (cera_session_position(p->session) + 8 > N_CONTEXT)
            cera_session_reset(p->session);
    }
    return NULL;
}

static void *cancel_some(void *arg)
{
    canceller *c = arg;
    while (atomic_load(&c->over) == 0) {
        sleep_us(1 + below(&c->random, 900));
        cera_session_cancel(c->players[below(&c->random, N_THREADS)].session);
    }
    return NULL;
}

/* The acts again, alone: a generation makes as many tokens as it had come to. */
static void replay(const player *p, cera_engine *plain, int number)
{
    cera_session *s;
    assert_int_equal(cera_session_new(plain, NULL, &s, NULL), CERA_OK);
    for (int i = 0; i < N_ACTS; i++) {
        const act *a = &p->acts[i];
        if (a->status == CERA_E_CANCELLED)
            continue;
        if (a->kind == APPEND) {
            assert_int_equal(cera_session_append_ids(s, a->ids, (size_t)a->n, NULL), CERA_OK);
        } else if (a->kind == REWIND) {
            assert_int_equal(cera_session_rewind(s, (size_t)a->n, NULL), CERA_OK);
        } else {
            size_t before = cera_session_position(s), n;
            cera_generate_options options = a->options;
            options.max_tokens = a->n;
            options.n_draft = 0;
            assert_int_equal(cera_session_generate(s, &options, NULL, NULL, NULL), CERA_OK);
            const int32_t *history = cera_session_history(s, &n);
            assert_int_equal(n, before + (size_t)a->n);
            if (memcmp(history + before, a->ids, (size_t)a->n * sizeof *a->ids) != 0)
                fail_msg("session %d, act %d: other tokens", number, i);
        }
        const float *logits = cera_session_logits(s);
        if (logits && memcmp(logits, a->logits, sizeof a->logits) != 0)
            fail_msg("session %d, act %d: other logits", number, i);
        if (cera_session_position(s) + 8 > N_CONTEXT)
            cera_session_reset(s);
    }
    cera_session_free(s);
}

static void play_round(uint64_t seed, uint64_t *n_steps, uint64_t *n_runs)
{
    static player players[N_THREADS];
    uint64_t random = seed * 0x9e3779b97f4a7c15u + 1;
    int model = (int)(seed % N_MODELS);
    static const int batches[] = { 0, 1, 2, 5 }, chunks[] = { 0, 16, 100 };
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.n_threads = 1 + below(&random, 2);
    options.max_batch = batches[below(&random, 4)];
    options.chunk_size = chunks[below(&random, 3)];
    options.no_reuse = below(&random, 2) == 0;
    cera_engine *engine = state_model_open(&models[model], &options);
    canceller storm = { .players = players, .random = random };
    for (int i = 0; i < N_THREADS; i++) {
        players[i] = (player){ .engine = engine, .random = random + (uint64_t)i * 77777 };
        assert_int_equal(cera_session_new(engine, NULL, &players[i].session, NULL), CERA_OK);
    }
    pthread_t thread;
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&players[i].thread, NULL, play, &players[i]), 0);
    assert_int_equal(pthread_create(&thread, NULL, cancel_some, &storm), 0);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(players[i].thread, NULL);
    atomic_store(&storm.over, 1);
    pthread_join(thread, NULL);
    cr_scheduler_counts counts;
    cr_scheduler_get_counts(engine->core->scheduler, &counts);
    assert_int_equal(counts.n_waiting, 0);
    *n_steps += counts.n_steps;
    *n_runs += counts.n_runs;

    options = (cera_engine_options){ .size = sizeof options, .n_threads = 1, .no_reuse = true };
    cera_engine *plain = state_model_open(&models[model], &options);
    for (int i = 0; i < N_THREADS; i++) {
        replay(&players[i], plain, i);
        cera_session_free(players[i].session);
    }
    cera_engine_close(plain);
    cera_engine_close(engine);
}

static uint64_t running_seed;

static int tell_seed(void **state)
{
    (void)state;
    print_message("the last round was CERA_SEED=%llu\n", (unsigned long long)running_seed);
    return 0;
}

static void neighbours_change_nothing(void **state)
{
    (void)state;
    const char *one = getenv("CERA_SEED");
    uint64_t first = one ? strtoull(one, NULL, 10) : 0, n_steps = 0, n_runs = 0;
    uint64_t n = one ? 1 : getenv("CERA_NIGHTLY") ? N_NIGHTLY : N_ROUNDS;
    for (running_seed = first; running_seed < first + n; running_seed++)
        play_round(running_seed, &n_steps, &n_runs);
    print_message("%llu rounds: %llu runs in %llu steps\n", (unsigned long long)n,
                  (unsigned long long)n_runs, (unsigned long long)n_steps);
    assert_true(n_runs > n_steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_its_sequences),
        cmocka_unit_test(steps_have_tokens_and_a_chunk),
        cmocka_unit_test(nobody_starves),
        cmocka_unit_test(who_waits_can_be_cancelled),
        cmocka_unit_test(who_is_busy_misses_no_step),
        cmocka_unit_test_teardown(neighbours_change_nothing, tell_seed),
    };
    return cmocka_run_group_tests(tests, build_models, drop_models);
}

#include "cli/bench_run.h"

#include "cli/interrupt.h"
#include "common/bytes.h"

#include <stdatomic.h>
#include <stdlib.h>

/* The lanes of a run with several wait here for each other, once they are filled. */
typedef struct gate {
    const bench_crew *crew;
    const cera_os *os;
    const bench_test *test;
    _Atomic uint32_t n_ready, is_open;
} gate;

typedef struct runner {
    gate *gate;
    bench_lane *lane;
    size_t n_tokens;
    void *thread;
} runner;

static uint64_t now_ns(const gate *g)
{
    return g->os->clock_ns(g->os->ctx);
}

/* ---- one session ------------------------------------------------------------------------- */

static int mark_token(void *user, const cera_token_info *token)
{
    runner *r = user;
    r->lane->chosen = token->id;
    r->lane->at_ns[r->n_tokens++] = now_ns(r->gate);
    return 0;
}

/* The choice of a token from the logits of a prompt, which is part of the time to the first one. */
static int32_t best_id(cera_session *session, int n_vocab)
{
    const float *logits = cera_session_logits(session);
    int32_t best = 0;
    for (int32_t i = 1; i < n_vocab; i++) {
        if (logits[i] > logits[best])
            best = i;
    }
    return best;
}

static void run_prompt(runner *r)
{
    bench_lane *lane = r->lane;
    const bench_test *test = r->gate->test;
    lane->status = cera_session_append_ids(lane->session, lane->ids + test->n_depth,
                                           (size_t)test->n_prompt, &lane->err);
    lane->end_ns = now_ns(r->gate);
    if (lane->status == CERA_OK)
        lane->chosen = best_id(lane->session, r->gate->crew->n_vocab);
    lane->at_ns[0] = now_ns(r->gate);
}

static void run_generation(runner *r)
{
    bench_lane *lane = r->lane;
    const bench_test *test = r->gate->test;
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.max_tokens = test->n_gen;
    options.temperature = 0.0f;
    options.ignore_eos = true;
    cera_sink sink = { .on_token = mark_token, .user = r };
    cera_summary summary = { .finish = CERA_FINISH_LENGTH };
    lane->status = cera_session_append_ids(lane->session, lane->ids + test->n_depth, 1, &lane->err);
    if (lane->status == CERA_OK)
        lane->status = cera_session_generate(lane->session, &options, &sink, &summary, &lane->err);
    if (lane->status == CERA_OK && summary.finish == CERA_FINISH_CANCELLED)
        lane->status = CERA_E_CANCELLED;
    /* Up to the last token, not to the end of the call, which computes one step more. */
    if (lane->status == CERA_OK)
        lane->end_ns = lane->at_ns[r->n_tokens - 1];
}

static void fill(runner *r)
{
    bench_lane *lane = r->lane;
    lane->status = CERA_OK;
    if (r->gate->test->n_depth > 0)
        lane->status = cera_session_append_ids(lane->session, lane->ids,
                                               (size_t)r->gate->test->n_depth, &lane->err);
}

static void work(runner *r)
{
    if (r->lane->status != CERA_OK)
        return;
    if (r->gate->test->n_prompt > 0)
        run_prompt(r);
    else
        run_generation(r);
}

/* ---- several ----------------------------------------------------------------------------- */

static void wait_for(const gate *g, const _Atomic uint32_t *word, uint32_t value)
{
    for (uint32_t seen; (seen = atomic_load(word)) < value;)
        g->os->wait(g->os->ctx, (const uint32_t *)word, seen);
}

static void add_one(const gate *g, _Atomic uint32_t *word)
{
    atomic_fetch_add(word, 1);
    g->os->wake(g->os->ctx, (const uint32_t *)word);
}

static void run_lane(void *arg)
{
    runner *r = arg;
    fill(r);
    add_one(r->gate, &r->gate->n_ready);
    wait_for(r->gate, &r->gate->is_open, 1);
    work(r);
}

/* Where a thread cannot be started the lanes that have one finish, and the run has failed. */
static void run_lanes(gate *g, runner *runners, int n, uint64_t *start_ns)
{
    int n_started = 0;
    while (n_started < n && g->os->thread_start(g->os->ctx, run_lane, &runners[n_started],
                                                &runners[n_started].thread) == 0)
        n_started++;
    wait_for(g, &g->n_ready, (uint32_t)n_started);
    *start_ns = now_ns(g);
    add_one(g, &g->is_open);
    for (int i = 0; i < n_started; i++)
        g->os->thread_join(g->os->ctx, runners[i].thread);
    if (n_started < n)
        runners[n_started].lane->status = CERA_E_NOMEM;
}

cera_status bench_run(const bench_crew *crew, const bench_test *test, uint64_t *start_ns,
                      cera_error *err)
{
    int n = test->n_parallel;
    bench_lane *lanes = crew->lanes;
    gate g = { .crew = crew, .os = &crew->host.os, .test = test };
    runner *runners = bytes_alloc((size_t)n, sizeof(runner));
    for (int i = 0; i < n; i++) {
        runners[i] = (runner){ .gate = &g, .lane = &lanes[i] };
        cera_session_reset(lanes[i].session);
        lanes[i].err = (cera_error){ CERA_E_NOMEM, "a thread could not be started" };
    }
    /* A signal between two runs has asked for a cancel that the reset has cleared. */
    cera_status status = interrupt_exit_code() != 0 ? CERA_E_CANCELLED : CERA_OK;
    if (status == CERA_OK && n == 1) {
        fill(&runners[0]);
        *start_ns = now_ns(&g);
        work(&runners[0]);
    } else if (status == CERA_OK) {
        run_lanes(&g, runners, n, start_ns);
    }
    for (int i = 0; i < n && status == CERA_OK; i++) {
        status = lanes[i].status;
        *err = lanes[i].err;
    }
    free(runners);
    return status;
}

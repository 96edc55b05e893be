/* What bounds a plan on this machine: how fast its workers can read the weights of a token when
 * they do nothing else, and how fast they can multiply when nothing has to be read.
 *
 * Both are measured like a run: the same workers, the same instruction sets, and for reading the
 * same bytes in the same order, with each worker at its own rows. Weights that fit a cache are thus
 * measured there, which is where a run finds them too. */
#include "backend/cpu/plan.h"

enum {
    LEAST_PASSES = 4, /* the first of them brings the pages in and wakes the clock */
    LEAST_NS = 100000000,
    MOST_PASSES = 4096,       /* of a clock that stands */
    MULTIPLY_ROUNDS = 100000, /* of a pass */
};

bool cr_plan_next_weight(const cr_plan *plan, int worker, cr_weight_walk *walk)
{
    const cr_graph *graph = plan->graph;
    for (; walk->op < graph->n_ops; walk->op++, walk->proj = 0) {
        const cr_op *op = &graph->ops[walk->op];
        const cr_proj *projs[CR_MAX_PROJS];
        if (walk->proj == cr_op_projs(op, projs))
            continue;
        const cr_routing *experts = cr_op_experts(op);
        walk->weight = projs[walk->proj++]->weight;
        walk->n_rows = walk->weight->n_rows;
        if (experts)
            walk->n_rows = walk->n_rows / (size_t)experts->n_expert * (size_t)experts->n_used;
        walk->is_of_result = walk->op >= graph->n_ops - graph->n_result_ops;
        cr_pool_share(plan->backend->pool, worker, walk->n_rows, 16, &walk->begin, &walk->end);
        return true;
    }
    return false;
}

typedef struct measurement {
    const cr_plan *plan;
    _Atomic uint64_t sum; /* of what was read or multiplied, so that nothing is left out */
} measurement;

static void read_weights(void *ctx, int worker)
{
    measurement *m = ctx;
    cr_weight_walk at = { 0 };
    uint64_t sum = 0;
    while (cr_plan_next_weight(m->plan, worker, &at))
        sum += m->plan->kernels->read_all(at.weight->data + at.begin * at.weight->row_bytes,
                                          (at.end - at.begin) * at.weight->row_bytes);
    atomic_fetch_add(&m->sum, sum);
}

static void multiply(void *ctx, int worker)
{
    measurement *m = ctx;
    uint8_t a[CR_PEAK_MACS];
    int8_t b[256];
    for (int i = 0; i < CR_PEAK_MACS; i++)
        a[i] = (uint8_t)((i + worker) % 128);
    for (int i = 0; i < 256; i++)
        b[i] = (int8_t)(i % 255 - 127);
    atomic_fetch_add(&m->sum, m->plan->kernels->multiply_int8(a, b, MULTIPLY_ROUNDS));
}

/* Seconds of the fastest pass. */
static double fastest(const cr_plan *plan, void (*work)(void *ctx, int worker))
{
    const cera_os *os = &plan->backend->host->os;
    measurement m = { .plan = plan };
    uint64_t best = UINT64_MAX, begin = os->clock_ns(os->ctx), now = begin;
    for (int i = 0; i < LEAST_PASSES || (now - begin < LEAST_NS && i < MOST_PASSES); i++) {
        uint64_t start = now;
        cr_pool_run(plan->backend->pool, work, &m);
        now = os->clock_ns(os->ctx);
        best = CR_MIN(best, now - start);
    }
    return (double)CR_MAX(best, (uint64_t)1) * 1e-9;
}

void cr_plan_roofline(cr_plan *plan, cera_roofline *out)
{
    *out = (cera_roofline){ 0 };
    for (cr_weight_walk at = { 0 }; cr_plan_next_weight(plan, 0, &at);) {
        uint64_t macs = (uint64_t)at.n_rows * at.weight->n_cols;
        out->token_bytes += (uint64_t)at.n_rows * at.weight->row_bytes;
        out->token_macs += macs;
        out->result_macs += at.is_of_result ? macs : 0;
    }
    int n_workers = cr_pool_width(plan->backend->pool);
    out->read_rate = (double)out->token_bytes / fastest(plan, read_weights);
    out->multiply_rate =
        (double)n_workers * CR_PEAK_MACS * MULTIPLY_ROUNDS / fastest(plan, multiply);
}

/* MOE_ROUTE, MOE_GATE_UP, MOE_DOWN: a feed-forward of many experts, of which each row uses a few.
 *
 *     p = softmax(router n) or sigmoid(router n)              n = norm(x)
 *     chosen: the n_used experts with the largest p + bias
 *     w = p of the chosen, perhaps over their sum, times a scale
 *     x += scale * sum over the chosen of w[e] * down[e](f(gate[e] n) * up[e] n)
 *
 * A batch is walked expert by expert: the rows that use one are projected together, so its weights
 * are read once for all of them, and an expert that no row uses is not read. A row's sum runs over
 * its experts in ascending order, whatever the other rows use. */
#include "backend/cpu/plan.h"

#include <math.h>
#include <string.h>

enum { ROUTE_TILE = 16 }; /* experts whose logits a worker computes at a time */

/* A sum of weights below this is taken as this: sigmoids may all be nearly 0. */
#define LEAST_SUM 0x1p-14f

/* ---- which experts ----------------------------------------------------------------------- */

static float exp_of_all(const cr_kernels *kernels, float *x, float max, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i += CR_KEY_CHUNK)
        sum += kernels->exp_sum(x + i, max, CR_MIN(n - i, (size_t)CR_KEY_CHUNK));
    return sum;
}

/* Logits become probabilities. */
static void gate(const cr_kernels *kernels, const cr_routing *routing, float *p)
{
    size_t n = (size_t)routing->n_expert;
    if (routing->gating == CR_GATING_SIGMOID) {
        for (size_t i = 0; i < n; i++)
            p[i] = -p[i];
        exp_of_all(kernels, p, 0, n);
        for (size_t i = 0; i < n; i++)
            p[i] = 1.0f / (1.0f + p[i]);
        return;
    }
    float max = p[0];
    for (size_t i = 1; i < n; i++)
        max = CR_MAX(max, p[i]);
    float sum = exp_of_all(kernels, p, max, n);
    for (size_t i = 0; i < n; i++)
        p[i] /= sum;
}

/* A NaN comes first, so that it shows. */
static bool is_better(float a, float b)
{
    return isnan(a) ? !isnan(b) : a > b;
}

/* Writes the numbers of the experts with the largest p + bias, best first; of equals the lower one.
 * Always so many different ones, whatever p holds. */
static void choose(const cr_routing *routing, const float *p, const float *bias, float *chosen)
{
    int n = 0;
    for (int e = 0; e < routing->n_expert; e++) {
        float score = p[e] + (bias ? bias[e] : 0);
        int at = n;
        for (; at > 0; at--) {
            int other = (int)chosen[at - 1];
            if (!is_better(score, p[other] + (bias ? bias[other] : 0)))
                break;
        }
        if (at == routing->n_used)
            continue;
        n = CR_MIN(n + 1, routing->n_used);
        memmove(chosen + at + 1, chosen + at, (size_t)(n - 1 - at) * sizeof *chosen);
        chosen[at] = (float)e;
    }
}

static void route_row(const cr_plan *plan, const cr_op *op, int row)
{
    const cr_routing *routing = &op->u.moe_route.routing;
    const cr_weight *bias = op->u.moe_route.bias;
    float *p = cr_plan_value(plan, op->mid, row);
    float *weights = cr_plan_value(plan, op->out, row), *chosen = weights + routing->n_used;
    gate(plan->kernels, routing, p);
    choose(routing, p, bias ? cr_weight_f32(bias) : NULL, chosen);

    float sum = 0;
    for (int i = 0; i < routing->n_used; i++) {
        weights[i] = p[(int)chosen[i]];
        sum += weights[i];
    }
    float divisor = routing->normalized ? CR_MAX(sum, LEAST_SUM) : 1.0f;
    for (int i = 0; i < routing->n_used; i++)
        weights[i] = weights[i] / divisor * routing->scale;
}

/* Pieces of work are tiles of experts, rows within them: one row keeps all workers busy, and many
 * rows share what is read. */
void cr_op_moe_route(cr_plan *plan, const cr_op *op, int worker)
{
    const cr_proj *router = &op->u.moe_route.router;
    int n_rows = plan->n_rows;
    cr_input input = cr_plan_input(plan, worker, op, &op->u.moe_route.norm, NULL, n_rows);
    size_t n_expert = router->weight->n_rows, begin, end;
    size_t n_tiles = (n_expert + ROUTE_TILE - 1) / ROUTE_TILE;
    cr_pool_share(plan->backend->pool, worker, n_tiles * (size_t)n_rows, 1, &begin, &end);
    for (size_t i = begin; i < end && !cr_plan_stopped(plan);) {
        size_t first = i / (size_t)n_rows * ROUTE_TILE;
        cr_band band = cr_band_at((int)(i % (size_t)n_rows), n_rows);
        band.n = (int)CR_MIN((size_t)band.n, end - i);
        cr_plan_project(plan, worker, router, first, CR_MIN(n_expert - first, (size_t)ROUTE_TILE),
                        &input, band, cr_plan_value(plan, op->mid, band.row) + first,
                        plan->graph->row_floats);
        i += (size_t)band.n;
    }
    cr_pool_barrier(plan->backend->pool);
    /* Also when the run is to end early: the ops behind this one index by what it writes. */
    cr_pool_share(plan->backend->pool, worker, (size_t)n_rows, 1, &begin, &end);
    for (size_t row = begin; row < end; row++)
        route_row(plan, op, (int)row);
}

/* ---- rows by expert ---------------------------------------------------------------------- */

/* The choices of a batch: number row * n_used + i is the i-th of a row. Those of expert e are
 * choices[begin[e]] to choices[begin[e + 1] - 1], ascending. */
typedef struct by_expert {
    int32_t *begin;   /* [n_expert + 1] */
    int32_t *choices; /* [n_rows * n_used] */
} by_expert;

size_t cr_plan_moe_bytes(const cr_routing *routing, int max_rows)
{
    size_t n_choices = (size_t)max_rows * (size_t)routing->n_used;
    return ((size_t)routing->n_expert + 1 + n_choices) * sizeof(int32_t);
}

/* Sorts by counting. Every worker does so for itself: that is faster than to wait for one. */
static by_expert sort_choices(const cr_plan *plan, int worker, const cr_op *op,
                              const cr_routing *routing)
{
    int n_used = routing->n_used, n_rows = plan->n_rows;
    float *memory = cr_plan_scratch(plan, worker) + 2 * CR_BAND * CR_TILE;
    by_expert sorted = { .begin = (int32_t *)(void *)memory };
    sorted.choices = sorted.begin + routing->n_expert + 1;
    memset(sorted.begin, 0, ((size_t)routing->n_expert + 1) * sizeof *sorted.begin);
    for (int row = 0; row < n_rows; row++) {
        const float *chosen = cr_plan_value(plan, op->mid, row) + n_used;
        for (int i = 0; i < n_used; i++)
            sorted.begin[(int)chosen[i]]++;
    }
    for (int e = 1; e <= routing->n_expert; e++)
        sorted.begin[e] += sorted.begin[e - 1];
    for (int row = n_rows - 1; row >= 0; row--) {
        const float *chosen = cr_plan_value(plan, op->mid, row) + n_used;
        for (int i = n_used - 1; i >= 0; i--)
            sorted.choices[--sorted.begin[(int)chosen[i]]] = row * n_used + i;
    }
    return sorted;
}

/* ---- the experts ------------------------------------------------------------------------- */

/* Some output rows of one expert, for a band of the choices that fell on it. */
typedef struct tile {
    const cr_op *op;
    const cr_input *input;
    const int32_t *choices;
    cr_band band; /* of the choices */
    int expert;
    size_t first, n; /* of the expert's output rows */
} tile;

static void gate_up_tile(cr_plan *plan, int worker, const tile *t)
{
    const cr_op *op = t->op;
    const cr_proj *gate_proj = &op->u.moe_gate_up.gate;
    int n_used = op->u.moe_gate_up.routing.n_used;
    size_t n_ff = (size_t)op->u.moe_gate_up.routing.n_ff;
    size_t first = (size_t)t->expert * n_ff + t->first;
    cr_gate_mul *gate_mul = plan->kernels->gate_mul[op->u.moe_gate_up.function];
    float *g = cr_plan_scratch(plan, worker), *u = g + CR_BAND * CR_TILE;

    cr_band band = t->band;
    band.list = t->choices;
    cr_plan_project(plan, worker, gate_proj, first, t->n, t->input, band, g, CR_TILE);
    cr_plan_project(plan, worker, &op->u.moe_gate_up.up, first, t->n, t->input, band, u, CR_TILE);
    for (int i = 0; i < band.n; i++) {
        int choice = t->choices[band.row + i];
        size_t part = (size_t)(choice % n_used);
        gate_mul(cr_plan_value(plan, op->out, choice / n_used) + part * cr_graph_padded(n_ff) +
                     t->first,
                 g + (size_t)i * CR_TILE, u + (size_t)i * CR_TILE, t->n);
    }
}

static void down_tile(cr_plan *plan, int worker, const tile *t)
{
    const cr_op *op = t->op;
    int n_used = op->u.moe_down.routing.n_used;
    size_t n_embd = plan->graph->values[op->out].width;
    float *y = cr_plan_scratch(plan, worker);
    cr_band band = t->band;
    band.list = t->choices;
    cr_plan_project(plan, worker, &op->u.moe_down.proj, (size_t)t->expert * n_embd + t->first, t->n,
                    t->input, band, y, CR_TILE);
    for (int i = 0; i < band.n; i++) {
        int choice = t->choices[band.row + i], row = choice / n_used;
        float weight = cr_plan_value(plan, op->mid, row)[choice % n_used];
        plan->kernels->add_scaled(cr_plan_value(plan, op->out, row) + t->first,
                                  y + (size_t)i * CR_TILE, op->u.moe_down.scale * weight, t->n);
    }
}

/* Every tile of the experts in use: a worker has the same share of n_out output rows of each. */
static void walk_experts(cr_plan *plan, int worker, const cr_routing *routing, size_t n_out,
                         tile *t, void (*compute)(cr_plan *plan, int worker, const tile *t))
{
    by_expert sorted = sort_choices(plan, worker, t->op, routing);
    t->choices = sorted.choices;
    size_t begin, end;
    cr_pool_share(plan->backend->pool, worker, n_out, 16, &begin, &end);
    for (t->expert = 0; t->expert < routing->n_expert; t->expert++) {
        int from = sorted.begin[t->expert], to = sorted.begin[t->expert + 1];
        for (t->first = begin; from < to && t->first < end; t->first += CR_TILE) {
            t->n = CR_MIN(end - t->first, (size_t)CR_TILE);
            if (cr_plan_stopped(plan))
                return;
            for (int at = from; at < to; at += CR_BAND) {
                t->band = cr_band_at(at, to);
                compute(plan, worker, t);
            }
        }
    }
}

/* part = function(gate(norm(in))) * up(norm(in)), a part for each expert that the row uses */
void cr_op_moe_gate_up(cr_plan *plan, const cr_op *op, int worker)
{
    const cr_routing *routing = &op->u.moe_gate_up.routing;
    cr_input input = cr_plan_input(plan, worker, op, &op->u.moe_gate_up.norm, NULL, plan->n_rows);
    tile t = { .op = op, .input = &input };
    walk_experts(plan, worker, routing, (size_t)routing->n_ff, &t, gate_up_tile);
}

/* out += scale * weight * proj(part), experts ascending */
void cr_op_moe_down(cr_plan *plan, const cr_op *op, int worker)
{
    const cr_routing *routing = &op->u.moe_down.routing;
    cr_input input = cr_plan_input_parts(plan, worker, op);
    tile t = { .op = op, .input = &input };
    walk_experts(plan, worker, routing, plan->graph->values[op->out].width, &t, down_tile);
}

/* Ops that are little more than a projection: EMBED, RESIDUAL, NORM_GATE_UP, HEAD. */
#include "backend/cpu/plan.h"

#include <string.h>

static void share(const cr_plan *plan, int worker, size_t n, size_t grain, size_t *begin,
                  size_t *end)
{
    cr_pool_share(plan->backend->pool, worker, n, grain, begin, end);
}

static void scale_all(float *x, float scale, size_t n)
{
    if (scale == 1.0f)
        return;
    for (size_t i = 0; i < n; i++)
        x[i] *= scale;
}

/* residual = scale * row token of the table */
void cr_op_embed(cr_plan *plan, const cr_op *op, int worker)
{
    const cr_weight *table = op->u.embed.table;
    const cr_type_info *type = cr_type_get(table->type);
    size_t begin, end;
    share(plan, worker, (size_t)plan->n_rows, 1, &begin, &end);
    for (size_t row = begin; row < end; row++) {
        size_t token = (size_t)plan->rows[row].token;
        float *x = cr_plan_value(plan, op->out, (int)row);
        type->dequantize(table->data + token * table->row_bytes, x, table->n_cols);
        if (plan->is_adapted)
            cr_plan_add_embedding(plan, op, (int)row, x);
        scale_all(x, op->u.embed.scale, table->n_cols);
    }
}

/* out += scale * norm(mid), rows of the batch split over the workers */
static void add_normed(cr_plan *plan, const cr_op *op, int worker)
{
    const cr_norm *norm = &op->u.residual.norm;
    size_t n = norm->weight->n_cols, begin, end;
    share(plan, worker, (size_t)plan->n_rows, 1, &begin, &end);
    for (size_t row = begin; row < end && !cr_plan_has_stopped(plan); row++) {
        float *y = cr_plan_value(plan, op->mid, (int)row);
        plan->kernels->rms_norm(y, y, cr_weight_f32(norm->weight), n, norm->eps);
        plan->kernels->add_scaled(cr_plan_value(plan, op->out, (int)row), y, op->u.residual.scale,
                                  n);
    }
}

/* out += scale * proj(in_norm(in)); with a norm, the projection waits in mid until its rows are
 * whole */
void cr_op_residual(cr_plan *plan, const cr_op *op, int worker)
{
    bool normed = op->u.residual.norm.weight != NULL;
    const cr_proj *proj = &op->u.residual.proj;
    int n_rows = plan->n_rows;
    cr_input input = cr_plan_input(plan, worker, op, &op->u.residual.in_norm, NULL, n_rows);
    float *y = cr_plan_scratch(plan, worker);
    cr_hand hand = cr_pool_deal(plan->backend->pool, worker, proj->weight->n_rows, 16);
    size_t first, n;
    while (!cr_plan_stopped(plan) && cr_hand_take(&hand, CR_TILE, &first, &n)) {
        for (int row = 0; row < n_rows; row += CR_BAND) {
            cr_band band = cr_band_at(row, n_rows);
            if (normed) {
                cr_plan_project(plan, worker, proj, first, n, &input, band,
                                cr_plan_value(plan, op->mid, row) + first, plan->graph->row_floats);
                continue;
            }
            cr_plan_project(plan, worker, proj, first, n, &input, band, y, CR_TILE);
            for (int i = 0; i < band.n; i++)
                plan->kernels->add_scaled(cr_plan_value(plan, op->out, row + i) + first,
                                          y + (size_t)i * CR_TILE, op->u.residual.scale, n);
        }
    }
    if (normed) {
        cr_pool_barrier(plan->backend->pool);
        add_normed(plan, op, worker);
    }
}

/* out = function(gate(norm(in))) * up(norm(in)) */
void cr_op_norm_gate_up(cr_plan *plan, const cr_op *op, int worker)
{
    const cr_proj *gate = &op->u.gate_up.gate, *up = &op->u.gate_up.up;
    int n_rows = plan->n_rows;
    cr_input input = cr_plan_input(plan, worker, op, &op->u.gate_up.norm, NULL, n_rows);
    cr_gate_mul *gate_mul = plan->kernels->gate_mul[op->u.gate_up.function];
    float *g = cr_plan_scratch(plan, worker), *u = g + CR_BAND * CR_TILE;
    cr_hand hand = cr_pool_deal(plan->backend->pool, worker, gate->weight->n_rows, 16);
    size_t first, n;
    while (!cr_plan_stopped(plan) && cr_hand_take(&hand, CR_TILE, &first, &n)) {
        for (int row = 0; row < n_rows; row += CR_BAND) {
            cr_band band = cr_band_at(row, n_rows);
            cr_plan_project(plan, worker, gate, first, n, &input, band, g, CR_TILE);
            cr_plan_project(plan, worker, up, first, n, &input, band, u, CR_TILE);
            for (int i = 0; i < band.n; i++)
                gate_mul(cr_plan_value(plan, op->out, row + i) + first, g + (size_t)i * CR_TILE,
                         u + (size_t)i * CR_TILE, n);
        }
    }
}

/* hidden = norm(in) for every row, logits = cap(scale * proj(norm(in))) for the rows that want
 * them */
void cr_op_head(cr_plan *plan, const cr_op *op, int worker)
{
    const cr_proj *proj = &op->u.head.proj;
    const cr_norm *norm = &op->u.head.norm;
    int n_logits = plan->n_logits;
    size_t begin, end;
    share(plan, worker, (size_t)plan->n_rows, 1, &begin, &end);
    for (size_t row = begin; row < end && !cr_plan_has_stopped(plan); row++) {
        if (plan->rows[row].hidden)
            plan->kernels->rms_norm(plan->rows[row].hidden, cr_plan_value(plan, op->in, (int)row),
                                    cr_weight_f32(norm->weight), plan->graph->n_embd, norm->eps);
    }
    if (n_logits == 0)
        return;
    cr_input input = cr_plan_input(plan, worker, op, norm, plan->logit_rows, n_logits);
    float *tile = cr_plan_scratch(plan, worker); /* rows go to different places from here */
    cr_hand hand = cr_pool_deal(plan->backend->pool, worker, plan->graph->n_vocab, 16);
    size_t first, n;
    while (!cr_plan_stopped(plan) && cr_hand_take(&hand, CR_TILE, &first, &n)) {
        for (int row = 0; row < n_logits; row += CR_BAND) {
            cr_band band = cr_band_at(row, n_logits);
            cr_plan_project(plan, worker, proj, first, n, &input, band, tile, CR_TILE);
            for (int i = 0; i < band.n; i++) {
                float *logits = tile + (size_t)i * CR_TILE;
                scale_all(logits, op->u.head.scale, n);
                if (op->u.head.cap > 0)
                    plan->kernels->soft_cap(logits, op->u.head.cap, n);
                memcpy(plan->rows[plan->logit_rows[row + i]].logits + first, logits,
                       n * sizeof *logits);
            }
        }
    }
}

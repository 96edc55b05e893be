/* The state-space mixer of Mamba-2: SSM_IN and SSM_SCAN. RESIDUAL, with a norm of its input, is its
 * third part.
 *
 *     z, u, step = in(norm(h))                  u is what the convolution takes: x, b and c
 *     x, b, c = silu(conv(u))                   each channel over its own last n_taps values
 *     step = softplus(step + step_bias)         a number for each head
 *     S[t] = exp(step decay) S[t - 1] + step x b^T      of each head: [channels][n_state]
 *     y = S[t] c + skip x
 *     h += out(norm(y silu(z)))                 the norm over each group of channels
 *
 * Dao and Gu, "Transformers are SSMs", 2024. That paper computes prompts in blocks; here tokens
 * pass one after another, so that a prompt gives the bits of decode whatever its chunks. Channels
 * of the convolution and heads of the recurrence are independent: workers split those. */
#include "backend/cpu/plan.h"

#include <math.h>
#include <string.h>

/* ---- SSM_IN ------------------------------------------------------------------------------ */

/* Channels [first, first + n) of the convolution, and their values that have not left it:
 * [n_taps][CR_TILE], the newest last. */
typedef struct conv_tile {
    const cr_op *op;
    const cr_kernels *kernels;
    size_t first, n;
    size_t n_taps, n_channels;
    float *window;
    const float *ones; /* [CR_TILE] */
} conv_tile;

/* The state of the convolution is [n_taps - 1][n_channels], oldest first. */
static void load_window(const conv_tile *tile, const float *state)
{
    for (size_t k = 0; k + 1 < tile->n_taps; k++)
        memcpy(tile->window + k * CR_TILE, state + k * tile->n_channels + tile->first,
               tile->n * sizeof *state);
}

static void save_window(const conv_tile *tile, float *state)
{
    for (size_t k = 0; k + 1 < tile->n_taps; k++)
        memcpy(state + k * tile->n_channels + tile->first, tile->window + k * CR_TILE,
               tile->n * sizeof *state);
}

/* u[n] of one token becomes silu(conv(u)). */
static void convolve(const conv_tile *tile, float *u)
{
    const cr_weight *bias = tile->op->u.ssm_in.taps_bias;
    const float *taps = cr_weight_f32(tile->op->u.ssm_in.taps) + tile->first * tile->n_taps;
    memcpy(tile->window + (tile->n_taps - 1) * CR_TILE, u, tile->n * sizeof *u);
    tile->kernels->convolve(u, tile->window, CR_TILE, taps, tile->n_taps,
                            bias ? cr_weight_f32(bias) + tile->first : NULL, tile->n);
    tile->kernels->gate_mul[CR_GATE_SILU](u, u, tile->ones, tile->n);
    memmove(tile->window, tile->window + CR_TILE, (tile->n_taps - 1) * CR_TILE * sizeof *u);
}

/* The projections of the tile stand in the op's output; they pass through the convolution in the
 * order of their positions. */
static void convolve_rows(cr_plan *plan, const conv_tile *tile)
{
    const cr_op *op = tile->op;
    const cr_state *state = &plan->graph->states[op->u.ssm_in.state];
    size_t at = (size_t)op->u.ssm_in.shape.n_inner + tile->first; /* behind z */
    int row = 0;
    for (int s = 0; s < plan->batch->n_seqs; s++) {
        const cr_batch_seq *seq = &plan->batch->seqs[s];
        load_window(tile, seq->state_in + state->offset);
        for (int i = 0; i < seq->n_rows; i++, row++)
            convolve(tile, cr_plan_value(plan, op->out, row) + at);
        save_window(tile, seq->state_out + state->offset);
    }
}

void cr_op_ssm_in(cr_plan *plan, const cr_op *op, int worker)
{
    const cr_proj *proj = &op->u.ssm_in.in;
    int n_rows = plan->n_rows;
    cr_input input = cr_plan_input(plan, worker, op, &op->u.ssm_in.norm, NULL, n_rows);
    float *ones = cr_plan_scratch(plan, worker);
    for (size_t i = 0; i < CR_TILE; i++)
        ones[i] = 1.0f;
    conv_tile tile = {
        .op = op,
        .kernels = plan->kernels,
        .n_taps = op->u.ssm_in.taps->n_cols,
        .n_channels = op->u.ssm_in.taps->n_rows,
        .window = ones + CR_TILE,
        .ones = ones,
    };
    size_t z_end = (size_t)op->u.ssm_in.shape.n_inner, conv_end = z_end + tile.n_channels;
    cr_hand hand = cr_pool_deal(plan->backend->pool, worker, proj->weight->n_rows, 16);
    size_t first, n;
    while (!cr_plan_stopped(plan) && cr_hand_take(&hand, CR_TILE, &first, &n)) {
        for (int row = 0; row < n_rows; row += CR_BAND)
            cr_plan_project(plan, worker, proj, first, n, &input, cr_band_at(row, n_rows),
                            cr_plan_value(plan, op->out, row) + first, plan->graph->row_floats);
        /* The part of the tile that the convolution takes, if any. */
        size_t conv_first = CR_MAX(first, z_end), conv_next = CR_MIN(first + n, conv_end);
        if (conv_first < conv_next) {
            tile.first = conv_first - z_end;
            tile.n = conv_next - conv_first;
            convolve_rows(plan, &tile);
        }
    }
}

/* ---- SSM_SCAN ---------------------------------------------------------------------------- */

/* log(1 + exp(v)), without overflow */
static float softplus(float v)
{
    return (float)(fmax((double)v, 0) + log1p(exp(-fabs((double)v))));
}

/* One token through head h: its channels of out, and the state after it from that before. */
static void scan_token(const cr_plan *plan, const cr_op *op, size_t h, const float *projected,
                       float *out, float *after, const float *before)
{
    const cr_ssm *ssm = &op->u.ssm_scan.shape;
    size_t n_inner = (size_t)ssm->n_inner, n_head = (size_t)ssm->n_head;
    size_t n_state = (size_t)ssm->n_state, n_group = (size_t)ssm->n_group;
    size_t n = n_inner / n_head, group = h / (n_head / n_group);
    const float *z = projected, *x = z + n_inner, *b = x + n_inner;
    const float *c = b + n_group * n_state, *step = c + n_group * n_state;

    cr_ssm_token token = {
        .x = x + h * n,
        .b = b + group * n_state,
        .c = c + group * n_state,
        .step = softplus(step[h] + cr_weight_f32(op->u.ssm_scan.step_bias)[h]),
        .skip = cr_weight_f32(op->u.ssm_scan.skip)[h],
        .n_channels = n,
        .n_state = n_state,
    };
    token.decay = (float)exp((double)(token.step * cr_weight_f32(op->u.ssm_scan.decay)[h]));
    plan->kernels->ssm_step(out + h * n, after, before, &token);
    plan->kernels->gate_mul[CR_GATE_SILU](out + h * n, z + h * n, out + h * n, n);
}

static void scan_head(const cr_plan *plan, const cr_op *op, size_t h)
{
    const cr_ssm *ssm = &op->u.ssm_scan.shape;
    size_t n = (size_t)ssm->n_inner / (size_t)ssm->n_head * (size_t)ssm->n_state;
    size_t at = plan->graph->states[op->u.ssm_scan.state].offset + h * n;
    int row = 0;
    for (int s = 0; s < plan->batch->n_seqs; s++) {
        const cr_batch_seq *seq = &plan->batch->seqs[s];
        float *after = seq->state_out + at;
        const float *before = seq->state_in + at;
        for (int i = 0; i < seq->n_rows; i++, row++, before = after)
            scan_token(plan, op, h, cr_plan_value(plan, op->in, row),
                       cr_plan_value(plan, op->out, row), after, before);
    }
}

void cr_op_ssm_scan(cr_plan *plan, const cr_op *op, int worker)
{
    size_t begin, end;
    cr_pool_share(plan->backend->pool, worker, (size_t)op->u.ssm_scan.shape.n_head, 1, &begin,
                  &end);
    for (size_t h = begin; h < end && !cr_plan_stopped(plan); h++)
        scan_head(plan, op, h);
}

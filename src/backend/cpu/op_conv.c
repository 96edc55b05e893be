/* CONV_IN: the gated short convolution of lfm2.
 *
 *     b, c, x = in(norm(h));  u = b * x;  y[t] = sum over k of taps[k] * u[t - n_taps + 1 + k];
 *     out = c * y
 *
 * Each channel is independent of the others, so workers split channels and walk the rows of a
 * sequence in order. The state of a sequence is its last n_taps - 1 values of u, oldest first,
 * [n_taps - 1][n_embd]; it is read from state_in and written to state_out, and to page_states
 * behind the last rows of pages. */
#include "backend/cpu/plan.h"

#include <string.h>

/* A tile of channels and the window of u it looks at: [n_taps][CR_TILE], the newest last. */
typedef struct conv_tile {
    const cr_op *op;
    cr_convolve *convolve;
    size_t first, n; /* channels */
    size_t n_taps, n_embd;
    float *parts; /* [3][CR_BAND][CR_TILE]: b, c, x */
    float *window;
} conv_tile;

static void load_state(const conv_tile *tile, const float *state)
{
    for (size_t k = 0; k + 1 < tile->n_taps; k++)
        memcpy(tile->window + k * CR_TILE, state + k * tile->n_embd + tile->first,
               tile->n * sizeof *state);
}

static void save_state(const conv_tile *tile, float *state)
{
    for (size_t k = 0; k + 1 < tile->n_taps; k++)
        memcpy(state + k * tile->n_embd + tile->first, tile->window + k * CR_TILE,
               tile->n * sizeof *state);
}

/* Row i of the band. */
static void convolve(const conv_tile *tile, int i_row, float *out)
{
    const float *taps = cr_weight_f32(tile->op->u.conv.taps) + tile->first * tile->n_taps;
    const float *b = tile->parts + (size_t)i_row * CR_TILE;
    const float *c = b + CR_BAND * CR_TILE, *x = c + CR_BAND * CR_TILE;
    float *newest = tile->window + (tile->n_taps - 1) * CR_TILE;
    for (size_t i = 0; i < tile->n; i++)
        newest[i] = b[i] * x[i];
    tile->convolve(out, tile->window, CR_TILE, taps, tile->n_taps, NULL, tile->n);
    for (size_t i = 0; i < tile->n; i++)
        out[i] *= c[i];
    memmove(tile->window, tile->window + CR_TILE, (tile->n_taps - 1) * CR_TILE * sizeof *b);
}

/* Where the state behind row i of a sequence is wanted, or NULL. */
static float *page_state(const cr_batch_seq *seq, int i)
{
    int next = seq->n_past + i + 1;
    if (!seq->page_states || next % CR_PAGE != 0)
        return NULL;
    return seq->page_states[next / CR_PAGE - 1 - seq->n_past / CR_PAGE];
}

static void run_tile(cr_plan *plan, int worker, const conv_tile *tile, const cr_input *input)
{
    const cr_op *op = tile->op;
    const cr_state *state = &plan->graph->states[op->u.conv.state];
    int row = 0;
    cr_band band = { 0 };
    for (int s = 0; s < plan->batch->n_seqs; s++) {
        const cr_batch_seq *seq = &plan->batch->seqs[s];
        load_state(tile, seq->state_in + state->offset);
        for (int i = 0; i < seq->n_rows; i++, row++) {
            if (row == band.row + band.n) {
                band = cr_band_at(row, plan->n_rows);
                for (size_t part = 0; part < 3; part++)
                    cr_plan_project(plan, worker, &op->u.conv.in, part * tile->n_embd + tile->first,
                                    tile->n, input, band, tile->parts + part * CR_BAND * CR_TILE,
                                    CR_TILE);
            }
            convolve(tile, row - band.row, cr_plan_value(plan, op->out, row) + tile->first);
            float *at_page = page_state(seq, i);
            if (at_page)
                save_state(tile, at_page + state->offset);
        }
        save_state(tile, seq->state_out + state->offset);
    }
}

void cr_op_conv_in(cr_plan *plan, const cr_op *op, int worker)
{
    cr_input input = cr_plan_input(plan, worker, op, &op->u.conv.norm, NULL, plan->n_rows);
    float *scratch = cr_plan_scratch(plan, worker);
    conv_tile tile = {
        .op = op,
        .convolve = plan->kernels->convolve,
        .n_taps = op->u.conv.taps->n_cols,
        .n_embd = plan->graph->n_embd,
        .parts = scratch,
        .window = scratch + 3 * CR_BAND * CR_TILE,
    };
    cr_hand hand = cr_pool_deal(plan->backend->pool, worker, tile.n_embd, 16);
    while (!cr_plan_stopped(plan) && cr_hand_take(&hand, CR_TILE, &tile.first, &tile.n))
        run_tile(plan, worker, &tile, &input);
}

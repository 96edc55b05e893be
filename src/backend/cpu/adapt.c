/* What adapters add to projections, and to the residual stream.
 *
 *     z = scale * (A x)      when an op has its input: A's rows split over the workers, who then meet
 *     y += B z               behind each projection, by the worker who has y, strip by strip of B
 *
 * Both are sums in one order: A x is a row times the float activations as for any float weight, with
 * the same bits at all levels; an output then is fma(z[j], b[j], y), j ascending, adapter after
 * adapter in the order of the list. So a row's result depends on its own adapters alone. */
#include "backend/cpu/plan.h"

#include <string.h>

typedef struct reducer {
    const cr_plan *plan;
    const cr_input *input;
    int worker;
    int first, n; /* inputs that have the same adapters and the same A */
    size_t part, expert;
} reducer;

/* A worker's rows of A times the inputs. */
static void reduce(const reducer *r, const cr_adaptation *adapt, const cr_addend *addend)
{
    const cr_plan *plan = r->plan;
    const cr_delta *delta = addend->delta;
    size_t rank = (size_t)delta->rank, begin, end;
    cr_pool_share(plan->backend->pool, r->worker, rank, 1, &begin, &end);
    if (begin == end)
        return;
    size_t at = (size_t)addend->at + r->part * rank + begin;
    for (int done = 0; done < r->n; done += CR_BAND) {
        int first = r->first + done;
        cr_band band = { .row = first, .n = CR_MIN(r->n - done, CR_BAND) };
        float *z = plan->rows[cr_input_of(r->input, first)].reduced + at;
        cr_plan_multiply(plan, &plan->backend->whole, r->worker, &delta->a,
                         r->expert * rank + begin, end - begin, r->input, band, z,
                         adapt->row_floats);
        for (int i = 0; i < band.n; i++)
            for (size_t j = 0; j < end - begin; j++)
                z[(size_t)i * adapt->row_floats + j] *= addend->scale;
    }
}

/* How many inputs from `first` on, of n, are of rows of one sequence that follow each other. */
static int run_of(const cr_plan *plan, const cr_input *input, int first, int n)
{
    int row = cr_input_of(input, first), i = first + 1;
    while (i < n && cr_input_of(input, i) == row + i - first &&
           plan->rows[row + i - first].seq == plan->rows[row].seq)
        i++;
    return i - first;
}

void cr_plan_reduce(cr_plan *plan, int worker, const cr_op *op, const cr_input *input, int n)
{
    if (!plan->is_adapted)
        return;
    const cr_proj *projs[CR_MAX_PROJS];
    const cr_routing *experts = cr_op_experts(op);
    int n_projs = cr_op_projs(op, projs), n_reduced = 0;
    reducer r = { .plan = plan, .input = input, .worker = worker };
    for (; r.first < n; r.first += r.n) {
        int row = cr_input_of(input, r.first);
        const cr_adaptation *adapt = plan->rows[row].adapt;
        r.n = experts ? 1 : run_of(plan, input, r.first, n);
        if (experts) {
            r.part = (size_t)(r.first % experts->n_used);
            r.expert = (size_t)cr_plan_value(plan, op->mid, row)[(size_t)experts->n_used + r.part];
        }
        for (int p = 0; p < n_projs && adapt; p++) {
            int slot = projs[p]->slot;
            for (int i = adapt->first[slot]; i < adapt->first[slot + 1]; i++, n_reduced++)
                reduce(&r, adapt, &adapt->addends[i]);
        }
    }
    if (n_reduced > 0)
        cr_pool_barrier(plan->backend->pool);
}

/* The strip of B that output `first` of the projection is in, its bytes, and the outputs before that one
 * in it. */
static const uint8_t *strip_of(const cr_delta *delta, size_t first, size_t *bytes,
                               size_t *n_skipped)
{
    size_t expert = first / delta->n_rows, at = first % delta->n_rows;
    *bytes = cr_type_bytes(cr_type_get(delta->b_type), (size_t)delta->rank * CR_STRIP);
    *n_skipped = at % CR_STRIP;
    return delta->b + expert * cr_delta_b_bytes(delta) + at / CR_STRIP * *bytes;
}

/* y[0, n) += outputs [first, first + n) of B z */
static void expand(const cr_kernels *kernels, const cr_delta *delta, const float *z, size_t first,
                   size_t n, float *y)
{
    cr_mix_values *mix = kernels->mix_values[delta->b_type];
    size_t rank = (size_t)delta->rank, strip, skipped;
    const uint8_t *b = strip_of(delta, first, &strip, &skipped);
    for (size_t done = 0; done < n; b += strip, skipped = 0) {
        size_t some = CR_MIN(CR_STRIP - skipped, n - done);
        if (some == CR_STRIP) {
            mix(y + done, z, b, CR_STRIP, rank);
        } else {
            float part[CR_STRIP] = { 0 };
            memcpy(part + skipped, y + done, some * sizeof *y);
            mix(part, z, b, CR_STRIP, rank);
            memcpy(y + done, part + skipped, some * sizeof *y);
        }
        done += some;
    }
}

void cr_plan_fetch(const cr_plan *plan, const cr_proj *proj, size_t first, size_t n,
                   const cr_input *input, cr_band band)
{
    enum { LINE = 64 };
    int at = cr_band_input(band, 0);
    const cr_adaptation *adapt = plan->rows[cr_input_of(input, at)].adapt;
    if (!adapt)
        return;
    for (int k = adapt->first[proj->slot]; k < adapt->first[proj->slot + 1]; k++) {
        const cr_delta *delta = adapt->addends[k].delta;
        size_t strip, n_skipped;
        const uint8_t *b = strip_of(delta, first, &strip, &n_skipped);
        size_t end = (n_skipped + n + CR_STRIP - 1) / CR_STRIP * strip;
        for (size_t line = 0; line < end; line += LINE)
            CR_PREFETCH(b + line);
    }
}

void cr_plan_add(const cr_plan *plan, const cr_proj *proj, size_t first, size_t n,
                 const cr_input *input, cr_band band, float *y, size_t y_stride)
{
    for (int i = 0; i < band.n; i++) {
        int at = cr_band_input(band, i);
        const cr_row *row = &plan->rows[cr_input_of(input, at)];
        if (!row->adapt)
            continue;
        size_t part = (size_t)at % input->n_parts;
        for (int k = row->adapt->first[proj->slot]; k < row->adapt->first[proj->slot + 1]; k++) {
            const cr_addend *addend = &row->adapt->addends[k];
            expand(plan->kernels, addend->delta,
                   row->reduced + (size_t)addend->at + part * (size_t)addend->delta->rank, first, n,
                   y + (size_t)i * y_stride);
        }
    }
}

void cr_plan_add_embedding(const cr_plan *plan, const cr_op *op, int row, float *x)
{
    const cr_adaptation *adapt = plan->rows[row].adapt;
    int slot = op->u.embed.slot;
    for (int k = adapt ? adapt->first[slot] : 0; adapt && k < adapt->first[slot + 1]; k++) {
        const cr_delta *delta = adapt->addends[k].delta;
        float *z = plan->rows[row].reduced + adapt->addends[k].at;
        size_t rank = (size_t)delta->rank;
        size_t token = (size_t)plan->rows[row].token;
        cr_type_get(delta->a.type)->dequantize(delta->a.data + token * delta->a.row_bytes, z, rank);
        for (size_t j = 0; j < rank; j++)
            z[j] *= adapt->addends[k].scale;
        expand(plan->kernels, delta, z, 0, delta->n_rows, x);
    }
}

static const float *direction_of(const cr_plan *plan, int row, int layer)
{
    const cr_adaptation *adapt = plan->rows[row].adapt;
    return adapt && adapt->directions ? adapt->directions[layer] : NULL;
}

void cr_plan_steer(cr_plan *plan, int worker, const cr_op *op)
{
    if (op->layer < 0 || op[1].layer == op->layer) /* the head is behind the last one */
        return;
    bool steers = false;
    for (int row = 0; row < plan->n_rows && !steers; row++)
        steers = direction_of(plan, row, op->layer) != NULL;
    if (!steers)
        return;
    size_t begin, end;
    cr_pool_share(plan->backend->pool, worker, (size_t)plan->n_rows, 1, &begin, &end);
    for (size_t row = begin; row < end; row++) {
        const float *direction = direction_of(plan, (int)row, op->layer);
        float *x = cr_plan_value(plan, op->out, (int)row);
        for (size_t i = 0; direction && i < plan->graph->n_embd; i++)
            x[i] += direction[i];
    }
    cr_pool_barrier(plan->backend->pool);
}

/* Making and running CPU plans. */
#include "backend/cpu/plan.h"

#include "base/arith.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static cr_op_run *const runs[CR_OP_COUNT] = {
    [CR_OP_EMBED] = cr_op_embed,         [CR_OP_NORM_QKV] = cr_op_norm_qkv,
    [CR_OP_ATTEND] = cr_op_attend,       [CR_OP_CONV_IN] = cr_op_conv_in,
    [CR_OP_SSM_IN] = cr_op_ssm_in,       [CR_OP_SSM_SCAN] = cr_op_ssm_scan,
    [CR_OP_RESIDUAL] = cr_op_residual,   [CR_OP_NORM_GATE_UP] = cr_op_norm_gate_up,
    [CR_OP_MOE_ROUTE] = cr_op_moe_route, [CR_OP_MOE_GATE_UP] = cr_op_moe_gate_up,
    [CR_OP_MOE_DOWN] = cr_op_moe_down,   [CR_OP_HEAD] = cr_op_head,
};

/* ---- what the ops share ------------------------------------------------------------------ */

float *cr_plan_scratch(const cr_plan *plan, int worker)
{
    uint8_t *local = plan->local + (size_t)worker * plan->local_bytes;
    return (float *)(void *)(local + CR_LOCAL_ROWS * plan->act_bytes);
}

/* [CR_BAND], of the worker alone. Not on the stack, where compilers that clear variables would
 * clear all of it for each tile of a single row. */
static cr_act *band_rows(const cr_plan *plan, int worker)
{
    return (cr_act *)(void *)(cr_plan_scratch(plan, worker) + plan->scratch_floats);
}

/* Bytes for matmul kernels, of the worker alone. */
static void *panel_of(const cr_plan *plan, int worker)
{
    return band_rows(plan, worker) + CR_BAND;
}

bool cr_plan_stopped(cr_plan *plan)
{
    for (int s = 0; s < plan->batch->n_seqs; s++) {
        const atomic_int *cancel = plan->batch->seqs[s].cancel;
        if (cancel && atomic_load_explicit(cancel, memory_order_relaxed))
            atomic_store_explicit(&plan->stopped, 1, memory_order_relaxed);
    }
    return cr_plan_has_stopped(plan);
}

static size_t n_blocks(size_t width)
{
    return (width + CR_ACT_BLOCK - 1) / CR_ACT_BLOCK;
}

cr_act cr_input_row(const cr_input *input, int i)
{
    size_t row = (size_t)i, part = 0;
    if (input->n_parts > 1) { /* divisions would show in profiles */
        part = row % input->n_parts;
        row /= input->n_parts;
    }
    uint8_t *at = input->acts + row * input->act_bytes + part * input->part_bytes;
    cr_act act = cr_act_at(at, input->width);
    act.prefetch = input->prefetch;
    if (input->packed || input->split) {
        const size_t group = (size_t)i / CR_LANES * n_blocks(input->width);
        act.packed = input->packed ? input->packed + group : NULL;
        act.split = input->split ? input->split + group : NULL;
        act.lane = (size_t)i % CR_LANES;
    }
    if (input->source) {
        if (input->rows)
            row = (size_t)input->rows[i];
        const float *source =
            input->source + row * input->source_stride + part * input->part_floats;
        /* Kernels only read f; the field is not const because quantize fills the same struct. */
        act.f = (float *)(uintptr_t)source;
    }
    return act;
}

/* How the projections of an op read activations. */
typedef enum act_form { FORM_FLOATS, FORM_SPLIT, FORM_INT8 } act_form;

static void prepare_row(cr_plan *plan, const cr_input *input, int in, const cr_norm *norm, int i,
                        act_form form)
{
    cr_act act = cr_input_row(input, i);
    if (norm) {
        const float *x = cr_plan_value(plan, in, input->rows ? input->rows[i] : i);
        const float *w = cr_weight_f32(norm->weight);
        size_t n = norm->weight->n_cols; /* all, or a group */
        for (size_t at = 0; at < input->width; at += n)
            plan->kernels->rms_norm(act.f + at, x + at, w + at, n, norm->eps);
    }
    if (form == FORM_INT8)
        plan->kernels->quantize(&act);
    if (act.packed)
        plan->kernels->pack(&act);
    if (act.split)
        plan->kernels->split(&act);
}

/* Prepares n rows: each worker all of them for itself, or some for all workers. Experts choose their
 * rows, so these are not packed: kernels of tiles want rows that follow each other. */
static void prepare(cr_plan *plan, int worker, cr_input *input, int in, const cr_norm *norm, int n,
                    act_form form, bool of_experts)
{
    size_t n_inputs = (size_t)n * input->n_parts;
    const bool is_local = n <= CR_LOCAL_ROWS, packs = !is_local && !of_experts;
    if (form == FORM_SPLIT && !packs)
        form = FORM_FLOATS;
    if (!norm && form == FORM_FLOATS)
        return;
    if (is_local) {
        input->acts = plan->local + (size_t)worker * plan->local_bytes;
        for (size_t i = 0; i < n_inputs; i++)
            prepare_row(plan, input, in, norm, (int)i, form);
        return;
    }
    if (form == FORM_INT8 && packs && plan->kernels->pack)
        input->packed = (cr_packed *)(void *)plan->packed;
    if (form == FORM_SPLIT)
        input->split = (cr_split_block *)(void *)plan->packed;
    size_t begin, end;
    cr_pool_share(plan->backend->pool, worker, n_inputs, 1, &begin, &end);
    for (size_t i = begin; i < end && !cr_plan_has_stopped(plan); i++)
        prepare_row(plan, input, in, norm, (int)i, form);
    cr_pool_barrier(plan->backend->pool);
}

/* That of the op, if one of its projections wants it. */
static act_form form_of(const cr_kernels *kernels, const cr_op *op)
{
    const cr_proj *projs[CR_MAX_PROJS];
    int n = cr_op_projs(op, projs);
    act_form most = FORM_FLOATS;
    for (int i = 0; i < n; i++) {
        const cr_type type = projs[i]->weight->type;
        const act_form wanted = cr_kernels_int8(type)
                                    ? FORM_INT8
                                    : (cr_kernels_splits(kernels, type) ? FORM_SPLIT : FORM_FLOATS);
        most = CR_MAX(most, wanted);
    }
    return most;
}

cr_input cr_plan_input(cr_plan *plan, int worker, const cr_op *op, const cr_norm *norm,
                       const int32_t *rows, int n)
{
    if (norm && !norm->weight)
        norm = NULL;
    cr_input input = {
        .acts = plan->shared,
        .act_bytes = plan->act_bytes,
        .source = norm ? NULL : cr_plan_value(plan, op->in, 0),
        .source_stride = plan->graph->row_floats,
        .rows = rows,
        .width = plan->graph->values[op->in].width,
        .prefetch = plan->backend->prefetch,
        .n_parts = 1,
    };
    const cr_routing *experts = cr_op_experts(op);
    prepare(plan, worker, &input, op->in, norm, n, form_of(plan->kernels, op), experts != NULL);
    if (experts)
        input.n_parts = (size_t)experts->n_used;
    cr_plan_reduce(plan, worker, op, &input, n * (int)input.n_parts);
    return input;
}

cr_input cr_plan_input_parts(cr_plan *plan, int worker, const cr_op *op)
{
    const cr_routing *experts = cr_op_experts(op);
    size_t width = (size_t)experts->n_ff;
    cr_input input = {
        .acts = plan->shared,
        .act_bytes = plan->act_bytes,
        .source = cr_plan_value(plan, op->in, 0),
        .source_stride = plan->graph->row_floats,
        .width = width,
        .prefetch = plan->backend->prefetch,
        .n_parts = (size_t)experts->n_used,
        .part_floats = cr_graph_padded(width),
        .part_bytes = cr_act_bytes(width),
    };
    int n = plan->n_rows;
    prepare(plan, worker, &input, op->in, NULL, n, form_of(plan->kernels, op), true);
    cr_plan_reduce(plan, worker, op, &input, n * experts->n_used);
    return input;
}

void cr_plan_multiply(const cr_plan *plan, const cr_kernels *kernels, int worker,
                      const cr_weight *w, size_t first, size_t n, const cr_input *input,
                      cr_band band, float *y, size_t y_stride)
{
    cr_act *x = band_rows(plan, worker);
    for (int i = 0; i < band.n; i++)
        x[i] = cr_input_row(input, cr_band_input(band, i));
    cr_kernels_multiply(kernels, w->type, y, y_stride, w->data + first * w->row_bytes, w->row_bytes,
                        n, x, (size_t)band.n, panel_of(plan, worker));
}

void cr_plan_project(const cr_plan *plan, int worker, const cr_proj *proj, size_t first, size_t n,
                     const cr_input *input, cr_band band, float *y, size_t y_stride)
{
    if (plan->is_adapted)
        cr_plan_fetch(plan, proj, first, n, input, band);
    cr_plan_multiply(plan, plan->kernels, worker, proj->weight, first, n, input, band, y, y_stride);
    const float *bias = proj->bias ? cr_weight_f32(proj->bias) + first : NULL;
    for (int i = 0; i < band.n && bias; i++)
        for (size_t r = 0; r < n; r++)
            y[(size_t)i * y_stride + r] += bias[r];
    if (plan->is_adapted)
        cr_plan_add(plan, proj, first, n, input, band, y, y_stride);
}

/* ---- making a plan ----------------------------------------------------------------------- */

static size_t widest_value(const cr_graph *graph)
{
    size_t widest = 1;
    for (int i = 0; i < graph->n_values; i++)
        widest = CR_MAX(widest, graph->values[i].width);
    return widest;
}

/* Of one row of any value as matrix kernels read it, in one part or in several. */
static size_t act_bytes(const cr_graph *graph)
{
    size_t most = cr_act_bytes(widest_value(graph));
    for (int i = 0; i < graph->n_ops; i++) {
        const cr_op *op = &graph->ops[i];
        if (op->kind == CR_OP_MOE_DOWN)
            most = CR_MAX(most, (size_t)op->u.moe_down.routing.n_used *
                                    cr_act_bytes((size_t)op->u.moe_down.routing.n_ff));
    }
    return most;
}

/* Of a block of rows as kernels of tiles want them. */
static size_t packed_bytes(const cr_graph *graph, const cr_kernels *kernels)
{
    size_t most = 0;
    for (int i = 0; i < graph->n_ops; i++) {
        const act_form form = form_of(kernels, &graph->ops[i]);
        if (form == FORM_INT8 && kernels->pack)
            most = CR_MAX(most, sizeof(cr_packed));
        if (form == FORM_SPLIT)
            most = CR_MAX(most, sizeof(cr_split_block));
    }
    return most;
}

static size_t widest_rope(const cr_graph *graph)
{
    int widest = 0;
    for (int i = 0; i < graph->n_ropes; i++)
        widest = CR_MAX(widest, graph->ropes[i].n_dims);
    return (size_t)widest;
}

/* The most floats that an op wants beside the shared buffers. */
static size_t scratch_floats(const cr_graph *graph, int max_rows)
{
    size_t most = 2 * CR_BAND * CR_TILE;
    for (int i = 0; i < graph->n_ops; i++) {
        const cr_op *op = &graph->ops[i];
        if (op->kind == CR_OP_NORM_QKV)
            most = CR_MAX(most, CR_BAND * (size_t)op->u.qkv.heads.head_dim);
        if (op->kind == CR_OP_ATTEND)
            most = CR_MAX(most, cr_plan_attend_floats(&op->u.attend.heads));
        if (op->kind == CR_OP_CONV_IN)
            most = CR_MAX(most, (3 * CR_BAND + op->u.conv.taps->n_cols) * CR_TILE);
        if (op->kind == CR_OP_SSM_IN)
            most = CR_MAX(most, (op->u.ssm_in.taps->n_cols + 1) * CR_TILE);
        if (op->kind == CR_OP_MOE_ROUTE)
            most = CR_MAX(most, 2 * CR_BAND * CR_TILE +
                                    cr_plan_moe_bytes(&op->u.moe_route.routing, max_rows) /
                                        sizeof(float));
    }
    return (most + 15) / 16 * 16;
}

static size_t partial_floats(const cr_graph *graph)
{
    size_t most = 0;
    for (int i = 0; i < graph->n_ops; i++)
        if (graph->ops[i].kind == CR_OP_ATTEND)
            most = CR_MAX(most, cr_plan_partial_floats(&graph->ops[i].u.attend.heads));
    return most;
}

typedef struct plan_sizes {
    size_t values, rows, logit_rows, turns, shared, packed, local, partials;
} plan_sizes;

static bool measure(const cr_plan *plan, plan_sizes *out)
{
    const cr_graph *graph = plan->graph;
    size_t n = (size_t)plan->max_rows;
    size_t workers = (size_t)cr_pool_width(plan->backend->pool);
    size_t groups = (n + CR_LANES - 1) / CR_LANES;
    return cr_mul_size(n, graph->row_floats * sizeof(float), &out->values) &&
           cr_mul_size(n, sizeof(cr_row), &out->rows) &&
           cr_mul_size(n, sizeof(int32_t), &out->logit_rows) &&
           cr_mul_size(n, (size_t)graph->n_ropes * plan->turn_floats * sizeof(float),
                       &out->turns) &&
           cr_mul_size(n, plan->act_bytes, &out->shared) &&
           cr_mul_size(groups, n_blocks(widest_value(graph)) * plan->packed_bytes, &out->packed) &&
           cr_mul_size(workers, plan->local_bytes, &out->local) &&
           cr_mul_size(plan->partial_floats, sizeof(float), &out->partials);
}

static void plan_free(cr_plan *plan)
{
    if (!plan)
        return;
    cr_host *host = plan->backend->host;
    plan_sizes sizes;
    if (measure(plan, &sizes)) {
        cr_free(host, CR_MEM_SCRATCH, plan->values, sizes.values);
        cr_free(host, CR_MEM_SCRATCH, plan->rows, sizes.rows);
        cr_free(host, CR_MEM_SCRATCH, plan->logit_rows, sizes.logit_rows);
        cr_free(host, CR_MEM_SCRATCH, plan->turns, sizes.turns);
        cr_free(host, CR_MEM_SCRATCH, plan->shared, sizes.shared);
        cr_free(host, CR_MEM_SCRATCH, plan->packed, sizes.packed);
        cr_free(host, CR_MEM_SCRATCH, plan->local, sizes.local);
        cr_free(host, CR_MEM_SCRATCH, plan->partials, sizes.partials);
    }
    cr_free(host, CR_MEM_OBJECT, plan, sizeof *plan);
}

/* Keys and values of a type that the cache holds in blocks need whole blocks. */
static cera_status check_caches(const cr_graph *graph, cr_type kv_type, cera_error *err)
{
    const cr_type_info *info = cr_type_get(kv_type);
    for (int i = 0; i < graph->n_caches; i++) {
        if (graph->caches[i].head_dim % info->weights != 0)
            return cr_fail(err, CERA_E_UNSUPPORTED,
                           "kv_type %s: expected heads of a multiple of %d, the model's have %d",
                           info->name, info->weights, graph->caches[i].head_dim);
    }
    return CERA_OK;
}

static cera_status plan_new(cr_backend *backend, const cr_graph *graph,
                            const cr_plan_options *options, cr_plan **out, cera_error *err)
{
    CR_TRY(check_caches(graph, options->kv_type, err));
    cr_host *host = backend->host;
    cr_plan *plan = cr_alloc_zero(host, CR_MEM_OBJECT, sizeof *plan);
    if (!plan)
        return cr_fail_nomem(err, sizeof *plan, "the plan");
    plan->backend = backend;
    plan->kernels = &backend->kernels;
    plan->graph = graph;
    plan->max_rows = options->max_rows;
    plan->kv_type = options->kv_type;
    plan->act_bytes = act_bytes(graph);
    plan->packed_bytes = packed_bytes(graph, plan->kernels);
    plan->turn_floats = widest_rope(graph);
    plan->scratch_floats = scratch_floats(graph, plan->max_rows);
    plan->partial_floats = partial_floats(graph);
    plan->local_bytes = CR_LOCAL_ROWS * plan->act_bytes + plan->scratch_floats * sizeof(float) +
                        CR_BAND * sizeof(cr_act) + cr_panel_bytes(widest_value(graph));

    plan_sizes sizes = { 0 };
    bool made = measure(plan, &sizes);
    if (made) {
        plan->values = cr_alloc(host, CR_MEM_SCRATCH, sizes.values);
        plan->rows = cr_alloc(host, CR_MEM_SCRATCH, sizes.rows);
        plan->logit_rows = cr_alloc(host, CR_MEM_SCRATCH, sizes.logit_rows);
        plan->turns = cr_alloc(host, CR_MEM_SCRATCH, sizes.turns);
        plan->shared = cr_alloc(host, CR_MEM_SCRATCH, sizes.shared);
        plan->packed = cr_alloc(host, CR_MEM_SCRATCH, sizes.packed);
        plan->local = cr_alloc(host, CR_MEM_SCRATCH, sizes.local);
        plan->partials = cr_alloc(host, CR_MEM_SCRATCH, sizes.partials);
        made = plan->values && plan->rows && plan->logit_rows && plan->turns && plan->shared &&
               plan->packed && plan->local && plan->partials;
    }
    if (!made) {
        plan_free(plan);
        return cr_fail_nomem(err, sizes.values + sizes.shared, "the activations");
    }
    *out = plan;
    return CERA_OK;
}

/* ---- running ----------------------------------------------------------------------------- */

static bool is_wanted(const cr_row *row)
{
    return row->logits || row->hidden;
}

/* Every row's place. */
static void begin_rows(cr_plan *plan)
{
    const cr_batch *batch = plan->batch;
    size_t n_vocab = plan->graph->n_vocab, n_embd = plan->graph->n_embd;
    int n = 0;
    assert(batch->n_rows <= plan->max_rows);
    plan->n_wanted = plan->n_logits = 0;
    plan->is_adapted = false;
    for (int s = 0; s < batch->n_seqs; s++) {
        const cr_batch_seq *seq = &batch->seqs[s];
        int first = seq->n_rows - seq->n_logits; /* the first row that wants logits */
        assert(seq->n_rows > 0 && first >= 0 && n + seq->n_rows <= batch->n_rows);
        plan->is_adapted = plan->is_adapted || seq->adapt;
        for (int i = 0; i < seq->n_rows; i++, n++) {
            plan->rows[n] = (cr_row){
                .seq = s,
                .position = seq->n_past + i,
                .token = seq->tokens[i],
                .adapt = seq->adapt,
                .reduced = seq->reduced ? seq->reduced + (size_t)i * seq->adapt->row_floats : NULL,
                .logits = i < first ? NULL : seq->logits + (size_t)(i - first) * n_vocab,
                .hidden = seq->hidden ? seq->hidden + (size_t)i * n_embd : NULL,
            };
            if (i >= first)
                plan->logit_rows[plan->n_logits++] = plan->n_wanted;
            plan->n_wanted += is_wanted(&plan->rows[n]);
        }
    }
    assert(n == batch->n_rows);
    plan->n_rows = n;
}

/* From here on only rows that want results are computed: they move to the front. */
static void keep_wanted(cr_plan *plan)
{
    size_t row_floats = plan->graph->row_floats;
    int n = 0;
    for (int row = 0; row < plan->n_rows; row++) {
        if (!is_wanted(&plan->rows[row]))
            continue;
        if (row != n) {
            plan->rows[n] = plan->rows[row];
            memcpy(plan->values + (size_t)n * row_floats, plan->values + (size_t)row * row_floats,
                   row_floats * sizeof *plan->values);
        }
        n++;
    }
    plan->n_rows = n;
}

/* The turn of every rotary pair at the row's position. */
static void turn_row(cr_plan *plan, int rope_index, int row)
{
    const cr_rope *rope = &plan->graph->ropes[rope_index];
    int half = rope->n_dims / 2;
    float *cosines = cr_plan_turns(plan, rope_index, row), *sines = cosines + half;
    for (int i = 0; i < half; i++) {
        float angle = (float)plan->rows[row].position * rope->freq[i];
        cosines[i] = (float)cos((double)angle) * rope->gain;
        sines[i] = (float)sin((double)angle) * rope->gain;
    }
}

static void turn_rows(cr_plan *plan, int worker)
{
    size_t begin, end;
    cr_pool_share(plan->backend->pool, worker, (size_t)plan->n_rows, 1, &begin, &end);
    for (int i = 0; i < plan->graph->n_ropes; i++)
        for (size_t row = begin; row < end; row++)
            turn_row(plan, i, (int)row);
}

static void walk(void *ctx, int worker)
{
    cr_plan *plan = ctx;
    const cr_graph *graph = plan->graph;
    int n_ops = graph->n_ops, first_result = n_ops;
    if (plan->n_wanted == 0)
        n_ops -= graph->n_result_ops;
    else if (plan->n_wanted < plan->batch->n_rows)
        first_result -= graph->n_result_ops;
    turn_rows(plan, worker);
    for (int i = 0; i < n_ops; i++) {
        if (i == first_result) {
            if (worker == 0)
                keep_wanted(plan);
            cr_pool_barrier(plan->backend->pool);
        }
        runs[graph->ops[i].kind](plan, &graph->ops[i], worker);
        if (i + 1 < n_ops)
            cr_pool_barrier(plan->backend->pool);
        if (plan->is_adapted)
            cr_plan_steer(plan, worker, &graph->ops[i]);
    }
}

static cera_status check_process(const cr_plan *plan, cera_error *err)
{
    if (cr_pool_is_here(plan->backend->pool))
        return CERA_OK;
    return cr_fail(err, CERA_E_STATE, "the engine was opened before fork(): open it again");
}

static cera_status plan_run(cr_plan *plan, const cr_batch *batch, cera_error *err)
{
    CR_TRY(check_process(plan, err));
    plan->batch = batch;
    atomic_store(&plan->stopped, 0);
    begin_rows(plan);
    cr_pool_run(plan->backend->pool, walk, plan);
    plan->batch = NULL;
    if (atomic_load(&plan->stopped))
        return cr_fail(err, CERA_E_CANCELLED, "the computation was cancelled");
    return CERA_OK;
}

static cera_status plan_roofline(cr_plan *plan, cera_roofline *out, cera_error *err)
{
    CR_TRY(check_process(plan, err));
    cr_plan_roofline(plan, out);
    return CERA_OK;
}

static cera_status plan_tune(cr_plan *plan, size_t *out, cera_error *err)
{
    CR_TRY(check_process(plan, err));
    *out = cr_plan_tune(plan);
    return CERA_OK;
}

/* ---- the device -------------------------------------------------------------------------- */

static void cpu_close(cr_backend *backend)
{
    if (!backend)
        return;
    cr_host *host = backend->host;
    cr_pool_free(backend->pool);
    cr_free(host, CR_MEM_OBJECT, backend, sizeof *backend);
}

static cera_status cpu_open(cr_host *host, const cr_backend_options *options, cr_backend **out,
                            cera_error *err)
{
    cr_tier tier = cr_cpu_tier();
    if (options->tier) {
        cr_tier wanted;
        if (!cr_tier_find(options->tier, &wanted))
#define TIER(id, name) " " name
            return cr_fail(err, CERA_E_ARG,
                           "cpu_tier: expected one of" CR_TIERS(TIER) ", found \"%.32s\"",
                           options->tier);
#undef TIER
        tier = CR_MIN(tier, wanted);
        while (!cr_cpu_has(tier))
            tier--;
    }
    cr_backend *backend = cr_alloc_zero(host, CR_MEM_OBJECT, sizeof *backend);
    if (!backend)
        return cr_fail_nomem(err, sizeof *backend, "the backend");
    backend->host = host;
    backend->tier = tier;
    backend->prefetch = options->prefetch;
    if (backend->prefetch == 0) {
        cr_cpu_id cpu;
        cr_cpu_identify(&cpu);
        backend->prefetch = cr_prefetch_of(&cpu);
    }
    cr_kernels_get(tier, &backend->kernels);
    cr_kernels_get(backend->kernels.split ? tier - 1 : tier, &backend->whole);
#ifdef CERA_WITH_BLAS
    cr_blas_kernels(&backend->kernels);
#endif
    cera_status status = cr_pool_new(host, options->n_threads, &backend->pool, err);
    if (status != CERA_OK) {
        cpu_close(backend);
        return status;
    }
    *out = backend;
    return CERA_OK;
}

static void cpu_info(const cr_backend *backend, cr_backend_info *out)
{
    *out = (cr_backend_info){ "cpu", cr_tier_name(backend->tier), cr_pool_width(backend->pool) };
}

static void *buf_new(cr_backend *backend, size_t size)
{
    return cr_alloc(backend->host, CR_MEM_KV, size);
}

static void buf_free(cr_backend *backend, void *buf, size_t size)
{
    cr_free(backend->host, CR_MEM_KV, buf, size);
}

static cera_status want_kernel(const cr_backend *backend, const cr_op *op, const cr_proj *proj,
                               cera_error *err)
{
    if (backend->kernels.matvec[proj->weight->type])
        return CERA_OK;
    return cr_fail(err, CERA_E_UNSUPPORTED, "%s: the CPU cannot multiply by %s in %s",
                   proj->weight->name, cr_type_get(proj->weight->type)->name, cr_op_name(op->kind));
}

static cera_status supports(const cr_backend *backend, const cr_op *op, cera_error *err)
{
    const cr_proj *projs[CR_MAX_PROJS];
    int n = cr_op_projs(op, projs);
    for (int i = 0; i < n; i++)
        CR_TRY(want_kernel(backend, op, projs[i], err));
    return runs[op->kind]
               ? CERA_OK
               : cr_fail(err, CERA_E_UNSUPPORTED, "op %d: not on the CPU", (int)op->kind);
}

/* OpenBLAS sums in an order of its own, and floats that are split have bits of their own. */
enum { NUMERICS = 2, NUMERICS_BLAS = 0x10002, NUMERICS_SPLIT = 0x20002 };

static uint32_t numerics(const cr_backend *backend, const cr_graph *graph)
{
#ifdef CERA_WITH_BLAS
    (void)backend;
    (void)graph;
    return NUMERICS_BLAS;
#else
    for (int i = 0; i < graph->n_ops; i++) {
        const cr_proj *projs[CR_MAX_PROJS];
        int n = cr_op_projs(&graph->ops[i], projs);
        for (int k = 0; k < n; k++)
            if (cr_kernels_splits(&backend->kernels, projs[k]->weight->type))
                return NUMERICS_SPLIT;
    }
    return NUMERICS;
#endif
}

const cr_backend_api cr_backend_cpu = {
    .name = "cpu",
    .numerics = numerics,
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .buf_new = buf_new,
    .buf_free = buf_free,
    .page_copy = cr_kv_copy,
    .page_pack = cr_kv_pack,
    .page_unpack = cr_kv_unpack,
    .page_turn = cr_kv_turn,
    .supports = supports,
    .plan_new = plan_new,
    .plan_run = plan_run,
    .plan_roofline = plan_roofline,
    .plan_tune = plan_tune,
    .plan_free = plan_free,
};

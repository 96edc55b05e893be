/* Fitting adapters to a model. */
#include "model/adapter.h"

#include "base/arith.h"

#include <math.h>
#include <stdio.h>

/* ---- what can be adapted ----------------------------------------------------------------- */

/* A projection of the graph, or the token embedding. */
typedef struct target {
    const char *name; /* of its tensor */
    int slot;
    size_t n_cols, n_rows;       /* of the projection; of a stack, of one expert */
    size_t first, n_tensor_rows; /* where its rows stand in the tensor, which has so many */
    int n_expert;                /* 0: it is no stack */
    bool is_table;               /* its rows are taken: see cr_adapter_pair */
} target;

typedef struct fitter {
    const cr_model *model;
    const cr_adapter_content *content;
    cr_adapter *adapter;
    target *targets; /* [n_targets] */
    size_t n_targets;
    cr_arena scratch;
    cera_error *err;
} fitter;

/* The head is called by its own name, also where the embedding stands in for it. */
static target target_of(const fitter *f, const cr_op *op, const cr_proj *proj)
{
    const cr_weight *w = proj->weight;
    const cr_routing *experts = cr_op_experts(op);
    size_t n_expert = experts ? (size_t)experts->n_expert : 1;
    const cr_tensor *tensor = cr_gguf_find_tensor(f->model->file, w->name);
    return (target){
        .name = op->kind == CR_OP_HEAD ? "output.weight" : w->name,
        .slot = proj->slot,
        .n_cols = w->n_cols,
        .n_rows = w->n_rows / n_expert,
        .first = (size_t)(w->data - tensor->data) / w->row_bytes,
        .n_tensor_rows = (size_t)tensor->shape[1],
        .n_expert = experts ? experts->n_expert : 0,
    };
}

static cera_status list_targets(fitter *f)
{
    const cr_graph *graph = &f->model->graph;
    f->targets = cr_arena_array(&f->scratch, (size_t)graph->n_slots, sizeof *f->targets);
    if (!f->targets)
        return cr_fail_nomem(f->err, 0, "the list of projections");
    for (int i = 0; i < graph->n_ops; i++) {
        const cr_op *op = &graph->ops[i];
        const cr_proj *projs[CR_MAX_PROJS];
        int n = cr_op_projs(op, projs);
        for (int k = 0; k < n; k++)
            f->targets[f->n_targets++] = target_of(f, op, projs[k]);
        if (op->kind == CR_OP_EMBED)
            f->targets[f->n_targets++] = (target){
                .name = op->u.embed.table->name,
                .slot = op->u.embed.slot,
                .n_cols = graph->n_vocab,
                .n_rows = graph->n_embd,
                .n_tensor_rows = graph->n_embd,
                .is_table = true,
            };
    }
    return CERA_OK;
}

/* What both matrices have in common. */
static size_t rank_of(const cr_adapter_pair *pair)
{
    return (size_t)pair->b.shape[pair->is_fused ? 1 : 0];
}

/* ---- shapes ------------------------------------------------------------------------------ */

static cera_status want_shape(const fitter *f, const cr_tensor *tensor, const uint64_t want[4])
{
    bool equal = true;
    int n_dims = tensor->n_dims;
    for (int i = 0; i < 4; i++) {
        equal = equal && tensor->shape[i] == want[i];
        n_dims = want[i] > 1 ? CR_MAX(n_dims, i + 1) : n_dims;
    }
    if (equal)
        return CERA_OK;
    return cr_fail(f->err, CERA_E_FORMAT, "%s: %s: expected %s for this model, file has %s",
                   f->content->path, tensor->name.data, cr_gguf_show_shape(want, n_dims).text,
                   cr_gguf_show_shape(tensor->shape, tensor->n_dims).text);
}

/* The rank is the pair's own; everything else follows from the model. */
static cera_status check_pair(const fitter *f, const cr_adapter_pair *pair, const target *t)
{
    bool by_rows = t->is_table && !pair->is_turned; /* of A */
    uint64_t rank = rank_of(pair), n_stacked = 1;
    if (rank < 1 || rank > CR_MAX_RANK)
        return cr_fail(f->err, CERA_E_LIMIT, "%s: %s: expected a rank of 1 to %d, found %llu",
                       f->content->path, pair->b.name.data, CR_MAX_RANK, (unsigned long long)rank);
    if (t->n_expert == 0 && pair->expert >= 0)
        return cr_fail(f->err, CERA_E_FORMAT, "%s: %s: the model has no experts there",
                       f->content->path, pair->a.name.data);
    if (pair->expert >= CR_MAX(t->n_expert, 1))
        return cr_fail(f->err, CERA_E_FORMAT, "%s: %s: expected an expert below %d, found %d",
                       f->content->path, pair->a.name.data, t->n_expert, pair->expert);
    if (t->n_expert > 0 && pair->expert < 0)
        n_stacked = (uint64_t)t->n_expert;
    uint64_t n_rows = t->n_tensor_rows * (uint64_t)CR_MAX(pair->n_parts, 1);
    uint64_t a[4] = { by_rows ? rank : t->n_cols, by_rows ? t->n_cols : rank, n_stacked, 1 };
    uint64_t b[4] = { rank, n_rows, n_stacked, 1 };
    if (pair->is_fused)
        memcpy(b, (uint64_t[3]){ n_stacked, rank, n_rows }, 3 * sizeof *b);
    CR_TRY(want_shape(f, &pair->a, a));
    CR_TRY(want_shape(f, &pair->b, b));
    const cr_tensor *both[] = { &pair->a, &pair->b };
    for (int i = 0; i < 2; i++) {
        if (both[i]->type == CR_TYPE_COUNT)
            return cr_fail(f->err, CERA_E_UNSUPPORTED, "%s: %s: unsupported element type",
                           f->content->path, both[i]->name.data);
    }
    return CERA_OK;
}

/* ---- values ------------------------------------------------------------------------------ */

/* Row i of the matrix that a tensor is when all its rows stand one behind the other, as floats. */
static cera_status read_row(const fitter *f, const cr_tensor *tensor, size_t i, float *out)
{
    const cr_type_info *type = cr_type_get(tensor->type);
    size_t n = (size_t)tensor->shape[0];
    type->dequantize(tensor->data + i * cr_type_bytes(type, n), out, n);
    for (size_t k = 0; k < n; k++) {
        if (!isfinite(out[k]))
            return cr_fail(f->err, CERA_E_FORMAT, "%s: %s: expected finite numbers, found %g",
                           f->content->path, tensor->name.data, (double)out[k]);
    }
    return CERA_OK;
}

/* Memory aligned as vectors like it, cleared; NULL when there is none, or not so much. */
static uint8_t *room_for(cr_arena *arena, size_t count, size_t bytes)
{
    size_t size;
    if (!cr_mul_size(count, bytes, &size) || !cr_add_size(size, 64, &size))
        return NULL;
    uint8_t *p = cr_arena_alloc(arena, size);
    return p ? p + (64 - (uintptr_t)p % 64) % 64 : NULL;
}

static void put(uint8_t *at, cr_type type, size_t i, float value)
{
    uint16_t half = cr_f32_to_f16(value);
    if (type == CR_TYPE_F16)
        memcpy(at + 2 * i, &half, sizeof half);
    else
        memcpy(at + 4 * i, &value, sizeof value);
}

/* A of the expert whose rows begin at src_first; row: room for its columns. */
static cera_status fill_a(const fitter *f, const cr_adapter_pair *pair, const target *t,
                          size_t src_first, size_t expert, float *row)
{
    cr_delta *delta = &f->adapter->deltas[t->slot];
    size_t rank = (size_t)delta->rank, n_rows = t->is_table ? t->n_cols : rank;
    uint8_t *a = (uint8_t *)(uintptr_t)delta->a.data + expert * n_rows * delta->a.row_bytes;
    size_t n_src = pair->is_turned ? rank : n_rows;
    for (size_t i = 0; i < n_src; i++) {
        CR_TRY(read_row(f, &pair->a, src_first + i, row));
        if (delta->a.type == pair->a.type && !pair->is_turned) {
            memcpy(a + i * delta->a.row_bytes, pair->a.data + (src_first + i) * delta->a.row_bytes,
                   delta->a.row_bytes);
            continue;
        }
        for (size_t k = 0; k < (size_t)pair->a.shape[0]; k++)
            put(a, CR_TYPE_F32, pair->is_turned ? k * rank + i : i * delta->a.n_cols + k, row[k]);
    }
    return CERA_OK;
}

/* Which row of B has what belongs to output i of the slot. */
static size_t source_row(const fitter *f, const cr_adapter_pair *pair, const target *t, size_t i)
{
    size_t row = t->first + i, size = (size_t)f->model->hparams.head_dim;
    if (pair->from_halves) {
        size_t head = row / size, at = row % size;
        row = head * size + at % 2 * (size / 2) + at / 2;
    }
    return (size_t)pair->part * t->n_tensor_rows + row;
}

static cera_status fill_b(const fitter *f, const cr_adapter_pair *pair, const target *t,
                          size_t src_first, size_t expert, float *row)
{
    const cr_delta *delta = &f->adapter->deltas[t->slot];
    size_t rank = (size_t)delta->rank;
    uint8_t *b = (uint8_t *)(uintptr_t)delta->b + expert * cr_delta_b_bytes(delta);
    for (size_t i = 0; i < t->n_rows; i++) {
        CR_TRY(read_row(f, &pair->b, src_first + source_row(f, pair, t, i), row));
        for (size_t j = 0; j < rank; j++)
            put(b, delta->b_type, (i / CR_STRIP * rank + j) * CR_STRIP + i % CR_STRIP, row[j]);
    }
    return CERA_OK;
}

/* B of a stack whose rows have a number of each expert, one rank after the other. */
static cera_status fill_fused_b(const fitter *f, const cr_adapter_pair *pair, const target *t,
                                float *row)
{
    const cr_delta *delta = &f->adapter->deltas[t->slot];
    size_t rank = (size_t)delta->rank, n_expert = (size_t)t->n_expert;
    uint8_t *b = (uint8_t *)(uintptr_t)delta->b;
    for (size_t i = 0; i < t->n_rows; i++) {
        for (size_t j = 0; j < rank; j++) {
            CR_TRY(read_row(f, &pair->b, source_row(f, pair, t, i) * rank + j, row));
            for (size_t e = 0; e < n_expert; e++)
                put(b + e * cr_delta_b_bytes(delta), delta->b_type,
                    (i / CR_STRIP * rank + j) * CR_STRIP + i % CR_STRIP, row[e]);
        }
    }
    return CERA_OK;
}

/* ---- pairs ------------------------------------------------------------------------------- */

static float scale_of(const cr_adapter_pair *pair, size_t rank)
{
    double divisor = pair->by_root ? sqrt((double)rank) : (double)rank;
    return pair->alpha == 0 ? 1.0f : (float)((double)pair->alpha / divisor);
}

/* The delta that a pair makes of an empty one: cleared, for all experts. */
static cera_status begin_delta(fitter *f, const cr_adapter_pair *pair, const target *t,
                               cr_delta *out)
{
    static const bool multiplies[CR_TYPE_COUNT] = {
        [CR_TYPE_F32] = true, [CR_TYPE_F16] = true, [CR_TYPE_BF16] = true
    };
    size_t rank = rank_of(pair), n_expert = (size_t)CR_MAX(t->n_expert, 1);
    bool stays = multiplies[pair->a.type] && !pair->is_turned;
    cr_type a_type = stays ? pair->a.type : CR_TYPE_F32;
    size_t n_cols = t->is_table ? rank : t->n_cols, n_rows = t->is_table ? t->n_cols : rank;
    cr_delta delta = {
        .rank = (int)rank,
        .scale = scale_of(pair, rank),
        .n_rows = t->n_rows,
        .a = { .name = t->name,
               .type = a_type,
               .n_rows = n_rows * n_expert,
               .n_cols = n_cols,
               .row_bytes = cr_type_bytes(cr_type_get(a_type), n_cols) },
        .b_type = pair->b.type == CR_TYPE_F16 ? CR_TYPE_F16 : CR_TYPE_F32,
    };
    delta.a.data = room_for(&f->adapter->arena, delta.a.n_rows, delta.a.row_bytes);
    delta.b = room_for(&f->adapter->arena, n_expert, cr_delta_b_bytes(&delta));
    if (!delta.a.data || !delta.b)
        return cr_fail_nomem(f->err, 0, "an adapter's matrices");
    *out = delta;
    return CERA_OK;
}

static cera_status add_pair(fitter *f, const cr_adapter_pair *pair, const target *t)
{
    CR_TRY(check_pair(f, pair, t));
    cr_delta *delta = &f->adapter->deltas[t->slot];
    size_t rank = rank_of(pair);
    if (delta->rank == 0) {
        CR_TRY(begin_delta(f, pair, t, delta));
    } else if (pair->expert < 0) {
        return cr_fail(f->err, CERA_E_FORMAT, "%s: %s: the tensor is adapted twice",
                       f->content->path, pair->a.name.data);
    } else if ((size_t)delta->rank != rank || delta->scale != scale_of(pair, rank) ||
               (delta->a.type != pair->a.type && delta->a.type != CR_TYPE_F32) ||
               (delta->b_type == CR_TYPE_F16 && pair->b.type != CR_TYPE_F16)) {
        return cr_fail(f->err, CERA_E_UNSUPPORTED,
                       "%s: %s: expected rank, alpha and type of the experts before it",
                       f->content->path, pair->a.name.data);
    }
    cr_arena_mark mark = cr_arena_get_mark(&f->scratch);
    size_t widest = (size_t)CR_MAX(pair->a.shape[0], pair->b.shape[0]);
    float *row = cr_arena_array(&f->scratch, widest, sizeof *row);
    cera_status status =
        row ? CERA_OK : cr_fail_nomem(f->err, widest * sizeof *row, "a row of an adapter");
    bool is_stack = t->n_expert > 0 && pair->expert < 0;
    for (size_t e = 0; status == CERA_OK && e < (is_stack ? (size_t)t->n_expert : 1); e++) {
        size_t to = is_stack ? e : (size_t)CR_MAX(pair->expert, 0);
        status = fill_a(f, pair, t, e * rank, to, row);
        if (status == CERA_OK && !pair->is_fused)
            status = fill_b(f, pair, t, e * (size_t)pair->b.shape[1], to, row);
    }
    if (status == CERA_OK && pair->is_fused)
        status = fill_fused_b(f, pair, t, row);
    cr_arena_to_mark(&f->scratch, mark);
    return status;
}

/* A pair adapts every projection that is part of its tensor. */
static cera_status fit_pairs(fitter *f)
{
    const cr_adapter_content *content = f->content;
    bool *is_used = cr_arena_array(&f->scratch, content->n_pairs + 1, sizeof *is_used);
    if (!is_used)
        return cr_fail_nomem(f->err, content->n_pairs, "the list of an adapter's tensors");
    for (size_t t = 0; t < f->n_targets; t++) {
        for (size_t i = 0; i < content->n_pairs; i++) {
            if (!cr_str_is(content->pairs[i].name, f->targets[t].name))
                continue;
            CR_TRY(add_pair(f, &content->pairs[i], &f->targets[t]));
            is_used[i] = true;
        }
    }
    for (size_t i = 0; i < content->n_pairs; i++) {
        cr_str name = content->pairs[i].name;
        if (is_used[i])
            continue;
        const char *text = cr_arena_copy(&f->scratch, name.data, name.size);
        if (!text)
            return cr_fail_nomem(f->err, name.size, "the name of a tensor");
        if (cr_gguf_find_tensor(f->model->file, text))
            return cr_fail(f->err, CERA_E_UNSUPPORTED, "%s: %s: this tensor cannot be adapted",
                           content->path, text);
        return cr_fail(f->err, CERA_E_FORMAT, "%s: %s: the model has no such tensor", content->path,
                       text);
    }
    return CERA_OK;
}

static void count_pair(cera_adapter_info *info, const cr_adapter_pair *pair)
{
    int rank = (int)rank_of(pair);
    info->n_tensors++;
    info->min_rank = info->min_rank > 0 ? CR_MIN(info->min_rank, rank) : rank;
    info->max_rank = CR_MAX(info->max_rank, rank);
}

/* ---- directions -------------------------------------------------------------------------- */

static cera_status fit_direction(fitter *f, const cr_direction *direction)
{
    const cr_tensor *values = &direction->values;
    size_t n_embd = f->model->graph.n_embd;
    if (direction->layer >= f->model->hparams.n_layer)
        return cr_fail(f->err, CERA_E_FORMAT, "%s: %s: expected layers up to %d, as the model has",
                       f->content->path, values->name.data, f->model->hparams.n_layer - 1);
    if (values->type != CR_TYPE_F32)
        return cr_fail(f->err, CERA_E_UNSUPPORTED, "%s: %s: expected element type F32",
                       f->content->path, values->name.data);
    CR_TRY(want_shape(f, values, (uint64_t[4]){ n_embd, 1, 1, 1 }));
    float *row = (float *)(void *)room_for(&f->adapter->arena, n_embd, sizeof *row);
    if (!row)
        return cr_fail_nomem(f->err, n_embd * sizeof *row, "a direction");
    CR_TRY(read_row(f, values, 0, row));
    f->adapter->directions[direction->layer] = row;
    f->adapter->info.n_tensors++;
    return CERA_OK;
}

/* ---- the adapter ------------------------------------------------------------------------- */

static void add_number(cr_digest *digest, uint64_t number)
{
    cr_digest_add(digest, &number, sizeof number);
}

static void add_tensor(cr_digest *digest, const cr_tensor *tensor)
{
    add_number(digest, tensor->type_id);
    cr_digest_add(digest, tensor->shape, sizeof tensor->shape);
    cr_digest_add(digest, tensor->data, tensor->size);
}

/* Of what the file says; where it lies makes no difference. */
static cr_digest digest_of(const cr_adapter_content *content)
{
    cr_digest digest = CR_DIGEST_EMPTY;
    for (size_t i = 0; i < content->n_pairs; i++) {
        const cr_adapter_pair *pair = &content->pairs[i];
        cr_digest_add(&digest, pair->name.data, pair->name.size);
        add_number(&digest, (uint64_t)(pair->expert + 1));
        add_number(&digest, (uint64_t)pair->part);
        add_number(&digest, pair->by_root | (uint64_t)pair->is_fused << 1);
        cr_digest_add(&digest, &pair->alpha, sizeof pair->alpha);
        add_tensor(&digest, &pair->a);
        add_tensor(&digest, &pair->b);
    }
    for (size_t i = 0; i < content->n_directions; i++) {
        add_number(&digest, (uint64_t)content->directions[i].layer);
        add_tensor(&digest, &content->directions[i].values);
    }
    return digest;
}

static cera_status fit(fitter *f)
{
    const cr_adapter_content *content = f->content;
    cr_adapter *adapter = f->adapter;
    size_t n_slots = (size_t)f->model->graph.n_slots, n_layer = (size_t)f->model->hparams.n_layer;
    if (content->arch.size > 0 && !cr_str_is(content->arch, f->model->arch->name))
        return cr_fail(f->err, CERA_E_UNSUPPORTED,
                       "%s: expected an adapter for %s models, found one for %.*s", content->path,
                       f->model->arch->name, (int)CR_MIN(content->arch.size, (size_t)64),
                       content->arch.data);
    adapter->deltas = cr_arena_array(&adapter->arena, n_slots, sizeof *adapter->deltas);
    if (content->n_directions > 0)
        adapter->directions = cr_arena_array(&adapter->arena, n_layer, sizeof *adapter->directions);
    if (!adapter->deltas || (content->n_directions > 0 && !adapter->directions))
        return cr_fail_nomem(f->err, n_slots * sizeof *adapter->deltas, "the adapter");
    CR_TRY(list_targets(f));
    CR_TRY(fit_pairs(f));
    for (size_t i = 0; i < content->n_pairs; i++)
        count_pair(&adapter->info, &content->pairs[i]);
    for (size_t i = 0; i < content->n_directions; i++)
        CR_TRY(fit_direction(f, &content->directions[i]));
    adapter->digest = digest_of(content);
    adapter->info.kind = content->n_directions > 0 ? CERA_ADAPTER_CONTROL : CERA_ADAPTER_LORA;
    return CERA_OK;
}

cera_status cr_adapter_new(const cr_model *model, cr_host *host, const cr_adapter_content *content,
                           cr_adapter **out, cera_error *err)
{
    cr_adapter *adapter = cr_alloc_zero(host, CR_MEM_OBJECT, sizeof *adapter);
    if (!adapter)
        return cr_fail_nomem(err, sizeof *adapter, "the adapter");
    atomic_init(&adapter->n_holders, 1);
    adapter->model = model;
    cr_arena_init(&adapter->arena, host, CR_MEM_OBJECT);
    fitter f = { .model = model, .content = content, .adapter = adapter, .err = err };
    cr_arena_init(&f.scratch, host, CR_MEM_SCRATCH);
    cera_status status = fit(&f);
    cr_arena_done(&f.scratch);
    if (status != CERA_OK) {
        cr_adapter_release(adapter);
        return status;
    }
    *out = adapter;
    return CERA_OK;
}

void cr_adapter_retain(cr_adapter *adapter)
{
    atomic_fetch_add(&adapter->n_holders, 1);
}

void cr_adapter_release(cr_adapter *adapter)
{
    if (!adapter || atomic_fetch_sub(&adapter->n_holders, 1) > 1)
        return;
    cr_host *host = adapter->arena.host;
    cr_arena_done(&adapter->arena);
    cr_free(host, CR_MEM_OBJECT, adapter, sizeof *adapter);
}

/* ---- lists of them ----------------------------------------------------------------------- */

static const cr_delta *delta_of(const cr_adapter_use *use, int slot)
{
    const cr_delta *delta = &use->adapter->deltas[slot];
    return use->scale != 0 && delta->rank > 0 ? delta : NULL;
}

static const float *direction_of(const cr_adapter_use *use, int layer)
{
    bool has = use->scale != 0 && use->adapter->directions && layer >= use->first_layer &&
               layer <= use->last_layer;
    return has ? use->adapter->directions[layer] : NULL;
}

/* Where the results of each op's A stand: behind one another, for one op at a time. */
static void place(const cr_model *model, const cr_adapter_use *uses, size_t n, cr_addend *addends,
                  int *first, size_t *row_floats)
{
    int n_addends = 0;
    *row_floats = 0;
    for (int i = 0; i < model->graph.n_ops; i++) {
        const cr_op *op = &model->graph.ops[i];
        const cr_proj *projs[CR_MAX_PROJS];
        const cr_routing *experts = cr_op_experts(op);
        int n_slots = cr_op_projs(op, projs), slot = n_slots > 0 ? projs[0]->slot : 0, at = 0;
        if (op->kind == CR_OP_EMBED) {
            slot = op->u.embed.slot;
            n_slots = 1;
        }
        for (int end = slot + n_slots; slot < end; slot++) {
            first[slot] = n_addends;
            for (size_t k = 0; k < n; k++) {
                const cr_delta *delta = delta_of(&uses[k], slot);
                if (!delta)
                    continue;
                addends[n_addends++] = (cr_addend){ delta, delta->scale * uses[k].scale, at };
                at += delta->rank * (experts ? experts->n_used : 1);
            }
            first[slot + 1] = n_addends;
        }
        *row_floats = CR_MAX(*row_floats, (size_t)at);
    }
}

static const float **sum_directions(const cr_model *model, cr_arena *arena,
                                    const cr_adapter_use *uses, size_t n)
{
    size_t n_layer = (size_t)model->hparams.n_layer, n_embd = model->graph.n_embd;
    const float **sums = cr_arena_array(arena, n_layer, sizeof *sums);
    for (size_t layer = 0; sums && layer < n_layer; layer++) {
        float *sum = NULL;
        for (size_t k = 0; k < n; k++) {
            const float *direction = direction_of(&uses[k], (int)layer);
            if (direction && !sum && !(sum = cr_arena_array(arena, n_embd, sizeof *sum)))
                return NULL;
            for (size_t i = 0; direction && i < n_embd; i++)
                sum[i] += uses[k].scale * direction[i];
        }
        sums[layer] = sum;
    }
    return sums;
}

cera_status cr_adaptation_new(const cr_model *model, cr_arena *arena, const cr_adapter_use *uses,
                              size_t n, const cr_adaptation **out, cr_digest *digest,
                              cera_error *err)
{
    size_t n_slots = (size_t)model->graph.n_slots, n_addends = 0, n_directions = 0;
    cr_digest sum = CR_DIGEST_EMPTY;
    for (size_t k = 0; k < n; k++) {
        size_t before = n_addends + n_directions;
        for (size_t slot = 0; slot < n_slots; slot++) {
            const cr_delta *delta = delta_of(&uses[k], (int)slot);
            n_addends += delta != NULL;
            if (delta && !isfinite(delta->scale * uses[k].scale))
                return cr_fail(err, CERA_E_ARG, "adapter %zu: scale: %g is too large for it", k,
                               (double)uses[k].scale);
        }
        for (int layer = 0; layer < model->hparams.n_layer; layer++)
            n_directions += direction_of(&uses[k], layer) != NULL;
        if (n_addends + n_directions == before)
            continue;
        cr_digest_add(&sum, &uses[k].adapter->digest, sizeof uses[k].adapter->digest);
        cr_digest_add(&sum, &uses[k].scale, sizeof uses[k].scale);
        if (uses[k].adapter->directions) {
            add_number(&sum, (uint64_t)uses[k].first_layer);
            add_number(&sum, (uint64_t)uses[k].last_layer);
        }
    }
    *digest = sum;
    *out = NULL;
    if (n_addends + n_directions == 0)
        return CERA_OK;
    cr_adaptation *made = cr_arena_alloc(arena, sizeof *made);
    cr_addend *addends = cr_arena_array(arena, n_addends + 1, sizeof *addends);
    int *first = cr_arena_array(arena, n_slots + 1, sizeof *first);
    if (!made || !addends || !first)
        return cr_fail_nomem(err, n_addends * sizeof *addends, "the list of adapters");
    made->addends = addends;
    made->first = first;
    place(model, uses, n, addends, first, &made->row_floats);
    if (n_directions > 0 && !(made->directions = sum_directions(model, arena, uses, n)))
        return cr_fail_nomem(err, n_directions * model->graph.n_embd, "directions");
    *out = made;
    return CERA_OK;
}

/* NORM_QKV: queries, and keys and values, which go to the paged cache.
 *
 * A page holds CR_PAGE positions of every attention layer of a group: keys
 * [n_head_kv][CR_PAGE][head_dim], then values. */
#include "backend/cpu/plan.h"

#include <string.h>

size_t cr_kv_offset(const cr_cache *cache, cr_type kv_type, int head, int position, bool values)
{
    size_t dim = (size_t)cache->head_dim;
    size_t half = (size_t)cache->n_head_kv * CR_PAGE * dim;
    size_t element = cache->offset + (values ? half : 0) +
                     ((size_t)head * CR_PAGE + (size_t)(position % CR_PAGE)) * dim;
    return cr_type_bytes(cr_type_get(kv_type), element);
}

/* The parts of a page: each is one head's keys or values of one layer. Calls the function with
 * where the part begins in the page, and how many bytes its first n positions have. */
typedef void page_part(void *ctx, size_t at, size_t bytes);

static void each_part(const cr_graph *graph, int group, cr_type kv_type, int n, page_part *part,
                      void *ctx)
{
    for (int i = 0; i < graph->n_caches; i++) {
        const cr_cache *cache = &graph->caches[i];
        if (cache->group != group)
            continue;
        size_t bytes = cr_type_bytes(cr_type_get(kv_type), (size_t)n * (size_t)cache->head_dim);
        for (int which = 0; which < 2 * cache->n_head_kv; which++) {
            int head = which % cache->n_head_kv;
            part(ctx, cr_kv_offset(cache, kv_type, head, 0, which >= cache->n_head_kv), bytes);
        }
    }
}

typedef struct page_pair {
    uint8_t *dst;
    const uint8_t *src;
} page_pair;

static void copy_part(void *ctx, size_t at, size_t bytes)
{
    page_pair *pair = ctx;
    memcpy(pair->dst + at, pair->src + at, bytes);
}

static void pack_part(void *ctx, size_t at, size_t bytes)
{
    page_pair *pair = ctx;
    memcpy(pair->dst, pair->src + at, bytes);
    pair->dst += bytes;
}

static void unpack_part(void *ctx, size_t at, size_t bytes)
{
    page_pair *pair = ctx;
    memcpy(pair->dst + at, pair->src, bytes);
    pair->src += bytes;
}

void cr_kv_copy(cr_backend *backend, const cr_graph *graph, int group, cr_type kv_type, void *dst,
                const void *src, int n)
{
    (void)backend;
    each_part(graph, group, kv_type, n, copy_part, &(page_pair){ dst, src });
}

void cr_kv_pack(cr_backend *backend, const cr_graph *graph, int group, cr_type kv_type,
                void *packed, const void *page, int n)
{
    (void)backend;
    each_part(graph, group, kv_type, n, pack_part, &(page_pair){ packed, page });
}

void cr_kv_unpack(cr_backend *backend, const cr_graph *graph, int group, cr_type kv_type,
                  void *page, const void *packed, int n)
{
    (void)backend;
    each_part(graph, group, kv_type, n, unpack_part, &(page_pair){ page, packed });
}

uint8_t *cr_plan_kv(const cr_plan *plan, const cr_cache *cache, int seq, int head, int position,
                    bool values)
{
    void *const *pages = plan->batch->seqs[seq].pages[cache->group];
    return (uint8_t *)pages[position / CR_PAGE] +
           cr_kv_offset(cache, plan->kv_type, head, position, values);
}

/* Turns each pair of one head by its row's angles. */
static void rotate(const cr_plan *plan, int rope_index, int row, float *x)
{
    if (rope_index < 0)
        return;
    const cr_rope *rope = &plan->graph->ropes[rope_index];
    size_t half = (size_t)rope->n_dims / 2;
    const float *cosines = cr_plan_turns(plan, rope_index, row), *sines = cosines + half;
    size_t step = rope->style == CR_ROPE_PAIRS ? 2 : 1;
    size_t apart = rope->style == CR_ROPE_PAIRS ? 1 : half;
    for (size_t i = 0; i < half; i++) {
        float *a = &x[i * step], *b = a + apart;
        float turned_a = *a * cosines[i] - *b * sines[i];
        float turned_b = *a * sines[i] + *b * cosines[i];
        *a = turned_a;
        *b = turned_b;
    }
}

/* A key or value head goes to the cache as it is now. */
static void remember(const cr_plan *plan, const cr_op *op, int row, int head, const float *x,
                     bool is_value)
{
    const cr_cache *cache = &plan->graph->caches[op->u.qkv.cache];
    const cr_row *place = &plan->rows[row];
    plan->kernels->store_cache[plan->kv_type](
        cr_plan_kv(plan, cache, place->seq, head, place->position, is_value), x,
        (size_t)cache->head_dim);
}

/* Norm and rotation of one head of queries or keys. */
static void finish_head(const cr_plan *plan, const cr_op *op, const cr_norm *norm, int row,
                        float *x)
{
    if (norm->weight)
        plan->kernels->rms_norm(x, x, cr_weight_f32(norm->weight), norm->weight->n_cols, norm->eps);
    rotate(plan, op->u.qkv.rope, row, x);
}

/* One head of a band of rows: `which` counts query heads, then key heads, then value heads. Queries
 * and keys whose norm is over the row are left as they are, the keys in mid. */
static void project_head(const cr_plan *plan, const cr_op *op, int worker, int which,
                         const cr_input *input, cr_band band)
{
    const cr_heads *heads = &op->u.qkv.heads;
    size_t dim = (size_t)heads->head_dim, row_floats = plan->graph->row_floats;
    float *scratch = cr_plan_scratch(plan, worker);
    bool of_row = op->mid >= 0;

    if (which < heads->n_head) {
        float *q = cr_plan_value(plan, op->out, band.row) + (size_t)which * dim;
        cr_plan_project(plan, worker, &op->u.qkv.q, (size_t)which * dim, dim, input, band, q,
                        row_floats);
        for (int i = 0; i < band.n && !of_row; i++)
            finish_head(plan, op, &op->u.qkv.q_norm, band.row + i, q + (size_t)i * row_floats);
        return;
    }
    which -= heads->n_head;
    bool is_value = which >= heads->n_head_kv;
    if (is_value)
        which -= heads->n_head_kv;
    const cr_proj *proj = is_value ? &op->u.qkv.v : &op->u.qkv.k;
    if (of_row && !is_value) {
        float *k = cr_plan_value(plan, op->mid, band.row) + (size_t)which * dim;
        cr_plan_project(plan, worker, proj, (size_t)which * dim, dim, input, band, k, row_floats);
        return;
    }
    cr_plan_project(plan, worker, proj, (size_t)which * dim, dim, input, band, scratch, dim);
    for (int i = 0; i < band.n; i++) {
        float *x = scratch + (size_t)i * dim;
        if (!is_value)
            finish_head(plan, op, &op->u.qkv.k_norm, band.row + i, x);
        remember(plan, op, band.row + i, which, x, is_value);
    }
}

/* The norms over all heads of a row, and what comes after them. */
static void finish_row(const cr_plan *plan, const cr_op *op, int row)
{
    const cr_heads *heads = &op->u.qkv.heads;
    const cr_norm *q_norm = &op->u.qkv.q_norm, *k_norm = &op->u.qkv.k_norm;
    size_t dim = (size_t)heads->head_dim;
    float *q = cr_plan_value(plan, op->out, row), *k = cr_plan_value(plan, op->mid, row);
    plan->kernels->rms_norm(q, q, cr_weight_f32(q_norm->weight), q_norm->weight->n_cols,
                            q_norm->eps);
    plan->kernels->rms_norm(k, k, cr_weight_f32(k_norm->weight), k_norm->weight->n_cols,
                            k_norm->eps);
    for (int head = 0; head < heads->n_head; head++)
        rotate(plan, op->u.qkv.rope, row, q + (size_t)head * dim);
    for (int head = 0; head < heads->n_head_kv; head++) {
        rotate(plan, op->u.qkv.rope, row, k + (size_t)head * dim);
        remember(plan, op, row, head, k + (size_t)head * dim, false);
    }
}

void cr_op_norm_qkv(cr_plan *plan, const cr_op *op, int worker)
{
    int n_rows = plan->n_rows;
    cr_input input = cr_plan_input(plan, worker, op, &op->u.qkv.norm, NULL, n_rows);
    size_t n_heads = (size_t)(op->u.qkv.heads.n_head + 2 * op->u.qkv.heads.n_head_kv);
    cr_hand hand = cr_pool_deal(plan->backend->pool, worker, n_heads, 1);
    size_t which, n;
    while (!cr_plan_stopped(plan) && cr_hand_take(&hand, 1, &which, &n)) {
        for (int row = 0; row < n_rows; row += CR_BAND)
            project_head(plan, op, worker, (int)which, &input, cr_band_at(row, n_rows));
    }
    if (op->mid < 0)
        return;
    cr_pool_barrier(plan->backend->pool);
    size_t begin, end;
    cr_pool_share(plan->backend->pool, worker, (size_t)n_rows, 1, &begin, &end);
    for (size_t row = begin; row < end; row++)
        finish_row(plan, op, (int)row);
}

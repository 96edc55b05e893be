/* Moving what a cache has to another position: keys are turned, values are not. */
#include "backend/cpu/plan.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MAX_HEAD_DIM = 1 << 12 };

/* Cosines and sines by which a rope's pairs turn from one position to another. */
typedef struct turns {
    float cosine[MAX_HEAD_DIM / 2], sine[MAX_HEAD_DIM / 2];
} turns;

/* The difference of the very angles, rounded to float, that computing at either position would
 * use. */
static void make_turns(const cr_rope *rope, int from, int to, turns *out)
{
    for (int i = 0; i < rope->n_dims / 2; i++) {
        double angle = (double)((float)to * rope->freq[i]) - (double)((float)from * rope->freq[i]);
        out->cosine[i] = (float)cos(angle);
        out->sine[i] = (float)sin(angle);
    }
}

static void turn_head(const cr_rope *rope, const turns *by, float *x)
{
    size_t half = (size_t)rope->n_dims / 2;
    size_t step = rope->style == CR_ROPE_PAIRS ? 2 : 1;
    size_t apart = rope->style == CR_ROPE_PAIRS ? 1 : half;
    for (size_t i = 0; i < half; i++) {
        float *a = &x[i * step], *b = a + apart;
        float turned_a = *a * by->cosine[i] - *b * by->sine[i];
        float turned_b = *a * by->sine[i] + *b * by->cosine[i];
        *a = turned_a;
        *b = turned_b;
    }
}

static void move_layer(const cr_backend *backend, const cr_cache *cache, const cr_rope *rope,
                       const turns *by, cr_type kv_type, uint8_t *dst, int to, const uint8_t *src,
                       int from)
{
    size_t dim = (size_t)cache->head_dim, bytes = cr_type_bytes(cr_type_get(kv_type), dim);
    float x[MAX_HEAD_DIM];
    assert(dim <= MAX_HEAD_DIM);
    for (int head = 0; head < cache->n_head_kv; head++) {
        const uint8_t *key = src + cr_kv_offset(cache, kv_type, head, from, false);
        uint8_t *moved = dst + cr_kv_offset(cache, kv_type, head, to, false);
        if (rope) {
            cr_type_get(kv_type)->dequantize(key, x, dim);
            turn_head(rope, by, x);
            backend->kernels.store_cache[kv_type](moved, x, dim);
        } else {
            memcpy(moved, key, bytes);
        }
        memcpy(dst + cr_kv_offset(cache, kv_type, head, to, true),
               src + cr_kv_offset(cache, kv_type, head, from, true), bytes);
    }
}

void cr_kv_turn(cr_backend *backend, const cr_graph *graph, int group, cr_type kv_type, void *dst,
                int to, const void *src, int from)
{
    turns by = { { 0 }, { 0 } };
    for (int r = -1; r < graph->n_ropes; r++) {
        const cr_rope *rope = r >= 0 ? &graph->ropes[r] : NULL;
        if (rope)
            make_turns(rope, from, to, &by);
        for (int i = 0; i < graph->n_ops; i++) {
            const cr_op *op = &graph->ops[i];
            if (op->kind != CR_OP_NORM_QKV || op->u.qkv.rope != r)
                continue;
            const cr_cache *cache = &graph->caches[op->u.qkv.cache];
            if (cache->group == group)
                move_layer(backend, cache, rope, &by, kv_type, dst, to, src, from);
        }
    }
}

/* From one element type to another: workers take chunks of a piece of a tensor, the caller writes
 * the piece. Every block is computed from its own weights alone, so threads do not change a bit. */
#include "convert/quantize.h"

#include <assert.h>
#include <math.h>

enum {
    CHUNK = 1 << 13, /* weights that a worker takes at a time: a multiple of every block */
    PIECE = 1 << 20, /* weights between two writes */
};

struct cr_requant {
    cr_host *host;
    cr_pool *pool;
    float *floats;  /* [n_threads][CHUNK] */
    uint8_t *piece; /* PIECE weights of the new type */

    /* the piece at work */
    const cr_type_info *from, *to;
    const uint8_t *src;
    size_t n_weights;
    atomic_size_t next; /* the first weight that no worker has taken */
    atomic_size_t bad;  /* the first weight that does not fit; SIZE_MAX: none */
};

static size_t floats_bytes(const cr_requant *q)
{
    return (size_t)cr_pool_width(q->pool) * CHUNK * sizeof(float);
}

cera_status cr_requant_new(cr_host *host, int n_threads, cr_requant **out, cera_error *err)
{
    cr_requant *q = cr_alloc_zero(host, CR_MEM_SCRATCH, sizeof *q);
    if (q == NULL)
        return cr_fail_nomem(err, sizeof *q, "the quantiser");
    q->host = host;
    cera_status status = cr_pool_new(host, n_threads, &q->pool, err);
    if (status == CERA_OK) {
        q->floats = cr_alloc(host, CR_MEM_SCRATCH, floats_bytes(q));
        q->piece = cr_alloc(host, CR_MEM_SCRATCH, PIECE * sizeof(float));
        if (q->floats == NULL || q->piece == NULL)
            status = cr_fail_nomem(err, PIECE * sizeof(float), "the quantiser's buffers");
    }
    if (status != CERA_OK) {
        cr_requant_free(q);
        return status;
    }
    *out = q;
    return CERA_OK;
}

void cr_requant_free(cr_requant *q)
{
    if (q == NULL)
        return;
    cr_host *host = q->host;
    if (q->pool != NULL)
        cr_free(host, CR_MEM_SCRATCH, q->floats, floats_bytes(q));
    cr_free(host, CR_MEM_SCRATCH, q->piece, PIECE * sizeof(float));
    cr_pool_free(q->pool);
    cr_free(host, CR_MEM_SCRATCH, q, sizeof *q);
}

/* The largest size that the type can hold. */
static float limit_of(const cr_type_info *to)
{
    bool takes_any = to == cr_type_get(CR_TYPE_F32) || to == cr_type_get(CR_TYPE_BF16);
    return takes_any ? INFINITY : CR_QUANTIZE_MAX;
}

static void note_bad(cr_requant *q, size_t i)
{
    size_t seen = atomic_load(&q->bad);
    while (i < seen && !atomic_compare_exchange_weak(&q->bad, &seen, i))
        continue;
}

static void work(void *ctx, int worker)
{
    cr_requant *q = ctx;
    float *floats = q->floats + (size_t)worker * CHUNK, limit = limit_of(q->to);
    for (;;) {
        size_t begin = atomic_fetch_add(&q->next, CHUNK);
        if (begin >= q->n_weights)
            return;
        size_t n = CR_MIN((size_t)CHUNK, q->n_weights - begin);
        q->from->dequantize(q->src + cr_type_bytes(q->from, begin), floats, n);
        size_t i = 0;
        while (i < n && (fabsf(floats[i]) <= limit || isinf(limit)))
            i++;
        if (i < n)
            note_bad(q, begin + i);
        else
            q->to->quantize(floats, q->piece + cr_type_bytes(q->to, begin), n);
    }
}

static cera_status bad_weight(const cr_requant *q, const cr_tensor *tensor, size_t done,
                              cera_error *err)
{
    float block[256];
    size_t i = atomic_load(&q->bad), in_block = i % (size_t)q->from->weights;
    assert(q->from->weights <= (int)CR_COUNT(block));
    q->from->dequantize(q->src + cr_type_bytes(q->from, i - in_block), block,
                        (size_t)q->from->weights);
    return cr_fail(
        err, CERA_E_FORMAT, "%s: weight %zu: expected at most %g in size for %s, found %g",
        tensor->name.data, done + i, (double)CR_QUANTIZE_MAX, q->to->name, (double)block[in_block]);
}

cera_status cr_requant_tensor(cr_requant *q, const cr_tensor *tensor, cr_type type,
                              cr_gguf_writer *writer, cr_requant_step *step, void *ctx,
                              cera_error *err)
{
    q->from = cr_type_get(tensor->type);
    q->to = cr_type_get(type);
    size_t total = tensor->size / (size_t)q->from->block_bytes * (size_t)q->from->weights;
    for (size_t done = 0; done < total; done += q->n_weights) {
        q->src = tensor->data + cr_type_bytes(q->from, done);
        q->n_weights = CR_MIN((size_t)PIECE, total - done);
        const void *bytes = q->src;
        /* The same type stays the same bytes. */
        if (q->from != q->to) {
            atomic_store(&q->next, 0);
            atomic_store(&q->bad, SIZE_MAX);
            cr_pool_run(q->pool, work, q);
            if (atomic_load(&q->bad) != SIZE_MAX)
                return bad_weight(q, tensor, done, err);
            bytes = q->piece;
        }
        CR_TRY(cr_gguf_writer_data(writer, bytes, cr_type_bytes(q->to, q->n_weights), err));
        CR_TRY(step(ctx, cr_type_bytes(q->from, q->n_weights), err));
    }
    return CERA_OK;
}

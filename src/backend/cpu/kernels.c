/* The dispatch table, and the memory layout of a row of activations. */
#include "backend/cpu/kernels.h"

/* Columns from which on matmul pays: of floats, which are read as they lie in memory, and of the
 * kernels with tiles. COLUMNS of kernels.def has those of other kernels. */
enum { LEAST_COLUMNS_FLOAT = 2, LEAST_COLUMNS_WIDE = 32 };

void cr_kernels_get(cr_tier tier, cr_kernels *out)
{
    *out = (cr_kernels){ 0 };
    bool allowed[CR_TIER_COUNT] = { false };
    for (int t = 0; t <= (int)tier; t++)
        allowed[t] = cr_cpu_has((cr_tier)t);
        /* Ascending order of tiers: the last one that is allowed stays. */
#define KERNEL(kind, slot, at, function)                                                           \
    if (allowed[CR_TIER_##at])                                                                     \
        out->kind slot = function;
#define COLUMNS(at, n)                                                                             \
    if (allowed[CR_TIER_##at])                                                                     \
        out->least_columns = n;
#include "backend/cpu/kernels.def"
#undef KERNEL
}

bool cr_kernels_int8(cr_type type)
{
    static const bool int8[CR_TYPE_COUNT] = {
#define KERNEL(kind, slot, at, function)
#define INT8(type) [CR_TYPE_##type] = true,
#include "backend/cpu/kernels.def"
#undef KERNEL
    };
    return int8[type];
}

bool cr_kernels_splits(const cr_kernels *kernels, cr_type type)
{
    static const bool split[CR_TYPE_COUNT] = {
#define KERNEL(kind, slot, at, function)
#define SPLIT(type) [CR_TYPE_##type] = true,
#include "backend/cpu/kernels.def"
#undef KERNEL
    };
    return kernels->split && split[type];
}

size_t cr_panel_bytes(size_t n)
{
    size_t bytes =
        CR_PANEL_CHAIN_BYTES + (n + CR_ACT_BLOCK - 1) / CR_ACT_BLOCK * CR_PANEL_BLOCK_BYTES;
    bytes = CR_MAX(bytes, (size_t)CR_SPLIT_BYTES);
#ifdef CERA_WITH_BLAS
    bytes = CR_MAX(bytes, (CR_BLAS_ROWS * n * sizeof(float) + 63) / 64 * 64);
#endif
    return bytes;
}

void cr_kernels_multiply(const cr_kernels *kernels, cr_type type, float *y, size_t y_stride,
                         const void *w, size_t row_bytes, size_t n_rows, const cr_act *x,
                         size_t n_x, void *scratch)
{
    if (kernels->matmul_wide[type] && n_x >= LEAST_COLUMNS_WIDE) {
        kernels->matmul_wide[type](y, y_stride, w, row_bytes, n_rows, x, n_x, scratch);
        return;
    }
    size_t least = cr_type_get(type)->weights > 1 ? kernels->least_columns : LEAST_COLUMNS_FLOAT;
    if (kernels->matmul[type] && n_x >= least) {
        kernels->matmul[type](y, y_stride, w, row_bytes, n_rows, x, n_x, scratch);
        return;
    }
    for (size_t c = 0; c < n_x; c++)
        kernels->matvec[type](y + c * y_stride, w, row_bytes, n_rows, &x[c]);
}

/* The part of keys [first, first + n_keys) that a query sees. */
static size_t seen(const cr_query *query, size_t first, size_t n_keys, size_t *n)
{
    size_t begin = CR_MAX((size_t)query->first, first);
    size_t end = CR_MIN((size_t)query->end, first + n_keys);
    *n = begin < end ? end - begin : 0;
    return begin;
}

void cr_kernels_scores(const cr_kernels *kernels, cr_type type, const cr_tile *tile,
                       const void *keys, size_t first, size_t n_keys)
{
    if (kernels->tile_scores[type] && tile->n % CR_CHAINS == 0) {
        kernels->tile_scores[type](tile, keys, first, n_keys);
        return;
    }
    size_t row_bytes = cr_type_bytes(cr_type_get(type), tile->n);
    for (size_t i = 0; i < tile->n_queries; i++) {
        const cr_query *query = &tile->queries[i];
        size_t n, begin = seen(query, first, n_keys, &n);
        if (n > 0)
            kernels->dot_keys[type](tile->s + i * CR_KEY_CHUNK + begin, tile->q + i * tile->n,
                                    (const uint8_t *)keys + (begin - first) * row_bytes,
                                    query->scale, tile->n, n);
    }
}

void cr_kernels_values(const cr_kernels *kernels, cr_type type, const cr_tile *tile,
                       const void *values, size_t first, size_t n_keys)
{
    if (kernels->tile_values[type] && tile->n % CR_CHAINS == 0) {
        kernels->tile_values[type](tile, values, first, n_keys);
        return;
    }
    size_t row_bytes = cr_type_bytes(cr_type_get(type), tile->n);
    for (size_t i = 0; i < tile->n_queries; i++) {
        size_t n, begin = seen(&tile->queries[i], first, n_keys, &n);
        if (n > 0)
            kernels->mix_values[type](tile->o + i * tile->n, tile->s + i * CR_KEY_CHUNK + begin,
                                      (const uint8_t *)values + (begin - first) * row_bytes,
                                      tile->n, n);
    }
}

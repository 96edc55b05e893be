/* The dispatch table, and the memory layout of a row of activations. */
#include "backend/cpu/kernels.h"

enum { LEAST_COLUMNS = 4 }; /* that pay for unpacking a panel */

void cr_kernels_get(cr_tier tier, cr_kernels *out)
{
    *out = (cr_kernels){ 0 };
    /* Ascending order of tiers: the last one that is allowed stays. */
#define KERNEL(kind, slot, at, function)                                                           \
    if (CR_TIER_##at <= tier)                                                                      \
        out->kind slot = function;
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

size_t cr_panel_bytes(size_t n)
{
    return CR_PANEL_CHAIN_BYTES + (n + CR_ACT_BLOCK - 1) / CR_ACT_BLOCK * CR_PANEL_BLOCK_BYTES;
}

void cr_kernels_multiply(const cr_kernels *kernels, cr_type type, float *y, size_t y_stride,
                         const void *w, size_t row_bytes, size_t n_rows, const cr_act *x,
                         size_t n_x, void *scratch)
{
    if (kernels->matmul[type] && n_x >= LEAST_COLUMNS) {
        kernels->matmul[type](y, y_stride, w, row_bytes, n_rows, x, n_x, scratch);
        return;
    }
    for (size_t c = 0; c < n_x; c++)
        kernels->matvec[type](y + c * y_stride, w, row_bytes, n_rows, &x[c]);
}

/* Sizes are in groups of 16 blocks, which keeps every part aligned. */
static size_t n_groups(size_t n)
{
    return (n + 511) / 512;
}

size_t cr_act_bytes(size_t n)
{
    return n_groups(n) * (512 * sizeof(float) + 512 + 16 * sizeof(float) + 32 * sizeof(int16_t));
}

cr_act cr_act_at(void *buffer, size_t n)
{
    const size_t groups = n_groups(n);
    char *p = buffer;
    cr_act act = { .f = buffer, .n = n };
    p += groups * 512 * sizeof(float);
    act.q = (int8_t *)p;
    p += groups * 512;
    act.d = (float *)(void *)p;
    p += groups * 16 * sizeof(float);
    act.sum = (int16_t *)(void *)p;
    return act;
}

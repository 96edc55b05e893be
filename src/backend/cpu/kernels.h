/* CPU kernels: the inner loops, one table for all.
 *
 * kernels.def lists every kernel with its ISA tier. That list yields the declarations, the dispatch
 * table, the checks (tests/kernels) and the benchmarks (bench/kernels). The scalar kernel of a slot
 * defines the slot: every other one gives the same bits.
 *
 * The same bits need one order of summation. A row is a sequence of blocks of 32 weights (of single
 * weights for types that multiply as floats):
 *
 *     chain[b % 16] = fma(...block b..., chain[b % 16])     b = 0, 1, 2, ...
 *     row = merge(chain)        chain[i] + chain[i + half], half = 8, 4, 2, 1
 *
 * Most quantised types multiply with int8 activations: the sum over a block is an exact integer,
 * and only the two scales make it a float. IQ1, IQ2, IQ3, TQ and MXFP4 become floats first.
 * docs/numerics.md has the formulas per type and the reasons for this order.
 *
 * Kernels cannot fail: shapes and types were checked when the plan was made. */
#ifndef CR_KERNELS_H
#define CR_KERNELS_H

#include "base/cpu.h"
#include "graph/graph.h"

enum {
    CR_CHAINS = 16,     /* of a row's sum */
    CR_ACT_BLOCK = 32,  /* activations per int8 scale */
    CR_LANES = 16,      /* rows of activations that are packed together */
    CR_KEY_CHUNK = 256, /* keys per softmax chunk, cut at absolute multiples */
    CR_TILE_KEYS = 64,  /* keys that a kernel of tiles unpacks at a time, at most */
    CR_PANEL_ROWS = 32, /* rows that a matmul kernel unpacks at a time */
    CR_PREFETCH = 8192, /* bytes ahead of the rows at work, where nothing better is known */
    CR_BLAS_ROWS = 64,  /* rows that become floats for OpenBLAS at a time */
    CR_PANEL_CHAIN_BYTES = CR_CHAINS * CR_PANEL_ROWS * 16 * sizeof(float), /* of 16 columns */
    CR_PANEL_BLOCK_BYTES = 48 * CR_ACT_BLOCK * sizeof(float), /* 32 of each, and some columns */
    CR_SPLIT_BYTES = 260 << 10, /* of a panel of floats, and of columns that are split */
};

/* A block of up to sixteen rows of activations, as kernels of tiles read it. */
typedef struct cr_packed {
    int8_t q[CR_LANES][CR_ACT_BLOCK]; /* in the order of the row */
    float d[CR_LANES];                /* scale */
    float d_sum[CR_LANES];            /* d times the sum of q */
} cr_packed;

/* A block of up to sixteen rows of activations as bfloat16: each is high + low, to 17 bits. */
typedef struct cr_split_block {
    uint16_t high[CR_LANES][CR_ACT_BLOCK], low[CR_LANES][CR_ACT_BLOCK];
} cr_split_block;

/* One row of activations, as matrix kernels read it.
 *   f    [n]            the floats
 *   q    [n / 128][2][4][16]  int8: four blocks at a time, first the first halves of all four, then
 *                       the second halves (cr_act_index). One 64-byte load has the activations of a
 *                       16-byte piece of four blocks, as the nibbles of Q4_0 come.
 *   d    [n / 32]       scale of each block
 *   sum  [n / 32][2]    sums of the int8 values of each block's halves
 * q, d and sum are written by the quantize kernel, for n a multiple of 32, and needed by the types
 * of cr_kernels_int8 only. The kernel fills them up with zero blocks to a multiple of 16. All four
 * are aligned to 64 bytes.
 *   packed [n / 32]     NULL, or where the pack kernel has put the row, as lane `lane`: rows that follow
 *                       each other share it. Aligned to 64 bytes.
 *   split  [n / 32]     the same of the split kernel, rounded up; both use `lane`
 *   prefetch            bytes: how far behind the rows that it reads a matrix kernel asks for more */
typedef struct cr_act {
    float *f;
    int8_t *q;
    float *d;
    int16_t *sum;
    size_t n;
    cr_packed *packed;
    cr_split_block *split;
    size_t lane;
    size_t prefetch;
} cr_act;

/* Where activation i lies in q. */
static inline size_t cr_act_index(size_t i)
{
    return i / 128 * 128 + i % 32 / 16 * 64 + i / 32 % 4 * 16 + i % 16;
}

/* Sizes are in groups of 16 blocks, which keeps every part aligned. */
static inline size_t cr_act_groups(size_t n)
{
    return (n + 511) / 512;
}

/* Bytes of a buffer for n activations, and the row laid out in it (aligned to 64). Rows are laid out
 * again for each tile: a function that returns this in memory would make that wait for itself. */
static inline size_t cr_act_bytes(size_t n)
{
    return cr_act_groups(n) *
           (512 * sizeof(float) + 512 + 16 * sizeof(float) + 32 * sizeof(int16_t));
}

static inline cr_act cr_act_at(void *buffer, size_t n)
{
    const size_t groups = cr_act_groups(n);
    char *p = (char *)buffer;
    cr_act act = { .f = (float *)buffer, .n = n, .prefetch = CR_PREFETCH };
    p += groups * 512 * sizeof(float);
    act.q = (int8_t *)p;
    p += groups * 512;
    act.d = (float *)(void *)p;
    p += groups * 16 * sizeof(float);
    act.sum = (int16_t *)(void *)p;
    return act;
}

/* y[r] = dot(row r of w, x), r in [0, n_rows). w has any alignment. */
typedef void cr_matvec(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x);

/* y[c * y_stride + r] = dot(row r of w, x[c]), r in [0, n_rows), c in [0, n_x): the bits of matvec,
 * column by column. scratch: cr_panel_bytes(x->n), aligned to 64. */
typedef void cr_matmul(float *y, size_t y_stride, const void *w, size_t row_bytes, size_t n_rows,
                       const cr_act *x, size_t n_x, void *scratch);

/* The same by kernels that need more columns to be worth it, and like them packed. */
typedef cr_matmul cr_matmul_wide;

/* Fills x->q, d, sum from x->f. Per block: amax = max |f|; d = amax / 127; id = 1 / d, or 0 when d
 * is 0 or 1 / d is not finite; q = clamp(round half even(f * id), -127, 127). A NaN or an infinity
 * in a block makes its d one, so that it shows in every result. */
typedef void cr_quantize(cr_act *x);

/* Fills lane x->lane of x->packed from x->q, d and sum. */
typedef void cr_pack(const cr_act *x);

/* Fills lane x->lane of x->split from x->f, with zeros behind its end. */
typedef void cr_split(const cr_act *x);

/* y = (x * (1 / sqrt(mean(x^2) + eps))) * w; y may be x. The sum of squares runs in 16 chains over
 * single elements and is merged as above. */
typedef void cr_rms_norm(float *y, const float *x, const float *w, size_t n, float eps);

/* y[i] = f(gate[i]) * up[i], f as cr_gate names it; y may be gate or up. */
typedef void cr_gate_mul(float *y, const float *gate, const float *up, size_t n);

/* x[i] = cap * tanh(x[i] / cap). */
typedef void cr_soft_cap(float *x, float cap, size_t n);

/* y[i] = fma(scale, x[i], y[i]). */
typedef void cr_add_scaled(float *y, const float *x, float scale, size_t n);

/* s[j] = scale * dot(q, key j), keys [n_keys][n] contiguous, 16 chains over single elements. An
 * element of Q8_0 is d * q, which is exact. */
typedef void cr_dot_keys(float *s, const float *q, const void *keys, float scale, size_t n,
                         size_t n_keys);

/* The largest of s[0, n), n > 0; anything when there is a NaN, and of zeros either. */
typedef float cr_largest(const float *s, size_t n);

/* s[j] = exp(s[j] - max) for j in [0, n), or 0 where the difference is below CR_SOFTMAX_MIN; returns
 * their sum in 16 chains. n <= CR_KEY_CHUNK. */
typedef float cr_exp_sum(float *s, float max, size_t n);

/* o[i] = fma(p[j], value j[i], o[i]) for j ascending; values [n_keys][n] contiguous. */
typedef void cr_mix_values(float *o, const float *p, const void *values, size_t n, size_t n_keys);

/* What one query of a tile sees of a chunk of keys, and what comes of it. */
typedef struct cr_query {
    int first, end;    /* keys [first, end) of the chunk */
    float scale;       /* of its scores */
    float max, weight; /* of its scores; sum of their exponentials */
} cr_query;

/* Queries that meet the same keys: some rows of the batch, times the heads that share keys. */
typedef struct cr_tile {
    cr_query *queries; /* [n_queries] */
    float *q;          /* [n_queries][n] */
    float *s;          /* [n_queries][CR_KEY_CHUNK]: scores of a chunk, then their exponentials */
    float *o;          /* [n_queries][n]: sums of values */
    float *scratch;    /* [CR_TILE_KEYS][n] */
    size_t n_queries, n;
    const uint8_t *next; /* NULL, or as many rows that are read soon: kernels may fetch them */
} cr_tile;               /* q and scratch are aligned to 64 bytes; n is a multiple of 16 */

/* The scores of keys [first, first + n_keys) of the chunk, as dot_keys gives them, for queries that
 * see them; other scores up to the next multiple of 16 may become anything. first is a multiple of
 * 16. */
typedef void cr_tile_scores(const cr_tile *tile, const void *keys, size_t first, size_t n_keys);

/* Adds values [first, first + n_keys) of the chunk, as mix_values does, for queries that see
 * them. */
typedef void cr_tile_values(const cr_tile *tile, const void *values, size_t first, size_t n_keys);

/* n floats to the cache's type; n is a multiple of its block. Of Q8_0: d = max |x| / 127, rounded
 * to half precision; q = x * 127 / max |x|, rounded half away from zero. A NaN or an infinity in a
 * block makes its d one, so that it shows in every result. */
typedef void cr_store_cache(void *dst, const float *src, size_t n);

/* A causal convolution of each channel on its own: y[i] = bias[i], then for k ascending
 * y[i] = fma(taps[i][k], x[k][i], y[i]). Row k of x begins at x + k * x_stride; bias NULL: 0. */
typedef void cr_convolve(float *y, const float *x, size_t x_stride, const float *taps,
                         size_t n_taps, const float *bias, size_t n);

/* One token's step of one head of a state space; states [n_channels][n_state]; `after` may be
 * `before`:
 *     after[j][i] = fma(decay, before[j][i], (step * x[j]) * b[i])
 *     y[j] = fma(skip, x[j], dot(after[j], c))           16 chains over single elements */
typedef struct cr_ssm_token {
    const float *x;     /* [n_channels] */
    const float *b, *c; /* [n_state] */
    float decay, step, skip;
    size_t n_channels, n_state;
} cr_ssm_token;
typedef void cr_ssm_step(float *y, float *after, const float *before, const cr_ssm_token *token);

/* What the machine can do at best (roofline.c). The sum of the 8-byte words at p, the last one
 * filled up with zeros; p has any alignment. */
typedef uint64_t cr_read_all(const void *p, size_t n);

/* The sum of a[i] * b[64 (r % 4) + i % 64] over all i and rounds r, modulo 2^32: a [CR_PEAK_MACS],
 * each at most 127; b [256]. */
enum { CR_PEAK_MACS = 768 };
typedef uint32_t cr_multiply_int8(const uint8_t *a, const int8_t *b, size_t n_rounds);

/* Keys and values are F16, F32 or Q8_0: index by cr_type. */
typedef struct cr_kernels {
    cr_matvec *matvec[CR_TYPE_COUNT];
    cr_matmul *matmul[CR_TYPE_COUNT]; /* NULL: see cr_kernels_multiply */
    cr_matmul *matmul_wide[CR_TYPE_COUNT];
    size_t least_columns; /* from which on matmul pays whose rows are unpacked first */
    cr_quantize *quantize;
    cr_pack *pack;   /* NULL: no kernel reads packed rows */
    cr_split *split; /* NULL: no kernel reads such rows */
    cr_rms_norm *rms_norm;
    cr_gate_mul *gate_mul[CR_GATE_COUNT];
    cr_soft_cap *soft_cap;
    cr_add_scaled *add_scaled;
    cr_dot_keys *dot_keys[CR_TYPE_COUNT];
    cr_largest *largest;
    cr_exp_sum *exp_sum;
    cr_mix_values *mix_values[CR_TYPE_COUNT];
    cr_tile_scores *tile_scores[CR_TYPE_COUNT]; /* NULL: see cr_kernels_scores */
    cr_tile_values *tile_values[CR_TYPE_COUNT];
    cr_store_cache *store_cache[CR_TYPE_COUNT];
    cr_convolve *convolve;
    cr_ssm_step *ssm_step;
    cr_read_all *read_all;
    cr_multiply_int8 *multiply_int8;
} cr_kernels;

/* Whether matrix kernels of the type read int8 activations, x->q, d and sum. The others read
 * x->f. */
bool cr_kernels_int8(cr_type type);

/* Whether these kernels split activations for matrices of the type: then matmul reads x->split. */
bool cr_kernels_splits(const cr_kernels *kernels, cr_type type);

/* Bytes of scratch for a matmul kernel, rows of n weights. */
size_t cr_panel_bytes(size_t n);

/* What matmul does, for every type: by its kernel when there is one and enough columns to pay for
 * unpacking, or else by matvec. */
void cr_kernels_multiply(const cr_kernels *kernels, cr_type type, float *y, size_t y_stride,
                         const void *w, size_t row_bytes, size_t n_rows, const cr_act *x,
                         size_t n_x, void *scratch);

/* What tile_scores and tile_values do, for every type and any n: by the kernels of tiles where
 * there are some, or else query by query. */
void cr_kernels_scores(const cr_kernels *kernels, cr_type type, const cr_tile *tile,
                       const void *keys, size_t first, size_t n_keys);
void cr_kernels_values(const cr_kernels *kernels, cr_type type, const cr_tile *tile,
                       const void *values, size_t first, size_t n_keys);

/* The best kernel of each slot at or below the tier, of those that the processor has. */
void cr_kernels_get(cr_tier tier, cr_kernels *out);

/* Builds with CERA_BLAS (blas.c): the kernels that go through OpenBLAS take their slots, whatever
 * the tier; and what that library says of itself. */
void cr_blas_kernels(cr_kernels *out);
const char *cr_blas_name(void);

#define KERNEL(kind, slot, tier, function) cr_##kind function;
#define DEFINES KERNEL
#include "backend/cpu/kernels.def"
#undef KERNEL

#endif

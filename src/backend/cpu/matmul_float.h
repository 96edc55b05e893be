/* Matrices of floats times many columns, for all levels, and of types that become floats first. Who
 * includes this has what decoder.h wants and has defined ROWS, COLUMNS, COUNTS, which lists the
 * numbers up to COLUMNS, SPAN, PANEL, GROUP, BLOCK and store_sums.
 *
 * A vector is the sixteen chains of one result, or a half or a quarter of them: element k of a row and element k
 * of a column meet as they lie in memory. A tile of ROWS rows and at most COLUMNS columns has its
 * chains in registers for BLOCK elements; then all other tiles of SPAN rows and GROUP columns get
 * theirs of the same elements, and the chains wait in L1. The bits are those of matvec.
 *
 * Rows of floats are read where they are; others are decoded, PANEL of them, once for all columns:
 *
 *     panel    [n / BLOCK][PANEL / ROWS][BLOCK / 16][ROWS][16] */
#ifndef CR_MATMUL_FLOAT_H
#define CR_MATMUL_FLOAT_H

#include "backend/cpu/decoder.h"
#include "backend/cpu/prefetch.h"

/* LANES elements of a row, from element i on. */
typedef vec load_lanes(const uint8_t *row, size_t i);

/* A tile and a block: n_steps times sixteen elements. */
typedef struct tile {
    const uint8_t *row[ROWS];
    const float *const *x; /* [columns] */
    size_t n_steps;
    tile_sums *sums; /* [columns]; whatever they are before the first block */
    bool is_first;
    size_t ahead; /* from a byte of a row to the one to prefetch for later */
} tile;

typedef void multiply_tile(const tile *t);

/* A type of rows. */
typedef struct float_rows {
    multiply_tile *const *multiply; /* by columns */
    size_t weights, bytes;          /* of a block */
    /* n weights, whole blocks; NULL when rows are read as they are. */
    void (*decode)(const void *blocks, float *to, size_t n);
} float_rows;

_Static_assert(SPAN / ROWS * GROUP * sizeof(tile_sums) <= CR_PANEL_CHAIN_BYTES, "cr_panel_bytes");
_Static_assert(PANEL *CR_ACT_BLOCK * sizeof(float) <= CR_PANEL_BLOCK_BYTES, "cr_panel_bytes");

/* step_bytes: from sixteen elements of a row to the next. */
CR_INLINE void multiply(const tile *t, size_t step_bytes, size_t n_x, load_lanes *load, bool fetch)
{
    const uint8_t *row[ROWS];
    const float *x[COLUMNS];
    CR_UNROLL
    for (size_t r = 0; r < ROWS; r++)
        row[r] = t->row[r];
    CR_UNROLL
    for (size_t c = 0; c < n_x; c++)
        x[c] = t->x[c];
    CR_UNROLL
    for (size_t p = 0; p < CR_CHAINS / LANES; p++) {
        CR_UNSET vec sum[COLUMNS][ROWS];
        CR_UNROLL
        for (size_t c = 0; c < n_x; c++)
            CR_UNROLL
        for (size_t r = 0; r < ROWS; r++)
            sum[c][r] = t->is_first ? vec_zero() : t->sums[c][r][p];
        for (size_t s = 0; s < t->n_steps; s++) {
            vec a[COLUMNS];
            CR_UNROLL
            for (size_t c = 0; c < n_x; c++)
                a[c] = vec_load(x[c] + s * CR_CHAINS + p * LANES);
            CR_UNROLL
            for (size_t r = 0; r < ROWS; r++) {
                const vec w = load(row[r] + s * step_bytes, p * LANES);
                if (fetch && p == 0)
                    CR_PREFETCH_L2(row[r] + s * step_bytes + t->ahead);
                CR_UNROLL
                for (size_t c = 0; c < n_x; c++)
                    sum[c][r] = vec_fma(w, a[c], sum[c][r]);
            }
        }
        CR_UNROLL
        for (size_t c = 0; c < n_x; c++)
            CR_UNROLL
        for (size_t r = 0; r < ROWS; r++)
            t->sums[c][r][p] = sum[c][r];
    }
}

#define TILE(n_x, name, step_bytes, load, fetch)                                                   \
    static void multiply_##name##_##n_x(const tile *t)                                             \
    {                                                                                              \
        multiply(t, step_bytes, n_x, load, fetch);                                                 \
    }
#define TILE_ENTRY(n_x, name, ...) [n_x] = multiply_##name##_##n_x,
#define TILES(name, step_bytes, load, fetch)                                                       \
    COUNTS(TILE, name, step_bytes, load, fetch)                                                    \
    static multiply_tile *const multiply_##name[COLUMNS + 1] = { COUNTS(TILE_ENTRY, name, ) };

/* ---- panels ---- */

CR_INLINE vec load_f32(const uint8_t *row, size_t i)
{
    return vec_load((const float *)(const void *)row + i);
}

enum { PANEL_STEP = ROWS * CR_CHAINS }; /* floats */

TILES(panel, PANEL_STEP * sizeof(float), load_f32, false)

/* Elements [i, i + n) of some rows, at most BLOCK of them. */
static void fill_panel(float *panel, const uint8_t *w, size_t row_bytes, size_t n_rows, size_t i,
                       size_t n, const float_rows *type)
{
    float row[BLOCK];
    for (size_t r = 0; r < n_rows; r++) {
        float *to = panel + i * PANEL + r / ROWS * n * ROWS + r % ROWS * CR_CHAINS;
        const uint8_t *blocks = w + r * row_bytes + i / type->weights * type->bytes;
        prefetch_run(blocks + PANEL * row_bytes, n / type->weights * type->bytes);
        type->decode(blocks, row, n);
        for (size_t k = 0; k < n; k += CR_CHAINS)
            for (size_t p = 0; p < CR_CHAINS; p += LANES)
                vec_store(to + k * ROWS + p, vec_load(row + k + p));
    }
}

/* ---- rows times columns ---- */

/* At most SPAN rows, or PANEL. */
typedef struct rows {
    const float_rows *type;
    const uint8_t *w;
    size_t row_bytes, n_rows, n;
    const float *panel;
} rows;

/* ROWS rows from row r on, of elements [i, i + n). */
CR_INLINE void tile_rows(tile *t, const rows *w, size_t r, size_t i, size_t n)
{
    for (size_t k = 0; k < ROWS; k++)
        if (w->type->decode)
            t->row[k] = (const uint8_t *)(w->panel + i * PANEL + r * n + k * CR_CHAINS);
        else
            t->row[k] = w->w + CR_MIN(r + k, w->n_rows - 1) * w->row_bytes + i * w->type->bytes;
}

/* Elements [i, i + n) of all rows and of n_x columns. */
static void multiply_block(tile_sums (*sums)[GROUP], const rows *w, const float *const *x,
                           size_t n_x, size_t i, size_t n)
{
    uint8_t last[ROWS][CR_CHAINS * sizeof(float)] = { 0 };
    const size_t n_tiles = (n_x + COLUMNS - 1) / COLUMNS;
    tile t = { .n_steps = (n + CR_CHAINS - 1) / CR_CHAINS,
               .is_first = i == 0,
               .ahead =
                   (4095 + ROWS * w->row_bytes) / (ROWS * w->row_bytes) * ROWS * w->row_bytes };
    for (size_t r = 0; r < w->n_rows; r += ROWS) {
        tile_rows(&t, w, r, i, n);
        for (size_t k = 0; n < CR_CHAINS && k < ROWS; k++)
            t.row[k] = memcpy(last[k], t.row[k], n * w->type->bytes);
        for (size_t k = 0; k < n_tiles; k++) {
            const size_t c = n_x * k / n_tiles, end = n_x * (k + 1) / n_tiles;
            t.x = x + c;
            t.sums = sums[r / ROWS] + c;
            w->type->multiply[end - c](&t);
        }
    }
}

/* y[c * y_stride + r] of at most GROUP columns. */
static void multiply_group(float *y, size_t y_stride, const rows *w, const cr_act *x, size_t n_x,
                           tile_sums (*sums)[GROUP])
{
    const size_t whole = w->n / CR_CHAINS * CR_CHAINS;
    const float *from[GROUP];
    for (size_t i = 0; i < whole; i += BLOCK) {
        for (size_t c = 0; c < n_x; c++)
            from[c] = x[c].f + i;
        multiply_block(sums, w, from, n_x, i, CR_MIN(whole - i, (size_t)BLOCK));
    }
    if (whole < w->n) {
        /* Chains without an element get +0 * -0, which leaves them what they are, -0 too. */
        float last[GROUP][CR_CHAINS];
        for (size_t c = 0; c < n_x; c++) {
            for (size_t k = 0; k < CR_CHAINS; k++)
                last[c][k] = whole + k < w->n ? x[c].f[whole + k] : -0.0f;
            from[c] = last[c];
        }
        multiply_block(sums, w, from, n_x, whole, w->n - whole);
    }
    for (size_t r = 0; r < w->n_rows; r += ROWS)
        store_sums(y + r, y_stride, sums[r / ROWS], n_x, CR_MIN(w->n_rows - r, (size_t)ROWS));
}

static void matmul_floats(float *y, size_t y_stride, const void *w, size_t row_bytes, size_t n_rows,
                          const cr_act *x, size_t n_x, void *scratch, const float_rows *type)
{
    tile_sums(*sums)[GROUP] = scratch;
    float *panel = (float *)(void *)(sums + SPAN / ROWS);
    const size_t span = type->decode ? PANEL : SPAN;
    for (size_t r = 0; r < n_rows; r += span) {
        const rows some = { .type = type,
                            .w = (const uint8_t *)w + r * row_bytes,
                            .row_bytes = row_bytes,
                            .n_rows = CR_MIN(n_rows - r, span),
                            .n = x->n,
                            .panel = panel };
        for (size_t i = 0; type->decode && i < x->n; i += BLOCK)
            fill_panel(panel, some.w, row_bytes, some.n_rows, i, CR_MIN(x->n - i, (size_t)BLOCK),
                       type);
        for (size_t c = 0; c < n_x; c += GROUP)
            multiply_group(y + c * y_stride + r, y_stride, &some, x + c,
                           CR_MIN(n_x - c, (size_t)GROUP), sums);
    }
}

#define MATMUL(name, tier, ...)                                                                    \
    void cr_matmul_##name##__##tier(float *y, size_t y_stride, const void *w, size_t row_bytes,    \
                                    size_t n_rows, const cr_act *x, size_t n_x, void *scratch)     \
    {                                                                                              \
        static const float_rows type = { __VA_ARGS__ };                                            \
        matmul_floats(y, y_stride, w, row_bytes, n_rows, x, n_x, scratch, &type);                  \
    }

/* A type that is floats, of so many bytes; load_<name> reads them. */
#define MATMUL_FLOATS(name, tier, bytes)                                                           \
    TILES(name, CR_CHAINS *bytes, load_##name, true)                                               \
    MATMUL(name, tier, multiply_##name, 1, bytes, NULL)

/* A type that becomes floats first, of decoder.h's list. */
#define MATMUL_DECODED(tier, name, weights, bytes, unpack)                                         \
    CR_INLINE void decode_##name(const void *blocks, float *to, size_t n)                          \
    {                                                                                              \
        decode_blocks(blocks, to, n, (decoder){ weights, bytes, unpack, part_##name });            \
    }                                                                                              \
    MATMUL(name, tier, multiply_panel, weights, bytes, decode_##name)

#endif

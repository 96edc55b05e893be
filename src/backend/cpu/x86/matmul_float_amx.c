/* Matrices of BF16 times many columns with AMX: tiles of bfloat16. The bits are those of
 * matvec_split_scalar.c, not those of the levels below.
 *
 * Activations are split in two, x = high + low, which together have 17 bits of x. One instruction
 * multiplies a tile of sixteen rows and a tile of sixteen columns, 32 elements of each, and its sums
 * stay in a tile until the rows end:
 *
 *     product [column][row] += columns [column][32] * panel [32][row]
 *
 * so, unlike with integers, nothing happens between two products. For many columns rows are put into a
 * panel, where two neighbours of each row stand together, as tiles want what they multiply by. For a
 * few columns the two change places: rows are read where they are, and columns are the panel. */
#include "backend/cpu/x86/amx.h"
#include "backend/cpu/x86/split16.h"

#include <string.h>

enum {
    ROWS = 16,         /* of a tile */
    PANELS = 4,        /* of ROWS rows, that the columns meet together */
    SPAN = 32,         /* blocks before panels are filled again */
    GROUPS = 2,        /* of columns, that meet two panels at the same time */
    FEW = 16,          /* columns, up to which rows are not put into panels */
    AHEAD = 512 << 10, /* bytes of rows that L2 has room for twice */
};

/* A tile: of rows [ROWS][DEPTH], or of a panel [DEPTH / 2][ROWS][2]. */
typedef struct tile {
    uint16_t part[ROWS * DEPTH];
} tile;

/* Rows of weights. */
typedef struct float_rows {
    const uint8_t *p;
    size_t row_bytes, n_rows, n;
} float_rows;

typedef struct workspace {
    tile panel[PANELS][SPAN];
    cr_split_block columns[GROUPS][SPAN];
    tile_shapes shapes;
} workspace;

_Static_assert(sizeof(workspace) <= CR_SPLIT_BYTES, "cr_panel_bytes");
_Static_assert(FEW *DEPTH * sizeof(uint32_t) <= CR_PANEL_BLOCK_BYTES, "cr_panel_bytes");

/* ---- splitting ---- */

CR_INLINE void store_block(cr_split_block *to, size_t lane, const cr_act *x, size_t b)
{
    __m512i high, low;
    split_block(&high, &low, x, b);
    _mm512_storeu_si512(to->high[lane], high);
    _mm512_storeu_si512(to->low[lane], low);
}

void cr_split__amx(const cr_act *x)
{
    for (size_t b = 0; b * DEPTH < x->n; b++)
        store_block(&x->split[b], x->lane, x, b);
}

/* ---- panels ---- */

/* A vector is a block of a row, or a pair of sixteen rows: dwords, under the name of floats, which
 * nothing here adds or multiplies. Block b of ROWS rows from row r on, the last one again in place of those that do not exist; zeros
 * behind their end. */
CR_INLINE void load_rows(vec v[ROWS], const float_rows *w, size_t r, size_t b)
{
    const size_t n = CR_MIN(w->n - b * DEPTH, (size_t)DEPTH);
    CR_UNROLL
    for (size_t k = 0; k < ROWS; k++) {
        const uint8_t *p = w->p + CR_MIN(r + k, w->n_rows - 1) * w->row_bytes + 2 * b * DEPTH;
        v[k] = _mm512_castsi512_ps(load_bytes(p, 2 * (int)n));
    }
}

CR_INLINE void store_tile(tile *to, const vec v[ROWS])
{
    CR_UNROLL
    for (int k = 0; k < ROWS; k++)
        _mm512_storeu_ps(to->part + DEPTH * k, v[k]);
}

/* Blocks [b, b + n_blocks) of the rows from row r on. Meanwhile those that are next are asked for,
 * which are multiplied when these are done. */
static void fill_panels(workspace *work, const float_rows *w, size_t r, size_t b, size_t n_blocks)
{
    const uint8_t *rows = (const uint8_t *)((uintptr_t)w->p + r * w->row_bytes);
    const bool is_last = (b + n_blocks) * DEPTH >= w->n;
    const uint8_t *next =
        rows + (is_last ? PANELS * ROWS * w->row_bytes : (b + n_blocks) * 2 * DEPTH);
    for (size_t p = 0; p < PANELS && r + p * ROWS < w->n_rows; p++) {
        for (size_t k = 0; k < ROWS; k++)
            prefetch_run(next + (p * ROWS + k) * w->row_bytes,
                         CR_MIN(w->row_bytes, (size_t)SPAN * 2 * DEPTH));
        for (size_t k = 0; k < n_blocks; k++) {
            CR_UNSET vec v[ROWS];
            load_rows(v, w, r + p * ROWS, b + k);
            vec_transpose(v);
            store_tile(&work->panel[p][k], v);
        }
    }
}

/* ---- many columns ---- */

/* Two groups of columns and two panels, or one of either. Sums are tiles 0 to 3, two panels of each
 * group, columns are tiles 4 and 5, panels 6 and 7. */
typedef struct shape {
    size_t n_columns[GROUPS], n_rows[2];
} shape;

static void configure(tile_shapes *shapes, const shape *s)
{
    *shapes = (tile_shapes){ .palette = 1 };
    for (int g = 0; g < GROUPS; g++) {
        for (int p = 0; p < 2; p++) {
            shapes->row_bytes[2 * g + p] = (uint16_t)(4 * s->n_rows[p]);
            shapes->n_rows[2 * g + p] = (uint8_t)s->n_columns[g];
        }
        shapes->row_bytes[4 + g] = 2 * DEPTH;
        shapes->n_rows[4 + g] = (uint8_t)s->n_columns[g];
        shapes->row_bytes[6 + g] = (uint16_t)(4 * s->n_rows[g]);
        shapes->n_rows[6 + g] = DEPTH / 2;
    }
    for (int i = 0; i < 8; i++) /* tiles that are not used are not empty */
        if (shapes->row_bytes[i] == 0 || shapes->n_rows[i] == 0)
            shapes->row_bytes[i] = shapes->n_rows[i] = 4;
    atomic_signal_fence(memory_order_seq_cst);
    _tile_loadconfig(shapes);
}

#define LOAD_COLUMNS(part)                                                                         \
    _tile_loadd(4, x[0][b].part, 2 * DEPTH);                                                       \
    if (two_groups)                                                                                \
    _tile_loadd(5, x[1][b].part, 2 * DEPTH)
#define MULTIPLY()                                                                                 \
    _tile_dpbf16ps(0, 4, 6);                                                                       \
    if (two_panels)                                                                                \
        _tile_dpbf16ps(1, 4, 7);                                                                   \
    if (two_groups)                                                                                \
        _tile_dpbf16ps(2, 5, 6);                                                                   \
    if (two_groups && two_panels)                                                                  \
    _tile_dpbf16ps(3, 5, 7)
/* A sum of each: zero, load or store of tile t, panel p, group g. */
#define EACH_SUM(of)                                                                               \
    of(0, 0, 0);                                                                                   \
    if (two_panels)                                                                                \
        of(1, 1, 0);                                                                               \
    if (two_groups)                                                                                \
        of(2, 0, 1);                                                                               \
    if (two_groups && two_panels)                                                                  \
    of(3, 1, 1)
#define SUM_ZERO(t, p, g) _tile_zero(t)
#define SUM_LOAD(t, p, g) _tile_loadd(t, y + (g)*ROWS * y_stride + (p)*ROWS, 4 * y_stride)
#define SUM_STORE(t, p, g) _tile_stored(t, y + (g)*ROWS * y_stride + (p)*ROWS, 4 * y_stride)

CR_INLINE void multiply(float *y, size_t y_stride, tile (*panel)[SPAN], cr_split_block *const *x,
                        size_t n_blocks, bool is_first, bool two_groups, bool two_panels)
{
    if (is_first) {
        EACH_SUM(SUM_ZERO);
    } else {
        EACH_SUM(SUM_LOAD);
    }
    for (size_t b = 0; b < n_blocks; b++) {
        LOAD_COLUMNS(high);
        _tile_loadd(6, panel[0][b].part, 4 * ROWS);
        if (two_panels)
            _tile_loadd(7, panel[1][b].part, 4 * ROWS);
        MULTIPLY();
        LOAD_COLUMNS(low);
        MULTIPLY();
    }
    EACH_SUM(SUM_STORE);
}

/* Functions, so that tiles of each kind are written out once. */
#define MULTIPLY_KIND(name, two_groups, two_panels)                                                \
    static void multiply_##name(float *y, size_t y_stride, tile(*panel)[SPAN],                     \
                                cr_split_block *const *x, size_t n_blocks, bool is_first)          \
    {                                                                                              \
        multiply(y, y_stride, panel, x, n_blocks, is_first, two_groups, two_panels);               \
    }
MULTIPLY_KIND(11, false, false)
MULTIPLY_KIND(12, false, true)
MULTIPLY_KIND(21, true, false)
MULTIPLY_KIND(22, true, true)

/* By groups and panels. */
static void (*const multiply_kinds[GROUPS][2])(float *y, size_t y_stride, tile (*panel)[SPAN],
                                               cr_split_block *const *x, size_t n_blocks,
                                               bool is_first) = {
    { multiply_11, multiply_12 },
    { multiply_21, multiply_22 },
};

/* Blocks [b, b + n_blocks) of n columns, from the lanes of a group or split here. */
static cr_split_block *group_of(cr_split_block *to, const cr_act *x, size_t n, size_t b,
                                size_t n_blocks)
{
    bool is_split = true;
    for (size_t c = 0; c < n; c++)
        is_split = is_split && x[c].split && x[c].split == x[0].split && x[c].lane == c;
    if (is_split)
        return x[0].split + b;
    for (size_t c = 0; c < n; c++)
        for (size_t k = 0; k < n_blocks; k++)
            store_block(&to[k], c, &x[c], b + k);
    return to;
}

static void multiply_panels(float *y, size_t y_stride, const float_rows *w, size_t r,
                            const cr_act *x, size_t n_x, size_t b, size_t n_blocks, workspace *work)
{
    shape configured = { { 0 }, { 0 } };
    for (size_t c = 0; c < n_x; c += GROUPS * ROWS) {
        cr_split_block *groups[GROUPS];
        shape s = { { 0 }, { 0 } };
        for (size_t g = 0; g < GROUPS && c + g * ROWS < n_x; g++) {
            s.n_columns[g] = CR_MIN(n_x - c - g * ROWS, (size_t)ROWS);
            groups[g] = group_of(work->columns[g], x + c + g * ROWS, s.n_columns[g], b, n_blocks);
        }
        for (size_t p = 0; p < PANELS && r + p * ROWS < w->n_rows; p += 2) {
            const size_t at = r + p * ROWS;
            s.n_rows[0] = CR_MIN(w->n_rows - at, (size_t)ROWS);
            s.n_rows[1] = CR_MIN(w->n_rows - at - s.n_rows[0], (size_t)ROWS);
            if (memcmp(&s, &configured, sizeof s) != 0)
                configure(&work->shapes, &s);
            configured = s;
            multiply_kinds[s.n_columns[1] > 0][s.n_rows[1] > 0](
                y + c * y_stride + at, y_stride, &work->panel[p], groups, n_blocks, b == 0);
        }
    }
}

static void multiply_many(float *y, size_t y_stride, const float_rows *w, const cr_act *x,
                          size_t n_x, workspace *work)
{
    const size_t n_blocks = (w->n + DEPTH - 1) / DEPTH;
    for (size_t r = 0; r < w->n_rows; r += PANELS * ROWS)
        for (size_t b = 0; b < n_blocks; b += SPAN) {
            const size_t n = CR_MIN(n_blocks - b, (size_t)SPAN);
            fill_panels(work, w, r, b, n);
            atomic_signal_fence(memory_order_seq_cst);
            multiply_panels(y, y_stride, w, r, x, n_x, b, n, work);
        }
    _tile_release();
}

/* ---- few columns ---- */

typedef struct few {
    const float_rows *w;
    const cr_act *x;
    size_t n_x;
    uint32_t *columns; /* [blocks][2][DEPTH / 2][n_x]: pairs; high, low */
    tile_shapes *shapes;
} few;

/* Sums are tiles 0 to 3, one for each ROWS rows; rows are tiles 4 and 5, columns 6 and 7. */
static void configure_few(const few *f, size_t n_rows)
{
    tile_shapes *shapes = f->shapes;
    *shapes = (tile_shapes){ .palette = 1 };
    for (int i = 0; i < 8; i++) {
        shapes->row_bytes[i] = (uint16_t)(i == 4 || i == 5 ? 2 * DEPTH : 4 * f->n_x);
        shapes->n_rows[i] = i < 6 ? (uint8_t)n_rows : DEPTH / 2;
    }
    atomic_signal_fence(memory_order_seq_cst);
    _tile_loadconfig(shapes);
}

static void fill_columns(const few *f)
{
    uint32_t *to = f->columns;
    for (size_t b = 0; b * DEPTH < f->w->n; b++) {
        vec part[2][ROWS] = { { vec_zero() } };
        for (size_t c = 0; c < f->n_x; c++) {
            const cr_act *x = &f->x[c];
            __m512i high, low;
            if (x->split) {
                high = _mm512_loadu_si512(x->split[b].high[x->lane]);
                low = _mm512_loadu_si512(x->split[b].low[x->lane]);
            } else {
                split_block(&high, &low, x, b);
            }
            part[0][c] = _mm512_castsi512_ps(high);
            part[1][c] = _mm512_castsi512_ps(low);
        }
        for (int i = 0; i < 2; i++, to += DEPTH / 2 * f->n_x) {
            vec_transpose(part[i]);
            for (size_t k = 0; k < DEPTH / 2; k++)
                _mm512_mask_storeu_ps(to + k * f->n_x, first_lanes(f->n_x), part[i][k]);
        }
    }
}

/* [row][column], in a tile's shape. */
CR_INLINE void store_sums(float *y, size_t y_stride, float sums[ROWS][ROWS], size_t n_rows,
                          size_t n_x)
{
    CR_UNSET vec v[ROWS];
    CR_UNROLL
    for (int k = 0; k < ROWS; k++)
        v[k] = vec_load(sums[k]);
    vec_transpose(v);
    for (size_t c = 0; c < n_x; c++)
        _mm512_mask_storeu_ps(y + c * y_stride, first_lanes(n_rows), v[c]);
}

#define FEW_ADD(sum, rows)                                                                         \
    _tile_loadd(rows, at + (sum)*tile_bytes, row_bytes);                                           \
    _tile_dpbf16ps(sum, rows, 6);                                                                  \
    _tile_dpbf16ps(sum, rows, 7)
#define FEW_STORE(sum)                                                                             \
    _tile_stored(sum, sums, sizeof sums[0]);                                                       \
    atomic_signal_fence(memory_order_seq_cst);                                                     \
    store_sums(y + (sum)*ROWS, y_stride, sums, n_rows, f->n_x)

/* n_tiles times ROWS rows from row r on, or one of n_rows. Products of a sum wait for each other, those
 * of others do not. */
CR_INLINE void multiply_few(float *y, size_t y_stride, const few *f, size_t r, size_t n_rows,
                            size_t n_tiles)
{
    CR_UNSET tile last[4];
    CR_UNSET float sums[ROWS][ROWS];
    const float_rows *w = f->w;
    const size_t n_blocks = (w->n + DEPTH - 1) / DEPTH, step = n_tiles * ROWS * 2 * DEPTH;
    const uint8_t *rows = w->p + r * w->row_bytes, *at = rows;
    const uint8_t *ahead =
        (const uint8_t *)((uintptr_t)rows + n_tiles * ROWS * w->row_bytes + f->x->prefetch);
    size_t row_bytes = w->row_bytes, tile_bytes = ROWS * w->row_bytes;
    _tile_zero(0);
    if (n_tiles > 1)
        _tile_zero(1);
    if (n_tiles > 2) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t b = 0; b < n_blocks; b++, at += 2 * DEPTH) {
        if ((b + 1) * DEPTH > w->n) { /* rows end within this block */
            for (size_t t = 0; t < n_tiles; t++) {
                CR_UNSET vec v[ROWS];
                load_rows(v, w, r + t * ROWS, b);
                store_tile(&last[t], v);
            }
            at = (const uint8_t *)last;
            row_bytes = 2 * DEPTH;
            tile_bytes = sizeof(tile);
        }
        atomic_signal_fence(memory_order_seq_cst);
        prefetch_run(ahead + b * step, step);
        const uint32_t *columns = f->columns + b * DEPTH * f->n_x;
        _tile_loadd(6, columns, 4 * f->n_x);
        _tile_loadd(7, columns + DEPTH / 2 * f->n_x, 4 * f->n_x);
        FEW_ADD(0, 4);
        if (n_tiles > 1) {
            FEW_ADD(1, 5);
        }
        if (n_tiles > 2) {
            FEW_ADD(2, 4);
            FEW_ADD(3, 5);
        }
    }
    FEW_STORE(0);
    if (n_tiles > 1) {
        FEW_STORE(1);
    }
    if (n_tiles > 2) {
        FEW_STORE(2);
        FEW_STORE(3);
    }
}

#define MULTIPLY_FEW(n_tiles)                                                                      \
    static void multiply_few_##n_tiles(float *y, size_t y_stride, const few *f, size_t r,          \
                                       size_t n_rows)                                              \
    {                                                                                              \
        multiply_few(y, y_stride, f, r, n_rows, n_tiles);                                          \
    }
MULTIPLY_FEW(1)
MULTIPLY_FEW(2)
MULTIPLY_FEW(4)

/* By tiles of rows. */
static void (*const few_kinds[])(float *y, size_t y_stride, const few *f, size_t r,
                                 size_t n_rows) = {
    [1] = multiply_few_1,
    [2] = multiply_few_2,
    [4] = multiply_few_4,
};

static void multiply_all_few(float *y, size_t y_stride, const float_rows *w, const cr_act *x,
                             size_t n_x, uint32_t *columns)
{
    CR_UNSET tile_shapes shapes;
    const few f = { w, x, n_x, columns, &shapes };
    fill_columns(&f);
    size_t most = 4, r = 0, configured = 0;
    while (most > 1 && most * ROWS * w->row_bytes > AHEAD) /* of what is asked for, too */
        most /= 2;
    while (r < w->n_rows) {
        const size_t n_tiles = w->n_rows - r >= most * ROWS ? most : 1;
        const size_t n_rows = CR_MIN(w->n_rows - r, (size_t)ROWS);
        if (configured != n_rows)
            configure_few(&f, n_rows);
        configured = n_rows;
        few_kinds[n_tiles](y + r, y_stride, &f, r, n_rows);
        r += CR_MIN(w->n_rows - r, n_tiles * ROWS);
    }
    _tile_release();
}

void cr_matmul_bf16__amx(float *y, size_t y_stride, const void *w, size_t row_bytes, size_t n_rows,
                         const cr_act *x, size_t n_x, void *scratch)
{
    const float_rows rows = { w, row_bytes, n_rows, x->n };
    if (n_x <= FEW)
        multiply_all_few(y, y_stride, &rows, x, n_x, scratch);
    else
        multiply_many(y, y_stride, &rows, x, n_x, scratch);
}

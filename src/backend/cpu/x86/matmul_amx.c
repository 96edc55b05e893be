/* Matrix times many columns with AMX: those of PANEL_TYPES_BUT_Q2_K.
 * The bits are those of matvec.
 *
 * One instruction multiplies a block of sixteen rows, as a panel has it, with the same block of up
 * to sixteen columns, and gives 256 integers:
 *
 *     product [column][row] = columns [column][32] * panel [32][row]
 *
 * They pass through L1 to become floats, which join sixteen vectors: a chain of each column, a lane
 * a row. One chain after the other is computed, in the order in which they merge (c, c + 8, c + 4,
 * c + 12, ...), so that a sum waits for its neighbour only while that is being made, as in a binary
 * counter.
 *
 * Columns are packed first, a group of sixteen together: block by block, so that tiles are read
 * without gaps. */
#include "backend/cpu/x86/amx.h"
#include "backend/cpu/x86/panel16.h"

enum {
    GROUP = CR_LANES,
    PANELS = 4,           /* that a group of columns meets while it is in L2 */
    PRODUCTS = 4,         /* that are under way */
    UNPACKED = 4 * GROUP, /* columns that come one by one, and are packed here */
    FETCHED = sizeof(cr_packed) / PANELS,
};

typedef int32_t product[GROUP][PANEL];

/* In scratch, not on the stack: compilers know little of what tile instructions read. */
typedef struct workspace {
    product products[PRODUCTS];
    __m512 waiting[4][GROUP]; /* sums of 1, 2, 4 and 8 chains */
    tile_shapes shapes;
    cr_act columns[UNPACKED];
} workspace;

_Static_assert(sizeof(workspace) <= CR_PANEL_CHAIN_BYTES, "cr_panel_bytes");
_Static_assert(PANELS * sizeof(panel_block) + UNPACKED / GROUP * sizeof(cr_packed) <=
                   CR_PANEL_BLOCK_BYTES,
               "cr_panel_bytes");

/* ---- tiles ---- */

/* Products are tiles 0 and 1, columns 2 and 3, panels 4 and 5. */
static void configure(tile_shapes *shapes, size_t n_columns, bool groups)
{
    const uint16_t depth = groups ? CR_ACT_BLOCK / 2 : CR_ACT_BLOCK;
    *shapes = (tile_shapes){ .palette = 1 };
    for (int i = 0; i < 6; i++) {
        shapes->row_bytes[i] = i == 2 || i == 3 ? depth : 64;
        shapes->n_rows[i] = i < 4 ? (uint8_t)n_columns : (uint8_t)(depth / 4);
    }
    atomic_signal_fence(memory_order_seq_cst);
    _tile_loadconfig(shapes);
}

/* ---- packing columns ---- */

void cr_pack__amx(const cr_act *x)
{
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    const size_t n_blocks = x->n / CR_ACT_BLOCK;
    cr_packed *to = x->packed;
    for (size_t b = 0; b < n_blocks; b += 4) {
        const __m512i first = _mm512_load_si512(x->q + 32 * b);
        const __m512i second = _mm512_load_si512(x->q + 32 * b + 64);
        const __m512i pairs[2] = { _mm512_permutex2var_epi64(first, low, second),
                                   _mm512_permutex2var_epi64(first, high, second) };
        const __m128i sums = _mm_load_si128((const __m128i *)(x->sum + 2 * b));
        const __m128i sum = _mm_madd_epi16(sums, _mm_set1_epi16(1));
        float d_sum[4];
        _mm_storeu_ps(d_sum, _mm_mul_ps(_mm_load_ps(x->d + b), _mm_cvtepi32_ps(sum)));
        for (size_t k = 0; k < 4 && b + k < n_blocks; k++, to++) {
            const __m256i q = k % 2 == 0 ? _mm512_castsi512_si256(pairs[k / 2])
                                         : _mm512_extracti64x4_epi64(pairs[k / 2], 1);
            _mm256_store_si256((__m256i *)to->q[x->lane], q);
            to->d[x->lane] = x->d[b + k];
            to->d_sum[x->lane] = d_sum[k];
        }
    }
}

/* Whether the columns are packed, group by group. */
static bool is_packed(const cr_act *x, size_t n_x)
{
    for (size_t c = 0; c < n_x; c++)
        if (!x[c].packed || x[c].lane != c % GROUP || x[c].packed != x[c - c % GROUP].packed)
            return false;
    return true;
}

/* ---- a panel times a group of columns ---- */

/* Integers below 2^22 in size become floats, exactly. Of the two units that convert, multiply and
 * join sixteen lanes one is closed while tiles are multiplied; sums do not need them. */
CR_INLINE __m512 floats(const int32_t integers[PANEL])
{
    const __m512 half_way = _mm512_set1_ps(0x1.8p23f); /* whose last bit is worth one */
    const __m512i sum =
        _mm512_add_epi32(_mm512_castps_si512(half_way), _mm512_load_si512(integers));
    return _mm512_sub_ps(_mm512_castsi512_ps(sum), half_way);
}

/* A block joins the chains. */
CR_INLINE void add_product(__m512 chain[GROUP], const product from[2], const cr_packed *x,
                           const panel_block *w, size_t n_columns, const weights *type)
{
    const __m512 d = w->d, m = w->m;
    const __m512i scales = w->scale;
    const __m512 scale0 = _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(scales, 16), 16));
    const __m512 scale1 = _mm512_cvtepi32_ps(_mm512_srai_epi32(scales, 16));
    CR_UNROLL
    for (size_t c = 0; c < n_columns; c++) {
        __m512 sum = floats(from[0][c]);
        if (type->groups) { /* less than 2^24: exact */
            const __m512 second = _mm512_mul_ps(scale1, floats(from[1][c]));
            sum = _mm512_fmadd_ps(scale0, sum, second);
        }
        chain[c] = _mm512_fmadd_ps(sum, _mm512_mul_ps(d, _mm512_set1_ps(x->d[c])), chain[c]);
        if (type->minima)
            chain[c] = _mm512_fmadd_ps(m, _mm512_set1_ps(x->d_sum[c]), chain[c]);
    }
}

/* The number whose four bits are those of i in reverse. */
CR_INLINE size_t reversed(size_t i)
{
    return (i & 1) << 3 | (i & 2) << 1 | (i & 4) >> 1 | (i & 8) >> 3;
}

/* The next tiles: blocks chain by chain, of each its halves when they are apart. */
typedef struct walk {
    const cr_packed *x;
    const panel_block *panel;
    size_t n_blocks;
    size_t turn, b, half;
} walk;

/* At the end it stays where it is. */
CR_INLINE void walk_on(walk *at, bool groups)
{
    if (groups && at->half == 0) {
        at->half = 1;
        return;
    }
    size_t turn = at->turn, b = at->b + CR_CHAINS;
    while (b >= at->n_blocks && turn + 1 < CR_CHAINS)
        b = reversed(++turn);
    if (b < at->n_blocks)
        *at = (walk){ at->x, at->panel, at->n_blocks, turn, b, 0 };
}

/* Tiles take long from one step to the next, and stores wait for their turn. So the steps of three
 * products go together: one is stored, the next is computed, the tiles of the third are loaded. */
typedef struct pipeline {
    walk next;
    product *products;
    size_t n; /* computed */
} pipeline;

#define STEP(done, now, x_now, w_now, x_next, w_next)                                              \
    _tile_stored(done, to, sizeof(*to)[0]);                                                        \
    _tile_zero(now);                                                                               \
    _tile_dpbssd(now, x_now, w_now);                                                               \
    _tile_loadd(x_next, q, CR_ACT_BLOCK);                                                          \
    _tile_loadd(w_next, w, 64)

/* Computes product n, stores product n - 1. */
CR_INLINE void advance(pipeline *p, bool groups)
{
    walk_on(&p->next, groups);
    const int8_t *q = &p->next.x[p->next.b].q[0][16 * p->next.half];
    const __m512i *w = &p->next.panel[p->next.b].w[4 * p->next.half];
    product *to = &p->products[(p->n - 1) % PRODUCTS];
    if (p->n++ % 2 == 0) {
        STEP(1, 0, 2, 4, 3, 5);
    } else {
        STEP(0, 1, 3, 5, 2, 4);
    }
}

/* y[c * y_stride + r] for the rows of a panel and n_x columns, at most n_columns. Meanwhile a part of
 * the next group of columns is fetched. */
CR_INLINE void multiply(float *y, size_t y_stride, __mmask16 rows, const panel_block *panel,
                        const cr_packed *x, const uint8_t *ahead, size_t n_blocks, size_t n_x,
                        size_t n_columns, workspace *work, const weights *type)
{
    const size_t n_products = type->groups ? 2 : 1; /* of a block */
    pipeline p = { .next = { x, panel, n_blocks, 0, 0, 0 }, .products = work->products };
    _tile_loadd(2, x->q, CR_ACT_BLOCK);
    _tile_loadd(4, panel->w, 64);
    for (size_t i = 0; i < 1 + n_products; i++)
        advance(&p, type->groups);
    size_t used = 0;
    for (size_t turn = 0; turn < CR_CHAINS; turn++) {
        __m512 chain[GROUP];
        CR_UNROLL
        for (size_t c = 0; c < n_columns; c++)
            chain[c] = _mm512_setzero_ps();
        for (size_t b = reversed(turn); b < n_blocks; b += CR_CHAINS, ahead += FETCHED) {
            prefetch(ahead, FETCHED);
            for (size_t i = 0; i < n_products; i++)
                advance(&p, type->groups);
            add_product(chain, &work->products[used % PRODUCTS], &x[b], &panel[b], n_columns, type);
            used += n_products;
        }
        int level = 0;
        for (; (turn >> level & 1) != 0; level++)
            CR_UNROLL
        for (size_t c = 0; c < n_columns; c++)
            chain[c] = _mm512_add_ps(work->waiting[level][c], chain[c]);
        if (level < 4) {
            CR_UNROLL
            for (size_t c = 0; c < n_columns; c++)
                work->waiting[level][c] = chain[c];
        } else {
            CR_UNROLL
            for (size_t c = 0; c < n_columns; c++)
                if (c < n_x)
                    _mm512_mask_storeu_ps(y + c * y_stride, rows, chain[c]);
        }
    }
}

/* A group has some columns of 16; those that it lacks are computed up to a multiple of four. */
CR_INLINE void multiply_group(float *y, size_t y_stride, __mmask16 rows, const panel_block *panel,
                              const cr_packed *x, const uint8_t *ahead, size_t n_blocks, size_t n_x,
                              workspace *work, const weights *type)
{
    if (n_x > 12)
        multiply(y, y_stride, rows, panel, x, ahead, n_blocks, n_x, 16, work, type);
    else if (n_x > 8)
        multiply(y, y_stride, rows, panel, x, ahead, n_blocks, n_x, 12, work, type);
    else if (n_x > 4)
        multiply(y, y_stride, rows, panel, x, ahead, n_blocks, n_x, 8, work, type);
    else
        multiply(y, y_stride, rows, panel, x, ahead, n_blocks, n_x, 4, work, type);
}

/* Functions, not inlined into each type's kernel: there are only three kinds. */
#define MULTIPLY_GROUP(kind, ...)                                                                  \
    static void multiply_##kind(                                                                   \
        float *y, size_t y_stride, __mmask16 rows, const panel_block *panel, const cr_packed *x,   \
        const uint8_t *ahead, size_t n_blocks, size_t n_x, workspace *work)                        \
    {                                                                                              \
        static const weights kind = { __VA_ARGS__ };                                               \
        multiply_group(y, y_stride, rows, panel, x, ahead, n_blocks, n_x, work, &kind);            \
    }
MULTIPLY_GROUP(plain, .offset = 0)
MULTIPLY_GROUP(minima, .minima = true)
MULTIPLY_GROUP(halves, .groups = true)

/* Makes weights of a panel's bytes, with a sign. */
static void take_offset(panel_block *panel, size_t n_blocks, int offset)
{
    for (size_t b = 0; b < n_blocks; b++)
        for (int k = 0; k < 8; k++)
            panel[b].w[k] = _mm512_sub_epi8(panel[b].w[k], _mm512_set1_epi8((char)offset));
}

CR_INLINE void matmul_packed(float *y, size_t y_stride, const void *w, size_t row_bytes,
                             size_t n_rows, const cr_act *x, size_t n_x, workspace *work,
                             const weights *type)
{
    const size_t n_blocks = x->n / CR_ACT_BLOCK;
    panel_block *panels = (panel_block *)(void *)(work + 1);
    size_t configured = 0;
    for (size_t i = 0; i < n_rows; i += PANELS * PANEL) {
        const size_t n_panels = CR_MIN((n_rows - i + PANEL - 1) / PANEL, (size_t)PANELS);
        for (size_t p = 0; p < n_panels; p++) {
            const panel_rows r = panel_rows_at(w, row_bytes, i + p * PANEL, n_rows);
            fill_all(panels + p * n_blocks, &r, n_blocks, type);
        }
        if (type->offset != 0)
            take_offset(panels, n_panels * n_blocks, type->offset);
        atomic_signal_fence(memory_order_seq_cst);
        const next_rows ahead = next_rows_at(w, row_bytes, i + PANELS * PANEL, n_panels, n_blocks);
        size_t n_fetched = 0;
        for (size_t c = 0; c < n_x; c += GROUP) {
            const size_t n = CR_MIN(n_x - c, (size_t)GROUP);
            for (; n_fetched < (c + n) * n_blocks / n_x; n_fetched++)
                fetch_block(&ahead, n_fetched);
            if (n != configured)
                configure(&work->shapes, n, type->groups);
            configured = n;
            const uint8_t *next = (const uint8_t *)x[c + GROUP < n_x ? c + GROUP : 0].packed;
            for (size_t p = 0, r = i; p < n_panels; p++, r += PANEL)
                (type->groups ? multiply_halves
                              : (type->minima ? multiply_minima : multiply_plain))(
                    y + c * y_stride + r, y_stride, first_lanes(n_rows - r), panels + p * n_blocks,
                    x[c].packed, next + p * n_blocks * FETCHED, n_blocks, n, work);
        }
    }
    _tile_release();
}

CR_INLINE void matmul(float *y, size_t y_stride, const void *w, size_t row_bytes, size_t n_rows,
                      const cr_act *x, size_t n_x, void *scratch, const weights *type)
{
    workspace *work = scratch;
    if (is_packed(x, n_x)) {
        matmul_packed(y, y_stride, w, row_bytes, n_rows, x, n_x, work, type);
        return;
    }
    const size_t n_blocks = x->n / CR_ACT_BLOCK;
    cr_packed *packed =
        (cr_packed *)(void *)((panel_block *)(void *)(work + 1) + PANELS * n_blocks);
    for (size_t c = 0; c < n_x; c += UNPACKED) {
        const size_t n = CR_MIN(n_x - c, (size_t)UNPACKED);
        for (size_t i = 0; i < n; i++) {
            work->columns[i] = x[c + i];
            work->columns[i].packed = packed + i / GROUP * n_blocks;
            work->columns[i].lane = i % GROUP;
            cr_pack__amx(&work->columns[i]);
        }
        matmul_packed(y + c * y_stride, y_stride, w, row_bytes, n_rows, work->columns, n, work,
                      type);
    }
}

/* ---- the kernels ---- */

#define MATMUL_WIDE(name, tier, ...)                                                               \
    void cr_matmul_wide_##name##__##tier(float *y, size_t y_stride, const void *w,                 \
                                         size_t row_bytes, size_t n_rows, const cr_act *x,         \
                                         size_t n_x, void *scratch)                                \
    {                                                                                              \
        const weights type = { __VA_ARGS__ };                                                      \
        matmul(y, y_stride, w, row_bytes, n_rows, x, n_x, scratch, &type);                         \
    }

PANEL_TYPES_BUT_Q2_K(MATMUL_WIDE, amx)

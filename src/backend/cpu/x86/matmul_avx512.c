/* Matrix times many columns, rows of a batch: types with a line at the end. The bits are those of
 * matvec.
 *
 * Here a lane is a row. Sixteen rows are a panel: bytes without sign, four neighbours of a row in a
 * lane, and the scales as floats. One block of one column is eight products with its activations,
 * four at a time in all lanes, beginning with what the offset comes to, and one FMA into a chain:
 *
 *     chain[b % 16][column][row] = fma(sum, d[row] * d[column], ...)
 *
 * Two panels pass together, so that an activation is loaded once for 32 rows.
 *
 *     few columns     meet a block in the registers where it was filled: while it is multiplied,
 *                     processors fill the next one
 *     many columns    pass over whole panels in groups; these stay in L1 or L2 */
#include "backend/cpu/x86/panel16.h"

enum {
    PANELS = CR_PANEL_ROWS / PANEL, /* that pass together */
    FEW = 16,                       /* columns that meet blocks as they are filled */
    GROUP = 8,                      /* columns that meet panels; their chains take 16 KiB */
    PAIR = 2,                       /* columns whose products alternate */
};

/* ---- a block of panels times a group of columns ---- */

/* What the activations of 16 blocks of a column come to by themselves, for types that want it. */
typedef struct column_sums {
    int32_t minus_offset[2][16]; /* times their sums: those of a block, or of its halves */
    float d_sum[16];             /* scale times their sum */
} column_sums;

CR_INLINE __m512i low_words(__m512i pairs)
{
    return _mm512_srai_epi32(_mm512_slli_epi32(pairs, 16), 16);
}

CR_INLINE __m512i high_words(__m512i pairs)
{
    return _mm512_srai_epi32(pairs, 16);
}

/* Blocks b to b + 15. */
CR_INLINE void sum_column(column_sums *to, const cr_act *x, size_t b, const weights *type)
{
    const __m512i sums = _mm512_load_si512(x->sum + 2 * b);
    if (type->groups && type->offset != 0) {
        const __m512i minus = _mm512_set1_epi32(-type->offset);
        _mm512_storeu_si512(to->minus_offset[0], _mm512_mullo_epi32(low_words(sums), minus));
        _mm512_storeu_si512(to->minus_offset[1], _mm512_mullo_epi32(high_words(sums), minus));
    } else if (type->offset != 0) {
        const __m512i minus = _mm512_set1_epi16((short)-type->offset);
        _mm512_storeu_si512(to->minus_offset[0], _mm512_madd_epi16(sums, minus));
    } else if (type->minima && !type->groups) {
        const __m512i whole = _mm512_madd_epi16(sums, _mm512_set1_epi16(1));
        const __m512 d = _mm512_load_ps(x->d + b);
        _mm512_storeu_ps(to->d_sum, _mm512_mul_ps(d, _mm512_cvtepi32_ps(whole)));
    }
}

/* Four activations, to all lanes. */
CR_INLINE __m512i four(const int8_t *q)
{
    int32_t bytes;
    memcpy(&bytes, q, sizeof bytes);
    return _mm512_set1_epi32(bytes);
}

/* Integers of a pair of columns, for each panel: of a block, or of its halves. */
typedef __m512i pair_dots[PAIR][PANELS][2];

/* Weights times activations, less the offset. Each activation is loaded once. */
CR_INLINE void dot_pair(pair_dots dot, const panel_block block[PANELS], size_t n_panels,
                        const cr_act *x, const column_sums *sums, size_t n_columns, size_t b,
                        const weights *type)
{
    const int8_t *q[PAIR];
    CR_UNROLL
    for (size_t c = 0; c < n_columns; c++) {
        q[c] = x[c].q + cr_act_index(32 * b);
        CR_UNROLL
        for (size_t half = 0; half < 2; half++) {
            const int32_t begin = type->offset != 0 ? sums[c].minus_offset[half][b % 16] : 0;
            CR_UNROLL
            for (size_t p = 0; p < n_panels; p++)
                dot[c][p][half] = _mm512_set1_epi32(begin);
        }
    }
    CR_UNROLL
    for (size_t k = 0; k < 8; k++)
        CR_UNROLL
    for (size_t c = 0; c < n_columns; c++) {
        const __m512i a = four(q[c] + k / 4 * 64 + k % 4 * 4);
        const size_t half = type->groups ? k / 4 : 0;
        CR_UNROLL
        for (size_t p = 0; p < n_panels; p++)
            dot[c][p][half] = _mm512_dpbusd_epi32(dot[c][p][half], block[p].w[k], a);
    }
}

/* Block b of some columns, at most a pair, joins their chains; begun: or else a chain is 0. */
CR_INLINE void multiply_pair(__m512 (*chain)[PANELS], __mmask16 begun,
                             const panel_block block[PANELS], size_t n_panels, const cr_act *x,
                             const column_sums *sums, size_t n_columns, size_t b,
                             const weights *type)
{
    pair_dots dot;
    dot_pair(dot, block, n_panels, x, sums, n_columns, b, type);
    CR_UNROLL
    for (size_t c = 0; c < n_columns; c++) {
        const __m512 d = _mm512_set1_ps(x[c].d[b]);
        CR_UNROLL
        for (size_t p = 0; p < n_panels; p++) {
            __m512 whole = _mm512_cvtepi32_ps(dot[c][p][0]);
            if (type->groups) {
                const __m512 scale0 = _mm512_cvtepi32_ps(low_words(block[p].scale));
                const __m512 scale1 = _mm512_cvtepi32_ps(high_words(block[p].scale));
                whole = _mm512_mul_ps(whole, scale0);
                whole = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[c][p][1]), scale1, whole);
            }
            __m512 sum = _mm512_fmadd_ps(whole, _mm512_mul_ps(block[p].d, d),
                                         _mm512_maskz_load_ps(begun, &chain[c][p]));
            if (type->minima && type->groups) {
                int32_t pair;
                memcpy(&pair, x[c].sum + 2 * b, sizeof pair);
                const __m512i minima = _mm512_madd_epi16(block[p].pairs, _mm512_set1_epi32(pair));
                sum =
                    _mm512_fmadd_ps(_mm512_cvtepi32_ps(minima), _mm512_mul_ps(block[p].m, d), sum);
            } else if (type->minima) {
                sum = _mm512_fmadd_ps(block[p].m, _mm512_set1_ps(sums[c].d_sum[b % 16]), sum);
            }
            chain[c][p] = sum;
        }
    }
}

/* ---- all blocks ---- */

typedef struct workspace {
    __m512 chains[CR_CHAINS * FEW][PANELS]; /* [chain][column of the group][panel][row] */
    column_sums sums[FEW];
    panel_block panels[]; /* [panel][block] */
} workspace;

_Static_assert(sizeof(workspace) + PANELS * sizeof(panel_block) <=
                   CR_PANEL_CHAIN_BYTES + CR_PANEL_BLOCK_BYTES,
               "cr_panel_bytes");
_Static_assert(PANELS * sizeof(panel_block) <= CR_PANEL_BLOCK_BYTES, "cr_panel_bytes");

/* Chains that no block begins. */
CR_INLINE void clear_chains(workspace *work, size_t n_blocks, size_t n_x)
{
    for (size_t i = n_blocks * n_x; i < CR_CHAINS * n_x; i++)
        CR_UNROLL
    for (size_t p = 0; p < PANELS; p++)
        work->chains[i][p] = _mm512_setzero_ps();
}

/* Block b of a group of columns. */
CR_INLINE void multiply_block(workspace *work, const panel_block block[PANELS], size_t n_panels,
                              const cr_act *x, size_t n_x, size_t b, const weights *type)
{
    if (b % 16 == 0) {
        for (size_t c = 0; c < n_x; c++)
            sum_column(&work->sums[c], &x[c], b, type);
    }
    __m512(*chain)[PANELS] = work->chains + b % CR_CHAINS * n_x;
    const __mmask16 begun = b < CR_CHAINS ? 0 : 0xffff;
    const column_sums *sums = work->sums;
    size_t c = 0;
    /* Where halves have integers of their own, one column has as many as two of others. */
    for (; !type->groups && c + PAIR <= n_x; c += PAIR)
        multiply_pair(chain + c, begun, block, n_panels, x + c, sums + c, PAIR, b, type);
    for (; c < n_x; c++)
        multiply_pair(chain + c, begun, block, n_panels, x + c, sums + c, 1, b, type);
}

/* y[c * y_stride + r], r in [0, n_rows), at most 16 for each of the n_panels panels. */
CR_INLINE void merge_columns(float *y, size_t y_stride, size_t n_rows, const workspace *work,
                             size_t n_panels, size_t n_x)
{
    for (size_t c = 0; c < n_x; c++)
        CR_UNROLL
    for (size_t p = 0; p < n_panels; p++) {
        const __m512(*chain)[PANELS] = work->chains + c;
        __m512 sum[CR_CHAINS / 2];
        CR_UNROLL
        for (size_t i = 0; i < CR_CHAINS / 2; i++)
            sum[i] = _mm512_add_ps(chain[i * n_x][p], chain[(i + CR_CHAINS / 2) * n_x][p]);
        CR_UNROLL
        for (size_t i = 0; i < 4; i++)
            sum[i] = _mm512_add_ps(sum[i], sum[i + 4]);
        const __m512 even = _mm512_add_ps(sum[0], sum[2]), odd = _mm512_add_ps(sum[1], sum[3]);
        _mm512_mask_storeu_ps(y + c * y_stride + p * PANEL, first_lanes(n_rows - p * PANEL),
                              _mm512_add_ps(even, odd));
    }
}

/* ---- rows ---- */

/* Few columns. */
CR_INLINE void multiply_rows(float *y, size_t y_stride, size_t n_rows,
                             const panel_rows rows[PANELS], size_t n_panels, const cr_act *x,
                             size_t n_x, workspace *work, next_rows ahead, const weights *type)
{
    const size_t n_blocks = x->n / 32;
    clear_chains(work, n_blocks, n_x);
    for (size_t b = 0; b < n_blocks; b++) {
        fetch_block(&ahead, b);
        panel_block block[PANELS] = { 0 };
        CR_UNROLL
        for (size_t p = 0; p < n_panels; p++)
            type->fill(&block[p], &rows[p], b, b + 1);
        multiply_block(work, block, n_panels, x, n_x, b, type);
    }
    merge_columns(y, y_stride, n_rows, work, n_panels, n_x);
}

/* The same of types whose blocks are filled in pairs. */
CR_INLINE void multiply_pairs(float *y, size_t y_stride, size_t n_rows,
                              const panel_rows rows[PANELS], size_t n_panels, const cr_act *x,
                              size_t n_x, workspace *work, next_rows ahead, const weights *type)
{
    const size_t n_blocks = x->n / 32;
    clear_chains(work, n_blocks, n_x);
    for (size_t b = 0; b < n_blocks; b += 8) {
        for (size_t p = 0; p < n_panels; p++)
            type->share(work->panels + 8 * p, &rows[p], b / 8);
        for (size_t i = 0; i < 4; i++) {
            const size_t at = pair_at(i, type);
            panel_block low[PANELS] = { 0 }, high[PANELS] = { 0 };
            CR_UNROLL
            for (size_t p = 0; p < n_panels; p++) {
                const panel_block *shared = work->panels + 8 * p;
                type->pair(&low[p], &high[p], shared, &rows[p], b / 8, i);
                low[p].d = shared[at].d;
                low[p].m = shared[at].m;
                low[p].scale = shared[at].scale;
                high[p].d = shared[at + type->apart].d;
                high[p].m = shared[at + type->apart].m;
                high[p].scale = shared[at + type->apart].scale;
            }
            fetch_block(&ahead, b + 2 * i);
            multiply_block(work, low, n_panels, x, n_x, b + at, type);
            fetch_block(&ahead, b + 2 * i + 1);
            multiply_block(work, high, n_panels, x, n_x, b + at + type->apart, type);
        }
    }
    merge_columns(y, y_stride, n_rows, work, n_panels, n_x);
}

/* A group of many columns that pass over panels. */
CR_INLINE void multiply_panels(float *y, size_t y_stride, size_t n_rows, size_t n_panels,
                               const cr_act *x, size_t n_x, workspace *work, next_rows ahead,
                               const weights *type)
{
    const size_t n_blocks = x->n / 32;
    const panel_block *panel = work->panels;
    clear_chains(work, n_blocks, n_x);
    for (size_t b = 0; b < n_blocks; b++) {
        fetch_block(&ahead, b);
        /* With an initializer, or else compilers that clear variables clear it for each block. */
        const panel_block block[PANELS] = { panel[b], panel[b + (n_panels - 1) * n_blocks] };
        multiply_block(work, block, n_panels, x, n_x, b, type);
    }
    merge_columns(y, y_stride, n_rows, work, n_panels, n_x);
}

/* Rows i on: n_panels panels of them. The next ones are fetched while the first columns are
 * multiplied. */
CR_INLINE void matmul_panels(float *y, size_t y_stride, const void *w, size_t row_bytes,
                             size_t n_rows, size_t i, size_t n_panels, const cr_act *x, size_t n_x,
                             void *scratch, const weights *type)
{
    workspace *work = scratch;
    const size_t n_blocks = x->n / 32;
    next_rows ahead = next_rows_at(w, row_bytes, i + n_panels * PANEL, n_panels, n_blocks);
    panel_rows rows[PANELS] = { { { 0 } } };
    for (size_t p = 0; p < n_panels; p++)
        rows[p] = panel_rows_at(w, row_bytes, i + p * PANEL, n_rows);
    if (type->single && n_x <= FEW) {
        multiply_rows(y + i, y_stride, n_rows - i, rows, n_panels, x, n_x, work, ahead, type);
        return;
    }
    if (type->pair && n_x <= FEW) {
        multiply_pairs(y + i, y_stride, n_rows - i, rows, n_panels, x, n_x, work, ahead, type);
        return;
    }
    for (size_t p = 0; p < n_panels; p++)
        fill_all(work->panels + p * n_blocks, &rows[p], n_blocks, type);
    for (size_t c = 0; c < n_x; c += GROUP, ahead.block_bytes = 0)
        multiply_panels(y + c * y_stride + i, y_stride, n_rows - i, n_panels, x + c,
                        CR_MIN(n_x - c, (size_t)GROUP), work, ahead, type);
}

/* ---- Q2_K, which AMX has not: its columns are packed without the sums of halves ---- */

/* [16 bytes: a scale, and above it a minimum][2][32 bytes: two bits of four blocks][d][dmin], 84
 * bytes */
static void fill_q2_k(panel_block *to, const panel_rows *r, size_t first, size_t end)
{
    for (size_t super = first / 8; super < end / 8; super++) {
        const size_t at = 84 * super;
        __m512i pairs[4];
        transpose(pairs, r, at);
        const __m512i dm = load_dwords(r, at + 80);
        const __m512i minus = _mm512_xor_si512(dm, _mm512_set1_epi32(INT32_MIN)); /* -dmin */
        const __m512 d = low_halves(dm), minus_dmin = high_halves(minus);
        for (int half = 0; half < 2; half++) {
            __m512i two[8];
            transpose(two, r, at + 16 + 32 * (size_t)half);
            transpose(two + 4, r, at + 32 + 32 * (size_t)half);
            for (int b = 4 * half; b < 4 * half + 4; b++, to++) {
                for (int k = 0; k < 8; k++)
                    to->w[k] =
                        _mm512_and_si512(_mm512_srl_epi32(two[k], _mm_cvtsi32_si128(b % 4 * 2)),
                                         _mm512_set1_epi8(3));
                set_scales(to, low_nibbles(pairs[b / 2]), b % 2);
                to->pairs = byte_pair(high_nibbles(pairs[b / 2]), b % 2);
                to->d = d;
                to->m = minus_dmin;
            }
        }
    }
}

/* ---- the kernels ---- */

#include "backend/cpu/x86/panel_matmul.h"

PANEL_TYPES(MATMUL, avx512)

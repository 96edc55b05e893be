/* Matrix times many columns, rows of a batch: types with a line at the end. The bits are those of
 * matvec.
 *
 * Here a lane is a row. Sixteen rows become a panel once: bytes without sign, four neighbours of a
 * row in a lane, and the scales as floats. Then four columns at a time pass over two panels, which
 * stay in L1 or L2, chain by chain. One block of one column is eight products with its activations,
 * four at a time in all lanes, and one FMA into a register:
 *
 *     chain[column][row] = fma(sum, d[row] * d[column], ...)        blocks i, i + 16, i + 32, ...
 *
 * The sum begins with what the type's offset comes to. An activation is loaded once for 32 rows, a
 * weight once for four columns; sixteen products wait for nothing but themselves, which hides their
 * latency. What is left are the units that multiply, which chains in memory would share: on Zen 4 a
 * store of 64 bytes takes a product's turn. */
#include "backend/cpu/x86/panel16.h"

enum {
    PANELS = CR_PANEL_ROWS / PANEL, /* that pass together */
    COLUMNS = 4,                    /* that they meet together */
    PAIRS = CR_CHAINS / 2,          /* of chains, whose sums are stored */
};

/* What columns have beside their bytes, of sixteen blocks: one of each chain. */
typedef struct column_blocks {
    float d[COLUMNS][CR_CHAINS];
    float d_sum[COLUMNS][CR_CHAINS];   /* d times the sum, for minima */
    int32_t pairs[COLUMNS][CR_CHAINS]; /* sums of the halves as words, for minima of halves */
    int32_t begin[2][COLUMNS]
                 [CR_CHAINS]; /* sums, of all or of the halves, times minus the offset */
} column_blocks;

/* A vector for each column and panel. */
typedef __m512 tile_floats[COLUMNS][PANELS];
typedef __m512i tile_ints[COLUMNS][PANELS];

_Static_assert(PAIRS * sizeof(tile_floats) <= CR_PANEL_CHAIN_BYTES, "cr_panel_bytes");
_Static_assert(PANELS * sizeof(panel_block) + sizeof(column_blocks) <= CR_PANEL_BLOCK_BYTES,
               "cr_panel_bytes");

/* ---- columns ---- */

CR_INLINE void prepare_columns(column_blocks *to, const cr_act *x, size_t n_columns,
                               const weights *type)
{
    const int offset = -type->offset;
    const __m512i all = _mm512_set1_epi16((short)offset);
    const __m512i first = _mm512_and_si512(all, _mm512_set1_epi32(UINT16_MAX));
    for (size_t b = 0; b < x->n / CR_ACT_BLOCK; b += CR_CHAINS, to++)
        for (size_t c = 0; c < n_columns; c++) {
            const __m512 d = _mm512_load_ps(x[c].d + b);
            const __m512i sums = _mm512_load_si512(x[c].sum + 2 * b); /* of halves, as words */
            _mm512_store_ps(to->d[c], d);
            if (type->minima && type->groups) {
                _mm512_store_si512(to->pairs[c], sums);
            } else if (type->minima) {
                const __m512i sum = _mm512_madd_epi16(sums, _mm512_set1_epi16(1));
                _mm512_store_ps(to->d_sum[c], _mm512_mul_ps(d, _mm512_cvtepi32_ps(sum)));
            } else if (type->groups) {
                _mm512_store_si512(to->begin[0][c], _mm512_madd_epi16(sums, first));
                _mm512_store_si512(to->begin[1][c],
                                   _mm512_madd_epi16(sums, _mm512_andnot_si512(first, all)));
            } else {
                _mm512_store_si512(to->begin[0][c], _mm512_madd_epi16(sums, all));
            }
        }
}

/* ---- panels times columns ---- */

/* Rows and columns of the result. */
typedef struct tile {
    float *y; /* y[c * y_stride + r], r in [0, n_rows), at most 16 for each panel */
    size_t y_stride, n_rows, n_blocks;
    const panel_block *panels; /* [n_panels][n_blocks] */
    const int8_t *q[COLUMNS];
    const column_blocks *columns; /* [n_blocks / 16] */
    next_rows ahead;              /* fetched meanwhile */
} tile;

/* Four activations, to all lanes. */
CR_INLINE __m512i four(const int8_t *q)
{
    int32_t bytes;
    memcpy(&bytes, q, sizeof bytes);
    return _mm512_set1_epi32(bytes);
}

/* A vector for each column and panel. */
typedef __m512 tile_floats[COLUMNS][PANELS];
typedef __m512i tile_ints[COLUMNS][PANELS];

/* sum = chain i. */
CR_INLINE void multiply_chain(tile_floats sum, const tile *t, size_t i, size_t n_panels,
                              size_t n_columns, const weights *type)
{
    CR_UNROLL
    for (size_t c = 0; c < n_columns; c++)
        CR_UNROLL
    for (size_t p = 0; p < n_panels; p++)
        sum[c][p] = _mm512_setzero_ps();
    for (size_t b = i; b < t->n_blocks; b += CR_CHAINS) {
        fetch_block(&t->ahead, b);
        const panel_block *const block[PANELS] = { t->panels + b,
                                                   t->panels + b + (n_panels - 1) * t->n_blocks };
        const column_blocks *columns = t->columns + b / CR_CHAINS;
        const size_t q = cr_act_index(CR_ACT_BLOCK * b);
        tile_ints dot;
        tile_floats exact;
        CR_UNROLL
        for (size_t c = 0; c < n_columns; c++)
            CR_UNROLL
        for (size_t p = 0; p < n_panels; p++) {
            dot[c][p] =
                type->minima ? _mm512_setzero_si512() : _mm512_set1_epi32(columns->begin[0][c][i]);
            exact[c][p] = _mm512_setzero_ps();
        }
        /* A loop indeed: compilers load all the activations of a longer run of products first. */
        for (size_t half = 0; half < 2; half++) {
            CR_UNROLL
            for (size_t k = 0; k < 4; k++)
                CR_UNROLL
            for (size_t c = 0; c < n_columns; c++) {
                const __m512i a = four(t->q[c] + q + 64 * half + 4 * k);
                CR_UNROLL
                for (size_t p = 0; p < n_panels; p++)
                    dot[c][p] = _mm512_dpbusd_epi32(dot[c][p], block[p]->w[4 * half + k], a);
            }
            if (!type->groups)
                continue;
            CR_UNROLL
            for (size_t c = 0; c < n_columns; c++)
                CR_UNROLL
            for (size_t p = 0; p < n_panels; p++) { /* less than 2^24 */
                exact[c][p] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[c][p]), block[p]->scale[half],
                                              exact[c][p]);
                dot[c][p] = type->minima ? _mm512_setzero_si512()
                                         : _mm512_set1_epi32(columns->begin[1][c][i]);
            }
        }
        CR_UNROLL
        for (size_t c = 0; c < n_columns; c++)
            CR_UNROLL
        for (size_t p = 0; p < n_panels; p++) {
            const __m512 d = _mm512_mul_ps(block[p]->d, _mm512_set1_ps(columns->d[c][i]));
            const __m512 s = type->groups ? exact[c][p] : _mm512_cvtepi32_ps(dot[c][p]);
            sum[c][p] = _mm512_fmadd_ps(s, d, sum[c][p]);
            if (type->minima && type->groups) {
                const __m512i pair = _mm512_set1_epi32(columns->pairs[c][i]);
                const __m512 minima = _mm512_cvtepi32_ps(_mm512_madd_epi16(block[p]->pairs, pair));
                const __m512 unit = _mm512_mul_ps(block[p]->m, _mm512_set1_ps(columns->d[c][i]));
                sum[c][p] = _mm512_fmadd_ps(minima, unit, sum[c][p]);
            } else if (type->minima) {
                const __m512 d_sum = _mm512_set1_ps(columns->d_sum[c][i]);
                sum[c][p] = _mm512_fmadd_ps(block[p]->m, d_sum, sum[c][p]);
            }
        }
    }
}

/* Chains i and i + 8 are computed one after the other: their sum is what is stored. */
CR_INLINE void multiply(const tile *t, size_t n_panels, size_t n_columns, tile_floats pairs[PAIRS],
                        const weights *type)
{
    for (size_t i = 0; i < PAIRS; i++) {
        tile_floats first, second;
        for (size_t k = 0; k < 2; k++) {
            multiply_chain(second, t, i + k * PAIRS, n_panels, n_columns, type);
            CR_UNROLL
            for (size_t c = 0; c < n_columns; c++)
                CR_UNROLL
            for (size_t p = 0; p < n_panels; p++)
                if (k == 0)
                    first[c][p] = second[c][p];
                else
                    pairs[i][c][p] = _mm512_add_ps(first[c][p], second[c][p]);
        }
    }
    for (size_t c = 0; c < n_columns; c++)
        CR_UNROLL
    for (size_t p = 0; p < n_panels; p++) {
        __m512 sum[4];
        CR_UNROLL
        for (size_t i = 0; i < 4; i++)
            sum[i] = _mm512_add_ps(pairs[i][c][p], pairs[i + 4][c][p]);
        const __m512 even = _mm512_add_ps(sum[0], sum[2]), odd = _mm512_add_ps(sum[1], sum[3]);
        _mm512_mask_storeu_ps(t->y + c * t->y_stride + p * PANEL,
                              first_lanes(t->n_rows - p * PANEL), _mm512_add_ps(even, odd));
    }
}

CR_INLINE void multiply_columns(const tile *t, size_t n_panels, size_t n_columns,
                                tile_floats *pairs, const weights *type)
{
    if (n_columns == 4)
        multiply(t, n_panels, 4, pairs, type);
    else if (n_columns == 3)
        multiply(t, n_panels, 3, pairs, type);
    else if (n_columns == 2)
        multiply(t, n_panels, 2, pairs, type);
    else
        multiply(t, n_panels, 1, pairs, type);
}

/* Functions, not inlined into each type's kernel: there are only four kinds. */
#define MULTIPLY_TILE(kind, ...)                                                                   \
    static void multiply_##kind(const tile *t, size_t n_panels, size_t n_columns,                  \
                                tile_floats *pairs)                                                \
    {                                                                                              \
        static const weights kind = { __VA_ARGS__ };                                               \
        if (n_panels == PANELS)                                                                    \
            multiply_columns(t, PANELS, n_columns, pairs, &kind);                                  \
        else                                                                                       \
            multiply_columns(t, 1, n_columns, pairs, &kind);                                       \
    }
MULTIPLY_TILE(plain, .groups = false)
MULTIPLY_TILE(minima, .minima = true)
MULTIPLY_TILE(halves, .groups = true)
MULTIPLY_TILE(minima_of_halves, .minima = true, .groups = true)

CR_INLINE void multiply_tile(const tile *t, size_t n_panels, size_t n_columns, tile_floats *pairs,
                             const weights *type)
{
    if (type->minima && type->groups)
        multiply_minima_of_halves(t, n_panels, n_columns, pairs);
    else if (type->minima)
        multiply_minima(t, n_panels, n_columns, pairs);
    else if (type->groups)
        multiply_halves(t, n_panels, n_columns, pairs);
    else
        multiply_plain(t, n_panels, n_columns, pairs);
}

/* Rows i on: n_panels panels of them. */
CR_INLINE void matmul_panels(float *y, size_t y_stride, const void *w, size_t row_bytes,
                             size_t n_rows, size_t i, size_t n_panels, const cr_act *x, size_t n_x,
                             void *scratch, const weights *type)
{
    tile_floats *pairs = scratch;
    panel_block *panels = (panel_block *)(void *)(pairs + PAIRS);
    const size_t n_blocks = x->n / CR_ACT_BLOCK;
    column_blocks *columns = (column_blocks *)(void *)(panels + PANELS * n_blocks);
    for (size_t p = 0; p < n_panels; p++) {
        const panel_rows r = panel_rows_at(w, row_bytes, i + p * PANEL, n_rows);
        type->fill(panels + p * n_blocks, &r, n_blocks);
    }
    tile t = {
        .y_stride = y_stride,
        .n_rows = n_rows - i,
        .n_blocks = n_blocks,
        .panels = panels,
        .columns = columns,
        .ahead = next_rows_at(w, row_bytes, i + n_panels * PANEL, n_panels, n_blocks),
    };
    for (size_t c = 0; c < n_x; c += COLUMNS, t.ahead.block_bytes = 0) {
        const size_t n_columns = CR_MIN(n_x - c, (size_t)COLUMNS);
        t.y = y + c * y_stride + i;
        for (size_t k = 0; k < n_columns; k++)
            t.q[k] = x[c + k].q;
        prepare_columns(columns, x + c, n_columns, type);
        multiply_tile(&t, n_panels, n_columns, pairs, type);
    }
}

/* ---- Q2_K, for which tiles of AMX lack sums of halves ---- */

/* Bytes 2 k and 2 k + 1 of each lane, as words. */
CR_INLINE __m512i byte_pair(__m512i bytes, int k)
{
    const __m512i pair = _mm512_srl_epi32(bytes, _mm_cvtsi32_si128(16 * k));
    const __m512i second = _mm512_slli_epi32(pair, 8);
    return and_or(second, _mm512_set1_epi32(255 << 16),
                  _mm512_and_si512(pair, _mm512_set1_epi32(255)));
}

/* [16 bytes: a scale, and above it a minimum][2][32 bytes: two bits of four blocks][d][dmin], 84
 * bytes */
static void fill_q2_k(panel_block *to, const panel_rows *r, size_t n_blocks)
{
    for (size_t super = 0; super < n_blocks / 8; super++) {
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

#define MATMUL_AVX512(name, ...) MATMUL(name, avx512, __VA_ARGS__)
PANEL_TYPES(MATMUL_AVX512)
MATMUL_AVX512(q2_k, .fill = fill_q2_k, .minima = true, .groups = true)

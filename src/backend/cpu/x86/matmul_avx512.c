/* Matrix times many columns, rows of a batch: types with a line at the end. The bits are those of
 * matvec.
 *
 * Here a lane is a row. Sixteen rows become a panel once: bytes without sign, four neighbours of a
 * row in a lane, and the scales as floats. Then groups of columns pass over it, which stays in
 * L1 or L2. One block of one column is eight products with its activations, four at a time in all
 * lanes, and one FMA into the group's chain:
 *
 *     chain[b % 16][column][row] = fma(sum, d[row] * d[column], ...)
 *
 * Two panels pass together, so that an activation is loaded once for 32 rows. Columns do not wait
 * for each other, nor do the halves of a block: that hides the latency of the products. */
#include "backend/cpu/x86/panel16.h"

enum {
    PANELS = CR_PANEL_ROWS / PANEL, /* that pass together */
    GROUP = 8,                      /* columns; their chains take 16 KiB */
    PAIR = 2,                       /* columns whose products alternate */
};

_Static_assert(PANELS * sizeof(panel_block) <= CR_PANEL_BLOCK_BYTES, "cr_panel_bytes");
_Static_assert(CR_CHAINS *GROUP *PANELS * sizeof(__m512) <= CR_PANEL_CHAIN_BYTES, "cr_panel_bytes");

/* ---- a panel times a group of columns ---- */

/* Four activations, to all lanes. */
CR_INLINE __m512i four(const int8_t *q)
{
    int32_t bytes;
    memcpy(&bytes, q, sizeof bytes);
    return _mm512_set1_epi32(bytes);
}

/* Integers of a pair of columns, for each panel. */
typedef __m512i pair_dots[PAIR][PANELS];

/* sum += weights times activations of a half block. Each activation is loaded once. */
CR_INLINE void dot_half(pair_dots sum, const panel_block block[PANELS], size_t n_panels,
                        const int8_t *const q[PAIR], size_t n_columns, size_t half)
{
    CR_UNROLL
    for (size_t k = 0; k < 4; k++)
        CR_UNROLL
    for (size_t c = 0; c < n_columns; c++) {
        const __m512i a = four(q[c] + 64 * half + 4 * k);
        CR_UNROLL
        for (size_t p = 0; p < n_panels; p++)
            sum[c][p] = _mm512_dpbusd_epi32(sum[c][p], block[p].w[4 * half + k], a);
    }
}

/* The sums of a block, from those of its halves. sums: of the activations of both halves, as
 * words. */
CR_INLINE __m512i dot_block(__m512i dot0, __m512i dot1, const panel_block *block, __m512i sums,
                            const weights *type)
{
    if (type->groups) {
        const __m512i scales = block->scale;
        const __m512i scale0 = _mm512_srai_epi32(_mm512_slli_epi32(scales, 16), 16);
        const __m512i scale1 = _mm512_srai_epi32(scales, 16);
        const __m512i offset =
            _mm512_mullo_epi32(_mm512_madd_epi16(scales, sums), _mm512_set1_epi32(type->offset));
        dot0 = _mm512_sub_epi32(_mm512_mullo_epi32(dot0, scale0), offset);
        return _mm512_add_epi32(dot0, _mm512_mullo_epi32(dot1, scale1));
    }
    if (type->offset == 0)
        return _mm512_add_epi32(dot0, dot1);
    const __m512i offset = _mm512_madd_epi16(sums, _mm512_set1_epi16((short)-type->offset));
    return _mm512_add_epi32(_mm512_add_epi32(dot0, offset), dot1);
}

/* Block b of some columns, at most a pair, joins their chains; begun: or else a chain is 0. */
CR_INLINE void multiply_block(__m512 (*chain)[PANELS], __mmask16 begun,
                              const panel_block block[PANELS], size_t n_panels, const cr_act *x,
                              size_t n_columns, size_t b, const weights *type)
{
    const int8_t *q[PAIR];
    pair_dots dot0, dot1;
    CR_UNROLL
    for (size_t c = 0; c < n_columns; c++) {
        q[c] = x[c].q + cr_act_index(32 * b);
        CR_UNROLL
        for (size_t p = 0; p < n_panels; p++)
            dot0[c][p] = dot1[c][p] = _mm512_setzero_si512();
    }
    dot_half(dot0, block, n_panels, q, n_columns, 0);
    dot_half(dot1, block, n_panels, q, n_columns, 1);
    __m512 sum[PAIR][PANELS];
    CR_UNROLL
    for (size_t c = 0; c < n_columns; c++) {
        int32_t pair;
        memcpy(&pair, x[c].sum + 2 * b, sizeof pair);
        const __m512i sums = _mm512_set1_epi32(pair);
        const __m512 d = _mm512_set1_ps(x[c].d[b]);
        const __m512i s = _mm512_madd_epi16(sums, _mm512_set1_epi16(1));
        const __m512 d_sum = _mm512_mul_ps(d, _mm512_cvtepi32_ps(s));
        CR_UNROLL
        for (size_t p = 0; p < n_panels; p++) {
            const __m512i dot = dot_block(dot0[c][p], dot1[c][p], &block[p], sums, type);
            sum[c][p] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(block[p].d, d),
                                        _mm512_maskz_load_ps(begun, &chain[c][p]));
            if (type->minima && type->groups) {
                const __m512i minima = _mm512_madd_epi16(block[p].pairs, sums);
                sum[c][p] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(minima),
                                            _mm512_mul_ps(block[p].m, d), sum[c][p]);
            } else if (type->minima) {
                sum[c][p] = _mm512_fmadd_ps(block[p].m, d_sum, sum[c][p]);
            }
        }
    }
    CR_UNROLL
    for (size_t c = 0; c < n_columns; c++)
        CR_UNROLL
    for (size_t p = 0; p < n_panels; p++)
        chain[c][p] = sum[c][p];
}

/* The chains of a group: [chain][column][panel][row]. */
typedef __m512 group_chains[CR_CHAINS][GROUP][PANELS];

/* y[c * y_stride + r], r in [0, n_rows), at most 16 for each of the n_panels panels. Meanwhile `ahead`
 * is fetched. */
CR_INLINE void multiply(float *y, size_t y_stride, size_t n_rows, const panel_block *panel,
                        size_t n_panels, const cr_act *x, size_t n_x, group_chains chains,
                        next_rows ahead, const weights *type)
{
    const size_t n_blocks = x->n / 32;
    for (size_t i = n_blocks; i < CR_CHAINS; i++)
        for (size_t c = 0; c < n_x; c++)
            CR_UNROLL
    for (size_t p = 0; p < n_panels; p++)
        chains[i][c][p] = _mm512_setzero_ps();

    for (size_t b = 0; b < n_blocks; b++) {
        fetch_block(&ahead, b);
        /* With an initializer, or else compilers that clear variables clear it for each block. */
        const panel_block block[PANELS] = { panel[b], panel[b + (n_panels - 1) * n_blocks] };
        __m512(*chain)[PANELS] = chains[b % CR_CHAINS];
        const __mmask16 begun = b < CR_CHAINS ? 0 : 0xffff;
        size_t c = 0;
        for (; c + PAIR <= n_x; c += PAIR)
            multiply_block(chain + c, begun, block, n_panels, x + c, PAIR, b, type);
        if (c < n_x)
            multiply_block(chain + c, begun, block, n_panels, x + c, 1, b, type);
    }

    for (size_t c = 0; c < n_x; c++)
        CR_UNROLL
    for (size_t p = 0; p < n_panels; p++) {
        __m512 sum[CR_CHAINS / 2];
        CR_UNROLL
        for (size_t i = 0; i < CR_CHAINS / 2; i++)
            sum[i] = _mm512_add_ps(chains[i][c][p], chains[i + CR_CHAINS / 2][c][p]);
        CR_UNROLL
        for (size_t i = 0; i < 4; i++)
            sum[i] = _mm512_add_ps(sum[i], sum[i + 4]);
        const __m512 even = _mm512_add_ps(sum[0], sum[2]), odd = _mm512_add_ps(sum[1], sum[3]);
        _mm512_mask_storeu_ps(y + c * y_stride + p * PANEL, first_lanes(n_rows - p * PANEL),
                              _mm512_add_ps(even, odd));
    }
}

/* Rows i on: n_panels panels of them. */
CR_INLINE void matmul_panels(float *y, size_t y_stride, const void *w, size_t row_bytes,
                             size_t n_rows, size_t i, size_t n_panels, const cr_act *x, size_t n_x,
                             void *scratch, const weights *type)
{
    __m512(*chains)[GROUP][PANELS] = scratch;
    panel_block *panel = (panel_block *)(void *)(chains + CR_CHAINS);
    const size_t n_blocks = x->n / 32;
    for (size_t p = 0; p < n_panels; p++) {
        const panel_rows r = panel_rows_at(w, row_bytes, i + p * PANEL, n_rows);
        type->fill(panel + p * n_blocks, &r, n_blocks);
    }
    next_rows ahead = next_rows_at(w, row_bytes, i + n_panels * PANEL, n_panels, n_blocks);
    for (size_t c = 0; c < n_x; c += GROUP, ahead.block_bytes = 0)
        multiply(y + c * y_stride + i, y_stride, n_rows - i, panel, n_panels, x + c,
                 CR_MIN(n_x - c, (size_t)GROUP), chains, ahead, type);
}

/* ---- Q2_K, which AMX has not: its columns are packed without the sums of halves ---- */

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

PANEL_TYPES(MATMUL, avx512)

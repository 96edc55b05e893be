/* Quantised matrices times many columns, rows of a batch, on panels of eight rows (panel8.h). The
 * bits are those of matvec. Who includes this has defined the level's products:
 *
 *     COLUMNS           that they take together
 *     finish_panel      makes of filled blocks what the products want
 *     multiply_block    exact sums of a block, as floats
 *
 * Some rows become two panels once; then groups of columns pass over them, which stay in L1 or L2.
 * A block of one column is eight products with its activations, four at a time in all lanes, and
 * one FMA into the group's chain:
 *
 *     chain[b % 16][column][row] = fma(sum, d[row] * d[column], ...)
 */
#ifndef CR_MATMUL_PANEL8_H
#define CR_MATMUL_PANEL8_H

enum { GROUP = 8 }; /* columns; their chains take 8 KiB */

/* The chains of a group: [chain][column][panel][row]. */
typedef __m256 group_chains[CR_CHAINS][GROUP][PANELS];

_Static_assert(PANELS * sizeof(panel_block) <= CR_PANEL_BLOCK_BYTES, "cr_panel_bytes");
_Static_assert(sizeof(group_chains) <= CR_PANEL_CHAIN_BYTES, "cr_panel_bytes");

/* Block b of n_columns columns joins their chains. */
CR_INLINE void add_block(__m256 (*chain)[PANELS], const panel_block *const block[PANELS],
                         size_t n_panels, const cr_act *x, size_t n_columns, size_t b,
                         const weights *type)
{
    const int8_t *q[COLUMNS];
    __m256i sums[COLUMNS]; /* of the activations of both halves, as words */
    __m256 sum[COLUMNS][PANELS];
    CR_UNROLL
    for (size_t c = 0; c < n_columns; c++) {
        q[c] = x[c].q + cr_act_index(32 * b);
        sums[c] = four(x[c].sum + 2 * b);
    }
    multiply_block(sum, block, n_panels, q, sums, n_columns, type);
    CR_UNROLL
    for (size_t c = 0; c < n_columns; c++) {
        const __m256 d = _mm256_broadcast_ss(x[c].d + b);
        const __m256 d_sum = _mm256_mul_ps(d, _mm256_cvtepi32_ps(widen(sums[c])));
        CR_UNROLL
        for (size_t p = 0; p < n_panels; p++) {
            const __m256 unit = _mm256_mul_ps(block[p]->d, d);
            __m256 joined = _mm256_fmadd_ps(sum[c][p], unit, chain[c][p]);
            if (type->minima && type->groups) {
                const __m256i minima = _mm256_madd_epi16(block[p]->pairs, sums[c]);
                joined = _mm256_fmadd_ps(_mm256_cvtepi32_ps(minima), _mm256_mul_ps(block[p]->m, d),
                                         joined);
            } else if (type->minima) {
                joined = _mm256_fmadd_ps(block[p]->m, d_sum, joined);
            }
            chain[c][p] = joined;
        }
    }
}

CR_INLINE __m256 merge_column(group_chains chains, size_t c, size_t p)
{
    __m256 sum[CR_CHAINS / 2];
    CR_UNROLL
    for (size_t i = 0; i < CR_CHAINS / 2; i++)
        sum[i] = _mm256_add_ps(chains[i][c][p], chains[i + CR_CHAINS / 2][c][p]);
    CR_UNROLL
    for (size_t i = 0; i < 4; i++)
        sum[i] = _mm256_add_ps(sum[i], sum[i + 4]);
    return _mm256_add_ps(_mm256_add_ps(sum[0], sum[2]), _mm256_add_ps(sum[1], sum[3]));
}

/* y[c * y_stride + r], r in [0, n_rows), at most eight for each of the n_panels panels. */
CR_INLINE void multiply(float *y, size_t y_stride, size_t n_rows, const panel_block *panel,
                        size_t n_panels, const cr_act *x, size_t n_x, group_chains chains,
                        const weights *type)
{
    const size_t n_blocks = x->n / 32;
    for (size_t i = 0; i < CR_CHAINS; i++)
        for (size_t c = 0; c < n_x; c++)
            for (size_t p = 0; p < n_panels; p++)
                chains[i][c][p] = _mm256_setzero_ps();
    for (size_t b = 0; b < n_blocks; b++) {
        const panel_block *const block[PANELS] = { panel + b,
                                                   panel + b + (n_panels - 1) * n_blocks };
        __m256(*chain)[PANELS] = chains[b % CR_CHAINS];
        size_t c = 0;
        for (; c + COLUMNS <= n_x; c += COLUMNS)
            add_block(chain + c, block, n_panels, x + c, COLUMNS, b, type);
        for (; c < n_x; c++)
            add_block(chain + c, block, n_panels, x + c, 1, b, type);
    }
    for (size_t p = 0; p < n_panels; p++) {
        const __m256i exist = first_lanes(n_rows - p * PANEL);
        for (size_t c = 0; c < n_x; c++)
            _mm256_maskstore_ps(y + c * y_stride + p * PANEL, exist, merge_column(chains, c, p));
    }
}

/* Rows i on: n_panels panels of them. */
CR_INLINE void matmul_panels(float *y, size_t y_stride, const void *w, size_t row_bytes,
                             size_t n_rows, size_t i, size_t n_panels, const cr_act *x, size_t n_x,
                             void *scratch, const weights *type)
{
    __m256(*chains)[GROUP][PANELS] = scratch;
    panel_block *panel = (panel_block *)(void *)(chains + CR_CHAINS);
    const size_t n_blocks = x->n / 32;
    for (size_t p = 0; p < n_panels; p++) {
        const panel_rows r = panel_rows_at(w, row_bytes, i + p * PANEL, n_rows);
        panel_block *to = panel + p * n_blocks;
        fill_all(to, &r, n_blocks, type);
        finish_panel(to, n_blocks, type);
    }
    for (size_t c = 0; c < n_x; c += GROUP)
        multiply(y + c * y_stride + i, y_stride, n_rows - i, panel, n_panels, x + c,
                 CR_MIN(n_x - c, (size_t)GROUP), chains, type);
}

/* ---- the kernels ---- */

#include "backend/cpu/x86/panel_matmul.h"

#endif

/* Matrices of floats times many columns, for both AVX levels. Who includes this has defined the
 * vectors (lanes16.h or lanes8.h) and GROUP.
 *
 * A lane is a row. Some rows become panels of floats, in which an element of all rows is a vector;
 * then groups of columns pass, STEP elements at a time, chain by chain: a chain's sums are in
 * registers for STEP / 16 elements and wait in L1 in between. The bits are those of matvec. */
#ifndef CR_MATMUL_FLOAT_H
#define CR_MATMUL_FLOAT_H

enum {
    PANELS = 2, /* that pass together */
    STEP = 128, /* elements, of which panels, columns and chains fit L1 together */
};

/* LANES elements of a row, from element i on of n; zeros in place of those that do not exist. */
typedef vec load_lanes(const uint8_t *row, size_t i, size_t n);

/* Sums of chains, by column and panel. */
typedef vec float_chains[CR_CHAINS][GROUP][PANELS];

_Static_assert(sizeof(float_chains) <= CR_PANEL_CHAIN_BYTES, "cr_panel_bytes");
_Static_assert(PANELS *LANES *CR_ACT_BLOCK * sizeof(float) <= CR_PANEL_BLOCK_BYTES,
               "cr_panel_bytes");

/* panel[element][LANES rows], rows i on; the last one again in place of those that do not exist. */
CR_INLINE void fill_floats(float *panel, const void *w, size_t row_bytes, size_t n_rows, size_t i,
                           size_t n, load_lanes *load)
{
    const uint8_t *row[LANES];
    for (size_t k = 0; k < LANES; k++)
        row[k] = (const uint8_t *)w + CR_MIN(i + k, n_rows - 1) * row_bytes;
    for (size_t e = 0; e < n; e += LANES) {
        vec square[LANES];
        CR_UNROLL
        for (size_t k = 0; k < LANES; k++)
            square[k] = load(row[k], e, n);
        vec_transpose(square);
        CR_UNROLL
        for (size_t k = 0; k < LANES; k++)
            vec_store(panel + (e + k) * LANES, square[k]);
    }
}

/* Elements [from, end) of one chain, every sixteenth, of some columns. */
CR_INLINE void add_elements(vec (*chain)[PANELS], const float *const panel[PANELS], size_t n_panels,
                            const cr_act *x, size_t n_x, size_t from, size_t end)
{
    vec sum[GROUP][PANELS];
    CR_UNROLL
    for (size_t c = 0; c < n_x; c++)
        CR_UNROLL
    for (size_t p = 0; p < n_panels; p++)
        sum[c][p] = chain[c][p];
    for (size_t e = from; e < end; e += CR_CHAINS) {
        vec w[PANELS];
        CR_UNROLL
        for (size_t p = 0; p < n_panels; p++)
            w[p] = vec_load(panel[p] + e * LANES);
        CR_UNROLL
        for (size_t c = 0; c < n_x; c++) {
            const vec a = vec_all(x[c].f + e);
            CR_UNROLL
            for (size_t p = 0; p < n_panels; p++)
                sum[c][p] = vec_fma(w[p], a, sum[c][p]);
        }
    }
    CR_UNROLL
    for (size_t c = 0; c < n_x; c++)
        CR_UNROLL
    for (size_t p = 0; p < n_panels; p++)
        chain[c][p] = sum[c][p];
}

/* y[c * y_stride + r] of a group of columns, at most LANES rows for each panel. */
CR_INLINE void multiply_floats(float *y, size_t y_stride, size_t n_rows,
                               const float *const panel[PANELS], size_t n_panels, const cr_act *x,
                               size_t n_x, float_chains chains)
{
    for (size_t i = 0; i < CR_CHAINS; i++)
        for (size_t c = 0; c < n_x; c++)
            for (size_t p = 0; p < n_panels; p++)
                chains[i][c][p] = vec_zero();
    for (size_t step = 0; step < x->n; step += STEP) {
        const size_t end = CR_MIN(step + STEP, x->n);
        for (size_t i = 0; i < CR_CHAINS; i++) {
            size_t c = 0;
            if (n_x == GROUP) {
                add_elements(chains[i], panel, n_panels, x, GROUP, step + i, end);
                continue;
            }
            for (; c + GROUP / 2 <= n_x; c += GROUP / 2)
                add_elements(chains[i] + c, panel, n_panels, x + c, GROUP / 2, step + i, end);
            for (; c < n_x; c++)
                add_elements(chains[i] + c, panel, n_panels, x + c, 1, step + i, end);
        }
    }
    for (size_t half = CR_CHAINS / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            for (size_t c = 0; c < n_x; c++)
                for (size_t p = 0; p < n_panels; p++)
                    chains[i][c][p] = vec_add(chains[i][c][p], chains[i + half][c][p]);
    for (size_t c = 0; c < n_x; c++)
        for (size_t p = 0; p < n_panels && p * LANES < n_rows; p++) {
            float *to = y + c * y_stride + p * LANES;
            if (n_rows - p * LANES >= LANES)
                vec_store(to, chains[0][c][p]);
            else
                memcpy(to, &chains[0][c][p], (n_rows - p * LANES) * sizeof *to);
        }
}

CR_INLINE void matmul_floats(float *y, size_t y_stride, const void *w, size_t row_bytes,
                             size_t n_rows, const cr_act *x, size_t n_x, void *scratch,
                             load_lanes *load)
{
    vec(*chains)[GROUP][PANELS] = scratch;
    float *room = (float *)(void *)(chains + CR_CHAINS);
    const size_t panel_floats = (x->n + 15) / 16 * 16 * LANES;
    for (size_t i = 0; i < n_rows; i += PANELS * LANES) {
        const size_t left = n_rows - i, n_panels = left > LANES ? PANELS : 1;
        const float *const panel[PANELS] = { room, room + panel_floats };
        for (size_t p = 0; p < n_panels; p++)
            fill_floats(room + p * panel_floats, w, row_bytes, n_rows, i + p * LANES, x->n, load);
        for (size_t c = 0; c < n_x; c += GROUP) {
            float *to = y + c * y_stride + i;
            const size_t n = CR_MIN(n_x - c, (size_t)GROUP);
            if (n_panels == PANELS)
                multiply_floats(to, y_stride, left, panel, PANELS, x + c, n, chains);
            else
                multiply_floats(to, y_stride, left, panel, 1, x + c, n, chains);
        }
    }
}

#define MATMUL_FLOATS(type, tier)                                                                  \
    void cr_matmul_##type##__##tier(float *y, size_t y_stride, const void *w, size_t row_bytes,    \
                                    size_t n_rows, const cr_act *x, size_t n_x, void *scratch)     \
    {                                                                                              \
        matmul_floats(y, y_stride, w, row_bytes, n_rows, x, n_x, scratch, load_##type);            \
    }

#endif

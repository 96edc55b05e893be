/* Matrices by panels, two of which pass over the columns together, whatever rows one has. Who
 * includes this has PANEL and PANELS, `weights`, and matmul_panels, which computes rows i on. */
#ifndef CR_PANEL_MATMUL_H
#define CR_PANEL_MATMUL_H

CR_INLINE void matmul(float *y, size_t y_stride, const void *w, size_t row_bytes, size_t n_rows,
                      const cr_act *x, size_t n_x, void *scratch, const weights *type)
{
    size_t i = 0;
    for (; i + PANEL < n_rows; i += PANELS * PANEL)
        matmul_panels(y, y_stride, w, row_bytes, n_rows, i, PANELS, x, n_x, scratch, type);
    if (i < n_rows)
        matmul_panels(y, y_stride, w, row_bytes, n_rows, i, 1, x, n_x, scratch, type);
}

#define MATMUL(name, tier, ...)                                                                    \
    void cr_matmul_##name##__##tier(float *y, size_t y_stride, const void *w, size_t row_bytes,    \
                                    size_t n_rows, const cr_act *x, size_t n_x, void *scratch)     \
    {                                                                                              \
        const weights type = { __VA_ARGS__ };                                                      \
        matmul(y, y_stride, w, row_bytes, n_rows, x, n_x, scratch, &type);                         \
    }

#endif

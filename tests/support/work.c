#include "support/work.h"

#include "backend/cpu/plan.h"

work_meter work;
const uint64_t work_tile = CR_TILE;
static cr_kernels real;

static void spend(uint64_t n_macs, uint64_t n_elements)
{
    work.n_macs += n_macs;
    work.n_elements += n_elements;
    if (!work.session || work.n_macs < work.cancel_at)
        return;
    cera_session_cancel(work.session);
    work.session = NULL;
    work.macs_before = work.n_macs;
    work.elements_before = work.n_elements;
}

static void count_matvec(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x)
{
    spend(n_rows * x->n, 0);
    real.matvec[CR_TYPE_Q8_0](y, w, row_bytes, n_rows, x);
}

static void count_matmul(float *y, size_t y_stride, const void *w, size_t row_bytes, size_t n_rows,
                         const cr_act *x, size_t n_x, void *scratch)
{
    spend(n_rows * n_x * x->n, 0);
    real.matmul[CR_TYPE_Q8_0](y, y_stride, w, row_bytes, n_rows, x, n_x, scratch);
}

static void count_scores(const cr_tile *tile, const void *keys, size_t first, size_t n_keys)
{
    spend(tile->n_queries * n_keys * tile->n, 0);
    real.tile_scores[CR_TYPE_F16](tile, keys, first, n_keys);
}

static void count_quantize(cr_act *x)
{
    spend(0, x->n);
    real.quantize(x);
}

static void count_norm(float *y, const float *x, const float *w, size_t n, float eps)
{
    spend(0, n);
    real.rms_norm(y, x, w, n, eps);
}

void work_install(cr_backend *backend)
{
    cr_kernels *kernels = &backend->kernels;
    real = *kernels;
    kernels->matvec[CR_TYPE_Q8_0] = count_matvec;
    if (real.matmul[CR_TYPE_Q8_0])
        kernels->matmul[CR_TYPE_Q8_0] = count_matmul;
    if (real.tile_scores[CR_TYPE_F16])
        kernels->tile_scores[CR_TYPE_F16] = count_scores;
    kernels->quantize = count_quantize;
    kernels->rms_norm = count_norm;
}

void work_start(cera_session *session, uint64_t n_macs)
{
    work = (work_meter){ .session = session, .cancel_at = n_macs };
}

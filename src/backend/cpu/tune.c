/* How far ahead weights are asked for: what is known, and what can be measured.
 *
 * A measurement multiplies all weights that a token meets, as a run does: each worker its own rows,
 * a tile at a time. Distances take turns, so that whatever else the machine does meets all of
 * them. */
#include "backend/cpu/plan.h"

#include <string.h>

size_t cr_prefetch_of(const cr_cpu_id *cpu)
{
    static const struct {
        const char *vendor;
        int family, first_model, last_model;
        size_t bytes;
    } known[] = {
#define PREFETCH(vendor, family, first, last, bytes) { vendor, family, first, last, bytes },
#include "backend/cpu/prefetch.def"
#undef PREFETCH
    };
    for (size_t i = 0; i < CR_COUNT(known); i++)
        if (strcmp(cpu->vendor, known[i].vendor) == 0 && cpu->family == known[i].family &&
            cpu->model >= known[i].first_model && cpu->model <= known[i].last_model)
            return known[i].bytes;
    return CR_PREFETCH;
}

static const size_t distances[] = { 2048, 4096, 8192, 16384, 32768 };
enum { N_ROUNDS = 7 };

typedef struct trial {
    const cr_plan *plan;
    size_t prefetch;
} trial;

static void multiply_weights(void *ctx, int worker)
{
    const trial *t = ctx;
    const cr_plan *plan = t->plan;
    void *row = plan->local + (size_t)worker * plan->local_bytes;
    float *y = cr_plan_scratch(plan, worker);
    memset(row, 0, plan->act_bytes);
    for (cr_weight_walk at = { 0 }; cr_plan_next_weight(plan, worker, &at);) {
        const cr_weight *w = at.weight;
        cr_act x = cr_act_at(row, w->n_cols);
        x.prefetch = t->prefetch;
        for (size_t i = at.begin; i < at.end; i += CR_TILE)
            plan->kernels->matvec[w->type](y, w->data + i * w->row_bytes, w->row_bytes,
                                           CR_MIN(at.end - i, (size_t)CR_TILE), &x);
    }
}

size_t cr_plan_tune(cr_plan *plan)
{
    const cera_os *os = &plan->backend->host->os;
    uint64_t best[CR_COUNT(distances)];
    for (size_t i = 0; i < CR_COUNT(distances); i++)
        best[i] = UINT64_MAX;
    for (int round = 0; round <= N_ROUNDS; round++) {
        for (size_t i = 0; i < CR_COUNT(distances); i++) {
            trial t = { plan, distances[i] };
            uint64_t start = os->clock_ns(os->ctx);
            cr_pool_run(plan->backend->pool, multiply_weights, &t);
            uint64_t spent = os->clock_ns(os->ctx) - start;
            if (round > 0) /* the first one brings the pages in */
                best[i] = CR_MIN(best[i], spent);
        }
    }
    size_t chosen = 0;
    for (size_t i = 1; i < CR_COUNT(distances); i++)
        if (best[i] < best[chosen])
            chosen = i;
    return distances[chosen];
}

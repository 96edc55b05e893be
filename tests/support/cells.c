#include "support/cells.h"

#include "backend/cpu/plan.h"
#include "session/session_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void cells_init(cells *c, const cr_graph *graph, int n_most)
{
    *c = (cells){ .graph = graph, .n_most = n_most };
    for (int i = 0; i < graph->n_caches; i++)
        c->width += 2 * graph->caches[i].n_head_kv * graph->caches[i].head_dim;
    c->values = malloc((size_t)(n_most * c->width) * sizeof *c->values);
    c->computed_at = malloc((size_t)n_most * sizeof *c->computed_at);
    if (!c->values || !c->computed_at)
        abort();
}

void cells_done(cells *c)
{
    free(c->values);
    free(c->computed_at);
    *c = (cells){ .n = 0 };
}

void cells_set(cells *c, const cells *from)
{
    c->n = from->n;
    memcpy(c->values, from->values, (size_t)(c->n * c->width) * sizeof *c->values);
    memcpy(c->computed_at, from->computed_at, (size_t)c->n * sizeof *c->computed_at);
}

/* One head of one position, in a page and in the cells. */
typedef struct head_cell {
    uint8_t *stored;
    float *values;
    int dim;
    bool is_key;
} head_cell;

/* Calls each() for all heads of position p. */
static void for_each_head(const cells *c, const cr_session *s, int p,
                          void (*each)(const cells *, const cr_session *, int, head_cell))
{
    const cr_pages *pages = s->env.pages;
    float *values = c->values + p * c->width;
    for (int i = 0; i < c->graph->n_caches; i++) {
        const cr_cache *cache = &c->graph->caches[i];
        uint8_t *page = s->now.pages[cache->group][p / CR_PAGE]->data;
        for (int row = 0; row < 2 * cache->n_head_kv; row++) {
            bool is_key = row < cache->n_head_kv;
            size_t offset = cr_kv_offset(cache, pages->kv_type, row % cache->n_head_kv, p, !is_key);
            each(c, s, p, (head_cell){ page + offset, values, cache->head_dim, is_key });
            values += cache->head_dim;
        }
    }
}

static void read_head(const cells *c, const cr_session *s, int p, head_cell at)
{
    (void)c;
    (void)p;
    cr_type_get(s->env.pages->kv_type)->dequantize(at.stored, at.values, (size_t)at.dim);
}

void cells_read(cells *c, const cr_session *s, int from, int to)
{
    for (int p = from; p < to; p++) {
        for_each_head(c, s, p, read_head);
        c->computed_at[p] = p;
    }
    c->n = to;
}

void cells_drop(cells *c, int n_keep, int n_drop)
{
    int n = c->n - n_keep - n_drop;
    memmove(c->values + n_keep * c->width, c->values + (n_keep + n_drop) * c->width,
            (size_t)(n * c->width) * sizeof *c->values);
    memmove(c->computed_at + n_keep, c->computed_at + n_keep + n_drop,
            (size_t)n * sizeof *c->computed_at);
    c->n -= n_drop;
}

static float turned(const cr_rope *rope, const float *x, int element, int by)
{
    if (element >= rope->n_dims)
        return x[element];
    bool pairs = rope->style == CR_ROPE_PAIRS;
    int half = rope->n_dims / 2, pair = pairs ? element / 2 : element % half;
    bool is_first = pairs ? element % 2 == 0 : element < half;
    int apart = pairs ? 1 : half, other = is_first ? element + apart : element - apart;
    double angle = by * (double)rope->freq[pair], sine = is_first ? -sin(angle) : sin(angle);
    return (float)((double)x[element] * cos(angle) + (double)x[other] * sine);
}

static void write_head(const cells *c, const cr_session *s, int p, head_cell at)
{
    float x[256];
    int by = p - c->computed_at[p];
    if (at.dim > 256)
        abort();
    for (int i = 0; i < at.dim; i++)
        x[i] = at.is_key && by != 0 ? turned(&c->graph->ropes[0], at.values, i, by) : at.values[i];
    const cr_pages *pages = s->env.pages;
    pages->backend->kernels.store_cache[pages->kv_type](at.stored, x, (size_t)at.dim);
}

void cells_write(const cells *c, const cr_session *s)
{
    for (int p = 0; p < c->n; p++)
        for_each_head(c, s, p, write_head);
}

double cells_distance(const float *a, const float *b, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++) { /* fmax crashes gcc 12 for ARM here */
        double off = fabs((double)a[i] - (double)b[i]);
        most = off > most ? off : most;
    }
    return most;
}

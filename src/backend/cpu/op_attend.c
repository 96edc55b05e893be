/* ATTEND: queries meet the keys and values of the paged cache.
 *
 * Scores are taken in chunks of CR_KEY_CHUNK keys, cut at absolute positions. A chunk gives each
 * query a sum of values that is not yet divided; chunks are merged in ascending order. So a row's
 * result does not depend on what else was computed with it.
 *
 * The heads that share keys, times some rows that follow each other, are a tile: its queries meet
 * each key and value together.
 *
 *     prompts     a tile and a kv head are one piece of work, chunk after chunk
 *     few rows    each chunk is a piece too, its sums wait in plan->partials:
 *                 [n_rows][n_head][chunk] of a round, then [n_rows][n_head] totals */
#include "backend/cpu/plan.h"

#include <math.h>
#include <string.h>

enum {
    TILE_QUERIES = 192,  /* that share the unpacked keys of a chunk */
    SPLIT_ROWS = 16,     /* up to here chunks are split over the workers ... */
    SPLIT_PARTIALS = 64, /* ... in rounds of so many rows times chunks */
    MERGED = 8,          /* elements of two sums that are merged together */
};

/* The sum over some chunks, not yet divided: values [dim] beside it are sum p value, p = exp(score
 * - max). */
typedef struct chunk_sum {
    float max, weight;
} chunk_sum;

/* Rows of one sequence that share a tile. */
typedef struct tile_rows {
    int row, n;
    int seen;            /* the first key that one of them sees */
    int chunk, n_chunks; /* of keys */
} tile_rows;

static size_t most_queries(const cr_heads *heads)
{
    return (size_t)CR_MAX(TILE_QUERIES, heads->n_head / heads->n_head_kv);
}

size_t cr_plan_attend_floats(const cr_heads *heads)
{
    size_t dim = (size_t)heads->head_dim;
    size_t per_query =
        2 * dim + CR_KEY_CHUNK + (sizeof(cr_query) + sizeof(chunk_sum)) / sizeof(float);
    return CR_TILE_KEYS * dim + most_queries(heads) * per_query + 16;
}

size_t cr_plan_partial_floats(const cr_heads *heads)
{
    size_t n_head = (size_t)heads->n_head, dim = (size_t)heads->head_dim;
    return (SPLIT_PARTIALS * (dim + 2) + 2 * SPLIT_ROWS) * n_head;
}

/* The first key that a row sees. */
static int first_key(const cr_op *op, int position)
{
    int window = op->u.attend.window;
    return window > 0 && window <= position ? position + 1 - window : 0;
}

/* The tile at `row`, of at most n rows. */
static tile_rows tile_at(const cr_plan *plan, const cr_op *op, int row, int n)
{
    const cr_row *first = &plan->rows[row];
    tile_rows tile = { .row = row, .seen = first_key(op, first->position) };
    n = CR_MIN(n, plan->n_rows - row);
    while (tile.n < n && plan->rows[row + tile.n].seq == first->seq)
        tile.n++;
    tile.chunk = tile.seen / CR_KEY_CHUNK;
    tile.n_chunks = (first->position + tile.n - 1) / CR_KEY_CHUNK + 1 - tile.chunk;
    return tile;
}

/* ---- one tile, one chunk --------------------------------------------------------------------- */

/* Some rows and some heads of one kv head, in a worker's memory. Query i is row i / n_heads, head
 * i % n_heads. */
typedef struct work {
    const cr_plan *plan;
    const cr_op *op;
    tile_rows rows;
    int head, n_heads; /* query heads */
    int step;          /* to the chunk that comes next */
    cr_tile tile;
    chunk_sum *totals; /* [n_queries] */
} work;

static work work_new(const cr_plan *plan, const cr_op *op, int worker, tile_rows rows)
{
    const cr_heads *heads = &op->u.attend.heads;
    size_t dim = (size_t)heads->head_dim, most = most_queries(heads);
    float *scratch = cr_plan_scratch(plan, worker);
    work w = { .plan = plan, .op = op, .rows = rows, .step = 1, .tile.n = dim };
    w.tile.scratch = scratch;
    w.tile.q = scratch + CR_TILE_KEYS * dim;
    w.tile.o = w.tile.q + most * dim;
    w.tile.s = w.tile.o + most * dim;
    w.tile.queries = (cr_query *)(void *)(w.tile.s + most * CR_KEY_CHUNK);
    w.totals = (chunk_sum *)(void *)(w.tile.queries + most);
    return w;
}

/* Takes n_heads heads from `head` on. */
static void take_heads(work *w, int head, int n_heads)
{
    size_t dim = w->tile.n;
    w->head = head;
    w->n_heads = n_heads;
    w->tile.n_queries = (size_t)(w->rows.n * n_heads);
    for (int row = 0; row < w->rows.n; row++)
        memcpy(w->tile.q + (size_t)(row * n_heads) * dim,
               cr_plan_value(w->plan, w->op->in, w->rows.row + row) + (size_t)head * dim,
               (size_t)n_heads * dim * sizeof *w->tile.q);
}

/* The scale of the scores at a position. Where queries have a temperature, they become sharper with
 * every `temperature_length` positions: by 1 + temperature ln(1 + floor(position / length)). */
static float score_scale(const cr_op *op, int position)
{
    if (op->u.attend.temperature == 0)
        return op->u.attend.scale;
    double lengths = 1 + position / op->u.attend.temperature_length;
    return op->u.attend.scale * (float)(1 + (double)op->u.attend.temperature * log(lengths));
}

/* What each query sees of a chunk. */
static void look(work *w, int chunk)
{
    int base = chunk * CR_KEY_CHUNK;
    for (size_t i = 0; i < w->tile.n_queries; i++) {
        int position = w->plan->rows[w->rows.row + (int)i / w->n_heads].position;
        int first = first_key(w->op, position) - base, end = position + 1 - base;
        w->tile.queries[i] = (cr_query){
            .first = CR_MIN(CR_MAX(first, 0), CR_KEY_CHUNK),
            .end = CR_MIN(CR_MAX(end, 0), CR_KEY_CHUNK),
            .scale = score_scale(w->op, position),
        };
    }
}

/* Scores become p, and each query's max and weight are known. */
static void soften(const work *w)
{
    const cr_kernels *k = w->plan->kernels;
    for (size_t i = 0; i < w->tile.n_queries; i++) {
        cr_query *query = &w->tile.queries[i];
        float *s = w->tile.s + i * CR_KEY_CHUNK + query->first;
        int n = query->end - query->first;
        if (n <= 0)
            continue;
        if (w->op->u.attend.cap > 0)
            k->soft_cap(s, w->op->u.attend.cap, (size_t)n);
        query->max = k->largest(s, (size_t)n);
        query->weight = k->exp_sum(s, query->max, (size_t)n);
    }
}

/* The keys or values of the work's kv head from a position on, to the end of their page. */
static const uint8_t *page_rows(const work *w, int position, bool values)
{
    const cr_heads *heads = &w->op->u.attend.heads;
    const cr_cache *cache = &w->plan->graph->caches[w->op->u.attend.cache];
    int head_kv = w->head / (heads->n_head / heads->n_head_kv);
    return cr_plan_kv(w->plan, cache, w->plan->rows[w->rows.row].seq, head_kv, position, values);
}

/* Everything about one chunk: the sums are in w->tile.o and the queries. While keys are read, the
 * chunk's values come from memory, and while those are, the next chunk's keys. */
static void attend_chunk(work *w, int chunk)
{
    const cr_plan *plan = w->plan;
    const cr_row *last = &plan->rows[w->rows.row + w->rows.n - 1];
    int base = chunk * CR_KEY_CHUNK, ahead = w->step * CR_KEY_CHUNK;
    int first = CR_MAX(w->rows.seen, base) / CR_PAGE * CR_PAGE;
    int end = CR_MIN(last->position + 1, base + CR_KEY_CHUNK);

    look(w, chunk);
    for (int at = first; at < end; at += CR_PAGE) {
        w->tile.next = page_rows(w, at, true);
        cr_kernels_scores(plan->kernels, plan->kv_type, &w->tile, page_rows(w, at, false),
                          (size_t)(at - base), (size_t)CR_MIN(end - at, CR_PAGE));
    }
    soften(w);
    memset(w->tile.o, 0, w->tile.n_queries * w->tile.n * sizeof *w->tile.o);
    for (int at = first; at < end; at += CR_PAGE) {
        bool more = at + ahead <= last->position;
        w->tile.next = more ? page_rows(w, at + ahead, false) : NULL;
        cr_kernels_values(plan->kernels, plan->kv_type, &w->tile, page_rows(w, at, true),
                          (size_t)(at - base), (size_t)CR_MIN(end - at, CR_PAGE));
    }
}

/* ---- chunks together ------------------------------------------------------------------------- */

/* total += chunk, both brought to the larger of the two maxima. */
static void merge(const cr_plan *plan, chunk_sum *total, float *out, chunk_sum chunk,
                  const float *chunk_out, size_t dim)
{
    float max = CR_MAX(total->max, chunk.max);
    float by[] = { total->max, chunk.max };
    plan->kernels->exp_sum(by, max, CR_COUNT(by));
    const float a = by[0], b = by[1];
    total->max = max;
    total->weight = total->weight * a + chunk.weight * b;
    /* Pieces of a fixed length, apart from where they came from, become vectors. */
    size_t i = 0;
    for (; i + MERGED <= dim; i += MERGED) {
        float sums[MERGED];
        for (size_t k = 0; k < MERGED; k++)
            sums[k] = out[i + k] * a + chunk_out[i + k] * b;
        memcpy(out + i, sums, sizeof sums);
    }
    for (; i < dim; i++)
        out[i] = out[i] * a + chunk_out[i] * b;
}

static void finish(float *out, chunk_sum total, size_t dim)
{
    float scale = 1.0f / total.weight;
    for (size_t i = 0; i < dim; i++)
        out[i] *= scale;
}

/* The sums that a row's head has of a chunk join what it has already; is_first: it has nothing. */
static void join(const cr_plan *plan, chunk_sum *total, float *out, chunk_sum chunk,
                 const float *chunk_out, size_t dim, bool is_first)
{
    if (!is_first) {
        merge(plan, total, out, chunk, chunk_out, dim);
        return;
    }
    *total = chunk;
    memcpy(out, chunk_out, dim * sizeof *out);
}

static float *out_at(const work *w, size_t i)
{
    int row = w->rows.row + (int)i / w->n_heads, head = w->head + (int)i % w->n_heads;
    return cr_plan_value(w->plan, w->op->out, row) + (size_t)head * w->tile.n;
}

/* All chunks of a tile and some heads, one after the other, unless the plan is stopped. */
static void attend_tile(cr_plan *plan, work *w)
{
    size_t dim = w->tile.n;
    for (int c = 0; c < w->rows.n_chunks; c++) {
        if (cr_plan_stopped(plan))
            return;
        attend_chunk(w, w->rows.chunk + c);
        for (size_t i = 0; i < w->tile.n_queries; i++) {
            const cr_query *query = &w->tile.queries[i];
            if (query->first >= query->end)
                continue;
            int row = w->rows.row + (int)i / w->n_heads;
            int seen = first_key(w->op, w->plan->rows[row].position);
            join(w->plan, &w->totals[i], out_at(w, i), (chunk_sum){ query->max, query->weight },
                 w->tile.o + i * dim, dim, seen / CR_KEY_CHUNK == w->rows.chunk + c);
        }
    }
    for (size_t i = 0; i < w->tile.n_queries; i++)
        finish(out_at(w, i), w->totals[i], dim);
}

/* ---- sharing the work ------------------------------------------------------------------------ */

/* How a run's attention is cut. */
typedef struct cuts {
    int tile_rows; /* at most */
    int n_heads;   /* of a piece: those of a kv head, or one */
    int most_chunks;
    int round_chunks; /* 0: chunks are not split */
} cuts;

static cuts cuts_for(const cr_plan *plan, const cr_op *op)
{
    const cr_heads *heads = &op->u.attend.heads;
    int n_rows = plan->n_rows, width = cr_pool_width(plan->backend->pool);
    int group = heads->n_head / heads->n_head_kv;
    cuts c = { .n_heads = group };
    /* Enough pieces for all workers, of enough rows that unpacked keys are worth it. */
    c.tile_rows = CR_MAX(n_rows * heads->n_head_kv / (4 * width), SPLIT_ROWS);
    c.tile_rows = CR_MAX(CR_MIN(c.tile_rows, TILE_QUERIES / group), 1);
    int n_pieces = 0;
    for (int row = 0; row < n_rows;) {
        tile_rows tile = tile_at(plan, op, row, c.tile_rows);
        c.most_chunks = CR_MAX(c.most_chunks, tile.n_chunks);
        n_pieces += heads->n_head_kv * (n_rows <= SPLIT_ROWS ? tile.n_chunks : 1);
        row += tile.n;
    }
    if (n_rows <= SPLIT_ROWS && c.most_chunks > 1)
        c.round_chunks = SPLIT_PARTIALS / n_rows;
    if (n_pieces < 4 * width)
        c.n_heads = 1;
    return c;
}

/* The sums of a row's head in a round: values [dim], max, weight, for each chunk. */
static float *partial_at(const cr_plan *plan, const cr_heads *heads, const cuts *c, int row,
                         int head, int chunk)
{
    size_t index = ((size_t)row * (size_t)heads->n_head + (size_t)head) * (size_t)c->round_chunks +
                   (size_t)chunk;
    return plan->partials + index * ((size_t)heads->head_dim + 2);
}

static void keep_partials(const work *w, const cuts *c, int chunk)
{
    const cr_heads *heads = &w->op->u.attend.heads;
    size_t dim = w->tile.n;
    for (size_t i = 0; i < w->tile.n_queries; i++) {
        int row = w->rows.row + (int)i / w->n_heads, head = w->head + (int)i % w->n_heads;
        float *to = partial_at(w->plan, heads, c, row, head, chunk);
        memcpy(to, w->tile.o + i * dim, dim * sizeof *to);
        to[dim] = w->tile.queries[i].max;
        to[dim + 1] = w->tile.queries[i].weight;
    }
}

/* The worker's share of a tile's pieces: some heads, and all chunks or each one of the round.
 * *piece counts them. */
static void attend_pieces(cr_plan *plan, const cr_op *op, int worker, tile_rows tile, const cuts *c,
                          int round, int *piece)
{
    int width = cr_pool_width(plan->backend->pool);
    int begin = round * c->round_chunks, n_chunks = 1;
    if (c->round_chunks > 0)
        n_chunks = CR_MIN(tile.n_chunks - begin, c->round_chunks);
    work w = work_new(plan, op, worker, tile);
    if (c->round_chunks > 0)
        w.step = width;
    for (int head = 0; head < op->u.attend.heads.n_head; head += c->n_heads) {
        bool taken = false;
        for (int chunk = 0; chunk < n_chunks; chunk++) {
            if ((*piece)++ % width != worker || cr_plan_stopped(plan))
                continue;
            if (!taken)
                take_heads(&w, head, c->n_heads);
            taken = true;
            if (c->round_chunks == 0) {
                attend_tile(plan, &w);
                continue;
            }
            attend_chunk(&w, tile.chunk + begin + chunk);
            keep_partials(&w, c, chunk);
        }
    }
}

/* The worker's share of a tile's rows and heads: their sums of a round join those of the rounds
 * before. */
static void join_pieces(cr_plan *plan, const cr_op *op, int worker, tile_rows tile, const cuts *c,
                        int round, int *piece)
{
    const cr_heads *heads = &op->u.attend.heads;
    size_t dim = (size_t)heads->head_dim;
    chunk_sum *totals = (chunk_sum *)(void *)partial_at(plan, heads, c, plan->n_rows, 0, 0);
    for (int i = 0; i < tile.n * heads->n_head; i++) {
        if ((*piece)++ % cr_pool_width(plan->backend->pool) != worker)
            continue;
        int row = tile.row + i / heads->n_head, head = i % heads->n_head;
        int position = plan->rows[row].position, first = first_key(op, position) / CR_KEY_CHUNK;
        int last = position / CR_KEY_CHUNK, begin = tile.chunk + round * c->round_chunks;
        chunk_sum *total = &totals[row * heads->n_head + head];
        float *out = cr_plan_value(plan, op->out, row) + (size_t)head * dim;
        for (int k = CR_MAX(first, begin); k <= CR_MIN(last, begin + c->round_chunks - 1); k++) {
            const float *part = partial_at(plan, heads, c, row, head, k - begin);
            join(plan, total, out, (chunk_sum){ part[dim], part[dim + 1] }, part, dim, k == first);
        }
        if (last >= begin && last < begin + c->round_chunks)
            finish(out, *total, dim);
    }
}

typedef void pieces(cr_plan *plan, const cr_op *op, int worker, tile_rows tile, const cuts *c,
                    int round, int *piece);

/* All tiles that have chunks in the round. */
static void each_tile(cr_plan *plan, const cr_op *op, int worker, const cuts *c, int round,
                      pieces *run)
{
    int piece = 0;
    for (int row = 0; row < plan->n_rows;) {
        tile_rows tile = tile_at(plan, op, row, c->tile_rows);
        if (round * c->round_chunks < tile.n_chunks)
            run(plan, op, worker, tile, c, round, &piece);
        row += tile.n;
    }
}

void cr_op_attend(cr_plan *plan, const cr_op *op, int worker)
{
    cuts c = cuts_for(plan, op);
    if (c.round_chunks == 0) {
        each_tile(plan, op, worker, &c, 0, attend_pieces);
        return;
    }
    for (int round = 0; round * c.round_chunks < c.most_chunks; round++) {
        if (round > 0)
            cr_pool_barrier(plan->backend->pool);
        each_tile(plan, op, worker, &c, round, attend_pieces);
        cr_pool_barrier(plan->backend->pool);
        each_tile(plan, op, worker, &c, round, join_pieces);
    }
}

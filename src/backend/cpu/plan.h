/* A CPU plan: the graph, the buffers it runs in, and what the op files share.
 *
 * All workers walk the list of ops together. An op splits its output rows (heads, channels, tokens)
 * over the workers; after each op they meet at a barrier. Rows of different workers never depend on
 * each other within an op, and every sum has a fixed order, so the number of workers changes no
 * bit.
 *
 *     values   [max_rows][graph->row_floats]     activations, shared
 *     shared   [max_rows] cr_act                 an op's input rows as matrix kernels read them
 *     packed   [max_rows / 16][n / 32]           the same rows, where kernels of tiles want them:
 *                                                cr_packed or cr_split_block, as the op's weights do
 *     local    per worker: CR_LOCAL_ROWS cr_act, some floats, and a panel for matmul kernels
 *     partials           attention's sums over chunks of keys, before they are joined, shared */
#ifndef CR_CPU_PLAN_H
#define CR_CPU_PLAN_H

#include "backend/backend.h"
#include "backend/cpu/kernels.h"
#include "base/pool.h"

enum {
    CR_LOCAL_ROWS = 4, /* up to here every worker prepares all input rows itself: no barrier */
    CR_TILE = 64,      /* output rows that one worker computes at a time ... */
    CR_BAND = 512,     /* ... for so many rows of the batch */
};

struct cr_backend {
    cr_host *host;
    cr_pool *pool;
    cr_tier tier;
    size_t prefetch; /* of cr_act */
    cr_kernels kernels;
    cr_kernels whole; /* the same, but that floats are never split */
};

/* Where a row of the batch belongs, and where its results go; NULL: not wanted. */
typedef struct cr_row {
    int seq;
    int position;
    int32_t token;
    const cr_adaptation *adapt; /* or NULL */
    float *reduced;             /* [adapt->row_floats] */
    float *logits;              /* [n_vocab] */
    float *hidden;              /* [n_embd] */
} cr_row;

struct cr_plan {
    cr_backend *backend;
    const cr_kernels *kernels;
    const cr_graph *graph;
    int max_rows;
    cr_type kv_type;

    float *values;
    /* The rows that an op computes: all of the batch; for the graph's result ops those that want
     * results. Those of a sequence stand together, at positions that follow each other. */
    cr_row *rows; /* [n_rows] of max_rows */
    int n_rows;
    int n_wanted;        /* rows of the batch that want results */
    int32_t *logit_rows; /* [n_logits] of max_rows: those of them that want logits, ascending */
    int n_logits;
    float *turns; /* [n_ropes][max_rows][turn_floats]: cosines, then sines */
    size_t turn_floats;
    uint8_t *shared;
    uint8_t *packed; /* where there is a kernel that packs or splits */
    uint8_t *local;
    float *partials;
    size_t act_bytes;      /* of one cr_act, wide enough for every op */
    size_t packed_bytes;   /* of a block of CR_LANES rows; 0: none */
    size_t local_bytes;    /* of one worker */
    size_t scratch_floats; /* of one worker */
    size_t partial_floats;

    const cr_batch *batch; /* the run in progress */
    bool is_adapted;       /* some of its rows are */
    atomic_int stopped;    /* it was asked to end early */
};

/* Row `row` of a value. */
static inline float *cr_plan_value(const cr_plan *plan, int value, int row)
{
    const cr_graph *graph = plan->graph;
    return plan->values + (size_t)row * graph->row_floats + graph->values[value].offset;
}

/* The turn of every pair at the row's position, by rope `rope` of the graph. */
static inline float *cr_plan_turns(const cr_plan *plan, int rope, int row)
{
    return plan->turns + ((size_t)rope * (size_t)plan->max_rows + (size_t)row) * plan->turn_floats;
}

/* Floats for the worker alone, plan->scratch_floats of them. */
float *cr_plan_scratch(const cr_plan *plan, int worker);

/* Whether the run is to end early. Ops ask between tiles; they still meet every barrier. */
bool cr_plan_stopped(cr_plan *plan);
/* Whether that has been found out. Ops ask between rows, which cost too little to look at
 * everybody's cancel. */
static inline bool cr_plan_has_stopped(const cr_plan *plan)
{
    return atomic_load_explicit(&plan->stopped, memory_order_relaxed) != 0;
}

/* An op's input as matrix kernels read it: rows of a value, normalised and quantised where the op
 * asks for it. */
typedef struct cr_input {
    uint8_t *acts;
    size_t act_bytes;
    const float *source; /* row 0 of the value when there is no norm, else NULL */
    size_t source_stride;
    const int32_t *rows; /* as given */
    size_t width;
    cr_packed *packed; /* [n / 16][width / 32], or NULL, and the same of rows that are split */
    cr_split_block *split;
    size_t prefetch; /* of cr_act */
    size_t n_parts;  /* a row of the value is so many inputs; 1 for most */
    size_t part_floats, part_bytes;
} cr_input;

/* Prepares n rows of op->in for the projections of the op: all rows of the batch, or those listed
 * in `rows` (not NULL). With `norm` NULL, or a norm without a weight, the rows are taken as they
 * are. For experts each row is n_used equal inputs: part p of row r is input r * n_used + p. Every
 * worker calls this, also when the run is to end early, because it may meet the others inside;
 * afterwards it may read all rows. */
cr_input cr_plan_input(cr_plan *plan, int worker, const cr_op *op, const cr_norm *norm,
                       const int32_t *rows, int n);
/* The same for all rows of a value that has a part for each expert that a row uses, at multiples of
 * cr_graph_padded(n_ff). */
cr_input cr_plan_input_parts(cr_plan *plan, int worker, const cr_op *op);
cr_act cr_input_row(const cr_input *input, int i);

/* The row of the batch that input i is of. */
static inline int cr_input_of(const cr_input *input, int i)
{
    size_t row = (size_t)i / input->n_parts;
    return input->rows ? input->rows[row] : (int)row;
}

/* Rows [row, row + n) of an input, which are projected together: up to CR_BAND. With a list, those
 * that stand at these places of it. */
typedef struct cr_band {
    int row, n;
    const int32_t *list;
} cr_band;

/* The band at `row` of n_rows rows. */
static inline cr_band cr_band_at(int row, int n_rows)
{
    return (cr_band){ .row = row, .n = CR_MIN(n_rows - row, CR_BAND) };
}

/* The input that its row i is. */
static inline int cr_band_input(cr_band band, int i)
{
    return band.list ? band.list[band.row + i] : band.row + i;
}

/* y[i * y_stride + r] = row first + r of w times row band.row + i of the input, r in [0, n). */
void cr_plan_multiply(const cr_plan *plan, const cr_kernels *kernels, int worker,
                      const cr_weight *w, size_t first, size_t n, const cr_input *input,
                      cr_band band, float *y, size_t y_stride);
/* The same of a projection by the plan's kernels, with its bias and what adapters add. */
void cr_plan_project(const cr_plan *plan, int worker, const cr_proj *proj, size_t first, size_t n,
                     const cr_input *input, cr_band band, float *y, size_t y_stride);

/* What adapters add (adapt.c). Their A times n inputs of the op, for all workers to read: each
 * worker calls this, and meets the others inside when a row is adapted. */
void cr_plan_reduce(cr_plan *plan, int worker, const cr_op *op, const cr_input *input, int n);
/* Asks for what cr_plan_add will read of B, which then comes while the weights are multiplied. */
void cr_plan_fetch(const cr_plan *plan, const cr_proj *proj, size_t first, size_t n,
                   const cr_input *input, cr_band band);
/* Their B times that, on top of what cr_plan_project has in y. */
void cr_plan_add(const cr_plan *plan, const cr_proj *proj, size_t first, size_t n,
                 const cr_input *input, cr_band band, float *y, size_t y_stride);
/* Their row of the token embedding, on top of x [n_embd]. */
void cr_plan_add_embedding(const cr_plan *plan, const cr_op *op, int row, float *x);
/* Their directions, on top of the residual stream behind the op, if that ends its layer; the
 * workers have met behind it, and meet again inside where there is something to add. */
void cr_plan_steer(cr_plan *plan, int worker, const cr_op *op);

/* Bytes from the start of a page to a position of a head: keys, or values. */
size_t cr_kv_offset(const cr_cache *cache, cr_type kv_type, int head, int position, bool values);
/* Where position `position` of a kv head lies for sequence `seq` of the batch: keys, or values. */
uint8_t *cr_plan_kv(const cr_plan *plan, const cr_cache *cache, int seq, int head, int position,
                    bool values);
/* Floats that ATTEND wants of each worker's scratch, and as plan->partials. */
size_t cr_plan_attend_floats(const cr_heads *heads);
size_t cr_plan_partial_floats(const cr_heads *heads);
/* cr_backend_api.page_copy */
void cr_kv_copy(cr_backend *backend, const cr_graph *graph, int group, cr_type kv_type, void *dst,
                const void *src, int n);
/* cr_backend_api.page_pack and page_unpack */
void cr_kv_pack(cr_backend *backend, const cr_graph *graph, int group, cr_type kv_type,
                void *packed, const void *page, int n);
void cr_kv_unpack(cr_backend *backend, const cr_graph *graph, int group, cr_type kv_type,
                  void *page, const void *packed, int n);

/* cr_backend_api.page_turn */
void cr_kv_turn(cr_backend *backend, const cr_graph *graph, int group, cr_type kv_type, void *dst,
                int to, const void *src, int from);

/* The ops. Each is called by every worker. */
typedef void cr_op_run(cr_plan *plan, const cr_op *op, int worker);
cr_op_run cr_op_embed, cr_op_norm_qkv, cr_op_attend, cr_op_conv_in, cr_op_ssm_in, cr_op_ssm_scan,
    cr_op_residual, cr_op_norm_gate_up, cr_op_moe_route, cr_op_moe_gate_up, cr_op_moe_down,
    cr_op_head;

/* What bounds the plan's speed: see cera_engine_roofline. */
void cr_plan_roofline(cr_plan *plan, cera_roofline *out);
/* The best cr_act.prefetch for the plan's weights (tune.c), and what is known without measuring
 * (prefetch.def). */
size_t cr_plan_tune(cr_plan *plan);
size_t cr_prefetch_of(const cr_cpu_id *cpu);
/* A walk over the weights that a token meets; of experts, only as many as it uses. */
typedef struct cr_weight_walk {
    int op, proj; /* where it goes on; 0 at first */
    const cr_weight *weight;
    size_t n_rows;     /* that are met */
    size_t begin, end; /* those of the worker */
    bool is_of_result; /* a row of the batch meets it only where its logits are wanted */
} cr_weight_walk;
bool cr_plan_next_weight(const cr_plan *plan, int worker, cr_weight_walk *walk);

/* Bytes that the MoE ops want of a worker's scratch behind their tiles. */
size_t cr_plan_moe_bytes(const cr_routing *routing, int max_rows);

#endif

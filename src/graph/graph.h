/* The graph: what a model computes, as a list of coarse ops with their tensors bound.
 *
 *     EMBED -> [ NORM_QKV -> ATTEND | CONV_IN | SSM_IN -> SSM_SCAN ] -> RESIDUAL
 *           -> [ NORM_GATE_UP -> RESIDUAL | MOE_ROUTE -> MOE_GATE_UP -> MOE_DOWN ]
 *              ... per layer ...  -> HEAD
 *
 * A graph says nothing about how many rows a batch has or which device computes it. model/block.c
 * builds one per model; a backend makes a plan of it and replays that. */
#ifndef CR_GRAPH_H
#define CR_GRAPH_H

#include "base/arena.h"
#include "tensor/type.h"

typedef enum cr_op_kind {
#define OP(name, keeps, meaning) CR_OP_##name,
#include "graph/op.def"
#undef OP
    CR_OP_COUNT
} cr_op_kind;

const char *cr_op_name(cr_op_kind kind);

/* Whether it stores what later runs read: keys and values, or a state. */
bool cr_op_keeps(cr_op_kind kind);

/* A matrix [n_rows][n_cols] or a vector [n_cols], stored as the file has it. */
typedef struct cr_weight {
    const char *name;
    cr_type type;
    size_t n_rows, n_cols;
    size_t row_bytes;
    const uint8_t *data;
} cr_weight;

/* The vector as floats; its type is F32 (model/bind.c saw to that). */
static inline const float *cr_weight_f32(const cr_weight *weight)
{
    return (const float *)(const void *)weight->data;
}

/* y = weight x + bias, and what adapters add (graph/adapt.h). bias is NULL or [n_rows]. */
typedef struct cr_proj {
    const cr_weight *weight;
    const cr_weight *bias;
    int slot; /* its number among the graph's; set by cr_graph_place */
} cr_proj;

/* y = x / sqrt(mean(x^2) + eps) * weight. A weight of several rows has one for each group of n_cols
 * values, which are normalised on their own. */
typedef struct cr_norm {
    const cr_weight *weight; /* NULL: no norm, where an op allows that */
    float eps;
} cr_norm;

/* Rotary positions: the pair (a, b) number i of a head turns by position * freq[i].
 * PAIRS: a = x[2i], b = x[2i + 1].  HALVES: a = x[i], b = x[i + n_dims / 2]. */
typedef enum cr_rope_style { CR_ROPE_PAIRS, CR_ROPE_HALVES } cr_rope_style;
typedef struct cr_rope {
    cr_rope_style style;
    int n_dims;        /* of each head, from its start; even, at most head_dim */
    const float *freq; /* [n_dims / 2] radians per position */
    float gain;        /* of what is rotated */
} cr_rope;
enum { CR_MAX_ROPES = 2 }; /* of a model: layers may differ */

/* The shape of attention: query head h reads key/value head h / (n_head / n_head_kv). */
typedef struct cr_heads {
    int n_head, n_head_kv, head_dim;
} cr_heads;

/* The shape of a state-space mixer (Mamba-2). Its channels stand in heads of n_inner / n_head; each
 * channel has n_state numbers of state. Head h reads b and c of group h / (n_head / n_group). */
typedef struct cr_ssm {
    int n_inner, n_head, n_group, n_state;
} cr_ssm;

/* How many channels x, b and c have together. */
static inline size_t cr_ssm_conv_width(const cr_ssm *ssm)
{
    return (size_t)ssm->n_inner + 2 * (size_t)ssm->n_group * (size_t)ssm->n_state;
}

/* What the input projection gives for a token: z and x [n_inner], b and c [n_group][n_state], step
 * [n_head]. */
static inline size_t cr_ssm_in_width(const cr_ssm *ssm)
{
    return (size_t)ssm->n_inner + cr_ssm_conv_width(ssm) + (size_t)ssm->n_head;
}

/* What multiplies `up`: SILU: v / (1 + exp(-v)).  GELU: v / (1 + exp(-2 t)), where
 * t = sqrt(2 / pi) (v + 0.044715 v^3); that is v / 2 (1 + tanh t). */
typedef enum cr_gate { CR_GATE_SILU, CR_GATE_GELU, CR_GATE_COUNT } cr_gate;

/* How a row chooses among the experts of a layer: p = softmax or sigmoid of the router's logits;
 * those with the largest p + bias are used. Their weights are p, without the bias. */
typedef enum cr_gating { CR_GATING_SOFTMAX, CR_GATING_SIGMOID } cr_gating;
typedef struct cr_routing {
    int n_expert, n_used;
    int n_ff; /* of an expert */
    cr_gating gating;
    bool normalized; /* weights are divided by their sum */
    float scale;     /* of the weights, after that */
} cr_routing;

typedef struct cr_op {
    cr_op_kind kind;
    int layer;   /* -1 outside the layers */
    int in, out; /* values; -1 when there is none */
    int mid;     /* a third value: what waits between the op's steps, or a route; -1: none */
    union {
        struct {
            const cr_weight *table; /* [n_vocab][n_embd] */
            float scale;            /* of the rows */
            int slot;               /* as in cr_proj */
        } embed;
        struct {
            cr_norm norm; /* or none */
            cr_proj q, k, v;
            /* Before the rotation, or none: of each head; with `mid`, where the keys wait for it,
             * of all heads of the row together. */
            cr_norm q_norm, k_norm;
            cr_heads heads;
            int rope;  /* index into graph->ropes; -1: no rotation */
            int cache; /* index into graph->caches */
        } qkv;
        struct {
            cr_heads heads;
            float scale; /* of the scores */
            /* The scale grows with the position, by 1 + temperature ln(1 + floor(position /
             * temperature_length)); 0: it stays. */
            float temperature;
            int temperature_length;
            float cap;  /* scores become cap * tanh(score / cap); 0: they stay */
            int window; /* a query sees so many keys, its own the last; 0: all before it */
            int cache;
        } attend;
        struct {
            cr_norm norm;
            cr_proj in;            /* [3 n_embd][n_embd]: b, c, x */
            const cr_weight *taps; /* [n_embd][n_taps], the newest last */
            int state;             /* index into graph->states */
        } conv;
        struct {
            cr_ssm shape;
            cr_norm norm;
            cr_proj in;
            const cr_weight *taps;      /* [cr_ssm_conv_width][n_taps], the newest last */
            const cr_weight *taps_bias; /* or NULL */
            int state;                  /* index into graph->states: of the convolution */
        } ssm_in;
        struct {
            cr_ssm shape;
            const cr_weight *step_bias, *decay, *skip; /* [n_head] */
            int state; /* index into graph->states: of the recurrence */
        } ssm_scan;
        struct {
            cr_norm in_norm; /* or none */
            cr_proj proj;
            cr_norm norm; /* of the whole row, which waits in `mid`; or none */
            float scale;  /* out += scale * norm(proj(in_norm(in))) */
        } residual;
        struct {
            cr_norm norm; /* or none */
            cr_proj gate, up;
            cr_gate function; /* of the gate */
        } gate_up;
        /* Routed feed-forward. The matrices of all experts stand one behind the other: n_expert
         * times the rows of one. A route is [n_used] weights, then the numbers of those experts, as
         * floats; ROUTE has the logits in `mid`, [n_expert], the others the route. Between the
         * others, an expert's part of a row is cr_graph_padded(n_ff) wide. */
        struct {
            cr_norm norm;
            cr_proj router;        /* [n_expert][n_embd] */
            const cr_weight *bias; /* [n_expert], for the choice alone; or NULL */
            cr_routing routing;
        } moe_route;
        struct {
            cr_norm norm;
            cr_proj gate, up; /* [n_expert * n_ff][n_embd] */
            cr_gate function; /* of the gate */
            cr_routing routing;
        } moe_gate_up;
        struct {
            cr_proj proj; /* [n_expert * n_embd][n_ff] */
            float scale;  /* out += scale * weight * proj(in), for a row's experts, ascending */
            cr_routing routing;
        } moe_down;
        struct {
            cr_norm norm;
            cr_proj proj; /* [n_vocab][n_embd] */
            float scale;  /* of the logits */
            float cap;    /* then they become cap * tanh(logit / cap); 0: they stay */
        } head;
    } u;
} cr_op;

/* An activation that one op writes and others read: [n_rows of the batch][width] floats. */
typedef struct cr_value_slot {
    const char *name;
    size_t width;
    size_t offset; /* floats, within a row of the backend's buffer; set by cr_graph_place */
    int first_op, last_op;
} cr_value_slot;

/* The key/value cache of one attention layer within a page of CR_PAGE positions:
 *     keys [n_head_kv][CR_PAGE][head_dim], then values of the same shape. */
enum { CR_PAGE = 64 };
typedef struct cr_cache {
    int n_head_kv, head_dim;
    int group;     /* index into graph->groups: whose pages it is part of */
    size_t offset; /* elements from the start of a page */
} cr_cache;

/* Layers that see equally far back share pages, so that the pages that none of them sees any more
 * can go. */
typedef struct cr_cache_group {
    int window; /* the last positions that the layers see, the new one's own included; 0: all */
    size_t page_elements; /* of a page */
} cr_cache_group;
enum { CR_MAX_GROUPS = 4 };

/* Bytes of n positions of a page, with nothing between them. */
static inline size_t cr_page_bytes(const cr_cache_group *group, cr_type kv_type, int n)
{
    return cr_type_bytes(cr_type_get(kv_type), group->page_elements / CR_PAGE * (size_t)n);
}

/* The recurrent state of one layer: n floats per sequence. */
typedef struct cr_state {
    size_t n;
    size_t offset; /* floats from the start of a sequence's state */
} cr_state;

typedef struct cr_graph {
    cr_op *ops;
    int n_ops;
    cr_value_slot *values;
    int n_values;
    cr_cache *caches;
    int n_caches;
    cr_cache_group groups[CR_MAX_GROUPS];
    int n_groups;
    cr_state *states;
    int n_states;
    cr_rope ropes[CR_MAX_ROPES];
    int n_ropes;
    size_t n_vocab, n_embd;
    /* So many of the last ops, HEAD among them, keep nothing: they compute no rows but those that
     * want logits or hidden states. */
    int n_result_ops;
    int n_slots; /* what adapters may add to; set by cr_graph_place */

    size_t row_floats;   /* of the backend's buffer; set by cr_graph_place */
    size_t state_floats; /* of a sequence's state */
    /* Every op with a state also gives it at the ends of pages (cr_batch_seq.page_states). One that
     * cannot makes this false; the state is then known at the end of a run only. */
    bool states_at_pages;
} cr_graph;

/* Building: room for so many of each, then one call per thing. The arena outlives the graph. The
 * limits are facts of the caller, so overrunning one is a bug, not an error. */
typedef struct cr_graph_limits {
    int n_ops, n_values, n_caches, n_states;
} cr_graph_limits;
bool cr_graph_init(cr_graph *graph, cr_arena *arena, const cr_graph_limits *limits);
int cr_graph_value(cr_graph *graph, const char *name, size_t width);
/* window: positions that the layer sees; 0: all. */
int cr_graph_cache(cr_graph *graph, int n_head_kv, int head_dim, int window);
int cr_graph_state(cr_graph *graph, size_t n);
int cr_graph_rope(cr_graph *graph, const cr_rope *rope);
cr_op *cr_graph_op(cr_graph *graph, cr_op_kind kind, int layer, int in, int out);
void cr_graph_mid(cr_graph *graph, cr_op *op, int value);

/* The projections that an op multiplies its input by, and how many they are. */
enum { CR_MAX_PROJS = 3 };
int cr_op_projs(const cr_op *op, const cr_proj *out[CR_MAX_PROJS]);
/* The routing of an op whose projections are stacks, a matrix for each expert; NULL: they are
 * plain. */
const cr_routing *cr_op_experts(const cr_op *op);

/* Checks that the tensors of every op fit together; the error names op and tensor. */
cera_status cr_graph_check(const cr_graph *graph, cera_error *err);

/* A width in floats, rounded up so that what follows is aligned to 64 bytes. */
size_t cr_graph_padded(size_t width);

/* Gives every value its place in a row, so that values that are never alive together share it, and
 * every projection its number. */
void cr_graph_place(cr_graph *graph);

#endif

/* The decoder block, once for every architecture.
 *
 *     x -> norm -> mixer -> norm -> + -> norm -> feed-forward -> norm -> + ->
 *     '----------------------------'   '-------------------------------'
 *
 * Most architectures have the norms before, some those after, some both. Without a feed-forward
 * width a layer is its mixer.
 *
 * An architecture says which tensors exist (rules) and which mixer a layer has (recipe); this
 * module binds the tensors and lowers layers to ops. */
#ifndef CR_BLOCK_H
#define CR_BLOCK_H

#include "file/gguf.h"
#include "model/hparams.h"

/* The tensors a decoder may have. Global ones first, then those of a layer. */
typedef enum cr_slot {
    CR_SLOT_EMBED,
    CR_SLOT_OUTPUT, /* absent: tied to the embedding */
    CR_SLOT_OUTPUT_BIAS,
    CR_SLOT_OUTPUT_NORM,
    CR_SLOT_ROPE_FACTORS,
    CR_SLOT_ROPE_SHORT, /* factors within the first context */
    CR_SLOT_ROPE_LONG,  /* and beyond it */
    CR_SLOT_GLOBAL_COUNT,

    CR_SLOT_MIXER_NORM = CR_SLOT_GLOBAL_COUNT,
    CR_SLOT_Q,
    CR_SLOT_K,
    CR_SLOT_V,
    CR_SLOT_Q_BIAS,
    CR_SLOT_K_BIAS,
    CR_SLOT_V_BIAS,
    CR_SLOT_Q_NORM, /* of a head, or of the row: the rule says how wide */
    CR_SLOT_K_NORM,
    CR_SLOT_ATTN_OUT,
    CR_SLOT_ATTN_OUT_BIAS,
    CR_SLOT_CONV_IN,
    CR_SLOT_CONV_TAPS,
    CR_SLOT_CONV_OUT,
    CR_SLOT_SSM_IN,
    CR_SLOT_SSM_TAPS,
    CR_SLOT_SSM_TAPS_BIAS,
    CR_SLOT_SSM_STEP_BIAS,
    CR_SLOT_SSM_DECAY,
    CR_SLOT_SSM_SKIP,
    CR_SLOT_SSM_NORM,
    CR_SLOT_SSM_OUT,
    CR_SLOT_MIXER_POST_NORM,
    CR_SLOT_FFN_NORM,
    CR_SLOT_GATE, /* of a dense layer, or of the expert that all rows share */
    CR_SLOT_UP,
    CR_SLOT_DOWN,
    CR_SLOT_GATE_BIAS,
    CR_SLOT_UP_BIAS,
    CR_SLOT_DOWN_BIAS,
    CR_SLOT_FFN_POST_NORM,
    CR_SLOT_ROUTER,
    CR_SLOT_ROUTER_BIAS,
    CR_SLOT_GATE_EXPERTS,
    CR_SLOT_UP_EXPERTS,
    CR_SLOT_DOWN_EXPERTS,
    CR_SLOT_COUNT
} cr_slot;

/* What a dimension of a tensor must be, in terms of the hyper-parameters. */
typedef enum cr_dim {
    CR_DIM_NONE,
    CR_DIM_EMBD,
    CR_DIM_3_EMBD,
    CR_DIM_FF,
    CR_DIM_VOCAB,
    CR_DIM_HEAD, /* head_dim */
    CR_DIM_Q,    /* n_head * head_dim */
    CR_DIM_KV,   /* n_head_kv of the layer * head_dim */
    CR_DIM_Q_KV, /* Q + KV */
    CR_DIM_QKV,  /* Q + 2 KV */
    CR_DIM_2_FF,
    CR_DIM_TAPS,
    CR_DIM_SSM_IN,     /* cr_ssm_in_width */
    CR_DIM_SSM_CONV,   /* cr_ssm_conv_width */
    CR_DIM_SSM_INNER,  /* ssm.n_inner */
    CR_DIM_SSM_HEADS,  /* ssm.n_head */
    CR_DIM_SSM_GROUPS, /* ssm.n_group */
    CR_DIM_SSM_GROUP,  /* channels of a group: INNER / GROUPS */
    CR_DIM_ROPE_HALF,  /* rope.n_dims / 2 */
    CR_DIM_EXPERTS,
    CR_DIM_FF_EXPERT,
    CR_DIM_FF_SHARED,
} cr_dim;

typedef enum cr_mixer { CR_MIXER_ATTENTION, CR_MIXER_CONV, CR_MIXER_SSM } cr_mixer;

/* Where a rule applies. */
typedef enum cr_where {
    CR_IN_MODEL,
    CR_IN_EVERY_LAYER,
    CR_IN_ATTENTION, /* layers whose mixer that is */
    CR_IN_CONV,
    CR_IN_SSM,
    CR_IN_DENSE,  /* layers whose feed-forward that is */
    CR_IN_ROUTED, /* or that */
    CR_IN_SHARED, /* routed layers of a model with a shared expert */
} cr_where;

/* A matrix may have any type that the backend multiplies, so may a stack, a matrix for each expert;
 * a vector is F32. */
typedef enum cr_shape { CR_MATRIX, CR_VECTOR, CR_STACK } cr_shape;

/* One tensor: its name ("blk.%d.attn_q.weight"; %d is the layer) and its dimensions in the file's
 * order, columns first. */
typedef struct cr_rule {
    cr_slot slot;
    const char *name;
    cr_where where;
    cr_shape shape;
    cr_dim dims[2];
    const char *alias; /* another name that files use for it, or NULL */
    bool optional;
    /* Part of a larger tensor: of part_of rows, those from part_at on. Under its alias it is
     * whole. */
    cr_dim part_of, part_at;
} cr_rule;

/* What a layer is made of. */
typedef struct cr_layer {
    cr_mixer mixer;
    bool routed; /* its feed-forward */
    /* Of an attention layer: */
    cr_heads heads;
    const cr_rotary *rope; /* &hparams->rope or &hparams->rope_local; NULL: no rotation */
    int window;            /* positions that it looks at; 0: all */
} cr_layer;

/* The recipe of a layer with attention, as most architectures have it; others change what it
 * gives. */
void cr_layer_attention(const cr_hparams *hparams, int layer, cr_layer *out);

/* The rows of a rule table, in the words of the enums above:
 *     CR_TENSOR_MATRIX(Q, "blk.%d.attn_q.weight", EVERY_LAYER, EMBD, Q)
 *     CR_TENSOR_VECTOR(Q_BIAS, "blk.%d.attn_q.bias", EVERY_LAYER, Q, .optional = true) */
#define CR_TENSOR_MATRIX(slot_, name_, where_, cols, rows, ...)                                    \
    {                                                                                              \
        .slot = CR_SLOT_##slot_, .name = name_, .where = CR_IN_##where_, .shape = CR_MATRIX,       \
        .dims = { CR_DIM_##cols, CR_DIM_##rows }, __VA_ARGS__                                      \
    }
#define CR_TENSOR_VECTOR(slot_, name_, where_, n, ...)                                             \
    {                                                                                              \
        .slot = CR_SLOT_##slot_, .name = name_, .where = CR_IN_##where_, .shape = CR_VECTOR,       \
        .dims = { CR_DIM_##n, CR_DIM_NONE }, __VA_ARGS__                                           \
    }
#define CR_TENSOR_STACK(slot_, name_, where_, cols, rows, ...)                                     \
    {                                                                                              \
        .slot = CR_SLOT_##slot_, .name = name_, .where = CR_IN_##where_, .shape = CR_STACK,        \
        .dims = { CR_DIM_##cols, CR_DIM_##rows }, __VA_ARGS__                                      \
    }
#define CR_TENSOR_VECTORS(slot_, name_, where_, cols, rows, ...)                                   \
    {                                                                                              \
        .slot = CR_SLOT_##slot_, .name = name_, .where = CR_IN_##where_, .shape = CR_VECTOR,       \
        .dims = { CR_DIM_##cols, CR_DIM_##rows }, __VA_ARGS__                                      \
    }

struct cr_keys;

/* An architecture: a line in arch/arch.def and one file. */
typedef struct cr_arch {
    const char *name;                                                 /* general.architecture */
    cera_status (*read)(const struct cr_keys *keys, cr_hparams *out); /* fills *out, cleared */
    void (*layer)(const cr_hparams *hparams, int layer, cr_layer *out);
    const cr_rule *rules;
    size_t n_rules;
} cr_arch;

/* The tensors of a model: global slots once, then CR_SLOT_COUNT slots per layer (the global part of
 * a layer's row is unused). NULL: absent. */
typedef struct cr_tensors {
    const cr_weight *global[CR_SLOT_GLOBAL_COUNT];
    const cr_weight *(*layer)[CR_SLOT_COUNT];
} cr_tensors;

/* Binds every rule's tensor, checking type and shape; the error names the tensor. */
cera_status cr_bind(const cr_gguf *file, const cr_arch *arch, const cr_hparams *hparams,
                    cr_arena *arena, cr_tensors *out, cera_error *err);

/* Lowers the model to a graph, checked and placed, for sessions of up to n_context positions. */
cera_status cr_build(const cr_arch *arch, const cr_hparams *hparams, const cr_tensors *tensors,
                     int n_context, cr_arena *arena, cr_graph *out, cera_error *err);

#endif

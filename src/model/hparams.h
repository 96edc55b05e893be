/* Hyper-parameters: what the metadata says, with the defaults of the architecture filled in. */
#ifndef CR_HPARAMS_H
#define CR_HPARAMS_H

#include "graph/graph.h"

/* Limits that keep every product of two of them far inside 64 bits. */
enum {
    CR_MAX_LAYERS = 1024,
    CR_MAX_WIDTH = 1 << 20, /* embedding, feed-forward */
    CR_MAX_HEADS = 1 << 12,
    CR_MAX_HEAD_DIM = 1 << 12,
    CR_MAX_VOCAB = 1 << 24,
    CR_MAX_CONTEXT = 1 << 26,
    CR_MAX_TAPS = 16,
    CR_MAX_EXPERTS = 1 << 10,
    CR_MAX_STATE = 1 << 12,            /* of a channel of a state space */
    CR_MAX_RECURRENT_FLOATS = 1 << 28, /* of all state spaces, for a sequence */
};

/* How a model reaches beyond the context that it was first trained for. LINEAR: positions are
 * divided by the factor. YARN: slow pairs are, fast ones are not, those between in part. LONG: the
 * file has factors for each pair, some for its first context and others for longer ones. */
typedef enum cr_rope_scaling {
    CR_ROPE_PLAIN,
    CR_ROPE_LINEAR,
    CR_ROPE_YARN,
    CR_ROPE_LONG
} cr_rope_scaling;

/* How positions enter queries and keys. */
typedef struct cr_rotary {
    cr_rope_style style;
    int n_dims; /* of each head, from its start */
    float base;
    cr_rope_scaling scaling;
    float factor;               /* of LINEAR and YARN */
    float beta_fast, beta_slow; /* YARN: turns within n_context_first that are fast, slow */
    float gain;                 /* of what is rotated */
    int n_context_first; /* the first context; beyond it, long factors instead of short ones */
} cr_rotary;

typedef struct cr_hparams {
    int n_layer;
    int n_embd;
    int n_ff;
    int n_head;
    int head_dim;
    int n_head_kv[CR_MAX_LAYERS]; /* 0: the layer has no attention */
    int n_vocab;                  /* rows of the embedding table */
    int n_context;                /* that the model was trained for */
    int n_taps;                   /* of the short convolution; 0: none */
    cr_ssm ssm;                   /* all 0: none */
    /* Routed feed-forward, in the layers after the first n_layer_dense. */
    cr_routing routing; /* n_expert 0: there is none */
    int n_layer_dense;
    int n_ff_shared; /* width of an expert that all rows use beside their own; 0: none */
    float norm_eps;
    float embed_scale;    /* of what the embedding table gives; 1 for most */
    float attn_scale;     /* of the scores; 1 / sqrt(head_dim) for most */
    float residual_scale; /* of what a mixer or feed-forward adds; 1 for most */
    float logit_scale;    /* a factor; 1 for most */
    float attn_cap;       /* of the scores; 0: none */
    float logit_cap;      /* 0: none */
    /* By which scores grow with the position, at each multiple of the length; 0: they do not. */
    float temperature;
    int temperature_length;
    cr_gate gate;
    int window[CR_MAX_LAYERS]; /* positions that a layer looks at; 0: all */
    cr_rotary rope;
    cr_rotary rope_local; /* of layers with a window, where that differs; n_dims 0: not used */
} cr_hparams;

#endif

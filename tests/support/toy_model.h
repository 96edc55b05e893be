/* Toy models: small random GGUF files, built in memory, the same bytes every time.
 *
 *     toy_spec spec;
 *     toy_spec_init(&spec, "llama", CR_TYPE_Q4_0);
 *     spec.bias = true;
 *     gguf_build file;
 *     toy_build(&spec, &file);
 *     ... file.data, file.size ...
 *     build_done(&file);
 *
 * scripts/make-golden builds the same files on its own and says how a weight follows from the seed
 * and the tensor's name. Sizes and gains are such that a wrong detail shows: logits have a standard
 * deviation of 3 to 5, attention is far from uniform, and the epsilon of the norms is large. */
#ifndef TOY_MODEL_H
#define TOY_MODEL_H

#include "support/gguf_build.h"
#include "tensor/type.h"

#include <stdbool.h>

enum { TOY_MAX_LAYERS = 64, TOY_N_VOCAB = 300 };

/* One wrong detail, made in the file: what an engine that gets the detail wrong would compute from
 * the right file. */
typedef enum toy_mutation {
    TOY_RIGHT,
    TOY_EPS,         /* the norms' epsilon ten times as large */
    TOY_ROPE_BASE,   /* 10,000 becomes 20,000 */
    TOY_ROPE_PAIRS,  /* pairs are halves instead of neighbours, or the other way round */
    TOY_ATTN_SCALE,  /* scores twice as large */
    TOY_QK_SWAPPED,  /* queries from the keys' weights; needs as many kv heads as heads */
    TOY_NO_BIAS,     /* the biases are 0 */
    TOY_NO_FACTORS,  /* the factors of the rotation are 1 */
    TOY_TIED,        /* the head is the embedding table */
    TOY_GATE_UP,     /* gate and up exchanged */
    TOY_QK_NORM,     /* norms of queries and keys exchanged */
    TOY_POST_NORM,   /* norms after attention and feed-forward exchanged */
    TOY_TAPS,        /* taps of the convolution reversed */
    TOY_CONV_PARTS,  /* b, c, x becomes c, b, x */
    TOY_KEY,         /* the number of key `detail` doubled */
    TOY_LONG_SHORT,  /* long and short rope factors exchanged */
    TOY_ARCH,        /* the file says that it is a `detail` */
    TOY_GATING,      /* experts by sigmoid instead of softmax, or the other way round */
    TOY_EXPERT_NORM, /* weights of experts divided by their sum or not */
    TOY_ROUTER,      /* experts in reverse order */
    TOY_NO_SHARED,   /* the shared expert is next to nothing */
    TOY_SSM_PARTS,   /* z, x, b, c becomes x, z, c, b where they have the same size */
    TOY_SSM_GROUPS,  /* the groups of b and c in reverse order */
    TOY_ROPE_ON,     /* rotates although the model does not */
    TOY_ZERO,        /* all numbers of the tensors called `detail` are 0 */
    TOY_DOUBLE,      /* ... twice as large; not of quantised types */
    TOY_N_MUTATIONS
} toy_mutation;

/* A key of the file as a test wants it: with another value or type, or without one. */
typedef struct toy_key {
    const char *name; /* whole, or without the architecture's name: "block_count" */
    enum {
        TOY_KEY_ABSENT,
        TOY_KEY_NUMBER,
        TOY_KEY_I32,
        TOY_KEY_FLOAT,
        TOY_KEY_TEXT,
        TOY_KEY_NUMBERS, /* of i32, as many as `n`, each `number` */
        TOY_KEY_FLOATS,
        TOY_KEY_TEXTS,
    } form;
    uint64_t number; /* above 2^32 - 1: of type u64 */
    float real;
    const char *text;
    uint64_t n;
} toy_key;

typedef struct toy_spec {
    const char *arch;
    cr_type type; /* of the matrices */
    bool mixed;   /* each kind of matrix in a type of its own, whatever `type` says */
    uint64_t seed;
    int n_layer, n_context, n_embd, n_ff, n_head, head_dim, rope_dims;
    int n_head_kv[TOY_MAX_LAYERS]; /* 0: a convolution (lfm2) or state-space layer */
    int n_taps;
    int ssm_inner, ssm_state, ssm_heads, ssm_groups; /* 0: no state spaces */
    float norm_eps;
    /* 0: the key is left away. */
    float rope_base, rope_local_base, attn_cap, logit_cap;
    float embed_scale, residual_scale, attn_scale, logit_scale;
    int window, period;  /* attention.sliding_window and its pattern */
    const char *scaling; /* rope.scaling.type, or NULL */
    float scale_factor, scale_gain;
    float yarn_gain, log_share; /* rope.scaling.yarn_attn_factor, yarn_log_multiplier */
    int first_context;          /* rope.scaling.original_context_length */
    float temperature;          /* attention.temperature_scale */
    int temperature_length;
    const char *final; /* the name of the last norm, or NULL: the architecture's own */
    bool tied, bias, factors, long_short, head_bias, no_rope;
    bool split; /* q, k and v apart where the architecture has them in one tensor */
    int n_expert, n_expert_used,
        n_dense;                  /* n_expert 0: no experts; the first n_dense layers are dense */
    int n_ff_expert, n_ff_shared; /* 0: as wide as n_ff; no shared expert */
    int gating;                   /* expert_gating_func: 1 softmax, 2 sigmoid */
    float expert_scale;
    bool expert_norm_off;
    toy_mutation mutation;
    const char *detail;  /* of the mutation */
    const toy_key *keys; /* in place of those of the same names, or besides them */
    size_t n_keys;
} toy_spec;

/* Three layers (four for lfm2: convolutions and attention in turn), 256 wide, 4 heads over 2 kv
 * heads of 64; state spaces have 512 channels in 8 heads and 2 groups. Ends the program when it
 * does not know the architecture. */
void toy_spec_init(toy_spec *spec, const char *arch, cr_type type);
/* Starts *out. Ends the program when there is no memory, as all of gguf_build does. */
void toy_build(const toy_spec *spec, gguf_build *out);
/* Appends the bytes of a matrix of that name, as such a model has them. */
void toy_matrix(gguf_build *out, uint64_t seed, const char *name, cr_type type, uint64_t n_cols,
                uint64_t n_rows);

#endif

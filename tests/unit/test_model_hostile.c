/* Hyper-parameters of hostile files, for every architecture: each is refused with a message that
 * names the key or the tensor, and leaves nothing behind.
 *
 * A case is one or two keys of a small right model with other values. It applies to the
 * architectures whose row in `subjects` has its trait; a line of arch.def without a row fails. What
 * only one architecture reads is in `own_cases`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fault_host.h"
#include "support/toy_model.h"

#include "arch/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the architectures ------------------------------------------------------------------- */

/* What an architecture reads, beside what all do. */
enum {
    EVERY = 0,
    HEADS = 1 << 0,      /* attention in every layer */
    ROPE = 1 << 1,       /* rotation, in some layer */
    WINDOWS = 1 << 2,    /* attention.sliding_window */
    PATTERN = 1 << 3,    /* attention.sliding_window_pattern */
    NO_WINDOW = 1 << 4,  /* refuses one */
    NO_EXPERTS = 1 << 5, /* refuses them */
    EXPERTS = 1 << 6,    /* has some in these files */
    NO_SHARED = 1 << 7,  /* refuses experts that all tokens use */
    CONV = 1 << 8,       /* convolutions in some layers */
    SCALES = 1 << 9,     /* Granite's four */
    SSM = 1 << 10,       /* state spaces in some layers */
    SHARED = 1 << 11,    /* has an expert that all tokens use */
    DECODER = 1 << 12,   /* attention in some layer, feed-forwards in all */
    ATTENTION = DECODER | HEADS | ROPE,
    WINDOWED = ATTENTION | WINDOWS | PATTERN | NO_EXPERTS,
    PLAIN = ATTENTION | NO_WINDOW | NO_EXPERTS,
    ROUTED = ATTENTION | NO_WINDOW | EXPERTS,
};

typedef struct subject {
    const char *arch;
    int traits;
    void (*adjust)(toy_spec *spec); /* to what the architecture must have, or NULL */
} subject;

static void with_logit_scale(toy_spec *spec)
{
    spec->logit_scale = 8;
}

static void with_experts(toy_spec *spec)
{
    spec->n_expert = 4;
    spec->n_expert_used = 2;
    spec->n_ff_expert = 24;
    spec->n_dense = 1;
}

static void with_shared_expert(toy_spec *spec)
{
    with_experts(spec);
    with_logit_scale(spec);
    spec->n_ff_shared = 40;
}

static void with_all_of_granite(toy_spec *spec)
{
    with_shared_expert(spec);
    spec->no_rope = true;
}

static const subject subjects[] = {
    { "llama", ATTENTION | NO_WINDOW, NULL },
    { "llama", ROUTED | NO_SHARED, with_experts },
    { "mistral3", PLAIN, NULL },
    { "lfm2", DECODER | ROPE | NO_WINDOW | NO_EXPERTS | CONV, NULL },
    { "qwen2", PLAIN, NULL },
    { "qwen3", PLAIN, NULL },
    { "granite", PLAIN | SCALES, with_logit_scale },
    { "smollm3", PLAIN, NULL },
    { "olmo2", WINDOWED, NULL },
    { "exaone4", WINDOWED, NULL },
    { "gemma2", WINDOWED, NULL },
    { "gemma3", WINDOWED, NULL },
    { "phi3", WINDOWED, NULL },
    { "qwen3moe", ROUTED | NO_SHARED, with_experts },
    { "lfm2moe", DECODER | ROPE | NO_WINDOW | EXPERTS | NO_SHARED | CONV, with_experts },
    { "granitemoe", ROUTED | SHARED | SCALES, with_shared_expert },
    { "mamba2", SSM, NULL },
    { "granitehybrid", DECODER | ROPE | NO_WINDOW | SSM, NULL },
    { "granitehybrid", DECODER | NO_WINDOW | EXPERTS | SHARED | SSM | SCALES, with_all_of_granite },
};

static toy_spec small(const subject *s)
{
    toy_spec spec;
    toy_spec_init(&spec, s->arch, CR_TYPE_F32);
    spec.n_embd = 32;
    spec.n_ff = 48;
    spec.n_head = 2;
    spec.head_dim = 24;
    spec.rope_dims = 16;
    if (spec.ssm_inner > 0) {
        spec.ssm_inner = 64;
        spec.ssm_heads = 4;
        spec.ssm_state = 8;
    }
    if (strcmp(s->arch, "mamba2") == 0)
        spec.n_ff = spec.n_head = spec.head_dim = spec.rope_dims = 0;
    spec.bias = true; /* where the architecture has any */
    for (int i = 0; i < spec.n_layer; i++)
        spec.n_head_kv[i] = spec.n_head_kv[i] > 0;
    if (s->adjust)
        s->adjust(&spec);
    return spec;
}

/* ---- the cases --------------------------------------------------------------------------- */

typedef struct hostile {
    int traits; /* all of which an architecture must have */
    const char
        *expect; /* part of the message; behind the architecture's name where it begins with '.' */
    toy_key keys[2];
} hostile;

#define U(name_, value)                                                                            \
    {                                                                                              \
        .name = name_, .form = TOY_KEY_NUMBER, .number = value                                     \
    }
#define I(name_, value)                                                                            \
    {                                                                                              \
        .name = name_, .form = TOY_KEY_I32, .number = (uint32_t)(value)                            \
    }
#define F(name_, value)                                                                            \
    {                                                                                              \
        .name = name_, .form = TOY_KEY_FLOAT, .real = value                                        \
    }
#define S(name_, value)                                                                            \
    {                                                                                              \
        .name = name_, .form = TOY_KEY_TEXT, .text = value                                         \
    }
#define NONE(name_)                                                                                \
    {                                                                                              \
        .name = name_, .form = TOY_KEY_ABSENT                                                      \
    }
#define ARRAY_I(name_, count, value)                                                               \
    {                                                                                              \
        .name = name_, .form = TOY_KEY_NUMBERS, .number = (uint32_t)(value), .n = count            \
    }
#define ARRAY_F(name_, count)                                                                      \
    {                                                                                              \
        .name = name_, .form = TOY_KEY_FLOATS, .real = 1, .n = count                               \
    }
#define ARRAY_S(name_, count, value)                                                               \
    {                                                                                              \
        .name = name_, .form = TOY_KEY_TEXTS, .text = value, .n = count                            \
    }

/* A required size: absent, of another type, nothing, negative, far too large. */
#define SIZE(traits_, name, max)                                                                   \
    { traits_, "." name ": the key is missing", { NONE(name) } },                                  \
        { traits_, "." name ": expected an integer", { S(name, "8") } },                           \
        { traits_, "." name ": expected an integer", { F(name, 8.0f) } },                          \
        { traits_, "." name ": expected an integer", { ARRAY_I(name, 3, 8) } },                    \
        { traits_, "." name ": expected an integer", { U(name, UINT64_C(1) << 63) } },             \
        { traits_, "." name ": expected 1 to " max ", found 0", { U(name, 0) } },                  \
        { traits_, "." name ": expected 1 to " max ", found -1", { I(name, -1) } },                \
        { traits_, "." name ": expected 1 to " max ", found 2147483648", { U(name, 1u << 31) } },  \
        { traits_,                                                                                 \
          "." name ": expected 1 to " max ", found 4294967295",                                    \
          { U(name, UINT32_MAX) } },                                                               \
    {                                                                                              \
        traits_, "." name ": expected 1 to " max ", found 4611686018427387904",                    \
        {                                                                                          \
            U(name, UINT64_C(1) << 62)                                                             \
        }                                                                                          \
    }

/* A number that divides or is divided by. */
#define POSITIVE(traits_, name)                                                                    \
    { traits_, "." name ": expected a finite positive number, found 0", { F(name, 0) } },          \
        { traits_, "." name ": expected a finite positive number, found -1", { F(name, -1) } },    \
        { traits_, "." name ": expected a finite positive number, found ", { F(name, NAN) } },     \
        { traits_,                                                                                 \
          "." name ": expected a finite positive number, found inf",                               \
          { F(name, INFINITY) } },                                                                 \
        { traits_,                                                                                 \
          "." name ": expected a finite positive number, found -inf",                              \
          { F(name, -INFINITY) } },                                                                \
        { traits_, "." name ": expected ", { S(name, "1") } },                                     \
    {                                                                                              \
        traits_, "." name ": expected ",                                                           \
        {                                                                                          \
            ARRAY_F(name, 3)                                                                       \
        }                                                                                          \
    }

#define TOKENS "tokenizer.ggml.tokens"

/* clang-format off */
static const hostile cases[] = {
    SIZE(EVERY, "block_count", "1024"),
    SIZE(EVERY, "context_length", "67108864"),
    SIZE(EVERY, "embedding_length", "1048576"),
    SIZE(HEADS, "feed_forward_length", "1048576"),
    SIZE(HEADS, "attention.head_count", "4096"),
    POSITIVE(EVERY, "attention.layer_norm_rms_epsilon"),
    { EVERY, ".attention.layer_norm_rms_epsilon: the key is missing",
      { NONE("attention.layer_norm_rms_epsilon") } },

    /* Sizes that are possible but not those of the tensors. */
    { HEADS, "blk.3.", { U("block_count", 4), U("attention.head_count_kv", 1) } },
    { EVERY, "token_embd.weight: expected [64, 300], file has [32, 300]",
      { U("embedding_length", 64), U("attention.key_length", 24) } },
    { HEADS, "ffn_", { U("feed_forward_length", 47) } },
    { HEADS, "blk.0.attn_q", { U("attention.head_count", 4) } },
    { EVERY, ".vocab_size: 299, but token_embd.weight has 300 rows", { U("vocab_size", 299) } },
    { EVERY, ".vocab_size: 301, but token_embd.weight has 300 rows", { U("vocab_size", 301) } },
    { EVERY, ".vocab_size: expected 1 to 16777216, found 0", { U("vocab_size", 0) } },
    { EVERY, ".vocab_size: expected 1 to 16777216, found 2147483648", { U("vocab_size", 1u << 31) } },

    /* Heads. */
    { HEADS, ".attention.head_count_kv: expected a divisor of 3 heads, found 2",
      { U("attention.head_count", 3), U("attention.head_count_kv", 2) } },
    { HEADS, ".attention.key_length: the key is missing",
      { U("attention.head_count", 3), NONE("attention.key_length") } },
    { HEADS, ".attention.head_count_kv: expected 1 to 2, found 0", { U("attention.head_count_kv", 0) } },
    { HEADS, ".attention.head_count_kv: expected 1 to 2, found 3", { U("attention.head_count_kv", 3) } },
    { DECODER, ".attention.head_count_kv: expected ", { I("attention.head_count_kv", -1) } },
    { DECODER, ".attention.head_count_kv: expected an integer", { F("attention.head_count_kv", 1) } },
    { DECODER, ".attention.head_count_kv: expected 3 elements, found 0",
      { U("block_count", 3), ARRAY_I("attention.head_count_kv", 0, 1) } },
    { DECODER, ".attention.head_count_kv: expected 3 elements, found 2",
      { U("block_count", 3), ARRAY_I("attention.head_count_kv", 2, 1) } },
    { DECODER, ".attention.head_count_kv: expected 2 elements, found 3",
      { U("block_count", 2), ARRAY_I("attention.head_count_kv", 3, 1) } },
    { DECODER, ".attention.head_count_kv: expected 1000 elements, found ", { U("block_count", 1000),
      ARRAY_I("attention.head_count_kv", 999, 1) } },
    { DECODER, ".attention.head_count_kv: expected an integer", { U("block_count", 4), ARRAY_F("attention.head_count_kv", 4) } },
    { DECODER, ".attention.head_count_kv: expected an integer",
      { U("block_count", 4), ARRAY_S("attention.head_count_kv", 4, "1") } },
    { DECODER, ".attention.head_count_kv: expected ", { U("block_count", 4), ARRAY_I("attention.head_count_kv", 4, -1) } },
    { DECODER, ".attention.key_length: expected 1 to 4096, found 0", { U("attention.key_length", 0) } },
    { DECODER, ".attention.key_length: expected 1 to 4096, found 2147483648",
      { U("attention.key_length", 1u << 31) } },
    { DECODER, ".attention.value_length: only 24 is supported, found 16",
      { U("attention.value_length", 16) } },

    /* The rotation. */
    { ROPE, ".rope.dimension_count: expected 2 to 24, found 26", { U("rope.dimension_count", 26) } },
    { ROPE, ".rope.dimension_count: expected 2 to 24, found 0", { U("rope.dimension_count", 0) } },
    { ROPE, ".rope.dimension_count: expected 2 to 24, found -2", { I("rope.dimension_count", -2) } },
    { ROPE, ".rope.dimension_count: expected an even number, found 15",
      { U("rope.dimension_count", 15) } },
    POSITIVE(ROPE, "rope.freq_base"),
    POSITIVE(ROPE, "rope.scaling.factor"),
    POSITIVE(ROPE, "rope.scaling.attn_factor"),
    { ROPE, "frequency that is not finite", { F("rope.freq_base", 1e-45f) } },
    { ROPE, ".rope.scaling.type: \"dynamic\" is not supported", { S("rope.scaling.type", "dynamic") } },
    { ROPE, ".rope.scaling.type: \"\" is not supported", { S("rope.scaling.type", "") } },
    { ROPE, ".rope.scaling.type", { U("rope.scaling.type", 2) } },
    { ROPE, ".rope.scaling.original_context_length: expected 1 to 67108864, found 0",
      { U("rope.scaling.original_context_length", 0) } },
    { ROPE, ".rope.scaling.yarn_beta_fast: expected a finite positive number",
      { S("rope.scaling.type", "yarn"), F("rope.scaling.yarn_beta_fast", NAN) } },
    { ROPE, ".rope.scaling.yarn_log_multiplier: expected a finite number of at least 0",
      { S("rope.scaling.type", "yarn"), F("rope.scaling.yarn_log_multiplier", -1) } },
    { ROPE, ".rope.scaling.yarn_attn_factor: expected a finite positive number, found 0",
      { S("rope.scaling.type", "yarn"), F("rope.scaling.yarn_attn_factor", 0) } },
    { ROPE, ".rope.scaling.yarn_ext_factor: only 1 is supported, found 0.5",
      { S("rope.scaling.type", "yarn"), F("rope.scaling.yarn_ext_factor", 0.5f) } },

    /* Windows. */
    { WINDOWS, ".attention.sliding_window: expected 0 to 67108864, found -1",
      { I("attention.sliding_window", -1) } },
    { WINDOWS, ".attention.sliding_window: expected 0 to 67108864, found 2147483648",
      { U("attention.sliding_window", 1u << 31) } },
    { WINDOWS, ".attention.sliding_window: expected an integer", { F("attention.sliding_window", NAN) } },
    { PATTERN, ".attention.sliding_window_pattern: expected 3 elements, found 2",
      { ARRAY_I("attention.sliding_window_pattern", 2, 1) } },
    { PATTERN, ".attention.sliding_window_pattern: expected 3 elements, found 4",
      { ARRAY_I("attention.sliding_window_pattern", 4, 1) } },
    { PATTERN, ".attention.sliding_window_pattern: expected 0 to 1, found 2",
      { ARRAY_I("attention.sliding_window_pattern", 3, 2) } },
    { PATTERN, ".attention.sliding_window_pattern: expected an integer",
      { ARRAY_F("attention.sliding_window_pattern", 3) } },
    { PATTERN, ".attention.sliding_window_pattern: expected 0 to 1024, found -1",
      { I("attention.sliding_window_pattern", -1) } },
    { NO_WINDOW, ".attention.sliding_window: only 0 is supported, found 40",
      { U("attention.sliding_window", 40) } },

    /* Convolutions. */
    { CONV, ".attention.head_count_kv: the key is missing", { NONE("attention.head_count_kv") } },
    { CONV, ".shortconv.l_cache: expected 2 to 16, found 0", { U("shortconv.l_cache", 0) } },
    { CONV, ".shortconv.l_cache: expected 2 to 16, found 2147483648", { U("shortconv.l_cache", 1u << 31) } },
    { CONV, "blk.0.shortconv.conv.weight: expected [4, 32], file has [3, 32]",
      { U("shortconv.l_cache", 4) } },
    { CONV, ".rope.freq_base: the key is missing", { NONE("rope.freq_base") } },
    { CONV, "blk.4.", { U("block_count", 5), ARRAY_I("attention.head_count_kv", 5, 0) } },
    { CONV, "blk.1.shortconv.in_proj.weight: the tensor is missing",
      { ARRAY_I("attention.head_count_kv", 4, 0) } },
    { CONV, "blk.0.attn_q.weight: the tensor is missing", { ARRAY_I("attention.head_count_kv", 4, 1) } },

    /* State spaces. */
    SIZE(SSM, "ssm.inner_size", "1048576"),
    SIZE(SSM, "ssm.state_size", "4096"),
    SIZE(SSM, "ssm.time_step_rank", "4096"),
    SIZE(SSM, "ssm.group_count", "4096"),
    { SSM, ".ssm.conv_kernel: the key is missing", { NONE("ssm.conv_kernel") } },
    { SSM, ".ssm.conv_kernel: expected an integer", { F("ssm.conv_kernel", 4) } },
    { SSM, ".ssm.conv_kernel: expected 2 to 16, found 1", { U("ssm.conv_kernel", 1) } },
    { SSM, ".ssm.conv_kernel: expected 2 to 16, found -1", { I("ssm.conv_kernel", -1) } },
    { SSM, ".ssm.conv_kernel: expected 2 to 16, found 17", { U("ssm.conv_kernel", 17) } },
    { SSM, "blk.0.ssm_conv1d.weight: expected [5, 96], file has [4, 96]", { U("ssm.conv_kernel", 5) } },
    { SSM, "blk.0.ssm_in.weight: expected [32, 292], file has [32, 164]", { U("ssm.inner_size", 128) } },
    { SSM, "blk.0.ssm_in.weight: expected [32, 168], file has [32, 164]", { U("ssm.state_size", 9) } },
    { SSM, "blk.0.ssm_in.weight: expected [32, 162], file has [32, 164]", { U("ssm.time_step_rank", 2) } },
    { SSM, "blk.0.ssm_in.weight: expected [32, 148], file has [32, 164]", { U("ssm.group_count", 1) } },
    { SSM, ".ssm.time_step_rank: expected a divisor of 64 channels, found 5", { U("ssm.time_step_rank", 5) } },
    { SSM, ".ssm.group_count: expected a divisor of 4 heads, found 3", { U("ssm.group_count", 3) } },

    /* Scales. */
    { SCALES, ".logit_scale: the key is missing", { NONE("logit_scale") } },
    POSITIVE(SCALES, "logit_scale"),
    POSITIVE(SCALES, "residual_scale"),
    { SCALES, ".embedding_scale: expected a finite positive number", { F("embedding_scale", NAN) } },
    { SCALES, ".attention.scale: expected a finite positive number, found 0", { F("attention.scale", 0) } },

    /* Experts. */
    { EXPERTS, ".expert_count: expected an integer", { S("expert_count", "8") } },
    { EXPERTS, ".expert_count: expected an integer", { F("expert_count", 8) } },
    { EXPERTS, ".expert_count: expected ", { I("expert_count", -1) } },
    { EXPERTS, " to 1024, found 1025", { U("expert_count", 1025) } },
    { EXPERTS, " to 1024, found 2147483648", { U("expert_count", 1u << 31) } },
    { EXPERTS, " to 1024, found 4611686018427387904", { U("expert_count", UINT64_C(1) << 62) } },
    { EXPERTS, "blk.1.ffn_gate_inp.weight: expected [32, 5], file has [32, 4]", { U("expert_count", 5) } },
    { EXPERTS, ".expert_used_count: expected 1 to 1, found 2", { U("expert_count", 1) } },
    SIZE(EXPERTS, "expert_used_count", "4"),
    { EXPERTS, ".expert_used_count: expected 1 to 4, found 5", { U("expert_used_count", 5) } },
    { EXPERTS, ".expert_feed_forward_length: expected an integer", { F("expert_feed_forward_length", 24) } },
    { EXPERTS, ".expert_feed_forward_length: expected 1 to 1048576, found 0",
      { U("expert_feed_forward_length", 0) } },
    { EXPERTS, ".expert_feed_forward_length: expected 1 to 1048576, found 2147483648",
      { U("expert_feed_forward_length", 1u << 31) } },
    { EXPERTS, "blk.1.ffn_gate_exps.weight: expected [32, 23, 4], file has [32, 24, 4]",
      { U("expert_feed_forward_length", 23) } },
    { EXPERTS, ".leading_dense_block_count: expected 0 to ", { I("leading_dense_block_count", -1) } },
    { EXPERTS, ".leading_dense_block_count: expected 0 to ", { U("leading_dense_block_count", 5) } },
    { EXPERTS, "blk.0.ffn_gate_inp.weight: the tensor is missing", { U("leading_dense_block_count", 0) } },
    { EXPERTS, "blk.1.ffn_gate.weight: the tensor is missing", { U("leading_dense_block_count", 2) } },
    { EXPERTS, ".expert_gating_func: only 1 (softmax) and 2 (sigmoid) are supported, found 0",
      { U("expert_gating_func", 0) } },
    { EXPERTS, ".expert_gating_func: only 1 (softmax) and 2 (sigmoid) are supported, found 3",
      { U("expert_gating_func", 3) } },
    { EXPERTS, ".expert_gating_func: expected ", { I("expert_gating_func", -1) } },
    { EXPERTS, ".expert_weights_norm: expected ", { F("expert_weights_norm", 1) } },
    POSITIVE(EXPERTS, "expert_weights_scale"),
    { EXPERTS, ".expert_group_count: only 0 is supported, found 2", { U("expert_group_count", 2) } },
    { SHARED, ".expert_shared_feed_forward_length: expected 0 to 1048576, found -1",
      { I("expert_shared_feed_forward_length", -1) } },
    { SHARED, ".expert_shared_feed_forward_length: expected 0 to 1048576, found 2147483648",
      { U("expert_shared_feed_forward_length", 1u << 31) } },
    { SHARED, "blk.1.ffn_gate_shexp.weight: expected [32, 41], file has [32, 40]",
      { U("expert_shared_feed_forward_length", 41) } },
    { SHARED, "ffn_", { NONE("expert_count") } },
    { NO_SHARED, ".expert_shared_feed_forward_length: only 0 is supported, found 8",
      { U("expert_shared_feed_forward_length", 8) } },

    /* What would be computed another way. */
    { NO_EXPERTS, ".expert_count: only 0 is supported, found 8", { U("expert_count", 8) } },
    { DECODER, ".attention.causal: only 1 is supported, found 0", { U("attention.causal", 0) } },
    { DECODER, ".attention.clamp_kqv: only 0 is supported, found 8", { F("attention.clamp_kqv", 8) } },
    { DECODER, ".attention.clamp_kqv: only 0 is supported", { F("attention.clamp_kqv", NAN) } },
    { EVERY, ".embedding_length_out: only 32 is supported, found 31", { U("embedding_length_out", 31) } },

    /* The vocabulary. */
    { EVERY, TOKENS "[1]: the same text as [0]", { ARRAY_S(TOKENS, 300, "twice") } },
    { EVERY, "tokenizer.ggml.token_type: expected 299 elements, found 300",
      { ARRAY_S(TOKENS, 299, "twice") } },
    { EVERY, TOKENS ": expected 1 to 2147483647 elements, found 0", { ARRAY_S(TOKENS, 0, "") } },
    { EVERY, TOKENS ": expected an array of strings", { ARRAY_I(TOKENS, 300, 1) } },
    { EVERY, TOKENS ": the key is missing", { NONE(TOKENS) } },
    { EVERY, "tokenizer.ggml.token_type: expected 300 elements, found 7",
      { ARRAY_I("tokenizer.ggml.token_type", 7, 1) } },
    { EVERY, "tokenizer.ggml.token_type[0]: expected 0 to 6, found -1",
      { ARRAY_I("tokenizer.ggml.token_type", 300, -1) } },
    { EVERY, "tokenizer.ggml.bos_token_id: expected an id below the vocabulary's 300, found 300",
      { U("tokenizer.ggml.bos_token_id", 300) } },
    { EVERY, "tokenizer.ggml.eos_token_id: expected an id below the vocabulary's 300, found 4294967295",
      { U("tokenizer.ggml.eos_token_id", UINT32_MAX) } },
    { EVERY, "tokenizer.ggml.merges[0]: \"zz\" is not a token",
      { ARRAY_S("tokenizer.ggml.merges", 5, "zz z") } },
};

/* What only one architecture reads. */
static const struct {
    const char *arch;
    hostile cases[24];
} own_cases[] = {
    { "mistral3", {
        { EVERY, ".attention.temperature_scale: expected a finite number of at least 0, found -1",
          { F("attention.temperature_scale", -1) } },
        { EVERY, ".attention.temperature_scale: expected a finite number of at least 0, found ",
          { F("attention.temperature_scale", NAN) } },
        { EVERY, ".attention.temperature_length: expected 1 to 67108864, found 0",
          { U("attention.temperature_length", 0) } } } },
    { "qwen3moe", {
        { EVERY, ".expert_count: the key is missing", { NONE("expert_count") } },
        { EVERY, ".expert_count: expected 1 to 1024, found 0", { U("expert_count", 0) } } } },
    { "lfm2moe", {
        { EVERY, ".expert_count: the key is missing", { NONE("expert_count") } },
        { EVERY, ".expert_count: expected 1 to 1024, found 0", { U("expert_count", 0) } } } },
    { "granitemoe", {
        { EVERY, ".rope.scaling.finetuned: only 1 is supported, found 0",
          { U("rope.scaling.finetuned", 0) } } } },
    { "granite", {
        { EVERY, ".rope.scaling.finetuned: only 1 is supported, found 0",
          { U("rope.scaling.finetuned", 0) } } } },
    { "mamba2", {
        { EVERY, ".attention.head_count: only 0 is supported, found 8", { U("attention.head_count", 8) } },
        { EVERY, ".feed_forward_length: only 0 is supported, found 64", { U("feed_forward_length", 64) } } } },
    { "granitehybrid", {
        { EVERY, "blk.1.ssm_in.weight: the tensor is missing", { ARRAY_I("attention.head_count_kv", 3, 0) } },
        { EVERY, "blk.0.attn_q.weight: the tensor is missing", { ARRAY_I("attention.head_count_kv", 3, 1) } },
        { EVERY, ".attention.head_count_kv: the key is missing", { NONE("attention.head_count_kv") } },
        { EVERY, ".rope.scaling.finetuned: expected a bool", { U("rope.scaling.finetuned", 0) } } } },
    { "gemma2", { POSITIVE(EVERY, "attn_logit_softcapping"), POSITIVE(EVERY, "final_logit_softcapping"),
        POSITIVE(EVERY, "attention.scale") } },
    { "gemma3", {
        { EVERY, ".rope.freq_base: the key is missing", { NONE("rope.freq_base") } },
        POSITIVE(EVERY, "rope.freq_base_swa"), POSITIVE(EVERY, "final_logit_softcapping") } },
};
/* clang-format on */

/* ---- the checks -------------------------------------------------------------------------- */

static cera_status open_toy(const toy_spec *spec, const cera_host *host, cera_engine **out,
                            cera_error *err)
{
    gguf_build file;
    toy_build(spec, &file);
    cera_source source = { .data = file.data, .n_data = file.size };
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.n_threads = 1;
    options.host = host;
    cera_status status = cera_engine_open_source(&source, &options, out, err);
    if (status == CERA_OK)
        cera_engine_close(*out);
    build_done(&file);
    return status;
}

static void check(const subject *s, const hostile *c)
{
    toy_spec spec = small(s);
    spec.keys = c->keys;
    spec.n_keys = c->keys[1].name ? 2 : 1;
    char expect[192];
    snprintf(expect, sizeof expect, "%s%s", c->expect[0] == '.' ? s->arch : "", c->expect);
    fault_host f;
    fault_init(&f);
    cera_engine *engine = NULL;
    cera_error err = { 0 };
    cera_status status = open_toy(&spec, &f.host, &engine, &err);
    if (status == CERA_OK || strstr(err.message, expect) == NULL)
        fail_msg("%s, %s: expected \"%s\", found %s \"%s\"", s->arch, c->keys[0].name, expect,
                 cera_status_name(status), err.message);
    assert_null(engine);
    assert_int_equal(err.status, status);
    if (status != CERA_E_FORMAT && status != CERA_E_UNSUPPORTED)
        fail_msg("%s: %s for \"%s\"", s->arch, cera_status_name(status), err.message);
    assert_null(fault_check(&f));
    fault_done(&f);
}

/* A line of arch.def without a row here is one that nobody has attacked. */
static void every_architecture_has_a_row(void **state)
{
    (void)state;
    static const cr_arch *const all[] = {
#define ARCH(symbol) &symbol,
#include "arch/arch.def"
#undef ARCH
    };
    for (size_t i = 0; i < CR_COUNT(all); i++) {
        int n = 0;
        for (size_t k = 0; k < CR_COUNT(subjects); k++)
            n += strcmp(subjects[k].arch, all[i]->name) == 0;
        if (n == 0)
            fail_msg("%s: no row in `subjects`", all[i]->name);
    }
}

static void the_right_models_open(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_COUNT(subjects); i++) {
        toy_spec spec = small(&subjects[i]);
        cera_engine *engine = NULL;
        cera_error err = { 0 };
        if (open_toy(&spec, NULL, &engine, &err) != CERA_OK)
            fail_msg("%s: %s", subjects[i].arch, err.message);
    }
}

static void hostile_keys_are_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_COUNT(subjects); i++) {
        int n = 0;
        for (size_t k = 0; k < CR_COUNT(cases); k++) {
            if ((cases[k].traits & ~subjects[i].traits) != 0)
                continue;
            check(&subjects[i], &cases[k]);
            n++;
        }
        for (size_t k = 0; k < CR_COUNT(own_cases); k++) {
            if (strcmp(own_cases[k].arch, subjects[i].arch) != 0)
                continue;
            for (const hostile *c = own_cases[k].cases; c->expect; c++, n++)
                check(&subjects[i], c);
        }
        printf("    %-12s %3d\n", subjects[i].arch, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_architecture_has_a_row),
        cmocka_unit_test(the_right_models_open),
        cmocka_unit_test(hostile_keys_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

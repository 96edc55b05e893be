/* Broken details: what an engine that gets one wrong would compute is beyond the bound of
 * test_toy_logits at one of its lengths, so that test would notice. */
#include "golden/toy.h"

#include "arch/arch.h"

typedef struct mutation_case {
    const char *model;
    toy_mutation mutation;
    const char *what; /* TOY_KEY: the key that is doubled; TOY_ARCH: the architecture; TOY_ZERO and
                       * TOY_DOUBLE: the tensors */
} mutation_case;

static const mutation_case mutation_cases[] = {
    { "llama-f32", TOY_EPS, "norm epsilon x 10" },
    { "llama-f32", TOY_ROPE_BASE, "rope base x 2" },
    { "llama-f32", TOY_ROPE_PAIRS, "rotation of halves" },
    { "llama-f32", TOY_ATTN_SCALE, "attention scale x 2" },
    { "llama-f32-odd", TOY_QK_SWAPPED, "q and k exchanged" },
    { "llama-f32-odd", TOY_EPS, "norm epsilon x 10" },
    { "llama-f32-bias", TOY_NO_BIAS, "biases dropped" },
    { "llama-f32-factors", TOY_NO_FACTORS, "rope factors dropped" },
    { "llama-f32", TOY_TIED, "head tied" },
    { "llama-f32", TOY_GATE_UP, "gate and up exchanged" },
    { "llama-q4_0", TOY_EPS, "norm epsilon x 10" },
    { "llama-q4_0", TOY_ROPE_BASE, "rope base x 2" },
    { "llama-q4_0", TOY_ROPE_PAIRS, "rotation of halves" },
    { "llama-q4_0", TOY_ATTN_SCALE, "attention scale x 2" },
    { "llama-f32-long", TOY_NO_FACTORS, "rope factors dropped" },
    { "llama-f32-long", TOY_LONG_SHORT, "long and short exchanged" },
    { "llama-f32-long", TOY_KEY, "rope.scaling.attn_factor" },
    { "mistral3-f32", TOY_EPS, "norm epsilon x 10" },
    { "mistral3-f32", TOY_ROPE_BASE, "rope base x 2" },
    { "mistral3-f32", TOY_ROPE_PAIRS, "rotation of halves" },
    { "mistral3-f32", TOY_ATTN_SCALE, "attention scale x 2" },
    { "mistral3-f32", TOY_GATE_UP, "gate and up exchanged" },
    { "mistral3-f32", TOY_TIED, "head tied" },
    { "mistral3-f32", TOY_KEY, "attention.temperature_scale" },
    { "mistral3-f32", TOY_KEY, "rope.scaling.factor" },
    { "mistral3-f32", TOY_KEY, "rope.scaling.original_context_length" },
    { "mistral3-f32", TOY_KEY, "rope.scaling.yarn_log_multiplier" },
    { "mistral3-f32-bias", TOY_NO_BIAS, "biases dropped" },
    { "mistral3-f32-bias", TOY_QK_SWAPPED, "q and k exchanged" },
    { "mistral3-q4_0", TOY_KEY, "attention.temperature_length" },
    { "mistral3-q4_0", TOY_ARCH, "llama" }, /* which has no temperature */
    { "lfm2-f32", TOY_EPS, "norm epsilon x 10" },
    { "lfm2-f32", TOY_ROPE_BASE, "rope base x 2" },
    { "lfm2-f32", TOY_ROPE_PAIRS, "rotation of neighbours" },
    { "lfm2-f32", TOY_ATTN_SCALE, "attention scale x 2" },
    { "lfm2-f32-odd", TOY_QK_SWAPPED, "q and k exchanged" },
    { "lfm2-f32", TOY_QK_NORM, "norms of q and k exchanged" },
    { "lfm2-f32", TOY_TIED, "head tied" },
    { "lfm2-f32", TOY_GATE_UP, "gate and up exchanged" },
    { "lfm2-f32", TOY_TAPS, "taps reversed" },
    { "lfm2-f32", TOY_CONV_PARTS, "b and c exchanged" },
    { "lfm2-q4_0", TOY_EPS, "norm epsilon x 10" },
    { "lfm2-q4_0", TOY_ROPE_BASE, "rope base x 2" },
    { "lfm2-q4_0", TOY_ROPE_PAIRS, "rotation of neighbours" },
    { "lfm2-q4_0", TOY_ATTN_SCALE, "attention scale x 2" },
    { "lfm2-q4_0", TOY_TAPS, "taps reversed" },
    { "qwen2-f32", TOY_EPS, "norm epsilon x 10" },
    { "qwen2-f32", TOY_ROPE_BASE, "rope base x 2" },
    { "qwen2-f32", TOY_ROPE_PAIRS, "rotation of neighbours" },
    { "qwen2-f32", TOY_ATTN_SCALE, "attention scale x 2" },
    { "qwen2-f32", TOY_NO_BIAS, "biases dropped" },
    { "qwen2-f32", TOY_TIED, "head tied" },
    { "qwen2-f32", TOY_GATE_UP, "gate and up exchanged" },
    { "qwen2-f32-tied", TOY_QK_SWAPPED, "q and k exchanged" },
    { "qwen2-q4_0", TOY_ROPE_BASE, "rope base x 2" },
    { "qwen3-f32", TOY_EPS, "norm epsilon x 10" },
    { "qwen3-f32", TOY_ROPE_BASE, "rope base x 2" },
    { "qwen3-f32", TOY_ROPE_PAIRS, "rotation of neighbours" },
    { "qwen3-f32", TOY_ATTN_SCALE, "attention scale x 2" },
    { "qwen3-f32", TOY_QK_NORM, "norms of q and k exchanged" },
    { "qwen3-f32", TOY_GATE_UP, "gate and up exchanged" },
    { "qwen3-f32-tied", TOY_QK_SWAPPED, "q and k exchanged" },
    { "qwen3-q4_0", TOY_ROPE_BASE, "rope base x 2" },
    { "granite-f32", TOY_EPS, "norm epsilon x 10" },
    { "granite-f32", TOY_ROPE_BASE, "rope base x 2" },
    { "granite-f32", TOY_ROPE_PAIRS, "rotation of halves" },
    { "granite-f32", TOY_KEY, "embedding_scale" },
    { "granite-f32", TOY_KEY, "residual_scale" },
    { "granite-f32", TOY_KEY, "attention.scale" },
    { "granite-f32", TOY_KEY, "logit_scale" },
    { "granite-f32-bias", TOY_NO_BIAS, "biases dropped" },
    { "granite-f32-heads", TOY_QK_SWAPPED, "q and k exchanged" },
    { "granite-f32", TOY_GATE_UP, "gate and up exchanged" },
    { "granite-q4_0", TOY_KEY, "residual_scale" },
    { "smollm3-f32", TOY_EPS, "norm epsilon x 10" },
    { "smollm3-f32", TOY_ROPE_BASE, "rope base x 2" },
    { "smollm3-f32", TOY_ROPE_PAIRS, "rotation of halves" },
    { "smollm3-f32", TOY_ATTN_SCALE, "attention scale x 2" },
    { "smollm3-f32", TOY_GATE_UP, "gate and up exchanged" },
    { "smollm3-f32", TOY_ARCH, "llama" }, /* which rotates all layers */
    { "smollm3-f32-tied", TOY_QK_SWAPPED, "q and k exchanged" },
    { "smollm3-q4_0", TOY_ARCH, "llama" },
    { "olmo2-f32", TOY_EPS, "norm epsilon x 10" },
    { "olmo2-f32", TOY_ROPE_BASE, "rope base x 2" },
    { "olmo2-f32", TOY_ROPE_PAIRS, "rotation of neighbours" },
    { "olmo2-f32", TOY_ATTN_SCALE, "attention scale x 2" },
    { "olmo2-f32", TOY_QK_NORM, "norms of q and k exchanged" },
    { "olmo2-f32-odd", TOY_QK_SWAPPED, "q and k exchanged" },
    { "olmo2-f32", TOY_GATE_UP, "gate and up exchanged" },
    { "olmo2-f32", TOY_POST_NORM, "norms after branches exchanged" },
    { "olmo2-q4_0", TOY_POST_NORM, "norms after branches exchanged" },
    { "exaone4-f32", TOY_EPS, "norm epsilon x 10" },
    { "exaone4-f32", TOY_ROPE_BASE, "rope base x 2" },
    { "exaone4-f32", TOY_ROPE_PAIRS, "rotation of neighbours" },
    { "exaone4-f32", TOY_ATTN_SCALE, "attention scale x 2" },
    { "exaone4-f32", TOY_QK_NORM, "norms of q and k exchanged" },
    { "exaone4-f32", TOY_GATE_UP, "gate and up exchanged" },
    { "exaone4-f32", TOY_POST_NORM, "norms after branches exchanged" },
    { "exaone4-f32", TOY_KEY, "attention.sliding_window" }, /* and then all layers rotate */
    { "exaone4-f32-odd", TOY_QK_SWAPPED, "q and k exchanged" },
    { "exaone4-q4_0", TOY_POST_NORM, "norms after branches exchanged" },
    { "gemma2-f32", TOY_EPS, "norm epsilon x 10" },
    { "gemma2-f32", TOY_ROPE_BASE, "rope base x 2" },
    { "gemma2-f32", TOY_ROPE_PAIRS, "rotation of neighbours" },
    { "gemma2-f32", TOY_ATTN_SCALE, "attention scale x 2" },
    { "gemma2-f32", TOY_POST_NORM, "norms after branches exchanged" },
    { "gemma2-f32", TOY_GATE_UP, "gate and up exchanged" },
    { "gemma2-f32-period", TOY_QK_SWAPPED, "q and k exchanged" },
    { "gemma2-f32", TOY_KEY, "attn_logit_softcapping" },
    { "gemma2-f32", TOY_KEY, "final_logit_softcapping" },
    { "gemma2-f32", TOY_KEY, "attention.sliding_window" },
    { "gemma2-f32-period", TOY_KEY, "attention.sliding_window_pattern" },
    { "gemma2-q4_0", TOY_KEY, "attn_logit_softcapping" },
    { "gemma3-f32", TOY_EPS, "norm epsilon x 10" },
    { "gemma3-f32", TOY_ROPE_BASE, "rope base x 2" },
    { "gemma3-f32", TOY_KEY, "rope.freq_base_swa" },
    { "gemma3-f32", TOY_ROPE_PAIRS, "rotation of neighbours" },
    { "gemma3-f32", TOY_ATTN_SCALE, "attention scale x 2" },
    { "gemma3-f32", TOY_QK_NORM, "norms of q and k exchanged" },
    { "gemma3-q4_0", TOY_QK_SWAPPED, "q and k exchanged" },
    { "gemma3-f32", TOY_GATE_UP, "gate and up exchanged" },
    { "gemma3-f32", TOY_POST_NORM, "norms after branches exchanged" },
    { "gemma3-f32", TOY_KEY, "attention.sliding_window" },
    { "gemma3-f32", TOY_KEY, "attention.sliding_window_pattern" },
    { "gemma3-q4_0", TOY_KEY, "rope.freq_base_swa" },
    { "phi3-f32", TOY_EPS, "norm epsilon x 10" },
    { "phi3-f32", TOY_ROPE_BASE, "rope base x 2" },
    { "phi3-f32-split", TOY_ROPE_PAIRS, "rotation of neighbours" },
    { "phi3-f32-split", TOY_ATTN_SCALE, "attention scale x 2" },
    { "phi3-f32", TOY_QK_SWAPPED, "q and k exchanged" },
    { "phi3-f32", TOY_GATE_UP, "gate and up exchanged" },
    { "phi3-f32", TOY_KEY, "attention.sliding_window" },
    { "phi3-f32", TOY_KEY, "rope.dimension_count" },
    { "phi3-f32-long", TOY_NO_FACTORS, "rope factors dropped" },
    { "phi3-f32-long", TOY_LONG_SHORT, "long and short exchanged" },
    { "phi3-f32-long", TOY_KEY, "rope.scaling.attn_factor" },
    { "phi3-q4_0", TOY_GATE_UP, "gate and up exchanged" },
    { "olmo2-f32-window", TOY_KEY, "attention.sliding_window" },
    { "olmo2-f32-window", TOY_KEY, "rope.scaling.factor" },
    { "llama-f32-linear", TOY_KEY, "rope.scaling.factor" },
    { "qwen2-f32-yarn", TOY_KEY, "rope.scaling.factor" },
    { "qwen2-f32-yarn", TOY_KEY, "rope.scaling.original_context_length" },
    { "qwen2-f32-head", TOY_KEY, "rope.scaling.yarn_attn_factor" },
    { "olmo2-f32-gain", TOY_KEY, "rope.scaling.attn_factor" },
    { "llama-f32-moe", TOY_KEY, "expert_used_count" },
    { "llama-f32-moe", TOY_EXPERT_NORM, "weights not over their sum" },
    { "llama-f32-moe", TOY_GATING, "sigmoid for softmax" },
    { "llama-f32-moe", TOY_ROUTER, "experts in reverse order" },
    { "llama-f32-moe", TOY_GATE_UP, "gate and up exchanged" },
    { "llama-f32-moe", TOY_ROPE_PAIRS, "rotation of halves" },
    { "llama-q4_0-moe", TOY_ROUTER, "experts in reverse order" },
    { "qwen3moe-f32", TOY_EPS, "norm epsilon x 10" },
    { "qwen3moe-f32", TOY_ROPE_BASE, "rope base x 2" },
    { "qwen3moe-f32", TOY_ROPE_PAIRS, "rotation of neighbours" },
    { "qwen3moe-f32", TOY_ATTN_SCALE, "attention scale x 2" },
    { "qwen3moe-f32", TOY_QK_NORM, "norms of q and k exchanged" },
    { "qwen3moe-f32", TOY_KEY, "expert_used_count" },
    { "qwen3moe-f32", TOY_EXPERT_NORM, "weights not over their sum" },
    { "qwen3moe-f32", TOY_GATING, "sigmoid for softmax" },
    { "qwen3moe-f32", TOY_ROUTER, "experts in reverse order" },
    { "qwen3moe-f32", TOY_GATE_UP, "gate and up exchanged" },
    { "qwen3moe-f32-odd", TOY_QK_SWAPPED, "q and k exchanged" },
    { "qwen3moe-f32-odd", TOY_EXPERT_NORM, "weights over their sum" },
    { "qwen3moe-f32-odd", TOY_KEY, "expert_weights_scale" },
    { "qwen3moe-mixed", TOY_ROUTER, "experts in reverse order" },
    { "lfm2moe-f32", TOY_EPS, "norm epsilon x 10" },
    { "lfm2moe-f32", TOY_ROPE_BASE, "rope base x 2" },
    { "lfm2moe-f32", TOY_ROPE_PAIRS, "rotation of neighbours" },
    { "lfm2moe-f32", TOY_ATTN_SCALE, "attention scale x 2" },
    { "lfm2moe-f32", TOY_QK_NORM, "norms of q and k exchanged" },
    { "lfm2moe-f32-heads", TOY_QK_SWAPPED, "q and k exchanged" },
    { "lfm2moe-f32", TOY_CONV_PARTS, "b and c exchanged" },
    { "lfm2moe-f32", TOY_TAPS, "taps reversed" },
    { "lfm2moe-f32", TOY_NO_BIAS, "biases dropped" },
    { "lfm2moe-f32", TOY_EXPERT_NORM, "weights not over their sum" },
    { "lfm2moe-f32", TOY_GATING, "softmax for sigmoid" },
    { "lfm2moe-f32", TOY_ROUTER, "experts in reverse order" },
    { "lfm2moe-f32", TOY_KEY, "expert_used_count" },
    { "lfm2moe-f32", TOY_GATE_UP, "gate and up exchanged" },
    { "lfm2moe-f32-scale", TOY_KEY, "expert_weights_scale" },
    { "lfm2moe-f32-scale", TOY_EXPERT_NORM, "weights over their sum" },
    { "lfm2moe-q4_0", TOY_NO_BIAS, "biases dropped" },
    { "granitemoe-f32", TOY_EPS, "norm epsilon x 10" },
    { "granitemoe-f32", TOY_ROPE_BASE, "rope base x 2" },
    { "granitemoe-f32", TOY_ROPE_PAIRS, "rotation of halves" },
    { "granitemoe-f32", TOY_KEY, "residual_scale" },
    { "granitemoe-f32", TOY_KEY, "attention.scale" },
    { "granitemoe-f32", TOY_KEY, "logit_scale" },
    { "granitemoe-f32", TOY_KEY, "expert_used_count" },
    { "granitemoe-f32", TOY_EXPERT_NORM, "weights not over their sum" },
    { "granitemoe-f32", TOY_GATING, "sigmoid for softmax" },
    { "granitemoe-f32", TOY_NO_SHARED, "shared expert dropped" },
    { "granitemoe-f32", TOY_GATE_UP, "gate and up exchanged" },
    { "granitemoe-f32-bias", TOY_QK_SWAPPED, "q and k exchanged" },
    { "granitemoe-f32-bias", TOY_NO_BIAS, "biases dropped" },
    { "granitemoe-f32-alone", TOY_ROUTER, "experts in reverse order" },
    { "granitemoe-q4_0", TOY_NO_SHARED, "shared expert dropped" },
    { "mamba2-f32", TOY_EPS, "norm epsilon x 10" },
    { "mamba2-f32", TOY_TAPS, "taps reversed" },
    { "mamba2-f32", TOY_SSM_PARTS, "z and x, b and c exchanged" },
    { "mamba2-f32", TOY_SSM_GROUPS, "groups exchanged" },
    { "mamba2-f32", TOY_ZERO, "ssm_conv1d.bias" },
    { "mamba2-f32", TOY_ZERO, "ssm_dt.bias" },
    { "mamba2-f32", TOY_ZERO, "ssm_a" },
    { "mamba2-f32", TOY_DOUBLE, "ssm_a" },
    { "mamba2-f32", TOY_ZERO, "ssm_d" },
    { "mamba2-f32-odd", TOY_EPS, "norm epsilon x 10" },
    { "mamba2-f32-odd", TOY_SSM_GROUPS, "groups exchanged" },
    { "mamba2-f32-odd", TOY_DOUBLE, "ssm_a" },
    { "mamba2-q4_0", TOY_ZERO, "ssm_dt.bias" },
    { "mamba2-q4_0", TOY_ZERO, "ssm_d" },
    { "mamba2-mixed", TOY_SSM_GROUPS, "groups exchanged" },
    { "granitehybrid-f32", TOY_EPS, "norm epsilon x 10" },
    { "granitehybrid-f32", TOY_ROPE_ON, "rotation" },
    { "granitehybrid-f32", TOY_ZERO, "ssm_dt.bias" },
    { "granitehybrid-f32", TOY_DOUBLE, "ssm_a" },
    { "granitehybrid-f32", TOY_ZERO, "ssm_d" },
    { "granitehybrid-f32", TOY_SSM_GROUPS, "groups exchanged" },
    { "granitehybrid-f32", TOY_SSM_PARTS, "z and x, b and c exchanged" },
    { "granitehybrid-f32", TOY_TAPS, "taps reversed" },
    { "granitehybrid-f32", TOY_ZERO, "ssm_conv1d.bias" },
    { "granitehybrid-f32", TOY_GATE_UP, "gate and up exchanged" },
    { "granitehybrid-f32", TOY_KEY, "embedding_scale" },
    { "granitehybrid-f32", TOY_KEY, "residual_scale" },
    { "granitehybrid-f32", TOY_KEY, "attention.scale" },
    { "granitehybrid-f32", TOY_KEY, "logit_scale" },
    { "granitehybrid-f32-rope", TOY_ROPE_BASE, "rope base x 2" },
    { "granitehybrid-f32-rope", TOY_ROPE_PAIRS, "rotation of halves" },
    { "granitehybrid-f32-rope", TOY_ATTN_SCALE, "attention scale x 2" },
    { "granitehybrid-f32-rope", TOY_QK_SWAPPED, "q and k exchanged" },
    { "granitehybrid-f32-rope", TOY_NO_BIAS, "biases dropped" },
    { "granitehybrid-q4_0", TOY_KEY, "residual_scale" },
    { "granitehybrid-f32-moe", TOY_KEY, "expert_used_count" },
    { "granitehybrid-f32-moe", TOY_EXPERT_NORM, "weights not over their sum" },
    { "granitehybrid-f32-moe", TOY_GATING, "sigmoid for softmax" },
    { "granitehybrid-f32-moe", TOY_ROUTER, "experts in reverse order" },
    { "granitehybrid-f32-moe", TOY_NO_SHARED, "shared expert dropped" },
    { "granitehybrid-f32-moe", TOY_GATE_UP, "gate and up exchanged" },
    { "granitehybrid-q4_0-moe", TOY_ROUTER, "experts in reverse order" },
};

/* The distance at the first point where it is plain, or at the last one. */
static double mutated_distance(const mutation_case *c, double bound, int *n)
{
    const json_t *model = find_model(c->model);
    toy_spec spec = read_spec(model);
    spec.mutation = c->mutation;
    spec.detail = c->what;
    gguf_build file;
    toy_build(&spec, &file);
    cera_engine_options options = default_options(CERA_KV_F32);
    cera_engine *engine = open_toy(&file, &options);
    cera_session *session = golden_session(engine);
    size_t n_ids, i;
    int32_t *ids = golden_ids(golden, "ids", &n_ids);
    double distance = 0;
    *n = 0;
    json_t *point;
    json_array_foreach (golden_get(model, "points"), i, point) {
        int to = golden_int(point, "n");
        if (distance > 2 * bound || to > 70)
            break;
        distance = point_distance(point, golden_append(session, ids + *n, (size_t)(to - *n)));
        *n = to;
    }
    free(ids);
    cera_session_free(session);
    cera_engine_close(engine);
    build_done(&file);
    return distance;
}

static void test_mutations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mutation_cases / sizeof mutation_cases[0]; i++) {
        const mutation_case *c = &mutation_cases[i];
        toy_spec spec = read_spec(find_model(c->model));
        int n;
        double bound = bound_of(&spec), distance = mutated_distance(c, bound, &n);
        printf("    %-24s %-30s n = %2d %8.2f%%, %6.1f times the bound\n", c->model, c->what, n,
               100 * distance, distance / bound);
        if (!(distance > bound))
            fail_msg("%s: %s moves the logits by only %g of their deviation", c->model, c->what,
                     distance);
    }
}

/* The details that an architecture can get wrong, if it has a tensor for the slot. */
typedef struct detail {
    toy_mutation mutation;
    const char *what; /* of mutation_case, or NULL: any */
    cr_slot slot;
} detail;

/* clang-format off */
static const detail details[] = {
    { TOY_EPS, NULL, CR_SLOT_OUTPUT_NORM },
    { TOY_ROPE_BASE, NULL, CR_SLOT_Q },
    { TOY_ROPE_PAIRS, NULL, CR_SLOT_Q },
    { TOY_ATTN_SCALE, NULL, CR_SLOT_Q },
    { TOY_QK_SWAPPED, NULL, CR_SLOT_Q },
    { TOY_NO_BIAS, NULL, CR_SLOT_Q_BIAS },
    { TOY_QK_NORM, NULL, CR_SLOT_Q_NORM },
    { TOY_POST_NORM, NULL, CR_SLOT_FFN_POST_NORM },
    { TOY_GATE_UP, NULL, CR_SLOT_GATE },
    { TOY_TAPS, NULL, CR_SLOT_CONV_TAPS },
    { TOY_CONV_PARTS, NULL, CR_SLOT_CONV_IN },
    { TOY_TAPS, NULL, CR_SLOT_SSM_TAPS },
    { TOY_SSM_PARTS, NULL, CR_SLOT_SSM_IN },
    { TOY_SSM_GROUPS, NULL, CR_SLOT_SSM_IN },
    { TOY_ZERO, "ssm_conv1d.bias", CR_SLOT_SSM_TAPS_BIAS },
    { TOY_ZERO, "ssm_dt.bias", CR_SLOT_SSM_STEP_BIAS },
    { TOY_DOUBLE, "ssm_a", CR_SLOT_SSM_DECAY },
    { TOY_ZERO, "ssm_d", CR_SLOT_SSM_SKIP },
    { TOY_ROUTER, NULL, CR_SLOT_ROUTER },
    { TOY_GATING, NULL, CR_SLOT_ROUTER },
    { TOY_EXPERT_NORM, NULL, CR_SLOT_ROUTER },
};
/* clang-format on */

static bool has_slot(const cr_arch *arch, cr_slot slot)
{
    for (size_t i = 0; i < arch->n_rules; i++)
        if (arch->rules[i].slot == slot)
            return true;
    return false;
}

static bool is_of_detail(const mutation_case *c, const detail *d)
{
    /* Granite's files say how scores are scaled. */
    if (d->mutation == TOY_ATTN_SCALE && c->mutation == TOY_KEY)
        return strcmp(c->what, "attention.scale") == 0;
    return c->mutation == d->mutation && (!d->what || strcmp(c->what, d->what) == 0);
}

static bool is_mutated(const cr_arch *arch, const detail *d)
{
    for (size_t i = 0; i < sizeof mutation_cases / sizeof mutation_cases[0]; i++) {
        const mutation_case *c = &mutation_cases[i];
        if (is_of_detail(c, d) && strcmp(read_spec(find_model(c->model)).arch, arch->name) == 0)
            return true;
    }
    return false;
}

/* Every line of arch.def has its rows in mutation_cases. */
static void test_mutations_are_complete(void **state)
{
    (void)state;
    static const cr_arch *const all[] = {
#define ARCH(symbol) &symbol,
#include "arch/arch.def"
#undef ARCH
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (size_t k = 0; k < sizeof details / sizeof details[0]; k++)
            if (has_slot(all[i], details[k].slot) && !is_mutated(all[i], &details[k]))
                fail_msg("%s: mutation_cases has no row with mutation %d", all[i]->name,
                         (int)details[k].mutation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_mutations_are_complete),
    };
    return cmocka_run_group_tests_name("golden/toy_mutations", tests, load, unload);
}

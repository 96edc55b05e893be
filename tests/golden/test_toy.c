/* Random models of every architecture, and of every element type, against transformers, and against
 * themselves: any chunk size, number of threads and ISA level gives the same bits. */
#include "golden/golden.h"

#include "support/toy_model.h"

#include "arch/arch.h"

#include <ctype.h>

static json_t *golden; /* golden-toy.json */

/* ---- the models -------------------------------------------------------------------------- */

static cr_type find_type(const char *name)
{
    for (int i = 0; i < CR_TYPE_COUNT; i++)
        if (strcmp(cr_type_get((cr_type)i)->name, name) == 0)
            return (cr_type)i;
    return CR_TYPE_COUNT;
}

/* Options that only some models have; 0 without. */
static float option(const json_t *s, const char *key)
{
    return (float)json_number_value(json_object_get(s, key));
}

static toy_spec read_spec(const json_t *model)
{
    const json_t *s = golden_get(model, "spec");
    const char *type = golden_text(s, "type");
    toy_spec spec;
    toy_spec_init(&spec, golden_text(s, "arch"), find_type(type));
    spec.mixed = strcmp(type, "mixed") == 0;
    assert_true(spec.mixed || spec.type != CR_TYPE_COUNT);
    spec.seed = (uint64_t)golden_int(s, "seed");
    spec.n_layer = golden_int(s, "n_layer");
    spec.n_context = golden_int(s, "n_context");
    spec.n_embd = golden_int(s, "n_embd");
    spec.n_ff = golden_int(s, "n_ff");
    spec.n_head = golden_int(s, "n_head");
    spec.head_dim = golden_int(s, "head_dim");
    spec.rope_dims = golden_int(s, "rope_dims");
    spec.n_taps = golden_int(s, "n_taps");
    spec.ssm_inner = (int)option(s, "ssm_inner");
    spec.ssm_state = (int)option(s, "ssm_state");
    spec.ssm_heads = (int)option(s, "ssm_heads");
    spec.ssm_groups = (int)option(s, "ssm_groups");
    spec.no_rope = json_is_true(json_object_get(s, "no_rope"));
    spec.norm_eps = (float)golden_number(s, "norm_eps");
    spec.rope_base = (float)golden_number(s, "rope_base");
    spec.tied = json_is_true(golden_get(s, "tied"));
    spec.bias = json_is_true(golden_get(s, "bias"));
    spec.factors = json_is_true(golden_get(s, "factors"));
    spec.scaling = json_string_value(json_object_get(s, "scaling"));
    spec.scale_factor = option(s, "scale_factor");
    spec.scale_gain = option(s, "scale_gain");
    spec.first_context = (int)option(s, "first_context");
    spec.yarn_gain = option(s, "yarn_gain");
    spec.log_share = option(s, "log_share");
    spec.temperature = option(s, "temperature");
    spec.temperature_length = (int)option(s, "temperature_length");
    spec.final = json_string_value(json_object_get(s, "final"));
    spec.long_short = json_is_true(json_object_get(s, "long_short"));
    spec.head_bias = json_is_true(json_object_get(s, "head_bias"));
    spec.split = json_is_true(json_object_get(s, "split"));
    spec.rope_local_base = option(s, "rope_local_base");
    spec.attn_cap = option(s, "attn_cap");
    spec.logit_cap = option(s, "logit_cap");
    spec.window = (int)option(s, "window");
    spec.period = (int)option(s, "period");
    spec.embed_scale = option(s, "embed_scale");
    spec.residual_scale = option(s, "residual_scale");
    spec.attn_scale = option(s, "attn_scale");
    spec.logit_scale = option(s, "logit_scale");
    spec.n_expert = (int)option(s, "n_expert");
    spec.n_expert_used = (int)option(s, "n_expert_used");
    spec.n_dense = (int)option(s, "n_dense");
    spec.n_ff_expert = (int)option(s, "n_ff_expert");
    spec.n_ff_shared = (int)option(s, "n_ff_shared");
    spec.gating = (int)option(s, "gating");
    spec.expert_scale = option(s, "expert_scale");
    spec.expert_norm_off = json_is_true(json_object_get(s, "expert_norm_off"));
    const json_t *kv = golden_get(s, "n_head_kv");
    for (int i = 0; i < spec.n_layer; i++)
        spec.n_head_kv[i] = (int)json_integer_value(json_array_get(kv, (size_t)i));
    return spec;
}

static const char *name_of(const json_t *model)
{
    return golden_text(golden_get(model, "spec"), "name");
}

static const json_t *find_model(const char *name)
{
    size_t i;
    json_t *model;
    json_array_foreach (golden_get(golden, "models"), i, model) {
        if (strcmp(name_of(model), name) == 0)
            return model;
    }
    fail_msg("golden-toy.json has no %s", name);
    return NULL;
}

/* Whether matrices meet activations as floats: then only the order of sums is left. */
static bool is_float(const toy_spec *spec)
{
    static const bool meets_int8[CR_TYPE_COUNT] = {
#define INT8(type) [CR_TYPE_##type] = true,
#define KERNEL(kind, slot, tier, function)
#include "backend/cpu/kernels.def"
#undef KERNEL
    };
    return !spec->mixed && !meets_int8[spec->type];
}

static double bound_of(const toy_spec *spec)
{
    if (is_float(spec))
        return GOLDEN_FLOAT;
    static const char *const wide[] = { "lfm2", "olmo2" };
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (strcmp(spec->arch, wide[i]) == 0)
            return GOLDEN_INT8_WIDE;
    return GOLDEN_INT8;
}

static uint32_t crc32(const uint8_t *bytes, size_t n)
{
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = (c & 1) ? 0xedb88320u ^ c >> 1 : c >> 1;
        table[i] = c;
    }
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++)
        crc = table[(crc ^ bytes[i]) & 255] ^ crc >> 8;
    return ~crc;
}

static cera_engine *open_toy(const gguf_build *file, const cera_engine_options *options)
{
    cera_engine *engine = NULL;
    cera_error err = { 0 };
    cera_source source = { .data = file->data, .n_data = file->size };
    if (cera_engine_open_source(&source, options, &engine, &err) != CERA_OK)
        fail_msg("%s", err.message);
    return engine;
}

static cera_engine_options default_options(cera_kv_type kv_type)
{
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.kv_type = kv_type;
    options.no_reuse = true; /* what is compared with itself is to be computed twice */
    return options;
}

/* ---- against the reference --------------------------------------------------------------- */

static double point_distance(const json_t *point, const float *logits)
{
    size_t n;
    float *want = golden_floats(point, "logits", &n);
    assert_int_equal(n, TOY_N_VOCAB);
    double distance = golden_max_difference(logits, want, n) / golden_number(point, "std");
    free(want);
    return distance;
}

static void check_top(const char *model, const json_t *point, const float *logits, double bound)
{
    size_t n;
    float *want = golden_floats(point, "logits", &n);
    size_t top = golden_top(logits, n), want_top = golden_top(want, n);
    free(want);
    if (top != want_top && golden_number(point, "gap") > bound * golden_number(point, "std"))
        fail_msg("%s, n %d: top token %zu instead of %zu", model, golden_int(point, "n"), top,
                 want_top);
}

/* The largest distance of all points. */
static double compare_logits(const json_t *model, cera_engine *engine, double bound)
{
    size_t n_ids, done = 0, i;
    int32_t *ids = golden_ids(golden, "ids", &n_ids);
    cera_session *session = golden_session(engine);
    double worst = 0;
    json_t *point;
    json_array_foreach (golden_get(model, "points"), i, point) {
        size_t n = (size_t)golden_int(point, "n");
        const float *logits = golden_append(session, ids + done, n - done);
        done = n;
        double distance = point_distance(point, logits);
        check_top(name_of(model), point, logits, bound);
        printf(" %8.4f%%", 100 * distance);
        worst = fmax(worst, distance);
    }
    cera_session_free(session);
    free(ids);
    return worst;
}

/* Every hidden state that the reference kept, and their mean over all tokens. */
static double compare_hidden(const json_t *model, cera_engine *engine)
{
    const json_t *hidden = golden_get(model, "hidden");
    size_t n_ids, n_values, i, n = (size_t)golden_int(hidden, "n");
    int32_t *ids = golden_ids(golden, "ids", &n_ids);
    cera_engine_info info;
    cera_engine_get_info(engine, &info);
    size_t width = (size_t)info.n_embd;
    float *rows = calloc(n + 1, width * sizeof *rows), *mean = rows + n * width;
    assert_non_null(rows);
    assert_int_equal(cera_engine_embed(engine, ids, n, CERA_POOLING_NONE, rows, NULL), CERA_OK);
    assert_int_equal(cera_engine_embed(engine, ids, n, CERA_POOLING_MEAN, mean, NULL), CERA_OK);

    double worst = 0;
    json_t *row;
    json_array_foreach (golden_get(hidden, "rows"), i, row) {
        float *want = golden_floats(row, "values", &n_values);
        const float *got = rows + (size_t)golden_int(row, "row") * width;
        worst = fmax(worst, golden_max_difference(got, want, n_values));
        free(want);
    }
    float *want = golden_floats(hidden, "mean", &n_values);
    worst = fmax(worst, golden_max_difference(mean, want, n_values));
    free(want);
    free(rows);
    free(ids);
    return worst / golden_number(hidden, "std");
}

static void check_model(const json_t *model)
{
    toy_spec spec = read_spec(model);
    gguf_build file;
    toy_build(&spec, &file);
    assert_int_equal(file.size, golden_int(model, "size"));
    if (crc32(file.data, file.size) != (uint32_t)json_integer_value(golden_get(model, "crc32")))
        fail_msg("%s: toy_model.c and make-golden build different files", name_of(model));

    for (int kv = CERA_KV_F16; kv <= CERA_KV_F32; kv++) {
        cera_engine_options options = default_options((cera_kv_type)kv);
        cera_engine *engine = open_toy(&file, &options);
        double bound = bound_of(&spec);
        printf("    %-18s %s ", name_of(model), kv == CERA_KV_F32 ? "f32" : "f16");
        double worst = compare_logits(model, engine, bound);
        double hidden = compare_hidden(model, engine);
        printf(" %8.4f%%\n", 100 * hidden);
        /* With floats everywhere only the order of sums is left: a hundredth of the bound. */
        if (is_float(&spec) && kv == CERA_KV_F32)
            bound /= 100;
        if (!(worst < bound))
            fail_msg("%s: logits are %g of their deviation away, the bound is %g", name_of(model),
                     worst, bound);
        if (!(hidden < bound))
            fail_msg("%s: hidden states are %g of their deviation away, the bound is %g",
                     name_of(model), hidden, bound);
        cera_engine_close(engine);
    }
    build_done(&file);
}

static void test_reference(void **state)
{
    (void)state;
    printf("    model              cache   n = 1     n = 7    n = 70   n = 300    hidden"
           "   (largest difference / deviation)\n");
    size_t i;
    json_t *model;
    json_array_foreach (golden_get(golden, "models"), i, model)
        check_model(model);
}

/* ---- mutations: the tests above would notice --------------------------------------------- */

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

static double mutated_distance(const mutation_case *c)
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
    json_t *point;
    json_array_foreach (golden_get(model, "points"), i, point) {
        if (golden_int(point, "n") == 70)
            distance = point_distance(point, golden_append(session, ids, 70));
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
        double distance = mutated_distance(c), bound = bound_of(&spec);
        printf("    %-20s %-30s %8.2f%%, %6.1f times the bound\n", c->model, c->what,
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

/* ---- the same bits ----------------------------------------------------------------------- */

enum { N_SAME = 270, STEP_FROM = 200 };

/* Everything that one engine computes for the ids: hidden states of all tokens, logits after the
 * last one. */
typedef struct answer {
    float *hidden; /* [N_SAME][n_embd] */
    float logits[TOY_N_VOCAB];
    size_t hidden_bytes;
    char tier[16];
} answer;

static answer compute(const gguf_build *file, const cera_engine_options *options,
                      bool token_by_token)
{
    size_t n_ids;
    int32_t *ids = golden_ids(golden, "ids", &n_ids);
    cera_engine *engine = open_toy(file, options);
    cera_engine_info info;
    cera_engine_get_info(engine, &info);
    answer a = { .hidden_bytes = N_SAME * (size_t)info.n_embd * sizeof(float) };
    snprintf(a.tier, sizeof a.tier, "%s", info.cpu_tier);
    a.hidden = malloc(a.hidden_bytes);
    assert_non_null(a.hidden);
    assert_int_equal(cera_engine_embed(engine, ids, N_SAME, CERA_POOLING_NONE, a.hidden, NULL),
                     CERA_OK);

    cera_session *session = golden_session(engine);
    const float *logits = golden_append(session, ids, token_by_token ? STEP_FROM : N_SAME);
    for (size_t i = STEP_FROM; token_by_token && i < N_SAME; i++)
        logits = golden_append(session, ids + i, 1);
    memcpy(a.logits, logits, sizeof a.logits);
    cera_session_free(session);
    cera_engine_close(engine);
    free(ids);
    return a;
}

static void expect_same(answer *want, answer got, const char *model, const char *what, int value)
{
    if (memcmp(want->logits, got.logits, sizeof got.logits) != 0)
        fail_msg("%s: %s %d: other logits", model, what, value);
    if (memcmp(want->hidden, got.hidden, got.hidden_bytes) != 0)
        fail_msg("%s: %s %d: other hidden states", model, what, value);
    free(got.hidden);
}

static void check_same(const char *name)
{
    toy_spec spec = read_spec(find_model(name));
    gguf_build file;
    toy_build(&spec, &file);
    cera_engine_options options = default_options(CERA_KV_F16);
    options.n_threads = 1;
    options.chunk_size = 512;
    answer want = compute(&file, &options, false);

    static const int chunks[] = { 1, 7, 64 };
    for (size_t i = 0; i < 3; i++) {
        options.chunk_size = chunks[i];
        expect_same(&want, compute(&file, &options, false), name, "chunk size", chunks[i]);
    }
    options.chunk_size = 512;
    expect_same(&want, compute(&file, &options, true), name, "token by token", 1);

    static const int threads[] = { 2, 3, 7 };
    for (size_t i = 0; i < 3; i++) {
        options.n_threads = threads[i];
        expect_same(&want, compute(&file, &options, i == 1), name, "threads", threads[i]);
    }
    options.n_threads = 1;

    static const char *const tiers[] = { "scalar", "avx2", "avx512" };
    for (int i = 0; i < 3; i++) {
        options.cpu_tier = tiers[i];
        answer got = compute(&file, &options, false);
        if (strcmp(got.tier, tiers[i]) != 0)
            printf("    %s: this machine has no %s\n", name, tiers[i]);
        expect_same(&want, got, name, tiers[i], i);
    }
    free(want.hidden);
    build_done(&file);
}

/* Logits after a batch of rows, and after one more. */
typedef struct two_steps {
    float logits[2][TOY_N_VOCAB];
} two_steps;

static two_steps compute_two(const gguf_build *file, const char *tier)
{
    enum { N_BATCH = 19 };
    size_t n_ids;
    int32_t *ids = golden_ids(golden, "ids", &n_ids);
    cera_engine_options options = default_options(CERA_KV_F16);
    options.cpu_tier = tier;
    cera_engine *engine = open_toy(file, &options);
    cera_session *session = golden_session(engine);
    two_steps out;
    for (size_t i = 0; i < 2; i++)
        memcpy(out.logits[i], golden_append(session, ids + i * N_BATCH, i == 0 ? N_BATCH : 1),
               sizeof out.logits[i]);
    cera_session_free(session);
    cera_engine_close(engine);
    free(ids);
    return out;
}

/* Every element type has a model above, and gives the same bits on every tier. */
static void test_same_types(void **state)
{
    (void)state;
    for (int type = 0; type < CR_TYPE_COUNT; type++) {
        char name[32] = "llama-";
        const char *from = cr_type_get((cr_type)type)->name;
        for (size_t i = 0; from[i] != '\0' && i < sizeof name - 7; i++)
            name[6 + i] = (char)tolower((unsigned char)from[i]);
        toy_spec spec = read_spec(find_model(name));
        assert_int_equal(spec.type, type);
        gguf_build file;
        toy_build(&spec, &file);
        two_steps want = compute_two(&file, "scalar");
        static const char *const tiers[] = { "avx2", "avx512" };
        for (size_t i = 0; i < 2; i++) {
            two_steps got = compute_two(&file, tiers[i]);
            if (memcmp(&want, &got, sizeof got) != 0)
                fail_msg("%s: %s: other logits than scalar", name, tiers[i]);
        }
        build_done(&file);
    }
}

static void test_same_llama_float(void **state)
{
    (void)state;
    check_same("llama-f32-odd");
}

static void test_same_llama_mixed(void **state)
{
    (void)state;
    check_same("llama-mixed");
}

static void test_same_llama_tied(void **state)
{
    (void)state;
    check_same("llama-q4_0-tied");
}

static void test_same_olmo2(void **state)
{
    (void)state;
    check_same("olmo2-f32-odd");
    check_same("olmo2-q4_0");
}

static void test_same_gemma(void **state)
{
    (void)state;
    check_same("gemma2-f32-period");
    check_same("gemma3-f32-six");
    check_same("gemma3-q4_0");
}

static void test_same_lfm2_float(void **state)
{
    (void)state;
    check_same("lfm2-bf16");
}

static void test_same_lfm2_taps(void **state)
{
    (void)state;
    check_same("lfm2-f32-taps");
}

static void test_same_lfm2_mixed(void **state)
{
    (void)state;
    check_same("lfm2-mixed");
}

static void test_same_experts(void **state)
{
    (void)state;
    check_same("llama-q4_0-moe");
    check_same("qwen3moe-f32-odd");
    check_same("qwen3moe-mixed");
    check_same("lfm2moe-q4_0");
    check_same("granitemoe-f32");
}

static void test_same_mamba2(void **state)
{
    (void)state;
    check_same("mamba2-f32-odd");
    check_same("mamba2-mixed");
}

static void test_same_granitehybrid(void **state)
{
    (void)state;
    check_same("granitehybrid-f32-rope");
    check_same("granitehybrid-q4_0-moe");
}

/* ---- text -------------------------------------------------------------------------------- */

static void test_text(void **state)
{
    (void)state;
    toy_spec spec;
    toy_spec_init(&spec, "llama", CR_TYPE_Q8_0);
    gguf_build file;
    toy_build(&spec, &file);
    cera_engine_options options = default_options(CERA_KV_F16);
    cera_engine *engine = open_toy(&file, &options);
    /* Bytes are their own ids. Of the merges "ea" (1) and "te" (7) the earlier one wins. */
    int32_t *ids = NULL;
    size_t n = 0;
    static const char text[] = "tea \xc3\xa9<|eos|>";
    cera_encode_options encode;
    cera_encode_options_init(&encode);
    encode.parse_special = true;
    assert_int_equal(cera_vocab_encode(cera_engine_vocab(engine), text, sizeof text - 1, &encode,
                                       &ids, &n, NULL),
                     CERA_OK);
    static const int32_t want[] = { 't', 256 + 1, ' ', 0xc3, 0xa9, 297 };
    assert_int_equal(n, 6);
    assert_memory_equal(ids, want, sizeof want);
    cera_vocab_free_ids(cera_engine_vocab(engine), ids, n);
    cera_engine_close(engine);
    build_done(&file);
}

static int load(void **state)
{
    (void)state;
    golden = golden_load("golden-toy.json");
    return 0;
}

static int unload(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_mutations_are_complete),
        cmocka_unit_test(test_same_types),
        cmocka_unit_test(test_same_llama_float),
        cmocka_unit_test(test_same_llama_mixed),
        cmocka_unit_test(test_same_llama_tied),
        cmocka_unit_test(test_same_olmo2),
        cmocka_unit_test(test_same_gemma),
        cmocka_unit_test(test_same_lfm2_float),
        cmocka_unit_test(test_same_lfm2_taps),
        cmocka_unit_test(test_same_lfm2_mixed),
        cmocka_unit_test(test_same_experts),
        cmocka_unit_test(test_same_mamba2),
        cmocka_unit_test(test_same_granitehybrid),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests_name("golden/toy", tests, load, unload);
}

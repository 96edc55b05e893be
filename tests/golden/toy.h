/* What the tests of toy models share: golden-toy.json, and the models that it describes. */
#ifndef TOY_H
#define TOY_H

#include "golden/golden.h"

#include "support/toy_model.h"

static json_t *golden; /* golden-toy.json */

static inline cr_type find_type(const char *name)
{
    for (int i = 0; i < CR_TYPE_COUNT; i++)
        if (strcmp(cr_type_get((cr_type)i)->name, name) == 0)
            return (cr_type)i;
    return CR_TYPE_COUNT;
}

/* Options that only some models have; 0 without. */
static inline float option(const json_t *s, const char *key)
{
    return (float)json_number_value(json_object_get(s, key));
}

static inline toy_spec read_spec(const json_t *model)
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

static inline const char *name_of(const json_t *model)
{
    return golden_text(golden_get(model, "spec"), "name");
}

static inline const json_t *find_model(const char *name)
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
static inline bool is_float(const toy_spec *spec)
{
    static const bool meets_int8[CR_TYPE_COUNT] = {
#define INT8(type) [CR_TYPE_##type] = true,
#define KERNEL(kind, slot, tier, function)
#include "backend/cpu/kernels.def"
#undef KERNEL
    };
    return !spec->mixed && !meets_int8[spec->type];
}

/* Whether a row's bits do not depend on those beside it: with CERA_BLAS, only where no matrix is of
 * floats. Routers are. */
static inline bool has_one_order(const toy_spec *spec)
{
#ifdef CERA_WITH_BLAS
    return !spec->mixed && !is_float(spec) && spec->n_expert == 0;
#else
    (void)spec;
    return true;
#endif
}

static inline double bound_of(const toy_spec *spec)
{
    if (is_float(spec))
        return GOLDEN_FLOAT;
    static const char *const wide[] = { "lfm2", "olmo2" };
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (strcmp(spec->arch, wide[i]) == 0)
            return GOLDEN_INT8_WIDE;
    return GOLDEN_INT8;
}

static inline cera_engine *open_toy(const gguf_build *file, const cera_engine_options *options)
{
    cera_engine *engine = NULL;
    cera_error err = { 0 };
    cera_source source = { .data = file->data, .n_data = file->size };
    if (cera_engine_open_source(&source, options, &engine, &err) != CERA_OK)
        fail_msg("%s", err.message);
    return engine;
}

static inline cera_engine_options default_options(cera_kv_type kv_type)
{
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.kv_type = kv_type;
    options.no_reuse = true; /* what is compared with itself is to be computed twice */
    return options;
}

static inline double point_distance(const json_t *point, const float *logits)
{
    size_t n;
    float *want = golden_floats(point, "logits", &n);
    assert_int_equal(n, TOY_N_VOCAB);
    double distance = golden_max_difference(logits, want, n) / golden_number(point, "std");
    free(want);
    return distance;
}

/* Setup and teardown of a group: `golden` is there between them. */
static inline int load(void **state)
{
    (void)state;
    golden = golden_load("golden-toy.json");
    return 0;
}

static inline int unload(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

#endif

#include "convert/hf_row.h"

#include <math.h>
#include <stdio.h>

/* ---- keys ------------------------------------------------------------------------------------ */

typedef enum kind { U32, F32 } kind;

/* Members of config.json that are keys as they stand, for whichever architecture has them. Of two
 * that are the same key the first counts. */
static const struct {
    const char *hf, *gguf;
    kind kind;
    const char *only; /* architectures; NULL: all */
    bool required;
} members[] = {
    { "num_hidden_layers", "block_count", U32, NULL, true },
    { "hidden_size", "embedding_length", U32, NULL, true },
    { "norm_eps", "attention.layer_norm_rms_epsilon", F32, "lfm2 lfm2moe", true },
    { "layer_norm_epsilon", "attention.layer_norm_rms_epsilon", F32, "mamba2", true },
    { "rms_norm_eps", "attention.layer_norm_rms_epsilon", F32, NULL, false },
    { "conv_L_cache", "shortconv.l_cache", U32, "lfm2 lfm2moe", true },
    { "attention_multiplier", "attention.scale", F32, "granite granitemoe granitehybrid", true },
    { "embedding_multiplier", "embedding_scale", F32, "granite granitemoe granitehybrid", true },
    { "residual_multiplier", "residual_scale", F32, "granite granitemoe granitehybrid", true },
    { "logits_scaling", "logit_scale", F32, "granite granitemoe granitehybrid", true },
    { "conv_kernel", "ssm.conv_kernel", U32, "mamba2", true },
    { "state_size", "ssm.state_size", U32, "mamba2", true },
    { "num_heads", "ssm.time_step_rank", U32, "mamba2", true },
    { "mamba_d_conv", "ssm.conv_kernel", U32, "granitehybrid", true },
    { "mamba_d_state", "ssm.state_size", U32, "granitehybrid", true },
    { "mamba_n_heads", "ssm.time_step_rank", U32, "granitehybrid", true },
    { "num_local_experts", "expert_count", U32, NULL, false },
    { "num_experts", "expert_count", U32, NULL, false },
    { "num_experts_per_tok", "expert_used_count", U32, NULL, false },
    { "moe_intermediate_size", "expert_feed_forward_length", U32, "qwen3moe lfm2moe", true },
    { "num_dense_layers", "leading_dense_block_count", U32, "lfm2moe", true },
    { "shared_intermediate_size", "expert_shared_feed_forward_length", U32,
      "granitemoe granitehybrid", false },
    { "sliding_window", "attention.sliding_window", U32, "phi3 exaone4", false },
    { "sliding_window", "attention.sliding_window", U32, "gemma2", true },
    { "sliding_window", "attention.sliding_window", U32, "gemma3", true },
    { "attn_logit_softcapping", "attn_logit_softcapping", F32, "gemma2", true },
    { "final_logit_softcapping", "final_logit_softcapping", F32, "gemma2", true },
    { "final_logit_softcapping", "final_logit_softcapping", F32, "gemma3", false },
};

/* Names of keys of one architecture. */
typedef struct key_name {
    char text[96];
} key_name;

static key_name key_of(const cr_hf_arch *arch, const char *name)
{
    key_name key;
    snprintf(key.text, sizeof key.text, "%s.%s", arch->gguf, name);
    return key;
}

static void put_u32(const cr_hf_arch *arch, cr_gguf_writer *w, const char *name, uint32_t value)
{
    cr_gguf_put_u32(w, key_of(arch, name).text, value);
}

static void put_f32(const cr_hf_arch *arch, cr_gguf_writer *w, const char *name, float value)
{
    cr_gguf_put_f32(w, key_of(arch, name).text, value);
}

static cera_status is_missing(const char *member, cera_error *err)
{
    return cr_fail(err, CERA_E_FORMAT, "config.json: %s: expected a number", member);
}

static cera_status need_u32(const cr_json *config, const char *member, uint32_t *out,
                            cera_error *err)
{
    return cr_json_u32(cr_json_get(config, member), out) && *out > 0 ? CERA_OK
                                                                     : is_missing(member, err);
}

/* Whether a word is among words with blanks between them. */
static bool is_among(const char *word, const char *words)
{
    size_t n = strlen(word);
    for (const char *at = strstr(words, word); at != NULL; at = strstr(at + 1, word))
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

static bool is_put(size_t i, const bool *put)
{
    for (size_t k = 0; k < i; k++)
        if (put[k] && strcmp(members[k].gguf, members[i].gguf) == 0)
            return true;
    return false;
}

static cera_status put_members(const cr_hf_arch *arch, const cr_json *config, cr_gguf_writer *w,
                               cera_error *err)
{
    bool put[CR_COUNT(members)] = { false };
    for (size_t i = 0; i < CR_COUNT(members); i++) {
        bool is_meant = members[i].only == NULL || is_among(arch->gguf, members[i].only);
        if (!is_meant || is_put(i, put))
            continue;
        uint32_t u;
        float f;
        put[i] = true;
        if (members[i].kind == U32 && cr_json_u32(cr_json_get(config, members[i].hf), &u))
            put_u32(arch, w, members[i].gguf, u);
        else if (members[i].kind == F32 && cr_json_f32(cr_json_get(config, members[i].hf), &f))
            put_f32(arch, w, members[i].gguf, f);
        else if (members[i].required)
            return is_missing(members[i].hf, err);
        else
            put[i] = false;
    }
    return CERA_OK;
}

/* Rotations, in three dialects: rope_theta and rope_scaling; rope_parameters; rope_parameters with
 * a set for each kind of attention. */
typedef struct rope {
    float base, base_local; /* 0: not said */
    cr_str type;            /* "" where nothing is scaled */
    const cr_json *scaling; /* has factor and the like; NULL where nothing is */
} rope;

static rope read_rope(const cr_json *config)
{
    rope r = { .type = { "", 0 } };
    const cr_json *all = cr_json_get(config, "rope_parameters");
    const cr_json *full = cr_json_get(all, "full_attention");
    const cr_json *global = full != NULL ? full : all;
    r.scaling = cr_json_is(global, CR_JSON_OBJECT) ? global : cr_json_get(config, "rope_scaling");
    (void)(cr_json_f32(cr_json_get(global, "rope_theta"), &r.base) ||
           cr_json_f32(cr_json_get(config, "rope_theta"), &r.base));
    (void)(cr_json_f32(cr_json_get(cr_json_get(all, "sliding_attention"), "rope_theta"),
                       &r.base_local) ||
           cr_json_f32(cr_json_get(config, "rope_local_base_freq"), &r.base_local));
    r.type = cr_json_str(cr_json_get(r.scaling, "rope_type"));
    if (r.type.size == 0)
        r.type = cr_json_str(cr_json_get(r.scaling, "type"));
    return r;
}

static uint32_t original_context(const cr_json *config, const rope *r, uint32_t otherwise)
{
    uint32_t n = otherwise;
    (void)(cr_json_u32(cr_json_get(r->scaling, "original_max_position_embeddings"), &n) ||
           cr_json_u32(cr_json_get(config, "original_max_position_embeddings"), &n));
    return n;
}

/* Of YaRN; the others have usual values. */
static const struct {
    const char *hf, *gguf;
} yarn_members[] = {
    { "extrapolation_factor", "rope.scaling.yarn_ext_factor" },
    { "attention_factor", "rope.scaling.yarn_attn_factor" },
    { "beta_fast", "rope.scaling.yarn_beta_fast" },
    { "beta_slow", "rope.scaling.yarn_beta_slow" },
};

static cera_status put_rope(const cr_hf_arch *arch, const cr_json *config, cr_gguf_writer *w,
                            cera_error *err)
{
    rope r = read_rope(config);
    bool is_said = r.base > 0 && (arch->flags & USUAL_BASE) == 0;
    float factor = 0;
    if (is_said)
        put_f32(arch, w, "rope.freq_base", r.base);
    if (r.base_local > 0 && (arch->flags & LOCAL_BASE) != 0)
        put_f32(arch, w, "rope.freq_base_swa", r.base_local);
    bool linear = cr_str_is(r.type, "linear"), yarn = cr_str_is(r.type, "yarn");
    if (linear || yarn) {
        if (!cr_json_f32(cr_json_get(r.scaling, "factor"), &factor))
            return is_missing("rope_scaling.factor", err);
        cr_gguf_put_str(w, key_of(arch, "rope.scaling.type").text, r.type);
        put_f32(arch, w, "rope.scaling.factor", factor);
    }
    for (size_t i = 0; yarn && i < CR_COUNT(yarn_members); i++)
        if (cr_json_f32(cr_json_get(r.scaling, yarn_members[i].hf), &factor))
            put_f32(arch, w, yarn_members[i].gguf, factor);
    uint32_t original = original_context(config, &r, 0);
    if (yarn && original > 0)
        put_u32(arch, w, "rope.scaling.original_context_length", original);
    bool known = r.type.size == 0 || linear || yarn || cr_str_is(r.type, "default") ||
                 cr_str_is(r.type, "llama3") ||
                 (cr_str_is(r.type, "longrope") && (arch->flags & LONG_ROPE) != 0);
    if (!known)
        return cr_fail(err, CERA_E_UNSUPPORTED,
                       "config.json: rope_scaling: expected a known type, found \"%.*s\"",
                       (int)CR_MIN(r.type.size, (size_t)32), r.type.data);
    return CERA_OK;
}

/* Dimensions that rotate. */
static uint32_t rotated(const cr_json *config, uint32_t head_size)
{
    float part;
    bool is_partial =
        cr_json_f32(cr_json_get(config, "partial_rotary_factor"), &part) ||
        cr_json_f32(cr_json_get(cr_json_get(config, "rope_parameters"), "partial_rotary_factor"),
                    &part);
    return is_partial && part > 0 && part < 1 ? (uint32_t)(part * (float)head_size) : head_size;
}

/* Members that may be absent or null, but where there is one must be a number above 0: read as
 * absent, a damaged one would silently give another model. */
static cera_status check_numbers(const cr_json *object, cera_error *err)
{
    static const char *const names[] = {
        "num_key_value_heads",
        "head_dim",
        "rope_theta",
        "rope_local_base_freq",
        "partial_rotary_factor",
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    };
    for (size_t i = 0; i < CR_COUNT(names); i++) {
        const cr_json *value = cr_json_get(object, names[i]);
        float number = 0;
        if (value == NULL || cr_json_is(value, CR_JSON_NULL))
            continue;
        if (!cr_json_f32(value, &number) || !(number > 0))
            return cr_fail(err, CERA_E_FORMAT, "config.json: %s: expected a number above 0",
                           names[i]);
    }
    return CERA_OK;
}

cera_status cr_hf_heads_of(const cr_hf_arch *arch, const cr_folder *folder, cr_hf_heads *out,
                           cera_error *err)
{
    static const char *const objects[] = { "rope_scaling", "rope_parameters" };
    bool attends = (arch->flags & NO_ATTENTION) == 0;
    *out = (cr_hf_heads){ .n_group = 1 };
    if ((arch->flags & STATE_SPACE) != 0)
        CR_TRY(
            need_u32(folder->config, attends ? "mamba_n_groups" : "n_groups", &out->n_group, err));
    if (!attends)
        return CERA_OK;
    CR_TRY(check_numbers(folder->config, err));
    for (size_t i = 0; i < CR_COUNT(objects); i++)
        CR_TRY(check_numbers(cr_json_get(folder->config, objects[i]), err));
    CR_TRY(need_u32(folder->config, "num_attention_heads", &out->n_head, err));
    out->n_head_kv = out->n_head;
    (void)cr_json_u32(cr_json_get(folder->config, "num_key_value_heads"), &out->n_head_kv);
    return out->n_head_kv > 0 ? CERA_OK : is_missing("num_key_value_heads", err);
}

/* "layer_types", one for each layer. */
static cera_status need_types(const cr_json *config, const cr_json **out, uint32_t *n_layer,
                              cera_error *err)
{
    const cr_json *types = cr_json_get(config, "layer_types");
    CR_TRY(need_u32(config, "num_hidden_layers", n_layer, err));
    if (cr_json_count(types, CR_JSON_ARRAY) != *n_layer)
        return cr_fail(err, CERA_E_FORMAT, "config.json: layer_types: expected %u, found %zu",
                       *n_layer, cr_json_count(types, CR_JSON_ARRAY));
    *out = types;
    return CERA_OK;
}

static cera_status put_window_list(const cr_hf_arch *arch, const cr_json *config, cr_gguf_writer *w,
                                   cera_error *err)
{
    const cr_json *types;
    uint32_t n_layer, window;
    if (!cr_json_u32(cr_json_get(config, "sliding_window"), &window))
        return CERA_OK;
    CR_TRY(need_types(config, &types, &n_layer, err));
    cr_gguf_put_array(w, key_of(arch, "attention.sliding_window_pattern").text, CERA_VALUE_BOOL,
                      n_layer);
    for (size_t i = 0; i < n_layer; i++) {
        bool has_window = cr_str_is(cr_json_str(cr_json_at(types, i)), "sliding_attention");
        cr_gguf_put_element(w, &(cera_value){ .type = CERA_VALUE_BOOL, .as.b = has_window });
    }
    return CERA_OK;
}

/* No keys and values in layers that do not attend. */
static cera_status put_heads_kv(const cr_hf_arch *arch, const cr_json *config, uint32_t n_head_kv,
                                cr_gguf_writer *w, cera_error *err)
{
    const cr_json *types;
    uint32_t n_layer;
    CR_TRY(need_types(config, &types, &n_layer, err));
    cr_gguf_put_array(w, key_of(arch, "attention.head_count_kv").text, CERA_VALUE_I32, n_layer);
    for (size_t i = 0; i < n_layer; i++) {
        bool attends = cr_hf_is_attention(cr_json_str(cr_json_at(types, i)));
        cr_gguf_put_element(
            w, &(cera_value){ .type = CERA_VALUE_I32, .as.i = attends ? (int64_t)n_head_kv : 0 });
    }
    return CERA_OK;
}

/* lfm2: layers of convolution, and a width that is computed. */
static cera_status put_lfm2(const cr_hf_arch *arch, const cr_json *config, uint32_t n_head_kv,
                            cr_gguf_writer *w, cera_error *err)
{
    uint32_t width, multiple = 256;
    CR_TRY(put_heads_kv(arch, config, n_head_kv, w, err));
    if (!cr_json_u32(cr_json_get(config, "block_ff_dim"), &width))
        CR_TRY(need_u32(config, "intermediate_size", &width, err));
    if (cr_json_bool(cr_json_get(config, "block_auto_adjust_ff_dim"), false)) {
        float multiplier = 1;
        (void)cr_json_f32(cr_json_get(config, "block_ffn_dim_multiplier"), &multiplier);
        (void)cr_json_u32(cr_json_get(config, "block_multiple_of"), &multiple);
        width = (uint32_t)(multiplier * (float)(2 * (uint64_t)width / 3));
        multiple = CR_MAX(multiple, 1u);
        width = (uint32_t)(((uint64_t)width + multiple - 1) / multiple * multiple);
    }
    put_u32(arch, w, "feed_forward_length", width);
    return CERA_OK;
}

static cera_status put_phi3(const cr_hf_arch *arch, const cr_json *config, cr_gguf_writer *w,
                            cera_error *err)
{
    rope r = read_rope(config);
    uint32_t original = original_context(config, &r, 4096), context;
    put_u32(arch, w, "rope.scaling.original_context_length", original);
    if (!cr_str_is(r.type, "longrope"))
        return CERA_OK;
    CR_TRY(need_u32(config, "max_position_embeddings", &context, err));
    double scale = (double)context / (double)CR_MAX(original, 1u);
    double factor = scale > 1 && original > 1 ? sqrt(1 + log(scale) / log((double)original)) : 1;
    put_f32(arch, w, "rope.scaling.attn_factor", (float)factor);
    return CERA_OK;
}

/* Whether layers know positions; state spaces need none, and some attention beside them has
 * none. */
static bool has_positions(const cr_hf_arch *arch, const cr_json *config)
{
    return (arch->flags & (STATE_SPACE | ALL_ATTEND)) == 0 ||
           cr_str_is(cr_json_str(cr_json_get(config, "position_embedding_type")), "rope");
}

static cera_status put_ssm(const cr_hf_arch *arch, const cr_json *config, const cr_hf_heads *heads,
                           cr_gguf_writer *w, cera_error *err)
{
    uint32_t n_embd, expand;
    bool attends = (arch->flags & NO_ATTENTION) == 0;
    CR_TRY(need_u32(config, "hidden_size", &n_embd, err));
    CR_TRY(need_u32(config, attends ? "mamba_expand" : "expand", &expand, err));
    if ((uint64_t)n_embd * expand > UINT32_MAX)
        return cr_fail(err, CERA_E_LIMIT, "config.json: expand: too large: %u", expand);
    const cr_json *limits = cr_json_get(config, "time_step_limit");
    float low, high;
    if ((cr_json_f32(cr_json_at(limits, 0), &low) && low > 0) ||
        (cr_json_f32(cr_json_at(limits, 1), &high) && isfinite(high)))
        return cr_fail(err, CERA_E_UNSUPPORTED,
                       "config.json: time_step_limit: expected 0 to infinity");
    put_u32(arch, w, "ssm.inner_size", n_embd * expand);
    put_u32(arch, w, "ssm.group_count", heads->n_group);
    return CERA_OK;
}

cera_status cr_hf_put_keys(const cr_hf_arch *arch, const cr_folder *folder, cr_gguf_writer *w,
                           cera_error *err)
{
    enum { GATING_SIGMOID = 2, NO_LIMIT = 1 << 20 };
    const cr_json *config = folder->config;
    uint32_t n_context = NO_LIMIT;
    if (has_positions(arch, config))
        CR_TRY(need_u32(config, "max_position_embeddings", &n_context, err));
    else if ((arch->flags & ALL_ATTEND) != 0)
        return cr_fail(err, CERA_E_UNSUPPORTED,
                       "config.json: position_embedding_type: expected \"rope\" where all layers "
                       "attend");
    put_u32(arch, w, "context_length", n_context);
    CR_TRY(put_members(arch, config, w, err));
    cr_hf_heads heads;
    CR_TRY(cr_hf_heads_of(arch, folder, &heads, err));
    put_u32(arch, w, "attention.head_count", heads.n_head);
    if ((arch->flags & STATE_SPACE) != 0)
        CR_TRY(put_ssm(arch, config, &heads, w, err));
    if ((arch->flags & NO_ATTENTION) != 0) {
        put_u32(arch, w, "feed_forward_length", 0);
        return CERA_OK;
    }
    CR_TRY(put_rope(arch, config, w, err));
    uint32_t n_embd, n_ff, n_vocab, head_size = 0;
    CR_TRY(need_u32(config, "hidden_size", &n_embd, err));
    bool is_said = cr_json_u32(cr_json_get(config, "head_dim"), &head_size) && head_size > 0;
    head_size = is_said ? head_size : n_embd / heads.n_head;
    if (is_said || (arch->flags & HEAD_SIZE) != 0) {
        put_u32(arch, w, "attention.key_length", head_size);
        put_u32(arch, w, "attention.value_length", head_size);
    }
    if ((arch->flags & DIMENSIONS) != 0)
        put_u32(arch, w, "rope.dimension_count", rotated(config, head_size));
    if ((arch->flags & SIGMOID) != 0)
        put_u32(arch, w, "expert_gating_func", GATING_SIGMOID);
    if ((arch->flags & VOCAB_SIZE) != 0) {
        CR_TRY(need_u32(config, "vocab_size", &n_vocab, err));
        put_u32(arch, w, "vocab_size", n_vocab);
    }
    if (cr_json_get(config, "conv_L_cache") != NULL)
        return put_lfm2(arch, config, heads.n_head_kv, w, err);
    /* Where there are no experts, what is called shared is all there is. */
    CR_TRY(need_u32(
        config, (arch->flags & NO_EXPERTS) != 0 ? "shared_intermediate_size" : "intermediate_size",
        &n_ff, err));
    put_u32(arch, w, "feed_forward_length", n_ff);
    if ((arch->flags & STATE_SPACE) != 0) {
        cr_gguf_put_bool(w, key_of(arch, "rope.scaling.finetuned").text,
                         has_positions(arch, config));
        return put_heads_kv(arch, config, heads.n_head_kv, w, err);
    }
    put_u32(arch, w, "attention.head_count_kv", heads.n_head_kv);
    if ((arch->flags & WINDOW_LIST) != 0)
        CR_TRY(put_window_list(arch, config, w, err));
    return (arch->flags & LONG_ROPE) != 0 ? put_phi3(arch, config, w, err) : CERA_OK;
}

/* ---- factors of rotations -------------------------------------------------------------------- */

/* Llama 3.1: slow rotations are slowed down by `factor`, fast ones stay, those between are blended
 * by how often they turn within the original context. The file has what frequencies are divided
 * by. */
static cera_status llama3_factors(const cr_json *config, const rope *r, uint32_t n_rotated,
                                  cr_hf_extra *out, cera_error *err)
{
    const double two_pi = 6.283185307179586;
    float factor = 8, low = 1, high = 4;
    (void)cr_json_f32(cr_json_get(r->scaling, "factor"), &factor);
    (void)cr_json_f32(cr_json_get(r->scaling, "low_freq_factor"), &low);
    (void)cr_json_f32(cr_json_get(r->scaling, "high_freq_factor"), &high);
    double original = original_context(config, r, 8192),
           base = r->base > 0 ? (double)r->base : 10000;
    if (n_rotated / 2 > CR_HF_MAX_FACTORS || !(low > 0 && high > low && factor > 0))
        return cr_fail(err, CERA_E_FORMAT,
                       "config.json: rope_scaling: expected 0 < low_freq_factor < "
                       "high_freq_factor, a factor above 0 and heads of at most "
                       "2048");
    *out = (cr_hf_extra){ .name = "rope_freqs.weight", .n = n_rotated / 2 };
    for (size_t i = 0; i < out->n; i++) {
        double wavelength = two_pi * pow(base, 2.0 * (double)i / n_rotated);
        double turns = original / wavelength;
        double blend = (turns - (double)low) / ((double)high - (double)low);
        double divisor = turns > (double)high  ? 1
                         : turns < (double)low ? (double)factor
                                               : 1 / ((1 - blend) / (double)factor + blend);
        out->values[i] = (float)divisor;
    }
    return CERA_OK;
}

static cera_status listed_factors(const cr_json *list, const char *member, const char *name,
                                  uint32_t n_rotated, cr_hf_extra *out, cera_error *err)
{
    size_t n = cr_json_count(list, CR_JSON_ARRAY);
    if (n == 0 || n > CR_HF_MAX_FACTORS || n != n_rotated / 2)
        return cr_fail(err, CERA_E_FORMAT,
                       "config.json: rope_scaling.%s: expected %u numbers, found %zu", member,
                       n_rotated / 2, n);
    *out = (cr_hf_extra){ .name = name, .n = n };
    for (const cr_json *at = list->first; at != NULL; at = at->next)
        if (!cr_json_f32(at, &out->values[at->index]))
            return is_missing("rope_scaling: factors", err);
    return CERA_OK;
}

cera_status cr_hf_extra_tensors(const cr_hf_arch *arch, const cr_folder *folder, cr_hf_extra *out,
                                size_t *n, cera_error *err)
{
    const cr_json *config = folder->config;
    rope r = read_rope(config);
    cr_hf_heads heads;
    uint32_t n_embd, head_size;
    *n = 0;
    bool llama3 = cr_str_is(r.type, "llama3"), longrope = cr_str_is(r.type, "longrope");
    if (!llama3 && !longrope)
        return CERA_OK;
    CR_TRY(cr_hf_heads_of(arch, folder, &heads, err));
    CR_TRY(need_u32(config, "hidden_size", &n_embd, err));
    if (!cr_json_u32(cr_json_get(config, "head_dim"), &head_size) || head_size == 0)
        head_size = n_embd / heads.n_head;
    uint32_t n_rotated = rotated(config, head_size);
    if (llama3) {
        *n = 1;
        return llama3_factors(config, &r, n_rotated, &out[0], err);
    }
    *n = 2;
    CR_TRY(listed_factors(cr_json_get(r.scaling, "long_factor"), "long_factor",
                          "rope_factors_long.weight", n_rotated, &out[0], err));
    return listed_factors(cr_json_get(r.scaling, "short_factor"), "short_factor",
                          "rope_factors_short.weight", n_rotated, &out[1], err);
}

#include "convert/hf_arch.h"

#include <math.h>
#include <stdio.h>

/* ---- architectures --------------------------------------------------------------------------- */

enum {
    PAIRS = 1,       /* rotates neighbours; Hugging Face stores halves */
    PLUS_ONE = 2,    /* norms scale by 1 + weight */
    DIMENSIONS = 4,  /* says how many dimensions rotate */
    VOCAB_SIZE = 8,  /* says how many tokens there are */
    POST_NORMS = 16, /* "post_attention_layernorm" is what it says, not the norm of the next part */
    NO_PREFIX = 32,  /* see cr_hf_no_space_prefix */
    HEAD_SIZE = 64,  /* says how large a head is, even where it could be computed */
    USUAL_BASE = 128, /* rotates with the usual base and has no key for it */
    LOCAL_BASE = 256, /* has a base of its own for layers with a window */
    LONG_ROPE = 512,  /* has factors for long and for short texts */
    SIGMOID = 1024,   /* routes by sigmoids; the others by a softmax */
};

struct cr_hf_arch {
    const char *hf, *gguf;
    int flags;
};

static const cr_hf_arch archs[] = {
    { "LlamaForCausalLM", "llama", PAIRS | DIMENSIONS | VOCAB_SIZE },
    { "MistralForCausalLM", "llama", PAIRS | DIMENSIONS | VOCAB_SIZE },
    { "MixtralForCausalLM", "llama", PAIRS | DIMENSIONS | VOCAB_SIZE },
    { "SmolLM3ForCausalLM", "smollm3", PAIRS | DIMENSIONS | VOCAB_SIZE },
    { "GraniteForCausalLM", "granite", PAIRS | DIMENSIONS | VOCAB_SIZE },
    { "GraniteMoeForCausalLM", "granitemoe", PAIRS | DIMENSIONS | VOCAB_SIZE },
    { "GraniteMoeSharedForCausalLM", "granitemoe", PAIRS | DIMENSIONS | VOCAB_SIZE },
    { "Qwen2ForCausalLM", "qwen2", 0 },
    { "Qwen3ForCausalLM", "qwen3", 0 },
    { "Qwen3MoeForCausalLM", "qwen3moe", 0 },
    { "Olmo2ForCausalLM", "olmo2", POST_NORMS },
    { "Phi3ForCausalLM", "phi3", DIMENSIONS | LONG_ROPE },
    { "Gemma2ForCausalLM", "gemma2", PLUS_ONE | POST_NORMS | NO_PREFIX | HEAD_SIZE | USUAL_BASE },
    { "Gemma3ForCausalLM", "gemma3", PLUS_ONE | POST_NORMS | NO_PREFIX | HEAD_SIZE | LOCAL_BASE },
    { "Lfm2ForCausalLM", "lfm2", VOCAB_SIZE },
    { "Lfm2MoeForCausalLM", "lfm2moe", VOCAB_SIZE | SIGMOID },
};

const cr_hf_arch *cr_hf_find(cr_str name)
{
    for (size_t i = 0; i < CR_COUNT(archs); i++)
        if (cr_str_is(name, archs[i].hf))
            return &archs[i];
    return NULL;
}

const char *cr_hf_name(const cr_hf_arch *arch)
{
    return arch->gguf;
}

bool cr_hf_no_space_prefix(const cr_hf_arch *arch)
{
    return (arch->flags & NO_PREFIX) != 0;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Whole names without ".weight". */
static const struct {
    const char *hf, *gguf;
} global_names[] = {
    { "model.embed_tokens", "token_embd" },
    { "model.norm", "output_norm" },
    { "model.embedding_norm", "token_embd_norm" },
    { "lm_head", "output" },
};

/* Names behind "model.layers.N.", * the number of an expert. Halves come in twos; where two other
 * rows have the same name, the one with POST_NORMS is for architectures that have that flag. */
static const struct {
    const char *hf, *gguf;
    int needs; /* flags */
    cr_hf_change change;
} layer_names[] = {
    { "input_layernorm", "attn_norm", 0, CR_HF_AS_IS },
    { "operator_norm", "attn_norm", 0, CR_HF_AS_IS },
    { "self_attn.q_proj", "attn_q", PAIRS, CR_HF_PAIRS_Q },
    { "self_attn.q_proj", "attn_q", 0, CR_HF_AS_IS },
    { "self_attn.k_proj", "attn_k", PAIRS, CR_HF_PAIRS_K },
    { "self_attn.k_proj", "attn_k", 0, CR_HF_AS_IS },
    { "self_attn.v_proj", "attn_v", 0, CR_HF_AS_IS },
    { "self_attn.qkv_proj", "attn_qkv", 0, CR_HF_AS_IS },
    { "self_attn.o_proj", "attn_output", 0, CR_HF_AS_IS },
    { "self_attn.out_proj", "attn_output", 0, CR_HF_AS_IS },
    { "self_attn.q_norm", "attn_q_norm", 0, CR_HF_AS_IS },
    { "self_attn.k_norm", "attn_k_norm", 0, CR_HF_AS_IS },
    { "self_attn.q_layernorm", "attn_q_norm", 0, CR_HF_AS_IS },
    { "self_attn.k_layernorm", "attn_k_norm", 0, CR_HF_AS_IS },
    { "post_attention_layernorm", "post_attention_norm", POST_NORMS, CR_HF_AS_IS },
    { "post_attention_layernorm", "ffn_norm", 0, CR_HF_AS_IS },
    { "pre_feedforward_layernorm", "ffn_norm", 0, CR_HF_AS_IS },
    { "post_feedforward_layernorm", "post_ffw_norm", 0, CR_HF_AS_IS },
    { "ffn_norm", "ffn_norm", 0, CR_HF_AS_IS },
    { "mlp.gate_proj", "ffn_gate", 0, CR_HF_AS_IS },
    { "mlp.up_proj", "ffn_up", 0, CR_HF_AS_IS },
    { "mlp.down_proj", "ffn_down", 0, CR_HF_AS_IS },
    { "mlp.gate_up_proj", "ffn_up", 0, CR_HF_AS_IS },
    { "feed_forward.w1", "ffn_gate", 0, CR_HF_AS_IS },
    { "feed_forward.w2", "ffn_down", 0, CR_HF_AS_IS },
    { "feed_forward.w3", "ffn_up", 0, CR_HF_AS_IS },
    { "mlp.gate", "ffn_gate_inp", 0, CR_HF_AS_IS },
    { "mlp.experts.*.gate_proj", "ffn_gate_exps", 0, CR_HF_AS_IS },
    { "mlp.experts.*.up_proj", "ffn_up_exps", 0, CR_HF_AS_IS },
    { "mlp.experts.*.down_proj", "ffn_down_exps", 0, CR_HF_AS_IS },
    { "block_sparse_moe.gate", "ffn_gate_inp", 0, CR_HF_AS_IS },
    { "block_sparse_moe.experts.*.w1", "ffn_gate_exps", 0, CR_HF_AS_IS },
    { "block_sparse_moe.experts.*.w2", "ffn_down_exps", 0, CR_HF_AS_IS },
    { "block_sparse_moe.experts.*.w3", "ffn_up_exps", 0, CR_HF_AS_IS },
    { "block_sparse_moe.router.layer", "ffn_gate_inp", 0, CR_HF_AS_IS },
    { "block_sparse_moe.input_linear", "ffn_gate_exps", 0, CR_HF_HALF_0 },
    { "block_sparse_moe.input_linear", "ffn_up_exps", 0, CR_HF_HALF_1 },
    { "block_sparse_moe.output_linear", "ffn_down_exps", 0, CR_HF_AS_IS },
    { "shared_mlp.input_linear", "ffn_gate_shexp", 0, CR_HF_HALF_0 },
    { "shared_mlp.input_linear", "ffn_up_shexp", 0, CR_HF_HALF_1 },
    { "shared_mlp.output_linear", "ffn_down_shexp", 0, CR_HF_AS_IS },
    { "feed_forward.gate", "ffn_gate_inp", 0, CR_HF_AS_IS },
    { "feed_forward.expert_bias", "exp_probs_b", 0, CR_HF_AS_IS },
    { "feed_forward.experts.*.w1", "ffn_gate_exps", 0, CR_HF_AS_IS },
    { "feed_forward.experts.*.w2", "ffn_down_exps", 0, CR_HF_AS_IS },
    { "feed_forward.experts.*.w3", "ffn_up_exps", 0, CR_HF_AS_IS },
    { "conv.conv", "shortconv.conv", 0, CR_HF_SQUEEZE },
    { "conv.in_proj", "shortconv.in_proj", 0, CR_HF_AS_IS },
    { "conv.out_proj", "shortconv.out_proj", 0, CR_HF_AS_IS },
};

static bool has_end(cr_str text, const char *end)
{
    size_t n = strlen(end);
    return text.size >= n && memcmp(text.data + text.size - n, end, n) == 0;
}

/* Takes digits off the front of a text; false when there are none, or too many. */
static bool cut_number(cr_str *text, int *number)
{
    size_t n = 0;
    *number = 0;
    for (; n < text->size && n < 6 && text->data[n] >= '0' && text->data[n] <= '9'; n++)
        *number = *number * 10 + (text->data[n] - '0');
    *text = (cr_str){ text->data + n, text->size - n };
    return n > 0;
}

/* Takes a text off the front of another. */
static bool cut(cr_str *text, cr_str begin)
{
    if (text->size < begin.size || memcmp(text->data, begin.data, begin.size) != 0)
        return false;
    *text = (cr_str){ text->data + begin.size, text->size - begin.size };
    return true;
}

/* Whether this is a name of the table; *expert: the number that stands for its *, -1 without one. */
static bool is_name(cr_str text, const char *name, int *expert)
{
    const char *star = strchr(name, '*');
    *expert = -1;
    if (star == NULL)
        return cr_str_is(text, name);
    return cut(&text, (cr_str){ name, (size_t)(star - name) }) && cut_number(&text, expert) &&
           cr_str_is(text, star + 1);
}

/* Whether the architecture has this row for a name. */
static bool is_row(const cr_hf_arch *arch, size_t i, cr_str stem, int *expert)
{
    int needs = layer_names[i].needs;
    return (arch->flags & needs) == needs && is_name(stem, layer_names[i].hf, expert);
}

int cr_hf_targets(const cr_hf_arch *arch, cr_str name, cr_hf_target out[2])
{
    /* Tables of the rotation that old programs stored. */
    out[0] = (cr_hf_target){ .expert = -1 };
    if (has_end(name, ".rotary_emb.inv_freq"))
        return 1;
    const char *suffix =
        has_end(name, ".bias") || has_end(name, ".expert_bias") ? "bias" : "weight";
    bool is_bare = has_end(name, ".expert_bias");
    if (!is_bare && !has_end(name, ".bias") && !has_end(name, ".weight"))
        return 0;
    cr_str stem = { name.data, name.size - (is_bare ? 0 : strlen(suffix) + 1) };
    bool plus_one = has_end(stem, "norm") && (arch->flags & PLUS_ONE) != 0;
    out[0].change = plus_one ? CR_HF_PLUS_ONE : CR_HF_AS_IS;
    int layer, n = 0;
    if (!cut(&stem, cr_str_from("model.layers."))) {
        for (size_t i = 0; i < CR_COUNT(global_names); i++)
            if (cr_str_is(stem, global_names[i].hf))
                return snprintf(out[0].name, sizeof out[0].name, "%s.%s", global_names[i].gguf,
                                suffix) > 0;
        return 0;
    }
    if (!cut_number(&stem, &layer) || !cut(&stem, cr_str_from(".")))
        return 0;
    for (size_t i = 0; i < CR_COUNT(layer_names) && n < 2; i++) {
        int expert;
        cr_hf_change change = layer_names[i].change;
        if (!is_row(arch, i, stem, &expert) || (n == 1 && change != CR_HF_HALF_1))
            continue;
        if (change == CR_HF_AS_IS && plus_one)
            change = CR_HF_PLUS_ONE;
        out[n] = (cr_hf_target){ .change = change, .expert = expert };
        snprintf(out[n].name, sizeof out[n].name, "blk.%d.%s.%s", layer, layer_names[i].gguf,
                 suffix);
        n++;
    }
    return n;
}

/* ---- keys ------------------------------------------------------------------------------------ */

typedef enum kind { U32, F32 } kind;

/* Members of config.json that are keys as they stand, for whichever architecture has them. Of two that
 * are the same key the first counts. */
static const struct {
    const char *hf, *gguf;
    kind kind;
    const char *only; /* architectures; NULL: all */
    bool required;
} members[] = {
    { "num_hidden_layers", "block_count", U32, NULL, true },
    { "max_position_embeddings", "context_length", U32, NULL, true },
    { "hidden_size", "embedding_length", U32, NULL, true },
    { "num_attention_heads", "attention.head_count", U32, NULL, true },
    { "norm_eps", "attention.layer_norm_rms_epsilon", F32, "lfm2 lfm2moe", true },
    { "rms_norm_eps", "attention.layer_norm_rms_epsilon", F32, NULL, false },
    { "conv_L_cache", "shortconv.l_cache", U32, "lfm2 lfm2moe", true },
    { "attention_multiplier", "attention.scale", F32, "granite granitemoe", true },
    { "embedding_multiplier", "embedding_scale", F32, "granite granitemoe", true },
    { "residual_multiplier", "residual_scale", F32, "granite granitemoe", true },
    { "logits_scaling", "logit_scale", F32, "granite granitemoe", true },
    { "num_local_experts", "expert_count", U32, NULL, false },
    { "num_experts", "expert_count", U32, NULL, false },
    { "num_experts_per_tok", "expert_used_count", U32, NULL, false },
    { "moe_intermediate_size", "expert_feed_forward_length", U32, "qwen3moe lfm2moe", true },
    { "num_dense_layers", "leading_dense_block_count", U32, "lfm2moe", true },
    { "shared_intermediate_size", "expert_shared_feed_forward_length", U32, "granitemoe", false },
    { "sliding_window", "attention.sliding_window", U32, "phi3", false },
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

/* Rotations, in three dialects: rope_theta and rope_scaling; rope_parameters; rope_parameters with a
 * set for each kind of attention. */
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

cera_status cr_hf_heads_of(const cr_folder *folder, cr_hf_heads *out, cera_error *err)
{
    static const char *const objects[] = { "rope_scaling", "rope_parameters" };
    CR_TRY(check_numbers(folder->config, err));
    for (size_t i = 0; i < CR_COUNT(objects); i++)
        CR_TRY(check_numbers(cr_json_get(folder->config, objects[i]), err));
    CR_TRY(need_u32(folder->config, "num_attention_heads", &out->n_head, err));
    out->n_head_kv = out->n_head;
    (void)cr_json_u32(cr_json_get(folder->config, "num_key_value_heads"), &out->n_head_kv);
    return out->n_head_kv > 0 ? CERA_OK : is_missing("num_key_value_heads", err);
}

/* lfm2: no keys and values in layers of convolution, and a width that is computed. */
static cera_status put_lfm2(const cr_hf_arch *arch, const cr_json *config, uint32_t n_head_kv,
                            cr_gguf_writer *w, cera_error *err)
{
    const cr_json *types = cr_json_get(config, "layer_types");
    uint32_t n_layer, width, multiple = 256;
    CR_TRY(need_u32(config, "num_hidden_layers", &n_layer, err));
    if (cr_json_count(types, CR_JSON_ARRAY) != n_layer)
        return cr_fail(err, CERA_E_FORMAT, "config.json: layer_types: expected %u, found %zu",
                       n_layer, cr_json_count(types, CR_JSON_ARRAY));
    cr_gguf_put_array(w, key_of(arch, "attention.head_count_kv").text, CERA_VALUE_I32, n_layer);
    for (size_t i = 0; i < n_layer; i++) {
        bool attends = cr_str_is(cr_json_str(cr_json_at(types, i)), "full_attention");
        cr_gguf_put_element(
            w, &(cera_value){ .type = CERA_VALUE_I32, .as.i = attends ? (int64_t)n_head_kv : 0 });
    }
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

cera_status cr_hf_put_keys(const cr_hf_arch *arch, const cr_folder *folder, cr_gguf_writer *w,
                           cera_error *err)
{
    enum { GATING_SIGMOID = 2 };
    const cr_json *config = folder->config;
    CR_TRY(put_members(arch, config, w, err));
    CR_TRY(put_rope(arch, config, w, err));
    cr_hf_heads heads;
    CR_TRY(cr_hf_heads_of(folder, &heads, err));
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
    put_u32(arch, w, "attention.head_count_kv", heads.n_head_kv);
    CR_TRY(need_u32(config, "intermediate_size", &n_ff, err));
    put_u32(arch, w, "feed_forward_length", n_ff);
    return (arch->flags & LONG_ROPE) != 0 ? put_phi3(arch, config, w, err) : CERA_OK;
}

/* ---- factors of rotations -------------------------------------------------------------------- */

/* Llama 3.1: slow rotations are slowed down by `factor`, fast ones stay, those between are blended by
 * how often they turn within the original context. The file has what frequencies are divided by. */
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
    CR_TRY(cr_hf_heads_of(folder, &heads, err));
    CR_TRY(need_u32(config, "hidden_size", &n_embd, err));
    if (!cr_json_u32(cr_json_get(config, "head_dim"), &head_size) || head_size == 0)
        head_size = n_embd / heads.n_head;
    uint32_t n_rotated = rotated(config, head_size);
    (void)arch;
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

#include "convert/hf_row.h"

#include <stdio.h>

/* ---- architectures --------------------------------------------------------------------------- */

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
    { "Exaone4ForCausalLM", "exaone4", POST_NORMS | VOCAB_SIZE | WINDOW_LIST },
    { "Phi3ForCausalLM", "phi3", DIMENSIONS | LONG_ROPE },
    { "Gemma2ForCausalLM", "gemma2", PLUS_ONE | POST_NORMS | NO_PREFIX | HEAD_SIZE | USUAL_BASE },
    { "Gemma3ForCausalLM", "gemma3", PLUS_ONE | POST_NORMS | NO_PREFIX | HEAD_SIZE | LOCAL_BASE },
    { "Lfm2ForCausalLM", "lfm2", VOCAB_SIZE },
    { "Lfm2MoeForCausalLM", "lfm2moe", VOCAB_SIZE | SIGMOID },
    { "GraniteMoeHybridForCausalLM", "granite",
      PAIRS | DIMENSIONS | VOCAB_SIZE | ALL_ATTEND | NO_EXPERTS },
    { "GraniteMoeHybridForCausalLM", "granitemoe", PAIRS | DIMENSIONS | VOCAB_SIZE | ALL_ATTEND },
    { "GraniteMoeHybridForCausalLM", "granitehybrid",
      PAIRS | DIMENSIONS | VOCAB_SIZE | STATE_SPACE | NO_EXPERTS },
    { "GraniteMoeHybridForCausalLM", "granitehybrid",
      PAIRS | DIMENSIONS | VOCAB_SIZE | STATE_SPACE },
    { "Mamba2ForCausalLM", "mamba2", STATE_SPACE | NO_ATTENTION },
};

bool cr_hf_is_attention(cr_str type)
{
    return cr_str_is(type, "attention") || cr_str_is(type, "full_attention");
}

/* Whether every layer that config.json lists attends. */
static bool all_attend(const cr_json *config)
{
    const cr_json *at = cr_json_first(cr_json_get(config, "layer_types"), CR_JSON_ARRAY);
    bool all = at != NULL;
    for (; at != NULL; at = at->next)
        all = all && cr_hf_is_attention(cr_json_str(at));
    return all;
}

const cr_hf_arch *cr_hf_find(cr_str name, const cr_json *config)
{
    uint32_t n_expert = 0;
    (void)cr_json_u32(cr_json_get(config, "num_local_experts"), &n_expert);
    int not_these = (n_expert > 0 ? NO_EXPERTS : 0) | (all_attend(config) ? 0 : ALL_ATTEND);
    for (size_t i = 0; i < CR_COUNT(archs); i++)
        if (cr_str_is(name, archs[i].hf) && (archs[i].flags & not_these) == 0)
            return &archs[i];
    return NULL;
}

const cr_hf_arch *cr_hf_next(const cr_hf_arch *before, const char *gguf, bool has_experts)
{
    for (size_t i = before ? (size_t)(before - archs) + 1 : 0; i < CR_COUNT(archs); i++)
        if (strcmp(archs[i].gguf, gguf) == 0 && !(has_experts && (archs[i].flags & NO_EXPERTS)))
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
    { "model.embed_tokens", "token_embd" },        { "model.norm", "output_norm" },
    { "model.embedding_norm", "token_embd_norm" }, { "lm_head", "output" },
    { "backbone.embeddings", "token_embd" },       { "backbone.norm_f", "output_norm" },
};

/* What names end in, and what GGUF's do. Those that are not ".weight" or ".bias" stay part of the
 * name that is looked up. */
static const struct {
    const char *hf, *gguf;
    bool stays;
} endings[] = {
    { ".weight", ".weight", false }, { ".bias", ".bias", false }, { ".expert_bias", ".bias", true },
    { ".dt_bias", ".bias", true },   { ".A_log", "", true },      { ".D", "", true },
};

/* Names behind "model.layers.N." or "backbone.layers.N.", * the number of an expert. Halves come in
 * twos. Where two other rows have the same name, the first whose flags the architecture has
 * counts. */
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
    { "mlp.experts.gate_up_proj", "ffn_gate_exps", 0, CR_HF_HALF_0 },
    { "mlp.experts.gate_up_proj", "ffn_up_exps", 0, CR_HF_HALF_1 },
    { "mlp.experts.down_proj", "ffn_down_exps", 0, CR_HF_AS_IS },
    { "mlp.experts.*.gate_proj", "ffn_gate_exps", 0, CR_HF_AS_IS },
    { "mlp.experts.*.up_proj", "ffn_up_exps", 0, CR_HF_AS_IS },
    { "mlp.experts.*.down_proj", "ffn_down_exps", 0, CR_HF_AS_IS },
    { "block_sparse_moe.gate", "ffn_gate_inp", 0, CR_HF_AS_IS },
    { "block_sparse_moe.router", "ffn_gate_inp", 0, CR_HF_AS_IS },
    { "block_sparse_moe.experts.gate_up_proj", "ffn_gate_exps", 0, CR_HF_HALF_0 },
    { "block_sparse_moe.experts.gate_up_proj", "ffn_up_exps", 0, CR_HF_HALF_1 },
    { "block_sparse_moe.experts.down_proj", "ffn_down_exps", 0, CR_HF_AS_IS },
    { "block_sparse_moe.experts.*.w1", "ffn_gate_exps", 0, CR_HF_AS_IS },
    { "block_sparse_moe.experts.*.w2", "ffn_down_exps", 0, CR_HF_AS_IS },
    { "block_sparse_moe.experts.*.w3", "ffn_up_exps", 0, CR_HF_AS_IS },
    { "block_sparse_moe.router.layer", "ffn_gate_inp", 0, CR_HF_AS_IS },
    { "block_sparse_moe.input_linear", "ffn_gate_exps", 0, CR_HF_HALF_0 },
    { "block_sparse_moe.input_linear", "ffn_up_exps", 0, CR_HF_HALF_1 },
    { "block_sparse_moe.output_linear", "ffn_down_exps", 0, CR_HF_AS_IS },
    { "shared_mlp.input_linear", "ffn_gate", NO_EXPERTS, CR_HF_HALF_0 },
    { "shared_mlp.input_linear", "ffn_up", NO_EXPERTS, CR_HF_HALF_1 },
    { "shared_mlp.output_linear", "ffn_down", NO_EXPERTS, CR_HF_AS_IS },
    { "shared_mlp.input_linear", "ffn_gate_shexp", 0, CR_HF_HALF_0 },
    { "shared_mlp.input_linear", "ffn_up_shexp", 0, CR_HF_HALF_1 },
    { "shared_mlp.output_linear", "ffn_down_shexp", 0, CR_HF_AS_IS },
    { "feed_forward.gate", "ffn_gate_inp", 0, CR_HF_AS_IS },
    { "feed_forward.expert_bias", "exp_probs_b", 0, CR_HF_AS_IS },
    { "feed_forward.experts.gate_up_proj", "ffn_gate_exps", 0, CR_HF_HALF_0 },
    { "feed_forward.experts.gate_up_proj", "ffn_up_exps", 0, CR_HF_HALF_1 },
    { "feed_forward.experts.down_proj", "ffn_down_exps", 0, CR_HF_AS_IS },
    { "feed_forward.experts.*.w1", "ffn_gate_exps", 0, CR_HF_AS_IS },
    { "feed_forward.experts.*.w2", "ffn_down_exps", 0, CR_HF_AS_IS },
    { "feed_forward.experts.*.w3", "ffn_up_exps", 0, CR_HF_AS_IS },
    { "conv.conv", "shortconv.conv", 0, CR_HF_SQUEEZE },
    { "conv.in_proj", "shortconv.in_proj", 0, CR_HF_AS_IS },
    { "conv.out_proj", "shortconv.out_proj", 0, CR_HF_AS_IS },
    { "norm", "attn_norm", NO_ATTENTION, CR_HF_AS_IS },
    { "mamba.in_proj", "ssm_in", STATE_SPACE, CR_HF_AS_IS },
    { "mamba.conv1d", "ssm_conv1d", STATE_SPACE, CR_HF_SQUEEZE },
    { "mamba.dt_bias", "ssm_dt", STATE_SPACE, CR_HF_AS_IS },
    { "mamba.A_log", "ssm_a", STATE_SPACE, CR_HF_NEG_EXP },
    { "mamba.D", "ssm_d", STATE_SPACE, CR_HF_COLUMN },
    { "mamba.norm", "ssm_norm", STATE_SPACE, CR_HF_GROUPS },
    { "mamba.out_proj", "ssm_out", STATE_SPACE, CR_HF_AS_IS },
    { "mixer.in_proj", "ssm_in", STATE_SPACE, CR_HF_AS_IS },
    { "mixer.conv1d", "ssm_conv1d", STATE_SPACE, CR_HF_SQUEEZE },
    { "mixer.dt_bias", "ssm_dt", STATE_SPACE, CR_HF_AS_IS },
    { "mixer.A_log", "ssm_a", STATE_SPACE, CR_HF_NEG_EXP },
    { "mixer.D", "ssm_d", STATE_SPACE, CR_HF_COLUMN },
    { "mixer.norm", "ssm_norm", STATE_SPACE, CR_HF_GROUPS },
    { "mixer.out_proj", "ssm_out", STATE_SPACE, CR_HF_AS_IS },
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

/* Whether this is a name of the table; *expert: the number that stands for its *, -1 without
 * one. */
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
    size_t e = 0;
    while (e < CR_COUNT(endings) && !has_end(name, endings[e].hf))
        e++;
    if (e == CR_COUNT(endings))
        return 0;
    const char *suffix = endings[e].gguf;
    cr_str stem = { name.data, name.size - (endings[e].stays ? 0 : strlen(endings[e].hf)) };
    bool plus_one = has_end(stem, "norm") && (arch->flags & PLUS_ONE) != 0;
    out[0].change = plus_one ? CR_HF_PLUS_ONE : CR_HF_AS_IS;
    int layer, n = 0;
    if (!cut(&stem, cr_str_from("model.layers.")) && !cut(&stem, cr_str_from("backbone.layers."))) {
        for (size_t i = 0; i < CR_COUNT(global_names); i++)
            if (cr_str_is(stem, global_names[i].hf))
                return snprintf(out[0].name, sizeof out[0].name, "%s%s", global_names[i].gguf,
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
        if ((layer_names[i].needs & STATE_SPACE) != 0 && has_end(name, ".bias")) {
            if (change != CR_HF_SQUEEZE)
                return 0; /* only the convolution has one that GGUF knows */
            change = CR_HF_AS_IS;
        }
        out[n] = (cr_hf_target){ .change = change, .expert = expert };
        snprintf(out[n].name, sizeof out[n].name, "blk.%d.%s%s", layer, layer_names[i].gguf,
                 suffix);
        n++;
    }
    return n;
}

/* mistral3: llama with a long context. Mistral Small 3.1 and Ministral 3; Mistral 7B comes as
 * `llama`.
 *
 *     scores *= 1 + temperature ln(1 + floor(position / first context))     position of the query
 *
 * Mistakes people make here:
 * - Ministral 3 scales its rotation (YaRN) and its scores. Both show beyond 16,384 positions only,
 *   its first context, and short prompts read well without them.
 * - YaRN would make what it rotates larger. `rope.scaling.yarn_log_multiplier` is 1 in these files,
 *   which takes it back; 0 means that the file has none.
 * - The head size is `attention.key_length`, not n_embd / n_head.
 * - Rotation pairs are neighbours, as in llama; whoever converts such a file permutes q and k. */
#include "arch/arch.h"

static cera_status read_hparams(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_decoder(keys, 1, hp));

    CR_TRY(cr_keys_rope(keys, CR_ROPE_PAIRS, 10000.0f, &hp->rope));
    CR_TRY(cr_keys_temperature(keys, hp));
    return cr_keys_refuse_number(keys, "attention.sliding_window", 0);
}

static const cr_rule rules[] = {
    CR_TENSOR_MATRIX(EMBED, "token_embd.weight", MODEL, EMBD, VOCAB),
    CR_TENSOR_MATRIX(OUTPUT, "output.weight", MODEL, EMBD, VOCAB, .optional = true),
    CR_TENSOR_VECTOR(OUTPUT_NORM, "output_norm.weight", MODEL, EMBD),
    CR_TENSOR_VECTOR(ROPE_FACTORS, "rope_freqs.weight", MODEL, ROPE_HALF, .optional = true),
    CR_TENSOR_VECTOR(ROPE_SHORT, "rope_factors_short.weight", MODEL, ROPE_HALF, .optional = true),
    CR_TENSOR_VECTOR(ROPE_LONG, "rope_factors_long.weight", MODEL, ROPE_HALF, .optional = true),

    CR_TENSOR_VECTOR(MIXER_NORM, "blk.%d.attn_norm.weight", EVERY_LAYER, EMBD),
    CR_TENSOR_MATRIX(Q, "blk.%d.attn_q.weight", EVERY_LAYER, EMBD, Q),
    CR_TENSOR_MATRIX(K, "blk.%d.attn_k.weight", EVERY_LAYER, EMBD, KV),
    CR_TENSOR_MATRIX(V, "blk.%d.attn_v.weight", EVERY_LAYER, EMBD, KV),
    CR_TENSOR_VECTOR(Q_BIAS, "blk.%d.attn_q.bias", EVERY_LAYER, Q, .optional = true),
    CR_TENSOR_VECTOR(K_BIAS, "blk.%d.attn_k.bias", EVERY_LAYER, KV, .optional = true),
    CR_TENSOR_VECTOR(V_BIAS, "blk.%d.attn_v.bias", EVERY_LAYER, KV, .optional = true),
    CR_TENSOR_MATRIX(ATTN_OUT, "blk.%d.attn_output.weight", EVERY_LAYER, Q, EMBD),
    CR_TENSOR_VECTOR(ATTN_OUT_BIAS, "blk.%d.attn_output.bias", EVERY_LAYER, EMBD, .optional = true),

    CR_TENSOR_VECTOR(FFN_NORM, "blk.%d.ffn_norm.weight", EVERY_LAYER, EMBD),
    CR_TENSOR_MATRIX(GATE, "blk.%d.ffn_gate.weight", EVERY_LAYER, EMBD, FF),
    CR_TENSOR_MATRIX(UP, "blk.%d.ffn_up.weight", EVERY_LAYER, EMBD, FF),
    CR_TENSOR_MATRIX(DOWN, "blk.%d.ffn_down.weight", EVERY_LAYER, FF, EMBD),
    CR_TENSOR_VECTOR(GATE_BIAS, "blk.%d.ffn_gate.bias", EVERY_LAYER, FF, .optional = true),
    CR_TENSOR_VECTOR(UP_BIAS, "blk.%d.ffn_up.bias", EVERY_LAYER, FF, .optional = true),
    CR_TENSOR_VECTOR(DOWN_BIAS, "blk.%d.ffn_down.bias", EVERY_LAYER, EMBD, .optional = true),
};

const cr_arch cr_arch_mistral3 = { "mistral3", read_hparams, cr_layer_attention, rules,
                                   CR_COUNT(rules) };

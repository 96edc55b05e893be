/* granite: llama with four scales. IBM's dense Granite 3 and 4.
 *
 *     x = embedding_scale * embedding
 *     x += residual_scale * out(attention), scores times attention.scale
 *     x += residual_scale * down(silu(gate(n)) * up(n))
 *     logits = head(rmsnorm(x)) / logit_scale
 *
 * Mistakes people make here:
 * - `attention.scale` stands in place of 1 / sqrt(head size), not beside it.
 * - `residual_scale` is for both branches of a layer.
 * - Logits are divided by `logit_scale`. Without it text stays fluent, but sampling is off: a file
 *   that lacks the key is damaged.
 * - Rotation pairs are neighbours, as in llama. `rope.scaling.finetuned` = false marks a model
 *   without rotation. */
#include "arch/arch.h"

static cera_status read_hparams(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_decoder(keys, 1, hp));
    CR_TRY(cr_keys_scales(keys, CR_REQUIRED, hp));

    CR_TRY(cr_keys_rope(keys, CR_ROPE_PAIRS, 10000.0f, &hp->rope));
    CR_TRY(cr_keys_refuse_number(keys, "rope.scaling.finetuned", 1));
    return cr_keys_refuse_number(keys, "attention.sliding_window", 0);
}

static const cr_rule rules[] = {
    CR_TENSOR_MATRIX(EMBED, "token_embd.weight", MODEL, EMBD, VOCAB),
    CR_TENSOR_MATRIX(OUTPUT, "output.weight", MODEL, EMBD, VOCAB, .optional = true),
    CR_TENSOR_VECTOR(OUTPUT_NORM, "output_norm.weight", MODEL, EMBD),
    CR_TENSOR_VECTOR(ROPE_FACTORS, "rope_freqs.weight", MODEL, ROPE_HALF, .optional = true),

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

const cr_arch cr_arch_granite = { "granite", read_hparams, cr_layer_attention, rules,
                                  CR_COUNT(rules) };

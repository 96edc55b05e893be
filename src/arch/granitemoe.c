/* granitemoe: granite whose feed-forwards are routed. IBM's Granite 3 and 4 with experts; some have
 * one more that every token uses.
 *
 *     moe = sum over the chosen of w[e] * down[e](silu(gate[e] n) * up[e] n)        n = rmsnorm(x)
 *     x += residual_scale * (moe + shared(n))
 *
 * Mistakes people make here:
 * - The published weights are a softmax over the chosen logits. That is the softmax over all,
 *   divided by the sum of the chosen.
 * - The shared expert (`ffn_*_shexp`) has no weight, reads the same n as the others, and is as wide
 *   as `expert_shared_feed_forward_length` says. The other experts are `feed_forward_length` wide.
 * - Without `expert_count` the model is dense: what was the shared expert comes as plain `ffn_*`.
 * - The four scales are those of granite.c. */
#include "arch/arch.h"

static cera_status read_hparams(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_routed_decoder(keys, 1, CR_OPTIONAL, hp));
    CR_TRY(cr_keys_int(keys, "expert_shared_feed_forward_length", CR_OPTIONAL, 0, CR_MAX_WIDTH,
                       &hp->n_ff_shared));
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
    CR_TENSOR_MATRIX(GATE, "blk.%d.ffn_gate.weight", DENSE, EMBD, FF),
    CR_TENSOR_MATRIX(UP, "blk.%d.ffn_up.weight", DENSE, EMBD, FF),
    CR_TENSOR_MATRIX(DOWN, "blk.%d.ffn_down.weight", DENSE, FF, EMBD),
    CR_TENSOR_MATRIX(ROUTER, "blk.%d.ffn_gate_inp.weight", ROUTED, EMBD, EXPERTS),
    CR_TENSOR_STACK(GATE_EXPERTS, "blk.%d.ffn_gate_exps.weight", ROUTED, EMBD, FF_EXPERT),
    CR_TENSOR_STACK(UP_EXPERTS, "blk.%d.ffn_up_exps.weight", ROUTED, EMBD, FF_EXPERT),
    CR_TENSOR_STACK(DOWN_EXPERTS, "blk.%d.ffn_down_exps.weight", ROUTED, FF_EXPERT, EMBD),
    CR_TENSOR_MATRIX(GATE, "blk.%d.ffn_gate_shexp.weight", SHARED, EMBD, FF_SHARED),
    CR_TENSOR_MATRIX(UP, "blk.%d.ffn_up_shexp.weight", SHARED, EMBD, FF_SHARED),
    CR_TENSOR_MATRIX(DOWN, "blk.%d.ffn_down_shexp.weight", SHARED, FF_SHARED, EMBD),
};

const cr_arch cr_arch_granitemoe = { "granitemoe", read_hparams, cr_layer_attention, rules,
                                     CR_COUNT(rules) };

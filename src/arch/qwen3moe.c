/* qwen3moe: qwen3 whose feed-forwards are routed. Qwen 3's A3B and A22B models.
 *
 *     x += sum over the 8 of 128 experts with the largest p of w[e] * down[e](silu(gate[e] n) * up[e] n)
 *     p = softmax(router n), w = p of the 8 over their sum                         n = rmsnorm(x)
 *
 * Mistakes people make here:
 * - The softmax is over all experts, before the choice; then the weights of the chosen are divided
 *   by their sum. Without that, every layer adds too little, by another factor for each token.
 * - An expert is `expert_feed_forward_length` wide. `feed_forward_length` is there, but nothing has
 *   it.
 * - Attention is that of qwen3: norms of each head before the rotation, pairs are halves. */
#include "arch/arch.h"

static cera_status read_hparams(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_routed_decoder(keys, 1, CR_REQUIRED, hp));

    CR_TRY(cr_keys_rope(keys, CR_ROPE_HALVES, 10000.0f, &hp->rope));
    CR_TRY(cr_keys_refuse_number(keys, "expert_shared_feed_forward_length", 0));
    return cr_keys_refuse_number(keys, "attention.sliding_window", 0);
}

static const cr_rule rules[] = {
    CR_TENSOR_MATRIX(EMBED, "token_embd.weight", MODEL, EMBD, VOCAB),
    CR_TENSOR_MATRIX(OUTPUT, "output.weight", MODEL, EMBD, VOCAB, .optional = true),
    CR_TENSOR_VECTOR(OUTPUT_NORM, "output_norm.weight", MODEL, EMBD),

    CR_TENSOR_VECTOR(MIXER_NORM, "blk.%d.attn_norm.weight", EVERY_LAYER, EMBD),
    CR_TENSOR_MATRIX(Q, "blk.%d.attn_q.weight", EVERY_LAYER, EMBD, Q),
    CR_TENSOR_MATRIX(K, "blk.%d.attn_k.weight", EVERY_LAYER, EMBD, KV),
    CR_TENSOR_MATRIX(V, "blk.%d.attn_v.weight", EVERY_LAYER, EMBD, KV),
    CR_TENSOR_VECTOR(Q_NORM, "blk.%d.attn_q_norm.weight", EVERY_LAYER, HEAD),
    CR_TENSOR_VECTOR(K_NORM, "blk.%d.attn_k_norm.weight", EVERY_LAYER, HEAD),
    CR_TENSOR_MATRIX(ATTN_OUT, "blk.%d.attn_output.weight", EVERY_LAYER, Q, EMBD),

    CR_TENSOR_VECTOR(FFN_NORM, "blk.%d.ffn_norm.weight", EVERY_LAYER, EMBD),
    CR_TENSOR_MATRIX(GATE, "blk.%d.ffn_gate.weight", DENSE, EMBD, FF),
    CR_TENSOR_MATRIX(UP, "blk.%d.ffn_up.weight", DENSE, EMBD, FF),
    CR_TENSOR_MATRIX(DOWN, "blk.%d.ffn_down.weight", DENSE, FF, EMBD),
    CR_TENSOR_MATRIX(ROUTER, "blk.%d.ffn_gate_inp.weight", ROUTED, EMBD, EXPERTS),
    CR_TENSOR_STACK(GATE_EXPERTS, "blk.%d.ffn_gate_exps.weight", ROUTED, EMBD, FF_EXPERT),
    CR_TENSOR_STACK(UP_EXPERTS, "blk.%d.ffn_up_exps.weight", ROUTED, EMBD, FF_EXPERT),
    CR_TENSOR_STACK(DOWN_EXPERTS, "blk.%d.ffn_down_exps.weight", ROUTED, FF_EXPERT, EMBD),
};

const cr_arch cr_arch_qwen3moe = { "qwen3moe", read_hparams, cr_layer_attention, rules,
                                   CR_COUNT(rules) };

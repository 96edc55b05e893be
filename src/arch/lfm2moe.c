/* lfm2moe: lfm2 whose feed-forwards are routed, but for the first few. LFM2-8B-A1B and
 * LFM2.5-8B-A1B.
 *
 *     p = sigmoid(router n)          chosen: the 4 of 32 experts with the largest p + exp_probs_b
 *     x += sum over the chosen of w[e] * down[e](silu(gate[e] n) * up[e] n),  w = p / sum of the chosen p
 *
 * Mistakes people make here:
 * - The bias chooses; it is not in the weights. With it there, text stays fluent.
 * - Each p is a sigmoid of its own logit, not part of a softmax.
 * - The first `leading_dense_block_count` layers are dense, `feed_forward_length` wide; experts are
 *   `expert_feed_forward_length` wide.
 * - What lfm2.c says of norms, of the order b, c, x and of the convolution's state. */
#include "arch/arch.h"

static cera_status read_hparams(const cr_keys *keys, cr_hparams *hp)
{
    hp->routing.gating = CR_GATING_SIGMOID;
    CR_TRY(cr_keys_routed_decoder(keys, 0, CR_REQUIRED, hp));
    hp->n_taps = 3;
    CR_TRY(cr_keys_int(keys, "shortconv.l_cache", CR_OPTIONAL, 2, CR_MAX_TAPS, &hp->n_taps));

    CR_TRY(cr_keys_rope(keys, CR_ROPE_HALVES, 0, &hp->rope));
    CR_TRY(cr_keys_refuse_number(keys, "expert_shared_feed_forward_length", 0));
    return cr_keys_refuse_number(keys, "attention.sliding_window", 0);
}

static const cr_rule rules[] = {
    CR_TENSOR_MATRIX(EMBED, "token_embd.weight", MODEL, EMBD, VOCAB),
    CR_TENSOR_MATRIX(OUTPUT, "output.weight", MODEL, EMBD, VOCAB, .optional = true),
    CR_TENSOR_VECTOR(OUTPUT_NORM, "token_embd_norm.weight", MODEL, EMBD,
                     .alias = "output_norm.weight"),

    CR_TENSOR_VECTOR(MIXER_NORM, "blk.%d.attn_norm.weight", EVERY_LAYER, EMBD),

    CR_TENSOR_MATRIX(CONV_IN, "blk.%d.shortconv.in_proj.weight", CONV, EMBD, 3_EMBD),
    CR_TENSOR_VECTORS(CONV_TAPS, "blk.%d.shortconv.conv.weight", CONV, TAPS, EMBD),
    CR_TENSOR_MATRIX(CONV_OUT, "blk.%d.shortconv.out_proj.weight", CONV, EMBD, EMBD),

    CR_TENSOR_MATRIX(Q, "blk.%d.attn_q.weight", ATTENTION, EMBD, Q),
    CR_TENSOR_MATRIX(K, "blk.%d.attn_k.weight", ATTENTION, EMBD, KV),
    CR_TENSOR_MATRIX(V, "blk.%d.attn_v.weight", ATTENTION, EMBD, KV),
    CR_TENSOR_VECTOR(Q_NORM, "blk.%d.attn_q_norm.weight", ATTENTION, HEAD),
    CR_TENSOR_VECTOR(K_NORM, "blk.%d.attn_k_norm.weight", ATTENTION, HEAD),
    CR_TENSOR_MATRIX(ATTN_OUT, "blk.%d.attn_output.weight", ATTENTION, Q, EMBD),

    CR_TENSOR_VECTOR(FFN_NORM, "blk.%d.ffn_norm.weight", EVERY_LAYER, EMBD),
    CR_TENSOR_MATRIX(GATE, "blk.%d.ffn_gate.weight", DENSE, EMBD, FF),
    CR_TENSOR_MATRIX(UP, "blk.%d.ffn_up.weight", DENSE, EMBD, FF),
    CR_TENSOR_MATRIX(DOWN, "blk.%d.ffn_down.weight", DENSE, FF, EMBD),
    CR_TENSOR_MATRIX(ROUTER, "blk.%d.ffn_gate_inp.weight", ROUTED, EMBD, EXPERTS),
    CR_TENSOR_VECTOR(ROUTER_BIAS, "blk.%d.exp_probs_b.bias", ROUTED, EXPERTS),
    CR_TENSOR_STACK(GATE_EXPERTS, "blk.%d.ffn_gate_exps.weight", ROUTED, EMBD, FF_EXPERT),
    CR_TENSOR_STACK(UP_EXPERTS, "blk.%d.ffn_up_exps.weight", ROUTED, EMBD, FF_EXPERT),
    CR_TENSOR_STACK(DOWN_EXPERTS, "blk.%d.ffn_down_exps.weight", ROUTED, FF_EXPERT, EMBD),
};

static void layer(const cr_hparams *hp, int i, cr_layer *out)
{
    cr_layer_attention(hp, i, out);
    if (hp->n_head_kv[i] == 0)
        out->mixer = CR_MIXER_CONV;
}

const cr_arch cr_arch_lfm2moe = { "lfm2moe", read_hparams, layer, rules, CR_COUNT(rules) };

/* qwen3: llama with queries and keys normalised per head, and heads of their own width.
 *
 *     q = rope(rmsnorm(q_h)), k = rope(rmsnorm(k_h))      for each head h, before the rotation
 *
 * Mistakes people make here:
 * - The norm is over one head, with one weight of the head's width for all heads; not over the row.
 * - The head size is `attention.key_length` (128 in all published sizes), not n_embd / n_head: the
 *   query projection may be wider than the model.
 * - Rotation pairs are halves (x[i], x[i + n/2]), unlike llama's neighbours.
 * - There are no biases. */
#include "arch/arch.h"

static cera_status read_hparams(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_decoder(keys, 1, hp));

    CR_TRY(cr_keys_rope(keys, CR_ROPE_HALVES, 10000.0f, &hp->rope));
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
    CR_TENSOR_MATRIX(GATE, "blk.%d.ffn_gate.weight", EVERY_LAYER, EMBD, FF),
    CR_TENSOR_MATRIX(UP, "blk.%d.ffn_up.weight", EVERY_LAYER, EMBD, FF),
    CR_TENSOR_MATRIX(DOWN, "blk.%d.ffn_down.weight", EVERY_LAYER, FF, EMBD),
};

const cr_arch cr_arch_qwen3 = { "qwen3", read_hparams, cr_layer_attention, rules, CR_COUNT(rules) };

/* llama: the plain decoder. Llama 1 to 3.x, Mistral 7B, SmolLM and many others come as `llama`;
 * with `expert_count`, Mixtral too, whose feed-forwards are routed as in qwen3moe.c.
 *
 *     x += out(attention(rope(q), rope(k), v))      q, k, v = projections of rmsnorm(x)
 *     x += down(silu(gate(n)) * up(n))              n = rmsnorm(x)
 *
 * Mistakes people make here:
 * - Rotation pairs are neighbours (x[2i], x[2i+1]): whoever converts such a file permutes the rows
 *   of q and k for it. Rotating halves instead still reads fluently for a sentence or two.
 * - Without `rope.freq_base` the base is 10,000, not 1,000,000.
 * - The head size is `attention.key_length` where the file has it, not always n_embd / n_head.
 * - Llama 3.1 and later carry `rope_freqs.weight`, divisors of the frequencies; without them short
 *   prompts look right and long ones do not.
 * - Without `output.weight` the head is the embedding table. */
#include "arch/arch.h"

static cera_status read_hparams(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_routed_decoder(keys, 1, CR_OPTIONAL, hp));

    CR_TRY(cr_keys_rope(keys, CR_ROPE_PAIRS, 10000.0f, &hp->rope));
    CR_TRY(cr_keys_refuse_number(keys, "expert_shared_feed_forward_length", 0));
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
    CR_TENSOR_MATRIX(GATE, "blk.%d.ffn_gate.weight", DENSE, EMBD, FF),
    CR_TENSOR_MATRIX(UP, "blk.%d.ffn_up.weight", DENSE, EMBD, FF),
    CR_TENSOR_MATRIX(DOWN, "blk.%d.ffn_down.weight", DENSE, FF, EMBD),
    CR_TENSOR_VECTOR(GATE_BIAS, "blk.%d.ffn_gate.bias", DENSE, FF, .optional = true),
    CR_TENSOR_VECTOR(UP_BIAS, "blk.%d.ffn_up.bias", DENSE, FF, .optional = true),
    CR_TENSOR_VECTOR(DOWN_BIAS, "blk.%d.ffn_down.bias", DENSE, EMBD, .optional = true),
    CR_TENSOR_MATRIX(ROUTER, "blk.%d.ffn_gate_inp.weight", ROUTED, EMBD, EXPERTS),
    CR_TENSOR_STACK(GATE_EXPERTS, "blk.%d.ffn_gate_exps.weight", ROUTED, EMBD, FF_EXPERT),
    CR_TENSOR_STACK(UP_EXPERTS, "blk.%d.ffn_up_exps.weight", ROUTED, EMBD, FF_EXPERT),
    CR_TENSOR_STACK(DOWN_EXPERTS, "blk.%d.ffn_down_exps.weight", ROUTED, FF_EXPERT, EMBD),
};

const cr_arch cr_arch_llama = { "llama", read_hparams, cr_layer_attention, rules, CR_COUNT(rules) };

/* qwen2: llama with biases on queries, keys and values. Qwen 1.5 to 2.5, and what was made of them.
 *
 * Mistakes people make here:
 * - The biases are large. A file without them is damaged, and reads like noise.
 * - The output projection of attention has none. The head has one in a few files.
 * - Rotation pairs are halves (x[i], x[i + n/2]), unlike llama's neighbours.
 * - Small models are tied: without `output.weight` the head is the embedding table. */
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
    CR_TENSOR_VECTOR(OUTPUT_BIAS, "output.bias", MODEL, VOCAB, .optional = true),
    CR_TENSOR_VECTOR(OUTPUT_NORM, "output_norm.weight", MODEL, EMBD),

    CR_TENSOR_VECTOR(MIXER_NORM, "blk.%d.attn_norm.weight", EVERY_LAYER, EMBD),
    CR_TENSOR_MATRIX(Q, "blk.%d.attn_q.weight", EVERY_LAYER, EMBD, Q),
    CR_TENSOR_MATRIX(K, "blk.%d.attn_k.weight", EVERY_LAYER, EMBD, KV),
    CR_TENSOR_MATRIX(V, "blk.%d.attn_v.weight", EVERY_LAYER, EMBD, KV),
    CR_TENSOR_VECTOR(Q_BIAS, "blk.%d.attn_q.bias", EVERY_LAYER, Q),
    CR_TENSOR_VECTOR(K_BIAS, "blk.%d.attn_k.bias", EVERY_LAYER, KV),
    CR_TENSOR_VECTOR(V_BIAS, "blk.%d.attn_v.bias", EVERY_LAYER, KV),
    CR_TENSOR_MATRIX(ATTN_OUT, "blk.%d.attn_output.weight", EVERY_LAYER, Q, EMBD),

    CR_TENSOR_VECTOR(FFN_NORM, "blk.%d.ffn_norm.weight", EVERY_LAYER, EMBD),
    CR_TENSOR_MATRIX(GATE, "blk.%d.ffn_gate.weight", EVERY_LAYER, EMBD, FF),
    CR_TENSOR_MATRIX(UP, "blk.%d.ffn_up.weight", EVERY_LAYER, EMBD, FF),
    CR_TENSOR_MATRIX(DOWN, "blk.%d.ffn_down.weight", EVERY_LAYER, FF, EMBD),
};

const cr_arch cr_arch_qwen2 = { "qwen2", read_hparams, cr_layer_attention, rules, CR_COUNT(rules) };

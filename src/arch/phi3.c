/* phi3: llama with fused projections and, in its long versions, two sets of rope factors. Phi 3 to
 * 4.
 *
 * Mistakes people make here:
 * - `attn_qkv` holds the rows of q, then those of k, then those of v; `ffn_up` holds the gate
 *   first. Some files have q, k and v apart.
 * - `rope_factors_short` divides the frequencies within `rope.scaling.original_context_length`,
 *   `rope_factors_long` beyond it. One of them is for a whole session: what is rotated stays in the
 *   cache. A session of up to so many positions decides, not the length of a prompt.
 * - With either of them, what is rotated becomes larger by `rope.scaling.attn_factor`.
 * - Phi 4 mini rotates three quarters of a head (`rope.dimension_count`); pairs are halves of that
 *   part.
 * - `attention.sliding_window` is for every layer. */
#include "arch/arch.h"

static cera_status read_hparams(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_decoder(keys, 1, hp));
    CR_TRY(cr_keys_windows(keys, 0, 0, hp));
    return cr_keys_rope(keys, CR_ROPE_HALVES, 10000.0f, &hp->rope);
}

static const cr_rule rules[] = {
    CR_TENSOR_MATRIX(EMBED, "token_embd.weight", MODEL, EMBD, VOCAB),
    CR_TENSOR_MATRIX(OUTPUT, "output.weight", MODEL, EMBD, VOCAB, .optional = true),
    CR_TENSOR_VECTOR(OUTPUT_NORM, "output_norm.weight", MODEL, EMBD),
    CR_TENSOR_VECTOR(ROPE_SHORT, "rope_factors_short.weight", MODEL, ROPE_HALF, .optional = true),
    CR_TENSOR_VECTOR(ROPE_LONG, "rope_factors_long.weight", MODEL, ROPE_HALF, .optional = true),

    CR_TENSOR_VECTOR(MIXER_NORM, "blk.%d.attn_norm.weight", EVERY_LAYER, EMBD),
    CR_TENSOR_MATRIX(Q, "blk.%d.attn_qkv.weight", EVERY_LAYER, EMBD, Q, .part_of = CR_DIM_QKV,
                     .alias = "blk.%d.attn_q.weight"),
    CR_TENSOR_MATRIX(K, "blk.%d.attn_qkv.weight", EVERY_LAYER, EMBD, KV, .part_of = CR_DIM_QKV,
                     .part_at = CR_DIM_Q, .alias = "blk.%d.attn_k.weight"),
    CR_TENSOR_MATRIX(V, "blk.%d.attn_qkv.weight", EVERY_LAYER, EMBD, KV, .part_of = CR_DIM_QKV,
                     .part_at = CR_DIM_Q_KV, .alias = "blk.%d.attn_v.weight"),
    CR_TENSOR_MATRIX(ATTN_OUT, "blk.%d.attn_output.weight", EVERY_LAYER, Q, EMBD),

    CR_TENSOR_VECTOR(FFN_NORM, "blk.%d.ffn_norm.weight", EVERY_LAYER, EMBD),
    CR_TENSOR_MATRIX(GATE, "blk.%d.ffn_up.weight", EVERY_LAYER, EMBD, FF, .part_of = CR_DIM_2_FF),
    CR_TENSOR_MATRIX(UP, "blk.%d.ffn_up.weight", EVERY_LAYER, EMBD, FF, .part_of = CR_DIM_2_FF,
                     .part_at = CR_DIM_FF),
    CR_TENSOR_MATRIX(DOWN, "blk.%d.ffn_down.weight", EVERY_LAYER, FF, EMBD),
};

const cr_arch cr_arch_phi3 = { "phi3", read_hparams, cr_layer_attention, rules, CR_COUNT(rules) };

/* olmo2: llama with its norms behind the branches instead of before them. AI2's OLMo 2 and 3.
 *
 *     x += rmsnorm(out(attention(q, k, v)))      q = rope(rmsnorm(Wq x)), k = rope(rmsnorm(Wk x))
 *     x += rmsnorm(down(silu(gate(x)) * up(x)))
 *
 * Mistakes people make here:
 * - Nothing is normalised before a projection: q, k, v, gate and up read x itself.
 * - The norms of q and k are over the whole row, all heads together, with a weight for each
 *   element.
 * - OLMo 3 comes under this name too: of four layers, three see their last
 *   `attention.sliding_window` positions, and where positions are scaled, they are in the fourth
 *   only.
 * - Rotation pairs are halves (x[i], x[i + n/2]), unlike llama's neighbours. */
#include "arch/arch.h"

static cera_status read_hparams(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_decoder(keys, 1, hp));

    CR_TRY(cr_keys_rope(keys, CR_ROPE_HALVES, 10000.0f, &hp->rope));
    CR_TRY(cr_keys_windows(keys, 0, 4, hp));
    hp->rope_local = hp->rope;
    hp->rope_local.scaling = CR_ROPE_PLAIN;
    hp->rope_local.gain = 1.0f;
    return cr_keys_positive(keys, "rope.freq_base_swa", CR_OPTIONAL, &hp->rope_local.base);
}

static const cr_rule rules[] = {
    CR_TENSOR_MATRIX(EMBED, "token_embd.weight", MODEL, EMBD, VOCAB),
    CR_TENSOR_MATRIX(OUTPUT, "output.weight", MODEL, EMBD, VOCAB, .optional = true),
    CR_TENSOR_VECTOR(OUTPUT_NORM, "output_norm.weight", MODEL, EMBD),

    CR_TENSOR_MATRIX(Q, "blk.%d.attn_q.weight", EVERY_LAYER, EMBD, Q),
    CR_TENSOR_MATRIX(K, "blk.%d.attn_k.weight", EVERY_LAYER, EMBD, KV),
    CR_TENSOR_MATRIX(V, "blk.%d.attn_v.weight", EVERY_LAYER, EMBD, KV),
    CR_TENSOR_VECTOR(Q_NORM, "blk.%d.attn_q_norm.weight", EVERY_LAYER, Q),
    CR_TENSOR_VECTOR(K_NORM, "blk.%d.attn_k_norm.weight", EVERY_LAYER, KV),
    CR_TENSOR_MATRIX(ATTN_OUT, "blk.%d.attn_output.weight", EVERY_LAYER, Q, EMBD),
    CR_TENSOR_VECTOR(MIXER_POST_NORM, "blk.%d.post_attention_norm.weight", EVERY_LAYER, EMBD),

    CR_TENSOR_MATRIX(GATE, "blk.%d.ffn_gate.weight", EVERY_LAYER, EMBD, FF),
    CR_TENSOR_MATRIX(UP, "blk.%d.ffn_up.weight", EVERY_LAYER, EMBD, FF),
    CR_TENSOR_MATRIX(DOWN, "blk.%d.ffn_down.weight", EVERY_LAYER, FF, EMBD),
    CR_TENSOR_VECTOR(FFN_POST_NORM, "blk.%d.post_ffw_norm.weight", EVERY_LAYER, EMBD),
};

static void layer(const cr_hparams *hp, int i, cr_layer *out)
{
    cr_layer_attention(hp, i, out);
    if (out->window > 0)
        out->rope = &hp->rope_local;
}

const cr_arch cr_arch_olmo2 = { "olmo2", read_hparams, layer, rules, CR_COUNT(rules) };

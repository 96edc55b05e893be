/* exaone4: llama with its norms behind the branches, and one for each head. LG's EXAONE 4.0.
 *
 *     x += rmsnorm(out(attention(q, k, v)))      q = rope(rmsnorm(q_h)) for each head h; k likewise
 *     x += rmsnorm(down(silu(gate(x)) * up(x)))
 *
 * Mistakes people make here:
 * - Nothing is normalised before a projection, as in olmo2; but the norms of q and k are over a
 *   head.
 * - In the 32B model three of four layers see their last `attention.sliding_window` positions and
 *   rotate, and the fourth sees all of them and does not. In the 1.2B model, which has no window,
 *   every layer rotates.
 * - Rotation pairs are halves (x[i], x[i + n/2]), and their frequencies come with divisors
 *   (`rope_freqs.weight`), as in Llama 3.1. */
#include "arch/arch.h"

static cera_status read_hparams(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_decoder(keys, 1, hp));

    CR_TRY(cr_keys_rope(keys, CR_ROPE_HALVES, 10000.0f, &hp->rope));
    return cr_keys_windows(keys, 0, 4, hp);
}

static const cr_rule rules[] = {
    CR_TENSOR_MATRIX(EMBED, "token_embd.weight", MODEL, EMBD, VOCAB),
    CR_TENSOR_MATRIX(OUTPUT, "output.weight", MODEL, EMBD, VOCAB, .optional = true),
    CR_TENSOR_VECTOR(OUTPUT_NORM, "output_norm.weight", MODEL, EMBD),
    CR_TENSOR_VECTOR(ROPE_FACTORS, "rope_freqs.weight", MODEL, ROPE_HALF, .optional = true),

    CR_TENSOR_MATRIX(Q, "blk.%d.attn_q.weight", EVERY_LAYER, EMBD, Q),
    CR_TENSOR_MATRIX(K, "blk.%d.attn_k.weight", EVERY_LAYER, EMBD, KV),
    CR_TENSOR_MATRIX(V, "blk.%d.attn_v.weight", EVERY_LAYER, EMBD, KV),
    CR_TENSOR_VECTOR(Q_NORM, "blk.%d.attn_q_norm.weight", EVERY_LAYER, HEAD),
    CR_TENSOR_VECTOR(K_NORM, "blk.%d.attn_k_norm.weight", EVERY_LAYER, HEAD),
    CR_TENSOR_MATRIX(ATTN_OUT, "blk.%d.attn_output.weight", EVERY_LAYER, Q, EMBD),
    CR_TENSOR_VECTOR(MIXER_POST_NORM, "blk.%d.post_attention_norm.weight", EVERY_LAYER, EMBD),

    CR_TENSOR_MATRIX(GATE, "blk.%d.ffn_gate.weight", EVERY_LAYER, EMBD, FF),
    CR_TENSOR_MATRIX(UP, "blk.%d.ffn_up.weight", EVERY_LAYER, EMBD, FF),
    CR_TENSOR_MATRIX(DOWN, "blk.%d.ffn_down.weight", EVERY_LAYER, FF, EMBD),
    CR_TENSOR_VECTOR(FFN_POST_NORM, "blk.%d.post_ffw_norm.weight", EVERY_LAYER, EMBD),
};

static bool has_windows(const cr_hparams *hp)
{
    for (int i = 0; i < hp->n_layer; i++)
        if (hp->window[i] > 0)
            return true;
    return false;
}

static void layer(const cr_hparams *hp, int i, cr_layer *out)
{
    cr_layer_attention(hp, i, out);
    if (out->window == 0 && has_windows(hp))
        out->rope = NULL;
}

const cr_arch cr_arch_exaone4 = { "exaone4", read_hparams, layer, rules, CR_COUNT(rules) };

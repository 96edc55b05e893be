/* lfm2: Liquid's hybrid, LFM2 and LFM2.5. Most layers mix neighbouring tokens with a short gated
 * convolution, a few with attention; the rest of the block is that of llama.
 *
 *     convolution layer:  b, c, x = in(rmsnorm(h));  u = b * x;  h += out(c * conv(u))
 *     attention layer:    q and k are normalised per head before they are rotated
 *
 * Mistakes people make here:
 * - `token_embd_norm.weight` is the norm after the last layer, whatever its name says.
 * - `attention.head_count_kv` is an array with 0 for convolution layers.
 * - Rotation pairs are halves (x[i], x[i + n/2]), unlike llama's neighbours.
 * - The three parts of the input projection stand in the order b, c, x.
 * - Files of the embedding models among them (ColBERT, and those that attend in both directions)
 *   and of the audio detokenizer have the same architecture's name. They compute something else and
 *   are refused by their keys: `attention.causal`, `embedding_length_out`,
 *   `attention.sliding_window`.
 * - The convolution's state is the last n_taps - 1 values of u. It cannot be cut back like a cache:
 *   a session that rewinds has to restore it. */
#include "arch/arch.h"

static cera_status read_hparams(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_decoder(keys, 0, hp));
    hp->n_taps = 3;
    CR_TRY(cr_keys_int(keys, "shortconv.l_cache", CR_OPTIONAL, 2, CR_MAX_TAPS, &hp->n_taps));

    CR_TRY(cr_keys_rope(keys, CR_ROPE_HALVES, 0, &hp->rope));
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
    CR_TENSOR_MATRIX(GATE, "blk.%d.ffn_gate.weight", EVERY_LAYER, EMBD, FF),
    CR_TENSOR_MATRIX(UP, "blk.%d.ffn_up.weight", EVERY_LAYER, EMBD, FF),
    CR_TENSOR_MATRIX(DOWN, "blk.%d.ffn_down.weight", EVERY_LAYER, FF, EMBD),
};

static void layer(const cr_hparams *hp, int i, cr_layer *out)
{
    cr_layer_attention(hp, i, out);
    if (hp->n_head_kv[i] == 0)
        out->mixer = CR_MIXER_CONV;
}

const cr_arch cr_arch_lfm2 = { "lfm2", read_hparams, layer, rules, CR_COUNT(rules) };

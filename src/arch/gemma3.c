/* gemma3: gemma2 without caps, with normalised queries and keys, and two rotations.
 *
 *     x = sqrt(n_embd) * embedding
 *     x += rmsnorm(out(attention(rmsnorm(x))))       q = rope(rmsnorm(q_h)) for each head h; k likewise
 *     x += rmsnorm(down(gelu(gate(n)) * up(n)))      n = rmsnorm(x)
 *
 * Mistakes people make here:
 * - Of six layers, five see their last `attention.sliding_window` positions and rotate with a base
 *   of `rope.freq_base_swa`, 10,000 unless the file has it; the sixth sees all and has
 *   `rope.freq_base`, a million. Where positions are scaled (`rope.scaling.factor`), they are in
 *   the sixth only.
 * - The gate is GELU in its tanh form, not SiLU.
 * - The published norm weights are offsets from 1, those of q and k too; whoever converts such a
 *   file has added the 1.
 * - The 27B model scales scores by 1 / sqrt(n_embd / n_head), which is not its head size; its files
 *   do not say so.
 * - Rotation pairs are halves (x[i], x[i + n/2]), unlike llama's neighbours. */
#include "arch/arch.h"

#include <math.h>

enum { N_LAYER_27B = 62 };

static cera_status read_hparams(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_decoder(keys, 1, hp));
    CR_TRY(cr_keys_windows(keys, 0, 6, hp));
    hp->embed_scale = sqrtf((float)hp->n_embd);
    hp->gate = CR_GATE_GELU;

    if (hp->n_layer == N_LAYER_27B)
        hp->attn_scale = 1.0f / sqrtf((float)(hp->n_embd / hp->n_head));
    CR_TRY(cr_keys_positive(keys, "attention.scale", CR_OPTIONAL, &hp->attn_scale));
    CR_TRY(cr_keys_positive(keys, "final_logit_softcapping", CR_OPTIONAL, &hp->logit_cap));

    CR_TRY(cr_keys_rope(keys, CR_ROPE_HALVES, 0, &hp->rope));
    hp->rope_local = hp->rope;
    hp->rope_local.scaling = CR_ROPE_PLAIN;
    hp->rope_local.gain = 1.0f;
    hp->rope_local.base = 10000.0f;
    return cr_keys_positive(keys, "rope.freq_base_swa", CR_OPTIONAL, &hp->rope_local.base);
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
    CR_TENSOR_VECTOR(MIXER_POST_NORM, "blk.%d.post_attention_norm.weight", EVERY_LAYER, EMBD),

    CR_TENSOR_VECTOR(FFN_NORM, "blk.%d.ffn_norm.weight", EVERY_LAYER, EMBD),
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

const cr_arch cr_arch_gemma3 = { "gemma3", read_hparams, layer, rules, CR_COUNT(rules) };

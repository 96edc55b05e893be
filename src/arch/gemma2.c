/* gemma2: norms before and behind each branch, soft caps, a window in every other layer.
 *
 *     x = sqrt(n_embd) * embedding
 *     x += rmsnorm(out(attention(rmsnorm(x))))       scores = cap(q k / sqrt(head size))
 *     x += rmsnorm(down(gelu(gate(n)) * up(n)))      n = rmsnorm(x)
 *     logits = cap(embedding table * rmsnorm(x))     cap(s) = c tanh(s / c)
 *
 * Mistakes people make here:
 * - The gate is GELU in its tanh form, not SiLU.
 * - The published norm weights are offsets from 1; whoever converts such a file has added the 1.
 * - The head is the embedding table without the sqrt(n_embd).
 * - Even layers see their last `attention.sliding_window` positions, odd ones all.
 * - The cap of the scores comes after their scale and before the softmax.
 * - The 27B model scales scores by 1 / sqrt(n_embd / n_head), which is not its head size; its files
 *   do not say so.
 * - Rotation pairs are halves (x[i], x[i + n/2]), unlike llama's neighbours. */
#include "arch/arch.h"

#include <math.h>

enum { N_LAYER_27B = 46 };

static cera_status read_hparams(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_decoder(keys, 1, hp));
    CR_TRY(cr_keys_windows(keys, 4096, 2, hp));
    hp->embed_scale = sqrtf((float)hp->n_embd);
    hp->gate = CR_GATE_GELU;

    if (hp->n_layer == N_LAYER_27B)
        hp->attn_scale = 1.0f / sqrtf((float)(hp->n_embd / hp->n_head));
    CR_TRY(cr_keys_positive(keys, "attention.scale", CR_OPTIONAL, &hp->attn_scale));
    hp->attn_cap = 50.0f;
    hp->logit_cap = 30.0f;
    CR_TRY(cr_keys_positive(keys, "attn_logit_softcapping", CR_OPTIONAL, &hp->attn_cap));
    CR_TRY(cr_keys_positive(keys, "final_logit_softcapping", CR_OPTIONAL, &hp->logit_cap));

    return cr_keys_rope(keys, CR_ROPE_HALVES, 10000.0f, &hp->rope);
}

static const cr_rule rules[] = {
    CR_TENSOR_MATRIX(EMBED, "token_embd.weight", MODEL, EMBD, VOCAB),
    CR_TENSOR_MATRIX(OUTPUT, "output.weight", MODEL, EMBD, VOCAB, .optional = true),
    CR_TENSOR_VECTOR(OUTPUT_NORM, "output_norm.weight", MODEL, EMBD),

    CR_TENSOR_VECTOR(MIXER_NORM, "blk.%d.attn_norm.weight", EVERY_LAYER, EMBD),
    CR_TENSOR_MATRIX(Q, "blk.%d.attn_q.weight", EVERY_LAYER, EMBD, Q),
    CR_TENSOR_MATRIX(K, "blk.%d.attn_k.weight", EVERY_LAYER, EMBD, KV),
    CR_TENSOR_MATRIX(V, "blk.%d.attn_v.weight", EVERY_LAYER, EMBD, KV),
    CR_TENSOR_MATRIX(ATTN_OUT, "blk.%d.attn_output.weight", EVERY_LAYER, Q, EMBD),
    CR_TENSOR_VECTOR(MIXER_POST_NORM, "blk.%d.post_attention_norm.weight", EVERY_LAYER, EMBD),

    CR_TENSOR_VECTOR(FFN_NORM, "blk.%d.ffn_norm.weight", EVERY_LAYER, EMBD),
    CR_TENSOR_MATRIX(GATE, "blk.%d.ffn_gate.weight", EVERY_LAYER, EMBD, FF),
    CR_TENSOR_MATRIX(UP, "blk.%d.ffn_up.weight", EVERY_LAYER, EMBD, FF),
    CR_TENSOR_MATRIX(DOWN, "blk.%d.ffn_down.weight", EVERY_LAYER, FF, EMBD),
    CR_TENSOR_VECTOR(FFN_POST_NORM, "blk.%d.post_ffw_norm.weight", EVERY_LAYER, EMBD),
};

const cr_arch cr_arch_gemma2 = { "gemma2", read_hparams, cr_layer_attention, rules,
                                 CR_COUNT(rules) };

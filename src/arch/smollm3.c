/* smollm3: llama in which every fourth layer has no positions.
 *
 * Mistakes people make here:
 * - No key says which layers: 3, 7, 11, ... do not rotate, in all published files.
 * - Rotating them too still reads well: near positions differ little.
 * - Rotation pairs are neighbours, as in llama; whoever converts such a file permutes q and k. */
#include "arch/arch.h"

enum { STEP = 4 };

static cera_status read_hparams(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_decoder(keys, 1, hp));

    CR_TRY(cr_keys_rope(keys, CR_ROPE_PAIRS, 10000.0f, &hp->rope));
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
    CR_TENSOR_MATRIX(ATTN_OUT, "blk.%d.attn_output.weight", EVERY_LAYER, Q, EMBD),

    CR_TENSOR_VECTOR(FFN_NORM, "blk.%d.ffn_norm.weight", EVERY_LAYER, EMBD),
    CR_TENSOR_MATRIX(GATE, "blk.%d.ffn_gate.weight", EVERY_LAYER, EMBD, FF),
    CR_TENSOR_MATRIX(UP, "blk.%d.ffn_up.weight", EVERY_LAYER, EMBD, FF),
    CR_TENSOR_MATRIX(DOWN, "blk.%d.ffn_down.weight", EVERY_LAYER, FF, EMBD),
};

static void layer(const cr_hparams *hp, int i, cr_layer *out)
{
    cr_layer_attention(hp, i, out);
    if ((i + 1) % STEP == 0)
        out->rope = NULL;
}

const cr_arch cr_arch_smollm3 = { "smollm3", read_hparams, layer, rules, CR_COUNT(rules) };

/* granitehybrid: granite with the state spaces of mamba2 in most layers, attention in a few; some
 * have the experts of granitemoe. IBM's Granite 4.0 H, and Bamba.
 *
 *     state-space layer:  x += residual_scale * out(rmsnorm(y * silu(z)))
 *     all layers, dense:  x += residual_scale * down(silu(gate(n)) * up(n))      n = rmsnorm(x)
 *             or routed:  x += residual_scale * (moe + shared(n))
 *
 * Mistakes people make here:
 * - `attention.head_count_kv` is an array with 0 for state-space layers.
 * - Granite's attention has no positions at all: `rope.scaling.finetuned` = false says so, while
 *   Bamba's rotates. Rotating still reads fluently.
 * - The four scales are those of granite. Bamba has none; a Granite file without `logit_scale` is
 *   damaged. */
#include "arch/arch.h"

static cera_status read_hparams(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_routed_decoder(keys, 0, CR_OPTIONAL, hp));
    CR_TRY(cr_keys_int(keys, "expert_shared_feed_forward_length", CR_OPTIONAL, 0, CR_MAX_WIDTH,
                       &hp->n_ff_shared));
    CR_TRY(cr_keys_ssm(keys, hp));
    CR_TRY(cr_keys_refuse_number(keys, "attention.sliding_window", 0));

    bool rotates = true;
    CR_TRY(cr_keys_bool(keys, "rope.scaling.finetuned", CR_OPTIONAL, &rotates));
    CR_TRY(cr_keys_scales(keys, rotates ? CR_OPTIONAL : CR_REQUIRED, hp));
    if (rotates)
        return cr_keys_rope(keys, CR_ROPE_PAIRS, 10000.0f, &hp->rope);
    hp->rope.n_dims = 0;
    return CERA_OK;
}

static const cr_rule rules[] = {
    CR_TENSOR_MATRIX(EMBED, "token_embd.weight", MODEL, EMBD, VOCAB),
    CR_TENSOR_MATRIX(OUTPUT, "output.weight", MODEL, EMBD, VOCAB, .optional = true),
    CR_TENSOR_VECTOR(OUTPUT_NORM, "output_norm.weight", MODEL, EMBD),

    CR_TENSOR_VECTOR(MIXER_NORM, "blk.%d.attn_norm.weight", EVERY_LAYER, EMBD),

    CR_TENSOR_MATRIX(SSM_IN, "blk.%d.ssm_in.weight", SSM, EMBD, SSM_IN),
    CR_TENSOR_VECTORS(SSM_TAPS, "blk.%d.ssm_conv1d.weight", SSM, TAPS, SSM_CONV),
    CR_TENSOR_VECTOR(SSM_TAPS_BIAS, "blk.%d.ssm_conv1d.bias", SSM, SSM_CONV, .optional = true),
    CR_TENSOR_VECTOR(SSM_STEP_BIAS, "blk.%d.ssm_dt.bias", SSM, SSM_HEADS),
    CR_TENSOR_VECTORS(SSM_DECAY, "blk.%d.ssm_a", SSM, NONE, SSM_HEADS),
    CR_TENSOR_VECTORS(SSM_SKIP, "blk.%d.ssm_d", SSM, NONE, SSM_HEADS),
    CR_TENSOR_VECTORS(SSM_NORM, "blk.%d.ssm_norm.weight", SSM, SSM_GROUP, SSM_GROUPS),
    CR_TENSOR_MATRIX(SSM_OUT, "blk.%d.ssm_out.weight", SSM, SSM_INNER, EMBD),

    CR_TENSOR_MATRIX(Q, "blk.%d.attn_q.weight", ATTENTION, EMBD, Q),
    CR_TENSOR_MATRIX(K, "blk.%d.attn_k.weight", ATTENTION, EMBD, KV),
    CR_TENSOR_MATRIX(V, "blk.%d.attn_v.weight", ATTENTION, EMBD, KV),
    CR_TENSOR_VECTOR(Q_BIAS, "blk.%d.attn_q.bias", ATTENTION, Q, .optional = true),
    CR_TENSOR_VECTOR(K_BIAS, "blk.%d.attn_k.bias", ATTENTION, KV, .optional = true),
    CR_TENSOR_VECTOR(V_BIAS, "blk.%d.attn_v.bias", ATTENTION, KV, .optional = true),
    CR_TENSOR_MATRIX(ATTN_OUT, "blk.%d.attn_output.weight", ATTENTION, Q, EMBD),
    CR_TENSOR_VECTOR(ATTN_OUT_BIAS, "blk.%d.attn_output.bias", ATTENTION, EMBD, .optional = true),

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
    CR_TENSOR_MATRIX(GATE, "blk.%d.ffn_gate_shexp.weight", SHARED, EMBD, FF_SHARED),
    CR_TENSOR_MATRIX(UP, "blk.%d.ffn_up_shexp.weight", SHARED, EMBD, FF_SHARED),
    CR_TENSOR_MATRIX(DOWN, "blk.%d.ffn_down_shexp.weight", SHARED, FF_SHARED, EMBD),
};

static void layer(const cr_hparams *hp, int i, cr_layer *out)
{
    cr_layer_attention(hp, i, out);
    if (hp->n_head_kv[i] == 0)
        out->mixer = CR_MIXER_SSM;
    if (hp->rope.n_dims == 0)
        out->rope = NULL;
}

const cr_arch cr_arch_granitehybrid = { "granitehybrid", read_hparams, layer, rules,
                                        CR_COUNT(rules) };

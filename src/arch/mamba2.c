/* mamba2: no attention, no feed-forward; every layer is a state space.
 *
 *     h += out(rmsnorm(y * silu(z)))        y: the recurrence of backend/cpu/op_ssm.c, of rmsnorm(h)
 *
 * Mistakes people make here:
 * - The input projection gives z, x, b, c, step in this order; the convolution takes x, b and c.
 * - `ssm_a` holds -exp(A_log), ready for use; `ssm_dt.bias` is added before the softplus.
 * - The gate comes before the norm, and the norm is over each group of channels on its own.
 * - `ssm.time_step_rank` is the number of heads.
 * - A file has head_count = 0 and feed_forward_length = 0.
 * - The state cannot be cut back like a cache: a session that rewinds has to restore it. */
#include "arch/arch.h"

static cera_status read_hparams(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_model(keys, hp));
    CR_TRY(cr_keys_ssm(keys, hp));
    CR_TRY(cr_keys_refuse_number(keys, "attention.head_count", 0));
    return cr_keys_refuse_number(keys, "feed_forward_length", 0);
}

static const cr_rule rules[] = {
    CR_TENSOR_MATRIX(EMBED, "token_embd.weight", MODEL, EMBD, VOCAB),
    CR_TENSOR_MATRIX(OUTPUT, "output.weight", MODEL, EMBD, VOCAB, .optional = true),
    CR_TENSOR_VECTOR(OUTPUT_NORM, "output_norm.weight", MODEL, EMBD),

    CR_TENSOR_VECTOR(MIXER_NORM, "blk.%d.attn_norm.weight", EVERY_LAYER, EMBD),
    CR_TENSOR_MATRIX(SSM_IN, "blk.%d.ssm_in.weight", SSM, EMBD, SSM_IN),
    CR_TENSOR_VECTORS(SSM_TAPS, "blk.%d.ssm_conv1d.weight", SSM, TAPS, SSM_CONV),
    CR_TENSOR_VECTOR(SSM_TAPS_BIAS, "blk.%d.ssm_conv1d.bias", SSM, SSM_CONV),
    CR_TENSOR_VECTOR(SSM_STEP_BIAS, "blk.%d.ssm_dt.bias", SSM, SSM_HEADS),
    CR_TENSOR_VECTORS(SSM_DECAY, "blk.%d.ssm_a", SSM, NONE, SSM_HEADS),
    CR_TENSOR_VECTORS(SSM_SKIP, "blk.%d.ssm_d", SSM, NONE, SSM_HEADS),
    CR_TENSOR_VECTORS(SSM_NORM, "blk.%d.ssm_norm.weight", SSM, SSM_GROUP, SSM_GROUPS),
    CR_TENSOR_MATRIX(SSM_OUT, "blk.%d.ssm_out.weight", SSM, SSM_INNER, EMBD),
};

static void layer(const cr_hparams *hp, int i, cr_layer *out)
{
    (void)hp;
    (void)i;
    *out = (cr_layer){ .mixer = CR_MIXER_SSM };
}

const cr_arch cr_arch_mamba2 = { "mamba2", read_hparams, layer, rules, CR_COUNT(rules) };

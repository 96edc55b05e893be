/* Reading hyper-parameters. */
#include "model/keys.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

enum { MAX_KEY = 128 };

typedef struct full_key {
    char text[MAX_KEY];
} full_key;

static full_key join(const cr_keys *keys, const char *key)
{
    full_key full;
    snprintf(full.text, sizeof full.text, "%s.%s", keys->prefix, key);
    return full;
}

/* Whether a value is an integer, and which. */
static bool to_integer(const cera_value *value, int64_t *out)
{
    switch (value->type) {
    case CERA_VALUE_U8:
    case CERA_VALUE_U16:
    case CERA_VALUE_U32:
    case CERA_VALUE_U64:
        if (value->as.u > INT64_MAX)
            return false;
        *out = (int64_t)value->as.u;
        return true;
    case CERA_VALUE_I8:
    case CERA_VALUE_I16:
    case CERA_VALUE_I32:
    case CERA_VALUE_I64:
        *out = value->as.i;
        return true;
    case CERA_VALUE_F32:
    case CERA_VALUE_F64:
    case CERA_VALUE_BOOL:
    case CERA_VALUE_STRING:
    case CERA_VALUE_ARRAY:
        break;
    }
    return false;
}

static cera_status integer_in(const cr_keys *keys, const char *name, const cera_value *value,
                              int min, int max, int *out)
{
    int64_t n;
    if (!to_integer(value, &n))
        return cr_fail(keys->err, CERA_E_FORMAT, "%s: expected an integer", name);
    if (n < min || n > max)
        return cr_fail(keys->err, CERA_E_FORMAT, "%s: expected %d to %d, found %lld", name, min,
                       max, (long long)n);
    *out = (int)n;
    return CERA_OK;
}

static cera_status absent(const cr_keys *keys, const char *name, cr_need need)
{
    if (need == CR_OPTIONAL)
        return CERA_OK;
    return cr_fail(keys->err, CERA_E_FORMAT, "%s: the key is missing", name);
}

cera_status cr_keys_int(const cr_keys *keys, const char *key, cr_need need, int min, int max,
                        int *out)
{
    full_key name = join(keys, key);
    cera_value value;
    if (!cr_gguf_find(keys->file, name.text, &value))
        return absent(keys, name.text, need);
    return integer_in(keys, name.text, &value, min, max, out);
}

cera_status cr_keys_bool(const cr_keys *keys, const char *key, cr_need need, bool *out)
{
    full_key name = join(keys, key);
    return cr_gguf_get_bool(keys->file, name.text, need, out, keys->err);
}

cera_status cr_keys_positive(const cr_keys *keys, const char *key, cr_need need, float *out)
{
    full_key name = join(keys, key);
    float number = NAN;
    cera_value value;
    if (!cr_gguf_find(keys->file, name.text, &value))
        return absent(keys, name.text, need);
    CR_TRY(cr_gguf_get_f32(keys->file, name.text, need, &number, keys->err));
    if (!isfinite(number) || number <= 0)
        return cr_fail(keys->err, CERA_E_FORMAT, "%s: expected a finite positive number, found %g",
                       name.text, (double)number);
    *out = number;
    return CERA_OK;
}

cera_status cr_keys_not_negative(const cr_keys *keys, const char *key, float *out)
{
    full_key name = join(keys, key);
    float number = *out;
    CR_TRY(cr_gguf_get_f32(keys->file, name.text, CR_OPTIONAL, &number, keys->err));
    if (!isfinite(number) || number < 0)
        return cr_fail(keys->err, CERA_E_FORMAT,
                       "%s: expected a finite number of at least 0, found %g", name.text,
                       (double)number);
    *out = number;
    return CERA_OK;
}

cera_status cr_keys_int_per_layer(const cr_keys *keys, const char *key, cr_need need, int min,
                                  int max, int *out, int n)
{
    full_key name = join(keys, key);
    cera_value value;
    if (!cr_gguf_find(keys->file, name.text, &value))
        return absent(keys, name.text, need);
    if (value.type == CERA_VALUE_ARRAY && value.count != (uint64_t)n)
        return cr_fail(keys->err, CERA_E_FORMAT, "%s: expected %d elements, found %llu", name.text,
                       n, (unsigned long long)value.count);
    for (int i = 0; i < n; i++) {
        cera_value element = value;
        if (value.type == CERA_VALUE_ARRAY)
            cr_gguf_element(&value, (uint64_t)i, &element);
        CR_TRY(integer_in(keys, name.text, &element, min, max, &out[i]));
    }
    return CERA_OK;
}

static cera_status read_scaling_type(const cr_keys *keys, bool has_factor, cr_rope_scaling *out)
{
    full_key name = join(keys, "rope.scaling.type");
    /* Files from before there were types have a factor only. */
    cr_str type = cr_str_from(has_factor ? "linear" : "none");
    CR_TRY(cr_gguf_get_str(keys->file, name.text, CR_OPTIONAL, &type, keys->err));
    if (cr_str_is(type, "none"))
        *out = CR_ROPE_PLAIN;
    else if (cr_str_is(type, "longrope"))
        *out = CR_ROPE_LONG;
    else if (cr_str_is(type, "linear"))
        *out = CR_ROPE_LINEAR;
    else if (cr_str_is(type, "yarn"))
        *out = CR_ROPE_YARN;
    else
        return cr_fail(keys->err, CERA_E_UNSUPPORTED, "%s: \"%.*s\" is not supported", name.text,
                       (int)CR_MIN(type.size, 64), type.data);
    return CERA_OK;
}

static bool has(const cr_keys *keys, const char *key)
{
    full_key name = join(keys, key);
    cera_value value;
    return cr_gguf_find(keys->file, name.text, &value);
}

/* YaRN makes what it rotates larger by this, for a factor s, over the same for a `share` of the
 * logarithm where the file has one ("mscale" and "mscale_all_dim" of published configurations). A
 * gain that the file has itself ("attention_factor") stands in place of both. */
static float yarn_gain(float s, float share)
{
    return s <= 1 ? 1.0f : 0.1f * share * logf(s) + 1.0f;
}

static cera_status read_yarn(const cr_keys *keys, cr_rotary *rope)
{
    rope->beta_fast = 32.0f;
    rope->beta_slow = 1.0f;
    CR_TRY(cr_keys_positive(keys, "rope.scaling.yarn_beta_fast", CR_OPTIONAL, &rope->beta_fast));
    CR_TRY(cr_keys_positive(keys, "rope.scaling.yarn_beta_slow", CR_OPTIONAL, &rope->beta_slow));
    CR_TRY(cr_keys_refuse_number(keys, "rope.scaling.yarn_ext_factor", 1));
    float share = 0;
    CR_TRY(cr_keys_not_negative(keys, "rope.scaling.yarn_log_multiplier", &share));
    float inferred = yarn_gain(rope->factor, 1) / (share > 0 ? yarn_gain(rope->factor, share) : 1);
    if (!has(keys, "rope.scaling.attn_factor"))
        rope->gain = inferred;
    return cr_keys_positive(keys, "rope.scaling.yarn_attn_factor", CR_OPTIONAL, &rope->gain);
}

cera_status cr_keys_rope(const cr_keys *keys, cr_rope_style style, float base, cr_rotary *rope)
{
    rope->style = style;
    rope->base = base;
    CR_TRY(cr_keys_positive(keys, "rope.freq_base", base > 0 ? CR_OPTIONAL : CR_REQUIRED,
                            &rope->base));
    float factor = 0;
    CR_TRY(cr_keys_positive(keys, "rope.scale_linear", CR_OPTIONAL, &factor)); /* the old name */
    CR_TRY(cr_keys_positive(keys, "rope.scaling.factor", CR_OPTIONAL, &factor));
    CR_TRY(read_scaling_type(keys, factor > 0, &rope->scaling));
    rope->factor = factor > 0 ? factor : 1.0f;
    rope->gain = 1.0f;
    CR_TRY(cr_keys_positive(keys, "rope.scaling.attn_factor", CR_OPTIONAL, &rope->gain));
    CR_TRY(cr_keys_int(keys, "rope.scaling.original_context_length", CR_OPTIONAL, 1, CR_MAX_CONTEXT,
                       &rope->n_context_first));
    return rope->scaling == CR_ROPE_YARN ? read_yarn(keys, rope) : CERA_OK;
}

cera_status cr_keys_temperature(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_not_negative(keys, "attention.temperature_scale", &hp->temperature));
    hp->temperature_length = hp->rope.n_context_first;
    return cr_keys_int(keys, "attention.temperature_length", CR_OPTIONAL, 1, CR_MAX_CONTEXT,
                       &hp->temperature_length);
}

/* What attention.sliding_window_pattern says of layer i, if it is a list. */
static cera_status has_window(const cr_keys *keys, const char *name, const cera_value *pattern,
                              int i, bool *out)
{
    cera_value element;
    cr_gguf_element(pattern, (uint64_t)i, &element);
    if (element.type == CERA_VALUE_BOOL) {
        *out = element.as.b;
        return CERA_OK;
    }
    int number = 0;
    CR_TRY(integer_in(keys, name, &element, 0, 1, &number));
    *out = number != 0;
    return CERA_OK;
}

cera_status cr_keys_windows(const cr_keys *keys, int window, int period, cr_hparams *hp)
{
    CR_TRY(cr_keys_int(keys, "attention.sliding_window", CR_OPTIONAL, 0, CR_MAX_CONTEXT, &window));
    full_key name = join(keys, "attention.sliding_window_pattern");
    cera_value pattern = { 0 };
    bool is_list =
        cr_gguf_find(keys->file, name.text, &pattern) && pattern.type == CERA_VALUE_ARRAY;
    if (is_list && pattern.count != (uint64_t)hp->n_layer)
        return cr_fail(keys->err, CERA_E_FORMAT, "%s: expected %d elements, found %llu", name.text,
                       hp->n_layer, (unsigned long long)pattern.count);
    if (!is_list)
        CR_TRY(cr_keys_int(keys, "attention.sliding_window_pattern", CR_OPTIONAL, 0, CR_MAX_LAYERS,
                           &period));
    for (int i = 0; i < hp->n_layer; i++) {
        bool limited = period == 0 || i % period < period - 1;
        if (is_list)
            CR_TRY(has_window(keys, name.text, &pattern, i, &limited));
        hp->window[i] = limited ? window : 0;
    }
    return CERA_OK;
}

static cera_status read_heads(const cr_keys *keys, int min_head_kv, cr_hparams *hp)
{
    CR_TRY(cr_keys_int(keys, "attention.head_count", CR_REQUIRED, 1, CR_MAX_HEADS, &hp->n_head));
    for (int i = 0; i < hp->n_layer; i++)
        hp->n_head_kv[i] = hp->n_head;
    cr_need need = min_head_kv == 0 ? CR_REQUIRED : CR_OPTIONAL;
    CR_TRY(cr_keys_int_per_layer(keys, "attention.head_count_kv", need, min_head_kv, hp->n_head,
                                 hp->n_head_kv, hp->n_layer));
    for (int i = 0; i < hp->n_layer; i++) {
        int n = hp->n_head_kv[i];
        if (n > 0 && hp->n_head % n != 0)
            return cr_fail(keys->err, CERA_E_FORMAT,
                           "%s.attention.head_count_kv: expected a divisor of %d heads, found %d",
                           keys->prefix, hp->n_head, n);
    }

    hp->head_dim = hp->n_embd / hp->n_head;
    if (hp->n_embd % hp->n_head != 0)
        hp->head_dim = 0; /* then the file has to say */
    cr_need need_dim = hp->head_dim > 0 ? CR_OPTIONAL : CR_REQUIRED;
    CR_TRY(cr_keys_int(keys, "attention.key_length", need_dim, 1, CR_MAX_HEAD_DIM, &hp->head_dim));
    return cr_keys_refuse_number(keys, "attention.value_length", hp->head_dim);
}

/* The embedding table says how many tokens there are; the key, where it exists, must agree. */
static cera_status read_vocab(const cr_keys *keys, cr_hparams *hp)
{
    const cr_tensor *table = cr_gguf_find_tensor(keys->file, "token_embd.weight");
    if (!table)
        return cr_fail(keys->err, CERA_E_FORMAT, "token_embd.weight: the tensor is missing");
    if (table->shape[1] > CR_MAX_VOCAB)
        return cr_fail(keys->err, CERA_E_LIMIT, "token_embd.weight: at most %d rows, found %llu",
                       CR_MAX_VOCAB, (unsigned long long)table->shape[1]);
    hp->n_vocab = (int)table->shape[1];
    int n_key = hp->n_vocab;
    CR_TRY(cr_keys_int(keys, "vocab_size", CR_OPTIONAL, 1, CR_MAX_VOCAB, &n_key));
    if (n_key == hp->n_vocab)
        return CERA_OK;
    return cr_fail(keys->err, CERA_E_FORMAT, "%s.vocab_size: %d, but token_embd.weight has %d rows",
                   keys->prefix, n_key, hp->n_vocab);
}

cera_status cr_keys_model(const cr_keys *keys, cr_hparams *hp)
{
    CR_TRY(cr_keys_int(keys, "block_count", CR_REQUIRED, 1, CR_MAX_LAYERS, &hp->n_layer));
    CR_TRY(cr_keys_int(keys, "context_length", CR_REQUIRED, 1, CR_MAX_CONTEXT, &hp->n_context));
    CR_TRY(cr_keys_int(keys, "embedding_length", CR_REQUIRED, 1, CR_MAX_WIDTH, &hp->n_embd));
    CR_TRY(cr_keys_refuse_number(keys, "embedding_length_out", hp->n_embd));
    CR_TRY(read_vocab(keys, hp));
    CR_TRY(cr_keys_positive(keys, "attention.layer_norm_rms_epsilon", CR_REQUIRED, &hp->norm_eps));
    hp->embed_scale = hp->residual_scale = hp->logit_scale = 1.0f;
    return CERA_OK;
}

cera_status cr_keys_scales(const cr_keys *keys, cr_need logit_scale, cr_hparams *hp)
{
    CR_TRY(cr_keys_positive(keys, "embedding_scale", CR_OPTIONAL, &hp->embed_scale));
    CR_TRY(cr_keys_positive(keys, "residual_scale", CR_OPTIONAL, &hp->residual_scale));
    CR_TRY(cr_keys_positive(keys, "attention.scale", CR_OPTIONAL, &hp->attn_scale));
    CR_TRY(cr_keys_positive(keys, "logit_scale", logit_scale, &hp->logit_scale));
    hp->logit_scale = 1.0f / hp->logit_scale; /* the file has a divisor */
    return CERA_OK;
}

static cera_status want_divisor(const cr_keys *keys, const char *key, int found, const char *of,
                                int whole)
{
    if (whole % found == 0)
        return CERA_OK;
    return cr_fail(keys->err, CERA_E_FORMAT, "%s.%s: expected a divisor of %d %s, found %d",
                   keys->prefix, key, whole, of, found);
}

cera_status cr_keys_ssm(const cr_keys *keys, cr_hparams *hp)
{
    cr_ssm *ssm = &hp->ssm;
    CR_TRY(cr_keys_int(keys, "ssm.conv_kernel", CR_REQUIRED, 2, CR_MAX_TAPS, &hp->n_taps));
    CR_TRY(cr_keys_int(keys, "ssm.inner_size", CR_REQUIRED, 1, CR_MAX_WIDTH, &ssm->n_inner));
    CR_TRY(cr_keys_int(keys, "ssm.state_size", CR_REQUIRED, 1, CR_MAX_STATE, &ssm->n_state));
    CR_TRY(cr_keys_int(keys, "ssm.time_step_rank", CR_REQUIRED, 1, CR_MAX_HEADS, &ssm->n_head));
    CR_TRY(cr_keys_int(keys, "ssm.group_count", CR_REQUIRED, 1, CR_MAX_HEADS, &ssm->n_group));
    CR_TRY(want_divisor(keys, "ssm.time_step_rank", ssm->n_head, "channels", ssm->n_inner));
    CR_TRY(want_divisor(keys, "ssm.group_count", ssm->n_group, "heads", ssm->n_head));
    int64_t n = (int64_t)ssm->n_inner * ssm->n_state * hp->n_layer;
    if (n <= CR_MAX_RECURRENT_FLOATS)
        return CERA_OK;
    return cr_fail(keys->err, CERA_E_LIMIT,
                   "%s.ssm.state_size: %d channels in %d layers: at most %d numbers, found %lld",
                   keys->prefix, ssm->n_inner, hp->n_layer, CR_MAX_RECURRENT_FLOATS, (long long)n);
}

static cera_status read_decoder(const cr_keys *keys, int min_head_kv, cr_hparams *hp)
{
    CR_TRY(cr_keys_refuse_number(keys, "attention.causal", 1));
    CR_TRY(cr_keys_refuse_number(keys, "attention.clamp_kqv", 0));

    CR_TRY(cr_keys_model(keys, hp));
    CR_TRY(cr_keys_int(keys, "feed_forward_length", CR_REQUIRED, 1, CR_MAX_WIDTH, &hp->n_ff));
    CR_TRY(read_heads(keys, min_head_kv, hp));
    hp->attn_scale = 1.0f / sqrtf((float)hp->head_dim);

    hp->rope.n_context_first = hp->n_context;
    hp->rope.n_dims = hp->head_dim;
    CR_TRY(
        cr_keys_int(keys, "rope.dimension_count", CR_OPTIONAL, 2, hp->head_dim, &hp->rope.n_dims));
    if (hp->rope.n_dims % 2 == 0)
        return CERA_OK;
    return cr_fail(keys->err, CERA_E_FORMAT,
                   "%s.rope.dimension_count: expected an even number, "
                   "found %d",
                   keys->prefix, hp->rope.n_dims);
}

cera_status cr_keys_decoder(const cr_keys *keys, int min_head_kv, cr_hparams *hp)
{
    CR_TRY(cr_keys_refuse_number(keys, "expert_count", 0));
    return read_decoder(keys, min_head_kv, hp);
}

static cera_status read_gating(const cr_keys *keys, cr_gating *out)
{
    enum { SOFTMAX = 1, SIGMOID = 2 }; /* in files */
    int function = *out == CR_GATING_SIGMOID ? SIGMOID : SOFTMAX;
    CR_TRY(cr_keys_int(keys, "expert_gating_func", CR_OPTIONAL, 0, INT_MAX, &function));
    if (function != SOFTMAX && function != SIGMOID)
        return cr_fail(keys->err, CERA_E_UNSUPPORTED,
                       "%s.expert_gating_func: only 1 (softmax) and 2 (sigmoid) are supported, "
                       "found %d",
                       keys->prefix, function);
    *out = function == SIGMOID ? CR_GATING_SIGMOID : CR_GATING_SOFTMAX;
    return CERA_OK;
}

cera_status cr_keys_routed_decoder(const cr_keys *keys, int min_head_kv, cr_need need,
                                   cr_hparams *hp)
{
    cr_routing *r = &hp->routing;
    CR_TRY(read_decoder(keys, min_head_kv, hp));
    CR_TRY(cr_keys_int(keys, "expert_count", need, need == CR_REQUIRED ? 1 : 0, CR_MAX_EXPERTS,
                       &r->n_expert));
    if (r->n_expert == 0)
        return CERA_OK;
    CR_TRY(cr_keys_int(keys, "expert_used_count", CR_REQUIRED, 1, r->n_expert, &r->n_used));
    r->n_ff = hp->n_ff;
    CR_TRY(cr_keys_int(keys, "expert_feed_forward_length", CR_OPTIONAL, 1, CR_MAX_WIDTH, &r->n_ff));
    CR_TRY(cr_keys_int(keys, "leading_dense_block_count", CR_OPTIONAL, 0, hp->n_layer,
                       &hp->n_layer_dense));
    CR_TRY(read_gating(keys, &r->gating));
    r->normalized = true;
    CR_TRY(cr_keys_bool(keys, "expert_weights_norm", CR_OPTIONAL, &r->normalized));
    r->scale = 1.0f;
    CR_TRY(cr_keys_positive(keys, "expert_weights_scale", CR_OPTIONAL, &r->scale));
    return cr_keys_refuse_number(keys, "expert_group_count", 0);
}

cera_status cr_keys_refuse_number(const cr_keys *keys, const char *key, double neutral)
{
    full_key name = join(keys, key);
    cera_value value;
    if (!cr_gguf_find(keys->file, name.text, &value))
        return CERA_OK;
    int64_t n;
    double number = to_integer(&value, &n)                                         ? (double)n
                    : value.type == CERA_VALUE_F32 || value.type == CERA_VALUE_F64 ? value.as.f
                    : value.type == CERA_VALUE_BOOL ? (double)value.as.b
                                                    : NAN;
    if (number == neutral)
        return CERA_OK;
    return cr_fail(keys->err, CERA_E_UNSUPPORTED, "%s: only %g is supported, found %g", name.text,
                   neutral, number);
}

/* Binding tensors: the one place where a tensor of the file is held against what the model needs.
 *
 * Whatever a kernel will read has been through here: the name exists, the type can be computed, and
 * the shape follows from the hyper-parameters. */
#include "model/block.h"

#include <stdio.h>

typedef struct binder {
    const cr_gguf *file;
    const cr_arch *arch;
    const cr_hparams *hp;
    cr_arena *arena;
    cera_error *err;
} binder;

static uint64_t dim_value(const cr_hparams *hp, cr_dim dim, int layer)
{
    uint64_t embd = (uint64_t)hp->n_embd, head = (uint64_t)hp->head_dim;
    switch (dim) {
    case CR_DIM_NONE:
        return 1;
    case CR_DIM_EMBD:
        return embd;
    case CR_DIM_3_EMBD:
        return 3 * embd;
    case CR_DIM_FF:
        return (uint64_t)hp->n_ff;
    case CR_DIM_VOCAB:
        return (uint64_t)hp->n_vocab;
    case CR_DIM_HEAD:
        return head;
    case CR_DIM_Q:
        return (uint64_t)hp->n_head * head;
    case CR_DIM_KV:
        return (uint64_t)hp->n_head_kv[layer] * head;
    case CR_DIM_Q_KV:
        return ((uint64_t)hp->n_head + (uint64_t)hp->n_head_kv[layer]) * head;
    case CR_DIM_QKV:
        return ((uint64_t)hp->n_head + 2 * (uint64_t)hp->n_head_kv[layer]) * head;
    case CR_DIM_2_FF:
        return 2 * (uint64_t)hp->n_ff;
    case CR_DIM_TAPS:
        return (uint64_t)hp->n_taps;
    case CR_DIM_SSM_IN:
        return cr_ssm_in_width(&hp->ssm);
    case CR_DIM_SSM_CONV:
        return cr_ssm_conv_width(&hp->ssm);
    case CR_DIM_SSM_INNER:
        return (uint64_t)hp->ssm.n_inner;
    case CR_DIM_SSM_HEADS:
        return (uint64_t)hp->ssm.n_head;
    case CR_DIM_SSM_GROUPS:
        return (uint64_t)hp->ssm.n_group;
    case CR_DIM_SSM_GROUP:
        return (uint64_t)(hp->ssm.n_inner / hp->ssm.n_group);
    case CR_DIM_ROPE_HALF:
        return (uint64_t)hp->rope.n_dims / 2;
    case CR_DIM_EXPERTS:
        return (uint64_t)hp->routing.n_expert;
    case CR_DIM_FF_EXPERT:
        return (uint64_t)hp->routing.n_ff;
    case CR_DIM_FF_SHARED:
        return (uint64_t)hp->n_ff_shared;
    }
    return 0;
}

static cera_status check_type(const binder *b, const cr_rule *rule, const cr_tensor *tensor)
{
    char unknown[16];
    const char *type = cr_type_id_name(tensor->type_id, unknown);
    if (tensor->type == CR_TYPE_COUNT)
        return cr_fail(b->err, CERA_E_UNSUPPORTED, "%s: unsupported element type %s",
                       tensor->name.data, type);
    if (rule->shape == CR_VECTOR && tensor->type != CR_TYPE_F32)
        return cr_fail(b->err, CERA_E_UNSUPPORTED, "%s: expected element type F32, found %s",
                       tensor->name.data, type);
    return CERA_OK;
}

/* How many matrices a tensor holds. */
static uint64_t n_stacked(const binder *b, const cr_rule *rule)
{
    return rule->shape == CR_STACK ? (uint64_t)b->hp->routing.n_expert : 1;
}

static cera_status check_shape(const binder *b, const cr_rule *rule, int layer, bool is_part,
                               const cr_tensor *tensor)
{
    cr_dim rows = is_part ? rule->part_of : rule->dims[1];
    uint64_t want[4] = { dim_value(b->hp, rule->dims[0], layer), dim_value(b->hp, rows, layer),
                         n_stacked(b, rule), 1 };
    bool equal = true;
    for (int i = 0; i < 4; i++)
        equal = equal && tensor->shape[i] == want[i];
    if (equal)
        return CERA_OK;
    int n_dims = rule->shape == CR_STACK ? 3 : rule->dims[1] != CR_DIM_NONE ? 2 : 1;
    return cr_fail(b->err, CERA_E_FORMAT, "%s: expected %s, file has %s", tensor->name.data,
                   cr_gguf_show_shape(want, n_dims).text,
                   cr_gguf_show_shape(tensor->shape, tensor->n_dims).text);
}

static const cr_tensor *find(const binder *b, const char *pattern, int layer, char name[128])
{
    if (!pattern)
        return NULL;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* patterns are constants of arch/ files */
    snprintf(name, 128, pattern, layer);
#pragma GCC diagnostic pop
    return cr_gguf_find_tensor(b->file, name);
}

static cera_status bind_rule(const binder *b, const cr_rule *rule, int layer,
                             const cr_weight **slot)
{
    char name[128], alias[128];
    const cr_tensor *tensor = find(b, rule->name, layer, name);
    bool is_part = tensor && rule->part_of != CR_DIM_NONE;
    if (!tensor)
        tensor = find(b, rule->alias, layer, alias);
    if (!tensor && rule->optional)
        return CERA_OK;
    if (!tensor)
        return cr_fail(b->err, CERA_E_FORMAT, "%s: the tensor is missing", name);
    CR_TRY(check_type(b, rule, tensor));
    CR_TRY(check_shape(b, rule, layer, is_part, tensor));

    cr_weight *weight = cr_arena_alloc(b->arena, sizeof *weight);
    if (!weight)
        return cr_fail_nomem(b->err, sizeof *weight, "a tensor record");
    size_t cols = (size_t)tensor->shape[0];
    size_t row_bytes = cr_type_bytes(cr_type_get(tensor->type), cols), first = 0;
    if (is_part && rule->part_at != CR_DIM_NONE)
        first = (size_t)dim_value(b->hp, rule->part_at, layer);
    *weight = (cr_weight){
        .name = tensor->name.data,
        .type = tensor->type,
        .n_cols = cols,
        .n_rows = (size_t)(dim_value(b->hp, rule->dims[1], layer) * n_stacked(b, rule)),
        .row_bytes = row_bytes,
        .data = tensor->data + first * row_bytes,
    };
    *slot = weight;
    return CERA_OK;
}

static bool applies(const binder *b, const cr_rule *rule, int layer)
{
    static const cr_where where[] = {
        [CR_MIXER_ATTENTION] = CR_IN_ATTENTION,
        [CR_MIXER_CONV] = CR_IN_CONV,
        [CR_MIXER_SSM] = CR_IN_SSM,
    };
    if (rule->where == CR_IN_EVERY_LAYER)
        return true;
    cr_layer recipe;
    b->arch->layer(b->hp, layer, &recipe);
    if (rule->where == CR_IN_SHARED)
        return recipe.routed && b->hp->n_ff_shared > 0;
    return rule->where == where[recipe.mixer] ||
           rule->where == (recipe.routed ? CR_IN_ROUTED : CR_IN_DENSE);
}

/* A layer has biases on queries, keys and values, or on none of them: a file that lost one would
 * still read fluently. */
static cera_status check_biases(const binder *b, const cr_weight *const *slots, int layer)
{
    static const struct {
        cr_slot slot;
        const char *name;
    } biases[] = { { CR_SLOT_Q_BIAS, "q" }, { CR_SLOT_K_BIAS, "k" }, { CR_SLOT_V_BIAS, "v" } };
    int n = 0;
    for (size_t i = 0; i < CR_COUNT(biases); i++)
        n += slots[biases[i].slot] != NULL;
    for (size_t i = 0; i < CR_COUNT(biases) && n > 0; i++) {
        if (!slots[biases[i].slot])
            return cr_fail(b->err, CERA_E_FORMAT,
                           "blk.%d.attn_%s.bias: the tensor is missing, others have theirs", layer,
                           biases[i].name);
    }
    return CERA_OK;
}

cera_status cr_bind(const cr_gguf *file, const cr_arch *arch, const cr_hparams *hparams,
                    cr_arena *arena, cr_tensors *out, cera_error *err)
{
    binder b = { file, arch, hparams, arena, err };
    size_t n_layer = (size_t)hparams->n_layer;
    cr_tensors tensors = { .layer = cr_arena_array(arena, n_layer, sizeof *tensors.layer) };
    if (!tensors.layer)
        return cr_fail_nomem(err, n_layer * sizeof *tensors.layer, "the tensor table");

    for (size_t r = 0; r < arch->n_rules; r++) {
        const cr_rule *rule = &arch->rules[r];
        if (rule->where == CR_IN_MODEL) {
            CR_TRY(bind_rule(&b, rule, 0, &tensors.global[rule->slot]));
            continue;
        }
        for (int i = 0; i < hparams->n_layer; i++) {
            if (applies(&b, rule, i))
                CR_TRY(bind_rule(&b, rule, i, &tensors.layer[i][rule->slot]));
        }
    }
    for (int i = 0; i < hparams->n_layer; i++)
        CR_TRY(check_biases(&b, tensors.layer[i], i));
    *out = tensors;
    return CERA_OK;
}

#include "convert/peft.h"

#include "convert/hf_arch.h"
#include "convert/name_pattern.h"

#include <errno.h>
#include <stdlib.h>

static const char CONFIG[] = "adapter_config.json", TENSORS[] = "adapter_model.safetensors";

/* ---- the folder -------------------------------------------------------------------------- */

bool cr_peft_is(cr_host *host, const char *path, cr_str *folder)
{
    cr_str whole = cr_str_from(path);
    if (cr_str_ends(whole, ".safetensors")) {
        while (whole.size > 0 && whole.data[whole.size - 1] != '/')
            whole.size--;
        *folder = whole.size > 0 ? whole : cr_str_from(".");
        return true;
    }
    /* What is no folder has no file in it. */
    cr_folder at = { .host = host, .path = path };
    cr_arena_init(&at.arena, host, CR_MEM_SCRATCH);
    const char *config = cr_folder_path(&at, cr_str_from(CONFIG));
    const cera_os *os = &host->os;
    void *file;
    bool is = config && os->open(os->ctx, config, &file) == 0;
    if (is)
        os->close(os->ctx, file);
    cr_arena_done(&at.arena);
    *folder = whole;
    return is;
}

/* ---- the configuration ------------------------------------------------------------------- */

/* Members that say nothing about the result; those that are read; and values that change nothing of
 * members that would. */
static const char *const told[] = {
    "task_type",
    "auto_mapping",
    "peft_version",
    "base_model_name_or_path",
    "revision",
    "inference_mode",
    "target_modules",
    "target_parameters",
    "exclude_modules",
    "lora_dropout",
    "layers_to_transform",
    "layers_pattern",
    "rank_pattern",
    "r",
    "megatron_config",
    "megatron_core",
    "qalora_group_size",
    "loftq_config",
    "eva_config",
    "corda_config",
    "lora_ga_config",
    "peft_type",
    "lora_alpha",
    "alpha_pattern",
    "use_rslora",
};
static const struct {
    const char *member, *value;
} harmless[] = {
    { "bias", "none" },
    { "init_lora_weights", "gaussian" },
    { "init_lora_weights", "orthogonal" },
    { "init_lora_weights", "eva" },
};

static bool is_nothing(const cr_json *value)
{
    bool is_empty =
        (value->kind == CR_JSON_ARRAY || value->kind == CR_JSON_OBJECT) && value->n == 0;
    return is_empty || value->kind == CR_JSON_NULL || value->kind == CR_JSON_FALSE ||
           (value->kind == CR_JSON_STRING && value->text.size == 0);
}

static bool is_harmless(const cr_json *member)
{
    if (cr_str_is(member->key, "init_lora_weights") && member->kind == CR_JSON_TRUE)
        return true;
    for (size_t i = 0; i < CR_COUNT(told); i++)
        if (cr_str_is(member->key, told[i]))
            return true;
    for (size_t i = 0; i < CR_COUNT(harmless); i++)
        if (cr_str_is(member->key, harmless[i].member) &&
            cr_str_is(cr_json_str(member), harmless[i].value))
            return true;
    return is_nothing(member);
}

typedef struct settings {
    float alpha;
    uint32_t rank; /* 0: it does not say, and shapes do */
    bool by_root;
    cr_name_patterns alphas, ranks; /* of some modules */
} settings;

static void settings_done(settings *s)
{
    cr_name_patterns_done(&s->alphas);
    cr_name_patterns_done(&s->ranks);
}

static cera_status read_config(cr_peft *peft, const cr_json *config, settings *out, cera_error *err)
{
    const char *path = peft->folder.path;
    cr_str type = cr_json_str(cr_json_get(config, "peft_type"));
    if (!cr_str_is(type, "LORA"))
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: peft_type: expected \"LORA\", found \"%.*s\"",
                       path, (int)CR_MIN(type.size, (size_t)32), type.data);
    for (const cr_json *m = cr_json_first(config, CR_JSON_OBJECT); m; m = m->next) {
        if (!is_harmless(m))
            return cr_fail(err, CERA_E_UNSUPPORTED, "%s: %s: %.*s: this setting is not supported",
                           path, CONFIG, (int)CR_MIN(m->key.size, (size_t)64), m->key.data);
    }
    if (!cr_json_f32(cr_json_get(config, "lora_alpha"), &out->alpha) || out->alpha == 0)
        return cr_fail(err, CERA_E_FORMAT, "%s: %s: lora_alpha: expected a number other than 0",
                       path, CONFIG);
    const cr_json *rank = cr_json_get(config, "r");
    if (rank && (!cr_json_u32(rank, &out->rank) || out->rank == 0))
        return cr_fail(err, CERA_E_FORMAT, "%s: %s: r: expected a whole number above 0", path,
                       CONFIG);
    out->by_root = cr_json_bool(cr_json_get(config, "use_rslora"), false);
    CR_TRY(cr_name_patterns_init(&out->alphas, &peft->folder, config, "alpha_pattern", err));
    return cr_name_patterns_init(&out->ranks, &peft->folder, config, "rank_pattern", err);
}

static cera_status fail_value(const cr_name_patterns *patterns, const cr_json *member,
                              const char *expected, cera_error *err)
{
    return cr_fail(err, CERA_E_FORMAT, "%s: %s: %.*s: expected a %s", patterns->path,
                   patterns->name, (int)CR_MIN(member->key.size, (size_t)64), member->key.data,
                   expected);
}

static cera_status alpha_of(settings *s, cr_str module, float *out, cera_error *err)
{
    const cr_json *own;
    CR_TRY(cr_name_patterns_find(&s->alphas, module, &own, err));
    *out = s->alpha;
    if (own && (!cr_json_f32(own, out) || *out == 0))
        return fail_value(&s->alphas, own, "number other than 0", err);
    return CERA_OK;
}

/* Alpha is divided by the rank that training had, so one that the tensors do not have is no mistake
 * to pass over. */
static cera_status check_rank(settings *s, cr_str module, uint64_t rank, cera_error *err)
{
    const cr_json *own;
    CR_TRY(cr_name_patterns_find(&s->ranks, module, &own, err));
    uint32_t expected = s->rank;
    if (own && (!cr_json_u32(own, &expected) || expected == 0))
        return fail_value(&s->ranks, own, "whole number above 0", err);
    if (expected == 0 || expected == rank)
        return CERA_OK;
    return cr_fail(err, CERA_E_FORMAT,
                   "%s: %.*s: expected rank %u, as %s says, its tensors have %llu", s->ranks.path,
                   (int)CR_MIN(module.size, (size_t)128), module.data, expected,
                   own ? "rank_pattern" : "r", (unsigned long long)rank);
}

/* ---- tensors ----------------------------------------------------------------------------- */

/* What A and B are called. */
static const struct {
    const char *a, *b;
    bool is_embedding;
} ends[] = {
    { ".lora_A.weight", ".lora_B.weight", false },
    { ".lora_embedding_A", ".lora_embedding_B", true },
};

/* The model's tensors that a module of Hugging Face's became. */
static int find_targets(const cr_peft_model *model, cr_str module, cr_hf_target out[2])
{
    char name[CR_GGUF_MAX_NAME + 8];
    size_t n = CR_MIN(module.size, (size_t)CR_GGUF_MAX_NAME);
    memcpy(name, module.data, n);
    memcpy(name + n, ".weight", sizeof ".weight");
    int n_targets = 0;
    const cr_hf_arch *row = NULL;
    while (n_targets == 0 && (row = cr_hf_next(row, model->arch, model->has_experts)) != NULL)
        n_targets = cr_hf_targets(row, cr_str_from(name), out);
    return n_targets;
}

/* A and B, and what they are for. */
typedef struct lora {
    cr_tensor a, b;
    bool is_embedding, is_fused;
    cr_str module; /* its name, of a stack that of the parameter */
    cr_hf_target targets[2];
    int n_targets;
} lora;

static cera_status add_pair(cr_peft *peft, settings *s, const lora *l, const cr_hf_target *target,
                            cera_error *err)
{
    cr_adapter_pair pair = {
        .a = l->a,
        .b = l->b,
        .by_root = s->by_root,
        .expert = target->expert,
        .is_turned = l->is_embedding,
        .is_fused = l->is_fused,
    };
    switch (target->change) {
    case CR_HF_AS_IS:
        break;
    case CR_HF_PAIRS_Q:
    case CR_HF_PAIRS_K:
        pair.from_halves = true;
        break;
    case CR_HF_HALF_0:
    case CR_HF_HALF_1:
        pair.part = target->change == CR_HF_HALF_1;
        pair.n_parts = 2;
        break;
    default:
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: %s: this tensor cannot be adapted",
                       peft->folder.path, l->a.name.data);
    }
    CR_TRY(check_rank(s, l->module, l->b.shape[l->is_fused ? 1 : 0], err));
    CR_TRY(alpha_of(s, l->module, &pair.alpha, err));
    size_t n = strlen(target->name);
    pair.name = (cr_str){ cr_arena_copy(&peft->folder.arena, target->name, n), n };
    if (!pair.name.data)
        return cr_fail_nomem(err, n, "the name of a tensor");
    peft->content.pairs[peft->content.n_pairs++] = pair;
    return CERA_OK;
}

/* ---- stacks of experts ------------------------------------------------------------------- */

/* Parameters of a module called experts, with what PEFT calls a pair for any of them. Of two, the
 * pair of one is called experts.base_layer; which one is for the shapes to say. */
static const char *const parameters[] = { ".gate_up_proj", ".down_proj" };

/* Whether a pair has the shapes of a stack: A is [n_expert * rank, n_cols] and B [n_rows, rank *
 * n_expert]. Older versions of PEFT took rows for columns, and no member of the configuration tells
 * them apart: *is_both where the numbers fit either. */
static bool fits_stack(const cr_peft_model *model, const lora *l, bool *is_both)
{
    const cr_tensor *stack =
        l->n_targets > 0 ? cr_gguf_find_tensor(model->file, l->targets[0].name) : NULL;
    if (!stack || stack->n_dims != 3)
        return false;
    uint64_t n_cols = stack->shape[0], n_rows = stack->shape[1] * (uint64_t)l->n_targets;
    *is_both = n_cols == n_rows;
    return l->a.shape[0] == n_cols && l->b.shape[1] == n_rows && l->a.shape[1] == l->b.shape[0] &&
           l->b.shape[0] % stack->shape[2] == 0;
}

/* Whether a pair is for a stack, by its targets, or by its name when it has none of its own: then
 * they are found. */
static cera_status find_stack(cr_peft *peft, const cr_peft_model *model, lora *l, cera_error *err)
{
    cr_str module = l->module;
    if (cr_str_ends(module, ".base_layer"))
        module.size -= strlen(".base_layer");
    bool by_module = cr_str_ends(module, ".experts"), is_both = false, fits = false;
    const cr_tensor *first = l->n_targets > 0 && l->targets[0].expert < 0
                                 ? cr_gguf_find_tensor(model->file, l->targets[0].name)
                                 : NULL;
    if (!by_module && (!first || first->n_dims != 3))
        return CERA_OK;
    if (!by_module)
        fits = fits_stack(model, l, &is_both);
    for (size_t i = 0; i < CR_COUNT(parameters) && by_module && !fits; i++) {
        size_t n = strlen(parameters[i]);
        char *name = cr_arena_array(&peft->folder.arena, module.size + n + 1, 1);
        if (!name)
            return cr_fail_nomem(err, module.size, "the name of a parameter");
        memcpy(name, module.data, module.size);
        memcpy(name + module.size, parameters[i], n);
        l->module = (cr_str){ name, module.size + n };
        l->n_targets = find_targets(model, l->module, l->targets);
        fits = fits_stack(model, l, &is_both);
    }
    if (!fits || is_both)
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: %s: %s", peft->folder.path, l->a.name.data,
                       fits ? "rows and columns of these experts cannot be told apart"
                            : "no experts of the model have these shapes");
    uint64_t n_expert = cr_gguf_find_tensor(model->file, l->targets[0].name)->shape[2];
    uint64_t rank = l->b.shape[0] / n_expert, n_rows = l->b.shape[1];
    memcpy(l->a.shape + 1, (uint64_t[2]){ rank, n_expert }, 2 * sizeof rank);
    memcpy(l->b.shape, (uint64_t[3]){ n_expert, rank, n_rows }, 3 * sizeof rank);
    l->a.n_dims = l->b.n_dims = 3;
    l->is_fused = true;
    return CERA_OK;
}

/* ---- pairs ------------------------------------------------------------------------------- */

/* Tensors a and b, which follow each other in the order of names. */
static cera_status add_tensors(cr_peft *peft, settings *s, const cr_peft_model *model,
                               const cr_tensor *a, const cr_tensor *b, cera_error *err)
{
    static const char PREFIX[] = "base_model.model.";
    cr_str stem = a->name;
    size_t k = 0;
    while (k < CR_COUNT(ends) && !cr_str_ends(stem, ends[k].a) && !cr_str_ends(stem, ends[k].b))
        k++;
    if (k == CR_COUNT(ends))
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: %s: this kind of tensor is not supported",
                       peft->folder.path, a->name.data);
    stem.size -= strlen(ends[k].a); /* as long as that of B */
    bool is_pair = b && cr_str_ends(a->name, ends[k].a) && cr_str_ends(b->name, ends[k].b) &&
                   b->name.size == a->name.size && memcmp(b->name.data, stem.data, stem.size) == 0;
    if (!is_pair)
        return cr_fail(err, CERA_E_FORMAT, "%s: %s has no %s beside it", peft->folder.path,
                       a->name.data, cr_str_ends(a->name, ends[k].a) ? ends[k].b : ends[k].a);
    if (a->n_dims != 2 || b->n_dims != 2)
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: %s: expected two dimensions",
                       peft->folder.path, (a->n_dims != 2 ? a : b)->name.data);
    size_t n_prefix = strlen(PREFIX);
    if (stem.size > n_prefix && memcmp(stem.data, PREFIX, n_prefix) == 0)
        stem = (cr_str){ stem.data + n_prefix, stem.size - n_prefix };
    lora l = { .a = *a, .b = *b, .is_embedding = ends[k].is_embedding, .module = stem };
    l.n_targets = find_targets(model, stem, l.targets);
    CR_TRY(find_stack(peft, model, &l, err));
    if (l.n_targets == 0 || l.targets[0].name[0] == '\0')
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: %s: no such tensor is known for %s",
                       peft->folder.path, a->name.data, model->arch);
    for (int i = 0; i < l.n_targets; i++)
        CR_TRY(add_pair(peft, s, &l, &l.targets[i], err));
    return CERA_OK;
}

static int by_name(const void *x, const void *y)
{
    return strcmp((*(const cr_tensor *const *)x)->name.data,
                  (*(const cr_tensor *const *)y)->name.data);
}

static cera_status read_tensors(cr_peft *peft, settings *s, const cr_peft_model *model,
                                cera_error *err)
{
    size_t n = peft->file.n_tensors;
    cr_arena *arena = &peft->folder.arena;
    const cr_tensor **order = cr_arena_array(arena, n + 1, sizeof *order);
    peft->content.pairs = cr_arena_array(arena, n + 1, sizeof *peft->content.pairs);
    if (!order || !peft->content.pairs)
        return cr_fail_nomem(err, n * sizeof *order, "the list of an adapter's tensors");
    for (size_t i = 0; i < n; i++)
        order[i] = &peft->file.tensors[i];
    qsort(order, n, sizeof *order, by_name);
    for (size_t i = 0; i < n; i += 2)
        CR_TRY(add_tensors(peft, s, model, order[i], i + 1 < n ? order[i + 1] : NULL, err));
    return n > 0 ? CERA_OK
                 : cr_fail(err, CERA_E_FORMAT, "%s: it has no tensors", peft->folder.path);
}

/* ---- both -------------------------------------------------------------------------------- */

static cera_status read_with(cr_peft *peft, const cr_json *config, settings *s,
                             const cr_peft_model *model, cera_error *err)
{
    CR_TRY(read_config(peft, config, s, err));
    const char *path = cr_folder_path(&peft->folder, cr_str_from(TENSORS));
    if (!path)
        return cr_fail_nomem(err, 0, TENSORS);
    CR_TRY(cr_safetensors_open(&peft->file, &peft->folder.arena, path, err));
    return read_tensors(peft, s, model, err);
}

static cera_status read_folder(cr_peft *peft, const cr_peft_model *model, cera_error *err)
{
    const cr_json *config;
    CR_TRY(cr_folder_json(&peft->folder, CONFIG, true, &config, err));
    settings s = { .alpha = 0 };
    cera_status status = read_with(peft, config, &s, model, err);
    settings_done(&s);
    return status;
}

cera_status cr_peft_open(cr_peft *peft, cr_host *host, const char *path, const cr_peft_model *model,
                         cera_error *err)
{
    *peft = (cr_peft){ .folder = { .host = host, .path = path }, .content = { .path = path } };
    cr_arena_init(&peft->folder.arena, host, CR_MEM_SCRATCH);
    cera_status status = read_folder(peft, model, err);
    if (status != CERA_OK)
        cr_peft_close(peft);
    return status;
}

void cr_peft_close(cr_peft *peft)
{
    cr_safetensors_close(&peft->file);
    cr_arena_done(&peft->folder.arena);
    *peft = (cr_peft){ .content = { .path = NULL } };
}

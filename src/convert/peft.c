#include "convert/peft.h"

#include "convert/hf_arch.h"
#include "convert/name_pattern.h"

#include <errno.h>
#include <stdlib.h>

static const char CONFIG[] = "adapter_config.json", TENSORS[] = "adapter_model.safetensors";

/* ---- the folder -------------------------------------------------------------------------- */

static bool ends_in(cr_str text, const char *end)
{
    size_t n = strlen(end);
    return text.size >= n && memcmp(text.data + text.size - n, end, n) == 0;
}

bool cr_peft_is(cr_host *host, const char *path, cr_str *folder)
{
    cr_str whole = cr_str_from(path);
    if (ends_in(whole, ".safetensors")) {
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

/* Alpha is divided by the rank that training had, so one that the tensors do not have is no mistake to
 * pass over. */
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
static int find_targets(const char *arch, bool has_experts, cr_str module, cr_hf_target out[2])
{
    char name[CR_GGUF_MAX_NAME + 8];
    size_t n = CR_MIN(module.size, (size_t)CR_GGUF_MAX_NAME);
    memcpy(name, module.data, n);
    memcpy(name + n, ".weight", sizeof ".weight");
    int n_targets = 0;
    const cr_hf_arch *row = NULL;
    while (n_targets == 0 && (row = cr_hf_next(row, arch, has_experts)) != NULL)
        n_targets = cr_hf_targets(row, cr_str_from(name), out);
    return n_targets;
}

static cera_status add_pair(cr_peft *peft, settings *s, const cr_hf_target *target,
                            const cr_tensor *a, const cr_tensor *b, bool is_embedding,
                            cr_str module, cera_error *err)
{
    cr_adapter_pair pair = {
        .a = *a,
        .b = *b,
        .by_root = s->by_root,
        .expert = target->expert,
        .is_turned = is_embedding,
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
                       peft->folder.path, a->name.data);
    }
    CR_TRY(check_rank(s, module, b->shape[0], err));
    CR_TRY(alpha_of(s, module, &pair.alpha, err));
    size_t n = strlen(target->name);
    pair.name = (cr_str){ cr_arena_copy(&peft->folder.arena, target->name, n), n };
    if (!pair.name.data)
        return cr_fail_nomem(err, n, "the name of a tensor");
    peft->content.pairs[peft->content.n_pairs++] = pair;
    return CERA_OK;
}

/* Tensors a and b, which follow each other in the order of names. */
static cera_status add_tensors(cr_peft *peft, settings *s, const char *arch, bool has_experts,
                               const cr_tensor *a, const cr_tensor *b, cera_error *err)
{
    static const char PREFIX[] = "base_model.model.";
    cr_str stem = a->name;
    size_t k = 0;
    while (k < CR_COUNT(ends) && !ends_in(stem, ends[k].a) && !ends_in(stem, ends[k].b))
        k++;
    if (k == CR_COUNT(ends))
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: %s: this kind of tensor is not supported",
                       peft->folder.path, a->name.data);
    stem.size -= strlen(ends[k].a); /* as long as that of B */
    bool is_pair = b && ends_in(a->name, ends[k].a) && ends_in(b->name, ends[k].b) &&
                   b->name.size == a->name.size && memcmp(b->name.data, stem.data, stem.size) == 0;
    if (!is_pair)
        return cr_fail(err, CERA_E_FORMAT, "%s: %s has no %s beside it", peft->folder.path,
                       a->name.data, ends_in(a->name, ends[k].a) ? ends[k].b : ends[k].a);
    if (a->n_dims != 2 || b->n_dims != 2)
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: %s: expected two dimensions",
                       peft->folder.path, (a->n_dims != 2 ? a : b)->name.data);
    size_t n_prefix = strlen(PREFIX);
    if (stem.size > n_prefix && memcmp(stem.data, PREFIX, n_prefix) == 0)
        stem = (cr_str){ stem.data + n_prefix, stem.size - n_prefix };
    cr_hf_target targets[2];
    int n = find_targets(arch, has_experts, stem, targets);
    if (n == 0 || targets[0].name[0] == '\0')
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: %s: no such tensor is known for %s",
                       peft->folder.path, a->name.data, arch);
    for (int i = 0; i < n; i++)
        CR_TRY(add_pair(peft, s, &targets[i], a, b, ends[k].is_embedding, stem, err));
    return CERA_OK;
}

static int by_name(const void *x, const void *y)
{
    return strcmp((*(const cr_tensor *const *)x)->name.data,
                  (*(const cr_tensor *const *)y)->name.data);
}

static cera_status read_tensors(cr_peft *peft, settings *s, const char *arch, bool has_experts,
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
        CR_TRY(add_tensors(peft, s, arch, has_experts, order[i], i + 1 < n ? order[i + 1] : NULL,
                           err));
    return n > 0 ? CERA_OK
                 : cr_fail(err, CERA_E_FORMAT, "%s: it has no tensors", peft->folder.path);
}

/* ---- both -------------------------------------------------------------------------------- */

static cera_status read_with(cr_peft *peft, const cr_json *config, settings *s, const char *arch,
                             bool has_experts, cera_error *err)
{
    CR_TRY(read_config(peft, config, s, err));
    const char *path = cr_folder_path(&peft->folder, cr_str_from(TENSORS));
    if (!path)
        return cr_fail_nomem(err, 0, TENSORS);
    CR_TRY(cr_safetensors_open(&peft->file, &peft->folder.arena, path, err));
    return read_tensors(peft, s, arch, has_experts, err);
}

static cera_status read_folder(cr_peft *peft, const char *arch, bool has_experts, cera_error *err)
{
    const cr_json *config;
    CR_TRY(cr_folder_json(&peft->folder, CONFIG, true, &config, err));
    settings s = { .alpha = 0 };
    cera_status status = read_with(peft, config, &s, arch, has_experts, err);
    settings_done(&s);
    return status;
}

cera_status cr_peft_open(cr_peft *peft, cr_host *host, const char *path, const char *arch,
                         bool has_experts, cera_error *err)
{
    *peft = (cr_peft){ .folder = { .host = host, .path = path }, .content = { .path = path } };
    cr_arena_init(&peft->folder.arena, host, CR_MEM_SCRATCH);
    cera_status status = read_folder(peft, arch, has_experts, err);
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

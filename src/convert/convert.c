#include "convert/convert.h"

#include "convert/hf_arch.h"
#include "convert/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_SHARDS = 4096 };

/* A tensor of the new file, or one expert's part of it. */
typedef struct item {
    cr_tensor tensor; /* by its new name; data as they lie in the source */
    cr_hf_change change;
    int expert; /* -1: the whole tensor */
    uint32_t
        n_stack;  /* items from here on that are one tensor: 1, or its experts; 0: not the first */
    cr_type type; /* in the new file */
} item;

typedef struct job {
    cr_folder folder;
    const cera_convert_options *options;
    cr_convert_check *check;
    cr_host *host;
    const cr_hf_arch *arch;
    cr_hf_heads heads;
    cr_safetensors *shards; /* [n_shards] */
    cr_str *shard_names;    /* likewise */
    size_t n_shards;
    item *items; /* [n_items] */
    size_t n_items;
    cr_hf_extra *extra;
    size_t n_extra;
    cr_type base;
    uint64_t done, total;
    cera_quantize_summary summary;
} job;

/* ---- the source's files ---------------------------------------------------------------------- */

/* Opens one of the folder's files, once. */
static cera_status open_shard(job *j, cr_str name, cera_error *err)
{
    for (size_t i = 0; i < j->n_shards; i++)
        if (cr_str_same(j->shard_names[i], name))
            return CERA_OK;
    if (j->n_shards == MAX_SHARDS)
        return cr_fail(err, CERA_E_LIMIT, "%s: more than %d files", j->folder.path, MAX_SHARDS);
    const char *path = cr_folder_path(&j->folder, name);
    if (path == NULL)
        return cr_fail_nomem(err, 0, "the list of files");
    CR_TRY(cr_safetensors_open(&j->shards[j->n_shards], &j->folder.arena, path, err));
    j->shard_names[j->n_shards++] = name;
    return CERA_OK;
}

/* Names come from the folder's own index, and stay within the folder. */
static bool is_plain_name(cr_str name)
{
    return name.size > 0 && name.size < 256 && memchr(name.data, '/', name.size) == NULL &&
           memchr(name.data, '\\', name.size) == NULL &&
           memchr(name.data, '\0', name.size) == NULL && name.data[0] != '.';
}

static cera_status open_shards(job *j, cera_error *err)
{
    const cr_json *index;
    j->shards = cr_arena_array(&j->folder.arena, MAX_SHARDS, sizeof *j->shards);
    j->shard_names = cr_arena_array(&j->folder.arena, MAX_SHARDS, sizeof *j->shard_names);
    if (j->shards == NULL || j->shard_names == NULL)
        return cr_fail_nomem(err, MAX_SHARDS * sizeof *j->shards, "the list of files");
    CR_TRY(cr_folder_json(&j->folder, "model.safetensors.index.json", false, &index, err));
    if (index == NULL)
        return open_shard(j, cr_str_from("model.safetensors"), err);
    const cr_json *at = cr_json_first(cr_json_get(index, "weight_map"), CR_JSON_OBJECT);
    for (; at != NULL; at = at->next) {
        cr_str name = cr_json_str(at);
        if (!is_plain_name(name))
            return cr_fail(
                err, CERA_E_FORMAT,
                "model.safetensors.index.json: expected the name of a file, found \"%.*s\"",
                (int)CR_MIN(name.size, (size_t)64), name.data);
        CR_TRY(open_shard(j, name, err));
    }
    return CERA_OK;
}

/* ---- the new file's tensors ------------------------------------------------------------------ */

/* Vectors, norms, small convolutions and what chooses experts are always F32; rows that no block
 * divides are F16. */
static cr_type type_of(const job *j, const cr_tensor *t)
{
    static const char *const ends[] = {
        "_norm.weight", "shortconv.conv.weight", "ssm_conv1d.weight", "ssm_a",
        "ssm_d",        "ffn_gate_inp.weight"
    };
    bool is_f32 = t->n_dims < 2;
    for (size_t i = 0; i < CR_COUNT(ends); i++)
        is_f32 = is_f32 || cr_str_ends(t->name, ends[i]);
    if (is_f32)
        return CR_TYPE_F32;
    return t->shape[0] % (uint64_t)cr_type_get(j->base)->weights == 0 ? j->base : CR_TYPE_F16;
}

static cera_status apply_shape(item *it, const cr_hf_heads *heads, cera_error *err)
{
    cr_tensor *t = &it->tensor;
    if (it->change == CR_HF_SQUEEZE) {
        if (t->n_dims != 3 || t->shape[1] != 1)
            return cr_fail(err, CERA_E_FORMAT, "%s: expected [n, 1, k], found %d dimensions",
                           t->name.data, t->n_dims);
        t->shape[1] = t->shape[2];
        t->shape[2] = 1;
        t->n_dims = 2;
    }
    if (it->change == CR_HF_COLUMN || it->change == CR_HF_NEG_EXP || it->change == CR_HF_GROUPS) {
        uint64_t n_rows = it->change == CR_HF_GROUPS ? heads->n_group : t->shape[0];
        if (t->n_dims != 1 || n_rows == 0 || t->shape[0] % n_rows != 0)
            return cr_fail(err, CERA_E_FORMAT, "%s: expected a vector of %llu equal parts",
                           t->name.data, (unsigned long long)n_rows);
        t->shape[0] /= n_rows;
        t->shape[1] = n_rows;
        t->n_dims = 2;
    }
    if (it->change == CR_HF_HALF_0 || it->change == CR_HF_HALF_1) {
        if (t->n_dims < 2 || t->n_dims > 3 || t->shape[1] % 2 != 0)
            return cr_fail(err, CERA_E_FORMAT, "%s: expected an even number of rows", t->name.data);
        t->shape[1] /= 2;
        t->size /= 2;
    }
    if (it->change == CR_HF_PAIRS_Q || it->change == CR_HF_PAIRS_K) {
        uint64_t n_rows = t->shape[t->n_dims - 1];
        uint32_t n = it->change == CR_HF_PAIRS_Q ? heads->n_head : heads->n_head_kv;
        if (t->n_dims > 2 || n_rows % (2 * (uint64_t)n) != 0)
            return cr_fail(err, CERA_E_FORMAT,
                           "%s: expected rows for %u heads of even size, found %llu", t->name.data,
                           n, (unsigned long long)n_rows);
    }
    return CERA_OK;
}

static cera_status add_item(job *j, const cr_tensor *source, const cr_hf_target *target,
                            cera_error *err)
{
    item *it = &j->items[j->n_items];
    size_t n = strlen(target->name);
    *it = (item){ *source, target->change, target->expert, 1, j->base };
    it->tensor.name = (cr_str){ cr_arena_copy(&j->folder.arena, target->name, n), n };
    if (it->tensor.name.data == NULL)
        return cr_fail_nomem(err, n, "the list of tensors");
    CR_TRY(apply_shape(it, &j->heads, err));
    it->type = type_of(j, &it->tensor);
    j->total += it->tensor.size;
    j->n_items++;
    return CERA_OK;
}

static cera_status add_source(job *j, const cr_tensor *source, bool tied, cera_error *err)
{
    cr_hf_target targets[2];
    int n = cr_hf_targets(j->arch, source->name, targets);
    if (n == 0)
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: no such tensor is known for %s",
                       source->name.data, cr_hf_name(j->arch));
    /* A tied head may be stored all the same; the embedding stands for it. */
    if (targets[0].name[0] == '\0' || (tied && strcmp(targets[0].name, "output.weight") == 0))
        return CERA_OK;
    if (source->type == CR_TYPE_COUNT)
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: expected F32, F16 or BF16", source->name.data);
    for (int i = 0; i < n; i++)
        CR_TRY(add_item(j, source, &targets[i], err));
    return CERA_OK;
}

static int by_name(const void *a, const void *b)
{
    const item *x = a, *y = b;
    int order = strcmp(x->tensor.name.data, y->tensor.name.data);
    return order != 0 ? order : (x->expert > y->expert) - (x->expert < y->expert);
}

/* Whether `it` goes on with the stack that `first` begins, as its expert k. */
static bool goes_on(const item *first, const item *it, uint32_t k)
{
    return first->expert == 0 && it->expert == (int)k && it->tensor.type == first->tensor.type &&
           it->tensor.n_dims == 2 && first->tensor.n_dims == 2 &&
           it->tensor.shape[0] == first->tensor.shape[0] &&
           it->tensor.shape[1] == first->tensor.shape[1];
}

/* In the order of the names, so that two of the same name meet: the experts of a stack, or a
 * fault. */
static cera_status sort_items(job *j, cera_error *err)
{
    uint32_t n_expert = 0;
    (void)(cr_json_u32(cr_json_get(j->folder.config, "num_local_experts"), &n_expert) ||
           cr_json_u32(cr_json_get(j->folder.config, "num_experts"), &n_expert));
    qsort(j->items, j->n_items, sizeof *j->items, by_name);
    for (size_t i = 0; i < j->n_items; i += j->items[i].n_stack) {
        item *first = &j->items[i];
        size_t k = 1;
        for (; i + k < j->n_items && cr_str_same(first->tensor.name, first[k].tensor.name); k++) {
            if (first->expert < 0)
                return cr_fail(err, CERA_E_FORMAT, "%s: two tensors of the folder would be %s",
                               j->folder.path, first->tensor.name.data);
            if (!goes_on(first, &first[k], (uint32_t)k))
                break;
            first[k].n_stack = 0;
        }
        if (first->expert >= 0 && (first->expert > 0 || k != n_expert))
            return cr_fail(err, CERA_E_FORMAT,
                           "%s: %s: expected %u experts of one shape and type, numbered from 0; "
                           "found %zu",
                           j->folder.path, first->tensor.name.data, n_expert, k);
        first->n_stack = (uint32_t)k;
    }
    return CERA_OK;
}

static cera_status list_items(job *j, cera_error *err)
{
    size_t room = 0;
    for (size_t s = 0; s < j->n_shards; s++)
        room += j->shards[s].n_tensors;
    room *= 2; /* halves */
    j->items = cr_arena_array(&j->folder.arena, room + 1, sizeof *j->items);
    if (j->items == NULL)
        return cr_fail_nomem(err, room * sizeof *j->items, "the list of tensors");
    bool tied = cr_json_bool(cr_json_get(j->folder.config, "tie_word_embeddings"), false);
    for (size_t s = 0; s < j->n_shards; s++)
        for (size_t i = 0; i < j->shards[s].n_tensors; i++)
            CR_TRY(add_source(j, &j->shards[s].tensors[i], tied, err));
    if (j->n_items == 0)
        return cr_fail(err, CERA_E_FORMAT, "%s: it has no tensors", j->folder.path);
    return sort_items(j, err);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Row 2 j + h of a head comes from its row j of half h. */
static void pair_rows(uint8_t *dst, const uint8_t *src, size_t n_rows, size_t row_bytes,
                      size_t n_heads)
{
    size_t size = n_rows / n_heads;
    for (size_t row = 0; row < n_rows; row++) {
        size_t head = row / size, at = row % size;
        size_t from = head * size + at % 2 * (size / 2) + at / 2;
        memcpy(dst + row * row_bytes, src + from * row_bytes, row_bytes);
    }
}

static bool is_computed(cr_hf_change change)
{
    return change == CR_HF_PLUS_ONE || change == CR_HF_NEG_EXP;
}

static void compute(float *dst, const item *it, size_t n)
{
    cr_type_get(it->tensor.type)->dequantize(it->tensor.data, dst, n);
    for (size_t i = 0; i < n; i++)
        dst[i] = it->change == CR_HF_PLUS_ONE ? dst[i] + 1 : (float)-exp((double)dst[i]);
}

/* The tensor with its values changed, in *buffer, which the caller frees. */
static cera_status change_values(job *j, const item *it, cr_tensor *out, void **buffer,
                                 size_t *n_buffer, cera_error *err)
{
    *out = it->tensor;
    *buffer = NULL;
    *n_buffer = 0;
    if (it->change != CR_HF_PAIRS_Q && it->change != CR_HF_PAIRS_K && !is_computed(it->change))
        return CERA_OK;
    size_t n = it->tensor.size / (size_t)cr_type_get(it->tensor.type)->block_bytes;
    *n_buffer = is_computed(it->change) ? n * sizeof(float) : it->tensor.size;
    *buffer = cr_alloc(j->host, CR_MEM_SCRATCH, *n_buffer);
    if (*buffer == NULL)
        return cr_fail_nomem(err, *n_buffer, it->tensor.name.data);
    out->data = *buffer;
    out->size = *n_buffer;
    if (is_computed(it->change)) {
        compute(*buffer, it, n);
        out->type = CR_TYPE_F32;
        return CERA_OK;
    }
    size_t n_rows = (size_t)it->tensor.shape[it->tensor.n_dims - 1];
    pair_rows(*buffer, it->tensor.data, n_rows, it->tensor.size / n_rows,
              it->change == CR_HF_PAIRS_Q ? j->heads.n_head : j->heads.n_head_kv);
    return CERA_OK;
}

static cera_status step(void *ctx, uint64_t n_bytes, cera_error *err)
{
    job *j = ctx;
    j->done = CR_MIN(j->done + n_bytes, j->total);
    if (j->options->on_progress != NULL &&
        j->options->on_progress(j->options->user, j->done, j->total) != 0)
        return cr_fail(err, CERA_E_CANCELLED, "converting: cancelled after %llu of %llu bytes",
                       (unsigned long long)j->done, (unsigned long long)j->total);
    return CERA_OK;
}

/* Half of the rows of each expert, or of the one matrix. */
static cera_status write_half(job *j, const item *it, cr_requant *q, cr_gguf_writer *w,
                              cera_error *err)
{
    cr_tensor piece = it->tensor;
    size_t n = piece.n_dims > 2 ? (size_t)piece.shape[2] : 1;
    piece.size /= n;
    piece.data += it->change == CR_HF_HALF_1 ? piece.size : 0;
    for (size_t i = 0; i < n; i++, piece.data += 2 * piece.size)
        CR_TRY(cr_requant_tensor(q, &piece, it->type, w, step, j, err));
    return CERA_OK;
}

static cera_status write_item(job *j, const item *it, cr_requant *q, cr_gguf_writer *w,
                              cera_error *err)
{
    if (it->change == CR_HF_HALF_0 || it->change == CR_HF_HALF_1)
        return write_half(j, it, q, w, err);
    cr_tensor changed;
    void *buffer;
    size_t n_buffer;
    cera_status status = change_values(j, it, &changed, &buffer, &n_buffer, err);
    if (status == CERA_OK)
        status = cr_requant_tensor(q, &changed, it->type, w, step, j, err);
    cr_free(j->host, CR_MEM_SCRATCH, buffer, n_buffer);
    return status;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* The last part of the folder's path. */
static cr_str name_of(const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    return (cr_str){ path + begin, end - begin };
}

/* "8x7B", "135M": what one expert and what all share has, in two digits or more. */
static void put_size_label(const job *j, cr_gguf_writer *w)
{
    static const struct {
        double above, unit;
        char suffix;
    } scales[] = { { 1e12, 1e12, 'T' }, { 1e9, 1e9, 'B' }, { 1e6, 1e6, 'M' }, { -1, 1e3, 'K' } };
    double n_params = 0;
    uint64_t sum = 0, n_stacks = 0;
    for (size_t i = 0; i < j->n_extra; i++)
        n_params += (double)j->extra[i].n;
    for (size_t i = 0; i < j->n_items; i++) {
        const cr_tensor *t = &j->items[i].tensor;
        uint64_t n = t->size / (size_t)cr_type_get(t->type)->block_bytes;
        bool is_stack = strstr(t->name.data, "_exps.") != NULL;
        uint64_t n_expert = is_stack && t->n_dims > 2 ? t->shape[2] : 1;
        if (is_stack && j->items[i].n_stack > 0) {
            sum += t->n_dims > 2 ? n_expert : j->items[i].n_stack;
            n_stacks++;
        }
        n_params += j->items[i].n_stack > 0 ? (double)(n / n_expert) : 0;
    }
    size_t k = 0;
    while (n_params <= scales[k].above)
        k++;
    double size = n_params / scales[k].unit;
    char label[64], experts[24] = "";
    if (n_stacks > 0)
        snprintf(experts, sizeof experts, "%llux", (unsigned long long)(sum / n_stacks));
    int digits = size <= 0.5 ? 2 : size < 9.5 ? 1 : 0;
    snprintf(label, sizeof label, "%s%.*f%c", experts, digits, size, scales[k].suffix);
    cr_gguf_put_str(w, "general.size_label", cr_str_from(label));
}

/* What generation_config.json recommends. */
static cera_status put_sampling(job *j, cr_gguf_writer *w, cera_error *err)
{
    static const struct {
        const char *hf, *gguf;
        cera_value_type type;
    } members[] = {
        { "top_k", "general.sampling.top_k", CERA_VALUE_I32 },
        { "top_p", "general.sampling.top_p", CERA_VALUE_F32 },
        { "min_p", "general.sampling.min_p", CERA_VALUE_F32 },
        { "temperature", "general.sampling.temp", CERA_VALUE_F32 },
        { "repetition_penalty", "general.sampling.penalty_repeat", CERA_VALUE_F32 },
    };
    const cr_json *config;
    CR_TRY(cr_folder_json(&j->folder, "generation_config.json", false, &config, err));
    for (size_t i = 0; i < CR_COUNT(members); i++) {
        const cr_json *member = cr_json_get(config, members[i].hf);
        cera_value value = { .type = members[i].type };
        bool is_integer = members[i].type == CERA_VALUE_I32;
        float number = 0;
        bool is_good = is_integer ? cr_json_i64(member, &value.as.i) && value.as.i >= INT32_MIN &&
                                        value.as.i <= INT32_MAX
                                  : cr_json_f32(member, &number);
        if (!is_integer)
            value.as.f = (double)number;
        if (is_good)
            cr_gguf_put(w, cr_str_from(members[i].gguf), &value);
    }
    return CERA_OK;
}

static cera_status announce(job *j, const cr_file_type *type, cr_gguf_writer *w, cera_error *err)
{
    enum { QUANTIZATION_VERSION = 2 };
    cr_gguf_put_str(w, "general.architecture", cr_str_from(cr_hf_name(j->arch)));
    cr_gguf_put_str(w, "general.type", cr_str_from("model"));
    cr_gguf_put_str(w, "general.name", name_of(j->folder.path));
    put_size_label(j, w);
    CR_TRY(put_sampling(j, w, err));
    uint32_t id, n_vocab = 0;
    if (cr_gguf_quant_id(type->name, &id))
        cr_gguf_put_u32(w, "general.file_type", id);
    cr_gguf_put_u32(w, "general.quantization_version", QUANTIZATION_VERSION);
    CR_TRY(cr_hf_put_keys(j->arch, &j->folder, w, err));
    for (size_t i = 0; i < j->n_items; i++)
        if (cr_str_is(j->items[i].tensor.name, "token_embd.weight"))
            n_vocab = (uint32_t)CR_MIN(j->items[i].tensor.shape[1], UINT32_MAX);
    CR_TRY(cr_folder_put_vocab(&j->folder, n_vocab, cr_hf_no_space_prefix(j->arch), w, err));
    for (size_t i = 0; i < j->n_extra; i++)
        cr_gguf_put_tensor(w, cr_str_from(j->extra[i].name), CR_TYPE_F32, 1,
                           (uint64_t[]){ j->extra[i].n });
    for (size_t i = 0; i < j->n_items; i++) {
        const item *it = &j->items[i];
        const cr_tensor *t = &it->tensor;
        j->summary.bytes_after += cr_type_bytes(
            cr_type_get(it->type), t->size / (size_t)cr_type_get(t->type)->block_bytes);
        if (it->n_stack == 0)
            continue;
        uint64_t shape[4] = { t->shape[0], t->shape[1], t->shape[2], t->shape[3] };
        if (it->expert >= 0)
            shape[2] = it->n_stack;
        cr_gguf_put_tensor(w, t->name, it->type, it->expert >= 0 ? 3 : t->n_dims, shape);
        j->summary.n_tensors++;
        j->summary.n_quantized += it->type != t->type;
        j->summary.n_fallback += t->n_dims > 1 && it->type == CR_TYPE_F16 && j->base != CR_TYPE_F16;
    }
    j->summary.n_tensors += j->n_extra;
    j->summary.bytes_before = j->total;
    return CERA_OK;
}

static cera_status write_file(job *j, const cr_file_type *type, const char *path, int n_threads,
                              cera_error *err)
{
    cr_requant *q;
    CR_TRY(cr_requant_new(j->host, n_threads, &q, err));
    cr_gguf_writer w;
    cr_gguf_writer_init(&w, j->host);
    cera_status status = announce(j, type, &w, err);
    if (status == CERA_OK)
        status = cr_gguf_writer_begin(&w, path, err);
    for (size_t i = 0; i < j->n_extra && status == CERA_OK; i++)
        status = cr_gguf_writer_data(&w, j->extra[i].values, j->extra[i].n * sizeof(float), err);
    for (size_t i = 0; i < j->n_items && status == CERA_OK; i++)
        status = write_item(j, &j->items[i], q, &w, err);
    /* A source that changed under our hands may have been read half old, half new. */
    for (size_t i = 0; i < j->n_shards && status == CERA_OK; i++)
        status = cr_view_check_unchanged(&j->shards[i].view, j->shards[i].path, err);
    if (status == CERA_OK) {
        status = j->check(j->options, w.output.part, err);
        if (status != CERA_OK)
            cr_fail_in(err, status, "the new file");
    }
    if (status == CERA_OK)
        status = cr_gguf_writer_commit(&w, err);
    cr_gguf_writer_done(&w);
    cr_requant_free(q);
    return status;
}

static cera_status convert(job *j, const cr_file_type *type, const char *path, int n_threads,
                           cera_error *err)
{
    cr_str name = cr_json_str(cr_json_at(cr_json_get(j->folder.config, "architectures"), 0));
    j->arch = cr_hf_find(name, j->folder.config);
    if (j->arch == NULL)
        return cr_fail(err, CERA_E_UNSUPPORTED,
                       "config.json: architectures: expected a known one, found \"%.*s\"",
                       (int)CR_MIN(name.size, (size_t)64), name.data);
    j->folder.pre = j->options->pre;
    j->base = type->base;
    j->extra = cr_arena_array(&j->folder.arena, CR_HF_MAX_EXTRA, sizeof *j->extra);
    if (j->extra == NULL)
        return cr_fail_nomem(err, CR_HF_MAX_EXTRA * sizeof *j->extra, "factors of rotations");
    CR_TRY(cr_hf_heads_of(j->arch, &j->folder, &j->heads, err));
    CR_TRY(cr_hf_extra_tensors(j->arch, &j->folder, j->extra, &j->n_extra, err));
    CR_TRY(open_shards(j, err));
    CR_TRY(list_items(j, err));
    return write_file(j, type, path, n_threads, err);
}

cera_status cr_convert_folder(const char *folder, const char *path, const char *type_name,
                              const cera_convert_options *options, int n_threads, cr_host *host,
                              cr_convert_check *check, cera_quantize_summary *summary,
                              cera_error *err)
{
    const cr_file_type *type = cr_recipe_find(type_name);
    cr_type base = type != NULL ? type->base : CR_TYPE_COUNT;
    if (base != CR_TYPE_F32 && base != CR_TYPE_F16 && base != CR_TYPE_BF16 && base != CR_TYPE_Q8_0)
        return cr_fail(err, CERA_E_ARG, "type: expected F32, F16, BF16 or Q8_0, found \"%s\"",
                       type_name);
    job j = { .options = options, .check = check, .host = host };
    CR_TRY(cr_folder_open(&j.folder, host, folder, err));
    cera_status status = convert(&j, type, path, n_threads, err);
    for (size_t i = 0; i < j.n_shards; i++)
        cr_safetensors_close(&j.shards[i]);
    cr_folder_close(&j.folder);
    if (status == CERA_OK && summary != NULL)
        *summary = j.summary;
    return status;
}

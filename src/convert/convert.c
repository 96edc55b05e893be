#include "convert/convert.h"

#include "convert/hf_arch.h"
#include "convert/safetensors.h"

#include <stdlib.h>

enum { MAX_SHARDS = 4096 };

/* A tensor of the new file. */
typedef struct item {
    cr_tensor tensor; /* by its new name; data as they lie in the source */
    cr_hf_change change;
    cr_type type; /* in the new file */
} item;

typedef struct job {
    cr_folder folder;
    const cera_convert_options *options;
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

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Vectors, norms and small convolutions are always F32; rows that no block divides are F16. */
static cr_type type_of(const job *j, const cr_tensor *t)
{
    if (t->n_dims < 2 || ends_in(t->name.data, "_norm.weight") ||
        ends_in(t->name.data, "shortconv.conv.weight"))
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

static cera_status add_item(job *j, const cr_tensor *source, bool tied, cera_error *err)
{
    char name[128];
    bool skip;
    item *it = &j->items[j->n_items];
    if (!cr_hf_tensor_name(j->arch, source->name, name, sizeof name, &it->change, &skip))
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: no such tensor is known for %s",
                       source->name.data, cr_hf_name(j->arch));
    /* A tied head may be stored all the same; the embedding stands for it. */
    if (skip || (tied && strcmp(name, "output.weight") == 0))
        return CERA_OK;
    if (source->type == CR_TYPE_COUNT)
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: expected F32, F16 or BF16", source->name.data);
    it->tensor = *source;
    size_t n = strlen(name);
    it->tensor.name = (cr_str){ cr_arena_copy(&j->folder.arena, name, n), n };
    if (it->tensor.name.data == NULL)
        return cr_fail_nomem(err, n, "the list of tensors");
    CR_TRY(apply_shape(it, &j->heads, err));
    it->type = type_of(j, &it->tensor);
    j->total += it->tensor.size;
    j->n_items++;
    return CERA_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const item *)a)->tensor.name.data, ((const item *)b)->tensor.name.data);
}

/* In the order of the names, so that two of the same name meet. */
static cera_status sort_items(job *j, cera_error *err)
{
    qsort(j->items, j->n_items, sizeof *j->items, by_name);
    for (size_t i = 1; i < j->n_items; i++)
        if (by_name(&j->items[i - 1], &j->items[i]) == 0)
            return cr_fail(err, CERA_E_FORMAT, "%s: two tensors of the folder would be %s",
                           j->folder.path, j->items[i].tensor.name.data);
    return CERA_OK;
}

static cera_status list_items(job *j, cera_error *err)
{
    size_t room = 0;
    for (size_t s = 0; s < j->n_shards; s++)
        room += j->shards[s].n_tensors;
    j->items = cr_arena_array(&j->folder.arena, room + 1, sizeof *j->items);
    if (j->items == NULL)
        return cr_fail_nomem(err, room * sizeof *j->items, "the list of tensors");
    bool tied = cr_json_bool(cr_json_get(j->folder.config, "tie_word_embeddings"), false);
    for (size_t s = 0; s < j->n_shards; s++)
        for (size_t i = 0; i < j->shards[s].n_tensors; i++)
            CR_TRY(add_item(j, &j->shards[s].tensors[i], tied, err));
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

static void add_one(float *dst, const cr_tensor *t, size_t n)
{
    cr_type_get(t->type)->dequantize(t->data, dst, n);
    for (size_t i = 0; i < n; i++)
        dst[i] += 1;
}

/* The tensor with its values changed, in *buffer, which the caller frees. */
static cera_status change_values(job *j, const item *it, cr_tensor *out, void **buffer,
                                 size_t *n_buffer, cera_error *err)
{
    *out = it->tensor;
    *buffer = NULL;
    *n_buffer = 0;
    if (it->change == CR_HF_AS_IS || it->change == CR_HF_SQUEEZE)
        return CERA_OK;
    size_t n = it->tensor.size / (size_t)cr_type_get(it->tensor.type)->block_bytes;
    *n_buffer = it->change == CR_HF_PLUS_ONE ? n * sizeof(float) : it->tensor.size;
    *buffer = cr_alloc(j->host, CR_MEM_SCRATCH, *n_buffer);
    if (*buffer == NULL)
        return cr_fail_nomem(err, *n_buffer, it->tensor.name.data);
    out->data = *buffer;
    out->size = *n_buffer;
    if (it->change == CR_HF_PLUS_ONE) {
        add_one(*buffer, &it->tensor, n);
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

static cera_status write_item(job *j, const item *it, cr_requant *q, cr_gguf_writer *w,
                              cera_error *err)
{
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

static cera_status announce(job *j, const cr_file_type *type, cr_gguf_writer *w, cera_error *err)
{
    enum { QUANTIZATION_VERSION = 2 };
    cr_gguf_put_str(w, "general.architecture", cr_str_from(cr_hf_name(j->arch)));
    cr_gguf_put_str(w, "general.type", cr_str_from("model"));
    cr_gguf_put_str(w, "general.name", name_of(j->folder.path));
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
        const cr_tensor *t = &j->items[i].tensor;
        cr_gguf_put_tensor(w, t->name, j->items[i].type, t->n_dims, t->shape);
        const cr_type_info *to = cr_type_get(j->items[i].type);
        j->summary.bytes_after +=
            cr_type_bytes(to, t->size / (size_t)cr_type_get(t->type)->block_bytes);
        j->summary.n_quantized += j->items[i].type != t->type;
        j->summary.n_fallback +=
            t->n_dims > 1 && j->items[i].type == CR_TYPE_F16 && j->base != CR_TYPE_F16;
    }
    j->summary.n_tensors = j->n_items + j->n_extra;
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
    j->arch = cr_hf_find(name);
    if (j->arch == NULL)
        return cr_fail(err, CERA_E_UNSUPPORTED,
                       "config.json: architectures: expected a known one, found \"%.*s\"",
                       (int)CR_MIN(name.size, (size_t)64), name.data);
    j->folder.pre = j->options->pre;
    j->base = type->base;
    j->extra = cr_arena_array(&j->folder.arena, CR_HF_MAX_EXTRA, sizeof *j->extra);
    if (j->extra == NULL)
        return cr_fail_nomem(err, CR_HF_MAX_EXTRA * sizeof *j->extra, "factors of rotations");
    CR_TRY(cr_hf_heads_of(&j->folder, &j->heads, err));
    CR_TRY(cr_hf_extra_tensors(j->arch, &j->folder, j->extra, &j->n_extra, err));
    CR_TRY(open_shards(j, err));
    CR_TRY(list_items(j, err));
    return write_file(j, type, path, n_threads, err);
}

cera_status cr_convert_folder(const char *folder, const char *path, const char *type_name,
                              const cera_convert_options *options, int n_threads, cr_host *host,
                              cera_quantize_summary *summary, cera_error *err)
{
    const cr_file_type *type = cr_recipe_find(type_name);
    cr_type base = type != NULL ? type->base : CR_TYPE_COUNT;
    if (base != CR_TYPE_F32 && base != CR_TYPE_F16 && base != CR_TYPE_BF16 && base != CR_TYPE_Q8_0)
        return cr_fail(err, CERA_E_ARG, "type: expected F32, F16, BF16 or Q8_0, found \"%s\"",
                       type_name);
    job j = { .options = options, .host = host };
    CR_TRY(cr_folder_open(&j.folder, host, folder, err));
    cera_status status = convert(&j, type, path, n_threads, err);
    for (size_t i = 0; i < j.n_shards; i++)
        cr_safetensors_close(&j.shards[i]);
    cr_folder_close(&j.folder);
    if (status == CERA_OK && summary != NULL)
        *summary = j.summary;
    return status;
}

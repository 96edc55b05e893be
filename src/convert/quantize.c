#include "convert/quantize.h"

/* The work on one file. */
typedef struct job {
    const cr_gguf *file;
    const cera_quantize_options *options;
    cr_host *host;
    cr_type *types; /* [n_tensors] in the new file */
    size_t n_tensors;
    uint64_t done, total;
    cera_quantize_summary summary;
} job;

static cera_status find_type(const char *name, const char *what, cr_type *out, cera_error *err)
{
    *out = name != NULL ? cr_recipe_find_type(name) : CR_TYPE_COUNT;
    if (name != NULL && *out == CR_TYPE_COUNT)
        return cr_fail(err, CERA_E_ARG,
                       "%s: expected an element type that can be made, found \"%s\"", what, name);
    return CERA_OK;
}

/* The type of each tensor, and whether this build may and can make it. */
static cera_status plan(job *j, const cr_recipe *recipe, cera_error *err)
{
    for (size_t i = 0; i < j->n_tensors; i++) {
        const cr_tensor *t = cr_gguf_tensor(j->file, i);
        bool forced;
        cr_type type = cr_recipe_type(recipe, i, &forced);
        if (t->type == CR_TYPE_COUNT)
            return cr_fail(err, CERA_E_UNSUPPORTED, "%s: expected a known element type, found %s",
                           t->name.data, cr_gguf_type_name(t));
        if (type != t->type && cr_type_get(t->type)->weights > 1 && !j->options->allow_requantize)
            return cr_fail(
                err, CERA_E_UNSUPPORTED,
                "%s: expected F32, F16 or BF16, found %s; quantising twice costs quality "
                "and has to be allowed",
                t->name.data, cr_type_get(t->type)->name);
        j->types[i] = type;
        j->summary.n_fallback += forced;
        j->summary.n_quantized += type != t->type;
        j->total += t->size;
    }
    j->summary.n_tensors = j->n_tensors;
    j->summary.bytes_before = j->total;
    return CERA_OK;
}

/* Keys that say how a file came to be and do not hold for the new one, which is one file even where
 * the source is several. */
static bool is_replaced(cr_str key)
{
    static const char *const names[] = { "general.quantization_version", "general.file_type",
                                         "split.no", "split.count", "split.tensors.count" };
    for (size_t i = 0; i < CR_COUNT(names); i++)
        if (cr_str_is(key, names[i]))
            return true;
    return false;
}

static void announce(job *j, const cr_file_type *type, cr_gguf_writer *w)
{
    enum { QUANTIZATION_VERSION = 2 }; /* of the block layouts; the only one in use */
    cera_file_info info;
    cr_gguf_get_info(j->file, &info);
    w->alignment = (size_t)info.alignment;
    for (size_t i = 0; i < cr_gguf_n_keys(j->file); i++) {
        cera_value value;
        cr_str key = cr_gguf_key(j->file, i, &value);
        if (!is_replaced(key))
            cr_gguf_put(w, key, &value);
    }
    cr_gguf_put_u32(w, "general.quantization_version", QUANTIZATION_VERSION);
    uint32_t id;
    if (cr_gguf_quant_id(type->name, &id))
        cr_gguf_put_u32(w, "general.file_type", id);
    for (size_t i = 0; i < j->n_tensors; i++) {
        const cr_tensor *t = cr_gguf_tensor(j->file, i);
        cr_gguf_put_tensor(w, t->name, j->types[i], t->n_dims, t->shape);
        const cr_type_info *from = cr_type_get(t->type), *to = cr_type_get(j->types[i]);
        j->summary.bytes_after += t->size / (size_t)from->block_bytes * (size_t)from->weights /
                                  (size_t)to->weights * (uint64_t)to->block_bytes;
    }
}

static cera_status step(void *ctx, uint64_t n_bytes, cera_error *err)
{
    job *j = ctx;
    j->done += n_bytes;
    if (j->options->on_progress != NULL &&
        j->options->on_progress(j->options->user, j->done, j->total) != 0)
        return cr_fail(err, CERA_E_CANCELLED, "quantising: cancelled after %llu of %llu bytes",
                       (unsigned long long)j->done, (unsigned long long)j->total);
    return CERA_OK;
}

static cera_status write_file(job *j, const cr_file_type *type, const char *path, int n_threads,
                              cera_error *err)
{
    cr_requant *q;
    CR_TRY(cr_requant_new(j->host, n_threads, &q, err));
    cr_gguf_writer w;
    cr_gguf_writer_init(&w, j->host);
    announce(j, type, &w);
    cera_status status = cr_gguf_writer_begin(&w, path, err);
    for (size_t i = 0; i < j->n_tensors && status == CERA_OK; i++)
        status = cr_requant_tensor(q, cr_gguf_tensor(j->file, i), j->types[i], &w, step, j, err);
    /* A source that changed under our hands may have been read half old, half new. */
    if (status == CERA_OK)
        status = cr_gguf_check_unchanged(j->file, err);
    if (status == CERA_OK)
        status = cr_gguf_writer_commit(&w, err);
    cr_gguf_writer_done(&w);
    cr_requant_free(q);
    return status;
}

cera_status cr_quantize_file(const cr_gguf *file, const char *path, const char *type_name,
                             const cera_quantize_options *options, int n_threads, cr_host *host,
                             cera_quantize_summary *summary, cera_error *err)
{
    const cr_file_type *type = cr_recipe_find(type_name);
    if (type == NULL)
        return cr_fail(err, CERA_E_ARG,
                       "type: expected one that can be made without an importance matrix, such as "
                       "Q4_K_M, found \"%s\"",
                       type_name);
    cr_recipe_options ro = { .pure = options->pure, .keep_output = options->keep_output };
    CR_TRY(find_type(options->output_type, "output_type", &ro.output, err));
    CR_TRY(find_type(options->embedding_type, "embedding_type", &ro.embedding, err));

    cr_recipe *recipe;
    CR_TRY(cr_recipe_new(file, type, &ro, host, &recipe, err));
    job j = { .file = file, .options = options, .host = host };
    j.n_tensors = cr_gguf_n_tensors(file);
    size_t n_bytes = j.n_tensors * sizeof *j.types;
    j.types = cr_alloc(host, CR_MEM_SCRATCH, n_bytes);
    cera_status status =
        j.types != NULL ? plan(&j, recipe, err) : cr_fail_nomem(err, n_bytes, "the list of types");
    cr_recipe_free(recipe);
    if (status == CERA_OK)
        status = write_file(&j, type, path, n_threads, err);
    cr_free(host, CR_MEM_SCRATCH, j.types, n_bytes);
    if (status == CERA_OK && summary != NULL)
        *summary = j.summary;
    return status;
}

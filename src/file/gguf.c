/* A GGUF file: where its bytes come from, who owns them, and access to what the header holds. */
#include "file/gguf_internal.h"

#include <assert.h>

static cera_status open_callback(cr_gguf *file, const cera_source *source, cera_error *err)
{
    enum { PIECE = 1 << 26 };
    cr_view *view = &file->view;
    CR_TRY(cr_view_alloc(view, file->host, source->n_data, file->path, err));
    for (size_t done = 0; done < view->n_bytes;) {
        size_t n = CR_MIN(view->n_bytes - done, (size_t)PIECE);
        int error = source->read(source->user, view->owned + done, n, done);
        if (error != 0)
            return cr_fail(err, CERA_E_IO, "%s: the read callback failed at byte %zu (error %d)",
                           file->path, done, error);
        done += n;
    }
    return CERA_OK;
}

/* The caller's memory: a view that owns nothing. */
static cera_status open_memory(cr_gguf *file, const cera_source *source, cera_error *err)
{
    if (source->n_data > SIZE_MAX)
        return cr_fail(err, CERA_E_ARG, "n_data: %llu bytes, expected at most %zu",
                       (unsigned long long)source->n_data, (size_t)SIZE_MAX);
    file->view = (cr_view){ .bytes = source->data, .n_bytes = (size_t)source->n_data };
    return CERA_OK;
}

cera_status cr_gguf_open_one(const cera_source *source, cr_host *host, cr_gguf **out,
                             cera_error *err)
{
    int n_forms = (source->path != NULL) + (source->data != NULL) + (source->read != NULL);
    if (n_forms != 1)
        return cr_fail(err, CERA_E_ARG, "source: expected one of path, data and read, found %d",
                       n_forms);

    const char *path = source->path != NULL ? source->path : "<memory>";
    size_t path_size = strlen(path) + 1, struct_size = sizeof(cr_gguf) + path_size;
    cr_gguf *file = cr_alloc_zero(host, CR_MEM_FILE, struct_size);
    if (file == NULL)
        return cr_fail_nomem(err, struct_size, path);
    file->host = host;
    file->struct_size = struct_size;
    memcpy(file->path, path, path_size);

    cera_status status;
    if (source->path != NULL)
        status = cr_view_open(&file->view, host, path, UINT64_MAX, source->no_mmap, err);
    else if (source->data != NULL)
        status = open_memory(file, source, err);
    else
        status = open_callback(file, source, err);
    if (status == CERA_OK)
        status = cr_gguf_parse(file, err);
    if (status != CERA_OK) {
        cr_gguf_close(file);
        return status;
    }
    *out = file;
    return CERA_OK;
}

cera_status cr_gguf_open(const cera_source *source, cr_host *host, cr_gguf **out, cera_error *err)
{
    cr_gguf *file = NULL;
    CR_TRY(cr_gguf_open_one(source, host, &file, err));
    if (file->n_parts > 1)
        return cr_gguf_open_parts(file, source, out, err);
    *out = file;
    return CERA_OK;
}

void cr_gguf_close(cr_gguf *file)
{
    if (file == NULL)
        return;
    cr_host *host = file->host;
    if (file->parts != NULL) {
        for (uint32_t i = 1; i < file->n_parts; i++)
            cr_gguf_close(file->parts[i]);
        cr_free(host, CR_MEM_FILE, file->parts, file->n_parts * sizeof *file->parts);
        cr_free(host, CR_MEM_FILE, file->merged, file->merged_size);
    }
    cr_free(host, CR_MEM_FILE, file->block, file->block_size);
    cr_view_done(&file->view);
    cr_free(host, CR_MEM_FILE, file, file->struct_size);
}

cera_status cr_gguf_check_unchanged(const cr_gguf *file, cera_error *err)
{
    CR_TRY(cr_view_check_unchanged(&file->view, file->path, err));
    for (uint32_t i = 1; file->parts != NULL && i < file->n_parts; i++)
        CR_TRY(cr_view_check_unchanged(&file->parts[i]->view, file->parts[i]->path, err));
    return CERA_OK;
}

/* ---- access ---------------------------------------------------------------------------------- */

void cr_gguf_get_info(const cr_gguf *file, cera_file_info *out)
{
    *out = (cera_file_info){
        .version = file->version,
        .size = file->view.n_bytes,
        .alignment = file->alignment,
        .data_offset = file->data_offset,
        .n_keys = file->n_keys,
        .n_tensors = file->n_tensors,
        .n_params = file->n_params,
        .n_parts = file->n_parts,
        .quant = cr_gguf_quant_name(file),
    };
    for (uint32_t i = 1; file->parts != NULL && i < file->n_parts; i++)
        out->size += file->parts[i]->view.n_bytes;
}

const char *cr_gguf_name(const cr_gguf *file)
{
    return file->path;
}

size_t cr_gguf_n_tensors(const cr_gguf *file)
{
    return file->n_tensors;
}

const cr_tensor *cr_gguf_tensor(const cr_gguf *file, size_t i)
{
    assert(i < file->n_tensors);
    return &file->tensors[i];
}

size_t cr_gguf_n_keys(const cr_gguf *file)
{
    return file->n_keys;
}

cr_str cr_gguf_key(const cr_gguf *file, size_t i, cera_value *out)
{
    assert(i < file->n_keys);
    const cr_gguf_entry *entry = &file->keys[i];
    cr_gguf_value_of(entry, out);
    return (cr_str){ entry->name, entry->name_size };
}

bool cr_gguf_find(const cr_gguf *file, const char *key, cera_value *out)
{
    const cr_gguf_entry *entry = cr_gguf_lookup_key(file, cr_str_from(key));
    if (entry == NULL)
        return false;
    cr_gguf_value_of(entry, out);
    return true;
}

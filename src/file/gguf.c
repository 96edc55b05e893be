/* A GGUF file: where its bytes come from, who owns them, and access to what the header holds.
 *
 * A path is mapped: the weights stay in the page cache, shared with every other process, and
 * opening touches the header only. Where a file cannot be mapped, or must not be, it is read into
 * memory. */
#include "file/gguf_internal.h"
#include "file/io_error.h"

#include <assert.h>
#include <errno.h>

static cera_status io_failed(const cr_gguf *file, const char *verb, int error, cera_error *err)
{
    return cr_io_failed(err, file->path, verb, error);
}

/* Room for the whole file. */
static cera_status own_bytes(cr_gguf *file, uint64_t size, cera_error *err)
{
    if (size > SIZE_MAX)
        return cr_fail(err, CERA_E_LIMIT, "%s: a file of %llu bytes, expected at most %zu",
                       file->path, (unsigned long long)size, SIZE_MAX);
    file->owned = cr_alloc(file->host, CR_MEM_FILE, (size_t)size);
    if (file->owned == NULL)
        return cr_fail_nomem(err, (size_t)size, file->path);
    file->bytes = file->owned;
    file->n_bytes = (size_t)size;
    return CERA_OK;
}

static cera_status read_file(cr_gguf *file, uint64_t size, cera_error *err)
{
    const cera_os *os = &file->host->os;
    CR_TRY(own_bytes(file, size, err));
    for (size_t done = 0; done < file->n_bytes;) {
        size_t want = file->n_bytes - done;
        int64_t got = os->read(os->ctx, file->os_file, file->owned + done, want, done);
        if (got == -EINTR)
            continue;
        if (got < 0)
            return io_failed(file, "read", (int)-got, err);
        if (got == 0 || (uint64_t)got > want)
            return cr_fail(err, CERA_E_IO, "%s: the file ends at byte %zu, expected %zu bytes",
                           file->path, done, file->n_bytes);
        done += (size_t)got;
    }
    return CERA_OK;
}

/* Maps file->os_file, or reads it when the source or the system says so. */
static cera_status load_file(cr_gguf *file, bool no_mmap, cera_error *err)
{
    const cera_os *os = &file->host->os;
    int error = os->stat(os->ctx, file->os_file, &file->stat);
    if (error != 0)
        return io_failed(file, "look at it", error, err);
    if (!file->stat.is_regular)
        return cr_fail(err, CERA_E_IO, "%s: expected a regular file", file->path);

    uint64_t size = file->stat.size;
    if (no_mmap || size == 0 || size > SIZE_MAX)
        return read_file(file, size, err);
    const void *bytes;
    error = os->map(os->ctx, file->os_file, (size_t)size, &bytes);
    if (error == ENODEV || error == EINVAL)
        return read_file(file, size, err);
    if (error != 0)
        return io_failed(file, "map", error, err);
    file->mapped = bytes;
    file->bytes = bytes;
    file->n_bytes = (size_t)size;
    return CERA_OK;
}

static void close_file(cr_gguf *file)
{
    const cera_os *os = &file->host->os;
    if (file->os_file != NULL)
        os->close(os->ctx, file->os_file);
    file->os_file = NULL;
}

static cera_status open_path(cr_gguf *file, const cera_source *source, cera_error *err)
{
    const cera_os *os = &file->host->os;
    void *handle;
    int error = os->open(os->ctx, source->path, &handle);
    if (error != 0)
        return io_failed(file, "open", error, err);
    file->os_file = handle;
    cera_status status = load_file(file, source->no_mmap, err);
    /* A mapping keeps its file open, for check_unchanged. */
    if (file->mapped == NULL)
        close_file(file);
    return status;
}

static cera_status open_callback(cr_gguf *file, const cera_source *source, cera_error *err)
{
    enum { PIECE = 1 << 26 };
    CR_TRY(own_bytes(file, source->n_data, err));
    for (size_t done = 0; done < file->n_bytes;) {
        size_t n = CR_MIN(file->n_bytes - done, (size_t)PIECE);
        int error = source->read(source->user, file->owned + done, n, done);
        if (error != 0)
            return cr_fail(err, CERA_E_IO, "%s: the read callback failed at byte %zu (error %d)",
                           file->path, done, error);
        done += n;
    }
    return CERA_OK;
}

static cera_status open_memory(cr_gguf *file, const cera_source *source, cera_error *err)
{
    if (source->n_data > SIZE_MAX)
        return cr_fail(err, CERA_E_ARG, "n_data: %llu bytes, expected at most %zu",
                       (unsigned long long)source->n_data, SIZE_MAX);
    file->bytes = source->data;
    file->n_bytes = (size_t)source->n_data;
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
        status = open_path(file, source, err);
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
    cr_free(host, CR_MEM_FILE, file->owned, file->n_bytes);
    if (file->mapped != NULL)
        host->os.unmap(host->os.ctx, file->mapped, file->n_bytes);
    close_file(file);
    cr_free(host, CR_MEM_FILE, file, file->struct_size);
}

static cera_status check_unchanged(const cr_gguf *file, cera_error *err)
{
    if (file->mapped == NULL)
        return CERA_OK;
    const cera_os *os = &file->host->os;
    const cera_os_stat *then = &file->stat;
    cera_os_stat now;
    int error = os->stat(os->ctx, file->os_file, &now);
    if (error != 0)
        return io_failed(file, "look at it", error, err);
    if (now.size != then->size)
        return cr_fail(err, CERA_E_IO,
                       "%s: the file changed since it was opened: expected %llu bytes, found %llu",
                       file->path, (unsigned long long)then->size, (unsigned long long)now.size);
    if (now.mtime_ns != then->mtime_ns || now.device != then->device || now.inode != then->inode)
        return cr_fail(err, CERA_E_IO, "%s: the file changed since it was opened", file->path);
    return CERA_OK;
}

cera_status cr_gguf_check_unchanged(const cr_gguf *file, cera_error *err)
{
    CR_TRY(check_unchanged(file, err));
    for (uint32_t i = 1; file->parts != NULL && i < file->n_parts; i++)
        CR_TRY(check_unchanged(file->parts[i], err));
    return CERA_OK;
}

/* ---- access ---------------------------------------------------------------------------------- */

void cr_gguf_get_info(const cr_gguf *file, cera_file_info *out)
{
    *out = (cera_file_info){
        .version = file->version,
        .size = file->n_bytes,
        .alignment = file->alignment,
        .data_offset = file->data_offset,
        .n_keys = file->n_keys,
        .n_tensors = file->n_tensors,
        .n_params = file->n_params,
        .n_parts = file->n_parts,
        .quant = cr_gguf_quant_name(file),
    };
    for (uint32_t i = 1; file->parts != NULL && i < file->n_parts; i++)
        out->size += file->parts[i]->n_bytes;
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

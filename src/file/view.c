#include "file/view.h"

#include "file/io_error.h"

#include <errno.h>

cera_status cr_view_alloc(cr_view *view, cr_host *host, uint64_t n_bytes, const char *name,
                          cera_error *err)
{
    *view = (cr_view){ .host = host };
    if (n_bytes > SIZE_MAX)
        return cr_fail(err, CERA_E_LIMIT, "%s: %llu bytes, expected at most %zu", name,
                       (unsigned long long)n_bytes, (size_t)SIZE_MAX);
    view->owned = cr_alloc(host, CR_MEM_FILE, (size_t)n_bytes);
    if (view->owned == NULL)
        return cr_fail_nomem(err, (size_t)n_bytes, name);
    view->bytes = view->owned;
    view->n_bytes = (size_t)n_bytes;
    return CERA_OK;
}

static cera_status read_all(cr_view *view, void *file, uint64_t size, const char *path,
                            cera_error *err)
{
    const cera_os *os = &view->host->os;
    cera_os_stat stat = view->stat;
    CR_TRY(cr_view_alloc(view, view->host, size, path, err));
    view->stat = stat;
    for (size_t done = 0; done < view->n_bytes;) {
        size_t want = view->n_bytes - done;
        int64_t got = os->read(os->ctx, file, view->owned + done, want, done);
        if (got == -EINTR)
            continue;
        if (got < 0)
            return cr_io_failed(err, path, "read", (int)-got);
        if (got == 0 || (uint64_t)got > want)
            return cr_fail(err, CERA_E_IO, "%s: the file ends at byte %zu, expected %zu bytes",
                           path, done, view->n_bytes);
        done += (size_t)got;
    }
    return CERA_OK;
}

static cera_status load(cr_view *view, void *file, const char *path, uint64_t max_bytes,
                        bool no_mmap, cera_error *err)
{
    const cera_os *os = &view->host->os;
    int error = os->stat(os->ctx, file, &view->stat);
    if (error != 0)
        return cr_io_failed(err, path, "look at it", error);
    if (!view->stat.is_regular)
        return cr_fail(err, CERA_E_IO, "%s: expected a regular file", path);
    uint64_t size = view->stat.size;
    if (size > max_bytes)
        return cr_fail(err, CERA_E_LIMIT, "%s: expected at most %llu bytes, found %llu", path,
                       (unsigned long long)max_bytes, (unsigned long long)size);
    if (no_mmap || size == 0 || size > SIZE_MAX)
        return read_all(view, file, size, path, err);
    const void *bytes;
    error = os->map(os->ctx, file, (size_t)size, &bytes);
    if (error == ENODEV || error == EINVAL)
        return read_all(view, file, size, path, err);
    if (error != 0)
        return cr_io_failed(err, path, "map", error);
    view->bytes = bytes;
    view->n_bytes = (size_t)size;
    view->os_file = file;
    return CERA_OK;
}

cera_status cr_view_open(cr_view *view, cr_host *host, const char *path, uint64_t max_bytes,
                         bool no_mmap, cera_error *err)
{
    const cera_os *os = &host->os;
    *view = (cr_view){ .host = host };
    void *file;
    int error = os->open(os->ctx, path, &file);
    if (error != 0)
        return cr_io_failed(err, path, "open", error);
    cera_status status = load(view, file, path, max_bytes, no_mmap, err);
    if (view->os_file == NULL)
        os->close(os->ctx, file);
    if (status != CERA_OK)
        cr_view_done(view);
    return status;
}

cera_status cr_view_check_unchanged(const cr_view *view, const char *path, cera_error *err)
{
    if (view->os_file == NULL)
        return CERA_OK;
    const cera_os *os = &view->host->os;
    const cera_os_stat *then = &view->stat;
    cera_os_stat now;
    int error = os->stat(os->ctx, view->os_file, &now);
    if (error != 0)
        return cr_io_failed(err, path, "look at it", error);
    if (now.size != then->size)
        return cr_fail(err, CERA_E_IO,
                       "%s: the file changed since it was opened: expected %llu bytes, found %llu",
                       path, (unsigned long long)then->size, (unsigned long long)now.size);
    if (now.mtime_ns != then->mtime_ns || now.device != then->device || now.inode != then->inode)
        return cr_fail(err, CERA_E_IO, "%s: the file changed since it was opened", path);
    return CERA_OK;
}

void cr_view_done(cr_view *view)
{
    if (view->host == NULL)
        return;
    const cera_os *os = &view->host->os;
    if (view->owned != NULL)
        cr_free(view->host, CR_MEM_FILE, view->owned, view->n_bytes);
    else if (view->bytes != NULL && view->os_file != NULL)
        os->unmap(os->ctx, view->bytes, view->n_bytes);
    if (view->os_file != NULL)
        os->close(os->ctx, view->os_file);
    *view = (cr_view){ 0 };
}

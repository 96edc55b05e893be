#include "file/view.h"

#include "file/io_error.h"

#include <errno.h>

static cera_status read_all(cr_view *view, void *file, size_t n, const char *path, cera_error *err)
{
    const cera_os *os = &view->host->os;
    view->owned = cr_alloc(view->host, CR_MEM_FILE, n);
    if (view->owned == NULL)
        return cr_fail_nomem(err, n, path);
    view->bytes = view->owned;
    view->n_bytes = n;
    for (size_t done = 0; done < n;) {
        int64_t got = os->read(os->ctx, file, view->owned + done, n - done, done);
        if (got == -EINTR)
            continue;
        if (got < 0)
            return cr_io_failed(err, path, "read", (int)-got);
        if (got == 0 || (uint64_t)got > n - done)
            return cr_fail(err, CERA_E_IO, "%s: the file ends at byte %zu, expected %zu bytes",
                           path, done, n);
        done += (size_t)got;
    }
    return CERA_OK;
}

static cera_status load(cr_view *view, void *file, const char *path, uint64_t max_bytes,
                        cera_error *err)
{
    const cera_os *os = &view->host->os;
    cera_os_stat stat;
    int error = os->stat(os->ctx, file, &stat);
    if (error != 0)
        return cr_io_failed(err, path, "look at it", error);
    if (!stat.is_regular)
        return cr_fail(err, CERA_E_IO, "%s: expected a regular file", path);
    if (stat.size > max_bytes || stat.size > SIZE_MAX)
        return cr_fail(err, CERA_E_LIMIT, "%s: expected at most %llu bytes, found %llu", path,
                       (unsigned long long)max_bytes, (unsigned long long)stat.size);
    if (stat.size == 0)
        return CERA_OK;
    const void *bytes;
    error = os->map(os->ctx, file, (size_t)stat.size, &bytes);
    if (error == ENODEV || error == EINVAL)
        return read_all(view, file, (size_t)stat.size, path, err);
    if (error != 0)
        return cr_io_failed(err, path, "map", error);
    view->bytes = bytes;
    view->n_bytes = (size_t)stat.size;
    return CERA_OK;
}

cera_status cr_view_open(cr_view *view, cr_host *host, const char *path, uint64_t max_bytes,
                         cera_error *err)
{
    const cera_os *os = &host->os;
    *view = (cr_view){ .host = host };
    void *file;
    int error = os->open(os->ctx, path, &file);
    if (error != 0)
        return cr_io_failed(err, path, "open", error);
    cera_status status = load(view, file, path, max_bytes, err);
    os->close(os->ctx, file);
    if (status != CERA_OK)
        cr_view_done(view);
    return status;
}

void cr_view_done(cr_view *view)
{
    if (view->host == NULL)
        return;
    const cera_os *os = &view->host->os;
    if (view->owned != NULL)
        cr_free(view->host, CR_MEM_FILE, view->owned, view->n_bytes);
    else if (view->bytes != NULL)
        os->unmap(os->ctx, view->bytes, view->n_bytes);
    *view = (cr_view){ 0 };
}

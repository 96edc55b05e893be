#include "file/output.h"

#include "file/io_error.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PATH = 4096, MAX_LINKS = 40 }; /* as Linux has them */

/* A file of the target's name is about to be replaced; a device or a folder must not be. *mode
 * becomes that of the file, if there is one. */
static cera_status check_target(cr_host *host, const char *path, uint32_t *mode, cera_error *err)
{
    const cera_os *os = &host->os;
    size_t n = strlen(path);
    if (n == 0 || path[n - 1] == '/')
        return cr_fail(err, CERA_E_ARG, "path: expected the name of a file, found \"%s\"", path);
    void *file;
    int error = os->open(os->ctx, path, &file);
    if (error == ENOENT)
        return CERA_OK;
    if (error != 0)
        return cr_io_failed(err, path, "look at it", error);
    cera_os_stat stat;
    error = os->stat(os->ctx, file, &stat);
    os->close(os->ctx, file);
    if (error != 0)
        return cr_io_failed(err, path, "look at it", error);
    if (!stat.is_regular)
        return cr_fail(err, CERA_E_IO, "%s: expected a regular file or nothing of that name", path);
    *mode = stat.mode;
    return CERA_OK;
}

/* Puts what a link says in the place of the link's own name; false: there is no room. */
static bool go_along(char *path, const char *link)
{
    const char *slash = strrchr(path, '/');
    size_t n_folder = link[0] == '/' || slash == NULL ? 0 : (size_t)(slash - path) + 1;
    size_t n = strlen(link) + 1;
    if (n > MAX_PATH - n_folder)
        return false;
    memcpy(path + n_folder, link, n);
    return true;
}

/* The name behind all links: a rename would replace the link itself. path: [MAX_PATH] */
static cera_status follow_links(cr_host *host, char *path, cera_error *err)
{
    const cera_os *os = &host->os;
    char link[MAX_PATH];
    for (int i = 0; i < MAX_LINKS; i++) {
        int error = os->read_link(os->ctx, path, link, sizeof link);
        if (error == EINVAL || error == ENOENT) /* no link, or nothing yet */
            return CERA_OK;
        if (error == 0 && !go_along(path, link))
            error = ENAMETOOLONG;
        if (error != 0)
            return cr_io_failed(err, path, "follow the link", error);
    }
    return cr_io_failed(err, path, "follow the link", ELOOP);
}

static cera_status create_part(cr_output *out, size_t room, uint32_t mode, cera_error *err)
{
    enum { MAX_TRIES = 100 }; /* names that a process of the same number may have left behind */
    const cera_os *os = &out->host->os;
    char *part = out->path + strlen(out->path) + 1;
    int error = EEXIST;
    for (int i = 0; error == EEXIST && i < MAX_TRIES; i++) {
        snprintf(part, room, "%s.%llu-%d.part", out->path, (unsigned long long)os->process(os->ctx),
                 i);
        error = os->create(os->ctx, part, mode, &out->file);
    }
    if (error != 0) {
        out->file = NULL;
        return cr_io_failed(err, part, "create", error);
    }
    out->part = part;
    return CERA_OK;
}

cera_status cr_output_open(cr_output *out, cr_host *host, const char *path, uint32_t mode,
                           cera_error *err)
{
    enum { SUFFIX = 40 }; /* ".18446744073709551615-99.part" */
    *out = (cr_output){ .host = host };
    CR_TRY(check_target(host, path, &mode, err));
    char target[MAX_PATH];
    size_t n_path = strlen(path) + 1;
    if (n_path > sizeof target)
        return cr_io_failed(err, path, "look at it", ENAMETOOLONG);
    memcpy(target, path, n_path);
    CR_TRY(follow_links(host, target, err));
    size_t n = strlen(target) + 1, n_text = n + n + SUFFIX;
    out->path = cr_alloc(host, CR_MEM_FILE, n_text);
    if (out->path == NULL)
        return cr_fail_nomem(err, n_text, path);
    out->n_text = n_text;
    memcpy(out->path, target, n);
    cera_status status = create_part(out, n + SUFFIX, mode, err);
    if (status != CERA_OK)
        cr_output_done(out);
    return status;
}

cera_status cr_output_check(cr_host *host, const char *path, cera_error *err)
{
    cr_output out;
    CR_TRY(cr_output_open(&out, host, path, 0, err));
    cr_output_done(&out);
    return CERA_OK;
}

cera_status cr_output_write(cr_output *out, const void *data, size_t n, cera_error *err)
{
    assert(out->file != NULL);
    const cera_os *os = &out->host->os;
    const uint8_t *bytes = data;
    while (n > 0) {
        int64_t put = os->write(os->ctx, out->file, bytes, n, out->offset);
        if (put == -EINTR)
            continue;
        if (put <= 0 || (uint64_t)put > n)
            return cr_io_failed(err, out->part, "write", put < 0 ? (int)-put : EIO);
        bytes += put;
        n -= (size_t)put;
        out->offset += (uint64_t)put;
    }
    return CERA_OK;
}

cera_status cr_output_commit(cr_output *out, cera_error *err)
{
    assert(out->file != NULL);
    const cera_os *os = &out->host->os;
    int error = os->sync(os->ctx, out->file);
    if (error != 0)
        return cr_io_failed(err, out->part, "finish writing", error);
    os->close(os->ctx, out->file);
    out->file = NULL;
    error = os->rename(os->ctx, out->part, out->path);
    if (error != 0)
        return cr_io_failed(err, out->path, "give the finished file its name", error);
    out->part = NULL;
    error = os->sync_folder(os->ctx, out->path);
    if (error != 0)
        return cr_io_failed(err, out->path, "make the new name last", error);
    return CERA_OK;
}

void cr_output_done(cr_output *out)
{
    if (out->host == NULL)
        return;
    const cera_os *os = &out->host->os;
    if (out->file != NULL)
        os->close(os->ctx, out->file);
    if (out->part != NULL)
        os->remove(os->ctx, out->part);
    cr_free(out->host, CR_MEM_FILE, out->path, out->n_text);
    *out = (cr_output){ 0 };
}

cera_status cr_output_write_file(cr_host *host, const char *path, uint32_t mode, const void *data,
                                 size_t n, cera_error *err)
{
    cr_output out;
    CR_TRY(cr_output_open(&out, host, path, mode, err));
    cera_status status = cr_output_write(&out, data, n, err);
    if (status == CERA_OK)
        status = cr_output_commit(&out, err);
    cr_output_done(&out);
    return status;
}

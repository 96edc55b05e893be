#include "session/store_folder.h"

#include "base/text.h"
#include "file/io_error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { KEY_DIGITS = 32 };
static const char EXTENSION[] = ".kv", PART[] = ".part";
/* A part that is so much older than the youngest file has been left behind. */
static const int64_t PART_NS = INT64_C(3600) * 1000000000;

bool cr_store_folder_init(cr_store_folder *f, cr_host *host, const char *folder, uint64_t budget)
{
    size_t n = strlen(folder) + 1;
    *f = (cr_store_folder){
        .host = host,
        .budget = budget,
        .n_path = n + 1 + CR_STORE_NAME,
    };
    f->folder = cr_alloc(host, CR_MEM_OBJECT, f->n_path);
    f->path = cr_alloc(host, CR_MEM_OBJECT, f->n_path);
    if (!f->folder || !f->path)
        return false;
    memcpy(f->folder, folder, n);
    return true;
}

void cr_store_folder_done(cr_store_folder *f)
{
    if (!f->host)
        return;
    cr_free(f->host, CR_MEM_OBJECT, f->folder, f->n_path);
    cr_free(f->host, CR_MEM_OBJECT, f->path, f->n_path);
}

void cr_store_path(const cr_store_folder *f, cr_digest key, int block, char *path)
{
    snprintf(path, f->n_path, "%s/%016llx%016llx-%d%s", f->folder, (unsigned long long)key.high,
             (unsigned long long)key.low, block, EXTENSION);
}

/* ---- counting ---------------------------------------------------------------------------- */

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* Whether it is the name of a file of ours, whole or a part; only such files are ever counted or
 * removed. */
static bool read_name(const char *name, int *block, bool *is_part)
{
    size_t n = strlen(name), at = 0;
    while (at < n && at < KEY_DIGITS && is_hex(name[at]))
        at++;
    if (n >= CR_STORE_NAME || at != KEY_DIGITS || name[at++] != '-')
        return false;
    size_t first = at;
    while (at < n && name[at] >= '0' && name[at] <= '9')
        at++;
    int64_t number;
    size_t n_extension = sizeof EXTENSION - 1, n_part = sizeof PART - 1;
    if (!cr_parse_i64((cr_str){ name + first, at - first }, &number) || number > INT32_MAX ||
        strncmp(name + at, EXTENSION, n_extension) != 0)
        return false;
    at += n_extension;
    *block = (int)number;
    *is_part = at < n;
    return !*is_part || (name[at] == '.' && strcmp(name + n - n_part, PART) == 0);
}

/* Whether a goes before b: it was used less recently, or at the same time and stands behind it. */
static bool goes_before(const cr_store_file *a, const cr_store_file *b)
{
    return a->mtime_ns < b->mtime_ns || (a->mtime_ns == b->mtime_ns && a->block > b->block);
}

/* Keeps the oldest ones in order. */
static int note_file(void *user, const char *name, const cera_os_stat *stat)
{
    cr_store_folder *f = user;
    cr_store_file file = { .mtime_ns = stat->mtime_ns, .size = stat->size };
    bool is_part;
    if (!read_name(name, &file.block, &is_part))
        return 0;
    f->n_bytes += stat->size;
    f->newest = CR_MAX(f->newest, stat->mtime_ns);
    memcpy(file.name, name, strlen(name) + 1);
    if (is_part) /* somebody is writing it, or it is for note_part */
        return 0;
    int at = f->n_oldest;
    while (at > 0 && goes_before(&file, &f->oldest[at - 1]))
        at--;
    if (at == CR_STORE_OLDEST)
        return 0;
    int n_moved = CR_MIN(f->n_oldest, CR_STORE_OLDEST - 1) - at;
    memmove(&f->oldest[at + 1], &f->oldest[at], (size_t)n_moved * sizeof file);
    f->oldest[at] = file;
    f->n_oldest = CR_MIN(f->n_oldest + 1, CR_STORE_OLDEST);
    return 0;
}

static void remove_file(cr_store_folder *f, const char *name, uint64_t size)
{
    const cera_os *os = &f->host->os;
    snprintf(f->path, f->n_path, "%s/%s", f->folder, name);
    int error = os->remove(os->ctx, f->path);
    if (error == 0 || error == ENOENT) /* another process was faster */
        f->n_bytes -= CR_MIN(size, f->n_bytes);
}

static int note_part(void *user, const char *name, const cera_os_stat *stat)
{
    cr_store_folder *f = user;
    int block;
    bool is_part;
    if (read_name(name, &block, &is_part) && is_part && stat->mtime_ns < f->newest - PART_NS)
        remove_file(f, name, stat->size);
    return 0;
}

static cera_status count(cr_store_folder *f, cera_error *err)
{
    const cera_os *os = &f->host->os;
    f->n_bytes = f->n_since = 0;
    f->n_oldest = 0;
    int error = os->list(os->ctx, f->folder, note_file, f);
    if (error == 0)
        error = os->list(os->ctx, f->folder, note_part, f);
    if (error != 0)
        return cr_io_failed(err, f->folder, "list", error);
    f->is_counted = true;
    return CERA_OK;
}

/* ---- making room ------------------------------------------------------------------------- */

/* Removes the oldest files until no more than `most` bytes are left, or none can be removed. */
static cera_status shrink(cr_store_folder *f, uint64_t most, cera_error *err)
{
    while (f->n_bytes > most) {
        uint64_t before = f->n_bytes;
        for (int i = 0; i < f->n_oldest && f->n_bytes > most; i++)
            remove_file(f, f->oldest[i].name, f->oldest[i].size);
        if (f->n_bytes == before)
            return cr_fail(err, CERA_E_IO, "%s: it has %llu bytes, and no file can be removed",
                           f->folder, (unsigned long long)f->n_bytes);
        if (f->n_bytes > most)
            CR_TRY(count(f, err));
    }
    return CERA_OK;
}

cera_status cr_store_make_room(cr_store_folder *f, uint64_t size, cera_error *err)
{
    const cera_os *os = &f->host->os;
    if (!f->is_made) {
        int error = os->make_folder(os->ctx, f->folder);
        if (error != 0)
            return cr_io_failed(err, f->folder, "create", error);
        f->is_made = true;
    }
    if (size > f->budget)
        return cr_fail(err, CERA_E_LIMIT, "%s: a file of %llu bytes, at most %llu for all",
                       f->folder, (unsigned long long)size, (unsigned long long)f->budget);
    bool is_full = f->n_bytes + size > f->budget;
    if (!f->is_counted || is_full || f->n_since > f->budget / 16)
        CR_TRY(count(f, err));
    /* An eighth at a time, so that listing is rare. */
    if (f->n_bytes + size > f->budget)
        return shrink(f, CR_MIN(f->budget - size, f->budget - f->budget / 8), err);
    return CERA_OK;
}

void cr_store_count(cr_store_folder *f, uint64_t size)
{
    f->n_bytes += size;
    f->n_since += size;
}

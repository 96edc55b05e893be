#include "session/store_folder.h"

#include "base/text.h"
#include "file/io_error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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

void cr_store_path(const cr_store_folder *f, const cr_store_key *key, char *path)
{
    snprintf(path, f->n_path, "%s/%016llx%016llx-%d-%d-%016llx%s", f->folder,
             (unsigned long long)key->path.high, (unsigned long long)key->path.low, key->block,
             key->n, (unsigned long long)key->own, EXTENSION);
}

/* ---- names ------------------------------------------------------------------------------- */

/* Takes 16 hexadecimal digits off the front. */
static bool take_hex(const char **at, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < 16; i++) {
        char c = *(*at)++;
        bool is_digit = c >= '0' && c <= '9';
        if (!is_digit && !(c >= 'a' && c <= 'f'))
            return false;
        *out = *out << 4 | (uint64_t)(is_digit ? c - '0' : c - 'a' + 10);
    }
    return true;
}

/* Takes "-" and a number off the front. */
static bool take_number(const char **at, int *out)
{
    if (*(*at)++ != '-')
        return false;
    size_t n = strspn(*at, "0123456789");
    int64_t number;
    if (!cr_parse_i64((cr_str){ *at, n }, &number) || number > INT32_MAX)
        return false;
    *at += n;
    *out = (int)number;
    return true;
}

bool cr_store_read_name(const char *name, cr_store_key *key, bool *is_part)
{
    size_t n = strlen(name), n_extension = sizeof EXTENSION - 1, n_part = sizeof PART - 1;
    const char *at = name;
    *key = (cr_store_key){ .n = 0 };
    if (n >= CR_STORE_NAME || !take_hex(&at, &key->path.high) || !take_hex(&at, &key->path.low) ||
        !take_number(&at, &key->block))
        return false;
    /* Names of version 1 end here. */
    if (*at == '-' && (!take_number(&at, &key->n) || *at++ != '-' || !take_hex(&at, &key->own)))
        return false;
    if (strncmp(at, EXTENSION, n_extension) != 0)
        return false;
    at += n_extension;
    *is_part = *at != '\0';
    return !*is_part || (*at == '.' && strcmp(name + n - n_part, PART) == 0);
}

/* ---- counting ---------------------------------------------------------------------------- */

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
    cr_store_key key;
    bool is_part;
    if (!cr_store_read_name(name, &key, &is_part)) /* only files of ours are counted or removed */
        return 0;
    file.block = key.block;
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
    cr_store_key key;
    bool is_part;
    if (cr_store_read_name(name, &key, &is_part) && is_part && stat->mtime_ns < f->newest - PART_NS)
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
        if (error == 0)
            error = os->sync_folder(os->ctx, f->folder); /* or all in it may be lost with it */
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

void cr_store_remove(cr_store_folder *f, const cr_store_key *key)
{
    const cera_os *os = &f->host->os;
    void *file;
    cera_os_stat stat;
    cr_store_path(f, key, f->path);
    if (os->open(os->ctx, f->path, &file) != 0)
        return;
    int error = os->stat(os->ctx, file, &stat);
    os->close(os->ctx, file);
    if (error == 0 && os->remove(os->ctx, f->path) == 0)
        f->n_bytes -= CR_MIN(stat.size, f->n_bytes);
}

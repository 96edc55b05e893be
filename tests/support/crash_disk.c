#include "support/crash_disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SECTOR = 512, MAX_BYTES = 1 << 20 };

void crash_init(crash_disk *d)
{
    memset(d, 0, sizeof *d);
    pthread_mutex_init(&d->lock, NULL);
}

void crash_done(crash_disk *d)
{
    for (int i = 0; i < d->n_files; i++)
        free(d->files[i].data);
    for (size_t i = 0; i < d->n_ops; i++)
        free(d->ops[i].data);
    free(d->ops);
    pthread_mutex_destroy(&d->lock);
}

/* ---- names ------------------------------------------------------------------------------- */

static int find_name(const crash_names *names, const char *path)
{
    for (int i = 0; i < names->n; i++) {
        if (strcmp(names->names[i].path, path) == 0)
            return i;
    }
    return -1;
}

static void unname(crash_names *names, const char *path)
{
    int i = find_name(names, path);
    if (i >= 0)
        names->names[i] = names->names[--names->n];
}

static void name(crash_names *names, const char *path, int file)
{
    unname(names, path);
    if (names->n == CRASH_FILES || strlen(path) >= CRASH_PATH)
        abort();
    strcpy(names->names[names->n].path, path);
    names->names[names->n++].file = file;
}

/* Into room for CRASH_PATH. */
static void folder_of(const char *path, char *folder)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    memcpy(folder, path, n);
    folder[n] = '\0';
}

static bool is_in(const char *path, const char *folder)
{
    char its[CRASH_PATH];
    folder_of(path, its);
    return strcmp(its, folder) == 0;
}

/* ---- operations -------------------------------------------------------------------------- */

static crash_op *log_op(crash_disk *d, crash_op_kind kind, int file, const char *path)
{
    if (d->n_ops == d->n_room) {
        d->n_room = d->n_room * 2 + 64;
        d->ops = realloc(d->ops, d->n_room * sizeof *d->ops);
        if (!d->ops)
            abort();
    }
    crash_op *op = &d->ops[d->n_ops++];
    *op = (crash_op){ .kind = kind, .file = file };
    if (path)
        strcpy(op->path, path);
    return op;
}

static int new_file(crash_disk *d)
{
    if (d->n_files == CRASH_FILES)
        abort();
    d->files[d->n_files] = (crash_file){ .mtime_ns = ++d->clock_ns };
    return d->n_files++;
}

static void write_bytes(crash_file *f, uint64_t offset, const uint8_t *data, size_t n)
{
    size_t end = (size_t)offset + n;
    if (n == 0)
        return;
    if (end > MAX_BYTES)
        abort();
    if (end > f->size) {
        f->data = realloc(f->data, end);
        if (!f->data)
            abort();
        memset(f->data + f->size, 0, end - f->size);
        f->size = end;
    }
    if (data)
        memcpy(f->data + offset, data, n);
}

void crash_mark(crash_disk *d, size_t number)
{
    pthread_mutex_lock(&d->lock);
    log_op(d, CRASH_MARK, 0, NULL)->n = number;
    pthread_mutex_unlock(&d->lock);
}

/* ---- the operating system ---------------------------------------------------------------- */

/* A handle is the file's number plus one. */
static int number_of(void *file)
{
    return (int)((intptr_t)file - 1);
}

static crash_disk *take(void *ctx)
{
    crash_disk *d = *(crash_disk **)ctx;
    pthread_mutex_lock(&d->lock);
    return d;
}

static int drop(crash_disk *d, int error)
{
    pthread_mutex_unlock(&d->lock);
    return error;
}

static int open_file(void *ctx, const char *path, void **file)
{
    crash_disk *d = take(ctx);
    int i = find_name(&d->now, path);
    if (i < 0)
        return drop(d, ENOENT);
    if (d->now.names[i].file < 0)
        return drop(d, EISDIR);
    *file = (void *)((intptr_t)d->now.names[i].file + 1);
    return drop(d, 0);
}

static void close_file(void *ctx, void *file)
{
    (void)ctx;
    (void)file;
}

static cera_os_stat stat_of(const crash_file *f)
{
    return (cera_os_stat){ .size = f->size, .mtime_ns = f->mtime_ns, .is_regular = true };
}

static int stat_file(void *ctx, void *file, cera_os_stat *out)
{
    crash_disk *d = take(ctx);
    *out = stat_of(&d->files[number_of(file)]);
    return drop(d, 0);
}

static int64_t read_file(void *ctx, void *file, void *buf, size_t n, uint64_t offset)
{
    crash_disk *d = take(ctx);
    const crash_file *f = &d->files[number_of(file)];
    n = offset >= f->size ? 0 : n < f->size - offset ? n : f->size - (size_t)offset;
    if (n > 0)
        memcpy(buf, f->data + offset, n);
    drop(d, 0);
    return (int64_t)n;
}

static int create_file(void *ctx, const char *path, uint32_t mode, void **file)
{
    (void)mode;
    crash_disk *d = take(ctx);
    char folder[CRASH_PATH];
    folder_of(path, folder);
    if (find_name(&d->now, path) >= 0)
        return drop(d, EEXIST);
    if (folder[0] && find_name(&d->now, folder) < 0)
        return drop(d, ENOENT);
    int number = new_file(d);
    name(&d->now, path, number);
    log_op(d, CRASH_NAME, number, path);
    *file = (void *)((intptr_t)number + 1);
    return drop(d, 0);
}

static int64_t write_file(void *ctx, void *file, const void *buf, size_t n, uint64_t offset)
{
    crash_disk *d = take(ctx);
    crash_file *f = &d->files[number_of(file)];
    write_bytes(f, offset, buf, n);
    f->mtime_ns = ++d->clock_ns;
    crash_op *op = log_op(d, CRASH_WRITE, number_of(file), NULL);
    op->offset = offset;
    op->n = n;
    op->data = malloc(n);
    if (!op->data)
        abort();
    memcpy(op->data, buf, n);
    drop(d, 0);
    return (int64_t)n;
}

static int sync_file(void *ctx, void *file)
{
    crash_disk *d = take(ctx);
    if (!d->forgets_sync)
        log_op(d, CRASH_SYNC, number_of(file), NULL);
    return drop(d, 0);
}

static int rename_file(void *ctx, const char *from, const char *to)
{
    crash_disk *d = take(ctx);
    int i = find_name(&d->now, from);
    if (i < 0)
        return drop(d, ENOENT);
    int file = d->now.names[i].file;
    unname(&d->now, from);
    name(&d->now, to, file);
    log_op(d, CRASH_UNNAME, file, from);
    log_op(d, CRASH_NAME, file, to);
    return drop(d, 0);
}

static int sync_folder(void *ctx, const char *path)
{
    crash_disk *d = take(ctx);
    char folder[CRASH_PATH];
    folder_of(path, folder);
    if (!d->forgets_folders)
        log_op(d, CRASH_SYNC_FOLDER, 0, folder);
    return drop(d, 0);
}

static int remove_file(void *ctx, const char *path)
{
    crash_disk *d = take(ctx);
    if (find_name(&d->now, path) < 0)
        return drop(d, ENOENT);
    unname(&d->now, path);
    log_op(d, CRASH_UNNAME, 0, path);
    return drop(d, 0);
}

static int read_link(void *ctx, const char *path, char *to, size_t room)
{
    (void)ctx, (void)path, (void)to, (void)room;
    return EINVAL; /* there are none */
}

static int make_folder(void *ctx, const char *path)
{
    crash_disk *d = take(ctx);
    if (find_name(&d->now, path) < 0) {
        name(&d->now, path, -1);
        log_op(d, CRASH_FOLDER, -1, path);
    }
    return drop(d, 0);
}

static int list_folder(void *ctx, const char *folder,
                       int (*each)(void *user, const char *name, const cera_os_stat *stat),
                       void *user)
{
    crash_disk *d = take(ctx);
    crash_names names = d->now;
    cera_os_stat stats[CRASH_FILES];
    for (int i = 0; i < names.n; i++) {
        if (names.names[i].file >= 0)
            stats[i] = stat_of(&d->files[names.names[i].file]);
    }
    drop(d, 0);
    if (find_name(&names, folder) < 0)
        return ENOENT;
    for (int i = 0; i < names.n; i++) { /* without the lock: each() may remove */
        const char *path = names.names[i].path;
        if (names.names[i].file >= 0 && is_in(path, folder) &&
            each(user, strrchr(path, '/') + 1, &stats[i]) != 0)
            break;
    }
    return 0;
}

static int touch_file(void *ctx, const char *path)
{
    crash_disk *d = take(ctx);
    int i = find_name(&d->now, path);
    if (i >= 0 && d->now.names[i].file >= 0)
        d->files[d->now.names[i].file].mtime_ns = ++d->clock_ns;
    return drop(d, i < 0 ? ENOENT : 0);
}

/* The default functions that stay do without a ctx. */
void crash_host(crash_disk **holder, cera_host *host)
{
    cera_host_init(host);
    host->os.open = open_file;
    host->os.close = close_file;
    host->os.stat = stat_file;
    host->os.read = read_file;
    host->os.create = create_file;
    host->os.write = write_file;
    host->os.sync = sync_file;
    host->os.rename = rename_file;
    host->os.sync_folder = sync_folder;
    host->os.remove = remove_file;
    host->os.read_link = read_link;
    host->os.make_folder = make_folder;
    host->os.list = list_folder;
    host->os.touch = touch_file;
    host->os.ctx = holder;
}

/* ---- cutting the power ------------------------------------------------------------------- */

typedef enum fate { IS_THERE, IS_LOST, IS_ZEROS, IS_TORN } fate;

/* How operations fare that nothing has made certain. */
typedef struct plan {
    uint64_t random;
    size_t n_names, n_writes, i_name, i_write; /* of the uncertain ones, and at hand */
    int names, writes;                         /* ways: see below */
} plan;

enum { ALL, NONE, ONLY_LAST, ALL_BUT_ONE, ANY, ZEROS = ALL_BUT_ONE, N_WAYS = 4 };
_Static_assert(CRASH_N_PLAIN == N_WAYS * (N_WAYS + 1), "a plain seed says both ways");

static uint32_t next_random(plan *p)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(p->random >> 33);
}

static bool name_lasts(plan *p)
{
    size_t i = p->i_name++;
    switch (p->names) {
    case ALL:
        return true;
    case NONE:
        return false;
    case ONLY_LAST:
        return i + 1 == p->n_names;
    case ALL_BUT_ONE:
        return p->n_names - i != 2; /* the first half of a rename, say */
    default:
        return next_random(p) % 2 == 0;
    }
}

static fate fate_of_write(plan *p)
{
    size_t i = p->i_write++;
    bool is_last = i + 1 == p->n_writes;
    switch (p->writes) {
    case ALL:
        return IS_THERE;
    case NONE:
        return IS_LOST;
    case ONLY_LAST:
        return is_last ? IS_THERE : IS_LOST;
    case ZEROS:
        return IS_ZEROS;
    case N_WAYS:
        return is_last ? IS_TORN : IS_THERE;
    default:
        return (fate)(next_random(p) % 4);
    }
}

/* Whether a later one of ops[i + 1, n) makes the operation certain. */
static bool is_certain(const crash_disk *d, size_t i, size_t n)
{
    const crash_op *op = &d->ops[i];
    for (size_t at = i + 1; at < n; at++) {
        const crash_op *later = &d->ops[at];
        if (op->kind == CRASH_WRITE && later->kind == CRASH_SYNC && later->file == op->file)
            return true;
        if (op->kind != CRASH_WRITE && later->kind == CRASH_SYNC_FOLDER &&
            is_in(op->path, later->path))
            return true;
    }
    return false;
}

static bool is_naming(const crash_op *op)
{
    return op->kind == CRASH_NAME || op->kind == CRASH_UNNAME || op->kind == CRASH_FOLDER;
}

/* A torn write: its first sectors are there; or, one time in four, any, and others are zeros. */
static void tear(const crash_op *op, plan *p, crash_file *f)
{
    size_t n_sectors = op->n / SECTOR;
    if (next_random(p) % 4 > 0) {
        write_bytes(f, op->offset, op->data, next_random(p) % (n_sectors + 1) * SECTOR);
        return;
    }
    for (size_t at = 0; at < op->n; at += SECTOR) {
        size_t n = op->n - at < SECTOR ? op->n - at : SECTOR;
        write_bytes(f, op->offset + at, next_random(p) % 2 ? op->data + at : NULL, n);
    }
}

static void replay_write(const crash_op *op, fate how, plan *p, crash_file *f)
{
    if (how == IS_THERE)
        write_bytes(f, op->offset, op->data, op->n);
    else if (how == IS_ZEROS)
        write_bytes(f, op->offset, NULL, op->n);
    else if (how == IS_TORN)
        tear(op, p, f);
}

/* Files whose folder is not there are not there. */
static void drop_orphans(crash_names *names)
{
    for (int i = names->n - 1; i >= 0; i--) {
        char folder[CRASH_PATH];
        folder_of(names->names[i].path, folder);
        if (folder[0] && find_name(names, folder) < 0)
            unname(names, names->names[i].path);
    }
}

void crash_cut(const crash_disk *d, size_t n, uint64_t seed, crash_disk *out)
{
    crash_init(out);
    plan p = { .random = seed * 0x9e3779b97f4a7c15u + n, .names = ANY, .writes = ANY + 1 };
    if (seed < CRASH_N_PLAIN) {
        p.names = (int)(seed % N_WAYS);
        p.writes = (int)(seed / N_WAYS);
    }
    bool *certain = calloc(n + 1, sizeof *certain);
    if (!certain)
        abort();
    for (size_t i = 0; i < n; i++) {
        certain[i] = is_certain(d, i, n);
        p.n_names += is_naming(&d->ops[i]) && !certain[i];
        p.n_writes += d->ops[i].kind == CRASH_WRITE && !certain[i];
    }
    out->now = d->first;
    out->n_files = d->n_files;
    out->clock_ns = d->clock_ns;
    for (int i = 0; i < d->n_files; i++) {
        out->files[i] = (crash_file){ .mtime_ns = d->files[i].mtime_ns };
        if (i < d->n_first)
            write_bytes(&out->files[i], 0, d->files[i].data, d->first_sizes[i]);
    }
    for (size_t i = 0; i < n; i++) {
        const crash_op *op = &d->ops[i];
        if (op->kind == CRASH_WRITE)
            replay_write(op, certain[i] ? IS_THERE : fate_of_write(&p), &p, &out->files[op->file]);
        if (!is_naming(op) || !(certain[i] || name_lasts(&p)))
            continue;
        if (op->kind == CRASH_UNNAME)
            unname(&out->now, op->path);
        else
            name(&out->now, op->path, op->file);
    }
    free(certain);
    drop_orphans(&out->now);
    out->first = out->now;
    out->n_first = out->n_files;
    for (int i = 0; i < out->n_files; i++)
        out->first_sizes[i] = out->files[i].size;
}

size_t crash_last_mark(const crash_disk *d, size_t n)
{
    for (size_t i = n; i > 0; i--) {
        if (d->ops[i - 1].kind == CRASH_MARK)
            return d->ops[i - 1].n;
    }
    return 0;
}

/* FNV-1a. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t n)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

uint64_t crash_hash(const crash_disk *d)
{
    uint64_t all = 0; /* in any order */
    for (int i = 0; i < d->now.n; i++) {
        const crash_name *at = &d->now.names[i];
        uint64_t hash = hash_bytes(0xcbf29ce484222325u, at->path, strlen(at->path));
        if (at->file >= 0) {
            const crash_file *f = &d->files[at->file];
            hash = hash_bytes(hash_bytes(hash, &f->size, sizeof f->size), f->data, f->size);
        }
        all += hash * 0x9e3779b97f4a7c15u ^ hash >> 29;
    }
    return all;
}

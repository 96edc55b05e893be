/* The watching, failing host. A piece of memory lies between two guards:
 *
 *     malloc'd: [ slack ][ head | guard ][ what the library gets ][ guard ]
 *                                        ^ aligned as asked for
 */
#include "support/fault_host.h"

#include "base/host.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, FILL_NEW = 0xa5, FILL_OLD = 0xdd, FILL_GUARD = 0x6b };
static const uint64_t LIVE = 0x65766c692d756f79u, DEAD = 0x646561642d756f79u;

typedef struct head {
    uint64_t state; /* LIVE or DEAD */
    size_t size, align;
    void *raw;
} head;

/* ---- bookkeeping ------------------------------------------------------------------------- */

static void complain(fault_host *f, const char *format, ...) CR_PRINTF(2, 3);

/* Keeps the first complaint; the ones after it are usually its consequences. */
static void complain(fault_host *f, const char *format, ...)
{
    if (f->message[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(f->message, sizeof f->message, format, args);
    va_end(args);
}

/* Counts a call; the errno value with which it must fail, or 0. Under the lock. */
static int next_fault(fault_host *f, fault_call call)
{
    fault_plan *p = &f->plans[call];
    p->n_calls++;
    bool fails = (p->mode == FAULT_ONCE && p->n_calls == p->at) ||
                 (p->mode == FAULT_STICKY && p->n_calls >= p->at);
    if (!fails)
        return 0;
    f->n_hits++;
    return p->error;
}

static int next_fault_locked(fault_host *f, fault_call call)
{
    pthread_mutex_lock(&f->lock);
    int error = next_fault(f, call);
    pthread_mutex_unlock(&f->lock);
    return error;
}

static void add(fault_host *f, size_t *counter, size_t n)
{
    pthread_mutex_lock(&f->lock);
    *counter += n;
    pthread_mutex_unlock(&f->lock);
}

static size_t get(fault_host *f, const size_t *counter)
{
    pthread_mutex_lock(&f->lock);
    size_t n = *counter;
    pthread_mutex_unlock(&f->lock);
    return n;
}

/* ---- memory ------------------------------------------------------------------------------ */

static head *head_of(void *ptr)
{
    return (head *)(void *)((char *)ptr - GUARD - sizeof(head));
}

static bool is_filled(const char *bytes, size_t n, int fill)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)bytes[i] != fill)
            return false;
    return true;
}

static void *make_piece(fault_host *f, size_t size, size_t align)
{
    if (size == 0 || align == 0 || (align & (align - 1)) != 0) {
        complain(f, "alloc: size %zu, alignment %zu", size, align);
        return NULL;
    }
    if (next_fault(f, FAULT_ALLOC) != 0)
        return NULL;
    size_t around = sizeof(head) + 2 * GUARD + align;
    if (size > SIZE_MAX - around)
        return NULL;
    char *raw = malloc(size + around);
    if (raw == NULL)
        return NULL;

    uintptr_t first = (uintptr_t)raw + sizeof(head) + GUARD;
    char *ptr = raw + sizeof(head) + GUARD + (align - first % align) % align;
    memset(ptr - GUARD, FILL_GUARD, GUARD);
    memset(ptr, FILL_NEW, size);
    memset(ptr + size, FILL_GUARD, GUARD);
    head h = { .state = LIVE, .size = size, .align = align, .raw = raw };
    /* Through memcpy: with a small alignment the head need not be aligned. */
    memcpy(head_of(ptr), &h, sizeof h);

    f->n_pieces++;
    f->n_bytes += size;
    f->peak_bytes = CR_MAX(f->peak_bytes, f->n_bytes);
    return ptr;
}

/* Looks a piece over that the library gives back; false when it must not be touched. */
static bool check_piece(fault_host *f, void *ptr, size_t size, const char *call, head *out)
{
    if (ptr == NULL) {
        complain(f, "%s: NULL", call);
        return false;
    }
    memcpy(out, head_of(ptr), sizeof *out);
    if (out->state != LIVE) {
        complain(f, "%s: %s", call,
                 out->state == DEAD ? "a piece that was released before"
                                    : "not a piece of this allocator, or its head is overwritten");
        return false;
    }
    if (out->size != size)
        complain(f, "%s: %zu bytes, but %zu were allocated", call, size, out->size);
    if (!is_filled((char *)ptr - GUARD, GUARD, FILL_GUARD))
        complain(f, "%s: bytes before a piece of %zu were overwritten", call, out->size);
    if (!is_filled((char *)ptr + out->size, GUARD, FILL_GUARD))
        complain(f, "%s: bytes after a piece of %zu were overwritten", call, out->size);
    return true;
}

static void drop_piece(fault_host *f, void *ptr, head *h)
{
    h->state = DEAD;
    memcpy(head_of(ptr), h, sizeof *h);
    memset(ptr, FILL_OLD, h->size);
    f->n_pieces--;
    f->n_bytes -= h->size;
    free(h->raw);
}

static void *fault_alloc(void *ctx, size_t size, size_t align)
{
    fault_host *f = ctx;
    pthread_mutex_lock(&f->lock);
    void *ptr = make_piece(f, size, align);
    pthread_mutex_unlock(&f->lock);
    return ptr;
}

static void *fault_resize(void *ctx, void *ptr, size_t old_size, size_t size, size_t align)
{
    fault_host *f = ctx;
    head h;
    void *moved = NULL;
    pthread_mutex_lock(&f->lock);
    if (check_piece(f, ptr, old_size, "resize", &h)) {
        if (h.align != align)
            complain(f, "resize: alignment %zu, but %zu was allocated", align, h.align);
        moved = make_piece(f, size, align);
        if (moved != NULL) {
            memcpy(moved, ptr, CR_MIN(h.size, size));
            drop_piece(f, ptr, &h);
        }
    }
    pthread_mutex_unlock(&f->lock);
    return moved;
}

static void fault_release(void *ctx, void *ptr, size_t size)
{
    fault_host *f = ctx;
    head h;
    pthread_mutex_lock(&f->lock);
    if (check_piece(f, ptr, size, "release", &h))
        drop_piece(f, ptr, &h);
    pthread_mutex_unlock(&f->lock);
}

/* ---- operating system -------------------------------------------------------------------- */

static int fault_open(void *ctx, const char *path, void **file)
{
    fault_host *f = ctx;
    int error = next_fault_locked(f, FAULT_OPEN);
    if (error == 0)
        error = f->base.os.open(f->base.os.ctx, path, file);
    if (error == 0)
        add(f, &f->n_files, 1);
    return error;
}

static void fault_close(void *ctx, void *file)
{
    fault_host *f = ctx;
    f->base.os.close(f->base.os.ctx, file);
    add(f, &f->n_files, (size_t)-1);
}

static int fault_stat(void *ctx, void *file, cera_os_stat *out)
{
    fault_host *f = ctx;
    int error = next_fault_locked(f, FAULT_STAT);
    return error != 0 ? error : f->base.os.stat(f->base.os.ctx, file, out);
}

static int64_t fault_read(void *ctx, void *file, void *buf, size_t n, uint64_t offset)
{
    fault_host *f = ctx;
    int error = next_fault_locked(f, FAULT_READ);
    if (error != 0)
        return -(int64_t)error;
    size_t limit = get(f, &f->read_limit);
    return f->base.os.read(f->base.os.ctx, file, buf, limit > 0 ? CR_MIN(n, limit) : n, offset);
}

static int fault_create(void *ctx, const char *path, uint32_t mode, void **file)
{
    fault_host *f = ctx;
    int error = next_fault_locked(f, FAULT_CREATE);
    if (error == 0)
        error = f->base.os.create(f->base.os.ctx, path, mode, file);
    if (error == 0)
        add(f, &f->n_files, 1);
    return error;
}

static int64_t fault_write(void *ctx, void *file, const void *buf, size_t n, uint64_t offset)
{
    fault_host *f = ctx;
    int error = next_fault_locked(f, FAULT_WRITE);
    if (error != 0)
        return -(int64_t)error;
    size_t limit = get(f, &f->write_limit);
    return f->base.os.write(f->base.os.ctx, file, buf, limit > 0 ? CR_MIN(n, limit) : n, offset);
}

static int fault_sync(void *ctx, void *file)
{
    fault_host *f = ctx;
    int error = next_fault_locked(f, FAULT_SYNC);
    return error != 0 ? error : f->base.os.sync(f->base.os.ctx, file);
}

static int fault_rename(void *ctx, const char *from, const char *to)
{
    fault_host *f = ctx;
    int error = next_fault_locked(f, FAULT_RENAME);
    return error != 0 ? error : f->base.os.rename(f->base.os.ctx, from, to);
}

static int fault_sync_folder(void *ctx, const char *path)
{
    fault_host *f = ctx;
    int error = next_fault_locked(f, FAULT_SYNC_FOLDER);
    return error != 0 ? error : f->base.os.sync_folder(f->base.os.ctx, path);
}

static int fault_remove(void *ctx, const char *path)
{
    fault_host *f = ctx;
    int error = next_fault_locked(f, FAULT_REMOVE);
    return error != 0 ? error : f->base.os.remove(f->base.os.ctx, path);
}

static int fault_read_link(void *ctx, const char *path, char *to, size_t room)
{
    fault_host *f = ctx;
    int error = next_fault_locked(f, FAULT_LINK);
    return error != 0 ? error : f->base.os.read_link(f->base.os.ctx, path, to, room);
}

static int fault_make_folder(void *ctx, const char *path)
{
    fault_host *f = ctx;
    int error = next_fault_locked(f, FAULT_FOLDER);
    return error != 0 ? error : f->base.os.make_folder(f->base.os.ctx, path);
}

static int fault_list(void *ctx, const char *folder,
                      int (*each)(void *user, const char *name, const cera_os_stat *stat),
                      void *user)
{
    fault_host *f = ctx;
    int error = next_fault_locked(f, FAULT_LIST);
    return error != 0 ? error : f->base.os.list(f->base.os.ctx, folder, each, user);
}

static int fault_touch(void *ctx, const char *path)
{
    fault_host *f = ctx;
    int error = next_fault_locked(f, FAULT_TOUCH);
    return error != 0 ? error : f->base.os.touch(f->base.os.ctx, path);
}

static int fault_map(void *ctx, void *file, size_t n, const void **out)
{
    fault_host *f = ctx;
    int error = next_fault_locked(f, FAULT_MAP);
    if (error == 0)
        error = f->base.os.map(f->base.os.ctx, file, n, out);
    if (error == 0)
        add(f, &f->n_maps, 1);
    return error;
}

static void fault_unmap(void *ctx, const void *ptr, size_t n)
{
    fault_host *f = ctx;
    f->base.os.unmap(f->base.os.ctx, ptr, n);
    add(f, &f->n_maps, (size_t)-1);
}

static uint64_t fault_clock_ns(void *ctx)
{
    fault_host *f = ctx;
    const uint64_t second = 1000000000, year = 365 * 24 * 3600 * second;
    pthread_mutex_lock(&f->lock);
    uint64_t n = ++f->n_looks;
    fault_clock clock = f->clock;
    pthread_mutex_unlock(&f->lock);
    switch (clock) {
    case FAULT_CLOCK_STANDS:
        return 5 * second;
    case FAULT_CLOCK_BACK:
        return (1 << 20) * second - n * second;
    case FAULT_CLOCK_LEAPS:
        return n % 2 * year + n;
    default:
        return f->base.os.clock_ns(f->base.os.ctx);
    }
}

static int fault_thread_start(void *ctx, void (*entry)(void *arg), void *arg, void **thread)
{
    fault_host *f = ctx;
    int error = next_fault_locked(f, FAULT_THREAD);
    if (error == 0)
        error = f->base.os.thread_start(f->base.os.ctx, entry, arg, thread);
    if (error == 0)
        add(f, &f->n_threads, 1);
    return error;
}

static void fault_thread_join(void *ctx, void *thread)
{
    fault_host *f = ctx;
    f->base.os.thread_join(f->base.os.ctx, thread);
    add(f, &f->n_threads, (size_t)-1);
}

static void fault_wait(void *ctx, const uint32_t *word, uint32_t value)
{
    fault_host *f = ctx;
    pthread_mutex_lock(&f->lock);
    bool never_waits = f->never_waits;
    pthread_mutex_unlock(&f->lock);
    if (!never_waits)
        f->base.os.wait(f->base.os.ctx, word, value);
}

static void fault_wake(void *ctx, const uint32_t *word)
{
    fault_host *f = ctx;
    f->base.os.wake(f->base.os.ctx, word);
}

static int fault_affinity(void *ctx, uint64_t mask[16])
{
    fault_host *f = ctx;
    int error = next_fault_locked(f, FAULT_AFFINITY);
    return error != 0 ? error : f->base.os.affinity(f->base.os.ctx, mask);
}

static uint64_t fault_process(void *ctx)
{
    fault_host *f = ctx;
    return f->base.os.process(f->base.os.ctx);
}

static void fault_log(void *ctx, int level, const char *text)
{
    fault_host *f = ctx;
    (void)level;
    pthread_mutex_lock(&f->lock);
    f->n_logs++;
    snprintf(f->last_log, sizeof f->last_log, "%s", text);
    pthread_mutex_unlock(&f->lock);
}

/* ---- for the test ------------------------------------------------------------------------ */

void fault_init_on(fault_host *f, const cera_os *os)
{
    memset(f, 0, sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    cera_host_init(&f->base);
    if (os != NULL)
        f->base.os = *os;
    f->host = (cera_host){
        .size = sizeof f->host,
        .allocator = { fault_alloc, fault_resize, fault_release, f },
        .os = {
            .open = fault_open,
            .close = fault_close,
            .stat = fault_stat,
            .read = fault_read,
            .create = fault_create,
            .write = fault_write,
            .sync = fault_sync,
            .rename = fault_rename,
            .sync_folder = fault_sync_folder,
            .remove = fault_remove,
            .read_link = fault_read_link,
            .make_folder = fault_make_folder,
            .list = fault_list,
            .touch = fault_touch,
            .map = fault_map,
            .unmap = fault_unmap,
            .clock_ns = fault_clock_ns,
            .thread_start = fault_thread_start,
            .thread_join = fault_thread_join,
            .wait = fault_wait,
            .wake = fault_wake,
            .affinity = fault_affinity,
            .process = fault_process,
            .ctx = f,
        },
        .log = fault_log,
        .log_ctx = f,
    };
}

void fault_init(fault_host *f)
{
    fault_init_on(f, NULL);
}

void fault_done(fault_host *f)
{
    pthread_mutex_destroy(&f->lock);
}

void fault_os(fault_host *f, fault_call call, size_t i, fault_mode mode, int error)
{
    pthread_mutex_lock(&f->lock);
    f->plans[call] = (fault_plan){ .mode = mode, .at = i, .error = error };
    pthread_mutex_unlock(&f->lock);
}

void fault_allocs(fault_host *f, size_t i, fault_mode mode)
{
    fault_os(f, FAULT_ALLOC, i, mode, ENOMEM);
}

void fault_short_reads(fault_host *f, size_t n)
{
    pthread_mutex_lock(&f->lock);
    f->read_limit = n;
    pthread_mutex_unlock(&f->lock);
}

void fault_short_writes(fault_host *f, size_t n)
{
    pthread_mutex_lock(&f->lock);
    f->write_limit = n;
    pthread_mutex_unlock(&f->lock);
}

void fault_set_clock(fault_host *f, fault_clock clock)
{
    pthread_mutex_lock(&f->lock);
    f->clock = clock;
    pthread_mutex_unlock(&f->lock);
}

void fault_never_wait(fault_host *f)
{
    pthread_mutex_lock(&f->lock);
    f->never_waits = true;
    pthread_mutex_unlock(&f->lock);
}

size_t fault_calls(fault_host *f, fault_call call)
{
    return get(f, &f->plans[call].n_calls);
}

size_t fault_hits(fault_host *f)
{
    return get(f, &f->n_hits);
}

size_t fault_live_bytes(fault_host *f)
{
    return get(f, &f->n_bytes);
}

size_t fault_live_pieces(fault_host *f)
{
    return get(f, &f->n_pieces);
}

size_t fault_peak_bytes(fault_host *f)
{
    return get(f, &f->peak_bytes);
}

size_t fault_logs(fault_host *f)
{
    return get(f, &f->n_logs);
}

const char *fault_last_log(const fault_host *f)
{
    return f->last_log;
}

const char *fault_misuse(fault_host *f)
{
    pthread_mutex_lock(&f->lock);
    const char *message = f->message[0] != '\0' ? f->message : NULL;
    pthread_mutex_unlock(&f->lock);
    return message;
}

const char *fault_check(fault_host *f)
{
    pthread_mutex_lock(&f->lock);
    if (f->n_pieces + f->n_files + f->n_maps + f->n_threads > 0)
        complain(f, "still held: %zu pieces (%zu bytes), %zu files, %zu mappings, %zu threads",
                 f->n_pieces, f->n_bytes, f->n_files, f->n_maps, f->n_threads);
    pthread_mutex_unlock(&f->lock);
    return fault_misuse(f);
}

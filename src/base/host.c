/* The host: copying its tables, and the bill of memory.
 *
 * Every allocation is aligned to 64 bytes: a cache line, and the widest vector. The allocator is
 * told on release how much it gave, so the bill needs no header before each piece. */
#include "base/host.h"

#include <assert.h>
#include <string.h>

enum { MEM_ALIGN = 64 };

void cera_host_init(cera_host *host)
{
    *host = (cera_host){
        .size = sizeof *host,
        .allocator = cr_default_allocator(),
        .os = cr_default_os(),
    };
}

/* The name of the first entry that is missing, or NULL. */
static const char *missing_entry(const cera_host *tables)
{
    const struct {
        bool present;
        const char *name;
    } entries[] = {
#define ENTRY(table, entry) { tables->table.entry != NULL, #table "." #entry }
        ENTRY(allocator, alloc), ENTRY(allocator, resize), ENTRY(allocator, release),
        ENTRY(os, open),         ENTRY(os, close),         ENTRY(os, stat),
        ENTRY(os, read),         ENTRY(os, map),           ENTRY(os, unmap),
        ENTRY(os, clock_ns),     ENTRY(os, thread_start),  ENTRY(os, thread_join),
        ENTRY(os, wait),         ENTRY(os, wake),          ENTRY(os, affinity),
        ENTRY(os, process),      ENTRY(os, create),        ENTRY(os, write),
        ENTRY(os, sync),         ENTRY(os, rename),        ENTRY(os, sync_folder),
        ENTRY(os, remove),       ENTRY(os, read_link),     ENTRY(os, make_folder),
        ENTRY(os, list),         ENTRY(os, touch),
#undef ENTRY
    };
    for (size_t i = 0; i < CR_COUNT(entries); i++)
        if (!entries[i].present)
            return entries[i].name;
    return NULL;
}

cera_status cr_host_set(cr_host *host, const cera_host *tables, cera_error *err)
{
    cera_host defaults;
    if (tables == NULL) {
        cera_host_init(&defaults);
        tables = &defaults;
    }
    if (tables->size != sizeof *tables)
        return cr_fail(err, CERA_E_ARG, "host.size: expected %zu, found %zu", sizeof *tables,
                       tables->size);
    const char *missing = missing_entry(tables);
    if (missing != NULL)
        return cr_fail(err, CERA_E_ARG, "host.%s: expected a function, found NULL", missing);

    host->allocator = tables->allocator;
    host->os = tables->os;
    host->log = tables->log;
    host->log_ctx = tables->log_ctx;
    for (int i = 0; i < CR_MEM_COUNT; i++)
        atomic_init(&host->live[i], 0);
    return CERA_OK;
}

/* NULL means "no memory" to every caller, so nothing is asked for 0 bytes. */
static size_t real_size(size_t size)
{
    return size > 0 ? size : 1;
}

void *cr_alloc(cr_host *host, cr_mem purpose, size_t size)
{
    assert(purpose < CR_MEM_COUNT);
    void *ptr = host->allocator.alloc(host->allocator.ctx, real_size(size), MEM_ALIGN);
    if (ptr != NULL)
        atomic_fetch_add_explicit(&host->live[purpose], real_size(size), memory_order_relaxed);
    return ptr;
}

void *cr_alloc_zero(cr_host *host, cr_mem purpose, size_t size)
{
    void *ptr = cr_alloc(host, purpose, size);
    if (ptr != NULL)
        memset(ptr, 0, size);
    return ptr;
}

void *cr_resize(cr_host *host, cr_mem purpose, void *ptr, size_t old_size, size_t size)
{
    assert(purpose < CR_MEM_COUNT);
    if (ptr == NULL)
        return cr_alloc(host, purpose, size);
    void *moved = host->allocator.resize(host->allocator.ctx, ptr, real_size(old_size),
                                         real_size(size), MEM_ALIGN);
    /* Unsigned arithmetic: when the piece shrinks, the sum wraps round to the smaller one. */
    if (moved != NULL)
        atomic_fetch_add_explicit(&host->live[purpose], real_size(size) - real_size(old_size),
                                  memory_order_relaxed);
    return moved;
}

void cr_free(cr_host *host, cr_mem purpose, void *ptr, size_t size)
{
    assert(purpose < CR_MEM_COUNT);
    if (ptr == NULL)
        return;
    atomic_fetch_sub_explicit(&host->live[purpose], real_size(size), memory_order_relaxed);
    host->allocator.release(host->allocator.ctx, ptr, real_size(size));
}

size_t cr_host_live(const cr_host *host)
{
    size_t sum = 0;
    for (int i = 0; i < CR_MEM_COUNT; i++)
        sum += atomic_load_explicit(&host->live[i], memory_order_relaxed);
    return sum;
}

void cr_log(cr_host *host, int level, const char *format, ...)
{
    if (host->log == NULL)
        return;
    char line[CR_LINE_MAX];
    va_list args;
    va_start(args, format);
    cr_format_line(line, sizeof line, format, args);
    va_end(args);
    host->log(host->log_ctx, level, line);
}

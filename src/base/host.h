/* The host of a library object: its allocator, its operating system, its log, and the bill of the
 * memory it holds. A cr_host is part of the object that owns it; modules get a pointer to it.
 *
 * All memory of the library goes through cr_alloc, all system calls through host->os. */
#ifndef CR_HOST_H
#define CR_HOST_H

#include "base/status.h"

#include <stdatomic.h>

/* What memory is for. */
typedef enum cr_mem {
    CR_MEM_OBJECT,  /* engines, sessions, and what they point to */
    CR_MEM_FILE,    /* metadata, tensor lists, files read into memory */
    CR_MEM_VOCAB,   /* vocabulary tables */
    CR_MEM_KV,      /* pages and recurrent state */
    CR_MEM_SCRATCH, /* activations and per-call buffers */
    CR_MEM_COUNT
} cr_mem;

typedef struct cr_host {
    cera_allocator allocator;
    cera_os os;
    void (*log)(void *ctx, int level, const char *text);
    void *log_ctx;
    atomic_size_t live[CR_MEM_COUNT]; /* bytes held now, by purpose */
} cr_host;

/* Copies the tables; NULL gives the defaults. Fails with CERA_E_ARG when an entry is missing. */
cera_status cr_host_set(cr_host *host, const cera_host *tables, cera_error *err);

/* The operating system's own tables (os_posix.c). */
cera_allocator cr_default_allocator(void);
cera_os cr_default_os(void);

/* AT_HWCAP and AT_HWCAP2: instruction sets as the operating system reports them to programs, or
 * zeros where it does not. Like CPUID a fact of the machine, hence no entry of host->os
 * (os_posix.c). */
void cr_os_hwcaps(uint64_t words[2]);
/* Whether this process may use the tile registers of AMX, which Linux gives to those that ask: this
 * asks. Not so when the alternate signal stack of a thread is too small for them. */
bool cr_os_permits_tiles(void);

/* Memory aligned to 64 bytes, not cleared; NULL when there is none. cr_free takes the size that was
 * asked for, and accepts NULL. */
void *cr_alloc(cr_host *host, cr_mem purpose, size_t size);
void *cr_alloc_zero(cr_host *host, cr_mem purpose, size_t size);
void *cr_resize(cr_host *host, cr_mem purpose, void *ptr, size_t old_size, size_t size);
void cr_free(cr_host *host, cr_mem purpose, void *ptr, size_t size);

/* Bytes held now, for all purposes. */
size_t cr_host_live(const cr_host *host);

void cr_log(cr_host *host, int level, const char *format, ...) CR_PRINTF(3, 4);

#endif

/* A host for tests: it watches every allocation and system call, and makes chosen ones fail.
 *
 *     fault_host f;
 *     fault_init(&f);
 *     ... cera_file_open(&source, &f.host, ...) ...     // or cr_host_set(&host, &f.host, NULL)
 *     assert_null(fault_check(&f));                     // nothing held, nothing misused
 *     fault_done(&f);
 *
 * What it checks by itself (fault_check says what was wrong first):
 *   - sizes given to resize and release are those that were allocated, pointers are live
 *   - the 64 bytes before and after each piece are untouched
 *   - after the work: no memory, file, mapping or thread is left
 * New memory is filled with 0xA5 and released memory with 0xDD; resize always moves. Under ASan a
 * released piece is really freed, so that its use is reported.
 *
 * Failing every allocation of some work in turn, once (the rest succeeds) or from there on:
 *
 *     for (size_t i = 1;; i++) {
 *         fault_host f;
 *         fault_init(&f);
 *         fault_allocs(&f, i, FAULT_ONCE);              // then the same loop with FAULT_STICKY
 *         cera_status status = work(&f.host);
 *         assert_null(fault_check(&f));
 *         bool reached = fault_hits(&f) > 0;
 *         fault_done(&f);
 *         if (!reached)
 *             break;                                    // i is beyond the last allocation
 *         assert_int_equal(status, CERA_E_NOMEM);
 *     }
 *
 * System calls likewise, with fault_os(&f, FAULT_READ, i, FAULT_ONCE, EIO). The host counts calls,
 * not time, so a run with the same work fails at the same place. All functions may be called from
 * any thread; set faults before the work starts. */
#ifndef FAULT_HOST_H
#define FAULT_HOST_H

#include "cera.h"

#include <pthread.h>
#include <stdbool.h>

typedef enum fault_mode {
    FAULT_NEVER,
    FAULT_ONCE,   /* the i-th call, counted from 1 */
    FAULT_STICKY, /* the i-th call and all after it */
} fault_mode;

/* Calls that can fail. */
typedef enum fault_call {
    FAULT_ALLOC, /* alloc and resize */
    FAULT_OPEN,
    FAULT_STAT,
    FAULT_READ,
    FAULT_CREATE,
    FAULT_WRITE,
    FAULT_SYNC,
    FAULT_RENAME,
    FAULT_SYNC_FOLDER,
    FAULT_REMOVE,
    FAULT_LINK,   /* reading one */
    FAULT_FOLDER, /* making one */
    FAULT_LIST,
    FAULT_TOUCH,
    FAULT_MAP,
    FAULT_THREAD,
    FAULT_AFFINITY,
    FAULT_CALL_COUNT
} fault_call;

/* What the clock does. */
typedef enum fault_clock {
    FAULT_CLOCK_RIGHT,
    FAULT_CLOCK_STANDS,
    FAULT_CLOCK_BACK,  /* a second at each look */
    FAULT_CLOCK_LEAPS, /* a year ahead, and back, by turns */
    FAULT_CLOCK_COUNT
} fault_clock;

typedef struct fault_plan {
    fault_mode mode;
    size_t at; /* the i-th call, counted from 1 */
    int error; /* errno value */
    size_t n_calls;
} fault_plan;

/* The struct must not be moved between fault_init and fault_done. */
typedef struct fault_host {
    cera_host host; /* what the library is given */

    /* The rest is private; read it with the functions below. */
    cera_host base;
    pthread_mutex_t lock;
    fault_plan plans[FAULT_CALL_COUNT];
    size_t n_hits;
    size_t read_limit, write_limit;
    fault_clock clock;
    size_t n_looks; /* at the clock */
    bool never_waits;
    size_t n_pieces, n_bytes, peak_bytes;
    size_t n_files, n_maps, n_threads;
    size_t n_logs;
    char last_log[1024];
    char message[256];
} fault_host;

/* Over malloc and this operating system, nothing fails. */
void fault_init(fault_host *f);
/* Over another operating system table, such as a made-up machine's. */
void fault_init_on(fault_host *f, const cera_os *os);
void fault_done(fault_host *f);

/* The i-th allocation from now on fails. */
void fault_allocs(fault_host *f, size_t i, fault_mode mode);
/* The i-th call of this kind from now on fails with an errno value. */
void fault_os(fault_host *f, fault_call call, size_t i, fault_mode mode, int error);
/* Each read gives at most n bytes, as the contract allows; 0: no limit. */
void fault_short_reads(fault_host *f, size_t n);
/* Each write takes at most n bytes. */
void fault_short_writes(fault_host *f, size_t n);

void fault_set_clock(fault_host *f, fault_clock clock);
/* wait() returns at once, as it may: it is told nothing. */
void fault_never_wait(fault_host *f);

/* Calls since the fault was set (or since fault_init), and how many were made to fail. */
size_t fault_calls(fault_host *f, fault_call call);
size_t fault_hits(fault_host *f);
/* Bytes and pieces held now, and the most bytes held at once. */
size_t fault_live_bytes(fault_host *f);
size_t fault_live_pieces(fault_host *f);
size_t fault_peak_bytes(fault_host *f);
/* Lines logged, and the last one ("" before the first). */
size_t fault_logs(fault_host *f);
const char *fault_last_log(const fault_host *f);

/* The first misuse of the allocator, NULL when there was none. */
const char *fault_misuse(fault_host *f);
/* The same, or what is still held: for the end of the work. Valid until the next call. */
const char *fault_check(fault_host *f);

#endif

/* The worker pool: a fixed set of threads that run one function together.
 *
 *     pool_run(work) --> worker 0 (the caller), 1, 2, ... n-1 each call work(ctx, worker)
 *
 * Inside work, cr_pool_barrier makes the workers meet. Waiting spins for a bounded time, then
 * sleeps on host->os.wait, so that more workers than processors still make progress. */
#ifndef CR_POOL_H
#define CR_POOL_H

#include "base/host.h"

typedef struct cr_pool cr_pool;

/* n_threads is at least 1 and at most 256; 1 starts no thread. */
cera_status cr_pool_new(cr_host *host, int n_threads, cr_pool **out, cera_error *err);
void cr_pool_free(cr_pool *pool);
int cr_pool_width(const cr_pool *pool);
/* False in a child of fork(), which has none of the threads: it must not run anything. */
bool cr_pool_is_here(const cr_pool *pool);

/* Runs work on every worker and returns when all are done. One run at a time: callers hold their
 * own lock. */
void cr_pool_run(cr_pool *pool, void (*work)(void *ctx, int worker), void *ctx);

/* Waits until all workers are here. Only inside work, and by all of them. */
void cr_pool_barrier(cr_pool *pool);

/* The part [*begin, *end) of [0, n) that belongs to `worker`, cut at multiples of `grain`. */
void cr_pool_share(const cr_pool *pool, int worker, size_t n, size_t grain, size_t *begin,
                   size_t *end);

/* The same for work that may change hands: a worker begins with its share, and goes on with what
 * others have not begun of theirs. Processors are not equally fast, least of all virtual ones, and
 * all wait for the last. Every worker deals, once between two barriers, then takes until there is
 * nothing left. */
typedef struct cr_hand {
    cr_pool *pool;
    int worker;
    size_t n, grain;
} cr_hand;

cr_hand cr_pool_deal(cr_pool *pool, int worker, size_t n, size_t grain);
/* The next piece [*first, *first + *n), of up to `most` (at least `grain`). */
bool cr_hand_take(const cr_hand *hand, size_t most, size_t *first, size_t *n);

/* A lock built on host->os.wait and wake. */
typedef struct cr_lock {
    cr_host *host;
    _Atomic uint32_t state; /* 0 free, 1 held, 2 held and waited for */
} cr_lock;

void cr_lock_init(cr_lock *lock, cr_host *host);
void cr_lock_take(cr_lock *lock);
void cr_lock_drop(cr_lock *lock);

#endif

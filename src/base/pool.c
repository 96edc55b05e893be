/* The worker pool: gates that open, and threads that wait at them.
 *
 * A gate is one word that counts how often it was opened. Waiting means watching the count:
 *
 *     bits 31..1  count      bit 0  somebody sleeps
 *
 * The opener swaps in the next count; if the old word had bit 0 set, it wakes all. A waiter that
 * goes to sleep first sets bit 0 by compare-and-swap on the count that it has seen, and the sleep
 * itself compares again, so there is no moment in which an opening could go unnoticed, and an
 * opening that nobody sleeps through costs no system call.
 *
 *     run:     the caller opens `start`; workers 1..n-1 watch it
 *     barrier: everybody adds one to `arrived`; the last one opens `meet`, which the others watch
 *     join:    a barrier at which only the caller waits
 */
#include "base/pool.h"

#include <assert.h>
#include <errno.h>
#include <stdalign.h>

enum {
    POOL_MAX = 256,
    SLEEPING = 1,
    COUNT_ONE = 2,
    LINE = 64, /* bytes that move between cores together */

    SPIN_NS = 60000,   /* a sleep and its wake cost 5 to 50 us, so spinning longer gains nothing */
    SPIN_SHRINK = 4,   /* after a wait that was too long */
    SPIN_GROW = 2,     /* after one that was not */
    SPIN_FLOOR = 128,  /* the shortest spin is this part of the longest */
    PROBE_EVERY = 64,  /* one wait in so many spins in full again */
    CALIBRATE = 500,   /* pauses in one measurement */
    SPIN_MAX = 100000, /* pauses, whatever the clock says */
};

/* `spin` is how many pauses a waiter spends before it sleeps. When there are more workers than
 * processors, the one that is waited for cannot run while others spin, so each wait that ends in
 * sleep shortens the next ones, and each that does not makes them longer again: one long wait is
 * not to turn those behind it, which are a few microseconds, into sleeps and wakes. The shortest
 * are too short for that, so a full spin from time to time finds out whether it is over. `spin` is
 * read and written without order: a lost update costs microseconds, not correctness. */
typedef struct gate {
    _Atomic uint32_t word;
    _Atomic uint32_t spin;
} gate;

/* `left` is what nobody has begun of the worker's share, in grains, and when it was dealt:
 *
 *     bits 63..56  round      55..28  next      27..0  end
 *
 * The worker takes from the front, others from the back, both by compare-and-swap. What another
 * round has left is nothing: a run that was stopped leaves work behind. */
typedef struct member {
    alignas(LINE) _Atomic uint64_t left;
    cr_pool *pool;
    void *thread;
    int index;
} member;

struct cr_pool {
    /* What to do is written by the caller before it opens `start` and read by workers after; on
     * the same line, it comes with the word that they watch. */
    alignas(LINE) gate start;
    bool stopping;
    void (*work)(void *ctx, int worker);
    void *ctx;

    alignas(LINE) gate meet;
    alignas(LINE) _Atomic uint32_t arrived;

    alignas(LINE) cr_host *host; /* from here on nothing changes after cr_pool_new */
    uint64_t process;            /* that the threads belong to */
    int width;
    int n_started; /* threads */
    uint32_t spin_max;
    member members[]; /* [width]; 0 is the caller and has no thread */
};

static uint32_t gate_count(const gate *g)
{
    return atomic_load_explicit(&g->word, memory_order_acquire) & ~(uint32_t)SLEEPING;
}

/* Only one thread at a time opens a gate. */
static void gate_open(cr_host *host, gate *g)
{
    uint32_t next = gate_count(g) + COUNT_ONE;
    uint32_t old = atomic_exchange_explicit(&g->word, next, memory_order_acq_rel);
    if ((old & SLEEPING) != 0)
        host->os.wake(host->os.ctx, (const uint32_t *)&g->word);
}

static void gate_sleep(cr_host *host, gate *g, uint32_t seen)
{
    while (gate_count(g) == seen) {
        uint32_t expected = seen;
        if (!atomic_compare_exchange_strong_explicit(&g->word, &expected, seen | SLEEPING,
                                                     memory_order_relaxed, memory_order_relaxed) &&
            expected != (seen | SLEEPING))
            continue;
        host->os.wait(host->os.ctx, (const uint32_t *)&g->word, seen | SLEEPING);
    }
}

/* Waits until the count is no longer `seen`. */
static void gate_wait(const cr_pool *pool, gate *g, uint32_t seen)
{
    uint32_t spin = atomic_load_explicit(&g->spin, memory_order_relaxed);
    bool probe = spin < pool->spin_max && seen / COUNT_ONE % PROBE_EVERY == 0;
    uint32_t limit = probe ? pool->spin_max : spin;

    for (uint32_t i = 0; i < limit; i++) {
        if (gate_count(g) != seen) {
            if (spin < pool->spin_max)
                atomic_store_explicit(&g->spin, CR_MIN(limit * SPIN_GROW, pool->spin_max),
                                      memory_order_relaxed);
            return;
        }
        CR_PAUSE();
    }
    if (gate_count(g) != seen)
        return;
    atomic_store_explicit(&g->spin, CR_MAX(spin / SPIN_SHRINK, pool->spin_max / SPIN_FLOOR),
                          memory_order_relaxed);
    gate_sleep(pool->host, g, seen);
}

/* Counts the calling worker in. The last one to arrive opens `meet` and gets true; the others
 * would have to wait until its count is no longer *seen. */
static bool arrive(cr_pool *pool, uint32_t *seen)
{
    /* `meet` cannot open before this worker has arrived, so this is the count of this round. */
    *seen = gate_count(&pool->meet);
    uint32_t before = atomic_fetch_add_explicit(&pool->arrived, 1, memory_order_acq_rel);
    if (before + 1 < (uint32_t)pool->width)
        return false;
    atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed);
    gate_open(pool->host, &pool->meet);
    return true;
}

static void worker_main(void *arg)
{
    member *self = arg;
    cr_pool *pool = self->pool;
    /* Not read from the gate: it may have been opened before this thread got here. */
    for (uint32_t seen = 0;; seen += COUNT_ONE) {
        gate_wait(pool, &pool->start, seen);
        if (pool->stopping)
            return;
        pool->work(pool->ctx, self->index);
        uint32_t unused;
        arrive(pool, &unused);
    }
}

/* How many pauses SPIN_NS are: from 10 to 140 cycles each, depending on the processor. */
static uint32_t measure_spin(cr_host *host)
{
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < 3; round++) {
        uint64_t begin = host->os.clock_ns(host->os.ctx);
        for (int i = 0; i < CALIBRATE; i++)
            CR_PAUSE();
        best = CR_MIN(best, host->os.clock_ns(host->os.ctx) - begin);
    }
    uint64_t pauses = (uint64_t)SPIN_NS * CALIBRATE / CR_MAX(best, (uint64_t)1);
    return (uint32_t)CR_MIN(CR_MAX(pauses, (uint64_t)SPIN_FLOOR), (uint64_t)SPIN_MAX);
}

static size_t pool_bytes(int width)
{
    return sizeof(cr_pool) + (size_t)width * sizeof(member);
}

cera_status cr_pool_new(cr_host *host, int n_threads, cr_pool **out, cera_error *err)
{
    if (n_threads < 1 || n_threads > POOL_MAX)
        return cr_fail(err, CERA_E_ARG, "n_threads: expected 1 to %d, found %d", POOL_MAX,
                       n_threads);
    cr_pool *pool = cr_alloc_zero(host, CR_MEM_OBJECT, pool_bytes(n_threads));
    if (pool == NULL)
        return cr_fail_nomem(err, pool_bytes(n_threads), "worker pool");
    pool->host = host;
    pool->process = host->os.process(host->os.ctx);
    pool->width = n_threads;
    pool->spin_max = n_threads > 1 ? measure_spin(host) : SPIN_FLOOR;
    atomic_init(&pool->start.word, 0);
    atomic_init(&pool->start.spin, pool->spin_max);
    atomic_init(&pool->meet.word, 0);
    atomic_init(&pool->meet.spin, pool->spin_max);
    atomic_init(&pool->arrived, 0);

    for (int i = 1; i < n_threads; i++) {
        member *w = &pool->members[i];
        w->pool = pool;
        w->index = i;
        int error = host->os.thread_start(host->os.ctx, worker_main, w, &w->thread);
        if (error != 0) {
            cr_pool_free(pool);
            bool too_many = error == ENOMEM || error == EAGAIN;
            return cr_fail(err, too_many ? CERA_E_NOMEM : CERA_E_IO,
                           "worker pool: thread %d of %d did not start (errno %d)", i,
                           n_threads - 1, error);
        }
        pool->n_started = i;
    }
    *out = pool;
    return CERA_OK;
}

void cr_pool_free(cr_pool *pool)
{
    if (pool == NULL)
        return;
    cr_host *host = pool->host;
    if (cr_pool_is_here(pool)) {
        pool->stopping = true;
        gate_open(host, &pool->start);
        for (int i = 1; i <= pool->n_started; i++)
            host->os.thread_join(host->os.ctx, pool->members[i].thread);
    }
    cr_free(host, CR_MEM_OBJECT, pool, pool_bytes(pool->width));
}

bool cr_pool_is_here(const cr_pool *pool)
{
    return pool->host->os.process(pool->host->os.ctx) == pool->process;
}

int cr_pool_width(const cr_pool *pool)
{
    return pool->width;
}

void cr_pool_run(cr_pool *pool, void (*work)(void *ctx, int worker), void *ctx)
{
    if (pool->width == 1) {
        work(ctx, 0);
        return;
    }
    pool->work = work;
    pool->ctx = ctx;
    gate_open(pool->host, &pool->start);
    work(ctx, 0);
    cr_pool_barrier(pool);
}

void cr_pool_barrier(cr_pool *pool)
{
    if (pool->width == 1)
        return;
    uint32_t seen;
    if (!arrive(pool, &seen))
        gate_wait(pool, &pool->meet, seen);
}

static size_t grains_of(size_t n, size_t grain)
{
    return n / grain + (n % grain != 0 ? 1 : 0);
}

void cr_pool_share(const cr_pool *pool, int worker, size_t n, size_t grain, size_t *begin,
                   size_t *end)
{
    assert(worker >= 0 && worker < pool->width && grain > 0);
    /* The first `extra` workers get one grain more than the others. */
    size_t width = (size_t)pool->width, index = (size_t)worker;
    size_t n_grains = grains_of(n, grain);
    size_t each = n_grains / width, extra = n_grains % width;
    size_t first = index * each + CR_MIN(index, extra);
    size_t last = first + each + (index < extra ? 1 : 0);
    /* Compared in grains, because the end of the last one may lie beyond SIZE_MAX. */
    *begin = first < n_grains ? first * grain : n;
    *end = last < n_grains ? last * grain : n;
}

/* ---- work that changes hands ------------------------------------------------------------- */

enum { LEFT_BITS = 28, LEFT_MAX = (1 << LEFT_BITS) - 1 };

static uint64_t left_of(uint64_t round, size_t next, size_t end)
{
    return round << 2 * LEFT_BITS | (uint64_t)next << LEFT_BITS | end;
}

/* Of the time between two barriers. */
static uint64_t round_of(const cr_pool *pool)
{
    return gate_count(&pool->meet) / COUNT_ONE & 0xff;
}

cr_hand cr_pool_deal(cr_pool *pool, int worker, size_t n, size_t grain)
{
    assert(n / grain < LEFT_MAX); /* rows are counted by int32_t, and grains have 16 of them */
    size_t begin, end;
    cr_pool_share(pool, worker, n, grain, &begin, &end);
    uint64_t left = left_of(round_of(pool), grains_of(begin, grain), grains_of(end, grain));
    atomic_store_explicit(&pool->members[worker].left, left, memory_order_relaxed);
    return (cr_hand){ .pool = pool, .worker = worker, .n = n, .grain = grain };
}

/* Up to `most` grains of worker `from`: false when it has none. */
static bool take_from(const cr_hand *hand, int from, size_t most, size_t *first, size_t *n)
{
    _Atomic uint64_t *left = &hand->pool->members[from].left;
    uint64_t round = round_of(hand->pool);
    uint64_t seen = atomic_load_explicit(left, memory_order_relaxed), rest;
    do {
        size_t next = (size_t)(seen >> LEFT_BITS & LEFT_MAX), end = (size_t)(seen & LEFT_MAX);
        if (seen >> 2 * LEFT_BITS != round || next >= end)
            return false;
        *n = CR_MIN(most, end - next);
        *first = from == hand->worker ? next : end - *n;
        rest =
            from == hand->worker ? left_of(round, next + *n, end) : left_of(round, next, end - *n);
    } while (!atomic_compare_exchange_weak_explicit(left, &seen, rest, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

bool cr_hand_take(const cr_hand *hand, size_t most, size_t *first, size_t *n)
{
    int width = hand->pool->width;
    most = CR_MAX(most / hand->grain, (size_t)1);
    for (int i = 0; i < width; i++) {
        if (!take_from(hand, (hand->worker + i) % width, most, first, n))
            continue;
        *first *= hand->grain;
        *n = CR_MIN(*n * hand->grain, hand->n - *first);
        return true;
    }
    return false;
}

/* ---- lock -------------------------------------------------------------------------------- */

enum { FREE = 0, HELD = 1, WAITED_FOR = 2 };

void cr_lock_init(cr_lock *lock, cr_host *host)
{
    lock->host = host;
    atomic_init(&lock->state, FREE);
}

void cr_lock_take(cr_lock *lock)
{
    uint32_t expected = FREE;
    if (atomic_compare_exchange_strong_explicit(&lock->state, &expected, HELD, memory_order_acquire,
                                                memory_order_relaxed))
        return;
    /* Whoever has slept takes the lock as WAITED_FOR: there may be others who still sleep, and one
     * wake too many is cheaper than one too few. */
    while (atomic_exchange_explicit(&lock->state, WAITED_FOR, memory_order_acquire) != FREE)
        lock->host->os.wait(lock->host->os.ctx, (const uint32_t *)&lock->state, WAITED_FOR);
}

void cr_lock_drop(cr_lock *lock)
{
    uint32_t old = atomic_exchange_explicit(&lock->state, FREE, memory_order_release);
    assert(old != FREE);
    if (old == WAITED_FOR)
        lock->host->os.wake(lock->host->os.ctx, (const uint32_t *)&lock->state);
}

/* The pool: everybody works once a run, nobody passes a barrier early, nobody sleeps for ever, and
 * a thread that does not start leaves nothing behind. Run it under TSan: the plain variables that
 * workers hand to each other are there for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/pool.h"
#include "support/fault_host.h"

#include <errno.h>
#include <string.h>

/* Sanitizers slow atomics down tenfold. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SLOWDOWN = 10 };
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
enum { SLOWDOWN = 10 };
#else
enum { SLOWDOWN = 1 };
#endif
#else
enum { SLOWDOWN = 1 };
#endif

enum { MAX_WIDTH = 32 };
static const int widths[] = { 1, 2, 3, 7 };

typedef struct fixture {
    fault_host f;
    cr_host host;
    cr_pool *pool;
} fixture;

static void begin(fixture *x, int width, const cera_os *os)
{
    fault_init_on(&x->f, os);
    assert_int_equal(cr_host_set(&x->host, &x->f.host, NULL), CERA_OK);
    cera_error err;
    if (cr_pool_new(&x->host, width, &x->pool, &err) != CERA_OK)
        fail_msg("%s", err.message);
    assert_int_equal(cr_pool_width(x->pool), width);
}

static void end(fixture *x)
{
    cr_pool_free(x->pool);
    assert_null(fault_check(&x->f));
    fault_done(&x->f);
}

/* A clock on which everything takes long makes the pool spin for a few pauses only, so that nearly
 * every wait becomes a sleep. */
static _Atomic uint64_t slow_ticks;

static uint64_t slow_clock(void *ctx)
{
    (void)ctx;
    return atomic_fetch_add(&slow_ticks, 1000000000) + 1000000000;
}

static cera_os sleepy_os(void)
{
    cera_os os = cr_default_os();
    os.clock_ns = slow_clock;
    return os;
}

/* ---- runs -------------------------------------------------------------------------------- */

typedef struct tally {
    const cr_pool *pool;
    int input;            /* plain: written by the caller before each run */
    int calls[MAX_WIDTH]; /* plain: each worker its own, read by the caller after each run */
    int wrong;
} tally;

static void count_call(void *ctx, int worker)
{
    tally *t = ctx;
    t->calls[worker] += t->input;
}

static void run_many(int width, const cera_os *os, int rounds)
{
    fixture x;
    begin(&x, width, os);
    tally t = { .pool = x.pool };
    int expected = 0;
    for (int round = 1; round <= rounds; round++) {
        t.input = round;
        expected += round;
        cr_pool_run(x.pool, count_call, &t);
        for (int w = 0; w < width; w++)
            if (t.calls[w] != expected)
                fail_msg("width %d, round %d: worker %d has %d, not %d", width, round, w,
                         t.calls[w], expected);
        for (int w = width; w < MAX_WIDTH; w++)
            assert_int_equal(t.calls[w], 0);
    }
    end(&x);
}

static void every_worker_works_once_a_run(void **state)
{
    (void)state;
    cera_os sleepy = sleepy_os();
    for (size_t i = 0; i < CR_COUNT(widths); i++) {
        run_many(widths[i], NULL, 5000 / SLOWDOWN);
        run_many(widths[i], &sleepy, 500 / SLOWDOWN);
    }
}

static void unused_pools_end(void **state)
{
    (void)state;
    for (int i = 0; i < 200 / SLOWDOWN; i++) {
        fixture x;
        begin(&x, 1 + i % 7, NULL);
        if (i % 3 == 0)
            cr_pool_run(x.pool, count_call, &(tally){ .input = 1 });
        end(&x);
    }
    cr_pool_free(NULL);
}

/* ---- barriers ---------------------------------------------------------------------------- */

typedef struct meeting {
    cr_pool *pool;
    int width, rounds;
    int at[MAX_WIDTH]; /* plain: the round that each worker is in */
    _Atomic int wrong;
} meeting;

/* Between the two barriers of a round nobody writes, so all must be seen in the same round. */
static void meet(void *ctx, int worker)
{
    meeting *m = ctx;
    for (int round = 1; round <= m->rounds; round++) {
        m->at[worker] = round;
        cr_pool_barrier(m->pool);
        for (int w = 0; w < m->width; w++)
            if (m->at[w] != round)
                atomic_fetch_add(&m->wrong, 1);
        cr_pool_barrier(m->pool);
    }
}

static void meet_many(int width, const cera_os *os, int rounds)
{
    fixture x;
    begin(&x, width, os);
    meeting m = { .pool = x.pool, .width = width, .rounds = rounds };
    for (int run = 0; run < 3; run++) {
        cr_pool_run(x.pool, meet, &m);
        assert_int_equal(m.wrong, 0);
        for (int w = 0; w < width; w++)
            assert_int_equal(m.at[w], rounds);
    }
    end(&x);
}

static void nobody_passes_a_barrier_early(void **state)
{
    (void)state;
    cera_os sleepy = sleepy_os();
    for (size_t i = 0; i < CR_COUNT(widths); i++) {
        meet_many(widths[i], NULL, 5000 / SLOWDOWN);
        meet_many(widths[i], &sleepy, 500 / SLOWDOWN);
    }
}

/* Far more workers than any test machine has processors to spare. With spinning that does not stop,
 * each barrier would last a scheduler's time slice per worker (32 x 3 ms x 3,000): minutes. */
static void more_workers_than_processors_finish(void **state)
{
    (void)state;
    cera_os os = cr_default_os();
    uint64_t start = os.clock_ns(os.ctx);
    meet_many(MAX_WIDTH, NULL, 500 / SLOWDOWN);
    uint64_t ms = (os.clock_ns(os.ctx) - start) / 1000000;
    assert_in_range(ms, 0, 20000);
}

/* ---- failure ----------------------------------------------------------------------------- */

static void widths_out_of_range_are_refused(void **state)
{
    (void)state;
    static const int bad[] = { 0, -1, 257, 100000 };
    cr_host host;
    assert_int_equal(cr_host_set(&host, NULL, NULL), CERA_OK);
    for (size_t i = 0; i < CR_COUNT(bad); i++) {
        cr_pool *pool = NULL;
        cera_error err;
        assert_int_equal(cr_pool_new(&host, bad[i], &pool, &err), CERA_E_ARG);
        assert_non_null(strstr(err.message, "n_threads: expected 1 to 256"));
        assert_null(pool);
    }
}

static void threads_that_do_not_start_leave_nothing(void **state)
{
    (void)state;
    enum { WIDTH = 7 };
    for (size_t i = 1; i < WIDTH; i++) {
        for (int kind = 0; kind < 3; kind++) {
            static const int errors[] = { ENOMEM, EAGAIN, EPERM };
            fault_host f;
            fault_init(&f);
            fault_os(&f, FAULT_THREAD, i, FAULT_ONCE, errors[kind]);
            cr_host host;
            assert_int_equal(cr_host_set(&host, &f.host, NULL), CERA_OK);
            cr_pool *pool = NULL;
            cera_error err;
            assert_int_equal(cr_pool_new(&host, WIDTH, &pool, &err),
                             errors[kind] == EPERM ? CERA_E_IO : CERA_E_NOMEM);
            assert_null(pool);
            assert_non_null(strstr(err.message, "did not start"));
            assert_int_equal(fault_calls(&f, FAULT_THREAD), i);
            assert_int_equal(cr_host_live(&host), 0);
            assert_null(fault_check(&f));
            fault_done(&f);
        }
    }
}

static void no_memory_starts_no_thread(void **state)
{
    (void)state;
    fault_host f;
    fault_init(&f);
    fault_allocs(&f, 1, FAULT_ONCE);
    cr_host host;
    assert_int_equal(cr_host_set(&host, &f.host, NULL), CERA_OK);
    cr_pool *pool = NULL;
    assert_int_equal(cr_pool_new(&host, 3, &pool, NULL), CERA_E_NOMEM);
    assert_null(pool);
    assert_int_equal(fault_calls(&f, FAULT_THREAD), 0);
    assert_null(fault_check(&f));
    fault_done(&f);
}

static void nothing_is_allocated_by_a_run(void **state)
{
    (void)state;
    fixture x;
    begin(&x, 3, NULL);
    size_t before = fault_calls(&x.f, FAULT_ALLOC);
    tally t = { .input = 1 };
    for (int i = 0; i < 100; i++)
        cr_pool_run(x.pool, count_call, &t);
    assert_int_equal(fault_calls(&x.f, FAULT_ALLOC), before);
    end(&x);
}

/* ---- shares ------------------------------------------------------------------------------ */

static void shares_cover_everything_once(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        0, 1, 5, 15, 16, 17, 63, 64, 100, 1000, SIZE_MAX - 3, SIZE_MAX
    };
    static const size_t grains[] = { 1, 4, 16, 1000 };
    for (size_t i = 0; i < CR_COUNT(widths); i++) {
        fixture x;
        begin(&x, widths[i], NULL);
        for (size_t s = 0; s < CR_COUNT(sizes); s++) {
            for (size_t g = 0; g < CR_COUNT(grains); g++) {
                size_t n = sizes[s], grain = grains[g], at = 0, least = SIZE_MAX, most = 0;
                for (int w = 0; w < widths[i]; w++) {
                    size_t b, e;
                    cr_pool_share(x.pool, w, n, grain, &b, &e);
                    assert_true(b == at && e >= b && e <= n);
                    assert_true(b == n || b % grain == 0);
                    size_t n_grains = (e - b) / grain + ((e - b) % grain != 0 ? 1 : 0);
                    least = CR_MIN(least, n_grains);
                    most = CR_MAX(most, n_grains);
                    at = e;
                }
                assert_true(at == n);
                assert_true(most - least <= 1);
            }
        }
        end(&x);
    }
}

/* ---- work that changes hands ------------------------------------------------------------- */

enum { MAX_ITEMS = 1000 };

typedef struct dealt {
    cr_pool *pool;
    _Atomic int taken[MAX_ITEMS]; /* in this round */
    _Atomic int wrong;
    _Atomic int begun, done; /* workers */
} dealt;

/* Sizes, grains and pieces of a round; every third one is left unfinished. */
static size_t items_of(int round)
{
    static const size_t sizes[] = { 0, 1, 15, 16, 100, 333, MAX_ITEMS };
    return sizes[(size_t)round % CR_COUNT(sizes)];
}

static void take_rounds(void *ctx, int worker)
{
    enum { ROUNDS = 600 / SLOWDOWN };
    static const size_t grains[] = { 1, 16, 7 }, mosts[] = { 1, 64, 20 };
    dealt *d = ctx;
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = items_of(round), grain = grains[round / 7 % 3], most = mosts[round / 7 % 3];
        bool unfinished = round % 3 == 2;
        cr_hand hand = cr_pool_deal(d->pool, worker, n, grain);
        size_t first, count;
        for (int i = 0; !(unfinished && i > 0) && cr_hand_take(&hand, most, &first, &count); i++) {
            if (first % grain != 0 || count == 0 || count > CR_MAX(most, grain) ||
                first + count > n) {
                atomic_fetch_add(&d->wrong, 1);
                continue;
            }
            for (size_t k = first; k < first + count; k++)
                atomic_fetch_add(&d->taken[k], 1);
        }
        cr_pool_barrier(d->pool);
        if (worker == 0) {
            for (size_t k = 0; k < MAX_ITEMS; k++) {
                int times = atomic_exchange(&d->taken[k], 0);
                if (unfinished ? times > 1 : times != (k < n))
                    atomic_fetch_add(&d->wrong, 1);
            }
        }
        cr_pool_barrier(d->pool);
    }
}

static void everything_dealt_is_taken_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_COUNT(widths); i++) {
        fixture x;
        begin(&x, widths[i], NULL);
        dealt d = { .pool = x.pool };
        for (int run = 0; run < 2; run++)
            cr_pool_run(x.pool, take_rounds, &d);
        assert_int_equal(d.wrong, 0);
        end(&x);
    }
}

/* All but worker 0 begin with a piece, which lasts until worker 0 finds nothing more to do. */
static void take_while_others_stand(void *ctx, int worker)
{
    dealt *d = ctx;
    cr_hand hand = cr_pool_deal(d->pool, worker, MAX_ITEMS, 10);
    size_t first, n;
    if (worker > 0) {
        if (!cr_hand_take(&hand, 20, &first, &n) || n != 20)
            atomic_fetch_add(&d->wrong, 1);
        atomic_fetch_add(&d->begun, 1);
        while (!atomic_load(&d->done))
            CR_PAUSE();
        return;
    }
    while (atomic_load(&d->begun) + 1 < cr_pool_width(d->pool))
        CR_PAUSE();
    size_t sum = 0;
    while (cr_hand_take(&hand, 20, &first, &n))
        sum += n;
    if (sum + 20 * (size_t)d->begun != MAX_ITEMS)
        atomic_fetch_add(&d->wrong, 1);
    atomic_store(&d->done, 1);
}

static void nobody_waits_for_work_that_is_not_begun(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_COUNT(widths); i++) {
        fixture x;
        begin(&x, widths[i], NULL);
        dealt d = { .pool = x.pool };
        cr_pool_run(x.pool, take_while_others_stand, &d);
        assert_int_equal(d.wrong, 0);
        assert_int_equal(d.begun, widths[i] - 1);
        end(&x);
    }
}

/* ---- lock -------------------------------------------------------------------------------- */

typedef struct guarded {
    cr_lock lock;
    int rounds;
    long sum;   /* plain: only under the lock */
    int inside; /* plain: only under the lock */
    int wrong;  /* plain: only under the lock */
} guarded;

static void add_under_lock(void *ctx, int worker)
{
    guarded *g = ctx;
    for (int i = 0; i < g->rounds; i++) {
        cr_lock_take(&g->lock);
        g->wrong += g->inside;
        g->inside = 1;
        g->sum += worker + 1;
        g->inside = 0;
        cr_lock_drop(&g->lock);
    }
}

static void the_lock_lets_one_in(void **state)
{
    (void)state;
    fixture x;
    begin(&x, 4, NULL);
    guarded g = { .rounds = 20000 / SLOWDOWN };
    cr_lock_init(&g.lock, &x.host);
    cr_pool_run(x.pool, add_under_lock, &g);
    assert_int_equal(g.sum, (1 + 2 + 3 + 4) * g.rounds);
    assert_int_equal(g.wrong, 0);
    assert_int_equal(g.lock.state, 0);
    end(&x);
}

/* The first holder leaves while another one waits. The one that waited cannot know whether it was
 * the only one, so its own leaving must wake too. */
typedef struct hook {
    cr_lock lock;
    int n_waits, n_wakes;
} hook;

static void leave_instead_of_waiting(void *ctx, const uint32_t *word, uint32_t value)
{
    hook *h = ctx;
    assert_ptr_equal(word, &h->lock.state);
    assert_int_equal(value, 2);
    assert_int_equal(*word, 2);
    h->n_waits++;
    cr_lock_drop(&h->lock);
}

static void count_wake(void *ctx, const uint32_t *word)
{
    hook *h = ctx;
    assert_ptr_equal(word, &h->lock.state);
    h->n_wakes++;
}

static void who_waited_wakes_the_next(void **state)
{
    (void)state;
    hook h = { .n_waits = 0 };
    cr_host host;
    assert_int_equal(cr_host_set(&host, NULL, NULL), CERA_OK);
    host.os.wait = leave_instead_of_waiting;
    host.os.wake = count_wake;
    host.os.ctx = &h;
    cr_lock_init(&h.lock, &host);

    cr_lock_take(&h.lock);
    cr_lock_drop(&h.lock);
    assert_int_equal(h.n_wakes, 0); /* nobody waited, no system call */

    cr_lock_take(&h.lock);
    cr_lock_take(&h.lock); /* the second one */
    assert_int_equal(h.n_waits, 1);
    assert_int_equal(h.n_wakes, 1);
    cr_lock_drop(&h.lock);
    assert_int_equal(h.n_wakes, 2);
    assert_int_equal(h.lock.state, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_worker_works_once_a_run),
        cmocka_unit_test(unused_pools_end),
        cmocka_unit_test(nobody_passes_a_barrier_early),
        cmocka_unit_test(more_workers_than_processors_finish),
        cmocka_unit_test(widths_out_of_range_are_refused),
        cmocka_unit_test(threads_that_do_not_start_leave_nothing),
        cmocka_unit_test(no_memory_starts_no_thread),
        cmocka_unit_test(nothing_is_allocated_by_a_run),
        cmocka_unit_test(shares_cover_everything_once),
        cmocka_unit_test(everything_dealt_is_taken_once),
        cmocka_unit_test(nobody_waits_for_work_that_is_not_begun),
        cmocka_unit_test(the_lock_lets_one_in),
        cmocka_unit_test(who_waited_wakes_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Steps: who leads, what goes into one, who is told. */
#include "session/scheduler.h"

#include <assert.h>

/* Rows of inputs in a step that has tokens, too, and of a chunk while others are about. */
enum { SHARED_ROWS = 128 };

enum { WAITING, LEADS, DONE };

/* A run that somebody waits for; on that thread's stack. */
typedef struct request {
    const cr_batch_seq *seq;
    cr_seat *seat;
    struct request *next;
    bool in_step;
    bool is_busy;           /* its thread does something else meanwhile, so it cannot lead */
    _Atomic uint32_t state; /* WAITING until the leader says otherwise */
    cera_status status;
    cera_error err;
} request;

struct cr_scheduler {
    cr_host *host;
    cr_scheduler_options options;
    uint64_t process; /* that opened it: a child of fork() has no leader */
    cr_lock lock;
    request *first, *last; /* waiting or being computed, oldest first */
    int n_waiting, n_due;
    bool is_led;
    bool is_gathering; /* the leader sleeps until `n_arrived` changes */
    _Atomic uint32_t n_arrived, n_told;
    atomic_int n_present; /* sessions in calls that compute */
    cr_scheduler_counts counts;
    request **step;     /* [max_seqs] */
    cr_batch_seq *seqs; /* [max_seqs] */
};

/* ---- life -------------------------------------------------------------------------------- */

void cr_scheduler_free(cr_scheduler *s)
{
    if (!s)
        return;
    size_t n = (size_t)s->options.max_seqs;
    cr_free(s->host, CR_MEM_OBJECT, s->step, n * sizeof(request *));
    cr_free(s->host, CR_MEM_OBJECT, s->seqs, n * sizeof *s->seqs);
    cr_free(s->host, CR_MEM_OBJECT, s, sizeof *s);
}

cera_status cr_scheduler_new(cr_host *host, const cr_scheduler_options *options, cr_scheduler **out,
                             cera_error *err)
{
    assert(options->max_seqs > 0 && options->max_seqs <= CR_MAX_BATCH);
    assert(options->max_rows >= options->chunk_size);
    cr_scheduler *s = cr_alloc_zero(host, CR_MEM_OBJECT, sizeof *s);
    if (!s)
        return cr_fail_nomem(err, sizeof *s, "the scheduler");
    size_t n = (size_t)options->max_seqs;
    s->host = host;
    s->options = *options;
    s->process = host->os.process(host->os.ctx);
    cr_lock_init(&s->lock, host);
    s->step = cr_alloc(host, CR_MEM_OBJECT, n * sizeof(request *));
    s->seqs = cr_alloc(host, CR_MEM_OBJECT, n * sizeof *s->seqs);
    if (!s->step || !s->seqs) {
        cr_scheduler_free(s);
        return cr_fail_nomem(err, n * sizeof *s->seqs, "the scheduler");
    }
    *out = s;
    return CERA_OK;
}

/* ---- seats and the queue: with the lock held --------------------------------------------- */

static void wake(cr_scheduler *s, _Atomic uint32_t *word)
{
    atomic_fetch_add_explicit(word, 1, memory_order_release);
    s->host->os.wake(s->host->os.ctx, (const uint32_t *)word);
}

static bool is_gathered(const cr_scheduler *s)
{
    return s->n_due == 0 || s->n_waiting >= s->options.max_seqs;
}

static void tell_leader(cr_scheduler *s)
{
    if (s->is_gathering && is_gathered(s))
        wake(s, &s->n_arrived);
}

static void set_seat(cr_scheduler *s, cr_seat *seat, cr_seat_state state)
{
    s->n_due += (state == CR_SEAT_DUE) - (seat->state == CR_SEAT_DUE);
    int before = seat->state != CR_SEAT_AWAY, after = state != CR_SEAT_AWAY;
    if (after != before)
        atomic_fetch_add_explicit(&s->n_present, after - before, memory_order_relaxed);
    seat->state = state;
    tell_leader(s);
}

static bool has_state(const request *r, uint32_t state)
{
    return atomic_load_explicit(&r->state, memory_order_relaxed) == state;
}

static void enqueue(cr_scheduler *s, request *r)
{
    if (s->last)
        s->last->next = r;
    else
        s->first = r;
    s->last = r;
    s->n_waiting++;
    tell_leader(s);
}

/* Takes all of the step out of the queue. A request is gone when its thread has seen DONE, so that
 * is written last. */
static void tell(cr_scheduler *s, const request *own)
{
    request **link = &s->first, *last = NULL;
    bool others = false;
    while (*link) {
        request *r = *link;
        if (!r->in_step) {
            last = r;
            link = &r->next;
            continue;
        }
        *link = r->next;
        s->n_waiting--;
        others = others || r != own;
        if (r->seat->state != CR_SEAT_AWAY && !r->is_busy)
            set_seat(s, r->seat, CR_SEAT_DUE);
        atomic_store_explicit(&r->state, DONE, memory_order_release);
    }
    s->last = last;
    if (others)
        wake(s, &s->n_told);
}

/* ---- what goes into a step --------------------------------------------------------------- */

static bool is_small(const request *r)
{
    return r->seq->n_rows <= CR_SMALL_RUN;
}

typedef struct step {
    int n, n_rows;
    int n_small, n_input_rows;
} step;

static void take(cr_scheduler *s, step *to, request *r)
{
    if (r->in_step || to->n == s->options.max_seqs ||
        to->n_rows + r->seq->n_rows > s->options.max_rows)
        return;
    r->in_step = true;
    s->step[to->n] = r;
    s->seqs[to->n++] = *r->seq;
    to->n_rows += r->seq->n_rows;
    to->n_small += is_small(r);
    to->n_input_rows += is_small(r) ? 0 : r->seq->n_rows;
}

static step choose(cr_scheduler *s)
{
    step to = { 0 };
    take(s, &to, s->first);
    for (request *r = s->first; r && to.n_input_rows == 0; r = r->next) {
        if (!is_small(r))
            take(s, &to, r);
    }
    for (request *r = s->first; r; r = r->next) {
        if (is_small(r))
            take(s, &to, r);
    }
    int most = to.n_small > 0 ? SHARED_ROWS : s->options.max_rows;
    for (request *r = s->first; r; r = r->next) {
        if (to.n_input_rows + r->seq->n_rows <= most)
            take(s, &to, r);
    }
    return to;
}

/* ---- leading ----------------------------------------------------------------------------- */

/* Waits for those that are due. */
static void gather(cr_scheduler *s)
{
    while (!is_gathered(s)) {
        uint32_t seen = atomic_load_explicit(&s->n_arrived, memory_order_relaxed);
        s->is_gathering = true;
        cr_lock_drop(&s->lock);
        s->host->os.wait(s->host->os.ctx, (const uint32_t *)&s->n_arrived, seen);
        cr_lock_take(&s->lock);
        s->is_gathering = false;
    }
}

static bool is_cancelled(const request *r)
{
    return r->seq->cancel && atomic_load_explicit(r->seq->cancel, memory_order_relaxed) != 0;
}

/* Ends those that were cancelled, before they cost the others anything. */
static bool end_cancelled(cr_scheduler *s, const request *own)
{
    bool found = false;
    for (request *r = s->first; r; r = r->next) {
        r->in_step = is_cancelled(r);
        if (r->in_step)
            r->status = cr_fail(&r->err, CERA_E_CANCELLED, "the computation was cancelled");
        found = found || r->in_step;
    }
    if (found)
        tell(s, own);
    return found;
}

/* One step. When one of its sessions cancels, the step is given up: that one has failed, and the
 * others stay in the queue as they were. */
static void compute(cr_scheduler *s, const request *own)
{
    step now = choose(s);
    cr_lock_drop(&s->lock);
    cera_error err;
    cr_batch batch = { .seqs = s->seqs, .n_seqs = now.n, .n_rows = now.n_rows };
    cera_status status = s->options.api->plan_run(s->options.plan, &batch, &err);
    cr_lock_take(&s->lock);
    if (status == CERA_E_CANCELLED) {
        for (int i = 0; i < now.n; i++)
            s->step[i]->in_step = false;
        end_cancelled(s, own);
        return;
    }
    for (int i = 0; i < now.n; i++) {
        s->step[i]->status = status;
        if (status != CERA_OK)
            s->step[i]->err = err;
    }
    s->counts.n_steps++;
    s->counts.n_runs += (uint64_t)now.n;
    tell(s, own);
}

/* The one that has waited longest leads next; nobody does when there is none, or all are busy. */
static void hand_on(cr_scheduler *s)
{
    request *next = s->first;
    while (next && next->is_busy)
        next = next->next;
    s->is_led = next != NULL;
    if (!s->is_led)
        return;
    atomic_store_explicit(&next->state, LEADS, memory_order_release);
    wake(s, &s->n_told);
}

/* Computes steps until the caller's own request is done, then hands on. */
static void lead(cr_scheduler *s, const request *own)
{
    while (!has_state(own, DONE)) {
        gather(s);
        if (!end_cancelled(s, own))
            compute(s, own);
    }
    hand_on(s);
}

/* Sleeps until the request is done, or its thread is to lead. */
static uint32_t wait_turn(cr_scheduler *s, const request *r)
{
    for (;;) {
        uint32_t seen = atomic_load_explicit(&s->n_told, memory_order_acquire);
        uint32_t state = atomic_load_explicit(&r->state, memory_order_acquire);
        if (state != WAITING)
            return state;
        s->host->os.wait(s->host->os.ctx, (const uint32_t *)&s->n_told, seen);
    }
}

/* What the thread does while its run waits, or is computed by others. */
static void do_meanwhile(cr_scheduler *s, request *r)
{
    r->is_busy = true;
    cr_lock_drop(&s->lock);
    cr_seat_meanwhile(r->seat);
    cr_lock_take(&s->lock);
    r->is_busy = false;
    if (has_state(r, DONE) && r->seat->state != CR_SEAT_AWAY)
        set_seat(s, r->seat, CR_SEAT_DUE);
}

/* ---- for sessions ------------------------------------------------------------------------ */

void cr_seat_meanwhile(cr_seat *seat)
{
    cr_meanwhile meanwhile = seat->meanwhile;
    seat->meanwhile = (cr_meanwhile){ .run = NULL };
    if (meanwhile.run)
        meanwhile.run(meanwhile.ctx);
}

void cr_scheduler_seat(cr_scheduler *s, cr_seat *seat, cr_seat_state state)
{
    assert(state != CR_SEAT_DUE);
    if (seat->state == state)
        return;
    cr_lock_take(&s->lock);
    set_seat(s, seat, state);
    cr_lock_drop(&s->lock);
}

cera_status cr_scheduler_run(cr_scheduler *s, cr_seat *seat, const cr_batch_seq *seq,
                             cera_error *err)
{
    assert(seq->n_rows > 0 && seq->n_rows <= s->options.max_rows);
    if (s->host->os.process(s->host->os.ctx) != s->process)
        return cr_fail(err, CERA_E_STATE, "the engine was opened before fork(): open it again");
    request r = { .seq = seq, .seat = seat, .state = WAITING };
    cr_lock_take(&s->lock);
    enqueue(s, &r);
    if (seat->state == CR_SEAT_DUE)
        set_seat(s, seat, CR_SEAT_PRESENT);
    if (seat->meanwhile.run)
        do_meanwhile(s, &r);
    bool leads = !s->is_led && has_state(&r, WAITING);
    if (leads) {
        s->is_led = true;
    } else {
        cr_lock_drop(&s->lock);
        leads = wait_turn(s, &r) == LEADS;
        if (leads)
            cr_lock_take(&s->lock);
    }
    if (leads) {
        lead(s, &r);
        cr_lock_drop(&s->lock);
    }
    if (r.status != CERA_OK && err)
        *err = r.err;
    return r.status;
}

int cr_scheduler_chunk(const cr_scheduler *s)
{
    bool shared = atomic_load_explicit(&s->n_present, memory_order_relaxed) > 1;
    return shared ? CR_MIN(s->options.chunk_size, SHARED_ROWS) : s->options.chunk_size;
}

bool cr_scheduler_hold(cr_scheduler *s)
{
    cr_lock_take(&s->lock);
    bool is_free = !s->is_led;
    s->is_led = true;
    cr_lock_drop(&s->lock);
    return is_free;
}

void cr_scheduler_release(cr_scheduler *s)
{
    cr_lock_take(&s->lock);
    hand_on(s);
    cr_lock_drop(&s->lock);
}

void cr_scheduler_get_counts(cr_scheduler *s, cr_scheduler_counts *out)
{
    cr_lock_take(&s->lock);
    *out = s->counts;
    out->n_waiting = s->n_waiting;
    cr_lock_drop(&s->lock);
}

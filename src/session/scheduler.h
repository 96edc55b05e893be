/* The scheduler: runs of many sessions, computed together in steps.
 *
 *     sessions ──run──> [ a token | a token | 128 rows of an input | a token ] ──step──> plan
 *
 * Each session computes by calling cr_scheduler_run from its own thread. There is no thread besides
 * these: whoever finds nobody computing leads. The leader takes what is waiting into a step,
 * computes it, tells the others, and hands on to the one that has waited longest. Alone, a session
 * leads every step itself and never waits.
 *
 * A step takes the run that has waited longest, then tokens (any run of up to CR_SMALL_RUN rows),
 * then chunks of inputs. There is room for one chunk whatever else waits, so that tokens never
 * starve inputs, and while others are about chunks are short, so that inputs do not hold up tokens.
 *
 * After a step its sessions sample, all at once, on their own threads. The next leader waits for
 * them: they are due. Whoever runs the user's code is not due, and does so while its run is in the
 * queue or in a step, so a slow reader holds up nobody, and a quick one misses no step. */
#ifndef CR_SCHEDULER_H
#define CR_SCHEDULER_H

#include "backend/backend.h"
#include "base/pool.h"

typedef struct cr_scheduler cr_scheduler;

enum {
    CR_MAX_BATCH = 256,
    CR_SMALL_RUN = 64, /* rows of a run that goes before chunks of inputs */
};

typedef struct cr_scheduler_options {
    const cr_backend_api *api;
    cr_plan *plan;
    int max_seqs; /* of a step, 1 to CR_MAX_BATCH */
    int max_rows; /* of a step: as many as the plan takes, at least a chunk */
    int chunk_size;
} cr_scheduler_options;

/* `host` and the plan outlive the scheduler. */
cera_status cr_scheduler_new(cr_host *host, const cr_scheduler_options *options, cr_scheduler **out,
                             cera_error *err);
void cr_scheduler_free(cr_scheduler *scheduler);

/* Where a session is. It begins at CR_SEAT_AWAY, as a cleared one is. */
typedef enum cr_seat_state {
    CR_SEAT_AWAY,    /* in no call that computes */
    CR_SEAT_PRESENT, /* in one, but steps do not wait for it */
    CR_SEAT_DUE,     /* it has computed and will go on at once: set by cr_scheduler_run */
} cr_seat_state;

/* What the thread of a run does between queueing and waiting; NULL: nothing. */
typedef struct cr_meanwhile {
    void (*run)(void *ctx);
    void *ctx;
} cr_meanwhile;

typedef struct cr_seat {
    cr_seat_state state;
    cr_meanwhile meanwhile; /* of the next run, which clears it */
} cr_seat;

/* Runs it and clears it: for who computes without a scheduler. */
void cr_seat_meanwhile(cr_seat *seat);

/* Changes the state, to CR_SEAT_AWAY or CR_SEAT_PRESENT. A call that computes begins with the
 * second and ends with the first. A session that runs on another engine is not due meanwhile. */
void cr_scheduler_seat(cr_scheduler *scheduler, cr_seat *seat, cr_seat_state state);

/* Computes, perhaps with others. Fails as plan_run; what happens to the others is no concern of
 * this one: it fails with CERA_E_CANCELLED only when its own seq->cancel asked for it. */
cera_status cr_scheduler_run(cr_scheduler *scheduler, cr_seat *seat, const cr_batch_seq *seq,
                             cera_error *err);

/* Rows that a chunk should have now, at most: fewer while others are about. */
int cr_scheduler_chunk(const cr_scheduler *scheduler);

/* Keeps everybody else from computing until the release; false, and nothing is held, when somebody
 * computes. */
bool cr_scheduler_hold(cr_scheduler *scheduler);
void cr_scheduler_release(cr_scheduler *scheduler);

typedef struct cr_scheduler_counts {
    uint64_t n_steps, n_runs; /* computed */
    int n_waiting;            /* runs in the queue, with those that are being computed */
} cr_scheduler_counts;
void cr_scheduler_get_counts(cr_scheduler *scheduler, cr_scheduler_counts *out);

#endif

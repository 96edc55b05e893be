/* One run of a test of `cera bench`: sessions of an engine do the same at the same time, each on a
 * thread of its own, but for one alone, which stays on the caller's. */
#ifndef BENCH_RUN_H
#define BENCH_RUN_H

#include "cli/bench_report.h"

/* A session, what it is given and when it did what. */
typedef struct bench_lane {
    cera_session *session;
    int32_t *ids;    /* the depth, then the prompt, or the token that a generation begins with */
    uint64_t end_ns; /* the work was done: the prompt computed, the last token chosen */
    uint64_t *at_ns; /* [n_gen, at least 1] its tokens were chosen; that of a prompt is one */
    int32_t chosen;  /* stored, so that the search is not left out */
    cera_status status;
    cera_error err;
} bench_lane;

/* Who runs. */
typedef struct bench_crew {
    cera_host host;
    bench_lane *lanes; /* as many as the test wants sessions */
    int n_vocab;
} bench_crew;

/* Empties the sessions, fills them to the depth, and has them start together, at *start_ns. On
 * failure err is that of a lane. */
cera_status bench_run(const bench_crew *crew, const bench_test *test, uint64_t *start_ns,
                      cera_error *err);

#endif

/* How much an engine computes, in work and not in time: kernels that count what they are asked for
 * and then do it, and that can cancel a session when so much has been done. For models of Q8_0 with
 * keys of F16, on one thread, one engine at a time. */
#ifndef WORK_H
#define WORK_H

#include "cera.h"

typedef struct work_meter {
    uint64_t n_macs;       /* multiplications of weights, and of keys */
    uint64_t n_elements;   /* normalised, and quantised, in rows that are to be multiplied */
    cera_session *session; /* to be cancelled; NULL: it was, or none is */
    uint64_t cancel_at;    /* in n_macs */
    uint64_t macs_before, elements_before; /* the cancel */
} work_meter;

extern work_meter work;
extern const uint64_t
    work_tile; /* rows of a matrix that are computed before a cancel is looked for */

struct cr_backend;
void work_install(struct cr_backend *backend);
/* Counts from 0; the session, unless it is NULL, is cancelled after n_macs. */
void work_start(cera_session *session, uint64_t n_macs);

#endif

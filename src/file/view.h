/* The bytes of a whole file, mapped, or read where it cannot be mapped. */
#ifndef CR_VIEW_H
#define CR_VIEW_H

#include "base/host.h"

typedef struct cr_view {
    cr_host *host;
    const uint8_t *bytes; /* [n_bytes] */
    size_t n_bytes;
    uint8_t *owned; /* the same bytes when they were read, else NULL */
} cr_view;

/* Fails with CERA_E_IO naming the path, CERA_E_LIMIT above max_bytes, CERA_E_NOMEM. After a failure
 * there is nothing to be done with. */
cera_status cr_view_open(cr_view *view, cr_host *host, const char *path, uint64_t max_bytes,
                         cera_error *err);
void cr_view_done(cr_view *view);

#endif

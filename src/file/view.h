/* The bytes of a whole file. A file is mapped, so that its pages stay in the page cache, shared
 * with every other process; where it cannot be mapped, or must not be, it is read into memory. */
#ifndef CR_VIEW_H
#define CR_VIEW_H

#include "base/host.h"

typedef struct cr_view {
    cr_host *host;
    const uint8_t *bytes; /* [n_bytes] */
    size_t n_bytes;
    uint8_t *owned;    /* the same bytes when they are in memory of our own, else NULL */
    void *os_file;     /* open while the file is mapped, for cr_view_check_unchanged */
    cera_os_stat stat; /* when it was opened */
} cr_view;

/* Fails with CERA_E_IO naming the path, CERA_E_LIMIT above max_bytes, CERA_E_NOMEM. After a failure
 * of any of these the view is empty. */
cera_status cr_view_open(cr_view *view, cr_host *host, const char *path, uint64_t max_bytes,
                         bool no_mmap, cera_error *err);
/* Memory for n_bytes that the caller fills, in view->owned; name: what errors call it. */
cera_status cr_view_alloc(cr_view *view, cr_host *host, uint64_t n_bytes, const char *name,
                          cera_error *err);
/* CERA_E_IO when a mapped file was changed, and with it the bytes. */
cera_status cr_view_check_unchanged(const cr_view *view, const char *path, cera_error *err);
/* Also of an empty or cleared view. */
void cr_view_done(cr_view *view);

#endif

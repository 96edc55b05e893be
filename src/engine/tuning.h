/* The file of cera_engine_tune:
 *
 *     {"version": 1, "cpu": "AMD EPYC family 25 model 17", "prefetch": 8192} */
#ifndef CR_TUNING_H
#define CR_TUNING_H

#include "base/host.h"

/* CERA_E_FORMAT for a file that is none, CERA_E_STATE for one of another processor. */
cera_status cr_tuning_read(cr_host *host, const char *path, size_t *prefetch, cera_error *err);
cera_status cr_tuning_write(cr_host *host, const char *path, size_t prefetch, cera_error *err);

#endif

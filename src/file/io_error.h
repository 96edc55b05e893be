/* Errors of the operating system about files, in words. */
#ifndef CR_IO_ERROR_H
#define CR_IO_ERROR_H

#include "base/status.h"

/* "path: cannot <verb>: <what the errno value means> (errno N)": CERA_E_IO, or CERA_E_NOMEM where
 * memory is what was lacking. Returns the status. */
cera_status cr_io_failed(cera_error *err, const char *path, const char *verb, int error);

#endif

/* From what a caller hands in to an open file: the one place that knows "builtin:". */
#ifndef CR_SOURCE_H
#define CR_SOURCE_H

#include "file/gguf.h"

/* Checks that exactly one form of the source is set, resolves built-in models, opens the file.
 * host is kept and must outlive the file. */
cera_status cr_source_open(const cera_source *source, cr_host *host, cr_gguf **out,
                           cera_error *err);

#endif

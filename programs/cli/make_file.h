/* What commands share that make a model file of another: three words, progress, signals, the
 * outcome. */
#ifndef MAKE_FILE_H
#define MAKE_FILE_H

#include "cera.h"
#include "cli/options.h"
#include "cli/progress.h"

/* Whether the command line has source, new file and type; reports it otherwise. */
bool make_has_words(const cli_args *args);

/* Starts the bar and holds signals; on_progress for the library, `user` is the bar. */
void make_start(progress *bar, const cli_args *args);
int make_progress(void *user, uint64_t done, uint64_t total);

/* Ends both and reports what came of it, as `schema` where JSON is asked for. Returns the exit
 * code. */
int make_end(progress *bar, const cli_args *args, cera_status status, const char *schema,
             const cera_quantize_summary *summary, const cera_error *err);

#endif

/* Progress of something long on standard error: a bar on a terminal, lines or JSON on request. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include "cli/options.h"

typedef enum progress_mode {
    PROGRESS_NONE,
    PROGRESS_BAR,
    PROGRESS_PLAIN,
    PROGRESS_JSON
} progress_mode;

typedef struct progress {
    progress_mode mode;
    const char *name;
    const char *unit; /* what is counted; "tokens" unless changed after progress_start */
    size_t divisor;   /* of the counts where people read them; 1 */
    uint64_t start_ms, last_ms;
    int last_percent;
    bool shown, unicode;
} progress;

void progress_start(progress *p, const cli_args *args, const char *name);
/* At most ten redraws a second; nothing is shown in the first second but in JSON. */
void progress_set(progress *p, size_t done, size_t total);
/* Clears the bar. */
void progress_end(progress *p);

#endif

/* Chat templates of the command line. */
#ifndef RENDERING_H
#define RENDERING_H

#include "cera.h"
#include "cli/options.h"

/* The template that the options name, or the vocabulary's own (vocab may be NULL when they name
 * one). Returns 0, or an exit code after it has reported why. */
int rendering_open(const cli_args *args, const cera_vocab *vocab, cera_template **out);
/* Options with the day of today. */
void rendering_options(cera_render_options *out);
/* Reports why a conversation could not be rendered, and returns the exit code. */
int rendering_failed(const cera_error *err);

#endif

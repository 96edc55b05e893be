/* What a text may be: the grammar that the options name. */
#ifndef CONSTRAINT_H
#define CONSTRAINT_H

#include "cera.h"
#include "cli/options.h"

/* Whether an option names one. */
bool constraint_is_set(const cli_args *args);
/* Compiles it; vocab may be NULL. *out NULL when no option names one. Returns 0, or an exit code
 * after it has reported why. */
int constraint_open(const cli_args *args, const cera_vocab *vocab, cera_grammar **out);
/* The form of tool calls as one: tools, a list in JSON, that are called in `format` as `choice` says
 * (auto, none, required, or a name). */
int constraint_open_tools(const cli_args *args, const char *tools, const char *format,
                          const char *choice, const cera_vocab *vocab, cera_grammar **out);

#endif

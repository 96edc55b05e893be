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
/* Tool calls, as the options want them: tools, a list in JSON, called in `format` as `choice` says
 * (auto, none, required, or a name), behind a prompt that ends like this one (NULL: any). */
typedef struct call_constraint {
    const char *tools, *format, *choice;
    const char *prompt;
    const cera_vocab *vocab; /* may be NULL */
} call_constraint;
int constraint_open_tools(const cli_args *args, const call_constraint *calls, cera_grammar **out);

#endif

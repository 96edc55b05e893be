/* The tools that a conversation has: which names there are, and which arguments are texts. */
#ifndef CR_TOOLS_H
#define CR_TOOLS_H

#include "base/text.h"

typedef struct cr_tools {
    cr_buf json; /* as cr_literal writes it, so that reading it needs no checks; empty: none */
} cr_tools;

/* json: a list as in OpenAI's API, [{"type": "function", "function": {"name": ..., "parameters":
 * ...}}], or without the envelope; names differ. Done with in any case. */
cera_status cr_tools_init(cr_tools *tools, cr_str json, cr_host *host, cera_error *err);
void cr_tools_done(cr_tools *tools);
bool cr_tools_has(const cr_tools *tools, cr_str name);
/* Whether the schema of a tool says that an argument is a string, and nothing else. */
bool cr_tools_is_text(const cr_tools *tools, cr_str name, cr_str argument);

#endif

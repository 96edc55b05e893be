/* The tools that a conversation has: which names there are, and what their arguments may be. */
#ifndef CR_TOOLS_H
#define CR_TOOLS_H

#include "base/json.h"

typedef struct cr_tools {
    cr_arena arena;
    const cr_json *list; /* in the arena; NULL: none */
} cr_tools;

/* json: a list as in OpenAI's API, [{"type": "function", "function": {"name": ..., "parameters":
 * ...}}], or without the envelope; names differ, parameters are schemas of objects, and where there
 * are none the tool has no members that would say what they are. Copied. CERA_E_ARG for anything
 * else. Done with in any case. */
cera_status cr_tools_init(cr_tools *tools, cr_str json, cr_host *host, cera_error *err);
void cr_tools_done(cr_tools *tools);
/* The function in an element of the list, and its name. */
const cr_json *cr_tool_function(const cr_json *tool);
cr_str cr_tool_name(const cr_json *tool);
bool cr_tools_has(const cr_tools *tools, cr_str name);
/* Whether the schema of a tool says that an argument is a string, and nothing else. */
bool cr_tools_is_text(const cr_tools *tools, cr_str name, cr_str argument);

#endif

/* Tool calls as a grammar: the marks and the form of a model's format around the arguments that
 * each tool's schema allows. */
#ifndef TOOL_GRAMMAR_H
#define TOOL_GRAMMAR_H

#include "cera.h"
#include "common/bytes.h"

#include <jansson.h>

typedef enum tool_choice {
    TOOL_AUTO,     /* text, with calls where the model wants any */
    TOOL_REQUIRED, /* one call or more, and nothing else */
} tool_choice;

/* tools: a list as in OpenAI's API; `only`: the name of the one that may be called, or NULL.
 * format: as cera_chat_parser_format gives it. Every argument is in the order of its schema's
 * properties. On failure the error names the tool; CERA_E_UNSUPPORTED is for formats and schemas
 * that cannot be enforced, CERA_E_ARG for tools that are none. */
cera_status tool_grammar_open(const json_t *tools, const char *only, const char *format,
                              tool_choice choice, const cera_vocab *vocab, cera_grammar **out,
                              cera_error *err);
/* The function in an element of a list of tools, NULL when it is none; and its name. */
const json_t *tool_function(const json_t *tool, const char **name);

#endif

/* Tool calls as a grammar: the marks and the form of a model's format around the arguments that
 * each tool's schema allows. */
#ifndef CR_TOOL_GRAMMAR_H
#define CR_TOOL_GRAMMAR_H

#include "chat/format.h"
#include "token/vocab.h"

typedef struct cr_tool_grammar_options {
    const cr_chat_format *format;
    const cr_vocab *vocab; /* NULL: marks are plain text */
    cera_tool_choice choice;
    const char *only; /* the name of the one that may be called; NULL: any */
    cr_str prompt;    /* what the reply follows; only its end matters */
    bool single_call, lenient;
    int max_blanks;
} cr_tool_grammar_options;

/* Appends the grammar as GBNF to `out`. tools: as for cr_tools_init. CERA_E_ARG for tools that are
 * none, CERA_E_UNSUPPORTED for formats and schemas that cannot be enforced, with the tool's name;
 * CERA_E_LIMIT. */
cera_status cr_tool_grammar_to_gbnf(cr_str tools, const cr_tool_grammar_options *options,
                                    cr_host *host, cr_buf *out, cera_error *err);

#endif

/* run with a chat template: a single turn of a conversation. */
#ifndef RUN_CHAT_H
#define RUN_CHAT_H

#include "cli/options.h"

/* Whether an option asks for that. */
bool run_is_chat(const cli_args *args);
int run_chat(const cli_args *args);

#endif

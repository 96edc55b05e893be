/* The commands. Each gets the parsed command line, does its work and returns the exit code; what it
 * wrote with out_write is flushed by main. */
#ifndef CLI_H
#define CLI_H

#include "cli/options.h"

#define COMMAND(id, name, arguments, summary, description, example)                                \
    int command_##id(const cli_args *args);
#include "cli/commands.def"
#undef COMMAND

#endif

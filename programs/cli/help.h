/* The texts that are made of the tables. Each is appended to a buffer. */
#ifndef HELP_H
#define HELP_H

#include "cli/options.h"
#include "common/bytes.h"

/* The list of commands (CMD_NONE), or the options of one. */
void help_text(command_id command, bytes *out);
/* Two lines for standard error: how the command is used. */
void help_short(command_id command, bytes *out);
/* cera(1) as roff. */
void help_manual(bytes *out);
/* shell is bash, zsh or fish; false for any other. */
bool help_completion(const char *shell, bytes *out);

#endif

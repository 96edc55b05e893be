/* Messages from standard input: lines, with editing on a terminal where libedit is built in. */
#ifndef LINE_READER_H
#define LINE_READER_H

#include "common/bytes.h"

#include <stdbool.h>

typedef struct line_reader line_reader;

/* READ_CANCELLED: Ctrl-C, or another signal that does not end the program, took back what was being
 * typed; READ_NOTHING: and nothing was. Where the terminal itself edits lines nobody knows what was
 * typed in the last of them: then that is nothing. */
typedef enum line_read { READ_MESSAGE, READ_CANCELLED, READ_NOTHING, READ_END } line_read;

line_reader *line_reader_open(void);
void line_reader_close(line_reader *reader);
bool line_reader_is_terminal(const line_reader *reader);
/* The next message, without its last line feed: a line, several that end in backslashes, or what is
 * between """ and """. */
line_read line_reader_next(line_reader *reader, bytes *out);

#endif

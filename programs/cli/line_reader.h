/* Messages from standard input: lines, with editing on a terminal where libedit is built in. */
#ifndef LINE_READER_H
#define LINE_READER_H

#include "common/bytes.h"

#include <stdbool.h>

typedef struct line_reader line_reader;

line_reader *line_reader_open(void);
void line_reader_close(line_reader *reader);
bool line_reader_is_terminal(const line_reader *reader);
/* The next message, without its last line feed: a line, several that end in backslashes, or what is
 * between """ and """. False at the end of the input. */
bool line_reader_next(line_reader *reader, bytes *out);

#endif

/* Bytes that are to become text for somebody: repaired, escaped, or in base64. */
#ifndef BYTES_H
#define BYTES_H

#include <stdbool.h>
#include <stddef.h>

/* A growing buffer, always terminated by NUL. Programs end when memory does: see bytes_alloc. */
typedef struct bytes {
    char *data;
    size_t size, room;
} bytes;

void bytes_append(bytes *buf, const void *data, size_t n);
void bytes_text(bytes *buf, const char *text);
void bytes_printf(bytes *buf, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
void bytes_done(bytes *buf);

/* count * size bytes, cleared, or the program's out-of-memory handler, which does not return. */
void *bytes_alloc(size_t count, size_t size);
extern void (*bytes_no_memory)(void);

/* Length of the valid UTF-8 character at text[0, n); 0 when there is none. */
size_t bytes_utf8(const char *text, size_t n);
/* Appends text with each byte that is not UTF-8 replaced by U+FFFD. */
void bytes_append_repaired(bytes *buf, const char *text, size_t n);
/* Appends text fit for a terminal: control characters, quotes, backslashes and bytes that are not
 * UTF-8 as \n, \t, \r, \", \\, \u{9b}, \xHH. With `quotes` false, " and \ stay as they are. */
void bytes_append_escaped(bytes *buf, const char *text, size_t n, bool quotes);
void bytes_append_base64(bytes *buf, const void *data, size_t n);

#endif

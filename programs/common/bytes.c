#include "common/bytes.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void (*bytes_no_memory)(void) = abort;

void *bytes_alloc(size_t count, size_t size)
{
    void *ptr = calloc(count > 0 ? count : 1, size > 0 ? size : 1);
    if (ptr == NULL)
        bytes_no_memory();
    return ptr;
}

static void reserve(bytes *buf, size_t more)
{
    if (more < buf->room - buf->size)
        return;
    size_t room = buf->room < 256 ? 256 : buf->room;
    while (more >= room - buf->size) {
        if (room > SIZE_MAX / 2)
            bytes_no_memory();
        room *= 2;
    }
    char *data = realloc(buf->data, room);
    if (data == NULL)
        bytes_no_memory();
    buf->data = data;
    buf->room = room;
}

void bytes_append(bytes *buf, const void *data, size_t n)
{
    reserve(buf, n);
    if (n > 0)
        memcpy(buf->data + buf->size, data, n);
    buf->size += n;
    buf->data[buf->size] = '\0';
}

void bytes_text(bytes *buf, const char *text)
{
    bytes_append(buf, text, strlen(text));
}

void bytes_printf(bytes *buf, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = vsnprintf(NULL, 0, format, list);
    va_end(list);
    if (n < 0)
        return;
    reserve(buf, (size_t)n);
    va_start(list, format);
    vsnprintf(buf->data + buf->size, (size_t)n + 1, format, list);
    va_end(list);
    buf->size += (size_t)n;
}

void bytes_done(bytes *buf)
{
    free(buf->data);
    *buf = (bytes){ 0 };
}

/* ---- UTF-8 ------------------------------------------------------------------------------- */

/* The second byte decides whether a form is overlong (E0, F0), a surrogate (ED) or above U+10FFFF
 * (F4); the ones after it are plain continuations. */
size_t bytes_utf8(const char *text, size_t n)
{
    if (n == 0)
        return 0;
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80)
        return 1;
    size_t size = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4 || size > n)
        return 0;
    unsigned low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    unsigned high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++) {
        if (s[i] < 0x80 || s[i] > 0xBF)
            return 0;
    }
    return size;
}

void bytes_append_repaired(bytes *buf, const char *text, size_t n)
{
    bytes_append(buf, "", 0);
    for (size_t i = 0; i < n;) {
        size_t size = bytes_utf8(text + i, n - i);
        if (size == 0) {
            bytes_text(buf, "\xEF\xBF\xBD");
            i++;
        } else {
            bytes_append(buf, text + i, size);
            i += size;
        }
    }
}

void bytes_append_escaped(bytes *buf, const char *text, size_t n, bool quotes)
{
    bytes_append(buf, "", 0);
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)text[i];
        size_t size = bytes_utf8(text + i, n - i);
        if (c == '\n' || c == '\t' || c == '\r') {
            bytes_text(buf, c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r");
        } else if (quotes && (c == '"' || c == '\\')) {
            bytes_printf(buf, "\\%c", c);
        } else if (size == 0 || c < 0x20 || c == 0x7F) {
            bytes_printf(buf, "\\x%02x", c);
            size = 1;
        } else if (c == 0xC2 && (unsigned char)text[i + 1] < 0xA0) {
            bytes_printf(buf, "\\u{%x}", (unsigned char)text[i + 1]); /* C1: 9b is a CSI */
        } else {
            bytes_append(buf, text + i, size);
        }
        i += size;
    }
}

void bytes_append_base64(bytes *buf, const void *data, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *s = data;
    bytes_append(buf, "", 0);
    for (size_t i = 0; i < n; i += 3) {
        unsigned triple = (unsigned)s[i] << 16;
        triple |= i + 1 < n ? (unsigned)s[i + 1] << 8 : 0;
        triple |= i + 2 < n ? s[i + 2] : 0;
        char out[4] = { digits[triple >> 18], digits[triple >> 12 & 63], digits[triple >> 6 & 63],
                        digits[triple & 63] };
        if (i + 1 >= n)
            out[2] = '=';
        if (i + 2 >= n)
            out[3] = '=';
        bytes_append(buf, out, 4);
    }
}

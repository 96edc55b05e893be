/* Errors as text: formatting a message, and making it safe to show.
 *
 * Messages quote file names, keys and prompts, which anybody may have written. Whatever they hold,
 * a message is one line of valid UTF-8 without control characters, so that it can go to a terminal
 * or into a log as it is. */
#include "base/status.h"

#include "base/text.h"

#include <assert.h>
#include <stdio.h>

const char *cera_status_name(cera_status status)
{
    switch (status) {
#define STATUS_CASE(name, value, meaning)                                                          \
    case name:                                                                                     \
        return #name;
        CERA_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "CERA_E_?";
}

/* Characters that move the cursor or start an escape sequence: C0, DEL and C1. */
static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code <= 0x9f);
}

/* Copies text[0, n) into out[room], escaped. Each byte of input gives at least one of output. */
static void escape(char *out, size_t room, const char *text, size_t n)
{
    static const char hex[] = "0123456789ABCDEF";
    static const char more[] = "...";
    size_t size = 0, cut = 0; /* cut: the last place where "..." would still fit */

    for (size_t i = 0; i < n;) {
        uint32_t code = 0;
        size_t length = cr_utf8_decode(text + i, n - i, &code);
        bool plain = length > 0 && !is_control(code);
        size_t taken = plain ? length : 1, written = plain ? length : 4;

        if (size + written >= room) {
            memcpy(out + cut, more, sizeof more);
            return;
        }
        if (plain) {
            memcpy(out + size, text + i, length);
        } else {
            unsigned byte = (unsigned char)text[i];
            out[size] = '\\';
            out[size + 1] = 'x';
            out[size + 2] = hex[byte >> 4];
            out[size + 3] = hex[byte & 15];
        }
        i += taken;
        size += written;
        if (size + sizeof more <= room)
            cut = size;
    }
    out[size] = '\0';
}

void cr_format_line(char *out, size_t room, const char *format, va_list args)
{
    assert(room >= 8 && room <= CR_LINE_MAX);
    /* Escaping never shortens, so bytes beyond `room` cannot be seen. The 4 more keep a character
     * whole that begins inside it. */
    char raw[CR_LINE_MAX + 4];
    int n = vsnprintf(raw, room + 4, format, args);
    if (n < 0) {
        static const char unknown[] = "(?)";
        memcpy(out, unknown, sizeof unknown);
        return;
    }
    escape(out, room, raw, CR_MIN((size_t)n, room + 3));
}

cera_status cr_fail(cera_error *err, cera_status status, const char *format, ...)
{
    if (err == NULL)
        return status;
    va_list args;
    va_start(args, format);
    cr_format_line(err->message, sizeof err->message, format, args);
    va_end(args);
    err->status = status;
    return status;
}

cera_status cr_fail_in(cera_error *err, cera_status status, const char *subject)
{
    if (err == NULL)
        return status;
    return cr_fail(err, status, "%s: %s", subject, err->message);
}

cera_status cr_fail_nomem(cera_error *err, size_t size, const char *what)
{
    if (size == 0)
        return cr_fail(err, CERA_E_NOMEM, "%s: out of memory", what);
    return cr_fail(err, CERA_E_NOMEM, "%s: out of memory (%zu bytes)", what, size);
}

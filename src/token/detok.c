/* The streaming detokenizer. */
#include "token/detok.h"

#include <assert.h>

static const char REPLACEMENT[] = "\xef\xbf\xbd"; /* U+FFFD */

void cr_detok_init(cr_detok *detok)
{
    *detok = (cr_detok){ .n_held = 0 };
}

/* Decides the held bytes: writes a whole character, or U+FFFD for the part that can no longer
 * become one. False when there is no memory. Returns with the rest held, if it is still open. */
static bool settle_held(cr_detok *detok, cr_buf *out)
{
    while (detok->n_held > 0 && !cr_utf8_is_open(detok->held, detok->n_held)) {
        uint32_t code;
        size_t length = cr_utf8_decode(detok->held, detok->n_held, &code);
        if (length > 0) {
            if (!cr_buf_append(out, detok->held, length))
                return false;
        } else {
            /* One U+FFFD for the longest part that could have begun a character, as the Unicode
             * standard advises, so that this decoder agrees with those of Python and browsers. */
            length = detok->n_held - 1;
            while (length > 1 && !cr_utf8_is_open(detok->held, length))
                length--;
            length = CR_MAX(length, (size_t)1);
            if (!cr_buf_append(out, REPLACEMENT, sizeof REPLACEMENT - 1))
                return false;
        }
        detok->n_held -= length;
        memmove(detok->held, detok->held + length, detok->n_held);
    }
    return true;
}

/* How many bytes at the start of text are whole characters. */
static size_t whole_characters(cr_str text)
{
    size_t i = 0;
    while (i < text.size) {
        uint32_t code;
        size_t length = cr_utf8_decode(text.data + i, text.size - i, &code);
        if (length == 0)
            break;
        i += length;
    }
    return i;
}

bool cr_detok_push(cr_detok *detok, cr_str bytes, cr_buf *out)
{
    size_t i = 0;
    while (i < bytes.size) {
        if (detok->n_held == 0) {
            size_t n = whole_characters((cr_str){ bytes.data + i, bytes.size - i });
            if (!cr_buf_append(out, bytes.data + i, n))
                return false;
            i += n;
            if (i == bytes.size)
                break;
        }
        assert(detok->n_held < sizeof detok->held);
        detok->held[detok->n_held++] = bytes.data[i++];
        if (!settle_held(detok, out))
            return false;
    }
    return true;
}

void cr_detok_finish(cr_detok *detok)
{
    detok->n_held = 0;
}

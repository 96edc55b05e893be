/* Text: counted strings, UTF-8, a growing buffer, numbers. */
#ifndef CR_TEXT_H
#define CR_TEXT_H

#include "base/host.h"

#include <string.h>

/* A counted string; not terminated by NUL. */
typedef struct cr_str {
    const char *data;
    size_t size;
} cr_str;

static inline cr_str cr_str_from(const char *text)
{
    return (cr_str){ text, strlen(text) };
}

static inline bool cr_str_same(cr_str a, cr_str b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline bool cr_str_is(cr_str a, const char *text)
{
    return a.size == strlen(text) && memcmp(a.data, text, a.size) == 0;
}

static inline bool cr_str_ends(cr_str a, const char *end)
{
    const size_t n = strlen(end);
    return a.size >= n && (n == 0 || memcmp(a.data + a.size - n, end, n) == 0);
}

/* Decodes the character at text[0, n), n > 0. Returns its length in bytes and sets *code, or
 * returns 0 when the bytes are not the start of a valid character (overlong forms, surrogates and
 * values above U+10FFFF are invalid). */
size_t cr_utf8_decode(const char *text, size_t n, uint32_t *code);
/* Writes code as UTF-8 into out[4]; returns the length. */
size_t cr_utf8_encode(uint32_t code, char out[4]);
/* Whether text[0, n), which cr_utf8_decode refuses, could become valid with more bytes. */
bool cr_utf8_is_open(const char *text, size_t n);

/* A buffer of bytes that grows. `data` is not terminated. */
typedef struct cr_buf {
    cr_host *host;
    cr_mem purpose;
    char *data;
    size_t size, room;
} cr_buf;

void cr_buf_init(cr_buf *buf, cr_host *host, cr_mem purpose);
void cr_buf_done(cr_buf *buf);
/* Each returns false when there is no memory; the content is then unchanged. */
bool cr_buf_reserve(cr_buf *buf, size_t more);
bool cr_buf_append(cr_buf *buf, const void *data, size_t n);

/* The number parser for text that comes from outside: decimal digits, an optional leading minus,
 * nothing else. False when the text is anything else or the value does not fit. */
bool cr_parse_i64(cr_str text, int64_t *out);

/* A decimal number, "-12.5e3", to the nearest double, whatever the locale; values that are too
 * large give infinity. False when the text is anything else. */
bool cr_parse_f64(cr_str text, double *out);
/* The fewest digits that read back as the same finite value: d1 d2 ... with d1.d2... * 10^*exponent
 * its size (the sign is left out). Returns how many there are; digits is not terminated. */
enum { CR_F64_DIGITS = 17 };
int cr_format_f64(double value, char digits[CR_F64_DIGITS], int *exponent);

/* XXH3 of bytes, for hash tables. */
uint64_t cr_hash(const void *data, size_t n);

#endif

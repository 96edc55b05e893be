/* Text: UTF-8, the growing buffer, numbers, hashes. */
#include "base/text.h"

#include "base/arith.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

/* The length that a first byte announces, 0 for a byte that begins no character. C0 and C1 could
 * only begin overlong forms, F5 and above only values beyond U+10FFFF. */
static size_t announced_length(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc2)
        return 0;
    if (first < 0xe0)
        return 2;
    if (first < 0xf0)
        return 3;
    return first < 0xf5 ? 4 : 0;
}

/* Whether `second` may follow `first` (of a character of 2 to 4 bytes). The second byte alone
 * decides whether a form is overlong, a surrogate or too large:
 *     E0 A0..BF   ED 80..9F   F0 90..BF   F4 80..8F   otherwise 80..BF */
static bool second_fits(unsigned char first, unsigned char second)
{
    unsigned char low = 0x80, high = 0xbf;
    if (first == 0xe0)
        low = 0xa0;
    else if (first == 0xed)
        high = 0x9f;
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f;
    return second >= low && second <= high;
}

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

size_t cr_utf8_decode(const char *text, size_t n, uint32_t *code)
{
    assert(n > 0);
    unsigned char first = (unsigned char)text[0];
    size_t length = announced_length(first);
    if (length == 1) {
        *code = first;
        return 1;
    }
    if (length == 0 || n < length || !second_fits(first, (unsigned char)text[1]))
        return 0;

    /* The first byte of a character of 2, 3, 4 bytes carries 5, 4, 3 bits. */
    uint32_t value = first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (!is_continuation(text[i]))
            return 0;
        value = value << 6 | ((unsigned char)text[i] & 0x3fu);
    }
    *code = value;
    return length;
}

size_t cr_utf8_encode(uint32_t code, char out[4])
{
    assert(code <= 0x10ffff);
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    /* Leading ones, as many as bytes: C0, E0, F0. */
    out[0] = (char)((0xf00u >> length & 0xff) | code);
    return length;
}

bool cr_utf8_is_open(const char *text, size_t n)
{
    if (n == 0)
        return true;
    unsigned char first = (unsigned char)text[0];
    if (n >= announced_length(first))
        return false;
    if (n > 1 && !second_fits(first, (unsigned char)text[1]))
        return false;
    for (size_t i = 2; i < n; i++)
        if (!is_continuation(text[i]))
            return false;
    return true;
}

void cr_buf_init(cr_buf *buf, cr_host *host, cr_mem purpose)
{
    *buf = (cr_buf){ .host = host, .purpose = purpose };
}

void cr_buf_done(cr_buf *buf)
{
    cr_free(buf->host, buf->purpose, buf->data, buf->room);
    buf->data = NULL;
    buf->size = buf->room = 0;
}

bool cr_buf_reserve(cr_buf *buf, size_t more)
{
    if (more <= buf->room - buf->size)
        return true;
    size_t need;
    if (!cr_add_size(buf->size, more, &need))
        return false;
    /* Doubling keeps appending linear in total. */
    size_t room = CR_MAX(buf->room, (size_t)64);
    while (room < need)
        room = room > SIZE_MAX / 2 ? need : room * 2;
    char *data = cr_resize(buf->host, buf->purpose, buf->data, buf->room, room);
    if (data == NULL)
        return false;
    buf->data = data;
    buf->room = room;
    return true;
}

bool cr_buf_append(cr_buf *buf, const void *data, size_t n)
{
    if (n == 0)
        return true;
    if (!cr_buf_reserve(buf, n))
        return false;
    memcpy(buf->data + buf->size, data, n);
    buf->size += n;
    return true;
}

bool cr_parse_i64(cr_str text, int64_t *out)
{
    bool negative = text.size > 0 && text.data[0] == '-';
    size_t i = negative ? 1 : 0;
    if (i == text.size)
        return false;

    /* Collected as a negative number, because INT64_MIN has no positive twin. */
    int64_t value = 0;
    for (; i < text.size; i++) {
        int digit = text.data[i] - '0';
        if (digit < 0 || digit > 9)
            return false;
        if (value < (INT64_MIN + digit) / 10)
            return false;
        value = value * 10 - digit;
    }
    if (!negative && value == INT64_MIN)
        return false;
    *out = negative ? value : -value;
    return true;
}

/* ---- doubles ------------------------------------------------------------------------------- */

/* More digits than this cannot change a double, but for whether all of the rest are zero. */
enum { DIGITS_ENOUGH = 800, DIGITS_ROOM = DIGITS_ENOUGH + 32 };

/* 0.DIGITS * 10^exponent. strtod reads numbers without a decimal point alike in every locale. */
static double read_digits(char text[DIGITS_ROOM], int n, long exponent)
{
    snprintf(text + n, 32, "e%ld", exponent - n);
    return strtod(text, NULL);
}

bool cr_parse_f64(cr_str text, double *out)
{
    char digits[DIGITS_ROOM] = "0";
    bool negative = text.size > 0 && text.data[0] == '-', seen = false, fraction = false;
    int n = 0;
    long exponent = 0, written = 0;
    size_t i = negative ? 1 : 0;
    for (; i < text.size; i++) {
        char c = text.data[i];
        if (c == '.' && !fraction) {
            fraction = true;
            continue;
        }
        if (c < '0' || c > '9')
            break;
        seen = true;
        if (n > 0 || c != '0') {
            if (n < DIGITS_ENOUGH)
                digits[n++] = c;
            else if (c != '0')
                digits[DIGITS_ENOUGH - 1] = '1'; /* something more, however small */
            exponent += !fraction;
        } else {
            exponent -= fraction;
        }
    }
    if (!seen)
        return false;
    if (i < text.size) {
        if (text.data[i] != 'e' && text.data[i] != 'E')
            return false;
        i++;
        bool below = i < text.size && text.data[i] == '-';
        if (i < text.size && (text.data[i] == '-' || text.data[i] == '+'))
            i++;
        if (i == text.size)
            return false;
        for (; i < text.size; i++) {
            if (text.data[i] < '0' || text.data[i] > '9')
                return false;
            if (written < 1000000000)
                written = written * 10 + (text.data[i] - '0');
        }
        exponent += below ? -written : written;
    }
    double value = n == 0 ? 0.0 : read_digits(digits, n, exponent);
    *out = negative ? -value : value;
    return true;
}

int cr_format_f64(double value, char digits[CR_F64_DIGITS], int *exponent)
{
    value = fabs(value);
    int binary;
    bool is_power = frexp(value, &binary) == 0.5;
    int n = 1;
    for (;; n++) {
        /* d.ddde+xx, where the point may be any text of the locale */
        char text[64], rounded[DIGITS_ROOM];
        snprintf(text, sizeof text, "%.*e", n - 1, value);
        const char *mark = strchr(text, 'e');
        int64_t power;
        bool below = mark[1] == '-';
        cr_parse_i64(cr_str_from(mark + 2), &power);
        *exponent = (int)(below ? -power : power);
        rounded[0] = text[0];
        memcpy(rounded + 1, mark - (n - 1), (size_t)n - 1);
        memcpy(digits, rounded, (size_t)n);
        if (n == CR_F64_DIGITS || read_digits(rounded, n, *exponent + 1) == value)
            break;
        /* Below a power of two doubles are twice as close, so that the nearest n digits may be
         * too far while the next larger ones are not. */
        memcpy(rounded, digits, (size_t)n);
        if (is_power && rounded[n - 1] < '9') {
            rounded[n - 1]++;
            digits[n - 1]++;
            if (read_digits(rounded, n, *exponent + 1) == value)
                break;
        }
    }
    while (n > 1 && digits[n - 1] == '0')
        n--;
    return n;
}

uint64_t cr_hash(const void *data, size_t n)
{
    return XXH3_64bits(data, n);
}

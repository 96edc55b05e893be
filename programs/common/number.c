#include "common/number.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool number_parse_i64(const char *text, int64_t *out)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    if (!is_digit(digits[0]))
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0')
        return false;
    *out = value;
    return true;
}

bool number_parse_u64(const char *text, uint64_t *out)
{
    if (!is_digit(text[0]))
        return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0')
        return false;
    *out = value;
    return true;
}

bool number_parse_real(const char *text, double *out)
{
    const char *body = text[0] == '-' || text[0] == '+' ? text + 1 : text;
    bool is_word = strcmp(body, "inf") == 0 || strcmp(body, "nan") == 0;
    bool is_decimal = (is_digit(body[0]) || (body[0] == '.' && is_digit(body[1]))) &&
                      body[0] != '\0' && body[1] != 'x' && body[1] != 'X';
    if (!is_word && !is_decimal)
        return false;
    char *end;
    double value = strtod(text, &end); /* out of range becomes infinite or 0 */
    if (*end != '\0')
        return false;
    *out = value;
    return true;
}

size_t number_format_float(float value, char out[NUMBER_ROOM])
{
    if (isnan(value))
        return (size_t)snprintf(out, NUMBER_ROOM, "NaN");
    if (isinf(value))
        return (size_t)snprintf(out, NUMBER_ROOM, value > 0 ? "inf" : "-inf");
    /* %g drops trailing zeros, so six digits give the shorter forms too; nine always suffice. */
    for (int digits = 6;; digits++) {
        int n = snprintf(out, NUMBER_ROOM, "%.*g", digits, (double)value);
        if (digits >= 9 || strtof(out, NULL) == value)
            return (size_t)n;
    }
}

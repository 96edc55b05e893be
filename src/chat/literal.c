#include "chat/literal.h"

#include "base/compiler.h"

#include <math.h>
#include <stdio.h>

typedef enum state {
    IN_VALUE,    /* a value comes */
    IN_ITEM,     /* a value comes, or ] */
    IN_KEY,      /* a key comes, or } */
    IN_COLON,    /* : comes */
    IN_NEXT,     /* a comma comes, or what closes */
    IN_STRING,   /* between quotes */
    IN_ESCAPE,   /* behind a backslash */
    IN_HEX,      /* in the digits of \uXXXX */
    IN_BARE_KEY, /* in a key without quotes */
    IN_MARK,     /* in what begins a string between marks */
    IN_MARKED,   /* between marks */
    IN_WORD,     /* in a number, or in true, None and the like */
    IN_NOTHING,  /* the value has ended */
} state;

void cr_literal_init(cr_literal *v, cr_buf *out)
{
    *v = (cr_literal){ .out = out, .state = IN_VALUE };
}

void cr_literal_init_marked(cr_literal *v, cr_buf *out)
{
    cr_literal_init(v, out);
    v->is_marked = true;
}

static cr_literal_result bad(cr_literal *v, const char *why)
{
    v->bad = why;
    return CR_LITERAL_BAD;
}

static cr_literal_result written(bool ok)
{
    return ok ? CR_LITERAL_MORE : CR_LITERAL_NOMEM;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* ---- strings ------------------------------------------------------------------------------- */

/* The letters of the short escapes, and what they stand for. */
static const char escape_letters[] = "\"\\/bfnrt'";
static const char escape_values[] = "\"\\/\b\f\n\r\t'";

/* A byte within a string. */
static bool put_byte(cr_buf *out, char c)
{
    static const char must[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = c != '\0' ? strchr(must, c) : NULL;
    char text[8];
    if (found != NULL)
        snprintf(text, sizeof text, "\\%c", letters[found - must]);
    else if ((unsigned char)c < 0x20)
        snprintf(text, sizeof text, "\\u%04x", (unsigned)(unsigned char)c);
    else
        return cr_buf_append(out, &c, 1);
    return cr_buf_append(out, text, strlen(text));
}

static bool put_code(cr_buf *out, uint32_t code)
{
    char text[4];
    if (code < 0x80)
        return put_byte(out, (char)code);
    return cr_buf_append(out, text, cr_utf8_encode(code, text));
}

/* A first half of a surrogate pair whose second half did not come. */
static bool put_lone(cr_literal *v)
{
    if (v->high == 0)
        return true;
    v->high = 0;
    return put_code(v->out, 0xFFFD);
}

static cr_literal_result end_value(cr_literal *v)
{
    v->state = v->depth > 0 ? IN_NEXT : IN_NOTHING;
    return v->depth > 0 ? CR_LITERAL_MORE : CR_LITERAL_END;
}

static cr_literal_result end_string(cr_literal *v)
{
    if (!cr_buf_append(v->out, "\"", 1))
        return CR_LITERAL_NOMEM;
    if (!v->is_key)
        return end_value(v);
    v->state = IN_COLON;
    return CR_LITERAL_MORE;
}

static cr_literal_result feed_string(cr_literal *v, char c)
{
    if (c == '\\') {
        v->state = IN_ESCAPE;
        return CR_LITERAL_MORE;
    }
    if (!put_lone(v))
        return CR_LITERAL_NOMEM;
    if (c != v->quote)
        return written(put_byte(v->out, c));
    return end_string(v);
}

static const char string_mark[] = "<|\"|>";

/* The mark in front of a string. */
static cr_literal_result feed_mark(cr_literal *v, char c)
{
    if (c != string_mark[v->n_mark])
        return bad(v, "expected <|\"|> in front of a text");
    if (string_mark[++v->n_mark] == '\0') {
        v->n_mark = 0;
        v->state = IN_MARKED;
    }
    return CR_LITERAL_MORE;
}

/* Text up to the next mark; nothing is escaped in it. */
static cr_literal_result feed_marked(cr_literal *v, char c)
{
    if (c == string_mark[v->n_mark]) {
        if (string_mark[++v->n_mark] != '\0')
            return CR_LITERAL_MORE;
        v->n_mark = 0;
        return end_string(v);
    }
    for (size_t i = 0; i < v->n_mark; i++) /* it was none, and no other begins within it */
        if (!put_byte(v->out, string_mark[i]))
            return CR_LITERAL_NOMEM;
    v->n_mark = c == string_mark[0];
    return written(v->n_mark > 0 || put_byte(v->out, c));
}

static cr_literal_result feed_bare_key(cr_literal *v, char c)
{
    if (c == '\n' || c == '{' || c == '}' || c == ',')
        return bad(v, "expected : behind a key");
    if (c != ':')
        return written(put_byte(v->out, c));
    v->state = IN_VALUE;
    return written(cr_buf_append(v->out, "\": ", 3));
}

static cr_literal_result feed_escape(cr_literal *v, char c)
{
    const char *found = c != '\0' ? strchr(escape_letters, c) : NULL;
    v->state = IN_STRING;
    if (c == 'u') {
        v->state = IN_HEX;
        v->code = 0;
        v->n_digits = 0;
        return CR_LITERAL_MORE;
    }
    if (!put_lone(v))
        return CR_LITERAL_NOMEM;
    if (found != NULL)
        return written(put_byte(v->out, escape_values[found - escape_letters]));
    /* An escape that there is not keeps its backslash: "\d" is what people write in patterns. */
    return written(put_byte(v->out, '\\') && put_byte(v->out, c));
}

static cr_literal_result feed_hex(cr_literal *v, char c)
{
    const char lower = (char)(c | 0x20);
    uint32_t digit;
    if (c >= '0' && c <= '9')
        digit = (uint32_t)(c - '0');
    else if (lower >= 'a' && lower <= 'f')
        digit = (uint32_t)(lower - 'a' + 10);
    else
        return bad(v, "\\u needs four hexadecimal digits");
    v->code = v->code * 16 + digit;
    if (++v->n_digits < 4)
        return CR_LITERAL_MORE;
    v->state = IN_STRING;
    const bool is_low = v->code >= 0xDC00 && v->code <= 0xDFFF;
    if (v->high != 0 && is_low) {
        const uint32_t code = 0x10000 + ((v->high - 0xD800) << 10) + (v->code - 0xDC00);
        v->high = 0;
        return written(put_code(v->out, code));
    }
    if (!put_lone(v))
        return CR_LITERAL_NOMEM;
    if (v->code >= 0xD800 && v->code < 0xDC00) {
        v->high = v->code;
        return CR_LITERAL_MORE;
    }
    return written(put_code(v->out, is_low ? 0xFFFD : v->code));
}

bool cr_json_escape(cr_buf *out, cr_str text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!put_byte(out, text.data[i]))
            return false;
    return true;
}

bool cr_json_quote(cr_buf *out, cr_str text)
{
    return cr_buf_append(out, "\"", 1) && cr_json_escape(out, text) && cr_buf_append(out, "\"", 1);
}

/* The byte at *i of what is between the quotes, and the way to the next. */
static char unquote_byte(cr_str string, size_t *i)
{
    const char c = string.data[(*i)++];
    if (c != '\\')
        return c;
    const char *found = strchr(escape_letters, string.data[(*i)++]);
    if (found != NULL)
        return escape_values[found - escape_letters];
    int byte = 0; /* \u00XX: the only other ones that are written */
    for (int k = 0; k < 4; k++) {
        const char digit = string.data[(*i)++];
        byte = byte * 16 + (digit <= '9' ? digit - '0' : digit - 'a' + 10);
    }
    return (char)byte;
}

bool cr_json_unquote(cr_buf *out, cr_str string)
{
    for (size_t i = 1; i + 1 < string.size;) {
        const char byte = unquote_byte(string, &i);
        if (!cr_buf_append(out, &byte, 1))
            return false;
    }
    return true;
}

/* ---- numbers and words --------------------------------------------------------------------- */

static size_t count_digits(const char *s)
{
    size_t n = 0;
    while (s[n] >= '0' && s[n] <= '9')
        n++;
    return n;
}

/* The nearest double of a whole number that 64 bits do not hold. */
static bool put_double(cr_buf *out, double value)
{
    char digits[CR_F64_DIGITS], text[CR_F64_DIGITS + 16];
    int exponent, n = cr_format_f64(value, digits, &exponent);
    snprintf(text, sizeof text, "%s%c.%.*se+%02d", value < 0 ? "-" : "", digits[0],
             n > 1 ? n - 1 : 1, n > 1 ? digits + 1 : "0", exponent);
    return cr_buf_append(out, text, strlen(text));
}

/* The word as a number: -12, 1.5e3, and what only Python has: +1, .5, 5. */
static cr_literal_result put_number(cr_literal *v)
{
    static const char why[] = "expected a value";
    const char *s = v->word;
    const bool minus = *s == '-';
    s += *s == '-' || *s == '+';
    const char *whole = s, *fraction = "", *exponent = "";
    const size_t n_whole = count_digits(s);
    size_t n_fraction = 0, n_exponent = 0;
    s += n_whole;
    const bool has_point = *s == '.';
    if (has_point) {
        fraction = ++s;
        n_fraction = count_digits(s);
        s += n_fraction;
    }
    if (n_whole + n_fraction == 0 || (n_whole > 1 && *whole == '0'))
        return bad(v, why);
    if (*s == 'e' || *s == 'E') {
        exponent = s++;
        s += *s == '-' || *s == '+';
        n_exponent = count_digits(s);
        if (n_exponent == 0)
            return bad(v, why);
        s += n_exponent;
        n_exponent = (size_t)(s - exponent);
    }
    if (*s != '\0')
        return bad(v, why);
    const char *number = v->word + (v->word[0] == '+');
    double value;
    int64_t integer;
    const bool is_integer = !has_point && n_exponent == 0;
    if (is_integer && cr_parse_i64(cr_str_from(number), &integer))
        return written(cr_buf_append(v->out, number, strlen(number)));
    char text[CR_LITERAL_WORD + 8];
    snprintf(text, sizeof text, "%s%.*s%s%.*s%.*s", minus ? "-" : "",
             n_whole > 0 ? (int)n_whole : 1, n_whole > 0 ? whole : "0", has_point ? "." : "",
             !has_point       ? 0
             : n_fraction > 0 ? (int)n_fraction
                              : 1,
             n_fraction > 0 ? fraction : "0", (int)n_exponent, exponent);
    if (!cr_parse_f64(cr_str_from(text), &value) || !isfinite(value))
        return bad(v, "a number is too large");
    return written(is_integer ? put_double(v->out, value)
                              : cr_buf_append(v->out, text, strlen(text)));
}

static cr_literal_result put_word(cr_literal *v)
{
    static const char *const words[][2] = { { "true", "true" },   { "True", "true" },
                                            { "false", "false" }, { "False", "false" },
                                            { "null", "null" },   { "None", "null" } };
    v->word[v->n_word] = '\0';
    for (size_t i = 0; i < CR_COUNT(words); i++)
        if (strcmp(v->word, words[i][0]) == 0)
            return written(cr_buf_append(v->out, words[i][1], strlen(words[i][1])));
    return put_number(v);
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '+' || c == '.' || c == '_';
}

static cr_literal_result feed_word(cr_literal *v, char c)
{
    if (is_word(c)) {
        if (v->n_word + 1 == CR_LITERAL_WORD)
            return bad(v, "a number is too long");
        v->word[v->n_word++] = c;
        return CR_LITERAL_MORE;
    }
    cr_literal_result r = put_word(v);
    if (r != CR_LITERAL_MORE)
        return r;
    return end_value(v) == CR_LITERAL_END ? CR_LITERAL_END_BEFORE : cr_literal_feed(v, c);
}

/* ---- values -------------------------------------------------------------------------------- */

static bool put_comma(cr_literal *v)
{
    const bool comma = v->has_comma;
    v->has_comma = false;
    return !comma || cr_buf_append(v->out, ", ", 2);
}

static cr_literal_result start_string(cr_literal *v, char quote, bool is_key)
{
    v->quote = quote;
    v->is_key = is_key;
    v->high = 0;
    v->state = IN_STRING;
    return written(put_comma(v) && cr_buf_append(v->out, "\"", 1));
}

static cr_literal_result start_mark(cr_literal *v, bool is_key)
{
    const cr_literal_result r = start_string(v, '\0', is_key);
    v->state = IN_MARK;
    v->n_mark = 1;
    return r;
}

static cr_literal_result start_key(cr_literal *v, char c)
{
    if (c == '"' || c == '\'')
        return start_string(v, c, true);
    if (!v->is_marked)
        return bad(v, "expected a key in quotes");
    if (c == string_mark[0])
        return start_mark(v, true);
    const cr_literal_result r = start_string(v, '\0', true);
    v->state = IN_BARE_KEY;
    return r == CR_LITERAL_MORE ? feed_bare_key(v, c) : r;
}

static cr_literal_result start_value(cr_literal *v, char c)
{
    if (c == '"' || c == '\'')
        return start_string(v, c, false);
    if (c == '[' || c == '{') {
        if (v->depth == CR_LITERAL_DEPTH)
            return bad(v, "lists and objects are nested too deeply");
        const bool ok = put_comma(v) && cr_buf_append(v->out, &c, 1);
        v->open[v->depth++] = c;
        v->state = c == '[' ? IN_ITEM : IN_KEY;
        return written(ok);
    }
    if (c == string_mark[0] && v->is_marked)
        return start_mark(v, false);
    if (!is_word(c))
        return bad(v, "expected a value");
    v->word[0] = c;
    v->n_word = 1;
    v->state = IN_WORD;
    return written(put_comma(v));
}

static cr_literal_result close_bracket(cr_literal *v, char c)
{
    v->depth--;
    v->has_comma = false; /* the one behind the last item */
    return cr_buf_append(v->out, &c, 1) ? end_value(v) : CR_LITERAL_NOMEM;
}

static cr_literal_result feed_next(cr_literal *v, char c)
{
    const bool in_list = v->open[v->depth - 1] == '[';
    if (c == ',') {
        v->has_comma = true;
        v->state = in_list ? IN_ITEM : IN_KEY;
        return CR_LITERAL_MORE;
    }
    if (c == (in_list ? ']' : '}'))
        return close_bracket(v, c);
    return bad(v, in_list ? "expected , or ]" : "expected , or }");
}

cr_literal_result cr_literal_feed(cr_literal *v, char c)
{
    switch ((state)v->state) {
    case IN_STRING:
        return feed_string(v, c);
    case IN_ESCAPE:
        return feed_escape(v, c);
    case IN_HEX:
        return feed_hex(v, c);
    case IN_BARE_KEY:
        return feed_bare_key(v, c);
    case IN_MARK:
        return feed_mark(v, c);
    case IN_MARKED:
        return feed_marked(v, c);
    case IN_WORD:
        return feed_word(v, c);
    case IN_NOTHING:
        return CR_LITERAL_END_BEFORE;
    default:
        break;
    }
    if (is_space(c))
        return CR_LITERAL_MORE;
    switch ((state)v->state) {
    case IN_ITEM:
        if (c == ']')
            return close_bracket(v, c);
        return start_value(v, c);
    case IN_KEY:
        if (c == '}')
            return close_bracket(v, c);
        return start_key(v, c);
    case IN_COLON:
        if (c != ':')
            return bad(v, "expected :");
        v->state = IN_VALUE;
        return written(cr_buf_append(v->out, ": ", 2));
    case IN_NEXT:
        return feed_next(v, c);
    default:
        return start_value(v, c);
    }
}

cr_literal_result cr_literal_read(cr_literal *v, cr_str text, cr_buf *out)
{
    cr_literal_init(v, out);
    cr_literal_result r = CR_LITERAL_MORE;
    for (size_t i = 0; i <= text.size; i++) {
        const char c = i < text.size ? text.data[i] : ' '; /* which closes a number */
        if (r == CR_LITERAL_MORE)
            r = cr_literal_feed(v, c);
        else if (!is_space(c))
            return bad(v, "expected the end");
        if (r == CR_LITERAL_END_BEFORE)
            r = is_space(c) ? CR_LITERAL_END : bad(v, "expected the end");
        if (r != CR_LITERAL_MORE && r != CR_LITERAL_END)
            return r;
    }
    return r == CR_LITERAL_END ? r : bad(v, "the value is not complete");
}

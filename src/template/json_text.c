/* JSON: reading what a template is given, and the filter `tojson`. */
#include "template/value.h"

#include <math.h>
#include <stdio.h>

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct reader {
    cr_interp *t;
    const char *what;
    cr_str text;
    size_t at;
    int depth;
} reader;

static bool fail_read(reader *r, const char *expected)
{
    cr_interp *t = r->t;
    int line = 1;
    for (size_t i = 0; i < r->at && i < r->text.size; i++)
        line += r->text.data[i] == '\n';
    if (t->status == CERA_OK)
        t->status = cr_fail(t->err, CERA_E_ARG, "%s: line %d, byte %zu: %s", r->what, line, r->at,
                            expected);
    return false;
}

static void skip_space(reader *r)
{
    while (r->at < r->text.size && strchr(" \t\r\n", r->text.data[r->at]) != NULL &&
           r->text.data[r->at] != '\0')
        r->at++;
}

static bool take(reader *r, char c)
{
    skip_space(r);
    bool found = r->at < r->text.size && r->text.data[r->at] == c;
    r->at += found;
    return found;
}

static bool read_hex(reader *r, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        char c = r->at < r->text.size ? r->text.data[r->at] : '\0';
        char lower = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            *code = *code * 16 + (uint32_t)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            *code = *code * 16 + (uint32_t)(lower - 'a' + 10);
        else
            return fail_read(r, "expected four hexadecimal digits");
    }
    return true;
}

/* The escape behind a backslash, as UTF-8. */
static bool read_escape(reader *r, char *out, size_t *n)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->text.size ? r->text.data[r->at++] : '\0';
    const char *found = c != '\0' ? strchr(letters, c) : NULL;
    uint32_t code, low;
    if (found != NULL) {
        *out = values[found - letters];
        *n = 1;
        return true;
    }
    if (c != 'u')
        return fail_read(r, "an escape that is not known");
    if (!read_hex(r, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00) {
        bool pair = r->text.size - r->at >= 6 && r->text.data[r->at] == '\\' &&
                    r->text.data[r->at + 1] == 'u';
        r->at += pair ? 2 : 0;
        if (!pair || !read_hex(r, &low) || low < 0xdc00 || low > 0xdfff)
            return fail_read(r, "expected the second half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code <= 0xdfff) {
        return fail_read(r, "the second half of a surrogate pair without the first");
    }
    *n = cr_utf8_encode(code, out);
    return true;
}

static bool read_string(reader *r, cr_tv *out)
{
    if (!take(r, '"'))
        return fail_read(r, "expected a string");
    size_t end = r->at;
    bool plain = true;
    while (end < r->text.size && r->text.data[end] != '"') {
        plain &= r->text.data[end] != '\\';
        end += r->text.data[end] == '\\' ? 2 : 1;
    }
    if (end >= r->text.size)
        return fail_read(r, "expected a quote that closes the string");
    /* A string without escapes stays where it is: the input outlives the rendering. */
    char *text = plain ? NULL : cr_interp_alloc(r->t, end - r->at, 1);
    if (!plain && text == NULL)
        return false;
    const char *begin = r->text.data + r->at;
    size_t n = 0;
    while (r->at < end) {
        uint32_t code;
        const char *from = r->text.data + r->at;
        size_t length = cr_utf8_decode(from, end - r->at, &code);
        if (length == 0 || code < 0x20)
            return fail_read(r, length == 0 ? "bytes that are not UTF-8"
                                            : "a control character inside of a string");
        r->at += length;
        if (code == '\\') {
            if (!read_escape(r, text + n, &length))
                return false;
        } else if (!plain) {
            memcpy(text + n, from, length);
        }
        n += length;
    }
    r->at = end + 1;
    return cr_tv_text(r->t, plain ? begin : text, n, CR_FROM_DATA, out);
}

static size_t skip_digits(const reader *r, size_t i)
{
    while (i < r->text.size && r->text.data[i] >= '0' && r->text.data[i] <= '9')
        i++;
    return i;
}

static bool read_number(reader *r, cr_tv *out)
{
    size_t begin = r->at, i = begin;
    const char *s = r->text.data;
    size_t n = r->text.size;
    i += i < n && s[i] == '-';
    size_t digits = i;
    i = skip_digits(r, i);
    bool ok = i > digits && (s[digits] != '0' || i == digits + 1), real = false;
    if (ok && i < n && s[i] == '.') {
        real = true;
        ok = skip_digits(r, i + 1) > i + 1;
        i = skip_digits(r, i + 1);
    }
    if (ok && i < n && (s[i] | 0x20) == 'e') {
        real = true;
        i++;
        i += i < n && (s[i] == '-' || s[i] == '+');
        ok = skip_digits(r, i) > i;
        i = skip_digits(r, i);
    }
    cr_str text = { s + begin, i - begin };
    double value;
    int64_t integer;
    if (!ok)
        return fail_read(r, "expected a value");
    if (real) {
        if (!cr_parse_f64(text, &value))
            return fail_read(r, "expected a number");
        *out = cr_tv_float(value);
    } else {
        if (!cr_parse_i64(text, &integer))
            return fail_read(r, "an integer is out of the range of 64 bits");
        *out = cr_tv_int(integer);
    }
    r->at = i;
    return true;
}

static bool read_value(reader *r, cr_tv *out);

static bool read_array(reader *r, cr_tv *out)
{
    cr_tvec vec = { 0 };
    for (bool more = !take(r, ']'); more;) {
        cr_tv item;
        if (!read_value(r, &item) || !cr_tvec_push(r->t, &vec, item))
            return false;
        more = take(r, ',');
        if (!more && !take(r, ']'))
            return fail_read(r, "expected , or ]");
    }
    return cr_tv_list(r->t, CR_TV_LIST, vec.items, vec.n, out);
}

static bool read_object(reader *r, cr_tv *out)
{
    if (!cr_tv_dict(r->t, CR_TV_DICT, out))
        return false;
    for (bool more = !take(r, '}'); more;) {
        cr_tv key, value;
        if (!read_string(r, &key))
            return false;
        if (!take(r, ':'))
            return fail_read(r, "expected :");
        if (!read_value(r, &value) || !cr_tdict_set(r->t, out->as.dict, key, value))
            return false;
        more = take(r, ',');
        if (!more && !take(r, '}'))
            return fail_read(r, "expected , or }");
    }
    return true;
}

static bool read_value(reader *r, cr_tv *out)
{
    static const struct {
        const char *word;
        cr_tv value;
    } words[] = { { "true", { .kind = CR_TV_BOOL, .as.b = true } },
                  { "false", { .kind = CR_TV_BOOL } },
                  { "null", { .kind = CR_TV_NONE } } };
    bool ok;
    if (!cr_interp_work(r->t, CR_WORK_NODE / 8))
        return false;
    skip_space(r);
    char c = r->at < r->text.size ? r->text.data[r->at] : '\0';
    if (c == '"')
        return read_string(r, out);
    if (c == '[' || c == '{') {
        if (r->depth == CR_TEMPLATE_MAX_JSON)
            return fail_read(r, "lists and objects are nested too deeply");
        r->depth++;
        r->at++;
        ok = c == '[' ? read_array(r, out) : read_object(r, out);
        r->depth--;
        return ok;
    }
    for (size_t i = 0; i < CR_COUNT(words); i++) {
        size_t n = strlen(words[i].word);
        if (r->text.size - r->at >= n && memcmp(r->text.data + r->at, words[i].word, n) == 0) {
            r->at += n;
            *out = words[i].value;
            return true;
        }
    }
    return read_number(r, out);
}

bool cr_json_read(cr_interp *t, cr_str text, const char *what, cr_tv *out)
{
    reader r = { .t = t, .what = what, .text = text };
    if (text.size > CR_TEMPLATE_MAX_INPUT)
        return fail_read(&r, "the text is too long");
    if (!read_value(&r, out))
        return false;
    skip_space(&r);
    return r.at == text.size || fail_read(&r, "expected the end");
}

/* ---- writing ------------------------------------------------------------------------------- */

static bool write_string(cr_interp *t, const cr_tstr *s, bool ascii, cr_tbuf *out)
{
    static const char special[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    if (!cr_tbuf_text(t, out, "\""))
        return false;
    size_t plain = 0; /* where the bytes that need no change begin */
    for (size_t i = 0; i <= s->size;) {
        uint32_t code = 0;
        size_t length = i < s->size ? cr_tstr_at(s, i, &code) : 1;
        bool changes =
            i == s->size || code < 0x20 || code == '"' || code == '\\' || (ascii && code > 0x7e);
        if (changes) {
            cr_tstr part = cr_tstr_part(s, plain, i);
            if (!cr_tbuf_add(t, out, &part))
                return false;
            plain = i + length;
        }
        if (changes && i < s->size) {
            char text[16];
            const char *found = code < 0x80 ? memchr(special, (int)code, sizeof special - 1) : NULL;
            if (found != NULL)
                snprintf(text, sizeof text, "\\%c", letters[found - special]);
            else if (code < 0x10000)
                snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
            else
                snprintf(text, sizeof text, "\\u%04x\\u%04x",
                         0xd800 + ((unsigned)(code - 0x10000) >> 10),
                         0xdc00 + ((unsigned)(code - 0x10000) & 0x3ff));
            cr_origin origin = (cr_origin)(s->marks != NULL ? s->marks[i] : (char)s->origin);
            if (!cr_tbuf_bytes(t, out, text, strlen(text), origin))
                return false;
        }
        i += length;
    }
    return cr_tbuf_text(t, out, "\"");
}

static bool write_float(cr_interp *t, double value, cr_tbuf *out)
{
    char text[CR_FLOAT_ROOM];
    if (isnan(value) || isinf(value))
        return cr_tbuf_text(t, out, isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity");
    cr_tv_float_text(value, text);
    return cr_tbuf_text(t, out, text);
}

static bool new_line(cr_interp *t, const cr_json_style *style, int level, cr_tbuf *out)
{
    if (style->indent.data == NULL)
        return true;
    if (!cr_tbuf_text(t, out, "\n"))
        return false;
    for (int i = 0; i < level; i++)
        if (!cr_tbuf_add(t, out, &style->indent))
            return false;
    return true;
}

static bool write_value(cr_interp *t, const cr_tv *v, const cr_json_style *style, int level,
                        cr_tbuf *out);

static bool write_list(cr_interp *t, const cr_tlist *list, const cr_json_style *style, int level,
                       cr_tbuf *out)
{
    if (list->n == 0)
        return cr_tbuf_text(t, out, "[]");
    if (!cr_tbuf_text(t, out, "["))
        return false;
    for (size_t i = 0; i < list->n; i++)
        if ((i > 0 && !cr_tbuf_add(t, out, &style->item_end)) ||
            !new_line(t, style, level + 1, out) ||
            !write_value(t, &list->items[i], style, level + 1, out))
            return false;
    return new_line(t, style, level, out) && cr_tbuf_text(t, out, "]");
}

static bool write_key(cr_interp *t, const cr_tv *key, const cr_json_style *style, cr_tbuf *out)
{
    if (key->kind == CR_TV_STRING)
        return write_string(t, key->as.s, style->ascii, out);
    if (key->kind != CR_TV_NONE && !cr_tv_is_number(key))
        return cr_interp_fail(t, "tojson: a %s cannot be a key", cr_tv_type(key));
    return cr_tbuf_text(t, out, "\"") && write_value(t, key, style, 0, out) &&
           cr_tbuf_text(t, out, "\"");
}

static bool write_dict(cr_interp *t, const cr_tdict *dict, const cr_json_style *style, int level,
                       cr_tbuf *out)
{
    size_t n = dict->n;
    if (n == 0)
        return cr_tbuf_text(t, out, "{}");
    cr_tv *keys = dict->keys, *values = dict->values;
    if (style->sort_keys) {
        keys = cr_interp_alloc(t, 2 * n, sizeof *keys);
        if (keys == NULL)
            return false;
        values = keys + n;
        memcpy(keys, dict->keys, n * sizeof *keys);
        memcpy(values, dict->values, n * sizeof *values);
        if (!cr_tv_sort(t, values, keys, n, false))
            return false;
    }
    if (!cr_tbuf_text(t, out, "{"))
        return false;
    for (size_t i = 0; i < n; i++)
        if ((i > 0 && !cr_tbuf_add(t, out, &style->item_end)) ||
            !new_line(t, style, level + 1, out) || !write_key(t, &keys[i], style, out) ||
            !cr_tbuf_add(t, out, &style->key_end) ||
            !write_value(t, &values[i], style, level + 1, out))
            return false;
    return new_line(t, style, level, out) && cr_tbuf_text(t, out, "}");
}

static bool write_value(cr_interp *t, const cr_tv *v, const cr_json_style *style, int level,
                        cr_tbuf *out)
{
    bool ok;
    if (level > CR_TEMPLATE_MAX_JSON)
        return cr_interp_limit(t, "tojson: expected at most %d levels", CR_TEMPLATE_MAX_JSON);
    switch (v->kind) {
    case CR_TV_NONE:
        return cr_tbuf_text(t, out, "null");
    case CR_TV_BOOL:
        return cr_tbuf_text(t, out, v->as.b ? "true" : "false");
    case CR_TV_INT:
        return cr_tv_print(t, v, out);
    case CR_TV_FLOAT:
        return write_float(t, v->as.f, out);
    case CR_TV_STRING:
        return write_string(t, v->as.s, style->ascii, out);
    case CR_TV_LIST:
    case CR_TV_TUPLE:
    case CR_TV_DICT:
        if (!cr_interp_enter(t))
            return false;
        ok = v->kind == CR_TV_DICT ? write_dict(t, v->as.dict, style, level, out)
                                   : write_list(t, v->as.list, style, level, out);
        cr_interp_leave(t);
        return ok;
    default:
        return cr_interp_fail(t, "tojson: a %s is not JSON", cr_tv_type(v));
    }
}

bool cr_json_write(cr_interp *t, const cr_tv *v, const cr_json_style *style, cr_tbuf *out)
{
    return write_value(t, v, style, 0, out);
}

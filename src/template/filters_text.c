/* Filters that make texts and numbers. */
#include "template/filters_list.h"
#include "template/formatting.h"

#include <math.h>
#include <stdio.h>

static bool is_given(const cr_tv *v)
{
    return v->kind != CR_TV_MISSING && v->kind != CR_TV_NONE;
}

static bool is_true(const cr_tv *v)
{
    return v->kind != CR_TV_MISSING && cr_tv_truth(v);
}

static bool int_arg(cr_interp *t, const cr_tv *v, int64_t fallback, int64_t *out)
{
    *out = fallback;
    if (!is_given(v) || cr_tv_to_int(v, out))
        return true;
    return cr_interp_fail(t, "expected an integer as argument, found a %s", cr_tv_type(v));
}

static bool cased(cr_interp *t, cr_call *c, cr_case how, bool keep_safe, cr_tv *out)
{
    const cr_tstr *s;
    if (!cr_tv_str(t, &c->self, &s))
        return false;
    cr_tstr copy = *s;
    copy.safe = copy.safe && keep_safe;
    return cr_tstr_case(t, &copy, how, out);
}

bool cr_filter_upper(cr_interp *t, cr_call *c, cr_tv *out)
{
    return cased(t, c, CR_CASE_UPPER, true, out);
}

bool cr_filter_lower(cr_interp *t, cr_call *c, cr_tv *out)
{
    return cased(t, c, CR_CASE_LOWER, true, out);
}

bool cr_filter_title(cr_interp *t, cr_call *c, cr_tv *out)
{
    return cased(t, c, CR_CASE_WORDS, false, out);
}

bool cr_filter_capitalize(cr_interp *t, cr_call *c, cr_tv *out)
{
    return cased(t, c, CR_CASE_CAPITAL, true, out);
}

bool cr_filter_trim(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tstr *s, *set = NULL;
    if (!cr_tv_str(t, &c->self, &s))
        return false;
    if (is_given(&c->p[0])) {
        if (c->p[0].kind != CR_TV_STRING)
            return cr_interp_fail(t, "trim: expected a string, found a %s", cr_tv_type(&c->p[0]));
        set = c->p[0].as.s;
    }
    return cr_interp_work(t, s->size) && cr_tv_string(t, cr_tstr_strip(s, set, true, true), out);
}

bool cr_filter_string(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tstr *s;
    return cr_tv_str(t, &c->self, &s) && cr_tv_string(t, *s, out);
}

bool cr_filter_safe(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tstr *s;
    if (!cr_tv_str(t, &c->self, &s))
        return false;
    cr_tstr copy = *s;
    copy.safe = true;
    return cr_tv_string(t, copy, out);
}

bool cr_filter_escape(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tstr *s;
    if (!cr_tv_str(t, &c->self, &s))
        return false;
    return s->safe ? cr_tv_string(t, *s, out) : cr_tstr_escape(t, s, out);
}

bool cr_filter_forceescape(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tstr *s;
    return cr_tv_str(t, &c->self, &s) && cr_tstr_escape(t, s, out);
}

bool cr_filter_replace(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tstr *s, *from, *to;
    int64_t count;
    if (!cr_tv_str(t, &c->self, &s) || !cr_tv_str(t, &c->p[0], &from) ||
        !cr_tv_str(t, &c->p[1], &to) || !int_arg(t, &c->p[2], -1, &count))
        return false;
    cr_tstr plain = *s;
    plain.safe = false;
    return cr_tstr_replace(t, &plain, from, to, count, out);
}

bool cr_filter_indent(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tbuf blanks = { 0 }, buf = { 0 };
    cr_tv width;
    int64_t n;
    if (c->self.kind != CR_TV_STRING)
        return cr_interp_fail(t, "indent: expected a string, found a %s", cr_tv_type(&c->self));
    if (c->p[0].kind == CR_TV_STRING) {
        width = c->p[0];
    } else {
        if (!int_arg(t, &c->p[0], 4, &n))
            return false;
        if (n > (1 << 16))
            return cr_interp_limit(t, "indent: expected at most %d", 1 << 16);
        for (; n > 0; n--)
            if (!cr_tbuf_text(t, &blanks, " "))
                return false;
        if (!cr_tbuf_done(t, &blanks, &width))
            return false;
    }
    cr_tv text;
    cr_tstr newline = { .data = "\n", .size = 1, .safe = c->self.as.s->safe };
    cr_tvec lines = { 0 };
    if (!cr_tstr_concat(t, c->self.as.s, &newline, &text) ||
        !cr_tstr_lines(t, text.as.s, false, &lines))
        return false;
    bool first = is_true(&c->p[1]), blank = is_true(&c->p[2]);
    for (size_t i = 0; i < lines.n; i++) {
        const cr_tstr *line = lines.items[i].as.s;
        bool indented = i == 0 ? first : blank || line->size > 0;
        if ((i > 0 && !cr_tbuf_text(t, &buf, "\n")) ||
            (indented && !cr_tbuf_add(t, &buf, width.as.s)) || !cr_tbuf_add(t, &buf, line))
            return false;
    }
    cr_tstr made = {
        .data = buf.data, .marks = buf.marks, .size = buf.size, .safe = c->self.as.s->safe
    };
    return cr_tv_string(t, made, out);
}

bool cr_filter_center(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tstr *s;
    int64_t width;
    cr_tv method, self;
    if (!cr_tv_str(t, &c->self, &s) || !int_arg(t, &c->p[0], 80, &width) ||
        !cr_tv_string(t, *s, &self))
        return false;
    method = cr_method_find(t, &self, cr_str_from("center"));
    cr_tv argument = cr_tv_int(width);
    cr_args args = { .items = &argument, .n = 1 };
    return method.kind == CR_TV_METHOD && cr_method_run(t, method.as.method, &args, out);
}

bool cr_filter_truncate(cr_interp *t, cr_call *c, cr_tv *out)
{
    int64_t length, leeway;
    const cr_tstr dots = { .data = "...", .size = 3 }, *end = &dots;
    if (c->self.kind != CR_TV_STRING)
        return cr_interp_fail(t, "truncate: expected a string, found a %s", cr_tv_type(&c->self));
    if (!int_arg(t, &c->p[0], 255, &length) || !int_arg(t, &c->p[3], 5, &leeway))
        return false;
    if (c->p[2].kind == CR_TV_STRING)
        end = c->p[2].as.s;
    const cr_tstr *s = c->self.as.s;
    int64_t n = (int64_t)cr_tstr_count(s), n_end = (int64_t)cr_tstr_count(end);
    if (length < n_end || leeway < 0)
        return cr_interp_fail(t, "truncate: the length is less than that of the end");
    if (leeway > INT64_MAX - length || n <= length + leeway)
        return cr_tv_string(t, *s, out);
    cr_tstr part = cr_tstr_part(s, 0, cr_tstr_offset(s, (size_t)(length - n_end)));
    if (!is_true(&c->p[1])) {
        size_t size = part.size;
        while (size > 0 && part.data[size - 1] != ' ')
            size--;
        if (size > 0)
            part.size = size - 1;
    }
    return cr_tstr_concat(t, &part, end, out);
}

bool cr_filter_wordcount(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tstr *s;
    if (!cr_tv_str(t, &c->self, &s) || !cr_interp_work(t, s->size))
        return false;
    bool inside = false;
    *out = cr_tv_int(0);
    for (size_t i = 0; i < s->size;) {
        uint32_t code;
        i += cr_tstr_at(s, i, &code);
        bool word = code == '_' || cr_char_is_alpha(code) || cr_char_is_digit(code);
        out->as.i += word && !inside;
        inside = word;
    }
    return true;
}

static bool quote_url(cr_interp *t, const cr_tv *v, bool in_query, cr_tbuf *out)
{
    const cr_tstr *s;
    if (!cr_tv_str(t, v, &s))
        return false;
    for (size_t i = 0; i < s->size; i++) {
        unsigned char b = (unsigned char)s->data[i];
        char text[4] = { (char)b };
        bool kept = (b >= '0' && b <= '9') || ((b | 0x20) >= 'a' && (b | 0x20) <= 'z') ||
                    (b != 0 && strchr("_.-~", b) != NULL) || (b == '/' && !in_query);
        if (in_query && b == ' ')
            text[0] = '+';
        else if (!kept)
            snprintf(text, sizeof text, "%%%02X", b);
        if (!cr_tbuf_text(t, out, text))
            return false;
    }
    return true;
}

bool cr_filter_urlencode(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tbuf buf = { 0 };
    if (c->self.kind != CR_TV_DICT)
        return quote_url(t, &c->self, false, &buf) && cr_tbuf_done(t, &buf, out);
    const cr_tdict *dict = c->self.as.dict;
    for (size_t i = 0; i < dict->n; i++)
        if ((i > 0 && !cr_tbuf_text(t, &buf, "&")) || !quote_url(t, &dict->keys[i], true, &buf) ||
            !cr_tbuf_text(t, &buf, "=") || !quote_url(t, &dict->values[i], true, &buf))
            return false;
    return cr_tbuf_done(t, &buf, out);
}

bool cr_filter_format(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tstr *s;
    cr_tv values;
    if (!cr_tv_str(t, &c->self, &s))
        return false;
    if (c->args->n > 0 && c->args->n_named > 0)
        return cr_interp_fail(t, "format: expected values in a row or by name, found both");
    if (c->args->n_named == 0)
        return cr_tv_list(t, CR_TV_TUPLE, c->args->items, c->args->n, &values) &&
               cr_tv_format(t, s, &values, out);
    if (!cr_tv_dict(t, CR_TV_DICT, &values))
        return false;
    for (size_t i = 0; i < c->args->n_named; i++) {
        cr_tv key;
        const cr_named *named = &c->args->named[i];
        if (!cr_tv_text(t, named->name.data, named->name.size, CR_FROM_TEMPLATE, &key) ||
            !cr_tdict_set(t, values.as.dict, key, named->value))
            return false;
    }
    return cr_tv_format(t, s, &values, out);
}

bool cr_filter_tojson(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tojson_style style = {
        .item_end = { .data = ", ", .size = 2 },
        .key_end = { .data = ": ", .size = 2 },
        .ascii = is_true(&c->p[0]),
        .sort_keys = is_true(&c->p[3]),
    };
    cr_tbuf blanks = { 0 }, buf = { 0 };
    int64_t n = 0;
    if (c->p[1].kind == CR_TV_STRING) {
        style.indent = *c->p[1].as.s;
    } else if (is_given(&c->p[1])) {
        if (!int_arg(t, &c->p[1], 0, &n))
            return false;
        if (n > 1024)
            return cr_interp_limit(t, "tojson: expected an indent of at most 1024");
        for (; n > 0; n--)
            if (!cr_tbuf_text(t, &blanks, " "))
                return false;
        style.indent = (cr_tstr){ .data = blanks.size > 0 ? blanks.data : "", .size = blanks.size };
    }
    if (style.indent.data != NULL)
        style.item_end.size = 1;
    if (is_given(&c->p[2])) {
        cr_tlist pair;
        if (!cr_tv_walk(t, &c->p[2], &pair))
            return false;
        if (pair.n != 2 || pair.items[0].kind != CR_TV_STRING || pair.items[1].kind != CR_TV_STRING)
            return cr_interp_fail(t, "tojson: separators: expected two strings");
        style.item_end = *pair.items[0].as.s;
        style.key_end = *pair.items[1].as.s;
    }
    return cr_tv_to_json(t, &c->self, &style, &buf) && cr_tbuf_done(t, &buf, out);
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* What int() and float() accept: blanks around, single underscores between digits. The rest in
 * text[0, *n); false when it is too long or has misplaced underscores. */
static bool bare_number(const cr_tstr *s, char text[512], size_t *n)
{
    cr_tstr bare = cr_tstr_strip(s, NULL, true, true);
    *n = 0;
    for (size_t i = 0; i < bare.size; i++) {
        char c = bare.data[i];
        if (c == '_') {
            bool between = i > 0 && i + 1 < bare.size && bare.data[i - 1] != '_' &&
                           strchr("+-.eE", bare.data[i - 1]) == NULL &&
                           strchr("+-.eE_", bare.data[i + 1]) == NULL;
            if (!between)
                return false;
            continue;
        }
        if (*n == 511)
            return false;
        text[(*n)++] = c;
    }
    text[*n] = '\0';
    return *n > 0;
}

/* float(v); false without an error when it is none. */
static bool read_float(const cr_tv *v, double *out)
{
    if (cr_tv_is_number(v)) {
        *out = cr_tv_to_float(v);
        return true;
    }
    char text[512];
    size_t n;
    if (v->kind != CR_TV_STRING || !bare_number(v->as.s, text, &n))
        return false;
    size_t begin = text[0] == '+' ? 1 : 0, sign = text[0] == '-' || begin;
    char lower[16] = "";
    for (size_t i = sign; i < n && i - sign < sizeof lower - 1; i++)
        lower[i - sign] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
    if (strcmp(lower, "nan") == 0 || strcmp(lower, "inf") == 0 || strcmp(lower, "infinity") == 0) {
        *out = lower[0] == 'n'  ? (double)NAN
               : text[0] == '-' ? (double)-INFINITY
                                : (double)INFINITY;
        return true;
    }
    return cr_parse_f64((cr_str){ text + begin, n - begin }, out);
}

/* int(s, base). 1: read, 0: not a number, -1: too large. */
static int read_int(const cr_tstr *s, int64_t base, int64_t *out)
{
    char text[512];
    size_t n, i = 0;
    if (!bare_number(s, text, &n))
        return 0;
    bool negative = text[0] == '-';
    i += text[0] == '-' || text[0] == '+';
    char letter = n - i > 2 && text[i] == '0' ? (char)(text[i + 1] | 0x20) : '\0';
    int64_t named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (named != 0 && (base == named || base == 0)) {
        base = named;
        i += 2;
    } else if (base == 0) {
        base = 10;
    }
    if (i == n || base < 2 || base > 36)
        return 0;
    uint64_t value = 0, limit = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    bool fits = true;
    for (; i < n; i++) {
        char c = (char)(text[i] | 0x20);
        int64_t digit = text[i] >= '0' && text[i] <= '9' ? text[i] - '0'
                        : c >= 'a' && c <= 'z'           ? c - 'a' + 10
                                                         : 99;
        if (digit >= base)
            return 0;
        fits = fits && value <= (limit - (uint64_t)digit) / (uint64_t)base;
        if (fits)
            value = value * (uint64_t)base + (uint64_t)digit;
    }
    if (!fits)
        return -1;
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return 1;
}

bool cr_filter_int(cr_interp *t, cr_call *c, cr_tv *out)
{
    int64_t base, value;
    double real;
    if (!int_arg(t, &c->p[1], 10, &base))
        return false;
    if (c->self.kind == CR_TV_UNDEFINED)
        return cr_interp_fail(t, "int: the value is undefined");
    if (cr_tv_to_int(&c->self, &value)) {
        *out = cr_tv_int(value);
        return true;
    }
    int read = c->self.kind == CR_TV_STRING ? read_int(c->self.as.s, base, &value) : 0;
    if (read < 0)
        return cr_interp_fail(t, "int: an integer is out of the range of 64 bits");
    if (read > 0) {
        *out = cr_tv_int(value);
        return true;
    }
    bool found = read_float(&c->self, &real) && isfinite(real);
    if (c->self.kind == CR_TV_FLOAT && isinf(c->self.as.f))
        return cr_interp_fail(t, "int: infinity is no integer");
    if (found && fabs(real) >= 9.2e18)
        return cr_interp_fail(t, "int: an integer is out of the range of 64 bits");
    if (found)
        *out = cr_tv_int((int64_t)real);
    else
        *out = c->p[0].kind != CR_TV_MISSING ? c->p[0] : cr_tv_int(0);
    return true;
}

bool cr_filter_float(cr_interp *t, cr_call *c, cr_tv *out)
{
    double value;
    if (c->self.kind == CR_TV_UNDEFINED)
        return cr_interp_fail(t, "float: the value is undefined");
    if (read_float(&c->self, &value))
        *out = cr_tv_float(value);
    else
        *out = c->p[0].kind != CR_TV_MISSING ? c->p[0] : cr_tv_float(0);
    return true;
}

bool cr_filter_abs(cr_interp *t, cr_call *c, cr_tv *out)
{
    int64_t i;
    if (cr_tv_to_int(&c->self, &i)) {
        *out = cr_tv_int(i);
        return i >= 0 || cr_tv_negate(t, &c->self, out);
    }
    if (c->self.kind != CR_TV_FLOAT)
        return cr_interp_fail(t, "abs: expected a number, found a %s", cr_tv_type(&c->self));
    *out = cr_tv_float(fabs(c->self.as.f));
    return true;
}

/* To a number of decimal places, half to even on the exact value, as Python does. */
static bool round_places(cr_interp *t, double value, int64_t places, double *out)
{
    *out = value;
    if (!isfinite(value) || places > 300)
        return true;
    if (places < 0) {
        if (places < -308) {
            *out = copysign(0.0, value);
            return true;
        }
        double unit = pow(10, (double)-places);
        *out = nearbyint(value / unit) * unit;
        return true;
    }
    char text[CR_REAL_ROOM];
    return cr_format_real(t, 'f', (int)places, false, value, text) &&
           cr_parse_f64(cr_str_from(text), out);
}

bool cr_filter_round(cr_interp *t, cr_call *c, cr_tv *out)
{
    int64_t places, i;
    double value;
    if (!int_arg(t, &c->p[0], 0, &places))
        return false;
    if (!cr_tv_is_number(&c->self))
        return cr_interp_fail(t, "round: expected a number, found a %s", cr_tv_type(&c->self));
    const cr_tstr common = { .data = "common", .size = 6 }, *method = &common;
    if (c->p[1].kind == CR_TV_STRING)
        method = c->p[1].as.s;
    if (cr_tstr_is(method, "common")) {
        if (cr_tv_to_int(&c->self, &i) && places >= 0) {
            *out = cr_tv_int(i);
            return true;
        }
        if (!round_places(t, cr_tv_to_float(&c->self), places, &value))
            return false;
        *out = cr_tv_to_int(&c->self, &i) ? cr_tv_int((int64_t)value) : cr_tv_float(value);
        return true;
    }
    bool up = cr_tstr_is(method, "ceil");
    if (!up && !cr_tstr_is(method, "floor"))
        return cr_interp_fail(t, "round: expected common, ceil or floor");
    double unit = pow(10, (double)places);
    value = cr_tv_to_float(&c->self) * unit;
    *out = cr_tv_float((up ? ceil(value) : floor(value)) / unit + 0.0);
    return true;
}

/* "%s" % values and "{}".format(values). */
#include "template/formatting.h"

#include <math.h>
#include <stdio.h>

enum { MAX_WIDTH = 1 << 16 };

bool cr_format_real(cr_interp *t, char letter, int precision, bool alternate, double value,
                    char out[CR_REAL_ROOM])
{
    if (precision > 300)
        return cr_interp_fail(t, "format: expected a precision of at most 300");
    char format[8] = { '%', '.', '*', letter, '\0' };
    if (alternate)
        memcpy(format, (char[]){ '%', '#', '.', '*', letter, '\0' }, 6);
    int n = snprintf(out, CR_REAL_ROOM, format, precision < 0 ? 6 : precision, value);
    /* The point of another locale is made one. */
    for (int i = 0; i < n && isfinite(value); i++)
        if (strchr("0123456789+-eE", out[i]) == NULL)
            out[i] = '.';
    return true;
}

/* text with blanks or zeros up to the width. align: '<' left, '>' right, '^' middle, '=' behind the
 * sign. */
static bool pad(cr_interp *t, const cr_tstr *text, int64_t width, char align, const cr_tstr *fill,
                cr_tbuf *out)
{
    int64_t size = (int64_t)cr_tstr_count(text);
    int64_t missing = width > size ? width - size : 0;
    int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
    size_t sign = 0;
    if (align == '=' && text->size > 0 && (text->data[0] == '-' || text->data[0] == '+'))
        sign = 1;
    cr_tstr head = cr_tstr_part(text, 0, sign), rest = cr_tstr_part(text, sign, text->size);
    bool ok = cr_tbuf_add(t, out, &head);
    for (int64_t i = 0; ok && i < left; i++)
        ok = cr_tbuf_add(t, out, fill);
    ok = ok && cr_tbuf_add(t, out, &rest);
    for (int64_t i = left; ok && i < missing; i++)
        ok = cr_tbuf_add(t, out, fill);
    return ok;
}

static const cr_tstr blank = { .data = " ", .size = 1 }, zero = { .data = "0", .size = 1 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char at(const cr_tstr *s, size_t i)
{
    return i < s->size ? s->data[i] : '\0';
}

/* Digits at *i: the number, -1 when there are none. */
static int64_t read_number(const cr_tstr *s, size_t *i)
{
    int64_t n = -1;
    for (; is_digit(at(s, *i)); ++*i)
        n = CR_MIN((n < 0 ? 0 : n) * 10 + (s->data[*i] - '0'), (int64_t)MAX_WIDTH + 1);
    return n;
}

/* A number as an integer, for %d and :d. */
static bool integer_of(cr_interp *t, const cr_tv *v, char letter, int64_t *out)
{
    if (cr_tv_to_int(v, out))
        return true;
    if (v->kind == CR_TV_FLOAT && (letter == 'd' || letter == 'i' || letter == 'u') &&
        fabs(v->as.f) < 9e18) {
        *out = (int64_t)v->as.f;
        return true;
    }
    return cr_interp_fail(t, "%%%c: expected a number, found a %s", letter, cr_tv_type(v));
}

/* An integer in the base that the letter names, with "0x" and the like on request. */
static void integer_text(int64_t value, char letter, bool prefix, char out[96])
{
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    unsigned base = letter == 'x' || letter == 'X' ? 16
                    : letter == 'o'                ? 8
                    : letter == 'b'                ? 2
                                                   : 10;
    const char *digits = letter == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    char reversed[72];
    size_t n = 0, at_out = 0;
    do
        reversed[n++] = digits[rest % base];
    while ((rest /= base) > 0);
    if (value < 0)
        out[at_out++] = '-';
    if (prefix && base != 10) {
        out[at_out++] = '0';
        out[at_out++] = letter;
    }
    while (n > 0)
        out[at_out++] = reversed[--n];
    out[at_out] = '\0';
}

typedef struct spec {
    bool left, zeros, plus, space, alternate;
    int64_t width, precision;
    char letter;
} spec;

/* One value as a "%" directive asks for it. */
static bool format_one(cr_interp *t, const spec *f, const cr_tv *v, cr_tbuf *out)
{
    char text[CR_REAL_ROOM + 2] = "";
    cr_tstr s = { 0 };
    bool is_number = true;
    int64_t i;
    switch (f->letter) {
    case 's':
    case 'r':
    case 'a': {
        cr_tbuf buf = { 0 };
        if (!(f->letter == 's' ? cr_tv_print(t, v, &buf) : cr_tv_repr(t, v, &buf)))
            return false;
        s = (cr_tstr){ .data = buf.data, .marks = buf.marks, .size = buf.size };
        if (f->precision >= 0)
            s = cr_tstr_part(&s, 0, cr_tstr_offset(&s, (size_t)f->precision));
        is_number = false;
        break;
    }
    case 'c':
        if (v->kind == CR_TV_STRING && cr_tstr_count(v->as.s) == 1) {
            s = *v->as.s;
        } else if (cr_tv_to_int(v, &i) && i > 0 && i < 0x110000) {
            s = (cr_tstr){ .data = text, .size = cr_utf8_encode((uint32_t)i, text) };
        } else {
            return cr_interp_fail(t, "%%c: expected a character");
        }
        is_number = false;
        break;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o': {
        char digits[96];
        if (!integer_of(t, v, f->letter, &i))
            return false;
        integer_text(i, f->letter, f->alternate, digits);
        bool sign = i < 0;
        const char *plus = sign ? "-" : f->plus ? "+" : f->space ? " " : "";
        int64_t n = (int64_t)strlen(digits + sign);
        int64_t more = f->precision > n && f->precision < 100 ? f->precision - n : 0;
        snprintf(
            text, sizeof text, "%s%.*s%s", plus, (int)more,
            "0000000000000000000000000000000000000000000000000000000000000000000000000000000000"
            "00000000000000000000",
            digits + sign);
        break;
    }
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G': {
        if (!cr_tv_is_number(v))
            return cr_interp_fail(t, "%%%c: expected a number, found a %s", f->letter,
                                  cr_tv_type(v));
        double value = cr_tv_to_float(v);
        const char *plus = signbit(value) ? "" : f->plus ? "+" : f->space ? " " : "";
        char digits[CR_REAL_ROOM];
        if (!cr_format_real(t, f->letter, (int)f->precision, f->alternate, value, digits))
            return false;
        snprintf(text, sizeof text, "%s%s", plus, digits);
        break;
    }
    default:
        return cr_interp_fail(t, "format: %%%c is not known", f->letter);
    }
    if (s.data == NULL)
        s = (cr_tstr){ .data = text, .size = strlen(text) };
    bool zeros = f->zeros && is_number && !f->left;
    return pad(t, &s, f->width, f->left ? '<' : zeros ? '=' : '>', zeros ? &zero : &blank, out);
}

/* Values in a row, or a dict for %(name)s. */
typedef struct values {
    const cr_tv *all;
    cr_tlist list;
    size_t next;
} values;

static bool next_value(cr_interp *t, values *v, cr_tv *out)
{
    if (v->next == v->list.n)
        return cr_interp_fail(t, "format: more values are asked for than there are");
    *out = v->list.items[v->next++];
    return true;
}

static bool format_number(cr_interp *t, const cr_tstr *s, size_t *i, values *v, int64_t *out)
{
    *out = -1;
    if (at(s, *i) == '*') {
        cr_tv value;
        ++*i;
        if (!next_value(t, v, &value))
            return false;
        if (!cr_tv_to_int(&value, out) || *out < 0)
            return cr_interp_fail(t, "format: *: expected a whole number");
    } else {
        *out = read_number(s, i);
    }
    return *out <= MAX_WIDTH || cr_interp_fail(t, "format: a width of more than %d", MAX_WIDTH);
}

/* The directive behind a "%" at *i. */
static bool format_directive(cr_interp *t, const cr_tstr *s, size_t *i, values *v, cr_tbuf *out)
{
    spec f = { .precision = -1 };
    cr_tv value = { .kind = CR_TV_MISSING };
    if (at(s, *i) == '(') {
        size_t begin = *i + 1, end = begin;
        while (end < s->size && s->data[end] != ')')
            end++;
        cr_tstr name = cr_tstr_part(s, begin, CR_MIN(end, s->size));
        cr_tv key = { .kind = CR_TV_STRING, .as.s = &name }, *found = NULL;
        if (end == s->size || v->all->kind != CR_TV_DICT)
            return cr_interp_fail(t, "format: %%(name): expected a dict, found a %s",
                                  cr_tv_type(v->all));
        if (!cr_tdict_get(t, v->all->as.dict, &key, &found))
            return false;
        if (found == NULL)
            return cr_interp_fail(t, "format: no value for a name");
        value = *found;
        *i = end + 1;
        v->next = v->list.n; /* a dict has no end to check */
    }
    for (;; ++*i) {
        char c = at(s, *i);
        f.left |= c == '-';
        f.zeros |= c == '0';
        f.plus |= c == '+';
        f.space |= c == ' ';
        f.alternate |= c == '#';
        if (c == '\0' || strchr("-0+ #", c) == NULL)
            break;
    }
    if (!format_number(t, s, i, v, &f.width))
        return false;
    if (at(s, *i) == '.') {
        ++*i;
        if (!format_number(t, s, i, v, &f.precision))
            return false;
        f.precision = CR_MAX(f.precision, 0);
    }
    while (at(s, *i) == 'l' || at(s, *i) == 'h' || at(s, *i) == 'L')
        ++*i;
    f.letter = at(s, *i);
    if (*i >= s->size)
        return cr_interp_fail(t, "format: the text ends inside of a directive");
    ++*i;
    if (f.letter == '%')
        return cr_tbuf_text(t, out, "%");
    if (value.kind == CR_TV_MISSING && !next_value(t, v, &value))
        return false;
    return format_one(t, &f, &value, out);
}

bool cr_tv_format(cr_interp *t, const cr_tstr *s, const cr_tv *given, cr_tv *out)
{
    cr_tv single = *given;
    values v = { .all = given, .list = { &single, 1 } };
    if (given->kind == CR_TV_TUPLE)
        v.list = *given->as.list;
    cr_tbuf buf = { 0 };
    for (size_t i = 0; i < s->size;) {
        size_t begin = i;
        while (i < s->size && s->data[i] != '%')
            i++;
        cr_tstr part = cr_tstr_part(s, begin, i);
        if (!cr_tbuf_add(t, &buf, &part))
            return false;
        if (i == s->size)
            break;
        i++;
        if (!format_directive(t, s, &i, &v, &buf))
            return false;
    }
    bool may_rest = given->kind == CR_TV_DICT || given->kind == CR_TV_LIST;
    if (v.next < v.list.n && !may_rest)
        return cr_interp_fail(t, "format: not all values are used");
    cr_tstr made = { .data = buf.data, .marks = buf.marks, .size = buf.size, .safe = s->safe };
    return cr_tv_string(t, made, out);
}

/* ---- "{}".format ---------------------------------------------------------------------------- */

/* Digits in groups of three. */
static void group_digits(const char *digits, char mark, char *out)
{
    size_t sign = digits[0] == '-' ? 1 : 0, n = sign;
    while (is_digit(digits[n]))
        n++;
    size_t at_out = 0;
    for (size_t i = 0; digits[i] != '\0'; i++) {
        if (i > sign && i < n && (n - i) % 3 == 0)
            out[at_out++] = mark;
        out[at_out++] = digits[i];
    }
    out[at_out] = '\0';
}

/* A value by a format specification: [[fill]align][sign][#][0][width][,][.precision][type]. */
static bool format_spec(cr_interp *t, const cr_tv *v, const cr_tstr *s, cr_tbuf *out)
{
    size_t i = 0;
    cr_tstr fill = blank;
    char align = '\0';
    uint32_t code;
    size_t first = s->size > 0 ? cr_tstr_at(s, 0, &code) : 0;
    if (first > 0 && at(s, first) != '\0' && strchr("<>^=", at(s, first)) != NULL) {
        fill = cr_tstr_part(s, 0, first);
        align = at(s, first);
        i = first + 1;
    } else if (at(s, 0) != '\0' && strchr("<>^=", at(s, 0)) != NULL) {
        align = at(s, i++);
    }
    char sign = '\0', mark = '\0';
    if (at(s, i) == '+' || at(s, i) == '-' || at(s, i) == ' ')
        sign = at(s, i++);
    bool alternate = at(s, i) == '#';
    i += alternate;
    if (at(s, i) == '0') {
        i++;
        if (align == '\0') {
            fill = zero;
            align = '=';
        }
    }
    int64_t width = read_number(s, &i), precision = -1;
    if (at(s, i) == ',' || at(s, i) == '_')
        mark = at(s, i++);
    if (at(s, i) == '.') {
        i++;
        precision = read_number(s, &i);
    }
    char letter = at(s, i);
    if (s->size > i + 1 || width > MAX_WIDTH)
        return cr_interp_fail(t, "format: a specification that is not known");

    char text[2 * CR_REAL_ROOM] = "", digits[CR_REAL_ROOM] = "";
    cr_tstr shown = { 0 };
    int64_t integer;
    bool is_int = cr_tv_to_int(v, &integer) && (v->kind == CR_TV_INT || letter != '\0');
    bool is_real_letter = letter != '\0' && strchr("eEfFgG%", letter) != NULL;
    if (is_int && !is_real_letter) {
        if (letter != '\0' && strchr("dxXobn", letter) == NULL)
            return cr_interp_fail(t, "format: '%c' is not for integers", letter);
        integer_text(integer, letter, alternate, digits);
    } else if (cr_tv_is_number(v) && v->kind != CR_TV_BOOL ? true : is_real_letter) {
        if (!cr_tv_is_number(v))
            return cr_interp_fail(t, "format: '%c' is for numbers", letter);
        double value = cr_tv_to_float(v) * (letter == '%' ? 100 : 1);
        if (letter == '\0' && precision < 0)
            cr_tv_float_text(value, digits);
        else if (!cr_format_real(t,
                                 letter == '%'    ? 'f'
                                 : letter == '\0' ? 'g'
                                                  : letter,
                                 (int)precision, alternate, value, digits))
            return false;
        if (letter == '%')
            memcpy(digits + strlen(digits), "%", 2);
    } else {
        if (letter != '\0' && letter != 's')
            return cr_interp_fail(t, "format: '%c' is not for a %s", letter, cr_tv_type(v));
        const cr_tstr *printed;
        if (!cr_tv_str(t, v, &printed))
            return false;
        shown = *printed;
        if (precision >= 0)
            shown = cr_tstr_part(&shown, 0, cr_tstr_offset(&shown, (size_t)precision));
    }
    if (shown.data == NULL) {
        bool plus = digits[0] != '-' && (sign == '+' || sign == ' ');
        text[0] = sign;
        if (mark != '\0')
            group_digits(digits, mark, text + plus);
        else
            memcpy(text + plus, digits, strlen(digits) + 1);
        shown = (cr_tstr){ .data = text, .size = strlen(text) };
        align = align == '\0' ? '>' : align;
    }
    return pad(t, &shown, width, align == '\0' ? '<' : align, &fill, out);
}

typedef struct format_args {
    const cr_args *args;
    size_t next;
} format_args;

/* The value of "name.attr[item]". */
static bool format_field(cr_interp *t, const cr_tstr *s, format_args *from, cr_tv *out)
{
    size_t i = 0;
    while (i < s->size && s->data[i] != '.' && s->data[i] != '[')
        i++;
    cr_str name = { s->data, i };
    int64_t index = (int64_t)from->next;
    bool found = false;
    if (i == 0 || cr_parse_i64(name, &index)) {
        from->next += i == 0;
        found = index >= 0 && index < (int64_t)from->args->n;
        if (found)
            *out = from->args->items[index];
    }
    for (size_t j = 0; i > 0 && !found && j < from->args->n_named; j++) {
        const cr_named *named = &from->args->named[j];
        found = named->name.size == name.size && memcmp(named->name.data, name.data, i) == 0;
        if (found)
            *out = named->value;
    }
    if (!found)
        return cr_interp_fail(t, "format: a field without a value");
    while (i < s->size) {
        bool by_item = s->data[i] == '[';
        size_t begin = i + 1, end = begin;
        while (end < s->size &&
               (by_item ? s->data[end] != ']' : s->data[end] != '.' && s->data[end] != '['))
            end++;
        cr_tstr part = cr_tstr_part(s, begin, end);
        cr_tv object = *out, key = { .kind = CR_TV_STRING, .as.s = &part };
        if (by_item && cr_parse_i64(cr_tstr_bytes(&part), &index))
            key = cr_tv_int(index);
        if (!(by_item ? cr_tv_item(t, &object, &key, out)
                      : cr_tv_attr(t, &object, cr_tstr_bytes(&part), out)))
            return false;
        i = end + by_item;
    }
    return true;
}

bool cr_format_braces(cr_interp *t, const cr_tstr *s, const cr_args *args, cr_tv *out)
{
    format_args from = { .args = args };
    cr_tbuf buf = { 0 };
    for (size_t i = 0; i < s->size;) {
        char c = s->data[i];
        if ((c == '{' || c == '}') && at(s, i + 1) == c) {
            cr_tstr part = cr_tstr_part(s, i, i + 1);
            if (!cr_tbuf_add(t, &buf, &part))
                return false;
            i += 2;
            continue;
        }
        if (c == '}')
            return cr_interp_fail(t, "format: a } that nothing opened");
        if (c != '{') {
            size_t begin = i;
            while (i < s->size && s->data[i] != '{' && s->data[i] != '}')
                i++;
            cr_tstr part = cr_tstr_part(s, begin, i);
            if (!cr_tbuf_add(t, &buf, &part))
                return false;
            continue;
        }
        size_t end = i + 1;
        while (end < s->size && s->data[end] != '}' && s->data[end] != '{')
            end++;
        if (at(s, end) != '}')
            return cr_interp_fail(t, "format: a { that is not closed, or another one in it");
        size_t name_end = i + 1;
        while (name_end < end && s->data[name_end] != '!' && s->data[name_end] != ':')
            name_end++;
        cr_tstr name = cr_tstr_part(s, i + 1, name_end);
        cr_tv value;
        if (!format_field(t, &name, &from, &value))
            return false;
        if (at(s, name_end) == '!') {
            cr_tbuf text = { 0 };
            char how = at(s, name_end + 1);
            bool ok = how == 'r'   ? cr_tv_repr(t, &value, &text)
                      : how == 's' ? cr_tv_print(t, &value, &text)
                                   : cr_interp_fail(t, "format: !%c is not known", how);
            if (!ok || !cr_tbuf_done(t, &text, &value))
                return false;
            name_end += 2;
        }
        cr_tstr format = cr_tstr_part(s, CR_MIN(name_end + 1, end), end);
        if (!format_spec(t, &value, &format, &buf))
            return false;
        i = end + 1;
    }
    cr_tstr made = { .data = buf.data, .marks = buf.marks, .size = buf.size, .safe = s->safe };
    return cr_tv_string(t, made, out);
}

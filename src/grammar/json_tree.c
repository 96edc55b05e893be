#include "grammar/json_tree.h"

typedef struct reader {
    const char *text, *what;
    size_t size, at;
    cr_arena *arena;
    cera_error *err;
    int depth;
} reader;

static cera_status fail(const reader *r, const char *why)
{
    size_t line = 1, start = 0;
    for (size_t i = 0; i < r->at; i++) {
        if (r->text[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    return cr_fail(r->err, CERA_E_FORMAT, "%s: line %zu, column %zu: expected %s", r->what, line,
                   r->at - start + 1, why);
}

static void skip_blanks(reader *r)
{
    while (r->at < r->size && strchr(" \t\r\n", r->text[r->at]) && r->text[r->at] != '\0')
        r->at++;
}

static int peek(const reader *r)
{
    return r->at < r->size ? (unsigned char)r->text[r->at] : -1;
}

static bool read_hex4(reader *r, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek(r);
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return false;
        *code = *code << 4 | (uint32_t)digit;
        r->at++;
    }
    return true;
}

/* Behind a backslash. */
static cera_status read_escape(reader *r, uint32_t *code)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek(r);
    const char *known = c > 0 ? strchr(from, c) : NULL;
    if (known) {
        *code = (unsigned char)to[known - from];
        r->at++;
        return CERA_OK;
    }
    if (c != 'u')
        return fail(r, "an escape of JSON");
    r->at++;
    if (!read_hex4(r, code))
        return fail(r, "4 hexadecimal digits");
    if (*code < 0xd800 || *code > 0xdfff)
        return CERA_OK;
    uint32_t low = 0;
    bool pair = *code < 0xdc00 && r->size - r->at >= 6 && memcmp(r->text + r->at, "\\u", 2) == 0;
    r->at += pair ? 2 : 0;
    if (!pair || !read_hex4(r, &low) || low < 0xdc00 || low > 0xdfff)
        return fail(r, "a pair of surrogates");
    *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
    return CERA_OK;
}

static cera_status read_string(reader *r, cr_str *out)
{
    if (peek(r) != '"')
        return fail(r, "a string");
    r->at++;
    size_t end = r->at;
    while (end < r->size && r->text[end] != '"')
        end += r->text[end] == '\\' ? 2 : 1;
    char *data = cr_arena_alloc(r->arena, CR_MIN(end, r->size) - r->at + 4);
    if (!data)
        return cr_fail_nomem(r->err, 0, r->what);
    size_t n = 0;
    while (peek(r) != '"') {
        uint32_t code;
        size_t length =
            r->at < r->size ? cr_utf8_decode(r->text + r->at, r->size - r->at, &code) : 0;
        if (length == 0 || code < 0x20)
            return fail(r, "UTF-8 without control characters, up to a \"");
        r->at += length;
        if (code == '\\')
            CR_TRY(read_escape(r, &code));
        n += cr_utf8_encode(code, data + n); /* never longer than what it was read from */
    }
    r->at++;
    *out = (cr_str){ data, n };
    return CERA_OK;
}

static void skip_digits(reader *r)
{
    while (peek(r) >= '0' && peek(r) <= '9')
        r->at++;
}

static cera_status read_number(reader *r, cr_str *out)
{
    size_t start = r->at;
    if (peek(r) == '-')
        r->at++;
    size_t digits = r->at;
    skip_digits(r);
    bool good = r->at > digits && (r->text[digits] != '0' || r->at == digits + 1);
    if (good && peek(r) == '.') {
        digits = ++r->at;
        skip_digits(r);
        good = r->at > digits;
    }
    if (good && (peek(r) == 'e' || peek(r) == 'E')) {
        r->at++;
        if (peek(r) == '+' || peek(r) == '-')
            r->at++;
        digits = r->at;
        skip_digits(r);
        good = r->at > digits;
    }
    if (!good)
        return fail(r, "a value of JSON");
    *out = (cr_str){ r->text + start, r->at - start };
    return CERA_OK;
}

static cera_status read_value(reader *r, cr_json *value);

static cera_status read_children(reader *r, cr_json *parent, char close)
{
    if (++r->depth > CR_JSON_MAX_DEPTH)
        return cr_fail(r->err, CERA_E_LIMIT, "%s: expected at most %d levels, found more", r->what,
                       CR_JSON_MAX_DEPTH);
    r->at++;
    cr_json **tail = &parent->first;
    skip_blanks(r);
    while (peek(r) != close) {
        if (parent->n > 0) {
            if (peek(r) != ',')
                return fail(r, close == '}' ? "a , or }" : "a , or ]");
            r->at++;
            skip_blanks(r);
        }
        cr_json *child = cr_arena_alloc(r->arena, sizeof *child);
        if (!child)
            return cr_fail_nomem(r->err, 0, r->what);
        child->parent = parent;
        child->index = parent->n;
        if (close == '}') {
            CR_TRY(read_string(r, &child->key));
            if (cr_json_get_str(parent, child->key))
                return fail(r, "each key once");
            skip_blanks(r);
            if (peek(r) != ':')
                return fail(r, "a :");
            r->at++;
        }
        CR_TRY(read_value(r, child));
        *tail = child;
        tail = &child->next;
        parent->n++;
        skip_blanks(r);
    }
    r->at++;
    r->depth--;
    return CERA_OK;
}

static cera_status read_value(reader *r, cr_json *value)
{
    static const struct {
        const char *text;
        cr_json_kind kind;
    } words[] = { { "null", CR_JSON_NULL }, { "false", CR_JSON_FALSE }, { "true", CR_JSON_TRUE } };
    skip_blanks(r);
    int c = peek(r);
    for (size_t i = 0; i < CR_COUNT(words); i++) {
        size_t n = strlen(words[i].text);
        if (r->size - r->at >= n && memcmp(r->text + r->at, words[i].text, n) == 0) {
            r->at += n;
            value->kind = words[i].kind;
            return CERA_OK;
        }
    }
    value->kind = c == '{'   ? CR_JSON_OBJECT
                  : c == '[' ? CR_JSON_ARRAY
                  : c == '"' ? CR_JSON_STRING
                             : CR_JSON_NUMBER;
    if (c == '{' || c == '[')
        return read_children(r, value, c == '{' ? '}' : ']');
    return c == '"' ? read_string(r, &value->text) : read_number(r, &value->text);
}

cera_status cr_json_parse(cr_str text, const char *what, cr_arena *arena, const cr_json **out,
                          cera_error *err)
{
    reader r = { .text = text.data, .size = text.size, .what = what, .arena = arena, .err = err };
    cr_json *value = cr_arena_alloc(arena, sizeof *value);
    if (!value)
        return cr_fail_nomem(err, 0, what);
    CR_TRY(read_value(&r, value));
    skip_blanks(&r);
    if (r.at < r.size)
        return fail(&r, "the end");
    *out = value;
    return CERA_OK;
}

const cr_json *cr_json_get_str(const cr_json *object, cr_str key)
{
    if (!object || object->kind != CR_JSON_OBJECT)
        return NULL;
    for (const cr_json *child = object->first; child; child = child->next) {
        if (child->key.size == key.size && memcmp(child->key.data, key.data, key.size) == 0)
            return child;
    }
    return NULL;
}

const cr_json *cr_json_get(const cr_json *object, const char *key)
{
    return cr_json_get_str(object, cr_str_from(key));
}

bool cr_json_equal(const cr_json *a, const cr_json *b)
{
    if (a->kind != b->kind || a->n != b->n)
        return false;
    if (a->text.size != b->text.size || memcmp(a->text.data ? a->text.data : "",
                                               b->text.data ? b->text.data : "", a->text.size) != 0)
        return false;
    const cr_json *y = b->first;
    for (const cr_json *x = a->first; x; x = x->next) {
        const cr_json *other = a->kind == CR_JSON_OBJECT ? cr_json_get_str(b, x->key) : y;
        if (!other || !cr_json_equal(x, other))
            return false;
        y = y->next;
    }
    return true;
}

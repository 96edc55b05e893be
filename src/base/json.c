#include "base/json.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>

/* Members of an object up to which looking at each is as fast as hashing. */
enum { MAX_UNHASHED = 16, POINTER_ROOM = 160 };

typedef struct reader {
    const char *text, *what;
    size_t size, at;
    const cr_json_rules *rules;
    cr_arena *arena;
    cera_error *err;
    const cr_json *value; /* what is being read, for its place in messages */
    size_t n_values;
} reader;

/* ---- messages ------------------------------------------------------------------------------- */

/* One step of a pointer with its "/", escaped; returns its length, 0 when it does not fit. */
static size_t pointer_step(const cr_json *value, char *out, size_t room)
{
    if (value->parent->kind == CR_JSON_ARRAY) {
        int n = snprintf(out, room, "/%u", value->index);
        return (size_t)n < room ? (size_t)n : 0;
    }
    size_t n = 0;
    if (room == 0)
        return 0;
    out[n++] = '/';
    for (size_t i = 0; i < value->key.size; i++) {
        char c = value->key.data[i];
        bool escape = c == '~' || c == '/';
        if (n + 2 > room)
            return 0;
        out[n++] = escape ? '~' : c;
        if (escape)
            out[n++] = c == '~' ? '0' : '1';
    }
    return n;
}

void cr_json_pointer(const cr_json *root, const cr_json *value, char *out, size_t room)
{
    static const char cut[] = "/...";
    const size_t n_cut = sizeof cut - 1;
    char step[512];
    size_t used = room - 1, n;
    assert(used >= n_cut);
    out[used] = '\0';
    for (; value && value->parent && value != root; value = value->parent) {
        if (value->is_made)
            continue;
        n = pointer_step(value, step, sizeof step);
        if (n == 0 || n + n_cut > used) { /* the beginning of a long one is left out */
            used -= n_cut;
            memcpy(out + used, cut, n_cut);
            break;
        }
        used -= n;
        memcpy(out + used, step, n);
    }
    memmove(out, out + used, room - used);
}

static cera_status fail(const reader *r, const char *expected)
{
    char place[POINTER_ROOM];
    size_t line = 1, start = 0;
    for (size_t i = 0; i < r->at && i < r->size; i++) {
        if (r->text[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    cr_json_pointer(NULL, r->value, place, sizeof place);
    return cr_fail(r->err, CERA_E_FORMAT, "%s: line %zu, column %zu%s%s: expected %s", r->what,
                   line, r->at - start + 1, place[0] != '\0' ? ", at " : "", place, expected);
}

/* ---- scalars -------------------------------------------------------------------------------- */

static int peek(const reader *r)
{
    return r->at < r->size ? (unsigned char)r->text[r->at] : -1;
}

static void skip_blanks(reader *r)
{
    int c;
    while ((c = peek(r)) == ' ' || c == '\t' || c == '\r' || c == '\n')
        r->at++;
}

/* Takes this text when it comes next. */
static bool take(reader *r, const char *word)
{
    size_t n = strlen(word);
    if (r->size - r->at < n || memcmp(r->text + r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

static bool read_hex4(reader *r, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        int c = peek(r), lower = c | 0x20;
        int digit = c >= '0' && c <= '9'           ? c - '0'
                    : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10
                                                   : -1;
        if (digit < 0)
            return false;
        *code = *code << 4 | (uint32_t)digit;
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
        return fail(r, "four hexadecimal digits");
    if (*code < 0xd800 || *code > 0xdfff)
        return CERA_OK;
    uint32_t low = 0;
    if (*code > 0xdbff || !take(r, "\\u") || !read_hex4(r, &low) || low < 0xdc00 || low > 0xdfff)
        return fail(r, "a pair of surrogates");
    *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
    return CERA_OK;
}

static cera_status read_string(reader *r, cr_str *out)
{
    if (peek(r) != '"')
        return fail(r, "a string");
    size_t end = ++r->at, n = 0;
    bool plain = true;
    while (end < r->size && r->text[end] != '"') {
        plain = plain && r->text[end] != '\\';
        end += r->text[end] == '\\' ? 2 : 1;
    }
    const char *begin = r->text + r->at;
    char *decoded = NULL;
    if (!plain) {
        /* Never longer than what it is read from, but for the last character before a cut. */
        decoded = cr_arena_alloc(r->arena, CR_MIN(end, r->size) - r->at + 4);
        if (!decoded)
            return cr_fail_nomem(r->err, 0, r->what);
    }
    while (peek(r) != '"') {
        uint32_t code;
        size_t length =
            r->at < r->size ? cr_utf8_decode(r->text + r->at, r->size - r->at, &code) : 0;
        if (length == 0 || code < 0x20)
            return fail(r, "UTF-8 without control characters, up to a \"");
        r->at += length;
        if (code == '\\')
            CR_TRY(read_escape(r, &code));
        n += plain ? length : cr_utf8_encode(code, decoded + n);
    }
    r->at++;
    *out = (cr_str){ plain ? begin : decoded, n };
    return CERA_OK;
}

static bool skip_digits(reader *r)
{
    size_t start = r->at;
    while (peek(r) >= '0' && peek(r) <= '9')
        r->at++;
    return r->at > start;
}

static bool skip_number(reader *r)
{
    take(r, "-");
    size_t start = r->at;
    if (r->rules->allow_constants && take(r, "Infinity"))
        return true;
    if (!skip_digits(r) || (r->text[start] == '0' && r->at > start + 1))
        return false;
    if (take(r, ".") && !skip_digits(r))
        return false;
    if (!take(r, "e") && !take(r, "E"))
        return true;
    if (!take(r, "+"))
        take(r, "-");
    return skip_digits(r);
}

static cera_status read_scalar(reader *r, cr_json *value)
{
    static const struct {
        const char *text;
        cr_json_kind kind;
    } words[] = { { "null", CR_JSON_NULL }, { "false", CR_JSON_FALSE }, { "true", CR_JSON_TRUE } };
    for (size_t i = 0; i < CR_COUNT(words); i++) {
        value->kind = words[i].kind;
        if (take(r, words[i].text))
            return CERA_OK;
    }
    if (peek(r) == '"') {
        value->kind = CR_JSON_STRING;
        return read_string(r, &value->text);
    }
    size_t start = r->at;
    value->kind = CR_JSON_NUMBER;
    if (!(r->rules->allow_constants && take(r, "NaN")) && !skip_number(r))
        return fail(r, "a value of JSON");
    value->text = (cr_str){ r->text + start, r->at - start };
    return CERA_OK;
}

/* ---- members by name ------------------------------------------------------------------------ */

/* Slots of an object with n members: the powers of two from n to 2 n, times two. */
static size_t n_slots(uint32_t n)
{
    size_t slots = 2 * (size_t)MAX_UNHASHED;
    while (slots < 2 * (size_t)n)
        slots *= 2;
    return slots;
}

/* Where the member of this name is, or would be. */
static size_t find_slot(const cr_json **slots, size_t count, cr_str key)
{
    size_t at = (size_t)cr_hash(key.data, key.size) & (count - 1);
    while (slots[at] && !cr_str_same(slots[at]->key, key))
        at = (at + 1) & (count - 1);
    return at;
}

/* Called for each new member of a large object. */
static cera_status hash_member(const reader *r, cr_json *object, const cr_json *member)
{
    size_t count = n_slots(object->n);
    if (!object->slots || count != n_slots(object->n - 1)) {
        object->slots = cr_arena_array(r->arena, count, sizeof(cr_json *));
        if (!object->slots)
            return cr_fail_nomem(r->err, count * sizeof(cr_json *), r->what);
        for (const cr_json *m = object->first; m != member; m = m->next) {
            size_t at = find_slot(object->slots, count, m->key);
            if (!object->slots[at])
                object->slots[at] = m;
        }
    }
    size_t at = find_slot(object->slots, count, member->key);
    if (!object->slots[at])
        object->slots[at] = member;
    return CERA_OK;
}

const cr_json *cr_json_get_str(const cr_json *object, cr_str key)
{
    const cr_json *member = cr_json_first(object, CR_JSON_OBJECT);
    if (member && object->slots)
        return object->slots[find_slot(object->slots, n_slots(object->n), key)];
    while (member && !cr_str_same(member->key, key))
        member = member->next;
    return member;
}

const cr_json *cr_json_get(const cr_json *object, const char *key)
{
    return cr_json_get_str(object, cr_str_from(key));
}

/* ---- the tree ------------------------------------------------------------------------------- */

static cera_status new_value(reader *r, cr_json *parent, cr_json **out)
{
    if (r->n_values++ == r->rules->max_values)
        return cr_fail(r->err, CERA_E_LIMIT, "%s: expected at most %zu values, found more", r->what,
                       r->rules->max_values);
    *out = cr_arena_alloc(r->arena, sizeof **out);
    if (!*out)
        return cr_fail_nomem(r->err, 0, r->what);
    **out = (cr_json){ .parent = parent, .index = parent ? parent->n : 0 };
    return CERA_OK;
}

static cera_status read_key(reader *r, cr_json *object, cr_json *member)
{
    size_t start = r->at;
    CR_TRY(read_string(r, &member->key));
    if (!r->rules->allow_repeats && cr_json_get_str(object, member->key)) {
        r->at = start;
        r->value = member;
        return fail(r, "each key once in an object");
    }
    r->value = member;
    skip_blanks(r);
    return take(r, ":") ? CERA_OK : fail(r, "a :");
}

/* A child that comes after `last`, NULL: the first; up to where its value begins. */
static cera_status begin_child(reader *r, cr_json *parent, cr_json *last, cr_json **out)
{
    cr_json *child;
    CR_TRY(new_value(r, parent, &child));
    skip_blanks(r);
    if (parent->kind == CR_JSON_OBJECT)
        CR_TRY(read_key(r, parent, child));
    if (last)
        last->next = child;
    else
        parent->first = child;
    parent->n++;
    if (parent->kind == CR_JSON_OBJECT && parent->n > MAX_UNHASHED)
        CR_TRY(hash_member(r, parent, child));
    *out = child;
    return CERA_OK;
}

/* Reads the value that begins here and everything in it, without recursion: `value` walks down into
 * first children, along to next ones, and up at closing brackets. */
static cera_status read_tree(reader *r, cr_json *value)
{
    int depth = 0;
    for (;;) {
        skip_blanks(r);
        r->value = value;
        bool is_array = take(r, "["), is_object = !is_array && take(r, "{");
        bool is_closed = false;
        if (is_array || is_object) {
            value->kind = is_array ? CR_JSON_ARRAY : CR_JSON_OBJECT;
            if (depth == r->rules->max_depth)
                return cr_fail(r->err, CERA_E_LIMIT, "%s: expected at most %d levels, found more",
                               r->what, r->rules->max_depth);
            skip_blanks(r);
            is_closed = take(r, is_array ? "]" : "}");
            if (!is_closed) {
                depth++;
                CR_TRY(begin_child(r, value, NULL, &value));
                continue;
            }
        } else {
            CR_TRY(read_scalar(r, value));
        }
        for (;;) {
            cr_json *parent = value->parent;
            if (!parent)
                return CERA_OK;
            is_array = parent->kind == CR_JSON_ARRAY;
            skip_blanks(r);
            if (take(r, ",")) {
                r->value = parent;
                CR_TRY(begin_child(r, parent, value, &value));
                break;
            }
            if (!take(r, is_array ? "]" : "}"))
                return fail(r, is_array ? "a , or ]" : "a , or }");
            depth--;
            value = parent;
        }
    }
}

cera_status cr_json_parse(cr_str text, const char *what, const cr_json_rules *rules,
                          cr_arena *arena, const cr_json **out, cera_error *err)
{
    assert(rules->max_values < UINT32_MAX);
    if (text.size > rules->max_bytes)
        return cr_fail(err, CERA_E_LIMIT, "%s: expected at most %zu bytes, found %zu", what,
                       rules->max_bytes, text.size);
    reader r = { .text = text.data,
                 .size = text.size,
                 .what = what,
                 .rules = rules,
                 .arena = arena,
                 .err = err };
    cr_json *root;
    CR_TRY(new_value(&r, NULL, &root));
    CR_TRY(read_tree(&r, root));
    skip_blanks(&r);
    r.value = NULL;
    if (r.at < r.size)
        return fail(&r, "the end");
    *out = root;
    return CERA_OK;
}

/* ---- reading the tree ----------------------------------------------------------------------- */

size_t cr_json_count(const cr_json *value, cr_json_kind kind)
{
    return value && value->kind == kind ? value->n : 0;
}

const cr_json *cr_json_first(const cr_json *value, cr_json_kind kind)
{
    return value && value->kind == kind ? value->first : NULL;
}

const cr_json *cr_json_at(const cr_json *array, size_t index)
{
    const cr_json *element = cr_json_first(array, CR_JSON_ARRAY);
    while (element && element->index < index)
        element = element->next;
    return element;
}

cr_str cr_json_str(const cr_json *value)
{
    return value && value->kind == CR_JSON_STRING ? value->text : (cr_str){ "", 0 };
}

bool cr_json_bool(const cr_json *value, bool otherwise)
{
    bool said = value && (value->kind == CR_JSON_TRUE || value->kind == CR_JSON_FALSE);
    return said ? value->kind == CR_JSON_TRUE : otherwise;
}

bool cr_json_i64(const cr_json *value, int64_t *out)
{
    return value && value->kind == CR_JSON_NUMBER && cr_parse_i64(value->text, out);
}

bool cr_json_f64(const cr_json *value, double *out)
{
    if (!value || value->kind != CR_JSON_NUMBER)
        return false;
    cr_str text = value->text;
    char last = text.data[text.size - 1];
    if (last == 'N' || last == 'y') {
        *out = last == 'N' ? (double)NAN : text.data[0] == '-' ? -HUGE_VAL : HUGE_VAL;
        return true;
    }
    return cr_parse_f64(text, out);
}

bool cr_json_u32(const cr_json *value, uint32_t *out)
{
    double number;
    if (!cr_json_f64(value, &number) || !(number >= 0 && number <= UINT32_MAX) ||
        number != floor(number))
        return false;
    *out = (uint32_t)number;
    return true;
}

bool cr_json_f32(const cr_json *value, float *out)
{
    double number;
    if (!cr_json_f64(value, &number) || !(number >= -FLT_MAX && number <= FLT_MAX))
        return false;
    *out = (float)number;
    return true;
}

bool cr_json_equal(const cr_json *a, const cr_json *b)
{
    if (a->kind != b->kind || a->n != b->n || !cr_str_same(a->text, b->text))
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

/* Values: making, comparing and printing them as Python does. */
#include "template/value.h"

#include "base/arith.h"

#include <math.h>
#include <stdio.h>

/* ---- failing, work, memory ----------------------------------------------------------------- */

static bool fail_with(cr_interp *t, cera_status status, const char *format, va_list args)
    CR_PRINTF(3, 0);

static bool fail_with(cr_interp *t, cera_status status, const char *format, va_list args)
{
    if (t->status != CERA_OK)
        return false;
    char text[CR_LINE_MAX / 2];
    vsnprintf(text, sizeof text, format, args);
    if (t->line > 0)
        t->status = cr_fail(t->err, status, "template: line %d: %s", t->line, text);
    else
        t->status = cr_fail(t->err, status, "%s", text);
    return false;
}

bool cr_interp_fail(cr_interp *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_with(t, CERA_E_FORMAT, format, args);
    va_end(args);
    return false;
}

bool cr_interp_limit(cr_interp *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_with(t, CERA_E_LIMIT, format, args);
    va_end(args);
    return false;
}

bool cr_interp_nomem(cr_interp *t)
{
    if (t->status == CERA_OK)
        t->status = cr_fail_nomem(t->err, 0, "rendering the template");
    return false;
}

bool cr_interp_work(cr_interp *t, size_t amount)
{
    if (amount > t->max_work - t->work)
        return cr_interp_limit(t, "steps: expected at most %zu, the template needs more",
                               t->max_steps);
    t->work += amount;
    return true;
}

void *cr_interp_alloc(cr_interp *t, size_t count, size_t size)
{
    size_t n;
    if (!cr_mul_size(count, size, &n) || n > t->max_memory - t->memory) {
        cr_interp_limit(t, "memory: expected at most %zu bytes, the template needs more",
                        t->max_memory);
        return NULL;
    }
    if (!cr_interp_work(t, n / 4))
        return NULL;
    t->memory += n + 16;
    t->memory = CR_MIN(t->memory, t->max_memory);
    void *p = cr_arena_alloc(&t->arena, n > 0 ? n : 1);
    if (p == NULL)
        cr_interp_nomem(t);
    return p;
}

bool cr_interp_enter(cr_interp *t)
{
    if (t->depth == CR_TEMPLATE_MAX_DEPTH)
        return cr_interp_limit(t, "depth: expected at most %d levels, the template needs more",
                               CR_TEMPLATE_MAX_DEPTH);
    t->depth++;
    return true;
}

/* ---- building ------------------------------------------------------------------------------ */

bool cr_tbuf_reserve(cr_interp *t, cr_tbuf *buf, size_t more)
{
    if (more <= buf->room - buf->size)
        return true;
    size_t need;
    if (!cr_add_size(buf->size, more, &need))
        return cr_interp_nomem(t);
    size_t room = CR_MAX(need, buf->room < SIZE_MAX / 2 ? buf->room * 2 : need);
    room = CR_MAX(room, (size_t)64);
    char *data = cr_interp_alloc(t, room, 2);
    if (data == NULL)
        return false;
    if (buf->size > 0) {
        memcpy(data, buf->data, buf->size);
        memcpy(data + room, buf->marks, buf->size);
    }
    buf->data = data;
    buf->marks = data + room;
    buf->room = room;
    return true;
}

bool cr_tbuf_bytes(cr_interp *t, cr_tbuf *buf, const char *data, size_t n, cr_origin origin)
{
    if (n == 0)
        return true;
    if (!cr_interp_work(t, n) || !cr_tbuf_reserve(t, buf, n))
        return false;
    memcpy(buf->data + buf->size, data, n);
    memset(buf->marks + buf->size, (int)origin, n);
    buf->size += n;
    return true;
}

bool cr_tbuf_add(cr_interp *t, cr_tbuf *buf, const cr_tstr *s)
{
    if (!cr_tbuf_bytes(t, buf, s->data, s->size, s->origin))
        return false;
    if (s->marks != NULL && s->size > 0)
        memcpy(buf->marks + buf->size - s->size, s->marks, s->size);
    return true;
}

bool cr_tbuf_done(cr_interp *t, cr_tbuf *buf, cr_tv *out)
{
    cr_tstr s = { .data = buf->data, .marks = buf->marks, .size = buf->size };
    return cr_tv_string(t, s, out);
}

bool cr_tv_string(cr_interp *t, cr_tstr s, cr_tv *out)
{
    if (s.size == 0) {
        s = (cr_tstr){ .data = "", .safe = s.safe };
    } else if (s.marks != NULL) {
        /* All of one origin needs no marks. */
        s.origin = (uint8_t)s.marks[0];
        size_t i = 1;
        while (i < s.size && s.marks[i] == s.marks[0])
            i++;
        if (i == s.size)
            s.marks = NULL;
    }
    cr_tstr *copy = cr_interp_alloc(t, 1, sizeof *copy);
    if (copy == NULL)
        return false;
    *copy = s;
    *out = (cr_tv){ .kind = CR_TV_STRING, .as.s = copy };
    return true;
}

bool cr_tv_text(cr_interp *t, const char *data, size_t n, cr_origin origin, cr_tv *out)
{
    return cr_tv_string(t, (cr_tstr){ .data = data, .size = n, .origin = (uint8_t)origin }, out);
}

bool cr_tv_list(cr_interp *t, cr_tv_kind kind, cr_tv *items, size_t n, cr_tv *out)
{
    cr_tlist *list = cr_interp_alloc(t, 1, sizeof *list);
    if (list == NULL)
        return false;
    *list = (cr_tlist){ items, n };
    *out = (cr_tv){ .kind = kind, .as.list = list };
    return true;
}

bool cr_tv_iter(cr_interp *t, cr_tv *items, size_t n, cr_tv *out)
{
    cr_titer *iter = cr_interp_alloc(t, 1, sizeof *iter);
    if (iter == NULL)
        return false;
    *iter = (cr_titer){ .list = { items, n } };
    *out = (cr_tv){ .kind = CR_TV_ITER, .as.iter = iter };
    return true;
}

bool cr_tvec_push(cr_interp *t, cr_tvec *vec, cr_tv value)
{
    if (vec->n == vec->room) {
        size_t room = vec->room == 0 ? 8 : vec->room * 2;
        cr_tv *larger = cr_interp_alloc(t, room, sizeof *larger);
        if (larger == NULL)
            return false;
        if (vec->n > 0)
            memcpy(larger, vec->items, vec->n * sizeof *larger);
        vec->items = larger;
        vec->room = room;
    }
    vec->items[vec->n++] = value;
    return true;
}

/* ---- dicts --------------------------------------------------------------------------------- */

enum { DICT_SMALL = 8 };

bool cr_tv_dict(cr_interp *t, cr_tv_kind kind, cr_tv *out)
{
    cr_tdict *dict = cr_interp_alloc(t, 1, sizeof *dict);
    *out = (cr_tv){ .kind = kind, .as.dict = dict };
    return dict != NULL;
}

/* Equal keys have equal hashes: True, 1 and 1.0 are one key. */
static bool hash_key(cr_interp *t, const cr_tv *key, uint64_t *out)
{
    double number;
    switch (key->kind) {
    case CR_TV_STRING:
        *out = cr_hash(key->as.s->data, key->as.s->size);
        return true;
    case CR_TV_BOOL:
    case CR_TV_INT:
    case CR_TV_FLOAT:
        number = cr_tv_to_float(key) + 0.0; /* -0.0 is 0.0 */
        *out = cr_hash(&number, sizeof number);
        return true;
    case CR_TV_NONE:
    case CR_TV_UNDEFINED:
        *out = key->kind;
        return true;
    case CR_TV_TUPLE:
        *out = key->as.list->n;
        if (!cr_interp_enter(t))
            return false;
        for (size_t i = 0; i < key->as.list->n; i++) {
            uint64_t part;
            if (!hash_key(t, &key->as.list->items[i], &part))
                return false;
            *out = *out * 31 + part;
        }
        cr_interp_leave(t);
        return cr_interp_work(t, key->as.list->n);
    default:
        return cr_interp_fail(t, "a %s cannot be a key", cr_tv_type(key));
    }
}

/* The index of a key, or dict->n. */
static bool find_key(cr_interp *t, const cr_tdict *dict, const cr_tv *key, size_t *at)
{
    uint64_t hash;
    bool equal = false;
    if (!hash_key(t, key, &hash))
        return false;
    if (dict->slots == NULL) {
        for (*at = 0; *at < dict->n; ++*at) {
            if (!cr_tv_equals(t, &dict->keys[*at], key, &equal))
                return false;
            if (equal)
                return true;
        }
        return true;
    }
    size_t mask = ((size_t)1 << dict->slot_bits) - 1;
    for (size_t slot = hash & mask; dict->slots[slot] != 0; slot = (slot + 1) & mask) {
        *at = dict->slots[slot] - 1;
        if (!cr_tv_equals(t, &dict->keys[*at], key, &equal) || equal)
            return equal;
    }
    *at = dict->n;
    return true;
}

/* A table of slots for twice the keys. */
static bool index_keys(cr_interp *t, cr_tdict *dict)
{
    int bits = 5;
    while (((size_t)1 << bits) < dict->room * 2)
        bits++;
    uint32_t *slots = cr_interp_alloc(t, (size_t)1 << bits, sizeof *slots);
    if (slots == NULL)
        return false;
    size_t mask = ((size_t)1 << bits) - 1;
    for (size_t i = 0; i < dict->n; i++) {
        uint64_t hash;
        if (!hash_key(t, &dict->keys[i], &hash))
            return false;
        size_t slot = hash & mask;
        while (slots[slot] != 0)
            slot = (slot + 1) & mask;
        slots[slot] = (uint32_t)i + 1;
    }
    dict->slots = slots;
    dict->slot_bits = bits;
    return true;
}

bool cr_tdict_set(cr_interp *t, cr_tdict *dict, cr_tv key, cr_tv value)
{
    size_t at;
    if (!find_key(t, dict, &key, &at))
        return false;
    if (at < dict->n) {
        dict->values[at] = value;
        return true;
    }
    if (dict->n == dict->room) {
        size_t room = dict->room == 0 ? DICT_SMALL : dict->room * 2;
        if (room > UINT32_MAX / 2)
            return cr_interp_limit(t, "dict: too many keys");
        cr_tv *keys = cr_interp_alloc(t, room, sizeof *keys);
        cr_tv *values = keys != NULL ? cr_interp_alloc(t, room, sizeof *values) : NULL;
        if (values == NULL)
            return false;
        if (dict->n > 0) {
            memcpy(keys, dict->keys, dict->n * sizeof *keys);
            memcpy(values, dict->values, dict->n * sizeof *values);
        }
        dict->keys = keys;
        dict->values = values;
        dict->room = room;
        if (room > DICT_SMALL && !index_keys(t, dict))
            return false;
    }
    if (dict->slots != NULL) {
        uint64_t hash;
        if (!hash_key(t, &key, &hash))
            return false;
        size_t mask = ((size_t)1 << dict->slot_bits) - 1, slot = hash & mask;
        while (dict->slots[slot] != 0)
            slot = (slot + 1) & mask;
        dict->slots[slot] = (uint32_t)dict->n + 1;
    }
    dict->keys[dict->n] = key;
    dict->values[dict->n++] = value;
    return true;
}

bool cr_tdict_get(cr_interp *t, const cr_tdict *dict, const cr_tv *key, cr_tv **out)
{
    size_t at;
    if (!find_key(t, dict, key, &at))
        return false;
    *out = at < dict->n ? &dict->values[at] : NULL;
    return true;
}

cr_tv *cr_tdict_get_text(const cr_tdict *dict, const char *name)
{
    for (size_t i = 0; i < dict->n; i++)
        if (dict->keys[i].kind == CR_TV_STRING && cr_tstr_is(dict->keys[i].as.s, name))
            return &dict->values[i];
    return NULL;
}

/* ---- asking -------------------------------------------------------------------------------- */

const char *cr_tv_type(const cr_tv *v)
{
    static const char *const names[] = {
        [CR_TV_MISSING] = "missing",   [CR_TV_UNDEFINED] = "undefined value",
        [CR_TV_NONE] = "none",         [CR_TV_BOOL] = "boolean",
        [CR_TV_INT] = "integer",       [CR_TV_FLOAT] = "float",
        [CR_TV_STRING] = "string",     [CR_TV_LIST] = "list",
        [CR_TV_TUPLE] = "tuple",       [CR_TV_DICT] = "dict",
        [CR_TV_RANGE] = "range",       [CR_TV_VIEW] = "view of a dict",
        [CR_TV_ITER] = "iterator",     [CR_TV_NAMESPACE] = "namespace",
        [CR_TV_MACRO] = "macro",       [CR_TV_LOOP] = "loop",
        [CR_TV_CYCLER] = "cycler",     [CR_TV_JOINER] = "joiner",
        [CR_TV_FUNCTION] = "function", [CR_TV_METHOD] = "method",
    };
    return names[v->kind];
}

bool cr_tv_truth(const cr_tv *v)
{
    size_t n;
    switch (v->kind) {
    case CR_TV_MISSING:
    case CR_TV_UNDEFINED:
    case CR_TV_NONE:
        return false;
    case CR_TV_BOOL:
        return v->as.b;
    case CR_TV_INT:
        return v->as.i != 0;
    case CR_TV_FLOAT:
        return v->as.f != 0;
    default:
        return !cr_tv_length(v, &n) || n > 0;
    }
}

bool cr_tv_to_int(const cr_tv *v, int64_t *out)
{
    if (v->kind != CR_TV_BOOL && v->kind != CR_TV_INT)
        return false;
    *out = v->kind == CR_TV_BOOL ? v->as.b : v->as.i;
    return true;
}

double cr_tv_to_float(const cr_tv *v)
{
    int64_t i;
    return cr_tv_to_int(v, &i) ? (double)i : v->as.f;
}

bool cr_tstr_is(const cr_tstr *s, const char *text)
{
    return cr_str_is(cr_tstr_bytes(s), text);
}

bool cr_tv_length(const cr_tv *v, size_t *out)
{
    switch (v->kind) {
    case CR_TV_STRING:
        *out = cr_tstr_count(v->as.s);
        return true;
    case CR_TV_LIST:
    case CR_TV_TUPLE:
    case CR_TV_VIEW:
        *out = v->as.list->n;
        return true;
    case CR_TV_DICT:
        *out = v->as.dict->n;
        return true;
    case CR_TV_RANGE:
        *out = (size_t)v->as.range->n;
        return true;
    case CR_TV_UNDEFINED:
        *out = 0;
        return true;
    default:
        return false;
    }
}

bool cr_tv_can_walk(const cr_tv *v)
{
    size_t n;
    return v->kind == CR_TV_ITER || v->kind == CR_TV_LOOP || cr_tv_length(v, &n);
}

static bool walk_string(cr_interp *t, const cr_tstr *s, cr_tlist *out)
{
    size_t n = cr_tstr_count(s);
    cr_tv *items = cr_interp_alloc(t, n, sizeof *items);
    cr_tstr *parts = items != NULL ? cr_interp_alloc(t, n, sizeof *parts) : NULL;
    if (parts == NULL)
        return false;
    uint32_t code;
    for (size_t i = 0, at = 0; i < n; i++) {
        size_t length = cr_tstr_at(s, at, &code);
        parts[i] = cr_tstr_part(s, at, at + length);
        parts[i].safe = false;
        items[i] = (cr_tv){ .kind = CR_TV_STRING, .as.s = &parts[i] };
        at += length;
    }
    *out = (cr_tlist){ items, n };
    return true;
}

bool cr_tv_walk(cr_interp *t, const cr_tv *v, cr_tlist *out)
{
    switch (v->kind) {
    case CR_TV_UNDEFINED:
        *out = (cr_tlist){ NULL, 0 };
        return true;
    case CR_TV_STRING:
        return walk_string(t, v->as.s, out);
    case CR_TV_LIST:
    case CR_TV_TUPLE:
    case CR_TV_VIEW:
        *out = *v->as.list;
        return true;
    case CR_TV_DICT:
        *out = (cr_tlist){ v->as.dict->keys, v->as.dict->n };
        return true;
    case CR_TV_ITER: {
        cr_titer *iter = v->as.iter;
        *out = (cr_tlist){ NULL, iter->list.n - iter->at };
        if (out->n > 0)
            out->items = iter->list.items + iter->at;
        iter->at = iter->list.n;
        return true;
    }
    case CR_TV_RANGE: {
        size_t n = (size_t)v->as.range->n;
        cr_tv *items = cr_interp_alloc(t, n, sizeof *items);
        if (items == NULL)
            return false;
        for (size_t i = 0; i < n; i++)
            items[i] = cr_tv_int(v->as.range->start + (int64_t)i * v->as.range->step);
        *out = (cr_tlist){ items, n };
        return true;
    }
    default:
        return cr_interp_fail(t, "a %s cannot be iterated over", cr_tv_type(v));
    }
}

/* ---- comparing ----------------------------------------------------------------------------- */

/* Python compares integers and floats exactly. Sign of a - b; 2 when b is not a number. */
static int compare_int_float(int64_t a, double b)
{
    if (isnan(b))
        return 2;
    if (b >= 9223372036854775808.0)
        return -1;
    if (b < -9223372036854775808.0)
        return 1;
    int64_t whole = (int64_t)b;
    if (a != whole)
        return a < whole ? -1 : 1;
    double rest = b - (double)whole;
    return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

static int compare_numbers(const cr_tv *a, const cr_tv *b)
{
    int64_t i, j;
    bool a_int = cr_tv_to_int(a, &i), b_int = cr_tv_to_int(b, &j);
    if (a_int && b_int)
        return i < j ? -1 : i > j;
    if (a_int)
        return compare_int_float(i, b->as.f);
    if (b_int) {
        int sign = compare_int_float(j, a->as.f);
        return sign == 2 ? 2 : -sign;
    }
    if (isnan(a->as.f) || isnan(b->as.f))
        return 2;
    return a->as.f < b->as.f ? -1 : a->as.f > b->as.f;
}

static int compare_strings(const cr_tstr *a, const cr_tstr *b)
{
    size_t n = CR_MIN(a->size, b->size);
    int sign = n > 0 ? memcmp(a->data, b->data, n) : 0;
    if (sign == 0)
        sign = a->size < b->size ? -1 : a->size > b->size;
    return sign < 0 ? -1 : sign > 0;
}

static bool equal_lists(cr_interp *t, const cr_tlist *a, const cr_tlist *b, bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++)
        if (!cr_tv_equals(t, &a->items[i], &b->items[i], out))
            return false;
    return true;
}

static bool equal_dicts(cr_interp *t, const cr_tdict *a, const cr_tdict *b, bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++) {
        cr_tv *other;
        if (!cr_tdict_get(t, b, &a->keys[i], &other))
            return false;
        *out = other != NULL;
        if (*out && !cr_tv_equals(t, &a->values[i], other, out))
            return false;
    }
    return true;
}

bool cr_tv_equals(cr_interp *t, const cr_tv *a, const cr_tv *b, bool *out)
{
    if (!cr_interp_work(t, 8))
        return false;
    *out = false;
    if (cr_tv_is_number(a) && cr_tv_is_number(b)) {
        *out = compare_numbers(a, b) == 0;
        return true;
    }
    if (a->kind != b->kind)
        return true;
    bool ok = true;
    switch (a->kind) {
    case CR_TV_UNDEFINED:
    case CR_TV_NONE:
        *out = true;
        return true;
    case CR_TV_STRING:
        if (a->as.s->size != b->as.s->size)
            return true;
        *out = compare_strings(a->as.s, b->as.s) == 0;
        return cr_interp_work(t, a->as.s->size);
    case CR_TV_LIST:
    case CR_TV_TUPLE:
        if (!cr_interp_enter(t))
            return false;
        ok = equal_lists(t, a->as.list, b->as.list, out);
        cr_interp_leave(t);
        return ok;
    case CR_TV_DICT:
        if (!cr_interp_enter(t))
            return false;
        ok = equal_dicts(t, a->as.dict, b->as.dict, out);
        cr_interp_leave(t);
        return ok;
    case CR_TV_RANGE:
        *out = a->as.range->n == b->as.range->n &&
               (a->as.range->n == 0 || a->as.range->start == b->as.range->start) &&
               (a->as.range->n < 2 || a->as.range->step == b->as.range->step);
        return true;
    case CR_TV_FUNCTION:
        *out = a->detail == b->detail;
        return true;
    case CR_TV_METHOD:
        *out = a->as.method == b->as.method;
        return true;
    default:
        *out = a->as.list == b->as.list; /* the same object */
        return true;
    }
}

bool cr_tv_compare(cr_interp *t, const cr_tv *a, const cr_tv *b, int *out)
{
    if (!cr_interp_work(t, 8))
        return false;
    if (cr_tv_is_number(a) && cr_tv_is_number(b)) {
        *out = compare_numbers(a, b);
        return true;
    }
    if (a->kind == CR_TV_STRING && b->kind == CR_TV_STRING) {
        *out = compare_strings(a->as.s, b->as.s);
        return cr_interp_work(t, CR_MIN(a->as.s->size, b->as.s->size));
    }
    if (a->kind != b->kind || (a->kind != CR_TV_LIST && a->kind != CR_TV_TUPLE))
        return cr_interp_fail(t, "a %s and a %s cannot be ordered", cr_tv_type(a), cr_tv_type(b));
    const cr_tlist *x = a->as.list, *y = b->as.list;
    if (!cr_interp_enter(t))
        return false;
    for (size_t i = 0; i < CR_MIN(x->n, y->n); i++) {
        bool equal;
        if (!cr_tv_equals(t, &x->items[i], &y->items[i], &equal))
            return false;
        if (!equal) {
            bool ok = cr_tv_compare(t, &x->items[i], &y->items[i], out);
            cr_interp_leave(t);
            return ok;
        }
    }
    cr_interp_leave(t);
    *out = x->n < y->n ? -1 : x->n > y->n;
    return true;
}

bool cr_tv_contains(cr_interp *t, const cr_tv *item, const cr_tv *in, bool *out)
{
    *out = false;
    if (in->kind == CR_TV_STRING) {
        if (item->kind != CR_TV_STRING)
            return cr_interp_fail(t, "in: expected a string on the left of a string, found a %s",
                                  cr_tv_type(item));
        size_t at;
        if (!cr_tstr_find(t, in->as.s, item->as.s, 0, in->as.s->size, false, &at))
            return false;
        *out = at != SIZE_MAX;
        return true;
    }
    if (in->kind == CR_TV_DICT) {
        cr_tv *found;
        if (!cr_tdict_get(t, in->as.dict, item, &found))
            return false;
        *out = found != NULL;
        return true;
    }
    cr_tlist list;
    if (!cr_tv_walk(t, in, &list))
        return false;
    for (size_t i = 0; !*out && i < list.n; i++)
        if (!cr_tv_equals(t, item, &list.items[i], out))
            return false;
    return true;
}

/* ---- printing ------------------------------------------------------------------------------ */

void cr_tv_float_text(double value, char out[CR_FLOAT_ROOM])
{
    char digits[CR_F64_DIGITS + 1];
    int exponent;
    if (isnan(value) || isinf(value)) {
        snprintf(out, CR_FLOAT_ROOM, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    int n = cr_format_f64(value, digits, &exponent);
    size_t at = 0;
    if (signbit(value))
        out[at++] = '-';
    /* 0.d1d2d3... * 10^(exponent + 1) */
    if (exponent < -4 || exponent >= 16) {
        out[at++] = digits[0];
        if (n > 1)
            out[at++] = '.';
        memcpy(out + at, digits + 1, (size_t)n - 1);
        at += (size_t)n - 1;
        snprintf(out + at, CR_FLOAT_ROOM - at, "e%c%02d", exponent < 0 ? '-' : '+',
                 exponent < 0 ? -exponent : exponent);
        return;
    }
    for (int i = CR_MIN(exponent, 0); i < CR_MAX(n, exponent + 2); i++) {
        if (i == exponent + 1)
            out[at++] = '.';
        out[at++] = i >= 0 && i < n ? digits[i] : '0';
    }
    out[at] = '\0';
}

static bool print_list(cr_interp *t, const cr_tlist *list, const char *begin, const char *end,
                       cr_tbuf *out)
{
    if (!cr_tbuf_text(t, out, begin))
        return false;
    for (size_t i = 0; i < list->n; i++)
        if ((i > 0 && !cr_tbuf_text(t, out, ", ")) || !cr_tv_repr(t, &list->items[i], out))
            return false;
    return cr_tbuf_text(t, out, end);
}

static bool print_dict(cr_interp *t, const cr_tdict *dict, cr_tbuf *out)
{
    if (!cr_tbuf_text(t, out, "{"))
        return false;
    for (size_t i = 0; i < dict->n; i++)
        if ((i > 0 && !cr_tbuf_text(t, out, ", ")) || !cr_tv_repr(t, &dict->keys[i], out) ||
            !cr_tbuf_text(t, out, ": ") || !cr_tv_repr(t, &dict->values[i], out))
            return false;
    return cr_tbuf_text(t, out, "}");
}

static bool print_range(cr_interp *t, const cr_trange *r, cr_tbuf *out)
{
    char text[96];
    snprintf(text, sizeof text, "range(%lld, %lld", (long long)r->start, (long long)r->stop);
    if (r->step != 1)
        snprintf(text + strlen(text), sizeof text - strlen(text), ", %lld", (long long)r->step);
    return cr_tbuf_text(t, out, text) && cr_tbuf_text(t, out, ")");
}

static bool print_other(cr_interp *t, const cr_tv *v, cr_tbuf *out)
{
    static const char *const views[] = { "dict_keys([", "dict_values([", "dict_items([" };
    char text[CR_FLOAT_ROOM];
    switch (v->kind) {
    case CR_TV_NONE:
        return cr_tbuf_text(t, out, "None");
    case CR_TV_BOOL:
        return cr_tbuf_text(t, out, v->as.b ? "True" : "False");
    case CR_TV_INT:
        snprintf(text, sizeof text, "%lld", (long long)v->as.i);
        return cr_tbuf_text(t, out, text);
    case CR_TV_FLOAT:
        cr_tv_float_text(v->as.f, text);
        return cr_tbuf_text(t, out, text);
    case CR_TV_LIST:
        return print_list(t, v->as.list, "[", "]", out);
    case CR_TV_TUPLE:
        return print_list(t, v->as.list, "(", v->as.list->n == 1 ? ",)" : ")", out);
    case CR_TV_DICT:
        return print_dict(t, v->as.dict, out);
    case CR_TV_VIEW:
        return print_list(t, v->as.list, views[v->detail], "])", out);
    case CR_TV_RANGE:
        return print_range(t, v->as.range, out);
    case CR_TV_NAMESPACE:
        return cr_tbuf_text(t, out, "<Namespace ") && print_dict(t, v->as.dict, out) &&
               cr_tbuf_text(t, out, ">");
    default:
        /* Python prints an address, which no template can mean. */
        return cr_tbuf_text(t, out, "<") && cr_tbuf_text(t, out, cr_tv_type(v)) &&
               cr_tbuf_text(t, out, ">");
    }
}

static bool repr_string(cr_interp *t, const cr_tstr *s, cr_tbuf *out)
{
    bool single = memchr(s->data, '\'', s->size) != NULL;
    char quote = single && memchr(s->data, '"', s->size) == NULL ? '"' : '\'';
    if (s->safe && !cr_tbuf_text(t, out, "Markup("))
        return false;
    if (!cr_tbuf_bytes(t, out, &quote, 1, CR_FROM_TEMPLATE))
        return false;
    for (size_t i = 0; i < s->size;) {
        uint32_t code;
        size_t length = cr_tstr_at(s, i, &code);
        char text[16] = "";
        if (code == '\\' || code == (unsigned char)quote)
            snprintf(text, sizeof text, "\\%c", (char)code);
        else if (code == '\n' || code == '\r' || code == '\t')
            snprintf(text, sizeof text, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
        else if (!cr_char_is_printable(code))
            snprintf(text, sizeof text,
                     code < 0x100     ? "\\x%02x"
                     : code < 0x10000 ? "\\u%04x"
                                      : "\\U%08x",
                     (unsigned)code);
        cr_tstr part = cr_tstr_part(s, i, i + length);
        bool ok = text[0] != '\0' ? cr_tbuf_text(t, out, text) : cr_tbuf_add(t, out, &part);
        if (!ok)
            return false;
        i += length;
    }
    return cr_tbuf_bytes(t, out, &quote, 1, CR_FROM_TEMPLATE) &&
           (!s->safe || cr_tbuf_text(t, out, ")"));
}

bool cr_tv_repr(cr_interp *t, const cr_tv *v, cr_tbuf *out)
{
    if (!cr_interp_enter(t))
        return false;
    bool ok = v->kind == CR_TV_STRING      ? repr_string(t, v->as.s, out)
              : v->kind == CR_TV_UNDEFINED ? cr_tbuf_text(t, out, "Undefined")
                                           : print_other(t, v, out);
    cr_interp_leave(t);
    return ok;
}

bool cr_tv_print(cr_interp *t, const cr_tv *v, cr_tbuf *out)
{
    if (v->kind == CR_TV_STRING)
        return cr_tbuf_add(t, out, v->as.s);
    if (v->kind == CR_TV_UNDEFINED)
        return true;
    if (!cr_interp_enter(t))
        return false;
    bool ok = print_other(t, v, out);
    cr_interp_leave(t);
    return ok;
}

bool cr_tv_str(cr_interp *t, const cr_tv *v, const cr_tstr **out)
{
    if (v->kind == CR_TV_STRING) {
        *out = v->as.s;
        return true;
    }
    cr_tbuf buf = { 0 };
    cr_tv text;
    if (!cr_tv_print(t, v, &buf) || !cr_tbuf_done(t, &buf, &text))
        return false;
    *out = text.as.s;
    return true;
}

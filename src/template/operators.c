/* Operators on values: arithmetic, "%" formatting, items, attributes and slices. */
#include "template/syntax.h"

#include <math.h>
#include <stdio.h>

/* ---- integers of 64 bits -------------------------------------------------------------------- */

static bool overflow(cr_interp *t)
{
    return cr_interp_fail(t, "an integer is out of the range of 64 bits");
}

static bool add_int(cr_interp *t, int64_t a, int64_t b, cr_tv *out)
{
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b)
        return overflow(t);
    *out = cr_tv_int(a + b);
    return true;
}

static bool sub_int(cr_interp *t, int64_t a, int64_t b, cr_tv *out)
{
    if (b < 0 ? a > INT64_MAX + b : a < INT64_MIN + b)
        return overflow(t);
    *out = cr_tv_int(a - b);
    return true;
}

static bool mul_int(cr_interp *t, int64_t a, int64_t b, cr_tv *out)
{
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    uint64_t limit = (uint64_t)INT64_MAX + ((a < 0) != (b < 0) ? 1 : 0);
    if (x != 0 && y > limit / x)
        return overflow(t);
    uint64_t product = x * y;
    *out = cr_tv_int((a < 0) != (b < 0) ? (int64_t)(0 - product) : (int64_t)product);
    return true;
}

/* Python rounds down; the remainder has the sign of b. */
static bool divide_int(cr_interp *t, int64_t a, int64_t b, bool remainder, cr_tv *out)
{
    if (b == 0)
        return cr_interp_fail(t, "division by zero");
    if (b == -1)
        return remainder ? (*out = cr_tv_int(0), true) : sub_int(t, 0, a, out);
    int64_t quotient = a / b, rest = a % b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
        quotient--;
        rest += b;
    }
    *out = cr_tv_int(remainder ? rest : quotient);
    return true;
}

static bool pow_int(cr_interp *t, int64_t a, int64_t b, cr_tv *out)
{
    *out = cr_tv_int(1);
    if (a == 0 || a == 1) {
        *out = cr_tv_int(b == 0 ? 1 : a);
        return true;
    }
    if (a == -1) {
        *out = cr_tv_int(b % 2 == 0 ? 1 : -1);
        return true;
    }
    for (; b > 0; b--)
        if (!mul_int(t, out->as.i, a, out))
            return false;
    return true;
}

/* ---- doubles -------------------------------------------------------------------------------- */

static bool divide_float(cr_interp *t, double a, double b, bool remainder, cr_tv *out)
{
    if (b == 0)
        return cr_interp_fail(t, "division by zero");
    double rest = fmod(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
        rest += b;
        quotient -= 1;
    } else if (rest == 0) {
        rest = copysign(0.0, b);
    }
    double whole = quotient == 0 ? copysign(0.0, a / b) : floor(quotient);
    if (quotient - whole > 0.5)
        whole += 1;
    *out = cr_tv_float(remainder ? rest : whole);
    return true;
}

static bool pow_float(cr_interp *t, double a, double b, cr_tv *out)
{
    if (a == 0 && b < 0)
        return cr_interp_fail(t, "0 cannot be raised to a negative power");
    double power = pow(a, b);
    if (isinf(power) && !isinf(a) && !isinf(b))
        return cr_interp_fail(t, "a float is too large");
    if (isnan(power) && !isnan(a) && !isnan(b))
        return cr_interp_fail(t, "a negative number cannot be raised to a fraction");
    *out = cr_tv_float(power);
    return true;
}

static bool numbers(cr_interp *t, int op, const cr_tv *a, const cr_tv *b, cr_tv *out)
{
    int64_t i, j;
    if (cr_tv_to_int(a, &i) && cr_tv_to_int(b, &j) && op != CR_TOK_DIV) {
        switch (op) {
        case CR_TOK_ADD:
            return add_int(t, i, j, out);
        case CR_TOK_SUB:
            return sub_int(t, i, j, out);
        case CR_TOK_MUL:
            return mul_int(t, i, j, out);
        case CR_TOK_POW:
            return j < 0 ? pow_float(t, (double)i, (double)j, out) : pow_int(t, i, j, out);
        default:
            return divide_int(t, i, j, op == CR_TOK_MOD, out);
        }
    }
    double x = cr_tv_to_float(a), y = cr_tv_to_float(b);
    switch (op) {
    case CR_TOK_ADD:
        *out = cr_tv_float(x + y);
        return true;
    case CR_TOK_SUB:
        *out = cr_tv_float(x - y);
        return true;
    case CR_TOK_MUL:
        *out = cr_tv_float(x * y);
        return true;
    case CR_TOK_DIV:
        if (y == 0)
            return cr_interp_fail(t, "division by zero");
        *out = cr_tv_float(x / y);
        return true;
    case CR_TOK_POW:
        return pow_float(t, x, y, out);
    default:
        return divide_float(t, x, y, op == CR_TOK_MOD, out);
    }
}

bool cr_tv_negate(cr_interp *t, const cr_tv *a, cr_tv *out)
{
    int64_t i;
    if (cr_tv_to_int(a, &i))
        return sub_int(t, 0, i, out);
    if (a->kind != CR_TV_FLOAT)
        return cr_interp_fail(t, "-: expected a number, found a %s", cr_tv_type(a));
    *out = cr_tv_float(-a->as.f);
    return true;
}

/* ---- sequences ------------------------------------------------------------------------------ */

static bool repeat(cr_interp *t, const cr_tv *what, int64_t count, cr_tv *out)
{
    size_t n = count > 0 ? (size_t)count : 0;
    if (what->kind == CR_TV_STRING) {
        const cr_tstr *s = what->as.s;
        cr_tbuf buf = { 0 };
        if (s->size == 0)
            n = 0;
        else if (n > t->max_memory / s->size)
            return cr_interp_limit(t, "memory: expected at most %zu bytes, the template needs more",
                                   t->max_memory);
        if (!cr_tbuf_reserve(t, &buf, n * s->size))
            return false;
        for (size_t i = 0; i < n; i++)
            if (!cr_tbuf_add(t, &buf, s))
                return false;
        cr_tstr made = { .data = buf.data, .marks = buf.marks, .size = buf.size, .safe = s->safe };
        return cr_tv_string(t, made, out);
    }
    const cr_tlist *list = what->as.list;
    if (list->n > 0 && n > t->max_memory / list->n)
        n = t->max_memory; /* more than there is */
    cr_tv *items = cr_interp_alloc(t, n * list->n, sizeof *items);
    if (items == NULL)
        return false;
    for (size_t i = 0; i < n && list->n > 0; i++)
        memcpy(items + i * list->n, list->items, list->n * sizeof *items);
    return cr_tv_list(t, what->kind, items, n * list->n, out);
}

static bool concat_lists(cr_interp *t, const cr_tv *a, const cr_tv *b, cr_tv *out)
{
    const cr_tlist *x = a->as.list, *y = b->as.list;
    cr_tv *items = cr_interp_alloc(t, x->n + y->n, sizeof *items);
    if (items == NULL)
        return false;
    if (x->n > 0)
        memcpy(items, x->items, x->n * sizeof *items);
    if (y->n > 0)
        memcpy(items + x->n, y->items, y->n * sizeof *items);
    return cr_tv_list(t, a->kind, items, x->n + y->n, out);
}

static bool is_sequence(const cr_tv *v)
{
    return v->kind == CR_TV_STRING || v->kind == CR_TV_LIST || v->kind == CR_TV_TUPLE;
}

bool cr_tv_binary(cr_interp *t, int op, const cr_tv *a, const cr_tv *b, cr_tv *out)
{
    static const char *const signs[] = { "//", "**", "", "", "", "", "+", "-", "/", "*", "%" };
    int64_t n;
    if (cr_tv_is_number(a) && cr_tv_is_number(b))
        return numbers(t, op, a, b, out);
    if (op == CR_TOK_MOD && a->kind == CR_TV_STRING)
        return cr_tv_format(t, a->as.s, b, out);
    if (op == CR_TOK_ADD && a->kind == b->kind && is_sequence(a))
        return a->kind == CR_TV_STRING ? cr_tstr_concat(t, a->as.s, b->as.s, out)
                                       : concat_lists(t, a, b, out);
    if (op == CR_TOK_MUL && is_sequence(a) && cr_tv_to_int(b, &n))
        return repeat(t, a, n, out);
    if (op == CR_TOK_MUL && is_sequence(b) && cr_tv_to_int(a, &n))
        return repeat(t, b, n, out);
    const cr_tv *undefined = a->kind == CR_TV_UNDEFINED ? a : b;
    if (undefined->kind == CR_TV_UNDEFINED && undefined->as.name != NULL)
        return cr_interp_fail(t, "%s: \"%s\" is undefined", signs[op - CR_TOK_FLOORDIV],
                              undefined->as.name);
    return cr_interp_fail(t, "%s: a %s and a %s do not go together", signs[op - CR_TOK_FLOORDIV],
                          cr_tv_type(a), cr_tv_type(b));
}

/* ---- items and attributes ------------------------------------------------------------------- */

static bool fail_undefined(cr_interp *t, const cr_tv *v)
{
    if (v->as.name != NULL)
        return cr_interp_fail(t, "\"%s\" is undefined", v->as.name);
    return cr_interp_fail(t, "the value is undefined");
}

/* Index i of n from either end; false when it is outside. */
static bool fold_index(int64_t i, size_t n, size_t *out)
{
    if (i < 0)
        i += (int64_t)n;
    *out = (size_t)i;
    return i >= 0 && i < (int64_t)n;
}

/* a[key] without falling back on attributes: MISSING when there is none. */
static bool find_item(cr_interp *t, const cr_tv *a, const cr_tv *key, cr_tv *out)
{
    int64_t i;
    size_t at, n;
    *out = (cr_tv){ .kind = CR_TV_MISSING };
    if (a->kind == CR_TV_UNDEFINED)
        return fail_undefined(t, a);
    if (a->kind == CR_TV_DICT) {
        cr_tv *found = NULL;
        bool can = key->kind == CR_TV_STRING || key->kind == CR_TV_NONE || cr_tv_is_number(key) ||
                   key->kind == CR_TV_TUPLE || key->kind == CR_TV_UNDEFINED;
        if (can && !cr_tdict_get(t, a->as.dict, key, &found))
            return false;
        if (found != NULL)
            *out = *found;
        return true;
    }
    bool by_index = is_sequence(a) || a->kind == CR_TV_RANGE;
    if (!by_index || !cr_tv_to_int(key, &i) || !cr_tv_length(a, &n) || !fold_index(i, n, &at))
        return true;
    if (a->kind == CR_TV_RANGE) {
        *out = cr_tv_int(a->as.range->start + (int64_t)at * a->as.range->step);
        return true;
    }
    if (a->kind != CR_TV_STRING) {
        *out = a->as.list->items[at];
        return true;
    }
    uint32_t code;
    size_t begin = cr_tstr_offset(a->as.s, at);
    return cr_interp_work(t, n) &&
           cr_tv_string(t, cr_tstr_part(a->as.s, begin, begin + cr_tstr_at(a->as.s, begin, &code)),
                        out);
}

/* A name for the error that using an undefined value gives. */
static cr_tv undefined_named(cr_interp *t, cr_str name)
{
    char *text = cr_interp_alloc(t, name.size + 1, 1);
    if (text != NULL)
        memcpy(text, name.data, name.size);
    return cr_tv_undefined(text);
}

static bool find_attr(cr_interp *t, const cr_tv *a, cr_str name, cr_tv *out)
{
    *out = (cr_tv){ .kind = CR_TV_MISSING };
    if (a->kind == CR_TV_NAMESPACE) {
        cr_tstr s = { .data = name.data, .size = name.size };
        cr_tv key = { .kind = CR_TV_STRING, .as.s = &s }, *found;
        if (!cr_tdict_get(t, a->as.dict, &key, &found))
            return false;
        if (found != NULL)
            *out = *found;
        return true;
    }
    if (!cr_render_attr(t, a, name, out))
        return false;
    if (out->kind == CR_TV_MISSING)
        *out = cr_method_find(t, a, name);
    return t->status == CERA_OK;
}

bool cr_tv_item(cr_interp *t, const cr_tv *a, const cr_tv *key, cr_tv *out)
{
    if (!find_item(t, a, key, out))
        return false;
    if (out->kind == CR_TV_MISSING && key->kind == CR_TV_STRING &&
        !find_attr(t, a, cr_tstr_bytes(key->as.s), out))
        return false;
    if (out->kind == CR_TV_MISSING)
        *out = key->kind == CR_TV_STRING ? undefined_named(t, cr_tstr_bytes(key->as.s))
                                         : cr_tv_undefined(NULL);
    return t->status == CERA_OK;
}

bool cr_tv_attr(cr_interp *t, const cr_tv *a, cr_str name, cr_tv *out)
{
    if (a->kind == CR_TV_UNDEFINED)
        return fail_undefined(t, a);
    if (!find_attr(t, a, name, out))
        return false;
    cr_tstr s = { .data = name.data, .size = name.size };
    cr_tv key = { .kind = CR_TV_STRING, .as.s = &s };
    if (out->kind == CR_TV_MISSING && !find_item(t, a, &key, out))
        return false;
    if (out->kind == CR_TV_MISSING)
        *out = undefined_named(t, name);
    return t->status == CERA_OK;
}

bool cr_tv_slice(cr_interp *t, const cr_tv *a, const cr_tv bounds[3], cr_tv *out)
{
    int64_t given[3];
    for (int i = 0; i < 3; i++)
        if (bounds[i].kind != CR_TV_NONE && !cr_tv_to_int(&bounds[i], &given[i]))
            return cr_interp_fail(t, "slice: expected integers, found a %s",
                                  cr_tv_type(&bounds[i]));
    if (a->kind == CR_TV_UNDEFINED)
        return fail_undefined(t, a);
    size_t length;
    if (!(is_sequence(a) || a->kind == CR_TV_RANGE) || !cr_tv_length(a, &length))
        return cr_interp_fail(t, "a %s cannot be sliced", cr_tv_type(a));
    int64_t n = (int64_t)length, step = bounds[2].kind == CR_TV_NONE ? 1 : given[2];
    if (step == 0)
        return cr_interp_fail(t, "slice: a step of zero");
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    int64_t edge[2] = { step < 0 ? high : low, step < 0 ? low : high };
    for (int i = 0; i < 2; i++) {
        if (bounds[i].kind == CR_TV_NONE)
            continue;
        int64_t at = given[i] < 0 ? given[i] + n : given[i];
        edge[i] = given[i] < 0 && at < 0 ? low : CR_MIN(CR_MAX(at, low), high);
    }
    int64_t from = edge[0], to = edge[1];
    /* How many: unsigned, because a step may be as large as it likes. */
    uint64_t distance = step > 0 ? (from < to ? (uint64_t)(to - from) : 0)
                                 : (from > to ? (uint64_t)(from - to) : 0);
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    size_t count = (size_t)(distance == 0 ? 0 : (distance - 1) / stride + 1);
    if (a->kind == CR_TV_STRING && step == 1) {
        if (!cr_interp_work(t, length))
            return false;
        size_t begin = cr_tstr_offset(a->as.s, (size_t)from);
        cr_tstr rest = cr_tstr_part(a->as.s, begin, a->as.s->size);
        size_t size = cr_tstr_offset(&rest, count);
        return cr_tv_string(t, cr_tstr_part(&rest, 0, size), out);
    }
    cr_tlist list;
    if (!cr_tv_walk(t, a, &list))
        return false;
    if (a->kind == CR_TV_STRING) {
        cr_tbuf buf = { 0 };
        for (size_t i = 0; i < count; i++)
            if (!cr_tbuf_add(t, &buf, list.items[from + (int64_t)i * step].as.s))
                return false;
        return cr_tbuf_done(t, &buf, out);
    }
    cr_tv *items = cr_interp_alloc(t, count, sizeof *items);
    if (items == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        items[i] = list.items[from + (int64_t)i * step];
    return cr_tv_list(t, a->kind == CR_TV_TUPLE ? CR_TV_TUPLE : CR_TV_LIST, items, count, out);
}

/* Tests: what stands behind `is`. */
#include "template/syntax.h"

static bool answer(cr_tv *out, bool b)
{
    *out = cr_tv_bool(b);
    return true;
}

static bool test_defined(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    return answer(out, c->self.kind != CR_TV_UNDEFINED);
}

static bool test_undefined(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    return answer(out, c->self.kind == CR_TV_UNDEFINED);
}

static bool test_none(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    return answer(out, c->self.kind == CR_TV_NONE);
}

static bool test_boolean(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    return answer(out, c->self.kind == CR_TV_BOOL);
}

static bool test_true(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    return answer(out, c->self.kind == CR_TV_BOOL && c->self.as.b);
}

static bool test_false(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    return answer(out, c->self.kind == CR_TV_BOOL && !c->self.as.b);
}

static bool test_integer(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    return answer(out, c->self.kind == CR_TV_INT);
}

static bool test_float(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    return answer(out, c->self.kind == CR_TV_FLOAT);
}

static bool test_number(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    return answer(out, cr_tv_is_number(&c->self));
}

static bool test_string(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    return answer(out, c->self.kind == CR_TV_STRING);
}

static bool test_mapping(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    return answer(out, c->self.kind == CR_TV_DICT);
}

static bool test_sequence(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    size_t n;
    return answer(out, c->self.kind != CR_TV_VIEW && cr_tv_length(&c->self, &n));
}

static bool test_iterable(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    return answer(out, cr_tv_can_walk(&c->self));
}

static bool test_callable(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    cr_tv_kind k = c->self.kind;
    return answer(out, k == CR_TV_MACRO || k == CR_TV_FUNCTION || k == CR_TV_METHOD ||
                           k == CR_TV_UNDEFINED || k == CR_TV_JOINER || k == CR_TV_LOOP);
}

static bool test_escaped(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    return answer(out, c->self.kind == CR_TV_STRING && c->self.as.s->safe);
}

static bool test_filter(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    return answer(out,
                  c->self.kind == CR_TV_STRING && cr_filter_find(cr_tstr_bytes(c->self.as.s)) >= 0);
}

static bool test_test(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    return answer(out,
                  c->self.kind == CR_TV_STRING && cr_test_find(cr_tstr_bytes(c->self.as.s)) >= 0);
}

/* Whether value % divisor == rest. */
static bool leaves(cr_interp *t, const cr_tv *value, cr_tv divisor, int64_t rest, cr_tv *out)
{
    cr_tv found, wanted = cr_tv_int(rest);
    bool equal;
    if (!cr_tv_binary(t, CR_TOK_MOD, value, &divisor, &found) ||
        !cr_tv_equals(t, &found, &wanted, &equal))
        return false;
    return answer(out, equal);
}

static bool test_odd(cr_interp *t, cr_call *c, cr_tv *out)
{
    return leaves(t, &c->self, cr_tv_int(2), 1, out);
}

static bool test_even(cr_interp *t, cr_call *c, cr_tv *out)
{
    return leaves(t, &c->self, cr_tv_int(2), 0, out);
}

static bool test_divisibleby(cr_interp *t, cr_call *c, cr_tv *out)
{
    return leaves(t, &c->self, c->p[0], 0, out);
}

/* str.islower and str.isupper of what str() gives. */
static bool has_case(cr_interp *t, cr_call *c, const char *method, cr_tv *out)
{
    const cr_tstr *s;
    cr_args none = { 0 };
    if (!cr_tv_str(t, &c->self, &s))
        return false;
    cr_tv self = { .kind = CR_TV_STRING, .as.s = s };
    cr_tv found = cr_method_find(t, &self, cr_str_from(method));
    return found.kind == CR_TV_METHOD && cr_method_run(t, found.as.method, &none, out);
}

static bool test_lower(cr_interp *t, cr_call *c, cr_tv *out)
{
    return has_case(t, c, "islower", out);
}

static bool test_upper(cr_interp *t, cr_call *c, cr_tv *out)
{
    return has_case(t, c, "isupper", out);
}

static bool test_eq(cr_interp *t, cr_call *c, cr_tv *out)
{
    bool equal;
    return cr_tv_equals(t, &c->self, &c->p[0], &equal) && answer(out, equal);
}

static bool test_ne(cr_interp *t, cr_call *c, cr_tv *out)
{
    bool equal;
    return cr_tv_equals(t, &c->self, &c->p[0], &equal) && answer(out, !equal);
}

/* The same object: for values that have no identity here, the same kind and value. */
static bool test_sameas(cr_interp *t, cr_call *c, cr_tv *out)
{
    return c->self.kind == c->p[0].kind ? test_eq(t, c, out) : answer(out, false);
}

static bool test_lt(cr_interp *t, cr_call *c, cr_tv *out)
{
    int sign;
    return cr_tv_compare(t, &c->self, &c->p[0], &sign) && answer(out, sign == -1);
}

static bool test_le(cr_interp *t, cr_call *c, cr_tv *out)
{
    int sign;
    return cr_tv_compare(t, &c->self, &c->p[0], &sign) && answer(out, sign <= 0);
}

static bool test_gt(cr_interp *t, cr_call *c, cr_tv *out)
{
    int sign;
    return cr_tv_compare(t, &c->self, &c->p[0], &sign) && answer(out, sign == 1);
}

static bool test_ge(cr_interp *t, cr_call *c, cr_tv *out)
{
    int sign;
    return cr_tv_compare(t, &c->self, &c->p[0], &sign) && answer(out, sign == 0 || sign == 1);
}

static bool test_in(cr_interp *t, cr_call *c, cr_tv *out)
{
    bool found;
    return cr_tv_contains(t, &c->self, &c->p[0], &found) && answer(out, found);
}

static const cr_builtin_row rows[] = {
    { "!=", "b", test_ne },
    { "<", "b", test_lt },
    { "<=", "b", test_le },
    { "==", "b", test_eq },
    { ">", "b", test_gt },
    { ">=", "b", test_ge },
    { "boolean", "", test_boolean },
    { "callable", "", test_callable },
    { "defined", "", test_defined },
    { "divisibleby", "num", test_divisibleby },
    { "eq", "b", test_eq },
    { "equalto", "b", test_eq },
    { "escaped", "", test_escaped },
    { "even", "", test_even },
    { "false", "", test_false },
    { "filter", "", test_filter },
    { "float", "", test_float },
    { "ge", "b", test_ge },
    { "greaterthan", "b", test_gt },
    { "gt", "b", test_gt },
    { "in", "seq", test_in },
    { "integer", "", test_integer },
    { "iterable", "", test_iterable },
    { "le", "b", test_le },
    { "lessthan", "b", test_lt },
    { "lower", "", test_lower },
    { "lt", "b", test_lt },
    { "mapping", "", test_mapping },
    { "ne", "b", test_ne },
    { "none", "", test_none },
    { "number", "", test_number },
    { "odd", "", test_odd },
    { "sameas", "other", test_sameas },
    { "sequence", "", test_sequence },
    { "string", "", test_string },
    { "test", "", test_test },
    { "true", "", test_true },
    { "undefined", "", test_undefined },
    { "upper", "", test_upper },
};

int cr_test_find(cr_str name)
{
    for (size_t i = 0; i < CR_COUNT(rows); i++)
        if (cr_str_is(name, rows[i].name))
            return (int)i;
    return -1;
}

bool cr_test_run(cr_interp *t, int row, cr_tv self, const cr_args *args, bool *out)
{
    cr_tv value;
    if (!cr_interp_work(t, CR_WORK_NODE) ||
        !cr_builtin_run(t, "test", &rows[row], self, args, &value))
        return false;
    *out = cr_tv_truth(&value);
    return true;
}

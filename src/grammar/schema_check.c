/* Whether a value that a schema lists (const, enum) satisfies the other keywords beside it. */
#include "grammar/schema_internal.h"

enum { MAX_DEPTH = 32 };

/* Keywords that are looked at here or say nothing about values of this kind. */
static bool is_known(const cr_json *k, const cr_json *value)
{
    static const struct {
        const char *name;
        unsigned kinds; /* that it is about, bits of cr_json_kind */
        bool looked_at;
    } keywords[] = {
#define STRINGS (1u << CR_JSON_STRING)
#define NUMBERS (1u << CR_JSON_NUMBER)
#define ARRAYS (1u << CR_JSON_ARRAY)
#define OBJECTS (1u << CR_JSON_OBJECT)
        { "type", ~0u, true },
        { "const", ~0u, true },
        { "enum", ~0u, true },
        { "anyOf", ~0u, true },
        { "allOf", ~0u, true },
        { "oneOf", ~0u, true },
        { "$ref", ~0u, true },
        { "not", ~0u, true },
        { "if", ~0u, true },
        { "then", ~0u, true },
        { "else", ~0u, true },
        { "minLength", STRINGS, true },
        { "maxLength", STRINGS, true },
        { "pattern", STRINGS, true },
        { "format", STRINGS, true },
        { "minimum", NUMBERS, true },
        { "maximum", NUMBERS, true },
        { "exclusiveMinimum", NUMBERS, true },
        { "exclusiveMaximum", NUMBERS, true },
        { "multipleOf", NUMBERS, true },
        { "properties", OBJECTS, true },
        { "required", OBJECTS, true },
        { "additionalProperties", OBJECTS, true },
        { "patternProperties", OBJECTS, false },
        { "minProperties", OBJECTS, true },
        { "maxProperties", OBJECTS, true },
        { "items", ARRAYS, true },
        { "prefixItems", ARRAYS, true },
        { "additionalItems", ARRAYS, true },
        { "minItems", ARRAYS, true },
        { "maxItems", ARRAYS, true },
        { "uniqueItems", ARRAYS, true },
    };
    for (size_t i = 0; i < CR_COUNT(keywords); i++) {
        if (cr_str_is(k->key, keywords[i].name))
            return keywords[i].looked_at || (keywords[i].kinds >> value->kind & 1) == 0;
    }
    return cr_schema_keyword(k->key) == CR_KEYWORD_REMARK;
}

/* Three values: 0 wins over -1, which wins over 1. */
static int both(int a, int b)
{
    return a == 0 || b == 0 ? 0 : a < 0 || b < 0 ? -1 : 1;
}

int cr_schema_same(const cr_json *a, const cr_json *b)
{
    if (a->kind == CR_JSON_NUMBER && b->kind == CR_JSON_NUMBER)
        return cr_schema_same_number(a, b);
    if (a->kind != b->kind || a->n != b->n || !cr_str_same(a->text, b->text))
        return 0;
    int result = 1;
    const cr_json *y = b->first;
    for (const cr_json *x = a->first; x; x = x->next) {
        const cr_json *other = a->kind == CR_JSON_OBJECT ? cr_json_get_str(b, x->key) : y;
        result = both(result, other ? cr_schema_same(x, other) : 0);
        y = y->next;
    }
    return result;
}

/* Where readers differ about a character, or know more of a format, a string that is not in the set
 * may be valid for some. */
static int check_set(cr_compiler *c, const cr_json *schema, cr_str text)
{
    const cr_json *pattern = cr_json_get(schema, "pattern");
    const cr_dfa *widest;
    if (!c->is_exact)
        return 0;
    if (!pattern || cr_json_get(schema, "format") ||
        cr_regex_compile(&c->shop, pattern->text, true, &widest, NULL) != CERA_OK)
        return -1;
    return cr_dfa_accepts(widest, text) ? -1 : 0;
}

static int check_string(cr_compiler *c, const cr_json *schema, const cr_json *value)
{
    cr_parts one = { .n = 1, .part = { { .schema = schema, .from = -1 } } };
    const cr_dfa *set;
    uint32_t least, most, n = 0;
    cera_error *err = c->err;
    const cr_arena_mark sets = cr_arena_get_mark(&c->arena);
    c->err = NULL;
    bool good = cr_schema_string_set(c, &one, &set) == CERA_OK &&
                cr_parts_counts(c, &one, "minLength", "maxLength", &least, &most) == CERA_OK;
    c->err = err;
    for (size_t i = 0; i < value->text.size; i++)
        n += (value->text.data[i] & 0xc0) != 0x80 ? 1 : 0;
    int result = -1;
    if (good && (n < least || n > most))
        result = 0;
    else if (good)
        result = !set || cr_dfa_accepts(set, value->text) ? 1 : check_set(c, schema, value->text);
    cr_arena_to_mark(&c->arena, sets);
    return result;
}

static int check_count(cr_compiler *c, const cr_json *schema, const char *least_key,
                       const char *most_key, uint32_t n)
{
    cr_parts one = { .n = 1, .part = { { .schema = schema, .from = -1 } } };
    uint32_t least, most;
    cera_error *err = c->err;
    c->err = NULL;
    cera_status status = cr_parts_counts(c, &one, least_key, most_key, &least, &most);
    c->err = err;
    return status != CERA_OK ? -1 : n >= least && n <= most;
}

static int check_object(cr_compiler *c, const cr_json *schema, const cr_json *value, int depth)
{
    const cr_json *properties = cr_json_get(schema, "properties");
    const cr_json *rest = cr_json_get(schema, "additionalProperties");
    const cr_json *required = cr_json_get(schema, "required");
    int result = 1;
    for (const cr_json *v = value->first; v; v = v->next) {
        const cr_json *mine = cr_json_get_str(properties, v->key);
        mine = mine ? mine : rest;
        if (mine)
            result = both(result, cr_schema_check(c, mine, v, depth + 1));
    }
    for (const cr_json *k = required ? required->first : NULL; k; k = k->next)
        result = both(result, cr_json_get_str(value, k->text) != NULL);
    return both(result, check_count(c, schema, "minProperties", "maxProperties", value->n));
}

static int check_array(cr_compiler *c, const cr_json *schema, const cr_json *value, int depth)
{
    const cr_json *list, *rest, *unique = cr_json_get(schema, "uniqueItems");
    cr_schema_find_items(schema, &list, &rest);
    const cr_json *own = list ? list->first : NULL;
    int result = check_count(c, schema, "minItems", "maxItems", value->n);
    for (const cr_json *v = value->first; v; v = v->next) {
        const cr_json *mine = own ? own : rest;
        if (mine)
            result = both(result, cr_schema_check(c, mine, v, depth + 1));
        own = own ? own->next : NULL;
        for (const cr_json *w = v->next; w && unique && unique->kind == CR_JSON_TRUE; w = w->next) {
            const int same = cr_schema_same(v, w);
            result = both(result, same < 0 ? -1 : 1 - same);
            cr_dfa_spend(&c->shop, 8);
        }
    }
    return result;
}

static int check_reference(cr_compiler *c, const cr_json *ref, const cr_json *value, int depth)
{
    const cr_json *target;
    cera_error *err = c->err;
    c->err = NULL;
    cera_status status = cr_schema_resolve(c, ref, &target);
    c->err = err;
    return status == CERA_OK && target ? cr_schema_check(c, target, value, depth + 1) : -1;
}

/* Both answers hold for every reader. */
static int check_exactly(cr_compiler *c, const cr_json *schema, const cr_json *value, int depth)
{
    const bool before = c->is_exact;
    c->is_exact = true;
    int result = cr_schema_check(c, schema, value, depth + 1);
    c->is_exact = before;
    return result;
}

static int check_conditions(cr_compiler *c, const cr_json *schema, const cr_json *value, int depth)
{
    const cr_json *not = cr_json_get(schema, "not"), *condition = cr_json_get(schema, "if");
    int refused = not ? check_exactly(c, not, value, depth) : 0;
    int result = refused < 0 ? -1 : 1 - refused;
    if (!condition)
        return result;
    int holds = check_exactly(c, condition, value, depth);
    const cr_json *then = cr_json_get(schema, holds == 1 ? "then" : "else");
    int follows = holds < 0 ? -1 : then ? cr_schema_check(c, then, value, depth + 1) : 1;
    return both(result, follows);
}

static int check_lists(cr_compiler *c, const cr_json *schema, const cr_json *value, int depth)
{
    const cr_json *all = cr_json_get(schema, "allOf"), *any = cr_json_get(schema, "anyOf");
    const cr_json *one = cr_json_get(schema, "oneOf"), *list = cr_json_get(schema, "enum");
    const cr_json *only = cr_json_get(schema, "const"), *ref = cr_json_get(schema, "$ref");
    int result = ref ? check_reference(c, ref, value, depth) : 1, best = any ? 0 : 1, n_good = 0,
        n_maybe = 0;
    for (const cr_json *s = all ? all->first : NULL; s; s = s->next)
        result = both(result, cr_schema_check(c, s, value, depth + 1));
    for (const cr_json *s = any ? any->first : NULL; s && best != 1; s = s->next) {
        int here = cr_schema_check(c, s, value, depth + 1);
        best = here != 0 ? here : best;
    }
    for (const cr_json *s = one ? one->first : NULL; s; s = s->next) {
        int here = cr_schema_check(c, s, value, depth + 1);
        n_good += here == 1;
        n_maybe += here < 0;
    }
    if (one)
        result = both(result, n_good > 1 ? 0 : n_maybe > 0 ? -1 : n_good == 1);
    int listed = list && value->parent != list ? 0 : 1;
    for (const cr_json *v = list ? list->first : NULL; v && listed != 1; v = v->next) {
        cr_dfa_spend(&c->shop, 8);
        int here = cr_schema_same(v, value);
        listed = here != 0 ? here : listed;
    }
    result = both(result, check_conditions(c, schema, value, depth));
    return both(both(result, best), both(listed, only ? cr_schema_same(only, value) : 1));
}

int cr_schema_check(cr_compiler *c, const cr_json *schema, const cr_json *value, int depth)
{
    if (schema->kind != CR_JSON_OBJECT)
        return schema->kind == CR_JSON_TRUE ? 1 : schema->kind == CR_JSON_FALSE ? 0 : -1;
    if (depth > MAX_DEPTH)
        return -1;
    int result = 1;
    for (const cr_json *k = schema->first; k; k = k->next)
        result = is_known(k, value) ? result : -1;
    /* By the type alone: what is listed is compared below. */
    const cr_json *type = cr_json_get(schema, "type");
    cr_json only = type ? *type : (cr_json){ .kind = CR_JSON_NULL };
    only.next = NULL;
    const cr_json typed = { .kind = CR_JSON_OBJECT,
                            .n = type ? 1 : 0,
                            .first = type ? &only : NULL };
    cr_parts one = { .n = 1, .part = { { .schema = &typed, .from = -1 } } };
    unsigned kinds, mine;
    cera_error *err = c->err;
    c->err = NULL;
    /* The kind of the value is that of {"const": value}. */
    cr_json copy = *value, holder = { .kind = CR_JSON_OBJECT, .n = 1, .first = &copy };
    copy.key = cr_str_from("const");
    copy.next = NULL;
    cr_parts value_parts = { .n = 1, .part = { { .schema = &holder, .from = -1 } } };
    bool good = cr_parts_kinds(c, &one, &kinds) == CERA_OK &&
                cr_parts_kinds(c, &value_parts, &mine) == CERA_OK;
    c->err = err;
    if (!good)
        return -1;
    if ((kinds & mine) == 0)
        return 0;
    if (value->kind == CR_JSON_STRING)
        result = both(result, check_string(c, schema, value));
    else if (value->kind == CR_JSON_NUMBER)
        result = both(result, cr_schema_check_number(c, schema, value));
    else if (value->kind == CR_JSON_OBJECT)
        result = both(result, check_object(c, schema, value, depth));
    else if (value->kind == CR_JSON_ARRAY)
        result = both(result, check_array(c, schema, value, depth));
    return both(result, check_lists(c, schema, value, depth));
}

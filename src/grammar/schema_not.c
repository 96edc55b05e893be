/* What must not hold (`not`), and what holds only if something else does (`if`, `dependent...`).
 *
 * A negation is pushed inwards until it is about one keyword, and is written as a schema again:
 *
 *     not {a, b}           anyOf [not {a}, not {b}]           not {not s}           s
 *     not {anyOf [s, t]}   allOf [not s, not t]               not {minimum 3}       a number below 3
 *     not {properties {a: s}}                  an object with a, which is not s
 *
 * Listed values, patterns and required names are left: these stay negations (cr_part.excluded), and
 * who makes strings, numbers and objects takes them out of its set. Made schemas are kept, so that
 * the same `not` is the same part each time. */
#include "grammar/schema_internal.h"

#include <stdio.h>

enum { MAX_MADE = 4096 };

static const cr_json yes = { .kind = CR_JSON_TRUE };

/* ---- making schemas ---------------------------------------------------------------------- */

/* A value of its own, with the place of the keyword that it is made for. */
static cr_json *new_value(cr_compiler *c, cr_json_kind kind)
{
    cr_json *value = cr_arena_array(&c->arena, 1, sizeof *value);
    if (value)
        *value =
            (cr_json){ .kind = kind, .is_made = true, .parent = (cr_json *)(uintptr_t)c->making };
    else
        c->no_memory = true;
    return value;
}

/* What nothing satisfies. */
static cr_json *never(cr_compiler *c)
{
    return new_value(c, CR_JSON_FALSE);
}

/* Appends a copy of the value, which keeps its place for messages; key NULL: of an element. Does
 * nothing without memory, which is told at the end. */
static void append(cr_compiler *c, cr_json *to, const char *key, const cr_json *value)
{
    cr_json *copy = to && value ? new_value(c, value->kind) : NULL;
    if (!copy)
        return;
    *copy = *value;
    copy->next = NULL;
    copy->is_made = true;
    copy->parent = (cr_json *)(uintptr_t)value;
    if (key)
        copy->key = cr_str_from(key);
    cr_json **last = &to->first;
    while (*last)
        last = &(*last)->next;
    *last = copy;
    to->n++;
}

/* {key: value} */
static cr_json *schema_of(cr_compiler *c, const char *key, const cr_json *value)
{
    cr_json *schema = new_value(c, CR_JSON_OBJECT);
    append(c, schema, key, value);
    return schema;
}

static cr_json *schema_of_type(cr_compiler *c, const char *type)
{
    const cr_json name = { .kind = CR_JSON_STRING, .text = cr_str_from(type) };
    return schema_of(c, "type", &name);
}

/* {"required": [name]} */
static cr_json *schema_of_name(cr_compiler *c, cr_str name)
{
    const cr_json text = { .kind = CR_JSON_STRING, .text = name };
    cr_json *names = new_value(c, CR_JSON_ARRAY);
    append(c, names, NULL, &text);
    return schema_of(c, "required", names);
}

static cr_json *schema_not(cr_compiler *c, const cr_json *schema)
{
    return schema_of(c, "not", schema);
}

/* {key: [of each child: {"not": child}]} */
static cr_json *schema_of_negated(cr_compiler *c, const char *key, const cr_json *list)
{
    cr_json *all = new_value(c, CR_JSON_ARRAY);
    for (const cr_json *s = list->first; s; s = s->next)
        append(c, all, NULL, schema_not(c, s));
    return schema_of(c, key, all);
}

/* ---- negations of one keyword ------------------------------------------------------------ */

static cera_status negate_type(cr_compiler *c, const cr_json *k, const cr_json **out)
{
    static const struct {
        const char *name;
        unsigned kinds;
    } types[] = {
        { "null", CR_IS_NULL },       { "boolean", CR_IS_BOOL },  { "object", CR_IS_OBJECT },
        { "array", CR_IS_ARRAY },     { "string", CR_IS_STRING }, { "integer", CR_IS_INTEGER },
        { "number", CR_IS_FRACTION },
    };
    cr_parts one = { .n = 1, .part = { { .schema = schema_of(c, "type", k), .from = -1 } } };
    unsigned kinds;
    if (!one.part[0].schema)
        return cr_schema_no_memory(c);
    CR_TRY(cr_parts_kinds(c, &one, &kinds));
    cr_json *list = new_value(c, CR_JSON_ARRAY);
    for (size_t i = 0; i < CR_COUNT(types); i++) {
        /* There are no fractions alone: "number" has the integers, too. */
        unsigned mine =
            types[i].kinds == CR_IS_FRACTION ? CR_IS_INTEGER | CR_IS_FRACTION : types[i].kinds;
        const cr_json name = { .kind = CR_JSON_STRING, .text = cr_str_from(types[i].name) };
        if ((kinds & mine) == 0)
            append(c, list, NULL, &name);
    }
    *out = list && list->n == 0 ? never(c) : schema_of(c, "type", list);
    return CERA_OK;
}

/* Bounds: what is outside is within another one. */
static cera_status negate_bound(cr_compiler *c, const cr_json *k, const cr_json **out)
{
    static const struct {
        const char *name, *opposite, *type;
        int step; /* 0: the bound itself, which is a number */
    } bounds[] = {
        { "minLength", "maxLength", "string", -1 },
        { "maxLength", "minLength", "string", 1 },
        { "minItems", "maxItems", "array", -1 },
        { "maxItems", "minItems", "array", 1 },
        { "minProperties", "maxProperties", "object", -1 },
        { "maxProperties", "minProperties", "object", 1 },
        { "minimum", "exclusiveMaximum", "number", 0 },
        { "maximum", "exclusiveMinimum", "number", 0 },
        { "exclusiveMinimum", "maximum", "number", 0 },
        { "exclusiveMaximum", "minimum", "number", 0 },
    };
    size_t i = 0;
    while (i < CR_COUNT(bounds) && !cr_str_is(k->key, bounds[i].name))
        i++;
    if (i == CR_COUNT(bounds))
        return cr_schema_skip(c, k, "what it refuses is no grammar");
    cr_json value = *k; /* with k's place */
    char digits[24];
    if (bounds[i].step != 0) {
        int64_t n;
        if (k->kind != CR_JSON_NUMBER || !cr_parse_i64(k->text, &n) || n < 0 || n > 100000)
            return cr_schema_fail(c, k, CERA_E_FORMAT, "expected a whole number from 0 to 100000");
        n += bounds[i].step;
        if (n < 0) {
            *out = never(c);
            return CERA_OK;
        }
        int size = snprintf(digits, sizeof digits, "%d", (int)n);
        value.text = (cr_str){ cr_arena_copy(&c->arena, digits, (size_t)size), (size_t)size };
        if (!value.text.data)
            return cr_schema_no_memory(c);
    } else if (k->kind != CR_JSON_NUMBER) {
        return cr_schema_fail(c, k, CERA_E_FORMAT, "expected a number");
    }
    cr_json *schema = schema_of_type(c, bounds[i].type);
    append(c, schema, bounds[i].opposite, k);
    if (!schema || c->no_memory)
        return cr_schema_no_memory(c);
    schema->first->next->text = value.text;
    *out = schema;
    return CERA_OK;
}

/* An object with one of the properties, which is not what it should be. */
static cera_status negate_properties(cr_compiler *c, const cr_json *k, const cr_json **out)
{
    if (k->kind != CR_JSON_OBJECT)
        return cr_schema_fail(c, k, CERA_E_FORMAT, "expected an object");
    const cr_json object = { .kind = CR_JSON_STRING, .text = cr_str_from("object") };
    cr_json *any = new_value(c, CR_JSON_ARRAY);
    for (const cr_json *p = k->first; p; p = p->next) {
        cr_json *schema = schema_of_name(c, p->key), *properties = new_value(c, CR_JSON_OBJECT);
        cr_json *negated = schema_not(c, p);
        if (!schema || !properties || !negated)
            return cr_schema_no_memory(c);
        negated->key = p->key;
        append(c, properties, NULL, negated);
        append(c, schema, "properties", properties);
        append(c, schema, "type", &object);
        append(c, any, NULL, schema);
    }
    *out = k->n == 0 ? never(c) : schema_of(c, "anyOf", any);
    return CERA_OK;
}

/* Whether this is left as it is: one keyword that sets are made without. */
static bool is_excluded(const cr_json *k)
{
    return cr_str_is(k->key, "enum") || cr_str_is(k->key, "const") ||
           cr_str_is(k->key, "pattern") ||
           (cr_str_is(k->key, "required") && k->kind == CR_JSON_ARRAY && k->n == 1);
}

static cera_status negate_keyword(cr_compiler *c, const cr_json *k, const cr_json **out)
{
    const bool is_list = k->kind == CR_JSON_ARRAY && k->n > 0;
    if (cr_str_is(k->key, "type"))
        return negate_type(c, k, out);
    if (cr_str_is(k->key, "properties"))
        return negate_properties(c, k, out);
    if (cr_str_is(k->key, "not")) {
        *out = k;
    } else if (cr_str_is(k->key, "allOf") && is_list) {
        *out = schema_of_negated(c, "anyOf", k);
    } else if (cr_str_is(k->key, "anyOf") && is_list) {
        *out = schema_of_negated(c, "allOf", k);
    } else if (cr_str_is(k->key, "$ref")) {
        const cr_json *target;
        CR_TRY(cr_schema_resolve(c, k, &target));
        *out = target ? schema_not(c, target) : NULL;
    } else if (cr_str_is(k->key, "required") && k->kind == CR_JSON_ARRAY) {
        cr_json *any = new_value(c, CR_JSON_ARRAY);
        for (const cr_json *name = k->first; name; name = name->next)
            append(c, any, NULL, schema_not(c, schema_of_name(c, name->text)));
        *out = k->n == 0 ? never(c) : schema_of(c, "anyOf", any);
    } else if (cr_str_is(k->key, "required")) {
        return cr_schema_fail(c, k, CERA_E_FORMAT, "expected a list of names");
    } else if (cr_str_is(k->key, "allOf") || cr_str_is(k->key, "anyOf")) {
        return cr_schema_fail(c, k, CERA_E_FORMAT, "expected a list with schemas");
    } else {
        return negate_bound(c, k, out);
    }
    return CERA_OK;
}

/* The keywords that say something; *only is the last of them. */
static int count_keywords(const cr_json *schema, const cr_json **only)
{
    int n = 0;
    *only = NULL;
    for (const cr_json *k = schema->first; k; k = k->next) {
        if (cr_schema_keyword(k->key) == CR_KEYWORD_ENFORCED) {
            n++;
            *only = k;
        }
    }
    return n;
}

/* A schema for what this one refuses. */
static cera_status negate(cr_compiler *c, const cr_json *schema, const cr_json **out)
{
    const cr_json *only;
    int n = count_keywords(schema, &only);
    if (n == 1)
        return negate_keyword(c, only, out);
    cr_json *any = new_value(c, CR_JSON_ARRAY);
    for (const cr_json *k = schema->first; k; k = k->next) {
        cr_json *one = new_value(c, CR_JSON_OBJECT);
        append(c, one, NULL, k);
        if (cr_schema_keyword(k->key) == CR_KEYWORD_ENFORCED)
            append(c, any, NULL, schema_not(c, one));
    }
    *out = n == 0 ? never(c) : schema_of(c, "anyOf", any);
    return CERA_OK;
}

/* ---- conditions -------------------------------------------------------------------------- */

/* if and then, or not if and else. */
static cera_status make_if(cr_compiler *c, const cr_json *schema, const cr_json *k,
                           const cr_json **out)
{
    const cr_json *then = cr_json_get(schema, "then"), *otherwise = cr_json_get(schema, "else");
    cr_json *any = new_value(c, CR_JSON_ARRAY);
    for (int is_else = 0; is_else < 2; is_else++) {
        cr_json *both = new_value(c, CR_JSON_ARRAY);
        append(c, both, NULL, is_else ? schema_not(c, k) : k);
        append(c, both, NULL, is_else ? otherwise : then);
        append(c, any, NULL, schema_of(c, "allOf", both));
    }
    *out = then || otherwise ? schema_of(c, "anyOf", any) : &yes;
    return CERA_OK;
}

/* For each name: no object, one without it, or one with it and with what that asks for. */
static cera_status make_dependent(cr_compiler *c, const cr_json *schema, const cr_json *k,
                                  const cr_json **out)
{
    (void)schema;
    if (k->kind != CR_JSON_OBJECT)
        return cr_schema_fail(c, k, CERA_E_FORMAT, "expected an object");
    cr_json *all = new_value(c, CR_JSON_ARRAY);
    for (const cr_json *d = k->first; d; d = d->next) {
        if (cr_str_is(k->key, "dependentRequired") && d->kind != CR_JSON_ARRAY)
            return cr_schema_fail(c, d, CERA_E_FORMAT, "expected a list of names");
        cr_json *name = schema_of_name(c, d->key);
        cr_json *any = new_value(c, CR_JSON_ARRAY), *both = new_value(c, CR_JSON_ARRAY);
        append(c, both, NULL, name);
        append(c, both, NULL, d->kind == CR_JSON_ARRAY ? schema_of(c, "required", d) : d);
        append(c, any, NULL, schema_not(c, schema_of_type(c, "object")));
        append(c, any, NULL, schema_not(c, name));
        append(c, any, NULL, schema_of(c, "allOf", both));
        append(c, all, NULL, schema_of(c, "anyOf", any));
    }
    *out = k->n > 0 ? schema_of(c, "allOf", all) : &yes;
    return CERA_OK;
}

static cera_status make_not(cr_compiler *c, const cr_json *schema, const cr_json *k,
                            const cr_json **out)
{
    (void)schema;
    if (k->kind != CR_JSON_TRUE)
        return negate(c, k, out);
    *out = never(c);
    return CERA_OK;
}

/* ---- parts ------------------------------------------------------------------------------- */

typedef struct made {
    const cr_json *of, *schema; /* schema NULL: left out */
} made;

typedef cera_status make_schema(cr_compiler *c, const cr_json *schema, const cr_json *k,
                                const cr_json **out);

static cera_status add_made(cr_compiler *c, cr_parts *parts, int i, const cr_json *k,
                            make_schema *make)
{
    const made *known = (const made *)(const void *)c->made.data;
    size_t n = c->made.size / sizeof *known, at = 0;
    while (at < n && known[at].of != k)
        at++;
    made entry = { .of = k };
    if (at < n) {
        entry = known[at];
    } else {
        if (n == MAX_MADE)
            return cr_schema_fail(c, k, CERA_E_LIMIT,
                                  "expected at most %d negations and conditions, found more",
                                  MAX_MADE);
        c->making = k;
        CR_TRY(make(c, parts->part[i].schema, k, &entry.schema));
        if (c->no_memory || !cr_buf_append(&c->made, &entry, sizeof entry))
            return cr_schema_no_memory(c);
    }
    return entry.schema ? cr_parts_add(c, parts, entry.schema, i) : CERA_OK;
}

static cera_status add_excluded(cr_compiler *c, cr_parts *parts, int i, const cr_json *k)
{
    for (int p = 0; p < parts->n; p++) {
        if (parts->part[p].excluded == k)
            return CERA_OK;
    }
    return cr_parts_append(c, parts, (cr_part){ .schema = &yes, .from = i, .excluded = k }, k);
}

/* What a schema with one keyword excludes: it has to be well-formed. */
static cera_status check_excluded(cr_compiler *c, const cr_json *k)
{
    if (cr_str_is(k->key, "enum") && k->kind != CR_JSON_ARRAY)
        return cr_schema_fail(c, k, CERA_E_FORMAT, "expected a list");
    if (cr_str_is(k->key, "required") && k->first->kind != CR_JSON_STRING)
        return cr_schema_fail(c, k->first, CERA_E_FORMAT, "expected a name");
    return CERA_OK;
}

cera_status cr_parts_expand_not(cr_compiler *c, cr_parts *parts, int i)
{
    static const struct {
        const char *name;
        make_schema *make;
    } conditions[] = {
        { "if", make_if },
        { "dependentRequired", make_dependent },
        { "dependentSchemas", make_dependent },
        { "dependencies", make_dependent },
    };
    const cr_json *schema = parts->part[i].schema;
    for (size_t n = 0; n < CR_COUNT(conditions); n++) {
        const cr_json *k = cr_json_get(schema, conditions[n].name);
        if (k)
            CR_TRY(add_made(c, parts, i, k, conditions[n].make));
    }
    const cr_json *k = cr_json_get(schema, "not"), *only = NULL;
    if (!k || k->kind == CR_JSON_FALSE)
        return CERA_OK;
    if (k->kind == CR_JSON_TRUE)
        return add_made(c, parts, i, k, make_not);
    if (k->kind != CR_JSON_OBJECT)
        return cr_schema_fail(c, k, CERA_E_FORMAT, "expected a schema: an object or a boolean");
    CR_TRY(cr_schema_check_keywords(c, k));
    if (count_keywords(k, &only) != 1 || !is_excluded(only))
        return add_made(c, parts, i, k, make_not);
    CR_TRY(check_excluded(c, only));
    return add_excluded(c, parts, i, only);
}

/* ---- what is excluded -------------------------------------------------------------------- */

const cr_json *cr_part_excluded_name(const cr_part *part)
{
    return part->excluded && cr_str_is(part->excluded->key, "required") ? part->excluded->first
                                                                        : NULL;
}

const cr_json *cr_part_excluded_pattern(const cr_part *part)
{
    return part->excluded && cr_str_is(part->excluded->key, "pattern") ? part->excluded : NULL;
}

const cr_json *cr_part_next_excluded(const cr_part *part, const cr_json *before)
{
    const cr_json *k = part->excluded;
    if (!k || cr_part_excluded_name(part) || cr_part_excluded_pattern(part))
        return NULL;
    if (cr_str_is(k->key, "const"))
        return before ? NULL : k;
    return before ? before->next : k->first;
}

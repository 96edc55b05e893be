/* Objects and arrays.
 *
 * An object is a chain of rules, one per property that may come next and number of members so far:
 *
 *     o(i, n) ::= comma "name i": value o(i + 1, n + 1)  |  o(i + 1, n) if it is not required
 *
 * In any order it is a rule per set of properties that are left. Members that are not named follow
 * behind. Objects without a word about additional properties have none, unless nothing at all is
 * said about properties: both are valid, and a model that may add anything adds anything. */
#include "grammar/schema_internal.h"

enum { MAX_PROPERTIES = 512, MAX_ANY_ORDER = 10, MAX_EXTRAS = 9, MAX_MEMBER_RULES = 20000 };

typedef struct property {
    cr_str name;
    uint32_t rule;        /* 0: nothing is valid, so it cannot be there */
    const cr_json *unmet; /* why; NULL: it must not be there */
    bool required, excluded;
} property;

/* A set of names that are not listed, and what they hold. */
typedef struct extra {
    const cr_dfa *names;
    uint32_t names_rule, rule;
} extra;

typedef struct object {
    cr_compiler *c;
    const cr_parts *parts;
    property *p; /* [n] */
    int n;
    extra extras[MAX_EXTRAS];
    int n_extras;
    uint32_t least, most;
    uint32_t cap;  /* member counts from here on are not told apart */
    uint32_t base; /* name of the first rule of the chain */
    uint32_t tail; /* name of the rule for extras in a row; 0: none */
} object;

/* ---- what is said about properties ------------------------------------------------------- */

static cera_status want_object(cr_compiler *c, const cr_json *k)
{
    if (!k || k->kind == CR_JSON_OBJECT)
        return CERA_OK;
    return cr_schema_fail(c, k, CERA_E_FORMAT, "expected an object");
}

static int find_property(const object *o, cr_str name)
{
    for (int i = 0; i < o->n; i++) {
        if (o->p[i].name.size == name.size && memcmp(o->p[i].name.data, name.data, name.size) == 0)
            return i;
    }
    return -1;
}

static cera_status add_property(object *o, const cr_json *at, cr_str name)
{
    if (find_property(o, name) >= 0)
        return CERA_OK;
    if (o->n == MAX_PROPERTIES)
        return cr_schema_fail(o->c, at, CERA_E_LIMIT, "expected at most %d properties, found more",
                              MAX_PROPERTIES);
    o->p[o->n++] = (property){ .name = name };
    return CERA_OK;
}

/* In the order of the schemas; what is only required comes last. */
static cera_status list_properties(object *o)
{
    for (int i = 0; i < o->parts->n; i++) {
        const cr_json *schema = o->parts->part[i].schema;
        const cr_json *list = cr_json_get(schema, "properties");
        CR_TRY(want_object(o->c, list));
        for (const cr_json *k = list ? list->first : NULL; k; k = k->next)
            CR_TRY(add_property(o, k, k->key));
    }
    for (int i = 0; i < o->parts->n; i++) {
        const cr_json *schema = o->parts->part[i].schema;
        const cr_json *required = cr_json_get(schema, "required");
        /* In draft 3 it was a boolean of the property. */
        if (required && required->kind != CR_JSON_ARRAY)
            return cr_schema_fail(o->c, required, CERA_E_FORMAT, "expected a list of names");
        for (const cr_json *k = required ? required->first : NULL; k; k = k->next) {
            if (k->kind != CR_JSON_STRING)
                return cr_schema_fail(o->c, k, CERA_E_FORMAT, "expected a name");
            CR_TRY(add_property(o, k, k->text));
            o->p[find_property(o, k->text)].required = true;
        }
        const cr_json *name = cr_part_excluded_name(&o->parts->part[i]);
        if (name) {
            CR_TRY(add_property(o, name, name->text));
            o->p[find_property(o, name->text)].excluded = true;
        }
    }
    return CERA_OK;
}

/* *set NULL: it was left out. */
static cera_status compile_pattern(cr_compiler *c, const cr_json *k, bool widest,
                                   const cr_dfa **set)
{
    cera_status status = cr_regex_compile(&c->shop, k->key, widest, set, c->err);
    if ((status == CERA_E_UNSUPPORTED || status == CERA_E_LIMIT) && c->options->lenient) {
        *set = NULL;
        return cr_schema_skip(c, k, "a pattern that no grammar says, or not a small one");
    }
    return status == CERA_OK || status == CERA_E_NOMEM ? status : cr_schema_fail_in(c, k, status);
}

/* The parts that hold for a name: listed, matched by a pattern, or additional. */
static cera_status value_parts(object *o, cr_str name, cr_parts *out)
{
    cr_compiler *c = o->c;
    out->n = out->n_expanded = 0;
    for (int i = 0; i < o->parts->n; i++) {
        const cr_json *schema = o->parts->part[i].schema;
        const cr_json *listed = cr_json_get_str(cr_json_get(schema, "properties"), name);
        const cr_json *patterns = cr_json_get(schema, "patternProperties");
        const cr_json *rest = cr_json_get(schema, "additionalProperties");
        bool matched = listed != NULL;
        if (listed)
            CR_TRY(cr_parts_add(c, out, listed, -1));
        CR_TRY(want_object(c, patterns));
        for (const cr_json *k = patterns ? patterns->first : NULL; k; k = k->next) {
            const cr_dfa *widest, *sure;
            CR_TRY(compile_pattern(c, k, true, &widest));
            CR_TRY(compile_pattern(c, k, false, &sure));
            if (!widest || !sure)
                continue;
            bool may = cr_dfa_accepts(widest, name);
            if (may)
                CR_TRY(cr_parts_add(c, out, k, -1));
            matched = matched || (may && cr_dfa_accepts(sure, name));
        }
        if (rest && !matched)
            CR_TRY(cr_parts_add(c, out, rest, -1));
    }
    return CERA_OK;
}

/* A rule for the parts, "any" being the empty ones; 0: nothing is valid. */
static cera_status rule_for(cr_compiler *c, cr_parts *parts, uint32_t *rule)
{
    static const cr_json yes = { .kind = CR_JSON_TRUE };
    if (parts->n == 0)
        CR_TRY(cr_parts_add(c, parts, &yes, -1));
    return cr_schema_rule(c, parts, rule);
}

static cera_status add_extra(object *o, const cr_json *at, const cr_dfa *names, cr_parts *parts)
{
    if (!names)
        return o->c->shop.too_large
                   ? cr_schema_fail(o->c, at, CERA_E_LIMIT, "expected a smaller set of names")
                   : cr_schema_no_memory(o->c);
    if (names->n_states == 0)
        return CERA_OK;
    extra *e = &o->extras[o->n_extras];
    CR_TRY(rule_for(o->c, parts, &e->rule));
    if (e->rule == 0)
        return CERA_OK;
    e->names = names;
    o->n_extras++;
    return CERA_OK;
}

/* Names that are listed nowhere. */
static const cr_dfa *other_names(object *o)
{
    cr_dfa_shop *shop = &o->c->shop;
    cr_str *names = cr_arena_array(shop->arena, (size_t)o->n + 1, sizeof *names);
    for (int i = 0; i < o->n && names; i++)
        names[i] = o->p[i].name;
    const cr_dfa *listed = names ? cr_dfa_texts(shop, names, (size_t)o->n) : NULL;
    return listed ? cr_dfa_not(shop, listed) : NULL;
}

static const cr_dfa *without(cr_dfa_shop *shop, const cr_dfa *names, const cr_dfa *taken)
{
    const cr_dfa *rest = taken ? cr_dfa_not(shop, taken) : NULL;
    return names && rest ? cr_dfa_and(shop, names, rest) : NULL;
}

/* The schemas that `additionalProperties` of the parts but one give; *closed when one is false. */
static cera_status rest_parts(object *o, int but, cr_parts *out, bool *closed)
{
    out->n = out->n_expanded = 0;
    for (int i = 0; i < o->parts->n; i++) {
        const cr_json *rest = cr_json_get(o->parts->part[i].schema, "additionalProperties");
        if (rest && i != but)
            CR_TRY(cr_parts_add(o->c, out, rest, -1));
        *closed = *closed || (rest && i != but && rest->kind == CR_JSON_FALSE);
    }
    return CERA_OK;
}

/* Names that patterns match, each by one pattern only, and the others where they are allowed. */
static cera_status find_extras(object *o)
{
    cr_compiler *c = o->c;
    int with_patterns = -1;
    bool is_said = false, is_open = false;
    for (int i = 0; i < o->parts->n; i++) {
        const cr_json *schema = o->parts->part[i].schema;
        const cr_json *patterns = cr_json_get(schema, "patternProperties");
        const cr_json *rest = cr_json_get(schema, "additionalProperties");
        is_said = is_said || cr_json_get(schema, "properties") || patterns || rest;
        is_open = is_open || (rest && rest->kind != CR_JSON_FALSE);
        CR_TRY(want_object(c, patterns));
        if (!patterns || patterns->n == 0)
            continue;
        if (with_patterns >= 0 || patterns->n >= MAX_EXTRAS)
            return cr_schema_skip(c, patterns, "too many patterns hold at once");
        with_patterns = i;
    }
    is_open = is_open || !is_said;
    if (!is_open && with_patterns < 0)
        return CERA_OK;
    const cr_dfa *others = other_names(o), *left = others;
    const cr_json *patterns = NULL;
    const cr_json *at = cr_parts_keyword(o->parts, "additionalProperties\0properties\0");
    if (with_patterns >= 0)
        patterns = cr_json_get(o->parts->part[with_patterns].schema, "patternProperties");
    cr_parts parts;
    bool closed = false;
    for (const cr_json *k = patterns ? patterns->first : NULL; k; k = k->next) {
        const cr_dfa *names, *widest;
        CR_TRY(compile_pattern(c, k, false, &names));
        CR_TRY(compile_pattern(c, k, true, &widest));
        if (!names || !widest)
            continue;
        left = without(&c->shop, left, widest);
        names = others ? cr_dfa_and(&c->shop, names, others) : NULL;
        for (const cr_json *other = patterns->first; other && names; other = other->next) {
            if (other == k)
                continue;
            CR_TRY(compile_pattern(c, other, true, &widest));
            if (widest)
                names = without(&c->shop, names, widest);
        }
        closed = false;
        CR_TRY(rest_parts(o, with_patterns, &parts, &closed));
        CR_TRY(cr_parts_add(c, &parts, k, -1));
        if (!closed)
            CR_TRY(add_extra(o, k, names, &parts));
    }
    closed = false;
    CR_TRY(rest_parts(o, -1, &parts, &closed));
    return is_open && !closed ? add_extra(o, at, left, &parts) : CERA_OK;
}

/* ---- rules ------------------------------------------------------------------------------- */

static void put_extra(object *o, cr_text *t)
{
    for (int i = 0; i < o->n_extras; i++)
        cr_text_put(t, "%s\"\\\"\" d%u \"\\\":\" ws v%u", i > 0 ? " | " : "",
                    o->extras[i].names_rule, o->extras[i].rule);
}

/* How many more members there may be behind n. */
static uint32_t room_behind(const object *o, uint32_t n)
{
    return o->most == UINT32_MAX ? UINT32_MAX : o->most > n ? o->most - n : 0;
}

/* What follows the last named member when n are there: extras, if enough fit. False: nothing can. */
static bool put_end(object *o, cr_text *t, uint32_t n)
{
    uint32_t least = o->least > n ? o->least - n : 0, most = room_behind(o, n);
    if (most < least || (least > 0 && o->n_extras == 0))
        return false;
    if (o->n_extras == 0 || most == 0) {
        cr_text_put(t, "\"\"");
        return true;
    }
    /* The first one has a comma only behind others. */
    uint32_t more = most == UINT32_MAX ? UINT32_MAX : most - 1;
    cr_text_put(t, "(%sm%u", n > 0 ? "\",\" ws " : "", o->tail);
    uint32_t at_least = least > 0 ? least - 1 : 0;
    if (more == UINT32_MAX)
        cr_text_put(t, " (\",\" ws m%u){%u,})", o->tail, at_least);
    else
        cr_text_put(t, " (\",\" ws m%u){%u,%u})", o->tail, at_least, more);
    cr_text_put(t, least == 0 ? "?" : "");
    return true;
}

static void put_member(cr_text *t, const property *p, uint32_t n)
{
    cr_text_put(t, n > 0 ? "\",\" ws " : "");
    cr_text_json_string(t, p->name);
    cr_text_put(t, " \":\" ws v%u ", p->rule);
}

static uint32_t count_name(const object *o, uint32_t set, uint32_t n)
{
    return o->base + set * (o->cap + 1) + CR_MIN(n, o->cap);
}

/* Whether rule (set, n) has a way to an end; *t gets it. `set` is the index of the next property,
 * or in any order the properties that are there already. */
static bool put_place(object *o, cr_text *t, uint32_t set, uint32_t n, const bool *good)
{
    bool any_order = o->c->options->any_order;
    bool any = false, may_end = any_order ? true : set == (uint32_t)o->n;
    for (uint32_t i = any_order ? 0 : set; i < (uint32_t)o->n && (any_order || i == set); i++) {
        const property *p = &o->p[i];
        uint32_t next = any_order ? set | 1u << i : i + 1;
        if (any_order && (set >> i & 1) != 0)
            continue;
        may_end = may_end && !p->required;
        if (p->rule != 0 && room_behind(o, n) > 0 && good[count_name(o, next, n + 1) - o->base]) {
            cr_text_put(t, any ? " | " : "");
            put_member(t, p, n);
            cr_text_put(t, "m%u", count_name(o, next, n + 1));
            any = true;
        }
        if (!any_order && !p->required && good[count_name(o, next, n) - o->base]) {
            cr_text_put(t, "%sm%u", any ? " | " : "", count_name(o, next, n));
            any = true;
        }
    }
    if (may_end) {
        size_t before = t->buf.size;
        cr_text_put(t, any ? " | " : "");
        if (put_end(o, t, n))
            any = true;
        else
            t->buf.size = before;
    }
    return any;
}

/* Why there is no object: a property that has to be there and cannot, or their number. */
static const cr_json *find_unmet(const object *o)
{
    for (int i = 0; i < o->n; i++) {
        if (o->p[i].required && o->p[i].rule == 0)
            return o->p[i].unmet ? o->p[i].unmet : cr_parts_keyword(o->parts, "required\0");
    }
    return cr_parts_keyword(o->parts, "minProperties\0maxProperties\0required\0");
}

static cera_status put_chain(object *o, cr_text *t, bool *none)
{
    cr_compiler *c = o->c;
    uint32_t n_sets = c->options->any_order ? 1u << o->n : (uint32_t)o->n + 1;
    uint32_t n_rules = n_sets * (o->cap + 1);
    if (n_rules > MAX_MEMBER_RULES)
        return cr_schema_fail(c, cr_parts_keyword(o->parts, "minProperties\0maxProperties\0"),
                              CERA_E_LIMIT,
                              "expected fewer properties with bounds on their number");
    bool *good = cr_arena_array(&c->arena, n_rules, sizeof *good);
    if (!good)
        return cr_schema_no_memory(c);
    if (o->n_extras > 0) {
        for (int i = 0; i < o->n_extras; i++)
            cr_schema_set_rule(c, o->extras[i].names, true, &o->extras[i].names_rule);
        cr_text extra_text;
        cr_text_init(&extra_text, c);
        put_extra(o, &extra_text);
        o->tail = ++c->n_names;
        cr_text_finish(&extra_text, 'm', o->tail);
    }
    o->base = c->n_names + 1;
    c->n_names += n_rules;
    /* From the end, so that it is known which rules have a way to it; counts above the cap are the
     * cap, and where they matter the cap is above them. */
    for (uint32_t set = n_sets; set-- > 0;) {
        for (uint32_t n = o->cap + 1; n-- > 0;) {
            cr_text rule;
            cr_text_init(&rule, c);
            uint32_t name = count_name(o, set, n);
            good[name - o->base] = put_place(o, &rule, set, n, good);
            if (good[name - o->base])
                cr_text_finish(&rule, 'm', name);
            else
                cr_text_drop(&rule);
        }
    }
    *none = !good[0];
    if (*none)
        c->unmet = find_unmet(o);
    else
        cr_text_put(t, "\"{\" ws m%u ws \"}\"", o->base);
    return CERA_OK;
}

static cera_status prepare(object *o)
{
    cr_compiler *c = o->c;
    CR_TRY(list_properties(o));
    for (int i = 0; i < o->n; i++) {
        cr_parts parts;
        if (o->p[i].excluded)
            continue;
        CR_TRY(value_parts(o, o->p[i].name, &parts));
        CR_TRY(rule_for(c, &parts, &o->p[i].rule));
        o->p[i].unmet = c->unmet;
    }
    CR_TRY(find_extras(o));
    return cr_parts_counts(c, o->parts, "minProperties", "maxProperties", &o->least, &o->most);
}

cera_status cr_schema_object(cr_compiler *c, const cr_parts *parts, cr_text *t, bool *none)
{
    object o = { .c = c, .parts = parts };
    *none = false;
    o.p = cr_arena_array(&c->arena, MAX_PROPERTIES, sizeof *o.p);
    if (!o.p)
        return cr_schema_no_memory(c);
    CR_TRY(prepare(&o));
    if (c->options->any_order && o.n > MAX_ANY_ORDER)
        return cr_schema_fail(c, cr_parts_keyword(parts, "properties\0required\0"), CERA_E_LIMIT,
                              "expected at most %d properties in any order, found %d; the order of "
                              "the schema has no such limit",
                              MAX_ANY_ORDER, o.n);
    uint32_t n_required = 0;
    for (int i = 0; i < o.n; i++)
        n_required += o.p[i].required ? 1 : 0;
    /* Names of extras may repeat, which a count of members does not see. */
    if (o.n_extras > 0 && o.least > n_required + 1) {
        for (int i = 0; i < parts->n; i++) {
            const cr_json *k = cr_json_get(parts->part[i].schema, "minProperties");
            if (k)
                CR_TRY(cr_schema_skip(c, k, "names that are not listed could repeat"));
        }
        o.least = 0;
    }
    /* Without bounds only none and some are told apart. */
    o.cap = 1;
    if (o.least > 0)
        o.cap = CR_MAX(o.cap, CR_MIN(o.least, (uint32_t)o.n));
    if (o.most != UINT32_MAX)
        o.cap = CR_MAX(o.cap, CR_MIN(o.most, (uint32_t)o.n));
    return put_chain(&o, t, none);
}

bool cr_objects_differ(cr_compiler *c, const cr_parts *a, const cr_parts *b)
{
    /* Each object of one lacks what the other requires: only listed names are generated. */
    bool lacks[2] = { false, false };
    for (int turn = 0; turn < 2; turn++) {
        const cr_parts *from = turn == 0 ? a : b, *to = turn == 0 ? b : a;
        bool closed = false, listed = false;
        for (int i = 0; i < from->n; i++) {
            const cr_json *rest = cr_json_get(from->part[i].schema, "additionalProperties");
            const cr_json *patterns = cr_json_get(from->part[i].schema, "patternProperties");
            if (patterns || (rest && rest->kind != CR_JSON_FALSE))
                listed = true; /* names beyond the list */
            closed = closed || cr_json_get(from->part[i].schema, "properties") ||
                     (rest && rest->kind == CR_JSON_FALSE);
        }
        for (int k = 0; k < to->n && closed && !listed; k++) {
            const cr_json *required = cr_json_get(to->part[k].schema, "required");
            for (const cr_json *name = required ? required->first : NULL; name; name = name->next) {
                bool found = false;
                for (int i = 0; i < from->n; i++) {
                    const cr_json *own = cr_json_get(from->part[i].schema, "required");
                    found =
                        found || cr_json_get_str(cr_json_get(from->part[i].schema, "properties"),
                                                 name->text);
                    for (const cr_json *r = own ? own->first : NULL; r; r = r->next)
                        found = found || cr_json_equal(r, name);
                }
                lacks[turn] = lacks[turn] || !found;
            }
        }
    }
    if (lacks[0] && lacks[1])
        return true;
    /* Or a property that both require is a constant of its own in each. */
    for (int i = 0; i < a->n; i++) {
        const cr_json *required = cr_json_get(a->part[i].schema, "required");
        for (const cr_json *name = required ? required->first : NULL; name; name = name->next) {
            const cr_json *x = NULL, *y = NULL;
            bool in_b = false;
            for (int k = 0; k < b->n; k++) {
                const cr_json *other = cr_json_get(b->part[k].schema, "required");
                for (const cr_json *r = other ? other->first : NULL; r; r = r->next)
                    in_b = in_b || cr_json_equal(r, name);
                const cr_json *p =
                    cr_json_get_str(cr_json_get(b->part[k].schema, "properties"), name->text);
                y = cr_json_get(p, "const") || cr_json_get(p, "enum") ? p : y;
            }
            for (int k = 0; k < a->n; k++) {
                const cr_json *p =
                    cr_json_get_str(cr_json_get(a->part[k].schema, "properties"), name->text);
                x = cr_json_get(p, "const") || cr_json_get(p, "enum") ? p : x;
            }
            if (!in_b || !x || !y)
                continue;
            const cr_json *one = cr_json_get(x, "const"), *list = cr_json_get(x, "enum");
            bool apart = true;
            for (const cr_json *v = one ? one : list->first; v && apart; v = one ? NULL : v->next)
                apart = cr_schema_check(c, y, v, 0) == 0;
            if (apart)
                return true;
        }
    }
    return false;
}

/* ---- arrays ------------------------------------------------------------------------------ */

void cr_schema_find_items(const cr_json *schema, const cr_json **list, const cr_json **rest)
{
    const cr_json *items = cr_json_get(schema, "items");
    *list = cr_json_get(schema, "prefixItems");
    *rest = items;
    /* Before 2020-12, `items` was the list and `additionalItems` the rest. */
    if (items && items->kind == CR_JSON_ARRAY) {
        *list = items;
        *rest = cr_json_get(schema, "additionalItems");
    }
}

/* The rule of element i; *rule 0 when there can be none. */
static cera_status element_rule(cr_compiler *c, const cr_parts *parts, size_t i, uint32_t *rule)
{
    cr_parts all = { .n = 0 };
    for (int k = 0; k < parts->n; k++) {
        const cr_json *list, *rest;
        cr_schema_find_items(parts->part[k].schema, &list, &rest);
        const cr_json *mine = list && i < list->n ? list->first : rest;
        for (size_t s = 0; list && i < list->n && s < i; s++)
            mine = mine->next;
        if (mine)
            CR_TRY(cr_parts_add(c, &all, mine, -1));
    }
    return rule_for(c, &all, rule);
}

static cera_status check_unique(cr_compiler *c, const cr_parts *parts, uint32_t most)
{
    for (int k = 0; k < parts->n; k++) {
        const cr_json *unique = cr_json_get(parts->part[k].schema, "uniqueItems");
        if (unique && unique->kind == CR_JSON_TRUE && most > 1)
            CR_TRY(cr_schema_skip(c, unique, "no grammar remembers what came before"));
    }
    return CERA_OK;
}

cera_status cr_schema_array(cr_compiler *c, const cr_parts *parts, cr_text *t, bool *none)
{
    uint32_t least, most, rest;
    *none = false;
    CR_TRY(cr_parts_counts(c, parts, "minItems", "maxItems", &least, &most));
    CR_TRY(check_unique(c, parts, most));
    size_t n_listed = 0;
    for (int k = 0; k < parts->n; k++) {
        const cr_json *list, *other;
        cr_schema_find_items(parts->part[k].schema, &list, &other);
        if (list && list->kind != CR_JSON_ARRAY)
            return cr_schema_fail(c, list, CERA_E_FORMAT, "expected a list of schemas");
        n_listed = list ? CR_MAX(n_listed, list->n) : n_listed;
    }
    if (n_listed > MAX_PROPERTIES)
        return cr_schema_fail(c, cr_parts_keyword(parts, "prefixItems\0items\0"), CERA_E_LIMIT,
                              "expected at most %d elements with schemas of their own",
                              MAX_PROPERTIES);
    uint32_t *rules = cr_arena_array(&c->arena, n_listed + 1, sizeof *rules);
    if (!rules)
        return cr_schema_no_memory(c);
    size_t n = 0; /* elements with rules of their own that there can be */
    for (; n < n_listed && n < most; n++) {
        CR_TRY(element_rule(c, parts, n, &rules[n]));
        if (rules[n] == 0)
            break;
    }
    rest = 0;
    if (n == n_listed && n < most)
        CR_TRY(element_rule(c, parts, n, &rest));
    if (rest == 0)
        most = CR_MIN(most, (uint32_t)n);
    *none = least > most;
    if (*none) {
        c->unmet = cr_parts_keyword(parts, "minItems\0");
        return CERA_OK;
    }
    /* [ a (, b (, c (, rest)*)?)? ]: optional from `least` on. */
    cr_text_put(t, "\"[\" ws ");
    size_t n_open = 0;
    for (size_t i = 0; i < n && i < most; i++) {
        if (i >= least) {
            cr_text_put(t, "(");
            n_open++;
        }
        cr_text_put(t, "%sv%u ", i > 0 ? "\",\" ws " : "", rules[i]);
    }
    if (rest != 0) {
        uint32_t low = least > n ? least - (uint32_t)n : 0;
        if (n == 0) {
            cr_text_put(t, "(v%u (\",\" ws v%u)", rest, rest);
            if (most == UINT32_MAX)
                cr_text_put(t, "{%u,})%s ", low > 0 ? low - 1 : 0, low > 0 ? "" : "?");
            else
                cr_text_put(t, "{%u,%u})%s ", low > 0 ? low - 1 : 0, most - 1, low > 0 ? "" : "?");
        } else if (most == UINT32_MAX) {
            cr_text_put(t, "(\",\" ws v%u){%u,} ", rest, low);
        } else {
            cr_text_put(t, "(\",\" ws v%u){%u,%u} ", rest, low, most - (uint32_t)n);
        }
    }
    for (size_t i = 0; i < n_open; i++)
        cr_text_put(t, ")? ");
    cr_text_put(t, "ws \"]\"");
    return CERA_OK;
}

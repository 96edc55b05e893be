/* The walk over a schema. A value is described by parts, schemas that all hold; what chooses (anyOf,
 * oneOf, a list of types) becomes alternatives of the rule. The same parts are one rule, so that
 * recursion ends. */
#include "grammar/automaton.h"
#include "grammar/schema_internal.h"

#include <stdio.h>

enum {
    MAX_DEPTH = 64,
    MAX_LEVELS = 256,
    MAX_TEXT = 1 << 18,
    MAX_BRANCHES = 256,
    MAX_RULES = 20000,
    MAX_WAYS = 1024,     /* that listed values go on side by side */
    MAX_PLAIN_LIST = 16, /* texts, each an alternative */
    MAX_OUT = 4 << 20    /* bytes of the grammar's text, before unused rules go */
};

/* ---- text and messages ------------------------------------------------------------------- */

void cr_text_init(cr_text *t, cr_compiler *c)
{
    t->c = c;
    cr_buf_init(&t->buf, c->host, CR_MEM_SCRATCH);
}

static void put(cr_text *t, const char *data, size_t n)
{
    t->c->no_memory = !cr_buf_append(&t->buf, data, n) || t->c->no_memory;
}

void cr_text_put(cr_text *t, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    put(t, line, CR_MIN((size_t)n, sizeof line - 1));
}

/* One character inside the quotes of a grammar's text. */
static void put_char(cr_text *t, uint32_t code)
{
    char bytes[4];
    if (code == '"' || code == '\\' || code < 0x20 || code == 0x7f)
        cr_text_put(t, "\\x%02X", code);
    else
        put(t, bytes, cr_utf8_encode(code, bytes));
}

static void put_chars(cr_text *t, cr_str text, bool in_json)
{
    const bool has_tag = t->c->options->end_tag != NULL;
    static const char from[] = "\b\f\n\r\t\"\\", to[] = "bfnrt\"\\";
    for (size_t at = 0; at < text.size;) {
        uint32_t code = 0;
        at += CR_MAX(cr_utf8_decode(text.data + at, text.size - at, &code), (size_t)1);
        const char *known = code > 0 && code < 0x80 ? strchr(from, (int)code) : NULL;
        if (in_json && known) {
            put_char(t, '\\');
            put_char(t, (unsigned char)to[known - from]);
        } else if (in_json && (code < 0x20 || (has_tag && code == '<'))) {
            cr_text_put(t, "\\\\u%04x", code);
        } else {
            put_char(t, code);
        }
    }
}

void cr_text_literal(cr_text *t, cr_str text)
{
    cr_text_put(t, "\"");
    put_chars(t, text, false);
    cr_text_put(t, "\"");
}

void cr_text_json_string(cr_text *t, cr_str text)
{
    cr_text_put(t, "\"\\\"");
    put_chars(t, text, true);
    cr_text_put(t, "\\\"\"");
}

void cr_text_drop(cr_text *t)
{
    cr_buf_done(&t->buf);
}

/* The largest number in { }. */
static size_t read_repeats(cr_str text, size_t *at)
{
    size_t number = 0, most = 0;
    for (; *at < text.size && text.data[*at] != '}'; ++*at) {
        const char ch = text.data[*at];
        number = ch >= '0' && ch <= '9' ? number * 10 + (size_t)(ch - '0') : 0;
        most = CR_MAX(most, number);
    }
    return most;
}

/* How many nodes the rules become, at the least: one per character of a text, two per class or
 * name, and what repetitions write out. */
static size_t count_elements(cr_str rules)
{
    size_t n = 0;
    for (size_t i = 0; i < rules.size; i++) {
        const char ch = rules.data[i];
        const bool is_class = ch == '[';
        if (ch == '"' || is_class) {
            n += 2;
            for (i++; i < rules.size && rules.data[i] != (is_class ? ']' : '"'); i++) {
                n += is_class ? 0 : 1;
                if (rules.data[i] == '\\')
                    i += rules.data[i + 1] == 'x' ? 3 : 1;
            }
        } else if (ch == '{') {
            n += read_repeats(rules, &i);
        } else if (ch != ' ' && i > 0 && rules.data[i - 1] == ' ') {
            n += 2;
        }
    }
    return n;
}

void cr_text_finish(cr_text *t, char letter, uint32_t number)
{
    char name[24];
    int n = snprintf(name, sizeof name, "%c%u ::= ", letter, number);
    cr_compiler *c = t->c;
    bool good = cr_buf_append(c->out, name, (size_t)n) &&
                cr_buf_append(c->out, t->buf.data, t->buf.size) && cr_buf_append(c->out, "\n", 1);
    c->no_memory = c->no_memory || !good;
    c->shop.is_spent = c->shop.is_spent || c->out->size > MAX_OUT;
    cr_text_drop(t);
}

cera_status cr_schema_fail(const cr_compiler *c, const cr_json *at, cera_status status,
                           const char *format, ...)
{
    char place[256], line[256];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    cr_json_pointer(c->root, at, place, sizeof place);
    return cr_fail(c->err, status, "schema: #%s: %s", place, line);
}

cera_status cr_schema_fail_in(const cr_compiler *c, const cr_json *at, cera_status status)
{
    char place[256], subject[272];
    cr_json_pointer(c->root, at, place, sizeof place);
    snprintf(subject, sizeof subject, "schema: #%s", place);
    return cr_fail_in(c->err, status, subject);
}

cera_status cr_schema_no_memory(const cr_compiler *c)
{
    return cr_fail_nomem(c->err, 0, "a schema");
}

cera_status cr_schema_skip(cr_compiler *c, const cr_json *at, const char *why)
{
    if (!c->options->lenient || c->shop.is_spent)
        return cr_schema_fail(c, at, CERA_E_UNSUPPORTED,
                              "expected a keyword that can be enforced, found %.*s (%s); leave it "
                              "out, or ask for lenient",
                              (int)CR_MIN(at->key.size, (size_t)48),
                              at->key.data ? at->key.data : "", why);
    char place[256];
    cr_json_pointer(c->root, at, place, sizeof place);
    cr_log(c->host, 0, "schema: #%s: not enforced: %s", place, why);
    return CERA_OK;
}

/* ---- keywords ---------------------------------------------------------------------------- */

static const struct {
    const char *name;
    cr_keyword_use use;
} keywords[] = {
#define ENFORCED CR_KEYWORD_ENFORCED
#define REMARK CR_KEYWORD_REMARK
#define REFUSED CR_KEYWORD_REFUSED
    { "type", ENFORCED },
    { "enum", ENFORCED },
    { "const", ENFORCED },
    { "$ref", ENFORCED },
    { "allOf", ENFORCED },
    { "anyOf", ENFORCED },
    { "oneOf", ENFORCED },
    { "properties", ENFORCED },
    { "required", ENFORCED },
    { "additionalProperties", ENFORCED },
    { "patternProperties", ENFORCED },
    { "minProperties", ENFORCED },
    { "maxProperties", ENFORCED },
    { "items", ENFORCED },
    { "prefixItems", ENFORCED },
    { "additionalItems", ENFORCED },
    { "minItems", ENFORCED },
    { "maxItems", ENFORCED },
    { "uniqueItems", ENFORCED },
    { "pattern", ENFORCED },
    { "format", ENFORCED },
    { "minLength", ENFORCED },
    { "maxLength", ENFORCED },
    { "minimum", ENFORCED },
    { "maximum", ENFORCED },
    { "exclusiveMinimum", ENFORCED },
    { "exclusiveMaximum", ENFORCED },
    { "multipleOf", ENFORCED },
    { "not", ENFORCED },
    { "if", ENFORCED },
    { "then", ENFORCED },
    { "else", ENFORCED },
    { "dependentRequired", ENFORCED },
    { "dependentSchemas", ENFORCED },
    { "dependencies", ENFORCED },
    { "$defs", REMARK },
    { "definitions", REMARK },
    { "$schema", REMARK },
    { "$id", REMARK },
    { "id", REMARK },
    { "$anchor", REMARK },
    { "$comment", REMARK },
    { "$vocabulary", REMARK },
    { "title", REMARK },
    { "description", REMARK },
    { "default", REMARK },
    { "example", REMARK },
    { "examples", REMARK },
    { "deprecated", REMARK },
    { "readOnly", REMARK },
    { "writeOnly", REMARK },
    { "contentEncoding", REMARK },
    { "contentMediaType", REMARK },
    { "contentSchema", REMARK },
    { "contains", REFUSED },
    { "minContains", REFUSED },
    { "maxContains", REFUSED },
    { "propertyNames", REFUSED },
    { "unevaluatedItems", REFUSED },
    { "unevaluatedProperties", REFUSED },
    { "$dynamicRef", REFUSED },
    { "$recursiveRef", REFUSED },
};

static bool is_extension(cr_str name)
{
    return name.size > 2 && memcmp(name.data, "x-", 2) == 0;
}

cr_keyword_use cr_schema_keyword(cr_str name)
{
    for (size_t i = 0; i < CR_COUNT(keywords); i++) {
        if (cr_str_is(name, keywords[i].name))
            return keywords[i].use;
    }
    return is_extension(name) ? CR_KEYWORD_REMARK : CR_KEYWORD_REFUSED;
}

cera_status cr_schema_check_keywords(cr_compiler *c, const cr_json *schema)
{
    for (const cr_json *k = schema->first; k; k = k->next) {
        if (cr_schema_keyword(k->key) == CR_KEYWORD_REFUSED)
            CR_TRY(cr_schema_skip(c, k, "no grammar says this, or it is no keyword"));
    }
    return CERA_OK;
}

/* ---- parts ------------------------------------------------------------------------------- */

cera_status cr_parts_append(cr_compiler *c, cr_parts *parts, cr_part part, const cr_json *at)
{
    if (parts->n == CR_MAX_PARTS)
        return cr_schema_fail(c, at, CERA_E_LIMIT,
                              "expected at most %d schemas that hold together, found more",
                              CR_MAX_PARTS);
    parts->part[parts->n++] = part;
    return CERA_OK;
}

cera_status cr_parts_add(cr_compiler *c, cr_parts *parts, const cr_json *schema, int from)
{
    for (int i = from; i >= 0; i = parts->part[i].from) {
        const cr_json *ref = cr_json_get(parts->part[from].schema, "$ref");
        if (parts->part[i].schema == schema)
            return cr_schema_fail(c, ref ? ref : schema, CERA_E_FORMAT,
                                  "expected a schema that says something, found one that refers to "
                                  "itself");
    }
    for (int i = 0; i < parts->n; i++) {
        if (parts->part[i].schema == schema)
            return CERA_OK;
    }
    return cr_parts_append(c, parts, (cr_part){ .schema = schema, .from = from }, schema);
}

const cr_json *cr_parts_keyword(const cr_parts *parts, const char *names)
{
    for (; *names != '\0'; names += strlen(names) + 1) {
        for (int i = parts->n - 1; i >= 0; i--) {
            const cr_json *k = cr_json_get(parts->part[i].schema, names);
            if (k)
                return k;
        }
    }
    for (int i = 0; i < parts->n; i++) {
        if (parts->part[i].excluded)
            return parts->part[i].excluded;
    }
    return parts->part[0].schema;
}

/* Follows one step of a JSON pointer: ~1 is /, ~0 is ~, and %XX is a byte. */
static const cr_json *step(const cr_json *at, const char *text, size_t n)
{
    char key[256];
    size_t size = 0;
    for (size_t i = 0; i < n && size < sizeof key; i++) {
        char ch = text[i];
        if (ch == '~' && i + 1 < n) {
            ch = text[++i] == '1' ? '/' : '~';
        } else if (ch == '%' && i + 2 < n) {
            static const char digits[] = "0123456789abcdef";
            const char *high = strchr(digits, text[i + 1] | 32),
                       *low = strchr(digits, text[i + 2] | 32);
            if (high && low && *high && *low) {
                ch = (char)((high - digits) * 16 + (low - digits));
                i += 2;
            }
        }
        key[size++] = ch;
    }
    if (!at || at->kind != CR_JSON_ARRAY)
        return cr_json_get_str(at, (cr_str){ key, size });
    int64_t index;
    if (!cr_parse_i64((cr_str){ key, size }, &index))
        return NULL;
    return index >= 0 ? cr_json_at(at, (size_t)index) : NULL;
}

cera_status cr_schema_resolve(cr_compiler *c, const cr_json *ref, const cr_json **out)
{
    if (ref->kind != CR_JSON_STRING)
        return cr_schema_fail(c, ref, CERA_E_FORMAT, "expected a string");
    /* Below an $id of its own, # is another schema than this one. */
    for (const cr_json *s = ref->parent; s && s != c->root; s = s->parent) {
        const cr_str id = cr_json_str(cr_json_get(s, "$id"));
        if (id.size > 0 && id.data[0] != '#')
            return cr_schema_fail(c, ref, CERA_E_UNSUPPORTED,
                                  "expected a reference outside of schemas with an $id of their "
                                  "own, found one in \"%.*s\"",
                                  (int)CR_MIN(id.size, (size_t)80), id.data);
    }
    cr_str text = ref->text;
    const cr_json *at = c->root;
    bool good = text.size > 0 && text.data[0] == '#' && (text.size == 1 || text.data[1] == '/');
    *out = NULL;
    if (!good && c->options->lenient)
        return cr_schema_skip(c, ref, "a reference out of this schema");
    if (!good)
        return cr_schema_fail(c, ref, CERA_E_UNSUPPORTED,
                              "expected a reference into this schema (#/...), found \"%.*s\"",
                              (int)CR_MIN(text.size, (size_t)80), text.data);
    for (size_t i = 1; i < text.size && at;) {
        size_t end = ++i;
        while (end < text.size && text.data[end] != '/')
            end++;
        at = step(at, text.data + i, end - i);
        i = end;
    }
    if (!at)
        return cr_schema_fail(c, ref, CERA_E_FORMAT, "expected what \"%.*s\" points to, found none",
                              (int)CR_MIN(text.size, (size_t)80), text.data);
    *out = at;
    return CERA_OK;
}

static cera_status want_list(cr_compiler *c, const cr_json *list)
{
    if (list->kind == CR_JSON_ARRAY && list->n > 0)
        return CERA_OK;
    return cr_schema_fail(c, list, CERA_E_FORMAT, "expected a list with schemas");
}

cera_status cr_parts_expand(cr_compiler *c, cr_parts *parts, bool *none)
{
    *none = false;
    for (; parts->n_expanded < parts->n; parts->n_expanded++) {
        const int i = parts->n_expanded;
        const cr_json *schema = parts->part[i].schema;
        if (schema->kind == CR_JSON_FALSE) {
            *none = true;
            c->unmet = schema;
        }
        if (schema->kind == CR_JSON_TRUE || schema->kind == CR_JSON_FALSE)
            continue;
        if (schema->kind != CR_JSON_OBJECT)
            return cr_schema_fail(c, schema, CERA_E_FORMAT,
                                  "expected a schema: an object or a "
                                  "boolean");
        CR_TRY(cr_schema_check_keywords(c, schema));
        const cr_json *ref = cr_json_get(schema, "$ref"), *all = cr_json_get(schema, "allOf");
        if (ref) {
            const cr_json *target;
            CR_TRY(cr_schema_resolve(c, ref, &target));
            if (target)
                CR_TRY(cr_parts_add(c, parts, target, i));
        }
        if (all)
            CR_TRY(want_list(c, all));
        for (const cr_json *s = all ? all->first : NULL; s; s = s->next)
            CR_TRY(cr_parts_add(c, parts, s, i));
        CR_TRY(cr_parts_expand_not(c, parts, i));
    }
    return CERA_OK;
}

static unsigned kind_of(const cr_json *value)
{
    switch (value->kind) {
    case CR_JSON_NULL:
        return CR_IS_NULL;
    case CR_JSON_FALSE:
    case CR_JSON_TRUE:
        return CR_IS_BOOL;
    case CR_JSON_STRING:
        return CR_IS_STRING;
    case CR_JSON_ARRAY:
        return CR_IS_ARRAY;
    case CR_JSON_OBJECT:
        return CR_IS_OBJECT;
    case CR_JSON_NUMBER:
        break;
    }
    return cr_schema_is_whole(value->text) ? CR_IS_INTEGER : CR_IS_FRACTION;
}

static cera_status read_type(cr_compiler *c, const cr_json *type, unsigned *kinds)
{
    static const struct {
        const char *name;
        unsigned kinds;
    } types[] = {
        { "null", CR_IS_NULL },
        { "boolean", CR_IS_BOOL },
        { "object", CR_IS_OBJECT },
        { "array", CR_IS_ARRAY },
        { "string", CR_IS_STRING },
        { "integer", CR_IS_INTEGER },
        { "number", CR_IS_INTEGER | CR_IS_FRACTION },
    };
    for (size_t i = 0; type->kind == CR_JSON_STRING && i < CR_COUNT(types); i++) {
        if (cr_str_is(type->text, types[i].name)) {
            *kinds |= types[i].kinds;
            return CERA_OK;
        }
    }
    return cr_schema_fail(c, type, CERA_E_FORMAT,
                          "expected null, boolean, object, array, string, integer or number");
}

cera_status cr_parts_kinds(cr_compiler *c, const cr_parts *parts, unsigned *kinds)
{
    *kinds = CR_IS_ANY;
    for (int i = 0; i < parts->n; i++) {
        const cr_json *schema = parts->part[i].schema;
        const cr_json *type = cr_json_get(schema, "type"), *one = cr_json_get(schema, "const");
        const cr_json *list = cr_json_get(schema, "enum");
        unsigned here = 0;
        if (type && type->kind == CR_JSON_ARRAY) {
            for (const cr_json *t = type->first; t; t = t->next)
                CR_TRY(read_type(c, t, &here));
        } else if (type) {
            CR_TRY(read_type(c, type, &here));
        }
        *kinds &= type ? here : CR_IS_ANY;
        if (one)
            *kinds &= kind_of(one);
        here = 0;
        for (const cr_json *v = list ? list->first : NULL; v; v = v->next)
            here |= kind_of(v);
        *kinds &= list ? here : CR_IS_ANY;
        /* What excludes something of one kind refuses no other: there is none of them. */
        const cr_part *part = &parts->part[i];
        *kinds &= cr_part_excluded_name(part) ? CR_IS_OBJECT : CR_IS_ANY;
        *kinds &= cr_part_excluded_pattern(part) ? CR_IS_STRING : CR_IS_ANY;
    }
    return CERA_OK;
}

cera_status cr_parts_counts(cr_compiler *c, const cr_parts *parts, const char *least_key,
                            const char *most_key, uint32_t *least, uint32_t *most)
{
    *least = 0;
    *most = UINT32_MAX;
    for (int i = 0; i < parts->n; i++) {
        for (int is_most = 0; is_most < 2; is_most++) {
            const cr_json *k = cr_json_get(parts->part[i].schema, is_most ? most_key : least_key);
            if (!k)
                continue;
            double value;
            if (k->kind != CR_JSON_NUMBER || !cr_schema_is_whole(k->text) ||
                !cr_parse_f64(k->text, &value) || value < 0)
                return cr_schema_fail(c, k, CERA_E_FORMAT, "expected a whole number from 0 on");
            const bool fits = value <= 100000;
            if (!fits && !is_most && c->options->lenient)
                CR_TRY(cr_schema_skip(c, k, "no text is that long"));
            else if (!fits && !is_most)
                return cr_schema_fail(c, k, CERA_E_LIMIT, "expected at most 100000");
            if (!fits)
                continue; /* no text is that long */
            if (is_most)
                *most = CR_MIN(*most, (uint32_t)value);
            else
                *least = CR_MAX(*least, (uint32_t)value);
        }
    }
    return CERA_OK;
}

/* ---- values that are listed -------------------------------------------------------------- */

static const cr_json *find_list(const cr_parts *parts, bool *is_one)
{
    for (int i = 0; i < parts->n; i++) {
        const cr_json *one = cr_json_get(parts->part[i].schema, "const");
        const cr_json *list = cr_json_get(parts->part[i].schema, "enum");
        *is_one = one != NULL;
        if (one || list)
            return one ? one : list;
    }
    return NULL;
}

static const char *const words[] = { "\"null\"", "\"false\"", "\"true\"" };

static void put_value(cr_text *t, const cr_json *value)
{
    if (value->kind == CR_JSON_STRING) {
        cr_text_json_string(t, value->text);
    } else if (value->kind == CR_JSON_NUMBER) {
        cr_text_literal(t, value->text);
    } else if (value->kind < CR_JSON_NUMBER) {
        cr_text_put(t, "%s", words[value->kind]);
    } else {
        bool is_object = value->kind == CR_JSON_OBJECT;
        cr_text_put(t, is_object ? "\"{\" ws " : "\"[\" ws ");
        for (const cr_json *child = value->first; child; child = child->next) {
            cr_text_put(t, child == value->first ? "" : "\",\" ws ");
            if (is_object) {
                cr_text_json_string(t, child->key);
                cr_text_put(t, " \":\" ws ");
            }
            put_value(t, child);
            cr_text_put(t, " ");
        }
        cr_text_put(t, is_object ? "ws \"}\"" : "ws \"]\"");
    }
}

static bool is_plain_text(const cr_compiler *c, const cr_json *value)
{
    return value->kind == CR_JSON_STRING && cr_dfa_accepts(c->plain, value->text);
}

/* Texts that are listed; those of one kind are read side by side only as far as they are alike. */
typedef struct listed {
    const cr_json *list;
    cr_str *texts; /* [n] sorted */
    size_t n;
    bool in_json;
} listed;

/* A rule for the rest of texts [first, end), which are alike up to byte `at`. */
static cera_status put_shared(cr_compiler *c, const listed *l, size_t first, size_t end, size_t at,
                              uint32_t *rule)
{
    cr_text t;
    cr_text_init(&t, c);
    cera_status status = CERA_OK;
    int n_ways = 0;
    const bool ends = l->texts[first].size == at;
    while (first < end && l->texts[first].size == at)
        first++;
    while (first < end && status == CERA_OK) {
        const cr_str one = l->texts[first];
        uint32_t code, rest = 0;
        size_t same = at + CR_MAX(cr_utf8_decode(one.data + at, one.size - at, &code), (size_t)1);
        size_t next = first + 1;
        while (next < end && l->texts[next].size >= same &&
               memcmp(l->texts[next].data + at, one.data + at, same - at) == 0)
            next++;
        /* What the first and the last share, all share. */
        const cr_str last = l->texts[next - 1];
        while (same < one.size && same < last.size && one.data[same] == last.data[same])
            same++;
        while (same < one.size && (one.data[same] & 0xc0) == 0x80)
            same--;
        if (last.size > same)
            status = put_shared(c, l, first, next, same, &rest);
        cr_text_put(&t, n_ways > 0 ? " | \"" : "\"");
        put_chars(&t, (cr_str){ one.data + at, same - at }, l->in_json);
        cr_text_put(&t, rest > 0 ? "\" d%u" : "\"", rest);
        if (status == CERA_OK && ++n_ways > MAX_WAYS)
            status = cr_schema_fail(c, l->list, CERA_E_LIMIT,
                                    "expected at most %d different characters behind the same "
                                    "beginning of listed values, found more",
                                    MAX_WAYS);
        first = next;
    }
    if (status != CERA_OK) {
        cr_text_drop(&t);
        return status;
    }
    cr_text_put(&t, ends ? (n_ways > 0 ? " | \"\"" : "\"\"") : "");
    *rule = ++c->n_names;
    cr_text_finish(&t, 'd', *rule);
    return CERA_OK;
}

/* Appends alternatives for the texts; a few stay as they are. */
static cera_status put_texts(cr_compiler *c, listed *l, cr_text *t, bool *none)
{
    const char *quote = l->in_json ? "\"\\\"\" " : "";
    uint32_t rule;
    for (size_t i = 0; i < l->n && l->n <= MAX_PLAIN_LIST; i++) {
        cr_text_put(t, *none ? "" : " | ");
        if (l->in_json)
            cr_text_json_string(t, l->texts[i]);
        else
            cr_text_literal(t, l->texts[i]);
        *none = false;
    }
    if (l->n <= MAX_PLAIN_LIST)
        return CERA_OK;
    cr_texts_sort(l->texts, l->n);
    CR_TRY(put_shared(c, l, 0, l->n, 0, &rule));
    cr_text_put(t, "%s%sd%u %s", *none ? "" : " | ", quote, rule, quote);
    *none = false;
    return CERA_OK;
}

/* The keyword that is not known to hold or not for the value. */
static const cr_json *find_unchecked(cr_compiler *c, const cr_json *schema, const cr_json *value,
                                     const cr_json *otherwise)
{
    for (const cr_json *k = schema->first; k; k = k->next) {
        cr_json copy = *k, one = { .kind = CR_JSON_OBJECT, .n = 1, .first = &copy };
        copy.next = NULL;
        if (cr_schema_check(c, &one, value, 0) < 0)
            return k;
    }
    return otherwise;
}

/* Those of the listed values that satisfy all parts. */
static cera_status put_listed(cr_compiler *c, const cr_parts *parts, const cr_json *list,
                              bool is_one, cr_text *t, bool *none)
{
    if (!is_one && list->kind != CR_JSON_ARRAY)
        return cr_schema_fail(c, list, CERA_E_FORMAT, "expected a list");
    const size_t room = is_one ? 1 : list->n + 1;
    listed strings = { .list = list, .in_json = !c->plain }, numbers = { .list = list };
    strings.texts = cr_arena_array(&c->arena, room, sizeof *strings.texts);
    numbers.texts = cr_arena_array(&c->arena, room, sizeof *numbers.texts);
    if (!strings.texts || !numbers.texts)
        return cr_schema_no_memory(c);
    int n_others = 0;
    *none = true;
    for (const cr_json *v = is_one ? list : list->first; v; v = is_one ? NULL : v->next) {
        int good = 1, i = 0;
        for (; i < parts->n && good == 1; i++)
            good = cr_schema_check(c, parts->part[i].schema, v, 0);
        if (good < 0)
            CR_TRY(cr_schema_skip(c, find_unchecked(c, parts->part[i - 1].schema, v, list),
                                  "for listed values it is not checked"));
        if (good == 0 || (c->plain && !is_plain_text(c, v)))
            continue;
        if (v->kind == CR_JSON_STRING) {
            strings.texts[strings.n++] = v->text;
        } else if (v->kind == CR_JSON_NUMBER) {
            numbers.texts[numbers.n++] = v->text;
        } else {
            cr_text_put(t, *none ? "" : " | ");
            put_value(t, v);
            *none = false;
            n_others++;
        }
    }
    if (n_others > MAX_WAYS)
        return cr_schema_fail(c, list, CERA_E_LIMIT,
                              "expected at most %d objects and lists among the values, found more",
                              MAX_WAYS);
    CR_TRY(put_texts(c, &strings, t, none));
    CR_TRY(put_texts(c, &numbers, t, none));
    c->unmet = *none ? list : c->unmet;
    return CERA_OK;
}

/* ---- choices ----------------------------------------------------------------------------- */

/* Whether no string that is generated for `a` is one of b for any reader. */
static cera_status strings_differ(cr_compiler *c, const cr_parts *a, const cr_parts *b, bool *out)
{
    const cr_dfa *x, *y;
    CR_TRY(cr_schema_string_set(c, a, &x));
    c->is_widest = true;
    cera_status status = cr_schema_string_set(c, b, &y);
    c->is_widest = false;
    CR_TRY(status);
    const cr_dfa *common = x && y ? cr_dfa_and(&c->shop, x, y) : NULL;
    *out = common && common->n_states == 0;
    return CERA_OK;
}

/* Whether no value that is generated for `a` or `b` satisfies both. */
static cera_status differ_exactly(cr_compiler *c, const cr_parts *a, const cr_parts *b, bool *out)
{
    unsigned kinds_a, kinds_b;
    CR_TRY(cr_parts_kinds(c, a, &kinds_a));
    CR_TRY(cr_parts_kinds(c, b, &kinds_b));
    unsigned both = kinds_a & kinds_b;
    *out = both == 0;
    if (*out)
        return CERA_OK;
    bool is_one;
    for (int turn = 0; turn < 2 && !*out; turn++) {
        const cr_parts *x = turn == 0 ? a : b, *y = turn == 0 ? b : a;
        const cr_json *list = find_list(x, &is_one);
        if (!list)
            continue;
        /* Each listed value of x fails a part of y (or one of its own). */
        *out = true;
        for (const cr_json *v = is_one ? list : list->first; v && *out;
             v = is_one ? NULL : v->next) {
            bool fails = false;
            for (int i = 0; i < x->n && !fails; i++)
                fails = cr_schema_check(c, x->part[i].schema, v, 0) == 0;
            for (int i = 0; i < y->n && !fails; i++)
                fails = cr_schema_check(c, y->part[i].schema, v, 0) == 0;
            *out = fails;
        }
    }
    if (*out)
        return CERA_OK;
    if (both == CR_IS_STRING) {
        bool apart;
        CR_TRY(strings_differ(c, a, b, out));
        CR_TRY(strings_differ(c, b, a, &apart));
        *out = *out && apart;
    } else if (both == CR_IS_OBJECT) {
        *out = cr_objects_differ(c, a, b);
    }
    return CERA_OK;
}

static cera_status differ(cr_compiler *c, const cr_parts *a, const cr_parts *b, bool *out)
{
    const bool before = c->is_exact;
    const cr_arena_mark sets = cr_arena_get_mark(&c->arena);
    c->is_exact = true;
    cera_status status = differ_exactly(c, a, b, out);
    c->is_exact = before;
    cr_arena_to_mark(&c->arena, sets);
    return status;
}

static cera_status check_one_of(cr_compiler *c, const cr_parts *parts, int i, const cr_json *list)
{
    for (const cr_json *x = list->first; x; x = x->next) {
        for (const cr_json *y = x->next; y; y = y->next) {
            cr_parts a = *parts, b = *parts;
            bool none_a, none_b, apart = true;
            a.part[i].one_done = b.part[i].one_done = true;
            CR_TRY(cr_parts_add(c, &a, x, i));
            CR_TRY(cr_parts_add(c, &b, y, i));
            CR_TRY(cr_parts_expand(c, &a, &none_a));
            CR_TRY(cr_parts_expand(c, &b, &none_b));
            if (!none_a && !none_b)
                CR_TRY(differ(c, &a, &b, &apart));
            if (!apart)
                return cr_schema_skip(c, list,
                                      "two of the schemas may hold at once, or cannot be "
                                      "shown not to; anyOf takes them");
        }
    }
    return CERA_OK;
}

/* Whether a glance shows that nothing satisfies the parts: no kind of value is left, or a name must
 * be there and must not. */
static cera_status contradict(cr_compiler *c, const cr_parts *parts, bool *out)
{
    unsigned kinds;
    CR_TRY(cr_parts_kinds(c, parts, &kinds));
    *out = kinds == 0;
    for (int i = 0; i < parts->n && kinds == CR_IS_OBJECT && !*out; i++) {
        const cr_json *name = cr_part_excluded_name(&parts->part[i]);
        for (int k = 0; k < parts->n && name && !*out; k++) {
            const cr_json *required = cr_json_get(parts->part[k].schema, "required");
            for (const cr_json *r = required ? required->first : NULL; r && !*out; r = r->next)
                *out = cr_json_equal(r, name);
        }
    }
    return CERA_OK;
}

/* Makes alternatives of the first choice that is open; *found when there was one. */
static cera_status put_choice(cr_compiler *c, const cr_parts *parts, cr_text *t, bool *found,
                              bool *none)
{
    *found = false;
    for (int i = 0; i < parts->n && !*found; i++) {
        const cr_json *schema = parts->part[i].schema;
        const cr_json *any = parts->part[i].any_done ? NULL : cr_json_get(schema, "anyOf");
        const cr_json *one = parts->part[i].one_done ? NULL : cr_json_get(schema, "oneOf");
        const cr_json *list = any ? any : one;
        if (!list)
            continue;
        *found = *none = true;
        CR_TRY(want_list(c, list));
        if (list->n > MAX_BRANCHES)
            return cr_schema_fail(c, list, CERA_E_LIMIT, "expected at most %d schemas",
                                  MAX_BRANCHES);
        c->choice = list;
        if (!any)
            CR_TRY(check_one_of(c, parts, i, list));
        for (const cr_json *branch = list->first; branch; branch = branch->next) {
            cr_parts chosen = *parts;
            uint32_t rule;
            bool nothing;
            if (any)
                chosen.part[i].any_done = true;
            else
                chosen.part[i].one_done = true;
            c->choice = list;
            CR_TRY(cr_parts_add(c, &chosen, branch, i));
            CR_TRY(cr_parts_expand(c, &chosen, &nothing));
            if (!nothing)
                CR_TRY(contradict(c, &chosen, &nothing));
            if (nothing)
                continue;
            CR_TRY(cr_schema_rule(c, &chosen, &rule));
            if (rule == 0)
                continue;
            cr_text_put(t, *none ? "v%u" : " | v%u", rule);
            *none = false;
        }
        c->unmet = *none ? list : c->unmet;
    }
    return CERA_OK;
}

/* ---- rules ------------------------------------------------------------------------------- */

static bool says_nothing(const cr_parts *parts)
{
    for (int i = 0; i < parts->n; i++) {
        if (parts->part[i].excluded)
            return false;
        for (const cr_json *k = parts->part[i].schema->first; k; k = k->next) {
            if (cr_schema_keyword(k->key) == CR_KEYWORD_ENFORCED)
                return false;
        }
    }
    return true;
}

static bool is_excluded(const cr_parts *parts, cr_json_kind word)
{
    for (int i = 0; i < parts->n; i++) {
        const cr_json *v = NULL;
        while ((v = cr_part_next_excluded(&parts->part[i], v)) != NULL) {
            if (v->kind == word)
                return true;
        }
    }
    return false;
}

/* null, false and true, each where nothing excludes it. */
static void put_words(const cr_parts *parts, cr_json_kind first, cr_json_kind last, cr_text *t,
                      bool *none)
{
    *none = true;
    for (cr_json_kind word = first; word <= last; word++) {
        if (is_excluded(parts, word))
            continue;
        cr_text_put(t, "%s%s", *none ? "" : " | ", words[word]);
        *none = false;
    }
}

/* Objects and arrays are not compared while they are generated. */
static cera_status check_excluded(cr_compiler *c, const cr_parts *parts, cr_json_kind kind)
{
    for (int i = 0; i < parts->n; i++) {
        const cr_json *v = NULL;
        while ((v = cr_part_next_excluded(&parts->part[i], v)) != NULL) {
            if (v->kind == kind)
                return cr_schema_skip(c, parts->part[i].excluded,
                                      "an object or a list must not be a listed one");
        }
    }
    return CERA_OK;
}

static cera_status put_kinds(cr_compiler *c, const cr_parts *parts, cr_text *t, bool *none)
{
    unsigned kinds;
    CR_TRY(cr_parts_kinds(c, parts, &kinds));
    kinds &= c->plain ? CR_IS_STRING : CR_IS_ANY;
    *none = true;
    c->unmet = cr_parts_keyword(parts, "type\0const\0enum\0"); /* unless a kind knows more */
    for (unsigned kind = 1; kind <= CR_IS_INTEGER; kind *= 2) {
        unsigned numbers = CR_IS_INTEGER | CR_IS_FRACTION;
        if ((kinds & (kind == CR_IS_INTEGER ? numbers : kind)) == 0)
            continue;
        const bool has_rules = kind == CR_IS_OBJECT || kind == CR_IS_ARRAY;
        const cr_arena_mark before = cr_arena_get_mark(&c->arena);
        cr_text one;
        cr_text_init(&one, c);
        bool empty = false;
        cera_status status = CERA_OK;
        if (kind == CR_IS_OBJECT)
            status = check_excluded(c, parts, CR_JSON_OBJECT);
        else if (kind == CR_IS_ARRAY)
            status = check_excluded(c, parts, CR_JSON_ARRAY);
        if (status != CERA_OK) {
            cr_text_drop(&one);
            return status;
        }
        if (kind == CR_IS_NULL)
            put_words(parts, CR_JSON_NULL, CR_JSON_NULL, &one, &empty);
        else if (kind == CR_IS_BOOL)
            put_words(parts, CR_JSON_FALSE, CR_JSON_TRUE, &one, &empty);
        else if (kind == CR_IS_OBJECT)
            status = cr_schema_object(c, parts, &one, &empty);
        else if (kind == CR_IS_ARRAY)
            status = cr_schema_array(c, parts, &one, &empty);
        else if (kind == CR_IS_STRING && c->plain)
            status = cr_schema_plain_string(c, parts, &one, &empty);
        else if (kind == CR_IS_STRING)
            status = cr_schema_string(c, parts, &one, &empty);
        else
            status = cr_schema_number(c, parts, kinds & numbers, &one, &empty);
        if (status == CERA_OK && !empty) {
            cr_text_put(t, *none ? "" : " | ");
            put(t, one.buf.data, one.buf.size);
            *none = false;
        }
        cr_text_drop(&one);
        if (!has_rules)
            cr_arena_to_mark(&c->arena, before); /* its sets */
        CR_TRY(status);
    }
    return CERA_OK;
}

/* Appends alternatives for the expanded parts. */
static cera_status put_parts(cr_compiler *c, const cr_parts *parts, cr_text *t, bool *none)
{
    bool found, is_one;
    *none = false;
    if (!c->plain && says_nothing(parts)) {
        cr_text_put(t, "any");
        return CERA_OK;
    }
    const cr_json *list = find_list(parts, &is_one);
    if (list)
        return put_listed(c, parts, list, is_one, t, none);
    CR_TRY(put_choice(c, parts, t, &found, none));
    return found ? CERA_OK : put_kinds(c, parts, t, none);
}

/* What is known of a rule: the parts it is for. */
typedef struct known {
    const cr_part *parts; /* [n] */
    int n;
    uint64_t sum; /* of the parts */
    uint32_t rule;
    const cr_json *unmet; /* with is_none */
    bool is_none, is_plain;
} known;

static bool are_same(const known *a, const cr_parts *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++) {
        bool found = false;
        for (int k = 0; k < b->n && !found; k++)
            found = a->parts[i].schema == b->part[k].schema &&
                    a->parts[i].excluded == b->part[k].excluded &&
                    a->parts[i].any_done == b->part[k].any_done &&
                    a->parts[i].one_done == b->part[k].one_done;
        if (!found)
            return false;
    }
    return true;
}

/* Alike for parts that are the same. */
static uint64_t sum_of(const cr_parts *parts)
{
    uint64_t sum = 0;
    for (int i = 0; i < parts->n; i++) {
        const cr_part *part = &parts->part[i];
        const uint64_t key[] = { (uintptr_t)part->schema, (uintptr_t)part->excluded, part->any_done,
                                 part->one_done };
        sum += cr_hash(key, sizeof key);
    }
    return sum;
}

static known *get_known(const cr_compiler *c, size_t i)
{
    return (known *)(void *)c->known.data + i;
}

static cera_status fail_spent(const cr_compiler *c, const cr_json *schema)
{
    return cr_schema_fail(c, c->choice ? c->choice : schema, CERA_E_LIMIT,
                          "expected a schema that becomes a smaller grammar, found one that is too "
                          "much: choices (anyOf, if, dependent...) that hold together multiply, "
                          "large counts and patterns add up");
}

cera_status cr_schema_rule(cr_compiler *c, cr_parts *parts, uint32_t *rule)
{
    bool none;
    *rule = 0;
    CR_TRY(cr_parts_expand(c, parts, &none));
    if (none)
        return CERA_OK;
    size_t n = c->known.size / sizeof(known);
    const uint64_t sum = sum_of(parts);
    for (size_t i = 0; i < n; i++) {
        const known *k = get_known(c, i);
        if (k->sum == sum && k->is_plain == (c->plain != NULL) && are_same(k, parts)) {
            *rule = k->is_none ? 0 : k->rule;
            c->unmet = k->is_none ? k->unmet : c->unmet;
            return CERA_OK;
        }
    }
    const cr_json *first = parts->part[0].schema;
    if (c->depth == MAX_DEPTH)
        return cr_schema_fail(c, first, CERA_E_LIMIT,
                              "expected at most %d nested schemas, found more", MAX_DEPTH);
    if (n == MAX_RULES)
        c->shop.is_spent = true;
    if (c->shop.is_spent)
        return fail_spent(c, first);
    const size_t size = (size_t)parts->n * sizeof(cr_part);
    cr_part *copy = cr_arena_alloc(&c->arena, size);
    known entry = {
        .parts = copy, .n = parts->n, .sum = sum, .rule = ++c->n_names, .is_plain = c->plain != NULL
    };
    if (!copy || !cr_buf_append(&c->known, &entry, sizeof entry))
        return cr_schema_no_memory(c);
    memcpy(copy, parts->part, size);
    cr_text t;
    cr_text_init(&t, c);
    c->depth++;
    cera_status status = put_parts(c, parts, &t, &none);
    c->depth--;
    if (c->shop.is_spent)
        status = fail_spent(c, first);
    if (status != CERA_OK || none) {
        cr_text_drop(&t);
        get_known(c, n)->is_none = none;
        get_known(c, n)->unmet = c->unmet;
        return status;
    }
    cr_text_finish(&t, 'v', entry.rule);
    *rule = entry.rule;
    return CERA_OK;
}

static void put_common(cr_compiler *c)
{
    static const char rules[] =
        "any ::= any-object | any-array | string | number | \"true\" | \"false\" | \"null\"\n"
        "any-object ::= \"{\" ws (any-member (\",\" ws any-member)*)? ws \"}\"\n"
        "any-member ::= string \":\" ws any\n"
        "any-array ::= \"[\" ws (any (\",\" ws any)*)? ws \"]\"\n"
        "string ::= \"\\\"\" char* \"\\\"\"\n"
        "unit ::= [0-9a-cA-CefEF] hex{3} | [dD] [0-7] hex{2} |"
        " [dD] [89abAB] hex{2} \"\\\\u\" [dD] [c-fC-F] hex{2}\n"
        "hex ::= [0-9a-fA-F]\n"
        "integer ::= \"-\"? whole\n"
        "whole ::= \"0\" | [1-9] [0-9]{0,15}\n"
        "number ::= integer (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?\n";
    cr_text t;
    cr_text_init(&t, c);
    put(&t, rules, sizeof rules - 1);
    cr_text_put(&t, "char ::= [^\"\\\\\\x00-\\x1F%s] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" unit)\n",
                c->options->end_tag ? "<" : "");
    if (c->options->max_blanks > 0)
        cr_text_put(&t, "ws ::= (\" \" | \"\\n\" [ \\t]{0,%d})?\n", c->options->max_blanks);
    else
        cr_text_put(&t, "ws ::= \"\"\n");
    c->no_memory = c->no_memory || !cr_buf_append(c->out, t.buf.data, t.buf.size);
    cr_text_drop(&t);
}

static cera_status compile(cr_compiler *c)
{
    cr_parts parts = { .n = 0 };
    uint32_t rule;
    CR_TRY(cr_parts_add(c, &parts, c->top, -1));
    CR_TRY(c->options->end_tag ? cr_schema_tagged_rule(c, c->top, &rule)
                               : cr_schema_rule(c, &parts, &rule));
    if (rule == 0)
        return cr_schema_fail(c, c->unmet ? c->unmet : c->top, CERA_E_UNSUPPORTED,
                              "expected a schema that some value satisfies, found none that can be "
                              "generated");
    cr_text t;
    cr_text_init(&t, c);
    cr_text_put(&t, "root ::= v%u\n", rule);
    c->no_memory = c->no_memory || !cr_buf_append(c->out, t.buf.data, t.buf.size);
    cr_text_drop(&t);
    put_common(c);
    return c->no_memory ? cr_schema_no_memory(c) : CERA_OK;
}

cera_status cr_schema_read(cr_str text, cr_arena *arena, const cr_json **out, cera_error *err)
{
    static const cr_json_rules rules = { .max_bytes = MAX_TEXT,
                                         .max_values = MAX_TEXT,
                                         .max_depth = MAX_LEVELS };
    return cr_json_parse(text, "schema", &rules, arena, out, err);
}

cera_status cr_schema_to_gbnf(const cr_json *root, const cr_json *schema,
                              const cr_schema_options *options, cr_host *host, cr_buf *out,
                              cera_error *err)
{
    cr_compiler c = {
        .host = host, .options = options, .root = root, .top = schema, .out = out, .err = err
    };
    cr_arena_init(&c.arena, host, CR_MEM_SCRATCH);
    c.shop.arena = &c.arena;
    cr_buf_init(&c.known, host, CR_MEM_SCRATCH);
    cr_buf_init(&c.made, host, CR_MEM_SCRATCH);
    size_t before = out->size;
    cera_status status = compile(&c);
    if (status == CERA_OK && !cr_schema_prune(&c, before))
        status = cr_schema_no_memory(&c);
    if (status == CERA_OK &&
        count_elements((cr_str){ out->data + before, out->size - before }) > CR_MAX_NODES)
        status = fail_spent(&c, schema);
    if (status != CERA_OK)
        out->size = before;
    cr_buf_done(&c.known);
    cr_buf_done(&c.made);
    cr_arena_done(&c.arena);
    return status;
}

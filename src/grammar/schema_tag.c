/* Values in front of a tag, as in <parameter=a>value</parameter>: strings without quotes, and JSON
 * for the rest.
 *
 * Who reads them knows the schema no further than this: where it says "type": "string" itself, all
 * that stands there is the string; elsewhere what reads as a value of JSON or Python is that value,
 * and what does not is a string. So a string that reads as a value gets quotes there. Neither form
 * has the tag in it: texts without quotes are kept from it, and JSON has \u003c for <. */
#include "grammar/schema_internal.h"

#include <stdio.h>

/* What begins like a value, or is a word for one. */
#define VALUE                                                                                      \
    "^[ \\t\\r\\n]*(?:[\"'\\[{0-9+.\\-]|(?:true|false|null|True|False|None)[ \\t\\r\\n]*$)"

static bool is_text(const cr_json *schema)
{
    const cr_json *type = cr_json_get(schema, "type");
    return type && type->kind == CR_JSON_STRING && cr_str_is(type->text, "string");
}

/* The texts without this in them. */
static cera_status texts_without(cr_compiler *c, const char *pattern, const cr_dfa **out)
{
    const cr_dfa *with;
    CR_TRY(cr_regex_compile(&c->shop, cr_str_from(pattern), true, &with, c->err));
    *out = cr_dfa_not(&c->shop, with);
    return *out ? CERA_OK : cr_schema_no_memory(c);
}

static cera_status find_plain(cr_compiler *c, bool is_text, const cr_dfa **out)
{
    char pattern[2 * CR_SCHEMA_MAX_TAG + 1] = "";
    for (const char *tag = c->options->end_tag; *tag != '\0'; tag++) {
        const size_t n = strlen(pattern);
        const bool is_special = strchr("\\^$.|?*+()[]{}/", *tag) != NULL;
        snprintf(pattern + n, sizeof pattern - n, "%s%c", is_special ? "\\" : "", *tag);
    }
    CR_TRY(texts_without(c, pattern, out));
    if (is_text)
        return CERA_OK;
    const cr_dfa *no_value;
    CR_TRY(texts_without(c, VALUE, &no_value));
    *out = cr_dfa_and(&c->shop, *out, no_value);
    return *out ? CERA_OK : cr_schema_no_memory(c);
}

cera_status cr_schema_plain_string(cr_compiler *c, const cr_parts *parts, cr_text *t, bool *none)
{
    const cr_dfa *set;
    uint32_t least, most, rule;
    CR_TRY(cr_schema_string_set(c, parts, &set));
    const bool has_pattern = set != NULL;
    CR_TRY(cr_parts_counts(c, parts, "minLength", "maxLength", &least, &most));
    *none = least > most;
    if (*none)
        return CERA_OK;
    if (!set && (least > 0 || most < UINT32_MAX))
        set = cr_dfa_length(&c->shop, least, most);
    else if (!set)
        set = c->plain;
    if (set && set != c->plain)
        set = cr_dfa_and(&c->shop, set, c->plain);
    if (set) {
        *none = set->n_states == 0;
        if (!*none) {
            cr_schema_set_rule(c, set, false, &rule);
            cr_text_put(t, "d%u", rule);
        }
        return CERA_OK;
    }
    if (!c->shop.too_large)
        return cr_schema_no_memory(c);
    c->shop.too_large = false;
    if (has_pattern)
        return cr_schema_fail(
            c, cr_parts_keyword(parts, "pattern\0format\0minLength\0maxLength\0"), CERA_E_LIMIT,
            "expected a set of strings with at most %d states, found a larger one",
            CR_DFA_MAX_STATES);
    /* Too long to count characters and watch for the tag: no character that begins it. */
    *none = !is_text(c->top);
    if (most == UINT32_MAX)
        cr_text_put(t, "[^<]{%u,}", least);
    else
        cr_text_put(t, "[^<]{%u,%u}", least, most);
    return CERA_OK;
}

cera_status cr_schema_tagged_rule(cr_compiler *c, const cr_json *schema, uint32_t *rule)
{
    const bool must_be_plain = is_text(schema);
    const cr_dfa *plain;
    CR_TRY(find_plain(c, must_be_plain, &plain));
    cr_text t;
    cr_text_init(&t, c);
    cera_status status = CERA_OK;
    bool any = false;
    for (int is_plain = must_be_plain; is_plain < 2 && status == CERA_OK; is_plain++) {
        cr_parts parts = { .n = 0 };
        uint32_t one = 0;
        c->plain = is_plain ? plain : NULL;
        status = cr_parts_add(c, &parts, schema, -1);
        if (status == CERA_OK)
            status = cr_schema_rule(c, &parts, &one);
        if (status == CERA_OK && one > 0) {
            cr_text_put(&t, any ? " | v%u" : "v%u", one);
            any = true;
        }
    }
    c->plain = NULL;
    *rule = any && status == CERA_OK ? ++c->n_names : 0;
    if (*rule > 0)
        cr_text_finish(&t, 'v', *rule);
    else
        cr_text_drop(&t);
    return status;
}

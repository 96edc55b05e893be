/* Strings: lengths alone are a repetition of characters in any spelling; with patterns or formats
 * the strings are a set (dfa.h), and each character has one spelling. */
#include "grammar/schema_internal.h"

/* Formats as regular expressions. RFC 3339 for dates and times (no leap seconds), RFC 4122, RFC 5321
 * without quoted and literal forms, RFC 1123, RFC 2673, RFC 4291, RFC 3986 with an authority. */
#define YEAR "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define LEAP "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(?:" YEAR "-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)"       \
    "|(?:0[13578]|1[02])-31)|" LEAP "-02-29)"
#define TIME                                                                                       \
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?"                                 \
    "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define BYTE_ "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 BYTE_ "\\." BYTE_ "\\." BYTE_ "\\." BYTE_
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,20}[A-Za-z0-9])?"
#define HOST LABEL "(?:\\." LABEL "){0,4}"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}"
#define H16 "[0-9a-fA-F]{1,4}"

static const struct {
    const char *name, *pattern;
} formats[] = {
    { "date", "^" DATE "$" },
    { "time", "^" TIME "$" },
    { "date-time", "^" DATE "T" TIME "$" },
    { "duration", "^P(?:[0-9]{1,6}W|(?:(?:[0-9]{1,6}Y(?:[0-9]{1,6}M(?:[0-9]{1,6}D)?)?"
                  "|[0-9]{1,6}M(?:[0-9]{1,6}D)?|[0-9]{1,6}D)"
                  "(?:T(?:[0-9]{1,6}H(?:[0-9]{1,6}M(?:[0-9]{1,6}S)?)?"
                  "|[0-9]{1,6}M(?:[0-9]{1,6}S)?|[0-9]{1,6}S))?"
                  "|T(?:[0-9]{1,6}H(?:[0-9]{1,6}M(?:[0-9]{1,6}S)?)?"
                  "|[0-9]{1,6}M(?:[0-9]{1,6}S)?|[0-9]{1,6}S)))$" },
    { "uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$" },
    { "email", "^" ATOM "(?:\\." ATOM "){0,3}@" HOST "$" },
    { "hostname", "^" HOST "$" },
    { "ipv4", "^" IPV4 "$" },
    { "ipv6", "^(?:(?:" H16 ":){7}" H16 "|(?:" H16 ":){6}:" H16 "|(?:" H16 ":){5}(?::" H16
              "){1,2}|(?:" H16 ":){4}(?::" H16 "){1,3}|(?:" H16 ":){3}(?::" H16 "){1,4}|(?:" H16
              ":){2}(?::" H16 "){1,5}|" H16 ":(?::" H16 "){1,6}|:(?::" H16 "){1,7}|::)$" },
    { "uri", "^[A-Za-z][A-Za-z0-9+.-]{0,15}://" HOST "(?::[0-9]{1,5})?"
             "(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})*)*"
             "(?:\\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-F]{2})*)?"
             "(?:#(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-F]{2})*)?$" },
};

/* ---- a set of strings as rules ----------------------------------------------------------- */

static bool is_plain(uint32_t code)
{
    return (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') ||
           (code >= 'a' && code <= 'z');
}

static void put_range(cr_text *t, uint32_t lo, uint32_t hi)
{
    for (int i = 0; i < (lo == hi ? 1 : 2); i++) {
        uint32_t code = i == 0 ? lo : hi;
        if (is_plain(code))
            cr_text_put(t, "%s%c", i == 0 ? "" : "-", (char)code);
        else
            cr_text_put(t, code < 0x10000 ? "%s\\u%04X" : "%s\\U%08X", i == 0 ? "" : "-", code);
    }
}

/* The characters of a move that a JSON string has as they are, inside [ ]. */
static bool put_raw_part(cr_text *t, const cr_dfa_move *move, bool in_json, bool began)
{
    /* What a JSON string cannot have: up to 1F, the quote, the backslash; and < in front of a tag. */
    static const uint32_t gaps[][2] = { { 0, 0x1f }, { '"', '"' }, { '<', '<' }, { '\\', '\\' } };
    const bool has_tag = t->c->options->end_tag != NULL;
    uint32_t lo = move->lo;
    for (size_t i = 0; in_json && i < CR_COUNT(gaps); i++) {
        if (gaps[i][1] < lo || gaps[i][0] > move->hi || (gaps[i][0] == '<' && !has_tag))
            continue;
        if (gaps[i][0] > lo) {
            cr_text_put(t, began ? "" : "[");
            put_range(t, lo, gaps[i][0] - 1);
            began = true;
        }
        lo = gaps[i][1] + 1;
    }
    if (lo <= move->hi) {
        cr_text_put(t, began ? "" : "[");
        put_range(t, lo, move->hi);
        began = true;
    }
    return began;
}

/* The characters of a move that are written with a backslash, each as an alternative. */
static void put_escaped(cr_text *t, const cr_dfa_move *move, bool *began)
{
    const bool has_tag = t->c->options->end_tag != NULL;
    for (uint32_t code = move->lo; code <= move->hi && code <= '\\'; code++) {
        if (code >= 0x20 && code != '"' && code != '\\' && !(has_tag && code == '<'))
            continue;
        static const char from[] = "\b\f\n\r\t\"\\", to[] = "bfnrt\"\\";
        const char *known = code > 0 ? strchr(from, (int)code) : NULL;
        cr_text_put(t, *began ? " | " : "");
        if (known)
            cr_text_put(t, "\"\\\\\\x%02X\"", (unsigned)(unsigned char)to[known - from]);
        else
            cr_text_put(t, "\"\\\\u%04x\"", code);
        *began = true;
    }
}

/* One alternative per target: all characters that lead there, then its rule. */
static void put_state(cr_compiler *c, const cr_dfa *set, uint32_t i, bool in_json, uint32_t base)
{
    cr_text t;
    cr_text_init(&t, c);
    const cr_dfa_state *state = &set->states[i];
    const cr_dfa_move *moves = set->moves + state->first;
    bool any = false;
    for (uint32_t m = 0; m < state->n; m++) {
        uint32_t target = moves[m].target;
        bool seen = false;
        for (uint32_t k = 0; k < m && !seen; k++)
            seen = moves[k].target == target;
        if (seen)
            continue;
        cr_text_put(&t, any ? " | " : "");
        cr_text_put(&t, in_json ? "(" : ""); /* without escapes it is a class */
        any = true;
        bool raw = false;
        for (uint32_t k = m; k < state->n; k++) {
            if (moves[k].target == target)
                raw = put_raw_part(&t, &moves[k], in_json, raw);
        }
        if (raw)
            cr_text_put(&t, "]");
        for (uint32_t k = m; k < state->n && in_json; k++) {
            if (moves[k].target == target)
                put_escaped(&t, &moves[k], &raw);
        }
        cr_text_put(&t, in_json ? ") d%u" : " d%u", base + target);
    }
    if (state->accepts)
        cr_text_put(&t, any ? " | \"\"" : "\"\"");
    cr_text_finish(&t, 'd', base + i);
}

void cr_schema_set_rule(cr_compiler *c, const cr_dfa *set, bool in_json, uint32_t *rule)
{
    uint32_t base = c->n_names + 1;
    c->n_names += set->n_states;
    for (uint32_t i = 0; i < set->n_states && !c->no_memory && !c->shop.is_spent; i++)
        put_state(c, set, i, in_json, base);
    *rule = base;
}

/* ---- the strings of a schema ------------------------------------------------------------- */

static cera_status too_large(cr_compiler *c, const cr_json *at)
{
    if (!c->shop.too_large)
        return cr_schema_no_memory(c);
    if (c->options->lenient)
        return cr_schema_skip(c, at, "its strings take too many states");
    return cr_schema_fail(c, at, CERA_E_LIMIT,
                          "expected a set of strings with at most %d states, found a larger one",
                          CR_DFA_MAX_STATES);
}

/* What the keyword asks for; *set NULL when it was left out. */
static cera_status keyword_set(cr_compiler *c, const cr_json *k, bool is_format, const cr_dfa **set)
{
    *set = NULL;
    if (k->kind != CR_JSON_STRING)
        return cr_schema_fail(c, k, CERA_E_FORMAT, "expected a string");
    if (!is_format) {
        cera_status status = cr_regex_compile(&c->shop, k->text, c->is_widest, set, c->err);
        if ((status == CERA_E_UNSUPPORTED || status == CERA_E_LIMIT) && c->options->lenient)
            return cr_schema_skip(c, k, "a pattern that no grammar says, or not a small one");
        return status == CERA_OK || status == CERA_E_NOMEM ? status
                                                           : cr_schema_fail_in(c, k, status);
    }
    for (size_t i = 0; i < CR_COUNT(formats); i++) {
        if (cr_str_is(k->text, formats[i].name)) {
            cera_status status =
                cr_regex_compile(&c->shop, cr_str_from(formats[i].pattern), false, set, c->err);
            return status;
        }
    }
    return cr_schema_skip(c, k, "a format that is not known here");
}

static cera_status and_with(cr_compiler *c, const cr_json *at, const cr_dfa **set,
                            const cr_dfa *other)
{
    if (!*set) {
        *set = other;
        return CERA_OK;
    }
    const cr_dfa *both = cr_dfa_and(&c->shop, *set, other);
    *set = both ? both : *set;
    return both ? CERA_OK : too_large(c, at);
}

static cera_status take_out(cr_compiler *c, const cr_json *at, const cr_dfa **set,
                            const cr_dfa *what)
{
    const cr_dfa *others = what ? cr_dfa_not(&c->shop, what) : NULL;
    return others ? and_with(c, at, set, others) : too_large(c, at);
}

/* Takes out the patterns that the part excludes. */
static cera_status exclude_pattern(cr_compiler *c, const cr_part *part, const cr_dfa **set)
{
    const cr_json *pattern = cr_part_excluded_pattern(part);
    if (pattern) {
        const cr_dfa *found;
        if (pattern->kind != CR_JSON_STRING)
            return cr_schema_fail(c, pattern, CERA_E_FORMAT, "expected a string");
        cera_status status =
            cr_regex_compile(&c->shop, pattern->text, !c->is_widest, &found, c->err);
        if ((status == CERA_E_UNSUPPORTED || status == CERA_E_LIMIT) && c->options->lenient)
            return cr_schema_skip(c, pattern, "a pattern that no grammar says, or not a small one");
        if (status != CERA_OK)
            return status == CERA_E_NOMEM ? status : cr_schema_fail_in(c, pattern, status);
        CR_TRY(take_out(c, pattern, set, found));
        /* For some readers $ is in front of a newline at the end, too. */
        if (!c->is_widest && memchr(pattern->text.data, '$', pattern->text.size)) {
            CR_TRY(cr_regex_compile(&c->shop, cr_str_from("\\n$"), true, &found, c->err));
            CR_TRY(take_out(c, pattern, set, found));
        }
    }
    return CERA_OK;
}

/* Takes out the strings that the parts exclude, all at once. */
static cera_status exclude_listed(cr_compiler *c, const cr_parts *parts, const cr_dfa **set)
{
    cr_str *texts = NULL;
    const cr_json *at = NULL;
    for (int fill = 0; fill < 2; fill++) {
        size_t n = 0;
        for (int i = 0; i < parts->n; i++) {
            const cr_json *v = NULL;
            while ((v = cr_part_next_excluded(&parts->part[i], v)) != NULL) {
                if (v->kind != CR_JSON_STRING)
                    continue;
                at = parts->part[i].excluded;
                if (fill)
                    texts[n] = v->text;
                n++;
            }
        }
        if (n == 0)
            return CERA_OK;
        if (fill)
            return take_out(c, at, set, cr_dfa_texts(&c->shop, texts, n));
        texts = cr_arena_array(&c->arena, n, sizeof *texts);
        if (!texts)
            return cr_schema_no_memory(c);
    }
    return CERA_OK;
}

cera_status cr_schema_string_set(cr_compiler *c, const cr_parts *parts, const cr_dfa **set)
{
    *set = NULL;
    for (int i = 0; i < parts->n; i++) {
        for (int is_format = 0; is_format < 2; is_format++) {
            const cr_json *k = cr_json_get(parts->part[i].schema, is_format ? "format" : "pattern");
            const cr_dfa *one = NULL;
            if (k)
                CR_TRY(keyword_set(c, k, is_format, &one));
            if (one)
                CR_TRY(and_with(c, k, set, one));
        }
    }
    for (int i = 0; i < parts->n; i++)
        CR_TRY(exclude_pattern(c, &parts->part[i], set));
    CR_TRY(exclude_listed(c, parts, set));
    uint32_t least, most;
    CR_TRY(cr_parts_counts(c, parts, "minLength", "maxLength", &least, &most));
    if (!*set || (least == 0 && most == UINT32_MAX))
        return CERA_OK;
    const cr_dfa *length = cr_dfa_length(&c->shop, least, most);
    const cr_json *at = cr_parts_keyword(parts, "minLength\0maxLength\0");
    return length ? and_with(c, at, set, length) : too_large(c, at);
}

cera_status cr_schema_string(cr_compiler *c, const cr_parts *parts, cr_text *t, bool *none)
{
    const cr_dfa *set;
    uint32_t least, most, rule;
    CR_TRY(cr_schema_string_set(c, parts, &set));
    CR_TRY(cr_parts_counts(c, parts, "minLength", "maxLength", &least, &most));
    *none = least > most || (set && set->n_states == 0);
    if (*none) {
        c->unmet = cr_parts_keyword(
            parts, least > most ? "minLength\0" : "pattern\0format\0minLength\0maxLength\0");
        return CERA_OK;
    }
    if (set) {
        cr_schema_set_rule(c, set, true, &rule);
        cr_text_put(t, "\"\\\"\" d%u \"\\\"\"", rule);
    } else if (least == 0 && most == UINT32_MAX) {
        cr_text_put(t, "string");
    } else if (most == UINT32_MAX) {
        cr_text_put(t, "\"\\\"\" char{%u,} \"\\\"\"", least);
    } else {
        cr_text_put(t, "\"\\\"\" char{%u,%u} \"\\\"\"", least, most);
    }
    return CERA_OK;
}

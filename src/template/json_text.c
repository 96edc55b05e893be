/* JSON: reading what a template is given, and the filter `tojson`. */
#include "base/json.h"
#include "template/value.h"

#include <math.h>
#include <stdio.h>

/* ---- reading ------------------------------------------------------------------------------- */

static bool to_number(cr_interp *t, const cr_json *from, const char *what, cr_tv *out)
{
    double value;
    int64_t integer;
    bool is_real = false;
    for (size_t i = 0; i < from->text.size; i++)
        is_real = is_real || strchr(".eE", from->text.data[i]) != NULL;
    if (is_real && cr_json_f64(from, &value)) {
        *out = cr_tv_float(value);
        return true;
    }
    if (!is_real && cr_json_i64(from, &integer)) {
        *out = cr_tv_int(integer);
        return true;
    }
    char place[128];
    cr_json_pointer(NULL, from, place, sizeof place);
    t->status = cr_fail(t->err, CERA_E_ARG, "%s: %s: expected an integer of 64 bits, found %.*s",
                        what, place, (int)CR_MIN(from->text.size, (size_t)40), from->text.data);
    return false;
}

static bool to_value(cr_interp *t, const cr_json *from, const char *what, cr_tv *out);

static bool to_list(cr_interp *t, const cr_json *from, const char *what, cr_tv *out)
{
    cr_tvec vec = { 0 };
    for (const cr_json *child = from->first; child != NULL; child = child->next) {
        cr_tv item;
        if (!to_value(t, child, what, &item) || !cr_tvec_push(t, &vec, item))
            return false;
    }
    return cr_tv_list(t, CR_TV_LIST, vec.items, vec.n, out);
}

static bool to_dict(cr_interp *t, const cr_json *from, const char *what, cr_tv *out)
{
    if (!cr_tv_dict(t, CR_TV_DICT, out))
        return false;
    for (const cr_json *child = from->first; child != NULL; child = child->next) {
        cr_tv key, value;
        if (!cr_tv_text(t, child->key.data, child->key.size, CR_FROM_DATA, &key) ||
            !to_value(t, child, what, &value) || !cr_tdict_set(t, out->as.dict, key, value))
            return false;
    }
    return true;
}

static bool to_value(cr_interp *t, const cr_json *from, const char *what, cr_tv *out)
{
    if (!cr_interp_work(t, CR_WORK_NODE / 8))
        return false;
    switch (from->kind) {
    case CR_JSON_NULL:
        *out = (cr_tv){ .kind = CR_TV_NONE };
        return true;
    case CR_JSON_FALSE:
    case CR_JSON_TRUE:
        *out = (cr_tv){ .kind = CR_TV_BOOL, .as.b = from->kind == CR_JSON_TRUE };
        return true;
    case CR_JSON_NUMBER:
        return to_number(t, from, what, out);
    case CR_JSON_STRING:
        return cr_tv_text(t, from->text.data, from->text.size, CR_FROM_DATA, out);
    case CR_JSON_ARRAY:
        return to_list(t, from, what, out);
    default:
        return to_dict(t, from, what, out);
    }
}

/* Of members of the same name the last counts, as for Python, which the templates were written
 * for. */
bool cr_tv_from_json(cr_interp *t, cr_str text, const char *what, cr_tv *out)
{
    const cr_json_rules rules = {
        .max_bytes = CR_TEMPLATE_MAX_INPUT,
        .max_values = CR_MIN((t->max_memory - t->memory) / sizeof(cr_json), (size_t)1 << 30),
        .max_depth = CR_TEMPLATE_MAX_JSON,
        .allow_repeats = true,
    };
    const cr_json *tree;
    cera_status status = cr_json_parse(text, what, &rules, &t->arena, &tree, t->err);
    if (status == CERA_OK)
        return to_value(t, tree, what, out);
    if (status != CERA_E_NOMEM) {
        status = CERA_E_ARG; /* it is an argument of the caller's */
        if (t->err != NULL)
            t->err->status = status;
    }
    if (t->status == CERA_OK)
        t->status = status;
    return false;
}

/* ---- writing ------------------------------------------------------------------------------- */

static bool write_string(cr_interp *t, const cr_tstr *s, bool ascii, cr_tbuf *out)
{
    static const char special[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    if (!cr_tbuf_text(t, out, "\""))
        return false;
    size_t plain = 0; /* where the bytes that need no change begin */
    for (size_t i = 0; i <= s->size;) {
        uint32_t code = 0;
        size_t length = i < s->size ? cr_tstr_at(s, i, &code) : 1;
        bool changes =
            i == s->size || code < 0x20 || code == '"' || code == '\\' || (ascii && code > 0x7e);
        if (changes) {
            cr_tstr part = cr_tstr_part(s, plain, i);
            if (!cr_tbuf_add(t, out, &part))
                return false;
            plain = i + length;
        }
        if (changes && i < s->size) {
            char text[16];
            const char *found = code < 0x80 ? memchr(special, (int)code, sizeof special - 1) : NULL;
            if (found != NULL)
                snprintf(text, sizeof text, "\\%c", letters[found - special]);
            else if (code < 0x10000)
                snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
            else
                snprintf(text, sizeof text, "\\u%04x\\u%04x",
                         0xd800 + ((unsigned)(code - 0x10000) >> 10),
                         0xdc00 + ((unsigned)(code - 0x10000) & 0x3ff));
            cr_origin origin = (cr_origin)(s->marks != NULL ? s->marks[i] : (char)s->origin);
            if (!cr_tbuf_bytes(t, out, text, strlen(text), origin))
                return false;
        }
        i += length;
    }
    return cr_tbuf_text(t, out, "\"");
}

static bool write_float(cr_interp *t, double value, cr_tbuf *out)
{
    char text[CR_FLOAT_ROOM];
    if (isnan(value) || isinf(value))
        return cr_tbuf_text(t, out, isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity");
    cr_tv_float_text(value, text);
    return cr_tbuf_text(t, out, text);
}

static bool new_line(cr_interp *t, const cr_tojson_style *style, int level, cr_tbuf *out)
{
    if (style->indent.data == NULL)
        return true;
    if (!cr_tbuf_text(t, out, "\n"))
        return false;
    for (int i = 0; i < level; i++)
        if (!cr_tbuf_add(t, out, &style->indent))
            return false;
    return true;
}

static bool write_value(cr_interp *t, const cr_tv *v, const cr_tojson_style *style, int level,
                        cr_tbuf *out);

static bool write_list(cr_interp *t, const cr_tlist *list, const cr_tojson_style *style, int level,
                       cr_tbuf *out)
{
    if (list->n == 0)
        return cr_tbuf_text(t, out, "[]");
    if (!cr_tbuf_text(t, out, "["))
        return false;
    for (size_t i = 0; i < list->n; i++)
        if ((i > 0 && !cr_tbuf_add(t, out, &style->item_end)) ||
            !new_line(t, style, level + 1, out) ||
            !write_value(t, &list->items[i], style, level + 1, out))
            return false;
    return new_line(t, style, level, out) && cr_tbuf_text(t, out, "]");
}

static bool write_key(cr_interp *t, const cr_tv *key, const cr_tojson_style *style, cr_tbuf *out)
{
    if (key->kind == CR_TV_STRING)
        return write_string(t, key->as.s, style->ascii, out);
    if (key->kind != CR_TV_NONE && !cr_tv_is_number(key))
        return cr_interp_fail(t, "tojson: a %s cannot be a key", cr_tv_type(key));
    return cr_tbuf_text(t, out, "\"") && write_value(t, key, style, 0, out) &&
           cr_tbuf_text(t, out, "\"");
}

static bool write_dict(cr_interp *t, const cr_tdict *dict, const cr_tojson_style *style, int level,
                       cr_tbuf *out)
{
    size_t n = dict->n;
    if (n == 0)
        return cr_tbuf_text(t, out, "{}");
    cr_tv *keys = dict->keys, *values = dict->values;
    if (style->sort_keys) {
        keys = cr_interp_alloc(t, 2 * n, sizeof *keys);
        if (keys == NULL)
            return false;
        values = keys + n;
        memcpy(keys, dict->keys, n * sizeof *keys);
        memcpy(values, dict->values, n * sizeof *values);
        if (!cr_tv_sort(t, values, keys, n, false))
            return false;
    }
    if (!cr_tbuf_text(t, out, "{"))
        return false;
    for (size_t i = 0; i < n; i++)
        if ((i > 0 && !cr_tbuf_add(t, out, &style->item_end)) ||
            !new_line(t, style, level + 1, out) || !write_key(t, &keys[i], style, out) ||
            !cr_tbuf_add(t, out, &style->key_end) ||
            !write_value(t, &values[i], style, level + 1, out))
            return false;
    return new_line(t, style, level, out) && cr_tbuf_text(t, out, "}");
}

static bool write_value(cr_interp *t, const cr_tv *v, const cr_tojson_style *style, int level,
                        cr_tbuf *out)
{
    bool ok;
    if (level > CR_TEMPLATE_MAX_JSON)
        return cr_interp_limit(t, "tojson: expected at most %d levels", CR_TEMPLATE_MAX_JSON);
    switch (v->kind) {
    case CR_TV_NONE:
        return cr_tbuf_text(t, out, "null");
    case CR_TV_BOOL:
        return cr_tbuf_text(t, out, v->as.b ? "true" : "false");
    case CR_TV_INT:
        return cr_tv_print(t, v, out);
    case CR_TV_FLOAT:
        return write_float(t, v->as.f, out);
    case CR_TV_STRING:
        return write_string(t, v->as.s, style->ascii, out);
    case CR_TV_LIST:
    case CR_TV_TUPLE:
    case CR_TV_DICT:
        if (!cr_interp_enter(t))
            return false;
        ok = v->kind == CR_TV_DICT ? write_dict(t, v->as.dict, style, level, out)
                                   : write_list(t, v->as.list, style, level, out);
        cr_interp_leave(t);
        return ok;
    default:
        return cr_interp_fail(t, "tojson: a %s is not JSON", cr_tv_type(v));
    }
}

bool cr_tv_to_json(cr_interp *t, const cr_tv *v, const cr_tojson_style *style, cr_tbuf *out)
{
    return write_value(t, v, style, 0, out);
}

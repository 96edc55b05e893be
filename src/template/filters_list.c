/* Filters over lists, and the table of all filters. */
#include "template/filters_list.h"
#include "template/syntax.h"

static bool is_given(const cr_tv *v)
{
    return v->kind != CR_TV_MISSING && v->kind != CR_TV_NONE;
}

static bool is_true(const cr_tv *v)
{
    return v->kind != CR_TV_MISSING && cr_tv_truth(v);
}

/* ---- attributes and order ------------------------------------------------------------------- */

bool cr_tv_path(cr_interp *t, const cr_tv *object, const cr_tv *path, cr_tv *out)
{
    *out = *object;
    if (path->kind != CR_TV_STRING) {
        cr_tv from = *out;
        return cr_tv_item(t, &from, path, out);
    }
    const cr_tstr *s = path->as.s;
    for (size_t i = 0; i <= s->size; i++) {
        size_t begin = i;
        while (i < s->size && s->data[i] != '.')
            i++;
        cr_tstr part = cr_tstr_part(s, begin, i);
        cr_tv from = *out, key = { .kind = CR_TV_STRING, .as.s = &part };
        int64_t index;
        bool digits = part.size > 0 && part.data[0] != '-';
        if (digits && cr_parse_i64(cr_tstr_bytes(&part), &index))
            key = cr_tv_int(index);
        if (!cr_tv_item(t, &from, &key, out))
            return false;
    }
    return true;
}

/* The key by which an item is compared: the item or an attribute of it, strings in small letters
 * unless the case counts. */
static bool key_of(cr_interp *t, const cr_tv *item, const cr_tv *path, bool case_sensitive,
                   cr_tv *out)
{
    *out = *item;
    if (is_given(path) && !cr_tv_path(t, item, path, out))
        return false;
    if (!case_sensitive && out->kind == CR_TV_STRING)
        return cr_tstr_case(t, out->as.s, CR_CASE_LOWER, out);
    return true;
}

/* Merges two sorted runs from `from` into `to`. */
static bool merge(cr_interp *t, const cr_tv *from, cr_tv *to, size_t begin, size_t middle,
                  size_t end, bool descending)
{
    size_t i = begin, j = middle;
    for (size_t k = begin; k < end; k++) {
        bool right = i == middle;
        if (i < middle && j < end) {
            int sign;
            if (!cr_tv_compare(t, &from[2 * j], &from[2 * i], &sign))
                return false;
            right = descending ? sign == 1 : sign == -1;
        }
        size_t taken = right ? j++ : i++;
        to[2 * k] = from[2 * taken];
        to[2 * k + 1] = from[2 * taken + 1];
    }
    return true;
}

bool cr_tv_sort(cr_interp *t, cr_tv *items, cr_tv *keys, size_t n, bool descending)
{
    cr_tv *from = cr_interp_alloc(t, n * 2, sizeof *from);
    cr_tv *to = from != NULL ? cr_interp_alloc(t, n * 2, sizeof *to) : NULL;
    if (to == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        from[2 * i] = keys[i];
        from[2 * i + 1] = items[i];
    }
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t i = 0; i < n; i += 2 * width)
            if (!merge(t, from, to, i, CR_MIN(i + width, n), CR_MIN(i + 2 * width, n), descending))
                return false;
        cr_tv *swap = from;
        from = to;
        to = swap;
    }
    for (size_t i = 0; i < n; i++) {
        keys[i] = from[2 * i];
        items[i] = from[2 * i + 1];
    }
    return true;
}

/* A copy of what can be walked. */
static bool copy_list(cr_interp *t, const cr_tv *v, cr_tlist *out)
{
    cr_tlist list;
    if (!cr_tv_walk(t, v, &list))
        return false;
    out->n = list.n;
    out->items = cr_interp_alloc(t, list.n, sizeof *out->items);
    if (out->items != NULL && list.n > 0)
        memcpy(out->items, list.items, list.n * sizeof *list.items);
    return out->items != NULL;
}

static bool sort(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tlist list;
    const cr_tv *path = &c->p[2];
    if (!copy_list(t, &c->self, &list))
        return false;
    cr_tv *keys = cr_interp_alloc(t, list.n, sizeof *keys);
    if (keys == NULL)
        return false;
    bool many =
        path->kind == CR_TV_STRING && memchr(path->as.s->data, ',', path->as.s->size) != NULL;
    for (size_t i = 0; i < list.n; i++) {
        cr_tvec parts = { 0 };
        for (size_t at = 0; many && at <= path->as.s->size; at++) {
            size_t begin = at;
            while (at < path->as.s->size && path->as.s->data[at] != ',')
                at++;
            cr_tstr part = cr_tstr_part(path->as.s, begin, at);
            cr_tv name = { .kind = CR_TV_STRING, .as.s = &part }, key;
            if (!key_of(t, &list.items[i], &name, is_true(&c->p[1]), &key) ||
                !cr_tvec_push(t, &parts, key))
                return false;
        }
        if (many ? !cr_tv_list(t, CR_TV_LIST, parts.items, parts.n, &keys[i])
                 : !key_of(t, &list.items[i], path, is_true(&c->p[1]), &keys[i]))
            return false;
    }
    return cr_tv_sort(t, list.items, keys, list.n, is_true(&c->p[0])) &&
           cr_tv_list(t, CR_TV_LIST, list.items, list.n, out);
}

static bool pairs_of(cr_interp *t, const cr_tv *dict, cr_tlist *out)
{
    cr_tv view, method = cr_method_find(t, dict, cr_str_from("items"));
    cr_args none = { 0 };
    return method.kind == CR_TV_METHOD && cr_method_run(t, method.as.method, &none, &view) &&
           cr_tv_walk(t, &view, out);
}

static bool dictsort(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tlist pairs;
    if (c->self.kind != CR_TV_DICT)
        return cr_interp_fail(t, "dictsort: expected a dict, found a %s", cr_tv_type(&c->self));
    int by = 0;
    if (c->p[1].kind == CR_TV_STRING)
        by = cr_tstr_is(c->p[1].as.s, "value") ? 1 : cr_tstr_is(c->p[1].as.s, "key") ? 0 : 2;
    if (by == 2)
        return cr_interp_fail(t, "dictsort: expected key or value");
    if (!pairs_of(t, &c->self, &pairs))
        return false;
    cr_tv *keys = cr_interp_alloc(t, pairs.n, sizeof *keys), none = cr_tv_none();
    if (keys == NULL)
        return false;
    for (size_t i = 0; i < pairs.n; i++)
        if (!key_of(t, &pairs.items[i].as.list->items[by], &none, is_true(&c->p[0]), &keys[i]))
            return false;
    return cr_tv_sort(t, pairs.items, keys, pairs.n, is_true(&c->p[2])) &&
           cr_tv_list(t, CR_TV_LIST, pairs.items, pairs.n, out);
}

static bool extreme(cr_interp *t, cr_call *c, int wanted, cr_tv *out)
{
    cr_tlist list;
    cr_tv best;
    *out = cr_tv_undefined(NULL);
    if (!cr_tv_walk(t, &c->self, &list))
        return false;
    for (size_t i = 0; i < list.n; i++) {
        cr_tv key;
        int sign = wanted;
        if (!key_of(t, &list.items[i], &c->p[1], is_true(&c->p[0]), &key) ||
            (i > 0 && !cr_tv_compare(t, &key, &best, &sign)))
            return false;
        if (sign == wanted) {
            best = key;
            *out = list.items[i];
        }
    }
    return true;
}

static bool min(cr_interp *t, cr_call *c, cr_tv *out)
{
    return extreme(t, c, -1, out);
}

static bool max(cr_interp *t, cr_call *c, cr_tv *out)
{
    return extreme(t, c, 1, out);
}

static bool unique(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tlist list;
    cr_tvec kept = { 0 };
    cr_tv seen;
    if (!cr_tv_walk(t, &c->self, &list) || !cr_tv_dict(t, CR_TV_DICT, &seen))
        return false;
    for (size_t i = 0; i < list.n; i++) {
        cr_tv key, *found;
        if (!key_of(t, &list.items[i], &c->p[1], is_true(&c->p[0]), &key) ||
            !cr_tdict_get(t, seen.as.dict, &key, &found))
            return false;
        if (found == NULL &&
            (!cr_tdict_set(t, seen.as.dict, key, key) || !cr_tvec_push(t, &kept, list.items[i])))
            return false;
    }
    return cr_tv_iter(t, kept.items, kept.n, out);
}

static bool groupby(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tlist list;
    cr_tvec groups = { 0 };
    if (!copy_list(t, &c->self, &list))
        return false;
    cr_tv *keys = cr_interp_alloc(t, list.n, sizeof *keys);
    if (keys == NULL)
        return false;
    for (size_t i = 0; i < list.n; i++) {
        if (!key_of(t, &list.items[i], &c->p[0], is_true(&c->p[2]), &keys[i]))
            return false;
        if (keys[i].kind == CR_TV_UNDEFINED && is_given(&c->p[1]))
            keys[i] = c->p[1];
    }
    if (!cr_tv_sort(t, list.items, keys, list.n, false))
        return false;
    for (size_t i = 0, end; i < list.n; i = end) {
        bool equal = true;
        for (end = i + 1; end < list.n && equal; end += equal)
            if (!cr_tv_equals(t, &keys[i], &keys[end], &equal))
                return false;
        cr_tv *pair = cr_interp_alloc(t, 2, sizeof *pair), group;
        if (pair == NULL || !cr_tv_path(t, &list.items[i], &c->p[0], &pair[0]) ||
            !cr_tv_list(t, CR_TV_LIST, list.items + i, end - i, &pair[1]))
            return false;
        if (pair[0].kind == CR_TV_UNDEFINED)
            pair[0] = keys[i];
        if (!cr_tv_list(t, CR_TV_TUPLE, pair, 2, &group) || !cr_tvec_push(t, &groups, group))
            return false;
    }
    return cr_tv_list(t, CR_TV_LIST, groups.items, groups.n, out);
}

/* ---- one value of many ---------------------------------------------------------------------- */

static bool first(cr_interp *t, cr_call *c, cr_tv *out)
{
    *out = cr_tv_undefined(NULL);
    if (c->self.kind == CR_TV_ITER) { /* takes one */
        cr_titer *iter = c->self.as.iter;
        if (iter->at < iter->list.n)
            *out = iter->list.items[iter->at++];
        return true;
    }
    cr_tlist list;
    if (!cr_tv_walk(t, &c->self, &list))
        return false;
    if (list.n > 0)
        *out = list.items[0];
    return true;
}

static bool last(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tlist list;
    if (c->self.kind == CR_TV_ITER)
        return cr_interp_fail(t, "last: an iterator has none; make a list of it first");
    if (!cr_tv_walk(t, &c->self, &list))
        return false;
    *out = list.n > 0 ? list.items[list.n - 1] : cr_tv_undefined(NULL);
    return true;
}

static bool length(cr_interp *t, cr_call *c, cr_tv *out)
{
    size_t n;
    if (!cr_tv_length(&c->self, &n))
        return cr_interp_fail(t, "length: a %s has none", cr_tv_type(&c->self));
    *out = cr_tv_int((int64_t)n);
    return cr_interp_work(t, c->self.kind == CR_TV_STRING ? n : 0);
}

static bool sum(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tlist list;
    cr_tv total = c->p[1].kind != CR_TV_MISSING ? c->p[1] : cr_tv_int(0);
    if (!cr_tv_walk(t, &c->self, &list))
        return false;
    if (total.kind == CR_TV_STRING)
        return cr_interp_fail(t, "sum: strings cannot be summed; join them");
    for (size_t i = 0; i < list.n; i++) {
        cr_tv item = list.items[i], next;
        if (is_given(&c->p[0]) && !cr_tv_path(t, &list.items[i], &c->p[0], &item))
            return false;
        if (!cr_tv_binary(t, CR_TOK_ADD, &total, &item, &next))
            return false;
        total = next;
    }
    *out = total;
    return true;
}

static bool join(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tlist list;
    cr_tbuf buf = { 0 };
    const cr_tstr *by = NULL;
    if (c->p[0].kind != CR_TV_MISSING && !cr_tv_str(t, &c->p[0], &by))
        return false;
    if (!cr_tv_walk(t, &c->self, &list))
        return false;
    for (size_t i = 0; i < list.n; i++) {
        cr_tv item = list.items[i];
        if (is_given(&c->p[1]) && !cr_tv_path(t, &list.items[i], &c->p[1], &item))
            return false;
        if ((i > 0 && by != NULL && !cr_tbuf_add(t, &buf, by)) || !cr_tv_print(t, &item, &buf))
            return false;
    }
    return cr_tbuf_done(t, &buf, out);
}

static bool fallback(cr_interp *t, cr_call *c, cr_tv *out)
{
    bool use = c->self.kind == CR_TV_UNDEFINED || (is_true(&c->p[1]) && !cr_tv_truth(&c->self));
    *out = c->self;
    if (!use)
        return true;
    *out = c->p[0];
    return c->p[0].kind != CR_TV_MISSING || cr_tv_text(t, "", 0, CR_FROM_TEMPLATE, out);
}

static bool attr(cr_interp *t, cr_call *c, cr_tv *out)
{
    if (c->p[0].kind != CR_TV_STRING)
        return cr_interp_fail(t, "attr: expected a name");
    cr_str name = cr_tstr_bytes(c->p[0].as.s);
    if (c->self.kind == CR_TV_NAMESPACE)
        return cr_tv_attr(t, &c->self, name, out);
    *out = cr_method_find(t, &c->self, name);
    if (out->kind == CR_TV_MISSING)
        *out = cr_tv_undefined(NULL);
    return t->status == CERA_OK;
}

/* ---- lists of lists ------------------------------------------------------------------------- */

static bool list(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tlist items;
    return copy_list(t, &c->self, &items) && cr_tv_list(t, CR_TV_LIST, items.items, items.n, out);
}

static bool items(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tlist pairs = { NULL, 0 };
    if (c->self.kind == CR_TV_UNDEFINED)
        return cr_tv_iter(t, NULL, 0, out);
    if (c->self.kind != CR_TV_DICT)
        return cr_interp_fail(t, "items: expected a dict, found a %s", cr_tv_type(&c->self));
    return pairs_of(t, &c->self, &pairs) && cr_tv_iter(t, pairs.items, pairs.n, out);
}

static bool reverse(cr_interp *t, cr_call *c, cr_tv *out)
{
    if (c->self.kind == CR_TV_STRING) {
        cr_tv bounds[3] = { cr_tv_none(), cr_tv_none(), cr_tv_int(-1) };
        return cr_tv_slice(t, &c->self, bounds, out);
    }
    cr_tlist given;
    if (!copy_list(t, &c->self, &given))
        return false;
    for (size_t i = 0, j = given.n; i + 1 < j; i++) {
        cr_tv swap = given.items[i];
        given.items[i] = given.items[--j];
        given.items[j] = swap;
    }
    return c->self.kind == CR_TV_ITER ? cr_tv_list(t, CR_TV_LIST, given.items, given.n, out)
                                      : cr_tv_iter(t, given.items, given.n, out);
}

/* items[from, to) and, when fill is given, that up to n of them. */
static bool push_row(cr_interp *t, const cr_tlist *given, size_t from, size_t to, size_t n,
                     const cr_tv *fill, cr_tvec *rows)
{
    cr_tvec row = { 0 };
    cr_tv made;
    for (size_t i = from; i < to; i++)
        if (!cr_tvec_push(t, &row, given->items[i]))
            return false;
    while (is_given(fill) && row.n < n)
        if (!cr_tvec_push(t, &row, *fill))
            return false;
    return cr_tv_list(t, CR_TV_LIST, row.items, row.n, &made) && cr_tvec_push(t, rows, made);
}

static bool batch(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tlist given;
    cr_tvec rows = { 0 };
    int64_t n;
    if (!cr_tv_to_int(&c->p[0], &n) || n < 1)
        return cr_interp_fail(t, "batch: expected a number above 0");
    if (!cr_tv_walk(t, &c->self, &given))
        return false;
    for (size_t i = 0; i < given.n; i += (size_t)CR_MIN(n, (int64_t)given.n))
        if (!push_row(t, &given, i, (size_t)CR_MIN((int64_t)i + n, (int64_t)given.n), (size_t)n,
                      &c->p[1], &rows))
            return false;
    return cr_tv_iter(t, rows.items, rows.n, out);
}

static bool slice(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tlist given;
    cr_tvec rows = { 0 };
    int64_t n;
    if (!cr_tv_to_int(&c->p[0], &n) || n < 1)
        return cr_interp_fail(t, "slice: expected a number above 0");
    if (!cr_tv_walk(t, &c->self, &given))
        return false;
    size_t each = given.n / (size_t)n, longer = given.n % (size_t)n, at = 0;
    for (size_t i = 0; i < (size_t)n; i++) {
        size_t size = each + (i < longer ? 1 : 0);
        if (!push_row(t, &given, at, at + size, i < longer ? size : size + 1, &c->p[1], &rows))
            return false;
        at += size;
    }
    return cr_tv_iter(t, rows.items, rows.n, out);
}

/* ---- filters and tests by name -------------------------------------------------------------- */

static const cr_tv *named_arg(const cr_args *args, const char *name)
{
    for (size_t i = 0; i < args->n_named; i++)
        if (cr_str_is(args->named[i].name, name))
            return &args->named[i].value;
    return NULL;
}

static bool map(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tlist given;
    cr_args args = *c->args;
    const cr_tv *path = args.n == 0 ? named_arg(&args, "attribute") : NULL;
    const cr_tv *otherwise = named_arg(&args, "default");
    int row = -1;
    if (!cr_tv_truth(&c->self)) /* nothing is asked of what is empty */
        return cr_tv_iter(t, NULL, 0, out);
    if (path == NULL) {
        if (args.n == 0 || args.items[0].kind != CR_TV_STRING)
            return cr_interp_fail(t, "map: expected the name of a filter, or attribute=");
        cr_str name = cr_tstr_bytes(args.items[0].as.s);
        row = cr_filter_find(name);
        if (row < 0)
            return cr_interp_fail(t, "map: the filter \"%.*s\" is not known",
                                  (int)CR_MIN(name.size, (size_t)64), name.data);
        args.items++;
        args.n--;
    }
    if (!cr_tv_walk(t, &c->self, &given))
        return false;
    cr_tv *made = cr_interp_alloc(t, given.n, sizeof *made);
    if (made == NULL)
        return false;
    for (size_t i = 0; i < given.n; i++) {
        if (path != NULL ? !cr_tv_path(t, &given.items[i], path, &made[i])
                         : !cr_filter_run(t, row, given.items[i], &args, &made[i]))
            return false;
        if (path != NULL && made[i].kind == CR_TV_UNDEFINED && otherwise != NULL)
            made[i] = *otherwise;
    }
    return cr_tv_iter(t, made, given.n, out);
}

static bool choose(cr_interp *t, cr_call *c, bool by_attr, bool wanted, cr_tv *out)
{
    cr_tlist given;
    cr_tvec kept = { 0 };
    cr_args args = *c->args;
    cr_tv path = { .kind = CR_TV_MISSING };
    int row = -1;
    if (!cr_tv_truth(&c->self))
        return cr_tv_iter(t, NULL, 0, out);
    if (by_attr) {
        if (args.n == 0)
            return cr_interp_fail(t, "expected the name of an attribute");
        path = *args.items++;
        args.n--;
    }
    bool by_test = args.n > 0;
    if (by_test) {
        if (args.items[0].kind != CR_TV_STRING)
            return cr_interp_fail(t, "expected the name of a test");
        cr_str name = cr_tstr_bytes(args.items[0].as.s);
        row = cr_test_find(name);
        if (row < 0)
            return cr_interp_fail(t, "the test \"%.*s\" is not known",
                                  (int)CR_MIN(name.size, (size_t)64), name.data);
        args.items++;
        args.n--;
    }
    if (!cr_tv_walk(t, &c->self, &given))
        return false;
    for (size_t i = 0; i < given.n; i++) {
        cr_tv item = given.items[i];
        bool is;
        if (by_attr && !cr_tv_path(t, &given.items[i], &path, &item))
            return false;
        if (by_test && !cr_test_run(t, row, item, &args, &is))
            return false;
        if (!by_test)
            is = cr_tv_truth(&item);
        if (is == wanted && !cr_tvec_push(t, &kept, given.items[i]))
            return false;
    }
    return cr_tv_iter(t, kept.items, kept.n, out);
}

static bool select_items(cr_interp *t, cr_call *c, cr_tv *out)
{
    return choose(t, c, false, true, out);
}

static bool reject(cr_interp *t, cr_call *c, cr_tv *out)
{
    return choose(t, c, false, false, out);
}

static bool selectattr(cr_interp *t, cr_call *c, cr_tv *out)
{
    return choose(t, c, true, true, out);
}

static bool rejectattr(cr_interp *t, cr_call *c, cr_tv *out)
{
    return choose(t, c, true, false, out);
}

/* ---- the table ------------------------------------------------------------------------------ */

static const cr_builtin_row rows[] = {
    { "abs", "", cr_filter_abs },
    { "attr", "name", attr },
    { "batch", "linecount | fill_with", batch },
    { "capitalize", "", cr_filter_capitalize },
    { "center", "| width", cr_filter_center },
    { "count", "", length },
    { "d", "| default_value boolean", fallback },
    { "default", "| default_value boolean", fallback },
    { "dictsort", "| case_sensitive by reverse", dictsort },
    { "e", "", cr_filter_escape },
    { "escape", "", cr_filter_escape },
    { "first", "", first },
    { "float", "| default", cr_filter_float },
    { "forceescape", "", cr_filter_forceescape },
    { "format", NULL, cr_filter_format },
    { "groupby", "attribute | default case_sensitive", groupby },
    { "indent", "| width first blank", cr_filter_indent },
    { "int", "| default base", cr_filter_int },
    { "items", "", items },
    { "join", "| d attribute", join },
    { "last", "", last },
    { "length", "", length },
    { "list", "", list },
    { "lower", "", cr_filter_lower },
    { "map", NULL, map },
    { "max", "| case_sensitive attribute", max },
    { "min", "| case_sensitive attribute", min },
    { "reject", NULL, reject },
    { "rejectattr", NULL, rejectattr },
    { "replace", "old new | count", cr_filter_replace },
    { "reverse", "", reverse },
    { "round", "| precision method", cr_filter_round },
    { "safe", "", cr_filter_safe },
    { "select", NULL, select_items },
    { "selectattr", NULL, selectattr },
    { "slice", "slices | fill_with", slice },
    { "sort", "| reverse case_sensitive attribute", sort },
    { "string", "", cr_filter_string },
    { "sum", "| attribute start", sum },
    { "title", "", cr_filter_title },
    { "tojson", "| ensure_ascii indent separators sort_keys", cr_filter_tojson },
    { "trim", "| chars", cr_filter_trim },
    { "truncate", "| length killwords end leeway", cr_filter_truncate },
    { "unique", "| case_sensitive attribute", unique },
    { "upper", "", cr_filter_upper },
    { "urlencode", "", cr_filter_urlencode },
    { "wordcount", "", cr_filter_wordcount },
};

int cr_filter_find(cr_str name)
{
    for (size_t i = 0; i < CR_COUNT(rows); i++)
        if (cr_str_is(name, rows[i].name))
            return (int)i;
    return -1;
}

bool cr_filter_run(cr_interp *t, int row, cr_tv self, const cr_args *args, cr_tv *out)
{
    return cr_interp_work(t, CR_WORK_NODE) &&
           cr_builtin_run(t, "filter", &rows[row], self, args, out);
}

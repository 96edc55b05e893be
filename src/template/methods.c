/* Methods of strings, lists, tuples, dicts and numbers, and what else is called: the binding of
 * arguments to parameters. Methods that change a list or dict are not there, as in the sandbox. */
#include "template/formatting.h"

/* ---- arguments ----------------------------------------------------------------------------- */

/* The next name of a list of parameters; false at the end. */
static bool next_param(const char **at, cr_str *name, bool *optional)
{
    while (**at == ' ' || **at == '|') {
        *optional |= **at == '|';
        ++*at;
    }
    *name = (cr_str){ *at, strcspn(*at, " |") };
    *at += name->size;
    return name->size > 0;
}

bool cr_builtin_run(cr_interp *t, const char *what, const cr_builtin_row *row, cr_tv self,
                    const cr_args *args, cr_tv *out)
{
    cr_call call = { .self = self, .args = args };
    if (row->call == NULL)
        return cr_interp_fail(t, "%s %s: chat templates cannot use it here", what, row->name);
    if (row->params == NULL)
        return row->call(t, &call, out);
    const char *at = row->params;
    size_t n = 0, n_used = 0;
    bool optional = false;
    if (*at == '/' && args->n_named > 0)
        return cr_interp_fail(t, "%s %s: its arguments have no names", what, row->name);
    at += *at == '/';
    cr_str name;
    for (; next_param(&at, &name, &optional); n++) {
        call.p[n] = (cr_tv){ .kind = CR_TV_MISSING };
        if (n < args->n)
            call.p[n] = args->items[n];
        for (size_t i = 0; i < args->n_named; i++) {
            const cr_named *named = &args->named[i];
            if (named->name.size != name.size ||
                memcmp(named->name.data, name.data, name.size) != 0)
                continue;
            if (n < args->n)
                return cr_interp_fail(t, "%s %s: an argument is given twice", what, row->name);
            call.p[n] = named->value;
            n_used++;
        }
        if (call.p[n].kind == CR_TV_MISSING && !optional)
            return cr_interp_fail(t, "%s %s: argument %.*s is missing", what, row->name,
                                  (int)name.size, name.data);
    }
    if (args->n > n)
        return cr_interp_fail(t, "%s %s: expected at most %zu arguments, found %zu", what,
                              row->name, n, args->n);
    if (n_used < args->n_named)
        return cr_interp_fail(t, "%s %s: an argument by a name that it does not have", what,
                              row->name);
    return row->call(t, &call, out);
}

static bool is_given(const cr_tv *v)
{
    return v->kind != CR_TV_MISSING && v->kind != CR_TV_NONE;
}

static bool want_string(cr_interp *t, const cr_tv *v, const cr_tstr **out)
{
    *out = NULL;
    if (v->kind != CR_TV_STRING)
        return cr_interp_fail(t, "expected a string as argument, found a %s", cr_tv_type(v));
    *out = v->as.s;
    return true;
}

static bool want_int(cr_interp *t, const cr_tv *v, int64_t fallback, int64_t *out)
{
    *out = fallback;
    if (v->kind == CR_TV_MISSING || cr_tv_to_int(v, out))
        return true;
    return cr_interp_fail(t, "expected an integer as argument, found a %s", cr_tv_type(v));
}

/* ---- strings: ends and cases --------------------------------------------------------------- */

static bool strip(cr_interp *t, cr_call *c, bool left, bool right, cr_tv *out)
{
    const cr_tstr *set = NULL;
    if (is_given(&c->p[0]) && !want_string(t, &c->p[0], &set))
        return false;
    return cr_interp_work(t, c->self.as.s->size) &&
           cr_tv_string(t, cr_tstr_strip(c->self.as.s, set, left, right), out);
}

static bool str_strip(cr_interp *t, cr_call *c, cr_tv *out)
{
    return strip(t, c, true, true, out);
}

static bool str_lstrip(cr_interp *t, cr_call *c, cr_tv *out)
{
    return strip(t, c, true, false, out);
}

static bool str_rstrip(cr_interp *t, cr_call *c, cr_tv *out)
{
    return strip(t, c, false, true, out);
}

static bool str_upper(cr_interp *t, cr_call *c, cr_tv *out)
{
    return cr_tstr_case(t, c->self.as.s, CR_CASE_UPPER, out);
}

static bool str_lower(cr_interp *t, cr_call *c, cr_tv *out)
{
    return cr_tstr_case(t, c->self.as.s, CR_CASE_LOWER, out);
}

static bool str_title(cr_interp *t, cr_call *c, cr_tv *out)
{
    return cr_tstr_case(t, c->self.as.s, CR_CASE_TITLE, out);
}

static bool str_capitalize(cr_interp *t, cr_call *c, cr_tv *out)
{
    return cr_tstr_case(t, c->self.as.s, CR_CASE_CAPITAL, out);
}

static bool str_swapcase(cr_interp *t, cr_call *c, cr_tv *out)
{
    return cr_tstr_case(t, c->self.as.s, CR_CASE_SWAP, out);
}

/* Characters [start, end) that a search is limited to, as bytes; false as *out when start is
 * behind the end. */
static bool search_range(cr_interp *t, cr_call *c, size_t *from, size_t *to, bool *fits)
{
    const cr_tstr *s = c->self.as.s;
    int64_t n = (int64_t)cr_tstr_count(s), edge[2] = { 0, n };
    for (int i = 0; i < 2; i++) {
        if (!is_given(&c->p[1 + i]))
            continue;
        if (!want_int(t, &c->p[1 + i], 0, &edge[i]))
            return false;
        if (edge[i] < 0)
            edge[i] = CR_MAX(edge[i] + n, 0);
    }
    *fits = edge[0] <= n;
    edge[0] = CR_MIN(edge[0], n);
    edge[1] = CR_MIN(edge[1], n);
    *from = cr_tstr_offset(s, (size_t)edge[0]);
    *to = cr_tstr_offset(s, (size_t)edge[1]);
    return cr_interp_work(t, s->size);
}

static bool ends(cr_interp *t, cr_call *c, bool at_end, cr_tv *out)
{
    const cr_tstr *s = c->self.as.s, *what;
    size_t from, to;
    bool fits;
    cr_tlist list = { &c->p[0], 1 };
    if (c->p[0].kind == CR_TV_TUPLE)
        list = *c->p[0].as.list;
    if (!search_range(t, c, &from, &to, &fits))
        return false;
    *out = cr_tv_bool(false);
    for (size_t i = 0; i < list.n; i++) {
        if (!want_string(t, &list.items[i], &what) || !cr_interp_work(t, what->size))
            return false;
        if (!fits || from > to || what->size > to - from)
            continue;
        const char *place = s->data + (at_end ? to - what->size : from);
        out->as.b |= memcmp(place, what->data, what->size) == 0;
    }
    return true;
}

static bool str_startswith(cr_interp *t, cr_call *c, cr_tv *out)
{
    return ends(t, c, false, out);
}

static bool str_endswith(cr_interp *t, cr_call *c, cr_tv *out)
{
    return ends(t, c, true, out);
}

static bool str_removeprefix(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tstr *s = c->self.as.s, *what;
    if (!want_string(t, &c->p[0], &what))
        return false;
    bool has = what->size <= s->size && memcmp(s->data, what->data, what->size) == 0;
    return cr_tv_string(t, cr_tstr_part(s, has ? what->size : 0, s->size), out);
}

static bool str_removesuffix(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tstr *s = c->self.as.s, *what;
    if (!want_string(t, &c->p[0], &what))
        return false;
    bool has = what->size <= s->size &&
               memcmp(s->data + s->size - what->size, what->data, what->size) == 0;
    return cr_tv_string(t, cr_tstr_part(s, 0, s->size - (has ? what->size : 0)), out);
}

/* ---- strings: finding ---------------------------------------------------------------------- */

static bool find(cr_interp *t, cr_call *c, bool last, bool must, cr_tv *out)
{
    const cr_tstr *what;
    size_t from, to, at = SIZE_MAX;
    bool fits;
    if (!want_string(t, &c->p[0], &what) || !search_range(t, c, &from, &to, &fits))
        return false;
    if (fits && !cr_tstr_find(t, c->self.as.s, what, from, to, last, &at))
        return false;
    if (at == SIZE_MAX && must)
        return cr_interp_fail(t, "index: the text is not in the string");
    cr_tstr before = cr_tstr_part(c->self.as.s, 0, at == SIZE_MAX ? 0 : at);
    *out = cr_tv_int(at == SIZE_MAX ? -1 : (int64_t)cr_tstr_count(&before));
    return true;
}

static bool str_find(cr_interp *t, cr_call *c, cr_tv *out)
{
    return find(t, c, false, false, out);
}

static bool str_rfind(cr_interp *t, cr_call *c, cr_tv *out)
{
    return find(t, c, true, false, out);
}

static bool str_index(cr_interp *t, cr_call *c, cr_tv *out)
{
    return find(t, c, false, true, out);
}

static bool str_rindex(cr_interp *t, cr_call *c, cr_tv *out)
{
    return find(t, c, true, true, out);
}

static bool str_count(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tstr *what;
    size_t from, to, at;
    bool fits;
    if (!want_string(t, &c->p[0], &what) || !search_range(t, c, &from, &to, &fits))
        return false;
    *out = cr_tv_int(0);
    if (!fits || from > to)
        return true;
    if (what->size == 0) {
        cr_tstr part = cr_tstr_part(c->self.as.s, from, to);
        *out = cr_tv_int((int64_t)cr_tstr_count(&part) + 1);
        return true;
    }
    for (;; from = at + what->size, out->as.i++) {
        if (!cr_tstr_find(t, c->self.as.s, what, from, to, false, &at))
            return false;
        if (at == SIZE_MAX)
            return true;
    }
}

/* ---- strings: cutting and joining ---------------------------------------------------------- */

/* Appends bytes [from, to) of s. */
static bool push_part(cr_interp *t, const cr_tstr *s, size_t from, size_t to, cr_tvec *vec)
{
    cr_tv part;
    return cr_tv_string(t, cr_tstr_part(s, from, to), &part) && cr_tvec_push(t, vec, part);
}

static size_t skip_blanks(const cr_tstr *s, size_t i, bool blank)
{
    uint32_t code;
    while (i < s->size) {
        size_t length = cr_tstr_at(s, i, &code);
        if (cr_char_is_blank(code) != blank)
            break;
        i += length;
    }
    return i;
}

static bool split_blanks(cr_interp *t, const cr_tstr *s, int64_t max, cr_tvec *vec)
{
    for (size_t at = skip_blanks(s, 0, true); at < s->size;) {
        size_t end = skip_blanks(s, at, false);
        if (max >= 0 && (int64_t)vec->n == max) {
            cr_tstr rest = cr_tstr_part(s, at, s->size);
            rest = cr_tstr_strip(&rest, NULL, false, true);
            end = at + rest.size;
            return push_part(t, s, at, end, vec);
        }
        if (!push_part(t, s, at, end, vec))
            return false;
        at = skip_blanks(s, end, true);
    }
    return true;
}

/* From the right: parts are found last to first, then turned round. */
static bool split_right(cr_interp *t, const cr_tstr *s, const cr_tstr *by, int64_t max,
                        cr_tvec *vec)
{
    size_t end = s->size;
    if (by == NULL)
        end = cr_tstr_strip(s, NULL, false, true).size;
    while (by != NULL || end > 0) {
        size_t at = SIZE_MAX, next = 0, begin = 0;
        bool more = max < 0 || (int64_t)vec->n < max;
        if (more && by != NULL) {
            if (!cr_tstr_find(t, s, by, 0, end, true, &at))
                return false;
            if (at != SIZE_MAX) {
                next = at;
                begin = at + by->size;
            }
        } else if (more) {
            for (size_t i = skip_blanks(s, 0, true); i < end; i = skip_blanks(s, begin, false)) {
                size_t word = skip_blanks(s, i, true);
                if (word >= end)
                    break;
                begin = word;
                next = i;
                at = i;
            }
            cr_tstr head = cr_tstr_part(s, 0, begin);
            next = cr_tstr_strip(&head, NULL, false, true).size;
            if (!cr_interp_work(t, end))
                return false;
        }
        if (!push_part(t, s, begin, end, vec))
            return false;
        end = next;
        if (at == SIZE_MAX || !more)
            break;
    }
    for (size_t i = 0, j = vec->n; i + 1 < j; i++) {
        cr_tv swap = vec->items[i];
        vec->items[i] = vec->items[--j];
        vec->items[j] = swap;
    }
    return true;
}

static bool split_by(cr_interp *t, const cr_tstr *s, const cr_tstr *by, int64_t max, cr_tvec *vec)
{
    size_t at = 0;
    for (;;) {
        size_t found = SIZE_MAX;
        if ((max < 0 || (int64_t)vec->n < max) &&
            !cr_tstr_find(t, s, by, at, s->size, false, &found))
            return false;
        if (!push_part(t, s, at, found == SIZE_MAX ? s->size : found, vec))
            return false;
        if (found == SIZE_MAX)
            return true;
        at = found + by->size;
    }
}

static bool split(cr_interp *t, cr_call *c, bool right, cr_tv *out)
{
    const cr_tstr *s = c->self.as.s, *by = NULL;
    int64_t max;
    cr_tvec vec = { 0 };
    if ((is_given(&c->p[0]) && !want_string(t, &c->p[0], &by)) || !want_int(t, &c->p[1], -1, &max))
        return false;
    if (by != NULL && by->size == 0)
        return cr_interp_fail(t, "split: an empty separator");
    bool ok = cr_interp_work(t, s->size) && (right        ? split_right(t, s, by, max, &vec)
                                             : by == NULL ? split_blanks(t, s, max, &vec)
                                                          : split_by(t, s, by, max, &vec));
    return ok && cr_tv_list(t, CR_TV_LIST, vec.items, vec.n, out);
}

static bool str_split(cr_interp *t, cr_call *c, cr_tv *out)
{
    return split(t, c, false, out);
}

static bool str_rsplit(cr_interp *t, cr_call *c, cr_tv *out)
{
    return split(t, c, true, out);
}

static bool str_splitlines(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tvec vec = { 0 };
    return cr_tstr_lines(t, c->self.as.s, cr_tv_truth(&c->p[0]), &vec) &&
           cr_tv_list(t, CR_TV_LIST, vec.items, vec.n, out);
}

static bool partition(cr_interp *t, cr_call *c, bool last, cr_tv *out)
{
    const cr_tstr *s = c->self.as.s, *by;
    size_t at;
    cr_tvec vec = { 0 };
    if (!want_string(t, &c->p[0], &by))
        return false;
    if (by->size == 0)
        return cr_interp_fail(t, "partition: an empty separator");
    if (!cr_tstr_find(t, s, by, 0, s->size, last, &at))
        return false;
    size_t cut = at != SIZE_MAX ? at : last ? 0 : s->size;
    size_t next = at != SIZE_MAX ? at + by->size : cut;
    return push_part(t, s, 0, cut, &vec) && push_part(t, s, cut, next, &vec) &&
           push_part(t, s, next, s->size, &vec) &&
           cr_tv_list(t, CR_TV_TUPLE, vec.items, vec.n, out);
}

static bool str_partition(cr_interp *t, cr_call *c, cr_tv *out)
{
    return partition(t, c, false, out);
}

static bool str_rpartition(cr_interp *t, cr_call *c, cr_tv *out)
{
    return partition(t, c, true, out);
}

static bool str_join(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tlist list;
    cr_tbuf buf = { 0 };
    if (!cr_tv_walk(t, &c->p[0], &list))
        return false;
    for (size_t i = 0; i < list.n; i++) {
        const cr_tstr *s;
        if (!want_string(t, &list.items[i], &s) || (i > 0 && !cr_tbuf_add(t, &buf, c->self.as.s)) ||
            !cr_tbuf_add(t, &buf, s))
            return false;
    }
    return cr_tbuf_done(t, &buf, out);
}

static bool str_replace(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tstr *from, *to;
    int64_t count;
    if (!want_string(t, &c->p[0], &from) || !want_string(t, &c->p[1], &to) ||
        !want_int(t, &c->p[2], -1, &count))
        return false;
    cr_tv escaped;
    if (c->self.as.s->safe && !to->safe) {
        if (!cr_tstr_escape(t, to, &escaped))
            return false;
        to = escaped.as.s;
    }
    return cr_tstr_replace(t, c->self.as.s, from, to, count, out);
}

static bool str_format(cr_interp *t, cr_call *c, cr_tv *out)
{
    return cr_format_braces(t, c->self.as.s, c->args, out);
}

static bool justify(cr_interp *t, cr_call *c, char align, cr_tv *out)
{
    const cr_tstr *s = c->self.as.s, blank = { .data = " ", .size = 1 }, *fill = &blank;
    int64_t width, n = (int64_t)cr_tstr_count(s);
    if (!want_int(t, &c->p[0], 0, &width) ||
        (c->p[1].kind != CR_TV_MISSING && !want_string(t, &c->p[1], &fill)))
        return false;
    if (cr_tstr_count(fill) != 1 || width > (1 << 20))
        return cr_interp_fail(t, "expected one character and a width of at most %d", 1 << 20);
    int64_t missing = width > n ? width - n : 0;
    /* As Python's center: the odd one goes left when the width is odd. */
    int64_t left = align == '<' ? 0 : align == '>' ? missing : missing / 2 + (missing & width & 1);
    cr_tbuf buf = { 0 };
    bool ok = true;
    for (int64_t i = 0; ok && i < left; i++)
        ok = cr_tbuf_add(t, &buf, fill);
    ok = ok && cr_tbuf_add(t, &buf, s);
    for (int64_t i = left; ok && i < missing; i++)
        ok = cr_tbuf_add(t, &buf, fill);
    return ok && cr_tbuf_done(t, &buf, out);
}

static bool str_ljust(cr_interp *t, cr_call *c, cr_tv *out)
{
    return justify(t, c, '<', out);
}

static bool str_rjust(cr_interp *t, cr_call *c, cr_tv *out)
{
    return justify(t, c, '>', out);
}

static bool str_center(cr_interp *t, cr_call *c, cr_tv *out)
{
    return justify(t, c, '^', out);
}

static bool str_zfill(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tstr *s = c->self.as.s;
    int64_t width, n = (int64_t)cr_tstr_count(s);
    if (!want_int(t, &c->p[0], 0, &width))
        return false;
    if (width > (1 << 20))
        return cr_interp_fail(t, "zfill: expected a width of at most %d", 1 << 20);
    size_t sign = s->size > 0 && (s->data[0] == '-' || s->data[0] == '+');
    cr_tstr head = cr_tstr_part(s, 0, sign), rest = cr_tstr_part(s, sign, s->size);
    cr_tbuf buf = { 0 };
    bool ok = cr_tbuf_add(t, &buf, &head);
    for (; ok && n < width; n++)
        ok = cr_tbuf_text(t, &buf, "0");
    return ok && cr_tbuf_add(t, &buf, &rest) && cr_tbuf_done(t, &buf, out);
}

/* ---- strings: questions -------------------------------------------------------------------- */

/* Whether there are characters and all of them have the property. */
static bool all_are(cr_interp *t, cr_call *c, bool (*is)(uint32_t), cr_tv *out)
{
    const cr_tstr *s = c->self.as.s;
    *out = cr_tv_bool(s->size > 0);
    for (size_t i = 0; i < s->size && out->as.b;) {
        uint32_t code;
        i += cr_tstr_at(s, i, &code);
        out->as.b = is(code);
    }
    return cr_interp_work(t, s->size);
}

static bool is_alnum(uint32_t code)
{
    return cr_char_is_alpha(code) || cr_char_is_digit(code);
}

static bool is_ascii(uint32_t code)
{
    return code < 0x80;
}

static bool str_isdigit(cr_interp *t, cr_call *c, cr_tv *out)
{
    return all_are(t, c, cr_char_is_digit, out);
}

static bool str_isalpha(cr_interp *t, cr_call *c, cr_tv *out)
{
    return all_are(t, c, cr_char_is_alpha, out);
}

static bool str_isalnum(cr_interp *t, cr_call *c, cr_tv *out)
{
    return all_are(t, c, is_alnum, out);
}

static bool str_isspace(cr_interp *t, cr_call *c, cr_tv *out)
{
    return all_are(t, c, cr_char_is_blank, out);
}

static bool str_isascii(cr_interp *t, cr_call *c, cr_tv *out)
{
    if (c->self.as.s->size > 0)
        return all_are(t, c, is_ascii, out);
    *out = cr_tv_bool(true);
    return true;
}

/* Whether some letters have this case and none the other. */
static bool str_case_is(cr_interp *t, cr_call *c, bool (*is)(uint32_t), bool (*other)(uint32_t),
                        cr_tv *out)
{
    const cr_tstr *s = c->self.as.s;
    bool some = false, none = true;
    for (size_t i = 0; i < s->size;) {
        uint32_t code;
        i += cr_tstr_at(s, i, &code);
        some |= is(code);
        none &= !other(code);
    }
    *out = cr_tv_bool(some && none);
    return cr_interp_work(t, s->size);
}

static bool str_isupper(cr_interp *t, cr_call *c, cr_tv *out)
{
    return str_case_is(t, c, cr_char_is_upper, cr_char_is_lower, out);
}

static bool str_islower(cr_interp *t, cr_call *c, cr_tv *out)
{
    return str_case_is(t, c, cr_char_is_lower, cr_char_is_upper, out);
}

/* ---- dicts, lists, numbers ----------------------------------------------------------------- */

static bool view(cr_interp *t, cr_call *c, int detail, cr_tv *out)
{
    const cr_tdict *dict = c->self.as.dict;
    cr_tv *items = detail == 0 ? dict->keys : dict->values;
    if (detail == 2) {
        items = cr_interp_alloc(t, dict->n, sizeof *items);
        if (items == NULL)
            return false;
        for (size_t i = 0; i < dict->n; i++) {
            cr_tv *pair = cr_interp_alloc(t, 2, sizeof *pair);
            if (pair == NULL)
                return false;
            pair[0] = dict->keys[i];
            pair[1] = dict->values[i];
            if (!cr_tv_list(t, CR_TV_TUPLE, pair, 2, &items[i]))
                return false;
        }
    }
    if (!cr_tv_list(t, CR_TV_VIEW, items, dict->n, out))
        return false;
    out->detail = detail;
    return true;
}

static bool dict_keys(cr_interp *t, cr_call *c, cr_tv *out)
{
    return view(t, c, 0, out);
}

static bool dict_values(cr_interp *t, cr_call *c, cr_tv *out)
{
    return view(t, c, 1, out);
}

static bool dict_items(cr_interp *t, cr_call *c, cr_tv *out)
{
    return view(t, c, 2, out);
}

static bool dict_get(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tv *found;
    if (!cr_tdict_get(t, c->self.as.dict, &c->p[0], &found))
        return false;
    *out = found != NULL ? *found : c->p[1].kind != CR_TV_MISSING ? c->p[1] : cr_tv_none();
    return true;
}

static bool copy(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    *out = c->self; /* nothing can change the one or the other */
    return true;
}

static bool list_index(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tlist *list = c->self.as.list;
    for (size_t i = 0; i < list->n; i++) {
        bool equal;
        if (!cr_tv_equals(t, &list->items[i], &c->p[0], &equal))
            return false;
        if (equal) {
            *out = cr_tv_int((int64_t)i);
            return true;
        }
    }
    return cr_interp_fail(t, "index: the value is not in the list");
}

static bool list_count(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tlist *list = c->self.as.list;
    *out = cr_tv_int(0);
    for (size_t i = 0; i < list->n; i++) {
        bool equal;
        if (!cr_tv_equals(t, &list->items[i], &c->p[0], &equal))
            return false;
        out->as.i += equal;
    }
    return true;
}

static bool float_is_integer(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    double f = cr_tv_to_float(&c->self);
    *out = cr_tv_bool(f > -9e15 && f < 9e15 ? f == (double)(int64_t)f : f - f == 0);
    return true;
}

/* ---- tables -------------------------------------------------------------------------------- */

/* A row without a function is an attribute that exists and cannot be called here. */
static const cr_builtin_row string_rows[] = {
    { "capitalize", "", str_capitalize },
    { "casefold", "", str_lower },
    { "center", "/ width | fillchar", str_center },
    { "count", "/ sub | start end", str_count },
    { "encode", NULL, NULL },
    { "endswith", "/ suffix | start end", str_endswith },
    { "expandtabs", NULL, NULL },
    { "find", "/ sub | start end", str_find },
    { "format", NULL, str_format },
    { "format_map", NULL, NULL },
    { "index", "/ sub | start end", str_index },
    { "isalnum", "", str_isalnum },
    { "isalpha", "", str_isalpha },
    { "isascii", "", str_isascii },
    { "isdecimal", "", str_isdigit },
    { "isdigit", "", str_isdigit },
    { "isidentifier", NULL, NULL },
    { "islower", "", str_islower },
    { "isnumeric", "", str_isdigit },
    { "isprintable", NULL, NULL },
    { "isspace", "", str_isspace },
    { "istitle", NULL, NULL },
    { "isupper", "", str_isupper },
    { "join", "/ iterable", str_join },
    { "ljust", "/ width | fillchar", str_ljust },
    { "lower", "", str_lower },
    { "lstrip", "/| chars", str_lstrip },
    { "maketrans", NULL, NULL },
    { "partition", "/ sep", str_partition },
    { "removeprefix", "/ prefix", str_removeprefix },
    { "removesuffix", "/ suffix", str_removesuffix },
    { "replace", "/ old new | count", str_replace },
    { "rfind", "/ sub | start end", str_rfind },
    { "rindex", "/ sub | start end", str_rindex },
    { "rjust", "/ width | fillchar", str_rjust },
    { "rpartition", "/ sep", str_rpartition },
    { "rsplit", "| sep maxsplit", str_rsplit },
    { "rstrip", "/| chars", str_rstrip },
    { "split", "| sep maxsplit", str_split },
    { "splitlines", "| keepends", str_splitlines },
    { "startswith", "/ prefix | start end", str_startswith },
    { "strip", "/| chars", str_strip },
    { "swapcase", "", str_swapcase },
    { "title", "", str_title },
    { "translate", NULL, NULL },
    { "upper", "", str_upper },
    { "zfill", "/ width", str_zfill },
    { NULL, NULL, NULL },
};

static const cr_builtin_row dict_rows[] = {
    { "copy", "", copy },        { "fromkeys", NULL, NULL }, { "get", "/ key | default", dict_get },
    { "items", "", dict_items }, { "keys", "", dict_keys },  { "values", "", dict_values },
    { NULL, NULL, NULL },
};

static const cr_builtin_row list_rows[] = {
    { "copy", "", copy },
    { "count", "/ value", list_count },
    { "index", "/ value", list_index },
    { NULL, NULL, NULL },
};

static const cr_builtin_row number_rows[] = {
    { "as_integer_ratio", NULL, NULL },
    { "bit_length", NULL, NULL },
    { "conjugate", NULL, NULL },
    { "is_integer", "", float_is_integer },
    { NULL, NULL, NULL },
};

/* What the immutable sandbox hides: a value that is undefined, and fails when it is called. */
static const char *const hidden[] = { "append",     "clear",   "extend", "insert",
                                      "pop",        "popitem", "remove", "reverse",
                                      "setdefault", "sort",    "update" };

bool cr_tv_method(cr_interp *t, const cr_tv *self, const cr_builtin_row *row, cr_tv *out)
{
    cr_tmethod *method = cr_interp_alloc(t, 1, sizeof *method);
    if (method == NULL)
        return false;
    *method = (cr_tmethod){ .self = *self, .row = row };
    *out = (cr_tv){ .kind = CR_TV_METHOD, .as.method = method };
    return true;
}

cr_tv cr_method_find(cr_interp *t, const cr_tv *self, cr_str name)
{
    const cr_builtin_row *rows = NULL;
    if (self->kind == CR_TV_STRING)
        rows = string_rows;
    else if (self->kind == CR_TV_DICT)
        rows = dict_rows;
    else if (self->kind == CR_TV_LIST)
        rows = list_rows;
    else if (self->kind == CR_TV_TUPLE)
        rows = list_rows + 1; /* no copy */
    else if (self->kind == CR_TV_FLOAT)
        rows = number_rows;
    for (; rows != NULL && rows->name != NULL; rows++) {
        if (!cr_str_is(name, rows->name))
            continue;
        cr_tv found = cr_tv_undefined(NULL);
        cr_tv_method(t, self, rows, &found); /* a failure stays in t */
        return found;
    }
    bool mutable = self->kind == CR_TV_LIST || self->kind == CR_TV_DICT;
    for (size_t i = 0; mutable && i < CR_COUNT(hidden); i++) {
        bool of_dict = strcmp(hidden[i], "popitem") == 0 || strcmp(hidden[i], "setdefault") == 0 ||
                       strcmp(hidden[i], "update") == 0;
        bool of_both = strcmp(hidden[i], "clear") == 0 || strcmp(hidden[i], "pop") == 0;
        if (cr_str_is(name, hidden[i]) && (of_both || of_dict == (self->kind == CR_TV_DICT)))
            return cr_tv_undefined(hidden[i]);
    }
    return (cr_tv){ .kind = CR_TV_MISSING };
}

bool cr_method_run(cr_interp *t, const cr_tmethod *method, const cr_args *args, cr_tv *out)
{
    return cr_builtin_run(t, "method", method->row, method->self, args, out);
}

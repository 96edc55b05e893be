/* Functions that a template finds without being given them. */
#include "template/value.h"

#include <stdio.h>

static bool range(cr_interp *t, cr_call *c, cr_tv *out)
{
    int64_t given[3] = { 0, 0, 1 };
    for (int i = 0; i < 3; i++)
        if (c->p[i].kind != CR_TV_MISSING && !cr_tv_to_int(&c->p[i], &given[i]))
            return cr_interp_fail(t, "range: expected integers, found a %s", cr_tv_type(&c->p[i]));
    int64_t start = given[0], stop = given[1], step = given[2];
    if (c->p[1].kind == CR_TV_MISSING) {
        start = 0;
        stop = given[0];
    }
    if (step == 0)
        return cr_interp_fail(t, "range: a step of zero");
    uint64_t distance = step > 0 ? (start < stop ? (uint64_t)stop - (uint64_t)start : 0)
                                 : (start > stop ? (uint64_t)start - (uint64_t)stop : 0);
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t n = distance == 0 ? 0 : (distance - 1) / stride + 1;
    if (n > CR_TEMPLATE_MAX_RANGE)
        return cr_interp_limit(t, "range: expected at most %d elements", CR_TEMPLATE_MAX_RANGE);
    cr_trange *made = cr_interp_alloc(t, 1, sizeof *made);
    if (made == NULL)
        return false;
    *made = (cr_trange){ .start = start, .stop = stop, .step = step, .n = (int64_t)n };
    *out = (cr_tv){ .kind = CR_TV_RANGE, .as.range = made };
    return true;
}

/* dict(mapping or pairs, name=value, ...), for dict and namespace. */
static bool fill(cr_interp *t, cr_call *c, cr_tv_kind kind, cr_tv *out)
{
    if (c->args->n > 1)
        return cr_interp_fail(t, "dict: expected at most one argument without a name");
    if (!cr_tv_dict(t, kind, out))
        return false;
    cr_tdict *dict = out->as.dict;
    if (c->args->n == 1 && c->args->items[0].kind == CR_TV_DICT) {
        const cr_tdict *from = c->args->items[0].as.dict;
        for (size_t i = 0; i < from->n; i++)
            if (!cr_tdict_set(t, dict, from->keys[i], from->values[i]))
                return false;
    } else if (c->args->n == 1) {
        cr_tlist pairs, pair;
        if (!cr_tv_walk(t, &c->args->items[0], &pairs))
            return false;
        for (size_t i = 0; i < pairs.n; i++) {
            if (!cr_tv_walk(t, &pairs.items[i], &pair))
                return false;
            if (pair.n != 2)
                return cr_interp_fail(t, "dict: expected pairs");
            if (!cr_tdict_set(t, dict, pair.items[0], pair.items[1]))
                return false;
        }
    }
    for (size_t i = 0; i < c->args->n_named; i++) {
        const cr_named *named = &c->args->named[i];
        cr_tv key;
        if (!cr_tv_text(t, named->name.data, named->name.size, CR_FROM_TEMPLATE, &key) ||
            !cr_tdict_set(t, dict, key, named->value))
            return false;
    }
    return true;
}

static bool dict(cr_interp *t, cr_call *c, cr_tv *out)
{
    return fill(t, c, CR_TV_DICT, out);
}

static bool namespace_(cr_interp *t, cr_call *c, cr_tv *out)
{
    if (!fill(t, c, CR_TV_NAMESPACE, out))
        return false;
    const cr_tdict *made = out->as.dict;
    for (size_t i = 0; i < made->n; i++)
        if (made->keys[i].kind == CR_TV_STRING && made->keys[i].as.s->size > 0 &&
            made->keys[i].as.s->data[0] == '_')
            return cr_interp_fail(t, "namespace: a name may not begin with an underscore");
    return true;
}

static bool raise_exception(cr_interp *t, cr_call *c, cr_tv *out)
{
    const cr_tstr *s;
    (void)out;
    if (!cr_tv_str(t, &c->p[0], &s))
        return false;
    return cr_interp_fail(t, "the template refuses: %.*s", (int)CR_MIN(s->size, (size_t)400),
                          s->data);
}

/* ---- cycler and joiner ---------------------------------------------------------------------- */

static bool cycler(cr_interp *t, cr_call *c, cr_tv *out)
{
    if (c->args->n == 0)
        return cr_interp_fail(t, "cycler: expected values");
    if (!cr_tv_iter(t, c->args->items, c->args->n, out))
        return false;
    out->kind = CR_TV_CYCLER;
    return true;
}

static bool cycler_next(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    cr_titer *iter = c->self.as.iter;
    *out = iter->list.items[iter->at];
    iter->at = (iter->at + 1) % iter->list.n;
    return true;
}

static bool cycler_reset(cr_interp *t, cr_call *c, cr_tv *out)
{
    (void)t;
    c->self.as.iter->at = 0;
    *out = cr_tv_none();
    return true;
}

static bool joiner(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tv *items = cr_interp_alloc(t, 1, sizeof *items);
    if (items == NULL)
        return false;
    items[0] = c->p[0];
    if (c->p[0].kind == CR_TV_MISSING && !cr_tv_text(t, ", ", 2, CR_FROM_TEMPLATE, &items[0]))
        return false;
    if (!cr_tv_iter(t, items, 1, out))
        return false;
    out->kind = CR_TV_JOINER;
    return true;
}

bool cr_function_attr(cr_interp *t, const cr_tv *a, cr_str name, cr_tv *out)
{
    static const cr_builtin_row rows[] = { { "next", "", cycler_next },
                                           { "reset", "", cycler_reset } };
    if (a->kind != CR_TV_CYCLER)
        return true;
    for (size_t i = 0; i < CR_COUNT(rows); i++)
        if (cr_str_is(name, rows[i].name))
            return cr_tv_method(t, a, &rows[i], out);
    if (cr_str_is(name, "current"))
        *out = a->as.iter->list.items[a->as.iter->at];
    return true;
}

/* ---- dates ----------------------------------------------------------------------------------- */

static const char *const day_names[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
                                         "Thursday", "Friday", "Saturday" };
static const char *const month_names[] = { "January",   "February", "March",    "April",
                                           "May",       "June",     "July",     "August",
                                           "September", "October",  "November", "December" };

/* Days before the month, in a year that is not a leap year. */
static const int days_before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* From 1. */
static int day_of_year(const cr_template_time *at)
{
    return days_before[at->month - 1] + at->day + (at->month > 2 && is_leap(at->year) ? 1 : 0);
}

/* From Sunday, 0: days since the year 1, which began on a Monday. */
static int day_of_week(const cr_template_time *at)
{
    int years = at->year - 1;
    return (years * 365 + years / 4 - years / 100 + years / 400 + day_of_year(at)) % 7;
}

/* One directive, in the C locale; false when it is not known. */
static bool date_part(const cr_template_time *at, char letter, char out[64])
{
    int week_day = day_of_week(at), year_day = day_of_year(at);
    int hour12 = at->hour % 12 == 0 ? 12 : at->hour % 12;
    enum { ROOM = 64 };
    switch (letter) {
    case 'a':
        return snprintf(out, ROOM, "%.3s", day_names[week_day]) > 0;
    case 'A':
        return snprintf(out, ROOM, "%s", day_names[week_day]) > 0;
    case 'b':
    case 'h':
        return snprintf(out, ROOM, "%.3s", month_names[at->month - 1]) > 0;
    case 'B':
        return snprintf(out, ROOM, "%s", month_names[at->month - 1]) > 0;
    case 'c':
        return snprintf(out, ROOM, "%.3s %.3s %2d %02d:%02d:%02d %d", day_names[week_day],
                        month_names[at->month - 1], at->day, at->hour, at->minute, at->second,
                        at->year) > 0;
    case 'd':
        return snprintf(out, ROOM, "%02d", at->day) > 0;
    case 'D':
    case 'x':
        return snprintf(out, ROOM, "%02d/%02d/%02d", at->month, at->day, at->year % 100) > 0;
    case 'e':
        return snprintf(out, ROOM, "%2d", at->day) > 0;
    case 'f':
        return snprintf(out, ROOM, "000000") > 0;
    case 'F':
        return snprintf(out, ROOM, "%d-%02d-%02d", at->year, at->month, at->day) > 0;
    case 'H':
        return snprintf(out, ROOM, "%02d", at->hour) > 0;
    case 'I':
        return snprintf(out, ROOM, "%02d", hour12) > 0;
    case 'j':
        return snprintf(out, ROOM, "%03d", year_day) > 0;
    case 'm':
        return snprintf(out, ROOM, "%02d", at->month) > 0;
    case 'M':
        return snprintf(out, ROOM, "%02d", at->minute) > 0;
    case 'p':
        return snprintf(out, ROOM, "%s", at->hour < 12 ? "AM" : "PM") > 0;
    case 'R':
        return snprintf(out, ROOM, "%02d:%02d", at->hour, at->minute) > 0;
    case 'S':
        return snprintf(out, ROOM, "%02d", at->second) > 0;
    case 'T':
    case 'X':
        return snprintf(out, ROOM, "%02d:%02d:%02d", at->hour, at->minute, at->second) > 0;
    case 'u':
        return snprintf(out, ROOM, "%d", week_day == 0 ? 7 : week_day) > 0;
    case 'w':
        return snprintf(out, ROOM, "%d", week_day) > 0;
    case 'y':
        return snprintf(out, ROOM, "%02d", at->year % 100) > 0;
    case 'Y':
        return snprintf(out, ROOM, "%d", at->year) > 0;
    case '%':
        return snprintf(out, ROOM, "%%") > 0;
    case 'z': /* the time has no zone */
    case 'Z':
        out[0] = '\0';
        return true;
    default:
        return false;
    }
}

static bool strftime_now(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tbuf buf = { 0 };
    if (c->p[0].kind != CR_TV_STRING)
        return cr_interp_fail(t, "strftime_now: expected a format, found a %s",
                              cr_tv_type(&c->p[0]));
    const cr_tstr *s = c->p[0].as.s;
    for (size_t i = 0; i < s->size; i++) {
        char text[64];
        cr_tstr part = cr_tstr_part(s, i, i + 1);
        if (s->data[i] != '%') {
            if (!cr_tbuf_add(t, &buf, &part))
                return false;
            continue;
        }
        bool bare = i + 1 < s->size && s->data[i + 1] == '-'; /* %-d: without zeros in front */
        i += bare ? 2 : 1;
        if (i >= s->size || !date_part(t->now, s->data[i], text))
            return cr_interp_fail(t, "strftime_now: a directive that is not known");
        const char *from = text;
        while (bare && (*from == '0' || *from == ' ') && from[1] != '\0')
            from++;
        if (!cr_tbuf_text(t, &buf, from))
            return false;
    }
    return cr_tbuf_done(t, &buf, out);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const cr_builtin_row rows[] = {
    { "strftime_now", "format", strftime_now }, /* the first: it may be missing */
    { "range", "start | stop step", range },
    { "dict", NULL, dict },
    { "namespace", NULL, namespace_ },
    { "raise_exception", "message", raise_exception },
    { "cycler", NULL, cycler },
    { "joiner", "| sep", joiner },
    { "lipsum", NULL, NULL },
};

int cr_function_find(cr_str name)
{
    for (size_t i = 0; i < CR_COUNT(rows); i++)
        if (cr_str_is(name, rows[i].name))
            return (int)i;
    return -1;
}

bool cr_function_run(cr_interp *t, int row, const cr_args *args, cr_tv *out)
{
    return cr_builtin_run(t, "function", &rows[row], cr_tv_none(), args, out);
}

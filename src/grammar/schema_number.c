/* Numbers. A bound compares decimals digit by digit, so that 0.1 is 0.1, and the numbers between two
 * bounds are a set of strings. Bounded numbers are written without exponent and short enough (15
 * digits where they come close to a bound) that a reader who makes doubles of them compares alike. */
#include "grammar/schema_internal.h"

#include <stdio.h>

enum { MAX_DIGITS = 15, MAX_FRACTION = 6, MAX_DIVISOR = 2000 };

/* A decimal: whole.fraction, without needless zeros; the whole part is "0" at least. */
typedef struct decimal {
    bool negative;
    char digits[2 * MAX_DIGITS + 2];
    int n_whole, n_fraction; /* the fraction's digits follow the whole's */
} decimal;

typedef enum exactness {
    EXACT,
    FAR,  /* larger than the numbers with MAX_DIGITS digits and the integers that a double has */
    FINE, /* it has more digits than are compared exactly */
} exactness;

/* Whether the digits are those of an integer that a double has with all those below it. */
static bool is_safe(const char *digits, int n)
{
    static const char most[] = "9007199254740992"; /* 2^53 */
    return memcmp(digits, most, (size_t)n) <= 0;
}

/* Reads the text of a JSON number. */
static exactness read_decimal(cr_str text, decimal *out)
{
    char digits[64];
    int n = 0, point = 0, exponent = 0;
    size_t i = 0;
    bool seen_point = false;
    *out = (decimal){ .negative = text.size > 0 && text.data[0] == '-' };
    for (i = out->negative ? 1 : 0; i < text.size && (text.data[i] | 32) != 'e'; i++) {
        if (text.data[i] == '.') {
            seen_point = true;
            continue;
        }
        if (n == (int)sizeof digits)
            return seen_point ? FINE : FAR;
        digits[n++] = text.data[i];
        point += seen_point ? 0 : 1;
    }
    if (i < text.size) {
        bool minus = text.data[++i] == '-';
        i += text.data[i] == '-' || text.data[i] == '+' ? 1 : 0;
        for (; i < text.size && exponent < 1000; i++)
            exponent = exponent * 10 + (text.data[i] - '0');
        exponent = minus ? -exponent : exponent;
    }
    point += exponent;
    int first = 0;
    while (first < n && digits[first] == '0')
        first++;
    while (n > first && digits[n - 1] == '0')
        n--;
    if (first == n) {
        *out = (decimal){ .digits = "0", .n_whole = 1 };
        return EXACT;
    }
    point -= first;
    int n_digits = n - first;
    const bool is_long = point == MAX_DIGITS + 1 && n_digits <= point;
    if (point > MAX_DIGITS && !(is_long && is_safe(digits + first, n_digits)))
        return FAR;
    if (!is_long && (n_digits > MAX_DIGITS || n_digits - point > MAX_DIGITS))
        return FINE;
    int at = 0;
    if (point <= 0)
        out->digits[at++] = '0';
    out->n_whole = point > 0 ? point : 1;
    for (int k = point < 0 ? point : 0; k < CR_MAX(n_digits, point); k++)
        out->digits[at++] = k < 0 || k >= n_digits ? '0' : digits[first + k];
    out->n_fraction = at - out->n_whole;
    return EXACT;
}

static bool is_zero(const decimal *d)
{
    return d->n_fraction == 0 && d->n_whole == 1 && d->digits[0] == '0';
}

static int compare_magnitudes(const decimal *a, const decimal *b)
{
    if (a->n_whole != b->n_whole)
        return a->n_whole < b->n_whole ? -1 : 1;
    int n_a = a->n_whole + a->n_fraction, n_b = b->n_whole + b->n_fraction;
    int order = memcmp(a->digits, b->digits, (size_t)CR_MIN(n_a, n_b));
    return order != 0 ? order : n_a < n_b ? -1 : n_a > n_b ? 1 : 0;
}

static int compare(const decimal *a, const decimal *b)
{
    if (is_zero(a) && is_zero(b))
        return 0;
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    int order = compare_magnitudes(a, b);
    return a->negative ? -order : order;
}

/* ---- sets of magnitudes ------------------------------------------------------------------ */

/* A bound of a magnitude, the sign left out. */
typedef struct bound {
    const decimal *value; /* NULL: none */
    bool is_most, is_open;
} bound;

enum { LESS, EQUAL, GREATER };

/* Strings of digits, with or without a fraction, that the bound allows. States, in this order: the
 * whole part after n digits and how they compare so far, three for each n up to one more than the
 * bound has; then the fraction after j digits, likewise. Needless zeros are kept out elsewhere. */
static const cr_dfa *bound_set(cr_compiler *c, const bound *b)
{
    const decimal *d = b->value;
    uint32_t n_whole = (uint32_t)d->n_whole, n_fraction = (uint32_t)d->n_fraction;
    uint32_t fraction = (n_whole + 2) * 3;
    cr_dfa_builder to;
    cr_dfa_builder_init(&to, &c->shop);
    for (uint32_t s = 0; s < fraction + (n_fraction + 2) * 3; s++) {
        bool in_whole = s < fraction;
        uint32_t n = in_whole ? s / 3 : (s - fraction) / 3, order = s % 3;
        uint32_t most = in_whole ? n_whole : n_fraction;
        /* How the number compares if it ends here. */
        uint32_t end = order;
        if (in_whole)
            end = n < n_whole ? LESS : n > n_whole ? GREATER : order;
        uint32_t at_point = end; /* and if the point comes here: the whole parts decide */
        if (end == EQUAL && (in_whole ? n_fraction > 0 : n < n_fraction))
            end = LESS;
        bool good = end == EQUAL ? !b->is_open : (end == LESS) == b->is_most;
        cr_dfa_builder_state(&to, good && (!in_whole || n > 0));
        if (in_whole && n > 0)
            cr_dfa_builder_move(&to, '.', '.', fraction + at_point);
        for (uint32_t digit = 0; digit < 10; digit++) {
            uint32_t next = order;
            uint32_t i = in_whole ? n : n_whole + n;
            uint32_t other = n < most ? (uint32_t)(d->digits[i] - '0') : 0;
            if ((order == EQUAL || (in_whole && n == 0)) && (n < most || !in_whole))
                next = digit < other ? LESS : digit > other ? GREATER : EQUAL;
            uint32_t target = (in_whole ? 0 : fraction) + CR_MIN(n + 1, most + 1) * 3 + next;
            cr_dfa_builder_move(&to, '0' + digit, '0' + digit, target);
        }
    }
    return cr_dfa_builder_finish(&to);
}

/* ---- the numbers of a schema ------------------------------------------------------------- */

typedef struct limits {
    decimal low, high;
    bool has_low, has_high, low_open, high_open;
    bool is_far; /* there is a limit that no number comes near which is generated then */
    const cr_json *at;
} limits;

static cera_status read_limit(cr_compiler *c, const cr_json *k, decimal *out, exactness *how)
{
    if (k->kind != CR_JSON_NUMBER)
        return cr_schema_fail(c, k, CERA_E_FORMAT, "expected a number");
    *how = read_decimal(k->text, out);
    return CERA_OK;
}

/* The bounds of one schema: {value, is_open} of the lower or the upper side. */
static cera_status narrow(cr_compiler *c, const cr_json *schema, bool upper, limits *l)
{
    const cr_json *plain = cr_json_get(schema, upper ? "maximum" : "minimum");
    const cr_json *open = cr_json_get(schema, upper ? "exclusiveMaximum" : "exclusiveMinimum");
    /* In draft 4 it is a boolean beside the bound. */
    bool is_flag = open && (open->kind == CR_JSON_TRUE || open->kind == CR_JSON_FALSE);
    if (is_flag && !plain)
        return cr_schema_fail(c, open, CERA_E_FORMAT, "expected a number, or a bound beside it");
    for (int i = 0; i < 2; i++) {
        const cr_json *k = i == 0 ? plain : is_flag ? NULL : open;
        if (!k)
            continue;
        bool is_open = i == 1 || (is_flag && open->kind == CR_JSON_TRUE);
        decimal value;
        exactness how;
        CR_TRY(read_limit(c, k, &value, &how));
        if (how == FAR && value.negative != upper) {
            l->is_far = true;
            continue;
        }
        if (how != EXACT) {
            CR_TRY(
                cr_schema_skip(c, k, "a bound with more than 15 digits is not compared exactly"));
            continue;
        }
        decimal *old = upper ? &l->high : &l->low;
        bool *has = upper ? &l->has_high : &l->has_low;
        bool *old_open = upper ? &l->high_open : &l->low_open;
        int order = *has ? compare(&value, old) * (upper ? -1 : 1) : 1;
        if (order > 0) {
            *old = value;
            *old_open = is_open;
        } else if (order == 0) {
            *old_open = *old_open || is_open;
        }
        *has = true;
        l->at = k;
    }
    return CERA_OK;
}

static bool intersect(cr_compiler *c, const cr_dfa **set, const cr_dfa *other)
{
    *set = other ? cr_dfa_and(&c->shop, *set, other) : NULL;
    return *set != NULL;
}

/* Magnitudes of the numbers with this sign that are within the limits; NULL when memory is at its
 * end. `set` is how they may be written. */
static const cr_dfa *signed_set(cr_compiler *c, const cr_dfa *set, const limits *l, bool negative)
{
    static const decimal zero = { .digits = "0", .n_whole = 1 };
    /* For -x the lower limit is the upper one of x, and the other way round. */
    const decimal *low = negative ? &l->high : &l->low, *high = negative ? &l->low : &l->high;
    bool has_low = negative ? l->has_high : l->has_low,
         has_high = negative ? l->has_low : l->has_high;
    bool low_open = negative ? l->high_open : l->low_open;
    bool high_open = negative ? l->low_open : l->high_open;
    bool low_is_above = has_low && !is_zero(low) && low->negative == negative;
    bool high_is_below = has_high && !is_zero(high) && high->negative != negative;
    bound bounds[3] = { { NULL, false, false } };
    int n = 0;
    if (high_is_below)
        bounds[n++] = (bound){ &zero, true, true }; /* nothing */
    else if (has_high)
        bounds[n++] = (bound){ high, true, high_open };
    if (low_is_above || (has_low && is_zero(low)))
        bounds[n++] = (bound){ low, false, low_open };
    if (negative)
        bounds[n++] = (bound){ &zero, false, true }; /* -0 is 0 */
    for (int i = 0; i < n && set; i++)
        intersect(c, &set, bound_set(c, &bounds[i]));
    return set;
}

/* Reads a divisor as value / 10^n_fraction; value 0: it is left out. One that a double has no exact
 * value for is refused, for readers that divide doubles disagree about its multiples. */
static cera_status read_divisor(cr_compiler *c, const cr_json *k, int64_t *value, int *n_fraction)
{
    decimal d;
    exactness how;
    CR_TRY(read_limit(c, k, &d, &how));
    if (how == EXACT && (d.negative || is_zero(&d)))
        return cr_schema_fail(c, k, CERA_E_FORMAT, "expected a number above 0");
    *n_fraction = d.n_fraction;
    bool good = how == EXACT && d.n_fraction <= MAX_FRACTION &&
                cr_parse_i64((cr_str){ d.digits, (size_t)(d.n_whole + d.n_fraction) }, value) &&
                *value <= MAX_DIVISOR;
    int64_t fives = 1;
    for (int i = 0; good && i < d.n_fraction; i++)
        fives *= 5;
    good = good && *value % fives == 0;
    if (!good)
        *value = 0;
    return good ? CERA_OK
                : cr_schema_skip(c, k,
                                 "only numbers up to 2000, and of fractions such as 0.25 or "
                                 "1.5, which a double has exactly, are");
}

/* The part's multipleOf, unless it was left out. */
static const cr_json *divisor_of(const cr_compiler *c, const cr_part *part)
{
    return c->no_divisors ? NULL : cr_json_get(part->schema, "multipleOf");
}

/* Digits behind the point that the divisors allow; -1: there is no divisor. */
static cera_status divisor_room(cr_compiler *c, const cr_parts *parts, int *room)
{
    *room = -1;
    for (int i = 0; i < parts->n; i++) {
        const cr_json *k = divisor_of(c, &parts->part[i]);
        int64_t value;
        int n_fraction;
        if (!k)
            continue;
        CR_TRY(read_divisor(c, k, &value, &n_fraction));
        n_fraction = value > 0 ? n_fraction : 0;
        *room = *room < 0 ? n_fraction : CR_MIN(*room, n_fraction);
    }
    return CERA_OK;
}

static cera_status apply_divisors(cr_compiler *c, const cr_parts *parts, const cr_dfa **set)
{
    for (int i = 0; i < parts->n; i++) {
        const cr_json *k = divisor_of(c, &parts->part[i]);
        int64_t value = 0;
        int n_fraction;
        if (k)
            CR_TRY(read_divisor(c, k, &value, &n_fraction));
        if (value == 0)
            continue;
        if (!intersect(c, set, cr_dfa_multiples(&c->shop, (uint32_t)value, (uint32_t)n_fraction)))
            return CERA_OK; /* it is NULL */
    }
    return CERA_OK;
}

/* The last divisor, and whether one is large. */
static const cr_json *last_divisor(const cr_compiler *c, const cr_parts *parts, bool *is_large)
{
    const cr_json *last = NULL;
    *is_large = false;
    for (int i = 0; i < parts->n; i++) {
        const cr_json *k = divisor_of(c, &parts->part[i]);
        *is_large = *is_large || (k && k->text.size > 2);
        last = k ? k : last;
    }
    return last;
}

/* The sets do not fit. Without divisors they may. */
static cera_status too_large(cr_compiler *c, const cr_parts *parts, unsigned kinds, cr_text *t,
                             bool *none)
{
    bool is_large;
    const cr_json *divisor = last_divisor(c, parts, &is_large);
    if (!c->shop.too_large)
        return cr_schema_no_memory(c);
    if (!divisor)
        return cr_schema_fail(c, parts->part[0].schema, CERA_E_LIMIT,
                              "expected bounds with fewer digits, or fewer excluded numbers");
    CR_TRY(cr_schema_skip(c, divisor, "with these bounds, or others, it takes too many states"));
    c->no_divisors = true;
    cera_status status = cr_schema_number(c, parts, kinds, t, none);
    c->no_divisors = false;
    return status;
}

/* Bounds that numbers with a fraction are kept away from. */
static void leave_far(limits *l)
{
    const bool far_high = l->has_high && !l->high.negative && l->high.n_whole > MAX_DIGITS;
    const bool far_low = l->has_low && l->low.negative && l->low.n_whole > MAX_DIGITS;
    l->has_high = l->has_high && !far_high;
    l->has_low = l->has_low && !far_low;
    l->is_far = l->is_far || far_high || far_low;
}

/* Reads the numbers that are excluded; *at is one of them, NULL: there are none. *n_whole becomes the
 * most digits that one has in front of the point. With sets they are taken out of that for the sign:
 * each in all its spellings. */
static cera_status exclude(cr_compiler *c, const cr_parts *parts, int *n_whole, const cr_json **at,
                           const cr_dfa *sets[2])
{
    *at = NULL;
    for (int i = 0; i < parts->n; i++) {
        const cr_json *v = NULL;
        while ((v = cr_part_next_excluded(&parts->part[i], v)) != NULL) {
            decimal d;
            if (v->kind != CR_JSON_NUMBER)
                continue;
            exactness how;
            CR_TRY(read_limit(c, v, &d, &how));
            *at = v;
            if (how == FAR)
                continue;
            if (how == FINE) {
                CR_TRY(cr_schema_skip(c, parts->part[i].excluded,
                                      "a number with more than 15 digits is not compared exactly"));
                continue;
            }
            *n_whole = CR_MAX(*n_whole, d.n_whole);
            if (!sets)
                continue;
            char pattern[64];
            const cr_dfa *same;
            snprintf(pattern, sizeof pattern, d.n_fraction > 0 ? "^%.*s\\.%s0*$" : "^%.*s(\\.0*)?$",
                     d.n_whole, d.digits, d.digits + d.n_whole);
            CR_TRY(cr_regex_compile(&c->shop, cr_str_from(pattern), false, &same, c->err));
            const cr_dfa **set = &sets[d.negative ? 1 : 0];
            if (intersect(c, set, cr_dfa_not(&c->shop, same)))
                continue;
            return c->shop.too_large ? cr_schema_fail(c, parts->part[i].excluded, CERA_E_LIMIT,
                                                      "expected fewer excluded numbers")
                                     : cr_schema_no_memory(c);
        }
    }
    return CERA_OK;
}

/* Digits that may follow the point, so that 15 in all are enough near a limit or a number that is
 * excluded, which has so many in front of the point. */
static int fraction_room(const limits *l, int n_whole)
{
    n_whole = CR_MAX(n_whole, l->has_low ? l->low.n_whole : 0);
    n_whole = CR_MAX(n_whole, l->has_high ? l->high.n_whole : 0);
    int n_fraction =
        CR_MAX(l->has_low ? l->low.n_fraction : 0, l->has_high ? l->high.n_fraction : 0);
    int room = MAX_DIGITS - n_whole;
    return n_fraction > room ? -1 : CR_MIN(room, CR_MAX((int)MAX_FRACTION, n_fraction));
}

cera_status cr_schema_number(cr_compiler *c, const cr_parts *parts, unsigned kinds, cr_text *t,
                             bool *none)
{
    limits l = { .has_low = false };
    for (int i = 0; i < parts->n; i++) {
        CR_TRY(narrow(c, parts->part[i].schema, false, &l));
        CR_TRY(narrow(c, parts->part[i].schema, true, &l));
    }
    int room;
    CR_TRY(divisor_room(c, parts, &room));
    bool has_divisor = room >= 0, only_whole = (kinds & CR_IS_FRACTION) == 0 || room == 0;
    const cr_json *at = cr_parts_keyword(parts, "multipleOf\0minimum\0exclusiveMinimum\0"
                                                "maximum\0exclusiveMaximum\0type\0");
    *none = kinds == CR_IS_FRACTION;
    if (*none)
        return CERA_OK;
    int n_whole = 0;
    const cr_json *excluded;
    CR_TRY(exclude(c, parts, &n_whole, &excluded, NULL));
    if (!only_whole)
        leave_far(&l);
    int most = only_whole ? 0 : fraction_room(&l, n_whole);
    if (most < 0) {
        CR_TRY(cr_schema_skip(c, l.at ? l.at : excluded,
                              "together the bounds have more than 15 digits"));
        l = (limits){ .has_low = false };
        most = MAX_FRACTION;
    }
    if (!l.has_low && !l.has_high && !l.is_far && !has_divisor && !excluded) {
        cr_text_put(t, only_whole ? "integer" : "number");
        return CERA_OK;
    }
    room = has_divisor ? CR_MIN(room, most) : most;
    /* Counting digits and remainders at once takes states; large divisors leave the digits alone. */
    char whole[16];
    bool is_large;
    last_divisor(c, parts, &is_large);
    n_whole = CR_MAX(n_whole, l.has_low ? l.low.n_whole : 0);
    n_whole = CR_MAX(n_whole, l.has_high ? l.high.n_whole : 0);
    if (is_large && room == 0 && !l.is_far)
        snprintf(whole, sizeof whole, "*");
    else
        snprintf(whole, sizeof whole, "{0,%d}",
                 has_divisor  ? MAX_DIGITS - 1 - room
                 : only_whole ? CR_MAX(n_whole, MAX_DIGITS) - 1
                              : MAX_DIGITS - 1 - l.is_far);
    char pattern[80];
    if (room > 0)
        snprintf(pattern, sizeof pattern, "^(0|[1-9][0-9]%s)(\\.[0-9]{1,%d})?$", whole, room);
    else
        snprintf(pattern, sizeof pattern, "^(0|[1-9][0-9]%s)$", whole);
    const cr_dfa *all;
    CR_TRY(cr_regex_compile(&c->shop, cr_str_from(pattern), false, &all, c->err));
    CR_TRY(apply_divisors(c, parts, &all));
    if (!all)
        return too_large(c, parts, kinds, t, none);
    const cr_dfa *sets[2] = { all, all };
    CR_TRY(exclude(c, parts, &n_whole, &excluded, sets));
    *none = true;
    for (int negative = 0; negative < 2; negative++) {
        sets[negative] = signed_set(c, sets[negative], &l, negative);
        if (!sets[negative])
            return too_large(c, parts, kinds, t, none);
    }
    for (int negative = 0; negative < 2; negative++) {
        if (sets[negative]->n_states == 0)
            continue;
        uint32_t rule;
        cr_schema_set_rule(c, sets[negative], false, &rule);
        cr_text_put(t, "%s%sd%u", *none ? "" : " | ", negative ? "\"-\" " : "", rule);
        *none = false;
    }
    c->unmet = *none ? at : c->unmet;
    return CERA_OK;
}

/* ---- listed numbers ---------------------------------------------------------------------- */

int cr_schema_same_number(const cr_json *a, const cr_json *b)
{
    decimal x, y;
    if (cr_str_same(a->text, b->text))
        return 1;
    const bool exact = read_decimal(a->text, &x) == EXACT && read_decimal(b->text, &y) == EXACT;
    return exact ? compare(&x, &y) == 0 : -1;
}

bool cr_schema_is_whole(cr_str number)
{
    enum { MOST = 1000000 };
    int n = 0, point = -1; /* digits, and those in front of the point */
    int last = -1;         /* the last digit that is not 0 */
    int exponent = 0;
    size_t i = 0;
    for (; i < number.size && (number.data[i] | 32) != 'e' && n < MOST; i++) {
        if (number.data[i] == '.') {
            point = n;
        } else if (number.data[i] != '-') {
            last = number.data[i] != '0' ? n : last;
            n++;
        }
    }
    bool minus = i + 1 < number.size && number.data[i + 1] == '-';
    for (; i < number.size; i++) {
        if (number.data[i] >= '0' && number.data[i] <= '9' && exponent < MOST)
            exponent = exponent * 10 + (number.data[i] - '0');
    }
    return last < (point < 0 ? n : point) + (minus ? -exponent : exponent) || last < 0;
}

/* The number times 10^n_fraction; false when it is too large. */
static bool scale(const decimal *d, int n_fraction, int64_t *out)
{
    char digits[64];
    const int n = d->n_whole + d->n_fraction, n_zeros = n_fraction - d->n_fraction;
    memcpy(digits, d->digits, (size_t)n);
    memset(digits + n, '0', (size_t)n_zeros);
    return cr_parse_i64((cr_str){ digits, (size_t)(n + n_zeros) }, out);
}

static int check_multiple(cr_compiler *c, const cr_json *k, const decimal *value)
{
    int64_t divisor, x, y;
    int n_fraction;
    decimal d;
    if (read_divisor(c, k, &divisor, &n_fraction) != CERA_OK || divisor == 0 ||
        read_decimal(k->text, &d) != EXACT)
        return -1;
    n_fraction = CR_MAX(d.n_fraction, value->n_fraction);
    return scale(value, n_fraction, &x) && scale(&d, n_fraction, &y) ? x % y == 0 : -1;
}

int cr_schema_check_number(cr_compiler *c, const cr_json *schema, const cr_json *value)
{
    limits l = { .has_low = false };
    decimal d;
    cera_error *err = c->err;
    c->err = NULL; /* what is wrong with the schema is said elsewhere */
    bool good = narrow(c, schema, false, &l) == CERA_OK && narrow(c, schema, true, &l) == CERA_OK;
    const cr_json *divisor = cr_json_get(schema, "multipleOf");
    const bool is_read = read_decimal(value->text, &d) == EXACT;
    const int is_multiple = !divisor ? 1 : is_read ? check_multiple(c, divisor, &d) : -1;
    c->err = err;
    if (good && !l.has_low && !l.has_high && !l.is_far && !divisor)
        return 1;
    if (!good || !is_read || is_multiple <= 0)
        return good && is_multiple == 0 ? 0 : -1;
    int low = l.has_low ? compare(&d, &l.low) : 1, high = l.has_high ? compare(&d, &l.high) : -1;
    return (low > 0 || (low == 0 && !l.low_open)) && (high < 0 || (high == 0 && !l.high_open));
}

/* Operations on strings: by characters, and keeping the origin of every byte. */
#include "template/value.h"

#ifdef CERA_WITH_UTF8PROC
#include <utf8proc.h>
#endif

/* ---- characters ---------------------------------------------------------------------------- */

bool cr_char_is_blank(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Where str.splitlines cuts. */
static bool is_line_end(uint32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

#ifdef CERA_WITH_UTF8PROC
static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

static uint32_t upper_of(uint32_t c)
{
    return (uint32_t)utf8proc_toupper((utf8proc_int32_t)c);
}

static uint32_t lower_of(uint32_t c)
{
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
}

bool cr_char_is_printable(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return c == ' ' || (k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS);
}

bool cr_char_is_alpha(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool cr_char_is_upper(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_LU;
}

bool cr_char_is_lower(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_LL;
}

bool cr_char_is_digit(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_ND;
}
#else
/* Without Unicode tables: ASCII. */
static bool is_ascii_letter(uint32_t c)
{
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'z' && c < 0x80;
}

static uint32_t upper_of(uint32_t c)
{
    return c >= 'a' && c <= 'z' ? c - 32 : c;
}

static uint32_t lower_of(uint32_t c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

bool cr_char_is_printable(uint32_t c)
{
    return c == ' ' ||
           (c > ' ' && c != 0x7f && !(c >= 0x80 && c <= 0xa0) && c != 0xad && !cr_char_is_blank(c));
}

bool cr_char_is_alpha(uint32_t c)
{
    return is_ascii_letter(c) || c >= 0xc0;
}

bool cr_char_is_upper(uint32_t c)
{
    return c >= 'A' && c <= 'Z';
}

bool cr_char_is_lower(uint32_t c)
{
    return c >= 'a' && c <= 'z';
}

bool cr_char_is_digit(uint32_t c)
{
    return c >= '0' && c <= '9';
}
#endif

/* Letters for str.title and the like: what has a case. */
static bool is_cased(uint32_t c)
{
    return cr_char_is_upper(c) || cr_char_is_lower(c) || upper_of(c) != lower_of(c);
}

size_t cr_tstr_at(const cr_tstr *s, size_t i, uint32_t *code)
{
    size_t length = cr_utf8_decode(s->data + i, s->size - i, code);
    return length > 0 ? length : 1;
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

size_t cr_tstr_count(const cr_tstr *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->size; i++)
        n += !is_continuation(s->data[i]);
    return n;
}

size_t cr_tstr_offset(const cr_tstr *s, size_t i)
{
    size_t at = 0;
    for (; at < s->size; at++)
        if (!is_continuation(s->data[at]) && i-- == 0)
            break;
    return at;
}

cr_tstr cr_tstr_part(const cr_tstr *s, size_t from, size_t to)
{
    cr_tstr part = *s;
    part.size = to - from;
    if (from > 0) {
        part.data += from;
        part.marks = part.marks != NULL ? part.marks + from : NULL;
    }
    return part;
}

/* ---- finding, cutting ---------------------------------------------------------------------- */

bool cr_tstr_find(cr_interp *t, const cr_tstr *s, const cr_tstr *what, size_t from, size_t to,
                  bool last, size_t *at)
{
    *at = SIZE_MAX;
    if (from > to || what->size > to - from)
        return true;
    size_t n_places = to - from - what->size + 1, work = n_places;
    for (size_t i = 0; i < n_places; i++) {
        size_t place = last ? to - what->size - i : from + i;
        if (what->size > 0 && s->data[place] != what->data[0])
            continue;
        work += what->size;
        if (memcmp(s->data + place, what->data, what->size) == 0) {
            *at = place;
            work -= n_places - i - 1;
            break;
        }
        if (work > t->max_work - t->work)
            break;
    }
    return cr_interp_work(t, work);
}

/* Whether the set has the character; NULL: whether it is blank. */
static bool in_set(const cr_tstr *set, uint32_t code)
{
    if (set == NULL)
        return cr_char_is_blank(code);
    for (size_t i = 0; i < set->size;) {
        uint32_t other;
        i += cr_tstr_at(set, i, &other);
        if (other == code)
            return true;
    }
    return false;
}

cr_tstr cr_tstr_strip(const cr_tstr *s, const cr_tstr *set, bool left, bool right)
{
    size_t from = 0, to = s->size;
    uint32_t code;
    while (left && from < to) {
        size_t length = cr_tstr_at(s, from, &code);
        if (!in_set(set, code))
            break;
        from += length;
    }
    while (right && to > from) {
        size_t place = to - 1;
        while (place > from && is_continuation(s->data[place]))
            place--;
        cr_tstr_at(s, place, &code);
        if (!in_set(set, code))
            break;
        to = place;
    }
    return cr_tstr_part(s, from, to);
}

bool cr_tstr_lines(cr_interp *t, const cr_tstr *s, bool keep_ends, cr_tvec *out)
{
    size_t begin = 0;
    for (size_t i = 0; i < s->size;) {
        uint32_t code;
        size_t end = i;
        i += cr_tstr_at(s, i, &code);
        if (!is_line_end(code))
            continue;
        if (code == '\r' && i < s->size && s->data[i] == '\n')
            i++;
        cr_tv line;
        if (!cr_tv_string(t, cr_tstr_part(s, begin, keep_ends ? i : end), &line) ||
            !cr_tvec_push(t, out, line))
            return false;
        begin = i;
    }
    cr_tv line;
    return begin == s->size ||
           (cr_tv_string(t, cr_tstr_part(s, begin, s->size), &line) && cr_tvec_push(t, out, line));
}

/* ---- making new ones ----------------------------------------------------------------------- */

bool cr_tstr_escape(cr_interp *t, const cr_tstr *s, cr_tv *out)
{
    static const char special[] = "&<>'\"";
    static const char *const names[] = { "&amp;", "&lt;", "&gt;", "&#39;", "&#34;" };
    cr_tbuf buf = { 0 };
    for (size_t i = 0; i < s->size; i++) {
        const char *found = memchr(special, s->data[i], sizeof special - 1);
        cr_tstr part = cr_tstr_part(s, i, i + 1);
        bool ok = found != NULL ? cr_tbuf_text(t, &buf, names[found - special])
                                : cr_tbuf_add(t, &buf, &part);
        if (!ok)
            return false;
    }
    cr_tstr made = { .data = buf.data, .marks = buf.marks, .size = buf.size, .safe = true };
    return cr_tv_string(t, made, out);
}

bool cr_tstr_concat(cr_interp *t, const cr_tstr *a, const cr_tstr *b, cr_tv *out)
{
    cr_tv escaped;
    bool safe = a->safe || b->safe;
    if (safe && !a->safe) {
        if (!cr_tstr_escape(t, a, &escaped))
            return false;
        a = escaped.as.s;
    } else if (safe && !b->safe) {
        if (!cr_tstr_escape(t, b, &escaped))
            return false;
        b = escaped.as.s;
    }
    size_t size = a->size + b->size;
    bool mixed = a->marks != NULL || b->marks != NULL || a->origin != b->origin;
    if (a->size == 0 || b->size == 0) {
        cr_tstr whole = a->size == 0 ? *b : *a;
        whole.safe = safe;
        return cr_tv_string(t, whole, out);
    }
    char *data = cr_interp_alloc(t, size, mixed ? 2 : 1);
    if (data == NULL)
        return false;
    memcpy(data, a->data, a->size);
    memcpy(data + a->size, b->data, b->size);
    cr_tstr whole = { .data = data, .size = size, .origin = a->origin, .safe = safe };
    if (mixed) {
        char *marks = data + size;
        memset(marks, a->origin, a->size);
        memset(marks + a->size, b->origin, b->size);
        if (a->marks != NULL)
            memcpy(marks, a->marks, a->size);
        if (b->marks != NULL)
            memcpy(marks + a->size, b->marks, b->size);
        whole.marks = marks;
    }
    return cr_tv_string(t, whole, out);
}

bool cr_tstr_replace(cr_interp *t, const cr_tstr *s, const cr_tstr *from, const cr_tstr *to,
                     int64_t count, cr_tv *out)
{
    cr_tbuf buf = { 0 };
    size_t at = 0;
    for (int64_t i = 0; count < 0 || i < count; i++) {
        size_t found;
        if (from->size == 0) { /* between all characters, and at both ends */
            uint32_t code;
            if (i > 0 && at == s->size)
                break;
            found = i == 0 ? 0 : at + cr_tstr_at(s, at, &code);
        } else if (!cr_tstr_find(t, s, from, at, s->size, false, &found)) {
            return false;
        }
        if (found == SIZE_MAX)
            break;
        cr_tstr part = cr_tstr_part(s, at, found);
        if (!cr_tbuf_add(t, &buf, &part) || !cr_tbuf_add(t, &buf, to))
            return false;
        at = found + from->size;
    }
    cr_tstr rest = cr_tstr_part(s, at, s->size);
    if (!cr_tbuf_add(t, &buf, &rest))
        return false;
    cr_tstr made = { .data = buf.data, .marks = buf.marks, .size = buf.size, .safe = s->safe };
    return cr_tv_string(t, made, out);
}

/* ---- case ---------------------------------------------------------------------------------- */

/* What one character becomes: text in out, the length. The few characters that become two are those
 * that occur in texts. */
static size_t map_char(uint32_t code, bool upper, bool title, char out[8])
{
    static const struct {
        uint32_t code;
        const char *upper, *title;
    } doubles[] = { { 0xdf, "SS", "Ss" },
                    { 0xfb00, "FF", "Ff" },
                    { 0xfb01, "FI", "Fi" },
                    { 0xfb02, "FL", "Fl" },
                    { 0x149, "\xca\xbcN", "\xca\xbcN" } };
    for (size_t i = 0; upper && i < CR_COUNT(doubles); i++) {
        if (doubles[i].code == code) {
            const char *text = title ? doubles[i].title : doubles[i].upper;
            memcpy(out, text, strlen(text));
            return strlen(text);
        }
    }
    if (!upper && code == 0x130) { /* I with a dot: i and the dot */
        memcpy(out, "i\xcc\x87", 3);
        return 3;
    }
    return cr_utf8_encode(upper ? upper_of(code) : lower_of(code), out);
}

/* A sigma at the end of a word has a small form of its own. */
static bool is_final_sigma(const cr_tstr *s, size_t at, size_t next)
{
    uint32_t code;
    size_t before = at;
    while (before > 0 && is_continuation(s->data[before - 1]))
        before--;
    if (before == 0)
        return false;
    cr_tstr_at(s, before - 1, &code);
    if (!is_cased(code))
        return false;
    if (next >= s->size)
        return true;
    cr_tstr_at(s, next, &code);
    return !is_cased(code);
}

static bool splits_words(uint32_t code)
{
    return cr_char_is_blank(code) || code == '-' || code == '(' || code == '{' || code == '[' ||
           code == '<';
}

bool cr_tstr_case(cr_interp *t, const cr_tstr *s, cr_case how, cr_tv *out)
{
    cr_tbuf buf = { 0 };
    bool starts = true; /* the next letter is the first of its word */
    for (size_t i = 0; i < s->size;) {
        uint32_t code;
        size_t length = cr_tstr_at(s, i, &code);
        bool upper = how == CR_CASE_UPPER || (how == CR_CASE_SWAP && cr_char_is_upper(code) == 0) ||
                     (how >= CR_CASE_TITLE && starts);
        if (how == CR_CASE_TITLE)
            starts = !is_cased(code);
        else if (how == CR_CASE_WORDS)
            starts = splits_words(code);
        else
            starts = false;
        char text[8];
        size_t n = map_char(code, upper, how == CR_CASE_TITLE || how == CR_CASE_CAPITAL, text);
        if (code == 0x3a3 && !upper && is_final_sigma(s, i, i + length))
            n = cr_utf8_encode(0x3c2, text);
        cr_origin origin = (cr_origin)(s->marks != NULL ? s->marks[i] : (char)s->origin);
        if (!cr_tbuf_bytes(t, &buf, text, n, origin))
            return false;
        i += length;
    }
    cr_tstr made = { .data = buf.data, .marks = buf.marks, .size = buf.size, .safe = s->safe };
    return cr_tv_string(t, made, out);
}

/* Regular expressions to sets of strings: Thompson's machine first, then sets of its nodes.
 *
 * Anchors are edges that can be gone along only before the first character (^), or where the string
 * ends ($). A search at any place is a loop over any character before and behind. */
#include "grammar/dfa.h"

enum {
    MAX_NODES = 20000,
    MAX_DEPTH = 32,
    MAX_COUNT = 1000,
    MAX_RANGES = 256,
    LAST_CHAR = 0x10ffff
};

/* Of sets of nodes: a table twice as large as there may be, and what they may take together. */
enum { N_SLOTS = 2 * CR_DFA_MAX_STATES, MAX_MEMBER_BYTES = 16 << 20 };

typedef enum edge_kind { EMPTY, BEGIN, END, CHARS } edge_kind;

/* A node has up to two edges; one with CHARS has one. */
typedef struct node {
    uint32_t next[2];  /* + 1; 0: none */
    uint32_t first, n; /* of the ranges */
    edge_kind kind;
} node;

typedef struct range {
    uint32_t lo, hi;
} range;

typedef struct set {
    range r[MAX_RANGES];
    uint32_t n;
    bool overflow;
} set;

typedef struct regex {
    cr_dfa_shop *shop;
    cr_str text;
    size_t at;
    bool widest;
    int depth;
    cr_buf nodes, ranges;
    bool no_memory, too_large;
    cera_error *err;
} regex;

typedef struct piece {
    uint32_t in, out;
} piece;

static cera_status fail(const regex *x, const char *what)
{
    return cr_fail(x->err, CERA_E_UNSUPPORTED, "at character %zu: %s", x->at + 1, what);
}

static int peek(const regex *x)
{
    return x->at < x->text.size ? (unsigned char)x->text.data[x->at] : -1;
}

static bool starts(const regex *x, const char *what)
{
    size_t n = strlen(what);
    return x->text.size - x->at >= n && memcmp(x->text.data + x->at, what, n) == 0;
}

/* ---- the machine ------------------------------------------------------------------------- */

static node *get(const regex *x, uint32_t i)
{
    return (node *)(void *)x->nodes.data + i;
}

static uint32_t add_node(regex *x, edge_kind kind)
{
    node n = { .kind = kind };
    size_t i = x->nodes.size / sizeof n;
    if (i >= MAX_NODES)
        x->too_large = true;
    else if (!cr_buf_append(&x->nodes, &n, sizeof n))
        x->no_memory = true;
    return x->too_large || x->no_memory ? 0 : (uint32_t)i;
}

static bool is_broken(const regex *x)
{
    return x->too_large || x->no_memory;
}

static void link_nodes(regex *x, uint32_t from, uint32_t to)
{
    if (is_broken(x))
        return;
    node *n = get(x, from);
    n->next[n->next[0] == 0 ? 0 : 1] = to + 1;
}

static piece one_edge(regex *x, edge_kind kind)
{
    piece p = { add_node(x, kind), 0 };
    p.out = add_node(x, EMPTY);
    link_nodes(x, p.in, p.out);
    return p;
}

/* ---- sets of characters ------------------------------------------------------------------ */

static void add_range(set *s, uint32_t lo, uint32_t hi)
{
    if (s->n == MAX_RANGES)
        s->overflow = true;
    else
        s->r[s->n++] = (range){ lo, hi };
}

static void tidy(set *s)
{
    for (uint32_t i = 1; i < s->n; i++) {
        for (uint32_t j = i; j > 0 && s->r[j - 1].lo > s->r[j].lo; j--) {
            range swap = s->r[j];
            s->r[j] = s->r[j - 1];
            s->r[j - 1] = swap;
        }
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (n > 0 && s->r[i].lo <= s->r[n - 1].hi + 1)
            s->r[n - 1].hi = CR_MAX(s->r[n - 1].hi, s->r[i].hi);
        else
            s->r[n++] = s->r[i];
    }
    s->n = n;
}

static void negate(set *s)
{
    tidy(s);
    set rest = { .n = 0, .overflow = s->overflow };
    uint32_t next = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->r[i].lo > next)
            add_range(&rest, next, s->r[i].lo - 1);
        next = s->r[i].hi + 1;
    }
    if (next <= LAST_CHAR)
        add_range(&rest, next, LAST_CHAR);
    *s = rest;
}

/* Classes by their letter. What dialects disagree about follows what all have. */
static const struct {
    char letter;
    range sure[11], maybe[4];
} classes[] = {
    { 'd', { { '0', '9' } }, { { 0x80, LAST_CHAR } } },
    { 'w', { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } }, { { 0x80, LAST_CHAR } } },
    { 's',
      { { 0x09, 0x0d },
        { ' ', ' ' },
        { 0xa0, 0xa0 },
        { 0x1680, 0x1680 },
        { 0x2000, 0x200a },
        { 0x2028, 0x2029 },
        { 0x202f, 0x202f },
        { 0x205f, 0x205f },
        { 0x3000, 0x3000 } },
      { { 0x1c, 0x1f }, { 0x85, 0x85 }, { 0xfeff, 0xfeff } } },
};

/* Adds a class; a capital letter is its complement. */
static bool add_class(set *to, char letter, bool widest)
{
    bool capital = letter >= 'A' && letter <= 'Z';
    for (size_t i = 0; i < CR_COUNT(classes); i++) {
        if (classes[i].letter != (capital ? letter + 32 : letter))
            continue;
        set s = { .n = 0 };
        for (size_t k = 0; k < CR_COUNT(classes[i].sure) && classes[i].sure[k].hi > 0; k++)
            add_range(&s, classes[i].sure[k].lo, classes[i].sure[k].hi);
        for (size_t k = 0; widest != capital && k < CR_COUNT(classes[i].maybe); k++) {
            if (classes[i].maybe[k].hi > 0)
                add_range(&s, classes[i].maybe[k].lo, classes[i].maybe[k].hi);
        }
        if (capital)
            negate(&s);
        for (uint32_t k = 0; k < s.n; k++)
            add_range(to, s.r[k].lo, s.r[k].hi);
        return true;
    }
    return false;
}

static bool read_hex(regex *x, int n, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < n; i++) {
        int c = peek(x);
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return false;
        *code = *code << 4 | (uint32_t)digit;
        x->at++;
    }
    return true;
}

/* \uNNNN, two of them for a character above U+FFFF, or \u{N...}. */
static cera_status read_unicode(regex *x, uint32_t *code)
{
    bool good;
    if (peek(x) == '{') {
        size_t end = ++x->at;
        while (end < x->text.size && x->text.data[end] != '}')
            end++;
        int n = (int)CR_MIN(end - x->at, (size_t)7);
        good = n >= 1 && n <= 6 && read_hex(x, n, code) && peek(x) == '}';
        x->at++;
    } else {
        good = read_hex(x, 4, code);
        uint32_t low = 0;
        if (good && *code >= 0xd800 && *code <= 0xdbff && starts(x, "\\u")) {
            x->at += 2;
            good = read_hex(x, 4, &low) && low >= 0xdc00 && low <= 0xdfff;
            *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    if (!good || *code > LAST_CHAR || (*code >= 0xd800 && *code <= 0xdfff))
        return fail(x, "expected a character behind \\u, found none");
    return CERA_OK;
}

/* Behind a backslash: a character, or a class that is added to `to` (*is_class). */
static cera_status read_escape(regex *x, set *to, bool widest, bool *is_class, uint32_t *code)
{
    static const char from[] = "tnrfv0", to_char[] = "\t\n\r\f\v\0";
    int c = peek(x);
    *is_class = false;
    if (c < 0)
        return fail(x, "expected a character behind \\, found the end");
    if (add_class(to, (char)c, widest)) {
        x->at++;
        *is_class = true;
        return CERA_OK;
    }
    const char *known = c > 0 ? strchr(from, c) : NULL;
    if (known) {
        x->at++;
        *code = (unsigned char)to_char[known - from];
        if (c == '0' && peek(x) >= '0' && peek(x) <= '9')
            return fail(x, "expected no digit behind \\0, found one");
        return CERA_OK;
    }
    if (c == 'x') {
        x->at++;
        return read_hex(x, 2, code) ? CERA_OK : fail(x, "expected 2 hexadecimal digits behind \\x");
    }
    if (c == 'u') {
        x->at++;
        return read_unicode(x, code);
    }
    const int next = x->at + 1 < x->text.size ? x->text.data[x->at + 1] | 32 : 0;
    if (c == 'c' && next >= 'a' && next <= 'z') {
        x->at += 2;
        *code = (uint32_t)next & 31; /* a control character by its letter */
        return CERA_OK;
    }
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return fail(x, "expected an escape that is known, found another (\\b, \\B, \\p, \\k, ...)");
    if (c >= '1' && c <= '9')
        return fail(x, "expected no reference to a group, found one");
    x->at += CR_MAX(cr_utf8_decode(x->text.data + x->at, x->text.size - x->at, code), (size_t)1);
    return CERA_OK;
}

static cera_status read_class_char(regex *x, set *to, bool widest, bool *is_class, uint32_t *code)
{
    if (peek(x) == '\\') {
        x->at++;
        if (peek(x) == 'b') { /* in a class it is a backspace */
            x->at++;
            *is_class = false;
            *code = 8;
            return CERA_OK;
        }
        return read_escape(x, to, widest, is_class, code);
    }
    *is_class = false;
    x->at += CR_MAX(cr_utf8_decode(x->text.data + x->at, x->text.size - x->at, code), (size_t)1);
    return CERA_OK;
}

static cera_status finish_set(regex *x, set *s, piece *out)
{
    tidy(s);
    if (s->overflow)
        return cr_fail(x->err, CERA_E_LIMIT, "expected at most %d ranges of characters, found more",
                       MAX_RANGES);
    *out = one_edge(x, CHARS);
    if (is_broken(x))
        return CERA_OK;
    get(x, out->in)->first = (uint32_t)(x->ranges.size / sizeof(range));
    get(x, out->in)->n = s->n;
    x->no_memory = x->no_memory || !cr_buf_append(&x->ranges, s->r, s->n * sizeof(range));
    return CERA_OK;
}

static cera_status parse_class(regex *x, piece *out)
{
    set s = { .n = 0 };
    x->at++;
    bool is_negated = peek(x) == '^';
    x->at += is_negated ? 1 : 0;
    bool widest = x->widest != is_negated;
    while (peek(x) != ']') {
        uint32_t lo = 0, hi = 0;
        bool is_class, is_class_too = false;
        if (peek(x) < 0)
            return fail(x, "expected a ] at the end of the class, found none");
        CR_TRY(read_class_char(x, &s, widest, &is_class, &lo));
        hi = lo;
        bool is_range =
            peek(x) == '-' && x->at + 1 < x->text.size && x->text.data[x->at + 1] != ']';
        if (is_range) {
            x->at++;
            CR_TRY(read_class_char(x, &s, widest, &is_class_too, &hi));
            if (is_class || is_class_too || hi < lo)
                return fail(x, "expected a range that goes up, found another");
        }
        if (!is_class)
            add_range(&s, lo, hi);
    }
    x->at++;
    if (is_negated)
        negate(&s);
    return finish_set(x, &s, out);
}

/* ---- the expression ---------------------------------------------------------------------- */

static cera_status parse_alternatives(regex *x, piece *out);

static cera_status parse_group(regex *x, piece *out)
{
    x->at++;
    if (peek(x) == '?') {
        bool named = starts(x, "?<") && !starts(x, "?<=") && !starts(x, "?<!");
        if (!starts(x, "?:") && !named)
            return fail(x, "expected a group, found one that looks around or sets flags");
        while (named && peek(x) >= 0 && peek(x) != '>')
            x->at++;
        x->at += named ? 1 : 2;
    }
    if (++x->depth > MAX_DEPTH)
        return cr_fail(x->err, CERA_E_LIMIT, "expected at most %d nested groups, found more",
                       MAX_DEPTH);
    CR_TRY(parse_alternatives(x, out));
    x->depth--;
    if (is_broken(x))
        return CERA_OK; /* compile says why */
    if (peek(x) != ')')
        return fail(x, "expected a ), found none");
    x->at++;
    return CERA_OK;
}

static cera_status parse_atom(regex *x, piece *out, bool *repeats)
{
    int c = peek(x);
    set s = { .n = 0 };
    *repeats = true;
    if (c == '(')
        return parse_group(x, out);
    if (c == '[')
        return parse_class(x, out);
    if (c == '^' || c == '$') {
        x->at++;
        *repeats = false;
        *out = one_edge(x, c == '^' ? BEGIN : END);
        return CERA_OK;
    }
    if (c == '*' || c == '+' || c == '?' || c == '{')
        return fail(x, "expected something to repeat, found nothing");
    if (c == '.') {
        x->at++;
        add_range(&s, '\n', '\n');
        if (!x->widest) {
            add_range(&s, '\r', '\r');
            add_range(&s, 0x2028, 0x2029);
        }
        negate(&s);
        return finish_set(x, &s, out);
    }
    uint32_t code = 0;
    bool is_class = false;
    if (c == '\\') {
        x->at++;
        CR_TRY(read_escape(x, &s, x->widest, &is_class, &code));
    } else {
        x->at +=
            CR_MAX(cr_utf8_decode(x->text.data + x->at, x->text.size - x->at, &code), (size_t)1);
    }
    if (!is_class)
        add_range(&s, code, code);
    return finish_set(x, &s, out);
}

static cera_status read_number(regex *x, uint32_t *out)
{
    size_t start = x->at;
    int64_t value;
    while (peek(x) >= '0' && peek(x) <= '9')
        x->at++;
    cr_str digits = { x->text.data + start, x->at - start };
    if (digits.size == 0 || digits.size > 9 || !cr_parse_i64(digits, &value) || value > MAX_COUNT)
        return fail(x, "expected a number of repetitions up to 1000, found another");
    *out = (uint32_t)value;
    return CERA_OK;
}

static cera_status read_bounds(regex *x, uint32_t *least, uint32_t *most)
{
    x->at++;
    CR_TRY(read_number(x, least));
    *most = *least;
    if (peek(x) == ',') {
        x->at++;
        *most = UINT32_MAX;
        if (peek(x) != '}')
            CR_TRY(read_number(x, most));
    }
    if (peek(x) != '}' || *most < *least)
        return fail(x, "expected {m}, {m,} or {m,n} with m up to n, found another");
    x->at++;
    return CERA_OK;
}

/* The atom again, from its text: a piece cannot be used twice. */
static cera_status parse_again(regex *x, size_t at, piece *out)
{
    size_t end = x->at;
    bool repeats;
    x->at = at;
    CR_TRY(parse_atom(x, out, &repeats));
    x->at = end;
    return CERA_OK;
}

static piece loop(regex *x, piece p, bool least_one, bool again)
{
    piece q = { add_node(x, EMPTY), add_node(x, EMPTY) };
    link_nodes(x, q.in, p.in);
    if (!least_one)
        link_nodes(x, q.in, q.out);
    link_nodes(x, p.out, q.out);
    if (again)
        link_nodes(x, p.out, p.in);
    return q;
}

static cera_status parse_repeated(regex *x, piece *out)
{
    size_t start = x->at;
    bool repeats;
    CR_TRY(parse_atom(x, out, &repeats));
    int c = peek(x);
    if (c != '*' && c != '+' && c != '?' && c != '{')
        return CERA_OK;
    if (!repeats)
        return fail(x, "expected something to repeat, found an anchor");
    uint32_t least = c == '+' ? 1 : 0, most = c == '?' ? 1 : UINT32_MAX;
    if (c == '{')
        CR_TRY(read_bounds(x, &least, &most));
    else
        x->at++;
    piece first = *out;
    piece all = { add_node(x, EMPTY), 0 };
    all.out = all.in;
    uint32_t n = most == UINT32_MAX ? CR_MAX(least, 1u) : most;
    for (uint32_t i = 0; i < n && !is_broken(x); i++) {
        piece next = first;
        if (i > 0)
            CR_TRY(parse_again(x, start, &next));
        bool last = i + 1 == n;
        if (i >= least || (last && most == UINT32_MAX))
            next = loop(x, next, i < least, last && most == UINT32_MAX);
        link_nodes(x, all.out, next.in);
        all.out = next.out;
    }
    *out = all;
    if (peek(x) == '?')
        x->at++; /* lazy or not is the same set */
    c = peek(x);
    if (c == '*' || c == '+' || c == '?' || c == '{')
        return fail(x, "expected one repetition, found two");
    return CERA_OK;
}

static cera_status parse_alternatives(regex *x, piece *out)
{
    piece all = { add_node(x, EMPTY), add_node(x, EMPTY) };
    uint32_t choice = all.in;
    for (;;) {
        uint32_t at = add_node(x, EMPTY);
        link_nodes(x, choice, at);
        while (peek(x) >= 0 && peek(x) != '|' && peek(x) != ')' && !is_broken(x)) {
            piece next;
            CR_TRY(parse_repeated(x, &next));
            link_nodes(x, at, next.in);
            at = next.out;
        }
        link_nodes(x, at, all.out);
        if (peek(x) != '|')
            break;
        x->at++;
        uint32_t more = add_node(x, EMPTY);
        link_nodes(x, choice, more);
        choice = more;
    }
    *out = all;
    return CERA_OK;
}

/* ---- sets of nodes ----------------------------------------------------------------------- */

/* Sets, each once: ascending node numbers, one after the other. */
typedef struct sets {
    cr_buf members;  /* of uint32_t */
    cr_buf begins;   /* of uint32_t: where each set begins, and the end */
    uint32_t *slots; /* [N_SLOTS] open addressing: set + 1 */
    uint32_t *stack; /* [n_nodes] scratch */
    uint8_t *seen;   /* [n_nodes] scratch */
    uint32_t n_nodes, n;
    bool is_full;
} sets;

static uint32_t begin_of(const sets *s, uint32_t i)
{
    return ((const uint32_t *)(const void *)s->begins.data)[i];
}

/* Adds a node to `seen`, and what it leads to without a character. */
static void close_over(const regex *x, sets *s, uint32_t from, bool begin, bool end)
{
    uint32_t n = 0;
    if (!s->seen[from]) {
        s->seen[from] = 1;
        s->stack[n++] = from;
    }
    while (n > 0) {
        const node *at = get(x, s->stack[--n]);
        if (at->kind == CHARS || (at->kind == BEGIN && !begin) || (at->kind == END && !end))
            continue;
        for (int i = 0; i < 2; i++) {
            if (at->next[i] != 0 && !s->seen[at->next[i] - 1]) {
                s->seen[at->next[i] - 1] = 1;
                s->stack[n++] = at->next[i] - 1;
            }
        }
    }
}

/* The number of the set that `seen` holds; UINT32_MAX when there is no room. The first set stands
 * apart: only there ^ may be gone along when the string ends. */
static uint32_t number_set(sets *s, bool *failed)
{
    uint32_t start = (uint32_t)(s->members.size / sizeof(uint32_t));
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        if (s->seen[i])
            *failed = *failed || !cr_buf_append(&s->members, &i, sizeof i);
    }
    if (*failed)
        return UINT32_MAX;
    uint32_t end = (uint32_t)(s->members.size / sizeof(uint32_t));
    const uint32_t *members = (const uint32_t *)(const void *)s->members.data;
    size_t size = (end - start) * sizeof *members;
    size_t slot = cr_hash(members + start, size) & (N_SLOTS - 1);
    for (; s->n > 0 && s->slots[slot] != 0; slot = (slot + 1) & (N_SLOTS - 1)) {
        uint32_t i = s->slots[slot] - 1, begin = begin_of(s, i);
        if (begin_of(s, i + 1) - begin == end - start &&
            memcmp(members + begin, members + start, size) == 0) {
            s->members.size = start * sizeof *members;
            return i;
        }
    }
    s->is_full = s->n == CR_DFA_MAX_STATES || s->members.size > MAX_MEMBER_BYTES;
    if (s->is_full || !cr_buf_append(&s->begins, &end, sizeof end)) {
        *failed = true;
        return UINT32_MAX;
    }
    if (s->n > 0)
        s->slots[slot] = s->n + 1;
    return s->n++;
}

/* Where ranges of the set's nodes begin or end, ascending. */
static size_t find_cuts(const regex *x, const sets *s, uint32_t i, cr_buf *cuts, bool *failed)
{
    cuts->size = 0;
    const uint32_t *members = (const uint32_t *)(const void *)s->members.data;
    const range *ranges = (const range *)(const void *)x->ranges.data;
    for (uint32_t m = begin_of(s, i); m < begin_of(s, i + 1); m++) {
        const node *n = get(x, members[m]);
        for (uint32_t r = n->first; n->kind == CHARS && r < n->first + n->n; r++) {
            uint32_t cut[2] = { ranges[r].lo, ranges[r].hi + 1 };
            *failed = *failed || !cr_buf_append(cuts, cut, sizeof cut);
        }
    }
    uint32_t *c = (uint32_t *)(void *)cuts->data;
    size_t n = cuts->size / sizeof *c;
    for (size_t gap = n / 2; gap > 0; gap /= 2) {
        for (size_t k = gap; k < n; k++) {
            uint32_t value = c[k];
            size_t j = k;
            for (; j >= gap && c[j - gap] > value; j -= gap)
                c[j] = c[j - gap];
            c[j] = value;
        }
    }
    size_t n_kept = 0;
    for (size_t k = 0; k < n; k++) {
        if (n_kept == 0 || c[n_kept - 1] != c[k])
            c[n_kept++] = c[k];
    }
    return n_kept;
}

/* The set behind set i with a character; false when it is empty. */
static bool step(const regex *x, sets *s, uint32_t i, uint32_t code)
{
    memset(s->seen, 0, s->n_nodes);
    bool any = false;
    const range *ranges = (const range *)(const void *)x->ranges.data;
    const uint32_t *members = (const uint32_t *)(const void *)s->members.data;
    cr_dfa_spend(x->shop, begin_of(s, i + 1) - begin_of(s, i));
    for (uint32_t m = begin_of(s, i); m < begin_of(s, i + 1); m++) {
        const node *n = get(x, members[m]);
        for (uint32_t r = n->first; n->kind == CHARS && r < n->first + n->n; r++) {
            if (ranges[r].lo <= code && code <= ranges[r].hi) {
                close_over(x, s, n->next[0] - 1, false, false);
                any = true;
                break;
            }
        }
    }
    return any;
}

static bool accepts(const regex *x, sets *s, uint32_t i, uint32_t final)
{
    memset(s->seen, 0, s->n_nodes);
    for (uint32_t m = begin_of(s, i); m < begin_of(s, i + 1); m++) {
        uint32_t member = ((const uint32_t *)(const void *)s->members.data)[m];
        close_over(x, s, member, i == 0, true);
    }
    return s->seen[final] != 0;
}

static const cr_dfa *determinize(const regex *x, uint32_t start, uint32_t final, sets *s,
                                 cr_buf *cuts)
{
    cr_dfa_builder b;
    cr_dfa_builder_init(&b, x->shop);
    bool failed = !cr_buf_append(&s->begins, &(uint32_t){ 0 }, sizeof(uint32_t));
    close_over(x, s, start, true, false);
    if (!failed)
        number_set(s, &failed);
    for (uint32_t i = 0; i < s->n && !failed && !b.failed; i++) {
        cr_dfa_builder_state(&b, accepts(x, s, i, final));
        size_t n_cuts = find_cuts(x, s, i, cuts, &failed);
        for (size_t k = 0; k + 1 < n_cuts && !failed; k++) {
            const uint32_t *cut = (const uint32_t *)(const void *)cuts->data + k;
            if (!step(x, s, i, cut[0]))
                continue;
            uint32_t target = number_set(s, &failed);
            if (!failed)
                cr_dfa_builder_move(&b, cut[0], cut[1] - 1, target);
        }
    }
    if (failed)
        b.failed = true;
    if (s->is_full)
        x->shop->too_large = true;
    return cr_dfa_builder_finish(&b);
}

static cera_status compile(regex *x, sets *s, cr_buf *cuts, const cr_dfa **out)
{
    /* any* expression any* */
    set any = { .r = { { 0, LAST_CHAR } }, .n = 1 };
    piece before, middle, behind;
    CR_TRY(finish_set(x, &any, &before));
    before = loop(x, before, false, true);
    CR_TRY(parse_alternatives(x, &middle));
    if (peek(x) == ')' && !is_broken(x))
        return fail(x, "expected the end, found )");
    CR_TRY(finish_set(x, &any, &behind));
    behind = loop(x, behind, false, true);
    link_nodes(x, before.out, middle.in);
    link_nodes(x, middle.out, behind.in);
    s->n_nodes = (uint32_t)(x->nodes.size / sizeof(node));
    s->stack = cr_arena_array(x->shop->arena, s->n_nodes + 1, sizeof *s->stack);
    s->seen = cr_arena_array(x->shop->arena, s->n_nodes + 1, sizeof *s->seen);
    s->slots = cr_arena_array(x->shop->arena, N_SLOTS, sizeof *s->slots);
    if (!x->too_large && !x->no_memory && s->stack && s->seen && s->slots) {
        const cr_dfa *d = determinize(x, before.in, behind.out, s, cuts);
        if (d) {
            *out = d;
            return CERA_OK;
        }
    }
    if (x->too_large || x->shop->too_large)
        return cr_fail(x->err, CERA_E_LIMIT,
                       "expected a set of strings with at most %d states, found a larger one",
                       CR_DFA_MAX_STATES);
    return cr_fail_nomem(x->err, 0, "a regular expression");
}

cera_status cr_regex_compile(cr_dfa_shop *shop, cr_str pattern, bool widest, const cr_dfa **out,
                             cera_error *err)
{
    regex x = { .shop = shop, .text = pattern, .widest = widest, .err = err };
    sets s = { .n = 0 };
    cr_buf cuts;
    cr_host *host = shop->arena->host;
    shop->too_large = false;
    cr_buf_init(&x.nodes, host, CR_MEM_SCRATCH);
    cr_buf_init(&x.ranges, host, CR_MEM_SCRATCH);
    cr_buf_init(&s.members, host, CR_MEM_SCRATCH);
    cr_buf_init(&s.begins, host, CR_MEM_SCRATCH);
    cr_buf_init(&cuts, host, CR_MEM_SCRATCH);
    cera_status status = compile(&x, &s, &cuts, out);
    cr_buf_done(&cuts);
    cr_buf_done(&s.begins);
    cr_buf_done(&s.members);
    cr_buf_done(&x.ranges);
    cr_buf_done(&x.nodes);
    return status;
}

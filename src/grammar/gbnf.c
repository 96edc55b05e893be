/* The text of a grammar to pieces of an automaton, in one pass. Every element is made between two
 * nodes; what stands behind it (*, {m,n}) adds edges around those, or makes a rule of them that is
 * called as often as asked. */
#include "grammar/gbnf.h"

#include <assert.h>

enum { MAX_REPEAT = 100000, MAX_EMPTY_REPEAT = 256 };

typedef struct name_slot {
    uint32_t rule; /* + 1; 0: free */
} name_slot;

/* {m,n} of something: whether that may be empty is known only when all rules are. */
typedef struct repeat {
    uint32_t rule, owner, line, column;
} repeat;

/* A token that ends a generation, as the node behind it. */
typedef struct end {
    uint32_t node, line, column;
} end;

typedef struct parser {
    cr_builder b;
    const char *text;
    size_t size, at;
    uint32_t line;
    size_t line_start;
    const cr_vocab *vocab;
    uint32_t rule;  /* being defined */
    bool in_rule;   /* there is one */
    int depth;      /* of open parentheses */
    cr_buf slots;   /* of name_slot, open addressing */
    size_t n_slots; /* a power of two */
    cr_buf ranges;  /* of cr_range: the class being read */
    cr_buf repeats; /* of repeat */
    cr_buf ends;    /* of end */
    cera_error *err;
} parser;

/* ---- errors ------------------------------------------------------------------------------ */

static cera_status fail_at(const parser *p, size_t at, cera_status status, const char *what)
{
    cr_str name = { "", 0 };
    if (p->in_rule && cr_builder_ok(&p->b))
        name = cr_builder_get_rule(&p->b, p->rule)->name;
    if (name.size == 0)
        return cr_fail(p->err, status, "grammar: line %u, column %zu: %s", p->line,
                       at - p->line_start + 1, what);
    return cr_fail(p->err, status, "grammar: line %u, column %zu, rule \"%.*s\": %s", p->line,
                   at - p->line_start + 1, (int)CR_MIN(name.size, (size_t)64), name.data, what);
}

/* "expected ..., found ..." at the present place. */
static cera_status expected(const parser *p, const char *what)
{
    char line[192];
    char found[8] = "the end";
    if (p->at < p->size) {
        uint32_t code;
        size_t n = cr_utf8_decode(p->text + p->at, p->size - p->at, &code);
        n = n > 0 ? n : 1;
        memcpy(found, p->text + p->at, n);
        found[n] = '\0';
        if (found[0] == '\0')
            memcpy(found, "byte 0", sizeof "byte 0");
    }
    size_t n = 0;
    for (const char *part[] = { "expected ", what, ", found ", found }, **q = part; q < part + 4;
         q++) {
        for (const char *c = *q; *c != '\0' && n + 1 < sizeof line; c++)
            line[n++] = *c;
    }
    line[n] = '\0';
    return fail_at(p, p->at, CERA_E_FORMAT, line);
}

/* ---- blanks and words -------------------------------------------------------------------- */

static int peek(const parser *p)
{
    return p->at < p->size ? (unsigned char)p->text[p->at] : -1;
}

static void skip_char(parser *p)
{
    if (p->text[p->at++] == '\n') {
        p->line++;
        p->line_start = p->at;
    }
}

static void skip_blanks(parser *p)
{
    for (;;) {
        int c = peek(p);
        if (c == '#') {
            while (peek(p) >= 0 && peek(p) != '\n')
                p->at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
            skip_char(p);
        } else {
            return;
        }
    }
}

static bool is_word(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static cr_str read_word(parser *p)
{
    size_t start = p->at;
    while (is_word(peek(p)))
        p->at++;
    return (cr_str){ p->text + start, p->at - start };
}

/* Whether `name ::=` stands here: the next rule begins. */
static bool at_definition(const parser *p)
{
    parser ahead = *p;
    if (read_word(&ahead).size == 0)
        return false;
    skip_blanks(&ahead);
    return ahead.size - ahead.at >= 3 && memcmp(ahead.text + ahead.at, "::=", 3) == 0;
}

/* ---- rules by name ----------------------------------------------------------------------- */

/* The rule with this name, made when it is new. */
static uint32_t find_rule(parser *p, cr_str name)
{
    name_slot *slots = (name_slot *)(void *)p->slots.data;
    size_t i = cr_hash(name.data, name.size) & (p->n_slots - 1);
    for (; slots[i].rule != 0; i = (i + 1) & (p->n_slots - 1)) {
        cr_str other = cr_builder_get_rule(&p->b, slots[i].rule - 1)->name;
        if (other.size == name.size && memcmp(other.data, name.data, name.size) == 0)
            return slots[i].rule - 1;
    }
    uint32_t rule = cr_builder_rule(&p->b, name, 0);
    if (!cr_builder_ok(&p->b))
        return 0;
    slots[i].rule = rule + 1;
    cr_grammar_rule *r = cr_builder_get_rule(&p->b, rule);
    r->line = p->line;
    r->column = (uint32_t)((size_t)(name.data - p->text) - p->line_start + 1);
    return rule;
}

/* A table with room for a name at every fourth byte or more: a name and what is around it takes at
 * least two ("a b"), and half the slots stay free. */
static bool make_slots(parser *p)
{
    p->n_slots = 64;
    while (p->n_slots < p->size + 2)
        p->n_slots *= 2;
    if (!cr_buf_reserve(&p->slots, p->n_slots * sizeof(name_slot)))
        return false;
    memset(p->slots.data, 0, p->n_slots * sizeof(name_slot));
    return true;
}

/* ---- characters -------------------------------------------------------------------------- */

static cera_status read_hex(parser *p, int n, uint32_t *code)
{
    uint32_t value = 0;
    for (int i = 0; i < n; i++) {
        int c = peek(p);
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return expected(p, n == 2   ? "2 hexadecimal digits"
                               : n == 4 ? "4 hexadecimal digits"
                                        : "8 hexadecimal digits");
        value = value << 4 | digit;
        p->at++;
    }
    if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return fail_at(p, p->at - (size_t)n, CERA_E_FORMAT,
                       "expected a character, found a surrogate or a value above 10FFFF");
    *code = value;
    return CERA_OK;
}

/* A character of a text or class, escaped or not. */
static cera_status read_char(parser *p, uint32_t *code)
{
    size_t n = p->at < p->size ? cr_utf8_decode(p->text + p->at, p->size - p->at, code) : 0;
    if (p->at == p->size)
        return expected(p, "a character");
    if (n == 0)
        return fail_at(p, p->at, CERA_E_FORMAT, "expected UTF-8, found other bytes");
    if (*code != '\\') {
        if (*code == '\n')
            skip_char(p);
        else
            p->at += n;
        return CERA_OK;
    }
    p->at++;
    int c = peek(p);
    static const char from[] = "nrt\\\"'[]-/", to[] = "\n\r\t\\\"'[]-/";
    const char *known = c > 0 ? strchr(from, c) : NULL;
    if (known) {
        *code = (unsigned char)to[known - from];
        p->at++;
        return CERA_OK;
    }
    if (c != 'x' && c != 'u' && c != 'U')
        return expected(p, "an escape: n r t \\ \" ' [ ] - / xNN uNNNN UNNNNNNNN");
    p->at++;
    return read_hex(p, c == 'x' ? 2 : c == 'u' ? 4 : 8, code);
}

/* ---- elements: each is made between `in`, and the node it returns ------------------------- */

static cera_status parse_alternatives(parser *p, uint32_t in, uint32_t out);

static uint32_t new_node(parser *p)
{
    return cr_builder_node(&p->b, p->rule);
}

static void add_empty(parser *p, uint32_t from, uint32_t to)
{
    cr_builder_edge(&p->b, from, (cr_edge){ .target = to, .kind = CR_EDGE_EMPTY });
}

static void add_call(parser *p, uint32_t from, uint32_t rule, uint32_t to)
{
    cr_builder_edge(&p->b, from, (cr_edge){ .target = to, .value = rule, .kind = CR_EDGE_CALL });
}

static cera_status parse_text(parser *p, uint32_t *at)
{
    p->at++;
    while (peek(p) != '"') {
        uint32_t code;
        if (p->at == p->size)
            return expected(p, "a \" at the end of the text");
        CR_TRY(read_char(p, &code));
        char bytes[4];
        size_t n = cr_utf8_encode(code, bytes);
        for (size_t i = 0; i < n; i++) {
            uint32_t next = new_node(p);
            cr_builder_edge(&p->b, *at,
                            (cr_edge){ .target = next,
                                       .kind = CR_EDGE_BYTES,
                                       .lo = (uint8_t)bytes[i],
                                       .hi = (uint8_t)bytes[i] });
            *at = next;
        }
    }
    p->at++;
    return CERA_OK;
}

static bool add_range(parser *p, uint32_t lo, uint32_t hi)
{
    return cr_buf_append(&p->ranges, &(cr_range){ lo, hi }, sizeof(cr_range));
}

/* Sorts the ranges and joins those that touch; `negate` turns them into the rest. Shell sort: qsort
 * may allocate. */
static bool tidy_ranges(parser *p, bool negate)
{
    cr_range *r = (cr_range *)(void *)p->ranges.data;
    size_t n = p->ranges.size / sizeof *r;
    for (size_t gap = n / 2; gap > 0; gap /= 2) {
        for (size_t i = gap; i < n; i++) {
            for (size_t j = i; j >= gap && r[j - gap].lo > r[j].lo; j -= gap) {
                cr_range swap = r[j];
                r[j] = r[j - gap];
                r[j - gap] = swap;
            }
        }
    }
    size_t n_joined = 0;
    for (size_t i = 0; i < n; i++) {
        if (n_joined > 0 && r[i].lo <= r[n_joined - 1].hi + 1)
            r[n_joined - 1].hi = CR_MAX(r[n_joined - 1].hi, r[i].hi);
        else
            r[n_joined++] = r[i];
    }
    p->ranges.size = n_joined * sizeof *r;
    if (!negate)
        return true;
    if (!cr_buf_reserve(&p->ranges, sizeof *r))
        return false;
    r = (cr_range *)(void *)p->ranges.data;
    uint32_t next = 0;
    size_t n_rest = 0;
    for (size_t i = 0; i < n_joined; i++) {
        cr_range taken = r[i]; /* the rest has no more ranges than were read so far */
        if (taken.lo > next)
            r[n_rest++] = (cr_range){ next, taken.lo - 1 };
        next = taken.hi + 1;
    }
    if (next <= 0x10ffff)
        r[n_rest++] = (cr_range){ next, 0x10ffff };
    p->ranges.size = n_rest * sizeof *r;
    return true;
}

static cera_status parse_class(parser *p, uint32_t *at)
{
    size_t start = p->at++;
    bool negate = peek(p) == '^';
    if (negate)
        p->at++;
    p->ranges.size = 0;
    bool room = true;
    while (peek(p) != ']') {
        uint32_t lo, hi;
        if (p->at == p->size)
            return expected(p, "a ] at the end of the class");
        CR_TRY(read_char(p, &lo));
        hi = lo;
        if (peek(p) == '-' && p->at + 1 < p->size && p->text[p->at + 1] != ']') {
            size_t dash = p->at++;
            CR_TRY(read_char(p, &hi));
            if (hi < lo)
                return fail_at(p, dash, CERA_E_FORMAT,
                               "expected a range that goes up, found one that goes down");
        }
        room = room && add_range(p, lo, hi);
    }
    p->at++;
    if (p->ranges.size == 0 && room)
        return fail_at(p, start, CERA_E_FORMAT, "expected a character in the class, found none");
    if (!room || !tidy_ranges(p, negate))
        return cr_fail_nomem(p->err, 0, "a grammar");
    const cr_range *ranges = (const cr_range *)(const void *)p->ranges.data;
    size_t n = p->ranges.size / sizeof *ranges;
    /* Only surrogates may be left, too. */
    if (n == 0 || (n == 1 && ranges[0].lo >= 0xd800 && ranges[0].hi <= 0xdfff))
        return fail_at(p, start, CERA_E_FORMAT, "expected a class that has characters, found none");
    uint32_t next = new_node(p);
    cr_builder_chars(&p->b, *at, next, ranges, n);
    *at = next;
    return CERA_OK;
}

static void parse_any(parser *p, uint32_t *at)
{
    static const cr_range any = { 0, 0x10ffff };
    p->at++;
    uint32_t next = new_node(p);
    cr_builder_chars(&p->b, *at, next, &any, 1);
    *at = next;
}

/* The token that `text` (with its brackets) is. */
static cera_status find_token(parser *p, cr_str text, size_t at, uint32_t *id)
{
    if (text.size > 4 && text.data[1] == '[' && text.data[text.size - 2] == ']') {
        int64_t value;
        cr_str digits = { text.data + 2, text.size - 4 };
        bool good = cr_parse_i64(digits, &value) && value >= 0 && value <= INT32_MAX;
        if (good && p->vocab) {
            cera_vocab_info info;
            cr_vocab_get_info(p->vocab, &info);
            good = (size_t)value < info.n_tokens;
        }
        if (!good)
            return fail_at(p, at, CERA_E_ARG, "expected the id of a token, found another number");
        *id = (uint32_t)value;
        return CERA_OK;
    }
    if (!p->vocab)
        return fail_at(p, at, CERA_E_ARG,
                       "expected a vocabulary, because a token is named by its text; found none");
    cr_buf ids;
    cr_buf_init(&ids, p->b.host, CR_MEM_SCRATCH);
    cera_encode_options options = { .size = sizeof options, .parse_special = true };
    cera_status status = cr_vocab_encode(p->vocab, text, &options, &ids, p->err);
    int32_t first = -1;
    if (status == CERA_OK && ids.size == sizeof first)
        memcpy(&first, ids.data, sizeof first);
    cr_buf_done(&ids);
    if (status == CERA_OK && first < 0)
        return fail_at(p, at, CERA_E_ARG, "expected the text of one token, found another text");
    *id = (uint32_t)first;
    return status;
}

static cera_status parse_token(parser *p, uint32_t *at)
{
    bool negate = peek(p) == '!';
    if (negate)
        p->at++;
    if (peek(p) != '<')
        return expected(p, "a < after the !");
    size_t start = p->at;
    while (peek(p) >= 0 && peek(p) != '>' && peek(p) != '\n')
        p->at++;
    if (peek(p) != '>')
        return expected(p, "a > at the end of the token");
    p->at++;
    uint32_t id = 0;
    CR_TRY(find_token(p, (cr_str){ p->text + start, p->at - start }, start, &id));
    uint32_t next = new_node(p);
    cr_builder_edge(&p->b, *at,
                    (cr_edge){ .target = next,
                               .value = id,
                               .kind = negate ? CR_EDGE_NOT_TOKEN : CR_EDGE_TOKEN });
    const end note = { next, p->line, (uint32_t)(start - p->line_start + 1) };
    if (!negate && p->vocab && cr_vocab_is_end(p->vocab, (int32_t)id) &&
        !cr_buf_append(&p->ends, &note, sizeof note))
        p->b.no_memory = true;
    *at = next;
    return CERA_OK;
}

static cera_status parse_group(parser *p, uint32_t *at)
{
    if (p->depth == CR_GBNF_MAX_NESTING)
        return fail_at(p, p->at, CERA_E_LIMIT, "expected at most 64 nested groups, found more");
    p->depth++;
    p->at++;
    uint32_t out = new_node(p);
    CR_TRY(parse_alternatives(p, *at, out));
    if (peek(p) != ')')
        return expected(p, "a )");
    p->at++;
    p->depth--;
    *at = out;
    return CERA_OK;
}

/* ---- what stands behind an element ------------------------------------------------------- */

static cera_status read_count(parser *p, uint32_t *out)
{
    size_t start = p->at;
    int64_t value = 0;
    while (peek(p) >= '0' && peek(p) <= '9')
        p->at++;
    if (p->at == start)
        return expected(p, "a number");
    bool fits =
        p->at - start <= 9 && cr_parse_i64((cr_str){ p->text + start, p->at - start }, &value);
    if (!fits || value > MAX_REPEAT)
        return fail_at(p, start, CERA_E_LIMIT, "expected at most 100000 repetitions, found more");
    *out = (uint32_t)value;
    return CERA_OK;
}

static cera_status read_bounds(parser *p, uint32_t *least, uint32_t *most, bool *bounded)
{
    size_t start = p->at++;
    skip_blanks(p);
    CR_TRY(read_count(p, least));
    skip_blanks(p);
    *most = *least;
    *bounded = true;
    if (peek(p) == ',') {
        p->at++;
        skip_blanks(p);
        *bounded = peek(p) != '}';
        if (*bounded)
            CR_TRY(read_count(p, most));
        skip_blanks(p);
    }
    if (peek(p) != '}')
        return expected(p, "a }");
    p->at++;
    if (*bounded && *most < *least)
        return fail_at(p, start, CERA_E_FORMAT,
                       "expected a maximum that is not below the minimum, found one that is");
    return CERA_OK;
}

/* Where the pieces of an element begin. */
typedef struct beginning {
    uint32_t node;
    size_t edge;
} beginning;

static size_t n_edges(const parser *p)
{
    return p->b.edges.size / sizeof(cr_build_edge);
}

/* The rule that is [in, out]: a rule that is called there and nothing else, or a new one that the
 * nodes of the element move to. */
static uint32_t as_rule(parser *p, uint32_t in, uint32_t out, beginning from)
{
    size_t first_edge = from.edge;
    const cr_build_edge *edges = (const cr_build_edge *)(const void *)p->b.edges.data;
    if (n_edges(p) == first_edge + 1 && edges[first_edge].from == in &&
        edges[first_edge].edge.kind == CR_EDGE_CALL && edges[first_edge].edge.target == out) {
        uint32_t rule = edges[first_edge].edge.value;
        p->b.edges.size = first_edge * sizeof *edges;
        return rule;
    }
    uint32_t rule = cr_builder_rule(&p->b, (cr_str){ "", 0 }, p->rule);
    if (!cr_builder_ok(&p->b))
        return 0;
    cr_builder_get_rule(&p->b, rule)->is_defined = true;
    uint32_t start = cr_builder_get_rule(&p->b, rule)->start;
    add_empty(p, start, in);
    for (uint32_t n = from.node; n < p->b.nodes.size / sizeof(cr_node); n++) {
        if (cr_builder_get_node(&p->b, n)->rule == p->rule)
            cr_builder_get_node(&p->b, n)->rule = rule;
    }
    cr_builder_get_node(&p->b, out)->returns = true;
    return rule;
}

/* Calls the rule `least` to `most` times (without end when not bounded) behind *at. */
static void repeat_calls(parser *p, uint32_t rule, uint32_t least, uint32_t most, bool bounded,
                         uint32_t *at)
{
    for (uint32_t i = 0; i < least && cr_builder_ok(&p->b); i++) {
        uint32_t next = new_node(p);
        add_call(p, *at, rule, next);
        *at = next;
    }
    uint32_t out = new_node(p);
    add_empty(p, *at, out);
    if (!bounded) {
        uint32_t loop = new_node(p);
        add_empty(p, *at, loop);
        add_call(p, loop, rule, loop);
        add_empty(p, loop, out);
    }
    for (uint32_t i = least; bounded && i < most && cr_builder_ok(&p->b); i++) {
        uint32_t next = new_node(p);
        add_call(p, *at, rule, next);
        add_empty(p, next, out);
        *at = next;
    }
    *at = out;
}

/* Operators behind the element [in, *out], which stays between `in` and *out. */
static cera_status parse_operators(parser *p, uint32_t *in, uint32_t *out, beginning from)
{
    for (;;) {
        skip_blanks(p);
        int c = peek(p);
        if (c != '*' && c != '+' && c != '?' && c != '{')
            return CERA_OK;
        uint32_t line = p->line, column = (uint32_t)(p->at - p->line_start + 1);
        uint32_t before = *in, behind = *out;
        if (c == '{') {
            uint32_t least, most;
            bool bounded;
            CR_TRY(read_bounds(p, &least, &most, &bounded));
            uint32_t rule = as_rule(p, before, behind, from);
            *in = new_node(p);
            *out = *in;
            from.edge = n_edges(p);
            repeat_calls(p, rule, least, most, bounded, out);
            repeat note = { rule, p->rule, line, column };
            if (bounded && most > MAX_EMPTY_REPEAT &&
                !cr_buf_append(&p->repeats, &note, sizeof note))
                p->b.no_memory = true;
        } else {
            p->at++;
            *in = new_node(p);
            *out = new_node(p);
            from.edge = n_edges(p);
            add_empty(p, *in, before);
            add_empty(p, behind, *out);
            if (c != '+')
                add_empty(p, *in, *out);
            if (c != '?')
                add_empty(p, behind, before);
        }
    }
}

static cera_status parse_element(parser *p, uint32_t *at)
{
    int c = peek(p);
    switch (c) {
    case '"':
        return parse_text(p, at);
    case '[':
        return parse_class(p, at);
    case '(':
        return parse_group(p, at);
    case '<':
    case '!':
        return parse_token(p, at);
    case '.':
        parse_any(p, at);
        return CERA_OK;
    default:
        break;
    }
    if (!is_word(c))
        return expected(p, "a text, class, group, token or rule");
    uint32_t rule = find_rule(p, read_word(p));
    uint32_t next = new_node(p);
    add_call(p, *at, rule, next);
    *at = next;
    return CERA_OK;
}

/* Items up to | or ) or the next rule; from `at` to `out`. */
static cera_status parse_sequence(parser *p, uint32_t at, uint32_t out)
{
    for (;;) {
        skip_blanks(p);
        int c = peek(p);
        if (c < 0 || c == '|' || c == ')' || at_definition(p))
            break;
        uint32_t in = new_node(p), behind = in;
        beginning from = { in, n_edges(p) };
        CR_TRY(parse_element(p, &behind));
        CR_TRY(parse_operators(p, &in, &behind, from));
        if (!cr_builder_ok(&p->b))
            return CERA_OK; /* cr_builder_finish says why */
        add_empty(p, at, in);
        at = behind;
    }
    add_empty(p, at, out);
    return CERA_OK;
}

static cera_status parse_alternatives(parser *p, uint32_t in, uint32_t out)
{
    for (;;) {
        uint32_t start = new_node(p);
        add_empty(p, in, start);
        CR_TRY(parse_sequence(p, start, out));
        if (peek(p) != '|')
            return CERA_OK;
        p->at++;
    }
}

static cera_status parse_rule(parser *p)
{
    p->in_rule = false;
    if (!is_word(peek(p)))
        return expected(p, "the name of a rule");
    size_t start = p->at;
    if (!at_definition(p)) {
        read_word(p);
        skip_blanks(p);
        return expected(p, "::=");
    }
    uint32_t rule = find_rule(p, read_word(p));
    if (!cr_builder_ok(&p->b))
        return CERA_OK;
    cr_grammar_rule *r = cr_builder_get_rule(&p->b, rule);
    p->rule = rule;
    p->in_rule = true;
    if (r->is_defined)
        return fail_at(p, start, CERA_E_FORMAT, "expected one definition, found a second one");
    r->is_defined = true;
    r->line = p->line;
    r->column = (uint32_t)(start - p->line_start + 1);
    uint32_t in = r->start;
    skip_blanks(p);
    p->at += 3;
    uint32_t out = new_node(p);
    if (cr_builder_ok(&p->b))
        cr_builder_get_node(&p->b, out)->returns = true;
    CR_TRY(parse_alternatives(p, in, out));
    if (peek(p) == ')')
        return expected(p, "the next rule or the end");
    return CERA_OK;
}

static cera_status parse_rules(parser *p, uint32_t *root)
{
    skip_blanks(p);
    while (p->at < p->size && cr_builder_ok(&p->b)) {
        CR_TRY(parse_rule(p));
        skip_blanks(p);
    }
    p->in_rule = false;
    if (!cr_builder_ok(&p->b))
        return CERA_OK;
    bool found = false;
    uint32_t n_rules = (uint32_t)(p->b.rules.size / sizeof(cr_grammar_rule));
    for (uint32_t i = 0; i < n_rules; i++) {
        const cr_grammar_rule *rule = cr_builder_get_rule(&p->b, i);
        if (!rule->is_defined)
            return cr_fail(p->err, CERA_E_FORMAT,
                           "grammar: line %u, column %u, rule \"%.*s\": expected a definition, "
                           "found only its use",
                           rule->line, rule->column, (int)CR_MIN(rule->name.size, (size_t)64),
                           rule->name.data);
        if (cr_str_is(rule->name, "root")) {
            *root = i;
            found = true;
        }
    }
    if (found)
        return CERA_OK;
    return cr_fail(p->err, CERA_E_FORMAT, "grammar: expected a rule named \"root\", found none");
}

/* What may be empty can be repeated only so often: each round can be left out, or be there and
 * empty, and all the ways are followed side by side. */
static cera_status check_repeats(const parser *p, const cr_automaton *a)
{
    const repeat *repeats = (const repeat *)(const void *)p->repeats.data;
    for (size_t i = 0; i < p->repeats.size / sizeof *repeats; i++) {
        if (!a->rules[repeats[i].rule].is_empty)
            continue;
        cr_str name = a->rules[a->rules[repeats[i].owner].owner].name;
        return cr_fail(
            p->err, CERA_E_LIMIT,
            "grammar: line %u, column %u, rule \"%.*s\": expected at most %d repetitions "
            "of something that may be empty, found more",
            repeats[i].line, repeats[i].column, (int)CR_MIN(name.size, (size_t)64), name.data,
            MAX_EMPTY_REPEAT);
    }
    return CERA_OK;
}

/* What is behind a token that ends a generation is never generated. */
static cera_status check_ends(const parser *p, cr_automaton *a)
{
    const end *ends = (const end *)(const void *)p->ends.data;
    const size_t n = p->ends.size / sizeof *ends;
    const cr_arena_mark before = cr_arena_get_mark(&a->arena);
    bool *exits = NULL;
    cera_status status = CERA_OK;
    if (n > 0 && !cr_automaton_find_exits(a, &exits))
        status = cr_fail_nomem(p->err, 0, "a grammar");
    for (size_t i = 0; i < n && status == CERA_OK; i++) {
        const cr_grammar_rule *rule = &a->rules[a->nodes[ends[i].node].rule];
        const cr_str name = a->rules[rule->owner].name;
        if (rule->is_reached && !exits[ends[i].node])
            status = cr_fail(
                p->err, CERA_E_ARG,
                "grammar: line %u, column %u, rule \"%.*s\": expected the end behind a "
                "token that ends a generation, found more that must follow",
                ends[i].line, ends[i].column, (int)CR_MIN(name.size, (size_t)64), name.data);
    }
    cr_arena_to_mark(&a->arena, before);
    return status;
}

static cera_status compile(parser *p, cr_automaton **out)
{
    uint32_t root = 0;
    if (!make_slots(p))
        return cr_fail_nomem(p->err, p->n_slots * sizeof(name_slot), "a grammar");
    CR_TRY(parse_rules(p, &root));
    cr_automaton *automaton;
    CR_TRY(cr_builder_finish(&p->b, root, &automaton, p->err));
    cera_status status = check_repeats(p, automaton);
    if (status == CERA_OK)
        status = check_ends(p, automaton);
    if (status == CERA_OK)
        *out = automaton;
    else
        cr_automaton_free(automaton);
    return status;
}

cera_status cr_gbnf_compile(const cr_gbnf_source *source, cr_host *host, cr_automaton **out,
                            cera_error *err)
{
    if (source->text.size > source->max_size)
        return cr_fail(err, CERA_E_LIMIT, "grammar: expected at most %zu bytes, found %zu",
                       source->max_size, source->text.size);
    parser p = {
        .text = source->text.data,
        .size = source->text.size,
        .line = 1,
        .vocab = source->vocab,
        .err = err,
    };
    cr_builder_init(&p.b, host);
    p.b.is_made = source->is_made;
    cr_buf_init(&p.slots, host, CR_MEM_SCRATCH);
    cr_buf_init(&p.ranges, host, CR_MEM_SCRATCH);
    cr_buf_init(&p.repeats, host, CR_MEM_SCRATCH);
    cr_buf_init(&p.ends, host, CR_MEM_SCRATCH);
    cera_status status = compile(&p, out);
    cr_buf_done(&p.ends);
    cr_buf_done(&p.repeats);
    cr_buf_done(&p.ranges);
    cr_buf_done(&p.slots);
    cr_builder_done(&p.b);
    return status;
}

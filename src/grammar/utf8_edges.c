/* Characters as edges over bytes.
 *
 * A range of characters is cut where the number of bytes changes and where a byte does not run over
 * all its values, until each part is a product of byte ranges:
 *
 *     U+0020..U+07FF  =  20-7F  |  C2-DF 80-BF
 */
#include "grammar/automaton.h"

typedef struct chars {
    cr_builder *b;
    uint32_t rule, from, to;
    uint32_t rest[4]; /* the node that n free continuation bytes lead on from; 0: not made yet */
} chars;

/* The node before n continuation bytes that may have any value; the last of them leads to `to`. */
static uint32_t before_rest(chars *c, size_t n)
{
    if (n == 0)
        return c->to;
    if (c->rest[n] == 0) {
        uint32_t next = before_rest(c, n - 1);
        c->rest[n] = cr_builder_node(c->b, c->rule);
        cr_builder_edge(c->b, c->rest[n],
                        (cr_edge){ .target = next, .kind = CR_EDGE_BYTES, .lo = 0x80, .hi = 0xbf });
    }
    return c->rest[n];
}

/* lo and hi have n bytes each; every byte runs over [lo[i], hi[i]] independently. */
static void add_product(chars *c, const char *lo, const char *hi, size_t n)
{
    size_t n_fixed = n;
    while (n_fixed > 1 && (uint8_t)lo[n_fixed - 1] == 0x80 && (uint8_t)hi[n_fixed - 1] == 0xbf)
        n_fixed--;
    uint32_t at = c->from;
    for (size_t i = 0; i < n_fixed; i++) {
        bool last = i + 1 == n_fixed;
        uint32_t next = last ? before_rest(c, n - n_fixed) : cr_builder_node(c->b, c->rule);
        cr_builder_edge(c->b, at,
                        (cr_edge){ .target = next,
                                   .kind = CR_EDGE_BYTES,
                                   .lo = (uint8_t)lo[i],
                                   .hi = (uint8_t)hi[i] });
        at = next;
    }
}

/* [lo, hi] lies between two changes of length. Cut it until the bytes below the first that differs
 * are all free. */
static void add_same_length(chars *c, uint32_t lo, uint32_t hi)
{
    for (int bits = 6; bits <= 18; bits += 6) {
        uint32_t mask = (1u << bits) - 1;
        if ((lo & ~mask) == (hi & ~mask))
            break;
        if ((lo & mask) != 0) {
            add_same_length(c, lo, lo | mask);
            add_same_length(c, (lo | mask) + 1, hi);
            return;
        }
        if ((hi & mask) != mask) {
            add_same_length(c, lo, (hi & ~mask) - 1);
            add_same_length(c, hi & ~mask, hi);
            return;
        }
    }
    char first[4], last[4];
    size_t n = cr_utf8_encode(lo, first);
    cr_utf8_encode(hi, last);
    add_product(c, first, last, n);
}

void cr_builder_chars(cr_builder *b, uint32_t from, uint32_t to, const cr_range *ranges, size_t n)
{
    /* Where the length changes, and around the surrogates, which are no characters. */
    static const cr_range parts[] = {
        { 0, 0x7f }, { 0x80, 0x7ff }, { 0x800, 0xd7ff }, { 0xe000, 0xffff }, { 0x10000, 0x10ffff }
    };
    if (!cr_builder_ok(b))
        return;
    chars c = { .b = b, .rule = cr_builder_get_node(b, from)->rule, .from = from, .to = to };
    for (size_t i = 0; i < n; i++) {
        for (size_t p = 0; p < CR_COUNT(parts); p++) {
            uint32_t lo = CR_MAX(ranges[i].lo, parts[p].lo), hi = CR_MIN(ranges[i].hi, parts[p].hi);
            if (lo <= hi)
                add_same_length(&c, lo, hi);
        }
    }
}

/* ---- the way back ------------------------------------------------------------------------ */

const cr_byte_path cr_unicode_paths[CR_N_UNICODE_PATHS] = {
    { 2, { 0xc2, 0x80 }, { 0xdf, 0xbf } },
    { 3, { 0xe0, 0xa0, 0x80 }, { 0xe0, 0xbf, 0xbf } },
    { 3, { 0xe1, 0x80, 0x80 }, { 0xec, 0xbf, 0xbf } },
    { 3, { 0xed, 0x80, 0x80 }, { 0xed, 0x9f, 0xbf } },
    { 3, { 0xee, 0x80, 0x80 }, { 0xef, 0xbf, 0xbf } },
    { 4, { 0xf0, 0x90, 0x80, 0x80 }, { 0xf0, 0xbf, 0xbf, 0xbf } },
    { 4, { 0xf1, 0x80, 0x80, 0x80 }, { 0xf3, 0xbf, 0xbf, 0xbf } },
    { 4, { 0xf4, 0x80, 0x80, 0x80 }, { 0xf4, 0x8f, 0xbf, 0xbf } },
};

/* Where the bytes of a path lead from byte i on: a node, or none, or mixed. */
static uint32_t path_end(const cr_automaton *a, uint32_t from, const cr_byte_path *path, int i)
{
    if (i == path->n)
        return from;
    const cr_node *node = &a->nodes[from];
    uint32_t end = CR_UNICODE_NONE;
    int seen = path->lo[i]; /* bytes before this one have an edge */
    for (uint32_t e = 0; e < node->n_edges; e++) {
        const cr_edge *edge = &a->edges[node->edges + e];
        bool is_bytes = edge->kind == CR_EDGE_BYTES;
        if (i > 0 && !is_bytes)
            return CR_UNICODE_MIXED;
        if (!is_bytes || edge->hi < path->lo[i] || edge->lo > path->hi[i])
            continue;
        uint32_t one = path_end(a, edge->target, path, i + 1);
        if (edge->lo > seen || one >= CR_UNICODE_MIXED || (end != CR_UNICODE_NONE && end != one))
            return CR_UNICODE_MIXED;
        end = one;
        seen = CR_MAX(seen, edge->hi + 1);
    }
    bool is_whole = end == CR_UNICODE_NONE || seen > path->hi[i];
    return is_whole && (i == 0 || !node->returns) ? end : CR_UNICODE_MIXED;
}

void cr_automaton_find_unicode(cr_automaton *a)
{
    for (uint32_t n = 0; n < a->n_nodes; n++) {
        uint32_t end = path_end(a, n, &cr_unicode_paths[0], 0);
        for (size_t i = 1; i < CR_N_UNICODE_PATHS && end != CR_UNICODE_MIXED; i++) {
            if (path_end(a, n, &cr_unicode_paths[i], 0) != end)
                end = CR_UNICODE_MIXED;
        }
        a->nodes[n].unicode = end;
    }
}

#include "grammar/free_text.h"

#include <stdio.h>

/* The tree of all marks, with the links of Aho and Corasick: the link of a node goes to the longest
 * end of what it spells that begins a mark, too. A node is a state: what was read last. */
enum { MAX_NODES = 512, MAX_SYMBOLS = 96 };

typedef struct tree {
    int32_t symbol[MAX_NODES]; /* a character, or -1 - id of a control token */
    int parent[MAX_NODES], link[MAX_NODES];
    bool is_mark[MAX_NODES];
    bool is_first[MAX_NODES]; /* it is the first one */
    int n;
} tree;

/* ---- symbols ------------------------------------------------------------------------------- */

static size_t to_symbols(const cr_vocab *vocab, cr_str mark, int32_t *out)
{
    size_t n_symbols = 0;
    for (size_t at = 0, n; at < mark.size && n_symbols < MAX_SYMBOLS; at += n) {
        const cr_str rest = { mark.data + at, mark.size - at };
        uint32_t code = 0;
        const int32_t id = cr_gbnf_leading_token(vocab, rest, &n);
        if (id < 0)
            n = CR_MAX(cr_utf8_decode(rest.data, rest.size, &code), (size_t)1);
        out[n_symbols++] = id >= 0 ? -1 - id : (int32_t)code;
    }
    return n_symbols;
}

/* ---- the tree ------------------------------------------------------------------------------ */

static int child(const tree *t, int node, int32_t symbol)
{
    for (int i = 1; i < t->n; i++) {
        if (t->parent[i] == node && t->symbol[i] == symbol)
            return i;
    }
    return 0;
}

static void add_mark(tree *t, const int32_t *symbols, size_t n, bool is_first)
{
    int node = 0;
    for (size_t i = 0; i < n && t->n < MAX_NODES; i++) {
        int next = child(t, node, symbols[i]);
        if (next == 0) {
            next = t->n++;
            t->symbol[next] = symbols[i];
            t->parent[next] = node;
        }
        node = next;
    }
    t->is_mark[node] = node != 0;
    t->is_first[node] = is_first || t->is_first[node];
}

static int next_node(const tree *t, int node, int32_t symbol)
{
    while (child(t, node, symbol) == 0 && node != 0)
        node = t->link[node];
    return child(t, node, symbol);
}

static int depth(const tree *t, int node)
{
    int n = 0;
    for (; node != 0; node = t->parent[node])
        n++;
    return n;
}

/* Links lead to what is less deep, so that is done first. */
static void set_links(tree *t)
{
    for (int level = 2; level <= MAX_SYMBOLS; level++) {
        for (int i = 1; i < t->n; i++) {
            if (depth(t, i) != level)
                continue;
            t->link[i] = next_node(t, t->link[t->parent[i]], t->symbol[i]);
            t->is_mark[i] = t->is_mark[i] || t->is_mark[t->link[i]];
        }
    }
}

/* ---- rules --------------------------------------------------------------------------------- */

/* The symbols behind a node that lead elsewhere than to the root. */
static size_t find_exits(const tree *t, int node, int32_t *out)
{
    size_t n = 0;
    for (;; node = t->link[node]) {
        for (int i = 1; i < t->n; i++) {
            bool is_new = t->parent[i] == node;
            for (size_t k = 0; k < n && is_new; k++)
                is_new = out[k] != t->symbol[i];
            if (is_new)
                out[n++] = t->symbol[i];
        }
        if (node == 0)
            return n;
    }
}

/* What may follow a node: `barred` characters, a class's, may not. */
static void put_exits(cr_gbnf_text *out, const tree *t, int node, const char *barred,
                      const char *behind)
{
    int32_t exits[MAX_NODES];
    const size_t n = find_exits(t, node, exits);
    cr_gbnf_put(out, " | [^%s", barred);
    for (size_t i = 0; i < n; i++) {
        if (exits[i] >= 0)
            cr_gbnf_put(out, "\\U%08X", (unsigned)exits[i]);
    }
    cr_gbnf_put(out, "] free0");
    for (size_t i = 0; i < n; i++) {
        const int next = next_node(t, node, exits[i]);
        char rule[32];
        snprintf(rule, sizeof rule, "free%d", next);
        if (t->is_mark[next] && (behind == NULL || !t->is_first[next]))
            continue;
        const char *name = t->is_mark[next] ? behind : rule;
        if (exits[i] < 0)
            cr_gbnf_put(out, " | <[%d]> %s", (int)(-1 - exits[i]), name);
        else if (exits[i] >= 0x80 || strchr(barred, (int)exits[i]) == NULL)
            cr_gbnf_put(out, " | \"\\U%08X\" %s", (unsigned)exits[i], name);
    }
}

/* Control tokens that do not lead on in a mark, as alternatives. */
static void put_tokens(cr_gbnf_text *out, const tree *t, int node, bool has_other)
{
    int32_t exits[MAX_NODES];
    const size_t n = find_exits(t, node, exits);
    if (has_other)
        cr_gbnf_put(out, " | other free0");
    for (int i = 1; i < t->n; i++) {
        bool is_exit = t->symbol[i] >= 0 || cr_vocab_is_end(out->vocab, -1 - t->symbol[i]);
        for (size_t k = 0; k < n && !is_exit; k++)
            is_exit = exits[k] == t->symbol[i];
        for (int k = 1; k < i && !is_exit; k++)
            is_exit = t->symbol[k] == t->symbol[i];
        if (!is_exit)
            cr_gbnf_put(out, " | <[%d]> free0", (int)(-1 - t->symbol[i]));
    }
}

/* "other": the control tokens that no mark has. Whether there is any. */
static bool put_other(cr_gbnf_text *out, const tree *t)
{
    const cr_vocab *vocab = out->vocab;
    cera_vocab_info info = { 0 };
    bool any = false;
    if (vocab != NULL)
        cr_vocab_get_info(vocab, &info);
    for (int32_t id = 0; (size_t)id < info.n_tokens; id++) {
        bool is_other = cr_vocab_is_control(vocab, id) && !cr_vocab_is_end(vocab, id);
        for (int i = 1; i < t->n && is_other; i++)
            is_other = t->symbol[i] != -1 - id;
        if (is_other)
            cr_gbnf_put(out, any ? " | <[%d]>" : "other ::= <[%d]>", (int)id);
        any = any || is_other;
    }
    cr_gbnf_put(out, any ? "\n" : "");
    return any;
}

void cr_free_text_rules(cr_gbnf_text *out, const cr_free_text *text)
{
    tree t = { .n = 1 };
    int32_t symbols[MAX_SYMBOLS];
    for (size_t i = 0; i < CR_FREE_TEXT_MARKS && text->marks[i] != NULL; i++) {
        const cr_str mark = cr_str_from(text->marks[i]);
        add_mark(&t, symbols, to_symbols(NULL, mark, symbols), i == 0);
        add_mark(&t, symbols, to_symbols(out->vocab, mark, symbols), i == 0);
    }
    set_links(&t);
    const bool has_other = put_other(out, &t);
    for (int i = 0; i < t.n; i++) {
        if (t.is_mark[i])
            continue;
        cr_gbnf_put(out, "free%d ::= \"\"", i);
        put_exits(out, &t, i, "", text->behind);
        put_tokens(out, &t, i, has_other);
        cr_gbnf_put(out, "\n");
    }
    static const char space[] = " \\t\\r\\n"; /* in a class */
    cr_gbnf_put(out, "after ::= \"\" | [%s] after", space);
    put_exits(out, &t, 0, " \\t\\r\\n,;{", text->behind);
    put_tokens(out, &t, 0, has_other);
    cr_gbnf_put(out, "\n");
    if (text->bare == '\0') {
        cr_gbnf_put(out, "begin ::= free0\n");
        return;
    }
    const char *escape = text->bare == '[' ? "\\" : ""; /* in a class */
    char barred[sizeof space + 2];
    snprintf(barred, sizeof barred, "%s%s%c", space, escape, text->bare);
    cr_gbnf_put(out, "begin ::= \"\" | [%s] begin | [%s%c] behind-bare", space, escape, text->bare);
    put_exits(out, &t, 0, barred, text->behind);
    put_tokens(out, &t, 0, has_other);
    cr_gbnf_put(out, "\nbehind-bare ::= \"\"");
    put_exits(out, &t, 0, text->behind_bare, text->behind);
    put_tokens(out, &t, 0, has_other);
    cr_gbnf_put(out, "\n");
}

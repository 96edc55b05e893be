#include "common/free_text.h"

#include <string.h>

/* The tree of all marks, with the links of Aho and Corasick: the link of a node goes to the longest
 * end of what it spells that begins a mark, too. A node is a state: what was read last. */
enum { MAX_NODES = 512, MAX_SYMBOLS = 96 };

typedef struct tree {
    int32_t symbol[MAX_NODES]; /* a character, or -1 - id of a control token */
    int parent[MAX_NODES], link[MAX_NODES];
    bool is_mark[MAX_NODES];
    int n;
} tree;

/* ---- symbols ------------------------------------------------------------------------------- */

/* A control token that is all of these bytes, or -1. */
static int32_t control_token(const cera_vocab *vocab, const char *text, size_t n)
{
    cera_encode_options options;
    cera_encode_options_init(&options);
    options.parse_special = true;
    options.add_bos = false;
    int32_t *ids = NULL, id = -1;
    size_t n_ids = 0;
    cera_error err;
    if (vocab == NULL || cera_vocab_encode(vocab, text, n, &options, &ids, &n_ids, &err) != CERA_OK)
        return -1;
    if (n_ids == 1 && cera_vocab_is_control(vocab, ids[0]))
        id = ids[0];
    cera_vocab_free_ids(vocab, ids, n_ids);
    return id;
}

/* The control token that a text begins with, and its length; -1: none. */
static int32_t leading_token(const cera_vocab *vocab, const char *text, size_t *n)
{
    const char *end = *text == '<' ? strchr(text, '>') : *text == '[' ? strchr(text, ']') : NULL;
    *n = end != NULL ? (size_t)(end - text) + 1 : 0;
    return end != NULL ? control_token(vocab, text, *n) : -1;
}

static int32_t character(const char *text, size_t *n)
{
    const unsigned char *s = (const unsigned char *)text;
    *n = bytes_utf8(text, strlen(text));
    int32_t code = *n < 2 ? s[0] : s[0] & (0x3F >> (*n - 1));
    for (size_t i = 1; i < *n; i++)
        code = code << 6 | (s[i] & 0x3F);
    return code;
}

static size_t to_symbols(const cera_vocab *vocab, const char *mark, int32_t *out)
{
    size_t n_symbols = 0;
    while (*mark != '\0' && n_symbols < MAX_SYMBOLS) {
        size_t n;
        int32_t id = leading_token(vocab, mark, &n);
        out[n_symbols++] = id >= 0 ? -1 - id : character(mark, &n);
        mark += n;
    }
    return n_symbols;
}

void free_text_mark(bytes *out, const cera_vocab *vocab, const char *text)
{
    bool is_open = false;
    while (*text != '\0') {
        size_t n;
        int32_t id = leading_token(vocab, text, &n);
        if ((id >= 0 && is_open) || (id < 0 && !is_open))
            bytes_text(out, is_open ? "\"" : " \"");
        is_open = id < 0;
        if (id >= 0)
            bytes_printf(out, " <[%d]>", (int)id);
        else if (character(text, &n) < 0x20 || strchr("\"\\\x7F", *text) != NULL)
            bytes_printf(out, "\\x%02X", (unsigned)(unsigned char)*text);
        else
            bytes_append(out, text, n);
        text += n;
    }
    bytes_text(out, is_open ? "\" " : " ");
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

static void add_mark(tree *t, const int32_t *symbols, size_t n)
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
static void put_exits(bytes *out, const tree *t, int node, const char *barred)
{
    int32_t exits[MAX_NODES];
    const size_t n = find_exits(t, node, exits);
    bytes_printf(out, " | [^%s", barred);
    for (size_t i = 0; i < n; i++) {
        if (exits[i] >= 0)
            bytes_printf(out, "\\U%08X", (unsigned)exits[i]);
    }
    bytes_text(out, "] free0");
    for (size_t i = 0; i < n; i++) {
        const int next = next_node(t, node, exits[i]);
        if (t->is_mark[next])
            continue;
        if (exits[i] < 0)
            bytes_printf(out, " | <[%d]> free%d", (int)(-1 - exits[i]), next);
        else if (exits[i] >= 0x80 || strchr(barred, (int)exits[i]) == NULL)
            bytes_printf(out, " | \"\\U%08X\" free%d", (unsigned)exits[i], next);
    }
}

/* Control tokens that do not lead on in a mark, as alternatives. */
static void put_tokens(bytes *out, const tree *t, int node, const cera_vocab *vocab, bool has_other)
{
    int32_t exits[MAX_NODES];
    const size_t n = find_exits(t, node, exits);
    if (has_other)
        bytes_text(out, " | other free0");
    for (int i = 1; i < t->n; i++) {
        bool is_exit = t->symbol[i] >= 0 || cera_vocab_is_end(vocab, -1 - t->symbol[i]);
        for (size_t k = 0; k < n && !is_exit; k++)
            is_exit = exits[k] == t->symbol[i];
        for (int k = 1; k < i && !is_exit; k++)
            is_exit = t->symbol[k] == t->symbol[i];
        if (!is_exit)
            bytes_printf(out, " | <[%d]> free0", (int)(-1 - t->symbol[i]));
    }
}

/* "other": the control tokens that no mark has. Whether there is any. */
static bool put_other(bytes *out, const tree *t, const cera_vocab *vocab)
{
    cera_vocab_info info = { 0 };
    bool any = false;
    if (vocab != NULL)
        cera_vocab_get_info(vocab, &info);
    for (int32_t id = 0; (size_t)id < info.n_tokens; id++) {
        bool is_other = cera_vocab_is_control(vocab, id) && !cera_vocab_is_end(vocab, id);
        for (int i = 1; i < t->n && is_other; i++)
            is_other = t->symbol[i] != -1 - id;
        if (is_other)
            bytes_printf(out, any ? " | <[%d]>" : "other ::= <[%d]>", (int)id);
        any = any || is_other;
    }
    bytes_text(out, any ? "\n" : "");
    return any;
}

void free_text_rules(bytes *out, const free_text *text)
{
    tree t = { .n = 1 };
    int32_t symbols[MAX_SYMBOLS];
    for (size_t i = 0; i < FREE_TEXT_MARKS && text->marks[i] != NULL; i++) {
        add_mark(&t, symbols, to_symbols(NULL, text->marks[i], symbols));
        add_mark(&t, symbols, to_symbols(text->vocab, text->marks[i], symbols));
    }
    set_links(&t);
    const bool has_other = put_other(out, &t, text->vocab);
    for (int i = 0; i < t.n; i++) {
        if (t.is_mark[i])
            continue;
        bytes_printf(out, "free%d ::= \"\"", i);
        put_exits(out, &t, i, "");
        put_tokens(out, &t, i, text->vocab, has_other);
        bytes_text(out, "\n");
    }
    if (text->bare == NULL) {
        bytes_text(out, "begin ::= free0\n");
        return;
    }
    static const char space[] = " \\t\\r\\n";
    bytes barred = { 0 };
    bytes_printf(&barred, "%s%s", space, text->bare);
    bytes_printf(out, "begin ::= \"\" | [%s] begin | [%s] behind-bare", space, text->bare);
    put_exits(out, &t, 0, barred.data);
    put_tokens(out, &t, 0, text->vocab, has_other);
    bytes_text(out, "\nbehind-bare ::= \"\"");
    put_exits(out, &t, 0, text->behind_bare);
    put_tokens(out, &t, 0, text->vocab, has_other);
    bytes_text(out, "\n");
    bytes_done(&barred);
}

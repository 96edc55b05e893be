/* Sorts the tokens by their bytes and lays the tree out. */
#include "grammar/token_table.h"

#include <assert.h>

/* Classes of characters in grammars are mostly made of these; marks have a group each. */
static void find_groups(uint8_t group_of[256])
{
    static const struct {
        uint8_t lo, hi;
    } shared[] = {
        { 'a', 'f' }, { 'g', 'z' }, { 'A', 'F' }, { 'G', 'Z' }, { '1', '9' }, { 11, 31 }
    };
    int n = 0;
    for (int byte = 0; byte < 128; byte++) {
        bool goes_on = false;
        for (size_t i = 0; i < CR_COUNT(shared); i++)
            goes_on = goes_on || (byte > shared[i].lo && byte <= shared[i].hi);
        n += goes_on || (byte > 0 && byte < '\t') ? 0 : 1;
        group_of[byte] = (uint8_t)(n - 1);
    }
    assert(n <= CR_GROUP_UNICODE);
    memset(group_of + 128, CR_GROUP_UNICODE, 128);
}

typedef struct entry {
    uint64_t key; /* the first 8 bytes, big endian, 0 behind the end */
    uint32_t id;
    bool is_whole; /* characters */
} entry;

/* Whether the bytes are whole characters. */
static bool is_whole(cr_str piece)
{
    for (size_t at = 0, length; at < piece.size; at += length) {
        uint32_t code;
        length = cr_utf8_decode(piece.data + at, piece.size - at, &code);
        if (length == 0)
            return false;
    }
    return true;
}

static uint64_t first_bytes(cr_str piece)
{
    uint64_t key = 0;
    for (size_t i = 0; i < 8; i++)
        key = key << 8 | (i < piece.size ? (unsigned char)piece.data[i] : 0);
    return key;
}

static int compare(const cr_vocab *vocab, const entry *a, const entry *b)
{
    if (a->is_whole != b->is_whole)
        return a->is_whole ? -1 : 1;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    cr_str x = cr_vocab_piece(vocab, (int32_t)a->id), y = cr_vocab_piece(vocab, (int32_t)b->id);
    int order = memcmp(x.data, y.data, CR_MIN(x.size, y.size));
    return order != 0 ? order : x.size < y.size ? -1 : x.size > y.size ? 1 : 0;
}

/* Bottom-up merge sort, which keeps equal tokens in the order of their ids. */
static entry *sort(const cr_vocab *vocab, entry *from, entry *to, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t start = 0; start < n; start += 2 * width) {
            size_t middle = CR_MIN(start + width, n), end = CR_MIN(start + 2 * width, n);
            size_t a = start, b = middle;
            for (size_t i = start; i < end; i++) {
                bool first = b == end || (a < middle && compare(vocab, &from[a], &from[b]) <= 0);
                to[i] = from[first ? a++ : b++];
            }
        }
        entry *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static size_t common_prefix(cr_str a, cr_str b)
{
    size_t n = 0;
    while (n < a.size && n < b.size && a.data[n] == b.data[n])
        n++;
    return n;
}

/* Nodes that the token shares with the one before it; none at the start of a tree. */
static size_t n_shared(const cr_token_table *t, const entry *sorted, size_t i)
{
    return i == 0 || sorted[i - 1].is_whole != sorted[i].is_whole
               ? 0
               : common_prefix(cr_vocab_piece(t->vocab, (int32_t)sorted[i - 1].id),
                               cr_vocab_piece(t->vocab, (int32_t)sorted[i].id));
}

enum { MAX_SETS = 1 << 15, N_SLOTS = 2 * MAX_SETS };

/* A node that may get more children. */
typedef struct open_node {
    uint32_t node;
    uint32_t longest;
    uint64_t set;
} open_node;

typedef struct layout {
    cr_token_table *t;
    uint16_t slots[N_SLOTS]; /* sets by their hash: number + 1 */
    open_node path[];        /* [max_depth + 1] the open node at each depth, from the root's */
} layout;

/* The number of a set; that of the set of everything when there are too many. */
static uint16_t find_set(layout *l, uint64_t set)
{
    cr_token_table *t = l->t;
    uint32_t slot = (uint32_t)(set * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (N_SLOTS - 1);
    for (; l->slots[slot] != 0; slot = (slot + 1) & (N_SLOTS - 1)) {
        if (t->sets[l->slots[slot] - 1] == set)
            return (uint16_t)(l->slots[slot] - 1);
    }
    if (t->n_sets == MAX_SETS)
        return 0;
    t->sets[t->n_sets] = set;
    l->slots[slot] = (uint16_t)(t->n_sets + 1);
    return (uint16_t)t->n_sets++;
}

/* Closes the open nodes deeper than `depth`. */
static void close_nodes(layout *l, size_t from, size_t depth)
{
    for (size_t d = from; d > depth; d--) {
        open_node *open = &l->path[d];
        cr_trie_node *node = &l->t->nodes[open->node];
        open->set |= UINT64_C(1) << l->t->group_of[node->byte];
        open->longest += cr_is_lead(node->byte) ? 1 : 0;
        node->skip = l->t->n_nodes - open->node;
        node->set = find_set(l, open->set);
        node->longest = (uint8_t)CR_MIN(open->longest, 255u);
        l->path[d - 1].set |= open->set;
        l->path[d - 1].longest = CR_MAX(l->path[d - 1].longest, open->longest);
    }
}

static void add_token(layout *l, uint32_t id, size_t shared)
{
    cr_token_table *t = l->t;
    cr_str piece = cr_vocab_piece(t->vocab, (int32_t)id);
    for (size_t d = shared + 1; d <= piece.size; d++) {
        l->path[d] = (open_node){ .node = t->n_nodes };
        t->nodes[t->n_nodes++] = (cr_trie_node){ .token = CR_NO_TOKEN,
                                                 .depth = (uint16_t)d,
                                                 .byte = (uint8_t)piece.data[d - 1] };
    }
    cr_trie_node *last = &t->nodes[l->path[piece.size].node];
    if (last->token != CR_NO_TOKEN) {
        t->twins[id] = last->token;
        last->token = id | CR_HAS_TWIN;
    } else {
        last->token = id;
    }
    cr_bit_set(t->text, id);
    if (!is_whole(piece))
        l->path[piece.size].set |= UINT64_C(1) << CR_GROUP_PART;
}

static void lay_out(layout *l, const entry *sorted, size_t n)
{
    cr_token_table *t = l->t;
    memset(l->slots, 0, sizeof l->slots);
    l->path[0] = (open_node){ 0 };
    t->nodes[0] = (cr_trie_node){ .token = CR_NO_TOKEN };
    t->n_nodes = 1;
    t->sets[0] = UINT64_MAX;
    t->n_sets = 1;
    size_t depth = 0;
    for (size_t i = 0; i < n; i++) {
        size_t shared = n_shared(t, sorted, i);
        close_nodes(l, depth, shared);
        add_token(l, sorted[i].id, shared);
        depth = cr_vocab_piece(t->vocab, (int32_t)sorted[i].id).size;
    }
    close_nodes(l, depth, 0);
    t->nodes[0].skip = t->n_nodes;
}

/* ---- what tokens are made of ------------------------------------------------------------- */

static bool add_runs(cr_token_table *t, cr_token_runs *runs, uint32_t id, cr_str piece)
{
    if (!is_whole(piece))
        return true;
    size_t n_chars = 0;
    for (size_t i = 0; i < piece.size; i++) {
        uint8_t byte = (uint8_t)piece.data[i];
        uint64_t **has = &runs->has[t->group_of[byte]];
        if (!*has)
            *has = cr_arena_array(&t->arena, t->n_words, sizeof **has);
        if (!*has)
            return false;
        cr_bit_set(*has, id);
        n_chars += cr_is_lead(byte) ? 1 : 0;
    }
    for (size_t n = CR_MIN(CR_MAX(n_chars, (size_t)1), (size_t)CR_RUN_ENDLESS);
         n <= CR_RUN_ENDLESS && piece.size > 0; n++)
        cr_bit_set(runs->upto[n], id);
    return true;
}

static bool find_runs(cr_token_table *t)
{
    for (size_t i = 0; i < 2; i++) {
        for (size_t n = 1; n <= CR_RUN_ENDLESS; n++) {
            t->runs[i].upto[n] = cr_arena_array(&t->arena, t->n_words, sizeof(uint64_t));
            if (!t->runs[i].upto[n])
                return false;
        }
    }
    for (uint32_t id = 0; id < t->n_tokens; id++) {
        if (!cr_bit_get(t->text, id))
            continue;
        cr_str piece = cr_vocab_piece(t->vocab, (int32_t)id);
        if (!add_runs(t, &t->runs[0], id, piece))
            return false;
        if (piece.size > 0 && piece.data[0] == ' ' &&
            !add_runs(t, &t->runs[1], id, (cr_str){ piece.data + 1, piece.size - 1 }))
            return false;
    }
    uint32_t i = 1;
    while (i < t->n_nodes && t->nodes[i].byte != ' ')
        i += t->nodes[i].skip;
    t->after_blank = i < t->n_nodes ? i : 0;
    return true;
}

/* Tokens that are shorter where a text begins. */
static void find_blanks(cr_token_table *t)
{
    for (size_t i = 0; i < t->n_tokens; i++) {
        int32_t id = (int32_t)i;
        if (!cr_bit_get(t->text, (uint32_t)i) ||
            cr_vocab_piece_after(t->vocab, -1, id).size == cr_vocab_piece(t->vocab, id).size)
            continue;
        cr_bit_set(t->blank, (uint32_t)i);
        t->a_blank = id;
    }
}

static cera_status build(cr_token_table *t, entry *entries, entry *spare, cera_error *err)
{
    enum { MAX_PIECE = UINT16_MAX };
    size_t n = 0, max_depth = 0;
    for (size_t i = 0; i < t->n_tokens; i++) {
        int32_t id = (int32_t)i;
        if (cr_vocab_is_end(t->vocab, id))
            t->ends[t->n_ends++] = id;
        cr_str piece = cr_vocab_piece(t->vocab, id);
        /* A token longer than that is none that a model chooses. */
        if (cr_vocab_is_end(t->vocab, id) || !cr_vocab_is_text(t->vocab, id) ||
            piece.size > MAX_PIECE)
            continue;
        entries[n++] = (entry){ first_bytes(piece), (uint32_t)i, is_whole(piece) };
        max_depth = CR_MAX(max_depth, piece.size);
    }
    const entry *sorted = sort(t->vocab, entries, spare, n);
    size_t n_nodes = 1;
    for (size_t i = 0; i < n; i++)
        n_nodes += cr_vocab_piece(t->vocab, (int32_t)sorted[i].id).size - n_shared(t, sorted, i);
    t->nodes = cr_arena_array(&t->arena, n_nodes, sizeof *t->nodes);
    t->sets = cr_arena_array(&t->arena, MAX_SETS, sizeof *t->sets);
    size_t size = sizeof(layout) + (max_depth + 1) * sizeof(open_node);
    layout *l = cr_alloc(t->host, CR_MEM_SCRATCH, size);
    if (!t->nodes || !t->sets || !l || n_nodes > UINT32_MAX / 2) {
        cr_free(t->host, CR_MEM_SCRATCH, l, size);
        return cr_fail_nomem(err, n_nodes * sizeof *t->nodes, "a grammar's view of the vocabulary");
    }
    t->max_depth = (uint32_t)max_depth;
    l->t = t;
    lay_out(l, sorted, n);
    cr_free(t->host, CR_MEM_SCRATCH, l, size);
    find_blanks(t);
    return find_runs(t) ? CERA_OK
                        : cr_fail_nomem(err, t->n_words * 8, "a grammar's view of the vocabulary");
}

cera_status cr_token_table_new(const cr_vocab *vocab, cr_host *host, cr_token_table **out,
                               cera_error *err)
{
    cr_token_table *t = cr_alloc_zero(host, CR_MEM_VOCAB, sizeof *t);
    if (!t)
        return cr_fail_nomem(err, sizeof *t, "a grammar's view of the vocabulary");
    cera_vocab_info info;
    cr_vocab_get_info(vocab, &info);
    t->host = host;
    t->vocab = vocab;
    t->n_tokens = info.n_tokens;
    t->n_words = (info.n_tokens + 63) / 64;
    t->a_blank = -1;
    cr_arena_init(&t->arena, host, CR_MEM_VOCAB);
    t->twins = cr_arena_array(&t->arena, t->n_tokens, sizeof *t->twins);
    t->ends = cr_arena_array(&t->arena, t->n_tokens, sizeof *t->ends);
    t->text = cr_arena_array(&t->arena, t->n_words, sizeof *t->text);
    t->blank = cr_arena_array(&t->arena, t->n_words, sizeof *t->blank);
    bool good = t->twins && t->ends && t->text && t->blank;
    find_groups(t->group_of);
    size_t size = t->n_tokens * sizeof(entry);
    entry *entries = cr_alloc(host, CR_MEM_SCRATCH, size);
    entry *spare = cr_alloc(host, CR_MEM_SCRATCH, size);
    cera_status status = good && entries && spare
                             ? build(t, entries, spare, err)
                             : cr_fail_nomem(err, size, "a grammar's view of the vocabulary");
    cr_free(host, CR_MEM_SCRATCH, entries, size);
    cr_free(host, CR_MEM_SCRATCH, spare, size);
    if (status == CERA_OK)
        *out = t;
    else
        cr_token_table_free(t);
    return status;
}

void cr_token_table_free(cr_token_table *table)
{
    if (!table)
        return;
    cr_host *host = table->host;
    cr_arena_done(&table->arena);
    cr_free(host, CR_MEM_VOCAB, table, sizeof *table);
}

bool cr_token_table_is_start(const cr_token_table *table, int32_t previous)
{
    int32_t id = table->a_blank;
    return id >= 0 && cr_vocab_piece_after(table->vocab, previous, id).size !=
                          cr_vocab_piece(table->vocab, id).size;
}

/* Sorts the tokens by their bytes and lays the trees out. */
#include "grammar/token_table.h"

typedef struct entry {
    uint64_t key; /* the first 8 bytes, big endian, 0 behind the end */
    uint32_t id;
    uint32_t n_chars; /* of a plain token, else 0 */
} entry;

/* Characters of a plain token, 0 for another one. */
static uint32_t count_plain(cr_str piece)
{
    uint32_t n = 0;
    for (size_t at = 0; at < piece.size; n++) {
        uint32_t code;
        size_t length = cr_utf8_decode(piece.data + at, piece.size - at, &code);
        if (length == 0 || code < 0x20 || code == '"' || code == '\\' || code == 0x7f ||
            n == CR_PLAIN_MAX)
            return 0;
        at += length;
    }
    return n;
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
    if ((a->n_chars != 0) != (b->n_chars != 0))
        return a->n_chars != 0 ? -1 : 1;
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

/* Nodes that the token adds to those that share a prefix with it; all of them at the start of a
 * tree. */
static size_t n_shared(const cr_token_table *t, const entry *sorted, size_t i)
{
    if (i == 0 || (sorted[i - 1].n_chars != 0) != (sorted[i].n_chars != 0))
        return 0;
    return common_prefix(cr_vocab_piece(t->vocab, (int32_t)sorted[i - 1].id),
                         cr_vocab_piece(t->vocab, (int32_t)sorted[i].id));
}

static bool is_letter(uint8_t byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

/* What a parent knows from its child: the longest token, and whether all bytes are letters. */
static uint8_t join(uint8_t parent, uint8_t child)
{
    uint8_t longest = CR_MAX(parent & ~CR_ALL_LETTERS & 0xff, child & ~CR_ALL_LETTERS & 0xff);
    return (uint8_t)(longest | (parent & child & CR_ALL_LETTERS));
}

/* Closes the open nodes deeper than `depth`: path[d] is the open node at depth d. */
static void close_nodes(cr_token_table *t, uint32_t *path, size_t from, size_t depth)
{
    for (size_t d = from; d > depth; d--) {
        cr_trie_node *node = &t->nodes[path[d]];
        node->skip = t->n_nodes - path[d];
        if (d > 1) {
            cr_trie_node *parent = &t->nodes[path[d - 1]];
            parent->longest = join(parent->longest, node->longest);
        }
    }
}

static void add_token(cr_token_table *t, uint32_t *path, const entry *e, size_t shared)
{
    cr_str piece = cr_vocab_piece(t->vocab, (int32_t)e->id);
    for (size_t d = shared + 1; d <= piece.size; d++) {
        path[d] = t->n_nodes;
        uint8_t byte = (uint8_t)piece.data[d - 1];
        t->nodes[t->n_nodes++] = (cr_trie_node){ .token = CR_NO_TOKEN,
                                                 .depth = (uint16_t)d,
                                                 .byte = byte,
                                                 .longest = is_letter(byte) ? CR_ALL_LETTERS : 0 };
    }
    cr_trie_node *last = &t->nodes[path[piece.size]];
    if (last->token != CR_NO_TOKEN) {
        t->twins[e->id] = last->token;
        last->token = e->id | CR_HAS_TWIN;
    } else {
        last->token = e->id;
    }
    last->longest = join(last->longest, (uint8_t)(CR_ALL_LETTERS | e->n_chars));
    cr_bit_set(t->text, e->id);
    for (uint32_t n = CR_MAX(e->n_chars, 1u); e->n_chars > 0 && n <= CR_PLAIN_MAX; n++)
        cr_bit_set(t->plain[n], e->id);
}

static void lay_out(cr_token_table *t, const entry *sorted, size_t n, uint32_t *path)
{
    t->nodes[0] = (cr_trie_node){ .token = CR_NO_TOKEN };
    t->n_nodes = 1;
    t->others = 0;
    size_t depth = 0;
    for (size_t i = 0; i < n; i++) {
        size_t shared = n_shared(t, sorted, i);
        close_nodes(t, path, depth, shared);
        if (t->others == 0 && sorted[i].n_chars == 0)
            t->others = t->n_nodes;
        add_token(t, path, &sorted[i], shared);
        depth = cr_vocab_piece(t->vocab, (int32_t)sorted[i].id).size;
    }
    close_nodes(t, path, depth, 0);
    if (t->others == 0)
        t->others = t->n_nodes;
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
        entries[n++] = (entry){ first_bytes(piece), (uint32_t)i, count_plain(piece) };
        max_depth = CR_MAX(max_depth, piece.size);
    }
    const entry *sorted = sort(t->vocab, entries, spare, n);
    size_t n_nodes = 1;
    for (size_t i = 0; i < n; i++)
        n_nodes += cr_vocab_piece(t->vocab, (int32_t)sorted[i].id).size - n_shared(t, sorted, i);
    t->nodes = cr_arena_array(&t->arena, n_nodes, sizeof *t->nodes);
    uint32_t *path = cr_arena_array(&t->arena, max_depth + 1, sizeof *path);
    if (!t->nodes || !path || n_nodes > UINT32_MAX / 2)
        return cr_fail_nomem(err, n_nodes * sizeof *t->nodes, "a grammar's view of the vocabulary");
    t->max_depth = (uint32_t)max_depth;
    lay_out(t, sorted, n, path);
    find_blanks(t);
    return CERA_OK;
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
    for (size_t n = 0; n <= CR_PLAIN_MAX; n++) {
        t->plain[n] = cr_arena_array(&t->arena, t->n_words, sizeof *t->plain[n]);
        good = good && t->plain[n];
    }
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

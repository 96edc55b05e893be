/* Byte pair encoding.
 *
 * Short pieces, which is nearly all of them, are merged in a small array: find the lowest rank by
 * looking at all, join, close the gap. That is quadratic, and the fastest way for a word. Long
 * pieces are kept as a linked list of symbols, with a heap of the merges that are possible:
 *
 *     symbol    0    1    2    3    4        heap of (rank, symbol), lowest first
 *     id       [a]->[b]->[c]->[a]->[b]       (7,0) (7,3) (9,1)
 *     rank      7    9    -    7    -        of the pair that begins here
 *
 * An entry whose rank is no longer its symbol's is stale and skipped. */
#include "token/merge.h"

#include "base/arith.h"

enum { SHORT_PIECE = 96 }; /* bytes; the array was the faster way up to about 128 random letters */

static size_t slot_of(const cr_merges *merges, uint32_t left, uint32_t right)
{
    uint64_t h = (uint64_t)left << 32 | right;
    h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
    return (size_t)(h >> (64 - merges->bits));
}

static uint32_t find_rank(const cr_merges *merges, uint32_t left, uint32_t right)
{
    size_t mask = ((size_t)1 << merges->bits) - 1;
    for (size_t i = slot_of(merges, left, right);; i = (i + 1) & mask) {
        const cr_merge_slot *slot = &merges->slots[i];
        if (slot->rank == CR_MERGE_NONE || (slot->left == left && slot->right == right))
            return slot->rank;
    }
}

bool cr_merges_init(cr_merges *merges, cr_arena *arena, size_t n)
{
    int bits = 4;
    while (((size_t)1 << bits) / 8 * 5 < n)
        bits++;
    size_t n_slots = (size_t)1 << bits;
    *merges = (cr_merges){
        .slots = cr_arena_array(arena, n_slots, sizeof *merges->slots),
        .bits = bits,
        .result = cr_arena_array(arena, n, sizeof *merges->result),
    };
    if (merges->slots == NULL || merges->result == NULL)
        return false;
    for (size_t i = 0; i < n_slots; i++)
        merges->slots[i].rank = CR_MERGE_NONE;
    for (int i = 0; i < 256; i++)
        merges->byte_ids[i] = -1;
    return true;
}

static void add_one(cr_merges *merges, const cr_merge *merge)
{
    size_t mask = ((size_t)1 << merges->bits) - 1;
    size_t i = slot_of(merges, merge->left, merge->right);
    for (; merges->slots[i].rank != CR_MERGE_NONE; i = (i + 1) & mask)
        if (merges->slots[i].left == merge->left && merges->slots[i].right == merge->right)
            return;
    merges->slots[i] = (cr_merge_slot){ merge->left, merge->right, merge->rank };
    merges->result[merge->rank] = merge->result;
}

void cr_merges_add(cr_merges *merges, const cr_merge *batch, size_t n)
{
    for (size_t i = 0; i < n; i++)
        CR_PREFETCH(&merges->slots[slot_of(merges, batch[i].left, batch[i].right)]);
    for (size_t i = 0; i < n; i++)
        add_one(merges, &batch[i]);
}

static cera_status fail_byte(cera_error *err, cr_str piece, size_t i)
{
    return cr_fail(err, CERA_E_UNSUPPORTED, "text: the vocabulary has no token for byte 0x%02X",
                   (unsigned)(unsigned char)piece.data[i]);
}

static cera_status encode_short(const cr_merges *merges, cr_str piece, cr_buf *out, cera_error *err)
{
    uint32_t ids[SHORT_PIECE];
    uint32_t ranks[SHORT_PIECE]; /* of the pair (i, i + 1); the last symbol has none */
    size_t n = piece.size;
    for (size_t i = 0; i < n; i++) {
        int32_t id = merges->byte_ids[(unsigned char)piece.data[i]];
        if (id < 0)
            return fail_byte(err, piece, i);
        ids[i] = (uint32_t)id;
    }
    for (size_t i = 0; i + 1 < n; i++)
        ranks[i] = find_rank(merges, ids[i], ids[i + 1]);

    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (ranks[i] < ranks[best])
                best = i;
        if (ranks[best] == CR_MERGE_NONE)
            break;
        ids[best] = merges->result[ranks[best]];
        n--;
        for (size_t i = best + 1; i < n; i++) {
            ids[i] = ids[i + 1];
            ranks[i - 1] = ranks[i];
        }
        if (best + 1 < n)
            ranks[best] = find_rank(merges, ids[best], ids[best + 1]);
        if (best > 0)
            ranks[best - 1] = find_rank(merges, ids[best - 1], ids[best]);
    }
    if (!cr_buf_append(out, ids, n * sizeof *ids))
        return cr_fail_nomem(err, n * sizeof *ids, "token ids");
    return CERA_OK;
}

/* A heap of rank << 32 | symbol, four children to a node: half the levels of a binary one. */
typedef struct heap {
    uint64_t *entries;
    size_t n;
} heap;

static void sift_down(heap *h, size_t at, uint64_t entry)
{
    for (;;) {
        size_t first = 4 * at + 1;
        if (first >= h->n)
            break;
        size_t best = first;
        for (size_t i = first + 1; i < CR_MIN(first + 4, h->n); i++)
            if (h->entries[i] < h->entries[best])
                best = i;
        if (h->entries[best] >= entry)
            break;
        h->entries[at] = h->entries[best];
        at = best;
    }
    h->entries[at] = entry;
}

static void heap_push(heap *h, uint64_t entry)
{
    size_t at = h->n++;
    while (at > 0 && h->entries[(at - 1) / 4] > entry) {
        h->entries[at] = h->entries[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    h->entries[at] = entry;
}

static uint64_t heap_pop(heap *h)
{
    uint64_t top = h->entries[0];
    uint64_t last = h->entries[--h->n];
    if (h->n > 0)
        sift_down(h, 0, last);
    return top;
}

static uint64_t heap_entry(uint32_t rank, size_t symbol)
{
    return (uint64_t)rank << 32 | symbol;
}

/* A token in the making. Its four numbers are used together, so they share a cache line. */
typedef struct symbol {
    uint32_t id;
    uint32_t
        rank; /* of the pair that begins here; CR_MERGE_NONE too when it has been merged away */
    uint32_t next, previous; /* n: none */
} symbol;

/* A long piece. */
typedef struct chain {
    symbol *symbols; /* [n] */
    size_t n;
    heap heap; /* room for 2 n: each merge takes one entry away and adds at most two */
} chain;

static bool chain_init(chain *c, size_t n, cr_buf *work)
{
    size_t size;
    const size_t per_symbol = sizeof(symbol) + 2 * sizeof(uint64_t);
    work->size = 0;
    if (n >= UINT32_MAX || !cr_mul_size(n, per_symbol, &size) || !cr_buf_reserve(work, size))
        return false;
    symbol *symbols = (symbol *)(void *)work->data;
    *c = (chain){
        .symbols = symbols,
        .n = n,
        .heap = { .entries = (uint64_t *)(void *)(symbols + n) },
    };
    return true;
}

/* The rank of the pair that begins at symbol s. */
static uint32_t pair_rank(const chain *c, const cr_merges *merges, const symbol *s)
{
    return s->next < c->n ? find_rank(merges, s->id, c->symbols[s->next].id) : CR_MERGE_NONE;
}

/* The pair that begins at `at` is a new one. */
static void renew_pair(chain *c, const cr_merges *merges, size_t at)
{
    symbol *s = &c->symbols[at];
    s->rank = pair_rank(c, merges, s);
    if (s->rank != CR_MERGE_NONE)
        heap_push(&c->heap, heap_entry(s->rank, at));
}

static void merge_pair(chain *c, const cr_merges *merges, size_t at)
{
    symbol *s = &c->symbols[at];
    symbol *gone = &c->symbols[s->next];
    s->id = merges->result[s->rank];
    s->next = gone->next;
    gone->rank = CR_MERGE_NONE;
    if (s->next < c->n)
        c->symbols[s->next].previous = (uint32_t)at;
    renew_pair(c, merges, at);
    if (s->previous < c->n)
        renew_pair(c, merges, s->previous);
}

/* The single bytes as a chain, and their pairs as a heap. */
static cera_status chain_start(chain *c, const cr_merges *merges, cr_str piece, cera_error *err)
{
    size_t n = c->n;
    for (size_t i = 0; i < n; i++) {
        int32_t id = merges->byte_ids[(unsigned char)piece.data[i]];
        if (id < 0)
            return fail_byte(err, piece, i);
        c->symbols[i] = (symbol){
            .id = (uint32_t)id,
            .next = (uint32_t)(i + 1),
            .previous = (uint32_t)(i > 0 ? i - 1 : n),
        };
    }
    for (size_t i = 0; i < n; i++) {
        symbol *s = &c->symbols[i];
        s->rank = pair_rank(c, merges, s);
        if (s->rank != CR_MERGE_NONE)
            c->heap.entries[c->heap.n++] = heap_entry(s->rank, i);
    }
    for (size_t i = c->heap.n; i-- > 0;)
        sift_down(&c->heap, i, c->heap.entries[i]);
    return CERA_OK;
}

static cera_status encode_long(const cr_merges *merges, cr_str piece, cr_buf *work, cr_buf *out,
                               cera_error *err)
{
    chain c;
    if (!chain_init(&c, piece.size, work))
        return cr_fail_nomem(err, piece.size, "merging a long piece of text");
    CR_TRY(chain_start(&c, merges, piece, err));

    while (c.heap.n > 0) {
        uint64_t top = heap_pop(&c.heap);
        size_t at = (size_t)(top & UINT32_MAX);
        if (c.symbols[at].rank == (uint32_t)(top >> 32))
            merge_pair(&c, merges, at);
    }

    for (size_t i = 0; i < c.n; i = c.symbols[i].next)
        if (!cr_buf_append(out, &c.symbols[i].id, sizeof(uint32_t)))
            return cr_fail_nomem(err, c.n, "token ids");
    return CERA_OK;
}

cera_status cr_merges_encode(const cr_merges *merges, cr_str piece, cr_buf *work, cr_buf *ids,
                             cera_error *err)
{
    if (piece.size <= SHORT_PIECE)
        return encode_short(merges, piece, ids, err);
    return encode_long(merges, piece, work, ids, err);
}

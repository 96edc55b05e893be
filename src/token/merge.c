/* Merging.
 *
 * Short pieces, which is nearly all of them, are merged in a small array: find the lowest rank by
 * looking at all, join, close the gap. That is quadratic, and the fastest way for a word. Long
 * pieces are kept as a linked list of symbols, with a heap of the joins that are possible:
 *
 *     symbol    0    1    2    3    4        heap of (rank, symbol), lowest first
 *     id       [a]->[b]->[c]->[a]->[b]       (7,0) (7,3) (9,1)
 *     rank      7    9    -    7    -        of the pair that begins here
 *
 * An entry whose rank is no longer its symbol's is stale and skipped. Symbols are numbered by the
 * byte they begin at, so that neighbours know which part of the piece they cover. */
#include "token/merge.h"

#include "base/arith.h"

enum { SHORT_PIECE = 96 }; /* bytes; the array was the faster way up to about 128 random letters */

/* ---- short pieces -------------------------------------------------------------------------- */

/* A token in the making, and the pair that it makes with the next one. */
typedef struct part {
    uint32_t begin, id;
    uint32_t rank, joined;
} part;

static void rate(part *left, const cr_merge_rules *rules, cr_str piece)
{
    cr_pair pair = { left[0].id, left[1].id, left[0].begin, left[2].begin };
    cr_join join = rules->join(rules->ctx, piece, &pair);
    left->rank = join.rank;
    left->joined = join.id;
}

static cera_status merge_short(const cr_merge_rules *rules, cr_str piece, cera_error *err)
{
    part parts[SHORT_PIECE + 1]; /* the last one is the end */
    size_t n = 0;
    for (size_t at = 0; at < piece.size; n++) {
        parts[n].begin = (uint32_t)at;
        at += rules->unit(rules->ctx, (cr_str){ piece.data + at, piece.size - at }, &parts[n].id);
    }
    parts[n].begin = (uint32_t)piece.size;
    for (size_t i = 0; i + 1 < n; i++)
        rate(&parts[i], rules, piece);

    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (parts[i].rank < parts[best].rank)
                best = i;
        if (parts[best].rank == CR_NEVER_JOIN)
            break;
        parts[best].id = parts[best].joined;
        memmove(&parts[best + 1], &parts[best + 2], (n - best - 1) * sizeof *parts);
        n--;
        if (best + 1 < n)
            rate(&parts[best], rules, piece);
        if (best > 0)
            rate(&parts[best - 1], rules, piece);
    }
    for (size_t i = 0; i < n; i++) {
        cr_str bytes = { piece.data + parts[i].begin, parts[i + 1].begin - parts[i].begin };
        CR_TRY(rules->push(rules->out, parts[i].id, bytes, err));
    }
    return CERA_OK;
}

/* ---- long pieces --------------------------------------------------------------------------- */

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

/* A token in the making. Its numbers are used together, so they stand together. */
typedef struct symbol {
    uint32_t id;
    uint32_t rank;   /* of the pair that begins here; CR_NEVER_JOIN too when it was merged away */
    uint32_t joined; /* what that pair becomes */
    uint32_t next, previous; /* n: none */
} symbol;

/* A long piece. */
typedef struct chain {
    const cr_merge_rules *rules;
    cr_str piece;
    symbol *symbols; /* [n], those where a unit begins */
    uint32_t n;
    heap heap; /* room for 2 n: each merge takes one entry away and adds at most two */
} chain;

static bool chain_init(chain *c, const cr_merge_rules *rules, cr_str piece, cr_buf *work)
{
    size_t size, n = piece.size;
    const size_t per_symbol = sizeof(symbol) + 2 * sizeof(uint64_t);
    work->size = 0;
    if (n >= UINT32_MAX || !cr_mul_size(n, per_symbol, &size) || !cr_buf_reserve(work, size))
        return false;
    /* The heap first: its entries are the larger ones. */
    uint64_t *entries = (uint64_t *)(void *)work->data;
    *c = (chain){
        .rules = rules,
        .piece = piece,
        .symbols = (symbol *)(void *)(entries + 2 * n),
        .n = (uint32_t)n,
        .heap = { .entries = entries },
    };
    return true;
}

/* Rates the pair that begins at symbol `at`. */
static bool rate_at(chain *c, uint32_t at)
{
    symbol *s = &c->symbols[at];
    s->rank = CR_NEVER_JOIN;
    if (s->next < c->n) {
        const symbol *right = &c->symbols[s->next];
        cr_pair pair = { s->id, right->id, at, right->next };
        cr_join join = c->rules->join(c->rules->ctx, c->piece, &pair);
        s->rank = join.rank;
        s->joined = join.id;
    }
    return s->rank != CR_NEVER_JOIN;
}

static void renew(chain *c, uint32_t at)
{
    if (rate_at(c, at))
        heap_push(&c->heap, heap_entry(c->symbols[at].rank, at));
}

static void merge_at(chain *c, uint32_t at)
{
    symbol *s = &c->symbols[at];
    symbol *gone = &c->symbols[s->next];
    s->id = s->joined;
    s->next = gone->next;
    gone->rank = CR_NEVER_JOIN;
    if (s->next < c->n)
        c->symbols[s->next].previous = at;
    renew(c, at);
    if (s->previous < c->n)
        renew(c, s->previous);
}

/* The units as a chain, and their pairs as a heap. */
static void chain_start(chain *c)
{
    uint32_t previous = c->n;
    for (uint32_t at = 0; at < c->n;) {
        symbol *s = &c->symbols[at];
        cr_str rest = { c->piece.data + at, c->n - at };
        *s = (symbol){ .previous = previous };
        s->next = at + (uint32_t)c->rules->unit(c->rules->ctx, rest, &s->id);
        previous = at;
        at = s->next;
    }
    for (uint32_t at = 0; at < c->n; at = c->symbols[at].next)
        if (rate_at(c, at))
            c->heap.entries[c->heap.n++] = heap_entry(c->symbols[at].rank, at);
    for (size_t i = c->heap.n; i-- > 0;)
        sift_down(&c->heap, i, c->heap.entries[i]);
}

static cera_status merge_long(const cr_merge_rules *rules, cr_str piece, cr_buf *work,
                              cera_error *err)
{
    chain c;
    if (!chain_init(&c, rules, piece, work))
        return cr_fail_nomem(err, piece.size, "merging a long piece of text");
    chain_start(&c);

    while (c.heap.n > 0) {
        uint64_t top = heap_pop(&c.heap);
        uint32_t at = (uint32_t)(top & UINT32_MAX);
        if (c.symbols[at].rank == (uint32_t)(top >> 32))
            merge_at(&c, at);
    }

    for (uint32_t at = 0; at < c.n; at = c.symbols[at].next) {
        cr_str bytes = { piece.data + at, c.symbols[at].next - at };
        CR_TRY(rules->push(rules->out, c.symbols[at].id, bytes, err));
    }
    return CERA_OK;
}

cera_status cr_merge(const cr_merge_rules *rules, cr_str piece, cr_buf *work, cera_error *err)
{
    if (piece.size <= SHORT_PIECE)
        return merge_short(rules, piece, err);
    return merge_long(rules, piece, work, err);
}

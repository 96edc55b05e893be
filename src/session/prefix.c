/* The prefix tree: finding, adding, evicting. */
#include "session/prefix.h"

#include <assert.h>
#include <string.h>

typedef struct block {
    struct block *parent;
    struct block *child;   /* the first one */
    struct block *sibling; /* the next child of the parent, or free block */
    /* Use: a block is never used less recently than what stands behind it, so the least recently
     * used one has no children. */
    struct block *newer, *older;
    int n; /* tokens; CR_PAGE where there are children */
    int32_t ids[CR_PAGE];
    cr_page *pages[CR_MAX_GROUPS]; /* NULL: a window's that is not known */
    cr_page *state;                /* behind the last token, or NULL */
    unsigned stored;               /* which of these the disk has: see parts_of */
    int n_stored;                  /* for so many of its tokens; 0: nothing */
} block;

struct cr_prefix_root {
    block block; /* without tokens and parent; first, so that it leads to the root */
    cr_prefix *prefix;
    cr_digest adapters;
    int n_holders;
    cr_prefix_root *next;
};

struct cr_prefix {
    cr_pages *pages;
    cr_prefix_root plain;  /* without adapters */
    cr_prefix_root *roots; /* the others */
    block *newest, *oldest;
    block *spare;
    size_t n_spare, n_blocks;
    int spacing;
    size_t n_states, max_states;
    uint64_t n_hits, n_misses, n_reused, n_computed, n_evictions;
};

/* ---- use --------------------------------------------------------------------------------- */

static void unlink_use(cr_prefix *prefix, block *b)
{
    *(b->newer ? &b->newer->older : &prefix->newest) = b->older;
    *(b->older ? &b->older->newer : &prefix->oldest) = b->newer;
}

static void link_use(cr_prefix *prefix, block *b)
{
    b->newer = NULL;
    b->older = prefix->newest;
    *(b->older ? &b->older->newer : &prefix->oldest) = b;
    prefix->newest = b;
}

/* The block and those before it become the most recently used ones, the first block the most. */
static void touch(cr_prefix *prefix, block *b)
{
    for (; b->parent; b = b->parent) {
        unlink_use(prefix, b);
        link_use(prefix, b);
    }
}

/* ---- roots ------------------------------------------------------------------------------- */

static cr_prefix_root *root_of(const block *b)
{
    while (b->parent)
        b = b->parent;
    return (cr_prefix_root *)(uintptr_t)b; /* of a tree that the caller may change */
}

/* A root that leads nowhere goes. */
static void tidy_root(cr_prefix_root *root)
{
    cr_prefix *prefix = root->prefix;
    if (root == &prefix->plain || root->n_holders > 0 || root->block.child)
        return;
    cr_prefix_root **link = &prefix->roots;
    while (*link != root)
        link = &(*link)->next;
    *link = root->next;
    cr_free(prefix->pages->host, CR_MEM_OBJECT, root, sizeof *root);
}

cr_prefix_root *cr_prefix_hold_root(cr_prefix *prefix, cr_digest adapters)
{
    cr_prefix_root *root = prefix->roots;
    while (root && !cr_digest_equal(root->adapters, adapters))
        root = root->next;
    if (cr_digest_equal(adapters, CR_DIGEST_EMPTY))
        root = &prefix->plain;
    if (!root) {
        root = cr_alloc_zero(prefix->pages->host, CR_MEM_OBJECT, sizeof *root);
        if (!root)
            return NULL;
        root->prefix = prefix;
        root->adapters = adapters;
        root->next = prefix->roots;
        prefix->roots = root;
    }
    root->n_holders++;
    return root;
}

void cr_prefix_drop_root(cr_prefix_root *root)
{
    if (!root)
        return;
    root->n_holders--;
    tidy_root(root);
}

cr_digest cr_prefix_adapters(const cr_prefix_root *root)
{
    return root->adapters;
}

/* ---- blocks ------------------------------------------------------------------------------ */

static void set_state(cr_prefix *prefix, block *b, cr_page *state)
{
    if (state) {
        cr_pages_hold_cached(prefix->pages, state);
        prefix->n_states++;
    }
    if (b->state) {
        cr_pages_drop_cached(prefix->pages, b->state);
        prefix->n_states--;
    }
    b->state = state;
}

static void set_page(cr_prefix *prefix, block *b, int group, cr_page *page)
{
    if (page)
        cr_pages_hold_cached(prefix->pages, page);
    cr_pages_drop_cached(prefix->pages, b->pages[group]);
    b->pages[group] = page;
}

static void remove_block(cr_prefix *prefix, block *b)
{
    assert(!b->child);
    block *parent = b->parent;
    block **link = &b->parent->child;
    while (*link != b)
        link = &(*link)->sibling;
    *link = b->sibling;
    unlink_use(prefix, b);
    set_state(prefix, b, NULL);
    for (int g = 0; g < prefix->pages->graph->n_groups; g++)
        set_page(prefix, b, g, NULL);
    b->sibling = prefix->spare;
    prefix->spare = b;
    prefix->n_spare++;
    prefix->n_blocks--;
    if (!parent->parent)
        tidy_root(root_of(parent));
}

/* A child without tokens and pages, or NULL when the stock is empty. */
static block *add_block(cr_prefix *prefix, block *parent)
{
    block *b = prefix->spare;
    if (!b)
        return NULL;
    prefix->spare = b->sibling;
    prefix->n_spare--;
    prefix->n_blocks++;
    *b = (block){ .parent = parent, .sibling = parent->child };
    parent->child = b;
    link_use(prefix, b);
    return b;
}

bool cr_prefix_stock(cr_prefix *prefix, size_t n)
{
    while (prefix->n_spare < n) {
        block *b = cr_alloc(prefix->pages->host, CR_MEM_OBJECT, sizeof *b);
        if (!b)
            return false;
        b->sibling = prefix->spare;
        prefix->spare = b;
        prefix->n_spare++;
    }
    return true;
}

/* ---- evicting ---------------------------------------------------------------------------- */

static bool is_idle(const cr_page *page)
{
    return page && page->n_users == 0;
}

/* Lets go of what the block can do without: its state, a window's pages. False when nothing is
 * freed. */
static bool thin_out(cr_prefix *prefix, block *b)
{
    const cr_graph *graph = prefix->pages->graph;
    bool freed = is_idle(b->state);
    if (freed)
        set_state(prefix, b, NULL);
    for (int g = 0; g < graph->n_groups; g++) {
        if (graph->groups[g].window > 0 && is_idle(b->pages[g])) {
            set_page(prefix, b, g, NULL);
            freed = true;
        }
    }
    return freed;
}

static bool has_idle_page(const cr_prefix *prefix, const block *b)
{
    bool idle = is_idle(b->state);
    for (int g = 0; g < prefix->pages->graph->n_groups; g++)
        idle = idle || is_idle(b->pages[g]);
    return idle;
}

/* Removes the block and all behind it. */
static void remove_branch(cr_prefix *prefix, block *b)
{
    while (b->child) {
        block *leaf = b->child;
        while (leaf->child)
            leaf = leaf->child;
        remove_block(prefix, leaf);
    }
    remove_block(prefix, b);
}

/* The least recently used block whose pages are not all in sessions' use goes. Before the blocks
 * behind it, which sessions then use, go with it, it gives what it can do without. */
static bool evict(void *ctx)
{
    cr_prefix *prefix = ctx;
    block *b = prefix->oldest;
    while (b && !has_idle_page(prefix, b))
        b = b->newer;
    if (!b)
        return false;
    if (!b->child || !thin_out(prefix, b))
        remove_branch(prefix, b);
    prefix->n_evictions++;
    return true;
}

/* Makes room for one more state within their part of the budget. */
static bool make_room_for_state(cr_prefix *prefix)
{
    for (block *b = prefix->oldest; b && prefix->n_states >= prefix->max_states; b = b->newer)
        set_state(prefix, b, NULL);
    return prefix->n_states < prefix->max_states;
}

/* ---- life -------------------------------------------------------------------------------- */

/* States of one session take at most an eighth of the budget, those of all a quarter. */
static void plan_states(cr_prefix *prefix, int n_context)
{
    prefix->spacing = -1;
    if (!prefix->pages->zero_state)
        return;
    size_t bytes = prefix->pages->bytes[cr_pages_state_kind(prefix->pages)];
    size_t n = prefix->pages->budget / 8 / bytes;
    prefix->max_states = prefix->pages->budget / 4 / bytes;
    if (prefix->max_states == 0)
        return;
    size_t n_blocks = ((size_t)n_context + CR_PAGE - 1) / CR_PAGE;
    prefix->spacing = n > 0 ? (int)((n_blocks + n - 1) / n) * CR_PAGE : 0;
}

cera_status cr_prefix_new(cr_pages *pages, int n_context, cr_prefix **out, cera_error *err)
{
    cr_prefix *prefix = cr_alloc_zero(pages->host, CR_MEM_OBJECT, sizeof *prefix);
    if (!prefix)
        return cr_fail_nomem(err, sizeof *prefix, "the prefix tree");
    prefix->pages = pages;
    prefix->plain.prefix = prefix;
    plan_states(prefix, n_context);
    pages->evict = evict;
    pages->ctx = prefix;
    *out = prefix;
    return CERA_OK;
}

void cr_prefix_free(cr_prefix *prefix)
{
    if (!prefix)
        return;
    while (prefix->oldest)
        remove_block(prefix, prefix->oldest);
    for (block *b; (b = prefix->spare) != NULL;) {
        prefix->spare = b->sibling;
        cr_free(prefix->pages->host, CR_MEM_OBJECT, b, sizeof *b);
    }
    prefix->pages->evict = NULL;
    cr_free(prefix->pages->host, CR_MEM_OBJECT, prefix, sizeof *prefix);
}

int cr_prefix_spacing(const cr_prefix *prefix)
{
    return prefix->spacing;
}

/* ---- finding ----------------------------------------------------------------------------- */

/* How many of the first n tokens of a block are ids. */
static int common(const block *b, const int32_t *ids, int n)
{
    int i = 0;
    n = CR_MIN(n, b->n);
    while (i < n && b->ids[i] == ids[i])
        i++;
    return i;
}

/* The child that begins with most of ids[0, n); of equals the one with fewest tokens of its own,
 * which leaves its end, where a state may be, nearest. */
static block *best_child(const block *parent, const int32_t *ids, int n, int *n_common)
{
    block *best = NULL;
    *n_common = 0;
    for (block *b = parent->child; b; b = b->sibling) {
        int c = common(b, ids, n);
        if (c > *n_common || (best && c == *n_common && b->n < best->n)) {
            best = b;
            *n_common = c;
        }
    }
    return best;
}

/* A place where a text may go on: behind `position` tokens of the path that ends with block `last`,
 * number i. */
typedef struct place {
    block *last;
    int i, position;
} place;

/* Whether the path has the windows' pages and the state that a token there needs. */
static bool can_go_on(const cr_prefix *prefix, const place *at)
{
    const cr_graph *graph = prefix->pages->graph;
    bool is_end = at->position == at->i * CR_PAGE + at->last->n;
    if (prefix->pages->zero_state && !(is_end && at->last->state))
        return false;
    for (int g = 0; g < graph->n_groups; g++) {
        int needs = cr_line_needs(graph, g, at->position);
        const block *b = at->last;
        for (int i = at->i; i >= needs && graph->groups[g].window > 0; i--, b = b->parent) {
            if (!b->pages[g])
                return false;
        }
    }
    return true;
}

static void fill_line(cr_prefix *prefix, cr_line *line, const place *from)
{
    cr_pages *pages = prefix->pages;
    cr_line_begin(line, pages, from->position);
    const block *b = from->last;
    for (int i = from->i; i >= 0; i--, b = b->parent) {
        for (int g = 0; g < pages->graph->n_groups; g++) {
            if (i >= line->first[g])
                cr_line_hold(line, pages, g, i, b->pages[g]);
        }
    }
    if (pages->zero_state) {
        cr_pages_hold(pages, from->last->state);
        line->state = from->last->state;
    }
}

void cr_prefix_find(cr_prefix_root *root, const int32_t *ids, size_t n, int least, cr_line *line,
                    int *n_known)
{
    cr_prefix *prefix = root->prefix;
    block *b = &root->block;
    int at = 0, most = (int)n - 1; /* at least one token is left to be computed */
    int c = 0;
    place best = { .position = least };
    /* Whole blocks, as far as they go. */
    for (;;) {
        block *child = best_child(b, ids + at, most - at, &c);
        if (!child || c < CR_PAGE)
            break;
        b = child;
        at += CR_PAGE;
    }
    *n_known = at;
    assert(at <= most);
    /* Then the part of one more; or else the last block whose end will do. */
    for (block *child = b->child; child; child = child->sibling) {
        place part = { child, at / CR_PAGE, at + common(child, ids + at, most - at) };
        if (part.position > CR_MAX(best.position, at) && can_go_on(prefix, &part))
            best = part;
    }
    for (; at > best.position; b = b->parent, at -= CR_PAGE) {
        place end = { b, at / CR_PAGE - 1, at };
        if (can_go_on(prefix, &end))
            best = end;
    }
    bool found = best.position > least;
    if (found) {
        fill_line(prefix, line, &best);
        touch(prefix, best.last);
    }
    prefix->n_hits += found;
    prefix->n_misses += !found;
}

/* The child that has all of ids[0, n); of several the one that ends with them. */
static block *child_with(const block *parent, const int32_t *ids, int n)
{
    block *best = NULL;
    for (block *b = parent->child; b; b = b->sibling) {
        if (common(b, ids, n) == n && (!best || b->n == n))
            best = b;
    }
    return best;
}

/* ---- adding ------------------------------------------------------------------------------ */

static cr_page *page_of(const cr_line *line, int group, int i)
{
    bool held = i >= line->first[group] && i < line->end[group];
    return held ? line->pages[group][i] : NULL;
}

/* Gives a block the line's pages: all of them when it is to have n tokens, more than it had; else
 * those that it lacks. */
static void give_pages(cr_prefix *prefix, block *b, const int32_t *ids, int n, const cr_line *line,
                       int i)
{
    bool grows = n > b->n;
    for (int g = 0; g < prefix->pages->graph->n_groups; g++) {
        cr_page *page = page_of(line, g, i);
        if (page)
            cr_page_fix(page, n);
        if (grows || (page && !b->pages[g] && n == b->n))
            set_page(prefix, b, g, page);
    }
    if (grows) {
        memcpy(b->ids, ids, (size_t)n * sizeof *ids);
        b->n = n;
    }
}

/* The child for ids[0, n): one that has them all, one that has some of them and no state that its
 * own end would be needed for, or a new one. */
static block *child_for(cr_prefix *prefix, block *parent, const int32_t *ids, int n,
                        bool with_state)
{
    block *shorter = NULL;
    for (block *b = parent->child; b; b = b->sibling) {
        int c = common(b, ids, n);
        if (c == n && (b->n == n || !with_state))
            return b;
        if (c == b->n && c < n && !b->state)
            shorter = b;
    }
    return shorter ? shorter : add_block(prefix, parent);
}

void cr_prefix_add(cr_prefix_root *root, const int32_t *ids, int n, const cr_line *line,
                   cr_page *state)
{
    cr_prefix *prefix = root->prefix;
    block *b = &root->block;
    for (int at = 0; at < n; at += CR_PAGE) {
        int n_block = CR_MIN(n - at, CR_PAGE);
        bool is_last = at + n_block == n;
        block *child = child_for(prefix, b, ids + at, n_block, is_last && state);
        if (!child)
            break;
        give_pages(prefix, child, ids + at, n_block, line, at / CR_PAGE);
        b = child;
        if (is_last && state && !b->state && make_room_for_state(prefix))
            set_state(prefix, b, state);
    }
    touch(prefix, b);
}

void cr_prefix_share(const cr_prefix_root *root, const int32_t *ids, cr_line *line)
{
    const cr_prefix *prefix = root->prefix;
    const block *b = &root->block;
    for (int i = 0; b && (i + 1) * CR_PAGE <= line->position; i++) {
        b = child_with(b, ids + i * CR_PAGE, CR_PAGE);
        for (int g = 0; b && g < prefix->pages->graph->n_groups; g++) {
            cr_page *page = page_of(line, g, i);
            if (!page || !b->pages[g] || page == b->pages[g])
                continue;
            cr_line_hold(line, prefix->pages, g, i, b->pages[g]);
            cr_pages_drop(prefix->pages, page);
        }
    }
}

/* ---- for the disk tier ------------------------------------------------------------------- */

/* Bit g: the page of group g. */
static const unsigned STATE_PART = 1u << CR_MAX_GROUPS;

static unsigned parts_of(cr_page *const *pages, const cr_page *state)
{
    unsigned parts = state ? STATE_PART : 0;
    for (int g = 0; g < CR_MAX_GROUPS; g++)
        parts |= pages[g] ? 1u << g : 0;
    return parts;
}

/* The last of the whole blocks that spell the beginning of ids[0, n), and how many they are. */
static block *follow(const cr_prefix_root *root, const int32_t *ids, int n, int *n_blocks)
{
    const block *b = &root->block;
    *n_blocks = 0;
    while ((*n_blocks + 1) * CR_PAGE <= n) {
        int c;
        const block *child = best_child(b, ids + *n_blocks * CR_PAGE, CR_PAGE, &c);
        if (!child || c < CR_PAGE)
            break;
        b = child;
        ++*n_blocks;
    }
    return (block *)(uintptr_t)b; /* of a tree that the caller may change */
}

int cr_prefix_known(const cr_prefix_root *root, const int32_t *ids, int n)
{
    int n_blocks, n_part;
    const block *b = follow(root, ids, n, &n_blocks);
    int at = n_blocks * CR_PAGE;
    best_child(b, ids + at, n - at, &n_part);
    return at + n_part;
}

/* Whole blocks before the last one of a path of n tokens. */
static int blocks_before(int n)
{
    return (n - 1) / CR_PAGE;
}

bool cr_prefix_graft(cr_prefix_root *root, const int32_t *ids, int n, const cr_prefix_parts *parts)
{
    cr_prefix *prefix = root->prefix;
    int n_blocks, n_before = blocks_before(n), n_own = n - n_before * CR_PAGE;
    block *parent = follow(root, ids, n_before * CR_PAGE, &n_blocks);
    ids += n_before * CR_PAGE;
    if (n_blocks < n_before)
        return false;
    const block *same = child_with(parent, ids, n_own);
    if (same && (same->state || !parts->state)) /* somebody was faster */
        return true;
    block *child = child_for(prefix, parent, ids, n_own, parts->state != NULL);
    if (!child)
        return false;
    bool grows = n_own > child->n;
    for (int g = 0; g < prefix->pages->graph->n_groups; g++) {
        if (parts->pages[g])
            cr_page_fix(parts->pages[g], n_own);
        if (grows || !child->pages[g])
            set_page(prefix, child, g, parts->pages[g]);
    }
    memcpy(child->ids, ids, (size_t)n_own * sizeof *ids);
    child->n = child->n_stored = n_own;
    if (parts->state && make_room_for_state(prefix))
        set_state(prefix, child, parts->state);
    child->stored = parts_of(parts->pages, parts->state);
    touch(prefix, child);
    return true;
}

static bool is_stored(const block *b)
{
    return b->n == b->n_stored && (parts_of(b->pages, b->state) & ~b->stored) == 0;
}

cr_prefix_root *cr_prefix_take_unstored(cr_prefix *prefix, int32_t *ids, int *n, int *n_had,
                                        cr_prefix_parts *parts)
{
    const block *b = prefix->newest;
    while (b && is_stored(b))
        b = b->older;
    if (!b)
        return NULL;
    *parts = (cr_prefix_parts){ .state = b->state };
    for (int g = 0; g < prefix->pages->graph->n_groups; g++) {
        parts->pages[g] = b->pages[g];
        if (b->pages[g])
            cr_pages_hold_cached(prefix->pages, b->pages[g]);
    }
    if (b->state)
        cr_pages_hold_cached(prefix->pages, b->state);
    *n = 0;
    for (const block *at = b; at->parent; at = at->parent)
        *n += at->n;
    bool is_end =
        (b->stored & STATE_PART) != 0; /* on the disk, which a longer one does not replace */
    *n_had = b->n_stored > 0 && !is_end ? *n - b->n + b->n_stored : 0;
    int end = *n;
    for (const block *at = b; at->parent; at = at->parent) {
        end -= at->n;
        memcpy(ids + end, at->ids, (size_t)at->n * sizeof *ids);
    }
    cr_prefix_root *root = root_of(b);
    root->n_holders++;
    return root;
}

void cr_prefix_give_back(cr_prefix_root *root, const int32_t *ids, int n,
                         const cr_prefix_parts *parts)
{
    cr_prefix *prefix = root->prefix;
    int n_blocks, n_before = blocks_before(n), n_own = n - n_before * CR_PAGE;
    const block *parent = follow(root, ids, n_before * CR_PAGE, &n_blocks);
    block *b = n_blocks == n_before ? child_with(parent, ids + n_before * CR_PAGE, n_own) : NULL;
    if (b) { /* it may have grown meanwhile */
        unsigned before = b->n_stored == n_own ? b->stored : 0;
        b->stored = before | parts_of(parts->pages, parts->state);
        b->n_stored = n_own;
    }
    for (int g = 0; g < prefix->pages->graph->n_groups; g++)
        cr_pages_drop_cached(prefix->pages, parts->pages[g]);
    cr_pages_drop_cached(prefix->pages, parts->state);
    cr_prefix_drop_root(root);
}

/* ---- stats ------------------------------------------------------------------------------- */

void cr_prefix_count(cr_prefix *prefix, size_t n_reused, size_t n_computed)
{
    prefix->n_reused += n_reused;
    prefix->n_computed += n_computed;
}

void cr_prefix_get_stats(const cr_prefix *prefix, cera_engine_stats *out)
{
    out->n_blocks = prefix->n_blocks;
    out->n_hits = prefix->n_hits;
    out->n_misses = prefix->n_misses;
    out->n_tokens_reused = prefix->n_reused;
    out->n_tokens_computed = prefix->n_computed;
    out->n_evictions = prefix->n_evictions;
}

/* Pages: the memory of keys, values and recurrent state, shared by the sessions of an engine.
 *
 *     sessions ──hold──> page <──hold── prefix tree        nobody holds it: on the free list
 *
 * A page of kind g < n_groups has CR_PAGE positions of cache group g; a page of the last kind is
 * one recurrent state. Pages are counted references: sessions with a common prefix hold the same
 * ones, and the prefix tree holds them too. Who wants to write copies a page that others read, but
 * for one case that saves most copies: behind the positions that others read (`n_fixed`), the one
 * session that has been filling the page may go on filling it.
 *
 * All pages together keep to a budget of bytes: before it is passed, pages on the free list go back
 * to the device, then those that only the prefix tree holds, least recently used first. What
 * sessions hold is never taken from them; it alone may pass the budget.
 *
 * One lock guards the pages and the tree. All functions but new and free are called with it
 * held. */
#ifndef CR_PAGES_H
#define CR_PAGES_H

#include "backend/backend.h"
#include "base/pool.h"

typedef struct cr_page {
    void *data;
    int kind;
    int n_users;  /* references of sessions */
    int n_cached; /* references of the prefix tree */
    int n_fixed;  /* others than the writer may read positions [0, n_fixed): nobody writes them */
    uint64_t writer; /* the session that may write behind them */
    struct cr_page *next;
} cr_page;

enum { CR_MAX_PAGE_KINDS = CR_MAX_GROUPS + 1 };

/* Pages of a kind, by who holds them: sessions (perhaps the tree too), only the tree, nobody. */
typedef struct cr_page_counts {
    size_t n_used, n_cached, n_free;
} cr_page_counts;

typedef struct cr_pages {
    cr_host *host;
    const cr_backend_api *api;
    cr_backend *backend;
    const cr_graph *graph;
    cr_type kv_type;
    cr_lock lock;
    int n_kinds; /* cache groups, then states where the model has any */
    size_t bytes[CR_MAX_PAGE_KINDS];
    cr_page *free[CR_MAX_PAGE_KINDS];
    cr_page_counts counts[CR_MAX_PAGE_KINDS];
    size_t n_bytes; /* of all pages */
    size_t budget;
    void *zero_state; /* the state at position 0; NULL: the model has none */
    uint64_t n_writers;
    /* Drops something that only the prefix tree holds; false when there is nothing. */
    bool (*evict)(void *ctx);
    void *ctx;
} cr_pages;

typedef struct cr_pages_options {
    const cr_backend_api *api;
    cr_backend *backend;
    const cr_graph *graph;
    cr_type kv_type;
    size_t budget;
} cr_pages_options;

/* All is kept. `host`, backend and graph outlive the pages. */
cera_status cr_pages_new(cr_host *host, const cr_pages_options *options, cr_pages **out,
                         cera_error *err);
/* All references have been dropped. */
void cr_pages_free(cr_pages *pages);

static inline void cr_pages_lock(cr_pages *pages)
{
    cr_lock_take(&pages->lock);
}

static inline void cr_pages_unlock(cr_pages *pages)
{
    cr_lock_drop(&pages->lock);
}

/* The kind of recurrent states; only where pages->zero_state is not NULL. */
static inline int cr_pages_state_kind(const cr_pages *pages)
{
    return pages->graph->n_groups;
}

/* The bytes: budget_bytes, page_bytes_*, state_bytes_*, free_bytes. */
void cr_pages_get_stats(const cr_pages *pages, cera_engine_stats *out);

/* A number that no other session has, to write with. */
uint64_t cr_pages_writer(cr_pages *pages);

/* A page for a session to write, with one reference; NULL when there is no memory. Its contents are
 * whatever was there before. */
cr_page *cr_pages_take(cr_pages *pages, int kind, uint64_t writer);
/* Puts pages on the free list until there are n. False when there is no memory. */
bool cr_pages_stock(cr_pages *pages, int kind, size_t n);

void cr_pages_hold(cr_pages *pages, cr_page *page);        /* by a session */
void cr_pages_drop(cr_pages *pages, cr_page *page);        /* NULL is nothing */
void cr_pages_hold_cached(cr_pages *pages, cr_page *page); /* by the tree */
void cr_pages_drop_cached(cr_pages *pages, cr_page *page); /* NULL is nothing */
/* Gives back what passes the budget, as far as nobody holds it: cr_pages_drop does,
 * cr_pages_drop_cached does not. */
void cr_pages_trim(cr_pages *pages);

/* Whether nobody but the caller holds the page. */
bool cr_page_is_sole(const cr_page *page);
/* Others may read positions [0, n) from now on. */
void cr_page_fix(cr_page *page, int n);
/* Whether the session may write at `position` of the page and behind it; if so, it is the
 * writer. */
bool cr_page_may_write(cr_page *page, uint64_t writer, int position);

#endif

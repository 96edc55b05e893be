/* The pool of pages: references, the free lists, the budget. */
#include "session/pages.h"

#include <assert.h>
#include <string.h>

/* ---- life -------------------------------------------------------------------------------- */

static size_t state_bytes(const cr_graph *graph)
{
    return graph->state_floats * sizeof(float);
}

cera_status cr_pages_new(cr_host *host, const cr_pages_options *options, cr_pages **out,
                         cera_error *err)
{
    const cr_graph *graph = options->graph;
    cr_pages *pages = cr_alloc_zero(host, CR_MEM_OBJECT, sizeof *pages);
    if (!pages)
        return cr_fail_nomem(err, sizeof *pages, "the pages");
    pages->host = host;
    pages->api = options->api;
    pages->backend = options->backend;
    pages->graph = graph;
    pages->kv_type = options->kv_type;
    pages->budget = options->budget;
    cr_lock_init(&pages->lock, host);
    for (int g = 0; g < graph->n_groups; g++)
        pages->bytes[pages->n_kinds++] =
            cr_type_bytes(cr_type_get(options->kv_type), graph->groups[g].page_elements);
    if (graph->state_floats > 0) {
        size_t bytes = state_bytes(graph);
        pages->bytes[pages->n_kinds++] = bytes;
        pages->zero_state = pages->api->buf_new(pages->backend, bytes);
        if (!pages->zero_state) {
            cr_pages_free(pages);
            return cr_fail_nomem(err, bytes, "the recurrent state");
        }
        memset(pages->zero_state, 0, bytes);
    }
    *out = pages;
    return CERA_OK;
}

static void destroy(cr_pages *pages, cr_page *page)
{
    size_t bytes = pages->bytes[page->kind];
    pages->n_bytes -= bytes;
    pages->api->buf_free(pages->backend, page->data, bytes);
    cr_free(pages->host, CR_MEM_OBJECT, page, sizeof *page);
}

/* The first free page of a kind, or NULL. */
static cr_page *pop(cr_pages *pages, int kind)
{
    cr_page *page = pages->free[kind];
    if (page) {
        pages->free[kind] = page->next;
        pages->counts[kind].n_free--;
    }
    return page;
}

static void push(cr_pages *pages, cr_page *page)
{
    page->next = pages->free[page->kind];
    pages->free[page->kind] = page;
    pages->counts[page->kind].n_free++;
}

void cr_pages_free(cr_pages *pages)
{
    if (!pages)
        return;
    for (int kind = 0; kind < pages->n_kinds; kind++) {
        assert(pages->counts[kind].n_used + pages->counts[kind].n_cached == 0);
        for (cr_page *page; (page = pop(pages, kind)) != NULL;)
            destroy(pages, page);
    }
    if (pages->zero_state)
        pages->api->buf_free(pages->backend, pages->zero_state, state_bytes(pages->graph));
    cr_free(pages->host, CR_MEM_OBJECT, pages, sizeof *pages);
}

uint64_t cr_pages_writer(cr_pages *pages)
{
    return ++pages->n_writers;
}

/* ---- the budget -------------------------------------------------------------------------- */

/* Gives a free page back to the device, or makes one free. False when nothing can be given. */
static bool give_back(cr_pages *pages)
{
    for (int kind = 0; kind < pages->n_kinds; kind++) {
        cr_page *page = pop(pages, kind);
        if (page) {
            destroy(pages, page);
            return true;
        }
    }
    return pages->evict && pages->evict(pages->ctx);
}

static cr_page *make(cr_pages *pages, int kind)
{
    cr_page *page = cr_alloc_zero(pages->host, CR_MEM_OBJECT, sizeof *page);
    if (!page)
        return NULL;
    page->kind = kind;
    page->data = pages->api->buf_new(pages->backend, pages->bytes[kind]);
    if (!page->data) {
        cr_free(pages->host, CR_MEM_OBJECT, page, sizeof *page);
        return NULL;
    }
    pages->n_bytes += pages->bytes[kind];
    return page;
}

void cr_pages_trim(cr_pages *pages)
{
    while (pages->n_bytes > pages->budget && give_back(pages))
        ;
}

cr_page *cr_pages_take(cr_pages *pages, int kind, uint64_t writer)
{
    cr_page *page = pop(pages, kind);
    while (!page && pages->n_bytes + pages->bytes[kind] > pages->budget && give_back(pages))
        page = pop(pages, kind);
    if (!page)
        page = make(pages, kind);
    if (!page)
        return NULL;
    page->n_users = 1;
    page->n_fixed = 0;
    page->writer = writer;
    pages->counts[kind].n_used++;
    return page;
}

bool cr_pages_stock(cr_pages *pages, int kind, size_t n)
{
    while (pages->counts[kind].n_free < n) {
        if (pages->n_bytes + pages->bytes[kind] > pages->budget)
            return true; /* what is stocked must not cost what is cached */
        cr_page *page = make(pages, kind);
        if (!page)
            return false;
        push(pages, page);
    }
    return true;
}

/* ---- references -------------------------------------------------------------------------- */

/* The count that the page belongs to. */
static size_t *count_of(cr_pages *pages, const cr_page *page)
{
    cr_page_counts *counts = &pages->counts[page->kind];
    return page->n_users > 0 ? &counts->n_used : &counts->n_cached;
}

static void change(cr_pages *pages, cr_page *page, int users, int cached)
{
    --*count_of(pages, page);
    page->n_users += users;
    page->n_cached += cached;
    assert(page->n_users >= 0 && page->n_cached >= 0);
    if (page->n_users + page->n_cached > 0)
        ++*count_of(pages, page);
    else
        push(pages, page);
}

void cr_pages_hold(cr_pages *pages, cr_page *page)
{
    change(pages, page, 1, 0);
}

void cr_pages_drop(cr_pages *pages, cr_page *page)
{
    if (!page)
        return;
    change(pages, page, -1, 0);
    cr_pages_trim(pages);
}

void cr_pages_hold_cached(cr_pages *pages, cr_page *page)
{
    change(pages, page, 0, 1);
}

/* No trimming here: evicting calls this. */
void cr_pages_drop_cached(cr_pages *pages, cr_page *page)
{
    if (page)
        change(pages, page, 0, -1);
}

bool cr_page_is_sole(const cr_page *page)
{
    return page->n_users + page->n_cached == 1;
}

void cr_page_fix(cr_page *page, int n)
{
    page->n_fixed = CR_MAX(page->n_fixed, n);
}

bool cr_page_may_write(cr_page *page, uint64_t writer, int position)
{
    if (cr_page_is_sole(page)) {
        page->n_fixed = 0;
        page->writer = writer;
    }
    return page->writer == writer && position >= page->n_fixed;
}

/* ---- stats ------------------------------------------------------------------------------- */

void cr_pages_get_stats(const cr_pages *pages, cera_engine_stats *out)
{
    out->budget_bytes = pages->budget;
    for (int kind = 0; kind < pages->n_kinds; kind++) {
        const cr_page_counts *counts = &pages->counts[kind];
        size_t used = counts->n_used * pages->bytes[kind];
        size_t cached = counts->n_cached * pages->bytes[kind];
        bool is_state = kind == pages->graph->n_groups;
        *(is_state ? &out->state_bytes_used : &out->page_bytes_used) += used;
        *(is_state ? &out->state_bytes_cached : &out->page_bytes_cached) += cached;
        out->free_bytes += counts->n_free * pages->bytes[kind];
    }
}

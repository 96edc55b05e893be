/* Lines: sharing, copying on write, windows. */
#include "session/line.h"

#include <assert.h>

/* Pages for n positions. */
static int n_pages(int n)
{
    return (n + CR_PAGE - 1) / CR_PAGE;
}

/* ---- life -------------------------------------------------------------------------------- */

bool cr_line_init(cr_line *line, cr_pages *pages, int n_max)
{
    *line = (cr_line){ .n_max = n_max };
    for (int g = 0; g < pages->graph->n_groups; g++) {
        line->pages[g] =
            cr_alloc_zero(pages->host, CR_MEM_OBJECT, (size_t)n_max * sizeof(cr_page *));
        line->data[g] = cr_alloc_zero(pages->host, CR_MEM_OBJECT, (size_t)n_max * sizeof(void *));
        if (!line->pages[g] || !line->data[g])
            return false;
    }
    return true;
}

void cr_line_done(cr_line *line, cr_pages *pages)
{
    cr_pages_lock(pages);
    cr_line_clear(line, pages);
    cr_pages_unlock(pages);
    for (int g = 0; g < pages->graph->n_groups; g++) {
        cr_free(pages->host, CR_MEM_OBJECT, line->pages[g],
                (size_t)line->n_max * sizeof(cr_page *));
        cr_free(pages->host, CR_MEM_OBJECT, line->data[g], (size_t)line->n_max * sizeof(void *));
    }
}

/* ---- what is held ------------------------------------------------------------------------ */

int cr_line_needs(const cr_graph *graph, int group, int position)
{
    int window = graph->groups[group].window;
    return window > 0 && position >= window ? (position + 1 - window) / CR_PAGE : 0;
}

static void put(cr_line *line, int group, int i, cr_page *page)
{
    line->pages[group][i] = page;
    line->data[group][i] = page ? page->data : NULL;
}

void cr_line_hold(cr_line *line, cr_pages *pages, int group, int i, cr_page *page)
{
    assert(page && i >= line->first[group] && i < line->end[group]);
    cr_pages_hold(pages, page);
    put(line, group, i, page);
}

static void drop_first(cr_line *line, cr_pages *pages, int group)
{
    int i = line->first[group]++;
    cr_pages_drop(pages, line->pages[group][i]);
    put(line, group, i, NULL);
}

static void drop_last(cr_line *line, cr_pages *pages, int group)
{
    int i = --line->end[group];
    cr_pages_drop(pages, line->pages[group][i]);
    put(line, group, i, NULL);
}

void cr_line_clear(cr_line *line, cr_pages *pages)
{
    for (int g = 0; g < pages->graph->n_groups; g++) {
        while (line->end[g] > line->first[g])
            drop_last(line, pages, g);
        line->first[g] = line->end[g] = 0;
    }
    cr_pages_drop(pages, line->state);
    line->state = NULL;
    line->position = line->until = 0;
}

bool cr_line_reaches(const cr_line *line, const cr_pages *pages, int position)
{
    for (int g = 0; g < pages->graph->n_groups; g++) {
        if (line->first[g] > cr_line_needs(pages->graph, g, position))
            return false;
    }
    return true;
}

void cr_line_begin(cr_line *line, const cr_pages *pages, int position)
{
    line->position = position;
    for (int g = 0; g < pages->graph->n_groups; g++) {
        line->first[g] = cr_line_needs(pages->graph, g, position);
        line->end[g] = n_pages(position);
        assert(line->first[g] <= line->end[g] && line->end[g] <= line->n_max);
    }
}

void cr_line_share(cr_line *line, cr_pages *pages, const cr_line *from, int position)
{
    cr_line_begin(line, pages, position);
    for (int g = 0; g < pages->graph->n_groups; g++) {
        int end = line->end[g];
        for (int i = line->first[g]; i < end; i++)
            cr_line_hold(line, pages, g, i, from->pages[g][i]);
        /* What `from` has of the last page stays as it is, whoever writes first. */
        if (end > line->first[g])
            cr_page_fix(line->pages[g][end - 1],
                        CR_MIN(from->position - (end - 1) * CR_PAGE, CR_PAGE));
    }
    if (position == from->position && from->state) {
        cr_pages_hold(pages, from->state);
        line->state = from->state;
    }
}

/* ---- writing ----------------------------------------------------------------------------- */

/* Makes the page that the position is in the middle of writable: by copying it if need be. */
static bool own_last(cr_line *line, cr_pages *pages, int group, uint64_t writer)
{
    int n = line->position % CR_PAGE, i = line->position / CR_PAGE;
    if (n == 0 || i >= line->end[group])
        return true;
    cr_page *page = line->pages[group][i];
    cr_pages_lock(pages);
    bool mine = cr_page_may_write(page, writer, n);
    cr_page *copy = mine ? NULL : cr_pages_take(pages, group, writer);
    cr_pages_unlock(pages);
    if (mine || !copy)
        return mine;
    /* Without the lock: the line holds the page, and its first n positions are fixed. */
    pages->api->page_copy(pages->backend, pages->graph, group, pages->kv_type, copy->data,
                          page->data, n);
    cr_pages_lock(pages);
    put(line, group, i, copy);
    cr_pages_drop(pages, page);
    cr_pages_unlock(pages);
    return true;
}

/* Adds new pages up to `end`. */
static bool extend(cr_line *line, cr_pages *pages, int group, uint64_t writer, int end)
{
    if (line->end[group] >= end)
        return true;
    cr_pages_lock(pages);
    while (line->end[group] < end) {
        cr_page *page = cr_pages_take(pages, group, writer);
        if (!page)
            break;
        put(line, group, line->end[group]++, page);
    }
    cr_pages_unlock(pages);
    return line->end[group] >= end;
}

cera_status cr_line_reserve(cr_line *line, cr_pages *pages, uint64_t writer, cr_line_goal goal,
                            cera_error *err)
{
    for (int g = 0; g < pages->graph->n_groups; g++) {
        int end = n_pages(pages->graph->groups[g].window > 0 ? goal.windows : goal.all);
        if (!own_last(line, pages, g, writer) || !extend(line, pages, g, writer, end))
            return cr_fail_nomem(err, pages->bytes[g], "keys and values");
    }
    return CERA_OK;
}

cera_status cr_line_reserve_ring(cr_line *line, cr_pages *pages, uint64_t writer, int n,
                                 cera_error *err)
{
    line->until = line->position + n;
    for (int g = 0; g < pages->graph->n_groups; g++) {
        int end = n_pages(line->until), window = pages->graph->groups[g].window;
        /* A window that begins and ends within pages touches one page more than it has, and one
         * more is moving. Pages that are held already do not count: the tree may hold them, too,
         * and then they cannot go round. */
        if (window > 0)
            end = CR_MIN(end, n_pages(line->position) + n_pages(window) + 2);
        if (!own_last(line, pages, g, writer) || !extend(line, pages, g, writer, end))
            return cr_fail_nomem(err, pages->bytes[g], "keys and values");
    }
    return CERA_OK;
}

int cr_line_room(const cr_line *line, const cr_pages *pages)
{
    int room = line->n_max * CR_PAGE - line->position;
    for (int g = 0; g < pages->graph->n_groups; g++)
        room = CR_MIN(room, line->end[g] * CR_PAGE - line->position);
    return room;
}

bool cr_line_is_reserved(const cr_line *line, const cr_pages *pages)
{
    return cr_line_room(line, pages) > 0;
}

bool cr_line_has_passed(const cr_line *line, const cr_pages *pages)
{
    for (int g = 0; g < pages->graph->n_groups; g++) {
        if (line->first[g] < CR_MIN(cr_line_needs(pages->graph, g, line->position), line->end[g]))
            return true;
    }
    return false;
}

/* Moves the first page of a window behind its last. */
static void move_ahead(cr_line *line, int group, uint64_t writer)
{
    int i = line->first[group]++;
    cr_page *page = line->pages[group][i];
    bool mine = cr_page_may_write(page, writer, 0);
    assert(mine);
    (void)mine;
    put(line, group, i, NULL);
    put(line, group, line->end[group]++, page);
}

void cr_line_pass(cr_line *line, cr_pages *pages, uint64_t writer)
{
    for (int g = 0; g < pages->graph->n_groups; g++) {
        int needs = cr_line_needs(pages->graph, g, line->position);
        while (line->first[g] < CR_MIN(needs, line->end[g])) {
            bool wanted = line->end[g] < n_pages(line->until);
            if (wanted && cr_page_is_sole(line->pages[g][line->first[g]]))
                move_ahead(line, g, writer);
            else
                drop_first(line, pages, g);
        }
    }
}

void cr_line_trim(cr_line *line, cr_pages *pages)
{
    for (int g = 0; g < pages->graph->n_groups; g++) {
        while (line->end[g] > CR_MAX(line->first[g], n_pages(line->position)))
            drop_last(line, pages, g);
    }
    line->until = 0;
}

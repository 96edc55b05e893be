/* A line: the pages that one timeline holds, and how far it has come.
 *
 *     page     0    1    2    3    4
 *     group 0  [x]  [x]  [x]  [x]  [ ]     all layers that see everything; x is held
 *     group 1   .    .   [x]  [x]  [ ]     a window: what it has passed is dropped
 *                            ^ position
 *
 * A session has two lines: where it is, and where a call in progress is going. The second begins as
 * a share of the first (or of what the prefix tree knows), so that a call that fails has changed
 * nothing. */
#ifndef CR_LINE_H
#define CR_LINE_H

#include "session/pages.h"

typedef struct cr_line {
    int position;                   /* computed ones; the next token's */
    int n_max;                      /* pages of a group */
    cr_page **pages[CR_MAX_GROUPS]; /* [n_max], those in [first, end) held */
    void **data[CR_MAX_GROUPS];     /* [n_max] their memory, as batches take it; NULL: not held */
    int first[CR_MAX_GROUPS], end[CR_MAX_GROUPS];
    int until;      /* positions that a generation has reserved: passed pages are moved there */
    cr_page *state; /* at `position`, held; NULL: the zero state, or the model has none */
} cr_line;

/* False when there is no memory. done() is right for a cleared line, too. */
bool cr_line_init(cr_line *line, cr_pages *pages, int n_max);
void cr_line_done(cr_line *line, cr_pages *pages); /* drops what is held */

/* All below are called with the lock held, but for cr_line_reserve and cr_line_is_reserved. */

/* The first page of a group that a token at `position` needs. */
int cr_line_needs(const cr_graph *graph, int group, int position);

/* Drops everything: position 0. */
void cr_line_clear(cr_line *line, cr_pages *pages);
/* Whether the line holds what a token at `position`, at most its own, needs. Recurrent state
 * aside. */
bool cr_line_reaches(const cr_line *line, const cr_pages *pages, int position);
/* Makes an empty line hold what `from` holds for a token at `position`, which it reaches. The state
 * comes along if the position is that of `from`. */
void cr_line_share(cr_line *line, cr_pages *pages, const cr_line *from, int position);
/* Puts an empty line at a position. Each group's pages [first, end), which a token there needs, are
 * then to be given with cr_line_hold. */
void cr_line_begin(cr_line *line, const cr_pages *pages, int position);
void cr_line_hold(cr_line *line, cr_pages *pages, int group, int i, cr_page *page);

/* How far to reserve: groups that see everything, and the others. Memory that a long text takes at
 * once is known at once; a window's is taken as it moves. */
typedef struct cr_line_goal {
    int all, windows;
} cr_line_goal;

/* Makes positions from the line's own up to the goal writable by the session. Takes the lock by
 * itself. On CERA_E_NOMEM some pages may have been added. */
cera_status cr_line_reserve(cr_line *line, cr_pages *pages, uint64_t writer, cr_line_goal goal,
                            cera_error *err);
/* Reserves n positions for single tokens: a window's pages go round, as many as it ever needs. */
cera_status cr_line_reserve_ring(cr_line *line, cr_pages *pages, uint64_t writer, int n,
                                 cera_error *err);
/* Positions behind the line's own that have their pages. */
int cr_line_room(const cr_line *line, const cr_pages *pages);
/* Whether the next token has its pages. */
bool cr_line_is_reserved(const cr_line *line, const cr_pages *pages);

/* Drops the pages that windows have passed, or moves them ahead where a ring was reserved. */
void cr_line_pass(cr_line *line, cr_pages *pages, uint64_t writer);
/* Whether there is something to pass. */
bool cr_line_has_passed(const cr_line *line, const cr_pages *pages);
/* Drops the pages behind the position, and what was reserved. */
void cr_line_trim(cr_line *line, cr_pages *pages);

#endif

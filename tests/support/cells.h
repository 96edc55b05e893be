/* Keys and values of positions, as they were computed, and where: what a session that drops tokens
 * from its middle is held to.
 *
 * The reference for a shifted session is another one, of an engine that keeps nothing, at the same
 * position: the cells are written into its pages, each key turned by hand, in double precision and
 * by the whole difference from where it was computed. For models whose keys may be moved. */
#ifndef CELLS_H
#define CELLS_H

#include "session/session.h"

typedef struct cells {
    const cr_graph *graph;
    int n, n_most, width; /* positions, room for them, floats of one */
    float *values;        /* [n][width]: caches, keys then values, heads, elements */
    int *computed_at;     /* [n] */
} cells;

void cells_init(cells *c, const cr_graph *graph, int n_most);
void cells_done(cells *c);
void cells_set(cells *c, const cells *from);
/* Takes positions [from, to) of a session that computed them where they are; from is at most
 * c->n. */
void cells_read(cells *c, const cr_session *s, int from, int to);
void cells_drop(cells *c, int n_keep, int n_drop);
/* Writes all of them into a session that has come to position c->n at least, and shares no page. */
void cells_write(const cells *c, const cr_session *s);

/* The largest difference of two rows of floats, [n]. */
double cells_distance(const float *a, const float *b, int n);

#endif

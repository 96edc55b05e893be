/* An arena: memory that is given out in pieces and released as a whole. For what lives as long as
 * one object (a file's tensor list, a vocabulary) or one call (marks). */
#ifndef CR_ARENA_H
#define CR_ARENA_H

#include "base/host.h"

typedef struct cr_arena_block cr_arena_block;

typedef struct cr_arena {
    cr_host *host;
    cr_mem purpose;
    cr_arena_block *last;
} cr_arena;

typedef struct cr_arena_mark {
    cr_arena_block *block;
    size_t used;
} cr_arena_mark;

void cr_arena_init(cr_arena *arena, cr_host *host, cr_mem purpose);
void cr_arena_done(cr_arena *arena);

/* size bytes, aligned to 16, cleared; NULL when there is no memory. The block grows with what has
 * been asked for, so that many small pieces cost few calls of the allocator. */
void *cr_arena_alloc(cr_arena *arena, size_t size);
/* count * size with the product checked. */
void *cr_arena_array(cr_arena *arena, size_t count, size_t size);
/* A copy of n bytes with a NUL after them. */
char *cr_arena_copy(cr_arena *arena, const char *text, size_t n);

/* Gives back everything since the mark. */
cr_arena_mark cr_arena_get_mark(const cr_arena *arena);
void cr_arena_to_mark(cr_arena *arena, cr_arena_mark mark);

#endif

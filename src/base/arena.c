/* The arena: a chain of blocks, each twice the one before.
 *
 *     last -> [head|#########......] -> [head|#####] -> [head|##.] -> NULL
 *                           ^ used                  newest first
 */
#include "base/arena.h"

#include "base/arith.h"

#include <string.h>

enum {
    PIECE_ALIGN = 16,
    BLOCK_MIN = 4 << 10,
    BLOCK_MAX = 1 << 20, /* growth stops here; a larger piece gets a block of its own size */
};

/* The head is one cache line, so that the first piece is aligned like the block itself. */
struct cr_arena_block {
    cr_arena_block *previous;
    size_t room; /* bytes after the head */
    size_t used;
    char pad[64 - sizeof(cr_arena_block *) - 2 * sizeof(size_t)];
};

static char *block_bytes(cr_arena_block *block)
{
    return (char *)(block + 1);
}

void cr_arena_init(cr_arena *arena, cr_host *host, cr_mem purpose)
{
    *arena = (cr_arena){ .host = host, .purpose = purpose };
}

void cr_arena_done(cr_arena *arena)
{
    cr_arena_to_mark(arena, (cr_arena_mark){ NULL, 0 });
}

/* A new block with room for a piece; false when there is no memory. */
static bool add_block(cr_arena *arena, size_t piece)
{
    size_t room = BLOCK_MIN - sizeof(cr_arena_block);
    if (arena->last != NULL)
        room = CR_MIN(arena->last->room * 2, (size_t)BLOCK_MAX);
    room = CR_MAX(room, piece);

    size_t size;
    if (!cr_add_size(sizeof(cr_arena_block), room, &size))
        return false;
    cr_arena_block *block = cr_alloc(arena->host, arena->purpose, size);
    if (block == NULL)
        return false;
    block->previous = arena->last;
    block->room = room;
    block->used = 0;
    arena->last = block;
    return true;
}

void *cr_arena_alloc(cr_arena *arena, size_t size)
{
    size_t piece;
    if (!cr_align_up(CR_MAX(size, (size_t)1), PIECE_ALIGN, &piece))
        return NULL;
    if (arena->last == NULL || piece > arena->last->room - arena->last->used) {
        if (!add_block(arena, piece))
            return NULL;
    }
    cr_arena_block *block = arena->last;
    void *ptr = block_bytes(block) + block->used;
    block->used += piece;
    memset(ptr, 0, piece);
    return ptr;
}

void *cr_arena_array(cr_arena *arena, size_t count, size_t size)
{
    size_t total;
    if (!cr_mul_size(count, size, &total))
        return NULL;
    return cr_arena_alloc(arena, total);
}

char *cr_arena_copy(cr_arena *arena, const char *text, size_t n)
{
    size_t size;
    if (!cr_add_size(n, 1, &size))
        return NULL;
    char *copy = cr_arena_alloc(arena, size);
    if (copy != NULL && n > 0)
        memcpy(copy, text, n);
    return copy;
}

cr_arena_mark cr_arena_get_mark(const cr_arena *arena)
{
    return (cr_arena_mark){ arena->last, arena->last != NULL ? arena->last->used : 0 };
}

void cr_arena_to_mark(cr_arena *arena, cr_arena_mark mark)
{
    while (arena->last != mark.block) {
        cr_arena_block *block = arena->last;
        arena->last = block->previous;
        cr_free(arena->host, arena->purpose, block, sizeof *block + block->room);
    }
    if (arena->last != NULL)
        arena->last->used = mark.used;
}

/* Finding special tokens in text: the leftmost, and of those that begin there the longest. */
#ifndef CR_SPECIAL_H
#define CR_SPECIAL_H

#include "base/arena.h"
#include "base/text.h"

/* Longer texts are refused when a vocabulary is opened: the search looks at up to this many bytes
 * for each byte of the text. */
enum { CR_SPECIAL_MAX = 1024 };

/* White space that belongs to a special token: what stands before it, what stands behind. */
enum { CR_STRIP_LEFT = 1, CR_STRIP_RIGHT = 2 };

typedef struct cr_special {
    cr_str text;
    int32_t id;
    unsigned strip;
} cr_special;

/* A set of special tokens, sorted by text. */
typedef struct cr_specials {
    const cr_special *items;
    size_t n;
    uint32_t first[257]; /* items that begin with byte b are [first[b], first[b + 1]) */
    int only;            /* the byte that all of them begin with, -1 when they differ */
} cr_specials;

/* Sorts items[n], which the set keeps; of equal texts the lowest id stays. Texts are not empty. The
 * work space comes from the arena and goes back. False when there is no memory. */
bool cr_specials_init(cr_specials *specials, cr_special *items, size_t n, cr_arena *arena);

/* All of the set that a text begins with, the shortest first: the next one, NULL after the last. A
 * walk begins as zeros and goes on with the same text. */
typedef struct cr_special_walk {
    size_t lo, hi; /* items that agree with the text in its first `depth` bytes */
    size_t depth;
} cr_special_walk;
const cr_special *cr_specials_next(const cr_specials *specials, cr_str text, cr_special_walk *walk);

/* The first special token at or after text[from]: true and its start and item, or false. */
bool cr_specials_find(const cr_specials *specials, cr_str text, size_t from, size_t *at,
                      const cr_special **item);

/* Bytes of white space (Unicode's White_Space) that a text begins or ends with. */
size_t cr_white_begin(cr_str text);
size_t cr_white_end(cr_str text);

#endif

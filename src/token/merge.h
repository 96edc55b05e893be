/* Merging a piece of text into tokens, two neighbours at a time.
 *
 * Encoding a piece starts with its smallest units (bytes, or characters) and, as long as any two
 * neighbours join, joins those of the lowest rank, the leftmost of these first. What the units are,
 * which neighbours join and at what rank is the business of the vocabulary's kind: a table of
 * merges (bpe.c), or the score of the token that the two spell together (spm.c). */
#ifndef CR_MERGE_H
#define CR_MERGE_H

#include "base/text.h"

#define CR_NO_TOKEN UINT32_MAX   /* as an id: these bytes are no token */
#define CR_NEVER_JOIN UINT32_MAX /* as a rank */

/* Two neighbours: their ids, and the bytes [begin, end) of the piece that they cover. */
typedef struct cr_pair {
    uint32_t left, right;
    uint32_t begin, end;
} cr_pair;

typedef struct cr_join {
    uint32_t rank, id; /* what the two become; CR_NEVER_JOIN has no id */
} cr_join;

typedef struct cr_merge_rules {
    const void *ctx; /* for unit and join */
    /* The first unit of `rest`, which is not empty: its size and id. */
    size_t (*unit)(const void *ctx, cr_str rest, uint32_t *id);
    cr_join (*join)(const void *ctx, cr_str piece, const cr_pair *pair);
    void *out; /* for push */
    /* Takes one token of the result, with its bytes. */
    cera_status (*push)(void *out, uint32_t id, cr_str bytes, cera_error *err);
} cr_merge_rules;

/* Pushes the tokens of a piece; *work is memory that calls reuse. Time is n log n in the piece's
 * length, stack constant. */
cera_status cr_merge(const cr_merge_rules *rules, cr_str piece, cr_buf *work, cera_error *err);

#endif

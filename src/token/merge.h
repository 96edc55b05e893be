/* Byte pair encoding: the table of merges, and merging the bytes of one piece.
 *
 * A merge joins two neighbouring tokens into one. Merges are ranked by their place in the file.
 * Encoding a piece starts with a token per byte and, as long as there is one, applies the merge of
 * the lowest rank, the leftmost of these first. */
#ifndef CR_MERGE_H
#define CR_MERGE_H

#include "base/arena.h"
#include "base/text.h"

#define CR_MERGE_NONE UINT32_MAX

typedef struct cr_merge_slot {
    uint32_t left, right;
    uint32_t rank; /* CR_MERGE_NONE: free */
} cr_merge_slot;

/* A merge: left and right become result. */
typedef struct cr_merge {
    uint32_t left, right, rank, result;
} cr_merge;

typedef struct cr_merges {
    cr_merge_slot *slots; /* [1 << bits], open addressing, at most 5/8 full */
    int bits;
    uint32_t *result;      /* [n] token id by rank */
    int32_t byte_ids[256]; /* the token of each single byte, -1 when the vocabulary has none */
} cr_merges;

/* Room for n merges, from the arena. False when there is no memory. */
bool cr_merges_init(cr_merges *merges, cr_arena *arena, size_t n);
/* Adds merges in the order of their ranks, which are below the n of init. The first of equal pairs
 * stays. Adding a few dozen at a time hides the latency of memory: the table of a large vocabulary
 * is larger than the caches. */
void cr_merges_add(cr_merges *merges, const cr_merge *batch, size_t n);

/* Appends the ids of a piece to *ids (a cr_buf of int32_t); *work is memory that calls reuse.
 * Time is n log n in the piece's length, stack constant. CERA_E_UNSUPPORTED when the vocabulary
 * lacks a byte of the piece. */
cera_status cr_merges_encode(const cr_merges *merges, cr_str piece, cr_buf *work, cr_buf *ids,
                             cera_error *err);

#endif

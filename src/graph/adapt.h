/* What adapters add to a graph's projections, while its weights stay as they are:
 *
 *     y = W x + bias + sum over adapters of scale * B (A x)      A [rank][n_cols], B [n_rows][rank]
 *     residual behind layer l += direction l                     control vectors
 *
 * model/adapter.c makes these for a list of adapters; sessions hand them to the backend with every
 * run, so rows of one batch may have different ones. */
#ifndef CR_ADAPT_H
#define CR_ADAPT_H

#include "graph/graph.h"

enum { CR_STRIP = 16 }; /* outputs of B that stand side by side */

/* A and B of one projection by one adapter, made for the kernels that read them.
 *   a   rows as matrix kernels read them: of the token embedding one for each token, [n_vocab][rank]
 *   b   [ceil(n_rows / CR_STRIP)][rank][CR_STRIP], F32 or F16: so that an output's update is a sum
 *       over `rank` vectors, as attention sums values
 * A stack has those of its experts one behind the other. */
typedef struct cr_delta {
    int rank;      /* 0: the adapter adds nothing here */
    float scale;   /* of the file: alpha / rank for most */
    size_t n_rows; /* of B, of one expert */
    cr_weight a;
    cr_type b_type;
    const uint8_t *b;
} cr_delta;

/* Bytes of B of one expert. */
static inline size_t cr_delta_b_bytes(const cr_delta *delta)
{
    size_t n_strips = (delta->n_rows + CR_STRIP - 1) / CR_STRIP;
    return cr_type_bytes(cr_type_get(delta->b_type), n_strips * (size_t)delta->rank * CR_STRIP);
}

/* One adapter's part in a projection. */
typedef struct cr_addend {
    const cr_delta *delta;
    float scale; /* delta->scale times that of the adapter */
    int at;      /* where scale * (A x) stands in a row of cr_batch_seq.reduced */
} cr_addend;

typedef struct cr_adaptation {
    const cr_addend *addends;
    const int *first;  /* [n_slots + 1]: a slot's addends are [first[slot], first[slot + 1]) */
    size_t row_floats; /* of what A makes of one row, for any op */
    const float *const *directions; /* [n_layer], each [n_embd] or NULL; NULL: there are none */
} cr_adaptation;

#endif

/* Placing values: a value lives from the first op that touches it to the last, and values whose
 * lives do not overlap share their floats.
 *
 * Values are placed in the order they were made, each at the lowest offset that no placed value
 * alive at the same time covers. With a handful of values that is as good as anything cleverer. */
#include "graph/graph.h"

enum { ALIGN_FLOATS = 16 }; /* 64 bytes */

static bool lives_overlap(const cr_value_slot *a, const cr_value_slot *b)
{
    return a->first_op <= b->last_op && b->first_op <= a->last_op;
}

size_t cr_graph_padded(size_t width)
{
    return (width + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
}

/* Numbers what adapters may add to. */
static void number_slots(cr_graph *graph)
{
    graph->n_slots = 0;
    for (int i = 0; i < graph->n_ops; i++) {
        cr_op *op = &graph->ops[i];
        const cr_proj *projs[CR_MAX_PROJS];
        int n = cr_op_projs(op, projs);
        if (op->kind == CR_OP_EMBED)
            op->u.embed.slot = graph->n_slots++;
        for (int k = 0; k < n; k++)
            ((cr_proj *)(uintptr_t)projs[k])->slot = graph->n_slots++; /* of an op that is ours */
    }
}

void cr_graph_place(cr_graph *graph)
{
    number_slots(graph);
    graph->row_floats = 0;
    for (int i = 0; i < graph->n_values; i++) {
        cr_value_slot *value = &graph->values[i];
        value->offset = 0;
        for (int j = 0; j < i;) {
            const cr_value_slot *other = &graph->values[j];
            bool collides = lives_overlap(value, other) &&
                            value->offset < other->offset + cr_graph_padded(other->width) &&
                            other->offset < value->offset + cr_graph_padded(value->width);
            if (collides) {
                value->offset = other->offset + cr_graph_padded(other->width);
                j = 0; /* the new place may collide with an earlier one */
            } else {
                j++;
            }
        }
        graph->row_floats =
            CR_MAX(graph->row_floats, value->offset + cr_graph_padded(value->width));
    }
}

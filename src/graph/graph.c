/* Building a graph. */
#include "graph/graph.h"

#include <assert.h>

const char *cr_op_name(cr_op_kind kind)
{
    static const char *const names[] = {
#define OP(name, keeps, meaning) #name,
#include "graph/op.def"
#undef OP
    };
    assert(kind >= 0 && kind < CR_OP_COUNT);
    return names[kind];
}

bool cr_op_keeps(cr_op_kind kind)
{
    enum { PASSES, KEEPS };
    static const bool keeps[] = {
#define OP(name, keeps, meaning) keeps,
#include "graph/op.def"
#undef OP
    };
    assert(kind >= 0 && kind < CR_OP_COUNT);
    return keeps[kind];
}

bool cr_graph_init(cr_graph *graph, cr_arena *arena, const cr_graph_limits *limits)
{
    *graph = (cr_graph){
        .ops = cr_arena_array(arena, (size_t)limits->n_ops, sizeof(cr_op)),
        .values = cr_arena_array(arena, (size_t)limits->n_values, sizeof(cr_value_slot)),
        .caches = cr_arena_array(arena, (size_t)limits->n_caches, sizeof(cr_cache)),
        .states = cr_arena_array(arena, (size_t)limits->n_states, sizeof(cr_state)),
    };
    return graph->ops && graph->values && graph->caches && graph->states;
}

int cr_graph_value(cr_graph *graph, const char *name, size_t width)
{
    graph->values[graph->n_values] =
        (cr_value_slot){ .name = name, .width = width, .first_op = -1, .last_op = -1 };
    return graph->n_values++;
}

/* The group of a window. When there are too many, the last one takes the layer in and sees as far
 * as the farthest of its layers: that costs memory, no correctness. */
static int group_of(cr_graph *graph, int window)
{
    for (int i = 0; i < graph->n_groups; i++) {
        if (graph->groups[i].window == window)
            return i;
    }
    if (graph->n_groups < CR_MAX_GROUPS) {
        graph->groups[graph->n_groups] = (cr_cache_group){ .window = window };
        return graph->n_groups++;
    }
    cr_cache_group *last = &graph->groups[CR_MAX_GROUPS - 1];
    last->window = window == 0 || last->window == 0 ? 0 : CR_MAX(last->window, window);
    return CR_MAX_GROUPS - 1;
}

int cr_graph_cache(cr_graph *graph, int n_head_kv, int head_dim, int window)
{
    int group = group_of(graph, window);
    size_t *elements = &graph->groups[group].page_elements;
    graph->caches[graph->n_caches] = (cr_cache){ n_head_kv, head_dim, group, *elements };
    *elements += 2 * (size_t)n_head_kv * CR_PAGE * (size_t)head_dim;
    return graph->n_caches++;
}

int cr_graph_state(cr_graph *graph, size_t n)
{
    graph->states[graph->n_states] = (cr_state){ n, graph->state_floats };
    graph->state_floats += n;
    return graph->n_states++;
}

int cr_graph_rope(cr_graph *graph, const cr_rope *rope)
{
    assert(graph->n_ropes < CR_MAX_ROPES);
    graph->ropes[graph->n_ropes] = *rope;
    return graph->n_ropes++;
}

static void use_value(cr_graph *graph, int value, int op)
{
    if (value < 0)
        return;
    cr_value_slot *slot = &graph->values[value];
    slot->first_op = slot->first_op < 0 ? op : CR_MIN(slot->first_op, op);
    slot->last_op = CR_MAX(slot->last_op, op);
}

cr_op *cr_graph_op(cr_graph *graph, cr_op_kind kind, int layer, int in, int out)
{
    cr_op *op = &graph->ops[graph->n_ops];
    *op = (cr_op){ .kind = kind, .layer = layer, .in = in, .out = out, .mid = -1 };
    use_value(graph, in, graph->n_ops);
    use_value(graph, out, graph->n_ops);
    graph->n_ops++;
    return op;
}

void cr_graph_mid(cr_graph *graph, cr_op *op, int value)
{
    op->mid = value;
    use_value(graph, value, (int)(op - graph->ops));
}

int cr_op_projs(const cr_op *op, const cr_proj *out[CR_MAX_PROJS])
{
    int n = 0;
    switch (op->kind) {
    case CR_OP_NORM_QKV:
        out[n++] = &op->u.qkv.q;
        out[n++] = &op->u.qkv.k;
        out[n++] = &op->u.qkv.v;
        break;
    case CR_OP_CONV_IN:
        out[n++] = &op->u.conv.in;
        break;
    case CR_OP_SSM_IN:
        out[n++] = &op->u.ssm_in.in;
        break;
    case CR_OP_RESIDUAL:
        out[n++] = &op->u.residual.proj;
        break;
    case CR_OP_NORM_GATE_UP:
        out[n++] = &op->u.gate_up.gate;
        out[n++] = &op->u.gate_up.up;
        break;
    case CR_OP_MOE_ROUTE:
        out[n++] = &op->u.moe_route.router;
        break;
    case CR_OP_MOE_GATE_UP:
        out[n++] = &op->u.moe_gate_up.gate;
        out[n++] = &op->u.moe_gate_up.up;
        break;
    case CR_OP_MOE_DOWN:
        out[n++] = &op->u.moe_down.proj;
        break;
    case CR_OP_HEAD:
        out[n++] = &op->u.head.proj;
        break;
    case CR_OP_EMBED: /* takes a row */
    case CR_OP_ATTEND:
    case CR_OP_SSM_SCAN:
    case CR_OP_COUNT:
        break;
    }
    return n;
}

const cr_routing *cr_op_experts(const cr_op *op)
{
    if (op->kind == CR_OP_MOE_GATE_UP)
        return &op->u.moe_gate_up.routing;
    return op->kind == CR_OP_MOE_DOWN ? &op->u.moe_down.routing : NULL;
}

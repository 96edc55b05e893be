/* Shape rules: what each op demands of its values and tensors.
 *
 * Binding has compared every tensor with the metadata already; these rules compare the ops with
 * each other, so that a mistake in an architecture file is found when a model is opened, by name,
 * and kernels need no checks. */
#include "graph/graph.h"

typedef struct checker {
    const cr_graph *graph;
    const cr_op *op;
    cera_error *err;
} checker;

static cera_status want(const checker *c, const char *what, size_t expected, size_t found)
{
    if (expected == found)
        return CERA_OK;
    return cr_fail(c->err, CERA_E_FORMAT, "%s of layer %d: %s: expected %zu, found %zu",
                   cr_op_name(c->op->kind), c->op->layer, what, expected, found);
}

static cera_status want_norm(const checker *c, const cr_norm *norm, size_t width)
{
    if (!norm->weight)
        return want(c, "norm", width, 0);
    return want(c, norm->weight->name, width, norm->weight->n_cols);
}

static cera_status want_norm_or_none(const checker *c, const cr_norm *norm, size_t width)
{
    return norm->weight ? want_norm(c, norm, width) : CERA_OK;
}

/* proj: [rows][cols] */
static cera_status want_proj(const checker *c, const cr_proj *proj, size_t rows, size_t cols)
{
    CR_TRY(want(c, proj->weight->name, rows, proj->weight->n_rows));
    CR_TRY(want(c, proj->weight->name, cols, proj->weight->n_cols));
    if (proj->bias)
        CR_TRY(want(c, proj->bias->name, rows, proj->bias->n_cols));
    return CERA_OK;
}

static size_t width(const checker *c, int value)
{
    return value < 0 ? 0 : c->graph->values[value].width;
}

static cera_status check_qkv(const checker *c, size_t in, size_t out)
{
    const cr_heads *heads = &c->op->u.qkv.heads;
    size_t dim = (size_t)heads->head_dim;
    size_t kv = (size_t)heads->n_head_kv * dim;
    CR_TRY(want(c, "queries", (size_t)heads->n_head * dim, out));
    CR_TRY(want_norm_or_none(c, &c->op->u.qkv.norm, in));
    CR_TRY(want_proj(c, &c->op->u.qkv.q, out, in));
    CR_TRY(want_proj(c, &c->op->u.qkv.k, kv, in));
    CR_TRY(want_proj(c, &c->op->u.qkv.v, kv, in));
    if (c->op->mid >= 0) { /* norms over the row */
        CR_TRY(want(c, "keys", kv, width(c, c->op->mid)));
        CR_TRY(want_norm(c, &c->op->u.qkv.q_norm, out));
        return want_norm(c, &c->op->u.qkv.k_norm, kv);
    }
    CR_TRY(want_norm_or_none(c, &c->op->u.qkv.q_norm, dim));
    return want_norm_or_none(c, &c->op->u.qkv.k_norm, dim);
}

static cera_status check_conv(const checker *c, size_t in, size_t out)
{
    CR_TRY(want_norm(c, &c->op->u.conv.norm, in));
    CR_TRY(want_proj(c, &c->op->u.conv.in, 3 * out, in));
    CR_TRY(want(c, c->op->u.conv.taps->name, out, c->op->u.conv.taps->n_rows));
    return want(c, "state", (c->op->u.conv.taps->n_cols - 1) * out,
                c->graph->states[c->op->u.conv.state].n);
}

static cera_status check_ssm_in(const checker *c, size_t in, size_t out)
{
    const cr_ssm *ssm = &c->op->u.ssm_in.shape;
    const cr_weight *taps = c->op->u.ssm_in.taps, *bias = c->op->u.ssm_in.taps_bias;
    size_t n = cr_ssm_conv_width(ssm);
    CR_TRY(want(c, "parts", cr_ssm_in_width(ssm), out));
    CR_TRY(want_norm(c, &c->op->u.ssm_in.norm, in));
    CR_TRY(want_proj(c, &c->op->u.ssm_in.in, out, in));
    CR_TRY(want(c, taps->name, n, taps->n_rows));
    if (bias)
        CR_TRY(want(c, bias->name, n, bias->n_cols));
    return want(c, "state", (taps->n_cols - 1) * n, c->graph->states[c->op->u.ssm_in.state].n);
}

static cera_status check_ssm_scan(const checker *c, size_t in, size_t out)
{
    const cr_ssm *ssm = &c->op->u.ssm_scan.shape;
    const cr_weight *of_heads[] = { c->op->u.ssm_scan.step_bias, c->op->u.ssm_scan.decay,
                                    c->op->u.ssm_scan.skip };
    CR_TRY(want(c, "parts", cr_ssm_in_width(ssm), in));
    CR_TRY(want(c, "channels", (size_t)ssm->n_inner, out));
    for (size_t i = 0; i < CR_COUNT(of_heads); i++)
        CR_TRY(want(c, of_heads[i]->name, (size_t)ssm->n_head,
                    of_heads[i]->n_rows * of_heads[i]->n_cols));
    return want(c, "state", out * (size_t)ssm->n_state,
                c->graph->states[c->op->u.ssm_scan.state].n);
}

static cera_status check_residual(const checker *c, size_t in, size_t out)
{
    const cr_weight *in_norm = c->op->u.residual.in_norm.weight;
    if (in_norm)
        CR_TRY(want(c, in_norm->name, in, in_norm->n_rows * in_norm->n_cols));
    CR_TRY(want_norm_or_none(c, &c->op->u.residual.norm, out));
    if (c->op->u.residual.norm.weight)
        CR_TRY(want(c, "projection", out, width(c, c->op->mid)));
    return want_proj(c, &c->op->u.residual.proj, out, in);
}

static cera_status check_moe_route(const checker *c, size_t in, size_t out)
{
    const cr_routing *routing = &c->op->u.moe_route.routing;
    const cr_weight *bias = c->op->u.moe_route.bias;
    size_t n_expert = (size_t)routing->n_expert;
    CR_TRY(want(c, "route", 2 * (size_t)routing->n_used, out));
    CR_TRY(want(c, "logits", n_expert, width(c, c->op->mid)));
    CR_TRY(want_norm(c, &c->op->u.moe_route.norm, in));
    CR_TRY(want_proj(c, &c->op->u.moe_route.router, n_expert, in));
    return bias ? want(c, bias->name, n_expert, bias->n_cols) : CERA_OK;
}

/* The route, and the value of one part for each expert that a row uses. */
static cera_status check_parts(const checker *c, const cr_routing *routing, size_t parts)
{
    size_t n_used = (size_t)routing->n_used, n_ff = (size_t)routing->n_ff;
    CR_TRY(want(c, "route", 2 * n_used, width(c, c->op->mid)));
    return want(c, "parts", n_used * cr_graph_padded(n_ff), parts);
}

static cera_status check_moe_gate_up(const checker *c, size_t in, size_t out)
{
    const cr_routing *routing = &c->op->u.moe_gate_up.routing;
    size_t n_rows = (size_t)routing->n_expert * (size_t)routing->n_ff;
    CR_TRY(want_norm(c, &c->op->u.moe_gate_up.norm, in));
    CR_TRY(want_proj(c, &c->op->u.moe_gate_up.gate, n_rows, in));
    CR_TRY(want_proj(c, &c->op->u.moe_gate_up.up, n_rows, in));
    return check_parts(c, routing, out);
}

static cera_status check_moe_down(const checker *c, size_t in, size_t out)
{
    const cr_routing *routing = &c->op->u.moe_down.routing;
    const cr_proj *proj = &c->op->u.moe_down.proj;
    CR_TRY(want_proj(c, proj, (size_t)routing->n_expert * out, (size_t)routing->n_ff));
    return check_parts(c, routing, in);
}

static cera_status check_op(const checker *c)
{
    const cr_op *op = c->op;
    size_t in = width(c, op->in), out = width(c, op->out);
    switch (op->kind) {
    case CR_OP_EMBED:
        CR_TRY(want(c, op->u.embed.table->name, c->graph->n_vocab, op->u.embed.table->n_rows));
        return want(c, op->u.embed.table->name, out, op->u.embed.table->n_cols);
    case CR_OP_NORM_QKV:
        return check_qkv(c, in, out);
    case CR_OP_ATTEND:
        return want(c, "heads", in, out);
    case CR_OP_CONV_IN:
        return check_conv(c, in, out);
    case CR_OP_SSM_IN:
        return check_ssm_in(c, in, out);
    case CR_OP_SSM_SCAN:
        return check_ssm_scan(c, in, out);
    case CR_OP_RESIDUAL:
        return check_residual(c, in, out);
    case CR_OP_NORM_GATE_UP:
        CR_TRY(want_norm_or_none(c, &op->u.gate_up.norm, in));
        CR_TRY(want_proj(c, &op->u.gate_up.gate, out, in));
        return want_proj(c, &op->u.gate_up.up, out, in);
    case CR_OP_MOE_ROUTE:
        return check_moe_route(c, in, out);
    case CR_OP_MOE_GATE_UP:
        return check_moe_gate_up(c, in, out);
    case CR_OP_MOE_DOWN:
        return check_moe_down(c, in, out);
    case CR_OP_HEAD:
        CR_TRY(want_norm(c, &op->u.head.norm, in));
        return want_proj(c, &op->u.head.proj, c->graph->n_vocab, in);
    case CR_OP_COUNT:
        break;
    }
    return cr_fail(c->err, CERA_E_UNSUPPORTED, "op %d: no shape rule", (int)op->kind);
}

cera_status cr_graph_check(const cr_graph *graph, cera_error *err)
{
    for (int i = 0; i < graph->n_ops; i++)
        CR_TRY(check_op(&(checker){ graph, &graph->ops[i], err }));
    return CERA_OK;
}

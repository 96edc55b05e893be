/* Routed feed-forwards, op by op: which experts a row chooses and with which weights, against
 * double precision and by hand; what the experts add, against the formula; rows do not depend on
 * each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/cpu/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EMBD = 16, FF = 24, PART = 32 /* FF, padded */, MAX_ROWS = 200, MAX_EXPERT = 300 };

/* One layer on its own: token t has row t of the table as its residual stream. Norms are all ones
 * and tables have rows of length sqrt(EMBD), so that a norm changes next to nothing. */
typedef struct layer {
    cr_routing routing;
    float table[MAX_ROWS][EMBD];
    float router[MAX_EXPERT][EMBD];
    float bias[MAX_EXPERT];
    float *gate, *up, *down; /* [n_expert][FF][EMBD], down [n_expert][EMBD][FF]; NULL: route only */
    float residual_scale;
} layer;

typedef struct run {
    cr_host host;
    cr_arena arena;
    cr_graph graph;
    cr_backend *backend;
    cr_plan *plan;
    int residual, logits, route, parts;
} run;

static cr_weight *floats(run *r, const char *name, const float *data, size_t rows, size_t cols)
{
    cr_weight *w = cr_arena_alloc(&r->arena, sizeof *w);
    assert_non_null(w);
    *w = (cr_weight){ .name = name,
                      .type = CR_TYPE_F32,
                      .n_rows = rows,
                      .n_cols = cols,
                      .row_bytes = cols * sizeof(float),
                      .data = (const uint8_t *)(const void *)data };
    return w;
}

static void add_ops(run *r, const layer *l, bool has_bias)
{
    static const float ones[EMBD] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    cr_graph *g = &r->graph;
    size_t n_expert = (size_t)l->routing.n_expert, n_used = (size_t)l->routing.n_used;
    cr_norm norm = { floats(r, "norm", ones, 1, EMBD), 0 };
    cr_op *op = cr_graph_op(g, CR_OP_EMBED, -1, -1, r->residual);
    op->u.embed.table = floats(r, "table", l->table[0], MAX_ROWS, EMBD);
    op->u.embed.scale = 1;
    r->route = cr_graph_value(g, "route", 2 * n_used);
    r->logits = cr_graph_value(g, "logits", n_expert);
    op = cr_graph_op(g, CR_OP_MOE_ROUTE, 0, r->residual, r->route);
    cr_graph_mid(g, op, r->logits);
    op->u.moe_route.norm = norm;
    op->u.moe_route.router.weight = floats(r, "router", l->router[0], n_expert, EMBD);
    op->u.moe_route.bias = has_bias ? floats(r, "bias", l->bias, 1, n_expert) : NULL;
    op->u.moe_route.routing = l->routing;
    if (!l->gate)
        return;
    r->parts = cr_graph_value(g, "parts", n_used * PART);
    op = cr_graph_op(g, CR_OP_MOE_GATE_UP, 0, r->residual, r->parts);
    cr_graph_mid(g, op, r->route);
    op->u.moe_gate_up.norm = norm;
    op->u.moe_gate_up.gate.weight = floats(r, "gate", l->gate, n_expert * FF, EMBD);
    op->u.moe_gate_up.up.weight = floats(r, "up", l->up, n_expert * FF, EMBD);
    op->u.moe_gate_up.routing = l->routing;
    op = cr_graph_op(g, CR_OP_MOE_DOWN, 0, r->parts, r->residual);
    cr_graph_mid(g, op, r->route);
    op->u.moe_down.proj.weight = floats(r, "down", l->down, n_expert * EMBD, FF);
    op->u.moe_down.scale = l->residual_scale;
    op->u.moe_down.routing = l->routing;
}

static void start(run *r, const layer *l, bool has_bias, int n_threads)
{
    memset(r, 0, sizeof *r);
    assert_int_equal(cr_host_set(&r->host, NULL, NULL), CERA_OK);
    cr_arena_init(&r->arena, &r->host, CR_MEM_OBJECT);
    assert_true(
        cr_graph_init(&r->graph, &r->arena, &(cr_graph_limits){ .n_ops = 4, .n_values = 4 }));
    r->graph.n_vocab = MAX_ROWS;
    r->graph.n_embd = EMBD;
    r->residual = cr_graph_value(&r->graph, "residual", EMBD);
    add_ops(r, l, has_bias);
    cera_error err;
    if (cr_graph_check(&r->graph, &err) != CERA_OK)
        fail_msg("%s", err.message);
    cr_graph_place(&r->graph);
    const cr_backend_api *api = &cr_backend_cpu;
    cr_backend_options options = { .n_threads = n_threads };
    assert_int_equal(api->open(&r->host, &options, &r->backend, NULL), CERA_OK);
    for (int i = 0; i < r->graph.n_ops; i++)
        assert_int_equal(api->supports(r->backend, &r->graph.ops[i], NULL), CERA_OK);
    cr_plan_options plan = { .max_rows = MAX_ROWS, .kv_type = CR_TYPE_F32 };
    assert_int_equal(api->plan_new(r->backend, &r->graph, &plan, &r->plan, NULL), CERA_OK);
}

static cera_status compute(run *r, const int32_t *tokens, int n, const atomic_int *cancel)
{
    cr_batch_seq seq = { .n_rows = n, .tokens = tokens, .cancel = cancel };
    cr_batch batch = { .seqs = &seq, .n_seqs = 1, .n_rows = n };
    return cr_backend_cpu.plan_run(r->plan, &batch, NULL);
}

static void stop(run *r)
{
    cr_backend_cpu.plan_free(r->plan);
    cr_backend_cpu.close(r->backend);
    cr_arena_done(&r->arena);
    assert_int_equal(cr_host_live(&r->host), 0);
}

static float next(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return (float)(*random >> 8) * 0x1p-23f - 1.0f;
}

static void fill(float *x, size_t n, float scale, uint32_t *random)
{
    for (size_t i = 0; i < n; i++)
        x[i] = scale * next(random);
}

static layer *new_layer(cr_routing routing)
{
    layer *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->routing = routing;
    l->routing.n_ff = FF;
    l->residual_scale = 1;
    uint32_t random = 7;
    for (int t = 0; t < MAX_ROWS; t++) {
        double sum = 0;
        fill(l->table[t], EMBD, 1, &random);
        for (int i = 0; i < EMBD; i++)
            sum += (double)l->table[t][i] * (double)l->table[t][i];
        for (int i = 0; i < EMBD; i++)
            l->table[t][i] *= (float)sqrt(EMBD / sum);
    }
    fill(l->router[0], MAX_EXPERT * EMBD, 0.7f, &random);
    fill(l->bias, MAX_EXPERT, 0.4f, &random);
    return l;
}

/* Row t's logits are exactly these: the table's row is 4 in the first place, so is its norm. */
static void set_logits(layer *l, const float *logits)
{
    memset(l->table[0], 0, sizeof l->table[0]);
    l->table[0][0] = 4;
    for (int e = 0; e < l->routing.n_expert; e++) {
        memset(l->router[e], 0, sizeof l->router[e]);
        l->router[e][0] = logits[e] / 4;
    }
}

/* ---- the choice -------------------------------------------------------------------------- */

static void check_choice(const layer *l, bool has_bias, const int *experts, const double *weights)
{
    run r;
    start(&r, l, has_bias, 2);
    assert_int_equal(compute(&r, (int32_t[]){ 0 }, 1, NULL), CERA_OK);
    const float *route = cr_plan_value(r.plan, r.route, 0);
    for (int i = 0; i < l->routing.n_used; i++) {
        assert_int_equal((int)route[l->routing.n_used + i], experts[i]);
        if (isnan(weights[i]))
            assert_true(isnan(route[i]));
        else if (!(fabs((double)route[i] - weights[i]) <= 1e-6 * fabs(weights[i]) + 1e-30))
            fail_msg("choice %d: weight %g instead of %g", i, (double)route[i], weights[i]);
    }
    stop(&r);
}

static void choices_by_hand(void **state)
{
    (void)state;
    cr_routing routing = {
        .n_expert = 5, .n_used = 2, .gating = CR_GATING_SOFTMAX, .normalized = true, .scale = 1
    };
    layer *l = new_layer(routing);
    double e1 = exp(1), e2 = exp(2), e3 = exp(3), all = 1 + e1 + 2 * e2 + e3;

    set_logits(l, (float[]){ 1, 3, 2, 2, 0 }); /* of equals the lower one */
    check_choice(l, false, (int[]){ 1, 2 }, (double[]){ e3 / (e3 + e2), e2 / (e3 + e2) });
    l->routing.scale = 2.5f;
    l->routing.normalized = false;
    check_choice(l, false, (int[]){ 1, 2 }, (double[]){ 2.5 * e3 / all, 2.5 * e2 / all });

    /* The bias chooses and does not weigh. */
    float bias[5] = { 0, 0, 0, 0.001f, 2 };
    memcpy(l->bias, bias, sizeof bias);
    check_choice(l, true, (int[]){ 4, 1 }, (double[]){ 2.5 * 1 / all, 2.5 * e3 / all });

    l->routing = routing;
    l->routing.gating = CR_GATING_SIGMOID;
    l->routing.n_ff = FF;
    double s1 = 1 / (1 + exp(-1)), s3 = 1 / (1 + exp(-3)), s0 = 0.5;
    check_choice(l, true, (int[]){ 4, 1 }, (double[]){ s0 / (s0 + s3), s3 / (s0 + s3) });
    memset(l->bias, 0, sizeof bias);
    l->routing.n_used = 5;
    double s2 = 1 / (1 + exp(-2)), sum = s0 + s1 + 2 * s2 + s3;
    check_choice(l, true, (int[]){ 1, 2, 3, 0, 4 },
                 (double[]){ s3 / sum, s2 / sum, s2 / sum, s1 / sum, s0 / sum });

    /* All equal, and all nearly 0: the sum has a floor. */
    l->routing.n_used = 2;
    set_logits(l, (float[]){ -40, -40, -40, -40, -40 });
    double tiny = exp(-40) / 0x1p-14;
    check_choice(l, false, (int[]){ 0, 1 }, (double[]){ tiny, tiny });
    set_logits(l, (float[]){ -200, 200, -200, 200, 200 });
    check_choice(l, false, (int[]){ 1, 3 }, (double[]){ 0.5, 0.5 });

    /* A NaN comes first and shows; so many experts are chosen, whatever they hold. */
    set_logits(l, (float[]){ 1, 2, NAN, 3, 0 });
    l->routing.normalized = false;
    check_choice(l, false, (int[]){ 2, 3 }, (double[]){ (double)NAN, s3 });
    l->routing.gating = CR_GATING_SOFTMAX;
    check_choice(l, false, (int[]){ 0, 1 }, (double[]){ (double)NAN, (double)NAN });
    free(l);
}

/* More experts than a chunk of the softmax and than a tile of the router, against double
 * precision. */
static void many_experts(void **state)
{
    (void)state;
    cr_routing routing = { .n_expert = MAX_EXPERT, .n_used = 9, .normalized = false, .scale = 1 };
    layer *l = new_layer(routing);
    run r;
    start(&r, l, false, 3);
    int32_t tokens[MAX_ROWS];
    for (int t = 0; t < MAX_ROWS; t++)
        tokens[t] = t;
    assert_int_equal(compute(&r, tokens, MAX_ROWS, NULL), CERA_OK);
    for (int t = 0; t < MAX_ROWS; t++) {
        double p[MAX_EXPERT], sum = 0;
        for (int e = 0; e < MAX_EXPERT; e++) {
            double logit = 0;
            for (int i = 0; i < EMBD; i++)
                logit += (double)l->router[e][i] * (double)l->table[t][i];
            p[e] = exp(logit);
            sum += p[e];
        }
        const float *route = cr_plan_value(r.plan, r.route, t), *chosen = route + 9;
        bool taken[MAX_EXPERT] = { false };
        for (int i = 0; i < 9; i++) {
            int e = (int)chosen[i];
            assert_true(e >= 0 && e < MAX_EXPERT && !taken[e]);
            taken[e] = true;
            assert_true(fabs((double)route[i] - p[e] / sum) <= 1e-5 * p[e] / sum);
            assert_true(i == 0 || route[i] <= route[i - 1]);
        }
        for (int e = 0; e < MAX_EXPERT; e++)
            assert_true(taken[e] || p[e] / sum <= (double)route[8] * (1 + 1e-5));
    }
    stop(&r);
    free(l);
}

/* ---- the experts ------------------------------------------------------------------------- */

static layer *layer_with_experts(cr_routing routing)
{
    layer *l = new_layer(routing);
    size_t n = (size_t)routing.n_expert * FF * EMBD;
    l->gate = calloc(3 * n, sizeof *l->gate);
    assert_non_null(l->gate);
    l->up = l->gate + n;
    l->down = l->up + n;
    uint32_t random = 99;
    fill(l->gate, 3 * n, 0.5f, &random);
    l->residual_scale = 0.75f;
    return l;
}

static void expert_in_double(const layer *l, int e, const float *x, double out[EMBD])
{
    double hidden[FF];
    for (int f = 0; f < FF; f++) {
        double g = 0, u = 0;
        for (int i = 0; i < EMBD; i++) {
            g += (double)l->gate[(e * FF + f) * EMBD + i] * (double)x[i];
            u += (double)l->up[(e * FF + f) * EMBD + i] * (double)x[i];
        }
        hidden[f] = g / (1 + exp(-g)) * u;
    }
    for (int i = 0; i < EMBD; i++) {
        out[i] = 0;
        for (int f = 0; f < FF; f++)
            out[i] += (double)l->down[(e * EMBD + i) * FF + f] * hidden[f];
    }
}

static void experts_add_up(void **state)
{
    (void)state;
    cr_routing routing = { .n_expert = 11, .n_used = 3, .normalized = true, .scale = 1.25f };
    layer *l = layer_with_experts(routing);
    run r;
    start(&r, l, true, 3);
    int32_t tokens[MAX_ROWS];
    for (int t = 0; t < MAX_ROWS; t++)
        tokens[t] = (t * 7) % MAX_ROWS;
    assert_int_equal(compute(&r, tokens, MAX_ROWS, NULL), CERA_OK);
    float batched[MAX_ROWS][EMBD];
    for (int t = 0; t < MAX_ROWS; t++) {
        const float *got = cr_plan_value(r.plan, r.residual, t), *x = l->table[tokens[t]];
        const float *route = cr_plan_value(r.plan, r.route, t);
        memcpy(batched[t], got, sizeof batched[t]);
        double want[EMBD], y[EMBD];
        for (int i = 0; i < EMBD; i++)
            want[i] = (double)x[i];
        for (int k = 0; k < 3; k++) {
            expert_in_double(l, (int)route[3 + k], x, y);
            for (int i = 0; i < EMBD; i++)
                want[i] += 0.75 * (double)route[k] * y[i];
        }
        for (int i = 0; i < EMBD; i++)
            assert_true(fabs((double)got[i] - want[i]) < 1e-4);
    }
    stop(&r);

#ifndef CERA_WITH_BLAS /* which has orders of its own */
    /* Row by row, and in a batch of another size with one thread: the same bits. */
    start(&r, l, true, 1);
    for (int t = 0; t < MAX_ROWS; t++) {
        assert_int_equal(compute(&r, &tokens[t], 1, NULL), CERA_OK);
        assert_memory_equal(cr_plan_value(r.plan, r.residual, 0), batched[t], sizeof batched[t]);
    }
    assert_int_equal(compute(&r, tokens + 50, 77, NULL), CERA_OK);
    for (int t = 0; t < 77; t++)
        assert_memory_equal(cr_plan_value(r.plan, r.residual, t), batched[50 + t],
                            sizeof batched[0]);
    stop(&r);
#endif
    free(l->gate);
    free(l);
}

/* A run that is asked to end at once must not index by what was never written. */
static void cancelled_at_once(void **state)
{
    (void)state;
    cr_routing routing = { .n_expert = 11, .n_used = 3, .normalized = true, .scale = 1 };
    layer *l = layer_with_experts(routing);
    run r;
    start(&r, l, false, 3);
    /* What was in the memory before. */
    memset(r.plan->values, 0x7f, MAX_ROWS * r.graph.row_floats * sizeof(float));
    atomic_int cancel = 1;
    int32_t tokens[MAX_ROWS] = { 0 };
    assert_int_equal(compute(&r, tokens, MAX_ROWS, &cancel), CERA_E_CANCELLED);
    stop(&r);
    free(l->gate);
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_by_hand),
        cmocka_unit_test(many_experts),
        cmocka_unit_test(experts_add_up),
        cmocka_unit_test(cancelled_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

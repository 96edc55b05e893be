/* Graphs: values that live together do not share memory, those that do not may, and an op whose
 * tensors do not fit is refused by op, layer and tensor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

static cr_host host;
static cr_arena arena;

static int set_up(void **state)
{
    (void)state;
    if (cr_host_set(&host, NULL, NULL) != CERA_OK)
        return -1;
    cr_arena_init(&arena, &host, CR_MEM_OBJECT);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cr_arena_done(&arena);
    return cr_host_live(&host) == 0 ? 0 : -1;
}

static void ops_have_names(void **state)
{
    (void)state;
    static const char *const names[] = { "EMBED",     "NORM_QKV",    "ATTEND",   "CONV_IN",
                                         "SSM_IN",    "SSM_SCAN",    "RESIDUAL", "NORM_GATE_UP",
                                         "MOE_ROUTE", "MOE_GATE_UP", "MOE_DOWN", "HEAD" };
    assert_int_equal(CR_COUNT(names), CR_OP_COUNT);
    for (int i = 0; i < CR_OP_COUNT; i++)
        assert_string_equal(cr_op_name((cr_op_kind)i), names[i]);
}

/* What later runs read: keys and values, and the states of convolutions and recurrences. */
static void ops_that_keep(void **state)
{
    (void)state;
    for (int i = 0; i < CR_OP_COUNT; i++)
        assert_int_equal(cr_op_keeps((cr_op_kind)i), i == CR_OP_NORM_QKV || i == CR_OP_CONV_IN ||
                                                         i == CR_OP_SSM_IN || i == CR_OP_SSM_SCAN);
}

/* ---- placing ----------------------------------------------------------------------------- */

/* A chain a -> b -> c -> d: each lives with its neighbours only. */
static void a_chain_shares(void **state)
{
    (void)state;
    cr_graph g;
    assert_true(cr_graph_init(&g, &arena, &(cr_graph_limits){ .n_ops = 3, .n_values = 5 }));
    int a = cr_graph_value(&g, "a", 10), b = cr_graph_value(&g, "b", 20);
    int c = cr_graph_value(&g, "c", 33), d = cr_graph_value(&g, "d", 1);
    int unused = cr_graph_value(&g, "unused", 7);
    cr_graph_op(&g, CR_OP_RESIDUAL, 0, a, b);
    cr_graph_op(&g, CR_OP_RESIDUAL, 1, b, c);
    cr_graph_op(&g, CR_OP_RESIDUAL, 2, c, d);
    assert_int_equal(g.values[b].first_op, 0);
    assert_int_equal(g.values[b].last_op, 1);
    assert_int_equal(g.values[unused].first_op, -1);
    cr_graph_place(&g);
    /* In order, each at the lowest free place; rounded up to 16 floats. */
    assert_int_equal(g.values[a].offset, 0);
    assert_int_equal(g.values[b].offset, 16);
    assert_int_equal(g.values[c].offset, 48);
    assert_int_equal(g.values[d].offset, 0);
    assert_int_equal(g.row_floats, 96);
}

static void assert_placed(const cr_graph *g)
{
    for (int i = 0; i < g->n_values; i++) {
        const cr_value_slot *a = &g->values[i];
        assert_int_equal(a->offset % 16, 0);
        assert_true(a->offset + a->width <= g->row_floats);
        for (int j = 0; j < i; j++) {
            const cr_value_slot *b = &g->values[j];
            bool together = a->first_op <= b->last_op && b->first_op <= a->last_op;
            bool apart = a->offset + a->width <= b->offset || b->offset + b->width <= a->offset;
            if (together && a->first_op >= 0 && b->first_op >= 0)
                assert_true(apart);
        }
    }
}

static void random_graphs_are_placed(void **state)
{
    (void)state;
    enum { N_GRAPHS = 300, N_VALUES = 12, N_OPS = 30 };
    uint32_t random = 1;
    size_t n_shared = 0;
    for (int round = 0; round < N_GRAPHS; round++) {
        cr_arena_mark mark = cr_arena_get_mark(&arena);
        cr_graph g;
        cr_graph_limits limits = { .n_ops = N_OPS, .n_values = N_VALUES };
        assert_true(cr_graph_init(&g, &arena, &limits));
        size_t sum = 0;
        for (int i = 0; i < N_VALUES; i++) {
            random = random * 1664525u + 1013904223u;
            size_t width = 1 + (random >> 8) % 100;
            cr_graph_value(&g, "v", width);
            sum += (width + 15) / 16 * 16;
        }
        for (int i = 0; i < N_OPS; i++) {
            random = random * 1664525u + 1013904223u;
            /* Mostly values of the neighbourhood, so that lives are of all lengths. */
            int near = i * N_VALUES / N_OPS;
            int in = (random >> 8) % 8 == 0 ? (int)(random >> 12) % N_VALUES : near;
            int out = (random >> 16) % 4 == 0 ? (int)(random >> 20) % N_VALUES : -1;
            cr_graph_op(&g, CR_OP_RESIDUAL, 0, in, out);
        }
        cr_graph_place(&g);
        assert_placed(&g);
        assert_true(g.row_floats <= sum);
        n_shared += g.row_floats < sum;
        cr_arena_to_mark(&arena, mark);
    }
    assert_true(n_shared > N_GRAPHS / 2);
}

static void caches_and_states_add_up(void **state)
{
    (void)state;
    cr_graph g;
    assert_true(cr_graph_init(&g, &arena, &(cr_graph_limits){ .n_caches = 8, .n_states = 2 }));
    assert_int_equal(cr_graph_cache(&g, 2, 32, 0), 0);
    assert_int_equal(cr_graph_cache(&g, 1, 64, 0), 1);
    assert_int_equal(g.caches[0].offset, 0);
    assert_int_equal(g.caches[1].offset, 2 * 2 * 64 * 32); /* keys and values of 64 positions */
    assert_int_equal(g.n_groups, 1);
    assert_int_equal(g.groups[0].page_elements, 2 * 2 * 64 * 32 + 2 * 64 * 64);

    /* A group per window; what comes after the last one joins it, and it sees as far as both. */
    static const struct {
        int window, group, n_groups, sees;
    } rows[] = {
        { 512, 1, 2, 512 }, { 512, 1, 2, 512 }, { 128, 2, 3, 128 },
        { 256, 3, 4, 256 }, { 300, 3, 4, 300 }, { 100, 3, 4, 300 },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        const cr_cache *cache = &g.caches[cr_graph_cache(&g, 1, 32, rows[i].window)];
        assert_int_equal(cache->group, rows[i].group);
        assert_int_equal(g.n_groups, rows[i].n_groups);
        assert_int_equal(g.groups[cache->group].window, rows[i].sees);
    }
    assert_int_equal(g.groups[1].page_elements, 2 * 2 * 64 * 32);
    assert_int_equal(g.groups[3].page_elements, 3 * 2 * 64 * 32);
    assert_int_equal(cr_graph_state(&g, 100), 0);
    assert_int_equal(cr_graph_state(&g, 7), 1);
    assert_int_equal(g.states[1].offset, 100);
    assert_int_equal(g.state_floats, 107);
}

/* ---- shape rules ------------------------------------------------------------------------- */

enum { EMBD = 32, N_HEAD = 4, N_HEAD_KV = 2, DIM = 16, FF = 48, VOCAB = 50, TAPS = 3 };
enum { N_EXPERT = 5, N_USED = 2, FF_EXPERT = 24, PART = 32 /* padded */ };
enum { Q = N_HEAD * DIM, KV = N_HEAD_KV * DIM };
/* Of the state space: channels in 3 heads, one group of 8 numbers each for b and c. */
enum { INNER = 24, SSM_CONV = INNER + 2 * 8, SSM_IN = INNER + SSM_CONV + 3, SSM_TAPS = 4 };

/* A graph with one op of each kind, whose sizes all differ. */
typedef struct sample {
    cr_weight w[40];
    int n;
    cr_graph g;
} sample;

static const cr_weight *weight(sample *s, const char *name, size_t rows, size_t cols)
{
    assert_true(s->n < (int)CR_COUNT(s->w));
    s->w[s->n] = (cr_weight){ .name = name, .n_rows = rows, .n_cols = cols };
    return &s->w[s->n++];
}

static cr_norm norm(sample *s, const char *name, size_t n)
{
    return (cr_norm){ weight(s, name, 1, n), 1e-5f };
}

static cr_proj proj(sample *s, const char *name, size_t rows, size_t cols, const char *bias)
{
    return (cr_proj){ .weight = weight(s, name, rows, cols),
                      .bias = bias ? weight(s, bias, 1, rows) : NULL };
}

static void make_sample(sample *s)
{
    s->n = 0;
    cr_graph *g = &s->g;
    cr_graph_limits limits = { .n_ops = 16, .n_values = 10, .n_caches = 1, .n_states = 3 };
    assert_true(cr_graph_init(g, &arena, &limits));
    g->n_vocab = VOCAB;
    g->n_embd = EMBD;
    int residual = cr_graph_value(g, "residual", EMBD), query = cr_graph_value(g, "query", Q);
    int mixed = cr_graph_value(g, "mixed", Q), gated = cr_graph_value(g, "gated", FF);
    int conv = cr_graph_value(g, "conv", EMBD);
    int projected = cr_graph_value(g, "projected", SSM_IN);
    int scanned = cr_graph_value(g, "scanned", INNER);

    cr_op *op = cr_graph_op(g, CR_OP_EMBED, -1, -1, residual);
    op->u.embed.table = weight(s, "embed", VOCAB, EMBD);

    op = cr_graph_op(g, CR_OP_NORM_QKV, 0, residual, query);
    op->u.qkv.norm = norm(s, "attn_norm", EMBD);
    op->u.qkv.q = proj(s, "q", Q, EMBD, "q_bias");
    op->u.qkv.k = proj(s, "k", KV, EMBD, "k_bias");
    op->u.qkv.v = proj(s, "v", KV, EMBD, NULL);
    op->u.qkv.q_norm = norm(s, "q_norm", DIM);
    op->u.qkv.k_norm = norm(s, "k_norm", DIM);
    op->u.qkv.heads = (cr_heads){ N_HEAD, N_HEAD_KV, DIM };
    op->u.qkv.cache = cr_graph_cache(g, N_HEAD_KV, DIM, 0);

    op = cr_graph_op(g, CR_OP_ATTEND, 0, query, mixed);
    op->u.attend.heads = (cr_heads){ N_HEAD, N_HEAD_KV, DIM };
    op = cr_graph_op(g, CR_OP_RESIDUAL, 0, mixed, residual);
    op->u.residual.proj = proj(s, "attn_out", EMBD, Q, "attn_out_bias");

    op = cr_graph_op(g, CR_OP_CONV_IN, 1, residual, conv);
    op->u.conv.norm = norm(s, "conv_norm", EMBD);
    op->u.conv.in = proj(s, "conv_in", 3 * EMBD, EMBD, NULL);
    op->u.conv.taps = weight(s, "taps", EMBD, TAPS);
    op->u.conv.state = cr_graph_state(g, (TAPS - 1) * EMBD);
    op = cr_graph_op(g, CR_OP_RESIDUAL, 1, conv, residual);
    op->u.residual.proj = proj(s, "conv_out", EMBD, EMBD, NULL);

    op = cr_graph_op(g, CR_OP_NORM_GATE_UP, 1, residual, gated);
    op->u.gate_up.norm = norm(s, "ffn_norm", EMBD);
    op->u.gate_up.gate = proj(s, "gate", FF, EMBD, NULL);
    op->u.gate_up.up = proj(s, "up", FF, EMBD, "up_bias");
    op = cr_graph_op(g, CR_OP_RESIDUAL, 1, gated, residual);
    op->u.residual.proj = proj(s, "down", EMBD, FF, NULL);

    cr_routing routing = { .n_expert = N_EXPERT, .n_used = N_USED, .n_ff = FF_EXPERT };
    int logits = cr_graph_value(g, "logits", N_EXPERT);
    int route = cr_graph_value(g, "route", 2 * N_USED);
    int parts = cr_graph_value(g, "parts", N_USED * PART);
    op = cr_graph_op(g, CR_OP_MOE_ROUTE, 2, residual, route);
    cr_graph_mid(g, op, logits);
    op->u.moe_route.norm = norm(s, "route_norm", EMBD);
    op->u.moe_route.router = proj(s, "router", N_EXPERT, EMBD, NULL);
    op->u.moe_route.bias = weight(s, "router_bias", 1, N_EXPERT);
    op->u.moe_route.routing = routing;
    op = cr_graph_op(g, CR_OP_MOE_GATE_UP, 2, residual, parts);
    cr_graph_mid(g, op, route);
    op->u.moe_gate_up.norm = norm(s, "expert_norm", EMBD);
    op->u.moe_gate_up.gate = proj(s, "gates", N_EXPERT * FF_EXPERT, EMBD, NULL);
    op->u.moe_gate_up.up = proj(s, "ups", N_EXPERT * FF_EXPERT, EMBD, NULL);
    op->u.moe_gate_up.routing = routing;
    op = cr_graph_op(g, CR_OP_MOE_DOWN, 2, parts, residual);
    cr_graph_mid(g, op, route);
    op->u.moe_down.proj = proj(s, "downs", N_EXPERT * EMBD, FF_EXPERT, NULL);
    op->u.moe_down.routing = routing;

    cr_ssm ssm = { INNER, 3, 1, 8 };
    op = cr_graph_op(g, CR_OP_SSM_IN, 3, residual, projected);
    op->u.ssm_in.shape = ssm;
    op->u.ssm_in.norm = norm(s, "ssm_in_norm", EMBD);
    op->u.ssm_in.in = proj(s, "ssm_in", SSM_IN, EMBD, NULL);
    op->u.ssm_in.taps = weight(s, "ssm_taps", SSM_CONV, SSM_TAPS);
    op->u.ssm_in.taps_bias = weight(s, "ssm_taps_bias", 1, SSM_CONV);
    op->u.ssm_in.state = cr_graph_state(g, (SSM_TAPS - 1) * SSM_CONV);
    op = cr_graph_op(g, CR_OP_SSM_SCAN, 3, projected, scanned);
    op->u.ssm_scan.shape = ssm;
    op->u.ssm_scan.step_bias = weight(s, "step_bias", 1, 3);
    op->u.ssm_scan.decay = weight(s, "decay", 1, 3);
    op->u.ssm_scan.skip = weight(s, "skip", 1, 3);
    op->u.ssm_scan.state = cr_graph_state(g, 8 * INNER);
    op = cr_graph_op(g, CR_OP_RESIDUAL, 3, scanned, residual);
    op->u.residual.in_norm = norm(s, "ssm_norm", INNER);
    op->u.residual.proj = proj(s, "ssm_out", EMBD, INNER, NULL);

    op = cr_graph_op(g, CR_OP_HEAD, -1, residual, -1);
    op->u.head.norm = norm(s, "output_norm", EMBD);
    op->u.head.proj = proj(s, "output", VOCAB, EMBD, NULL);
}

static void a_tensor_that_does_not_fit_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *op;
        bool is_vector;
    } rows[] = {
        { "embed", "EMBED of layer -1", false },
        { "attn_norm", "NORM_QKV of layer 0", true },
        { "q", "NORM_QKV of layer 0", false },
        { "q_bias", "NORM_QKV of layer 0", true },
        { "k", "NORM_QKV of layer 0", false },
        { "k_bias", "NORM_QKV of layer 0", true },
        { "v", "NORM_QKV of layer 0", false },
        { "q_norm", "NORM_QKV of layer 0", true },
        { "k_norm", "NORM_QKV of layer 0", true },
        { "attn_out", "RESIDUAL of layer 0", false },
        { "attn_out_bias", "RESIDUAL of layer 0", true },
        { "conv_norm", "CONV_IN of layer 1", true },
        { "conv_in", "CONV_IN of layer 1", false },
        { "taps", "CONV_IN of layer 1", false },
        { "conv_out", "RESIDUAL of layer 1", false },
        { "ffn_norm", "NORM_GATE_UP of layer 1", true },
        { "gate", "NORM_GATE_UP of layer 1", false },
        { "up", "NORM_GATE_UP of layer 1", false },
        { "up_bias", "NORM_GATE_UP of layer 1", true },
        { "down", "RESIDUAL of layer 1", false },
        { "route_norm", "MOE_ROUTE of layer 2", true },
        { "router", "MOE_ROUTE of layer 2", false },
        { "router_bias", "MOE_ROUTE of layer 2", true },
        { "expert_norm", "MOE_GATE_UP of layer 2", true },
        { "gates", "MOE_GATE_UP of layer 2", false },
        { "ups", "MOE_GATE_UP of layer 2", false },
        { "downs", "MOE_DOWN of layer 2", false },
        { "ssm_in_norm", "SSM_IN of layer 3", true },
        { "ssm_in", "SSM_IN of layer 3", false },
        { "ssm_taps", "SSM_IN of layer 3", false },
        { "ssm_taps_bias", "SSM_IN of layer 3", true },
        { "step_bias", "SSM_SCAN of layer 3", true },
        { "decay", "SSM_SCAN of layer 3", true },
        { "skip", "SSM_SCAN of layer 3", true },
        { "ssm_norm", "RESIDUAL of layer 3", true },
        { "ssm_out", "RESIDUAL of layer 3", false },
        { "output_norm", "HEAD of layer -1", true },
        { "output", "HEAD of layer -1", false },
    };
    sample s;
    make_sample(&s);
    cera_error err;
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_OK);
    assert_int_equal(s.n, CR_COUNT(rows)); /* every tensor has a row */
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        for (int by_rows = 0; by_rows < (rows[i].is_vector ? 1 : 2); by_rows++) {
            make_sample(&s);
            cr_weight *w = s.w;
            while (strcmp(w->name, rows[i].name) != 0)
                w++;
            size_t *size = by_rows ? &w->n_rows : &w->n_cols;
            /* Taps show in the state's size. */
            bool is_taps = strstr(w->name, "taps") && w->n_rows > 1 && !by_rows;
            char expected[128];
            if (is_taps)
                snprintf(expected, sizeof expected, "%s: state: expected %zu, found %zu",
                         rows[i].op, *size * w->n_rows, (*size - 1) * w->n_rows);
            else
                snprintf(expected, sizeof expected, "%s: %s: expected %zu, found %zu", rows[i].op,
                         w->name, *size, *size + 1);
            ++*size;
            assert_int_equal(cr_graph_check(&s.g, &err), CERA_E_FORMAT);
            assert_int_equal(err.status, CERA_E_FORMAT);
            assert_string_equal(err.message, expected);
        }
    }
}

static void values_that_do_not_fit_are_named(void **state)
{
    (void)state;
    sample s;
    cera_error err;
    make_sample(&s);
    s.g.ops[1].u.qkv.heads.n_head = N_HEAD + 1;
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_E_FORMAT);
    assert_string_equal(err.message, "NORM_QKV of layer 0: queries: expected 80, found 64");

    make_sample(&s);
    s.g.ops[1].u.qkv.heads.n_head_kv = 1;
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_E_FORMAT);
    assert_string_equal(err.message, "NORM_QKV of layer 0: k: expected 16, found 32");

    make_sample(&s);
    s.g.ops[2].out = 0; /* into the residual stream */
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_E_FORMAT);
    assert_string_equal(err.message, "ATTEND of layer 0: heads: expected 64, found 32");

    make_sample(&s);
    s.g.ops[0].kind = CR_OP_COUNT;
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_E_UNSUPPORTED);
    assert_int_equal(cr_graph_check(&s.g, NULL), CERA_E_UNSUPPORTED);

    /* A head norm is optional, a norm of the row wants its place between the steps. */
    make_sample(&s);
    s.g.ops[1].u.qkv.q_norm.weight = s.g.ops[1].u.qkv.k_norm.weight = NULL;
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_OK);
    cr_graph_mid(&s.g, &s.g.ops[1], 4);
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_E_FORMAT);
    assert_string_equal(err.message, "NORM_QKV of layer 0: norm: expected 64, found 0");
    cr_graph_mid(&s.g, &s.g.ops[1], 1);
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_E_FORMAT);
    assert_string_equal(err.message, "NORM_QKV of layer 0: keys: expected 32, found 64");

    make_sample(&s);
    s.g.ops[3].u.residual.norm = norm(&s, "post_norm", EMBD);
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_E_FORMAT);
    assert_string_equal(err.message, "RESIDUAL of layer 0: projection: expected 32, found 0");
    cr_graph_mid(&s.g, &s.g.ops[3], 4);
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_OK);
    assert_true(s.g.values[4].first_op == 3 && s.g.values[4].last_op == 5);

    /* A route for another number of experts; a part that is not padded; experts of another
     * width. */
    make_sample(&s);
    s.g.ops[8].u.moe_route.routing.n_used = 3;
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_E_FORMAT);
    assert_string_equal(err.message, "MOE_ROUTE of layer 2: route: expected 6, found 4");
    make_sample(&s);
    s.g.ops[8].mid = -1;
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_E_FORMAT);
    assert_string_equal(err.message, "MOE_ROUTE of layer 2: logits: expected 5, found 0");
    make_sample(&s);
    s.g.ops[9].u.moe_gate_up.routing.n_used = 1;
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_E_FORMAT);
    assert_string_equal(err.message, "MOE_GATE_UP of layer 2: route: expected 2, found 4");
    make_sample(&s);
    s.g.values[9].width = N_USED * FF_EXPERT;
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_E_FORMAT);
    assert_string_equal(err.message, "MOE_GATE_UP of layer 2: parts: expected 64, found 48");
    make_sample(&s);
    s.g.ops[10].mid = -1;
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_E_FORMAT);
    assert_string_equal(err.message, "MOE_DOWN of layer 2: route: expected 4, found 0");

    make_sample(&s);
    s.g.ops[12].u.ssm_scan.shape.n_state = 7;
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_E_FORMAT);
    assert_string_equal(err.message, "SSM_SCAN of layer 3: parts: expected 65, found 67");
    make_sample(&s);
    s.g.states[2].n--;
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_E_FORMAT);
    assert_string_equal(err.message, "SSM_SCAN of layer 3: state: expected 192, found 191");
    make_sample(&s);
    s.g.ops[13].u.residual.in_norm.weight = NULL; /* optional */
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_OK);

    make_sample(&s);
    s.g.ops[s.g.n_ops - 1].u.head.norm.weight = NULL;
    assert_int_equal(cr_graph_check(&s.g, &err), CERA_E_FORMAT);
    assert_string_equal(err.message, "HEAD of layer -1: norm: expected 32, found 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_have_names),
        cmocka_unit_test(ops_that_keep),
        cmocka_unit_test(a_chain_shares),
        cmocka_unit_test(random_graphs_are_placed),
        cmocka_unit_test(caches_and_states_add_up),
        cmocka_unit_test(a_tensor_that_does_not_fit_is_named),
        cmocka_unit_test(values_that_do_not_fit_are_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* Lowering: layers to ops. */
#include "model/block.h"

#include <math.h>

typedef struct lowering {
    const cr_arch *arch;
    const cr_hparams *hp;
    const cr_tensors *tensors;
    cr_graph *graph;
    /* Values that all have: the residual stream, queries, the mixer's output. */
    int residual, query, mixed;
    /* Those that the first layer in need of one makes: a convolution's output; keys, and what joins
     * the residual stream, where a norm of the whole row comes first; a state space's input and
     * output; a gated feed-forward, that of the shared expert, those of a row's own experts, and
     * what chooses these. */
    int conv, key, joining, projected, scanned, gated, shared, parts, logits, route;
    int rope, rope_local; /* the graph's ropes for those of the hyper-parameters */
    int n_context;        /* positions of a session */
} lowering;

void cr_layer_attention(const cr_hparams *hp, int i, cr_layer *out)
{
    *out = (cr_layer){
        .mixer = CR_MIXER_ATTENTION,
        .heads = { hp->n_head, hp->n_head_kv[i], hp->head_dim },
        .routed = hp->routing.n_expert > 0 && i >= hp->n_layer_dense,
        .rope = &hp->rope,
        .window = hp->window[i],
    };
}

static cr_proj proj(const cr_weight *weight, const cr_weight *bias)
{
    return (cr_proj){ .weight = weight, .bias = bias };
}

static cr_norm norm(const lowering *l, const cr_weight *weight)
{
    return (cr_norm){ weight, l->hp->norm_eps };
}

static int value_once(lowering *l, int *value, const char *name, size_t width)
{
    if (*value < 0)
        *value = cr_graph_value(l->graph, name, width);
    return *value;
}

/* residual += scale * post_norm(weight in) */
static cr_op *lower_residual(lowering *l, int i, int in, cr_proj projection,
                             const cr_weight *post_norm)
{
    cr_op *op = cr_graph_op(l->graph, CR_OP_RESIDUAL, i, in, l->residual);
    op->u.residual.proj = projection;
    op->u.residual.norm = norm(l, post_norm);
    op->u.residual.scale = l->hp->residual_scale;
    if (post_norm)
        cr_graph_mid(l->graph, op, value_once(l, &l->joining, "joining", l->graph->n_embd));
    return op;
}

static void lower_attention(lowering *l, int i, const cr_layer *layer)
{
    const cr_weight *const *w = l->tensors->layer[i];
    /* A window that no session outgrows is none. */
    int window = layer->window < l->n_context ? layer->window : 0;
    int cache = cr_graph_cache(l->graph, layer->heads.n_head_kv, layer->heads.head_dim, window);

    cr_op *op = cr_graph_op(l->graph, CR_OP_NORM_QKV, i, l->residual, l->query);
    op->u.qkv.norm = norm(l, w[CR_SLOT_MIXER_NORM]);
    op->u.qkv.q = proj(w[CR_SLOT_Q], w[CR_SLOT_Q_BIAS]);
    op->u.qkv.k = proj(w[CR_SLOT_K], w[CR_SLOT_K_BIAS]);
    op->u.qkv.v = proj(w[CR_SLOT_V], w[CR_SLOT_V_BIAS]);
    op->u.qkv.q_norm = norm(l, w[CR_SLOT_Q_NORM]);
    op->u.qkv.k_norm = norm(l, w[CR_SLOT_K_NORM]);
    op->u.qkv.heads = layer->heads;
    op->u.qkv.rope = layer->rope == &l->hp->rope         ? l->rope
                     : layer->rope == &l->hp->rope_local ? l->rope_local
                                                         : -1;
    op->u.qkv.cache = cache;
    const cr_weight *q_norm = w[CR_SLOT_Q_NORM];
    size_t dim = (size_t)layer->heads.head_dim;
    if (q_norm && q_norm->n_cols != dim)
        cr_graph_mid(l->graph, op,
                     value_once(l, &l->key, "key", (size_t)layer->heads.n_head_kv * dim));

    op = cr_graph_op(l->graph, CR_OP_ATTEND, i, l->query, l->mixed);
    op->u.attend.heads = layer->heads;
    op->u.attend.scale = l->hp->attn_scale;
    op->u.attend.temperature = l->hp->temperature;
    op->u.attend.temperature_length = l->hp->temperature_length;
    op->u.attend.cap = l->hp->attn_cap;
    op->u.attend.window = layer->window;
    op->u.attend.cache = cache;

    lower_residual(l, i, l->mixed, proj(w[CR_SLOT_ATTN_OUT], w[CR_SLOT_ATTN_OUT_BIAS]),
                   w[CR_SLOT_MIXER_POST_NORM]);
}

static void lower_conv(lowering *l, int i)
{
    const cr_weight *const *w = l->tensors->layer[i];
    size_t n_state = (size_t)(l->hp->n_taps - 1) * (size_t)l->hp->n_embd;
    int conv = value_once(l, &l->conv, "conv", l->graph->n_embd);

    cr_op *op = cr_graph_op(l->graph, CR_OP_CONV_IN, i, l->residual, conv);
    op->u.conv.norm = norm(l, w[CR_SLOT_MIXER_NORM]);
    op->u.conv.in = proj(w[CR_SLOT_CONV_IN], NULL);
    op->u.conv.taps = w[CR_SLOT_CONV_TAPS];
    op->u.conv.state = cr_graph_state(l->graph, n_state);

    lower_residual(l, i, conv, proj(w[CR_SLOT_CONV_OUT], NULL), w[CR_SLOT_MIXER_POST_NORM]);
}

/* A state decays: it is multiplied by exp(step * decay), where the step is positive. */
static cera_status check_decay(const cr_weight *decay, cera_error *err)
{
    for (size_t i = 0; i < decay->n_rows; i++) {
        float rate = cr_weight_f32(decay)[i];
        if (!isfinite(rate) || rate > 0)
            return cr_fail(err, CERA_E_FORMAT,
                           "%s: expected finite numbers that are not positive, found %g at %zu",
                           decay->name, (double)rate, i);
    }
    return CERA_OK;
}

static cera_status lower_ssm(lowering *l, int i, cera_error *err)
{
    const cr_weight *const *w = l->tensors->layer[i];
    const cr_ssm *ssm = &l->hp->ssm;
    size_t n_inner = (size_t)ssm->n_inner, n_past = (size_t)l->hp->n_taps - 1;
    int projected = value_once(l, &l->projected, "projected", cr_ssm_in_width(ssm));
    int scanned = value_once(l, &l->scanned, "scanned", n_inner);
    CR_TRY(check_decay(w[CR_SLOT_SSM_DECAY], err));

    cr_op *op = cr_graph_op(l->graph, CR_OP_SSM_IN, i, l->residual, projected);
    op->u.ssm_in.shape = *ssm;
    op->u.ssm_in.norm = norm(l, w[CR_SLOT_MIXER_NORM]);
    op->u.ssm_in.in = proj(w[CR_SLOT_SSM_IN], NULL);
    op->u.ssm_in.taps = w[CR_SLOT_SSM_TAPS];
    op->u.ssm_in.taps_bias = w[CR_SLOT_SSM_TAPS_BIAS];
    op->u.ssm_in.state = cr_graph_state(l->graph, n_past * cr_ssm_conv_width(ssm));

    op = cr_graph_op(l->graph, CR_OP_SSM_SCAN, i, projected, scanned);
    op->u.ssm_scan.shape = *ssm;
    op->u.ssm_scan.step_bias = w[CR_SLOT_SSM_STEP_BIAS];
    op->u.ssm_scan.decay = w[CR_SLOT_SSM_DECAY];
    op->u.ssm_scan.skip = w[CR_SLOT_SSM_SKIP];
    op->u.ssm_scan.state = cr_graph_state(l->graph, n_inner * (size_t)ssm->n_state);

    op = lower_residual(l, i, scanned, proj(w[CR_SLOT_SSM_OUT], NULL), w[CR_SLOT_MIXER_POST_NORM]);
    op->u.residual.in_norm = norm(l, w[CR_SLOT_SSM_NORM]);
    return CERA_OK;
}

static cera_status lower_mixer(lowering *l, int i, const cr_layer *layer, cera_error *err)
{
    switch (layer->mixer) {
    case CR_MIXER_ATTENTION:
        lower_attention(l, i, layer);
        break;
    case CR_MIXER_CONV:
        lower_conv(l, i);
        break;
    case CR_MIXER_SSM:
        return lower_ssm(l, i, err);
    }
    return CERA_OK;
}

/* The experts that each row uses, up to what they add to the residual stream. */
static void lower_experts(lowering *l, int i)
{
    const cr_weight *const *w = l->tensors->layer[i];
    const cr_routing *routing = &l->hp->routing;
    size_t n_used = (size_t)routing->n_used;
    int logits = value_once(l, &l->logits, "logits", (size_t)routing->n_expert);
    int route = value_once(l, &l->route, "route", 2 * n_used);
    int parts = value_once(l, &l->parts, "parts", n_used * cr_graph_padded((size_t)routing->n_ff));

    cr_op *op = cr_graph_op(l->graph, CR_OP_MOE_ROUTE, i, l->residual, route);
    cr_graph_mid(l->graph, op, logits);
    op->u.moe_route.norm = norm(l, w[CR_SLOT_FFN_NORM]);
    op->u.moe_route.router = proj(w[CR_SLOT_ROUTER], NULL);
    op->u.moe_route.bias = w[CR_SLOT_ROUTER_BIAS];
    op->u.moe_route.routing = *routing;

    op = cr_graph_op(l->graph, CR_OP_MOE_GATE_UP, i, l->residual, parts);
    cr_graph_mid(l->graph, op, route);
    op->u.moe_gate_up.norm = norm(l, w[CR_SLOT_FFN_NORM]);
    op->u.moe_gate_up.gate = proj(w[CR_SLOT_GATE_EXPERTS], NULL);
    op->u.moe_gate_up.up = proj(w[CR_SLOT_UP_EXPERTS], NULL);
    op->u.moe_gate_up.function = l->hp->gate;
    op->u.moe_gate_up.routing = *routing;
}

static void lower_experts_down(lowering *l, int i)
{
    cr_op *op = cr_graph_op(l->graph, CR_OP_MOE_DOWN, i, l->parts, l->residual);
    cr_graph_mid(l->graph, op, l->route);
    op->u.moe_down.proj = proj(l->tensors->layer[i][CR_SLOT_DOWN_EXPERTS], NULL);
    op->u.moe_down.scale = l->hp->residual_scale;
    op->u.moe_down.routing = l->hp->routing;
}

/* A dense feed-forward, or routed experts, or both: a shared expert is a dense one beside the
 * others. Both read the residual stream before either adds to it. */
static void lower_ffn(lowering *l, int i, const cr_layer *layer)
{
    const cr_weight *const *w = l->tensors->layer[i];
    const cr_weight *gate = w[CR_SLOT_GATE];
    int gated = -1;

    if (layer->routed)
        lower_experts(l, i);
    if (gate) {
        gated = layer->routed ? value_once(l, &l->shared, "shared", gate->n_rows)
                              : value_once(l, &l->gated, "gated", gate->n_rows);
        cr_op *op = cr_graph_op(l->graph, CR_OP_NORM_GATE_UP, i, l->residual, gated);
        op->u.gate_up.norm = norm(l, w[CR_SLOT_FFN_NORM]);
        op->u.gate_up.gate = proj(gate, w[CR_SLOT_GATE_BIAS]);
        op->u.gate_up.up = proj(w[CR_SLOT_UP], w[CR_SLOT_UP_BIAS]);
        op->u.gate_up.function = l->hp->gate;
    }
    if (layer->routed)
        lower_experts_down(l, i);
    if (gate)
        lower_residual(l, i, gated, proj(w[CR_SLOT_DOWN], w[CR_SLOT_DOWN_BIAS]),
                       w[CR_SLOT_FFN_POST_NORM]);
}

/* Whether every state is one of a convolution, which knows it at any row. */
static bool has_states_at_pages(const cr_graph *graph)
{
    int n = 0;
    for (int i = 0; i < graph->n_ops; i++)
        n += graph->ops[i].kind == CR_OP_CONV_IN;
    return n == graph->n_states;
}

/* The ops behind the last one that keeps something. */
static int count_result_ops(const cr_graph *graph)
{
    int n = 0;
    while (n < graph->n_ops && !cr_op_keeps(graph->ops[graph->n_ops - 1 - n].kind))
        n++;
    return n;
}

/* The pair, as a number with a fraction, that makes so many turns within the first context. */
static double pair_of_turns(const cr_rotary *rotary, float turns)
{
    double full = (double)rotary->n_context_first / ((double)turns * 2 * 3.14159265358979323846);
    return (double)rotary->n_dims * log(full) / (2 * log((double)rotary->base));
}

/* By how much YaRN divides positions for pair i: by the factor (1), not at all (0), or in part. */
static double yarn_share(const cr_rotary *rotary, size_t i)
{
    double low = fmax(floor(pair_of_turns(rotary, rotary->beta_fast)), 0);
    double high = fmin(ceil(pair_of_turns(rotary, rotary->beta_slow)), rotary->n_dims - 1);
    double share = ((double)i - low) / fmax(high - low, 0.001);
    return fmin(fmax(share, 0), 1);
}

/* Frequencies of the pairs: base^(-2i / n_dims), scaled, over the file's factors where it has
 * them. */
static cera_status make_rope(const lowering *l, const cr_rotary *rotary, const cr_weight *factors,
                             cr_arena *arena, int *out, cera_error *err)
{
    size_t n = (size_t)rotary->n_dims / 2;
    float *freq = cr_arena_array(arena, n, sizeof *freq);
    if (!freq)
        return cr_fail_nomem(err, n * sizeof *freq, "the rotary frequencies");
    for (size_t i = 0; i < n; i++) {
        double f = pow((double)rotary->base, -2.0 * (double)i / (double)rotary->n_dims);
        double divided = rotary->scaling == CR_ROPE_LINEAR ? 1
                         : rotary->scaling == CR_ROPE_YARN ? yarn_share(rotary, i)
                                                           : 0;
        f = f / (double)rotary->factor * divided + f * (1 - divided);
        if (factors) {
            float factor = cr_weight_f32(factors)[i];
            if (!isfinite(factor) || factor <= 0)
                return cr_fail(err, CERA_E_FORMAT,
                               "%s: expected finite positive numbers, found %g at %zu",
                               factors->name, (double)factor, i);
            f /= (double)factor;
        }
        freq[i] = (float)f;
        if (!isfinite(freq[i]))
            return cr_fail(
                err, CERA_E_FORMAT,
                "rope: base %g and factor %g give pair %zu a frequency that is not finite",
                (double)rotary->base, (double)rotary->factor, i);
    }
    *out = cr_graph_rope(l->graph, &(cr_rope){ rotary->style, rotary->n_dims, freq, rotary->gain });
    return CERA_OK;
}

/* A model has factors for all contexts, or some for its first one and others for longer ones. */
static const cr_weight *rope_factors(const lowering *l, int n_context)
{
    const cr_weight *const *w = l->tensors->global;
    if (w[CR_SLOT_ROPE_FACTORS])
        return w[CR_SLOT_ROPE_FACTORS];
    return w[n_context > l->hp->rope.n_context_first ? CR_SLOT_ROPE_LONG : CR_SLOT_ROPE_SHORT];
}

/* A long rope without its factors would read well within the first context only. */
static cera_status check_long_rope(const lowering *l, cera_error *err)
{
    const cr_weight *const *w = l->tensors->global;
    if (l->hp->rope.scaling != CR_ROPE_LONG || (w[CR_SLOT_ROPE_LONG] && w[CR_SLOT_ROPE_SHORT]))
        return CERA_OK;
    return cr_fail(err, CERA_E_FORMAT,
                   "%s.rope.scaling.type: \"longrope\" needs rope_factors_long.weight and "
                   "rope_factors_short.weight",
                   l->arch->name);
}

cera_status cr_build(const cr_arch *arch, const cr_hparams *hp, const cr_tensors *tensors,
                     int n_context, cr_arena *arena, cr_graph *out, cera_error *err)
{
    cr_graph graph;
    lowering l = {
        .arch = arch, .hp = hp, .tensors = tensors, .graph = &graph, .n_context = n_context
    };
    l.conv = l.key = l.joining = l.projected = l.scanned = l.rope = l.rope_local = -1;
    l.gated = l.shared = l.parts = l.logits = l.route = -1;
    cr_graph_limits limits = {
        .n_ops = 2 + 8 * hp->n_layer,
        .n_values = 13,
        .n_caches = hp->n_layer,
        .n_states = 2 * hp->n_layer,
    };
    if (!cr_graph_init(&graph, arena, &limits))
        return cr_fail_nomem(err, 0, "the graph");
    graph.n_vocab = (size_t)hp->n_vocab;
    graph.n_embd = (size_t)hp->n_embd;
    CR_TRY(check_long_rope(&l, err));
    if (hp->rope.n_dims > 0)
        CR_TRY(make_rope(&l, &hp->rope, rope_factors(&l, n_context), arena, &l.rope, err));
    if (hp->rope_local.n_dims > 0)
        CR_TRY(make_rope(&l, &hp->rope_local, NULL, arena, &l.rope_local, err));

    size_t q_width = (size_t)hp->n_head * (size_t)hp->head_dim;
    l.residual = cr_graph_value(&graph, "residual", graph.n_embd);
    l.query = cr_graph_value(&graph, "query", q_width);
    l.mixed = cr_graph_value(&graph, "mixed", q_width);

    cr_op *op = cr_graph_op(&graph, CR_OP_EMBED, -1, -1, l.residual);
    op->u.embed.table = tensors->global[CR_SLOT_EMBED];
    op->u.embed.scale = hp->embed_scale;

    for (int i = 0; i < hp->n_layer; i++) {
        cr_layer layer = { 0 };
        arch->layer(hp, i, &layer);
        CR_TRY(lower_mixer(&l, i, &layer, err));
        if (hp->n_ff > 0)
            lower_ffn(&l, i, &layer);
    }

    const cr_weight *output = tensors->global[CR_SLOT_OUTPUT];
    op = cr_graph_op(&graph, CR_OP_HEAD, -1, l.residual, -1);
    op->u.head.norm = norm(&l, tensors->global[CR_SLOT_OUTPUT_NORM]);
    op->u.head.proj = proj(output ? output : tensors->global[CR_SLOT_EMBED],
                           tensors->global[CR_SLOT_OUTPUT_BIAS]);
    op->u.head.scale = hp->logit_scale;
    op->u.head.cap = hp->logit_cap;

    graph.n_result_ops = count_result_ops(&graph);
    graph.states_at_pages = has_states_at_pages(&graph);
    CR_TRY(cr_graph_check(&graph, err));
    cr_graph_place(&graph);
    *out = graph;
    return CERA_OK;
}

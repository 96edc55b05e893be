/* From metadata and tensors to a graph: what is read, and what a file gets that does not fit
 * together: an error that names the key or the tensor, with both numbers. The files are toy models
 * with one field changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fault_host.h"
#include "support/toy_model.h"

#include "api/objects.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Small and with every optional part: 2 layers, 32 wide, 2 heads of 16 over 1 kv head. */
static toy_spec small(const char *arch)
{
    toy_spec spec;
    toy_spec_init(&spec, arch, CR_TYPE_F32);
    spec.n_layer = 2;
    spec.n_embd = 32;
    spec.n_ff = 48;
    spec.n_head = 2;
    spec.head_dim = 24;
    spec.rope_dims = 16;
    spec.n_head_kv[0] = strncmp(arch, "lfm2", 4) == 0 ? 0 : 1;
    spec.n_head_kv[1] = 1;
    if (spec.ssm_inner > 0) {
        spec.n_head_kv[0] = 0;
        spec.ssm_inner = 64;
        spec.ssm_heads = 4;
        spec.ssm_state = 8;
    }
    if (strcmp(arch, "mamba2") == 0)
        spec.n_ff = spec.n_head = spec.head_dim = spec.rope_dims = spec.n_head_kv[1] = 0;
    spec.bias = true; /* where the architecture has any */
    spec.factors = strcmp(arch, "llama") == 0 || strcmp(arch, "mistral3") == 0;
    if (strcmp(arch, "mistral3") == 0)
        spec.temperature = 0.1f;
    if (strcmp(arch, "phi3") == 0) {
        spec.long_short = true;
        spec.first_context = 128;
        spec.scaling = "longrope";
    }
    if (strcmp(arch, "gemma2") == 0)
        spec.window = 100;
    if (strstr(arch, "moe")) {
        spec.n_expert = 4;
        spec.n_expert_used = 2;
        spec.n_ff_expert = 24;
        spec.expert_scale = 1.5f;
        spec.expert_norm_off = true;
    }
    if (strcmp(arch, "lfm2moe") == 0) {
        spec.n_dense = 1;
        spec.gating = 2;
    }
    if (strcmp(arch, "granitemoe") == 0)
        spec.n_ff_shared = 40;
    spec.no_rope = strcmp(arch, "granitehybrid") == 0;
    if (strncmp(arch, "granite", 7) == 0) {
        spec.embed_scale = 12;
        spec.residual_scale = 0.22f;
        spec.attn_scale = 0.015625f;
        spec.logit_scale = 8;
    }
    return spec;
}

static cera_status open_file(const gguf_build *file, const cera_host *host, cera_engine **out,
                             cera_error *err)
{
    cera_source source = { .data = file->data, .n_data = file->size };
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.n_threads = 1;
    options.host = host;
    return cera_engine_open_source(&source, &options, out, err);
}

static cera_engine *open_toy(const toy_spec *spec, gguf_build *file)
{
    toy_build(spec, file);
    cera_engine *e = NULL;
    cera_error err;
    if (open_file(file, NULL, &e, &err) != CERA_OK)
        fail_msg("%s", err.message);
    return e;
}

/* ---- what is read ------------------------------------------------------------------------ */

static void hparams_are_read(void **state)
{
    (void)state;
    gguf_build file;
    toy_spec spec = small("llama");
    cera_engine *e = open_toy(&spec, &file);
    const cr_hparams *hp = &e->core->model->hparams;
    assert_int_equal(hp->n_layer, 2);
    assert_int_equal(hp->n_embd, 32);
    assert_int_equal(hp->n_ff, 48);
    assert_int_equal(hp->n_head, 2);
    assert_int_equal(hp->head_dim, 24);
    assert_int_equal(hp->n_head_kv[0], 1);
    assert_int_equal(hp->n_vocab, 300);
    assert_int_equal(hp->n_context, 512);
    assert_int_equal(hp->rope.n_dims, 16);
    assert_int_equal(hp->rope.style, CR_ROPE_PAIRS);
    assert_true(hp->norm_eps == 0.0625f && hp->rope.base == 10000.0f);
    assert_string_equal(e->core->model->name, "toy");

    /* base^(-2i / n) over the file's factors */
    const cr_graph *g = &e->core->model->graph;
    const cr_tensor *factors = cr_gguf_find_tensor(e->core->file, "rope_freqs.weight");
    assert_non_null(factors);
    for (int i = 0; i < 8; i++) {
        float factor;
        memcpy(&factor, factors->data + 4 * i, sizeof factor);
        double expected = pow(10000.0, -2.0 * i / 16.0) / (double)factor;
        assert_true(fabs((double)g->ropes[0].freq[i] - expected) <= 1e-7 * expected);
    }
    cera_engine_close(e);
    build_done(&file);

    spec = small("lfm2");
    e = open_toy(&spec, &file);
    hp = &e->core->model->hparams;
    assert_int_equal(hp->n_head_kv[0], 0);
    assert_int_equal(hp->n_head_kv[1], 1);
    assert_int_equal(hp->n_taps, 3);
    assert_int_equal(hp->rope.style, CR_ROPE_HALVES);
    cera_engine_close(e);
    build_done(&file);

    spec = small("mamba2");
    e = open_toy(&spec, &file);
    hp = &e->core->model->hparams;
    assert_int_equal(hp->n_taps, 4);
    assert_int_equal(hp->ssm.n_inner, 64);
    assert_int_equal(hp->ssm.n_state, 8);
    assert_int_equal(hp->ssm.n_head, 4);
    assert_int_equal(hp->ssm.n_group, 2);
    assert_int_equal(e->core->model->graph.n_ropes, 0);
    assert_int_equal(e->core->model->graph.n_caches, 0);
    cera_engine_close(e);
    build_done(&file);
}

static void routing_is_read(void **state)
{
    (void)state;
    gguf_build file;
    toy_spec spec = small("lfm2moe");
    cera_engine *e = open_toy(&spec, &file);
    const cr_hparams *hp = &e->core->model->hparams;
    assert_int_equal(hp->routing.n_expert, 4);
    assert_int_equal(hp->routing.n_used, 2);
    assert_int_equal(hp->routing.n_ff, 24);
    assert_int_equal(hp->routing.gating, CR_GATING_SIGMOID);
    assert_true(hp->routing.scale == 1.5f && !hp->routing.normalized);
    assert_int_equal(hp->n_layer_dense, 1);
    assert_int_equal(hp->n_ff_shared, 0);
    cera_engine_close(e);
    build_done(&file);

    /* What files leave away: Mixtral's say how many experts there are and little else. */
    spec = small("llama");
    spec.bias = false;
    spec.n_expert = 4;
    spec.n_expert_used = 2;
    e = open_toy(&spec, &file);
    hp = &e->core->model->hparams;
    assert_int_equal(hp->routing.n_ff, hp->n_ff);
    assert_int_equal(hp->routing.gating, CR_GATING_SOFTMAX);
    assert_true(hp->routing.scale == 1.0f && hp->routing.normalized);
    cera_engine_close(e);
    build_done(&file);

    /* Granite without experts is dense. */
    spec = small("granitemoe");
    spec.n_expert = spec.n_expert_used = spec.n_ff_expert = spec.n_ff_shared = 0;
    e = open_toy(&spec, &file);
    assert_int_equal(e->core->model->graph.ops[4].kind, CR_OP_NORM_GATE_UP);
    cera_engine_close(e);
    build_done(&file);
}

static void layers_become_ops(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        cr_op_kind kinds[18];
        int n, n_expert;
    } rows[] = {
        { "llama",
          { CR_OP_EMBED, CR_OP_NORM_QKV, CR_OP_ATTEND, CR_OP_RESIDUAL, CR_OP_NORM_GATE_UP,
            CR_OP_RESIDUAL, CR_OP_NORM_QKV, CR_OP_ATTEND, CR_OP_RESIDUAL, CR_OP_NORM_GATE_UP,
            CR_OP_RESIDUAL, CR_OP_HEAD },
          12,
          0 },
        { "lfm2",
          { CR_OP_EMBED, CR_OP_CONV_IN, CR_OP_RESIDUAL, CR_OP_NORM_GATE_UP, CR_OP_RESIDUAL,
            CR_OP_NORM_QKV, CR_OP_ATTEND, CR_OP_RESIDUAL, CR_OP_NORM_GATE_UP, CR_OP_RESIDUAL,
            CR_OP_HEAD },
          11,
          0 },
        { "lfm2moe",
          { CR_OP_EMBED, CR_OP_CONV_IN, CR_OP_RESIDUAL, CR_OP_NORM_GATE_UP, CR_OP_RESIDUAL,
            CR_OP_NORM_QKV, CR_OP_ATTEND, CR_OP_RESIDUAL, CR_OP_MOE_ROUTE, CR_OP_MOE_GATE_UP,
            CR_OP_MOE_DOWN, CR_OP_HEAD },
          12,
          0 },
        { "granitemoe",
          { CR_OP_EMBED, CR_OP_NORM_QKV, CR_OP_ATTEND, CR_OP_RESIDUAL, CR_OP_MOE_ROUTE,
            CR_OP_MOE_GATE_UP, CR_OP_NORM_GATE_UP, CR_OP_MOE_DOWN, CR_OP_RESIDUAL, CR_OP_NORM_QKV,
            CR_OP_ATTEND, CR_OP_RESIDUAL, CR_OP_MOE_ROUTE, CR_OP_MOE_GATE_UP, CR_OP_NORM_GATE_UP,
            CR_OP_MOE_DOWN, CR_OP_RESIDUAL, CR_OP_HEAD },
          18,
          0 },
        { "mamba2",
          { CR_OP_EMBED, CR_OP_SSM_IN, CR_OP_SSM_SCAN, CR_OP_RESIDUAL, CR_OP_SSM_IN, CR_OP_SSM_SCAN,
            CR_OP_RESIDUAL, CR_OP_HEAD },
          8,
          0 },
        { "granitehybrid",
          { CR_OP_EMBED, CR_OP_SSM_IN, CR_OP_SSM_SCAN, CR_OP_RESIDUAL, CR_OP_NORM_GATE_UP,
            CR_OP_RESIDUAL, CR_OP_NORM_QKV, CR_OP_ATTEND, CR_OP_RESIDUAL, CR_OP_NORM_GATE_UP,
            CR_OP_RESIDUAL, CR_OP_HEAD },
          12,
          0 },
        { "granitehybrid",
          { CR_OP_EMBED, CR_OP_SSM_IN, CR_OP_SSM_SCAN, CR_OP_RESIDUAL, CR_OP_MOE_ROUTE,
            CR_OP_MOE_GATE_UP, CR_OP_NORM_GATE_UP, CR_OP_MOE_DOWN, CR_OP_RESIDUAL, CR_OP_NORM_QKV,
            CR_OP_ATTEND, CR_OP_RESIDUAL, CR_OP_MOE_ROUTE, CR_OP_MOE_GATE_UP, CR_OP_NORM_GATE_UP,
            CR_OP_MOE_DOWN, CR_OP_RESIDUAL, CR_OP_HEAD },
          18,
          4 },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        gguf_build file;
        toy_spec spec = small(rows[i].arch);
        if (rows[i].n_expert > 0) {
            spec.n_expert = rows[i].n_expert;
            spec.n_expert_used = 2;
            spec.n_ff_shared = 40;
        }
        cera_engine *e = open_toy(&spec, &file);
        const cr_model *model = e->core->model;
        const cr_graph *g = &model->graph;
        assert_int_equal(g->n_ops, rows[i].n);
        for (int k = 0; k < g->n_ops; k++)
            assert_int_equal(g->ops[k].kind, rows[i].kinds[k]);
        int n_attention = spec.n_head_kv[0] + spec.n_head_kv[1];
        assert_int_equal(g->n_caches, n_attention);
        assert_int_equal(g->groups[0].page_elements, n_attention * 2 * 64 * 24);
        /* The last inputs of a convolution; x, b, c of a state space, and 8 numbers a channel. */
        int n_state = spec.ssm_inner > 0 ? 3 * (64 + 2 * 2 * 8) + 64 * 8 : 2 * 32;
        assert_int_equal(g->state_floats, (2 - n_attention) * n_state);

        /* The ops point into the file, and every tensor of it is used. */
        const cr_op *last = &g->ops[g->n_ops - 1];
        assert_string_equal(last->u.head.proj.weight->name, "output.weight");
        assert_ptr_equal(last->u.head.proj.weight->data,
                         cr_gguf_find_tensor(e->core->file, "output.weight")->data);
        for (size_t t = 0; t < cr_gguf_n_tensors(e->core->file); t++)
            assert_true(cr_model_uses(model, cr_gguf_tensor(e->core->file, t)));
        cera_engine_close(e);
        build_done(&file);

        spec.tied = true;
        e = open_toy(&spec, &file);
        g = &e->core->model->graph;
        assert_string_equal(g->ops[g->n_ops - 1].u.head.proj.weight->name, "token_embd.weight");
        cera_engine_close(e);
        build_done(&file);
    }
}

/* ---- one field changed ------------------------------------------------------------------- */

/* Where a name stands in the file: behind its length. */
static size_t find_name(const gguf_build *file, const char *name)
{
    size_t n = strlen(name);
    for (size_t at = 24; at + 8 + n < file->size; at++) {
        uint64_t size;
        memcpy(&size, file->data + at, sizeof size);
        if (size == n && memcmp(file->data + at + 8, name, n) == 0)
            return at + 8;
    }
    fail_msg("%s: not in the file", name);
    return 0;
}

typedef enum change_kind {
    RENAME,      /* the name's last byte becomes '?' */
    SET,         /* the value of a key of 4 bytes */
    SET_ELEMENT, /* element `value` >> 32 of an array of such keys */
    RETYPE,      /* the type of a key's value */
    DIMS,        /* dimension `value` >> 32 of a tensor */
    TYPE,        /* element type of a tensor */
    DATA,        /* the first 4 bytes of a tensor's data */
} change_kind;

#define AT(i, value) ((uint64_t)(i) << 32 | (uint32_t)(value))

typedef struct change {
    const char *arch;
    const char *name;
    change_kind kind;
    uint64_t value;
    cera_status status;
    const char *message; /* all of it, or a part */
} change;

static uint32_t bits(float f)
{
    uint32_t b;
    memcpy(&b, &f, sizeof b);
    return b;
}

static void apply(gguf_build *file, const change *c)
{
    size_t at = find_name(file, c->name), end = at + strlen(c->name);
    size_t index = (size_t)(c->value >> 32);
    switch (c->kind) {
    case RENAME:
        file->data[end - 1] = '?';
        break;
    case SET:
        build_patch(file, end + 4, c->value, 4);
        break;
    case SET_ELEMENT:
        build_patch(file, end + 4 + 12 + 4 * index, (uint32_t)c->value, 4);
        break;
    case RETYPE:
        build_patch(file, end, c->value, 4);
        break;
    case DIMS:
        build_patch(file, end + 4 + 8 * index, (uint32_t)c->value, 8);
        break;
    case TYPE:
        build_patch(file, end + 4 + 8 * (size_t)file->data[end], c->value, 4);
        break;
    case DATA: {
        uint64_t offset;
        memcpy(&offset, file->data + end + 4 + 8 * (size_t)file->data[end] + 4, sizeof offset);
        cera_source source = { .data = file->data, .n_data = file->size };
        cera_file *f = NULL;
        cera_file_info info;
        assert_int_equal(cera_file_open(&source, NULL, &f, NULL), CERA_OK);
        cera_file_get_info(f, &info);
        cera_file_close(f);
        build_patch(file, (size_t)(info.data_offset + offset), c->value, 4);
        break;
    }
    }
}

/* Opens the changed file: the status, the message, nothing left. */
static void check(const change *c)
{
    gguf_build file;
    toy_spec spec = small(c->arch);
    toy_build(&spec, &file);
    apply(&file, c);
    fault_host f;
    fault_init(&f);
    cera_engine *e = NULL;
    cera_error err = { 0 };
    cera_status status = open_file(&file, &f.host, &e, &err);
    if (status != c->status || (status != CERA_OK && strstr(err.message, c->message) == NULL))
        fail_msg("%s: expected %s: %s, found %s: %s", c->name, cera_status_name(c->status),
                 c->message, cera_status_name(status), err.message);
    if (status != CERA_OK) {
        assert_null(e);
        assert_int_equal(err.status, status);
    }
    cera_engine_close(e);
    assert_null(fault_check(&f));
    fault_done(&f);
    build_done(&file);
}

static void keys_that_are_wrong(void **state)
{
    (void)state;
    const change rows[] = {
        { "llama", "general.architecture", RENAME, 0, CERA_E_FORMAT, "general.architecture" },
        { "llama", "llama.block_count", RENAME, 0, CERA_E_FORMAT,
          "llama.block_count: the key is missing" },
        { "llama", "llama.block_count", SET, 0, CERA_E_FORMAT,
          "llama.block_count: expected 1 to 1024, found 0" },
        { "llama", "llama.block_count", SET, 1025, CERA_E_FORMAT,
          "llama.block_count: expected 1 to 1024, found 1025" },
        { "llama", "llama.block_count", SET, UINT32_MAX, CERA_E_FORMAT,
          "llama.block_count: expected 1 to 1024, found 4294967295" },
        { "llama", "llama.block_count", RETYPE, 6, CERA_E_FORMAT,
          "llama.block_count: expected an integer" },
        { "llama", "llama.block_count", SET, 1, CERA_E_FORMAT,
          "llama.attention.head_count_kv: expected 1 elements, found 2" },
        { "llama", "llama.block_count", SET, 3, CERA_E_FORMAT,
          "llama.attention.head_count_kv: expected 3 elements, found 2" },
        { "llama", "llama.context_length", RENAME, 0, CERA_E_FORMAT, "llama.context_length" },
        { "llama", "llama.context_length", SET, 0, CERA_E_FORMAT, "llama.context_length" },
        { "llama", "llama.embedding_length", RENAME, 0, CERA_E_FORMAT, "llama.embedding_length" },
        { "llama", "llama.embedding_length", SET, 0, CERA_E_FORMAT, "llama.embedding_length" },
        { "llama", "llama.embedding_length", SET, (1 << 20) + 1, CERA_E_FORMAT,
          "llama.embedding_length: expected 1 to 1048576, found 1048577" },
        { "llama", "llama.embedding_length", SET, 64, CERA_E_FORMAT,
          "token_embd.weight: expected [64, 300], file has [32, 300]" },
        { "llama", "llama.feed_forward_length", RENAME, 0, CERA_E_FORMAT,
          "llama.feed_forward_length" },
        { "llama", "llama.feed_forward_length", SET, 47, CERA_E_FORMAT,
          "blk.0.ffn_gate.weight: expected [32, 47], file has [32, 48]" },
        { "llama", "llama.attention.head_count", RENAME, 0, CERA_E_FORMAT,
          "llama.attention.head_count: the key is missing" },
        { "llama", "llama.attention.head_count", SET, 0, CERA_E_FORMAT,
          "llama.attention.head_count: expected 1 to 4096, found 0" },
        { "llama", "llama.attention.head_count", SET, 4, CERA_E_FORMAT,
          "blk.0.attn_q.weight: expected [32, 96], file has [32, 48]" },
        { "llama", "llama.attention.head_count_kv", SET_ELEMENT, AT(1, 0), CERA_E_FORMAT,
          "llama.attention.head_count_kv: expected 1 to 2, found 0" },
        { "llama", "llama.attention.head_count_kv", SET_ELEMENT, AT(0, 3), CERA_E_FORMAT,
          "llama.attention.head_count_kv: expected 1 to 2, found 3" },
        { "llama", "llama.attention.head_count_kv", SET_ELEMENT, AT(1, 2), CERA_E_FORMAT,
          "blk.1.attn_k.weight: expected [32, 48], file has [32, 24]" },
        { "llama", "llama.attention.head_count_kv", RENAME, 0, CERA_E_FORMAT, /* then as many */
          "blk.0.attn_k.weight: expected [32, 48], file has [32, 24]" },
        { "llama", "llama.attention.layer_norm_rms_epsilon", RENAME, 0, CERA_E_FORMAT,
          "llama.attention.layer_norm_rms_epsilon: the key is missing" },
        { "llama", "llama.attention.layer_norm_rms_epsilon", SET, bits(0), CERA_E_FORMAT,
          "llama.attention.layer_norm_rms_epsilon: expected a finite positive number, found 0" },
        { "llama", "llama.attention.layer_norm_rms_epsilon", SET, bits(-1), CERA_E_FORMAT,
          "finite positive number, found -1" },
        { "llama", "llama.attention.layer_norm_rms_epsilon", SET, bits(NAN), CERA_E_FORMAT,
          "finite positive number" },
        { "llama", "llama.attention.layer_norm_rms_epsilon", SET, bits(INFINITY), CERA_E_FORMAT,
          "finite positive number" },
        { "llama", "llama.attention.key_length", SET, 0, CERA_E_FORMAT,
          "llama.attention.key_length: expected 1 to 4096, found 0" },
        { "llama", "llama.attention.key_length", SET, 4097, CERA_E_FORMAT,
          "llama.attention.key_length" },
        { "llama", "llama.attention.value_length", SET, 16, CERA_E_UNSUPPORTED,
          "llama.attention.value_length: only 24 is supported, found 16" },
        { "llama", "llama.rope.dimension_count", SET, 15, CERA_E_FORMAT,
          "llama.rope.dimension_count: expected an even number, found 15" },
        { "llama", "llama.rope.dimension_count", SET, 0, CERA_E_FORMAT,
          "llama.rope.dimension_count: expected 2 to 24, found 0" },
        { "llama", "llama.rope.dimension_count", SET, 26, CERA_E_FORMAT,
          "llama.rope.dimension_count: expected 2 to 24, found 26" },
        { "llama", "llama.rope.freq_base", SET, bits(0), CERA_E_FORMAT, "llama.rope.freq_base" },
        { "llama", "llama.rope.freq_base", SET, bits(1e-45f), CERA_E_FORMAT,
          "frequency that is not finite" },
        { "llama", "llama.rope.freq_base", RENAME, 0, CERA_OK, "" }, /* 10,000 */
        { "llama", "llama.vocab_size", SET, 299, CERA_E_FORMAT,
          "llama.vocab_size: 299, but token_embd.weight has 300 rows" },
        { "llama", "llama.vocab_size", RENAME, 0, CERA_OK, "" },
        { "lfm2", "lfm2.attention.head_count_kv", RENAME, 0, CERA_E_FORMAT,
          "lfm2.attention.head_count_kv: the key is missing" },
        { "lfm2", "lfm2.attention.head_count_kv", SET_ELEMENT, AT(0, 1), CERA_E_FORMAT,
          "blk.0.attn_q.weight: the tensor is missing" },
        { "lfm2", "lfm2.attention.head_count_kv", SET_ELEMENT, AT(1, 0), CERA_E_FORMAT,
          "blk.1.shortconv.in_proj.weight: the tensor is missing" },
        { "lfm2", "lfm2.shortconv.l_cache", SET, 4, CERA_E_FORMAT,
          "blk.0.shortconv.conv.weight: expected [4, 32], file has [3, 32]" },
        { "lfm2", "lfm2.shortconv.l_cache", SET, 1, CERA_E_FORMAT,
          "lfm2.shortconv.l_cache: expected 2 to 16, found 1" },
        { "lfm2", "lfm2.shortconv.l_cache", SET, 17, CERA_E_FORMAT, "lfm2.shortconv.l_cache" },
        { "lfm2", "lfm2.rope.freq_base", RENAME, 0, CERA_E_FORMAT,
          "lfm2.rope.freq_base: the key is missing" },
        { "granite", "granite.logit_scale", RENAME, 0, CERA_E_FORMAT,
          "granite.logit_scale: the key is missing" },
        { "granite", "granite.logit_scale", SET, bits(0), CERA_E_FORMAT, "granite.logit_scale" },
        { "granite", "granite.residual_scale", SET, bits(NAN), CERA_E_FORMAT,
          "granite.residual_scale: expected a finite positive number" },
        { "granite", "granite.embedding_scale", RENAME, 0, CERA_OK, "" },
        { "phi3", "phi3.rope.scaling.original_context_length", SET, 0, CERA_E_FORMAT,
          "phi3.rope.scaling.original_context_length: expected 1 to" },
        { "gemma2", "gemma2.attention.sliding_window", SET, UINT32_MAX, CERA_E_FORMAT,
          "gemma2.attention.sliding_window: expected 0 to" },
        { "gemma2", "gemma2.attention.sliding_window", SET, 0, CERA_OK, "" },
        { "gemma2", "gemma2.attention.sliding_window", RENAME, 0, CERA_OK, "" }, /* 4,096 */
        { "granitehybrid", "granitehybrid.logit_scale", RENAME, 0, CERA_E_FORMAT,
          "granitehybrid.logit_scale: the key is missing" },
        { "granitehybrid", "granitehybrid.attention.head_count_kv", SET_ELEMENT, AT(0, 1),
          CERA_E_FORMAT, "blk.0.attn_q.weight: the tensor is missing" },
        { "granitehybrid", "granitehybrid.attention.head_count_kv", SET_ELEMENT, AT(1, 0),
          CERA_E_FORMAT, "blk.1.ssm_in.weight: the tensor is missing" },
        { "granitehybrid", "granitehybrid.ssm.group_count", SET, 0, CERA_E_FORMAT,
          "granitehybrid.ssm.group_count: expected 1 to 4096, found 0" },
        { "granitehybrid", "granitehybrid.rope.scaling.finetuned", RETYPE, 0, CERA_E_FORMAT,
          "granitehybrid.rope.scaling.finetuned" },
        { "mamba2", "mamba2.attention.layer_norm_rms_epsilon", SET, bits(NAN), CERA_E_FORMAT,
          "mamba2.attention.layer_norm_rms_epsilon: expected a finite positive number" },
        { "mamba2", "mamba2.feed_forward_length", SET, 48, CERA_E_UNSUPPORTED,
          "mamba2.feed_forward_length: only 0 is supported, found 48" },
        { "mamba2", "mamba2.attention.head_count", SET, 2, CERA_E_UNSUPPORTED,
          "mamba2.attention.head_count: only 0 is supported, found 2" },
        { "mamba2", "mamba2.feed_forward_length", RENAME, 0, CERA_OK, "" },
        { "mamba2", "mamba2.attention.head_count", RENAME, 0, CERA_OK, "" },
        { "mamba2", "mamba2.ssm.conv_kernel", RENAME, 0, CERA_E_FORMAT,
          "mamba2.ssm.conv_kernel: the key is missing" },
        { "mamba2", "mamba2.ssm.conv_kernel", SET, 0, CERA_E_FORMAT,
          "mamba2.ssm.conv_kernel: expected 2 to 16, found 0" },
        { "mamba2", "mamba2.ssm.conv_kernel", SET, 1 << 30, CERA_E_FORMAT,
          "mamba2.ssm.conv_kernel: expected 2 to 16, found 1073741824" },
        { "mamba2", "mamba2.ssm.conv_kernel", SET, 3, CERA_E_FORMAT,
          "blk.0.ssm_conv1d.weight: expected [3, 96], file has [4, 96]" },
        { "mamba2", "mamba2.ssm.inner_size", RENAME, 0, CERA_E_FORMAT,
          "mamba2.ssm.inner_size: the key is missing" },
        { "mamba2", "mamba2.ssm.inner_size", SET, 0, CERA_E_FORMAT,
          "mamba2.ssm.inner_size: expected 1 to 1048576, found 0" },
        { "mamba2", "mamba2.ssm.inner_size", SET, UINT32_MAX, CERA_E_FORMAT,
          "mamba2.ssm.inner_size: expected 1 to 1048576, found 4294967295" },
        { "mamba2", "mamba2.ssm.inner_size", SET, 66, CERA_E_FORMAT,
          "mamba2.ssm.time_step_rank: expected a divisor of 66 channels, found 4" },
        { "mamba2", "mamba2.ssm.inner_size", SET, 32, CERA_E_FORMAT,
          "blk.0.ssm_in.weight: expected [32, 100], file has [32, 164]" },
        { "mamba2", "mamba2.ssm.state_size", RENAME, 0, CERA_E_FORMAT,
          "mamba2.ssm.state_size: the key is missing" },
        { "mamba2", "mamba2.ssm.state_size", SET, 0, CERA_E_FORMAT,
          "mamba2.ssm.state_size: expected 1 to 4096, found 0" },
        { "mamba2", "mamba2.ssm.state_size", SET, 4097, CERA_E_FORMAT,
          "mamba2.ssm.state_size: expected 1 to 4096, found 4097" },
        { "mamba2", "mamba2.ssm.state_size", SET, 9, CERA_E_FORMAT,
          "blk.0.ssm_in.weight: expected [32, 168], file has [32, 164]" },
        { "mamba2", "mamba2.ssm.state_size", RETYPE, 6, CERA_E_FORMAT,
          "mamba2.ssm.state_size: expected an integer" },
        { "mamba2", "mamba2.ssm.time_step_rank", RENAME, 0, CERA_E_FORMAT,
          "mamba2.ssm.time_step_rank: the key is missing" },
        { "mamba2", "mamba2.ssm.time_step_rank", SET, 0, CERA_E_FORMAT,
          "mamba2.ssm.time_step_rank: expected 1 to 4096, found 0" },
        { "mamba2", "mamba2.ssm.time_step_rank", SET, 5, CERA_E_FORMAT,
          "mamba2.ssm.time_step_rank: expected a divisor of 64 channels, found 5" },
        { "mamba2", "mamba2.ssm.group_count", RENAME, 0, CERA_E_FORMAT,
          "mamba2.ssm.group_count: the key is missing" },
        { "mamba2", "mamba2.ssm.group_count", SET, 0, CERA_E_FORMAT,
          "mamba2.ssm.group_count: expected 1 to 4096, found 0" },
        { "mamba2", "mamba2.ssm.group_count", SET, 3, CERA_E_FORMAT,
          "mamba2.ssm.group_count: expected a divisor of 4 heads, found 3" },
        { "mamba2", "mamba2.ssm.group_count", SET, 8, CERA_E_FORMAT,
          "mamba2.ssm.group_count: expected a divisor of 4 heads, found 8" },
        { "gemma3", "gemma3.rope.freq_base", RENAME, 0, CERA_E_FORMAT,
          "gemma3.rope.freq_base: the key is missing" },
        { "qwen3moe", "qwen3moe.expert_count", RENAME, 0, CERA_E_FORMAT,
          "qwen3moe.expert_count: the key is missing" },
        { "lfm2moe", "lfm2moe.expert_count", SET, 0, CERA_E_FORMAT,
          "lfm2moe.expert_count: expected 1 to 1024, found 0" },
        { "qwen3moe", "qwen3moe.expert_count", SET, 1025, CERA_E_FORMAT,
          "qwen3moe.expert_count: expected 1 to 1024, found 1025" },
        { "granitemoe", "granitemoe.expert_count", SET, UINT32_MAX, CERA_E_FORMAT,
          "granitemoe.expert_count: expected 0 to 1024, found 4294967295" },
        { "granitemoe", "granitemoe.expert_count", SET, 0, CERA_E_FORMAT, /* then it is dense */
          "blk.0.ffn_gate.weight: the tensor is missing" },
        { "qwen3moe", "qwen3moe.expert_count", SET, 5, CERA_E_FORMAT,
          "blk.0.ffn_gate_inp.weight: expected [32, 5], file has [32, 4]" },
        { "qwen3moe", "qwen3moe.expert_used_count", RENAME, 0, CERA_E_FORMAT,
          "qwen3moe.expert_used_count: the key is missing" },
        { "qwen3moe", "qwen3moe.expert_used_count", SET, 0, CERA_E_FORMAT,
          "qwen3moe.expert_used_count: expected 1 to 4, found 0" },
        { "lfm2moe", "lfm2moe.expert_used_count", SET, 5, CERA_E_FORMAT,
          "lfm2moe.expert_used_count: expected 1 to 4, found 5" },
        { "qwen3moe", "qwen3moe.expert_used_count", SET, 4, CERA_OK, "" },
        { "qwen3moe", "qwen3moe.expert_feed_forward_length", SET, 0, CERA_E_FORMAT,
          "qwen3moe.expert_feed_forward_length: expected 1 to 1048576, found 0" },
        { "qwen3moe", "qwen3moe.expert_feed_forward_length", SET, 23, CERA_E_FORMAT,
          "blk.0.ffn_gate_exps.weight: expected [32, 23, 4], file has [32, 24, 4]" },
        { "lfm2moe", "lfm2moe.expert_feed_forward_length", RENAME, 0, CERA_E_FORMAT,
          "blk.1.ffn_gate_exps.weight: expected [32, 48, 4], file has [32, 24, 4]" },
        { "lfm2moe", "lfm2moe.expert_gating_func", SET, 0, CERA_E_UNSUPPORTED,
          "lfm2moe.expert_gating_func: only 1 (softmax) and 2 (sigmoid) are supported, found 0" },
        { "lfm2moe", "lfm2moe.expert_gating_func", SET, 3, CERA_E_UNSUPPORTED, "found 3" },
        { "lfm2moe", "lfm2moe.expert_gating_func", SET, UINT32_MAX, CERA_E_FORMAT,
          "lfm2moe.expert_gating_func: expected 0 to" },
        { "lfm2moe", "lfm2moe.expert_gating_func", RETYPE, 6, CERA_E_FORMAT,
          "lfm2moe.expert_gating_func: expected an integer" },
        { "lfm2moe", "lfm2moe.expert_gating_func", RENAME, 0, CERA_OK, "" }, /* sigmoid */
        { "qwen3moe", "qwen3moe.expert_weights_scale", SET, bits(NAN), CERA_E_FORMAT,
          "qwen3moe.expert_weights_scale: expected a finite positive number" },
        { "qwen3moe", "qwen3moe.expert_weights_scale", SET, bits(INFINITY), CERA_E_FORMAT,
          "qwen3moe.expert_weights_scale: expected a finite positive number" },
        { "qwen3moe", "qwen3moe.expert_weights_scale", SET, bits(0), CERA_E_FORMAT,
          "qwen3moe.expert_weights_scale: expected a finite positive number, found 0" },
        { "qwen3moe", "qwen3moe.expert_weights_scale", SET, bits(-1), CERA_E_FORMAT,
          "finite positive number, found -1" },
        { "qwen3moe", "qwen3moe.expert_weights_norm", RETYPE, 0, CERA_E_FORMAT,
          "qwen3moe.expert_weights_norm" },
        { "qwen3moe", "qwen3moe.expert_weights_norm", RENAME, 0, CERA_OK, "" },
        { "lfm2moe", "lfm2moe.leading_dense_block_count", SET, 3, CERA_E_FORMAT,
          "lfm2moe.leading_dense_block_count: expected 0 to 2, found 3" },
        { "lfm2moe", "lfm2moe.leading_dense_block_count", SET, 2, CERA_E_FORMAT,
          "blk.1.ffn_gate.weight: the tensor is missing" },
        { "lfm2moe", "lfm2moe.leading_dense_block_count", RENAME, 0, CERA_E_FORMAT,
          "blk.0.ffn_gate_inp.weight: the tensor is missing" },
        { "granitemoe", "granitemoe.expert_shared_feed_forward_length", SET, 41, CERA_E_FORMAT,
          "blk.0.ffn_gate_shexp.weight: expected [32, 41], file has [32, 40]" },
        { "granitemoe", "granitemoe.expert_shared_feed_forward_length", SET, UINT32_MAX,
          CERA_E_FORMAT, "granitemoe.expert_shared_feed_forward_length: expected 0 to 1048576" },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++)
        check(&rows[i]);
}

static void tensors_that_are_wrong(void **state)
{
    (void)state;
    static const char *const needed[][2] = {
        { "llama", "token_embd.weight" },
        { "llama", "output_norm.weight" },
        { "llama", "blk.0.attn_norm.weight" },
        { "llama", "blk.1.attn_q.weight" },
        { "llama", "blk.0.attn_k.weight" },
        { "llama", "blk.1.attn_v.weight" },
        { "llama", "blk.0.attn_output.weight" },
        { "llama", "blk.1.ffn_norm.weight" },
        { "llama", "blk.0.ffn_gate.weight" },
        { "llama", "blk.1.ffn_up.weight" },
        { "llama", "blk.0.ffn_down.weight" },
        { "lfm2", "token_embd_norm.weight" },
        { "lfm2", "blk.0.shortconv.in_proj.weight" },
        { "lfm2", "blk.0.shortconv.conv.weight" },
        { "lfm2", "blk.0.shortconv.out_proj.weight" },
        { "lfm2", "blk.1.attn_q_norm.weight" },
        { "lfm2", "blk.1.attn_k_norm.weight" },
        { "qwen2", "blk.0.attn_q.bias" },
        { "qwen2", "blk.1.attn_k.bias" },
        { "qwen2", "blk.0.attn_v.bias" },
        { "qwen3", "blk.0.attn_q_norm.weight" },
        { "qwen3", "blk.1.attn_k_norm.weight" },
        { "olmo2", "blk.0.post_attention_norm.weight" },
        { "olmo2", "blk.1.post_ffw_norm.weight" },
        { "exaone4", "blk.0.attn_k_norm.weight" },
        { "exaone4", "blk.1.post_attention_norm.weight" },
        { "gemma2", "blk.1.post_ffw_norm.weight" },
        { "gemma3", "blk.0.attn_q_norm.weight" },
        { "phi3", "blk.0.attn_qkv.weight" },
        { "phi3", "blk.1.ffn_up.weight" },
        { "qwen3moe", "blk.0.ffn_gate_inp.weight" },
        { "qwen3moe", "blk.1.ffn_gate_exps.weight" },
        { "qwen3moe", "blk.0.ffn_up_exps.weight" },
        { "qwen3moe", "blk.1.ffn_down_exps.weight" },
        { "lfm2moe", "blk.0.ffn_gate.weight" },
        { "lfm2moe", "blk.1.exp_probs_b.bias" },
        { "lfm2moe", "blk.1.ffn_down_exps.weight" },
        { "granitemoe", "blk.0.ffn_gate_inp.weight" },
        { "granitemoe", "blk.1.ffn_up_exps.weight" },
        { "granitemoe", "blk.0.ffn_gate_shexp.weight" },
        { "granitemoe", "blk.1.ffn_up_shexp.weight" },
        { "granitemoe", "blk.1.ffn_down_shexp.weight" },
        { "mamba2", "blk.0.attn_norm.weight" },
        { "mamba2", "blk.0.ssm_in.weight" },
        { "mamba2", "blk.1.ssm_conv1d.weight" },
        { "mamba2", "blk.0.ssm_conv1d.bias" },
        { "mamba2", "blk.1.ssm_dt.bias" },
        { "mamba2", "blk.0.ssm_a" },
        { "mamba2", "blk.1.ssm_d" },
        { "mamba2", "blk.0.ssm_norm.weight" },
        { "mamba2", "blk.1.ssm_out.weight" },
        { "granitehybrid", "blk.0.ssm_norm.weight" },
        { "granitehybrid", "blk.0.ssm_out.weight" },
        { "granitehybrid", "blk.1.attn_output.weight" },
        { "granitehybrid", "blk.0.ffn_norm.weight" },
    };
    for (size_t i = 0; i < CR_COUNT(needed); i++) {
        char message[96];
        snprintf(message, sizeof message, "%s: the tensor is missing", needed[i][1]);
        check(&(change){ needed[i][0], needed[i][1], RENAME, 0, CERA_E_FORMAT, message });
    }

    const change rows[] = {
        { "llama", "blk.0.attn_q.bias", RENAME, 0, CERA_E_FORMAT, /* all three or none */
          "blk.0.attn_q.bias: the tensor is missing, others have theirs" },
        { "llama", "blk.1.attn_v.bias", RENAME, 0, CERA_E_FORMAT,
          "blk.1.attn_v.bias: the tensor is missing, others have theirs" },
        { "llama", "output.weight", RENAME, 0, CERA_OK, "" },
        { "llama", "blk.0.attn_q.weight", DIMS, AT(1, 47), CERA_E_FORMAT,
          "blk.0.attn_q.weight: expected [32, 48], file has [32, 47]" },
        { "llama", "blk.1.ffn_down.weight", DIMS, AT(0, 16), CERA_E_FORMAT,
          "blk.1.ffn_down.weight: expected [48, 32], file has [16, 32]" },
        { "llama", "blk.0.attn_norm.weight", DIMS, AT(0, 31), CERA_E_FORMAT,
          "blk.0.attn_norm.weight: expected [32], file has [31]" },
        { "llama", "blk.1.attn_k.bias", DIMS, AT(0, 23), CERA_E_FORMAT,
          "blk.1.attn_k.bias: expected [24], file has [23]" },
        { "phi3", "blk.1.attn_qkv.weight", DIMS, AT(1, 95), CERA_E_FORMAT,
          "blk.1.attn_qkv.weight: expected [32, 96], file has [32, 95]" },
        { "phi3", "blk.0.ffn_up.weight", DIMS, AT(1, 48), CERA_E_FORMAT,
          "blk.0.ffn_up.weight: expected [32, 96], file has [32, 48]" },
        { "phi3", "rope_factors_long.weight", DATA, bits(0), CERA_E_FORMAT,
          "rope_factors_long.weight: expected finite positive numbers, found 0 at 0" },
        { "phi3", "rope_factors_short.weight", DATA, bits(0), CERA_OK, "" }, /* not in use */
        { "mamba2", "blk.0.ssm_in.weight", DIMS, AT(1, 163), CERA_E_FORMAT,
          "blk.0.ssm_in.weight: expected [32, 164], file has [32, 163]" },
        { "mamba2", "blk.1.ssm_conv1d.weight", DIMS, AT(1, 95), CERA_E_FORMAT,
          "blk.1.ssm_conv1d.weight: expected [4, 96], file has [4, 95]" },
        { "mamba2", "blk.0.ssm_conv1d.weight", TYPE, 1, CERA_E_UNSUPPORTED,
          "blk.0.ssm_conv1d.weight: expected element type F32, found F16" },
        { "mamba2", "blk.0.ssm_conv1d.bias", DIMS, AT(0, 95), CERA_E_FORMAT,
          "blk.0.ssm_conv1d.bias: expected [96], file has [95]" },
        { "mamba2", "blk.1.ssm_dt.bias", DIMS, AT(0, 3), CERA_E_FORMAT,
          "blk.1.ssm_dt.bias: expected [4], file has [3]" },
        { "mamba2", "blk.0.ssm_a", DIMS, AT(1, 3), CERA_E_FORMAT,
          "blk.0.ssm_a: expected [1, 4], file has [1, 3]" },
        { "mamba2", "blk.0.ssm_d", DIMS, AT(0, 2), CERA_E_FORMAT,
          "blk.0.ssm_d: expected [1, 4], file has [2, 4]" },
        { "mamba2", "blk.0.ssm_norm.weight", DIMS, AT(0, 31), CERA_E_FORMAT,
          "blk.0.ssm_norm.weight: expected [32, 2], file has [31, 2]" },
        { "mamba2", "blk.1.ssm_out.weight", DIMS, AT(0, 32), CERA_E_FORMAT,
          "blk.1.ssm_out.weight: expected [64, 32], file has [32, 32]" },
        { "mamba2", "blk.0.ssm_a", DATA, bits(1), CERA_E_FORMAT, /* A_log, or without its sign */
          "blk.0.ssm_a: expected finite numbers that are not positive, found 1 at 0" },
        { "mamba2", "blk.1.ssm_a", DATA, bits(NAN), CERA_E_FORMAT, "blk.1.ssm_a: expected finite" },
        { "mamba2", "blk.1.ssm_a", DATA, bits(-INFINITY), CERA_E_FORMAT, "blk.1.ssm_a" },
        { "mamba2", "blk.1.ssm_a", DATA, bits(-0.0f), CERA_OK, "" },
        { "granitehybrid", "blk.0.ssm_conv1d.bias", RENAME, 0, CERA_OK, "" },
        { "granitehybrid", "blk.1.attn_q.bias", RENAME, 0, CERA_E_FORMAT,
          "blk.1.attn_q.bias: the tensor is missing, others have theirs" },
        { "olmo2", "blk.0.attn_k_norm.weight", DIMS, AT(0, 16), CERA_E_FORMAT,
          "blk.0.attn_k_norm.weight: expected [24], file has [16]" },
        { "qwen3", "blk.1.attn_k_norm.weight", DIMS, AT(0, 23), CERA_E_FORMAT,
          "blk.1.attn_k_norm.weight: expected [24], file has [23]" },
        { "qwen3moe", "blk.1.ffn_gate_exps.weight", DIMS, AT(2, 3), CERA_E_FORMAT,
          "blk.1.ffn_gate_exps.weight: expected [32, 24, 4], file has [32, 24, 3]" },
        { "qwen3moe", "blk.0.ffn_up_exps.weight", DIMS, AT(1, 16), CERA_E_FORMAT,
          "blk.0.ffn_up_exps.weight: expected [32, 24, 4], file has [32, 16, 4]" },
        { "granitemoe", "blk.1.ffn_down_exps.weight", DIMS, AT(0, 16), CERA_E_FORMAT,
          "blk.1.ffn_down_exps.weight: expected [24, 32, 4], file has [16, 32, 4]" },
        { "qwen3moe", "blk.0.ffn_gate_inp.weight", DIMS, AT(1, 3), CERA_E_FORMAT,
          "blk.0.ffn_gate_inp.weight: expected [32, 4], file has [32, 3]" },
        { "lfm2moe", "blk.1.exp_probs_b.bias", DIMS, AT(0, 3), CERA_E_FORMAT,
          "blk.1.exp_probs_b.bias: expected [4], file has [3]" },
        { "lfm2moe", "blk.1.exp_probs_b.bias", TYPE, 1, CERA_E_UNSUPPORTED,
          "blk.1.exp_probs_b.bias: expected element type F32, found F16" },
        { "lfm2moe", "blk.1.ffn_up_exps.weight", TYPE, 99, CERA_E_UNSUPPORTED,
          "blk.1.ffn_up_exps.weight: unsupported element type" },
        { "llama", "rope_freqs.weight", DIMS, AT(0, 7), CERA_E_FORMAT,
          "rope_freqs.weight: expected [8], file has [7]" },
        { "llama", "token_embd.weight", DIMS, AT(1, 299), CERA_E_FORMAT, "token_embd.weight" },
        { "llama", "blk.0.attn_q.weight", TYPE, 99, CERA_E_UNSUPPORTED,
          "blk.0.attn_q.weight: unsupported element type" },
        { "llama", "blk.0.attn_norm.weight", TYPE, 1, CERA_E_UNSUPPORTED,
          "blk.0.attn_norm.weight: expected element type F32, found F16" },
        { "lfm2", "blk.0.shortconv.conv.weight", TYPE, 1, CERA_E_UNSUPPORTED,
          "blk.0.shortconv.conv.weight: expected element type F32, found F16" },
        { "llama", "rope_freqs.weight", DATA, bits(0), CERA_E_FORMAT,
          "rope_freqs.weight: expected finite positive numbers, found 0 at 0" },
        { "llama", "rope_freqs.weight", DATA, bits(NAN), CERA_E_FORMAT, "rope_freqs.weight" },
        { "llama", "rope_freqs.weight", DATA, bits(-INFINITY), CERA_E_FORMAT, "rope_freqs.weight" },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++)
        check(&rows[i]);
}

static void architectures_that_are_unknown(void **state)
{
    (void)state;
    gguf_build file;
    toy_spec spec = small("llama");
    toy_build(&spec, &file);
    size_t at = find_name(&file, "general.architecture") + strlen("general.architecture") + 12;
    memcpy(file.data + at, "lla\na", 5);
    cera_engine *e = NULL;
    cera_error err;
    assert_int_equal(open_file(&file, NULL, &e, &err), CERA_E_UNSUPPORTED);
    assert_string_equal(err.message, "unsupported architecture: lla\\x0Aa");
    memcpy(file.data + at, "LLAMA", 5);
    assert_int_equal(open_file(&file, NULL, &e, &err), CERA_E_UNSUPPORTED);
    assert_string_equal(err.message, "unsupported architecture: LLAMA");
    assert_null(e);
    build_done(&file);
}

/* The context that is served chooses between the factors, once. */
static void the_context_chooses_factors(void **state)
{
    (void)state;
    gguf_build file;
    toy_spec spec = small("phi3");
    toy_build(&spec, &file);
    static const struct {
        int context_size;
        const char *factors;
    } rows[] = { { 0, "rope_factors_long.weight" },
                 { 129, "rope_factors_long.weight" },
                 { 128, "rope_factors_short.weight" } };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        cera_source source = { .data = file.data, .n_data = file.size };
        cera_engine_options options;
        cera_engine_options_init(&options);
        options.context_size = rows[i].context_size;
        cera_engine *e = NULL;
        assert_int_equal(cera_engine_open_source(&source, &options, &e, NULL), CERA_OK);
        const cr_tensor *factors = cr_gguf_find_tensor(e->core->file, rows[i].factors);
        float first;
        memcpy(&first, factors->data, sizeof first);
        float freq = e->core->model->graph.ropes[0].freq[0];
        assert_true(fabsf(freq * first - 1.0f) < 1e-6f);
        cera_engine_close(e);
    }
    build_done(&file);
}

static void unknown_scaling_is_refused(void **state)
{
    (void)state;
    gguf_build file;
    toy_spec spec = small("llama");
    spec.scaling = "dynamic";
    toy_build(&spec, &file);
    cera_engine *e = NULL;
    cera_error err;
    assert_int_equal(open_file(&file, NULL, &e, &err), CERA_E_UNSUPPORTED);
    assert_string_equal(err.message, "llama.rope.scaling.type: \"dynamic\" is not supported");
    build_done(&file);
}

/* Experts where the architecture has none, shared ones where it has none of those. */
static void experts_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        int n_ff_shared;
        const char *message;
    } rows[] = {
        { "qwen3", 0, "qwen3.expert_count: only 0 is supported, found 4" },
        { "lfm2", 0, "lfm2.expert_count: only 0 is supported, found 4" },
        { "llama", 8, "llama.expert_shared_feed_forward_length: only 0 is supported, found 8" },
        { "qwen3moe", 8,
          "qwen3moe.expert_shared_feed_forward_length: only 0 is supported, found 8" },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        gguf_build file;
        toy_spec spec = small(rows[i].arch);
        spec.n_expert = 4;
        spec.n_expert_used = 2;
        spec.n_ff_shared = rows[i].n_ff_shared;
        toy_build(&spec, &file);
        cera_engine *e = NULL;
        cera_error err;
        assert_int_equal(open_file(&file, NULL, &e, &err), CERA_E_UNSUPPORTED);
        assert_string_equal(err.message, rows[i].message);
        build_done(&file);
    }
}

/* Opens a toy with one key as wanted: NULL for success, or what the error's message has to
 * contain. */
static void check_key(const toy_spec *base, const toy_key *key, const char *message)
{
    toy_spec spec = *base;
    spec.keys = key;
    spec.n_keys = 1;
    gguf_build file;
    toy_build(&spec, &file);
    cera_engine *e = NULL;
    cera_error err = { 0 };
    cera_status status = open_file(&file, NULL, &e, &err);
    if ((status == CERA_OK) != (message == NULL) ||
        (message != NULL && strstr(err.message, message) == NULL))
        fail_msg("%s: expected \"%s\", found \"%s\"", key->name, message ? message : "success",
                 err.message);
    cera_engine_close(e);
    build_done(&file);
}

/* Files of the same architecture's name that compute something else: embedding models attend in
 * both directions or end in another width, the audio detokenizer has a window. */
static void relatives_of_lfm2_are_refused(void **state)
{
    (void)state;
    toy_spec spec = small("lfm2");
    static const struct {
        toy_key key;
        const char *message;
    } rows[] = {
        { { .name = "attention.causal", .form = TOY_KEY_NUMBER, .number = 0 },
          "lfm2.attention.causal: only 1 is supported, found 0" },
        { { .name = "embedding_length_out", .form = TOY_KEY_NUMBER, .number = 128 },
          "lfm2.embedding_length_out: only 32 is supported, found 128" },
        { { .name = "embedding_length_out", .form = TOY_KEY_NUMBER, .number = 32 }, NULL },
        { { .name = "attention.sliding_window", .form = TOY_KEY_NUMBER, .number = 30 },
          "lfm2.attention.sliding_window: only 0 is supported, found 30" },
        { { .name = "expert_count", .form = TOY_KEY_NUMBER, .number = 32 },
          "lfm2.expert_count: only 0 is supported, found 32" },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++)
        check_key(&spec, &rows[i].key, rows[i].message);
}

static void a_long_rope_needs_its_factors(void **state)
{
    (void)state;
    toy_spec spec = small("qwen2"); /* which has no such tensors */
    const toy_key longrope = { .name = "rope.scaling.type",
                               .form = TOY_KEY_TEXT,
                               .text = "longrope" };
    check_key(&spec, &longrope,
              "qwen2.rope.scaling.type: \"longrope\" needs rope_factors_long.weight and "
              "rope_factors_short.weight");
    spec = small("llama");
    spec.factors = false;
    spec.long_short = true;
    spec.first_context = 128;
    check_key(&spec, &longrope, NULL);
}

/* How scores are scaled: as the head size says, but for the largest of the two Gemmas. */
static void the_largest_gemma_scales_by_its_width(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        int n_layer;
        float per_query;
    } rows[] = { { "gemma2", 45, 24 },
                 { "gemma2", 46, 16 },
                 { "gemma3", 46, 24 },
                 { "gemma3", 62, 16 },
                 { "qwen2", 46, 24 } };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        toy_spec spec = small(rows[i].arch);
        spec.n_layer = rows[i].n_layer;
        for (int k = 0; k < spec.n_layer; k++)
            spec.n_head_kv[k] = 1;
        gguf_build file;
        cera_engine *e = open_toy(&spec, &file);
        float scale = e->core->model->hparams.attn_scale;
        assert_true(fabsf(scale * sqrtf(rows[i].per_query) - 1) < 1e-6f);
        cera_engine_close(e);
        build_done(&file);
    }
}

/* What YaRN makes of the gain: 0.1 ln(factor) + 1, over the same with a share of the logarithm,
 * unless the file has its own. */
static void yarn_has_one_gain(void **state)
{
    (void)state;
    static const struct {
        float scale_gain, yarn_gain, log_share;
        double gain;
    } rows[] = { { 0, 0, 0, 1.207944154167984 },
                 { 0, 0, 1, 1 },
                 { 0, 0, 0.5f, 1.207944154167984 / 1.103972077083992 },
                 { 1.5f, 0, 0, 1.5 },
                 { 0, 1.25f, 0, 1.25 },
                 { 1.5f, 1.25f, 1, 1.25 } };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        toy_spec spec = small("mistral3");
        spec.factors = false;
        spec.scaling = "yarn";
        spec.scale_factor = 8;
        spec.first_context = 64;
        spec.scale_gain = rows[i].scale_gain;
        spec.yarn_gain = rows[i].yarn_gain;
        spec.log_share = rows[i].log_share;
        gguf_build file;
        cera_engine *e = open_toy(&spec, &file);
        const cr_model *model = e->core->model;
        assert_true(fabs((double)model->graph.ropes[0].gain / rows[i].gain - 1) < 1e-6);
        assert_int_equal(model->hparams.temperature_length, 64);
        assert_true(model->hparams.temperature == 0.1f);
        cera_engine_close(e);
        build_done(&file);
    }
    /* The converter of Mistral's own format writes 0 for "none". */
    toy_spec spec = small("mistral3");
    spec.scaling = "yarn";
    check_key(&spec,
              &(toy_key){ .name = "rope.scaling.yarn_log_multiplier", .form = TOY_KEY_FLOAT },
              NULL);
    check_key(
        &spec,
        &(toy_key){ .name = "rope.scaling.yarn_ext_factor", .form = TOY_KEY_FLOAT, .real = 2 },
        "mistral3.rope.scaling.yarn_ext_factor: only 1 is supported, found 2");
}

/* Each number is allowed, their product is not. */
static void a_state_that_is_too_large_is_refused(void **state)
{
    (void)state;
    gguf_build file;
    toy_spec spec = small("mamba2");
    spec.ssm_state = 200;
    toy_build(&spec, &file);
    apply(&file, &(change){ .name = "mamba2.ssm.inner_size", .kind = SET, .value = 1 << 20 });
    cera_engine *e = NULL;
    cera_error err;
    assert_int_equal(open_file(&file, NULL, &e, &err), CERA_E_LIMIT);
    assert_string_equal(err.message, "mamba2.ssm.state_size: 1048576 channels in 2 layers: at most "
                                     "268435456 numbers, found 419430400");
    build_done(&file);
}

/* What nothing reads is remarked on, by name. */
static void unused_tensors_are_logged(void **state)
{
    (void)state;
    gguf_build file;
    toy_spec spec = small("llama");
    toy_build(&spec, &file);
    apply(&file, &(change){ .name = "blk.1.ffn_up.bias", .kind = RENAME });
    fault_host f;
    fault_init(&f);
    cera_engine *e = NULL;
    assert_int_equal(open_file(&file, &f.host, &e, NULL), CERA_OK);
    assert_int_equal(fault_logs(&f), 1);
    assert_string_equal(fault_last_log(&f),
                        "blk.1.ffn_up.bia?: the llama architecture does not use this tensor");
    cera_engine_close(e);
    assert_null(fault_check(&f));
    fault_done(&f);
    build_done(&file);
}

/* A file without a vocabulary serves ids, and says why it does not serve text. */
static void without_a_vocabulary(void **state)
{
    (void)state;
    gguf_build file;
    toy_spec spec = small("llama");
    toy_build(&spec, &file);
    apply(&file, &(change){ .name = "tokenizer.ggml.model", .kind = RENAME });
    cera_engine *e = NULL;
    cera_error err;
    /* Half of one is damage. */
    assert_int_equal(open_file(&file, NULL, &e, &err), CERA_E_FORMAT);
    assert_non_null(strstr(err.message, "tokenizer.ggml.model"));
    apply(&file, &(change){ .name = "tokenizer.ggml.tokens", .kind = RENAME });
    assert_int_equal(open_file(&file, NULL, &e, &err), CERA_OK);
    assert_null(cera_engine_vocab(e));

    cera_session *s = NULL;
    assert_int_equal(cera_session_new(e, NULL, &s, NULL), CERA_OK);
    assert_int_equal(cera_session_append_text(s, "Hi", &err), CERA_E_UNSUPPORTED);
    assert_int_equal(cera_session_append_ids(s, (int32_t[]){ 1, 2, 3 }, 3, &err), CERA_OK);
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.max_tokens = 5;
    options.ignore_eos = true;
    cera_summary summary;
    assert_int_equal(cera_session_generate(s, &options, NULL, &summary, &err), CERA_OK);
    assert_int_equal(summary.n_generated, 5);
    cera_session_free(s);
    cera_engine_close(e);
    build_done(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hparams_are_read),
        cmocka_unit_test(routing_is_read),
        cmocka_unit_test(layers_become_ops),
        cmocka_unit_test(keys_that_are_wrong),
        cmocka_unit_test(tensors_that_are_wrong),
        cmocka_unit_test(architectures_that_are_unknown),
        cmocka_unit_test(the_context_chooses_factors),
        cmocka_unit_test(unknown_scaling_is_refused),
        cmocka_unit_test(experts_are_refused),
        cmocka_unit_test(relatives_of_lfm2_are_refused),
        cmocka_unit_test(a_long_rope_needs_its_factors),
        cmocka_unit_test(the_largest_gemma_scales_by_its_width),
        cmocka_unit_test(yarn_has_one_gain),
        cmocka_unit_test(a_state_that_is_too_large_is_refused),
        cmocka_unit_test(unused_tensors_are_logged),
        cmocka_unit_test(without_a_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Rows that nobody asked for end at the last layer's keys and states: the others get the same bits,
 * what later runs read is the same, and nothing is computed for the rows that ended. */
#include "golden/toy.h"

#include "arch/arch.h"
#include "backend/cpu/plan.h"
#include "model/model.h"

enum { N_SEQS = 5, MAX_ROWS = 64 };

/* What a sequence of the batch brings and wants. */
typedef struct part {
    int n_rows, n_logits;
    bool hidden;
} part;

/* Nothing, the last two rows, hidden states of all, both of some, a single row. */
static const part parts[N_SEQS] = {
    { 9, 0, false }, { 7, 2, false }, { 5, 0, true }, { 6, 3, true }, { 1, 1, false },
};
enum { N_ROWS = 9 + 7 + 5 + 6 + 1, N_WANTED = 2 + 5 + 6 + 1, N_LOGITS = 2 + 3 + 1, N_HIDDEN = 11 };

/* A sequence's memory, and its results: of all its rows, whether they are wanted or not. */
typedef struct memory {
    void *page[CR_MAX_GROUPS];
    void *const *pages[CR_MAX_GROUPS];
    float *state_in, *state_out;
    float *logits, *hidden;
} memory;

static size_t state_bytes(const cr_graph *graph)
{
    return (graph->state_floats + 1) * sizeof(float);
}

static memory memory_new(const cr_graph *graph)
{
    memory m = { .state_in = calloc(1, state_bytes(graph)),
                 .state_out = calloc(1, state_bytes(graph)),
                 .logits = calloc(MAX_ROWS * graph->n_vocab, sizeof(float)),
                 .hidden = calloc(MAX_ROWS * graph->n_embd, sizeof(float)) };
    for (int g = 0; g < graph->n_groups; g++)
        m.page[g] = calloc(1, cr_page_bytes(&graph->groups[g], CR_TYPE_F16, CR_PAGE));
    return m;
}

static void memory_done(memory *m)
{
    for (int g = 0; g < CR_MAX_GROUPS; g++)
        free(m->page[g]);
    free(m->state_in);
    free(m->state_out);
    free(m->logits);
    free(m->hidden);
}

static cr_batch_seq seq_of(memory *m, const part *p, const int32_t *ids)
{
    for (int g = 0; g < CR_MAX_GROUPS; g++)
        m->pages[g] = &m->page[g];
    return (cr_batch_seq){ .n_rows = p->n_rows,
                           .tokens = ids,
                           .pages = m->pages,
                           .state_in = m->state_in,
                           .state_out = m->state_out,
                           .n_logits = p->n_logits,
                           .logits = m->logits,
                           .hidden = p->hidden ? m->hidden : NULL };
}

/* ---- counting ---------------------------------------------------------------------------- */

static cr_rms_norm *real_norm;
static int n_norms;

static void counting_norm(float *y, const float *x, const float *w, size_t n, float eps)
{
    n_norms++;
    real_norm(y, x, w, n, eps);
}

/* A model on one thread, which counts the norms that it computes. */
typedef struct subject {
    gguf_build data;
    cr_host host;
    cr_gguf *file;
    cr_model *model;
    cr_backend *backend;
    cr_plan *plan;
} subject;

static void open_subject(subject *s, const toy_spec *spec)
{
    toy_build(spec, &s->data);
    cera_source source = { .data = s->data.data, .n_data = s->data.size };
    const cr_arch *arch = cr_arch_find(cr_str_from(spec->arch));
    assert_int_equal(cr_host_set(&s->host, NULL, NULL), CERA_OK);
    assert_int_equal(cr_gguf_open(&source, &s->host, &s->file, NULL), CERA_OK);
    assert_int_equal(cr_model_new(s->file, &s->host, arch, MAX_ROWS, &s->model, NULL), CERA_OK);
    const cr_backend_api *api = &cr_backend_cpu;
    cr_backend_options options = { .n_threads = 1 };
    assert_int_equal(api->open(&s->host, &options, &s->backend, NULL), CERA_OK);
    cr_plan_options plan = { .max_rows = MAX_ROWS, .kv_type = CR_TYPE_F16 };
    assert_int_equal(api->plan_new(s->backend, &s->model->graph, &plan, &s->plan, NULL), CERA_OK);
    real_norm = s->backend->kernels.rms_norm;
    s->backend->kernels.rms_norm = counting_norm;
}

static void close_subject(subject *s)
{
    cr_backend_cpu.plan_free(s->plan);
    cr_backend_cpu.close(s->backend);
    cr_model_free(s->model);
    cr_gguf_close(s->file);
    assert_int_equal(cr_host_live(&s->host), 0);
    build_done(&s->data);
}

/* The norms that a batch takes. */
static int compute(const subject *s, const cr_batch_seq *seqs, int n_seqs)
{
    cr_batch batch = { .seqs = seqs, .n_seqs = n_seqs };
    for (int i = 0; i < n_seqs; i++)
        batch.n_rows += seqs[i].n_rows;
    n_norms = 0;
    assert_int_equal(cr_backend_cpu.plan_run(s->plan, &batch, NULL), CERA_OK);
    return n_norms;
}

static int compute_one(const subject *s, const int32_t *ids, int n_logits, bool hidden)
{
    memory m = memory_new(&s->model->graph);
    cr_batch_seq seq = seq_of(&m, &(part){ 1, n_logits, hidden }, ids);
    int n = compute(s, &seq, 1);
    memory_done(&m);
    return n;
}

/* ---- the same bits ----------------------------------------------------------------------- */

static void check_part(const subject *s, const memory *got, const part *p, const int32_t *ids,
                       const char *what)
{
    const cr_graph *graph = &s->model->graph;
    memory want = memory_new(graph);
    cr_batch_seq alone = seq_of(&want, &(part){ p->n_rows, p->n_rows, true }, ids);
    compute(s, &alone, 1);
    for (int g = 0; g < graph->n_groups; g++)
        if (memcmp(want.page[g], got->page[g],
                   cr_page_bytes(&graph->groups[g], CR_TYPE_F16, CR_PAGE)) != 0)
            fail_msg("%s: other keys or values", what);
    if (memcmp(want.state_out, got->state_out, state_bytes(graph)) != 0)
        fail_msg("%s: another state", what);
    size_t first = (size_t)(p->n_rows - p->n_logits) * graph->n_vocab;
    if (memcmp(want.logits + first, got->logits,
               (size_t)p->n_logits * graph->n_vocab * sizeof(float)) != 0)
        fail_msg("%s: other logits", what);
    if (p->hidden &&
        memcmp(want.hidden, got->hidden, (size_t)p->n_rows * graph->n_embd * sizeof(float)) != 0)
        fail_msg("%s: other hidden states", what);
    memory_done(&want);
}

static void check_model(const toy_spec *spec, const int32_t *ids, const char *name)
{
    subject s;
    open_subject(&s, spec);
    memory memories[N_SEQS];
    cr_batch_seq seqs[N_SEQS];
    for (int i = 0, at = 0; i < N_SEQS; at += parts[i++].n_rows) {
        memories[i] = memory_new(&s.model->graph);
        seqs[i] = seq_of(&memories[i], &parts[i], ids + at);
    }
    int n = compute(&s, seqs, N_SEQS);
    for (int i = 0, at = 0; i < N_SEQS; at += parts[i++].n_rows) {
        char what[64];
        snprintf(what, sizeof what, "%s, sequence %d", name, i);
        if (has_one_order(spec))
            check_part(&s, &memories[i], &parts[i], ids + at, what);
        memory_done(&memories[i]);
    }

    /* Of a row: up to the last keys; behind them, the one for its result not counted. */
    int before = compute_one(&s, ids, 0, false);
    int behind = compute_one(&s, ids, 1, false) - before - 1;
    assert_int_equal(compute_one(&s, ids, 0, true), before + behind + 1);
    if (n != N_ROWS * before + N_WANTED * behind + N_LOGITS + N_HIDDEN)
        fail_msg("%s: %d norms, of which %d and %d are a row's", name, n, before, behind);
    close_subject(&s);
}

static void bits_of_every_model(void **state)
{
    (void)state;
    size_t n_ids, i;
    int32_t *ids = golden_ids(golden, "ids", &n_ids);
    assert_true(n_ids >= N_ROWS);
    json_t *model;
    json_array_foreach (golden_get(golden, "models"), i, model) {
        toy_spec spec = read_spec(model);
        check_model(&spec, ids, name_of(model));
    }
    free(ids);
}

/* ---- where rows end ---------------------------------------------------------------------- */

/* Norms of a row, counted by hand in the papers' drawings: of each layer, and behind the last
 * layer's keys or states, that of the result left out. */
typedef struct norms {
    const char *model;
    int all, behind;
} norms;

static const norms by_hand[] = {
    { "llama-f32", 3 * 2, 1 },
    { "mistral3-f32", 3 * 2, 1 },
    { "qwen2-f32", 3 * 2, 1 },
    { "granite-f32", 3 * 2, 1 },
    { "phi3-f32", 3 * 2, 1 },
    { "smollm3-f32", 4 * 2, 1 },
    { "olmo2-f32", 3 * 4, 2 }, /* queries, keys, and after each branch */
    { "exaone4-f32", 4 * (2 + 4 + 2), 2 },
    { "gemma2-f32", 4 * 4, 3 },
    { "llama-f32-moe", 3 * 3, 2 },       /* the router's, and the experts' */
    { "qwen3-f32", 3 * (2 + 4 + 2), 1 }, /* and each head's queries and keys */
    { "qwen3moe-f32", 3 * (3 + 4 + 2), 2 },
    { "gemma3-f32", 4 * (4 + 4 + 1), 3 },
    { "lfm2-f32-final", 3 * 2 + (2 + 4 + 4), 1 }, /* a convolution is last */
    { "lfm2moe-f32", 2 + 3 * 3 + 2 * (4 + 2), 2 },
    { "granitemoe-f32", 3 * 4, 3 }, /* and the shared expert's */
    { "granitemoe-f32-alone", 3 * 3, 2 },
    { "mamba2-f32", 3 * (1 + 2), 2 },     /* before, and of two groups after the scan */
    { "mamba2-f32-odd", 3 * (1 + 3), 3 }, /* of three groups */
    { "granitehybrid-f32", 2 * (2 + 2) + 2, 3 },
};

static void rows_end_at_the_last_keys(void **state)
{
    (void)state;
    size_t n_ids;
    int32_t *ids = golden_ids(golden, "ids", &n_ids);
    for (size_t i = 0; i < CR_COUNT(by_hand); i++) {
        toy_spec spec = read_spec(find_model(by_hand[i].model));
        subject s;
        open_subject(&s, &spec);
        int before = compute_one(&s, ids, 0, false);
        int all = compute_one(&s, ids, 1, false) - 1;
        if (all != by_hand[i].all || all - before != by_hand[i].behind)
            fail_msg("%s: expected %d norms, %d of them behind the last keys, found %d and %d",
                     by_hand[i].model, by_hand[i].all, by_hand[i].behind, all, all - before);
        close_subject(&s);
    }
    free(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_every_model),
        cmocka_unit_test(rows_end_at_the_last_keys),
    };
    return cmocka_run_group_tests_name("golden/toy_rows", tests, load, unload);
}

/* The same bits: any chunk size, number of threads and ISA level, token by token or at once. */
#include "api/objects.h"
#include "backend/cpu/plan.h"
#include "base/cpu.h"
#include "golden/toy.h"

#include <ctype.h>

/* Beyond a chunk of 256 keys; beyond a band of 64 rows; a few tokens, for the slow kernels. */
enum { N_SAME = 262, N_MIDDLE = 70, N_SHORT = 19, STEP_FROM = 200 };

/* What the first engine computes: hidden states of all tokens; logits after some of them. */
typedef struct answer {
    float *hidden; /* [N_SAME][n_embd] */
    size_t n_embd;
    float after_short[TOY_N_VOCAB], after_middle[TOY_N_VOCAB], after_all[TOY_N_VOCAB];
} answer;

/* Another way to compute the first n of it. */
typedef struct way {
    const char *what;
    const char *tier; /* or NULL */
    int n_threads, chunk_size, n;
    bool by_token; /* from STEP_FROM on */
} way;

static const way first_way = { "first", NULL, 1, 512, N_SAME, false };

static const way other_ways[] = { { "chunks of 1", NULL, 1, 1, N_SAME, false },
                                  { "chunks of 7", NULL, 1, 7, N_SAME, false },
                                  { "chunks of 64", NULL, 1, 64, N_SAME, false },
                                  { "token by token", NULL, 1, 512, N_SAME, true },
                                  { "2 threads", NULL, 2, 512, N_MIDDLE, false },
                                  { "3 threads, token by token", NULL, 3, 512, N_SAME, true },
                                  { "7 threads", NULL, 7, 512, N_MIDDLE, false },
#define TIER(id, name) { name, name, 1, 512, N_SHORT, false },
                                  CR_TIERS(TIER)
#undef TIER
};

static cera_engine *open_way(const gguf_build *file, const way *w)
{
    cera_engine_options options = default_options(CERA_KV_F16);
    options.cpu_tier = w->tier;
    options.n_threads = w->n_threads;
    options.chunk_size = w->chunk_size;
    return open_toy(file, &options);
}

static float *embed(cera_engine *engine, const int32_t *ids, int n, size_t n_embd)
{
    float *rows = malloc((size_t)n * n_embd * sizeof *rows);
    assert_non_null(rows);
    assert_int_equal(cera_engine_embed(engine, ids, (size_t)n, CERA_POOLING_NONE, rows, NULL),
                     CERA_OK);
    return rows;
}

static void keep(float to[TOY_N_VOCAB], const float *logits)
{
    memcpy(to, logits, TOY_N_VOCAB * sizeof *to);
}

static answer compute_first(const gguf_build *file, const int32_t *ids)
{
    cera_engine *engine = open_way(file, &first_way);
    cera_engine_info info;
    cera_engine_get_info(engine, &info);
    answer a = { .n_embd = (size_t)info.n_embd };
    a.hidden = embed(engine, ids, N_SAME, a.n_embd);
    cera_session *session = golden_session(engine);
    keep(a.after_short, golden_append(session, ids, N_SHORT));
    keep(a.after_middle, golden_append(session, ids + N_SHORT, N_MIDDLE - N_SHORT));
    cera_session_free(session);
    session = golden_session(engine);
    keep(a.after_all, golden_append(session, ids, N_SAME));
    cera_session_free(session);
    cera_engine_close(engine);
    return a;
}

static void check_way(const answer *want, const gguf_build *file, const int32_t *ids, const way *w,
                      const char *model)
{
    cera_engine *engine = open_way(file, w);
    cera_engine_info info;
    cera_engine_get_info(engine, &info);
    if (w->tier && strcmp(info.cpu_tier, w->tier) != 0)
        printf("    %s: this machine has no %s\n", model, w->tier);

    cera_session *session = golden_session(engine);
    const float *logits = golden_append(session, ids, (size_t)(w->by_token ? STEP_FROM : w->n));
    for (int i = STEP_FROM; w->by_token && i < w->n; i++)
        logits = golden_append(session, ids + i, 1);
    const float *after = w->n == N_SHORT    ? want->after_short
                         : w->n == N_MIDDLE ? want->after_middle
                                            : want->after_all;
    if (memcmp(after, logits, TOY_N_VOCAB * sizeof *logits) != 0)
        fail_msg("%s: %s: other logits", model, w->what);
    cera_session_free(session);

    /* Steps are a session's business: hidden states come in one batch. */
    if (!w->by_token) {
        float *hidden = embed(engine, ids, w->n, want->n_embd);
        if (memcmp(want->hidden, hidden, (size_t)w->n * want->n_embd * sizeof *hidden) != 0)
            fail_msg("%s: %s: other hidden states", model, w->what);
        free(hidden);
    }
    cera_engine_close(engine);
}

/* Whether a level splits floats of the model, and so gives it bits of its own. */
static bool splits(const char *tier, const toy_spec *spec)
{
    cr_tier best = cr_cpu_tier(), wanted = best;
    assert_true(tier == NULL || cr_tier_find(tier, &wanted));
    cr_kernels kernels;
    cr_kernels_get(CR_MIN(best, wanted), &kernels);
    return spec->mixed ? kernels.split != NULL : cr_kernels_splits(&kernels, spec->type);
}

/* Two layers have all of it, but where the layers with a window follow a pattern. */
static void check_same_spec(toy_spec spec, const char *name)
{
    if (!has_one_order(&spec)) {
        printf("    %s: left out, OpenBLAS has orders of its own\n", name);
        return;
    }
    if (spec.period == 0)
        spec.n_layer = 2;
    gguf_build file;
    toy_build(&spec, &file);
    size_t n_ids;
    int32_t *ids = golden_ids(golden, "ids", &n_ids);
    answer want = compute_first(&file, ids);
    for (size_t i = 0; i < sizeof other_ways / sizeof other_ways[0]; i++)
        if (splits(other_ways[i].tier, &spec) == splits(NULL, &spec))
            check_way(&want, &file, ids, &other_ways[i], name);
    free(want.hidden);
    free(ids);
    build_done(&file);
}

static void check_same(const char *name)
{
    check_same_spec(read_spec(find_model(name)), name);
}

static void test_same_llama_float(void **state)
{
    (void)state;
    check_same("llama-f32-odd");
}

static void test_same_llama_mixed(void **state)
{
    (void)state;
    check_same("llama-mixed");
}

static void test_same_llama_tied(void **state)
{
    (void)state;
    check_same("llama-q4_0-tied");
}

static void test_same_olmo2(void **state)
{
    (void)state;
    check_same("olmo2-f32-odd");
    check_same("olmo2-q4_0");
}

static void test_same_exaone4(void **state)
{
    (void)state;
    check_same("exaone4-f32-odd");
    check_same("exaone4-q4_0");
}

static void test_same_gemma(void **state)
{
    (void)state;
    check_same("gemma2-f32-period");
    check_same("gemma3-f32-six");
    check_same("gemma3-q4_0");
}

static void test_same_lfm2_float(void **state)
{
    (void)state;
    check_same("lfm2-bf16");
}

static void test_same_lfm2_taps(void **state)
{
    (void)state;
    check_same("lfm2-f32-taps");
}

static void test_same_lfm2_mixed(void **state)
{
    (void)state;
    check_same("lfm2-mixed");
}

static void test_same_experts(void **state)
{
    (void)state;
    check_same("llama-q4_0-moe");
    check_same("qwen3moe-f32-odd");
    check_same("qwen3moe-mixed");
    check_same("lfm2moe-q4_0");
    check_same("granitemoe-f32");
    toy_spec spec = read_spec(find_model("granitemoe-f32"));
    spec.type = CR_TYPE_BF16;
    check_same_spec(spec, "granitemoe of BF16");
}

static void test_same_mamba2(void **state)
{
    (void)state;
    check_same("mamba2-f32-odd");
    check_same("mamba2-mixed");
}

static void test_same_granitehybrid(void **state)
{
    (void)state;
    check_same("granitehybrid-f32-rope");
    check_same("granitehybrid-q4_0-moe");
}

/* ---- every element type ------------------------------------------------------------------ */

/* Logits after a batch of rows, and after one more. */
typedef struct two_steps {
    float logits[2][TOY_N_VOCAB];
} two_steps;

static two_steps compute_two(const gguf_build *file, const char *tier)
{
    enum { N_BATCH = 19 };
    size_t n_ids;
    int32_t *ids = golden_ids(golden, "ids", &n_ids);
    cera_engine_options options = default_options(CERA_KV_F16);
    options.cpu_tier = tier;
    cera_engine *engine = open_toy(file, &options);
    cera_session *session = golden_session(engine);
    two_steps out;
    for (size_t i = 0; i < 2; i++)
        memcpy(out.logits[i], golden_append(session, ids + i * N_BATCH, i == 0 ? N_BATCH : 1),
               sizeof out.logits[i]);
    cera_session_free(session);
    cera_engine_close(engine);
    free(ids);
    return out;
}

/* Every element type has a model above, and gives the same bits on every tier that does not split
 * it. */
static void test_same_types(void **state)
{
    (void)state;
    for (int type = 0; type < CR_TYPE_COUNT; type++) {
        char name[32] = "llama-";
        const char *from = cr_type_get((cr_type)type)->name;
        for (size_t i = 0; from[i] != '\0' && i < sizeof name - 7; i++)
            name[6 + i] = (char)tolower((unsigned char)from[i]);
        toy_spec spec = read_spec(find_model(name));
        assert_int_equal(spec.type, type);
        spec.n_layer = 1;
        gguf_build file;
        toy_build(&spec, &file);
        two_steps want = compute_two(&file, "scalar");
        static const char *const tiers[] = {
#define TIER(id, name) name,
            CR_TIERS(TIER)
#undef TIER
        };
        for (size_t i = CR_TIER_SCALAR + 1; i < CR_COUNT(tiers); i++) {
            if (splits(tiers[i], &spec))
                continue;
            two_steps got = compute_two(&file, tiers[i]);
            if (memcmp(&want, &got, sizeof got) != 0)
                fail_msg("%s: %s: other logits than scalar", name, tiers[i]);
        }
        build_done(&file);
    }
}

static void split_nothing(const cr_act *x)
{
    (void)x;
}

/* What files of state say of the bits: only where a matrix is split they are not those of all levels. */
static void test_numerics(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t number;
    } models[] = { { "llama-f32", 2 },
                   { "llama-f16", 2 },
                   { "llama-bf16", 0x20002 },
                   { "llama-q4_0", 2 },
                   { "llama-mixed", 2 } };
    for (size_t i = 0; i < CR_COUNT(models); i++) {
        toy_spec spec = read_spec(find_model(models[i].name));
        gguf_build file;
        toy_build(&spec, &file);
        cera_engine_options options = default_options(CERA_KV_F16);
        options.cpu_tier = "scalar";
        cera_engine *engine = open_toy(&file, &options);
        const cr_graph *graph = &engine->core->model->graph;
        struct cr_backend *backend = engine->core->backend;
#ifdef CERA_WITH_BLAS
        assert_int_equal(cr_backend_cpu.numerics(backend, graph), 0x10002);
#else
        assert_int_equal(cr_backend_cpu.numerics(backend, graph), 2);
        backend->kernels.split = split_nothing;
        assert_int_equal(cr_backend_cpu.numerics(backend, graph), models[i].number);
#endif
        backend->kernels.split = NULL;
        cera_engine_close(engine);
        build_done(&file);
    }
    (void)split_nothing;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_llama_float), cmocka_unit_test(test_same_llama_mixed),
        cmocka_unit_test(test_same_llama_tied),  cmocka_unit_test(test_same_olmo2),
        cmocka_unit_test(test_same_exaone4),     cmocka_unit_test(test_same_gemma),
        cmocka_unit_test(test_same_lfm2_float),  cmocka_unit_test(test_same_lfm2_taps),
        cmocka_unit_test(test_same_lfm2_mixed),  cmocka_unit_test(test_same_experts),
        cmocka_unit_test(test_same_mamba2),      cmocka_unit_test(test_same_granitehybrid),
        cmocka_unit_test(test_same_types),       cmocka_unit_test(test_numerics),
    };
    return cmocka_run_group_tests_name("golden/toy_bits", tests, load, unload);
}

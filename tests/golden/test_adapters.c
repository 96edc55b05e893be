/* Toy models with adapters against transformers: GGUF files for every projection of every
 * architecture, folders of PEFT as peft itself applies them. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */

#include "golden/toy.h"

#include "support/toy_adapter.h"

#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PARTS = 512, MAX_ADAPTERS = 2 };

static json_t *adapted; /* golden-adapters.json */

static size_t read_parts(const json_t *adapter, toy_part parts[MAX_PARTS])
{
    const json_t *list = golden_get(adapter, "tensors");
    size_t n = json_array_size(list);
    assert_in_range(n, 1, MAX_PARTS);
    for (size_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(list, i);
        int n_dims = (int)json_array_size(entry) - 2;
        assert_in_range(n_dims, 1, 3);
        parts[i] = (toy_part){ .name = json_string_value(json_array_get(entry, 0)),
                               .type = find_type(json_string_value(json_array_get(entry, 1))),
                               .n_dims = n_dims };
        for (int d = 0; d < n_dims; d++)
            parts[i].dims[d] = (uint64_t)json_integer_value(json_array_get(entry, (size_t)d + 2));
    }
    return n;
}

static void write_file(const char *folder, const char *name, const void *bytes, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void remove_folder(const char *folder)
{
    static const char *const names[] = { "adapter_config.json", "adapter_model.safetensors" };
    char path[256];
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static cera_adapter *open_source(cera_engine *engine, const cera_source *source)
{
    cera_adapter *adapter = NULL;
    cera_error err;
    if (cera_adapter_open(engine, source, &adapter, &err) != CERA_OK)
        fail_msg("%s", err.message);
    return adapter;
}

/* Ends the file: what it says has been copied. */
static cera_adapter *open_built(cera_engine *engine, gguf_build *file)
{
    cera_source source = { .data = file->data, .n_data = file->size };
    cera_adapter *out = open_source(engine, &source);
    build_done(file);
    return out;
}

static cera_adapter *open_gguf(cera_engine *engine, const json_t *adapter)
{
    static toy_part parts[MAX_PARTS];
    gguf_build file;
    toy_lora_build(&file, golden_text(adapter, "arch"), (uint64_t)golden_int(adapter, "seed"),
                   (float)golden_number(adapter, "alpha"), parts, read_parts(adapter, parts));
    return open_built(engine, &file);
}

static cera_adapter *open_control(cera_engine *engine, const json_t *adapter)
{
    static toy_part parts[MAX_PARTS];
    gguf_build file;
    toy_control_build(&file, (uint64_t)golden_int(adapter, "seed"), parts,
                      read_parts(adapter, parts));
    return open_built(engine, &file);
}

static cera_status open_folder(cera_engine *engine, const char *config, uint64_t seed,
                               const toy_part *parts, size_t n, cera_adapter **out, cera_error *err)
{
    gguf_build file;
    toy_safetensors_build(&file, seed, parts, n);
    char folder[] = "/tmp/cera-adapter-XXXXXX";
    assert_non_null(mkdtemp(folder));
    write_file(folder, "adapter_model.safetensors", file.data, file.size);
    write_file(folder, "adapter_config.json", config, strlen(config));
    build_done(&file);
    cera_status status = cera_adapter_open(engine, &(cera_source){ .path = folder }, out, err);
    remove_folder(folder);
    return status;
}

static cera_adapter *open_peft(cera_engine *engine, const json_t *adapter)
{
    static toy_part parts[MAX_PARTS];
    size_t n = read_parts(adapter, parts);
    char *config = json_dumps(golden_get(adapter, "config"), 0);
    cera_adapter *out = NULL;
    cera_error err;
    if (open_folder(engine, config, (uint64_t)golden_int(adapter, "seed"), parts, n, &out, &err) !=
        CERA_OK)
        fail_msg("%s", err.message);
    free(config);
    return out;
}

/* The largest distance of all points, and of them without adapters the least, which says that the
 * adapters matter. */
static double compare(const json_t *c, cera_engine *engine, const cera_adapter_use *uses, size_t n)
{
    size_t n_ids, done = 0, i;
    int32_t *ids = golden_ids(adapted, "ids", &n_ids);
    cera_session *session = golden_session(engine), *plain = golden_session(engine);
    assert_int_equal(cera_session_set_adapters(session, uses, n, NULL), CERA_OK);
    double worst = 0, least = INFINITY;
    json_t *point;
    json_array_foreach (golden_get(c, "points"), i, point) {
        size_t end = (size_t)golden_int(point, "n");
        worst = fmax(worst, point_distance(point, golden_append(session, ids + done, end - done)));
        least = fmin(least, point_distance(point, golden_append(plain, ids + done, end - done)));
        done = end;
    }
    cera_session_free(session);
    cera_session_free(plain);
    free(ids);
    printf(" %9.5f%%  %8.2f%%\n", 100 * worst, 100 * least);
    assert_true(least > 10 * GOLDEN_FLOAT);
    return worst;
}

static void check_case(const json_t *c)
{
    const char *name = golden_text(c, "model"), *format = golden_text(c, "format");
    toy_spec spec = read_spec(find_model(name));
    gguf_build file;
    toy_build(&spec, &file);
    cera_engine_options options = default_options(CERA_KV_F32);
    cera_engine *engine = open_toy(&file, &options);
    cera_adapter_use uses[MAX_ADAPTERS] = { { 0 } };
    const json_t *list = golden_get(c, "adapters");
    size_t n = json_array_size(list);
    assert_in_range(n, 1, MAX_ADAPTERS);
    int rank = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *adapter = json_array_get(list, i);
        bool is_peft = strcmp(format, "peft") == 0, is_control = strcmp(format, "control") == 0;
        uses[i].adapter = is_peft      ? open_peft(engine, adapter)
                          : is_control ? open_control(engine, adapter)
                                       : open_gguf(engine, adapter);
        uses[i].scale = (float)golden_number(adapter, "scale");
        if (is_control) {
            const json_t *layers = golden_get(adapter, "layers");
            uses[i].first_layer = (int)json_integer_value(json_array_get(layers, 0));
            uses[i].last_layer = (int)json_integer_value(json_array_get(layers, 1));
        }
        cera_adapter_info info;
        cera_adapter_get_info(uses[i].adapter, &info);
        assert_int_equal(info.kind, is_control ? CERA_ADAPTER_CONTROL : CERA_ADAPTER_LORA);
        rank += info.max_rank;
    }
    printf("    %-20s %-7s %4d ", name, format, rank);
    double worst = compare(c, engine, uses, n);
    for (size_t i = 0; i < n; i++)
        cera_adapter_close(uses[i].adapter);
    cera_engine_close(engine);
    build_done(&file);
    /* Floats everywhere: only the order of sums is left, as in test_toy_logits. */
    if (!(worst < GOLDEN_FLOAT / 100))
        fail_msg("%s, %s: logits are %g of their deviation away, the bound is %g", name, format,
                 worst, GOLDEN_FLOAT / 100);
}

static void test_reference(void **state)
{
    (void)state;
    printf(
        "    model                format  rank    with      without   (difference / deviation)\n");
    size_t i;
    json_t *c;
    json_array_foreach (golden_get(adapted, "cases"), i, c)
        check_case(c);
}

static void test_alpha_is_finite(void **state)
{
    (void)state;
    toy_spec spec = read_spec(find_model("llama-f32"));
    gguf_build file;
    toy_build(&spec, &file);
    cera_engine_options options = default_options(CERA_KV_F32);
    cera_engine *engine = open_toy(&file, &options);
    const uint64_t n_embd = (uint64_t)spec.n_embd,
                   n_heads = (uint64_t)(spec.n_head * spec.head_dim);
    const toy_part parts[] = {
        { "blk.0.attn_q.weight.lora_a", CR_TYPE_F32, 2, { n_embd, 4 } },
        { "blk.0.attn_q.weight.lora_b", CR_TYPE_F32, 2, { 4, n_heads } },
    };
    const float alphas[] = { 8, NAN, INFINITY, -INFINITY };
    for (size_t i = 0; i < sizeof alphas / sizeof *alphas; i++) {
        gguf_build lora;
        toy_lora_build(&lora, "llama", 1, alphas[i], parts, 2);
        cera_source source = { .data = lora.data, .n_data = lora.size };
        cera_adapter *adapter = NULL;
        cera_error err = { 0 };
        cera_status status = cera_adapter_open(engine, &source, &adapter, &err);
        assert_int_equal(status, i == 0 ? CERA_OK : CERA_E_FORMAT);
        assert_true(i == 0 || strstr(err.message, "adapter.lora.alpha") != NULL);
        cera_adapter_close(adapter);
        build_done(&lora);
    }
    cera_engine_close(engine);
    build_done(&file);
}

/* Stacks of experts are told apart by their shapes, or not at all. */
static void test_stacks_of_experts(void **state)
{
    (void)state;
    toy_spec spec = read_spec(find_model("qwen3moe-f32"));
    const uint64_t n_expert = (uint64_t)spec.n_expert, n_embd = (uint64_t)spec.n_embd;
    static const char config[] = "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4,"
                                 " \"target_parameters\": [\"experts.gate_up_proj\"]}";
    const struct {
        uint64_t n_ff, n_cols, n_rows, rank;
        const char *says; /* NULL: it is opened */
    } cases[] = {
        { 96, n_embd, 192, 2, NULL },
        { 96, 96, n_embd, 2, NULL },                                         /* down_proj */
        { 96, 192, n_embd, 2, "no experts of the model have these shapes" }, /* as PEFT once did */
        { 96, n_embd, 96, 2, "no experts of the model have these shapes" },
        { 96, n_embd, 192, 3, "gate_up_proj: expected rank 2, as r says, its tensors have 3" },
        { n_embd / 2, n_embd, n_embd, 2, "cannot be told apart" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_build file;
        spec.n_ff_expert = (int)cases[i].n_ff;
        toy_build(&spec, &file);
        cera_engine_options options = default_options(CERA_KV_F32);
        cera_engine *engine = open_toy(&file, &options);
        const uint64_t all = cases[i].rank * n_expert;
        const toy_part parts[] = {
            { "base_model.model.model.layers.0.mlp.experts.lora_A.weight",
              CR_TYPE_F32,
              2,
              { cases[i].n_cols, all } },
            { "base_model.model.model.layers.0.mlp.experts.lora_B.weight",
              CR_TYPE_F32,
              2,
              { all, cases[i].n_rows } },
        };
        cera_adapter *adapter = NULL;
        cera_error err = { 0 };
        cera_status status = open_folder(engine, config, 1, parts, 2, &adapter, &err);
        if (cases[i].says == NULL)
            assert_int_equal(status, CERA_OK);
        else if (status == CERA_OK || strstr(err.message, cases[i].says) == NULL)
            fail_msg("case %zu: %s", i, err.message);
        cera_adapter_close(adapter);
        cera_engine_close(engine);
        build_done(&file);
    }
}

/* ---- control vectors --------------------------------------------------------------------- */

/* One direction, behind a layer. */
static cera_adapter *open_direction(cera_engine *engine, int layer, const float *direction,
                                    size_t n)
{
    gguf_build file;
    char name[32];
    snprintf(name, sizeof name, "direction.%d", layer);
    build_init(&file);
    build_header(&file, 3, 1, 1);
    build_key_text(&file, "general.architecture", "controlvector");
    build_tensor(&file, name, 0, 0, 1, (uint64_t[]){ n });
    build_data(&file, 32, 0);
    build_bytes(&file, direction, n * sizeof *direction);
    build_data(&file, 32, 0);
    return open_built(engine, &file);
}

static double root_mean_square(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum / (double)n);
}

/* A direction so long that nothing else counts leaves the last norm as v / rms(v) times its
 * weights: of two of them the quotients are known. Out of its layers, or with scale 0, nothing
 * changes. */
static void test_control_vectors(void **state)
{
    (void)state;
    enum { N_TOKENS = 3, N = 512 };
    toy_spec spec = read_spec(find_model("llama-f32"));
    gguf_build file;
    toy_build(&spec, &file);
    cera_engine_options options = default_options(CERA_KV_F32);
    cera_engine *engine = open_toy(&file, &options);
    const size_t n = (size_t)spec.n_embd;
    const int last = spec.n_layer - 1;
    assert_in_range(n, 1, N);
    assert_true(last > 0);
    const int32_t ids[N_TOKENS] = { 5, 6, 7 };
    static float v[2][N], rows[2][N_TOKENS * N], plain[N_TOKENS * N], other[N_TOKENS * N];
    cera_session *session = golden_session(engine);
    cera_adapter *adapters[2];
    for (size_t a = 0; a < 2; a++) {
        for (size_t i = 0; i < n; i++)
            v[a][i] = 1e6F * (float)(1 + (i * (7 + 4 * a)) % 13) * (i % 3 == a ? -1.0F : 1.0F);
        adapters[a] = open_direction(engine, last, v[a], n);
        cera_adapter_use use = { .adapter = adapters[a], .scale = 1 };
        assert_int_equal(cera_session_set_adapters(session, &use, 1, NULL), CERA_OK);
        assert_int_equal(
            cera_session_embed(session, ids, N_TOKENS, CERA_POOLING_NONE, rows[a], NULL), CERA_OK);
    }
    double expected = root_mean_square(v[1], n) / root_mean_square(v[0], n);
    for (size_t i = 0; i < N_TOKENS * n; i++) {
        double quotient = (double)rows[0][i] / (double)rows[1][i];
        double wanted = (double)v[0][i % n] / (double)v[1][i % n] * expected;
        assert_true(fabs(quotient / wanted - 1) < 1e-4);
    }
    assert_int_equal(cera_engine_embed(engine, ids, N_TOKENS, CERA_POOLING_NONE, plain, NULL),
                     CERA_OK);
    const cera_adapter_use nothing[] = {
        { .adapter = adapters[0], .scale = 0 },
        { .adapter = adapters[0], .scale = 1, .first_layer = last + 1 },
        { .adapter = adapters[0], .scale = 1, .last_layer = last - 1 },
    };
    for (size_t i = 0; i < (last > 1 ? 3 : 2); i++) {
        assert_int_equal(cera_session_set_adapters(session, &nothing[i], 1, NULL), CERA_OK);
        assert_int_equal(cera_session_embed(session, ids, N_TOKENS, CERA_POOLING_NONE, other, NULL),
                         CERA_OK);
        assert_memory_equal(other, plain, N_TOKENS * n * sizeof *plain);
    }
    for (size_t a = 0; a < 2; a++)
        cera_adapter_close(adapters[a]);
    cera_session_free(session);
    cera_engine_close(engine);
    build_done(&file);
}

static int load_both(void **state)
{
    adapted = golden_load("golden-adapters.json");
    return load(state);
}

static int unload_both(void **state)
{
    json_decref(adapted);
    return unload(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_alpha_is_finite),
        cmocka_unit_test(test_stacks_of_experts),
        cmocka_unit_test(test_control_vectors),
    };
    return cmocka_run_group_tests_name("golden/adapters", tests, load_both, unload_both);
}

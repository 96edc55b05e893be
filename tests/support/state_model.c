#define _GNU_SOURCE /* unlinkat */
#include "support/state_model.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

const char *const state_models[STATE_N_MODELS] = { "llama", "lfm2", "gemma3", "phi3" };

void state_model_build(const char *arch, int n_context, uint64_t seed, gguf_build *out)
{
    toy_spec spec;
    toy_spec_init(&spec, arch, CR_TYPE_F32);
    spec.seed += seed;
    spec.n_context = n_context;
    spec.n_embd = spec.n_ff = 64;
    spec.n_head = 2;
    spec.head_dim = spec.rope_dims = 32;
    bool has_conv = strcmp(arch, "lfm2") == 0, is_gemma = strcmp(arch, "gemma3") == 0;
    spec.n_layer = has_conv ? 4 : 2;
    spec.window = is_gemma ? 70 : strcmp(arch, "phi3") == 0 ? 100 : 0;
    spec.period = is_gemma ? 2 : 0;
    spec.tied = is_gemma;
    for (int layer = 0; layer < spec.n_layer; layer++)
        spec.n_head_kv[layer] = has_conv && layer % 2 == 0 ? 0 : 2;
    toy_build(&spec, out);
}

cera_engine *state_model_open(const gguf_build *file, const cera_engine_options *options)
{
    cera_source source = { .data = file->data, .n_data = file->size };
    cera_engine *engine = NULL;
    cera_error err;
    if (cera_engine_open_source(&source, options, &engine, &err) != CERA_OK)
        fail_msg("%s", err.message);
    return engine;
}

void state_end(cera_engine *engine, fault_host *host, gguf_build *file)
{
    cera_engine_stats stats;
    cera_engine_get_stats(engine, &stats);
    assert_int_equal(stats.page_bytes_used + stats.state_bytes_used, 0);
    cera_engine_close(engine);
    assert_null(fault_check(host));
    fault_done(host);
    build_done(file);
}

void state_remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(path);
}

void state_ids(uint32_t seed, int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        ids[i] = (int32_t)(seed >> 8) % TOY_N_VOCAB;
    }
}

cera_summary state_generate(cera_session *s, int n)
{
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.max_tokens = n;
    options.top_k = 1;
    options.ignore_eos = true;
    cera_summary summary;
    cera_error err;
    if (cera_session_generate(s, &options, NULL, &summary, &err) != CERA_OK)
        fail_msg("%s", err.message);
    return summary;
}

void state_assert_equal(const cera_session *a, const cera_session *b)
{
    size_t n_a, n_b;
    const int32_t *ids_a = cera_session_history(a, &n_a), *ids_b = cera_session_history(b, &n_b);
    assert_int_equal(n_a, n_b);
    assert_memory_equal(ids_a, ids_b, n_a * sizeof *ids_a);
    const float *logits_a = cera_session_logits(a), *logits_b = cera_session_logits(b);
    assert_true((logits_a == NULL) == (logits_b == NULL));
    if (logits_a)
        assert_memory_equal(logits_a, logits_b, TOY_N_VOCAB * sizeof *logits_a);
}

/* Adapters: what is refused, what a list of them means for a session and for everybody else. That
 * the numbers are right is for golden/test_adapters. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/cells.h"
#include "support/fault_host.h"
#include "support/state_model.h"
#include "support/toy_adapter.h"

#include "base/compiler.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { EMBD = 64, FF = 96, N_IDS = 150, N_PARTS = 6 };

/* Of a llama with two layers: 64 wide, 2 heads of 32, one of keys and values. */
static const toy_part parts[N_PARTS] = {
    { "blk.0.attn_q.weight.lora_a", CR_TYPE_F32, 2, { EMBD, 4 } },
    { "blk.0.attn_q.weight.lora_b", CR_TYPE_F32, 2, { 4, EMBD } },
    { "blk.1.attn_v.weight.lora_a", CR_TYPE_F16, 2, { EMBD, 3 } },
    { "blk.1.attn_v.weight.lora_b", CR_TYPE_F16, 2, { 3, 32 } },
    { "blk.1.ffn_down.weight.lora_a", CR_TYPE_BF16, 2, { FF, 8 } },
    { "blk.1.ffn_down.weight.lora_b", CR_TYPE_F32, 2, { 8, EMBD } },
};
static int32_t ids[N_IDS];

/* ---- engines and adapters ---------------------------------------------------------------- */

static void build_model(gguf_build *out)
{
    toy_spec spec;
    toy_spec_init(&spec, "llama", CR_TYPE_F32);
    spec.n_layer = 2;
    spec.n_embd = EMBD;
    spec.n_ff = FF;
    spec.n_head = 2;
    spec.head_dim = spec.rope_dims = 32;
    for (int i = 0; i < 2; i++)
        spec.n_head_kv[i] = 1;
    toy_build(&spec, out);
    for (int i = 0; i < N_IDS; i++)
        ids[i] = (i * 131 + 17) % TOY_N_VOCAB;
}

static cera_engine_options options_with(int n_threads, int chunk_size, const char *cache_dir)
{
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.n_threads = n_threads;
    options.chunk_size = chunk_size;
    options.cache_dir = cache_dir;
    return options;
}

static cera_engine *start(gguf_build *file, int n_threads, int chunk_size, const char *cache_dir)
{
    cera_engine_options options = options_with(n_threads, chunk_size, cache_dir);
    build_model(file);
    return state_model_open(file, &options);
}

static void stop(cera_engine *engine, gguf_build *file)
{
    cera_engine_close(engine);
    build_done(file);
}

static cera_status open_bytes(cera_engine *engine, const gguf_build *file, cera_adapter **out,
                              cera_error *err)
{
    cera_source source = { .data = file->data, .n_data = file->size };
    return cera_adapter_open(engine, &source, out, err);
}

static cera_adapter *open_lora(cera_engine *engine, uint64_t seed, float alpha)
{
    gguf_build file;
    cera_adapter *adapter = NULL;
    cera_error err = { 0 };
    toy_lora_build(&file, "llama", seed, alpha, parts, N_PARTS);
    if (open_bytes(engine, &file, &adapter, &err) != CERA_OK)
        fail_msg("%s", err.message);
    build_done(&file);
    return adapter;
}

static cera_session *new_session(cera_engine *engine, cera_adapter *adapter, float scale)
{
    cera_session *s = NULL;
    assert_int_equal(cera_session_new(engine, NULL, &s, NULL), CERA_OK);
    cera_adapter_use use = { .adapter = adapter, .scale = scale };
    if (adapter)
        assert_int_equal(cera_session_set_adapters(s, &use, 1, NULL), CERA_OK);
    return s;
}

static void append(cera_session *s, int from, int to)
{
    cera_error err = { 0 };
    if (cera_session_append_ids(s, ids + from, (size_t)(to - from), &err) != CERA_OK)
        fail_msg("%s", err.message);
}

typedef struct row {
    float logits[TOY_N_VOCAB];
} row;

static row logits_of(const cera_session *s)
{
    row r;
    memcpy(r.logits, cera_session_logits(s), sizeof r.logits);
    return r;
}

/* What a session of its own computes for the first n ids, from nothing. */
static row cold(const gguf_build *file, uint64_t seed, float alpha, float scale, int n)
{
    cera_engine_options options = options_with(1, 16, NULL);
    options.no_reuse = true;
    cera_engine *engine = state_model_open(file, &options);
    cera_adapter *adapter = scale != 0 ? open_lora(engine, seed, alpha) : NULL;
    cera_session *s = new_session(engine, adapter, scale);
    append(s, 0, n);
    row r = logits_of(s);
    cera_session_free(s);
    cera_adapter_close(adapter);
    cera_engine_close(engine);
    return r;
}

static void assert_same(row a, row b)
{
    assert_memory_equal(a.logits, b.logits, sizeof a.logits);
}

static void assert_other(row a, row b)
{
    /* rounding is a thousand times less */
    assert_true(cells_distance(a.logits, b.logits, TOY_N_VOCAB) > 1e-3);
}

/* ---- scales ------------------------------------------------------------------------------ */

static void test_scales(void **state)
{
    (void)state;
    gguf_build file;
    build_model(&file);
    row base = cold(&file, 0, 0, 0, 20), one = cold(&file, 1, 0, 1, 20);
    assert_other(base, one);
    /* Each tensor has alpha over its own rank, 4, 3 and 8: no factor of the whole adapter is
     * that. */
    row twelve = cold(&file, 1, 12, 1, 20);
    assert_other(twelve, one);
    assert_same(twelve, cold(&file, 1, 24, 0.5f, 20));
    assert_same(twelve, cold(&file, 1, 48, 0.25f, 20));

    cera_engine_options options = options_with(2, 7, NULL);
    cera_engine *engine = state_model_open(&file, &options);
    cera_adapter *adapter = open_lora(engine, 1, 12);
    cera_session *s = new_session(engine, NULL, 0);
    cera_adapter_use zero = { .adapter = adapter, .scale = 0 };
    assert_int_equal(cera_session_set_adapters(s, &zero, 1, NULL), CERA_OK);
    append(s, 0, 20);
    assert_same(base, logits_of(s)); /* and it is the base, with which it shares what is known */
    cera_session_free(s);
    s = new_session(engine, adapter, 1);
    append(s, 0, 13);
    append(s, 13, 20);
    assert_same(twelve, logits_of(s)); /* whatever threads and chunks there are */
    cera_session_free(s);
    cera_adapter_close(adapter);
    stop(engine, &file);
}

/* Twice the same adapter is twice its update; the order of a list is one of its properties. */
static void test_lists(void **state)
{
    (void)state;
    gguf_build file;
    cera_engine *engine = start(&file, 1, 64, NULL);
    cera_adapter *a = open_lora(engine, 1, 8), *b = open_lora(engine, 2, 8);
    cera_adapter_use lists[3][2] = { { { a, 1, 0, 0 }, { b, -0.5f, 0, 0 } },
                                     { { a, 0.5f, 0, 0 }, { a, 0.5f, 0, 0 } },
                                     { { a, 1, 0, 0 }, { b, 0, 0, 0 } } };
    row rows[3], alone = cold(&file, 1, 8, 1, 30);
    for (int i = 0; i < 3; i++) {
        cera_session *s = new_session(engine, NULL, 0);
        assert_int_equal(cera_session_set_adapters(s, lists[i], 2, NULL), CERA_OK);
        append(s, 0, 30);
        rows[i] = logits_of(s);
        cera_session_free(s);
    }
    assert_other(rows[0], alone);
    assert_same(rows[2], alone);
    for (int i = 0; i < TOY_N_VOCAB; i++) /* the sum in two steps */
        assert_true(fabsf(rows[1].logits[i] - alone.logits[i]) < 1e-3f);
    cera_adapter_close(a);
    cera_adapter_close(b);
    stop(engine, &file);
}

/* ---- sessions ---------------------------------------------------------------------------- */

/* Between tokens: what has been computed stays, what follows is the new list's. */
static void test_swap(void **state)
{
    (void)state;
    gguf_build file;
    cera_engine *engine = start(&file, 1, 16, NULL);
    cera_adapter *a = open_lora(engine, 1, 8), *b = open_lora(engine, 2, 8);
    row cold_a = cold(&file, 1, 8, 1, 21), cold_b = cold(&file, 2, 8, 1, 21);
    cera_session *s = new_session(engine, a, 1);
    append(s, 0, 20);
    row before = logits_of(s);
    cera_adapter_use use = { .adapter = b, .scale = 1 };
    assert_int_equal(cera_session_set_adapters(s, &use, 1, NULL), CERA_OK);
    assert_same(before, logits_of(s));
    assert_int_equal(cera_session_position(s), 20);
    cera_session *fork = NULL;
    assert_int_equal(cera_session_fork(s, &fork, NULL), CERA_OK);
    append(s, 20, 21);
    row mixed = logits_of(s);
    assert_other(mixed, cold_a);
    assert_other(mixed, cold_b);
    append(fork, 20, 21);
    assert_same(mixed, logits_of(fork));
    assert_int_equal(cera_session_save(s, "/nonexistent", NULL), CERA_E_UNSUPPORTED);

    /* What others find of these tokens is what they would compute. */
    cera_session *other = new_session(engine, b, 1);
    append(other, 0, 21);
    assert_same(cold_b, logits_of(other));
    /* To be what the new list makes of it, all is computed again: by going back ... */
    assert_int_equal(cera_session_rewind(s, 21, NULL), CERA_OK);
    assert_same(cold_b, logits_of(s));
    /* ... and by a history, for which others have computed the first 20 tokens. */
    use.adapter = a;
    assert_int_equal(cera_session_set_adapters(fork, &use, 1, NULL), CERA_OK);
    assert_int_equal(cera_session_sync(fork, ids, 21, NULL), CERA_OK);
    assert_same(cold_a, logits_of(fork));
    /* Now it is like any other again: without adapters too. */
    assert_int_equal(cera_session_set_adapters(fork, NULL, 0, NULL), CERA_OK);
    cera_session_reset(fork);
    append(fork, 0, 21);
    assert_same(cold(&file, 0, 0, 0, 21), logits_of(fork));
    cera_session_free(other);
    cera_session_free(fork);
    cera_session_free(s);
    cera_adapter_close(a);
    cera_adapter_close(b);
    stop(engine, &file);
}

/* Guesses by the model as it is, or from the text, change nothing of what the adapted one says; and
 * what guesses has no adapters. */
static void test_drafts(void **state)
{
    (void)state;
    enum { N = 60 };
    gguf_build file;
    cera_engine *engine = start(&file, 1, 16, NULL);
    cera_engine *plain = state_model_open(&file, NULL);
    cera_adapter *adapter = open_lora(engine, 1, 8);
    size_t n_accepted = 0, n_other = 0;
    for (int i = 0; i < 8; i++) {
        cera_generate_options options;
        cera_generate_options_init(&options);
        options.max_tokens = N;
        options.ignore_eos = true;
        options.temperature = i % 2 == 0 ? 0 : 0.8F;
        options.seed = (uint64_t)i;
        const float scale = i < 4 ? 0.02F : 1; /* guesses that come true, and that do not */
        cera_session *with = new_session(engine, adapter, scale),
                     *without = new_session(engine, adapter, scale),
                     *bare = new_session(plain, NULL, 0);
        cera_session *const all[] = { with, without, bare };
        cera_summary found[3];
        for (int k = 0; k < 3; k++) {
            append(all[k], i, 20);
            options.n_draft = k == 0 ? 4 : 0;
            options.draft = k == 0 && i % 4 < 2 ? plain : NULL;
            assert_int_equal(cera_session_generate(all[k], &options, NULL, &found[k], NULL),
                             CERA_OK);
        }
        size_t n[3];
        const int32_t *history[3];
        for (int k = 0; k < 3; k++)
            history[k] = cera_session_history(all[k], &n[k]);
        assert_int_equal(n[0], n[1]);
        assert_memory_equal(history[0], history[1], n[0] * sizeof *history[0]);
        assert_same(logits_of(with), logits_of(without));
        n_accepted += found[0].n_accepted;
        n_other += n[0] != n[2] || memcmp(history[0], history[2], n[0] * sizeof **history) != 0;
        for (int k = 0; k < 3; k++)
            cera_session_free(all[k]);
    }
    assert_in_range(n_accepted, 1, 8 * N);
    assert_in_range(n_other, 4, 8);
    /* What guessed has computed is what anybody else finds without adapters. */
    cera_session *s = new_session(plain, NULL, 0);
    append(s, 0, 21);
    assert_same(cold(&file, 0, 0, 0, 21), logits_of(s));
    cera_session_free(s);
    cera_adapter_close(adapter);
    cera_engine_close(plain);
    stop(engine, &file);
}

static uint64_t n_reused(cera_engine *engine)
{
    cera_engine_stats stats;
    cera_engine_get_stats(engine, &stats);
    return stats.n_tokens_reused;
}

/* A, then B, then none, then A with another scale, with one prefix tree: each as if alone. */
static void test_prefix(void **state)
{
    (void)state;
    gguf_build file;
    cera_engine *engine = start(&file, 1, 64, NULL);
    cera_adapter *list[] = { open_lora(engine, 1, 8), open_lora(engine, 2, 8), NULL,
                             open_lora(engine, 1, 8) };
    const float scales[] = { 1, 1, 0, 0.5f };
    const uint64_t seeds[] = { 1, 2, 0, 1 };
    for (int i = 0; i < 4; i++) {
        row want = cold(&file, seeds[i], 8, scales[i], N_IDS);
        for (int again = 0; again < 2; again++) {
            uint64_t reused = n_reused(engine);
            cera_session *s = new_session(engine, list[i], scales[i]);
            append(s, 0, N_IDS);
            assert_same(want, logits_of(s));
            assert_int_equal(n_reused(engine) - reused, again ? N_IDS - 1 : 0);
            cera_session_free(s);
        }
    }
    /* The content counts, not the object. */
    cera_session *s = new_session(engine, list[3], 1);
    uint64_t reused = n_reused(engine);
    append(s, 0, N_IDS);
    assert_int_equal(n_reused(engine) - reused, N_IDS - 1);
    cera_session_free(s);
    for (int i = 0; i < 4; i++)
        cera_adapter_close(list[i]);
    stop(engine, &file);
}

/* The disk tier and saved sessions: found and taken by the same list only. */
static void test_files(void **state)
{
    (void)state;
    gguf_build file;
    build_model(&file);
    char folder[] = "/tmp/cera-adapter-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/session", folder);
    const float scales[] = { 1, 0, 1 };
    const uint64_t n_read[] = { 0, 0, 3 }; /* two whole blocks and the end */
    row with = cold(&file, 1, 8, 1, N_IDS), without = cold(&file, 0, 0, 0, N_IDS);
    for (int i = 0; i < 3; i++) {
        cera_engine_options options = options_with(1, 64, folder);
        cera_engine *engine = state_model_open(&file, &options);
        cera_adapter *a = open_lora(engine, 1, 8);
        cera_session *s = new_session(engine, a, scales[i]);
        append(s, 0, N_IDS);
        assert_same(scales[i] != 0 ? with : without, logits_of(s));
        cera_engine_stats stats;
        cera_engine_get_stats(engine, &stats);
        assert_int_equal(stats.n_blocks_read, n_read[i]);
        cera_error err = { 0 };
        if (i == 0)
            assert_int_equal(cera_session_save(s, path, NULL), CERA_OK);
        if (i == 1) {
            assert_int_equal(cera_session_load(s, path, &err), CERA_E_UNSUPPORTED);
            assert_non_null(strstr(err.message, "adapters"));
            assert_same(without, logits_of(s));
        }
        if (i == 2) {
            cera_session_reset(s);
            assert_int_equal(cera_session_load(s, path, NULL), CERA_OK);
            assert_same(with, logits_of(s));
        }
        cera_session_free(s);
        cera_adapter_close(a);
        cera_engine_close(engine);
    }
    state_remove_folder(folder);
    build_done(&file);
}

/* Hidden states with the session's adapters, whatever it has computed. */
static void test_embed(void **state)
{
    (void)state;
    gguf_build file;
    cera_engine *engine = start(&file, 1, 64, NULL);
    cera_adapter *a = open_lora(engine, 1, 8);
    cera_session *s = new_session(engine, a, 1);
    float plain[EMBD], adapted[EMBD], again[EMBD];
    assert_int_equal(cera_engine_embed(engine, ids, 9, CERA_POOLING_MEAN, plain, NULL), CERA_OK);
    assert_int_equal(cera_session_embed(s, ids, 9, CERA_POOLING_MEAN, adapted, NULL), CERA_OK);
    append(s, 20, 40);
    assert_int_equal(cera_session_embed(s, ids, 9, CERA_POOLING_MEAN, again, NULL), CERA_OK);
    assert_memory_equal(adapted, again, sizeof adapted);
    assert_true(cells_distance(plain, adapted, EMBD) > 0.02);
    assert_int_equal(cera_session_set_adapters(s, NULL, 0, NULL), CERA_OK);
    assert_int_equal(cera_session_embed(s, ids, 9, CERA_POOLING_MEAN, again, NULL), CERA_OK);
    assert_memory_equal(plain, again, sizeof plain);
    cera_session_free(s);
    cera_adapter_close(a);
    stop(engine, &file);
}

/* ---- many in one step -------------------------------------------------------------------- */

enum { N_THREADS = 6, N_STEPS = 60 };

typedef struct job {
    cera_engine *engine;
    cera_adapter *adapter;
    float scale;
    row rows[N_STEPS];
    pthread_t thread;
} job;

/* A prompt, then tokens one by one. */
static void *work(void *arg)
{
    job *j = arg;
    cera_session *s = new_session(j->engine, j->adapter, j->scale);
    append(s, 0, 40);
    for (int i = 0; i < N_STEPS; i++) {
        append(s, 40 + i, 41 + i);
        j->rows[i] = logits_of(s);
    }
    cera_session_free(s);
    return NULL;
}

static void test_batch(void **state)
{
    (void)state;
    gguf_build file;
    build_model(&file);
    cera_engine_options options = options_with(2, 16, NULL);
    options.no_reuse = true;
    cera_engine *engine = state_model_open(&file, &options);
    cera_adapter *a = open_lora(engine, 1, 8), *b = open_lora(engine, 2, 8);
    static job jobs[N_THREADS], alone[N_THREADS];
    const float scales[N_THREADS] = { 1, 1, 0, 0.5f, -1, 0 };
    for (int i = 0; i < N_THREADS; i++) {
        jobs[i] = (job){ .engine = engine, .adapter = i % 2 ? b : a, .scale = scales[i] };
        alone[i] = jobs[i];
        work(&alone[i]);
    }
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, work, &jobs[i]), 0);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(jobs[i].thread, NULL);
    for (int i = 0; i < N_THREADS; i++)
        assert_memory_equal(jobs[i].rows, alone[i].rows, sizeof alone[i].rows);
    assert_other(alone[0].rows[N_STEPS - 1], alone[1].rows[N_STEPS - 1]);
    cera_adapter_close(a);
    cera_adapter_close(b);
    stop(engine, &file);
}

/* ---- what is refused --------------------------------------------------------------------- */

#define PAIR(name, a, b)                                                                           \
    { name ".lora_a", CR_TYPE_F32, 2, a },                                                         \
    {                                                                                              \
        name ".lora_b", CR_TYPE_F32, 2, b                                                          \
    }
#define DIMS(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        toy_part parts[3];
        cera_status status;
        const char *says[3];
    } cases[] = {
        { "qwen2",
          { PAIR("blk.0.attn_q.weight", DIMS(EMBD, 4), DIMS(4, EMBD)) },
          CERA_E_UNSUPPORTED,
          { "llama", "qwen2" } },
        { "llama",
          { PAIR("blk.0.attn_q.weight", DIMS(128, 4), DIMS(4, EMBD)) },
          CERA_E_FORMAT,
          { "blk.0.attn_q.weight.lora_a", "[64, 4]", "[128, 4]" } },
        { "llama",
          { PAIR("blk.0.attn_q.weight", DIMS(EMBD, 4), DIMS(4, 128)) },
          CERA_E_FORMAT,
          { "blk.0.attn_q.weight.lora_b", "[4, 64]", "[4, 128]" } },
        { "llama",
          { PAIR("blk.0.attn_q.weight", DIMS(EMBD, 4), DIMS(5, EMBD)) },
          CERA_E_FORMAT,
          { "blk.0.attn_q.weight.lora_a", "[64, 5]", "[64, 4]" } },
        { "llama",
          { PAIR("blk.2.attn_q.weight", DIMS(EMBD, 4), DIMS(4, EMBD)) },
          CERA_E_FORMAT,
          { "blk.2.attn_q.weight", "no such tensor" } },
        { "llama",
          { PAIR("blk.0.attn_norm.weight", DIMS(EMBD, 4), DIMS(4, 1)) },
          CERA_E_UNSUPPORTED,
          { "blk.0.attn_norm.weight", "cannot be adapted" } },
        { "llama",
          { PAIR("blk.0.attn_q.weight", DIMS(EMBD, 5000), DIMS(5000, EMBD)) },
          CERA_E_LIMIT,
          { "blk.0.attn_q.weight.lora_b", "4096", "5000" } },
        { "llama",
          { { "blk.0.attn_q.weight.lora_a", CR_TYPE_F32, 2, { EMBD, 4 } } },
          CERA_E_FORMAT,
          { "blk.0.attn_q.weight.lora_a", "has no .lora_b" } },
        { "llama",
          { { "blk.0.attn_q.weight.lora_b", CR_TYPE_F32, 2, { 4, EMBD } } },
          CERA_E_FORMAT,
          { "blk.0.attn_q.weight.lora_b", "has no .lora_a" } },
        { "llama",
          { { "blk.0.attn_q.weight", CR_TYPE_F32, 2, { EMBD, EMBD } } },
          CERA_E_FORMAT,
          { "blk.0.attn_q.weight", ".lora_a" } },
        { "controlvector",
          { { "direction.1", CR_TYPE_F32, 1, { 65 } } },
          CERA_E_FORMAT,
          { "direction.1", "[64]", "[65]" } },
        { "controlvector",
          { { "direction.2", CR_TYPE_F32, 1, { EMBD } } },
          CERA_E_FORMAT,
          { "direction.2", "up to 1" } },
        { "controlvector",
          { { "direction.0", CR_TYPE_F32, 1, { EMBD } } },
          CERA_E_FORMAT,
          { "direction.0" } },
        { "controlvector",
          { { "direction.1", CR_TYPE_F16, 1, { EMBD } } },
          CERA_E_UNSUPPORTED,
          { "direction.1", "F32" } },
    };
    gguf_build file;
    cera_engine *engine = start(&file, 1, 64, NULL);
    cera_adapter *a = open_lora(engine, 1, 8);
    cera_session *s = new_session(engine, a, 1);
    append(s, 0, 20);
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        gguf_build bad;
        size_t n = 0;
        while (n < 3 && cases[i].parts[n].name)
            n++;
        if (strcmp(cases[i].arch, "controlvector") == 0)
            toy_control_build(&bad, 1, cases[i].parts, n);
        else
            toy_lora_build(&bad, cases[i].arch, 1, 8, cases[i].parts, n);
        cera_adapter *none = NULL;
        cera_error err = { .message = "" };
        cera_status status = open_bytes(engine, &bad, &none, &err);
        if (status != cases[i].status || none)
            fail_msg("case %zu: %s: %s", i, cera_status_name(status), err.message);
        for (int k = 0; k < 3 && cases[i].says[k]; k++)
            if (!strstr(err.message, cases[i].says[k]))
                fail_msg("case %zu: \"%s\" does not say \"%s\"", i, err.message, cases[i].says[k]);
        build_done(&bad);
    }
    /* Lists. */
    cera_engine_options options = options_with(1, 64, NULL);
    cera_engine *second = state_model_open(&file, &options);
    cera_adapter *foreign = open_lora(second, 1, 8);
    cera_adapter_use uses[65] = { { foreign, 1, 0, 0 } };
    assert_int_equal(cera_session_set_adapters(s, uses, 1, NULL), CERA_E_ARG);
    for (int i = 0; i < 65; i++)
        uses[i] = (cera_adapter_use){ a, 1, 0, 0 };
    assert_int_equal(cera_session_set_adapters(s, uses, 65, NULL), CERA_E_LIMIT);
    static const float bad_scales[] = { NAN, INFINITY, -INFINITY };
    for (int i = 0; i < 3; i++) {
        uses[0].scale = bad_scales[i];
        assert_int_equal(cera_session_set_adapters(s, uses, 1, NULL), CERA_E_ARG);
    }
    uses[0].scale = 3e38f; /* times alpha over rank */
    assert_int_equal(cera_session_set_adapters(s, uses, 1, NULL), CERA_E_ARG);
    uses[0] = (cera_adapter_use){ a, 1, 9, 3 }; /* the last layer before the first */
    assert_int_equal(cera_session_set_adapters(s, uses, 1, NULL), CERA_E_ARG);
    uses[0].adapter = NULL;
    assert_int_equal(cera_session_set_adapters(s, uses, 1, NULL), CERA_E_ARG);
    assert_int_equal(cera_session_set_adapters(s, NULL, 1, NULL), CERA_E_ARG);
    /* The session has seen nothing of all that. */
    append(s, 20, 21);
    assert_same(cold(&file, 1, 8, 1, 21), logits_of(s));
    cera_session_free(s);
    cera_adapter_close(foreign);
    cera_engine_close(second);
    cera_adapter_close(a);
    stop(engine, &file);
}

/* Every length of a file, and every bit of its header, opens or says why not. */
static void test_hostile(void **state)
{
    (void)state;
    gguf_build file, good;
    build_model(&file);
    toy_lora_build(&good, "llama", 1, 8, parts, N_PARTS);
    size_t header = build_find(&good, "", BUILD_DATA);
    cera_engine_options options = options_with(1, 64, NULL);
    cera_engine *engine = state_model_open(&file, &options);
    int n_opened = 0;
    for (size_t i = 0; i < header + 8 * header; i++) {
        bool cuts = i < header;
        size_t size = cuts ? i : good.size;
        uint8_t *bytes = malloc(size + 1); /* of its own, so that asan sees what is beyond */
        assert_non_null(bytes);
        memcpy(bytes, good.data, size);
        if (!cuts)
            bytes[(i - header) / 8] ^= (uint8_t)(1u << (i - header) % 8);
        cera_source source = { .data = bytes, .n_data = size };
        cera_adapter *adapter = NULL;
        cera_error err = { .message = "" };
        cera_status status = cera_adapter_open(engine, &source, &adapter, &err);
        if (status == CERA_OK)
            n_opened++;
        else if (adapter || err.status != status || err.message[0] == '\0')
            fail_msg("case %zu: an error without its message", i);
        cera_adapter_close(adapter);
        free(bytes);
    }
    assert_in_range(n_opened, 100, 600); /* other names of keys, other alphas, bits of padding */
    /* A number that is none. */
    static const uint8_t nan[] = { 0, 0, 0xc0, 0x7f };
    memcpy(good.data + (header + 31) / 32 * 32 + 64, nan, sizeof nan);
    cera_adapter *adapter = NULL;
    cera_error err = { .message = "" };
    assert_int_equal(open_bytes(engine, &good, &adapter, &err), CERA_E_FORMAT);
    assert_non_null(strstr(err.message, "blk.0.attn_q.weight.lora_a: expected finite numbers"));
    cera_engine_close(engine);
    build_done(&good);
    build_done(&file);
}

/* Every allocation fails once: the call says so, and the session goes on as it was. */
static void test_memory(void **state)
{
    (void)state;
    gguf_build file, good;
    build_model(&file);
    toy_lora_build(&good, "llama", 2, 8, parts, N_PARTS);
    row want = cold(&file, 1, 8, 1, 20);
    int n_failed = 0;
    for (size_t i = 1;; i++) {
        fault_host f;
        fault_init(&f);
        cera_engine_options options = options_with(1, 16, NULL);
        options.host = &f.host;
        cera_engine *engine = state_model_open(&file, &options);
        cera_adapter *first = open_lora(engine, 1, 8), *second = NULL;
        cera_session *s = new_session(engine, first, 1);
        append(s, 0, 19);
        fault_allocs(&f, i, FAULT_ONCE);
        cera_status status = open_bytes(engine, &good, &second, NULL);
        cera_adapter_use use = { .adapter = second, .scale = 1 };
        if (status == CERA_OK)
            status = cera_session_set_adapters(s, &use, 1, NULL);
        bool reached = fault_hits(&f) > 0;
        if (reached) {
            assert_int_equal(status, CERA_E_NOMEM);
            append(s, 19, 20);
            assert_same(want, logits_of(s));
            n_failed++;
        }
        cera_session_free(s);
        cera_adapter_close(first);
        cera_adapter_close(second);
        cera_engine_close(engine);
        assert_null(fault_check(&f));
        fault_done(&f);
        if (!reached)
            break;
    }
    assert_true(n_failed > 8);
    build_done(&good);
    build_done(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scales),   cmocka_unit_test(test_lists),
        cmocka_unit_test(test_swap),     cmocka_unit_test(test_drafts),
        cmocka_unit_test(test_prefix),   cmocka_unit_test(test_files),
        cmocka_unit_test(test_embed),    cmocka_unit_test(test_batch),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

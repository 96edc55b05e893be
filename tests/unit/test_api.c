/* The edge of the library: whatever is handed in is refused by name or works, outputs are written
 * only on success, and a refused call has changed nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/tiny.h"

#include "base/compiler.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cera_engine *engine;

static int open_engine(void **state)
{
    (void)state;
    engine = tiny_open(NULL);
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    cera_engine_close(engine);
    return 0;
}

/* The error is filled in, in one line, and names its subject. */
static void assert_error(const cera_error *err, cera_status status, const char *subject)
{
    assert_int_equal(err->status, status);
    assert_non_null(memchr(err->message, 0, sizeof err->message));
    if (strstr(err->message, subject) == NULL || strchr(err->message, '\n') != NULL)
        fail_msg("expected %s in: %s", subject, err->message);
}

/* ---- engine ------------------------------------------------------------------------------ */

static void engine_options_out_of_range(void **state)
{
    (void)state;
    cera_host no_size = { .size = 0 }, no_read;
    cera_host_init(&no_read);
    no_read.os.read = NULL;
    const struct {
        size_t size_change;
        cera_engine_options o;
        const char *subject;
    } rows[] = {
        { 1, { .n_threads = 1 }, "size" },
        { (size_t)-8, { .n_threads = 1 }, "size" },
        { 0, { .n_threads = -1 }, "n_threads" },
        { 0, { .n_threads = 257 }, "n_threads" },
        { 0, { .n_threads = 100000 }, "n_threads" },
        { 0, { .n_threads = INT_MIN }, "n_threads" },
        { 0, { .context_size = -1 }, "context_size" },
        { 0, { .context_size = INT_MAX }, "context_size" },
        { 0, { .chunk_size = -1 }, "chunk_size" },
        { 0, { .chunk_size = 4097 }, "chunk_size" },
        { 0, { .kv_type = (cera_kv_type)3 }, "kv_type" },
        { 0, { .kv_type = (cera_kv_type)-1 }, "kv_type" },
        { 0, { .cpu_tier = "" }, "cpu_tier" },
        { 0, { .cpu_tier = "avx1024" }, "cpu_tier" },
        { 0, { .host = &no_size }, "host.size" },
        { 0, { .host = &no_read }, "host.os.read" },
    };
    cera_source source = tiny_source();
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        cera_engine_options o = rows[i].o;
        o.size = sizeof o + rows[i].size_change;
        cera_engine *out = NULL;
        cera_error err;
        assert_int_equal(cera_engine_open_source(&source, &o, &out, &err), CERA_E_ARG);
        assert_error(&err, CERA_E_ARG, rows[i].subject);
        assert_null(out);
        assert_int_equal(cera_engine_open_source(&source, &o, &out, NULL), CERA_E_ARG);
    }
    cera_error err;
    assert_int_equal(cera_engine_open_source(&source, NULL, NULL, &err), CERA_E_ARG);
    assert_error(&err, CERA_E_ARG, "out");
}

static void engine_options_at_their_edges(void **state)
{
    (void)state;
    static const cera_engine_options rows[] = {
        { .n_threads = 256, .chunk_size = 1, .context_size = 1 },
        { .n_threads = 1, .chunk_size = 4096, .cpu_tier = "scalar" },
        { .n_threads = 0, .chunk_size = 0, .kv_type = CERA_KV_F32 },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        cera_engine_options o = rows[i];
        o.size = sizeof o;
        cera_engine *e = tiny_open(&o);
        cera_engine_info info;
        cera_engine_get_info(e, &info);
        assert_int_equal(info.context_size, o.context_size > 0 ? o.context_size : TINY_CONTEXT);
        if (o.n_threads > 0)
            assert_int_equal(info.n_threads, o.n_threads);
        assert_in_range(info.n_threads, 1, 256);
        if (o.cpu_tier)
            assert_string_equal(info.cpu_tier, o.cpu_tier);
        cera_session *s = tiny_new(e, 0);
        assert_int_equal(cera_session_append_ids(s, tiny_prompt_ids, 1, NULL), CERA_OK);
        assert_int_equal(cera_session_append_ids(s, tiny_prompt_ids + 1, 1, NULL),
                         info.context_size > 1 ? CERA_OK : CERA_E_CONTEXT);
        cera_session_free(s);
        cera_engine_close(e);
    }
}

static int read_fails(void *user, void *buf, size_t n, uint64_t offset)
{
    (void)user;
    (void)buf;
    (void)n;
    (void)offset;
    return EIO;
}

static void sources_that_are_none(void **state)
{
    (void)state;
    const struct {
        cera_source source;
        cera_status status;
        const char *subject;
    } rows[] = {
        { { .path = NULL }, CERA_E_ARG, "source" },
        { { .path = "" }, CERA_E_ARG, "source.path" },
        { { .path = "a", .data = "b", .n_data = 1 }, CERA_E_ARG, "source" },
        { { .data = "b", .n_data = 1, .read = read_fails }, CERA_E_ARG, "source" },
        { { .path = "/no/such/model.gguf" }, CERA_E_IO, "/no/such/model.gguf" },
        { { .path = "/" }, CERA_E_IO, "/" },
        { { .path = "builtin:large" }, CERA_E_UNSUPPORTED, "builtin:large" },
        { { .data = "", .n_data = 0 }, CERA_E_FORMAT, "" },
        { { .data = "GGUF", .n_data = 4 }, CERA_E_FORMAT, "" },
        { { .read = read_fails, .n_data = 100 }, CERA_E_IO, "callback" },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        cera_error err;
        cera_engine *e = NULL;
        assert_int_equal(cera_engine_open_source(&rows[i].source, NULL, &e, &err), rows[i].status);
        assert_error(&err, rows[i].status, rows[i].subject);
        assert_null(e);
        cera_vocab *v = NULL;
        assert_int_equal(cera_vocab_open(&rows[i].source, NULL, &v, &err), rows[i].status);
        assert_error(&err, rows[i].status, rows[i].subject);
        assert_null(v);
        cera_file *f = NULL;
        assert_int_equal(cera_file_open(&rows[i].source, NULL, &f, &err), rows[i].status);
        assert_error(&err, rows[i].status, rows[i].subject);
        assert_null(f);
    }
    cera_engine *e = NULL;
    assert_int_equal(cera_engine_open(NULL, NULL, &e, NULL), CERA_E_ARG);
    assert_int_equal(cera_engine_open_source(NULL, NULL, &e, NULL), CERA_E_ARG);
    assert_null(e);
}

typedef struct bytes {
    char *data;
    size_t n;
} bytes;

static bytes read_model(void)
{
    FILE *f = fopen(CERA_TEST_MODELS "/tiny.gguf", "rb");
    assert_non_null(f);
    bytes b = { .data = malloc(1 << 22) };
    b.n = fread(b.data, 1, 1 << 22, f);
    fclose(f);
    return b;
}

static int read_bytes(void *user, void *buf, size_t n, uint64_t offset)
{
    const bytes *b = user;
    if (offset > b->n || n > b->n - offset)
        return EIO;
    memcpy(buf, b->data + offset, n);
    return 0;
}

/* Every form of source gives the same model. */
static void every_source_is_the_same_model(void **state)
{
    (void)state;
    bytes model = read_model();
    const cera_source sources[] = {
        { .path = CERA_TEST_MODELS "/tiny.gguf" },
        { .path = CERA_TEST_MODELS "/tiny.gguf", .no_mmap = true },
        { .data = model.data, .n_data = model.n },
        { .read = read_bytes, .user = &model, .n_data = model.n },
    };
    cera_session *expected = tiny_new(engine, 0);
    tiny_append(expected, tiny_prompt);
    for (size_t i = 0; i < CR_COUNT(sources); i++) {
        cera_engine *e = NULL;
        assert_int_equal(cera_engine_open_source(&sources[i], NULL, &e, NULL), CERA_OK);
        cera_session *s = tiny_new(e, 0);
        tiny_append(s, tiny_prompt);
        tiny_assert_equal(s, expected);
        cera_session_free(s);
        cera_engine_close(e);
    }
    cera_session_free(expected);
    free(model.data);
}

#ifdef __linux__

/* Bytes of a file's mapping that this process has in its page tables, as the kernel counts them. */
static size_t resident_bytes(const char *name)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    char line[1024];
    size_t total = 0, kib;
    bool within = false;
    while (fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            within = strstr(line, name) != NULL;
        else if (within && sscanf(line, "Rss: %zu kB", &kib) == 1)
            total += kib * 1024;
    }
    fclose(maps);
    return total;
}

/* All pages of the weights are there once the engine is open; otherwise few are. */
static void prefault(void **state)
{
    (void)state;
    cera_engine_info info;
    cera_engine_get_info(engine, &info);
    size_t resident[2];
    for (int i = 0; i < 2; i++) {
        cera_engine_options options;
        cera_engine_options_init(&options);
        options.prefault = i == 1;
        cera_engine *e;
        assert_int_equal(cera_engine_open(CERA_TEST_MODELS "/tiny.gguf", &options, &e, NULL),
                         CERA_OK);
        resident[i] = resident_bytes("/tiny.gguf");
        cera_engine_close(e);
    }
    assert_true(resident[0] < info.weight_bytes / 2);
    assert_true(resident[1] >= info.weight_bytes);
}

#endif

static void engine_info(void **state)
{
    (void)state;
    cera_engine_info info;
    cera_engine_get_info(engine, &info);
    assert_string_equal(info.arch, "lfm2");
    assert_string_equal(info.quant, "Q8_0");
    assert_int_equal(info.n_params, 1790144);
    assert_int_equal(info.n_layer, 8);
    assert_int_equal(info.n_embd, 128);
    assert_int_equal(info.n_head, 4);
    assert_int_equal(info.n_vocab, TINY_VOCAB);
    assert_int_equal(info.context_size, TINY_CONTEXT);
    assert_int_equal(info.context_size_model, TINY_CONTEXT);
    assert_in_range(info.weight_bytes, 1790144, 1947264);
    assert_in_range(info.memory_bytes, 1, 50 << 20);
    assert_true(info.load_ms > 0);

    cera_vocab_info vocab;
    cera_vocab_get_info(cera_engine_vocab(engine), &vocab);
    assert_int_equal(vocab.n_tokens, TINY_VOCAB);
    assert_int_equal(vocab.bos, TINY_BOS);
    assert_string_equal(vocab.pre, "lfm2");
    assert_true(cera_vocab_is_end(cera_engine_vocab(engine), TINY_IM_END));
    assert_true(cera_vocab_is_control(cera_engine_vocab(engine), TINY_IM_START));
    assert_false(cera_vocab_is_end(cera_engine_vocab(engine), TINY_IM_START));
}

/* ---- session ----------------------------------------------------------------------------- */

static void session_options_out_of_range(void **state)
{
    (void)state;
    static const cera_session_options rows[] = {
        { sizeof(cera_session_options) + 4, 0 },
        { 0, 0 },
        { sizeof(cera_session_options), -1 },
        { sizeof(cera_session_options), INT_MIN },
        { sizeof(cera_session_options), TINY_CONTEXT + 1 },
        { sizeof(cera_session_options), INT_MAX },
    };
    cera_error err;
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        cera_session *s = NULL;
        assert_int_equal(cera_session_new(engine, &rows[i], &s, &err), CERA_E_ARG);
        assert_error(&err, CERA_E_ARG, i < 2 ? "size" : "context_size");
        assert_null(s);
    }
    cera_session *s = NULL;
    assert_int_equal(cera_session_new(NULL, NULL, &s, &err), CERA_E_ARG);
    assert_int_equal(cera_session_new(engine, NULL, NULL, &err), CERA_E_ARG);
    assert_null(s);
}

static void inputs_that_are_none(void **state)
{
    (void)state;
    cera_session *s = tiny_new(engine, 0);
    tiny_append(s, tiny_prompt);
    tiny_snapshot before;
    tiny_take(s, &before);
    static const int32_t id = 5;
    const cera_input rows[] = {
        { .text = NULL }, { .n_text = 5 },
        { .n_ids = 5 },   { .text = "a", .ids = &id, .n_ids = 1 },
        { .text = "" },   { .ids = &id, .n_ids = 0 },
    };
    cera_error err;
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        assert_int_equal(cera_session_append(s, &rows[i], &err), CERA_E_ARG);
        assert_error(&err, CERA_E_ARG, "input");
        assert_int_equal(cera_session_append(s, &rows[i], NULL), CERA_E_ARG);
    }
    assert_int_equal(cera_session_append(s, NULL, &err), CERA_E_ARG);
    assert_int_equal(cera_session_append_text(s, NULL, &err), CERA_E_ARG);
    assert_int_equal(cera_session_append_ids(s, NULL, 3, &err), CERA_E_ARG);
    tiny_assert_at(s, &before);
    cera_session_free(s);
}

static void generate_options_out_of_range(void **state)
{
    (void)state;
    char long_stop[258];
    memset(long_stop, 'x', 257);
    long_stop[257] = '\0';
    const char *const empty[] = { "a", "" }, *const too_long[] = { long_stop },
                      *const missing[] = { "a", NULL };
    const char *many[17];
    for (size_t i = 0; i < CR_COUNT(many); i++)
        many[i] = "a";
    const cera_logit_bias low = { -1, 0 }, high = { TINY_VOCAB, 0 }, nan = { 5, NAN },
                          infinite = { 5, INFINITY };
    static const cera_logit_bias many_bias[1025];
    static const int32_t many_ids[1025];
    struct {
        const char *subject;
        cera_generate_options o;
    } rows[32];
    size_t n = 0;
#define ROW(subject_, ...)                                                                         \
    do {                                                                                           \
        cera_generate_options *o = &rows[n].o;                                                     \
        cera_generate_options_init(o);                                                             \
        rows[n++].subject = subject_;                                                              \
        __VA_ARGS__;                                                                               \
    } while (0)
    ROW("size", o->size = 0);
    ROW("size", o->size += 8);
    ROW("max_tokens", o->max_tokens = -2);
    ROW("max_tokens", o->max_tokens = INT_MIN);
    ROW("top_k", o->top_k = -1);
    ROW("top_p", o->top_p = -0.1f);
    ROW("top_p", o->top_p = 1.1f);
    ROW("top_p", o->top_p = NAN);
    ROW("min_p", o->min_p = -0.1f);
    ROW("min_p", o->min_p = 1.1f);
    ROW("min_p", o->min_p = NAN);
    ROW("repetition_penalty", o->repetition_penalty = 0);
    ROW("repetition_penalty", o->repetition_penalty = -1);
    ROW("repetition_penalty", o->repetition_penalty = NAN);
    ROW("repetition_penalty", o->repetition_penalty = INFINITY);
    ROW("n_logprobs", o->n_logprobs = -1);
    ROW("n_logprobs", o->n_logprobs = 21);
    ROW("stop", o->n_stop = 1);
    ROW("stop", o->stop = many; o->n_stop = 17);
    ROW("stop", o->stop = empty; o->n_stop = 2);
    ROW("stop", o->stop = missing; o->n_stop = 2);
    ROW("stop", o->stop = too_long; o->n_stop = 1);
    ROW("stop_ids", o->n_stop_ids = 1);
    ROW("stop_ids", o->stop_ids = many_ids; o->n_stop_ids = 1025);
    ROW("bias", o->n_bias = 1);
    ROW("bias", o->bias = many_bias; o->n_bias = 1025);
    ROW("bias", o->bias = &low; o->n_bias = 1);
    ROW("bias", o->bias = &high; o->n_bias = 1);
    ROW("bias", o->bias = &nan; o->n_bias = 1);
    ROW("bias", o->bias = &infinite; o->n_bias = 1);
#undef ROW
    assert_true(n <= CR_COUNT(rows));

    cera_session *s = tiny_new(engine, 0);
    tiny_append(s, tiny_prompt);
    tiny_snapshot before;
    tiny_take(s, &before);
    tiny_record record = { .n_tokens = 0 };
    cera_sink sink = tiny_sink(&record);
    for (size_t i = 0; i < n; i++) {
        cera_error err;
        cera_summary summary = { .n_generated = 77 };
        assert_int_equal(cera_session_generate(s, &rows[i].o, &sink, &summary, &err), CERA_E_ARG);
        assert_error(&err, CERA_E_ARG, rows[i].subject);
        assert_int_equal(cera_session_generate(s, &rows[i].o, &sink, NULL, NULL), CERA_E_ARG);
        assert_int_equal(summary.n_generated, 77);
        assert_int_equal(record.n_tokens + record.n_texts, 0);
        tiny_assert_at(s, &before);
    }
    cera_session_free(s);
}

static void generate_options_at_their_edges(void **state)
{
    (void)state;
    char long_stop[257];
    memset(long_stop, 'x', 256);
    long_stop[256] = '\0';
    const char *stops[16];
    for (size_t i = 0; i < CR_COUNT(stops); i++)
        stops[i] = long_stop;
    static cera_logit_bias bias[1024];
    for (size_t i = 0; i < CR_COUNT(bias); i++)
        bias[i] = (cera_logit_bias){ (int32_t)i, -1 };
    static const int32_t ids[1024] = { TINY_BOS };
    cera_session *s = tiny_new(engine, 0);
    tiny_append(s, tiny_prompt);
    for (int i = 0; i < 6; i++) {
        cera_generate_options o;
        cera_generate_options_init(&o);
        o.max_tokens = 2;
        o.stop = stops;
        o.n_stop = CR_COUNT(stops);
        o.bias = bias;
        o.n_bias = CR_COUNT(bias);
        o.stop_ids = ids;
        o.n_stop_ids = CR_COUNT(ids);
        o.n_logprobs = 20;
        o.top_k = i == 0 ? INT_MAX : 0;
        o.top_p = i == 1 ? 0.0f : 1.0f;
        o.min_p = i == 2 ? 1.0f : 0.0f;
        o.temperature = i == 3 ? 1e-30f : i == 4 ? 1e30f : 1.0f;
        o.repetition_penalty = i == 5 ? 1e-30f : 1.0f;
        o.seed = UINT64_MAX;
        cera_summary summary = tiny_generate(s, &o, NULL);
        assert_true(summary.n_generated <= 2);
    }
    cera_session_free(s);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static cera_os real_os;
static int n_times; /* that the clock was read */

static uint64_t counted_clock(void *ctx)
{
    n_times++;
    return real_os.clock_ns(ctx);
}

/* A file that cannot be written is found before anything is measured; nothing is left of it. */
static void tuning_has_nowhere_to_go(void **state)
{
    (void)state;
    cera_host host;
    cera_host_init(&host);
    real_os = host.os;
    host.os.clock_ns = counted_clock;
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.host = &host;
    cera_engine *e = tiny_open(&options);
    static const struct {
        const char *path;
        cera_status status;
    } bad[] = {
        { "no/such/folder", CERA_E_IO },
        { ".", CERA_E_IO },
        { "folder/", CERA_E_ARG },
        { "", CERA_E_ARG },
    };
    for (size_t i = 0; i < CR_COUNT(bad); i++) {
        cera_error err;
        n_times = 0;
        assert_int_equal(cera_engine_tune(e, bad[i].path, &err), bad[i].status);
        assert_error(&err, bad[i].status, bad[i].path);
        assert_int_equal(n_times, 0);
    }
    cera_engine_close(e);
}

/* What was measured is read again, and changes no result; nothing else is taken for it. */
static void tuning(void **state)
{
    (void)state;
    static const char path[] = "test_api_tuning.json";
    cera_error err;
    assert_int_equal(cera_engine_tune(engine, path, &err), CERA_OK);
    char text[256] = "";
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_memory_equal(text, "{\"version\": 1, \"cpu\": \"", 23);
    char *number = strstr(text, ", \"prefetch\": ");
    assert_non_null(number);
    assert_true(strtol(number + 14, NULL, 10) >= 2048);
    *number = 0;

    cera_engine_options options;
    cera_engine_options_init(&options);
    options.tuning = path;
    cera_session *plain = tiny_new(engine, 0);
    tiny_append(plain, tiny_prompt);
    static const char *const good[] = { "1", "64", "4097", "1048576" };
    for (size_t i = 0; i < CR_COUNT(good); i++) {
        char file[512];
        snprintf(file, sizeof file, "%s, \"prefetch\": %s}", text, good[i]);
        write_text(path, file);
        cera_engine *tuned = tiny_open(&options);
        cera_session *session = tiny_new(tuned, 0);
        tiny_append(session, tiny_prompt);
        tiny_assert_equal(plain, session);
        cera_session_free(session);
        cera_engine_close(tuned);
    }
    cera_session_free(plain);

    const struct {
        const char *before, *after; /* before: the version and this processor, or NULL */
        cera_status status;
        const char *subject;
    } bad[] = {
        { NULL, "", CERA_E_FORMAT, "test_api_tuning.json" },
        { NULL, "{\"version\": 1,", CERA_E_FORMAT, "test_api_tuning.json" },
        { NULL, "[1]", CERA_E_FORMAT, "version 1" },
        { NULL, "{\"version\": 2}", CERA_E_FORMAT, "version 1" },
        { NULL, "{\"version\": 1, \"cpu\": \"Z80\", \"prefetch\": 64}", CERA_E_STATE, "Z80" },
        { NULL, "{\"version\": 1, \"prefetch\": 64}", CERA_E_FORMAT, "cpu: expected" },
        { text, "}", CERA_E_FORMAT, "prefetch" },
        { text, ", \"prefetch\": 0}", CERA_E_FORMAT, "prefetch" },
        { text, ", \"prefetch\": -64}", CERA_E_FORMAT, "prefetch" },
        { text, ", \"prefetch\": \"64\"}", CERA_E_FORMAT, "prefetch" },
        { text, ", \"prefetch\": 1048577}", CERA_E_FORMAT, "prefetch" },
    };
    for (size_t i = 0; i < CR_COUNT(bad); i++) {
        char file[512];
        snprintf(file, sizeof file, "%s%s", bad[i].before ? bad[i].before : "", bad[i].after);
        write_text(path, file);
        cera_source source = tiny_source();
        cera_engine *e = NULL;
        assert_int_equal(cera_engine_open_source(&source, &options, &e, &err), bad[i].status);
        assert_error(&err, bad[i].status, bad[i].subject);
        assert_null(e);
    }
    remove(path);
    cera_source source = tiny_source();
    cera_engine *e = NULL;
    assert_int_equal(cera_engine_open_source(&source, &options, &e, &err), CERA_E_IO);
    assert_error(&err, CERA_E_IO, path);
    options.tuning = "";
    assert_int_equal(cera_engine_open_source(&source, &options, &e, &err), CERA_E_ARG);
    assert_error(&err, CERA_E_ARG, "tuning: expected");

    assert_int_equal(cera_engine_tune(NULL, path, &err), CERA_E_ARG);
    assert_int_equal(cera_engine_tune(engine, NULL, &err), CERA_E_ARG);
}

/* The counts are those of the file: every matrix of the model is Q8_0, vectors and taps are not.
 * Layer 7, the last, is a convolution. */
static void roofline(void **state)
{
    (void)state;
    cera_error err;
    cera_file *file;
    cera_source source = tiny_source();
    assert_int_equal(cera_file_open(&source, NULL, &file, &err), CERA_OK);
    cera_file_info info;
    cera_file_get_info(file, &info);
    uint64_t n_bytes = 0, macs = 0;
    for (size_t i = 0; i < info.n_tensors; i++) {
        cera_file_tensor tensor;
        cera_file_get_tensor(file, i, &tensor);
        if (strcmp(tensor.type, "Q8_0") != 0)
            continue;
        n_bytes += tensor.size;
        macs += tensor.shape[0] * tensor.shape[1];
    }
    cera_file_close(file);

    cera_roofline found;
    assert_int_equal(cera_engine_roofline(engine, &found, &err), CERA_OK);
    assert_int_equal(found.token_bytes, n_bytes);
    assert_int_equal(found.token_macs, macs);
    assert_int_equal(found.result_macs, 1024 * 128 + 128 * 128 + 3 * 128 * 384); /* head, layer 7 */
    assert_true(found.read_rate > 0 && isfinite(found.read_rate));
    assert_true(found.multiply_rate > 0 && isfinite(found.multiply_rate));

    assert_int_equal(cera_engine_roofline(NULL, &found, &err), CERA_E_ARG);
    assert_error(&err, CERA_E_ARG, "engine");
    assert_int_equal(cera_engine_roofline(engine, NULL, &err), CERA_E_ARG);
}

static void embed_out_of_range(void **state)
{
    (void)state;
    static float out[128], untouched[128];
    static const int32_t ids[TINY_CONTEXT + 1] = { 1 };
    const int32_t wrong[] = { 1, TINY_VOCAB };
    const struct {
        cera_engine *engine;
        const int32_t *ids;
        size_t n;
        cera_pooling pooling;
        float *out;
        cera_status status;
    } rows[] = {
        { NULL, ids, 1, CERA_POOLING_MEAN, out, CERA_E_ARG },
        { engine, NULL, 1, CERA_POOLING_MEAN, out, CERA_E_ARG },
        { engine, ids, 1, CERA_POOLING_MEAN, NULL, CERA_E_ARG },
        { engine, ids, 0, CERA_POOLING_MEAN, out, CERA_E_ARG },
        { engine, ids, 1, (cera_pooling)2, out, CERA_E_ARG },
        { engine, ids, 1, (cera_pooling)-1, out, CERA_E_ARG },
        { engine, wrong, 2, CERA_POOLING_MEAN, out, CERA_E_ARG },
        { engine, ids, TINY_CONTEXT + 1, CERA_POOLING_MEAN, out, CERA_E_CONTEXT },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        cera_error err;
        assert_int_equal(cera_engine_embed(rows[i].engine, rows[i].ids, rows[i].n, rows[i].pooling,
                                           rows[i].out, &err),
                         rows[i].status);
        assert_error(&err, rows[i].status, "");
        assert_memory_equal(out, untouched, sizeof out);
    }
}

/* ---- NULL -------------------------------------------------------------------------------- */

static void nothing_is_accepted_as_nothing(void **state)
{
    (void)state;
    cera_error err;
    size_t n = 99;
    cera_session_free(NULL);
    cera_engine_close(NULL);
    cera_vocab_free(NULL);
    cera_file_close(NULL);
    cera_session_cancel(NULL);
    cera_session_reset(NULL);
    assert_null(cera_engine_retain(NULL));
    assert_int_equal(cera_session_append_text(NULL, "a", &err), CERA_E_ARG);
    assert_int_equal(cera_session_append_ids(NULL, tiny_prompt_ids, 1, &err), CERA_E_ARG);
    assert_int_equal(cera_session_append(NULL, &(cera_input){ .text = "a" }, NULL), CERA_E_ARG);
    assert_int_equal(cera_session_generate(NULL, NULL, NULL, NULL, &err), CERA_E_ARG);
    assert_null(cera_session_logits(NULL));
    assert_null(cera_session_history(NULL, &n));
    assert_int_equal(n, 0);
    assert_null(cera_session_history(NULL, NULL));
    assert_int_equal(cera_session_position(NULL), 0);

    cera_engine_info info;
    cera_engine_get_info(NULL, &info);
    assert_int_equal(info.n_params, 0);
    assert_string_equal(info.arch, "");
    cera_engine_get_info(engine, NULL);
    assert_null(cera_engine_vocab(NULL));

    const cera_vocab *vocab = cera_engine_vocab(engine);
    int32_t *ids = NULL;
    assert_int_equal(cera_vocab_encode(NULL, "a", 1, NULL, &ids, &n, &err), CERA_E_ARG);
    assert_int_equal(cera_vocab_encode(vocab, NULL, 1, NULL, &ids, &n, &err), CERA_E_ARG);
    assert_int_equal(cera_vocab_encode(vocab, "a", 1, NULL, NULL, &n, &err), CERA_E_ARG);
    assert_int_equal(cera_vocab_encode(vocab, "a", 1, NULL, &ids, NULL, &err), CERA_E_ARG);
    assert_null(ids);
    cera_vocab_free_ids(vocab, NULL, 0);
    cera_vocab_free_ids(NULL, NULL, 0);
    cera_source source = tiny_source();
    assert_int_equal(cera_vocab_open(&source, NULL, NULL, &err), CERA_E_ARG);
    assert_int_equal(cera_vocab_open(NULL, NULL, (cera_vocab *[1]){ 0 }, &err), CERA_E_ARG);
    assert_null(cera_vocab_piece(NULL, 5, &n));
    assert_int_equal(n, 0);
    assert_non_null(cera_vocab_piece(vocab, 5, NULL));
    assert_null(cera_vocab_piece(vocab, -1, NULL));
    assert_null(cera_vocab_piece(vocab, TINY_VOCAB, &n));
    cera_vocab_info vocab_info;
    cera_vocab_get_info(NULL, &vocab_info);
    assert_int_equal(vocab_info.n_tokens, 0);
    assert_int_equal(vocab_info.bos, -1);
    cera_vocab_get_info(vocab, NULL);
    assert_false(cera_vocab_is_end(NULL, TINY_EOS));
    assert_false(cera_vocab_is_end(vocab, -1));
    assert_false(cera_vocab_is_control(NULL, TINY_EOS));
    assert_false(cera_vocab_is_control(vocab, INT32_MAX));
    cera_cpu_get_info(NULL, NULL);
}

/* A fresh struct from init, a NULL and a zeroed sink mean the same. */
static void defaults(void **state)
{
    (void)state;
    cera_generate_options o;
    cera_generate_options_init(&o);
    cera_session *a = tiny_new(engine, 64), *b = tiny_new(engine, 64);
    tiny_append(a, tiny_prompt);
    tiny_append(b, tiny_prompt);
    cera_summary from_a, from_b;
    assert_int_equal(cera_session_generate(a, &o, &(cera_sink){ .user = NULL }, &from_a, NULL),
                     CERA_OK);
    assert_int_equal(cera_session_generate(b, NULL, NULL, &from_b, NULL), CERA_OK);
    assert_int_equal(from_a.n_generated, from_b.n_generated);
    tiny_assert_equal(a, b);
    cera_session_free(a);
    cera_session_free(b);
}

static void version_and_names(void **state)
{
    (void)state;
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", CERA_VERSION_MAJOR, CERA_VERSION_MINOR,
             CERA_VERSION_PATCH);
    assert_string_equal(cera_version(), expected);
    assert_string_equal(cera_status_name(CERA_E_CONTEXT), "CERA_E_CONTEXT");
    assert_string_equal(cera_status_name((cera_status)99), "CERA_E_?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine_options_out_of_range),
        cmocka_unit_test(engine_options_at_their_edges),
        cmocka_unit_test(sources_that_are_none),
        cmocka_unit_test(every_source_is_the_same_model),
#ifdef __linux__
        cmocka_unit_test(prefault),
#endif
        cmocka_unit_test(engine_info),
        cmocka_unit_test(session_options_out_of_range),
        cmocka_unit_test(inputs_that_are_none),
        cmocka_unit_test(generate_options_out_of_range),
        cmocka_unit_test(generate_options_at_their_edges),
        cmocka_unit_test(roofline),
        cmocka_unit_test(tuning),
        cmocka_unit_test(tuning_has_nowhere_to_go),
        cmocka_unit_test(embed_out_of_range),
        cmocka_unit_test(nothing_is_accepted_as_nothing),
        cmocka_unit_test(defaults),
        cmocka_unit_test(version_and_names),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}

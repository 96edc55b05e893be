/* Saving and loading: a loaded session goes on with the same bits; a file that is not exactly what
 * was saved by this model is refused, and then nothing has happened. */
#define _GNU_SOURCE /* mkdtemp, mkfifo */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fault_host.h"
#include "support/state_model.h"

#include "api/objects.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_CONTEXT = 300 };

static char folder[64], path[96];

static int make_folder(void **state)
{
    (void)state;
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* syncs cost time */
    snprintf(folder, sizeof folder, "%s/cera-save-XXXXXX", parent);
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/session", folder);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    remove(path);
    return rmdir(folder); /* a part that was left behind is a failure */
}

static cera_session *new_session(cera_engine *engine)
{
    cera_session *s = NULL;
    assert_int_equal(cera_session_new(engine, NULL, &s, NULL), CERA_OK);
    return s;
}

static void must(cera_status status, const cera_error *err)
{
    if (status != CERA_OK)
        fail_msg("%s", err->message);
}

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

static bytes read_file(void)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    bytes b = { .size = (size_t)ftell(f) };
    rewind(f);
    b.data = malloc(b.size + 1);
    assert_int_equal(fread(b.data, 1, b.size, f), b.size);
    fclose(f);
    return b;
}

static void write_file(const uint8_t *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* ---- going on ---------------------------------------------------------------------------- */

/* In an engine that computes with other threads, other chunks and the slowest kernels; at the edges
 * of pages, of windows, and in the middle of a generation. */
static void goes_on(const char *arch, cera_kv_type kv_type, int n_prompt, int n_generated)
{
    gguf_build file;
    state_model_build(arch, N_CONTEXT, 0, &file);
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.n_threads = 1;
    options.kv_type = kv_type;
    cera_engine *engine = state_model_open(&file, &options);
    options.n_threads = 2;
    options.chunk_size = 37;
    options.cpu_tier = "scalar";
    cera_engine *other = state_model_open(&file, &options);

    int32_t ids[N_CONTEXT];
    state_ids(5, ids, N_CONTEXT);
    cera_session *a = new_session(engine), *b = new_session(other);
    assert_int_equal(cera_session_append_ids(a, ids, (size_t)n_prompt, NULL), CERA_OK);
    state_generate(a, n_generated);
    cera_error err;
    must(cera_session_save(a, path, &err), &err);
    assert_int_equal(cera_session_append_ids(b, ids + 7, 90, NULL), CERA_OK); /* something else */
    must(cera_session_load(b, path, &err), &err);
    state_assert_equal(a, b);
    state_generate(a, 5);
    state_generate(b, 5);
    state_assert_equal(a, b);
    assert_int_equal(cera_session_append_ids(a, ids, 70, NULL), CERA_OK);
    assert_int_equal(cera_session_append_ids(b, ids, 70, NULL), CERA_OK);
    state_assert_equal(a, b);
    assert_int_equal(cera_session_rewind(a, 20, NULL), CERA_OK);
    assert_int_equal(cera_session_rewind(b, 20, NULL), CERA_OK);
    state_assert_equal(a, b);
    cera_session_free(a);
    cera_session_free(b);
    cera_engine_close(engine);
    cera_engine_close(other);
    build_done(&file);
}

static void loaded_sessions_go_on(void **state)
{
    (void)state;
    static const int lengths[][2] = { { 1, 0 }, { 64, 0 }, { 60, 4 }, { 130, 37 }, { 200, 10 } };
    for (int m = 0; m < STATE_N_MODELS; m++) {
        for (size_t i = 0; i < CR_COUNT(lengths); i++)
            goes_on(state_models[m], CERA_KV_F16, lengths[i][0], lengths[i][1]);
    }
    goes_on("llama", CERA_KV_F32, 130, 7);
    goes_on("gemma3", CERA_KV_Q8_0, 130, 7);
}

/* ---- refusing ---------------------------------------------------------------------------- */

typedef struct fixture {
    gguf_build file;
    fault_host host;
    cera_engine *engine;
    cera_session *saved, *session, *before; /* `before`: what `session` is to stay */
} fixture;

static void begin(fixture *x, const char *arch)
{
    state_model_build(arch, N_CONTEXT, 0, &x->file);
    fault_init(&x->host);
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.host = &x->host.host;
    options.n_threads = 1;
    x->engine = state_model_open(&x->file, &options);
    int32_t ids[100];
    state_ids(9, ids, 100);
    x->saved = new_session(x->engine);
    assert_int_equal(cera_session_append_ids(x->saved, ids, 70, NULL), CERA_OK);
    cera_error err;
    must(cera_session_save(x->saved, path, &err), &err);
    x->session = new_session(x->engine);
    assert_int_equal(cera_session_append_ids(x->session, ids + 30, 40, NULL), CERA_OK);
    assert_int_equal(cera_session_fork(x->session, &x->before, NULL), CERA_OK);
}

static void end(fixture *x)
{
    cera_session_free(x->saved);
    cera_session_free(x->session);
    cera_session_free(x->before);
    state_end(x->engine, &x->host, &x->file);
}

static void refused(fixture *x, cera_status status, const char *what)
{
    cera_error err = { 0 };
    assert_int_equal(cera_session_load(x->session, path, &err), status);
    assert_memory_equal(err.message, path, strlen(path)); /* it names the file */
    if (what && !strstr(err.message, what))
        fail_msg("expected \"%s\" in: %s", what, err.message);
    state_assert_equal(x->session, x->before);
}

static void damage_is_found(void **state)
{
    (void)state;
    for (int m = 0; m < STATE_N_MODELS; m++) {
        fixture x;
        begin(&x, state_models[m]);
        bytes good = read_file();
        /* Every byte of the header and the ids, then every 997th, then the digest. */
        for (size_t i = 0; i < good.size; i += i < 400 || i + 16 >= good.size ? 1 : 997) {
            good.data[i] ^= 0x10;
            write_file(good.data, good.size);
            cera_error err;
            cera_status status = cera_session_load(x.session, path, &err);
            if (status != CERA_E_FORMAT && status != CERA_E_UNSUPPORTED)
                fail_msg("byte %zu: %s", i, cera_status_name(status));
            state_assert_equal(x.session, x.before);
            good.data[i] ^= 0x10;
        }
        for (size_t size = 0; size < good.size; size += size < 200 ? 1 : 1499) {
            write_file(good.data, size);
            refused(&x, CERA_E_FORMAT, NULL);
        }
        write_file(good.data, good.size - 1);
        refused(&x, CERA_E_FORMAT, "cut short");
        good.data[good.size] = 0;
        write_file(good.data, good.size + 1);
        refused(&x, CERA_E_FORMAT, "damaged");
        write_file(good.data, good.size);
        must(cera_session_load(x.session, path, NULL), &(cera_error){ 0 });
        state_assert_equal(x.session, x.saved);
        free(good.data);
        end(&x);
    }
}

/* Whole files, saved by something else. */
static void foreign_files_are_refused(void **state)
{
    (void)state;
    fixture x;
    begin(&x, "llama");
    int32_t ids[N_CONTEXT];
    state_ids(9, ids, N_CONTEXT);
    static const struct {
        uint64_t seed;
        cera_kv_type kv_type;
        int context_size, n;
        const char *what;
        cera_status status;
    } rows[] = {
        { 1, CERA_KV_F16, 0, 70, "other weights", CERA_E_UNSUPPORTED }, /* of the same shape */
        { 0, CERA_KV_F32, 0, 70, "keys and values of type 1, found type 0", CERA_E_UNSUPPORTED },
        { 0, CERA_KV_F16, 0, 70, NULL, CERA_OK },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        gguf_build file;
        state_model_build("llama", N_CONTEXT, rows[i].seed, &file);
        cera_engine_options options;
        cera_engine_options_init(&options);
        options.kv_type = rows[i].kv_type;
        cera_engine *engine = state_model_open(&file, &options);
        cera_session *s = new_session(engine);
        assert_int_equal(cera_session_append_ids(s, ids, (size_t)rows[i].n, NULL), CERA_OK);
        assert_int_equal(cera_session_save(s, path, NULL), CERA_OK);
        cera_session_free(s);
        cera_engine_close(engine);
        build_done(&file);
        if (rows[i].status == CERA_OK)
            assert_int_equal(cera_session_load(x.session, path, NULL), CERA_OK);
        else
            refused(&x, rows[i].status, rows[i].what);
    }
    state_assert_equal(x.session, x.saved);

    /* A version that is to come, and one that does not fit. */
    assert_int_equal(cera_session_sync(x.session, cera_session_history(x.before, NULL),
                                       cera_session_position(x.before), NULL),
                     CERA_OK);
    bytes good = read_file();
    good.data[8]++;
    write_file(good.data, good.size);
    refused(&x, CERA_E_UNSUPPORTED, "expected version 1, found 2");
    good.data[8]--;
    write_file(good.data, good.size);
    free(good.data);
    cera_session_options options;
    cera_session_options_init(&options);
    options.context_size = 69;
    cera_session *small;
    cera_error err;
    assert_int_equal(cera_session_new(x.engine, &options, &small, NULL), CERA_OK);
    assert_int_equal(cera_session_load(small, path, &err), CERA_E_CONTEXT);
    assert_non_null(strstr(err.message, "70 tokens do not fit in 69 positions"));
    cera_session_free(small);

    remove(path);
    refused(&x, CERA_E_IO, "no such file");
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(&x, CERA_E_IO, "expected a regular file");
    remove(path);
    end(&x);
}

static void nothing_to_save(void **state)
{
    (void)state;
    fixture x;
    begin(&x, "llama");
    cera_session *empty = new_session(x.engine);
    cera_error err;
    assert_int_equal(cera_session_save(empty, path, &err), CERA_E_STATE);
    assert_int_equal(cera_session_save(x.session, "", &err), CERA_E_ARG);
    assert_int_equal(cera_session_load(x.session, NULL, &err), CERA_E_ARG);
    cera_session_free(empty);
    end(&x);
}

/* ---- failing ----------------------------------------------------------------------------- */

/* Every call of a kind fails once while saving and while loading: what was saved before stays, the
 * session stays, nothing is left behind. */
static void every_call_may_fail(void **state)
{
    (void)state;
    static const struct {
        fault_call call;
        int error;
    } rows[] = {
        { FAULT_ALLOC, ENOMEM }, { FAULT_OPEN, EMFILE },  { FAULT_STAT, EIO },
        { FAULT_READ, EIO },     { FAULT_CREATE, EROFS }, { FAULT_WRITE, ENOSPC },
        { FAULT_SYNC, EIO },     { FAULT_RENAME, EIO },   { FAULT_LINK, EACCES },
    };
    int n_failed = 0;
    for (size_t row = 0; row < CR_COUNT(rows); row++) {
        for (size_t at = 1;; at++) {
            fixture x;
            begin(&x, "lfm2");
            bytes good = read_file();
            fault_os(&x.host, rows[row].call, at, FAULT_ONCE, rows[row].error);
            cera_error err;
            cera_status saving = cera_session_save(x.session, path, &err);
            size_t hits = fault_hits(&x.host);
            if (hits > 0) {
                bytes now = read_file();
                assert_int_equal(saving, rows[row].error == ENOMEM ? CERA_E_NOMEM : CERA_E_IO);
                assert_int_equal(now.size, good.size);
                assert_memory_equal(now.data, good.data, good.size);
                free(now.data);
            } else {
                assert_int_equal(saving, CERA_OK);
                write_file(good.data, good.size);
                /* The count goes on from what saving called. */
                cera_status loading = cera_session_load(x.session, path, &err);
                hits = fault_hits(&x.host);
                if (hits > 0) {
                    assert_int_equal(loading, rows[row].error == ENOMEM ? CERA_E_NOMEM : CERA_E_IO);
                    state_assert_equal(x.session, x.before);
                    assert_int_equal(cera_session_load(x.session, path, &err), CERA_OK);
                }
                state_assert_equal(x.session, x.saved);
            }
            free(good.data);
            end(&x);
            if (hits == 0)
                break;
            n_failed++;
        }
    }
    assert_true(n_failed > 30);
}

/* After that the new file has its name, and is whole: it may only be lost with the power. */
static void a_name_that_may_not_last(void **state)
{
    (void)state;
    fixture x;
    begin(&x, "lfm2");
    cera_error err;
    assert_int_equal(cera_session_save(x.before, path, &err), CERA_OK);
    fault_os(&x.host, FAULT_SYNC_FOLDER, 1, FAULT_ONCE, EIO);
    assert_int_equal(cera_session_load(x.session, path, &err), CERA_OK);
    state_assert_equal(x.session, x.before);
    assert_int_equal(cera_session_save(x.session, path, &err), CERA_E_IO);
    assert_non_null(strstr(err.message, "make the new name last"));
    assert_int_equal(cera_session_load(x.session, path, &err), CERA_OK);
    state_assert_equal(x.session, x.before);
    end(&x);
}

static void short_transfers(void **state)
{
    (void)state;
    fixture x;
    begin(&x, "gemma3");
    fault_short_reads(&x.host, 1);
    fault_short_writes(&x.host, 7);
    assert_int_equal(cera_session_save(x.saved, path, NULL), CERA_OK);
    assert_int_equal(cera_session_load(x.session, path, NULL), CERA_OK);
    state_assert_equal(x.session, x.saved);
    end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loaded_sessions_go_on),     cmocka_unit_test(damage_is_found),
        cmocka_unit_test(foreign_files_are_refused), cmocka_unit_test(nothing_to_save),
        cmocka_unit_test(every_call_may_fail),       cmocka_unit_test(a_name_that_may_not_last),
        cmocka_unit_test(short_transfers),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}

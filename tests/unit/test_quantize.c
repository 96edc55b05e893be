/* cera_quantize: which tensors become what, the same bits for any number of threads, and nothing
 * left behind when something fails. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "convert/recipe.h"
#include "file/gguf_write.h"
#include "support/fault_host.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/cera-quantize-XXXXXX";
static char source_path[64], target[64];

/* ---- a model of 16 layers -------------------------------------------------------------------- */

enum { N_LAYER = 16, N_ROWS = 2, ROW = 512, ODD_ROW = 96 };

static void put_tensor(cr_gguf_writer *w, int layer, const char *name, int n_dims, uint64_t row)
{
    char full[64];
    if (layer < 0)
        snprintf(full, sizeof full, "%s", name);
    else
        snprintf(full, sizeof full, "blk.%d.%s", layer, name);
    cr_gguf_put_tensor(w, cr_str_from(full), CR_TYPE_F32, n_dims, (uint64_t[]){ row, N_ROWS });
}

static void write_values(cr_gguf_writer *w, float bad)
{
    static float values[ROW * N_ROWS];
    for (size_t i = 0; i < CR_COUNT(values); i++)
        values[i] = (float)((int)(i * 37 % 101) - 50) / 64.0f;
    values[3] = bad;
    while (w->i_tensor < w->n_tensors) {
        uint64_t n;
        memcpy(&n, w->sizes.data + w->i_tensor * sizeof n, sizeof n);
        assert_true(n <= sizeof values);
        assert_int_equal(cr_gguf_writer_data(w, values, (size_t)n, NULL), CERA_OK);
    }
}

/* `bad` is a weight of every tensor. */
static void write_model(float bad, bool tied)
{
    cr_host host;
    assert_int_equal(cr_host_set(&host, NULL, NULL), CERA_OK);
    cr_gguf_writer w;
    cr_gguf_writer_init(&w, &host);
    w.alignment = 64;
    cr_gguf_put_str(&w, "general.architecture", cr_str_from("llama"));
    cr_gguf_put_u32(&w, "general.file_type", 0);
    cr_gguf_put_u32(&w, "general.alignment", 64);
    cr_gguf_put_u32(&w, "llama.block_count", N_LAYER);
    cr_gguf_put_u32(&w, "llama.attention.head_count", 8);
    cr_gguf_put_u32(&w, "llama.attention.head_count_kv", 4);
    put_tensor(&w, -1, "token_embd.weight", 2, ROW);
    if (!tied)
        put_tensor(&w, -1, "output.weight", 2, ROW);
    /* The last layer first: what counts is the number in the name. */
    for (int i = N_LAYER - 1; i >= 0; i--) {
        put_tensor(&w, i, "attn_norm.weight", 1, ROW);
        put_tensor(&w, i, "attn_q.weight", 2, ROW);
        put_tensor(&w, i, "attn_k.weight", 2, ODD_ROW);
        put_tensor(&w, i, "attn_v.weight", 2, ROW);
        put_tensor(&w, i, "attn_output.weight", 2, ROW);
        put_tensor(&w, i, "ffn_down.weight", 2, ROW);
    }
    assert_int_equal(cr_gguf_writer_begin(&w, source_path, NULL), CERA_OK);
    write_values(&w, bad);
    assert_int_equal(cr_gguf_writer_commit(&w, NULL), CERA_OK);
    cr_gguf_writer_done(&w);
}

static cera_status quantize(const char *type, const cera_quantize_options *options, cera_error *err)
{
    return cera_quantize(&(cera_source){ .path = source_path }, target, type, options, NULL, err);
}

/* The type of a tensor in the new file. */
static const char *type_of(const char *name)
{
    static char type[32];
    cera_file *file;
    cera_file_info info;
    assert_int_equal(cera_file_open(&(cera_source){ .path = target }, NULL, &file, NULL), CERA_OK);
    cera_file_get_info(file, &info);
    type[0] = '\0';
    for (size_t i = 0; i < info.n_tensors; i++) {
        cera_file_tensor t;
        cera_file_get_tensor(file, i, &t);
        if (strcmp(t.name, name) == 0)
            snprintf(type, sizeof type, "%s", t.type);
    }
    cera_file_close(file);
    return type;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(source_path, sizeof source_path, "%s/in.gguf", folder);
    snprintf(target, sizeof target, "%s/out.gguf", folder);
    write_model(0, true);
    return 0;
}

/* rmdir fails, and the group with it, when a part of a file is left. */
static int drop_folder(void **state)
{
    (void)state;
    unlink(source_path);
    unlink(target);
    return rmdir(folder);
}

/* ---- types ----------------------------------------------------------------------------------- */

static void mixtures_give_tensors_their_types(void **state)
{
    (void)state;
    /* As llama-quantize chooses for such a file; a row of 96 fits blocks of 32 only. */
    const struct {
        const char *mixture, *tensor, *type;
    } want[] = {
        { "Q4_K_M", "token_embd.weight", "Q6_K" },
        { "Q4_K_M", "blk.0.attn_norm.weight", "F32" },
        { "Q4_K_M", "blk.0.attn_q.weight", "Q4_K" },
        { "Q4_K_M", "blk.0.attn_k.weight", "Q5_0" },
        { "Q4_K_M", "blk.0.attn_v.weight", "Q6_K" },
        { "Q4_K_M", "blk.1.attn_v.weight", "Q6_K" },
        { "Q4_K_M", "blk.2.attn_v.weight", "Q4_K" },
        { "Q4_K_M", "blk.4.attn_v.weight", "Q6_K" },
        { "Q4_K_M", "blk.13.ffn_down.weight", "Q6_K" },
        { "Q4_K_M", "blk.12.ffn_down.weight", "Q4_K" },
        { "Q4_K_M", "blk.14.ffn_down.weight", "Q6_K" },
        { "Q4_K_S", "blk.1.ffn_down.weight", "Q5_K" },
        { "Q4_K_S", "blk.2.ffn_down.weight", "Q4_K" },
        { "Q4_K_S", "blk.3.attn_v.weight", "Q5_K" },
        { "Q4_K_S", "blk.4.attn_v.weight", "Q4_K" },
        { "Q5_K_M", "blk.0.attn_k.weight", "Q5_1" },
        { "Q3_K_M", "blk.0.ffn_down.weight", "Q5_K" },
        { "Q3_K_M", "blk.1.ffn_down.weight", "Q4_K" },
        { "Q3_K_M", "blk.3.attn_output.weight", "Q4_K" },
        { "Q3_K_L", "blk.3.attn_v.weight", "Q5_K" },
        { "Q2_K", "blk.3.attn_v.weight", "Q3_K" },
        { "Q2_K", "blk.3.attn_k.weight", "Q4_0" },
        { "Q8_0", "token_embd.weight", "Q8_0" },
        { "q8_0", "blk.3.attn_k.weight", "Q8_0" },
        { "Q4_0", "token_embd.weight", "Q6_K" },
        { "TQ2_0", "blk.3.attn_k.weight", "Q4_0" },
        { "IQ4_XS", "blk.1.ffn_down.weight", "Q5_K" },
        { "IQ4_XS", "blk.3.attn_k.weight", "IQ4_NL" },
        { "IQ3_M", "blk.3.attn_v.weight", "Q4_K" },
        { "BF16", "blk.3.attn_k.weight", "BF16" },
        { "MXFP4", "blk.3.attn_q.weight", "Q8_0" },
    };
    for (size_t i = 0; i < CR_COUNT(want); i++) {
        if (i == 0 || strcmp(want[i].mixture, want[i - 1].mixture) != 0)
            assert_int_equal(quantize(want[i].mixture, NULL, NULL), CERA_OK);
        if (strcmp(type_of(want[i].tensor), want[i].type) != 0)
            fail_msg("%s: %s: expected %s, found %s", want[i].mixture, want[i].tensor, want[i].type,
                     type_of(want[i].tensor));
    }
}

static void every_type_can_be_made_and_read(void **state)
{
    (void)state;
    size_t n = 0;
    for (; cera_quantize_type(n) != NULL; n++) {
        assert_int_equal(quantize(cera_quantize_type(n), NULL, NULL), CERA_OK);
        cera_file *file;
        cera_file_info info;
        cera_value value;
        assert_int_equal(cera_file_open(&(cera_source){ .path = target }, NULL, &file, NULL),
                         CERA_OK);
        cera_file_get_info(file, &info);
        assert_string_equal(info.quant, cera_quantize_type(n));
        assert_int_equal(info.alignment, 64);
        assert_true(cera_file_find(file, "general.quantization_version", &value));
        assert_int_equal(value.as.u, 2);
        cera_file_close(file);
    }
    assert_int_equal(n, 24);
}

static void options_choose_types(void **state)
{
    (void)state;
    cera_quantize_options o;
    cera_quantize_options_init(&o);
    o.pure = true;
    assert_int_equal(quantize("Q4_K_M", &o, NULL), CERA_OK);
    assert_string_equal(type_of("token_embd.weight"), "Q4_K");
    assert_string_equal(type_of("blk.0.attn_v.weight"), "Q4_K");
    o.embedding_type = "q5_k";
    assert_int_equal(quantize("Q4_K_M", &o, NULL), CERA_OK);
    assert_string_equal(type_of("token_embd.weight"), "Q5_K");

    cera_quantize_options_init(&o);
    o.output_type = "F16"; /* where the embedding is the output matrix too */
    assert_int_equal(quantize("Q4_K_M", &o, NULL), CERA_OK);
    assert_string_equal(type_of("token_embd.weight"), "F16");

    write_model(0, false);
    assert_int_equal(quantize("Q4_K_M", &o, NULL), CERA_OK);
    assert_string_equal(type_of("output.weight"), "F16");
    assert_string_equal(type_of("token_embd.weight"), "Q4_K");
    cera_quantize_options_init(&o);
    o.keep_output = true;
    assert_int_equal(quantize("Q4_K_M", &o, NULL), CERA_OK);
    assert_string_equal(type_of("output.weight"), "F32");
    write_model(0, true);
}

static void the_summary_counts(void **state)
{
    (void)state;
    cera_quantize_summary s;
    assert_int_equal(
        cera_quantize(&(cera_source){ .path = source_path }, target, "Q8_0", NULL, &s, NULL),
        CERA_OK);
    assert_int_equal(s.n_tensors, 1 + 6 * N_LAYER);
    assert_int_equal(s.n_quantized, 1 + 5 * N_LAYER);
    assert_int_equal(s.n_fallback, 0);
    size_t wide = (1 + 4 * N_LAYER) * N_ROWS * ROW, odd = N_LAYER * N_ROWS * ODD_ROW;
    assert_int_equal(s.bytes_after, (wide + odd) / 32 * 34 + N_LAYER * ROW * 4);
    assert_int_equal(s.bytes_before, (wide + odd) * 4 + N_LAYER * ROW * 4);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused(const char *type, const cera_quantize_options *options, cera_status status,
                    const char *words)
{
    cera_error err = { 0 };
    unlink(target);
    assert_int_equal(quantize(type, options, &err), status);
    if (strstr(err.message, words) == NULL)
        fail_msg("expected \"%s\" in \"%s\"", words, err.message);
    assert_false(exists(target));
}

static void what_cannot_be_done_is_refused(void **state)
{
    (void)state;
    refused("Q9_9", NULL, CERA_E_ARG, "found \"Q9_9\"");
    refused("IQ2_XS", NULL, CERA_E_ARG, "importance matrix");
    cera_quantize_options o;
    cera_quantize_options_init(&o);
    o.output_type = "IQ1_S";
    refused("Q8_0", &o, CERA_E_ARG, "output_type");
    cera_quantize_options_init(&o);
    o.n_threads = 257;
    refused("Q8_0", &o, CERA_E_ARG, "n_threads");
    o.size = 1;
    refused("Q8_0", &o, CERA_E_ARG, "options.size");
}

static void weights_that_do_not_fit_are_named(void **state)
{
    (void)state;
    const float bad[] = { NAN, INFINITY, -65536.0f };
    for (size_t i = 0; i < CR_COUNT(bad); i++) {
        write_model(bad[i], true);
        refused("Q8_0", NULL, CERA_E_FORMAT, "token_embd.weight: weight 3: expected at most 65504");
        refused("F16", NULL, CERA_E_FORMAT, "for F16");
        assert_int_equal(quantize("BF16", NULL, NULL), CERA_OK);
        assert_int_equal(quantize("F32", NULL, NULL), CERA_OK);
    }
    write_model(0, true);
}

static void quantising_twice_has_to_be_allowed(void **state)
{
    (void)state;
    char once[64];
    snprintf(once, sizeof once, "%s/once.gguf", folder);
    cera_source source = { .path = source_path }, again = { .path = once };
    cera_error err;
    assert_int_equal(cera_quantize(&source, once, "Q8_0", NULL, NULL, NULL), CERA_OK);
    assert_int_equal(cera_quantize(&again, target, "Q4_0", NULL, NULL, &err), CERA_E_UNSUPPORTED);
    assert_non_null(
        strstr(err.message, "token_embd.weight: expected F32, F16 or BF16, found Q8_0"));
    cera_quantize_options o;
    cera_quantize_options_init(&o);
    o.allow_requantize = true;
    assert_int_equal(cera_quantize(&again, target, "Q4_0", &o, NULL, NULL), CERA_OK);
    /* Nothing to do is no loss. */
    assert_int_equal(cera_quantize(&again, target, "Q8_0", NULL, NULL, NULL), CERA_OK);
    unlink(once);
}

/* ---- the same file, whatever happens
 * ----------------------------------------------------------- */

static size_t read_target(uint8_t *out, size_t room)
{
    FILE *file = fopen(target, "rb");
    assert_non_null(file);
    size_t n = fread(out, 1, room, file);
    fclose(file);
    return n;
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    enum { ROOM = 1 << 19 };
    uint8_t *one = malloc(ROOM), *many = malloc(ROOM);
    assert_true(one != NULL && many != NULL);
    cera_quantize_options o;
    cera_quantize_options_init(&o);
    o.n_threads = 1;
    assert_int_equal(quantize("Q4_K_M", &o, NULL), CERA_OK);
    size_t n = read_target(one, ROOM);
    assert_true(n > 1000 && n < ROOM);
    o.n_threads = 5;
    assert_int_equal(quantize("Q4_K_M", &o, NULL), CERA_OK);
    assert_int_equal(read_target(many, ROOM), n);
    assert_memory_equal(one, many, n);
    free(one);
    free(many);
}

typedef struct watcher {
    uint64_t done, total;
    int stop_at, n;
} watcher;

static int watch(void *user, uint64_t done, uint64_t total)
{
    watcher *w = user;
    assert_true(done > w->done && done <= total);
    w->done = done;
    w->total = total;
    return ++w->n == w->stop_at;
}

static void progress_arrives_and_can_end_it(void **state)
{
    (void)state;
    watcher w = { .stop_at = 0 };
    cera_quantize_options o;
    cera_quantize_options_init(&o);
    o.on_progress = watch;
    o.user = &w;
    assert_int_equal(quantize("Q8_0", &o, NULL), CERA_OK);
    assert_true(w.done == w.total && w.n >= 1 + 6 * N_LAYER);
    int last = w.n;
    for (int i = 1; i <= last; i += last / 3) {
        w = (watcher){ .stop_at = i };
        refused("Q8_0", &o, CERA_E_CANCELLED, "cancelled");
    }
}

static void no_failure_leaves_anything(void **state)
{
    (void)state;
    const fault_call calls[] = { FAULT_ALLOC, FAULT_OPEN, FAULT_STAT,   FAULT_MAP,   FAULT_CREATE,
                                 FAULT_WRITE, FAULT_SYNC, FAULT_RENAME, FAULT_THREAD };
    for (size_t c = 0; c < CR_COUNT(calls); c++) {
        /* There are some hundred writes, one much like the other. */
        size_t stride = calls[c] == FAULT_WRITE ? 31 : 1;
        for (size_t i = 1;; i += stride) {
            fault_host f;
            fault_init(&f);
            fault_os(&f, calls[c], i, FAULT_ONCE, calls[c] == FAULT_ALLOC ? ENOMEM : EIO);
            cera_quantize_options o;
            cera_quantize_options_init(&o);
            o.host = &f.host;
            o.n_threads = 2;
            unlink(target);
            cera_status status = quantize("Q8_0", &o, NULL);
            assert_null(fault_check(&f));
            bool reached = fault_hits(&f) > 0;
            fault_done(&f);
            assert_int_equal(exists(target), status == CERA_OK);
            if (!reached)
                break;
            if (calls[c] == FAULT_ALLOC)
                assert_int_equal(status, CERA_E_NOMEM);
            else
                assert_int_not_equal(status, CERA_OK);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixtures_give_tensors_their_types),
        cmocka_unit_test(every_type_can_be_made_and_read),
        cmocka_unit_test(options_choose_types),
        cmocka_unit_test(the_summary_counts),
        cmocka_unit_test(what_cannot_be_done_is_refused),
        cmocka_unit_test(weights_that_do_not_fit_are_named),
        cmocka_unit_test(quantising_twice_has_to_be_allowed),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(progress_arrives_and_can_end_it),
        cmocka_unit_test(no_failure_leaves_anything),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}

/* The disk tier: what one engine computed another one reads, with the same bits; and whatever is
 * wrong with the folder or in it, answers are right all the same. */
#define _GNU_SOURCE /* mkdtemp */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fault_host.h"
#include "support/state_model.h"

#include "api/objects.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { N_CONTEXT = 600 };

static char folder[64];

/* ---- files ------------------------------------------------------------------------------- */

typedef struct file {
    char path[400];
    size_t size;
} file;

enum { MAX_FILES = 500 };
static file files[MAX_FILES];

static int by_name(const void *a, const void *b)
{
    return strcmp(((const file *)a)->path, ((const file *)b)->path);
}

/* Fills files[], by name; how many there are. */
static int list_files(void)
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        struct stat st;
        snprintf(files[n].path, sizeof files[n].path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] == '.' || stat(files[n].path, &st) != 0)
            continue;
        files[n].size = (size_t)st.st_size;
        assert_true(++n < MAX_FILES);
    }
    if (dir)
        closedir(dir);
    qsort(files, (size_t)n, sizeof files[0], by_name);
    return n;
}

static size_t bytes_of_files(void)
{
    size_t bytes = 0;
    for (int i = list_files() - 1; i >= 0; i--)
        bytes += files[i].size;
    return bytes;
}

static void empty_folder(void)
{
    for (int i = list_files() - 1; i >= 0; i--)
        remove(files[i].path);
    rmdir(folder);
}

static int choose_folder(void **state)
{
    (void)state;
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* syncs cost time */
    snprintf(folder, sizeof folder, "%s/cera-disk-%d", parent, (int)getpid());
    empty_folder();
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    empty_folder();
    return 0;
}

static void damage(const char *path, long at, int flip)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, at, SEEK_SET);
    int c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ flip, f);
    assert_int_equal(fclose(f), 0);
}

/* ---- engines ----------------------------------------------------------------------------- */

typedef struct fixture {
    gguf_build file;
    fault_host host;
    cera_engine_options options;
    cera_engine *engine;
    int32_t ids[N_CONTEXT];
    float logits[TOY_N_VOCAB]; /* behind ids[0, n_expected), computed by an engine without a disk */
    size_t n_expected;
} fixture;

static void open_engine(fixture *x)
{
    x->engine = state_model_open(&x->file, &x->options);
}

static cera_session *append(fixture *x, size_t n)
{
    cera_session *s = NULL;
    cera_error err;
    assert_int_equal(cera_session_new(x->engine, NULL, &s, NULL), CERA_OK);
    if (cera_session_append_ids(s, x->ids, n, &err) != CERA_OK)
        fail_msg("%s", err.message);
    return s;
}

static void begin(fixture *x, const char *arch, size_t n_expected)
{
    memset(x, 0, sizeof *x);
    state_model_build(arch, N_CONTEXT, 0, &x->file);
    state_ids(11, x->ids, N_CONTEXT);
    fault_init(&x->host);
    cera_engine_options_init(&x->options);
    x->options.n_threads = 1;
    x->options.no_reuse = true;
    open_engine(x);
    x->n_expected = n_expected;
    cera_session *s = append(x, n_expected);
    memcpy(x->logits, cera_session_logits(s), sizeof x->logits);
    cera_session_free(s);
    cera_engine_close(x->engine);
    x->options.no_reuse = false;
    x->options.host = &x->host.host;
    x->options.cache_dir = folder;
    x->engine = NULL;
    empty_folder();
}

static void end(fixture *x)
{
    assert_null(fault_check(&x->host));
    fault_done(&x->host);
    build_done(&x->file);
}

typedef struct outcome {
    size_t n_reused;
    cera_engine_stats stats;
} outcome;

/* An engine's life: opens, computes what is expected, compares, closes. */
static outcome live(fixture *x)
{
    open_engine(x);
    cera_session *s = append(x, x->n_expected);
    assert_memory_equal(cera_session_logits(s), x->logits, sizeof x->logits);
    outcome out = { .n_reused = state_generate(s, 0).n_reused };
    cera_engine_get_stats(x->engine, &out.stats);
    cera_session_free(s);
    cera_engine_close(x->engine);
    return out;
}

/* ---- reading what was written ------------------------------------------------------------ */

static void engines_to_come_read_it(void **state)
{
    (void)state;
    for (int m = 0; m < STATE_N_MODELS; m++) {
        fixture x;
        begin(&x, state_models[m], 450);
        outcome first = live(&x);
        assert_int_equal(first.n_reused, 0);
        assert_int_equal(first.stats.n_blocks_read, 0);
        /* 7 blocks of 64 and an end, of 450 tokens; where there is a state, the one behind 449 is
         * another's end. The last token is always computed. */
        bool has_state = strcmp(state_models[m], "lfm2") == 0;
        int n_files = has_state ? 9 : 8;
        assert_int_equal(list_files(), n_files);
        outcome second = live(&x);
        assert_int_equal(second.n_reused, 449);
        assert_int_equal(second.stats.n_blocks_read, 8);
        assert_int_equal(second.stats.n_blocks_written, 0);
        assert_int_equal(list_files(), n_files);
        assert_int_equal(fault_logs(&x.host), 0);

        /* A text that leaves it in the third block, and a generation behind it. */
        open_engine(&x);
        x.ids[150]++;
        cera_session *s = append(&x, 200);
        assert_int_equal(state_generate(s, 100).n_reused, has_state ? 128 : 150);
        size_t n;
        memcpy(x.ids, cera_session_history(s, &n), 300 * sizeof *x.ids);
        memcpy(x.logits, cera_session_logits(s), sizeof x.logits);
        x.n_expected = n;
        cera_session_free(s);
        cera_engine_close(x.engine);
        /* Of 300 tokens two blocks were there. The end of the input, 8 tokens behind three blocks,
         * went into the fourth one, but where its state stands behind it. */
        assert_int_equal(list_files(), has_state ? 13 : 11);
        /* Behind the answer's last token, whose state is not what an input that ends there
         * needs. */
        assert_int_equal(live(&x).n_reused, has_state ? 256 : 299);
        end(&x);
    }
}

/* Wherever a prompt ends, one that is the same begins at its last token. */
static void ends_are_kept(void **state)
{
    (void)state;
    static const size_t lengths[] = { 2, 63, 64, 65, 320, 321, 351, 382, 383, 384 };
    for (int m = 0; m < STATE_N_MODELS; m++) {
        bool has_state = strcmp(state_models[m], "lfm2") == 0;
        for (size_t i = 0; i < CR_COUNT(lengths); i++) {
            fixture x;
            size_t n = lengths[i];
            begin(&x, state_models[m], n);
            live(&x);
            /* A state before the last token is kept of a text that is worth it. */
            bool is_short = has_state && n <= 256;
            assert_int_equal(live(&x).n_reused, is_short ? (n - 1) / 64 * 64 : n - 1);
            end(&x);
        }
    }
}

static size_t reused_of(fixture *x, size_t n)
{
    open_engine(x);
    cera_session *s = append(x, n);
    size_t n_reused = state_generate(s, 0).n_reused;
    cera_session_free(s);
    cera_engine_close(x->engine);
    return n_reused;
}

/* The same 300 tokens, and then something else, less or more of it than fills a block: what is the
 * same is found to the token, whatever stands behind it. */
static void a_beginning_serves_other_ends(void **state)
{
    (void)state;
    for (size_t n_more = 10; n_more <= 110; n_more += 100) {
        fixture x;
        begin(&x, "gemma3", 300);
        for (int text = 0; text < 4; text++) {
            state_ids(70 + (uint32_t)text, x.ids + 300, 110);
            x.ids[300] = text;
            assert_int_equal(reused_of(&x, 300 + n_more), text == 0 ? 0 : 300);
        }
        assert_int_equal(live(&x).n_reused, 299);
        end(&x);
    }
}

/* An end that grows leaves nothing behind; of those that do not, eight are kept behind one path. */
static void ends_are_few(void **state)
{
    (void)state;
    fixture x;
    begin(&x, "llama", 200);
    open_engine(&x);
    cera_session *s = append(&x, 66);
    for (int n = 66; n < 200; n++)
        assert_int_equal(cera_session_append_ids(s, x.ids + n, 1, NULL), CERA_OK);
    cera_session_free(s);
    cera_engine_close(x.engine);
    assert_int_equal(list_files(), 4);
    assert_int_equal(live(&x).n_reused, 199);
    assert_int_equal(list_files(), 4);
    for (int text = 0; text < 20; text++) {
        x.ids[197] = text;
        assert_int_equal(reused_of(&x, 200), 197);
    }
    assert_int_equal(list_files(), 3 + 8);
    end(&x);
}

/* Another model's, another type's: files lie beside each other and are never mixed up. */
static void keys_tell_models_apart(void **state)
{
    (void)state;
    fixture x;
    begin(&x, "llama", 130);
    live(&x);
    assert_int_equal(list_files(), 3);
    fixture y = x;
    state_model_build("llama", N_CONTEXT, 1, &y.file);
    y.options.host = NULL;
    y.options.no_reuse = true;
    open_engine(&y);
    cera_session *s = append(&y, 130);
    memcpy(y.logits, cera_session_logits(s), sizeof y.logits);
    cera_session_free(s);
    cera_engine_close(y.engine);
    y.options.no_reuse = false;
    assert_int_equal(live(&y).n_reused, 0);
    assert_int_equal(list_files(), 6);
    assert_int_equal(live(&y).n_reused, 129);
    assert_int_equal(live(&x).n_reused, 129);
    build_done(&y.file);

    /* A file under another's name: whole, but of other tokens. */
    int n = list_files();
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            if (i == j || !strstr(files[j].path, "-0-64-") || !strstr(files[i].path, "-0-64-"))
                continue;
            remove(files[j].path);
            assert_int_equal(link(files[i].path, files[j].path), 0);
        }
    }
    live(&x);
    x.options.kv_type = CERA_KV_F32;
    open_engine(&x);
    s = append(&x, 130);
    assert_int_equal(state_generate(s, 0).n_reused, 0);
    cera_session_free(s);
    cera_engine_close(x.engine);
    end(&x);
}

/* ---- damage ------------------------------------------------------------------------------ */

static void damaged_files_are_removed(void **state)
{
    (void)state;
    fixture x;
    begin(&x, "gemma3", 200);
    live(&x);
    assert_int_equal(list_files(), 4);
    for (int which = 0; which < 4; which++) {
        size_t size = files[which].size;
        for (size_t at = 0; at < size; at += at < 140 || at + 16 >= size ? 7 : size / 9) {
            list_files();
            char path[400];
            memcpy(path, files[which].path, sizeof path);
            damage(path, (long)at, 0x40);
            outcome out = live(&x); /* compares the bits */
            assert_true(out.n_reused < 199);
            assert_int_equal(list_files(), 4); /* written again */
            assert_int_equal(live(&x).n_reused, 199);
        }
        char path[400];
        memcpy(path, files[which].path, sizeof path);
        for (size_t n = 0; n < size; n += size / 5) {
            assert_int_equal(truncate(path, (off_t)n), 0);
            assert_true(live(&x).n_reused < 199);
            assert_int_equal(live(&x).n_reused, 199);
        }
        assert_int_equal(truncate(path, (off_t)size + 1), 0);
        assert_true(live(&x).n_reused < 199);
        assert_int_equal(live(&x).n_reused, 199);
    }
    assert_int_equal(fault_logs(&x.host), 0); /* nothing that anybody has to know of */
    end(&x);
}

/* ---- the bound --------------------------------------------------------------------------- */

static void the_bound_holds(void **state)
{
    (void)state;
    fixture x;
    begin(&x, "llama", 450);
    live(&x);
    size_t size = bytes_of_files() / 8;
    char foreign[400];
    snprintf(foreign, sizeof foreign, "%s/notes.txt", folder);
    FILE *f = fopen(foreign, "w");
    fclose(f);
    empty_folder(); /* which leaves nothing */
    mkdir(folder, 0700);
    f = fopen(foreign, "w");
    fclose(f);
    x.options.cache_disk_bytes = size * 10;
    for (int text = 0; text < 6; text++) {
        open_engine(&x);
        state_ids(100 + (uint32_t)text, x.ids, N_CONTEXT);
        /* File systems tell times that are a clock tick apart, up to 10 ms. */
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
        cera_session_free(append(&x, 300));
        cera_engine_close(x.engine);
        assert_true(bytes_of_files() <= size * 10);
        /* What came last is there. */
        open_engine(&x);
        cera_session *s = append(&x, 300);
        assert_int_equal(state_generate(s, 0).n_reused, 299);
        cera_session_free(s);
        cera_engine_close(x.engine);
    }
    assert_int_equal(access(foreign, F_OK), 0);
    /* Used less recently goes first; a beginning goes after what stands behind it. */
    end(&x);
}

/* A part that a killed process left behind goes when it is old enough; one at work stays. */
static void old_parts_are_removed(void **state)
{
    (void)state;
    fixture x;
    begin(&x, "llama", 130);
    mkdir(folder, 0700);
    char old[400], young[400];
    snprintf(old, sizeof old, "%s/%032d-3-64-%016d.kv.4194304-0.part", folder, 0, 0);
    snprintf(young, sizeof young, "%s/%032d-4-64-%016d.kv.4194304-0.part", folder, 0, 0);
    fclose(fopen(old, "w"));
    fclose(fopen(young, "w"));
    struct timespec times[2] = { { .tv_sec = time(NULL) - 7200 }, { .tv_sec = time(NULL) - 7200 } };
    assert_int_equal(utimensat(AT_FDCWD, old, times, 0), 0);
    live(&x);
    assert_int_not_equal(access(old, F_OK), 0);
    assert_int_equal(access(young, F_OK), 0);
    end(&x);
}

/* What an older version of cera left counts, and goes when there is no room; other files never
 * do. */
static void old_names_make_room(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool goes;
    } rows[] = {
        { "0123456789abcdef0123456789abcdef-0.kv", true },
        { "0123456789abcdef0123456789abcdef-31.kv", true },
        { "0123456789abcdef0123456789abcdef-0-64-0123456789abcdef.kv", true },
        { "0123456789abcdef0123456789abcde-0.kv", false },
        { "0123456789ABCDEF0123456789abcdef-0.kv", false },
        { "0123456789abcdef0123456789abcdef-.kv", false },
        { "0123456789abcdef0123456789abcdef-0-64.kv", false },
        { "0123456789abcdef0123456789abcdef-0-64-0123456789abcde.kv", false },
        { "0123456789abcdef0123456789abcdef-99999999999.kv", false },
        { "0123456789abcdef0123456789abcdef-0.kvs", false },
        { "0123456789abcdef0123456789abcdef-0", false },
    };
    fixture x;
    begin(&x, "llama", 130);
    live(&x);
    x.options.cache_disk_bytes = bytes_of_files() + 1000;
    empty_folder();
    mkdir(folder, 0700);
    struct timespec times[2] = { { .tv_sec = time(NULL) - 7200 }, { .tv_sec = time(NULL) - 7200 } };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, rows[i].name);
        fclose(fopen(path, "w"));
        assert_int_equal(truncate(path, 5000), 0);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    assert_int_equal(live(&x).n_reused, 0);
    assert_int_equal(live(&x).n_reused, 129);
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, rows[i].name);
        if ((access(path, F_OK) == 0) == rows[i].goes)
            fail_msg("%s", rows[i].name);
    }
    end(&x);
}

/* ---- failing ----------------------------------------------------------------------------- */

/* Every call of each kind fails, once and for good: the answer is right, nothing is lost but time,
 * and there is at most one warning. */
static void every_call_may_fail(void **state)
{
    (void)state;
    static const struct {
        fault_call call;
        int error;
    } rows[] = {
        { FAULT_OPEN, EACCES },  { FAULT_OPEN, ENOENT },   { FAULT_STAT, EIO },
        { FAULT_READ, EIO },     { FAULT_CREATE, EROFS },  { FAULT_CREATE, ENOSPC },
        { FAULT_WRITE, ENOSPC }, { FAULT_SYNC, EIO },      { FAULT_RENAME, EIO },
        { FAULT_REMOVE, EIO },   { FAULT_FOLDER, EACCES }, { FAULT_LIST, EIO },
        { FAULT_TOUCH, EACCES }, { FAULT_THREAD, EAGAIN }, { FAULT_SYNC_FOLDER, EIO },
    };
    int n_failed = 0;
    for (size_t row = 0; row < CR_COUNT(rows); row++) {
        for (int mode = FAULT_ONCE; mode <= FAULT_STICKY; mode++) {
            for (size_t at = 1;; at++) {
                fixture x;
                begin(&x, "lfm2", 200);
                live(&x);
                list_files();
                damage(files[1].path, 300, 1);
                remove(files[2].path);
                fault_os(&x.host, rows[row].call, at, (fault_mode)mode, rows[row].error);
                live(&x);
                bool reached = fault_hits(&x.host) > 0;
                assert_true(fault_logs(&x.host) <= 1);
                fault_os(&x.host, rows[row].call, 0, FAULT_NEVER, 0);
                live(&x); /* may find the damage, and this one may write what that one lacked */
                live(&x);
                size_t n_reused = live(&x).n_reused;
                if (n_reused != 192)
                    fail_msg("row %zu, mode %d, call %zu: %zu", row, mode, at, n_reused);
                end(&x);
                if (!reached)
                    break;
                n_failed++;
            }
        }
    }
    print_message("%d calls failed\n", n_failed);
    assert_true(n_failed > 40);
}

/* Calls of the disk tier need no memory to succeed, only to reuse. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    int n_failed = 0;
    for (size_t at = 1;; at++) {
        fixture x;
        begin(&x, "gemma3", 200);
        live(&x);
        open_engine(&x);
        cera_session *s = NULL;
        assert_int_equal(cera_session_new(x.engine, NULL, &s, NULL), CERA_OK);
        fault_allocs(&x.host, at, FAULT_ONCE);
        cera_status status = cera_session_append_ids(s, x.ids, 200, NULL);
        bool reached = fault_hits(&x.host) > 0;
        fault_os(&x.host, FAULT_ALLOC, 0, FAULT_NEVER, 0);
        if (status != CERA_OK) {
            assert_int_equal(status, CERA_E_NOMEM);
            assert_int_equal(cera_session_position(s), 0);
            assert_int_equal(cera_session_append_ids(s, x.ids, 200, NULL), CERA_OK);
        }
        assert_memory_equal(cera_session_logits(s), x.logits, sizeof x.logits);
        cera_session_free(s);
        cera_engine_close(x.engine);
        end(&x);
        if (!reached)
            break;
        n_failed++;
    }
    assert_true(n_failed > 8);
}

static void one_warning_when_it_cannot_be_written(void **state)
{
    (void)state;
    fixture x;
    begin(&x, "llama", 450);
    fault_os(&x.host, FAULT_WRITE, 9, FAULT_STICKY, ENOSPC);
    live(&x);
    assert_int_equal(fault_logs(&x.host), 1);
    assert_non_null(strstr(fault_last_log(&x.host), "no space is left on the disk"));
    assert_non_null(strstr(fault_last_log(&x.host), "no more is kept in cache_dir"));
    fault_os(&x.host, FAULT_WRITE, 0, FAULT_NEVER, 0);
    for (int i = list_files() - 1; i >= 0; i--)
        assert_null(strstr(files[i].path, ".part"));
    x.options.cache_dir = "";
    cera_error err;
    cera_source source = { .data = x.file.data, .n_data = x.file.size };
    assert_int_equal(cera_engine_open_source(&source, &x.options, &x.engine, &err), CERA_E_ARG);
    end(&x);
}

/* ---- together ---------------------------------------------------------------------------- */

typedef struct worker {
    fixture x;
    int number;
} worker;

/* Engines that come and go in one folder with room for few files, each with texts that others
 * have. */
static void *work(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < 6; i++) {
        open_engine(&w->x);
        cera_session *s = append(&w->x, w->x.n_expected);
        assert_memory_equal(cera_session_logits(s), w->x.logits, sizeof w->x.logits);
        state_generate(s, 70 + w->number);
        cera_session_free(s);
        cera_engine_close(w->x.engine);
    }
    return NULL;
}

static void engines_share_a_folder(void **state)
{
    (void)state;
    enum { N = 3 };
    static worker workers[N];
    pthread_t threads[N];
    begin(&workers[0].x, "lfm2", 450);
    live(&workers[0].x);
    size_t budget = bytes_of_files() * 2;
    for (int i = 0; i < N; i++) {
        if (i > 0)
            workers[i].x = workers[0].x;
        workers[i].number = i;
        workers[i].x.options.host = NULL;
        workers[i].x.options.cache_disk_bytes = budget;
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (int i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    assert_true(bytes_of_files() <= budget + budget / 8 * N);
    end(&workers[0].x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_to_come_read_it),
        cmocka_unit_test(ends_are_kept),
        cmocka_unit_test(a_beginning_serves_other_ends),
        cmocka_unit_test(ends_are_few),
        cmocka_unit_test(keys_tell_models_apart),
        cmocka_unit_test(damaged_files_are_removed),
        cmocka_unit_test(the_bound_holds),
        cmocka_unit_test(old_parts_are_removed),
        cmocka_unit_test(old_names_make_room),
        cmocka_unit_test(every_call_may_fail),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(one_warning_when_it_cannot_be_written),
        cmocka_unit_test(engines_share_a_folder),
    };
    return cmocka_run_group_tests(tests, choose_folder, drop_folder);
}

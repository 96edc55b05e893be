/* Killed at any point, engines leave a folder from which others read what was kept, and nothing
 * else.
 *
 * A child computes texts with a folder, one engine after the other, and tells by a pipe which of
 * them it has closed. After 0 to 60 ms it is killed. Then every file there must be whole; what the
 * child told of must be found; and what is found must have the bits that computing gives. In every
 * other round the folder is too small for all texts, so that files are removed meanwhile.
 *
 * CERA_NIGHTLY kills 600 times, CERA_SEED=number begins with another random number. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/state_model.h"

#include "api/objects.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N_CONTEXT = 512, N_TEXTS = 8, N_TEXT = 400, N_KILLS = 24, N_NIGHTLY = 600 };

static gguf_build model;
static char folder[64];
static int32_t texts[N_TEXTS][N_TEXT];
static float logits[N_TEXTS][TOY_N_VOCAB];
static uint64_t seed;

static cera_engine *open_engine(const char *cache_dir, uint64_t disk_bytes)
{
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.n_threads = 1;
    options.cache_dir = cache_dir;
    options.cache_disk_bytes = disk_bytes;
    return state_model_open(&model, &options);
}

/* Computes a text; how many tokens of it were known. */
static size_t compute(cera_engine *engine, int text, float *out)
{
    cera_session *s = NULL;
    if (cera_session_new(engine, NULL, &s, NULL) != CERA_OK ||
        cera_session_append_ids(s, texts[text], N_TEXT, NULL) != CERA_OK)
        fail_msg("text %d cannot be computed", text);
    memcpy(out, cera_session_logits(s), sizeof logits[0]);
    size_t n_reused = state_generate(s, 0).n_reused;
    cera_session_free(s);
    return n_reused;
}

static uint32_t next_random(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

static int begin(void **state)
{
    (void)state;
    const char *number = getenv("CERA_SEED");
    seed = number ? strtoull(number, NULL, 10) : (uint64_t)time(NULL);
    print_message("CERA_SEED=%llu\n", (unsigned long long)seed);
    state_model_build("lfm2", N_CONTEXT, 0, &model);
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/cera-kill-%d", parent, (int)getpid());
    cera_engine *engine = open_engine(NULL, 0);
    for (int i = 0; i < N_TEXTS; i++) {
        state_ids(50 + (uint32_t)i / 2, texts[i], N_TEXT);
        texts[i][100] = i % 2; /* two texts have a beginning in common */
        compute(engine, i, logits[i]);
    }
    cera_engine_close(engine);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    state_remove_folder(folder);
    build_done(&model);
    return 0;
}

/* The child: until it is killed. */
static void live(int pipe, uint64_t disk_bytes)
{
    for (int text = 0;; text = (text + 1) % N_TEXTS) {
        float out[TOY_N_VOCAB];
        cera_engine *engine = open_engine(folder, disk_bytes);
        compute(engine, text, out);
        cera_engine_close(engine);
        if (memcmp(out, logits[text], sizeof out) != 0)
            text = N_TEXTS + 1; /* tells that it was wrong */
        char number = (char)text;
        if (write(pipe, &number, 1) != 1 || text > N_TEXTS)
            _exit(1);
    }
}

/* Reads a file to its end, as nothing but its digest knows whether it is whole. */
static void check_file(const cr_session_env *env, const char *path)
{
    cr_state_id id;
    cr_state_reader r;
    cera_error err;
    static int32_t ids[N_CONTEXT];
    static uint8_t room[1 << 20];
    assert_int_equal(env->identify(env->ctx, &id, NULL), CERA_OK);
    cera_status status = cr_state_open(&r, env->pages, &id, path, &err);
    if (status == CERA_OK)
        status = cr_state_read_ids(&r, ids, &err);
    for (int i = r.first[0]; i < r.end[0] && status == CERA_OK; i++)
        status = cr_state_read_page(&r, 0, i, NULL, room, &err);
    if (status == CERA_OK && r.has_state)
        status = cr_state_read_state(&r, (float *)(void *)room, &err);
    if (status == CERA_OK)
        status = cr_state_read_end(&r, &err);
    if (status != CERA_OK)
        fail_msg("%s", err.message);
    cr_state_close(&r);
}

static int check_files(const cr_session_env *env)
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        char path[400];
        size_t length = strlen(e->d_name);
        if (length < 3 || strcmp(e->d_name + length - 3, ".kv") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        check_file(env, path);
        n++;
    }
    if (dir)
        closedir(dir);
    return n;
}

/* One child's life and what it leaves. */
static void kill_one(bool is_small, size_t *n_files, size_t *n_found)
{
    const uint64_t disk_bytes = is_small ? 300000 : 0;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
        live(ends[1], disk_bytes);
    close(ends[1]);
    struct timespec wait = { .tv_nsec = (long)(next_random() % 60000000) };
    nanosleep(&wait, NULL);
    kill(child, SIGKILL);
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    bool is_closed[N_TEXTS] = { false };
    for (char text; read(ends[0], &text, 1) == 1;) {
        assert_in_range(text, 0, N_TEXTS - 1);
        is_closed[(int)text] = true;
    }
    close(ends[0]);

    cera_engine *engine = open_engine(folder, disk_bytes);
    cr_session_env env = cr_engine_env(engine->core);
    *n_files += (size_t)check_files(&env);
    cera_engine_close(engine);
    for (int i = 0; i < N_TEXTS; i++) {
        float out[TOY_N_VOCAB];
        engine = open_engine(folder, disk_bytes);
        size_t n_reused = compute(engine, i, out);
        cera_engine_close(engine);
        assert_memory_equal(out, logits[i], sizeof out);
        if (is_closed[i] && !is_small)
            assert_int_equal(n_reused, N_TEXT - 1);
        *n_found += n_reused;
    }
    if (is_small || next_random() % 4 == 0)
        state_remove_folder(folder);
}

static void killed_engines_lose_nothing(void **state)
{
    (void)state;
    int n = getenv("CERA_NIGHTLY") ? N_NIGHTLY : N_KILLS;
    size_t n_files = 0, n_found = 0;
    for (int i = 0; i < n; i++)
        kill_one(i % 2 != 0, &n_files, &n_found);
    print_message("%d kills: %zu files were there and whole, %zu tokens were found\n", n, n_files,
                  n_found);
    assert_true(n_files > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_engines_lose_nothing),
    };
    return cmocka_run_group_tests(tests, begin, finish);
}

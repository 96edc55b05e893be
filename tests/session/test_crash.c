/* The power is cut at every point of saving a session and of keeping blocks on disk, and the disk
 * has whatever a file system may have made of it (crash_disk.h). Answers are right all the same,
 * what was promised is there, and what is damaged goes. The same tests on a disk that forgets to
 * sync find something lost, so they can.
 *
 * CERA_NIGHTLY tries 2,000 random outcomes for each point instead of 12; CERA_SEED=number,
 * others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/crash_disk.h"
#include "support/state_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CONTEXT = 256, N_TEXTS = 3, MAX_SEEN = 1 << 20 };

static gguf_build model;
static const int lengths[N_TEXTS] = { 70, 200, 131 };
static int32_t texts[N_TEXTS][N_CONTEXT];
static float logits[N_TEXTS][TOY_N_VOCAB];
static uint64_t first_seed, n_random = 12;

/* ---- engines ----------------------------------------------------------------------------- */

static crash_disk *disk; /* that engines see now */
static cera_host host;
static uint64_t disk_bytes; /* 0: there is room for all */

static cera_engine *open_engine(const char *cache_dir)
{
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.n_threads = 1;
    options.host = &host;
    options.cache_dir = cache_dir;
    options.cache_disk_bytes = disk_bytes;
    options.no_reuse = !cache_dir;
    return state_model_open(&model, &options);
}

static cera_session *new_session(cera_engine *engine)
{
    cera_session *s = NULL;
    assert_int_equal(cera_session_new(engine, NULL, &s, NULL), CERA_OK);
    return s;
}

static bool is_right(const cera_session *s, int text)
{
    return memcmp(cera_session_logits(s), logits[text], sizeof logits[text]) == 0;
}

static int begin(void **state)
{
    (void)state;
    const char *number = getenv("CERA_SEED");
    first_seed = number ? strtoull(number, NULL, 10) : 0;
    if (getenv("CERA_NIGHTLY"))
        n_random = 2000;
    state_model_build("llama", N_CONTEXT, 0, &model);
    crash_disk empty;
    crash_init(&empty);
    disk = &empty;
    crash_host(&disk, &host);
    cera_engine *engine = open_engine(NULL);
    for (int i = 0; i < N_TEXTS; i++) {
        state_ids(30, texts[i], N_CONTEXT);
        texts[i][100] = i; /* the texts have a beginning in common, the first one is all of it */
        cera_session *s = new_session(engine);
        assert_int_equal(cera_session_append_ids(s, texts[i], (size_t)lengths[i], NULL), CERA_OK);
        memcpy(logits[i], cera_session_logits(s), sizeof logits[i]);
        cera_session_free(s);
    }
    cera_engine_close(engine);
    crash_done(&empty);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    build_done(&model);
    return 0;
}

/* ---- trying all cuts --------------------------------------------------------------------- */

/* What a disk that is left must satisfy: NULL, or what is wrong. promised: the last mark. */
typedef const char *(*check)(crash_disk *left, size_t promised);

typedef struct tally {
    size_t n_cuts, n_disks; /* tried, and different ones of what was left */
    char wrong[200];        /* what the first one is that is; "": none is */
} tally;

static uint64_t seen[MAX_SEEN];

/* Whether the same disk has been checked for the same promise. */
static bool is_seen(const crash_disk *left, size_t promised)
{
    uint64_t hash = (crash_hash(left) + promised * 0x9e3779b97f4a7c15u) | 1;
    size_t at = hash % MAX_SEEN;
    while (seen[at] != 0 && seen[at] != hash)
        at = (at + 1) % MAX_SEEN;
    bool is = seen[at] == hash;
    seen[at] = hash;
    return is;
}

static tally try_all(const crash_disk *d, check good)
{
    tally t = { .n_cuts = 0 };
    memset(seen, 0, sizeof seen);
    for (size_t n = 0; n <= d->n_ops; n++) {
        for (uint64_t i = 0; i < CRASH_N_PLAIN + n_random && !t.wrong[0]; i++) {
            uint64_t seed = i < CRASH_N_PLAIN ? i : i + first_seed * 1000;
            size_t promised = crash_last_mark(d, n);
            crash_disk left;
            crash_cut(d, n, seed, &left);
            t.n_cuts++;
            if (!is_seen(&left, promised)) {
                assert_true(++t.n_disks < MAX_SEEN / 2);
                disk = &left;
                const char *wrong = good(&left, promised);
                if (wrong)
                    snprintf(t.wrong, sizeof t.wrong, "after %zu of %zu operations, seed %llu: %s",
                             n, d->n_ops, (unsigned long long)seed, wrong);
            }
            crash_done(&left);
        }
    }
    return t;
}

static void must_be_good(const char *what, const tally *t)
{
    print_message("%s: %zu cuts left %zu different disks\n", what, t->n_cuts, t->n_disks);
    if (t->wrong[0])
        fail_msg("%s", t->wrong);
    assert_true(t->n_cuts > 500 && t->n_disks > 50);
}

static void must_be_found(const char *what, const tally *t)
{
    print_message("%s: %s\n", what, t->wrong);
    assert_true(t->wrong[0]);
}

/* ---- the file of a session --------------------------------------------------------------- */

static cera_engine *engine; /* without a folder: it touches the disk in calls only */

/* Saves text 0, then text 1 over it. */
static void save_twice(crash_disk *d)
{
    disk = d;
    for (int i = 0; i < 2; i++) {
        cera_session *s = new_session(engine);
        assert_int_equal(cera_session_append_ids(s, texts[i], (size_t)lengths[i], NULL), CERA_OK);
        assert_int_equal(cera_session_save(s, "folder/file", NULL), CERA_OK);
        crash_mark(d, (size_t)i + 1);
        cera_session_free(s);
    }
}

static const char *check_file(crash_disk *left, size_t promised)
{
    (void)left;
    cera_session *s = new_session(engine);
    cera_error err;
    cera_status status = cera_session_load(s, "folder/file", &err);
    const char *wrong = NULL;
    if (status == CERA_OK) {
        bool is_first = cera_session_position(s) == (size_t)lengths[0];
        if (!is_right(s, is_first ? 0 : 1))
            wrong = "another session was loaded";
        else if (promised == 2 && is_first)
            wrong = "the file is the old one";
    } else if (status != CERA_E_IO) {
        wrong = "the file is damaged";
    } else if (promised > 0) {
        wrong = "the file is gone";
    }
    cera_session_free(s);
    return wrong;
}

static tally try_saving(bool forgets_sync, bool forgets_folders)
{
    static crash_disk d;
    crash_init(&d);
    d.forgets_sync = forgets_sync;
    d.forgets_folders = forgets_folders;
    disk = &d;
    assert_int_equal(host.os.make_folder(host.os.ctx, "folder"), 0);
    d.first = d.now; /* the user's, and long there */
    d.n_ops = 0;
    engine = open_engine(NULL);
    save_twice(&d);
    tally t = try_all(&d, check_file);
    disk = &d;
    cera_engine_close(engine);
    crash_done(&d);
    return t;
}

static void sessions_survive(void **state)
{
    (void)state;
    tally t = try_saving(false, false);
    must_be_good("saving a session", &t);
    t = try_saving(true, false);
    must_be_found("without a sync of the file", &t);
    t = try_saving(false, true);
    must_be_found("without a sync of the folder", &t);
}

/* ---- the disk tier ----------------------------------------------------------------------- */

/* An engine's life: computes a text and closes. */
static const char *live(int text, size_t *n_reused)
{
    cera_engine *e = open_engine("cache");
    cera_session *s = new_session(e);
    assert_int_equal(cera_session_append_ids(s, texts[text], (size_t)lengths[text], NULL), CERA_OK);
    bool right = is_right(s, text);
    *n_reused = state_generate(s, 0).n_reused;
    cera_session_free(s);
    cera_engine_close(e);
    return right ? NULL : "an answer is wrong";
}

/* Texts that are promised are there, up to the last token; and whatever was damaged is gone and
 * written again, so that the next engine finds everything. */
static const char *check_cache(crash_disk *left, size_t promised)
{
    (void)left;
    for (int life = 0; life < 2; life++) {
        for (int text = 0; text < N_TEXTS; text++) {
            size_t n_reused;
            const char *wrong = live(text, &n_reused);
            if (wrong)
                return wrong;
            if (disk_bytes == 0 && n_reused + 1 < (size_t)lengths[text] &&
                (life > 0 || (size_t)text < promised))
                return life > 0 ? "what was damaged stays so" : "something kept is lost";
        }
    }
    return NULL;
}

/* And the power is cut again, anywhere while that was done. */
static const char *check_cache_twice(crash_disk *left, size_t promised)
{
    const char *wrong = check_cache(left, promised);
    if (wrong)
        return wrong;
    static uint64_t random;
    random = random * 6364136223846793005u + 1442695040888963407u + first_seed;
    crash_disk again;
    crash_cut(left, (size_t)(random >> 33) % (left->n_ops + 1), random >> 40, &again);
    disk = &again;
    wrong = check_cache(&again, promised);
    crash_done(&again);
    return wrong;
}

static tally try_keeping(bool forgets_sync, bool forgets_folders)
{
    static crash_disk d;
    crash_init(&d);
    d.forgets_sync = forgets_sync;
    d.forgets_folders = forgets_folders;
    disk = &d;
    for (int text = 0; text < N_TEXTS; text++) {
        size_t n_reused;
        assert_null(live(text, &n_reused));
        crash_mark(&d, (size_t)text + 1);
    }
    tally t = try_all(&d, check_cache_twice);
    crash_done(&d);
    return t;
}

static void blocks_survive(void **state)
{
    (void)state;
    tally t = try_keeping(false, false);
    must_be_good("keeping blocks", &t);
    t = try_keeping(true, false);
    must_be_found("without a sync of the files", &t);
    t = try_keeping(false, true);
    must_be_found("without a sync of the folder", &t);
    disk_bytes = 100000; /* of 145,000 */
    t = try_keeping(false, false);
    must_be_good("keeping some blocks", &t);
    disk_bytes = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_survive),
        cmocka_unit_test(blocks_survive),
    };
    return cmocka_run_group_tests(tests, begin, finish);
}

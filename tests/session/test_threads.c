/* Everything that may happen at once, at once; for TSan, and for the bits. Two engines of one model
 * share a folder that is too small, each with too little memory and two threads of its own.
 * Sessions of both sync, generate, fork and rewind on four threads, and let the other engine guess.
 * One more thread cancels them and looks at the bills. Then each state that a session was in is
 * computed again, alone. */
#define _DEFAULT_SOURCE /* usleep */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/state_model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { N_CONTEXT = 300, N_ENGINES = 2, N_THREADS = 4, N_ACTS = 12 };

static char folder[64];
static int32_t text[N_CONTEXT]; /* all histories begin with some of it */

/* cmocka's assertions belong to the main thread; the others tell what they saw. */

typedef struct moment {
    int32_t ids[N_CONTEXT];
    size_t n;
    float logits[TOY_N_VOCAB];
} moment;

typedef struct worker {
    pthread_t thread;
    cera_engine *draft;
    cera_session *session;
    uint32_t random;
    int n, n_cancelled, n_failed;
    moment moments[N_ACTS];
} worker;

static int below(uint32_t *random, int n)
{
    *random = *random * 1664525u + 1013904223u;
    return (int)((*random >> 8) % (uint32_t)n);
}

static void note(worker *w, const cera_session *s)
{
    const float *logits = cera_session_logits(s);
    moment *m = &w->moments[w->n];
    if (!logits)
        return;
    const int32_t *ids = cera_session_history(s, &m->n);
    memcpy(m->ids, ids, m->n * sizeof *ids);
    memcpy(m->logits, logits, sizeof m->logits);
    w->n++;
}

static cera_status act(worker *w)
{
    size_t position = cera_session_position(w->session);
    int what = below(&w->random, 6);
    if (what == 0 && position > 1)
        return cera_session_rewind(w->session, position - position / 3, NULL);
    if (what == 1 && position > 0) {
        cera_session *child = NULL;
        cera_status status = cera_session_fork(w->session, &child, NULL);
        if (status == CERA_OK && position + 20 < N_CONTEXT)
            status = cera_session_append_ids(child, text + 17, 20, NULL);
        cera_session_free(child);
        return status;
    }
    if (what <= 3 && cera_session_logits(w->session) && position + 2 < N_CONTEXT) {
        cera_generate_options options;
        cera_generate_options_init(&options);
        options.max_tokens = 1 + below(&w->random, 30);
        options.temperature = below(&w->random, 2) ? 0.0f : 1.0f;
        options.n_draft = below(&w->random, 2) ? 4 : 0;
        options.draft = below(&w->random, 2) ? w->draft : NULL;
        options.ignore_eos = true;
        cera_summary summary = { .n_generated = 0 };
        cera_status status = cera_session_generate(w->session, &options, NULL, &summary, NULL);
        w->n_cancelled += status == CERA_OK && summary.finish == CERA_FINISH_CANCELLED;
        return status;
    }
    return cera_session_sync(w->session, text, 20 + (size_t)below(&w->random, 250), NULL);
}

static void *work(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < N_ACTS; i++) {
        cera_status status = act(w);
        w->n_cancelled += status == CERA_E_CANCELLED;
        w->n_failed += status != CERA_OK && status != CERA_E_CANCELLED;
        note(w, w->session);
    }
    return NULL;
}

typedef struct onlooker {
    cera_engine **engines;
    worker *workers;
    atomic_int over;
    int n_looks, n_wrong;
} onlooker;

static void *look(void *arg)
{
    onlooker *o = arg;
    uint32_t random = 3;
    while (atomic_load(&o->over) == 0) {
        for (int i = 0; i < N_ENGINES; i++) {
            cera_engine_stats stats;
            cera_engine_get_stats(o->engines[i], &stats);
            o->n_looks++;
            o->n_wrong += stats.n_blocks_read > 1u << 20 || stats.budget_bytes != 1 << 20;
        }
        usleep(2000);
        if (below(&random, 4) == 0)
            cera_session_cancel(o->workers[below(&random, N_THREADS)].session);
    }
    return NULL;
}

static void everything_at_once(void **state)
{
    (void)state;
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/cera-threads-%d", parent, (int)getpid());
    state_ids(3, text, N_CONTEXT);
    for (int m = 0; m < STATE_N_MODELS; m++) {
        gguf_build file;
        state_model_build(state_models[m], N_CONTEXT, 0, &file);
        state_remove_folder(folder);
        cera_engine_options options;
        cera_engine_options_init(&options);
        options.n_threads = 2;
        options.cache_bytes = 1 << 20;
#ifdef CERA_WITH_DISK_CACHE
        options.cache_dir = folder;
        options.cache_disk_bytes = 500000;
#endif
        cera_engine *engines[N_ENGINES];
        for (int i = 0; i < N_ENGINES; i++)
            engines[i] = state_model_open(&file, &options);
        static worker workers[N_THREADS];
        memset(workers, 0, sizeof workers);
        for (int i = 0; i < N_THREADS; i++) {
            worker *w = &workers[i];
            w->random = (uint32_t)(m * N_THREADS + i);
            w->draft = engines[(i + 1) % N_ENGINES];
            assert_int_equal(cera_session_new(engines[i % N_ENGINES], NULL, &w->session, NULL),
                             CERA_OK);
        }
        onlooker o = { .engines = engines, .workers = workers };
        pthread_t looking;
        assert_int_equal(pthread_create(&looking, NULL, look, &o), 0);
        for (int i = 0; i < N_THREADS; i++)
            assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        for (int i = 0; i < N_THREADS; i++)
            pthread_join(workers[i].thread, NULL);
        atomic_store(&o.over, 1);
        pthread_join(looking, NULL);
        assert_int_equal(o.n_wrong, 0);

        options.n_threads = 1;
        options.no_reuse = true;
        options.cache_dir = NULL;
        cera_engine *plain = state_model_open(&file, &options);
        int n = 0, n_cancelled = 0;
        for (int i = 0; i < N_THREADS; i++) {
            worker *w = &workers[i];
            assert_int_equal(w->n_failed, 0);
            for (int k = 0; k < w->n; k++, n++) {
                cera_session *s = NULL;
                assert_int_equal(cera_session_new(plain, NULL, &s, NULL), CERA_OK);
                const moment *at = &w->moments[k];
                assert_int_equal(cera_session_append_ids(s, at->ids, at->n, NULL), CERA_OK);
                assert_memory_equal(cera_session_logits(s), at->logits, sizeof at->logits);
                cera_session_free(s);
            }
            n_cancelled += w->n_cancelled;
            cera_session_free(w->session);
        }
        print_message("%s: %d states, %d calls cancelled, %d looks at bills\n", state_models[m], n,
                      n_cancelled, o.n_looks);
        assert_true(n > N_THREADS && o.n_looks > 0);
        cera_engine_close(plain);
        for (int i = 0; i < N_ENGINES; i++) {
            cera_engine_stats stats;
            cera_engine_get_stats(engines[i], &stats);
            assert_int_equal(stats.page_bytes_used + stats.state_bytes_used, 0);
            cera_engine_close(engines[i]);
        }
        build_done(&file);
    }
    state_remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

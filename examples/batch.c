/* Sixteen sessions of one engine, each on a thread of its own.
 *
 *     cc -std=c11 examples/batch.c -lcera -lpthread -o batch
 *     ./batch MODEL.gguf [TOKENS]
 *
 * Nothing here asks for batching. Sessions that compute at the same time are computed together: the
 * engine reads its weights once for all of them, and each gets what it would get alone. The
 * instructions that all prompts begin with are computed once, before the threads start. */
#include "cera.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SESSIONS = 16, ANSWER_ROOM = 4096 };

static const char instructions[] = "Things, and what they are for, in one short sentence each.\n\n";
static const char *const things[N_SESSIONS] = {
    "hammer", "kettle", "anchor", "ladder", "needle", "saddle",  "candle",  "bucket",
    "pencil", "basket", "shovel", "mirror", "bridge", "lantern", "compass", "violin",
};

typedef struct job {
    cera_session *session;
    const char *thing;
    int n_tokens;
    char answer[ANSWER_ROOM]; /* [size] and a NUL */
    size_t size;
    cera_status status;
    cera_error err;
    cera_summary summary;
} job;

static int on_text(void *user, const char *text, size_t n)
{
    job *j = user;
    if (n >= ANSWER_ROOM - j->size)
        return 1; /* ends the generation */
    memcpy(j->answer + j->size, text, n);
    j->size += n;
    return 0;
}

static void *answer(void *arg)
{
    job *j = arg;
    char prompt[128];
    snprintf(prompt, sizeof prompt, "A %s is for", j->thing);
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.max_tokens = j->n_tokens;
    static const char *const stop[] = { "\n" };
    options.stop = stop;
    options.n_stop = 1;
    cera_sink sink = { .on_text = on_text, .user = j };
    j->status = cera_session_append_text(j->session, prompt, &j->err);
    if (j->status == CERA_OK)
        j->status = cera_session_generate(j->session, &options, &sink, &j->summary, &j->err);
    return NULL;
}

static int fail(const char *what, const cera_error *err)
{
    fprintf(stderr, "batch: %s: %s\n", what, err->message);
    return 1;
}

/* The first session computes the instructions, the others are forks of it. */
static int open_sessions(cera_engine *engine, job *jobs, int n_tokens)
{
    cera_error err;
    for (int i = 0; i < N_SESSIONS; i++) {
        jobs[i].thing = things[i];
        jobs[i].n_tokens = n_tokens;
        cera_status status = i == 0 ? cera_session_new(engine, NULL, &jobs[0].session, &err)
                                    : cera_session_fork(jobs[0].session, &jobs[i].session, &err);
        if (status == CERA_OK && i == 0)
            status = cera_session_append_text(jobs[0].session, instructions, &err);
        if (status != CERA_OK)
            return fail("cannot make a session", &err);
    }
    return 0;
}

static int run(job *jobs)
{
    pthread_t threads[N_SESSIONS];
    int n_started = 0, code = 0;
    while (n_started < N_SESSIONS &&
           pthread_create(&threads[n_started], NULL, answer, &jobs[n_started]) == 0)
        n_started++;
    for (int i = 0; i < n_started; i++) {
        pthread_join(threads[i], NULL);
        if (jobs[i].status != CERA_OK)
            code = fail(jobs[i].thing, &jobs[i].err);
        else
            printf("%s (%zu tokens):%s\n", jobs[i].thing, jobs[i].summary.n_generated,
                   jobs[i].answer);
    }
    return n_started == N_SESSIONS ? code : 1;
}

int main(int argc, char **argv)
{
    static job jobs[N_SESSIONS];
    if (argc < 2) {
        fprintf(stderr, "usage: batch MODEL.gguf [TOKENS]\n");
        return 2;
    }
    cera_engine *engine;
    cera_error err;
    if (cera_engine_open(argv[1], NULL, &engine, &err) != CERA_OK)
        return fail(argv[1], &err);
    int code = open_sessions(engine, jobs, argc > 2 ? atoi(argv[2]) : 40);
    if (code == 0)
        code = run(jobs);
    for (int i = 0; i < N_SESSIONS; i++)
        cera_session_free(jobs[i].session);
    cera_engine_close(engine);
    return code;
}

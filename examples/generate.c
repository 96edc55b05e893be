/* The shortest program: a text, continued.
 *
 *     cc -std=c11 examples/generate.c -lcera -o generate
 *     ./generate MODEL.gguf "Once upon a time" [TOKENS]
 *
 * MODEL.gguf may be builtin:tiny. The most probable token is always taken, so that the same text
 * comes each time. */
#include "cera.h"

#include <stdio.h>
#include <stdlib.h>

static int print(void *user, const char *text, size_t n)
{
    (void)user;
    return fwrite(text, 1, n, stdout) != n;
}

static cera_status generate(cera_engine *engine, const char *prompt, int n_tokens, cera_error *err)
{
    cera_session *session;
    cera_status status = cera_session_new(engine, NULL, &session, err);
    if (status != CERA_OK)
        return status;
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.max_tokens = n_tokens;
    options.temperature = 0;
    status = cera_session_append_text(session, prompt, err);
    if (status == CERA_OK)
        status =
            cera_session_generate(session, &options, &(cera_sink){ .on_text = print }, NULL, err);
    cera_session_free(session);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: generate MODEL.gguf PROMPT [TOKENS]\n");
        return 2;
    }
    cera_engine *engine;
    cera_error err;
    cera_status status = cera_engine_open(argv[1], NULL, &engine, &err);
    if (status == CERA_OK) {
        status = generate(engine, argv[2], argc > 3 ? atoi(argv[3]) : 100, &err);
        cera_engine_close(engine);
    }
    if (status != CERA_OK) {
        fprintf(stderr, "generate: %s\n", err.message);
        return 1;
    }
    putchar('\n');
    return 0;
}

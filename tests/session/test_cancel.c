/* What is still computed after a cancel, in work and not in time: the kernels of the engine are
 * replaced by ones that count what they are asked for, and that cancel when so much has been done.
 *
 * A long input stops at the next tile: the other tiles of its op, and the rows that the ops behind
 * it would prepare, are left alone. A generation stops behind the token that is being computed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/state_model.h"
#include "support/work.h"

#include "api/objects.h"

enum { N_CONTEXT = 2048, N_CHUNK = 512, N_INPUT = 1500, N_LAYER = 6, WIDTH = 64 };

static cera_engine *open_model(gguf_build *file)
{
    toy_spec spec;
    toy_spec_init(&spec, "llama", CR_TYPE_Q8_0);
    spec.n_context = N_CONTEXT;
    spec.n_embd = spec.n_ff = WIDTH;
    spec.n_head = 2;
    spec.head_dim = spec.rope_dims = 32;
    spec.n_layer = N_LAYER;
    for (int layer = 0; layer < N_LAYER; layer++)
        spec.n_head_kv[layer] = 2;
    toy_build(&spec, file);
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.n_threads = 1;
    options.chunk_size = N_CHUNK;
    options.no_reuse = true;
    cera_engine *engine = state_model_open(file, &options);
    work_install(engine->core->backend);
    return engine;
}

static void an_input_stops_at_the_next_tile(void **state)
{
    (void)state;
    gguf_build file;
    cera_engine *engine = open_model(&file);
    static int32_t ids[N_INPUT];
    state_ids(3, ids, N_INPUT);
    cera_session *s;
    assert_int_equal(cera_session_new(engine, NULL, &s, NULL), CERA_OK);
    work_start(NULL, 0);
    assert_int_equal(cera_session_append_ids(s, ids, N_INPUT, NULL), CERA_OK);
    uint64_t n_all = work.n_macs, most_macs = 0, most_elements = 0;
    print_message("%.1f M products, %.1f M elements\n", 1e-6 * (double)n_all,
                  1e-6 * (double)work.n_elements);
    enum { N_TRIES = 60 };
    for (uint64_t i = 0; i < N_TRIES; i++) {
        cera_session_reset(s);
        work_start(s, n_all * i / N_TRIES + 1);
        assert_int_equal(cera_session_append_ids(s, ids, N_INPUT, NULL), CERA_E_CANCELLED);
        assert_int_equal(cera_session_position(s), 0);
        most_macs = CR_MAX(most_macs, work.n_macs - work.macs_before);
        most_elements = CR_MAX(most_elements, work.n_elements - work.elements_before);
    }
    print_message("after a cancel at most %.3f M products, %.3f M elements\n",
                  1e-6 * (double)most_macs, 1e-6 * (double)most_elements);
    /* Gate and up of one tile for all rows of a chunk; the rows of one op, normalised and
     * quantised. */
    assert_true(most_macs <= 2 * work_tile * N_CHUNK * WIDTH);
    assert_true(most_elements <= 2 * N_CHUNK * WIDTH);
    assert_true(most_macs > 0);
    cera_session_free(s);
    cera_engine_close(engine);
    build_done(&file);
}

static void a_generation_stops_behind_the_token(void **state)
{
    (void)state;
    gguf_build file;
    cera_engine *engine = open_model(&file);
    static int32_t ids[N_INPUT];
    state_ids(4, ids, N_INPUT);
    cera_session *s, *fork;
    assert_int_equal(cera_session_new(engine, NULL, &s, NULL), CERA_OK);
    assert_int_equal(cera_session_append_ids(s, ids, 200, NULL), CERA_OK);
    enum { N_TOKENS = 20 };
    assert_int_equal(cera_session_fork(s, &fork, NULL), CERA_OK);
    work_start(NULL, 0);
    state_generate(fork, N_TOKENS);
    cera_session_free(fork);
    uint64_t n_all = work.n_macs, most = 0;
    for (uint64_t i = 0; i < N_TOKENS; i++) {
        assert_int_equal(cera_session_fork(s, &fork, NULL), CERA_OK);
        work_start(fork, n_all * i / N_TOKENS + 1);
        cera_summary summary = state_generate(fork, N_TOKENS);
        assert_int_equal(summary.finish, CERA_FINISH_CANCELLED);
        assert_in_range(summary.n_generated, i, i + 2);
        most = CR_MAX(most, work.n_macs - work.macs_before);
        cera_session_free(fork);
    }
    print_message("after a cancel at most %.2f of a token\n",
                  (double)(most * N_TOKENS) / (double)n_all);
    assert_true(most > 0 && most * N_TOKENS <= n_all * 105 / 100); /* the last one sees most keys */
    cera_session_free(s);
    cera_engine_close(engine);
    build_done(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_generation_stops_behind_the_token),
        cmocka_unit_test(an_input_stops_at_the_next_tile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

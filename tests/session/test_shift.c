/* Dropping tokens from the middle: the keys behind them are those that turning them by hand gives,
 * however often it is done; what a shifted session has stays its own; models that cannot do it say
 * why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/cells.h"
#include "support/fault_host.h"
#include "support/state_model.h"

#include "api/objects.h"
#include "session/session_internal.h"

#include <math.h>
#include <string.h>

enum { N_CONTEXT = 300 };

typedef struct fixture {
    gguf_build file;
    fault_host host;
    cera_engine *engine;
    int32_t ids[N_CONTEXT];
} fixture;

static void begin(fixture *x, const char *arch, cera_kv_type kv_type)
{
    state_model_build(arch, N_CONTEXT, 0, &x->file);
    fault_init(&x->host);
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.host = &x->host.host;
    options.n_threads = 1;
    options.kv_type = kv_type;
    x->engine = state_model_open(&x->file, &options);
    state_ids(21, x->ids, N_CONTEXT);
}

static void end(fixture *x)
{
    state_end(x->engine, &x->host, &x->file);
}

static cera_session *append(fixture *x, size_t n)
{
    cera_session *s = NULL;
    assert_int_equal(cera_session_new(x->engine, NULL, &s, NULL), CERA_OK);
    assert_int_equal(cera_session_append_ids(s, x->ids, n, NULL), CERA_OK);
    return s;
}

static void shift(cera_session *s, size_t n_keep, size_t n_drop)
{
    cera_error err;
    if (cera_session_shift(s, n_keep, n_drop, &err) != CERA_OK)
        fail_msg("%s", err.message);
}

/* ---- what is computed --------------------------------------------------------------------- */

static double distance(const cera_session *a, const cera_session *b)
{
    return cells_distance(cera_session_logits(a), cera_session_logits(b), TOY_N_VOCAB);
}

/* Three shifts with tokens between them, none of which begins or ends with a page. */
static void keys_are_turned_from_where_they_were_computed(void **state)
{
    (void)state;
    static const char *const archs[] = { "llama", "qwen3", "olmo2" };
    for (size_t a = 0; a < CR_COUNT(archs); a++) {
        fixture x;
        begin(&x, archs[a], CERA_KV_F32);
        cera_session *s = append(&x, 290);
        cells c;
        cells_init(&c, s->core->env.pages->graph, N_CONTEXT);
        cells_read(&c, s->core, 0, 290);
        double most = 0;
        for (int round = 0; round < 3; round++) {
            int n_keep = 5 + 30 * round, n_drop = 101 - 13 * round;
            shift(s, (size_t)n_keep, (size_t)n_drop);
            cells_drop(&c, n_keep, n_drop);
            size_t n;
            const int32_t *history = cera_session_history(s, &n);
            assert_int_equal(n, c.n);

            /* The reference: any tokens at these positions, with other keys and values put
             * there. */
            cr_session_env env = cr_engine_env(x.engine->core);
            env.prefix = NULL;
            cera_session r = { .engine = x.engine };
            assert_int_equal(cr_session_new(&env, 0, &r.core, NULL), CERA_OK);
            assert_int_equal(cr_session_append_ids(r.core, history, n, NULL), CERA_OK);
            cells_write(&c, r.core);
            int from = (int)n;
            assert_int_equal(cr_session_append_ids(r.core, x.ids + 30, 60, NULL), CERA_OK);
            assert_int_equal(cera_session_append_ids(s, x.ids + 30, 60, NULL), CERA_OK);
            most = fmax(most, distance(s, &r));
            cr_session_free(r.core);
            cells_read(&c, s->core, from, from + 60);
        }
        print_message("%s: %.1e\n", archs[a], most);
        assert_true(most < 1e-3);
        assert_true(most > 0); /* it is another computation */
        cells_done(&c);
        cera_session_free(s);
        end(&x);
    }
}

/* Many small shifts are one large one, to the bit, in types that round. */
static void shifts_do_not_drift(void **state)
{
    (void)state;
    static const cera_kv_type types[] = { CERA_KV_F16, CERA_KV_Q8_0 };
    for (size_t t = 0; t < CR_COUNT(types); t++) {
        fixture x;
        begin(&x, "llama", types[t]);
        cera_session *a = append(&x, 280), *b = append(&x, 280), *c = NULL;
        for (int i = 0; i < 50; i++) {
            shift(a, 10, 3);
            if (i == 20) { /* a fork shifts like its parent */
                assert_int_equal(cera_session_fork(a, &c, NULL), CERA_OK);
                cera_session_free(a);
                a = c;
            }
        }
        shift(b, 10, 150);
        state_assert_equal(a, b);
        state_generate(a, 20);
        state_generate(b, 20);
        state_assert_equal(a, b);
        cera_session_free(a);
        cera_session_free(b);
        end(&x);
    }
}

/* ---- its own ----------------------------------------------------------------------------- */

static void shifted_pages_stay_private(void **state)
{
    (void)state;
    fixture x;
    begin(&x, "llama", CERA_KV_F16);
    cera_session *s = append(&x, 250);
    shift(s, 40, 90);
    state_generate(s, 70);
    size_t n;
    const int32_t *history = cera_session_history(s, &n);
    assert_int_equal(n, 230);
    /* Its history, computed by another: of the tree's it has what stands before the shift. */
    cera_session *other = NULL;
    assert_int_equal(cera_session_new(x.engine, NULL, &other, NULL), CERA_OK);
    assert_int_equal(cera_session_append_ids(other, history, n, NULL), CERA_OK);
    assert_int_equal(state_generate(other, 0).n_reused, 40);
    assert_true(distance(s, other) > 0);
    cera_error err;
    assert_int_equal(cera_session_save(s, "/nowhere/file", &err), CERA_E_UNSUPPORTED);

    /* Back before the shift it is like any other; behind it, it stays what it was. */
    int32_t ids[230];
    memcpy(ids, history, sizeof ids);
    cera_session *fork = NULL;
    assert_int_equal(cera_session_fork(s, &fork, NULL), CERA_OK);
    assert_int_equal(cera_session_rewind(s, 200, NULL), CERA_OK);
    assert_int_equal(cera_session_append_ids(s, ids + 200, 30, NULL), CERA_OK);
    state_assert_equal(s, fork);
    assert_int_equal(cera_session_rewind(s, 40, NULL), CERA_OK);
    assert_int_equal(cera_session_append_ids(s, ids + 40, 190, NULL), CERA_OK);
    assert_int_equal(state_generate(s, 0).n_reused, 189); /* of the other's */
    state_assert_equal(s, other);
    cera_session_reset(fork);
    assert_int_equal(cera_session_append_ids(fork, ids, 230, NULL), CERA_OK);
    state_assert_equal(fork, other);
    cera_session_free(s);
    cera_session_free(fork);
    cera_session_free(other);
    end(&x);
}

static void what_cannot_be_shifted_says_why(void **state)
{
    (void)state;
    static const char *const rows[][2] = { { "lfm2", "recurrent state" }, { "gemma3", "window" } };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        fixture x;
        begin(&x, rows[i][0], CERA_KV_F16);
        cera_session *s = append(&x, 100), *before = NULL;
        assert_int_equal(cera_session_fork(s, &before, NULL), CERA_OK);
        cera_error err;
        assert_int_equal(cera_session_shift(s, 4, 20, &err), CERA_E_UNSUPPORTED);
        assert_non_null(strstr(err.message, rows[i][1]));
        state_assert_equal(s, before);
        cera_session_free(s);
        cera_session_free(before);
        end(&x);
    }
    fixture x;
    begin(&x, "llama", CERA_KV_F16);
    x.engine->core->model->hparams.rope.scaling = CR_ROPE_YARN;
    cera_session *s = append(&x, 100);
    cera_error err;
    assert_int_equal(cera_session_shift(s, 4, 20, &err), CERA_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "YaRN"));
    assert_int_equal(cera_session_shift(s, 4, 96, &err), CERA_E_ARG);
    assert_int_equal(cera_session_shift(s, 100, 1, &err), CERA_E_ARG);
    assert_int_equal(cera_session_shift(s, SIZE_MAX, SIZE_MAX, &err), CERA_E_ARG);
    assert_int_equal(cera_session_shift(s, 4, 0, &err), CERA_OK);
    cera_session_free(s);
    end(&x);
}

static void failing_changes_nothing(void **state)
{
    (void)state;
    for (size_t at = 1;; at++) {
        fixture x;
        begin(&x, "llama", CERA_KV_F16);
        cera_session *s = append(&x, 250), *before = NULL, *done = NULL;
        shift(s, 3, 20);
        assert_int_equal(cera_session_fork(s, &before, NULL), CERA_OK);
        assert_int_equal(cera_session_fork(s, &done, NULL), CERA_OK);
        shift(done, 3, 50);
        fault_allocs(&x.host, at, FAULT_ONCE);
        cera_status status = cera_session_shift(s, 3, 50, NULL);
        bool reached = fault_hits(&x.host) > 0;
        fault_os(&x.host, FAULT_ALLOC, 0, FAULT_NEVER, 0);
        if (reached) {
            assert_int_equal(status, CERA_E_NOMEM);
            state_assert_equal(s, before);
            shift(s, 3, 50);
        }
        state_assert_equal(s, done);
        state_generate(s, 3);
        state_generate(done, 3);
        state_assert_equal(s, done);
        cera_session_free(s);
        cera_session_free(before);
        cera_session_free(done);
        end(&x);
        if (!reached)
            break;
        assert_true(at < 50);
    }
}

/* ---- without an end ---------------------------------------------------------------------- */

/* Three contexts of tokens, by shifting or by computing again; the first tokens stay. */
static void generations_go_on(void **state)
{
    (void)state;
    for (int m = 0; m < STATE_N_MODELS; m++) {
        fixture x;
        begin(&x, state_models[m], CERA_KV_F16);
        cera_session *s = append(&x, 50);
        cera_generate_options options;
        cera_generate_options_init(&options);
        options.max_tokens = 3 * N_CONTEXT;
        options.seed = 4;
        options.ignore_eos = true;
        options.penalty_window = m % 2 ? -1 : 64;
        options.dry_multiplier = 0.5f;
        cera_summary summary;
        cera_session *twin = NULL;
        assert_int_equal(cera_session_fork(s, &twin, NULL), CERA_OK);
        assert_int_equal(cera_session_generate(s, &options, NULL, &summary, NULL), CERA_OK);
        assert_int_equal(summary.finish, CERA_FINISH_CONTEXT);
        assert_int_equal(summary.n_generated, N_CONTEXT - 50);
        options.shift = true;
        options.n_keep = 30;
        assert_int_equal(cera_session_generate(twin, &options, NULL, &summary, NULL), CERA_OK);
        assert_int_equal(summary.finish, CERA_FINISH_LENGTH);
        assert_int_equal(summary.n_generated, 3 * N_CONTEXT);
        assert_int_equal(summary.n_prompt, 0); /* dropping is no input */
        size_t n;
        const int32_t *history = cera_session_history(twin, &n);
        assert_true(n > 160 && n <= N_CONTEXT);
        assert_memory_equal(history, x.ids, 30 * sizeof *history);
        options.n_keep = N_CONTEXT; /* nothing may go */
        options.max_tokens = -1;
        assert_int_equal(cera_session_generate(twin, &options, NULL, &summary, NULL), CERA_OK);
        assert_int_equal(summary.finish, CERA_FINISH_CONTEXT);
        options.n_keep = -1;
        cera_error err;
        assert_int_equal(cera_session_generate(twin, &options, NULL, NULL, &err), CERA_E_ARG);
        cera_session_free(s);
        cera_session_free(twin);
        end(&x);
    }
}

/* A grammar's text that is open moves with its tokens; a shift that takes the token before it, or
 * some of it, closes it. */
static void open_texts_move(void **state)
{
    (void)state;
    enum { N_PROMPT = 50, N_KEEP = 4, FIRST = 40, N_TEXT = 8 };
    static const char gbnf[] = "root ::= <[40]> <[41]> <[42]> <[43]> <[44]> <[45]> <[46]> <[47]>";
    fixture x;
    begin(&x, "llama", CERA_KV_F16);
    cera_grammar *grammar;
    assert_int_equal(cera_grammar_from_gbnf(gbnf, sizeof gbnf - 1, cera_engine_vocab(x.engine),
                                            NULL, &grammar, NULL),
                     CERA_OK);
    for (int n_cut = 1; n_cut < N_TEXT; n_cut++) {
        for (size_t left = 0; left <= 3; left++) { /* tokens of the prompt that stay before it */
            cera_session *s = append(&x, N_PROMPT);
            cera_generate_options options;
            cera_generate_options_init(&options);
            options.grammar = grammar;
            options.max_tokens = n_cut;
            cera_summary summary;
            assert_int_equal(cera_session_generate(s, &options, NULL, &summary, NULL), CERA_OK);
            assert_true(summary.is_unfinished);
            shift(s, N_KEEP, N_PROMPT - N_KEEP - left);
            options.max_tokens = N_TEXT;
            assert_int_equal(cera_session_generate(s, &options, NULL, &summary, NULL), CERA_OK);
            assert_false(summary.is_unfinished);
            assert_int_equal(summary.n_generated, left > 0 ? N_TEXT - n_cut : N_TEXT);
            size_t n;
            const int32_t *history = cera_session_history(s, &n);
            for (int i = 0; i < N_TEXT; i++)
                assert_int_equal(history[n - N_TEXT + (size_t)i], FIRST + i);
            cera_session_free(s);
        }
    }
    cera_grammar_free(grammar);
    end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_turned_from_where_they_were_computed),
        cmocka_unit_test(shifts_do_not_drift),
        cmocka_unit_test(shifted_pages_stay_private),
        cmocka_unit_test(what_cannot_be_shifted_says_why),
        cmocka_unit_test(failing_changes_nothing),
        cmocka_unit_test(generations_go_on),
        cmocka_unit_test(open_texts_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

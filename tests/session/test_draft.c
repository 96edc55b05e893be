/* Guesses change no answer: generations with drafts against the same ones without, to the bit.
 *
 * Random models, seeds and options: greedy and sampled, penalties, Mirostat, logprobs, stop texts
 * and ids, windows, recurrent states, forks, cancels, drafts by lookup, by another model (whose
 * guesses are mostly wrong) and by the model itself (whose are right). CERA_SEED=number runs one
 * round alone; CERA_NIGHTLY runs 2,000. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fault_host.h"
#include "support/state_model.h"
#include "support/tiny.h"

#include "api/objects.h"

#include <stdlib.h>
#include <string.h>

enum { N_MODELS = 5, N_CONTEXT = 400, N_ROUNDS = 60, N_NIGHTLY = 2000, N_CALLS = 6 };

static const char *const model_names[N_MODELS] = { "llama", "lfm2", "gemma3", "phi3", "lfm2" };
static gguf_build models[N_MODELS];

static int build_models(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        toy_spec spec;
        toy_spec_init(&spec, model_names[i], CR_TYPE_F32);
        spec.seed += (uint64_t)i;
        spec.n_context = N_CONTEXT;
        spec.n_embd = spec.n_ff = 64;
        spec.n_head = 2;
        spec.head_dim = spec.rope_dims = 32;
        bool is_lfm2 = i == 1 || i == 4;
        spec.n_layer = is_lfm2 ? 4 : 2;
        spec.window = i == 2 ? 70 : i == 3 ? 100 : 0;
        spec.period = i == 2 ? 2 : 0;
        spec.tied = i == 2;
        for (int layer = 0; layer < spec.n_layer; layer++)
            spec.n_head_kv[layer] = is_lfm2 && layer % 2 == 0 ? 0 : i == 2 || i == 3 ? 2 : 1;
        toy_build(&spec, &models[i]);
    }
    return 0;
}

static int drop_models(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++)
        build_done(&models[i]);
    return 0;
}

static int below(uint64_t *random, int n)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (int)((uint32_t)(*random >> 33) % (uint32_t)n);
}

/* What a sink saw. */
typedef struct record {
    int32_t ids[N_CONTEXT];
    float logprobs[N_CONTEXT];
    int n, stop_at;
    cera_session *cancel;
    int cancel_at;
} record;

static int on_token(void *user, const cera_token_info *token)
{
    record *r = user;
    r->ids[r->n] = token->id;
    r->logprobs[r->n++] = token->logprob;
    if (r->n == r->cancel_at)
        cera_session_cancel(r->cancel);
    return r->n == r->stop_at;
}

static void choose_options(uint64_t *random, cera_generate_options *o)
{
    cera_generate_options_init(o);
    o->max_tokens = below(random, 5) == 0 ? -1 : below(random, 120);
    static const float temperatures[] = { 0, 0, 0.3f, 1.5f };
    o->temperature = temperatures[below(random, 4)];
    o->seed = (uint64_t)below(random, 1000);
    o->repetition_penalty = below(random, 3) == 0 ? 1.1f : 1.0f;
    o->frequency_penalty = below(random, 4) == 0 ? 0.2f : 0;
    o->dry_multiplier = below(random, 6) == 0 ? 0.8f : 0;
    o->mirostat_tau = below(random, 6) == 0 ? 3.0f : 0;
    o->n_logprobs = below(random, 3);
    static const int32_t stops[] = { 17, 170 };
    o->stop_ids = stops;
    o->n_stop_ids = below(random, 4) == 0 ? 2 : 0;
}

/* Many repetitions of a few tokens, and a little noise. */
static int make_text(uint64_t *random, int32_t *ids, int most)
{
    int n = 1 + below(random, most), period = 1 + below(random, 12);
    for (int i = 0; i < n; i++)
        ids[i] =
            i >= period && below(random, 12) > 0 ? ids[i - period] : below(random, TOY_N_VOCAB);
    return n;
}

static void assert_twins(const cera_session *a, const cera_session *b)
{
    size_t n_a, n_b;
    const int32_t *history_a = cera_session_history(a, &n_a);
    const int32_t *history_b = cera_session_history(b, &n_b);
    assert_int_equal(n_a, n_b);
    assert_memory_equal(history_a, history_b, n_a * sizeof *history_a);
    assert_memory_equal(cera_session_logits(a), cera_session_logits(b),
                        TOY_N_VOCAB * sizeof(float));
}

typedef struct totals {
    uint64_t n_generated, n_drafted, n_accepted;
} totals;

static void generate_both(uint64_t *random, cera_session *a, cera_session *b, cera_engine *draft,
                          totals *sum)
{
    cera_generate_options options;
    choose_options(random, &options);
    static record with, without;
    with = without = (record){ .n = 0 };
    with.stop_at = without.stop_at = below(random, 4) == 0 ? 1 + below(random, 40) : 0;
    with.cancel_at = without.cancel_at = below(random, 5) == 0 ? 1 + below(random, 40) : 0;
    with.cancel = a;
    without.cancel = b;
    cera_summary from_a, from_b;
    cera_sink sink = { .on_token = on_token, .user = &without };
    assert_int_equal(cera_session_generate(b, &options, &sink, &from_b, NULL), CERA_OK);
    options.n_draft = 1 + below(random, 16);
    options.draft = draft;
    sink.user = &with;
    assert_int_equal(cera_session_generate(a, &options, &sink, &from_a, NULL), CERA_OK);
    assert_int_equal(with.n, without.n);
    assert_memory_equal(with.ids, without.ids, (size_t)with.n * sizeof *with.ids);
    assert_memory_equal(with.logprobs, without.logprobs, (size_t)with.n * sizeof *with.logprobs);
    assert_int_equal(from_a.finish, from_b.finish);
    assert_int_equal(from_a.n_generated, from_b.n_generated);
    assert_true(from_a.n_accepted <= from_a.n_drafted);
    assert_int_equal(from_b.n_drafted, 0);
    assert_twins(a, b);
    /* A cancel at the last token is for the next call. */
    assert_int_equal(cr_session_take_cancel(a->core), cr_session_take_cancel(b->core));
    sum->n_generated += from_a.n_generated;
    sum->n_drafted += from_a.n_drafted;
    sum->n_accepted += from_a.n_accepted;
}

/* kind: 0 lookup, 1 another model, 2 the model itself. */
static void play_round(uint64_t seed, int kind, totals *sum)
{
    uint64_t random = seed * 0x9e3779b97f4a7c15u + (uint64_t)kind;
    int model = (int)(seed % N_MODELS);
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.n_threads = 1;
    options.no_reuse = below(&random, 2) == 0;
    options.cache_bytes = below(&random, 3) == 0 ? 1 << 20 : 0;
    cera_engine *engine = state_model_open(&models[model], &options);
    bool run_ends = below(&random, 2) == 0; /* states at the ends of runs only */
    if (run_ends && engine->core->model->graph.n_states > 0)
        engine->core->model->graph.states_at_pages = false;
    options.no_reuse = true;
    cera_engine *plain = state_model_open(&models[model], &options);
    options.no_reuse = below(&random, 2) == 0;
    cera_engine *draft = kind == 0   ? NULL
                         : kind == 1 ? state_model_open(&models[(model + 1) % N_MODELS], &options)
                                     : cera_engine_retain(engine);
    cera_session *a, *b;
    assert_int_equal(cera_session_new(engine, NULL, &a, NULL), CERA_OK);
    assert_int_equal(cera_session_new(plain, NULL, &b, NULL), CERA_OK);
    for (int i = 0; i < N_CALLS; i++) {
        int32_t ids[N_CONTEXT];
        size_t position = cera_session_position(a);
        int what = below(&random, 6);
        if (what == 0 && position > 0) {
            cera_session *child;
            assert_int_equal(cera_session_fork(a, &child, NULL), CERA_OK);
            cera_session_free(a);
            a = child;
        } else if (what == 1 && position > 1) {
            position = 1 + (size_t)below(&random, (int)position);
            assert_int_equal(cera_session_rewind(a, position, NULL), CERA_OK);
            assert_int_equal(cera_session_rewind(b, position, NULL), CERA_OK);
        } else if (position + 10 < N_CONTEXT) {
            int n = make_text(&random, ids, CR_MIN(N_CONTEXT - 8 - (int)position, 150));
            assert_int_equal(cera_session_append_ids(a, ids, (size_t)n, NULL), CERA_OK);
            assert_int_equal(cera_session_append_ids(b, ids, (size_t)n, NULL), CERA_OK);
        }
        if (cera_session_logits(a))
            generate_both(&random, a, b, draft, sum);
    }
    cera_session_free(a);
    cera_session_free(b);
    cera_engine_stats stats;
    cera_engine_get_stats(engine, &stats);
    assert_int_equal(stats.page_bytes_used + stats.state_bytes_used, 0);
    cera_engine_close(engine);
    cera_engine_close(plain);
    cera_engine_close(draft);
}

static uint64_t running_seed;

static int tell_seed(void **state)
{
    (void)state;
    print_message("the last round was CERA_SEED=%llu\n", (unsigned long long)running_seed);
    return 0;
}

static void guesses_change_no_answer(void **state)
{
    (void)state;
    static const char *const kinds[] = { "lookup", "another model", "the model itself" };
    const char *one = getenv("CERA_SEED");
    uint64_t first = one ? strtoull(one, NULL, 10) : 0;
    uint64_t n = one ? 1 : getenv("CERA_NIGHTLY") ? N_NIGHTLY : N_ROUNDS;
    for (int kind = 0; kind < 3; kind++) {
        totals sum = { 0 };
        for (running_seed = first; running_seed < first + n; running_seed++)
            play_round(running_seed, kind, &sum);
        print_message("%s: %llu tokens, %llu guessed, %llu right\n", kinds[kind],
                      (unsigned long long)sum.n_generated, (unsigned long long)sum.n_drafted,
                      (unsigned long long)sum.n_accepted);
        assert_true(one || sum.n_drafted > 0);
        assert_true(one || kind == 1 || sum.n_accepted > 0);
    }
}

/* A grammar and stop texts: the matcher follows what was chosen, not what was guessed. */
static void grammars_and_stop_texts(void **state)
{
    (void)state;
    static const char gbnf[] =
        "root ::= (\"the cat sat on the mat. \" | \"the dog \" [a-z]+ \"; \")+";
    cera_engine *engine = tiny_open(NULL);
    cera_grammar *grammar;
    cera_error err;
    if (cera_grammar_from_gbnf(gbnf, sizeof gbnf - 1, cera_engine_vocab(engine), NULL, &grammar,
                               &err) != CERA_OK)
        fail_msg("%s", err.message);
    static const char *const stops[] = { "mat. the dog", "zzz" };
    for (int i = 0; i < 12; i++) {
        cera_session *a = tiny_new(engine, 0), *b = tiny_new(engine, 0);
        tiny_append(a, tiny_prompt);
        tiny_append(b, tiny_prompt);
        static tiny_record from_a, from_b;
        for (int call = 0; call < 2; call++) { /* the second goes on in the open text */
            cera_generate_options options = tiny_greedy(60);
            options.temperature = i % 3 == 0 ? 0 : 1.0f;
            options.seed = (uint64_t)i;
            options.grammar = grammar;
            options.stop = stops;
            options.n_stop = i % 2 == 0 ? 2 : 0;
            cera_summary plain = tiny_generate(b, &options, &from_b);
            options.n_draft = 8;
            options.draft = i % 4 == 3 ? engine : NULL;
            cera_summary drafted = tiny_generate(a, &options, &from_a);
            assert_string_equal(from_a.text, from_b.text);
            assert_int_equal(plain.finish, drafted.finish);
            assert_int_equal(plain.is_unfinished, drafted.is_unfinished);
            tiny_assert_equal(a, b);
        }
        cera_session_free(a);
        cera_session_free(b);
    }
    cera_grammar_free(grammar);
    cera_engine_close(engine);
}

/* How much is guessed is decided by time, what is chosen is not. */
static void wrong_clocks_change_no_answer(void **state)
{
    (void)state;
    for (int clock = 0; clock < FAULT_CLOCK_COUNT; clock++) {
        fault_host f;
        fault_init(&f);
        fault_set_clock(&f, (fault_clock)clock);
        cera_engine_options options;
        cera_engine_options_init(&options);
        options.host = &f.host;
        options.n_threads = 2;
        cera_engine *engine = state_model_open(&models[1], &options),
                    *plain = state_model_open(&models[1], NULL);
        cera_session *a, *b;
        assert_int_equal(cera_session_new(engine, NULL, &a, NULL), CERA_OK);
        assert_int_equal(cera_session_new(plain, NULL, &b, NULL), CERA_OK);
        uint64_t random = 5;
        int32_t ids[N_CONTEXT];
        totals sum = { 0 };
        for (int i = 0; i < 4; i++) {
            int n = make_text(&random, ids, 40);
            assert_int_equal(cera_session_append_ids(a, ids, (size_t)n, NULL), CERA_OK);
            assert_int_equal(cera_session_append_ids(b, ids, (size_t)n, NULL), CERA_OK);
            generate_both(&random, a, b, i % 2 ? engine : NULL, &sum);
            if (cera_session_position(a) + 100 > N_CONTEXT) {
                assert_int_equal(cera_session_rewind(a, 50, NULL), CERA_OK);
                assert_int_equal(cera_session_rewind(b, 50, NULL), CERA_OK);
            }
        }
        cera_session_free(a);
        cera_session_free(b);
        cera_engine_close(engine);
        cera_engine_close(plain);
        assert_null(fault_check(&f));
        fault_done(&f);
    }
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    cera_engine *tiny = tiny_open(NULL), *toy = state_model_open(&models[0], NULL);
    cera_session *s = tiny_new(tiny, 0);
    tiny_append(s, tiny_prompt);
    cera_generate_options options = tiny_greedy(4);
    cera_error err;
    options.n_draft = 17;
    assert_int_equal(cera_session_generate(s, &options, NULL, NULL, &err), CERA_E_ARG);
    assert_string_equal(err.message, "n_draft: expected 0 to 16, found 17");
    options.n_draft = 4;
    options.draft = toy;
    assert_int_equal(cera_session_generate(s, &options, NULL, NULL, &err), CERA_E_ARG);
    assert_string_equal(err.message,
                        "draft: expected a model with the same 1024 tokens, found one with 300");
    assert_int_equal(cera_session_position(s), TINY_PROMPT);
    cera_session_free(s);
    cera_engine_close(tiny);
    cera_engine_close(toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(guesses_change_no_answer, tell_seed),
        cmocka_unit_test(grammars_and_stop_texts),
        cmocka_unit_test(wrong_clocks_change_no_answer),
        cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, build_models, drop_models);
}

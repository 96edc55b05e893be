/* Generating under a grammar with the real model: it is kept to the byte, ends where it ends, says
 * when it was cut, goes on where it was cut, and costs no allocation a token. */
#define _DEFAULT_SOURCE /* mkstemp */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fault_host.h"
#include "support/tiny.h"

#include "base/compiler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cera_engine *engine;

static int open_engine(void **state)
{
    (void)state;
    engine = tiny_open(NULL);
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    cera_engine_close(engine);
    return 0;
}

static cera_grammar *compile(const char *text)
{
    cera_grammar *g;
    cera_error err;
    if (cera_grammar_from_gbnf(text, strlen(text), cera_engine_vocab(engine), NULL, &g, &err) !=
        CERA_OK)
        fail_msg("%s", err.message);
    return g;
}

static cera_session *start(void)
{
    cera_session *s = tiny_new(engine, 0);
    tiny_append(s, tiny_prompt);
    return s;
}

/* Whether the text is of the grammar, as its own matcher says of bytes. */
static bool is_of(cera_grammar *g, const char *text, bool *complete)
{
    cera_grammar_state *s;
    assert_int_equal(cera_grammar_state_new(g, &s, NULL), CERA_OK);
    bool fits = cera_grammar_state_read_text(s, text, strlen(text), NULL) == CERA_OK;
    *complete = cera_grammar_state_is_complete(s);
    cera_grammar_state_free(s);
    return fits;
}

static const char json[] =
    "root ::= \"{\\\"a\\\": \" n \", \\\"b\\\": \\\"\" [a-z é]{1,12} \"\\\"}\"\n"
    "n ::= [1-9] [0-9]{0,3}";

static void keeps_to_the_grammar(void **state)
{
    (void)state;
    cera_grammar *g = compile(json);
    for (uint64_t seed = 0; seed < 40; seed++) {
        cera_session *s = start();
        cera_generate_options options;
        cera_generate_options_init(&options);
        options.seed = seed;
        options.grammar = g;
        options.temperature = seed % 4 == 0 ? 0.0f : 5.0f;
        options.top_p = 1.0f;
        options.min_p = 0.0f;
        options.ignore_eos = seed % 2 == 0;
        tiny_record record = { .n_tokens = 0 };
        cera_summary summary = tiny_generate(s, &options, &record);
        bool complete;
        assert_true(is_of(g, record.text, &complete));
        assert_true(complete);
        assert_int_equal(summary.finish, CERA_FINISH_STOP);
        assert_false(summary.is_unfinished);
        cera_session_free(s);
    }
    cera_grammar_free(g);
}

/* A grammar that may end, or go on: only the model's end token ends it, or what must. */
static void ends_where_the_grammar_may(void **state)
{
    (void)state;
    cera_grammar *g = compile("root ::= \"no\" | \"no.\"");
    cera_session *s = start();
    cera_generate_options options = tiny_greedy(50); /* ignores end tokens */
    options.grammar = g;
    tiny_record record = { .n_tokens = 0 };
    cera_summary summary = tiny_generate(s, &options, &record);
    assert_int_equal(summary.finish, CERA_FINISH_STOP);
    assert_string_equal(record.text, "no.");
    cera_session_free(s);

    s = start();
    options.ignore_eos = false;
    summary = tiny_generate(s, &options, &record);
    assert_int_equal(summary.finish, CERA_FINISH_STOP);
    assert_true(strcmp(record.text, "no") == 0 || strcmp(record.text, "no.") == 0);
    cera_session_free(s);
    cera_grammar_free(g);

    /* Nothing but an end: no token at all. */
    g = compile("root ::= \"\"");
    s = start();
    options.grammar = g;
    summary = tiny_generate(s, &options, &record);
    assert_int_equal(summary.finish, CERA_FINISH_STOP);
    assert_int_equal(summary.n_generated, 0);
    cera_session_free(s);
    cera_grammar_free(g);
}

/* Cut at every length, it says so, and the next generation goes on to the same text. */
static void goes_on_where_it_was_cut(void **state)
{
    (void)state;
    cera_grammar *g = compile(json);
    cera_generate_options options = tiny_greedy(100);
    options.grammar = g;
    cera_session *s = start();
    tiny_record whole = { .n_tokens = 0 }, first = whole, rest = whole;
    cera_summary summary = tiny_generate(s, &options, &whole);
    assert_int_equal(summary.finish, CERA_FINISH_STOP);
    cera_session_free(s);
    for (int n = 0; n < whole.n_tokens; n++) {
        s = start();
        options.max_tokens = n;
        summary = tiny_generate(s, &options, &first);
        assert_int_equal(summary.finish, CERA_FINISH_LENGTH);
        assert_true(summary.is_unfinished);
        options.max_tokens = 100;
        summary = tiny_generate(s, &options, &rest);
        assert_int_equal(summary.finish, CERA_FINISH_STOP);
        assert_false(summary.is_unfinished);
        char text[2 * sizeof first.text];
        snprintf(text, sizeof text, "%s%s", first.text, rest.text);
        assert_string_equal(text, whole.text);
        /* It is finished: the next one begins anew. */
        summary = tiny_generate(s, &options, &rest);
        assert_int_equal(rest.text[0], '{');
        cera_session_free(s);
    }

    /* Something appended in between, a reset, or another grammar: it begins anew. */
    s = start();
    options.max_tokens = 5;
    tiny_generate(s, &options, &first);
    assert_int_equal(cera_session_append_text(s, " x", NULL), CERA_OK);
    tiny_generate(s, &options, &rest);
    assert_int_equal(rest.text[0], '{');
    cera_session_reset(s);
    tiny_append(s, tiny_prompt);
    tiny_generate(s, &options, &rest);
    assert_string_equal(rest.text, first.text);
    cera_grammar *other = compile("root ::= \"xyz\"");
    options.grammar = other;
    tiny_generate(s, &options, &rest);
    assert_string_equal(rest.text, "xyz");
    cera_session_free(s);
    cera_grammar_free(other);
    cera_grammar_free(g);
}

/* The rest of an open text, and what it ends as. */
static void assert_rest(cera_session *s, cera_grammar *g, const char *rest)
{
    cera_generate_options options = tiny_greedy(100);
    options.grammar = g;
    tiny_record record = { .n_tokens = 0 };
    cera_summary summary = tiny_generate(s, &options, &record);
    assert_string_equal(record.text, rest);
    assert_int_equal(summary.finish, CERA_FINISH_STOP);
    assert_false(summary.is_unfinished);
}

/* A session at the prompt and `n` tokens of the text. */
static cera_session *cut_after(cera_grammar *g, int n, tiny_record *record)
{
    cera_session *s = start();
    cera_generate_options options = tiny_greedy(n);
    options.grammar = g;
    *record = (tiny_record){ .n_tokens = 0 };
    assert_true(tiny_generate(s, &options, record).is_unfinished);
    return s;
}

/* An open text is the fork's, too; a rewind leaves what is before it open, at any place of it. */
static void forks_and_rewinds_go_on(void **state)
{
    (void)state;
    cera_grammar *g = compile(json);
    static tiny_record whole, cut;
    cera_session *s = start(), *child;
    cera_generate_options options = tiny_greedy(100);
    options.grammar = g;
    whole = (tiny_record){ .n_tokens = 0 };
    tiny_generate(s, &options, &whole);
    cera_session_free(s);
    for (int n = 1; n < whole.n_tokens; n++) {
        s = cut_after(g, n, &cut);
        assert_int_equal(cera_session_fork(s, &child, NULL), CERA_OK);
        assert_rest(s, g, whole.text + cut.size);
        assert_rest(child, g, whole.text + cut.size); /* what the parent did is not its */
        cera_session_free(s);
        cera_session_free(child);
        for (int back = 0; back <= n; back += n > 1 ? n - 1 : 1) {
            static tiny_record left;
            s = cut_after(g, n - back, &left);
            cera_session_free(s);
            s = cut_after(g, n, &cut);
            assert_int_equal(cera_session_rewind(s, (size_t)(TINY_PROMPT + n - back), NULL),
                             CERA_OK);
            assert_rest(s, g, whole.text + left.size);
            cera_session_free(s);
        }
    }
    /* Back before its first token: it begins anew. */
    s = cut_after(g, 4, &cut);
    assert_int_equal(cera_session_rewind(s, TINY_PROMPT - 1, NULL), CERA_OK);
    options.max_tokens = 1;
    tiny_generate(s, &options, &cut);
    assert_int_equal(cut.text[0], '{');
    cera_session_free(s);
    cera_grammar_free(g);
}

/* Cancelled, it is unfinished, and the next generation goes on. */
static void goes_on_after_a_cancel(void **state)
{
    (void)state;
    cera_grammar *g = compile(json);
    cera_generate_options options = tiny_greedy(100);
    options.grammar = g;
    static tiny_record whole, cut;
    cera_session *s = start();
    whole = (tiny_record){ .n_tokens = 0 };
    tiny_generate(s, &options, &whole);
    cera_session_free(s);
    for (int at = 1; at + 1 < whole.n_tokens; at++) {
        s = start();
        cut = (tiny_record){ .cancel = s, .cancel_at = at };
        cera_summary summary = tiny_generate(s, &options, &cut);
        assert_int_equal(summary.finish, CERA_FINISH_CANCELLED);
        assert_true(summary.is_unfinished);
        assert_rest(s, g, whole.text + cut.size);
        cera_session_free(s);
    }
    cera_grammar_free(g);
}

/* A file has no grammar: what was loaded begins anew, and what was saved from goes on. */
static void a_file_has_no_open_text(void **state)
{
    (void)state;
    cera_grammar *g = compile("root ::= \"abcdefghij\" \"0123456789\"");
    static tiny_record cut;
    cera_session *s = cut_after(g, 2, &cut);
    char path[] = "open_text.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(cera_session_save(s, path, NULL), CERA_OK);
    size_t n_saved = cut.size;
    cera_session *loaded = cut_after(g, 3, &cut);
    assert_int_equal(cera_session_load(loaded, path, NULL), CERA_OK);
    remove(path);
    assert_rest(loaded, g, "abcdefghij0123456789");
    assert_rest(s, g, &"abcdefghij0123456789"[n_saved]);
    cera_session_free(s);
    cera_session_free(loaded);
    cera_grammar_free(g);
}

static void fails_without_harm(void **state)
{
    (void)state;
    cera_session *s = start(), *twin = start();
    cera_generate_options options = tiny_greedy(5);
    cera_error err;
    /* Without a vocabulary, with another one, with all that is allowed banned. */
    cera_grammar *g;
    assert_int_equal(cera_grammar_from_gbnf("root ::= \"a\"", 12, NULL, NULL, &g, NULL), CERA_OK);
    options.grammar = g;
    assert_int_equal(cera_session_generate(s, &options, NULL, NULL, &err), CERA_E_ARG);
    assert_non_null(strstr(err.message, "without a vocabulary"));
    cera_grammar_free(g);
    cera_vocab *vocab;
    cera_source source = tiny_source();
    assert_int_equal(cera_vocab_open(&source, NULL, &vocab, NULL), CERA_OK);
    assert_int_equal(cera_grammar_from_gbnf("root ::= \"a\"", 12, vocab, NULL, &g, NULL), CERA_OK);
    options.grammar = g;
    assert_int_equal(cera_session_generate(s, &options, NULL, NULL, &err), CERA_E_ARG);
    assert_non_null(strstr(err.message, "found another"));
    cera_grammar_free(g);
    cera_vocab_free(vocab);
    g = compile("root ::= <[5]> \"x\"");
    cera_logit_bias ban = { 5, -INFINITY };
    options.grammar = g;
    options.bias = &ban;
    options.n_bias = 1;
    assert_int_equal(cera_session_generate(s, &options, NULL, NULL, &err), CERA_E_ARG);
    assert_non_null(strstr(err.message, "grammar: expected a token"));
    cera_grammar_free(g);
    tiny_assert_twins(s, twin);
    cera_session_free(s);
    cera_session_free(twin);
}

static size_t n_at_token;
static fault_host *counted;

static int count_allocations(void *user, const cera_token_info *token)
{
    (void)user;
    (void)token;
    n_at_token = fault_calls(counted, FAULT_ALLOC);
    return 0;
}

static void a_token_allocates_nothing(void **state)
{
    (void)state;
    fault_host f;
    fault_init(&f);
    counted = &f;
    cera_engine_options engine_options;
    cera_engine_options_init(&engine_options);
    engine_options.host = &f.host;
    cera_engine *e = tiny_open(&engine_options);
    cera_session *s = tiny_new(e, 0);
    tiny_append(s, tiny_prompt);
    cera_grammar *g;
    const char *text = "root ::= ([a-z ]* [A-Z] .)*";
    assert_int_equal(
        cera_grammar_from_gbnf(text, strlen(text), cera_engine_vocab(e), NULL, &g, NULL), CERA_OK);
    cera_generate_options options = tiny_greedy(1);
    options.grammar = g;
    cera_sink sink = { .on_token = count_allocations };
    assert_int_equal(cera_session_generate(s, &options, &sink, NULL, NULL), CERA_OK);
    size_t first = 0, before;
    for (int n = 1; n < 60; n += 58) {
        options.max_tokens = n;
        before = fault_calls(&f, FAULT_ALLOC);
        assert_int_equal(cera_session_generate(s, &options, &sink, NULL, NULL), CERA_OK);
        first = n == 1 ? n_at_token - before : first;
        /* Pages of keys and values are taken ahead; the number of calls is that of one token. */
        assert_true(n_at_token - before <= first + 2);
    }
    cera_session_free(s);
    cera_grammar_free(g);
    cera_engine_close(e);
    assert_null(fault_check(&f));
    fault_done(&f);
}

static void fails_without_memory(void **state)
{
    (void)state;
    for (size_t i = 1;; i++) {
        fault_host f;
        fault_init(&f);
        cera_engine_options engine_options;
        cera_engine_options_init(&engine_options);
        engine_options.host = &f.host;
        engine_options.n_threads = 1;
        cera_engine *e = tiny_open(&engine_options);
        cera_session *s = tiny_new(e, 128);
        tiny_append(s, "a");
        fault_allocs(&f, i, FAULT_ONCE);
        cera_grammar *g = NULL;
        cera_error err = { 0 };
        cera_status status =
            cera_grammar_from_gbnf("root ::= [a-z]{3,5}", 19, cera_engine_vocab(e), NULL, &g, &err);
        cera_generate_options options = tiny_greedy(8);
        options.grammar = g;
        if (status == CERA_OK)
            status = cera_session_generate(s, &options, NULL, NULL, &err);
        bool reached = fault_hits(&f) > 0;
        cera_session_free(s);
        cera_grammar_free(g);
        cera_engine_close(e);
        assert_null(fault_check(&f));
        fault_done(&f);
        if (!reached) {
            assert_int_equal(status, CERA_OK);
            break;
        }
        if (status != CERA_E_NOMEM)
            fail_msg("allocation %zu: %s", i, err.message);
    }
}

/* How far it is to the end: over what is optional, called, repeated; back again with each byte of the
 * shortest way. */
static void distances(void **state)
{
    (void)state;
    static const struct {
        const char *grammar, *text;
        size_t distance;
    } cases[] = {
        { "root ::= \"\"", "", 0 },
        { "root ::= \"abc\" | \"ad\"", "", 2 },
        { "root ::= \"abc\" | \"ad\"", "ab", 1 },
        { "root ::= \"a\" root \"b\" | \"c\"", "", 1 },
        { "root ::= \"a\" root \"b\" | \"c\"", "aaa", 4 },
        { "root ::= x{5}\nx ::= y y | \"abc\"\ny ::= [0-9] [a-z]?", "", 10 },
        { "root ::= x{5}\nx ::= y y | \"abc\"\ny ::= [0-9] [a-z]?", "ab", 9 },
        { "root ::= [^a]{3}", "", 3 },
        { "root ::= [\u00e9]{3}", "\xc3\xa9\xc3", 3 },
        { "root ::= \"a\"* <[3]> \"bc\"", "a", 3 },
        { "root ::= a a\na ::= b b\nb ::= c c\nc ::= d d\nd ::= \"x\"{100}", "x", 1599 },
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        cera_grammar *g = compile(cases[i].grammar);
        cera_grammar_state *s;
        size_t distance = 77;
        assert_int_equal(cera_grammar_state_new(g, &s, NULL), CERA_OK);
        assert_int_equal(
            cera_grammar_state_read_text(s, cases[i].text, strlen(cases[i].text), NULL), CERA_OK);
        assert_int_equal(cera_grammar_state_distance(s, &distance, NULL), CERA_OK);
        assert_int_equal(distance, cases[i].distance);
        cera_grammar_state_free(s);
        cera_grammar_free(g);
    }
    cera_error err;
    size_t distance;
    assert_int_equal(cera_grammar_state_distance(NULL, &distance, &err), CERA_E_ARG);
}

/* The states that callers hold. */
static void states_fork_and_rewind(void **state)
{
    (void)state;
    cera_grammar *g = compile(json);
    cera_grammar_state *a, *b;
    assert_int_equal(cera_grammar_state_new(g, &a, NULL), CERA_OK);
    assert_int_equal(cera_grammar_state_new(g, &b, NULL), CERA_OK);
    assert_int_equal(cera_grammar_state_read_text(a, "{\"a\": 12", 8, NULL), CERA_OK);
    assert_int_equal(cera_grammar_state_set(b, a, NULL), CERA_OK);
    assert_int_equal(cera_grammar_state_read_text(a, ", \"b\": \"x\"}", 11, NULL), CERA_OK);
    assert_true(cera_grammar_state_is_complete(a) && cera_grammar_state_is_at_end(a));
    assert_false(cera_grammar_state_is_complete(b));
    const uint64_t *bits_a, *bits_b;
    assert_int_equal(cera_grammar_state_mask(a, &bits_a, NULL), CERA_OK);
    assert_int_equal(cera_grammar_state_mask(b, &bits_b, NULL), CERA_OK);
    const cera_vocab *vocab = cera_engine_vocab(engine);
    for (int32_t id = 0; id < TINY_VOCAB; id++) {
        assert_int_equal(bits_a[id / 64] >> (id % 64) & 1, cera_vocab_is_end(vocab, id));
        bool allowed = (bits_b[id / 64] >> (id % 64) & 1) != 0;
        if (!allowed)
            assert_int_equal(cera_grammar_state_read(b, id, NULL), CERA_E_ARG);
    }
    assert_int_equal(cera_grammar_state_set(a, b, NULL), CERA_OK);
    assert_int_equal(cera_grammar_state_read_text(a, "3", 1, NULL), CERA_OK);
    assert_int_equal(cera_grammar_state_read(a, TINY_VOCAB, NULL), CERA_E_ARG);
    cera_grammar_state_free(a);
    cera_grammar_free(g); /* the states hold it */
    assert_int_equal(cera_grammar_state_reset(b, NULL), CERA_OK);
    cera_grammar_state_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_to_the_grammar),
        cmocka_unit_test(ends_where_the_grammar_may),
        cmocka_unit_test(goes_on_where_it_was_cut),
        cmocka_unit_test(fails_without_harm),
        cmocka_unit_test(a_token_allocates_nothing),
        cmocka_unit_test(fails_without_memory),
        cmocka_unit_test(distances),
        cmocka_unit_test(states_fork_and_rewind),
        cmocka_unit_test(forks_and_rewinds_go_on),
        cmocka_unit_test(goes_on_after_a_cancel),
        cmocka_unit_test(a_file_has_no_open_text),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}

/* GBNF: what grammars accept and refuse, held to an independent matcher
 * (scripts/make-golden-grammar writes tests/data/gbnf_cases.json), and how bad grammars are
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "grammar/gbnf.h"
#include "grammar/matcher.h"
#include "support/fault_host.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cr_host host;
static json_t *data;

static int read_data(void **state)
{
    (void)state;
    json_error_t error;
    cr_host_set(&host, NULL, NULL);
    data = json_load_file(CERA_TEST_DATA "/gbnf_cases.json", JSON_ALLOW_NUL, &error);
    return data == NULL;
}

static int drop_data(void **state)
{
    (void)state;
    json_decref(data);
    return cr_host_live(&host) != 0;
}

static cera_status compile(cr_str text, cr_automaton **out, cera_error *err)
{
    cr_gbnf_source source = { .text = text, .max_size = CR_GBNF_MAX_TEXT };
    return cr_gbnf_compile(&source, &host, out, err);
}

static cr_str text_of(const json_t *value)
{
    return (cr_str){ json_string_value(value), json_string_length(value) };
}

/* Whether the text is accepted, read whole or from a copy of the position after each byte. */
static bool accepts(cr_matcher *m, cr_matcher *twin, cr_str text)
{
    assert_int_equal(cr_matcher_reset(m, NULL), CERA_OK);
    bool whole = cr_matcher_read_text(m, text, NULL) == CERA_OK && cr_matcher_is_complete(m);
    bool parts = true;
    assert_int_equal(cr_matcher_reset(twin, NULL), CERA_OK);
    assert_int_equal(cr_matcher_reset(m, NULL), CERA_OK);
    for (size_t i = 0; i < text.size && parts; i++) {
        cr_matcher *from = i % 2 == 0 ? m : twin, *to = i % 2 == 0 ? twin : m;
        assert_int_equal(cr_matcher_move(to, from, NULL), CERA_OK);
        parts = cr_matcher_read_text(to, (cr_str){ text.data + i, 1 }, NULL) == CERA_OK;
    }
    parts = parts && cr_matcher_is_complete(text.size % 2 == 0 ? m : twin);
    assert_int_equal(whole, parts);
    return whole;
}

static void accepts_what_the_grammar_says(void **state)
{
    (void)state;
    size_t i, n_texts = 0;
    json_t *entry;
    json_array_foreach (json_object_get(data, "cases"), i, entry) {
        cr_automaton *a;
        cera_error err = { 0 };
        cr_str grammar = text_of(json_object_get(entry, "grammar"));
        if (compile(grammar, &a, &err) != CERA_OK)
            fail_msg("%s\n%s", grammar.data, err.message);
        cr_matcher *m, *twin;
        assert_int_equal(cr_matcher_new(a, NULL, &host, &m, NULL), CERA_OK);
        assert_int_equal(cr_matcher_new(a, NULL, &host, &twin, NULL), CERA_OK);
        for (int good = 0; good < 2; good++) {
            size_t j;
            json_t *text;
            json_array_foreach (json_object_get(entry, good ? "accept" : "refuse"), j, text) {
                if (accepts(m, twin, text_of(text)) != (bool)good)
                    fail_msg("%s\nshould %s \"%s\"", grammar.data, good ? "accept" : "refuse",
                             json_string_value(text));
                n_texts++;
            }
        }
        cr_matcher_free(m);
        cr_matcher_free(twin);
        cr_automaton_free(a);
    }
    assert_true(n_texts >= 150);
    printf("%zu texts\n", n_texts);
}

static void refuses_bad_grammars(void **state)
{
    (void)state;
    size_t i;
    json_t *entry;
    json_array_foreach (json_object_get(data, "errors"), i, entry) {
        cr_str grammar = text_of(json_array_get(entry, 0));
        const char *why = json_string_value(json_array_get(entry, 1));
        cr_automaton *a;
        cera_error err = { 0 };
        cera_status status = compile(grammar, &a, &err);
        if (status == CERA_OK || strstr(err.message, why) == NULL)
            fail_msg("%.200s\nexpected \"%s\", found \"%s\"", grammar.data, why, err.message);
        assert_int_equal(err.status, status);
    }
}

static void refuses_large_grammars(void **state)
{
    (void)state;
    static char text[270000];
    cr_automaton *a;
    cera_error err;
    size_t n = (size_t)snprintf(text, sizeof text, "root ::= ");
    memset(text + n, '(', 60000);
    assert_int_equal(compile((cr_str){ text, n + 60000 }, &a, &err), CERA_E_LIMIT);
    assert_non_null(strstr(err.message, "at most 64 nested groups"));
    assert_int_equal(compile((cr_str){ text, 262145 }, &a, &err), CERA_E_LIMIT);
    assert_non_null(strstr(err.message, "at most 262144 bytes, found 262145"));
}

/* A chain of 6,000 rules that call one another needs no stack of the machine's. */
static void compiles_a_long_chain(void **state)
{
    (void)state;
    static char text[200000];
    size_t n = (size_t)snprintf(text, sizeof text, "root ::= r0\n");
    for (int i = 0; i < 5999; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "r%d ::= r%d\n", i, i + 1);
    n += (size_t)snprintf(text + n, sizeof text - n, "r5999 ::= \"x\"\n");
    cr_gbnf_source source = { .text = { text, n }, .max_size = sizeof text };
    cr_automaton *a;
    assert_int_equal(cr_gbnf_compile(&source, &host, &a, NULL), CERA_OK);
    cr_matcher *m;
    assert_int_equal(cr_matcher_new(a, NULL, &host, &m, NULL), CERA_OK);
    assert_int_equal(cr_matcher_read_text(m, cr_str_from("x"), NULL), CERA_OK);
    assert_true(cr_matcher_is_at_end(m));
    cr_matcher_free(m);
    cr_automaton_free(a);
}

/* Nesting far beyond what the tables hold at once: they are forgotten and the text goes on. */
static void forgets_and_goes_on(void **state)
{
    (void)state;
    cr_automaton *a;
    assert_int_equal(
        compile(cr_str_from("root ::= \"(\" root \")\" | [a-z]{0,3000} \".\""), &a, NULL), CERA_OK);
    cr_matcher *m;
    assert_int_equal(cr_matcher_new(a, NULL, &host, &m, NULL), CERA_OK);
    enum { DEPTH = 50000 };
    for (int i = 0; i < DEPTH; i++)
        assert_int_equal(cr_matcher_read_text(m, cr_str_from("("), NULL), CERA_OK);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(cr_matcher_read_text(m, cr_str_from("x"), NULL), CERA_OK);
    assert_int_equal(cr_matcher_read_text(m, cr_str_from("x"), NULL), CERA_E_ARG);
    assert_int_equal(cr_matcher_read_text(m, cr_str_from("."), NULL), CERA_OK);
    for (int i = 0; i < DEPTH; i++) {
        assert_false(cr_matcher_is_complete(m));
        assert_int_equal(cr_matcher_read_text(m, cr_str_from(")"), NULL), CERA_OK);
    }
    assert_true(cr_matcher_is_at_end(m));
    cr_matcher_stats stats;
    cr_matcher_get_stats(m, &stats);
    assert_true(stats.n_flushes > 0);

    /* Too deep is said, and the position stays. */
    cera_error err;
    assert_int_equal(cr_matcher_reset(m, NULL), CERA_OK);
    int depth = 0;
    while (cr_matcher_read_text(m, cr_str_from("("), &err) == CERA_OK && depth < 1000000)
        depth++;
    assert_in_range(depth, DEPTH, 70000);
    assert_int_equal(err.status, CERA_E_LIMIT);
    cr_matcher_free(m);
    cr_automaton_free(a);
}

static void bounds_ambiguity(void **state)
{
    (void)state;
    cr_automaton *a;
    const char *text = "root ::= \"x\" root b | \"x\" root c | \"\"\nb ::= \"b\"\nc ::= \"c\"";
    assert_int_equal(compile(cr_str_from(text), &a, NULL), CERA_OK);
    cr_matcher *m;
    assert_int_equal(cr_matcher_new(a, NULL, &host, &m, NULL), CERA_OK);
    cera_status status = CERA_OK;
    cera_error err;
    int n = 0;
    for (; n < 100 && status == CERA_OK; n++)
        status = cr_matcher_read_text(m, cr_str_from("x"), &err);
    assert_int_equal(status, CERA_E_LIMIT);
    assert_true(n > 8);
    assert_non_null(strstr(err.message, "side by side"));
    cr_matcher_free(m);
    cr_automaton_free(a);
}

static void fails_without_memory(void **state)
{
    (void)state;
    const char *text =
        "root ::= a{2,3} [^\"]* (\"x\" | b)+\na ::= [a-z] | \"\\u00e9\"\nb ::= \"y\" b?";
    for (size_t i = 1;; i++) {
        fault_host f;
        fault_init(&f);
        cr_host failing;
        assert_int_equal(cr_host_set(&failing, &f.host, NULL), CERA_OK);
        fault_allocs(&f, i, FAULT_ONCE);
        cr_gbnf_source source = { .text = cr_str_from(text), .max_size = CR_GBNF_MAX_TEXT };
        cr_automaton *a = NULL;
        cr_matcher *m = NULL;
        cera_status status = cr_gbnf_compile(&source, &failing, &a, NULL);
        if (status == CERA_OK)
            status = cr_matcher_new(a, NULL, &failing, &m, NULL);
        cr_matcher_free(m);
        cr_automaton_free(a);
        assert_null(fault_check(&f));
        bool reached = fault_hits(&f) > 0;
        fault_done(&f);
        if (!reached) {
            assert_int_equal(status, CERA_OK);
            break;
        }
        assert_int_equal(status, CERA_E_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_what_the_grammar_says), cmocka_unit_test(refuses_bad_grammars),
        cmocka_unit_test(refuses_large_grammars),        cmocka_unit_test(compiles_a_long_chain),
        cmocka_unit_test(forgets_and_goes_on),           cmocka_unit_test(bounds_ambiguity),
        cmocka_unit_test(fails_without_memory),
    };
    return cmocka_run_group_tests(tests, read_data, drop_data);
}

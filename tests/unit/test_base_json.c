/* The reader of JSON: what RFC 8259 and Python's json say, and what the rules refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "support/fault_host.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static cr_host host;
static cr_arena arena;
static const cr_json_rules usual = { .max_bytes = 1 << 20, .max_values = 1 << 16, .max_depth = 32 };

static int make_arena(void **state)
{
    (void)state;
    cr_arena_init(&arena, &host, CR_MEM_OBJECT);
    return cr_host_set(&host, NULL, NULL) == CERA_OK ? 0 : -1;
}

static int drop_arena(void **state)
{
    (void)state;
    cr_arena_done(&arena);
    return cr_host_live(&host) == 0 ? 0 : -1;
}

static const cr_json *parse(const char *text, const cr_json_rules *rules)
{
    cera_error err;
    const cr_json *tree;
    if (cr_json_parse(cr_str_from(text), "t", rules, &arena, &tree, &err) != CERA_OK)
        fail_msg("%s: %s", text, err.message);
    return tree;
}

static void values_are_what_they_say(void **state)
{
    (void)state;
    const cr_json *t = parse(" { \"a\" : [1, -2.5e1, \"x\\u00e9\\ud83d\\ude42\\n\"], \"b\":{}, "
                             "\"\":null,\t\"c\" :true , \"d\": false } ",
                             &usual);
    assert_true(cr_json_is(t, CR_JSON_OBJECT) && t->n == 5);
    const cr_json *a = cr_json_get(t, "a");
    assert_int_equal(cr_json_count(a, CR_JSON_ARRAY), 3);
    int64_t i = 0;
    double d = 0;
    uint32_t u = 7;
    float f = 0;
    assert_true(cr_json_i64(cr_json_at(a, 0), &i) && i == 1);
    assert_true(cr_json_f64(cr_json_at(a, 1), &d) && d == -25.0);
    assert_true(cr_json_f32(cr_json_at(a, 1), &f) && f == -25.0f);
    assert_false(cr_json_i64(cr_json_at(a, 1), &i) || cr_json_u32(cr_json_at(a, 1), &u));
    assert_true(u == 7 && cr_str_is(cr_json_at(a, 1)->text, "-2.5e1"));
    assert_true(cr_str_is(cr_json_str(cr_json_at(a, 2)), "x\xc3\xa9\xf0\x9f\x99\x82\n"));
    assert_null(cr_json_at(a, 3));
    assert_true(cr_json_is(cr_json_get(t, ""), CR_JSON_NULL));
    assert_true(cr_json_bool(cr_json_get(t, "c"), false) &&
                !cr_json_bool(cr_json_get(t, "d"), true));
    assert_true(cr_json_bool(cr_json_get(t, "e"), true) && cr_json_get(a, "a") == NULL);
    assert_true(cr_json_u32(parse("4294967295.0", &usual), &u) && u == UINT32_MAX);
    assert_false(cr_json_u32(parse("4294967296", &usual), &u));
    assert_false(cr_json_f32(parse("1e39", &usual), &f));
    assert_true(cr_json_str(NULL).size == 0 && cr_json_get(NULL, "a") == NULL);
    /* A string without an escape is not copied. */
    const char *text = "[\"plain\"]";
    assert_ptr_equal(cr_json_at(parse(text, &usual), 0)->text.data, text + 2);
}

static void wrong_texts_are_refused_with_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        { "", "t: line 1, column 1: expected a value" },
        { "[1,\n 2,]", "t: line 2, column 4, at /2: expected a value" },
        { "{\"a\": {\"x/y~\": [0, tru]}}", "line 1, column 20, at /a/x~1y~0/1: expected a value" },
        { "{\"a\" 1}", "column 6, at /a: expected a :" },
        { "{\"a\":1 \"b\":2}", "column 8, at /a: expected a , or }" },
        { "[1 2]", "column 4, at /0: expected a , or ]" },
        { "{\"a\":1,}", "column 8: expected a string" },
        { "{1:2}", "expected a string" },
        { "[1] 2", "column 5: expected the end" },
        { "01", "expected a value" },
        { "1.", "expected a value" },
        { "1e", "expected a value" },
        { "+1", "expected a value" },
        { ".5", "expected a value" },
        { "-", "expected a value" },
        { "NaN", "expected a value" },
        { "-Infinity", "expected a value" },
        { "\"\n\"", "UTF-8 without control" },
        { "\"\xff\"", "UTF-8" },
        { "\"\xc0\x80\"", "UTF-8" },
        { "\"abc", "up to a \"" },
        { "\"\\", "an escape" },
        { "\"\\x\"", "an escape" },
        { "\"\\u12\"", "four hexadecimal" },
        { "\"\\ud800\"", "surrogates" },
        { "\"\\ud800\\u0041\"", "surrogates" },
        { "\"\\udc00\"", "surrogates" },
        { "\xef\xbb\xbf{}", "expected a value" },
        { "[", "expected a value" },
        { "[1", "a , or ]" },
        { "{\"a\":1,\"b\":2,\"a\":3}", "column 14, at /a: expected each key once" },
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        const cr_json *tree;
        cera_error err = { .status = CERA_OK };
        if (cr_json_parse(cr_str_from(cases[i].text), "t", &usual, &arena, &tree, &err) !=
                CERA_E_FORMAT ||
            strstr(err.message, cases[i].why) == NULL)
            fail_msg("%s: %s", cases[i].text, err.message);
    }
}

static void rules_are_kept(void **state)
{
    (void)state;
    cera_error err;
    const cr_json *t;
    cr_json_rules rules = { .max_bytes = 100, .max_values = 100, .max_depth = 3 };
    assert_int_equal(cr_json_parse(cr_str_from("[[[]]]"), "t", &rules, &arena, &t, &err), CERA_OK);
    assert_int_equal(cr_json_parse(cr_str_from("[[[[]]]]"), "t", &rules, &arena, &t, &err),
                     CERA_E_LIMIT);
    assert_non_null(strstr(err.message, "at most 3 levels"));
    rules.max_values = 3;
    parse("[1,2]", &rules);
    assert_int_equal(cr_json_parse(cr_str_from("[1,2,3]"), "t", &rules, &arena, &t, &err),
                     CERA_E_LIMIT);
    assert_non_null(strstr(err.message, "at most 3 values"));
    rules.max_bytes = 4;
    assert_int_equal(cr_json_parse(cr_str_from("[1,2]"), "t", &rules, &arena, &t, &err),
                     CERA_E_LIMIT);
    cr_json_rules python = usual;
    python.allow_constants = python.allow_repeats = true;
    double d[3];
    t = parse("[NaN, Infinity, -Infinity]", &python);
    for (size_t i = 0; i < 3; i++)
        assert_true(cr_json_f64(cr_json_at(t, i), &d[i]));
    assert_true(isnan(d[0]) && d[1] == HUGE_VAL && d[2] == -HUGE_VAL);
    t = parse("{\"a\":1,\"a\":2}", &python);
    assert_true(t->n == 2 && cr_str_is(cr_json_get(t, "a")->text, "1"));
}

/* Objects of every size around where names begin to be hashed. */
static void members_are_found_in_objects_of_any_size(void **state)
{
    (void)state;
    static char text[1 << 16];
    for (int n = 1; n < 600; n += n < 40 ? 1 : 97) {
        int at = snprintf(text, sizeof text, "{");
        for (int i = 0; i < n; i++)
            at += snprintf(text + at, sizeof text - (size_t)at, "%s\"k\\u0061%d\":%d",
                           i > 0 ? "," : "", i * 7, i);
        snprintf(text + at, sizeof text - (size_t)at, "}");
        const cr_json *t = parse(text, &usual);
        for (int i = 0; i < n; i++) {
            char key[16];
            int64_t value = -1;
            snprintf(key, sizeof key, "ka%d", i * 7);
            assert_true(cr_json_i64(cr_json_get(t, key), &value) && value == i);
        }
        assert_null(cr_json_get(t, "ka1"));
        /* The last name again: refused, whatever the size. */
        snprintf(text + at, sizeof text - (size_t)at, ",\"ka%d\":0}", (n - 1) * 7);
        const cr_json *tree;
        assert_int_equal(cr_json_parse(cr_str_from(text), "t", &usual, &arena, &tree, NULL),
                         CERA_E_FORMAT);
    }
}

static void equality_is_that_of_values(void **state)
{
    (void)state;
    assert_true(cr_json_equal(parse("{\"a\":[1,\"x\"],\"b\":null}", &usual),
                              parse("{\"b\":null,\"a\":[1,\"\\u0078\"]}", &usual)));
    assert_false(cr_json_equal(parse("[1,2]", &usual), parse("[2,1]", &usual)));
    assert_false(cr_json_equal(parse("1", &usual), parse("1.0", &usual)));
    assert_false(cr_json_equal(parse("{\"a\":1}", &usual), parse("{\"b\":1}", &usual)));
}

static void pointers_are_cut_at_the_front(void **state)
{
    (void)state;
    const cr_json *t = parse("{\"long\":[0,{\"b\":1}]}", &usual);
    const cr_json *b = cr_json_get(cr_json_at(cr_json_get(t, "long"), 1), "b");
    char out[16];
    cr_json_pointer(NULL, b, out, sizeof out);
    assert_string_equal(out, "/long/1/b");
    cr_json_pointer(NULL, b, out, 9);
    assert_string_equal(out, "/.../1/b");
    cr_json_pointer(cr_json_get(t, "long"), b, out, sizeof out);
    assert_string_equal(out, "/1/b");
    cr_json_pointer(b, b, out, sizeof out);
    assert_string_equal(out, "");
    cr_json_pointer(NULL, t, out, 5);
    assert_string_equal(out, "");
}

static void failing_allocations_leak_nothing(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\":[1,2,\"\\n\"],\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,"
        "\"h\":1,\"i\":1,\"j\":1,\"k\":1,\"l\":1,\"m\":1,\"n\":1,\"o\":1,"
        "\"p\":1,\"q\":1,\"r\":1}";
    for (size_t i = 1;; i++) {
        fault_host f;
        fault_init(&f);
        fault_allocs(&f, i, FAULT_ONCE);
        cr_host h;
        cr_arena a;
        const cr_json *tree;
        assert_int_equal(cr_host_set(&h, &f.host, NULL), CERA_OK);
        cr_arena_init(&a, &h, CR_MEM_OBJECT);
        cera_status status = cr_json_parse(cr_str_from(text), "t", &usual, &a, &tree, NULL);
        cr_arena_done(&a);
        assert_null(fault_check(&f));
        bool reached = fault_hits(&f) > 0;
        fault_done(&f);
        assert_int_equal(status, reached ? CERA_E_NOMEM : CERA_OK);
        if (!reached)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_are_what_they_say, make_arena, drop_arena),
        cmocka_unit_test_setup_teardown(wrong_texts_are_refused_with_their_place, make_arena,
                                        drop_arena),
        cmocka_unit_test_setup_teardown(rules_are_kept, make_arena, drop_arena),
        cmocka_unit_test_setup_teardown(members_are_found_in_objects_of_any_size, make_arena,
                                        drop_arena),
        cmocka_unit_test_setup_teardown(equality_is_that_of_values, make_arena, drop_arena),
        cmocka_unit_test_setup_teardown(pointers_are_cut_at_the_front, make_arena, drop_arena),
        cmocka_unit_test(failing_allocations_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

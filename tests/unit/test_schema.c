/* JSON Schema: texts that grammars of schemas accept and refuse, held to the Python package jsonschema
 * (scripts/make-golden-schema writes tests/data/schema_cases.json), and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cera.h"
#include "support/fault_host.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *data;
static char last_log[1024];
static int n_logs;

static void keep_log(void *ctx, int level, const char *text)
{
    (void)ctx;
    if (level != 0)
        return;
    snprintf(last_log, sizeof last_log, "%s", text);
    n_logs++;
}

static int read_data(void **state)
{
    (void)state;
    data = json_load_file(CERA_TEST_DATA "/schema_cases.json", JSON_ALLOW_NUL, NULL);
    return data == NULL;
}

static int drop_data(void **state)
{
    (void)state;
    json_decref(data);
    return 0;
}

static cera_status compile(const char *schema, bool lenient, bool any_order, cera_grammar **out,
                           cera_error *err)
{
    cera_host host;
    cera_host_init(&host);
    host.log = keep_log;
    cera_grammar_options options;
    cera_grammar_options_init(&options);
    options.host = &host;
    options.lenient = lenient;
    options.any_order = any_order;
    n_logs = 0;
    return cera_grammar_from_schema(schema, strlen(schema), NULL, &options, out, err);
}

static bool accepts(cera_grammar_state *s, const char *text)
{
    assert_int_equal(cera_grammar_state_reset(s, NULL), CERA_OK);
    return cera_grammar_state_read_text(s, text, strlen(text), NULL) == CERA_OK &&
           cera_grammar_state_is_complete(s);
}

/* With the order of the schema, and in any order, which must accept all the same texts. */
static void accepts_what_the_schema_says(void **state)
{
    (void)state;
    size_t i, n_schemas = 0, n_texts = 0, n_failed = 0;
    json_t *entry;
    json_array_foreach (json_object_get(data, "cases"), i, entry) {
        char *schema =
            json_dumps(json_array_get(entry, 0), JSON_PRESERVE_ORDER | JSON_COMPACT |
                                                     JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        for (int any_order = 0; any_order < 2; any_order++) {
            cera_grammar *g;
            cera_error err = { 0 };
            if (compile(schema, false, any_order, &g, &err) != CERA_OK) {
                print_error("%s\n    %s\n", schema, err.message);
                n_failed++;
                continue;
            }
            assert_int_equal(n_logs, 0);
            cera_grammar_state *s;
            assert_int_equal(cera_grammar_state_new(g, &s, NULL), CERA_OK);
            n_schemas++;
            for (size_t k = 1; k < 4; k++) {
                size_t j;
                json_t *text;
                json_array_foreach (json_array_get(entry, k), j, text) {
                    if (any_order && k == 3)
                        continue; /* some of these are left out because of their order */
                    n_texts++;
                    if (accepts(s, json_string_value(text)) == (k == 1))
                        continue;
                    print_error("%s%s\n    should %s %s\n", schema, any_order ? " (any order)" : "",
                                k == 1 ? "accept" : "refuse", json_string_value(text));
                    n_failed++;
                }
            }
            cera_grammar_state_free(s);
            cera_grammar_free(g);
        }
        free(schema);
    }
    printf("%zu schemas, %zu texts\n", n_schemas, n_texts);
    assert_int_equal(n_failed, 0);
    assert_true(json_array_size(json_object_get(data, "cases")) >= 400);
}

static void refuses_what_it_cannot_say(void **state)
{
    (void)state;
    size_t i, n_failed = 0;
    json_t *entry;
    json_array_foreach (json_object_get(data, "errors"), i, entry) {
        const char *schema = json_string_value(json_array_get(entry, 0));
        const char *why = json_string_value(json_array_get(entry, 1));
        cera_grammar *g = NULL;
        cera_error err = { 0 };
        cera_status status = compile(schema, false, false, &g, &err);
        if (status == CERA_OK || strstr(err.message, why) == NULL) {
            print_error("%s\n    expected \"%s\", found \"%s\"\n", schema, why, err.message);
            n_failed++;
        }
        cera_grammar_free(g);
    }
    assert_int_equal(n_failed, 0);
}

/* Lenient goes on, and says what it leaves out. */
static void lenient_warns(void **state)
{
    (void)state;
    static const char *const schemas[][2] = {
        { "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"uniqueItems\":true}",
          "#/uniqueItems" },
        { "{\"type\":\"string\",\"pattern\":\"(?=a)b\"}", "#/pattern" },
        { "{\"type\":\"string\",\"format\":\"regex\"}", "#/format" },
        { "{\"type\":\"integer\",\"not\":{\"multipleOf\":3}}", "#/not/multipleOf" },
        { "{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":3}]}", "#/oneOf" },
        { "{\"type\":\"object\",\"something\":1}", "#/something" },
        { "{\"type\":\"string\",\"pattern\":\"a.{15}b\"}", "#/pattern" },
        { "{\"type\":\"object\",\"patternProperties\":{\"(?=a)b\":true}}",
          "#/patternProperties/(?=a)b" },
        { "{\"$ref\":\"http://x\"}", "#/$ref" },
        { "{\"not\":{\"$ref\":\"http://x\"}}", "#/not/$ref" },
        { "{\"type\":\"array\",\"minItems\":1000001}", "#/minItems" },
        { "{\"type\":\"number\",\"maximum\":-123456,\"multipleOf\":1024}", "#/multipleOf" },
        { "{\"type\":\"integer\",\"multipleOf\":300,\"minimum\":-123456789012345}",
          "#/multipleOf" },
        { "{\"type\":\"integer\",\"minimum\":12345678901234567890}", "#/minimum" },
        { "{\"type\":\"number\",\"minimum\":0.12345678901234567}", "#/minimum" },
    };
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        cera_grammar *g;
        cera_error err;
        if (compile(schemas[i][0], true, false, &g, &err) != CERA_OK)
            fail_msg("%s: %s", schemas[i][0], err.message);
        assert_true(n_logs >= 1);
        assert_non_null(strstr(last_log, schemas[i][1]));
        assert_non_null(strstr(last_log, "not enforced"));
        cera_grammar_free(g);
    }
}

static void properties_come_in_any_order(void **state)
{
    (void)state;
    cera_grammar *g;
    cera_grammar_state *s;
    const char *schema = "{\"type\":\"object\",\"properties\":{\"limit\":{\"type\":\"number\"},"
                         "\"page\":{\"type\":\"number\"},\"q\":{}},\"required\":[\"q\"]}";
    assert_int_equal(compile(schema, false, true, &g, NULL), CERA_OK);
    assert_int_equal(cera_grammar_state_new(g, &s, NULL), CERA_OK);
    assert_true(accepts(s, "{\"page\":0,\"limit\":1,\"q\":2}"));
    assert_true(accepts(s, "{\"q\":2,\"page\":0}"));
    assert_false(accepts(s, "{\"page\":0,\"limit\":1}"));
    assert_false(accepts(s, "{\"q\":0,\"q\":1}"));
    cera_grammar_state_free(s);
    cera_grammar_free(g);

    /* In order, a comma is not offered where no property can follow. */
    assert_int_equal(compile(schema, false, false, &g, NULL), CERA_OK);
    assert_int_equal(cera_grammar_state_new(g, &s, NULL), CERA_OK);
    assert_false(accepts(s, "{\"q\":2,\"page\":0}"));
    assert_int_equal(cera_grammar_state_reset(s, NULL), CERA_OK);
    assert_int_equal(cera_grammar_state_read_text(s, "{\"q\":null", 9, NULL), CERA_OK);
    assert_int_equal(cera_grammar_state_read_text(s, ",", 1, NULL), CERA_E_ARG);
    cera_grammar_state_free(s);
    cera_grammar_free(g);
}

/* What stands for a value in front of </p>: a text as it is where the schema itself says string,
 * elsewhere JSON without <, or a text that cannot be taken for a value. */
static void values_in_front_of_a_tag(void **state)
{
    (void)state;
#define S "{\"type\": \"string\"}"
#define N "{\"type\": [\"string\", \"null\"]}"
    static const struct {
        const char *schema, *text;
        bool good;
    } cases[] = {
        { S, "", true },
        { S, "12", true },
        { S, "\"a\"", true },
        { S, "a < b\n</q> </p", true },
        { S, "a </p> b", false },
        { S, "</p>", false },
        { N, "null", true }, /* the value */
        { N, "nil", true },
        { N, "nullx", true },
        { N, "\"null\"", true },
        { N, " null", false },
        { N, "None", false },
        { N, "Nonesuch", true },
        { N, "12", false },
        { N, "\"12\"", true },
        { N, "-x", false },
        { N, "\"a < b\"", false },
        { N, "\"a \\u003c b\"", true },
        { N, "a < b", true },
        { N, "[]", false },
        { N, "'a'", false },
        { N, "", true },
        { "{\"type\": \"string\", \"enum\": [\"1\", \"</p>\", \"<\"]}", "1", true },
        { "{\"type\": \"string\", \"enum\": [\"1\", \"</p>\", \"<\"]}", "\"1\"", false },
        { "{\"type\": \"string\", \"enum\": [\"1\", \"</p>\", \"<\"]}", "</p>", false },
        { "{\"type\": \"string\", \"enum\": [\"1\", \"</p>\", \"<\"]}", "<", true },
        { "{\"enum\": [\"1\", \"x\", 2]}", "1", false },
        { "{\"enum\": [\"1\", \"x\", 2]}", "\"1\"", true },
        { "{\"enum\": [\"1\", \"x\", 2]}", "x", true },
        { "{\"enum\": [\"1\", \"x\", 2]}", "2", true },
        { "{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}", "1<", true },
        { "{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}", "1", false },
        { "{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}", "\xc3\xa9\xc3\xa9\xc3\xa9",
          true },
        { "{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}", "1234", false },
        { "{\"type\": \"string\", \"maxLength\": 9000}", "a > b", true },
        { "{\"type\": \"string\", \"maxLength\": 9000}", "a < b", false },
        { "{\"type\": \"string\", \"pattern\": \"^[0-9]+$\"}", "12", true },
        { "{\"type\": \"string\", \"pattern\": \"^[0-9]+$\"}", "1a", false },
        { "{\"anyOf\": [" S ", {\"type\": \"integer\"}]}", "12", true },
        { "{\"anyOf\": [" S ", {\"type\": \"integer\"}]}", "a12", true },
        { "{\"anyOf\": [" S ", {\"type\": \"integer\"}]}", "1.5", false },
        { "{\"type\": \"object\", \"properties\": {\"<\": " S "}}", "{\"\\u003c\":\"x\"}", true },
        { "{\"type\": \"object\", \"properties\": {\"<\": " S "}}", "{\"<\":\"x\"}", false },
        { "{\"type\": \"boolean\"}", "true", true },
        { "{\"type\": \"boolean\"}", "True", false },
        { "{}", "any text", true },
        { "{}", "{\"a\":[1, \"x\"]}", true },
        { "{}", "{x", false },
    };
#undef S
#undef N
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cera_grammar_options options;
        cera_grammar_options_init(&options);
        options.end_tag = "</p>";
        cera_grammar *g;
        cera_grammar_state *s;
        cera_error err;
        const char *schema = cases[i].schema;
        if (cera_grammar_from_schema(schema, strlen(schema), NULL, &options, &g, &err) != CERA_OK)
            fail_msg("%s: %s", schema, err.message);
        assert_int_equal(cera_grammar_state_new(g, &s, NULL), CERA_OK);
        if (accepts(s, cases[i].text) != cases[i].good)
            fail_msg("%s: %s", schema, cases[i].text);
        cera_grammar_state_free(s);
        cera_grammar_free(g);
    }
    static const char *const bad[] = {
        "", "x", "p>", "<aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa>"
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cera_grammar_options options;
        cera_grammar_options_init(&options);
        options.end_tag = bad[i];
        cera_grammar *g;
        assert_int_equal(cera_grammar_from_schema("{}", 2, NULL, &options, &g, NULL), CERA_E_ARG);
    }
}

/* Python's expressions, which judge the cases, have no \\cX. */
static void patterns_name_control_characters(void **state)
{
    (void)state;
    cera_grammar *g;
    cera_grammar_state *s;
    assert_int_equal(
        compile("{\"type\":\"string\",\"pattern\":\"^a\\\\cJ[\\\\ci]$\"}", false, false, &g, NULL),
        CERA_OK);
    assert_int_equal(cera_grammar_state_new(g, &s, NULL), CERA_OK);
    assert_true(accepts(s, "\"a\\n\\t\""));
    assert_false(accepts(s, "\"a\\t\\t\""));
    assert_false(accepts(s, "\"acJi\""));
    cera_grammar_state_free(s);
    cera_grammar_free(g);
}

static void deep_schemas_are_refused(void **state)
{
    (void)state;
    static char text[300000];
    size_t n = 0;
    for (int i = 0; i < 10000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "{\"items\":");
    text[n] = '\0';
    cera_grammar *g;
    cera_error err;
    assert_int_equal(compile(text, false, false, &g, &err), CERA_E_LIMIT);
    assert_non_null(strstr(err.message, "levels"));
    /* A chain of references, each deeper by one. */
    n = (size_t)snprintf(text, sizeof text, "{\"$ref\":\"#/$defs/a0\",\"$defs\":{");
    for (int i = 0; i < 3000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "\"a%d\":{\"items\":{\"$ref\":\"#/$defs/a%d\"}},", i, i + 1);
    snprintf(text + n, sizeof text - n, "\"a3000\":{}}}");
    assert_int_equal(compile(text, false, false, &g, &err), CERA_E_LIMIT);
    assert_non_null(strstr(err.message, "nested schemas"));
}

/* More than are read side by side: they share their beginnings. */
static void long_lists_work(void **state)
{
    (void)state;
    static char text[200000];
    size_t n = (size_t)snprintf(text, sizeof text, "{\"enum\":[\"\",\"\u00e9\",\"\u00e8\"");
    for (int i = 0; i < 5000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, ",\"v\\n%d\",%d", i, -i);
    snprintf(text + n, sizeof text - n, ",null,[1]]}");
    cera_grammar *g;
    cera_grammar_state *s;
    cera_error err = { 0 };
    if (compile(text, false, false, &g, &err) != CERA_OK)
        fail_msg("%s", err.message);
    assert_int_equal(cera_grammar_state_new(g, &s, NULL), CERA_OK);
    static const char *const good[] = { "\"\"",       "\"v\\n0\"", "\"v\\n4999\"", "\"v\\n499\"",
                                        "\"\u00e9\"", "0",         "-7",           "-4999",
                                        "null",       "[1]" };
    static const char *const bad[] = { "\"v\"", "\"v\\n\"", "\"v\\n5000\"", "\"v\\n01\"", "-5000",
                                       "-",     "7",        "\"\u00ea\"" };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (!accepts(s, good[i]))
            fail_msg("refuses %s", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (accepts(s, bad[i]))
            fail_msg("accepts %s", bad[i]);
    }
    cera_grammar_state_free(s);
    cera_grammar_free(g);

    /* What would not work later is refused. */
    n = (size_t)snprintf(text, sizeof text, "{\"items\":{\"enum\":[[0]");
    for (int i = 1; i < 5000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, ",[%d]", i);
    snprintf(text + n, sizeof text - n, "]}}");
    assert_int_equal(compile(text, false, false, &g, &err), CERA_E_LIMIT);
    assert_non_null(strstr(err.message, "#/items/enum: expected at most 1024"));
}

/* Few bytes that multiply are refused by name before they take memory: no more than a limit here. */
static size_t used, most_used;

static void *count_resize(void *ctx, void *ptr, size_t old_size, size_t size, size_t align)
{
    (void)ctx;
    used += size - old_size;
    most_used = used > most_used ? used : most_used;
    void *new = aligned_alloc(align, (size + align - 1) / align * align);
    if (new &&ptr)
        memcpy(new, ptr, old_size < size ? old_size : size);
    free(new ? ptr : NULL);
    return new;
}

static void *count_alloc(void *ctx, size_t size, size_t align)
{
    return count_resize(ctx, NULL, 0, size, align);
}

static void count_free(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    used -= size;
    free(ptr);
}

static void what_multiplies_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *before, *each, *behind;
        int n;
        const char *place; /* NULL: it works */
    } cases[] = {
        { "\"allOf\":[", "{\"anyOf\":[{\"minimum\":%d},{\"maximum\":-%d},{\"multipleOf\":2}]}",
          "],\"type\":\"integer\",\"minimum\":-50,\"maximum\":50", 11, "/anyOf" },
        { "\"oneOf\":[", "{\"type\":\"string\",\"pattern\":\"^a%d[a-z]{1,40}x\"}", "]", 60,
          "#/oneOf" },
        { "\"not\":{\"enum\":[", "%d", "]}", 900, "#/not/enum" },
        { "\"allOf\":[", "{\"anyOf\":[{\"minLength\":%d},{\"pattern\":\"a{%d}\"}]}",
          "],\"type\":\"string\",\"maxLength\":40", 10, "/anyOf" },
        { "\"allOf\":[",
          "{\"if\":{\"properties\":{\"a%d\":{\"const\":1}},\"required\":[\"a%d\"]},\"then\":"
          "{\"required\":[\"b\"]}}",
          "],\"type\":\"object\"", 6, NULL },
        { "\"dependentRequired\":{", "\"a%d\":[\"b%d\"]", "},\"type\":\"object\"", 14,
          "#/dependentRequired" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[4096];
        size_t n = (size_t)snprintf(text, sizeof text, "{%s", cases[i].before);
        for (int k = 1; k <= cases[i].n; k++) {
            char each[256];
            snprintf(each, sizeof each, cases[i].each, k, k);
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", k > 1 ? "," : "", each);
        }
        n += (size_t)snprintf(text + n, sizeof text - n, "%s}", cases[i].behind);
        cera_grammar_options options;
        cera_grammar_options_init(&options);
        cera_host host;
        cera_host_init(&host);
        host.allocator = (cera_allocator){ count_alloc, count_resize, count_free, NULL };
        options.host = &host;
        used = most_used = 0;
        cera_grammar *g = NULL;
        cera_error err = { 0 };
        cera_status status = cera_grammar_from_schema(text, n, NULL, &options, &g, &err);
        assert_int_equal(status, cases[i].place ? CERA_E_LIMIT : CERA_OK);
        if (cases[i].place)
            assert_non_null(strstr(err.message, cases[i].place));
        cera_grammar_free(g);
        assert_int_equal(used, 0);
        assert_true(most_used > 0 && most_used < 100u << 20);
    }
}

static void fails_without_memory(void **state)
{
    (void)state;
    const char *schema =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^a+$\","
        "\"maxLength\":4},\"b\":{\"type\":\"integer\",\"minimum\":3,\"multipleOf\":2},\"c\":{\"anyOf\":"
        "[{\"const\":1},{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}]}},"
        "\"patternProperties\":{\"^x\":true},\"additionalProperties\":{\"type\":\"null\"},"
        "\"not\":{\"properties\":{\"a\":{\"const\":\"aa\"},\"b\":{\"minimum\":9}}},"
        "\"dependentRequired\":{\"c\":[\"a\"]}}";
    for (size_t i = 1;; i++) {
        fault_host f;
        fault_init(&f);
        cera_grammar_options options;
        cera_grammar_options_init(&options);
        options.host = &f.host;
        fault_allocs(&f, i, FAULT_ONCE);
        cera_grammar *g = NULL;
        cera_grammar_state *s = NULL;
        cera_error err = { 0 };
        cera_status status =
            cera_grammar_from_schema(schema, strlen(schema), NULL, &options, &g, &err);
        if (status == CERA_OK)
            status = cera_grammar_state_new(g, &s, &err);
        cera_grammar_state_free(s);
        cera_grammar_free(g);
        const char *misuse = fault_check(&f);
        if (misuse != NULL)
            fail_msg("allocation %zu: %s", i, misuse);
        bool reached = fault_hits(&f) > 0;
        fault_done(&f);
        if (!reached) {
            assert_int_equal(status, CERA_OK);
            break;
        }
        if (status != CERA_E_NOMEM)
            fail_msg("allocation %zu: %s", i, err.message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_what_the_schema_says),
        cmocka_unit_test(refuses_what_it_cannot_say),
        cmocka_unit_test(lenient_warns),
        cmocka_unit_test(properties_come_in_any_order),
        cmocka_unit_test(values_in_front_of_a_tag),
        cmocka_unit_test(patterns_name_control_characters),
        cmocka_unit_test(deep_schemas_are_refused),
        cmocka_unit_test(long_lists_work),
        cmocka_unit_test(what_multiplies_is_refused),
        cmocka_unit_test(fails_without_memory),
    };
    return cmocka_run_group_tests(tests, read_data, drop_data);
}

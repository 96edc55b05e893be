/* Replies taken apart: every format's calls, reasoning, what only looks like a call, values of all
 * kinds, and that neither the cut of the text nor failing memory changes anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fault_host.h"

#include "base/compiler.h"
#include "cera.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOOLS                                                                                      \
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": "        \
    "\"object\", \"properties\": {\"s\": {\"type\": \"string\"}, \"n\": {\"type\": "               \
    "\"integer\"}}}}}, {\"name\": \"g\", \"description\": \"a \\\"b\\\" [1, {2: ]\"}]"

/* ---- what came out, as one text: neighbours of a kind joined -------------------------------- */

typedef struct record {
    char text[1 << 14];
    size_t n;
    char kind;      /* of the part that is open: C, R or A */
    int stop_after; /* events, then the sink says stop; 0: never */
    int n_events;
    char arguments[1 << 13]; /* of the present call */
    size_t n_arguments;
} record;

static void add(record *r, const char *text, size_t n)
{
    assert_true(r->n + n < sizeof r->text);
    memcpy(r->text + r->n, text, n);
    r->n += n;
    r->text[r->n] = '\0';
}

static int part(record *r, char kind, const char *text, size_t n)
{
    const char head[] = { kind, '[' };
    assert_true(n > 0);
    if (r->kind == kind)
        r->n--; /* its ] */
    else
        add(r, head, 2);
    r->kind = kind;
    add(r, text, n);
    add(r, "]", 1);
    return r->stop_after > 0 && ++r->n_events == r->stop_after;
}

static int on_content(void *user, const char *text, size_t n)
{
    return part(user, 'C', text, n);
}

static int on_reasoning(void *user, const char *text, size_t n)
{
    return part(user, 'R', text, n);
}

static int on_call(void *user, int call, const char *name, size_t n)
{
    record *r = user;
    char head[16];
    snprintf(head, sizeof head, "%d:", call);
    add(r, head, strlen(head));
    add(r, name, n);
    r->kind = 0;
    r->n_arguments = 0;
    return r->stop_after > 0 && ++r->n_events == r->stop_after;
}

static int on_arguments(void *user, int call, const char *json, size_t n)
{
    record *r = user;
    (void)call;
    assert_true(r->n_arguments + n < sizeof r->arguments);
    memcpy(r->arguments + r->n_arguments, json, n);
    r->n_arguments += n;
    return part(r, 'A', json, n);
}

static int on_call_end(void *user, int call)
{
    record *r = user;
    (void)call;
    json_error_t error;
    json_t *root = json_loadb(r->arguments, r->n_arguments, JSON_ALLOW_NUL, &error);
    if (!json_is_object(root))
        fail_msg("not an object: %.*s", (int)r->n_arguments, r->arguments);
    json_decref(root);
    add(r, ";", 1);
    r->kind = 0;
    return r->stop_after > 0 && ++r->n_events == r->stop_after;
}

static int on_error(void *user, const cera_chat_error *error)
{
    record *r = user;
    char head[32];
    assert_true(strlen(error->message) > 0);
    snprintf(head, sizeof head, "!%d", error->call);
    add(r, head, strlen(head));
    r->kind = 0;
    part(r, 'X', error->text, error->n_text);
    r->kind = 0;
    return r->stop_after > 0 && r->n_events == r->stop_after;
}

static cera_chat_sink sink_of(record *r)
{
    return (cera_chat_sink){ on_content,  on_reasoning, on_call, on_arguments,
                             on_call_end, on_error,     r };
}

static cera_chat_parser *open_parser(const char *format, const char *tools, const char *prompt,
                                     const cera_chat_sink *sink)
{
    cera_chat_parser_options options;
    cera_chat_parser_options_init(&options);
    options.format = format;
    options.tools = tools;
    options.prompt = prompt;
    options.n_prompt = prompt != NULL ? strlen(prompt) : 0;
    cera_chat_parser *parser = NULL;
    cera_error err;
    if (cera_chat_parser_new(&options, sink, &parser, &err) != CERA_OK)
        fail_msg("%s", err.message);
    return parser;
}

/* In pieces of `step` bytes, or of random sizes for 0. */
static void push_all(cera_chat_parser *parser, const char *text, size_t n, size_t step)
{
    for (size_t i = 0; i < n;) {
        size_t size = step > 0 ? step : 1 + (size_t)rand() % 9;
        size = size < n - i ? size : n - i;
        assert_int_equal(cera_chat_parser_push(parser, text + i, size, NULL), CERA_OK);
        i += size;
    }
    assert_int_equal(cera_chat_parser_finish(parser, NULL), CERA_OK);
}

static void check_with(const char *format, const char *tools, const char *prompt, const char *text,
                       const char *expected)
{
    record *r = calloc(1, sizeof *r);
    const cera_chat_sink sink = sink_of(r);
    cera_chat_parser *parser = open_parser(format, tools, prompt, &sink);
    /* Whole, byte by byte, in twos and threes, and cut anywhere; the parser is used again. */
    for (size_t step = 0; step < 12; step++) {
        *r = (record){ 0 };
        push_all(parser, text, strlen(text), step == 4 ? strlen(text) + 1 : step > 4 ? 0 : step);
        if (strcmp(r->text, expected) != 0)
            fail_msg("%s (pieces %zu):\n%s\nexpected\n%s\nfound\n%s", format, step, text, expected,
                     r->text);
    }
    cera_chat_parser_free(parser);
    free(r);
}

static void check(const char *format, const char *text, const char *expected)
{
    check_with(format, NULL, NULL, text, expected);
}

/* One argument in Python, in the value of f(a=...). */
static void check_value(const char *value, const char *json)
{
    char text[1024], expected[1024];
    snprintf(text, sizeof text, "<|tool_call_start|>[f(a=%s)]<|tool_call_end|>", value);
    snprintf(expected, sizeof expected, "0:fA[{\"a\": %s}];", json);
    check("lfm2", text, expected);
    snprintf(text, sizeof text,
             "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": %s}}</tool_call>", value);
    check("hermes", text, expected);
}

#define START "<|tool_call_start|>"
#define END "<|tool_call_end|>"

/* ---- formats ------------------------------------------------------------------------------- */

static void test_lfm2(void **state)
{
    (void)state;
    check("lfm2", "Sure.\n" START "[f(s=\"x\", n=1)]" END "\nDone.",
          "C[Sure.]0:fA[{\"s\": \"x\", \"n\": 1}];C[Done.]");
    check("lfm2", START "[f(), g(a=[1, 2,],)]" END, "0:fA[{}];1:gA[{\"a\": [1, 2]}];");
    check("lfm2", START "f(a=1)" END, "0:fA[{\"a\": 1}];");
    check("lfm2", START "f(a=1), g()" END, "0:fA[{\"a\": 1}];1:gA[{}];");
    check("lfm2", START "[f(a=1)]" END START "[g()]" END, "0:fA[{\"a\": 1}];1:gA[{}];");
    check("lfm2", START " [ ns.f ( a = 1 , b='q' ) , ] " END "x",
          "0:ns.fA[{\"a\": 1, \"b\": \"q\"}];C[x]");
    /* The end marker may be missing, at the end and elsewhere, and the bracket with it. */
    check("lfm2", START "[f(a=1)]", "0:fA[{\"a\": 1}];");
    check("lfm2", START "[f(a=1)", "0:fA[{\"a\": 1}];");
    check("lfm2", START "[f(a=1)" END "x", "0:fA[{\"a\": 1}];C[x]");
    check("lfm2", START "[f(a=1)] and more", "0:fA[{\"a\": 1}];C[and more]");
    check("lfm2", START "[f(a=1)]<|tool_cal", "0:fA[{\"a\": 1}];C[<|tool_cal]");
    /* Asked for JSON, the model writes JSON. */
    check("lfm2", START "[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]" END, "0:fA[{\"a\": 1}];");
}

static void test_bare_list(void **state)
{
    (void)state;
    check("lfm2", "[f(a=1), g()]", "0:fA[{\"a\": 1}];1:gA[{}];");
    check("lfm2", " \n[f(a=1)]\n", "0:fA[{\"a\": 1}];");
    /* What only begins like a list of calls is text, and no error. */
    check("lfm2", "[1] see the list", "C[[1] see the list]");
    check("lfm2", "[f(x) is a function]", "C[[f(x) is a function]]");
    check("lfm2", "[f(a=1)] is how to call it", "C[[f(a=1)] is how to call it]");
    check("lfm2", "[f(a=1)", "C[[f(a=1)]");
    check("lfm2", "[]", "C[[]]");
    check("lfm2", "[", "C[[]");
    check("lfm2", "[x](y) z " START "[f()]" END, "C[[x](y) z]0:fA[{}];");
    check("lfm2", "See [f(a=1)]", "C[See [f(a=1)]]");
    check("hermes", "[f(a=1)]", "C[[f(a=1)]]");
    /* The name of a tool settles it, so that arguments stream; then it can fail, too. */
    check_with("lfm2", TOOLS, NULL, "[f(a=1)] \n", "0:fA[{\"a\": 1}];");
    check_with("lfm2", TOOLS, NULL, "[h(a=1), f(b=2)]", "0:hA[{\"a\": 1}];1:fA[{\"b\": 2}];");
    check_with("lfm2", TOOLS, NULL, "\n[f(x) or so]", "0:fA[{]!0X[\n[f(x]C[\n[f(x) or so]]");
    check_with("lfm2", TOOLS, NULL, "[f(a=1)] yes", "0:fA[{\"a\": 1}];C[yes]");
}

static void test_hermes(void **state)
{
    (void)state;
    check(
        "hermes",
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, {\"b\": null}]}}\n</tool_call>",
        "0:fA[{\"a\": [1, {\"b\": null}]}];");
    check("hermes",
          "Hi <tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>"
          "{\"arguments\":{\"x\":1.50},\"name\":\"g\"}</tool_call>",
          "C[Hi]0:fA[{}];1:gA[{\"x\": 1.50}];");
    check("hermes", "<tool_call>{\"name\": \"f\"}</tool_call>", "0:fA[{}];");
    check("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>", "0:fA[{}];");
    check("hermes", "<tool_call>{\"name\": \"f\", \"parameters\": {\"a\": 1}}",
          "0:fA[{\"a\": 1}];");
    /* Arguments as text with JSON in it, as OpenAI's API has them. */
    check("hermes",
          "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": \\\"\\u00e9\\\\n\\\"}\"}",
          "0:fA[{\"a\": \"\xc3\xa9\\n\"}];");
    check("hermes",
          "<tool_call>{\"type\": \"function\", \"id\": [1, \"}\"], \"function\": {\"name\": \"f\", "
          "\"arguments\": {\"a\": 1}}}</tool_call>.",
          "0:fA[{\"a\": 1}];C[.]");
    check("hermes", "<tool_call>{\"name\": \"f\"}\n{\"name\": \"g\"}</tool_call>",
          "0:fA[{}];1:gA[{}];");
    check("hermes", "<tool_call>{\"name\": \"f\"}\n<tool_call>{\"name\": \"g\"}",
          "0:fA[{}];1:gA[{}];");
    check("hermes", "<tool_call>[{\"name\": \"f\"}, {\"name\": \"g\"}]</tool_call>",
          "0:fA[{}];1:gA[{}];");
    check("hermes", "a <tool_cal b <tool_call", "C[a <tool_cal b <tool_call]");
    check("none", "<tool_call>{\"name\": \"f\"}</tool_call>",
          "C[<tool_call>{\"name\": \"f\"}</tool_call>]");
}

static void test_malformed(void **state)
{
    (void)state;
    check("hermes", "x <tool_call>nothing</tool_call> y",
          "C[x]!-1X[ <tool_call>nothing]C[ <tool_call>nothing</tool_call> y]");
    check("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1,, ",
          "0:fA[{\"a\": 1]!0X[<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1,]"
          "C[<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1,, ]");
    check("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": [1]}",
          "!-1X[<tool_call>{\"name\": \"f\", \"arguments\": [1]C[<tool_call>{\"name\": \"f\", "
          "\"arguments\": [1]}]");
    check("hermes", "<tool_call>{\"name\": 1}",
          "!-1X[<tool_call>{\"name\": ]C[<tool_call>{\"name\": 1}]");
    check("hermes", "<tool_call>{\"name\": \"\"}",
          "!-1X[<tool_call>{\"name\": \"]C[<tool_call>{\"name\": \"\"}]");
    check("hermes", "<tool_call>{\"arguments\": {}}",
          "!-1X[<tool_call>{\"arguments\": {}]C[<tool_call>{\"arguments\": {}}]");
    check("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {}, \"parameters\": {}}",
          "0:fA[{}]!0X[<tool_call>{\"name\": \"f\", \"arguments\": {}, \"parameters\": ]"
          "C[<tool_call>{\"name\": \"f\", \"arguments\": {}, \"parameters\": {}}]");
    /* Cut in the middle: by the length limit, say. */
    check("hermes", "<tool_call>", "!-1X[<tool_call>]C[<tool_call>]");
    check("lfm2", START "[f(a=\"long",
          "0:fA[{\"a\": \"long]!0X[" START "[f(a=\"long]C[" START "[f(a=\"long]");
    check("lfm2", "x " START "[]" END "y", "C[xy]");
    /* The calls before the fault are calls, and so is what follows it. */
    check("lfm2", START "[f(a=1), 7(x)]" END START "[g()]" END,
          "0:fA[{\"a\": 1}];C[7(x)]" END "]1:gA[{}];");
    check("lfm2", START "[f(a=1), g(7)]" END, "0:fA[{\"a\": 1}];1:gA[{]!1X[, g(]C[, g(7)]" END "]");
    check("hermes", "<tool_call>{\"name\": <tool_call>{\"name\": \"g\"}</tool_call>",
          "!-1X[<tool_call>{\"name\": ]C[<tool_call>{\"name\": ]0:gA[{}];");
    static const char *const bad[] = { "f(1)",        "f(a)",         "f(a:1)",      "f(a=)",
                                       "f(a=(1, 2))", "f(a=g())",     "f(a=inf)",    "f(a=nan)",
                                       "f(a=1e999)",  "f(a={1: 2})",  "f(a={'b'})",  "f(a=[1 2])",
                                       "f(a=01)",     "f(a='\\u12')", "f(a=\"\"\"x", "f a",
                                       "f(a=1 b=2)",  "f(a=--1)",     "f(a=1.2.3)",  "f(a={,})" };
    for (size_t i = 0; i < CR_COUNT(bad); i++) {
        record *r = calloc(1, sizeof *r);
        const cera_chat_sink sink = sink_of(r);
        cera_chat_parser *parser = open_parser("lfm2", NULL, NULL, &sink);
        char text[128], content[160];
        snprintf(text, sizeof text, START "%s" END, bad[i]);
        snprintf(content, sizeof content, "C[%s]", text);
        push_all(parser, text, strlen(text), 3);
        if (strchr(r->text, '!') == NULL || strstr(r->text, content) == NULL)
            fail_msg("%s: %s", bad[i], r->text);
        cera_chat_parser_free(parser);
        free(r);
    }
}

static void test_llama3(void **state)
{
    (void)state;
    check("llama3", "{\"name\": \"f\", \"parameters\": {\"a\": \"b\"}}", "0:fA[{\"a\": \"b\"}];");
    check("llama3", "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\"}",
          "0:fA[{}];1:gA[{}];");
    check("llama3", "{\"name\": \"f\"}\n{\"name\": \"g\"}", "0:fA[{}];1:gA[{}];");
    check("llama3", "<|python_tag|>brave_search.call(query=\"x\")",
          "0:brave_search.callA[{\"query\": \"x\"}];");
    check("llama3", "<|python_tag|>print(1)",
          "0:printA[{]!0X[<|python_tag|>print(]C[<|python_tag|>print(1)]");
    check("llama3", "{\"answer\": 42}", "C[{\"answer\": 42}]");
    check("llama3", "{\"name\": \"Bob\", \"age\": 7} is Bob",
          "C[{\"name\": \"Bob\", \"age\": 7} is Bob]");
    check("llama3", "{x} y", "C[{x} y]");
    check_with("llama3", TOOLS, NULL, "{\"name\": \"f\", \"parameters\": {\"a\": ",
               "0:fA[{\"a\": ]!0X[{\"name\": \"f\", \"parameters\": {\"a\": ]C[{\"name\": \"f\", "
               "\"parameters\": {\"a\": ]");
}

static void test_mistral_and_granite(void **state)
{
    (void)state;
    check("mistral",
          "Ok[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefghi\"}]",
          "C[Ok]0:fA[{\"a\": 1}];");
    check("mistral", "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]x1[ARGS]{}",
          "0:fA[{\"a\": 1}];1:gA[{}];");
    check("mistral", "[TOOL_CALLS]f{\"a\": 1}", "0:fA[{\"a\": 1}];");
    check("mistral", "[TOOL_CALLS]f[BAD]{}", "!-1X[[TOOL_CALLS]f[BAD]C[[TOOL_CALLS]f[BAD]{}]");
    check("mistral", "[TOOL_CALLS]f[ARGS]7", "0:f!0X[[TOOL_CALLS]f[ARGS]]C[[TOOL_CALLS]f[ARGS]7]");
    check("granite", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\"}]\nok",
          "0:fA[{}];1:gA[{}];C[ok]");
}

#define FUNCTION(name, parameters) "<function=" name ">\n" parameters "</function>\n"
#define PARAMETER(name, value) "<parameter=" name ">\n" value "\n</parameter>\n"

static void test_xml(void **state)
{
    (void)state;
    check("xml",
          "Ok.\n<tool_call>\n" FUNCTION("f",
                                        PARAMETER("s", "12") PARAMETER("n", "12")) "</tool_call>",
          "C[Ok.]0:fA[{\"s\": 12, \"n\": 12}];");
    /* The schema says what is text. */
    check_with(
        "xml", TOOLS, NULL,
        "<tool_call>\n" FUNCTION("f", PARAMETER("s", "12") PARAMETER("n", "12")) "</tool_call>",
        "0:fA[{\"s\": \"12\", \"n\": 12}];");
    check_with(
        "xml", TOOLS, NULL,
        "<tool_call>\n" FUNCTION("f", PARAMETER("s", "\n if a < b:\n  \"x\"\\\n")) "</tool_call>",
        "0:fA[{\"s\": \"\\n if a < b:\\n  \\\"x\\\"\\\\\\n\"}];");
    check(
        "xml",
        FUNCTION("f", PARAMETER("l", "[1, {\"a\": true}]") PARAMETER("t", "[1, x]")) "</tool_call>",
        "0:fA[{\"l\": [1, {\"a\": true}], \"t\": \"[1, x]\"}];");
    check("xml", "<tool_call><function=f></function></tool_call><tool_call><function=g>",
          "0:fA[{}];1:g!1X[<tool_call><function=g>]C[<tool_call><function=g>]");
    check("xml", "<function=f><parameter=e></parameter></function>", "0:fA[{\"e\": \"\"}];");
    check("xml", "<function=f>{\"a\": 1}</function>x", "0:fA[{\"a\": 1}];C[x]");
    check("xml", "<tool_call>{\"name\": \"f\"}</tool_call>", "0:fA[{}];");
    check("xml", "<function=f><x></function>",
          "0:f!0X[<function=f><x]C[<function=f><x></function>]");
    /* One of two equal cases of anyOf without quotes is the text, not the text in quotes. */
    check("xml", FUNCTION("f", PARAMETER("a", "decision")), "0:fA[{\"a\": \"decision\"}];");
}

/* ---- formats with tags around names and arguments ------------------------------------------- */

#define BAR "\xEF\xBD\x9C"
#define BLANK "\xE2\x96\x81"

static void test_glm(void **state)
{
    (void)state;
    check_with("glm", TOOLS, NULL,
               "Ok\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>12</arg_value>\n"
               "<arg_key>n</arg_key>\n<arg_value>12</arg_value>\n</tool_call>",
               "C[Ok]0:fA[{\"s\": \"12\", \"n\": 12}];");
    check("glm",
          "<tool_call>f<arg_key>l</arg_key><arg_value>[1, {\"a\": true}]</arg_value></tool_call>\n"
          "<tool_call>g\n</tool_call><tool_call>h</tool_call> end",
          "0:fA[{\"l\": [1, {\"a\": true}]}];1:gA[{}];2:hA[{}];C[end]");
    /* What stands between the tags is the text, to the byte. */
    check_with("glm", TOOLS, NULL,
               "<tool_call>f<arg_key>s</arg_key><arg_value>\n a </arg_valu <b>\n</arg_value>",
               "0:fA[{\"s\": \"\\n a </arg_valu <b>\\n\"]!0X[<tool_call>f<arg_key>s</arg_key>"
               "<arg_value>\n a </arg_valu <b>\n</arg_value>]C[<tool_call>f<arg_key>s</arg_key>"
               "<arg_value>\n a </arg_valu <b>\n</arg_value>]");
    check("glm", "<tool_call>f<arg_value>1</arg_value>",
          "!-1X[<tool_call>f<arg_value]C[<tool_call>f<arg_value>1</arg_value>]");
    check("glm",
          "<tool_call>f<arg_key>a</arg_key><arg_key>b</arg_key><arg_value>1</arg_value>"
          "</tool_call>",
          "0:fA[{\"b\": 1}];");
    check("glm", "<tool_call>f <x></tool_call>",
          "!-1X[<tool_call>f <x]C[<tool_call>f <x></tool_call>]");
    /* A name alone is a call here and nowhere else. */
    check("hermes", "<tool_call>f</tool_call>", "!-1X[<tool_call>f]C[<tool_call>f</tool_call>]");
}

#define DS_CALLS "<" BAR "tool" BLANK "calls" BLANK "begin" BAR ">"
#define DS_CALL "<" BAR "tool" BLANK "call" BLANK "begin" BAR ">"
#define DS_SEP "<" BAR "tool" BLANK "sep" BAR ">"
#define DS_END "<" BAR "tool" BLANK "call" BLANK "end" BAR ">"
#define DS_ENDS "<" BAR "tool" BLANK "calls" BLANK "end" BAR ">"

static void test_deepseek(void **state)
{
    (void)state;
    check("deepseek",
          "Ok" DS_CALLS DS_CALL "f" DS_SEP "{\"a\": 1}" DS_END DS_CALL "g" DS_SEP
          "{}" DS_END DS_ENDS "x",
          "C[Ok]0:fA[{\"a\": 1}];1:gA[{}];C[x]");
    /* The older way: a type first, the arguments in a fence. */
    check("deepseek",
          DS_CALLS DS_CALL "function" DS_SEP "f\n```json\n{\"a\": \"`\"}\n```" DS_END "\n" DS_CALL
                           "function" DS_SEP "g\n```json\n{}\n```" DS_END DS_ENDS,
          "0:fA[{\"a\": \"`\"}];1:gA[{}];");
    check("deepseek", DS_CALL "f" DS_SEP "{}", "0:fA[{}];");
    check("deepseek", DS_CALLS DS_CALL "f" DS_SEP "[1]",
          "!-1X[" DS_CALLS DS_CALL "f" DS_SEP "]C[" DS_CALLS DS_CALL "f" DS_SEP "[1]]");
    check("deepseek", DS_CALLS "f", "!-1X[" DS_CALLS "f]C[" DS_CALLS "f]");
    check("deepseek", DS_CALLS DS_CALL "f" DS_SEP "{\"a\": ",
          "0:fA[{\"a\": ]!0X[" DS_CALLS DS_CALL "f" DS_SEP "{\"a\": ]C[" DS_CALLS DS_CALL "f" DS_SEP
          "{\"a\": ]");
}

static void test_kimi(void **state)
{
    (void)state;
#define KIMI(name, arguments)                                                                      \
    "<|tool_call_begin|>" name "<|tool_call_argument_begin|>" arguments "<|tool_call_end|>"
    check("kimi",
          "Ok<|tool_calls_section_begin|>" KIMI("functions.f:0", "{\"a\": 1}")
              KIMI("functions.my-g:11", "{}") "<|tool_calls_section_end|>",
          "C[Ok]0:fA[{\"a\": 1}];1:my-gA[{}];");
    check("kimi", KIMI("f", "{}") "x", "0:fA[{}];C[x]");
    check("kimi", KIMI(" functions.f:x:3 ", " {}"), "0:f:xA[{}];");
    check("kimi", KIMI("f", "1") "x",
          "!-1X[<|tool_call_begin|>f<|tool_call_argument_begin|>]C[" KIMI("f", "1") "x]");
}

#define FINAL "<|start|>assistant<|channel|>final<|message|>"
#define TO "<|start|>assistant<|channel|>commentary to="

static void test_harmony(void **state)
{
    (void)state;
    check("harmony", "<|channel|>analysis<|message|>hm<|end|>" FINAL "ok <b><|return|>",
          "R[hm]C[ok <b>]");
    check("harmony", "<|channel|>final<|message|>ok", "C[ok]");
    check("harmony",
          "<|channel|>analysis<|message|>hm<|end|>" TO
          "functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>",
          "R[hm]0:fA[{\"a\": 1}];");
    check(
        "harmony",
        "<|channel|>commentary to=functions.f<|channel|>x <|constrain|>json<|message|>{}<|end|>" TO
        "functions.g<|message|>{\"b\": \"<|end|>\"}<|call|>",
        "0:fA[{}];1:gA[{\"b\": \"<|end|>\"}];");
    check(
        "harmony",
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary<|message|>"
        "I look.<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|><|start|>assistant "
        "to=functions.f<|channel|>commentary json<|message|>{}<|call|>",
        "R[a]C[I look.]R[b]0:fA[{}];");
    check("harmony", "<|channel|>commentary to=functions.f<|message|>x",
          "!-1X[<|channel|>commentary to=functions.f<|message|>]C[<|channel|>commentary "
          "to=functions.f<|message|>x]");
    check_with("harmony", NULL, "<|start|>assistant<|channel|>analysis<|message|>",
               "hm<|end|>" FINAL "ok", "R[hm]C[ok]");
    /* A prompt ends with <|start|>assistant, so a reply may begin with the rest of the header. */
    check("harmony", " to=functions.f<|channel|>commentary json<|message|>{\"a\": 1}<|call|>",
          "0:fA[{\"a\": 1}];");
    check(
        "harmony",
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant to=functions.f<|channel|>"
        "commentary <|constrain|>json<|message|>{}<|call|><|start|>assistant<|channel|>commentary "
        "to=functions.g <|constrain|>json<|message|>{\"b\": 2}<|call|>",
        "R[a]0:fA[{}];1:gA[{\"b\": 2}];");
    check("harmony", "<|channel|>analysis to=functions.f <|constrain|>json<|message|>{}<|call|>",
          "0:fA[{}];");
    check("harmony", "<|channel|>final<|message|>x to=functions.f", "C[x to=functions.f]");
    check("harmony", "x to=functions.f", "C[x to=functions.f]");
    check("harmony", " to=nobody", "C[ to=nobody]");
    /* The other formats know its thoughts, in front. */
    check("none", "<|channel|>analysis<|message|>hm<|end|>ok", "R[hm]C[ok]");
}

static void test_functionary(void **state)
{
    (void)state;
    static const char prompt[] = "assistant<|end_header_id|>\n\n>>>";
    check("functionary-3.2", ">>>f\n{\"a\": 1}", "0:fA[{\"a\": 1}];");
    check("functionary-3.2", ">>>all\nHello >> you", "C[Hello >> you]");
    check("functionary-3.2", ">>>all\nI look.>>>f\n{}>>>allow\n{\"b\": [2]}",
          "C[I look.]0:fA[{}];1:allowA[{\"b\": [2]}];");
    check_with("functionary-3.2", NULL, prompt, "f\n{\"a\": 1}>>>g\n{}",
               "0:fA[{\"a\": 1}];1:gA[{}];");
    check_with("functionary-3.2", NULL, prompt, "all\nHello", "C[Hello]");
    check_with("functionary-3.2", NULL, prompt, "", "");
    check_with("functionary-3.2", NULL, prompt, "al", "C[>>>al]");
    check_with("functionary-3.2", NULL, prompt, "python\nprint(1)",
               "!-1X[>>>python\n]C[>>>python\nprint(1)]");
}

static void test_gemma(void **state)
{
    (void)state;
#define T "<|\"|>"
    check("gemma4", "<|tool_call>call:f{}<tool_call|>", "0:fA[{}];");
    check("gemma4",
          "Ok <|tool_call>call:f{a:" T "say \"<|hi\\n" T ",b:{c d:[1,-2.5," T T "," T "<<|\"" T
          "],e:true},f:None}<tool_call|><|tool_call>call:a.g-h{n:12}<tool_call|><|tool_response>",
          "C[Ok]0:fA[{\"a\": \"say \\\"<|hi\\\\n\", \"b\": {\"c d\": [1, -2.5, \"\", \"<<|\\\"\"], "
          "\"e\": true}, \"f\": null}];1:a.g-hA[{\"n\": 12}];");
    check("gemma4", "<|tool_call>call:f{}<tool_call|>Sure<|tool_response>", "0:fA[{}];C[Sure]");
    /* Keys and texts of JSON are as good. */
    check("gemma4", "<|tool_call>call:f{\"a\": \"x\", " T "b" T ":[]}",
          "0:fA[{\"a\": \"x\", \"b\": []}];");
    check("gemma4", "<|channel>thought\nhm\n<channel|>Hi", "R[hm]C[Hi]");
    check("gemma4", "<|tool_call>call:f{a:<|x",
          "0:fA[{\"a\": \"]!0X[<|tool_call>call:f{a:<|]C[<|tool_call>call:f{a:<|x]");
    check("gemma4", "<|tool_call>call:f{a,",
          "0:fA[{\"a]!0X[<|tool_call>call:f{a]C[<|tool_call>call:f{a,]");
    check("gemma4", "<|tool_call> call:f{}", "C[<|tool_call> call:f{}]");
    /* The others know neither. */
    check("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {a: 1}}",
          "0:fA[{]!0X[<tool_call>{\"name\": \"f\", \"arguments\": {]C[<tool_call>{\"name\": \"f\", "
          "\"arguments\": {a: 1}}]");
#undef T
}

static void test_kimi_k3(void **state)
{
    (void)state;
#define OPEN(what) "<|open|>" what "<|sep|>"
#define CLOSE(what) "<|close|>" what "<|sep|>"
#define CALL(name, index) OPEN("call tool=\"" name "\" index=\"" index "\"")
    check(
        "kimi-k3",
        OPEN("think") "hm" CLOSE("think") OPEN("response") "Ok > so" CLOSE("response") OPEN("tools")
            CALL("f", "1")
                OPEN("argument key=\"a\" type=\"string\"") "1 <|close|> \n" CLOSE("argument")
                    OPEN("argument key=\"b &quot;&amp;lt;>\" type=\"array\"") "[1, null]" CLOSE(
                        "argument") CLOSE("call") CALL("g", "2") CLOSE("call") CLOSE("tools")
                        CLOSE("message") "<|end_of_msg|>",
        "R[hm]C[Ok > so]0:fA[{\"a\": \"1 <|close|> \\n\", \"b \\\"&lt;>\": [1, null]}];1:gA[{}];");
    /* The prompt has opened the thoughts; arguments as one object. */
    check_with("kimi-k3", NULL, OPEN("message role=\"assistant\"") OPEN("think"),
               "hm" CLOSE("think") OPEN("response") CLOSE("response") OPEN("tools") CALL("f", "1")
                   OPEN("json type=\"object\"") "{\"a\": 1}" CLOSE("json") CLOSE("call")
                       CLOSE("tools"),
               "R[hm]0:fA[{\"a\": 1}];");
    check_with("kimi-k3", NULL, OPEN("response"), "Hi" CLOSE("response") CLOSE("message"), "C[Hi]");
    check("kimi-k3", OPEN("tools") CALL("f", "1") OPEN("argument key=\"a\"") "1",
          "0:f!0X[" OPEN("tools") CALL("f", "1") "<|open|>argument key=\"a\"<|sep|]C[" OPEN("tools")
              CALL("f", "1") OPEN("argument key=\"a\"") "1]");
#undef OPEN
#undef CLOSE
#undef CALL
}

static void test_newer_marks(void **state)
{
    (void)state;
    check("apertus", "Ok<|tools_prefix|>[{\"f\": {\"a\": 1}}, {\"name\": {}}]<|tools_suffix|>",
          "C[Ok]0:fA[{\"a\": 1}];1:nameA[{}];");
    check(
        "apertus", "<|tools_prefix|>[{\"f\": {}, \"g\": {}}]",
        "0:fA[{}]!0X[<|tools_prefix|>[{\"f\": {}, \"g]C[<|tools_prefix|>[{\"f\": {}, \"g\": {}}]]");
    check("apriel",
          "<tool_calls>[{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"x\"}]"
          "</tool_calls>",
          "0:fA[{\"a\": 1}];");
    check(
        "apriel",
        "<tool_calls>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}}\n"
        "</tool_calls>",
        "0:fA[{}];1:gA[{}];");
    check("gigachat", "<|function_call|>{\"name\": \"f\", \"arguments\": {}}<|message_sep|>\n\n",
          "0:fA[{}];");
    check("gigachat",
          "Ok<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"f\", \"arguments\": {}}",
          "C[Ok]0:fA[{}];");
    check("command-r", "Action: ```json\n[{\"tool_name\": \"f\", \"parameters\": {\"a\": 1}}]\n```",
          "0:fA[{\"a\": 1}];");
    check_with("minicpm", TOOLS, NULL,
               "Ok <function name=\"f\"><param name=\"s\">1</param><param name=\"n\">1</param>"
               "</function>\n<function name=\"g\"></function>",
               "C[Ok]0:fA[{\"s\": \"1\", \"n\": 1}];1:gA[{}];");
    check_with("hy3", TOOLS, NULL,
               "<tool_calls:opensource>\n<tool_call:opensource>f<tool_sep:opensource>\n"
               "<arg_key:opensource>s</arg_key:opensource>\n<arg_value:opensource>1"
               "</arg_value:opensource>\n</tool_call:opensource>\n<tool_call:opensource>g"
               "<tool_sep:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
               "0:fA[{\"s\": \"1\"}];1:gA[{}];");
    check("solar",
          "<|tool_calls|><|tool_call:begin|>call_7<|tool_call:name|>f<|tool_call:args|>{\"a\": 1}"
          "<|tool_call:end|><|tool_call:begin|>x<|tool_call:name|>g<|tool_call:args|>{}"
          "<|tool_call:end|><|calls|>",
          "0:fA[{\"a\": 1}];1:gA[{}];");
#define D "<" BAR "DSML" BAR
    check("dsml-v4",
          D "tool_calls>\n" D "invoke name=\"f\">\n</" BAR "DSML" BAR "invoke>\n</" BAR "DSML" BAR
            "tool_calls>",
          "0:fA[{}];");
#undef D
}

static void test_invoke(void **state)
{
    (void)state;
    check_with(
        "minimax", TOOLS, NULL,
        "Ok\n<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">12</parameter>\n"
        "<parameter name=\"n\">12</parameter>\n</invoke>\n<invoke name=\"g\">\n</invoke>\n"
        "</minimax:tool_call>",
        "C[Ok]0:fA[{\"s\": \"12\", \"n\": 12}];1:gA[{}];");
    /* This one says itself what is text. */
#define D "<" BAR "DSML" BAR
#define D_END "</" BAR "DSML" BAR
    check("dsml",
          D "function_calls>\n" D "invoke name=\"f\">\n" D
            "parameter name=\"a\" string=\"true\">12" D_END "parameter>\n" D
            "parameter name=\"b\" string=\"false\">12" D_END "parameter>\n" D_END "invoke>\n" D
            "invoke name=\"g\">\n" D_END "invoke>\n" D_END "function_calls>x",
          "0:fA[{\"a\": \"12\", \"b\": 12}];1:gA[{}];C[x]");
    check("dsml", D "function_calls>" D "invoke name=\"f\">" D "parameter name=\"a\">",
          "0:f!0X[" D "function_calls>" D "invoke name=\"f\">" D "parameter name=\"a\"]C[" D
          "function_calls>" D "invoke name=\"f\">" D "parameter name=\"a\">]");
}

static void test_other_marks(void **state)
{
    (void)state;
    check("nemotron",
          "Ok\n<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", "
          "\"arguments\": {}}]</TOOLCALL>x",
          "C[Ok]0:fA[{\"a\": 1}];1:gA[{}];C[x]");
    check("phi4", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]<|/tool_call|>", "0:fA[{}];");
    check("cohere",
          "<|START_THINKING|>hm<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", "
          "\"tool_name\": \"f\", \"parameters\": {\"a\": 1}},\n    {\"tool_call_id\": \"1\", "
          "\"tool_name\": \"g\", \"parameters\": {}}\n]<|END_ACTION|>",
          "R[hm]0:fA[{\"a\": 1}];1:gA[{}];");
    check("cohere", "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>ok<|END_RESPONSE|>",
          "R[hm]C[ok]");
    check("functionary", "<function=f>{\"a\": 1}</function><function=g>{}</function>",
          "0:fA[{\"a\": 1}];1:gA[{}];");
    check(
        "seed",
        "<seed:think>hm</seed:think>\n<seed:tool_call>\n<function=f>\n<parameter=a>x y</parameter>\n"
        "</function>\n</seed:tool_call>",
        "R[hm]0:fA[{\"a\": \"x y\"}];");
    check("granite", "<think>a</think><response>b</response>", "R[a]C[b]");
    check("granite", "a <response>b", "C[a <response>b]");
    check("granite", "Here is my thought process: a\n\nHere is my response: b", "R[a]C[b]");
}

/* Text between tags streams, but for what may be the end tag and the line feed before it. */
static void test_streaming_tags(void **state)
{
    (void)state;
    record *r = calloc(1, sizeof *r);
    const cera_chat_sink sink = sink_of(r);
    cera_chat_parser *parser = open_parser("xml", TOOLS, NULL, &sink);
    static const char *const steps[][2] = {
        { "<tool_call><function=f><parameter=s>\n", "0:fA[{\"s\": \"]" },
        { "one\n", "0:fA[{\"s\": \"one]" },
        { "two </par", "0:fA[{\"s\": \"one\\ntwo ]" },
        { "k> \"\n</parameter", "0:fA[{\"s\": \"one\\ntwo </park> \\\"]" },
        { ">\n<parameter=n>1", "0:fA[{\"s\": \"one\\ntwo </park> \\\"\", \"n\": ]" },
        { "2</parameter></function>", "0:fA[{\"s\": \"one\\ntwo </park> \\\"\", \"n\": 12}];" },
    };
    for (size_t i = 0; i < CR_COUNT(steps); i++) {
        cera_chat_parser_push(parser, steps[i][0], strlen(steps[i][0]), NULL);
        assert_string_equal(r->text, steps[i][1]);
    }
    cera_chat_parser_free(parser);
    free(r);
}

/* ---- values -------------------------------------------------------------------------------- */

static void test_values(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "1", "1" },
        { "-0", "-0" },
        { "+7", "7" },
        { "1.5", "1.5" },
        { "-1.5e-3", "-1.5e-3" },
        { "1E+2", "1E+2" },
        { ".5", "0.5" },
        { "-.5e1", "-0.5e1" },
        { "5.", "5.0" },
        { "9223372036854775807", "9223372036854775807" },
        { "9223372036854775808", "9.223372036854776e+18" },
        { "-123456789012345678901234567890", "-1.2345678901234568e+29" },
        { "100000000000000000000", "1.0e+20" },
        { "true", "true" },
        { "True", "true" },
        { "False", "false" },
        { "None", "null" },
        { "null", "null" },
        { "''", "\"\"" },
        { "'a\"b'", "\"a\\\"b\"" },
        { "\"a'b\"", "\"a'b\"" },
        { "'a\\'b'", "\"a'b\"" },
        { "'\\n\\t\\r\\b\\f\\/\\\\'", "\"\\n\\t\\r\\b\\f/\\\\\"" },
        { "'\\d+\\x41'", "\"\\\\d+\\\\x41\"" }, /* unknown escapes keep the backslash */
        { "'\\u00e9\\u0041'", "\"\xc3\xa9"
                              "A\"" },
        { "'\\u0000\\u001f'", "\"\\u0000\\u001f\"" },
        { "'\\ud83d\\ude00'", "\"\xf0\x9f\x98\x80\"" },
        { "'\\uD83D'", "\"\xef\xbf\xbd\"" },
        { "'\\ud83dx\\ude00'", "\"\xef\xbf\xbdx\xef\xbf\xbd\"" },
        { "'\\ud83d\\ud83d\\ude00'", "\"\xef\xbf\xbd\xf0\x9f\x98\x80\"" },
        { "'\\ud83d\\n'", "\"\xef\xbf\xbd\\n\"" },
        { "'two\nlines'", "\"two\\nlines\"" },
        { "'\xe2\x82\xac \xf0\x9f\x98\x80'", "\"\xe2\x82\xac \xf0\x9f\x98\x80\"" },
        { "[]", "[]" },
        { "[ 1 ,2, ]", "[1, 2]" },
        { "{ }", "{}" },
        { "{'a':{'b':[True,]},}", "{\"a\": {\"b\": [true]}}" },
        { "'</tool_call>[1)'", "\"</tool_call>[1)\"" },
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++)
        check_value(cases[i][0], cases[i][1]);
    char deep[600] = "", json[600] = "";
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    strcpy(json, deep);
    check_value(deep, json);
}

static void test_too_deep(void **state)
{
    (void)state;
    char text[400] = START "[f(a=";
    memset(text + strlen(text), '[', 200);
    record *r = calloc(1, sizeof *r);
    const cera_chat_sink sink = sink_of(r);
    cera_chat_parser *parser = open_parser("lfm2", NULL, NULL, &sink);
    push_all(parser, text, strlen(text), 7);
    assert_non_null(strstr(r->text, "!0X["));
    cera_chat_parser_free(parser);
    free(r);
}

/* ---- reasoning ----------------------------------------------------------------------------- */

static void test_reasoning(void **state)
{
    (void)state;
    check("none", "<think>\nhm\n</think>\n\nok", "R[hm]C[ok]");
    check("none", "\n<think>a b</think>c", "R[a b]C[c]");
    check("none", "<think>\n\n</think>\n\nok", "C[ok]");
    check("none", "[THINK]a[/THINK]b", "R[a]C[b]");
    check("none", "<|START_THINKING|>a<|END_THINKING|>b", "R[a]C[b]");
    check("none", "<seed:think>a</think></seed:think>b", "R[a</think>]C[b]");
    check("none", "<think>cut off \n", "R[cut off \n]");
    check("none", "<think>a</thin", "R[a</thin]");
    /* Only in front of everything else: an answer may speak of the marks. */
    check("none", "say </think> twice", "C[say </think> twice]");
    check("none", "so <think>a</think>", "C[so <think>a</think>]");
    check("none", "<think>a</think>b <think>c</think>", "R[a]C[b <think>c</think>]");
    check("lfm2", START "[f()]" END "<think>a", "0:fA[{}];C[<think>a]");
    check("lfm2", START "[f()]" END "[g()]", "0:fA[{}];C[[g()]]");
    /* Calls in it are thoughts. */
    check(
        "hermes",
        "<think>maybe <tool_call>{\"name\": \"f\"}</tool_call></think>\n<tool_call>{\"name\": \"g\"}",
        "R[maybe <tool_call>{\"name\": \"f\"}</tool_call>]0:gA[{}];");
    check("lfm2", "<think>a</think>[f()]", "R[a]0:fA[{}];");
    /* The prompt has opened it. */
    check_with("none", NULL, "<|im_start|>assistant\n<think>\n", "hm\n</think>\n\nok",
               "R[hm]C[ok]");
    check_with("none", NULL, "assistant\n<think>\n\n</think>\n\n", "ok <think>", "C[ok <think>]");
    check_with("none", NULL, "x", "</think>ok", "C[</think>ok]");
}

static void test_no_reasoning(void **state)
{
    (void)state;
    record *r = calloc(1, sizeof *r);
    const cera_chat_sink sink = sink_of(r);
    cera_chat_parser_options options;
    cera_chat_parser_options_init(&options);
    options.no_reasoning = true;
    options.prompt = "<think>";
    options.n_prompt = 7;
    cera_chat_parser *parser = NULL;
    assert_int_equal(cera_chat_parser_new(&options, &sink, &parser, NULL), CERA_OK);
    push_all(parser, "<think>a</think>b", 17, 2);
    assert_string_equal(r->text, "C[<think>a</think>b]");
    cera_chat_parser_free(parser);
    free(r);
}

static void test_is_reasoning(void **state)
{
    (void)state;
    const cera_chat_sink sink = { 0 };
    cera_chat_parser *parser = open_parser("none", NULL, "<think>\n", &sink);
    assert_true(cera_chat_parser_is_reasoning(parser));
    cera_chat_parser_push(parser, "hm</thin", 8, NULL);
    assert_true(cera_chat_parser_is_reasoning(parser));
    cera_chat_parser_push(parser, "k>", 2, NULL);
    assert_false(cera_chat_parser_is_reasoning(parser));
    cera_chat_parser_free(parser);
    assert_false(cera_chat_parser_is_reasoning(NULL));
}

/* ---- text ---------------------------------------------------------------------------------- */

static void test_text(void **state)
{
    (void)state;
    check("hermes", "", "");
    check("hermes", "  \n", "C[  \n]");
    check("hermes", " a  b\n\n", "C[ a  b\n\n]");
    check("hermes", "a < b <", "C[a < b <]");
    check("hermes", "<<tool_call>{\"name\": \"f\"}", "C[<]0:fA[{}];");
    check("lfm2", "\xe2\x82\xac\xf0\x9f\x98\x80", "C[\xe2\x82\xac\xf0\x9f\x98\x80]");
    check("lfm2",
          "a\xff"
          "b\xe2\x82",
          "C[a\xef\xbf\xbd"
          "b\xef\xbf\xbd\xef\xbf\xbd]");
    check("lfm2", START "[f(a='\xff')]", "0:fA[{\"a\": \"\xef\xbf\xbd\"}];");
}

/* Pieces of content end at whole characters. */
static int count_broken(void *user, const char *text, size_t n)
{
    *(int *)user += n == 0 || ((unsigned char)text[0] & 0xC0) == 0x80;
    return 0;
}

static void test_whole_characters(void **state)
{
    (void)state;
    int n_broken = 0;
    const cera_chat_sink sink = { .on_content = count_broken, .user = &n_broken };
    cera_chat_parser *parser = open_parser("lfm2", NULL, NULL, &sink);
    push_all(parser, "\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa9", 9, 1);
    assert_int_equal(n_broken, 0);
    cera_chat_parser_free(parser);
}

/* Text streams: nothing is held back but what may become a marker. */
static void test_streaming(void **state)
{
    (void)state;
    record *r = calloc(1, sizeof *r);
    const cera_chat_sink sink = sink_of(r);
    cera_chat_parser *parser = open_parser("hermes", NULL, NULL, &sink);
    static const char *const steps[][2] = {
        { "Hello", "C[Hello]" },
        { " <tool", "C[Hello]" },
        { "_box>", "C[Hello <tool_box>]" },
        { "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x",
          "C[Hello <tool_box>]0:fA[{\"a\": \"x]" },
        { "y\\u00", "C[Hello <tool_box>]0:fA[{\"a\": \"xy]" },
        { "e9\"", "C[Hello <tool_box>]0:fA[{\"a\": \"xy\xc3\xa9\"]" },
        { "}}", "C[Hello <tool_box>]0:fA[{\"a\": \"xy\xc3\xa9\"}];" },
    };
    for (size_t i = 0; i < CR_COUNT(steps); i++) {
        cera_chat_parser_push(parser, steps[i][0], strlen(steps[i][0]), NULL);
        assert_string_equal(r->text, steps[i][1]);
    }
    cera_chat_parser_free(parser);
    free(r);
}

/* ---- the interface ------------------------------------------------------------------------- */

static void test_sink_stops(void **state)
{
    (void)state;
    record *r = calloc(1, sizeof *r);
    const cera_chat_sink sink = sink_of(r);
    cera_chat_parser *parser = open_parser("hermes", NULL, NULL, &sink);
    static const char text[] =
        "a<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>"
        "b<tool_call>x</tool_call>";
    for (int stop = 1; stop <= 5; stop++) {
        *r = (record){ .stop_after = stop };
        cera_error err;
        assert_int_equal(cera_chat_parser_push(parser, text, strlen(text), &err), CERA_E_CANCELLED);
        const size_t n = r->n;
        assert_int_equal(cera_chat_parser_push(parser, "more", 4, &err), CERA_E_CANCELLED);
        assert_int_equal(cera_chat_parser_finish(parser, &err), CERA_E_CANCELLED);
        assert_int_equal(r->n, n);
        assert_int_equal(r->n_events, stop);
    }
    *r = (record){ 0 };
    push_all(parser, "fresh", 5, 5);
    assert_string_equal(r->text, "C[fresh]");
    cera_chat_parser_free(parser);
    free(r);
}

static void test_arguments(void **state)
{
    (void)state;
    const cera_chat_sink sink = { 0 };
    cera_chat_parser_options options;
    cera_chat_parser_options_init(&options);
    cera_chat_parser *parser = NULL;
    cera_error err;
    options.format = "klingon";
    assert_int_equal(cera_chat_parser_new(&options, &sink, &parser, &err), CERA_E_ARG);
    assert_non_null(strstr(err.message, "hermes"));
    options.format = NULL;
    static const char *const bad[] = { "{}", "[1]", "[{\"name\": 1}]", "[", "[{\"name\": \"\"}]",
                                       "x" };
    for (size_t i = 0; i < CR_COUNT(bad); i++) {
        options.tools = bad[i];
        assert_int_equal(cera_chat_parser_new(&options, &sink, &parser, &err), CERA_E_ARG);
        assert_non_null(strstr(err.message, "tools: "));
    }
    /* A call could be of either, however their names are written. */
    options.tools =
        "[{\"name\": \"f\"}, {\"name\": \"gA\"}, {\"function\": {\"name\": \"g\\u0041\"}}]";
    assert_int_equal(cera_chat_parser_new(&options, &sink, &parser, &err), CERA_E_ARG);
    assert_string_equal(err.message, "tools: expected one of each name, found two of \"gA\"");
    options.tools = "[]";
    assert_int_equal(cera_chat_parser_new(&options, NULL, &parser, &err), CERA_E_ARG);
    assert_int_equal(cera_chat_parser_new(&options, &sink, &parser, &err), CERA_OK);
    assert_string_equal(cera_chat_parser_format(parser), "none");
    /* A sink without callbacks is one. */
    push_all(parser, "<think>a</think>b", 17, 3);
    cera_chat_parser_free(parser);
    cera_chat_parser_free(NULL);
    assert_int_equal(cera_chat_parser_push(NULL, "x", 1, &err), CERA_E_ARG);
    assert_int_equal(cera_chat_parser_finish(NULL, &err), CERA_E_ARG);
}

static void test_marks(void **state)
{
    (void)state;
    size_t n = 0;
    bool has_none = false;
    for (const char *name; (name = cera_chat_format_name(n)) != NULL; n++) {
        has_none |= strcmp(name, "none") == 0;
        cera_chat_parser *parser = open_parser(name, NULL, NULL, &(cera_chat_sink){ 0 });
        assert_string_equal(cera_chat_parser_format(parser), name);
        cera_chat_parser_free(parser);
    }
    assert_true(has_none && n > 20);
    assert_null(cera_chat_format_name(n + 1));
    assert_string_equal(cera_chat_format_mark("xml", 0), "<tool_call>");
    assert_string_equal(cera_chat_format_mark("xml", 1), "<function=");
    assert_null(cera_chat_format_mark("xml", 2));
    assert_string_equal(cera_chat_format_mark("functionary", 0), "<function=");
    assert_null(cera_chat_format_mark("functionary", 1));
    assert_string_equal(cera_chat_format_mark("harmony", 2), "<|start|>assistant to=");
    assert_string_equal(cera_chat_format_mark("harmony", 5), " to=functions.");
    assert_null(cera_chat_format_mark("harmony", 6));
    assert_string_equal(cera_chat_format_mark("gigachat", 1), "function call<|role_sep|>");
    assert_null(cera_chat_format_mark("none", 0));
    assert_null(cera_chat_format_mark("no such format", 0));
    assert_null(cera_chat_format_mark(NULL, 0));
}

static void test_detection_by_architecture(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "lfm2moe", "lfm2" }, { "lfm3", "xml" }, { "qwen3", "hermes" }, { "llama", "none" }
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        cera_chat_parser_options options;
        cera_chat_parser_options_init(&options);
        options.arch = cases[i][0];
        const cera_chat_sink sink = { 0 };
        cera_chat_parser *parser = NULL;
        assert_int_equal(cera_chat_parser_new(&options, &sink, &parser, NULL), CERA_OK);
        assert_string_equal(cera_chat_parser_format(parser), cases[i][1]);
        cera_chat_parser_free(parser);
    }
}

static void test_detection(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "<tool_call>\n<function=x>", "xml" },
        { "{{ '<|tool_call_start|>' }}", "lfm2" },
        { "List of tools: <|tool_list_start|>", "lfm2" },
        { "<tool_call>", "hermes" },
        { "[TOOL_CALLS]", "mistral" },
        { "<|tool_call|>", "granite" },
        { "<tool_call>{f}\n<arg_key>", "glm" },
        { "<seed:tool_call>\n<function=", "seed" },
        { "<minimax:tool_call>", "minimax" },
        { "<" BAR "DSML" BAR "function_calls>", "dsml" },
        { "<TOOLCALL>", "nemotron" },
        { "<|START_ACTION|>", "cohere" },
        { "<|tool|>x<|/tool|>", "phi4" },
        { "<" BAR "tool" BLANK "calls" BLANK "begin" BAR ">", "deepseek" },
        { "{{ '" DS_SEP "' + x + '\\n' + '```json' + '\\n' }}", "deepseek-r1" },
        { "<|tool_calls_section_begin|>", "kimi" },
        { "<|channel|>analysis<|message|>", "harmony" },
        { "<|tools_prefix|>", "apertus" },
        { "<tool_call> <tool_calls>", "apriel" },
        { "<|function_call|>", "gigachat" },
        { "{{ 'Action:\\n```json\\n[' }}", "command-r" },
        { "<function name=\"f\"><param name=\"a\">", "minicpm" },
        { "{{ '<tool_sep{}>'.format(x) }}", "hy3" },
        { "<|tool_call:begin|>", "solar" },
        { "{{ '<' + dsml_token + 'tool_calls>' }}{# " BAR "DSML" BAR " #}", "dsml-v4" },
        { ">>>all", "functionary-3.2" },
        { "{{ '<|tool_call>call:' + name }}", "gemma4" },
        { "{# open_tag('tools') #}", "kimi-k3" },
        { "<function=example_function_name>{\"a\": 1}</function><|python_tag|>", "functionary" },
        { "<|python_tag|>", "llama3" },
        { "Environment: ipython", "llama3" },
        { "{{ messages }}", "none" },
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        cera_template_options options;
        cera_template_options_init(&options);
        char text[128];
        snprintf(text, sizeof text, "%s%s", cases[i][0], cases[i][0][0] == '{' ? "" : "{{ 1 }}");
        options.text = text;
        cera_template *tmpl = NULL;
        assert_int_equal(cera_template_new(NULL, &options, &tmpl, NULL), CERA_OK);
        cera_chat_parser_options parser_options;
        cera_chat_parser_options_init(&parser_options);
        parser_options.tmpl = tmpl;
        const cera_chat_sink sink = { 0 };
        cera_chat_parser *parser = NULL;
        assert_int_equal(cera_chat_parser_new(&parser_options, &sink, &parser, NULL), CERA_OK);
        assert_string_equal(cera_chat_parser_format(parser), cases[i][1]);
        cera_chat_parser_free(parser);
        cera_template_free(tmpl);
    }
}

/* Each allocation fails in turn: a clear error, nothing leaked, and the parser can go on
 * afterwards. */
static void test_memory(void **state)
{
    (void)state;
    static const char text[] =
        "<think>a</think>b <tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n</function>\n"
        "</tool_call><tool_call>{\"arguments\": \"{\\\"a\\\": 1}\", \"name\": \"f\"}</tool_call>"
        " <tool_call>no";
    record *r = calloc(1, sizeof *r);
    for (size_t i = 1;; i++) {
        fault_host f;
        fault_init(&f);
        fault_allocs(&f, i, FAULT_ONCE);
        *r = (record){ 0 };
        const cera_chat_sink sink = sink_of(r);
        cera_chat_parser_options options;
        cera_chat_parser_options_init(&options);
        options.host = &f.host;
        options.format = "xml";
        options.tools = TOOLS;
        cera_chat_parser *parser = NULL;
        cera_error err;
        cera_status status = cera_chat_parser_new(&options, &sink, &parser, &err);
        if (status == CERA_OK) {
            cera_chat_parser_push(parser, text, strlen(text), &err);
            status = cera_chat_parser_finish(parser, &err);
            *r = (record){ 0 };
            assert_int_equal(cera_chat_parser_push(parser, "again", 5, &err), CERA_OK);
            assert_string_equal(r->text, "C[again]");
        }
        cera_chat_parser_free(parser);
        assert_null(fault_check(&f));
        const bool reached = fault_hits(&f) > 0;
        fault_done(&f);
        if (!reached)
            break;
        assert_int_equal(status, CERA_E_NOMEM);
    }
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lfm2),
        cmocka_unit_test(test_bare_list),
        cmocka_unit_test(test_hermes),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_mistral_and_granite),
        cmocka_unit_test(test_xml),
        cmocka_unit_test(test_glm),
        cmocka_unit_test(test_deepseek),
        cmocka_unit_test(test_kimi),
        cmocka_unit_test(test_harmony),
        cmocka_unit_test(test_functionary),
        cmocka_unit_test(test_gemma),
        cmocka_unit_test(test_kimi_k3),
        cmocka_unit_test(test_newer_marks),
        cmocka_unit_test(test_invoke),
        cmocka_unit_test(test_other_marks),
        cmocka_unit_test(test_streaming_tags),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_too_deep),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_no_reasoning),
        cmocka_unit_test(test_is_reasoning),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_whole_characters),
        cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_sink_stops),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_detection),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_detection_by_architecture),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

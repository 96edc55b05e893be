/* Grammars of tool calls, through the public API: what they let a model write is read back as calls
 * that the schemas accept, in every format, and what cannot be is refused by name and place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fault_host.h"
#include "support/tiny.h"

#include "base/compiler.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WEATHER                                                                                    \
    "{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"parameters\": "          \
    "{\"type\": \"object\", \"required\": [\"city\", \"unit\"], \"properties\": {"                 \
    "\"city\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 8}, "                       \
    "\"days\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 7}, "                          \
    "\"unit\": {\"enum\": [\"C\", \"F\"]}, \"at\": {\"$ref\": \"#/$defs/place\"}}, "               \
    "\"$defs\": {\"place\": {\"type\": \"object\", \"required\": [\"x\"], "                        \
    "\"additionalProperties\": false, \"properties\": {\"x\": {\"type\": \"boolean\"}}}}}}}"
#define TOOLS "[" WEATHER ", {\"name\": \"ping\"}]"

static cera_vocab *vocab;

static int open_vocab(void **state)
{
    (void)state;
    const cera_source source = tiny_source();
    return cera_vocab_open(&source, NULL, &vocab, NULL) != CERA_OK;
}

static int free_vocab(void **state)
{
    (void)state;
    cera_vocab_free(vocab);
    return 0;
}

/* ---- making ------------------------------------------------------------------------------- */

static cera_tool_grammar_options options_of(const char *format, cera_tool_choice choice)
{
    cera_tool_grammar_options options;
    cera_tool_grammar_options_init(&options);
    options.format = format;
    options.choice = choice;
    return options;
}

static cera_grammar *make(const char *tools, const cera_vocab *with,
                          const cera_tool_grammar_options *options)
{
    cera_grammar *grammar = NULL;
    cera_error err;
    if (cera_grammar_from_tools(tools, strlen(tools), with, options, &grammar, &err) != CERA_OK)
        fail_msg("%s", err.message);
    return grammar;
}

static void refuses(const char *tools, const cera_tool_grammar_options *options, cera_status status,
                    const char *message)
{
    cera_grammar *grammar = NULL;
    cera_error err = { 0 };
    assert_int_equal(cera_grammar_from_tools(tools, strlen(tools), NULL, options, &grammar, &err),
                     status);
    assert_null(grammar);
    assert_string_equal(err.message, message);
}

static bool accepts(cera_grammar *grammar, const char *text)
{
    cera_grammar_state *s;
    assert_int_equal(cera_grammar_state_new(grammar, &s, NULL), CERA_OK);
    const bool good = cera_grammar_state_read_text(s, text, strlen(text), NULL) == CERA_OK &&
                      cera_grammar_state_is_complete(s);
    cera_grammar_state_free(s);
    return good;
}

static bool is_constrained(const char *format)
{
    static const char *const others[] = { "none", "gemma4", "kimi-k3" };
    for (size_t i = 0; i < CR_COUNT(others); i++)
        if (strcmp(format, others[i]) == 0)
            return false;
    return true;
}

/* ---- reading back ------------------------------------------------------------------------- */

typedef struct record {
    char name[64], arguments[4096];
    size_t n_arguments, n_content;
    int n_calls, n_errors;
    const char *only; /* NULL: any */
} record;

static int on_content(void *user, const char *text, size_t n)
{
    (void)text;
    ((record *)user)->n_content += n;
    return 0;
}

static int on_call(void *user, int call, const char *name, size_t n)
{
    record *r = user;
    (void)call;
    assert_true(n < sizeof r->name);
    memcpy(r->name, name, n);
    r->name[n] = '\0';
    r->n_arguments = 0;
    return 0;
}

static int on_arguments(void *user, int call, const char *json, size_t n)
{
    record *r = user;
    (void)call;
    assert_true(r->n_arguments + n < sizeof r->arguments);
    memcpy(r->arguments + r->n_arguments, json, n);
    r->n_arguments += n;
    return 0;
}

static size_t count_characters(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += (*text & 0xC0) != 0x80;
    return n;
}

static bool is_weather(const json_t *arguments)
{
    const char *key;
    const json_t *value;
    bool has_city = false, has_unit = false;
    json_object_foreach ((json_t *)arguments, key, value) {
        const char *text = json_string_value(value);
        if (strcmp(key, "city") == 0) {
            has_city = json_is_string(value) && json_string_length(value) > 0 &&
                       (strlen(text) != json_string_length(value) || count_characters(text) <= 8);
            if (!has_city)
                return false;
        } else if (strcmp(key, "unit") == 0) {
            has_unit = text != NULL && (strcmp(text, "C") == 0 || strcmp(text, "F") == 0);
        } else if (strcmp(key, "days") == 0) {
            if (!json_is_integer(value) || json_integer_value(value) < 1 ||
                json_integer_value(value) > 7)
                return false;
        } else if (strcmp(key, "at") != 0 || json_object_size(value) != 1 ||
                   !json_is_boolean(json_object_get(value, "x"))) {
            return false;
        }
    }
    return has_city && has_unit;
}

static int on_call_end(void *user, int call)
{
    record *r = user;
    (void)call;
    json_t *arguments = json_loadb(r->arguments, r->n_arguments, JSON_ALLOW_NUL, NULL);
    if (r->only != NULL)
        assert_string_equal(r->name, r->only);
    const bool is_ping = strcmp(r->name, "ping") == 0;
    if (!is_ping)
        assert_string_equal(r->name, "get_weather");
    if (is_ping ? json_object_size(arguments) != 0 : !is_weather(arguments))
        fail_msg("%s: %.*s", r->name, (int)r->n_arguments, r->arguments);
    json_decref(arguments);
    r->n_calls++;
    return 0;
}

static int on_error(void *user, const cera_chat_error *error)
{
    print_error("%s: %.*s\n", error->message, (int)error->n_text, error->text);
    ((record *)user)->n_errors++;
    return 0;
}

static record read_back(const char *format, const char *text, size_t n, const char *only)
{
    record r = { .only = only };
    const cera_chat_sink sink = { .on_content = on_content,
                                  .on_call = on_call,
                                  .on_arguments = on_arguments,
                                  .on_call_end = on_call_end,
                                  .on_error = on_error,
                                  .user = &r };
    cera_chat_parser_options options;
    cera_chat_parser_options_init(&options);
    options.format = format;
    options.tools = TOOLS;
    cera_chat_parser *parser;
    assert_int_equal(cera_chat_parser_new(&options, &sink, &parser, NULL), CERA_OK);
    assert_int_equal(cera_chat_parser_push(parser, text, n, NULL), CERA_OK);
    assert_int_equal(cera_chat_parser_finish(parser, NULL), CERA_OK);
    cera_chat_parser_free(parser);
    return r;
}

/* A text of a grammar, of tokens drawn at random: the first end that is allowed is taken. */
static size_t sample(cera_grammar *grammar, uint32_t seed, char *text, size_t room)
{
    cera_grammar_state *s;
    assert_int_equal(cera_grammar_state_new(grammar, &s, NULL), CERA_OK);
    size_t size = 0;
    int32_t previous = -1;
    while (!cera_grammar_state_is_complete(s)) {
        const uint64_t *bits;
        int32_t allowed[TINY_VOCAB];
        size_t n_allowed = 0, n;
        assert_int_equal(cera_grammar_state_mask(s, &bits, NULL), CERA_OK);
        for (int32_t id = 0; id < TINY_VOCAB; id++)
            if ((bits[id / 64] >> (id % 64) & 1) != 0 && !cera_vocab_is_end(vocab, id))
                allowed[n_allowed++] = id;
        assert_true(n_allowed > 0);
        seed = seed * 1664525u + 1013904223u;
        const int32_t id = allowed[(seed >> 8) % n_allowed];
        const char *piece = cera_vocab_piece_after(vocab, previous, id, &n);
        assert_int_equal(cera_grammar_state_read(s, id, NULL), CERA_OK);
        assert_true(size + n < room);
        memcpy(text + size, piece, n);
        size += n;
        previous = id;
    }
    cera_grammar_state_free(s);
    return size;
}

static void reads_back_what_it_allows(void **state)
{
    (void)state;
    static char text[1 << 16];
    static const char *const only[] = { NULL, "ping", "get_weather" };
    int n_calls = 0;
    for (size_t f = 0; cera_chat_format_name(f) != NULL; f++) {
        const char *format = cera_chat_format_name(f);
        if (!is_constrained(format))
            continue;
        for (size_t k = 0; k < CR_COUNT(only); k++) {
            cera_tool_grammar_options options = options_of(format, CERA_TOOL_REQUIRED);
            options.only = only[k];
            cera_grammar *grammar = make(TOOLS, vocab, &options);
            for (uint32_t seed = 0; seed < 4; seed++) {
                const size_t n = sample(grammar, seed, text, sizeof text);
                const record r = read_back(format, text, n, only[k]);
                if (r.n_errors > 0 || r.n_content > 0 || r.n_calls < 1 ||
                    (only[k] != NULL && r.n_calls != 1))
                    fail_msg("%s: %.*s", format, (int)n, text);
                n_calls += r.n_calls;
            }
            cera_grammar_free(grammar);
        }
    }
    assert_true(n_calls >= 27 * 12);
}

/* ---- choices ------------------------------------------------------------------------------ */

#define PING "{\"name\": \"ping\", \"arguments\": {}}"

static void chooses(void **state)
{
    (void)state;
    cera_tool_grammar_options options = options_of("mistral", CERA_TOOL_AUTO);
    cera_grammar *g = make(TOOLS, NULL, &options);
    assert_true(accepts(g, "just text"));
    assert_true(accepts(g, "[TOOL_CALLS][" PING ", " PING "]"));
    assert_true(accepts(g, "a [TOOL_CALLS][" PING "] b [TOOL_CALLS][" PING "]"));
    assert_false(accepts(g, "a [TOOL_CALLS] b"));
    cera_grammar_free(g);

    options.single_call = true;
    g = make(TOOLS, NULL, &options);
    assert_true(accepts(g, "a [TOOL_CALLS][" PING "] b"));
    assert_false(accepts(g, "a [TOOL_CALLS][" PING "] b [TOOL_CALLS][" PING "]"));
    assert_false(accepts(g, "[TOOL_CALLS][" PING ", " PING "]"));
    cera_grammar_free(g);

    options.choice = CERA_TOOL_REQUIRED;
    g = make(TOOLS, NULL, &options);
    assert_true(accepts(g, "[TOOL_CALLS][" PING "]"));
    assert_false(accepts(g, "[TOOL_CALLS][" PING ", " PING "]"));
    assert_false(accepts(g, "a"));
    cera_grammar_free(g);

    options.single_call = false;
    g = make(TOOLS, NULL, &options);
    assert_true(accepts(g, "[TOOL_CALLS][" PING ", " PING "]"));
    cera_grammar_free(g);

    options.only = "ping";
    g = make(TOOLS, NULL, &options);
    assert_true(accepts(g, "[TOOL_CALLS][" PING "]"));
    assert_false(accepts(g, "[TOOL_CALLS][" PING ", " PING "]"));
    assert_false(accepts(g, "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": "
                            "\"x\", \"unit\": \"C\"}}]"));
    cera_grammar_free(g);

    options = options_of("mistral", CERA_TOOL_NONE);
    g = make("[]", NULL, &options);
    assert_true(accepts(g, "a [TOOL_CALL] b"));
    assert_false(accepts(g, "a [TOOL_CALLS][" PING "]"));
    cera_grammar_free(g);
    options.format = "llama3"; /* where a reply may be a call without marks */
    g = make(TOOLS, NULL, &options);
    assert_true(accepts(g, "x {\"name\""));
    assert_false(accepts(g, "{\"name\": \"ping\", \"parameters\": {}}"));
    cera_grammar_free(g);
}

/* Text behind a call is none: the parser would read on where it begins like another one. */
static void keeps_text_behind_calls_apart(void **state)
{
    (void)state;
    static const char *const behind[] = {
        " a",
        ", f",
        "; ping",
        "{}",
        "\n{\"ping\": {}}",
        " {\"name\": \"get_weather\", \"arguments\": {}}",
        ", get_weather()",
        ",<function=get_weather>{}</function>",
        "[get_weather()]",
        "get_weather{}",
    };
    const char *format;
    for (size_t f = 0; (format = cera_chat_format_name(f)) != NULL; f++) {
        char text[2048];
        if (!is_constrained(format))
            continue;
        cera_tool_grammar_options options = options_of(format, CERA_TOOL_REQUIRED);
        options.only = "ping";
        cera_grammar *g = make(TOOLS, vocab, &options);
        const size_t n = sample(g, 7, text, sizeof text - 64);
        cera_grammar_free(g);
        options = options_of(format, CERA_TOOL_AUTO);
        g = make(TOOLS, NULL, &options);
        for (size_t i = 0; i < CR_COUNT(behind); i++) {
            snprintf(text + n, sizeof text - n, "%s", behind[i]);
            const bool is_good = accepts(g, text);
            /* A call without marks is all of a reply. */
            assert_true(i > 0 || is_good || strcmp(format, "llama3") == 0);
            if (!is_good)
                continue;
            const record r = read_back(format, text, strlen(text), NULL);
            if (r.n_calls != 1 || r.n_errors > 0)
                fail_msg("%s: %d calls, %d errors: %s", format, r.n_calls, r.n_errors, text);
        }
        cera_grammar_free(g);
    }
}

/* functionary-3.2: prompts end with the mark of the first call, and a name that is no tool's says
 * that text follows. */
static void goes_on_behind_the_prompt(void **state)
{
    (void)state;
    static const char prompt[] = "assistant\n\n>>>";
    for (int has_prompt = 0; has_prompt < 2; has_prompt++) {
        const char *mark = has_prompt ? "" : ">>>";
        static const struct {
            const char *text;
            bool is_auto, is_one, is_required, is_none;
        } cases[] = {
            { "ping\n{}", true, true, true, false },
            { "ping\n{}>>>ping\n{}", true, false, true, false },
            { "all\nI say.", true, true, false, true },
            { "all\nI say.>>>ping\n{}", true, true, false, false },
            { "all\nI >> say.>>>all\nIt", true, true, false, true },
            { "ping\n{}>>>all\nIt>>>ping\n{}", true, false, false, false },
            { "pong\n{}", false, false, false, false },
            { "ping\n{\"a\":1}", false, false, false, false },
            { ">>>ping\n{}", false, false, false, false },
            { "all\na >>", true, true, false, true },
            { "all\na >>>>ping\n{}", false, false, false, false },
        };
        for (size_t i = 0; i < CR_COUNT(cases); i++) {
            char text[128];
            snprintf(text, sizeof text, "%s%s", mark, cases[i].text);
            for (int k = 0; k < 4; k++) {
                cera_tool_grammar_options options =
                    options_of("functionary-3.2", k == 2   ? CERA_TOOL_REQUIRED
                                                  : k == 3 ? CERA_TOOL_NONE
                                                           : CERA_TOOL_AUTO);
                options.single_call = k == 1;
                options.prompt = has_prompt ? prompt : NULL;
                options.n_prompt = sizeof prompt - 1;
                cera_grammar *g = make(TOOLS, NULL, &options);
                const bool wanted[] = { cases[i].is_auto, cases[i].is_one, cases[i].is_required,
                                        cases[i].is_none };
                if (accepts(g, text) != wanted[k])
                    fail_msg("choice %d, should %s %s", k, wanted[k] ? "accept" : "refuse", text);
                cera_grammar_free(g);
            }
        }
    }
    const cera_tool_grammar_options options = options_of("functionary-3.2", CERA_TOOL_REQUIRED);
    refuses("[{\"name\": \"all\"}]", &options, CERA_E_UNSUPPORTED,
            "tool all: expected another name, as text follows this one in format functionary-3.2");
}

/* As a parser finds it: from the template, then from the architecture; and by default any call. */
static void finds_the_format(void **state)
{
    (void)state;
    static const char source[] = "{{ '[TOOL_CALLS]' }}";
    cera_template_options how;
    cera_template_options_init(&how);
    how.text = source;
    cera_template *tmpl;
    assert_int_equal(cera_template_new(NULL, &how, &tmpl, NULL), CERA_OK);
    cera_tool_grammar_options options = options_of(NULL, CERA_TOOL_REQUIRED);
    options.arch = "qwen3";
    cera_grammar *g = make(TOOLS, NULL, &options);
    assert_true(accepts(g, "<tool_call>\n" PING "\n</tool_call>"));
    cera_grammar_free(g);
    options.tmpl = tmpl;
    g = make(TOOLS, NULL, &options);
    assert_true(accepts(g, "[TOOL_CALLS][" PING "]"));
    cera_grammar_free(g);
    options.format = "gigachat";
    g = make(TOOLS, NULL, &options);
    assert_true(accepts(g, "<|function_call|>" PING));
    cera_grammar_free(g);
    cera_template_free(tmpl);
}

/* ---- schemas ------------------------------------------------------------------------------ */

#define F(parameters) "[{\"name\": \"f\", \"parameters\": " parameters "}]"

/* Where each argument is written by itself as well, a reference is one into the tool's schema, and a
 * number is the one that the schema has. */
static void keeps_to_schemas(void **state)
{
    (void)state;
    static const char tools[] =
        F("{\"properties\": {\"a\": {\"type\": \"number\", \"minimum\": 0.1, \"maximum\": 0.3}, "
          "\"b\": {\"$ref\": \"#/properties/a\"}, \"c\": {\"$ref\": \"#/$defs/c\"}}, "
          "\"$defs\": {\"c\": {\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/c\"}}}}");
    static const struct {
        const char *format, *before, *a, *b, *c, *behind;
    } forms[] = {
        { "apertus", "<|tools_prefix|>[{\"f\": {",
          "\"a\":", ",\"b\":", ",\"c\":", "}}]<|tools_suffix|>" },
        { "lfm2", "<|tool_call_start|>[f(", "a=", ", b=", ", c=", ")]<|tool_call_end|>" },
        { "glm", "<tool_call>f\n", "<arg_key>a</arg_key>\n<arg_value>",
          "</arg_value>\n<arg_key>b</arg_key>\n<arg_value>",
          "</arg_value>\n<arg_key>c</arg_key>\n<arg_value>", "</arg_value>\n</tool_call>" },
    };
    static const struct {
        const char *a, *b, *c;
        bool is_good;
    } cases[] = {
        { "0.1", "0.3", "[]", true },   { "0.2", "0.25", "[[],[[]]]", true },
        { "0.09", "0.2", "[]", false }, { "0.2", "0.31", "[]", false },
        { "0.2", "0.2", "[1]", false }, { "\"0.2\"", "0.2", "[]", false },
    };
    for (size_t f = 0; f < CR_COUNT(forms); f++) {
        const cera_tool_grammar_options options = options_of(forms[f].format, CERA_TOOL_REQUIRED);
        cera_grammar *g = make(tools, NULL, &options);
        for (size_t i = 0; i < CR_COUNT(cases); i++) {
            char text[512];
            snprintf(text, sizeof text, "%s%s%s%s%s%s%s%s", forms[f].before, forms[f].a, cases[i].a,
                     forms[f].b, cases[i].b, forms[f].c, cases[i].c, forms[f].behind);
            if (accepts(g, text) != cases[i].is_good)
                fail_msg("should %s %s", cases[i].is_good ? "accept" : "refuse", text);
        }
        cera_grammar_free(g);
    }
}

/* What arguments there are may stand behind a reference, or in a choice, where they are one object;
 * there are no others. */
static void finds_arguments_anywhere(void **state)
{
    (void)state;
#define ONE                                                                                        \
    "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}}, \"required\": [\"a\"]}"
#define TWO "{\"properties\": {\"b\": {\"type\": \"boolean\"}}, \"required\": [\"b\"]}"
    static const struct {
        const char *tools, *keyword;
        bool has_b;
    } cases[] = {
        { F("{\"$ref\": \"#/$defs/A\", \"$defs\": {\"A\": " ONE "}}"), "$ref", false },
        { F("{\"allOf\": [" ONE "]}"), "allOf", false },
        { F("{\"type\": \"object\", \"anyOf\": [" ONE ", " TWO "]}"), "anyOf", true },
        { F("{\"type\": [\"object\", \"null\"], \"oneOf\": [" ONE ", " TWO "]}"), "oneOf", true },
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        cera_tool_grammar_options options = options_of("apertus", CERA_TOOL_REQUIRED);
        cera_grammar *g = make(cases[i].tools, NULL, &options);
#define CALL(arguments) "<|tools_prefix|>[{\"f\": " arguments "}]<|tools_suffix|>"
        assert_true(accepts(g, CALL("{\"a\": 1}")));
        assert_int_equal(accepts(g, CALL("{\"b\": true}")), cases[i].has_b);
        assert_false(accepts(g, CALL("{}")));
        assert_false(accepts(g, CALL("null")));
        assert_false(accepts(g, CALL("{\"a\": \"1\"}")));
        assert_false(accepts(g, CALL("{\"a\": 1, \"c\": 1}")));
        cera_grammar_free(g);
        static const char *const formats[] = { "glm", "lfm2" };
        for (size_t k = 0; k < CR_COUNT(formats); k++) {
            char message[256];
            snprintf(message, sizeof message,
                     "tool f: expected properties alone in its parameters, found \"%s\", which "
                     "format %s cannot enforce",
                     cases[i].keyword, formats[k]);
            options.format = formats[k];
            refuses(cases[i].tools, &options, CERA_E_UNSUPPORTED, message);
        }
    }
}

/* What is not understood would be missing in the calls. */
static void refuses_definitions_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *tools, *message;
    } cases[] = {
        { F("[1]"), "tool f: expected an object in parameters" },
        { F("\"x\""), "tool f: expected an object in parameters" },
        { F("true"), "tool f: expected an object in parameters" },
        { F("{\"type\": \"string\"}"), "tool f: expected \"object\" as the type of parameters" },
        { F("{\"type\": [\"string\", \"null\"]}"),
          "tool f: expected \"object\" as the type of parameters" },
        { F("{\"type\": null}"), "tool f: expected \"object\" as the type of parameters" },
        { "[{\"name\": \"ping\"}, {\"name\": \"f\", \"input_schema\": {\"type\": \"object\"}}]",
          "tool f: expected \"parameters\" with the schema of its arguments, found "
          "\"input_schema\"" },
        { "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}, \"parameters\": {}}]",
          "tool f: expected \"parameters\" with the schema of its arguments, found "
          "\"parameters\"" },
        { "[{\"type\": \"custom\", \"name\": \"f\"}]",
          "tool f: expected \"function\" as its type" },
    };
    static const char *const formats[] = { "hermes", "xml", "lfm2" };
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        for (size_t f = 0; f < CR_COUNT(formats); f++) {
            const cera_tool_grammar_options options = options_of(formats[f], CERA_TOOL_REQUIRED);
            refuses(cases[i].tools, &options, CERA_E_ARG, cases[i].message);
        }
        cera_chat_parser_options options;
        cera_chat_parser_options_init(&options);
        options.format = "hermes";
        options.tools = cases[i].tools;
        const cera_chat_sink sink = { 0 };
        cera_chat_parser *parser = NULL;
        cera_error err = { 0 };
        assert_int_equal(cera_chat_parser_new(&options, &sink, &parser, &err), CERA_E_ARG);
        assert_string_equal(err.message, cases[i].message);
    }
    static const char *const without[] = {
        "[{\"name\": \"f\", \"description\": \"\", \"strict\": false}]",
        "[{\"name\": \"f\", \"parameters\": null, \"input_schema\": null}]",
        "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]",
        "[{\"name\": \"f\", \"parameters\": {}, \"return\": {\"type\": \"string\"}}]",
    };
    for (size_t i = 0; i < CR_COUNT(without); i++) {
        const cera_tool_grammar_options options = options_of("apertus", CERA_TOOL_REQUIRED);
        cera_grammar *g = make(without[i], NULL, &options);
        assert_true(accepts(g, CALL("{}")));
        assert_false(accepts(g, CALL("{\"a\": 1}")));
        cera_grammar_free(g);
    }
}

static void refuses_schemas_by_place(void **state)
{
    (void)state;
    static const char *const formats[] = { "hermes", "xml", "lfm2", "dsml" };
    for (size_t f = 0; f < CR_COUNT(formats); f++) {
        const cera_tool_grammar_options options = options_of(formats[f], CERA_TOOL_REQUIRED);
        refuses(
            F("{\"properties\": {\"x\": {\"items\": {\"contains\": {}}}}}"), &options,
            CERA_E_UNSUPPORTED,
            "tool f: schema: #/properties/x/items/contains: expected a keyword that can be "
            "enforced, found contains (no grammar says this, or it is no keyword); leave it out, or "
            "ask for lenient");
        refuses(
            F("{\"properties\": {\"x\": {\"$ref\": \"#/$defs/no\"}}}"), &options, CERA_E_FORMAT,
            "tool f: schema: #/properties/x/$ref: expected what \"#/$defs/no\" points to, found "
            "none");
        refuses(
            F("{\"properties\": {\"x\": {\"type\": \"text\"}}}"), &options, CERA_E_FORMAT,
            "tool f: schema: #/properties/x/type: expected null, boolean, object, array, string, "
            "integer or number");
    }
    const cera_tool_grammar_options xml = options_of("xml", CERA_TOOL_REQUIRED);
    refuses(
        F("{\"anyOf\": [{}]}"), &xml, CERA_E_UNSUPPORTED,
        "tool f: expected properties alone in its parameters, found \"anyOf\", which format xml "
        "cannot enforce");
    refuses(F("{\"properties\": {\"a b\": {}}}"), &xml, CERA_E_UNSUPPORTED,
            "tool f: argument a b: expected a name of letters, digits, _ . and -");
    refuses("[{\"name\": \"a b\"}]", &xml, CERA_E_UNSUPPORTED,
            "tool a b: expected a name of letters, digits, _ . and -");
}

static char last_log[256];

static void keep_log(void *ctx, int level, const char *text)
{
    (void)ctx;
    if (level == 0)
        snprintf(last_log, sizeof last_log, "%s", text);
}

static void leaves_out_where_that_is_wanted(void **state)
{
    (void)state;
    cera_host host;
    cera_host_init(&host);
    host.log = keep_log;
    cera_tool_grammar_options options = options_of("xml", CERA_TOOL_REQUIRED);
    options.host = &host;
    options.lenient = true;
    cera_grammar_free(make(F("{\"anyOf\": [{}]}"), NULL, &options));
    assert_string_equal(last_log, "tool f: not enforced: \"anyOf\" in its parameters");
    cera_grammar_free(make(F("{\"properties\": {\"x\": {\"type\": \"array\", \"contains\": {}}}}"),
                           NULL, &options));
    assert_string_equal(
        last_log,
        "schema: #/properties/x/contains: not enforced: no grammar says this, or it is no keyword");
}

/* ---- arguments ---------------------------------------------------------------------------- */

static void refuses_wrong_arguments(void **state)
{
    (void)state;
    cera_tool_grammar_options options = options_of("hermes", CERA_TOOL_REQUIRED);
    refuses("[{\"name\": \"f\"}, {\"function\": {\"name\": \"\\u0066\"}}]", &options, CERA_E_ARG,
            "tools: expected one of each name, found two of \"f\"");
    refuses("[]", &options, CERA_E_ARG, "tools: expected at least one, found no such tool");
    refuses("[1]", &options, CERA_E_ARG, "tools: expected a name in each tool, found none in 0");
    refuses("{}", &options, CERA_E_ARG, "tools: expected a list, found something else");
    refuses("[{\"name\": \"f\"", &options, CERA_E_ARG,
            "tools: line 1, column 14, at /0/name: expected a , or }");
    refuses("", &options, CERA_E_ARG, "tools: expected at least one, found no such tool");
    options.only = "pong";
    refuses(TOOLS, &options, CERA_E_ARG,
            "tools: expected one of the name pong, found no such tool");
    options.only = NULL;
    options.format = "none";
    refuses(TOOLS, &options, CERA_E_UNSUPPORTED, "format none: its calls cannot be constrained");
    options.format = "gemma4";
    refuses(TOOLS, &options, CERA_E_UNSUPPORTED, "format gemma4: its calls cannot be constrained");
    options.format = NULL; /* nothing tells it */
    refuses(TOOLS, &options, CERA_E_UNSUPPORTED, "format none: its calls cannot be constrained");

    cera_grammar *grammar = NULL;
    cera_error err;
    options.format = "klingon";
    assert_int_equal(cera_grammar_from_tools(TOOLS, 9, NULL, &options, &grammar, &err), CERA_E_ARG);
    assert_non_null(strstr(err.message, "format \"klingon\": expected one of seed"));
    options = options_of("hermes", (cera_tool_choice)3);
    refuses(TOOLS, &options, CERA_E_ARG, "choice: expected 0 to 2, found 3");
    options = options_of("hermes", CERA_TOOL_AUTO);
    options.max_blanks = 65;
    refuses(TOOLS, &options, CERA_E_ARG, "max_blanks: expected 0 to 64, found 65");
    options.max_blanks = 20;
    options.size--;
    assert_int_equal(cera_grammar_from_tools(TOOLS, strlen(TOOLS), NULL, &options, &grammar, &err),
                     CERA_E_ARG);
    assert_non_null(strstr(err.message, "options.size: "));
    options.size++;
    assert_int_equal(cera_grammar_from_tools(NULL, 1, NULL, &options, &grammar, &err), CERA_E_ARG);
    assert_int_equal(cera_grammar_from_tools(TOOLS, strlen(TOOLS), NULL, &options, NULL, &err),
                     CERA_E_ARG);
    assert_null(grammar);
}

static void fails_without_memory(void **state)
{
    (void)state;
    static const char *const formats[] = { "harmony", "xml", "lfm2" };
    for (size_t f = 0; f < CR_COUNT(formats); f++) {
        for (size_t i = 1;; i++) {
            fault_host host;
            fault_init(&host);
            cera_tool_grammar_options options = options_of(formats[f], CERA_TOOL_AUTO);
            options.host = &host.host;
            fault_allocs(&host, i, FAULT_ONCE);
            cera_grammar *grammar = NULL;
            cera_error err = { 0 };
            const cera_status status =
                cera_grammar_from_tools(TOOLS, strlen(TOOLS), NULL, &options, &grammar, &err);
            cera_grammar_free(grammar);
            const char *misuse = fault_check(&host);
            if (misuse != NULL)
                fail_msg("%s: allocation %zu: %s", formats[f], i, misuse);
            const bool reached = fault_hits(&host) > 0;
            fault_done(&host);
            if (!reached) {
                assert_int_equal(status, CERA_OK);
                assert_true(i > 50);
                break;
            }
            if (status != CERA_E_NOMEM)
                fail_msg("%s: allocation %zu: %s", formats[f], i, err.message);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_back_what_it_allows),
        cmocka_unit_test(chooses),
        cmocka_unit_test(keeps_text_behind_calls_apart),
        cmocka_unit_test(goes_on_behind_the_prompt),
        cmocka_unit_test(finds_the_format),
        cmocka_unit_test(keeps_to_schemas),
        cmocka_unit_test(finds_arguments_anywhere),
        cmocka_unit_test(refuses_definitions_by_name),
        cmocka_unit_test(refuses_schemas_by_place),
        cmocka_unit_test(leaves_out_where_that_is_wanted),
        cmocka_unit_test(refuses_wrong_arguments),
        cmocka_unit_test(fails_without_memory),
    };
    return cmocka_run_group_tests(tests, open_vocab, free_vocab);
}

#include "common/tool_grammar.h"

#include "common/free_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A name is no longer than what cera_chat_parser reads as one. */
enum { MAX_CALLS = 16, MAX_NAME = 256 };

/* A bar and a blank that are no ASCII, as DeepSeek's models have them. */
#define BAR "\xEF\xBD\x9C"
#define BLANK "\xE2\x96\x81"
#define DEEPSEEK(what) "<" BAR "tool" BLANK what BAR ">"
#define DSML_CALLS                                                                                 \
    .call = "<" BAR "DSML" BAR "invoke name=\"%n\">\n%t</" BAR "DSML" BAR "invoke>",               \
    .between = "\n",                                                                               \
    .argument = "<" BAR "DSML" BAR "parameter name=\"%k\" string=\"%s\">%v</" BAR "DSML" BAR       \
                "parameter>\n",                                                                    \
    .end = "</" BAR "DSML" BAR "parameter>"
#define HY ":opensource>"

/* How a format is written. In `call`: %n the tool's name, %q the same in quotes, %d a digit, %a all
 * arguments as JSON, %p as Python's, %t each as `argument`. In `argument`: %k its name, %v its
 * value in front of `end`, %s whether it is text. */
typedef struct call_form {
    const char *format;
    const char *open, *close; /* around calls */
    const char *call;
    const char *between; /* calls; NULL: each has its own open and close */
    const char *argument, *end;
    const char *bare, *behind_bare; /* what begins a call without marks, see free_text.h */
    bool is_single;                 /* a reply has one call */
} call_form;

static const call_form forms[] = {
    { "hermes", "<tool_call>\n", "\n</tool_call>", .call = "{\"name\": %q, \"arguments\": %a}" },
    { "lfm2", "<|tool_call_start|>[", "]<|tool_call_end|>", .call = "%n(%p)", .between = ", ",
      .bare = "\\[", .behind_bare = "A-Za-z_ \\t\\r\\n{<\\]" },
    { "mistral", "[TOOL_CALLS][", "]", .call = "{\"name\": %q, \"arguments\": %a}",
      .between = ", " },
    { "granite", "<|tool_call|>[", "]", .call = "{\"name\": %q, \"arguments\": %a}",
      .between = ", " },
    { "phi4", "<|tool_call|>[", "]<|/tool_call|>", .call = "{\"name\": %q, \"arguments\": %a}",
      .between = ", " },
    { "nemotron", "<TOOLCALL>[", "]</TOOLCALL>", .call = "{\"name\": %q, \"arguments\": %a}",
      .between = ", " },
    { "cohere", "<|START_ACTION|>[\n    ", "\n]<|END_ACTION|>",
      .call = "{\"tool_call_id\": \"%d\", \"tool_name\": %q, \"parameters\": %a}",
      .between = ",\n    " },
    { "llama3", "", "", .call = "{\"name\": %q, \"parameters\": %a}", .bare = "{",
      .behind_bare = "\" }\\t\\r\\n", .is_single = true },
    { "functionary", "", "", .call = "<function=%n>%a</function>" },
    { "xml", "<tool_call>\n", "\n</tool_call>", .call = "<function=%n>\n%t</function>",
      .argument = "<parameter=%k>\n%v\n</parameter>\n", .end = "</parameter>" },
    { "seed", "<seed:tool_call>\n", "\n</seed:tool_call>", .call = "<function=%n>\n%t</function>",
      .argument = "<parameter=%k>\n%v\n</parameter>\n", .end = "</parameter>" },
    { "glm", "<tool_call>", "</tool_call>", .call = "%n\n%t",
      .argument = "<arg_key>%k</arg_key>\n<arg_value>%v</arg_value>\n", .end = "</arg_value>" },
    { "minimax", "<minimax:tool_call>\n", "\n</minimax:tool_call>",
      .call = "<invoke name=\"%n\">\n%t</invoke>", .between = "\n",
      .argument = "<parameter name=\"%k\">%v</parameter>\n", .end = "</parameter>" },
    { "dsml", "<" BAR "DSML" BAR "function_calls>\n", "\n</" BAR "DSML" BAR "function_calls>",
      DSML_CALLS },
    { "dsml-v4", "<" BAR "DSML" BAR "tool_calls>\n", "\n</" BAR "DSML" BAR "tool_calls>",
      DSML_CALLS },
    { "minicpm", "", "", .call = "<function name=\"%n\">%t</function>",
      .argument = "<param name=\"%k\">%v</param>", .end = "</param>" },
    { "hy3", "<tool_calls" HY "\n", "\n</tool_calls" HY,
      .call = "<tool_call" HY "%n<tool_sep" HY "\n%t</tool_call" HY, .between = "\n",
      .argument = "<arg_key" HY "%k</arg_key" HY "\n<arg_value" HY "%v</arg_value" HY "\n",
      .end = "</arg_value" HY },
    { "apertus", "<|tools_prefix|>[", "]<|tools_suffix|>", .call = "{%q: %a}", .between = ", " },
    { "apriel", "<tool_calls>[", "]</tool_calls>", .call = "{\"name\": %q, \"arguments\": %a}",
      .between = ", " },
    { "gigachat", "<|function_call|>", "", .call = "{\"name\": %q, \"arguments\": %a}",
      .is_single = true },
    { "command-r", "Action: ```json\n[\n    ", "\n]\n```",
      .call = "{\"tool_name\": %q, \"parameters\": %a}", .between = ",\n    " },
    { "solar", "<|tool_calls|>", "<|calls|>",
      .call = "<|tool_call:begin|>c%d<|tool_call:name|>%n<|tool_call:args|>%a<|tool_call:end|>",
      .between = "" },
    { "deepseek", DEEPSEEK("calls" BLANK "begin"), DEEPSEEK("calls" BLANK "end"),
      .call = DEEPSEEK("call" BLANK "begin") "%n" DEEPSEEK("sep") "%a" DEEPSEEK("call" BLANK "end"),
      .between = "" },
    { "deepseek-r1", DEEPSEEK("calls" BLANK "begin"), DEEPSEEK("calls" BLANK "end"),
      .call = DEEPSEEK("call" BLANK "begin") "function" DEEPSEEK(
          "sep") "%n\n```json\n%a\n```" DEEPSEEK("call" BLANK "end"),
      .between = "\n" },
    { "kimi", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
      .call = "<|tool_call_begin|>functions.%n:%d<|tool_call_argument_begin|>%a<|tool_call_end|>",
      .between = "" },
    { "harmony", "", "",
      .call = "<|channel|>commentary to=functions.%n <|constrain|>json<|message|>%a",
      .is_single = true },
};

typedef struct writer {
    const call_form *form;
    const char *marks[FREE_TEXT_MARKS]; /* the format's; text before calls has none of them */
    const cera_vocab *vocab;
    bytes text;
    cera_error *err;
    size_t n_rules;
    json_t *known;  /* the number of each schema's rules, by their text */
    json_t *shared; /* the names of rules that schemas have in common */
    json_t *names;  /* of the tools so far */
} writer;

static cera_status fail(cera_error *err, cera_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    err->status = status;
    vsnprintf(err->message, sizeof(err->message), format, args);
    va_end(args);
    return status;
}

const json_t *tool_function(const json_t *tool, const char **name)
{
    const json_t *inner = json_object_get(tool, "function");
    const json_t *function = json_is_object(inner) ? inner : tool;
    *name = json_string_value(json_object_get(function, "name"));
    return *name != NULL && **name != '\0' ? function : NULL;
}

/* ---- rules of a schema --------------------------------------------------------------------- */

static bool is_rule_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* The length of what is no rule's name at text: a text, a class, a number of repetitions, or a
 * byte. */
static size_t skip_other(const char *text)
{
    static const char opens[] = "\"[{", closes[] = "\"]}";
    const char *found = strchr(opens, *text);
    if (found == NULL)
        return 1;
    size_t n = 1;
    while (text[n] != '\0' && text[n] != closes[found - opens])
        n += text[n] == '\\' && text[n + 1] != '\0' ? 2 : 1;
    return text[n] != '\0' ? n + 1 : n;
}

/* Whether a schema's rule is its own: the others, which say what JSON is, are the same in all. */
static bool is_own(const char *name, size_t n)
{
    bool is_root = n == 4 && memcmp(name, "root", 4) == 0;
    return is_root || (n > 1 && name[1] >= '0' && name[1] <= '9');
}

/* A grammar's rules with a prefix before each name of its own, so that several fit into one text;
 * the others, which mean the same everywhere, if they are not among the shared ones yet. */
static void append_renamed(bytes *out, const char *text, const char *prefix, json_t *shared)
{
    bool at_line = true, is_left_out = false;
    while (*text != '\0') {
        size_t n = 0;
        while (is_rule_char(text[n]))
            n++;
        if (at_line) {
            is_left_out = !is_own(text, n) && json_object_getn(shared, text, n) != NULL;
            if (!is_own(text, n))
                json_object_setn_new(shared, text, n, json_true());
        }
        if (n > 0 && is_own(text, n))
            bytes_text(out, prefix);
        if (n == 0)
            n = skip_other(text);
        at_line = *text == '\n';
        if (!is_left_out)
            bytes_append(out, text, n);
        text += n;
    }
}

/* Appends the rules of a schema and gives the prefix of their names, of which "root" is one. */
static cera_status add_schema(writer *w, const json_t *schema, const char *tool, char prefix[24])
{
    char *text = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text == NULL)
        bytes_no_memory();
    cera_grammar *grammar = NULL;
    cera_error inner;
    cera_grammar_options options;
    cera_grammar_options_init(&options);
    options.end_tag = w->form->end;
    cera_status status =
        cera_grammar_from_schema(text, strlen(text), NULL, &options, &grammar, &inner);
    free(text);
    if (status != CERA_OK)
        return fail(w->err, status, "tool %.64s: %.400s", tool, inner.message);
    size_t n;
    const char *rules = cera_grammar_text(grammar, &n);
    bytes copy = { 0 };
    bytes_append(&copy, rules, n);
    /* Most arguments are plain strings and numbers: their rules are there once. */
    const json_t *known = json_object_get(w->known, copy.data);
    size_t number = known != NULL ? (size_t)json_integer_value(known) : w->n_rules++;
    snprintf(prefix, 24, "s%zu-", number);
    if (known == NULL)
        json_object_set_new(w->known, copy.data, json_integer((json_int_t)number));
    if (known == NULL)
        append_renamed(&w->text, copy.data, prefix, w->shared);
    bytes_text(&w->text, "\n");
    bytes_done(&copy);
    cera_grammar_free(grammar);
    return CERA_OK;
}

/* ---- calls --------------------------------------------------------------------------------- */

/* A tool takes the arguments that it names and no others, unless it says so. */
static json_t *parameters_of(const json_t *function)
{
    const json_t *given = json_object_get(function, "parameters");
    json_t *schema = json_is_object(given) ? json_deep_copy(given) : json_object();
    if (json_object_get(schema, "type") == NULL)
        json_object_set_new(schema, "type", json_string("object"));
    if (json_object_get(schema, "properties") == NULL)
        json_object_set_new(schema, "properties", json_object());
    if (json_object_get(schema, "additionalProperties") == NULL)
        json_object_set_new(schema, "additionalProperties", json_false());
    return schema;
}

/* The text as JSON, between quotes. */
static void quote(bytes *out, const char *text)
{
    json_t *value = json_string(text);
    char *quoted = value != NULL ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    json_decref(value);
    if (quoted == NULL)
        bytes_no_memory();
    bytes_text(out, quoted);
    free(quoted);
}

/* Names that are written without quotes: of letters, digits and _, and `more`, with a letter
 * first. */
static bool is_name(const char *text, const char *more)
{
    for (const char *c = text; *c != '\0'; c++) {
        bool is_letter = is_rule_char(*c) && *c != '-';
        if (!is_letter && strchr(more, *c) == NULL)
            return false;
    }
    return *text != '\0' && strchr("0123456789.-", *text) == NULL && strlen(text) <= 128;
}

static bool is_required(const json_t *schema, const char *key)
{
    const json_t *list = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name != NULL && strcmp(name, key) == 0)
            return true;
    }
    return false;
}

/* Where each argument is written by itself nothing holds them together but these keywords. */
static cera_status check_arguments(const writer *w, const json_t *schema, const char *name)
{
    static const char *const known[] = { "type",        "properties",  "required",
                                         "$defs",       "definitions", "additionalProperties",
                                         "description", "title",       "$schema",
                                         "default",     "examples",    "$id",
                                         "$comment" };
    const json_t *properties = json_object_get(schema, "properties"), *value;
    const char *key;
    json_object_foreach ((json_t *)schema, key, value) {
        size_t i = 0;
        while (i < sizeof(known) / sizeof(known[0]) && strcmp(known[i], key) != 0)
            i++;
        if (i == sizeof(known) / sizeof(known[0]) && strncmp(key, "x-", 2) != 0)
            return fail(w->err, CERA_E_UNSUPPORTED,
                        "tool %.64s: expected properties alone in its parameters, found \"%.48s\", "
                        "which format %s cannot enforce",
                        name, key, w->form->format);
    }
    const json_t *list = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *wanted = json_string_value(json_array_get(list, i));
        if (wanted == NULL || json_object_get(properties, wanted) == NULL)
            return fail(
                w->err, CERA_E_UNSUPPORTED,
                "tool %.64s: expected properties to say what \"%.64s\" is, which is required", name,
                wanted != NULL ? wanted : "");
    }
    const bool is_python = w->form->argument == NULL;
    json_object_foreach ((json_t *)properties, key, value) {
        if (!is_name(key, is_python ? "" : ".-"))
            return fail(w->err, CERA_E_UNSUPPORTED,
                        "tool %.64s, argument %.64s: expected a name %s", name, key,
                        is_python ? "as Python has them" : "of letters, digits, _ . and -");
    }
    return CERA_OK;
}

/* The schema of an argument, with what it may refer to. */
static json_t *alone(const json_t *schema, json_t *property)
{
    static const char *const shared[] = { "$defs", "definitions" };
    json_t *copy = json_is_object(property) ? json_deep_copy(property) : json_incref(property);
    for (size_t s = 0; s < 2 && json_is_object(copy); s++) {
        if (json_object_get(copy, shared[s]) == NULL)
            json_object_set(copy, shared[s], json_object_get(schema, shared[s]));
    }
    return copy;
}

/* Appends a text with %n and the like as parts of a rule; what they stand for is in `values`,
 * behind the letters of `letters`: plain text, or names of rules for capital letters. */
static void append_form(writer *w, const char *form, const char *letters, const char *const *values)
{
    bytes literal = { 0 };
    bytes_text(&literal, "");
    for (; *form != '\0'; form++) {
        const char *found = *form == '%' ? strchr(letters, form[1]) : NULL;
        if (found == NULL) {
            bytes_append(&literal, form, 1);
            continue;
        }
        const char *value = values[found - letters];
        form++;
        if (strchr("apvtd", *form) == NULL) {
            bytes_text(&literal, value);
            continue;
        }
        free_text_mark(&w->text, w->vocab, literal.data);
        bytes_printf(&w->text, " %s ", value);
        literal.size = 0;
        literal.data[0] = '\0';
    }
    free_text_mark(&w->text, w->vocab, literal.data);
    bytes_done(&literal);
}

/* Arguments one after the other: of Python's k, and of the rest behind it, there are two rules, as
 * a comma is due or not. */
static cera_status add_arguments(writer *w, json_t *schema, const char *name, size_t i)
{
    static const char *const kinds[] = { "first", "next" };
    json_t *properties = json_object_get(schema, "properties"), *property;
    const char *key;
    const bool is_python = w->form->argument == NULL;
    size_t k = 0;
    cera_status status = check_arguments(w, schema, name);
    if (status != CERA_OK)
        return status;
    json_object_foreach (properties, key, property) {
        char prefix[24], rule[32];
        json_t *one = alone(schema, property);
        status = add_schema(w, one, name, prefix);
        json_decref(one);
        if (status != CERA_OK)
            return status;
        snprintf(rule, sizeof(rule), "%sroot", prefix);
        const char *type = json_string_value(json_object_get(property, "type"));
        const char *const values[] = { key, rule,
                                       type != NULL && strcmp(type, "string") == 0 ? "true"
                                                                                   : "false" };
        for (size_t s = 0; s < (is_python ? 2 : 1); s++) {
            bytes_printf(&w->text, "c%zu-%zu-%s ::= ", i, k, kinds[s]);
            if (s == 1)
                bytes_text(&w->text, "\", \" ");
            append_form(w, is_python ? "%k=%v" : w->form->argument, "kvs", values);
            bytes_printf(&w->text, " c%zu-%zu-%s", i, k + 1, kinds[is_python ? 1 : 0]);
            if (!is_required(schema, key))
                bytes_printf(&w->text, " | c%zu-%zu-%s", i, k + 1, kinds[s]);
            bytes_text(&w->text, "\n");
        }
        k++;
    }
    bytes_printf(&w->text, "c%zu-%zu-first ::= \"\"\n", i, k);
    if (k > 0 && is_python)
        bytes_printf(&w->text, "c%zu-%zu-next ::= \"\"\n", i, k);
    return CERA_OK;
}

static cera_status add_call(writer *w, json_t *schema, const char *name, size_t i)
{
    const char *call = w->form->call;
    const bool is_python = strstr(call, "%p") != NULL, is_tagged = strstr(call, "%t") != NULL;
    if (strstr(call, "%n") != NULL && !is_name(name, is_python ? "" : ".-"))
        return fail(w->err, CERA_E_UNSUPPORTED, "tool %.64s: expected a name %s", name,
                    is_python ? "as Python has them" : "of letters, digits, _ . and -");
    if (strlen(name) > MAX_NAME)
        return fail(w->err, CERA_E_UNSUPPORTED, "tool %.64s: expected a name of at most %d bytes",
                    name, MAX_NAME);
    char prefix[24], rule[48];
    cera_status status = is_python || is_tagged ? add_arguments(w, schema, name, i)
                                                : add_schema(w, schema, name, prefix);
    if (status != CERA_OK)
        return status;
    if (is_python || is_tagged)
        snprintf(rule, sizeof(rule), "c%zu-0-first", i);
    else
        snprintf(rule, sizeof(rule), "%sroot", prefix);
    bytes quoted = { 0 };
    quote(&quoted, name);
    const char *const values[] = { name, quoted.data, "[0-9]", rule, rule, rule };
    bytes_printf(&w->text, "call%zu ::= ", i);
    append_form(w, call, "nqdapt", values);
    bytes_text(&w->text, "\n");
    bytes_done(&quoted);
    return CERA_OK;
}

/* ---- around the calls ---------------------------------------------------------------------- */

/* A tool that was named is called once; of others a model may call several, but not go on for
 * ever. */
static void add_root(writer *w, const char *only, tool_choice choice)
{
    const call_form *form = w->form;
    const bool is_one = only != NULL || form->is_single;
    bytes_text(&w->text, "calls ::= call");
    if (form->between != NULL && !is_one) {
        bytes_text(&w->text, " (");
        free_text_mark(&w->text, w->vocab, form->between);
        bytes_printf(&w->text, " call){0,%d}", MAX_CALLS - 1);
    }
    bytes_text(&w->text, "\nsection ::= ");
    free_text_mark(&w->text, w->vocab, form->open);
    bytes_text(&w->text, "calls");
    free_text_mark(&w->text, w->vocab, form->close);
    bytes_text(&w->text, "\n");
    if (choice == TOOL_REQUIRED) {
        bytes_text(&w->text, "root ::= section");
        if (form->between == NULL && !is_one)
            bytes_printf(&w->text, " (\"\\n\" section){0,%d}", MAX_CALLS - 1);
        bytes_text(&w->text, "\n");
        return;
    }
    free_text_rules(&w->text, &(free_text){ .vocab = w->vocab,
                                            .marks = w->marks,
                                            .bare = form->bare,
                                            .behind_bare = form->behind_bare });
    bytes_text(&w->text, "marked ::= ");
    if (*form->open == '\0' && form->bare != NULL) /* the usual form has no mark */
        free_text_mark(&w->text, w->vocab, w->marks[0]);
    bytes_text(&w->text, "section\nroot ::= begin (marked free0)*");
    if (form->bare != NULL)
        bytes_printf(&w->text, " | [ \\t\\r\\n]* %s", *form->open == '\0' ? "call" : "bare");
    bytes_text(&w->text, "\n");
    if (form->bare != NULL && *form->open != '\0')
        bytes_text(&w->text, "bare ::= \"[\" calls \"]\"\n");
}

static cera_status write_grammar(writer *w, const json_t *tools, const char *only,
                                 tool_choice choice)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const char *name;
        const json_t *function = tool_function(json_array_get(tools, i), &name);
        if (function == NULL)
            return fail(w->err, CERA_E_ARG, "tools: expected a name in each, found none in %zu", i);
        if (json_object_get(w->names, name) != NULL)
            return fail(w->err, CERA_E_ARG, "tools: expected one of each name, found two of %.64s",
                        name);
        json_object_set_new(w->names, name, json_true());
        if (only != NULL && strcmp(only, name) != 0)
            continue;
        json_t *schema = parameters_of(function);
        cera_status status = add_call(w, schema, name, n);
        json_decref(schema);
        if (status != CERA_OK)
            return status;
        n++;
    }
    if (n == 0)
        return fail(w->err, CERA_E_ARG, "tools: expected %s%.64s, found no such tool",
                    only != NULL ? "one of the name " : "at least one", only != NULL ? only : "");
    bytes_text(&w->text, "call ::= call0");
    for (size_t i = 1; i < n; i++)
        bytes_printf(&w->text, " | call%zu", i);
    bytes_text(&w->text, "\n");
    add_root(w, only, choice);
    return CERA_OK;
}

cera_status tool_grammar_open(const json_t *tools, const char *only, const char *format,
                              tool_choice choice, const cera_vocab *vocab, cera_grammar **out,
                              cera_error *err)
{
    writer w = { .vocab = vocab, .err = err };
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (strcmp(forms[i].format, format) == 0)
            w.form = &forms[i];
    }
    if (w.form == NULL)
        return fail(err, CERA_E_UNSUPPORTED, "format %s: its calls cannot be constrained", format);
    for (size_t i = 0; i < FREE_TEXT_MARKS; i++)
        w.marks[i] = cera_chat_format_mark(format, i);
    w.known = json_object();
    w.shared = json_object();
    w.names = json_object();
    cera_status status = write_grammar(&w, tools, only, choice);
    cera_host host; /* without a log: that not all rules are used is our business */
    cera_host_init(&host);
    cera_grammar_options options;
    cera_grammar_options_init(&options);
    options.host = &host;
    if (status == CERA_OK)
        status = cera_grammar_from_gbnf(w.text.data, w.text.size, vocab, &options, out, err);
    bytes_done(&w.text);
    json_decref(w.known);
    json_decref(w.shared);
    json_decref(w.names);
    return status;
}

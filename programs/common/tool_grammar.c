#include "common/tool_grammar.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CALLS = 16 };

/* How calls are written, as parts of GBNF texts. MARK stands for the mark's token, or its text. */
typedef struct call_form {
    const char *format;
    const char *open, *close; /* marks; NULL: none */
    const char *before, *between, *after;
    const char *arguments; /* the key of a JSON call's arguments; NULL: f(a=1) */
} call_form;

static const call_form forms[] = {
    { "hermes", "<tool_call>", "</tool_call>", "\\n", NULL, "\\n", "arguments" },
    { "lfm2", "<|tool_call_start|>", "<|tool_call_end|>", "[", ", ", "]", NULL },
    { "mistral", "[TOOL_CALLS]", NULL, "[", ", ", "]", "arguments" },
    { "granite", "<|tool_call|>", NULL, "[", ", ", "]", "arguments" },
    { "llama3", NULL, NULL, "", NULL, "", "parameters" },
};

typedef struct writer {
    const call_form *form;
    const cera_vocab *vocab;
    bytes text;
    cera_error *err;
    size_t n_rules;
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

/* Bytes between the quotes of a GBNF text. */
static void append_literal(bytes *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7F)
            bytes_printf(out, "\\x%02X", (unsigned)c);
        else
            bytes_append(out, &text[i], 1);
    }
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

/* A grammar's rules with a prefix before each name, so that several fit into one text. */
static void append_renamed(bytes *out, const char *text, const char *prefix)
{
    while (*text != '\0') {
        size_t n = 0;
        while (is_rule_char(text[n]))
            n++;
        if (n > 0)
            bytes_text(out, prefix);
        else
            n = skip_other(text);
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
    cera_status status = cera_grammar_from_schema(text, strlen(text), NULL, NULL, &grammar, &inner);
    free(text);
    if (status != CERA_OK)
        return fail(w->err, status, "tool %.64s: %.400s", tool, inner.message);
    snprintf(prefix, 24, "s%zu-", w->n_rules++);
    size_t n;
    const char *rules = cera_grammar_text(grammar, &n);
    bytes copy = { 0 };
    bytes_append(&copy, rules, n);
    append_renamed(&w->text, copy.data, prefix);
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

static cera_status add_json_call(writer *w, const json_t *schema, const char *name, size_t i)
{
    char prefix[24];
    cera_status status = add_schema(w, schema, name, prefix);
    if (status != CERA_OK)
        return status;
    json_t *value = json_string(name);
    char *quoted = value != NULL ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    json_decref(value);
    if (quoted == NULL)
        bytes_no_memory();
    bytes_printf(&w->text, "call%zu ::= \"{\\\"name\\\": ", i);
    append_literal(&w->text, quoted, strlen(quoted));
    bytes_printf(&w->text, ", \\\"%s\\\": \" %sroot \"}\"\n", w->form->arguments, prefix);
    free(quoted);
    return CERA_OK;
}

static bool is_identifier(const char *text)
{
    if (*text >= '0' && *text <= '9')
        return false;
    for (const char *c = text; *c != '\0'; c++) {
        if (!is_rule_char(*c) || *c == '-')
            return false;
    }
    return *text != '\0';
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

/* f(a=1, b="x"). For argument k of call i there are two rules for the rest of the list from there:
 * one where nothing stands before it, one where a comma is due. */
static cera_status add_python_call(writer *w, json_t *schema, const char *name, size_t i)
{
    static const char *const kinds[] = { "first", "next" };
    json_t *properties = json_object_get(schema, "properties"), *property;
    const char *key;
    size_t k = 0;
    if (!is_identifier(name))
        return fail(w->err, CERA_E_UNSUPPORTED, "tool %.64s: expected a name as Python has them",
                    name);
    json_object_foreach (properties, key, property) {
        if (!is_identifier(key))
            return fail(w->err, CERA_E_UNSUPPORTED,
                        "tool %.64s, argument %.64s: expected a name as Python has them", name,
                        key);
        char prefix[24];
        json_t *alone = json_is_object(property) ? json_deep_copy(property) : json_incref(property);
        static const char *const shared[] = { "$defs", "definitions" };
        for (size_t s = 0; s < 2 && json_is_object(alone); s++)
            json_object_set(alone, shared[s], json_object_get(schema, shared[s]));
        cera_status status = add_schema(w, alone, name, prefix);
        json_decref(alone);
        if (status != CERA_OK)
            return status;
        for (size_t s = 0; s < 2; s++) {
            bytes_printf(&w->text, "c%zu-%zu-%s ::= \"%s%s=\" %sroot c%zu-%zu-next", i, k, kinds[s],
                         s == 0 ? "" : ", ", key, prefix, i, k + 1);
            if (!is_required(schema, key))
                bytes_printf(&w->text, " | c%zu-%zu-%s", i, k + 1, kinds[s]);
            bytes_text(&w->text, "\n");
        }
        k++;
    }
    bytes_printf(&w->text, "c%zu-%zu-first ::= \"\"\n", i, k);
    if (k > 0)
        bytes_printf(&w->text, "c%zu-%zu-next ::= \"\"\n", i, k);
    bytes_printf(&w->text, "call%zu ::= \"%s(\" c%zu-0-first \")\"\n", i, name, i);
    return CERA_OK;
}

/* ---- around the calls ---------------------------------------------------------------------- */

/* The id of a mark that is one token, or -1. */
static int32_t mark_token(const writer *w, const char *mark)
{
    cera_encode_options options;
    cera_encode_options_init(&options);
    options.parse_special = true;
    options.add_bos = false;
    int32_t *ids = NULL, id = -1;
    size_t n = 0;
    cera_error err;
    if (w->vocab == NULL ||
        cera_vocab_encode(w->vocab, mark, strlen(mark), &options, &ids, &n, &err) != CERA_OK)
        return -1;
    if (n == 1)
        id = ids[0];
    cera_vocab_free_ids(w->vocab, ids, n);
    return id;
}

static void append_mark(writer *w, const char *mark)
{
    if (mark == NULL)
        return;
    int32_t id = mark_token(w, mark);
    if (id >= 0) {
        bytes_printf(&w->text, " <[%d]>", (int)id);
    } else {
        bytes_text(&w->text, " \"");
        append_literal(&w->text, mark, strlen(mark));
        bytes_text(&w->text, "\"");
    }
}

/* A tool that was named is called once; of others a model may call several, but not go on for
 * ever. */
static cera_status add_root(writer *w, const char *only, tool_choice choice)
{
    const call_form *form = w->form;
    bytes_text(&w->text, "section ::=");
    append_mark(w, form->open);
    bytes_printf(&w->text, " \"%s\" call", form->before);
    if (form->between != NULL && only == NULL)
        bytes_printf(&w->text, " (\"%s\" call){0,%d}", form->between, MAX_CALLS - 1);
    bytes_printf(&w->text, " \"%s\"", form->after);
    append_mark(w, form->close);
    bytes_text(&w->text, "\n");
    if (choice == TOOL_REQUIRED) {
        bytes_text(&w->text, "root ::= section");
        if (form->between == NULL && form->close != NULL && only == NULL)
            bytes_printf(&w->text, " (\"\\n\" section){0,%d}", MAX_CALLS - 1);
        bytes_text(&w->text, "\n");
        return CERA_OK;
    }
    int32_t open = form->open != NULL ? mark_token(w, form->open) : -1;
    if (open < 0)
        return fail(w->err, CERA_E_UNSUPPORTED,
                    "format %s: expected a mark of calls that is one token of the model, found "
                    "none; without it only a required call can be constrained",
                    form->format);
    bytes_printf(&w->text, "root ::= text (section text)*\ntext ::= (!<[%d]>)*\n", (int)open);
    return CERA_OK;
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
        if (only != NULL && strcmp(only, name) != 0)
            continue;
        json_t *schema = parameters_of(function);
        cera_status status = w->form->arguments != NULL ? add_json_call(w, schema, name, n)
                                                        : add_python_call(w, schema, name, n);
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
    return add_root(w, only, choice);
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
        return fail(
            err, CERA_E_UNSUPPORTED,
            "format %s: its calls cannot be constrained; hermes, lfm2, mistral, granite and "
            "llama3 can",
            format);
    cera_status status = write_grammar(&w, tools, only, choice);
    cera_host host; /* without a log: that not all rules are used is our business */
    cera_host_init(&host);
    cera_grammar_options options;
    cera_grammar_options_init(&options);
    options.host = &host;
    if (status == CERA_OK)
        status = cera_grammar_from_gbnf(w.text.data, w.text.size, vocab, &options, out, err);
    bytes_done(&w.text);
    return status;
}

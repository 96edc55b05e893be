#include "chat/tool_grammar.h"

#include "chat/literal.h"
#include "chat/tools.h"
#include "grammar/free_text.h"
#include "grammar/schema.h"

#include <stdio.h>

/* A name is no longer than what is read as one (calls_internal.h). */
enum { MAX_CALLS = 16, MAX_NAME = 256, MAX_BARE_NAME = 128, PREFIX = 24 };

/* What holds for arguments beside the tool's schema, which # is: they are an object, and there are
 * no others than it names, unless it says so, as what has `properties` is closed. To say that there
 * are no others would take away what a reference or an anyOf in it names. */
static const char closed[] = "{\"type\": \"object\", \"properties\": {}, \"$ref\": \"#\"}";

typedef struct writer {
    const cr_tool_grammar_options *options;
    const cr_call_form *form;
    bool is_opened; /* the prompt ends with the first opener */
    bool is_python; /* arguments are written as Python's */
    bool is_tagged; /* each argument is written by itself */
    cr_schema_options schema;
    const cr_json *closed;
    char end_tag[CR_SCHEMA_MAX_TAG + 1];
    cr_host *host;
    cr_arena arena;
    cr_gbnf_text out;
    cr_buf known;  /* cr_str each: of schemas, whose number is that of their rules' prefix */
    cr_buf shared; /* cr_str each: the names of rules that schemas have in common */
    cera_error *err;
} writer;

/* What a letter of a form stands for: plain text, or a rule. */
typedef struct part {
    char letter;
    bool is_rule;
    cr_str text;
} part;

/* As cr_fail, about a tool. */
static cera_status fail(const writer *w, cr_str tool, cera_status status, const char *format, ...)
    CR_PRINTF(4, 5);
static cera_status fail(const writer *w, cr_str tool, cera_status status, const char *format, ...)
{
    char line[400];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    return cr_fail(w->err, status, "tool %.*s: %s", (int)CR_MIN(tool.size, (size_t)64), tool.data,
                   line);
}

/* ---- lists of texts ------------------------------------------------------------------------- */

static size_t count_texts(const cr_buf *list)
{
    return list->size / sizeof(cr_str);
}

/* The number of a text in a list; behind the last one when it is not there. */
static size_t find_text(const cr_buf *list, cr_str text)
{
    const cr_str *texts = (const cr_str *)(const void *)list->data;
    size_t i = 0;
    while (i < count_texts(list) && !cr_str_same(texts[i], text))
        i++;
    return i;
}

static void keep_text(writer *w, cr_buf *list, cr_str text)
{
    const cr_str copy = { cr_arena_copy(&w->arena, text.data, text.size), text.size };
    if (copy.data == NULL || !cr_buf_append(list, &copy, sizeof copy))
        w->out.no_memory = true;
}

/* ---- rules of a schema --------------------------------------------------------------------- */

static bool is_rule_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* The length of what is no rule's name at the beginning of a text: a text between quotes, a class,
 * a number of repetitions, or a byte. */
static size_t skip_other(cr_str text)
{
    static const char opens[] = "\"[{", closes[] = "\"]}";
    const char *found = memchr(opens, text.data[0], sizeof opens - 1);
    if (found == NULL)
        return 1;
    size_t n = 1;
    while (n < text.size && text.data[n] != closes[found - opens])
        n += text.data[n] == '\\' ? 2 : 1;
    return CR_MIN(n + 1, text.size);
}

/* Whether a schema's rule is its own: the others, which say what JSON is, are the same in all. */
static bool is_own(cr_str name)
{
    return cr_str_is(name, "root") || (name.size > 1 && name.data[1] >= '0' && name.data[1] <= '9');
}

/* A grammar's rules with a prefix before each name of its own, so that several fit into one text;
 * the others, which mean the same everywhere, if they are not among the shared ones yet. */
static void append_renamed(writer *w, cr_str rules, const char *prefix)
{
    bool at_line = true, is_left_out = false;
    for (size_t at = 0, n; at < rules.size; at += n) {
        const cr_str rest = { rules.data + at, rules.size - at };
        n = 0;
        while (n < rest.size && is_rule_char(rest.data[n]))
            n++;
        const cr_str name = { rest.data, n };
        if (at_line) {
            const bool is_shared = !is_own(name);
            is_left_out = is_shared && find_text(&w->shared, name) < count_texts(&w->shared);
            if (is_shared && !is_left_out)
                keep_text(w, &w->shared, name);
        }
        if (n == 0)
            n = skip_other(rest);
        else if (is_own(name))
            cr_gbnf_put(&w->out, "%s", prefix);
        at_line = rest.data[0] == '\n';
        if (!is_left_out)
            cr_gbnf_append(&w->out, (cr_str){ rest.data, n });
    }
}

/* Appends the rules of a schema in the document `root` and gives the prefix of their names, of which
 * "root" is one. */
static cera_status add_schema(writer *w, const cr_json *root, const cr_json *schema, cr_str tool,
                              char prefix[PREFIX])
{
    cr_buf rules;
    cera_error inner = { 0 };
    cr_buf_init(&rules, w->host, CR_MEM_SCRATCH);
    const cera_status status = cr_schema_to_gbnf(root, schema, &w->schema, w->host, &rules, &inner);
    if (status == CERA_OK) {
        /* Most arguments are plain strings and numbers: their rules are there once. */
        const cr_str text = { rules.data, rules.size };
        const size_t number = find_text(&w->known, text);
        snprintf(prefix, PREFIX, "s%zu-", number);
        if (number == count_texts(&w->known)) {
            keep_text(w, &w->known, text);
            append_renamed(w, text, prefix);
        }
        cr_gbnf_put(&w->out, "\n");
    }
    cr_buf_done(&rules);
    return status == CERA_OK ? status : fail(w, tool, status, "%s", inner.message);
}

/* ---- forms ---------------------------------------------------------------------------------- */

/* Appends a form as parts of a rule. */
static void put_form(writer *w, const char *form, const part *parts, size_t n_parts)
{
    cr_buf literal;
    cr_buf_init(&literal, w->host, CR_MEM_SCRATCH);
    for (; *form != '\0'; form++) {
        const part *found = NULL;
        for (size_t i = 0; i < n_parts && *form == '%'; i++)
            if (parts[i].letter == form[1])
                found = &parts[i];
        if (found != NULL)
            form++;
        if (found != NULL && found->is_rule) {
            cr_gbnf_put_mark(&w->out, (cr_str){ literal.data, literal.size });
            cr_gbnf_put(&w->out, " ");
            cr_gbnf_append(&w->out, found->text);
            cr_gbnf_put(&w->out, " ");
            literal.size = 0;
            continue;
        }
        const cr_str text = found != NULL ? found->text : (cr_str){ form, 1 };
        w->out.no_memory = !cr_buf_append(&literal, text.data, text.size) || w->out.no_memory;
    }
    cr_gbnf_put_mark(&w->out, (cr_str){ literal.data, literal.size });
    cr_buf_done(&literal);
}

/* What ends an argument: the tag behind its value. */
static void find_end_tag(writer *w)
{
    const char *value = strstr(w->form->argument, "%v"), *begin = strchr(value, '<');
    snprintf(w->end_tag, sizeof w->end_tag, "%.*s", (int)(strrchr(begin, '>') + 1 - begin), begin);
    w->schema.end_tag = w->end_tag;
}

/* ---- calls --------------------------------------------------------------------------------- */

/* Names that are written without quotes: of letters, digits and _, and `more`, with a letter
 * first. */
static bool is_name(cr_str name, const char *more)
{
    for (size_t i = 0; i < name.size; i++) {
        const char c = name.data[i];
        const bool is_letter = is_rule_char(c) && c != '-';
        if (!is_letter && (c == '\0' || strchr(more, c) == NULL))
            return false;
    }
    return name.size > 0 && name.size <= MAX_BARE_NAME &&
           memchr("0123456789.-", name.data[0], 12) == NULL;
}

/* argument: whose name it is; NULL: the tool's. */
static cera_status check_name(const writer *w, cr_str tool, const cr_str *argument)
{
    const cr_str name = argument != NULL ? *argument : tool;
    if (is_name(name, w->is_python ? "" : ".-"))
        return CERA_OK;
    const char *expected = w->is_python ? "as Python has them" : "of letters, digits, _ . and -";
    if (argument == NULL)
        return fail(w, tool, CERA_E_UNSUPPORTED, "expected a name %s", expected);
    return fail(w, tool, CERA_E_UNSUPPORTED, "argument %.*s: expected a name %s",
                (int)CR_MIN(name.size, (size_t)64), name.data, expected);
}

static bool is_required(const cr_json *schema, cr_str key)
{
    const cr_json *name = cr_json_first(cr_json_get(schema, "required"), CR_JSON_ARRAY);
    while (name != NULL && !(name->kind == CR_JSON_STRING && cr_str_same(name->text, key)))
        name = name->next;
    return name != NULL;
}

/* Where each argument is written by itself nothing holds them together but these keywords. */
static bool is_known(cr_str keyword)
{
    static const char *const known[] = { "type",        "properties",  "required",
                                         "$defs",       "definitions", "additionalProperties",
                                         "description", "title",       "$schema",
                                         "default",     "examples",    "$id",
                                         "$comment" };
    size_t i = 0;
    while (i < CR_COUNT(known) && !cr_str_is(keyword, known[i]))
        i++;
    return i < CR_COUNT(known) || (keyword.size > 1 && memcmp(keyword.data, "x-", 2) == 0);
}

static cera_status check_arguments(const writer *w, const cr_json *schema, cr_str tool)
{
    for (const cr_json *k = schema->first; k != NULL; k = k->next) {
        if (is_known(k->key))
            continue;
        const int n = (int)CR_MIN(k->key.size, (size_t)48);
        if (!w->options->lenient)
            return fail(w, tool, CERA_E_UNSUPPORTED,
                        "expected properties alone in its parameters, found \"%.*s\", which format "
                        "%s cannot enforce",
                        n, k->key.data, w->options->format->name);
        cr_log(w->host, 0, "tool %.*s: not enforced: \"%.*s\" in its parameters",
               (int)CR_MIN(tool.size, (size_t)64), tool.data, n, k->key.data);
    }
    const cr_json *properties = cr_json_get(schema, "properties");
    const cr_json *name = cr_json_first(cr_json_get(schema, "required"), CR_JSON_ARRAY);
    for (; name != NULL; name = name->next) {
        const cr_str text = cr_json_str(name);
        if (cr_json_get_str(properties, text) == NULL)
            return fail(w, tool, CERA_E_UNSUPPORTED,
                        "expected properties to say what \"%.*s\" is, which is required",
                        (int)CR_MIN(text.size, (size_t)64), text.data);
    }
    const cr_json *property = cr_json_first(properties, CR_JSON_OBJECT);
    for (; property != NULL; property = property->next)
        CR_TRY(check_name(w, tool, &property->key));
    return CERA_OK;
}

/* Arguments one after the other: of Python's k, and of the rest behind it, there are two rules, as
 * a comma is due or not. */
static cera_status add_arguments(writer *w, const cr_json *schema, cr_str tool, size_t i)
{
    static const char *const kinds[] = { "first", "next" };
    const cr_json *property = cr_json_first(cr_json_get(schema, "properties"), CR_JSON_OBJECT);
    size_t k = 0;
    CR_TRY(check_arguments(w, schema, tool));
    for (; property != NULL; property = property->next, k++) {
        char prefix[PREFIX], rule[PREFIX + 8];
        CR_TRY(add_schema(w, schema, property, tool, prefix));
        snprintf(rule, sizeof rule, "%sroot", prefix);
        const bool is_text = cr_str_is(cr_json_str(cr_json_get(property, "type")), "string");
        const part parts[] = { { 'k', false, property->key },
                               { 'v', true, cr_str_from(rule) },
                               { 's', false, cr_str_from(is_text ? "true" : "false") } };
        for (size_t s = 0; s < (w->is_python ? 2 : 1); s++) {
            cr_gbnf_put(&w->out, "c%zu-%zu-%s ::= %s", i, k, kinds[s], s == 1 ? "\", \" " : "");
            put_form(w, w->is_python ? "%k=%v" : w->form->argument, parts, CR_COUNT(parts));
            cr_gbnf_put(&w->out, " c%zu-%zu-%s", i, k + 1, kinds[w->is_python ? 1 : 0]);
            if (!is_required(schema, property->key))
                cr_gbnf_put(&w->out, " | c%zu-%zu-%s", i, k + 1, kinds[s]);
            cr_gbnf_put(&w->out, "\n");
        }
    }
    cr_gbnf_put(&w->out, "c%zu-%zu-first ::= \"\"\n", i, k);
    if (k > 0 && w->is_python)
        cr_gbnf_put(&w->out, "c%zu-%zu-next ::= \"\"\n", i, k);
    return CERA_OK;
}

static cera_status add_call(writer *w, const cr_json *function, cr_str name, size_t i)
{
    const char *call = w->form->call;
    if (strstr(call, "%n") != NULL)
        CR_TRY(check_name(w, name, NULL));
    if (w->form->text != NULL && cr_str_is(name, w->form->text))
        return fail(w, name, CERA_E_UNSUPPORTED,
                    "expected another name, as text follows this one "
                    "in format %s",
                    w->options->format->name);
    if (name.size > MAX_NAME)
        return fail(w, name, CERA_E_UNSUPPORTED, "expected a name of at most %d bytes", MAX_NAME);
    static const cr_json none = { .kind = CR_JSON_OBJECT };
    const cr_json *schema = cr_json_get(function, "parameters");
    if (!cr_json_is(schema, CR_JSON_OBJECT))
        schema = &none;
    char prefix[PREFIX], rule[PREFIX + 24];
    if (w->is_python || w->is_tagged) {
        CR_TRY(add_arguments(w, schema, name, i));
        snprintf(rule, sizeof rule, "c%zu-0-first", i);
    } else {
        CR_TRY(add_schema(w, schema, w->closed, name, prefix));
        snprintf(rule, sizeof rule, "%sroot", prefix);
    }
    cr_buf quoted;
    cr_buf_init(&quoted, w->host, CR_MEM_SCRATCH);
    w->out.no_memory = !cr_json_quote(&quoted, name) || w->out.no_memory;
    const cr_str arguments = cr_str_from(rule);
    const part parts[] = {
        { 'n', false, name },          { 'q', false, { quoted.data, quoted.size } },
        { 'd', true, { "[0-9]", 5 } }, { 'a', true, arguments },
        { 'p', true, arguments },      { 't', true, arguments }
    };
    cr_gbnf_put(&w->out, "call%zu ::= ", i);
    put_form(w, call, parts, CR_COUNT(parts));
    cr_gbnf_put(&w->out, "\n");
    cr_buf_done(&quoted);
    return CERA_OK;
}

/* ---- around the calls ---------------------------------------------------------------------- */

/* What the model says when it need not call anything, without what begins calls, but for `behind`
 * (NULL: nothing) behind the first opener. */
static void add_free_text(writer *w, const char *behind)
{
    const cr_chat_format *format = w->options->format;
    cr_free_text text = { .bare = format->bare,
                          .behind_bare = w->form->behind_bare,
                          .behind = behind };
    for (size_t i = 0; i < CR_FREE_TEXT_MARKS; i++)
        text.marks[i] = cr_chat_format_opener(format, i);
    cr_free_text_rules(&w->out, &text);
}

/* The section of calls, and "calls" in it. A tool that was named is called once; of others a model
 * may call several, but not go on for ever. */
static void add_section(writer *w, bool is_one)
{
    const cr_call_form *form = w->form;
    const cr_chat_format *format = w->options->format;
    const char *opener = cr_chat_format_opener(format, 0), *closer = format->closers[0];
    const part parts[] = { { 'o', false, cr_str_from(opener != NULL ? opener : "") },
                           { 'c', true, cr_str_from("calls") },
                           { 'e', false, cr_str_from(closer != NULL ? closer : "") } };
    cr_gbnf_put(&w->out, "calls ::= call");
    if (form->between != NULL && !is_one) {
        cr_gbnf_put(&w->out, " (");
        put_form(w, form->between, parts, CR_COUNT(parts));
        cr_gbnf_put(&w->out, " call){0,%d}", MAX_CALLS - 1);
    }
    cr_gbnf_put(&w->out, "\nsection ::= ");
    put_form(w, form->section, parts, CR_COUNT(parts));
    cr_gbnf_put(&w->out, "\n");
}

/* Where the opener is in front of text as well, which a name says. Openers like >>> cannot be told
 * from the end of the text before them, so what follows them is part of the rules for text. */
static void add_named_text(writer *w)
{
    const cr_tool_grammar_options *o = w->options;
    add_free_text(w, "named");
    cr_gbnf_put(&w->out, "named ::= \"%s\\n\" free0", w->form->text);
    if (o->choice == CERA_TOOL_AUTO)
        cr_gbnf_put(&w->out, " | call%s", o->single_call ? "" : " after");
    cr_gbnf_put(&w->out, "\nroot ::= %s\n", w->is_opened ? "\"\" | named" : "free0");
}

static void add_root(writer *w)
{
    const cr_tool_grammar_options *o = w->options;
    const bool is_one = o->only != NULL || o->single_call || w->form->is_single;
    const bool is_bare = o->format->bare != '\0', has_mark = strstr(w->form->section, "%o") != NULL;
    if (o->choice == CERA_TOOL_REQUIRED) {
        add_section(w, is_one);
        cr_gbnf_put(&w->out, "root ::= %s", w->is_opened ? "calls" : "section");
        if (w->form->between == NULL && !is_one)
            cr_gbnf_put(&w->out, " (\"\\n\" section){0,%d}", MAX_CALLS - 1);
        cr_gbnf_put(&w->out, "\n");
        return;
    }
    if (w->form->text != NULL) {
        add_named_text(w);
        return;
    }
    add_free_text(w, NULL);
    if (o->choice == CERA_TOOL_NONE) {
        cr_gbnf_put(&w->out, "root ::= begin\n");
        return;
    }
    add_section(w, is_one);
    cr_gbnf_put(&w->out, "marked ::= ");
    if (is_bare && !has_mark) /* the usual form has none */
        cr_gbnf_put_mark(&w->out, cr_str_from(cr_chat_format_opener(o->format, 0)));
    cr_gbnf_put(&w->out, "section\nroot ::= begin (marked after)%s", o->single_call ? "?" : "*");
    if (is_bare)
        cr_gbnf_put(&w->out, " | [ \\t\\r\\n]* %s", has_mark ? "bare" : "call");
    cr_gbnf_put(&w->out, "\n");
    if (is_bare && has_mark)
        cr_gbnf_put(&w->out, "bare ::= \"[\" calls \"]\"\n");
}

static cera_status write_grammar(writer *w, const cr_tools *tools)
{
    const char *only = w->options->only;
    const bool is_none = w->options->choice == CERA_TOOL_NONE;
    const cr_json *tool = is_none ? NULL : cr_json_first(tools->list, CR_JSON_ARRAY);
    size_t n = 0;
    for (; tool != NULL; tool = tool->next) {
        const cr_str name = cr_tool_name(tool);
        if (only == NULL || cr_str_is(name, only))
            CR_TRY(add_call(w, cr_tool_function(tool), name, n++));
    }
    if (n == 0 && !is_none)
        return cr_fail(w->err, CERA_E_ARG, "tools: expected %s%.64s, found no such tool",
                       only != NULL ? "one of the name " : "at least one",
                       only != NULL ? only : "");
    for (size_t i = 0; i < n; i++)
        cr_gbnf_put(&w->out, i == 0 ? "call ::= call%zu" : " | call%zu", i);
    cr_gbnf_put(&w->out, "\n");
    add_root(w);
    return w->out.no_memory ? cr_fail_nomem(w->err, 0, "a grammar") : CERA_OK;
}

cera_status cr_tool_grammar_to_gbnf(cr_str text, const cr_tool_grammar_options *options,
                                    cr_host *host, cr_buf *out, cera_error *err)
{
    const cr_call_form *form = &options->format->form;
    if (form->section == NULL)
        return cr_fail(err, CERA_E_UNSUPPORTED, "format %s: its calls cannot be constrained",
                       options->format->name);
    writer w = { .options = options, .form = form, .host = host, .err = err };
    const char *prompt_end = options->format->prompt_end;
    w.is_opened = prompt_end != NULL && cr_str_ends(options->prompt, prompt_end);
    w.is_python = strstr(form->call, "%p") != NULL;
    w.is_tagged = strstr(form->call, "%t") != NULL;
    w.schema =
        (cr_schema_options){ .lenient = options->lenient, .max_blanks = options->max_blanks };
    if (w.is_tagged)
        find_end_tag(&w);
    w.out = (cr_gbnf_text){ .vocab = options->vocab, .buf = *out };
    cr_arena_init(&w.arena, host, CR_MEM_SCRATCH);
    cr_buf_init(&w.known, host, CR_MEM_SCRATCH);
    cr_buf_init(&w.shared, host, CR_MEM_SCRATCH);
    cr_tools tools;
    cera_status status = cr_tools_init(&tools, text, host, err);
    if (status == CERA_OK)
        status = cr_schema_read(cr_str_from(closed), &w.arena, &w.closed, err);
    if (status == CERA_OK)
        status = write_grammar(&w, &tools);
    *out = w.out.buf;
    cr_tools_done(&tools);
    cr_buf_done(&w.shared);
    cr_buf_done(&w.known);
    cr_arena_done(&w.arena);
    return status;
}

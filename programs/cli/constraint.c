#include "cli/constraint.h"

#include "cli/inputs.h"
#include "cli/report.h"
#include "common/bytes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 20 };

static const struct {
    option_id id;
    bool is_schema, is_file;
} sources[] = {
    { OPT_GRAMMAR, false, false },
    { OPT_GRAMMAR_FILE, false, true },
    { OPT_JSON_SCHEMA, true, false },
    { OPT_JSON_SCHEMA_FILE, true, true },
};
enum { N_SOURCES = sizeof(sources) / sizeof(sources[0]) };

bool constraint_is_set(const cli_args *args)
{
    for (size_t i = 0; i < N_SOURCES; i++) {
        if (is_set(args, sources[i].id))
            return true;
    }
    return false;
}

static int read_file(const char *path, bytes *out)
{
    bytes what = { 0 };
    bytes_printf(&what, "cannot read %s", path);
    int code = EXIT_OK;
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (file == NULL) {
        code = report_error(EXIT_RUNTIME, what.data, strerror(errno), "check the path");
    } else {
        char part[1 << 14];
        for (size_t n = 1; n > 0 && out->size <= MAX_FILE;) {
            n = fread(part, 1, sizeof(part), file);
            bytes_append(out, part, n);
        }
        if (ferror(file))
            code = report_error(EXIT_RUNTIME, what.data, strerror(errno), NULL);
        else if (out->size > MAX_FILE)
            code = report_error(EXIT_LIMIT, what.data, "it is larger than 1 MiB", NULL);
        if (file != stdin)
            fclose(file);
    }
    bytes_done(&what);
    return code;
}

/* The source that is set: one on the command line puts those of the environment aside. -1: more
 * than one. */
static int find_source(const cli_args *args)
{
    int found = -1;
    value_source strongest = FROM_NOWHERE;
    bool twice = false;
    for (int i = 0; i < N_SOURCES; i++) {
        const option_value *value = &args->option[sources[i].id];
        if (value->count == 0 || value->source < strongest)
            continue;
        twice = value->source == strongest;
        strongest = value->source;
        found = i;
    }
    return twice ? -1 : found;
}

int constraint_open(const cli_args *args, const cera_vocab *vocab, cera_grammar **out)
{
    *out = NULL;
    if (!constraint_is_set(args))
        return EXIT_OK;
    int source = find_source(args);
    if (source < 0)
        return report_error(EXIT_USAGE, "two grammars are given",
                            "a text can be held to one grammar or one schema", "one of the two");
    const char *value = args->option[sources[source].id].text;
    bytes text = { 0 };
    bytes_append(&text, "", 0);
    int code = EXIT_OK;
    if (sources[source].is_file)
        code = read_file(value, &text);
    else if (value[0] == '@')
        code = read_file(value + 1, &text);
    else
        bytes_text(&text, value);
    if (code == EXIT_OK) {
        cera_host host;
        model_host(&host);
        cera_grammar_options options;
        cera_grammar_options_init(&options);
        options.host = &host;
        options.lenient = is_set(args, OPT_SCHEMA_LENIENT);
        options.any_order = is_set(args, OPT_SCHEMA_ANY_ORDER);
        cera_error err;
        bool is_schema = sources[source].is_schema;
        cera_status status =
            is_schema ? cera_grammar_from_schema(text.data, text.size, vocab, &options, out, &err)
                      : cera_grammar_from_gbnf(text.data, text.size, vocab, &options, out, &err);
        if (status == CERA_E_NOMEM)
            code = report_failure(WHILE_RUNNING, "cannot compile the grammar", &err);
        else if (status != CERA_OK)
            code =
                report_error(EXIT_CONSTRAINT,
                             is_schema ? "cannot compile the schema" : "cannot compile the grammar",
                             err.message, NULL);
    }
    bytes_done(&text);
    return code;
}

int constraint_open_tools(const cli_args *args, const call_constraint *calls, cera_grammar **out)
{
    static const char *const choices[] = { "auto", "required", "none" }; /* as cera_tool_choice */
    cera_host host;
    model_host(&host);
    cera_tool_grammar_options options;
    cera_tool_grammar_options_init(&options);
    options.host = &host;
    options.format = calls->format;
    options.prompt = calls->prompt;
    options.n_prompt = calls->prompt != NULL ? strlen(calls->prompt) : 0;
    options.lenient = is_set(args, OPT_SCHEMA_LENIENT);
    int known = 0;
    while (known < 3 && strcmp(choices[known], calls->choice) != 0)
        known++;
    options.choice = known < 3 ? (cera_tool_choice)known : CERA_TOOL_REQUIRED;
    options.only = known < 3 ? NULL : calls->choice;
    cera_error err;
    const cera_status status = cera_grammar_from_tools(calls->tools, strlen(calls->tools),
                                                       calls->vocab, &options, out, &err);
    if (status == CERA_OK)
        return EXIT_OK;
    if (status == CERA_E_NOMEM)
        return report_failure(WHILE_RUNNING, "cannot constrain the tool calls", &err);
    /* As a template without a hint of calls has it, or somebody has asked for. */
    const char *hint = strcmp(calls->format, "none") == 0 ? "--tool-format" : NULL;
    return report_error(status == CERA_E_ARG ? EXIT_USAGE : EXIT_CONSTRAINT,
                        "cannot constrain the tool calls", err.message, hint);
}

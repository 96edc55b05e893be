/* What a chat needs, from the command line. */
#define _DEFAULT_SOURCE
#include "cli/constraint.h"
#include "cli/inputs.h"
#include "cli/rendering.h"
#include "cli/report.h"
#include "cli/turn.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An option that is JSON, or names a file of it. */
static int read_json(const cli_args *args, option_id id, char **out)
{
    prompt text = { 0 };
    if (!is_set(args, id))
        return EXIT_OK;
    int code = prompt_or_file(args->option[id].text, &text);
    *out = text.text; /* taken */
    return code;
}

/* The format of the calls, as the parser finds it, which reads the tools as well. */
static int find_format(chat *c)
{
    const cera_chat_sink sink = { 0 };
    cera_engine_info info;
    cera_engine_get_info(c->engine, &info);
    cera_chat_parser_options options;
    cera_chat_parser_options_init(&options);
    options.format = c->args->option[OPT_TOOL_FORMAT].text;
    options.tmpl = c->tmpl;
    options.arch = info.arch;
    options.tools = c->tools;
    cera_chat_parser *parser = NULL;
    cera_error err;
    const cera_status status = cera_chat_parser_new(&options, &sink, &parser, &err);
    if (status == CERA_E_ARG)
        return report_error(EXIT_USAGE, "--tools is no list of tools", err.message, NULL);
    if (status != CERA_OK)
        return report_failure(WHILE_RUNNING, "cannot read what the model says", &err);
    c->format = cera_chat_parser_format(parser); /* the name lives on, as the library's tables do */
    cera_chat_parser_free(parser);
    return EXIT_OK;
}

/* A grammar for the calls, where one is wanted. */
static int constrain_calls(chat *c, const char *choice)
{
    const bool is_auto = strcmp(choice, "auto") == 0;
    if (is_auto && !is_set(c->args, OPT_CONSTRAIN_TOOLS))
        return EXIT_OK;
    if (constraint_is_set(c->args))
        return report_error(EXIT_USAGE, "two constraints are given",
                            "the form of tool calls is one, a grammar or schema is another",
                            "one of the two");
    c->must_call = !is_auto;
    /* How a prompt ends does not depend on what was said. */
    cera_render_options options;
    rendering_options(&options);
    options.tools = c->tools;
    options.variables = c->variables;
    cera_rendering rendering = { 0 };
    cera_template_render(c->tmpl, "[{\"role\": \"user\", \"content\": \"\"}]", &options, &rendering,
                         NULL);
    const call_constraint calls = { .tools = c->tools,
                                    .format = c->format,
                                    .choice = choice,
                                    .prompt = rendering.text,
                                    .vocab = c->vocab };
    const int code = constraint_open_tools(c->args, &calls, &c->call_grammar);
    cera_template_free_rendering(c->tmpl, &rendering);
    return code;
}

static int open_tools(chat *c)
{
    const char *choice = c->args->option[OPT_TOOL_CHOICE].text;
    if (c->tools == NULL && (choice != NULL || is_set(c->args, OPT_CONSTRAIN_TOOLS)))
        return report_error(EXIT_USAGE, "there are no tools to choose from", NULL, "--tools");
    if (c->tools == NULL)
        return EXIT_OK;
    int code = find_format(c);
    if (code == EXIT_OK && choice != NULL && strcmp(choice, "none") == 0) {
        free(c->tools);
        c->tools = NULL;
    } else if (code == EXIT_OK) {
        code = constrain_calls(c, choice != NULL ? choice : "auto");
        if (code == EXIT_OK && strcmp(c->format, "none") == 0)
            report_warning(
                "the template does not show how the model calls tools: what it says stays "
                "text (--tool-format)");
    }
    return code;
}

int chat_open(chat *c, int max_tokens)
{
    const cli_args *args = c->args;
    const char *reasoning = args->option[OPT_REASONING].text;
    c->dims = color_wanted(args->option[OPT_COLOR].text, STDERR_FILENO);
    c->shows_reasoning = reasoning != NULL && strcmp(reasoning, "auto") != 0
                             ? strcmp(reasoning, "show") == 0
                             : isatty(STDERR_FILENO) == 1 && report_level() >= 0;
    int code = model_path(args, &c->path);
    if (code == EXIT_OK)
        code = sampling_read(args, &c->chosen);
    if (!is_set(args, OPT_MAX_TOKENS))
        c->chosen.options.max_tokens = max_tokens;
    if (code == EXIT_OK)
        code = read_json(args, OPT_TOOLS, &c->tools);
    if (code == EXIT_OK)
        code = read_json(args, OPT_TEMPLATE_VARS, &c->variables);
    if (code == EXIT_OK)
        code = model_open_engine(args, c->path, &c->engine);
    if (code != EXIT_OK)
        return code;
    cera_engine_info info;
    cera_engine_get_info(c->engine, &info);
    c->vocab = cera_engine_vocab(c->engine);
    code = rendering_open(args, c->vocab, &c->tmpl);
    if (code == EXIT_OK)
        code = sampling_check(args, &c->chosen.options, info.n_vocab);
    if (code == EXIT_OK)
        code = constraint_open(args, c->vocab, &c->chosen.options.grammar);
    if (code == EXIT_OK)
        code = open_tools(c);
    if (code != EXIT_OK)
        return code;
    code = session_open(args, c->engine, NULL, &c->session);
    if (code != EXIT_OK)
        return code;
    conversation_set_system(&c->talk, args->option[OPT_SYSTEM].text);
    sampling_tell(&c->chosen.options, 1);
    return EXIT_OK;
}

void chat_close(chat *c)
{
    conversation_done(&c->talk);
    turn_forget_answer(c);
    bytes_done(&c->prompt);
    bytes_done(&c->raw);
    bytes_done(&c->call_name);
    bytes_done(&c->call_arguments);
    cera_session_free(c->session);
    cera_template_free(c->tmpl);
    cera_grammar_free(c->call_grammar);
    cera_grammar_free(c->chosen.options.grammar);
    cera_engine_close(c->engine);
    sampling_done(&c->chosen);
    free(c->tools);
    free(c->variables);
}

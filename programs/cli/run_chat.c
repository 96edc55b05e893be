#define _DEFAULT_SOURCE
#include "cli/run_chat.h"

#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/out.h"
#include "cli/report.h"
#include "cli/turn.h"

#include <string.h>
#include <unistd.h>

enum { MAX_TOKENS = 256 };

static const chat_message *last_answer(const chat *c)
{
    return &c->talk.list[c->talk.n - 1];
}

static bool has_calls(const chat *c)
{
    return json_object_get(last_answer(c)->more, "tool_calls") != NULL;
}

/* The answer in the shape of run's document. */
static void print_json(chat *c)
{
    json_t *turn = turn_json(c), *message = json_object_get(turn, "message");
    json_t *root =
        json_pack("{s:s, s:o, s:O, s:O}", "schema", "cera.run/1", "model",
                  json_text(c->path, strlen(c->path)), "text", json_object_get(message, "content"),
                  "finish_reason", json_object_get(turn, "finish_reason"));
    static const char *const members[] = { "reasoning_content", "tool_calls" };
    for (size_t i = 0; i < 2; i++)
        json_object_set(root, members[i], json_object_get(message, members[i]));
    json_object_set(root, "usage", json_object_get(turn, "usage"));
    json_object_set(root, "timings", json_object_get(turn, "timings"));
    json_decref(turn);
    out_json_seeded(root, c->chosen.options.seed);
}

/* One line with the calls, [] when there is none: standard output is for a program that makes
 * them. */
static void print_calls(const chat *c)
{
    json_t *list = json_array();
    const json_t *calls = json_object_get(last_answer(c)->more, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *function = json_object_get(json_array_get(calls, i), "function");
        json_t *arguments = json_loads(json_string_value(json_object_get(function, "arguments")),
                                       JSON_ALLOW_NUL, NULL);
        json_array_append_new(list,
                              json_pack("{s:O, s:o}", "name", json_object_get(function, "name"),
                                        "arguments", arguments != NULL ? arguments : json_null()));
    }
    out_json(list);
}

static int answer(chat *c, const prompt *text, bool json)
{
    bytes_append(&conversation_add(&c->talk, "user")->content, text->text, text->size);
    int code = turn_answer(c);
    if (code != EXIT_OK)
        return code;
    if (json)
        print_json(c);
    else if (is_set(c->args, OPT_TOOLS))
        print_calls(c);
    code = out_finish();
    if (interrupt_exit_code() != 0)
        return interrupt_exit_code();
    if (code == EXIT_OK && c->must_call && !has_calls(c))
        return report_error(EXIT_RUNTIME, "there is no tool call", "--tool-choice wants one",
                            last_answer(c)->is_cut ? "a larger --max-tokens" : NULL);
    if (code == EXIT_OK && c->n_faults > 0)
        return EXIT_RUNTIME; /* the warning has said why */
    return code;
}

bool run_is_chat(const cli_args *args)
{
    static const option_id asking[] = { OPT_SYSTEM,        OPT_TOOLS,       OPT_CHAT_TEMPLATE,
                                        OPT_TEMPLATE_VARS, OPT_TOOL_CHOICE, OPT_CHAT_TEMPLATE_FILE,
                                        OPT_REASONING,     OPT_TOOL_FORMAT, OPT_CONSTRAIN_TOOLS };
    for (size_t i = 0; i < sizeof(asking) / sizeof(asking[0]); i++) {
        if (is_set(args, asking[i]))
            return true;
    }
    return false;
}

int run_chat(const cli_args *args)
{
    bool json = wants_envelope(args);
    chat c = { .args = args };
    if (is_set(args, OPT_TOKEN_IDS) || is_set(args, OPT_LOGPROBS))
        return report_error(EXIT_USAGE,
                            is_set(args, OPT_LOGPROBS)
                                ? "--logprobs does not go with a chat template"
                                : "--token-ids does not go with a chat template",
                            "--system, --tools and the like make the prompt a message", NULL);
    /* With tools the calls are the product, and the text is a remark. */
    c.answer_fd = json ? -1 : is_set(args, OPT_TOOLS) ? STDERR_FILENO : STDOUT_FILENO;
    prompt text = { 0 };
    int code = prompt_read(args, OPT_PROMPT, &text);
    if (code == EXIT_OK)
        code = chat_open(&c, MAX_TOKENS);
    if (code == EXIT_OK)
        code = answer(&c, &text, json);
    chat_close(&c);
    prompt_done(&text);
    return code;
}

#include "chat/format.h"

#include "base/compiler.h"
#include "chat/mark_parts.h"

#define CALL_JSON(name, arguments) "{\"" name "\": %q, \"" arguments "\": %a}"
#define JSON_LIST(end)                                                                             \
    .section = "%o[%c]" end, .call = CALL_JSON("name", "arguments"), .between = ", "
#define FUNCTION_TAGS                                                                              \
    .section = "%o\n%c\n%e", .call = FUNCTION("%n") "\n%t" FUNCTION_END,                           \
    .argument = PARAMETER("%k") "\n%v\n" PARAMETER_END "\n"
#define DEEPSEEK_MARKS                                                                             \
    .openers = { DEEPSEEK("calls" BLANK "begin"), DEEPSEEK("call" BLANK "begin") },                \
    .closers = { DEEPSEEK("calls" BLANK "end"), DEEPSEEK("call" BLANK "end"), "```" },             \
    .keeps_opener = true
#define DSML_FORMAT(what)                                                                          \
    .openers = { "<" DSML what ">", DSML_INVOKE_MARK }, .closers = { "</" DSML what ">" },         \
    .keeps_opener = true,                                                                          \
    .form = { .section = "%o\n%c\n%e",                                                             \
              .call = DSML_INVOKE("%n") "\n%t" DSML_INVOKE_END,                                    \
              .between = "\n",                                                                     \
              .argument = DSML_PARAMETER("%k", "%s") "%v" DSML_PARAMETER_END "\n" }
#define START "<|start|>assistant"

/* In the order in which templates are asked: one that shows <function=f> has <tool_call> as
 * well. */
#define FORMATS(X)                                                                                 \
    X("seed", .openers = { "<seed:tool_call>", FUNCTION_MARK },                                    \
      .closers = { "</seed:tool_call>" }, .keeps_opener = true, .form = { FUNCTION_TAGS },         \
      .signs = { "<seed:tool_call>" })                                                             \
    X("functionary-3.2", .openers = { ">>>" }, .prompt_end = ">>>", .layout = { ">>>all\n" },      \
      .has_bare_names = true,                                                                      \
      .form = { .section = "%o%c", .call = "%n\n%a", .between = "%o", .text = "all" },             \
      .signs = { ">>>all" })                                                                       \
    X("functionary", .openers = { NULL, FUNCTION_MARK }, .keeps_opener = true,                     \
      .form = { .section = "%c", .call = FUNCTION("%n") "%a" FUNCTION_END },                       \
      .signs = { FUNCTION("example_function_name") "{" })                                          \
    X("minicpm", .openers = { NULL, MINICPM_MARK }, .keeps_opener = true,                          \
      .form = { .section = "%c",                                                                   \
                .call = MINICPM("%n") "%t" FUNCTION_END,                                           \
                .argument = PARAM("%k") "%v" PARAM_END },                                          \
      .signs = { PARAM_MARK })                                                                     \
    X("xml", .openers = { TOOL_CALL(">"), FUNCTION_MARK }, .closers = { TOOL_CALL_END(">") },      \
      .keeps_opener = true, .form = { FUNCTION_TAGS }, .signs = { FUNCTION_MARK }, .arch = "lfm3") \
    X("lfm2", .openers = { "<|tool_call_start|>" }, .closers = { "<|tool_call_end|>" },            \
      .bare = '[',                                                                                 \
      .form = { .section = "%o[%c]%e",                                                             \
                .call = "%n(%p)",                                                                  \
                .between = ", ",                                                                   \
                .behind_bare = "A-Za-z_ \\t\\r\\n{<\\]" },                                         \
      .signs = { "<|tool_call_start|>", "<|tool_list_start|>" }, .arch = "lfm2")                   \
    X("glm", .openers = { TOOL_CALL(">") }, .closers = { TOOL_CALL_END(">") },                     \
      .has_bare_names = true,                                                                      \
      .form = { .section = "%o%c%e",                                                               \
                .call = "%n\n%t",                                                                  \
                .argument = ARG_KEY(">") "%k" ARG_KEY_END(">") "\n" ARG_VALUE(                     \
                    ">") "%v" ARG_VALUE_END(">") "\n" },                                           \
      .signs = { ARG_KEY(">") }, .arch = "glm4")                                                   \
    X("minimax", .openers = { "<minimax:tool_call>", INVOKE_MARK },                                \
      .closers = { "</minimax:tool_call>" }, .keeps_opener = true,                                 \
      .form = { .section = "%o\n%c\n%e",                                                           \
                .call = INVOKE("%n") "\n%t" INVOKE_END,                                            \
                .between = "\n",                                                                   \
                .argument = INVOKE_PARAMETER("%k") "%v" PARAMETER_END "\n" },                      \
      .signs = { "<minimax:tool_call>" })                                                          \
    X("dsml-v4", DSML_FORMAT("tool_calls"), .signs = { "dsml_token + 'tool_calls>" })              \
    X("dsml", DSML_FORMAT("function_calls"), .signs = { DSML })                                    \
    X("apriel", .openers = { "<tool_calls>" }, .closers = { "</tool_calls>" },                     \
      .form = { JSON_LIST("%e") }, .signs = { "<tool_calls>" })                                    \
    X("hy3", .openers = { "<tool_calls" HY, TOOL_CALL(HY) }, .closers = { "</tool_calls" HY },     \
      .keeps_opener = true, .has_bare_names = true,                                                \
      .form = { .section = "%o\n%c\n%e",                                                           \
                .call = TOOL_CALL(HY) "%n" HY_SEP "\n%t" TOOL_CALL_END(HY),                        \
                .between = "\n",                                                                   \
                .argument = ARG_KEY(HY) "%k" ARG_KEY_END(HY) "\n" ARG_VALUE(                       \
                    HY) "%v" ARG_VALUE_END(HY) "\n" },                                             \
      .signs = { "<tool_sep{}>" })                                                                 \
    X("solar", .openers = { "<|tool_calls|>", SOLAR("begin") },                                    \
      .closers = { "<|calls|>", SOLAR("end") }, .keeps_opener = true,                              \
      .form = { .section = "%o%c%e",                                                               \
                .call = SOLAR("begin") "c%d" SOLAR("name") "%n" SOLAR("args") "%a" SOLAR("end"),   \
                .between = "" },                                                                   \
      .signs = { SOLAR("begin") })                                                                 \
    X("apertus", .openers = { "<|tools_prefix|>" }, .closers = { "<|tools_suffix|>" },             \
      .has_name_keys = true,                                                                       \
      .form = { .section = "%o[%c]%e", .call = "{%q: %a}", .between = ", " },                      \
      .signs = { "<|tools_prefix|>" })                                                             \
    X("gigachat", .openers = { "<|function_call|>", NULL, "function call<|role_sep|>" },           \
      .layout = { "<|message_sep|>" },                                                             \
      .form = { .section = "%o%c", .call = CALL_JSON("name", "arguments"), .is_single = true },    \
      .signs = { "<|function_call|>", "'role': 'function call'" })                                 \
    X("kimi-k3", .openers = { K3_OPEN("tools"), K3_CALL_MARK },                                    \
      .closers = { K3_CLOSE("tools"), K3_CLOSE("message"), "<|end_of_msg|>" },                     \
      .keeps_opener = true,                                                                        \
      .layout = { K3_OPEN("response"), K3_CLOSE("response"), K3_CLOSE("message"),                  \
                  "<|end_of_msg|>" },                                                              \
      .signs = { "open_tag('tools')" })                                                            \
    X("gemma4", .openers = { "<|tool_call>call:" }, .closers = { "<tool_call|>" },                 \
      .has_marked_texts = true, .layout = { "<|tool_response>" },                                  \
      .signs = { "<|tool_call>call:" })                                                            \
    X("hermes", .openers = { TOOL_CALL(">") }, .closers = { TOOL_CALL_END(">") },                  \
      .form = { .section = "%o\n%c\n%e", .call = CALL_JSON("name", "arguments") },                 \
      .signs = { TOOL_CALL(">") }, .arch = "qwen")                                                 \
    X("mistral", .openers = { "[TOOL_CALLS]" }, .form = { JSON_LIST("") },                         \
      .signs = { "[TOOL_CALLS]" })                                                                 \
    X("phi4", .openers = { "<|tool_call|>" }, .closers = { "<|/tool_call|>" },                     \
      .form = { JSON_LIST("%e") }, .signs = { "<|/tool|>", "<|/tool_call|>" })                     \
    X("granite", .openers = { "<|tool_call|>" }, .layout = { "<response>", "</response>" },        \
      .has_plain_layout = true, .form = { JSON_LIST("") }, .signs = { "<|tool_call|>" })           \
    X("nemotron", .openers = { "<TOOLCALL>" }, .closers = { "</TOOLCALL>" },                       \
      .form = { JSON_LIST("%e") }, .signs = { "<TOOLCALL>" })                                      \
    X("cohere", .openers = { "<|START_ACTION|>" }, .closers = { "<|END_ACTION|>" },                \
      .layout = { "<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>" },    \
      .form = { .section = "%o[\n    %c\n]%e",                                                     \
                .call = "{\"tool_call_id\": \"%d\", \"tool_name\": %q, \"parameters\": %a}",       \
                .between = ",\n    " },                                                            \
      .signs = { "<|START_ACTION|>" })                                                             \
    X("command-r", .openers = { "Action: ```json", "Action:```json", "Action:\n```json" },         \
      .closers = { "```" },                                                                        \
      .form = { .section = "%o\n[\n    %c\n]\n%e",                                                 \
                .call = CALL_JSON("tool_name", "parameters"),                                      \
                .between = ",\n    " },                                                            \
      .signs = { "Action:\\n```json" })                                                            \
    X("deepseek-r1", DEEPSEEK_MARKS,                                                               \
      .form = { .section = "%o%c%e",                                                               \
                .call = DEEPSEEK("call" BLANK "begin") "function" DEEPSEEK(                        \
                    "sep") "%n\n```json\n%a\n```" DEEPSEEK("call" BLANK "end"),                    \
                .between = "\n" },                                                                 \
      .signs = { "+ '```json' +" })                                                                \
    X("deepseek", DEEPSEEK_MARKS,                                                                  \
      .form = { .section = "%o%c%e",                                                               \
                .call = DEEPSEEK("call" BLANK                                                      \
                                 "begin") "%n" DEEPSEEK("sep") "%a" DEEPSEEK("call" BLANK "end"),  \
                .between = "" },                                                                   \
      .signs = { DEEPSEEK("calls" BLANK "begin") })                                                \
    X("kimi", .openers = { "<|tool_calls_section_begin|>", KIMI_BEGIN },                           \
      .closers = { "<|tool_calls_section_end|>", "<|tool_call_end|>" }, .keeps_opener = true,      \
      .form = { .section = "%o%c%e",                                                               \
                .call = KIMI_BEGIN "functions.%n:%d" KIMI_ARGUMENTS "%a<|tool_call_end|>",         \
                .between = "" },                                                                   \
      .signs = { "<|tool_calls_section_begin|>" })                                                 \
    X("harmony",                                                                                   \
      .openers = { CHANNEL "commentary to=", START CHANNEL "commentary to=", START " to=",         \
                   CHANNEL "analysis to=", START CHANNEL "analysis to=" },                         \
      .first = " to=functions.", .closers = { "<|call|>", "<|end|>" }, .thinks_again = true,       \
      .has_bare_names = true,                                                                      \
      .layout = { CHANNEL "final" MESSAGE, START CHANNEL "final" MESSAGE,                          \
                  CHANNEL "commentary" MESSAGE, START CHANNEL "commentary" MESSAGE, "<|end|>",     \
                  "<|return|>" },                                                                  \
      .form = { .section = "%o%c",                                                                 \
                .call = "functions.%n " CONSTRAIN "json" MESSAGE "%a",                             \
                .is_single = true },                                                               \
      .signs = { CHANNEL "analysis" MESSAGE }, .arch = "gpt-oss")                                  \
    X("llama3", .openers = { "<|python_tag|>" }, .bare = '{',                                      \
      .form = { .section = "%c",                                                                   \
                .call = CALL_JSON("name", "parameters"),                                           \
                .behind_bare = "\" }\\t\\r\\n",                                                    \
                .is_single = true },                                                               \
      .signs = { "<|python_tag|>", "Environment: ipython" })                                       \
    X("none", .bare = '\0')

static const cr_chat_format formats[] = {
#define ROW(name_, ...) { .name = (name_), __VA_ARGS__ },
    FORMATS(ROW)
#undef ROW
};

const char cr_chat_format_names[] =
#define NAME(name_, ...) " " name_
    FORMATS(NAME);
#undef NAME

const cr_reasoning_marks cr_reasoning_table[] = {
    { "<think>", "</think>" },
    { "<thinking>", "</thinking>" },
    { "[THINK]", "[/THINK]" },
    { "<seed:think>", "</seed:think>" },
    { "<|START_THINKING|>", "<|END_THINKING|>" },
    { "<|inner_prefix|>", "<|inner_suffix|>" },
    { "<|channel>thought", "<channel|>" },
    { K3_OPEN("think"), K3_CLOSE("think") },
    { "Here is my thought process:", "Here is my response:" },
    { CHANNEL "analysis" MESSAGE, "<|end|>" },
    { START CHANNEL "analysis" MESSAGE, "<|end|>" },
};
const size_t cr_n_reasoning = CR_COUNT(cr_reasoning_table);

const cr_chat_format *cr_chat_format_at(size_t i)
{
    return i < CR_COUNT(formats) ? &formats[i] : NULL;
}

const cr_chat_format *cr_chat_format_find(const char *name)
{
    for (size_t i = 0; i < CR_COUNT(formats); i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

static bool contains(cr_str text, const char *part)
{
    const size_t n = strlen(part);
    for (size_t i = 0; i + n <= text.size; i++)
        if (text.data[i] == *part && memcmp(text.data + i, part, n) == 0)
            return true;
    return false;
}

const cr_chat_format *cr_chat_format_detect(cr_str template_text, const char *arch)
{
    for (size_t i = 0; i < CR_COUNT(formats); i++)
        for (size_t k = 0; k < CR_COUNT(formats[i].signs); k++)
            if (formats[i].signs[k] != NULL && contains(template_text, formats[i].signs[k]))
                return &formats[i];
    for (size_t i = 0; arch != NULL && i < CR_COUNT(formats); i++)
        if (formats[i].arch != NULL && strncmp(arch, formats[i].arch, strlen(formats[i].arch)) == 0)
            return &formats[i];
    return cr_chat_format_find("none");
}

const char *cr_chat_format_opener(const cr_chat_format *format, size_t i)
{
    for (size_t k = 0; k < CR_CHAT_OPENERS; k++) /* there may be a second one and no first */
        if (format->openers[k] != NULL && i-- == 0)
            return format->openers[k];
    return i == 0 ? format->first : NULL;
}

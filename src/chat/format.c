#include "chat/format.h"

#include "base/compiler.h"
#include "chat/mark_parts.h"

#define DEEPSEEK_MARKS                                                                             \
    .openers = { DEEPSEEK("calls" BLANK "begin"), DEEPSEEK("call" BLANK "begin") },                \
    .closers = { DEEPSEEK("call" BLANK "end"), DEEPSEEK("calls" BLANK "end"), "```" },             \
    .keeps_opener = true
#define DSML_MARKS(what)                                                                           \
    .openers = { "<" DSML what ">", "<" DSML "invoke" }, .closers = { "</" DSML what ">" },        \
    .keeps_opener = true
#define START "<|start|>assistant"

/* In the order in which templates are asked: one that shows <function=f> has <tool_call> as
 * well. */
#define FORMATS(X)                                                                                 \
    X("seed", .openers = { "<seed:tool_call>", "<function=" }, .closers = { "</seed:tool_call>" }, \
      .keeps_opener = true, .signs = { "<seed:tool_call>" })                                       \
    X("functionary-3.2", .openers = { ">>>" }, .prompt_end = ">>>", .layout = { ">>>all\n" },      \
      .has_bare_names = true, .signs = { ">>>all" })                                               \
    X("functionary", .openers = { NULL, "<function=" }, .keeps_opener = true,                      \
      .signs = { "<function=example_function_name>{" })                                            \
    X("minicpm", .openers = { NULL, "<function name=\"" }, .keeps_opener = true,                   \
      .signs = { "<param name=\"" })                                                               \
    X("xml", .openers = { "<tool_call>", "<function=" }, .closers = { "</tool_call>" },            \
      .keeps_opener = true, .signs = { "<function=" }, .arch = "lfm3")                             \
    X("lfm2", .openers = { "<|tool_call_start|>" }, .closers = { "<|tool_call_end|>" },            \
      .bare = '[', .signs = { "<|tool_call_start|>", "<|tool_list_start|>" }, .arch = "lfm2")      \
    X("glm", .openers = { "<tool_call>" }, .closers = { "</tool_call>" }, .has_bare_names = true,  \
      .signs = { "<arg_key>" }, .arch = "glm4")                                                    \
    X("minimax", .openers = { "<minimax:tool_call>", "<invoke name=\"" },                          \
      .closers = { "</minimax:tool_call>" }, .keeps_opener = true,                                 \
      .signs = { "<minimax:tool_call>" })                                                          \
    X("dsml-v4", DSML_MARKS("tool_calls"), .signs = { "dsml_token + 'tool_calls>" })               \
    X("dsml", DSML_MARKS("function_calls"), .signs = { DSML })                                     \
    X("apriel", .openers = { "<tool_calls>" }, .closers = { "</tool_calls>" },                     \
      .signs = { "<tool_calls>" })                                                                 \
    X("hy3", .openers = { "<tool_calls" HY, "<tool_call" HY }, .closers = { "</tool_calls" HY },   \
      .keeps_opener = true, .has_bare_names = true, .signs = { "<tool_sep{}>" })                   \
    X("solar", .openers = { "<|tool_calls|>", "<|tool_call:begin|>" },                             \
      .closers = { "<|tool_call:end|>", "<|calls|>" }, .keeps_opener = true,                       \
      .signs = { "<|tool_call:begin|>" })                                                          \
    X("apertus", .openers = { "<|tools_prefix|>" }, .closers = { "<|tools_suffix|>" },             \
      .has_name_keys = true, .signs = { "<|tools_prefix|>" })                                      \
    X("gigachat", .openers = { "<|function_call|>", NULL, "function call<|role_sep|>" },           \
      .layout = { "<|message_sep|>" },                                                             \
      .signs = { "<|function_call|>", "'role': 'function call'" })                                 \
    X("hermes", .openers = { "<tool_call>" }, .closers = { "</tool_call>" },                       \
      .signs = { "<tool_call>" }, .arch = "qwen")                                                  \
    X("mistral", .openers = { "[TOOL_CALLS]" }, .signs = { "[TOOL_CALLS]" })                       \
    X("phi4", .openers = { "<|tool_call|>" }, .closers = { "<|/tool_call|>" },                     \
      .signs = { "<|/tool|>", "<|/tool_call|>" })                                                  \
    X("granite", .openers = { "<|tool_call|>" }, .layout = { "<response>", "</response>" },        \
      .has_plain_layout = true, .signs = { "<|tool_call|>" })                                      \
    X("nemotron", .openers = { "<TOOLCALL>" }, .closers = { "</TOOLCALL>" },                       \
      .signs = { "<TOOLCALL>" })                                                                   \
    X("cohere", .openers = { "<|START_ACTION|>" }, .closers = { "<|END_ACTION|>" },                \
      .layout = { "<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>" },    \
      .signs = { "<|START_ACTION|>" })                                                             \
    X("command-r", .openers = { "Action: ```json", "Action:```json", "Action:\n```json" },         \
      .closers = { "```" }, .signs = { "Action:\\n```json" })                                      \
    X("deepseek-r1", DEEPSEEK_MARKS, .signs = { "+ '```json' +" })                                 \
    X("deepseek", DEEPSEEK_MARKS, .signs = { DEEPSEEK("calls" BLANK "begin") })                    \
    X("kimi", .openers = { "<|tool_calls_section_begin|>", "<|tool_call_begin|>" },                \
      .closers = { "<|tool_call_end|>", "<|tool_calls_section_end|>" }, .keeps_opener = true,      \
      .signs = { "<|tool_calls_section_begin|>" })                                                 \
    X("harmony",                                                                                   \
      .openers = { "<|channel|>commentary to=", START "<|channel|>commentary to=", START " to=",   \
                   "<|channel|>analysis to=", START "<|channel|>analysis to=" },                   \
      .first = " to=functions.", .closers = { "<|call|>", "<|end|>" }, .thinks_again = true,       \
      .has_bare_names = true,                                                                      \
      .layout = { "<|channel|>final<|message|>", START "<|channel|>final<|message|>",              \
                  "<|channel|>commentary<|message|>", START "<|channel|>commentary<|message|>",    \
                  "<|end|>", "<|return|>" },                                                       \
      .signs = { "<|channel|>analysis<|message|>" }, .arch = "gpt-oss")                            \
    X("llama3", .openers = { "<|python_tag|>" }, .bare = '{',                                      \
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
    { "Here is my thought process:", "Here is my response:" },
    { "<|channel|>analysis<|message|>", "<|end|>" },
    { START "<|channel|>analysis<|message|>", "<|end|>" },
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

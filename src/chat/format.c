#include "chat/format.h"

#include "base/compiler.h"

/* In the order in which templates are asked: one that shows <function=f> has <tool_call> as
 * well. */
#define FORMATS(X)                                                                                 \
    X("xml", .openers = { "<tool_call>", "<function=" }, .closer = "</tool_call>",                 \
      .keeps_opener = true, .signs = { "<function=" }, .arch = "lfm3")                             \
    X("lfm2", .openers = { "<|tool_call_start|>" }, .closer = "<|tool_call_end|>", .bare = '[',    \
      .signs = { "<|tool_call_start|>", "<|tool_list_start|>" }, .arch = "lfm2")                   \
    X("hermes", .openers = { "<tool_call>" }, .closer = "</tool_call>",                            \
      .signs = { "<tool_call>" }, .arch = "qwen")                                                  \
    X("mistral", .openers = { "[TOOL_CALLS]" }, .signs = { "[TOOL_CALLS]" })                       \
    X("granite", .openers = { "<|tool_call|>" }, .signs = { "<|tool_call|>" })                     \
    X("llama3", .openers = { "<|python_tag|>" }, .bare = '{',                                      \
      .signs = { "<|python_tag|>", "Environment: ipython" })                                       \
    X("none", .closer = NULL)

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
};
const size_t cr_n_reasoning = CR_COUNT(cr_reasoning_table);

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

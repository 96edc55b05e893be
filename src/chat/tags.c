#include "chat/tags.h"

#include "base/compiler.h"
#include "chat/mark_parts.h"

static const cr_tag tags[] = {
    { CR_TAG_CALL, "<function=", ">", NULL, false },
    { CR_TAG_VALUE, "<parameter=", ">", "</parameter>", true },
    { CR_TAG_END, "</function>", NULL, NULL, false },

    { CR_TAG_CALL, "<invoke name=\"", "\">", NULL, false },
    { CR_TAG_VALUE, "<parameter name=\"", "\">", "</parameter>", false },
    { CR_TAG_END, "</invoke>", NULL, NULL, false },

    { CR_TAG_CALL, "<" DSML "invoke name=\"", "\">", NULL, false },
    { CR_TAG_TEXT, "<" DSML "parameter name=\"", "\" string=\"true\">", "</" DSML "parameter>",
      false },
    { CR_TAG_JSON, "<" DSML "parameter name=\"", "\" string=\"false\">", "</" DSML "parameter>",
      false },
    { CR_TAG_END, "</" DSML "invoke>", NULL, NULL, false },

    { CR_TAG_KEY, "<arg_key>", NULL, "</arg_key>", false },
    { CR_TAG_VALUE, "<arg_value>", NULL, "</arg_value>", false },
    { CR_TAG_END, "</tool_call>", NULL, NULL, false },

    { CR_TAG_BEGIN, DEEPSEEK("call" BLANK "begin"), NULL, NULL, false },
    { CR_TAG_ARGUMENTS, DEEPSEEK("sep"), NULL, NULL, false },

    { CR_TAG_BEGIN, "<|tool_call_begin|>", NULL, NULL, false },
    { CR_TAG_ARGUMENTS, "<|tool_call_argument_begin|>", NULL, NULL, false },

    { CR_TAG_CALL, "<function name=\"", "\">", NULL, false },
    { CR_TAG_VALUE, "<param name=\"", "\">", "</param>", false },

    { CR_TAG_BEGIN, "<tool_call" HY, NULL, NULL, false },
    { CR_TAG_HEAD, "<tool_sep" HY, NULL, NULL, false },
    { CR_TAG_KEY, "<arg_key" HY, NULL, "</arg_key" HY, false },
    { CR_TAG_VALUE, "<arg_value" HY, NULL, "</arg_value" HY, false },
    { CR_TAG_END, "</tool_call" HY, NULL, NULL, false },

    { CR_TAG_BEGIN, "<|tool_call:begin|>", NULL, NULL, false },
    { CR_TAG_NAME, "<|tool_call:name|>", NULL, NULL, false },
    { CR_TAG_ARGUMENTS, "<|tool_call:args|>", NULL, NULL, false },

    { CR_TAG_HEAD, "<|channel|>", NULL, NULL, false },
    { CR_TAG_HEAD, "<|constrain|>", NULL, NULL, false },
    { CR_TAG_ARGUMENTS, "<|message|>", NULL, NULL, false },
};

static bool is_tag(cr_str text, const cr_tag *tag, cr_str *name)
{
    const size_t n_before = strlen(tag->before);
    const size_t n_behind = tag->behind != NULL ? strlen(tag->behind) : 0;
    if (text.size < n_before + n_behind || memcmp(text.data, tag->before, n_before) != 0)
        return false;
    *name = (cr_str){ text.data + n_before, text.size - n_before - n_behind };
    if (tag->behind == NULL)
        return name->size == 0;
    return name->size > 0 && memcmp(name->data + name->size, tag->behind, n_behind) == 0;
}

const cr_tag *cr_tag_find(cr_str text, cr_str *name)
{
    for (size_t i = 0; i < CR_COUNT(tags); i++)
        if (is_tag(text, &tags[i], name))
            return &tags[i];
    return NULL;
}

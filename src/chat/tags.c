#include "chat/tags.h"

#include "base/compiler.h"
#include "chat/mark_parts.h"

static const cr_tag tags[] = {
    { CR_TAG_CALL, FUNCTION("%"), NULL, false },
    { CR_TAG_VALUE, PARAMETER("%"), PARAMETER_END, true },
    { CR_TAG_END, FUNCTION_END, NULL, false },

    { CR_TAG_CALL, INVOKE("%"), NULL, false },
    { CR_TAG_VALUE, INVOKE_PARAMETER("%"), PARAMETER_END, false },
    { CR_TAG_END, INVOKE_END, NULL, false },

    { CR_TAG_CALL, DSML_INVOKE("%"), NULL, false },
    { CR_TAG_TEXT, DSML_PARAMETER("%", "true"), DSML_PARAMETER_END, false },
    { CR_TAG_JSON, DSML_PARAMETER("%", "false"), DSML_PARAMETER_END, false },
    { CR_TAG_END, DSML_INVOKE_END, NULL, false },

    { CR_TAG_KEY, ARG_KEY(">"), ARG_KEY_END(">"), false },
    { CR_TAG_VALUE, ARG_VALUE(">"), ARG_VALUE_END(">"), false },
    { CR_TAG_END, TOOL_CALL_END(">"), NULL, false },

    { CR_TAG_BEGIN, DEEPSEEK("call" BLANK "begin"), NULL, false },
    { CR_TAG_ARGUMENTS, DEEPSEEK("sep"), NULL, false },

    { CR_TAG_BEGIN, KIMI_BEGIN, NULL, false },
    { CR_TAG_ARGUMENTS, KIMI_ARGUMENTS, NULL, false },

    { CR_TAG_CALL, MINICPM("%"), NULL, false },
    { CR_TAG_VALUE, PARAM("%"), PARAM_END, false },

    { CR_TAG_BEGIN, TOOL_CALL(HY), NULL, false },
    { CR_TAG_HEAD, HY_SEP, NULL, false },
    { CR_TAG_KEY, ARG_KEY(HY), ARG_KEY_END(HY), false },
    { CR_TAG_VALUE, ARG_VALUE(HY), ARG_VALUE_END(HY), false },
    { CR_TAG_END, TOOL_CALL_END(HY), NULL, false },

    { CR_TAG_BEGIN, SOLAR("begin"), NULL, false },
    { CR_TAG_NAME, SOLAR("name"), NULL, false },
    { CR_TAG_ARGUMENTS, SOLAR("args"), NULL, false },

    { CR_TAG_HEAD, CHANNEL, NULL, false },
    { CR_TAG_HEAD, CONSTRAIN, NULL, false },
    { CR_TAG_ARGUMENTS, MESSAGE, NULL, false },
};

static bool is_tag(cr_str text, const cr_tag *tag, cr_str *name)
{
    const size_t n_before = strcspn(tag->text, "%");
    const bool is_named = tag->text[n_before] == '%';
    const char *behind = tag->text + n_before + is_named;
    const size_t n_behind = strlen(behind);
    if (text.size < n_before + n_behind || memcmp(text.data, tag->text, n_before) != 0)
        return false;
    *name = (cr_str){ text.data + n_before, text.size - n_before - n_behind };
    return (name->size > 0) == is_named && memcmp(name->data + name->size, behind, n_behind) == 0;
}

const cr_tag *cr_tag_find(cr_str text, cr_str *name)
{
    for (size_t i = 0; i < CR_COUNT(tags); i++)
        if (is_tag(text, &tags[i], name))
            return &tags[i];
    return NULL;
}

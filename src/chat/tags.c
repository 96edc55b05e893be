#include "chat/tags.h"

#include "base/compiler.h"
#include "chat/mark_parts.h"

static const cr_tag tags[] = {
    { CR_TAG_CALL, FUNCTION("%"), NULL, 0 },
    { CR_TAG_VALUE, PARAMETER("%"), PARAMETER_END, CR_TAG_LINES },
    { CR_TAG_END, FUNCTION_END, NULL, 0 },

    { CR_TAG_CALL, INVOKE("%"), NULL, 0 },
    { CR_TAG_VALUE, INVOKE_PARAMETER("%"), PARAMETER_END, 0 },
    { CR_TAG_END, INVOKE_END, NULL, 0 },

    { CR_TAG_CALL, DSML_INVOKE("%"), NULL, 0 },
    { CR_TAG_TEXT, DSML_PARAMETER("%", "true"), DSML_PARAMETER_END, 0 },
    { CR_TAG_JSON, DSML_PARAMETER("%", "false"), DSML_PARAMETER_END, 0 },
    { CR_TAG_END, DSML_INVOKE_END, NULL, 0 },

    { CR_TAG_KEY, ARG_KEY(">"), ARG_KEY_END(">"), 0 },
    { CR_TAG_VALUE, ARG_VALUE(">"), ARG_VALUE_END(">"), 0 },
    { CR_TAG_END, TOOL_CALL_END(">"), NULL, 0 },

    { CR_TAG_BEGIN, DEEPSEEK("call" BLANK "begin"), NULL, 0 },
    { CR_TAG_ARGUMENTS, DEEPSEEK("sep"), NULL, 0 },

    { CR_TAG_BEGIN, KIMI_BEGIN, NULL, 0 },
    { CR_TAG_ARGUMENTS, KIMI_ARGUMENTS, NULL, 0 },

    { CR_TAG_CALL, MINICPM("%"), NULL, 0 },
    { CR_TAG_VALUE, PARAM("%"), PARAM_END, 0 },

    { CR_TAG_BEGIN, TOOL_CALL(HY), NULL, 0 },
    { CR_TAG_HEAD, HY_SEP, NULL, 0 },
    { CR_TAG_KEY, ARG_KEY(HY), ARG_KEY_END(HY), 0 },
    { CR_TAG_VALUE, ARG_VALUE(HY), ARG_VALUE_END(HY), 0 },
    { CR_TAG_END, TOOL_CALL_END(HY), NULL, 0 },

    { CR_TAG_BEGIN, SOLAR("begin"), NULL, 0 },
    { CR_TAG_NAME, SOLAR("name"), NULL, 0 },
    { CR_TAG_ARGUMENTS, SOLAR("args"), NULL, 0 },

    { CR_TAG_CALL, K3_CALL_MARK "%\" index=\"%\"<|sep|>", NULL, CR_TAG_ENTITIES },
    { CR_TAG_TEXT, K3_OPEN("argument key=\"%\" type=\"string\""), K3_CLOSE("argument"),
      CR_TAG_ENTITIES },
    { CR_TAG_JSON, K3_OPEN("argument key=\"%\" type=\"%\""), K3_CLOSE("argument"),
      CR_TAG_ENTITIES },
    { CR_TAG_LAYOUT, K3_OPEN("json type=\"object\""), NULL, 0 },
    { CR_TAG_LAYOUT, K3_CLOSE("json"), NULL, 0 },
    { CR_TAG_END, K3_CLOSE("call"), NULL, 0 },

    { CR_TAG_HEAD, CHANNEL, NULL, 0 },
    { CR_TAG_HEAD, CONSTRAIN, NULL, 0 },
    { CR_TAG_ARGUMENTS, MESSAGE, NULL, 0 },
};

/* What the first % of a pattern stands for in a text, which is all of the pattern; "" without one.
 * A name ends where what is behind its % in the pattern comes first, the last one at the end. */
static bool is_tag(cr_str text, const char *pattern, cr_str *name)
{
    bool is_first = true;
    *name = (cr_str){ "", 0 };
    for (;;) {
        const size_t n = strcspn(pattern, "%");
        if (text.size < n || memcmp(text.data, pattern, n) != 0)
            return false;
        text.data += n;
        text.size -= n;
        pattern += n;
        if (*pattern == '\0')
            return text.size == 0;
        const char *behind = ++pattern;
        const size_t n_behind = strcspn(behind, "%");
        size_t size = 1;
        if (behind[n_behind] == '\0')
            size = text.size > n_behind ? text.size - n_behind : 0;
        while (size + n_behind < text.size && memcmp(text.data + size, behind, n_behind) != 0)
            size++;
        if (size == 0 || size > text.size)
            return false;
        if (is_first)
            *name = (cr_str){ text.data, size };
        is_first = false;
        text.data += size;
        text.size -= size;
    }
}

bool cr_tag_is_open(cr_str text)
{
    static const char *const begins[] = { "<|open|>", "<|close|>" };
    for (size_t i = 0; i < CR_COUNT(begins); i++) {
        const size_t n = strlen(begins[i]);
        if (text.size >= n && memcmp(text.data, begins[i], n) == 0)
            return !cr_str_ends(text, "<|sep|>");
    }
    return false;
}

const cr_tag *cr_tag_find(cr_str text, cr_str *name)
{
    for (size_t i = 0; i < CR_COUNT(tags); i++)
        if (is_tag(text, tags[i].text, name))
            return &tags[i];
    return NULL;
}

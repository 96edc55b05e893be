/* Parts of marks and tags, each spelled once: for the marks and forms of formats (format.c), and for
 * what is read between marks (tags.c). Only these two include this. */
#ifndef CR_MARK_PARTS_H
#define CR_MARK_PARTS_H

/* A bar and a blank that are no ASCII, as DeepSeek's models have them. */
#define BAR "\xEF\xBD\x9C"
#define BLANK "\xE2\x96\x81"
#define DEEPSEEK(what) "<" BAR "tool" BLANK what BAR ">"

#define FUNCTION_MARK "<function="
#define FUNCTION(name) FUNCTION_MARK name ">"
#define FUNCTION_END "</function>"
#define PARAMETER(name) "<parameter=" name ">"
#define PARAMETER_END "</parameter>"

#define INVOKE_MARK "<invoke name=\""
#define INVOKE(name) INVOKE_MARK name "\">"
#define INVOKE_END "</invoke>"
#define INVOKE_PARAMETER(name) "<parameter name=\"" name "\">"

#define DSML BAR "DSML" BAR
#define DSML_INVOKE_MARK "<" DSML "invoke"
#define DSML_INVOKE(name) DSML_INVOKE_MARK " name=\"" name "\">"
#define DSML_INVOKE_END "</" DSML "invoke>"
#define DSML_PARAMETER(name, is_text) "<" DSML "parameter name=\"" name "\" string=\"" is_text "\">"
#define DSML_PARAMETER_END "</" DSML "parameter>"

#define MINICPM_MARK "<function name=\""
#define MINICPM(name) MINICPM_MARK name "\">"
#define PARAM_MARK "<param name=\""
#define PARAM(name) PARAM_MARK name "\">"
#define PARAM_END "</param>"

/* glm's tags end in >, those of hy3 in HY. */
#define HY ":opensource>"
#define ARG_KEY(end) "<arg_key" end
#define ARG_KEY_END(end) "</arg_key" end
#define ARG_VALUE(end) "<arg_value" end
#define ARG_VALUE_END(end) "</arg_value" end
#define TOOL_CALL(end) "<tool_call" end
#define TOOL_CALL_END(end) "</tool_call" end
#define HY_SEP "<tool_sep" HY

#define KIMI_BEGIN "<|tool_call_begin|>"
#define KIMI_ARGUMENTS "<|tool_call_argument_begin|>"

#define SOLAR(what) "<|tool_call:" what "|>"

/* Kimi-K3's tags, which have > inside. */
#define K3_OPEN(what) "<|open|>" what "<|sep|>"
#define K3_CLOSE(what) "<|close|>" what "<|sep|>"
#define K3_CALL_MARK "<|open|>call tool=\""

#define CHANNEL "<|channel|>"
#define CONSTRAIN "<|constrain|>"
#define MESSAGE "<|message|>"

#endif

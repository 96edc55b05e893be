#include "chat/calls_internal.h"

void cr_calls_init(cr_calls *calls, const cr_tools *tools, const cr_calls_sink *sink, cr_host *host)
{
    *calls = (cr_calls){ .tools = tools, .sink = sink };
    cr_buf_init(&calls->name, host, CR_MEM_OBJECT);
    cr_buf_init(&calls->key, host, CR_MEM_OBJECT);
    cr_buf_init(&calls->text, host, CR_MEM_OBJECT);
    cr_buf_init(&calls->held, host, CR_MEM_OBJECT);
}

void cr_calls_done(cr_calls *calls)
{
    cr_buf_done(&calls->name);
    cr_buf_done(&calls->key);
    cr_buf_done(&calls->text);
    cr_buf_done(&calls->held);
}

void cr_calls_reset(cr_calls *calls)
{
    forget_call(calls);
    calls->state = AT_START;
    calls->in_list = calls->is_closed = false;
    calls->n_calls = 0;
}

bool cr_calls_is_complete(const cr_calls *calls)
{
    return calls->n_calls > 0 &&
           (calls->state == AT_NEXT || calls->state == AT_CALL || calls->state == AT_END);
}

/* ---- f(a="x") ------------------------------------------------------------------------------ */

static cr_calls_result feed_name(cr_calls *calls, char c)
{
    if (calls->state == IN_NAME && is_name(c))
        return cr_buf_append(&calls->name, &c, 1) ? CR_CALLS_MORE : CR_CALLS_NOMEM;
    if (is_space(c))
        return go(calls, BEHIND_NAME);
    if (c == '(') {
        TRY(begin_call(calls));
        calls->state = IN_KEY_OR_END;
        return give(calls, "{");
    }
    if (c == '[')
        return go(calls, IN_MARK);
    if (c == '<' && (calls->has_bare_names || calls->tag != NULL))
        return cr_call_start_tag(calls, c);
    if (c == '`' && calls->tag != NULL)
        return go(calls, IN_FENCE);
    if (c == '{' && (calls->state == IN_NAME || calls->has_bare_names)) {
        TRY(begin_call(calls));
        start_value(calls, true);
        calls->state = IN_ARGUMENTS;
        bool ended, before;
        return feed_value(calls, c, &ended, &before);
    }
    return bad(calls, "expected ( behind the name of a tool");
}

static cr_calls_result feed_key(cr_calls *calls, char c)
{
    if (calls->state == IN_KEY_OR_END) {
        if (is_space(c))
            return CR_CALLS_MORE;
        if (c == ')') {
            TRY(give(calls, "}"));
            return end_call(calls, AT_NEXT);
        }
        if (!is_letter(c))
            return bad(calls, "expected the name of an argument");
        calls->state = IN_KEY;
        calls->text.size = 0;
        calls->is_streaming = false;
    }
    if (calls->state == IN_KEY && is_name(c))
        return cr_buf_append(&calls->text, &c, 1) ? CR_CALLS_MORE : CR_CALLS_NOMEM;
    if (is_space(c))
        return go(calls, BEHIND_KEY);
    if (c != '=')
        return bad(calls, "expected = behind the name of an argument");
    if (calls->n_arguments++ > 0)
        TRY(give(calls, ", "));
    TRY(give(calls, "\""));
    TRY(give_buf(calls, &calls->text));
    TRY(give(calls, "\": "));
    start_value(calls, true);
    return go(calls, IN_ARGUMENT);
}

static cr_calls_result feed_argument(cr_calls *calls, char c)
{
    if (calls->state == IN_ARGUMENT) {
        bool ended, before;
        TRY(feed_value(calls, c, &ended, &before));
        if (ended)
            calls->state = BEHIND_ARGUMENT;
        if (!before)
            return CR_CALLS_MORE;
    }
    if (is_space(c))
        return CR_CALLS_MORE;
    if (c == ',')
        return go(calls, IN_KEY_OR_END);
    calls->state = IN_KEY_OR_END;
    return c == ')' ? feed_key(calls, c) : bad(calls, "expected , or ) behind an argument");
}

/* ---- f[ARGS]{...} -------------------------------------------------------------------------- */

static cr_calls_result feed_mark(cr_calls *calls, char c)
{
    if (calls->state == IN_ID)
        return c == '[' ? go(calls, IN_MARK) : CR_CALLS_MORE;
    if (c != ']') {
        if (calls->text.size == MAX_TAG)
            return bad(calls, "expected [ARGS]");
        return cr_buf_append(&calls->text, &c, 1) ? CR_CALLS_MORE : CR_CALLS_NOMEM;
    }
    const cr_str mark = { calls->text.data, calls->text.size };
    const bool is_id = cr_str_is(mark, "CALL_ID"), is_arguments = cr_str_is(mark, "ARGS");
    calls->text.size = 0;
    if (is_id)
        return go(calls, IN_ID);
    if (!is_arguments)
        return bad(calls, "expected [ARGS]");
    TRY(begin_call(calls));
    start_value(calls, true);
    return go(calls, IN_ARGUMENTS);
}

cr_calls_result cr_call_feed_arguments(cr_calls *calls, char c)
{
    if (calls->value.depth == 0 && c != '{' && !is_space(c))
        return bad(calls, "expected an object with the arguments");
    bool ended, before;
    TRY(feed_value(calls, c, &ended, &before));
    if (!ended)
        return CR_CALLS_MORE;
    if (calls->state == IN_TAGGED_OBJECT) {
        calls->has_arguments = true;
        return go(calls, IN_TAGS);
    }
    return end_call(calls, AT_NEXT);
}

/* ---- <|tool_call_begin|>f<|tool_call_argument_begin|>{...} --------------------------------- */

/* Behind the tag in front of the arguments. Where a type stands in front of it (function), the name
 * comes now, and then the arguments in a fence. */
static cr_calls_result feed_behind_name(cr_calls *calls, char c)
{
    if (is_space(c))
        return CR_CALLS_MORE;
    if (c == '`')
        return go(calls, IN_FENCE);
    if (is_letter(c) && cr_str_is((cr_str){ calls->name.data, calls->name.size }, "function")) {
        calls->name.size = 0;
        calls->state = IN_NAME;
        return feed_name(calls, c);
    }
    if (c != '{')
        return bad(calls, "expected an object with the arguments");
    TRY(begin_call(calls));
    start_value(calls, true);
    calls->state = IN_ARGUMENTS;
    return cr_call_feed_arguments(calls, c);
}

static cr_calls_result feed_begin(cr_calls *calls, char c)
{
    if (is_space(c))
        return CR_CALLS_MORE;
    if (!is_letter(c))
        return bad(calls, "expected the name of a tool");
    calls->state = IN_NAME;
    return feed_name(calls, c);
}

/* ---- between calls ------------------------------------------------------------------------- */

static cr_calls_result feed_start(cr_calls *calls, char c)
{
    if (is_space(c))
        return CR_CALLS_MORE;
    if (c == '[' && calls->state == AT_START) {
        calls->in_list = true;
        return go(calls, AT_CALL);
    }
    if (c == ']' && calls->in_list) {
        calls->is_closed = true;
        calls->state = AT_END;
        return CR_CALLS_END;
    }
    if (c == '{') {
        calls->n_nested = 1;
        return go(calls, AT_MEMBER);
    }
    if (is_letter(c)) {
        calls->state = IN_NAME;
        return feed_name(calls, c);
    }
    if (c == '<' && calls->n_calls == 0)
        return cr_call_start_tag(calls, c);
    if (calls->n_calls == 0)
        return bad(calls, "expected a call");
    calls->state = AT_END;
    return CR_CALLS_END_BEFORE;
}

static cr_calls_result feed_next(cr_calls *calls, char c)
{
    if (is_space(c))
        return CR_CALLS_MORE;
    if (c == ',' || c == ';')
        return go(calls, AT_CALL);
    if (c == (calls->in_list ? ']' : '{')) /* objects may stand without a comma between */
        return feed_start(calls, c);
    calls->state = AT_END;
    return CR_CALLS_END_BEFORE;
}

cr_calls_result cr_calls_feed(cr_calls *calls, char c)
{
    switch ((state)calls->state) {
    case AT_START:
    case AT_CALL:
        return feed_start(calls, c);
    case AT_NEXT:
        return feed_next(calls, c);
    case AT_END:
        return CR_CALLS_END_BEFORE;
    case IN_NAME:
    case BEHIND_NAME:
        return feed_name(calls, c);
    case IN_KEY_OR_END:
    case IN_KEY:
    case BEHIND_KEY:
        return feed_key(calls, c);
    case IN_ARGUMENT:
    case BEHIND_ARGUMENT:
        return feed_argument(calls, c);
    case IN_MARK:
    case IN_ID:
        return feed_mark(calls, c);
    case IN_ARGUMENTS:
    case IN_TAGGED_OBJECT:
        return cr_call_feed_arguments(calls, c);
    case IN_TAG:
        return cr_call_feed_tag(calls, c);
    case IN_TAGS:
        return cr_call_feed_tags(calls, c);
    case IN_TAGGED_KEY:
        return cr_call_feed_tagged_key(calls, c);
    case IN_TAGGED_VALUE:
        return cr_call_feed_tagged_value(calls, c);
    case AT_NAME:
        return feed_begin(calls, c);
    case IN_HEAD:
        return c == '<' ? cr_call_start_tag(calls, c) : CR_CALLS_MORE;
    case IN_FENCE:
        return c == '\n' ? go(calls, AT_ARGUMENTS) : CR_CALLS_MORE;
    case AT_ARGUMENTS:
        return feed_behind_name(calls, c);
    case AT_MEMBER:
    case IN_MEMBER_KEY:
    case AT_COLON:
    case AT_MEMBER_VALUE:
    case IN_MEMBER_VALUE:
    case BEHIND_MEMBER:
        return cr_call_feed_member(calls, c);
    }
    return bad(calls, "expected a call");
}

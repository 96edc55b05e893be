/* Calls that are objects: {"name": "f", "arguments": {...}}, or {"f": {...}}. */
#include "chat/calls_internal.h"

static cr_calls_result end_object(cr_calls *calls)
{
    if (--calls->n_nested > 0)
        return go(calls, BEHIND_MEMBER);
    if (!calls->is_begun) {
        if (calls->name.size == 0)
            return bad(calls, "expected a name in the call");
        TRY(begin_call(calls));
        if (calls->held.size == 0)
            TRY(give(calls, "{}"));
        TRY(give_buf(calls, &calls->held));
    }
    return end_call(calls, AT_NEXT);
}

static cr_calls_result feed_member_key(cr_calls *calls, char c)
{
    static const struct {
        const char *key;
        target target;
    } keys[] = {
        { "\"name\"", FOR_NAME },
        { "\"function\"", FOR_NAME },
        { "\"tool_name\"", FOR_NAME },
        { "\"arguments\"", FOR_ARGUMENTS },
        { "\"parameters\"", FOR_ARGUMENTS },
    };
    bool ended, before;
    TRY(feed_value(calls, c, &ended, &before));
    if (!ended)
        return CR_CALLS_MORE;
    if (calls->has_name_keys) {
        if (calls->name.size > 0)
            return bad(calls, "expected one name in a call");
        calls->target = FOR_ARGUMENTS;
        if (!cr_json_unquote(&calls->name, (cr_str){ calls->text.data, calls->text.size }))
            return CR_CALLS_NOMEM;
        return go(calls, AT_COLON);
    }
    calls->target = FOR_NOTHING;
    for (size_t i = 0; i < CR_COUNT(keys); i++)
        if (cr_str_is((cr_str){ calls->text.data, calls->text.size }, keys[i].key))
            calls->target = (int)keys[i].target;
    return go(calls, AT_COLON);
}

/* The first byte of a member's value. */
static cr_calls_result feed_member_start(cr_calls *calls, char c)
{
    if (is_space(c))
        return CR_CALLS_MORE;
    if (calls->target == FOR_NAME && c == '{') { /* "function": {"name": ..., ...} */
        calls->n_nested++;
        return go(calls, AT_MEMBER);
    }
    if (calls->target == FOR_NAME && (c != '"' || calls->name.size > 0))
        return bad(calls, "expected one name in a call, a string");
    if (calls->target == FOR_ARGUMENTS && calls->has_arguments)
        return bad(calls, "a call has arguments twice");
    const bool streams = calls->target == FOR_ARGUMENTS && c == '{' && calls->name.size > 0;
    if (streams)
        TRY(begin_call(calls));
    start_value(calls, streams);
    calls->state = IN_MEMBER_VALUE;
    bool ended, before;
    return feed_value(calls, c, &ended, &before);
}

/* Arguments that were not given on yet: an object, one that is written as a string, or null. */
static cr_calls_result keep_arguments(cr_calls *calls)
{
    static const char why[] = "expected an object with the arguments";
    const char first = calls->text.data[0];
    calls->held.size = 0;
    if (first == '"') {
        if (!cr_json_unquote(&calls->held, (cr_str){ calls->text.data, calls->text.size }))
            return CR_CALLS_NOMEM;
        calls->text.size = 0;
        const cr_literal_result r = cr_literal_read(
            &calls->value, (cr_str){ calls->held.data, calls->held.size }, &calls->text);
        if (r == CR_LITERAL_NOMEM)
            return CR_CALLS_NOMEM;
        if (r != CR_LITERAL_END || calls->text.data[0] != '{')
            return bad(calls, why);
        calls->held.size = 0;
    } else if (first == 'n') {
        calls->text.size = 0;
    } else if (first != '{') {
        return bad(calls, why);
    }
    return cr_buf_append(&calls->held, calls->text.data, calls->text.size) ? CR_CALLS_MORE
                                                                           : CR_CALLS_NOMEM;
}

static cr_calls_result end_member(cr_calls *calls)
{
    calls->state = BEHIND_MEMBER;
    if (calls->target == FOR_NAME &&
        !cr_json_unquote(&calls->name, (cr_str){ calls->text.data, calls->text.size }))
        return CR_CALLS_NOMEM;
    if (calls->target == FOR_NAME && calls->name.size == 0)
        return bad(calls, "expected the name of a tool, found an empty text");
    if (calls->target != FOR_ARGUMENTS)
        return CR_CALLS_MORE;
    calls->has_arguments = true;
    return calls->is_streaming ? CR_CALLS_MORE : keep_arguments(calls);
}

cr_calls_result cr_call_feed_member(cr_calls *calls, char c)
{
    bool ended = false, before = false;
    switch ((state)calls->state) {
    case IN_MEMBER_KEY:
        return feed_member_key(calls, c);
    case AT_MEMBER_VALUE:
        return feed_member_start(calls, c);
    case IN_MEMBER_VALUE:
        TRY(feed_value(calls, c, &ended, &before));
        if (ended)
            TRY(end_member(calls));
        if (!before)
            return CR_CALLS_MORE;
        break;
    default:
        break;
    }
    if (is_space(c))
        return CR_CALLS_MORE;
    if (calls->state == AT_COLON)
        return c == ':' ? go(calls, AT_MEMBER_VALUE) : bad(calls, "expected :");
    if (c == '}')
        return end_object(calls);
    if (calls->state == BEHIND_MEMBER)
        return c == ',' ? go(calls, AT_MEMBER) : bad(calls, "expected , or }");
    if (c != '"')
        return bad(calls, "expected a key in double quotes");
    start_value(calls, false);
    calls->state = IN_MEMBER_KEY;
    return feed_value(calls, c, &ended, &before);
}

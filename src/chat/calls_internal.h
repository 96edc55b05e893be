/* What the readers of calls share. Only chat/call*.c include this.
 *
 *     calls.c         f(a="x"), f[ARGS]{...}, and what is between calls
 *     call_members.c  {"name": "f", "arguments": {...}}
 *     call_tags.c     <function=f>, and tags around names */
#ifndef CR_CALLS_INTERNAL_H
#define CR_CALLS_INTERNAL_H

#include "base/compiler.h"
#include "chat/calls.h"

typedef enum state {
    AT_START,      /* a [ or a call comes */
    AT_CALL,       /* a call comes, or what is behind the last one */
    AT_NEXT,       /* behind a call: a separator, or the end */
    AT_END,        /* nothing belongs to the calls any more */
    IN_NAME,       /* f of f(...) and of f[ARGS] */
    BEHIND_NAME,   /* white space between f and ( */
    IN_KEY_OR_END, /* of f(...): a key or ) comes */
    IN_KEY,        /* in a key */
    BEHIND_KEY,    /* = comes */
    IN_ARGUMENT,   /* in the value of a key */
    BEHIND_ARGUMENT,
    IN_MARK,      /* in [ARGS] or [CALL_ID] */
    IN_ID,        /* between [CALL_ID] and the next [ */
    IN_ARGUMENTS, /* in an object that is all arguments of a call that has begun */
    AT_MEMBER,    /* of {"name": ...}: a key or } comes */
    IN_MEMBER_KEY,
    AT_COLON,
    AT_MEMBER_VALUE,
    IN_MEMBER_VALUE,
    BEHIND_MEMBER,
    IN_TAGS, /* a tag of an argument, or of the end of the call, comes */
    IN_TAG,
    IN_TAGGED_KEY,
    IN_TAGGED_VALUE,
    IN_TAGGED_OBJECT, /* <function=f>{...}</function> */
    AT_NAME,          /* a name comes, behind a tag that says so */
    IN_HEAD,          /* in what says nothing, up to the next tag */
    IN_FENCE,         /* in ```json */
    AT_ARGUMENTS,     /* an object with all arguments comes, maybe after a name */
} state;

/* What the value of a JSON member is for. */
typedef enum target { FOR_NOTHING, FOR_NAME, FOR_ARGUMENTS } target;

enum { MAX_TAG = 300, MAX_NAME = 256 };

static inline cr_calls_result bad(cr_calls *calls, const char *why)
{
    calls->bad = why;
    return CR_CALLS_BAD;
}

static inline cr_calls_result go(cr_calls *calls, state next)
{
    calls->state = (int)next;
    return CR_CALLS_MORE;
}

static inline bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static inline bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static inline bool is_name(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == ':';
}

static inline cr_calls_result said(bool go_on)
{
    return go_on ? CR_CALLS_MORE : CR_CALLS_STOPPED;
}

static inline cr_calls_result give(cr_calls *calls, const char *json)
{
    return said(calls->sink->arguments(calls->sink->ctx, cr_str_from(json)));
}

static inline cr_calls_result give_buf(cr_calls *calls, cr_buf *json)
{
    const cr_str text = { json->data, json->size };
    json->size = 0;
    return text.size == 0 ? CR_CALLS_MORE : said(calls->sink->arguments(calls->sink->ctx, text));
}

static inline cr_calls_result begin_call(cr_calls *calls)
{
    if (calls->name.size == 0 || calls->name.size > MAX_NAME)
        return bad(calls, "expected the name of a tool, of at most 256 bytes");
    calls->is_begun = true;
    return said(
        calls->sink->begin(calls->sink->ctx, (cr_str){ calls->name.data, calls->name.size }));
}

static inline void forget_call(cr_calls *calls)
{
    calls->is_begun = calls->has_arguments = calls->is_streaming = calls->has_key = false;
    calls->tag = NULL;
    calls->n_nested = 0;
    calls->n_arguments = 0;
    calls->name.size = calls->text.size = calls->held.size = 0;
}

static inline cr_calls_result end_call(cr_calls *calls, state next)
{
    const bool go_on = calls->sink->end(calls->sink->ctx);
    forget_call(calls);
    calls->n_calls++;
    calls->state = (int)next;
    return said(go_on);
}

#define TRY(step)                                                                                  \
    do {                                                                                           \
        const cr_calls_result try_result = (step);                                                 \
        if (try_result != CR_CALLS_MORE)                                                           \
            return try_result;                                                                     \
    } while (0)

static inline void start_value(cr_calls *calls, bool is_streaming)
{
    calls->is_streaming = is_streaming;
    calls->text.size = 0;
    if (calls->has_marked_texts)
        cr_literal_init_marked(&calls->value, &calls->text);
    else
        cr_literal_init(&calls->value, &calls->text);
}

/* A byte of a value: *ended tells whether the value has ended, *before whether it had so before
 * the byte. */
static inline cr_calls_result feed_value(cr_calls *calls, char c, bool *ended, bool *before)
{
    const cr_literal_result r = cr_literal_feed(&calls->value, c);
    *before = r == CR_LITERAL_END_BEFORE;
    *ended = r == CR_LITERAL_END || *before;
    if (r == CR_LITERAL_BAD)
        return bad(calls, calls->value.bad);
    if (r == CR_LITERAL_NOMEM)
        return CR_CALLS_NOMEM;
    return calls->is_streaming ? give_buf(calls, &calls->text) : CR_CALLS_MORE;
}

/* The object of all arguments, behind its beginning (calls.c). */
cr_calls_result cr_call_feed_arguments(cr_calls *calls, char c);
/* In an object that is a call: from AT_MEMBER to BEHIND_MEMBER. */
cr_calls_result cr_call_feed_member(cr_calls *calls, char c);
/* At the first byte of a tag, in one (IN_TAG), between those of arguments (IN_TAGS), and in the
 * texts behind them. */
cr_calls_result cr_call_start_tag(cr_calls *calls, char c);
cr_calls_result cr_call_feed_tag(cr_calls *calls, char c);
cr_calls_result cr_call_feed_tags(cr_calls *calls, char c);
cr_calls_result cr_call_feed_tagged_key(cr_calls *calls, char c);
cr_calls_result cr_call_feed_tagged_value(cr_calls *calls, char c);

#endif

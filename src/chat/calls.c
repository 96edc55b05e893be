#include "chat/calls.h"

#include "base/compiler.h"

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
    IN_FUNCTION_TAG, /* <function=f> */
    IN_TAGS,         /* a tag of an argument, or </function>, comes */
    IN_TAG,
    IN_TAGGED_VALUE,
    IN_TAGGED_OBJECT, /* <function=f>{...}</function> */
} state;

/* What the value of a JSON member is for. */
typedef enum target { FOR_NOTHING, FOR_NAME, FOR_ARGUMENTS } target;

enum { MAX_TAG = 300, MAX_NAME = 256 };

void cr_calls_init(cr_calls *calls, const cr_tools *tools, const cr_calls_sink *sink, cr_host *host)
{
    *calls = (cr_calls){ .tools = tools, .sink = sink };
    cr_buf_init(&calls->name, host, CR_MEM_OBJECT);
    cr_buf_init(&calls->text, host, CR_MEM_OBJECT);
    cr_buf_init(&calls->held, host, CR_MEM_OBJECT);
}

void cr_calls_done(cr_calls *calls)
{
    cr_buf_done(&calls->name);
    cr_buf_done(&calls->text);
    cr_buf_done(&calls->held);
}

static void forget_call(cr_calls *calls)
{
    calls->is_begun = calls->has_arguments = calls->is_streaming = false;
    calls->n_nested = 0;
    calls->n_arguments = 0;
    calls->name.size = calls->text.size = calls->held.size = 0;
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

/* ---- steps --------------------------------------------------------------------------------- */

static cr_calls_result bad(cr_calls *calls, const char *why)
{
    calls->bad = why;
    return CR_CALLS_BAD;
}

static cr_calls_result go(cr_calls *calls, state next)
{
    calls->state = (int)next;
    return CR_CALLS_MORE;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-';
}

static cr_calls_result said(bool go_on)
{
    return go_on ? CR_CALLS_MORE : CR_CALLS_STOPPED;
}

static cr_calls_result give(cr_calls *calls, const char *json)
{
    return said(calls->sink->arguments(calls->sink->ctx, cr_str_from(json)));
}

static cr_calls_result give_buf(cr_calls *calls, cr_buf *json)
{
    const cr_str text = { json->data, json->size };
    json->size = 0;
    return text.size == 0 ? CR_CALLS_MORE : said(calls->sink->arguments(calls->sink->ctx, text));
}

static cr_calls_result begin_call(cr_calls *calls)
{
    if (calls->name.size == 0 || calls->name.size > MAX_NAME)
        return bad(calls, "expected the name of a tool, of at most 256 bytes");
    calls->is_begun = true;
    return said(
        calls->sink->begin(calls->sink->ctx, (cr_str){ calls->name.data, calls->name.size }));
}

static cr_calls_result end_call(cr_calls *calls, state next)
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

static void start_value(cr_calls *calls, bool is_streaming)
{
    calls->is_streaming = is_streaming;
    calls->text.size = 0;
    cr_literal_init(&calls->value, &calls->text);
}

/* A byte of a value: *ended tells whether the value has ended, *before whether it had so before
 * the byte. */
static cr_calls_result feed_value(cr_calls *calls, char c, bool *ended, bool *before)
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
    if (c == '{' && calls->state == IN_NAME) {
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

static cr_calls_result feed_arguments(cr_calls *calls, char c)
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

/* ---- {"name": "f", "arguments": {...}} ----------------------------------------------------- */

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
        { "\"arguments\"", FOR_ARGUMENTS },
        { "\"parameters\"", FOR_ARGUMENTS },
    };
    bool ended, before;
    TRY(feed_value(calls, c, &ended, &before));
    if (!ended)
        return CR_CALLS_MORE;
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

static cr_calls_result feed_member(cr_calls *calls, char c)
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

/* ---- <function=f> -------------------------------------------------------------------------- */

/* X of <kind=X>, the tag being all of `text`; size 0 when it is another tag. */
static cr_str tag_name(const cr_buf *text, const char *kind)
{
    const size_t n = strlen(kind);
    if (text->size <= n + 1 || memcmp(text->data, kind, n) != 0)
        return (cr_str){ "", 0 };
    return (cr_str){ text->data + n, text->size - n - 1 };
}

static cr_calls_result feed_tag(cr_calls *calls, char c)
{
    if (calls->text.size >= MAX_TAG)
        return bad(calls, "a tag is too long");
    if (!cr_buf_append(&calls->text, &c, 1))
        return CR_CALLS_NOMEM;
    if (c != '>')
        return CR_CALLS_MORE;
    if (calls->state == IN_FUNCTION_TAG) {
        const cr_str name = tag_name(&calls->text, "<function=");
        if (name.size == 0)
            return bad(calls, "expected <function=NAME>");
        if (!cr_buf_append(&calls->name, name.data, name.size))
            return CR_CALLS_NOMEM;
        TRY(begin_call(calls));
        return go(calls, IN_TAGS);
    }
    if (cr_str_is((cr_str){ calls->text.data, calls->text.size }, "</function>")) {
        if (!calls->has_arguments)
            TRY(give(calls, calls->n_arguments > 0 ? "}" : "{}"));
        return end_call(calls, AT_NEXT);
    }
    const cr_str key = tag_name(&calls->text, "<parameter=");
    if (key.size == 0 || calls->has_arguments)
        return bad(calls, "expected <parameter=NAME> or </function>");
    calls->held.size = 0; /* the key stays there while its value is read */
    if (!cr_buf_append(&calls->held, key.data, key.size))
        return CR_CALLS_NOMEM;
    calls->text.size = 0;
    return go(calls, IN_TAGGED_VALUE);
}

/* Models write the value on lines of its own; those two line feeds are not part of it. */
static cr_str without_lines(cr_str text)
{
    if (text.size > 0 && text.data[0] == '\n') {
        text.data++;
        text.size--;
    }
    if (text.size > 0 && text.data[text.size - 1] == '\n')
        text.size--;
    return text;
}

/* Nothing says what a value is but the schema: without one, what reads as a value is one, and the
 * rest is text. */
static cr_calls_result give_tagged(cr_calls *calls, cr_str text)
{
    const cr_str key = { calls->held.data, calls->held.size };
    const cr_str name = { calls->name.data, calls->name.size };
    cr_buf json;
    cr_buf_init(&json, calls->text.host, CR_MEM_OBJECT);
    bool ok =
        cr_buf_append(&json, calls->n_arguments > 0 ? ", " : "{", calls->n_arguments > 0 ? 2 : 1) &&
        cr_json_quote(&json, key) && cr_buf_append(&json, ": ", 2);
    const size_t before = json.size;
    cr_literal_result r = CR_LITERAL_BAD;
    if (ok && text.size > 0 && text.data[0] != '\'' && !cr_tools_is_text(calls->tools, name, key))
        r = cr_literal_read(&calls->value, text, &json);
    if (r == CR_LITERAL_BAD) {
        json.size = before;
        ok = ok && cr_json_quote(&json, text);
    }
    cr_calls_result result = CR_CALLS_NOMEM;
    if (ok && r != CR_LITERAL_NOMEM)
        result = give_buf(calls, &json);
    cr_buf_done(&json);
    calls->n_arguments++;
    return result;
}

static cr_calls_result feed_tagged_value(cr_calls *calls, char c)
{
    static const char end[] = "</parameter>";
    const size_t n_end = sizeof end - 1;
    if (!cr_buf_append(&calls->text, &c, 1))
        return CR_CALLS_NOMEM;
    const size_t size = calls->text.size;
    if (c != '>' || size < n_end || memcmp(calls->text.data + size - n_end, end, n_end) != 0)
        return CR_CALLS_MORE;
    TRY(give_tagged(calls, without_lines((cr_str){ calls->text.data, size - n_end })));
    calls->text.size = 0;
    return go(calls, IN_TAGS);
}

static cr_calls_result feed_tags(cr_calls *calls, char c)
{
    if (is_space(c))
        return CR_CALLS_MORE;
    if (c == '{' && calls->n_arguments == 0 && !calls->has_arguments) {
        start_value(calls, true);
        calls->state = IN_TAGGED_OBJECT;
        return feed_arguments(calls, c);
    }
    calls->text.size = 0;
    calls->is_streaming = false;
    calls->state = IN_TAG;
    return c == '<' ? feed_tag(calls, c) : bad(calls, "expected <parameter=NAME>");
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
    if (c == '<' && calls->n_calls == 0) {
        calls->state = IN_FUNCTION_TAG;
        return feed_tag(calls, c);
    }
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
        return feed_arguments(calls, c);
    case IN_FUNCTION_TAG:
    case IN_TAG:
        return feed_tag(calls, c);
    case IN_TAGS:
        return feed_tags(calls, c);
    case IN_TAGGED_VALUE:
        return feed_tagged_value(calls, c);
    case AT_MEMBER:
    case IN_MEMBER_KEY:
    case AT_COLON:
    case AT_MEMBER_VALUE:
    case IN_MEMBER_VALUE:
    case BEHIND_MEMBER:
        return feed_member(calls, c);
    }
    return bad(calls, "expected a call");
}

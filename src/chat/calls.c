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

static void forget_call(cr_calls *calls)
{
    calls->is_begun = calls->has_arguments = calls->is_streaming = calls->has_key = false;
    calls->tag = NULL;
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
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == ':';
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

static cr_calls_result feed_tag(cr_calls *calls, char c);

static cr_calls_result start_tag(cr_calls *calls, char c)
{
    calls->text.size = 0;
    calls->is_streaming = false;
    calls->state = IN_TAG;
    return feed_tag(calls, c);
}

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
        return start_tag(calls, c);
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

static cr_calls_result set_name(cr_buf *buf, cr_str name)
{
    buf->size = 0;
    return cr_buf_append(buf, name.data, name.size) ? CR_CALLS_MORE : CR_CALLS_NOMEM;
}

/* functions.f:0, as some models number their calls, is a call of f. */
static void strip_name(cr_buf *name)
{
    static const char space[] = "functions.";
    const size_t n = sizeof space - 1;
    if (name->size > n && memcmp(name->data, space, n) == 0) {
        name->size -= n;
        memmove(name->data, name->data + n, name->size);
    }
    size_t at = name->size;
    while (at > 0 && name->data[at - 1] >= '0' && name->data[at - 1] <= '9')
        at--;
    if (at > 1 && at < name->size && name->data[at - 1] == ':')
        name->size = at - 1;
}

static cr_calls_result end_tagged(cr_calls *calls)
{
    if (!calls->is_begun)
        TRY(begin_call(calls));
    if (!calls->has_arguments)
        TRY(give(calls, calls->n_arguments > 0 ? "}" : "{}"));
    return end_call(calls, AT_NEXT);
}

/* A value follows: that of a text is given on as it comes, others are read when they are whole. */
static cr_calls_result start_tagged(cr_calls *calls)
{
    const cr_str key = { calls->key.data, calls->key.size };
    const cr_str name = { calls->name.data, calls->name.size };
    const cr_tag_kind kind = calls->tag->kind;
    calls->state = IN_TAGGED_VALUE;
    calls->has_key = false;
    calls->is_first = true;
    calls->text.size = 0;
    calls->is_streaming =
        kind == CR_TAG_TEXT || (kind == CR_TAG_VALUE && cr_tools_is_text(calls->tools, name, key));
    TRY(give(calls, calls->n_arguments++ > 0 ? ", " : "{"));
    calls->held.size = 0;
    if (!cr_json_quote(&calls->held, key))
        return CR_CALLS_NOMEM;
    TRY(give_buf(calls, &calls->held));
    return give(calls, calls->is_streaming ? ": \"" : ": ");
}

/* What a whole tag says. */
static cr_calls_result read_tag(cr_calls *calls, cr_str name)
{
    const bool is_new = calls->name.size == 0, can_begin = !is_new && !calls->is_begun;
    const bool in_call = calls->is_begun && !calls->has_arguments;
    switch (calls->tag->kind) {
    case CR_TAG_CALL:
        if (!is_new)
            break;
        TRY(set_name(&calls->name, name));
        TRY(begin_call(calls));
        return go(calls, IN_TAGS);
    case CR_TAG_BEGIN:
        return is_new ? go(calls, AT_NAME) : bad(calls, "expected the arguments of a call");
    case CR_TAG_NAME:
        if (!can_begin)
            break;
        calls->name.size = 0;
        return go(calls, AT_NAME);
    case CR_TAG_HEAD:
        return can_begin ? go(calls, IN_HEAD) : bad(calls, "expected a call");
    case CR_TAG_ARGUMENTS:
        if (!can_begin)
            break;
        strip_name(&calls->name);
        return go(calls, AT_ARGUMENTS);
    case CR_TAG_KEY:
        if (!can_begin && !in_call)
            break;
        if (can_begin)
            TRY(begin_call(calls));
        calls->text.size = 0;
        return go(calls, IN_TAGGED_KEY);
    case CR_TAG_VALUE:
    case CR_TAG_TEXT:
    case CR_TAG_JSON:
        if (!in_call || (name.size == 0 && !calls->has_key))
            break;
        if (name.size > 0)
            TRY(set_name(&calls->key, name));
        return start_tagged(calls);
    case CR_TAG_END:
        if (calls->is_begun || (can_begin && calls->has_bare_names))
            return end_tagged(calls);
        break;
    }
    return bad(calls, calls->is_begun ? "expected an argument, or the end of the call"
                                      : "expected the beginning of a call");
}

static cr_calls_result feed_tag(cr_calls *calls, char c)
{
    if (calls->text.size >= MAX_TAG)
        return bad(calls, "a tag is too long");
    if (!cr_buf_append(&calls->text, &c, 1))
        return CR_CALLS_NOMEM;
    if (c != '>')
        return CR_CALLS_MORE;
    cr_str name;
    calls->tag = cr_tag_find((cr_str){ calls->text.data, calls->text.size }, &name);
    return calls->tag != NULL ? read_tag(calls, name)
                              : bad(calls, "expected the beginning of a call, found another tag");
}

/* Whether the text ends with what ends it. */
static bool has_end(const cr_calls *calls, size_t *n_end)
{
    const char *end = calls->tag->end;
    *n_end = strlen(end);
    return calls->text.size >= *n_end &&
           memcmp(calls->text.data + calls->text.size - *n_end, end, *n_end) == 0;
}

static cr_calls_result feed_tagged_key(cr_calls *calls, char c)
{
    size_t n_end;
    if (calls->text.size > MAX_TAG)
        return bad(calls, "the name of an argument is too long");
    if (!cr_buf_append(&calls->text, &c, 1))
        return CR_CALLS_NOMEM;
    if (!has_end(calls, &n_end))
        return CR_CALLS_MORE;
    TRY(set_name(&calls->key, (cr_str){ calls->text.data, calls->text.size - n_end }));
    calls->has_key = true;
    return go(calls, IN_TAGS);
}

/* How much of the end of the text may belong to what ends it. */
static size_t count_open(const cr_calls *calls)
{
    const char *end = calls->tag->end;
    const size_t n_end = strlen(end), size = calls->text.size;
    for (size_t n = CR_MIN(size, n_end); n > 0; n--) {
        const char *tail = calls->text.data + size - n;
        const size_t n_line = calls->tag->has_lines && *tail == '\n';
        if (memcmp(tail + n_line, end, n - n_line) == 0)
            return n;
    }
    return 0;
}

/* The first n bytes of a text between tags. */
static cr_calls_result give_text(cr_calls *calls, size_t n)
{
    if (!cr_json_escape(&calls->held, (cr_str){ calls->text.data, n }))
        return CR_CALLS_NOMEM;
    calls->text.size -= n;
    memmove(calls->text.data, calls->text.data + n, calls->text.size);
    return give_buf(calls, &calls->held);
}

/* Nothing says what a value is but the schema: without one, what reads as a value is one, and the
 * rest is text. */
static cr_calls_result give_value(cr_calls *calls, cr_str text)
{
    cr_literal_result r = CR_LITERAL_BAD;
    if (text.size > 0 && text.data[0] != '\'')
        r = cr_literal_read(&calls->value, text, &calls->held);
    if (r == CR_LITERAL_BAD) {
        calls->held.size = 0;
        r = cr_json_quote(&calls->held, text) ? CR_LITERAL_END : CR_LITERAL_NOMEM;
    }
    return r == CR_LITERAL_NOMEM ? CR_CALLS_NOMEM : give_buf(calls, &calls->held);
}

static cr_calls_result feed_tagged_value(cr_calls *calls, char c)
{
    const bool has_lines = calls->tag->has_lines;
    const bool is_first = calls->is_first;
    calls->is_first = false;
    if (is_first && has_lines && c == '\n')
        return CR_CALLS_MORE;
    if (!cr_buf_append(&calls->text, &c, 1))
        return CR_CALLS_NOMEM;
    size_t n_end;
    if (has_end(calls, &n_end)) {
        size_t n = calls->text.size - n_end;
        n -= has_lines && n > 0 && calls->text.data[n - 1] == '\n';
        if (calls->is_streaming) {
            TRY(give_text(calls, n));
            TRY(give(calls, "\""));
        } else {
            TRY(give_value(calls, (cr_str){ calls->text.data, n }));
        }
        return go(calls, IN_TAGS);
    }
    return calls->is_streaming ? give_text(calls, calls->text.size - count_open(calls))
                               : CR_CALLS_MORE;
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
    return c == '<' ? start_tag(calls, c) : bad(calls, "expected the tag of an argument");
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
    return feed_arguments(calls, c);
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
        return start_tag(calls, c);
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
    case IN_TAG:
        return feed_tag(calls, c);
    case IN_TAGS:
        return feed_tags(calls, c);
    case IN_TAGGED_KEY:
        return feed_tagged_key(calls, c);
    case IN_TAGGED_VALUE:
        return feed_tagged_value(calls, c);
    case AT_NAME:
        return feed_begin(calls, c);
    case IN_HEAD:
        return c == '<' ? start_tag(calls, c) : CR_CALLS_MORE;
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
        return feed_member(calls, c);
    }
    return bad(calls, "expected a call");
}

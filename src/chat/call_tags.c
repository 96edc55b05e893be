/* Calls in tags: <function=f> with a tag for each argument, and tags around a name. */
#include "chat/calls_internal.h"

/* Puts & and " in place of &amp; and &quot;. */
static void resolve_entities(cr_buf *text)
{
    static const struct {
        const char *entity;
        char is;
    } entities[] = { { "&amp;", '&' }, { "&quot;", '"' } };
    size_t n = 0;
    for (size_t at = 0; at < text->size;) {
        size_t length = 1;
        char c = text->data[at];
        for (size_t i = 0; i < CR_COUNT(entities) && c == '&' && length == 1; i++) {
            const size_t n_entity = strlen(entities[i].entity);
            if (text->size - at < n_entity ||
                memcmp(text->data + at, entities[i].entity, n_entity) != 0)
                continue;
            length = n_entity;
            c = entities[i].is;
        }
        text->data[n++] = c;
        at += length;
    }
    text->size = n;
}

/* What a tag says, or what is between two. */
static cr_calls_result set_name(const cr_calls *calls, cr_buf *buf, cr_str name)
{
    buf->size = 0;
    if (!cr_buf_append(buf, name.data, name.size))
        return CR_CALLS_NOMEM;
    if ((calls->tag->how & CR_TAG_ENTITIES) != 0)
        resolve_entities(buf);
    return CR_CALLS_MORE;
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
        TRY(set_name(calls, &calls->name, name));
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
            TRY(set_name(calls, &calls->key, name));
        return start_tagged(calls);
    case CR_TAG_LAYOUT:
        if (!calls->is_begun)
            break;
        return go(calls, IN_TAGS);
    case CR_TAG_END:
        if (calls->is_begun || (can_begin && calls->has_bare_names))
            return end_tagged(calls);
        break;
    }
    return bad(calls, calls->is_begun ? "expected an argument, or the end of the call"
                                      : "expected the beginning of a call");
}

cr_calls_result cr_call_feed_tag(cr_calls *calls, char c)
{
    if (calls->text.size >= MAX_TAG)
        return bad(calls, "a tag is too long");
    if (!cr_buf_append(&calls->text, &c, 1))
        return CR_CALLS_NOMEM;
    if (c != '>')
        return CR_CALLS_MORE;
    cr_str name;
    const cr_str text = { calls->text.data, calls->text.size };
    if (cr_tag_is_open(text))
        return CR_CALLS_MORE;
    calls->tag = cr_tag_find(text, &name);
    return calls->tag != NULL ? read_tag(calls, name)
                              : bad(calls, "expected the beginning of a call, found another tag");
}

/* Whether the text ends with what ends it. */
static bool has_end(const cr_calls *calls, size_t *n_end)
{
    const char *end = calls->tag->end;
    *n_end = strlen(end);
    return cr_str_ends((cr_str){ calls->text.data, calls->text.size }, end);
}

cr_calls_result cr_call_feed_tagged_key(cr_calls *calls, char c)
{
    size_t n_end;
    if (calls->text.size > MAX_TAG)
        return bad(calls, "the name of an argument is too long");
    if (!cr_buf_append(&calls->text, &c, 1))
        return CR_CALLS_NOMEM;
    if (!has_end(calls, &n_end))
        return CR_CALLS_MORE;
    TRY(set_name(calls, &calls->key, (cr_str){ calls->text.data, calls->text.size - n_end }));
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
        const size_t n_line = (calls->tag->how & CR_TAG_LINES) != 0 && *tail == '\n';
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

cr_calls_result cr_call_feed_tagged_value(cr_calls *calls, char c)
{
    const bool has_lines = (calls->tag->how & CR_TAG_LINES) != 0;
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

cr_calls_result cr_call_feed_tags(cr_calls *calls, char c)
{
    if (is_space(c))
        return CR_CALLS_MORE;
    if (c == '{' && calls->n_arguments == 0 && !calls->has_arguments) {
        start_value(calls, true);
        calls->state = IN_TAGGED_OBJECT;
        return cr_call_feed_arguments(calls, c);
    }
    return c == '<' ? cr_call_start_tag(calls, c) : bad(calls, "expected the tag of an argument");
}

cr_calls_result cr_call_start_tag(cr_calls *calls, char c)
{
    calls->text.size = 0;
    calls->is_streaming = false;
    calls->state = IN_TAG;
    return cr_call_feed_tag(calls, c);
}

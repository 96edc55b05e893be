#include "chat/reply.h"

#include "base/compiler.h"

typedef enum state { CONTENT, REASONING, CALLS, AFTER } state;

static void feed(cr_reply *r, char c);
static void feed_calls(cr_reply *r, char c);

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool works(const cr_reply *r)
{
    return r->status == CERA_OK;
}

static bool store(cr_reply *r, cr_buf *buf, const char *data, size_t n)
{
    if (works(r) && !cr_buf_append(buf, data, n))
        r->status = CERA_E_NOMEM;
    return works(r);
}

/* ---- to the sink --------------------------------------------------------------------------- */

static bool said(cr_reply *r, int answer)
{
    if (answer != 0 && works(r))
        r->status = CERA_E_CANCELLED;
    return works(r);
}

/* Gives on what has been collected: at the end of a piece, and when something else comes. */
static bool flush(cr_reply *r)
{
    const cera_chat_sink *sink = &r->sink;
    const size_t n = r->out.size;
    const cr_reply_out kind = r->kind;
    r->out.size = 0;
    r->kind = CR_OUT_NOTHING;
    if (!works(r) || n == 0)
        return works(r);
    if (kind == CR_OUT_CONTENT && sink->on_content != NULL)
        return said(r, sink->on_content(sink->user, r->out.data, n));
    if (kind == CR_OUT_REASONING && sink->on_reasoning != NULL)
        return said(r, sink->on_reasoning(sink->user, r->out.data, n));
    if (kind == CR_OUT_ARGUMENTS && sink->on_arguments != NULL)
        return said(r, sink->on_arguments(sink->user, r->n_given - 1, r->out.data, n));
    return true;
}

static bool put(cr_reply *r, cr_reply_out kind, const char *text, size_t n)
{
    if (n == 0)
        return works(r);
    if (r->kind != kind && !flush(r))
        return false;
    r->kind = kind;
    return store(r, &r->out, text, n);
}

static bool begin_call(void *ctx, cr_str name)
{
    cr_reply *r = ctx;
    if (r->is_muted) {
        /* A name that is a tool's is no accident. */
        r->wants_replay |= cr_tools_has(&r->tools, name);
        return true;
    }
    if (!flush(r))
        return false;
    const int index = r->n_given++;
    r->call_is_open = true;
    return r->sink.on_call == NULL ||
           said(r, r->sink.on_call(r->sink.user, index, name.data, name.size));
}

static bool give_arguments(void *ctx, cr_str json)
{
    cr_reply *r = ctx;
    return r->is_muted || put(r, CR_OUT_ARGUMENTS, json.data, json.size);
}

static bool end_call(void *ctx)
{
    cr_reply *r = ctx;
    if (r->is_muted)
        return true;
    if (!flush(r))
        return false;
    r->call_is_open = false;
    r->raw.size = 0;
    return r->sink.on_call_end == NULL ||
           said(r, r->sink.on_call_end(r->sink.user, r->n_given - 1));
}

/* ---- content and reasoning ----------------------------------------------------------------- */

/* A byte that is not part of a marker. White space waits for what follows: between text and a
 * marker it is layout. */
static void release(cr_reply *r, cr_reply_out kind, char byte)
{
    if (is_space(byte)) {
        if (!r->eats_space)
            store(r, &r->space, &byte, 1);
        return;
    }
    r->eats_space = false;
    if (kind == CR_OUT_CONTENT)
        r->is_fresh = false;
    put(r, kind, r->space.data, r->space.size);
    r->space.size = 0;
    put(r, kind, &byte, 1);
}

static void start_calls(cr_reply *r, bool is_bare)
{
    cr_calls_reset(&r->calls);
    r->state = CALLS;
    r->is_bare = r->is_muted = is_bare;
    r->is_fresh &= is_bare;
    r->wants_replay = false;
    r->call_is_open = false;
    /* Should they be none, the white space before them was text. */
    r->raw.size = 0;
    store(r, &r->raw, r->space.data, r->space.size);
    r->space.size = 0;
    r->raw_begin = r->raw.size;
}

static void back_to_content(cr_reply *r, bool eats_space)
{
    r->state = CONTENT;
    r->eats_space = eats_space;
    r->raw.size = 0;
    r->n_held = 0;
}

/* What was taken for calls is text. */
static void turn_into_content(cr_reply *r)
{
    r->is_fresh = false;
    put(r, CR_OUT_CONTENT, r->raw.data, r->raw.size);
    back_to_content(r, false);
}

static void fail(cr_reply *r, const char *why)
{
    if (!r->is_muted && flush(r)) {
        const cera_chat_error error = { .message = why,
                                        .call =
                                            r->call_is_open ? r->n_given - 1 : CERA_CHAT_NO_CALL,
                                        .text = r->raw.data,
                                        .n_text = r->raw.size };
        if (r->sink.on_error != NULL)
            said(r, r->sink.on_error(r->sink.user, &error));
    }
    r->call_is_open = false;
    turn_into_content(r);
}

/* 1: held is the whole marker, 0: it may become it, -1: it is something else. */
static int compare_mark(const cr_reply *r, const char *mark)
{
    if (mark == NULL)
        return -1;
    const size_t n = strlen(mark); /* what is held may have a NUL */
    if (n < r->n_held || memcmp(mark, r->held, r->n_held) != 0)
        return -1;
    return n == r->n_held;
}

/* What is held begins calls, opener and all. */
static void open_calls(cr_reply *r, bool keeps_it)
{
    start_calls(r, false);
    if (!keeps_it)
        store(r, &r->raw, r->held, r->n_held);
    for (size_t k = 0; k < r->n_held && keeps_it; k++)
        feed_calls(r, r->held[k]);
}

/* Whether what is held may become layout, a longer mark than an opener that it is. */
static bool may_be_layout(const cr_reply *r)
{
    for (size_t i = 0; i < CR_CHAT_LAYOUT; i++)
        if (compare_mark(r, r->format->layout[i]) == 0)
            return true;
    return false;
}

/* What held is of the markers that may come here: does what a whole one asks for. */
static int match_marks(cr_reply *r)
{
    int best = -1;
    for (size_t i = 0; i < cr_n_reasoning; i++) {
        const bool wanted =
            r->state == REASONING
                ? &cr_reasoning_table[i] == r->marks
                : r->has_reasoning && (r->format->thinks_again || (r->is_fresh && !r->has_thought));
        const char *mark =
            r->state == REASONING ? cr_reasoning_table[i].close : cr_reasoning_table[i].open;
        const int found = wanted ? compare_mark(r, mark) : -1;
        best = found > best ? found : best;
        if (found <= 0)
            continue;
        r->has_thought = true;
        r->marks = &cr_reasoning_table[i];
        r->state = r->state == REASONING ? CONTENT : REASONING;
        r->eats_space = true;
        r->space.size = 0;
        return 1;
    }
    for (size_t i = 0; i < CR_CHAT_OPENERS && r->state == CONTENT; i++) {
        int found = compare_mark(r, r->format->openers[i]);
        if (found > 0 && may_be_layout(r))
            found = 0;
        best = found > best ? found : best;
        if (found <= 0)
            continue;
        open_calls(r, i == 1 && r->format->keeps_opener);
        return 1;
    }
    if (r->state == CONTENT && r->is_fresh) {
        const int found = compare_mark(r, r->format->first);
        best = found > best ? found : best;
        if (found > 0) {
            open_calls(r, false);
            return 1;
        }
    }
    const bool has_layout = r->has_thought || !r->format->has_plain_layout;
    for (size_t i = 0; i < CR_CHAT_LAYOUT && r->state == CONTENT && has_layout; i++) {
        const int found = compare_mark(r, r->format->layout[i]);
        best = found > best ? found : best;
        if (found <= 0)
            continue;
        r->eats_space = true;
        return 1;
    }
    return best;
}

/* The first byte of held is no marker's. */
static void release_first(cr_reply *r)
{
    const char first = r->held[0];
    if (r->state == CONTENT && r->is_fresh && first == r->format->bare && first != '\0') {
        char rest[CR_REPLY_MARK];
        const size_t n = r->n_held;
        memcpy(rest, r->held, n);
        r->n_held = 0;
        start_calls(r, true);
        for (size_t i = 0; i < n; i++)
            feed(r, rest[i]);
        return;
    }
    release(r, r->state == REASONING ? CR_OUT_REASONING : CR_OUT_CONTENT, first);
    memmove(r->held, r->held + 1, --r->n_held);
}

/* Held begins with an opener that could have become layout and has not: what is behind it is of the
 * calls. */
static bool take_opener(cr_reply *r)
{
    for (size_t i = 0; i < CR_CHAT_OPENERS && r->state == CONTENT; i++) {
        const char *opener = r->format->openers[i];
        const size_t n = opener != NULL ? strlen(opener) : r->n_held;
        if (n >= r->n_held || memcmp(r->held, opener, n) != 0)
            continue;
        char rest[CR_REPLY_MARK];
        const size_t n_rest = r->n_held - n;
        memcpy(rest, r->held + n, n_rest);
        r->n_held = n;
        open_calls(r, i == 1 && r->format->keeps_opener);
        r->n_held = 0;
        for (size_t k = 0; k < n_rest; k++)
            feed(r, rest[k]);
        return true;
    }
    return false;
}

static void feed_text(cr_reply *r, char c)
{
    r->held[r->n_held++] = c;
    while (works(r) && r->n_held > 0) {
        const int found = match_marks(r);
        if (found > 0)
            r->n_held = 0;
        if (found >= 0 || take_opener(r))
            return;
        release_first(r);
    }
}

/* ---- calls --------------------------------------------------------------------------------- */

/* They are calls: read them once more, and give them on. */
static cr_calls_result replay(cr_reply *r)
{
    r->wants_replay = r->is_muted = false;
    r->is_fresh = false;
    cr_calls_reset(&r->calls);
    /* The end of a call empties raw, and what follows it is fed from here. */
    cr_buf raw = r->raw;
    const size_t begin = r->raw_begin;
    cr_buf_init(&r->raw, r->host, CR_MEM_OBJECT);
    cr_calls_result result = CR_CALLS_MORE;
    store(r, &r->raw, raw.data, begin);
    for (size_t i = begin; i < raw.size && works(r) && result <= CR_CALLS_END; i++) {
        store(r, &r->raw, raw.data + i, 1);
        result = cr_calls_feed(&r->calls, raw.data[i]);
    }
    cr_buf_done(&raw);
    return result;
}

static void feed_calls(cr_reply *r, char c)
{
    if (!store(r, &r->raw, &c, 1)) /* before the end of a call, which empties it */
        return;
    cr_calls_result result = cr_calls_feed(&r->calls, c);
    if (result == CR_CALLS_BAD || result == CR_CALLS_END_BEFORE)
        r->raw.size--;
    if (r->wants_replay && result <= CR_CALLS_END)
        result = replay(r);
    switch (result) {
    case CR_CALLS_MORE:
        break;
    case CR_CALLS_END:
        r->state = AFTER;
        break;
    case CR_CALLS_END_BEFORE:
        r->state = AFTER;
        feed(r, c);
        break;
    case CR_CALLS_BAD:
        fail(r, r->calls.bad);
        feed(r, c);
        break;
    case CR_CALLS_NOMEM:
        r->status = CERA_E_NOMEM;
        break;
    case CR_CALLS_STOPPED: /* the status says why */
        break;
    }
}

/* Behind the calls: white space, markers that close them, more of them, or something else. */
static void feed_after(cr_reply *r, char c)
{
    if (r->n_held == 0 && is_space(c)) {
        store(r, &r->raw, &c, 1);
        return;
    }
    if (r->is_bare && r->is_muted) { /* a call alone is a call; this is a text */
        turn_into_content(r);
        feed(r, c);
        return;
    }
    r->held[r->n_held++] = c;
    int best = -1;
    for (size_t i = 0; i < CR_CHAT_CLOSERS; i++) {
        const int found = compare_mark(r, r->format->closers[i]);
        best = found > best ? found : best;
    }
    if (best > 0) /* more of them may follow */
        r->n_held = 0;
    if (best >= 0)
        return;
    char rest[CR_REPLY_MARK];
    const size_t n_rest = r->n_held;
    memcpy(rest, r->held, n_rest);
    back_to_content(r, true);
    for (size_t i = 0; i < n_rest; i++)
        feed(r, rest[i]);
}

/* ---- the reply ----------------------------------------------------------------------------- */

static void feed(cr_reply *r, char c)
{
    if (!works(r))
        return;
    switch ((state)r->state) {
    case CONTENT:
    case REASONING:
        feed_text(r, c);
        break;
    case CALLS:
        feed_calls(r, c);
        break;
    case AFTER:
        feed_after(r, c);
        break;
    }
}

static void begin_reply(cr_reply *r)
{
    r->status = CERA_OK;
    r->state = r->opened >= 0 ? REASONING : CONTENT;
    r->marks = r->opened >= 0 ? &cr_reasoning_table[r->opened] : NULL;
    r->is_fresh = true;
    r->has_thought = r->eats_space = r->opened >= 0;
    r->is_bare = r->is_muted = r->wants_replay = r->call_is_open = false;
    r->n_given = 0;
    r->n_part = r->n_held = 0;
    r->space.size = r->raw.size = r->out.size = 0;
    r->kind = CR_OUT_NOTHING;
    if (r->is_marked) { /* as if the reply began with it */
        r->n_held = strlen(r->format->prompt_end);
        memcpy(r->held, r->format->prompt_end, r->n_held);
    }
}

/* The last thing that the prompt says, whether it begins reasoning. */
static int find_opened(cr_str prompt)
{
    while (prompt.size > 0 && is_space(prompt.data[prompt.size - 1]))
        prompt.size--;
    for (size_t i = 0; i < cr_n_reasoning; i++)
        if (cr_str_ends(prompt, cr_reasoning_table[i].open))
            return (int)i;
    return -1;
}

void cr_reply_init(cr_reply *r, cr_str prompt)
{
    r->opened = r->has_reasoning ? find_opened(prompt) : -1;
    r->is_marked = r->format->prompt_end != NULL && cr_str_ends(prompt, r->format->prompt_end);
    r->calls_sink = (cr_calls_sink){ begin_call, give_arguments, end_call, r };
    cr_calls_init(&r->calls, &r->tools, &r->calls_sink, r->host);
    r->calls.has_bare_names = r->format->has_bare_names;
    r->calls.has_name_keys = r->format->has_name_keys;
    r->calls.has_marked_texts = r->format->has_marked_texts;
    cr_buf_init(&r->space, r->host, CR_MEM_OBJECT);
    cr_buf_init(&r->raw, r->host, CR_MEM_OBJECT);
    cr_buf_init(&r->out, r->host, CR_MEM_OBJECT);
    begin_reply(r);
}

void cr_reply_done(cr_reply *r)
{
    cr_calls_done(&r->calls);
    cr_tools_done(&r->tools);
    cr_buf_done(&r->space);
    cr_buf_done(&r->raw);
    cr_buf_done(&r->out);
}

static cera_status outcome(const cr_reply *r, cera_error *err)
{
    if (r->status == CERA_E_NOMEM)
        return cr_fail_nomem(err, 0, "the parts of a reply");
    if (r->status == CERA_E_CANCELLED)
        return cr_fail(err, CERA_E_CANCELLED, "reply: the sink has ended it");
    return CERA_OK;
}

/* Feeds the first character of `part`, if it is whole or never will be. */
static bool feed_part(cr_reply *r, bool is_end)
{
    uint32_t code;
    size_t n = cr_utf8_decode(r->part, r->n_part, &code);
    char c[4] = { '\xEF', '\xBF', '\xBD' }; /* U+FFFD */
    if (n == 0 && !is_end && cr_utf8_is_open(r->part, r->n_part))
        return false;
    if (n > 0)
        memcpy(c, r->part, n);
    for (size_t i = 0; i < (n > 0 ? n : 3); i++)
        feed(r, c[i]);
    n = n > 0 ? n : 1;
    r->n_part -= n;
    memmove(r->part, r->part + n, r->n_part);
    return r->n_part > 0;
}

cera_status cr_reply_push(cr_reply *r, const char *text, size_t n, cera_error *err)
{
    for (size_t i = 0; i < n && works(r); i++) {
        r->part[r->n_part++] = text[i];
        while (feed_part(r, false)) {
        }
    }
    flush(r);
    return outcome(r, err);
}

bool cr_reply_is_reasoning(const cr_reply *r)
{
    return r->state == REASONING;
}

static void finish_calls(cr_reply *r)
{
    const bool complete = cr_calls_is_complete(&r->calls);
    if (!r->is_muted) {
        if (!complete)
            fail(r, "the reply ends inside of a tool call");
        return;
    }
    if (!complete || (r->calls.in_list && !r->calls.is_closed)) {
        turn_into_content(r);
        return;
    }
    const cr_calls_result result = replay(r);
    if (result == CR_CALLS_NOMEM)
        r->status = CERA_E_NOMEM;
}

cera_status cr_reply_finish(cr_reply *r, cera_error *err)
{
    while (r->n_part > 0 && works(r))
        feed_part(r, true);
    if (works(r) && (r->state == CALLS || (r->state == AFTER && r->is_muted)))
        finish_calls(r);
    const bool is_text = r->state == CONTENT || r->state == REASONING;
    if (r->is_marked && r->is_fresh && r->n_held == strlen(r->format->prompt_end))
        r->n_held = 0; /* the prompt's, and nothing behind it */
    const cr_reply_out kind = r->state == REASONING ? CR_OUT_REASONING : CR_OUT_CONTENT;
    if (r->state == AFTER)
        put(r, CR_OUT_CONTENT, r->held, r->n_held); /* the half of a marker */
    for (size_t i = 0; is_text && i < r->n_held; i++)
        release(r, kind, r->held[i]);
    if (is_text)
        put(r, kind, r->space.data, r->space.size);
    flush(r);
    const cera_status status = outcome(r, err);
    begin_reply(r);
    return status;
}

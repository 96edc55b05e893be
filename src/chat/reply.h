/* A reply of a chat model, as it comes, taken apart: what is for the reader, the reasoning before
 * it, and tool calls. cera.h says what the sink gets (cera_chat_parser); this is the machine behind
 * it.
 *
 *     CONTENT --opener--> CALLS --calls end--> AFTER --closer, or anything else--> CONTENT
 *        |                  '---- not calls after all: the text is content ---------^
 *        '--think opener--> REASONING --closer--> CONTENT
 *
 * It reads a byte at a time and never goes back further than to the beginning of a call, so how the
 * text was cut into pieces cannot matter. */
#ifndef CR_REPLY_H
#define CR_REPLY_H

#include "chat/calls.h"
#include "chat/format.h"

enum { CR_REPLY_MARK = 64 }; /* room for the longest marker */

typedef enum cr_reply_out {
    CR_OUT_NOTHING,
    CR_OUT_CONTENT,
    CR_OUT_REASONING,
    CR_OUT_ARGUMENTS,
} cr_reply_out;

typedef struct cr_reply {
    cr_host *host;
    const cr_chat_format *format;
    bool has_reasoning; /* reasoning is looked for */
    int opened;         /* the reasoning that a prompt has begun: its row, or -1 */
    bool is_marked;     /* the prompt ends with the format's prompt_end */
    cr_tools tools;
    cera_chat_sink sink;
    cr_calls_sink calls_sink;

    cera_status status; /* CERA_E_NOMEM or CERA_E_CANCELLED: nothing works until the end */
    int state;
    const cr_reasoning_marks *marks; /* of the reasoning that is read */
    bool is_fresh;                   /* nothing but white space and reasoning so far */
    bool has_thought;                /* there was reasoning */
    bool eats_space;                 /* white space here is layout behind a marker */
    bool is_bare, is_muted;          /* calls without marks; what they say is not given on yet */
    bool wants_replay;               /* they are calls for sure: from the beginning, and given on */
    bool call_is_open;
    int n_given; /* calls, withdrawn or not: the index of the next one */

    size_t n_part, n_held;
    char part[4];             /* [n_part] of a character whose rest has not come */
    char held[CR_REPLY_MARK]; /* [n_held] what may be the beginning of a marker */
    cr_buf space;             /* white space that belongs to what follows, or is dropped */
    cr_buf raw;               /* the text since the last whole call */
    size_t raw_begin;         /* where in it a call without marks begins */
    cr_reply_out kind;        /* of `out` */
    cr_buf out;
    cr_calls calls;
} cr_reply;

/* Everything but host, format, has_reasoning, tools and sink, which are set already. prompt is what
 * the model was given; only its end matters. */
void cr_reply_init(cr_reply *reply, cr_str prompt);
void cr_reply_done(cr_reply *reply);
cera_status cr_reply_push(cr_reply *reply, const char *text, size_t n, cera_error *err);
bool cr_reply_is_reasoning(const cr_reply *reply);
/* The end of the reply. Whatever it returns, the next push begins another. */
cera_status cr_reply_finish(cr_reply *reply, cera_error *err);

#endif

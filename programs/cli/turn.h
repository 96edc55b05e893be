/* One turn of a chat: the conversation as a prompt, and the model's answer to it. */
#ifndef TURN_H
#define TURN_H

#include "cera.h"
#include "cli/conversation.h"
#include "cli/options.h"
#include "cli/sampling.h"

typedef struct chat {
    const cli_args *args;
    const char *path;
    cera_engine *engine;
    const cera_vocab *vocab;
    cera_template *tmpl;
    cera_session *session;
    sampling chosen;
    char *tools, *variables; /* JSON, or NULL */
    conversation talk;
    const char *format;         /* of tool calls; NULL without tools */
    cera_grammar *call_grammar; /* NULL: calls are free */
    bool must_call;             /* each user's message is answered by a call */
    bool is_interactive;        /* a person is at the keyboard */
    bool shows_reasoning, dims;
    bool ends_lines; /* an answer ends in a line feed, to a pipe too: others follow */
    int answer_fd;   /* where answers go as they come: 1, 2, or -1 for nowhere */

    /* The last answer, for what comes after it. */
    bytes prompt; /* as rendered */
    bytes raw;    /* the answer as generated */
    int32_t *ids; /* [n_ids] prompt and answer, while nothing else was said */
    size_t n_ids, n_prompt_ids;
    cera_summary summary;

    /* While it is generated. */
    cera_chat_parser *parser;
    json_t *calls;
    bytes call_name, call_arguments;
    size_t n_shown, n_thoughts_shown; /* bytes that need not be shown again */
    bool is_thinking;                 /* shown thoughts have not ended */
    bool stops_at_answer;             /* what is generated now is reasoning, and nothing else */
    char last;                        /* byte written */
    unsigned n_calls;                 /* in the conversation, for their ids */
    unsigned n_faults;                /* of the last answer: what looked like a call and was none */
} chat;

/* Opens what the options of c->args ask for; is_interactive and answer_fd are the caller's. Returns
 * 0, or an exit code after a report. Closed in any case. */
int chat_open(chat *c, int max_tokens);
void chat_close(chat *c);

/* Answers the last message, which is the user's or a tool's. Returns 0, or an exit code after a
 * report; then there is no answer. Interrupted, there is one that is cut, unless nothing was
 * computed. */
int turn_answer(chat *c);
/* Goes on with an answer that is cut. */
int turn_continue(chat *c);
/* The last answer with its numbers; a new reference. */
json_t *turn_json(const chat *c);
void turn_forget_answer(chat *c);
void turn_tell_numbers(const chat *c, int level);

#endif

/* The messages of a chat, as templates and files have them. */
#ifndef CONVERSATION_H
#define CONVERSATION_H

#include "common/bytes.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct chat_message {
    const char *role; /* system, user, assistant or tool */
    bytes content, reasoning;
    json_t *more; /* an object with the other members, such as tool_calls; NULL: none */
    bool is_cut;  /* an answer that was not finished */
} chat_message;

typedef struct conversation {
    chat_message *list; /* [n] */
    size_t n, room;
    size_t
        n_forgotten; /* the oldest ones, behind the system message, that the model does not get */
} conversation;

/* The new last message, empty. */
chat_message *conversation_add(conversation *c, const char *role);
void conversation_remove_last(conversation *c);
void conversation_clear(conversation *c); /* but for the system message */
void conversation_done(conversation *c);
/* Puts the system message in its place; "" or NULL removes it. */
void conversation_set_system(conversation *c, const char *text);
/* The last message when its role is this one; NULL otherwise. */
chat_message *conversation_last(conversation *c, const char *role);
/* The exchanges that the model gets, but for the last one; and leaving that many of the oldest of them
 * out. */
size_t conversation_n_old(const conversation *c);
void conversation_forget(conversation *c, size_t n);

/* The first n messages: all of them, or without those that are forgotten. */
json_t *conversation_json(const conversation *c, size_t n, bool with_forgotten);
json_t *conversation_message_json(const chat_message *message);
/* Takes the messages of a list in place of its own; false, and nothing changes, when it is none. */
bool conversation_read(conversation *c, const json_t *list);

#endif

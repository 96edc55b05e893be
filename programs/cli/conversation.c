#include "cli/conversation.h"

#include "cli/out.h"

#include <stdlib.h>
#include <string.h>

static const char *const roles[] = { "system", "user", "assistant", "tool" };
enum { N_ROLES = sizeof(roles) / sizeof(roles[0]) };

chat_message *conversation_add(conversation *c, const char *role)
{
    if (c->n == c->room) {
        size_t room = c->room == 0 ? 16 : 2 * c->room;
        chat_message *larger = bytes_alloc(room, sizeof(*larger));
        if (c->n > 0)
            memcpy(larger, c->list, c->n * sizeof(*larger));
        free(c->list);
        c->list = larger;
        c->room = room;
    }
    chat_message *message = &c->list[c->n++];
    *message = (chat_message){ .role = role };
    bytes_text(&message->content, "");
    return message;
}

static void message_done(chat_message *message)
{
    bytes_done(&message->content);
    bytes_done(&message->reasoning);
    json_decref(message->more);
}

void conversation_remove_last(conversation *c)
{
    message_done(&c->list[--c->n]);
}

static bool has_system(const conversation *c)
{
    return c->n > 0 && strcmp(c->list[0].role, "system") == 0;
}

void conversation_clear(conversation *c)
{
    while (c->n > (has_system(c) ? 1 : 0))
        conversation_remove_last(c);
    c->n_forgotten = 0;
}

void conversation_done(conversation *c)
{
    while (c->n > 0)
        conversation_remove_last(c);
    free(c->list);
    *c = (conversation){ 0 };
}

void conversation_set_system(conversation *c, const char *text)
{
    bool wanted = text != NULL && text[0] != '\0';
    if (has_system(c) && !wanted) {
        message_done(&c->list[0]);
        memmove(c->list, c->list + 1, --c->n * sizeof(*c->list));
    } else if (wanted) {
        if (!has_system(c)) {
            conversation_add(c, "system");
            chat_message added = c->list[c->n - 1];
            memmove(c->list + 1, c->list, (c->n - 1) * sizeof(*c->list));
            c->list[0] = added;
        }
        bytes_done(&c->list[0].content);
        bytes_text(&c->list[0].content, text);
    }
}

chat_message *conversation_last(conversation *c, const char *role)
{
    chat_message *last = c->n > 0 ? &c->list[c->n - 1] : NULL;
    return last != NULL && strcmp(last->role, role) == 0 ? last : NULL;
}

/* Where the exchange behind the one that begins at a message begins; c->n: there is none. */
static size_t next_exchange(const conversation *c, size_t at)
{
    do
        at++;
    while (at < c->n && strcmp(c->list[at].role, "user") != 0);
    return at;
}

size_t conversation_n_old(const conversation *c)
{
    size_t n = 0, at = has_system(c) + c->n_forgotten;
    while ((at = next_exchange(c, at)) < c->n)
        n++;
    return n;
}

void conversation_forget(conversation *c, size_t n)
{
    size_t at = has_system(c) + c->n_forgotten;
    for (size_t i = 0; i < n; i++)
        at = next_exchange(c, at);
    c->n_forgotten = at - has_system(c);
}

json_t *conversation_message_json(const chat_message *message)
{
    json_t *root = json_pack("{s:s, s:o}", "role", message->role, "content",
                             json_text(message->content.data, message->content.size));
    if (message->reasoning.size > 0)
        json_object_set_new(root, "reasoning_content",
                            json_text(message->reasoning.data, message->reasoning.size));
    json_t *more = message->more != NULL ? json_deep_copy(message->more) : NULL;
    if (more != NULL)
        json_object_update(root, more);
    json_decref(more);
    return root;
}

json_t *conversation_json(const conversation *c, size_t n, bool with_forgotten)
{
    json_t *list = json_array();
    size_t begin = has_system(c);
    for (size_t i = 0; i < n; i++) {
        if (!with_forgotten && i >= begin && i < begin + c->n_forgotten)
            continue;
        json_array_append_new(list, conversation_message_json(&c->list[i]));
    }
    return list;
}

static const char *find_role(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    for (size_t i = 0; role != NULL && i < N_ROLES; i++) {
        if (strcmp(roles[i], role) == 0)
            return roles[i];
    }
    return NULL;
}

/* Calls as turns have them: {function: {name, arguments}}, with a text or an object of arguments. */
static bool are_calls(const json_t *calls)
{
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *function = json_object_get(json_array_get(calls, i), "function");
        const json_t *arguments = json_object_get(function, "arguments");
        if (!json_is_string(json_object_get(function, "name")) ||
            (arguments != NULL && !json_is_string(arguments) && !json_is_object(arguments)))
            return false;
    }
    return json_is_array(calls);
}

/* Content is text, or null in an answer that is tool calls alone. */
static bool is_message(const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    const json_t *reasoning = json_object_get(message, "reasoning_content");
    const json_t *calls = json_object_get(message, "tool_calls");
    return find_role(message) != NULL && (json_is_string(content) || json_is_null(content)) &&
           (reasoning == NULL || json_is_string(reasoning)) &&
           (calls == NULL || json_is_null(calls) || are_calls(calls));
}

bool conversation_read(conversation *c, const json_t *list)
{
    if (!json_is_array(list))
        return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!is_message(json_array_get(list, i)))
            return false;
    }
    conversation_done(c);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *from = json_array_get(list, i);
        const json_t *content = json_object_get(from, "content");
        const json_t *reasoning = json_object_get(from, "reasoning_content");
        chat_message *message = conversation_add(c, find_role(from));
        bytes_append(&message->content, json_string_value(content), json_string_length(content));
        if (json_string_length(reasoning) > 0)
            bytes_append(&message->reasoning, json_string_value(reasoning),
                         json_string_length(reasoning));
        message->more = json_deep_copy(from);
        json_object_del(message->more, "role");
        json_object_del(message->more, "content");
        json_object_del(message->more, "reasoning_content");
        if (json_object_size(message->more) == 0) {
            json_decref(message->more);
            message->more = NULL;
        }
    }
    return true;
}

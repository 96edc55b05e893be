/* chat: a conversation, a message after the other. The turns are in turn.c. */
#define _DEFAULT_SOURCE
#include "cera.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/line_reader.h"
#include "cli/out.h"
#include "cli/report.h"
#include "cli/turn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TOKENS = 512, LEAVE = -1 };

typedef struct dialogue {
    chat chat;
    line_reader *reader;
    json_t *turns; /* with --format json */
    bool json_lines;
} dialogue;

/* ---- turns --------------------------------------------------------------------------------- */

/* After an answer, or a failure. Gives the exit code to leave with, or 0 to go on. */
static int settle(dialogue *d, int code)
{
    chat *c = &d->chat;
    if (code == EXIT_OK && d->turns != NULL)
        json_array_append_new(d->turns, turn_json(c));
    if (code == EXIT_OK && d->json_lines) {
        json_t *line = json_pack("{s:s, s:o}", "schema", "cera.chat/1", "model",
                                 json_text(c->path, strlen(c->path)));
        json_t *turn = turn_json(c);
        json_object_update(line, turn);
        json_decref(turn);
        out_json(line);
    }
    int written = out_finish();
    if (written != EXIT_OK)
        return written;
    if (!out_text("")) /* the reader has gone */
        return LEAVE;
    int stopped = interrupt_exit_code();
    interrupt_clear();
    if (stopped == EXIT_TERMINATED || (stopped != 0 && !c->is_interactive))
        return stopped;
    return c->is_interactive ? EXIT_OK : code; /* a person sees the error and goes on */
}

static int answer(dialogue *d)
{
    return settle(d, turn_answer(&d->chat));
}

static int say(dialogue *d, const char *text, size_t n)
{
    chat *c = &d->chat;
    bytes_append(&conversation_add(&c->talk, "user")->content, text, n);
    int code = turn_answer(c);
    if (code != EXIT_OK)
        conversation_remove_last(&c->talk);
    return settle(d, code);
}

/* ---- commands ------------------------------------------------------------------------------ */

/* Each gets what follows its name, and returns 0, an exit code to leave with, or LEAVE. A mistake
 * in a command leaves a conversation as it is. */
static int wrong(const dialogue *d, const char *what, const char *why)
{
    report_error(EXIT_USAGE, what, why, "/help");
    return d->chat.is_interactive ? EXIT_OK : EXIT_USAGE;
}

static int do_clear(dialogue *d, const char *text)
{
    (void)text;
    conversation_clear(&d->chat.talk);
    turn_forget_answer(&d->chat);
    return EXIT_OK;
}

static int do_exit(dialogue *d, const char *text)
{
    (void)d;
    (void)text;
    return LEAVE;
}

static int do_system(dialogue *d, const char *text)
{
    conversation_set_system(&d->chat.talk, text);
    turn_forget_answer(&d->chat);
    return EXIT_OK;
}

static int do_regen(dialogue *d, const char *text)
{
    chat *c = &d->chat;
    (void)text;
    if (conversation_last(&c->talk, "assistant") == NULL)
        return wrong(d, "there is no answer to generate again", NULL);
    conversation_remove_last(&c->talk);
    c->chosen.options.seed++; /* the same numbers would give the same text */
    return answer(d);
}

static int do_continue(dialogue *d, const char *text)
{
    chat *c = &d->chat;
    (void)text;
    const chat_message *last = conversation_last(&c->talk, "assistant");
    if (last == NULL || !last->is_cut || last->more != NULL)
        return wrong(d, "there is no unfinished answer", NULL);
    return settle(d, turn_continue(c));
}

static int do_undo(dialogue *d, const char *text)
{
    chat *c = &d->chat;
    (void)text;
    while (c->talk.n > 0 && conversation_last(&c->talk, "system") == NULL) {
        bool is_user = conversation_last(&c->talk, "user") != NULL;
        conversation_remove_last(&c->talk);
        if (is_user)
            break;
    }
    c->talk.n_forgotten = 0;
    turn_forget_answer(c);
    return EXIT_OK;
}

/* A tool's result, for the first call that has none. */
static int do_result(dialogue *d, const char *text)
{
    chat *c = &d->chat;
    size_t asked = c->talk.n;
    while (asked > 0 && strcmp(c->talk.list[asked - 1].role, "tool") == 0)
        asked--;
    const json_t *calls =
        asked > 0 ? json_object_get(c->talk.list[asked - 1].more, "tool_calls") : NULL;
    size_t i = c->talk.n - asked, n = json_array_size(calls);
    if (i >= n)
        return wrong(d, "there is no call that waits for a result", NULL);
    const json_t *call = json_array_get(calls, i);
    json_t *more = json_pack("{s:O?, s:O?}", "tool_call_id", json_object_get(call, "id"), "name",
                             json_object_get(json_object_get(call, "function"), "name"));
    chat_message *message = conversation_add(&c->talk, "tool");
    bytes_text(&message->content, text);
    message->more = more;
    return i + 1 < n ? EXIT_OK : answer(d);
}

static int do_stats(dialogue *d, const char *text)
{
    const chat *c = &d->chat;
    cera_engine_info info;
    cera_engine_get_info(c->engine, &info);
    (void)text;
    report_note(0, "Messages: %zu", c->talk.n);
    report_note(0, "Context: %zu of %d tokens", cera_session_position(c->session),
                info.context_size);
    if (c->n_ids > 0)
        turn_tell_numbers(c, 0);
    return EXIT_OK;
}

static int failed(const dialogue *d, const char *what, const char *path, const char *why)
{
    bytes text = { 0 };
    bytes_printf(&text, "%s %s", what, path);
    report_error(EXIT_RUNTIME, text.data, why, NULL);
    bytes_done(&text);
    return d->chat.is_interactive ? EXIT_OK : EXIT_RUNTIME;
}

/* Written under another name first: a full disk costs nothing that was saved before. */
static int do_save(dialogue *d, const char *path)
{
    const chat *c = &d->chat;
    if (*path == '\0')
        return wrong(d, "/save needs the name of a file", NULL);
    const conversation *talk = &c->talk;
    bool is_cut = talk->n > 0 && talk->list[talk->n - 1].is_cut;
    json_t *root = json_pack("{s:s, s:o, s:o, s:b}", "schema", "cera.chat/1", "model",
                             json_text(c->path, strlen(c->path)), "messages",
                             conversation_json(talk, talk->n, true), "unfinished", (int)is_cut);
    bytes part = { 0 };
    bytes_printf(&part, "%s.part", path);
    FILE *file = fopen(part.data, "wb");
    bool ok = file != NULL && json_dumpf(root, file, JSON_INDENT(2)) == 0;
    ok = file != NULL && fputc('\n', file) != EOF && ok;
    ok = file != NULL && fclose(file) == 0 && ok;
    ok = ok && rename(part.data, path) == 0;
    int error = errno;
    if (!ok && file != NULL)
        unlink(part.data);
    json_decref(root);
    bytes_done(&part);
    return ok ? EXIT_OK : failed(d, "cannot write", path, strerror(error));
}

static int do_load(dialogue *d, const char *path)
{
    chat *c = &d->chat;
    if (*path == '\0')
        return wrong(d, "/load needs the name of a file", NULL);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return failed(d, "cannot read", path, strerror(errno));
    json_error_t error;
    json_t *root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    if (root == NULL)
        return failed(d, "cannot read", path, error.text);
    const json_t *messages = json_is_array(root) ? root : json_object_get(root, "messages");
    bool is_cut = json_is_true(json_object_get(root, "unfinished"));
    bool ok = conversation_read(&c->talk, messages);
    json_decref(root);
    if (!ok)
        return failed(d, "cannot read", path, "expected a list of messages, found something else");
    if (is_cut && conversation_last(&c->talk, "assistant") != NULL)
        c->talk.list[c->talk.n - 1].is_cut = true;
    turn_forget_answer(c);
    report_note(0, "%zu messages", c->talk.n);
    return EXIT_OK;
}

static int do_help(dialogue *d, const char *text);

static const struct {
    const char *name, *argument, *help;
    int (*run)(dialogue *d, const char *text);
} commands[] = {
    { "/help", "", "show this list", do_help },
    { "/system", " [TEXT]", "set the system message, or remove it", do_system },
    { "/clear", "", "begin anew, with the same system message", do_clear },
    { "/undo", "", "take the last message and its answer back", do_undo },
    { "/regen", "", "generate the last answer again", do_regen },
    { "/continue", "", "go on with an answer that was cut", do_continue },
    { "/result", " TEXT", "give the result of a tool call", do_result },
    { "/save", " FILE", "write the conversation to a file", do_save },
    { "/load", " FILE", "go on with a conversation from a file", do_load },
    { "/stats", "", "show tokens and times of the last answer", do_stats },
    { "/exit", "", "leave, as /quit and Ctrl-D do", do_exit },
    { "/quit", NULL, NULL, do_exit },
    { "/bye", NULL, NULL, do_exit },
};

static int do_help(dialogue *d, const char *text)
{
    (void)d;
    (void)text;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        bytes left = { 0 };
        if (commands[i].help == NULL)
            continue;
        bytes_printf(&left, "%s%s", commands[i].name, commands[i].argument);
        fprintf(stderr, "  %-18s%s\n", left.data, commands[i].help);
        bytes_done(&left);
    }
    fputs("  //TEXT            a message that begins with a slash\n"
          "\"\"\" begins and ends several lines; a backslash at the end continues a line.\n",
          stderr);
    return EXIT_OK;
}

static int run_command(dialogue *d, const char *text)
{
    size_t n = strcspn(text, " \t\n");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strlen(commands[i].name) == n && memcmp(commands[i].name, text, n) == 0)
            return commands[i].run(d, text + n + strspn(text + n, " \t\n"));
    }
    bytes what = { 0 };
    bytes_printf(&what, "there is no command %.*s", (int)n, text);
    int code = wrong(d, what.data, "a message that begins with a slash is written with two");
    bytes_done(&what);
    return code;
}

/* ---- the dialogue -------------------------------------------------------------------------- */

static int take(dialogue *d, const bytes *message)
{
    size_t n_space = strspn(message->data, " \t\r\n");
    if (n_space == message->size) /* an empty line says nothing, and ends nothing */
        return EXIT_OK;
    if (message->data[0] == '/' && message->data[1] != '/')
        return run_command(d, message->data);
    size_t skipped = message->data[0] == '/';
    return say(d, message->data + skipped, message->size - skipped);
}

static int converse(dialogue *d)
{
    const cli_args *args = d->chat.args;
    const char *first = args->option[OPT_PROMPT].text;
    bool has_first = first != NULL && strcmp(first, "-") != 0;
    int code = EXIT_OK;
    if (has_first)
        code = say(d, first, strlen(first));
    if (has_first && !d->chat.is_interactive)
        return code;
    bytes message = { 0 };
    while (code == EXIT_OK && line_reader_next(d->reader, &message))
        code = take(d, &message);
    bytes_done(&message);
    return code;
}

static void greet(const chat *c)
{
    cera_engine_info info;
    cera_engine_get_info(c->engine, &info);
    report_note(0, "%s, %s; /help shows what there is", info.name[0] != '\0' ? info.name : c->path,
                info.quant);
}

static int print_document(dialogue *d)
{
    if (d->turns == NULL)
        return EXIT_OK;
    out_json(json_pack("{s:s, s:o, s:O}", "schema", "cera.chat/1", "model",
                       json_text(d->chat.path, strlen(d->chat.path)), "turns", d->turns));
    return out_finish();
}

int command_CHAT(const cli_args *args)
{
    dialogue d = { .chat = { .args = args } };
    chat *c = &d.chat;
    bool is_json = wants_envelope(args);
    d.json_lines = is_json && strcmp(args->option[OPT_FORMAT].text, "jsonl") == 0;
    d.turns = is_json && !d.json_lines ? json_array() : NULL;
    d.reader = line_reader_open();
    c->is_interactive = line_reader_is_terminal(d.reader);
    c->answer_fd = is_json ? -1 : STDOUT_FILENO;
    c->ends_lines = true;
    int code = chat_open(c, MAX_TOKENS);
    if (code == EXIT_OK && c->is_interactive)
        greet(c);
    if (code == EXIT_OK)
        code = converse(&d);
    if (code == LEAVE)
        code = EXIT_OK;
    if (code == EXIT_OK || code == EXIT_INTERRUPTED)
        code = print_document(&d) != EXIT_OK ? EXIT_RUNTIME : code;
    line_reader_close(d.reader);
    json_decref(d.turns);
    chat_close(c);
    return code;
}

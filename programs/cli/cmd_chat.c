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

#define SCHEMA "cera.chat/1" /* of what is printed and saved */

enum { MAX_TOKENS = 512, LEAVE = -1 };

typedef struct dialogue {
    chat chat;
    cli_args args;          /* the command line with what /set has changed */
    char *given[OPT_COUNT]; /* its texts, or NULL */
    json_t *kept;           /* a list of conversations to come back to, the latest last */
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
        json_t *line =
            json_pack("{s:s, s:o}", "schema", SCHEMA, "model", json_text(c->path, strlen(c->path)));
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
    if (stopped != 0 && (stopped != EXIT_INTERRUPTED || !c->is_interactive))
        return stopped;
    return c->is_interactive ? EXIT_OK : code; /* a person sees the error and goes on */
}

/* The conversation as it is, to come back to. */
static json_t *keep_talk(const chat *c)
{
    const conversation *talk = &c->talk;
    const bool is_cut = talk->n > 0 && talk->list[talk->n - 1].is_cut;
    return json_pack("{s:o, s:b}", "messages", conversation_json(talk, talk->n, true), "unfinished",
                     (int)is_cut);
}

static bool restore_talk(chat *c, const json_t *messages, bool is_cut)
{
    if (!conversation_read(&c->talk, messages))
        return false;
    if (is_cut && conversation_last(&c->talk, "assistant") != NULL)
        c->talk.list[c->talk.n - 1].is_cut = true;
    turn_forget_answer(c);
    return true;
}

static bool restore_kept(chat *c, const json_t *kept)
{
    return restore_talk(c, json_object_get(kept, "messages"),
                        json_is_true(json_object_get(kept, "unfinished")));
}

/* Answers the last message. Should nothing come of it, the conversation is again what it was before
 * (taken). */
static int answer(dialogue *d, json_t *before)
{
    chat *c = &d->chat;
    int code = turn_answer(c);
    if (code != EXIT_OK)
        restore_kept(c, before);
    if (code == EXIT_INTERRUPTED && c->is_interactive)
        report_note(0, "cera: interrupted before the answer began: the conversation is as before");
    json_decref(before);
    return settle(d, code);
}

static int say(dialogue *d, const char *text, size_t n)
{
    json_t *before = keep_talk(&d->chat);
    bytes_append(&conversation_add(&d->chat.talk, "user")->content, text, n);
    return answer(d, before);
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
    json_t *before = keep_talk(c);
    conversation_remove_last(&c->talk);
    c->chosen.options.seed++; /* the same numbers would give the same text */
    return answer(d, before);
}

/* What the user said last, in other words. */
static int do_edit(dialogue *d, const char *text)
{
    chat *c = &d->chat;
    bool has_said = false;
    for (size_t i = 0; i < c->talk.n; i++)
        has_said = has_said || strcmp(c->talk.list[i].role, "user") == 0;
    if (!has_said || *text == '\0')
        return wrong(d, has_said ? "/edit needs a message" : "there is no message to edit", NULL);
    json_t *before = keep_talk(c);
    while (conversation_last(&c->talk, "user") == NULL)
        conversation_remove_last(&c->talk);
    conversation_remove_last(&c->talk);
    bytes_text(&conversation_add(&c->talk, "user")->content, text);
    return answer(d, before);
}

/* The model is to have said this, and may go on. */
static int do_answer(dialogue *d, const char *text)
{
    chat *c = &d->chat;
    if (c->talk.n == 0 || conversation_last(&c->talk, "system") != NULL || *text == '\0')
        return wrong(d, *text == '\0' ? "/answer needs a text" : "there is nothing to answer",
                     NULL);
    if (conversation_last(&c->talk, "assistant") != NULL)
        conversation_remove_last(&c->talk);
    chat_message *message = conversation_add(&c->talk, "assistant");
    bytes_text(&message->content, text);
    message->is_cut = true;
    turn_forget_answer(c);
    return EXIT_OK;
}

static int do_branch(dialogue *d, const char *text)
{
    (void)text;
    if (d->kept == NULL)
        d->kept = json_array();
    json_array_append_new(d->kept, keep_talk(&d->chat));
    return EXIT_OK;
}

static int do_back(dialogue *d, const char *text)
{
    (void)text;
    const size_t n = json_array_size(d->kept);
    if (n == 0)
        return wrong(d, "there is no branch to come back to", "/branch makes one");
    restore_kept(&d->chat, json_array_get(d->kept, n - 1));
    json_array_remove(d->kept, n - 1);
    report_note(0, "%zu messages", d->chat.talk.n);
    return EXIT_OK;
}

/* ---- settings ------------------------------------------------------------------------------ */

/* The option that a text gives, OPT_COUNT when it is none that may change. The word is what a
 * command line would have, and lives as long as the value. */
static option_id read_setting(char *word, cli_args *given, int *code)
{
    static char program[] = "cera", command[] = "chat";
    char *argv[] = { program, command, word };
    *code = options_parse(3, argv, given);
    for (int i = 0; i < OPT_COUNT && *code == EXIT_OK; i++) {
        if (given->option[i].source == FROM_COMMAND_LINE &&
            option_table[i].group == GROUP_SAMPLING && (option_table[i].flags & OPTION_REPEAT) == 0)
            return (option_id)i;
    }
    return OPT_COUNT;
}

static int change_setting(dialogue *d, option_id id, const option_value *value)
{
    chat *c = &d->chat;
    const cera_generate_options *before = &c->chosen.options;
    cli_args args = d->args;
    args.option[id] = *value;
    sampling chosen = { 0 };
    int code = sampling_read(&args, &chosen);
    if (code != EXIT_OK) {
        sampling_done(&chosen);
        return code;
    }
    chosen.options.grammar = before->grammar;
    if (id != OPT_SEED)
        chosen.options.seed = before->seed;
    if (!is_set(&args, OPT_MAX_TOKENS))
        chosen.options.max_tokens = before->max_tokens;
    sampling_done(&c->chosen);
    c->chosen = chosen;
    d->args = args;
    return EXIT_OK;
}

static int do_set(dialogue *d, const char *text)
{
    chat *c = &d->chat;
    if (*text == '\0') {
        sampling_tell(&c->chosen.options, 0);
        return EXIT_OK;
    }
    const size_t n = strcspn(text, " \t=");
    const char *value = text + n + strspn(text + n, " \t=");
    bytes word = { 0 };
    bytes_printf(&word, *value != '\0' ? "--%.*s=%s" : "--%.*s", (int)n, text, value);
    cli_args given;
    int code;
    const option_id id = read_setting(word.data, &given, &code);
    if (code == EXIT_OK && id == OPT_COUNT) {
        code = wrong(d, "/set takes a sampling option that is given once", text);
    } else if (code == EXIT_OK) {
        code = change_setting(d, id, &given.option[id]);
        if (code == EXIT_OK) {
            free(d->given[id]);
            d->given[id] = word.data; /* taken */
            word = (bytes){ 0 };
        }
    }
    options_done(&given);
    bytes_done(&word);
    return c->is_interactive ? EXIT_OK : code;
}

static int do_image(dialogue *d, const char *text)
{
    (void)text;
    return wrong(d, "there are no models that see images", "only text goes into a message");
}

/* ---- more commands ------------------------------------------------------------------------- */

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
    json_t *before = keep_talk(c);
    json_t *more = json_pack("{s:O?, s:O?}", "tool_call_id", json_object_get(call, "id"), "name",
                             json_object_get(json_object_get(call, "function"), "name"));
    chat_message *message = conversation_add(&c->talk, "tool");
    bytes_text(&message->content, text);
    message->more = more;
    if (i + 1 == n)
        return answer(d, before);
    json_decref(before);
    return EXIT_OK;
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

static int do_save(dialogue *d, const char *path)
{
    enum { PRIVATE = 0600 }; /* what was said is nobody else's */
    const chat *c = &d->chat;
    if (*path == '\0')
        return wrong(d, "/save needs the name of a file", NULL);
    if (model_is_file(&d->args, path))
        return failed(d, "cannot write", path, "it is the model's file");
    json_t *root =
        json_pack("{s:s, s:o}", "schema", SCHEMA, "model", json_text(c->path, strlen(c->path)));
    json_t *talk = keep_talk(c);
    json_object_update(root, talk);
    json_decref(talk);
    char *json = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    if (json == NULL)
        bytes_no_memory();
    bytes text = { 0 };
    bytes_printf(&text, "%s\n", json);
    free(json);
    cera_error err;
    cera_status status = cera_host_write_file(NULL, path, PRIVATE, text.data, text.size, &err);
    bytes_done(&text);
    return status == CERA_OK ? EXIT_OK
                             : failed(d, "cannot write", path, without_path(err.message, path));
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
    json_t *root = json_loadf(file, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    const char *why = ferror(file) ? strerror(errno) : error.text;
    fclose(file);
    if (root == NULL)
        return failed(d, "cannot read", path, why);
    const json_t *messages = json_is_array(root) ? root : json_object_get(root, "messages");
    const json_t *schema = json_object_get(root, "schema");
    bool is_cut = json_is_true(json_object_get(root, "unfinished"));
    why = "expected a list of messages, found something else";
    if (schema != NULL &&
        (!json_is_string(schema) || strcmp(json_string_value(schema), SCHEMA) != 0))
        why = "expected the schema " SCHEMA ", found another";
    else if (restore_talk(c, messages, is_cut))
        why = NULL;
    json_decref(root);
    if (why != NULL)
        return failed(d, "cannot read", path, why);
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
    { "/regenerate", "", "generate the last answer again, as /regen does", do_regen },
    { "/regen", NULL, NULL, do_regen },
    { "/edit", " TEXT", "say this instead of the last message", do_edit },
    { "/answer", " TEXT", "the last answer is this, to be continued", do_answer },
    { "/continue", "", "go on with an answer that was cut", do_continue },
    { "/branch", "", "remember the conversation as it is", do_branch },
    { "/back", "", "come back to where /branch was last", do_back },
    { "/set", " [NAME VALUE]", "change a sampling option, or show them", do_set },
    { "/image", NULL, NULL, do_image },
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
        fprintf(stderr, "  %-22s%s\n", left.data, commands[i].help);
        bytes_done(&left);
    }
    fputs("  //TEXT                a message that begins with a slash\n"
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
    bool is_command = message->data[0] == '/' && message->data[1] != '/';
    if (is_command && memchr(message->data, '\0', message->size) != NULL)
        return wrong(d, "a command has a NUL byte in it", NULL);
    if (is_command)
        return run_command(d, message->data);
    size_t skipped = message->data[0] == '/';
    return say(d, message->data + skipped, message->size - skipped);
}

/* A first Ctrl-C may have been meant for an answer that had just ended. */
static int suggest_leaving(void)
{
    report_note(0, "cera: Ctrl-C again leaves, as Ctrl-D and /exit do");
    return EXIT_OK;
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
    for (bool is_leaving = false; code == EXIT_OK;) {
        interrupt_clear(); /* it came too late for the turn */
        const line_read read = line_reader_next(d->reader, &message);
        if (read == READ_END)
            break;
        if (read == READ_MESSAGE)
            code = take(d, &message);
        else if (read == READ_NOTHING)
            code = is_leaving ? EXIT_INTERRUPTED : suggest_leaving();
        is_leaving = read == READ_NOTHING;
    }
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
    out_json(json_pack("{s:s, s:o, s:O}", "schema", SCHEMA, "model",
                       json_text(d->chat.path, strlen(d->chat.path)), "turns", d->turns));
    return out_finish();
}

int command_CHAT(const cli_args *args)
{
    dialogue d = { .args = *args };
    chat *c = &d.chat;
    c->args = &d.args;
    bool is_json = wants_envelope(args);
    d.json_lines = is_json && strcmp(args->option[OPT_FORMAT].text, "jsonl") == 0;
    d.turns = is_json && !d.json_lines ? json_array() : NULL;
    d.reader = line_reader_open();
    c->is_interactive = line_reader_is_terminal(d.reader);
    c->answer_fd = is_json ? -1 : STDOUT_FILENO;
    c->ends_lines = true;
    int code = out_check();
    if (code == EXIT_OK)
        code = chat_open(c, MAX_TOKENS);
    if (code == EXIT_OK && c->is_interactive)
        greet(c);
    interrupt_dialogue(c->is_interactive);
    if (code == EXIT_OK)
        code = converse(&d);
    interrupt_dialogue(false);
    if (code == LEAVE)
        code = EXIT_OK;
    /* What failed or was stopped costs no answer that was there before. */
    if (code == EXIT_OK || code == EXIT_INTERRUPTED || json_array_size(d.turns) > 0)
        code = print_document(&d) != EXIT_OK ? EXIT_RUNTIME : code;
    line_reader_close(d.reader);
    json_decref(d.turns);
    json_decref(d.kept);
    chat_close(c);
    for (int i = 0; i < OPT_COUNT; i++)
        free(d.given[i]);
    return code;
}

#define _DEFAULT_SOURCE
#include "cli/report.h"

#include "common/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static report_settings settings;
static FILE *log_file;
static int log_descriptor = -1;

bool color_wanted(const char *mode, int fd)
{
    if (mode != NULL && strcmp(mode, "always") == 0)
        return true;
    if (mode != NULL && strcmp(mode, "never") == 0)
        return false;
    const char *no_color = getenv("NO_COLOR");
    const char *force = getenv("CLICOLOR_FORCE");
    const char *term = getenv("TERM");
    if (no_color != NULL && no_color[0] != '\0')
        return false;
    if (force != NULL && force[0] != '\0' && strcmp(force, "0") != 0)
        return true;
    return isatty(fd) == 1 && (term == NULL || strcmp(term, "dumb") != 0);
}

bool report_start(const report_settings *wanted)
{
    settings = *wanted;
    if (wanted->log_file == NULL)
        return true;
    log_descriptor = open(wanted->log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    log_file = log_descriptor >= 0 ? fdopen(log_descriptor, "a") : NULL;
    if (log_file != NULL) {
        setvbuf(log_file, NULL, _IOLBF, BUFSIZ); /* whatever ends us, the lines are there */
        return true;
    }
    bytes what = { 0 };
    bytes_printf(&what, "cannot write the log file %s", wanted->log_file);
    report_error(EXIT_RUNTIME, what.data, strerror(errno), NULL);
    bytes_done(&what);
    return false;
}

int report_level(void)
{
    return settings.level;
}

bool report_is_json(void)
{
    return settings.json;
}

void report_done(void)
{
    if (log_file != NULL)
        fclose(log_file);
    log_file = NULL;
    log_descriptor = -1;
}

/* ---- errors ------------------------------------------------------------------------------ */

static void print_json_error(int exit_code, const char *what, const char *why, const char *hint)
{
    const char *code = "runtime";
#define EXIT_NAME(name, value, text, meaning)                                                      \
    if (exit_code == (value))                                                                      \
        code = text;
    EXIT_CODES(EXIT_NAME)
#undef EXIT_NAME
    bytes message = { 0 };
    bytes_append_repaired(&message, what, strlen(what));
    if (why != NULL) {
        bytes_text(&message, ": ");
        bytes_append_repaired(&message, why, strlen(why));
    }
    bytes clean_hint = { 0 };
    bytes_append_repaired(&clean_hint, hint != NULL ? hint : "", hint != NULL ? strlen(hint) : 0);
    json_t *root =
        json_pack("{s:{s:s, s:i, s:s, s:s?}}", "error", "code", code, "exit", exit_code, "message",
                  message.data, "hint", hint != NULL ? clean_hint.data : NULL);
    if (root != NULL) {
        json_dumpf(root, stderr, JSON_PRESERVE_ORDER | JSON_COMPACT);
        fputc('\n', stderr);
    }
    json_decref(root);
    bytes_done(&message);
    bytes_done(&clean_hint);
}

/* Text from the command line or a file must not steer the terminal. */
static void append_line(bytes *out, const char *prefix, const char *text)
{
    if (text == NULL)
        return;
    bytes_text(out, prefix);
    bytes_append_escaped(out, text, strlen(text), false);
    bytes_text(out, "\n");
}

int report_error(int exit_code, const char *what, const char *why, const char *hint)
{
    bytes text = { 0 };
    append_line(&text, "cera: error: ", what);
    append_line(&text, "  why: ", why);
    append_line(&text, "  try: ", hint);
    if (log_file != NULL)
        fputs(text.data, log_file);
    if (settings.json)
        print_json_error(exit_code, what, why, hint);
    else if (settings.color)
        fprintf(stderr, "cera: \033[1;31merror:\033[0m%s", text.data + strlen("cera: error:"));
    else
        fputs(text.data, stderr);
    bytes_done(&text);
    return exit_code;
}

#define CHANGED "the model file changed while it was in use"
#define CHANGED_HINT "--no-mmap, which reads the whole file first"

void report_changed_model(void)
{
    static const char text[] = "cera: error: " CHANGED "\n  try: " CHANGED_HINT "\n";
    static const char json[] = "{\"error\":{\"code\":\"runtime\",\"exit\":1,\"message\":\"" CHANGED
                               "\",\"hint\":\"" CHANGED_HINT "\"}}\n";
    if (log_descriptor >= 0)
        (void)!write(log_descriptor, text, sizeof(text) - 1);
    if (settings.json)
        (void)!write(STDERR_FILENO, json, sizeof(json) - 1);
    else
        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
}

void report_note(int level, const char *format, ...)
{
    if (level > settings.level && log_file == NULL)
        return;
    char line[1024];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof(line), format, list);
    va_end(list);
    if (n < 0)
        return;
    bytes text = { 0 };
    append_line(&text, "", line);
    if (level <= settings.level)
        fputs(text.data, stderr);
    if (log_file != NULL)
        fputs(text.data, log_file);
    bytes_done(&text);
}

void report_warning(const char *text)
{
    report_note(0, "cera: warning: %s", text);
}

/* ---- failures of the library ------------------------------------------------------------- */

/* status -> exit code: while a model is opened its file is to blame, afterwards the work is. */
static const struct {
    cera_status status;
    int opening, running;
    const char *hint_opening, *hint_running;
} failures[] = {
    { CERA_E_ARG, EXIT_USAGE, EXIT_USAGE, NULL, NULL },
    { CERA_E_FORMAT, EXIT_MODEL, EXIT_MODEL, "fetch the file again, or convert it again",
      "check the model file" },
    { CERA_E_UNSUPPORTED, EXIT_MODEL, EXIT_RUNTIME, "use another model, such as -m builtin:tiny",
      NULL },
    { CERA_E_LIMIT, EXIT_MODEL, EXIT_LIMIT, NULL, NULL },
    { CERA_E_IO, EXIT_MODEL, EXIT_RUNTIME, "check the path, or try -m builtin:tiny", NULL },
    { CERA_E_NOMEM, EXIT_LIMIT, EXIT_LIMIT, "a smaller --context-size, or a smaller model",
      "a smaller --context-size, or a smaller model" },
    { CERA_E_CONTEXT, EXIT_LIMIT, EXIT_LIMIT, "a larger --context-size",
      "a larger --context-size, or a shorter prompt" },
};

int exit_code_of(cera_status status, report_phase phase)
{
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        if (failures[i].status == status)
            return phase == WHILE_OPENING ? failures[i].opening : failures[i].running;
    }
    return EXIT_RUNTIME;
}

int report_failure(report_phase phase, const char *what, const cera_error *err)
{
    const char *hint = NULL;
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        if (failures[i].status == err->status)
            hint = phase == WHILE_OPENING ? failures[i].hint_opening : failures[i].hint_running;
    }
    return report_error(exit_code_of(err->status, phase), what, err->message, hint);
}

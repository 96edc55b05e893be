#define _DEFAULT_SOURCE
#include "cli/line_reader.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef CERA_WITH_LIBEDIT
#include <histedit.h>
#include <locale.h>
#endif

static const char first_prompt[] = "> ", next_prompt[] = ". ";

struct line_reader {
    bool is_terminal;
    const char *prompt;
    char *line; /* getline's */
    size_t room;
#ifdef CERA_WITH_LIBEDIT
    EditLine *edit; /* NULL when there is nothing to edit */
    History *history;
#endif
};

#ifdef CERA_WITH_LIBEDIT

static char *say_prompt(EditLine *edit)
{
    void *reader = NULL;
    el_get(edit, EL_CLIENTDATA, &reader);
    return (char *)(uintptr_t)((line_reader *)reader)->prompt;
}

/* The prompt goes to standard error: standard output is the model's. */
static void start_editing(line_reader *reader)
{
    HistEvent event;
    if (!reader->is_terminal || isatty(STDERR_FILENO) != 1)
        return;
    setlocale(LC_CTYPE, ""); /* libedit counts columns of characters, not of bytes */
    reader->edit = el_init("cera", stdin, stderr, stderr);
    reader->history = history_init();
    if (reader->edit == NULL || reader->history == NULL)
        return;
    history(reader->history, &event, H_SETSIZE, 1000);
    history(reader->history, &event, H_SETUNIQUE, 1);
    el_set(reader->edit, EL_CLIENTDATA, reader);
    el_set(reader->edit, EL_PROMPT, say_prompt);
    el_set(reader->edit, EL_HIST, history, reader->history);
    el_set(reader->edit, EL_EDITOR, "emacs");
    el_set(reader->edit, EL_SIGNAL, 1); /* a signal finds the terminal as it was */
    el_source(reader->edit, NULL);
}

#endif

line_reader *line_reader_open(void)
{
    line_reader *reader = bytes_alloc(1, sizeof(*reader));
    reader->is_terminal = isatty(STDIN_FILENO) == 1;
    reader->prompt = first_prompt;
#ifdef CERA_WITH_LIBEDIT
    start_editing(reader);
#endif
    return reader;
}

void line_reader_close(line_reader *reader)
{
    if (reader == NULL)
        return;
#ifdef CERA_WITH_LIBEDIT
    if (reader->edit != NULL)
        el_end(reader->edit);
    if (reader->history != NULL)
        history_end(reader->history);
#endif
    free(reader->line);
    free(reader);
}

bool line_reader_is_terminal(const line_reader *reader)
{
    return reader->is_terminal;
}

/* What a read without a line was; `typed` bytes were in the line. */
static line_read end_of_reading(const line_reader *reader, int error, size_t typed)
{
    if (error != EINTR || !reader->is_terminal)
        return READ_END;
    clearerr(stdin);
    return typed > 0 ? READ_CANCELLED : READ_NOTHING;
}

/* A line with its line feed, if it has one. */
static line_read read_line(line_reader *reader, const char **out, size_t *n)
{
    errno = 0;
#ifdef CERA_WITH_LIBEDIT
    if (reader->edit != NULL) {
        int count = 0;
        const char *line = el_gets(reader->edit, &count);
        const int error = count < 0 ? errno : 0;
        HistEvent event;
        if (line != NULL && count > 1)
            history(reader->history, &event, H_ENTER, line);
        *n = count > 0 ? (size_t)count : 0;
        *out = line;
        const LineInfo *rest = el_line(reader->edit);
        return count > 0 ? READ_MESSAGE
                         : end_of_reading(reader, error, (size_t)(rest->lastchar - rest->buffer));
    }
#endif
    if (reader->is_terminal) {
        fputs(reader->prompt, stderr);
        fflush(stderr);
    }
    ssize_t size = getline(&reader->line, &reader->room, stdin);
    *n = size > 0 ? (size_t)size : 0;
    *out = reader->line;
    return size > 0 ? READ_MESSAGE : end_of_reading(reader, ferror(stdin) ? errno : 0, 0);
}

static void drop_line_feed(bytes *text)
{
    if (text->size > 0 && text->data[text->size - 1] == '\n')
        text->data[--text->size] = '\0';
    if (text->size > 0 && text->data[text->size - 1] == '\r')
        text->data[--text->size] = '\0';
}

static bool ends_in(const bytes *text, const char *end)
{
    size_t n = strlen(end);
    return text->size >= n && memcmp(text->data + text->size - n, end, n) == 0;
}

line_read line_reader_next(line_reader *reader, bytes *out)
{
    static const char quotes[] = "\"\"\"";
    enum { N_QUOTES = sizeof(quotes) - 1 };
    out->size = 0;
    bytes_text(out, "");
    reader->prompt = first_prompt;
    line_read last = READ_END;
    bool quoted = false, got = false;
    for (bool more = true; more;) {
        size_t n;
        const char *line;
        last = read_line(reader, &line, &n);
        if (last != READ_MESSAGE)
            break;
        reader->prompt = next_prompt;
        size_t skipped = 0;
        if (!got && n >= N_QUOTES && memcmp(line, quotes, N_QUOTES) == 0) {
            quoted = true;
            skipped = N_QUOTES;
        }
        got = true;
        bytes_append(out, line + skipped, n - skipped);
        bool has_line_feed = ends_in(out, "\n");
        drop_line_feed(out);
        if (quoted) {
            more = !ends_in(out, quotes);
            if (!more) {
                out->size -= N_QUOTES;
                drop_line_feed(out); /* of the line before the quotes */
            }
        } else {
            more = ends_in(out, "\\");
            out->size -= more;
        }
        out->data[out->size] = '\0';
        if (more && has_line_feed && (skipped == 0 || out->size > 0))
            bytes_text(out, "\n");
    }
    if (quoted && ends_in(out, "\n")) /* the end of the input was the end of the message */
        drop_line_feed(out);
    if (last != READ_MESSAGE && reader->is_terminal)
        fputs("\n", stderr);
    if (last == READ_CANCELLED || last == READ_NOTHING)
        return got ? READ_CANCELLED : last;
    return got ? READ_MESSAGE : READ_END;
}

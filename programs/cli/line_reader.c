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
#include <wchar.h>
#endif

static const char first_prompt[] = "> ", next_prompt[] = ". ";

enum { LONGEST = 8 }; /* sequence of characters that is one key */

struct line_reader {
    bool is_terminal;
    const char *prompt;
    char *line; /* getline's */
    size_t room;
#ifdef CERA_WITH_LIBEDIT
    EditLine *edit; /* NULL when there is nothing to edit */
    History *history;
    wchar_t keys[LONGEST]; /* [n_keys] read already; the editor has got i_key of them */
    size_t i_key, n_keys;
#endif
};

#ifdef CERA_WITH_LIBEDIT

static line_reader *reader_of(EditLine *edit)
{
    void *reader = NULL;
    el_get(edit, EL_CLIENTDATA, &reader);
    return reader;
}

static char *say_prompt(EditLine *edit)
{
    return (char *)(uintptr_t)reader_of(edit)->prompt;
}

/* ---- keys -------------------------------------------------------------------------------- */

/* What a terminal sends for keys that are no characters begins with ESC. The editor gives up on a
 * sequence at the first character that it does not know, and takes the rest for text: it only gets
 * those it knows. */
enum { BELL = 7, ESC = 27 };

static const struct {
    const char *sequence, *command;
} keys[] = {
    { "\033[A", "ed-prev-history" },      { "\033OA", "ed-prev-history" },
    { "\033[B", "ed-next-history" },      { "\033OB", "ed-next-history" },
    { "\033[C", "ed-next-char" },         { "\033OC", "ed-next-char" },
    { "\033[D", "ed-prev-char" },         { "\033OD", "ed-prev-char" },
    { "\033[H", "ed-move-to-beg" },       { "\033OH", "ed-move-to-beg" },
    { "\033[1~", "ed-move-to-beg" },      { "\033[7~", "ed-move-to-beg" },
    { "\033[F", "ed-move-to-end" },       { "\033OF", "ed-move-to-end" },
    { "\033[4~", "ed-move-to-end" },      { "\033[8~", "ed-move-to-end" },
    { "\033[3~", "ed-delete-next-char" }, { "\033[1;5C", "em-next-word" },
    { "\033[1;5D", "ed-prev-word" },      { "\033[1;3C", "em-next-word" },
    { "\033[1;3D", "ed-prev-word" },
};
enum { N_KEYS = sizeof(keys) / sizeof(keys[0]) };

static int read_key(EditLine *edit, wchar_t *out);

/* The editor's own way of reading: it knows of signals and of characters of several bytes. */
static int next_char(EditLine *edit, wchar_t *out)
{
    el_wset(edit, EL_GETCFN, EL_BUILTIN_GETCFN);
    const int n = el_wgetc(edit, out);
    el_wset(edit, EL_GETCFN, read_key);
    return n;
}

static bool is_known(const wchar_t *text, size_t n)
{
    for (size_t i = 0; i < N_KEYS; i++) {
        const char *sequence = keys[i].sequence;
        size_t k = 0;
        while (k < n && sequence[k] != '\0' && (wchar_t)sequence[k] == text[k])
            k++;
        if (k == n && sequence[k] == '\0')
            return true;
    }
    return false;
}

static void hand_on(line_reader *reader, const wchar_t *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        reader->keys[reader->n_keys++] = text[i];
}

/* Reads what follows an ESC, and hands on what of it is for the editor: Meta and a character, a
 * sequence that is known, or the character that broke one off. Gives what next_char does. */
static int read_sequence(EditLine *edit, line_reader *reader)
{
    wchar_t text[LONGEST] = { ESC }, c;
    int got;
    do
        got = next_char(edit, &c);
    while (got == 1 && c == ESC);
    if (got != 1)
        return got;
    const wchar_t kind = text[1] = c;
    if (kind != L'[' && kind != L'O' && kind != L']') {
        hand_on(reader, text, 2);
        return 1;
    }
    size_t n = 2;
    for (bool more = true; more; n++) {
        got = next_char(edit, &c);
        if (got != 1)
            return got;
        if (n < LONGEST)
            text[n] = c;
        /* A text up to BEL or ESC \, or parameters up to a letter or the like; F1 of Linux is ESC [
         * [ A. */
        more = kind == L']' ? c >= L' ' : (c >= L' ' && c < L'@') || (n == 2 && c == L'[');
    }
    if (n <= LONGEST && is_known(text, n))
        hand_on(reader, text, n);
    else if (kind == L']' && c == ESC)
        return next_char(edit, &c);
    else if ((c < L' ' && c != BELL) || c > L'~')
        hand_on(reader, &c, 1);
    return 1;
}

/* A character for the editor. */
static int read_key(EditLine *edit, wchar_t *out)
{
    line_reader *reader = reader_of(edit);
    while (reader->i_key == reader->n_keys) {
        reader->i_key = reader->n_keys = 0;
        int got = next_char(edit, out);
        if (got != 1 || *out != ESC)
            return got;
        *out = L'\0';
        got = read_sequence(edit, reader);
        if (got != 1)
            return got;
    }
    *out = reader->keys[reader->i_key++];
    return 1;
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
    for (size_t i = 0; i < N_KEYS; i++)
        el_set(reader->edit, EL_BIND, keys[i].sequence, keys[i].command, NULL);
    /* Who has a file of bindings knows what the keys send. */
    if (el_source(reader->edit, NULL) != 0)
        el_wset(reader->edit, EL_GETCFN, read_key);
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
        reader->i_key = reader->n_keys = 0;
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

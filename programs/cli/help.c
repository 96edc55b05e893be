#include "cli/help.h"

#include <string.h>

enum { COLUMN = 28, WIDTH = 96 };

/* Appends text broken at blanks, each line but the first behind `indent` blanks. `column` is where
 * the first line begins. */
static void append_wrapped(bytes *out, const char *text, size_t column, size_t indent)
{
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column + word > WIDTH && column > indent) {
            bytes_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        }
        bytes_append(out, text, word);
        column += word;
        text += word;
        if (*text == ' ') {
            text++;
            if (column + 1 + strcspn(text, " ") <= WIDTH) {
                bytes_text(out, " ");
                column++;
            } else {
                bytes_printf(out, "\n%*s", (int)indent, "");
                column = indent;
            }
        }
    }
    bytes_text(out, "\n");
}

/* A line that is too long continues behind a bar. */
static void append_choices(bytes *out, const bytes *line)
{
    size_t column = 0;
    for (size_t i = 0; i < line->size; i++) {
        bytes_append(out, &line->data[i], 1);
        column++;
        if (line->data[i] != '|' || column + strcspn(&line->data[i + 1], "|") < WIDTH)
            continue;
        bytes_printf(out, "\n%*s", COLUMN, "");
        column = COLUMN;
    }
}

static void append_option(bytes *out, const option_row *row)
{
    bytes line = { 0 };
    if (row->letter != 0)
        bytes_printf(&line, "  -%c, --%s", row->letter, row->name);
    else
        bytes_printf(&line, "      --%s", row->name);
    if (option_argument(row) != NULL)
        bytes_printf(&line, row->kind == KIND_CHOICE ? " <%s>" : " %s", option_argument(row));
    if (line.size + 2 > COLUMN) {
        append_choices(out, &line);
        bytes_printf(out, "\n%*s", COLUMN, "");
    } else {
        bytes_printf(out, "%-*s", COLUMN, line.data);
    }
    append_wrapped(out, row->help, COLUMN, COLUMN);
    bytes_done(&line);
}

static void append_options(bytes *out, command_id command)
{
    for (int group = 0; group < GROUP_COUNT; group++) {
        bool first = true;
        for (int i = 0; i < OPT_COUNT; i++) {
            if ((int)option_table[i].group != group || !option_is_shown((option_id)i, command))
                continue;
            if (first)
                bytes_printf(out, "\n%s:\n", group_names[group]);
            first = false;
            append_option(out, &option_table[i]);
        }
    }
}

void help_short(command_id command, bytes *out)
{
    if (command == CMD_NONE) {
        bytes_text(out, "usage: cera <command> [options]\n");
        bytes_text(out, "       cera help lists the commands\n");
        return;
    }
    const command_row *row = &command_table[command];
    bytes_printf(out, "usage: cera %s %s\n", row->name, row->arguments);
    bytes_printf(out, "       for example: %s\n", row->example);
}

void help_text(command_id command, bytes *out)
{
    if (command != CMD_NONE) {
        const command_row *row = &command_table[command];
        bytes_printf(out, "usage: cera %s %s\n\n", row->name, row->arguments);
        append_wrapped(out, row->description, 0, 0);
        append_options(out, command);
        bytes_printf(out, "\nExample:\n  %s\n", row->example);
        bytes_text(out, "\nEvery --long-option can also be set as CERA_LONG_OPTION in the "
                        "environment.\n");
        return;
    }
    bytes_text(out, "cera runs language models from GGUF files.\n\n"
                    "usage: cera <command> [options]\n\nCommands:\n");
    for (int i = 0; i < CMD_COUNT; i++)
        bytes_printf(out, "  %-12s%s\n", command_table[i].name, command_table[i].summary);
    append_options(out, CMD_NONE);
    bytes_printf(out, "\nExample:\n  %s\n\n\"cera help COMMAND\" tells more about a command.\n",
                 command_table[CMD_RUN].example);
}

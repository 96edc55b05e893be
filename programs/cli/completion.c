/* Completion scripts. The words come from the tables; each shell gets the few lines that it needs
 * to choose among them. */
#include "cli/help.h"

#include <string.h>

static bool takes_file(const option_row *row)
{
    return option_argument(row) != NULL &&
           (strcmp(option_argument(row), "PATH") == 0 || strcmp(option_argument(row), "FILE") == 0);
}

/* "a|b|c" as "a b c". */
static void append_choices(bytes *out, const char *choices)
{
    for (const char *p = choices; *p != '\0'; p++)
        bytes_append(out, *p == '|' ? " " : p, 1);
}

static void append_command_names(bytes *out)
{
    for (int i = 0; i < CMD_COUNT; i++)
        bytes_printf(out, "%s%s", i > 0 ? " " : "", command_table[i].name);
}

static void complete_bash(bytes *out)
{
    bytes_text(
        out, "# bash completion for cera, made by: cera completion bash\n"
             "_cera()\n{\n"
             "    local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
             "    local command=\"\" i\n"
             "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
             "        case \"${COMP_WORDS[i]}\" in\n"
             "            -*) ;;\n"
             "            *) command=\"${COMP_WORDS[i]}\"; break ;;\n"
             "        esac\n"
             "    done\n"
             "    case \"$before\" in\n");
    for (int i = 0; i < OPT_COUNT; i++) {
        const option_row *row = &option_table[i];
        if ((row->flags & (OPTION_HIDDEN | OPTION_ENV_ONLY)) != 0 || row->kind == KIND_FLAG)
            continue;
        if (row->kind == KIND_CHOICE) {
            bytes_printf(out, "        --%s) COMPREPLY=($(compgen -W \"", row->name);
            append_choices(out, option_argument(row));
            bytes_text(out, "\" -- \"$word\")); return ;;\n");
        } else if (takes_file(row)) {
            bytes_text(out, "        ");
            if (row->letter != 0)
                bytes_printf(out, "-%c|", row->letter);
            bytes_printf(out, "--%s) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n",
                         row->name);
        }
    }
    bytes_text(out, "    esac\n    local words=\"\"\n    case \"$command\" in\n");
    for (int c = 0; c < CMD_COUNT; c++) {
        bytes_printf(out, "        %s) words=\"", command_table[c].name);
        if (c == CMD_HELP)
            append_command_names(out);
        if (c == CMD_COMPLETION)
            append_choices(out, command_table[c].arguments);
        for (int i = 0; i < OPT_COUNT; i++) {
            if (option_is_shown((option_id)i, (command_id)c))
                bytes_printf(out, " --%s", option_table[i].name);
        }
        bytes_text(out, "\" ;;\n");
    }
    bytes_text(out, "        \"\") words=\"");
    append_command_names(out);
    bytes_text(out,
               " --help --version\" ;;\n    esac\n"
               "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
               "    [[ $word != -* && -n $command ]] && COMPREPLY+=($(compgen -f -- \"$word\"))\n"
               "}\n"
               "complete -o filenames -F _cera cera\n");
}

/* Text inside '...[...]' of zsh: brackets, colons and quotes have a meaning there. */
static void append_zsh(bytes *out, const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\'')
            bytes_text(out, "'\\''");
        else if (strchr("[]:\\", *p) != NULL)
            bytes_printf(out, "\\%c", *p);
        else
            bytes_append(out, p, 1);
    }
}

static void append_zsh_option(bytes *out, const option_row *row)
{
    const char *many = (row->flags & OPTION_REPEAT) != 0 ? "*" : "";
    for (int form = 0; form < 2; form++) {
        if (form == 0 && row->letter == 0)
            continue;
        bytes_printf(out, "                '%s", many);
        if (form == 0)
            bytes_printf(out, "-%c", row->letter);
        else
            bytes_printf(out, "--%s", row->name);
        bytes_text(out, "[");
        append_zsh(out, row->help);
        bytes_text(out, "]");
        if (option_argument(row) != NULL) {
            bytes_text(out, ":");
            append_zsh(out, option_argument(row));
            bytes_text(out, ":");
            if (takes_file(row))
                bytes_text(out, "_files");
            if (row->kind == KIND_CHOICE) {
                bytes_text(out, "(");
                append_choices(out, option_argument(row));
                bytes_text(out, ")");
            }
        }
        bytes_text(out, "' \\\n");
    }
}

static void complete_zsh(bytes *out)
{
    bytes_text(out, "#compdef cera\n# zsh completion for cera, made by: cera completion zsh\n"
                    "_cera() {\n    local -a commands\n    commands=(\n");
    for (int i = 0; i < CMD_COUNT; i++) {
        bytes_printf(out, "        '%s:", command_table[i].name);
        append_zsh(out, command_table[i].summary);
        bytes_text(out, "'\n");
    }
    bytes_text(out, "    )\n    if (( CURRENT == 2 )); then\n"
                    "        _describe command commands\n        return\n    fi\n"
                    "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n"
                    "    case $command in\n");
    for (int c = 0; c < CMD_COUNT; c++) {
        bytes_printf(out, "        %s)\n            _arguments \\\n", command_table[c].name);
        for (int i = 0; i < OPT_COUNT; i++) {
            if (option_is_shown((option_id)i, (command_id)c))
                append_zsh_option(out, &option_table[i]);
        }
        bytes_text(out, "                '*:");
        if (c == CMD_COMPLETION || c == CMD_HELP) {
            bytes_text(out, "word:(");
            if (c == CMD_HELP)
                append_command_names(out);
            else
                append_choices(out, command_table[c].arguments);
            bytes_text(out, ")'\n            ;;\n");
        } else {
            bytes_text(out, "model:_files'\n            ;;\n");
        }
    }
    bytes_text(out, "    esac\n}\n_cera \"$@\"\n");
}

/* Text inside '...' of fish. */
static void append_fish(bytes *out, const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\'' || *p == '\\')
            bytes_text(out, "\\");
        bytes_append(out, p, 1);
    }
}

static void complete_fish(bytes *out)
{
    bytes_text(out, "# fish completion for cera, made by: cera completion fish\n");
    for (int i = 0; i < CMD_COUNT; i++) {
        bytes_printf(out, "complete -c cera -n __fish_use_subcommand -f -a %s -d '",
                     command_table[i].name);
        append_fish(out, command_table[i].summary);
        bytes_text(out, "'\n");
    }
    bytes_text(out, "complete -c cera -n '__fish_seen_subcommand_from completion' -f -a '");
    append_choices(out, command_table[CMD_COMPLETION].arguments);
    bytes_text(out, "'\ncomplete -c cera -n '__fish_seen_subcommand_from help' -f -a '");
    append_command_names(out);
    bytes_text(out, "'\n");
    for (int i = 0; i < OPT_COUNT; i++) {
        const option_row *row = &option_table[i];
        if ((row->flags & (OPTION_HIDDEN | OPTION_ENV_ONLY)) != 0)
            continue;
        bytes_text(out, "complete -c cera");
        if (row->group != GROUP_GLOBAL) {
            bytes_text(out, " -n '__fish_seen_subcommand_from");
            for (int c = 0; c < CMD_COUNT; c++) {
                if (option_applies((option_id)i, (command_id)c))
                    bytes_printf(out, " %s", command_table[c].name);
            }
            bytes_text(out, "'");
        }
        if (row->letter != 0)
            bytes_printf(out, " -s %c", row->letter);
        bytes_printf(out, " -l %s", row->name);
        if (row->kind == KIND_CHOICE) {
            bytes_text(out, " -x -a '");
            append_choices(out, option_argument(row));
            bytes_text(out, "'");
        } else if (takes_file(row)) {
            bytes_text(out, " -r -F");
        } else if (row->kind != KIND_FLAG) {
            bytes_text(out, " -x");
        }
        bytes_text(out, " -d '");
        append_fish(out, row->help);
        bytes_text(out, "'\n");
    }
}

bool help_completion(const char *shell, bytes *out)
{
    static const struct {
        const char *shell;
        void (*complete)(bytes *out);
    } shells[] = { { "bash", complete_bash }, { "zsh", complete_zsh }, { "fish", complete_fish } };
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
        if (strcmp(shell, shells[i].shell) == 0) {
            shells[i].complete(out);
            return true;
        }
    }
    return false;
}

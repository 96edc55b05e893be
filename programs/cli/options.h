/* The tables of commands and options, and the command line parsed with them. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum command_id {
    CMD_NONE = -1,
#define COMMAND(id, name, arguments, summary, description, example) CMD_##id,
#include "cli/commands.def"
#undef COMMAND
    CMD_COUNT
} command_id;

typedef struct command_row {
    const char *name, *arguments, *summary, *description, *example;
} command_row;
extern const command_row command_table[CMD_COUNT];

typedef enum option_id {
#define OPTION(id, long_, short_, argument, kind, min, max, group, commands, flags, help) OPT_##id,
#include "cli/options.def"
#undef OPTION
    OPT_COUNT
} option_id;

typedef enum option_kind {
    KIND_FLAG,
    KIND_TEXT,
    KIND_INT,
    KIND_SEED,
    KIND_REAL,
    KIND_CHOICE
} option_kind;

typedef enum option_group {
    GROUP_MODEL,
    GROUP_PROMPT,
    GROUP_TEST,
    GROUP_SAMPLING,
    GROUP_CONSTRAINT,
    GROUP_TYPES,
    GROUP_RUNTIME,
    GROUP_OUTPUT,
    GROUP_GLOBAL,
    GROUP_COUNT
} option_group;
extern const char *const group_names[GROUP_COUNT];

enum { OPTION_REPEAT = 1, OPTION_HIDDEN = 2, OPTION_NO_ENV = 4, OPTION_ENV_ONLY = 8 };

typedef struct option_row {
    const char *name, *help;
    const char *argument; /* NULL for a flag; see option_argument */
    double min, max;
    option_kind kind;
    option_group group;
    unsigned commands; /* bit i: command i */
    int flags;
    char letter; /* 0: none */
} option_row;
extern const option_row option_table[OPT_COUNT];
/* What a row takes, as help shows it: "N", "a|b|c" of a choice; NULL for a flag. */
const char *option_argument(const option_row *row);

/* Whether a command has an option; CMD_NONE has those that stand before the command. */
bool option_applies(option_id id, command_id command);
/* Whether help and completions show it. */
bool option_is_shown(option_id id, command_id command);

enum { ENV_NAME_ROOM = 64 };

typedef enum value_source { FROM_NOWHERE, FROM_ENVIRONMENT, FROM_COMMAND_LINE } value_source;

typedef struct option_value {
    const char *text; /* NULL for a flag; the last one when repeated */
    char
        typed[ENV_NAME_ROOM]; /* the name it was given by: "-n", "--n-predict", "CERA_MAX_TOKENS" */
    int count;                /* 0: not set */
    value_source source;
    int64_t integer;
    uint64_t seed;
    double real;
} option_value;

typedef struct cli_args {
    command_id command;
    option_value option[OPT_COUNT];
    struct {
        option_id id;
        const char *text;
        char typed[ENV_NAME_ROOM];
    } * repeated; /* [n_repeated] in order: the values of REPEAT options that take one */
    size_t n_repeated;
    const char **positional; /* [n_positional] */
    size_t n_positional;
} cli_args;

/* Parses argv[1, argc), then the environment. Returns 0; or reports what is wrong and returns the
 * exit code. Stops at -h and -V, which the caller looks for first. Texts are borrowed from argv. */
int options_parse(int argc, char **argv, cli_args *args);
void options_done(cli_args *args);

static inline bool is_set(const cli_args *args, option_id id)
{
    return args->option[id].count > 0;
}

/* The nearest command name to a word; NULL when none is near. */
const char *nearest_command(const char *word);

/* The environment variable of an option: "CERA_MAX_TOKENS". */
void option_env_name(option_id id, char out[ENV_NAME_ROOM]);

#endif

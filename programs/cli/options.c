/* The command line: words -> option values, checked by the rows of options.def.
 *
 *     cera [global options] <command> [options and positional words, mixed] [-- words]
 *
 * A small parser of our own rather than getopt_long, because its messages should name the nearest
 * option, and because a letter may mean different options in different commands. */
#include "cli/options.h"

#include "cera.h"
#include "cli/report.h"
#include "common/bytes.h"
#include "common/number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tables ------------------------------------------------------------------------------ */

const command_row command_table[CMD_COUNT] = {
#define COMMAND(id, name, arguments, summary, description, example)                                \
    [CMD_##id] = { name, arguments, summary, description, example },
#include "cli/commands.def"
#undef COMMAND
};

#define ON(id) (1u << CMD_##id)
#define WITH_PROMPT (ON(RUN) | ON(LOGITS) | ON(EMBED))
#define WITH_ENGINE (WITH_PROMPT | ON(PERPLEXITY))
#define WITH_TEXT (WITH_ENGINE | ON(TOKENIZE))
#define WITH_RUNTIME (WITH_ENGINE | ON(BENCH) | ON(CHAT))
#define WITH_SAMPLING (ON(RUN) | ON(CHAT))
#define WITH_MODEL (WITH_TEXT | ON(CHAT) | ON(INSPECT) | ON(BENCH) | ON(TEMPLATE))
#define WITH_MAKE (ON(QUANTIZE) | ON(CONVERT))
#define WITH_GRAMMAR (ON(RUN) | ON(CHAT) | ON(GRAMMAR))
#define WITH_JSON                                                                                  \
    (ON(INSPECT) | ON(TOKENIZE) | ON(TEMPLATE) | ON(LOGITS) | ON(EMBED) | ON(PERPLEXITY) |         \
     ON(CPU) | ON(BENCH) | ON(GRAMMAR) | WITH_MAKE)
#define WITH_FORMAT (WITH_JSON | WITH_GRAMMAR | ON(VERSION) | ON(HELP) | ON(COMPLETION))
#define EVERYWHERE ~0u
#define REPEAT OPTION_REPEAT
#define HIDDEN OPTION_HIDDEN
#define NO_ENV OPTION_NO_ENV
#define ENV_ONLY OPTION_ENV_ONLY

/* ISA levels of this architecture, ascending. */
#if defined(__x86_64__) || defined(__i386__)
#define CPU_TIERS "scalar|avx2|avx_vnni|avx512|amx"
#elif defined(__aarch64__)
#define CPU_TIERS "scalar|neon|dotprod|i8mm"
#else
#define CPU_TIERS "scalar"
#endif

const option_row option_table[OPT_COUNT] = {
#define OPTION(id, long_, short_, argument, kind, min, max, group, commands, flags, help)          \
    [OPT_##id] = { long_, help, argument, min, max, KIND_##kind, group, commands, flags, short_ },
#include "cli/options.def"
#undef OPTION
};

const char *const group_names[GROUP_COUNT] = {
    [GROUP_MODEL] = "Model",       [GROUP_PROMPT] = "Prompt",         [GROUP_TEST] = "Tests",
    [GROUP_SAMPLING] = "Sampling", [GROUP_CONSTRAINT] = "Constraint", [GROUP_TYPES] = "Types",
    [GROUP_RUNTIME] = "Runtime",   [GROUP_OUTPUT] = "Output",         [GROUP_GLOBAL] = "Everywhere",
};

/* Names that people type out of habit. */
static const struct {
    const char *name;
    option_id id;
} aliases[] = {
    { "temp", OPT_TEMPERATURE },
    { "n-predict", OPT_MAX_TOKENS },
    { "ctx-size", OPT_CONTEXT_SIZE },
    { "ctx-size", OPT_WINDOW_SIZE },
    { "file", OPT_PROMPT_FILE },
    { "prompt-tokens", OPT_N_PROMPT },
    { "max-tokens", OPT_N_GEN },
    { "n-predict", OPT_N_GEN },
    { "runs", OPT_REPETITIONS },
    { "repeat-penalty", OPT_REPETITION_PENALTY },
    { "repeat-last-n", OPT_PENALTY_WINDOW },
    { "typical", OPT_TYPICAL_P },
    { "top-nsigma", OPT_TOP_N_SIGMA },
    { "mirostat-ent", OPT_MIROSTAT_TAU },
    { "mirostat-lr", OPT_MIROSTAT_ETA },
    { "dynatemp-range", OPT_TEMPERATURE_RANGE },
    { "dynatemp-exp", OPT_TEMPERATURE_EXPONENT },
    { "dry-penalty-last-n", OPT_DRY_WINDOW },
    { "dry-sequence-breaker", OPT_DRY_BREAKER },
    { "system-prompt", OPT_SYSTEM },
    { "chat-template-kwargs", OPT_TEMPLATE_VARS },
    { "model-draft", OPT_DRAFT_MODEL },
    { "draft", OPT_DRAFT_MAX },
    { "draft-n", OPT_DRAFT_MAX },
};

/* Values that mean something to other programs: -n -2 fills the context, -t -1 chooses,
 * --chunks -1 is all. */
static const struct {
    option_id id;
    int64_t value, meant;
} alias_values[] = { { OPT_MAX_TOKENS, -2, -1 }, { OPT_THREADS, -1, 0 }, { OPT_CHUNKS, -1, 0 } };

/* Sources of models that need the network. */
static const char *const download_options[] = { "hf", "bundle-id", "quant" };

bool option_applies(option_id id, command_id command)
{
    const option_row *row = &option_table[id];
    if (command == CMD_NONE)
        return row->group == GROUP_GLOBAL || id == OPT_FORMAT;
    return (row->commands >> command & 1) != 0;
}

bool option_is_shown(option_id id, command_id command)
{
    return (option_table[id].flags & (OPTION_HIDDEN | OPTION_ENV_ONLY)) == 0 &&
           option_applies(id, command);
}

void option_env_name(option_id id, char out[ENV_NAME_ROOM])
{
    int n = snprintf(out, ENV_NAME_ROOM, "CERA_%s", option_table[id].name);
    for (int i = 0; i < n && i < ENV_NAME_ROOM - 1; i++) {
        if (out[i] == '-')
            out[i] = '_';
        else if (out[i] >= 'a' && out[i] <= 'z')
            out[i] = (char)(out[i] - 'a' + 'A');
    }
}

/* ---- nearest names ----------------------------------------------------------------------- */

enum { MAX_WORD = 40 };

/* Edits (insert, delete, replace, swap neighbours) from a to b. */
static int distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > MAX_WORD || m > MAX_WORD)
        return 2 * MAX_WORD;
    int row[3][MAX_WORD + 1]; /* [i mod 3][j]: from a[0, i) to b[0, j) */
    for (size_t j = 0; j <= m; j++)
        row[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *now = row[i % 3], *before = row[(i + 2) % 3], *earlier = row[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int best = before[j - 1] + (a[i - 1] != b[j - 1]);
            if (before[j] + 1 < best)
                best = before[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                earlier[j - 2] + 1 < best)
                best = earlier[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

/* Takes `name` as the best so far when it is nearer to the word. A word that begins a name (or the
 * other way round) is near; otherwise a third of the letters may be wrong. */
static void consider(const char *word, const char *name, const char **best, int *best_distance)
{
    size_t n = strlen(word), m = strlen(name), least = n < m ? n : m;
    int d = distance(word, name);
    bool is_prefix = least >= 3 && strncmp(word, name, least) == 0;
    if (is_prefix && d > 1)
        d = 1;
    if ((is_prefix || d <= (int)(n + 2) / 3) && d < *best_distance) {
        *best = name;
        *best_distance = d;
    }
}

const char *nearest_command(const char *word)
{
    const char *best = NULL;
    int best_distance = 2 * MAX_WORD;
    for (int i = 0; i < CMD_COUNT; i++)
        consider(word, command_table[i].name, &best, &best_distance);
    return best;
}

static const char *nearest_option(const char *word, command_id command)
{
    const char *best = NULL;
    int best_distance = 2 * MAX_WORD;
    for (int i = 0; i < OPT_COUNT; i++) {
        if (option_is_shown((option_id)i, command))
            consider(word, option_table[i].name, &best, &best_distance);
    }
    return best;
}

const char *option_argument(const option_row *row)
{
    static bytes formats; /* what the library has, "a|b|c"; kept until the program ends */
    static bool is_made;
    if (row != &option_table[OPT_TOOL_FORMAT])
        return row->argument;
    const char *name;
    for (size_t i = 0; !is_made && (name = cera_chat_format_name(i)) != NULL; i++)
        bytes_printf(&formats, "%s%s", i > 0 ? "|" : "", name);
    is_made = true;
    return formats.data;
}

/* ---- values ------------------------------------------------------------------------------ */

/* Whether `word` is one of "a|b|c". */
static bool is_choice(const char *choices, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = choices; p != NULL;) {
        size_t size = strcspn(p, "|");
        if (size == n && memcmp(p, word, n) == 0)
            return true;
        p = p[size] == '|' ? p + size + 1 : NULL;
    }
    return false;
}

static void describe_expected(const option_row *row, bytes *out)
{
    switch (row->kind) {
    case KIND_INT:
        bytes_printf(out, "a whole number from %.0f to %.0f", row->min, row->max);
        break;
    case KIND_SEED:
        bytes_printf(out, "a whole number from 0 to %llu", (unsigned long long)UINT64_MAX);
        break;
    case KIND_REAL:
        /* Nine digits read back as the same float. */
        bytes_printf(out, "a finite number from %.9g to %.9g", row->min, row->max);
        break;
    case KIND_CHOICE:
        bytes_text(out, "one of ");
        for (const char *p = option_argument(row); *p != '\0'; p++)
            bytes_append(out, *p == '|' ? ", " : p, *p == '|' ? 2 : 1);
        break;
    default:
        bytes_text(out, "a value");
    }
}

static int64_t meant_value(option_id id, int64_t value)
{
    for (size_t i = 0; i < sizeof(alias_values) / sizeof(alias_values[0]); i++) {
        if (alias_values[i].id == id && alias_values[i].value == value)
            return alias_values[i].meant;
    }
    return value;
}

/* Sets an option that was found under `name` ("--top-p" or "CERA_TOP_P"). */
static int set_value(cli_args *args, option_id id, const char *name, const char *text,
                     value_source source)
{
    const option_row *row = &option_table[id];
    option_value value = args->option[id];
    bool good = true;
    double real = 0.0;
    if (row->kind == KIND_INT) {
        good = number_parse_i64(text, &value.integer);
        value.integer = good ? meant_value(id, value.integer) : 0;
        good = good && (double)value.integer >= row->min && (double)value.integer <= row->max;
    } else if (row->kind == KIND_SEED) {
        good = number_parse_u64(text, &value.seed);
    } else if (row->kind == KIND_REAL) {
        /* As a float, which is what it becomes: so a bound can be typed as it is shown. */
        good = number_parse_real(text, &real) && isfinite((float)real) &&
               (double)(float)real >= row->min && (double)(float)real <= row->max;
        value.real = real;
    } else if (row->kind == KIND_CHOICE) {
        good = is_choice(option_argument(row), text);
    }
    if (!good) {
        bytes what = { 0 }, why = { 0 };
        bytes_printf(&what, "%s has a value that it does not take: \"%s\"", name, text);
        bytes_text(&why, "expected ");
        describe_expected(row, &why);
        report_error(EXIT_USAGE, what.data, why.data, NULL);
        bytes_done(&what);
        bytes_done(&why);
        return EXIT_USAGE;
    }
    value.text = text;
    value.count++;
    value.source = source;
    snprintf(value.typed, sizeof(value.typed), "%s", name);
    args->option[id] = value;
    if ((row->flags & OPTION_REPEAT) != 0 && row->kind != KIND_FLAG) {
        args->repeated[args->n_repeated].id = id;
        memcpy(args->repeated[args->n_repeated].typed, value.typed, sizeof(value.typed));
        args->repeated[args->n_repeated++].text = text;
    }
    return EXIT_OK;
}

/* ---- words ------------------------------------------------------------------------------- */

static int find_long(const char *name, size_t n, command_id command)
{
    for (int i = 0; i < OPT_COUNT; i++) {
        if (option_applies((option_id)i, command) &&
            (option_table[i].flags & OPTION_ENV_ONLY) == 0 && strlen(option_table[i].name) == n &&
            memcmp(option_table[i].name, name, n) == 0)
            return i;
    }
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
        if (strlen(aliases[i].name) == n && memcmp(aliases[i].name, name, n) == 0 &&
            option_applies(aliases[i].id, command))
            return (int)aliases[i].id;
    }
    return -1;
}

static int find_letter(char letter, command_id command)
{
    for (int i = 0; i < OPT_COUNT; i++) {
        if (option_table[i].letter == letter && option_applies((option_id)i, command))
            return i;
    }
    return -1;
}

static const char *command_label(command_id command, char *room, size_t size)
{
    if (command == CMD_NONE)
        return "cera";
    snprintf(room, size, "cera %s", command_table[command].name);
    return room;
}

/* `word` as typed, `name` without dashes and value. */
static int unknown_option(const cli_args *args, const char *word, const char *name)
{
    char room[64];
    const char *label = command_label(args->command, room, sizeof(room));
    bytes what = { 0 }, why = { 0 }, hint = { 0 };
    bytes_printf(&what, "unknown option %.*s", (int)strcspn(word, "="), word);
    bytes_printf(&why, "%s has no such option", label);
    bytes_printf(&hint, "%s --help", label);

    for (size_t i = 0; i < sizeof(download_options) / sizeof(download_options[0]); i++) {
        if (strcmp(name, download_options[i]) == 0) {
            why.size = hint.size = 0;
            bytes_text(&why, "downloads are not part of this build");
            bytes_text(&hint, "-m PATH with a GGUF file, or -m builtin:tiny");
        }
    }
    if (args->command == CMD_RUN && strcmp(word, "--json") == 0) {
        hint.size = 0;
        bytes_text(&hint, "did you mean --format json?");
    } else if (word[1] == '-' && why.data[0] != 'd') {
        const char *nearest = nearest_option(name, args->command);
        if (nearest != NULL) {
            hint.size = 0;
            bytes_printf(&hint, "did you mean --%s?", nearest);
        }
    }
    report_error(EXIT_USAGE, what.data, why.data, hint.data);
    bytes_done(&what);
    bytes_done(&why);
    bytes_done(&hint);
    return EXIT_USAGE;
}

/* An option of a command that stands before it. Returns whether `shown` ("--name" or "-x") is one,
 * and has reported it then. The command is the one that follows, or any that has the option. */
static bool is_misplaced(const char *shown, int argc, char **argv, int i)
{
    command_id command = CMD_NONE;
    int id = -1;
    for (int word = i + 1; word <= argc && id < 0; word++) {
        for (int c = 0; c < CMD_COUNT && id < 0; c++) {
            if (word < argc && strcmp(argv[word], command_table[c].name) != 0)
                continue;
            command = (command_id)c;
            id = shown[1] == '-' ? find_long(shown + 2, strlen(shown + 2), command)
                                 : find_letter(shown[1], command);
        }
    }
    if (id < 0)
        return false;
    const char *argument = option_argument(&option_table[id]);
    bytes what = { 0 }, hint = { 0 };
    bytes_printf(&what, "option %s stands before the command", shown);
    bytes_printf(&hint, "cera %s %s%s%s", command_table[command].name, shown,
                 argument != NULL ? " " : "", argument != NULL ? argument : "");
    report_error(EXIT_USAGE, what.data, "options of a command belong after its name", hint.data);
    bytes_done(&what);
    bytes_done(&hint);
    return true;
}

static int needs_value(const char *word, const option_row *row)
{
    bytes what = { 0 }, why = { 0 };
    bytes_printf(&what, "option %s needs a value", word);
    bytes_printf(&why, "expected %s %s", word, option_argument(row));
    report_error(EXIT_USAGE, what.data, why.data, NULL);
    bytes_done(&what);
    bytes_done(&why);
    return EXIT_USAGE;
}

/* --name, --name=value, --name value. *i is the word's index and moves over a value. */
static int parse_long(cli_args *args, int argc, char **argv, int *i)
{
    const char *word = argv[*i], *name = word + 2;
    size_t n = strcspn(name, "=");
    int id = find_long(name, n, args->command);
    char shown[ENV_NAME_ROOM];
    snprintf(shown, sizeof(shown), "%.*s", (int)n + 2, word);
    if (id < 0) {
        if (args->command == CMD_NONE && is_misplaced(shown, argc, argv, *i))
            return EXIT_USAGE;
        char plain[MAX_WORD + 1];
        snprintf(plain, sizeof(plain), "%.*s", (int)(n < MAX_WORD ? n : MAX_WORD), name);
        return unknown_option(args, word, plain);
    }
    const option_row *row = &option_table[id];
    if (row->kind == KIND_FLAG) {
        if (name[n] == '=') {
            bytes what = { 0 };
            bytes_printf(&what, "option %s takes no value", shown);
            report_error(EXIT_USAGE, what.data, NULL, NULL);
            bytes_done(&what);
            return EXIT_USAGE;
        }
        return set_value(args, (option_id)id, shown, NULL, FROM_COMMAND_LINE);
    }
    if (name[n] == '=')
        return set_value(args, (option_id)id, shown, name + n + 1, FROM_COMMAND_LINE);
    if (*i + 1 >= argc)
        return needs_value(shown, row);
    return set_value(args, (option_id)id, shown, argv[++*i], FROM_COMMAND_LINE);
}

/* -x, -xyz, -n5, -n 5. */
static int parse_letters(cli_args *args, int argc, char **argv, int *i)
{
    for (const char *p = argv[*i] + 1; *p != '\0'; p++) {
        char shown[3] = { '-', *p, '\0' };
        int id = find_letter(*p, args->command);
        if (id < 0 && args->command == CMD_NONE && is_misplaced(shown, argc, argv, *i))
            return EXIT_USAGE;
        if (id < 0)
            return unknown_option(args, p == argv[*i] + 1 ? argv[*i] : shown, "");
        const option_row *row = &option_table[id];
        if (row->kind == KIND_FLAG) {
            set_value(args, (option_id)id, shown, NULL, FROM_COMMAND_LINE);
            if (id == OPT_HELP || id == OPT_VERSION)
                return EXIT_OK;
            continue;
        }
        if (p[1] != '\0')
            return set_value(args, (option_id)id, shown, p + 1, FROM_COMMAND_LINE);
        if (*i + 1 >= argc)
            return needs_value(shown, row);
        return set_value(args, (option_id)id, shown, argv[++*i], FROM_COMMAND_LINE);
    }
    return EXIT_OK;
}

static int parse_command(cli_args *args, const char *word)
{
    for (int i = 0; i < CMD_COUNT; i++) {
        if (strcmp(word, command_table[i].name) == 0) {
            args->command = (command_id)i;
            return EXIT_OK;
        }
    }
    const char *nearest = nearest_command(word);
    bytes what = { 0 }, hint = { 0 };
    bytes_printf(&what, "unknown command %s", word);
    if (nearest != NULL)
        bytes_printf(&hint, "did you mean %s?", nearest);
    else
        bytes_text(&hint, "cera help");
    report_error(EXIT_USAGE, what.data, "cera has no such command", hint.data);
    bytes_done(&what);
    bytes_done(&hint);
    return EXIT_USAGE;
}

/* ---- environment ------------------------------------------------------------------------- */

static int parse_flag_variable(cli_args *args, option_id id, const char *name, const char *text)
{
    if (is_choice("1|true|yes|on", text))
        return set_value(args, id, name, NULL, FROM_ENVIRONMENT);
    if (is_choice("0|false|no|off", text))
        return EXIT_OK;
    bytes what = { 0 };
    bytes_printf(&what, "%s has a value that it does not take: \"%s\"", name, text);
    report_error(EXIT_USAGE, what.data, "expected 1 or 0", NULL);
    bytes_done(&what);
    return EXIT_USAGE;
}

static int parse_environment(cli_args *args)
{
    for (int i = 0; i < OPT_COUNT; i++) {
        option_id id = (option_id)i;
        char name[ENV_NAME_ROOM];
        if (is_set(args, id) || !option_applies(id, args->command) ||
            (option_table[i].flags & OPTION_NO_ENV) != 0)
            continue;
        option_env_name(id, name);
        const char *text = getenv(name);
        if (text == NULL || text[0] == '\0')
            continue;
        int code = option_table[i].kind == KIND_FLAG
                       ? parse_flag_variable(args, id, name, text)
                       : set_value(args, id, name, text, FROM_ENVIRONMENT);
        if (code != EXIT_OK)
            return code;
    }
    return EXIT_OK;
}

int options_parse(int argc, char **argv, cli_args *args)
{
    *args = (cli_args){ .command = CMD_NONE };
    args->positional = bytes_alloc((size_t)argc + 1, sizeof(*args->positional));
    args->repeated = bytes_alloc((size_t)argc + OPT_COUNT, sizeof(*args->repeated));
    bool options_end = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int code = EXIT_OK;
        if (!options_end && strcmp(word, "--") == 0)
            options_end = true;
        else if (!options_end && strcmp(word, "-hf") == 0)
            /* getopt would read this word of llama.cpp's users as -h -f. */
            code = unknown_option(args, word, "hf");
        else if (!options_end && word[0] == '-' && word[1] == '-')
            code = parse_long(args, argc, argv, &i);
        else if (!options_end && word[0] == '-' && word[1] != '\0')
            code = parse_letters(args, argc, argv, &i);
        else if (args->command == CMD_NONE)
            code = parse_command(args, word);
        else
            args->positional[args->n_positional++] = word;
        if (code != EXIT_OK)
            return code;
        if (is_set(args, OPT_HELP) || is_set(args, OPT_VERSION))
            return EXIT_OK;
    }
    return args->command == CMD_NONE ? EXIT_OK : parse_environment(args);
}

void options_done(cli_args *args)
{
    free(args->positional);
    free(args->repeated);
}

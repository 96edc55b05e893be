/* Which file a command works on: the path that is named, or the only model of a folder. */
#define _DEFAULT_SOURCE
#include "cli/inputs.h"
#include "cli/report.h"
#include "common/bytes.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* What was found in a folder. It lives as long as the program, which works on one model. */
static bytes found;

static const char *named_model(const cli_args *args)
{
    return args->n_positional > 0 ? args->positional[0] : args->option[OPT_MODEL].text;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ---- folders ----------------------------------------------------------------------------- */

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int is_model(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return is_visible(entry) && n > 5 && strcasecmp(entry->d_name + n - 5, ".gguf") == 0;
}

/* Where "-00001-of-00003.gguf" begins in the name of one file of a model in several, or NULL. */
static const char *part_suffix(const char *name)
{
    static const char shape[] = "-00000-of-00000.gguf"; /* 0: a digit */
    enum { N_SHAPE = sizeof(shape) - 1 };
    size_t n = strlen(name);
    if (n < N_SHAPE)
        return NULL;
    const char *end = name + n - N_SHAPE;
    for (int i = 0; i < N_SHAPE; i++) {
        bool fits = shape[i] == '0' ? end[i] >= '0' && end[i] <= '9' : end[i] == shape[i];
        if (!fits)
            return NULL;
    }
    return end;
}

/* A model, or the first file of one in several: "m-00001-of-00003.gguf" opens the others too. */
static int is_model_or_first(const struct dirent *entry)
{
    const char *suffix = part_suffix(entry->d_name);
    return is_model(entry) && (suffix == NULL || strncmp(suffix, "-00001", 6) == 0);
}

/* Sorted names; the number is negative when the folder cannot be read. */
typedef struct name_list {
    struct dirent **entries; /* [n] */
    int n;
} name_list;

static name_list list_names(const char *folder, int (*wanted)(const struct dirent *entry))
{
    name_list list = { 0 };
    list.n = scandir(folder, &list.entries, wanted, alphasort);
    return list;
}

static void name_list_done(name_list *list)
{
    for (int i = 0; i < list->n; i++)
        free(list->entries[i]);
    if (list->n >= 0)
        free(list->entries);
}

static void append_path(bytes *out, const char *folder, const char *name)
{
    size_t n = strlen(folder);
    bytes_append(out, folder, n);
    bytes_text(out, n > 0 && folder[n - 1] == '/' ? "" : "/");
    bytes_text(out, name);
}

static void append_names(bytes *out, const name_list *list)
{
    enum { MOST = 10 };
    for (int i = 0; i < list->n && i < MOST; i++)
        bytes_printf(out, "%s%s", i > 0 ? ", " : "", list->entries[i]->d_name);
    if (list->n > MOST)
        bytes_printf(out, " and %d more", list->n - MOST);
    if (list->n <= 0)
        bytes_text(out, "nothing");
}

/* A folder with one model stands for it; with none or several it is said what is there. */
static int choose_model(const char *folder, const char **path)
{
    name_list models = list_names(folder, is_model_or_first);
    int code = EXIT_OK;
    bytes what = { 0 }, why = { 0 }, hint = { 0 };
    if (models.n == 1) {
        found.size = 0;
        append_path(&found, folder, models.entries[0]->d_name);
        *path = found.data;
    } else if (models.n == 0) {
        name_list all = list_names(folder, is_visible);
        bytes_printf(&what, "the folder %s has no model", folder);
        bytes_text(&why, "expected a file that ends in .gguf, found ");
        append_names(&why, &all);
        name_list_done(&all);
        code =
            report_error(EXIT_MODEL, what.data, why.data, "check the path, or try -m builtin:tiny");
    } else if (models.n > 1) {
        bytes_printf(&what, "the folder %s has several models", folder);
        bytes_text(&why, "expected one, found ");
        append_names(&why, &models);
        bytes_text(&hint, "-m ");
        append_path(&hint, folder, models.entries[0]->d_name);
        code = report_error(EXIT_USAGE, what.data, why.data, hint.data);
    }
    name_list_done(&models);
    bytes_done(&what);
    bytes_done(&why);
    bytes_done(&hint);
    return code;
}

/* ---- the path ---------------------------------------------------------------------------- */

/* Most likely a text, for which commands have an option. */
static int second_word(const cli_args *args)
{
    static const option_id texts[] = { OPT_PROMPT, OPT_TEXT, OPT_PROMPT_TEXT };
    bytes what = { 0 }, why = { 0 };
    bytes_printf(&what, "unexpected argument %s", args->positional[1]);
    bytes_text(&why, "one model is expected");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (option_applies(texts[i], args->command))
            bytes_printf(&why, "; a text goes behind --%s", option_table[texts[i]].name);
    }
    report_error(EXIT_USAGE, what.data, why.data, command_table[args->command].example);
    bytes_done(&what);
    bytes_done(&why);
    return EXIT_USAGE;
}

int model_path(const cli_args *args, const char **path)
{
    const char *example = command_table[args->command].example;
    if (args->n_positional > 1)
        return second_word(args);
    if (args->n_positional == 1 && args->option[OPT_MODEL].source == FROM_COMMAND_LINE)
        return report_error(EXIT_USAGE, "two models are named",
                            "one is named by -m, one by a word without option", example);
    *path = named_model(args);
    if (*path == NULL || (*path)[0] == '\0')
        return report_error(EXIT_USAGE, "no model is named",
                            "expected a path or builtin:tiny, as a word or behind -m", example);
    return is_folder(*path) ? choose_model(*path, path) : EXIT_OK;
}

static bool same_file(const struct stat *a, const char *path)
{
    struct stat b;
    return stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

static bool is_among(const struct stat *st, const char *folder,
                     int (*wanted)(const struct dirent *entry))
{
    name_list names = list_names(folder, wanted);
    bool same = false;
    for (int i = 0; i < names.n && !same; i++) {
        bytes full = { 0 };
        append_path(&full, folder, names.entries[i]->d_name);
        same = same_file(st, full.data);
        bytes_done(&full);
    }
    name_list_done(&names);
    return same;
}

/* One of the files that "m-00001-of-00003.gguf" stands for. */
static bool is_part(const struct stat *st, const char *model)
{
    const char *suffix = part_suffix(model);
    int n = 0; /* of files */
    for (size_t i = strlen("-00000-of-"); suffix != NULL && suffix[i] != '.'; i++)
        n = n * 10 + (suffix[i] - '0');
    bool same = false;
    for (int i = 1; i <= n && !same; i++) {
        bytes part = { 0 };
        bytes_append(&part, model, (size_t)(suffix - model));
        bytes_printf(&part, "-%05d-of-%05d.gguf", i, n);
        same = same_file(st, part.data);
        bytes_done(&part);
    }
    return same;
}

bool model_is_file(const cli_args *args, const char *path)
{
    struct stat st;
    const char *model = named_model(args);
    bool names_one = option_applies(OPT_MODEL, args->command) || args->command == CMD_QUANTIZE;
    if (model == NULL || !names_one || stat(path, &st) != 0)
        return false;
    if (is_folder(model))
        return is_among(&st, model, is_model);
    return same_file(&st, model) || is_part(&st, model);
}

static int is_source(const struct dirent *entry)
{
    return is_visible(entry) && !is_model(entry);
}

bool folder_has_file(const char *folder, const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && is_among(&st, folder, is_source);
}

/* What a command works on: the model it names and the text it is given. */
#ifndef INPUTS_H
#define INPUTS_H

#include "cera.h"
#include "cli/options.h"

/* Every function that returns int gives 0, or an exit code after it has reported why. */

/* The model's path, from --model or the positional word; of a folder, the only model in it. */
int model_path(const cli_args *args, const char **path);
/* Whether `path` is the model's file, or one of its files, by whatever name. */
bool model_is_file(const cli_args *args, const char *path);
/* Whether `path` is a file of the folder, by whatever name, and no model. */
bool folder_has_file(const char *folder, const char *path);
/* The source and host that the options ask for; path as from model_path. */
cera_source model_source(const cli_args *args, const char *path);
void model_host(cera_host *host);
/* The type of keys and values that the options ask for, and a type's name. */
cera_kv_type model_kv_type(const cli_args *args);
const char *model_kv_name(cera_kv_type type);
int model_open_engine(const cli_args *args, const char *path, cera_engine **out);
/* The same for a model that guesses: it often goes back a little, so it remembers. */
int model_open_draft(const cli_args *args, const char *path, cera_engine **out);
/* The vocabulary alone, with the pre-tokenizer that the command line asks for. */
int model_open_vocab(const cli_args *args, const char *path, cera_vocab **out);
/* A session with the adapters that the command line names; options may be NULL. */
int session_open(const cli_args *args, cera_engine *engine, const cera_session_options *options,
                 cera_session **out);
/* The rest of a message of the library's that begins with the path; all of another. */
const char *without_path(const char *message, const char *path);
/* Reports that opening `path` failed. */
int model_failed(const char *path, const cera_error *err);

/* The text or the ids, as they were given. */
typedef struct prompt {
    char *text; /* [size], NULL when ids were given */
    size_t size;
    int32_t *ids; /* [n_ids] */
    size_t n_ids;
} prompt;

/* Reads the text of `option` (OPT_PROMPT or OPT_TEXT), a file or standard input. */
int prompt_read(const cli_args *args, option_id option, prompt *out);
/* Fills in the ids; ids that were given are checked against the vocabulary. NULL: the file has none,
 * and a text is an error. */
int prompt_encode(const cli_args *args, const cera_vocab *vocab, prompt *prompt);
void prompt_done(prompt *prompt);
/* The text of an option: as given, or with an @ in front what a file holds. Free text->text. */
int prompt_or_file(const char *given, prompt *text);
int prompt_from_file(const char *path, prompt *text);

/* A command that opens a model and works on a prompt: reads both, calls work, cleans up. */
typedef int prompt_work(const cli_args *args, const char *path, cera_engine *engine, prompt *text);
int model_with_prompt(const cli_args *args, prompt_work *work);

/* What `--format` and `--json` ask for. */
bool wants_envelope(const cli_args *args); /* --format json or jsonl */
bool wants_json(const cli_args *args);     /* the same, or --json */

#endif

#define _DEFAULT_SOURCE
#include "cli/inputs.h"

#include "cli/help.h"
#include "cli/out.h"
#include "cli/report.h"
#include "common/bytes.h"
#include "common/number.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool wants_envelope(const cli_args *args)
{
    const option_value *format = &args->option[OPT_FORMAT];
    return format->count > 0 && strcmp(format->text, "text") != 0;
}

bool wants_json(const cli_args *args)
{
    return wants_envelope(args) || is_set(args, OPT_JSON);
}

/* ---- model ------------------------------------------------------------------------------- */

/* By cera_kv_type. */
static const char *const kv_names[] = { "f16", "f32", "q8_0" };

cera_source model_source(const cli_args *args, const char *path)
{
    return (cera_source){ .path = path, .no_mmap = is_set(args, OPT_NO_MMAP) };
}

static void library_says(void *ctx, int level, const char *text)
{
    (void)ctx;
    if (level == 0)
        report_warning(text);
    else
        report_note(1, "%s", text);
}

void model_host(cera_host *host)
{
    cera_host_init(host);
    host->log = library_says;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789ABCDEF", *at = c != '\0' ? strchr(digits, c) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

/* The library begins many messages with the path, its control bytes as \xHH. */
const char *without_path(const char *message, const char *path)
{
    const char *m = message;
    for (const char *p = path; *p != '\0'; p++) {
        if (*m == *p) {
            m++;
            continue;
        }
        if (m[0] != '\\' || m[1] != 'x' || hex_digit(m[2]) < 0 || hex_digit(m[3]) < 0 ||
            hex_digit(m[2]) * 16 + hex_digit(m[3]) != (unsigned char)*p)
            return message;
        m += 4;
    }
    return strncmp(m, ": ", 2) == 0 ? m + 2 : message;
}

int model_failed(const char *path, const cera_error *err)
{
    bytes what = { 0 };
    bytes_printf(&what, "cannot open the model %s", path);
    cera_error rest = *err;
    snprintf(rest.message, sizeof(rest.message), "%s", without_path(err->message, path));
    int code = report_failure(WHILE_OPENING, what.data, &rest);
    bytes_done(&what);
    return code;
}

cera_kv_type model_kv_type(const cli_args *args)
{
    option_id option = is_set(args, OPT_KV_TYPE) ? OPT_KV_TYPE : OPT_KV_CACHE_KEYS;
    for (int i = 0; is_set(args, option) && i < (int)(sizeof kv_names / sizeof kv_names[0]); i++) {
        if (strcmp(args->option[option].text, kv_names[i]) == 0)
            return (cera_kv_type)i;
    }
    return CERA_KV_F16;
}

const char *model_kv_name(cera_kv_type type)
{
    return kv_names[type];
}

/* The file of a tuning is to blame, not the model. */
static int tuning_failed(const char *path, const char *why)
{
    bytes what = { 0 };
    bytes_printf(&what, "cannot use the tuning %s", path);
    report_error(EXIT_RUNTIME, what.data, why, "cera bench --tune FILE measures again");
    bytes_done(&what);
    return EXIT_RUNTIME;
}

static int open_engine(const cli_args *args, const char *path, bool reuse, cera_engine **out)
{
    cera_host host;
    model_host(&host);
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.host = &host;
    options.n_threads = (int)args->option[OPT_THREADS].integer;
    options.context_size = (int)args->option[OPT_CONTEXT_SIZE].integer;
    if (is_set(args, OPT_UBATCH_SIZE)) {
        int64_t size = args->option[OPT_UBATCH_SIZE].integer;
        options.chunk_size = size == 0 ? (int)option_table[OPT_UBATCH_SIZE].max : (int)size;
    }
    options.max_batch = (int)args->option[OPT_PARALLEL].integer;
    options.kv_type = model_kv_type(args);
    /* Most commands compute a prompt once, or measure how long that takes. */
    if (!is_set(args, OPT_NO_CACHE))
        options.cache_dir = args->option[OPT_CACHE_DIR].text;
    options.no_reuse = !reuse && options.cache_dir == NULL;
    if (is_set(args, OPT_CACHE_DISK_GB))
        options.cache_disk_bytes = (uint64_t)(args->option[OPT_CACHE_DISK_GB].real * (1 << 30));
    options.cpu_tier = args->option[OPT_CPU_TIER].text;
    options.pre = args->option[OPT_PRE].text;
    options.prefault = is_set(args, OPT_PREFAULT);
    options.tuning = args->option[OPT_TUNING].text;

    cera_source source = model_source(args, path);
    cera_error err;
    if (cera_engine_open_source(&source, &options, out, &err) == CERA_OK)
        return EXIT_OK;
    if (options.tuning != NULL) {
        const char *why = without_path(err.message, options.tuning);
        if (why != err.message)
            return tuning_failed(options.tuning, why);
    }
    return model_failed(path, &err);
}

/* Commands compute a prompt once, or measure how long that takes: nothing is reused. */
int model_open_engine(const cli_args *args, const char *path, cera_engine **out)
{
    return open_engine(args, path, false, out);
}

int model_open_draft(const cli_args *args, const char *path, cera_engine **out)
{
    return open_engine(args, path, true, out);
}

int model_open_vocab(const cli_args *args, const char *path, cera_vocab **out)
{
    cera_host host;
    model_host(&host);
    cera_source source = model_source(args, path);
    cera_vocab_options options;
    cera_vocab_options_init(&options);
    options.host = &host;
    options.pre = args->option[OPT_PRE].text;
    cera_error err;
    return cera_vocab_open(&source, &options, out, &err) == CERA_OK ? EXIT_OK
                                                                    : model_failed(path, &err);
}

/* ---- text -------------------------------------------------------------------------------- */

/* The longest text that is read: far more than fits any context, far less than memory. */
enum { MAX_TEXT_MIB = 64, MAX_TEXT = MAX_TEXT_MIB << 20 };

/* size: what the text is known to have, or 0 where only "more" is known. */
static int too_long(const char *name, uintmax_t size)
{
    bytes why = { 0 };
    if (size > 0)
        bytes_printf(&why, "%s makes it %ju bytes", name, size);
    else
        bytes_printf(&why, "%s makes it more than %d bytes", name, MAX_TEXT);
    bytes_printf(&why, ", the limit is %d (%d MiB)", MAX_TEXT, MAX_TEXT_MIB);
    report_error(EXIT_LIMIT, "the text is too long", why.data, "a shorter text");
    bytes_done(&why);
    return EXIT_LIMIT;
}

/* Appends what is left of a descriptor. */
static int read_all(int fd, const char *name, bytes *out)
{
    /* A file tells how long it is, so that nothing is read in vain. */
    size_t room = out->size < MAX_TEXT ? MAX_TEXT - out->size : 0;
    struct stat st;
    off_t at = lseek(fd, 0, SEEK_CUR);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && at >= 0 && st.st_size > at &&
        (uintmax_t)(st.st_size - at) > room)
        return too_long(name, out->size + (uintmax_t)(st.st_size - at));
    char part[1 << 16];
    for (;;) {
        ssize_t n = read(fd, part, sizeof(part));
        if (n > 0) {
            if ((size_t)n > room)
                return too_long(name, 0);
            bytes_append(out, part, (size_t)n);
            room -= (size_t)n;
        } else if (n == 0) {
            return EXIT_OK;
        } else if (errno != EINTR) {
            bytes what = { 0 };
            bytes_printf(&what, "cannot read %s", name);
            report_error(EXIT_RUNTIME, what.data, strerror(errno), NULL);
            bytes_done(&what);
            return EXIT_RUNTIME;
        }
    }
}

static int read_file(const char *path, bytes *out)
{
    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, "standard input", out);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        bytes what = { 0 };
        bytes_printf(&what, "cannot open %s", path);
        report_error(EXIT_RUNTIME, what.data, strerror(errno), "check the path");
        bytes_done(&what);
        return EXIT_RUNTIME;
    }
    int code = read_all(fd, path, out);
    close(fd);
    if (out->size > 0 && out->data[out->size - 1] == '\n')
        out->data[--out->size] = '\0';
    return code;
}

static int parse_ids(const char *name, const char *text, prompt *out)
{
    out->ids = bytes_alloc(strlen(text) / 2 + 1, sizeof(int32_t));
    bytes part = { 0 };
    const char *p = text;
    for (bool more = true; more;) {
        size_t n = strcspn(p, ",");
        size_t begin = strspn(p, " ");
        size_t end = n;
        while (end > begin && p[end - 1] == ' ')
            end--;
        part.size = 0;
        bytes_append(&part, p + begin, end > begin ? end - begin : 0);
        int64_t id;
        if (!number_parse_i64(part.data, &id) || id < 0 || id > INT32_MAX) {
            bytes what = { 0 };
            bytes_printf(&what, "%s has a value that it does not take: \"%s\"", name, part.data);
            report_error(EXIT_USAGE, what.data,
                         "expected whole numbers from 0 to 2147483647, separated by commas",
                         "--token-ids 1,2,3");
            bytes_done(&what);
            bytes_done(&part);
            return EXIT_USAGE;
        }
        out->ids[out->n_ids++] = (int32_t)id;
        more = p[n] == ',';
        p += n + 1;
    }
    bytes_done(&part);
    return EXIT_OK;
}

/* Nobody has given a text and nobody can: show how to. */
static int show_usage(const cli_args *args)
{
    if (wants_envelope(args))
        return report_error(EXIT_USAGE, "no text is given", NULL,
                            command_table[args->command].example);
    bytes text = { 0 };
    help_short(args->command, &text);
    fputs(text.data, stderr);
    bytes_done(&text);
    return EXIT_USAGE;
}

int prompt_read(const cli_args *args, option_id option, prompt *out)
{
    *out = (prompt){ 0 };
    const option_value *text = &args->option[option];
    const option_value *file = &args->option[OPT_PROMPT_FILE];
    const option_value *ids = &args->option[OPT_TOKEN_IDS];
    bool extra_stdin = is_set(args, OPT_STDIN);

    /* A source on the command line puts those of the environment aside. */
    value_source strongest = text->source > file->source ? text->source : file->source;
    strongest = ids->source > strongest ? ids->source : strongest;
    bool has_text = text->count > 0 && text->source == strongest;
    bool has_file = file->count > 0 && file->source == strongest;
    if (ids->count > 0 && ids->source == strongest) {
        if (has_text || has_file || extra_stdin)
            report_warning("--token-ids takes the place of the other prompt");
        return parse_ids(ids->typed, ids->text, out);
    }
    if (has_text && has_file)
        return report_error(EXIT_USAGE, "two texts are given",
                            "one is given as an option, one as a file", "one of the two");

    bytes buf = { 0 };
    bytes_append(&buf, "", 0);
    int code = EXIT_OK;
    bool from_stdin = false;
    if (has_text && strcmp(text->text, "-") != 0) {
        bytes_text(&buf, text->text);
    } else if (has_file) {
        from_stdin = strcmp(file->text, "-") == 0;
        code = read_file(file->text, &buf);
    } else if (has_text || extra_stdin || isatty(STDIN_FILENO) != 1) {
        from_stdin = true;
        code = read_all(STDIN_FILENO, "standard input", &buf);
    } else {
        bytes_done(&buf);
        return show_usage(args);
    }
    if (code == EXIT_OK && extra_stdin && !from_stdin) {
        bytes_text(&buf, "\n\n");
        code = read_all(STDIN_FILENO, "standard input", &buf);
    }
    /* Nothing at all came, and nobody said that it should be so. */
    if (code == EXIT_OK && from_stdin && buf.size == 0)
        code = report_error(EXIT_USAGE, "no text is given", "standard input is empty",
                            command_table[args->command].example);
    out->text = buf.data;
    out->size = buf.size;
    if (code != EXIT_OK)
        prompt_done(out);
    return code;
}

/* The ids of the text. The start token is put in front here and not by the library, because a text
 * that spells it already should not have it twice. */
static int encode_text(const cli_args *args, const cera_vocab *vocab, prompt *p)
{
    cera_encode_options options;
    cera_encode_options_init(&options);
    options.add_bos = false;
    options.parse_special = !is_set(args, OPT_NO_SPECIAL);
    int32_t *ids = NULL;
    size_t n_ids = 0;
    cera_error err;
    if (cera_vocab_encode(vocab, p->text, p->size, &options, &ids, &n_ids, &err) != CERA_OK)
        return report_failure(WHILE_RUNNING, "cannot turn the text into tokens", &err);

    cera_vocab_info info;
    cera_vocab_get_info(vocab, &info);
    bool add_bos = info.add_bos && info.bos >= 0 && !is_set(args, OPT_NO_BOS) &&
                   !(n_ids > 0 && ids[0] == info.bos);
    p->ids = bytes_alloc(n_ids + 1, sizeof(int32_t));
    if (add_bos)
        p->ids[p->n_ids++] = info.bos;
    if (n_ids > 0)
        memcpy(p->ids + p->n_ids, ids, n_ids * sizeof(int32_t));
    p->n_ids += n_ids;
    cera_vocab_free_ids(vocab, ids, n_ids);
    return EXIT_OK;
}

/* Of a file without a vocabulary the model knows itself which ids there are. */
static int without_vocabulary(const cli_args *args, const prompt *p)
{
    if (p->text == NULL)
        return EXIT_OK;
    return report_error(EXIT_MODEL, "the model has no vocabulary",
                        "its file has none, so texts cannot become tokens",
                        option_applies(OPT_TOKEN_IDS, args->command) ? "--token-ids 1,2,3" : NULL);
}

int prompt_encode(const cli_args *args, const cera_vocab *vocab, prompt *p)
{
    if (vocab == NULL)
        return without_vocabulary(args, p);
    if (p->text != NULL)
        return encode_text(args, vocab, p);
    cera_vocab_info info;
    cera_vocab_get_info(vocab, &info);
    for (size_t i = 0; i < p->n_ids; i++) {
        if ((size_t)p->ids[i] >= info.n_tokens) {
            bytes what = { 0 }, why = { 0 };
            bytes_printf(&what, "%s names a token that the model does not have: %ld",
                         args->option[OPT_TOKEN_IDS].typed, (long)p->ids[i]);
            bytes_printf(&why, "expected ids from 0 to %zu", info.n_tokens - 1);
            report_error(EXIT_USAGE, what.data, why.data, NULL);
            bytes_done(&what);
            bytes_done(&why);
            return EXIT_USAGE;
        }
    }
    return EXIT_OK;
}

int prompt_from_file(const char *path, prompt *text)
{
    bytes buf = { 0 };
    bytes_append(&buf, "", 0);
    int code = read_file(path, &buf);
    *text = (prompt){ .text = buf.data, .size = buf.size };
    if (code != EXIT_OK)
        prompt_done(text);
    return code;
}

int prompt_or_file(const char *given, prompt *text)
{
    if (given[0] == '@')
        return prompt_from_file(given + 1, text);
    bytes buf = { 0 };
    bytes_text(&buf, given);
    *text = (prompt){ .text = buf.data, .size = buf.size };
    return EXIT_OK;
}

void prompt_done(prompt *p)
{
    free(p->text);
    free(p->ids);
    *p = (prompt){ 0 };
}

int model_with_prompt(const cli_args *args, prompt_work *work)
{
    const char *path;
    int code = model_path(args, &path);
    if (code != EXIT_OK)
        return code;
    prompt text;
    code = out_check();
    if (code == EXIT_OK)
        code = prompt_read(args, OPT_PROMPT, &text);
    if (code != EXIT_OK)
        return code;
    cera_engine *engine = NULL;
    code = model_open_engine(args, path, &engine);
    if (code == EXIT_OK)
        code = work(args, path, engine, &text);
    cera_engine_close(engine);
    prompt_done(&text);
    return code;
}

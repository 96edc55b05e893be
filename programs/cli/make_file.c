#include "cli/make_file.h"

#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/out.h"
#include "cli/report.h"
#include "common/bytes.h"

#include <string.h>

enum { MB = 1000000 };

bool make_has_words(const cli_args *args)
{
    if (args->n_positional == 3)
        return true;
    bytes what = { 0 };
    if (args->n_positional > 3)
        bytes_printf(&what, "unexpected argument %s", args->positional[3]);
    else
        bytes_printf(&what, "%zu of the three words %s missing", 3 - args->n_positional,
                     args->n_positional == 2 ? "is" : "are");
    report_error(EXIT_USAGE, what.data, "expected the source, the new file and its type",
                 command_table[args->command].example);
    bytes_done(&what);
    return false;
}

void make_start(progress *bar, const cli_args *args)
{
    progress_start(bar, args, command_table[args->command].name);
    bar->unit = "MB";
    bar->divisor = MB;
    interrupt_hold(true);
}

int make_progress(void *user, uint64_t done, uint64_t total)
{
    progress_set(user, (size_t)done, (size_t)total);
    return interrupt_exit_code();
}

/* The names that do exist, for somebody who got one wrong. */
static void append_types(bytes *out)
{
    bytes_text(out, "TYPE is one of");
    for (size_t i = 0; cera_quantize_type(i) != NULL; i++)
        bytes_printf(out, "%s %s", i > 0 ? "," : "", cera_quantize_type(i));
}

/* Whether a message is about this file, or one in this folder. */
static bool is_about(const char *message, const char *path)
{
    size_t n = strlen(path);
    return strncmp(message, path, n) == 0 && (message[n] == ':' || message[n] == '/');
}

static int failed(const cli_args *args, const cera_error *err)
{
    int stopped = interrupt_exit_code();
    if (err->status == CERA_E_CANCELLED && stopped != 0)
        return stopped;
    bytes what = { 0 }, hint = { 0 };
    if (args->command == CMD_QUANTIZE && err->status == CERA_E_ARG &&
        is_about(err->message, "type"))
        append_types(&hint);
    else if (args->command == CMD_QUANTIZE && err->status == CERA_E_UNSUPPORTED)
        bytes_text(&hint, "--allow-requantize, or the F16 file that it was made from");
    else if (args->command == CMD_CONVERT && strstr(err->message, "pre_tokenizer") != NULL)
        bytes_text(&hint, "--pre NAME");
    bytes_printf(&what, "cannot %s %s", command_table[args->command].name, args->positional[0]);
    /* A source that cannot be read is a model that is missing; what cannot be written is not, also
     * where it would be in the source's folder. */
    const char *out = args->positional[1];
    bool runs = err->status == CERA_E_IO && (!is_about(err->message, args->positional[0]) ||
                                             strncmp(err->message, out, strlen(out)) == 0);
    int code = exit_code_of(err->status, runs ? WHILE_RUNNING : WHILE_OPENING);
    report_error(code, what.data, err->message, hint.data);
    bytes_done(&what);
    bytes_done(&hint);
    return code;
}

static void print_summary(const cli_args *args, const char *schema, const cera_quantize_summary *s)
{
    const char *in = args->positional[0], *out = args->positional[1], *type = args->positional[2];
    report_note(0, "%s: %.1f MB, %s: %.1f MB, %zu of %zu tensors changed for %s", in,
                (double)s->bytes_before / MB, out, (double)s->bytes_after / MB, s->n_quantized,
                s->n_tensors, type);
    if (s->n_fallback > 0)
        report_note(0, "%zu of them have another type, because their rows do not fit the one meant",
                    s->n_fallback);
    if (wants_json(args))
        out_json(json_pack("{s:s, s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:I}", "schema", schema,
                           "model", json_text(in, strlen(in)), "output",
                           json_text(out, strlen(out)), "type", type, "bytes_before",
                           (json_int_t)s->bytes_before, "bytes_after", (json_int_t)s->bytes_after,
                           "tensors", (json_int_t)s->n_tensors, "quantized",
                           (json_int_t)s->n_quantized, "fallback", (json_int_t)s->n_fallback));
}

int make_end(progress *bar, const cli_args *args, cera_status status, const char *schema,
             const cera_quantize_summary *summary, const cera_error *err)
{
    interrupt_hold(false);
    progress_end(bar);
    if (status != CERA_OK)
        return failed(args, err);
    print_summary(args, schema, summary);
    return EXIT_OK;
}

/* quantize: a model file in fewer bits. The library does the work; here are words and signals. */
#include "cera.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "common/bytes.h"

#include <string.h>

enum { MB = 1000000 };

static int show_progress(void *user, uint64_t done, uint64_t total)
{
    progress_set(user, (size_t)done, (size_t)total);
    return interrupt_exit_code();
}

static int wrong_words(const cli_args *args)
{
    bytes what = { 0 };
    if (args->n_positional > 3)
        bytes_printf(&what, "unexpected argument %s", args->positional[3]);
    else
        bytes_printf(&what, "%zu of the three words are missing", 3 - args->n_positional);
    report_error(EXIT_USAGE, what.data, "expected the source, the new file and its type",
                 command_table[CMD_QUANTIZE].example);
    bytes_done(&what);
    return EXIT_USAGE;
}

/* The names that do exist, for somebody who got one wrong. */
static void append_types(bytes *out)
{
    bytes_text(out, "TYPE is one of");
    for (size_t i = 0; cera_quantize_type(i) != NULL; i++)
        bytes_printf(out, "%s %s", i > 0 ? "," : "", cera_quantize_type(i));
}

static void print_summary(const cli_args *args, const cera_quantize_summary *s)
{
    const char *in = args->positional[0], *out = args->positional[1], *type = args->positional[2];
    report_note(0, "%s: %.1f MB, %s: %.1f MB, %zu of %zu tensors quantised as %s", in,
                (double)s->bytes_before / MB, out, (double)s->bytes_after / MB, s->n_quantized,
                s->n_tensors, type);
    if (s->n_fallback > 0)
        report_note(0, "%zu tensors have another type, because their rows do not fit the one meant",
                    s->n_fallback);
    if (wants_json(args))
        out_json(json_pack("{s:s, s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:I}", "schema",
                           "cera.quantize/1", "model", json_text(in, strlen(in)), "output",
                           json_text(out, strlen(out)), "type", type, "bytes_before",
                           (json_int_t)s->bytes_before, "bytes_after", (json_int_t)s->bytes_after,
                           "tensors", (json_int_t)s->n_tensors, "quantized",
                           (json_int_t)s->n_quantized, "fallback", (json_int_t)s->n_fallback));
}

static int failed(const cli_args *args, const cera_error *err)
{
    int stopped = interrupt_exit_code();
    if (err->status == CERA_E_CANCELLED && stopped != 0)
        return stopped;
    bytes what = { 0 }, hint = { 0 };
    if (err->status == CERA_E_ARG)
        append_types(&hint);
    else if (err->status == CERA_E_UNSUPPORTED)
        bytes_text(&hint, "--allow-requantize, or the F16 file that it was made from");
    bytes_printf(&what, "cannot quantise %s", args->positional[0]);
    /* The source has been opened: what fails to be read or written now is no fault of its content. */
    int code = exit_code_of(err->status, err->status == CERA_E_IO ? WHILE_RUNNING : WHILE_OPENING);
    report_error(code, what.data, err->message, hint.data);
    bytes_done(&what);
    bytes_done(&hint);
    return code;
}

int command_QUANTIZE(const cli_args *args)
{
    if (args->n_positional != 3)
        return wrong_words(args);
    const char *in = args->positional[0], *out = args->positional[1], *type = args->positional[2];
    if (model_is_file(args, out))
        return report_error(EXIT_USAGE, "the source and the new file are the same",
                            "quantising loses what the source has",
                            "another name for the new file");

    cera_host host;
    model_host(&host);
    cera_source source = { .path = in };
    cera_file *file;
    cera_error err;
    if (cera_file_open(&source, &host, &file, &err) != CERA_OK)
        return model_failed(in, &err);
    cera_file_close(file);

    progress bar;
    progress_start(&bar, args, "quantize");
    bar.unit = "MB";
    bar.divisor = MB;
    cera_quantize_options options;
    cera_quantize_options_init(&options);
    options.host = &host;
    options.n_threads = (int)args->option[OPT_THREADS].integer;
    options.output_type = args->option[OPT_OUTPUT_TENSOR_TYPE].text;
    options.embedding_type = args->option[OPT_TOKEN_EMBEDDING_TYPE].text;
    options.pure = is_set(args, OPT_PURE);
    options.keep_output = is_set(args, OPT_LEAVE_OUTPUT_TENSOR);
    options.allow_requantize = is_set(args, OPT_ALLOW_REQUANTIZE);
    options.on_progress = show_progress;
    options.user = &bar;
    cera_quantize_summary summary;
    interrupt_hold(true);
    cera_status status = cera_quantize(&source, out, type, &options, &summary, &err);
    interrupt_hold(false);
    progress_end(&bar);
    if (status != CERA_OK)
        return failed(args, &err);
    print_summary(args, &summary);
    return EXIT_OK;
}

/* quantize: a model file in fewer bits. */
#include "cera.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/make_file.h"
#include "cli/report.h"

int command_QUANTIZE(const cli_args *args)
{
    if (!make_has_words(args))
        return EXIT_USAGE;
    const char *in = args->positional[0], *out = args->positional[1], *type = args->positional[2];
    if (model_is_file(args, out))
        return report_error(EXIT_USAGE, "the source and the new file are the same",
                            "quantising loses what the source has",
                            "another name for the new file");

    /* What is wrong with the source itself is reported as for every command. */
    cera_host host;
    model_host(&host);
    cera_source source = { .path = in };
    cera_file *file;
    cera_error err;
    if (cera_file_open(&source, &host, &file, &err) != CERA_OK)
        return model_failed(in, &err);
    cera_file_close(file);

    progress bar;
    cera_quantize_options options;
    cera_quantize_options_init(&options);
    options.host = &host;
    options.n_threads = (int)args->option[OPT_THREADS].integer;
    options.output_type = args->option[OPT_OUTPUT_TENSOR_TYPE].text;
    options.embedding_type = args->option[OPT_TOKEN_EMBEDDING_TYPE].text;
    options.pure = is_set(args, OPT_PURE);
    options.keep_output = is_set(args, OPT_LEAVE_OUTPUT_TENSOR);
    options.allow_requantize = is_set(args, OPT_ALLOW_REQUANTIZE);
    options.on_progress = make_progress;
    options.user = &bar;
    cera_quantize_summary summary;
    make_start(&bar, args);
    cera_status status = cera_quantize(&source, out, type, &options, &summary, &err);
    return make_end(&bar, args, status, "cera.quantize/1", &summary, &err);
}

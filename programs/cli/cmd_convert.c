/* convert: a folder of Hugging Face's as one GGUF file. */
#include "cera.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/make_file.h"
#include "cli/report.h"

int command_CONVERT(const cli_args *args)
{
    if (!make_has_words(args))
        return EXIT_USAGE;
    if (folder_has_file(args->positional[0], args->positional[1]))
        return report_error(EXIT_USAGE, "the new file is one of the folder's own",
                            "what it has now would be lost", "a name that ends in .gguf");
    cera_host host;
    model_host(&host);
    progress bar;
    cera_error err;
    cera_convert_options options;
    cera_convert_options_init(&options);
    options.host = &host;
    options.n_threads = (int)args->option[OPT_THREADS].integer;
    options.pre = args->option[OPT_PRE].text;
    options.on_progress = make_progress;
    options.user = &bar;
    cera_quantize_summary summary;
    make_start(&bar, args);
    cera_status status = cera_convert(args->positional[0], args->positional[1], args->positional[2],
                                      &options, &summary, &err);
    return make_end(&bar, args, status, "cera.convert/1", &summary, &err);
}

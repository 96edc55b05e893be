/* cera_quantize: check arguments, open the source, forward. */
#include "api/check.h"
#include "base/cpu.h"
#include "convert/quantize.h"
#include "engine/source.h"

void cera_quantize_options_init(cera_quantize_options *options)
{
    *options = (cera_quantize_options){ .size = sizeof *options };
}

const char *cera_quantize_type(size_t i)
{
    return cr_recipe_name(i);
}

cera_status cera_quantize(const cera_source *source, const char *path, const char *type,
                          const cera_quantize_options *options, cera_quantize_summary *summary,
                          cera_error *err)
{
    cera_quantize_options defaults;
    cera_quantize_options_init(&defaults);
    options = options != NULL ? options : &defaults;
    if (source == NULL || path == NULL || type == NULL)
        return cr_fail(err, CERA_E_ARG,
                       "quantize: expected a source, a path and a type, found NULL");
    CR_TRY(cr_check_make(options->size, sizeof *options, options->n_threads, err));
    cr_host host;
    CR_TRY(cr_host_set(&host, options->host, err));
    cr_gguf *file;
    CR_TRY(cr_source_open(source, &host, &file, err));
    int n_threads = options->n_threads > 0 ? options->n_threads : cr_cpu_n_threads(&host);
    cera_status status =
        cr_quantize_file(file, path, type, options, n_threads, &host, summary, err);
    cr_gguf_close(file);
    return status;
}

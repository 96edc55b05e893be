/* cera_convert: check arguments, forward. */
#include "api/check.h"
#include "base/cpu.h"
#include "convert/convert.h"

void cera_convert_options_init(cera_convert_options *options)
{
    *options = (cera_convert_options){ .size = sizeof *options };
}

cera_status cera_convert(const char *folder, const char *path, const char *type,
                         const cera_convert_options *options, cera_quantize_summary *summary,
                         cera_error *err)
{
    cera_convert_options defaults;
    cera_convert_options_init(&defaults);
    options = options != NULL ? options : &defaults;
    if (folder == NULL || path == NULL || type == NULL)
        return cr_fail(err, CERA_E_ARG,
                       "convert: expected a folder, a path and a type, found NULL");
    CR_TRY(cr_check_make(options->size, sizeof *options, options->n_threads, err));
    cr_host host;
    CR_TRY(cr_host_set(&host, options->host, err));
    int n_threads = options->n_threads > 0 ? options->n_threads : cr_cpu_n_threads(&host);
    return cr_convert_folder(folder, path, type, options, n_threads, &host, summary, err);
}

/* cera_convert: check arguments, forward, look at what came out. */
#include "api/check.h"
#include "base/cpu.h"
#include "convert/convert.h"
#include "engine/engine.h"

void cera_convert_options_init(cera_convert_options *options)
{
    *options = (cera_convert_options){ .size = sizeof *options };
}

/* A folder may lack tensors, have them in other shapes than config.json says, or a tokenizer that
 * contradicts itself. Who opens a model finds all of that, so the new file is opened. */
static cera_status opens(const cera_convert_options *options, const char *path, cera_error *err)
{
    cera_host quiet;
    cera_host_init(&quiet);
    if (options->host != NULL)
        quiet = *options->host;
    quiet.log = NULL;
    cera_engine_options o;
    cera_engine_options_init(&o);
    o.host = &quiet;
    o.n_threads = o.context_size = o.chunk_size = 1;
    o.no_reuse = true;
    cr_engine *engine;
    CR_TRY(cr_engine_open(&(cera_source){ .path = path }, &o, &engine, err));
    cr_engine_close(engine);
    return CERA_OK;
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
    return cr_convert_folder(folder, path, type, options, n_threads, &host, opens, summary, err);
}

/* A folder of Hugging Face's -> a GGUF file. */
#ifndef CR_CONVERT_H
#define CR_CONVERT_H

#include "convert/quantize.h"

/* cera_convert with complete options. */
cera_status cr_convert_folder(const char *folder, const char *path, const char *type,
                              const cera_convert_options *options, int n_threads, cr_host *host,
                              cera_quantize_summary *summary, cera_error *err);

#endif

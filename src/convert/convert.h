/* A folder of Hugging Face's -> a GGUF file. */
#ifndef CR_CONVERT_H
#define CR_CONVERT_H

#include "convert/quantize.h"

/* Looks at the finished file, which has no name yet and gets none when this fails. */
typedef cera_status cr_convert_check(const cera_convert_options *options, const char *path,
                                     cera_error *err);

/* cera_convert with complete options. */
cera_status cr_convert_folder(const char *folder, const char *path, const char *type,
                              const cera_convert_options *options, int n_threads, cr_host *host,
                              cr_convert_check *check, cera_quantize_summary *summary,
                              cera_error *err);

#endif

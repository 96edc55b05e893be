/* A GGUF file with its tensors in other element types. */
#ifndef CR_QUANTIZE_H
#define CR_QUANTIZE_H

#include "base/pool.h"
#include "convert/recipe.h"
#include "file/gguf_write.h"

/* Weights on their way from one type to another, by all workers together. */
typedef struct cr_requant cr_requant;
cera_status cr_requant_new(cr_host *host, int n_threads, cr_requant **out, cera_error *err);
void cr_requant_free(cr_requant *q);

/* Called between pieces with the number of bytes just read; CERA_OK goes on. */
typedef cera_status cr_requant_step(void *ctx, uint64_t n_bytes, cera_error *err);

/* Writes the tensor's weights as `type` into the writer's current tensor. Fails with CERA_E_FORMAT
 * naming the tensor when a weight does not fit the type. */
cera_status cr_requant_tensor(cr_requant *q, const cr_tensor *tensor, cr_type type,
                              cr_gguf_writer *writer, cr_requant_step *step, void *ctx,
                              cera_error *err);

/* cera_quantize of an open file, options complete. */
cera_status cr_quantize_file(const cr_gguf *file, const char *path, const char *type,
                             const cera_quantize_options *options, int n_threads, cr_host *host,
                             cera_quantize_summary *summary, cera_error *err);

#endif

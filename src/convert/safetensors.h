/* A safetensors file: bytes -> bounds-checked ranges.
 *
 *     n u64 | header: n bytes of JSON | data
 *
 *     header: { "name": { "dtype": "BF16", "shape": [64, 32], "data_offsets": [begin, end] }, ... }
 *
 * Offsets count from the start of the data. Everything the header says is checked against the file
 * before anything is handed out; shapes are turned round to GGUF's order. */
#ifndef CR_SAFETENSORS_H
#define CR_SAFETENSORS_H

#include "base/arena.h"
#include "file/gguf.h"
#include "file/view.h"

typedef struct cr_safetensors {
    cr_view view;
    const char *path;   /* as it was given */
    cr_tensor *tensors; /* [n_tensors], in the order of the header; of type F32, F16 or BF16 */
    size_t n_tensors;
} cr_safetensors;

/* Names and the list live in the arena; the data as long as the file is open. Tensors of other
 * types get CR_TYPE_COUNT and no data. Nothing is open after a failure. */
cera_status cr_safetensors_open(cr_safetensors *file, cr_arena *arena, const char *path,
                                cera_error *err);
/* The same of bytes in memory, which must outlive the file. */
cera_status cr_safetensors_parse(cr_safetensors *file, cr_arena *arena, const void *bytes, size_t n,
                                 const char *path, cera_error *err);
void cr_safetensors_close(cr_safetensors *file);

#endif

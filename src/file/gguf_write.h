/* Writing GGUF: keys and tensors are announced first, then the bytes of the tensors follow in
 * order.
 *
 *     cr_gguf_writer w;
 *     cr_gguf_writer_init(&w, host);
 *     cr_gguf_put_str(&w, "general.architecture", cr_str_from("llama"));
 *     cr_gguf_put_tensor(&w, name, CR_TYPE_Q8_0, 2, shape);
 *     status = cr_gguf_writer_begin(&w, "out.gguf", err);        // the header
 *     status = cr_gguf_writer_data(&w, bytes, n, err);           // any number of times
 *     status = cr_gguf_writer_commit(&w, err);                   // now out.gguf exists
 *     cr_gguf_writer_done(&w);
 *
 * The put functions do not fail: a lack of memory is remembered and reported by begin. */
#ifndef CR_GGUF_WRITE_H
#define CR_GGUF_WRITE_H

#include "file/gguf.h"
#include "file/output.h"

enum { CR_GGUF_ALIGNMENT = 32 }; /* of tensors, where general.alignment says nothing else */

typedef struct cr_gguf_writer {
    cr_host *host;
    size_t alignment; /* to be changed before the first tensor; its key is for the caller to put */

    /* private */
    cr_buf keys, tensors, sizes; /* what is announced: serialised; sizes: uint64_t [n_tensors] */
    uint64_t n_keys, n_tensors;
    uint64_t n_data; /* where the next tensor's data begin */
    bool no_memory, too_large;
    cr_output output;
    uint64_t i_tensor, done; /* the tensor being written, its bytes so far */
} cr_gguf_writer;

void cr_gguf_writer_init(cr_gguf_writer *w, cr_host *host);
void cr_gguf_writer_done(cr_gguf_writer *w);

/* A key and its value. Keys must differ; arrays come from an open file. */
void cr_gguf_put(cr_gguf_writer *w, cr_str key, const cera_value *value);
void cr_gguf_put_u32(cr_gguf_writer *w, const char *key, uint32_t value);
void cr_gguf_put_f32(cr_gguf_writer *w, const char *key, float value);
void cr_gguf_put_bool(cr_gguf_writer *w, const char *key, bool value);
void cr_gguf_put_str(cr_gguf_writer *w, const char *key, cr_str value);
/* An array made by hand: the key, then its elements, exactly `count` of them. */
void cr_gguf_put_array(cr_gguf_writer *w, const char *key, cera_value_type element, uint64_t count);
void cr_gguf_put_element(cr_gguf_writer *w, const cera_value *value);

/* The next tensor. No dimension is 0; shape[0] is a multiple of the type's block. */
void cr_gguf_put_tensor(cr_gguf_writer *w, cr_str name, cr_type type, int n_dims,
                        const uint64_t *shape);

/* Creates the file beside `path` and writes the header. CERA_E_NOMEM, CERA_E_LIMIT or CERA_E_IO. */
cera_status cr_gguf_writer_begin(cr_gguf_writer *w, const char *path, cera_error *err);
/* The next n bytes of the current tensor, and no more than it has left. */
cera_status cr_gguf_writer_data(cr_gguf_writer *w, const void *data, size_t n, cera_error *err);
/* When the last tensor is complete: the file gets its name. */
cera_status cr_gguf_writer_commit(cr_gguf_writer *w, cera_error *err);

#endif

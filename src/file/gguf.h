/* GGUF: bytes -> bounds-checked ranges.
 *
 * Opening checks every count, length, offset, alignment and type against what remains of the file,
 * so that whoever reads a key or a tensor afterwards cannot step outside. Nothing is recursed into,
 * and nothing is allocated that is larger than the bytes left in the file justify.
 *
 *     header | key value ... | tensor info ... | padding | tensor data
 *
 * A model may be split into several such files, "-00001-of-00003.gguf" and so on. Opening any of
 * them by path opens all: the keys are those of the first, the tensors those of all. */
#ifndef CR_GGUF_H
#define CR_GGUF_H

#include "base/arena.h"
#include "base/text.h"
#include "tensor/type.h"

/* Limits besides the size of the file; tests/unit/test_gguf.c has each at its edge. */
enum {
    CR_GGUF_MAX_DIMS = 4,
    CR_GGUF_MAX_NAME = 1024,      /* bytes of a key or tensor name */
    CR_GGUF_MAX_STRING = 8 << 20, /* bytes of a string value */
    CR_GGUF_MAX_KEYS = 1 << 16,
    CR_GGUF_MAX_TENSORS = 1 << 20,
    CR_GGUF_MAX_ALIGNMENT = 1 << 20,
    CR_GGUF_MAX_PARTS = 1024, /* files of a split model */
};

/* One tensor of the file, or of all parts of a split model. */
typedef struct cr_tensor {
    cr_str name;      /* also NUL-terminated */
    cr_type type;     /* CR_TYPE_COUNT when this build does not know it */
    uint32_t type_id; /* as in the file */
    int n_dims;
    uint64_t shape[4];   /* shape[0] is the contiguous dimension */
    uint32_t part;       /* the file it is in; 0 unless the model is split */
    uint64_t offset;     /* from the start of that file */
    size_t size;         /* bytes; 0 when the type is unknown */
    const uint8_t *data; /* NULL when the type is unknown */
} cr_tensor;

typedef struct cr_gguf cr_gguf;

/* Opens a source: a file, memory or a callback; "builtin:" is resolved by cr_source_open. host is
 * kept and must outlive the file. */
cera_status cr_gguf_open(const cera_source *source, cr_host *host, cr_gguf **out, cera_error *err);
void cr_gguf_close(cr_gguf *file);

void cr_gguf_get_info(const cr_gguf *file, cera_file_info *out);
/* How the file is quantised, such as "Q4_K_M": by general.file_type, or else by the type that most
 * of the weights have; "unknown" without either. */
const char *cr_gguf_quant_name(const cr_gguf *file);
/* The number of such a name in general.file_type; false when it has none. */
bool cr_gguf_quant_id(const char *name, uint32_t *id);
/* What errors call this file: its path (of the first part), or "<memory>". */
const char *cr_gguf_name(const cr_gguf *file);

size_t cr_gguf_n_tensors(const cr_gguf *file);
const cr_tensor *cr_gguf_tensor(const cr_gguf *file, size_t i);
/* NULL when there is none. */
const cr_tensor *cr_gguf_find_tensor(const cr_gguf *file, const char *name);
/* "Q4_0", or "type 99"; lives as long as the file. */
const char *cr_gguf_type_name(const cr_tensor *tensor);

/* As messages have it: "[4096, 32]". */
typedef struct cr_shape_text {
    char text[96];
} cr_shape_text;
cr_shape_text cr_gguf_show_shape(const uint64_t *shape, int n_dims);

size_t cr_gguf_n_keys(const cr_gguf *file);
cr_str cr_gguf_key(const cr_gguf *file, size_t i, cera_value *out);
/* False when the key is absent. */
bool cr_gguf_find(const cr_gguf *file, const char *key, cera_value *out);
/* Element i of an array value that came from this file, i < array->count. What an array's `as`
 * holds is for this function alone. */
void cr_gguf_element(const cera_value *array, uint64_t i, cera_value *out);

/* Typed reading. Each returns CERA_OK and leaves *out alone when the key is absent and optional;
 * CERA_E_FORMAT naming the key when it is absent and required, or has a value that does not convert
 * without loss (any integer width is accepted; a float for an integer is not). */
typedef enum cr_need { CR_OPTIONAL, CR_REQUIRED } cr_need;
cera_status cr_gguf_get_u32(const cr_gguf *file, const char *key, cr_need need, uint32_t *out,
                            cera_error *err);
cera_status cr_gguf_get_f32(const cr_gguf *file, const char *key, cr_need need, float *out,
                            cera_error *err);
cera_status cr_gguf_get_bool(const cr_gguf *file, const char *key, cr_need need, bool *out,
                             cera_error *err);
cera_status cr_gguf_get_str(const cr_gguf *file, const char *key, cr_need need, cr_str *out,
                            cera_error *err);

/* Has the file, or one of its parts, been changed since it was opened? CERA_E_IO naming it, when it
 * has. */
cera_status cr_gguf_check_unchanged(const cr_gguf *file, cera_error *err);

#endif

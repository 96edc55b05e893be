/* What the parts of the GGUF reader share. Only file/gguf*.c include this.
 *
 *     gguf.c        opens the source, gives access
 *     gguf_parse.c  the two walks over the header
 *     gguf_split.c  models in several files
 *     gguf_index.c  order: lookup by name, duplicates, overlap
 *     gguf_value.c  values: types, elements, conversion */
#ifndef CR_GGUF_INTERNAL_H
#define CR_GGUF_INTERNAL_H

#include "file/gguf.h"
#include "file/view.h"

enum { CR_GGUF_N_VALUE_TYPES = CERA_VALUE_F64 + 1 };

/* A key and where its value is. 32 bytes: a file may have 65,536 of them. */
typedef struct cr_gguf_entry {
    const char *name; /* NUL-terminated copy */
    /* A number or bool: its bytes. A string: its text. An array: its first element; but for an
     * array of strings, whose elements differ in length, a table of `count` pointers to them. */
    const void *value;
    uint64_t count; /* elements of an array, bytes of a string */
    uint32_t name_size;
    uint8_t type, element; /* cera_value_type */
} cr_gguf_entry;

/* An item of an index. Sorting moves these 8 bytes, and mostly compares hashes, not names. */
typedef struct cr_gguf_item {
    uint32_t hash, i;
} cr_gguf_item;

struct cr_gguf {
    cr_host *host;

    cr_view view; /* the bytes of the file */

    /* what the header says; everything below points into `block` or the bytes */
    uint32_t version;
    size_t alignment, data_offset;
    uint64_t n_params;
    size_t n_keys, n_tensors;
    cr_gguf_entry *keys;        /* [n_keys] in file order */
    cr_tensor *tensors;         /* [n_tensors] in file order */
    cr_gguf_item *key_index;    /* [n_keys] by hash, then name */
    cr_gguf_item *tensor_index; /* [n_tensors] by hash, then name */
    void *block;
    size_t block_size;

    /* split.no and split.count; 0 and 1 where the file is a whole model */
    uint32_t part, n_parts;
    /* Of the first part of several: [n_parts], itself included. Then tensors and tensor_index are
     * those of all parts, in `merged`. */
    cr_gguf **parts;
    void *merged;
    size_t merged_size;

    size_t struct_size; /* of this allocation, with the path */
    char path[];        /* or "<memory>" */
};

/* gguf.c: one file, without a look for others. */
cera_status cr_gguf_open_one(const cera_source *source, cr_host *host, cr_gguf **out,
                             cera_error *err);
/* gguf_split.c: opens the other parts beside `part`, which was opened from source, and gives the
 * first part with the tensors of all. Takes `part`, also on failure. */
cera_status cr_gguf_open_parts(cr_gguf *part, const cera_source *source, cr_gguf **out,
                               cera_error *err);

/* gguf_parse.c: reads and checks the whole header of file->bytes. On failure file->block may be
 * set; cr_gguf_close releases it. */
cera_status cr_gguf_parse(cr_gguf *file, cera_error *err);

/* gguf_index.c. `scratch` has room for as many items as there are keys or tensors. */
cera_status cr_gguf_index_keys(cr_gguf *file, cr_gguf_item *scratch, cera_error *err);
cera_status cr_gguf_index_tensors(cr_gguf *file, cr_gguf_item *scratch, cera_error *err);
const cr_gguf_entry *cr_gguf_lookup_key(const cr_gguf *file, cr_str name);
/* Uses the memory of tensor_index, so it comes before cr_gguf_index_tensors. */
cera_status cr_gguf_check_overlap(cr_gguf *file, cr_gguf_item *scratch, cera_error *err);

/* gguf_value.c. Bytes of a value of that type; 0 for strings and arrays. */
size_t cr_gguf_value_size(cera_value_type type);
void cr_gguf_value_of(const cr_gguf_entry *entry, cera_value *out);
/* An unsigned integer of 32 bits out of a value; false when it is not one. */
bool cr_gguf_value_to_u32(const cera_value *value, uint32_t *out);

/* A name for messages: cut, so that even 1,024 control bytes, which become four characters each,
 * leave room for what is wrong. */
typedef struct cr_gguf_shown {
    char text[84];
} cr_gguf_shown;
cr_gguf_shown cr_gguf_show(cr_str name);

/* Little-endian numbers at any address, on any machine. */
static inline uint16_t cr_gguf_load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t cr_gguf_load_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t cr_gguf_load_u64(const uint8_t *p)
{
    return cr_gguf_load_u32(p) | (uint64_t)cr_gguf_load_u32(p + 4) << 32;
}

#endif

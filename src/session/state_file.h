/* Files of state: pages and a recurrent state of a text, in a file that says what they belong to.
 *
 *     header   what it is of, and how much          all numbers little-endian
 *     ids      [n_ids]                              tokens from position 0 on
 *     pages    of each cache group, those in [first, end); the last has the positions up to n_ids
 *              layer by layer, keys [n_head_kv][position][head_dim], then values
 *     state    [state_floats]                       behind the last token; perhaps
 *     logits   [n_vocab]                            for the token behind it; perhaps
 *     digest   of all of that, piece by piece
 *
 * A session is saved as one such file; the disk tier keeps one for each block. Both are read into
 * pages that nobody else sees, and these count for nothing until the digest has been compared. */
#ifndef CR_STATE_FILE_H
#define CR_STATE_FILE_H

#include "base/digest.h"
#include "file/output.h"
#include "session/pages.h"
#include "token/detok.h"

/* What the numbers in a file depend on besides the tokens. */
typedef struct cr_state_id {
    cr_digest weights; /* of tensors, hyper-parameters and adapters, wherever the files lie */
    char backend[8];   /* of cr_backend_api: name, padded with zeros, and numerics */
    uint32_t numerics;
    uint32_t kv_type; /* as GGUF numbers it */
} cr_state_id;

/* The id with adapters, by their digest; CR_DIGEST_EMPTY: without. */
cr_state_id cr_state_id_with(const cr_state_id *id, cr_digest adapters);

/* Pages [first, end) of a cache group. */
typedef struct cr_page_span {
    int first, end;
    cr_page *const *pages; /* [end - first] */
} cr_page_span;

typedef struct cr_state_content {
    const int32_t *ids; /* [n_ids] */
    int n_ids;
    cr_page_span spans[CR_MAX_GROUPS];
    const float *state;  /* or NULL */
    const float *logits; /* [n_vocab], or NULL */
    cr_detok detok;
} cr_state_content;

/* Room for one packed page of any group. */
size_t cr_state_room(const cr_pages *pages);
/* Bytes of the file. */
uint64_t cr_state_size(const cr_pages *pages, const cr_state_content *content);

/* room: cr_state_room bytes. The pages are held and nobody writes the positions in question. */
cera_status cr_state_write(const cr_pages *pages, const cr_state_id *id,
                           const cr_state_content *content, void *room, cr_output *out,
                           cera_error *err);

/* A file that is being read, in its own order. Errors name the file: CERA_E_IO; CERA_E_FORMAT for
 * what is no such file, cut short or damaged; CERA_E_UNSUPPORTED for one of another version, of
 * other weights or of other numerics. */
typedef struct cr_state_reader {
    const cr_pages *pages;
    const char *path;
    void *file;
    uint64_t size, offset;
    cr_digest digest;
    /* From the header, checked: */
    int n_ids;
    int first[CR_MAX_GROUPS], end[CR_MAX_GROUPS];
    bool has_state, has_logits;
    cr_detok detok;
} cr_state_reader;

/* Opens and reads as far as the header. Everything that follows has the size that the header
 * implies, so nobody allocates for what is not there. path is kept. */
cera_status cr_state_open(cr_state_reader *r, const cr_pages *pages, const cr_state_id *id,
                          const char *path, cera_error *err);
cera_status cr_state_read_ids(cr_state_reader *r, int32_t *ids, cera_error *err); /* [n_ids] */
/* Page i of a group; out NULL: it is not wanted. room: cr_state_room bytes. */
cera_status cr_state_read_page(cr_state_reader *r, int group, int i, cr_page *out, void *room,
                               cera_error *err);
cera_status cr_state_read_state(cr_state_reader *r, float *out, cera_error *err);
cera_status cr_state_read_logits(cr_state_reader *r, float *out, cera_error *err);
/* Compares the digest: CERA_OK says that all that was read is what was written. */
cera_status cr_state_read_end(cr_state_reader *r, cera_error *err);
void cr_state_close(cr_state_reader *r);

#endif

/* Public vocabulary functions: a source to a cr_vocab, and buffers to what callers get. */
#include "api/check.h"
#include "api/objects.h"
#include "engine/source.h"

#include <assert.h>

static cera_status read_source(const cera_source *source, const char *pre, cr_host *host,
                               cr_vocab **out, cera_error *err)
{
    cr_gguf *file;
    CR_TRY(cr_source_open(source, host, &file, err));
    cera_status status = cr_vocab_new(file, pre, host, out, err);
    cr_gguf_close(file);
    return status;
}

void cera_vocab_options_init(cera_vocab_options *options)
{
    *options = (cera_vocab_options){ .size = sizeof *options };
}

cera_status cera_vocab_open(const cera_source *source, const cera_vocab_options *options,
                            cera_vocab **out, cera_error *err)
{
    cera_vocab_options defaults;
    cera_vocab_options_init(&defaults);
    if (options == NULL)
        options = &defaults;
    if (out == NULL)
        return cr_fail(err, CERA_E_ARG, "out: expected a place for the vocabulary, found NULL");
    CR_TRY(cr_check_size(options->size, sizeof *options, err));
    cr_host first; /* for the object itself, whose own host does not exist yet */
    CR_TRY(cr_host_set(&first, options->host, err));
    cera_vocab *vocab = cr_alloc_zero(&first, CR_MEM_OBJECT, sizeof *vocab);
    if (vocab == NULL)
        return cr_fail_nomem(err, sizeof *vocab, "the vocabulary");
    vocab->host = &vocab->own_host;
    atomic_init(&vocab->table, NULL);
    cera_status status = cr_host_set(vocab->host, options->host, err);
    if (status == CERA_OK)
        status = read_source(source, options->pre, vocab->host, &vocab->vocab, err);
    if (status != CERA_OK) {
        cr_free(&first, CR_MEM_OBJECT, vocab, sizeof *vocab);
        return status;
    }
    *out = vocab;
    return CERA_OK;
}

void cera_vocab_free(cera_vocab *vocab)
{
    if (vocab == NULL)
        return;
    assert(vocab->host == &vocab->own_host);
    cr_token_table_free(atomic_load(&vocab->table));
    cr_vocab_free(vocab->vocab);
    cera_allocator allocator = vocab->own_host.allocator;
    allocator.release(allocator.ctx, vocab, sizeof *vocab);
}

void cera_encode_options_init(cera_encode_options *options)
{
    *options = (cera_encode_options){ .size = sizeof *options, .add_bos = true };
}

/* The ids to a caller, who gives back n_ids: the memory has just that size. Takes the buffer. */
static cera_status hand_out(cr_buf *buf, int32_t **ids, size_t *n_ids, cera_error *err)
{
    int32_t *exact = NULL;
    if (buf->size == 0) {
        cr_buf_done(buf);
    } else {
        exact = cr_resize(buf->host, CR_MEM_OBJECT, buf->data, buf->room, buf->size);
        if (exact == NULL) {
            cr_buf_done(buf);
            return cr_fail_nomem(err, buf->size, "token ids");
        }
    }
    *ids = exact;
    *n_ids = buf->size / sizeof *exact;
    return CERA_OK;
}

cera_status cera_vocab_encode_rendering(const cera_vocab *vocab, const cera_rendering *rendering,
                                        int32_t **ids, size_t *n_ids, cera_error *err)
{
    if (vocab == NULL || rendering == NULL || ids == NULL || n_ids == NULL)
        return cr_fail(err, CERA_E_ARG,
                       "encode: expected a vocabulary, a rendering, ids and n_ids, found NULL");
    size_t at = 0;
    for (size_t i = 0; i < rendering->n_spans; i++) {
        const cera_span *span = &rendering->spans[i];
        if (span->start != at || span->size > rendering->n - at)
            return cr_fail(err, CERA_E_ARG, "spans[%zu]: expected them in order, without gaps", i);
        at += span->size;
    }
    if (at != rendering->n)
        return cr_fail(err, CERA_E_ARG, "spans: expected %zu bytes, found %zu", rendering->n, at);
    cr_buf buf;
    cr_buf_init(&buf, vocab->host, CR_MEM_OBJECT);
    cr_str text = { rendering->n > 0 ? rendering->text : "", rendering->n };
    cera_status status =
        cr_vocab_encode_spans(vocab->vocab, text, rendering->spans, rendering->n_spans, &buf, err);
    if (status != CERA_OK) {
        cr_buf_done(&buf);
        return status;
    }
    return hand_out(&buf, ids, n_ids, err);
}

cera_status cera_vocab_encode(const cera_vocab *vocab, const char *text, size_t n,
                              const cera_encode_options *options, int32_t **ids, size_t *n_ids,
                              cera_error *err)
{
    if (vocab == NULL || ids == NULL || n_ids == NULL)
        return cr_fail(err, CERA_E_ARG, "encode: expected a vocabulary, ids and n_ids, found NULL");
    if (options != NULL)
        CR_TRY(cr_check_size(options->size, sizeof *options, err));
    if (text == NULL && n > 0)
        return cr_fail(err, CERA_E_ARG, "text: expected %zu bytes, found NULL", n);

    cr_buf buf;
    cr_buf_init(&buf, vocab->host, CR_MEM_OBJECT);
    cr_str str = { n > 0 ? text : "", n };
    cera_status status = cr_vocab_encode(vocab->vocab, str, options, &buf, err);
    if (status != CERA_OK) {
        cr_buf_done(&buf);
        return status;
    }
    return hand_out(&buf, ids, n_ids, err);
}

void cera_vocab_free_ids(const cera_vocab *vocab, int32_t *ids, size_t n_ids)
{
    if (vocab != NULL)
        cr_free(vocab->host, CR_MEM_OBJECT, ids, n_ids * sizeof *ids);
}

const char *cera_vocab_piece(const cera_vocab *vocab, int32_t id, size_t *n)
{
    cr_str piece = { NULL, 0 };
    if (vocab != NULL)
        piece = cr_vocab_piece(vocab->vocab, id);
    if (n != NULL)
        *n = piece.size;
    return piece.data;
}

const char *cera_vocab_piece_after(const cera_vocab *vocab, int32_t previous, int32_t id, size_t *n)
{
    cr_str piece = { NULL, 0 };
    if (vocab != NULL)
        piece = cr_vocab_piece_after(vocab->vocab, previous, id);
    if (n != NULL)
        *n = piece.size;
    return piece.data;
}

void cera_vocab_get_info(const cera_vocab *vocab, cera_vocab_info *out)
{
    if (out == NULL)
        return;
    *out = (cera_vocab_info){ .bos = -1, .eos = -1, .model = "", .pre = "" };
    if (vocab != NULL)
        cr_vocab_get_info(vocab->vocab, out);
}

bool cera_vocab_is_end(const cera_vocab *vocab, int32_t id)
{
    return vocab != NULL && cr_vocab_is_end(vocab->vocab, id);
}

bool cera_vocab_is_control(const cera_vocab *vocab, int32_t id)
{
    return vocab != NULL && cr_vocab_is_control(vocab->vocab, id);
}

/* Any bytes -> ids -> the same bytes, with and without special tokens, with the vocabulary of
 * models/tiny.gguf; and the streaming detokenizer gives UTF-8, however the bytes are cut. */
#include "token/detok.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Opened once; a fuzz target has no place to give it back. */
static cera_vocab *vocab;

static void fail(const char *what)
{
    fprintf(stderr, "fuzz_tokenize: %s\n", what);
    abort();
}

static void open_vocab(void)
{
    const char *path = getenv("CERA_FUZZ_MODEL");
    cera_source source = { .path = path != NULL ? path : CERA_TEST_MODELS "/tiny.gguf" };
    cera_error err;
    if (cera_vocab_open(&source, NULL, &vocab, &err) != CERA_OK)
        fail(err.message);
}

/* Feeds the pieces to a detokenizer; all that comes out is whole characters. */
static void check_detok(const int32_t *ids, size_t n_ids)
{
    cr_host host;
    cr_host_set(&host, NULL, NULL);
    cr_buf out;
    cr_buf_init(&out, &host, CR_MEM_SCRATCH);
    cr_detok detok;
    cr_detok_init(&detok);
    for (size_t i = 0; i < n_ids; i++) {
        cr_str piece;
        piece.data = cera_vocab_piece(vocab, ids[i], &piece.size);
        if (!cr_detok_push(&detok, piece, &out))
            fail("no memory");
    }
    for (size_t at = 0; at < out.size;) {
        uint32_t code;
        size_t length = cr_utf8_decode(out.data + at, out.size - at, &code);
        if (length == 0)
            fail("the detokenizer gave bytes that are not UTF-8");
        at += length;
    }
    cr_buf_done(&out);
}

static void check(const char *text, size_t size, bool parse_special)
{
    cera_encode_options options;
    cera_encode_options_init(&options);
    options.add_bos = false;
    options.parse_special = parse_special;
    int32_t *ids;
    size_t n_ids, at = 0;
    if (cera_vocab_encode(vocab, text, size, &options, &ids, &n_ids, NULL) != CERA_OK)
        fail("encoding failed");
    for (size_t i = 0; i < n_ids; i++) {
        size_t n;
        const char *piece = cera_vocab_piece(vocab, ids[i], &n);
        if (piece == NULL || n > size - at || memcmp(piece, text + at, n) != 0)
            fail("the ids do not spell the text");
        if (!parse_special && cera_vocab_is_control(vocab, ids[i]))
            fail("plain text became a control token");
        at += n;
    }
    if (at != size)
        fail("the ids spell less than the text");
    check_detok(ids, n_ids);
    cera_vocab_free_ids(vocab, ids, n_ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (vocab == NULL)
        open_vocab();
    check((const char *)data, size, false);
    check((const char *)data, size, true);
    return 0;
}

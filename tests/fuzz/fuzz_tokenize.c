/* Any bytes -> ids -> the same bytes, with and without special tokens, with the byte-level
 * vocabulary of models/tiny.gguf and with those of SentencePiece's kinds; and the streaming
 * detokenizer gives UTF-8, however the bytes are cut. */
#include "support/scored_build.h"
#include "token/detok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Opened once; a fuzz target has no place to give them back. */
static cera_vocab *tiny, *scored[2];

static void fail(const char *what)
{
    fprintf(stderr, "fuzz_tokenize: %s\n", what);
    abort();
}

static void add_prefix(gguf_build *b)
{
    build_key_number(b, "tokenizer.ggml.add_space_prefix", 7, 1, 1);
}

static void open_vocabs(void)
{
    const char *path = getenv("CERA_FUZZ_MODEL");
    cera_source source = { .path = path != NULL ? path : CERA_TEST_MODELS "/tiny.gguf" };
    cera_error err;
    if (cera_vocab_open(&source, NULL, &tiny, &err) != CERA_OK)
        fail(err.message);

    static scored_token tokens[SPM_N];
    static char byte_texts[256][8];
    make_spm_tokens(tokens, byte_texts);
    for (int i = 0; i < 2; i++) {
        scored_build v = { .model = i == 0 ? "llama" : "t5", .tokens = tokens, .n_tokens = SPM_N };
        v.add = add_prefix;
        v.n_added = 1;
        gguf_build b;
        build_scored(&b, &v);
        source = (cera_source){ .data = b.data, .n_data = b.size };
        if (cera_vocab_open(&source, NULL, &scored[i], &err) != CERA_OK)
            fail(err.message);
        build_done(&b);
    }
}

/* Feeds the pieces to a detokenizer; all that comes out is whole characters. */
static void check_detok(const cera_vocab *vocab, const int32_t *ids, size_t n_ids)
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

static void check(const cera_vocab *vocab, const char *text, size_t size, bool parse_special)
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
        const char *piece = cera_vocab_piece_after(vocab, i > 0 ? ids[i - 1] : -1, ids[i], &n);
        if (piece == NULL || n > size - at || memcmp(piece, text + at, n) != 0)
            fail("the ids do not spell the text");
        if (!parse_special && cera_vocab_is_control(vocab, ids[i]))
            fail("plain text became a control token");
        at += n;
    }
    if (at != size)
        fail("the ids spell less than the text");
    check_detok(vocab, ids, n_ids);
    cera_vocab_free_ids(vocab, ids, n_ids);
}

/* What SentencePiece cannot tell apart: its mark for a blank, and a blank; the unknown token, and
 * something unknown. */
static size_t simplify(const uint8_t *data, size_t size, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        bool mark = size - i >= 3 && memcmp(data + i, SPM_BLANK, 3) == 0;
        bool unknown = size - i >= 5 && memcmp(data + i, "<unk>", 5) == 0;
        out[n++] = mark || unknown ? ' ' : (char)data[i];
        i += mark ? 2 : unknown ? 4 : 0;
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (tiny == NULL)
        open_vocabs();
    char *text = malloc(size + 1);
    if (text == NULL)
        fail("no memory");
    for (int special = 0; special < 2; special++)
        check(tiny, (const char *)data, size, special);
    size_t n = simplify(data, size, text);
    /* Once more: what was taken out may have joined the rest. */
    while (simplify((const uint8_t *)text, n, text) != n)
        n = simplify((const uint8_t *)text, n, text);
    for (int special = 0; special < 2; special++) {
        check(scored[0], text, n, special);
        check(scored[1], text, n, special);
    }
    free(text);
    return 0;
}

/* Text to ids.
 *
 *     "<|im_start|>user\nHi \xff" --> [<|im_start|>] "user\nHi " [bytes FF]
 *                                            pieces: user | \n | Hi | " "
 *
 * Special tokens are cut out first. What is between is cut at bytes that are not UTF-8, since the
 * patterns know characters only; a run of such bytes is a piece of its own, so that its bytes come
 * back when the ids are decoded. Every other piece comes from the pre-tokenizer. */
#include "token/vocab_internal.h"

/* One call of cr_vocab_encode. */
typedef struct encoding {
    const cr_vocab *vocab;
    cr_buf *ids;
    cr_buf work;
    cr_split_walk walk;
} encoding;

static cera_status push_id(encoding *enc, int32_t id, cera_error *err)
{
    if (!cr_buf_append(enc->ids, &id, sizeof id))
        return cr_fail_nomem(err, sizeof id, "token ids");
    return CERA_OK;
}

static cera_status encode_piece(encoding *enc, cr_str piece, cera_error *err)
{
    const cr_vocab *vocab = enc->vocab;
    if (vocab->rule->ignore_merges) {
        int32_t id = cr_vocab_find(vocab, piece, false);
        if (id >= 0)
            return push_id(enc, id, err);
    }
    return cr_merges_encode(&vocab->merges, piece, &enc->work, enc->ids, err);
}

/* How many bytes at the start of text are UTF-8. */
static size_t valid_length(cr_str text)
{
    size_t i = 0;
    while (i < text.size) {
        /* Eight ASCII bytes at a time. */
        uint64_t word;
        if (text.size - i >= sizeof word) {
            memcpy(&word, text.data + i, sizeof word);
            if ((word & 0x8080808080808080u) == 0) {
                i += sizeof word;
                continue;
            }
        }
        uint32_t code;
        size_t length = cr_utf8_decode(text.data + i, text.size - i, &code);
        if (length == 0)
            break;
        i += length;
    }
    return i;
}

static size_t invalid_length(cr_str text)
{
    uint32_t code;
    size_t i = 0;
    while (i < text.size && cr_utf8_decode(text.data + i, text.size - i, &code) == 0)
        i++;
    return i;
}

/* Text without special tokens. */
static cera_status encode_plain(encoding *enc, cr_str text, cera_error *err)
{
    while (text.size > 0) {
        size_t n = valid_length(text);
        cr_split_set_text(&enc->walk, (cr_str){ text.data, n });
        for (;;) {
            cr_str piece;
            CR_TRY(cr_split_next(&enc->walk, &piece, err));
            if (piece.size == 0)
                break;
            CR_TRY(encode_piece(enc, piece, err));
        }
        text = (cr_str){ text.data + n, text.size - n };

        n = invalid_length(text);
        if (n > 0)
            CR_TRY(encode_piece(enc, (cr_str){ text.data, n }, err));
        text = (cr_str){ text.data + n, text.size - n };
    }
    return CERA_OK;
}

static cera_status encode_text(encoding *enc, cr_str text, bool parse_special, cera_error *err)
{
    const cr_specials *specials = parse_special ? &enc->vocab->all : &enc->vocab->user;
    size_t at = 0, found;
    const cr_special *item;
    while (cr_specials_find(specials, text, at, &found, &item)) {
        CR_TRY(encode_plain(enc, (cr_str){ text.data + at, found - at }, err));
        CR_TRY(push_id(enc, item->id, err));
        at = found + item->text.size;
    }
    return encode_plain(enc, (cr_str){ text.data + at, text.size - at }, err);
}

/* Puts BOS before ids[start, ...) and EOS after them, where asked for and not there. A text may
 * bring its own, as rendered chat templates do, and a second one would shift every position. */
static cera_status add_marks(encoding *enc, size_t start, const cera_encode_options *options,
                             cera_error *err)
{
    const cr_vocab *vocab = enc->vocab;
    cr_buf *ids = enc->ids;
    const size_t size = sizeof(int32_t);
    int32_t first = -1, last = -1;
    if (ids->size > start) {
        memcpy(&first, ids->data + start, size);
        memcpy(&last, ids->data + ids->size - size, size);
    }
    if (options->add_bos && vocab->add_bos && first != vocab->bos) {
        CR_TRY(push_id(enc, vocab->bos, err));
        memmove(ids->data + start + size, ids->data + start, ids->size - size - start);
        memcpy(ids->data + start, &vocab->bos, size);
    }
    if (options->add_eos && vocab->add_eos && last != vocab->eos)
        CR_TRY(push_id(enc, vocab->eos, err));
    return CERA_OK;
}

cera_status cr_vocab_encode(const cr_vocab *vocab, cr_str text, const cera_encode_options *options,
                            cr_buf *ids, cera_error *err)
{
    const cera_encode_options defaults = { .size = sizeof defaults, .add_bos = true };
    if (options == NULL)
        options = &defaults;
    if (text.size > INT32_MAX)
        return cr_fail(err, CERA_E_LIMIT, "text: expected at most %d bytes, found %zu", INT32_MAX,
                       text.size);

    const size_t start = ids->size;
    encoding enc = { .vocab = vocab, .ids = ids };
    cr_buf_init(&enc.work, vocab->host, CR_MEM_SCRATCH);
    cera_status status = cr_split_begin(&enc.walk, vocab->split, err);
    if (status == CERA_OK)
        status = encode_text(&enc, text, options->parse_special, err);
    if (status == CERA_OK)
        status = add_marks(&enc, start, options, err);
    if (status != CERA_OK)
        ids->size = start;
    cr_split_end(&enc.walk);
    cr_buf_done(&enc.work);
    return status;
}

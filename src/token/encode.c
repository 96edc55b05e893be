/* Text to ids.
 *
 *     "<|im_start|>user\nHi" --> [<|im_start|>] "user\nHi"
 *
 * Special tokens are cut out here; what is between them goes to the vocabulary's kind. */
#include "token/merge.h"
#include "token/vocab_internal.h"

cera_status cr_encoding_push(cr_encoding *enc, int32_t id, cera_error *err)
{
    if (!cr_buf_append(enc->ids, &id, sizeof id))
        return cr_fail_nomem(err, sizeof id, "token ids");
    return CERA_OK;
}

/* As SentencePiece does, one unknown token for all that is unknown between two tokens. */
static cera_status push_unknown(cr_encoding *enc, cera_error *err)
{
    int32_t last = -1, unknown = enc->vocab->unknown;
    if (enc->ids->size > enc->start)
        memcpy(&last, enc->ids->data + enc->ids->size - sizeof last, sizeof last);
    return last != unknown ? cr_encoding_push(enc, unknown, err) : CERA_OK;
}

cera_status cr_encoding_spell(cr_encoding *enc, cr_str bytes, cera_error *err)
{
    const cr_vocab *vocab = enc->vocab;
    /* Many byte-level files name a control token as the unknown one; no text may turn into that. */
    bool has_unknown =
        vocab->unknown >= 0 && cr_vocab_type(vocab, (size_t)vocab->unknown) != CR_TOKEN_CONTROL;
    for (size_t i = 0; i < bytes.size; i++) {
        unsigned byte = (unsigned char)bytes.data[i];
        if (vocab->byte_ids[byte] >= 0)
            continue;
        if (has_unknown)
            return push_unknown(enc, err);
        return cr_fail(err, CERA_E_UNSUPPORTED, "text: the vocabulary has no token for byte 0x%02X",
                       byte);
    }
    for (size_t i = 0; i < bytes.size; i++)
        CR_TRY(cr_encoding_push(enc, vocab->byte_ids[(unsigned char)bytes.data[i]], err));
    return CERA_OK;
}

cera_status cr_encoding_push_merged(void *out, uint32_t id, cr_str bytes, cera_error *err)
{
    if (id == CR_NO_TOKEN)
        return cr_encoding_spell(out, bytes, err);
    return cr_encoding_push(out, (int32_t)id, err);
}

size_t cr_utf8_run(cr_str text)
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

size_t cr_not_utf8_run(cr_str text)
{
    uint32_t code;
    size_t i = 0;
    while (i < text.size && cr_utf8_decode(text.data + i, text.size - i, &code) == 0)
        i++;
    return i;
}

static cera_status encode_plain(cr_encoding *enc, cr_str text, cera_error *err)
{
    return text.size > 0 ? enc->vocab->model->encode(enc, text, err) : CERA_OK;
}

static cera_status encode_text(cr_encoding *enc, cr_str text, bool parse_special, cera_error *err)
{
    const cr_specials *specials = parse_special ? &enc->vocab->all : &enc->vocab->user;
    size_t at = 0, found;
    const cr_special *item;
    while (cr_specials_find(specials, text, at, &found, &item)) {
        cr_str before = { text.data + at, found - at };
        if ((item->strip & CR_STRIP_LEFT) != 0)
            before.size -= cr_white_end(before);
        CR_TRY(encode_plain(enc, before, err));
        CR_TRY(cr_encoding_push(enc, item->id, err));
        at = found + item->text.size;
        if ((item->strip & CR_STRIP_RIGHT) != 0)
            at += cr_white_begin((cr_str){ text.data + at, text.size - at });
    }
    return encode_plain(enc, (cr_str){ text.data + at, text.size - at }, err);
}

/* The next special token that the text may have at or after byte `at`: one that any text may spell,
 * or one that lies inside of a literal span. */
typedef struct span_walk {
    const cr_vocab *vocab;
    cr_str text;
    const cera_span *spans; /* [n_spans] */
    size_t n_spans;
    size_t span; /* no literal span before it has more of them */
    size_t literal_at, user_at;
    const cr_special *literal, *user;
    bool literal_known, user_known;
} span_walk;

static bool next_special(span_walk *w, size_t at, size_t *found, const cr_special **item)
{
    if (w->user_known && w->user_at < at)
        w->user_known = false;
    if (!w->user_known) {
        w->user_known = true;
        if (!cr_specials_find(&w->vocab->user, w->text, at, &w->user_at, &w->user))
            w->user_at = SIZE_MAX;
    }
    if (w->literal_known && w->literal_at < at)
        w->literal_known = false;
    for (; !w->literal_known && w->span < w->n_spans; w->span++) {
        const cera_span *span = &w->spans[w->span];
        cr_str part = { w->text.data, span->start + span->size };
        size_t from = CR_MAX(at, span->start);
        if (span->is_literal && from < part.size &&
            cr_specials_find(&w->vocab->all, part, from, &w->literal_at, &w->literal)) {
            w->literal_known = true;
            break;
        }
    }
    if (!w->literal_known) {
        w->literal_known = true;
        w->literal_at = SIZE_MAX;
    }
    if (w->literal_at == SIZE_MAX && w->user_at == SIZE_MAX)
        return false;
    bool literal = w->literal_at < w->user_at ||
                   (w->literal_at == w->user_at && w->literal->text.size >= w->user->text.size);
    *found = literal ? w->literal_at : w->user_at;
    *item = literal ? w->literal : w->user;
    return true;
}

static cera_status encode_spans(cr_encoding *enc, cr_str text, const cera_span *spans,
                                size_t n_spans, cera_error *err)
{
    span_walk walk = { .vocab = enc->vocab, .text = text, .spans = spans, .n_spans = n_spans };
    size_t at = 0, found;
    const cr_special *item;
    while (next_special(&walk, at, &found, &item)) {
        CR_TRY(encode_plain(enc, (cr_str){ text.data + at, found - at }, err));
        CR_TRY(cr_encoding_push(enc, item->id, err));
        at = found + item->text.size;
    }
    return encode_plain(enc, (cr_str){ text.data + at, text.size - at }, err);
}

/* Puts BOS before ids[start, ...) and EOS after them, where asked for and not there. A text may
 * bring its own, as rendered chat templates do, and a second one would shift every position. */
static cera_status add_marks(cr_encoding *enc, size_t start, const cera_encode_options *options,
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
        CR_TRY(cr_encoding_push(enc, vocab->bos, err));
        memmove(ids->data + start + size, ids->data + start, ids->size - size - start);
        memcpy(ids->data + start, &vocab->bos, size);
    }
    if (options->add_eos && vocab->add_eos && last != vocab->eos)
        CR_TRY(cr_encoding_push(enc, vocab->eos, err));
    return CERA_OK;
}

/* spans NULL: the options say what may be a control token. */
static cera_status encode_any(const cr_vocab *vocab, cr_str text,
                              const cera_encode_options *options, const cera_span *spans,
                              size_t n_spans, cr_buf *ids, cera_error *err)
{
    if (text.size > INT32_MAX)
        return cr_fail(err, CERA_E_LIMIT, "text: expected at most %d bytes, found %zu", INT32_MAX,
                       text.size);

    const size_t start = ids->size;
    cr_encoding enc = { .vocab = vocab, .ids = ids, .start = start };
    cr_buf_init(&enc.work, vocab->host, CR_MEM_SCRATCH);
    cr_buf_init(&enc.text, vocab->host, CR_MEM_SCRATCH);
    cera_status status = CERA_OK;
    if (vocab->split != NULL)
        status = cr_split_begin(&enc.walk, vocab->split, err);
    if (status == CERA_OK)
        status = spans != NULL ? encode_spans(&enc, text, spans, n_spans, err)
                               : encode_text(&enc, text, options->parse_special, err);
    if (status == CERA_OK)
        status = add_marks(&enc, start, options, err);
    if (status != CERA_OK)
        ids->size = start;
    cr_split_end(&enc.walk);
    cr_buf_done(&enc.text);
    cr_buf_done(&enc.work);
    return status;
}

cera_status cr_vocab_encode(const cr_vocab *vocab, cr_str text, const cera_encode_options *options,
                            cr_buf *ids, cera_error *err)
{
    const cera_encode_options defaults = { .size = sizeof defaults, .add_bos = true };
    return encode_any(vocab, text, options != NULL ? options : &defaults, NULL, 0, ids, err);
}

cera_status cr_vocab_encode_spans(const cr_vocab *vocab, cr_str text, const cera_span *spans,
                                  size_t n_spans, cr_buf *ids, cera_error *err)
{
    const cera_encode_options options = { .size = sizeof options, .add_bos = true };
    const cera_span none = { 0 };
    return encode_any(vocab, text, &options, n_spans > 0 ? spans : &none, n_spans, ids, err);
}

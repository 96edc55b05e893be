/* WordPiece vocabularies: kind bert.
 *
 *     "Caf\u00e9s!" --normalise--> " cafes" | " !" --longest token first--> [ cafe][s][ !]
 *
 * Text is cleaned of control characters, stripped of accents and put in lower case, cut at white
 * space and around punctuation and Chinese characters; so ids do not give the text back. A word
 * that tokens cannot spell from left to right, the longest first, is the unknown token as a whole.
 *
 * Unicode's tables come from utf8proc. */
#include "token/vocab_internal.h"

#include <utf8proc.h>

/* Longer words are unknown, as they are to the tokenizers that made the vocabularies. */
enum { LONGEST_WORD = 100 }; /* characters */

static cera_status setup(cr_vocab *vocab, const cr_gguf *file, const char *pre, cera_error *err)
{
    (void)pre;
    vocab->alphabet = CR_ALPHABET_BLANKS;
    vocab->unknown = 100;
    vocab->bos = 101;
    vocab->eos = 102;
    vocab->add_bos = vocab->add_eos = true;
    vocab->blank_prefix = true; /* every word has one */
    vocab->lowercase = true;
    CR_TRY(cr_gguf_get_bool(file, CR_VOCAB_KEY("normalizer.lowercase"), CR_OPTIONAL,
                            &vocab->lowercase, err));
    vocab->strip_accents = vocab->lowercase;
    return cr_gguf_get_bool(file, CR_VOCAB_KEY("normalizer.strip_accents"), CR_OPTIONAL,
                            &vocab->strip_accents, err);
}

static cera_status read_wordpiece(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    (void)file;
    for (size_t i = 0; i < vocab->n_tokens; i++)
        if ((vocab->flags[i] & CR_TOKEN_RAW) == 0)
            vocab->longest = CR_MAX(vocab->longest, cr_vocab_bytes(vocab, i).size);
    if (vocab->unknown < 0)
        return cr_fail(err, CERA_E_FORMAT, CR_VOCAB_KEY("unknown_token_id") ": the key is missing");
    return CERA_OK;
}

/* ---- characters ---------------------------------------------------------------------------- */

static bool is_chinese(int32_t code)
{
    static const struct {
        int32_t first, last;
    } ranges[] = {
        { 0x3400, 0x4dbf },   { 0x4e00, 0x9fff },   { 0xf900, 0xfaff },   { 0x20000, 0x2a6df },
        { 0x2a700, 0x2b81f }, { 0x2b920, 0x2ceaf }, { 0x2f800, 0x2fa1f },
    };
    for (size_t i = 0; i < CR_COUNT(ranges); i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

/* ASCII symbols count as punctuation. */
static bool is_punctuation(int32_t code)
{
    if (code < 0x80)
        return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') ||
               (code >= '[' && code <= '`') || (code >= '{' && code <= '~');
    utf8proc_category_t category = utf8proc_category(code);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

static bool is_white(int32_t code)
{
    utf8proc_category_t category = utf8proc_category(code);
    return code == '\t' || code == '\n' || code == '\r' ||
           (category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP);
}

static bool is_dropped(int32_t code)
{
    utf8proc_category_t category = utf8proc_category(code);
    return code == 0xfffd || (category >= UTF8PROC_CATEGORY_CC && category <= UTF8PROC_CATEGORY_CO);
}

/* ---- words --------------------------------------------------------------------------------- */

static cera_status push_word(cr_encoding *enc, cera_error *err)
{
    const cr_vocab *vocab = enc->vocab;
    cr_str word = { enc->text.data, enc->text.size };
    size_t start = enc->ids->size, n_characters = 0;
    for (size_t i = 1; i < word.size; i++)
        n_characters += ((unsigned char)word.data[i] & 0xc0) != 0x80;
    for (size_t at = 0; at < word.size;) {
        int32_t id = -1;
        size_t n = n_characters > LONGEST_WORD ? 0 : CR_MIN(word.size - at, vocab->longest);
        for (; n > 0 && id < 0; n -= id < 0)
            id = cr_vocab_find(vocab, (cr_str){ word.data + at, n }, false);
        if (id < 0) {
            enc->ids->size = start;
            return cr_encoding_push(enc, vocab->unknown, err);
        }
        CR_TRY(cr_encoding_push(enc, id, err));
        at += n;
    }
    return CERA_OK;
}

/* Ends the word in enc->text, if it has any characters, and begins the next with its blank. */
static cera_status end_word(cr_encoding *enc, cera_error *err)
{
    if (enc->text.size > 1)
        CR_TRY(push_word(enc, err));
    enc->text.size = 0;
    return cr_buf_append(&enc->text, " ", 1) ? CERA_OK : cr_fail_nomem(err, 1, "encoding text");
}

static cera_status add_to_word(cr_encoding *enc, int32_t code, cera_error *err)
{
    char bytes[4];
    size_t n = cr_utf8_encode((uint32_t)code, bytes);
    return cr_buf_append(&enc->text, bytes, n) ? CERA_OK : cr_fail_nomem(err, n, "encoding text");
}

/* A character that has been cleaned and decomposed. */
static cera_status add_part(cr_encoding *enc, int32_t code, cera_error *err)
{
    const cr_vocab *vocab = enc->vocab;
    if (vocab->strip_accents && utf8proc_category(code) == UTF8PROC_CATEGORY_MN)
        return CERA_OK;
    bool alone = is_chinese(code) || is_punctuation(code);
    if (alone)
        CR_TRY(end_word(enc, err));
    /* The one character whose lower case is two: i with a dot above. */
    bool is_dotted = vocab->lowercase && code == 0x130;
    if (vocab->lowercase)
        code = is_dotted ? 'i' : utf8proc_tolower(code);
    CR_TRY(add_to_word(enc, code, err));
    if (is_dotted)
        CR_TRY(add_to_word(enc, 0x307, err));
    return alone ? end_word(enc, err) : CERA_OK;
}

static cera_status add_character(cr_encoding *enc, int32_t code, cera_error *err)
{
    if (is_white(code))
        return end_word(enc, err);
    if (is_dropped(code))
        return CERA_OK;
    int32_t parts[8] = { code };
    int boundary = 0;
    utf8proc_ssize_t n = 1;
    if (enc->vocab->strip_accents)
        n = utf8proc_decompose_char(code, parts, CR_COUNT(parts), UTF8PROC_DECOMPOSE, &boundary);
    for (utf8proc_ssize_t i = 0; i < n && i < (utf8proc_ssize_t)CR_COUNT(parts); i++)
        CR_TRY(add_part(enc, parts[i], err));
    return CERA_OK;
}

static cera_status encode(cr_encoding *enc, cr_str text, cera_error *err)
{
    enc->text.size = 0;
    CR_TRY(end_word(enc, err));
    for (size_t i = 0; i < text.size;) {
        uint32_t code;
        size_t n = cr_utf8_decode(text.data + i, text.size - i, &code);
        if (n > 0)
            CR_TRY(add_character(enc, (int32_t)code, err));
        i +=
            CR_MAX(n, (size_t)1); /* bytes that are not UTF-8 are dropped like control characters */
    }
    return end_word(enc, err);
}

const cr_token_model cr_model_bert = {
    .name = "bert",
    .bos_key = CR_VOCAB_KEY("cls_token_id"),
    .eos_key = CR_VOCAB_KEY("seperator_token_id"), /* spelled so in GGUF */
    .setup = setup,
    .read = read_wordpiece,
    .encode = encode,
};

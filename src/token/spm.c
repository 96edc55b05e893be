/* SentencePiece's merging vocabularies: kind llama.
 *
 *     "Hi you" --blank prefix--> " Hi you" --> " Hi" | " you" --joins by score--> ids
 *
 * There is no list of merges. Two neighbours join when what they spell together is a token, the
 * token of the best score first. What ends as no token becomes byte tokens.
 *
 * Tokens spell a blank as U+2581, and so does this kind of text: a U+2581 that stands in it cannot
 * be told from a blank and comes back as one. */
#include "token/merge.h"
#include "token/vocab_internal.h"

#include <math.h>

/* ---- reading ------------------------------------------------------------------------------- */

static cera_status setup(cr_vocab *vocab, const cr_gguf *file, const char *pre, cera_error *err)
{
    (void)pre;
    vocab->alphabet = CR_ALPHABET_BLANKS;
    vocab->unknown = 0;
    vocab->bos = 1;
    vocab->eos = 2;
    vocab->add_bos = true;
    vocab->blank_prefix = true;
    return cr_gguf_get_bool(file, CR_VOCAB_KEY("add_space_prefix"), CR_OPTIONAL,
                            &vocab->blank_prefix, err);
}

/* A number that is lower for a better score; equal scores have equal numbers. The bits of floats of
 * one sign are ordered as the floats are. */
static uint32_t rank_of(float score)
{
    score += 0.0f; /* -0 to +0 */
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    /* The best rank is that of +infinity, 0x007fffff; none is CR_NEVER_JOIN, that of a NaN. */
    return bits >> 31 != 0 ? bits : 0x7fffffffu - bits;
}

static cera_status read_ranks(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    cera_value scores;
    bool found;
    CR_TRY(cr_vocab_array(file, CR_VOCAB_KEY("scores"), CR_ARRAY_F32, &scores, &found, err));
    vocab->ranks = cr_arena_array(&vocab->arena, vocab->n_tokens, sizeof *vocab->ranks);
    if (vocab->ranks == NULL)
        return cr_fail_nomem(err, vocab->n_tokens * sizeof *vocab->ranks, "the vocabulary");
    for (size_t i = 0; i < vocab->n_tokens; i++) {
        cera_value score = { .as.f = 0 };
        if (found)
            cr_gguf_element(&scores, i, &score);
        if (isnan(score.as.f))
            return cr_fail(err, CERA_E_FORMAT,
                           CR_VOCAB_KEY("scores") "[%zu]: expected a number, found NaN", i);
        vocab->ranks[i] = rank_of((float)score.as.f);
    }
    return CERA_OK;
}

static bool has_inner_blank(cr_str bytes)
{
    for (size_t i = 1; i < bytes.size; i++)
        if (bytes.data[i] == ' ' && bytes.data[i - 1] != ' ')
            return true;
    return false;
}

void cr_vocab_read_words(cr_vocab *vocab)
{
    vocab->cuts_words = true;
    for (size_t i = 0; i < vocab->n_tokens; i++) {
        if ((vocab->flags[i] & CR_TOKEN_RAW) != 0)
            continue;
        cr_str bytes = cr_vocab_bytes(vocab, i);
        vocab->longest = CR_MAX(vocab->longest, bytes.size);
        vocab->cuts_words = vocab->cuts_words && !has_inner_blank(bytes);
    }
}

static cera_status read_spm(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    cr_vocab_read_words(vocab);
    return read_ranks(vocab, file, err);
}

/* ---- encoding ------------------------------------------------------------------------------ */

static size_t unit(const void *ctx, cr_str rest, uint32_t *id)
{
    uint32_t code;
    size_t n = CR_MAX(cr_utf8_decode(rest.data, rest.size, &code), (size_t)1);
    int32_t found = cr_vocab_find(ctx, (cr_str){ rest.data, n }, false);
    *id = found >= 0 ? (uint32_t)found : CR_NO_TOKEN;
    return n;
}

static cr_join join(const void *ctx, cr_str piece, const cr_pair *pair)
{
    const cr_vocab *vocab = ctx;
    cr_str both = { piece.data + pair->begin, pair->end - pair->begin };
    int32_t id = both.size <= vocab->longest ? cr_vocab_find(vocab, both, false) : -1;
    if (id < 0)
        return (cr_join){ CR_NEVER_JOIN, CR_NO_TOKEN };
    return (cr_join){ vocab->ranks[id], (uint32_t)id };
}

size_t cr_word_size(cr_str text)
{
    size_t i = 0;
    while (i < text.size && text.data[i] == ' ')
        i++;
    const char *end = i < text.size ? memchr(text.data + i, ' ', text.size - i) : NULL;
    return end != NULL ? (size_t)(end - text.data) : text.size;
}

/* Copies text to enc->text, with the blank before it and U+2581 as the blank that it stands for. */
static cera_status set_text(cr_encoding *enc, cr_str text, cera_error *err)
{
    cr_buf *out = &enc->text;
    out->size = 0;
    if (!cr_buf_reserve(out, text.size + 1))
        return cr_fail_nomem(err, text.size + 1, "encoding text");
    char *to = out->data;
    if (enc->vocab->blank_prefix)
        *to++ = ' ';
    for (size_t i = 0; i < text.size; i++) {
        bool mark = text.size - i >= 3 && memcmp(text.data + i, "\xe2\x96\x81", 3) == 0;
        *to++ = mark ? ' ' : text.data[i];
        i += mark ? 2 : 0;
    }
    out->size = (size_t)(to - out->data);
    return CERA_OK;
}

static cera_status encode(cr_encoding *enc, cr_str text, cera_error *err)
{
    const cr_vocab *vocab = enc->vocab;
    const cr_merge_rules rules = {
        .ctx = vocab,
        .unit = unit,
        .join = join,
        .out = enc,
        .push = cr_encoding_push_merged,
    };
    CR_TRY(set_text(enc, text, err));
    /* Nothing joins across the end of a word, so words can be encoded one by one: small things stay
     * in the cache. */
    cr_str rest = { enc->text.data, enc->text.size };
    while (rest.size > 0) {
        size_t n = vocab->cuts_words ? cr_word_size(rest) : rest.size;
        CR_TRY(cr_merge(&rules, (cr_str){ rest.data, n }, &enc->work, err));
        rest = (cr_str){ rest.data + n, rest.size - n };
    }
    return CERA_OK;
}

const cr_token_model cr_model_llama = {
    .name = "llama",
    .setup = setup,
    .read = read_spm,
    .encode = encode,
};

/* SentencePiece's unigram vocabularies: kind t5.
 *
 *     "\uff28i  you" --normalise--> " Hi you" --the most likely cut--> [ Hi][ you]
 *
 * A token's score is the logarithm of its probability, and of all ways to cut a text into tokens
 * the one with the largest sum is taken (Viterbi's algorithm):
 *
 *     best(0) = 0        best(j) = max over tokens t = text[i, j) of best(i) + score(t)
 *
 * A character that is no token is unknown, at ten less than the worst token. Of equal sums the one
 * that was found first stays, from left to right, shorter tokens first; sums are floats, over the
 * whole text. Both follow sentencepiece, where longer texts round off differences that a sum per
 * word, or in double, would see: `tokenizers` has those, and other answers where cuts tie.
 *
 * The normaliser maps characters and puts or drops blanks. It is not undone: ids give the
 * normalised text back. Bytes that are not UTF-8 stay, as byte tokens where the vocabulary has
 * them. */
#include "token/vocab_internal.h"

#include <float.h>
#include <math.h>

static const float unknown_penalty = 10.0f;

/* ---- reading ------------------------------------------------------------------------------- */

static cera_status setup(cr_vocab *vocab, const cr_gguf *file, const char *pre, cera_error *err)
{
    (void)pre;
    vocab->alphabet = CR_ALPHABET_BLANKS;
    vocab->eos = 1;
    vocab->unknown = 2;
    vocab->add_eos = true;
    CR_TRY(cr_gguf_get_bool(file, CR_VOCAB_KEY("add_space_prefix"), CR_OPTIONAL,
                            &vocab->blank_prefix, err));
    CR_TRY(cr_gguf_get_bool(file, CR_VOCAB_KEY("remove_extra_whitespaces"), CR_OPTIONAL,
                            &vocab->joins_blanks, err));
    return cr_charsmap_read(&vocab->charsmap, file, &vocab->arena, err);
}

/* Of equal texts the first stays; what is unused, or special, text is not cut into. */
static bool is_piece(const cr_vocab *vocab, size_t id)
{
    return cr_vocab_type(vocab, id) == CR_TOKEN_NORMAL && (vocab->flags[id] & CR_TOKEN_RAW) == 0 &&
           cr_vocab_bytes(vocab, id).size > 0;
}

static cera_status read_scores(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    cera_value scores;
    bool found;
    CR_TRY(cr_vocab_array(file, CR_VOCAB_KEY("scores"), CR_ARRAY_F32, &scores, &found, err));
    if (!found)
        return cr_fail(err, CERA_E_FORMAT, CR_VOCAB_KEY("scores") ": the key is missing");
    vocab->scores = cr_arena_array(&vocab->arena, vocab->n_tokens, sizeof *vocab->scores);
    if (vocab->scores == NULL)
        return cr_fail_nomem(err, vocab->n_tokens * sizeof *vocab->scores, "the vocabulary");
    float worst = FLT_MAX;
    for (size_t i = 0; i < vocab->n_tokens; i++) {
        cera_value score;
        cr_gguf_element(&scores, i, &score);
        if (!isfinite(score.as.f))
            return cr_fail(err, CERA_E_FORMAT,
                           CR_VOCAB_KEY("scores") "[%zu]: expected a finite number", i);
        vocab->scores[i] = (float)score.as.f;
        if (is_piece(vocab, i))
            worst = CR_MIN(worst, vocab->scores[i]);
    }
    vocab->unknown_score = worst - unknown_penalty;
    return CERA_OK;
}

static cera_status read_unigram(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    CR_TRY(read_scores(vocab, file, err));
    cr_vocab_read_words(vocab);
    size_t n = 0;
    for (size_t i = 0; i < vocab->n_tokens; i++)
        n += is_piece(vocab, i);
    cr_special *items = cr_arena_array(&vocab->arena, n, sizeof *items);
    if (items == NULL)
        return cr_fail_nomem(err, n * sizeof *items, "the vocabulary");
    n = 0;
    for (size_t i = 0; i < vocab->n_tokens; i++)
        if (is_piece(vocab, i))
            items[n++] = (cr_special){ .text = cr_vocab_bytes(vocab, i), .id = (int32_t)i };
    if (!cr_specials_init(&vocab->pieces, items, n, &vocab->arena))
        return cr_fail_nomem(err, n * sizeof *items, "the vocabulary");
    return CERA_OK;
}

/* ---- normalising --------------------------------------------------------------------------- */

/* What the text begins with, and what that becomes. */
static cera_status map_next(const cr_vocab *vocab, cr_str text, size_t *size, cr_str *to,
                            cera_error *err)
{
    CR_TRY(cr_charsmap_find(&vocab->charsmap, text, size, to, err));
    if (*size > 0)
        return CERA_OK;
    uint32_t code;
    *size = CR_MAX(cr_utf8_decode(text.data, text.size, &code), (size_t)1);
    *to = (cr_str){ text.data, *size };
    return CERA_OK;
}

/* Appends text, with U+2581 as the blank that it stands for in tokens. */
static bool append_text(cr_buf *out, cr_str text)
{
    if (!cr_buf_reserve(out, text.size))
        return false;
    for (size_t i = 0; i < text.size; i++) {
        bool mark = text.size - i >= 3 && memcmp(text.data + i, "\xe2\x96\x81", 3) == 0;
        out->data[out->size++] = mark ? ' ' : text.data[i];
        i += mark ? 2 : 0;
    }
    return true;
}

/* Text to enc->text. Where blanks are joined, one stays of several between words and none at the
 * ends. */
static cera_status normalise(cr_encoding *enc, cr_str text, cera_error *err)
{
    const cr_vocab *vocab = enc->vocab;
    cr_buf *out = &enc->text;
    out->size = 0;
    bool begun = false, drops = vocab->joins_blanks;
    while (text.size > 0) {
        size_t n;
        cr_str to;
        CR_TRY(map_next(vocab, text, &n, &to, err));
        text = (cr_str){ text.data + n, text.size - n };
        while (drops && to.size > 0 && to.data[0] == ' ')
            to = (cr_str){ to.data + 1, to.size - 1 };
        if ((to.size > 0 || !vocab->joins_blanks) && !begun) {
            begun = true;
            if (vocab->blank_prefix && !cr_buf_append(out, " ", 1))
                return cr_fail_nomem(err, 1, "encoding text");
        }
        if (to.size == 0)
            continue;
        if (!append_text(out, to))
            return cr_fail_nomem(err, to.size, "encoding text");
        drops = vocab->joins_blanks && to.data[to.size - 1] == ' ';
    }
    while (vocab->joins_blanks && out->size > 0 && out->data[out->size - 1] == ' ')
        out->size--;
    return CERA_OK;
}

/* ---- cutting ------------------------------------------------------------------------------- */

/* The best cut of what comes before a place in the text. */
typedef struct node {
    float score;
    uint32_t begin; /* of its last token */
    int32_t id;     /* of that; -1: unknown. NOT_REACHED: there is no cut yet */
} node;
enum { NOT_REACHED = -2 };

static void offer(node *to, float score, size_t begin, int32_t id)
{
    if (to->id == NOT_REACHED || score > to->score)
        *to = (node){ score, (uint32_t)begin, id };
}

/* Fills nodes[0, text.size], of which the first has its score. */
static void find_best(const cr_vocab *vocab, cr_str text, node *nodes)
{
    for (size_t i = 1; i <= text.size; i++)
        nodes[i].id = NOT_REACHED;
    for (size_t i = 0; i < text.size;) {
        cr_str rest = { text.data + i, text.size - i };
        uint32_t code;
        size_t n_character = CR_MAX(cr_utf8_decode(rest.data, rest.size, &code), (size_t)1);
        bool known = false;
        cr_special_walk walk = { 0 };
        for (const cr_special *t; (t = cr_specials_next(&vocab->pieces, rest, &walk)) != NULL;) {
            offer(&nodes[i + t->text.size], nodes[i].score + vocab->scores[t->id], i, t->id);
            known = known || t->text.size == n_character;
        }
        if (!known)
            offer(&nodes[i + n_character], nodes[i].score + vocab->unknown_score, i, -1);
        i += n_character;
    }
}

/* Appends the ids of text, whose cut goes on from a score. */
static cera_status cut(cr_encoding *enc, cr_str text, float *score, cera_error *err)
{
    size_t bytes = (text.size + 1) * sizeof(node);
    enc->work.size = 0;
    if (!cr_buf_reserve(&enc->work, bytes))
        return cr_fail_nomem(err, bytes, "encoding text");
    node *nodes = (void *)enc->work.data;
    nodes[0] = (node){ .score = *score };
    find_best(enc->vocab, text, nodes);
    *score = nodes[text.size].score;

    /* The links lead from the end to the begin: turn them round. */
    uint32_t next = (uint32_t)text.size, place = next;
    while (place > 0) {
        uint32_t begin = nodes[place].begin;
        nodes[place].begin = next;
        next = place;
        place = begin;
    }
    nodes[0].begin = next;
    for (size_t at = 0; at < text.size;) {
        size_t end = nodes[at].begin;
        cr_str piece = { text.data + at, end - at };
        CR_TRY(nodes[end].id >= 0 ? cr_encoding_push(enc, nodes[end].id, err)
                                  : cr_encoding_spell(enc, piece, err));
        at = end;
    }
    return CERA_OK;
}

static cera_status encode(cr_encoding *enc, cr_str text, cera_error *err)
{
    CR_TRY(normalise(enc, text, err));
    if (enc->text.size > INT32_MAX)
        return cr_fail(err, CERA_E_LIMIT, "text: expected at most %d normalised bytes, found %zu",
                       INT32_MAX, enc->text.size);
    /* No token reaches into the next word, so every cut passes the words' ends: what comes before
     * is decided there, and the memory can be used again. */
    float score = 0;
    cr_str rest = { enc->text.data, enc->text.size };
    while (rest.size > 0) {
        size_t n = enc->vocab->cuts_words ? cr_word_size(rest) : rest.size;
        CR_TRY(cut(enc, (cr_str){ rest.data, n }, &score, err));
        rest = (cr_str){ rest.data + n, rest.size - n };
    }
    return CERA_OK;
}

const cr_token_model cr_model_t5 = {
    .name = "t5",
    .setup = setup,
    .read = read_unigram,
    .encode = encode,
};

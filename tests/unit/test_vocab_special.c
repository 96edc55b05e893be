/* What is special about special tokens: which end a generation, and which take the white space
 * beside them along. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scored_golden.h"
#include "support/vocab_build.h"

#include "base/compiler.h"

enum { NORMAL = 1, CONTROL = 3, USER = 4, FIRST = 256 };

static cera_vocab *open_bytes(const char *pre, const vocab_token *tokens, size_t n_tokens,
                              void (*add)(gguf_build *b), size_t n_added)
{
    vocab_build v = { .model = "gpt2", .pre = pre, .tokens = tokens, .n_tokens = n_tokens };
    v.add = add;
    v.n_added = n_added;
    gguf_build b;
    build_vocab(&b, &v);
    cera_vocab *vocab = NULL;
    cera_error err = { .message = "" };
    cera_source source = { .data = b.data, .n_data = b.size };
    if (cera_vocab_open(&source, NULL, &vocab, &err) != CERA_OK)
        fail_msg("%s", err.message);
    build_done(&b);
    return vocab;
}

/* ---- ends -------------------------------------------------------------------------------- */

static void texts_that_end(void **state)
{
    (void)state;
    /* As they stand in the tokenizers of models. */
    static const char *const texts[] = {
        "</s>",
        "<eos>",
        "[EOS]",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "<|end|>",
        "<|return|>",
        "<|flush|>",
        "<end_of_turn>",
        "<|end_of_turn|>",
        "<turn|>",
        "[e~[",
        "<|fim_pad|>",
        "<end_of_utterance>",
        "<|file_sep|>",
        "<|repo_name|>",
        "<reponame>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
    };
    static const char *const others[] = { "<|im_start|>", "<s>", "<|eot|>", "<|user|>", "<pad>" };
    static const int types[] = { CONTROL, USER, NORMAL };
    for (size_t t = 0; t < CR_COUNT(types); t++) {
        vocab_token tokens[CR_COUNT(texts) + CR_COUNT(others)];
        size_t n = 0;
        for (size_t i = 0; i < CR_COUNT(texts); i++)
            tokens[n++] = (vocab_token){ texts[i], types[t] };
        for (size_t i = 0; i < CR_COUNT(others); i++)
            tokens[n++] = (vocab_token){ others[i], types[t] };
        cera_vocab *v = open_bytes("gpt-2", tokens, n, NULL, 0);
        for (size_t i = 0; i < n; i++) {
            bool end = i < CR_COUNT(texts) && types[t] != NORMAL;
            if (cera_vocab_is_end(v, (int32_t)(FIRST + i)) != end)
                fail_msg("%s as type %d", tokens[i].text, types[t]);
        }
        cera_vocab_free(v);
    }
}

static void add_ends(gguf_build *b)
{
    build_key_u32(b, "tokenizer.ggml.eos_token_id", FIRST);
    build_key_u32(b, "tokenizer.ggml.fim_pad_token_id", 65);
    build_key_u32(b, "tokenizer.ggml.fim_rep_token_id", 66);
    build_key_u32(b, "tokenizer.ggml.fim_sep_token_id", 67);
}

/* In some vocabularies a text means something else; what the file says holds all the same. */
static void texts_that_end_elsewhere(void **state)
{
    (void)state;
    static const struct {
        const char *texts[4];
        bool end[4];
    } rows[] = {
        /* o200k_harmony */
        { { "<|end|>", "<|call|>", "<|return|>", "<|start|>" }, { false, true, true, false } },
        /* solar-open */
        { { "<|end|>", "<|calls|>", "<|flush|>", "x" }, { false, true, true, false } },
        { { "</s>", "<|tool_response>", "<turn|>", "<eos>" }, { false, true, true, true } },
        { { "</s>", "<|plamo:eos|>", "x", "y" }, { false, false, false, false } },
        { { "</s>", "<|im_end|>", "x", "y" }, { true, true, false, false } },
    };
    for (size_t r = 0; r < CR_COUNT(rows); r++) {
        vocab_token tokens[4];
        for (int i = 0; i < 4; i++)
            tokens[i] = (vocab_token){ rows[r].texts[i], CONTROL };
        cera_vocab *v = open_bytes("gpt-2", tokens, 4, NULL, 0);
        for (int i = 0; i < 4; i++)
            if (cera_vocab_is_end(v, FIRST + i) != rows[r].end[i])
                fail_msg("row %zu: %s", r, rows[r].texts[i]);
        cera_vocab_free(v);
        v = open_bytes("gpt-2", tokens, 4, add_ends, 4);
        assert_true(cera_vocab_is_end(v, FIRST));
        for (int id = 64; id < 69; id++)
            assert_int_equal(cera_vocab_is_end(v, id), id >= 65 && id <= 67);
        cera_vocab_free(v);
    }
}

/* ---- white space ------------------------------------------------------------------------- */

static void check(const cera_vocab *vocab, const char *text, bool special, const int32_t *expected)
{
    cera_encode_options options;
    cera_encode_options_init(&options);
    options.parse_special = special;
    options.add_bos = false;
    int32_t *ids;
    size_t n, n_expected = 0;
    assert_int_equal(cera_vocab_encode(vocab, text, strlen(text), &options, &ids, &n, NULL),
                     CERA_OK);
    while (expected[n_expected] >= 0)
        n_expected++;
    if (n != n_expected || (n > 0 && memcmp(ids, expected, n * sizeof *ids) != 0)) {
        for (size_t i = 0; i < n; i++)
            print_error("%d ", ids[i]);
        fail_msg("\"%s\"", text);
    }
    cera_vocab_free_ids(vocab, ids, n);
}

#define CHECK(vocab, text, ...) check(vocab, text, true, (const int32_t[]){ __VA_ARGS__, -1 })

/* All of Unicode's White_Space. */
#define WHITE                                                                                      \
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"    \
    "\u2028\u2029\u202f\u205f\u3000\xc2\x85"

/* Ids are those of Hugging Face's tokenizers for a byte-level vocabulary without merges and an
 * added token with lstrip=True. */
static void white_space_before_a_mask(void **state)
{
    (void)state;
    static const struct {
        const char *pre, *mask;
        bool strips;
    } rows[] = {
        { "roberta-bpe", "<mask>", true },  { "jina-v2-code", "<mask>", true },
        { "jina-v2-de", "<mask>", true },   { "jina-v2-es", "<mask>", true },
        { "modern-bert", "[MASK]", true },  { "gpt-2", "<mask>", false },
        { "modern-bert", "<mask>", false },
    };
    for (size_t r = 0; r < CR_COUNT(rows); r++) {
        const vocab_token tokens[] = { { rows[r].mask, CONTROL }, { "<s>", CONTROL } };
        enum { MASK = FIRST, S };
        cera_vocab *v = open_bytes(rows[r].pre, tokens, 2, NULL, 0);
        char text[256];
        snprintf(text, sizeof text, "a " WHITE "%s b", rows[r].mask);
        if (rows[r].strips)
            CHECK(v, text, 'a', MASK, ' ', 'b');
        snprintf(text, sizeof text, "a   %s  %s", rows[r].mask, rows[r].mask);
        if (rows[r].strips)
            CHECK(v, text, 'a', MASK, MASK);
        else
            CHECK(v, text, 'a', ' ', ' ', ' ', MASK, ' ', ' ', MASK);
        snprintf(text, sizeof text, " a  <s> %s", rows[r].mask); /* no other token strips */
        if (rows[r].strips)
            CHECK(v, text, ' ', 'a', ' ', ' ', S, MASK);
        snprintf(text, sizeof text, "a\u200b%s", rows[r].mask); /* is no white space */
        CHECK(v, text, 'a', 0xe2, 0x80, 0x8b, MASK);
        snprintf(text, sizeof text, "\xa0\x80%s", rows[r].mask); /* nor are parts of it */
        CHECK(v, text, 0xa0, 0x80, MASK);
        /* As plain text it is no token, and nothing is left out before it. */
        check(v, " <mask>", false, (const int32_t[]){ ' ', '<', 'm', 'a', 's', 'k', '>', -1 });
        cera_vocab_free(v);
    }
}

static const scored_token scored[] = {
    { "<unk>", 0, 2 },    /* 0 */
    { "<s>", 0, 3 },      /* 1 */
    { "</s>", 0, 3 },     /* 2 */
    { "\u2581", -1, 1 },  /* 3 */
    { "a", -2, 1 },       /* 4 */
    { "\u2581a", -3, 1 }, /* 5: as good as both */
    { "<|user|>", 0, 4 }, /* 6 */
    { "<mask>", 0, 3 },   /* 7 */
};

static void add_phi3(gguf_build *b)
{
    build_key_text(b, "general.architecture", "phi3");
}

static void add_llama(gguf_build *b)
{
    build_key_text(b, "general.architecture", "llama");
}

static void add_blanks(gguf_build *b)
{
    build_key_number(b, "tokenizer.ggml.add_space_prefix", 7, 1, 1);
    build_key_u32(b, "tokenizer.ggml.unknown_token_id", 0);
}

static void white_space_behind_tokens(void **state)
{
    (void)state;
    scored_build v = { .model = "llama", .tokens = scored, .n_tokens = CR_COUNT(scored) };
    v.add = add_phi3;
    v.n_added = 1;
    cera_vocab *vocab = open_scored(&v);
    CHECK(vocab, "<|user|>\n \u3000a", 6, 5);
    CHECK(vocab, "a <|user|> <|user|> ", 5, 3, 6, 6);
    CHECK(vocab, "</s> a", 2, 5);
    CHECK(vocab, "<s> a", 1, 3, 5);                                   /* not behind this one */
    check(vocab, "<|user|> a", false, (const int32_t[]){ 6, 5, -1 }); /* user-defined */
    cera_vocab_free(vocab);

    v.add = add_llama;
    vocab = open_scored(&v);
    CHECK(vocab, "<|user|> a", 6, 3, 5);
    CHECK(vocab, "a <mask>", 5, 3, 7);
    cera_vocab_free(vocab);

    v.model = "t5";
    v.add = add_blanks;
    v.n_added = 2;
    vocab = open_scored(&v);
    CHECK(vocab, "a <mask> a", 5, 7, 3, 5);
    cera_vocab_free(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_that_end),
        cmocka_unit_test(texts_that_end_elsewhere),
        cmocka_unit_test(white_space_before_a_mask),
        cmocka_unit_test(white_space_behind_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Vocabularies made up for one question each: special tokens, marks, duplicates, ends, bytes that
 * are not UTF-8, and failing memory. Files that must be refused are in test_vocab_bad.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fault_host.h"
#include "support/vocab_build.h"
#include "support/vocab_memory.h"

#include "base/compiler.h"

enum { NORMAL = 1, CONTROL = 3, USER = 4 };

/* "\u0120" is a space. */
static const vocab_token tokens[] = {
    { "<s>", CONTROL },         /* 256 */
    { "</s>", CONTROL },        /* 257 */
    { "<|im_end|>", CONTROL },  /* 258 */
    { "<think>", USER },        /* 259 */
    { "<think>>", USER },       /* 260 */
    { "ab", NORMAL },           /* 261 */
    { "abc", NORMAL },          /* 262 */
    { "bc", NORMAL },           /* 263 */
    { "\xc4\xa0x", NORMAL },    /* 264 */
    { "\xc4\xa0xyz", NORMAL },  /* 265: no merge leads here */
    { "zq", NORMAL },           /* 266: no merge leads here */
    { "<|end|>", NORMAL },      /* 267: looks like a control token, is none */
    { "\xe2\x84\xa2", NORMAL }, /* 268: outside the alphabet */
    { "hiz", CONTROL },         /* 269: a merge leads here */
    { "hi", NORMAL },           /* 270 */
};

static const char *const merges[] = {
    "b c", "a b", "ab c", "\xc4\xa0 x", "h i", "hi z", "a b",
};

static void add_ids(gguf_build *b)
{
    build_key_u32(b, "tokenizer.ggml.bos_token_id", 256);
    build_key_u32(b, "tokenizer.ggml.eos_token_id", 257);
    build_key_number(b, "tokenizer.ggml.add_eos_token", 7, 1, 1);
}

static const vocab_build base = {
    .model = "gpt2",
    .pre = "gpt-2",
    .tokens = tokens,
    .n_tokens = CR_COUNT(tokens),
    .merges = merges,
    .n_merges = CR_COUNT(merges),
    .add = add_ids,
    .n_added = 3,
};

static cera_vocab *open_built(const vocab_build *v, const cera_host *host)
{
    gguf_build b;
    build_vocab(&b, v);
    cera_vocab *vocab = NULL;
    cera_error err = { .message = "" };
    cera_source source = { .data = b.data, .n_data = b.size };
    cera_vocab_options options;
    cera_vocab_options_init(&options);
    options.host = host;
    if (cera_vocab_open(&source, &options, &vocab, &err) != CERA_OK)
        fail_msg("%s", err.message);
    build_done(&b); /* the vocabulary has copied what it needs */
    return vocab;
}

typedef enum marks { PLAIN = 0, SPECIAL = 1, BOS = 2, EOS = 4 } marks;

/* Encodes and compares; ids end at -1. */
static void check_n(const cera_vocab *vocab, const char *text, size_t n_text, int flags,
                    const int32_t *expected)
{
    cera_encode_options options;
    cera_encode_options_init(&options);
    options.parse_special = (flags & SPECIAL) != 0;
    options.add_bos = (flags & BOS) != 0;
    options.add_eos = (flags & EOS) != 0;
    int32_t *ids;
    size_t n, n_expected = 0;
    assert_int_equal(cera_vocab_encode(vocab, text, n_text, &options, &ids, &n, NULL), CERA_OK);
    while (expected[n_expected] >= 0)
        n_expected++;
    bool same = n == n_expected && (n == 0 || memcmp(ids, expected, n * sizeof *ids) == 0);
    if (!same) {
        print_error("\"%s\" gave", text);
        for (size_t i = 0; i < n; i++)
            print_error(" %d", ids[i]);
        print_error("\n");
    }
    cera_vocab_free_ids(vocab, ids, n);
    assert_true(same);
}

#define CHECK(vocab, text, flags, ...)                                                             \
    check_n(vocab, text, strlen(text), flags, (const int32_t[]){ __VA_ARGS__, -1 })

static void test_special_tokens(void **state)
{
    (void)state;
    cera_vocab *v = open_built(&base, NULL);
    /* Control tokens only when asked for, user-defined ones always, the longest first. */
    CHECK(v, "<s>", PLAIN, '<', 's', '>');
    CHECK(v, "<s>", SPECIAL, 256);
    CHECK(v, "a<s>b</s>", SPECIAL, 'a', 256, 'b', 257);
    CHECK(v, "<think>", PLAIN, 259);
    CHECK(v, "<think>>", PLAIN, 260);
    CHECK(v, "x<think>a<s>", PLAIN, 'x', 259, 'a', '<', 's', '>');
    CHECK(v, "<<think><thin", SPECIAL, '<', 259, '<', 't', 270, 'n');
    /* A merge whose result is a control token does not exist for plain text. */
    CHECK(v, "hiz", PLAIN, 270, 'z');
    CHECK(v, "hiz", SPECIAL, 269);
    cera_vocab_free(v);
}

static void test_marks(void **state)
{
    (void)state;
    cera_vocab *v = open_built(&base, NULL);
    /* gpt-2 without the key does not ask for BOS; this file asks for EOS. */
    CHECK(v, "z", BOS, 'z');
    CHECK(v, "z", EOS, 'z', 257);
    CHECK(v, "z</s>", EOS | SPECIAL, 'z', 257);
    CHECK(v, "", EOS, 257);
    cera_vocab_free(v);

    vocab_build llama = base;
    llama.pre = "llama-bpe";
    v = open_built(&llama, NULL);
    CHECK(v, "z", BOS, 256, 'z');
    CHECK(v, "z", PLAIN, 'z');
    CHECK(v, "", BOS, 256);
    CHECK(v, "<s>z", BOS | SPECIAL, 256, 'z');
    CHECK(v, "<s><s>z", BOS | SPECIAL, 256, 256, 'z');
    CHECK(v, "<s>z", BOS, 256, '<', 's', '>', 'z');
    CHECK(v, "", PLAIN, -1);
    cera_vocab_info info;
    cera_vocab_get_info(v, &info);
    assert_true(info.add_bos);
    assert_true(info.add_eos);
    assert_string_equal(info.pre, "llama-bpe");
    cera_vocab_free(v);
}

static void test_merges(void **state)
{
    (void)state;
    cera_vocab *v = open_built(&base, NULL);
    /* "b c" has the lower rank, so "abc" is a|bc; the merge "ab c" comes too late. */
    CHECK(v, "abc", PLAIN, 'a', 263);
    CHECK(v, "ab", PLAIN, 261);
    CHECK(v, "abab", PLAIN, 261, 261);
    CHECK(v, "z xyz", PLAIN, 'z', 264, 'y', 'z');
    cera_vocab_free(v);

    /* The llama-bpe family takes a piece that is a token whole. */
    vocab_build llama = base;
    llama.pre = "llama-bpe";
    v = open_built(&llama, NULL);
    CHECK(v, "abc", PLAIN, 262);
    CHECK(v, "hiz", PLAIN, 270, 'z'); /* but not a control token */
    CHECK(v, "z xyz", PLAIN, 'z', 265);
    CHECK(v, "z xyza", PLAIN, 'z', 264, 'y', 'z', 'a');
    cera_vocab_free(v);
}

static void test_pieces(void **state)
{
    (void)state;
    cera_vocab *v = open_built(&base, NULL);
    size_t n;
    for (int32_t id = 0; id < 256; id++) {
        const char *piece = cera_vocab_piece(v, id, &n);
        assert_int_equal(n, 1);
        assert_int_equal((unsigned char)piece[0], id);
    }
    assert_memory_equal(cera_vocab_piece(v, 265, &n), " xyz", 4);
    assert_int_equal(n, 4);
    assert_memory_equal(cera_vocab_piece(v, 256, &n), "<s>", 3);
    assert_int_equal(n, 3);
    /* A token that no merge leads to decodes as well. */
    assert_memory_equal(cera_vocab_piece(v, 261, &n), "ab", 2);
    assert_memory_equal(cera_vocab_piece(v, 266, &n), "zq", 2);
    /* A normal token outside the alphabet is its text. */
    assert_memory_equal(cera_vocab_piece(v, 268, &n), "\xe2\x84\xa2", 3);
    CHECK(v, "\xe2\x84\xa2", PLAIN, 0xe2, 0x84, 0xa2);
    assert_null(cera_vocab_piece(v, -1, &n));
    assert_int_equal(n, 0);
    assert_null(cera_vocab_piece(v, 271, NULL));
    assert_null(cera_vocab_piece(v, INT32_MAX, NULL));
    cera_vocab_free(v);
}

static void add_ends(gguf_build *b)
{
    build_key_u32(b, "tokenizer.ggml.eos_token_id", 65);
    build_key_u32(b, "tokenizer.ggml.eot_token_id", 66);
    build_key_u32(b, "tokenizer.ggml.eom_token_id", 67);
    build_key_array(b, "tokenizer.ggml.eog_token_ids", 4, 2);
    build_number(b, 68, 4);
    build_number(b, 69, 4);
}

static void test_ends(void **state)
{
    (void)state;
    vocab_build ends = base;
    ends.add = add_ends;
    ends.n_added = 4;
    cera_vocab *v = open_built(&ends, NULL);
    for (int32_t id = -1; id < 300; id++) {
        bool end = (id >= 65 && id <= 69) || id == 257 || id == 258;
        assert_int_equal(cera_vocab_is_end(v, id), end);
    }
    assert_true(cera_vocab_is_control(v, 258));
    assert_false(cera_vocab_is_control(v, 259));
    assert_false(cera_vocab_is_control(v, 267));
    cera_vocab_free(v);
}

static void test_broken_utf8(void **state)
{
    (void)state;
    cera_vocab *v = open_built(&base, NULL);
    CHECK(v, "a\377b", PLAIN, 'a', 0xff, 'b');
    CHECK(v, "ab\xe6\xad", PLAIN, 261, 0xe6, 0xad);
    CHECK(v, "\xed\xa0\x80z", PLAIN, 0xed, 0xa0, 0x80, 'z');
    check_n(v, "\0a\0", 3, PLAIN, (const int32_t[]){ 0, 'a', 0, -1 });

    /* decode(encode(x)) == x for bytes of every kind. */
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        char text[64];
        size_t n = 0;
        for (; n < sizeof text; n++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            unsigned r = (unsigned)(seed >> 33);
            static const char likely[] = "abc xyz<s></s>\n\xc3\xa9\xf0\x9f\x98\x80";
            text[n] = r % 3 != 0 ? likely[r / 3 % (sizeof likely - 1)] : (char)(r >> 8);
        }
        cera_encode_options options;
        cera_encode_options_init(&options);
        options.parse_special = round % 2 != 0;
        int32_t *ids;
        size_t n_ids, at = 0;
        assert_int_equal(cera_vocab_encode(v, text, n, &options, &ids, &n_ids, NULL), CERA_OK);
        for (size_t i = 0; i < n_ids; i++) {
            size_t n_piece;
            const char *piece = cera_vocab_piece(v, ids[i], &n_piece);
            assert_true(n_piece <= n - at);
            assert_memory_equal(piece, text + at, n_piece);
            at += n_piece;
        }
        assert_int_equal(at, n);
        cera_vocab_free_ids(v, ids, n_ids);
    }
    cera_vocab_free(v);
}

static void test_missing_byte(void **state)
{
    (void)state;
    vocab_build lacks = base;
    lacks.no_byte_255 = true;
    cera_vocab *v = open_built(&lacks, NULL);
    CHECK(v, "a\xfe", PLAIN, 'a', 0xfe);
    int32_t *ids = NULL;
    size_t n = 7;
    cera_error err;
    assert_int_equal(cera_vocab_encode(v, "a\xff", 2, NULL, &ids, &n, &err), CERA_E_UNSUPPORTED);
    assert_string_equal(err.message, "text: the vocabulary has no token for byte 0xFF");
    assert_null(ids);
    assert_int_equal(n, 7);
    cera_vocab_free(v);
}

static void test_arguments(void **state)
{
    (void)state;
    cera_vocab *v = open_built(&base, NULL);
    int32_t *ids = NULL;
    size_t n = 0;
    cera_error err;
    cera_encode_options options;
    cera_encode_options_init(&options);
    options.size--;
    assert_int_equal(cera_vocab_encode(v, "a", 1, &options, &ids, &n, &err), CERA_E_ARG);
    assert_int_equal(cera_vocab_encode(v, NULL, 1, NULL, &ids, &n, &err), CERA_E_ARG);
    assert_int_equal(cera_vocab_encode(v, NULL, 0, NULL, &ids, &n, &err), CERA_OK);
    assert_int_equal(n, 0);
    cera_vocab_free_ids(v, ids, n);
    cera_vocab_free(v);
    cera_vocab_free(NULL);
}

/* A file from before the pre-tokenizer key: the rule of GPT-2, and a remark. */
static void test_no_pre(void **state)
{
    (void)state;
    vocab_build old = base;
    old.pre = NULL;
    fault_host f;
    fault_init(&f);
    cera_vocab *v = open_built(&old, &f.host);
    assert_int_equal(fault_logs(&f), 1);
    assert_non_null(strstr(fault_last_log(&f), "tokenizer.ggml.pre is missing; using gpt-2"));
    cera_vocab_info info;
    cera_vocab_get_info(v, &info);
    assert_string_equal(info.pre, "gpt-2");
    cera_vocab_free(v);
    assert_null(fault_check(&f));
    fault_done(&f);
}

/* ---- failing memory ---- */

/* Opens, encodes short and long pieces, frees. */
static cera_status work(const cera_host *host, const cera_source *source)
{
    cera_vocab *vocab;
    cera_vocab_options open_options;
    cera_vocab_options_init(&open_options);
    open_options.host = host;
    cera_status status = cera_vocab_open(source, &open_options, &vocab, NULL);
    if (status != CERA_OK)
        return status;
    char text[2000];
    memset(text, 'a', sizeof text);
    memcpy(text, "<s>one two <think>\xff\xfe ", 21);
    cera_encode_options options;
    cera_encode_options_init(&options);
    options.parse_special = true;
    int32_t *ids;
    size_t n;
    status = cera_vocab_encode(vocab, text, sizeof text, &options, &ids, &n, NULL);
    if (status == CERA_OK)
        cera_vocab_free_ids(vocab, ids, n);
    cera_vocab_free(vocab);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    gguf_build b;
    build_vocab(&b, &base);
    cera_source source = { .data = b.data, .n_data = b.size };
    for (int mode = FAULT_ONCE; mode <= FAULT_STICKY; mode++)
        assert_true(vocab_fail_each_allocation((fault_mode)mode, &source, work) > 15);
    build_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_special_tokens), cmocka_unit_test(test_marks),
        cmocka_unit_test(test_merges),         cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_ends),           cmocka_unit_test(test_broken_utf8),
        cmocka_unit_test(test_missing_byte),   cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_no_pre),         cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

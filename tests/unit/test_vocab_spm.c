/* SentencePiece vocabularies (kind llama): the blank before a text, joins by score, byte tokens,
 * what is unknown, pieces and failing memory, on a vocabulary made up for it; and ids against
 * sentencepiece itself, from the files of scripts/make-golden-tokens. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scored_golden.h"
#include "support/vocab_memory.h"

#include <math.h>
#include <time.h>

static scored_token tokens[SPM_N];
static char byte_texts[256][8];

static scored_build standard(void)
{
    make_spm_tokens(tokens, byte_texts);
    return (scored_build){ .model = "llama", .tokens = tokens, .n_tokens = SPM_N };
}

static void no_prefix(gguf_build *b)
{
    build_key_number(b, "tokenizer.ggml.add_space_prefix", 7, 0, 1);
}

/* Encodes and compares; ids end at -1. Unless something is unknown, decoding gives the text
 * back. */
static void check(const cera_vocab *vocab, const char *text, bool parse_special, bool add_bos,
                  const int32_t *expected)
{
    cera_encode_options options;
    cera_encode_options_init(&options);
    options.parse_special = parse_special;
    options.add_bos = add_bos;
    int32_t *ids;
    size_t n, n_expected = 0, n_text = strlen(text);
    assert_int_equal(cera_vocab_encode(vocab, text, n_text, &options, &ids, &n, NULL), CERA_OK);
    while (expected[n_expected] >= 0)
        n_expected++;
    bool same = n == n_expected && (n == 0 || memcmp(ids, expected, n * sizeof *ids) == 0);
    bool has_unknown = false;
    if (!same)
        print_error("\"%s\" gave", text);
    for (size_t i = 0; i < n; i++) {
        has_unknown = has_unknown || ids[i] == SPM_UNKNOWN;
        if (!same)
            print_error(" %d", ids[i]);
    }
    char back[4096];
    size_t n_back = decode_ids(vocab, ids, n, back), skip = add_bos ? strlen("<s>") : 0;
    assert_true(has_unknown || (n_back == n_text + skip && !memcmp(back + skip, text, n_text)));
    cera_vocab_free_ids(vocab, ids, n);
    assert_true(same);
}

#define W(i) (SPM_WORDS + (i))
#define BYTE(b) (SPM_BYTES + (b))
#define CHECK(vocab, text, ...)                                                                    \
    check(vocab, text, false, false, (const int32_t[]){ __VA_ARGS__, -1 })
#define CHECK_SPECIAL(vocab, text, ...)                                                            \
    check(vocab, text, true, false, (const int32_t[]){ __VA_ARGS__, -1 })

static void test_joins(void **state)
{
    (void)state;
    scored_build v = standard();
    cera_vocab *vocab = open_scored(&v);
    CHECK(vocab, "", -1);
    CHECK(vocab, "a", W(4));
    CHECK(vocab, "b", W(0), W(2));
    /* ab (-8) before _a (-10); then _ab. */
    CHECK(vocab, "ab", W(7));
    /* ab and bc are as good: the left one. Then _ab (-12) is better than abc (-30). */
    CHECK(vocab, "abc", W(7), W(3));
    CHECK(vocab, "babc", W(0), W(2), W(13));
    CHECK(vocab, " a", W(8), W(1));
    CHECK(vocab, "  a", W(8), W(4));
    CHECK(vocab, "a  a ", W(4), W(8), W(1), W(0));
    /* aa joins at the left first, and with what follows at once. */
    CHECK(vocab, "baaaaa", W(0), W(2), W(16), W(15));
    /* Two characters that are no tokens join to one that is. */
    CHECK(vocab, "xy", W(0), W(17));
    CHECK(vocab, "xyx", W(0), W(17), BYTE('x'));
    cera_vocab_free(vocab);
}

static void test_bytes(void **state)
{
    (void)state;
    scored_build v = standard();
    cera_vocab *vocab = open_scored(&v);
    CHECK(vocab, "\n", W(0), BYTE('\n'));
    CHECK(vocab, "\xc3\xa9t\xc3\xa9", W(0), W(9), BYTE('t'), W(9));
    CHECK(vocab, "\xf0\x9f\xa6\x8a\xf0\x9f\xa6\x8b", W(0), W(14), BYTE(0xf0), BYTE(0x9f),
          BYTE(0xa6), BYTE(0x8b));
    /* Not UTF-8: kept byte for byte. */
    CHECK(vocab,
          "a\xff"
          "b\xc3",
          W(4), BYTE(0xff), W(2), BYTE(0xc3));
    /* The name of a byte token is text like any other. */
    CHECK(vocab, "<0x0A>", W(0), BYTE('<'), BYTE('0'), BYTE('x'), BYTE('0'), BYTE('A'), BYTE('>'));
    /* U+2581 is the blank that it stands for. */
    int32_t *ids;
    size_t n;
    assert_int_equal(cera_vocab_encode(vocab, SPM_BLANK "a", 4, NULL, &ids, &n, NULL), CERA_OK);
    assert_int_equal(n, 3);
    assert_int_equal(ids[1], W(8));
    assert_int_equal(ids[2], W(1));
    cera_vocab_free_ids(vocab, ids, n);
    cera_vocab_free(vocab);
}

/* The blank comes before a text, and before text behind a special token, unless the file says
 * no. */
static void test_blank_prefix(void **state)
{
    (void)state;
    scored_build v = standard();
    cera_vocab *vocab = open_scored(&v);
    CHECK(vocab, "<u>a", W(11), W(4));
    CHECK(vocab, "a<u>a", W(4), W(11), W(4));
    CHECK(vocab, "<u> a", W(11), W(8), W(1));
    CHECK_SPECIAL(vocab, "<|im_end|>a</s>", W(12), W(4), SPM_EOS);
    CHECK_SPECIAL(vocab, "<s>a", SPM_BOS, W(4));
    check(vocab, "a", false, true, (const int32_t[]){ SPM_BOS, W(4), -1 });
    check(vocab, "", false, true, (const int32_t[]){ SPM_BOS, -1 });
    /* Control tokens are text unless they are asked for. */
    CHECK(vocab, "</s>", W(0), BYTE('<'), BYTE('/'), BYTE('s'), BYTE('>'));
    cera_vocab_free(vocab);

    v.add = no_prefix;
    v.n_added = 1;
    vocab = open_scored(&v);
    CHECK(vocab, "a", W(1));
    CHECK(vocab, " a", W(4));
    CHECK(vocab, "a<u>a", W(1), W(11), W(1));
    CHECK_SPECIAL(vocab, "<|im_end|>ab<|im_end|>", W(12), W(5), W(12));
    cera_vocab_free(vocab);
}

static void test_pieces(void **state)
{
    (void)state;
    scored_build v = standard();
    cera_vocab *vocab = open_scored(&v);
    static const struct {
        int32_t previous, id;
        const char *piece, *after;
    } cases[] = {
        { -1, W(4), " a", "a" },
        { SPM_BOS, W(4), " a", "a" },
        { W(11), W(4), " a", "a" },
        { W(12), W(4), " a", "a" },
        { W(1), W(4), " a", " a" },
        { BYTE('\n'), W(4), " a", " a" },
        { SPM_UNKNOWN, W(4), " a", " a" },
        { -1, W(8), "  ", " " },
        { -1, W(0), " ", "" },
        { -1, W(1), "a", "a" },
        { -1, BYTE(' '), " ", " " }, /* a byte token is never the blank that was put there */
        { -1, SPM_EOS, "</s>", "</s>" },
        { -1, BYTE('\n'), "\n", "\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n;
        const char *piece = cera_vocab_piece(vocab, cases[i].id, &n);
        assert_int_equal(n, strlen(cases[i].piece));
        assert_memory_equal(piece, cases[i].piece, n);
        piece = cera_vocab_piece_after(vocab, cases[i].previous, cases[i].id, &n);
        assert_int_equal(n, strlen(cases[i].after));
        assert_memory_equal(piece, cases[i].after, n);
    }
    assert_null(cera_vocab_piece_after(vocab, -1, SPM_N, NULL));
    assert_null(cera_vocab_piece_after(vocab, -1, -1, NULL));
    assert_null(cera_vocab_piece_after(NULL, -1, 0, NULL));

    cera_vocab_info info;
    cera_vocab_get_info(vocab, &info);
    assert_string_equal(info.model, "llama");
    assert_string_equal(info.pre, "");
    assert_int_equal(info.bos, 1);
    assert_int_equal(info.eos, 2);
    assert_true(info.add_bos);
    assert_true(cera_vocab_is_end(vocab, SPM_EOS));
    assert_true(cera_vocab_is_end(vocab, W(12)));
    cera_vocab_free(vocab);
}

/* Without byte tokens: one unknown token for all that is unknown in a row, or an error. */
static void test_unknown(void **state)
{
    (void)state;
    scored_token few[] = {
        { "<unk>", 0, 2 }, { "<s>", 0, 3 }, { "</s>", 0, 3 }, { SPM_BLANK, -9, 1 }, { "a", -9, 1 },
    };
    scored_build v = { .model = "llama", .tokens = few, .n_tokens = 5 };
    cera_vocab *vocab = open_scored(&v);
    CHECK(vocab, "a", 3, 4);
    CHECK(vocab,
          "axyz\xff"
          "a\n",
          3, 4, SPM_UNKNOWN, 4, SPM_UNKNOWN);
    CHECK(vocab, "x x", 3, SPM_UNKNOWN, 3, SPM_UNKNOWN);
    cera_vocab_free(vocab);

    few[0].type = 3; /* no token that is meant for it */
    vocab = open_scored(&v);
    int32_t *ids;
    size_t n;
    cera_error err;
    assert_int_equal(cera_vocab_encode(vocab, "ax", 2, NULL, &ids, &n, &err), CERA_E_UNSUPPORTED);
    assert_string_equal(err.message, "text: the vocabulary has no token for byte 0x78");
    cera_vocab_free(vocab);
}

/* A token that has a blank inside joins across words; a piece of text has no end then. */
static void test_tokens_across_words(void **state)
{
    (void)state;
    scored_token few[] = {
        { "<unk>", 0, 2 },
        { "<s>", 0, 3 },
        { "</s>", 0, 3 },
        { SPM_BLANK, -9, 1 },
        { "a", -9, 1 },
        { "a" SPM_BLANK, -2, 1 },
        { "a" SPM_BLANK "a", -1, 1 },
        { SPM_BLANK "a", -3, 1 },
    };
    scored_build v = { .model = "llama", .tokens = few, .n_tokens = 8 };
    cera_vocab *vocab = open_scored(&v);
    CHECK(vocab, "a a a", 3, 6, 7);
    cera_vocab_free(vocab);
}

/* Scores need not be logarithms: better is larger, below and above zero, and 0 is -0. */
static void test_scores_of_any_sign(void **state)
{
    (void)state;
    static const float order[] = { -INFINITY, -3e38f, -2, -1e-40f, 0, 1e-40f, 2, 3e38f, INFINITY };
    scored_token few[] = {
        { "<unk>", 0, 2 }, { "<s>", 0, 3 }, { "</s>", 0, 3 }, { SPM_BLANK, -9, 1 },
        { "a", -9, 1 },    { "b", -9, 1 },  { "ab", 0, 1 },   { "ba", 0, 1 },
    };
    scored_build v = { .model = "llama", .tokens = few, .n_tokens = 8 };
    const size_t n = sizeof order / sizeof order[0];
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n; k++) {
            few[6].score = order[i];
            few[7].score = order[k];
            cera_vocab *vocab = open_scored(&v);
            /* Of equals the left one. */
            if (i >= k)
                CHECK(vocab, "aba", 3, 6, 4);
            else
                CHECK(vocab, "aba", 3, 4, 7);
            cera_vocab_free(vocab);
        }
    }
    few[6].score = -0.0f;
    few[7].score = 0;
    cera_vocab *vocab = open_scored(&v);
    CHECK(vocab, "aba", 3, 6, 4);
    cera_vocab_free(vocab);
}

static void test_refused(void **state)
{
    (void)state;
    scored_build v = standard();
    uint32_t bits = 0x7fc00000;
    memcpy(&tokens[300 % SPM_N].score, &bits, sizeof bits);
    gguf_build b;
    build_scored(&b, &v);
    cera_source source = { .data = b.data, .n_data = b.size };
    cera_vocab *vocab = NULL;
    cera_error err;
    assert_int_equal(cera_vocab_open(&source, NULL, &vocab, &err), CERA_E_FORMAT);
    assert_non_null(strstr(err.message, "expected a number, found NaN"));
    cera_vocab_options options;
    cera_vocab_options_init(&options);
    options.pre = "gpt-2";
    assert_int_equal(cera_vocab_open(&source, &options, &vocab, &err), CERA_E_ARG);
    assert_string_equal(err.message, "pre: a vocabulary of kind llama has no pre-tokenizer");
    options.size--;
    assert_int_equal(cera_vocab_open(&source, &options, &vocab, &err), CERA_E_ARG);
    assert_null(vocab);
    build_done(&b);
}

/* Every byte of a file changed in two ways: an error or a vocabulary that works. */
static void test_mutations(void **state)
{
    (void)state;
    scored_token few[] = {
        { "<unk>", 0, 2 }, { "<s>", 0, 3 }, { "<0x61>", 0, 6 }, { SPM_BLANK "ab", -9, 1 },
        { "b", -1, 1 },    { "<u>", 0, 4 }, { "ab", -2, 1 },
    };
    scored_build v = { .model = "llama", .tokens = few, .n_tokens = 7, .add = no_prefix };
    v.n_added = 1;
    gguf_build b;
    build_scored(&b, &v);
    for (size_t i = 0; i < 2 * b.size; i++) {
        uint8_t *byte = &b.data[i / 2], old = *byte;
        *byte ^= (uint8_t)(i % 2 != 0 ? 0xff : 1 << (i / 2 % 8));
        cera_vocab *vocab = NULL;
        cera_source source = { .data = b.data, .n_data = b.size };
        if (cera_vocab_open(&source, NULL, &vocab, NULL) == CERA_OK) {
            int32_t *ids;
            size_t n;
            if (cera_vocab_encode(vocab, "ab <s><u>\xff", 10, NULL, &ids, &n, NULL) == CERA_OK)
                cera_vocab_free_ids(vocab, ids, n);
            cera_vocab_free(vocab);
        }
        *byte = old;
    }
    build_done(&b);
}

/* ---- against sentencepiece ---- */

static void test_golden(void **state)
{
    (void)state;
    scored_build like = golden_like("llama");
    check_golden(&like, "spm_tokens.txt", "spm_ids.txt", 400, true);
}

static void test_golden_unknown(void **state)
{
    (void)state;
    scored_build like = golden_like("llama");
    check_golden(&like, "spm_few_tokens.txt", "spm_few_ids.txt", 400, true);
}

/* ---- time ---- */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* other load on the machine does not count */
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double time_of(const cera_vocab *vocab, const char *text, size_t n)
{
    double least = 1e9;
    for (int i = 0; i < 3; i++) {
        int32_t *ids;
        size_t n_ids;
        double begin = now_ms();
        assert_int_equal(cera_vocab_encode(vocab, text, n, NULL, &ids, &n_ids, NULL), CERA_OK);
        double took = now_ms() - begin;
        least = took < least ? took : least;
        cera_vocab_free_ids(vocab, ids, n_ids);
    }
    return least;
}

/* Eight times the text takes about eight times as long, whatever stands in it. */
static void test_linear(void **state)
{
    (void)state;
    static const char *const units[] = { "a", " ", "ab", "abc ", "\n", "\xff", "xy", SPM_BLANK };
    enum { SMALL = 1 << 16, LARGE = 1 << 19 };
    static char text[LARGE];
    scored_build v = standard();
    cera_vocab *vocab = open_scored(&v);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t n = strlen(units[i]);
        for (size_t k = 0; k < LARGE; k++)
            text[k] = units[i][k % n];
        double small = time_of(vocab, text, SMALL), large = time_of(vocab, text, LARGE);
        if (large > 24 * small + 100)
            fail_msg("\"%s\": %.2f ms, then %.2f ms", units[i], small, large);
    }
    cera_vocab_free(vocab);
}

/* ---- failing memory ---- */

static cera_status work(const cera_host *host, const cera_source *source)
{
    cera_vocab *vocab;
    cera_vocab_options options;
    cera_vocab_options_init(&options);
    options.host = host;
    cera_status status = cera_vocab_open(source, &options, &vocab, NULL);
    if (status != CERA_OK)
        return status;
    char text[2000];
    memset(text, 'a', sizeof text);
    memcpy(text, "abc <u>xyz\xff\xfe ", 13);
    int32_t *ids;
    size_t n;
    status = cera_vocab_encode(vocab, text, sizeof text, NULL, &ids, &n, NULL);
    if (status == CERA_OK)
        cera_vocab_free_ids(vocab, ids, n);
    cera_vocab_free(vocab);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    scored_build v = standard();
    gguf_build b;
    build_scored(&b, &v);
    cera_source source = { .data = b.data, .n_data = b.size };
    for (int mode = FAULT_ONCE; mode <= FAULT_STICKY; mode++)
        assert_true(vocab_fail_each_allocation((fault_mode)mode, &source, work) > 8);
    build_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joins),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_blank_prefix),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_tokens_across_words),
        cmocka_unit_test(test_scores_of_any_sign),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_golden_unknown),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

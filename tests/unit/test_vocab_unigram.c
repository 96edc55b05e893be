/* Unigram vocabularies (kind t5): cuts and blanks by hand, ids against sentencepiece itself,
 * damaged normalisers, failing memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scored_golden.h"
#include "support/vocab_memory.h"

#include "base/compiler.h"

#include <math.h>

#define BLANK "\xe2\x96\x81"

static const scored_token tokens[] = {
    { "<pad>", 0, 3 },      /* 0 */
    { "</s>", 0, 3 },       /* 1 */
    { "<unk>", 0, 2 },      /* 2 */
    { BLANK, -4, 1 },       /* 3 */
    { "a", -3, 1 },         /* 4 */
    { "b", -3, 1 },         /* 5 */
    { "ab", -5, 1 },        /* 6: better than a b */
    { "ba", -7, 1 },        /* 7: worse than b a */
    { BLANK "a", -5, 1 },   /* 8 */
    { "abab", -10, 1 },     /* 9: as good as ab ab */
    { "<x>", 0, 4 },        /* 10 */
    { "bb", -1, 5 },        /* 11: unused */
    { "\xc3\xa9", -6, 1 },  /* 12 */
    { "ca", -2, 1 },        /* 13: c alone is unknown */
    { BLANK BLANK, -5, 1 }, /* 14 */
    { "zb", -10, 1 },       /* 15: z alone is unknown, and -10 the worst of all scores */
    { "y", -9.9f, 1 },      /* 16 */
    { "by", -0.1f, 1 },     /* 17 */
    { "w", -10, 1 },        /* 18 */
    { "bw", 0.1f, 1 },      /* 19 */
};

static void add_flags(gguf_build *b, int prefix, int joins)
{
    build_key_number(b, "tokenizer.ggml.add_space_prefix", 7, (uint64_t)prefix, 1);
    build_key_number(b, "tokenizer.ggml.remove_extra_whitespaces", 7, (uint64_t)joins, 1);
}

static void add_usual(gguf_build *b)
{
    add_flags(b, 1, 1);
}

static void add_all_blanks(gguf_build *b)
{
    add_flags(b, 1, 0);
}

static const scored_build base = {
    .model = "t5",
    .tokens = tokens,
    .n_tokens = sizeof tokens / sizeof tokens[0],
    .add = add_usual,
    .n_added = 2,
};

static void check(const cera_vocab *vocab, const char *text, bool marks, const int32_t *expected)
{
    cera_encode_options options;
    cera_encode_options_init(&options);
    options.add_bos = options.add_eos = options.parse_special = marks;
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

#define CHECK(vocab, text, ...) check(vocab, text, false, (const int32_t[]){ __VA_ARGS__, -1 })

static void test_cuts(void **state)
{
    (void)state;
    cera_vocab *v = open_scored(&base);
    CHECK(v, "", -1);
    CHECK(v, "a", 8);
    CHECK(v, "b", 3, 5);
    CHECK(v, "ab", 8, 5); /* -8, against -9 with [ ][ab] */
    CHECK(v, "bab", 3, 5, 6);
    CHECK(v, "bb", 3, 5, 5);    /* unused tokens are not */
    CHECK(v, "babab", 3, 5, 9); /* of equal sums the longer token, whose cut was found first */
    CHECK(v, "bca", 3, 5, 13);
    CHECK(v, "bcccb", 3, 5, 2, 5); /* one unknown token for all in a row */
    CHECK(v, "zby", 3, 15, 16);    /* -19.9, against -20 for the unknown z and -0.1 */
    CHECK(v, "zbw", 3, 2, 19);     /* -20 and 0.1, against -20 */
    CHECK(v, "b\xff", 3, 5, 2);
    CHECK(v, "b\xc3\xa9\xe2\x82\xac", 3, 5, 12, 2);
    CHECK(v, "</s>b", 3, 2, 5);
    check(v, "</s>b", true, (const int32_t[]){ 1, 3, 5, 1, -1 });
    check(v, "b", true, (const int32_t[]){ 3, 5, 1, -1 });
    CHECK(v, "b<x>a", 3, 5, 10, 8); /* a text anew behind a special token */
    cera_vocab_free(v);
}

static void test_blanks(void **state)
{
    (void)state;
    cera_vocab *v = open_scored(&base);
    CHECK(v, "   ", -1);
    CHECK(v, "  b  a ", 3, 5, 8);
    CHECK(v, "b" BLANK "a", 3, 5, 8);      /* U+2581 is the blank of tokens */
    CHECK(v, "b " BLANK "a", 3, 5, 14, 4); /* but not joined */
    CHECK(v, BLANK BLANK, -1);
    cera_vocab_free(v);

    scored_build all = base;
    all.add = add_all_blanks;
    v = open_scored(&all);
    CHECK(v, "   ", 14, 14);
    CHECK(v, " b  a ", 14, 5, 14, 4, 3);
    cera_vocab_free(v);

    all.n_added = 0; /* neither key */
    all.add = NULL;
    v = open_scored(&all);
    CHECK(v, " b  a ", 3, 5, 14, 4, 3);
    CHECK(v, "b", 5);
    cera_vocab_free(v);
}

/* ---- against sentencepiece --------------------------------------------------------------- */

static int32_t map_bytes[16384];
static size_t n_map;

static void read_map(void)
{
    static token_line line;
    FILE *file = open_golden("unigram_map.txt");
    for (n_map = 0; read_line(file, &line);) {
        const char *at = line.rest;
        n_map += read_numbers(&at, map_bytes + n_map, CR_COUNT(map_bytes) - n_map);
    }
    fclose(file);
    assert_true(n_map > 1000);
}

static void add_map(gguf_build *b)
{
    add_flags(b, 1, 1);
    build_key_array(b, "tokenizer.ggml.precompiled_charsmap", 0, n_map);
    for (size_t i = 0; i < n_map; i++)
        build_number(b, (uint64_t)map_bytes[i], 1);
}

static void add_golden_map(gguf_build *b)
{
    add_golden_unknown(b);
    add_map(b);
}

static void add_plain(gguf_build *b)
{
    add_golden_unknown(b);
    add_flags(b, 0, 0);
}

static void test_golden(void **state)
{
    (void)state;
    scored_build like = { .model = "t5", .add = add_plain, .n_added = 3 };
    check_golden(&like, "unigram_plain_tokens.txt", "unigram_plain_ids.txt", 483, false);
    read_map();
    like.add = add_golden_map;
    like.n_added = 4;
    check_golden(&like, "unigram_tokens.txt", "unigram_ids.txt", 491, false);
}

/* ---- damage ------------------------------------------------------------------------------ */

static cera_status open_with_map(cera_vocab **out, cera_error *err)
{
    scored_build v = base;
    v.add = add_map;
    v.n_added = 3;
    gguf_build b;
    build_scored(&b, &v);
    cera_source source = { .data = b.data, .n_data = b.size };
    *out = NULL;
    cera_status status = cera_vocab_open(&source, NULL, out, err);
    build_done(&b);
    return status;
}

static void test_bad_maps(void **state)
{
    (void)state;
    cera_vocab *v;
    cera_error err;
    read_map();
    size_t n_whole = n_map, n_trie = (size_t)(map_bytes[0] | map_bytes[1] << 8);
    static const size_t short_sizes[] = { 1, 3, 4, 5, 100 };
    for (size_t i = 0; i < CR_COUNT(short_sizes); i++) {
        n_map = short_sizes[i];
        assert_int_equal(open_with_map(&v, &err), CERA_E_FORMAT);
        assert_non_null(strstr(err.message, "precompiled_charsmap: a trie of"));
    }
    n_map = 4 + n_trie; /* no texts */
    assert_int_equal(open_with_map(&v, &err), CERA_E_FORMAT);
    n_map = n_whole - 1; /* the last one is open */
    assert_int_equal(open_with_map(&v, &err), CERA_E_FORMAT);
    assert_non_null(strstr(err.message, "its last text has no end"));
    n_map = 0; /* is none */
    assert_int_equal(open_with_map(&v, &err), CERA_OK);
    cera_vocab_free(v);
    n_map = n_whole + 300;
    for (size_t i = n_whole; i < n_map; i++)
        map_bytes[i] = i + 1 < n_map ? 'x' : 0;
    assert_int_equal(open_with_map(&v, &err), CERA_E_LIMIT);
    n_map = n_whole;
    map_bytes[0]++; /* not whole units */
    assert_int_equal(open_with_map(&v, &err), CERA_E_FORMAT);

    /* Any one byte of the trie wrong: a text may then be refused, and nothing worse happens. */
    size_t n_refused = 0;
    for (size_t at = 4; at < 4 + n_trie; at++) {
        read_map();
        map_bytes[at] ^= 0x7f;
        assert_int_equal(open_with_map(&v, &err), CERA_OK);
        for (int c = 0; c < 128; c++) {
            char text[] = { (char)c, 'e', (char)0xcc, (char)0x81, (char)0xef, (char)0xbc, (char)c };
            int32_t *ids;
            size_t n;
            cera_status status = cera_vocab_encode(v, text, sizeof text, NULL, &ids, &n, &err);
            if (status == CERA_OK) {
                cera_vocab_free_ids(v, ids, n);
                continue;
            }
            assert_int_equal(status, CERA_E_FORMAT);
            assert_non_null(strstr(err.message, "precompiled_charsmap: the trie leads out"));
            n_refused++;
        }
        cera_vocab_free(v);
    }
    assert_true(n_refused > 0);
}

static void test_bad_scores(void **state)
{
    (void)state;
    scored_token list[CR_COUNT(tokens)];
    memcpy(list, tokens, sizeof list);
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    for (size_t i = 0; i < CR_COUNT(bad); i++) {
        list[6].score = bad[i];
        scored_build v = base;
        v.tokens = list;
        gguf_build b;
        build_scored(&b, &v);
        cera_source source = { .data = b.data, .n_data = b.size };
        cera_vocab *vocab = NULL;
        cera_error err;
        assert_int_equal(cera_vocab_open(&source, NULL, &vocab, &err), CERA_E_FORMAT);
        assert_non_null(strstr(err.message, "scores[6]: expected a finite number"));
        build_done(&b);
    }
}

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
    memcpy(text, "ab\xc3\xa9s! a \xff", 10);
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
    read_map();
    scored_build v = base;
    v.add = add_map;
    v.n_added = 3;
    gguf_build b;
    build_scored(&b, &v);
    cera_source source = { .data = b.data, .n_data = b.size };
    for (int mode = FAULT_ONCE; mode <= FAULT_STICKY; mode++)
        vocab_fail_each_allocation((fault_mode)mode, &source, work);
    build_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),       cmocka_unit_test(test_blanks),
        cmocka_unit_test(test_golden),     cmocka_unit_test(test_bad_maps),
        cmocka_unit_test(test_bad_scores), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* WordPiece vocabularies (kind bert): words by hand, ids against Hugging Face's tokenizers, failing
 * memory. Skipped where the library was built without utf8proc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scored_golden.h"
#include "support/vocab_memory.h"

#define WORD "\xe2\x96\x81" /* begins the tokens that begin words */

static const scored_token tokens[] = {
    { "[UNK]", 0, 3 },             /* 0 */
    { "[CLS]", 0, 3 },             /* 1 */
    { "[SEP]", 0, 3 },             /* 2 */
    { WORD "cafe", 0, 1 },         /* 3 */
    { "s", 0, 1 },                 /* 4 */
    { WORD "!", 0, 1 },            /* 5 */
    { WORD "caf", 0, 1 },          /* 6 */
    { "es", 0, 1 },                /* 7 */
    { WORD "a", 0, 1 },            /* 8 */
    { "a", 0, 1 },                 /* 9 */
    { WORD "\xe4\xb8\xad", 0, 1 }, /* 10 */
    { WORD "caf\xc3\xa9", 0, 1 },  /* 11: with its accent */
    { WORD "Cafe", 0, 1 },         /* 12: with its capital */
};

static void add_ids(gguf_build *b)
{
    build_key_u32(b, "tokenizer.ggml.unknown_token_id", 0);
    build_key_u32(b, "tokenizer.ggml.cls_token_id", 1);
    build_key_u32(b, "tokenizer.ggml.seperator_token_id", 2);
}

static void add_cased(gguf_build *b)
{
    add_ids(b);
    build_key_number(b, "tokenizer.ggml.normalizer.lowercase", 7, 0, 1);
}

static const scored_build base = {
    .model = "bert",
    .tokens = tokens,
    .n_tokens = sizeof tokens / sizeof tokens[0],
    .add = add_ids,
    .n_added = 3,
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
    if (n != n_expected || (n > 0 && memcmp(ids, expected, n * sizeof *ids) != 0))
        fail_msg("\"%s\"", text);
    cera_vocab_free_ids(vocab, ids, n);
}

#define CHECK(vocab, text, ...) check(vocab, text, false, (const int32_t[]){ __VA_ARGS__, -1 })

static void test_words(void **state)
{
    (void)state;
    cera_vocab *v = open_scored(&base);
    CHECK(v, "", -1);
    CHECK(v, " \n\t ", -1);
    CHECK(v, "cafe", 3);
    CHECK(v, "Caf\xc3\xa9s!", 3, 4, 5);
    CHECK(v, "Cafe\xcc\x81s", 3, 4); /* the accent as a character of its own */
    CHECK(v, "cafes !!", 3, 4, 5, 5);
    /* The longest token first, and no way back from it. */
    CHECK(v, "cafe cafx a aa", 3, 0, 8, 8, 9);
    CHECK(v,
          "a\xe4\xb8\xad"
          "a",
          8, 10, 8);
    CHECK(v,
          "a\xef\xbf\xbd\x01\xe2\x80\x8d"
          "a",
          8, 9); /* dropped */
    CHECK(v,
          "a\xc2\xa0"
          "a\xff",
          8, 8);
    CHECK(v, "[CLS]", 0, 0, 0);
    check(v, "a", true, (const int32_t[]){ 1, 8, 2, -1 });
    check(v, "[CLS]a", true, (const int32_t[]){ 1, 8, 2, -1 });

    /* A word of 100 characters, and of one more. */
    char text[102];
    memset(text, 'a', sizeof text);
    text[101] = '\0';
    CHECK(v, text, 0);
    int32_t ids[101] = { 8 };
    for (int i = 1; i < 100; i++)
        ids[i] = 9;
    ids[100] = -1;
    text[100] = '\0';
    check(v, text, false, ids);
    cera_vocab_free(v);

    scored_build cased = base;
    cased.add = add_cased;
    cased.n_added = 4;
    v = open_scored(&cased);
    CHECK(v, "Cafe caf\xc3\xa9 cafe", 12, 11, 3);
    cera_vocab_free(v);
}

static void test_golden(void **state)
{
    (void)state;
    scored_build like = golden_like("bert");
    check_golden(&like, "wordpiece_tokens.txt", "wordpiece_ids.txt", 400, false);
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
    memcpy(text, "Caf\xc3\xa9s! a \xff", 11);
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
    gguf_build b;
    build_scored(&b, &base);
    cera_source source = { .data = b.data, .n_data = b.size };
    for (int mode = FAULT_ONCE; mode <= FAULT_STICKY; mode++)
        vocab_fail_each_allocation((fault_mode)mode, &source, work);
    build_done(&b);
}

/* Built without utf8proc, the kind is refused by its name. */
static bool is_built(void)
{
    gguf_build b;
    build_scored(&b, &base);
    cera_source source = { .data = b.data, .n_data = b.size };
    cera_vocab *vocab = NULL;
    cera_status status = cera_vocab_open(&source, NULL, &vocab, NULL);
    build_done(&b);
    cera_vocab_free(vocab);
    return status != CERA_E_UNSUPPORTED;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_no_memory),
    };
    if (!is_built()) {
        print_message("skipped: built without utf8proc\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

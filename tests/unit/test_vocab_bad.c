/* Vocabularies that must be refused: each names the key, the element and what was expected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fault_host.h"
#include "support/vocab_build.h"

#include "base/compiler.h"

#define KEY(name) "tokenizer.ggml." name

enum { STRING = 8, NONE = -1 };

/* A vocabulary of three tokens, with one thing wrong. Fields of NULL or NONE leave a key out. */
typedef struct bad {
    const char *name;
    const char *model, *pre;
    int tokens_element, n_tokens; /* element type and count */
    bool repeated;                /* the third token is the first one */
    int types_element, n_types, type;
    int scores_element, n_scores;
    int merges_element;
    const char *merge;
    const char *id_key;
    int id_type; /* value type; STRING writes "x" */
    uint64_t id;
    cera_status status;
    const char *message;
} bad;

#define GOOD                                                                                       \
    .model = "gpt2", .pre = "gpt-2", .tokens_element = STRING, .n_tokens = 3, .types_element = 5,  \
    .n_types = 3, .type = 1, .scores_element = NONE, .merges_element = STRING, .merge = "a b"
#define ONLY3 " below the vocabulary's 3"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
#if defined(__clang__)
#pragma clang diagnostic ignored "-Winitializer-overrides"
#endif
static const bad cases[] = {
    { "good", GOOD, .status = CERA_OK, .message = "" },
    { "no model", GOOD, .model = NULL, .status = CERA_E_FORMAT, .message = KEY("model") },
    { "llama", GOOD, .model = "llama", .status = CERA_OK, .message = "" },
    { "rwkv", GOOD, .model = "rwkv", .status = CERA_E_UNSUPPORTED,
      .message = KEY("model") ": \"rwkv\" is not supported" },
    { "t5 without scores", GOOD, .model = "t5", .status = CERA_E_FORMAT,
      .message = KEY("scores") ": the key is missing" },
    { "rwkv", GOOD, .model = "rwkv", .status = CERA_E_UNSUPPORTED,
      .message = KEY("model") ": \"rwkv\" is not supported" },
    { "empty model", GOOD, .model = "", .status = CERA_E_UNSUPPORTED,
      .message = KEY("model") ": \"\" is not supported" },
    { "unknown pre", GOOD, .pre = "no-such-rule", .status = CERA_E_UNSUPPORTED,
      .message = KEY("pre") ": \"no-such-rule\" is not supported" },
    { "default pre", GOOD, .pre = "default", .status = CERA_OK, .message = "" },
    { "empty pre", GOOD, .pre = "", .status = CERA_E_UNSUPPORTED,
      .message = KEY("pre") ": \"\" is not supported" },
    { "pre with a control byte", GOOD, .pre = "a\nb", .status = CERA_E_UNSUPPORTED,
      .message = KEY("pre") ": \"a\\x0Ab\" is not supported" },

    { "no tokens", GOOD, .tokens_element = NONE, .status = CERA_E_FORMAT,
      .message = KEY("tokens") ": the key is missing" },
    { "tokens of numbers", GOOD, .tokens_element = 0, .status = CERA_E_FORMAT,
      .message = KEY("tokens") ": expected an array of strings" },
    { "empty tokens", GOOD, .n_tokens = 0, .status = CERA_E_FORMAT,
      .message = KEY("tokens") ": expected 1 to 2147483647 elements, found 0" },

    { "a token twice", GOOD, .repeated = true, .status = CERA_E_FORMAT,
      .message = KEY("tokens") "[2]: the same text as [0]" },

    { "no types", GOOD, .types_element = NONE, .status = CERA_OK, .message = "" },
    { "types as u8", GOOD, .types_element = 0, .status = CERA_OK, .message = "" },
    { "types as i64", GOOD, .types_element = 11, .status = CERA_OK, .message = "" },
    { "types as f32", GOOD, .types_element = 6, .status = CERA_E_FORMAT,
      .message = KEY("token_type") ": expected an array of integers" },
    { "too few types", GOOD, .n_types = 2, .status = CERA_E_FORMAT,
      .message = KEY("token_type") ": expected 3 elements, found 2" },
    { "too many types", GOOD, .n_types = 4, .status = CERA_E_FORMAT,
      .message = KEY("token_type") ": expected 3 elements, found 4" },
    { "type 7", GOOD, .type = 7, .status = CERA_E_FORMAT,
      .message = KEY("token_type") "[0]: expected 0 to 6, found 7" },
    { "type -1", GOOD, .type = -1, .status = CERA_E_FORMAT,
      .message = KEY("token_type") "[0]: expected 0 to 6, found -1" },
    { "type 0", GOOD, .type = 0, .status = CERA_OK, .message = "" },

    { "scores as u8", GOOD, .scores_element = 0, .n_scores = 3, .status = CERA_E_FORMAT,
      .message = KEY("scores") ": expected an array of f32" },
    { "too few scores", GOOD, .scores_element = 6, .n_scores = 2, .status = CERA_E_FORMAT,
      .message = KEY("scores") ": expected 3 elements, found 2" },
    { "good scores", GOOD, .scores_element = 6, .n_scores = 3, .status = CERA_OK, .message = "" },

    { "no merges", GOOD, .merges_element = NONE, .status = CERA_E_FORMAT,
      .message = KEY("merges") ": the key is missing" },
    { "merges of numbers", GOOD, .merges_element = 4, .status = CERA_E_FORMAT,
      .message = KEY("merges") ": expected an array of strings" },
    { "merge without a space", GOOD, .merge = "ab", .status = CERA_E_FORMAT,
      .message = KEY("merges") "[1]: expected two tokens and one space, found \"ab\"" },
    { "empty merge", GOOD, .merge = "", .status = CERA_E_FORMAT,
      .message = KEY("merges") "[1]: expected two tokens and one space, found \"\"" },
    { "merge with two spaces", GOOD, .merge = "a b ", .status = CERA_E_FORMAT,
      .message = KEY("merges") "[1]: expected two tokens and one space, found \"a b \"" },
    { "merge of nothing", GOOD, .merge = " ", .status = CERA_E_FORMAT,
      .message = KEY("merges") "[1]: \"\" is not a token" },
    { "unknown left", GOOD, .merge = "c b", .status = CERA_E_FORMAT,
      .message = KEY("merges") "[1]: \"c\" is not a token" },
    { "unknown right", GOOD, .merge = "a c", .status = CERA_E_FORMAT,
      .message = KEY("merges") "[1]: \"c\" is not a token" },
    { "unknown result", GOOD, .merge = "b a", .status = CERA_E_FORMAT,
      .message = KEY("merges") "[1]: \"ba\" is not a token" },

    { "bos at the end", GOOD, .id_key = KEY("bos_token_id"), .id_type = 4, .id = 3,
      .status = CERA_E_FORMAT,
      .message = KEY("bos_token_id") ": expected an id" ONLY3 ", found 3" },
    { "bos of -1", GOOD, .id_key = KEY("bos_token_id"), .id_type = 4, .id = 0xffffffff,
      .status = CERA_E_FORMAT,
      .message = KEY("bos_token_id") ": expected an id" ONLY3 ", found 4294967295" },
    { "bos as text", GOOD, .id_key = KEY("bos_token_id"), .id_type = STRING,
      .status = CERA_E_FORMAT, .message = KEY("bos_token_id") },
    { "bos as i64", GOOD, .id_key = KEY("bos_token_id"), .id_type = 11, .id = 2, .status = CERA_OK,
      .message = "" },
    { "eos", GOOD, .id_key = KEY("eos_token_id"), .id_type = 4, .id = 3, .status = CERA_E_FORMAT,
      .message = KEY("eos_token_id") ": expected an id" ONLY3 ", found 3" },
    { "eot", GOOD, .id_key = KEY("eot_token_id"), .id_type = 4, .id = 9, .status = CERA_E_FORMAT,
      .message = KEY("eot_token_id") ": expected an id" ONLY3 ", found 9" },
    { "eom", GOOD, .id_key = KEY("eom_token_id"), .id_type = 4, .id = 9, .status = CERA_E_FORMAT,
      .message = KEY("eom_token_id") ": expected an id" ONLY3 ", found 9" },
    { "unknown", GOOD, .id_key = KEY("unknown_token_id"), .id_type = 4, .id = 9,
      .status = CERA_E_FORMAT,
      .message = KEY("unknown_token_id") ": expected an id" ONLY3 ", found 9" },
    { "padding", GOOD, .id_key = KEY("padding_token_id"), .id_type = 4, .id = 9,
      .status = CERA_E_FORMAT,
      .message = KEY("padding_token_id") ": expected an id" ONLY3 ", found 9" },
    { "add_bos as number", GOOD, .id_key = KEY("add_bos_token"), .id_type = 4, .id = 1,
      .status = CERA_E_FORMAT, .message = KEY("add_bos_token") },
    { "eog as number", GOOD, .id_key = KEY("eog_token_ids"), .id_type = 4, .id = 1,
      .status = CERA_E_FORMAT, .message = KEY("eog_token_ids") ": expected an array of integers" },
};
#pragma GCC diagnostic pop

static int number_size(int type)
{
    static const int sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    return sizes[type];
}

static void build_numbers(gguf_build *b, const char *key, int element, int n, int value)
{
    build_key_array(b, key, (uint32_t)element, (uint64_t)n);
    for (int i = 0; i < n; i++)
        build_number(b, (uint64_t)(int64_t)value, number_size(element));
}

static void build_strings(gguf_build *b, const char *key, int element, int n,
                          const char *const *texts)
{
    if (element != STRING) {
        build_numbers(b, key, element, n, 1);
        return;
    }
    build_key_array(b, key, STRING, (uint64_t)n);
    for (int i = 0; i < n; i++)
        build_element_text(b, texts[i]);
}

static void build_case(gguf_build *b, const bad *c)
{
    build_init(b);
    build_header(b, 3, 0, 0);
    uint64_t n_keys = 0;
    if (c->model != NULL && ++n_keys)
        build_key_text(b, KEY("model"), c->model);
    if (c->pre != NULL && ++n_keys)
        build_key_text(b, KEY("pre"), c->pre);
    if (c->tokens_element != NONE && ++n_keys)
        build_strings(b, KEY("tokens"), c->tokens_element, c->n_tokens,
                      (const char *const[]){ "a", "b", c->repeated ? "a" : "ab" });
    if (c->types_element != NONE && ++n_keys)
        build_numbers(b, KEY("token_type"), c->types_element, c->n_types, c->type);
    if (c->scores_element != NONE && ++n_keys)
        build_numbers(b, KEY("scores"), c->scores_element, c->n_scores, 0);
    if (c->merges_element != NONE && ++n_keys)
        build_strings(b, KEY("merges"), c->merges_element, 2,
                      (const char *const[]){ "a b", c->merge });
    if (c->id_key != NULL && c->id_type == STRING && ++n_keys)
        build_key_text(b, c->id_key, "x");
    else if (c->id_key != NULL && ++n_keys)
        build_key_number(b, c->id_key, (uint32_t)c->id_type, c->id, number_size(c->id_type));
    build_patch(b, b->marks[3].at, n_keys, 8);
}

static void check_refused(const gguf_build *b, const char *name, cera_status status,
                          const char *message)
{
    fault_host f;
    fault_init(&f);
    cera_vocab *vocab = NULL;
    cera_error err = { .message = "" };
    cera_source source = { .data = b->data, .n_data = b->size };
    cera_vocab_options options;
    cera_vocab_options_init(&options);
    options.host = &f.host;
    cera_status found = cera_vocab_open(&source, &options, &vocab, &err);
    if (found != status || strncmp(err.message, message, strlen(message)) != 0)
        fail_msg("%s: %s: %s", name, cera_status_name(found), err.message);
    assert_int_equal(vocab != NULL, status == CERA_OK);
    cera_vocab_free(vocab);
    assert_null(fault_check(&f));
    fault_done(&f);
}

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        gguf_build b;
        build_case(&b, &cases[i]);
        check_refused(&b, cases[i].name, cases[i].status, cases[i].message);
        build_done(&b);
    }
}

static void add_bad_eog(gguf_build *b)
{
    build_key_array(b, KEY("eog_token_ids"), 5, 2);
    build_number(b, 1, 4);
    build_number(b, 0xffffffff, 4);
}

static void test_eog_ids(void **state)
{
    (void)state;
    vocab_build v = { .model = "gpt2", .pre = "qwen2", .add = add_bad_eog, .n_added = 1 };
    gguf_build b;
    build_vocab(&b, &v);
    check_refused(&b, "eog", CERA_E_FORMAT,
                  KEY("eog_token_ids") "[1]: expected an id below the vocabulary's 256, found -1");
    build_done(&b);
}

/* A special token at the limit of its length, and one byte over it. */
static void test_long_special(void **state)
{
    (void)state;
    for (size_t n = 1024; n <= 1025; n++) {
        char text[1026] = "";
        memset(text, 'x', n);
        vocab_build v = {
            .model = "gpt2", .pre = "qwen2", .tokens = &(vocab_token){ text, 3 }, .n_tokens = 1
        };
        gguf_build b;
        build_vocab(&b, &v);
        check_refused(&b, "long", n == 1024 ? CERA_OK : CERA_E_LIMIT,
                      n == 1024 ? ""
                                : KEY("tokens") "[256]: expected at most 1024 bytes of special "
                                                "token, found 1025");
        build_done(&b);
    }
}

/* A token of a megabyte is a token like any other. */
static void test_long_token(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    char *text = test_malloc(SIZE + 1);
    memset(text, 'x', SIZE);
    text[SIZE] = '\0';
    vocab_build v = {
        .model = "gpt2", .pre = "qwen2", .tokens = &(vocab_token){ text, 1 }, .n_tokens = 1
    };
    gguf_build b;
    build_vocab(&b, &v);
    cera_vocab *vocab = NULL;
    cera_source source = { .data = b.data, .n_data = b.size };
    assert_int_equal(cera_vocab_open(&source, NULL, &vocab, NULL), CERA_OK);
    size_t n;
    const char *piece = cera_vocab_piece(vocab, 256, &n);
    assert_int_equal(n, SIZE);
    assert_memory_equal(piece, text, SIZE);
    cera_vocab_free(vocab);
    build_done(&b);
    test_free(text);
}

/* Every byte of a file changed in two ways: an error or a vocabulary that works, never anything
 * else. */
static void test_mutations(void **state)
{
    (void)state;
    static const vocab_token tokens[] = { { "ab", 1 }, { "<s>", 3 }, { "<t>", 4 } };
    static const char *const merges[] = { "a b" };
    vocab_build v = { .model = "gpt2",
                      .pre = "lfm2",
                      .tokens = tokens,
                      .n_tokens = 3,
                      .merges = merges,
                      .n_merges = 1 };
    gguf_build b;
    build_vocab(&b, &v);
    for (size_t i = 0; i < 2 * b.size; i++) {
        uint8_t *byte = &b.data[i / 2], old = *byte;
        *byte ^= (uint8_t)(i % 2 != 0 ? 0xff : 1 << (i / 2 % 8));
        cera_vocab *vocab = NULL;
        cera_source source = { .data = b.data, .n_data = b.size };
        if (cera_vocab_open(&source, NULL, &vocab, NULL) == CERA_OK) {
            int32_t *ids;
            size_t n;
            if (cera_vocab_encode(vocab, "ab<s><t>\xff", 9, NULL, &ids, &n, NULL) == CERA_OK)
                cera_vocab_free_ids(vocab, ids, n);
            cera_vocab_free(vocab);
        }
        *byte = old;
    }
    build_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),        cmocka_unit_test(test_eog_ids),
        cmocka_unit_test(test_long_special), cmocka_unit_test(test_long_token),
        cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

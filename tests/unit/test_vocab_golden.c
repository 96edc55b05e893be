/* Ids and pieces against Hugging Face's tokenizers: the files of scripts/make-golden-tokens, and
 * the ids in tiny.golden.json. SmolLM2 is read from CERA_SMOLLM2 and skipped without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/token_lines.h"
#include "token/split.h"

#include "cera.h"

enum { MAX_IDS = 4096 };

static FILE *open_data(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", CERA_TEST_DATA, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("%s: cannot be opened", path);
    return file;
}

static cera_vocab *open_vocab(const char *path)
{
    cera_vocab *vocab = NULL;
    cera_error err = { .message = "" };
    if (cera_vocab_open(&(cera_source){ .path = path }, NULL, &vocab, &err) != CERA_OK)
        fail_msg("%s: %s", path, err.message);
    return vocab;
}

static const cera_encode_options *plain(void)
{
    static cera_encode_options options;
    cera_encode_options_init(&options);
    options.add_bos = false;
    return &options;
}

static void print_ids(const char *what, const int32_t *ids, size_t n)
{
    print_error("%s:", what);
    for (size_t i = 0; i < n; i++)
        print_error(" %d", ids[i]);
    print_error("\n");
}

/* The bytes of all ids, end to end, are the text. */
static void check_decodes(const cera_vocab *vocab, const int32_t *ids, size_t n_ids,
                          const token_line *line)
{
    size_t at = 0;
    for (size_t i = 0; i < n_ids; i++) {
        size_t n;
        const char *piece = cera_vocab_piece(vocab, ids[i], &n);
        assert_non_null(piece);
        assert_true(n <= line->n_text - at);
        assert_memory_equal(piece, line->text + at, n);
        at += n;
    }
    assert_int_equal(at, line->n_text);
}

static void check_ids(const char *model, const char *name, size_t n_lines)
{
    cera_vocab *vocab = open_vocab(model);
    FILE *file = open_data(name);
    static token_line line;
    static int32_t expected[MAX_IDS];
    size_t n = 0, n_wrong = 0;
    for (; read_line(file, &line); n++) {
        int32_t *ids = NULL;
        size_t n_ids = 0;
        cera_error err;
        cera_status status =
            cera_vocab_encode(vocab, line.text, line.n_text, plain(), &ids, &n_ids, &err);
        if (strcmp(line.rest, "-") == 0) {
            assert_int_equal(status, CERA_E_UNSUPPORTED);
            assert_non_null(strstr(err.message, "the vocabulary has no token for byte 0x"));
            continue;
        }
        assert_int_equal(status, CERA_OK);
        const char *at = line.rest;
        size_t n_expected = read_numbers(&at, expected, MAX_IDS);
        bool same =
            n_ids == n_expected && (n_ids == 0 || memcmp(ids, expected, n_ids * sizeof *ids) == 0);
        if (!same) {
            print_error("%s:%zu\n", name, n + 1);
            print_ids("expected", expected, n_expected);
            print_ids("found", ids, n_ids);
            n_wrong++;
        }
        check_decodes(vocab, ids, n_ids, &line);
        cera_vocab_free_ids(vocab, ids, n_ids);
    }
    fclose(file);
    cera_vocab_free(vocab);
    assert_int_equal(n, n_lines);
    assert_int_equal(n_wrong, 0);
}

static void test_tiny_ids(void **state)
{
    (void)state;
    check_ids(CERA_TEST_MODELS "/tiny.gguf", "tiny_ids.txt", 400);
}

static void test_smollm2_ids(void **state)
{
    (void)state;
    const char *path = getenv("CERA_SMOLLM2");
    if (path == NULL) {
        print_message("skipped: CERA_SMOLLM2 is not set\n");
        skip();
    }
    check_ids(path, "smollm2_ids.txt", 400);
}

/* The texts and ids of tiny.golden.json, with control tokens in them. */
static void test_tiny_special(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t ids[32];
        size_t n;
    } cases[] = {
        { "<|startoftext|>Once upon a time", { 1, 550, 567, 261, 546 }, 5 },
        { "<|startoftext|><|im_start|>user\nTell me a story about a fox and a lost key.<|im_end|>\n"
          "<|im_start|>assistant\n",
          { 1,   3,   560, 280, 203, 402, 368, 261, 341, 364, 261, 722, 286,
            261, 712, 730, 93,  18,  4,   203, 3,   858, 648, 469, 203 },
          25 },
        { "<|startoftext|><|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\n",
          { 1, 3, 560, 280, 203, 598, 83, 697, 378, 35, 4, 203, 3, 858, 648, 469, 203 },
          17 },
    };
    cera_vocab *vocab = open_vocab(CERA_TEST_MODELS "/tiny.gguf");
    cera_encode_options options;
    cera_encode_options_init(&options);
    assert_true(options.add_bos);
    options.parse_special = true;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t *ids;
        size_t n;
        /* The text brings BOS, so that none is added. */
        assert_int_equal(cera_vocab_encode(vocab, cases[i].text, strlen(cases[i].text), &options,
                                           &ids, &n, NULL),
                         CERA_OK);
        assert_int_equal(n, cases[i].n);
        assert_memory_equal(ids, cases[i].ids, n * sizeof *ids);
        cera_vocab_free_ids(vocab, ids, n);
        /* Without it, BOS is added. */
        const char *rest = cases[i].text + strlen("<|startoftext|>");
        assert_int_equal(cera_vocab_encode(vocab, rest, strlen(rest), &options, &ids, &n, NULL),
                         CERA_OK);
        assert_int_equal(n, cases[i].n);
        assert_memory_equal(ids, cases[i].ids, n * sizeof *ids);
        cera_vocab_free_ids(vocab, ids, n);
    }

    cera_vocab_info info;
    cera_vocab_get_info(vocab, &info);
    assert_int_equal(info.n_tokens, 1024);
    assert_int_equal(info.bos, 1);
    assert_int_equal(info.eos, 4);
    assert_true(info.add_bos);
    assert_false(info.add_eos);
    assert_string_equal(info.pre, "lfm2");
    for (int32_t id = -1; id <= 1024; id++) {
        assert_int_equal(cera_vocab_is_end(vocab, id), id == 2 || id == 4);
        assert_int_equal(cera_vocab_is_control(vocab, id), id >= 0 && id < 5);
        assert_int_equal(cera_vocab_piece(vocab, id, NULL) == NULL, id < 0 || id == 1024);
    }
    cera_vocab_free(vocab);
}

/* ---- pieces of every pre-tokenizer family ---- */

enum { MAX_FAMILIES = 64 };

typedef struct family {
    char name[32];
    cr_split *split;
    cr_split_walk walk;
} family;

/* The families that the first line of the file names. */
static size_t open_families(FILE *file, cr_host *host, family *families)
{
    static char names[4096];
    size_t n = 0;
    assert_non_null(fgets(names, sizeof names, file));
    for (char *name = strtok(names, "# \n"); name != NULL; name = strtok(NULL, "# \n"), n++) {
        assert_true(n < MAX_FAMILIES);
        family *f = &families[n];
        snprintf(f->name, sizeof f->name, "%s", name);
        cr_split_rule rule;
        assert_true(cr_split_find(cr_str_from(name), &rule));
        assert_int_equal(cr_split_new(&rule, host, &f->split, NULL), CERA_OK);
        assert_int_equal(cr_split_begin(&f->walk, f->split, NULL), CERA_OK);
    }
    return n;
}

/* The numbers of the column at *at, or of the one before that it refers to. */
static size_t read_column(const char **at, const char *const *columns, int32_t *out)
{
    if (**at != '=')
        return read_numbers(at, out, MAX_IDS);
    char *end;
    const char *other = columns[strtol(*at + 1, &end, 10)];
    *at = *end == '\t' ? end + 1 : end;
    return read_numbers(&other, out, MAX_IDS);
}

static bool splits_so(cr_split_walk *walk, cr_str text, const int32_t *lengths, size_t n)
{
    bool right = true;
    cr_split_set_text(walk, text);
    for (size_t i = 0; i <= n; i++) {
        cr_str piece;
        assert_int_equal(cr_split_next(walk, &piece, NULL), CERA_OK);
        right = right && piece.size == (i < n ? (size_t)lengths[i] : 0);
    }
    return right;
}

static void test_splits(void **state)
{
    (void)state;
    static family families[MAX_FAMILIES];
    static token_line line;
    static int32_t lengths[MAX_IDS];
    cr_host host;
    assert_int_equal(cr_host_set(&host, NULL, NULL), CERA_OK);
    FILE *file = open_data("token_splits.txt");
    size_t n_families = open_families(file, &host, families);
    size_t n_lines = 0, n_wrong = 0;
    for (; read_line(file, &line); n_lines++) {
        const char *at = line.rest, *columns[MAX_FAMILIES];
        for (size_t i = 0; i < n_families; i++) {
            columns[i] = at;
            if (*at == '-') {
                at += 2;
                continue;
            }
            size_t n = read_column(&at, columns, lengths);
            if (!splits_so(&families[i].walk, (cr_str){ line.text, line.n_text }, lengths, n)) {
                print_error("token_splits.txt:%zu: %s\n", n_lines + 2, families[i].name);
                n_wrong++;
            }
        }
    }
    fclose(file);
    for (size_t i = 0; i < n_families; i++) {
        cr_split_end(&families[i].walk);
        cr_split_free(families[i].split);
    }
    assert_int_equal(n_families, 30);
    assert_int_equal(n_lines, 400);
    assert_int_equal(n_wrong, 0);
    assert_int_equal(cr_host_live(&host), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_tiny_ids),
        cmocka_unit_test(test_tiny_special),
        cmocka_unit_test(test_smollm2_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Merging pieces: against a slow merger written from the definition, on made-up merge tables where
 * later merges may have lower ranks; and in time near linear, on a small stack. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_attr_setstacksize */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "token/merge.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static uint64_t seed = 42;

static uint32_t draw(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

enum { N_MERGES = 60, N_LETTERS = 3 };

typedef struct merge {
    uint32_t left, right, result;
} merge;

typedef struct table {
    merge list[N_MERGES]; /* by rank */
    uint32_t n_ids;
} table;

/* Letters are ids 0..2; each merge joins two ids that exist already, in an order of ranks that has
 * nothing to do with the order of making. */
static void make_table(table *t)
{
    t->n_ids = N_LETTERS;
    for (uint32_t i = 0; i < N_MERGES; i++) {
        uint32_t left = draw(t->n_ids), right = draw(t->n_ids);
        uint32_t result = draw(4) == 0 ? draw(t->n_ids) : t->n_ids++;
        t->list[i] = (merge){ left, right, result };
    }
    for (uint32_t i = N_MERGES - 1; i > 0; i--) {
        uint32_t j = draw(i + 1);
        merge swap = t->list[i];
        t->list[i] = t->list[j];
        t->list[j] = swap;
    }
}

/* Half of the ranks are shared by two merges, as scores may be. */
static uint32_t rank_of(const table *t, const merge *m)
{
    return (uint32_t)(m - t->list) / 2;
}

static const merge *slow_find(const table *t, uint32_t left, uint32_t right)
{
    for (int i = 0; i < N_MERGES; i++)
        if (t->list[i].left == left && t->list[i].right == right)
            return &t->list[i];
    return NULL;
}

/* The definition: as long as there is one, the merge of the lowest rank, leftmost first. */
static size_t slow_encode(const table *t, int32_t *ids, size_t n)
{
    for (;;) {
        const merge *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const merge *m = slow_find(t, (uint32_t)ids[i], (uint32_t)ids[i + 1]);
            if (m != NULL && (best == NULL || rank_of(t, m) < rank_of(t, best))) {
                best = m;
                at = i;
            }
        }
        if (best == NULL)
            return n;
        ids[at] = (int32_t)best->result;
        n--;
        memmove(ids + at + 1, ids + at + 2, (n - at - 1) * sizeof *ids);
    }
}

/* Letters are units, and so are pairs of '~' and a letter; '?' is no token. */
static size_t unit(const void *ctx, cr_str rest, uint32_t *id)
{
    (void)ctx;
    size_t n = rest.data[0] == '~' ? 2 : 1;
    *id = rest.data[0] == '?' ? CR_NO_TOKEN : (uint32_t)(rest.data[n - 1] - 'a');
    return n;
}

static cr_join join(const void *ctx, cr_str piece, const cr_pair *pair)
{
    const table *t = ctx;
    assert_true(pair->begin < pair->end && pair->end <= piece.size);
    if (pair->left == CR_NO_TOKEN || pair->right == CR_NO_TOKEN)
        return (cr_join){ CR_NEVER_JOIN, 0 };
    const merge *m = slow_find(t, pair->left, pair->right);
    return m != NULL ? (cr_join){ rank_of(t, m), m->result } : (cr_join){ CR_NEVER_JOIN, 0 };
}

static cera_status push(void *out, uint32_t id, cr_str bytes, cera_error *err)
{
    (void)err;
    if (id == CR_NO_TOKEN) {
        assert_int_equal(bytes.size, 1);
        assert_int_equal(bytes.data[0], '?');
        id = (uint32_t)-7;
    }
    return cr_buf_append(out, &id, sizeof id) ? CERA_OK : CERA_E_NOMEM;
}

static void test_against_definition(void **state)
{
    (void)state;
    cr_host host;
    assert_int_equal(cr_host_set(&host, NULL, NULL), CERA_OK);
    cr_buf work, ids;
    cr_buf_init(&work, &host, CR_MEM_SCRATCH);
    cr_buf_init(&ids, &host, CR_MEM_SCRATCH);
    for (int round = 0; round < 40; round++) {
        table t;
        make_table(&t);
        const cr_merge_rules rules = {
            .ctx = &t, .unit = unit, .join = join, .out = &ids, .push = push
        };
        for (int k = 0; k < 60; k++) {
            /* Both ways of merging: up to 96 bytes, and more. */
            char text[320];
            int32_t expected[160];
            size_t n = k % 2 == 0 ? 1 + draw(48) : 97 + draw(60), n_text = 0;
            for (size_t i = 0; i < n; i++) {
                uint32_t letter = draw(N_LETTERS);
                bool is_token = k % 3 != 0 || draw(9) != 0;
                if (is_token && draw(3) == 0)
                    text[n_text++] = '~';
                text[n_text++] = is_token ? (char)('a' + letter) : '?';
                expected[i] = is_token ? (int32_t)letter : -7;
            }
            size_t n_expected = slow_encode(&t, expected, n);
            ids.size = 0;
            assert_int_equal(cr_merge(&rules, (cr_str){ text, n_text }, &work, NULL), CERA_OK);
            assert_int_equal(ids.size, n_expected * sizeof *expected);
            assert_memory_equal(ids.data, expected, ids.size);
        }
    }
    cr_buf_done(&work);
    cr_buf_done(&ids);
    assert_int_equal(cr_host_live(&host), 0);
}

/* ---- time and stack, with tiny ---- */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* other load on the machine does not count */
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

typedef struct shape {
    const char *name, *unit;
} shape;

static const shape shapes[] = {
    { "a", "a" },
    { "spaces", " " },
    { "newlines", "\n" },
    { "space and newline", " \n" },
    { "tabs", "\t" },
    { "digits", "1234567890" },
    { "words", "word " },
    { "punctuation", "!" },
    { "apostrophes", "'" },
    { "emoji", "\xf0\x9f\x98\x80" },
    { "han", "\xe6\xbc\xa2\xe5\xad\x97" },
    { "not UTF-8", "\xff\x80\xc3" },
    { "almost special", "<|im_end|<|im_end|" },
    { "special", "<|im_end|>" },
};

/* The least time of three to encode n bytes. */
static double time_of(const cera_vocab *vocab, const char *text, size_t n)
{
    double least = 1e9;
    cera_encode_options options;
    cera_encode_options_init(&options);
    options.parse_special = true;
    for (int i = 0; i < 3; i++) {
        int32_t *ids;
        size_t n_ids;
        double begin = now_ms();
        if (cera_vocab_encode(vocab, text, n, &options, &ids, &n_ids, NULL) != CERA_OK)
            return -1;
        double took = now_ms() - begin;
        least = took < least ? took : least;
        cera_vocab_free_ids(vocab, ids, n_ids);
    }
    return least;
}

enum { SMALL = 1 << 17, FACTOR = 8 };

static void *measure(void *arg)
{
    (void)arg;
    static char text[SMALL * FACTOR];
    cera_vocab *vocab = NULL;
    cera_source source = { .path = CERA_TEST_MODELS "/tiny.gguf" };
    if (cera_vocab_open(&source, NULL, &vocab, NULL) != CERA_OK)
        return "tiny.gguf does not open";
    const char *wrong = NULL;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0] && wrong == NULL; i++) {
        size_t n_unit = strlen(shapes[i].unit);
        for (size_t k = 0; k < sizeof text; k++)
            text[k] = shapes[i].unit[k % n_unit];
        double small = time_of(vocab, text, SMALL);
        double large = time_of(vocab, text, sizeof text);
        /* 8 times is linear, 9.4 is n log n, 64 is quadratic, and seconds; fresh memory costs
         * up to a few dozen ms. */
        if (small < 0 || large < 0 || large > 24 * small + 100)
            wrong = shapes[i].name;
        if (wrong != NULL)
            print_error("%s: %.2f ms, then %.2f ms\n", wrong, small, large);
    }
    cera_vocab_free(vocab);
    return (void *)(uintptr_t)wrong;
}

/* On a thread with 64 KiB of stack, or the least that there is, eight times the text takes about
 * eight times as long. Sanitizers need a stack of their own. */
static void test_linear_on_a_small_stack(void **state)
{
    (void)state;
    pthread_attr_t attr;
    pthread_t thread;
    void *wrong = NULL;
    assert_int_equal(pthread_attr_init(&attr), 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_int_equal(pthread_attr_setstacksize(&attr, CR_MAX(64 << 10, PTHREAD_STACK_MIN)), 0);
#endif
    assert_int_equal(pthread_create(&thread, &attr, measure, NULL), 0);
    pthread_join(thread, &wrong);
    pthread_attr_destroy(&attr);
    if (wrong != NULL)
        fail_msg("%s", (const char *)wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_definition),
        cmocka_unit_test(test_linear_on_a_small_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

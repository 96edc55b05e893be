/* Stop texts in a stream: whatever the pieces, the same bytes come out, each of them once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sample/stop.h"

static cr_host host;

static int set_up(void **state)
{
    (void)state;
    return cr_host_set(&host, NULL, NULL) == CERA_OK ? 0 : -1;
}

typedef struct result {
    char text[4096];
    size_t size;
    bool hit;
} result;

static void show(cr_stop *stop, size_t n, result *out)
{
    assert_true(n <= stop->held.size && out->size + n < sizeof(out->text));
    memcpy(out->text + out->size, stop->held.data, n);
    out->size += n;
    cr_stop_take(stop, n);
}

/* What a generation does with the pieces of its tokens. */
static void stream(const char *const *texts, size_t n_texts, const char *const *pieces,
                   const size_t *sizes, size_t n_pieces, result *out)
{
    cr_stop stop;
    cera_error err;
    assert_int_equal(cr_stop_init(&stop, &host, texts, n_texts, &err), CERA_OK);
    *out = (result){ .size = 0 };
    for (size_t i = 0; i < n_pieces && !out->hit; i++) {
        size_t ready = 0;
        assert_true(cr_stop_push(&stop, pieces[i], sizes[i], &ready, &out->hit));
        show(&stop, ready, out);
    }
    if (!out->hit)
        show(&stop, cr_stop_flush(&stop), out);
    cr_stop_done(&stop);
    out->text[out->size] = 0;
}

static void stream_strings(const char *const *texts, size_t n_texts, const char *const *pieces,
                           size_t n_pieces, result *out)
{
    size_t sizes[16];
    for (size_t i = 0; i < n_pieces; i++)
        sizes[i] = strlen(pieces[i]);
    stream(texts, n_texts, pieces, sizes, n_pieces, out);
}

/* Held text is not lost when the generation ends otherwise. */
static void test_flush(void **state)
{
    (void)state;
    result out;
    stream_strings((const char *[]){ "\n" }, 1, (const char *[]){ "wh", "y?", "\n" }, 3, &out);
    assert_string_equal(out.text, "why?");
    assert_true(out.hit);
    stream_strings((const char *[]){ "ENDX" }, 1, (const char *[]){ "END" }, 1, &out);
    assert_string_equal(out.text, "END");
    assert_false(out.hit);
}

/* Held text is not sent twice when it turns out to be no stop text. */
static void test_once(void **state)
{
    (void)state;
    result out;
    stream_strings((const char *[]){ "\n", "Bob:" }, 2, (const char *[]){ " Bob", "!" }, 2, &out);
    assert_string_equal(out.text, " Bob!");
    assert_false(out.hit);
}

/* Text appears as soon as it is decided, not at the end. */
static void test_prompt_release(void **state)
{
    (void)state;
    cr_stop stop;
    size_t ready = 99;
    bool hit = true;
    assert_int_equal(cr_stop_init(&stop, &host, (const char *[]){ "aab" }, 1, NULL), CERA_OK);
    assert_true(cr_stop_push(&stop, "xyz", 3, &ready, &hit));
    assert_int_equal(ready, 3);
    cr_stop_take(&stop, ready);
    assert_true(cr_stop_push(&stop, "xaa", 3, &ready, &hit));
    assert_false(hit);
    assert_int_equal(ready, 1); /* "aa" may begin it */
    cr_stop_take(&stop, ready);
    assert_true(cr_stop_push(&stop, "a", 1, &ready, &hit));
    assert_int_equal(ready, 1); /* of "aaa" only the last two may */
    cr_stop_take(&stop, ready);
    assert_true(cr_stop_push(&stop, "b", 1, &ready, &hit));
    assert_true(hit);
    assert_int_equal(ready, 0);
    cr_stop_done(&stop);

    assert_int_equal(cr_stop_init(&stop, &host, NULL, 0, NULL), CERA_OK);
    assert_true(cr_stop_push(&stop, "any", 3, &ready, &hit));
    assert_int_equal(ready, 3);
    assert_false(hit);
    cr_stop_done(&stop);
}

typedef struct split_case {
    const char *text, *expected;
    const char *texts[3];
    size_t n_texts;
    bool hit;
} split_case;

/* Every way of cutting a text of up to 12 bytes into pieces: the same answer 2,048 times. */
static void test_every_split(void **state)
{
    (void)state;
    static const split_case cases[] = {
        { "abcabdabcd", "abcabd", { "abcd" }, 1, true },
        { "aaaaab", "aaa", { "aab" }, 1, true },
        { "abababac", "abab", { "abac" }, 1, true },
        { "one two\nthr", "one ", { "two", "\n" }, 2, true },
        { "xabcX yz", "xa", { "abcX", "bc" }, 2, true },    /* the first one that is complete */
        { "xabcX yz", "x", { "abc", "bc", "c" }, 3, true }, /* at once: the longest */
        { "no stop here", "no stop here", { "hereafter", "stops" }, 2, false },
        { "h\xc3\xa9\xe2\x82\xac!", "h\xc3\xa9", { "\xe2\x82\xac" }, 1, true },
        { "h\xc3\xa9\xe2\x82\xac!", "h\xc3\xa9\xe2\x82\xac!", { "\xe2\x82\xad" }, 1, false },
        { "stop", "", { "stop" }, 1, true },
    };
    for (size_t c = 0; c < CR_COUNT(cases); c++) {
        size_t n = strlen(cases[c].text);
        assert_true(n <= 12);
        for (unsigned cuts = 0; cuts < 1u << (n - 1); cuts++) {
            const char *pieces[12];
            size_t sizes[12], n_pieces = 0, begin = 0;
            for (size_t i = 1; i <= n; i++) {
                if (i == n || cuts >> (i - 1) & 1) {
                    pieces[n_pieces] = cases[c].text + begin;
                    sizes[n_pieces++] = i - begin;
                    begin = i;
                }
            }
            result out;
            stream(cases[c].texts, cases[c].n_texts, pieces, sizes, n_pieces, &out);
            assert_string_equal(out.text, cases[c].expected);
            assert_int_equal(out.hit, cases[c].hit);
        }
    }
}

/* A NUL byte in the text is a byte like any other, and not the end of a stop text. */
static void test_nul(void **state)
{
    (void)state;
    result out;
    static const char text[] = { 'a', 'b', 0, 'c', 'd' };
    stream((const char *[]){ "bx" }, 1, (const char *[]){ text }, (const size_t[]){ 5 }, 1, &out);
    assert_int_equal(out.size, 5);
    assert_memory_equal(out.text, text, 5);
    stream((const char *[]){ "b" }, 1, (const char *[]){ text + 1 }, (const size_t[]){ 2 }, 1,
           &out);
    assert_true(out.hit);
    assert_int_equal(out.size, 0);
}

static void test_limits(void **state)
{
    (void)state;
    cr_stop stop;
    cera_error err;
    static char long_text[258];
    memset(long_text, 'x', 257);
    const char *texts[17];
    for (int i = 0; i < 17; i++)
        texts[i] = "x";
    assert_int_equal(cr_stop_init(&stop, &host, texts, 17, &err), CERA_E_ARG);
    assert_int_equal(cr_stop_init(&stop, &host, texts, 16, &err), CERA_OK);
    cr_stop_done(&stop);
    texts[0] = long_text;
    assert_int_equal(cr_stop_init(&stop, &host, texts, 1, &err), CERA_E_ARG);
    texts[0] = long_text + 1; /* 256 bytes */
    result out;
    char text[300];
    memset(text, 'x', sizeof(text));
    text[0] = 'y';
    stream(texts, 1, (const char *[]){ text, text + 20 }, (const size_t[]){ 20, 270 }, 2, &out);
    assert_true(out.hit);
    assert_string_equal(out.text, "y");
    texts[0] = "";
    assert_int_equal(cr_stop_init(&stop, &host, texts, 1, &err), CERA_E_ARG);
    assert_int_equal(cr_host_live(&host), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flush),
        cmocka_unit_test(test_once),
        cmocka_unit_test(test_prompt_release),
        cmocka_unit_test(test_every_split),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}

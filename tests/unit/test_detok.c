/* The streaming detokenizer. Expected values are what Python's bytes.decode("utf-8", "replace")
 * gives, less an unfinished character at the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fault_host.h"
#include "token/detok.h"

#define FFFD "\xef\xbf\xbd"

typedef struct detok_case {
    const char *bytes, *text;
} detok_case;

static const detok_case cases[] = {
    { "", "" },
    { "plain", "plain" },
    { "caf\xc3\xa9", "caf\xc3\xa9" },
    { "\xe6\x97\xa5\xe6\x9c\xac", "\xe6\x97\xa5\xe6\x9c\xac" },
    { "\xf0\x9f\xa6\x99!", "\xf0\x9f\xa6\x99!" },
    { "a\377b", "a" FFFD "b" },
    { "\x80\x80", FFFD FFFD },
    { "\xc0\xaf", FFFD FFFD },               /* overlong */
    { "\xed\xa0\x80x", FFFD FFFD FFFD "x" }, /* a surrogate */
    { "\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD },
    { "\xf0\x9f\x98x", FFFD "x" }, /* one for the part that could have become a character */
    { "\xe6\x97\xe6\x97\xa5", FFFD "\xe6\x97\xa5" },
    { "\xe6\x97\xc3\xa9", FFFD "\xc3\xa9" },
    { "\xf0\x9f\xff", FFFD FFFD },
    { "\xe0\x80\x80", FFFD FFFD FFFD },
    /* an unfinished end is dropped */
    { "hi\xc3", "hi" },
    { "hi\xe6\x97", "hi" },
    { "hi\xf0\x9f\xa6", "hi" },
};

/* Feeds the bytes in steps of `step`; nothing that was given out may be an unfinished character. */
static void check(const detok_case *c, size_t step)
{
    cr_host host;
    assert_int_equal(cr_host_set(&host, NULL, NULL), CERA_OK);
    cr_buf out;
    cr_buf_init(&out, &host, CR_MEM_SCRATCH);
    cr_detok detok;
    cr_detok_init(&detok);
    size_t n = strlen(c->bytes);
    for (size_t i = 0; i < n; i += step) {
        size_t part = CR_MIN(step, n - i);
        assert_true(cr_detok_push(&detok, (cr_str){ c->bytes + i, part }, &out));
        assert_true(detok.n_held <= 3);
        for (size_t at = 0; at < out.size;) {
            uint32_t code;
            size_t length = cr_utf8_decode(out.data + at, out.size - at, &code);
            assert_true(length > 0);
            at += length;
        }
    }
    cr_detok_finish(&detok);
    assert_int_equal(detok.n_held, 0);
    assert_int_equal(out.size, strlen(c->text));
    assert_memory_equal(out.size > 0 ? out.data : "", c->text, out.size);
    cr_buf_done(&out);
    assert_int_equal(cr_host_live(&host), 0);
}

static void test_every_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_COUNT(cases); i++)
        for (size_t step = 1; step <= 6; step++)
            check(&cases[i], step);
}

/* What is complete comes out at once. */
static void test_nothing_is_late(void **state)
{
    (void)state;
    cr_host host;
    assert_int_equal(cr_host_set(&host, NULL, NULL), CERA_OK);
    cr_buf out;
    cr_buf_init(&out, &host, CR_MEM_SCRATCH);
    cr_detok detok;
    cr_detok_init(&detok);
    const char *pieces[] = { "Hello", " \xf0\x9f", "\xa6", "\x99", "!" };
    const size_t sizes[] = { 5, 6, 6, 10, 11 };
    for (size_t i = 0; i < CR_COUNT(pieces); i++) {
        assert_true(cr_detok_push(&detok, cr_str_from(pieces[i]), &out));
        assert_int_equal(out.size, sizes[i]);
    }
    assert_memory_equal(out.data, "Hello \xf0\x9f\xa6\x99!", 11);
    cr_buf_done(&out);
}

static void test_no_memory(void **state)
{
    (void)state;
    fault_host f;
    fault_init(&f);
    cr_host host;
    assert_int_equal(cr_host_set(&host, &f.host, NULL), CERA_OK);
    fault_allocs(&f, 1, FAULT_STICKY);
    cr_buf out;
    cr_buf_init(&out, &host, CR_MEM_SCRATCH);
    cr_detok detok;
    cr_detok_init(&detok);
    assert_false(cr_detok_push(&detok, cr_str_from("text"), &out));
    cr_detok_init(&detok);
    assert_false(cr_detok_push(&detok, cr_str_from("\xff"), &out));
    cr_buf_done(&out);
    assert_null(fault_check(&f));
    fault_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_split),
        cmocka_unit_test(test_nothing_is_late),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

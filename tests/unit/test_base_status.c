/* Errors: names, formatting, escaping, cutting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"

#include <string.h>

static void names_are_those_of_the_header(void **state)
{
    (void)state;
    assert_string_equal(cera_status_name(CERA_OK), "CERA_OK");
    assert_string_equal(cera_status_name(CERA_E_FORMAT), "CERA_E_FORMAT");
    assert_string_equal(cera_status_name(CERA_E_STATE), "CERA_E_STATE");
    assert_string_equal(cera_status_name((cera_status)10), "CERA_E_?");
    assert_string_equal(cera_status_name((cera_status)-1), "CERA_E_?");
}

static void fail_formats_and_returns_the_status(void **state)
{
    (void)state;
    cera_error err = { CERA_OK, "untouched" };
    assert_int_equal(cr_fail(&err, CERA_E_LIMIT, "%s: expected %zu, found %d", "n", (size_t)7, -1),
                     CERA_E_LIMIT);
    assert_int_equal(err.status, CERA_E_LIMIT);
    assert_string_equal(err.message, "n: expected 7, found -1");
    assert_int_equal(cr_fail(NULL, CERA_E_IO, "nobody listens"), CERA_E_IO);

    assert_int_equal(cr_fail_nomem(&err, 4096, "pages"), CERA_E_NOMEM);
    assert_string_equal(err.message, "pages: out of memory (4096 bytes)");
}

static void fail_in_puts_a_subject_before(void **state)
{
    (void)state;
    cera_error err;
    cr_fail(&err, CERA_E_FORMAT, "expected %d", 3);
    assert_int_equal(cr_fail_in(&err, CERA_E_FORMAT, "a\nb.gguf"), CERA_E_FORMAT);
    assert_string_equal(err.message, "a\\x0Ab.gguf: expected 3");
    /* What is already escaped is not escaped again. */
    cr_fail_in(&err, CERA_E_FORMAT, "x");
    assert_string_equal(err.message, "x: a\\x0Ab.gguf: expected 3");
    assert_int_equal(cr_fail_in(NULL, CERA_E_IO, "x"), CERA_E_IO);
}

static void control_and_broken_bytes_are_escaped(void **state)
{
    (void)state;
    static const struct {
        const char *raw, *shown;
    } cases[] = {
        { "tab\there", "tab\\x09here" },
        { "\x1b[31mred", "\\x1B[31mred" },
        { "del\x7f", "del\\x7F" },
        { "\xc2\x9b[m", "\\xC2\\x9B[m" },               /* U+009B, CSI in one character */
        { "\xc2\xa0", "\xc2\xa0" },                     /* U+00A0 is not a control */
        { "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" }, /* "grüß" */
        { "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },     /* U+1F600 */
        { "\xff\xfe", "\\xFF\\xFE" },
        { "\xc0\x80", "\\xC0\\x80" },          /* overlong NUL */
        { "\xed\xa0\x80", "\\xED\\xA0\\x80" }, /* surrogate */
        { "cut \xe2\x82", "cut \\xE2\\x82" },  /* two bytes of three */
        { "100%% back\\slash", "100%% back\\slash" },
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        cera_error err;
        cr_fail(&err, CERA_E_FORMAT, "%s", cases[i].raw);
        assert_string_equal(err.message, cases[i].shown);
    }
}

/* Every length around the edge, with characters of 1, 2, 3 and 4 bytes and an escape there. */
static void long_messages_are_cut_between_characters(void **state)
{
    (void)state;
    static const char *const tails[] = { "z", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                         "\x01" };
    for (size_t t = 0; t < CR_COUNT(tails); t++) {
        size_t n_tail = strlen(tails[t]);
        size_t n_shown = tails[t][0] == '\x01' ? 4 : n_tail;
        for (size_t n = 480; n < 530; n++) {
            char raw[600];
            memset(raw, 'a', n);
            memcpy(raw + n, tails[t], n_tail + 1);

            cera_error err;
            memset(&err, 'X', sizeof err);
            cr_fail(&err, CERA_E_FORMAT, "%s", raw);
            size_t size = strlen(err.message);
            if (n + n_shown <= sizeof err.message - 1) {
                assert_int_equal(size, n + n_shown);
                assert_memory_equal(err.message + n, n_shown == n_tail ? tails[t] : "\\x01",
                                    n_shown);
            } else {
                assert_in_range(size, sizeof err.message - 8, sizeof err.message - 1);
                assert_memory_equal(err.message + size - 4, "a...", 4);
            }
        }
    }
}

static cera_status forwards(cera_status inner, bool *after)
{
    CR_TRY(inner);
    *after = true;
    return CERA_OK;
}

static void try_forwards_failures_only(void **state)
{
    (void)state;
    bool after = false;
    assert_int_equal(forwards(CERA_E_IO, &after), CERA_E_IO);
    assert_false(after);
    assert_int_equal(forwards(CERA_OK, &after), CERA_OK);
    assert_true(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_the_header),
        cmocka_unit_test(fail_formats_and_returns_the_status),
        cmocka_unit_test(fail_in_puts_a_subject_before),
        cmocka_unit_test(control_and_broken_bytes_are_escaped),
        cmocka_unit_test(long_messages_are_cut_between_characters),
        cmocka_unit_test(try_forwards_failures_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Text: UTF-8 against the tables of the Unicode standard, the buffer, numbers, hashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text.h"
#include "support/fault_host.h"

static void characters_at_the_edges(void **state)
{
    (void)state;
    static const struct {
        uint32_t code;
        const char *bytes;
    } cases[] = {
        { 0x41, "A" },
        { 0x7f, "\x7f" },
        { 0x80, "\xc2\x80" },
        { 0x7ff, "\xdf\xbf" },
        { 0x800, "\xe0\xa0\x80" },
        { 0x20ac, "\xe2\x82\xac" },
        { 0xd7ff, "\xed\x9f\xbf" },
        { 0xe000, "\xee\x80\x80" },
        { 0xffff, "\xef\xbf\xbf" },
        { 0x10000, "\xf0\x90\x80\x80" },
        { 0x1f600, "\xf0\x9f\x98\x80" },
        { 0x10ffff, "\xf4\x8f\xbf\xbf" },
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        size_t n = strlen(cases[i].bytes);
        char out[4];
        uint32_t code = 0;
        assert_int_equal(cr_utf8_encode(cases[i].code, out), n);
        assert_memory_equal(out, cases[i].bytes, n);
        assert_int_equal(cr_utf8_decode(cases[i].bytes, n, &code), n);
        assert_int_equal(code, cases[i].code);
        /* Bytes after the character do not matter, missing ones do. */
        for (size_t k = 1; k < n; k++) {
            assert_int_equal(cr_utf8_decode(cases[i].bytes, k, &code), 0);
            assert_true(cr_utf8_is_open(cases[i].bytes, k));
        }
        assert_false(n > 1 && cr_utf8_is_open(cases[i].bytes, n));
    }
    uint32_t nul = 1;
    assert_int_equal(cr_utf8_decode("\0x", 2, &nul), 1);
    assert_int_equal(nul, 0);
}

static void every_code_point_comes_back(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        if (code >= 0xd800 && code <= 0xdfff)
            continue;
        char out[4];
        uint32_t back = UINT32_MAX;
        size_t n = cr_utf8_encode(code, out);
        if (cr_utf8_decode(out, n, &back) != n || back != code)
            fail_msg("U+%04X does not come back", code);
    }
}

/* How many byte strings of each length are one character. There are 1,920 code points of two bytes,
 * 65,536 - 2,048 - 2,048 of three and 1,048,576 of four; so anything overlong, a surrogate or too
 * large that slipped through would change the count. */
static void nothing_else_is_a_character(void **state)
{
    (void)state;
    size_t n_of[5] = { 0 };
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            char text[4] = { (char)a, (char)b, 0, 0 };
            uint32_t code;
            if (b == 0)
                n_of[1] += cr_utf8_decode(text, 1, &code) == 1;
            n_of[2] += cr_utf8_decode(text, 2, &code) == 2;
            for (unsigned c = 0; c < 256; c++) {
                text[2] = (char)c;
                n_of[3] += cr_utf8_decode(text, 3, &code) == 3;
            }
            if (a < 0xf0)
                continue;
            for (unsigned c = 0x7f; c <= 0xc0; c++) {
                text[2] = (char)c;
                for (unsigned d = 0x7f; d <= 0xc0; d++) {
                    text[3] = (char)d;
                    n_of[4] += cr_utf8_decode(text, 4, &code) == 4;
                }
            }
        }
    }
    assert_int_equal(n_of[1], 128);
    assert_int_equal(n_of[2], 1920);
    assert_int_equal(n_of[3], 61440);
    assert_int_equal(n_of[4], 1048576);
}

/* Open means: some bytes make it a character. Continuation bytes 80 and BF stand for all, except in
 * second place, where all are tried. */
static bool can_be_completed(const char *start, size_t n)
{
    static const char ends[] = { '\x80', '\xbf' };
    uint32_t code;
    char text[4];
    memcpy(text, start, n);
    for (unsigned b = 0; b < 256; b++) {
        if (n == 1)
            text[1] = (char)b;
        else if (b > 0)
            break;
        for (size_t c = 0; c < 2; c++) {
            if (n < 3)
                text[2] = ends[c];
            for (size_t d = 0; d < 2; d++) {
                text[3] = ends[d];
                for (size_t k = n + 1; k <= 4; k++)
                    if (cr_utf8_decode(text, k, &code) == k)
                        return true;
            }
        }
    }
    return false;
}

static void open_means_can_be_completed(void **state)
{
    (void)state;
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            char text[4] = { (char)a, (char)b, '\x80', 0 };
            uint32_t code;
            for (size_t n = b == 0 ? 1 : 2; n <= 3; n++)
                if (cr_utf8_decode(text, n, &code) == 0 &&
                    cr_utf8_is_open(text, n) != can_be_completed(text, n))
                    fail_msg("%02X %02X 80, first %zu", a, b, n);
        }
    }
    assert_false(cr_utf8_is_open("\xe2\x82(", 3));
    assert_false(cr_utf8_is_open("\x80", 1));
}

static void buffer_grows_and_keeps_its_bytes(void **state)
{
    (void)state;
    fault_host f;
    fault_init(&f);
    cr_host host;
    assert_int_equal(cr_host_set(&host, &f.host, NULL), CERA_OK);
    cr_buf buf;
    cr_buf_init(&buf, &host, CR_MEM_SCRATCH);
    assert_true(cr_buf_append(&buf, NULL, 0));
    for (uint32_t i = 0; i < 10000; i++)
        assert_true(cr_buf_append(&buf, &i, sizeof i));
    assert_int_equal(buf.size, 40000);
    for (uint32_t i = 0; i < 10000; i++) {
        uint32_t v;
        memcpy(&v, buf.data + i * sizeof v, sizeof v);
        assert_int_equal(v, i);
    }
    /* 64 bytes doubled to 65,536: linear in total. */
    assert_true(fault_calls(&f, FAULT_ALLOC) <= 12);
    assert_int_equal(cr_host_live(&host), buf.room);
    assert_false(cr_buf_reserve(&buf, SIZE_MAX - 100));
    assert_int_equal(buf.size, 40000);

    /* A failed append changes nothing. */
    size_t room = buf.room;
    fault_allocs(&f, 1, FAULT_STICKY);
    while (buf.size < room)
        assert_true(cr_buf_append(&buf, "x", 1));
    assert_false(cr_buf_append(&buf, "y", 1));
    assert_int_equal(buf.size, room);
    assert_int_equal(buf.data[room - 1], 'x');
    cr_buf_done(&buf);
    cr_buf_done(&buf); /* done twice is done */
    assert_int_equal(cr_host_live(&host), 0);
    assert_null(fault_check(&f));
    fault_done(&f);
}

static void numbers_are_digits_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        { "0", 0 },
        { "-0", 0 },
        { "7", 7 },
        { "007", 7 },
        { "-42", -42 },
        { "9223372036854775807", INT64_MAX },
        { "-9223372036854775808", INT64_MIN },
        { "00000000000000000000000000000009223372036854775807", INT64_MAX },
    };
    for (size_t i = 0; i < CR_COUNT(good); i++) {
        int64_t value = 1;
        assert_true(cr_parse_i64(cr_str_from(good[i].text), &value));
        assert_true(value == good[i].value);
    }
    static const char *const bad[] = { "",
                                       "-",
                                       "+1",
                                       " 1",
                                       "1 ",
                                       "1.0",
                                       "1e3",
                                       "0x10",
                                       "--1",
                                       "1-",
                                       "nan",
                                       "9223372036854775808",
                                       "-9223372036854775809",
                                       "99999999999999999999",
                                       "18446744073709551616",
                                       "\xd9\xa1" };
    for (size_t i = 0; i < CR_COUNT(bad); i++) {
        int64_t value = 1234;
        assert_false(cr_parse_i64(cr_str_from(bad[i]), &value));
        assert_int_equal(value, 1234);
    }
    int64_t value = 1234;
    assert_false(cr_parse_i64((cr_str){ "1\0"
                                        "2",
                                        3 },
                              &value));
    assert_true(cr_parse_i64((cr_str){ "123456", 3 }, &value));
    assert_int_equal(value, 123);
}

/* XXH3 with 64 bits and seed 0 has a stable definition; these are its values for no bytes and for
 * "abc". */
static void hash_is_xxh3(void **state)
{
    (void)state;
    assert_true(cr_hash(NULL, 0) == UINT64_C(0x2d06800538d394c2));
    assert_true(cr_hash("abc", 3) == UINT64_C(0x78af5f94892f3950));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_at_the_edges),
        cmocka_unit_test(every_code_point_comes_back),
        cmocka_unit_test(nothing_else_is_a_character),
        cmocka_unit_test(open_means_can_be_completed),
        cmocka_unit_test(buffer_grows_and_keeps_its_bytes),
        cmocka_unit_test(numbers_are_digits_and_nothing_else),
        cmocka_unit_test(hash_is_xxh3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

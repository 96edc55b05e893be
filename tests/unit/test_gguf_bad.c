/* GGUF files that must be refused: named cases, then every prefix and every flipped bit of a small
 * file. Each is opened in a block of its exact size, so that a sanitizer sees a step outside; must
 * end in the expected status with a message that names the key, the tensor or the byte; must leave
 * no memory behind; and must not use more than 4 times the header and 1 MiB meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "support/fault_host.h"
#include "support/gguf_build.h"
#include "support/gguf_walk.h"

static size_t n_cases;

/* Opens bytes[0, n); the message goes to err. Checks the balance of memory and its peak. */
static cera_status open_bytes(const uint8_t *bytes, size_t n, const char *name, cera_error *err)
{
    uint8_t *exact = malloc(n > 0 ? n : 1);
    assert_non_null(exact);
    if (n > 0)
        memcpy(exact, bytes, n);
    fault_host fault;
    fault_init(&fault);
    cr_host host;
    assert_int_equal(cr_host_set(&host, &fault.host, NULL), CERA_OK);

    cera_source source = { .data = exact, .n_data = n };
    cr_gguf *file = NULL;
    *err = (cera_error){ .status = CERA_OK };
    cera_status status = cr_gguf_open(&source, &host, &file, err);
    if (status == CERA_OK) {
        size_t found;
        walk_file(file, &found);
        if (found != cr_gguf_n_keys(file) + cr_gguf_n_tensors(file))
            fail_msg("%s: lookups found %zu names", name, found);
        cr_gguf_close(file);
    } else {
        if (file != NULL)
            fail_msg("%s: refused, but the output was written", name);
        if (err->status != status || err->message[0] == '\0')
            fail_msg("%s: status %d, error %d \"%s\"", name, status, err->status, err->message);
    }
    if (fault_peak_bytes(&fault) > 4 * n + (1 << 20))
        fail_msg("%s: %zu bytes of memory for a file of %zu", name, fault_peak_bytes(&fault), n);
    const char *misuse = fault_check(&fault);
    if (misuse != NULL)
        fail_msg("%s: %s", name, misuse);
    fault_done(&fault);
    free(exact);
    return status;
}

static void expect(const gguf_build *b, const char *name, cera_status status, const char *text)
{
    cera_error err;
    cera_status got = open_bytes(b->data, b->size, name, &err);
    if (got != status || strstr(err.message, text) == NULL)
        fail_msg("%s: expected %s \"%s\", got %s \"%s\"", name, cera_status_name(status), text,
                 cera_status_name(got), err.message);
    n_cases++;
}

/* ---- truncated at every field, and inside it ------------------------------------------------- */

static void truncated_at_every_boundary(void **state)
{
    (void)state;
    gguf_build b;
    build_init(&b);
    build_sample(&b, 3);
    size_t whole = b.size, n_marks = b.n_marks;
    for (size_t i = 0; i < n_marks; i++) {
        for (size_t inside = 0; inside < 2; inside++) {
            const build_mark *mark = &b.marks[i];
            char name[128], text[64];
            b.size = mark->at + inside;
            snprintf(name, sizeof name, "truncated %s %s of %s", inside ? "inside" : "before",
                     build_kind_names[mark->kind], mark->subject);
            /* Counts are compared with the size of the file first. */
            size_t room = b.size < 24 ? 0 : b.size - 24;
            if (b.size < 24)
                snprintf(text, sizeof text, "byte %zu", b.size);
            else if (room < 3 * 32)
                snprintf(text, sizeof text, "byte 8: 3 tensors");
            else if (room < 22 * 13)
                snprintf(text, sizeof text, "byte 16: 22 keys");
            else if (mark->kind == BUILD_NAME_SIZE || mark->kind == BUILD_NAME)
                snprintf(text, sizeof text, "byte ");
            else if (mark->kind == BUILD_DATA)
                snprintf(text, sizeof text, "a.f32");
            else
                snprintf(text, sizeof text, "%s", mark->subject);
            /* A value of no bytes has no inside. */
            if (inside && i + 1 < n_marks && b.marks[i + 1].at == mark->at)
                continue;
            expect(&b, name, CERA_E_FORMAT, text);
        }
    }
    b.size = whole;
    build_done(&b);
}

/* ---- sizes and counts that lie --------------------------------------------------------------- */

static void sizes_that_lie(void **state)
{
    (void)state;
    gguf_build b;
    build_init(&b);
    build_sample(&b, 3);
    const struct {
        const char *name;
        uint64_t value;
    } lies[] = {
        { "2^63", (uint64_t)1 << 63 }, { "2^64-1", UINT64_MAX },      { "2^64-9", UINT64_MAX - 8 },
        { "2^48-1", 0xffffffffffffu }, { "2^32", (uint64_t)1 << 32 }, { "the file's size", b.size },
    };
    for (size_t i = 0; i < b.n_marks; i++) {
        const build_mark *mark = &b.marks[i];
        if (mark->kind != BUILD_N_TENSORS && mark->kind != BUILD_N_KEYS &&
            mark->kind != BUILD_NAME_SIZE && mark->kind != BUILD_STRING_SIZE &&
            mark->kind != BUILD_ARRAY_COUNT && mark->kind != BUILD_ELEMENT_SIZE)
            continue;
        for (size_t l = 0; l < CR_COUNT(lies); l++) {
            char name[128], text[64];
            uint8_t saved[8];
            memcpy(saved, b.data + mark->at, 8);
            build_patch(&b, mark->at, lies[l].value, 8);
            snprintf(name, sizeof name, "%s of %s is %s", build_kind_names[mark->kind],
                     mark->subject, lies[l].name);
            if (mark->kind == BUILD_N_TENSORS || mark->kind == BUILD_N_KEYS ||
                mark->kind == BUILD_NAME_SIZE)
                snprintf(text, sizeof text, "byte %zu: ", mark->at);
            else
                snprintf(text, sizeof text, "%s: ", mark->subject);
            expect(&b, name, CERA_E_FORMAT, text);
            memcpy(b.data + mark->at, saved, 8);
        }
    }
    build_done(&b);
}

/* ---- one number replaced in the sample ------------------------------------------------------- */

static void numbers_that_cannot_be(void **state)
{
    (void)state;
    static const struct {
        const char *subject;
        build_kind kind;
        int extra; /* bytes after the start of the field */
        uint64_t value;
        int n_bytes;
        cera_status status;
        const char *text;
    } cases[] = {
        { "", BUILD_MAGIC, 0, 0x67676c66, 4, CERA_E_FORMAT, "byte 0: not a GGUF file" },
        { "", BUILD_MAGIC, 0, 0x47475546, 4, CERA_E_UNSUPPORTED, "big-endian" },
        { "", BUILD_MAGIC, 0, 0, 4, CERA_E_FORMAT, "found 00 00 00 00" },
        { "", BUILD_MAGIC, 0, 0x04034b50, 4, CERA_E_FORMAT, "found 50 4b 03 04" },
        { "", BUILD_MAGIC, 0, 0x46554746, 4, CERA_E_FORMAT, "byte 0" },
        { "", BUILD_MAGIC, 0, 0, 0, CERA_OK, "" }, /* the sample itself is right */
        { "", BUILD_VERSION, 0, 0, 4, CERA_E_UNSUPPORTED, "byte 4: unknown GGUF version 0" },
        { "", BUILD_VERSION, 0, 1, 4, CERA_E_UNSUPPORTED, "convert the model again" },
        { "", BUILD_VERSION, 0, 4, 4, CERA_E_UNSUPPORTED, "byte 4: unknown GGUF version 4" },
        { "", BUILD_VERSION, 0, UINT32_MAX, 4, CERA_E_UNSUPPORTED, "byte 4" },
        { "", BUILD_VERSION, 0, 0x03000000, 4, CERA_E_UNSUPPORTED, "big-endian" },
        { "", BUILD_VERSION, 0, 0x02000000, 4, CERA_E_UNSUPPORTED, "big-endian" },
        { "", BUILD_N_TENSORS, 0, 2, 8, CERA_OK, "" }, /* one fewer: its info is padding */
        { "", BUILD_N_TENSORS, 0, UINT64_MAX / 376 + 1, 8, CERA_E_FORMAT, "byte 8" },
        { "", BUILD_N_TENSORS, 0, INT64_MAX, 8, CERA_E_FORMAT, "byte 8" },
        { "", BUILD_N_TENSORS, 0, 4, 8, CERA_E_FORMAT, "byte " },
        { "", BUILD_N_KEYS, 0, 23, 8, CERA_E_FORMAT, "the name of tensor 0" },
        { "", BUILD_N_KEYS, 0, 21, 8, CERA_E_FORMAT, "k.none: 9 dimensions" },

        { "k.u8", BUILD_NAME_SIZE, 0, 0, 8, CERA_E_FORMAT, "has an empty name" },
        { "b.q8_0", BUILD_NAME_SIZE, 0, 0, 8, CERA_E_FORMAT, "tensor 1 has an empty name" },
        { "k.u8", BUILD_NAME, 2, 0, 1, CERA_E_FORMAT, "key 2 has a NUL byte" },
        { "b.q8_0", BUILD_NAME, 0, 0, 1, CERA_E_FORMAT, "tensor 1 has a NUL byte" },
        { "k.u16", BUILD_NAME, 2, 'i', 1, CERA_E_FORMAT, "k.i16: the file has this key twice" },
        { "k.i8", BUILD_NAME, 2, 'u', 1, CERA_E_FORMAT, "k.u8: the file has this key twice" },

        { "k.u8", BUILD_VALUE_TYPE, 0, 13, 4, CERA_E_FORMAT, "k.u8: unknown value type 13" },
        { "k.u8", BUILD_VALUE_TYPE, 0, 255, 4, CERA_E_FORMAT, "k.u8: unknown value type 255" },
        { "k.f64", BUILD_VALUE_TYPE, 0, UINT32_MAX, 4, CERA_E_FORMAT, "k.f64: unknown value type" },
        { "k.none", BUILD_VALUE_TYPE, 0, 256, 4, CERA_E_FORMAT, "k.none: unknown value type 256" },
        { "k.texts", BUILD_ELEMENT_TYPE, 0, 13, 4, CERA_E_FORMAT, "k.texts: unknown element type" },
        { "k.bytes", BUILD_ELEMENT_TYPE, 0, 255, 4, CERA_E_FORMAT, "k.bytes: unknown element" },
        { "k.ints", BUILD_ELEMENT_TYPE, 0, UINT32_MAX, 4, CERA_E_FORMAT,
          "k.ints: unknown element" },
        { "k.texts", BUILD_ELEMENT_TYPE, 0, 9, 4, CERA_E_UNSUPPORTED, "k.texts: nested array" },
        { "k.none", BUILD_ELEMENT_TYPE, 0, 9, 4, CERA_E_UNSUPPORTED, "k.none: nested array" },

        { "general.alignment", BUILD_VALUE, 0, 0, 4, CERA_E_FORMAT, "general.alignment" },
        { "general.alignment", BUILD_VALUE, 0, 3, 4, CERA_E_FORMAT, "general.alignment" },
        { "general.alignment", BUILD_VALUE, 0, 33, 4, CERA_E_FORMAT, "general.alignment" },
        { "general.alignment", BUILD_VALUE, 0, UINT32_MAX, 4, CERA_E_FORMAT, "general.alignment" },
        { "general.alignment", BUILD_VALUE, 0, 1 << 21, 4, CERA_E_LIMIT, "general.alignment" },
        { "general.alignment", BUILD_VALUE, 0, 1u << 31, 4, CERA_E_LIMIT, "general.alignment" },
        { "general.alignment", BUILD_VALUE, 0, 64, 4, CERA_E_FORMAT, "b.q8_0: offset 32 is not" },
        { "general.alignment", BUILD_VALUE_TYPE, 0, 5, 4, CERA_OK, "" }, /* i32 32 converts */
        { "general.alignment", BUILD_VALUE_TYPE, 0, 6, 4, CERA_E_FORMAT, "general.alignment" },

        { "a.f32", BUILD_N_DIMS, 0, 0, 4, CERA_E_FORMAT, "a.f32: 0 dimensions" },
        { "a.f32", BUILD_N_DIMS, 0, 5, 4, CERA_E_FORMAT, "a.f32: 5 dimensions" },
        { "a.f32", BUILD_N_DIMS, 0, 9, 4, CERA_E_FORMAT, "a.f32: 9 dimensions" },
        { "a.f32", BUILD_N_DIMS, 0, UINT32_MAX, 4, CERA_E_FORMAT, "a.f32: 4294967295 dimensions" },
        { "a.f32", BUILD_DIM, 0, 0, 8, CERA_E_FORMAT, "a.f32: dimension 0 is 0" },
        { "a.f32", BUILD_DIM, 8, 0, 8, CERA_E_FORMAT, "a.f32: dimension 1 is 0" },
        { "c.unknown", BUILD_DIM, 0, 0, 8, CERA_E_FORMAT, "c.unknown: dimension 0 is 0" },
        { "a.f32", BUILD_DIM, 0, UINT64_MAX, 8, CERA_E_FORMAT, "a.f32: the number of elements" },
        { "a.f32", BUILD_DIM, 0, (uint64_t)1 << 63, 8, CERA_E_FORMAT, "a.f32: the number of ele" },
        { "a.f32", BUILD_DIM, 0, (uint64_t)1 << 62, 8, CERA_E_FORMAT, "a.f32: its size in bytes" },
        { "a.f32", BUILD_DIM, 0, ((uint64_t)1 << 60) - 4, 8, CERA_E_FORMAT,
          "a.f32: offset 0 + si" },
        { "a.f32", BUILD_DIM, 0, 36, 8, CERA_E_FORMAT, "a.f32: offset 0 + size 288 is past the" },
        { "a.f32", BUILD_DIM, 0, 5, 8, CERA_E_FORMAT, "b.q8_0: overlaps tensor a.f32" },
        { "b.q8_0", BUILD_DIM, 0, 33, 8, CERA_E_FORMAT, "b.q8_0: rows of 33 elements, expected a" },
        { "b.q8_0", BUILD_DIM, 0, 172, 8, CERA_E_FORMAT, "multiple of 32 for Q8_0" },
        { "b.q8_0", BUILD_DIM, 8, 3, 8, CERA_E_FORMAT, "c.unknown: overlaps tensor b.q8_0" },
        { "b.q8_0", BUILD_DIM, 8, (uint64_t)1 << 32, 8, CERA_E_FORMAT, "b.q8_0: offset 32 + size" },
        { "b.q8_0", BUILD_DIM, 8, (uint64_t)1 << 59, 8, CERA_E_FORMAT,
          "b.q8_0: the number of ele" },
        { "b.q8_0", BUILD_DIM, 8, ((uint64_t)1 << 59) - 1, 8, CERA_E_FORMAT,
          "b.q8_0: its size in" },
        { "b.q8_0", BUILD_DIM, 8, (uint64_t)1 << 58, 8, CERA_E_FORMAT, "b.q8_0: offset 32 + size" },
        { "c.unknown", BUILD_DIM, 0, UINT64_MAX, 8, CERA_E_FORMAT, "c.unknown: the number of par" },
        { "b.q8_0", BUILD_TYPE, 0, 12, 4, CERA_E_FORMAT, "multiple of 256 for Q4_K" },
        { "b.q8_0", BUILD_TYPE, 0, 0, 4, CERA_E_FORMAT, "b.q8_0: offset 32 + size 256 is past" },
        { "a.f32", BUILD_TYPE, 0, 2, 4, CERA_E_FORMAT, "a.f32: rows of 4 elements" },
        { "a.f32", BUILD_TYPE, 0, UINT32_MAX, 4, CERA_OK, "" }, /* listed, not computed with */
        { "a.f32", BUILD_OFFSET, 0, 1, 8, CERA_E_FORMAT, "a.f32: offset 1 is not a multiple" },
        { "a.f32", BUILD_OFFSET, 0, 16, 8, CERA_E_FORMAT, "a.f32: offset 16 is not a multiple" },
        { "a.f32", BUILD_OFFSET, 0, 32, 8, CERA_E_FORMAT, "overlaps tensor" },
        { "a.f32", BUILD_OFFSET, 0, 64, 8, CERA_E_FORMAT, "a.f32: overlaps tensor b.q8_0" },
        { "a.f32", BUILD_OFFSET, 0, 128, 8, CERA_E_FORMAT, "a.f32: offset 128 + size 32 is past" },
        { "a.f32", BUILD_OFFSET, 0, (uint64_t)1 << 40, 8, CERA_E_FORMAT, "a.f32: offset 1099511" },
        { "a.f32", BUILD_OFFSET, 0, UINT64_MAX - 31, 8, CERA_E_FORMAT, "a.f32: offset 184467" },
        { "b.q8_0", BUILD_OFFSET, 0, 0, 8, CERA_E_FORMAT, "overlaps tensor" },
        { "b.q8_0", BUILD_OFFSET, 0, 96, 8, CERA_E_FORMAT, "b.q8_0: offset 96 + size 68 is past" },
        { "c.unknown", BUILD_OFFSET, 0, 0, 8, CERA_E_FORMAT, "overlaps tensor" },
        { "c.unknown", BUILD_OFFSET, 0, 64, 8, CERA_E_FORMAT, "c.unknown: overlaps tensor b.q8_0" },
        { "c.unknown", BUILD_OFFSET, 0, 160, 8, CERA_E_FORMAT, "c.unknown: offset 160" },
        { "c.unknown", BUILD_OFFSET, 0, UINT64_MAX - 31, 8, CERA_E_FORMAT, "c.unknown: offset 18" },
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        gguf_build b;
        char name[128];
        build_init(&b);
        build_sample(&b, 3);
        size_t at = build_find(&b, cases[i].subject, cases[i].kind) + (size_t)cases[i].extra;
        build_patch(&b, at, cases[i].value, cases[i].n_bytes);
        snprintf(name, sizeof name, "%s of %s becomes %llu", build_kind_names[cases[i].kind],
                 cases[i].subject, (unsigned long long)cases[i].value);
        expect(&b, name, cases[i].status, cases[i].text);
        build_done(&b);
    }
}

/* ---- files of their own ---------------------------------------------------------------------- */

static void sample_with_swapped_magic(gguf_build *b)
{
    build_sample(b, 3);
    memcpy(b->data, "FUGG", 4);
}

static void nothing_at_all(gguf_build *b)
{
    build_bytes(b, "", 0);
}

static void only_the_magic(gguf_build *b)
{
    build_bytes(b, "GGUF", 4);
}

static void key_of_2_to_the_48(gguf_build *b)
{
    build_header(b, 3, 0, 1);
    build_number(b, 0xFFFFFFFFFFFFu, 8);
    build_bytes(b, "abcdef", 6);
}

static void key_of_nothing_in_37_bytes(gguf_build *b)
{
    build_header(b, 3, 0, 1);
    build_name(b, "", 0);
    build_number(b, 0, 4);
    build_number(b, 1, 1);
}

static void arrays_nested_100000_deep(gguf_build *b)
{
    build_header(b, 3, 0, 1);
    build_key(b, "deep", 9);
    for (int i = 0; i < 100000; i++) {
        build_number(b, 9, 4);
        build_number(b, 1, 8);
    }
}

static void alignment_is_text(gguf_build *b)
{
    build_header(b, 3, 0, 1);
    build_key_text(b, "general.alignment", "32");
}

static void alignment_is_an_array(gguf_build *b)
{
    build_header(b, 3, 0, 1);
    build_key_array(b, "general.alignment", 4, 1);
    build_number(b, 32, 4);
}

static void alignment_is_negative(gguf_build *b)
{
    build_header(b, 3, 0, 1);
    build_key_number(b, "general.alignment", 5, 0xffffffe0u, 4);
}

static void alignment_is_2_to_the_32(gguf_build *b)
{
    build_header(b, 3, 0, 1);
    build_key_number(b, "general.alignment", 10, (uint64_t)1 << 32, 8);
}

static void alignment_is_0_and_nothing_else(gguf_build *b)
{
    build_header(b, 3, 0, 1);
    build_key_u32(b, "general.alignment", 0);
}

static void alignment_twice(gguf_build *b)
{
    build_header(b, 3, 0, 2);
    build_key_u32(b, "general.alignment", 32);
    build_key_u32(b, "general.alignment", 64);
}

static void a_key_twice_far_apart(gguf_build *b)
{
    build_header(b, 3, 0, 1001);
    for (int i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "key.%d", i);
        build_key_number(b, name, 0, 1, 1);
    }
    build_key_text(b, "key.17", "again");
}

static void a_tensor_twice(gguf_build *b)
{
    build_header(b, 3, 3, 0);
    build_tensor(b, "blk.0.attn_q.weight", 0, 0, 1, (uint64_t[]){ 8 });
    build_tensor(b, "blk.0.attn_k.weight", 0, 32, 1, (uint64_t[]){ 8 });
    build_tensor(b, "blk.0.attn_q.weight", 0, 64, 1, (uint64_t[]){ 8 });
    build_data(b, 32, 96);
}

static void part_2_of_3(gguf_build *b)
{
    build_header(b, 3, 0, 3);
    build_key_number(b, "split.no", 2, 1, 2);
    build_key_number(b, "split.count", 2, 3, 2);
    build_key_number(b, "split.tensors.count", 5, 40, 4);
}

static void split_count_is_text(gguf_build *b)
{
    build_header(b, 3, 0, 1);
    build_key_text(b, "split.count", "3");
}

static void all_tensors_at_0(gguf_build *b)
{
    build_header(b, 3, 3, 0);
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        build_tensor(b, name, 0, 0, 1, (uint64_t[]){ 8 });
    }
    build_data(b, 32, 96);
}

static void one_tensor_over_all_others(gguf_build *b)
{
    build_header(b, 3, 3, 0);
    build_tensor(b, "first", 0, 0, 1, (uint64_t[]){ 8 });
    build_tensor(b, "second", 0, 32, 1, (uint64_t[]){ 8 });
    build_tensor(b, "whole", 0, 0, 1, (uint64_t[]){ 16 });
    build_data(b, 32, 64);
}

static void one_byte_short(gguf_build *b)
{
    build_header(b, 3, 1, 0);
    build_tensor(b, "blk.0.attn_q.weight", 0, 0, 1, (uint64_t[]){ 8 });
    build_data(b, 32, 31);
}

static void no_data_at_all(gguf_build *b)
{
    build_header(b, 3, 1, 0);
    build_tensor(b, "blk.0.attn_q.weight", 0, 0, 1, (uint64_t[]){ 8 });
}

static void shape_2_32_squared(gguf_build *b)
{
    build_header(b, 3, 1, 0);
    build_tensor(b, "t", 0, 0, 2, (uint64_t[]){ (uint64_t)1 << 32, (uint64_t)1 << 32 });
    build_data(b, 32, 32);
}

static void shape_2_31_2_31_4(gguf_build *b)
{
    build_header(b, 3, 1, 0);
    build_tensor(b, "t", 0, 0, 3, (uint64_t[]){ (uint64_t)1 << 31, (uint64_t)1 << 31, 4 });
    build_data(b, 32, 32);
}

static void shape_wraps_to_4(gguf_build *b)
{
    build_header(b, 3, 1, 0);
    build_tensor(b, "t", 0, 0, 3, (uint64_t[]){ 4194305, 4194305, 211106198978564 });
    build_data(b, 32, 32);
}

static void shape_1152_by_2_42_and_1(gguf_build *b)
{
    build_header(b, 3, 1, 0);
    build_tensor(b, "t", 0, 0, 2, (uint64_t[]){ 1152, ((uint64_t)1 << 42) + 1 });
    build_data(b, 32, 32);
}

static void size_near_2_to_the_64(gguf_build *b)
{
    build_header(b, 3, 1, 0);
    build_tensor(b, "t", 0, 0, 1, (uint64_t[]){ ((uint64_t)1 << 62) - 8 });
    build_data(b, 32, 32);
}

static void offset_plus_size_wraps(gguf_build *b)
{
    build_header(b, 3, 1, 0);
    build_tensor(b, "t", 0, UINT64_MAX - 31, 1, (uint64_t[]){ 16 });
    build_data(b, 32, 64);
}

static void offset_wraps_to_the_start(gguf_build *b)
{
    build_header(b, 3, 1, 0);
    build_tensor(b, "t", 0, 0, 1, (uint64_t[]){ 8 });
    build_data(b, 32, 32);
    build_patch(b, build_find(b, "t", BUILD_OFFSET), 0 - (uint64_t)(b->size - 32), 8);
}

static void name_of_1025(gguf_build *b)
{
    static char name[1026];
    memset(name, 'n', 1025);
    build_header(b, 3, 0, 1);
    build_key_u32(b, name, 1);
}

static void tensor_name_of_1025(gguf_build *b)
{
    static char name[1026];
    memset(name, 'n', 1025);
    build_header(b, 3, 1, 0);
    build_tensor(b, name, 0, 0, 1, (uint64_t[]){ 8 });
    build_data(b, 32, 32);
}

static void string_of_8_mib_and_1(gguf_build *b)
{
    build_header(b, 3, 0, 1);
    build_key(b, "text", 8);
    char *text = calloc(1, CR_GGUF_MAX_STRING + 1);
    assert_non_null(text);
    build_string(b, text, CR_GGUF_MAX_STRING + 1);
    free(text);
}

static void element_of_8_mib_and_1(gguf_build *b)
{
    build_header(b, 3, 0, 1);
    build_key_array(b, "texts", 8, 2);
    build_string(b, "one", 3);
    char *text = calloc(1, CR_GGUF_MAX_STRING + 1);
    assert_non_null(text);
    build_string(b, text, CR_GGUF_MAX_STRING + 1);
    free(text);
}

static void keys_65537(gguf_build *b)
{
    build_header(b, 3, 0, 65537);
    for (int i = 0; i < 65537; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        build_key_number(b, name, 0, 0, 1);
    }
}

static void tensors_1048577(gguf_build *b)
{
    build_header(b, 3, 1048577, 0);
    static const uint8_t zeroes[1 << 10];
    for (int i = 0; i < 32 << 10; i++)
        build_bytes(b, zeroes, sizeof zeroes);
    build_bytes(b, zeroes, 32);
}

static void name_with_escape_sequence(gguf_build *b)
{
    build_header(b, 3, 0, 1);
    build_key(b, "a\x1b]52;b", 77);
}

static void name_that_is_not_utf8(gguf_build *b)
{
    build_header(b, 3, 0, 1);
    build_key(b, "a\xff\xfe", 77);
    build_number(b, 0, 8);
}

static void long_name_of_control_bytes(gguf_build *b)
{
    static char name[1001];
    memset(name, 1, 1000);
    build_header(b, 3, 0, 1);
    build_key(b, name, 77);
    build_number(b, 0, 8);
}

static void last_string_one_byte_short(gguf_build *b)
{
    build_header(b, 3, 0, 1);
    build_key_array(b, "tokenizer.ggml.tokens", 8, 3);
    build_element_text(b, "a");
    build_element_text(b, "b");
    build_element_text(b, "cde");
    b->size--;
}

static void array_of_u64_one_too_many(gguf_build *b)
{
    build_header(b, 3, 0, 1);
    build_key_array(b, "numbers", 10, 4);
    for (int i = 0; i < 3; i++)
        build_number(b, 1, 8);
}

static void files_of_their_own(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        void (*build)(gguf_build *b);
        cera_status status;
        const char *text;
    } cases[] = {
#define CASE(function, status, text) { #function, function, status, text }
        CASE(nothing_at_all, CERA_E_FORMAT, "byte 0: the file ends inside the header"),
        CASE(only_the_magic, CERA_E_FORMAT, "byte 4: the file ends inside the header"),
        CASE(sample_with_swapped_magic, CERA_E_UNSUPPORTED, "big-endian"),
        CASE(key_of_2_to_the_48, CERA_E_FORMAT, "byte 24"),
        CASE(key_of_nothing_in_37_bytes, CERA_E_FORMAT, "byte 24: key 0 has an empty name"),
        CASE(arrays_nested_100000_deep, CERA_E_UNSUPPORTED, "deep: nested array"),
        CASE(alignment_is_text, CERA_E_FORMAT, "general.alignment: expected an integer"),
        CASE(alignment_is_an_array, CERA_E_FORMAT, "found an array of u32"),
        CASE(alignment_is_negative, CERA_E_FORMAT, "found i32 -32"),
        CASE(alignment_is_2_to_the_32, CERA_E_FORMAT, "found u64 4294967296"),
        CASE(alignment_is_0_and_nothing_else, CERA_E_FORMAT, "general.alignment"),
        CASE(alignment_twice, CERA_E_FORMAT, "general.alignment: the file has this key twice"),
        CASE(a_key_twice_far_apart, CERA_E_FORMAT, "key.17: the file has this key twice"),
        CASE(a_tensor_twice, CERA_E_FORMAT, "blk.0.attn_q.weight: the file has this tensor twice"),
        CASE(part_2_of_3, CERA_E_UNSUPPORTED, "part 2 of 3"),
        CASE(split_count_is_text, CERA_E_FORMAT, "split.count"),
        CASE(all_tensors_at_0, CERA_E_FORMAT, "t1: overlaps tensor t0"),
        CASE(one_tensor_over_all_others, CERA_E_FORMAT, "overlaps tensor"),
        CASE(one_byte_short, CERA_E_FORMAT, "blk.0.attn_q.weight: offset 0 + size 32 is past the"),
        CASE(no_data_at_all, CERA_E_FORMAT, "the file ends before the tensor data"),
        CASE(shape_2_32_squared, CERA_E_FORMAT, "t: the number of elements overflows"),
        CASE(shape_2_31_2_31_4, CERA_E_FORMAT, "t: the number of elements overflows"),
        CASE(shape_wraps_to_4, CERA_E_FORMAT, "t: the number of elements overflows"),
        CASE(shape_1152_by_2_42_and_1, CERA_E_FORMAT, "t: offset 0 + size 20266198323171840"),
        CASE(size_near_2_to_the_64, CERA_E_FORMAT, "t: offset 0 + size 18446744073709551584"),
        CASE(offset_plus_size_wraps, CERA_E_FORMAT, "t: offset 18446744073709551584 + size 64"),
        CASE(offset_wraps_to_the_start, CERA_E_FORMAT, "t: offset "),
        CASE(name_of_1025, CERA_E_LIMIT, "byte 24: the name of key 0 has 1025 bytes"),
        CASE(tensor_name_of_1025, CERA_E_LIMIT, "byte 24: the name of tensor 0 has 1025 bytes"),
        CASE(string_of_8_mib_and_1, CERA_E_LIMIT, "text: string of 8388609 bytes"),
        CASE(element_of_8_mib_and_1, CERA_E_LIMIT, "texts: element 1 has 8388609 bytes"),
        CASE(keys_65537, CERA_E_LIMIT, "byte 16: 65537 keys"),
        CASE(tensors_1048577, CERA_E_LIMIT, "byte 8: 1048577 tensors"),
        CASE(name_with_escape_sequence, CERA_E_FORMAT, "a\\x1B]52;b: "),
        CASE(name_that_is_not_utf8, CERA_E_FORMAT, "a\\xFF\\xFE: unknown value type 77"),
        CASE(long_name_of_control_bytes, CERA_E_FORMAT, "\\x01...: unknown value type 77"),
        CASE(last_string_one_byte_short, CERA_E_FORMAT, "tokenizer.ggml.tokens: element 2"),
        CASE(array_of_u64_one_too_many, CERA_E_FORMAT, "numbers: array of 4 elements"),
#undef CASE
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        gguf_build b;
        build_init(&b);
        cases[i].build(&b);
        expect(&b, cases[i].name, cases[i].status, cases[i].text);
        build_done(&b);
    }
}

/* ---- exhaustive ------------------------------------------------------------------------------ */

static void every_prefix(void **state)
{
    (void)state;
    gguf_build b;
    build_init(&b);
    build_sample(&b, 3);
    for (size_t n = 0; n < b.size; n++) {
        char name[32];
        cera_error err;
        snprintf(name, sizeof name, "prefix of %zu", n);
        cera_status status = open_bytes(b.data, n, name, &err);
        /* The last tensor is of unknown size: one byte of it is all that can be asked for. */
        if ((status == CERA_OK) != (n > b.size - 8))
            fail_msg("%s of %zu: %s %s", name, b.size, cera_status_name(status), err.message);
    }
    build_done(&b);
}

static void every_flipped_bit(void **state)
{
    (void)state;
    gguf_build b;
    build_init(&b);
    build_sample(&b, 3);
    size_t n_header = b.size - 136, n_refused = 0;
    for (size_t i = 0; i < 8 * n_header; i++) {
        char name[32];
        cera_error err;
        snprintf(name, sizeof name, "bit %zu", i);
        b.data[i / 8] ^= (uint8_t)(1 << i % 8);
        n_refused += open_bytes(b.data, b.size, name, &err) != CERA_OK;
        b.data[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    /* Flips in values, names and padding make other good files; the rest are caught. */
    assert_true(n_refused > 4 * n_header);
    assert_int_equal(open_bytes(b.data, b.size, "unharmed", &(cera_error){ 0 }), CERA_OK);
    build_done(&b);
}

static void at_least_200_named_cases(void **state)
{
    (void)state;
    print_message("%zu named cases\n", n_cases);
    assert_true(n_cases >= 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncated_at_every_boundary),
        cmocka_unit_test(sizes_that_lie),
        cmocka_unit_test(numbers_that_cannot_be),
        cmocka_unit_test(files_of_their_own),
        cmocka_unit_test(every_prefix),
        cmocka_unit_test(every_flipped_bit),
        cmocka_unit_test(at_least_200_named_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* GGUF files that open: every value type, every source, limits at their edge, typed reading, and
 * the public inspection functions. Files that must not open are in test_gguf_bad.c. */
#define _DEFAULT_SOURCE /* mkstemp, ftruncate */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "engine/source.h"
#include "support/fault_host.h"
#include "support/gguf_build.h"
#include "support/gguf_walk.h"

#include <errno.h>
#include <math.h>
#include <sys/types.h>
#include <unistd.h>

/* A built file, opened from memory under a watched host. */
typedef struct fixture {
    gguf_build b;
    fault_host fault;
    cr_host host;
    cr_gguf *file;
    cera_error err;
} fixture;

static void begin(fixture *f)
{
    memset(f, 0, sizeof *f);
    build_init(&f->b);
    fault_init(&f->fault);
    assert_int_equal(cr_host_set(&f->host, &f->fault.host, NULL), CERA_OK);
}

static cera_status try_open(fixture *f)
{
    cera_source source = { .data = f->b.data, .n_data = f->b.size };
    return cr_gguf_open(&source, &f->host, &f->file, &f->err);
}

static void open_built(fixture *f)
{
    if (try_open(f) != CERA_OK)
        fail_msg("%s: %s", cera_status_name(f->err.status), f->err.message);
}

static void end(fixture *f)
{
    cr_gguf_close(f->file);
    const char *misuse = fault_check(&f->fault);
    if (misuse != NULL)
        fail_msg("%s", misuse);
    fault_done(&f->fault);
    build_done(&f->b);
}

static cera_value get(const cr_gguf *file, const char *key, cera_value_type type)
{
    cera_value value;
    if (!cr_gguf_find(file, key, &value))
        fail_msg("%s is missing", key);
    assert_int_equal(value.type, type);
    return value;
}

static cera_value element(const cr_gguf *file, const char *key, uint64_t i)
{
    cera_value array = get(file, key, CERA_VALUE_ARRAY), out;
    assert_true(i < array.count);
    cr_gguf_element(&array, i, &out);
    assert_int_equal(out.type, array.element);
    return out;
}

static void assert_text(const cera_value *value, const char *text)
{
    assert_int_equal(value->type, CERA_VALUE_STRING);
    assert_int_equal(value->as.s.size, strlen(text));
    assert_memory_equal(value->as.s.text, text, strlen(text));
}

/* ---- what is in the file --------------------------------------------------------------------- */

static void check_sample(const cr_gguf *file, uint32_t version)
{
    cera_file_info info;
    cr_gguf_get_info(file, &info);
    assert_int_equal(info.version, version);
    assert_int_equal(info.n_keys, 22);
    assert_int_equal(info.n_tensors, 3);
    assert_int_equal(info.n_params, 4 * 2 + 32 * 2 + 8);
    assert_int_equal(info.alignment, 32);
    assert_int_equal(info.data_offset % 32, 0);
    assert_int_equal(info.size, info.data_offset + 136);

    assert_int_equal(get(file, "k.u8", CERA_VALUE_U8).as.u, 200);
    assert_int_equal(get(file, "k.i8", CERA_VALUE_I8).as.i, -1);
    assert_int_equal(get(file, "k.u16", CERA_VALUE_U16).as.u, 65535);
    assert_int_equal(get(file, "k.i16", CERA_VALUE_I16).as.i, -32768);
    assert_int_equal(get(file, "k.u32", CERA_VALUE_U32).as.u, 4294967295u);
    assert_int_equal(get(file, "k.i32", CERA_VALUE_I32).as.i, INT32_MIN);
    assert_true(get(file, "k.f32", CERA_VALUE_F32).as.f == 1.5);
    assert_true(get(file, "k.true", CERA_VALUE_BOOL).as.b);
    assert_false(get(file, "k.false", CERA_VALUE_BOOL).as.b);
    cera_value text = get(file, "k.text", CERA_VALUE_STRING);
    assert_text(&text, "caf\xc3\xa9");
    text = get(file, "k.empty", CERA_VALUE_STRING);
    assert_text(&text, "");
    assert_true(get(file, "k.u64", CERA_VALUE_U64).as.u == UINT64_MAX);
    assert_true(get(file, "k.i64", CERA_VALUE_I64).as.i == INT64_MIN);
    assert_true(get(file, "k.f64", CERA_VALUE_F64).as.f == 1.5);

    assert_int_equal(get(file, "k.texts", CERA_VALUE_ARRAY).count, 3);
    const char *const texts[] = { "one", "", "three" };
    for (size_t i = 0; i < 3; i++) {
        text = element(file, "k.texts", i);
        assert_text(&text, texts[i]);
    }
    assert_int_equal(element(file, "k.bytes", 0).as.u, 1);
    assert_int_equal(element(file, "k.bytes", 2).as.u, 255);
    assert_int_equal(element(file, "k.ints", 0).as.i, 7);
    assert_int_equal(element(file, "k.ints", 1).as.i, -1);
    assert_true(element(file, "k.floats", 1).as.f == -2.0);
    assert_false(element(file, "k.bools", 0).as.b);
    assert_true(element(file, "k.bools", 1).as.b);
    assert_int_equal(get(file, "k.none", CERA_VALUE_ARRAY).count, 0);

    const cr_tensor *a = cr_gguf_find_tensor(file, "a.f32");
    assert_non_null(a);
    assert_int_equal(a->type, CR_TYPE_F32);
    assert_int_equal(a->n_dims, 2);
    assert_int_equal(a->shape[0], 4);
    assert_int_equal(a->shape[1], 2);
    assert_int_equal(a->shape[2], 1);
    assert_int_equal(a->shape[3], 1);
    assert_int_equal(a->size, 32);
    assert_int_equal(a->offset, info.data_offset);
    assert_int_equal(a->data[31], 31);
    const cr_tensor *b = cr_gguf_find_tensor(file, "b.q8_0");
    assert_non_null(b);
    assert_ptr_equal(b, cr_gguf_tensor(file, 1));
    assert_int_equal(b->size, 68);
    assert_int_equal(b->offset, info.data_offset + 32);
    assert_int_equal(b->data[0], 32);
    const cr_tensor *c = cr_gguf_find_tensor(file, "c.unknown");
    assert_non_null(c);
    assert_int_equal(c->type, CR_TYPE_COUNT);
    assert_int_equal(c->type_id, 99);
    assert_int_equal(c->size, 0);
    assert_null(c->data);
    assert_string_equal(cr_gguf_type_name(c), "type 99");
    assert_string_equal(cr_gguf_type_name(b), "Q8_0");

    cera_value value;
    cr_str first = cr_gguf_key(file, 0, &value);
    assert_string_equal(first.data, "general.architecture");
    assert_text(&value, "llama");
    assert_false(cr_gguf_find(file, "no.such.key", &value));
    assert_false(cr_gguf_find(file, "", &value));
    assert_null(cr_gguf_find_tensor(file, "a.f3"));

    size_t found;
    walk_file(file, &found);
    assert_int_equal(found, 25);
}

static void versions_2_and_3_from_memory(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        fixture f;
        begin(&f);
        build_sample(&f.b, version);
        open_built(&f);
        check_sample(f.file, version);
        assert_string_equal(cr_gguf_name(f.file), "<memory>");
        assert_int_equal(cr_gguf_check_unchanged(f.file, &f.err), CERA_OK);
        end(&f);
    }
}

static int read_back(void *user, void *buf, size_t n, uint64_t offset)
{
    const gguf_build *b = user;
    if (offset + n > b->size)
        return EIO;
    memcpy(buf, b->data + offset, n);
    return 0;
}

static int read_nothing(void *user, void *buf, size_t n, uint64_t offset)
{
    (void)user, (void)buf, (void)n, (void)offset;
    return ENXIO;
}

static void from_a_callback(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    build_sample(&f.b, 3);
    cera_source source = { .read = read_back, .user = &f.b, .n_data = f.b.size };
    assert_int_equal(cr_gguf_open(&source, &f.host, &f.file, &f.err), CERA_OK);
    check_sample(f.file, 3);
    cr_gguf_close(f.file);
    f.file = NULL;

    source.read = read_nothing;
    assert_int_equal(cr_gguf_open(&source, &f.host, &f.file, &f.err), CERA_E_IO);
    assert_non_null(strstr(f.err.message, "callback failed at byte 0"));
    assert_null(f.file);
    source.n_data = (uint64_t)1 << 62; /* more than there is memory */
    assert_int_equal(cr_gguf_open(&source, &f.host, &f.file, &f.err), CERA_E_NOMEM);
    end(&f);
}

/* Writes a built file; the caller unlinks path. */
static void write_file(const gguf_build *b, char *path)
{
    strcpy(path, "/tmp/test_gguf-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, b->data, b->size), (ssize_t)b->size);
    close(fd);
}

static void from_a_path(void **state)
{
    (void)state;
    fixture f;
    char path[64];
    begin(&f);
    build_sample(&f.b, 3);
    write_file(&f.b, path);

    cera_source source = { .path = path };
    assert_int_equal(cr_gguf_open(&source, &f.host, &f.file, &f.err), CERA_OK);
    check_sample(f.file, 3);
    assert_string_equal(cr_gguf_name(f.file), path);
    assert_int_equal(fault_calls(&f.fault, FAULT_MAP), 1);
    assert_int_equal(fault_calls(&f.fault, FAULT_READ), 0);
    cr_gguf_close(f.file);

    source.no_mmap = true;
    fault_short_reads(&f.fault, 7);
    assert_int_equal(cr_gguf_open(&source, &f.host, &f.file, &f.err), CERA_OK);
    check_sample(f.file, 3);
    assert_int_equal(fault_calls(&f.fault, FAULT_MAP), 1);
    cr_gguf_close(f.file);

    /* A file system that cannot map: the file is read instead. */
    source.no_mmap = false;
    fault_os(&f.fault, FAULT_MAP, 1, FAULT_ONCE, ENODEV);
    assert_int_equal(cr_gguf_open(&source, &f.host, &f.file, &f.err), CERA_OK);
    check_sample(f.file, 3);
    unlink(path);
    end(&f);
}

static void each_system_call_may_fail(void **state)
{
    (void)state;
    fixture f;
    char path[64];
    begin(&f);
    build_sample(&f.b, 3);
    write_file(&f.b, path);
    const struct {
        fault_call call;
        bool no_mmap;
        int error;
        const char *text;
    } cases[] = {
        { FAULT_OPEN, false, EACCES, "cannot open: permission denied" },
        { FAULT_OPEN, false, EMFILE, "cannot open: too many open files" },
        { FAULT_STAT, false, EIO, "input/output error" },
        { FAULT_MAP, false, ENOMEM, "cannot map" },
        { FAULT_READ, true, EIO, "cannot read: input/output error" },
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        cera_source source = { .path = path, .no_mmap = cases[i].no_mmap };
        fault_os(&f.fault, cases[i].call, 1, FAULT_ONCE, cases[i].error);
        assert_int_equal(cr_gguf_open(&source, &f.host, &f.file, &f.err),
                         cases[i].error == ENOMEM ? CERA_E_NOMEM : CERA_E_IO);
        assert_int_equal(fault_hits(&f.fault), 1 + i);
        assert_non_null(strstr(f.err.message, cases[i].text));
        assert_non_null(strstr(f.err.message, path));
        assert_null(f.file);
        assert_null(fault_check(&f.fault));
    }
    /* Interrupted, then well. */
    cera_source source = { .path = path, .no_mmap = true };
    fault_os(&f.fault, FAULT_READ, 1, FAULT_ONCE, EINTR);
    assert_int_equal(cr_gguf_open(&source, &f.host, &f.file, &f.err), CERA_OK);
    cr_gguf_close(f.file);
    f.file = NULL;

    unlink(path);
    source.no_mmap = false;
    assert_int_equal(cr_gguf_open(&source, &f.host, &f.file, &f.err), CERA_E_IO);
    assert_non_null(strstr(f.err.message, "no such file"));
    source.path = "/tmp";
    assert_int_equal(cr_gguf_open(&source, &f.host, &f.file, &f.err), CERA_E_IO);
    end(&f);
}

static void a_changed_file_is_noticed(void **state)
{
    (void)state;
    fixture f;
    char path[64];
    begin(&f);
    build_sample(&f.b, 3);
    write_file(&f.b, path);
    cera_source source = { .path = path };
    assert_int_equal(cr_gguf_open(&source, &f.host, &f.file, &f.err), CERA_OK);
    assert_int_equal(cr_gguf_check_unchanged(f.file, &f.err), CERA_OK);

    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(cr_gguf_check_unchanged(f.file, &f.err), CERA_E_IO);
    assert_non_null(strstr(f.err.message, path));
    assert_non_null(strstr(f.err.message, "found 100"));
    /* Deleted, or replaced by renaming: the mapping still holds the old file. */
    assert_int_equal(truncate(path, (off_t)f.b.size), 0);
    unlink(path);
    end(&f);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    char path[64];
    gguf_build b;
    build_init(&b);
    build_sample(&b, 3);
    write_file(&b, path);
    const cera_source sources[] = {
        { .data = b.data, .n_data = b.size },
        { .path = path },
        { .path = path, .no_mmap = true },
        { .read = read_back, .user = &b, .n_data = b.size },
    };
    for (size_t s = 0; s < CR_COUNT(sources); s++) {
        for (fault_mode mode = FAULT_ONCE; mode <= FAULT_STICKY; mode++) {
            for (size_t i = 1;; i++) {
                fault_host fault;
                fault_init(&fault);
                fault_allocs(&fault, i, mode);
                cera_file *file = NULL;
                cera_error err;
                cera_status status = cera_file_open(&sources[s], &fault.host, &file, &err);
                bool reached = fault_hits(&fault) > 0;
                cera_file_close(file);
                assert_null(fault_check(&fault));
                fault_done(&fault);
                if (!reached) {
                    assert_true(i > 4);
                    break;
                }
                assert_int_equal(status, CERA_E_NOMEM);
                assert_null(file);
            }
        }
    }
    unlink(path);
    build_done(&b);
}

/* ---- alignment, order, limits ---------------------------------------------------------------- */

static void alignments_from_1_to_1_mib(void **state)
{
    (void)state;
    for (uint32_t alignment = 1; alignment <= 1 << 20; alignment *= 8) {
        fixture f;
        begin(&f);
        build_header(&f.b, 3, 2, 1);
        build_key_u32(&f.b, "general.alignment", alignment);
        build_tensor(&f.b, "a", 0, 0, 1, (uint64_t[]){ 1 });
        uint64_t second = CR_MAX(alignment, 4);
        build_tensor(&f.b, "b", 0, second, 1, (uint64_t[]){ 1 });
        build_data(&f.b, alignment, (size_t)second + 4);
        open_built(&f);
        cera_file_info info;
        cr_gguf_get_info(f.file, &info);
        assert_int_equal(info.alignment, alignment);
        assert_int_equal(info.data_offset % alignment, 0);
        assert_int_equal(cr_gguf_tensor(f.file, 1)->offset, info.data_offset + second);
        assert_int_equal(cr_gguf_tensor(f.file, 1)->data[1], (second + 1) & 255);
        end(&f);
    }
    /* Another integer type converts. */
    fixture f;
    begin(&f);
    build_header(&f.b, 3, 0, 1);
    build_key_number(&f.b, "general.alignment", 11, 64, 8);
    open_built(&f);
    cera_file_info info;
    cr_gguf_get_info(f.file, &info);
    assert_int_equal(info.alignment, 64);
    end(&f);
}

static void an_empty_file_and_one_part(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    build_header(&f.b, 3, 0, 0);
    open_built(&f);
    assert_int_equal(cr_gguf_n_keys(f.file), 0);
    assert_int_equal(cr_gguf_n_tensors(f.file), 0);
    end(&f);

    begin(&f);
    build_header(&f.b, 3, 0, 2);
    build_key_number(&f.b, "split.count", 2, 1, 2);
    build_key_number(&f.b, "split.no", 2, 0, 2);
    open_built(&f);
    end(&f);
}

static void tensors_in_any_order(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    build_header(&f.b, 3, 5, 0);
    const uint64_t offsets[5] = { 96, 0, 128, 32, 64 };
    for (int i = 0; i < 5; i++) {
        char name[] = { (char)('a' + i), '\0' };
        build_tensor(&f.b, name, 0, offsets[i], 1, (uint64_t[]){ 8 });
    }
    build_data(&f.b, 32, 160);
    open_built(&f);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(cr_gguf_tensor(f.file, i)->data[0], offsets[i]);
    end(&f);
}

static void limits_at_their_edge(void **state)
{
    (void)state;
    static char name[CR_GGUF_MAX_NAME + 1];
    memset(name, 'n', CR_GGUF_MAX_NAME);
    fixture f;
    begin(&f);
    build_header(&f.b, 3, 0, 2);
    build_key_u32(&f.b, name, 5);
    build_key(&f.b, "text", 8);
    char *text = calloc(1, CR_GGUF_MAX_STRING);
    assert_non_null(text);
    build_string(&f.b, text, CR_GGUF_MAX_STRING);
    free(text);
    open_built(&f);
    assert_int_equal(get(f.file, name, CERA_VALUE_U32).as.u, 5);
    assert_int_equal(get(f.file, "text", CERA_VALUE_STRING).as.s.size, CR_GGUF_MAX_STRING);
    end(&f);
}

static void as_many_keys_and_tensors_as_allowed(void **state)
{
    (void)state;
    fixture f;
    char name[16];
    begin(&f);
    build_header(&f.b, 3, 0, CR_GGUF_MAX_KEYS);
    for (unsigned i = 0; i < CR_GGUF_MAX_KEYS; i++) {
        snprintf(name, sizeof name, "%x", i);
        build_key_number(&f.b, name, 0, i & 255, 1);
    }
    open_built(&f);
    assert_int_equal(get(f.file, "abcd", CERA_VALUE_U8).as.u, 0xcd);
    assert_true(fault_peak_bytes(&f.fault) <= 4 * f.b.size + (1 << 20));
    end(&f);

    begin(&f);
    build_header(&f.b, 3, CR_GGUF_MAX_TENSORS, 1);
    build_key_u32(&f.b, "general.alignment", 1);
    for (unsigned i = 0; i < CR_GGUF_MAX_TENSORS; i++) {
        snprintf(name, sizeof name, "%x", i);
        build_tensor(&f.b, name, 99, CR_GGUF_MAX_TENSORS - 1 - i, 1, (uint64_t[]){ 1 });
    }
    build_data(&f.b, 1, CR_GGUF_MAX_TENSORS);
    open_built(&f);
    const cr_tensor *tensor = cr_gguf_find_tensor(f.file, "abcde");
    assert_ptr_equal(tensor, cr_gguf_tensor(f.file, 0xabcde));
    assert_true(fault_peak_bytes(&f.fault) <= 4 * (f.b.size - CR_GGUF_MAX_TENSORS) + (1 << 20));
    end(&f);
}

/* Offsets beyond what 32 bits hold. The file is one hole. */
static void a_tensor_at_5_gib(void **state)
{
    (void)state;
    if (sizeof(size_t) < 8)
        skip();
    const uint64_t far = (uint64_t)5 << 30;
    fixture f;
    char path[64];
    begin(&f);
    build_header(&f.b, 3, 2, 0);
    build_tensor(&f.b, "near", 0, 0, 1, (uint64_t[]){ 1 });
    build_tensor(&f.b, "far", 0, far, 1, (uint64_t[]){ 1 });
    build_data(&f.b, 32, 4);
    size_t data = f.b.size - 4;
    write_file(&f.b, path);
    FILE *out = fopen(path, "r+b");
    assert_non_null(out);
    assert_int_equal(fseeko(out, (off_t)(data + far), SEEK_SET), 0);
    assert_int_equal(fwrite("five", 1, 4, out), 4);
    assert_int_equal(fclose(out), 0);

    cera_source source = { .path = path };
    assert_int_equal(cr_gguf_open(&source, &f.host, &f.file, &f.err), CERA_OK);
    const cr_tensor *tensor = cr_gguf_find_tensor(f.file, "far");
    assert_non_null(tensor);
    assert_true(tensor->offset == data + far);
    assert_memory_equal(tensor->data, "five", 4);
    unlink(path);
    end(&f);
}

/* ---- typed reading --------------------------------------------------------------------------- */

static void typed_reading_loses_nothing(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    build_header(&f.b, 3, 0, 9);
    build_key_number(&f.b, "i8", 1, 5, 1);
    build_key_number(&f.b, "minus", 5, 0xffffffffu, 4);
    build_key_number(&f.b, "big", 10, (uint64_t)1 << 32, 8);
    build_key_number(&f.b, "f64.exact", 12, 0x3ff8000000000000u, 8); /* 1.5 */
    build_key_number(&f.b, "f64.tenth", 12, 0x3fb999999999999au, 8); /* 0.1 */
    build_key_number(&f.b, "f64.huge", 12, 0x7e37e43c8800759cu, 8);  /* 1e300 */
    build_key_number(&f.b, "nan", 6, 0x7fc00000u, 4);
    build_key_number(&f.b, "u32.odd", 4, (1u << 24) + 1, 4);
    build_key_text(&f.b, "text", "seven");
    open_built(&f);

    uint32_t u = 77;
    assert_int_equal(cr_gguf_get_u32(f.file, "i8", CR_REQUIRED, &u, &f.err), CERA_OK);
    assert_int_equal(u, 5);
    assert_int_equal(cr_gguf_get_u32(f.file, "none", CR_OPTIONAL, &u, &f.err), CERA_OK);
    assert_int_equal(u, 5);
    const char *const not_u32[] = { "none", "minus", "big", "f64.exact", "text" };
    for (size_t i = 0; i < CR_COUNT(not_u32); i++) {
        assert_int_equal(cr_gguf_get_u32(f.file, not_u32[i], CR_REQUIRED, &u, &f.err),
                         CERA_E_FORMAT);
        assert_int_equal(strncmp(f.err.message, not_u32[i], strlen(not_u32[i])), 0);
        assert_int_equal(u, 5);
    }

    float x = 0;
    assert_int_equal(cr_gguf_get_f32(f.file, "f64.exact", CR_REQUIRED, &x, &f.err), CERA_OK);
    assert_true(x == 1.5f);
    assert_int_equal(cr_gguf_get_f32(f.file, "minus", CR_REQUIRED, &x, &f.err), CERA_OK);
    assert_true(x == -1.0f);
    assert_int_equal(cr_gguf_get_f32(f.file, "nan", CR_REQUIRED, &x, &f.err), CERA_OK);
    assert_true(isnan(x));
    const char *const not_f32[] = { "none", "f64.tenth", "f64.huge", "u32.odd", "big", "text" };
    for (size_t i = 0; i < CR_COUNT(not_f32); i++) {
        assert_int_equal(cr_gguf_get_f32(f.file, not_f32[i], CR_REQUIRED, &x, &f.err),
                         CERA_E_FORMAT);
        assert_non_null(strstr(f.err.message, not_f32[i]));
    }

    bool flag = true;
    assert_int_equal(cr_gguf_get_bool(f.file, "i8", CR_REQUIRED, &flag, &f.err), CERA_E_FORMAT);
    assert_int_equal(cr_gguf_get_bool(f.file, "none", CR_OPTIONAL, &flag, NULL), CERA_OK);
    assert_true(flag);
    cr_str text = { NULL, 0 };
    assert_int_equal(cr_gguf_get_str(f.file, "text", CR_REQUIRED, &text, &f.err), CERA_OK);
    assert_true(cr_str_is(text, "seven"));
    assert_int_equal(cr_gguf_get_str(f.file, "i8", CR_OPTIONAL, &text, &f.err), CERA_E_FORMAT);
    assert_string_equal(f.err.message, "i8: expected a string, found i8 5");
    end(&f);
}

/* ---- cera_file and sources ------------------------------------------------------------------- */

static void the_public_functions_forward(void **state)
{
    (void)state;
    gguf_build b;
    build_init(&b);
    build_sample(&b, 3);
    fault_host fault;
    fault_init(&fault);
    cera_source source = { .data = b.data, .n_data = b.size };
    cera_file *file = NULL;
    cera_error err;
    assert_int_equal(cera_file_open(&source, &fault.host, &file, &err), CERA_OK);

    cera_file_info info;
    cera_file_get_info(file, &info);
    assert_int_equal(info.n_keys, 22);
    cera_value value;
    assert_string_equal(cera_file_key(file, 2, &value), "k.u8");
    assert_int_equal(value.as.u, 200);
    assert_string_equal(cera_file_key(file, 2, NULL), "k.u8");
    assert_null(cera_file_key(file, 22, &value));
    assert_true(cera_file_find(file, "k.i8", &value));
    assert_int_equal(value.as.i, -1);
    assert_false(cera_file_find(file, "nothing", &value));
    assert_true(cera_file_element(file, "k.texts", 2, &value));
    assert_text(&value, "three");
    assert_false(cera_file_element(file, "k.texts", 3, &value));
    assert_false(cera_file_element(file, "k.u8", 0, &value));
    assert_false(cera_file_element(file, "k.none", 0, &value));
    cera_file_tensor tensor;
    cera_file_get_tensor(file, 2, &tensor);
    assert_string_equal(tensor.name, "c.unknown");
    assert_string_equal(tensor.type, "type 99");
    assert_int_equal(tensor.size, 0);
    assert_int_equal(tensor.shape[0], 8);
    assert_int_equal(tensor.offset, info.data_offset + 128);
    cera_file_get_tensor(file, 3, &tensor);
    assert_string_equal(tensor.name, "");

    cera_file_close(file);
    cera_file_close(NULL);
    assert_null(fault_check(&fault));
    fault_done(&fault);
    build_done(&b);
}

static void sources_are_checked(void **state)
{
    (void)state;
    const struct {
        cera_source source;
        cera_status status;
        const char *text;
    } cases[] = {
        { { .path = NULL }, CERA_E_ARG, "found 0" },
        { { .path = "x", .data = "y", .n_data = 1 }, CERA_E_ARG, "found 2" },
        { { .path = "x", .data = "y", .read = read_back }, CERA_E_ARG, "found 3" },
        { { .path = "" }, CERA_E_ARG, "source.path" },
        { { .path = "builtin:" }, CERA_E_UNSUPPORTED, "builtin:" },
        { { .path = "builtin:huge" }, CERA_E_UNSUPPORTED, "builtin:huge" },
        { { .data = "GGUF", .n_data = 4 }, CERA_E_FORMAT, "byte 4" },
    };
    cera_file *file = NULL;
    cera_error err;
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        assert_int_equal(cera_file_open(&cases[i].source, NULL, &file, &err), cases[i].status);
        assert_non_null(strstr(err.message, cases[i].text));
        assert_null(file);
    }
    assert_int_equal(cera_file_open(NULL, NULL, &file, &err), CERA_E_ARG);
    assert_int_equal(cera_file_open(&cases[0].source, NULL, NULL, &err), CERA_E_ARG);
    assert_int_equal(cera_file_open(&cases[6].source, NULL, &file, NULL), CERA_E_FORMAT);
}

static void the_built_in_model_opens(void **state)
{
    (void)state;
    cera_source source = { .path = "builtin:tiny" };
    cera_file *file = NULL;
    cera_error err;
#ifdef CERA_BUILTIN_MODEL
    if (cera_file_open(&source, NULL, &file, &err) != CERA_OK)
        fail_msg("%s", err.message);
    cera_file_info info;
    cera_file_get_info(file, &info);
    assert_int_equal(info.n_tensors, 75);
    assert_int_equal(info.n_keys, 27);
    assert_int_equal(info.n_params, 1790144);
    assert_int_equal(info.data_offset, 32640);
    cera_file_tensor tensor;
    cera_file_get_tensor(file, 0, &tensor);
    assert_string_equal(tensor.name, "token_embd.weight");
    assert_string_equal(tensor.type, "Q8_0");
    assert_int_equal(tensor.shape[0], 128);
    assert_int_equal(tensor.shape[1], 1024);
    assert_int_equal(tensor.size, 139264);
    cera_value value;
    assert_true(cera_file_element(file, "lfm2.attention.head_count_kv", 2, &value));
    assert_int_equal(value.as.i, 2);
    assert_true(cera_file_element(file, "tokenizer.ggml.merges", 2, &value));
    assert_text(&value, "h e");
    cera_file_close(file);
#else
    assert_int_equal(cera_file_open(&source, NULL, &file, &err), CERA_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "builtin:tiny"));
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_2_and_3_from_memory),
        cmocka_unit_test(from_a_callback),
        cmocka_unit_test(from_a_path),
        cmocka_unit_test(each_system_call_may_fail),
        cmocka_unit_test(a_changed_file_is_noticed),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(alignments_from_1_to_1_mib),
        cmocka_unit_test(an_empty_file_and_one_part),
        cmocka_unit_test(tensors_in_any_order),
        cmocka_unit_test(limits_at_their_edge),
        cmocka_unit_test(as_many_keys_and_tensors_as_allowed),
        cmocka_unit_test(a_tensor_at_5_gib),
        cmocka_unit_test(typed_reading_loses_nothing),
        cmocka_unit_test(the_public_functions_forward),
        cmocka_unit_test(sources_are_checked),
        cmocka_unit_test(the_built_in_model_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

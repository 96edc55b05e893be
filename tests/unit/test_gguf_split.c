/* Models in several files: what belongs together opens as one, from any of its files; what does not
 * is refused, and the message names the file. */
#define _DEFAULT_SOURCE /* mkdtemp, symlink, truncate */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fault_host.h"
#include "support/gguf_build.h"

#include "file/gguf.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_PARTS = 3, ROOM = 256 };

/* What a part says; the files of a right model differ in `no` alone. */
typedef struct part_spec {
    int no, count, tensors; /* split.no, split.count, split.tensors.count; below 0: no such key */
    const char *arch;       /* NULL: no such key */
    uint32_t alignment;
    const char *names[2]; /* of F32 tensors [2], [3]; NULL: none */
    int n_cut;            /* bytes missing at the end */
} part_spec;

/* Three files of 1, 2 and 1 tensors; the second is aligned to 64. */
static const part_spec right[N_PARTS] = {
    { 0, 3, 4, "llama", 32, { "a", NULL }, 0 },
    { 1, 3, 4, NULL, 64, { "b", "\xc3\xa9\xe4\xb8\xad" }, 0 },
    { 2, 3, 4, NULL, 32, { NULL, "d" }, 0 },
};

static void build_part(gguf_build *b, const part_spec *s)
{
    build_init(b);
    uint64_t n_tensors = (s->names[0] ? 1u : 0u) + (s->names[1] ? 1u : 0u);
    int n_keys = 1 + (s->no >= 0) + (s->count >= 0) + (s->tensors >= 0) + (s->arch != NULL);
    build_header(b, 3, n_tensors, (uint64_t)n_keys);
    build_key_u32(b, "general.alignment", s->alignment);
    if (s->no >= 0)
        build_key_number(b, "split.no", 2, (uint64_t)s->no, 2); /* as llama-gguf-split has them */
    if (s->count >= 0)
        build_key_number(b, "split.count", 2, (uint64_t)s->count, 2);
    if (s->tensors >= 0)
        build_key_number(b, "split.tensors.count", 5, (uint64_t)s->tensors, 4);
    if (s->arch != NULL)
        build_key_text(b, "general.architecture", s->arch);
    uint64_t offset = 0;
    for (uint64_t i = 0; i < 2; i++) {
        if (s->names[i] == NULL)
            continue;
        build_tensor(b, s->names[i], 0, offset, 1, (uint64_t[]){ 2 + i });
        offset += s->alignment;
    }
    build_data(b, s->alignment, (size_t)offset);
    b->size -= (size_t)s->n_cut;
}

/* A folder of its own; the name has a blank and letters outside ASCII. */
typedef struct folder {
    char path[64];
} folder;

static void folder_init(folder *f)
{
    strcpy(f->path, "/tmp/test split \xc3\xbc-XXXXXX");
    assert_non_null(mkdtemp(f->path));
}

static void path_in(const folder *f, const char *name, char path[ROOM])
{
    snprintf(path, ROOM, "%s/%s", f->path, name);
}

static void part_path(const folder *f, int i, char path[ROOM])
{
    char name[64];
    snprintf(name, sizeof name, "m-%05d-of-%05d.gguf", i + 1, N_PARTS);
    path_in(f, name, path);
}

static void write_part(const char *path, const part_spec *spec)
{
    gguf_build b;
    build_part(&b, spec);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(b.data, 1, b.size, file), b.size);
    fclose(file);
    build_done(&b);
}

static void write_parts(const folder *f, const part_spec *specs)
{
    char path[ROOM];
    for (int i = 0; i < N_PARTS; i++) {
        part_path(f, i, path);
        write_part(path, &specs[i]);
    }
}

static void folder_done(const folder *f)
{
    char path[ROOM];
    for (int i = 0; i < N_PARTS; i++) {
        part_path(f, i, path);
        unlink(path);
    }
    assert_int_equal(rmdir(f->path), 0);
}

/* ---- right ones -------------------------------------------------------------------------- */

static void check_right(const cr_gguf *file)
{
    static const struct {
        const char *name;
        uint32_t part, size;
        uint8_t first; /* byte of its data: build_data counts */
    } tensors[] = {
        { "a", 0, 8, 0 },
        { "b", 1, 8, 0 },
        { "\xc3\xa9\xe4\xb8\xad", 1, 12, 64 },
        { "d", 2, 12, 0 },
    };
    assert_int_equal(cr_gguf_n_tensors(file), CR_COUNT(tensors));
    for (size_t i = 0; i < CR_COUNT(tensors); i++) {
        const cr_tensor *t = cr_gguf_find_tensor(file, tensors[i].name);
        assert_ptr_equal(t, cr_gguf_tensor(file, i));
        assert_string_equal(t->name.data, tensors[i].name);
        assert_int_equal(t->part, tensors[i].part);
        assert_int_equal(t->size, tensors[i].size);
        for (size_t k = 0; k < t->size; k++)
            assert_int_equal(t->data[k], tensors[i].first + k);
        assert_int_equal(t->offset % right[t->part].alignment, 0);
    }
    assert_null(cr_gguf_find_tensor(file, "c"));
    cera_file_info info;
    cr_gguf_get_info(file, &info);
    assert_int_equal(info.n_parts, N_PARTS);
    assert_int_equal(info.n_tensors, 4);
    assert_int_equal(info.n_params, 2 + 2 + 3 + 3);
    assert_int_equal(info.alignment, 32);
    uint64_t size = 0;
    for (int i = 0; i < N_PARTS; i++) {
        gguf_build b;
        build_part(&b, &right[i]);
        size += b.size;
        build_done(&b);
    }
    assert_int_equal(info.size, size);
    cera_value value; /* the keys of the first file, whichever was named */
    assert_true(cr_gguf_find(file, "general.architecture", &value));
    assert_true(cr_gguf_find(file, "split.no", &value));
    assert_int_equal(value.as.u, 0);
}

static void any_file_opens_all(void **state)
{
    (void)state;
    folder f;
    folder_init(&f);
    write_parts(&f, right);
    cr_host host;
    assert_int_equal(cr_host_set(&host, NULL, NULL), CERA_OK);
    for (int i = 0; i < 2 * N_PARTS; i++) {
        char path[ROOM];
        part_path(&f, i % N_PARTS, path);
        cera_source source = { .path = path, .no_mmap = i >= N_PARTS };
        cr_gguf *file = NULL;
        cera_error err;
        if (cr_gguf_open(&source, &host, &file, &err) != CERA_OK)
            fail_msg("%s", err.message);
        check_right(file);
        assert_int_equal(cr_gguf_check_unchanged(file, NULL), CERA_OK);
        cr_gguf_close(file);
    }
    folder_done(&f);
}

/* In a cache of downloads the names are links to files with other names: it is the names that have
 * siblings. */
static void links_are_not_followed_for_names(void **state)
{
    (void)state;
    folder f;
    folder_init(&f);
    char link_path[ROOM], blob[ROOM], name[8] = "blob0";
    for (int i = 0; i < N_PARTS; i++) {
        name[4] = (char)('0' + i);
        path_in(&f, name, blob);
        write_part(blob, &right[i]);
        part_path(&f, i, link_path);
        assert_int_equal(symlink(name, link_path), 0);
    }
    cr_host host;
    assert_int_equal(cr_host_set(&host, NULL, NULL), CERA_OK);
    cr_gguf *file = NULL;
    assert_int_equal(cr_gguf_open(&(cera_source){ .path = link_path }, &host, &file, NULL),
                     CERA_OK);
    check_right(file);
    cr_gguf_close(file);
    for (int i = 0; i < N_PARTS; i++) {
        name[4] = (char)('0' + i);
        path_in(&f, name, blob);
        unlink(blob);
    }
    folder_done(&f);
}

/* The keys decide, not the name. */
static void a_whole_model_may_look_like_a_part(void **state)
{
    (void)state;
    static const int counts[] = { -1, 0, 1 };
    folder f;
    folder_init(&f);
    for (size_t i = 0; i < CR_COUNT(counts); i++) {
        part_spec spec = right[0];
        spec.count = counts[i];
        spec.no = spec.tensors = -1;
        char path[ROOM];
        part_path(&f, 1, path);
        write_part(path, &spec);
        cera_file *file = NULL;
        cera_error err = { 0 };
        if (cera_file_open(&(cera_source){ .path = path }, NULL, &file, &err) != CERA_OK)
            fail_msg("%s", err.message);
        cera_file_info info;
        cera_file_get_info(file, &info);
        assert_int_equal(info.n_parts, 1);
        cera_file_close(file);
    }
    folder_done(&f);
}

static void a_change_of_any_file_is_noticed(void **state)
{
    (void)state;
    folder f;
    folder_init(&f);
    cr_host host;
    assert_int_equal(cr_host_set(&host, NULL, NULL), CERA_OK);
    for (int i = 0; i < N_PARTS; i++) {
        write_parts(&f, right);
        char path[ROOM];
        part_path(&f, 0, path);
        cr_gguf *file = NULL;
        cera_error err;
        assert_int_equal(cr_gguf_open(&(cera_source){ .path = path }, &host, &file, &err), CERA_OK);
        part_path(&f, i, path);
        assert_int_equal(truncate(path, 40), 0);
        assert_int_equal(cr_gguf_check_unchanged(file, &err), CERA_E_IO);
        assert_non_null(strstr(err.message, path));
        cr_gguf_close(file);
    }
    folder_done(&f);
}

/* ---- wrong ones -------------------------------------------------------------------------- */

/* A right model with one part changed, opened by its first file: what the error says behind the
 * name of the file that is wrong. */
static void wrong_parts_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        int part;
        part_spec spec;
        cera_status status;
        const char *text;
    } rows[] = {
        { 1, { 2, 3, 4, NULL, 32, { "b", "c" }, 0 }, CERA_E_FORMAT, ": split.no: expected 1" },
        { 2, { -1, 3, 4, NULL, 32, { NULL, "d" }, 0 }, CERA_E_FORMAT, ": split.no: expected 2" },
        { 1, { 1, 4, 4, NULL, 32, { "b", "c" }, 0 }, CERA_E_FORMAT, ": split.count: expected 3" },
        { 2, { -1, -1, -1, NULL, 32, { NULL, "d" }, 0 }, CERA_E_FORMAT, ": split.count: expected" },
        { 1, { 3, 3, 4, NULL, 32, { "b", "c" }, 0 }, CERA_E_FORMAT, ": split.no: expected less" },
        { 2, { 2, 3, 5, NULL, 32, { NULL, "d" }, 0 }, CERA_E_FORMAT, ": split.tensors.count:" },
        { 2, { 2, 3, 4, "gemma", 32, { NULL, "d" }, 0 }, CERA_E_FORMAT, ": general.architecture" },
        { 2, { 2, 3, 4, NULL, 32, { NULL, "a" }, 0 }, CERA_E_FORMAT, "has this tensor too" },
        { 1, { 1, 3, 4, NULL, 32, { "b", "c" }, 30 }, CERA_E_FORMAT, ": c: offset 32 + size 12" },
        { 1, { 1, 3, 4, NULL, 33, { "b", "c" }, 0 }, CERA_E_FORMAT, ": general.alignment" },
        /* Told by the first file. */
        { 0, { 0, 3, -1, NULL, 32, { "a", NULL }, 0 }, CERA_E_FORMAT, ": split.tensors.count: " },
        { 0, { 0, 3, 4, NULL, 32, { "a", "c" }, 0 }, CERA_E_FORMAT, ": split.tensors.count: " },
    };
    folder f;
    folder_init(&f);
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        write_parts(&f, right);
        char path[ROOM], wrong[ROOM];
        part_path(&f, rows[i].part, wrong);
        write_part(wrong, &rows[i].spec);
        part_path(&f, 0, path);
        cera_file *file = NULL;
        cera_error err = { 0 };
        assert_int_equal(cera_file_open(&(cera_source){ .path = path }, NULL, &file, &err),
                         rows[i].status);
        assert_null(file);
        if (strstr(err.message, wrong) != err.message || strstr(err.message, rows[i].text) == NULL)
            fail_msg("row %zu: %s", i, err.message);
    }
    folder_done(&f);
}

static void a_missing_part_is_named(void **state)
{
    (void)state;
    folder f;
    folder_init(&f);
    for (int missing = 0; missing < N_PARTS; missing++) {
        write_parts(&f, right);
        char path[ROOM], gone[ROOM];
        part_path(&f, missing, gone);
        unlink(gone);
        part_path(&f, (missing + 1) % N_PARTS, path);
        cera_file *file = NULL;
        cera_error err = { 0 };
        assert_int_equal(cera_file_open(&(cera_source){ .path = path }, NULL, &file, &err),
                         CERA_E_IO);
        assert_null(file);
        assert_non_null(strstr(err.message, gone));
        assert_non_null(strstr(err.message, "no such file"));
    }
    folder_done(&f);
}

static void expect_alone(const char *name, const part_spec *spec, cera_status status,
                         const char *text)
{
    folder f;
    folder_init(&f);
    char path[ROOM];
    path_in(&f, name, path);
    write_part(path, spec);
    cera_file *file = NULL;
    cera_error err = { 0 };
    assert_int_equal(cera_file_open(&(cera_source){ .path = path }, NULL, &file, &err), status);
    if (strstr(err.message, text) == NULL)
        fail_msg("%s: %s", name, err.message);
    assert_null(file);
    unlink(path);
    folder_done(&f);
}

static void without_siblings(void **state)
{
    (void)state;
    expect_alone("m.gguf", &right[1], CERA_E_FORMAT, "ends in -00002-of-00003.gguf");
    expect_alone("m-00001-of-00003.gguf", &right[1], CERA_E_FORMAT, "ends in -00002-of-00003.gguf");
    expect_alone("x", &right[0], CERA_E_FORMAT, "ends in -00001-of-00003.gguf");
    part_spec many = right[0];
    many.count = CR_GGUF_MAX_PARTS + 1;
    expect_alone("m-00001-of-01025.gguf", &many, CERA_E_LIMIT,
                 "split.count: expected at most 1024");
    many.count = CR_GGUF_MAX_PARTS;
    expect_alone("m-00001-of-01024.gguf", &many, CERA_E_IO, "m-00002-of-01024.gguf: cannot open");

    gguf_build b;
    build_part(&b, &right[1]);
    cera_file *file = NULL;
    cera_error err = { 0 };
    cera_source source = { .data = b.data, .n_data = b.size };
    assert_int_equal(cera_file_open(&source, NULL, &file, &err), CERA_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "part 2 of 3"));
    assert_int_equal(cera_file_open(&source, NULL, &file, NULL), CERA_E_UNSUPPORTED);
    build_done(&b);
}

/* ---- failures of memory and system ------------------------------------------------------- */

static void every_failure_leaves_nothing(void **state)
{
    (void)state;
    static const struct {
        fault_call call;
        bool no_mmap;
        int error;
        cera_status status;
        size_t least; /* calls that there are */
    } rows[] = {
        { FAULT_ALLOC, false, 0, CERA_E_NOMEM, 15 },   { FAULT_ALLOC, true, 0, CERA_E_NOMEM, 15 },
        { FAULT_OPEN, false, EMFILE, CERA_E_IO, 3 },   { FAULT_STAT, false, EIO, CERA_E_IO, 3 },
        { FAULT_MAP, false, ENOMEM, CERA_E_NOMEM, 3 }, { FAULT_READ, true, EIO, CERA_E_IO, 3 },
    };
    folder f;
    folder_init(&f);
    write_parts(&f, right);
    for (size_t row = 0; row < CR_COUNT(rows); row++) {
        for (int named = 0; named < N_PARTS; named++) {
            size_t i = 1;
            for (bool reached = true; reached; i++) {
                char path[ROOM];
                part_path(&f, named, path);
                fault_host fault;
                fault_init(&fault);
                if (rows[row].call == FAULT_ALLOC)
                    fault_allocs(&fault, i, FAULT_ONCE);
                else
                    fault_os(&fault, rows[row].call, i, FAULT_ONCE, rows[row].error);
                cera_source source = { .path = path, .no_mmap = rows[row].no_mmap };
                cera_file *file = NULL;
                cera_error err;
                cera_status status = cera_file_open(&source, &fault.host, &file, &err);
                reached = fault_hits(&fault) > 0;
                assert_int_equal(status, reached ? rows[row].status : CERA_OK);
                cera_file_close(file);
                const char *left = fault_check(&fault);
                if (left)
                    fail_msg("row %zu, file %d, call %zu: %s", row, named, i, left);
                fault_done(&fault);
            }
            assert_true(i > rows[row].least);
        }
    }
    folder_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_file_opens_all),
        cmocka_unit_test(links_are_not_followed_for_names),
        cmocka_unit_test(a_whole_model_may_look_like_a_part),
        cmocka_unit_test(a_change_of_any_file_is_noticed),
        cmocka_unit_test(wrong_parts_are_refused_by_name),
        cmocka_unit_test(a_missing_part_is_named),
        cmocka_unit_test(without_siblings),
        cmocka_unit_test(every_failure_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

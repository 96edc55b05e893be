/* The GGUF writer: what it writes reads back, and whatever call fails, the target is what it was
 * before or the whole new file, with nothing beside it. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "file/gguf_write.h"
#include "support/fault_host.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/cera-write-XXXXXX";
static char target[64];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(target, sizeof target, "%s/out.gguf", folder);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    unlink(target);
    return rmdir(folder);
}

/* Files in the folder. */
static int n_files(void)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void put_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static bool holds_text(const char *path, const char *text)
{
    char found[64] = { 0 };
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    size_t n = fread(found, 1, sizeof found - 1, file);
    fclose(file);
    return n == strlen(text) && strcmp(found, text) == 0;
}

enum { N_A = 3 * 2, N_B = 64 };

static void announce(cr_gguf_writer *w)
{
    cr_gguf_put_str(w, "general.architecture", cr_str_from("llama"));
    cr_gguf_put_u32(w, "a.u32", 0xdeadbeef);
    cr_gguf_put_f32(w, "a.f32", -0.1f);
    cr_gguf_put_bool(w, "a.bool", true);
    cr_gguf_put(w, cr_str_from("a.i16"), &(cera_value){ .type = CERA_VALUE_I16, .as.i = -3 });
    cr_gguf_put(w, cr_str_from("a.f64"), &(cera_value){ .type = CERA_VALUE_F64, .as.f = 0.1 });
    cr_gguf_put_array(w, "a.texts", CERA_VALUE_STRING, 2);
    cr_gguf_put_element(w, &(cera_value){ .type = CERA_VALUE_STRING, .as.s = { "x", 1 } });
    cr_gguf_put_element(w, &(cera_value){ .type = CERA_VALUE_STRING, .as.s = { "", 0 } });
    cr_gguf_put_array(w, "a.none", CERA_VALUE_I32, 0);
    cr_gguf_put_tensor(w, cr_str_from("a"), CR_TYPE_F32, 2, (uint64_t[]){ 3, 2 });
    cr_gguf_put_tensor(w, cr_str_from("b"), CR_TYPE_Q8_0, 1, (uint64_t[]){ N_B });
}

/* A file with all of it; `a` is written in two pieces. */
static cera_status write_file(const cera_host *tables, const char *path, cera_error *err)
{
    static const float a[N_A] = { 1, 2, 3, 4, 5, 6 };
    uint8_t b[68];
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (uint8_t)(i * 7);
    cr_host host;
    CR_TRY(cr_host_set(&host, tables, err));
    cr_gguf_writer w;
    cr_gguf_writer_init(&w, &host);
    announce(&w);
    cera_status status = cr_gguf_writer_begin(&w, path, err);
    if (status == CERA_OK)
        status = cr_gguf_writer_data(&w, a, 8, err);
    if (status == CERA_OK)
        status = cr_gguf_writer_data(&w, (const char *)a + 8, sizeof a - 8, err);
    if (status == CERA_OK)
        status = cr_gguf_writer_data(&w, b, sizeof b, err);
    if (status == CERA_OK)
        status = cr_gguf_writer_commit(&w, err);
    cr_gguf_writer_done(&w);
    return status;
}

static void check_file(const char *path)
{
    cr_host host;
    assert_int_equal(cr_host_set(&host, NULL, NULL), CERA_OK);
    cr_gguf *file;
    cera_error err;
    if (cr_gguf_open(&(cera_source){ .path = path }, &host, &file, &err) != CERA_OK)
        fail_msg("%s", err.message);
    assert_int_equal(cr_gguf_n_keys(file), 8);
    assert_int_equal(cr_gguf_n_tensors(file), 2);

    cera_value v, element;
    assert_true(cr_gguf_find(file, "a.u32", &v) && v.type == CERA_VALUE_U32);
    assert_true(v.as.u == 0xdeadbeef);
    assert_true(cr_gguf_find(file, "a.f32", &v) && v.as.f == (double)-0.1f);
    assert_true(cr_gguf_find(file, "a.bool", &v) && v.type == CERA_VALUE_BOOL && v.as.b);
    assert_true(cr_gguf_find(file, "a.i16", &v) && v.type == CERA_VALUE_I16 && v.as.i == -3);
    assert_true(cr_gguf_find(file, "a.f64", &v) && v.as.f == 0.1);
    assert_true(cr_gguf_find(file, "a.none", &v) && v.count == 0 && v.element == CERA_VALUE_I32);
    assert_true(cr_gguf_find(file, "a.texts", &v) && v.count == 2);
    cr_gguf_element(&v, 0, &element);
    assert_true(element.as.s.size == 1 && element.as.s.text[0] == 'x');
    cr_gguf_element(&v, 1, &element);
    assert_true(element.as.s.size == 0);

    const cr_tensor *a = cr_gguf_tensor(file, 0), *b = cr_gguf_tensor(file, 1);
    assert_true(a->n_dims == 2 && a->shape[0] == 3 && a->shape[1] == 2 && a->type == CR_TYPE_F32);
    float last;
    memcpy(&last, a->data + 20, sizeof last);
    assert_true(last == 6.0f);
    assert_true(b->type == CR_TYPE_Q8_0 && b->size == 68 && b->data[67] == (uint8_t)(67 * 7));
    assert_int_equal(b->offset % 32, 0);
    cera_file_info info;
    cr_gguf_get_info(file, &info);
    assert_int_equal(info.size % 32, 0); /* the last tensor is padded like the others */
    cr_gguf_close(file);
}

static void what_is_written_reads_back(void **state)
{
    (void)state;
    assert_int_equal(write_file(NULL, target, NULL), CERA_OK);
    check_file(target);
    assert_int_equal(n_files(), 1);
    /* Once more over it, a few bytes at a time. */
    fault_host f;
    fault_init(&f);
    fault_short_writes(&f, 3);
    assert_int_equal(write_file(&f.host, target, NULL), CERA_OK);
    assert_null(fault_check(&f));
    fault_done(&f);
    check_file(target);
    assert_int_equal(n_files(), 1);
}

/* Fails call i of one kind, for every i, and looks at what lies there afterwards. */
static void check_failures(fault_call call, int error, fault_mode mode, cera_status expected)
{
    for (size_t i = 1;; i++) {
        put_text(target, "old");
        fault_host f;
        cera_error err = { 0 };
        fault_init(&f);
        fault_os(&f, call, i, mode, error);
        cera_status status = write_file(&f.host, target, &err);
        assert_null(fault_check(&f));
        bool reached = fault_hits(&f) > 0;
        fault_done(&f);
        assert_int_equal(n_files(), 1);
        if (!reached) {
            assert_int_equal(status, CERA_OK);
            check_file(target);
            assert_true(i > 1);
            return;
        }
        assert_int_equal(status, expected);
        /* The new name is there before the folder's own sync, which may fail too. */
        if (call == FAULT_SYNC_FOLDER)
            check_file(target);
        else
            assert_true(holds_text(target, "old"));
        if (expected == CERA_E_IO)
            assert_non_null(strstr(err.message, "out.gguf"));
    }
}

static void no_failure_leaves_a_part_of_a_file(void **state)
{
    (void)state;
    const struct {
        fault_call call;
        int error;
        cera_status status;
    } cases[] = {
        { FAULT_ALLOC, ENOMEM, CERA_E_NOMEM }, { FAULT_OPEN, EACCES, CERA_E_IO },
        { FAULT_STAT, EIO, CERA_E_IO },        { FAULT_CREATE, EROFS, CERA_E_IO },
        { FAULT_CREATE, EEXIST, CERA_E_IO },   { FAULT_WRITE, ENOSPC, CERA_E_IO },
        { FAULT_SYNC, EIO, CERA_E_IO },        { FAULT_RENAME, EXDEV, CERA_E_IO },
        { FAULT_SYNC_FOLDER, EIO, CERA_E_IO }, { FAULT_LINK, EACCES, CERA_E_IO },
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        check_failures(cases[i].call, cases[i].error, FAULT_STICKY, cases[i].status);
        /* A name that is taken is not the end: the next one is tried. */
        if (cases[i].error != EEXIST)
            check_failures(cases[i].call, cases[i].error, FAULT_ONCE, cases[i].status);
    }
}

static void an_interrupted_write_goes_on(void **state)
{
    (void)state;
    fault_host f;
    fault_init(&f);
    fault_os(&f, FAULT_WRITE, 2, FAULT_ONCE, EINTR);
    assert_int_equal(write_file(&f.host, target, NULL), CERA_OK);
    assert_int_equal(fault_hits(&f), 1);
    assert_null(fault_check(&f));
    fault_done(&f);
    check_file(target);
}

static void a_part_left_behind_is_stepped_over(void **state)
{
    (void)state;
    char left[96];
    snprintf(left, sizeof left, "%s.%ld-0.part", target, (long)getpid());
    put_text(left, "left");
    assert_int_equal(write_file(NULL, target, NULL), CERA_OK);
    check_file(target);
    assert_true(holds_text(left, "left"));
    unlink(left);
}

static void what_is_no_file_is_not_replaced(void **state)
{
    (void)state;
    cera_error err;
    assert_int_equal(write_file(NULL, folder, &err), CERA_E_IO);
    assert_non_null(strstr(err.message, "expected a regular file"));
    assert_int_equal(write_file(NULL, "/dev/null", &err), CERA_E_IO);
    assert_int_equal(write_file(NULL, "/dev/null/out.gguf", &err), CERA_E_IO);
    char missing[96];
    snprintf(missing, sizeof missing, "%s/missing/out.gguf", folder);
    assert_int_equal(write_file(NULL, missing, &err), CERA_E_IO);
    assert_non_null(strstr(err.message, "no such file"));
}

static void links_and_permissions_stay(void **state)
{
    (void)state;
    char link_path[96], other[96];
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    put_text(target, "old");
    assert_int_equal(chmod(target, 0640), 0);
    assert_int_equal(symlink("out.gguf", other), 0);
    assert_int_equal(symlink(other, link_path), 0); /* one that is absolute to one that is not */
    assert_int_equal(write_file(NULL, link_path, NULL), CERA_OK);
    check_file(target);
    struct stat st;
    assert_int_equal(lstat(target, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(lstat(other, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(unlink(target), 0);
    assert_int_equal(write_file(NULL, link_path, NULL), CERA_OK); /* they lead to nothing yet */
    check_file(target);
    mode_t mask = umask(022);
    umask(mask);
    assert_int_equal(lstat(target, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0666 & ~mask);
    unlink(link_path);
    unlink(other);
}

/* A part that cannot be removed stays, under its own name; the target is not touched. */
static void a_part_that_cannot_be_removed_is_not_the_target(void **state)
{
    (void)state;
    put_text(target, "old");
    fault_host f;
    fault_init(&f);
    fault_os(&f, FAULT_SYNC, 1, FAULT_ONCE, EIO);
    fault_os(&f, FAULT_REMOVE, 1, FAULT_ONCE, EACCES);
    assert_int_equal(write_file(&f.host, target, NULL), CERA_E_IO);
    assert_null(fault_check(&f));
    fault_done(&f);
    assert_true(holds_text(target, "old"));
    assert_int_equal(n_files(), 2);
    char left[96];
    snprintf(left, sizeof left, "%s.%ld-0.part", target, (long)getpid());
    assert_int_equal(unlink(left), 0);
}

static void arrays_are_copied_from_files(void **state)
{
    (void)state;
    assert_int_equal(write_file(NULL, target, NULL), CERA_OK);
    cr_host host;
    assert_int_equal(cr_host_set(&host, NULL, NULL), CERA_OK);
    cr_gguf *file;
    assert_int_equal(
        cr_gguf_open(&(cera_source){ .path = target, .no_mmap = true }, &host, &file, NULL),
        CERA_OK);
    cr_gguf_writer w;
    cr_gguf_writer_init(&w, &host);
    for (size_t i = 0; i < cr_gguf_n_keys(file); i++) {
        cera_value value;
        cr_str key = cr_gguf_key(file, i, &value);
        cr_gguf_put(&w, key, &value);
    }
    for (size_t i = 0; i < cr_gguf_n_tensors(file); i++) {
        const cr_tensor *t = cr_gguf_tensor(file, i);
        cr_gguf_put_tensor(&w, t->name, t->type, t->n_dims, t->shape);
    }
    assert_int_equal(cr_gguf_writer_begin(&w, target, NULL), CERA_OK);
    for (size_t i = 0; i < cr_gguf_n_tensors(file); i++) {
        const cr_tensor *t = cr_gguf_tensor(file, i);
        assert_int_equal(cr_gguf_writer_data(&w, t->data, t->size, NULL), CERA_OK);
    }
    assert_int_equal(cr_gguf_writer_commit(&w, NULL), CERA_OK);
    cr_gguf_writer_done(&w);
    cr_gguf_close(file);
    check_file(target);
}

static void sizes_beyond_all_files_are_refused(void **state)
{
    (void)state;
    cr_host host;
    assert_int_equal(cr_host_set(&host, NULL, NULL), CERA_OK);
    cr_gguf_writer w;
    cr_gguf_writer_init(&w, &host);
    cr_gguf_put_tensor(&w, cr_str_from("a"), CR_TYPE_F32, 2,
                       (uint64_t[]){ UINT64_C(1) << 40, UINT64_C(1) << 40 });
    assert_int_equal(cr_gguf_writer_begin(&w, target, NULL), CERA_E_LIMIT);
    cr_gguf_writer_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(no_failure_leaves_a_part_of_a_file),
        cmocka_unit_test(an_interrupted_write_goes_on),
        cmocka_unit_test(a_part_left_behind_is_stepped_over),
        cmocka_unit_test(what_is_no_file_is_not_replaced),
        cmocka_unit_test(links_and_permissions_stay),
        cmocka_unit_test(a_part_that_cannot_be_removed_is_not_the_target),
        cmocka_unit_test(arrays_are_copied_from_files),
        cmocka_unit_test(sizes_beyond_all_files_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}

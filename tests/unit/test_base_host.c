/* The host: its tables, the bill of memory, the default operating system, and the watching host of
 * the other tests. */
#define _GNU_SOURCE /* mkstemp, mkfifo under -std=c11 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arith.h"
#include "base/host.h"
#include "support/fault_host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- tables ------------------------------------------------------------------------------ */

static void missing_entries_are_named(void **state)
{
    (void)state;
    cera_host tables;
    cera_host_init(&tables);
    cr_host host;
    cera_error err;
    assert_int_equal(cr_host_set(&host, &tables, &err), CERA_OK);
    assert_int_equal(cr_host_set(&host, NULL, &err), CERA_OK);
    assert_ptr_equal(host.os.read, tables.os.read);
    assert_int_equal(cr_host_live(&host), 0);

    tables.os.wake = NULL;
    assert_int_equal(cr_host_set(&host, &tables, &err), CERA_E_ARG);
    assert_string_equal(err.message, "host.os.wake: expected a function, found NULL");
    cera_host_init(&tables);
    tables.allocator.resize = NULL;
    assert_int_equal(cr_host_set(&host, &tables, &err), CERA_E_ARG);
    assert_string_equal(err.message, "host.allocator.resize: expected a function, found NULL");
    cera_host_init(&tables);
    tables.size = 8;
    assert_int_equal(cr_host_set(&host, &tables, &err), CERA_E_ARG);
    assert_non_null(strstr(err.message, "host.size"));
}

/* ---- memory ------------------------------------------------------------------------------ */

static void memory_is_aligned_and_billed_by_purpose(void **state)
{
    (void)state;
    fault_host f;
    fault_init(&f);
    cr_host host;
    assert_int_equal(cr_host_set(&host, &f.host, NULL), CERA_OK);

    char *kv = cr_alloc(&host, CR_MEM_KV, 1000);
    char *file = cr_alloc_zero(&host, CR_MEM_FILE, 10);
    void *empty = cr_alloc(&host, CR_MEM_SCRATCH, 0);
    assert_non_null(empty);
    assert_int_equal((uintptr_t)kv % 64, 0);
    assert_int_equal((uintptr_t)file % 64, 0);
    assert_memory_equal(file, "\0\0\0\0\0\0\0\0\0\0", 10);
    assert_int_equal(host.live[CR_MEM_KV], 1000);
    assert_int_equal(host.live[CR_MEM_FILE], 10);
    assert_int_equal(host.live[CR_MEM_SCRATCH], 1); /* what was given for nothing */
    assert_int_equal(cr_host_live(&host), 1011);

    memset(kv, 'k', 1000);
    kv = cr_resize(&host, CR_MEM_KV, kv, 1000, 5000);
    assert_non_null(kv);
    assert_int_equal((uintptr_t)kv % 64, 0);
    assert_int_equal(kv[999], 'k');
    assert_int_equal(host.live[CR_MEM_KV], 5000);
    kv = cr_resize(&host, CR_MEM_KV, kv, 5000, 70);
    assert_int_equal(kv[69], 'k');
    assert_int_equal(host.live[CR_MEM_KV], 70);
    char *fresh = cr_resize(&host, CR_MEM_OBJECT, NULL, 0, 30);
    assert_int_equal(host.live[CR_MEM_OBJECT], 30);

    /* A failure is not billed, and keeps what was there. */
    fault_allocs(&f, 1, FAULT_STICKY);
    assert_null(cr_alloc(&host, CR_MEM_KV, 1));
    assert_null(cr_alloc_zero(&host, CR_MEM_KV, 1));
    assert_null(cr_resize(&host, CR_MEM_KV, kv, 70, 700));
    assert_int_equal(kv[69], 'k');
    assert_int_equal(cr_host_live(&host), 111);

    cr_free(&host, CR_MEM_KV, kv, 70);
    cr_free(&host, CR_MEM_FILE, file, 10);
    cr_free(&host, CR_MEM_SCRATCH, empty, 0);
    cr_free(&host, CR_MEM_OBJECT, fresh, 30);
    cr_free(&host, CR_MEM_OBJECT, NULL, 123);
    assert_int_equal(cr_host_live(&host), 0);
    assert_null(fault_check(&f));
    fault_done(&f);
}

static void default_allocator_keeps_alignment(void **state)
{
    (void)state;
    cera_allocator a = cr_default_allocator();
    for (size_t align = 1; align <= 4096; align *= 2) {
        char *ptr = a.alloc(a.ctx, 33, align);
        assert_non_null(ptr);
        assert_int_equal((uintptr_t)ptr % align, 0);
        memset(ptr, 7, 33);
        ptr = a.resize(a.ctx, ptr, 33, 100000, align);
        assert_non_null(ptr);
        assert_int_equal((uintptr_t)ptr % align, 0);
        assert_int_equal(ptr[32], 7);
        a.release(a.ctx, ptr, 100000);
    }
}

/* Of the mapping that holds `ptr`: whether huge pages were asked for, and how many KiB it has of
 * them. -1 where the system does not tell. */
static long huge_pages_of(const void *ptr, bool *asked)
{
    *asked = false;
    FILE *maps = fopen("/proc/self/smaps", "r");
    if (maps == NULL)
        return -1;
    long found = -1, kib;
    bool inside = false;
    for (char line[512]; fgets(line, sizeof line, maps) != NULL;) {
        unsigned long long first, end;
        if (sscanf(line, "%llx-%llx ", &first, &end) == 2)
            inside = (uintptr_t)ptr >= first && (uintptr_t)ptr < end;
        else if (inside && (sscanf(line, "AnonHugePages: %ld", &kib) == 1 ||
                            sscanf(line, "FilePmdMapped: %ld", &kib) == 1))
            found = CR_MAX(found, 0) + kib;
        else if (inside && strncmp(line, "VmFlags:", 8) == 0)
            *asked = strstr(line, " hg") != NULL;
    }
    fclose(maps);
    return found;
}

/* Whether the system takes such a wish, and shows it: emulators do not. */
static bool huge_pages_are_shown(void)
{
    bool asked = false;
#if defined(MADV_HUGEPAGE)
    enum { BYTES = 8 << 20 };
    void *ptr = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(ptr != MAP_FAILED);
    if (madvise(ptr, BYTES, MADV_HUGEPAGE) == 0 && sysconf(_SC_PAGESIZE) == 4096)
        huge_pages_of(ptr, &asked);
    munmap(ptr, BYTES);
#endif
    return asked;
}

static void large_memory_asks_for_huge_pages(void **state)
{
    (void)state;
    enum { SMALL = 1 << 20, LARGE = 16 << 20, HUGE_PAGE = 2 << 20 };
    cera_allocator a = cr_default_allocator();
    char *small = a.alloc(a.ctx, SMALL, 64), *large = a.alloc(a.ctx, LARGE, 64);
    assert_non_null(small);
    assert_non_null(large);
    bool small_asked, large_asked;
    memset(small, 1, SMALL);
    large[0] = large[LARGE - 1] = 1;
    if (huge_pages_are_shown()) {
        assert_int_equal((uintptr_t)large % HUGE_PAGE, 0);
        huge_pages_of(small, &small_asked);
        huge_pages_of(large, &large_asked);
        assert_false(small_asked);
        assert_true(large_asked);
    }
    large = a.resize(a.ctx, large, LARGE, 2 * LARGE, 64);
    assert_non_null(large);
    assert_int_equal(large[0], 1);
    assert_int_equal(large[LARGE - 1], 1);
    a.release(a.ctx, large, 2 * LARGE);
    a.release(a.ctx, small, SMALL);
}

static void sizes_are_checked(void **state)
{
    (void)state;
    size_t out = 5;
    uint64_t wide = 5;
    assert_true(cr_add_size(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);
    out = 5;
    assert_false(cr_add_size(SIZE_MAX, 1, &out));
    assert_false(cr_mul_size(SIZE_MAX / 2 + 1, 2, &out));
    assert_false(cr_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &wide));
    assert_false(cr_align_up(SIZE_MAX - 30, 32, &out));
    assert_int_equal(out, 5);
    assert_int_equal(wide, 5);
    assert_true(cr_mul_size(0, SIZE_MAX, &out) && out == 0);
    assert_true(cr_align_up(33, 32, &out) && out == 64);
    assert_true(cr_align_up(SIZE_MAX - 31, 32, &out) && out == SIZE_MAX - 31);
}

/* ---- log --------------------------------------------------------------------------------- */

static void log_lines_are_escaped(void **state)
{
    (void)state;
    fault_host f;
    fault_init(&f);
    cr_host host;
    assert_int_equal(cr_host_set(&host, &f.host, NULL), CERA_OK);
    cr_log(&host, 0, "key %s", "a\nb\xff");
    assert_int_equal(fault_logs(&f), 1);
    assert_string_equal(fault_last_log(&f), "key a\\x0Ab\\xFF");
    host.log = NULL;
    cr_log(&host, 0, "dropped");
    assert_int_equal(fault_logs(&f), 1);
    fault_done(&f);
}

/* ---- the default operating system -------------------------------------------------------- */

static void files_are_read_and_mapped(void **state)
{
    (void)state;
    cera_os os = cr_default_os();
    char path[] = "/tmp/cera-test-XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, "0123456789", 10), 10);
    struct stat st;
    assert_int_equal(fstat(descriptor, &st), 0);
    close(descriptor);

    void *file;
    assert_int_equal(os.open(os.ctx, path, &file), 0);
    cera_os_stat found;
    assert_int_equal(os.stat(os.ctx, file, &found), 0);
    assert_int_equal(found.size, 10);
    assert_true(found.is_regular);
    assert_true(found.inode == (uint64_t)st.st_ino);
    assert_true(found.device == (uint64_t)st.st_dev);
    assert_true(found.mtime_ns / 1000000000 == (int64_t)st.st_mtime);

    char buf[16] = { 0 };
    assert_int_equal(os.read(os.ctx, file, buf, 4, 3), 4);
    assert_memory_equal(buf, "3456", 5);
    assert_int_equal(os.read(os.ctx, file, buf, sizeof buf, 8), 2);
    assert_int_equal(os.read(os.ctx, file, buf, sizeof buf, 10), 0);
    assert_int_equal(os.read(os.ctx, file, buf, 1, UINT64_MAX), -EOVERFLOW);

    const void *map;
    assert_int_equal(os.map(os.ctx, file, 10, &map), 0);
    os.close(os.ctx, file); /* a mapping outlives its handle */
    assert_memory_equal(map, "0123456789", 10);
    os.unmap(os.ctx, map, 10);
    unlink(path);
    assert_int_equal(os.open(os.ctx, path, &file), ENOENT);
}

/* A file that is not cached is read in huge pages where its file system has them: what is asserted
 * is that they are asked for, for large files only, and that the bytes are those of the file. */
static void large_files_are_mapped_in_huge_pages(void **state)
{
    (void)state;
    enum { LARGE = 12 << 20, SMALL = 1 << 20 };
    cera_os os = cr_default_os();
    char path[] = "/tmp/cera-test-XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    static char piece[1 << 16];
    for (size_t at = 0; at < LARGE; at += sizeof piece) {
        memset(piece, (int)(at >> 16), sizeof piece);
        assert_int_equal(write(descriptor, piece, sizeof piece), sizeof piece);
    }
    assert_int_equal(fsync(descriptor), 0);
#if defined(POSIX_FADV_DONTNEED)
    (void)posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
#endif
    close(descriptor);

    void *file;
    const void *large, *small;
    assert_int_equal(os.open(os.ctx, path, &file), 0);
    assert_int_equal(os.map(os.ctx, file, LARGE, &large), 0);
    assert_int_equal(os.map(os.ctx, file, SMALL, &small), 0);
    for (size_t at = 0; at < LARGE; at += sizeof piece)
        assert_int_equal(((const uint8_t *)large)[at], at >> 16 & 0xff);
    assert_int_equal(((const uint8_t *)small)[SMALL - 1], (SMALL - 1) >> 16);
    if (huge_pages_are_shown()) {
        bool asked;
        long kib = huge_pages_of(large, &asked);
        assert_true(asked);
        print_message("%ld of %d KiB in huge pages\n", kib, LARGE >> 10);
        huge_pages_of(small, &asked);
        assert_false(asked);
    }
    os.unmap(os.ctx, small, SMALL);
    os.unmap(os.ctx, large, LARGE);
    os.close(os.ctx, file);
    unlink(path);
}

static void what_is_not_a_file_is_told_apart(void **state)
{
    (void)state;
    cera_os os = cr_default_os();
    void *file;
    cera_os_stat found;
    assert_int_equal(os.open(os.ctx, "/tmp", &file), 0);
    assert_int_equal(os.stat(os.ctx, file, &found), 0);
    assert_false(found.is_regular);
    char byte;
    assert_int_equal(os.read(os.ctx, file, &byte, 1, 0), -EISDIR);
    os.close(os.ctx, file);

    /* Opening a pipe that nobody writes to does not wait. */
    char dir[] = "/tmp/cera-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/pipe", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(os.open(os.ctx, path, &file), 0);
    assert_int_equal(os.stat(os.ctx, file, &found), 0);
    assert_false(found.is_regular);
    os.close(os.ctx, file);
    unlink(path);
    rmdir(dir);
}

/* Writes a file into a folder that may be written to and not read: 0, or the number of the step
 * that failed. Of another user than the one who may do everything. */
static int write_unread(const char *folder)
{
    cera_os os = cr_default_os();
    char path[64], part[64];
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(part, sizeof part, "%s/part", folder);
    void *file;
    int denied = open(folder, O_RDONLY | O_DIRECTORY);
    if (denied >= 0)
        return 1;
    if (os.create(os.ctx, part, 0, &file) != 0 || os.write(os.ctx, file, "x", 1, 0) != 1 ||
        os.sync(os.ctx, file) != 0)
        return 2;
    os.close(os.ctx, file);
    if (os.rename(os.ctx, part, path) != 0)
        return 3;
    if (os.sync_folder(os.ctx, path) != 0)
        return 4;
    /* What is not there cannot be made to last. */
    return os.sync_folder(os.ctx, part) == ENOENT && os.remove(os.ctx, path) == 0 ? 0 : 5;
}

static void folders_that_cannot_be_read_are_synced(void **state)
{
    (void)state;
    char folder[] = "/tmp/cera-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0333), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(geteuid() == 0 && setuid(65534) != 0 ? 9 : write_unread(folder));
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    assert_int_equal(rmdir(folder), 0);
}

typedef struct waiter {
    cera_os os;
    _Atomic uint32_t word;
    int seen;
} waiter;

static void wait_for_one(void *arg)
{
    waiter *w = arg;
    while (atomic_load(&w->word) == 0)
        w->os.wait(w->os.ctx, (const uint32_t *)&w->word, 0);
    w->seen = (int)atomic_load(&w->word);
}

static void threads_wait_and_wake(void **state)
{
    (void)state;
    waiter w = { .os = cr_default_os() };
    uint64_t begin = w.os.clock_ns(w.os.ctx);
    /* A word that already differs does not wait. */
    w.os.wait(w.os.ctx, (const uint32_t *)&w.word, 1);
    for (int i = 0; i < 50; i++) {
        void *thread;
        atomic_store(&w.word, 0);
        assert_int_equal(w.os.thread_start(w.os.ctx, wait_for_one, &w, &thread), 0);
        atomic_store(&w.word, 7);
        w.os.wake(w.os.ctx, (const uint32_t *)&w.word);
        w.os.thread_join(w.os.ctx, thread);
        assert_int_equal(w.seen, 7);
    }
    assert_true(w.os.clock_ns(w.os.ctx) > begin);

    uint64_t mask[16];
    assert_int_equal(w.os.affinity(w.os.ctx, mask), 0);
    uint64_t any = 0;
    for (int i = 0; i < 16; i++)
        any |= mask[i];
    assert_true(any != 0);
}

/* ---- the watching host ------------------------------------------------------------------- */

static void misuse_is_seen(void **state)
{
    (void)state;
    fault_host f;

    fault_init(&f);
    cera_allocator a = f.host.allocator;
    char *ptr = a.alloc(a.ctx, 10, 64);
    assert_int_equal((unsigned char)ptr[9], 0xa5);
    assert_non_null(strstr(fault_check(&f), "still held: 1 pieces (10 bytes)"));
    a.release(a.ctx, ptr, 10);
    fault_done(&f);

    fault_init(&f);
    ptr = a.alloc(a.ctx, 10, 64);
    a.release(a.ctx, ptr, 11);
    assert_string_equal(fault_check(&f), "release: 11 bytes, but 10 were allocated");
    fault_done(&f);

    for (int i = 0; i < 2; i++) {
        fault_init(&f);
        ptr = a.alloc(a.ctx, 10, 64);
        ptr[i == 0 ? 10 : -1] = 0;
        a.release(a.ctx, ptr, 10);
        assert_non_null(strstr(fault_check(&f), i == 0 ? "bytes after" : "bytes before"));
        fault_done(&f);
    }
}

static void chosen_allocations_fail(void **state)
{
    (void)state;
    for (size_t i = 1; i <= 4; i++) {
        for (int mode = FAULT_ONCE; mode <= FAULT_STICKY; mode++) {
            fault_host f;
            fault_init(&f);
            fault_allocs(&f, i, (fault_mode)mode);
            cera_allocator a = f.host.allocator;
            size_t n_failed = 0;
            for (size_t k = 1; k <= 3; k++) {
                void *ptr = a.alloc(a.ctx, 8, 8);
                bool expected = mode == FAULT_ONCE ? k == i : k >= i;
                assert_int_equal(ptr == NULL, expected);
                n_failed += ptr == NULL ? 1 : 0;
                if (ptr != NULL)
                    a.release(a.ctx, ptr, 8);
            }
            assert_int_equal(fault_hits(&f), n_failed);
            assert_int_equal(fault_calls(&f, FAULT_ALLOC), 3);
            assert_null(fault_check(&f));
            fault_done(&f);
        }
    }
}

static void chosen_system_calls_fail(void **state)
{
    (void)state;
    fault_host f;
    fault_init(&f);
    cera_os os = f.host.os;
    void *file;
    char byte[8];
    fault_os(&f, FAULT_OPEN, 2, FAULT_ONCE, EMFILE);
    fault_os(&f, FAULT_READ, 2, FAULT_STICKY, EIO);
    fault_short_reads(&f, 3);
    assert_int_equal(os.open(os.ctx, "/dev/zero", &file), 0);
    void *other;
    assert_int_equal(os.open(os.ctx, "/dev/zero", &other), EMFILE);
    assert_int_equal(os.read(os.ctx, file, byte, 8, 0), 3);
    assert_int_equal(os.read(os.ctx, file, byte, 8, 0), -EIO);
    assert_int_equal(os.read(os.ctx, file, byte, 8, 0), -EIO);
    assert_non_null(strstr(fault_check(&f), "1 files"));
    os.close(os.ctx, file);
    fault_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_entries_are_named),
        cmocka_unit_test(memory_is_aligned_and_billed_by_purpose),
        cmocka_unit_test(default_allocator_keeps_alignment),
        cmocka_unit_test(large_memory_asks_for_huge_pages),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(log_lines_are_escaped),
        cmocka_unit_test(files_are_read_and_mapped),
        cmocka_unit_test(large_files_are_mapped_in_huge_pages),
        cmocka_unit_test(what_is_not_a_file_is_told_apart),
        cmocka_unit_test(folders_that_cannot_be_read_are_synced),
        cmocka_unit_test(threads_wait_and_wake),
        cmocka_unit_test(misuse_is_seen),
        cmocka_unit_test(chosen_allocations_fail),
        cmocka_unit_test(chosen_system_calls_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

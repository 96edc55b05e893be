/* POSIX: the default allocator and the default system table. The only file of the library that
 * calls the operating system.
 *
 * Linux has futexes and affinity masks; elsewhere a small table of condition variables and the
 * number of processors stand in for them. WASI has files and a clock: threads do not start there,
 * and files are read instead of mapped. */
#define _GNU_SOURCE /* sched_getaffinity, syscall, O_CLOEXEC under -std=c11 */
#define _DARWIN_C_SOURCE
#define _FILE_OFFSET_BITS 64

#include "base/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if !defined(__wasi__)
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#endif
#if defined(__linux__)
#include <linux/futex.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#endif

/* ---- huge pages -------------------------------------------------------------------------- */

/* Pieces with fewer than a few of them have little to win, and small processes stay small. */
enum { HUGE_PAGE = 2 << 20, HUGE_LEAST = 4 * HUGE_PAGE };

/* Asks for pages of 2 MiB, in which memory is read faster than in those of 4 KiB (figures:
 * docs/performance.md). Of a mapped file, Linux then reads what is not cached in such pieces, if the
 * file system has them. A wish: when it is refused, nothing is wrong. Where the smallest pages are
 * larger than 4 KiB, huge ones have 32 or 512 MiB, too much for the few bytes that may be used. */
#if defined(__linux__) && defined(MADV_HUGEPAGE)

static bool is_worth_huge_pages(size_t size)
{
    return size >= HUGE_LEAST && sysconf(_SC_PAGESIZE) == 4096;
}

static void ask_for_huge_pages(void *ptr, size_t size)
{
    if (is_worth_huge_pages(size))
        madvise(ptr, size, MADV_HUGEPAGE);
}

#else

static bool is_worth_huge_pages(size_t size)
{
    (void)size;
    return false;
}

static void ask_for_huge_pages(void *ptr, size_t size)
{
    (void)ptr, (void)size;
}

#endif

/* ---- memory ------------------------------------------------------------------------------ */

static void *default_alloc(void *ctx, size_t size, size_t align)
{
    (void)ctx;
    void *ptr = NULL;
    align = CR_MAX(align, is_worth_huge_pages(size) ? (size_t)HUGE_PAGE : sizeof(void *));
    if (posix_memalign(&ptr, align, size) != 0)
        return NULL;
    ask_for_huge_pages(ptr, size);
    return ptr;
}

static void default_release(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    (void)size;
    free(ptr);
}

/* realloc forgets the alignment, so a piece that grows is always copied. */
static void *default_resize(void *ctx, void *ptr, size_t old_size, size_t size, size_t align)
{
    void *moved = default_alloc(ctx, size, align);
    if (moved == NULL)
        return NULL;
    memcpy(moved, ptr, CR_MIN(old_size, size));
    free(ptr);
    return moved;
}

cera_allocator cr_default_allocator(void)
{
    return (cera_allocator){
        .alloc = default_alloc,
        .resize = default_resize,
        .release = default_release,
    };
}

/* ---- files ------------------------------------------------------------------------------- */

/* A handle is the descriptor plus one, because descriptor 0 is valid and NULL is not a handle. */
static void *handle_of(int descriptor)
{
    return (void *)((intptr_t)descriptor + 1);
}

static int descriptor_of(void *file)
{
    return (int)((intptr_t)file - 1);
}

static int default_open(void *ctx, const char *path, void **file)
{
    (void)ctx;
    int descriptor;
    /* O_NONBLOCK: opening a named pipe must not wait for a writer. It means nothing for files. */
    do
        descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0)
        return errno;
    *file = handle_of(descriptor);
    return 0;
}

static void default_close(void *ctx, void *file)
{
    (void)ctx;
    close(descriptor_of(file));
}

static cera_os_stat stat_of(const struct stat *st)
{
#if defined(__APPLE__)
    struct timespec mtime = st->st_mtimespec;
#else
    struct timespec mtime = st->st_mtim;
#endif
    return (cera_os_stat){
        .size = st->st_size > 0 ? (uint64_t)st->st_size : 0,
        .mtime_ns = (int64_t)mtime.tv_sec * 1000000000 + (int64_t)mtime.tv_nsec,
        .device = (uint64_t)st->st_dev,
        .inode = (uint64_t)st->st_ino,
        .mode = (uint32_t)st->st_mode & 0777,
        .is_regular = S_ISREG(st->st_mode),
    };
}

static int default_stat(void *ctx, void *file, cera_os_stat *out)
{
    (void)ctx;
    struct stat st;
    if (fstat(descriptor_of(file), &st) != 0)
        return errno;
    *out = stat_of(&st);
    return 0;
}

static int64_t default_read(void *ctx, void *file, void *buf, size_t n, uint64_t offset)
{
    (void)ctx;
    enum { READ_MAX = 1 << 30 }; /* some systems refuse more than 2^31 - 1 bytes in one call */
    if (offset > INT64_MAX)
        return -EOVERFLOW;
    ssize_t got;
    do
        got = pread(descriptor_of(file), buf, CR_MIN(n, (size_t)READ_MAX), (off_t)offset);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -(int64_t)errno : (int64_t)got;
}

/* Exactly these permissions, whatever the umask. Some file systems have the same for all files, and
 * refuse to change them. */
static int set_mode(int descriptor, uint32_t mode)
{
#if defined(__wasi__)
    (void)descriptor, (void)mode;
    return 0;
#else
    struct stat st;
    if (fstat(descriptor, &st) != 0)
        return errno;
    if (((uint32_t)st.st_mode & 0777) == mode || fchmod(descriptor, (mode_t)mode) == 0)
        return 0;
    return errno;
#endif
}

static int default_create(void *ctx, const char *path, uint32_t mode, void **file)
{
    (void)ctx;
    int descriptor;
    do /* nobody else's until it has the permissions that it is to have */
        descriptor =
            open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, mode != 0 ? 0600 : 0666);
    while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0)
        return errno;
    int error = mode != 0 ? set_mode(descriptor, mode) : 0;
    if (error != 0) {
        close(descriptor);
        unlink(path);
        return error;
    }
    *file = handle_of(descriptor);
    return 0;
}

static int64_t default_write(void *ctx, void *file, const void *buf, size_t n, uint64_t offset)
{
    (void)ctx;
    enum { WRITE_MAX = 1 << 30 };
    if (offset > INT64_MAX)
        return -EFBIG;
    ssize_t put;
    do
        put = pwrite(descriptor_of(file), buf, CR_MIN(n, (size_t)WRITE_MAX), (off_t)offset);
    while (put < 0 && errno == EINTR);
    return put < 0 ? -(int64_t)errno : (int64_t)put;
}

static int sync_descriptor(int descriptor)
{
    int result;
    do
        result = fsync(descriptor);
    while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

static int default_sync(void *ctx, void *file)
{
    (void)ctx;
    return sync_descriptor(descriptor_of(file));
}

static int default_rename(void *ctx, const char *from, const char *to)
{
    (void)ctx;
    return rename(from, to) == 0 ? 0 : errno;
}

/* Everything on the disk that a file lies on. */
static int sync_disk_of(const char *path)
{
#if defined(__linux__)
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (descriptor < 0)
        return errno;
    int error = syncfs(descriptor) == 0 ? 0 : errno;
    close(descriptor);
    return error;
#elif defined(__wasi__)
    (void)path;
    return EACCES;
#else
    (void)path;
    sync();
    return 0;
#endif
}

static int default_sync_folder(void *ctx, const char *path)
{
    (void)ctx;
    const char *slash = strrchr(path, '/');
    /* "/file" lies in "/", "file" in ".". */
    size_t n = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    char *folder = malloc(n + 2);
    if (folder == NULL)
        return ENOMEM;
    memcpy(folder, n > 0 ? path : ".", CR_MAX(n, (size_t)1));
    folder[CR_MAX(n, (size_t)1)] = '\0';
    int descriptor = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    int error = descriptor < 0 ? errno : 0;
    free(folder);
    if (error == EACCES) /* one may write to the folder, but not read it */
        return sync_disk_of(path);
    if (error != 0)
        return error;
    error = sync_descriptor(descriptor);
    close(descriptor);
    /* Some file systems have nothing to do for a folder, and say so. */
    return error == EINVAL || error == ENOTSUP ? 0 : error;
}

static int default_remove(void *ctx, const char *path)
{
    (void)ctx;
    return unlink(path) == 0 ? 0 : errno;
}

static int default_read_link(void *ctx, const char *path, char *to, size_t room)
{
    (void)ctx;
    ssize_t n = readlink(path, to, room);
    if (n < 0)
        return errno;
    if ((size_t)n >= room)
        return ENAMETOOLONG;
    to[n] = '\0';
    return 0;
}

static int default_make_folder(void *ctx, const char *path)
{
    (void)ctx;
    return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : errno;
}

static int default_list(void *ctx, const char *folder,
                        int (*each)(void *user, const char *name, const cera_os_stat *stat),
                        void *user)
{
    (void)ctx;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return errno;
    int error = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            error = errno;
            break;
        }
        struct stat st;
        /* A file may be gone by now: others remove files, too. */
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(st.st_mode))
            continue;
        cera_os_stat stat = stat_of(&st);
        if (each(user, entry->d_name, &stat) != 0)
            break;
    }
    closedir(dir);
    return error;
}

static int default_touch(void *ctx, const char *path)
{
    (void)ctx;
    return utimensat(AT_FDCWD, path, NULL, 0) == 0 ? 0 : errno;
}

/* ENODEV, of a map: read it. */
#if defined(__wasi__)

static int default_map(void *ctx, void *file, size_t n, const void **out)
{
    (void)ctx, (void)file, (void)n, (void)out;
    return ENODEV;
}

static void default_unmap(void *ctx, const void *ptr, size_t n)
{
    (void)ctx, (void)ptr, (void)n;
}

#else

static int default_map(void *ctx, void *file, size_t n, const void **out)
{
    (void)ctx;
    void *ptr = mmap(NULL, n, PROT_READ, MAP_SHARED, descriptor_of(file), 0);
    if (ptr == MAP_FAILED)
        return errno;
    ask_for_huge_pages(ptr, n);
    *out = ptr;
    return 0;
}

static void default_unmap(void *ctx, const void *ptr, size_t n)
{
    (void)ctx;
    munmap((void *)(uintptr_t)ptr, n);
}

#endif

/* ---- time and threads -------------------------------------------------------------------- */

static uint64_t default_clock_ns(void *ctx)
{
    (void)ctx;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#if defined(__wasi__)

static int default_thread_start(void *ctx, void (*entry)(void *arg), void *arg, void **out)
{
    (void)ctx, (void)entry, (void)arg, (void)out;
    return ENOTSUP;
}

static void default_thread_join(void *ctx, void *handle)
{
    (void)ctx, (void)handle;
}

/* With one thread nothing changes while it waits, so nothing makes it wait. */
static void default_wait(void *ctx, const uint32_t *word, uint32_t value)
{
    (void)ctx, (void)word, (void)value;
}

static void default_wake(void *ctx, const uint32_t *word)
{
    (void)ctx, (void)word;
}

#else

typedef struct os_thread {
    pthread_t id;
    void (*main)(void *arg);
    void *arg;
} os_thread;

static void *thread_main(void *arg)
{
    os_thread *thread = arg;
    thread->main(thread->arg);
    return NULL;
}

/* The signals that a program expects to arrive on its own threads: all but those that report a
 * fault of the very instruction being executed. */
static void signals_of_program(sigset_t *set)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT };
    sigfillset(set);
    for (size_t i = 0; i < CR_COUNT(faults); i++)
        sigdelset(set, faults[i]);
}

static int default_thread_start(void *ctx, void (*entry)(void *arg), void *arg, void **out)
{
    (void)ctx;
    enum { STACK_BYTES = 1 << 20 }; /* the same everywhere: defaults range from 128 KiB to 8 MiB */
    os_thread *thread = malloc(sizeof *thread);
    if (thread == NULL)
        return ENOMEM;
    thread->main = entry;
    thread->arg = arg;

    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);
    if (error == 0) {
        error = pthread_attr_setstacksize(&attr, STACK_BYTES);
        if (error == 0) {
            /* A new thread inherits the mask of its maker. */
            sigset_t blocked, saved;
            signals_of_program(&blocked);
            pthread_sigmask(SIG_BLOCK, &blocked, &saved);
            error = pthread_create(&thread->id, &attr, thread_main, thread);
            pthread_sigmask(SIG_SETMASK, &saved, NULL);
        }
        pthread_attr_destroy(&attr);
    }
    if (error != 0) {
        free(thread);
        return error;
    }
    *out = thread;
    return 0;
}

static void default_thread_join(void *ctx, void *handle)
{
    (void)ctx;
    os_thread *thread = handle;
    pthread_join(thread->id, NULL);
    free(thread);
}

/* ---- waiting ----------------------------------------------------------------------------- */

#if defined(__linux__) && !defined(CR_NO_FUTEX)

/* The kernel compares the word and goes to sleep in one step, so a wake between the caller's last
 * look and the sleep is not lost. EINTR and EAGAIN are early returns, which the contract allows. */
static void default_wait(void *ctx, const uint32_t *word, uint32_t value)
{
    (void)ctx;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void default_wake(void *ctx, const uint32_t *word)
{
    (void)ctx;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#else

/* Words share condition variables by a hash of their address. Waking more than was meant is an
 * early return. The lock makes "compare, then sleep" one step: a waker changes the word first and
 * then takes the lock, so it comes either before the comparison or after the sleep began. The
 * table is process-wide because a word says nothing about whose it is; it holds no state between
 * calls. */
enum { N_PARKS = 64 };

typedef struct park {
    pthread_mutex_t lock;
    pthread_cond_t woken;
} park;

#define PARK                                                                                       \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER                                        \
    }
#define PARK_4 PARK, PARK, PARK, PARK
#define PARK_16 PARK_4, PARK_4, PARK_4, PARK_4
static park parks[N_PARKS] = { PARK_16, PARK_16, PARK_16, PARK_16 };

static park *park_of(const uint32_t *word)
{
    return &parks[((uintptr_t)word >> 6) % N_PARKS];
}

static void default_wait(void *ctx, const uint32_t *word, uint32_t value)
{
    (void)ctx;
    park *p = park_of(word);
    pthread_mutex_lock(&p->lock);
    if (atomic_load((const _Atomic uint32_t *)word) == value)
        pthread_cond_wait(&p->woken, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void default_wake(void *ctx, const uint32_t *word)
{
    (void)ctx;
    park *p = park_of(word);
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->woken);
    pthread_mutex_unlock(&p->lock);
}

#endif
#endif

/* ---- processors -------------------------------------------------------------------------- */

static uint64_t default_process(void *ctx)
{
    (void)ctx;
#if defined(__wasi__)
    return 1;
#else
    return (uint64_t)getpid();
#endif
}

static int default_affinity(void *ctx, uint64_t mask[16])
{
    (void)ctx;
    memset(mask, 0, 16 * sizeof mask[0]);
#if defined(__linux__)
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return errno;
    for (int i = 0; i < 1024; i++)
        if (CPU_ISSET((size_t)i, &set))
            mask[i / 64] |= UINT64_C(1) << i % 64;
#else
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    if (n < 1)
        return ENOSYS;
    for (long i = 0; i < CR_MIN(n, 1024L); i++)
        mask[i / 64] |= UINT64_C(1) << i % 64;
#endif
    return 0;
}

void cr_os_hwcaps(uint64_t words[2])
{
    words[0] = words[1] = 0;
#if defined(__linux__)
    words[0] = getauxval(AT_HWCAP);
    words[1] = getauxval(AT_HWCAP2);
#endif
}

bool cr_os_permits_tiles(void)
{
#if defined(__linux__) && defined(__x86_64__)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM; XCR0's bit */
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

cera_os cr_default_os(void)
{
    return (cera_os){
        .open = default_open,
        .close = default_close,
        .stat = default_stat,
        .read = default_read,
        .create = default_create,
        .write = default_write,
        .sync = default_sync,
        .rename = default_rename,
        .sync_folder = default_sync_folder,
        .remove = default_remove,
        .read_link = default_read_link,
        .make_folder = default_make_folder,
        .list = default_list,
        .touch = default_touch,
        .map = default_map,
        .unmap = default_unmap,
        .clock_ns = default_clock_ns,
        .thread_start = default_thread_start,
        .thread_join = default_thread_join,
        .wait = default_wait,
        .wake = default_wake,
        .affinity = default_affinity,
        .process = default_process,
    };
}

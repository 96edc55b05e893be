/* The width of the pool on made-up machines: a table of files stands for /proc and /sys. */
#define _GNU_SOURCE /* syscall */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/sysfile.h"
#include "support/fault_host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

/* ---- a machine --------------------------------------------------------------------------- */

typedef struct made_file {
    char path[160];
    const char *text;
    char own[1200]; /* for texts that are made here */
} made_file;

typedef struct machine {
    made_file files[200];
    size_t n_files;
    uint64_t mask[16];
    int affinity_error;
    fault_host f;
    cr_host host;
} machine;

static int made_open(void *ctx, const char *path, void **file)
{
    machine *m = ctx;
    /* The last one wins, so that a test can change what a builder made. */
    for (size_t i = m->n_files; i-- > 0;) {
        if (strcmp(m->files[i].path, path) == 0) {
            *file = &m->files[i];
            return m->files[i].text != NULL ? 0 : ENOENT;
        }
    }
    return ENOENT;
}

static void made_close(void *ctx, void *file)
{
    (void)ctx;
    (void)file;
}

static int64_t made_read(void *ctx, void *file, void *buf, size_t n, uint64_t offset)
{
    (void)ctx;
    const made_file *f = file;
    size_t size = strlen(f->text);
    if (offset >= size)
        return 0;
    n = CR_MIN(n, size - (size_t)offset);
    memcpy(buf, f->text + offset, n);
    return (int64_t)n;
}

static int made_affinity(void *ctx, uint64_t mask[16])
{
    machine *m = ctx;
    memcpy(mask, m->mask, sizeof m->mask);
    return m->affinity_error;
}

static void put(machine *m, const char *path, const char *text)
{
    assert_true(m->n_files < CR_COUNT(m->files));
    made_file *f = &m->files[m->n_files++];
    snprintf(f->path, sizeof f->path, "%s", path);
    f->text = text;
}

static void put_cpu(machine *m, int cpu, const char *file, const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/%s", cpu, file);
    put(m, path, text);
    if (text != NULL) {
        made_file *f = &m->files[m->n_files - 1];
        snprintf(f->own, sizeof f->own, "%s", text);
        f->text = f->own;
    }
}

static void allow(machine *m, uint64_t low)
{
    memset(m->mask, 0, sizeof m->mask);
    m->mask[0] = low;
}

/* n processors, all allowed, `threads` of them neighbours on each core; no cgroup. */
static machine *make(int n, int threads)
{
    static machine m;
    memset(&m, 0, sizeof m);
    cera_os os = cr_default_os();
    os.open = made_open;
    os.close = made_close;
    os.read = made_read;
    os.affinity = made_affinity;
    os.ctx = &m;
    fault_init_on(&m.f, &os);
    assert_int_equal(cr_host_set(&m.host, &m.f.host, NULL), CERA_OK);

    char list[32];
    snprintf(list, sizeof list, "0-%d\n", n - 1);
    put_cpu(&m, 0, "", NULL);
    put(&m, "/sys/devices/system/cpu/online", "");
    made_file *online = &m.files[m.n_files - 1];
    snprintf(online->own, sizeof online->own, "%s", list);
    online->text = online->own;
    for (int i = 0; i < n; i++) {
        int first = i / threads * threads;
        if (threads == 1)
            snprintf(list, sizeof list, "%d\n", i);
        else
            snprintf(list, sizeof list, "%d-%d\n", first, first + threads - 1);
        put_cpu(&m, i, "topology/thread_siblings_list", list);
    }
    allow(&m, n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1);
    return &m;
}

static cera_cpu_info describe(machine *m)
{
    cera_cpu_info info;
    cr_cpu_describe(&m->host, &info);
    assert_int_equal(cr_cpu_n_threads(&m->host), info.n_threads);
    /* Asking needs no memory and leaves nothing open. */
    assert_int_equal(fault_calls(&m->f, FAULT_ALLOC), 0);
    assert_null(fault_check(&m->f));
    return info;
}

static void assert_width(machine *m, int n_threads, const char *why)
{
    cera_cpu_info info = describe(m);
    assert_string_equal(info.why, why);
    assert_int_equal(info.n_threads, n_threads);
}

/* ---- cores ------------------------------------------------------------------------------- */

static void each_processor_is_a_core(void **state)
{
    (void)state;
    machine *m = make(2, 1);
    assert_width(m, 2, "2 allowed of 2 processors; no cgroup limit; 2 physical cores");
    cera_cpu_info info = describe(m);
    assert_int_equal(info.n_logical, 2);
    assert_int_equal(info.n_allowed, 2);
    assert_int_equal(info.n_performance, 2);
    assert_int_equal(info.n_efficiency, 0);
    assert_int_equal(info.n_numa, 1);
    assert_true(info.quota == 0);
    assert_true(info.l2_bytes == 0 && info.l3_bytes == 0);
}

static void siblings_count_once(void **state)
{
    (void)state;
    assert_width(make(16, 2), 8, "16 allowed of 16 processors; no cgroup limit; 8 physical cores");
    assert_width(make(16, 4), 4, "16 allowed of 16 processors; no cgroup limit; 4 physical cores");
    /* Numbered the other way round: 0-7 are the first threads, 8-15 the second ones. */
    machine *m = make(16, 1);
    for (int i = 0; i < 16; i++) {
        char list[16];
        snprintf(list, sizeof list, "%d,%d\n", i % 8, i % 8 + 8);
        put_cpu(m, i, "topology/thread_siblings_list", list);
    }
    assert_width(m, 8, "16 allowed of 16 processors; no cgroup limit; 8 physical cores");
    /* Only second threads are allowed: they are cores too. */
    allow(m, 0xf000);
    assert_width(m, 4, "4 allowed of 16 processors; no cgroup limit; 4 physical cores");
}

static void the_affinity_mask_limits(void **state)
{
    (void)state;
    machine *m = make(8, 1);
    allow(m, 0x15);
    assert_width(m, 3, "3 allowed of 8 processors; no cgroup limit; 3 physical cores");
    allow(m, 0x80);
    assert_width(m, 1, "1 allowed of 8 processors; no cgroup limit; 1 physical core");
    /* Both threads of one core and one of another. */
    m = make(8, 2);
    allow(m, 0x07);
    assert_width(m, 2, "3 allowed of 8 processors; no cgroup limit; 2 physical cores");
}

static void high_processor_numbers_count(void **state)
{
    (void)state;
    machine *m = make(1, 1);
    put(m, "/sys/devices/system/cpu/online", "0-1023\n");
    memset(m->mask, 0xff, sizeof m->mask);
    cera_cpu_info info = describe(m);
    assert_int_equal(info.n_allowed, 1024);
    assert_int_equal(info.n_performance, 1024);
    assert_int_equal(info.n_threads, 256); /* the widest pool */
    memset(m->mask, 0, sizeof m->mask);
    m->mask[15] = UINT64_C(3) << 62;
    assert_width(m, 2, "2 allowed of 1024 processors; no cgroup limit; 2 physical cores");
}

static void small_arm_cores_are_left_out(void **state)
{
    (void)state;
    machine *m = make(8, 1);
    static const char *const capacity[] = {
        "250", "250", "250", "250", "768", "768", "768", "1024"
    };
    for (int i = 0; i < 8; i++)
        put_cpu(m, i, "cpu_capacity", capacity[i]);
    assert_width(m, 4,
                 "8 allowed of 8 processors; no cgroup limit; "
                 "4 performance cores, 4 efficiency cores left out");
    cera_cpu_info info = describe(m);
    assert_int_equal(info.n_performance, 4);
    assert_int_equal(info.n_efficiency, 4);
    /* Where only small ones are allowed, they are compared with each other. */
    allow(m, 0x0f);
    assert_width(m, 4, "4 allowed of 8 processors; no cgroup limit; 4 physical cores");
}

static void small_intel_cores_are_left_out(void **state)
{
    (void)state;
    /* 4 large cores with 2 threads, 0 to 7, and 4 small ones, 8 to 11. */
    machine *m = make(12, 2);
    for (int i = 8; i < 12; i++) {
        char list[16];
        snprintf(list, sizeof list, "%d\n", i);
        put_cpu(m, i, "topology/thread_siblings_list", list);
    }
    put(m, "/sys/devices/cpu_atom/cpus", "8-11\n");
    assert_width(m, 4,
                 "12 allowed of 12 processors; no cgroup limit; "
                 "4 performance cores, 4 efficiency cores left out");
    allow(m, 0xf00);
    assert_width(m, 4, "4 allowed of 12 processors; no cgroup limit; 4 efficiency cores");
}

static void clocks_tell_where_nothing_else_does(void **state)
{
    (void)state;
    machine *m = make(6, 1);
    for (int i = 0; i < 6; i++)
        put_cpu(m, i, "cpufreq/cpuinfo_max_freq", i < 4 ? "1800000" : "2800000");
    assert_width(m, 2,
                 "6 allowed of 6 processors; no cgroup limit; "
                 "2 performance cores, 4 efficiency cores left out");
    /* Favoured cores are a little faster, and all are equal. */
    for (int i = 0; i < 6; i++)
        put_cpu(m, i, "cpufreq/cpuinfo_max_freq", i < 4 ? "5000000" : "5300000");
    assert_width(m, 6, "6 allowed of 6 processors; no cgroup limit; 6 physical cores");
    /* A measure that one core lacks says nothing. */
    put_cpu(m, 5, "cpufreq/cpuinfo_max_freq", NULL);
    put_cpu(m, 0, "cpufreq/cpuinfo_max_freq", "1");
    assert_width(m, 6, "6 allowed of 6 processors; no cgroup limit; 6 physical cores");
}

static void what_cannot_be_read_does_not_limit(void **state)
{
    (void)state;
    machine *m = make(4, 2);
    m->affinity_error = ENOSYS;
    assert_width(m, 2, "4 allowed of 4 processors; no cgroup limit; 2 physical cores");
    for (int i = 0; i < 4; i++)
        put_cpu(m, i, "topology/thread_siblings_list", NULL);
    assert_width(m, 4, "4 allowed of 4 processors; no cgroup limit; 4 physical cores");
    put(m, "/sys/devices/system/cpu/online", NULL);
    m->affinity_error = 0;
    assert_width(m, 4, "4 allowed of 4 processors; no cgroup limit; 4 physical cores");
    m->affinity_error = ENOSYS;
    assert_width(m, 1, "1 allowed of 1 processor; no cgroup limit; 1 physical core");
    static const char *const odd[] = {
        "", "\n", "x", "3-1", "-", "0-", "0-99999999999999999999", "1,,2", "0-1-2"
    };
    for (size_t i = 0; i < CR_COUNT(odd); i++) {
        put(m, "/sys/devices/system/cpu/online", odd[i]);
        cera_cpu_info info = describe(m);
        assert_in_range(info.n_threads, 1, 256);
    }
}

static void caches_and_nodes(void **state)
{
    (void)state;
    machine *m = make(4, 1);
    allow(m, 0x0c); /* caches are those of the first allowed processor */
    put(m, "/sys/devices/system/node/online", "0-1\n");
    static const char *const level[] = { "1", "1", "2", "3" };
    static const char *const size[] = { "48K", "32K", "2048K", "36M" };
    for (int i = 0; i < 4; i++) {
        char file[64];
        snprintf(file, sizeof file, "cache/index%d/level", i);
        put_cpu(m, 2, file, level[i]);
        snprintf(file, sizeof file, "cache/index%d/size", i);
        put_cpu(m, 2, file, size[i]);
    }
    cera_cpu_info info = describe(m);
    assert_int_equal(info.n_numa, 2);
    assert_int_equal(info.l2_bytes, 2 << 20);
    assert_int_equal(info.l3_bytes, 36 << 20);
}

/* ---- cgroups ----------------------------------------------------------------------------- */

#define V2_MOUNT                                                                                   \
    "22 28 0:20 / /proc rw,relatime - proc proc rw\n"                                              \
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT                                                                                   \
    "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"                                   \
    "32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"                            \
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 master:2 - cgroup cgroup rw,cpu,cpuacct\n"

static void v2_limits(void **state)
{
    (void)state;
    machine *m = make(8, 1);
    put(m, "/proc/self/cgroup", "0::/user.slice/app\n");
    put(m, "/proc/self/mountinfo", V2_MOUNT);
    put(m, "/sys/fs/cgroup/user.slice/app/cpu.max", "max 100000\n");
    assert_width(m, 8, "8 allowed of 8 processors; no cgroup limit; 8 physical cores");
    put(m, "/sys/fs/cgroup/user.slice/app/cpu.max", "250000 100000\n");
    assert_width(m, 2, "8 allowed of 8 processors; cgroup limit 2.5 processors; 8 physical cores");
    assert_true(describe(m).quota == 2.5);
    put(m, "/sys/fs/cgroup/user.slice/app/cpu.max", "50000 100000\n");
    assert_width(m, 1, "8 allowed of 8 processors; cgroup limit 0.5 processors; 8 physical cores");
    put(m, "/sys/fs/cgroup/user.slice/app/cpu.max", "100000 100000\n");
    assert_width(m, 1, "8 allowed of 8 processors; cgroup limit 1 processor; 8 physical cores");
    put(m, "/sys/fs/cgroup/user.slice/app/cpu.max", "799999 100000\n");
    assert_width(m, 7, "8 allowed of 8 processors; cgroup limit 8 processors; 8 physical cores");
    /* A limit above what there is. */
    put(m, "/sys/fs/cgroup/user.slice/app/cpu.max", "1600000 100000\n");
    assert_width(m, 8, "8 allowed of 8 processors; cgroup limit 16 processors; 8 physical cores");
}

static void the_least_limit_of_nested_groups_holds(void **state)
{
    (void)state;
    machine *m = make(8, 1);
    put(m, "/proc/self/cgroup", "0::/a/b/c\n");
    put(m, "/proc/self/mountinfo", V2_MOUNT);
    put(m, "/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
    put(m, "/sys/fs/cgroup/a/b/cpu.max", "600000 100000\n");
    put(m, "/sys/fs/cgroup/a/cpu.max", "30000 10000\n");
    assert_int_equal(describe(m).n_threads, 3);
    put(m, "/sys/fs/cgroup/cpu.max", "200000 100000\n"); /* a container's own top */
    assert_int_equal(describe(m).n_threads, 2);
    put(m, "/sys/fs/cgroup/a/b/c/cpu.max", "150000 100000\n");
    assert_int_equal(describe(m).n_threads, 1);
}

static void v2_without_a_mount_table(void **state)
{
    (void)state;
    machine *m = make(8, 1);
    put(m, "/proc/self/cgroup", "0::/\n");
    put(m, "/sys/fs/cgroup/cpu.max", "400000 100000\n");
    assert_int_equal(describe(m).n_threads, 4);
}

static void v1_limits(void **state)
{
    (void)state;
    machine *m = make(8, 1);
    put(m, "/proc/self/cgroup",
        "9:name=systemd:/\n3:cpuset:/other\n4:cpu,cpuacct:/job/task\n0::/\n");
    put(m, "/proc/self/mountinfo", V1_MOUNT);
    const char *dir = "/sys/fs/cgroup/cpu,cpuacct";
    char path[128];
    static const struct {
        const char *group, *quota, *period;
        int n_threads;
    } steps[] = {
        { "/job/task", "-1\n", "100000\n", 8 },   { "/job", "350000\n", "100000\n", 3 },
        { "/job/task", "50000\n", "25000\n", 2 }, { "/job/task", "50000\n", "100000\n", 1 },
        { "/job/task", "50000\n", "0\n", 3 }, /* not a period: does not limit */
        { "/job/task", "x\n", "100000\n", 3 },
    };
    for (size_t i = 0; i < CR_COUNT(steps); i++) {
        snprintf(path, sizeof path, "%s%s/cpu.cfs_quota_us", dir, steps[i].group);
        put(m, path, steps[i].quota);
        snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", dir, steps[i].group);
        put(m, path, steps[i].period);
        assert_int_equal(describe(m).n_threads, steps[i].n_threads);
    }
}

/* Docker with version 1: the path names the machine's group, which is the mount's own top. */
static void a_container_sees_its_group_at_the_mount_point(void **state)
{
    (void)state;
    machine *m = make(8, 1);
    put(m, "/proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n");
    put(m, "/proc/self/mountinfo",
        "33 31 0:30 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n");
    put(m, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
    put(m, "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(describe(m).n_threads, 2);
    put(m, "/proc/self/cgroup", "4:cpu,cpuacct:/docker/abc/inner\n");
    put(m, "/sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "100000\n");
    put(m, "/sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000\n");
    assert_int_equal(describe(m).n_threads, 1);
    /* A group that cannot be seen from here: the mount point is the nearest that can. */
    put(m, "/proc/self/cgroup", "4:cpu,cpuacct:/docker/abcdef\n");
    put(m, "/sys/fs/cgroup/cpudef/cpu.cfs_quota_us", "100000\n");
    put(m, "/sys/fs/cgroup/cpudef/cpu.cfs_period_us", "100000\n");
    assert_int_equal(describe(m).n_threads, 2);
    put(m, "/proc/self/cgroup", "4:cpu,cpuacct:/../other\n");
    assert_int_equal(describe(m).n_threads, 2);
}

static void both_versions_at_once(void **state)
{
    (void)state;
    machine *m = make(8, 1);
    put(m, "/proc/self/cgroup", "1:cpu:/x\n0::/y\n");
    put(m, "/proc/self/mountinfo",
        "33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "42 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put(m, "/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "500000\n");
    put(m, "/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    assert_int_equal(describe(m).n_threads, 5);
    put(m, "/sys/fs/cgroup/unified/y/cpu.max", "300000 100000\n");
    assert_int_equal(describe(m).n_threads, 3);
}

static void odd_cgroup_files_do_not_limit(void **state)
{
    (void)state;
    static const char *const cgroups[] = { "",      "\n",     ":::\n", "0\n",    "0:\n",
                                           "0::\n", "0::x\n", "cpu\n", "1:cpu\n" };
    static const char *const maxima[] = { "",           "\n",          "max\n",     "50000\n",
                                          "0 100000\n", "-1 100000\n", "50000 0\n", "50000 -5\n",
                                          "1e3 5\n",    "\xff\xff" };
    machine *m = make(8, 1);
    put(m, "/proc/self/mountinfo", V2_MOUNT "x\n - - -\n- cgroup2\n");
    for (size_t i = 0; i < CR_COUNT(cgroups); i++) {
        put(m, "/proc/self/cgroup", cgroups[i]);
        assert_int_equal(describe(m).n_threads, 8);
    }
    put(m, "/proc/self/cgroup", "0::/g\n");
    for (size_t i = 0; i < CR_COUNT(maxima); i++) {
        put(m, "/sys/fs/cgroup/g/cpu.max", maxima[i]);
        assert_int_equal(describe(m).n_threads, 8);
    }
}

/* Overlay file systems write mount lines of many kilobytes, and reads may be short. */
static void long_lines_and_short_reads(void **state)
{
    (void)state;
    static char table[12000];
    memset(table, 'x', 9000);
    snprintf(table + 9000, sizeof table - 9000, "\n%s", V2_MOUNT);
    machine *m = make(8, 1);
    put(m, "/proc/self/cgroup", "0::/g\n");
    put(m, "/proc/self/mountinfo", table);
    put(m, "/sys/fs/cgroup/g/cpu.max", "300000 100000\n");
    assert_int_equal(describe(m).n_threads, 3);
    fault_short_reads(&m->f, 1);
    assert_int_equal(describe(m).n_threads, 3);
    fault_short_reads(&m->f, 7);
    assert_int_equal(describe(m).n_threads, 3);
    fault_short_reads(&m->f, 0);
    /* A read that fails ends the file. */
    size_t n_reads = fault_calls(&m->f, FAULT_READ);
    for (size_t i = 1; i < n_reads / 4; i += 3) {
        fault_os(&m->f, FAULT_READ, i, FAULT_STICKY, EIO);
        cera_cpu_info info;
        cr_cpu_describe(&m->host, &info);
        assert_in_range(info.n_threads, 1, 8);
        assert_null(fault_check(&m->f));
    }
}

static void lines_come_one_by_one(void **state)
{
    (void)state;
    static char text[10000];
    memset(text, 'y', sizeof text - 1);
    memcpy(text, "a\n\nbc\n", 6);
    memcpy(text + 9000, "\nlast", 5);
    text[9005] = '\0';
    machine *m = make(1, 1);
    put(m, "/lines", text);
    cr_sysfile f;
    cr_str line;
    assert_true(cr_sysfile_open(&f, &m->host, "/lines"));
    assert_true(cr_sysfile_line(&f, &line) && cr_str_is(line, "a"));
    assert_true(cr_sysfile_line(&f, &line) && cr_str_is(line, ""));
    assert_true(cr_sysfile_line(&f, &line) && cr_str_is(line, "bc"));
    assert_true(cr_sysfile_line(&f, &line) && cr_str_is(line, "last"));
    assert_false(cr_sysfile_line(&f, &line));
    assert_false(cr_sysfile_line(&f, &line));
    cr_sysfile_close(&f);
    assert_false(cr_sysfile_open(&f, &m->host, "/none"));

    char small[4];
    put(m, "/abc", "abc\n");
    put(m, "/abcd", "abcd\n");
    assert_true(cr_sysfile_first(&m->host, small, sizeof small, "/%s", "abc"));
    assert_string_equal(small, "abc");
    assert_false(cr_sysfile_first(&m->host, small, sizeof small, "/%s", "abcd"));
}

/* ---- instruction sets -------------------------------------------------------------------- */

static void tiers_have_names(void **state)
{
    (void)state;
    for (int i = 0; i < CR_TIER_COUNT; i++) {
        cr_tier back = CR_TIER_COUNT;
        assert_true(cr_tier_find(cr_tier_name((cr_tier)i), &back));
        assert_int_equal(back, i);
    }
    cr_tier tier = CR_TIER_COUNT;
    assert_false(cr_tier_find("SCALAR", &tier));
    assert_false(cr_tier_find("", &tier));
    assert_int_equal(tier, CR_TIER_COUNT);
    /* Levels of other architectures are none of this one's. */
#if defined(__x86_64__)
    assert_true(cr_tier_find("avx2", &tier) && tier == CR_TIER_AVX2);
    assert_true(cr_tier_find("amx", &tier) && tier == CR_TIER_AMX);
    assert_false(cr_tier_find("neon", &tier));
#elif defined(__aarch64__)
    assert_true(cr_tier_find("dotprod", &tier) && tier == CR_TIER_DOTPROD);
    assert_false(cr_tier_find("avx2", &tier));
#endif
}

static bool has_word(const char *words, const char *word)
{
    cr_str rest = cr_str_from(words);
    while (rest.size > 0)
        if (cr_str_is(cr_sysfile_cut(&rest, " "), word))
            return true;
    return false;
}

#if defined(__x86_64__)
/* What the kernel says; not every compiler knows the flag. */
static bool kernel_lists(const char *flag)
{
    char line[8192] = "";
    FILE *file = fopen("/proc/cpuinfo", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) && strncmp(line, "flags", 5) != 0)
        ;
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return has_word(line, flag);
}

/* Whether the kernel lists what tiles want and lets this process have them: what it answers without
 * being asked for more (ARCH_GET_XCOMP_PERM), after cr_cpu_tier asked. */
static bool linux_lends_tiles(void)
{
    enum { GET_PERMITTED = 0x1022, TILE_DATA = 18 };
    (void)cr_cpu_tier();
    uint64_t permitted = 0;
    if (syscall(SYS_arch_prctl, GET_PERMITTED, &permitted) != 0)
        return false;
    return kernel_lists("amx_tile") && kernel_lists("amx_int8") && kernel_lists("amx_bf16") &&
           kernel_lists("avx512_bf16") && (permitted >> TILE_DATA & 1) != 0;
}
#endif

/* The compiler's own detection is the other opinion, or the kernel's header. */
static void the_tier_is_what_the_compiler_finds(void **state)
{
    (void)state;
    cr_tier tier = CR_TIER_SCALAR;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        tier = CR_TIER_AVX2;
    const bool avx2 = tier == CR_TIER_AVX2, vnni = avx2 && kernel_lists("avx_vnni");
    if (vnni)
        tier = CR_TIER_AVX_VNNI;
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni"))
        tier = CR_TIER_AVX512;
    if (tier == CR_TIER_AVX512 && linux_lends_tiles())
        tier = CR_TIER_AMX;
    cera_cpu_info info;
    cr_host host;
    assert_int_equal(cr_host_set(&host, NULL, NULL), CERA_OK);
    cr_cpu_describe(&host, &info);
    assert_string_equal(info.tier, cr_tier_name(tier));
    assert_int_equal(cr_cpu_has(CR_TIER_AVX2), avx2);
    assert_int_equal(cr_cpu_has(CR_TIER_AVX_VNNI), vnni);
    assert_int_equal(has_word(info.tiers, "avx_vnni"), vnni);
    assert_int_equal(has_word(info.features, "avx2"), __builtin_cpu_supports("avx2") != 0);
    assert_int_equal(has_word(info.features, "fma"), __builtin_cpu_supports("fma") != 0);
    assert_int_equal(has_word(info.features, "avx512vnni"),
                     __builtin_cpu_supports("avx512vnni") != 0);
    assert_int_equal(has_word(info.features, "sse4.2"), __builtin_cpu_supports("sse4.2") != 0);
#elif defined(__aarch64__) && defined(__linux__)
    const bool dotprod = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
    const bool i8mm = (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
    tier = !dotprod ? CR_TIER_NEON : (i8mm ? CR_TIER_I8MM : CR_TIER_DOTPROD);
    cera_cpu_info info;
    cr_host host;
    assert_int_equal(cr_host_set(&host, NULL, NULL), CERA_OK);
    cr_cpu_describe(&host, &info);
    assert_string_equal(info.tier, cr_tier_name(tier));
    assert_true(has_word(info.features, "asimd"));
    assert_int_equal(has_word(info.features, "asimddp"), dotprod);
    assert_int_equal(has_word(info.features, "i8mm"), i8mm);
    assert_int_equal(has_word(info.features, "bf16"), (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0);
    assert_int_equal(has_word(info.features, "sve"), (getauxval(AT_HWCAP) & HWCAP_SVE) != 0);
#endif
    assert_int_equal(cr_cpu_tier(), tier);
    assert_true(cr_cpu_has(CR_TIER_SCALAR) && cr_cpu_has(tier));

    char tiny[8] = "xxxxxxx";
    cr_cpu_features(tiny, sizeof tiny);
    assert_true(strlen(tiny) < sizeof tiny);
}

/* This machine, whatever it is. */
static void the_real_machine_has_a_width(void **state)
{
    (void)state;
    cr_host host;
    assert_int_equal(cr_host_set(&host, NULL, NULL), CERA_OK);
    cera_cpu_info info;
    cr_cpu_describe(&host, &info);
    assert_in_range(info.n_threads, 1, 256);
    assert_true(info.n_threads <= info.n_allowed && info.n_allowed <= info.n_logical);
    assert_true(info.n_performance + info.n_efficiency >= 1);
    print_message("%s: %s\n", info.tier, info.why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_processor_is_a_core),
        cmocka_unit_test(siblings_count_once),
        cmocka_unit_test(the_affinity_mask_limits),
        cmocka_unit_test(high_processor_numbers_count),
        cmocka_unit_test(small_arm_cores_are_left_out),
        cmocka_unit_test(small_intel_cores_are_left_out),
        cmocka_unit_test(clocks_tell_where_nothing_else_does),
        cmocka_unit_test(what_cannot_be_read_does_not_limit),
        cmocka_unit_test(caches_and_nodes),
        cmocka_unit_test(v2_limits),
        cmocka_unit_test(the_least_limit_of_nested_groups_holds),
        cmocka_unit_test(v2_without_a_mount_table),
        cmocka_unit_test(v1_limits),
        cmocka_unit_test(a_container_sees_its_group_at_the_mount_point),
        cmocka_unit_test(both_versions_at_once),
        cmocka_unit_test(odd_cgroup_files_do_not_limit),
        cmocka_unit_test(long_lines_and_short_reads),
        cmocka_unit_test(lines_come_one_by_one),
        cmocka_unit_test(tiers_have_names),
        cmocka_unit_test(the_tier_is_what_the_compiler_finds),
        cmocka_unit_test(the_real_machine_has_a_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

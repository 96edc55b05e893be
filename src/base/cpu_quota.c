/* How much processor time the cgroups of this process allow.
 *
 * A container that may use half of the machine's time still sees all of its processors. Starting a
 * worker on each makes the kernel stop all of them for most of every period, and they spin for the
 * rest: users measured 10 to 45 times slower generation. So the limit counts like an affinity mask.
 *
 *     /proc/self/cgroup      which group this process is in      "4:cpu,cpuacct:/a/b", "0::/a/b"
 *     /proc/self/mountinfo   where the tree of groups is mounted, and from which group on
 *     <mount>/a/b, <mount>/a, <mount>                            each may set a limit: the least
 *
 * Version 1 writes cpu.cfs_quota_us and cpu.cfs_period_us, version 2 cpu.max; a machine may have
 * mounted both. */
#include "base/cpu.h"
#include "base/sysfile.h"

#include <stdio.h>

enum { PATH_MAX_BYTES = 480 };

/* One line of /proc/self/mountinfo, as far as it matters. */
typedef struct mount {
    char point[PATH_MAX_BYTES];
    char root[PATH_MAX_BYTES]; /* the group that is visible at the mount point */
} mount;

static bool list_has(cr_str list, const char *word)
{
    while (list.size > 0)
        if (cr_str_is(cr_sysfile_cut(&list, ","), word))
            return true;
    return false;
}

static bool copy_path(char out[PATH_MAX_BYTES], cr_str path)
{
    if (path.size >= PATH_MAX_BYTES)
        return false;
    memcpy(out, path.data, path.size);
    out[path.size] = '\0';
    return true;
}

/* "31 23 0:28 /root /point options [optional ...] - type source superoptions" */
static bool parse_mount(cr_str line, bool is_v2, mount *out)
{
    for (int i = 0; i < 3; i++)
        cr_sysfile_cut(&line, " ");
    cr_str root = cr_sysfile_cut(&line, " ");
    cr_str point = cr_sysfile_cut(&line, " ");
    while (line.size > 0 && !cr_str_is(cr_sysfile_cut(&line, " "), "-"))
        continue;
    cr_str type = cr_sysfile_cut(&line, " ");
    cr_sysfile_cut(&line, " ");
    cr_str options = cr_sysfile_cut(&line, " ");

    bool matches =
        is_v2 ? cr_str_is(type, "cgroup2") : cr_str_is(type, "cgroup") && list_has(options, "cpu");
    return matches && copy_path(out->root, root) && copy_path(out->point, point);
}

static void find_mount(cr_host *host, bool is_v2, mount *out)
{
    cr_sysfile f;
    if (cr_sysfile_open(&f, host, "/proc/self/mountinfo")) {
        cr_str line;
        bool found = false;
        while (!found && cr_sysfile_line(&f, &line))
            found = parse_mount(line, is_v2, out);
        cr_sysfile_close(&f);
        if (found)
            return;
    }
    /* Where distributions put them. */
    copy_path(out->point, cr_str_from(is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu"));
    copy_path(out->root, cr_str_from("/"));
}

/* A decimal number; false for "max" and all else. */
static bool parse_word(cr_str *text, int64_t *out)
{
    return cr_parse_i64(cr_sysfile_cut(text, " "), out);
}

/* The limit that one group sets, 0 when it sets none. */
static double group_quota(cr_host *host, bool is_v2, const char *group)
{
    char text[64];
    int64_t quota, period;
    if (is_v2) {
        if (!cr_sysfile_first(host, text, sizeof text, "%s/cpu.max", group))
            return 0;
        cr_str rest = cr_str_from(text);
        if (!parse_word(&rest, &quota) || !parse_word(&rest, &period))
            return 0;
    } else {
        if (!cr_sysfile_first(host, text, sizeof text, "%s/cpu.cfs_quota_us", group))
            return 0;
        if (!cr_parse_i64(cr_str_from(text), &quota))
            return 0;
        if (!cr_sysfile_first(host, text, sizeof text, "%s/cpu.cfs_period_us", group))
            return 0;
        if (!cr_parse_i64(cr_str_from(text), &period))
            return 0;
    }
    return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

static double lesser_limit(double a, double b)
{
    if (a == 0 || b == 0)
        return a + b;
    return CR_MIN(a, b);
}

/* The least limit of a group and those above it, up to what is mounted. */
static double path_quota(cr_host *host, bool is_v2, cr_str group)
{
    mount m;
    find_mount(host, is_v2, &m);

    /* Inside a container the path may be written as the machine sees it, while the mount begins at
     * the container's own group; and a group outside of the namespace reads "/../x". Where the two
     * have nothing in common, the mount point is the nearest group that can be seen. */
    size_t n_root = strcmp(m.root, "/") == 0 ? 0 : strlen(m.root);
    bool below = group.size >= n_root && memcmp(group.data, m.root, n_root) == 0 &&
                 (group.size == n_root || group.data[n_root] == '/');
    if (below)
        group = (cr_str){ group.data + n_root, group.size - n_root };
    if (!below || cr_str_is(group, "/") || (group.size >= 3 && memcmp(group.data, "/..", 3) == 0))
        group.size = 0;

    char path[2 * PATH_MAX_BYTES];
    size_t n_point = strlen(m.point), size = n_point;
    if (group.size >= PATH_MAX_BYTES)
        return 0;
    memcpy(path, m.point, n_point);
    if (group.size > 0)
        memcpy(path + n_point, group.data, group.size);
    size += group.size;

    double least = 0;
    for (;;) {
        path[size] = '\0';
        least = lesser_limit(least, group_quota(host, is_v2, path));
        if (size <= n_point)
            return least;
        while (size > n_point && path[size - 1] != '/')
            size--;
        if (size > n_point)
            size--; /* the slash */
    }
}

double cr_cpu_quota(cr_host *host)
{
    cr_sysfile f;
    if (!cr_sysfile_open(&f, host, "/proc/self/cgroup"))
        return 0;
    double least = 0;
    cr_str line;
    while (cr_sysfile_line(&f, &line)) {
        cr_str id = cr_sysfile_cut(&line, ":");
        cr_str controllers = cr_sysfile_cut(&line, ":");
        bool is_v2 = cr_str_is(id, "0") && controllers.size == 0;
        if (is_v2 || list_has(controllers, "cpu"))
            least = lesser_limit(least, path_quota(host, is_v2, line));
    }
    cr_sysfile_close(&f);
    return least;
}

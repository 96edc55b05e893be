/* Processors, cores and caches from /sys/devices/system.
 *
 * What counts for the width of the pool is cores, and fast ones. Two hyper-threads of a core share
 * its multipliers, which one thread of a matrix product keeps busy. A slow core gets the same share
 * of rows as a fast one, and all wait for it at the next barrier. */
#include "base/cpu.h"
#include "base/sysfile.h"

#include <stdio.h>

enum { N_WORDS = 16, N_CPUS = 64 * N_WORDS };
typedef struct cpu_set {
    uint64_t word[N_WORDS];
} cpu_set;

static bool set_has(const cpu_set *s, int cpu)
{
    return (s->word[cpu / 64] >> cpu % 64 & 1) != 0;
}

static void set_add(cpu_set *s, int cpu)
{
    s->word[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

static int set_count(const cpu_set *s)
{
    int n = 0;
    for (int i = 0; i < N_CPUS; i++)
        n += set_has(s, i) ? 1 : 0;
    return n;
}

/* "0-3,8,10-11"; false, and *out undefined, when it is anything else. Processors beyond the set are
 * left out. */
static bool parse_list(cr_str text, cpu_set *out)
{
    *out = (cpu_set){ { 0 } };
    if (text.size == 0)
        return false;
    while (text.size > 0) {
        cr_str range = cr_sysfile_cut(&text, ",");
        int64_t first, last;
        if (!cr_parse_i64(cr_sysfile_cut(&range, "-"), &first))
            return false;
        last = first;
        if (range.size > 0 && !cr_parse_i64(range, &last))
            return false;
        if (first < 0 || last < first)
            return false;
        for (int64_t i = first; i <= last && i < N_CPUS; i++)
            set_add(out, (int)i);
    }
    return true;
}

static bool read_list(cr_host *host, const char *path, cpu_set *out)
{
    char text[4096];
    return cr_sysfile_first(host, text, sizeof text, "%s", path) &&
           parse_list(cr_str_from(text), out);
}

static bool read_number(cr_host *host, int cpu, const char *file, int64_t *out)
{
    char text[32];
    return cr_sysfile_first(host, text, sizeof text, "/sys/devices/system/cpu/cpu%d/%s", cpu,
                            file) &&
           cr_parse_i64(cr_str_from(text), out);
}

/* Leaves one processor of each core in *cores: the lowest that is allowed. */
static void drop_siblings(cr_host *host, const cpu_set *allowed, cpu_set *cores)
{
    cpu_set seen = { { 0 } };
    *cores = (cpu_set){ { 0 } };
    for (int i = 0; i < N_CPUS; i++) {
        if (!set_has(allowed, i) || set_has(&seen, i))
            continue;
        set_add(cores, i);
        char path[96];
        cpu_set siblings;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 i);
        if (!read_list(host, path, &siblings))
            continue;
        for (int w = 0; w < N_WORDS; w++)
            seen.word[w] |= siblings.word[w];
    }
}

/* The cores that are slow by a measure of speed: below `percent` of the fastest one. False when the
 * measure is not there for all of them. */
static bool slow_by(cr_host *host, const cpu_set *cores, const char *measure, int percent,
                    cpu_set *slow)
{
    int64_t speed[N_CPUS], fastest = 0;
    *slow = (cpu_set){ { 0 } };
    for (int i = 0; i < N_CPUS; i++) {
        if (!set_has(cores, i))
            continue;
        if (!read_number(host, i, measure, &speed[i]) || speed[i] <= 0 || speed[i] > INT32_MAX)
            return false;
        fastest = CR_MAX(fastest, speed[i]);
    }
    for (int i = 0; i < N_CPUS; i++)
        if (set_has(cores, i) && speed[i] * 100 < fastest * percent)
            set_add(slow, i);
    return true;
}

/* Three sources, from the most to the least telling. Intel's hybrid processors list their small
 * cores. ARM kernels give each core a capacity, 1,024 for the fastest: small cores have 150 to 400,
 * the middle ones of three sizes 600 and more. Failing both, the highest clock: favoured cores
 * differ by a few percent, small ones by 30 and more. */
static void find_slow(cr_host *host, const cpu_set *cores, cpu_set *slow)
{
    if (read_list(host, "/sys/devices/cpu_atom/cpus", slow))
        return;
    if (slow_by(host, cores, "cpu_capacity", 50, slow))
        return;
    if (slow_by(host, cores, "cpufreq/cpuinfo_max_freq", 72, slow))
        return;
    *slow = (cpu_set){ { 0 } };
}

/* "2048K", "32M" in bytes, 0 for anything else. */
static uint64_t parse_size(cr_str text)
{
    uint64_t unit = 1;
    char last = text.size > 0 ? text.data[text.size - 1] : '0';
    if (last == 'K' || last == 'M') {
        unit = last == 'K' ? 1 << 10 : 1 << 20;
        text.size--;
    }
    int64_t value;
    if (!cr_parse_i64(text, &value) || value < 0 || value > INT32_MAX)
        return 0;
    return (uint64_t)value * unit;
}

static void read_caches(cr_host *host, int cpu, cr_topology *out)
{
    enum { MAX_CACHES = 16 };
    for (int i = 0; i < MAX_CACHES; i++) {
        char dir[64], text[32];
        int64_t level;
        snprintf(dir, sizeof dir, "/sys/devices/system/cpu/cpu%d/cache/index%d", cpu, i);
        if (!cr_sysfile_first(host, text, sizeof text, "%s/level", dir) ||
            !cr_parse_i64(cr_str_from(text), &level))
            return;
        if ((level != 2 && level != 3) ||
            !cr_sysfile_first(host, text, sizeof text, "%s/size", dir))
            continue;
        uint64_t bytes = parse_size(cr_str_from(text));
        if (level == 2)
            out->l2_bytes = bytes;
        else
            out->l3_bytes = bytes;
    }
}

void cr_cpu_topology(cr_host *host, cr_topology *out)
{
    *out = (cr_topology){ .n_numa = 1 };

    /* 1. Which processors there are, and which this thread may use. */
    cpu_set online, allowed;
    bool know_online = read_list(host, "/sys/devices/system/cpu/online", &online);
    bool know_allowed =
        host->os.affinity(host->os.ctx, allowed.word) == 0 && set_count(&allowed) > 0;
    if (!know_allowed)
        allowed = know_online ? online : (cpu_set){ { 1 } };
    if (!know_online)
        online = allowed;
    out->n_logical = set_count(&online);
    out->n_allowed = set_count(&allowed);
    /* More allowed than online: /sys is another machine's, or limited by a container manager. */
    out->n_logical = CR_MAX(out->n_logical, out->n_allowed);

    /* 2. Their cores, fast and slow. */
    cpu_set cores, slow;
    drop_siblings(host, &allowed, &cores);
    find_slow(host, &cores, &slow);
    int first_core = -1;
    for (int i = 0; i < N_CPUS; i++) {
        if (!set_has(&cores, i))
            continue;
        if (first_core < 0)
            first_core = i;
        if (set_has(&slow, i))
            out->n_efficiency++;
        else
            out->n_performance++;
    }

    /* 3. Memory. */
    cpu_set nodes;
    if (read_list(host, "/sys/devices/system/node/online", &nodes))
        out->n_numa = CR_MAX(set_count(&nodes), 1);
    read_caches(host, first_core, out);
}

#define _DEFAULT_SOURCE
#include "cli/machine.h"

#include "common/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WATCH_MS = 200 };

void machine_cpu_name(char *out, size_t size)
{
    snprintf(out, size, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file == NULL)
        return;
    char line[1024];
    while (fgets(line, sizeof(line), file) != NULL) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || value == NULL)
            continue;
        value += 1 + strspn(value + 1, " \t");
        snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    fclose(file);
}

/* Ticks since the machine started, over all processors: of idleness, and altogether. */
typedef struct cpu_ticks {
    uint64_t idle, total;
    int n_cpus;
} cpu_ticks;

/* Reads the numbers behind the first word of a line; returns how many there are, up to n. */
static int read_numbers(const char *line, uint64_t *out, int n)
{
    const char *p = line + strcspn(line, " ");
    for (int i = 0; i < n; i++) {
        char word[24];
        p += strspn(p, " ");
        size_t size = strcspn(p, " \n");
        if (size >= sizeof(word))
            return i;
        memcpy(word, p, size);
        word[size] = '\0';
        if (!number_parse_u64(word, &out[i]))
            return i;
        p += size;
    }
    return n;
}

/* The first line is the sum, "cpu  user nice system idle iowait irq softirq steal guest ...", and
 * one like it follows for each processor, "cpu0 ...". Guests' time is part of user and nice. */
static bool read_ticks(cpu_ticks *out)
{
    enum { IDLE = 3, IOWAIT = 4, N_FIELDS = 8 };
    FILE *file = fopen("/proc/stat", "re");
    if (file == NULL)
        return false;
    *out = (cpu_ticks){ 0 };
    uint64_t ticks[N_FIELDS] = { 0 };
    int n = 0;
    char line[1024];
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "cpu ", 4) == 0)
            n = read_numbers(line, ticks, N_FIELDS);
        out->n_cpus += strncmp(line, "cpu", 3) == 0 && isdigit((unsigned char)line[3]);
    }
    fclose(file);
    for (int i = 0; i < n; i++)
        out->total += ticks[i];
    out->idle = ticks[IDLE] + ticks[IOWAIT];
    return n > IDLE && out->n_cpus > 0;
}

bool machine_load(double *busy, int *n_cpus)
{
    cpu_ticks before, after;
    struct timespec rest = { .tv_nsec = WATCH_MS * 1000000L };
    if (!read_ticks(&before))
        return false;
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
    if (!read_ticks(&after) || after.total <= before.total || after.idle < before.idle)
        return false;
    double total = (double)(after.total - before.total);
    double idle = (double)(after.idle - before.idle);
    *busy = idle < total ? (1.0 - idle / total) * after.n_cpus : 0.0;
    *n_cpus = after.n_cpus;
    return true;
}

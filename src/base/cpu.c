/* The width of the worker pool, and the description that says how it came about. */
#include "base/cpu.h"

#include <stdio.h>

enum { WIDTH_MAX = 256 };

/* Half a processor's time still needs one worker. */
static int choose_width(const cr_topology *t, double quota)
{
    int cores = t->n_performance > 0 ? t->n_performance : t->n_efficiency;
    int width = CR_MIN(t->n_allowed, cores);
    if (quota > 0 && quota < (double)width)
        width = (int)quota;
    return CR_MIN(CR_MAX(width, 1), WIDTH_MAX);
}

static const char *plural(int n)
{
    return n == 1 ? "" : "s";
}

static void explain(const cr_topology *t, double quota, char *out, size_t room)
{
    char limit[64] = "no cgroup limit", cores[96];
    if (quota > 0)
        snprintf(limit, sizeof limit, "cgroup limit %.4g processor%s", quota,
                 quota == 1 ? "" : "s");
    if (t->n_efficiency == 0)
        snprintf(cores, sizeof cores, "%d physical core%s", t->n_performance,
                 plural(t->n_performance));
    else if (t->n_performance == 0)
        snprintf(cores, sizeof cores, "%d efficiency core%s", t->n_efficiency,
                 plural(t->n_efficiency));
    else
        snprintf(cores, sizeof cores, "%d performance core%s, %d efficiency core%s left out",
                 t->n_performance, plural(t->n_performance), t->n_efficiency,
                 plural(t->n_efficiency));
    snprintf(out, room, "%d allowed of %d processor%s; %s; %s", t->n_allowed, t->n_logical,
             plural(t->n_logical), limit, cores);
}

int cr_cpu_n_threads(cr_host *host)
{
    cr_topology t;
    cr_cpu_topology(host, &t);
    return choose_width(&t, cr_cpu_quota(host));
}

void cr_cpu_describe(cr_host *host, cera_cpu_info *out)
{
    cr_topology t;
    cr_cpu_topology(host, &t);
    double quota = cr_cpu_quota(host);
    *out = (cera_cpu_info){
        .tier = cr_tier_name(cr_cpu_tier()),
        .n_logical = t.n_logical,
        .n_allowed = t.n_allowed,
        .quota = quota,
        .n_performance = t.n_performance,
        .n_efficiency = t.n_efficiency,
        .n_numa = t.n_numa,
        .l2_bytes = t.l2_bytes,
        .l3_bytes = t.l3_bytes,
        .n_threads = choose_width(&t, quota),
    };
    cr_cpu_features(out->features, sizeof out->features);
    cr_cpu_tiers(out->tiers, sizeof out->tiers);
    explain(&t, quota, out->why, sizeof out->why);
}

/* cpu: what was found about the processor, and why so many threads. */
#include "cera.h"
#include "cli/cli.h"
#include "cli/cpu_text.h"
#include "cli/inputs.h"
#include "cli/out.h"
#include "cli/report.h"

#include <stdio.h>
#include <string.h>

/* The last one of the processor's tiers up to the one that CERA_CPU_TIER allows. */
typedef struct tier_name {
    char text[16];
} tier_name;

static tier_name tier_in_use(const cli_args *args, const cera_cpu_info *cpu)
{
    const char *order = option_table[OPT_CPU_TIER].argument; /* ascending */
    const char *allowed = args->option[OPT_CPU_TIER].text;
    tier_name best = { "" };
    for (const char *p = cpu->tiers; *p != '\0';) {
        const size_t n = strcspn(p, " ");
        tier_name tier;
        snprintf(tier.text, sizeof(tier.text), "%.*s", (int)n, p);
        if (allowed == NULL || strstr(order, tier.text) <= strstr(order, allowed))
            best = tier;
        p += n + (p[n] == ' ');
    }
    return best;
}

void cpu_text(const cli_args *args, const cera_cpu_info *cpu, bytes *out)
{
    bytes_printf(out, "cpu: tier=%s [%s]\n", tier_in_use(args, cpu).text, cpu->features);
    bytes_printf(out, "cores: logical=%d allowed=%d performance=%d efficiency=%d numa=%d",
                 cpu->n_logical, cpu->n_allowed, cpu->n_performance, cpu->n_efficiency,
                 cpu->n_numa);
    if (cpu->quota > 0)
        bytes_printf(out, " quota=%.2f", cpu->quota);
    bytes_printf(out, " l2=%llu l3=%llu threads=%d (%s)\n", (unsigned long long)cpu->l2_bytes,
                 (unsigned long long)cpu->l3_bytes, cpu->n_threads, cpu->why);
}

static json_t *word_list(const char *words)
{
    json_t *list = json_array();
    for (const char *p = words; *p != '\0';) {
        size_t n = strcspn(p, " ");
        if (n > 0)
            json_array_append_new(list, json_text(p, n));
        p += n + (p[n] == ' ');
    }
    return list;
}

int command_CPU(const cli_args *args)
{
    if (args->n_positional > 0)
        return report_error(EXIT_USAGE, "cera cpu takes no arguments", NULL, "cera cpu");
    cera_host host;
    model_host(&host);
    cera_cpu_info cpu;
    cera_cpu_get_info(&host, &cpu);
    if (!wants_json(args)) {
        bytes text = { 0 };
        cpu_text(args, &cpu, &text);
        out_write(text.data, text.size);
        bytes_done(&text);
        return EXIT_OK;
    }
    json_t *cores = json_pack("{s:i, s:i, s:i, s:i}", "perf", cpu.n_performance, "eff",
                              cpu.n_efficiency, "logical", cpu.n_logical, "allowed", cpu.n_allowed);
    out_json(json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:i, s:I, s:I, s:i, s:s}", "schema",
                       "cera.cpu/1", "tier", tier_in_use(args, &cpu).text, "tiers",
                       word_list(cpu.tiers), "features", word_list(cpu.features), "cores", cores,
                       "quota", cpu.quota > 0 ? json_real(cpu.quota) : json_null(), "numa",
                       cpu.n_numa, "l2", (json_int_t)cpu.l2_bytes, "l3", (json_int_t)cpu.l3_bytes,
                       "threads", cpu.n_threads, "why", cpu.why));
    return EXIT_OK;
}

/* What the processor can do and how many workers this process should use. */
#ifndef CR_CPU_H
#define CR_CPU_H

#include "base/host.h"

/* TIER(id, name): the ISA levels of this architecture in ascending order; a processor that has one
 * has those below it, but for what cr_cpu_has says. */
#if defined(__x86_64__) || defined(__i386__)
#define CR_TIERS(TIER)                                                                             \
    TIER(SCALAR, "scalar")                                                                         \
    TIER(AVX2, "avx2")         /* AVX2, FMA, F16C */                                               \
    TIER(AVX_VNNI, "avx_vnni") /* VNNI in VEX encoding */                                          \
    TIER(AVX512, "avx512")     /* AVX-512 F BW DQ VL VBMI and VNNI */                              \
    TIER(AMX, "amx")           /* AVX512-BF16, and tiles of int8 and bfloat16 that Linux lends */
#elif defined(__aarch64__)
#define CR_TIERS(TIER)                                                                             \
    TIER(SCALAR, "scalar")                                                                         \
    TIER(NEON, "neon")       /* Advanced SIMD: every processor has it */                           \
    TIER(DOTPROD, "dotprod") /* SDOT */                                                            \
    TIER(I8MM, "i8mm")       /* SMMLA, and SDOT */
#else
#define CR_TIERS(TIER) TIER(SCALAR, "scalar")
#endif

typedef enum cr_tier {
#define TIER(id, name) CR_TIER_##id,
    CR_TIERS(TIER)
#undef TIER
        CR_TIER_COUNT
} cr_tier;

const char *cr_tier_name(cr_tier tier);
/* The tier with that name; false when this architecture has none. */
bool cr_tier_find(const char *name, cr_tier *out);

/* The best tier of this processor (asks the processor, and the operating system what it saves or
 * reports). Linux lends AMX to processes that ask for it: this asks, once the processor has it.
 * From then on a signal's frame on the stack may take 11 KiB. */
cr_tier cr_cpu_tier(void);

/* Whether the processor has the tier. Ice Lake and Zen 4 have AVX512, but not AVX_VNNI below it. */
bool cr_cpu_has(cr_tier tier);

/* Which processor this is; where it does not say, its best tier. */
typedef struct cr_cpu_id {
    char vendor[13]; /* as CPUID spells it */
    int family, model;
    char name[96]; /* for people, with both numbers */
} cr_cpu_id;
void cr_cpu_identify(cr_cpu_id *out);

/* The default width of a worker pool: min(affinity, cgroup quota rounded down, cores without
 * hyper-thread siblings and efficiency cores), at least 1. Reads /proc and /sys through host->os;
 * what cannot be read does not limit. */
int cr_cpu_n_threads(cr_host *host);

void cr_cpu_describe(cr_host *host, cera_cpu_info *out);

/* ---- the parts of the description, one file each ----------------------------------------- */

/* The instruction sets that can be used, and the tiers that the processor has; space separated
 * (cpu_features.c). */
void cr_cpu_features(char *out, size_t room);
void cr_cpu_tiers(char *out, size_t room);

/* Processors' worth of time that the cgroups of this process allow, those of its ancestors too;
 * 0: no limit (cpu_quota.c). */
double cr_cpu_quota(cr_host *host);

/* Processors, cores and caches as /sys describes them (cpu_topology.c). A core is counted once,
 * however many of its processors are allowed. n_performance and n_efficiency count allowed cores;
 * their sum is at least 1. */
typedef struct cr_topology {
    int n_logical, n_allowed;
    int n_performance, n_efficiency;
    int n_numa;
    uint64_t l2_bytes, l3_bytes; /* that one core can reach; 0: unknown */
} cr_topology;
void cr_cpu_topology(cr_host *host, cr_topology *out);

#endif

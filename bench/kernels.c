/* Speed of every kernel of every tier, one thread.
 *
 * Matrix kernels: GB/s of weights and GMAC/s, for two widths, with the weights in L2 and in a
 * matrix too large for the caches (left out for scalar code). Kernels of many columns: GMAC/s, with
 * all of it in L2. Vector kernels: nanoseconds a call and GB/s of what is read. Each figure is the
 * best of several runs.
 *
 *     cc -O2 -std=c11 -Isrc -Iinclude bench/kernels.c build/release/libcera.a -lm -o /tmp/kernels
 *     /tmp/kernels [MiB of the large matrix, 320; 0: kernels of many columns only] [K, 2048] */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MADV_HUGEPAGE */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "backend/cpu/kernels.h"
#include "base/compiler.h"
#include "base/cpu.h"

enum { MAX_K = 8192, MAX_COLUMNS = 128, N_RUNS = 3 };

static const cr_type types[] = {
#define TYPE(name, id, weights, bytes, quantize) CR_TYPE_##name,
#include "tensor/type.def"
#undef TYPE
};

/* Processor time: what other programs take does not count. */
static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* Bytes that are finite and ordinary in every type: halves and bfloat16 near 2^-4. */
static void fill(uint8_t *p, size_t n)
{
    uint32_t s = 1;
    for (size_t i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        p[i] = (uint8_t)(0x2c | (s >> 30));
    }
}

static cr_act act_new(size_t n)
{
    cr_act x = cr_act_at(aligned_alloc(64, cr_act_bytes(n)), n);
    if (x.f == NULL)
        exit(1);
    for (size_t i = 0; i < n; i++)
        x.f[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    cr_quantize__scalar(&x);
    return x;
}

/* Seconds for one pass over the rows. */
static double time_matvec(cr_matvec *kernel, float *y, const uint8_t *w, size_t row_bytes,
                          size_t n_rows, const cr_act *x, double least)
{
    double best = 1e30;
    for (int i = 0; i < N_RUNS; i++) {
        int passes = 0;
        const double start = now();
        double spent;
        do {
            kernel(y, w, row_bytes, n_rows, x);
            passes++;
            spent = now() - start;
        } while (spent < least);
        best = CR_MIN(best, spent / passes);
    }
    return best;
}

static void bench_matvec(cr_tier tier, const cr_kernels *k, const uint8_t *w, size_t large,
                         float *y)
{
    static const size_t widths[] = { 576, 2048 };
    for (size_t t = 0; t < CR_COUNT(types); t++)
        for (size_t i = 0; i < CR_COUNT(widths); i++) {
            const cr_type_info *info = cr_type_get(types[t]);
            const size_t n = widths[i];
            if (n % (size_t)info->weights != 0)
                continue;
            const size_t row_bytes = cr_type_bytes(info, n);
            cr_act x = act_new(n);
            printf("%-7s %-7s K=%-5zu", cr_tier_name(tier), info->name, n);
            for (int where = 0; where < (tier == CR_TIER_SCALAR ? 1 : 2); where++) {
                const size_t n_rows = (where == 0 ? (size_t)1 << 20 : large) / row_bytes;
                const double s = time_matvec(k->matvec[types[t]], y, w, row_bytes, n_rows, &x,
                                             where == 0 ? 0.01 : 0.0);
                printf("  %s %7.2f GB/s %7.2f GMAC/s", where == 0 ? "L2" : "DRAM",
                       (double)(row_bytes * n_rows) / s / 1e9, (double)(n * n_rows) / s / 1e9);
            }
            putchar('\n');
            free(x.f);
        }
}

/* Tiles of 64 rows, as a plan computes them. */
static void bench_columns(const char *name, cr_type type, cr_matmul *kernel, const uint8_t *w,
                          float *y, const cr_act *x, void *scratch)
{
    static const size_t counts[] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, MAX_COLUMNS };
    enum { TILE = 64 };
    const cr_type_info *info = cr_type_get(type);
    if (!kernel || x->n % (size_t)info->weights != 0)
        return;
    printf("%-11s %-7s K=%-5zu GMAC/s:", name, info->name, x->n);
    for (size_t i = 0; i < CR_COUNT(counts); i++) {
        double best = 1e30;
        for (int run = 0; run < N_RUNS; run++) {
            int passes = 0;
            const double start = now();
            double spent;
            do {
                kernel(y, TILE, w, cr_type_bytes(info, x->n), TILE, x, counts[i], scratch);
                passes++;
                spent = now() - start;
            } while (spent < 0.01);
            best = CR_MIN(best, spent / passes);
        }
        printf(" %zu: %.0f", counts[i], (double)(x->n * TILE * counts[i]) / best / 1e9);
    }
    putchar('\n');
}

static void bench_matmul(cr_tier tier, const cr_kernels *k, const uint8_t *w, float *y, size_t n)
{
    static cr_act x[MAX_COLUMNS];
    const size_t n_blocks = n / CR_ACT_BLOCK;
    char *rows = aligned_alloc(64, MAX_COLUMNS * cr_act_bytes(n));
    cr_packed *packed = aligned_alloc(64, MAX_COLUMNS / CR_LANES * n_blocks * sizeof *packed);
    cr_split_block *split = aligned_alloc(64, MAX_COLUMNS / CR_LANES * n_blocks * sizeof *split);
    void *scratch = aligned_alloc(64, cr_panel_bytes(n));
    if (rows == NULL || packed == NULL || split == NULL || scratch == NULL)
        exit(1);
    for (size_t c = 0; c < MAX_COLUMNS; c++) {
        x[c] = cr_act_at(rows + c * cr_act_bytes(n), n);
        for (size_t i = 0; i < n; i++)
            x[c].f[i] = (float)((i + c) * 37 % 101) / 50.0f - 1.0f;
        cr_quantize__scalar(&x[c]);
        x[c].packed = packed + c / CR_LANES * n_blocks;
        x[c].lane = c % CR_LANES;
        x[c].split = split + c / CR_LANES * n_blocks;
        if (k->pack)
            k->pack(&x[c]);
        if (k->split)
            k->split(&x[c]);
    }
    char wide[16];
    snprintf(wide, sizeof wide, "%s wide", cr_tier_name(tier));
    for (size_t t = 0; t < CR_COUNT(types); t++) {
        bench_columns(cr_tier_name(tier), types[t], k->matmul[types[t]], w, y, x, scratch);
        bench_columns(wide, types[t], k->matmul_wide[types[t]], w, y, x, scratch);
    }
    free(rows);
    free(packed);
    free(split);
    free(scratch);
}

/* A vector kernel with its operands, in a form that all share. */
typedef struct vectors {
    const cr_kernels *k;
    cr_act x;
    float *a, *b, *y;
    const uint8_t *cache;
} vectors;

enum { D = 576, FF = 1536, HEAD = 64, KEYS = 256, CHANNELS = 64, STATE = 128, TAPS = 4 };

static void run_quantize(vectors *v)
{
    v->k->quantize(&v->x);
}

static void run_rms_norm(vectors *v)
{
    v->k->rms_norm(v->y, v->a, v->b, D, 1e-5f);
}

static void run_silu_mul(vectors *v)
{
    v->k->gate_mul[CR_GATE_SILU](v->y, v->a, v->b, FF);
}

static void run_gelu_mul(vectors *v)
{
    v->k->gate_mul[CR_GATE_GELU](v->y, v->a, v->b, FF);
}

static void run_soft_cap(vectors *v)
{
    v->k->soft_cap(v->y, 30.0f, KEYS);
}

static void run_add_scaled(vectors *v)
{
    v->k->add_scaled(v->y, v->a, 1e-9f, D);
}

static void run_dot_keys(vectors *v)
{
    v->k->dot_keys[CR_TYPE_F16](v->y, v->a, v->cache, 0.125f, HEAD, KEYS);
}

static void run_exp_sum(vectors *v)
{
    memcpy(v->y, v->a, KEYS * sizeof *v->y);
    v->y[0] = v->k->exp_sum(v->y, 1.0f, KEYS);
}

static void run_mix_values(vectors *v)
{
    v->k->mix_values[CR_TYPE_F16](v->y, v->a, v->cache, HEAD, KEYS);
}

/* A head of Granite 4.0 H; its state lies behind y. */
static void run_ssm_step(vectors *v)
{
    const cr_ssm_token token = { v->a, v->b, v->b, 0.5f, 1e-3f, 1.0f, CHANNELS, STATE };
    v->k->ssm_step(v->y, v->y + FF, v->y + FF, &token);
}

static void run_convolve(vectors *v)
{
    v->k->convolve(v->y, v->a, CHANNELS, v->b, TAPS, v->b, CHANNELS);
}

static void bench_vectors(cr_tier tier, vectors *v)
{
    static const struct {
        const char *name;
        void (*run)(vectors *v);
        size_t n_bytes;
    } all[] = {
        { "quantize 576", run_quantize, 4 * D },
        { "rms_norm 576", run_rms_norm, 8 * D },
        { "silu_mul 1536", run_silu_mul, 8 * FF },
        { "gelu_mul 1536", run_gelu_mul, 8 * FF },
        { "soft_cap 256", run_soft_cap, 4 * KEYS },
        { "add_scaled 576", run_add_scaled, 8 * D },
        { "dot_keys F16 64 x 256", run_dot_keys, 2 * HEAD * KEYS },
        { "exp_sum 256", run_exp_sum, 4 * KEYS },
        { "mix_values F16 64 x 256", run_mix_values, 2 * HEAD * KEYS },
        { "convolve 64 x 4", run_convolve, 8 * CHANNELS * TAPS },
        { "ssm_step 64 x 128", run_ssm_step, 4 * CHANNELS * STATE },
    };
    for (size_t i = 0; i < CR_COUNT(all); i++) {
        double best = 1e30;
        for (int r = 0; r < N_RUNS; r++) {
            enum { CALLS = 500 };
            const double start = now();
            for (int c = 0; c < CALLS; c++)
                all[i].run(v);
            best = CR_MIN(best, (now() - start) / CALLS);
        }
        printf("%-7s %-24s %8.0f ns  %7.2f GB/s\n", cr_tier_name(tier), all[i].name, best * 1e9,
               (double)all[i].n_bytes / best / 1e9);
    }
}

int main(int argc, char **argv)
{
    size_t large = (argc > 1 ? strtoul(argv[1], NULL, 10) : 320) << 20;
    const size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 2048;
    if (n == 0 || n > MAX_K) {
        fprintf(stderr, "usage: kernels [MiB of the large matrix [K, 1 to %d]]\n", MAX_K);
        return 2;
    }
    const bool only_matmul = large == 0;
    if (only_matmul)
        large = 16 << 20;
    uint8_t *w = mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    float *y = malloc(large / 256 * sizeof *y);
    if (w == MAP_FAILED || y == NULL)
        return 1;
    madvise(w, large, MADV_HUGEPAGE);
    fill(w, large);
    cr_act d = act_new(D), a = act_new(FF), b = act_new(FF);
    for (int tier = 0; tier <= (int)cr_cpu_tier(); tier++) {
        if (!cr_cpu_has((cr_tier)tier))
            continue;
        cr_kernels k;
        cr_kernels_get((cr_tier)tier, &k);
        bench_matmul((cr_tier)tier, &k, w, y, n);
        if (only_matmul)
            continue;
        bench_matvec((cr_tier)tier, &k, w, large, y);
        vectors v = { .k = &k, .x = d, .a = a.f, .b = b.f, .y = y, .cache = w };
        memset(y, 0, (FF + CHANNELS * STATE) * sizeof *y);
        bench_vectors((cr_tier)tier, &v);
    }
    free(d.f);
    free(a.f);
    free(b.f);
    free(y);
    return 0;
}

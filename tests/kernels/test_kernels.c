/* Every kernel of every tier against the scalar kernel of its slot, bit for bit; and the scalar
 * kernels against the same thing in double precision, by other formulas.
 *
 * Inputs end right before, or begin right after, a page that must not be touched; outputs have
 * guard words around them. Shapes and values come from a seed, which is printed:
 *     CERA_TEST_SEED=n      the run to repeat
 *     CERA_TEST_ONLY=name   one test, '*' allowed */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/cpu/exp.h"
#include "backend/cpu/kernels.h"
#include "base/compiler.h"
#include "base/cpu.h"

enum {
    MAX_K = 8192,
    MAX_ROWS = 11,
    MAX_PANEL_ROWS = 35, /* of a matrix that meets many columns */
    MAX_COLUMNS = 131,   /* more than a kernel packs at a time */
    MAX_N = 300,         /* of vectors */
    MAX_KEYS = 40,
    GUARD = 16, /* floats around an output */
};

/* All of them: a type without kernels fails test_table_is_full. */
static const cr_type types[] = {
#define TYPE(name, id, weights, bytes, quantize) CR_TYPE_##name,
#include "tensor/type.def"
#undef TYPE
};

/* ---- random numbers ---- */

static uint64_t seed;
static uint64_t state;

static uint32_t random_bits(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

static size_t random_below(size_t n)
{
    return random_bits() % n;
}

/* In (-1, 1), roughly like activations: most are small. */
static float random_float(void)
{
    const float a = (float)(int32_t)random_bits() * 0x1p-31f;
    return a * (float)random_bits() * 0x1p-32f;
}

/* ---- memory with forbidden surroundings ---- */

typedef struct fence {
    uint8_t *map;
    size_t n_pages, page;
} fence;

static fence fence_new(size_t n_bytes)
{
    fence f = { .page = (size_t)sysconf(_SC_PAGESIZE) };
    f.n_pages = (n_bytes + f.page - 1) / f.page;
    f.map = mmap(NULL, (f.n_pages + 2) * f.page, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(f.map != MAP_FAILED);
    assert_int_equal(mprotect(f.map, f.page, PROT_NONE), 0);
    assert_int_equal(mprotect(f.map + (f.n_pages + 1) * f.page, f.page, PROT_NONE), 0);
    return f;
}

static void fence_free(fence *f)
{
    munmap(f->map, (f->n_pages + 2) * f->page);
}

/* n bytes that begin at the first page or end at the last one. */
static void *fence_begin(const fence *f)
{
    return f->map + f->page;
}

static void *fence_end(const fence *f, size_t n)
{
    return f->map + (f->n_pages + 1) * f->page - n;
}

/* ---- comparing ---- */

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* NaN may differ in sign and payload: no instruction set agrees with another about them. */
static void assert_same(const float *want, const float *got, size_t n, const char *what,
                        cr_tier tier)
{
    for (size_t i = 0; i < n; i++)
        if (bits_of(want[i]) != bits_of(got[i]) && !(isnan(want[i]) && isnan(got[i])))
            fail_msg("%s, %s, seed %llu: element %zu of %zu: expected %.9g, found %.9g", what,
                     cr_tier_name(tier), (unsigned long long)seed, i, n, (double)want[i],
                     (double)got[i]);
}

static const float guard_value = -12345.678f;

static void guard_fill(float *p, size_t n)
{
    for (size_t i = 0; i < n + 2 * GUARD; i++)
        p[i] = guard_value;
}

static void guard_check(const float *p, size_t n, const char *what, cr_tier tier)
{
    for (size_t i = 0; i < GUARD; i++)
        if (bits_of(p[i]) != bits_of(guard_value) ||
            bits_of(p[GUARD + n + i]) != bits_of(guard_value))
            fail_msg("%s, %s: wrote outside of its output", what, cr_tier_name(tier));
}

/* ---- weights and activations ---- */

typedef enum scales { SCALES_PLAIN, SCALES_ODD, SCALES_EXTREME } scales;

static void put_half(uint8_t *p, scales kind)
{
    static const uint16_t odd[] = { 0x0000, 0x8000, 0x0001, 0x8001, 0x03ff,
                                    0x0400, 0x7bff, 0xfbff, 0x3c00, 0x1234 };
    static const uint16_t extreme[] = { 0x7c00, 0xfc00, 0x7e00, 0x7bff };
    uint16_t h = (uint16_t)(0x1000 + random_below(0x1c00)); /* 2^-11 to 2^-4 */
    if (random_bits() & 1)
        h |= 0x8000;
    if (kind == SCALES_ODD)
        h = odd[random_below(CR_COUNT(odd))];
    if (kind == SCALES_EXTREME && random_below(8) == 0)
        h = extreme[random_below(CR_COUNT(extreme))];
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

/* Where a block has its halves is the format's business. Byte of the first and second one, or -1. */
static const int half_at[CR_TYPE_COUNT][2] = {
    [CR_TYPE_F32] = { -1, -1 },   [CR_TYPE_F16] = { 0, -1 },     [CR_TYPE_BF16] = { -1, -1 },
    [CR_TYPE_Q4_0] = { 0, -1 },   [CR_TYPE_Q4_1] = { 0, 2 },     [CR_TYPE_Q5_0] = { 0, -1 },
    [CR_TYPE_Q5_1] = { 0, 2 },    [CR_TYPE_Q8_0] = { 0, -1 },    [CR_TYPE_Q2_K] = { 80, 82 },
    [CR_TYPE_Q3_K] = { 108, -1 }, [CR_TYPE_Q4_K] = { 0, 2 },     [CR_TYPE_Q5_K] = { 0, 2 },
    [CR_TYPE_Q6_K] = { 208, -1 }, [CR_TYPE_IQ2_XXS] = { 0, -1 }, [CR_TYPE_IQ2_XS] = { 0, -1 },
    [CR_TYPE_IQ2_S] = { 0, -1 },  [CR_TYPE_IQ3_XXS] = { 0, -1 }, [CR_TYPE_IQ3_S] = { 0, -1 },
    [CR_TYPE_IQ1_S] = { 0, -1 },  [CR_TYPE_IQ1_M] = { -1, -1 },  [CR_TYPE_IQ4_NL] = { 0, -1 },
    [CR_TYPE_IQ4_XS] = { 0, -1 }, [CR_TYPE_TQ1_0] = { 52, -1 },  [CR_TYPE_TQ2_0] = { 64, -1 },
    [CR_TYPE_MXFP4] = { -1, -1 },
};

static void fill_weights(uint8_t *w, cr_type type, size_t n_bytes, scales kind)
{
    const size_t block = (size_t)cr_type_get(type)->block_bytes;
    /* Random bytes twice, then the smallest and the largest bytes with and without sign. */
    static const uint8_t same[] = { 0x80, 0x7f, 0x00, 0xff };
    const size_t fill = random_below(6);
    for (size_t i = 0; i < n_bytes; i++)
        w[i] = fill < 2 ? (uint8_t)random_bits() : same[fill - 2];
    for (size_t i = 0; i < n_bytes; i += block) {
        const float f =
            type == CR_TYPE_F32 && kind == SCALES_ODD ? random_float() * 0x1p-120f : random_float();
        if (type == CR_TYPE_F32)
            memcpy(w + i, &f, sizeof f);
        if (type == CR_TYPE_BF16)
            memcpy(w + i, (const uint8_t *)&f + 2, 2);
        if (type == CR_TYPE_MXFP4 && kind != SCALES_EXTREME)
            w[i] = (uint8_t)(118 + random_below(8));
        if (type == CR_TYPE_IQ1_M) { /* a nibble in each of four words */
            uint8_t half[2];
            put_half(half, kind);
            for (size_t k = 0; k < 4; k++) {
                uint8_t *p = w + i + 48 + 2 * k + 1;
                *p = (uint8_t)((*p & 15) | (half[k / 2] >> k % 2 * 4 & 15) << 4);
            }
        }
        for (int k = 1; k >= 0; k--)
            if (half_at[type][k] >= 0)
                put_half(w + i + half_at[type][k], kind);
    }
}

typedef enum acts { ACTS_PLAIN, ACTS_MAX, ACTS_MIN, ACTS_TINY, ACTS_MIXED, ACTS_COUNT } acts;

static void fill_acts(cr_act *x, acts kind)
{
    for (size_t i = 0; i < x->n; i++) {
        float f = random_float();
        if (kind == ACTS_MAX || kind == ACTS_MIN)
            f = kind == ACTS_MAX ? 3.0f : -3.0f; /* q = 127 or -127 everywhere */
        if (kind == ACTS_TINY)
            f *= 0x1p-120f;
        if (kind == ACTS_MIXED)
            f = ldexpf(f, (int)random_below(40) - 20);
        x->f[i] = f;
    }
}

/* Whether a row may have any length. */
static bool is_single(cr_type type)
{
    return cr_type_get(type)->weights == 1;
}

static cr_act act_new(size_t n)
{
    void *buffer = aligned_alloc(64, cr_act_bytes(n));
    assert_non_null(buffer);
    memset(buffer, 0x55, cr_act_bytes(n));
    cr_act x = cr_act_at(buffer, n);
    x.prefetch = random_below(1 << 16); /* no result depends on it */
    return x;
}

/* ---- every tier against scalar ---- */

/* The scalar kernels that define the bits of a tier. */
static void definitions(cr_tier tier, cr_kernels *out)
{
    cr_kernels_get(CR_TIER_SCALAR, out);
    (void)tier;
#define KERNEL(kind, slot, at, function)
#define DEFINES(kind, slot, at, function)                                                          \
    if (tier >= CR_TIER_##at)                                                                      \
        out->kind slot = function;
#include "backend/cpu/kernels.def"
#undef KERNEL
}

static void for_each_tier(void (*check)(cr_tier tier, const cr_kernels *scalar,
                                        const cr_kernels *kernels))
{
    for (int tier = CR_TIER_SCALAR + 1; tier <= (int)cr_cpu_tier(); tier++) {
        if (!cr_cpu_has((cr_tier)tier))
            continue;
        cr_kernels scalar, kernels;
        definitions((cr_tier)tier, &scalar);
        cr_kernels_get((cr_tier)tier, &kernels);
        check((cr_tier)tier, &scalar, &kernels);
    }
}

static void check_matvec_shape(cr_tier tier, cr_type type, cr_matvec *define, cr_matvec *kernel,
                               const fence *f, size_t n, size_t n_rows)
{
    const cr_type_info *info = cr_type_get(type);
    /* GGUF rows are packed; a view may have any stride. */
    const size_t row_bytes = cr_type_bytes(info, n) + (random_below(4) == 0 ? 6 : 0);
    const size_t n_bytes = row_bytes * (n_rows - 1) + cr_type_bytes(info, n);
    uint8_t *w = random_bits() & 1 ? fence_end(f, n_bytes) : fence_begin(f);
    const size_t dice = random_below(8);
    for (size_t r = 0; r < n_rows; r++)
        fill_weights(w + r * row_bytes, type, cr_type_bytes(info, n),
                     dice == 0 ? SCALES_EXTREME : (dice < 3 ? SCALES_ODD : SCALES_PLAIN));

    cr_act x = act_new(n);
    cr_kernels scalar;
    cr_kernels_get(CR_TIER_SCALAR, &scalar);
    fill_acts(&x, (acts)random_below(ACTS_COUNT));
    if (cr_kernels_int8(type))
        scalar.quantize(&x);

    float want[MAX_ROWS], got[MAX_ROWS + 2 * GUARD];
    guard_fill(got, n_rows);
    define(want, w, row_bytes, n_rows, &x);
    kernel(got + GUARD, w, row_bytes, n_rows, &x);
    assert_same(want, got + GUARD, n_rows, info->name, tier);
    guard_check(got, n_rows, info->name, tier);
    free(x.f);
}

static void check_matvec(cr_tier tier, const cr_kernels *scalar, const cr_kernels *kernels)
{
    fence f = fence_new((size_t)MAX_K * 4 * MAX_ROWS + 4096);
    for (size_t t = 0; t < CR_COUNT(types); t++) {
        const cr_type type = types[t];
        const size_t step = (size_t)cr_type_get(type)->weights;
        cr_matvec *define = scalar->matvec[type], *kernel = kernels->matvec[type];
        assert_non_null(define);
        if (kernel == define)
            continue;
        for (size_t n = step; n <= (is_single(type) ? MAX_N : 2048); n += step)
            check_matvec_shape(tier, type, define, kernel, &f, n, 1 + random_below(MAX_ROWS));
        for (size_t n_rows = 1; n_rows <= MAX_ROWS; n_rows++) {
            const size_t n = step * (1 + random_below(MAX_K / step));
            check_matvec_shape(tier, type, define, kernel, &f, n, n_rows);
        }
        static const size_t of_models[] = { 576, 768, 896, 1536, 2048, 4096, MAX_K };
        for (size_t i = 0; i < CR_COUNT(of_models); i++)
            if (of_models[i] % step == 0)
                check_matvec_shape(tier, type, define, kernel, &f, of_models[i], 5);
        if (cr_type_get(type)->block_bytes == 2) /* more than kernels lay out at a time */
            check_matvec_shape(tier, type, define, kernel, &f, 2 * MAX_K - 7, 5);
    }
    fence_free(&f);
}

/* Packs or splits the columns, when the tier's kernels read them so: all, or all but one, or in lanes
 * that do not begin with the first, or none. */
static void *pack(cr_tier tier, cr_type type, cr_act *x, size_t n_x)
{
    cr_kernels kernels;
    cr_kernels_get(tier, &kernels);
    const bool splits = cr_kernels_splits(&kernels, type);
    const bool packs = cr_kernels_int8(type) && kernels.pack;
    const size_t how = random_below(5), first = how == 3 ? 1 + random_below(20) : 0;
    if ((!packs && !splits) || how == 4)
        return NULL;
    const size_t n_blocks = (x->n + CR_ACT_BLOCK - 1) / CR_ACT_BLOCK;
    const size_t n_bytes = (first + n_x + CR_LANES - 1) / CR_LANES * n_blocks *
                           (packs ? sizeof(cr_packed) : sizeof(cr_split_block));
    void *packed = aligned_alloc(64, n_bytes);
    assert_non_null(packed);
    memset(packed, 0xff, n_bytes); /* NaN in lanes that nobody fills */
    for (size_t c = 0; c < n_x; c++) {
        const size_t at = (first + c) / CR_LANES * n_blocks;
        x[c].lane = (first + c) % CR_LANES;
        if (packs) {
            x[c].packed = (cr_packed *)packed + at;
            kernels.pack(&x[c]);
        } else {
            x[c].split = (cr_split_block *)packed + at;
            kernels.split(&x[c]);
        }
    }
    if (how == 2) {
        const size_t c = random_below(n_x);
        x[c].packed = NULL;
        x[c].split = NULL;
    }
    return packed;
}

/* A band of columns against scalar matvec, one column at a time; y has gaps between its columns. */
static void check_matmul_shape(cr_tier tier, cr_type type, cr_matvec *define, cr_matmul *kernel,
                               const fence *f, size_t n, size_t n_rows, size_t n_x)
{
    const cr_type_info *info = cr_type_get(type);
    const size_t row_bytes = cr_type_bytes(info, n) + (random_below(4) == 0 ? 6 : 0);
    const size_t n_bytes = row_bytes * (n_rows - 1) + cr_type_bytes(info, n);
    uint8_t *w = random_bits() & 1 ? fence_end(f, n_bytes) : fence_begin(f);
    const size_t dice = random_below(8);
    for (size_t r = 0; r < n_rows; r++)
        fill_weights(w + r * row_bytes, type, cr_type_bytes(info, n),
                     dice == 0 ? SCALES_EXTREME : (dice < 3 ? SCALES_ODD : SCALES_PLAIN));

    cr_act x[MAX_COLUMNS];
    cr_kernels scalar;
    cr_kernels_get(CR_TIER_SCALAR, &scalar);
    for (size_t c = 0; c < n_x; c++) {
        x[c] = act_new(n);
        fill_acts(&x[c], (acts)random_below(ACTS_COUNT));
        if (cr_kernels_int8(type))
            scalar.quantize(&x[c]);
    }
    void *packed = pack(tier, type, x, n_x);
    void *scratch = aligned_alloc(64, cr_panel_bytes(n));
    assert_non_null(scratch);

    enum { STRIDE = MAX_PANEL_ROWS + 2 * GUARD };
    static float got[MAX_COLUMNS * STRIDE];
    float want[MAX_PANEL_ROWS];
    for (size_t i = 0; i < CR_COUNT(got); i++)
        got[i] = guard_value;
    kernel(got + GUARD, STRIDE, w, row_bytes, n_rows, x, n_x, scratch);
    for (size_t c = 0; c < n_x; c++) {
        define(want, w, row_bytes, n_rows, &x[c]);
        assert_same(want, got + c * STRIDE + GUARD, n_rows, info->name, tier);
        guard_check(got + c * STRIDE, n_rows, info->name, tier);
        free(x[c].f);
    }
    free(scratch);
    free(packed);
}

static void check_matmul_type(cr_tier tier, cr_type type, cr_matvec *define, cr_matmul *kernel,
                              const fence *f)
{
    const size_t step = (size_t)cr_type_get(type)->weights;
    for (size_t n_x = 1; n_x <= 20; n_x++)
        check_matmul_shape(tier, type, define, kernel, f, step * (1 + random_below(2048 / step)),
                           1 + random_below(MAX_PANEL_ROWS), n_x);
    for (size_t n_rows = 1; n_rows <= MAX_PANEL_ROWS; n_rows++)
        check_matmul_shape(tier, type, define, kernel, f, step * (1 + random_below(1024 / step)),
                           n_rows, 1 + random_below(20));
    for (size_t n_x = MAX_COLUMNS - 4; n_x <= MAX_COLUMNS; n_x++)
        check_matmul_shape(tier, type, define, kernel, f, step * (1 + random_below(512 / step)), 17,
                           n_x);
    for (size_t n = step; n <= 1280; n += step)
        check_matmul_shape(tier, type, define, kernel, f, n, 1 + random_below(MAX_PANEL_ROWS), 3);
    check_matmul_shape(tier, type, define, kernel, f, MAX_K, 18, 9);
}

/* Products that round to -0 in all chains, of which a row's end has only one more: the others stay
 * -0, and so does the row. */
static void check_matmul_negative_zero(cr_tier tier, cr_type type, cr_matvec *define,
                                       cr_matmul *kernel)
{
    enum { N = CR_CHAINS + 1, N_ROWS = 5, N_X = 3 };
    uint8_t w[N_ROWS * N * sizeof(float)];
    memset(w, 0x80, sizeof w); /* below zero, and small, in all types of floats */
    cr_act x[N_X];
    for (size_t c = 0; c < N_X; c++) {
        x[c] = act_new(N);
        for (size_t i = 0; i < N; i++)
            x[c].f[i] = 0x1p-149f;
    }
    const size_t row_bytes = cr_type_bytes(cr_type_get(type), N);
    void *scratch = aligned_alloc(64, cr_panel_bytes(N));
    assert_non_null(scratch);
    float want[N_ROWS], got[N_X * N_ROWS];
    define(want, w, row_bytes, N_ROWS, &x[0]);
    assert_int_equal(bits_of(want[0]), 0x80000000u);
    kernel(got, N_ROWS, w, row_bytes, N_ROWS, x, N_X, scratch);
    for (size_t c = 0; c < N_X; c++) {
        assert_same(want, got + c * N_ROWS, N_ROWS, "-0", tier);
        free(x[c].f);
    }
    free(scratch);
}

static void check_matmul(cr_tier tier, const cr_kernels *scalar, const cr_kernels *kernels)
{
    fence f = fence_new((size_t)MAX_K * 4 * MAX_PANEL_ROWS + 4096);
    for (size_t t = 0; t < CR_COUNT(types); t++) {
        const cr_type type = types[t];
        if (kernels->matmul[type] && is_single(type) && !cr_kernels_splits(kernels, type))
            check_matmul_negative_zero(tier, type, scalar->matvec[type], kernels->matmul[type]);
        if (kernels->matmul[type])
            check_matmul_type(tier, type, scalar->matvec[type], kernels->matmul[type], &f);
        if (kernels->matmul_wide[type])
            check_matmul_type(tier, type, scalar->matvec[type], kernels->matmul_wide[type], &f);
    }
    fence_free(&f);
}

/* A row's result must not depend on the rows it is computed with. */
static void check_matvec_split(cr_tier tier, const cr_kernels *scalar, const cr_kernels *kernels)
{
    (void)scalar;
    enum { N = 1536, N_ROWS = 9 };
    static uint8_t w[N * 4 * N_ROWS];
    cr_act x = act_new(N);
    fill_acts(&x, ACTS_PLAIN);
    kernels->quantize(&x);
    for (size_t t = 0; t < CR_COUNT(types); t++) {
        const size_t row_bytes = cr_type_bytes(cr_type_get(types[t]), N);
        float together[N_ROWS], alone[N_ROWS];
        fill_weights(w, types[t], row_bytes * N_ROWS, SCALES_PLAIN);
        kernels->matvec[types[t]](together, w, row_bytes, N_ROWS, &x);
        for (size_t r = 0; r < N_ROWS; r++)
            kernels->matvec[types[t]](alone + r, w + r * row_bytes, row_bytes, 1, &x);
        assert_same(together, alone, N_ROWS, "rows apart", tier);
    }
    free(x.f);
}

static void check_quantize(cr_tier tier, const cr_kernels *scalar, const cr_kernels *kernels)
{
    static const float odd[] = { 0.0f, -0.0f, 1e-45f, -1e-40f, 3.4e38f, INFINITY, -INFINITY, NAN };
    for (size_t n = 32; n <= 2048; n += n < 1100 ? 32 : 480) {
        cr_act want = act_new(n), got = act_new(n);
        fill_acts(&want, (acts)random_below(ACTS_COUNT));
        for (int i = 0; i < 4; i++)
            want.f[random_below(n)] = odd[random_below(CR_COUNT(odd))];
        if (random_below(2) == 0) { /* d is 1 in the first block, and every value lies half way */
            for (size_t i = 0; i < 32; i++)
                want.f[i] = (float)i - 15.5f;
            want.f[random_below(32)] = 127.0f;
        }
        memcpy(got.f, want.f, n * sizeof *got.f);
        scalar->quantize(&want);
        kernels->quantize(&got);
        const size_t padded = (n + 511) / 512 * 512;
        assert_same(want.d, got.d, padded / 32, "quantize", tier);
        assert_memory_equal(want.q, got.q, padded);
        assert_memory_equal(want.sum, got.sum, padded / 16 * sizeof *got.sum);
        free(want.f);
        free(got.f);
    }
}

/* n floats that end at the fence, sometimes odd ones. */
static float *fill_vector(const fence *f, size_t n, bool odd)
{
    static const float values[] = { 0.0f,    -0.0f,    1e-45f, 88.8f,    -88.8f,    -87.4f, -104.5f,
                                    3.4e38f, -3.4e38f, 1e-30f, INFINITY, -INFINITY, NAN,    1.0f };
    float *p = fence_end(f, n * sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = odd && random_below(4) == 0 ? values[random_below(CR_COUNT(values))]
                                           : random_float() * 12.0f;
    return p;
}

static void check_vectors(cr_tier tier, const cr_kernels *scalar, const cr_kernels *kernels)
{
    fence a = fence_new(MAX_N * sizeof(float)), b = fence_new(MAX_N * sizeof(float));
    float want[MAX_N], got[MAX_N + 2 * GUARD];
    for (size_t n = 1; n <= MAX_N; n++) {
        const bool odd = n % 3 == 0;
        const float *x = fill_vector(&a, n, odd), *w = fill_vector(&b, n, odd);
        float *y = got + GUARD;

        guard_fill(got, n);
        scalar->rms_norm(want, x, w, n, 1e-5f);
        kernels->rms_norm(y, x, w, n, 1e-5f);
        assert_same(want, y, n, "rms_norm", tier);
        guard_check(got, n, "rms_norm", tier);

        for (int gate = 0; gate < CR_GATE_COUNT; gate++) {
            guard_fill(got, n);
            scalar->gate_mul[gate](want, x, w, n);
            kernels->gate_mul[gate](y, x, w, n);
            assert_same(want, y, n, gate == CR_GATE_SILU ? "silu_mul" : "gelu_mul", tier);
            guard_check(got, n, "gate_mul", tier);
        }

        guard_fill(got, n);
        memcpy(want, x, n * sizeof *want);
        memcpy(y, x, n * sizeof *want);
        scalar->soft_cap(want, 5.0f, n);
        kernels->soft_cap(y, 5.0f, n);
        assert_same(want, y, n, "soft_cap", tier);
        guard_check(got, n, "soft_cap", tier);

        guard_fill(got, n);
        memcpy(want, w, n * sizeof *want);
        memcpy(y, w, n * sizeof *want);
        scalar->add_scaled(want, x, -0.3f, n);
        kernels->add_scaled(y, x, -0.3f, n);
        assert_same(want, y, n, "add_scaled", tier);
        guard_check(got, n, "add_scaled", tier);

        if (n > CR_KEY_CHUNK)
            continue;
        guard_fill(got, n);
        const float max = odd ? 3.0f : 12.0f;
        memcpy(want, x, n * sizeof *want);
        want[n / 2] = max + CR_SOFTMAX_MIN;
        want[n - 1] = nextafterf(max + CR_SOFTMAX_MIN, -INFINITY);
        memcpy(y, want, n * sizeof *want);
        const float want_sum = scalar->exp_sum(want, max, n), sum = kernels->exp_sum(y, max, n);
        assert_same(want, y, n, "exp_sum", tier);
        assert_same(&want_sum, &sum, 1, "exp_sum's sum", tier);
        guard_check(got, n, "exp_sum", tier);
    }
    fence_free(&a);
    fence_free(&b);
}

/* In place is allowed where the header says so. */
static void check_in_place(cr_tier tier, const cr_kernels *scalar, const cr_kernels *kernels)
{
    float x[100], w[100], want[100], y[100];
    for (int i = 0; i < 100; i++)
        x[i] = random_float(), w[i] = random_float();
    scalar->rms_norm(want, x, w, 100, 1e-6f);
    memcpy(y, x, sizeof y);
    kernels->rms_norm(y, y, w, 100, 1e-6f);
    assert_same(want, y, 100, "rms_norm in place", tier);
    for (int gate = 0; gate < CR_GATE_COUNT; gate++) {
        scalar->gate_mul[gate](want, x, w, 100);
        memcpy(y, x, sizeof y);
        kernels->gate_mul[gate](y, y, w, 100);
        assert_same(want, y, 100, "gate_mul in place", tier);
        memcpy(y, w, sizeof y);
        kernels->gate_mul[gate](y, x, y, 100);
        assert_same(want, y, 100, "gate_mul in the place of up", tier);
    }
}

static void fill_cache(void *p, cr_type type, size_t n)
{
    if (type == CR_TYPE_Q8_0) {
        for (uint8_t *block = p; n > 0; n -= 32, block += 34) {
            const uint16_t d = cr_f32_to_f16(random_float() / 32);
            memcpy(block, &d, sizeof d);
            for (size_t i = 0; i < 32; i++)
                block[2 + i] = (uint8_t)random_bits();
        }
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const float f = random_float() * 4.0f;
        const uint16_t h = cr_f32_to_f16(f);
        if (type == CR_TYPE_F32)
            memcpy((uint8_t *)p + 4 * i, &f, 4);
        else
            memcpy((uint8_t *)p + 2 * i, &h, 2);
    }
}

static void check_attention(cr_tier tier, const cr_kernels *scalar, const cr_kernels *kernels)
{
    static const cr_type cached[] = { CR_TYPE_F32, CR_TYPE_F16, CR_TYPE_Q8_0 };
    fence f = fence_new((size_t)MAX_N * 4 * MAX_KEYS), g = fence_new(MAX_N * sizeof(float));
    for (size_t t = 0; t < CR_COUNT(cached); t++)
        for (size_t n = 1; n <= MAX_N; n++) {
            const cr_type type = cached[t];
            if (n % (size_t)cr_type_get(type)->weights != 0)
                continue;
            const size_t n_keys = 1 + random_below(MAX_KEYS);
            const size_t n_bytes = cr_type_bytes(cr_type_get(type), n * n_keys);
            void *rows = fence_end(&f, n_bytes);
            fill_cache(rows, type, n * n_keys);
            const float *q = fill_vector(&g, n, false);

            float want[MAX_N], got[MAX_N + 2 * GUARD], p[MAX_KEYS];
            guard_fill(got, n_keys);
            scalar->dot_keys[type](want, q, rows, 0.125f, n, n_keys);
            kernels->dot_keys[type](got + GUARD, q, rows, 0.125f, n, n_keys);
            assert_same(want, got + GUARD, n_keys, "dot_keys", tier);
            guard_check(got, n_keys, "dot_keys", tier);

            for (size_t j = 0; j < n_keys; j++)
                p[j] = random_float();
            guard_fill(got, n);
            memcpy(want, q, n * sizeof *want);
            memcpy(got + GUARD, q, n * sizeof *want);
            scalar->mix_values[type](want, p, rows, n, n_keys);
            kernels->mix_values[type](got + GUARD, p, rows, n, n_keys);
            assert_same(want, got + GUARD, n, "mix_values", tier);
            guard_check(got, n, "mix_values", tier);
        }
    fence_free(&f);
    fence_free(&g);
}

static void check_convolve(cr_tier tier, const cr_kernels *scalar, const cr_kernels *kernels)
{
    enum { MAX_TAPS = 16, N = 70 };
    fence a = fence_new(MAX_TAPS * N * sizeof(float)), b = fence_new(MAX_TAPS * N * sizeof(float));
    fence c = fence_new(N * sizeof(float));
    float want[N], got[N + 2 * GUARD];
    for (size_t n_taps = 2; n_taps <= MAX_TAPS; n_taps++) {
        for (size_t n = 1; n <= N; n++) {
            const bool odd = (n + n_taps) % 3 == 0;
            const size_t stride = n + random_below(N - n + 1);
            const float *x = fill_vector(&a, (n_taps - 1) * stride + n, odd);
            const float *taps = fill_vector(&b, n_taps * n, odd);
            const float *bias = n % 2 == 0 ? fill_vector(&c, n, odd) : NULL;
            guard_fill(got, n);
            scalar->convolve(want, x, stride, taps, n_taps, bias, n);
            kernels->convolve(got + GUARD, x, stride, taps, n_taps, bias, n);
            assert_same(want, got + GUARD, n, "convolve", tier);
            guard_check(got, n, "convolve", tier);
        }
    }
    fence_free(&a);
    fence_free(&b);
    fence_free(&c);
}

static void check_ssm_step(cr_tier tier, const cr_kernels *scalar, const cr_kernels *kernels)
{
    enum { N = 5, MAX_STATE = 140 };
    fence fences[4];
    for (size_t i = 0; i < 3; i++)
        fences[i] = fence_new(MAX_STATE * sizeof(float));
    fences[3] = fence_new(N * MAX_STATE * sizeof(float));
    float want[N], got[N + 2 * GUARD], want_state[N * MAX_STATE];
    for (size_t n_state = 1; n_state <= MAX_STATE; n_state++) {
        const bool odd = n_state % 3 == 0;
        const size_t n = 1 + n_state % N, n_all = n * n_state;
        cr_ssm_token token = {
            .x = fill_vector(&fences[0], n, odd),
            .b = fill_vector(&fences[1], n_state, odd),
            .c = fill_vector(&fences[2], n_state, odd),
            .decay = n_state % 30 == 0 ? INFINITY : 0.75f,
            .step = random_float(),
            .skip = random_float(),
            .n_channels = n,
            .n_state = n_state,
        };
        float *state_got = fill_vector(&fences[3], n_all, odd);
        memcpy(want_state, state_got, n_all * sizeof *want_state);
        /* From a state of its own, or in place. */
        float other[N * MAX_STATE];
        memcpy(other, state_got, n_all * sizeof *other);
        const float *before = n_state % 2 == 0 ? other : state_got;
        guard_fill(got, n);
        scalar->ssm_step(want, want_state, want_state, &token);
        kernels->ssm_step(got + GUARD, state_got, before, &token);
        assert_same(want, got + GUARD, n, "ssm_step", tier);
        assert_same(want_state, state_got, n_all, "ssm_step's state", tier);
        guard_check(got, n, "ssm_step", tier);
    }
    for (size_t i = 0; i < 4; i++)
        fence_free(&fences[i]);
}

/* A tile against scalar kernels query by query: what each sees, and nothing of what it does not
 * see, which is odd here. */
static void check_tile(cr_tier tier, const cr_kernels *kernels, cr_type type, size_t n,
                       size_t n_queries)
{
    enum { MOST = 40 };
    cr_kernels scalar;
    cr_kernels_get(CR_TIER_SCALAR, &scalar);
    const size_t n_keys = 1 + random_below(64), first = random_below(13) * 16;
    const size_t row_bytes = cr_type_bytes(cr_type_get(type), n);
    fence f = fence_new(row_bytes * n_keys);
    uint8_t *rows = random_bits() & 1 ? fence_end(&f, row_bytes * n_keys) : fence_begin(&f);
    fill_cache(rows, type, n * n_keys);
    float *q = aligned_alloc(64, MOST * MAX_N * sizeof *q);
    float *scratch = aligned_alloc(64, CR_TILE_KEYS * MAX_N * sizeof *scratch);
    assert_true(q && scratch);
    static float s[MOST * CR_KEY_CHUNK + CR_TILE_KEYS], o[MOST * MAX_N], want[MAX_N];
    cr_query queries[MOST];
    cr_tile tile = { queries, q, s, o, scratch, n_queries, n, NULL };
    size_t last = first + n_keys;
    for (size_t i = 0; i < n_queries; i++) {
        size_t begin = random_below(3) == 0 ? random_below(CR_KEY_CHUNK) : 0;
        size_t end = random_bits() & 1 ? last : random_below(last + 40);
        queries[i] = (cr_query){ (int)begin, (int)CR_MAX(begin, end), 0.1f + random_float(), 0, 0 };
        for (size_t k = 0; k < n; k++)
            q[i * n + k] = random_float(), o[i * n + k] = random_float();
    }
    bool odd =
        type != CR_TYPE_Q8_0 && random_below(4) == 0; /* a key and value that is not a number */
    size_t at = random_below(n_keys);
    if (odd)
        memset(rows + at * row_bytes, 0xff, row_bytes);

    cr_kernels_scores(kernels, type, &tile, rows, first, n_keys);
    for (size_t i = 0; i < n_queries; i++) {
        scalar.dot_keys[type](want, q + i * n, rows, queries[i].scale, n, n_keys);
        for (size_t j = 0; j < n_keys; j++)
            if ((int)(first + j) >= queries[i].first && (int)(first + j) < queries[i].end)
                assert_same(want + j, s + i * CR_KEY_CHUNK + first + j, 1, "tile_scores", tier);
    }
    for (size_t i = 0; i < MOST * CR_KEY_CHUNK; i++)
        s[i] = random_float();
    float before[MAX_N];
    static float start[MOST * MAX_N];
    memcpy(start, o, sizeof start);
    cr_kernels_values(kernels, type, &tile, rows, first, n_keys);
    for (size_t i = 0; i < n_queries; i++) {
        size_t begin = CR_MAX((size_t)queries[i].first, first),
               end = CR_MIN((size_t)queries[i].end, last);
        memcpy(before, start + i * n, n * sizeof *before);
        if (begin < end)
            scalar.mix_values[type](before, s + i * CR_KEY_CHUNK + begin,
                                    rows + (begin - first) * row_bytes, n, end - begin);
        assert_same(before, o + i * n, n, "tile_values", tier);
    }
    fence_free(&f);
    free(q);
    free(scratch);
}

static void check_tiles(cr_tier tier, const cr_kernels *scalar, const cr_kernels *kernels)
{
    (void)scalar;
    static const cr_type cached[] = { CR_TYPE_F32, CR_TYPE_F16, CR_TYPE_Q8_0 };
    static const size_t widths[] = { 32, 64, 80, 96, 128, 160, 256 };
    for (size_t t = 0; t < CR_COUNT(cached); t++)
        for (size_t w = 0; w < CR_COUNT(widths); w++)
            for (size_t n_queries = 1; n_queries <= 19; n_queries++)
                if (widths[w] % (size_t)cr_type_get(cached[t])->weights == 0)
                    check_tile(tier, kernels, cached[t], widths[w], n_queries);
    check_tile(tier, kernels, CR_TYPE_F16, 40, 9); /* no whole number of chains: query by query */
}

static void check_largest(cr_tier tier, const cr_kernels *scalar, const cr_kernels *kernels)
{
    fence f = fence_new(MAX_N * sizeof(float));
    for (size_t n = 1; n <= CR_KEY_CHUNK; n++) {
        float *s = fence_end(&f, n * sizeof *s);
        for (size_t i = 0; i < n; i++)
            s[i] = random_below(20) == 0 ? -INFINITY : random_float() - 0.5f;
        const float want = scalar->largest(s, n), got = kernels->largest(s, n);
        assert_same(&want, &got, 1, "largest", tier);
    }
    fence_free(&f);
}

static void test_tiles(void **unused)
{
    (void)unused;
    for_each_tier(check_tiles);
    for_each_tier(check_largest);
}

static void test_matvec(void **unused)
{
    (void)unused;
    for_each_tier(check_matvec);
}

static void test_matmul(void **unused)
{
    (void)unused;
    for_each_tier(check_matmul);
}

static void test_matvec_split(void **unused)
{
    (void)unused;
    for_each_tier(check_matvec_split);
}

static void test_quantize(void **unused)
{
    (void)unused;
    for_each_tier(check_quantize);
}

static void test_vectors(void **unused)
{
    (void)unused;
    for_each_tier(check_vectors);
    for_each_tier(check_in_place);
}

static void test_attention(void **unused)
{
    (void)unused;
    for_each_tier(check_attention);
}

static void test_recurrent(void **unused)
{
    (void)unused;
    for_each_tier(check_convolve);
    for_each_tier(check_ssm_step);
}

static void test_table_is_full(void **unused)
{
    (void)unused;
    cr_kernels k;
    cr_kernels_get(CR_TIER_SCALAR, &k);
    for (size_t t = 0; t < CR_COUNT(types); t++)
        assert_true(k.matvec[types[t]] != NULL);
    assert_true(k.matvec[CR_TYPE_Q4_0] == cr_matvec_q4_0__scalar);
    assert_true(k.quantize && k.rms_norm && k.soft_cap && k.add_scaled && k.largest && k.exp_sum);
    assert_true(k.gate_mul[CR_GATE_SILU] && k.gate_mul[CR_GATE_GELU]);
    static const cr_type cached[] = { CR_TYPE_F16, CR_TYPE_F32, CR_TYPE_Q8_0 };
    for (size_t i = 0; i < CR_COUNT(cached); i++)
        assert_true(k.dot_keys[cached[i]] && k.mix_values[cached[i]] && k.store_cache[cached[i]]);
    assert_true(k.convolve && k.ssm_step);
}

/* ---- reading and multiplying for their own sake ---- */

static void test_peak(void **unused)
{
    (void)unused;
    uint8_t a[CR_PEAK_MACS], bytes[700];
    int8_t b[256];
    for (int i = 0; i < CR_PEAK_MACS; i++)
        a[i] = (uint8_t)(i == 5 ? 127 : i * 31 % 128);
    for (int i = 0; i < 256; i++)
        b[i] = (int8_t)(i * 57 % 256 - 128);
    for (int i = 0; i < 700; i++)
        bytes[i] = (uint8_t)(i * 89 + i / 7);
    cr_kernels scalar;
    cr_kernels_get(CR_TIER_SCALAR, &scalar);

    /* Five rounds: b's first quarter comes twice. 0x0807...01 + 0x0b0a09. */
    int64_t sum = 0;
    for (int i = 0; i < CR_PEAK_MACS; i++)
        sum += a[i] * (2 * b[i % 64] + b[64 + i % 64] + b[128 + i % 64] + b[192 + i % 64]);
    assert_int_equal(scalar.multiply_int8(a, b, 5), (uint32_t)sum);
    static const uint8_t few[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    assert_true(scalar.read_all(few, sizeof few) == UINT64_C(0x0807060504030201) + 0x0b0a09);

    for (int tier = CR_TIER_SCALAR + 1; tier <= (int)cr_cpu_tier(); tier++) {
        if (!cr_cpu_has((cr_tier)tier))
            continue;
        cr_kernels k;
        cr_kernels_get((cr_tier)tier, &k);
        static const size_t n_rounds[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 63, 64, 65, 127, 128, 259 };
        for (size_t i = 0; i < CR_COUNT(n_rounds); i++)
            assert_int_equal(k.multiply_int8(a, b, n_rounds[i]),
                             scalar.multiply_int8(a, b, n_rounds[i]));
        for (size_t at = 0; at < 9; at++)
            for (size_t n = 0; n + at <= sizeof bytes; n++)
                assert_true(k.read_all(bytes + at, n) == scalar.read_all(bytes + at, n));
    }
}

/* ---- scalar against double precision ---- */

/* Dequantised weights times dequantised activations. The bound counts roundings: two FMAs a block
 * in a chain, four merges, a few for the scales; each at most 2^-24 of the largest sum of sizes
 * there is. Types with a minimum add parts that may be larger than the weight: hence 3 times the
 * block's largest. */
static void test_scalar_matvec(void **unused)
{
    (void)unused;
    static const size_t widths[] = { 256, 512, 1536, 2048, MAX_K };
    static uint8_t w[MAX_K * 4];
    static float v[MAX_K];
    cr_kernels k;
    cr_kernels_get(CR_TIER_SCALAR, &k);
    for (size_t t = 0; t < CR_COUNT(types); t++)
        for (size_t i = 0; i < CR_COUNT(widths); i++) {
            const size_t n = widths[i];
            const cr_type_info *info = cr_type_get(types[t]);
            const bool int8 = cr_kernels_int8(types[t]);
            cr_act x = act_new(n);
            float got;
            fill_acts(&x, ACTS_PLAIN);
            fill_weights(w, types[t], cr_type_bytes(info, n), SCALES_PLAIN);
            info->dequantize(w, v, n);
            if (int8)
                k.quantize(&x);
            k.matvec[types[t]](&got, w, cr_type_bytes(info, n), 1, &x);

            double want = 0, size = 0;
            for (size_t b = 0; b < n / 32; b++) {
                double largest = 0, sum = 0;
                for (size_t j = 32 * b; j < 32 * b + 32; j++) {
                    const double a = int8 ? (double)x.d[b] * x.q[cr_act_index(j)] : (double)x.f[j];
                    want += (double)v[j] * a;
                    largest = fmax(largest, fabs((double)v[j]));
                    sum += fabs(a);
                }
                size += 3 * largest * sum;
            }
            const double steps = (int8 ? 2 * ceil((double)n / 512) : (double)n / 16) + 8;
            if (!(fabs((double)got - want) <= steps * 0x1p-24 * size))
                fail_msg("%s, n = %zu, seed %llu: expected %.9g, found %.9g", info->name, n,
                         (unsigned long long)seed, want, (double)got);
            free(x.f);
        }
}

/* Activations that are split keep 17 bits; a block is two sums of up to 18 roundings, one after the
 * other. */
static void test_scalar_split_matvec(void **unused)
{
    (void)unused;
#if defined(__x86_64__)
    static uint8_t w[MAX_K * 2];
    static float v[MAX_K];
    cr_kernels k;
    definitions(CR_TIER_AMX, &k);
    for (size_t n = 1; n <= MAX_K; n = n * 2 + random_below(5)) {
        const cr_type_info *info = cr_type_get(CR_TYPE_BF16);
        cr_act x = act_new(n);
        float got;
        fill_acts(&x, random_bits() & 1 ? ACTS_PLAIN : ACTS_MIXED);
        fill_weights(w, CR_TYPE_BF16, cr_type_bytes(info, n), SCALES_PLAIN);
        info->dequantize(w, v, n);
        k.matvec[CR_TYPE_BF16](&got, w, cr_type_bytes(info, n), 1, &x);
        double want = 0, size = 0;
        for (size_t i = 0; i < n; i++) {
            want += (double)v[i] * (double)x.f[i];
            size += fabs((double)v[i] * (double)x.f[i]);
        }
        const double bound = 0x1p-17 + (18 + 2 * ceil((double)n / 32)) * 0x1p-24;
        if (!(fabs((double)got - want) <= bound * size + (double)n * 0x1p-126))
            fail_msg("n = %zu, seed %llu: expected %.9g, found %.9g", n, (unsigned long long)seed,
                     want, (double)got);
        free(x.f);
    }
#endif
}

static void test_scalar_quantize(void **unused)
{
    (void)unused;
    cr_kernels k;
    cr_kernels_get(CR_TIER_SCALAR, &k);

    /* A scale of exactly 1: ties go to the even neighbour. */
    static const float in[32] = { 127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -126.5f, 126.5f, 0.49f };
    static const int8_t out[9] = { 127, 0, 2, 2, 0, -2, -126, 126, 0 };
    cr_act x = act_new(64);
    memset(x.f, 0, 64 * sizeof *x.f);
    memcpy(x.f + 32, in, sizeof in);
    k.quantize(&x);
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(x.q[cr_act_index(32 + i)], out[i]);
    assert_true(bits_of(x.d[1]) == bits_of(1.0f));
    assert_true(bits_of(x.d[0]) == 0);
    assert_int_equal(x.sum[2], 127 + 0 + 2 + 2 + 0 - 2 - 126 + 126 + 0);
    assert_int_equal(x.sum[3], 0);

    /* What is not a number stays visible in the scale. */
    x.f[5] = NAN;
    x.f[40] = -INFINITY;
    k.quantize(&x);
    assert_true(isnan(x.d[0]));
    assert_true(isinf(x.d[1]));
    x.f[5] = 1e-44f; /* 1 / d overflows: the block is zero */
    k.quantize(&x);
    assert_int_equal(x.q[cr_act_index(5)], 0);
    free(x.f);

    /* Random blocks: nothing is further away than half a step. */
    x = act_new(2048);
    fill_acts(&x, ACTS_MIXED);
    k.quantize(&x);
    for (size_t i = 0; i < x.n; i++) {
        const double d = (double)x.d[i / 32];
        const double error = fabs((double)x.f[i] - d * x.q[cr_act_index(i)]);
        assert_true(error <= d * 0.50002);
    }
    free(x.f);
}

static void test_act_layout(void **unused)
{
    (void)unused;
    uint8_t seen[1024] = { 0 };
    for (size_t i = 0; i < 1024; i++) {
        assert_true(cr_act_index(i) < 1024);
        seen[cr_act_index(i)]++;
    }
    for (size_t i = 0; i < 1024; i++)
        assert_int_equal(seen[i], 1);
    /* Block 5, second half, element 3: quad 1, half 1, block 1 of the quad. */
    assert_int_equal(cr_act_index(5 * 32 + 16 + 3), 128 + 64 + 16 + 3);

    for (size_t n = 1; n < 2000; n += 37) {
        cr_act x = act_new(n);
        const uint8_t *end = (const uint8_t *)x.f + cr_act_bytes(n);
        assert_true((uintptr_t)x.q % 64 == 0 && (uintptr_t)x.d % 64 == 0);
        assert_true((uintptr_t)x.sum % 64 == 0);
        assert_true((const uint8_t *)(x.sum + (n + 511) / 512 * 32) <= end);
        free(x.f);
    }
}

static double ulp(double exact)
{
    int e;
    frexp(exact, &e);
    return ldexp(1.0, CR_MAX(e, -125) - 24);
}

/* Every 997th float from -64 to 88.7 against the C library in double precision; below, it is 0. */
static void test_exp(void **unused)
{
    (void)unused;
    cr_kernels k;
    cr_kernels_get(CR_TIER_SCALAR, &k);
    double worst = 0;
    for (int sign = 0; sign < 2; sign++)
        for (uint32_t bits = 0; bits < 0x42d00000; bits += 997) {
            const uint32_t signed_bits = bits | (uint32_t)sign << 31;
            float x;
            memcpy(&x, &signed_bits, sizeof x);
            if (x > 88.72f || x < -64.0f)
                break;
            float y = x;
            k.exp_sum(&y, 0.0f, 1);
            const double exact = exp((double)x);
            const double error = fabs((double)y - exact) / ulp(exact);
            worst = fmax(worst, error);
        }
    print_message("exp: %.4f ulp at most\n", worst);
    assert_true(worst < 0.9); /* 0.894 over all floats */

    float odd[] = { -INFINITY, INFINITY, NAN, 0.0f, -0.0f, -200.0f, 200.0f, -3.4e38f, 3.4e38f };
    k.exp_sum(odd, 0.0f, CR_COUNT(odd));
    assert_true(bits_of(odd[0]) == 0 && isinf(odd[1]) && odd[1] > 0 && isnan(odd[2]));
    assert_true(bits_of(odd[3]) == bits_of(1.0f) && bits_of(odd[4]) == bits_of(1.0f));
    assert_true(bits_of(odd[5]) == 0 && isinf(odd[6]) && bits_of(odd[7]) == 0 && isinf(odd[8]));
    float edge[] = { -64.0f, nextafterf(-64.0f, -65.0f) };
    const float sum = k.exp_sum(edge, 0.0f, 2);
    assert_true(edge[0] > 1.6e-28f && edge[0] < 1.7e-28f && bits_of(edge[1]) == 0);
    assert_true(bits_of(sum) == bits_of(edge[0]));
}

static void test_scalar_vectors(void **unused)
{
    (void)unused;
    cr_kernels k;
    cr_kernels_get(CR_TIER_SCALAR, &k);
    float x[MAX_N], w[MAX_N], y[MAX_N];
    double squares = 0;
    for (int i = 0; i < MAX_N; i++) {
        x[i] = random_float() * 30.0f, w[i] = random_float();
        squares += (double)x[i] * (double)x[i];
    }
    k.rms_norm(y, x, w, MAX_N, 1e-5f);
    for (int i = 0; i < MAX_N; i++) {
        const double want = (double)x[i] / sqrt(squares / MAX_N + 1e-5) * (double)w[i];
        assert_true(fabs((double)y[i] - want) <= 16 * 0x1p-24 * fabs(want));
    }
    k.gate_mul[CR_GATE_SILU](y, x, w, MAX_N);
    for (int i = 0; i < MAX_N; i++) {
        const double want = (double)x[i] / (1 + exp(-(double)x[i])) * (double)w[i];
        assert_true(fabs((double)y[i] - want) <= 6 * 0x1p-24 * fabs(want));
    }
    for (int function = 0; function < CR_GATE_COUNT; function++) {
        float gate[] = { -INFINITY, INFINITY, NAN, -3.4e38f, 0.0f }, up[] = { 1, 1, 1, 1, 1 };
        k.gate_mul[function](gate, gate, up, 5);
        assert_true(fabsf(gate[0]) <= 0 && isinf(gate[1]) && isnan(gate[2]));
        assert_true(fabsf(gate[3]) <= 0 && fabsf(gate[4]) <= 0);
    }

    /* The argument of exp grows with v^3, and its rounding with it. */
    k.gate_mul[CR_GATE_GELU](y, x, w, MAX_N);
    for (int i = 0; i < MAX_N; i++) {
        const double v = (double)x[i], t = sqrt(2 / acos(-1.0)) * (v + 0.044715 * v * v * v);
        const double want = v / (1 + exp(-2 * t)) * (double)w[i];
        assert_true(fabs((double)y[i] - want) <=
                    (8 + 6 * fabs(fmin(t, 0))) * 0x1p-24 * fabs(want) + 1e-37);
    }

    memcpy(y, x, sizeof y);
    k.soft_cap(y, 5.0f, MAX_N);
    for (int i = 0; i < MAX_N; i++)
        assert_true(fabs((double)y[i] - 5 * tanh((double)x[i] / 5)) <= 4 * 0x1p-24 * 5);
    float odd[] = { -INFINITY, INFINITY, NAN };
    k.soft_cap(odd, 5.0f, 3);
    assert_true(odd[0] == -5.0f && odd[1] == 5.0f && isnan(odd[2]));

    memcpy(y, w, sizeof y);
    k.add_scaled(y, x, 0.7f, MAX_N);
    for (int i = 0; i < MAX_N; i++) {
        const double want = (double)0.7f * (double)x[i] + (double)w[i];
        assert_true(fabs((double)y[i] - want) <= 0x1p-24 * fabs(want));
    }
}

static void test_scalar_attention(void **unused)
{
    (void)unused;
    enum { N = 80, N_KEYS = 30 };
    cr_kernels k;
    cr_kernels_get(CR_TIER_SCALAR, &k);
    float rows[N * N_KEYS], q[N], s[N_KEYS], o[N] = { 0 };
    uint16_t half_rows[N * N_KEYS];
    for (int i = 0; i < N * N_KEYS; i++) {
        half_rows[i] = cr_f32_to_f16(random_float());
        rows[i] = cr_f16_to_f32(half_rows[i]);
    }
    for (int i = 0; i < N; i++)
        q[i] = random_float();
    for (int half = 0; half < 2; half++) {
        const cr_type type = half ? CR_TYPE_F16 : CR_TYPE_F32;
        const void *p = half ? (const void *)half_rows : rows;
        k.dot_keys[type](s, q, p, 0.25f, N, N_KEYS);
        memset(o, 0, sizeof o);
        k.mix_values[type](o, s, p, N, N_KEYS);
        for (int j = 0; j < N_KEYS; j++) {
            double want = 0, size = 0;
            for (int i = 0; i < N; i++) {
                const double product = (double)q[i] * (double)rows[j * N + i];
                want += product, size += fabs(product);
            }
            assert_true(fabs((double)s[j] - want / 4) <= 12 * 0x1p-24 * size);
        }
        for (int i = 0; i < N; i++) {
            double want = 0, size = 0;
            for (int j = 0; j < N_KEYS; j++) {
                const double product = (double)s[j] * (double)rows[j * N + i];
                want += product, size += fabs(product);
            }
            assert_true(fabs((double)o[i] - want) <= N_KEYS * 0x1p-24 * size);
        }
    }
}

/* Elements of Q8_0 are what the type's own code says they are; and stored ones are within half a step
 * of what was given, which for the largest is within the rounding of the scale. */
static void test_scalar_q8_0(void **unused)
{
    (void)unused;
    enum { N = 96, N_KEYS = 7, BYTES = N / 32 * 34 };
    cr_kernels k;
    cr_kernels_get(CR_TIER_SCALAR, &k);
    uint8_t rows[N_KEYS * BYTES];
    float x[N_KEYS * N], f[N_KEYS * N], q[N], s[N_KEYS], want_s[N_KEYS], o[N] = { 0 },
                                                                         want_o[N] = { 0 };
    for (int i = 0; i < N_KEYS * N; i++)
        x[i] = random_float() * 8;
    memset(x + 32, 0, 32 * sizeof *x); /* a block of zeros */
    for (int i = 0; i < N; i++)
        q[i] = random_float();
    k.store_cache[CR_TYPE_Q8_0](rows, x, N_KEYS * N);
    cr_type_get(CR_TYPE_Q8_0)->dequantize(rows, f, N_KEYS * N);
    for (int b = 0; b < N_KEYS * N / 32; b++) {
        float most = 0;
        for (int i = 0; i < 32; i++)
            most = fmaxf(most, fabsf(x[32 * b + i]));
        for (int i = 0; i < 32; i++) {
            const double off = fabs((double)f[32 * b + i] - (double)x[32 * b + i]);
            assert_true(off <= (double)most / 127 * 0.5 + (double)most * 0x1p-11);
        }
    }
    k.dot_keys[CR_TYPE_Q8_0](s, q, rows, 0.25f, N, N_KEYS);
    k.dot_keys[CR_TYPE_F32](want_s, q, f, 0.25f, N, N_KEYS);
    assert_memory_equal(s, want_s, sizeof s);
    k.mix_values[CR_TYPE_Q8_0](o, s, rows, N, N_KEYS);
    k.mix_values[CR_TYPE_F32](want_o, s, f, N, N_KEYS);
    assert_memory_equal(o, want_o, sizeof o);

    /* A NaN, an infinity, and what half precision cannot hold show. */
    static const float bad[] = { NAN, INFINITY, -INFINITY, 1e30f };
    for (size_t i = 0; i < CR_COUNT(bad); i++) {
        x[3] = bad[i];
        k.store_cache[CR_TYPE_Q8_0](rows, x, 32);
        k.dot_keys[CR_TYPE_Q8_0](s, q, rows, 1, 32, 1);
        assert_true(!isfinite(s[0]));
    }
}

/* Against double precision: a convolution, and what a state is after some tokens. */
static void test_scalar_recurrent(void **unused)
{
    (void)unused;
    enum { N = 6, STATE = 40, TAPS = 4, TOKENS = 9 };
    cr_kernels k;
    cr_kernels_get(CR_TIER_SCALAR, &k);
    float window[TAPS * N], taps[N * TAPS], bias[N], y[N];
    for (int i = 0; i < TAPS * N; i++)
        window[i] = random_float(), taps[i] = random_float();
    for (int i = 0; i < N; i++)
        bias[i] = random_float();
    k.convolve(y, window, N, taps, TAPS, bias, N);
    for (int i = 0; i < N; i++) {
        double want = (double)bias[i], size = fabs(want);
        for (int t = 0; t < TAPS; t++) {
            const double product = (double)taps[i * TAPS + t] * (double)window[t * N + i];
            want += product, size += fabs(product);
        }
        assert_true(fabs((double)y[i] - want) <= TAPS * 0x1p-24 * size);
    }

    float values[N * STATE] = { 0 }, x[N], b[STATE], c[STATE];
    double want_values[N * STATE] = { 0 };
    for (int t = 0; t < TOKENS; t++) {
        for (int i = 0; i < STATE; i++)
            b[i] = random_float(), c[i] = random_float();
        for (int j = 0; j < N; j++)
            x[j] = random_float();
        const float decay = 0.9f - 0.05f * (float)t, step = 0.3f + 0.1f * (float)t, skip = 1.25f;
        k.ssm_step(y, values, values, &(cr_ssm_token){ x, b, c, decay, step, skip, N, STATE });
        for (int j = 0; j < N; j++) {
            double want = (double)skip * (double)x[j], size = fabs(want);
            for (int i = 0; i < STATE; i++) {
                double *s = &want_values[j * STATE + i];
                *s = (double)decay * *s + (double)step * (double)x[j] * (double)b[i];
                want += *s * (double)c[i], size += fabs(*s * (double)c[i]);
                assert_true(fabs((double)values[j * STATE + i] - *s) <= 4 * TOKENS * 0x1p-24);
            }
            assert_true(fabs((double)y[j] - want) <= 4 * TOKENS * 0x1p-24 * (size + 1));
        }
    }
}

/* Every upper half of a float, with lower halves about the ties of half precision. A NaN stays one. */
static void check_store_cache(cr_tier tier, const cr_kernels *scalar, const cr_kernels *kernels)
{
    enum { N_LOW = 7, N = 1 + 3 * N_LOW };
    static const uint32_t low[N_LOW] = { 0, 1, 0xfff, 0x1000, 0x1001, 0x8000, 0xffff };
    for (uint32_t high = 0; high < 0x10000; high++) {
        float x[N] = { 1.0f };
        uint16_t want[N], got[N + 1] = { [N] = 0x1234 };
        for (int i = 1; i < N; i++) {
            const uint32_t bits = high << 16 ^ low[i % N_LOW] ^ ((uint32_t)i / N_LOW) << 13;
            memcpy(&x[i], &bits, sizeof bits);
        }
        scalar->store_cache[CR_TYPE_F16](want, x, N);
        kernels->store_cache[CR_TYPE_F16](got, x, N);
        for (int i = 0; i < N; i++)
            if (got[i] != want[i] && !isnan(x[i]))
                fail_msg("%s: %a becomes %04x, not %04x", cr_tier_name(tier), (double)x[i], got[i],
                         want[i]);
            else if (isnan(x[i]))
                assert_true((got[i] & 0x7fff) > 0x7c00);
        assert_int_equal(got[N], 0x1234);
    }
}

static void test_store_cache(void **unused)
{
    (void)unused;
    for_each_tier(check_store_cache);
}

int main(void)
{
    const char *given = getenv("CERA_TEST_SEED"), *only = getenv("CERA_TEST_ONLY");
    seed = given ? strtoull(given, NULL, 10) : ((uint64_t)getpid() * 2654435761u | 1);
    state = seed * 0x9e3779b97f4a7c15u | 1;
    printf("seed %llu, best tier %s\n", (unsigned long long)seed, cr_tier_name(cr_cpu_tier()));
    fflush(stdout);
    if (only)
        cmocka_set_test_filter(only);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_is_full),   cmocka_unit_test(test_act_layout),
        cmocka_unit_test(test_matvec),          cmocka_unit_test(test_matvec_split),
        cmocka_unit_test(test_matmul),          cmocka_unit_test(test_quantize),
        cmocka_unit_test(test_vectors),         cmocka_unit_test(test_attention),
        cmocka_unit_test(test_tiles),           cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_store_cache),     cmocka_unit_test(test_peak),
        cmocka_unit_test(test_scalar_matvec),   cmocka_unit_test(test_scalar_split_matvec),
        cmocka_unit_test(test_scalar_quantize), cmocka_unit_test(test_exp),
        cmocka_unit_test(test_scalar_vectors),  cmocka_unit_test(test_scalar_attention),
        cmocka_unit_test(test_scalar_q8_0),     cmocka_unit_test(test_scalar_recurrent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What does a fixed order of summation cost?
 *
 * cera promises the same bits for decode, prefill and batches of any size, so the float sum over
 * the blocks of a row needs one order that all of them can follow. This program measures three
 * candidates on the case that hurts most, Q4_0 decode with 512-bit VNNI straight on GGUF rows:
 *
 *   free   no order: every lane sums parts of blocks, whatever is fastest for one row
 *   (a)    one chain, ascending blocks; a lane is a row, sixteen rows at once
 *   (b)    sixteen chains, block index mod 16, merged by a tree; a lane is a block, four rows at
 *          once with four blocks each
 *
 * Weights lie in L2, or in a matrix too large for the caches. Every figure is the median of seven
 * runs that take turns. docs/numerics.md has the outcome. Self-contained on purpose: it measures
 * the idea, not the library.
 *
 *     cc -O3 -std=gnu11 bench/summation_order.c -o /tmp/summation_order -lpthread -lm
 *     /tmp/summation_order [MiB of the large matrix, 640] */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if !defined(__x86_64__)
int main(void)
{
    puts("summation_order: needs x86-64 with AVX-512 VNNI");
    return 0;
}
#else
#include <immintrin.h>

#define TARGET                                                                                     \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")))
#define INLINE TARGET static inline __attribute__((always_inline))

enum {
    BLOCK = 18,   /* bytes: f16 scale, 16 bytes of nibbles */
    AHEAD = 4096, /* prefetch distance in bytes */
    N_RUNS = 7,
    MAX_K = 8192,
};

/* The activations in the layouts that the variants want. */
typedef struct acts {
    int8_t natural[MAX_K] __attribute__((aligned(64)));
    int8_t quads[MAX_K] __attribute__((aligned(64))); /* [block / 4][half][block % 4][16] */
    int32_t seed[MAX_K / 128 * 16] __attribute__((aligned(64))); /* [quad][block][4]: -8 * sums */
    float d[MAX_K / 32] __attribute__((aligned(64)));
    float d4[MAX_K / 32 * 4] __attribute__((aligned(64))); /* [quad][block][4] */
    int32_t sum8[MAX_K / 32] __attribute__((aligned(64))); /* 8 * sum of the block */
} acts;

/* Permutations: of bytes, to take the nibble strings of three blocks from 64 bytes; of words, to
 * take the scales of four blocks from there; of sums, from [block][row] to [row][block]. */
typedef struct tables {
    uint8_t nibbles[64] __attribute__((aligned(64)));
    uint16_t scales[32] __attribute__((aligned(64)));  /* the four scales, four times */
    uint16_t scales4[32] __attribute__((aligned(64))); /* each scale four times */
    uint32_t natural[16] __attribute__((aligned(64))); /* lane 4 l + a -> block 4 a + l */
} tables;

static tables t;
static acts act;

static void tables_fill(void)
{
    for (int i = 0; i < 64; i++)
        t.nibbles[i] = (uint8_t)(i < 48 ? 2 + BLOCK * (i / 16) + i % 16 : 0);
    for (int i = 0; i < 16; i++) {
        t.scales[i] = (uint16_t)(9 * (i % 4));
        t.scales4[i] = (uint16_t)(9 * (i / 4));
        t.natural[i] = (uint32_t)(4 * (i % 4) + i / 4);
    }
}

/* Four consecutive blocks: their nibbles, a block per 128-bit lane. */
INLINE __m512i quad_nibbles(const uint8_t *p, __m512i v, __m512i index)
{
    return _mm512_inserti32x4(_mm512_permutexvar_epi8(index, v),
                              _mm_loadu_si128((const __m128i *)(p + 3 * BLOCK + 2)), 3);
}

INLINE __m512i dot_nibbles(__m512i sum, __m512i nibbles, __m512i low, __m512i high)
{
    const __m512i mask = _mm512_set1_epi8(15);
    sum = _mm512_dpbusd_epi32(sum, _mm512_and_si512(nibbles, mask), low);
    return _mm512_dpbusd_epi32(sum, _mm512_and_si512(_mm512_srli_epi16(nibbles, 4), mask), high);
}

/* sum over the dwords of each 128-bit lane of a[i] -> dword i of that lane */
INLINE __m512i reduce4(__m512i a0, __m512i a1, __m512i a2, __m512i a3)
{
    const __m512i s01 =
        _mm512_add_epi32(_mm512_unpacklo_epi32(a0, a1), _mm512_unpackhi_epi32(a0, a1));
    const __m512i s23 =
        _mm512_add_epi32(_mm512_unpacklo_epi32(a2, a3), _mm512_unpackhi_epi32(a2, a3));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(s01, s23), _mm512_unpackhi_epi64(s01, s23));
}

/* Spread out: prefetches right behind each other cost up to a quarter of the DRAM rate. */
INLINE void prefetch(const uint8_t *p, size_t ahead, int bytes)
{
    _mm_prefetch((const char *)p + ahead, _MM_HINT_T1);
    if (bytes > 64)
        _mm_prefetch((const char *)p + ahead + 64, _MM_HINT_T1);
}

INLINE __m512 merge_rows(const __m512 c[4])
{
    const __m512 a = _mm512_shuffle_f32x4(c[0], c[1], 0x44);
    const __m512 b = _mm512_shuffle_f32x4(c[0], c[1], 0xee);
    const __m512 d = _mm512_shuffle_f32x4(c[2], c[3], 0x44);
    const __m512 e = _mm512_shuffle_f32x4(c[2], c[3], 0xee);
    const __m512 ab = _mm512_add_ps(a, b); /* [row 0: 0+2, 1+3][row 1: 0+2, 1+3] */
    const __m512 de = _mm512_add_ps(d, e);
    __m512 s =
        _mm512_add_ps(_mm512_shuffle_f32x4(ab, de, 0x88), _mm512_shuffle_f32x4(ab, de, 0xdd));
    s = _mm512_add_ps(s, _mm512_shuffle_ps(s, s, 0x4e));
    return _mm512_add_ps(s, _mm512_shuffle_ps(s, s, 0xb1));
}

INLINE void store_rows(float *y, __m512 s)
{
    _mm_storeu_ps(y, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, s)));
}

/* ---- free ---- */

TARGET static void matvec_free(float *y, const uint8_t *w, size_t n_rows, size_t n_blocks)
{
    const __m512i index = _mm512_load_si512(t.nibbles), scales4 = _mm512_load_si512(t.scales4);
    const size_t n_quads = n_blocks / 4, tail = n_blocks % 4;
    for (size_t r = 0; r < n_rows; r += 4) {
        __m512 c[4];
        for (int k = 0; k < 4; k++) {
            const uint8_t *p = w + (r + (size_t)k) * n_blocks * BLOCK;
            __m512 c0 = _mm512_setzero_ps(), c1 = c0;
            for (size_t a = 0; a < n_quads + (tail != 0); a++, p += 4 * BLOCK) {
                __m512i v, nibbles;
                __mmask16 lanes = 0xffff;
                prefetch(p, AHEAD, 4 * BLOCK);
                if (a < n_quads) {
                    v = _mm512_loadu_si512(p);
                    nibbles = quad_nibbles(p, v, index);
                } else {
                    v = _mm512_maskz_loadu_epi8(((__mmask64)1 << (BLOCK * tail)) - 1, p);
                    nibbles = _mm512_permutexvar_epi8(index, v);
                    lanes = (__mmask16)((1u << 4 * tail) - 1);
                }
                const __m512i sum = dot_nibbles(_mm512_load_si512(act.seed + 16 * a), nibbles,
                                                _mm512_load_si512(act.quads + 128 * a),
                                                _mm512_load_si512(act.quads + 128 * a + 64));
                const __m512 d =
                    _mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutexvar_epi16(scales4, v)));
                const __m512 scale = _mm512_mul_ps(d, _mm512_load_ps(act.d4 + 16 * a));
                if (a & 1)
                    c1 = _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, c1, lanes);
                else
                    c0 = _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, c0, lanes);
            }
            c[k] = _mm512_add_ps(c0, c1);
        }
        store_rows(y + r, merge_rows(c));
    }
}

/* ---- (a): a lane is a row ---- */

TARGET static void matvec_a(float *y, const uint8_t *w, size_t n_rows, size_t n_blocks)
{
    const size_t row = n_blocks * BLOCK;
    const size_t ahead = (4095 + 16 * row) / (16 * row) * (16 * row); /* whole groups of rows */
    int32_t offset[16];
    for (int i = 0; i < 16; i++)
        offset[i] = (int32_t)((size_t)(4 * (i % 4) + i / 4) * row);
    const __m512i rows = _mm512_loadu_si512(offset), natural = _mm512_load_si512(t.natural);
    for (size_t r = 0; r < n_rows; r += 16) {
        __m512 c = _mm512_setzero_ps();
        for (size_t b = 0; b < n_blocks; b++) {
            const uint8_t *p = w + r * row + b * BLOCK;
            const __m512i low =
                _mm512_broadcast_i32x4(_mm_load_si128((const __m128i *)(act.natural + 32 * b)));
            const __m512i high = _mm512_broadcast_i32x4(
                _mm_load_si128((const __m128i *)(act.natural + 32 * b + 16)));
            __m512i sum[4];
            for (int a = 0; a < 4; a++) {
                const uint8_t *q = p + (size_t)(4 * a) * row + 2;
                __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)q));
                v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(q + row)), 1);
                v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(q + 2 * row)), 2);
                v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(q + 3 * row)), 3);
                sum[a] = dot_nibbles(_mm512_setzero_si512(), v, low, high);
            }
            if (b % 3 == 0) /* at least every 64 bytes of every row */
                for (size_t i = 0; i < 16; i++)
                    _mm_prefetch((const char *)p + i * row + ahead, _MM_HINT_T1);
            const __m512i isum = _mm512_sub_epi32(reduce4(sum[0], sum[1], sum[2], sum[3]),
                                                  _mm512_set1_epi32(act.sum8[b]));
            const __m512 d =
                _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_i32gather_epi32(rows, p, 1)));
            c = _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum),
                                _mm512_mul_ps(d, _mm512_set1_ps(act.d[b])), c);
        }
        _mm512_storeu_ps(y + r, _mm512_permutexvar_ps(natural, c));
    }
}

/* ---- (b): a lane is a block ---- */

/* Adds n blocks of four rows to their chains, [row][block]. */
INLINE __m512 add_quad(__m512 c, const uint8_t *p, size_t row, size_t ahead, size_t quad, int n)
{
    const __m512i index = _mm512_load_si512(t.nibbles), natural = _mm512_load_si512(t.natural);
    const __m512i low = _mm512_load_si512(act.quads + 128 * quad);
    const __m512i high = _mm512_load_si512(act.quads + 128 * quad + 64);
    const __mmask64 bytes = n == 4 ? ~(__mmask64)0 : ((__mmask64)1 << (BLOCK * n)) - 1;
    __m512i sum[4], h = _mm512_setzero_si512();
    for (int k = 0; k < 4; k++, p += row) {
        prefetch(p, ahead, 4 * BLOCK);
        const __m512i v = _mm512_maskz_loadu_epi8(bytes, p);
        const __m512i nibbles =
            n == 4 ? quad_nibbles(p, v, index) : _mm512_permutexvar_epi8(index, v);
        sum[k] = dot_nibbles(_mm512_setzero_si512(), nibbles, low, high);
        h = _mm512_mask_permutexvar_epi16(h, 0xfu << 4 * k, _mm512_load_si512(t.scales), v);
    }
    const __m512i isum = _mm512_sub_epi32(
        _mm512_permutexvar_epi32(natural, reduce4(sum[0], sum[1], sum[2], sum[3])),
        _mm512_broadcast_i32x4(_mm_load_si128((const __m128i *)(act.sum8 + 4 * quad))));
    const __m512 scale = _mm512_mul_ps(_mm512_cvtph_ps(_mm512_castsi512_si256(h)),
                                       _mm512_broadcast_f32x4(_mm_load_ps(act.d + 4 * quad)));
    const __mmask16 lanes = (__mmask16)(((1u << n) - 1) * 0x1111u);
    return _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(isum), scale, c, lanes);
}

TARGET static void matvec_b(float *y, const uint8_t *w, size_t n_rows, size_t n_blocks)
{
    const size_t row = n_blocks * BLOCK, n_quads = n_blocks / 4, quad_bytes = 4 * BLOCK;
    const size_t ahead = (4095 + 4 * row) / (4 * row) * (4 * row); /* whole groups of rows */
    const int tail = (int)(n_blocks % 4);
    for (size_t r = 0; r < n_rows; r += 4) {
        const uint8_t *p = w + r * row;
        __m512 c0 = _mm512_setzero_ps(), c1 = c0, c2 = c0, c3 = c0;
        size_t q = 0;
        for (; q + 4 <= n_quads; q += 4, p += 4 * quad_bytes) {
            c0 = add_quad(c0, p, row, ahead, q, 4);
            c1 = add_quad(c1, p + quad_bytes, row, ahead, q + 1, 4);
            c2 = add_quad(c2, p + 2 * quad_bytes, row, ahead, q + 2, 4);
            c3 = add_quad(c3, p + 3 * quad_bytes, row, ahead, q + 3, 4);
        }
        if (tail != 0) /* no K here has more than 3 blocks left */
            c0 = add_quad(c0, p, row, ahead, q, tail);
        __m512 s = _mm512_add_ps(_mm512_add_ps(c0, c2), _mm512_add_ps(c1, c3));
        s = _mm512_add_ps(s, _mm512_shuffle_ps(s, s, 0x4e));
        store_rows(y + r, _mm512_add_ps(s, _mm512_shuffle_ps(s, s, 0xb1)));
    }
}

/* ---- measuring ---- */

typedef void matvec(float *y, const uint8_t *w, size_t n_rows, size_t n_blocks);

static const struct {
    const char *name;
    matvec *run;
} variants[] = { { "free", matvec_free }, { "(a)", matvec_a }, { "(b)", matvec_b } };
enum { N_VARIANTS = 3 };

typedef struct job {
    matvec *run;
    float *y;
    const uint8_t *w;
    size_t n_rows, n_blocks;
    int repeat;
    double rate; /* out: GB/s by processor time, so that other programs count less */
} job;

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void *work(void *ctx)
{
    job *j = ctx;
    const double start = now();
    for (int i = 0; i < j->repeat; i++)
        j->run(j->y, j->w, j->n_rows, j->n_blocks);
    j->rate = (double)(j->n_rows * j->n_blocks * BLOCK) * j->repeat / (now() - start) / 1e9;
    return NULL;
}

/* GB/s of one run; the second thread takes the second half of the rows. */
static double rate(const job *whole, int n_threads)
{
    job part[2] = { *whole, *whole };
    pthread_t thread;
    if (n_threads == 1) {
        work(&part[0]);
        return part[0].rate;
    }
    part[0].n_rows = whole->n_rows / 32 * 16;
    part[1].n_rows = whole->n_rows - part[0].n_rows;
    part[1].w += part[0].n_rows * whole->n_blocks * BLOCK;
    part[1].y += part[0].n_rows;
    if (pthread_create(&thread, NULL, work, &part[1]) != 0)
        exit(1);
    work(&part[0]);
    pthread_join(thread, NULL);
    return part[0].rate + part[1].rate;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *where, job j, int n_threads)
{
    double rates[N_VARIANTS][N_RUNS];
    for (int i = 0; i < N_RUNS; i++)
        for (int v = 0; v < N_VARIANTS; v++) {
            j.run = variants[v].run;
            rates[v][i] = rate(&j, n_threads);
        }
    printf("%-5s K=%-5zu %dT ", where, 32 * j.n_blocks, n_threads);
    for (int v = 0; v < N_VARIANTS; v++) {
        qsort(rates[v], N_RUNS, sizeof *rates[v], ascending);
        printf("  %s %6.2f", variants[v].name, rates[v][N_RUNS / 2]);
    }
    printf("   (b)/free %.3f\n", rates[2][N_RUNS / 2] / rates[0][N_RUNS / 2]);
    fflush(stdout);
}

static void fill(uint8_t *w, size_t n_bytes)
{
    uint64_t s = 88172645463325252u;
    for (size_t i = 0; i + 8 <= n_bytes; i += 8) {
        s ^= s << 13, s ^= s >> 7, s ^= s << 17;
        memcpy(w + i, &s, 8);
    }
    for (size_t i = 0; i + BLOCK <= n_bytes; i += BLOCK)
        w[i + 1] = (uint8_t)(0x20 | (w[i + 1] & 3)); /* scales of 2^-7 to 2^-6 */
    for (int b = 0; b < MAX_K / 32; b++) {
        act.d[b] = 0.01f + 0.001f * (float)(b % 7);
        for (int i = 0; i < 32; i++) {
            const int8_t q = (int8_t)(b * 37 + i * 11);
            act.natural[32 * b + i] = q;
            act.quads[128 * (b / 4) + 64 * (i / 16) + 16 * (b % 4) + i % 16] = q;
            act.sum8[b] += 8 * q;
            act.seed[4 * b + i % 16 / 4] -= 8 * q;
        }
        for (int i = 0; i < 4; i++)
            act.d4[4 * b + i] = act.d[b];
    }
}

/* (b) must give exactly the sum that docs/numerics.md defines, the others about the same. */
TARGET static void check(const uint8_t *w, float *y, size_t n_blocks)
{
    float want[16];
    double scale = 0;
    for (size_t r = 0; r < 16; r++) {
        float c[16] = { 0 };
        for (size_t b = 0; b < n_blocks; b++) {
            const uint8_t *p = w + (r * n_blocks + b) * BLOCK;
            int sum = 0;
            for (size_t i = 0; i < 16; i++)
                sum += ((p[2 + i] & 15) - 8) * act.natural[32 * b + i] +
                       ((p[2 + i] >> 4) - 8) * act.natural[32 * b + 16 + i];
            c[b % 16] =
                fmaf((float)sum, _cvtsh_ss((uint16_t)(p[0] | p[1] << 8)) * act.d[b], c[b % 16]);
        }
        for (int half = 8; half != 0; half /= 2)
            for (int i = 0; i < half; i++)
                c[i] += c[i + half];
        want[r] = c[0];
        scale = fmax(scale, fabs(c[0]));
    }
    for (int v = 0; v < N_VARIANTS; v++) {
        variants[v].run(y, w, 16, n_blocks);
        for (int r = 0; r < 16; r++)
            if (v == 2 ? y[r] != want[r] : fabs(y[r] - want[r]) > 1e-4 * scale) {
                printf("%s K=%zu row %d: expected %.9g, found %.9g\n", variants[v].name,
                       32 * n_blocks, r, want[r], y[r]);
                exit(1);
            }
    }
}

int main(int argc, char **argv)
{
    static const size_t widths[] = { 576, 2048, 8192 };
    const size_t large = (argc > 1 ? strtoul(argv[1], NULL, 10) : 640) << 20;
    const size_t small = (size_t)1 << 20;
    if (!__builtin_cpu_supports("avx512vnni") || !__builtin_cpu_supports("avx512vbmi")) {
        puts("summation_order: needs AVX-512 VNNI and VBMI");
        return 0;
    }
    uint8_t *w =
        mmap(NULL, large + 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    float *y = malloc((large / 324 + 16) * sizeof *y);
    if (w == MAP_FAILED || y == NULL)
        return 1;
    madvise(w, large, MADV_HUGEPAGE);
    tables_fill();
    fill(w, large);
    for (int i = 0; i < 3; i++)
        check(w, y, widths[i] / 32);
    printf("Q4_0, GB/s of weights, median of %d interleaved runs\n", N_RUNS);
    for (int n_threads = 1; n_threads <= 2; n_threads++)
        for (int i = 0; i < 3; i++) {
            const size_t n_blocks = widths[i] / 32, row = n_blocks * BLOCK;
            job j = { .w = w, .y = y, .n_blocks = n_blocks };
            j.n_rows = small / row / 32 * 32, j.repeat = 300;
            measure("L2", j, n_threads);
            j.n_rows = large / row / 32 * 32, j.repeat = 1;
            measure("DRAM", j, n_threads);
        }
    return 0;
}
#endif

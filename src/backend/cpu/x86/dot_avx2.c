/* Rows of floats times a vector: matrix kernels of F32, F16 and BF16, and attention scores, which
 * are the same thing with keys for rows. Chains run over single elements, in order over two
 * vectors a row; four rows at a time hide the latency of the FMA. */
#include <math.h>
#include <string.h>

#include "backend/cpu/x86/avx2.h"

typedef __m256 load_floats(const uint8_t *p);

CR_INLINE __m256 load_f32(const uint8_t *p)
{
    return _mm256_loadu_ps((const float *)(const void *)p);
}

CR_INLINE __m256 load_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

CR_INLINE __m256 load_bf16(const uint8_t *p)
{
    const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
}

/* The last n < 16 elements: copied in front of zeros, and only their chains changed. */
CR_INLINE void add_rest(__m256 *low, __m256 *high, const uint8_t *p, const float *f, size_t n,
                        size_t size, load_floats *load)
{
    uint8_t w[64] = { 0 };
    float x[16] = { 0 };
    memcpy(w, p, n * size);
    memcpy(x, f, n * sizeof *x);
    const __m256 l = _mm256_fmadd_ps(load(w), _mm256_loadu_ps(x), *low);
    const __m256 h = _mm256_fmadd_ps(load(w + 8 * size), _mm256_loadu_ps(x + 8), *high);
    *low = _mm256_blendv_ps(*low, l, _mm256_castsi256_ps(first_lanes(n)));
    *high = _mm256_blendv_ps(*high, h, _mm256_castsi256_ps(first_lanes(n < 8 ? 0 : n - 8)));
}

/* y[i] = scale * dot(row i, f) */
CR_INLINE void dot_rows(float *y, const void *w, size_t row_bytes, size_t n_rows, const float *f,
                        size_t n, float scale, size_t size, load_floats *load, size_t distance)
{
    for (size_t i = 0; i < n_rows; i += 4) {
        const rows4 r = rows4_at(w, row_bytes, i, n_rows, distance);
        __m256 a0 = _mm256_setzero_ps(), a1 = a0, a2 = a0, a3 = a0; /* chains 0 to 7 */
        __m256 b0 = a0, b1 = a0, b2 = a0, b3 = a0;                  /* 8 to 15 */
        size_t j = 0;
        for (; j + 16 <= n; j += 16) {
            const __m256 x = _mm256_loadu_ps(f + j), z = _mm256_loadu_ps(f + j + 8);
            const size_t at = size * j, next = at + 8 * size;
            prefetch_rows(&r, at, 16 * size);
            a0 = _mm256_fmadd_ps(load(r.p[0] + at), x, a0);
            a1 = _mm256_fmadd_ps(load(r.p[1] + at), x, a1);
            a2 = _mm256_fmadd_ps(load(r.p[2] + at), x, a2);
            a3 = _mm256_fmadd_ps(load(r.p[3] + at), x, a3);
            b0 = _mm256_fmadd_ps(load(r.p[0] + next), z, b0);
            b1 = _mm256_fmadd_ps(load(r.p[1] + next), z, b1);
            b2 = _mm256_fmadd_ps(load(r.p[2] + next), z, b2);
            b3 = _mm256_fmadd_ps(load(r.p[3] + next), z, b3);
        }
        if (j < n) {
            add_rest(&a0, &b0, r.p[0] + size * j, f + j, n - j, size, load);
            add_rest(&a1, &b1, r.p[1] + size * j, f + j, n - j, size, load);
            add_rest(&a2, &b2, r.p[2] + size * j, f + j, n - j, size, load);
            add_rest(&a3, &b3, r.p[3] + size * j, f + j, n - j, size, load);
        }
        const __m128 sum = merge_rows(merge_to_4(a0, b0), merge_to_4(a1, b1), merge_to_4(a2, b2),
                                      merge_to_4(a3, b3));
        store_rows(y + i, _mm_mul_ps(sum, _mm_set1_ps(scale)), n_rows - i);
    }
}

void cr_matvec_f32__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x)
{
    dot_rows(y, w, row_bytes, n_rows, x->f, x->n, 1.0f, 4, load_f32, x->prefetch);
}

void cr_matvec_f16__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x)
{
    dot_rows(y, w, row_bytes, n_rows, x->f, x->n, 1.0f, 2, load_f16, x->prefetch);
}

void cr_matvec_bf16__avx2(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x)
{
    dot_rows(y, w, row_bytes, n_rows, x->f, x->n, 1.0f, 2, load_bf16, x->prefetch);
}

void cr_dot_keys_f32__avx2(float *s, const float *q, const void *keys, float scale, size_t n,
                           size_t n_keys)
{
    dot_rows(s, keys, 4 * n, n_keys, q, n, scale, 4, load_f32, KEYS_DISTANCE);
}

void cr_dot_keys_f16__avx2(float *s, const float *q, const void *keys, float scale, size_t n,
                           size_t n_keys)
{
    dot_rows(s, keys, 2 * n, n_keys, q, n, scale, 2, load_f16, KEYS_DISTANCE);
}

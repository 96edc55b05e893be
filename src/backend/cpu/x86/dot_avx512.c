/* Rows of floats times a vector: matrix kernels of F32, F16 and BF16, and attention scores, which
 * are the same thing with keys for rows. Chains run over single elements, a lane each; four rows
 * at a time hide the latency of the FMA. */
#include "backend/cpu/x86/avx512.h"

/* Sixteen elements from p; lanes that are off are not read. */
typedef __m512 load_floats(const uint8_t *p, __mmask16 lanes);

CR_INLINE __m512 load_f32(const uint8_t *p, __mmask16 lanes)
{
    return _mm512_maskz_loadu_ps(lanes, p);
}

CR_INLINE __m512 load_f16(const uint8_t *p, __mmask16 lanes)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, p));
}

CR_INLINE __m512 load_bf16(const uint8_t *p, __mmask16 lanes)
{
    const __m512i words = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}

/* y[i] = scale * dot(row i, f) */
CR_INLINE void dot_rows(float *y, const void *w, size_t row_bytes, size_t n_rows, const float *f,
                        size_t n, float scale, size_t size, load_floats *load, size_t distance)
{
    for (size_t i = 0; i < n_rows; i += 4) {
        const rows4 r = rows4_at(w, row_bytes, i, n_rows, distance);
        __m512 c0 = _mm512_setzero_ps(), c1 = c0, c2 = c0, c3 = c0;
        size_t j = 0;
        for (; j + 16 <= n; j += 16) {
            const __m512 x = _mm512_loadu_ps(f + j);
            prefetch_rows(&r, size * j, 16 * size);
            c0 = _mm512_fmadd_ps(load(r.p[0] + size * j, 0xffff), x, c0);
            c1 = _mm512_fmadd_ps(load(r.p[1] + size * j, 0xffff), x, c1);
            c2 = _mm512_fmadd_ps(load(r.p[2] + size * j, 0xffff), x, c2);
            c3 = _mm512_fmadd_ps(load(r.p[3] + size * j, 0xffff), x, c3);
        }
        if (j < n) {
            const __mmask16 lanes = first_lanes(n - j);
            const __m512 x = _mm512_maskz_loadu_ps(lanes, f + j);
            c0 = _mm512_mask3_fmadd_ps(load(r.p[0] + size * j, lanes), x, c0, lanes);
            c1 = _mm512_mask3_fmadd_ps(load(r.p[1] + size * j, lanes), x, c1, lanes);
            c2 = _mm512_mask3_fmadd_ps(load(r.p[2] + size * j, lanes), x, c2, lanes);
            c3 = _mm512_mask3_fmadd_ps(load(r.p[3] + size * j, lanes), x, c3, lanes);
        }
        store_rows(y + i, _mm512_mul_ps(merge_rows(c0, c1, c2, c3), _mm512_set1_ps(scale)),
                   n_rows - i);
    }
}

void cr_matvec_f32__avx512(float *y, const void *w, size_t row_bytes, size_t n_rows,
                           const cr_act *x)
{
    dot_rows(y, w, row_bytes, n_rows, x->f, x->n, 1.0f, 4, load_f32, x->prefetch);
}

void cr_matvec_f16__avx512(float *y, const void *w, size_t row_bytes, size_t n_rows,
                           const cr_act *x)
{
    dot_rows(y, w, row_bytes, n_rows, x->f, x->n, 1.0f, 2, load_f16, x->prefetch);
}

void cr_matvec_bf16__avx512(float *y, const void *w, size_t row_bytes, size_t n_rows,
                            const cr_act *x)
{
    dot_rows(y, w, row_bytes, n_rows, x->f, x->n, 1.0f, 2, load_bf16, x->prefetch);
}

void cr_dot_keys_f32__avx512(float *s, const float *q, const void *keys, float scale, size_t n,
                             size_t n_keys)
{
    dot_rows(s, keys, 4 * n, n_keys, q, n, scale, 4, load_f32, KEYS_DISTANCE);
}

void cr_dot_keys_f16__avx512(float *s, const float *q, const void *keys, float scale, size_t n,
                             size_t n_keys)
{
    dot_rows(s, keys, 2 * n, n_keys, q, n, scale, 2, load_f16, KEYS_DISTANCE);
}

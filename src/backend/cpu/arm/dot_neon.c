/* Rows of floats times a vector: matrix kernels of F32, F16 and BF16, and attention scores, which are
 * the same thing with keys for rows. Chains run over single elements, in order over four vectors a
 * row. */
#include "backend/cpu/arm/neon.h"

typedef float32x4_t load_floats(const uint8_t *row, size_t i);

CR_INLINE float32x4_t load_f32(const uint8_t *row, size_t i)
{
    return vreinterpretq_f32_u8(vld1q_u8(row + 4 * i));
}

/* Adds sixteen products, one to each chain. */
CR_INLINE void add_16(float32x4_t chain[VECTORS], const uint8_t *p, const float *f,
                      load_floats *load)
{
    CR_UNROLL
    for (size_t i = 0; i < VECTORS; i++)
        chain[i] = vfmaq_f32(chain[i], load(p, LANES * i), vld1q_f32(f + LANES * i));
}

/* The last n < 16 elements: copied in front of zeros, and only their chains changed. */
CR_INLINE void add_rest(float32x4_t chain[VECTORS], const uint8_t *p, const float *f, size_t n,
                        size_t size, load_floats *load)
{
    uint8_t w[64] = { 0 };
    float x[16] = { 0 };
    memcpy(w, p, n * size);
    memcpy(x, f, n * sizeof *x);
    CR_UNROLL
    for (size_t i = 0; i < VECTORS; i++) {
        const size_t at = LANES * i;
        const float32x4_t sum = vfmaq_f32(chain[i], load(w, at), vld1q_f32(x + at));
        chain[i] = vbslq_f32(first_lanes(n > at ? n - at : 0), sum, chain[i]);
    }
}

/* y[i] = scale * dot(row i, f). Two rows are eight FMAs that do not wait for each other. */
CR_INLINE void dot_rows(float *y, const void *w, size_t row_bytes, size_t n_rows, const float *f,
                        size_t n, float scale, size_t size, load_floats *load)
{
    const uint8_t *p = w;
    for (size_t i = 0; i < n_rows; i += 2, p += 2 * row_bytes) {
        const uint8_t *next = i + 1 < n_rows ? p + row_bytes : p;
        float32x4_t a[VECTORS], b[VECTORS];
        chains_clear(a);
        chains_clear(b);
        size_t j = 0;
        for (; j + 16 <= n; j += 16) {
            add_16(a, p + size * j, f + j, load);
            add_16(b, next + size * j, f + j, load);
        }
        if (j < n) {
            add_rest(a, p + size * j, f + j, n - j, size, load);
            add_rest(b, next + size * j, f + j, n - j, size, load);
        }
        y[i] = scale * merge_chains(a);
        if (i + 1 < n_rows)
            y[i + 1] = scale * merge_chains(b);
    }
}

#define MATVEC(name, size)                                                                         \
    void cr_matvec_##name##__neon(float *y, const void *w, size_t row_bytes, size_t n_rows,        \
                                  const cr_act *x)                                                 \
    {                                                                                              \
        dot_rows(y, w, row_bytes, n_rows, x->f, x->n, 1.0f, size, load_##name);                    \
    }
MATVEC(f32, 4)
MATVEC(f16, 2)
MATVEC(bf16, 2)
#undef MATVEC

#define DOT_KEYS(name, size)                                                                       \
    void cr_dot_keys_##name##__neon(float *s, const float *q, const void *keys, float scale,       \
                                    size_t n, size_t n_keys)                                       \
    {                                                                                              \
        dot_rows(s, keys, size *n, n_keys, q, n, scale, size, load_##name);                        \
    }
DOT_KEYS(f32, 4)
DOT_KEYS(f16, 2)

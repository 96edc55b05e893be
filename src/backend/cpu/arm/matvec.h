/* Matrix times vector for the types that multiply with int8 activations, whatever multiplies
 * sixteen bytes: the files of the levels differ by that alone.
 *
 * A quad of one row gives four block sums, which one FMA adds to the chains of its quad:
 *
 *     quad 0 -> chains 0 to 3,  quad 1 -> 4 to 7,  2 -> 8 to 11,  3 -> 12 to 15,  4 -> 0 to 3, ...
 *
 * Up to four rows pass over a quad of activations while it is in registers. */
#ifndef CR_MATVEC_H
#define CR_MATVEC_H

#include "backend/cpu/arm/quad.h"

/* ---- products of bytes ---- */

/* Adds the products of sixteen weights and activations, in any of the lanes. */
CR_INLINE int32x4_t dot16(int32x4_t sum, int8x16_t w, int8x16_t q)
{
#ifdef __ARM_FEATURE_DOTPROD
    return vdotq_s32(sum, w, q);
#else
    /* No overflow: a lane has two products of at most 128 * 127. */
    const int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(q));
    return vpadalq_s16(sum, vmlal_s8(low, vget_high_s8(w), vget_high_s8(q)));
#endif
}

/* Lane k is the sum of the lanes of sum k. */
CR_INLINE int32x4_t reduce4(const int32x4_t s[4])
{
    return vpaddq_s32(vpaddq_s32(s[0], s[1]), vpaddq_s32(s[2], s[3]));
}

/* ---- a quad's activations ---- */

typedef struct quad_act {
    int8x16_t q[2][4];
    float32x4_t d;
    int32x4_t sum[2]; /* of the halves */
} quad_act;

CR_INLINE quad_act quad_act_at(const cr_act *x, size_t number)
{
    quad_act a;
    CR_UNROLL
    for (size_t k = 0; k < 4; k++) {
        a.q[0][k] = vld1q_s8(x->q + 128 * number + 16 * k);
        a.q[1][k] = vld1q_s8(x->q + 128 * number + 64 + 16 * k);
    }
    a.d = vld1q_f32(x->d + 4 * number);
    split_words(a.sum, vld1q_s16(x->sum + 8 * number));
    return a;
}

/* Adds the quad's blocks to their chains. */
CR_INLINE float32x4_t quad_add(float32x4_t chain, const quad *w, const quad_act *x, quad_kind kind)
{
    int32x4_t first[4], second[4], sum;
    CR_UNROLL
    for (int k = 0; k < 4; k++)
        first[k] = dot16(vdupq_n_s32(0), w->w[0][k], x->q[0][k]);
    if (kind == QUAD_GROUPS || kind == QUAD_BOTH) {
        CR_UNROLL
        for (int k = 0; k < 4; k++)
            second[k] = dot16(vdupq_n_s32(0), w->w[1][k], x->q[1][k]);
        sum = vmlaq_s32(vmulq_s32(reduce4(first), w->scale[0]), reduce4(second), w->scale[1]);
    } else {
        CR_UNROLL
        for (int k = 0; k < 4; k++)
            first[k] = dot16(first[k], w->w[1][k], x->q[1][k]);
        sum = reduce4(first);
    }
    chain = vfmaq_f32(chain, vcvtq_f32_s32(sum), vmulq_f32(w->d, x->d));
    if (kind == QUAD_MINIMA) {
        const float32x4_t s = vcvtq_f32_s32(vaddq_s32(x->sum[0], x->sum[1]));
        chain = vfmaq_f32(chain, w->m, vmulq_f32(x->d, s));
    }
    if (kind == QUAD_BOTH) {
        const int32x4_t s =
            vmlaq_s32(vmulq_s32(w->minimum[0], x->sum[0]), w->minimum[1], x->sum[1]);
        chain = vfmsq_f32(chain, vcvtq_f32_s32(s), vmulq_f32(w->m, x->d));
    }
    return chain;
}

/* ---- rows ---- */

CR_INLINE void matvec(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x,
                      size_t unit_bytes, size_t unit_quads, quad_kind kind, quad_unpack *unpack)
{
    enum { ROWS = 4 };
    const size_t n_blocks = x->n / 32, n_quads = n_blocks / 4, rest = n_blocks % 4;
    for (size_t i = 0; i < n_rows; i += ROWS) {
        const uint8_t *row = (const uint8_t *)w + i * row_bytes;
        const size_t n = CR_MIN(n_rows - i, (size_t)ROWS);
        float32x4_t chain[ROWS][VECTORS];
        for (size_t r = 0; r < n; r++)
            chains_clear(chain[r]);
        for (size_t number = 0; number < n_quads; number++) {
            const quad_act act = quad_act_at(x, number);
            const size_t at = number / unit_quads * unit_bytes;
            for (size_t r = 0; r < n; r++) {
                float32x4_t *c = &chain[r][number % VECTORS];
                const quad four = unpack(row + r * row_bytes + at, number % unit_quads);
                *c = quad_add(*c, &four, &act, kind);
            }
        }
        if (rest > 0 && unit_quads == 1) {
            /* Less than four blocks of 32: zeros for the others, whose chains stay as they are. */
            const quad_act act = quad_act_at(x, n_quads);
            const size_t at = n_quads * unit_bytes;
            for (size_t r = 0; r < n; r++) {
                uint8_t copy[QUAD_MAX_BYTES] = { 0 };
                memcpy(copy, row + r * row_bytes + at, rest * (unit_bytes / 4));
                float32x4_t *c = &chain[r][n_quads % VECTORS];
                const quad four = unpack(copy, 0);
                *c = vbslq_f32(first_lanes(rest), quad_add(*c, &four, &act, kind), *c);
            }
        }
        for (size_t r = 0; r < n; r++)
            y[i + r] = merge_chains(chain[r]);
    }
}

#endif

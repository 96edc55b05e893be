/* Matrix times many columns, rows of a batch: PANEL_TYPES. The bits are those of matvec.
 *
 * SMMLA multiplies two rows by two columns, eight bytes of each. Sixteen rows become a panel once:
 * signed bytes, eight neighbours of a row beside those of the next row, and the scales as floats.
 * Then groups of columns pass over it. Four products are one block of two rows and two columns,
 * in lanes
 *
 *     row        0    0    1    1      of the pair
 *     column     0    1    0    1      of the pair
 *
 * and one FMA adds them to chain[b % 16] of these. */
#include "backend/cpu/arm/quad.h"

enum {
    ROW_PAIRS = CR_PANEL_ROWS / 2,
    COLUMN_PAIRS = 4,         /* of a group; its chains take 16 KiB */
    GROUP = 2 * COLUMN_PAIRS, /* columns */
};

/* One block of the rows. */
typedef struct panel_block {
    int8x16_t w[ROW_PAIRS][4]; /* [row][8], four times along the block */
    float d[CR_PANEL_ROWS];
    union {
        float m[CR_PANEL_ROWS];
        int16_t scale[CR_PANEL_ROWS][2]; /* of the halves */
    };
} panel_block;

/* chain[b % 16][pair of rows][pair of columns] */
typedef float32x4_t group_chains[CR_CHAINS][ROW_PAIRS][COLUMN_PAIRS];

_Static_assert(sizeof(panel_block) <= CR_PANEL_BLOCK_BYTES, "cr_panel_bytes");
_Static_assert(sizeof(group_chains) <= CR_PANEL_CHAIN_BYTES, "cr_panel_bytes");

/* Eight bytes of two vectors, side by side: the lower and the upper ones. */
CR_INLINE void zip_halves(int8x16_t to[2], int8x16_t a, int8x16_t b)
{
    const int64x2_t x = vreinterpretq_s64_s8(a), y = vreinterpretq_s64_s8(b);
    to[0] = vreinterpretq_s8_s64(vzip1q_s64(x, y));
    to[1] = vreinterpretq_s8_s64(vzip2q_s64(x, y));
}

/* ---- filling a panel ---- */

/* n <= 4 blocks of the rows 2 pair and 2 pair + 1. */
CR_INLINE void fill_pair(panel_block *to, size_t n, size_t pair, const quad row[2], quad_kind kind)
{
    for (size_t k = 0; k < n; k++) {
        zip_halves(to[k].w[pair], row[0].w[0][k], row[1].w[0][k]);
        zip_halves(to[k].w[pair] + 2, row[0].w[1][k], row[1].w[1][k]);
    }
    for (size_t r = 0; r < 2; r++) {
        const size_t at = 2 * pair + r;
        float d[4], m[4];
        vst1q_f32(d, row[r].d);
        for (size_t k = 0; k < n; k++)
            to[k].d[at] = d[k];
        if (kind == QUAD_MINIMA) {
            vst1q_f32(m, row[r].m);
            for (size_t k = 0; k < n; k++)
                to[k].m[at] = m[k];
        }
        if (kind == QUAD_GROUPS) {
            int16_t scale[2][4];
            vst1_s16(scale[0], vmovn_s32(row[r].scale[0]));
            vst1_s16(scale[1], vmovn_s32(row[r].scale[1]));
            for (size_t k = 0; k < n; k++) {
                to[k].scale[at][0] = scale[0][k];
                to[k].scale[at][1] = scale[1][k];
            }
        }
    }
}

/* Rows at p, of which the first n exist; in place of the others, the last one again. */
CR_INLINE void fill(panel_block *panel, const uint8_t *p, size_t row_bytes, size_t n,
                    size_t n_blocks, size_t unit_bytes, size_t unit_quads, quad_kind kind,
                    quad_unpack *unpack)
{
    for (size_t pair = 0; pair < ROW_PAIRS; pair++) {
        const uint8_t *row[2] = { p + CR_MIN(2 * pair, n - 1) * row_bytes,
                                  p + CR_MIN(2 * pair + 1, n - 1) * row_bytes };
        for (size_t b = 0; b < n_blocks; b += 4) {
            const size_t number = b / 4, at = number / unit_quads * unit_bytes;
            const size_t some = CR_MIN(n_blocks - b, (size_t)4);
            quad four[2];
            for (size_t r = 0; r < 2; r++) {
                if (some == 4 || unit_quads == 2) {
                    four[r] = unpack(row[r] + at, number % unit_quads);
                } else {
                    uint8_t copy[QUAD_MAX_BYTES] = { 0 };
                    memcpy(copy, row[r] + at, some * (unit_bytes / 4));
                    four[r] = unpack(copy, 0);
                }
            }
            fill_pair(panel + b, some, pair, four, kind);
        }
    }
}

/* ---- a panel times a group of columns ---- */

/* One block of two columns. */
typedef struct column_pair {
    int8x16_t q[4];
    float32x4_t d, d_sum; /* d and d * sum, [0 1 0 1] */
} column_pair;

CR_INLINE column_pair column_pair_at(const cr_act *x0, const cr_act *x1, size_t b)
{
    const size_t at = cr_act_index(32 * b);
    column_pair c;
    zip_halves(c.q, vld1q_s8(x0->q + at), vld1q_s8(x1->q + at));
    zip_halves(c.q + 2, vld1q_s8(x0->q + at + 64), vld1q_s8(x1->q + at + 64));
    const float d[2] = { x0->d[b], x1->d[b] };
    const float d_sum[2] = { d[0] * (float)(x0->sum[2 * b] + x0->sum[2 * b + 1]),
                             d[1] * (float)(x1->sum[2 * b] + x1->sum[2 * b + 1]) };
    c.d = vcombine_f32(vld1_f32(d), vld1_f32(d));
    c.d_sum = vcombine_f32(vld1_f32(d_sum), vld1_f32(d_sum));
    return c;
}

/* p[0] for the lanes of the first row, p[1] for those of the second. */
CR_INLINE float32x4_t row_lanes(const float *p)
{
    return vcombine_f32(vdup_n_f32(p[0]), vdup_n_f32(p[1]));
}

CR_INLINE int32x4_t scale_lanes(const int16_t scale[2][2], int half)
{
    return vcombine_s32(vdup_n_s32(scale[0][half]), vdup_n_s32(scale[1][half]));
}

/* Adds one block of two rows and two columns. */
CR_INLINE float32x4_t add_block(float32x4_t chain, const panel_block *block, size_t pair,
                                const column_pair *x, quad_kind kind)
{
    const int8x16_t *w = block->w[pair];
    int32x4_t sum = vmmlaq_s32(vmmlaq_s32(vdupq_n_s32(0), w[0], x->q[0]), w[1], x->q[1]);
    if (kind == QUAD_GROUPS) {
        const int32x4_t second =
            vmmlaq_s32(vmmlaq_s32(vdupq_n_s32(0), w[2], x->q[2]), w[3], x->q[3]);
        sum = vmlaq_s32(vmulq_s32(sum, scale_lanes(block->scale + 2 * pair, 0)), second,
                        scale_lanes(block->scale + 2 * pair, 1));
    } else {
        sum = vmmlaq_s32(vmmlaq_s32(sum, w[2], x->q[2]), w[3], x->q[3]);
    }
    const float32x4_t d = vmulq_f32(row_lanes(block->d + 2 * pair), x->d);
    chain = vfmaq_f32(chain, vcvtq_f32_s32(sum), d);
    if (kind == QUAD_MINIMA)
        chain = vfmaq_f32(chain, row_lanes(block->m + 2 * pair), x->d_sum);
    return chain;
}

/* y[c * y_stride + r] for n_x <= GROUP columns and n_rows <= CR_PANEL_ROWS rows of the panel. */
CR_INLINE void multiply(float *y, size_t y_stride, size_t n_rows, const panel_block *panel,
                        const cr_act *x, size_t n_x, group_chains chains, quad_kind kind)
{
    const size_t n_blocks = x->n / 32, n_pairs = (n_x + 1) / 2;
    for (size_t i = 0; i < CR_CHAINS; i++)
        for (size_t pair = 0; pair < ROW_PAIRS; pair++)
            for (size_t c = 0; c < n_pairs; c++)
                chains[i][pair][c] = vdupq_n_f32(0.0f);

    for (size_t b = 0; b < n_blocks; b++)
        for (size_t c = 0; c < n_pairs; c++) {
            const column_pair two = column_pair_at(&x[2 * c], &x[CR_MIN(2 * c + 1, n_x - 1)], b);
            for (size_t pair = 0; pair < ROW_PAIRS; pair++) {
                float32x4_t *chain = &chains[b % CR_CHAINS][pair][c];
                *chain = add_block(*chain, &panel[b], pair, &two, kind);
            }
        }

    for (size_t half = CR_CHAINS / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            for (size_t pair = 0; pair < ROW_PAIRS; pair++)
                for (size_t c = 0; c < n_pairs; c++)
                    chains[i][pair][c] = vaddq_f32(chains[i][pair][c], chains[i + half][pair][c]);
    for (size_t c = 0; c < n_x; c++)
        for (size_t r = 0; r < n_rows; r++) {
            float sum[4];
            vst1q_f32(sum, chains[0][r / 2][c / 2]);
            y[c * y_stride + r] = sum[r % 2 * 2 + c % 2];
        }
}

CR_INLINE void matmul(float *y, size_t y_stride, const void *w, size_t row_bytes, size_t n_rows,
                      const cr_act *x, size_t n_x, void *scratch, size_t unit_bytes,
                      size_t unit_quads, quad_kind kind, quad_unpack *unpack)
{
    float32x4_t(*chains)[ROW_PAIRS][COLUMN_PAIRS] = scratch;
    panel_block *panel = (panel_block *)(void *)(chains + CR_CHAINS);
    for (size_t i = 0; i < n_rows; i += CR_PANEL_ROWS) {
        const size_t n = CR_MIN(n_rows - i, (size_t)CR_PANEL_ROWS);
        fill(panel, (const uint8_t *)w + i * row_bytes, row_bytes, n, x->n / 32, unit_bytes,
             unit_quads, kind, unpack);
        for (size_t c = 0; c < n_x; c += GROUP)
            multiply(y + c * y_stride + i, y_stride, n, panel, x + c,
                     CR_MIN(n_x - c, (size_t)GROUP), chains, kind);
    }
}

/* ---- the kernels ---- */

#define MATMUL(name, unit_bytes, unit_quads, kind)                                                 \
    void cr_matmul_##name##__i8mm(float *y, size_t y_stride, const void *w, size_t row_bytes,      \
                                  size_t n_rows, const cr_act *x, size_t n_x, void *scratch)       \
    {                                                                                              \
        matmul(y, y_stride, w, row_bytes, n_rows, x, n_x, scratch, unit_bytes, unit_quads, kind,   \
               unpack_##name);                                                                     \
    }
PANEL_TYPES(MATMUL)

/* Matrix times vector, as defined: one row at a time, one block at a time.
 *
 * Each type has one function that goes through a row, and these are the sums to read when a kernel
 * of another tier disagrees. docs/numerics.md has the formulas, tensor/ the block layouts. */
#include "backend/cpu/scalar/scalar.h"

static float half_at(const uint8_t *p)
{
    return cr_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

static int8_t signed_byte(uint8_t byte)
{
    return (int8_t)(byte < 128 ? byte : byte - 256);
}

/* The quants of block b: half h, element i. */
static int act_q(const cr_act *x, size_t b, int h, int i)
{
    return x->q[cr_act_index(32 * b + 16 * (size_t)h + (size_t)i)];
}

static int act_sum(const cr_act *x, size_t b)
{
    return x->sum[2 * b] + x->sum[2 * b + 1];
}

typedef float row_dot(const uint8_t *row, const cr_act *x);

static void matvec(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x,
                   row_dot *dot)
{
    for (size_t r = 0; r < n_rows; r++)
        y[r] = dot((const uint8_t *)w + r * row_bytes, x);
}

/* ---- float types: chains over single weights ---- */

static float row_f32(const uint8_t *row, const cr_act *x)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t i = 0; i < x->n; i++) {
        float w;
        memcpy(&w, row + 4 * i, sizeof w);
        chain[i % CR_CHAINS] = fmaf(w, x->f[i], chain[i % CR_CHAINS]);
    }
    return merge_chains(chain);
}

static float row_f16(const uint8_t *row, const cr_act *x)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t i = 0; i < x->n; i++)
        chain[i % CR_CHAINS] = fmaf(half_at(row + 2 * i), x->f[i], chain[i % CR_CHAINS]);
    return merge_chains(chain);
}

static float row_bf16(const uint8_t *row, const cr_act *x)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t i = 0; i < x->n; i++) {
        const uint8_t *p = row + 2 * i;
        const float w = cr_bf16_to_f32((uint16_t)(p[0] | p[1] << 8));
        chain[i % CR_CHAINS] = fmaf(w, x->f[i], chain[i % CR_CHAINS]);
    }
    return merge_chains(chain);
}

/* ---- types whose weights become floats first, block by block ---- */

static float row_decoded(const uint8_t *row, const cr_act *x, cr_type type)
{
    const cr_type_info *info = cr_type_get(type);
    const size_t n_weights = (size_t)info->weights;
    float chain[CR_CHAINS] = { 0 }, w[256];
    for (size_t i = 0; i < x->n; i += n_weights, row += info->block_bytes) {
        info->dequantize(row, w, n_weights);
        for (size_t j = 0; j < n_weights; j++)
            chain[j % CR_CHAINS] = fmaf(w[j], x->f[i + j], chain[j % CR_CHAINS]);
    }
    return merge_chains(chain);
}

#define ROW_DECODED(name, type)                                                                    \
    static float row_##name(const uint8_t *row, const cr_act *x)                                   \
    {                                                                                              \
        return row_decoded(row, x, CR_TYPE_##type);                                                \
    }
ROW_DECODED(iq2_xxs, IQ2_XXS)
ROW_DECODED(iq2_xs, IQ2_XS)
ROW_DECODED(iq2_s, IQ2_S)
ROW_DECODED(iq3_xxs, IQ3_XXS)
ROW_DECODED(iq3_s, IQ3_S)
ROW_DECODED(iq1_s, IQ1_S)
ROW_DECODED(iq1_m, IQ1_M)
ROW_DECODED(tq1_0, TQ1_0)
ROW_DECODED(tq2_0, TQ2_0)
ROW_DECODED(mxfp4, MXFP4)

/* ---- quantised types: chains over blocks of 32 ---- */

/* Sum of the nibbles of 16 bytes times the quants of block b: low ones first half, high ones
 * second half. */
static int dot_nibbles(const uint8_t *nibbles, const cr_act *x, size_t b)
{
    int sum = 0;
    for (int i = 0; i < 16; i++)
        sum += (nibbles[i] & 15) * act_q(x, b, 0, i) + (nibbles[i] >> 4) * act_q(x, b, 1, i);
    return sum;
}

static float row_q4_0(const uint8_t *row, const cr_act *x)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t b = 0; b < x->n / 32; b++, row += 18) {
        float *c = &chain[b % CR_CHAINS];
        const int sum = dot_nibbles(row + 2, x, b) - 8 * act_sum(x, b);
        *c = fmaf((float)sum, half_at(row) * x->d[b], *c);
    }
    return merge_chains(chain);
}

static float row_q4_1(const uint8_t *row, const cr_act *x)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t b = 0; b < x->n / 32; b++, row += 20) {
        float *c = &chain[b % CR_CHAINS];
        *c = fmaf((float)dot_nibbles(row + 4, x, b), half_at(row) * x->d[b], *c);
        *c = fmaf(half_at(row + 2), x->d[b] * (float)act_sum(x, b), *c);
    }
    return merge_chains(chain);
}

/* The same with a fifth bit each: bit i of the first two bytes at `top` for low nibbles, of the
 * next two for high ones. */
static int dot_fives(const uint8_t *nibbles, const uint8_t *top, const cr_act *x, size_t b)
{
    int sum = dot_nibbles(nibbles, x, b);
    for (int i = 0; i < 32; i++)
        sum += (top[i / 8] >> i % 8 & 1) * 16 * act_q(x, b, i / 16, i % 16);
    return sum;
}

static float row_q5_0(const uint8_t *row, const cr_act *x)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t b = 0; b < x->n / 32; b++, row += 22) {
        float *c = &chain[b % CR_CHAINS];
        const int sum = dot_fives(row + 6, row + 2, x, b) - 16 * act_sum(x, b);
        *c = fmaf((float)sum, half_at(row) * x->d[b], *c);
    }
    return merge_chains(chain);
}

static float row_q5_1(const uint8_t *row, const cr_act *x)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t b = 0; b < x->n / 32; b++, row += 24) {
        float *c = &chain[b % CR_CHAINS];
        *c = fmaf((float)dot_fives(row + 8, row + 4, x, b), half_at(row) * x->d[b], *c);
        *c = fmaf(half_at(row + 2), x->d[b] * (float)act_sum(x, b), *c);
    }
    return merge_chains(chain);
}

/* Sum of the levels of 16 bytes' nibbles times the quants of block b. */
static int dot_levels(const uint8_t *nibbles, const cr_act *x, size_t b)
{
    int sum = 0;
    for (int i = 0; i < 16; i++)
        sum += cr_iq4_levels[nibbles[i] & 15] * act_q(x, b, 0, i) +
               cr_iq4_levels[nibbles[i] >> 4] * act_q(x, b, 1, i);
    return sum;
}

static float row_iq4_nl(const uint8_t *row, const cr_act *x)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t b = 0; b < x->n / 32; b++, row += 18) {
        float *c = &chain[b % CR_CHAINS];
        *c = fmaf((float)dot_levels(row + 2, x, b), half_at(row) * x->d[b], *c);
    }
    return merge_chains(chain);
}

static float row_iq4_xs(const uint8_t *row, const cr_act *x)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t b = 0; b < x->n / 32; b++) {
        const uint8_t *super = row + b / 8 * 136;
        const size_t k = b % 8;
        const int high = super[2] | super[3] << 8, low = super[4 + k / 2] >> k % 2 * 4 & 15;
        const int scale = (low | (high >> 2 * k & 3) << 4) - 32;
        float *c = &chain[b % CR_CHAINS];
        /* The first product is exact: 11 bits times 6. */
        *c = fmaf((float)dot_levels(super + 8 + 16 * k, x, b),
                  half_at(super) * (float)scale * x->d[b], *c);
    }
    return merge_chains(chain);
}

static float row_q8_0(const uint8_t *row, const cr_act *x)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t b = 0; b < x->n / 32; b++, row += 34) {
        float *c = &chain[b % CR_CHAINS];
        int sum = 0;
        for (int i = 0; i < 32; i++)
            sum += signed_byte(row[2 + i]) * act_q(x, b, i / 16, i % 16);
        *c = fmaf((float)sum, half_at(row) * x->d[b], *c);
    }
    return merge_chains(chain);
}

/* The 6-bit scale and minimum of sub-block j: twelve bytes hold eight of each. */
static void k_scale(const uint8_t *s, size_t j, int *scale, int *minimum)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *minimum = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *minimum = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
    }
}

static float row_q4_k(const uint8_t *row, const cr_act *x)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t b = 0; b < x->n / 32; b++) {
        const uint8_t *super = row + b / 8 * 144;
        const uint8_t *nibbles = super + 16 + b % 8 / 2 * 32;
        const int shift = b % 2 == 0 ? 0 : 4;
        float *c = &chain[b % CR_CHAINS];
        int scale, minimum, sum = 0;
        k_scale(super + 4, b % 8, &scale, &minimum);
        for (int i = 0; i < 32; i++)
            sum += (nibbles[i] >> shift & 15) * act_q(x, b, i / 16, i % 16);
        /* Both products are exact: 11 bits times 6. */
        const float d = half_at(super) * (float)scale;
        const float m = half_at(super + 2) * (float)minimum;
        *c = fmaf((float)sum, d * x->d[b], *c);
        *c = fmaf(-m, x->d[b] * (float)act_sum(x, b), *c);
    }
    return merge_chains(chain);
}

static float row_q5_k(const uint8_t *row, const cr_act *x)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t b = 0; b < x->n / 32; b++) {
        const uint8_t *super = row + b / 8 * 176, *top = super + 16;
        const uint8_t *nibbles = super + 48 + b % 8 / 2 * 32;
        const int shift = b % 2 == 0 ? 0 : 4;
        float *c = &chain[b % CR_CHAINS];
        int scale, minimum, sum = 0;
        k_scale(super + 4, b % 8, &scale, &minimum);
        for (int i = 0; i < 32; i++) {
            const int u = (nibbles[i] >> shift & 15) | (top[i] >> b % 8 & 1) << 4;
            sum += u * act_q(x, b, i / 16, i % 16);
        }
        const float d = half_at(super) * (float)scale;
        const float m = half_at(super + 2) * (float)minimum;
        *c = fmaf((float)sum, d * x->d[b], *c);
        *c = fmaf(-m, x->d[b] * (float)act_sum(x, b), *c);
    }
    return merge_chains(chain);
}

/* In Q2_K and Q3_K a block of 32 is two groups, and a row of a run: two bits of 32 bytes. */

static float row_q2_k(const uint8_t *row, const cr_act *x)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t b = 0; b < x->n / 32; b++) {
        const uint8_t *super = row + b / 8 * 84, *scale = super + b % 8 * 2;
        const uint8_t *q = super + 16 + b % 8 / 4 * 32;
        float *c = &chain[b % CR_CHAINS];
        int sum[2] = { 0, 0 };
        for (int i = 0; i < 32; i++)
            sum[i / 16] += (q[i] >> b % 4 * 2 & 3) * act_q(x, b, i / 16, i % 16);
        const int scaled = (scale[0] & 15) * sum[0] + (scale[1] & 15) * sum[1];
        const int minima = (scale[0] >> 4) * x->sum[2 * b] + (scale[1] >> 4) * x->sum[2 * b + 1];
        *c = fmaf((float)scaled, half_at(super + 80) * x->d[b], *c);
        *c = fmaf(-(float)minima, half_at(super + 82) * x->d[b], *c);
    }
    return merge_chains(chain);
}

/* The 6-bit scale of group g, less 32: twelve bytes hold sixteen. */
static int q3_k_scale(const uint8_t *s, size_t g)
{
    return ((s[g % 8] >> g / 8 * 4 & 15) | (s[8 + g % 4] >> g / 4 * 2 & 3) << 4) - 32;
}

static float row_q3_k(const uint8_t *row, const cr_act *x)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t b = 0; b < x->n / 32; b++) {
        const uint8_t *super = row + b / 8 * 110;
        const uint8_t *q = super + 32 + b % 8 / 4 * 32;
        const size_t group = b % 8 * 2;
        float *c = &chain[b % CR_CHAINS];
        int sum[2] = { 0, 0 };
        for (int i = 0; i < 32; i++) {
            const int u = (q[i] >> b % 4 * 2 & 3) | (super[i] >> b % 8 & 1) << 2;
            sum[i / 16] += (u - 4) * act_q(x, b, i / 16, i % 16);
        }
        const int scaled =
            q3_k_scale(super + 96, group) * sum[0] + q3_k_scale(super + 96, group + 1) * sum[1];
        *c = fmaf((float)scaled, half_at(super + 108) * x->d[b], *c);
    }
    return merge_chains(chain);
}

static float row_q6_k(const uint8_t *row, const cr_act *x)
{
    float chain[CR_CHAINS] = { 0 };
    for (size_t b = 0; b < x->n / 32; b++) {
        const uint8_t *super = row + b / 8 * 210;
        const size_t half = b % 8 / 4, quarter = b % 4; /* a quarter is a block */
        const uint8_t *low = super + 64 * half + 32 * (quarter % 2);
        const uint8_t *high = super + 128 + 32 * half;
        const uint8_t *scale = super + 192 + 8 * half + 2 * quarter;
        float *c = &chain[b % CR_CHAINS];
        int sum[2] = { 0, 0 };
        for (int i = 0; i < 32; i++) {
            const int u = (low[i] >> (quarter < 2 ? 0 : 4) & 15) | (high[i] >> (2 * quarter) & 3)
                                                                       << 4;
            sum[i / 16] += (u - 32) * act_q(x, b, i / 16, i % 16);
        }
        /* Below 2 * 128 * 16 * 32 * 127 < 2^24 in size: exact as a float too. */
        const int scaled = signed_byte(scale[0]) * sum[0] + signed_byte(scale[1]) * sum[1];
        *c = fmaf((float)scaled, half_at(super + 208) * x->d[b], *c);
    }
    return merge_chains(chain);
}

/* ---- the kernels ---- */

#define MATVEC(type)                                                                               \
    void cr_matvec_##type##__scalar(float *y, const void *w, size_t row_bytes, size_t n_rows,      \
                                    const cr_act *x)                                               \
    {                                                                                              \
        matvec(y, w, row_bytes, n_rows, x, row_##type);                                            \
    }
MATVEC(f32)
MATVEC(f16)
MATVEC(bf16)
MATVEC(q4_0)
MATVEC(q4_1)
MATVEC(q5_0)
MATVEC(q5_1)
MATVEC(q8_0)
MATVEC(iq4_nl)
MATVEC(q2_k)
MATVEC(q3_k)
MATVEC(q4_k)
MATVEC(q5_k)
MATVEC(q6_k)
MATVEC(iq4_xs)
MATVEC(iq2_xxs)
MATVEC(iq2_xs)
MATVEC(iq2_s)
MATVEC(iq3_xxs)
MATVEC(iq3_s)
MATVEC(iq1_s)
MATVEC(iq1_m)
MATVEC(tq1_0)
MATVEC(tq2_0)
MATVEC(mxfp4)

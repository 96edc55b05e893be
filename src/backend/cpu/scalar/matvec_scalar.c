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
MATVEC(q8_0)
MATVEC(q4_k)
MATVEC(q6_k)

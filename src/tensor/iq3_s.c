/* IQ3_S: 256 weights in 8 groups of 32: per four weights an index of 9 bits into a grid, a sign
 * each; per group a scale of 4 bits. 3.4375 bits a weight.
 *
 *     byte   0       2              66          74            106            110
 *            | d f16 | index[0..63] | high[0..7]| signs[0..31]| scales[0..3] |
 *
 *     high[k], bit j: bit 8 of index 8k + j
 *     scales[k]:  | group 2k + 1 | group 2k |
 *                   bits 7..4      bits 3..0
 *
 *     x = (d * (1 + 2 scale)) * grid[index][element], or minus that */
#include "tensor/codebook.h"
#include "tensor/fit.h"

enum { WEIGHTS = 256, BYTES = 110 };

void cr_dequantize_IQ3_S(const void *src, float *dst, size_t n)
{
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float d = cr_f16_to_f32(cr_load_u16(block));
        for (size_t k = 0; k < WEIGHTS / 4; k++) {
            int index = block[2 + k] | (block[66 + k / 8] >> k % 8 & 1) << 8;
            int signs = block[74 + k / 2] >> k % 2 * 4;
            int scale = block[106 + k / 16] >> k / 8 % 2 * 4 & 15;
            float step = d * (float)(1 + 2 * scale);
            const float steps[2] = { step, -step };
            for (size_t j = 0; j < 4; j++) {
                int level = cr_grid_iq3_s[index] >> 3 * j & 7;
                dst[i + 4 * k + j] = steps[signs >> j & 1] * (float)(1 + 2 * level);
            }
        }
    }
}

/* ---- quantising ------------------------------------------------------------------------------
 *
 * The grid has 512 of the 4,096 points of its lattice, 8 levels for each of four weights. A table
 * of an entry near each point makes trying a scale cheap; the entries that are stored are then
 * searched for among all. */

enum { LATTICE = 4096, GROUP = 32, ENTRIES = 512, QUADS = WEIGHTS / 4 };

/* near[p]: the entry that a walk over neighbouring points, begun at all entries at once, reaches p
 * from first. */
static void spread_entries(uint16_t near[LATTICE])
{
    uint16_t queue[LATTICE];
    size_t head = 0, tail = 0;
    memset(near, 0xff, LATTICE * sizeof near[0]);
    for (size_t i = 0; i < ENTRIES; i++) {
        queue[tail++] = cr_grid_iq3_s[i];
        near[cr_grid_iq3_s[i]] = (uint16_t)i;
    }
    while (head < tail) {
        unsigned p = queue[head++];
        for (unsigned j = 0; j < 4; j++) {
            unsigned level = p >> 3 * j & 7;
            for (int move = -1; move <= 1; move += 2) {
                if (level == (move < 0 ? 0 : 7))
                    continue;
                unsigned next = move < 0 ? p - (1u << 3 * j) : p + (1u << 3 * j);
                if (near[next] == UINT16_MAX) {
                    near[next] = near[p];
                    queue[tail++] = (uint16_t)next;
                }
            }
        }
    }
}

/* The magnitudes of an entry. */
static void entry_levels(size_t index, float g[4])
{
    for (int j = 0; j < 4; j++)
        g[j] = (float)(1 + 2 * (cr_grid_iq3_s[index] >> 3 * j & 7));
}

static size_t near_entry(const uint16_t near[LATTICE], const float x[4], float inverse)
{
    unsigned point = 0;
    for (int j = 0; j < 4; j++) {
        float level = fminf(x[j] * inverse * 0.5f, 7.5f); /* (y - 1) / 2, and a half for rounding */
        point |= (unsigned)level << 3 * j;
    }
    return near[point];
}

/* x . g and g . g of a group at this step. */
static void correlate(const uint16_t near[LATTICE], const float *x, float step, float *xg,
                      float *gg)
{
    float inverse = cr_fit_inverse(step);
    *xg = *gg = 0;
    for (size_t k = 0; k < GROUP; k += 4) {
        float g[4];
        entry_levels(near_entry(near, x + k, inverse), g);
        for (int j = 0; j < 4; j++) {
            *xg += x[k + (size_t)j] * g[j];
            *gg += g[j] * g[j];
        }
    }
}

/* Starts that put the largest weight at a low level are for groups that hardly vary. */
static float fit_group(const uint16_t near[LATTICE], const float *x)
{
    enum { N_LOW = 4, N_STARTS = N_LOW + 17 };
    float extreme = cr_fit_extreme(x, GROUP), best = 0, step = 0;
    for (int k = 0; k < N_STARTS; k++) {
        float level = k < N_LOW ? (float)(1 + 2 * k) : 8 + 0.75f * (float)(k - N_LOW);
        float xg, gg;
        correlate(near, x, extreme / level, &xg, &gg);
        if (xg * xg > best * gg) {
            best = xg * xg / gg;
            step = xg / gg;
        }
    }
    return step;
}

/* The best of three scales around step / d. */
static int choose_scale(const uint16_t near[LATTICE], const float *x, float step, float d)
{
    int middle = (int)lrintf((fminf(step * cr_fit_inverse(d), 63) - 1) / 2), best = 0;
    float least = INFINITY;
    for (int s = middle - 1; s <= middle + 1; s++) {
        int bounded = s < 0 ? 0 : s > 15 ? 15 : s;
        float xg, gg, unit = d * (float)(1 + 2 * bounded);
        correlate(near, x, unit, &xg, &gg);
        float error = unit * (unit * gg - 2 * xg); /* but for x . x, the same for all */
        if (error < least) {
            least = error;
            best = bounded;
        }
    }
    return best;
}

static size_t nearest_entry(const float x[4], float inverse)
{
    float y[4], least = INFINITY;
    size_t best = 0;
    for (int j = 0; j < 4; j++)
        y[j] = 2 * x[j] * inverse;
    for (size_t i = 0; i < ENTRIES; i++) {
        float g[4];
        entry_levels(i, g);
        float distance = g[0] * (g[0] - y[0]) + g[1] * (g[1] - y[1]) + g[2] * (g[2] - y[2]) +
                         g[3] * (g[3] - y[3]);
        if (distance < least) {
            least = distance;
            best = i;
        }
    }
    return best;
}

/* Scales and entries for 256 magnitudes; returns d. */
static float fit_block(const uint16_t near[LATTICE], const float *x, int scale[8],
                       size_t entry[QUADS])
{
    float steps[8], largest = 0;
    for (size_t g = 0; g < 8; g++) {
        steps[g] = fit_group(near, x + g * GROUP);
        largest = fmaxf(largest, steps[g]);
    }
    float d = cr_fit_as_f16(largest / 31);
    for (int round = 0; round < 2; round++) {
        float xu = 0, uu = 0;
        for (size_t g = 0; g < 8; g++) {
            float xg, gg;
            scale[g] = choose_scale(near, x + g * GROUP, steps[g], d);
            float s = (float)(1 + 2 * scale[g]);
            correlate(near, x + g * GROUP, d * s, &xg, &gg);
            xu += s * xg;
            uu += s * s * gg;
        }
        d = cr_fit_as_f16(xu / uu);
    }
    float xu = 0, uu = 0;
    for (size_t k = 0; k < QUADS; k++) {
        float s = (float)(1 + 2 * scale[k / 8]), g[4];
        entry[k] = nearest_entry(x + 4 * k, cr_fit_inverse(d * s));
        entry_levels(entry[k], g);
        for (size_t j = 0; j < 4; j++) {
            xu += x[4 * k + j] * s * g[j];
            uu += s * s * g[j] * g[j];
        }
    }
    return xu / uu;
}

void cr_quantize_IQ3_S(const float *src, void *dst, size_t n)
{
    uint16_t near[LATTICE];
    spread_entries(near);
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += WEIGHTS, block += BYTES) {
        float size[WEIGHTS];
        int scale[8];
        size_t entry[QUADS];
        memset(block, 0, BYTES);
        for (size_t k = 0; k < WEIGHTS; k++) {
            size[k] = fabsf(src[i + k]);
            block[74 + k / 8] |= (uint8_t)((src[i + k] < 0) << k % 8);
        }
        cr_fit_store_f16(block, fit_block(near, size, scale, entry));
        for (size_t k = 0; k < QUADS; k++) {
            block[2 + k] = (uint8_t)entry[k];
            block[66 + k / 8] |= (uint8_t)(entry[k] >> 8 << k % 8);
        }
        for (size_t g = 0; g < 8; g++)
            block[106 + g / 2] |= (uint8_t)(scale[g] << 4 * (g % 2));
    }
}

/* What types share whose bits are indices: into a curve of 16 levels (IQ4), or into a grid, a list
 * of small vectors that a row of levels is rounded to as a whole (IQ1, IQ2, IQ3).
 *
 * The tables belong to the formats: files mean nothing without them, and there is no formula. Each
 * grid is a file grid_<type>.c, written by scripts/make-grids. An entry of a grid is one vector;
 * the fields of its uint16_t, element 0 in the lowest bits, number the levels:
 *
 *     grid       entries  elements x bits   levels
 *     iq2_xxs        256      8 x 2         8, 25, 43
 *     iq2_xs         512      8 x 2         8, 25, 43
 *     iq2_s         1024      8 x 2         8, 25, 43
 *     iq3_xxs        256      4 x 3         4, 12, 20, 28, 36, 44, 52, 62
 *     iq3_s          512      4 x 3         1, 3, 5, 7, 9, 11, 13, 15
 *     iq1           2048      8 x 2         -1, 0, 1      (IQ1_S and IQ1_M) */
#ifndef CR_CODEBOOK_H
#define CR_CODEBOOK_H

#include "tensor/type.h"

extern const uint16_t cr_grid_iq2_xxs[256];
extern const uint16_t cr_grid_iq2_xs[512];
extern const uint16_t cr_grid_iq2_s[1024];
extern const uint16_t cr_grid_iq3_xxs[256];
extern const uint16_t cr_grid_iq3_s[512];
extern const uint16_t cr_grid_iq1[2048];

static inline uint16_t cr_load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t cr_load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Signs of eight weights from seven bits: the number of minuses is even, so that the last one
 * follows from the others. */
static inline unsigned cr_even_signs(unsigned seven)
{
    unsigned parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return seven | (parity & 1) << 7;
}

/* Eight weights of an IQ2 grid. Sign bit i set: weight i is negative. */
static inline void cr_put_iq2(float out[8], unsigned entry, unsigned signs, float step)
{
    static const float levels[4] = { 8, 25, 43, 0 }; /* no entry has a 3 */
    const float steps[2] = { step, -step };
    for (int i = 0; i < 8; i++)
        out[i] = steps[signs >> i & 1] * levels[entry >> 2 * i & 3];
}

/* Eight weights of the IQ1 grid, moved off their levels by delta. */
static inline void cr_put_iq1(float out[8], unsigned entry, float delta, float step)
{
    for (int i = 0; i < 8; i++)
        out[i] = step * ((float)((int)(entry >> 2 * i & 3) - 1) + delta);
}

#endif

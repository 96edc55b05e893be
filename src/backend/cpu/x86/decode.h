/* Parts of decoder.h's types for both AVX levels: decode8.h and decode16.h end with this.
 *
 * A table holds what the few levels of a type are, times the step of the weights at hand, in the
 * order of the type's definition; a weight is then looked up, and needs no multiplication. */
#ifndef CR_DECODE_H
#define CR_DECODE_H

#include "backend/cpu/x86/grid_unpack.h"

/* The step of vector v, of n_steps that a block has. */
CR_INLINE float step_at(const unpacked *u, size_t part, size_t v, size_t n_steps)
{
    return u->step[part * (n_steps / 8) + v * LANES * n_steps / 256];
}

/* ---- IQ2: eight weights an entry ---- */

CR_INLINE void part_iq2(vec w[PART_VECS], const unpacked *u, size_t part, size_t n_steps,
                        const uint16_t *grid)
{
    static const float levels[4] = { 8, 25, 43, 0 };
    CR_UNROLL
    for (size_t v = 0; v < PART_VECS; v++) {
        const vec size = look_up_4(table_4(levels, step_at(u, part, v, n_steps)), grid,
                                   u->index + 4 * part + v * LANES / 8);
        w[v] = negate(size, u->signs + part, v * LANES);
    }
}

/* ---- IQ3: four weights an entry ---- */

CR_INLINE void part_iq3(vec w[PART_VECS], const unpacked *u, size_t part, const uint16_t *grid,
                        const float levels[8])
{
    const vec table = table_8(levels, u->step[part]);
    CR_UNROLL
    for (size_t v = 0; v < PART_VECS; v++) {
        const vec size = look_up_8(table, grid, u->index + 8 * part + v * LANES / 4);
        w[v] = negate(size, u->signs + part, v * LANES);
    }
}

/* ---- IQ1: eight weights an entry, an eighth above their levels or below them ---- */

static const float iq1_levels[2][4] = { { -0.875f, 0.125f, 1.125f }, { -1.125f, -0.125f, 0.875f } };

CR_INLINE void part_iq1_s(vec w[PART_VECS], const unpacked *u, const uint8_t *block, size_t part)
{
    (void)block;
    const vec table = table_4(iq1_levels[u->signs[part] & 1], u->step[part]);
    CR_UNROLL
    for (size_t v = 0; v < PART_VECS; v++)
        w[v] = look_up_4(table, cr_grid_iq1, u->index + 4 * part + v * LANES / 8);
}

/* Above or below is each entry's own. */
CR_INLINE void part_iq1_m(vec w[PART_VECS], const unpacked *u, const uint8_t *block, size_t part)
{
    (void)block;
    CR_UNROLL
    for (size_t v = 0; v < PART_VECS; v++)
        w[v] = look_up_iq1(iq1_levels, u->step[2 * part + v * LANES / 16],
                           u->index + 4 * part + v * LANES / 8, u->signs + part, v * LANES);
}

/* ---- TQ: 0, 1 or 2, less one ---- */

CR_INLINE void part_ternary(vec w[PART_VECS], const uint8_t *bytes, int bit, const uint8_t *d)
{
    CR_UNROLL
    for (size_t v = 0; v < PART_VECS; v++)
        w[v] = ternary_weights(half_bits(cr_load_u16(d)), bytes + v * LANES, bit);
}

/* ---- the types ---- */

#define PART_OF(type, code)                                                                        \
    CR_INLINE void part_##type(vec w[PART_VECS], const unpacked *u, const uint8_t *block,          \
                               size_t part)                                                        \
    {                                                                                              \
        (void)u, (void)block, (void)part;                                                          \
        code;                                                                                      \
    }
static const float iq3_xxs_levels[8] = { 4, 12, 20, 28, 36, 44, 52, 62 };
static const float iq3_s_levels[8] = { 1, 3, 5, 7, 9, 11, 13, 15 };
PART_OF(iq2_xxs, part_iq2(w, u, part, 8, cr_grid_iq2_xxs))
PART_OF(iq2_xs, part_iq2(w, u, part, 16, cr_grid_iq2_xs))
PART_OF(iq2_s, part_iq2(w, u, part, 16, cr_grid_iq2_s))
PART_OF(iq3_xxs, part_iq3(w, u, part, cr_grid_iq3_xxs, iq3_xxs_levels))
PART_OF(iq3_s, part_iq3(w, u, part, cr_grid_iq3_s, iq3_s_levels))
PART_OF(tq1_0, part_ternary(w, u->digit + PART * part, 0, block + 52))
PART_OF(tq2_0, part_ternary(w, block + part / 4 * 32, (int)(part % 4 * 2), block + 64))
PART_OF(mxfp4, mxfp4_weights(w, block + 1, mxfp4_scale(block[0])))

#endif

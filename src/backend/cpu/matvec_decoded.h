/* Matrix times vector for types that become floats first, for all levels. Who includes this has what
 * decoder.h wants, and merge_vecs. A weight goes from a part's registers into its chain; chains are
 * lanes.
 *
 * Two rows at a time, as the sums of one wait for each other; on x86 four are no faster. While blocks
 * are multiplied the next ones are unpacked, which is 3 to 8 % faster there: what is unpacked comes
 * back through memory. */
#ifndef CR_MATVEC_DECODED_H
#define CR_MATVEC_DECODED_H

#include "backend/cpu/decoder.h"
#include "backend/cpu/prefetch.h"

enum { ROWS = 2, CHAIN_VECS = CR_CHAINS / LANES };

CR_INLINE void unpack_rows(unpacked u[ROWS], const uint8_t *const row[ROWS], size_t at,
                           const uint8_t *ahead, decoder type)
{
    CR_UNROLL
    for (size_t r = 0; r < ROWS; r++) {
        prefetch(ahead + ROWS * at + r * type.bytes, type.bytes);
        type.unpack(&u[r], row[r] + at);
    }
}

/* ahead: what is prefetched while the rows' first blocks are read, as in rows4.h. */
CR_INLINE void dot_rows(float *y, const uint8_t *const row[ROWS], const uint8_t *ahead,
                        size_t n_rows, const cr_act *x, unpacked blocks[2][ROWS], decoder type)
{
    /* Parts that are written out: where blocks are not unpacked they have loads in common. */
    const size_t n_parts = type.weights / PART;
    const size_t n_out = type.unpack == unpack_nothing ? CR_MIN(n_parts, (size_t)LANES / 2) : 1;
    unpacked *u = blocks[0], *next = blocks[1];
    vec chain[ROWS][CHAIN_VECS];
    CR_UNROLL
    for (size_t r = 0; r < ROWS; r++)
        CR_UNROLL
    for (size_t v = 0; v < CHAIN_VECS; v++)
        chain[r][v] = vec_zero();
    unpack_rows(u, row, 0, ahead, type);
    for (size_t i = 0, at = 0; i < x->n; i += type.weights, at += type.bytes) {
        if (i + type.weights < x->n)
            unpack_rows(next, row, at + type.bytes, ahead, type);
        for (size_t s = 0; s < n_parts / n_out; s++)
            CR_UNROLL
        for (size_t k = 0; k < n_out; k++)
            CR_UNROLL
        for (size_t r = 0; r < ROWS; r++) {
            const size_t part = s * n_out + k;
            vec w[PART_VECS];
            type.part(w, &u[r], row[r] + at, part);
            CR_UNROLL
            for (size_t v = 0; v < PART_VECS; v++) {
                const vec f = vec_load(x->f + i + PART * part + v * LANES);
                chain[r][v % CHAIN_VECS] = vec_fma(w[v], f, chain[r][v % CHAIN_VECS]);
            }
        }
        unpacked *const done = u;
        u = next;
        next = done;
    }
    CR_UNROLL
    for (size_t r = 0; r < ROWS; r++)
        if (r < n_rows)
            y[r] = merge_vecs(chain[r]);
}

CR_INLINE void matvec_decoded(float *y, const void *w, size_t row_bytes, size_t n_rows,
                              const cr_act *x, decoder type)
{
    const size_t band = ROWS * row_bytes;
    const uint8_t *p = w;
    unpacked blocks[2][ROWS]; /* here, as compilers may clear it */
    for (size_t i = 0; i < n_rows; i += ROWS, p += band) {
        const uint8_t *const row[ROWS] = { p, i + 1 < n_rows ? p + row_bytes : p };
        dot_rows(y + i, row, p + band + x->prefetch, CR_MIN(n_rows - i, (size_t)ROWS), x, blocks,
                 type);
    }
}

#define MATVEC_DECODED(tier, type, weights, bytes, unpack)                                         \
    void cr_matvec_##type##__##tier(float *y, const void *w, size_t row_bytes, size_t n_rows,      \
                                    const cr_act *x)                                               \
    {                                                                                              \
        matvec_decoded(y, w, row_bytes, n_rows, x,                                                 \
                       (decoder){ weights, bytes, unpack, part_##type });                          \
    }

#endif

/* Four rows of a matrix, as the matrix-times-vector kernels of both AVX levels walk them. */
#ifndef CR_ROWS4_H
#define CR_ROWS4_H

#include "base/compiler.h"

#include <stddef.h>
#include <stdint.h>

typedef struct rows4 {
    const uint8_t *p[4];
    size_t ahead; /* from a byte to the one to prefetch for later */
} rows4;

/* Rows i to i + 3 of n_rows; the last one again in place of those that do not exist.
 *
 * Prefetching at a multiple of four rows' bytes covers every line once, whatever the length of a
 * row. 4 KiB and more was best or level for rows of 324 bytes to 4.5 KiB, and L2 up to 6 % better
 * than L1. Five prefetches in a row, not spread between the loads, cost a quarter of the DRAM rate
 * (Q4_0, one Emerald Rapids VM; other machines were not tried). */
CR_INLINE rows4 rows4_at(const void *w, size_t row_bytes, size_t i, size_t n_rows)
{
    const uint8_t *p = (const uint8_t *)w + i * row_bytes;
    const size_t last = n_rows - i - 1, band = 4 * row_bytes;
    return (rows4){
        .p = { p, p + CR_MIN(last, 1) * row_bytes, p + CR_MIN(last, 2) * row_bytes,
               p + CR_MIN(last, 3) * row_bytes },
        .ahead = band < 4096 ? (4095 + band) / band * band : band,
    };
}

#endif

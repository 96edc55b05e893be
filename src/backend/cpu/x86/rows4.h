/* Four rows of a matrix, as the matrix-times-vector kernels of both AVX levels walk them. */
#ifndef CR_ROWS4_H
#define CR_ROWS4_H

#include "backend/cpu/prefetch.h"

typedef struct rows4 {
    const uint8_t *p[4];
    const uint8_t *ahead; /* what to prefetch while the rows' first bytes are read */
} rows4;

enum { KEYS_DISTANCE = 4096 }; /* keys of a head are fewer than rows of a matrix */

/* Rows i to i + 3 of n_rows; the last one again in place of those that do not exist. `distance`:
 * from the rows' end to what is prefetched meanwhile. */
CR_INLINE rows4 rows4_at(const void *w, size_t row_bytes, size_t i, size_t n_rows, size_t distance)
{
    const uint8_t *p = (const uint8_t *)w + i * row_bytes;
    const size_t last = n_rows - i - 1;
    return (rows4){
        .p = { p, p + CR_MIN(last, 1) * row_bytes, p + CR_MIN(last, 2) * row_bytes,
               p + CR_MIN(last, 3) * row_bytes },
        .ahead = p + 4 * row_bytes + distance,
    };
}

/* For bytes [at, at + n_bytes) of each of the rows, as many further on.
 *
 * Rows are read side by side, but lines come in the order of memory: four streams of rows of 576 to
 * 2048 weights reach 17 GB/s on a Zen 4 however far ahead they are asked for, one stream 28. For
 * that the last row's first bytes, which are wanted as soon as those of the first row, must not be
 * asked for just before: hence a distance beyond the end of the rows. */
CR_INLINE void prefetch_rows(const rows4 *r, size_t at, size_t n_bytes)
{
    prefetch(r->ahead + 4 * at, 4 * n_bytes);
}

#endif

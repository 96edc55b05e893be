/* The rows that a panel is filled with and what they become, and the rows that come next. Before it
 * stand PANEL, the number of rows, and `panel_block`. */
#ifndef CR_PANEL_ROWS_H
#define CR_PANEL_ROWS_H

#include <string.h>

/* PANEL rows; the last one again in place of those that do not exist. */
typedef struct panel_rows {
    const uint8_t *p[PANEL];
} panel_rows;

/* Blocks [b, end) of the rows; of types with super-blocks, whole ones. */
typedef void panel_fill(panel_block *to, const panel_rows *r, size_t b, size_t end);
/* All but the bytes of a super-block, and in the bytes of blocks that are made last what others
 * want, too. */
typedef void panel_share(panel_block to[8], const panel_rows *r, size_t super);
/* The bytes of pair i of a super-block. */
typedef void panel_pair(panel_block *low, panel_block *high, const panel_block shared[8],
                        const panel_rows *r, size_t super, size_t i);

/* How a type's bytes become weights. */
typedef struct weights {
    panel_fill *fill; /* or NULL, and in its place: */
    panel_share *share;
    panel_pair *pair;
    size_t apart; /* the blocks of a pair */
    short most;   /* the largest byte */
    short offset; /* a byte is so much more than the weight */
    bool single;  /* fill makes blocks one by one, that of others super-blocks of eight */
    bool minima;  /* m is a minimum; with groups, the unit of pairs */
    bool groups;  /* a block's halves have integer scales */
} weights;

CR_INLINE panel_rows panel_rows_at(const void *w, size_t row_bytes, size_t i, size_t n_rows)
{
    panel_rows r;
    for (size_t k = 0; k < PANEL; k++)
        r.p[k] = (const uint8_t *)w + CR_MIN(i + k, n_rows - 1) * row_bytes;
    return r;
}

CR_INLINE int32_t dword_at(const uint8_t *p)
{
    int32_t dword;
    memcpy(&dword, p, sizeof dword);
    return dword;
}

/* Two bytes of each of four rows, as one integer: that leaves the ports for vectors alone. */
CR_INLINE int64_t four_words(const uint8_t *const p[4], size_t at)
{
    uint64_t words = 0;
    CR_UNROLL
    for (int k = 0; k < 4; k++) {
        uint16_t word;
        memcpy(&word, p[k] + at, sizeof word);
        words |= (uint64_t)word << 16 * k;
    }
    return (int64_t)words;
}

/* The rows of the next panels, block_bytes of them for a block of these: fetched while these are
 * multiplied. They may lie behind the matrix, where a worker's share ends: fetching never faults. */
typedef struct next_rows {
    const uint8_t *p;
    size_t block_bytes;
} next_rows;

CR_INLINE next_rows next_rows_at(const void *w, size_t row_bytes, size_t i, size_t n_panels,
                                 size_t n_blocks)
{
    return (next_rows){ (const uint8_t *)((uintptr_t)w + i * row_bytes),
                        n_panels * PANEL * row_bytes / n_blocks };
}

CR_INLINE void fetch_block(const next_rows *rows, size_t b)
{
    prefetch_run(rows->p + b * rows->block_bytes, rows->block_bytes);
}

#endif

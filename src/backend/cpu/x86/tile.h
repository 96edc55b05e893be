/* Attention kernels for many queries that meet the same keys, for both AVX levels. Who includes
 * this has defined the vectors: vec, LANES and the functions on them.
 *
 * Scores: a lane is a key. Thirty-two keys are transposed once; then four queries at a time pass
 * over them, chain by chain in the order in which the chains merge, so that few sums wait:
 *
 *     scratch[element][key]          score = scale * (((c0 + c8) + (c4 + c12)) + ...)
 *
 * Values: a lane is an element. Some queries keep their sums in registers while values pass that
 * all of them see; the values that only some see, on the edge of the causal triangle, are added one
 * query at a time. Six queries: with four, as many loads and sums that wait less long, a processor
 * with one FMA of 64 bytes a cycle reaches 0.72 of that, with six 0.95.
 *
 * Transposing pays from some queries on. For a few, as when a token is generated, a lane of the
 * scores is an element too, and a key is read once for all of them. */
#ifndef CR_TILE_H
#define CR_TILE_H

enum {
    MANY = 8,     /* queries that pay for unpacking keys and values */
    TOGETHER = 4, /* queries whose scores are computed at a time */
    SCORED = 32,  /* keys that are transposed together */
    MIXED = 6,    /* queries whose sums of values are in registers, WIDE vectors of each */
    PART = 64,    /* elements of CR_TILE_KEYS values that are unpacked together: 16 KiB, in L1 */
    MERGED = CR_CHAINS / LANES,
};

/* LANES elements of a row of keys or values, from element i on. */
typedef vec load_lanes(const uint8_t *row, size_t i);

/* Keys or values as they lie in a page, or `width` elements of them from `element` on. */
typedef struct rows {
    const uint8_t *p;
    size_t row_bytes, n, element, width;
    load_lanes *load;
    const uint8_t *next; /* what is read soon: while a row is, the same row of it is fetched */
    size_t next_bytes;   /* of 32 elements; 0: nothing is fetched */
} rows;

CR_INLINE vec load_f32(const uint8_t *row, size_t i)
{
    return vec_load((const float *)(const void *)row + i);
}

CR_INLINE const uint8_t *row_at(const rows *r, size_t j)
{
    return r->p + CR_MIN(j, r->n - 1) * r->row_bytes;
}

/* Of what is read soon, n_bytes from byte `at` on; `next` may be NULL when there are none. */
CR_INLINE void fetch(const rows *r, size_t at, size_t n_bytes)
{
    if (n_bytes > 0)
        prefetch_run(r->next + at, n_bytes);
}

/* ---- scores of many queries ---- */

/* scratch[element][key] of keys j to j + 31; the last one again in place of those that do not
 * exist. */
CR_INLINE void unpack_keys(const cr_tile *tile, const rows *keys, size_t j)
{
    fetch(keys, j * keys->row_bytes, SCORED * keys->row_bytes);
    for (size_t key = 0; key < SCORED; key += LANES)
        for (size_t i = 0; i < tile->n; i += LANES) {
            vec square[LANES];
            CR_UNROLL
            for (size_t k = 0; k < LANES; k++)
                square[k] = keys->load(row_at(keys, j + key + k), i);
            vec_transpose(square);
            CR_UNROLL
            for (size_t k = 0; k < LANES; k++)
                vec_store(tile->scratch + (i + k) * SCORED + key, square[k]);
        }
}

/* Two vectors of keys for each of some queries. */
typedef struct square {
    vec s[TOGETHER][2];
} square;

CR_INLINE square add_squares(square a, square b)
{
    CR_UNROLL
    for (int i = 0; i < TOGETHER; i++) {
        a.s[i][0] = vec_add(a.s[i][0], b.s[i][0]);
        a.s[i][1] = vec_add(a.s[i][1], b.s[i][1]);
    }
    return a;
}

CR_INLINE square one_chain(const float *keys, const float *const q[TOGETHER], size_t n,
                           size_t chain)
{
    square sum;
    CR_UNROLL
    for (int i = 0; i < TOGETHER; i++)
        sum.s[i][0] = sum.s[i][1] = vec_zero();
    for (size_t e = chain; e < n; e += CR_CHAINS) {
        const vec k0 = vec_load(keys + e * SCORED);
        const vec k1 = vec_load(keys + e * SCORED + LANES);
        CR_UNROLL
        for (int i = 0; i < TOGETHER; i++) {
            const vec x = vec_all(q[i] + e);
            sum.s[i][0] = vec_fma(k0, x, sum.s[i][0]);
            sum.s[i][1] = vec_fma(k1, x, sum.s[i][1]);
        }
    }
    return sum;
}

CR_INLINE square four_chains(const float *keys, const float *const q[TOGETHER], size_t n, size_t c)
{
    const square s0 = add_squares(one_chain(keys, q, n, c), one_chain(keys, q, n, c + 8));
    return add_squares(s0,
                       add_squares(one_chain(keys, q, n, c + 4), one_chain(keys, q, n, c + 12)));
}

/* Queries i to i + 3 and the unpacked keys, whose first one is `at` in the chunk. */
CR_INLINE void score_square(const cr_tile *tile, size_t i, size_t at)
{
    size_t which[TOGETHER];
    const float *q[TOGETHER];
    int first = CR_KEY_CHUNK, end = 0;
    for (size_t k = 0; k < TOGETHER; k++) {
        which[k] = CR_MIN(i + k, tile->n_queries - 1);
        q[k] = tile->q + which[k] * tile->n;
        first = CR_MIN(first, tile->queries[which[k]].first);
        end = CR_MAX(end, tile->queries[which[k]].end);
    }
    for (size_t key = 0; key < SCORED; key += 2 * LANES) {
        if (end <= (int)(at + key) || first >= (int)(at + key + 2 * LANES))
            continue;
        const float *keys = tile->scratch + key;
        const square even =
            add_squares(four_chains(keys, q, tile->n, 0), four_chains(keys, q, tile->n, 2));
        const square odd =
            add_squares(four_chains(keys, q, tile->n, 1), four_chains(keys, q, tile->n, 3));
        const square sum = add_squares(even, odd);
        CR_UNROLL
        for (size_t k = 0; k < TOGETHER; k++) {
            const vec scale = vec_all(&tile->queries[which[k]].scale);
            float *s = tile->s + which[k] * CR_KEY_CHUNK + at + key;
            vec_store(s, vec_mul(sum.s[k][0], scale));
            vec_store(s + LANES, vec_mul(sum.s[k][1], scale));
        }
    }
}

/* ---- scores of a few queries ---- */

/* Keys j to j + 3 and n_queries queries from i on, at most FEW. */
CR_INLINE void score_four_keys(const cr_tile *tile, const rows *keys, size_t i, size_t n_queries,
                               size_t j, size_t at)
{
    vec sum[FEW][4][MERGED];
    const uint8_t *key[4];
    CR_UNROLL
    for (size_t k = 0; k < 4; k++) {
        key[k] = row_at(keys, j + k);
        CR_UNROLL
        for (size_t c = 0; c < n_queries; c++)
            CR_UNROLL
        for (size_t m = 0; m < MERGED; m++)
            sum[c][k][m] = vec_zero();
    }
    for (size_t e = 0; e < tile->n; e += CR_CHAINS) {
        CR_UNROLL
        for (size_t m = 0; m < MERGED; m++) {
            const size_t from = e + m * LANES;
            CR_UNROLL
            for (size_t k = 0; k < 4; k++) {
                const vec w = keys->load(key[k], from);
                CR_UNROLL
                for (size_t c = 0; c < n_queries; c++)
                    sum[c][k][m] =
                        vec_fma(w, vec_load(tile->q + (i + c) * tile->n + from), sum[c][k][m]);
            }
        }
    }
    CR_UNROLL
    for (size_t c = 0; c < n_queries; c++)
        _mm_storeu_ps(tile->s + (i + c) * CR_KEY_CHUNK + at + j,
                      _mm_mul_ps(merge_four(sum[c]), _mm_set1_ps(tile->queries[i + c].scale)));
}

CR_INLINE void score_few(const cr_tile *tile, const rows *keys, size_t first)
{
    for (size_t j = 0; j < keys->n; j += 4) {
        fetch(keys, j * keys->row_bytes, 4 * keys->row_bytes);
        size_t i = 0;
        for (; i + FEW <= tile->n_queries; i += FEW)
            score_four_keys(tile, keys, i, FEW, j, first);
        if (FEW > 3 && i + 3 <= tile->n_queries) {
            score_four_keys(tile, keys, i, CR_MIN(FEW, 3), j, first);
            i += 3;
        }
        for (; i < tile->n_queries; i++)
            score_four_keys(tile, keys, i, 1, j, first);
    }
}

CR_INLINE void tile_scores(const cr_tile *tile, const rows *keys, size_t first)
{
    if (tile->n_queries < MANY) {
        score_few(tile, keys, first);
        return;
    }
    for (size_t j = 0; j < keys->n; j += SCORED) {
        unpack_keys(tile, keys, j);
        for (size_t i = 0; i < tile->n_queries; i += TOGETHER)
            score_square(tile, i, first + j);
    }
}

/* ---- sums of values ---- */

/* Queries i to i + n_queries - 1, elements e to e + n_vectors * LANES - 1 of the rows, values
 * [begin, end) of the chunk, where `at` is the first of `values`. */
CR_INLINE void mix_square(const cr_tile *tile, const rows *values, size_t at, size_t i,
                          size_t n_queries, size_t e, size_t n_vectors, size_t begin, size_t end)
{
    vec sum[MIXED][WIDE];
    float *o = tile->o + i * tile->n + values->element + e;
    CR_UNROLL
    for (size_t c = 0; c < n_queries; c++)
        CR_UNROLL
    for (size_t v = 0; v < n_vectors; v++)
        sum[c][v] = vec_load(o + c * tile->n + v * LANES);
    size_t row = (begin - at) * values->row_bytes;
    const float *p = tile->s + i * CR_KEY_CHUNK;
    for (size_t j = begin; j < end; j++, row += values->row_bytes) {
        vec value[WIDE];
        fetch(values, row + e * values->next_bytes / 32,
              n_vectors * LANES * values->next_bytes / 32);
        CR_UNROLL
        for (size_t v = 0; v < n_vectors; v++)
            value[v] = values->load(values->p + row, e + v * LANES);
        CR_UNROLL
        for (size_t c = 0; c < n_queries; c++) {
            const vec weight = vec_all(p + c * CR_KEY_CHUNK + j);
            CR_UNROLL
            for (size_t v = 0; v < n_vectors; v++)
                sum[c][v] = vec_fma(weight, value[v], sum[c][v]);
        }
    }
    CR_UNROLL
    for (size_t c = 0; c < n_queries; c++)
        CR_UNROLL
    for (size_t v = 0; v < n_vectors; v++)
        vec_store(o + c * tile->n + v * LANES, sum[c][v]);
}

/* The same for all elements of the rows. */
CR_INLINE void mix_elements(const cr_tile *tile, const rows *values, size_t at, size_t i,
                            size_t n_queries, size_t begin, size_t end)
{
    if (begin >= end)
        return;
    size_t e = 0;
    for (; e + WIDE * LANES <= values->width; e += WIDE * LANES)
        mix_square(tile, values, at, i, n_queries, e, WIDE, begin, end);
    for (; e < values->width; e += LANES)
        mix_square(tile, values, at, i, n_queries, e, 1, begin, end);
}

/* Some queries and the values that each of them sees: those that all see, together. */
CR_INLINE void mix_queries(const cr_tile *tile, const rows *values, size_t at, size_t i,
                           size_t n_queries)
{
    size_t begin[MIXED], end[MIXED], last_begin = at, first_end = at + values->n;
    for (size_t c = 0; c < n_queries; c++) {
        begin[c] = CR_MAX((size_t)tile->queries[i + c].first, at);
        end[c] = CR_MIN((size_t)tile->queries[i + c].end, at + values->n);
        last_begin = CR_MAX(last_begin, begin[c]);
        first_end = CR_MIN(first_end, end[c]);
    }
    if (last_begin >= first_end)
        last_begin = first_end = at + values->n;
    for (size_t c = 0; c < n_queries; c++)
        mix_elements(tile, values, at, i + c, 1, begin[c], CR_MIN(end[c], last_begin));
    mix_elements(tile, values, at, i, n_queries, last_begin, first_end);
    for (size_t c = 0; c < n_queries; c++)
        mix_elements(tile, values, at, i + c, 1, first_end, end[c]);
}

CR_INLINE void mix_all(const cr_tile *tile, const rows *values, size_t at)
{
    const size_t n = tile->n_queries;
    size_t i = 0;
    for (; i + MIXED <= n; i += MIXED)
        mix_queries(tile, values, at, i, MIXED);
    if (i + 4 <= n) {
        mix_queries(tile, values, at, i, 4);
        i += 4;
    }
    if (i + 3 <= n) {
        mix_queries(tile, values, at, i, 3);
        i += 3;
    }
    if (i + 2 <= n) {
        mix_queries(tile, values, at, i, 2);
        i += 2;
    }
    if (i < n)
        mix_queries(tile, values, at, i, 1);
}

/* Elements e to e + width - 1 of the values, as floats in scratch. */
CR_INLINE rows unpack_values(const cr_tile *tile, const rows *values, size_t e, size_t width)
{
    for (size_t k = 0; k < values->n; k++)
        for (size_t i = 0; i < width; i += LANES)
            vec_store(tile->scratch + k * width + i,
                      values->load(values->p + k * values->row_bytes, e + i));
    return (rows){ .p = (const uint8_t *)tile->scratch,
                   .row_bytes = width * sizeof(float),
                   .n = values->n,
                   .element = e,
                   .width = width,
                   .load = load_f32 };
}

CR_INLINE void tile_values(const cr_tile *tile, const rows *values, size_t first)
{
    if (tile->n_queries < MANY || values->load == load_f32) {
        mix_all(tile, values, first);
        return;
    }
    for (size_t j = 0; j < values->n; j += CR_TILE_KEYS) {
        rows some = *values;
        some.p += j * values->row_bytes;
        some.n = CR_MIN(values->n - j, (size_t)CR_TILE_KEYS);
        fetch(values, j * values->row_bytes, some.n * values->row_bytes);
        for (size_t e = 0; e < tile->n; e += PART) {
            const rows floats = unpack_values(tile, &some, e, CR_MIN(tile->n - e, (size_t)PART));
            mix_all(tile, &floats, first + j);
        }
    }
}

/* ---- the kernels ---- */

/* block_bytes: of 32 elements. */
#define TILE(type, tier, block_bytes)                                                              \
    void cr_tile_scores_##type##__##tier(const cr_tile *tile, const void *keys, size_t first,      \
                                         size_t n_keys)                                            \
    {                                                                                              \
        const rows all = rows_of(tile, keys, n_keys, block_bytes, load_##type);                    \
        tile_scores(tile, &all, first);                                                            \
    }                                                                                              \
    void cr_tile_values_##type##__##tier(const cr_tile *tile, const void *values, size_t first,    \
                                         size_t n_keys)                                            \
    {                                                                                              \
        const rows all = rows_of(tile, values, n_keys, block_bytes, load_##type);                  \
        tile_values(tile, &all, first);                                                            \
    }

CR_INLINE rows rows_of(const cr_tile *tile, const void *p, size_t n, size_t block_bytes,
                       load_lanes *load)
{
    return (rows){ .p = p,
                   .row_bytes = tile->n * block_bytes / 32,
                   .n = n,
                   .width = tile->n,
                   .load = load,
                   .next = tile->next ? tile->next : p,
                   .next_bytes = block_bytes };
}

#endif

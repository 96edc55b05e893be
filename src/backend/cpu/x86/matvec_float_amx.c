/* Matrices of BF16 times one column, with the bits of matvec_split_scalar.c, which are those of tiles:
 * see matmul_float_amx.c. Tiles would do for this, too, but they want sixteen rows side by side and
 * more, of which then as many bytes have to be asked for ahead; here it is four.
 *
 * A lane is a block of a row, as everywhere at AVX-512: four blocks of four rows. Pairs of elements
 * pass one after the other, their even and their odd elements in a chain each, times the high and the
 * low part of the activations. */
#include "backend/cpu/x86/split16.h"

enum {
    PAIRS = DEPTH / 2,
    QUAD = 4 * DEPTH,  /* elements of four blocks */
    PIECE = 64 * QUAD, /* elements of a column that are laid out at a time, in 64 KiB of stack */
    FLUSH = 0x8040,    /* bits of MXCSR: subnormal results and operands are zeros */
};

/* Four blocks of the column; pair 4 i + k is element [k][i]. */
typedef struct quad {
    float even[2][4][4][4], odd[2][4][4][4]; /* [high, low][k][i][block] */
} quad;

/* Vectors of four blocks, a pair a lane, become vectors of pairs. */
CR_INLINE void store_pairs(float to[4][4][4], const __m512 v[4])
{
    const __m512 low01 = _mm512_unpacklo_ps(v[0], v[1]), high01 = _mm512_unpackhi_ps(v[0], v[1]);
    const __m512 low23 = _mm512_unpacklo_ps(v[2], v[3]), high23 = _mm512_unpackhi_ps(v[2], v[3]);
    _mm512_storeu_ps(to[0], _mm512_shuffle_ps(low01, low23, 0x44));
    _mm512_storeu_ps(to[1], _mm512_shuffle_ps(low01, low23, 0xee));
    _mm512_storeu_ps(to[2], _mm512_shuffle_ps(high01, high23, 0x44));
    _mm512_storeu_ps(to[3], _mm512_shuffle_ps(high01, high23, 0xee));
}

/* The even and the odd bfloat16 of each lane, as floats. */
CR_INLINE __m512 even_of(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}

CR_INLINE __m512 odd_of(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int32_t)0xffff0000)));
}

static void lay_out(quad *to, const cr_act *x, size_t first, size_t end)
{
    for (size_t b = first; b < end; b += 4, to++) {
        __m512i part[2][4] = { { _mm512_setzero_si512() } };
        for (size_t k = 0; k < 4 && b + k < end; k++)
            split_block(&part[0][k], &part[1][k], x, b + k);
        for (int p = 0; p < 2; p++) {
            __m512 even[4], odd[4];
            CR_UNROLL
            for (int k = 0; k < 4; k++) {
                even[k] = even_of(part[p][k]);
                odd[k] = odd_of(part[p][k]);
            }
            store_pairs(to->even[p], even);
            store_pairs(to->odd[p], odd);
        }
    }
}

CR_INLINE __m512 each_row(const float x[4])
{
    return _mm512_broadcast_f32x4(_mm_loadu_ps(x));
}

/* w: blocks of rows, pairs as dwords under the name of floats. Lane 4 r + b of each part: product b of
 * row r, with the high and the low part of the column. */
CR_INLINE void multiply_quad(__m512 product[2], vec w[16], const quad *x)
{
    __m512 even[2], odd[2];
    vec_transpose(w);
    even[0] = even[1] = odd[0] = odd[1] = _mm512_setzero_ps();
    CR_UNROLL
    for (int j = 0; j < PAIRS; j++) {
        const __m512i pairs = _mm512_castps_si512(w[j]);
        const __m512 w_even = even_of(pairs), w_odd = odd_of(pairs);
        CR_UNROLL
        for (int p = 0; p < 2; p++) {
            even[p] = _mm512_fmadd_ps(w_even, each_row(x->even[p][j % 4][j / 4]), even[p]);
            odd[p] = _mm512_fmadd_ps(w_odd, each_row(x->odd[p][j % 4][j / 4]), odd[p]);
        }
    }
    product[0] = _mm512_add_ps(even[0], odd[0]);
    product[1] = _mm512_add_ps(even[1], odd[1]);
}

/* Lane 4 r of sum gets products of n blocks of row r, one after the other. */
CR_INLINE __m512 add_products(__m512 sum, const __m512 product[2], size_t n)
{
    sum = _mm512_add_ps(_mm512_add_ps(sum, product[0]), product[1]);
#define ADD(b)                                                                                     \
    if (n > (b))                                                                                   \
    sum = _mm512_add_ps(_mm512_add_ps(sum, _mm512_permute_ps(product[0], (b)*0x55)),               \
                        _mm512_permute_ps(product[1], (b)*0x55))
    ADD(1);
    ADD(2);
    ADD(3);
#undef ADD
    return sum;
}

/* Elements [i, end) of all rows, on top of what y has of those before. */
static void multiply_piece(float *y, const void *w, size_t row_bytes, size_t n_rows,
                           const cr_act *x, const quad *column, size_t i, size_t end)
{
    const __mmask16 first_of_each = 0x1111;
    for (size_t r = 0; r < n_rows; r += 4) {
        rows4 rows = rows4_at(w, row_bytes, r, n_rows, x->prefetch);
        const size_t n = CR_MIN(n_rows - r, (size_t)4);
        const quad *q = column;
        vec v[16];
        __m512 sum = _mm512_setzero_ps(), product[2];
        if (i > 0)
            sum = _mm512_maskz_expandloadu_ps((__mmask16)(first_of_each & ((1u << 4 * n) - 1)),
                                              y + r);
        size_t at = i;
        for (; at + QUAD <= end; at += QUAD, q++) {
            prefetch_rows(&rows, 2 * at, 2 * QUAD);
            CR_UNROLL
            for (int k = 0; k < 16; k++)
                v[k] = _mm512_loadu_ps(rows.p[k / 4] + 2 * at + 64 * (k % 4));
            multiply_quad(product, v, q);
            sum = add_products(sum, product, 4);
        }
        if (at < end) {
            CR_UNROLL
            for (int k = 0; k < 16; k++) {
                const size_t from = CR_MIN(at + DEPTH * (size_t)(k % 4), end);
                const int n_bytes = 2 * (int)CR_MIN(end - from, (size_t)DEPTH);
                v[k] = _mm512_castsi512_ps(load_bytes(rows.p[k / 4] + 2 * from, n_bytes));
            }
            multiply_quad(product, v, q);
            sum = add_products(sum, product, (end - at + DEPTH - 1) / DEPTH);
        }
        store_rows(y + r, sum, n);
    }
}

void cr_matvec_bf16__amx(float *y, const void *w, size_t row_bytes, size_t n_rows, const cr_act *x)
{
    CR_UNSET quad column[PIECE / QUAD];
    const unsigned csr = _mm_getcsr();
    for (size_t i = 0; i < x->n; i += PIECE) {
        const size_t end = CR_MIN(x->n, i + PIECE);
        lay_out(column, x, i / DEPTH, (end + DEPTH - 1) / DEPTH);
        _mm_setcsr(csr | FLUSH);
        multiply_piece(y, w, row_bytes, n_rows, x, column, i, end);
        _mm_setcsr(csr);
    }
}

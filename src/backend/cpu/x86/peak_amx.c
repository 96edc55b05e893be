/* What the machine can do at best: see kernels.h.
 *
 * A tile instruction multiplies rows by columns. Rows are the 64-byte pieces of a, columns the b of
 * sixteen rounds:
 *
 *     sum [piece][round] = a [piece][64] * b [64][round]
 *
 * so all of its products are wanted. It takes a cycle for each row, and its result some fifty, hence
 * four sums. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/x86/amx.h"

enum {
    PIECES = CR_PEAK_MACS / 64,
    ROUNDS = 16, /* of a tile */
    SUMS = 4,
};

/* Sums are tiles 0 to 3, a is tile 4, b tile 5. */
static void configure(tile_shapes *shapes)
{
    *shapes = (tile_shapes){ .palette = 1 };
    for (int i = 0; i < SUMS + 2; i++) {
        shapes->row_bytes[i] = 64;
        shapes->n_rows[i] = i <= SUMS ? PIECES : 64 / 4;
    }
    atomic_signal_fence(memory_order_seq_cst);
    _tile_loadconfig(shapes);
}

uint32_t cr_multiply_int8__amx(const uint8_t *a, const int8_t *b, size_t n_rounds)
{
    /* Four numbers of each column side by side, as tiles want them. */
    int8_t columns[64 / 4][ROUNDS][4];
    for (int i = 0; i < 64; i++)
        for (int round = 0; round < ROUNDS; round++)
            columns[i / 4][round][i % 4] = b[round % 4 * 64 + i];
    tile_shapes shapes;
    configure(&shapes);
    _tile_loadd(4, a, 64);
    _tile_loadd(5, columns, 64);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    size_t n = n_rounds;
    for (; n >= SUMS * ROUNDS; n -= SUMS * ROUNDS) {
        _tile_dpbusd(0, 4, 5);
        _tile_dpbusd(1, 4, 5);
        _tile_dpbusd(2, 4, 5);
        _tile_dpbusd(3, 4, 5);
    }
    int32_t sums[SUMS][PIECES][ROUNDS];
    _tile_stored(0, sums[0], 64);
    _tile_stored(1, sums[1], 64);
    _tile_stored(2, sums[2], 64);
    _tile_stored(3, sums[3], 64);
    _tile_release();
    atomic_signal_fence(memory_order_seq_cst);
    /* The rounds that are left begin as all do: 64 is a multiple of four. */
    uint32_t sum = cr_multiply_int8__avx512(a, b, n);
    for (int k = 0; k < SUMS; k++)
        for (int piece = 0; piece < PIECES; piece++)
            for (int round = 0; round < ROUNDS; round++)
                sum += (uint32_t)sums[k][piece][round];
    return sum;
}

/* Types that become floats first, 32 weights at a time in registers: what is the same for all
 * instruction sets. Who includes this has included a header of vectors (lanes4.h, lanes8.h,
 * lanes16.h), and before DECODERS is used comes what unpacks blocks and makes parts of them.
 *
 * What layouts have in bits here and there is first taken apart, for a block at once: it becomes a
 * number for each entry of a grid, a sign for each weight and a step for 16 or 32 of them.
 * src/tensor/iq*.c draw the layouts. */
#ifndef CR_DECODER_H
#define CR_DECODER_H

#include "base/compiler.h"
#include "tensor/codebook.h"

#include <string.h>

enum { PART = 32, PART_VECS = PART / LANES };

/* What of this a type has. */
typedef struct unpacked {
    uint16_t index[64]; /* of eight weights each, of four in IQ3 */
    uint32_t signs[8];  /* bit i of signs[k]: weight 32 k + i is negative, in IQ1 moved down */
    float step[16];     /* of 32 weights each, or of 16 */
    uint8_t digit[256]; /* of TQ1_0 */
} unpacked;

/* A type: its blocks, what is done once for each, and then for each 32 weights of it. */
typedef struct decoder {
    size_t weights, bytes; /* of a block */
    void (*unpack)(unpacked *u, const uint8_t *block);
    void (*part)(vec w[PART_VECS], const unpacked *u, const uint8_t *block, size_t part);
} decoder;

CR_INLINE void unpack_nothing(unpacked *u, const uint8_t *block)
{
    (void)u;
    (void)block;
}

/* 2^(e - 128), of MXFP4; the two smallest are subnormal. */
CR_INLINE float mxfp4_scale(uint32_t e)
{
    const uint32_t bits = e < 2 ? 0x200000u << e : (e - 1) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

/* X(type, weights of a block, its bytes, unpack): the fields of a decoder whose part is
 * part_<type>. */
#define DECODERS(X)                                                                                \
    X(iq2_xxs, 256, 66, unpack_iq2_xxs)                                                            \
    X(iq2_xs, 256, 74, unpack_iq2_xs)                                                              \
    X(iq2_s, 256, 82, unpack_iq2_s)                                                                \
    X(iq3_xxs, 256, 98, unpack_iq3_xxs)                                                            \
    X(iq3_s, 256, 110, unpack_iq3_s)                                                               \
    X(iq1_s, 256, 50, unpack_iq1_s)                                                                \
    X(iq1_m, 256, 56, unpack_iq1_m)                                                                \
    X(tq1_0, 256, 54, unpack_tq1_0)                                                                \
    X(tq2_0, 256, 66, unpack_nothing)                                                              \
    X(mxfp4, 32, 17, unpack_nothing)

/* Whole blocks become n floats, as in cr_type_info.dequantize. */
CR_INLINE void decode_blocks(const void *blocks, float *to, size_t n, decoder type)
{
    const uint8_t *block = blocks;
    CR_UNSET unpacked u;
    for (size_t i = 0; i < n; i += type.weights, block += type.bytes) {
        type.unpack(&u, block);
        for (size_t part = 0; part < type.weights / PART; part++) {
            vec w[PART_VECS];
            type.part(w, &u, block, part);
            CR_UNROLL
            for (size_t v = 0; v < PART_VECS; v++)
                vec_store(to + i + PART * part + v * LANES, w[v]);
        }
    }
}

#endif

/* Made by scripts/make-golden-quants; see there. */
/* clang-format off */
#ifndef GOLDEN_QUANTS_H
#define GOLDEN_QUANTS_H

enum { GOLDEN_N = 32768, GOLDEN_SEED = 7 };

/* EXACT(type, hash of the bytes) */
#define GOLDEN_EXACT(EXACT) \
    EXACT(F16, 0x9acc1f891cede293u) \
    EXACT(BF16, 0xb4e3c6bec3716736u) \
    EXACT(Q4_0, 0x5ee2e9b7a6c3fe66u) \
    EXACT(Q4_1, 0x5e7373f9178a5743u) \
    EXACT(Q5_0, 0x199784d2f9a9c8acu) \
    EXACT(Q5_1, 0x9635c64836b713fdu) \
    EXACT(Q8_0, 0xc95c83f53b7e5dd3u)

/* SEARCHED(type, root mean square error) */
#define GOLDEN_SEARCHED(SEARCHED) \
    SEARCHED(Q2_K, 0.00780423425) \
    SEARCHED(Q3_K, 0.00448477337) \
    SEARCHED(Q4_K, 0.00201472361) \
    SEARCHED(Q5_K, 0.00102295471) \
    SEARCHED(Q6_K, 0.000579136473) \
    SEARCHED(IQ4_NL, 0.00243296202) \
    SEARCHED(IQ4_XS, 0.00248672878) \
    SEARCHED(IQ3_S, 0.00589243627) \
    SEARCHED(TQ1_0, 0.0173349048) \
    SEARCHED(TQ2_0, 0.0173349048) \
    SEARCHED(MXFP4, 0.003379513)

#endif

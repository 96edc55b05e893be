/* The random generator of the sampler: xoshiro256**, seeded through SplitMix64. Both are public
 * domain algorithms with published test vectors, so that a seed is a promise that outlives us. */
#ifndef CR_RNG_H
#define CR_RNG_H

#include <stdint.h>

typedef struct cr_rng {
    uint64_t state[4];
} cr_rng;

/* Any seed is good, 0 too. */
void cr_rng_seed(cr_rng *rng, uint64_t seed);
uint64_t cr_rng_next(cr_rng *rng);
/* A number in [0, 1), a multiple of 2^-53. */
double cr_rng_unit(cr_rng *rng);

#endif

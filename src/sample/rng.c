/* xoshiro256** (Blackman and Vigna, 2018): 256 bits of state, a few shifts and xors a number. */
#include "sample/rng.h"

static uint64_t rotate_left(uint64_t x, int n)
{
    return (x << n) | (x >> (64 - n));
}

/* SplitMix64 walks a counter by the golden ratio and scrambles it. It turns one word into the four
 * that xoshiro needs, and never into four zeros, the only state that xoshiro cannot leave. */
static uint64_t splitmix_next(uint64_t *counter)
{
    uint64_t z = *counter += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

void cr_rng_seed(cr_rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        rng->state[i] = splitmix_next(&seed);
}

uint64_t cr_rng_next(cr_rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

double cr_rng_unit(cr_rng *rng)
{
    /* The upper 53 bits: what a double holds exactly. */
    return (double)(cr_rng_next(rng) >> 11) * 0x1p-53;
}

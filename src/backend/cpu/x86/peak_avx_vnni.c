/* What the machine can multiply at best: see kernels.h. */
#include "backend/cpu/x86/avx2.h"

CR_INLINE __m256i load(const void *p)
{
    return _mm256_loadu_si256(p);
}

/* Two products a cycle with a latency of five want ten sums at least. */
uint32_t cr_multiply_int8__avx_vnni(const uint8_t *a, const int8_t *b, size_t n_rounds)
{
    enum { SUMS = 12 };
    __m256i s[SUMS];
    for (int i = 0; i < SUMS; i++)
        s[i] = _mm256_setzero_si256();
    for (size_t round = 0; round < n_rounds; round++) {
        const __m256i x[2] = { load(b + round % 4 * 64), load(b + round % 4 * 64 + 32) };
        for (int at = 0; at < CR_PEAK_MACS; at += 32 * SUMS)
            CR_UNROLL
        for (int i = 0; i < SUMS; i++)
            s[i] = _mm256_dpbusd_avx_epi32(s[i], load(a + at + 32 * i), x[i % 2]);
    }
    for (int i = 1; i < SUMS; i++)
        s[0] = _mm256_add_epi32(s[0], s[i]);
    uint32_t lanes[8], sum = 0;
    _mm256_storeu_si256((__m256i *)lanes, s[0]);
    for (int i = 0; i < 8; i++)
        sum += lanes[i];
    return sum;
}

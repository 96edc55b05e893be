/* What the machine can do at best: see kernels.h. */
#include "backend/cpu/x86/avx2.h"

#include <string.h>

/* One stream, in order: any distance of some KiB does. */
enum { AHEAD = 4096 };

CR_INLINE __m256i load(const void *p)
{
    return _mm256_loadu_si256(p);
}

uint64_t cr_read_all__avx2(const void *p, size_t n)
{
    const uint8_t *at = p;
    __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
    for (; n >= 128; n -= 128, at += 128) {
        prefetch(at + AHEAD, 128);
        s0 = _mm256_add_epi64(s0, load(at));
        s1 = _mm256_add_epi64(s1, load(at + 32));
        s2 = _mm256_add_epi64(s2, load(at + 64));
        s3 = _mm256_add_epi64(s3, load(at + 96));
    }
    uint64_t lanes[4], sum = 0, word;
    const __m256i all = _mm256_add_epi64(_mm256_add_epi64(s0, s1), _mm256_add_epi64(s2, s3));
    _mm256_storeu_si256((__m256i *)lanes, all);
    for (; n > 0; at += CR_MIN(n, sizeof word), n -= CR_MIN(n, sizeof word)) {
        word = 0;
        memcpy(&word, at, CR_MIN(n, sizeof word));
        sum += word;
    }
    return sum + lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

/* 32 products, added in eight lanes. */
CR_INLINE __m256i multiply(__m256i sum, const uint8_t *a, __m256i x)
{
    const __m256i pairs = _mm256_maddubs_epi16(load(a), x);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

uint32_t cr_multiply_int8__avx2(const uint8_t *a, const int8_t *b, size_t n_rounds)
{
    __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
    for (size_t round = 0; round < n_rounds; round++) {
        const int8_t *x = b + round % 4 * 64;
        const __m256i x0 = load(x), x1 = load(x + 32);
        for (int i = 0; i < CR_PEAK_MACS; i += 128) {
            s0 = multiply(s0, a + i, x0);
            s1 = multiply(s1, a + i + 32, x1);
            s2 = multiply(s2, a + i + 64, x0);
            s3 = multiply(s3, a + i + 96, x1);
        }
    }
    uint32_t lanes[8], sum = 0;
    const __m256i all = _mm256_add_epi32(_mm256_add_epi32(s0, s1), _mm256_add_epi32(s2, s3));
    _mm256_storeu_si256((__m256i *)lanes, all);
    for (int i = 0; i < 8; i++)
        sum += lanes[i];
    return sum;
}

/* What the machine can do at best: see kernels.h. */
#include "backend/cpu/x86/avx512.h"

/* One stream, in order: any distance of some KiB does. */
enum { AHEAD = 4096 };

uint64_t cr_read_all__avx512(const void *p, size_t n)
{
    const uint8_t *at = p;
    __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0;
    for (; n >= 256; n -= 256, at += 256) {
        prefetch(at + AHEAD, 256);
        s0 = _mm512_add_epi64(s0, _mm512_loadu_si512(at));
        s1 = _mm512_add_epi64(s1, _mm512_loadu_si512(at + 64));
        s2 = _mm512_add_epi64(s2, _mm512_loadu_si512(at + 128));
        s3 = _mm512_add_epi64(s3, _mm512_loadu_si512(at + 192));
    }
    for (; n > 0; at += CR_MIN(n, 64), n -= CR_MIN(n, 64))
        s0 = _mm512_add_epi64(s0, load_bytes(at, (int)CR_MIN(n, 64)));
    const __m512i sum = _mm512_add_epi64(_mm512_add_epi64(s0, s1), _mm512_add_epi64(s2, s3));
    return (uint64_t)_mm512_reduce_add_epi64(sum);
}

/* Two products a cycle with a latency of five want ten sums at least. */
uint32_t cr_multiply_int8__avx512(const uint8_t *a, const int8_t *b, size_t n_rounds)
{
    __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0;
    __m512i s6 = s0, s7 = s0, s8 = s0, s9 = s0, s10 = s0, s11 = s0;
    for (size_t round = 0; round < n_rounds; round++) {
        const __m512i x = _mm512_loadu_si512(b + round % 4 * 64);
        s0 = _mm512_dpbusd_epi32(s0, _mm512_loadu_si512(a), x);
        s1 = _mm512_dpbusd_epi32(s1, _mm512_loadu_si512(a + 64), x);
        s2 = _mm512_dpbusd_epi32(s2, _mm512_loadu_si512(a + 128), x);
        s3 = _mm512_dpbusd_epi32(s3, _mm512_loadu_si512(a + 192), x);
        s4 = _mm512_dpbusd_epi32(s4, _mm512_loadu_si512(a + 256), x);
        s5 = _mm512_dpbusd_epi32(s5, _mm512_loadu_si512(a + 320), x);
        s6 = _mm512_dpbusd_epi32(s6, _mm512_loadu_si512(a + 384), x);
        s7 = _mm512_dpbusd_epi32(s7, _mm512_loadu_si512(a + 448), x);
        s8 = _mm512_dpbusd_epi32(s8, _mm512_loadu_si512(a + 512), x);
        s9 = _mm512_dpbusd_epi32(s9, _mm512_loadu_si512(a + 576), x);
        s10 = _mm512_dpbusd_epi32(s10, _mm512_loadu_si512(a + 640), x);
        s11 = _mm512_dpbusd_epi32(s11, _mm512_loadu_si512(a + 704), x);
    }
    s0 = _mm512_add_epi32(_mm512_add_epi32(s0, s1), _mm512_add_epi32(s2, s3));
    s4 = _mm512_add_epi32(_mm512_add_epi32(s4, s5), _mm512_add_epi32(s6, s7));
    s8 = _mm512_add_epi32(_mm512_add_epi32(s8, s9), _mm512_add_epi32(s10, s11));
    return (uint32_t)_mm512_reduce_add_epi32(_mm512_add_epi32(_mm512_add_epi32(s0, s4), s8));
}

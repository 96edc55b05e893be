/* What the BF16 kernels of the amx level share. */
#ifndef CR_SPLIT16_H
#define CR_SPLIT16_H

#include "backend/cpu/x86/avx512.h"

enum { DEPTH = 32 }; /* elements of a product: a block */

/* 32 bfloat16 become floats. */
CR_INLINE __m512 widened(__m256i v)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}

/* Block b of a column. */
CR_INLINE void split_block(__m512i *high, __m512i *low, const cr_act *x, size_t b)
{
    const float *f = x->f + b * DEPTH;
    const size_t n = x->n - b * DEPTH;
    const __m512 x0 = _mm512_maskz_loadu_ps(first_lanes(n), f);
    const __m512 x1 = _mm512_maskz_loadu_ps(first_lanes(n > 16 ? n - 16 : 0), f + 16);
    *high = (__m512i)_mm512_cvtne2ps_pbh(x1, x0);
    const __m512 rest0 = _mm512_sub_ps(x0, widened(_mm512_castsi512_si256(*high)));
    const __m512 rest1 = _mm512_sub_ps(x1, widened(_mm512_extracti64x4_epi64(*high, 1)));
    *low = (__m512i)_mm512_cvtne2ps_pbh(rest1, rest0);
}

/* Sixteen vectors of sixteen dwords: dword j of vector i goes to dword i of vector j. */
CR_INLINE void transpose(__m512i v[16])
{
    __m512i t[16];
    CR_UNROLL
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    CR_UNROLL
    for (int i = 0; i < 16; i += 4) {
        v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    /* v[4 i + k] has dwords k, 4 + k, 8 + k and 12 + k of rows 4 i to 4 i + 3. */
    CR_UNROLL
    for (int k = 0; k < 4; k++) {
        const __m512i low0 = _mm512_shuffle_i32x4(v[k], v[4 + k], 0x88);
        const __m512i high0 = _mm512_shuffle_i32x4(v[k], v[4 + k], 0xdd);
        const __m512i low1 = _mm512_shuffle_i32x4(v[8 + k], v[12 + k], 0x88);
        const __m512i high1 = _mm512_shuffle_i32x4(v[8 + k], v[12 + k], 0xdd);
        t[k] = _mm512_shuffle_i32x4(low0, low1, 0x88);
        t[8 + k] = _mm512_shuffle_i32x4(low0, low1, 0xdd);
        t[4 + k] = _mm512_shuffle_i32x4(high0, high1, 0x88);
        t[12 + k] = _mm512_shuffle_i32x4(high0, high1, 0xdd);
    }
    CR_UNROLL
    for (int i = 0; i < 16; i++)
        v[i] = t[i];
}

#endif

/* What the BF16 kernels of the amx level share. */
#ifndef CR_SPLIT16_H
#define CR_SPLIT16_H

#include "backend/cpu/x86/lanes16.h"

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

#endif

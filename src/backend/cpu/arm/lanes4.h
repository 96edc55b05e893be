/* Vectors of four floats, under the names that code for all instruction sets uses. */
#ifndef CR_LANES4_H
#define CR_LANES4_H

#include "backend/cpu/arm/neon.h"

typedef float32x4_t vec;

CR_INLINE vec vec_zero(void)
{
    return vdupq_n_f32(0.0f);
}

CR_INLINE vec vec_load(const float *p)
{
    return vld1q_f32(p);
}

CR_INLINE void vec_store(float *p, vec v)
{
    vst1q_f32(p, v);
}

CR_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}

#endif

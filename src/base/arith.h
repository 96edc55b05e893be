/* Checked arithmetic on sizes. Numbers that come from a file go through these; each returns false,
 * and leaves *out alone, when the result does not fit. */
#ifndef CR_ARITH_H
#define CR_ARITH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool cr_add_size(size_t a, size_t b, size_t *out)
{
    if (a > SIZE_MAX - b)
        return false;
    *out = a + b;
    return true;
}

static inline bool cr_mul_size(size_t a, size_t b, size_t *out)
{
    if (b != 0 && a > SIZE_MAX / b)
        return false;
    *out = a * b;
    return true;
}

static inline bool cr_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    if (b != 0 && a > UINT64_MAX / b)
        return false;
    *out = a * b;
    return true;
}

/* align is a power of two. */
static inline bool cr_align_up(size_t a, size_t align, size_t *out)
{
    if (a > SIZE_MAX - (align - 1))
        return false;
    *out = (a + align - 1) & ~(align - 1);
    return true;
}

#endif

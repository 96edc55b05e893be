/* Asks for bytes that are read soon, into L2. Where there are none, nothing happens. */
#ifndef CR_PREFETCH_H
#define CR_PREFETCH_H

#include "base/compiler.h"

#include <stddef.h>
#include <stdint.h>

/* n_bytes that are known only when it runs. */
CR_INLINE void prefetch_run(const uint8_t *p, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i += 64)
        CR_PREFETCH_L2(p + i);
}

/* A constant number of bytes, written out. */
CR_INLINE void prefetch(const uint8_t *p, size_t n_bytes)
{
    CR_UNROLL
    for (size_t i = 0; i < n_bytes; i += 64)
        CR_PREFETCH_L2(p + i);
}

#endif

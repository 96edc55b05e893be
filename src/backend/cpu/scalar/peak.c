/* What the machine can do at best, in the scalar form that defines the kernels: see kernels.h. */
#include "backend/cpu/kernels.h"

#include <string.h>

uint64_t cr_read_all__scalar(const void *p, size_t n)
{
    const uint8_t *at = p;
    uint64_t sum = 0, word;
    for (; n >= sizeof word; n -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        sum += word;
    }
    word = 0;
    memcpy(&word, at, n);
    return sum + word;
}

uint32_t cr_multiply_int8__scalar(const uint8_t *a, const int8_t *b, size_t n_rounds)
{
    int64_t sum = 0;
    for (size_t round = 0; round < n_rounds; round++)
        for (int i = 0; i < CR_PEAK_MACS; i++)
            sum += a[i] * b[round % 4 * 64 + (size_t)i % 64];
    return (uint32_t)sum;
}

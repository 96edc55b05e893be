/* What the AMX sources share. */
#ifndef CR_AMX_H
#define CR_AMX_H

#include <immintrin.h>
#include <stdatomic.h>
#include <stdint.h>

/* What LDTILECFG reads. */
typedef struct tile_shapes {
    uint8_t palette, start_row, zero[14];
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
} tile_shapes;

#endif

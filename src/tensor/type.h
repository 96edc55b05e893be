/* Element types of tensors: the table, and what each stands for.
 *
 * type.def lists them; tensor/<name>.c has the layout of a block and the scalar code that turns
 * blocks into floats. That code is the definition of the type: every kernel is compared with it. */
#ifndef CR_TYPE_H
#define CR_TYPE_H

#include <stddef.h>
#include <stdint.h>

typedef enum cr_type {
#define TYPE(name, id, weights, bytes, quantize) CR_TYPE_##name,
#include "tensor/type.def"
#undef TYPE
    CR_TYPE_COUNT
} cr_type;

typedef struct cr_type_info {
    const char *name;
    uint32_t id; /* in GGUF */
    int weights; /* per block */
    int block_bytes;
    /* n is a multiple of `weights`. src may have any alignment. */
    void (*dequantize)(const void *src, float *dst, size_t n);
    /* The blocks of n finite weights of at most CR_QUANTIZE_MAX in size; NULL where the type cannot
     * be made without more knowledge of them. dst may have any alignment. */
    void (*quantize)(const float *src, void *dst, size_t n);
} cr_type_info;

/* The largest half: what scales, and F16 itself, can hold. F32 and BF16 take any float. */
#define CR_QUANTIZE_MAX 65504.0f

const cr_type_info *cr_type_get(cr_type type);
/* The type with that GGUF id, or CR_TYPE_COUNT. */
cr_type cr_type_find(uint32_t id);
/* A name for any GGUF id: "Q4_0", names of types this build cannot compute such as "Q8_K" too, and
 * "type 99" written to buf when there is none. */
const char *cr_type_id_name(uint32_t id, char buf[16]);
/* Bytes of n weights; n is a multiple of the block. */
static inline size_t cr_type_bytes(const cr_type_info *info, size_t n)
{
    return n / (size_t)info->weights * (size_t)info->block_bytes;
}

/* IEEE half and bfloat16. Exact to float; from float rounds to nearest even, NaN stays NaN. */
float cr_f16_to_f32(uint16_t h);
uint16_t cr_f32_to_f16(float f);
float cr_bf16_to_f32(uint16_t b);
uint16_t cr_f32_to_bf16(float f);

/* What the nibbles of IQ4_NL and IQ4_XS stand for. */
extern const int8_t cr_iq4_levels[16];

#define TYPE(name, id, weights, bytes, quantize)                                                   \
    void cr_dequantize_##name(const void *src, float *dst, size_t n);                              \
    void cr_quantize_##name(const float *src, void *dst, size_t n);
#include "tensor/type.def"
#undef TYPE

#endif

/* Adapters of random numbers for toy models, built in memory: scripts/make-golden-adapters makes
 * the same. */
#ifndef TOY_ADAPTER_H
#define TOY_ADAPTER_H

#include "support/toy_model.h"

/* A tensor, dimensions in GGUF's order. */
typedef struct toy_part {
    const char *name;
    cr_type type;
    int n_dims;
    uint64_t dims[4];
} toy_part;

static inline uint64_t toy_part_rows(const toy_part *part)
{
    uint64_t n = 1;
    for (int i = 1; i < part->n_dims; i++)
        n *= part->dims[i];
    return n;
}

static inline size_t toy_part_bytes(const toy_part *part)
{
    return (size_t)toy_part_rows(part) *
           cr_type_bytes(cr_type_get(part->type), (size_t)part->dims[0]);
}

/* The list of tensors, and their data, behind the keys. */
static inline void toy_parts_build(gguf_build *out, uint64_t seed, const toy_part *parts, size_t n)
{
    size_t offset = 0;
    for (size_t i = 0; i < n; i++) {
        build_tensor(out, parts[i].name, cr_type_get(parts[i].type)->id, offset,
                     (uint32_t)parts[i].n_dims, parts[i].dims);
        offset += (toy_part_bytes(&parts[i]) + 31) / 32 * 32;
    }
    for (size_t i = 0; i < n; i++) {
        build_data(out, 32, 0);
        toy_matrix(out, seed, parts[i].name, parts[i].type, parts[i].dims[0],
                   toy_part_rows(&parts[i]));
    }
    build_data(out, 32, 0);
}

/* A GGUF file; alpha 0: without the key. */
static inline void toy_lora_build(gguf_build *out, const char *arch, uint64_t seed, float alpha,
                                  const toy_part *parts, size_t n)
{
    build_init(out);
    build_header(out, 3, n, alpha != 0 ? 4 : 3);
    build_key_text(out, "general.architecture", arch);
    build_key_text(out, "general.type", "adapter");
    build_key_text(out, "adapter.type", "lora");
    if (alpha != 0) {
        uint32_t bits;
        memcpy(&bits, &alpha, sizeof bits);
        build_key_number(out, "adapter.lora.alpha", 6, bits, 4);
    }
    toy_parts_build(out, seed, parts, n);
}

/* A control vector. */
static inline void toy_control_build(gguf_build *out, uint64_t seed, const toy_part *parts,
                                     size_t n)
{
    build_init(out);
    build_header(out, 3, n, 1);
    build_key_text(out, "general.architecture", "controlvector");
    toy_parts_build(out, seed, parts, n);
}

/* LoRA as safetensors: shapes the other way round, F32. */
static inline void toy_safetensors_build(gguf_build *out, uint64_t seed, const toy_part *parts,
                                         size_t n)
{
    gguf_build header;
    build_init(&header);
    build_bytes(&header, "{", 1);
    size_t offset = 0;
    for (size_t i = 0; i < n; i++) {
        char text[512];
        size_t end = offset + toy_part_bytes(&parts[i]);
        int size = snprintf(
            text, sizeof text,
            "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%llu,%llu],\"data_offsets\":[%zu,%zu]}",
            i > 0 ? "," : "", parts[i].name, (unsigned long long)parts[i].dims[1],
            (unsigned long long)parts[i].dims[0], offset, end);
        build_bytes(&header, text, (size_t)size);
        offset = end;
    }
    build_bytes(&header, "}", 1);
    build_init(out);
    build_number(out, header.size, 8);
    build_bytes(out, header.data, header.size);
    for (size_t i = 0; i < n; i++)
        toy_matrix(out, seed, parts[i].name, CR_TYPE_F32, parts[i].dims[0],
                   toy_part_rows(&parts[i]));
    build_done(&header);
}

#endif

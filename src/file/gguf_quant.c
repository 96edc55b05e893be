/* How a file is quantised, in the words of its users. */
#include "file/gguf.h"

static const struct {
    uint32_t id; /* general.file_type */
    const char *name;
} file_types[] = {
    { 0, "F32" },      { 1, "F16" },      { 2, "Q4_0" },    { 3, "Q4_1" },    { 7, "Q8_0" },
    { 8, "Q5_0" },     { 9, "Q5_1" },     { 10, "Q2_K" },   { 11, "Q3_K_S" }, { 12, "Q3_K_M" },
    { 13, "Q3_K_L" },  { 14, "Q4_K_S" },  { 15, "Q4_K_M" }, { 16, "Q5_K_S" }, { 17, "Q5_K_M" },
    { 18, "Q6_K" },    { 19, "IQ2_XXS" }, { 20, "IQ2_XS" }, { 21, "Q2_K_S" }, { 22, "IQ3_XS" },
    { 23, "IQ3_XXS" }, { 24, "IQ1_S" },   { 25, "IQ4_NL" }, { 26, "IQ3_S" },  { 27, "IQ3_M" },
    { 28, "IQ2_S" },   { 29, "IQ2_M" },   { 30, "IQ4_XS" }, { 31, "IQ1_M" },  { 32, "BF16" },
    { 36, "TQ1_0" },   { 37, "TQ2_0" },   { 38, "MXFP4" },
};

/* The type that most of the weights have. */
static const char *commonest_type(const cr_gguf *file)
{
    uint64_t count[CR_TYPE_COUNT] = { 0 };
    for (size_t i = 0; i < cr_gguf_n_tensors(file); i++) {
        const cr_tensor *tensor = cr_gguf_tensor(file, i);
        if (tensor->type != CR_TYPE_COUNT)
            count[tensor->type] += tensor->size / (size_t)cr_type_get(tensor->type)->block_bytes *
                                   (uint64_t)cr_type_get(tensor->type)->weights;
    }
    size_t best = 0;
    for (size_t i = 1; i < CR_TYPE_COUNT; i++)
        best = count[i] > count[best] ? i : best;
    return count[best] > 0 ? cr_type_get((cr_type)best)->name : "unknown";
}

bool cr_gguf_quant_id(const char *name, uint32_t *id)
{
    for (size_t i = 0; i < CR_COUNT(file_types); i++) {
        if (strcmp(file_types[i].name, name) == 0) {
            *id = file_types[i].id;
            return true;
        }
    }
    return false;
}

const char *cr_gguf_quant_name(const cr_gguf *file)
{
    uint32_t id = UINT32_MAX;
    if (cr_gguf_get_u32(file, "general.file_type", CR_OPTIONAL, &id, NULL) == CERA_OK) {
        for (size_t i = 0; i < CR_COUNT(file_types); i++) {
            if (file_types[i].id == id)
                return file_types[i].name;
        }
    }
    return commonest_type(file);
}

/* The table of element types, from type.def, and the names of all types that GGUF files use. */
#include "tensor/type.h"

#include "base/compiler.h"

#include <assert.h>
#include <string.h>

static const cr_type_info types[CR_TYPE_COUNT] = {
#define TYPE(name, id, weights, bytes, quantize)                                                   \
    { #name, id, weights, bytes, cr_dequantize_##name, quantize },
#include "tensor/type.def"
#undef TYPE
};

/* Types that exist in files but that this build cannot compute with. They keep their names, so that
 * a file can be listed and a refusal can say what it refuses. */
static const struct {
    uint32_t id;
    const char *name;
} other_names[] = {
    { 9, "Q8_1" }, { 15, "Q8_K" }, { 24, "I8" },  { 25, "I16" },
    { 26, "I32" }, { 27, "I64" },  { 28, "F64" }, { 40, "NVFP4" },
};

const cr_type_info *cr_type_get(cr_type type)
{
    assert((unsigned)type < CR_TYPE_COUNT);
    return &types[type];
}

cr_type cr_type_find(uint32_t id)
{
    for (size_t i = 0; i < CR_COUNT(types); i++) {
        if (types[i].id == id)
            return (cr_type)i;
    }
    return CR_TYPE_COUNT;
}

/* "type 4294967295" is the longest and fills buf exactly. */
static const char *number_name(uint32_t id, char buf[16])
{
    char digits[10];
    size_t n = 0;
    do
        digits[n++] = (char)('0' + id % 10);
    while ((id /= 10) != 0);

    char *at = buf;
    memcpy(at, "type ", 5);
    at += 5;
    while (n > 0)
        *at++ = digits[--n];
    *at = '\0';
    return buf;
}

const char *cr_type_id_name(uint32_t id, char buf[16])
{
    cr_type type = cr_type_find(id);
    if (type != CR_TYPE_COUNT)
        return types[type].name;
    for (size_t i = 0; i < CR_COUNT(other_names); i++) {
        if (other_names[i].id == id)
            return other_names[i].name;
    }
    return number_name(id, buf);
}

/* Reads everything that an open GGUF file gives: each key by position and by name, each element,
 * each tensor and its bytes. Returns a sum, so that no read can be left out. */
#ifndef GGUF_WALK_H
#define GGUF_WALK_H

#include "file/gguf.h"

static inline uint64_t walk_value(const cera_value *value)
{
    uint64_t sum = (uint64_t)value->type + value->count;
    switch (value->type) {
    case CERA_VALUE_STRING:
        for (size_t i = 0; i < value->as.s.size; i++)
            sum = sum * 31 + (unsigned char)value->as.s.text[i];
        return sum;
    case CERA_VALUE_F32:
    case CERA_VALUE_F64:
        return sum + (value->as.f > 0);
    case CERA_VALUE_BOOL:
        return sum + value->as.b;
    case CERA_VALUE_ARRAY:
        for (uint64_t i = 0; i < value->count; i++) {
            cera_value element;
            cr_gguf_element(value, i, &element);
            sum = sum * 31 + (element.type == value->element ? walk_value(&element) : 0);
        }
        return sum;
    default:
        return sum + value->as.u;
    }
}

/* found counts what lookups by name give back; it must equal keys plus tensors. */
static inline uint64_t walk_file(const cr_gguf *file, size_t *found)
{
    uint64_t sum = 0;
    *found = 0;
    for (size_t i = 0; i < cr_gguf_n_keys(file); i++) {
        cera_value value, again;
        cr_str name = cr_gguf_key(file, i, &value);
        sum = sum * 31 + walk_value(&value) + name.size;
        if (cr_gguf_find(file, name.data, &again) && again.type == value.type &&
            again.count == value.count && again.as.u == value.as.u)
            ++*found;
    }
    for (size_t i = 0; i < cr_gguf_n_tensors(file); i++) {
        const cr_tensor *tensor = cr_gguf_tensor(file, i);
        for (size_t j = 0; j < tensor->size; j++)
            sum += tensor->data[j];
        sum = sum * 31 + strlen(cr_gguf_type_name(tensor)) + tensor->offset;
        if (cr_gguf_find_tensor(file, tensor->name.data) == tensor)
            ++*found;
    }
    return sum;
}

#endif

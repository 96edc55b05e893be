/* GGUF values: from bytes to numbers, and conversions that lose nothing. */
#include "file/gguf_internal.h"

#include <assert.h>
#include <math.h>

size_t cr_gguf_value_size(cera_value_type type)
{
    switch (type) {
    case CERA_VALUE_U8:
    case CERA_VALUE_I8:
    case CERA_VALUE_BOOL:
        return 1;
    case CERA_VALUE_U16:
    case CERA_VALUE_I16:
        return 2;
    case CERA_VALUE_U32:
    case CERA_VALUE_I32:
    case CERA_VALUE_F32:
        return 4;
    case CERA_VALUE_U64:
    case CERA_VALUE_I64:
    case CERA_VALUE_F64:
        return 8;
    case CERA_VALUE_STRING:
    case CERA_VALUE_ARRAY:
        break;
    }
    return 0;
}

static const char *type_name(cera_value_type type)
{
    static const char *const names[CR_GGUF_N_VALUE_TYPES] = {
        [CERA_VALUE_U8] = "u8",       [CERA_VALUE_I8] = "i8",     [CERA_VALUE_U16] = "u16",
        [CERA_VALUE_I16] = "i16",     [CERA_VALUE_U32] = "u32",   [CERA_VALUE_I32] = "i32",
        [CERA_VALUE_F32] = "f32",     [CERA_VALUE_BOOL] = "bool", [CERA_VALUE_STRING] = "string",
        [CERA_VALUE_ARRAY] = "array", [CERA_VALUE_U64] = "u64",   [CERA_VALUE_I64] = "i64",
        [CERA_VALUE_F64] = "f64",
    };
    return names[type];
}

/* A number or bool at p. Conversions to signed types rely on two's complement, as C23 demands. */
static void load_number(cera_value_type type, const uint8_t *p, cera_value *out)
{
    *out = (cera_value){ .type = type };
    switch (type) {
    case CERA_VALUE_U8:
        out->as.u = p[0];
        break;
    case CERA_VALUE_I8:
        out->as.i = p[0] < 128 ? p[0] : p[0] - 256;
        break;
    case CERA_VALUE_U16:
        out->as.u = cr_gguf_load_u16(p);
        break;
    case CERA_VALUE_I16:
        out->as.i = (int16_t)cr_gguf_load_u16(p);
        break;
    case CERA_VALUE_U32:
        out->as.u = cr_gguf_load_u32(p);
        break;
    case CERA_VALUE_I32:
        out->as.i = (int32_t)cr_gguf_load_u32(p);
        break;
    case CERA_VALUE_U64:
        out->as.u = cr_gguf_load_u64(p);
        break;
    case CERA_VALUE_I64:
        out->as.i = (int64_t)cr_gguf_load_u64(p);
        break;
    case CERA_VALUE_F32: {
        uint32_t bits = cr_gguf_load_u32(p);
        float f;
        memcpy(&f, &bits, sizeof f);
        out->as.f = (double)f;
        break;
    }
    case CERA_VALUE_F64: {
        uint64_t bits = cr_gguf_load_u64(p);
        memcpy(&out->as.f, &bits, sizeof bits);
        break;
    }
    case CERA_VALUE_BOOL:
        out->as.b = p[0] != 0;
        break;
    case CERA_VALUE_STRING:
    case CERA_VALUE_ARRAY:
        assert(false);
        break;
    }
}

void cr_gguf_value_of(const cr_gguf_entry *entry, cera_value *out)
{
    cera_value_type type = (cera_value_type)entry->type;
    if (type == CERA_VALUE_STRING) {
        *out = (cera_value){ .type = type };
        out->as.s.text = entry->value;
        out->as.s.size = (size_t)entry->count;
    } else if (type == CERA_VALUE_ARRAY) {
        *out = (cera_value){
            .type = type,
            .element = (cera_value_type)entry->element,
            .count = entry->count,
        };
        out->as.s.text = entry->value; /* for cr_gguf_element alone */
    } else {
        load_number(type, entry->value, out);
    }
}

void cr_gguf_element(const cera_value *array, uint64_t i, cera_value *out)
{
    assert(array->type == CERA_VALUE_ARRAY && i < array->count);
    cera_value_type element = array->element;
    if (element != CERA_VALUE_STRING) {
        const uint8_t *first = (const uint8_t *)array->as.s.text;
        load_number(element, first + (size_t)i * cr_gguf_value_size(element), out);
        return;
    }
    const uint8_t *const *table = (const uint8_t *const *)(const void *)array->as.s.text;
    const uint8_t *string = table[i];
    *out = (cera_value){ .type = element };
    out->as.s.size = (size_t)cr_gguf_load_u64(string);
    out->as.s.text = (const char *)string + 8;
}

/* ---- typed reading --------------------------------------------------------------------------- */

static bool is_unsigned(cera_value_type type)
{
    return type == CERA_VALUE_U8 || type == CERA_VALUE_U16 || type == CERA_VALUE_U32 ||
           type == CERA_VALUE_U64;
}

static bool is_signed(cera_value_type type)
{
    return type == CERA_VALUE_I8 || type == CERA_VALUE_I16 || type == CERA_VALUE_I32 ||
           type == CERA_VALUE_I64;
}

bool cr_gguf_value_to_u32(const cera_value *value, uint32_t *out)
{
    if (is_unsigned(value->type) && value->as.u <= UINT32_MAX)
        *out = (uint32_t)value->as.u;
    else if (is_signed(value->type) && value->as.i >= 0 && value->as.i <= (int64_t)UINT32_MAX)
        *out = (uint32_t)value->as.i;
    else
        return false;
    return true;
}

static bool to_f32(const cera_value *value, float *out)
{
    if (value->type == CERA_VALUE_F32 || value->type == CERA_VALUE_F64) {
        double wide = value->as.f;
        /* Beyond the range of float the conversion itself would be undefined. */
        if (isfinite(wide) && fabs(wide) > (double)3.40282346638528859812e38f)
            return false;
        float narrow = (float)wide;
        if ((double)narrow != wide && !isnan(wide))
            return false;
        *out = narrow;
        return true;
    }
    /* Integers up to 2^24 are all floats. */
    enum { EXACT = 1 << 24 };
    if (is_unsigned(value->type) && value->as.u <= EXACT)
        *out = (float)value->as.u;
    else if (is_signed(value->type) && value->as.i >= -EXACT && value->as.i <= EXACT)
        *out = (float)value->as.i;
    else
        return false;
    return true;
}

static cera_status missing(const char *key, cr_need need, cera_error *err)
{
    if (need == CR_OPTIONAL)
        return CERA_OK;
    return cr_fail(err, CERA_E_FORMAT, "%s: the file does not have this key", key);
}

/* "key: expected X, found a u64 of 5000000000" */
static cera_status wrong_type(const char *key, const char *expected, const cera_value *value,
                              cera_error *err)
{
    const char *found = type_name(value->type);
    if (value->type == CERA_VALUE_ARRAY)
        return cr_fail(err, CERA_E_FORMAT, "%s: expected %s, found an array of %s", key, expected,
                       type_name(value->element));
    if (is_unsigned(value->type))
        return cr_fail(err, CERA_E_FORMAT, "%s: expected %s, found %s %llu", key, expected, found,
                       (unsigned long long)value->as.u);
    if (is_signed(value->type))
        return cr_fail(err, CERA_E_FORMAT, "%s: expected %s, found %s %lld", key, expected, found,
                       (long long)value->as.i);
    if (value->type == CERA_VALUE_F32 || value->type == CERA_VALUE_F64)
        return cr_fail(err, CERA_E_FORMAT, "%s: expected %s, found %s %.17g", key, expected, found,
                       value->as.f);
    return cr_fail(err, CERA_E_FORMAT, "%s: expected %s, found a %s", key, expected, found);
}

cera_status cr_gguf_get_u32(const cr_gguf *file, const char *key, cr_need need, uint32_t *out,
                            cera_error *err)
{
    cera_value value;
    if (!cr_gguf_find(file, key, &value))
        return missing(key, need, err);
    if (!cr_gguf_value_to_u32(&value, out))
        return wrong_type(key, "an integer from 0 to 4294967295", &value, err);
    return CERA_OK;
}

cera_status cr_gguf_get_f32(const cr_gguf *file, const char *key, cr_need need, float *out,
                            cera_error *err)
{
    cera_value value;
    if (!cr_gguf_find(file, key, &value))
        return missing(key, need, err);
    if (!to_f32(&value, out))
        return wrong_type(key, "a number that is exact in f32", &value, err);
    return CERA_OK;
}

cera_status cr_gguf_get_bool(const cr_gguf *file, const char *key, cr_need need, bool *out,
                             cera_error *err)
{
    cera_value value;
    if (!cr_gguf_find(file, key, &value))
        return missing(key, need, err);
    if (value.type != CERA_VALUE_BOOL)
        return wrong_type(key, "a bool", &value, err);
    *out = value.as.b;
    return CERA_OK;
}

cera_status cr_gguf_get_str(const cr_gguf *file, const char *key, cr_need need, cr_str *out,
                            cera_error *err)
{
    cera_value value;
    if (!cr_gguf_find(file, key, &value))
        return missing(key, need, err);
    if (value.type != CERA_VALUE_STRING)
        return wrong_type(key, "a string", &value, err);
    *out = (cr_str){ value.as.s.text, value.as.s.size };
    return CERA_OK;
}

#include "convert/json_read.h"

#include <float.h>
#include <math.h>

cera_status cr_json_load(const void *bytes, size_t n, const char *path, json_t **out,
                         cera_error *err)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_error_t why;
    const char *text = bytes != NULL ? bytes : "";
    json_t *json = json_loadb(text, n, flags, &why);
    /* "No limit" is often written as a number of thirty digits. */
    if (json == NULL && json_error_code(&why) == json_error_numeric_overflow)
        json = json_loadb(text, n, flags | JSON_DECODE_INT_AS_REAL, &why);
    if (json == NULL && json_error_code(&why) == json_error_out_of_memory)
        return cr_fail_nomem(err, n, path);
    if (json == NULL)
        return cr_fail(err, CERA_E_FORMAT, "%s: line %d: %s", path, why.line, why.text);
    if (!json_is_object(json)) {
        json_decref(json);
        return cr_fail(err, CERA_E_FORMAT, "%s: expected a JSON object", path);
    }
    *out = json;
    return CERA_OK;
}

bool cr_json_u32(const json_t *object, const char *key, uint32_t *out)
{
    const json_t *value = json_object_get(object, key);
    double number = json_number_value(value);
    if (!json_is_number(value) || !(number >= 0 && number <= UINT32_MAX) || number != floor(number))
        return false;
    *out = (uint32_t)number;
    return true;
}

bool cr_json_f32(const json_t *object, const char *key, float *out)
{
    const json_t *value = json_object_get(object, key);
    double number = json_number_value(value);
    if (!json_is_number(value) || !(number >= -FLT_MAX && number <= FLT_MAX))
        return false;
    *out = (float)number;
    return true;
}

bool cr_json_bool(const json_t *object, const char *key, bool fallback)
{
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

cr_str cr_json_text(const json_t *string)
{
    return json_is_string(string)
               ? (cr_str){ json_string_value(string), json_string_length(string) }
               : (cr_str){ "", 0 };
}

cr_str cr_json_str(const json_t *object, const char *key)
{
    return cr_json_text(json_object_get(object, key));
}

/* Any bytes as JSON, beside Jansson: both read the same texts and see the same values in them. */
#include "base/json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "fuzz_json: %s\n", what);
    abort();
}

static void compare(const cr_json *mine, json_t *other)
{
    static const json_type types[] = { JSON_NULL,   JSON_FALSE, JSON_TRUE,  JSON_REAL,
                                       JSON_STRING, JSON_ARRAY, JSON_OBJECT };
    double number;
    need(json_typeof(other) == types[mine->kind], "another kind of value");
    need(cr_json_is(mine, CR_JSON_ARRAY) ? mine->n == json_array_size(other)
                                         : mine->n == json_object_size(other),
         "another number of children");
    if (mine->kind == CR_JSON_NUMBER)
        need(cr_json_f64(mine, &number) && number == json_real_value(other), "another number");
    if (mine->kind == CR_JSON_STRING)
        need(cr_str_same(mine->text,
                         (cr_str){ json_string_value(other), json_string_length(other) }),
             "another string");
    const cr_json *last = NULL;
    for (const cr_json *child = mine->first; child; last = child, child = child->next) {
        need(child->parent == mine && child->index == (last ? last->index + 1 : 0), "its place");
        if (mine->kind == CR_JSON_OBJECT)
            need(cr_json_get_str(mine, child->key) == child, "a member is not found");
        compare(child, mine->kind == CR_JSON_ARRAY
                           ? json_array_get(other, child->index)
                           : json_object_getn(other, child->key.data, child->key.size));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const cr_json_rules rules = { .max_bytes = 1 << 20,
                                         .max_values = 1 << 20,
                                         .max_depth = 200 };
    cr_host host;
    cr_arena arena;
    const cr_json *mine;
    json_error_t why;
    need(cr_host_set(&host, NULL, NULL) == CERA_OK, "the host");
    cr_arena_init(&arena, &host, CR_MEM_OBJECT);
    cera_status status =
        cr_json_parse((cr_str){ (const char *)data, size }, "text", &rules, &arena, &mine, NULL);
    json_t *other = json_loadb(
        (const char *)data, size,
        JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &why);
    if (status == CERA_OK && other)
        compare(mine, other);
    /* Jansson refuses numbers beyond doubles and names with a NUL, and is asked for no less
     * depth. */
    enum json_error_code code = other ? json_error_unknown : json_error_code(&why);
    if (status == CERA_OK)
        need(other || code == json_error_numeric_overflow || code == json_error_null_byte_in_key,
             "Jansson refuses it");
    /* It passes over a NUL behind a number. */
    if (other && !(size > 0 && memchr(data, '\0', size)))
        need(status != CERA_E_FORMAT, "Jansson takes it");
    json_decref(other);
    cr_arena_done(&arena);
    need(cr_host_live(&host) == 0, "memory is left");
    return 0;
}

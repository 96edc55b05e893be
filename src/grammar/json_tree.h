/* JSON text as a tree in an arena. Numbers keep their text, because a schema's 0.1 is a decimal and
 * no double; strings are decoded; members keep their order. */
#ifndef CR_JSON_TREE_H
#define CR_JSON_TREE_H

#include "base/arena.h"
#include "base/text.h"

enum { CR_JSON_MAX_DEPTH = 256 };

typedef enum cr_json_kind {
    CR_JSON_NULL,
    CR_JSON_FALSE,
    CR_JSON_TRUE,
    CR_JSON_NUMBER,
    CR_JSON_STRING,
    CR_JSON_ARRAY,
    CR_JSON_OBJECT,
} cr_json_kind;

typedef struct cr_json cr_json;
struct cr_json {
    cr_json_kind kind;
    cr_str text; /* of a number as it is, of a string decoded */
    cr_str key;  /* in an object */
    size_t n;    /* children */
    size_t index;
    cr_json *first, *next;
    const cr_json *parent;
};

/* CERA_E_FORMAT with line and column; CERA_E_LIMIT for deeper nesting than CR_JSON_MAX_DEPTH.
 * Members with the same key are refused. */
cera_status cr_json_parse(cr_str text, const char *what, cr_arena *arena, const cr_json **out,
                          cera_error *err);
/* The member, NULL when there is none or this is no object. */
const cr_json *cr_json_get(const cr_json *object, const char *key);
const cr_json *cr_json_get_str(const cr_json *object, cr_str key);
/* Whether two values are the same; numbers by their text. */
bool cr_json_equal(const cr_json *a, const cr_json *b);

#endif

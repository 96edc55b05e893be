/* JSON text as a tree in an arena: the one reader of JSON in the library.
 *
 *     { "a": [1, 2] }         object, n 1
 *                               first ─> array, key "a", n 2
 *                                          first ─> number "1" ─next─> number "2"
 *
 * Members and elements keep the order of the text. Numbers keep their text, because 0.1 is a
 * decimal and no double, and because an id may have more digits than a double; who wants a number
 * converts it. Strings without escapes point into the text, which therefore lives as long as the
 * tree. The grammar is that of RFC 8259, in UTF-8, without a byte-order mark. */
#ifndef CR_JSON_H
#define CR_JSON_H

#include "base/arena.h"
#include "base/text.h"

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
    uint32_t n;     /* children */
    uint32_t index; /* among its parent's children */
    bool is_made;   /* by a program out of its parent, whose place it has in messages */
    cr_str text;    /* of a number as it is, of a string decoded */
    cr_str key;     /* of a member, decoded */
    cr_json *parent, *first, *next;
    const cr_json **slots; /* of a large object: its members by hash; else NULL */
};

/* What a text has to keep to. Members of the same name are refused, because readers of the same
 * text that disagree about which one counts are how checks are got round. */
typedef struct cr_json_rules {
    size_t max_bytes, max_values;
    int max_depth;
    bool allow_repeats; /* a name may come again; cr_json_get finds the first */
    bool
        allow_constants; /* NaN, Infinity and -Infinity are numbers, as Python's json writes them */
} cr_json_rules;

/* Reads a text; what: its name in errors. CERA_E_FORMAT with line, column (in bytes) and, below the
 * root, the JSON pointer of the place; CERA_E_LIMIT for what exceeds the rules; CERA_E_NOMEM. The
 * tree is in the arena, where a failure leaves what there was of it. */
cera_status cr_json_parse(cr_str text, const char *what, const cr_json_rules *rules,
                          cr_arena *arena, const cr_json **out, cera_error *err);

/* Everything below takes NULL for a value that is not there. */

/* The member; NULL when there is none or this is no object. In constant time, whatever the size. */
const cr_json *cr_json_get(const cr_json *object, const char *key);
const cr_json *cr_json_get_str(const cr_json *object, cr_str key);
/* The element; NULL when there is none or this is no array. In the time of a walk to it: to see
 * all, follow `first` and `next`. */
const cr_json *cr_json_at(const cr_json *array, size_t index);

static inline bool cr_json_is(const cr_json *value, cr_json_kind kind)
{
    return value != NULL && value->kind == kind;
}
/* Children of a container of this kind; 0 for anything else. */
size_t cr_json_count(const cr_json *value, cr_json_kind kind);
/* The first of them, likewise; NULL when there is none. */
const cr_json *cr_json_first(const cr_json *value, cr_json_kind kind);

/* A string's text; "" for anything else. */
cr_str cr_json_str(const cr_json *value);
/* true or false; `otherwise` for anything else. */
bool cr_json_bool(const cr_json *value, bool otherwise);
/* Numbers; false, with *out as it was, when it is no number or none that fits. An i64 is written as
 * an integer, a u32 may be written as 4.0 too; an f32 is finite. */
bool cr_json_i64(const cr_json *value, int64_t *out);
bool cr_json_u32(const cr_json *value, uint32_t *out);
bool cr_json_f64(const cr_json *value, double *out);
bool cr_json_f32(const cr_json *value, float *out);

/* Whether two values are the same; numbers by their text, objects in any order. */
bool cr_json_equal(const cr_json *a, const cr_json *b);

/* Where a value is below `root` (NULL: the root of all), as a JSON pointer (RFC 6901): "/a/0/b~1c",
 * "" for the root itself. What does not fit into out[room] is cut at the front. */
void cr_json_pointer(const cr_json *root, const cr_json *value, char *out, size_t room);

#endif

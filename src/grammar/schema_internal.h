/* What the files of the schema compiler share. */
#ifndef CR_SCHEMA_INTERNAL_H
#define CR_SCHEMA_INTERNAL_H

#include "base/json.h"
#include "grammar/dfa.h"
#include "grammar/schema.h"

/* Schemas that a value has to satisfy all of, after $ref and allOf were followed. */
enum { CR_MAX_PARTS = 128 };

typedef struct cr_part {
    const cr_json *schema;
    /* A keyword (const, enum, pattern, required with one name) that must not hold, the schema then
     * being `true`; NULL: none. */
    const cr_json *excluded;
    int from;      /* the part that led to it, -1: none */
    bool any_done; /* a branch of its anyOf was chosen, and is a part too */
    bool one_done;
} cr_part;

typedef struct cr_parts {
    cr_part part[CR_MAX_PARTS];
    int n;
    int n_expanded; /* these have been: cr_parts_expand */
} cr_parts;

/* Kinds of values, as bits. A number that is no integer is a kind of its own. */
enum {
    CR_IS_NULL = 1,
    CR_IS_BOOL = 2,
    CR_IS_OBJECT = 4,
    CR_IS_ARRAY = 8,
    CR_IS_STRING = 16,
    CR_IS_INTEGER = 32,
    CR_IS_FRACTION = 64,
    CR_IS_ANY = 127,
};

typedef struct cr_compiler {
    cr_host *host;
    cr_arena arena;
    cr_dfa_shop shop;
    const cr_schema_options *options;
    const cr_json *root; /* the document, in which references point */
    const cr_json *top;  /* what is compiled of it */
    cr_buf *out;         /* finished rules */
    cr_buf known;        /* of what schema.c knows of rules */
    cr_buf made;         /* schemas that schema_not.c made */
    uint32_t n_names;
    int depth;
    const cr_json *choice; /* the last one of which a branch was begun, for messages; or NULL */
    /* The texts that may stand without quotes, while rules for such are made; NULL: JSON. */
    const cr_dfa *plain;
    bool is_widest;        /* string sets have every string that some reader accepts */
    bool is_exact;         /* cr_schema_check says 0 only for what every reader refuses */
    bool no_divisors;      /* multipleOf was left out here */
    bool no_memory;        /* text could not be appended */
    const cr_json *unmet;  /* where something was found last that no value satisfies, or NULL */
    const cr_json *making; /* the keyword that schemas are being made for */
    cera_error *err;
} cr_compiler;

/* A rule that is being written; its name is a letter and a number. */
typedef struct cr_text {
    cr_compiler *c;
    cr_buf buf;
} cr_text;

void cr_text_init(cr_text *t, cr_compiler *c);
void cr_text_put(cr_text *t, const char *format, ...) CR_PRINTF(2, 3);
/* A text between quotes: as it is, or as the inside of a JSON string. */
void cr_text_literal(cr_text *t, cr_str text);
void cr_text_json_string(cr_text *t, cr_str text);
/* Writes "name ::= text" and frees the text. */
void cr_text_finish(cr_text *t, char letter, uint32_t number);
void cr_text_drop(cr_text *t);

/* "schema: #/place: what", with the place of `at`. */
cera_status cr_schema_fail(const cr_compiler *c, const cr_json *at, cera_status status,
                           const char *format, ...) CR_PRINTF(4, 5);
/* For what cannot be said: a failure, or with `lenient` a warning and CERA_OK. */
cera_status cr_schema_skip(cr_compiler *c, const cr_json *at, const char *why);
/* Puts the place before a message that is there. */
cera_status cr_schema_fail_in(const cr_compiler *c, const cr_json *at, cera_status status);
cera_status cr_schema_no_memory(const cr_compiler *c);

/* A rule for values that satisfy all parts; *rule 0 when there is none. Expands them first. */
cera_status cr_schema_rule(cr_compiler *c, cr_parts *parts, uint32_t *rule);
typedef enum cr_keyword_use {
    CR_KEYWORD_ENFORCED,
    CR_KEYWORD_REMARK,
    CR_KEYWORD_REFUSED, /* and those that are not known */
} cr_keyword_use;
cr_keyword_use cr_schema_keyword(cr_str name);
/* Fails, or with `lenient` warns, for keywords that are refused. */
cera_status cr_schema_check_keywords(cr_compiler *c, const cr_json *schema);
/* What a $ref points to; NULL when it was left out. */
cera_status cr_schema_resolve(cr_compiler *c, const cr_json *ref, const cr_json **out);
cera_status cr_parts_add(cr_compiler *c, cr_parts *parts, const cr_json *schema, int from);
/* As it is; there is a limit, which an error names for `at`. */
cera_status cr_parts_append(cr_compiler *c, cr_parts *parts, cr_part part, const cr_json *at);
/* The parts that `not`, `if` and `dependent...` of part i stand for. */
cera_status cr_parts_expand_not(cr_compiler *c, cr_parts *parts, int i);
/* What a part excludes: a name, a pattern, values (before NULL: the first one); NULL: none. */
const cr_json *cr_part_excluded_name(const cr_part *part);
const cr_json *cr_part_excluded_pattern(const cr_part *part);
const cr_json *cr_part_next_excluded(const cr_part *part, const cr_json *before);
/* The first of these keywords that the parts have, of the last one that has it; without any, what is
 * excluded, or the first part: for messages. The names end in NUL, their list in another one. */
const cr_json *cr_parts_keyword(const cr_parts *parts, const char *names);
/* $ref, allOf, not and conditions; *none when a part is `false`. */
cera_status cr_parts_expand(cr_compiler *c, cr_parts *parts, bool *none);
/* The kinds that all parts allow. */
cera_status cr_parts_kinds(cr_compiler *c, const cr_parts *parts, unsigned *kinds);
/* What a number of elements or characters may be; *most UINT32_MAX: no limit. */
cera_status cr_parts_counts(cr_compiler *c, const cr_parts *parts, const char *least_key,
                            const char *most_key, uint32_t *least, uint32_t *most);

/* Each appends an alternative for its kind of value; *none when nothing satisfies the parts. */
cera_status cr_schema_object(cr_compiler *c, const cr_parts *parts, cr_text *t, bool *none);
cera_status cr_schema_array(cr_compiler *c, const cr_parts *parts, cr_text *t, bool *none);
cera_status cr_schema_string(cr_compiler *c, const cr_parts *parts, cr_text *t, bool *none);
cera_status cr_schema_number(cr_compiler *c, const cr_parts *parts, unsigned kinds, cr_text *t,
                             bool *none);
/* The list of schemas for the first elements, if there is one, and the schema for the others. */
void cr_schema_find_items(const cr_json *schema, const cr_json **list, const cr_json **rest);
/* Whether the properties of two objects keep them apart: no generated one satisfies both. */
bool cr_objects_differ(cr_compiler *c, const cr_parts *a, const cr_parts *b);

/* The strings that the parts allow; *set NULL: all. */
cera_status cr_schema_string_set(cr_compiler *c, const cr_parts *parts, const cr_dfa **set);
/* A rule for values in front of options->end_tag; *rule 0 when there is none. */
cera_status cr_schema_tagged_rule(cr_compiler *c, const cr_json *schema, uint32_t *rule);
/* Appends an alternative for strings that the parts allow, without quotes. */
cera_status cr_schema_plain_string(cr_compiler *c, const cr_parts *parts, cr_text *t, bool *none);

/* A rule for a set of strings, in JSON strings or as they are; *rule is the number behind 'd'. */
void cr_schema_set_rule(cr_compiler *c, const cr_dfa *set, bool in_json, uint32_t *rule);

/* Whether a value satisfies a schema: 1, 0, or -1 when that is not known here. */
int cr_schema_check(cr_compiler *c, const cr_json *schema, const cr_json *value, int depth);
/* Whether two values are the same (1.0 is 1), likewise. */
int cr_schema_same(const cr_json *a, const cr_json *b);
int cr_schema_same_number(const cr_json *a, const cr_json *b);
/* Whether a number has no fraction, however it is written. */
bool cr_schema_is_whole(cr_str number);
int cr_schema_check_number(cr_compiler *c, const cr_json *schema, const cr_json *value);

/* Takes the rules that "root" does not need out of what was put out from `start` on; false without
 * memory. */
bool cr_schema_prune(cr_compiler *c, size_t start);

#endif

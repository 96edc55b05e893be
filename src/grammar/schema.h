/* JSON Schema to a grammar: every text of the grammar is JSON that the schema accepts, or a text
 * that stands for one between tags.
 *
 *     schema.c          the walk: $ref, types, enum, const, anyOf, allOf
 *     schema_object.c   objects and arrays
 *     schema_string.c   strings: pattern, format, lengths
 *     schema_tag.c      strings without quotes, in front of a tag
 *     schema_number.c   numbers: bounds, multiples
 *     schema_prune.c    rules that nothing uses
 *     dfa.c, regex.c    sets of strings: regular expressions, and what is left when one is taken
 *                       away from another
 *
 * What cannot be said by the grammar is refused with its keyword and place, never left out in
 * silence. docs/grammar.md lists what is supported, and which valid texts a grammar leaves out. */
#ifndef CR_SCHEMA_H
#define CR_SCHEMA_H

#include "base/json.h"

enum { CR_SCHEMA_MAX_TAG = 64 };

typedef struct cr_schema_options {
    bool lenient;   /* leave out what cannot be said, with a warning in the log */
    bool any_order; /* properties in any order */
    int max_blanks; /* between tokens of JSON, in a row */
    /* The value stands in front of this tag, which begins with <: strings at the top are also texts
     * without quotes, JSON has no <. NULL: JSON. */
    const char *end_tag;
} cr_schema_options;

/* A schema's text as a tree: CERA_E_FORMAT, CERA_E_LIMIT, as cr_json_parse. */
cera_status cr_schema_read(cr_str text, cr_arena *arena, const cr_json **out, cera_error *err);

/* Appends the grammar of a schema as GBNF to `out`. root: the document that the schema is, or is a
 * part of; references and places in errors are those of that. CERA_E_FORMAT for what is no schema,
 * CERA_E_UNSUPPORTED for what the grammar cannot say or nothing satisfies, CERA_E_LIMIT. */
cera_status cr_schema_to_gbnf(const cr_json *root, const cr_json *schema,
                              const cr_schema_options *options, cr_host *host, cr_buf *out,
                              cera_error *err);

#endif

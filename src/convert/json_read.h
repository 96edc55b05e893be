/* JSON of a model folder: loading it, and reading members with errors that name file and member.
 *
 * Jansson has an allocator of its own, process-wide, which the library leaves as it is: what is parsed
 * here is the one kind of memory that does not come from the host. */
#ifndef CR_JSON_READ_H
#define CR_JSON_READ_H

#include "base/text.h"

#include <jansson.h>

/* Parses bytes; CERA_E_FORMAT with the line, where they are not one JSON object. json_decref *out. */
cera_status cr_json_load(const void *bytes, size_t n, const char *path, json_t **out,
                         cera_error *err);

/* Members. An absent or null one gives false. Numbers outside the range give false too. */
bool cr_json_u32(const json_t *object, const char *key, uint32_t *out);
bool cr_json_f32(const json_t *object, const char *key, float *out);
bool cr_json_bool(const json_t *object, const char *key, bool fallback);
/* "" when it is no string. The text belongs to the object. */
cr_str cr_json_str(const json_t *object, const char *key);
cr_str cr_json_text(const json_t *string);

#endif

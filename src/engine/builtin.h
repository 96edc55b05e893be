/* builtin:tiny, the model inside the library.
 *
 * builtin.S puts the bytes of models/tiny.gguf between the two symbols, aligned to 64, read only.
 * The symbols exist only where the build defines CERA_BUILTIN_MODEL. */
#ifndef CR_BUILTIN_H
#define CR_BUILTIN_H

#include "cera.h"

#ifdef CERA_BUILTIN_MODEL
extern const unsigned char cr_builtin_tiny[];
extern const unsigned char cr_builtin_tiny_end[]; /* one past the last byte */
#endif

/* Turns "builtin:tiny" into a memory source. False when the path begins otherwise, when there is no
 * built-in model of that name, and always in a library built without CERA_BUILTIN_MODEL. */
bool cr_builtin_find(const char *path, cera_source *out);

#endif

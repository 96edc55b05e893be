/* The table of built-in models. */
#include "engine/builtin.h"

#include <string.h>

bool cr_builtin_find(const char *path, cera_source *out)
{
#ifdef CERA_BUILTIN_MODEL
    if (strcmp(path, "builtin:tiny") == 0) {
        *out = (cera_source){
            .data = cr_builtin_tiny,
            .n_data = (uint64_t)(cr_builtin_tiny_end - cr_builtin_tiny),
        };
        return true;
    }
#endif
    (void)path;
    (void)out;
    return false;
}

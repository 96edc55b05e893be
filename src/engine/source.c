/* Opening a source: see source.h. Used for files, vocabularies and engines alike. */
#include "engine/source.h"

#include "engine/builtin.h"

static const char builtin_prefix[] = "builtin:";

static cera_status open_builtin(const char *path, cr_host *host, cr_gguf **out, cera_error *err)
{
    cera_source memory;
    if (cr_builtin_find(path, &memory))
        return cr_gguf_open(&memory, host, out, err);
    if (cr_builtin_find("builtin:tiny", &memory))
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: no such built-in model, expected builtin:tiny",
                       path);
    return cr_fail(err, CERA_E_UNSUPPORTED,
                   "%s: this build has no built-in model; build with "
                   "CERA_BUILTIN_MODEL, or name a file",
                   path);
}

cera_status cr_source_open(const cera_source *source, cr_host *host, cr_gguf **out, cera_error *err)
{
    if (source == NULL)
        return cr_fail(err, CERA_E_ARG, "source: expected a source, found NULL");
    int n_forms = (source->path != NULL) + (source->data != NULL) + (source->read != NULL);
    if (n_forms != 1)
        return cr_fail(err, CERA_E_ARG, "source: expected one of path, data and read, found %d",
                       n_forms);
    if (source->path != NULL && source->path[0] == '\0')
        return cr_fail(err, CERA_E_ARG, "source.path: expected a file name, found \"\"");

    size_t n_prefix = sizeof builtin_prefix - 1;
    if (source->path != NULL && strncmp(source->path, builtin_prefix, n_prefix) == 0)
        return open_builtin(source->path, host, out, err);
    return cr_gguf_open(source, host, out, err);
}

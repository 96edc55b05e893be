#include "file/io_error.h"

#include <errno.h>

static const struct {
    int error;
    const char *text;
} texts[] = {
    { ENOENT, "no such file" },
    { EACCES, "permission denied" },
    { EPERM, "permission denied" },
    { EISDIR, "it is a directory" },
    { ENOTDIR, "a part of the path is not a directory" },
    { EMFILE, "too many open files" },
    { ENFILE, "too many open files" },
    { ENAMETOOLONG, "the name is too long" },
    { ELOOP, "links lead in a circle" },
    { ENXIO, "no such device" },
    { ENOMEM, "the system is out of memory" },
    { EIO, "input/output error" },
    { ENOSPC, "no space is left on the disk" },
    { EFBIG, "the file would be larger than is allowed" },
    { EROFS, "the file system is read-only" },
    { EEXIST, "the name is taken" },
};

cera_status cr_io_failed(cera_error *err, const char *path, const char *verb, int error)
{
    const char *text = "system error";
    for (size_t i = 0; i < CR_COUNT(texts); i++)
        if (texts[i].error == error)
            text = texts[i].text;
    return cr_fail(err, error == ENOMEM ? CERA_E_NOMEM : CERA_E_IO, "%s: cannot %s: %s (errno %d)",
                   path, verb, text, error);
}

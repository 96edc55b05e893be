/* What belongs to no object: the version, the processor, a file of bytes. */
#include "backend/cpu/kernels.h"
#include "base/cpu.h"
#include "file/output.h"

#define TEXT(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *cera_version(void)
{
    return VERSION_TEXT(CERA_VERSION_MAJOR, CERA_VERSION_MINOR, CERA_VERSION_PATCH);
}

void cera_cpu_get_info(const cera_host *tables, cera_cpu_info *out)
{
    if (!out)
        return;
    cr_host host;
    if (cr_host_set(&host, tables, NULL) != CERA_OK && cr_host_set(&host, NULL, NULL) != CERA_OK)
        return;
    cr_cpu_describe(&host, out);
#ifdef CERA_WITH_BLAS
    out->blas = cr_blas_name();
#endif
}

cera_status cera_host_write_file(const cera_host *tables, const char *path, uint32_t mode,
                                 const void *data, size_t n, cera_error *err)
{
    if (path == NULL || (data == NULL && n > 0))
        return cr_fail(err, CERA_E_ARG, "%s, found NULL",
                       path == NULL ? "path: expected the name of a file"
                                    : "data: expected the file's bytes");
    if (mode > 0777)
        return cr_fail(err, CERA_E_ARG, "mode: expected 0 to 0777, found 0%o", (unsigned)mode);
    cr_host host;
    CR_TRY(cr_host_set(&host, tables, err));
    return cr_output_write_file(&host, path, mode, data, n, err);
}

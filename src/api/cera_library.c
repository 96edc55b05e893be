/* What belongs to no object: the version, the processor. */
#include "backend/cpu/kernels.h"
#include "base/cpu.h"

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

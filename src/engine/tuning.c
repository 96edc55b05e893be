/* See tuning.h. */
#include "engine/tuning.h"

#include "base/cpu.h"
#include "base/json.h"
#include "file/output.h"
#include "file/view.h"

#include <stdio.h>
#include <string.h>

enum { VERSION = 1, MAX_PREFETCH = 1 << 20 };

static cera_status take(const cr_json *root, const char *path, size_t *prefetch, cera_error *err)
{
    uint32_t version, bytes;
    if (!cr_json_u32(cr_json_get(root, "version"), &version) || version != VERSION)
        return cr_fail(err, CERA_E_FORMAT, "%s: expected a tuning file of version %d", path,
                       VERSION);
    cr_cpu_id cpu;
    cr_cpu_identify(&cpu);
    cr_str name = cr_json_str(cr_json_get(root, "cpu"));
    if (name.size == 0)
        return cr_fail(err, CERA_E_FORMAT, "%s: cpu: expected the name of a processor", path);
    if (name.size != strlen(cpu.name) || memcmp(name.data, cpu.name, name.size) != 0)
        return cr_fail(err, CERA_E_STATE,
                       "%s: measured on another processor, %.*s; this one is %s: measure again",
                       path, (int)CR_MIN(name.size, (size_t)64), name.data, cpu.name);
    if (!cr_json_u32(cr_json_get(root, "prefetch"), &bytes) || bytes == 0 || bytes > MAX_PREFETCH)
        return cr_fail(err, CERA_E_FORMAT, "%s: prefetch: expected a number of bytes from 1 to %d",
                       path, MAX_PREFETCH);
    *prefetch = bytes;
    return CERA_OK;
}

cera_status cr_tuning_read(cr_host *host, const char *path, size_t *prefetch, cera_error *err)
{
    static const cr_json_rules rules = { .max_bytes = 4096, .max_values = 64, .max_depth = 4 };
    if (path[0] == '\0')
        return cr_fail(err, CERA_E_ARG, "tuning: expected the name of a file, found \"\"");
    cr_view view;
    CR_TRY(cr_view_open(&view, host, path, rules.max_bytes, true, err));
    cr_arena arena;
    cr_arena_init(&arena, host, CR_MEM_SCRATCH);
    const cr_json *root;
    cera_status status = cr_json_parse((cr_str){ (const char *)view.bytes, view.n_bytes }, path,
                                       &rules, &arena, &root, err);
    if (status == CERA_OK)
        status = take(root, path, prefetch, err);
    cr_arena_done(&arena);
    cr_view_done(&view);
    return status;
}

cera_status cr_tuning_write(cr_host *host, const char *path, size_t prefetch, cera_error *err)
{
    cr_cpu_id cpu;
    cr_cpu_identify(&cpu);
    char text[256];
    int n = snprintf(text, sizeof text, "{\"version\": %d, \"cpu\": \"%s\", \"prefetch\": %zu}\n",
                     VERSION, cpu.name, prefetch);
    return cr_output_write_file(host, path, 0, text, (size_t)n, err);
}

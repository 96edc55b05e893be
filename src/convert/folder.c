#include "convert/folder.h"

#include "file/view.h"

#include <errno.h>
#include <stdio.h>

const char *cr_folder_path(cr_folder *folder, cr_str name)
{
    size_t n_folder = strlen(folder->path), n = n_folder + name.size + 2;
    char *path = cr_arena_alloc(&folder->arena, n);
    if (path != NULL)
        snprintf(path, n, "%s%s%.*s", folder->path,
                 n_folder > 0 && folder->path[n_folder - 1] == '/' ? "" : "/", (int)name.size,
                 name.data);
    return path;
}

bool cr_folder_lacks(cr_folder *folder, const char *path)
{
    const cera_os *os = &folder->host->os;
    void *file;
    int error = os->open(os->ctx, path, &file);
    if (error == 0)
        os->close(os->ctx, file);
    return error == ENOENT;
}

cera_status cr_folder_json(cr_folder *folder, const char *name, bool required, const cr_json **out,
                           cera_error *err)
{
    /* Python writes these files, and with them numbers that are none of JSON. */
    static const cr_json_rules rules = {
        .max_bytes = 256 << 20, .max_values = 1 << 26, .max_depth = 256, .allow_constants = true
    };
    const char *path = cr_folder_path(folder, cr_str_from(name));
    if (path == NULL)
        return cr_fail_nomem(err, 0, name);
    *out = NULL;
    if (!required && cr_folder_lacks(folder, path))
        return CERA_OK;
    cr_view view;
    CR_TRY(cr_view_open(&view, folder->host, path, rules.max_bytes, false, err));
    /* The tree points into its text, which so has to outlive the view. */
    cr_str text = { cr_arena_copy(&folder->arena, (const char *)view.bytes, view.n_bytes),
                    view.n_bytes };
    cr_view_done(&view);
    if (text.data == NULL)
        return cr_fail_nomem(err, text.size, path);
    CR_TRY(cr_json_parse(text, path, &rules, &folder->arena, out, err));
    return cr_json_is(*out, CR_JSON_OBJECT)
               ? CERA_OK
               : cr_fail(err, CERA_E_FORMAT, "%s: expected a JSON object", path);
}

cera_status cr_folder_open(cr_folder *folder, cr_host *host, const char *path, cera_error *err)
{
    *folder = (cr_folder){ .host = host, .path = path };
    cr_arena_init(&folder->arena, host, CR_MEM_OBJECT);
    cera_status status = cr_folder_json(folder, "config.json", true, &folder->config, err);
    if (status == CERA_OK)
        status = cr_folder_json(folder, "tokenizer.json", false, &folder->tokenizer, err);
    if (status == CERA_OK)
        status = cr_folder_json(folder, "tokenizer_config.json", false, &folder->tok_config, err);
    if (status != CERA_OK)
        cr_folder_close(folder);
    return status;
}

void cr_folder_close(cr_folder *folder)
{
    cr_arena_done(&folder->arena);
    *folder = (cr_folder){ 0 };
}

#include "convert/folder.h"

#include "file/view.h"

#include <errno.h>
#include <stdio.h>

enum { MAX_JSON = 256 << 20 };

const char *cr_folder_path(cr_folder *folder, const char *name)
{
    size_t n_folder = strlen(folder->path), n = n_folder + strlen(name) + 2;
    char *path = cr_arena_alloc(&folder->arena, n);
    if (path != NULL)
        snprintf(path, n, "%s%s%s", folder->path,
                 n_folder > 0 && folder->path[n_folder - 1] == '/' ? "" : "/", name);
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

cera_status cr_folder_json(cr_folder *folder, const char *name, bool required, json_t **out,
                           cera_error *err)
{
    const char *path = cr_folder_path(folder, name);
    if (path == NULL)
        return cr_fail_nomem(err, 0, name);
    *out = NULL;
    if (!required && cr_folder_lacks(folder, path))
        return CERA_OK;
    cr_view view;
    CR_TRY(cr_view_open(&view, folder->host, path, MAX_JSON, err));
    cera_status status = cr_json_load(view.bytes, view.n_bytes, path, out, err);
    cr_view_done(&view);
    return status;
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
    json_decref(folder->config);
    json_decref(folder->tokenizer);
    json_decref(folder->tok_config);
    cr_arena_done(&folder->arena);
    *folder = (cr_folder){ 0 };
}

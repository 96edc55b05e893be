/* cera_adapter: check arguments, read the file that it is, forward. */
#include "api/objects.h"
#include "convert/peft.h"

static cera_status open_gguf(cr_engine *core, const cera_source *source, cr_adapter **out,
                             cera_error *err)
{
    cr_gguf *file;
    CR_TRY(cr_gguf_open(source, &core->host, &file, err));
    cr_arena arena;
    cr_arena_init(&arena, &core->host, CR_MEM_SCRATCH);
    cr_adapter_content content;
    cera_status status = cr_adapter_read(file, &arena, &content, err);
    if (status == CERA_OK)
        status = cr_adapter_new(core->model, &core->host, &content, out, err);
    cr_arena_done(&arena);
    cr_gguf_close(file);
    return status;
}

static cera_status open_peft(cr_engine *core, cr_str folder, cr_adapter **out, cera_error *err)
{
    cr_arena arena;
    cr_arena_init(&arena, &core->host, CR_MEM_SCRATCH);
    const char *path = cr_arena_copy(&arena, folder.data, folder.size);
    const cr_model *model = core->model;
    cr_peft peft;
    cera_status status = path ? cr_peft_open(&peft, &core->host, path,
                                             &(cr_peft_model){
                                                 .arch = model->arch->name,
                                                 .has_experts = model->hparams.routing.n_expert > 0,
                                                 .file = model->file,
                                             },
                                             err)
                              : cr_fail_nomem(err, folder.size, "the folder's path");
    if (status == CERA_OK) {
        status = cr_adapter_new(model, &core->host, &peft.content, out, err);
        cr_peft_close(&peft);
    }
    cr_arena_done(&arena);
    return status;
}

static bool is_regular(const cera_os *os, const char *path)
{
    void *file;
    cera_os_stat stat;
    if (os->open(os->ctx, path, &file) != 0)
        return true; /* opening it as one says why */
    const int error = os->stat(os->ctx, file, &stat);
    os->close(os->ctx, file);
    return error != 0 || stat.is_regular;
}

static cera_status open_file(cr_engine *core, const cera_source *source, cr_adapter **out,
                             cera_error *err)
{
    cr_str folder;
    if (source->path && cr_peft_is(&core->host, source->path, &folder))
        return open_peft(core, folder, out, err);
    if (source->path && !is_regular(&core->host.os, source->path))
        return cr_fail(err, CERA_E_IO, "%s: expected a file, or a folder with adapter_config.json",
                       source->path);
    return open_gguf(core, source, out, err);
}

cera_status cera_adapter_open(cera_engine *engine, const cera_source *source, cera_adapter **out,
                              cera_error *err)
{
    if (!engine || !source || !out)
        return cr_fail(err, CERA_E_ARG,
                       "adapter: expected an engine, a source and out, found NULL");
    cr_engine *core = engine->core;
    cera_adapter *adapter = cr_alloc_zero(&core->host, CR_MEM_OBJECT, sizeof *adapter);
    if (!adapter)
        return cr_fail_nomem(err, sizeof *adapter, "the adapter");
    cera_status status = open_file(core, source, &adapter->core, err);
    if (status != CERA_OK) {
        cr_free(&core->host, CR_MEM_OBJECT, adapter, sizeof *adapter);
        return status;
    }
    atomic_init(&adapter->n_references, 1);
    adapter->engine = cera_engine_retain(engine);
    *out = adapter;
    return CERA_OK;
}

cera_adapter *cera_adapter_retain(cera_adapter *adapter)
{
    if (adapter)
        atomic_fetch_add(&adapter->n_references, 1);
    return adapter;
}

void cera_adapter_close(cera_adapter *adapter)
{
    if (!adapter || atomic_fetch_sub(&adapter->n_references, 1) > 1)
        return;
    cera_engine *engine = adapter->engine;
    cr_adapter_release(adapter->core);
    cr_free(&engine->core->host, CR_MEM_OBJECT, adapter, sizeof *adapter);
    cera_engine_close(engine);
}

void cera_adapter_get_info(const cera_adapter *adapter, cera_adapter_info *out)
{
    if (!out)
        return;
    *out = (cera_adapter_info){ .n_tensors = 0 };
    if (adapter)
        *out = adapter->core->info;
}

/* Opening a model: metadata -> hyper-parameters -> tensors -> graph. */
#include "model/model.h"

static cera_status build(cr_model *model, int n_context, cera_error *err)
{
    cr_str name = { "", 0 };
    CR_TRY(cr_gguf_get_str(model->file, "general.name", CR_OPTIONAL, &name, err));
    model->name = cr_arena_copy(&model->arena, name.data, name.size);
    if (!model->name)
        return cr_fail_nomem(err, name.size, "the model's name");

    cr_keys keys = { model->file, model->arch->name, err };
    CR_TRY(model->arch->read(&keys, &model->hparams));
    CR_TRY(cr_bind(model->file, model->arch, &model->hparams, &model->arena, &model->tensors, err));
    return cr_build(model->arch, &model->hparams, &model->tensors,
                    CR_MIN(n_context, model->hparams.n_context), &model->arena, &model->graph, err);
}

cera_status cr_model_new(const cr_gguf *file, cr_host *host, const cr_arch *arch, int n_context,
                         cr_model **out, cera_error *err)
{
    cr_model *model = cr_alloc_zero(host, CR_MEM_OBJECT, sizeof *model);
    if (!model)
        return cr_fail_nomem(err, sizeof *model, "the model");
    cr_arena_init(&model->arena, host, CR_MEM_OBJECT);
    model->file = file;
    model->arch = arch;
    cera_status status = build(model, n_context, err);
    if (status != CERA_OK) {
        cr_model_free(model);
        return status;
    }
    *out = model;
    return CERA_OK;
}

void cr_model_free(cr_model *model)
{
    if (!model)
        return;
    cr_host *host = model->arena.host;
    cr_arena_done(&model->arena);
    cr_free(host, CR_MEM_OBJECT, model, sizeof *model);
}

static bool is_among(const cr_weight *const *slots, size_t n, const cr_tensor *tensor)
{
    for (size_t i = 0; i < n; i++) {
        if (slots[i] && slots[i]->data == tensor->data)
            return true;
    }
    return false;
}

bool cr_model_uses(const cr_model *model, const cr_tensor *tensor)
{
    bool used = is_among(model->tensors.global, CR_SLOT_GLOBAL_COUNT, tensor);
    for (int i = 0; i < model->hparams.n_layer && !used; i++)
        used = is_among(model->tensors.layer[i], CR_SLOT_COUNT, tensor);
    return used;
}

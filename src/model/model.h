/* A model: architecture, hyper-parameters, bound tensors, graph. */
#ifndef CR_MODEL_H
#define CR_MODEL_H

#include "model/block.h"
#include "model/keys.h"

typedef struct cr_model {
    cr_arena arena;
    const cr_gguf *file;
    const cr_arch *arch;
    const char *name; /* general.name, or "" */
    cr_hparams hparams;
    cr_tensors tensors;
    cr_graph graph;
} cr_model;

/* Reads what an architecture needs from the file; the weights stay where they are. The file and the
 * host are kept. Sessions will have up to n_context positions, or the model's own if that is
 * less. */
cera_status cr_model_new(const cr_gguf *file, cr_host *host, const cr_arch *arch, int n_context,
                         cr_model **out, cera_error *err);
void cr_model_free(cr_model *model);

/* Whether the model reads this tensor of its file. */
bool cr_model_uses(const cr_model *model, const cr_tensor *tensor);

#endif

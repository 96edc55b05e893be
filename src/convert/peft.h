/* A folder of PEFT's: adapter_config.json and adapter_model.safetensors, as the content of an
 * adapter.
 *
 *     base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight   [rank, n_cols]
 *     base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight   [n_rows, rank]
 *     base_model.model.model.layers.0.mlp.experts.lora_A.weight              of a stack,
 *     base_model.model.model.layers.0.mlp.experts.base_layer.lora_A.weight   and of another
 *
 * What the configuration asks for and is not done here is refused by its name: DoRA, biases, whole
 * modules, starts that change the model's weights, and whatever is not known. */
#ifndef CR_PEFT_H
#define CR_PEFT_H

#include "convert/folder.h"
#include "convert/safetensors.h"
#include "file/adapter_file.h"

typedef struct cr_peft {
    cr_folder folder;
    cr_safetensors file;
    cr_adapter_content content;
} cr_peft;

/* Whether a path is such a folder, or the file of tensors in one: then *folder is the folder's part
 * of it. */
bool cr_peft_is(cr_host *host, const char *path, cr_str *folder);

/* The model that it is for: its architecture, as GGUF calls it, tells which of Hugging Face's names
 * are meant, and its tensors which matrices of experts. */
typedef struct cr_peft_model {
    const char *arch;
    bool has_experts;
    const cr_gguf *file;
} cr_peft_model;

/* The path is kept, the model is not. */
cera_status cr_peft_open(cr_peft *peft, cr_host *host, const char *path, const cr_peft_model *model,
                         cera_error *err);
void cr_peft_close(cr_peft *peft);

#endif

/* cera_file: metadata and tensor list of a file, for inspection. */
#include "base/host.h"
#include "engine/source.h"

struct cera_file {
    cr_host host;
    cr_gguf *gguf;
};

cera_status cera_file_open(const cera_source *source, const cera_host *tables, cera_file **out,
                           cera_error *err)
{
    if (out == NULL)
        return cr_fail(err, CERA_E_ARG, "out: expected a place for the file, found NULL");
    cr_host host;
    CR_TRY(cr_host_set(&host, tables, err));
    cera_file *file = cr_alloc_zero(&host, CR_MEM_OBJECT, sizeof *file);
    if (file == NULL)
        return cr_fail_nomem(err, sizeof *file, "file");
    file->host = host; /* with its bill, which has the file itself on it */

    cera_status status = cr_source_open(source, &file->host, &file->gguf, err);
    if (status != CERA_OK) {
        cera_file_close(file);
        return status;
    }
    *out = file;
    return CERA_OK;
}

void cera_file_close(cera_file *file)
{
    if (file == NULL)
        return;
    cr_gguf_close(file->gguf);
    cr_host host = file->host; /* the file cannot be freed through what is inside it */
    cr_free(&host, CR_MEM_OBJECT, file, sizeof *file);
}

void cera_file_get_info(const cera_file *file, cera_file_info *out)
{
    if (out == NULL)
        return;
    *out = (cera_file_info){ 0 };
    if (file != NULL)
        cr_gguf_get_info(file->gguf, out);
}

const char *cera_file_key(const cera_file *file, size_t i, cera_value *out)
{
    if (file == NULL || i >= cr_gguf_n_keys(file->gguf))
        return NULL;
    cera_value value;
    cr_str name = cr_gguf_key(file->gguf, i, &value);
    if (out != NULL)
        *out = value;
    return name.data;
}

void cera_file_get_tensor(const cera_file *file, size_t i, cera_file_tensor *out)
{
    if (out == NULL)
        return;
    *out = (cera_file_tensor){ .name = "", .type = "", .shape = { 1, 1, 1, 1 } };
    if (file == NULL || i >= cr_gguf_n_tensors(file->gguf))
        return;
    const cr_tensor *tensor = cr_gguf_tensor(file->gguf, i);
    out->name = tensor->name.data;
    out->type = cr_gguf_type_name(tensor);
    out->n_dims = tensor->n_dims;
    memcpy(out->shape, tensor->shape, sizeof out->shape);
    out->part = tensor->part;
    out->offset = tensor->offset;
    out->size = tensor->size;
}

bool cera_file_find(const cera_file *file, const char *key, cera_value *out)
{
    cera_value value;
    if (file == NULL || key == NULL || !cr_gguf_find(file->gguf, key, &value))
        return false;
    if (out != NULL)
        *out = value;
    return true;
}

bool cera_file_element(const cera_file *file, const char *key, uint64_t i, cera_value *out)
{
    cera_value array;
    if (!cera_file_find(file, key, &array) || array.type != CERA_VALUE_ARRAY || i >= array.count)
        return false;
    if (out != NULL)
        cr_gguf_element(&array, i, out);
    return true;
}

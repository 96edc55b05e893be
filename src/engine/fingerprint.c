#include "engine/fingerprint.h"

#include <string.h>

/* Keys that say nothing about the numbers. */
static bool is_about_others(cr_str key)
{
    static const char *const prefixes[] = { "general.", "tokenizer.", "split.", "quantize." };
    for (size_t i = 0; i < CR_COUNT(prefixes); i++) {
        size_t n = strlen(prefixes[i]);
        if (key.size >= n && memcmp(key.data, prefixes[i], n) == 0)
            return true;
    }
    return false;
}

static void add_number(cr_digest *digest, uint64_t number)
{
    cr_digest_add(digest, &number, sizeof number);
}

static void add_value(cr_digest *digest, const cera_value *value)
{
    add_number(digest, (uint64_t)value->type);
    if (value->type == CERA_VALUE_STRING) {
        cr_digest_add(digest, value->as.s.text, value->as.s.size);
    } else if (value->type == CERA_VALUE_ARRAY) {
        add_number(digest, value->count);
        for (uint64_t i = 0; i < value->count; i++) {
            cera_value element;
            cr_gguf_element(value, i, &element);
            if (element.type != CERA_VALUE_ARRAY)
                add_value(digest, &element);
        }
    } else if (value->type == CERA_VALUE_BOOL) {
        add_number(digest, value->as.b);
    } else if (value->type == CERA_VALUE_F32 || value->type == CERA_VALUE_F64) {
        cr_digest_add(digest, &value->as.f, sizeof value->as.f);
    } else {
        add_number(digest, value->as.u); /* of signed ones the same bits */
    }
}

static void add_tensor(cr_digest *digest, const cr_tensor *tensor)
{
    cr_digest_add(digest, tensor->name.data, tensor->name.size);
    add_number(digest, tensor->type_id);
    cr_digest_add(digest, tensor->shape, sizeof tensor->shape);
    if (tensor->data)
        cr_digest_add(digest, tensor->data, tensor->size);
}

cr_digest cr_fingerprint(const cr_model *model)
{
    cr_digest digest = CR_DIGEST_EMPTY;
    cr_digest_add(&digest, model->arch->name, strlen(model->arch->name));
    for (size_t i = 0; i < cr_gguf_n_keys(model->file); i++) {
        cera_value value;
        cr_str key = cr_gguf_key(model->file, i, &value);
        if (is_about_others(key))
            continue;
        cr_digest_add(&digest, key.data, key.size);
        add_value(&digest, &value);
    }
    for (int i = 0; i < model->graph.n_ropes; i++) {
        const cr_rope *rope = &model->graph.ropes[i];
        cr_digest_add(&digest, rope->freq, (size_t)rope->n_dims / 2 * sizeof *rope->freq);
        cr_digest_add(&digest, &rope->gain, sizeof rope->gain);
    }
    for (size_t i = 0; i < cr_gguf_n_tensors(model->file); i++)
        add_tensor(&digest, cr_gguf_tensor(model->file, i));
    return digest;
}

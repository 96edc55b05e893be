#include "file/gguf_write.h"

#include "file/gguf_internal.h"

#include <assert.h>

/* ---- serialising ----------------------------------------------------------------------------- */

static void append(cr_gguf_writer *w, cr_buf *buf, const void *data, size_t n)
{
    if (!cr_buf_append(buf, data, n))
        w->no_memory = true;
}

/* A little-endian number of n bytes. */
static void append_number(cr_gguf_writer *w, cr_buf *buf, uint64_t value, size_t n)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    append(w, buf, bytes, n);
}

static void append_str(cr_gguf_writer *w, cr_buf *buf, cr_str text)
{
    append_number(w, buf, text.size, 8);
    append(w, buf, text.data, text.size);
}

static uint64_t bits_of(const cera_value *value)
{
    uint64_t bits;
    if (value->type == CERA_VALUE_F32) {
        float f = (float)value->as.f;
        uint32_t low;
        memcpy(&low, &f, sizeof low);
        return low;
    }
    if (value->type == CERA_VALUE_BOOL)
        return value->as.b ? 1 : 0;
    memcpy(&bits, &value->as.u, sizeof bits); /* u, i and the double f have the same 8 bytes */
    return bits;
}

/* What stands behind the type: the bytes of a number or a string. */
static void append_scalar(cr_gguf_writer *w, const cera_value *value)
{
    assert(value->type != CERA_VALUE_ARRAY);
    if (value->type == CERA_VALUE_STRING)
        append_str(w, &w->keys, (cr_str){ value->as.s.text, value->as.s.size });
    else
        append_number(w, &w->keys, bits_of(value), cr_gguf_value_size(value->type));
}

static void append_key(cr_gguf_writer *w, cr_str key, cera_value_type type)
{
    append_str(w, &w->keys, key);
    append_number(w, &w->keys, (uint64_t)type, 4);
    w->n_keys++;
}

/* ---- announcing ------------------------------------------------------------------------------ */

void cr_gguf_writer_init(cr_gguf_writer *w, cr_host *host)
{
    *w = (cr_gguf_writer){ .host = host, .alignment = CR_GGUF_ALIGNMENT };
    cr_buf_init(&w->keys, host, CR_MEM_FILE);
    cr_buf_init(&w->tensors, host, CR_MEM_FILE);
    cr_buf_init(&w->sizes, host, CR_MEM_FILE);
}

void cr_gguf_writer_done(cr_gguf_writer *w)
{
    cr_output_done(&w->output);
    cr_buf_done(&w->keys);
    cr_buf_done(&w->tensors);
    cr_buf_done(&w->sizes);
}

void cr_gguf_put(cr_gguf_writer *w, cr_str key, const cera_value *value)
{
    append_key(w, key, value->type);
    if (value->type != CERA_VALUE_ARRAY) {
        append_scalar(w, value);
        return;
    }
    append_number(w, &w->keys, (uint64_t)value->element, 4);
    append_number(w, &w->keys, value->count, 8);
    for (uint64_t i = 0; i < value->count && !w->no_memory; i++) {
        cera_value element;
        cr_gguf_element(value, i, &element);
        append_scalar(w, &element);
    }
}

void cr_gguf_put_u32(cr_gguf_writer *w, const char *key, uint32_t value)
{
    cr_gguf_put(w, cr_str_from(key), &(cera_value){ .type = CERA_VALUE_U32, .as.u = value });
}

void cr_gguf_put_f32(cr_gguf_writer *w, const char *key, float value)
{
    cr_gguf_put(w, cr_str_from(key),
                &(cera_value){ .type = CERA_VALUE_F32, .as.f = (double)value });
}

void cr_gguf_put_bool(cr_gguf_writer *w, const char *key, bool value)
{
    cr_gguf_put(w, cr_str_from(key), &(cera_value){ .type = CERA_VALUE_BOOL, .as.b = value });
}

void cr_gguf_put_str(cr_gguf_writer *w, const char *key, cr_str value)
{
    cr_gguf_put(w, cr_str_from(key),
                &(cera_value){ .type = CERA_VALUE_STRING, .as.s = { value.data, value.size } });
}

void cr_gguf_put_array(cr_gguf_writer *w, const char *key, cera_value_type element, uint64_t count)
{
    append_key(w, cr_str_from(key), CERA_VALUE_ARRAY);
    append_number(w, &w->keys, (uint64_t)element, 4);
    append_number(w, &w->keys, count, 8);
}

void cr_gguf_put_element(cr_gguf_writer *w, const cera_value *value)
{
    append_scalar(w, value);
}

static uint64_t padded(const cr_gguf_writer *w, uint64_t n)
{
    uint64_t rest = n % w->alignment;
    return rest == 0 ? n : n + (w->alignment - rest);
}

void cr_gguf_put_tensor(cr_gguf_writer *w, cr_str name, cr_type type, int n_dims,
                        const uint64_t *shape)
{
    const cr_type_info *info = cr_type_get(type);
    assert(shape[0] % (uint64_t)info->weights == 0);
    append_str(w, &w->tensors, name);
    append_number(w, &w->tensors, (uint64_t)n_dims, 4);
    uint64_t size = (uint64_t)info->block_bytes;
    for (int i = 0; i < n_dims; i++) {
        uint64_t n = i == 0 ? shape[0] / (uint64_t)info->weights : shape[i];
        assert(n > 0);
        w->too_large |= size > (UINT64_MAX >> 2) / n;
        size *= n;
        append_number(w, &w->tensors, shape[i], 8);
    }
    append_number(w, &w->tensors, info->id, 4);
    append_number(w, &w->tensors, w->n_data, 8);
    append(w, &w->sizes, &size, sizeof size);
    w->n_data = padded(w, w->n_data + size);
    w->too_large |= w->n_data > UINT64_MAX >> 2;
    w->n_tensors++;
}

/* ---- writing --------------------------------------------------------------------------------- */

static cera_status write_padding(cr_gguf_writer *w, cera_error *err)
{
    static const uint8_t zeros[256];
    uint64_t n = padded(w, w->output.offset) - w->output.offset;
    while (n > 0) {
        size_t piece = (size_t)CR_MIN(n, (uint64_t)sizeof zeros);
        CR_TRY(cr_output_write(&w->output, zeros, piece, err));
        n -= piece;
    }
    return CERA_OK;
}

static uint64_t size_of_tensor(const cr_gguf_writer *w, uint64_t i)
{
    uint64_t size;
    memcpy(&size, w->sizes.data + (size_t)i * sizeof size, sizeof size);
    return size;
}

cera_status cr_gguf_writer_begin(cr_gguf_writer *w, const char *path, cera_error *err)
{
    cr_buf head;
    cr_buf_init(&head, w->host, CR_MEM_FILE);
    append(w, &head, "GGUF", 4);
    append_number(w, &head, 3, 4);
    append_number(w, &head, w->n_tensors, 8);
    append_number(w, &head, w->n_keys, 8);
    cera_status status = CERA_OK;
    if (w->no_memory)
        status = cr_fail_nomem(err, 0, "the header of the new file");
    else if (w->too_large)
        status = cr_fail(err, CERA_E_LIMIT, "%s: the tensors add up to more than 2^62 bytes", path);
    if (status == CERA_OK)
        status = cr_output_open(&w->output, w->host, path, 0, err);
    if (status == CERA_OK)
        status = cr_output_write(&w->output, head.data, head.size, err);
    if (status == CERA_OK)
        status = cr_output_write(&w->output, w->keys.data, w->keys.size, err);
    if (status == CERA_OK)
        status = cr_output_write(&w->output, w->tensors.data, w->tensors.size, err);
    if (status == CERA_OK)
        status = write_padding(w, err);
    cr_buf_done(&head);
    return status;
}

cera_status cr_gguf_writer_data(cr_gguf_writer *w, const void *data, size_t n, cera_error *err)
{
    assert(w->i_tensor < w->n_tensors && n <= size_of_tensor(w, w->i_tensor) - w->done);
    CR_TRY(cr_output_write(&w->output, data, n, err));
    w->done += n;
    if (w->done < size_of_tensor(w, w->i_tensor))
        return CERA_OK;
    w->i_tensor++;
    w->done = 0;
    return write_padding(w, err);
}

cera_status cr_gguf_writer_commit(cr_gguf_writer *w, cera_error *err)
{
    assert(w->i_tensor == w->n_tensors);
    return cr_output_commit(&w->output, err);
}

/* The two walks over a GGUF header.
 *
 *     magic  version  n_tensors  n_keys | key ... | tensor ... | padding | data
 *     u32    u32      u64        u64
 *
 *     key:     string name, u32 type, value
 *     tensor:  string name, u32 n_dims, u64 shape[n_dims], u32 type, u64 offset from data
 *     string:  u64 size, bytes            array value:  u32 element type, u64 count, elements
 *
 * The first walk checks the structure and counts; nothing is allocated on the word of a count. Then
 * one block of exactly the right size is allocated, and the second walk, through the same checks,
 * fills it. A vocabulary of 150,000 strings costs two passes over some megabytes and one pointer a
 * string.
 *
 * A mapped file may be written to by others between the walks. Whatever the second one finds, it
 * stays inside the block. */
#include "file/gguf_internal.h"

#include "base/arith.h"

#include <assert.h>
#include <stdio.h>

enum {
    HEADER = 24,    /* bytes before the first key */
    MIN_KEY = 13,   /* bytes of the smallest key without its name: value of 1 */
    MIN_TENSOR = 32 /* of the smallest tensor info without its name: 1 dimension */
};

/* A position in the header, and during the second walk what is left of the block's pools. */
typedef struct walk {
    const uint8_t *bytes;
    size_t size, pos;
    cera_error *err;

    size_t n_strings;       /* elements of string arrays: counted, or still free */
    size_t n_names;         /* bytes of names with their NULs: counted, or still free */
    const uint8_t **string; /* the next free pointer; NULL during the first walk */
    char *name;             /* the next free byte; NULL during the first walk */
} walk;

cr_gguf_shown cr_gguf_show(cr_str name)
{
    enum { SHOWN = 80 };
    cr_gguf_shown shown;
    size_t n = CR_MIN(name.size, (size_t)SHOWN);
    memcpy(shown.text, name.data, n);
    if (name.size > SHOWN) {
        memcpy(shown.text + n, "...", 3);
        n += 3;
    }
    shown.text[n] = '\0';
    return shown;
}

static bool take(walk *w, size_t n, const uint8_t **out)
{
    if (n > w->size - w->pos)
        return false;
    *out = w->bytes + w->pos;
    w->pos += n;
    return true;
}

static bool take_u32(walk *w, uint32_t *out)
{
    const uint8_t *p;
    if (!take(w, 4, &p))
        return false;
    *out = cr_gguf_load_u32(p);
    return true;
}

static bool take_u64(walk *w, uint64_t *out)
{
    const uint8_t *p;
    if (!take(w, 8, &p))
        return false;
    *out = cr_gguf_load_u64(p);
    return true;
}

/* "name: the file ends inside its value (byte 123)" */
static cera_status ends_inside(const walk *w, cr_str name, const char *part)
{
    return cr_fail(w->err, CERA_E_FORMAT, "%s: the file ends inside its %s (byte %zu)",
                   cr_gguf_show(name).text, part, w->size);
}

static cera_status changed_meanwhile(const walk *w, cr_str name)
{
    return cr_fail(w->err, CERA_E_IO, "%s: the file changed while it was opened",
                   cr_gguf_show(name).text);
}

/* ---- names and the pool of their copies ------------------------------------------------------ */

/* A name, where it stands in the file. what: "key" or "tensor". */
static cera_status read_name(walk *w, const char *what, size_t i, cr_str *out)
{
    size_t at = w->pos;
    uint64_t size;
    const uint8_t *text;
    if (!take_u64(w, &size))
        return cr_fail(w->err, CERA_E_FORMAT, "byte %zu: the file ends inside the name of %s %zu",
                       w->size, what, i);
    if (size == 0)
        return cr_fail(w->err, CERA_E_FORMAT, "byte %zu: %s %zu has an empty name", at, what, i);
    if (size > w->size - w->pos)
        return cr_fail(w->err, CERA_E_FORMAT,
                       "byte %zu: the name of %s %zu, of %llu bytes, is past the end of the file "
                       "(%zu bytes)",
                       at, what, i, (unsigned long long)size, w->size);
    if (size > CR_GGUF_MAX_NAME)
        return cr_fail(w->err, CERA_E_LIMIT,
                       "byte %zu: the name of %s %zu has %llu bytes, expected at most %d", at, what,
                       i, (unsigned long long)size, CR_GGUF_MAX_NAME);
    bool taken = take(w, (size_t)size, &text);
    assert(taken);
    (void)taken;
    if (memchr(text, '\0', (size_t)size) != NULL)
        return cr_fail(w->err, CERA_E_FORMAT, "byte %zu: the name of %s %zu has a NUL byte", at,
                       what, i);
    *out = (cr_str){ (const char *)text, (size_t)size };
    return CERA_OK;
}

/* First walk: counts a text and its NUL. Second walk: copies it, and makes *text the copy. */
static cera_status keep_text(walk *w, cr_str name, cr_str *text)
{
    size_t need = text->size + 1;
    if (w->name == NULL) {
        w->n_names += need;
        return CERA_OK;
    }
    if (need > w->n_names)
        return changed_meanwhile(w, name);
    memcpy(w->name, text->data, text->size);
    w->name[text->size] = '\0';
    text->data = w->name;
    w->name += need;
    w->n_names -= need;
    return CERA_OK;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* The elements of an array of strings: checked, and in the second walk each gets a pointer. */
static cera_status read_strings(walk *w, cr_str name, cr_gguf_entry *entry)
{
    size_t count = (size_t)entry->count;
    const uint8_t **table = w->string;
    if (table == NULL)
        w->n_strings += count;
    else if (count > w->n_strings)
        return changed_meanwhile(w, name);

    for (size_t i = 0; i < count; i++) {
        size_t at = w->pos;
        uint64_t size;
        if (!take_u64(w, &size) || size > w->size - w->pos)
            return cr_fail(w->err, CERA_E_FORMAT,
                           "%s: element %zu, at byte %zu, is past the end of the file (%zu bytes)",
                           cr_gguf_show(name).text, i, at, w->size);
        if (size > CR_GGUF_MAX_STRING)
            return cr_fail(
                w->err, CERA_E_LIMIT, "%s: element %zu has %llu bytes, expected at most %d",
                cr_gguf_show(name).text, i, (unsigned long long)size, CR_GGUF_MAX_STRING);
        w->pos += (size_t)size;
        if (table != NULL)
            table[i] = w->bytes + at;
    }
    if (table != NULL) {
        entry->value = table;
        w->string += count;
        w->n_strings -= count;
    }
    return CERA_OK;
}

static cera_status read_array(walk *w, cr_str name, cr_gguf_entry *entry)
{
    uint32_t element;
    uint64_t count;
    if (!take_u32(w, &element) || !take_u64(w, &count))
        return ends_inside(w, name, "array");
    if (element == CERA_VALUE_ARRAY)
        return cr_fail(w->err, CERA_E_UNSUPPORTED, "%s: nested array, expected a plain one",
                       cr_gguf_show(name).text);
    if (element >= CR_GGUF_N_VALUE_TYPES)
        return cr_fail(w->err, CERA_E_FORMAT, "%s: unknown element type %u, expected 0 to %d",
                       cr_gguf_show(name).text, element, CR_GGUF_N_VALUE_TYPES - 1);

    size_t each = element == CERA_VALUE_STRING ? 8 : cr_gguf_value_size((cera_value_type)element);
    if (count > (w->size - w->pos) / each)
        return cr_fail(w->err, CERA_E_FORMAT,
                       "%s: array of %llu elements is past the end of the file (byte %zu of %zu)",
                       cr_gguf_show(name).text, (unsigned long long)count, w->pos, w->size);
    entry->element = (uint8_t)element;
    entry->count = count;
    if (element == CERA_VALUE_STRING)
        return read_strings(w, name, entry);
    entry->value = w->bytes + w->pos;
    w->pos += (size_t)count * each;
    return CERA_OK;
}

static cera_status read_text(walk *w, cr_str name, cr_gguf_entry *entry)
{
    size_t at = w->pos;
    uint64_t size;
    if (!take_u64(w, &size))
        return ends_inside(w, name, "value");
    if (size > w->size - w->pos)
        return cr_fail(w->err, CERA_E_FORMAT,
                       "%s: string of %llu bytes, at byte %zu, is past the end of the file "
                       "(%zu bytes)",
                       cr_gguf_show(name).text, (unsigned long long)size, at, w->size);
    if (size > CR_GGUF_MAX_STRING)
        return cr_fail(w->err, CERA_E_LIMIT, "%s: string of %llu bytes, expected at most %d",
                       cr_gguf_show(name).text, (unsigned long long)size, CR_GGUF_MAX_STRING);
    entry->count = size;
    entry->value = w->bytes + w->pos;
    w->pos += (size_t)size;
    return CERA_OK;
}

static cera_status read_key(walk *w, size_t i, cr_gguf_entry *out)
{
    cr_str name = { "", 0 };
    uint32_t type;
    CR_TRY(read_name(w, "key", i, &name));
    if (!take_u32(w, &type))
        return ends_inside(w, name, "type");
    if (type >= CR_GGUF_N_VALUE_TYPES)
        return cr_fail(w->err, CERA_E_FORMAT, "%s: unknown value type %u, expected 0 to %d",
                       cr_gguf_show(name).text, type, CR_GGUF_N_VALUE_TYPES - 1);

    cr_gguf_entry entry = { .name_size = (uint32_t)name.size, .type = (uint8_t)type };
    if (type == CERA_VALUE_STRING) {
        CR_TRY(read_text(w, name, &entry));
    } else if (type == CERA_VALUE_ARRAY) {
        CR_TRY(read_array(w, name, &entry));
    } else {
        const uint8_t *value;
        if (!take(w, cr_gguf_value_size((cera_value_type)type), &value))
            return ends_inside(w, name, "value");
        entry.value = value;
    }
    CR_TRY(keep_text(w, name, &name));
    entry.name = name.data;
    *out = entry;
    return CERA_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Everything about a tensor that does not need to know where the data begins; `offset` is the one
 * in the file. */
static cera_status read_tensor(walk *w, size_t i, cr_tensor *out)
{
    cr_str name = { "", 0 };
    uint32_t n_dims;
    CR_TRY(read_name(w, "tensor", i, &name));
    if (!take_u32(w, &n_dims))
        return ends_inside(w, name, "tensor info");
    if (n_dims < 1 || n_dims > CR_GGUF_MAX_DIMS)
        return cr_fail(w->err, CERA_E_FORMAT, "%s: %u dimensions, expected 1 to %d",
                       cr_gguf_show(name).text, n_dims, CR_GGUF_MAX_DIMS);

    cr_tensor tensor = { .n_dims = (int)n_dims, .shape = { 1, 1, 1, 1 } };
    uint64_t n_elements = 1;
    for (uint32_t d = 0; d < n_dims; d++) {
        if (!take_u64(w, &tensor.shape[d]))
            return ends_inside(w, name, "tensor info");
        if (tensor.shape[d] == 0)
            return cr_fail(w->err, CERA_E_FORMAT, "%s: dimension %u is 0", cr_gguf_show(name).text,
                           d);
        if (!cr_mul_u64(n_elements, tensor.shape[d], &n_elements))
            return cr_fail(w->err, CERA_E_FORMAT, "%s: the number of elements overflows",
                           cr_gguf_show(name).text);
    }
    if (!take_u32(w, &tensor.type_id) || !take_u64(w, &tensor.offset))
        return ends_inside(w, name, "tensor info");
    tensor.type = cr_type_find(tensor.type_id);

    /* Where an id has no name of its own, "type 99" follows the tensor's name in the pool. */
    char buf[16];
    const char *type_name = cr_type_id_name(tensor.type_id, buf);
    cr_str type = cr_str_from(type_name);
    tensor.name = name;
    CR_TRY(keep_text(w, name, &tensor.name));
    if (type_name == buf)
        CR_TRY(keep_text(w, name, &type));
    *out = tensor;
    return CERA_OK;
}

const char *cr_gguf_type_name(const cr_tensor *tensor)
{
    char buf[16];
    const char *name = cr_type_id_name(tensor->type_id, buf);
    return name == buf ? tensor->name.data + tensor->name.size + 1 : name;
}

cr_shape_text cr_gguf_show_shape(const uint64_t *shape, int n_dims)
{
    cr_shape_text out;
    int n = 0, room = (int)sizeof out.text;
    for (int i = 0; i < n_dims && n < room; i++)
        n += snprintf(out.text + n, (size_t)(room - n), "%s%llu%s", i == 0 ? "[" : ", ",
                      (unsigned long long)shape[i], i + 1 == n_dims ? "]" : "");
    return out;
}

/* Turns the offset in the file into a place, and checks that the tensor is all there. */
static cera_status place_tensor(const cr_gguf *file, cr_tensor *tensor, cera_error *err)
{
    uint64_t room = file->view.n_bytes - file->data_offset, offset = tensor->offset, size = 0;

    if (offset % file->alignment != 0)
        return cr_fail(
            err, CERA_E_FORMAT, "%s: offset %llu is not a multiple of the alignment, %zu",
            cr_gguf_show(tensor->name).text, (unsigned long long)offset, file->alignment);
    if (tensor->type != CR_TYPE_COUNT) {
        const cr_type_info *info = cr_type_get(tensor->type);
        uint64_t weights = (uint64_t)info->weights;
        if (tensor->shape[0] % weights != 0)
            return cr_fail(err, CERA_E_FORMAT,
                           "%s: rows of %llu elements, expected a multiple of "
                           "%d for %s",
                           cr_gguf_show(tensor->name).text, (unsigned long long)tensor->shape[0],
                           info->weights, info->name);
        /* The product of the shape fits, as read_tensor found. */
        size = tensor->shape[0] / weights * tensor->shape[1] * tensor->shape[2] * tensor->shape[3];
        if (!cr_mul_u64(size, (uint64_t)info->block_bytes, &size))
            return cr_fail(err, CERA_E_FORMAT, "%s: its size in bytes overflows",
                           cr_gguf_show(tensor->name).text);
    }

    /* A type of unknown size has at least one byte. */
    uint64_t least = CR_MAX(size, 1);
    if (least > room || offset > room - least)
        return cr_fail(err, CERA_E_FORMAT,
                       "%s: offset %llu + size %llu is past the end of the file "
                       "(%zu bytes, tensor data from byte %zu)",
                       cr_gguf_show(tensor->name).text, (unsigned long long)offset,
                       (unsigned long long)size, file->view.n_bytes, file->data_offset);
    tensor->offset = file->data_offset + offset;
    tensor->size = (size_t)size;
    tensor->data = size > 0 ? file->view.bytes + (size_t)tensor->offset : NULL;
    return CERA_OK;
}

/* ---- the whole header ------------------------------------------------------------------------ */

/* Magic, version and counts. */
static cera_status read_header(walk *w, cr_gguf *file)
{
    const uint8_t *p;
    uint64_t n_tensors, n_keys;
    if (w->size >= 4 && memcmp(w->bytes, "GGUF", 4) != 0 && memcmp(w->bytes, "FUGG", 4) != 0)
        return cr_fail(w->err, CERA_E_FORMAT,
                       "byte 0: not a GGUF file: expected \"GGUF\", found %02x %02x %02x %02x",
                       w->bytes[0], w->bytes[1], w->bytes[2], w->bytes[3]);
    if (!take(w, HEADER, &p))
        return cr_fail(w->err, CERA_E_FORMAT,
                       "byte %zu: the file ends inside the header, expected at least %d bytes",
                       w->size, HEADER);

    file->version = cr_gguf_load_u32(p + 4);
    if (p[0] == 'F' || (file->version != 0 && (file->version & 0xffff) == 0))
        return cr_fail(w->err, CERA_E_UNSUPPORTED,
                       "byte 4: a big-endian file, expected little-endian; convert it with "
                       "gguf_convert_endian.py");
    if (file->version == 1)
        return cr_fail(w->err, CERA_E_UNSUPPORTED,
                       "byte 4: GGUF version 1 is obsolete, expected 2 "
                       "or 3; convert the model again");
    if (file->version != 2 && file->version != 3)
        return cr_fail(w->err, CERA_E_UNSUPPORTED,
                       "byte 4: unknown GGUF version %u, expected 2 or "
                       "3",
                       file->version);

    n_tensors = cr_gguf_load_u64(p + 8);
    n_keys = cr_gguf_load_u64(p + 16);
    size_t room = w->size - w->pos;
    if (n_tensors > room / MIN_TENSOR)
        return cr_fail(w->err, CERA_E_FORMAT, "byte 8: %llu tensors do not fit a file of %zu bytes",
                       (unsigned long long)n_tensors, w->size);
    if (n_keys > room / MIN_KEY)
        return cr_fail(w->err, CERA_E_FORMAT, "byte 16: %llu keys do not fit a file of %zu bytes",
                       (unsigned long long)n_keys, w->size);
    if (n_tensors > CR_GGUF_MAX_TENSORS)
        return cr_fail(w->err, CERA_E_LIMIT, "byte 8: %llu tensors, expected at most %d",
                       (unsigned long long)n_tensors, CR_GGUF_MAX_TENSORS);
    if (n_keys > CR_GGUF_MAX_KEYS)
        return cr_fail(w->err, CERA_E_LIMIT, "byte 16: %llu keys, expected at most %d",
                       (unsigned long long)n_keys, CR_GGUF_MAX_KEYS);
    file->n_tensors = (size_t)n_tensors;
    file->n_keys = (size_t)n_keys;
    return CERA_OK;
}

/* The block:  keys | tensors | string pointers | key index | tensor index | names
 * in falling order of alignment. Sets up w for the second walk. */
static cera_status allocate_block(cr_gguf *file, walk *w)
{
    const struct {
        size_t count, each;
    } parts[] = {
        { file->n_keys, sizeof *file->keys },
        { file->n_tensors, sizeof *file->tensors },
        { w->n_strings, sizeof *w->string },
        { file->n_keys, sizeof *file->key_index },
        { file->n_tensors, sizeof *file->tensor_index },
        { w->n_names, 1 },
    };
    size_t offset[CR_COUNT(parts)], total = 0, bytes;
    for (size_t i = 0; i < CR_COUNT(parts); i++) {
        offset[i] = total;
        if (!cr_mul_size(parts[i].count, parts[i].each, &bytes) ||
            !cr_add_size(total, bytes, &total))
            return cr_fail_nomem(w->err, SIZE_MAX, "metadata");
    }

    uint8_t *block = cr_alloc(file->host, CR_MEM_FILE, total);
    if (block == NULL)
        return cr_fail_nomem(w->err, total, "metadata");
    file->block = block;
    file->block_size = total;
    file->keys = (void *)(block + offset[0]);
    file->tensors = (void *)(block + offset[1]);
    w->string = (void *)(block + offset[2]);
    file->key_index = (void *)(block + offset[3]);
    file->tensor_index = (void *)(block + offset[4]);
    w->name = (char *)block + offset[5];
    return CERA_OK;
}

/* What the keys say about the container itself. */
static cera_status apply_keys(cr_gguf *file, cera_error *err)
{
    uint32_t alignment = 32, n_parts = 1, part = 0;
    CR_TRY(cr_gguf_get_u32(file, "general.alignment", CR_OPTIONAL, &alignment, err));
    if (alignment == 0 || (alignment & (alignment - 1)) != 0)
        return cr_fail(err, CERA_E_FORMAT, "general.alignment: expected a power of two, found %u",
                       alignment);
    if (alignment > CR_GGUF_MAX_ALIGNMENT)
        return cr_fail(err, CERA_E_LIMIT, "general.alignment: expected at most %d, found %u",
                       CR_GGUF_MAX_ALIGNMENT, alignment);
    file->alignment = alignment;

    CR_TRY(cr_gguf_get_u32(file, "split.count", CR_OPTIONAL, &n_parts, err));
    CR_TRY(cr_gguf_get_u32(file, "split.no", CR_OPTIONAL, &part, err));
    if (n_parts > CR_GGUF_MAX_PARTS)
        return cr_fail(err, CERA_E_LIMIT, "split.count: expected at most %d files, found %u",
                       CR_GGUF_MAX_PARTS, n_parts);
    if (part >= CR_MAX(n_parts, 1))
        return cr_fail(err, CERA_E_FORMAT, "split.no: expected less than split.count, %u, found %u",
                       n_parts, part);
    file->n_parts = CR_MAX(n_parts, 1);
    file->part = part;
    return CERA_OK;
}

static cera_status fill_tensors(cr_gguf *file, walk *w)
{
    for (size_t i = 0; i < file->n_tensors; i++) {
        cr_tensor *tensor = &file->tensors[i];
        CR_TRY(read_tensor(w, i, tensor));
        CR_TRY(place_tensor(file, tensor, w->err));
        tensor->part = file->part;
        uint64_t n = tensor->shape[0] * tensor->shape[1] * tensor->shape[2] * tensor->shape[3];
        if (n > UINT64_MAX - file->n_params)
            return cr_fail(w->err, CERA_E_FORMAT, "%s: the number of parameters overflows",
                           cr_gguf_show(tensor->name).text);
        file->n_params += n;
    }
    return CERA_OK;
}

/* The second walk. scratch has room for the items of either index. */
static cera_status fill(cr_gguf *file, walk *w, cr_gguf_item *scratch)
{
    size_t data_start = w->pos; /* the end of the first walk */
    w->pos = HEADER;
    for (size_t i = 0; i < file->n_keys; i++)
        CR_TRY(read_key(w, i, &file->keys[i]));
    CR_TRY(cr_gguf_index_keys(file, scratch, w->err));
    CR_TRY(apply_keys(file, w->err));

    if (!cr_align_up(data_start, file->alignment, &file->data_offset) ||
        (file->n_tensors > 0 && file->data_offset > file->view.n_bytes))
        return cr_fail(w->err, CERA_E_FORMAT,
                       "byte %zu: the file ends before the tensor data, "
                       "expected at byte %zu",
                       file->view.n_bytes, file->data_offset);
    CR_TRY(fill_tensors(file, w));
    CR_TRY(cr_gguf_check_overlap(file, scratch, w->err));
    return cr_gguf_index_tensors(file, scratch, w->err);
}

cera_status cr_gguf_parse(cr_gguf *file, cera_error *err)
{
    walk w = { .bytes = file->view.bytes, .size = file->view.n_bytes, .err = err };
    CR_TRY(read_header(&w, file));

    for (size_t i = 0; i < file->n_keys; i++) {
        cr_gguf_entry entry;
        CR_TRY(read_key(&w, i, &entry));
    }
    for (size_t i = 0; i < file->n_tensors; i++) {
        cr_tensor tensor;
        CR_TRY(read_tensor(&w, i, &tensor));
    }

    CR_TRY(allocate_block(file, &w));
    size_t scratch_size = CR_MAX(file->n_keys, file->n_tensors) * sizeof(cr_gguf_item);
    cr_gguf_item *scratch = cr_alloc(file->host, CR_MEM_FILE, scratch_size);
    if (scratch == NULL)
        return cr_fail_nomem(err, scratch_size, "metadata");
    cera_status status = fill(file, &w, scratch);
    cr_free(file->host, CR_MEM_FILE, scratch, scratch_size);
    return status;
}

#include "convert/safetensors.h"

#include "base/json.h"

#include <stdlib.h>

enum { MAX_HEADER = 100 << 20, MAX_RANK = CR_GGUF_MAX_DIMS };

static const struct {
    const char *name;
    cr_type type;
    unsigned bytes;
} dtypes[] = {
    { "F32", CR_TYPE_F32, 4 },    { "F16", CR_TYPE_F16, 2 },       { "BF16", CR_TYPE_BF16, 2 },
    { "F64", CR_TYPE_COUNT, 8 },  { "I64", CR_TYPE_COUNT, 8 },     { "I32", CR_TYPE_COUNT, 4 },
    { "I16", CR_TYPE_COUNT, 2 },  { "I8", CR_TYPE_COUNT, 1 },      { "U8", CR_TYPE_COUNT, 1 },
    { "BOOL", CR_TYPE_COUNT, 1 }, { "U16", CR_TYPE_COUNT, 2 },     { "U32", CR_TYPE_COUNT, 4 },
    { "U64", CR_TYPE_COUNT, 8 },  { "F8_E4M3", CR_TYPE_COUNT, 1 }, { "F8_E5M2", CR_TYPE_COUNT, 1 },
};

static uint64_t load_u64(const uint8_t *p)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | p[i];
    return value;
}

/* What one tensor's entry and messages about it need. */
typedef struct source {
    const uint8_t *data; /* [n_data] */
    uint64_t n_data;
    const char *path;
} source;

static cera_status read_shape(const cr_json *shape, const char *name, const char *path,
                              cr_tensor *out, uint64_t *n_elements, cera_error *err)
{
    size_t rank = cr_json_count(shape, CR_JSON_ARRAY);
    if (!cr_json_is(shape, CR_JSON_ARRAY) || rank > MAX_RANK)
        return cr_fail(err, CERA_E_FORMAT, "%s: %s: expected a shape of at most %d numbers", path,
                       name, MAX_RANK);
    out->n_dims = rank > 0 ? (int)rank : 1;
    *n_elements = 1;
    for (size_t i = 0; i < MAX_RANK; i++)
        out->shape[i] = 1;
    for (size_t i = 0; i < rank; i++) {
        int64_t n = 0;
        if (!cr_json_i64(cr_json_at(shape, i), &n) || n < 1 ||
            (uint64_t)n > (UINT64_MAX >> 4) / *n_elements)
            return cr_fail(err, CERA_E_FORMAT, "%s: %s: dimension %zu: expected a size, found %lld",
                           path, name, i, (long long)n);
        out->shape[rank - 1 - i] = (uint64_t)n;
        *n_elements *= (uint64_t)n;
    }
    return CERA_OK;
}

static cera_status read_entry(const source *from, const cr_json *entry, cr_tensor *out,
                              cera_error *err)
{
    const char *name = out->name.data;
    cr_str dtype = cr_json_str(cr_json_get(entry, "dtype"));
    size_t k = 0;
    while (k < CR_COUNT(dtypes) && !cr_str_is(dtype, dtypes[k].name))
        k++;
    if (k == CR_COUNT(dtypes))
        return cr_fail(err, CERA_E_FORMAT, "%s: %s: expected a known dtype, found \"%.*s\"",
                       from->path, name, (int)CR_MIN(dtype.size, (size_t)32), dtype.data);
    uint64_t n_elements = 0;
    CR_TRY(read_shape(cr_json_get(entry, "shape"), name, from->path, out, &n_elements, err));

    const cr_json *offsets = cr_json_get(entry, "data_offsets");
    int64_t begin = -1, end = -1;
    if (!cr_json_i64(cr_json_at(offsets, 0), &begin) ||
        !cr_json_i64(cr_json_at(offsets, 1), &end) || cr_json_count(offsets, CR_JSON_ARRAY) != 2 ||
        begin < 0 || end < begin || (uint64_t)end > from->n_data)
        return cr_fail(
            err, CERA_E_FORMAT,
            "%s: %s: data_offsets: expected two in order, up to %llu, found %lld and %lld",
            from->path, name, (unsigned long long)from->n_data, (long long)begin, (long long)end);
    if ((uint64_t)(end - begin) != n_elements * dtypes[k].bytes)
        return cr_fail(err, CERA_E_FORMAT, "%s: %s: expected %llu bytes for its shape, found %lld",
                       from->path, name, (unsigned long long)(n_elements * dtypes[k].bytes),
                       (long long)(end - begin));
    out->type = dtypes[k].type;
    out->offset = (uint64_t)begin;
    out->size = (size_t)(end - begin);
    if (out->type != CR_TYPE_COUNT) {
        out->type_id = cr_type_get(out->type)->id;
        out->data = from->data + begin;
    }
    return CERA_OK;
}

static int by_offset(const void *a, const void *b)
{
    const cr_tensor *x = *(const cr_tensor *const *)a, *y = *(const cr_tensor *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The format has no holes: each byte of the data belongs to one tensor. What says otherwise is
 * damaged, or was made by somebody who miscounted. */
static cera_status check_cover(const cr_safetensors *file, cr_arena *arena, const source *from,
                               cera_error *err)
{
    size_t n = file->n_tensors;
    const cr_tensor **order = cr_arena_array(arena, n + 1, sizeof *order);
    if (order == NULL)
        return cr_fail_nomem(err, n * sizeof *order, from->path);
    for (size_t i = 0; i < n; i++)
        order[i] = &file->tensors[i];
    qsort(order, n, sizeof *order, by_offset);
    uint64_t end = 0;
    for (size_t i = 0; i < n; i++) {
        if (order[i]->offset != end)
            return cr_fail(
                err, CERA_E_FORMAT,
                "%s: %s: data_offsets: expected to begin at %llu, behind the tensor before "
                "it, found %llu",
                from->path, order[i]->name.data, (unsigned long long)end,
                (unsigned long long)order[i]->offset);
        end += order[i]->size;
    }
    if (end != from->n_data)
        return cr_fail(err, CERA_E_FORMAT, "%s: expected %llu bytes of tensors, found %llu",
                       from->path, (unsigned long long)end, (unsigned long long)from->n_data);
    return CERA_OK;
}

static cera_status read_header(cr_safetensors *file, cr_arena *arena, const source *from,
                               const cr_json *header, cera_error *err)
{
    if (!cr_json_is(header, CR_JSON_OBJECT))
        return cr_fail(err, CERA_E_FORMAT, "%s: expected a JSON object", from->path);
    file->tensors = cr_arena_array(arena, (size_t)header->n + 1, sizeof *file->tensors);
    if (file->tensors == NULL)
        return cr_fail_nomem(err, 0, from->path);
    for (const cr_json *entry = header->first; entry != NULL; entry = entry->next) {
        if (cr_str_is(entry->key, "__metadata__"))
            continue;
        cr_tensor *t = &file->tensors[file->n_tensors];
        size_t n = entry->key.size;
        if (n > CR_GGUF_MAX_NAME)
            return cr_fail(err, CERA_E_LIMIT,
                           "%s: a tensor's name has %zu bytes, expected at most %d", from->path, n,
                           CR_GGUF_MAX_NAME);
        t->name = (cr_str){ cr_arena_copy(arena, entry->key.data, n), n };
        if (t->name.data == NULL)
            return cr_fail_nomem(err, n, from->path);
        CR_TRY(read_entry(from, entry, t, err));
        file->n_tensors++;
    }
    return check_cover(file, arena, from, err);
}

cera_status cr_safetensors_parse(cr_safetensors *file, cr_arena *arena, const void *bytes, size_t n,
                                 const char *path, cera_error *err)
{
    const uint8_t *p = bytes;
    file->tensors = NULL;
    file->n_tensors = 0;
    file->path = path;
    if (n < 8)
        return cr_fail(err, CERA_E_FORMAT, "%s: expected at least 8 bytes, found %zu", path, n);
    uint64_t n_header = load_u64(p);
    if (n_header > n - 8 || n_header > MAX_HEADER)
        return cr_fail(err, CERA_E_FORMAT, "%s: expected a header of at most %zu bytes, found %llu",
                       path, CR_MIN(n - 8, (size_t)MAX_HEADER), (unsigned long long)n_header);
    static const cr_json_rules rules = { .max_bytes = MAX_HEADER,
                                         .max_values = 1 << 24,
                                         .max_depth = 8 };
    const cr_json *header;
    source from = { p + 8 + n_header, n - 8 - n_header, path };
    cr_arena tree;
    cr_arena_init(&tree, arena->host, arena->purpose);
    cera_status status = cr_json_parse((cr_str){ (const char *)p + 8, (size_t)n_header }, path,
                                       &rules, &tree, &header, err);
    if (status == CERA_OK)
        status = read_header(file, arena, &from, header, err);
    cr_arena_done(&tree);
    return status;
}

cera_status cr_safetensors_open(cr_safetensors *file, cr_arena *arena, const char *path,
                                cera_error *err)
{
    CR_TRY(cr_view_open(&file->view, arena->host, path, UINT64_MAX, false, err));
    cera_status status =
        cr_safetensors_parse(file, arena, file->view.bytes, file->view.n_bytes, path, err);
    if (status != CERA_OK)
        cr_safetensors_close(file);
    return status;
}

void cr_safetensors_close(cr_safetensors *file)
{
    cr_view_done(&file->view);
    file->n_tensors = 0;
}

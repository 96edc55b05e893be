/* Models in several files.
 *
 *     m-00001-of-00003.gguf   split.no 0, split.count 3, split.tensors.count of all; the model's keys
 *     m-00002-of-00003.gguf   split.no 1, split.count 3; tensors
 *     m-00003-of-00003.gguf   split.no 2, split.count 3; tensors
 *
 * Each is a GGUF file of its own, with its own alignment and offsets, and is opened and checked as
 * such. What they say decides whether they belong together; the name only tells where to look, and
 * is taken as it was given: a link into a cache keeps its siblings beside it. */
#include "file/gguf_internal.h"

#include "base/arith.h"

#include <stdio.h>

/* "-00002-of-00003.gguf": i from 0. Always as long as this. */
typedef struct part_suffix {
    char text[32];
    size_t size;
} part_suffix;

static part_suffix suffix_of(uint32_t i, uint32_t n_parts)
{
    part_suffix suffix;
    suffix.size =
        (size_t)snprintf(suffix.text, sizeof suffix.text, "-%05u-of-%05u.gguf", i + 1, n_parts);
    return suffix;
}

/* Opens part i beside `path`, whose last bytes are a suffix. */
static cera_status open_part(cr_host *host, const cera_source *source, uint32_t i, uint32_t n_parts,
                             cr_gguf **out, cera_error *err)
{
    size_t size = strlen(source->path);
    char *path = cr_alloc(host, CR_MEM_FILE, size + 1);
    if (path == NULL)
        return cr_fail_nomem(err, size + 1, "the name of a part");
    part_suffix suffix = suffix_of(i, n_parts);
    memcpy(path, source->path, size - suffix.size);
    memcpy(path + size - suffix.size, suffix.text, suffix.size + 1);

    cera_source part = *source;
    part.path = path;
    cera_error why;
    cera_status status = cr_gguf_open_one(&part, host, out, &why);
    if (status != CERA_OK && strncmp(why.message, path, size) == 0)
        cr_fail(err, status, "%s", why.message); /* it names the file already */
    else if (status != CERA_OK)
        cr_fail(err, status, "%s: %s", path, why.message);
    cr_free(host, CR_MEM_FILE, path, size + 1);
    return status;
}

/* Does `part` say that it is part i of what `first` begins? */
static cera_status check_part(const cr_gguf *first, const cr_gguf *part, uint32_t i,
                              cera_error *err)
{
    if (part->n_parts != first->n_parts)
        return cr_fail(err, CERA_E_FORMAT, "split.count: expected %u, found %u", first->n_parts,
                       part->n_parts);
    if (part->part != i)
        return cr_fail(err, CERA_E_FORMAT, "split.no: expected %u, found %u", i, part->part);
    /* Parts of another model with as many files have other tensors, mostly in another number. */
    uint32_t expected = 0, found;
    CR_TRY(cr_gguf_get_u32(first, "split.tensors.count", CR_REQUIRED, &expected, err));
    found = expected;
    CR_TRY(cr_gguf_get_u32(part, "split.tensors.count", CR_OPTIONAL, &found, err));
    if (found != expected)
        return cr_fail(err, CERA_E_FORMAT, "split.tensors.count: expected %u, found %u", expected,
                       found);
    cr_str arch = { "", 0 }, other;
    CR_TRY(cr_gguf_get_str(first, "general.architecture", CR_OPTIONAL, &arch, err));
    other = arch;
    CR_TRY(cr_gguf_get_str(part, "general.architecture", CR_OPTIONAL, &other, err));
    if (other.size != arch.size || memcmp(other.data, arch.data, arch.size) != 0)
        return cr_fail(err, CERA_E_FORMAT,
                       "general.architecture: not the one of the first part; the files are of "
                       "different models");
    return CERA_OK;
}

static cera_status count_tensors(cr_gguf *const *parts, uint32_t n_parts, size_t *n_tensors,
                                 uint64_t *n_params, cera_error *err)
{
    uint32_t expected = 0;
    CR_TRY(cr_gguf_get_u32(parts[0], "split.tensors.count", CR_REQUIRED, &expected, err));
    for (uint32_t i = 0; i < n_parts; i++) {
        *n_tensors += parts[i]->n_tensors; /* at most MAX_PARTS * MAX_TENSORS */
        if (parts[i]->n_params > UINT64_MAX - *n_params)
            return cr_fail(err, CERA_E_FORMAT, "%s: the number of parameters overflows",
                           parts[i]->path);
        *n_params += parts[i]->n_params;
    }
    if (*n_tensors != expected)
        return cr_fail(err, CERA_E_FORMAT,
                       "%s: split.tensors.count: expected %u, the %u files have %zu",
                       parts[0]->path, expected, n_parts, *n_tensors);
    if (*n_tensors > CR_GGUF_MAX_TENSORS)
        return cr_fail(err, CERA_E_LIMIT, "%s: %zu tensors in %u files, expected at most %d",
                       parts[0]->path, *n_tensors, n_parts, CR_GGUF_MAX_TENSORS);
    return CERA_OK;
}

/* Puts the tensors of all parts into the first: merged = tensors | index. */
static cera_status merge(cr_gguf **parts, cera_error *err)
{
    cr_gguf *head = parts[0];
    size_t n = 0, bytes;
    uint64_t n_params = 0;
    CR_TRY(count_tensors(parts, head->n_parts, &n, &n_params, err));
    bytes = n * (sizeof(cr_tensor) + sizeof(cr_gguf_item));
    void *merged = cr_alloc(head->host, CR_MEM_FILE, bytes);
    cr_gguf_item *scratch = cr_alloc(head->host, CR_MEM_FILE, n * sizeof *scratch);
    if (merged == NULL || scratch == NULL) {
        cr_free(head->host, CR_MEM_FILE, merged, bytes);
        cr_free(head->host, CR_MEM_FILE, scratch, n * sizeof *scratch);
        return cr_fail_nomem(err, bytes, "metadata");
    }
    cr_tensor *tensors = merged;
    for (uint32_t i = 0, done = 0; i < head->n_parts; i++) {
        memcpy(tensors + done, parts[i]->tensors, parts[i]->n_tensors * sizeof *tensors);
        done += (uint32_t)parts[i]->n_tensors;
    }
    head->parts = parts;
    head->merged = merged;
    head->merged_size = bytes;
    head->tensors = tensors;
    head->tensor_index = (void *)(tensors + n);
    head->n_tensors = n;
    head->n_params = n_params;
    cera_status status = cr_gguf_index_tensors(head, scratch, err);
    cr_free(head->host, CR_MEM_FILE, scratch, n * sizeof *scratch);
    return status;
}

static cera_status open_all(cr_gguf **parts, const cr_gguf *part, const cera_source *source,
                            cera_error *err)
{
    for (uint32_t i = 0; i < part->n_parts; i++) {
        if (parts[i] == NULL)
            CR_TRY(open_part(part->host, source, i, part->n_parts, &parts[i], err));
        cera_status status = check_part(parts[0], parts[i], i, err);
        if (status != CERA_OK)
            return cr_fail_in(err, status, parts[i]->path);
    }
    return merge(parts, err);
}

static cera_status want_siblings(const cr_gguf *part, const cera_source *source, cera_error *err)
{
    if (source->path == NULL)
        return cr_fail(err, CERA_E_UNSUPPORTED,
                       "split.count: expected one file, found part %u of %u; memory has no files "
                       "beside it: open a path, or join them with llama-gguf-split --merge",
                       part->part + 1, part->n_parts);
    part_suffix suffix = suffix_of(part->part, part->n_parts);
    size_t size = strlen(source->path);
    if (size < suffix.size ||
        memcmp(source->path + size - suffix.size, suffix.text, suffix.size) != 0)
        return cr_fail(err, CERA_E_FORMAT,
                       "%s: split.count: part %u of %u, expected a name that ends in %s, by which "
                       "the others are found",
                       source->path, part->part + 1, part->n_parts, suffix.text);
    return CERA_OK;
}

cera_status cr_gguf_open_parts(cr_gguf *part, const cera_source *source, cr_gguf **out,
                               cera_error *err)
{
    cr_host *host = part->host;
    uint32_t n_parts = part->n_parts;
    cr_gguf **parts = NULL;
    cera_status status = want_siblings(part, source, err);
    if (status == CERA_OK) {
        parts = cr_alloc_zero(host, CR_MEM_FILE, n_parts * sizeof *parts);
        if (parts == NULL)
            status = cr_fail_nomem(err, n_parts * sizeof *parts, source->path);
    }
    if (parts == NULL) {
        cr_gguf_close(part);
        return status;
    }
    parts[part->part] = part;
    status = open_all(parts, part, source, err);
    if (status == CERA_OK) {
        *out = parts[0];
        return CERA_OK;
    }
    if (parts[0] != NULL && parts[0]->parts != NULL) { /* it owns them by now */
        cr_gguf_close(parts[0]);
        return status;
    }
    for (uint32_t i = 0; i < n_parts; i++)
        cr_gguf_close(parts[i]);
    cr_free(host, CR_MEM_FILE, parts, n_parts * sizeof *parts);
    return status;
}

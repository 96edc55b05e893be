/* Order over keys and tensors: lookup by name, duplicate names, tensors that overlap.
 *
 * All three come from sorting small items, never from comparing all pairs. A merge sort, because
 * its worst case is its usual case: a hash table that does not know its attacker can be made
 * quadratic by a file with chosen names, and a million tensors are allowed. It needs a second array
 * and no recursion. */
#include "file/gguf_internal.h"

#include <assert.h>

/* Below 0, 0 or above 0, as memcmp. */
typedef int compare_fn(const cr_gguf *file, cr_gguf_item a, cr_gguf_item b);

/* Sorts items[0, n). scratch has room for n. */
static void sort(const cr_gguf *file, cr_gguf_item *items, cr_gguf_item *scratch, size_t n,
                 compare_fn *compare)
{
    cr_gguf_item *from = items, *to = scratch;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            size_t middle = CR_MIN(begin + width, n), end = CR_MIN(begin + 2 * width, n);
            size_t left = begin, right = middle;
            for (size_t i = begin; i < end; i++) {
                bool take_left =
                    right == end || (left < middle && compare(file, from[left], from[right]) <= 0);
                to[i] = take_left ? from[left++] : from[right++];
            }
        }
        cr_gguf_item *swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, n * sizeof *items);
}

static uint32_t hash_name(cr_str name)
{
    return (uint32_t)cr_hash(name.data, name.size);
}

static int compare_names(cr_str a, cr_str b)
{
    int order = memcmp(a.data, b.data, CR_MIN(a.size, b.size));
    if (order != 0)
        return order;
    return a.size < b.size ? -1 : a.size > b.size;
}

static cr_str key_name(const cr_gguf *file, size_t i)
{
    return (cr_str){ file->keys[i].name, file->keys[i].name_size };
}

static cr_str tensor_name(const cr_gguf *file, size_t i)
{
    return file->tensors[i].name;
}

static int compare_keys(const cr_gguf *file, cr_gguf_item a, cr_gguf_item b)
{
    if (a.hash != b.hash)
        return a.hash < b.hash ? -1 : 1;
    return compare_names(key_name(file, a.i), key_name(file, b.i));
}

static int compare_tensors(const cr_gguf *file, cr_gguf_item a, cr_gguf_item b)
{
    if (a.hash != b.hash)
        return a.hash < b.hash ? -1 : 1;
    return compare_names(tensor_name(file, a.i), tensor_name(file, b.i));
}

static int compare_offsets(const cr_gguf *file, cr_gguf_item a, cr_gguf_item b)
{
    uint64_t x = file->tensors[a.i].offset, y = file->tensors[b.i].offset;
    return x < y ? -1 : x > y;
}

cera_status cr_gguf_index_keys(cr_gguf *file, cr_gguf_item *scratch, cera_error *err)
{
    cr_gguf_item *index = file->key_index;
    for (size_t i = 0; i < file->n_keys; i++)
        index[i] = (cr_gguf_item){ hash_name(key_name(file, i)), (uint32_t)i };
    sort(file, index, scratch, file->n_keys, compare_keys);
    for (size_t i = 1; i < file->n_keys; i++) {
        if (compare_keys(file, index[i - 1], index[i]) == 0)
            return cr_fail(err, CERA_E_FORMAT, "%s: the file has this key twice",
                           cr_gguf_show(key_name(file, index[i].i)).text);
    }
    return CERA_OK;
}

cera_status cr_gguf_index_tensors(cr_gguf *file, cr_gguf_item *scratch, cera_error *err)
{
    cr_gguf_item *index = file->tensor_index;
    for (size_t i = 0; i < file->n_tensors; i++)
        index[i] = (cr_gguf_item){ hash_name(tensor_name(file, i)), (uint32_t)i };
    sort(file, index, scratch, file->n_tensors, compare_tensors);
    for (size_t i = 1; i < file->n_tensors; i++) {
        if (compare_tensors(file, index[i - 1], index[i]) != 0)
            continue;
        const cr_tensor *a = &file->tensors[index[i - 1].i], *b = &file->tensors[index[i].i];
        if (a->part == b->part)
            return cr_fail(err, CERA_E_FORMAT, "%s: the file has this tensor twice",
                           cr_gguf_show(b->name).text);
        return cr_fail(err, CERA_E_FORMAT, "%s: %s has this tensor too", file->parts[b->part]->path,
                       file->parts[a->part]->path);
    }
    return CERA_OK;
}

cera_status cr_gguf_check_overlap(cr_gguf *file, cr_gguf_item *scratch, cera_error *err)
{
    cr_gguf_item *order = file->tensor_index;
    bool sorted = true; /* as every writer leaves them */
    for (size_t i = 0; i < file->n_tensors; i++) {
        order[i] = (cr_gguf_item){ 0, (uint32_t)i };
        if (i > 0 && file->tensors[i].offset < file->tensors[i - 1].offset)
            sorted = false;
    }
    if (!sorted)
        sort(file, order, scratch, file->n_tensors, compare_offsets);

    for (size_t i = 1; i < file->n_tensors; i++) {
        const cr_tensor *a = &file->tensors[order[i - 1].i], *b = &file->tensors[order[i].i];
        /* A type of unknown size has at least one byte. The end of a is inside the file, so the sum
         * does not wrap. */
        uint64_t end = a->offset + CR_MAX(a->size, 1);
        if (b->offset < end)
            return cr_fail(err, CERA_E_FORMAT,
                           "%s: overlaps tensor %s: offset %llu is before its end, %llu",
                           cr_gguf_show(b->name).text, cr_gguf_show(a->name).text,
                           (unsigned long long)b->offset, (unsigned long long)end);
    }
    return CERA_OK;
}

/* ---- lookup: binary search by hash, then name ------------------------------------------------ */

static const cr_gguf_item *search(const cr_gguf *file, const cr_gguf_item *index, size_t n,
                                  cr_str name, cr_str (*name_of)(const cr_gguf *file, size_t i))
{
    uint32_t hash = hash_name(name);
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        cr_gguf_item item = index[middle];
        int order = hash < item.hash ? -1 : hash > item.hash;
        if (order == 0)
            order = compare_names(name, name_of(file, item.i));
        if (order == 0)
            return &index[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const cr_gguf_entry *cr_gguf_lookup_key(const cr_gguf *file, cr_str name)
{
    const cr_gguf_item *item = search(file, file->key_index, file->n_keys, name, key_name);
    return item != NULL ? &file->keys[item->i] : NULL;
}

const cr_tensor *cr_gguf_find_tensor(const cr_gguf *file, const char *name)
{
    const cr_gguf_item *item =
        search(file, file->tensor_index, file->n_tensors, cr_str_from(name), tensor_name);
    return item != NULL ? &file->tensors[item->i] : NULL;
}

/* Reading and looking up the compiled normaliser: see charsmap.h. */
#include "token/charsmap.h"

#define KEY "tokenizer.ggml.precompiled_charsmap"

/* A text grows by this factor at most, and so does the work. Of the maps of NFKC the longest text
 * has 33 bytes. */
enum { LONGEST_TEXT = 255 };

static uint32_t unit_at(const cera_value *array, uint64_t i)
{
    uint32_t unit = 0;
    for (uint64_t byte = 0; byte < 4; byte++) {
        cera_value element;
        cr_gguf_element(array, i + byte, &element);
        uint64_t bits = element.type == CERA_VALUE_I8 ? (uint64_t)element.as.i : element.as.u;
        unit |= (uint32_t)(bits & 0xff) << 8 * byte;
    }
    return unit;
}

static cera_status check_texts(const char *texts, size_t n, cera_error *err)
{
    if (texts[n - 1] != '\0')
        return cr_fail(err, CERA_E_FORMAT, KEY ": its last text has no end");
    size_t begin = 0;
    for (size_t i = 0; i < n; i++) {
        if (texts[i] != '\0')
            continue;
        if (i - begin > LONGEST_TEXT)
            return cr_fail(err, CERA_E_LIMIT, KEY ": expected texts of at most %d bytes, found %zu",
                           LONGEST_TEXT, i - begin);
        begin = i + 1;
    }
    return CERA_OK;
}

cera_status cr_charsmap_read(cr_charsmap *map, const cr_gguf *file, cr_arena *arena,
                             cera_error *err)
{
    *map = (cr_charsmap){ 0 };
    cera_value array;
    if (!cr_gguf_find(file, KEY, &array))
        return CERA_OK;
    if (array.type != CERA_VALUE_ARRAY ||
        (array.element != CERA_VALUE_U8 && array.element != CERA_VALUE_I8))
        return cr_fail(err, CERA_E_FORMAT, KEY ": expected an array of bytes");
    if (array.count == 0)
        return CERA_OK;
    uint64_t n_trie = array.count >= 4 ? unit_at(&array, 0) : 0;
    if (n_trie == 0 || n_trie % 4 != 0 || array.count - 4 <= n_trie)
        return cr_fail(err, CERA_E_FORMAT, KEY ": a trie of %llu bytes, in a map of %llu",
                       (unsigned long long)n_trie, (unsigned long long)array.count);

    size_t n_units = (size_t)n_trie / 4, n_texts = (size_t)(array.count - 4 - n_trie);
    uint32_t *units = cr_arena_array(arena, n_units, sizeof *units);
    char *texts = cr_arena_alloc(arena, n_texts);
    if (units == NULL || texts == NULL)
        return cr_fail_nomem(err, (size_t)array.count, "the vocabulary");
    for (size_t i = 0; i < n_units; i++)
        units[i] = unit_at(&array, 4 + 4 * i);
    for (size_t i = 0; i < n_texts; i++) {
        cera_value element;
        cr_gguf_element(&array, 4 + n_trie + i, &element);
        texts[i] = (char)(element.type == CERA_VALUE_I8 ? element.as.i : (int64_t)element.as.u);
    }
    CR_TRY(check_texts(texts, n_texts, err));
    *map = (cr_charsmap){ units, n_units, texts, n_texts };
    return CERA_OK;
}

static uint32_t offset_of(uint32_t unit)
{
    return unit >> 10 << ((unit & 1u << 9) >> 6);
}

static cera_status leads_out(cera_error *err)
{
    return cr_fail(err, CERA_E_FORMAT, KEY ": the trie leads out of itself");
}

cera_status cr_charsmap_find(const cr_charsmap *map, cr_str text, size_t *size, cr_str *to,
                             cera_error *err)
{
    *size = 0;
    if (map->n_units == 0)
        return CERA_OK;
    size_t at = offset_of(map->units[0]);
    for (size_t i = 0; i < text.size && text.data[i] != '\0'; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        at ^= byte;
        if (at >= map->n_units)
            return leads_out(err);
        uint32_t unit = map->units[at];
        if ((unit & (1u << 31 | 0xff)) != byte)
            break;
        at ^= offset_of(unit);
        if ((unit & 1u << 8) == 0)
            continue;
        size_t begin = at < map->n_units ? map->units[at] & 0x7fffffff : map->n_texts;
        if (begin >= map->n_texts)
            return leads_out(err);
        *size = i + 1;
        *to = cr_str_from(map->texts + begin);
    }
    return CERA_OK;
}

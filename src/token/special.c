/* Special tokens in text.
 *
 * The set is sorted, so the tokens that agree with the text in their first d bytes are neighbours.
 * Matching narrows that range byte by byte:
 *
 *     text  <|im_end|>hi      d = 1  <|end|>  <|im_end|>  <|im_start|>
 *                             d = 3           <|im_end|>  <|im_start|>
 *                             d = 6           <|im_end|> */
#include "token/special.h"

/* Orders by text, then by id. */
static bool is_before(const cr_special *a, const cr_special *b)
{
    int order = memcmp(a->text.data, b->text.data, CR_MIN(a->text.size, b->text.size));
    if (order != 0)
        return order < 0;
    if (a->text.size != b->text.size)
        return a->text.size < b->text.size;
    return a->id < b->id;
}

/* Merges the sorted runs from[lo, mid) and from[mid, hi) into to[lo, hi). */
static void merge_runs(const cr_special *from, cr_special *to, size_t lo, size_t mid, size_t hi)
{
    size_t a = lo, b = mid;
    for (size_t i = lo; i < hi; i++) {
        bool take_b = a == mid || (b < hi && is_before(&from[b], &from[a]));
        to[i] = take_b ? from[b++] : from[a++];
    }
}

/* Bottom-up merge sort: no recursion, and no allocation behind our back as in some qsort. */
static bool sort_items(cr_special *items, size_t n, cr_arena *arena)
{
    cr_arena_mark mark = cr_arena_get_mark(arena);
    cr_special *spare = cr_arena_array(arena, n, sizeof *spare);
    if (spare == NULL)
        return false;
    cr_special *from = items, *to = spare;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width)
            merge_runs(from, to, lo, CR_MIN(lo + width, n), CR_MIN(lo + 2 * width, n));
        cr_special *swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, n * sizeof *items);
    cr_arena_to_mark(arena, mark);
    return true;
}

static bool same_text(cr_str a, cr_str b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

bool cr_specials_init(cr_specials *specials, cr_special *items, size_t n, cr_arena *arena)
{
    *specials = (cr_specials){ .items = items, .only = -1 };
    if (n == 0)
        return true;
    if (!sort_items(items, n, arena))
        return false;

    size_t kept = 1;
    for (size_t i = 1; i < n; i++)
        if (!same_text(items[i].text, items[kept - 1].text))
            items[kept++] = items[i];
    specials->n = kept;

    for (size_t i = 0; i < kept; i++)
        specials->first[(unsigned char)items[i].text.data[0] + 1]++;
    for (int b = 0; b < 256; b++)
        specials->first[b + 1] += specials->first[b];
    unsigned char byte = (unsigned char)items[0].text.data[0];
    if (byte == (unsigned char)items[kept - 1].text.data[0])
        specials->only = byte;
    return true;
}

/* The first item of [lo, hi) whose byte d is at least `byte`. */
static size_t lower_bound(const cr_specials *specials, size_t lo, size_t hi, size_t d, int byte)
{
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if ((unsigned char)specials->items[mid].text.data[d] < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

const cr_special *cr_specials_next(const cr_specials *specials, cr_str text, cr_special_walk *walk)
{
    if (walk->depth == 0 && text.size > 0) {
        unsigned char byte = (unsigned char)text.data[0];
        *walk = (cr_special_walk){ specials->first[byte], specials->first[byte + 1], 1 };
    }
    while (walk->lo < walk->hi) {
        size_t d = walk->depth;
        /* The texts are different, so at most one of them ends here. */
        if (specials->items[walk->lo].text.size == d)
            return &specials->items[walk->lo++];
        if (d == text.size)
            break;
        int byte = (unsigned char)text.data[d];
        walk->lo = lower_bound(specials, walk->lo, walk->hi, d, byte);
        walk->hi = lower_bound(specials, walk->lo, walk->hi, d, byte + 1);
        walk->depth++;
    }
    return NULL;
}

/* The longest item that text[at, ...) begins with, NULL for none. */
static const cr_special *match_at(const cr_specials *specials, cr_str text, size_t at)
{
    const cr_special *best = NULL, *next;
    cr_str rest = { text.data + at, text.size - at };
    cr_special_walk walk = { 0 };
    while ((next = cr_specials_next(specials, rest, &walk)) != NULL)
        best = next;
    return best;
}

bool cr_specials_find(const cr_specials *specials, cr_str text, size_t from, size_t *at,
                      const cr_special **item)
{
    if (specials->n == 0)
        return false;
    for (size_t i = from; i < text.size; i++) {
        if (specials->only >= 0) {
            const char *hit = memchr(text.data + i, specials->only, text.size - i);
            if (hit == NULL)
                return false;
            i = (size_t)(hit - text.data);
        }
        const cr_special *found = match_at(specials, text, i);
        if (found != NULL) {
            *at = i;
            *item = found;
            return true;
        }
    }
    return false;
}

/* ---- white space --------------------------------------------------------------------------- */

static bool is_white(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        { 0x09, 0x0d },     { 0x20, 0x20 },     { 0x85, 0x85 },     { 0xa0, 0xa0 },
        { 0x1680, 0x1680 }, { 0x2000, 0x200a }, { 0x2028, 0x2029 }, { 0x202f, 0x202f },
        { 0x205f, 0x205f }, { 0x3000, 0x3000 },
    };
    for (size_t i = 0; i < CR_COUNT(ranges); i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

size_t cr_white_begin(cr_str text)
{
    size_t i = 0;
    for (uint32_t code; i < text.size;) {
        size_t n = cr_utf8_decode(text.data + i, text.size - i, &code);
        if (n == 0 || !is_white(code))
            break;
        i += n;
    }
    return i;
}

size_t cr_white_end(cr_str text)
{
    size_t end = text.size;
    for (uint32_t code; end > 0;) {
        size_t n = 1;
        while (n < end && n < 4 && ((unsigned char)text.data[end - n] & 0xc0) == 0x80)
            n++;
        if (cr_utf8_decode(text.data + end - n, n, &code) != n || !is_white(code))
            break;
        end -= n;
    }
    return text.size - end;
}

/* Stop texts: a small buffer of what may still become one.
 *
 *     ... shown already | held: ready | may begin a stop text
 *
 * The stop text that is complete first ends the generation (of several that end at the same byte,
 * the one that begins first), whatever pieces the text arrives in. */
#include "sample/stop.h"

enum { MAX_TEXTS = 16, MAX_TEXT_SIZE = 256, RESERVE = 4096 };

cera_status cr_stop_init(cr_stop *stop, cr_host *host, const char *const *texts, size_t n_texts,
                         cera_error *err)
{
    if (n_texts > MAX_TEXTS)
        return cr_fail(err, CERA_E_ARG, "stop: expected at most %d texts, found %zu", MAX_TEXTS,
                       n_texts);
    if (n_texts > 0 && texts == NULL)
        return cr_fail(err, CERA_E_ARG, "stop: expected %zu texts, found NULL", n_texts);
    for (size_t i = 0; i < n_texts; i++) {
        size_t size = texts[i] == NULL ? 0 : strlen(texts[i]);
        if (size == 0 || size > MAX_TEXT_SIZE)
            return cr_fail(err, CERA_E_ARG, "stop: expected a text of 1 to %d bytes, found %zu",
                           MAX_TEXT_SIZE, size);
    }
    *stop = (cr_stop){ .texts = texts, .n_texts = n_texts };
    cr_buf_init(&stop->held, host, CR_MEM_SCRATCH);
    /* Room for any token, so that decoding does not allocate. */
    if (!cr_buf_reserve(&stop->held, RESERVE)) {
        cr_buf_done(&stop->held);
        return cr_fail_nomem(err, RESERVE, "the stop texts");
    }
    return CERA_OK;
}

void cr_stop_done(cr_stop *stop)
{
    cr_buf_done(&stop->held);
}

/* Where a stop text begins that ends at held[0, end); SIZE_MAX when there is none. */
static size_t find_ending_at(const cr_stop *stop, size_t end)
{
    size_t begin = SIZE_MAX;
    for (size_t i = 0; i < stop->n_texts; i++) {
        size_t size = strlen(stop->texts[i]);
        if (size <= end && end - size < begin &&
            memcmp(stop->held.data + end - size, stop->texts[i], size) == 0)
            begin = end - size;
    }
    return begin;
}

/* Whether held[begin, size) is the beginning of a stop text. */
static bool may_begin(const cr_stop *stop, size_t begin)
{
    size_t n = stop->held.size - begin;
    for (size_t i = 0; i < stop->n_texts; i++) {
        if (strncmp(stop->texts[i], stop->held.data + begin, n) == 0 &&
            memchr(stop->held.data + begin, 0, n) == NULL)
            return true;
    }
    return false;
}

bool cr_stop_push(cr_stop *stop, const char *text, size_t n, size_t *n_ready, bool *hit)
{
    size_t old_size = stop->held.size;
    if (!cr_buf_append(&stop->held, text, n))
        return false;
    *hit = false;
    for (size_t end = old_size + 1; end <= stop->held.size; end++) {
        size_t begin = find_ending_at(stop, end);
        if (begin != SIZE_MAX) {
            *n_ready = begin;
            *hit = true;
            return true;
        }
    }
    /* No stop text is longer than MAX_TEXT_SIZE, so only the last bytes can begin one. */
    size_t ready = stop->held.size > MAX_TEXT_SIZE ? stop->held.size - MAX_TEXT_SIZE : 0;
    if (stop->n_texts == 0)
        ready = stop->held.size;
    while (ready < stop->held.size && !may_begin(stop, ready))
        ready++;
    *n_ready = ready;
    return true;
}

void cr_stop_take(cr_stop *stop, size_t n)
{
    if (n == 0)
        return;
    memmove(stop->held.data, stop->held.data + n, stop->held.size - n);
    stop->held.size -= n;
}

size_t cr_stop_flush(cr_stop *stop)
{
    return stop->held.size;
}

#include "base/pcre.h"

#include <string.h>

/* PCRE2 does not say how large a piece was when it gives it back, so the size stands before it. */
enum { SIZE_ROOM = 16 };

void *cr_pcre_get(size_t size, void *ctx)
{
    const cr_pcre_memory *mem = ctx;
    char *ptr =
        size <= SIZE_MAX - SIZE_ROOM ? cr_alloc(mem->host, mem->purpose, size + SIZE_ROOM) : NULL;
    if (ptr == NULL) {
        if (mem->refused != NULL)
            *mem->refused = true;
        return NULL;
    }
    memcpy(ptr, &size, sizeof size);
    return ptr + SIZE_ROOM;
}

void cr_pcre_release(void *ptr, void *ctx)
{
    if (ptr == NULL)
        return;
    const cr_pcre_memory *mem = ctx;
    size_t size;
    char *start = (char *)ptr - SIZE_ROOM;
    memcpy(&size, start, sizeof size);
    cr_free(mem->host, mem->purpose, start, size + SIZE_ROOM);
}

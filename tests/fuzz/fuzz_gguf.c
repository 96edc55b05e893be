/* Any bytes as a GGUF file: opened from memory, then everything in it is read, and once more as an
 * adapter. Corpus and seeds: scripts/make-gguf-corpus. */
#include "support/gguf_walk.h"

#include "file/adapter_file.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever is taken for an adapter's is a tensor of the file. */
static void read_adapter(const cr_gguf *file, cr_host *host)
{
    cr_arena arena;
    cr_arena_init(&arena, host, CR_MEM_SCRATCH);
    cr_adapter_content content;
    cera_error err = { .message = "" };
    if (cr_adapter_read(file, &arena, &content, &err) == CERA_OK) {
        for (size_t i = 0; i < content.n_pairs; i++)
            if (!cr_gguf_find_tensor(file, content.pairs[i].a.name.data) ||
                !cr_gguf_find_tensor(file, content.pairs[i].b.name.data))
                abort();
        for (size_t i = 0; i < content.n_directions; i++)
            if (!cr_gguf_find_tensor(file, content.directions[i].values.name.data))
                abort();
        if (content.n_pairs + content.n_directions == 0)
            abort();
    } else if (err.message[0] == '\0') {
        abort();
    }
    cr_arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    cr_host host;
    cera_error err = { .message = "" };
    if (cr_host_set(&host, NULL, &err) != CERA_OK)
        abort();
    cera_source source = { .data = data, .n_data = size };
    cr_gguf *file = NULL;
    cera_status status = cr_gguf_open(&source, &host, &file, &err);
    if (status == CERA_OK) {
        size_t found;
        volatile uint64_t sum = walk_file(file, &found);
        (void)sum;
        if (found != cr_gguf_n_keys(file) + cr_gguf_n_tensors(file))
            abort();
        read_adapter(file, &host);
        cr_gguf_close(file);
    } else if (file != NULL || err.message[0] == '\0' || err.status != status) {
        abort();
    }
    if (cr_host_live(&host) != 0)
        abort();
    return 0;
}

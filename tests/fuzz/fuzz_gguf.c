/* Any bytes as a GGUF file: opened from memory, then everything in it is read. Corpus and seeds:
 * scripts/make-gguf-corpus. */
#include "support/gguf_walk.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
        cr_gguf_close(file);
    } else if (file != NULL || err.message[0] == '\0' || err.status != status) {
        abort();
    }
    if (cr_host_live(&host) != 0)
        abort();
    return 0;
}

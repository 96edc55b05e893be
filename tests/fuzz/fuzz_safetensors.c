/* Bytes as a safetensors file and as a sentencepiece model: whatever they are, every tensor and
 * every piece that comes out lies within them. */
#include "convert/folder.h"
#include "convert/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(const void *p, size_t n, const uint8_t *data, size_t size)
{
    uintptr_t at = (uintptr_t)p, begin = (uintptr_t)data;
    if (n > 0 && (at < begin || n > size || at - begin > size - n))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cr_host host;
    if (cr_host_set(&host, NULL, NULL) != CERA_OK)
        abort();
    cr_arena arena;
    cr_arena_init(&arena, &host, CR_MEM_OBJECT);
    cr_safetensors file = { .n_tensors = 0 };
    if (cr_safetensors_parse(&file, &arena, data, size, "<memory>", NULL) == CERA_OK) {
        for (size_t i = 0; i < file.n_tensors; i++) {
            const cr_tensor *t = &file.tensors[i];
            uint64_t n = 1;
            for (int d = 0; d < 4; d++)
                n *= t->shape[d];
            if (t->type == CR_TYPE_COUNT) { /* no type of ours: it has no data for anybody */
                if (t->data)
                    abort();
                continue;
            }
            if (t->size != n * (size_t)cr_type_get(t->type)->block_bytes)
                abort();
            inside(t->data, t->size, data, size);
        }
    }
    cr_spm spm;
    if (cr_spm_parse(data, size, "<memory>", &arena, &spm, NULL) == CERA_OK)
        for (size_t i = 0; i < spm.n; i++)
            inside(spm.pieces[i].text.data, spm.pieces[i].text.size, data, size);
    cr_arena_done(&arena);
    return cr_host_live(&host) == 0 ? 0 : (abort(), 0);
}

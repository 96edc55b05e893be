/* What an adapter's file says, as bounds-checked ranges: which tensor of a model it adds to, and
 * what.
 *
 *     adapter_file.c    GGUF files: LoRA, control vectors
 *     convert/peft.c    folders of PEFT: LoRA
 *
 * Whether it fits a model is for model/adapter.c to say. */
#ifndef CR_ADAPTER_FILE_H
#define CR_ADAPTER_FILE_H

#include "file/gguf.h"

/* What is added to one tensor: W x becomes W x + scale * B (A x). In GGUF's order of dimensions A
 * is [n_cols, rank] and B [rank, n_rows], of a stack [.., .., n_expert]; of the token embedding,
 * whose rows are taken instead of multiplied, A is [rank, n_vocab] and B [rank, n_embd]. */
typedef struct cr_adapter_pair {
    cr_str name; /* of the model's tensor, with ".weight" */
    cr_tensor a, b;
    float alpha;  /* scale = alpha / rank; 0: the scale is 1 */
    bool by_root; /* scale = alpha / sqrt(rank) */
    int expert;   /* of a stack the pair has this one's part; -1: all of it, or it is none */
    /* Of a pair that was made for Hugging Face's tensors: */
    bool from_halves;  /* B's rows of each head go from halves to pairs, as the model's went */
    bool is_turned;    /* A of an embedding is [n_vocab, rank] */
    bool is_fused;     /* B of a stack is [n_expert, rank, n_rows] instead */
    int part, n_parts; /* of B's rows, these are for the tensor: part 0 of 2, say; n_parts 0: all */
} cr_adapter_pair;

/* What is added to the residual stream behind a layer. */
typedef struct cr_direction {
    int layer;        /* 1 or more, of layers that count from 0 */
    cr_tensor values; /* F32 [n_embd] */
} cr_direction;

typedef struct cr_adapter_content {
    const char *path;       /* what errors call the file */
    cr_str arch;            /* that it was made for; "" when it does not say */
    cr_adapter_pair *pairs; /* [n_pairs] */
    size_t n_pairs;
    cr_direction *directions; /* [n_directions] */
    size_t n_directions;
} cr_adapter_content;

/* Reads the header of a GGUF adapter, which has to stay open. Texts and lists go to the arena.
 * Fails with CERA_E_FORMAT naming a key or tensor, CERA_E_UNSUPPORTED for another kind of file. */
cera_status cr_adapter_read(const cr_gguf *file, cr_arena *arena, cr_adapter_content *out,
                            cera_error *err);

#endif

/* What hf_arch.c, which has the architectures and their tensors, and hf_keys.c, which has their
 * keys, both know of an architecture. */
#ifndef CR_HF_ROW_H
#define CR_HF_ROW_H

#include "convert/hf_arch.h"

enum {
    PAIRS = 1,       /* rotates neighbours; Hugging Face stores halves */
    PLUS_ONE = 2,    /* norms scale by 1 + weight */
    DIMENSIONS = 4,  /* says how many dimensions rotate */
    VOCAB_SIZE = 8,  /* says how many tokens there are */
    POST_NORMS = 16, /* "post_attention_layernorm" is what it says, not the norm of the next part */
    NO_PREFIX = 32,  /* see cr_hf_no_space_prefix */
    HEAD_SIZE = 64,  /* says how large a head is, even where it could be computed */
    USUAL_BASE = 128,    /* rotates with the usual base and has no key for it */
    LOCAL_BASE = 256,    /* has a base of its own for layers with a window */
    LONG_ROPE = 512,     /* has factors for long and for short texts */
    SIGMOID = 1024,      /* routes by sigmoids; the others by a softmax */
    NO_EXPERTS = 2048,   /* the row is for configurations without experts */
    STATE_SPACE = 4096,  /* has layers of state spaces */
    NO_ATTENTION = 8192, /* and no others */
    ALL_ATTEND = 16384,  /* the row is for configurations of a hybrid without state spaces */
    WINDOW_LIST = 32768, /* lists which layers have a window, where some do */
};

struct cr_hf_arch {
    const char *hf, *gguf;
    int flags;
};

/* Of "layer_types", in its older and its newer dialect. */
bool cr_hf_is_attention(cr_str type);

#endif

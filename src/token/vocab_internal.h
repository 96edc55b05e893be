/* The vocabulary's insides, for the files that make it up:
 *
 *     vocab_lookup.c  the object: life, looking tokens up
 *     vocab_read.c    tokenizer.ggml.* keys -> tables, with every check
 *     encode.c        text -> ids */
#ifndef CR_VOCAB_INTERNAL_H
#define CR_VOCAB_INTERNAL_H

#include "token/merge.h"
#include "token/special.h"
#include "token/split.h"
#include "token/vocab.h"

/* The types of tokenizer.ggml.token_type, numbered as in the file. */
enum {
    CR_TOKEN_NORMAL = 1,
    CR_TOKEN_UNKNOWN = 2,
    CR_TOKEN_CONTROL = 3,
    CR_TOKEN_USER = 4, /* added by the model's makers; matched in text before anything else */
    CR_TOKEN_UNUSED = 5,
    CR_TOKEN_BYTE = 6,
};

/* flags: the type in the low bits, and */
enum {
    CR_TOKEN_TYPE = 0x0f,
    CR_TOKEN_END = 0x10, /* ends a generation */
    CR_TOKEN_RAW = 0x20, /* its bytes are its text, not what the text spells in the alphabet */
};

typedef struct cr_token_slot {
    uint32_t tag; /* of the hash, and in bit 0 the kind */
    uint32_t id;  /* UINT32_MAX: free */
} cr_token_slot;

struct cr_vocab {
    cr_host *host;
    cr_arena arena; /* everything below that is a pointer */

    size_t n_tokens;
    char *bytes;       /* of all tokens, end to end */
    uint32_t *offsets; /* [n_tokens + 1] into bytes */
    uint8_t *flags;    /* [n_tokens] */

    cr_token_slot *slots; /* [1 << slot_bits], bytes and kind (raw or not) -> id */
    int slot_bits;
    cr_merges merges;
    cr_specials user; /* found in any text */
    cr_specials all;  /* found when special tokens are parsed: control and unknown tokens too */

    const cr_split_rule *rule;
    cr_split *split; /* owned, not in the arena */
    const char *pre;
    int32_t bos, eos; /* -1: none */
    bool add_bos, add_eos;
};

static inline cr_str cr_vocab_bytes(const cr_vocab *vocab, size_t id)
{
    return (cr_str){ vocab->bytes + vocab->offsets[id],
                     vocab->offsets[id + 1] - vocab->offsets[id] };
}

static inline int cr_vocab_type(const cr_vocab *vocab, size_t id)
{
    return vocab->flags[id] & CR_TOKEN_TYPE;
}

/* The lowest id with these bytes that is raw or not, -1 for none. The second form takes the hash of
 * the bytes, for callers that asked for the memory ahead. */
int32_t cr_vocab_find(const cr_vocab *vocab, cr_str bytes, bool raw);
int32_t cr_vocab_find_hash(const cr_vocab *vocab, cr_str bytes, bool raw, uint64_t hash);
static inline void cr_vocab_prefetch(const cr_vocab *vocab, uint64_t hash)
{
    CR_PREFETCH(&vocab->slots[hash & (((size_t)1 << vocab->slot_bits) - 1)]);
}
/* Adds a token to the table that find looks into, unless an equal one is there. */
void cr_vocab_index(cr_vocab *vocab, uint32_t id);

/* Fills an empty vocabulary, whose host and arena are set. */
cera_status cr_vocab_read(cr_vocab *vocab, const cr_gguf *file, cera_error *err);

#endif

/* The vocabulary's insides, for the files that make it up:
 *
 *     vocab_lookup.c  the object: life, looking tokens up
 *     vocab_read.c    tokenizer.ggml.* keys -> tables, with every check
 *     vocab_special.c what is special about special tokens
 *     encode.c        text -> special tokens and the text between them
 *     bpe.c, spm.c, wordpiece.c, unigram.c
 *                     one kind of vocabulary each: its own keys, and plain text -> ids */
#ifndef CR_VOCAB_INTERNAL_H
#define CR_VOCAB_INTERNAL_H

#include "token/charsmap.h"
#include "token/special.h"
#include "token/split.h"
#include "token/vocab.h"

#define CR_VOCAB_KEY(name) "tokenizer.ggml." name

/* The types of tokenizer.ggml.token_type, numbered as in the file. */
enum {
    CR_TOKEN_NORMAL = 1,
    CR_TOKEN_UNKNOWN = 2,
    CR_TOKEN_CONTROL = 3,
    CR_TOKEN_USER = 4, /* added by the model's makers; matched in text before anything else */
    CR_TOKEN_UNUSED = 5,
    CR_TOKEN_BYTE = 6, /* written <0x0A>; stands for bytes that no other token spells */
};

/* flags: the type in the low bits, and */
enum {
    CR_TOKEN_TYPE = 0x0f,
    CR_TOKEN_END = 0x10, /* ends a generation */
    CR_TOKEN_RAW = 0x20, /* no text is looked up to it: it stands for itself, or for a byte */
};

typedef struct cr_token_slot {
    uint32_t tag; /* of the hash, and in bit 0 the kind */
    uint32_t id;  /* UINT32_MAX: free */
} cr_token_slot;

/* Merges by pair of ids (bpe.c). */
typedef struct cr_merge_slot {
    uint32_t left, right;
    uint32_t rank; /* CR_NEVER_JOIN: free */
    uint32_t id;   /* what they become */
} cr_merge_slot;

/* A chat template of the file: "" is tokenizer.chat_template, "x" tokenizer.chat_template.x. */
typedef struct cr_named_template {
    cr_str name, text;
} cr_named_template;

/* A text on its way to ids. */
typedef struct cr_encoding {
    const cr_vocab *vocab;
    cr_buf *ids;
    size_t start;       /* bytes of ids that were there before */
    cr_buf work, text;  /* memory that pieces reuse */
    cr_split_walk walk; /* where the vocabulary has a pre-tokenizer */
} cr_encoding;

/* A kind of vocabulary, as tokenizer.ggml.model names it. */
typedef struct cr_token_model {
    const char *name;
    bool has_pre;                  /* tokenizer.ggml.pre means something */
    const char *bos_key, *eos_key; /* before bos_token_id and eos_token_id; NULL: those alone */
    /* Before the tokens are read: the alphabet, and what absent keys mean. `pre` overrides the
     * file's, unless it is NULL. */
    cera_status (*setup)(cr_vocab *vocab, const cr_gguf *file, const char *pre, cera_error *err);
    /* After the tokens: the tables of this kind. */
    cera_status (*read)(cr_vocab *vocab, const cr_gguf *file, cera_error *err);
    /* Appends the ids of text, which is not empty, need not be UTF-8, and has no special tokens;
     * nothing or a special token stands before it. */
    cera_status (*encode)(cr_encoding *enc, cr_str text, cera_error *err);
} cr_token_model;

extern const cr_token_model cr_model_gpt2, cr_model_gemma4, cr_model_llama, cr_model_t5,
    cr_model_bert;

struct cr_vocab {
    cr_host *host;
    cr_arena arena; /* everything below that is a pointer */
    const cr_token_model *model;
    cr_alphabet alphabet;

    size_t n_tokens;
    char *bytes;           /* of all tokens, end to end */
    uint32_t *offsets;     /* [n_tokens + 1] into bytes */
    uint8_t *flags;        /* [n_tokens] */
    int32_t byte_ids[256]; /* the token of each single byte, -1 for none */

    cr_token_slot *slots; /* [1 << slot_bits], bytes and kind (raw or not) -> id */
    int slot_bits;
    cr_specials user; /* found in any text */
    cr_specials all;  /* found when special tokens are parsed: control and unknown tokens too */

    /* BPE */
    cr_split_rule rule;
    cr_split *split;       /* owned, not in the arena */
    cr_merge_slot *merges; /* [1 << merge_bits], open addressing, at most 5/8 full */
    int merge_bits;

    /* SentencePiece */
    uint32_t *ranks;   /* [n_tokens] the better the score, the lower */
    size_t longest;    /* bytes of the longest token that text is looked up to */
    bool cuts_words;   /* no token has a blank behind another character */
    bool blank_prefix; /* a blank is put before a text */

    /* Its unigram kind */
    float *scores; /* [n_tokens] */
    float unknown_score;
    cr_specials pieces;
    cr_charsmap charsmap;
    bool joins_blanks;

    /* WordPiece */
    bool lowercase, strip_accents;

    const char *pre;
    cr_named_template *templates; /* [n_templates] */
    size_t n_templates;
    int32_t bos, eos, unknown; /* -1: none */
    bool add_bos, add_eos;
};

/* Control, unknown and user-defined tokens stand for their text as it is. */
static inline bool cr_token_is_special(int type)
{
    return type == CR_TOKEN_CONTROL || type == CR_TOKEN_UNKNOWN || type == CR_TOKEN_USER;
}

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
/* spm.c: sets `longest` and `cuts_words`; the size of the word that text begins with, and the
 * blanks before it. */
void cr_vocab_read_words(cr_vocab *vocab);
size_t cr_word_size(cr_str text);
/* Adds a token to the table that find looks into, unless an equal one is there; the one that is. */
uint32_t cr_vocab_index(cr_vocab *vocab, uint32_t id);

/* Fills an empty vocabulary, whose host and arena are set. */
cera_status cr_vocab_read(cr_vocab *vocab, const cr_gguf *file, const char *pre, cera_error *err);

/* The array under `key`; *found is false when it is absent. Fails when it is no array of `kind`. */
typedef enum cr_array_kind { CR_ARRAY_TEXT, CR_ARRAY_INT, CR_ARRAY_F32 } cr_array_kind;
cera_status cr_vocab_array(const cr_gguf *file, const char *key, cr_array_kind kind,
                           cera_value *array, bool *found, cera_error *err);
cr_str cr_vocab_text_at(const cera_value *array, uint64_t i);
/* An integer element as int64; huge unsigned ones become -1, which is out of every range here. */
int64_t cr_vocab_integer_at(const cera_value *array, uint64_t i);
/* A key that holds one token id; *id stays when it is absent. */
cera_status cr_vocab_read_id(const cr_vocab *vocab, const cr_gguf *file, const char *key,
                             int32_t *id, cera_error *err);

/* vocab_special.c: marks the tokens that end a generation; makes the sets `user` and `all`. */
cera_status cr_vocab_read_ends(cr_vocab *vocab, const cr_gguf *file, cera_error *err);
cera_status cr_vocab_read_specials(cr_vocab *vocab, const cr_gguf *file, cera_error *err);

cera_status cr_encoding_push(cr_encoding *enc, int32_t id, cera_error *err);
/* Pushes the byte tokens of `bytes`; where one is missing, the unknown token instead of all of
 * them. Fails when there is no such token either. */
cera_status cr_encoding_spell(cr_encoding *enc, cr_str bytes, cera_error *err);
/* For cr_merge: pushes the id, or spells the bytes where there is none; out is a cr_encoding. */
cera_status cr_encoding_push_merged(void *out, uint32_t id, cr_str bytes, cera_error *err);
/* How many bytes at the start of text are UTF-8, and how many are not. */
size_t cr_utf8_run(cr_str text);
size_t cr_not_utf8_run(cr_str text);

#endif

/* A vocabulary as masks need it: its tokens in a tree of bytes, so that what tokens begin with is
 * looked at once for all of them.
 *
 *     nodes   0 root | tree of tokens that are whole characters | tree of the others
 *             in preorder: the first child follows its parent, and `skip` leads behind the subtree
 *     sets    what the characters of a subtree are, by groups: a letter, a digit, each mark, ...;
 *             where a grammar goes on alike with all groups of a subtree, it is taken as a whole */
#ifndef CR_TOKEN_TABLE_H
#define CR_TOKEN_TABLE_H

#include "token/vocab.h"

#define CR_NO_TOKEN UINT32_MAX
#define CR_HAS_TWIN 0x80000000u

/* Groups of bytes, which are bits of a set. Those of ASCII are in token_table.c. */
enum {
    CR_GROUP_UNICODE = 62, /* a byte of a character outside ASCII */
    CR_GROUP_PART = 63,    /* of no byte: here or below ends a token that is not whole characters */
};

enum { CR_N_GROUPS = 64 };

/* A run of more characters than the first is taken for one of this length, but for one that never
 * ends. */
enum { CR_RUN_MAX = 32, CR_RUN_ENDLESS };

/* Tokens by what they are made of: as they are, or only those that begin with a blank, by what is
 * behind it. All of [n_words]. */
typedef struct cr_token_runs {
    uint64_t *has[CR_N_GROUPS];         /* a character of the group; NULL: none has */
    uint64_t *upto[CR_RUN_ENDLESS + 1]; /* 1 to so many characters, all of them whole */
} cr_token_runs;

typedef struct cr_trie_node {
    uint32_t skip;   /* nodes in the subtree, this one too */
    uint32_t token;  /* the one that ends here, CR_NO_TOKEN; with CR_HAS_TWIN: see twins */
    uint16_t depth;  /* bytes from the root */
    uint16_t set;    /* in sets[]: the groups of the bytes here and below */
    uint8_t longest; /* characters that begin here and below, of the longest token; 255: or more */
    uint8_t byte;
} cr_trie_node;

typedef struct cr_token_table {
    cr_host *host;
    cr_arena arena;
    const cr_vocab *vocab;
    size_t n_tokens, n_words; /* 64-bit words of a set of tokens */
    cr_trie_node *nodes;
    uint32_t n_nodes;
    uint32_t max_depth;
    uint8_t group_of[256];
    uint64_t *sets; /* [n_sets], the first one with every group */
    uint32_t n_sets;
    uint32_t *twins;       /* [n_tokens] the next token with the same bytes, or none */
    uint64_t *text;        /* [n_words] tokens in the tree */
    cr_token_runs runs[2]; /* as they are, behind a blank */
    uint32_t after_blank;  /* the node of a blank, 0: none */
    int32_t *ends;         /* [n_ends] tokens that end a generation */
    size_t n_ends;
    /* A blank before a text is part of its first token and not of the text (SentencePiece): those
     * tokens; NULL where the vocabulary has none. */
    uint64_t *blank;
    int32_t a_blank; /* one of them, -1: none */
} cr_token_table;

/* The vocabulary must outlive the table. */
cera_status cr_token_table_new(const cr_vocab *vocab, cr_host *host, cr_token_table **out,
                               cera_error *err);
void cr_token_table_free(cr_token_table *table);

/* Whether the next token loses its blank when it follows `previous`. */
bool cr_token_table_is_start(const cr_token_table *table, int32_t previous);

static inline void cr_bit_set(uint64_t *bits, uint32_t i)
{
    bits[i / 64] |= UINT64_C(1) << (i % 64);
}

static inline bool cr_bit_get(const uint64_t *bits, uint32_t i)
{
    return (bits[i / 64] >> (i % 64) & 1) != 0;
}

/* Whether a byte begins a character. */
static inline bool cr_is_lead(uint8_t byte)
{
    return (byte & 0xc0) != 0x80;
}

/* Adds the token of a node, and its twins. */
static inline void cr_trie_take(const cr_token_table *table, uint32_t token, uint64_t *bits)
{
    if (token == CR_NO_TOKEN)
        return;
    cr_bit_set(bits, token & ~CR_HAS_TWIN);
    while ((token & CR_HAS_TWIN) != 0) {
        token = table->twins[token & ~CR_HAS_TWIN];
        cr_bit_set(bits, token & ~CR_HAS_TWIN);
    }
}

#endif

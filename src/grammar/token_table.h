/* A vocabulary as masks need it: its tokens in a tree of bytes, so that what tokens begin with is
 * looked at once for all of them.
 *
 *     nodes   0 root | tree of plain tokens | tree of the others
 *             in preorder: the first child follows its parent, and `skip` leads behind the subtree
 *
 * Plain tokens are whole characters that a JSON string has as they are (no quote, backslash, control
 * character or DEL), at most CR_PLAIN_MAX of them. Most tokens are plain, and most of what is
 * generated under a grammar are strings, where all plain tokens go: a set of bits. */
#ifndef CR_TOKEN_TABLE_H
#define CR_TOKEN_TABLE_H

#include "token/vocab.h"

enum { CR_PLAIN_MAX = 16 };
#define CR_NO_TOKEN UINT32_MAX
#define CR_HAS_TWIN 0x80000000u
#define CR_ALL_LETTERS 0x80u

typedef struct cr_trie_node {
    uint32_t skip;  /* nodes in the subtree, this one too */
    uint32_t token; /* the one that ends here, CR_NO_TOKEN; with CR_HAS_TWIN: see twins */
    uint16_t depth; /* bytes from the root */
    uint8_t byte;
    /* Characters of the longest token below or here, in the plain tree; with CR_ALL_LETTERS where all
     * bytes below and here are ASCII letters. */
    uint8_t longest;
} cr_trie_node;

typedef struct cr_token_table {
    cr_host *host;
    cr_arena arena;
    const cr_vocab *vocab;
    size_t n_tokens, n_words; /* 64-bit words of a set of tokens */
    cr_trie_node *nodes;
    uint32_t n_nodes, others; /* nodes[1, others) are the plain tree, the rest is the other one */
    uint32_t max_depth;
    uint32_t *twins;                   /* [n_tokens] the next token with the same bytes, or none */
    uint64_t *text;                    /* [n_words] tokens in the trees */
    uint64_t *plain[CR_PLAIN_MAX + 1]; /* [n_words] plain tokens of at most so many characters */
    int32_t *ends;                     /* [n_ends] tokens that end a generation */
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

/* The prefix tree: what has been computed for which tokens, whoever computed it.
 *
 *     root -- "Once upon" -- " a time, t" -- "here was a"        blocks of CR_PAGE tokens
 *                        '-- " midnight" -- " dre"               the last one may be shorter
 *
 * A block holds the pages of its positions, one per cache group (none of a window's where whoever
 * computed it had dropped that page), and perhaps the recurrent state behind its last token. Keys
 * and values of a position follow from the tokens up to it and from nothing else, so a path of
 * blocks that spells the beginning of a text has its pages. A part of a block serves too: its first
 * positions are whole.
 *
 * States take at most a quarter of the budget, those used least recently go first: behind every
 * block where they are small (a short convolution's), at a spacing, at ends of prompts and where
 * paths branch where they are large.
 *
 * An engine has one type of keys and values and one set of weights, so tokens are the whole key.
 * What else changes what a token computes, a list of adapters, has a root of its own.
 *
 * The tree is guarded by the lock of its pages, which callers hold. */
#ifndef CR_PREFIX_H
#define CR_PREFIX_H

#include "base/digest.h"
#include "session/line.h"

typedef struct cr_prefix cr_prefix;
/* Where the texts that were computed with one list of adapters begin. */
typedef struct cr_prefix_root cr_prefix_root;

/* n_context: positions of a session. `pages` outlives the tree, which becomes what the pages
 * evict. */
cera_status cr_prefix_new(cr_pages *pages, int n_context, cr_prefix **out, cera_error *err);
void cr_prefix_free(cr_prefix *prefix);

/* The root of a list of adapters, by its digest, made if need be; CR_DIGEST_EMPTY: without
 * adapters. It stays as long as it is held or has blocks. NULL when there is no memory. */
cr_prefix_root *cr_prefix_hold_root(cr_prefix *prefix, cr_digest adapters);
void cr_prefix_drop_root(cr_prefix_root *root); /* NULL is nothing */
cr_digest cr_prefix_adapters(const cr_prefix_root *root);

/* Positions between two states that are kept, a multiple of CR_PAGE; 0: none but at ends of prompts
 * and branches; -1: none at all, for the model has none or they do not fit. */
int cr_prefix_spacing(const cr_prefix *prefix);

/* Makes room for n more blocks, so that adding them takes no memory. */
bool cr_prefix_stock(cr_prefix *prefix, size_t n);

/* Looks for the longest known beginning of ids[0, n), of at most n - 1 tokens and more than
 * `least`. If there is one, the empty line is put there, holding its pages and state. *n_known is
 * how many tokens of whole blocks are known, whether or not one can start behind them. */
void cr_prefix_find(cr_prefix_root *root, const int32_t *ids, size_t n, int least, cr_line *line,
                    int *n_known);

/* Remembers ids[0, n), whose pages the line holds, as far as the stock of blocks allows. state: the
 * one behind them, or NULL. */
void cr_prefix_add(cr_prefix_root *root, const int32_t *ids, int n, const cr_line *line,
                   cr_page *state);

/* The whole pages of a line that stands behind ids become the tree's, which have the same bits: so
 * what two have computed takes memory once. */
void cr_prefix_share(const cr_prefix_root *root, const int32_t *ids, cr_line *line);

/* ---- for the disk tier ------------------------------------------------------------------- */

/* What a block has besides its tokens. */
typedef struct cr_prefix_parts {
    cr_page *pages[CR_MAX_GROUPS]; /* NULL: not known, which only a window's may be */
    cr_page *state;                /* or NULL */
} cr_prefix_parts;

/* How many of ids[0, n) are known, in whole blocks and a part of one more. */
int cr_prefix_known(const cr_prefix_root *root, const int32_t *ids, int n);
/* Adds the last block of the path ids[0, n), with what the disk has of it. False when the blocks
 * before it are gone, or the stock is empty. */
bool cr_prefix_graft(cr_prefix_root *root, const int32_t *ids, int n, const cr_prefix_parts *parts);
/* A block that has something that the disk lacks; NULL when there is none. Gives its root, the path
 * to it, ids [n_context], *n of them, and its parts; root and parts are held until
 * cr_prefix_give_back. *n_had: the disk has the same block as the end of a path of so many tokens,
 * which this one replaces; 0: none. What stands nearer to the root comes first. */
cr_prefix_root *cr_prefix_take_unstored(cr_prefix *prefix, int32_t *ids, int *n, int *n_had,
                                        cr_prefix_parts *parts);
/* The disk has them now. */
void cr_prefix_give_back(cr_prefix_root *root, const int32_t *ids, int n,
                         const cr_prefix_parts *parts);

/* One call's work: tokens that were known and that had to be computed. */
void cr_prefix_count(cr_prefix *prefix, size_t n_reused, size_t n_computed);

/* The counts: n_*. */
void cr_prefix_get_stats(const cr_prefix *prefix, cera_engine_stats *out);

#endif

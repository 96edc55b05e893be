/* The disk tier of the prefix tree: its blocks in a folder, for engines to come.
 *
 *     PATH-I-N-OWN.kv    block number I of a text, N tokens: a file of state (state_file.h) with all its
 *                        tokens, the block's pages and perhaps the state behind it
 *
 * PATH is a digest of what the numbers follow from and of the tokens before the block, OWN one of
 * its own tokens, so that a text's whole blocks are found one after the other; then, by PATH
 * (store_index.h), those that begin as the text goes on. Digests only name a file: the file has the
 * tokens, and they are compared.
 *
 * Reading happens in the call that wants the block, writing on a thread of the store, so that no
 * call waits for a disk. A file appears whole or not at all, and nobody ever changes one, so
 * engines of many processes share a folder without knowing of each other, and may be killed at any
 * time. Whatever goes wrong, a block is not found, or not kept; the first failure to write ends
 * writing, with a warning.
 *
 * Last use is the time of change, which reading renews. A file is never used less recently than
 * those behind it, as in the tree. */
#ifndef CR_STORE_H
#define CR_STORE_H

#include "session/prefix.h"
#include "session/state_file.h"

typedef struct cr_store cr_store;

typedef struct cr_store_options {
    const char *folder; /* copied */
    uint64_t budget;    /* bytes of all files */
    int n_context;      /* positions of a session, at most */
    cr_prefix *prefix;
    /* As in cr_session_env. */
    cera_status (*identify)(void *ctx, cr_state_id *out, cera_error *err);
    void *ctx;
} cr_store_options;

/* Touches no file. `pages` and the tree outlive the store. */
cera_status cr_store_new(cr_pages *pages, const cr_store_options *options, cr_store **out,
                         cera_error *err);
/* Writes what is still to be written. */
void cr_store_free(cr_store *store);

/* Brings into the tree, behind the root, what the folder has of ids[0, n), but for the last token.
 * cancel ends it early. */
void cr_store_read(cr_store *store, cr_prefix_root *root, const int32_t *ids, int n,
                   const atomic_int *cancel);
/* Says that the tree has something new. */
void cr_store_wake(cr_store *store);
/* The counts n_blocks_read and n_blocks_written. */
void cr_store_get_stats(const cr_store *store, cera_engine_stats *out);

#endif

/* Which blocks the folder of the disk tier has behind a text, to find those that begin as wanted
 * and then go on otherwise: no digest of wanted tokens leads there. It is the folder's list of
 * names as it was when it was first asked for, and what this engine has written since. A name may
 * be of a file that is gone. Any thread. */
#ifndef CR_STORE_INDEX_H
#define CR_STORE_INDEX_H

#include "base/pool.h"
#include "session/store_folder.h"

typedef struct cr_store_index {
    cr_host *host;
    const char *folder;
    cr_lock lock;
    bool is_listed;
    cr_store_key *keys; /* [n], the latest last; room for n_room */
    size_t n, n_room;
} cr_store_index;

/* folder is kept. */
void cr_store_index_init(cr_store_index *index, cr_host *host, const char *folder);
void cr_store_index_done(cr_store_index *index);

/* Gives up to `most` blocks that stand behind the path, the latest first; how many. */
int cr_store_index_find(cr_store_index *index, cr_digest path, int block, cr_store_key *out,
                        int most);
/* Whether more than `most` blocks that are not whole stand behind the path; if so, the oldest. */
bool cr_store_index_has_more(cr_store_index *index, cr_digest path, int block, int most,
                             cr_store_key *oldest);
void cr_store_index_add(cr_store_index *index, const cr_store_key *key);
void cr_store_index_drop(cr_store_index *index, const cr_store_key *key);

#endif

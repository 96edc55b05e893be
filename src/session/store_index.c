#include "session/store_index.h"

#include "graph/graph.h"

#include <string.h>

void cr_store_index_init(cr_store_index *index, cr_host *host, const char *folder)
{
    *index = (cr_store_index){ .host = host, .folder = folder };
    cr_lock_init(&index->lock, host);
}

void cr_store_index_done(cr_store_index *index)
{
    if (index->host)
        cr_free(index->host, CR_MEM_OBJECT, index->keys, index->n_room * sizeof *index->keys);
}

/* ---- with the lock held ------------------------------------------------------------------ */

static bool is_behind(const cr_store_key *key, cr_digest path, int block)
{
    return cr_digest_equal(key->path, path) && key->block == block;
}

/* A name that there is no memory for is one that is not found. */
static void add(cr_store_index *index, const cr_store_key *key)
{
    if (index->n == index->n_room) {
        size_t n_room = CR_MAX(index->n_room * 2, (size_t)64);
        cr_store_key *keys = cr_resize(index->host, CR_MEM_OBJECT, index->keys,
                                       index->n_room * sizeof *keys, n_room * sizeof *keys);
        if (!keys)
            return;
        index->keys = keys;
        index->n_room = n_room;
    }
    index->keys[index->n++] = *key;
}

static void drop(cr_store_index *index, const cr_store_key *key)
{
    for (size_t i = 0; i < index->n; i++) {
        cr_store_key *at = &index->keys[i];
        if (!is_behind(at, key->path, key->block) || at->n != key->n || at->own != key->own)
            continue;
        memmove(at, at + 1, (--index->n - i) * sizeof *at);
        return;
    }
}

static int note(void *user, const char *name, const cera_os_stat *stat)
{
    (void)stat;
    cr_store_key key;
    bool is_part;
    if (cr_store_read_name(name, &key, &is_part) && !is_part && key.n > 0)
        add(user, &key);
    return 0;
}

/* A folder that is not there, or cannot be listed, has nothing. */
static void list(cr_store_index *index)
{
    if (index->is_listed)
        return;
    const cera_os *os = &index->host->os;
    os->list(os->ctx, index->folder, note, index);
    index->is_listed = true;
}

/* ---- for any thread ---------------------------------------------------------------------- */

int cr_store_index_find(cr_store_index *index, cr_digest path, int block, cr_store_key *out,
                        int most)
{
    int n = 0;
    cr_lock_take(&index->lock);
    list(index);
    for (size_t i = index->n; i > 0 && n < most; i--) {
        if (is_behind(&index->keys[i - 1], path, block))
            out[n++] = index->keys[i - 1];
    }
    cr_lock_drop(&index->lock);
    return n;
}

bool cr_store_index_has_more(cr_store_index *index, cr_digest path, int block, int most,
                             cr_store_key *oldest)
{
    int n = 0;
    cr_lock_take(&index->lock);
    list(index);
    for (size_t i = index->n; i > 0; i--) {
        const cr_store_key *key = &index->keys[i - 1];
        if (!is_behind(key, path, block) || key->n == CR_PAGE)
            continue;
        *oldest = *key;
        n++;
    }
    cr_lock_drop(&index->lock);
    return n > most;
}

void cr_store_index_add(cr_store_index *index, const cr_store_key *key)
{
    cr_lock_take(&index->lock);
    if (index->is_listed) { /* else it will be found in the folder */
        drop(index, key);
        add(index, key);
    }
    cr_lock_drop(&index->lock);
}

void cr_store_index_drop(cr_store_index *index, const cr_store_key *key)
{
    cr_lock_take(&index->lock);
    drop(index, key);
    cr_lock_drop(&index->lock);
}

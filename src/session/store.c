/* The disk tier: reading blocks, and the thread that writes them. */
#include "session/store.h"

#include "base/pool.h"
#include "session/store_index.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Counts up when something about keys or entries changes that the file's version does not say. */
enum { KEY_VERSION = 2 };
/* Blocks that are not whole behind one path, at most; and blocks of which the one that begins most
 * like a text is chosen. */
enum { MAX_ENDS = 8, MAX_TRIED = 16 };

struct cr_store {
    cr_pages *pages;
    cr_prefix *prefix;
    cr_store_options options;
    cr_store_folder folder;
    cr_store_index index;
    size_t n_room;

    cr_lock lock;  /* of the members up to the thread's */
    bool has_root; /* what the weights are is known, which takes reading them */
    cr_state_id id;
    cr_digest root;   /* the path of no tokens */
    uint64_t process; /* that the thread belongs to */
    void *thread;     /* NULL: none was needed yet */

    _Atomic uint32_t bell; /* counts wakes */
    atomic_bool closing, is_off;
    atomic_uint_fast64_t n_read, n_written;

    /* The thread's own. */
    void *room;
    int32_t *ids, *last; /* [n_context] of the block at hand, and of the one before it */
    int n_last;
    cr_digest last_root; /* the key that its path begins with */
};

static cr_host *host_of(const cr_store *store)
{
    return store->pages->host;
}

/* ---- keys -------------------------------------------------------------------------------- */

static bool find_root(cr_store *store)
{
    cr_lock_take(&store->lock);
    if (!store->has_root &&
        store->options.identify(store->options.ctx, &store->id, NULL) == CERA_OK) {
        uint64_t version = KEY_VERSION;
        cr_digest_add(&store->root, &version, sizeof version);
        cr_digest_add(&store->root, &store->id, sizeof store->id);
        store->has_root = true;
    }
    bool found = store->has_root;
    cr_lock_drop(&store->lock);
    return found;
}

/* The path of one whole block more. */
static void next_path(cr_digest *path, const int32_t *ids, int i)
{
    cr_digest_add(path, ids + i * CR_PAGE, CR_PAGE * sizeof *ids);
}

/* The key of the block with the tokens [i * CR_PAGE, end) of a text, behind a path. */
static cr_store_key key_behind(cr_digest path, const int32_t *ids, int i, int end)
{
    cr_store_key key = { .path = path, .block = i, .n = end - i * CR_PAGE };
    cr_digest own = CR_DIGEST_EMPTY;
    cr_digest_add(&own, ids + i * CR_PAGE, (size_t)key.n * sizeof *ids);
    key.own = own.low;
    return key;
}

/* The path of the first n_blocks blocks, from that of no tokens. */
static cr_digest path_of(cr_digest root, const int32_t *ids, int n_blocks)
{
    cr_digest path = root;
    for (int i = 0; i < n_blocks; i++)
        next_path(&path, ids, i);
    return path;
}

/* The key of the last block of ids[0, n). */
static cr_store_key last_key(cr_digest root, const int32_t *ids, int n)
{
    int i = (n - 1) / CR_PAGE;
    return key_behind(path_of(root, ids, i), ids, i, n);
}

/* Of the blocks of ids[0, n), the last one first and so most recently the first one: nothing is
 * used later than what it stands behind. Paths only go forward, so each is made again. Blocks are
 * few, and what hashing costs is nothing beside a call of the system. */
static void touch_path(const cr_store *store, cr_digest root, const int32_t *ids, int n, char *path)
{
    const cera_os *os = &host_of(store)->os;
    while (n > 0) {
        cr_store_key key = last_key(root, ids, n);
        cr_store_path(&store->folder, &key, path);
        os->touch(os->ctx, path);
        n = (n - 1) / CR_PAGE * CR_PAGE;
    }
}

/* ---- reading ----------------------------------------------------------------------------- */

/* The key of no tokens for a list of adapters, and the id of their files; the weights are known. */
static cr_digest key_of(const cr_store *store, cr_digest adapters)
{
    cr_digest key = store->root;
    if (!cr_digest_equal(adapters, CR_DIGEST_EMPTY))
        cr_digest_add(&key, &adapters, sizeof adapters);
    return key;
}

/* One call's work. */
typedef struct reading {
    cr_store *store;
    cr_prefix_root *root;
    cr_digest key; /* of no tokens */
    cr_state_id id;
    const int32_t *wanted; /* [n] tokens that the call wants to be known */
    int n;
    int32_t *ids; /* room for those of a file */
    void *room;
    char *path;
} reading;

static void drop_parts(cr_pages *pages, const cr_prefix_parts *parts)
{
    cr_pages_lock(pages);
    for (int g = 0; g < pages->graph->n_groups; g++)
        cr_pages_drop(pages, parts->pages[g]);
    cr_pages_drop(pages, parts->state);
    cr_pages_unlock(pages);
}

/* A block has a page of each group, but perhaps not of one with a window; no logits. */
static bool is_block(const cr_state_reader *r, const cr_store_key *key)
{
    const cr_graph *graph = r->pages->graph;
    int i = key->block;
    bool is = r->n_ids == i * CR_PAGE + key->n && !r->has_logits && r->detok.n_held == 0;
    for (int g = 0; g < graph->n_groups; g++) {
        bool has = r->first[g] == i && r->end[g] == i + 1;
        bool lacks = r->first[g] == i && r->end[g] == i && graph->groups[g].window > 0;
        is = is && (has || lacks);
    }
    return is;
}

static cera_status take_part(cr_pages *pages, int kind, cr_page **out)
{
    cr_pages_lock(pages);
    *out = cr_pages_take(pages, kind, 0);
    cr_pages_unlock(pages);
    return *out ? CERA_OK : CERA_E_NOMEM;
}

/* Opens the file of a block whose path is wanted, and reads its tokens. Its name may lie. */
static cera_status open_block(const reading *to, const cr_store_key *key, cr_state_reader *r)
{
    const cr_store *store = to->store;
    cr_store_path(&store->folder, key, to->path);
    CR_TRY(cr_state_open(r, store->pages, &to->id, to->path, NULL));
    cera_status status = is_block(r, key) ? CERA_OK : CERA_E_FORMAT;
    if (status == CERA_OK)
        status = cr_state_read_ids(r, to->ids, NULL);
    size_t n_before = (size_t)key->block * CR_PAGE;
    if (status == CERA_OK && (memcmp(to->ids, to->wanted, n_before * sizeof *to->ids) != 0 ||
                              key_behind(key->path, to->ids, key->block, r->n_ids).own != key->own))
        status = CERA_E_FORMAT;
    if (status != CERA_OK)
        cr_state_close(r);
    return status;
}

static cera_status read_parts(const reading *to, cr_state_reader *r, int i, cr_prefix_parts *parts)
{
    cr_pages *pages = to->store->pages;
    for (int g = 0; g < pages->graph->n_groups; g++) {
        if (r->end[g] == r->first[g])
            continue;
        CR_TRY(take_part(pages, g, &parts->pages[g]));
        CR_TRY(cr_state_read_page(r, g, i, parts->pages[g], to->room, NULL));
    }
    if (r->has_state) {
        CR_TRY(take_part(pages, cr_pages_state_kind(pages), &parts->state));
        CR_TRY(cr_state_read_state(r, parts->state->data, NULL));
    }
    return cr_state_read_end(r, NULL);
}

/* What is no block of ours is not read again. */
static void look_after(const reading *to, cera_status status)
{
    const cera_os *os = &host_of(to->store)->os;
    if (status == CERA_E_FORMAT || status == CERA_E_UNSUPPORTED)
        os->remove(os->ctx, to->path);
}

/* Brings a block into the tree, to->ids being its text. */
static cera_status read_block(const reading *to, const cr_store_key *key)
{
    cr_store *store = to->store;
    cr_prefix_parts parts = { .state = NULL };
    cr_state_reader r;
    cera_status status = open_block(to, key, &r);
    if (status == CERA_OK) {
        status = read_parts(to, &r, key->block, &parts);
        cr_state_close(&r);
    }
    look_after(to, status);
    if (status == CERA_OK) {
        cr_pages_lock(store->pages);
        bool grafted = cr_prefix_stock(store->prefix, 1) &&
                       cr_prefix_graft(to->root, to->ids, r.n_ids, &parts);
        cr_pages_unlock(store->pages);
        status = grafted ? CERA_OK : CERA_E_NOMEM;
    }
    drop_parts(store->pages, &parts);
    if (status == CERA_OK)
        atomic_fetch_add(&store->n_read, 1);
    return status;
}

/* How many of a block's tokens a text that wants n_wanted of them can go on behind. Behind a
 * recurrent state only, where there is such a thing. */
static int use_of(const reading *to, const cr_state_reader *r, const cr_store_key *key)
{
    int at = key->block * CR_PAGE, n = CR_MIN(key->n, to->n - 1 - at), same = 0;
    while (same < n && to->ids[at + same] == to->wanted[at + same])
        same++;
    bool is_end = same == key->n && r->has_state;
    return !to->store->pages->zero_state || is_end ? same : 0;
}

/* Behind the whole blocks that are known: of the blocks there, the one that begins most like the
 * text, if it says more than the n_part tokens that are known. Returns the tokens it has, 0 for
 * none. */
static int read_nearest(const reading *to, cr_digest path, int block, int n_part)
{
    cr_store *store = to->store;
    cr_store_key keys[MAX_TRIED], best = { .n = 0 };
    int n = cr_store_index_find(&store->index, path, block, keys, MAX_TRIED);
    for (int i = 0; i < n && n_part < to->n - 1 - block * CR_PAGE; i++) {
        cr_state_reader r;
        cera_status status = open_block(to, &keys[i], &r);
        if (status != CERA_OK) {
            look_after(to, status);
            cr_store_index_drop(&store->index, &keys[i]);
            continue;
        }
        int use = use_of(to, &r, &keys[i]);
        cr_state_close(&r);
        if (use > n_part) {
            best = keys[i];
            n_part = use;
        }
    }
    return best.n > 0 && read_block(to, &best) == CERA_OK ? best.n : 0;
}

static void read_blocks(const reading *to, int known, const atomic_int *cancel)
{
    cr_store *store = to->store;
    int first = known / CR_PAGE, i = first;
    /* The last token is computed, whatever is known: a state behind it is of no use, but pages
     * are. */
    int most = store->pages->zero_state ? to->n - 1 : to->n;
    cr_digest path = path_of(to->key, to->wanted, i);
    while ((i + 1) * CR_PAGE <= most && atomic_load(cancel) == 0) {
        cr_store_key key = key_behind(path, to->wanted, i, (i + 1) * CR_PAGE);
        if (read_block(to, &key) != CERA_OK)
            break;
        next_path(&path, to->wanted, i++);
    }
    int n_part = i == first ? known % CR_PAGE : 0, n_end = 0;
    if (i * CR_PAGE + n_part < to->n - 1 && atomic_load(cancel) == 0)
        n_end = read_nearest(to, path, i, n_part);
    if (n_end > 0)
        touch_path(store, to->key, to->ids, i * CR_PAGE + n_end, to->path);
    else if (i > first)
        touch_path(store, to->key, to->wanted, i * CR_PAGE, to->path);
}

void cr_store_read(cr_store *store, cr_prefix_root *root, const int32_t *ids, int n,
                   const atomic_int *cancel)
{
    cr_pages_lock(store->pages);
    int known = cr_prefix_known(root, ids, n);
    cr_digest adapters = cr_prefix_adapters(root);
    cr_pages_unlock(store->pages);
    if (known >= n - 1 || !find_root(store))
        return;
    cr_host *host = host_of(store);
    size_t n_ids = ((size_t)n + CR_PAGE) * sizeof *ids;
    reading to = {
        .store = store,
        .root = root,
        .key = key_of(store, adapters),
        .id = cr_state_id_with(&store->id, adapters),
        .wanted = ids,
        .n = n,
        .ids = cr_alloc(host, CR_MEM_SCRATCH, n_ids),
        .room = cr_alloc(host, CR_MEM_SCRATCH, store->n_room),
        .path = cr_alloc(host, CR_MEM_SCRATCH, store->folder.n_path),
    };
    if (to.ids && to.room && to.path)
        read_blocks(&to, known, cancel);
    cr_free(host, CR_MEM_SCRATCH, to.ids, n_ids);
    cr_free(host, CR_MEM_SCRATCH, to.room, store->n_room);
    cr_free(host, CR_MEM_SCRATCH, to.path, store->folder.n_path);
}

/* ---- writing: on the thread -------------------------------------------------------------- */

/* The first failure is the last attempt. */
static void stop_writing(cr_store *store, const char *why)
{
    if (!atomic_exchange(&store->is_off, true))
        cr_log(host_of(store), 0, "%s; no more is kept in cache_dir", why);
}

/* Whether the folder has a file with all that the block has. */
static bool has_file(const cr_store *store, const cr_state_id *id, const char *path,
                     const cr_prefix_parts *parts, const cr_store_key *key)
{
    cr_state_reader r;
    if (cr_state_open(&r, store->pages, id, path, NULL) != CERA_OK)
        return false;
    bool has = is_block(&r, key) && (r.has_state || !parts->state);
    for (int g = 0; g < store->pages->graph->n_groups; g++)
        has = has && (r.end[g] > r.first[g] || !parts->pages[g]);
    cr_state_close(&r);
    return has;
}

static cera_status write_file(cr_store *store, const cr_state_id *id, const char *path,
                              const cr_state_content *content, cera_error *err)
{
    cr_output out;
    CR_TRY(cr_output_open(&out, host_of(store), path, 0, err));
    cera_status status = cr_state_write(store->pages, id, content, store->room, &out, err);
    if (status == CERA_OK)
        status = cr_output_commit(&out, err);
    cr_output_done(&out);
    return status;
}

static void remove_block(cr_store *store, const cr_store_key *key)
{
    cr_store_remove(&store->folder, key);
    cr_store_index_drop(&store->index, key);
}

/* The same block with fewer tokens has become needless. And a block that is not whole may come of
 * every text that begins alike: the oldest goes. */
static void remove_needless(cr_store *store, const cr_store_key *key, int n_had)
{
    if (n_had > 0 && n_had < key->block * CR_PAGE + key->n) {
        cr_store_key before = key_behind(key->path, store->ids, key->block, n_had);
        remove_block(store, &before);
    }
    cr_store_key oldest;
    if (key->n < CR_PAGE &&
        cr_store_index_has_more(&store->index, key->path, key->block, MAX_ENDS, &oldest))
        remove_block(store, &oldest);
}

static cera_status write_block(cr_store *store, cr_digest adapters, int n, int n_had,
                               const cr_prefix_parts *parts, cera_error *err)
{
    cr_state_id id = cr_state_id_with(&store->id, adapters);
    cr_store_key key = last_key(key_of(store, adapters), store->ids, n);
    int i = key.block;
    char *path = store->folder.path;
    cr_store_path(&store->folder, &key, path);
    if (has_file(store, &id, path, parts, &key))
        return CERA_OK;
    cr_state_content content = {
        .ids = store->ids,
        .n_ids = n,
        .state = parts->state ? parts->state->data : NULL,
    };
    for (int g = 0; g < store->pages->graph->n_groups; g++)
        content.spans[g] = (cr_page_span){ i, parts->pages[g] ? i + 1 : i, &parts->pages[g] };
    uint64_t size = cr_state_size(store->pages, &content);
    CR_TRY(cr_store_make_room(&store->folder, size, err));
    cr_store_path(&store->folder, &key, path); /* making room used it */
    CR_TRY(write_file(store, &id, path, &content, err));
    cr_store_count(&store->folder, size);
    atomic_fetch_add(&store->n_written, 1);
    cr_store_index_add(&store->index, &key);
    remove_needless(store, &key, n_had);
    return CERA_OK;
}

/* The path to the last block that was written becomes recently used, when another one begins. */
static void leave_path(cr_store *store, cr_digest root, int n)
{
    bool goes_on = n > store->n_last && cr_digest_equal(root, store->last_root) &&
                   memcmp(store->ids, store->last, (size_t)store->n_last * sizeof *store->ids) == 0;
    if (store->n_last > 0 && !goes_on)
        touch_path(store, store->last_root, store->last, store->n_last, store->folder.path);
    if (n > 0)
        memcpy(store->last, store->ids, (size_t)n * sizeof *store->ids);
    store->n_last = n;
    store->last_root = root;
}

static bool write_one(cr_store *store)
{
    cr_prefix_parts parts;
    int n, n_had;
    cr_pages_lock(store->pages);
    cr_prefix_root *root = cr_prefix_take_unstored(store->prefix, store->ids, &n, &n_had, &parts);
    cr_pages_unlock(store->pages);
    if (!root)
        return false;
    cr_digest adapters = cr_prefix_adapters(root);
    leave_path(store, key_of(store, adapters), n);
    cera_error err;
    if (write_block(store, adapters, n, n_had, &parts, &err) != CERA_OK)
        stop_writing(store, err.message);
    cr_pages_lock(store->pages);
    cr_prefix_give_back(root, store->ids, n, &parts);
    cr_pages_trim(store->pages);
    cr_pages_unlock(store->pages);
    return true;
}

static void write_all(void *arg)
{
    cr_store *store = arg;
    const cera_os *os = &host_of(store)->os;
    for (;;) {
        uint32_t bell = atomic_load(&store->bell);
        bool closing = atomic_load(&store->closing);
        while (!atomic_load(&store->is_off) && find_root(store) && write_one(store))
            ;
        if (!atomic_load(&store->is_off))
            leave_path(store, store->last_root, 0);
        if (closing)
            return;
        os->wait(os->ctx, (const uint32_t *)(const void *)&store->bell, bell);
    }
}

/* ---- waking ------------------------------------------------------------------------------ */

static bool is_here(const cr_store *store)
{
    const cera_os *os = &host_of(store)->os;
    return os->process(os->ctx) == store->process;
}

static void ring(cr_store *store)
{
    const cera_os *os = &host_of(store)->os;
    atomic_fetch_add(&store->bell, 1);
    os->wake(os->ctx, (const uint32_t *)(const void *)&store->bell);
}

void cr_store_wake(cr_store *store)
{
    if (atomic_load(&store->is_off) || !is_here(store))
        return;
    const cera_os *os = &host_of(store)->os;
    cr_lock_take(&store->lock);
    int error = 0;
    if (!store->thread)
        error = os->thread_start(os->ctx, write_all, store, &store->thread);
    if (error != 0)
        store->thread = NULL;
    cr_lock_drop(&store->lock);
    if (error != 0)
        stop_writing(store, "a thread cannot be started");
    else
        ring(store);
}

/* ---- life -------------------------------------------------------------------------------- */

cera_status cr_store_new(cr_pages *pages, const cr_store_options *options, cr_store **out,
                         cera_error *err)
{
    cr_host *host = pages->host;
    cr_store *store = cr_alloc_zero(host, CR_MEM_OBJECT, sizeof *store);
    if (!store)
        return cr_fail_nomem(err, sizeof *store, "the disk tier");
    store->pages = pages;
    store->prefix = options->prefix;
    store->options = *options;
    /* Whole pages, and one more for a path that ends with a session of another length. */
    store->options.n_context = (options->n_context / CR_PAGE + 1) * CR_PAGE;
    store->n_room = cr_state_room(pages);
    store->process = host->os.process(host->os.ctx);
    cr_lock_init(&store->lock, host);
    size_t n_ids = (size_t)store->options.n_context * sizeof *store->ids;
    store->room = cr_alloc(host, CR_MEM_OBJECT, store->n_room);
    store->ids = cr_alloc(host, CR_MEM_OBJECT, n_ids);
    store->last = cr_alloc(host, CR_MEM_OBJECT, n_ids);
    bool made = cr_store_folder_init(&store->folder, host, options->folder, options->budget);
    cr_store_index_init(&store->index, host, store->folder.folder);
    if (!made || !store->room || !store->ids || !store->last) {
        cr_store_free(store);
        return cr_fail_nomem(err, store->n_room + n_ids, "the disk tier");
    }
    *out = store;
    return CERA_OK;
}

void cr_store_free(cr_store *store)
{
    if (!store)
        return;
    cr_host *host = host_of(store);
    if (store->thread && is_here(store)) {
        atomic_store(&store->closing, true);
        ring(store);
        host->os.thread_join(host->os.ctx, store->thread);
    }
    size_t n_ids = (size_t)store->options.n_context * sizeof *store->ids;
    cr_free(host, CR_MEM_OBJECT, store->room, store->n_room);
    cr_free(host, CR_MEM_OBJECT, store->ids, n_ids);
    cr_free(host, CR_MEM_OBJECT, store->last, n_ids);
    cr_store_index_done(&store->index);
    cr_store_folder_done(&store->folder);
    cr_free(host, CR_MEM_OBJECT, store, sizeof *store);
}

void cr_store_get_stats(const cr_store *store, cera_engine_stats *out)
{
    out->n_blocks_read = atomic_load(&store->n_read);
    out->n_blocks_written = atomic_load(&store->n_written);
}

/* Bytes as a file of state: whatever they are, the session stays as it was, or becomes one that
 * saves the same bytes again. The digest keeps nearly everything out, so the bytes are also tried
 * with the digest that they ought to have. */
#include "support/state_model.h"

#include "api/objects.h"
#include "session/state_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An operating system with one file, which is read and written in memory. */
typedef struct memory {
    uint8_t *data;
    size_t size, room;
} memory;

static memory in, out;

static int open_in(void *ctx, const char *path, void **file)
{
    (void)ctx;
    *file = &in;
    return strcmp(path, "in") == 0 ? 0 : ENOENT;
}

static void close_any(void *ctx, void *file)
{
    (void)ctx;
    (void)file;
}

static int stat_any(void *ctx, void *file, cera_os_stat *to)
{
    (void)ctx;
    *to = (cera_os_stat){ .size = ((memory *)file)->size, .is_regular = true };
    return 0;
}

static int64_t read_any(void *ctx, void *file, void *buf, size_t n, uint64_t offset)
{
    (void)ctx;
    const memory *m = file;
    n = offset < m->size ? CR_MIN(n, m->size - (size_t)offset) : 0;
    memcpy(buf, m->data + (n > 0 ? offset : 0), n);
    return (int64_t)n;
}

static int create_out(void *ctx, const char *path, uint32_t mode, void **file)
{
    (void)ctx;
    (void)path;
    (void)mode;
    out.size = 0;
    *file = &out;
    return 0;
}

static int64_t write_any(void *ctx, void *file, const void *buf, size_t n, uint64_t offset)
{
    (void)ctx;
    memory *m = file;
    if (offset + n > m->room)
        abort();
    memcpy(m->data + offset, buf, n);
    m->size = CR_MAX(m->size, (size_t)offset + n);
    return (int64_t)n;
}

static int sync_any(void *ctx, void *file)
{
    (void)ctx;
    (void)file;
    return 0;
}

static int rename_any(void *ctx, const char *from, const char *to)
{
    (void)ctx;
    (void)from;
    (void)to;
    return 0;
}

static int path_any(void *ctx, const char *path)
{
    (void)ctx;
    (void)path;
    return 0;
}

enum { N_CONTEXT = 200, MOST = 1 << 20 };

static cera_engine *engine;
static cera_session *session;

static void begin(void)
{
    gguf_build file;
    state_model_build("gemma3", N_CONTEXT, 0, &file);
    in.data = malloc(MOST);
    out.data = malloc(MOST);
    in.room = out.room = MOST;
    cera_host host;
    cera_host_init(&host);
    host.os.open = open_in;
    host.os.close = close_any;
    host.os.stat = stat_any;
    host.os.read = read_any;
    host.os.create = create_out;
    host.os.write = write_any;
    host.os.sync = sync_any;
    host.os.rename = rename_any;
    host.os.sync_folder = path_any;
    host.os.remove = path_any;
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.host = &host;
    options.n_threads = 1;
    engine = state_model_open(&file, &options);
    if (!in.data || !out.data || cera_session_new(engine, NULL, &session, NULL) != CERA_OK)
        abort();
}

/* Puts the digest where it belongs; false when the content ends before. */
static bool repair(void)
{
    cr_session_env env = cr_engine_env(engine->core);
    cr_state_id id;
    cr_state_reader r;
    if (env.identify(env.ctx, &id, NULL) != CERA_OK ||
        cr_state_open(&r, env.pages, &id, "in", NULL) != CERA_OK)
        return false;
    void *room = malloc(MOST);
    cera_status status = cr_state_read_ids(&r, room, NULL);
    for (int g = 0; g < env.pages->graph->n_groups; g++) {
        for (int i = r.first[g]; i < r.end[g] && status == CERA_OK; i++)
            status = cr_state_read_page(&r, g, i, NULL, room, NULL);
    }
    if (status == CERA_OK && r.has_logits)
        status = cr_state_read_logits(&r, room, NULL);
    if (status == CERA_OK)
        memcpy(in.data + r.offset, &r.digest, sizeof r.digest);
    free(room);
    cr_state_close(&r);
    return status == CERA_OK;
}

static void load(void)
{
    int32_t ids[2] = { 1, 2 };
    if (cera_session_sync(session, ids, 2, NULL) != CERA_OK)
        abort();
    cera_error err;
    cera_status status = cera_session_load(session, "in", &err);
    if (status != CERA_OK) {
        if (cera_session_position(session) != 2 || strncmp(err.message, "in: ", 4) != 0)
            abort();
        return;
    }
    if (cera_session_save(session, "out", NULL) != CERA_OK || out.size != in.size ||
        memcmp(out.data, in.data, in.size) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!engine)
        begin();
    if (size > MOST)
        return 0;
    memcpy(in.data, data, size);
    in.size = size;
    load();
    if (repair())
        load();
    return 0;
}

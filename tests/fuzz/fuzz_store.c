/* A folder of the disk tier in which one file is not what was written: whatever it is, the answer
 * is right, and the next engine finds everything again. The digest keeps nearly everything out, so
 * files are also tried with the digest that they ought to have; then nobody can tell, and the
 * answer may be another one.
 *
 *     byte 0   which file; 0x80: with a digest that is right
 *     then     edits, each of 5 bytes: what, where (3 bytes), value; REPLACE takes the rest */
#include "support/crash_disk.h"
#include "support/state_model.h"

#include "api/objects.h"
#include "session/state_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_CONTEXT = 200, N_TEXT = 130, MOST = 1 << 16, MAX_FILES = 8 };
enum { SET, CUT, EXTEND, REPLACE, SWAP, N_EDITS }; /* SWAP: it has another file's content */

static gguf_build model;
static cera_host host;
static crash_disk *disk; /* that engines see */
static int32_t ids[N_TEXT];
static float logits[TOY_N_VOCAB];
static cera_engine *plain; /* without a folder */

static struct {
    char path[CRASH_PATH];
    uint8_t *data;
    size_t size;
} files[MAX_FILES]; /* as an engine writes them */
static int n_files;

static cera_engine *open_engine(const char *cache_dir)
{
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.host = &host;
    options.n_threads = 1;
    options.cache_dir = cache_dir;
    return state_model_open(&model, &options);
}

/* An engine's life; how many tokens it knew. */
static size_t live(cera_engine *engine, float *out)
{
    cera_session *s = NULL;
    if (cera_session_new(engine, NULL, &s, NULL) != CERA_OK ||
        cera_session_append_ids(s, ids, N_TEXT, NULL) != CERA_OK ||
        cera_session_position(s) != N_TEXT)
        abort();
    memcpy(out, cera_session_logits(s), sizeof logits);
    size_t n_reused = state_generate(s, 0).n_reused;
    cera_session_free(s);
    return n_reused;
}

static size_t live_once(float *out)
{
    cera_engine *engine = open_engine("cache");
    size_t n_reused = live(engine, out);
    cera_engine_close(engine);
    return n_reused;
}

static void begin(void)
{
    static crash_disk first;
    float out[TOY_N_VOCAB];
    crash_init(&first);
    disk = &first;
    crash_host(&disk, &host);
    state_model_build("lfm2", N_CONTEXT, 0, &model);
    state_ids(5, ids, N_TEXT);
    plain = open_engine(NULL);
    live(plain, logits);
    live_once(out);
    if (memcmp(out, logits, sizeof out) != 0)
        abort();
    for (int i = 0; i < first.now.n; i++) {
        const crash_name *name = &first.now.names[i];
        if (name->file < 0)
            continue;
        memcpy(files[n_files].path, name->path, CRASH_PATH);
        files[n_files].data = first.files[name->file].data; /* the disk stays */
        files[n_files++].size = first.files[name->file].size;
    }
}

static void put_file(const char *path, const uint8_t *data, size_t size)
{
    void *file;
    if (host.os.create(host.os.ctx, path, 0, &file) != 0 ||
        host.os.write(host.os.ctx, file, data, size, 0) != (int64_t)size)
        abort();
}

/* The file as it is after the edits, into bytes[2 * MOST]. */
static size_t edit(int which, const uint8_t *data, size_t size, uint8_t *bytes)
{
    size_t n = files[which].size;
    memcpy(bytes, files[which].data, n);
    for (; size >= 5; data += 5, size -= 5) {
        size_t at = (data[1] | (size_t)data[2] << 8 | (size_t)data[3] << 16) % (n + 1);
        int what = data[0] % N_EDITS, other = data[4] % n_files;
        if (what == SET && at < n)
            bytes[at] = data[4];
        else if (what == CUT)
            n = at;
        else if (what == EXTEND && n < MOST)
            bytes[n++] = data[4];
        else if (what == SWAP)
            memcpy(bytes, files[other].data, n = files[other].size);
        if (what != REPLACE)
            continue;
        n = size - 1 < MOST ? size - 1 : MOST;
        memcpy(bytes, data + 1, n);
        break;
    }
    return n;
}

/* Puts the digest where it belongs, if the file's content goes so far. */
static void repair(const char *path, uint8_t *bytes)
{
    cr_session_env env = cr_engine_env(plain->core);
    cr_state_id id;
    cr_state_reader r;
    if (env.identify(env.ctx, &id, NULL) != CERA_OK ||
        cr_state_open(&r, env.pages, &id, path, NULL) != CERA_OK)
        return;
    static int32_t room[MOST];
    cera_status status = cr_state_read_ids(&r, room, NULL);
    for (int g = 0; g < env.pages->graph->n_groups; g++) {
        for (int i = r.first[g]; i < r.end[g] && status == CERA_OK; i++)
            status = cr_state_read_page(&r, g, i, NULL, room, NULL);
    }
    if (status == CERA_OK && r.has_state)
        status = cr_state_read_state(&r, (float *)(void *)room, NULL);
    if (status == CERA_OK && r.has_logits)
        status = cr_state_read_logits(&r, (float *)(void *)room, NULL);
    if (status == CERA_OK)
        memcpy(bytes + r.offset, &r.digest, sizeof r.digest);
    cr_state_close(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[2 * MOST];
    if (!plain)
        begin();
    if (size == 0 || size > MOST)
        return 0;
    int which = (data[0] & 0x7f) % n_files;
    bool repairs = (data[0] & 0x80) != 0;
    static crash_disk d;
    crash_init(&d);
    disk = &d;
    host.os.make_folder(host.os.ctx, "cache");
    size_t n = edit(which, data + 1, size - 1, bytes);
    put_file(files[which].path, bytes, n);
    if (repairs) {
        repair(files[which].path, bytes);
        host.os.remove(host.os.ctx, files[which].path);
        put_file(files[which].path, bytes, n);
    }
    for (int i = 0; i < n_files; i++) {
        if (i != which)
            put_file(files[i].path, files[i].data, files[i].size);
    }
    float out[TOY_N_VOCAB];
    for (int i = 0; i < 2; i++) {
        size_t n_reused = live_once(out);
        bool right = memcmp(out, logits, sizeof out) == 0;
        if (!repairs && (!right || (i == 1 && n_reused < N_TEXT / 64 * 64)))
            abort();
    }
    crash_done(&d);
    return 0;
}

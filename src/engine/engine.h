/* An engine: a model opened on a device, and what its sessions share.
 *
 *     source -> file -> vocabulary
 *                  '--> architecture -> model -> backend -> plan
 *                                                     '--> scheduler, pages, prefix tree */
#ifndef CR_ENGINE_H
#define CR_ENGINE_H

#include "backend/backend.h"
#include "base/pool.h"
#include "model/model.h"
#include "session/session.h"
#include "session/store.h"
#include "token/vocab.h"

typedef struct cr_engine {
    cr_host host;
    cr_gguf *file;
    cr_vocab *vocab; /* NULL: the file has none */
    cr_model *model;
    const cr_backend_api *api;
    cr_backend *backend;
    cr_plan *plan;
    cr_scheduler *scheduler; /* of the plan */
    cr_pages *pages;
    cr_prefix *prefix; /* NULL: nothing is reused */
    cr_store *store;   /* NULL: nothing is kept on disk */
    cr_lock id_lock;   /* guards `id` */
    cr_state_id id;    /* of files of state */
    bool has_id;
    int context_size;
    int max_rows; /* of a run of the plan */
    double load_ms;
} cr_engine;

/* options is not NULL. On failure nothing stays open. */
cera_status cr_engine_open(const cera_source *source, const cera_engine_options *options,
                           cr_engine **out, cera_error *err);
void cr_engine_close(cr_engine *engine);

void cr_engine_get_info(const cr_engine *engine, cera_engine_info *out);

void cr_engine_get_stats(const cr_engine *engine, cera_engine_stats *out);
cera_status cr_engine_roofline(cr_engine *engine, cera_roofline *out, cera_error *err);
cera_status cr_engine_tune(cr_engine *engine, const char *path, cera_error *err);

/* What sessions of this engine work with. */
cr_session_env cr_engine_env(cr_engine *engine);

#endif

/* cera_engine: check arguments, forward. */
#include "api/objects.h"

void cera_engine_options_init(cera_engine_options *options)
{
    *options = (cera_engine_options){ .size = sizeof *options };
}

cera_status cera_engine_open(const char *path, const cera_engine_options *options,
                             cera_engine **out, cera_error *err)
{
    return cera_engine_open_source(&(cera_source){ .path = path }, options, out, err);
}

cera_status cera_engine_open_source(const cera_source *source, const cera_engine_options *options,
                                    cera_engine **out, cera_error *err)
{
    if (!out)
        return cr_fail(err, CERA_E_ARG, "out: expected a place for the engine, found NULL");
    cera_engine_options defaults;
    cera_engine_options_init(&defaults);
    cr_engine *core;
    CR_TRY(cr_engine_open(source, options ? options : &defaults, &core, err));
    cera_engine *engine = cr_alloc_zero(&core->host, CR_MEM_OBJECT, sizeof *engine);
    if (!engine) {
        cr_engine_close(core);
        return cr_fail_nomem(err, sizeof *engine, "the engine");
    }
    atomic_init(&engine->n_references, 1);
    engine->core = core;
    engine->vocab.host = &core->host;
    engine->vocab.vocab = core->vocab;
    atomic_init(&engine->vocab.table, NULL);
    *out = engine;
    return CERA_OK;
}

cera_engine *cera_engine_retain(cera_engine *engine)
{
    if (engine)
        atomic_fetch_add(&engine->n_references, 1);
    return engine;
}

void cera_engine_close(cera_engine *engine)
{
    if (!engine || atomic_fetch_sub(&engine->n_references, 1) > 1)
        return;
    cr_engine *core = engine->core;
    cr_token_table_free(atomic_load(&engine->vocab.table));
    cr_free(&core->host, CR_MEM_OBJECT, engine, sizeof *engine);
    cr_engine_close(core);
}

void cera_engine_get_info(const cera_engine *engine, cera_engine_info *out)
{
    if (!out)
        return;
    *out = (cera_engine_info){ .arch = "", .name = "", .quant = "", .cpu_tier = "" };
    if (engine)
        cr_engine_get_info(engine->core, out);
}

void cera_engine_get_stats(const cera_engine *engine, cera_engine_stats *out)
{
    if (!out)
        return;
    *out = (cera_engine_stats){ 0 };
    if (engine)
        cr_engine_get_stats(engine->core, out);
}

const cera_vocab *cera_engine_vocab(const cera_engine *engine)
{
    return engine && engine->core->vocab ? &engine->vocab : NULL;
}

cera_status cera_engine_roofline(cera_engine *engine, cera_roofline *out, cera_error *err)
{
    if (!engine || !out)
        return cr_fail(err, CERA_E_ARG, "roofline: expected an engine and out, found NULL");
    return cr_engine_roofline(engine->core, out, err);
}

cera_status cera_engine_tune(cera_engine *engine, const char *path, cera_error *err)
{
    if (!engine || !path)
        return cr_fail(err, CERA_E_ARG, "tune: expected an engine and a path, found NULL");
    return cr_engine_tune(engine->core, path, err);
}

cera_status cera_engine_embed(cera_engine *engine, const int32_t *ids, size_t n,
                              cera_pooling pooling, float *out, cera_error *err)
{
    if (!engine || !ids || !out)
        return cr_fail(err, CERA_E_ARG, "embed: expected an engine, ids and out, found NULL");
    cr_session_env env = cr_engine_env(engine->core);
    return cr_session_embed(&env, NULL, ids, n, pooling, out, err);
}

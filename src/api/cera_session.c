/* cera_session: check arguments, forward. */
#include "api/objects.h"
#include "session/save.h"
#include "session/shift.h"

#include <limits.h>

void cera_session_options_init(cera_session_options *options)
{
    *options = (cera_session_options){ .size = sizeof *options };
}

void cera_generate_options_init(cera_generate_options *options)
{
    *options = (cera_generate_options){
        .size = sizeof *options,
        .max_tokens = 256,
        .temperature = 0.7f,
        .temperature_exponent = 1.0f,
        .top_k = 40,
        .top_p = 0.9f,
        .min_p = 0.05f,
        .typical_p = 1.0f,
        .xtc_threshold = 0.1f,
        .mirostat_eta = 0.1f,
        .repetition_penalty = 1.1f,
        .dry_base = 1.75f,
        .dry_allowed_length = 2,
        .dry_window = -1,
    };
}

const char *cera_finish_name(cera_finish finish)
{
    static const char *const names[] = { "stop", "length", "context", "cancelled", "sink" };
    return (size_t)finish < CR_COUNT(names) ? names[finish] : "?";
}

/* A session that may be computed with. */
static cera_status want_session(const cera_session *session, cera_error *err)
{
    if (!session)
        return cr_fail(err, CERA_E_ARG, "session: expected one, found NULL");
    if (session->is_busy)
        return cr_fail(err, CERA_E_STATE, "session: it is generating, and its own sink called it");
    return CERA_OK;
}

/* The public half of a session. */
static cera_status new_session(cera_engine *engine, cera_session **out, cera_error *err)
{
    cera_session *session = cr_alloc_zero(&engine->core->host, CR_MEM_OBJECT, sizeof *session);
    if (!session)
        return cr_fail_nomem(err, sizeof *session, "the session");
    session->engine = cera_engine_retain(engine);
    *out = session;
    return CERA_OK;
}

cera_status cera_session_new(cera_engine *engine, const cera_session_options *options,
                             cera_session **out, cera_error *err)
{
    cera_session_options defaults;
    cera_session_options_init(&defaults);
    options = options ? options : &defaults;
    if (!engine || !out)
        return cr_fail(err, CERA_E_ARG, "session: expected an engine and out, found NULL");
    if (options->size != sizeof *options)
        return cr_fail(err, CERA_E_ARG, "session options size: expected %zu, found %zu",
                       sizeof *options, options->size);
    cera_session *session;
    CR_TRY(new_session(engine, &session, err));
    cr_session_env env = cr_engine_env(engine->core);
    cera_status status = cr_session_new(&env, options->context_size, &session->core, err);
    if (status != CERA_OK) {
        cera_session_free(session);
        return status;
    }
    *out = session;
    return CERA_OK;
}

void cera_session_free(cera_session *session)
{
    if (!session)
        return;
    cera_engine *engine = session->engine;
    cr_session_free(session->core);
    cr_free(&engine->core->host, CR_MEM_OBJECT, session, sizeof *session);
    cera_engine_close(engine);
}

cera_status cera_session_append(cera_session *session, const cera_input *input, cera_error *err)
{
    CR_TRY(want_session(session, err));
    if (!input || (input->text != NULL) == (input->ids != NULL))
        return cr_fail(err, CERA_E_ARG, "input: expected either text or ids");
    if (input->ids)
        return cr_session_append_ids(session->core, input->ids, input->n_ids, err);
    size_t n = input->n_text > 0 ? input->n_text : strlen(input->text);
    return cr_session_append_text(session->core, (cr_str){ input->text, n }, input->parse_special,
                                  !input->no_bos, err);
}

cera_status cera_session_append_text(cera_session *session, const char *text, cera_error *err)
{
    return cera_session_append(session, &(cera_input){ .text = text }, err);
}

cera_status cera_session_append_ids(cera_session *session, const int32_t *ids, size_t n,
                                    cera_error *err)
{
    return cera_session_append(session, &(cera_input){ .ids = ids, .n_ids = n }, err);
}

cera_status cera_session_score(cera_session *session, const int32_t *ids, size_t n, float *logprobs,
                               cera_error *err)
{
    CR_TRY(want_session(session, err));
    if (!ids || !logprobs)
        return cr_fail(err, CERA_E_ARG, "score: expected ids and logprobs, found NULL");
    return cr_session_score(session->core, ids, n, logprobs, err);
}

cera_status cera_session_sync(cera_session *session, const int32_t *ids, size_t n, cera_error *err)
{
    CR_TRY(want_session(session, err));
    if (!ids && n > 0)
        return cr_fail(err, CERA_E_ARG, "ids: expected %zu of them, found NULL", n);
    return cr_session_sync(session->core, ids, n, err);
}

cera_status cera_session_rewind(cera_session *session, size_t position, cera_error *err)
{
    CR_TRY(want_session(session, err));
    return cr_session_rewind(session->core, position, err);
}

cera_status cera_session_fork(cera_session *session, cera_session **out, cera_error *err)
{
    CR_TRY(want_session(session, err));
    if (!out)
        return cr_fail(err, CERA_E_ARG, "out: expected a place for the session, found NULL");
    cera_session *child;
    CR_TRY(new_session(session->engine, &child, err));
    cera_status status = cr_session_fork(session->core, &child->core, err);
    if (status != CERA_OK) {
        cera_session_free(child);
        return status;
    }
    *out = child;
    return CERA_OK;
}

cera_status cera_session_shift(cera_session *session, size_t n_keep, size_t n_drop, cera_error *err)
{
    CR_TRY(want_session(session, err));
    return cr_session_shift(session->core, n_keep, n_drop, err);
}

cera_status cera_session_set_adapters(cera_session *session, const cera_adapter_use *uses, size_t n,
                                      cera_error *err)
{
    cr_adapter_use cores[CR_MAX_ADAPTERS];
    CR_TRY(want_session(session, err));
    if (!uses && n > 0)
        return cr_fail(err, CERA_E_ARG, "adapters: expected %zu of them, found NULL", n);
    for (size_t i = 0; i < CR_MIN(n, CR_COUNT(cores)); i++) {
        if (!uses[i].adapter)
            return cr_fail(err, CERA_E_ARG, "adapter %zu: expected one, found NULL", i);
        if (uses[i].first_layer < 0 || uses[i].last_layer < 0)
            return cr_fail(err, CERA_E_ARG, "adapter %zu: layers: expected 0 or more", i);
        if (uses[i].last_layer > 0 && uses[i].first_layer > uses[i].last_layer)
            return cr_fail(
                err, CERA_E_ARG,
                "adapter %zu: layers: expected a last one behind the first, %d, found %d", i,
                uses[i].first_layer, uses[i].last_layer);
        int last = uses[i].last_layer > 0 ? uses[i].last_layer : INT_MAX;
        cores[i] =
            (cr_adapter_use){ uses[i].adapter->core, uses[i].scale, uses[i].first_layer, last };
    }
    return cr_session_set_adapters(session->core, cores, n, err);
}

cera_status cera_session_embed(cera_session *session, const int32_t *ids, size_t n,
                               cera_pooling pooling, float *out, cera_error *err)
{
    CR_TRY(want_session(session, err));
    if (!ids || !out)
        return cr_fail(err, CERA_E_ARG, "embed: expected ids and out, found NULL");
    return cr_session_embed(cr_session_get_env(session->core), session->core, ids, n, pooling, out,
                            err);
}

cera_status cera_session_save(cera_session *session, const char *path, cera_error *err)
{
    CR_TRY(want_session(session, err));
    if (!path || !*path)
        return cr_fail(err, CERA_E_ARG, "path: expected a file name");
    return cr_session_save(session->core, path, err);
}

cera_status cera_session_load(cera_session *session, const char *path, cera_error *err)
{
    CR_TRY(want_session(session, err));
    if (!path || !*path)
        return cr_fail(err, CERA_E_ARG, "path: expected a file name");
    return cr_session_load(session->core, path, err);
}

cera_status cera_session_generate(cera_session *session, const cera_generate_options *options,
                                  const cera_sink *sink, cera_summary *summary, cera_error *err)
{
    CR_TRY(want_session(session, err));
    cera_generate_options defaults;
    cera_generate_options_init(&defaults);
    options = options ? options : &defaults;
    cr_session_env draft;
    bool has_draft = options->size == sizeof *options && options->draft;
    if (has_draft)
        draft = cr_engine_env(options->draft->core);
    session->is_busy = true;
    cera_status status =
        cr_session_generate(session->core, options, has_draft ? &draft : NULL, sink, summary, err);
    session->is_busy = false;
    return status;
}

const float *cera_session_logits(const cera_session *session)
{
    return session ? cr_session_logits(session->core) : NULL;
}

const int32_t *cera_session_history(const cera_session *session, size_t *n)
{
    size_t count = 0;
    const int32_t *history = session ? cr_session_history(session->core, &count) : NULL;
    if (n)
        *n = count;
    return history;
}

size_t cera_session_position(const cera_session *session)
{
    size_t n;
    cera_session_history(session, &n);
    return n;
}

void cera_session_cancel(cera_session *session)
{
    if (session)
        cr_session_cancel(session->core);
}

void cera_session_reset(cera_session *session)
{
    if (session && !session->is_busy)
        cr_session_reset(session->core);
}

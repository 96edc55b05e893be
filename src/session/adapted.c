/* The adapters of a session, and what changing them means for what it has computed. */
#include "session/session_internal.h"
#include "session/state_file.h"

#include "base/arith.h"

#include <math.h>
#include <string.h>

static size_t reduced_bytes(const cr_session *session, const cr_adapted *adapted)
{
    size_t row = adapted->adaptation ? adapted->adaptation->row_floats : 0;
    return (size_t)session->env.max_rows * row * sizeof(float);
}

void cr_adapted_done(cr_session *session, cr_adapted *adapted)
{
    for (size_t i = 0; i < adapted->n; i++)
        cr_adapter_release(adapted->uses[i].adapter);
    cr_free(session->env.host, CR_MEM_SCRATCH, adapted->reduced, reduced_bytes(session, adapted));
    if (adapted->root) {
        cr_pages_lock(session->env.pages);
        cr_prefix_drop_root(adapted->root);
        cr_pages_unlock(session->env.pages);
    }
    if (adapted->arena.host)
        cr_arena_done(&adapted->arena);
    *adapted = (cr_adapted){ .n = 0 };
}

static cera_status fill(cr_session *session, cr_adapted *out, const cr_adapter_use *uses, size_t n,
                        cera_error *err)
{
    if (n > 0)
        out->uses = cr_arena_array(&out->arena, n, sizeof *out->uses);
    if (n > 0 && !out->uses)
        return cr_fail_nomem(err, n * sizeof *out->uses, "the list of adapters");
    for (; out->n < n; out->n++) {
        out->uses[out->n] = uses[out->n];
        cr_adapter_retain(uses[out->n].adapter);
    }
    CR_TRY(cr_adaptation_new(session->env.model, &out->arena, uses, n, &out->adaptation,
                             &out->digest, err));
    size_t bytes = reduced_bytes(session, out);
    out->reduced = bytes > 0 ? cr_alloc(session->env.host, CR_MEM_SCRATCH, bytes) : NULL;
    if (bytes > 0 && !out->reduced)
        return cr_fail_nomem(err, bytes, "what adapters compute");
    if (!session->prefix)
        return CERA_OK;
    cr_pages_lock(session->env.pages);
    out->root = cr_prefix_hold_root(session->prefix, out->digest);
    cr_pages_unlock(session->env.pages);
    return out->root ? CERA_OK : cr_fail_nomem(err, 0, "the prefix tree");
}

cera_status cr_adapted_init(cr_session *session, cr_adapted *out, const cr_adapter_use *uses,
                            size_t n, cera_error *err)
{
    cr_adapted adapted = { .n = 0 };
    cr_arena_init(&adapted.arena, session->env.host, CR_MEM_OBJECT);
    cera_status status = fill(session, &adapted, uses, n, err);
    if (status == CERA_OK)
        *out = adapted;
    else
        cr_adapted_done(session, &adapted);
    return status;
}

static cera_status check_uses(const cr_session *session, const cr_adapter_use *uses, size_t n,
                              cera_error *err)
{
    if (n > CR_MAX_ADAPTERS)
        return cr_fail(err, CERA_E_LIMIT, "adapters: expected at most %d, found %zu",
                       CR_MAX_ADAPTERS, n);
    for (size_t i = 0; i < n; i++) {
        if (uses[i].adapter->model != session->env.model)
            return cr_fail(err, CERA_E_ARG, "adapter %zu: it was opened for another engine", i);
        if (!isfinite(uses[i].scale))
            return cr_fail(err, CERA_E_ARG,
                           "adapter %zu: scale: expected a finite number, found %g", i,
                           (double)uses[i].scale);
    }
    return CERA_OK;
}

cera_status cr_session_set_adapters(cr_session *session, const cr_adapter_use *uses, size_t n,
                                    cera_error *err)
{
    CR_TRY(check_uses(session, uses, n, err));
    cr_adapted adapted;
    CR_TRY(cr_adapted_init(session, &adapted, uses, n, err));
    if (session->now.position > 0 && !cr_digest_equal(adapted.digest, session->adapted.digest))
        session->is_mixed = true;
    cr_adapted_done(session, &session->adapted);
    session->adapted = adapted;
    cr_session_see_tree(session);
    return CERA_OK;
}

size_t cr_session_n_adapters(const cr_session *session)
{
    return session->adapted.n;
}

void cr_session_see_tree(cr_session *session)
{
    bool is_alone = session->origins || session->is_mixed;
    session->env.prefix = is_alone ? NULL : session->prefix;
}

cera_status cr_session_identify(const cr_session *session, cr_state_id *out, cera_error *err)
{
    cr_state_id id;
    CR_TRY(session->env.identify(session->env.ctx, &id, err));
    *out = cr_state_id_with(&id, session->adapted.digest);
    return CERA_OK;
}

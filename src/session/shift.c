#include "session/shift.h"

#include "session/session_internal.h"

#include <string.h>

/* ---- origins ----------------------------------------------------------------------------- */

static size_t origins_bytes(const cr_session *session)
{
    return (size_t)session->n_context * sizeof(cr_origin);
}

/* Drops the origins of positions [first, n_context). */
static void drop_origins(cr_session *session, cr_origin *origins, int first)
{
    cr_pages_lock(session->env.pages);
    for (int p = first; p < session->n_context; p++) {
        cr_pages_drop(session->env.pages, origins[p].page);
        origins[p].page = NULL;
    }
    cr_pages_unlock(session->env.pages);
}

static void free_origins(cr_session *session, cr_origin *origins)
{
    if (!origins)
        return;
    drop_origins(session, origins, 0);
    cr_free(session->env.host, CR_MEM_OBJECT, origins, origins_bytes(session));
}

void cr_session_unshift(cr_session *session, int start)
{
    if (!session->origins)
        return;
    if (start > session->n_pure) {
        drop_origins(session, session->origins, start);
        return;
    }
    free_origins(session, session->origins);
    session->origins = NULL;
    cr_session_see_tree(session);
}

cera_status cr_session_fork_shift(const cr_session *session, cr_session *child, cera_error *err)
{
    if (!session->origins)
        return CERA_OK;
    child->origins = cr_alloc(session->env.host, CR_MEM_OBJECT, origins_bytes(session));
    if (!child->origins)
        return cr_fail_nomem(err, origins_bytes(session), "the session");
    memcpy(child->origins, session->origins, origins_bytes(session));
    child->n_pure = session->n_pure;
    cr_pages_lock(session->env.pages);
    for (int p = 0; p < session->n_context; p++) {
        if (child->origins[p].page)
            cr_pages_hold(session->env.pages, child->origins[p].page);
    }
    cr_pages_unlock(session->env.pages);
    return CERA_OK;
}

/* ---- shifting ---------------------------------------------------------------------------- */

/* Why keys of this model must not be turned; NULL: they may. */
static const char *obstacle(const cr_session *session)
{
    const cr_model *model = session->env.model;
    if (model->graph.state_floats > 0)
        return "it has a recurrent state, which has seen every token";
    for (int g = 0; g < model->graph.n_groups; g++) {
        if (model->graph.groups[g].window > 0)
            return "layers with a window have let go of what would come back into it";
    }
    if (model->hparams.rope.scaling == CR_ROPE_YARN)
        return "its positions are scaled by YaRN";
    return NULL;
}

/* Where the key of a position is as it was computed. */
static cr_origin origin_of(const cr_session *session, int position)
{
    if (session->origins && session->origins[position].page)
        return session->origins[position];
    return (cr_origin){ session->now.pages[0][position / CR_PAGE], position };
}

/* Puts the second line where the session is to be. Notes where the moved keys came from. */
static cera_status move_keys(cr_session *session, int n_keep, int n_drop, cr_origin *origins,
                             cera_error *err)
{
    cr_pages *pages = session->env.pages;
    cr_line *next = &session->next;
    int end = session->now.position - n_drop;
    cr_pages_lock(pages);
    cr_line_share(next, pages, &session->now, n_keep);
    cr_pages_unlock(pages);
    CR_TRY(cr_line_reserve(next, pages, session->writer, (cr_line_goal){ end, end }, err));
    for (int p = n_keep; p < end; p++) {
        origins[p] = origin_of(session, p + n_drop);
        pages->api->page_turn(pages->backend, pages->graph, 0, pages->kv_type,
                              next->pages[0][p / CR_PAGE]->data, p, origins[p].page->data,
                              origins[p].position);
    }
    next->position = end;
    return CERA_OK;
}

static void accept(cr_session *session, int n_keep, int n_drop, cr_origin *origins)
{
    cr_pages *pages = session->env.pages;
    int end = session->next.position;
    cr_pages_lock(pages);
    for (int p = 0; p < end; p++) {
        if (p < n_keep && session->origins)
            origins[p] = session->origins[p];
        if (origins[p].page)
            cr_pages_hold(pages, origins[p].page);
    }
    cr_line old = session->now;
    session->now = session->next;
    session->next = old;
    cr_pages_unlock(pages);
    session->n_pure = session->origins ? CR_MIN(session->n_pure, n_keep) : n_keep;
    free_origins(session, session->origins);
    session->origins = origins;
    cr_session_see_tree(session);
    memmove(session->history + n_keep, session->history + n_keep + n_drop,
            (size_t)(end - n_keep) * sizeof *session->history);
    cr_session_open open = session->open;
    /* With the token before its text, which decides about a blank. */
    bool stays = open.grammar && open.start > (size_t)n_keep + (size_t)n_drop;
    open.start -= (size_t)n_drop;
    open.end -= (size_t)n_drop;
    cr_session_set_open(session, stays ? open : (cr_session_open){ .grammar = NULL });
}

cera_status cr_session_shift(cr_session *session, size_t n_keep, size_t n_drop, cera_error *err)
{
    size_t position = (size_t)session->now.position;
    if (n_drop == 0)
        return CERA_OK;
    if (n_keep >= position || n_drop >= position - n_keep)
        return cr_fail(err, CERA_E_ARG,
                       "shift: %zu tokens kept and %zu dropped: expected fewer than all %zu",
                       n_keep, n_drop, position);
    const char *why = obstacle(session);
    if (why)
        return cr_fail(
            err, CERA_E_UNSUPPORTED,
            "shift: the keys of this model cannot be moved, %s; make the history what it "
            "is to be, which computes it again",
            why);
    size_t bytes = origins_bytes(session);
    cr_origin *origins = cr_alloc_zero(session->env.host, CR_MEM_OBJECT, bytes);
    if (!origins)
        return cr_fail_nomem(err, bytes, "the origins of keys");
    cera_status status = move_keys(session, (int)n_keep, (int)n_drop, origins, err);
    if (status == CERA_OK)
        accept(session, (int)n_keep, (int)n_drop, origins);
    else
        cr_free(session->env.host, CR_MEM_OBJECT, origins, bytes);
    cr_pages_lock(session->env.pages);
    cr_line_clear(&session->next, session->env.pages);
    cr_pages_unlock(session->env.pages);
    return status;
}

/* ---- when the context is full ------------------------------------------------------------ */

size_t cr_session_surplus(const cr_session *session, size_t n_keep)
{
    size_t position = (size_t)session->now.position;
    return n_keep < position ? (position - n_keep) / 2 : 0;
}

/* What is counted of inputs stays as it is: the call is none. */
static cera_status compute_again(cr_session *session, size_t n_keep, size_t n_drop, cera_error *err)
{
    size_t n = (size_t)session->now.position - n_drop, bytes = n * sizeof(int32_t);
    int32_t *ids = cr_alloc(session->env.host, CR_MEM_SCRATCH, bytes);
    if (!ids)
        return cr_fail_nomem(err, bytes, "the history");
    memcpy(ids, session->history, n_keep * sizeof *ids);
    memcpy(ids + n_keep, session->history + n_keep + n_drop, (n - n_keep) * sizeof *ids);
    size_t n_prompt = session->n_prompt, n_reused = session->n_reused;
    uint64_t prompt_ns = session->prompt_ns;
    cera_status status = cr_session_sync(session, ids, n, err);
    session->n_prompt = n_prompt;
    session->n_reused = n_reused;
    session->prompt_ns = prompt_ns;
    cr_free(session->env.host, CR_MEM_SCRATCH, ids, bytes);
    return status;
}

cera_status cr_session_make_room(cr_session *session, size_t n_keep, cera_error *err)
{
    size_t n_drop = cr_session_surplus(session, n_keep);
    if (obstacle(session))
        return compute_again(session, n_keep, n_drop, err);
    return cr_session_shift(session, n_keep, n_drop, err);
}

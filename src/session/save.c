/* A session to a file and back. A file is read into the second line, like everything that moves a
 * session; only when all of it has proved right do the lines change places. */
#include "session/save.h"

#include "session/session_internal.h"
#include "session/state_file.h"

#include <string.h>

/* ---- saving ------------------------------------------------------------------------------ */

static cera_status write_session(const cr_session *session, const cr_state_id *id, void *room,
                                 cr_output *out, cera_error *err)
{
    const cr_line *line = &session->now;
    cr_state_content content = {
        .ids = session->history,
        .n_ids = line->position,
        .state = line->state ? line->state->data : NULL,
        .logits = cr_session_logits(session),
        .detok = session->detok,
    };
    const cr_graph *graph = session->env.pages->graph;
    for (int g = 0; g < graph->n_groups; g++) {
        /* What a window has passed is nobody's any more, even if the line still has it. */
        int first = CR_MAX(line->first[g], cr_line_needs(graph, g, line->position));
        content.spans[g] = (cr_page_span){ first, line->end[g], line->pages[g] + first };
    }
    CR_TRY(cr_state_write(session->env.pages, id, &content, room, out, err));
    return cr_output_commit(out, err);
}

cera_status cr_session_save(cr_session *session, const char *path, cera_error *err)
{
    if (session->now.position == 0)
        return cr_fail(err, CERA_E_STATE, "save: nothing has been appended yet");
    if (session->origins)
        return cr_fail(err, CERA_E_UNSUPPORTED,
                       "save: the session was shifted, and a file has no place for what its keys "
                       "came from; append its history to another session and save that");
    if (session->is_mixed)
        return cr_fail(err, CERA_E_UNSUPPORTED,
                       "save: the session's adapters were changed after some of its tokens were "
                       "computed; make the history what it is, which computes it again, and save "
                       "that");
    cr_host *host = session->env.host;
    cr_state_id id;
    CR_TRY(cr_session_identify(session, &id, err));
    size_t n_room = cr_state_room(session->env.pages);
    void *room = cr_alloc(host, CR_MEM_SCRATCH, n_room);
    if (!room)
        return cr_fail_nomem(err, n_room, "a page to write");
    cr_output out;
    cera_status status = cr_output_open(&out, host, path, 0, err);
    if (status == CERA_OK) {
        status = write_session(session, &id, room, &out, err);
        cr_output_done(&out);
    }
    cr_free(host, CR_MEM_SCRATCH, room, n_room);
    return status;
}

/* ---- loading ----------------------------------------------------------------------------- */

/* A file that holds a block of the disk tier, say, is whole but no session. */
static cera_status check_session(const cr_session *session, const cr_state_reader *r,
                                 cera_error *err)
{
    const cr_graph *graph = session->env.pages->graph;
    bool is_session = r->has_logits && r->has_state == (graph->state_floats > 0);
    for (int g = 0; g < graph->n_groups; g++)
        is_session = is_session && r->first[g] == cr_line_needs(graph, g, r->n_ids) &&
                     r->end[g] == (r->n_ids + CR_PAGE - 1) / CR_PAGE;
    if (!is_session)
        return cr_fail(err, CERA_E_FORMAT, "%s: expected a session, found another state", r->path);
    if (r->n_ids > session->n_context)
        return cr_fail(err, CERA_E_CONTEXT, "%s: %d tokens do not fit in %d positions", r->path,
                       r->n_ids, session->n_context);
    return CERA_OK;
}

/* A page to read into, held by the line. */
static cera_status take_page(cr_session *session, int group, int i, cr_page **out, cera_error *err)
{
    cr_pages *pages = session->env.pages;
    cr_pages_lock(pages);
    cr_page *page = cr_pages_take(pages, group, session->writer);
    if (page) {
        cr_line_hold(&session->next, pages, group, i, page);
        cr_pages_drop(pages, page); /* the line has a reference of its own */
    }
    cr_pages_unlock(pages);
    *out = page;
    return page ? CERA_OK : cr_fail_nomem(err, pages->bytes[group], "keys and values");
}

static cera_status read_session(cr_session *session, cr_state_reader *r, int32_t *ids, void *room,
                                cera_error *err)
{
    cr_pages *pages = session->env.pages;
    cr_line *line = &session->next;
    CR_TRY(check_session(session, r, err));
    CR_TRY(cr_session_want_room(session, err));
    CR_TRY(cr_state_read_ids(r, ids, err));
    cr_line_begin(line, pages, r->n_ids);
    for (int g = 0; g < pages->graph->n_groups; g++) {
        for (int i = line->first[g]; i < line->end[g]; i++) {
            cr_page *page;
            CR_TRY(take_page(session, g, i, &page, err));
            CR_TRY(cr_state_read_page(r, g, i, page, room, err));
        }
    }
    if (r->has_state)
        CR_TRY(cr_state_read_state(r, session->spare->data, err));
    CR_TRY(cr_state_read_logits(r, session->comes->values, err));
    return cr_state_read_end(r, err);
}

/* What was read becomes what the session is. */
static void accept(cr_session *session, const cr_state_reader *r, const int32_t *ids)
{
    cr_pages *pages = session->env.pages;
    cr_pages_lock(pages);
    if (r->has_state) {
        session->next.state = session->spare;
        session->spare = NULL;
    }
    cr_line old = session->now;
    session->now = session->next;
    session->next = old;
    cr_pages_unlock(pages);
    session->is_mixed = false;
    cr_session_unshift(session, 0);
    cr_session_see_tree(session);
    memcpy(session->history, ids, (size_t)r->n_ids * sizeof *ids);
    cr_session_swap_logits(session);
    session->detok = r->detok;
    cr_session_set_open(session, (cr_session_open){ .grammar = NULL });
    session->n_prompt = session->n_reused = 0;
    session->prompt_ns = 0;
}

static cera_status load(cr_session *session, cr_state_reader *r, cera_error *err)
{
    cr_host *host = session->env.host;
    cr_pages *pages = session->env.pages;
    size_t n_room = cr_state_room(pages), n_bytes = (size_t)r->n_ids * sizeof(int32_t);
    void *room = cr_alloc(host, CR_MEM_SCRATCH, n_room);
    int32_t *ids = cr_alloc(host, CR_MEM_SCRATCH, n_bytes);
    cera_status status = room && ids ? read_session(session, r, ids, room, err)
                                     : cr_fail_nomem(err, n_room + n_bytes, "the file's content");
    if (status == CERA_OK)
        accept(session, r, ids);
    cr_pages_lock(pages);
    cr_line_clear(&session->next, pages);
    cr_session_drop_room(session);
    cr_pages_unlock(pages);
    cr_free(host, CR_MEM_SCRATCH, room, n_room);
    cr_free(host, CR_MEM_SCRATCH, ids, n_bytes);
    return status;
}

cera_status cr_session_load(cr_session *session, const char *path, cera_error *err)
{
    cr_state_id id;
    CR_TRY(cr_session_identify(session, &id, err));
    cr_state_reader reader;
    CR_TRY(cr_state_open(&reader, session->env.pages, &id, path, err));
    cera_status status = load(session, &reader, err);
    cr_state_close(&reader);
    return status;
}

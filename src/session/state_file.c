/* Writing and reading files of state. */
#include "session/state_file.h"

#include "base/arith.h"
#include "file/io_error.h"

#include <errno.h>
#include <string.h>

enum { VERSION = 1, MAX_HELD = 4 };
static const uint32_t HAS_STATE = 1, HAS_LOGITS = 2; /* flags */

static const char MAGIC[8] = "CERA\x1aKV\n";

/* As the file has it, on machines that are little-endian; on others no version is ever right. */
typedef struct header {
    char magic[8];
    uint32_t version, flags;
    cr_state_id id;
    uint32_t n_ids, n_groups;
    uint32_t first[CR_MAX_GROUPS], end[CR_MAX_GROUPS];
    uint64_t n_state, n_logits; /* floats */
    uint32_t n_held;            /* bytes of an unfinished character */
    char held[MAX_HELD];
    uint32_t zero[2];
} header;
_Static_assert(sizeof(cr_state_id) == 32 && sizeof(header) == 120, "the header has no holes");

cr_state_id cr_state_id_with(const cr_state_id *id, cr_digest adapters)
{
    cr_state_id out = *id;
    if (!cr_digest_equal(adapters, CR_DIGEST_EMPTY))
        cr_digest_add(&out.weights, &adapters, sizeof adapters);
    return out;
}

/* Positions of page i that a text of n tokens has. */
static int positions_of(int n, int i)
{
    return CR_MIN(n - i * CR_PAGE, CR_PAGE);
}

static size_t n_vocab_of(const cr_pages *pages)
{
    return pages->graph->n_vocab;
}

size_t cr_state_room(const cr_pages *pages)
{
    size_t most = 1;
    for (int g = 0; g < pages->graph->n_groups; g++)
        most = CR_MAX(most, cr_page_bytes(&pages->graph->groups[g], pages->kv_type, CR_PAGE));
    return most;
}

/* Bytes of everything that the header announces. The counts are those of a session at most, and
 * page sizes are memory's, so nothing overflows 64 bits. */
static uint64_t size_of(const cr_pages *pages, int n_ids, const int *first, const int *end,
                        bool has_state, bool has_logits)
{
    const cr_graph *graph = pages->graph;
    uint64_t size = sizeof(header) + sizeof(cr_digest) + (uint64_t)n_ids * sizeof(int32_t);
    for (int g = 0; g < graph->n_groups; g++) {
        if (end[g] == first[g])
            continue;
        uint64_t n =
            (uint64_t)(end[g] - 1 - first[g]) * CR_PAGE + (uint64_t)positions_of(n_ids, end[g] - 1);
        size += n * cr_page_bytes(&graph->groups[g], pages->kv_type, 1);
    }
    if (has_state)
        size += (uint64_t)graph->state_floats * sizeof(float);
    if (has_logits)
        size += (uint64_t)graph->n_vocab * sizeof(float);
    return size;
}

static void spans_of(const cr_pages *pages, const cr_state_content *content, int *first, int *end)
{
    for (int g = 0; g < pages->graph->n_groups; g++) {
        first[g] = content->spans[g].first;
        end[g] = content->spans[g].end;
    }
}

/* The one header that says this: what nothing is said with is zero. */
static void fill_header(header *h, const cr_graph *graph, const cr_state_id *id, int n_ids,
                        const int *first, const int *end, bool has_state, bool has_logits,
                        const cr_detok *detok)
{
    *h = (header){
        .version = VERSION,
        .flags = (has_state ? HAS_STATE : 0) | (has_logits ? HAS_LOGITS : 0),
        .id = *id,
        .n_ids = (uint32_t)n_ids,
        .n_groups = (uint32_t)graph->n_groups,
        .n_state = graph->state_floats,
        .n_logits = graph->n_vocab,
        .n_held = (uint32_t)detok->n_held,
    };
    memcpy(h->magic, MAGIC, sizeof h->magic);
    memcpy(h->held, detok->held, detok->n_held);
    for (int g = 0; g < graph->n_groups; g++) {
        h->first[g] = (uint32_t)first[g];
        h->end[g] = (uint32_t)end[g];
    }
}

uint64_t cr_state_size(const cr_pages *pages, const cr_state_content *content)
{
    int first[CR_MAX_GROUPS] = { 0 }, end[CR_MAX_GROUPS] = { 0 };
    spans_of(pages, content, first, end);
    return size_of(pages, content->n_ids, first, end, content->state, content->logits);
}

/* ---- writing ----------------------------------------------------------------------------- */

typedef struct writer {
    cr_output *out;
    cr_digest digest;
    cera_error *err;
} writer;

static cera_status put(writer *w, const void *bytes, size_t n)
{
    cr_digest_add(&w->digest, bytes, n);
    return cr_output_write(w->out, bytes, n, w->err);
}

static cera_status put_pages(writer *w, const cr_pages *pages, const cr_state_content *content,
                             void *room)
{
    const cr_graph *graph = pages->graph;
    for (int g = 0; g < graph->n_groups; g++) {
        const cr_page_span *span = &content->spans[g];
        for (int i = span->first; i < span->end; i++) {
            int n = positions_of(content->n_ids, i);
            pages->api->page_pack(pages->backend, graph, g, pages->kv_type, room,
                                  span->pages[i - span->first]->data, n);
            CR_TRY(put(w, room, cr_page_bytes(&graph->groups[g], pages->kv_type, n)));
        }
    }
    return CERA_OK;
}

cera_status cr_state_write(const cr_pages *pages, const cr_state_id *id,
                           const cr_state_content *content, void *room, cr_output *out,
                           cera_error *err)
{
    const cr_graph *graph = pages->graph;
    int first[CR_MAX_GROUPS] = { 0 }, end[CR_MAX_GROUPS] = { 0 };
    spans_of(pages, content, first, end);
    header h;
    fill_header(&h, graph, id, content->n_ids, first, end, content->state, content->logits,
                &content->detok);
    writer w = { .out = out, .err = err };
    CR_TRY(put(&w, &h, sizeof h));
    CR_TRY(put(&w, content->ids, (size_t)content->n_ids * sizeof *content->ids));
    CR_TRY(put_pages(&w, pages, content, room));
    if (content->state)
        CR_TRY(put(&w, content->state, graph->state_floats * sizeof(float)));
    if (content->logits)
        CR_TRY(put(&w, content->logits, n_vocab_of(pages) * sizeof(float)));
    return cr_output_write(out, &w.digest, sizeof w.digest, err);
}

/* ---- reading ----------------------------------------------------------------------------- */

static cera_status get(cr_state_reader *r, void *bytes, size_t n, cera_error *err)
{
    const cera_os *os = &r->pages->host->os;
    uint8_t *to = bytes;
    for (size_t done = 0; done < n;) {
        int64_t got = os->read(os->ctx, r->file, to + done, n - done, r->offset);
        if (got == -EINTR)
            continue;
        if (got < 0)
            return cr_io_failed(err, r->path, "read", (int)-got);
        if (got == 0 || (uint64_t)got > n - done)
            return cr_fail(err, CERA_E_IO, "%s: the file ends at byte %llu, expected %llu bytes",
                           r->path, (unsigned long long)r->offset, (unsigned long long)r->size);
        done += (size_t)got;
        r->offset += (uint64_t)got;
    }
    return CERA_OK;
}

static cera_status get_piece(cr_state_reader *r, void *bytes, size_t n, cera_error *err)
{
    CR_TRY(get(r, bytes, n, err));
    cr_digest_add(&r->digest, bytes, n);
    return CERA_OK;
}

static cera_status check_id(const cr_state_reader *r, const header *h, const cr_state_id *id,
                            cera_error *err)
{
    if (memcmp(h->magic, MAGIC, sizeof MAGIC) != 0)
        return cr_fail(err, CERA_E_FORMAT,
                       "%s: expected a state of cera, found another kind of file", r->path);
    if (h->version != VERSION)
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: expected version %d, found %u", r->path,
                       VERSION, h->version);
    if (!cr_digest_equal(h->id.weights, id->weights))
        return cr_fail(err, CERA_E_UNSUPPORTED,
                       "%s: expected the state of a model with digest %016llx%016llx, found "
                       "%016llx%016llx; it was saved with other weights or adapters",
                       r->path, (unsigned long long)id->weights.high,
                       (unsigned long long)id->weights.low, (unsigned long long)h->id.weights.high,
                       (unsigned long long)h->id.weights.low);
    if (memcmp(h->id.backend, id->backend, sizeof id->backend) != 0 ||
        h->id.numerics != id->numerics)
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: expected numerics %.8s %u, found %.8s %u",
                       r->path, id->backend, id->numerics, h->id.backend, h->id.numerics);
    if (h->id.kv_type != id->kv_type)
        return cr_fail(err, CERA_E_UNSUPPORTED,
                       "%s: expected keys and values of type %u, found type %u", r->path,
                       id->kv_type, h->id.kv_type);
    return CERA_OK;
}

/* Whatever is read out of a header must be possible, and a header made of it must be the same. */
static cera_status check_counts(cr_state_reader *r, const header *h, const cr_state_id *id,
                                cera_error *err)
{
    const cr_graph *graph = r->pages->graph;
    enum { MAX_IDS = 1 << 26 };
    bool fits = h->n_ids > 0 && h->n_ids <= MAX_IDS && h->n_held < MAX_HELD;
    r->n_ids = fits ? (int)h->n_ids : 0;
    uint32_t n_pages = (uint32_t)(r->n_ids + CR_PAGE - 1) / CR_PAGE;
    for (int g = 0; g < graph->n_groups && fits; g++) {
        fits = h->first[g] <= h->end[g] && h->end[g] <= n_pages;
        r->first[g] = fits ? (int)h->first[g] : 0;
        r->end[g] = fits ? (int)h->end[g] : 0;
    }
    r->has_state = graph->state_floats > 0 && (h->flags & HAS_STATE) != 0;
    r->has_logits = (h->flags & HAS_LOGITS) != 0;
    if (fits) {
        r->detok.n_held = h->n_held;
        memcpy(r->detok.held, h->held, h->n_held);
        fits = h->n_held == 0 || cr_utf8_is_open(h->held, h->n_held);
        header again;
        fill_header(&again, graph, id, r->n_ids, r->first, r->end, r->has_state, r->has_logits,
                    &r->detok);
        fits = fits && memcmp(&again, h, sizeof again) == 0;
    }
    if (!fits)
        return cr_fail(err, CERA_E_FORMAT, "%s: the header is damaged", r->path);
    uint64_t size = size_of(r->pages, r->n_ids, r->first, r->end, r->has_state, r->has_logits);
    if (r->size == size)
        return CERA_OK;
    return cr_fail(err, CERA_E_FORMAT, "%s: expected %llu bytes, found %llu; it is %s", r->path,
                   (unsigned long long)size, (unsigned long long)r->size,
                   r->size < size ? "cut short" : "damaged");
}

static cera_status begin(cr_state_reader *r, const cr_state_id *id, cera_error *err)
{
    const cera_os *os = &r->pages->host->os;
    cera_os_stat stat;
    int error = os->stat(os->ctx, r->file, &stat);
    if (error != 0)
        return cr_io_failed(err, r->path, "look at it", error);
    if (!stat.is_regular)
        return cr_fail(err, CERA_E_IO, "%s: expected a regular file", r->path);
    r->size = stat.size;
    header h;
    if (r->size < sizeof h)
        return cr_fail(err, CERA_E_FORMAT, "%s: expected a state of cera, found %llu bytes",
                       r->path, (unsigned long long)r->size);
    CR_TRY(get_piece(r, &h, sizeof h, err));
    CR_TRY(check_id(r, &h, id, err));
    return check_counts(r, &h, id, err);
}

cera_status cr_state_open(cr_state_reader *r, const cr_pages *pages, const cr_state_id *id,
                          const char *path, cera_error *err)
{
    *r = (cr_state_reader){ .pages = pages, .path = path };
    const cera_os *os = &pages->host->os;
    int error = os->open(os->ctx, path, &r->file);
    if (error != 0) {
        r->file = NULL;
        return cr_io_failed(err, path, "open", error);
    }
    cera_status status = begin(r, id, err);
    if (status != CERA_OK)
        cr_state_close(r);
    return status;
}

cera_status cr_state_read_ids(cr_state_reader *r, int32_t *ids, cera_error *err)
{
    CR_TRY(get_piece(r, ids, (size_t)r->n_ids * sizeof *ids, err));
    for (int i = 0; i < r->n_ids; i++) {
        if (ids[i] < 0 || (size_t)ids[i] >= n_vocab_of(r->pages))
            return cr_fail(err, CERA_E_FORMAT, "%s: token id %d at %d: expected 0 to %zu", r->path,
                           (int)ids[i], i, n_vocab_of(r->pages) - 1);
    }
    return CERA_OK;
}

cera_status cr_state_read_page(cr_state_reader *r, int group, int i, cr_page *out, void *room,
                               cera_error *err)
{
    const cr_pages *pages = r->pages;
    int n = positions_of(r->n_ids, i);
    size_t bytes = cr_page_bytes(&pages->graph->groups[group], pages->kv_type, n);
    CR_TRY(get_piece(r, room, bytes, err));
    if (out)
        pages->api->page_unpack(pages->backend, pages->graph, group, pages->kv_type, out->data,
                                room, n);
    return CERA_OK;
}

cera_status cr_state_read_state(cr_state_reader *r, float *out, cera_error *err)
{
    return get_piece(r, out, r->pages->graph->state_floats * sizeof *out, err);
}

cera_status cr_state_read_logits(cr_state_reader *r, float *out, cera_error *err)
{
    return get_piece(r, out, n_vocab_of(r->pages) * sizeof *out, err);
}

cera_status cr_state_read_end(cr_state_reader *r, cera_error *err)
{
    cr_digest found;
    CR_TRY(get(r, &found, sizeof found, err));
    if (cr_digest_equal(found, r->digest))
        return CERA_OK;
    return cr_fail(err, CERA_E_FORMAT, "%s: the digest is not that of the content; it is damaged",
                   r->path);
}

void cr_state_close(cr_state_reader *r)
{
    const cera_os *os = &r->pages->host->os;
    if (r->file)
        os->close(os->ctx, r->file);
    r->file = NULL;
}

/* Opening an engine, step by step; closing undoes whatever was reached. */
#include "engine/engine.h"

#include "arch/arch.h"
#include "base/arith.h"
#include "base/cpu.h"
#include "engine/fingerprint.h"
#include "engine/source.h"
#include "engine/tuning.h"
#include "file/output.h"

#include <string.h>

enum {
    MAX_THREADS = 256,
    DEFAULT_CHUNK = 512,
    DEFAULT_CONTEXT = 4096,
    DEFAULT_BATCH = 16,
    DEFAULT_CACHE = 256 << 20, /* bytes, or what two sessions with a full context take */
};

/* By cera_kv_type. */
static const cr_type kv_types[] = { CR_TYPE_F16, CR_TYPE_F32, CR_TYPE_Q8_0 };

static cera_status want_range(const char *what, int found, int max, cera_error *err)
{
    if (found >= 0 && found <= max)
        return CERA_OK;
    return cr_fail(err, CERA_E_ARG, "%s: expected 0 to %d, found %d", what, max, found);
}

static cera_status check_options(const cera_engine_options *o, cera_error *err)
{
    if (o->size != sizeof *o)
        return cr_fail(err, CERA_E_ARG, "engine options size: expected %zu, found %zu", sizeof *o,
                       o->size);
    CR_TRY(want_range("n_threads", o->n_threads, MAX_THREADS, err));
    CR_TRY(want_range("context_size", o->context_size, CR_MAX_CONTEXT, err));
    CR_TRY(want_range("chunk_size", o->chunk_size, CR_MAX_CHUNK, err));
    CR_TRY(want_range("max_batch", o->max_batch, CR_MAX_BATCH, err));
    return want_range("kv_type", (int)o->kv_type, (int)CR_COUNT(kv_types) - 1, err);
}

static cera_status open_model(cr_engine *engine, const cera_engine_options *options,
                              cera_error *err)
{
    cr_str name = { 0 };
    CR_TRY(cr_gguf_get_str(engine->file, "general.architecture", CR_REQUIRED, &name, err));
    const cr_arch *arch = cr_arch_find(name);
    if (!arch)
        return cr_fail(err, CERA_E_UNSUPPORTED, "unsupported architecture: %.*s",
                       (int)CR_MIN(name.size, 64), name.data);
    int n_context = options->context_size > 0 ? options->context_size : DEFAULT_CONTEXT;
    return cr_model_new(engine->file, &engine->host, arch, n_context, &engine->model, err);
}

/* A file without any vocabulary serves ids; one whose vocabulary is damaged serves nothing. */
static cera_status open_vocab(cr_engine *engine, const char *pre, cera_error *err)
{
    cera_value value;
    if (!cr_gguf_find(engine->file, "tokenizer.ggml.model", &value) &&
        !cr_gguf_find(engine->file, "tokenizer.ggml.tokens", &value))
        return CERA_OK;
    CR_TRY(cr_vocab_new(engine->file, pre, &engine->host, &engine->vocab, err));
    cera_vocab_info info;
    cr_vocab_get_info(engine->vocab, &info);
    size_t n_rows = engine->model->graph.n_vocab;
    if (info.n_tokens == n_rows)
        return CERA_OK;
    return cr_fail(err, CERA_E_FORMAT,
                   "tokenizer.ggml.tokens: %zu tokens, but token_embd.weight has %zu rows",
                   info.n_tokens, n_rows);
}

static cera_status open_device(cr_engine *engine, const cera_engine_options *options,
                               cera_error *err)
{
    engine->api = &cr_backend_cpu;
    cr_backend_options backend = {
        .n_threads = options->n_threads > 0 ? options->n_threads : cr_cpu_n_threads(&engine->host),
        .tier = options->cpu_tier,
    };
    if (options->tuning)
        CR_TRY(cr_tuning_read(&engine->host, options->tuning, &backend.prefetch, err));
    CR_TRY(engine->api->open(&engine->host, &backend, &engine->backend, err));
    const cr_graph *graph = &engine->model->graph;
    for (int i = 0; i < graph->n_ops; i++)
        CR_TRY(engine->api->supports(engine->backend, &graph->ops[i], err));

    int n_trained = engine->model->hparams.n_context;
    if (options->context_size > n_trained)
        cr_log(&engine->host, 0, "context_size: %d asked for, the model has %d",
               options->context_size, n_trained);
    engine->context_size =
        CR_MIN(options->context_size > 0 ? options->context_size : DEFAULT_CONTEXT, n_trained);
    int chunk_size =
        CR_MIN(options->chunk_size > 0 ? options->chunk_size : DEFAULT_CHUNK, engine->context_size);
    int max_batch = options->max_batch > 0 ? options->max_batch : DEFAULT_BATCH;
    /* A whole chunk, and a token of each of the others. */
    cr_plan_options plan = {
        .max_rows = chunk_size + max_batch - 1,
        .kv_type = kv_types[options->kv_type],
    };
    CR_TRY(engine->api->plan_new(engine->backend, graph, &plan, &engine->plan, err));
    engine->max_rows = plan.max_rows;
    cr_scheduler_options scheduler = {
        .api = engine->api,
        .plan = engine->plan,
        .max_seqs = max_batch,
        .max_rows = plan.max_rows,
        .chunk_size = chunk_size,
    };
    return cr_scheduler_new(&engine->host, &scheduler, &engine->scheduler, err);
}

/* Twice what the pages and states of a full context take: room for a session and as much again. */
static size_t two_contexts(const cr_engine *engine, cr_type kv_type)
{
    const cr_graph *graph = &engine->model->graph;
    size_t n_pages = (size_t)(engine->context_size + CR_PAGE - 1) / CR_PAGE, bytes = 0;
    for (int g = 0; g < graph->n_groups; g++)
        bytes += n_pages * cr_type_bytes(cr_type_get(kv_type), graph->groups[g].page_elements);
    return 2 * (bytes + 4 * graph->state_floats * sizeof(float));
}

static cera_status open_pages(cr_engine *engine, const cera_engine_options *options,
                              cera_error *err)
{
    cr_type kv_type = kv_types[options->kv_type];
    cr_pages_options pages = {
        .api = engine->api,
        .backend = engine->backend,
        .graph = &engine->model->graph,
        .kv_type = kv_type,
        .budget = options->cache_bytes > 0
                      ? (size_t)CR_MIN(options->cache_bytes, (uint64_t)SIZE_MAX)
                      : CR_MAX((size_t)DEFAULT_CACHE, two_contexts(engine, kv_type)),
    };
    CR_TRY(cr_pages_new(&engine->host, &pages, &engine->pages, err));
    if (options->no_reuse)
        return CERA_OK;
    return cr_prefix_new(engine->pages, engine->context_size, &engine->prefix, err);
}

static cera_status identify(void *ctx, cr_state_id *out, cera_error *err);

static cera_status open_store(cr_engine *engine, const cera_engine_options *options,
                              cera_error *err)
{
    if (!options->cache_dir || !engine->prefix)
        return CERA_OK;
    if (!*options->cache_dir)
        return cr_fail(err, CERA_E_ARG, "cache_dir: expected a folder, found \"\"");
#ifdef CERA_WITH_DISK_CACHE
    const uint64_t default_bytes = UINT64_C(10) << 30;
    cr_store_options store = {
        .folder = options->cache_dir,
        .budget = options->cache_disk_bytes > 0 ? options->cache_disk_bytes : default_bytes,
        .n_context = engine->context_size,
        .prefix = engine->prefix,
        .identify = identify,
        .ctx = engine,
    };
    return cr_store_new(engine->pages, &store, &engine->store, err);
#else
    return cr_fail(err, CERA_E_UNSUPPORTED,
                   "cache_dir: this build keeps nothing on disk; build with CERA_DISK_CACHE");
#endif
}

/* Touches every page of the weights that the model reads. Not by a call to the system: a map may be
 * the host's own. */
static void prefault(const cr_engine *engine)
{
    enum { LEAST_PAGE = 4096 };
    for (size_t i = 0; i < cr_gguf_n_tensors(engine->file); i++) {
        const cr_tensor *tensor = cr_gguf_tensor(engine->file, i);
        if (!cr_model_uses(engine->model, tensor))
            continue;
        const volatile uint8_t *bytes = tensor->data;
        for (size_t at = 0; at < tensor->size; at += LEAST_PAGE)
            (void)bytes[at];
        if (tensor->size > 0)
            (void)bytes[tensor->size - 1];
    }
}

/* Remarks that are not errors: tensors that nothing reads. */
static void log_unused(cr_engine *engine)
{
    if (!engine->host.log)
        return; /* nobody would read what takes a look at every tensor */
    for (size_t i = 0; i < cr_gguf_n_tensors(engine->file); i++) {
        const cr_tensor *tensor = cr_gguf_tensor(engine->file, i);
        if (!cr_model_uses(engine->model, tensor))
            cr_log(&engine->host, 1, "%s: the %s architecture does not use this tensor",
                   tensor->name.data, engine->model->arch->name);
    }
}

static cera_status open_all(cr_engine *engine, const cera_source *source,
                            const cera_engine_options *options, cera_error *err)
{
    const cera_os *os = &engine->host.os;
    uint64_t start = os->clock_ns(os->ctx);
    cr_lock_init(&engine->id_lock, &engine->host);
    CR_TRY(cr_source_open(source, &engine->host, &engine->file, err));
    CR_TRY(open_model(engine, options, err));
    CR_TRY(open_vocab(engine, options->pre, err));
    CR_TRY(open_device(engine, options, err));
    CR_TRY(open_pages(engine, options, err));
    CR_TRY(open_store(engine, options, err));
    log_unused(engine);
    if (options->prefault)
        prefault(engine);
    engine->load_ms = (double)(os->clock_ns(os->ctx) - start) / 1e6;
    return CERA_OK;
}

cera_status cr_engine_open(const cera_source *source, const cera_engine_options *options,
                           cr_engine **out, cera_error *err)
{
    CR_TRY(check_options(options, err));
    cr_host host;
    CR_TRY(cr_host_set(&host, options->host, err));
    cr_engine *engine = cr_alloc_zero(&host, CR_MEM_OBJECT, sizeof *engine);
    if (!engine)
        return cr_fail_nomem(err, sizeof *engine, "the engine");
    engine->host = host; /* with its bill, which has the engine itself on it */
    cera_status status = open_all(engine, source, options, err);
    if (status != CERA_OK) {
        cr_engine_close(engine);
        return status;
    }
    *out = engine;
    return CERA_OK;
}

void cr_engine_close(cr_engine *engine)
{
    if (!engine)
        return;
    cr_store_free(engine->store);
    cr_prefix_free(engine->prefix);
    cr_pages_free(engine->pages);
    cr_scheduler_free(engine->scheduler);
    if (engine->plan)
        engine->api->plan_free(engine->plan);
    if (engine->backend)
        engine->api->close(engine->backend);
    cr_model_free(engine->model);
    cr_vocab_free(engine->vocab);
    cr_gguf_close(engine->file);
    cr_host host = engine->host; /* the engine cannot be freed through what is inside it */
    cr_free(&host, CR_MEM_OBJECT, engine, sizeof *engine);
}

/* ---- running ----------------------------------------------------------------------------- */

static cera_status run(void *ctx, cr_seat *seat, const cr_batch_seq *seq, cera_error *err)
{
    cr_engine *engine = ctx;
    CR_TRY(cr_gguf_check_unchanged(engine->file, err));
    return cr_scheduler_run(engine->scheduler, seat, seq, err);
}

cera_status cr_engine_roofline(cr_engine *engine, cera_roofline *out, cera_error *err)
{
    CR_TRY(cr_gguf_check_unchanged(engine->file, err));
    if (!cr_scheduler_hold(engine->scheduler))
        return cr_fail(err, CERA_E_STATE, "roofline: a session of this engine is computing");
    cera_status status = engine->api->plan_roofline(engine->plan, out, err);
    cr_scheduler_release(engine->scheduler);
    return status;
}

cera_status cr_engine_tune(cr_engine *engine, const char *path, cera_error *err)
{
    CR_TRY(cr_gguf_check_unchanged(engine->file, err));
    CR_TRY(cr_output_check(&engine->host, path, err));
    if (!cr_scheduler_hold(engine->scheduler))
        return cr_fail(err, CERA_E_STATE, "tune: a session of this engine is computing");
    size_t prefetch = 0;
    cera_status status = engine->api->plan_tune(engine->plan, &prefetch, err);
    cr_scheduler_release(engine->scheduler);
    return status == CERA_OK ? cr_tuning_write(&engine->host, path, prefetch, err) : status;
}

/* The weights are read once: a file that changes later fails check_unchanged for good. */
static cera_status identify(void *ctx, cr_state_id *out, cera_error *err)
{
    cr_engine *engine = ctx;
    CR_TRY(cr_gguf_check_unchanged(engine->file, err));
    cr_lock_take(&engine->id_lock);
    if (!engine->has_id) {
        const cr_backend_api *api = engine->api;
        engine->id = (cr_state_id){
            .weights = cr_fingerprint(engine->model),
            .numerics = api->numerics(engine->backend, &engine->model->graph),
            .kv_type = cr_type_get(engine->pages->kv_type)->id,
        };
        memcpy(engine->id.backend, api->name, CR_MIN(strlen(api->name), sizeof engine->id.backend));
        engine->has_id = true;
    }
    *out = engine->id;
    cr_lock_drop(&engine->id_lock);
    return CERA_OK;
}

cr_session_env cr_engine_env(cr_engine *engine)
{
    return (cr_session_env){
        .host = &engine->host,
        .model = engine->model,
        .vocab = engine->vocab,
        .pages = engine->pages,
        .prefix = engine->prefix,
        .store = engine->store,
        .context_size = engine->context_size,
        .max_rows = engine->max_rows,
        .scheduler = engine->scheduler,
        .run = run,
        .identify = identify,
        .ctx = engine,
    };
}

/* ---- info -------------------------------------------------------------------------------- */

void cr_engine_get_info(const cr_engine *engine, cera_engine_info *out)
{
    const cr_hparams *hp = &engine->model->hparams;
    cera_file_info file;
    cr_gguf_get_info(engine->file, &file);
    cr_backend_info backend;
    engine->api->info(engine->backend, &backend);
    *out = (cera_engine_info){
        .arch = engine->model->arch->name,
        .name = engine->model->name,
        .quant = cr_gguf_quant_name(engine->file),
        .n_params = file.n_params,
        .memory_bytes = cr_host_live(&engine->host),
        .n_layer = hp->n_layer,
        .n_embd = hp->n_embd,
        .n_head = hp->n_head,
        .n_vocab = hp->n_vocab,
        .context_size = engine->context_size,
        .context_size_model = hp->n_context,
        .n_threads = backend.n_threads,
        .cpu_tier = backend.tier,
        .load_ms = engine->load_ms,
    };
    for (size_t i = 0; i < cr_gguf_n_tensors(engine->file); i++)
        out->weight_bytes += cr_gguf_tensor(engine->file, i)->size;
}

void cr_engine_get_stats(const cr_engine *engine, cera_engine_stats *out)
{
    *out = (cera_engine_stats){ 0 };
    cr_pages_lock(engine->pages);
    cr_pages_get_stats(engine->pages, out);
    if (engine->prefix)
        cr_prefix_get_stats(engine->prefix, out);
    cr_pages_unlock(engine->pages);
    if (engine->store)
        cr_store_get_stats(engine->store, out);
}

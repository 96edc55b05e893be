/* What an engine remembers: how much is reused, what it costs, what it may hold; and that many
 * threads may do it at once. That reuse never changes an answer is shown by test_reuse.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fault_host.h"
#include "support/state_model.h"
#include "support/tiny.h"

#include "api/objects.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum { N_CONTEXT = 4096 };

/* ---- engines ----------------------------------------------------------------------------- */

typedef struct fixture {
    gguf_build file;
    fault_host host;
    cera_engine *engine;
    int32_t ids[N_CONTEXT];
} fixture;

/* A toy: gemma3 with a window of `window` in every other layer, phi3 in all, or none. */
static void begin_with(fixture *x, const char *arch, int window, cera_engine_options *options)
{
    toy_spec spec;
    toy_spec_init(&spec, arch, CR_TYPE_F32);
    spec.n_context = N_CONTEXT;
    spec.n_embd = 64;
    spec.n_ff = 64;
    spec.n_head = 2;
    spec.head_dim = spec.rope_dims = 32;
    bool has_conv = strcmp(arch, "lfm2") == 0;
    spec.n_layer = has_conv ? 4 : 2;
    spec.window = window;
    spec.period = strcmp(arch, "gemma3") == 0 ? 2 : 0;
    spec.tied = strcmp(arch, "gemma3") == 0;
    for (int i = 0; i < spec.n_layer; i++)
        spec.n_head_kv[i] = has_conv && i % 2 == 0 ? 0 : 2;
    toy_build(&spec, &x->file);
    fault_init(&x->host);
    options->host = &x->host.host;
    options->n_threads = 1;
    cera_source source = { .data = x->file.data, .n_data = x->file.size };
    cera_error err = { 0 };
    if (cera_engine_open_source(&source, options, &x->engine, &err) != CERA_OK)
        fail_msg("%s", err.message);
    uint32_t random = 7;
    for (int i = 0; i < N_CONTEXT; i++) {
        random = random * 1664525u + 1013904223u;
        x->ids[i] = (int32_t)(random >> 8) % TOY_N_VOCAB;
    }
}

static void begin(fixture *x, const char *arch, int window)
{
    cera_engine_options options;
    cera_engine_options_init(&options);
    begin_with(x, arch, window, &options);
}

static void end(fixture *x)
{
    state_end(x->engine, &x->host, &x->file);
}

static cera_session *new_session(const fixture *x)
{
    cera_session *s = NULL;
    assert_int_equal(cera_session_new(x->engine, NULL, &s, NULL), CERA_OK);
    return s;
}

static cera_engine_stats stats_of(const fixture *x)
{
    cera_engine_stats stats;
    cera_engine_get_stats(x->engine, &stats);
    return stats;
}

static size_t page_bytes(const fixture *x, int group)
{
    return x->engine->core->pages->bytes[group];
}

/* n greedy tokens; what the summary says. */
static cera_summary generate(cera_session *s, int n)
{
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.max_tokens = n;
    options.top_k = 1;
    options.ignore_eos = true;
    cera_summary summary;
    assert_int_equal(cera_session_generate(s, &options, NULL, &summary, NULL), CERA_OK);
    return summary;
}

/* ---- how much is reused ------------------------------------------------------------------ */

/* Exactly to the token where there is no recurrent state; where there is, to the page or to what an
 * input ended with. */
static void beginnings_are_reused(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        int window;
        /* Of a prompt of 500: given again; with 130 other tokens behind 200; and behind its answer
         * of 40, 10 more. */
        size_t again, branch, answered;
    } rows[] = {
        { "llama", 0, 499, 200, 540 },
        { "gemma3", 70, 499, 200, 540 },
        { "lfm2", 0, 499, 192, 540 },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        fixture x;
        begin(&x, rows[i].arch, rows[i].window);
        cera_session *a = new_session(&x), *b = new_session(&x), *c = new_session(&x);
        assert_int_equal(cera_session_append_ids(a, x.ids, 500, NULL), CERA_OK);
        cera_summary summary = generate(a, 40);
        assert_int_equal(summary.n_prompt, 500);
        assert_int_equal(summary.n_reused, 0);

        assert_int_equal(cera_session_append_ids(b, x.ids, 500, NULL), CERA_OK);
        summary = generate(b, 0);
        assert_int_equal(summary.n_prompt, 500);
        assert_int_equal(summary.n_reused, rows[i].again);

        int32_t ids[N_CONTEXT];
        memcpy(ids, x.ids, 200 * sizeof *ids);
        memcpy(ids + 200, x.ids + 600, 130 * sizeof *ids);
        ids[200] = (x.ids[200] + 1) % TOY_N_VOCAB;
        assert_int_equal(cera_session_sync(b, ids, 330, NULL), CERA_OK);
        assert_int_equal(generate(b, 0).n_reused, rows[i].branch);

        size_t n;
        const int32_t *history = cera_session_history(a, &n);
        assert_int_equal(n, 540);
        memcpy(ids, history, n * sizeof *ids);
        memcpy(ids + n, x.ids + 900, 10 * sizeof *ids);
        cera_session_free(a); /* what it computed stays */
        assert_int_equal(cera_session_append_ids(c, ids, 550, NULL), CERA_OK);
        summary = generate(c, 0);
        assert_int_equal(summary.n_prompt, 550);
        assert_int_equal(summary.n_reused, rows[i].answered);

        /* In one's own history, too: nothing to do; then only the last token. */
        assert_int_equal(cera_session_sync(c, ids, 550, NULL), CERA_OK);
        assert_int_equal(generate(c, 0).n_reused, 550);
        uint64_t computed = stats_of(&x).n_tokens_computed;
        assert_int_equal(cera_session_rewind(c, 541, NULL), CERA_OK);
        assert_int_equal(stats_of(&x).n_tokens_computed, computed + 1);
        cera_session_free(b);
        cera_session_free(c);
        end(&x);
    }
}

static void arguments_are_checked(void **state)
{
    (void)state;
    fixture x;
    begin(&x, "llama", 0);
    cera_session *s = new_session(&x);
    cera_error err;
    assert_int_equal(cera_session_append_ids(s, x.ids, 20, NULL), CERA_OK);
    assert_int_equal(cera_session_rewind(s, 21, &err), CERA_E_ARG);
    assert_string_equal(err.message, "position: expected 0 to 20, found 21");
    assert_int_equal(cera_session_sync(s, x.ids, N_CONTEXT + 1, &err), CERA_E_CONTEXT);
    assert_int_equal(cera_session_sync(s, NULL, 3, &err), CERA_E_ARG);
    assert_int_equal(cera_session_sync(s, &(int32_t){ TOY_N_VOCAB }, 1, &err), CERA_E_ARG);
    assert_int_equal(cera_session_fork(s, NULL, &err), CERA_E_ARG);
    assert_int_equal(cera_session_fork(NULL, &s, &err), CERA_E_ARG);
    assert_int_equal(cera_session_position(s), 20);
    assert_int_equal(cera_session_sync(s, NULL, 0, &err), CERA_OK);
    assert_int_equal(cera_session_position(s), 0);
    assert_null(cera_session_logits(s));
    assert_int_equal(cera_session_rewind(s, 0, &err), CERA_OK);
    cera_session_free(s);
    end(&x);
}

static void kv_type_needs_whole_blocks(void **state)
{
    (void)state;
    toy_spec spec;
    toy_spec_init(&spec, "llama", CR_TYPE_F32);
    spec.head_dim = spec.rope_dims = 48;
    gguf_build file;
    toy_build(&spec, &file);
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.kv_type = CERA_KV_Q8_0;
    cera_source source = { .data = file.data, .n_data = file.size };
    cera_engine *engine = NULL;
    cera_error err;
    assert_int_equal(cera_engine_open_source(&source, &options, &engine, &err), CERA_E_UNSUPPORTED);
    assert_string_equal(err.message,
                        "kv_type Q8_0: expected heads of a multiple of 32, the model's have 48");
    assert_null(engine);
    build_done(&file);
}

/* Keys and values of 8 bits give nearly the logits of 32, and are not the same. */
static void kv_types_are_near(void **state)
{
    (void)state;
    static const char *const archs[] = { "llama", "gemma3", "lfm2" };
    for (size_t i = 0; i < CR_COUNT(archs); i++) {
        float logits[3][TOY_N_VOCAB];
        double off[3] = { 0 }, size = 0;
        static const cera_kv_type types[] = { CERA_KV_F32, CERA_KV_F16, CERA_KV_Q8_0 };
        for (int t = 0; t < 3; t++) {
            fixture x;
            cera_engine_options options;
            cera_engine_options_init(&options);
            options.kv_type = types[t];
            begin_with(&x, archs[i], strcmp(archs[i], "gemma3") == 0 ? 70 : 0, &options);
            cera_session *s = new_session(&x);
            assert_int_equal(cera_session_append_ids(s, x.ids, 300, NULL), CERA_OK);
            memcpy(logits[t], cera_session_logits(s), sizeof logits[t]);
            cera_session_free(s);
            end(&x);
        }
        for (int k = 0; k < TOY_N_VOCAB; k++) {
            size += (double)logits[0][k] * (double)logits[0][k];
            for (int t = 1; t < 3; t++) {
                double d = (double)logits[t][k] - (double)logits[0][k];
                off[t] += d * d;
            }
        }
        print_message("%s: F16 is off by %.1e, Q8_0 by %.1e of the logits\n", archs[i],
                      sqrt(off[1] / size), sqrt(off[2] / size));
        assert_true(off[1] > 0 && off[1] < off[2]);
        assert_true(sqrt(off[2] / size) < 0.05);
    }
}

/* ---- memory ------------------------------------------------------------------------------ */

/* The bill of pages is what the allocator gave for them, while sessions come and go, and a budget
 * that is too small for all is kept to by what only the tree holds. */
static void the_budget_is_kept(void **state)
{
    (void)state;
    static const char *const archs[] = { "llama", "gemma3", "lfm2" };
    for (size_t i = 0; i < CR_COUNT(archs); i++) {
        fixture x;
        cera_engine_options options;
        cera_engine_options_init(&options);
        options.cache_bytes = 2 << 20;
        options.context_size = 1024;
        begin_with(&x, archs[i], strcmp(archs[i], "gemma3") == 0 ? 70 : 0, &options);
        atomic_size_t *live = &x.engine->core->host.live[CR_MEM_KV];
        size_t at_first = atomic_load(live); /* the state at position 0 */
        for (int k = 0; k < 12; k++) {
            cera_session *s = new_session(&x);
            assert_int_equal(cera_session_append_ids(s, x.ids + 100 * k, 700, NULL), CERA_OK);
            generate(s, 30);
            cera_engine_stats stats = stats_of(&x);
            uint64_t all = stats.page_bytes_used + stats.page_bytes_cached +
                           stats.state_bytes_used + stats.state_bytes_cached + stats.free_bytes;
            assert_int_equal(all, atomic_load(live) - at_first);
            assert_true(all <= options.cache_bytes);
            assert_int_equal(stats.budget_bytes, options.cache_bytes);
            cera_session_free(s);
            stats = stats_of(&x);
            assert_int_equal(stats.page_bytes_used + stats.state_bytes_used, 0);
        }
        assert_true(stats_of(&x).n_evictions > 0);
        assert_true(stats_of(&x).page_bytes_cached > options.cache_bytes / 2);
        end(&x);
    }
}

/* A session that looks back 128 positions holds so many, however long it gets: in a prompt a chunk
 * more, while generating a page more. */
static void a_window_bounds_memory(void **state)
{
    (void)state;
    enum { CHUNK = 256, WINDOW = 128, WINDOW_PAGES = WINDOW / CR_PAGE };
    fixture x;
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.chunk_size = CHUNK;
    options.no_reuse = true;
    options.context_size = N_CONTEXT;
    options.cache_bytes = 1; /* nothing is held that is not in use */
    begin_with(&x, "phi3", WINDOW, &options);
    cera_session *s = new_session(&x);
    assert_int_equal(cera_session_append_ids(s, x.ids, 3000, NULL), CERA_OK);
    cera_engine_stats stats = stats_of(&x);
    assert_true(stats.page_bytes_used <= (WINDOW_PAGES + 1) * page_bytes(&x, 0));
    size_t before = atomic_load(&x.engine->core->host.live[CR_MEM_KV]);
    cera_summary summary = generate(s, -1);
    assert_int_equal(summary.n_generated, N_CONTEXT - 3000);
    stats = stats_of(&x);
    assert_true(stats.page_bytes_used <= (WINDOW_PAGES + 1) * page_bytes(&x, 0));
    assert_true(atomic_load(&x.engine->core->host.live[CR_MEM_KV]) <= before + page_bytes(&x, 0));

    /* Back within what is still there costs a token; further back, all of it again. */
    uint64_t peak = fault_peak_bytes(&x.host);
    assert_int_equal(cera_session_rewind(s, N_CONTEXT - 2, NULL), CERA_OK);
    assert_int_equal(cera_session_rewind(s, 2000, NULL), CERA_OK);
    assert_int_equal(cera_session_position(s), 2000);
    assert_true(fault_peak_bytes(&x.host) <= peak + 2 * CHUNK / CR_PAGE * page_bytes(&x, 0));
    cera_session_free(s);
    end(&x);

    /* Layers without a window keep everything, those with one do not. */
    cera_engine_options_init(&options);
    options.no_reuse = true;
    begin_with(&x, "gemma3", WINDOW, &options);
    s = new_session(&x);
    assert_int_equal(cera_session_append_ids(s, x.ids, 3000, NULL), CERA_OK);
    const cr_pages *pages = x.engine->core->pages;
    assert_int_equal(pages->graph->n_groups, 2);
    for (int g = 0; g < 2; g++) {
        if (pages->graph->groups[g].window == 0)
            assert_int_equal(pages->counts[g].n_used, (3000 + CR_PAGE - 1) / CR_PAGE);
        else
            assert_in_range(pages->counts[g].n_used, WINDOW_PAGES, WINDOW_PAGES + 1);
    }
    cera_session_free(s);
    end(&x);
}

/* A fork of a long session holds its pages and none of its own; when it goes its own way it takes
 * one page per group, and a state where the model has one. */
static void a_fork_shares_memory(void **state)
{
    (void)state;
    static const char *const archs[] = { "llama", "gemma3", "lfm2" };
    for (size_t i = 0; i < CR_COUNT(archs); i++) {
        fixture x;
        begin(&x, archs[i], strcmp(archs[i], "gemma3") == 0 ? 70 : 0);
        const cr_pages *pages = x.engine->core->pages;
        cera_session *a = new_session(&x), *b = NULL;
        assert_int_equal(cera_session_append_ids(a, x.ids, 2010, NULL), CERA_OK);
        cera_engine_stats before = stats_of(&x);
        assert_int_equal(cera_session_fork(a, &b, NULL), CERA_OK);
        cera_engine_stats after = stats_of(&x);
        assert_int_equal(after.page_bytes_used, before.page_bytes_used);
        assert_int_equal(after.state_bytes_used, before.state_bytes_used);

        assert_int_equal(cera_session_append_ids(b, x.ids + 3000, 1, NULL), CERA_OK);
        after = stats_of(&x);
        size_t page = 0;
        for (int g = 0; g < pages->graph->n_groups; g++)
            page += page_bytes(&x, g);
        assert_int_equal(after.page_bytes_used, before.page_bytes_used + page);
        if (pages->zero_state)
            assert_true(after.state_bytes_used <=
                        before.state_bytes_used + page_bytes(&x, cr_pages_state_kind(pages)));
        cera_session_free(a);
        cera_session_free(b);
        end(&x);
    }
}

/* What sessions hold, to the byte: each more with a beginning of 4,000 tokens that is known takes a
 * page of each group and a state, whoever computed the beginning, and also when it has
 * generated. */
static void a_session_more_is_a_page(void **state)
{
    (void)state;
    static const char *const archs[] = { "llama", "lfm2" };
    enum { N_MORE = 8 };
    for (size_t i = 0; i < 2 * CR_COUNT(archs); i++) {
        const char *arch = archs[i / 2];
        size_t n_prefix = i % 2 == 0 ? 4000 : 3968; /* within a page, and at the end of one */
        fixture x;
        begin(&x, arch, 0);
        const cr_pages *pages = x.engine->core->pages;
        size_t most = page_bytes(&x, 0) +
                      (pages->zero_state ? page_bytes(&x, cr_pages_state_kind(pages)) : 0);
        assert_int_equal(pages->graph->n_groups, 1);
        cera_session *first = new_session(&x), *more[N_MORE];
        assert_int_equal(cera_session_append_ids(first, x.ids, n_prefix, NULL), CERA_OK);
        cera_engine_stats before = stats_of(&x);
        size_t used = before.page_bytes_used + before.state_bytes_used;
        for (int k = 0; k < N_MORE; k++) {
            more[k] = new_session(&x);
            assert_int_equal(cera_session_append_ids(more[k], x.ids, n_prefix, NULL), CERA_OK);
            assert_int_equal(cera_session_append_ids(more[k], x.ids + k, 8, NULL), CERA_OK);
            assert_true(generate(more[k], 4).n_reused >= n_prefix - 1);
            cera_engine_stats after = stats_of(&x);
            size_t now = after.page_bytes_used + after.state_bytes_used;
            if (now > used + most)
                fail_msg("%s: session %d takes %zu bytes, expected %zu at most", arch, k + 1,
                         now - used, most);
            used = now;
        }
        print_message("%s: %zu bytes a session, %zu at most\n", arch,
                      (used - before.page_bytes_used - before.state_bytes_used) / N_MORE, most);
        for (int k = 0; k < N_MORE; k++)
            cera_session_free(more[k]);
        cera_session_free(first);
        end(&x);
    }
}

/* With an engine that remembers, too: the blocks and states that it wants were stocked before. */
typedef struct counter {
    fault_host *host;
    size_t first, last;
    int n;
} counter;

static int count_token(void *user, const cera_token_info *token)
{
    (void)token;
    counter *c = user;
    c->last = fault_calls(c->host, FAULT_ALLOC);
    if (c->n++ == 0)
        c->first = c->last;
    return 0;
}

static void tokens_allocate_nothing(void **state)
{
    (void)state;
    static const char *const archs[] = { "llama", "gemma3", "lfm2" };
    for (size_t i = 0; i < CR_COUNT(archs); i++) {
        fixture x;
        begin(&x, archs[i], strcmp(archs[i], "gemma3") == 0 ? 70 : 0);
        cera_session *a = new_session(&x), *b = NULL;
        assert_int_equal(cera_session_append_ids(a, x.ids, 50, NULL), CERA_OK);
        assert_int_equal(cera_session_fork(a, &b, NULL), CERA_OK);
        cera_session *both[] = { a, b };
        for (int k = 0; k < 2; k++) {
            counter c = { .host = &x.host };
            cera_generate_options options;
            cera_generate_options_init(&options);
            options.max_tokens = 400;
            options.ignore_eos = true;
            cera_sink sink = { .on_token = count_token, .user = &c };
            assert_int_equal(cera_session_generate(both[k], &options, &sink, NULL, NULL), CERA_OK);
            assert_int_equal(c.n, 400);
            assert_int_equal(c.last - c.first, 0);
        }
        cera_session_free(a);
        cera_session_free(b);
        end(&x);
    }
}

/* ---- failing allocations ----------------------------------------------------------------- */

typedef cera_status call(fixture *x, cera_session *s, cera_error *err);

static cera_status call_sync(fixture *x, cera_session *s, cera_error *err)
{
    return cera_session_sync(s, x->ids + 1000, 300, err);
}

static cera_status call_edit(fixture *x, cera_session *s, cera_error *err)
{
    int32_t ids[300];
    memcpy(ids, x->ids, sizeof ids);
    ids[130] = (ids[130] + 1) % TOY_N_VOCAB;
    return cera_session_sync(s, ids, 300, err);
}

static cera_status call_rewind(fixture *x, cera_session *s, cera_error *err)
{
    (void)x;
    return cera_session_rewind(s, 100, err);
}

static cera_status call_append(fixture *x, cera_session *s, cera_error *err)
{
    return cera_session_append_ids(s, x->ids + 2000, 200, err);
}

static cera_status call_generate(fixture *x, cera_session *s, cera_error *err)
{
    (void)x;
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.max_tokens = 150;
    options.top_k = 1;
    options.ignore_eos = true;
    return cera_session_generate(s, &options, NULL, NULL, err);
}

static cera_status call_fork(fixture *x, cera_session *s, cera_error *err)
{
    cera_session *child = NULL;
    cera_status status = cera_session_fork(s, &child, err);
    assert_true((status == CERA_OK) == (child != NULL));
    if (status == CERA_OK)
        status = call_append(x, child, err);
    cera_session_free(child);
    return status;
}

/* Each allocation of a call fails once, or from there on: the call says so, the session has not
 * moved, and the call then does what it would have done. */
static size_t fail_each(call *work, const char *arch, int window, fault_mode mode)
{
    fixture x;
    begin(&x, arch, window);
    size_t n = 0;
    for (bool failed = true; failed; n++) {
        cera_session *s = new_session(&x);
        assert_int_equal(cera_session_append_ids(s, x.ids, 190, NULL), CERA_OK);
        float logits[TOY_N_VOCAB];
        memcpy(logits, cera_session_logits(s), sizeof logits);
        cera_error err = { 0 };
        size_t hits = fault_hits(&x.host);
        fault_allocs(&x.host, n + 1, mode);
        cera_status status = work(&x, s, &err);
        fault_allocs(&x.host, 0, FAULT_NEVER);
        assert_null(fault_misuse(&x.host));
        failed = fault_hits(&x.host) > hits;
        assert_int_equal(status, failed ? CERA_E_NOMEM : CERA_OK);
        if (failed) {
            size_t n_history;
            const int32_t *history = cera_session_history(s, &n_history);
            assert_int_equal(n_history, 190);
            assert_memory_equal(history, x.ids, 190 * sizeof *history);
            assert_memory_equal(logits, cera_session_logits(s), sizeof logits);
            assert_int_equal(work(&x, s, &err), CERA_OK);
        }
        cera_session_free(s);
        /* Nothing cached or free: the next round starts like the first. */
        cr_engine *core = x.engine->core;
        size_t budget = core->pages->budget;
        core->pages->budget = 0;
        s = new_session(&x);
        assert_int_equal(cera_session_append_ids(s, x.ids + 3000, 1, NULL), CERA_OK);
        cera_session_free(s);
        core->pages->budget = budget;
    }
    end(&x);
    return n - 1;
}

static void failed_allocations_change_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        call *work;
    } rows[] = {
        { "sync", call_sync },         { "sync that edits", call_edit },
        { "rewind", call_rewind },     { "append", call_append },
        { "generate", call_generate }, { "fork and append", call_fork },
    };
    static const char *const archs[] = { "llama", "gemma3", "lfm2" };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        for (size_t a = 0; a < CR_COUNT(archs); a++) {
            int window = strcmp(archs[a], "gemma3") == 0 ? 70 : 0;
            size_t once = fail_each(rows[i].work, archs[a], window, FAULT_ONCE);
            size_t sticky = fail_each(rows[i].work, archs[a], window, FAULT_STICKY);
            assert_true(once > 0);
            print_message("%s, %s: %zu allocations failed once, %zu from there on\n", rows[i].name,
                          archs[a], once, sticky);
        }
    }
}

/* ---- threads ----------------------------------------------------------------------------- */

enum { N_THREADS = 4, N_ROUNDS = 12 };

typedef struct thread {
    pthread_t id;
    fixture *x;
    cera_session *parent; /* to fork from at first */
    int number;
    float logits[N_ROUNDS][TOY_N_VOCAB];
    int lengths[N_ROUNDS];
    cera_status status;
} thread;

/* Histories that other threads have parts of, at the same time. */
static void *work(void *arg)
{
    thread *t = arg;
    cera_session *s = t->parent;
    for (int i = 0; i < N_ROUNDS && t->status == CERA_OK; i++) {
        int n = t->lengths[i] = 60 + (t->number * 37 + i * 101) % 300;
        t->status = cera_session_sync(s, t->x->ids, (size_t)n, NULL);
        if (t->status != CERA_OK)
            break;
        memcpy(t->logits[i], cera_session_logits(s), sizeof t->logits[i]);
        generate(s, 5);
        cera_session *child = NULL;
        t->status = cera_session_fork(s, &child, NULL);
        cera_session_free(s);
        s = child;
        cera_engine_stats stats;
        cera_engine_get_stats(t->x->engine, &stats);
    }
    cera_session_free(s);
    return NULL;
}

static void threads_share_what_is_known(void **state)
{
    (void)state;
    static const char *const archs[] = { "llama", "gemma3", "lfm2" };
    static thread threads[N_THREADS];
    for (size_t i = 0; i < CR_COUNT(archs); i++) {
        fixture x;
        cera_engine_options options;
        cera_engine_options_init(&options);
        options.cache_bytes = 1 << 20;
        begin_with(&x, archs[i], strcmp(archs[i], "gemma3") == 0 ? 70 : 0, &options);
        cera_session *first = new_session(&x);
        assert_int_equal(cera_session_append_ids(first, x.ids, 150, NULL), CERA_OK);
        memset(threads, 0, sizeof threads);
        for (int t = 0; t < N_THREADS; t++) {
            threads[t].x = &x;
            threads[t].number = t;
            assert_int_equal(cera_session_fork(first, &threads[t].parent, NULL), CERA_OK);
        }
        for (int t = 0; t < N_THREADS; t++)
            assert_int_equal(pthread_create(&threads[t].id, NULL, work, &threads[t]), 0);
        for (int t = 0; t < N_THREADS; t++) {
            pthread_join(threads[t].id, NULL);
            assert_int_equal(threads[t].status, CERA_OK);
        }
        cera_session_free(first);

        cera_engine_options plain;
        cera_engine_options_init(&plain);
        plain.no_reuse = true;
        plain.n_threads = 1;
        cera_engine *alone = NULL;
        cera_source source = { .data = x.file.data, .n_data = x.file.size };
        assert_int_equal(cera_engine_open_source(&source, &plain, &alone, NULL), CERA_OK);
        for (int t = 0; t < N_THREADS; t++)
            for (int k = 0; k < N_ROUNDS; k++) {
                cera_session *s = NULL;
                assert_int_equal(cera_session_new(alone, NULL, &s, NULL), CERA_OK);
                size_t n = (size_t)threads[t].lengths[k];
                assert_int_equal(cera_session_append_ids(s, x.ids, n, NULL), CERA_OK);
                assert_memory_equal(threads[t].logits[k], cera_session_logits(s),
                                    sizeof threads[t].logits[k]);
                cera_session_free(s);
            }
        cera_engine_close(alone);
        end(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beginnings_are_reused),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(kv_type_needs_whole_blocks),
        cmocka_unit_test(kv_types_are_near),
        cmocka_unit_test(the_budget_is_kept),
        cmocka_unit_test(a_window_bounds_memory),
        cmocka_unit_test(a_fork_shares_memory),
        cmocka_unit_test(a_session_more_is_a_page),
        cmocka_unit_test(tokens_allocate_nothing),
        cmocka_unit_test(failed_allocations_change_nothing),
        cmocka_unit_test(threads_share_what_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A backend: a device that runs graphs. One function table per backend; backend.def lists them.
 *
 * Entries that only a device with memory of its own needs (mapping, packing, reading and writing
 * buffers, waiting) join the table with the first such device. */
#ifndef CR_BACKEND_H
#define CR_BACKEND_H

#include "graph/adapt.h"

typedef struct cr_backend cr_backend;
typedef struct cr_plan cr_plan;

typedef struct cr_backend_options {
    int n_threads;
    const char *tier; /* highest ISA level; NULL: the best */
    size_t prefetch;  /* how far ahead weights are asked for, in bytes; 0: what the device wants */
} cr_backend_options;

/* One sequence of a batch: what it brings, and where its results go. Nothing in it is another
 * sequence's, and its results do not depend on the others. */
typedef struct cr_batch_seq {
    int n_past;            /* positions that are computed already */
    int n_rows;            /* new ones, at least 1: positions n_past, n_past + 1, ... */
    const int32_t *tokens; /* [n_rows], each below n_vocab */
    /* Of each cache group of the graph, [ceil((n_past + n_rows) / CR_PAGE)] pages. Those that the
     * group's window has passed may be NULL. */
    void *const *const *pages;
    const float *state_in; /* recurrent state, [graph->state_floats] */
    float *state_out;      /* the new one; another buffer than state_in */
    /* Where states go that hold at the ends of pages, from page n_past / CR_PAGE on: an entry for
     * each page that these rows complete, or NULL for one that nobody wants. NULL: none is wanted.
     * Only for graphs with states_at_pages. */
    float *const *page_states;

    const cr_adaptation *adapt; /* what adapters add, or NULL */
    float *reduced; /* [n_rows][adapt->row_floats], room for the run; NULL where that is nothing */

    int n_logits;  /* so many of the last rows want logits */
    float *logits; /* [n_logits][n_vocab] */
    float *hidden; /* [n_rows][n_embd] after the final norm, or NULL */

    const atomic_int *cancel; /* non-zero asks for an early end of the whole run; or NULL */
} cr_batch_seq;

/* What one run computes: some rows of some sequences. A sequence is in it once. */
typedef struct cr_batch {
    const cr_batch_seq *seqs;
    int n_seqs;
    int n_rows; /* the sum of theirs */
} cr_batch;

typedef struct cr_plan_options {
    int max_rows;    /* of a batch, of all its sequences together */
    cr_type kv_type; /* F16, F32 or Q8_0 */
} cr_plan_options;

typedef struct cr_backend_info {
    const char *name; /* "cpu" */
    const char *tier;
    int n_threads;
} cr_backend_info;

typedef struct cr_backend_api {
    const char *name;
    cera_status (*open)(cr_host *host, const cr_backend_options *options, cr_backend **out,
                        cera_error *err);
    void (*close)(cr_backend *backend);
    void (*info)(const cr_backend *backend, cr_backend_info *out);
    /* Of the bits that it computes for the graph (docs/numerics.md): another number whenever any of
     * them, or what a page or a state holds, would be others. */
    uint32_t (*numerics)(const cr_backend *backend, const cr_graph *graph);

    /* Memory for pages and recurrent state. NULL when there is none. */
    void *(*buf_new)(cr_backend *backend, size_t size);
    void (*buf_free)(cr_backend *backend, void *buf, size_t size);

    /* Copies positions [0, n) of a page of a cache group: keys and values of all its layers.
     * Whoever computes at other positions of `src` meanwhile is not disturbed. */
    void (*page_copy)(cr_backend *backend, const cr_graph *graph, int group, cr_type kv_type,
                      void *dst, const void *src, int n);
    /* The same, to where and from where nothing is between them, which is how files have them: for
     * each layer of the group keys [n_head_kv][n][head_dim], then values. cr_page_bytes has the
     * size. */
    void (*page_pack)(cr_backend *backend, const cr_graph *graph, int group, cr_type kv_type,
                      void *packed, const void *page, int n);
    void (*page_unpack)(cr_backend *backend, const cr_graph *graph, int group, cr_type kv_type,
                        void *page, const void *packed, int n);

    /* Copies one position of a page: keys and values of position `from` of src to position `to` of
     * dst, both modulo CR_PAGE, the keys turned to what they would be at `to`. */
    void (*page_turn)(cr_backend *backend, const cr_graph *graph, int group, cr_type kv_type,
                      void *dst, int to, const void *src, int from);

    /* Can this op run here? CERA_E_UNSUPPORTED naming op and tensor when not. */
    cera_status (*supports)(const cr_backend *backend, const cr_op *op, cera_error *err);

    /* A plan for a graph whose ops are all supported. The graph is kept. All memory that running
     * needs is allocated here. */
    cera_status (*plan_new)(cr_backend *backend, const cr_graph *graph,
                            const cr_plan_options *options, cr_plan **out, cera_error *err);
    /* Runs a batch. On CERA_E_CANCELLED the outputs and state_out hold nothing of use, and cache
     * positions at n_past and above may have been written; nothing else has changed, so sequences
     * that did not ask for it can be run again. One run at a time. */
    cera_status (*plan_run)(cr_plan *plan, const cr_batch *batch, cera_error *err);
    /* Measures what bounds the plan's speed. Not during a run. */
    cera_status (*plan_roofline)(cr_plan *plan, cera_roofline *out, cera_error *err);
    /* The best cr_backend_options.prefetch for the plan's weights: see cera_engine_tune. */
    cera_status (*plan_tune)(cr_plan *plan, size_t *out, cera_error *err);
    void (*plan_free)(cr_plan *plan);
} cr_backend_api;

extern const cr_backend_api cr_backend_cpu;

#endif

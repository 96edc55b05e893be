/* An adapter that fits a model, and lists of them as a backend takes them.
 *
 *     content (file/adapter_file.h) --fitted to--> model = adapter
 *     [ (adapter, scale), ... ]             = adaptation (graph/adapt.h)
 *
 * An adapter has its own copy of its matrices, laid out for the kernels; its file may go. The
 * weights of the model are never touched, and neither architectures nor ops know of adapters: what
 * can be adapted is every projection of the graph, by the name of its tensor. */
#ifndef CR_ADAPTER_H
#define CR_ADAPTER_H

#include "base/digest.h"
#include "file/adapter_file.h"
#include "graph/adapt.h"
#include "model/model.h"

enum {
    CR_MAX_RANK = 4096,
    CR_MAX_ADAPTERS = 64, /* in a list */
};

typedef struct cr_adapter {
    atomic_int n_holders;
    cr_arena arena;
    const cr_model *model;
    cr_delta *deltas;         /* [n_slots] */
    const float **directions; /* [n_layer] each [n_embd] or NULL; NULL: it is no control vector */
    cr_digest digest;         /* of all of it */
    cera_adapter_info info;
} cr_adapter;

/* Fits it to the model, which is kept. Fails with CERA_E_UNSUPPORTED naming the architecture or the
 * tensor that cannot be adapted, CERA_E_FORMAT naming the tensor and both shapes, or what is not
 * finite. */
cera_status cr_adapter_new(const cr_model *model, cr_host *host, const cr_adapter_content *content,
                           cr_adapter **out, cera_error *err);
/* It has one holder to begin with, and goes with the last. */
void cr_adapter_retain(cr_adapter *adapter);
void cr_adapter_release(cr_adapter *adapter); /* NULL is nothing */

/* An adapter in a list. */
typedef struct cr_adapter_use {
    cr_adapter *adapter;
    float scale;
    int first_layer, last_layer; /* of a control vector's directions, those in this range */
} cr_adapter_use;

/* What the uses [n] add up to, on one arena; adapters are kept. NULL when that is nothing: all of
 * it has the scale 0. *digest tells adaptations apart. */
cera_status cr_adaptation_new(const cr_model *model, cr_arena *arena, const cr_adapter_use *uses,
                              size_t n, const cr_adaptation **out, cr_digest *digest,
                              cera_error *err);

#endif

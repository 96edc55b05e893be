/* Hyper-parameters from metadata: typed reading of "<architecture>.<key>" with a range.
 *
 * Every number that later becomes a size, a divisor or a loop bound is range-checked here, where it
 * is read, and the error names the key. */
#ifndef CR_KEYS_H
#define CR_KEYS_H

#include "file/gguf.h"
#include "model/hparams.h"

typedef struct cr_keys {
    const cr_gguf *file;
    const char *prefix; /* the architecture's name */
    cera_error *err;
} cr_keys;

/* An integer in [min, max]. An absent optional key leaves *out alone. */
cera_status cr_keys_int(const cr_keys *keys, const char *key, cr_need need, int min, int max,
                        int *out);
/* True or false. */
cera_status cr_keys_bool(const cr_keys *keys, const char *key, cr_need need, bool *out);
/* A finite number above 0. */
cera_status cr_keys_positive(const cr_keys *keys, const char *key, cr_need need, float *out);

/* A finite number of at least 0; an absent key leaves *out alone. */
cera_status cr_keys_not_negative(const cr_keys *keys, const char *key, float *out);

/* A key that holds one integer for all layers, or an array with one for each of n. */
cera_status cr_keys_int_per_layer(const cr_keys *keys, const char *key, cr_need need, int min,
                                  int max, int *out, int n);

/* Everything about the rotation but its dimensions (cr_keys_decoder has read those): base, scaling.
 * `base` is that of files without the key; 0: the key is required. */
cera_status cr_keys_rope(const cr_keys *keys, cr_rope_style style, float base, cr_rotary *rope);

/* The temperature of a model whose scores grow with the position. After cr_keys_rope, whose first
 * context is its length unless the file has another. */
cera_status cr_keys_temperature(const cr_keys *keys, cr_hparams *hp);

/* The windows of a model in which some layers see only their last positions. `period` p: of p
 * layers the last one sees all; 1: every layer does; 0: none does. The file may have its own, or a
 * list. */
cera_status cr_keys_windows(const cr_keys *keys, int window, int period, cr_hparams *hp);

/* The keys that every decoder has: sizes, heads, context, norm epsilon. The scales become what most
 * have; experts, clamped values, attention in both directions and embeddings of another width are
 * refused. min_head_kv is 0 where a layer may have no attention. */
cera_status cr_keys_decoder(const cr_keys *keys, int min_head_kv, cr_hparams *hp);

/* The same for an architecture that may have experts, or must (`need`), and the keys about those.
 * hp->routing.gating is that of files that do not say. A shared expert is left to the caller. */
cera_status cr_keys_routed_decoder(const cr_keys *keys, int min_head_kv, cr_need need,
                                   cr_hparams *hp);

/* The same for a model without attention and feed-forward: sizes, context, norm epsilon. */
cera_status cr_keys_model(const cr_keys *keys, cr_hparams *hp);

/* granite's four scales. */
cera_status cr_keys_scales(const cr_keys *keys, cr_need logit_scale, cr_hparams *hp);

/* The shape of a state-space mixer and the taps of its convolution; hp->n_layer is known. */
cera_status cr_keys_ssm(const cr_keys *keys, cr_hparams *hp);

/* Refuses a file that asks for something this architecture file does not do: the key may be absent
 * or have the neutral value. */
cera_status cr_keys_refuse_number(const cr_keys *keys, const char *key, double neutral);

#endif

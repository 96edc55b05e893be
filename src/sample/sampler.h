/* Choosing the next token from logits.
 *
 * Order: bias, repetition penalty, temperature, top-k, top-p, min-p, draw. The generator is
 * xoshiro256** seeded through SplitMix64, one draw per sampled token, so that a seed means the same
 * text on every machine that computes the same logits. */
#ifndef CR_SAMPLER_H
#define CR_SAMPLER_H

#include "base/host.h"

typedef struct cr_sampler cr_sampler;

/* Validates the options (CERA_E_ARG names the field) and allocates all that sampling needs. */
cera_status cr_sampler_new(cr_host *host, size_t n_vocab, const cera_generate_options *options,
                           cr_sampler **out, cera_error *err);
void cr_sampler_free(cr_sampler *sampler);

/* Forbids a token (ignore_eos). */
void cr_sampler_ban(cr_sampler *sampler, int32_t id);

/* The next token for logits[n_vocab], which are not changed. CERA_E_FORMAT when no logit is finite,
 * CERA_E_ARG when the bias bans every token that has a finite one. */
cera_status cr_sampler_next(cr_sampler *sampler, const float *logits, int32_t *id, cera_error *err);

/* The largest logit: NaN never wins, the lowest id among equals; -1 when there is none. */
int32_t cr_argmax(const float *logits, size_t n);

/* log softmax of `id`, and the n_top largest in descending order. top may be NULL with n_top 0. */
float cr_logprobs(const float *logits, size_t n, int32_t id, cera_logprob *top, int n_top);

#endif

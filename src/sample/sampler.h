/* Choosing the next token from logits: see cera_generate_options.
 *
 * The generator is xoshiro256** seeded through SplitMix64, one draw per sampled token and one
 * before it with XTC, so that a seed means the same text on every machine that computes the same
 * logits. */
#ifndef CR_SAMPLER_H
#define CR_SAMPLER_H

#include "base/host.h"

typedef struct cr_sampler cr_sampler;

/* Validates the options (CERA_E_ARG names the field) and allocates all that sampling needs, for a
 * history of at most n_context tokens. */
cera_status cr_sampler_new(cr_host *host, size_t n_vocab, size_t n_context,
                           const cera_generate_options *options, cr_sampler **out, cera_error *err);
void cr_sampler_free(cr_sampler *sampler);

/* Forbids a token (ignore_eos). */
void cr_sampler_ban(cr_sampler *sampler, int32_t id);

/* With DRY: tokens that end a repeated sequence. */
bool cr_sampler_wants_breakers(const cr_sampler *sampler);
void cr_sampler_break(cr_sampler *sampler, int32_t id);

/* The next token for logits[n_vocab], which are not changed, behind history[n_history], which only
 * grows from call to call; `allowed` has a bit for each token that may be chosen, NULL: all.
 * CERA_E_FORMAT when no logit is finite, CERA_E_ARG when none of a token is that is allowed and not
 * banned. */
cera_status cr_sampler_next(cr_sampler *sampler, const float *logits, const uint64_t *allowed,
                            const int32_t *history, size_t n_history, int32_t *id, cera_error *err);

/* Tokens [first, first + n) are about to be dropped from the history. */
void cr_sampler_drop(cr_sampler *sampler, const int32_t *history, size_t first, size_t n);

/* The largest logit: NaN never wins, the lowest id among equals; -1 when there is none. */
int32_t cr_argmax(const float *logits, size_t n);

/* log softmax of `id`, and the n_top largest in descending order. top may be NULL with n_top 0. */
float cr_logprobs(const float *logits, size_t n, int32_t id, cera_logprob *top, int n_top);

#endif

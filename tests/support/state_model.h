/* Toy models with every kind of state, small enough to be computed again and again: "llama" sees
 * everything, "lfm2" has short convolutions, "gemma3" a window of 70 in every other layer, "phi3" a
 * window of 100 in all. Vocabulary of TOY_N_VOCAB. */
#ifndef STATE_MODEL_H
#define STATE_MODEL_H

#include "support/fault_host.h"
#include "support/toy_model.h"

#include "cera.h"

enum { STATE_N_MODELS = 4 };
extern const char *const state_models[STATE_N_MODELS];

/* Starts *out; seed: of the weights. */
void state_model_build(const char *arch, int n_context, uint64_t seed, gguf_build *out);
/* A failure of the test when it cannot be opened; options may be NULL. */
cera_engine *state_model_open(const gguf_build *file, const cera_engine_options *options);
/* Of an engine whose sessions are gone: nothing is in use, and the host gave and took alike. Closes
 * it and ends the host and the model. */
void state_end(cera_engine *engine, fault_host *host, gguf_build *file);
/* With the files in it, if it is there. */
void state_remove_folder(const char *path);
/* The same n pseudo-random ids for the same seed. */
void state_ids(uint32_t seed, int32_t *ids, size_t n);
/* n greedy tokens, end tokens never chosen. */
cera_summary state_generate(cera_session *s, int n);
/* Position, history and logits are the same, to the bit. */
void state_assert_equal(const cera_session *a, const cera_session *b);

#endif

/* The small model of this repository under test: opening it, recording what it generates, and
 * comparing sessions bit by bit.
 *
 * Two sessions that went through the same calls are twins: same position, same history, the same
 * bits in their logits, and the same tokens from there on. A test that disturbs one of them (a
 * cancel, a failure) and finds them still twins has shown that nothing was left behind. */
#ifndef TINY_H
#define TINY_H

#include "cera.h"

#include "session/session.h"

/* Facts of tiny.gguf; models/README.md has them too. */
enum {
    TINY_VOCAB = 1024,
    TINY_CONTEXT = 1024,
    TINY_BOS = 1,
    TINY_EOS = 2,
    TINY_IM_START = 3,
    TINY_IM_END = 4,
    TINY_PROMPT = 25, /* tokens of the prompt below */
};

/* A prompt that the model goes on from for longer than 64 tokens. As ids it is what the tokenizers
 * library makes of it (tests/data/tiny.golden.json). */
extern const char tiny_prompt[];
extern const int32_t tiny_prompt_ids[TINY_PROMPT];

cera_source tiny_source(void);
/* With a failure of the test when it cannot be opened. Nothing is reused, so that two sessions that
 * are compared have both been computed; test_prefix.c is about what is reused. */
cera_engine *tiny_open(const cera_engine_options *options);
cera_session *tiny_new(cera_engine *engine, int context_size);
/* What a session of this engine works with, for tests that put something of their own in it. */
cr_session_env tiny_env(cera_engine *engine);

/* Text as it is, with control tokens. */
void tiny_append(cera_session *session, const char *text);
/* n pseudo-random ids without control tokens; the same for the same seed. */
void tiny_ids(uint32_t seed, int32_t *ids, size_t n);

/* ---- generating -------------------------------------------------------------------------- */

/* What a sink received. Set the limits before, read the rest after. */
typedef struct tiny_record {
    int stop_at_text;     /* the n-th on_text returns non-zero; 0: never */
    int stop_at_token;    /* the n-th on_token does */
    cera_session *cancel; /* on_token number cancel_at cancels this session */
    int cancel_at;

    char text[16384]; /* NUL-terminated */
    size_t size;
    int n_texts;
    int32_t ids[TINY_CONTEXT];
    float logprobs[TINY_CONTEXT];
    int n_tokens;
    bool broken; /* a piece was empty or not whole UTF-8 characters */
} tiny_record;

cera_sink tiny_sink(tiny_record *record);

/* Greedy, n tokens, end tokens never chosen. */
cera_generate_options tiny_greedy(int n);
/* Generates into the record, cleared but for its limits; a failure fails the test. */
cera_summary tiny_generate(cera_session *session, const cera_generate_options *options,
                           tiny_record *record);

/* ---- comparing --------------------------------------------------------------------------- */

typedef struct tiny_snapshot {
    size_t position;
    int32_t history[TINY_CONTEXT];
    bool has_logits;
    float logits[TINY_VOCAB];
} tiny_snapshot;

void tiny_take(const cera_session *session, tiny_snapshot *out);
/* Position, history and logits are those of the snapshot, to the bit. */
void tiny_assert_at(const cera_session *session, const tiny_snapshot *snapshot);
/* As far as can be told without moving: the same position, history and logits. */
void tiny_assert_equal(const cera_session *a, const cera_session *b);
/* Also after 6 more greedy tokens, or as many as the context has room for. Moves both. */
void tiny_assert_twins(cera_session *a, cera_session *b);

#endif

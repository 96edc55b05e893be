/* The small model under test. */
#include "support/tiny.h"

#include "api/objects.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

const char tiny_prompt[] =
    "<|startoftext|><|im_start|>user\nTell me a story about a fox and a lost "
    "key.<|im_end|>\n<|im_start|>assistant\n";
const int32_t tiny_prompt_ids[TINY_PROMPT] = {
    1,   3,   560, 280, 203, 402, 368, 261, 341, 364, 261, 722, 286,
    261, 712, 730, 93,  18,  4,   203, 3,   858, 648, 469, 203,
};

cera_source tiny_source(void)
{
#ifdef CERA_BUILTIN_MODEL
    return (cera_source){ .path = "builtin:tiny" };
#else
    return (cera_source){ .path = CERA_TEST_MODELS "/tiny.gguf" };
#endif
}

cera_engine *tiny_open(const cera_engine_options *options)
{
    cera_engine *engine = NULL;
    cera_error err;
    cera_source source = tiny_source();
    cera_engine_options plain;
    cera_engine_options_init(&plain);
    if (options)
        plain = *options;
    plain.no_reuse = true;
    if (cera_engine_open_source(&source, &plain, &engine, &err) != CERA_OK)
        fail_msg("%s", err.message);
    return engine;
}

cera_session *tiny_new(cera_engine *engine, int context_size)
{
    cera_session_options options;
    cera_session_options_init(&options);
    options.context_size = context_size;
    cera_session *session = NULL;
    cera_error err;
    if (cera_session_new(engine, &options, &session, &err) != CERA_OK)
        fail_msg("%s", err.message);
    return session;
}

cr_session_env tiny_env(cera_engine *engine)
{
    return cr_engine_env(engine->core);
}

void tiny_append(cera_session *session, const char *text)
{
    cera_error err;
    cera_input input = { .text = text, .parse_special = true };
    if (cera_session_append(session, &input, &err) != CERA_OK)
        fail_msg("%s", err.message);
}

void tiny_ids(uint32_t seed, int32_t *ids, size_t n)
{
    enum { FIRST = TINY_IM_END + 1 };
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        ids[i] = FIRST + (int32_t)((seed >> 8) % (TINY_VOCAB - FIRST));
    }
}

/* ---- generating -------------------------------------------------------------------------- */

static bool is_whole_utf8(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t length = cr_utf8_decode(text + i, n - i, &code);
        if (length == 0)
            return false;
        i += length;
    }
    return n > 0;
}

static int on_text(void *user, const char *text, size_t n)
{
    tiny_record *record = user;
    record->broken = record->broken || !is_whole_utf8(text, n);
    if (n < sizeof record->text - record->size) {
        memcpy(record->text + record->size, text, n);
        record->size += n;
        record->text[record->size] = '\0';
    }
    return ++record->n_texts == record->stop_at_text;
}

static int on_token(void *user, const cera_token_info *token)
{
    tiny_record *record = user;
    if (record->n_tokens < TINY_CONTEXT) {
        record->ids[record->n_tokens] = token->id;
        record->logprobs[record->n_tokens] = token->logprob;
    }
    record->n_tokens++;
    if (record->n_tokens == record->cancel_at)
        cera_session_cancel(record->cancel);
    return record->n_tokens == record->stop_at_token;
}

cera_sink tiny_sink(tiny_record *record)
{
    return (cera_sink){ .on_text = on_text, .on_token = on_token, .user = record };
}

cera_generate_options tiny_greedy(int n)
{
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.max_tokens = n;
    options.temperature = 0;
    options.ignore_eos = true;
    return options;
}

cera_summary tiny_generate(cera_session *session, const cera_generate_options *options,
                           tiny_record *record)
{
    tiny_record unseen = { .n_tokens = 0 };
    record = record ? record : &unseen;
    record->text[0] = '\0';
    record->size = 0;
    record->n_texts = record->n_tokens = 0;
    record->broken = false;

    size_t before = cera_session_position(session);
    cera_sink sink = tiny_sink(record);
    cera_summary summary;
    cera_error err;
    if (cera_session_generate(session, options, &sink, &summary, &err) != CERA_OK)
        fail_msg("%s", err.message);

    /* What holds for every generation. */
    assert_false(record->broken);
    assert_int_equal(record->n_tokens, summary.n_generated);
    size_t n;
    const int32_t *history = cera_session_history(session, &n);
    assert_int_equal(n, before + summary.n_generated);
    for (size_t i = 0; i < summary.n_generated; i++)
        assert_int_equal(history[before + i], record->ids[i]);
    return summary;
}

/* ---- comparing --------------------------------------------------------------------------- */

void tiny_take(const cera_session *session, tiny_snapshot *out)
{
    const int32_t *history = cera_session_history(session, &out->position);
    assert_true(out->position <= TINY_CONTEXT);
    memcpy(out->history, history, out->position * sizeof *history);
    const float *logits = cera_session_logits(session);
    out->has_logits = logits != NULL;
    if (logits)
        memcpy(out->logits, logits, sizeof out->logits);
}

void tiny_assert_at(const cera_session *session, const tiny_snapshot *snapshot)
{
    size_t n;
    const int32_t *history = cera_session_history(session, &n);
    assert_int_equal(n, snapshot->position);
    assert_int_equal(cera_session_position(session), snapshot->position);
    assert_memory_equal(history, snapshot->history, n * sizeof *history);
    const float *logits = cera_session_logits(session);
    assert_int_equal(logits != NULL, snapshot->has_logits);
    if (logits)
        assert_memory_equal(logits, snapshot->logits, sizeof snapshot->logits);
}

void tiny_assert_equal(const cera_session *a, const cera_session *b)
{
    tiny_snapshot snapshot;
    tiny_take(a, &snapshot);
    tiny_assert_at(b, &snapshot);
}

void tiny_assert_twins(cera_session *a, cera_session *b)
{
    tiny_assert_equal(a, b);
    if (!cera_session_logits(a))
        return;
    cera_generate_options options = tiny_greedy(6);
    tiny_record from_a = { .n_tokens = 0 }, from_b = { .n_tokens = 0 };
    tiny_generate(a, &options, &from_a);
    tiny_generate(b, &options, &from_b);
    assert_string_equal(from_a.text, from_b.text);
    tiny_assert_equal(a, b);
}

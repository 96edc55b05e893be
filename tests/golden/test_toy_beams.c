/* Beam search made of forks and logits alone, against that of transformers: the same texts in the
 * same order, the same probabilities.
 *
 * A beam is a session. A step ranks the continuations of all beams by the logarithm of the whole
 * text's probability; each of the best becomes a fork of the beam that it continues, by one
 * token. */
#include "golden/toy.h"

enum { N_BEAMS = 4, N_TOKENS = 8 };

typedef struct beam {
    cera_session *session;
    double score;
} beam;

/* Token `id` behind beam number `from`. */
typedef struct candidate {
    int from;
    int32_t id;
    double score;
} candidate;

/* What the scores of continuations are off from logits by. */
static double log_sum(const float *logits, int n_vocab)
{
    double most = logits[golden_top(logits, (size_t)n_vocab)], sum = 0;
    for (int i = 0; i < n_vocab; i++)
        sum += exp((double)logits[i] - most);
    return most + log(sum);
}

/* The best continuations of all beams, best first; returns their number. */
static int rank(const beam *beams, int n, int n_vocab, candidate *best)
{
    int n_best = 0;
    for (int from = 0; from < n; from++) {
        const float *logits = cera_session_logits(beams[from].session);
        double base = beams[from].score - log_sum(logits, n_vocab);
        for (int32_t id = 0; id < n_vocab; id++) {
            candidate c = { from, id, base + (double)logits[id] };
            int at = n_best < N_BEAMS ? n_best++ : N_BEAMS;
            for (; at > 0 && best[at - 1].score < c.score; at--) {
                if (at < N_BEAMS)
                    best[at] = best[at - 1];
            }
            if (at < N_BEAMS)
                best[at] = c;
        }
    }
    return n_best;
}

static int step(beam *beams, int n, int n_vocab)
{
    candidate best[N_BEAMS];
    beam next[N_BEAMS];
    int n_next = rank(beams, n, n_vocab, best);
    for (int i = 0; i < n_next; i++) {
        next[i].score = best[i].score;
        cera_session *from = beams[best[i].from].session;
        assert_int_equal(cera_session_fork(from, &next[i].session, NULL), CERA_OK);
        assert_int_equal(cera_session_append_ids(next[i].session, &best[i].id, 1, NULL), CERA_OK);
    }
    for (int i = 0; i < n; i++)
        cera_session_free(beams[i].session);
    memcpy(beams, next, sizeof next);
    return n_next;
}

/* A text's probability as the library gives it, computed from its first token. */
static double score_of(cera_engine *engine, const int32_t *prompt, size_t n, const int32_t *text)
{
    cera_session *s = golden_session(engine);
    golden_append(s, prompt, n);
    float logprobs[N_TOKENS];
    assert_int_equal(cera_session_score(s, text, N_TOKENS, logprobs, NULL), CERA_OK);
    double sum = 0;
    for (int i = 0; i < N_TOKENS; i++)
        sum += (double)logprobs[i];
    cera_session_free(s);
    return sum;
}

static void search(const json_t *model)
{
    toy_spec spec = read_spec(model);
    gguf_build file;
    toy_build(&spec, &file);
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.kv_type = CERA_KV_F32;
    cera_source source = { .data = file.data, .n_data = file.size };
    cera_engine *engine;
    assert_int_equal(cera_engine_open_source(&source, &options, &engine, NULL), CERA_OK);
    size_t n_prompt, n, n_text;
    int32_t *prompt = golden_ids(golden, "ids", &n_prompt);
    beam beams[N_BEAMS] = { { .session = golden_session(engine) } };
    golden_append(beams[0].session, prompt, n_prompt);
    int n_beams = 1;
    for (int i = 0; i < N_TOKENS; i++)
        n_beams = step(beams, n_beams, TOY_N_VOCAB);

    const json_t *wanted = golden_get(model, "beams");
    assert_int_equal(n_beams, json_array_size(wanted));
    for (int i = 0; i < n_beams; i++) {
        const json_t *want = json_array_get(wanted, (size_t)i);
        int32_t *ids = golden_ids(want, "ids", &n_text);
        const int32_t *text = cera_session_history(beams[i].session, &n) + n_prompt;
        assert_int_equal(n, n_prompt + n_text);
        assert_memory_equal(text, ids, n_text * sizeof *ids);
        double score = golden_number(want, "score");
        assert_true(fabs(beams[i].score - score) < 1e-3);
        assert_true(fabs(score_of(engine, prompt, n_prompt, text) - score) < 1e-3);
        free(ids);
        cera_session_free(beams[i].session);
    }
    free(prompt);
    cera_engine_close(engine);
    build_done(&file);
}

static void beams_are_those_of_transformers(void **state)
{
    (void)state;
    golden = golden_load("golden-beams.json");
    size_t i;
    json_t *model;
    json_array_foreach (golden_get(golden, "models"), i, model)
        search(model);
    assert_true(i >= 2);
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beams_are_those_of_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

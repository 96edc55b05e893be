/* What the golden tests share: reading their JSON, and distances to the reference. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "cera.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bounds of a difference, as a share of the standard deviation of the reference's values. They are
 * never raised to make a test pass.
 *
 * Random models (test_toy_logits): of the largest difference. */
#define GOLDEN_FLOAT 0.005 /* weights that are floats */
#define GOLDEN_INT8 0.06   /* quantised weights: activations become 8-bit integers */
/* The same where an architecture makes errors larger: b * x and c * y of lfm2 multiply them, and
 * norms after a branch bring a small branch with its error up to size. Rounding to int8 simulated
 * in float32 moves the logits of olmo2-q4_0 by up to 7.9 %, those of llama-q4_0 by 5.7 %. */
#define GOLDEN_INT8_WIDE 0.12
/* Real models of many layers: of the standard deviation of the differences, all texts together.
 * Rounding to int8 moves some logit out of 49,152 by five or ten times that, and all of them
 * together by a shift that changes no probability: a simulation of the rounding in float32 does the
 * same, and so does llama.cpp (SmolLM2: largest difference 18 to 37 %, deviation 3.7 to 5.5 %). */
#define GOLDEN_INT8_RMS 0.06
/* And of one text, as a multiple of what the simulation gives for it. */
#define GOLDEN_INT8_EXPECTED 1.5
/* One value out of few, after that shift: four deviations. */
#define GOLDEN_INT8_ONE (4 * GOLDEN_INT8_RMS)
/* The reference's lead of one logit over another below which the order may turn: the difference of
 * two values, three deviations. */
#define GOLDEN_INT8_GAP (3 * 1.4142 * GOLDEN_INT8_RMS)

static inline json_t *golden_load(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", CERA_TEST_DATA, name);
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (!root)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    return root;
}

static inline json_t *golden_get(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!value)
        fail_msg("golden values: \"%s\" is missing", key);
    return value;
}

static inline double golden_number(const json_t *object, const char *key)
{
    return json_number_value(golden_get(object, key));
}

static inline int golden_int(const json_t *object, const char *key)
{
    return (int)json_integer_value(golden_get(object, key));
}

static inline const char *golden_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(golden_get(object, key));
    assert_non_null(text);
    return text;
}

/* A list of numbers; release both kinds with free. */
static inline float *golden_floats(const json_t *object, const char *key, size_t *n)
{
    const json_t *list = golden_get(object, key);
    *n = json_array_size(list);
    float *out = malloc((*n + 1) * sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < *n; i++)
        out[i] = (float)json_number_value(json_array_get(list, i));
    return out;
}

static inline int32_t *golden_ids(const json_t *object, const char *key, size_t *n)
{
    const json_t *list = golden_get(object, key);
    *n = json_array_size(list);
    int32_t *out = malloc((*n + 1) * sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < *n; i++)
        out[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return out;
}

/* The index of the largest, the lowest among equals. */
static inline size_t golden_top(const float *x, size_t n)
{
    size_t top = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[top])
            top = i;
    return top;
}

static inline double golden_max_difference(const float *x, const float *y, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)x[i] - (double)y[i]);
        if (!(difference <= most)) /* NaN too */
            most = difference;
    }
    return most;
}

/* Differences from the reference: their mean, their deviation around it, the largest. */
typedef struct golden_noise {
    double shift, rms, max;
} golden_noise;

static inline golden_noise golden_noise_of(const float *got, const float *want, size_t n)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - (double)want[i];
        sum += d;
        squares += d * d;
    }
    golden_noise noise = { .shift = sum / (double)n, .max = golden_max_difference(got, want, n) };
    noise.rms = sqrt(fmax(squares / (double)n - noise.shift * noise.shift, 0));
    return isfinite(squares) ? noise : (golden_noise){ NAN, NAN, NAN };
}

/* Picks the logits that a list of [id, logit] names: what was computed and what is wanted. Release
 * both with one free of *got. */
static inline size_t golden_pairs(const json_t *pairs, const float *logits, float **got,
                                  float **want)
{
    size_t n = json_array_size(pairs);
    *got = malloc((2 * n + 1) * sizeof **got);
    assert_non_null(*got);
    *want = *got + n;
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(pairs, i);
        (*got)[i] = logits[json_integer_value(json_array_get(pair, 0))];
        (*want)[i] = (float)json_number_value(json_array_get(pair, 1));
    }
    return n;
}

/* The largest difference of such a list, after taking off a shift of all logits. */
static inline double golden_pairs_difference(const json_t *pairs, const float *logits, double shift)
{
    float *got, *want;
    size_t n = golden_pairs(pairs, logits, &got, &want);
    for (size_t i = 0; i < n; i++)
        got[i] -= (float)shift;
    double most = golden_max_difference(got, want, n);
    free(got);
    return most;
}

/* Log-probability of `id`. */
static inline double golden_logprob(const float *logits, size_t n, int32_t id)
{
    double max = (double)logits[golden_top(logits, n)], sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    return (double)logits[id] - max - log(sum);
}

static inline cera_session *golden_session(cera_engine *engine)
{
    cera_error err = { 0 };
    cera_session *session = NULL;
    if (cera_session_new(engine, NULL, &session, &err) != CERA_OK)
        fail_msg("%s", err.message);
    return session;
}

static inline const float *golden_append(cera_session *session, const int32_t *ids, size_t n)
{
    cera_error err = { 0 };
    cera_input input = { .ids = ids, .n_ids = n };
    if (cera_session_append(session, &input, &err) != CERA_OK)
        fail_msg("%s", err.message);
    const float *logits = cera_session_logits(session);
    assert_non_null(logits);
    return logits;
}

#endif

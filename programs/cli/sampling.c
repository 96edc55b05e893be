/* From the command line to cera_generate_options. */
#define _DEFAULT_SOURCE
#include "cli/sampling.h"

#include "cli/inputs.h"
#include "cli/report.h"
#include "common/bytes.h"
#include "common/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The library's limits, checked here so that an error names the option. */
enum { MAX_STOPS = 16, MAX_STOP_SIZE = 256, MAX_BIASES = 1024, MAX_BREAKERS = 16 };

/* A value that its option does not take, under the name that was typed. */
static int bad_value(const char *name, const char *text, const char *why, const char *hint)
{
    bytes what = { 0 };
    bytes_printf(&what, "%s has a value that it does not take: \"%s\"", name, text);
    report_error(EXIT_USAGE, what.data, why, hint);
    bytes_done(&what);
    return EXIT_USAGE;
}

static int too_many(const char *name, size_t most)
{
    bytes what = { 0 }, why = { 0 };
    bytes_printf(&what, "%s is given too often", name);
    bytes_printf(&why, "expected at most %zu", most);
    report_error(EXIT_USAGE, what.data, why.data, NULL);
    bytes_done(&what);
    bytes_done(&why);
    return EXIT_USAGE;
}

static int check_stop(const char *name, const char *text)
{
    size_t size = strlen(text);
    if (size > 0 && size <= MAX_STOP_SIZE)
        return EXIT_OK;
    bytes why = { 0 };
    bytes_printf(&why, "expected a text of 1 to %d bytes, found %zu", MAX_STOP_SIZE, size);
    bad_value(name, text, why.data, NULL);
    bytes_done(&why);
    return EXIT_USAGE;
}

static int parse_bias(const char *name, const char *text, cera_logit_bias *out)
{
    const char *equals = strchr(text, '=');
    bytes id_text = { 0 };
    bytes_append(&id_text, text, equals != NULL ? (size_t)(equals - text) : strlen(text));
    int64_t id = -1;
    double bias = NAN;
    bool good = equals != NULL && number_parse_i64(id_text.data, &id) && id >= 0 &&
                id <= INT32_MAX && number_parse_real(equals + 1, &bias) && !isnan(bias) &&
                (float)bias < INFINITY;
    bytes_done(&id_text);
    if (good) {
        *out = (cera_logit_bias){ (int32_t)id, (float)bias };
        return EXIT_OK;
    }
    return bad_value(name, text, "expected ID=B, a token id and a number (or -inf)",
                     "--logit-bias 42=-inf");
}

static uint64_t random_seed(void)
{
    uint64_t seed;
    if (getentropy(&seed, sizeof(seed)) != 0)
        seed = (uint64_t)getpid() * UINT64_C(0x9E3779B97F4A7C15);
    return seed;
}

/* Names of stages, separated by ; or commas. */
static int parse_samplers(const char *name, const char *text, sampling *out)
{
    static const struct {
        const char *text;
        cera_sampler stage;
    } stages[] = {
#define STAGE(stage, text) { text, stage },
        CERA_SAMPLER_LIST(STAGE)
#undef STAGE
    };
    enum { N_STAGES = sizeof(stages) / sizeof(stages[0]) };
    static const char names[] =
#define STAGE(stage, text) text " "
        CERA_SAMPLER_LIST(STAGE);
#undef STAGE
    out->samplers = bytes_alloc(N_STAGES, sizeof(*out->samplers));
    out->options.samplers = out->samplers;
    bool used[N_STAGES] = { false };
    for (const char *at = text; *at != '\0';) {
        size_t n = strcspn(at, ";,"), i = 0;
        while (i < N_STAGES && (strlen(stages[i].text) != n || memcmp(stages[i].text, at, n) != 0))
            i++;
        if (i == N_STAGES || used[i])
            return bad_value(name, text,
                             i == N_STAGES ? "expected names separated by ;" : "expected each once",
                             names);
        used[i] = true;
        out->samplers[out->options.n_samplers++] = stages[i].stage;
        at += n + (at[n] != '\0');
    }
    return EXIT_OK;
}

/* Numbers go where they belong as they are: the option table has their limits. */
#define AT(field) offsetof(cera_generate_options, field)
static const struct {
    option_id id;
    size_t at;
} reals[] = {
    { OPT_TEMPERATURE, AT(temperature) },
    { OPT_TEMPERATURE_RANGE, AT(temperature_range) },
    { OPT_TEMPERATURE_EXPONENT, AT(temperature_exponent) },
    { OPT_TOP_P, AT(top_p) },
    { OPT_MIN_P, AT(min_p) },
    { OPT_TYPICAL_P, AT(typical_p) },
    { OPT_TOP_N_SIGMA, AT(top_n_sigma) },
    { OPT_XTC_PROBABILITY, AT(xtc_probability) },
    { OPT_XTC_THRESHOLD, AT(xtc_threshold) },
    { OPT_MIROSTAT_TAU, AT(mirostat_tau) },
    { OPT_MIROSTAT_ETA, AT(mirostat_eta) },
    { OPT_REPETITION_PENALTY, AT(repetition_penalty) },
    { OPT_FREQUENCY_PENALTY, AT(frequency_penalty) },
    { OPT_PRESENCE_PENALTY, AT(presence_penalty) },
    { OPT_DRY_MULTIPLIER, AT(dry_multiplier) },
    { OPT_DRY_BASE, AT(dry_base) },
}, integers[] = {
    { OPT_MAX_TOKENS, AT(max_tokens) },
    { OPT_TOP_K, AT(top_k) },
    { OPT_N_KEEP, AT(n_keep) },
    { OPT_PENALTY_WINDOW, AT(penalty_window) },
    { OPT_DRY_ALLOWED_LENGTH, AT(dry_allowed_length) },
    { OPT_DRY_WINDOW, AT(dry_window) },
    { OPT_LOGPROBS, AT(n_logprobs) },
};
#undef AT

static void read_numbers(const cli_args *args, cera_generate_options *out)
{
    for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++) {
        float value = (float)args->option[reals[i].id].real;
        if (is_set(args, reals[i].id))
            memcpy((char *)out + reals[i].at, &value, sizeof(value));
    }
    for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++) {
        int value = (int)args->option[integers[i].id].integer;
        if (is_set(args, integers[i].id))
            memcpy((char *)out + integers[i].at, &value, sizeof(value));
    }
}

static int read_repeated(const cli_args *args, size_t i, sampling *out)
{
    cera_generate_options *options = &out->options;
    const char *text = args->repeated[i].text, *name = args->repeated[i].typed;
    int code = EXIT_OK;
    switch (args->repeated[i].id) {
    case OPT_STOP:
        if (options->n_stop == MAX_STOPS)
            return too_many(name, MAX_STOPS);
        code = check_stop(name, text);
        out->stops[options->n_stop++] = text;
        break;
    case OPT_DRY_BREAKER:
        if (options->n_dry_breakers == MAX_BREAKERS)
            return too_many(name, MAX_BREAKERS);
        options->dry_breakers = out->breakers;
        if (*text == '\0')
            return bad_value(name, text, "expected a text", NULL);
        out->breakers[options->n_dry_breakers++] = text;
        break;
    case OPT_LOGIT_BIAS:
        if (options->n_bias == MAX_BIASES)
            return too_many(name, MAX_BIASES);
        code = parse_bias(name, text, &out->bias[options->n_bias++]);
        break;
    default: /* another one's */
        break;
    }
    return code;
}

int sampling_read(const cli_args *args, sampling *out)
{
    const option_value *values = args->option;
    cera_generate_options *options = &out->options;
    cera_generate_options_init(options);
    out->stops = bytes_alloc(args->n_repeated, sizeof(*out->stops));
    out->breakers = bytes_alloc(args->n_repeated, sizeof(*out->breakers));
    out->bias = bytes_alloc(args->n_repeated, sizeof(*out->bias));
    options->stop = out->stops;
    options->bias = out->bias;
    options->seed = is_set(args, OPT_SEED) ? values[OPT_SEED].seed : random_seed();
    options->ignore_eos = is_set(args, OPT_IGNORE_EOS);
    options->shift = is_set(args, OPT_N_KEEP);
    read_numbers(args, options);
    if (options->temperature_range > fmaxf(options->temperature, 0.0f))
        return bad_value(values[OPT_TEMPERATURE_RANGE].typed, values[OPT_TEMPERATURE_RANGE].text,
                         "expected at most the temperature", NULL);
    int code = EXIT_OK;
    for (size_t i = 0; i < args->n_repeated && code == EXIT_OK; i++)
        code = read_repeated(args, i, out);
    if (code == EXIT_OK && is_set(args, OPT_SAMPLERS))
        code = parse_samplers(values[OPT_SAMPLERS].typed, values[OPT_SAMPLERS].text, out);
    return code;
}

int sampling_check(const cli_args *args, const cera_generate_options *options, int n_vocab)
{
    size_t i_bias = 0;
    for (size_t i = 0; i < args->n_repeated; i++) {
        if (args->repeated[i].id != OPT_LOGIT_BIAS || options->bias[i_bias++].id < n_vocab)
            continue;
        bytes what = { 0 }, why = { 0 };
        bytes_printf(&what, "%s names a token that the model does not have: %s",
                     args->repeated[i].typed, args->repeated[i].text);
        bytes_printf(&why, "expected an id from 0 to %d", n_vocab - 1);
        report_error(EXIT_USAGE, what.data, why.data, NULL);
        bytes_done(&what);
        bytes_done(&why);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

void sampling_tell(const cera_generate_options *options, int level)
{
    cera_generate_options usual;
    cera_generate_options_init(&usual);
    bytes line = { 0 };
    static const option_id always[] = { OPT_TEMPERATURE,        OPT_TOP_K,     OPT_TOP_P, OPT_MIN_P,
                                        OPT_REPETITION_PENALTY, OPT_MAX_TOKENS };
    unsigned char shown[OPT_COUNT] = { 0 };
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
        shown[always[i]] = 1;
    for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++) {
        float value, before;
        memcpy(&value, (const char *)options + reals[i].at, sizeof(value));
        memcpy(&before, (const char *)&usual + reals[i].at, sizeof(before));
        if (shown[reals[i].id] != 0 || value != before)
            bytes_printf(&line, " %s=%g", option_table[reals[i].id].name, (double)value);
    }
    for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++) {
        int value, before;
        memcpy(&value, (const char *)options + integers[i].at, sizeof(value));
        memcpy(&before, (const char *)&usual + integers[i].at, sizeof(before));
        if (shown[integers[i].id] != 0 || value != before)
            bytes_printf(&line, " %s=%d", option_table[integers[i].id].name, value);
    }
    report_note(level, "Sampling:%s seed=%llu", line.data, (unsigned long long)options->seed);
    bytes_done(&line);
}

void sampling_done(sampling *chosen)
{
    free(chosen->stops);
    free(chosen->breakers);
    free(chosen->bias);
    free(chosen->samplers);
}

/* The sampler: options in, one token out per call. A stage is a function; the filters that they
 * call are in filters.c, the penalties in penalties.c.
 *
 *     logits -> + bias -> [ penalties, DRY ] -> [ temperature, filters ] -> draw
 *
 * Dividing by a temperature keeps the order of the logits. So the temperature stage only notes its
 * number, and a top-k behind it spares us the exponentials of all that it drops. */
#include "sample/sampler.h"

#include "sample/exact.h"
#include "sample/filters.h"
#include "sample/penalties.h"
#include "sample/rng.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX_BIAS = 1024, MAX_LOGPROBS = 20 };

enum {
#define COUNT(name, text) +1
    N_STAGES = 0 CERA_SAMPLER_LIST(COUNT)
#undef COUNT
};

struct cr_sampler {
    cr_host *host;
    size_t size; /* bytes of this allocation */
    size_t n_vocab;
    cera_generate_options o; /* its arrays are not kept, but for the two that follow */
    cera_logit_bias *bias;   /* [o.n_bias] */
    cera_sampler stages[N_STAGES];
    int n_stages; /* those that have something to do */
    bool greedy;
    bool has_ban;
    bool has_begun;
    cr_rng rng;
    double mu;        /* of mirostat */
    uint64_t *banned; /* [n_vocab] bits */
    cr_counts counts;
    cr_dry dry;
    /* Of the token that is being chosen. */
    cr_candidates list;
    double temperature; /* what divides the values; they are kept undivided */
    bool is_weighed;    /* the weights are up to date */
    const int32_t *history;
    size_t n_history;
};

static size_t n_words(size_t n_bits)
{
    return (n_bits + 63) / 64;
}

/* ---- stages ------------------------------------------------------------------------------ */

/* A list of those that may still be chosen, with their weights. */
static void want_weights(cr_sampler *sampler)
{
    if (sampler->list.is_whole)
        cr_filter_collect(&sampler->list, sampler->n_vocab, 0);
    if (!sampler->is_weighed && sampler->list.n > 0)
        cr_filter_weigh(&sampler->list, sampler->temperature);
    sampler->is_weighed = true;
}

static void run_penalties(cr_sampler *sampler)
{
    const cera_generate_options *o = &sampler->o;
    size_t from = sampler->counts.from, n = sampler->n_history;
    if (o->penalty_window > 0)
        from = n - CR_MIN(n, (size_t)o->penalty_window);
    cr_counts_move(&sampler->counts, sampler->history, from, n);
    cr_penalty penalty = { o->repetition_penalty, o->frequency_penalty, o->presence_penalty };
    if (sampler->greedy)
        penalty.repetition = 1.0f;
    cr_penalize(&sampler->list, &sampler->counts, &penalty, (float)sampler->temperature);
    sampler->is_weighed = false;
}

static void run_dry(cr_sampler *sampler)
{
    size_t n = sampler->n_history;
    if (sampler->o.dry_window >= 0)
        n = CR_MIN(n, (size_t)sampler->o.dry_window);
    cr_dry_apply(&sampler->dry, &sampler->list, sampler->history + (sampler->n_history - n), n,
                 (float)sampler->temperature);
    sampler->is_weighed = false;
}

static void run_temperature(cr_sampler *sampler)
{
    const cera_generate_options *o = &sampler->o;
    double temperature = (double)o->temperature, range = (double)o->temperature_range;
    if (range > 0.0) {
        want_weights(sampler);
        double most = cr_ln((double)sampler->list.n), share = 0.0;
        if (sampler->list.n > 1)
            share = fmin(fmax(cr_filter_entropy(&sampler->list) / most, 0.0), 1.0);
        if (share > 0.0)
            share = cr_exp_neg((double)o->temperature_exponent * cr_ln(share));
        temperature += range * (2.0 * share - 1.0);
        temperature = fmax(temperature, (double)FLT_MIN); /* range may be all of it */
    }
    sampler->temperature *= temperature;
    sampler->is_weighed = false;
}

static void run_top_k(cr_sampler *sampler)
{
    size_t k = (size_t)sampler->o.top_k;
    if (sampler->list.is_whole)
        cr_filter_collect(&sampler->list, sampler->n_vocab, k);
    cr_filter_top_k(&sampler->list, k);
    sampler->is_weighed = false; /* top-k does not carry them along */
}

static void run_top_n_sigma(cr_sampler *sampler)
{
    if (sampler->list.is_whole)
        cr_filter_collect(&sampler->list, sampler->n_vocab, 0);
    if (sampler->list.n > 0)
        cr_filter_top_n_sigma(&sampler->list, sampler->o.top_n_sigma);
}

static void run_typical(cr_sampler *sampler)
{
    cr_filter_typical(&sampler->list, sampler->o.typical_p);
    sampler->is_weighed = false; /* the heaviest may have gone: another one weighs 1 */
}

static void run_top_p(cr_sampler *sampler)
{
    cr_filter_top_p(&sampler->list, sampler->o.top_p);
}

static void run_min_p(cr_sampler *sampler)
{
    cr_filter_min_p(&sampler->list, sampler->o.min_p);
}

static void run_xtc(cr_sampler *sampler)
{
    if (cr_rng_unit(&sampler->rng) >= (double)sampler->o.xtc_probability)
        return;
    cr_filter_xtc(&sampler->list, sampler->o.xtc_threshold);
    sampler->is_weighed = false;
}

/* Whether a stage has something to do. */
static bool penalties_on(const cera_generate_options *o)
{
    return o->repetition_penalty != 1.0f || o->frequency_penalty != 0.0f ||
           o->presence_penalty != 0.0f;
}

static bool dry_on(const cera_generate_options *o)
{
    return o->dry_multiplier > 0.0f && o->dry_window != 0;
}

static bool temperature_on(const cera_generate_options *o)
{
    return o->temperature != 1.0f || o->temperature_range > 0.0f;
}

static bool top_k_on(const cera_generate_options *o)
{
    return o->top_k > 0;
}

static bool top_n_sigma_on(const cera_generate_options *o)
{
    return o->top_n_sigma > 0.0f;
}

static bool typical_on(const cera_generate_options *o)
{
    return o->typical_p < 1.0f;
}

static bool top_p_on(const cera_generate_options *o)
{
    return o->top_p < 1.0f;
}

static bool min_p_on(const cera_generate_options *o)
{
    return o->min_p > 0.0f;
}

static bool xtc_on(const cera_generate_options *o)
{
    return o->xtc_probability > 0.0f;
}

typedef enum stage_kind {
    LOGITS, /* changes values, of a list or of all */
    LIST,   /* makes its list */
    FILTER, /* wants a list with weights */
} stage_kind;

static const struct {
    stage_kind kind;
    bool in_greedy, in_mirostat;
    bool (*is_on)(const cera_generate_options *options);
    void (*run)(cr_sampler *sampler);
} stages[] = {
    [CERA_SAMPLER_PENALTIES] = { LOGITS, true, true, penalties_on, run_penalties },
    [CERA_SAMPLER_DRY] = { LOGITS, true, true, dry_on, run_dry },
    [CERA_SAMPLER_TEMPERATURE] = { LOGITS, false, true, temperature_on, run_temperature },
    [CERA_SAMPLER_TOP_N_SIGMA] = { LIST, false, false, top_n_sigma_on, run_top_n_sigma },
    [CERA_SAMPLER_TOP_K] = { LIST, false, false, top_k_on, run_top_k },
    [CERA_SAMPLER_TYPICAL_P] = { FILTER, false, false, typical_on, run_typical },
    [CERA_SAMPLER_TOP_P] = { FILTER, false, false, top_p_on, run_top_p },
    [CERA_SAMPLER_MIN_P] = { FILTER, false, false, min_p_on, run_min_p },
    [CERA_SAMPLER_XTC] = { FILTER, false, false, xtc_on, run_xtc },
};

/* ---- options ----------------------------------------------------------------------------- */

/* The numbers and what they may be. */
#define AT(field) #field, offsetof(cera_generate_options, field)
static const struct {
    const char *name;
    size_t at;
    float min, max;
    bool is_open; /* min itself is refused */
} reals[] = {
    { AT(top_p), 0, 1, false },
    { AT(min_p), 0, 1, false },
    { AT(typical_p), 0, 1, false },
    { AT(top_n_sigma), 0, FLT_MAX, false },
    { AT(xtc_probability), 0, 1, false },
    { AT(xtc_threshold), 0, 1, false },
    { AT(mirostat_tau), 0, FLT_MAX, false },
    { AT(mirostat_eta), 0, FLT_MAX, false },
    { AT(temperature_exponent), 0, FLT_MAX, false },
    { AT(repetition_penalty), 0, FLT_MAX, true },
    { AT(frequency_penalty), -FLT_MAX, FLT_MAX, false },
    { AT(presence_penalty), -FLT_MAX, FLT_MAX, false },
    { AT(dry_multiplier), 0, FLT_MAX, false },
    { AT(dry_base), 1, FLT_MAX, false },
};
static const struct {
    const char *name;
    size_t at;
    int min, max;
} integers[] = {
    { AT(top_k), 0, INT32_MAX },
    { AT(penalty_window), -1, INT32_MAX },
    { AT(dry_allowed_length), 1, INT32_MAX },
    { AT(dry_window), -1, INT32_MAX },
    { AT(n_logprobs), 0, MAX_LOGPROBS },
};
#undef AT

static cera_status check_numbers(const cera_generate_options *options, cera_error *err)
{
    for (size_t i = 0; i < CR_COUNT(reals); i++) {
        float value;
        memcpy(&value, (const char *)options + reals[i].at, sizeof value);
        bool good = value >= reals[i].min && value <= reals[i].max;
        if (good && !(reals[i].is_open && value == reals[i].min))
            continue;
        const char *above = reals[i].is_open ? "above" : "from";
        if (reals[i].max == FLT_MAX)
            return cr_fail(err, CERA_E_ARG, "%s: expected a finite number %s %g, found %g",
                           reals[i].name, above, (double)reals[i].min, (double)value);
        return cr_fail(err, CERA_E_ARG, "%s: expected a number %s %g to %g, found %g",
                       reals[i].name, above, (double)reals[i].min, (double)reals[i].max,
                       (double)value);
    }
    for (size_t i = 0; i < CR_COUNT(integers); i++) {
        int value;
        memcpy(&value, (const char *)options + integers[i].at, sizeof value);
        if (value < integers[i].min)
            return cr_fail(err, CERA_E_ARG, "%s: expected %d or more, found %d", integers[i].name,
                           integers[i].min, value);
        if (value > integers[i].max)
            return cr_fail(err, CERA_E_ARG, "%s: expected %d to %d, found %d", integers[i].name,
                           integers[i].min, integers[i].max, value);
    }
    float range = options->temperature_range;
    if (!(range >= 0.0f) || range > fmaxf(options->temperature, 0.0f))
        return cr_fail(err, CERA_E_ARG,
                       "temperature_range: expected a number from 0 to the temperature, found %g",
                       (double)range);
    return CERA_OK;
}

static cera_status check_bias(const cera_generate_options *options, size_t n_vocab, cera_error *err)
{
    if (options->n_bias > MAX_BIAS)
        return cr_fail(err, CERA_E_ARG, "bias: expected at most %d entries, found %zu", MAX_BIAS,
                       options->n_bias);
    if (options->n_bias > 0 && options->bias == NULL)
        return cr_fail(err, CERA_E_ARG, "bias: expected %zu entries, found NULL", options->n_bias);
    for (size_t i = 0; i < options->n_bias; i++) {
        cera_logit_bias bias = options->bias[i];
        if (bias.id < 0 || (size_t)bias.id >= n_vocab)
            return cr_fail(err, CERA_E_ARG, "bias: expected a token id from 0 to %zu, found %ld",
                           n_vocab - 1, (long)bias.id);
        if (isnan(bias.bias) || bias.bias == INFINITY)
            return cr_fail(err, CERA_E_ARG,
                           "bias: expected a finite number or -inf for token %ld, found %g",
                           (long)bias.id, (double)bias.bias);
    }
    return CERA_OK;
}

static cera_status check_samplers(const cera_generate_options *options, cera_error *err)
{
    bool found[N_STAGES] = { false };
    if (!options->samplers && options->n_samplers > 0)
        return cr_fail(err, CERA_E_ARG, "samplers: expected %zu, found NULL", options->n_samplers);
    for (size_t i = 0; options->samplers && i < options->n_samplers; i++) {
        size_t stage = (size_t)options->samplers[i];
        if (stage >= N_STAGES || found[stage])
            return cr_fail(err, CERA_E_ARG,
                           "samplers: expected each of the %d at most once, %s %zu", N_STAGES,
                           stage < N_STAGES ? "twice found" : "found", stage);
        found[stage] = true;
    }
    return CERA_OK;
}

/* Those of the list that have something to do, in its order. */
static void choose_stages(cr_sampler *sampler)
{
    const cera_generate_options *o = &sampler->o;
    bool has_mirostat = o->mirostat_tau > 0.0f, has_top_k = false;
    size_t n = o->samplers ? o->n_samplers : N_STAGES;
    for (size_t i = 0; i < n; i++)
        has_top_k |= !o->samplers || o->samplers[i] == CERA_SAMPLER_TOP_K;
    sampler->greedy = !isfinite(o->temperature) || o->temperature <= 0.0f ||
                      (o->top_k == 1 && has_top_k && !has_mirostat);
    for (size_t i = 0; i < n; i++) {
        size_t stage = o->samplers ? (size_t)o->samplers[i] : i;
        if (stages[stage].is_on(o) && (stages[stage].in_greedy || !sampler->greedy) &&
            (stages[stage].in_mirostat || !has_mirostat))
            sampler->stages[sampler->n_stages++] = (cera_sampler)stage;
    }
}

/* ---- memory: one allocation, cut into the arrays ----------------------------------------- */

static void *carve(char *base, size_t *used, size_t size)
{
    void *part = base != NULL ? base + *used : NULL;
    *used += (size + 63) & ~(size_t)63;
    return part;
}

/* Called twice: with base NULL it only measures. The sizes cannot overflow: n_vocab and n_context
 * are at most 2^31 (ids are int32_t) and at most 30 bytes are needed for each. */
static size_t lay_out(cr_sampler *sampler, char *base, size_t n_vocab, size_t n_context,
                      const cera_generate_options *options)
{
    size_t used = 0, n_dry_vocab = dry_on(options) ? n_vocab : 0;
    size_t bits = n_words(n_vocab) * sizeof(uint64_t);
    carve(base, &used, sizeof(cr_sampler));
    sampler->bias = carve(base, &used, options->n_bias * sizeof(cera_logit_bias));
    sampler->banned = carve(base, &used, bits);
    sampler->counts.seen = carve(base, &used, bits);
    sampler->counts.count = carve(base, &used, n_vocab * sizeof(int32_t));
    sampler->dry.breaks = carve(base, &used, n_words(n_dry_vocab) * sizeof(uint64_t));
    sampler->dry.longest = carve(base, &used, n_dry_vocab * sizeof(int32_t));
    sampler->dry.matching = carve(base, &used, (n_dry_vocab > 0 ? n_context : 0) * sizeof(int32_t));
    sampler->list.id = carve(base, &used, n_vocab * sizeof(int32_t));
    sampler->list.value = carve(base, &used, n_vocab * sizeof(float));
    sampler->list.rank = carve(base, &used, n_vocab * sizeof(float));
    sampler->list.weight = carve(base, &used, n_vocab * sizeof(double));
    sampler->list.bins = carve(base, &used, CR_FILTER_BINS * sizeof(double));
    return used;
}

cera_status cr_sampler_new(cr_host *host, size_t n_vocab, size_t n_context,
                           const cera_generate_options *options, cr_sampler **out, cera_error *err)
{
    if (n_vocab == 0 || n_vocab > INT32_MAX)
        return cr_fail(err, CERA_E_ARG, "vocabulary: expected 1 to %ld tokens, found %zu",
                       (long)INT32_MAX, n_vocab);
    CR_TRY(check_numbers(options, err));
    CR_TRY(check_bias(options, n_vocab, err));
    CR_TRY(check_samplers(options, err));

    cr_sampler layout;
    size_t size = lay_out(&layout, NULL, n_vocab, n_context, options);
    cr_sampler *sampler = cr_alloc(host, CR_MEM_SCRATCH, size);
    if (sampler == NULL)
        return cr_fail_nomem(err, size, "the sampler");
    lay_out(&layout, (char *)sampler, n_vocab, n_context, options);
    memset(sampler, 0,
           (size_t)((char *)layout.list.id - (char *)sampler)); /* the list comes last */
    lay_out(sampler, (char *)sampler, n_vocab, n_context, options);

    sampler->host = host;
    sampler->size = size;
    sampler->n_vocab = n_vocab;
    sampler->o = *options;
    if (options->n_bias > 0)
        memcpy(sampler->bias, options->bias, options->n_bias * sizeof(cera_logit_bias));
    sampler->mu = 2.0 * (double)options->mirostat_tau;
    sampler->counts.n_vocab = n_vocab;
    sampler->dry.multiplier = options->dry_multiplier;
    sampler->dry.base = options->dry_base;
    sampler->dry.allowed_length = (int32_t)options->dry_allowed_length;
    choose_stages(sampler);
    cr_rng_seed(&sampler->rng, options->seed);
    *out = sampler;
    return CERA_OK;
}

void cr_sampler_free(cr_sampler *sampler)
{
    if (sampler != NULL)
        cr_free(sampler->host, CR_MEM_SCRATCH, sampler, sampler->size);
}

static void set_bit(uint64_t *bits, int32_t id)
{
    bits[id / 64] |= UINT64_C(1) << (id % 64);
}

void cr_sampler_ban(cr_sampler *sampler, int32_t id)
{
    if (id < 0 || (size_t)id >= sampler->n_vocab)
        return;
    set_bit(sampler->banned, id);
    sampler->has_ban = true;
}

bool cr_sampler_wants_breakers(const cr_sampler *sampler)
{
    return dry_on(&sampler->o);
}

void cr_sampler_break(cr_sampler *sampler, int32_t id)
{
    if (id >= 0 && (size_t)id < sampler->n_vocab)
        set_bit(sampler->dry.breaks, id);
}

/* ---- one token --------------------------------------------------------------------------- */

/* Takes those with a 1 out of the choice. Most words are all zeros or all ones. */
static void forbid(float *logits, size_t start, size_t end, uint64_t word)
{
    for (size_t i = start; word != 0 && i < end; i++, word >>= 1) {
        if ((word & 1) != 0)
            logits[i] = -INFINITY;
    }
}

static void apply_mask(const uint64_t *allowed, float *logits, size_t n_vocab)
{
    for (size_t start = 0; start < n_vocab; start += 64)
        forbid(logits, start, CR_MIN(start + 64, n_vocab), ~allowed[start / 64]);
}

static void apply_bias(const cr_sampler *sampler, float *logits)
{
    for (size_t i = 0; i < sampler->o.n_bias; i++) {
        cera_logit_bias bias = sampler->bias[i];
        float *logit = &logits[bias.id];
        if (bias.bias == -INFINITY)
            *logit = -INFINITY;
        else if (isfinite(*logit))
            *logit = cr_clamp_finite(*logit + bias.bias);
    }
    if (!sampler->has_ban)
        return;
    for (size_t start = 0; start < sampler->n_vocab; start += 64)
        forbid(logits, start, CR_MIN(start + 64, sampler->n_vocab), sampler->banned[start / 64]);
}

/* -1 when there is no candidate. */
static int32_t draw(cr_sampler *sampler)
{
    cr_candidates *list = &sampler->list;
    want_weights(sampler);
    if (list->n == 0)
        return -1;
    if (sampler->o.mirostat_tau <= 0.0f)
        return cr_filter_draw(list, cr_rng_unit(&sampler->rng));
    cr_filter_max_surprise(list, sampler->mu);
    int32_t id = cr_filter_draw(list, cr_rng_unit(&sampler->rng));
    double error = cr_filter_surprise(list, id) - (double)sampler->o.mirostat_tau;
    sampler->mu -= (double)sampler->o.mirostat_eta * error;
    return id;
}

void cr_sampler_drop(cr_sampler *sampler, const int32_t *history, size_t first, size_t n)
{
    cr_counts *counts = &sampler->counts;
    size_t from = counts->from;
    if (from > first)
        from = from > first + n ? from - n : first;
    /* All that was counted goes; the next token counts what is left of it again. */
    cr_counts_move(counts, history, counts->end, counts->end);
    counts->from = counts->end = from;
}

cera_status cr_sampler_next(cr_sampler *sampler, const float *logits, const uint64_t *allowed,
                            const int32_t *history, size_t n_history, int32_t *id, cera_error *err)
{
    cr_candidates *list = &sampler->list;
    if (!sampler->has_begun && sampler->o.penalty_window == 0)
        sampler->counts.from = sampler->counts.end = n_history;
    sampler->has_begun = true;
    sampler->history = history;
    sampler->n_history = n_history;
    sampler->temperature = 1.0;
    sampler->is_weighed = false;
    list->is_whole = true;
    list->n = sampler->n_vocab;
    memcpy(list->value, logits, sampler->n_vocab * sizeof(float));
    if (allowed)
        apply_mask(allowed, list->value, sampler->n_vocab);
    apply_bias(sampler, list->value);

    for (int i = 0; i < sampler->n_stages && list->n > 0; i++) {
        if (stages[sampler->stages[i]].kind == FILTER)
            want_weights(sampler);
        if (list->n > 0)
            stages[sampler->stages[i]].run(sampler);
    }
    int32_t chosen = sampler->greedy ? cr_argmax(list->value, sampler->n_vocab) : draw(sampler);
    if (chosen < 0 && allowed && cr_argmax(logits, sampler->n_vocab) >= 0)
        return cr_fail(
            err, CERA_E_ARG,
            "grammar: expected a token that it allows here and that is not banned, found "
            "none");
    if (chosen < 0 && cr_argmax(logits, sampler->n_vocab) >= 0)
        return cr_fail(err, CERA_E_ARG, "bias: expected a token that is not banned, found none");
    if (chosen < 0)
        return cr_fail(err, CERA_E_FORMAT, "logits: expected a finite value, found none");
    *id = chosen;
    return CERA_OK;
}

enum { PIECE = 64 };

/* Of a piece of a known length, so that compilers compare vectors. */
static bool has_greater(const float *logits, float max)
{
    int found = 0;
    for (int i = 0; i < PIECE; i++)
        found |= logits[i] > max;
    return found != 0;
}

/* Of 150,000 logits about a dozen are greater than all before them: pieces without one are passed
 * over. */
int32_t cr_argmax(const float *logits, size_t n)
{
    int32_t best = -1;
    float max = -INFINITY;
    for (size_t start = 0; start < n; start += PIECE) {
        size_t end = CR_MIN(start + PIECE, n);
        if (end - start == PIECE && !has_greater(logits + start, max))
            continue;
        for (size_t i = start; i < end; i++) {
            /* False for NaN; an infinity is as little a logit as NaN is. */
            if (logits[i] > max && logits[i] <= FLT_MAX) {
                max = logits[i];
                best = (int32_t)i;
            }
        }
    }
    return best;
}

/* ---- log-probabilities ------------------------------------------------------------------- */

/* Puts (id, logit) into its place in top[0, n_top), which is descending; ids come in ascending, so
 * an equal that is there already stays in front. */
static void insert_top(cera_logprob *top, int n_top, int32_t id, float logit)
{
    int i = n_top - 1;
    if (!(logit > top[i].logprob) && top[i].id >= 0)
        return;
    while (i > 0 && (top[i - 1].id < 0 || logit > top[i - 1].logprob)) {
        top[i] = top[i - 1];
        i--;
    }
    top[i] = (cera_logprob){ id, logit };
}

/*     log softmax(l)_i = (l_i - max) - log(sum_j exp(l_j - max))     */
float cr_logprobs(const float *logits, size_t n, int32_t id, cera_logprob *top, int n_top)
{
    assert(id >= 0 && (size_t)id < n);
    for (int i = 0; i < n_top; i++)
        top[i] = (cera_logprob){ -1, -INFINITY };
    int32_t best = cr_argmax(logits, n);
    if (best < 0)
        return -INFINITY;

    double max = (double)logits[best];
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(logits[i]))
            continue;
        sum += cr_exp_neg((double)logits[i] - max);
        if (n_top > 0)
            insert_top(top, n_top, (int32_t)i, logits[i]);
    }
    double log_sum = log(sum);
    for (int i = 0; i < n_top && top[i].id >= 0; i++)
        top[i].logprob = (float)((double)top[i].logprob - max - log_sum);
    return isfinite(logits[id]) ? (float)((double)logits[id] - max - log_sum) : -INFINITY;
}

/* bench: how fast a model runs here.
 *
 *     for each number of threads: an engine, a session
 *         for each depth, then each prompt length, then each length of generation: a test
 *             warm-up runs, then the runs that count; reset, fill to the depth, measure
 *
 * A prompt test times one append of n tokens. A generation test times n tokens, the first of which
 * needs an append of one: n forward passes and n choices of the largest logit. */
#define _DEFAULT_SOURCE
#include "cera.h"
#include "cli/bench_report.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/machine.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "common/bytes.h"
#include "common/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Tokens of a warm-up run of a generation: enough to touch all weights and to wake the threads. */
enum { WARMUP_TOKENS = 8 };
static const double BUSY_SHARE = 0.1;

typedef struct int_list {
    int *values;
    size_t n;
} int_list;

typedef struct bench {
    const cli_args *args;
    const char *path;
    int_list threads, prompts, generations, depths;
    int n_runs, n_warmups;
    prompt text; /* of --prompt-text */
    cera_host host;
    bench_report report;
    progress bar;
    size_t done, total; /* tokens, for the bar */

    cera_engine *engine;
    cera_engine_info info;
    cera_session *session;
    int32_t *ids; /* [n_ids] room for the longest input */
    size_t n_ids;
    uint64_t random;
    int32_t chosen; /* stored, so that the search is not left out */
} bench;

/* ---- command line ------------------------------------------------------------------------ */

static int bad_list(const cli_args *args, option_id id, int max)
{
    bytes what = { 0 }, why = { 0 };
    bytes_printf(&what, "%s has a value that it does not take: \"%s\"", args->option[id].typed,
                 args->option[id].text);
    bytes_printf(&why, "expected whole numbers from 0 to %d, separated by commas", max);
    report_error(EXIT_USAGE, what.data, why.data,
                 id == OPT_N_PROMPT ? "-p 128,512; a text goes behind --prompt-text" : NULL);
    bytes_done(&what);
    bytes_done(&why);
    return EXIT_USAGE;
}

/* The numbers of an option, or the one that stands for its absence. */
static int read_list(const cli_args *args, option_id id, int standard, int max, int_list *out)
{
    const char *text = is_set(args, id) ? args->option[id].text : NULL;
    out->values = bytes_alloc(text != NULL ? strlen(text) + 1 : 1, sizeof(int));
    if (text == NULL) {
        out->values[out->n++] = standard;
        return EXIT_OK;
    }
    bytes part = { 0 };
    bool good = true;
    const char *p = text;
    for (bool more = true; more && good;) {
        size_t n = strcspn(p, ",");
        int64_t value = 0;
        part.size = 0;
        bytes_append(&part, p, n);
        good = number_parse_i64(part.data, &value) && value >= 0 && value <= max;
        out->values[out->n++] = good ? (int)value : 0;
        more = p[n] == ',';
        p += n + 1;
    }
    bytes_done(&part);
    return good ? EXIT_OK : bad_list(args, id, max);
}

static bench_format read_format(const cli_args *args)
{
    static const struct {
        const char *name;
        bench_format format;
    } names[] = { { "md", BENCH_MD }, { "csv", BENCH_CSV }, { "json", BENCH_JSON } };
    if (!is_set(args, OPT_OUTPUT)) {
        if (wants_envelope(args) && strcmp(args->option[OPT_FORMAT].text, "jsonl") == 0)
            return BENCH_JSONL;
        return wants_json(args) ? BENCH_JSON : BENCH_MD;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(args->option[OPT_OUTPUT].text, names[i].name) == 0)
            return names[i].format;
    }
    return BENCH_JSONL;
}

static int read_command_line(bench *b)
{
    const cli_args *args = b->args;
    const option_value *values = args->option;
    int code = model_path(args, &b->path);
    if (code == EXIT_OK)
        code = read_list(args, OPT_N_PROMPT, 512, INT32_MAX, &b->prompts);
    if (code == EXIT_OK)
        code = read_list(args, OPT_N_GEN, 128, INT32_MAX, &b->generations);
    if (code == EXIT_OK)
        code = read_list(args, OPT_N_DEPTH, 0, INT32_MAX, &b->depths);
    if (code == EXIT_OK)
        code = read_list(args, OPT_BENCH_THREADS, 0, 256, &b->threads);
    if (code != EXIT_OK)
        return code;
    b->n_runs = is_set(args, OPT_REPETITIONS) ? (int)values[OPT_REPETITIONS].integer : 5;
    b->n_warmups = is_set(args, OPT_WARMUP) ? (int)values[OPT_WARMUP].integer : 1;
    if (is_set(args, OPT_NO_WARMUP))
        b->n_warmups = 0;
    b->report.format = read_format(args);
    b->report.setup = (bench_setup){
        .path = b->path,
        .chunk_size = (int)(is_set(args, OPT_UBATCH_SIZE) ? values[OPT_UBATCH_SIZE].integer : 512),
        .kv_type = model_kv_name(model_kv_type(args)),
        .has_roofline = is_set(args, OPT_ROOFLINE),
    };
    if (b->report.setup.chunk_size == 0)
        b->report.setup.chunk_size = (int)option_table[OPT_UBATCH_SIZE].max;
    return EXIT_OK;
}

/* ---- tests ------------------------------------------------------------------------------- */

/* Test i of those that run on one engine; false when there are no more. Lengths of 0 are no tests. */
static bool get_test(const bench *b, size_t i, bench_test *out)
{
    for (size_t d = 0; d < b->depths.n; d++) {
        for (size_t k = 0; k < b->prompts.n + b->generations.n; k++) {
            bool is_prompt = k < b->prompts.n;
            int n = is_prompt ? b->prompts.values[k] : b->generations.values[k - b->prompts.n];
            if (n == 0 || i-- > 0)
                continue;
            *out = (bench_test){ .n_depth = b->depths.values[d] };
            *(is_prompt ? &out->n_prompt : &out->n_gen) = n;
            return true;
        }
    }
    return false;
}

/* Positions that a test takes: a generation begins with a token that is given. */
static int64_t positions(const bench_test *test)
{
    return (int64_t)test->n_depth + test->n_prompt + test->n_gen + (test->n_gen > 0);
}

/* Finds the largest context that is needed and counts the work; says so when there is none. */
static int survey(bench *b, int64_t *need)
{
    bench_test test;
    *need = 0;
    for (size_t i = 0; get_test(b, i, &test); i++) {
        *need = positions(&test) > *need ? positions(&test) : *need;
        b->total += (size_t)positions(&test) * (size_t)b->n_runs * b->threads.n;
    }
    if (*need == 0)
        return report_error(EXIT_USAGE, "there is nothing to measure",
                            "all of --n-prompt and --n-gen are 0",
                            command_table[CMD_BENCH].example);
    return EXIT_OK;
}

static int does_not_fit(int64_t need, const cera_engine_info *info)
{
    bytes why = { 0 };
    bool model = info->context_size >= info->context_size_model;
    bytes_printf(&why, "the largest needs %lld tokens, the %s has room for %d", (long long)need,
                 model ? "model" : "context", info->context_size);
    report_error(EXIT_LIMIT, "a test does not fit the context", why.data,
                 model ? "smaller numbers behind -p, -n or -d" : "a larger --context-size");
    bytes_done(&why);
    return EXIT_LIMIT;
}

/* ---- input ------------------------------------------------------------------------------- */

/* SplitMix64, always from the same seed: every benchmark of a model computes the same tokens. */
static uint64_t next_random(bench *b)
{
    uint64_t x = b->random += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* Fills ids[0, n): the given text, over and over, or random tokens. These differ from run to run,
 * so that nothing that was remembered of the last one could help. */
static void fill_ids(bench *b, size_t n)
{
    const cera_vocab *vocab = cera_engine_vocab(b->engine);
    for (size_t i = 0; i < n; i++) {
        if (b->text.n_ids > 0) {
            b->ids[i] = b->text.ids[i % b->text.n_ids];
            continue;
        }
        /* Control tokens are rare in a text. A few attempts suffice but in a strange vocabulary. */
        for (int attempt = 0; attempt < 16; attempt++) {
            b->ids[i] = (int32_t)(next_random(b) % (uint64_t)b->info.n_vocab);
            if (!cera_vocab_is_control(vocab, b->ids[i]))
                break;
        }
    }
}

static int read_prompt_text(bench *b)
{
    if (!is_set(b->args, OPT_PROMPT_TEXT))
        return EXIT_OK;
    int code = prompt_encode(b->args, cera_engine_vocab(b->engine), &b->text);
    if (code == EXIT_OK && b->text.n_ids == 0)
        code = report_error(EXIT_USAGE, "the prompt is empty", "it has no tokens to compute",
                            "--prompt-text \"Once upon a time\"");
    /* Without -p the text is the prompt as it is. */
    if (code == EXIT_OK && !is_set(b->args, OPT_N_PROMPT))
        b->prompts.values[0] = (int)b->text.n_ids;
    return code;
}

/* ---- one run ----------------------------------------------------------------------------- */

static uint64_t now_ns(const bench *b)
{
    return b->host.os.clock_ns(b->host.os.ctx);
}

static void advance(bench *b, size_t n)
{
    b->done += n;
    progress_set(&b->bar, b->done, b->total);
}

/* The choice of a token from the logits of a prompt, which is part of the time to the first one. */
static int32_t best_id(const bench *b)
{
    const float *logits = cera_session_logits(b->session);
    int32_t best = 0;
    for (int32_t i = 1; i < b->info.n_vocab; i++) {
        if (logits[i] > logits[best])
            best = i;
    }
    return best;
}

/* When each token arrived. */
typedef struct marks {
    const bench *bench;
    uint64_t *at; /* [n] */
    size_t n;
} marks;

static int mark_token(void *user, const cera_token_info *token)
{
    (void)token;
    marks *m = user;
    m->at[m->n++] = now_ns(m->bench);
    return 0;
}

static cera_status run_prompt(bench *b, int n, uint64_t *run_ns, uint64_t *ttft_ns, cera_error *err)
{
    const int32_t *ids = b->ids + cera_session_position(b->session);
    uint64_t start = now_ns(b);
    cera_status status = cera_session_append_ids(b->session, ids, (size_t)n, err);
    *run_ns = now_ns(b) - start;
    if (status == CERA_OK)
        b->chosen = best_id(b);
    *ttft_ns = now_ns(b) - start;
    return status;
}

/* Gives the time of the first token and, in itl_ns[0, n - 1) unless it is NULL, of the others. */
static cera_status run_generation(bench *b, int n, uint64_t *run_ns, uint64_t *ttft_ns,
                                  uint64_t *itl_ns, cera_error *err)
{
    cera_generate_options options;
    cera_generate_options_init(&options);
    options.max_tokens = n;
    options.temperature = 0.0f;
    options.ignore_eos = true;
    marks m = { .bench = b, .at = bytes_alloc((size_t)n, sizeof(uint64_t)) };
    cera_sink sink = { .on_token = mark_token, .user = &m };
    cera_summary summary = { .finish = CERA_FINISH_LENGTH };

    const int32_t *ids = b->ids + cera_session_position(b->session);
    uint64_t start = now_ns(b);
    cera_status status = cera_session_append_ids(b->session, ids, 1, err);
    if (status == CERA_OK)
        status = cera_session_generate(b->session, &options, &sink, &summary, err);
    if (status == CERA_OK && summary.finish == CERA_FINISH_CANCELLED)
        status = CERA_E_CANCELLED;
    if (status == CERA_OK) {
        /* Up to the last token, not to the end of the call, which computes one step more. */
        *run_ns = m.at[m.n - 1] - start;
        *ttft_ns = m.at[0] - start;
        for (size_t i = 1; i < m.n && itl_ns != NULL; i++)
            itl_ns[i - 1] = m.at[i] - m.at[i - 1];
    }
    free(m.at);
    return status;
}

/* Runs a test from an empty session, and adds its times to the samples unless they are NULL. */
static cera_status run_once(bench *b, const bench_test *test, bench_samples *samples,
                            cera_error *err)
{
    size_t depth = (size_t)test->n_depth;
    uint64_t run_ns, ttft_ns;
    fill_ids(b, (size_t)positions(test));
    cera_session_reset(b->session);
    /* A signal between two runs has asked for a cancel that the reset has cleared. */
    if (interrupt_exit_code() != 0)
        return CERA_E_CANCELLED;
    if (depth > 0) {
        cera_status status = cera_session_append_ids(b->session, b->ids, depth, err);
        if (status != CERA_OK)
            return status;
    }
    cera_status status;
    if (test->n_prompt > 0)
        status = run_prompt(b, test->n_prompt, &run_ns, &ttft_ns, err);
    else
        status = run_generation(b, test->n_gen, &run_ns, &ttft_ns,
                                samples != NULL ? samples->itl_ns + samples->n_itl : NULL, err);
    if (status == CERA_OK && samples != NULL) {
        samples->run_ns[samples->n_runs] = run_ns;
        samples->ttft_ns[samples->n_runs++] = ttft_ns;
        samples->n_itl += test->n_gen > 0 ? (size_t)test->n_gen - 1 : 0;
    }
    return status;
}

/* ---- one test, one engine, all ------------------------------------------------------------ */

static int run_failed(cera_status status, const cera_error *err)
{
    if (status == CERA_E_CANCELLED && interrupt_exit_code() != 0)
        return interrupt_exit_code();
    return report_failure(WHILE_RUNNING, "cannot run the test", err);
}

static int run_test(bench *b, const bench_test *test)
{
    char name[BENCH_NAME_ROOM];
    bench_test_name(test, name);
    bench_test warm = *test;
    warm.n_depth = 0;
    warm.n_gen = test->n_gen < WARMUP_TOKENS ? test->n_gen : WARMUP_TOKENS;
    size_t n_runs = (size_t)b->n_runs;
    bench_samples samples = {
        .run_ns = bytes_alloc(n_runs, sizeof(uint64_t)),
        .ttft_ns = bytes_alloc(n_runs, sizeof(uint64_t)),
        .itl_ns = bytes_alloc(n_runs * (size_t)test->n_gen + 1, sizeof(uint64_t)),
    };
    cera_error err;
    cera_status status = CERA_OK;
    for (int i = 0; i < b->n_warmups && status == CERA_OK; i++)
        status = run_once(b, &warm, NULL, &err);

    time_t today = time(NULL);
    struct tm utc;
    if (gmtime_r(&today, &utc) != NULL)
        strftime(samples.test_time, sizeof(samples.test_time), "%Y-%m-%dT%H:%M:%SZ", &utc);
    for (int i = 0; i < b->n_runs && status == CERA_OK; i++) {
        status = run_once(b, test, &samples, &err);
        if (status != CERA_OK)
            break;
        advance(b, (size_t)positions(test));
        report_note(1, "%s, %d threads, run %d of %d: %.2f t/s", name, b->info.n_threads, i + 1,
                    b->n_runs,
                    (double)(test->n_prompt + test->n_gen) * 1e9 / (double)samples.run_ns[i]);
    }
    int code = EXIT_OK;
    progress_end(&b->bar);
    if (status != CERA_OK)
        code = run_failed(status, &err);
    else if (!bench_report_row(&b->report, &b->info, test, &samples))
        code = -1; /* the reader has gone: end without a word */
    free(samples.run_ns);
    free(samples.ttft_ns);
    free(samples.itl_ns);
    return code;
}

static int open_engine(bench *b, int n_threads, int context_size)
{
    /* What is a list here is one number for an engine. */
    cli_args args = *b->args;
    args.option[OPT_THREADS].integer = n_threads;
    args.option[OPT_CONTEXT_SIZE].integer = context_size;
    cera_engine_close(b->engine);
    b->engine = NULL;
    int code = model_open_engine(&args, b->path, &b->engine);
    if (code == EXIT_OK)
        cera_engine_get_info(b->engine, &b->info);
    return code;
}

/* All tests with the engine that is open. */
static int run_tests(bench *b)
{
    cera_error err;
    bench_setup *setup = &b->report.setup;
    if (setup->has_roofline && cera_engine_roofline(b->engine, &setup->roofline, &err) != CERA_OK)
        return report_failure(WHILE_RUNNING, "cannot measure the machine", &err);
    if (cera_session_new(b->engine, NULL, &b->session, &err) != CERA_OK)
        return report_failure(WHILE_RUNNING, "cannot start a session", &err);
    interrupt_watch(b->session);
    int code = EXIT_OK;
    bench_test test;
    for (size_t i = 0; code == EXIT_OK && get_test(b, i, &test); i++)
        code = run_test(b, &test);
    interrupt_watch(NULL);
    cera_session_free(b->session);
    b->session = NULL;
    return code;
}

static void warn_if_busy(void)
{
    double busy;
    int n_cpus;
    if (!machine_load(&busy, &n_cpus) || busy <= BUSY_SHARE * n_cpus)
        return;
    bytes text = { 0 };
    bytes_printf(&text,
                 "the machine is busy: other work takes %.0f %% of its %d processors, so the "
                 "results will vary",
                 busy * 100.0 / n_cpus, n_cpus);
    report_warning(text.data);
    bytes_done(&text);
}

static int measure(bench *b)
{
    /* A first engine tells how long the text is, and how large a context may be. */
    int asked = (int)b->args->option[OPT_CONTEXT_SIZE].integer;
    int code = open_engine(b, b->threads.values[0], asked);
    int64_t need;
    if (code == EXIT_OK)
        code = read_prompt_text(b);
    if (code == EXIT_OK)
        code = survey(b, &need);
    if (code != EXIT_OK)
        return code;
    int context_size = b->info.context_size;
    if (need > context_size) {
        if (asked != 0 || need > b->info.context_size_model)
            return does_not_fit(need, &b->info);
        context_size = (int)need;
    }
    b->n_ids = (size_t)need;
    b->ids = bytes_alloc(b->n_ids, sizeof(int32_t));

    warn_if_busy();
    progress_start(&b->bar, b->args, "bench");
    for (size_t i = 0; i < b->threads.n && code == EXIT_OK; i++) {
        if (i > 0 || context_size != b->info.context_size)
            code = open_engine(b, b->threads.values[i], context_size);
        if (code == EXIT_OK)
            code = run_tests(b);
    }
    bench_report_end(&b->report);
    return code < 0 ? EXIT_OK : code;
}

int command_BENCH(const cli_args *args)
{
    bench b = { .args = args };
    char cpu_name[256];
    cera_host_init(&b.host);
    int code = read_command_line(&b);
    if (code == EXIT_OK) {
        machine_cpu_name(cpu_name, sizeof(cpu_name));
        b.report.setup.cpu_name = cpu_name;
        if (is_set(args, OPT_PROMPT_TEXT)) {
            bytes text = { 0 };
            bytes_text(&text, args->option[OPT_PROMPT_TEXT].text);
            b.text = (prompt){ .text = text.data, .size = text.size };
        }
        code = measure(&b);
    }
    cera_engine_close(b.engine);
    prompt_done(&b.text);
    free(b.ids);
    free(b.threads.values);
    free(b.prompts.values);
    free(b.generations.values);
    free(b.depths.values);
    return code;
}

/* bench: how fast a model runs here.
 *
 *     for each number of threads: an engine, its sessions
 *         for each number of sessions, each depth, then each prompt length, then each length of
 *         generation: a test
 *             warm-up runs, then the runs that count; reset, fill to the depth, measure
 *
 * A prompt test times one append of n tokens. A generation test times n tokens, the first of which
 * needs an append of one: n forward passes and n choices of the largest logit. With several
 * sessions each does so on a thread of its own (bench_run.h). */
#define _DEFAULT_SOURCE
#include "cera.h"
#include "cli/bench_run.h"
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
/* Sessions that an engine computes in one step unless it is told otherwise, and at most. */
enum { USUAL_BATCH = 16, MOST_PARALLEL = 256 };
static const double BUSY_SHARE = 0.1;

typedef struct int_list {
    int *values;
    size_t n;
} int_list;

typedef struct bench {
    const cli_args *args;
    const char *path;
    int_list threads, prompts, generations, depths, parallels;
    int n_runs, n_warmups;
    prompt text; /* of --prompt-text */
    bench_report report;
    progress bar;
    size_t done, total; /* tokens, for the bar */

    cera_engine *engine;
    cera_engine_info info;
    int n_lanes;             /* the most sessions of a test */
    cera_session **sessions; /* [n_lanes] those of the lanes, for who cancels them */
    bench_crew crew;
    uint64_t random;
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
    } names[] = {
        { "md", BENCH_MD }, { "csv", BENCH_CSV }, { "json", BENCH_JSON }, { "sql", BENCH_SQL }
    };
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
    /* Lists first: the 99 of a "-ngl 99" would be a model. */
    int code = read_list(args, OPT_N_PROMPT, 512, INT32_MAX, &b->prompts);
    if (code == EXIT_OK)
        code = read_list(args, OPT_N_GEN, 128, INT32_MAX, &b->generations);
    if (code == EXIT_OK)
        code = read_list(args, OPT_N_DEPTH, 0, INT32_MAX, &b->depths);
    if (code == EXIT_OK)
        code = read_list(args, OPT_BENCH_THREADS, 0, 256, &b->threads);
    if (code == EXIT_OK)
        code = read_list(args, OPT_PARALLEL, 1, MOST_PARALLEL, &b->parallels);
    if (code == EXIT_OK)
        code = model_path(args, &b->path);
    if (code != EXIT_OK)
        return code;
    for (size_t i = 0; i < b->parallels.n; i++)
        b->n_lanes = b->parallels.values[i] > b->n_lanes ? b->parallels.values[i] : b->n_lanes;
    b->n_runs = is_set(args, OPT_REPETITIONS) ? (int)values[OPT_REPETITIONS].integer : 5;
    b->n_warmups = is_set(args, OPT_WARMUP) ? (int)values[OPT_WARMUP].integer : 1;
    if (is_set(args, OPT_NO_WARMUP))
        b->n_warmups = 0;
    b->report.format = read_format(args);
    b->report.setup = (bench_setup){
        .path = b->path,
        .chunk_size = (int)(is_set(args, OPT_UBATCH_SIZE) ? values[OPT_UBATCH_SIZE].integer : 512),
        .kv_type = model_kv_name(model_kv_type(args)),
        .is_mapped = !is_set(args, OPT_NO_MMAP),
        .is_parallel = b->n_lanes > 1,
        .has_roofline = is_set(args, OPT_ROOFLINE),
    };
    if (b->report.setup.chunk_size == 0)
        b->report.setup.chunk_size = (int)option_table[OPT_UBATCH_SIZE].max;
    return EXIT_OK;
}

/* ---- tests ------------------------------------------------------------------------------- */

/* Test i of those that run on one engine; false when there are no more. Lengths of 0 are no
 * tests. */
static bool get_test(const bench *b, size_t i, bench_test *out)
{
    for (size_t at = 0; at < b->parallels.n * b->depths.n; at++) {
        int n_parallel = b->parallels.values[at / b->depths.n];
        for (size_t k = 0; k < b->prompts.n + b->generations.n; k++) {
            bool is_prompt = k < b->prompts.n;
            int n = is_prompt ? b->prompts.values[k] : b->generations.values[k - b->prompts.n];
            if (n == 0 || n_parallel == 0 || i-- > 0)
                continue;
            *out = (bench_test){
                .n_depth = b->depths.values[at % b->depths.n],
                .n_parallel = n_parallel,
            };
            *(is_prompt ? &out->n_prompt : &out->n_gen) = n;
            return true;
        }
    }
    return false;
}

/* Positions that a session of a test takes: a generation begins with a token that is given. */
static int64_t positions(const bench_test *test)
{
    return (int64_t)test->n_depth + test->n_prompt + test->n_gen + (test->n_gen > 0);
}

/* Tokens of all its sessions. */
static size_t work_of(const bench_test *test)
{
    return (size_t)positions(test) * (size_t)test->n_parallel;
}

/* Finds the largest context that is needed and counts the work; says so when there is none. */
static int survey(bench *b, int64_t *need)
{
    bench_test test;
    *need = 0;
    for (size_t i = 0; get_test(b, i, &test); i++) {
        *need = positions(&test) > *need ? positions(&test) : *need;
        b->total += work_of(&test) * (size_t)b->n_runs * b->threads.n;
    }
    if (*need == 0)
        return report_error(EXIT_USAGE, "there is nothing to measure",
                            "all of --n-prompt and --n-gen, or of --parallel, are 0",
                            command_table[CMD_BENCH].example);
    return EXIT_OK;
}

static int does_not_fit(int64_t need, const cera_engine_info *info)
{
    bytes why = { 0 };
    bool model = need > info->context_size_model;
    bytes_printf(&why, "the largest needs %lld tokens, the %s has room for %d", (long long)need,
                 model ? "model" : "context",
                 model ? info->context_size_model : info->context_size);
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
static void fill_ids(bench *b, int32_t *ids, size_t n)
{
    const cera_vocab *vocab = cera_engine_vocab(b->engine);
    for (size_t i = 0; i < n; i++) {
        if (b->text.n_ids > 0) {
            ids[i] = b->text.ids[i % b->text.n_ids];
            continue;
        }
        /* Control tokens are rare in a text. A few attempts suffice but in a strange vocabulary. */
        for (int attempt = 0; attempt < 16; attempt++) {
            ids[i] = (int32_t)(next_random(b) % (uint64_t)b->info.n_vocab);
            if (!cera_vocab_is_control(vocab, ids[i]))
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

static void advance(bench *b, size_t n)
{
    b->done += n;
    progress_set(&b->bar, b->done, b->total);
}

/* Adds the times of a run to the samples. */
static void note_times(const bench *b, const bench_test *test, uint64_t start_ns,
                       bench_samples *samples)
{
    uint64_t end_ns = start_ns;
    for (int i = 0; i < test->n_parallel; i++) {
        const bench_lane *lane = &b->crew.lanes[i];
        end_ns = lane->end_ns > end_ns ? lane->end_ns : end_ns;
        samples->ttft_ns[samples->n_ttft++] = lane->at_ns[0] - start_ns;
        for (int k = 1; k < test->n_gen; k++)
            samples->itl_ns[samples->n_itl++] = lane->at_ns[k] - lane->at_ns[k - 1];
    }
    samples->run_ns[samples->n_runs++] = end_ns - start_ns;
}

/* Runs a test, and adds its times to the samples unless they are NULL. */
static cera_status run_once(bench *b, const bench_test *test, bench_samples *samples,
                            cera_error *err)
{
    for (int i = 0; i < test->n_parallel; i++)
        fill_ids(b, b->crew.lanes[i].ids, (size_t)positions(test));
    uint64_t start_ns;
    cera_status status = bench_run(&b->crew, test, &start_ns, err);
    if (status == CERA_OK && samples != NULL)
        note_times(b, test, start_ns, samples);
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
    size_t n_runs = (size_t)b->n_runs, n_lanes = (size_t)test->n_parallel;
    bench_samples samples = {
        .run_ns = bytes_alloc(n_runs, sizeof(uint64_t)),
        .ttft_ns = bytes_alloc(n_runs * n_lanes, sizeof(uint64_t)),
        .itl_ns = bytes_alloc(n_runs * n_lanes * (size_t)test->n_gen + 1, sizeof(uint64_t)),
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
        advance(b, work_of(test));
        report_note(1, "%s, %d threads, run %d of %d: %.2f t/s", name, b->info.n_threads, i + 1,
                    b->n_runs,
                    (double)test->n_parallel * (test->n_prompt + test->n_gen) * 1e9 /
                        (double)samples.run_ns[i]);
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
    args.option[OPT_PARALLEL].integer = b->n_lanes > USUAL_BATCH ? b->n_lanes : 0;
    cera_engine_close(b->engine);
    b->engine = NULL;
    int code = model_open_engine(&args, b->path, &b->engine);
    if (code == EXIT_OK)
        cera_engine_get_info(b->engine, &b->info);
    b->crew.n_vocab = b->info.n_vocab;
    return code;
}

/* One, and forks of it, which share its adapters. */
static int open_sessions(bench *b)
{
    cera_error err;
    int code = session_open(b->args, b->engine, NULL, &b->sessions[0]);
    for (int i = 1; i < b->n_lanes && code == EXIT_OK; i++) {
        if (cera_session_fork(b->sessions[0], &b->sessions[i], &err) != CERA_OK)
            code = report_failure(WHILE_RUNNING, "cannot start a session", &err);
    }
    for (int i = 0; i < b->n_lanes; i++)
        b->crew.lanes[i].session = b->sessions[i];
    return code;
}

/* All tests with the engine that is open. */
static int run_tests(bench *b)
{
    cera_error err;
    bench_setup *setup = &b->report.setup;
    if (interrupt_exit_code() != 0)
        return interrupt_exit_code();
    if (setup->has_roofline && cera_engine_roofline(b->engine, &setup->roofline, &err) != CERA_OK)
        return report_failure(WHILE_RUNNING, "cannot measure the machine", &err);
    int code = open_sessions(b);
    if (code == EXIT_OK)
        interrupt_watch_all(b->sessions, (size_t)b->n_lanes);
    bench_test test;
    for (size_t i = 0; code == EXIT_OK && get_test(b, i, &test); i++)
        code = run_test(b, &test);
    /* From here to the sessions of the next engine the first signal is only noted, lest it ends the
     * program with rows that wait to be printed. */
    static cera_session *const nobody = NULL;
    interrupt_watch_all(&nobody, b->report.n_rows > 0);
    for (int i = 0; i < b->n_lanes; i++) {
        cera_session_free(b->sessions[i]);
        b->sessions[i] = NULL;
    }
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

static void make_lanes(bench *b, size_t n_positions)
{
    b->sessions = bytes_alloc((size_t)b->n_lanes, sizeof(cera_session *));
    b->crew.lanes = bytes_alloc((size_t)b->n_lanes, sizeof(bench_lane));
    for (int i = 0; i < b->n_lanes; i++) {
        b->sessions[i] = NULL;
        b->crew.lanes[i] = (bench_lane){
            .ids = bytes_alloc(n_positions, sizeof(int32_t)),
            .at_ns = bytes_alloc(n_positions, sizeof(uint64_t)),
        };
    }
}

static void free_lanes(bench *b)
{
    for (int i = 0; i < b->n_lanes && b->crew.lanes != NULL; i++) {
        free(b->crew.lanes[i].ids);
        free(b->crew.lanes[i].at_ns);
    }
    free(b->crew.lanes);
    free(b->sessions);
}

/* With the first of the numbers of threads. */
static int tune(bench *b)
{
    cera_error err;
    int code = open_engine(b, b->threads.values[0], 0);
    if (code != EXIT_OK)
        return code;
    warn_if_busy();
    if (cera_engine_tune(b->engine, b->args->option[OPT_TUNE].text, &err) != CERA_OK)
        return report_failure(WHILE_RUNNING, "cannot tune", &err);
    return EXIT_OK;
}

static int measure(bench *b)
{
    /* A first engine tells how long the text is, and how large a context may be. */
    int asked = (int)b->args->option[OPT_CONTEXT_SIZE].integer;
    int code = out_check();
    if (code == EXIT_OK)
        code = open_engine(b, b->threads.values[0], asked);
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
    make_lanes(b, (size_t)need);

    warn_if_busy();
    progress_start(&b->bar, b->args, "bench");
    for (size_t i = 0; i < b->threads.n && code == EXIT_OK; i++) {
        if (i > 0 || context_size != b->info.context_size)
            code = open_engine(b, b->threads.values[i], context_size);
        if (code == EXIT_OK)
            code = run_tests(b);
    }
    interrupt_watch(NULL);
    bench_report_end(&b->report);
    return code < 0 ? EXIT_OK : code;
}

int command_BENCH(const cli_args *args)
{
    bench b = { .args = args };
    char cpu_name[256];
    cera_host_init(&b.crew.host);
    int code = read_command_line(&b);
    if (code == EXIT_OK) {
        machine_cpu_name(cpu_name, sizeof(cpu_name));
        b.report.setup.cpu_name = cpu_name;
        if (is_set(args, OPT_PROMPT_TEXT)) {
            bytes text = { 0 };
            bytes_text(&text, args->option[OPT_PROMPT_TEXT].text);
            b.text = (prompt){ .text = text.data, .size = text.size };
        }
        code = is_set(args, OPT_TUNE) ? tune(&b) : measure(&b);
    }
    cera_engine_close(b.engine);
    prompt_done(&b.text);
    free_lanes(&b);
    free(b.parallels.values);
    free(b.threads.values);
    free(b.prompts.values);
    free(b.generations.values);
    free(b.depths.values);
    return code;
}

/* The results of `cera bench`: one row a test, in the forms and with the keys of llama-bench, so
 * that scripts made for its files read these too. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "cera.h"

#include <jansson.h>
#include <stdbool.h>

typedef enum bench_format { BENCH_MD, BENCH_CSV, BENCH_JSON, BENCH_JSONL, BENCH_SQL } bench_format;

/* What is measured: a prompt of n_prompt tokens, or the generation of n_gen, the other is 0. */
typedef struct bench_test {
    int n_prompt, n_gen;
    int n_depth;    /* tokens that are in the context before, not timed */
    int n_parallel; /* sessions that do this at the same time */
} bench_test;

/* "pp512", "tg128 @ d512". */
enum { BENCH_NAME_ROOM = 48 };
void bench_test_name(const bench_test *test, char out[BENCH_NAME_ROOM]);

typedef struct bench_samples {
    char test_time[32]; /* when the test began, ISO 8601, UTC */
    int n_runs;
    uint64_t *run_ns;  /* [n_runs] */
    uint64_t *ttft_ns; /* [n_ttft] from the beginning of a run to each session's first token */
    uint64_t *itl_ns;  /* [n_itl] from a token to the next of its session, of all runs */
    size_t n_ttft, n_itl;
} bench_samples;

/* What the rows say about the model and how it runs. */
typedef struct bench_setup {
    const char *path, *cpu_name;
    int chunk_size;
    const char *kv_type; /* "f16" */
    bool is_mapped;
    bool is_parallel; /* in some test there are several sessions */
    bool has_roofline;
    cera_roofline roofline; /* of the engine that runs now */
} bench_setup;

typedef struct bench_report {
    bench_format format;
    bench_setup setup;
    size_t n_rows;
    json_t *rows; /* of JSON, which is printed at the end */
    char tier[16];
} bench_report;

/* Prints a row, or keeps it until the end. False when the reader of the output is gone. */
bool bench_report_row(bench_report *report, const cera_engine_info *info, const bench_test *test,
                      const bench_samples *samples);
/* Prints what is left: all that was measured, also when the measuring ended early. */
void bench_report_end(bench_report *report);

#endif

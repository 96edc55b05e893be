#include "cli/bench_report.h"

#include "cli/out.h"
#include "common/bytes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_test_name(const bench_test *test, char out[BENCH_NAME_ROOM])
{
    bool prompt = test->n_prompt > 0;
    int n = snprintf(out, BENCH_NAME_ROOM, "%s%d", prompt ? "pp" : "tg",
                     prompt ? test->n_prompt : test->n_gen);
    if (test->n_depth > 0)
        snprintf(out + n, BENCH_NAME_ROOM - (size_t)n, " @ d%d", test->n_depth);
}

/* ---- statistics -------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value below which a share (0 to 1) of sorted[0, n) lies, interpolated; n >= 1. */
static double quantile(const double *sorted, size_t n, double share)
{
    double place = share * (double)(n - 1);
    size_t below = (size_t)place;
    if (below + 1 >= n)
        return sorted[n - 1];
    return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

/* Times, or tokens per second, of a test. */
typedef struct series {
    double *values; /* [n] in the order of measurement */
    double *sorted; /* [n] */
    size_t n;
    double mean, deviation; /* of a sample: over n - 1; 0 for a single run */
} series;

static series series_new(size_t n)
{
    return (series){ .values = bytes_alloc(n, sizeof(double)),
                     .sorted = bytes_alloc(n, sizeof(double)),
                     .n = n };
}

static void series_finish(series *s)
{
    double sum = 0.0, squares = 0.0;
    for (size_t i = 0; i < s->n; i++) {
        sum += s->values[i];
        s->sorted[i] = s->values[i];
    }
    s->mean = s->n > 0 ? sum / (double)s->n : 0.0;
    for (size_t i = 0; i < s->n; i++)
        squares += (s->values[i] - s->mean) * (s->values[i] - s->mean);
    s->deviation = s->n > 1 ? sqrt(squares / (double)(s->n - 1)) : 0.0;
    qsort(s->sorted, s->n, sizeof(double), by_value);
}

static series series_of_ns(const uint64_t *ns, size_t n)
{
    series s = series_new(n);
    for (size_t i = 0; i < n; i++)
        s.values[i] = (double)ns[i];
    series_finish(&s);
    return s;
}

/* Of all sessions together. */
static series speed_of(const bench_test *test, const bench_samples *samples)
{
    double n_tokens = (double)test->n_parallel * (test->n_prompt + test->n_gen);
    series s = series_new((size_t)samples->n_runs);
    for (size_t i = 0; i < s.n; i++)
        s.values[i] = n_tokens * 1e9 / (double)(samples->run_ns[i] > 0 ? samples->run_ns[i] : 1);
    series_finish(&s);
    return s;
}

static void series_done(series *s)
{
    free(s->values);
    free(s->sorted);
}

/* ---- roofline ---------------------------------------------------------------------------- */

/* What bounds a test, the machine's rate of it, and how much of that the test has reached. Only
 * weights are counted, not attention; they are read once for the tokens of all sessions. */
typedef struct bound {
    const char *name, *unit;
    double rate, share;
} bound;

static bound bound_of(const bench_setup *setup, const bench_test *test,
                      const bench_samples *samples)
{
    const cera_roofline *r = &setup->roofline;
    series ns = series_of_ns(samples->run_ns, (size_t)samples->n_runs);
    double seconds = fmax(ns.mean, 1.0) * 1e-9;
    series_done(&ns);
    if (test->n_gen > 0)
        return (bound){ "read", "GB/s", r->read_rate,
                        (double)r->token_bytes * test->n_gen / seconds / r->read_rate };
    double macs =
        (double)(r->token_macs - r->result_macs) * test->n_prompt + (double)r->result_macs;
    macs *= test->n_parallel;
    return (bound){ "multiply", "GMAC/s", r->multiply_rate, macs / seconds / r->multiply_rate };
}

/* ---- one row as JSON, which CSV and SQL are made of --------------------------------------- */

/* "llama 135M Q4_1", as llama-bench names what it runs. */
static void describe_model(const cera_engine_info *info, char *out, size_t size)
{
    double n = (double)info->n_params;
    if (n >= 1e9)
        snprintf(out, size, "%s %.2fB %s", info->arch, n / 1e9, info->quant);
    else
        snprintf(out, size, "%s %.*fM %s", info->arch, n < 1e7 ? 1 : 0, n / 1e6, info->quant);
}

static json_t *whole(double value)
{
    return json_integer((json_int_t)llround(value));
}

/* Null where nothing was measured, such as the time between the tokens of a prompt. */
static json_t *quantiles(const series *s)
{
    static const struct {
        const char *name;
        double share;
    } shares[] = { { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 } };
    json_t *root = json_object();
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
        json_object_set_new(root, shares[i].name,
                            s->n > 0 ? whole(quantile(s->sorted, s->n, shares[i].share))
                                     : json_null());
    return root;
}

/* What rows of llama-bench say of devices and settings that do not exist here. llama.cpp's
 * scripts/compare-llama-bench.py reads no file that lacks one of these keys. */
static void add_llama_settings(json_t *row, const bench_setup *setup)
{
    json_t *settings = json_pack(
        "{s:i, s:s, s:i, s:i, s:s, s:i, s:b, s:b, s:b, s:s, s:s, s:s, s:b, s:i, s:s, s:i, s:i}",
        "build_number", 0, "gpu_info", "", "n_gpu_layers", 0, "n_cpu_moe", 0, "split_mode", "none",
        "main_gpu", 0, "no_kv_offload", false, "no_op_offload", false, "flash_attn", true,
        "tensor_split", "0.00", "tensor_buft_overrides", "none", "cpu_mask", "0x0", "cpu_strict",
        false, "poll", 0, "load_mode", setup->is_mapped ? "mmap" : "none", "fit_target", 0,
        "fit_min_ctx", 0);
    if (settings == NULL || json_object_update(row, settings) != 0 ||
        json_object_set_new(row, "embeddings", json_false()) != 0)
        bytes_no_memory();
    json_decref(settings);
}

static json_t *row_to_json(const bench_report *report, const cera_engine_info *info,
                           const bench_test *test, const bench_samples *samples)
{
    const bench_setup *setup = &report->setup;
    const char *kv_type = setup->kv_type;
    char model[128];
    describe_model(info, model, sizeof(model));
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:o, s:s, s:s, s:o, s:o, s:I, s:I, s:i, s:i, s:i, s:s, s:s}", "schema",
        "cera.bench/1", "cera_version", cera_version(), "build_commit", "unknown", "cpu_info",
        json_text(setup->cpu_name, strlen(setup->cpu_name)), "cpu_tier", info->cpu_tier, "backends",
        "CPU", "model_filename", json_text(setup->path, strlen(setup->path)), "model_type",
        json_text(model, strlen(model)), "model_size", (json_int_t)info->weight_bytes,
        "model_n_params", (json_int_t)info->n_params, "n_batch", setup->chunk_size, "n_ubatch",
        setup->chunk_size, "n_threads", info->n_threads, "type_k", kv_type, "type_v", kv_type);
    if (row == NULL)
        bytes_no_memory();
    add_llama_settings(row, setup);

    size_t n = (size_t)samples->n_runs;
    series ns = series_of_ns(samples->run_ns, n);
    series ts = speed_of(test, samples);
    series ttft = series_of_ns(samples->ttft_ns, samples->n_ttft);
    series itl = series_of_ns(samples->itl_ns, samples->n_itl);
    json_t *list_ns = json_array(), *list_ts = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list_ns, whole(ns.values[i]));
        json_array_append_new(list_ts, json_real(ts.values[i]));
    }
    json_t *measured = json_pack(
        "{s:i, s:i, s:i, s:i, s:s, s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o}",
        "n_prompt", test->n_prompt, "n_gen", test->n_gen, "n_depth", test->n_depth, "n_parallel",
        test->n_parallel, "test_time", samples->test_time, "avg_ns", whole(ns.mean), "stddev_ns",
        whole(ns.deviation), "avg_ts", ts.mean, "stddev_ts", ts.deviation, "p10_ts",
        quantile(ts.sorted, n, 0.1), "p50_ts", quantile(ts.sorted, n, 0.5), "p90_ts",
        quantile(ts.sorted, n, 0.9), "ttft_ns", quantiles(&ttft), "itl_ns", quantiles(&itl),
        "samples_ns", list_ns, "samples_ts", list_ts);
    if (measured == NULL || json_object_update(row, measured) != 0)
        bytes_no_memory();
    json_decref(measured);
    if (setup->has_roofline) {
        bound b = bound_of(setup, test, samples);
        json_t *reached = json_pack("{s:s, s:f, s:f}", "bound", b.name, "bound_rate", b.rate,
                                    "bound_share", b.share);
        if (reached == NULL || json_object_update(row, reached) != 0)
            bytes_no_memory();
        json_decref(reached);
    }
    series_done(&ns);
    series_done(&ts);
    series_done(&ttft);
    series_done(&itl);
    return row;
}

/* ---- CSV and SQL, which have a column for each key but those of arrays ------------------- */

static void append_quoted(bytes *out, const char *text, char quote)
{
    bytes_append(out, &quote, 1);
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == quote)
            bytes_append(out, p, 1);
        bytes_append(out, p, 1);
    }
    bytes_append(out, &quote, 1);
}

/* Nothing, of null. */
static void append_plain(bytes *out, const json_t *value)
{
    if (json_is_string(value))
        bytes_text(out, json_string_value(value));
    else if (json_is_integer(value))
        bytes_printf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        bytes_printf(out, "%f", json_real_value(value));
    else if (json_is_boolean(value))
        bytes_text(out, json_is_true(value) ? "1" : "0");
}

typedef void append_cell(bytes *out, const char *name, const json_t *value);

static void append_name(bytes *out, const char *name, const json_t *value)
{
    (void)value;
    bytes_text(out, name);
}

static void append_csv(bytes *out, const char *name, const json_t *value)
{
    (void)name;
    bytes text = { 0 };
    bytes_append(&text, "", 0);
    append_plain(&text, value);
    append_quoted(out, text.data, '"');
    bytes_done(&text);
}

static void append_sql(bytes *out, const char *name, const json_t *value)
{
    (void)name;
    if (json_is_string(value))
        append_quoted(out, json_string_value(value), '\'');
    else if (json_is_null(value))
        bytes_text(out, "NULL");
    else
        append_plain(out, value);
}

static void append_sql_column(bytes *out, const char *name, const json_t *value)
{
    bytes_printf(out, "%s %s", name,
                 json_is_string(value) ? "TEXT"
                 : json_is_real(value) ? "REAL"
                                       : "INTEGER");
}

/* A member b of an object a is the column a_b. */
static void append_columns(bytes *out, json_t *row, const char *between, append_cell *append)
{
    const char *key, *inner_key, *before = "";
    json_t *value, *inner;
    json_object_foreach (row, key, value) {
        if (json_is_array(value))
            continue;
        if (!json_is_object(value)) {
            bytes_text(out, before);
            append(out, key, value);
        }
        json_object_foreach (value, inner_key, inner) {
            bytes name = { 0 };
            bytes_printf(&name, "%s_%s", key, inner_key);
            bytes_text(out, before);
            append(out, name.data, inner);
            bytes_done(&name);
            before = between;
        }
        before = between;
    }
}

static bool print_csv(json_t *row, bool with_names)
{
    bytes text = { 0 };
    if (with_names) {
        append_columns(&text, row, ",", append_name);
        bytes_text(&text, "\n");
    }
    append_columns(&text, row, ",", append_csv);
    bytes_text(&text, "\n");
    bool good = out_write(text.data, text.size);
    bytes_done(&text);
    return good;
}

static bool print_sql(json_t *row, bool with_table)
{
    bytes text = { 0 };
    if (with_table) {
        bytes_text(&text, "CREATE TABLE IF NOT EXISTS llama_bench (\n  ");
        append_columns(&text, row, ",\n  ", append_sql_column);
        bytes_text(&text, "\n);\n\n");
    }
    bytes_text(&text, "INSERT INTO llama_bench (");
    append_columns(&text, row, ", ", append_name);
    bytes_text(&text, ") VALUES (");
    append_columns(&text, row, ", ", append_sql);
    bytes_text(&text, ");\n");
    bool good = out_write(text.data, text.size);
    bytes_done(&text);
    return good;
}

/* ---- Markdown ---------------------------------------------------------------------------- */

/* The columns, with llama-bench's names and widths. Those that are not always there appear when
 * their option is not at its default. */
enum { COLUMN_MODEL, COLUMN_SIZE, COLUMN_PARAMS, COLUMN_BACKEND, COLUMN_THREADS, COLUMN_UBATCH };
enum {
    COLUMN_TYPE_K = COLUMN_UBATCH + 1,
    COLUMN_TYPE_V,
    COLUMN_PARALLEL,
    COLUMN_TEST,
    COLUMN_SPEED,
    COLUMN_BOUND,
    N_COLUMNS
};
enum { DEFAULT_CHUNK = 512 };

static const struct {
    const char *name;
    int width;
    bool right;
} columns[N_COLUMNS] = {
    [COLUMN_MODEL] = { "model", 30, false },        [COLUMN_SIZE] = { "size", 10, true },
    [COLUMN_PARAMS] = { "params", 10, true },       [COLUMN_BACKEND] = { "backend", 10, false },
    [COLUMN_THREADS] = { "threads", 7, true },      [COLUMN_UBATCH] = { "n_ubatch", 8, true },
    [COLUMN_TYPE_K] = { "type_k", 6, true },        [COLUMN_TYPE_V] = { "type_v", 6, true },
    [COLUMN_PARALLEL] = { "n_parallel", 10, true }, [COLUMN_TEST] = { "test", 15, true },
    [COLUMN_SPEED] = { "t/s", 20, true },           [COLUMN_BOUND] = { "of the bound", 20, true },
};

static bool column_is_shown(const bench_setup *setup, int column)
{
    if (column == COLUMN_UBATCH)
        return setup->chunk_size != DEFAULT_CHUNK;
    if (column == COLUMN_TYPE_K || column == COLUMN_TYPE_V)
        return strcmp(setup->kv_type, "f16") != 0;
    if (column == COLUMN_PARALLEL)
        return setup->is_parallel;
    if (column == COLUMN_BOUND)
        return setup->has_roofline;
    return true;
}

/* Blanks make up for what is missing in characters, which are not bytes: see the plus-minus. */
static void append_padded(bytes *out, const char *text, int column)
{
    int n = 0;
    for (const char *p = text; *p != '\0'; p++)
        n += ((unsigned char)*p & 0xC0) != 0x80;
    int blanks = columns[column].width > n ? columns[column].width - n : 0;
    bool right = columns[column].right;
    bytes_printf(out, " %*s%s%*s |", right ? blanks : 0, "", text, right ? 0 : blanks, "");
}

static bool print_md_head(const bench_setup *setup)
{
    bytes text = { 0 };
    bytes_text(&text, "|");
    for (int c = 0; c < N_COLUMNS; c++) {
        if (column_is_shown(setup, c))
            append_padded(&text, columns[c].name, c);
    }
    bytes_text(&text, "\n|");
    for (int c = 0; c < N_COLUMNS; c++) {
        if (!column_is_shown(setup, c))
            continue;
        bytes_text(&text, " ");
        for (int i = 0; i < columns[c].width - columns[c].right; i++)
            bytes_text(&text, "-");
        bytes_text(&text, columns[c].right ? ": |" : " |");
    }
    bytes_text(&text, "\n");
    bool good = out_write(text.data, text.size);
    bytes_done(&text);
    return good;
}

static bool print_md_row(const bench_setup *setup, const cera_engine_info *info,
                         const bench_test *test, const bench_samples *samples)
{
    char cells[N_COLUMNS][128] = { 0 };
    enum { ROOM = sizeof(cells[0]) };
    double bytes_count = (double)info->weight_bytes, n_params = (double)info->n_params;
    bool gib = bytes_count >= 1024.0 * 1024.0 * 1024.0, billions = n_params >= 1e9;
    describe_model(info, cells[COLUMN_MODEL], ROOM);
    snprintf(cells[COLUMN_SIZE], ROOM, "%.2f %s",
             bytes_count / (1024.0 * 1024.0 * (gib ? 1024.0 : 1.0)), gib ? "GiB" : "MiB");
    snprintf(cells[COLUMN_PARAMS], ROOM, "%.2f %s", n_params / (billions ? 1e9 : 1e6),
             billions ? "B" : "M");
    snprintf(cells[COLUMN_BACKEND], ROOM, "CPU");
    snprintf(cells[COLUMN_THREADS], ROOM, "%d", info->n_threads);
    snprintf(cells[COLUMN_UBATCH], ROOM, "%d", setup->chunk_size);
    snprintf(cells[COLUMN_TYPE_K], ROOM, "%s", setup->kv_type);
    snprintf(cells[COLUMN_TYPE_V], ROOM, "%s", setup->kv_type);
    snprintf(cells[COLUMN_PARALLEL], ROOM, "%d", test->n_parallel);
    bench_test_name(test, cells[COLUMN_TEST]);
    series ts = speed_of(test, samples);
    snprintf(cells[COLUMN_SPEED], ROOM, "%.2f \u00b1 %.2f", ts.mean, ts.deviation);
    series_done(&ts);
    if (setup->has_roofline) {
        bound b = bound_of(setup, test, samples);
        snprintf(cells[COLUMN_BOUND], ROOM, "%.0f %% of %.1f %s", 100 * b.share, b.rate * 1e-9,
                 b.unit);
    }

    bytes text = { 0 };
    bytes_text(&text, "|");
    for (int c = 0; c < N_COLUMNS; c++) {
        if (column_is_shown(setup, c))
            append_padded(&text, cells[c], c);
    }
    bytes_text(&text, "\n");
    bool good = out_write(text.data, text.size);
    bytes_done(&text);
    return good;
}

/* ---- report ------------------------------------------------------------------------------ */

bool bench_report_row(bench_report *report, const cera_engine_info *info, const bench_test *test,
                      const bench_samples *samples)
{
    bool first = report->n_rows++ == 0;
    snprintf(report->tier, sizeof(report->tier), "%s", info->cpu_tier);
    if (report->format == BENCH_MD) {
        if (first && !print_md_head(&report->setup))
            return false;
        return print_md_row(&report->setup, info, test, samples);
    }
    json_t *row = row_to_json(report, info, test, samples);
    if (report->format == BENCH_JSONL)
        return out_json(row);
    if (report->format == BENCH_CSV || report->format == BENCH_SQL) {
        bool good = (report->format == BENCH_CSV ? print_csv : print_sql)(row, first);
        json_decref(row);
        return good;
    }
    if (report->rows == NULL)
        report->rows = json_array();
    if (json_array_append_new(report->rows, row) != 0)
        bytes_no_memory();
    return true;
}

void bench_report_end(bench_report *report)
{
    if (report->n_rows == 0)
        return;
    if (report->format == BENCH_JSON) {
        out_json(report->rows);
        report->rows = NULL;
    }
    if (report->format == BENCH_MD) {
        bytes text = { 0 };
        bytes_printf(&text, "\nbuild: cera %s (%s)\n", cera_version(), report->tier);
        out_write(text.data, text.size);
        bytes_done(&text);
    }
}

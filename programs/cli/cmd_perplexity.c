/* perplexity: how well a model predicts a text.
 *
 *     text ──> tokens ──> |bos 1 2 ... 511| |bos 513 ... 1023| ... rest
 *                          context | scored   context | scored
 *
 *     perplexity = exp(-sum of log p(token | its window so far) / number of scored tokens)
 *
 * Only what has at least half a window before it counts, so that the figure is about the model and
 * not about how short the windows are. */
#include "cera.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "common/bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_WINDOW = 512, LEAST_WINDOW = 3 };

typedef struct measure {
    size_t n_window;   /* tokens of a window */
    size_t n_windows;  /* to be measured */
    int32_t bos;       /* -1: windows begin with their own first token */
    size_t n_scored;   /* tokens so far */
    double sum, sum_2; /* of their negative log-likelihoods, and of the squares */
} measure;

/* Plain text: a text that talks about control tokens is still a text. */
static int encode(const cli_args *args, const cera_vocab *vocab, prompt *text)
{
    if (text->text == NULL || vocab == NULL)
        return prompt_encode(args, vocab, text);
    int32_t *ids = NULL;
    size_t n_ids = 0;
    cera_error err;
    if (cera_vocab_encode(vocab, text->text, text->size, NULL, &ids, &n_ids, &err) != CERA_OK)
        return report_failure(WHILE_RUNNING, "cannot turn the text into tokens", &err);
    text->ids = bytes_alloc(n_ids + 1, sizeof(int32_t));
    if (n_ids > 0)
        memcpy(text->ids, ids, n_ids * sizeof(int32_t));
    text->n_ids = n_ids;
    cera_vocab_free_ids(vocab, ids, n_ids);
    return EXIT_OK;
}

static int refuse(int code, const char *what, bytes *why, const char *hint)
{
    report_error(code, what, why->data, hint);
    bytes_done(why);
    return code;
}

/* Windows: as many as asked for, or as the text has. */
static int plan(const cli_args *args, const cera_engine *engine, size_t n_ids, measure *m)
{
    cera_engine_info info;
    cera_engine_get_info(engine, &info);
    cera_vocab_info vocab = { .bos = -1 };
    cera_vocab_get_info(cera_engine_vocab(engine), &vocab);
    size_t context = (size_t)info.context_size;
    size_t asked = (size_t)args->option[OPT_WINDOW_SIZE].integer;
    size_t usual = context < DEFAULT_WINDOW ? context : DEFAULT_WINDOW;
    *m = (measure){ .n_window = asked > 0 ? asked : usual, .bos = vocab.add_bos ? vocab.bos : -1 };

    bytes why = { 0 };
    if (m->n_window < LEAST_WINDOW || m->n_window > context) {
        bytes_printf(&why, "expected %d to %d tokens, found %zu", LEAST_WINDOW,
                     info.context_size_model, m->n_window);
        return refuse(EXIT_USAGE, "the window does not suit the model", &why, NULL);
    }
    m->n_windows = n_ids / m->n_window;
    if (m->n_windows == 0) {
        bytes_printf(&why, "it has %zu tokens, a window has %zu", n_ids, m->n_window);
        return refuse(EXIT_USAGE, "the text is too short to be measured", &why,
                      "a longer text, or a smaller --context-size");
    }
    size_t limit = (size_t)args->option[OPT_CHUNKS].integer;
    if (limit > 0 && limit < m->n_windows)
        m->n_windows = limit;
    return EXIT_OK;
}

/* Measures the window that begins at ids, whose first token may be changed. */
static cera_status measure_window(measure *m, cera_session *session, int32_t *ids, float *logprobs,
                                  cera_error *err)
{
    size_t n_before = m->n_window / 2 + 1, n = m->n_window - n_before;
    if (m->bos >= 0)
        ids[0] = m->bos;
    cera_session_reset(session);
    cera_status status = cera_session_append_ids(session, ids, n_before, err);
    if (status == CERA_OK)
        status = cera_session_score(session, ids + n_before, n, logprobs, err);
    if (status != CERA_OK)
        return status;
    for (size_t i = 0; i < n; i++) {
        double loss = -(double)logprobs[i];
        m->sum += loss;
        m->sum_2 += loss * loss;
    }
    m->n_scored += n;
    return CERA_OK;
}

static double perplexity(const measure *m)
{
    return exp(m->sum / (double)m->n_scored);
}

/* The standard error of the mean loss, carried through exp: d exp(x) = exp(x) dx. */
static double standard_error(const measure *m)
{
    double n = (double)m->n_scored, mean = m->sum / n;
    double variance = m->sum_2 / n - mean * mean;
    return n > 1 && variance > 0 ? sqrt(variance / (n - 1)) * perplexity(m) : 0.0;
}

static void print_measure(const cli_args *args, const char *path, const measure *m)
{
    if (wants_json(args)) {
        out_json(json_pack(
            "{s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "schema", "cera.perplexity/1", "model",
            json_text(path, strlen(path)), "perplexity", json_number(perplexity(m)),
            "standard_error", json_number(standard_error(m)), "mean_loss",
            json_number(m->sum / (double)m->n_scored), "tokens_scored", (json_int_t)m->n_scored,
            "windows", (json_int_t)m->n_windows, "window_size", (json_int_t)m->n_window));
        return;
    }
    bytes text = { 0 };
    bytes_printf(&text, "perplexity %.4f error %.5f tokens %zu windows %zu\n", perplexity(m),
                 standard_error(m), m->n_scored, m->n_windows);
    out_write(text.data, text.size);
    bytes_done(&text);
}

static int measure_all(const cli_args *args, measure *m, cera_session *session, int32_t *ids)
{
    progress bar;
    progress_start(&bar, args, "text");
    float *logprobs = bytes_alloc(m->n_window, sizeof(float));
    cera_status status = CERA_OK;
    cera_error err;
    for (size_t i = 0; i < m->n_windows && status == CERA_OK; i++) {
        /* A reset would forget a signal that came between two windows. */
        status = interrupt_exit_code() != 0
                     ? CERA_E_CANCELLED
                     : measure_window(m, session, ids + i * m->n_window, logprobs, &err);
        progress_set(&bar, (i + 1) * m->n_window, m->n_windows * m->n_window);
        if (status == CERA_OK)
            report_note(1, "window %zu of %zu: perplexity so far %.4f", i + 1, m->n_windows,
                        perplexity(m));
    }
    progress_end(&bar);
    free(logprobs);
    if (status == CERA_E_CANCELLED)
        return interrupt_exit_code();
    return status == CERA_OK ? EXIT_OK
                             : report_failure(WHILE_RUNNING, "cannot compute the text", &err);
}

static int compute(const cli_args *args, const char *path, cera_engine *engine, prompt *text)
{
    measure m;
    int code = encode(args, cera_engine_vocab(engine), text);
    if (code == EXIT_OK)
        code = plan(args, engine, text->n_ids, &m);
    if (code != EXIT_OK)
        return code;
    cera_session *session;
    cera_session_options options;
    cera_session_options_init(&options);
    options.context_size = (int)m.n_window;
    code = session_open(args, engine, &options, &session);
    if (code != EXIT_OK)
        return code;
    interrupt_watch(session);
    code = measure_all(args, &m, session, text->ids);
    interrupt_watch(NULL);
    if (code == EXIT_OK)
        print_measure(args, path, &m);
    cera_session_free(session);
    return code;
}

int command_PERPLEXITY(const cli_args *args)
{
    /* The engine's context has to hold a window. */
    cli_args wanted = *args;
    wanted.option[OPT_CONTEXT_SIZE].integer = args->option[OPT_WINDOW_SIZE].integer;
    return model_with_prompt(&wanted, compute);
}

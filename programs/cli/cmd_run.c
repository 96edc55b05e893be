/* run: a prompt in, text out, as it comes. */
#define _DEFAULT_SOURCE
#include "cera.h"
#include "cli/cli.h"
#include "cli/constraint.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/run_chat.h"
#include "cli/sampling.h"
#include "common/bytes.h"
#include "common/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_DRAFT = 8 }; /* guesses at a time */

/* The run's own state: what the sink collects, and what is printed at the end. */
typedef struct run_state {
    const cli_args *args;
    const char *path;
    bool json;
    const cera_vocab *vocab;
    bytes text;       /* with JSON only */
    char last;        /* the last byte written */
    json_t *tokens;   /* with JSON only */
    json_t *logprobs; /* with --logprobs only */
    cera_generate_options options;
    cera_summary summary;
    double prompt_ms;
} run_state;

/* ---- sink -------------------------------------------------------------------------------- */

static int on_text(void *user, const char *text, size_t n)
{
    run_state *run = user;
    if (run->json) {
        bytes_append(&run->text, text, n);
        return 0;
    }
    if (n > 0)
        run->last = text[n - 1];
    return out_write(text, n) ? 0 : 1;
}

/* {token, bytes} of an id, as in the answers of OpenAI's service. */
static json_t *describe_token(const run_state *run, int32_t id, float logprob)
{
    size_t n = 0;
    const char *piece = cera_vocab_piece(run->vocab, id, &n);
    json_t *raw = json_array();
    for (size_t i = 0; piece != NULL && i < n; i++)
        json_array_append_new(raw, json_integer((unsigned char)piece[i]));
    return json_pack("{s:i, s:o, s:o, s:o}", "id", (int)id, "token",
                     json_text(piece != NULL ? piece : "", piece != NULL ? n : 0), "logprob",
                     json_number((double)logprob), "bytes", raw);
}

static int on_token(void *user, const cera_token_info *token)
{
    run_state *run = user;
    json_array_append_new(run->tokens, json_integer(token->id));
    if (run->logprobs == NULL)
        return 0;
    json_t *top = json_array();
    for (int i = 0; i < token->n_top; i++)
        json_array_append_new(top, describe_token(run, token->top[i].id, token->top[i].logprob));
    json_t *entry = describe_token(run, token->id, token->logprob);
    json_object_set_new(entry, "top_logprobs", top);
    json_array_append_new(run->logprobs, entry);
    return 0;
}

/* ---- remarks and results ----------------------------------------------------------------- */

static void tell_start(const cera_engine *engine, const cera_generate_options *options,
                       size_t n_ids)
{
    cera_engine_info info;
    cera_engine_get_info(engine, &info);
    report_note(1, "Model: %s | %d layers | hidden=%d | %s | %.1fM parameters | loaded in %.1f ms",
                info.arch, info.n_layer, info.n_embd, info.quant, (double)info.n_params / 1e6,
                info.load_ms);
    report_note(1, "Runtime: %d threads | %s | context %d", info.n_threads, info.cpu_tier,
                info.context_size);
    sampling_tell(options, 1);
    report_note(1, "Prompt tokens: %zu", n_ids);
}

static double per_second(size_t n, double ms)
{
    return ms > 0.0 ? (double)n * 1000.0 / ms : 0.0;
}

static void tell_end(const run_state *run, size_t n_ids)
{
    const cera_summary *summary = &run->summary;
    const char *plural = summary->n_generated == 1 ? "" : "s";
    /* The end of the text that is not the model's own choice is worth a word. */
    if (summary->finish == CERA_FINISH_LENGTH && run->options.max_tokens != 0)
        report_note(0, "cera: stopped after %zu token%s (--max-tokens)", summary->n_generated,
                    plural);
    if (summary->finish == CERA_FINISH_CONTEXT)
        report_note(0, "cera: stopped after %zu token%s: the context is full (--context-size)",
                    summary->n_generated, plural);
    if (summary->is_unfinished)
        report_note(0, "cera: the text is not a whole one of the %s",
                    is_set(run->args, OPT_JSON_SCHEMA) || is_set(run->args, OPT_JSON_SCHEMA_FILE)
                        ? "schema"
                        : "grammar");
    report_note(1, "%s", "");
    report_note(1, "---");
    report_note(1, "Prompt tokens: %zu", n_ids);
    if (summary->n_reused > 0)
        report_note(1, "Known tokens: %zu", summary->n_reused);
    report_note(1, "Generated tokens: %zu", summary->n_generated);
    report_note(1, "Prefill: %.1f tok/s", per_second(n_ids, run->prompt_ms));
    report_note(1, "Decode: %.1f tok/s", per_second(summary->n_generated, summary->generate_ms));
    if (run->options.n_draft > 0)
        report_note(1, "Guessed tokens: %zu, right: %zu", summary->n_drafted, summary->n_accepted);
    report_note(1, "Finish: %s", cera_finish_name(summary->finish));
}

static void print_json(run_state *run, const cera_engine *engine, size_t n_ids)
{
    cera_engine_info info;
    cera_engine_get_info(engine, &info);
    const cera_summary *summary = &run->summary;
    json_t *root =
        json_pack("{s:s, s:o, s:o, s:o, s:s}", "schema", "cera.run/1", "model",
                  json_text(run->path, strlen(run->path)), "text",
                  json_text(run->text.size > 0 ? run->text.data : "", run->text.size), "tokens",
                  run->tokens, "finish_reason", cera_finish_name(summary->finish));
    if (run->options.grammar != NULL)
        json_object_set_new(root, "unfinished", json_boolean(summary->is_unfinished));
    if (run->logprobs != NULL)
        json_object_set_new(root, "logprobs", json_pack("{s:o}", "content", run->logprobs));
    json_object_set_new(root, "usage",
                        json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)n_ids,
                                  "completion_tokens", (json_int_t)summary->n_generated,
                                  "cached_tokens", (json_int_t)summary->n_reused));
    json_object_set_new(
        root, "timings",
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:o}", "load_ms", info.load_ms, "prompt_ms",
                  run->prompt_ms, "prompt_per_second", per_second(n_ids, run->prompt_ms),
                  "predicted_ms", summary->generate_ms, "predicted_per_second",
                  per_second(summary->n_generated, summary->generate_ms), "ttft_ms",
                  summary->n_generated > 0 ? json_real(run->prompt_ms + summary->first_token_ms)
                                           : json_null()));
    if (run->options.n_draft > 0)
        json_object_set_new(root, "drafts",
                            json_pack("{s:I, s:I}", "drafted", (json_int_t)summary->n_drafted,
                                      "accepted", (json_int_t)summary->n_accepted));
    out_json_seeded(root, run->options.seed);
}

/* ---- the work ---------------------------------------------------------------------------- */

/* On a terminal a long prompt is computed in parts, so that a bar can move. The bits are the
 * same. Where much of it may be known it is not cut: each part has a last token to compute. */
static cera_status append_prompt(const cli_args *args, cera_session *session, const prompt *text,
                                 size_t context_size, cera_error *err)
{
    enum { PART = 512 };
    progress bar;
    progress_start(&bar, args, "prompt");
    bool whole =
        bar.mode == PROGRESS_NONE || text->n_ids > context_size || is_set(args, OPT_CACHE_DIR);
    size_t part = whole ? text->n_ids : PART;
    if (part == 0)
        return cera_session_append_ids(session, text->ids, text->n_ids, err);
    cera_status status = CERA_OK;
    for (size_t done = 0; done < text->n_ids && status == CERA_OK;) {
        size_t n = text->n_ids - done < part ? text->n_ids - done : part;
        status = cera_session_append_ids(session, text->ids + done, n, err);
        done += n;
        if (status == CERA_OK)
            progress_set(&bar, done, text->n_ids);
    }
    progress_end(&bar);
    return status;
}

/* The session is open and the ids are there: compute, generate, print. */
static int generate(run_state *run, const cera_engine *engine, cera_session *session,
                    const prompt *text)
{
    cera_engine_info info;
    cera_engine_get_info(engine, &info);
    tell_start(engine, &run->options, text->n_ids);
    cera_error err;
    cera_status status = append_prompt(run->args, session, text, (size_t)info.context_size, &err);
    if (status == CERA_E_CANCELLED)
        return interrupt_exit_code();
    if (status == CERA_E_CONTEXT)
        return report_failure(WHILE_RUNNING, "the prompt does not fit the context", &err);
    if (status != CERA_OK)
        return report_failure(WHILE_RUNNING, "cannot compute the prompt", &err);

    cera_sink sink = { .on_text = on_text, .on_token = run->json ? on_token : NULL, .user = run };
    status = cera_session_generate(session, &run->options, &sink, &run->summary, &err);
    int code = EXIT_OK;
    if (status == CERA_E_ARG && strncmp(err.message, "grammar:", 8) == 0)
        code = report_error(EXIT_CONSTRAINT, "cannot generate text", err.message, NULL);
    else if (status != CERA_OK)
        code = report_failure(WHILE_RUNNING, "cannot generate text", &err);
    run->prompt_ms = run->summary.prompt_ms;
    if (status == CERA_OK && run->json) {
        print_json(run, engine, text->n_ids);
        run->tokens = run->logprobs = NULL; /* they went into the document */
    } else if (out_is_terminal() && run->last != '\n' && !run->json) {
        out_text("\n");
    }
    if (code == EXIT_OK)
        code = out_finish();
    if (status == CERA_OK && code == EXIT_OK)
        tell_end(run, text->n_ids);
    return interrupt_exit_code() != 0 ? interrupt_exit_code() : code;
}

static int run_engine(run_state *run, cera_engine *engine, prompt *text)
{
    cera_engine_info info;
    cera_engine_get_info(engine, &info);
    run->vocab = cera_engine_vocab(engine);
    int code = sampling_check(run->args, &run->options, info.n_vocab);
    if (code == EXIT_OK)
        code = constraint_open(run->args, run->vocab, &run->options.grammar);
    if (code == EXIT_OK)
        code = prompt_encode(run->args, run->vocab, text);
    if (code != EXIT_OK)
        return code;
    if (text->n_ids == 0)
        return report_error(EXIT_USAGE, "the prompt is empty", "it has no tokens to continue",
                            command_table[CMD_RUN].example);
    cera_session *session;
    code = session_open(run->args, engine, NULL, &session);
    if (code != EXIT_OK)
        return code;
    interrupt_watch(session);
    code = generate(run, engine, session, text);
    interrupt_watch(NULL);
    cera_session_free(session);
    return code;
}

/* What guesses tokens: nothing, the text itself, or another model, which is opened. */
static int open_draft(const cli_args *args, cera_generate_options *options)
{
    if (is_set(args, OPT_DRAFT_MAX) && !is_set(args, OPT_DRAFT_MODEL) && !is_set(args, OPT_LOOKUP))
        return report_error(EXIT_USAGE, "--draft-max needs something that guesses",
                            "it says how many tokens are guessed at a time",
                            "--lookup or --draft-model PATH");
    if (is_set(args, OPT_DRAFT_MODEL) && is_set(args, OPT_LOOKUP))
        return report_error(EXIT_USAGE, "--lookup and --draft-model exclude each other",
                            "tokens are guessed in one way", "one of them");
    if (!is_set(args, OPT_DRAFT_MODEL) && !is_set(args, OPT_LOOKUP))
        return EXIT_OK;
    options->n_draft =
        is_set(args, OPT_DRAFT_MAX) ? (int)args->option[OPT_DRAFT_MAX].integer : DEFAULT_DRAFT;
    return is_set(args, OPT_DRAFT_MODEL)
               ? model_open_draft(args, args->option[OPT_DRAFT_MODEL].text, &options->draft)
               : EXIT_OK;
}

int command_RUN(const cli_args *args)
{
    int code = out_check();
    if (code == EXIT_OK && run_is_chat(args))
        return run_chat(args);
    run_state run = { .args = args, .json = wants_envelope(args) };
    if (code == EXIT_OK)
        code = model_path(args, &run.path);
    if (code != EXIT_OK)
        return code;
    sampling chosen = { 0 };
    prompt text = { 0 };
    cera_engine *engine = NULL;
    code = sampling_read(args, &chosen);
    run.options = chosen.options;
    if (code == EXIT_OK && run.options.n_logprobs > 0 && !run.json)
        code = report_error(EXIT_USAGE, "--logprobs needs a place to go",
                            "standard output carries only the text", "--format json");
    if (code == EXIT_OK)
        code = prompt_read(args, OPT_PROMPT, &text);
    if (code == EXIT_OK)
        code = model_open_engine(args, run.path, &engine);
    if (code == EXIT_OK)
        code = open_draft(args, &run.options);
    if (code == EXIT_OK) {
        run.tokens = run.json ? json_array() : NULL;
        run.logprobs = run.options.n_logprobs > 0 ? json_array() : NULL;
        code = run_engine(&run, engine, &text);
    }
    json_decref(run.tokens);
    json_decref(run.logprobs);
    bytes_done(&run.text);
    cera_grammar_free(run.options.grammar);
    cera_engine_close(run.options.draft);
    cera_engine_close(engine);
    prompt_done(&text);
    sampling_done(&chosen);
    return code;
}
